"""What the roles of a Kubernetes cluster write for a light node, a machine and a controller, evaluated by Ansible itself.

The roles are copied with their modules replaced by an action that keeps its arguments in a file: nothing is installed or started.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from capacity.outputs import ansible_hosts
from capacity.services.cluster import NOTICES_DRILL, Cluster, Member, cluster
from capacity.services.platform.logins import authentication
from capacity.services.platform.runtime import NAME
from infra.kube.access import connect
from infra.kube.certificates import CLIENT, issue
from inventory.catalog import load_catalog
from tests.capacity.services.test_logins import LOGIN, logging_in
from tests.plans import plan_of
from tests.playbooks.support import PLAYBOOKS, ansible

ISSUER_CA = issue("issuer-ca").pem.decode()
CONTAINERD = "/etc/containerd/config.toml"
ROLES = (
    *("kubernetes", "kubernetes_control_plane", "kubernetes_balancer", "node_check", "kubelet"),
    *("kubernetes_metrics", "kubernetes_reservations", "kubernetes_notices"),
)
HOOKS = {"HOOK_RESEARCH": "https://chat.example/research", "HOOK_OTHERS": "https://chat.example/others"}
NOTICES = {
    "accounts": {"research": "env:HOOK_RESEARCH"},
    "others": {"default": "env:HOOK_OTHERS"},
    "names": ["services", "research"],
    "drill": {"account": "commissioning", "url": NOTICES_DRILL},
}
LIGHT = {"container": "systemd-nspawn", "cgroup": "v1", "memory_mib": 8000, "confining": []} | {
    "numa_nodes": 1,
    "swap": ["/dev/sda2"],
    "resolv_conf": "/etc/resolv.conf",
    "kubernetes_member": False,
}
METAL = {"container": "", "cgroup": "v2", "memory_mib": 2_000_000, "confining": ["memory"]} | {
    "numa_nodes": 8,
    "swap": [],
    "resolv_conf": "/run/systemd/resolve/resolv.conf",
    "kubernetes_member": False,
}
GRACE = METAL | {"numa_nodes": 34}
"""A GB200's, by https://github.com/kubernetes/kubernetes/pull/135581."""
KEPT = """import json
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        given = self._task.args
        with open(given["kept"], "a") as stream:
            stream.write(json.dumps({key: given.get(key) or [] for key in ("directories", "files")}) + "\\n")
        return {"changed": False}
"""
"""An action of the controller: a module would start a Python for each task of each host."""


def copied(folder: Path) -> None:
    """The roles with their files kept, and all that would act left out."""
    (folder / "actions").mkdir()
    (folder / "actions" / "kept.py").write_text(KEPT)
    for role in ROLES:
        target = folder / "roles" / role
        shutil.copytree(PLAYBOOKS / "roles" / role, target, ignore=shutil.ignore_patterns("handlers", "meta"))
        tasks = yaml.safe_load((target / "tasks" / "main.yml").read_text())
        kept = []
        for task in tasks:
            if "bringup_files" in task:
                given = task.pop("bringup_files") | {"kept": "{{ kept_in }}"}
                same = {key: task[key] for key in ("name", "vars", "when") if key in task}
                kept.append(same | {"kept": given})
        (target / "tasks" / "main.yml").write_text(yaml.safe_dump(kept))


def needed(role: str) -> dict[str, Any]:
    """A role as the role kubelet depends on it."""
    depends = yaml.safe_load((PLAYBOOKS / "roles" / "kubelet" / "meta" / "main.yml").read_text())["dependencies"]
    (found,) = [one for one in depends if one["role"] == role]
    return dict(found)


Written = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """{host: {path: file}} of a controller, a light node and a machine."""
    return write(tmp_path_factory.mktemp("roles"), replace(cluster(plan_of("lab-kubernetes")), notices_from="ctl01"))


