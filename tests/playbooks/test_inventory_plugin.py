"""Inventory plugin: the plan is the inventory."""

import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
from ansible.errors import AnsibleParserError

from capacity.build import build
from capacity.outputs import ansible_hosts
from inventory.catalog import load_catalog
from inventory.paths import repo_root, site_dir
from inventory.site import SiteError, load_site
from inventory.site.whatif import changed
from tests.network import dual_stack
from tests.plans import plan_of
from tests.playbooks.support import BUDGET_S, PLAYBOOKS, ansible, load

SITE = site_dir("lab") / "site.yaml"
plugin = load("inventory_plugins/bringup.py")
WHAT_ANSIBLE_IMPORTS = """
import importlib, json, sys
from pathlib import Path
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

hosts = InventoryManager(DataLoader(), sources=[sys.argv[1]]).hosts
for path in Path("playbooks").glob("*_plugins/*.py"):
    sys.path.insert(0, str(path.parent))
    importlib.import_module(path.stem)
    del sys.path[0], sys.modules[path.stem]
print(json.dumps([len(hosts), sorted(name for name in sys.modules if "." not in name)]))
"""


@pytest.fixture(scope="module")
def hosts():
    return ansible_hosts.hosts_of(plan_of("lab"), load_catalog())


def test_groups_are_roles_and_racks(hosts):
    assert hosts.groups["gpu"] == ["gpu001", "gpu002", "gpu003", "gpu004"]
    assert hosts.groups["compute"] == hosts.groups["gpu"]
    assert hosts.groups["controller"] == ["ctl01"]
    assert hosts.groups["storage"] == ["sto01"]
    in_racks = [name for group, names in hosts.groups.items() if group.startswith("rack_") for name in names]
    assert sorted(in_racks) == sorted(hosts.hosts)


@pytest.mark.parametrize("site", ["b200-256-roce", "gb300-nvl72-liquid"])
def test_shipped_sites_of_other_kinds_are_an_inventory_too(site):
    plan = plan_of(site)
    made = ansible_hosts.hosts_of(plan, load_catalog())
    assert sorted(made.hosts) == sorted(plan.devices.loc[plan.devices["kind"] == "server", "name"])
    assert len(made.groups["compute"]) == plan.site.server.count
    cabled = plan.cables[plan.cables["fabric"] == "inband"].groupby("a_device").size()
    assert {name: len(variables["bringup_links"]) for name, variables in made.hosts.items()} == {
        name: cabled[name] for name in made.hosts
    }
    assert made.groups["storage"] == plan.devices.loc[plan.devices["role"] == "storage", "name"].tolist()


def test_links_are_both_ends_of_the_plans_31s(hosts):
    plan = plan_of("lab")
    cables = plan.cables[(plan.cables["stage"] == "node-leaf") & (plan.cables["fabric"] == "inband")]
    wanted = {(row.a_device, row.a_port, row.b_device, row.b_port) for row in cables.itertuples()}
    links = [(name, link) for name, variables in hosts.hosts.items() for link in variables["bringup_links"]]
    assert {(name, link["interface"], link["leaf"], link["port"]) for name, link in links} == wanted
    for _, link in links:
        leaf = int(link["leaf_address"].rsplit(".", 1)[1])
        assert link["address"] == f"{link['leaf_address'].rsplit('.', 1)[0]}.{leaf + 1}/31"


def test_both_families_have_the_same_place_on_each_link_and_sites_with_one_have_no_second(hosts):
    made = ansible_hosts.hosts_of(dual_stack.lab(), load_catalog())
    assert made.common["bringup_inband_prefixes_ipv6"] == ["fd00:16::/64", "fd00:18::/64"]
    for name, variables in made.hosts.items():
        assert int(ipaddress.ip_address(variables["bringup_loopback_ipv6"])) & 0xFFF == (
            int(ipaddress.ip_address(variables["bringup_loopback"])) & 0xFFF
        )
        for link, plain in zip(variables["bringup_links"], hosts.hosts[name]["bringup_links"], strict=True):
            assert {key: link[key] for key in plain} == plain
            pair = ipaddress.ip_interface(link["address_ipv6"]).network
            assert {str(one) for one in pair} == {link["address_ipv6"].partition("/")[0], link["leaf_address_ipv6"]}
    assert "ipv6" not in str(hosts.common) + str(hosts.hosts)


