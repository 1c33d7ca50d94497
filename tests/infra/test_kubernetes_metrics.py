"""What the role kubernetes_metrics reads of a control plane, asked of real programs with the user and the rights that it has.

No kubelet runs: pods that hold GPUs are bound to a node, and never started.
"""

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from capacity.services.cluster import METRICS_USER
from capacity.services.platform.submitter import USER
from infra.kube.certificates import CLIENT, issue, load, private
from infra.kube.local import ControlPlane
from tests.control_plane import Cluster, cluster, control_plane, wait_for
from tests.playbooks.support import PLAYBOOKS
from tests.playbooks.support import load as program
from validation.facts.kube import NODES

__all__ = ["cluster", "control_plane"]

pytestmark = pytest.mark.platform

NODE = "metrics001"
COMPONENTS = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler")
RIGHTS = PLAYBOOKS / "roles" / "kubernetes_control_plane" / "vars" / "main.yml"


PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, gpus: int, bound: str) -> dict[str, Any]:
    """A pod with GPUs, on a node or on none."""
    container = {"name": "a", "image": "lab/a:1", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"containers": [container], **({"nodeName": bound} if bound else {"schedulerName": "nobody"})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": {USER: "alice"}}, "spec": spec}


def port(plane: ControlPlane, name: str, flag: str) -> int:
    """A port that a program of the control plane was given."""
    words = Path(f"/proc/{plane.processes[name]}/cmdline").read_text().split("\0")
    (given,) = [word.rpartition("=")[2] for word in words if word.startswith(f"--{flag}=")]
    return int(given.rpartition(":")[2])


@pytest.fixture
def read(cluster: Cluster, control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program's metrics of the control plane: {(name, values of its labels…): value}."""
    metrics = program("roles/kubernetes_metrics/files/kubernetes_metrics.py")
    pki = control_plane.folder / "pki"
    for name, authority, user in (("metrics", "ca", METRICS_USER), ("etcd-client", "etcd-ca", "kube-apiserver")):
        client = issue(user, authority=load(pki / authority), usages=[CLIENT])
        private(tmp_path / f"{name}.pem", client.pem + client.key_pem)
        (tmp_path / f"{authority}.crt").write_bytes((pki / f"{authority}.crt").read_bytes())
    for constant, name, flag in (
        ("ETCD_PORT", "etcd", "listen-client-urls"),
        ("MANAGER_PORT", "kube-controller-manager", "secure-port"),
        ("SCHEDULER_PORT", "kube-scheduler", "secure-port"),
    ):
        monkeypatch.setattr(metrics, constant, port(control_plane, name, flag))
    monkeypatch.setattr(metrics, "output", lambda *argv: "inactive\n")
    api = port(control_plane, "kube-apiserver", "secure-port")

    def values() -> dict[tuple[str, ...], float]:
        samples = metrics.control_plane(tmp_path, api, tmp_path, control_plane.folder / "etcd")
        return {(name, *labels.values()): value for name, labels, value in samples}

    return values


def test_the_rights_of_the_role_are_enough_for_all_that_is_told(cluster: Cluster, read: Any) -> None:
    status = {"allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"nvidia.com/gpu": "8"}}
    made = cluster.post(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": status})
    assert made.status_code == 201, made.text
    try:
        for one in yaml.safe_load(RIGHTS.read_text())["kubernetes_rights"]:
            if one["metadata"]["name"] == "bringup-metrics":
                text = jinja2.Environment(autoescape=False).from_string(yaml.safe_dump(one))
                right = yaml.safe_load(text.render(bringup_kubernetes={"metrics_user": METRICS_USER}))
                assert cluster.post(cluster.path(right).rpartition("/")[0], right).status_code in (201, 409)
        assert wait_for(lambda: cluster.get("/api/v1/namespaces/default/serviceaccounts/default") is not None)
        for name, gpus, bound in (("holds", 4, NODE), ("waits", 2, "")):
            made = cluster.post(PODS, pod(name, gpus, bound))
            assert made.status_code == 201, made.text
        # scheduler and controller manager may have started a moment ago
        assert wait_for(lambda: all(read()["bringup_kubernetes_up", name] == 1 for name in COMPONENTS))
        seen = read()
        assert seen["bringup_kubernetes_node_offer", NODE, "nvidia.com/gpu"] == 8
        assert [
            value
            for (name, *rest), value in seen.items()
            if name == "bringup_kubernetes_node_ready" and rest[0] == NODE
        ] == [0]
        used = {key[1:]: value for key, value in seen.items() if key[0] == "bringup_kubernetes_gpus_used"}
        assert used == {("default", "alice", "nvidia.com/gpu"): 4}, "one that waits holds none"
        assert ("bringup_kubernetes_pods_listed_seconds",) in seen
        cluster.patch(f"{PODS}/holds/status", {"status": {"phase": "Succeeded"}})
        assert not any(key[0] == "bringup_kubernetes_gpus_used" for key in read()), "one that has ended holds none"
        assert seen["etcd_server_has_leader",] == 1
        assert 0 < seen["etcd_mvcc_db_total_size_in_bytes",] < seen["etcd_server_quota_backend_bytes",]
        for verb, resource in (
            ("get", "secrets"),
            ("list", "secrets"),
            ("patch", "nodes"),
            ("create", "pods"),
            ("patch", "pods"),
        ):
            assert not cluster.may(METRICS_USER, verb, resource), (verb, resource)
    finally:
        for name in ("holds", "waits"):
            cluster.http.request("DELETE", f"{PODS}/{name}", json={"gracePeriodSeconds": 0})
        cluster.delete(f"{NODES}/{NODE}")