@pytest.fixture(scope="module")
def written_of_three(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The same of a cluster with three controllers, on a site with a name server and logins, whose machine is a GB200."""
    authority = tmp_path_factory.mktemp("login") / "issuer-ca.pem"
    authority.write_text(ISSUER_CA)
    one = replace(cluster(logging_in()), login_ca=str(authority))
    more = (Member("ctl02", "10.79.1.18"), Member("ctl03", "10.79.1.19"))
    return write(
        tmp_path_factory.mktemp("roles"),
        replace(one, controllers=(*one.controllers, *more)),
        GRACE,
        bringup_dns=["192.0.2.53"],
    )


@pytest.fixture(scope="module")
def written_silent(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The same of a site whose file has no webhooks."""
    return write(tmp_path_factory.mktemp("roles"), cluster(plan_of("lab-kubernetes")))


def write(folder: Path, of: Cluster, machine: dict[str, Any] = METAL, **known: Any) -> Written:
    """What the roles write for a cluster. known: variables that differ from those of the site."""
    copied(folder)
    hosts = ansible_hosts.hosts_of(plan_of("lab-kubernetes"), load_catalog())
    hosts.common["bringup_kubernetes"] = of.plain()
    authority = issue("ca")
    client = issue("admin", authority=authority, usages=[CLIENT])
    pem = (client.pem + client.key_pem).decode()
    by_host: dict[str, dict[str, str]] = {}
    for one in hosts.common["bringup_kubernetes"]["certificates"]:
        by_host.setdefault(one["host"], {})[one["name"]] = pem
    names = hosts.common["bringup_kubernetes"]["authorities"]
    pki = {
        "certificates": by_host,
        "authorities": dict.fromkeys(names, authority.pem.decode()),
        "authority_keys": dict.fromkeys(names, "KEY"),
        "secrets": {
            "tokens.key": "KEY",
            "tokens.key.pub": "PUBLIC",
            "encryption.key": base64.b64encode(bytes(32)).decode(),
        },
    }
    common = {key: value for key, value in hosts.common.items() if key.startswith("bringup_")}
    assert common["bringup_notices"].keys() == NOTICES.keys()
    common["bringup_notices"] = NOTICES
    probes = {"ctl01": LIGHT, "gpu001": LIGHT, "gpu002": machine}
    inventory = {
        "all": {
            "vars": common
            | known
            | {"kubernetes_pki": pki, "ansible_connection": "local", "ansible_python_interpreter": sys.executable},
            "children": {
                "controller": {"hosts": {"ctl01": {"ansible_host": hosts.hosts["ctl01"]["ansible_host"]}}},
                "compute": {
                    "hosts": {
                        name: {"ansible_host": hosts.hosts[name]["ansible_host"]} for name in ("gpu001", "gpu002")
                    }
                },
                "nvidia": {"hosts": {"gpu001": {}}},
                "infiniband": {"hosts": {"gpu001": {}}},
            },
        }
    }
    for group in ("controller", "compute"):
        for name, own in inventory["all"]["children"][group]["hosts"].items():
            own |= {"bringup_probe": probes[name], "kept_in": str(folder / f"{name}.jsonl")}
    (folder / "hosts.yaml").write_text(yaml.safe_dump(inventory))
    book = [
        {"hosts": group, "gather_facts": False, "roles": ["kubernetes", *roles]}
        for group, roles in (
            (
                "controller",
                ["kubernetes_control_plane", "kubernetes_metrics", "kubernetes_reservations", "kubernetes_notices"],
            ),
            ("compute", ["kubernetes_balancer", needed("node_check"), "kubelet", "kubernetes_metrics"]),
        )
    ]
    (folder / "book.yml").write_text(yaml.safe_dump(book))
    done = ansible(
        "ansible-playbook",
        str(folder / "book.yml"),
        "-i",
        str(folder / "hosts.yaml"),
        var=folder / "var",
        options={
            "ANSIBLE_INVENTORY_ENABLED": "yaml",
            "ANSIBLE_ROLES_PATH": str(folder / "roles"),
            "ANSIBLE_ACTION_PLUGINS": str(folder / "actions"),
            **HOOKS,
        },
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in probes:
        lines = map(json.loads, (folder / f"{name}.jsonl").read_text().splitlines())
        found[name] = {one["path"]: one for line in lines for one in (*line["files"], *line["directories"])}
    return found


def flags(unit: str) -> dict[str, str]:
    """The arguments of a unit's program."""
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    return dict(word.removeprefix("--").split("=", 1) for word in line.split()[1:])


def unit(written: Any, host: str, name: str) -> str:
    return str(written[host][f"/etc/systemd/system/{name}.service"]["content"])


def test_every_file_that_the_control_plane_is_given_is_written(written: Any) -> None:
    for program in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        for key, value in flags(unit(written, "ctl01", program)).items():
            if value.startswith("/etc/kubernetes"):
                assert value in written["ctl01"], f"{program} --{key}={value}"


def test_everything_with_a_key_in_it_is_roots_alone(written: Any) -> None:
    for host, files in written.items():
        for path, file in files.items():
            if any(
                word in str(file.get("content")) for word in ("KEY", "PRIVATE", "secretbox: {keys", "client-key-data")
            ) and path.endswith((".yaml", ".kubeconfig", ".pem", ".key")):
                assert file.get("mode") == "0600", f"{host} {path}"
    assert written["ctl01"]["/etc/kubernetes/pki/ca.key"]["mode"] == "0600"
    assert "/etc/kubernetes/pki/ca.key" not in written["gpu001"]


def test_secrets_are_encrypted_first_and_read_as_they_were(written: Any) -> None:
    api = flags(unit(written, "ctl01", "kube-apiserver"))
    kept = yaml.safe_load(written["ctl01"][api["encryption-provider-config"]]["content"])
    (resources,) = kept["resources"]
    assert resources["resources"] == ["secrets"]
    assert [next(iter(one)) for one in resources["providers"]] == ["secretbox", "identity"]
    (key,) = resources["providers"][0]["secretbox"]["keys"]
    assert len(base64.b64decode(key["secret"])) == 32


def test_nobody_is_let_in_without_a_name_or_rights(written: Any) -> None:
    api = flags(unit(written, "ctl01", "kube-apiserver"))
    assert api["anonymous-auth"] == "false"
    assert api["authorization-mode"] == "Node,RBAC"
    assert api["enable-admission-plugins"] == "NodeRestriction"
    assert flags(unit(written, "ctl01", "etcd"))["client-cert-auth"] == "true"
    kubelet = yaml.safe_load(written["gpu001"]["/etc/kubernetes/kubelet.yaml"]["content"])
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}


def test_etcd_of_one_controller_listens_for_clients_on_loopback_alone(written: Any) -> None:
    assert flags(unit(written, "ctl01", "etcd"))["listen-client-urls"] == "https://127.0.0.1:2379"


def test_the_audit_log_keeps_no_body_of_a_secret(written: Any) -> None:
    policy = yaml.safe_load(written["ctl01"]["/etc/kubernetes/audit.yaml"]["content"])
    bodies = [number for number, rule in enumerate(policy["rules"]) if rule["level"] in ("Request", "RequestResponse")]
    secrets = [
        number
        for number, rule in enumerate(policy["rules"])
        if rule["level"] == "Metadata" and any("secrets" in one["resources"] for one in rule.get("resources", []))
    ]
    assert secrets[0] < bodies[0]


def test_the_administrators_kubeconfig_is_one_that_the_platform_layer_takes(written: Any, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(written["ctl01"]["/etc/kubernetes/admin.kubeconfig"]["content"])
    assert connect(path).server == "https://10.79.1.15:6443"


def test_a_machine_pins_cpus_and_a_light_node_does_not(written: Any) -> None:
    machine = yaml.safe_load(written["gpu002"]["/etc/kubernetes/kubelet.yaml"]["content"])
    assert (machine["cpuManagerPolicy"], machine["topologyManagerPolicy"]) == ("static", "restricted")
    assert machine["cgroupDriver"] == "systemd"
    assert int(machine["kubeReserved"]["cpu"]) > 0, "the static policy does not start without"
    assert "failSwapOn" not in machine
    light = yaml.safe_load(written["gpu001"]["/etc/kubernetes/kubelet.yaml"]["content"])
    assert (light["cpuManagerPolicy"], light["cgroupDriver"], light["failCgroupV1"]) == ("none", "cgroupfs", False)
    for host, wanted in (("gpu001", "SystemdCgroup = false"), ("gpu002", "SystemdCgroup = true")):
        assert wanted in written[host][CONTAINERD]["content"]
    assert "restrict_oom_score_adj" not in written["gpu002"][CONTAINERD]["content"]


def test_nodes_with_nvidias_stack_have_its_runtime_which_gives_granted_gpus_alone(written: Written) -> None:
    with_it, without = (tomllib.loads(written[host][CONTAINERD]["content"]) for host in ("gpu001", "gpu002"))
    runtimes = with_it["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]
    assert runtimes.keys() == {"runc", NAME}
    assert runtimes[NAME]["options"] == {"BinaryName": "/usr/bin/nvidia-container-runtime", "SystemdCgroup": False}
    assert runtimes[NAME]["runtime_type"] == runtimes["runc"]["runtime_type"]
    assert without["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"].keys() == {"runc"}
    said = tomllib.loads(written["gpu001"]["/etc/nvidia-container-runtime/config.toml"]["content"])
    assert said["accept-nvidia-visible-devices-envvar-when-unprivileged"] is False
    assert said["accept-nvidia-visible-devices-as-volume-mounts"] is True
    assert "/etc/nvidia-container-runtime/config.toml" not in written["gpu002"]


def test_containers_pin_memory_where_the_fabric_is_infiniband(written: Written) -> None:
    place = "/etc/systemd/system/containerd.service.d/bringup.conf"
    assert "LimitMEMLOCK=infinity" in written["gpu001"][place]["content"]
    assert place not in written["gpu002"]


def test_a_machine_of_more_numa_nodes_than_the_kubelet_supports_has_no_topology_manager(
    written_of_three: Written,
) -> None:
    grace = yaml.safe_load(written_of_three["gpu002"]["/etc/kubernetes/kubelet.yaml"]["content"])
    assert (grace["cpuManagerPolicy"], grace["topologyManagerPolicy"]) == ("static", "none")


def test_pods_get_the_name_servers_behind_a_stub_and_none_on_a_site_without(
    written: Written, written_of_three: Written
) -> None:
    for host, file in (("gpu001", "/etc/resolv.conf"), ("gpu002", "/run/systemd/resolve/resolv.conf")):
        path = "/etc/kubernetes/kubelet.yaml"
        assert yaml.safe_load(written_of_three[host][path]["content"])["resolvConf"] == file
        assert yaml.safe_load(written[host][path]["content"])["resolvConf"] == ""


def test_a_node_tells_of_all_its_images(written: Written) -> None:
    """Its default is the 50 largest; loads look for the image of pod sandboxes."""
    for host in ("gpu001", "gpu002"):
        assert yaml.safe_load(written[host]["/etc/kubernetes/kubelet.yaml"]["content"])["nodeStatusMaxImages"] == -1


FSTAB = """# <file system> <mount point> <type> <options>
UUID=1 / ext4 errors=remount-ro 0 1
#UUID=0 none swap sw 0 0
/swap.img\tnone\tswap\tsw\t0\t0
LABEL=swap /swap ext4 defaults 0 2
/dev/sda2 none swap sw,pri=5 0 0
"""


@pytest.fixture
def swapping(tmp_path: Path) -> Callable[..., str]:
    """A run of the role's tasks about swap but for the mask, on a server that swaps; fstab and swapoff are those of the folder."""
    tasks = yaml.safe_load((PLAYBOOKS / "roles" / "kubelet" / "tasks" / "main.yml").read_text())
    (block,) = [one for one in tasks if "swapoff" in str(one)]
    block["block"] = [one for one in block["block"] if "ansible.builtin.systemd_service" not in one]
    book = [{"hosts": "localhost", "gather_facts": False, "tasks": [block]}]
    (tmp_path / "book.yml").write_text(yaml.safe_dump(book).replace("/etc/fstab", str(tmp_path / "fstab")))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "swapoff").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path / "told"}\n')
    (tmp_path / "bin" / "swapoff").chmod(0o755)

    def run(probe: dict[str, Any], *arguments: str) -> str:
        given = {"bringup_probe": probe}
        done = ansible(
            "ansible-playbook",
            str(tmp_path / "book.yml"),
            *("-i", "localhost,", "-c", "local", "-e", json.dumps(given), *arguments),
            var=tmp_path / "var",
            options={"ANSIBLE_INVENTORY_ENABLED": "host_list", "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        (changed,) = re.findall(r"changed=(\d+)", done.stdout)
        return str(changed)

    return run


def test_a_machine_swaps_no_more_and_says_so_beforehand(swapping: Callable[..., str], tmp_path: Path) -> None:
    fstab, told = tmp_path / "fstab", tmp_path / "told"
    fstab.write_text(FSTAB)
    assert swapping(METAL | {"swap": ["/swap.img"]}, "--check") == "2"
    assert fstab.read_text() == FSTAB
    assert not told.exists()
    assert swapping(METAL | {"swap": ["/swap.img"]}) == "2"
    assert told.read_text() == "--all\n"
    left = [line for line in fstab.read_text().splitlines() if not line.startswith("#")]
    assert left == [line for line in FSTAB.splitlines() if not line.startswith("#") and "none" not in line.split()]
    assert "# Role kubelet, no swap: /swap.img\tnone\tswap" in fstab.read_text()
    assert swapping(METAL) == "0"


def test_a_light_node_leaves_its_hosts_swap_alone_and_a_machine_needs_no_fstab(
    swapping: Callable[..., str], tmp_path: Path
) -> None:
    assert swapping(METAL) == "0"
    (tmp_path / "fstab").write_text(FSTAB)
    assert swapping(LIGHT) == "0"


def test_pods_of_a_node_get_its_prefix_and_every_other_node_a_route_to_it(written: Any) -> None:
    network = json.loads(written["gpu001"]["/etc/cni/net.d/10-bringup.conflist"]["content"])
    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "100.64.0.0/24"}]]
    routes = [one for one in written["gpu002"]["/etc/kubernetes/pod-routes"]["content"].splitlines() if one[0] != "#"]
    assert routes == [
        "route replace 10.96.0.0/16 dev lo src 10.79.1.12",
        "route replace 100.64.0.0/24 via 10.79.1.11",
        "route replace 100.64.2.0/24 via 10.79.1.13",
        "route replace 100.64.3.0/24 via 10.79.1.14",
    ]
    assert len(written["ctl01"]["/etc/kubernetes/pod-routes"]["content"].splitlines()) == 5
    assert "ip_forward" in unit(written, "gpu001", "bringup-pod-routes")
    assert "ip_forward" not in unit(written, "ctl01", "bringup-pod-routes")


