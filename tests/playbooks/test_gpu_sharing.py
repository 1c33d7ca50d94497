"""playbooks/gpu_sharing.yml: when it refuses to change a node, the order of its steps, and the commands that set MIG.

No cluster and no GPU: kubectl and nvidia-smi are small programs of this test, nvidia-smi after NVIDIA's MIG user guide.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capacity.outputs.ansible_hosts import hosts_of
from capacity.services.platform import sharing
from inventory.paths import site_dir
from tests.capacity.services.test_sharing import MIG, SLICES, shared
from tests.playbooks.support import PLAYBOOKS, ansible, load

module = load("library/bringup_kubernetes.py")
mig = load("roles/gpu_sharing/files/mig.py")

KUBECTL = """\
#!{python}
import json, sys
from pathlib import Path
words = sys.argv[3:]
files = sorted(Path({folder!r}).glob("gpu*"))
file = next((one for one in files if one.name in " ".join(words)), files[0])
state = json.loads(file.read_text())
node, pods = state["node"], state["pods"]
state["told"].append(" ".join(words))
labels, notes = node["metadata"]["labels"], node["metadata"]["annotations"]

def change(of, words):
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            of[key] = value
        elif key.endswith("-"):
            of.pop(key[:-1], None)

match words[0]:
    case "get" if words[1] == "node":
        print(json.dumps(node))
    case "get" if words[1] == "pods":
        print(json.dumps({{"items": pods}}))
    case "get" if words[1] == "daemonset":
        sys.exit(words[2] not in state["plugins"])
    case "cordon" | "uncordon":
        node["spec"]["unschedulable"] = words[0] == "cordon"
    case "drain" if state["kept"]:
        print("error: unable to drain: Cannot evict pod as it would violate the pod's disruption budget")
        pods[:] = [one for one in pods if one["metadata"]["name"] in ("plugin", state["kept"])]
        file.write_text(json.dumps(state))
        sys.exit(1)
    case "drain":
        pods[:] = [one for one in pods if one["metadata"]["namespace"] == "kube-system"]
    case "annotate":
        change(notes, words)
    case "label":
        change(labels, words)
        way = labels.get("bringup.local/gpu-sharing", "")
        pods[:] = [one for one in pods if one["metadata"]["namespace"] != "kube-system"]
        node["status"]["allocatable"] = {{"cpu": "8"}} | state["offers"].get(way, {{}})