def test_networkd_gets_both_families_and_nothing_of_ipv6_without_it(hosts):
    made = ansible_hosts.hosts_of(dual_stack.lab(), load_catalog())

    def written(of, template):
        variables = {**of.common, **of.hosts["gpu001"], "base_route_metric": 100}
        environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined)
        environment.filters["split"] = str.split
        text = (PLAYBOOKS / "roles/base/templates" / template).read_text()
        return environment.from_string(text).render(**variables, base_link=variables["bringup_links"][0])

    link, loopback = written(made, "link.network.j2"), written(made, "lo.network.j2")
    first, second = made.hosts["gpu001"]["bringup_links"]
    assert f"Address={first['address_ipv6']}\nDuplicateAddressDetection=none" in link
    hops = "\n".join(f"MultiPathRoute={one['leaf_address_ipv6']}@{one['interface']}" for one in (first, second))
    for prefix in ("fd00:16::/64", "fd00:18::/64"):
        assert f"Destination={prefix}\nPreferredSource=fd00:16::7\nMetric=100\n{hops}" in link
    assert "LinkLocalAddressing=ipv6" in link
    assert "\nAddress=172.16.0.7/32\nAddress=fd00:16::7/128\n" in loopback
    for template in ("link.network.j2", "lo.network.j2", "sysctl.conf.j2"):
        assert "fd00" not in written(hosts, template)
    assert "LinkLocalAddressing=no" in written(hosts, "link.network.j2")
    assert "net.ipv6.fib_multipath_hash_policy = 1" in written(made, "sysctl.conf.j2")
    assert "net.ipv6.fib_multipath_hash_policy" not in written(hosts, "sysctl.conf.j2")


def test_a_management_nodes_leg_has_both_families_where_bmcs_do(hosts):
    made = ansible_hosts.hosts_of(build(changed("lab", ["addressing.bmc_ipv6=fd00:77::/64"])), load_catalog())
    environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((PLAYBOOKS / "roles/base/templates/oob.network.j2").read_text())
    leg, plain = made.hosts["mgm01"]["bringup_oob"], hosts.hosts["mgm01"]["bringup_oob"]
    assert leg == {**plain, "address_ipv6": leg["address_ipv6"]}
    place = int(ipaddress.ip_interface(plain["address"]).ip) & 0xFF
    assert ipaddress.ip_interface(leg["address_ipv6"]) == ipaddress.ip_interface(f"fd00:77::{place:x}/64")
    second = f"\nAddress={leg['address_ipv6']}\nLinkLocalAddressing=ipv6\nIPv6AcceptRA=no\n"
    assert second in template.render(bringup_oob=leg)
    assert f"\nAddress={plain['address']}\nLinkLocalAddressing=no\n" in template.render(bringup_oob=plain)


def test_hosts_are_reached_at_their_provisioning_address(hosts):
    assert hosts.hosts["gpu001"]["ansible_host"].startswith("10.77.1.")
    assert len({variables["ansible_host"] for variables in hosts.hosts.values()}) == len(hosts.hosts)


def test_unknown_host_keys_are_refused(hosts):
    assert "StrictHostKeyChecking=yes" in hosts.common["ansible_ssh_common_args"]


def test_a_site_is_found_by_name_and_no_secret_is_in_its_variables(tmp_path):
    done = ansible("ansible-inventory", "-i", "lab", "--list", var=tmp_path)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert "gpu004" in listed["gpu"]["hosts"]
    variables = listed["_meta"]["hostvars"]["gpu001"]
    allowed = {"ansible_ssh_private_key_file"}  # a path; OpenSSH reads it
    suspicious = [key for key in variables if any(word in key for word in ("key", "pass", "secret", "priv"))]
    assert set(suspicious) <= allowed


def test_lldp_is_announced_four_times_within_its_maximum_age(hosts):
    limit = load_site("lab").limits["lldp_max_age_s"].value
    assert hosts.common["bringup_lldp_interval_s"] == limit / 4