def test_what_a_gpu_node_passes_on_is_set_before_it_passes_on_anything(written: Any) -> None:
    routes, chain = unit(written, "gpu001", "bringup-pod-routes"), written["gpu001"]["/etc/kubernetes/forwarded.nft"]
    assert routes.index("nft -f /etc/kubernetes/forwarded.nft") < routes.index("ip_forward")
    rules = [line.strip() for line in chain["content"].splitlines() if line.startswith("\t\t")]
    assert rules == [
        "type filter hook forward priority filter; policy drop;",
        "ip daddr 10.79.0.0/24 drop",
        'iifname "cni0" accept',
        'oifname "cni0" accept',
    ]
    assert "/etc/kubernetes/forwarded.nft" not in written["ctl01"]


def test_kube_proxy_sets_its_rules_by_nftables_and_leaves_the_hosts_table_alone_in_a_container(written: Any) -> None:
    light, machine = (
        yaml.safe_load(written[host]["/etc/kubernetes/kube-proxy.yaml"]["content"]) for host in ("gpu001", "gpu002")
    )
    assert light["mode"] == machine["mode"] == "nftables"
    assert light["conntrack"] == {"maxPerCore": 0, "min": 0}
    assert machine["conntrack"] == {}


def test_metrics_are_written_where_the_node_exporter_reads_them(written: Any) -> None:
    folder = yaml.safe_load((PLAYBOOKS / "roles/node_exporter/defaults/main.yml").read_text())[
        "node_exporter_textfiles"
    ]
    program = "/usr/bin/python3 -I /usr/local/libexec/bringup/kubernetes_metrics.py"
    for host, more in (
        ("ctl01", " --control-plane --api-port 6443 --backups /var/backups/etcd --data /var/lib/etcd"),
        ("gpu001", ""),
    ):
        text = unit(written, host, "bringup-kubernetes-metrics")
        assert f"ExecStart={program} --file {folder}/bringup-kubernetes.prom{more}\n" in text, host
        assert program.split()[-1] in written[host]
    assert "/etc/kubernetes/pki/metrics.pem" in written["ctl01"]
    assert "/etc/kubernetes/pki/metrics.pem" not in written["gpu001"]