file.write_text(json.dumps(state))
"""
SHARED = "nvidia.com/gpu.shared"
WANTED = {
    "node": "gpu003",
    "profile": "time-slices-4",
    "plugin": "nvidia-device-plugin-time-slices-4",
    "resource": SHARED,
    "count": 32,
    "evict": False,
}


def pod(name: str, resource: str = "", space: str = "vision", **more: Any) -> dict[str, Any]:
    limits = {resource: "1"} if resource else {}
    metadata = {"name": name, "namespace": space, "labels": {"name": "nvidia-device-plugin-ds"} if not limits else {}}
    containers = [{"name": "a", "resources": {"limits": limits}}]
    return {"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": "Running"}, **more}


class Cluster:
    """One node with whole GPUs and its device plugin. offers: what it has for pods, by way of sharing. kept: a pod that a drain
    does not evict.
    """

    def __init__(self, folder: Path, name: str = "gpu003") -> None:
        self.file, self.program = folder / name, folder / "kubectl"
        self.program.write_text(KUBECTL.format(python=sys.executable, folder=str(folder)))
        self.program.chmod(0o755)
        node: dict[str, Any] = {
            "metadata": {"labels": {}, "annotations": {}},
            "spec": {},
            "status": {"allocatable": {}},
        }
        self.state: dict[str, Any] = {
            "node": node,
            "pods": [pod("plugin", space="kube-system")],
            "plugins": [WANTED["plugin"]],
            "offers": {"time-slices-4": {SHARED: "32", "nvidia.com/gpu": "0"}},
            "told": [],
            "kept": "",
        }
        self.warned: list[str] = []

    def write(self) -> None:
        self.file.write_text(json.dumps(self.state))

    def read(self) -> None:
        self.state = json.loads(self.file.read_text())

    def run(self, step: str, check: bool = False, **changed: Any) -> list[str]:
        self.state["told"] = []
        self.write()
        known = {
            "kubectl": str(self.program),
            "kubeconfig": "/k",
            "objects": [],
            "nodes": [],
            "labels": {},
            "budget_s": 0,
        }
        try:
            given = {**known, step: {**WANTED, **changed}}
            return list(module.settle(given, check=check, warn=self.warned.append))
        finally:
            self.read()

    @property
    def acts(self) -> list[str]:
        """What was told, without what only asks."""
        return [one.split()[0] for one in self.state["told"] if not one.startswith("get ")]

    @property
    def node(self) -> dict[str, Any]:
        return dict(self.state["node"])


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_a_node_is_closed_emptied_of_its_plugin_shared_and_opened_again(cluster: Cluster) -> None:
    assert cluster.run("vacate") == ["share GPUs of gpu003 as time-slices-4"]
    assert cluster.acts == ["annotate", "cordon", "label"]
    assert cluster.node["metadata"]["labels"] == {module.SHARING: "changing"}
    assert cluster.node["spec"]["unschedulable"] is True
    assert cluster.run("share") == ["label gpu003", "uncordon gpu003"]
    assert cluster.node["metadata"] == {"labels": {module.SHARING: "time-slices-4"}, "annotations": {}}
    assert cluster.node["spec"]["unschedulable"] is False
    assert (cluster.run("vacate"), cluster.run("share")) == ([], [])
    assert cluster.acts == []


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", SHARED, "nvidia.com/mig-1g.10gb"])
def test_a_pod_with_a_gpu_keeps_a_node_as_it_is(resource: str, cluster: Cluster) -> None:
    cluster.state["pods"].append(pod("train", resource))
    with pytest.raises(module.KubernetesError, match=r"gpu003: pods have GPUs: vision/train\. .*-e drain=true"):
        cluster.run("vacate")
    assert cluster.node["metadata"] == {"labels": {}, "annotations": {}}
    assert cluster.node["spec"]["unschedulable"] is False


def test_a_pod_that_is_over_or_has_no_gpu_is_not_in_the_way(cluster: Cluster) -> None:
    cluster.state["pods"] += [
        pod("over", "nvidia.com/gpu", status={"phase": "Succeeded"}),
        pod("other", "example.org/thing"),
    ]
    assert cluster.run("vacate")


def test_pods_are_evicted_where_that_is_asked_for(cluster: Cluster) -> None:
    cluster.state["pods"].append(pod("train", "nvidia.com/gpu"))
    assert cluster.run("vacate", evict=True)
    assert cluster.acts == ["annotate", "cordon", "drain", "label"]


def test_a_node_whose_pods_a_drain_does_not_evict_is_opened_again(cluster: Cluster) -> None:
    cluster.state["pods"].append(pod("train", "nvidia.com/gpu"))
    cluster.state["kept"] = "train"
    with pytest.raises(
        module.InUseError, match=r"gpu003: pods have GPUs: vision/train\. kubectl drain: .*disruption budget"
    ):
        cluster.run("vacate", evict=True)
    assert cluster.acts == ["annotate", "cordon", "drain", "uncordon", "annotate"]
    assert cluster.node["metadata"] == {"labels": {}, "annotations": {}}
    assert cluster.node["spec"]["unschedulable"] is False


def test_a_pod_without_a_gpu_that_is_not_evicted_is_not_in_the_way(cluster: Cluster) -> None:
    cluster.state["pods"] += [pod("train", "nvidia.com/gpu"), pod("web", "example.org/thing")]
    cluster.state["kept"] = "web"
    assert cluster.run("vacate", evict=True)
    assert cluster.acts == ["annotate", "cordon", "drain", "label"]


def test_a_node_on_which_nothing_is_to_change_is_not_waited_for(cluster: Cluster) -> None:
    cluster.state["node"]["metadata"]["labels"] = {module.SHARING: "time-slices-4"}
    cluster.state["node"]["status"]["allocatable"] = {SHARED: "28"}
    assert (cluster.run("vacate"), cluster.run("share"), cluster.acts) == ([], [], [])
    (warning,) = cluster.warned
    assert f"gpu003 offers 28 {SHARED}, planned 32 {SHARED}; nothing was changed here" in warning


def test_a_node_that_somebody_else_closed_stays_closed(cluster: Cluster) -> None:
    cluster.state["node"]["spec"]["unschedulable"] = True
    assert cluster.run("vacate")
    assert cluster.run("share") == ["label gpu003"]
    assert cluster.node["spec"]["unschedulable"] is True


def test_without_its_device_plugin_nothing_is_touched(cluster: Cluster) -> None:
    cluster.state["plugins"] = []
    with pytest.raises(module.KubernetesError, match=r"no DaemonSet nvidia-device-plugin-time-slices-4: `pulumi up`"):
        cluster.run("vacate")
    assert cluster.acts == []


def test_check_mode_foretells_and_changes_nothing(cluster: Cluster) -> None:
    assert cluster.run("vacate", check=True) == ["share GPUs of gpu003 as time-slices-4"]
    assert cluster.run("share", check=True) == []
    assert cluster.acts == []


@pytest.mark.parametrize("offered", [{}, {SHARED: "16"}, {SHARED: "32", "nvidia.com/gpu": "8"}])
def test_a_node_that_does_not_offer_what_is_planned_stays_closed(offered: dict[str, str], cluster: Cluster) -> None:
    cluster.state["offers"] = {"time-slices-4": offered}
    cluster.run("vacate")
    with pytest.raises(module.KubernetesError, match=rf"gpu003 offers .*, planned 32 {SHARED}; it stays"):
        cluster.run("share")
    assert cluster.node["spec"]["unschedulable"] is True
    cluster.state["node"]["status"]["allocatable"] = {SHARED: "32"}
    assert cluster.run("share") == ["uncordon gpu003"], "a second run goes on where the first stopped"


def test_whole_gpus_have_no_label(cluster: Cluster) -> None:
    whole: dict[str, Any] = {
        "profile": "",
        "plugin": "nvidia-device-plugin-daemonset",
        "resource": "nvidia.com/gpu",
        "count": 8,
    }
    cluster.state |= {"plugins": [whole["plugin"]], "offers": {"": {"nvidia.com/gpu": "8"}}}
    cluster.state["node"]["metadata"]["labels"] = {module.SHARING: "time-slices-4"}
    assert cluster.run("vacate", **whole) == ["share GPUs of gpu003 as whole"]
    assert cluster.run("share", **whole) == ["label gpu003", "uncordon gpu003"]
    assert cluster.node["metadata"]["labels"] == {}


# ---- MIG -------------------------------------------------------------------------------------------------------------
SMI = """\
#!{python}
import json, sys
from pathlib import Path
file = Path({file!r})
state = json.loads(file.read_text())
words = sys.argv[1:]
state["told"].append(" ".join(words))
gpus = state["gpus"]
status = 0
match words:
    case ["-L"]:
        for number, gpu in gpus.items():
            print(f"GPU {{number}}: NVIDIA H100 80GB HBM3 (UUID: GPU-{{number}})")
            for place, profile in enumerate(gpu["devices"]):
                print(f"  MIG {{profile:<12}} Device {{place:>2}}: (UUID: MIG-{{number}}-{{place}})")
    case [query, _] if query.startswith("--query-gpu"):
        for number, gpu in gpus.items():
            print(f"{{number}}, {{gpu['mode']}}")
    case ["-i", number, "-mig", on]:
        if not state["busy"]:
            gpus[number]["mode"] = "Enabled" if on == "1" else "Disabled"
    case ["mig", "-i", number, "-dci" | "-dgi"]:
        if not gpus[number]["devices"] and words[3] == "-dgi":
            print("No GPU instances found: Not Found")
            status = 6
        if words[3] == "-dgi":
            gpus[number]["devices"] = []
    case ["mig", "-i", number, "-cgi", profiles, "-C"]:
        wanted = profiles.split(",")
        if gpus[number]["devices"] or len(wanted) > 7:
            print("Unable to create a GPU instance: Insufficient Resources")
            status = 19
        else:
            gpus[number]["devices"] = wanted