def test_a_wrong_site_file_gives_its_message_and_no_traceback(tmp_path: Path):
    wrong = tmp_path / "site.yaml"
    wrong.write_text(SITE.read_text().replace("\nname: lab\n", "\nnmae: lab\n"))
    done = ansible("ansible-playbook", "playbooks/site.yml", "-i", str(wrong), var=tmp_path)
    assert done.returncode != 0
    assert "rename the key to name" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_missing_site_file_ends_the_run(tmp_path: Path):
    done = ansible("ansible-playbook", "playbooks/site.yml", "-i", str(tmp_path / "site.yaml"), var=tmp_path)
    assert done.returncode != 0
    assert "no such file" in done.stdout + done.stderr


def test_what_is_wrong_with_a_site_file_is_told_word_for_word(tmp_path: Path) -> None:
    wrong = tmp_path / "site.yaml"
    wrong.write_text(SITE.read_text().replace("\nname: lab\n", "\nnmae: läb\n"))
    with pytest.raises(SiteError) as wanted:
        load_site(str(wrong))
    with pytest.raises(AnsibleParserError) as seen:
        plugin.computed(str(wrong))
    assert seen.value.message == str(wanted.value)


def test_the_planner_and_its_libraries_stay_out_of_the_process_that_forks_a_worker_for_each_task() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHAT_ANSIBLE_IMPORTS, str(SITE)],
        cwd=repo_root(),
        env={**os.environ, "ANSIBLE_CONFIG": str(repo_root() / "ansible.cfg")},
        capture_output=True,
        text=True,
        timeout=BUDGET_S,
        check=True,
    )
    hosts, modules = json.loads(done.stdout)
    assert hosts == 7
    assert {"ansible", "inventory"} <= set(modules)
    assert not {"pandas", "numpy", "capacity", "network"} & set(modules)


def test_packages_of_the_same_names_in_the_current_folder_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("inventory", "network", "capacity"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(tmp_path)
    assert "gpu004" in plugin.computed("lab")["hosts"]


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("MODULE", "capacity.nothing", r"lab: no inventory: exit status 1: .*No module named capacity.nothing\. "),
        ("MODULE", "inventory.paths", r"lab: no inventory: exit status 0: no message\. "),
        ("BUDGET_S", 0.001, r"lab: no inventory within 0\.001 s\. "),
    ],
)
def test_a_process_that_gives_no_hosts_is_named(
    monkeypatch: pytest.MonkeyPatch, setting: str, value: object, message: str
) -> None:
    monkeypatch.setattr(plugin, setting, value)
    with pytest.raises(AnsibleParserError, match=message + r"To see all that it says: PYTHONPATH=\S+ \S+ .* lab$"):
        plugin.computed("lab")


def test_compute_nodes_carry_the_size_of_their_model(hosts):
    model = load_catalog().device("lab-gpu-node").bringup
    nodes = hosts.common["bringup_slurm"]["nodes"]
    assert [node["name"] for node in nodes] == hosts.groups["gpu"]
    assert {(node["cpus"], node["memory_mib"]) for node in nodes} == {(model.cores, model.memory_gib * 1024)}


def test_the_lab_holds_no_node_for_acceptance_since_its_gpus_compute_nothing(hosts):
    assert hosts.common["bringup_slurm"]["held"] == {}


def test_gpu_nodes_get_nvidias_packages_and_nccls_settings(hosts):
    assert hosts.groups["nvidia"] == hosts.groups["compute"]
    assert hosts.common["bringup_nvidia"]["packages"]["libnvidia-ml1"] == "580.95.05"
    assert hosts.common["bringup_nvidia"]["repositories"] == []  # the lab's sources carry them
    assert hosts.hosts["gpu001"]["bringup_nccl"] == {
        "NCCL_SOCKET_IFNAME": "eth1,eth2",
        "NCCL_IB_HCA": "ib0,ib1,ib2,ib3,ib4,ib5,ib6,ib7",
        "NCCL_IB_PKEY": "1",
    }
    assert "bringup_nccl" not in hosts.hosts["ctl01"]


def test_a_site_with_nvidias_own_repositories_names_them_with_their_keys():
    repositories = ansible_hosts.nvidia_of(load_site("h100-1000-ib"))["repositories"]
    assert [repository["name"] for repository in repositories] == ["nvidia-cuda", "nvidia-container-toolkit"]