def test_api_servers_know_the_sites_issuer_where_it_has_one(written: Any, written_of_three: Any) -> None:
    argument = "--authentication-config=/etc/kubernetes/authentication.yaml"
    path = argument.partition("=")[2]
    assert argument in unit(written_of_three, "ctl01", "kube-apiserver").split()
    told = yaml.safe_load(written_of_three["ctl01"][path]["content"])
    wanted = authentication(LOGIN, "1.36.3")
    assert told["jwt"][0]["issuer"].pop("certificateAuthority") == ISSUER_CA.rstrip()
    assert told == wanted
    assert argument not in unit(written, "ctl01", "kube-apiserver")
    assert path not in written["ctl01"]
    assert argument not in unit(written_of_three, "ctl01", "kube-scheduler")


@pytest.mark.needs("openssl")
def test_an_authority_of_the_issuer_that_is_no_certificate_is_refused_before_the_api_server_reads_it(
    tmp_path: Path,
) -> None:
    tasks = yaml.safe_load((PLAYBOOKS / "roles" / "kubernetes_control_plane" / "tasks" / "main.yml").read_text())
    names = [one["name"] for one in tasks]
    first = names.index("Refuse an authority of the issuer that is no certificate")
    assert first < names.index("Write units and policies")
    book = [{"hosts": "localhost", "gather_facts": False, "tasks": tasks[first : first + 2]}]
    (tmp_path / "book.yml").write_text(yaml.safe_dump(book))
    path = tmp_path / "issuer-ca.pem"
    for text, wanted in ((ISSUER_CA, 0), ("not a certificate", 2), (None, 0)):
        path.write_text(text or "")
        given = json.dumps({"bringup_kubernetes": {"login_ca": str(path) if text else ""}})
        options = {"ANSIBLE_INVENTORY_ENABLED": "host_list"}
        words = (str(tmp_path / "book.yml"), "-i", "localhost,", "-c", "local", "-e", given)
        done = ansible("ansible-playbook", *words, var=tmp_path / "var", options=options)
        assert done.returncode == wanted, done.stdout[-2000:] + done.stderr
        assert ("scheduler.login.ca" in done.stdout) == bool(wanted)