file.write_text(json.dumps(state))
sys.exit(status)
"""


class Machine:
    """Two GPUs without MIG. busy: the mode does not change."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "gpus"
        program = folder / "nvidia-smi"
        program.write_text(SMI.format(python=sys.executable, file=str(self.file)))
        program.chmod(0o755)
        self.set({"0": {"mode": "Disabled", "devices": []}, "1": {"mode": "Disabled", "devices": []}})

    def set(self, gpus: dict[str, Any], busy: bool = False) -> None:
        self.file.write_text(json.dumps({"gpus": gpus, "busy": busy, "told": []}))

    @property
    def devices(self) -> list[list[str]]:
        return [one["devices"] for one in json.loads(self.file.read_text())["gpus"].values()]

    @property
    def told(self) -> list[str]:
        return list(json.loads(self.file.read_text())["told"])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    return made


def test_each_gpu_is_divided_alike_and_a_second_time_nothing_changes(machine: Machine) -> None:
    assert len(mig.divide("1g.10gb", 7)) == 4, "two are enabled and divided"
    assert machine.devices == [["1g.10gb"] * 7] * 2
    assert mig.divide("1g.10gb", 7) == []


def test_another_profile_takes_the_place_of_the_first(machine: Machine) -> None:
    mig.divide("1g.10gb", 7)
    assert mig.divide("3g.40gb", 2) == ["GPU 0: 2 x 3g.40gb", "GPU 1: 2 x 3g.40gb"]
    assert machine.devices == [["3g.40gb"] * 2] * 2


