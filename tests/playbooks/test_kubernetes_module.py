"""What the Kubernetes module asks kubectl for, and what it says of nodes that are not there; kubectl is a script of the test."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.support import load

module = load("library/bringup_kubernetes.py")


def node(name: str, ready: str = "True", **labels: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "reason": "KubeletNotReady", "message": "no CNI configuration"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"conditions": [condition]}}


class Cluster:
    """A kubectl that answers from files and notes what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.program = folder, folder / "kubectl"
        self.program.write_text(
            f'#!/bin/sh\nshift 2\necho "$@" >>{folder}/told\ncase $1 in\n'
            f"get) [ $2 = nodes ] && cat {folder}/nodes; [ $2 = --raw ] && exit $(cat {folder}/ready);;\n"
            f"diff) exit $(cat {folder}/differs);;\nesac\nexit 0\n"
        )
        self.program.chmod(0o755)
        self.set()

    def set(self, nodes: tuple[dict[str, Any], ...] = (), ready: int = 0, differs: int = 0) -> None:
        for name, value in (("nodes", json.dumps({"items": nodes})), ("ready", ready), ("differs", differs)):
            (self.folder / name).write_text(str(value))
        (self.folder / "told").write_text("")

    def settle(self, check: bool = False, **more: Any) -> list[str]:
        given = {"objects": [], "nodes": [], "labels": {}, "budget_s": 0, **more}
        known = {"kubectl": str(self.program), "kubeconfig": "/k"}
        return list(module.settle(known | given, check=check, warn=pytest.fail))

    @property
    def told(self) -> list[str]:
        return [line.split()[0] for line in (self.folder / "told").read_text().splitlines()]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


RIGHT = {"kind": "ClusterRoleBinding", "metadata": {"name": "a"}}


def test_objects_that_fit_are_not_applied(cluster: Cluster) -> None:
    assert cluster.settle(objects=[RIGHT]) == []
    assert cluster.told == ["get", "diff"]


def test_an_object_that_differs_is_applied(cluster: Cluster) -> None:
    cluster.set(differs=1)
    assert cluster.settle(objects=[RIGHT]) == ["apply ClusterRoleBinding/a"]
    assert cluster.told == ["get", "diff", "apply"]


def test_check_mode_foretells_and_applies_nothing(cluster: Cluster) -> None:
    cluster.set((node("gpu001"),), differs=1)
    done = cluster.settle(check=True, objects=[RIGHT], nodes=["gpu001"], labels={"role": "gpu"})
    assert done == ["apply ClusterRoleBinding/a", "label gpu001"]
    assert not {"apply", "label"} & set(cluster.told)


def test_a_diff_that_fails_is_no_difference(cluster: Cluster) -> None:
    cluster.set(differs=2)
    with pytest.raises(module.KubernetesError, match="kubectl diff"):
        cluster.settle(objects=[RIGHT])


def test_only_labels_that_are_missing_are_set(cluster: Cluster) -> None:
    cluster.set((node("gpu001", role="gpu"), node("gpu002")))
    assert cluster.settle(nodes=["gpu001", "gpu002"], labels={"role": "gpu"}) == ["label gpu002"]


def test_an_api_server_that_never_gets_ready_is_named_with_its_logs(cluster: Cluster) -> None:
    cluster.set(ready=1)
    with pytest.raises(module.KubernetesError, match=r"not ready in time.*journalctl -u kube-apiserver -u etcd"):
        cluster.settle()


def test_a_node_that_is_not_ready_is_named_with_the_kubelets_reason(cluster: Cluster) -> None:
    cluster.set((node("gpu001"), node("gpu002", ready="False")))
    with pytest.raises(module.KubernetesError, match=r"gpu002 \(KubeletNotReady: no CNI configuration\)") as caught:
        cluster.settle(nodes=["gpu001", "gpu002"])
    assert "gpu001" not in str(caught.value)


def test_a_kubelet_that_registered_under_another_name_is_told(cluster: Cluster) -> None:
    cluster.set((node("gpu01"),))
    with pytest.raises(module.KubernetesError, match=r"gpu001 \(not registered\).*not in the plan: gpu01"):
        cluster.settle(nodes=["gpu001"])


def test_without_kubectl_the_role_that_brings_it_is_named(tmp_path: Path) -> None:
    known = {
        "kubectl": str(tmp_path / "none"),
        "kubeconfig": "/k",
        "objects": [],
        "nodes": [],
        "labels": {},
        "budget_s": 0,
    }
    with pytest.raises(module.KubernetesError, match="role kubernetes installs it"):
        module.settle(known, check=False, warn=pytest.fail)