def test_controllers_open_and_close_reservations_with_a_certificate_of_their_own(written: Any) -> None:
    program = "/usr/local/libexec/bringup/kubernetes_reservations.py"
    folder = yaml.safe_load((PLAYBOOKS / "roles/node_exporter/defaults/main.yml").read_text())[
        "node_exporter_textfiles"
    ]
    text = unit(written, "ctl01", "bringup-kubernetes-reservations")
    assert (
        f"ExecStart=/usr/bin/python3 -I {program} --metrics {folder}/bringup-reservations.prom --api-port 6443\n"
        in text
    )
    assert {program, "/etc/kubernetes/pki/reservations.pem"} <= set(written["ctl01"])
    timer = written["ctl01"]["/etc/systemd/system/bringup-kubernetes-reservations.timer"]["content"]
    assert "OnUnitInactiveSec=10\n" in timer
    assert not [path for path in written["gpu001"] if "reservations" in path]


def test_the_controller_that_sends_notices_has_their_program_certificate_and_webhooks(written: Any) -> None:
    files = written["ctl01"]
    assert files["/etc/bringup/notices.json"]["mode"] == "0600"
    assert json.loads(files["/etc/bringup/notices.json"]["content"]) == {
        "accounts": {"research": HOOKS["HOOK_RESEARCH"]},
        "default": HOOKS["HOOK_OTHERS"],
        "names": ["services", "research"],
        "drill": {"account": "commissioning", "url": NOTICES_DRILL},
    }
    for path, file in files.items():
        assert path == "/etc/bringup/notices.json" or "chat.example" not in str(file), path
    text = unit(written, "ctl01", "bringup-notices")
    assert (
        "kubernetes_notices.py --config /etc/bringup/notices.json --state /var/lib/bringup-notices/state.json " in text
    )
    assert "/usr/local/libexec/bringup/kubernetes_notices.py" in files
    assert "/etc/kubernetes/pki/notices.pem" in files
    assert "/etc/kubernetes/pki/notices.pem" not in written["gpu001"]


def test_a_controller_that_sends_no_notices_has_nothing_of_them(written_silent: Any) -> None:
    assert not [path for path in written_silent["ctl01"] if "notices" in path]