def test_only_a_gpu_that_differs_is_divided(machine: Machine) -> None:
    """As after a boot on which one was set already."""
    machine.set({"0": {"mode": "Enabled", "devices": ["7g.80gb"]}, "1": {"mode": "Enabled", "devices": []}})
    assert mig.divide("7g.80gb", 1) == ["GPU 1: 1 x 7g.80gb"]
    assert not [one for one in machine.told if one.startswith("mig -i 0")]


def test_gpus_become_whole_again(machine: Machine) -> None:
    mig.divide("1g.10gb", 7)
    assert mig.whole() == ["GPU 0: MIG disabled", "GPU 1: MIG disabled"]
    assert machine.devices == [[], []]
    assert mig.whole() == []


def test_a_mode_that_does_not_change_is_named_with_what_to_do(machine: Machine) -> None:
    machine.set({"0": {"mode": "Disabled", "devices": []}}, busy=True)
    with pytest.raises(mig.MigError, match="GPU 0: MIG is still disabled.*stop what uses it"):
        mig.divide("1g.10gb", 7)
    machine.set({"0": {"mode": "Enabled", "devices": []}}, busy=True)
    with pytest.raises(mig.MigError, match="GPU 0: MIG is still enabled"):
        mig.whole()


def test_a_gpu_without_mig_is_named(machine: Machine) -> None:
    machine.set({"0": {"mode": "[N/A]", "devices": []}})
    with pytest.raises(mig.MigError, match=r"GPU 0: its MIG mode is \[N/A\]: it has no MIG, use time_slices"):
        mig.divide("1g.10gb", 7)


def test_what_nvidia_smi_refuses_is_said_in_its_words(machine: Machine) -> None:
    with pytest.raises(mig.MigError, match="Insufficient Resources"):
        mig.divide("1g.10gb", 8)


@pytest.mark.parametrize("words", [[], ["set"], ["set", "1g.10gb; reboot", "7"], ["set", "1g.10gb", "9"], ["on"]])
def test_words_out_of_form_do_nothing(words: list[str], machine: Machine) -> None:
    assert mig.main(words) == 2
    assert machine.told == []