def test_what_an_earlier_run_left_of_notices_is_removed_where_none_are_sent(tmp_path: Path) -> None:
    text = (PLAYBOOKS / "roles" / "kubernetes_notices" / "tasks" / "main.yml").read_text()
    tasks = yaml.safe_load(text)
    (stop,) = [one for one in tasks if one.get("bringup_units", {}).get("units", [{}])[0].get("enabled") is False]
    (remove,) = [one for one in tasks if "ansible.builtin.file" in one]
    assert tasks.index(stop) < tasks.index(remove)
    assert stop["when"] == remove["when"]
    written = {one["path"] for task in tasks for one in task.get("bringup_files", {}).get("files", ())}
    assert written < set(remove["loop"]), "all that the role writes"
    remove["loop"] = [f"{tmp_path}{path}" for path in remove["loop"] if path.startswith("/")]
    del remove["notify"]
    (tmp_path / "book.yml").write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [remove]}])
    )

    def run(sender: str) -> str:
        given = json.dumps({"bringup_kubernetes": {"notices_from": sender}})
        options = {"ANSIBLE_INVENTORY_ENABLED": "host_list"}
        words = (str(tmp_path / "book.yml"), "-i", "localhost,", "-c", "local", "-e", given)
        done = ansible("ansible-playbook", *words, var=tmp_path / "var", options=options)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        return re.findall(r"changed=(\d+)", done.stdout)[0]

    paths = [Path(path) for path in remove["loop"]]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert run("localhost") == "0"
    assert all(path.exists() for path in paths)
    assert run("") == "1"
    assert not [path for path in paths if path.exists()]
    assert run("ctl01") == "0"


def test_the_health_check_of_a_node_runs_by_a_timer_within_a_budget_and_as_that_node(written: Any) -> None:
    given = json.loads(written["gpu001"]["/etc/bringup-node-check.json"]["content"])
    assert given["kubernetes"] == {
        "server": "https://10.79.1.15:6443",
        "node": "gpu001",
        "ca": "/etc/kubernetes/pki/ca.crt",
        "certificate": "/etc/kubernetes/pki/node-health.pem",
    }
    assert {given["kubernetes"]["ca"], given["kubernetes"]["certificate"]} <= set(written["gpu001"])
    assert (given["gpus"], given["held"]) == (8, {})  # workloads of the lab compute on CPUs
    assert given["disk_paths"] == ["/", "/var/lib/kubelet"]
    (path,) = [one for one in written["gpu001"] if one.endswith("node_check.py")]
    assert f"ExecStart=/usr/bin/python3 -I {path} health" in unit(written, "gpu001", "bringup-node-health")
    assert "TimeoutStartSec=30" in unit(written, "gpu001", "bringup-node-health")
    timer = written["gpu001"]["/etc/systemd/system/bringup-node-health.timer"]["content"]
    assert "OnUnitInactiveSec=30" in timer
    assert not any("node-health" in path for path in written["ctl01"])


HAPROXY = "/etc/haproxy/haproxy.cfg"


def test_a_node_of_one_controller_asks_it_and_has_no_balancer(written: Written) -> None:
    assert all(HAPROXY not in files for files in written.values())
    assert kubeconfig(written, "gpu001", "kubelet") == "https://10.79.1.15:6443"
    assert flags(unit(written, "ctl01", "kube-apiserver"))["goaway-chance"] == "0"


def test_a_node_of_three_controllers_asks_its_balancer_which_has_all_of_them(written_of_three: Written) -> None:
    for program in ("kubelet", "kube-proxy"):
        assert kubeconfig(written_of_three, "gpu001", program) == "https://127.0.0.1:6443"
    lines = [line.split() for line in written_of_three["gpu001"][HAPROXY]["content"].splitlines()]
    assert ["bind", "127.0.0.1:6443"] in lines
    assert [line[1:] for line in lines if line[:1] == ["server"]] == [
        ["ctl01", "10.79.1.15:6443"],
        ["ctl02", "10.79.1.18:6443"],
        ["ctl03", "10.79.1.19:6443"],
    ]
    assert HAPROXY not in written_of_three["ctl01"]


def test_files_that_the_balancer_reads_are_written_on_its_node(written_of_three: Written) -> None:
    words = written_of_three["gpu001"][HAPROXY]["content"].split()
    named = {word for word in words if word.startswith("/etc/kubernetes")}
    assert len(named) == 2
    assert named <= written_of_three["gpu001"].keys()


def test_each_controller_asks_its_own_api_server_and_several_elect_who_acts(written_of_three: Written) -> None:
    assert kubeconfig(written_of_three, "ctl01", "admin") == "https://10.79.1.15:6443"
    for program in ("kube-controller-manager", "kube-scheduler"):
        arguments = flags(unit(written_of_three, "ctl01", program))
        assert arguments["leader-elect"] == "true"
        assert kubeconfig(written_of_three, "ctl01", program.removeprefix("kube-")) == "https://127.0.0.1:6443"
    etcd = flags(unit(written_of_three, "ctl01", "etcd"))
    assert etcd["initial-cluster"].count(":2380") == 3


def test_no_unit_of_the_control_plane_starts_another(written_of_three: Written) -> None:
    for program in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        (wants,) = [line for line in unit(written_of_three, "ctl01", program).splitlines() if line.startswith("Wants=")]
        assert wants == "Wants=network-online.target"


def kubeconfig(written: Written, host: str, name: str) -> str:
    """The server that a kubeconfig names."""
    made = yaml.safe_load(written[host][f"/etc/kubernetes/{name}.kubeconfig"]["content"])
    return str(made["clusters"][0]["cluster"]["server"])


SYSTEMCTL = """#!/bin/sh
case $* in
  "show --value --property=MainPID etcd.service") echo {pid} ;;
  show*) echo 0 ;;
  *) exit 1 ;;
esac
"""


def release(folder: Path, version: str) -> Path:
    """A folder of programs: a kubelet that says its version, and an etcd that sleeps."""
    folder.mkdir(exist_ok=True)
    (folder / "kubelet").write_text(f"#!/bin/sh\necho Kubernetes v{version}\n")
    (folder / "etcd").write_bytes(Path("/bin/sleep").read_bytes() + version.encode())
    for one in folder.iterdir():
        one.chmod(0o755)
    return folder


@pytest.fixture
def upgrade(tmp_path: Path) -> Iterator[Callable[..., list[str]]]:
    """A run of the role's tasks before it signs anything, on a server whose etcd runs: the handlers that it calls."""
    target = tmp_path / "roles" / "kubernetes"
    shutil.copytree(PLAYBOOKS / "roles" / "kubernetes" / "defaults", target / "defaults")
    tasks = yaml.safe_load((PLAYBOOKS / "roles" / "kubernetes" / "tasks" / "main.yml").read_text())
    signs = next(number for number, one in enumerate(tasks) if "bringup_pki" in one)
    handler = {"name": "Restart", "ansible.builtin.debug": {"msg": "anew"}, "listen": "Kubernetes files changed"}
    for part, found in (("tasks", tasks[:signs]), ("handlers", [handler])):
        (target / part).mkdir()
        (target / part / "main.yml").write_text(yaml.safe_dump(found))
    book = [{"hosts": "localhost", "gather_facts": False, "roles": ["kubernetes"]}]
    (tmp_path / "book.yml").write_text(yaml.safe_dump(book))
    programs = release(tmp_path / "programs", "1.36.3")
    server = subprocess.Popen([programs / "etcd", "300"])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").write_text(SYSTEMCTL.format(pid=server.pid))
    (tmp_path / "bin" / "systemctl").chmod(0o755)

    def run(version: str, *arguments: str) -> list[str]:
        given = {
            "kubernetes_programs": str(programs),
            "kubernetes_source": str(release(tmp_path / version, version)),
            "bringup_kubernetes": {"version": version},
        }
        done = ansible(
            "ansible-playbook",
            str(tmp_path / "book.yml"),
            *("-i", "localhost,", "-c", "local", "-e", json.dumps(given), *arguments),
            var=tmp_path / "var",
            options={
                "ANSIBLE_ROLES_PATH": str(tmp_path / "roles"),
                "ANSIBLE_INVENTORY_ENABLED": "host_list",
                "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            },
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        return re.findall(r"RUNNING HANDLER \[(?:kubernetes : )?([^\]]+)\]", done.stdout)

    yield run
    server.kill()
    server.wait()


def test_programs_of_the_version_that_is_there_restart_nothing(upgrade: Callable[..., list[str]]) -> None:
    assert upgrade("1.36.3") == []


def test_a_new_version_restarts_what_runs_and_says_so_beforehand(upgrade: Callable[..., list[str]]) -> None:
    assert upgrade("1.36.4", "--check") == ["Restart"]
    assert upgrade("1.36.4") == ["Restart"]


def test_a_run_that_was_cut_short_after_the_copy_is_made_up_for(
    upgrade: Callable[..., list[str]], tmp_path: Path
) -> None:
    release(tmp_path / "new", "1.36.4")
    for one in (tmp_path / "new").iterdir():
        one.replace(tmp_path / "programs" / one.name)
    assert upgrade("1.36.4", "--check") == ["Restart"]


@pytest.fixture
def signing(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """A run of the role's tasks about authorities on ctl01 and gpu001: its status and output. ctl02 is outside of it, ctl03 away.

    members: servers with certificates of the cluster.
    """
    tasks = yaml.safe_load((PLAYBOOKS / "roles" / "kubernetes" / "tasks" / "main.yml").read_text())
    first, last = ([number for number, one in enumerate(tasks) if "bringup_pki" in one][end] for end in (0, -1))
    target = tmp_path / "roles" / "kubernetes"
    for part in ("defaults", "vars"):
        shutil.copytree(PLAYBOOKS / "roles" / "kubernetes" / part, target / part)
    (target / "tasks").mkdir()
    text = yaml.safe_dump(tasks[first : last + 1]).replace(
        "/etc/kubernetes/pki/ca.crt", f"{tmp_path}/{{{{ item }}}}/ca.crt"
    )
    (target / "tasks" / "main.yml").write_text(text)
    book = [{"hosts": "ctl01:gpu001", "gather_facts": False, "roles": ["kubernetes"]}]
    (tmp_path / "book.yml").write_text(yaml.safe_dump(book))
    known = {
        "bringup_site": "hall",
        "bringup_kubernetes": {"authorities": ["ca", "etcd-ca"], "certificates": []},
        "kubernetes_authority_folder": str(tmp_path / "authorities"),
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    away = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}

    def run(*members: str) -> tuple[int, str]:
        hosts: dict[str, dict[str, Any]] = {"ctl01": {}, "ctl02": {}, "ctl03": away, "gpu001": {}}
        for name in ("ctl01", "gpu001"):
            hosts[name]["bringup_probe"] = LIGHT | {"kubernetes_member": name in members}
        for name in set(members) - {"ctl01", "gpu001"}:
            (tmp_path / name).mkdir()
            (tmp_path / name / "ca.crt").touch()
        groups = {"controller": ("ctl01", "ctl02", "ctl03"), "compute": ("gpu001",)}
        children = {group: {"hosts": {name: hosts[name] for name in names}} for group, names in groups.items()}
        (tmp_path / "hosts.yaml").write_text(yaml.safe_dump({"all": {"vars": known, "children": children}}))
        done = ansible(
            "ansible-playbook",
            str(tmp_path / "book.yml"),
            *("-i", str(tmp_path / "hosts.yaml")),
            var=tmp_path / "var",
            options={
                "ANSIBLE_INVENTORY_ENABLED": "yaml",
                "ANSIBLE_ROLES_PATH": str(tmp_path / "roles"),
                "ANSIBLE_SSH_RETRIES": "0",
            },
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


@pytest.mark.parametrize("member", ["gpu001", "ctl02"], ids=["a node of the run", "a controller outside of it"])
def test_a_cluster_gets_no_second_authorities(
    member: str, signing: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    status, said = signing(member)
    assert status != 0
    assert f"{tmp_path}/authorities on ctl01 lacks authority ca, authority etcd-ca, secret tokens.key" in said
    assert f"have certificates of this cluster: {member}. Bring the copy of that folder back" in said
    assert not (tmp_path / "authorities").exists()


def test_a_new_cluster_gets_authorities_once_and_keeps_them(
    signing: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    assert signing()[0] == 0
    made = (tmp_path / "authorities" / "ca.crt").read_text()
    assert signing("ctl01", "gpu001", "ctl02")[0] == 0
    assert (tmp_path / "authorities" / "ca.crt").read_text() == made


def played(folder: Path, *plays: dict[str, Any], **known: Any) -> tuple[int, str]:
    """Plays on ctl01, with ctl02 beside it, both on this machine: their status and output."""
    hosts: dict[str, Any] = {"controller": {"hosts": {"ctl01": {}, "ctl02": {}}}}
    known |= {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (folder / "hosts.yaml").write_text(yaml.safe_dump({"all": {"vars": known, "children": hosts}}))
    (folder / "book.yml").write_text(yaml.safe_dump([play | {"gather_facts": False} for play in plays]))
    arguments = (str(folder / "book.yml"), "-i", str(folder / "hosts.yaml"))
    options = {"ANSIBLE_INVENTORY_ENABLED": "yaml"}
    done = ansible("ansible-playbook", *arguments, var=folder / "var", options=options)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


MEMBERS = """#!/bin/sh
echo '8e9e05c52164694d, started, ctl02, https://10.79.1.18:2380, https://10.79.1.18:2379, false'
echo '91bc3c398fb3c146, {status}, https://10.79.1.15:2380, , false'
"""
"""etcdctl member list, by the printer of etcd 3.6.8 (etcdctl/ctlv3/command/printer.go, makeMemberListTable)."""


MEMBER = {
    "added anew": ("unstarted, ", False),
    "has its data": ("started, ctl01", True),
    "lost its data": ("started, ctl01", False),
}
"""What etcd on ctl02 says of the member ctl01, and whether ctl01 has data; that which is refused ends the run."""


def test_a_member_of_etcd_that_lost_its_data_is_not_started(tmp_path: Path) -> None:
    tasks = yaml.safe_load((PLAYBOOKS / "roles" / "kubernetes_control_plane" / "tasks" / "main.yml").read_text())
    names = [one["name"] for one in tasks]
    chosen = tasks[names.index("Look for etcd's data") : names.index("Run the control plane")]
    plays = []
    for name, (status, data) in MEMBER.items():
        folder = tmp_path / name
        (folder / "etcd" / ("member/wal" if data else "")).mkdir(parents=True)
        (folder / "etcdctl").write_text(MEMBERS.format(status=status))
        (folder / "etcdctl").chmod(0o755)
        own = {"kubernetes_programs": str(folder), "kubernetes_etcd_folder": str(folder / "etcd")}
        plays.append({"name": name, "hosts": "ctl01", "tasks": chosen, "vars": own})
    code, said = played(tmp_path, *plays)
    _, *parts = said.split("PLAY [")
    assert [part.partition("]")[0] for part in parts] == list(MEMBER)
    assert code != 0
    refused = [name for name, part in zip(MEMBER, parts, strict=True) if "has ctl01 as a member" in part]
    assert refused == ["lost its data"]


def test_each_restore_is_a_cluster_of_its_own_to_etcd_and_the_same_on_every_controller(tmp_path: Path) -> None:
    (play,) = yaml.safe_load((PLAYBOOKS / "restore.yml").read_text())
    (token,) = [one for one in play["tasks"] if "ansible.builtin.set_fact" in one]
    (block,) = [one for one in play["tasks"] if "block" in one]
    (word,) = [one for one in block["block"][0]["ansible.builtin.command"]["argv"] if "cluster-token" in one]
    book = {"hosts": "controller", "tasks": [token, {"ansible.builtin.debug": {"msg": f"{word}."}}]}
    code, said = played(tmp_path, book, bringup_site="hall", backup="/var/backups/etcd/etcd-1.db")
    assert code == 0
    tokens = re.findall(r"--initial-cluster-token=(hall-etcd-1\.db-\d{8}T\d{6}Z)\.", said)
    assert len(tokens) == 2
    assert len(set(tokens)) == 1