# ---- the role --------------------------------------------------------------------------------------------------------
def test_the_playbook_is_valid(tmp_path: Path) -> None:
    site = str(site_dir("lab-kubernetes") / "site.yaml")
    done = ansible("ansible-playbook", "--syntax-check", "playbooks/gpu_sharing.yml", "-i", site, var=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def played(folder: Path, *clusters: Cluster, away: str = "") -> subprocess.CompletedProcess[str]:
    """The playbook on these nodes, which are this machine; `away`: the name of one that SSH does not reach."""
    for one in clusters:
        one.write()
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    told = {key: value for key, value in WANTED.items() if key not in ("node", "evict")} | {"mig": "", "per_gpu": 4}
    nodes: dict[str, dict[str, Any]] = {one.file.name: {**local, "bringup_gpu_sharing": told} for one in clusters}
    if away:
        nodes[away] |= {
            "ansible_connection": "ssh",
            "ansible_host": "127.0.0.1",
            "ansible_port": 1,
            "ansible_ssh_retries": 0,
        }
    groups: dict[str, Any] = {"compute": {"hosts": nodes}, "kubernetes": {"hosts": dict.fromkeys(nodes)}}
    groups["controller"] = {"hosts": {"ctl01": local}}
    book = folder / "inventory.json"
    book.write_text(
        json.dumps(groups | {"all": {"vars": {"kubernetes_programs": str(folder), "gpu_sharing_offer_budget_s": 0}}})
    )
    options = {
        "ANSIBLE_INVENTORY_ENABLED": "yaml",
        "ANSIBLE_LOCAL_TEMP": str(folder),
        "ANSIBLE_REMOTE_TEMP": str(folder),
    }
    done = ansible("ansible-playbook", "playbooks/gpu_sharing.yml", "-i", str(book), var=folder, options=options)
    for one in clusters:
        one.read()
    return done


def test_a_node_that_is_in_use_or_away_does_not_keep_the_later_ones_from_being_shared(tmp_path: Path) -> None:
    clusters = [Cluster(tmp_path, f"gpu00{number}") for number in range(1, 5)]
    away, used, less, last = clusters
    used.state["pods"].append(pod("train", "nvidia.com/gpu"))
    less.state["node"]["metadata"]["labels"] = {module.SHARING: "time-slices-4"}
    done = played(tmp_path, *clusters, away="gpu001")
    assert last.node["metadata"]["labels"] == {module.SHARING: "time-slices-4"}, done.stdout + done.stderr
    assert [one.node["metadata"]["labels"] for one in (away, used)] == [{}, {}]
    assert done.returncode == 2
    assert "gpu001 cannot be reached" in done.stdout
    assert "gpu002: pods have GPUs: vision/train" in done.stdout
    assert "gpu003 offers no GPU" in done.stdout + done.stderr


def test_a_node_that_fails_after_it_was_changed_ends_the_run(tmp_path: Path) -> None:
    bad, next_one = Cluster(tmp_path, "gpu001"), Cluster(tmp_path, "gpu002")
    bad.state["offers"] = {}
    done = played(tmp_path, bad, next_one)
    assert (done.returncode, next_one.state["told"]) == (2, []), done.stdout + done.stderr
    assert bad.node["spec"]["unschedulable"] is True


def test_each_gpu_node_is_told_what_the_plan_makes_of_its_gpus() -> None:
    plan = shared(SLICES, MIG)
    hosts = hosts_of(plan, plan.catalog).hosts
    told = {name: one["bringup_gpu_sharing"] for name, one in hosts.items() if "bringup_gpu_sharing" in one}
    assert told.keys() == {"gpu001", "gpu002", "gpu003", "gpu004"}
    assert told["gpu001"] == {
        "resource": "nvidia.com/gpu",
        "count": 8,
        "profile": "",
        "mig": "",
        "per_gpu": 1,
        "plugin": "nvidia-device-plugin-daemonset",
    }
    assert told["gpu003"].items() >= {key: WANTED[key] for key in ("profile", "plugin", "resource", "count")}.items()
    assert (told["gpu004"]["mig"], told["gpu004"]["per_gpu"]) == ("1g.10gb", 7)


def test_the_label_is_that_of_the_platform_and_the_plugins_are_found_by_theirs() -> None:
    assert module.SHARING == sharing.SHARING
    assert all(name.startswith(module.PLUGIN) for name in (sharing.PLUGIN, sharing.plugin_of("mig-1g.10gb")))


def test_the_unit_divides_before_the_kubelet_starts() -> None:
    unit = (PLAYBOOKS / "roles" / "gpu_sharing" / "templates" / "bringup-mig.service.j2").read_text()
    assert "Before=kubelet.service" in unit


def test_without_the_division_the_kubelet_does_not_start() -> None:
    unit = (PLAYBOOKS / "roles" / "gpu_sharing" / "templates" / "bringup-mig.service.j2").read_text()
    _, install = unit.split("[Install]")
    assert "RequiredBy=kubelet.service" in install.splitlines()
