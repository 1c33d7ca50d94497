"""The health check of nodes against a real API server: it takes its own node out of service, and nothing lets it do more.

Nodes are objects without a kubelet. Rights and policy are those of the role kubernetes_control_plane, the user is the plan's, and
the program is the one that nodes run.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jinja2
import pytest
import yaml

from capacity.services.cluster import HEALTH_GROUP, METRICS_USER, NOTICES_USER
from capacity.services.platform.topology import OUT_OF_SERVICE
from infra.kube.access import connect
from infra.kube.certificates import CLIENT, issue, kubeconfig, load, private
from infra.kube.local import ControlPlane
from tests.control_plane import Cluster, cluster, control_plane, wait_for
from tests.playbooks.support import PLAYBOOKS
from tests.playbooks.support import load as program
from validation.facts.kube import NODES
from validation.runners.kubernetes import CORDON, REASON

__all__ = ["cluster", "control_plane"]

pytestmark = pytest.mark.platform

OWN, OTHER = "health001", "health002"
MERGE = {"Content-Type": "application/merge-patch+json"}
RIGHTS = PLAYBOOKS / "roles" / "kubernetes_control_plane" / "vars" / "main.yml"
HELD = "bringup: S026.measured: 7 of 8 GPUs are there"


class Node:
    """What the health check of one node may do, as its certificate says who it is."""

    def __init__(self, cluster: Cluster, plane: ControlPlane, folder: Path) -> None:
        authority = load(plane.folder / "pki" / "ca")
        client = issue(f"{HEALTH_GROUP}:{OWN}", [HEALTH_GROUP], authority, usages=[CLIENT])
        private(folder / "ca.crt", authority.pem)
        private(folder / "node-health.pem", client.pem + client.key_pem)
        private(folder / "kubeconfig", kubeconfig(plane.server, authority.pem, client).encode())
        connection = connect(folder / "kubeconfig")
        self.cluster = cluster
        self.http = httpx.Client(base_url=connection.server, verify=connection.tls, timeout=30)
        self.given = {
            "server": plane.server,
            "node": OWN,
            "ca": str(folder / "ca.crt"),
            "certificate": str(folder / "node-health.pem"),
        }

    def patch(self, body: Any, node: str = OWN, dry: bool = True) -> httpx.Response:
        path = f"{NODES}/{node}{'?dryRun=All' if dry else ''}"
        return self.http.patch(path, content=json.dumps(body), headers=MERGE)

    def live(self, node: str = OWN) -> dict[str, Any]:
        found = self.cluster.get(f"{NODES}/{node}")
        assert found is not None
        return found

    def taints(self, node: str = OWN) -> dict[str, dict[str, Any]]:
        return {one["key"]: one for one in self.live(node)["spec"].get("taints", [])}


@pytest.fixture(scope="module")
def node(cluster: Cluster, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Two nodes, and the rights that the role gives."""
    given = {
        "kubelet_client": "kube-apiserver-kubelet-client",
        "health_group": HEALTH_GROUP,
        "metrics_user": METRICS_USER,
        "notices_user": NOTICES_USER,
    }
    rights = yaml.safe_load(RIGHTS.read_text())["kubernetes_rights"]
    for one in rights:
        text = jinja2.Environment(autoescape=False).from_string(json.dumps(one)).render(bringup_kubernetes=given)
        made = cluster.post(cluster.path(json.loads(text)).rpartition("/")[0], json.loads(text))
        # other modules may have made those of the roles kubernetes_metrics and kubernetes_notices
        assert made.status_code == 201 or re.search("bringup-(metrics|notices)", made.text), made.text
    for name in (OWN, OTHER):
        metadata = {"name": name, "labels": {"bringup.local/rack": "r1"}, "annotations": {"example.org/a": "b"}}
        assert cluster.post(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata}).status_code == 201
    health = Node(cluster, control_plane, tmp_path_factory.mktemp("health"))
    # a policy counts from when the API server has read it
    assert wait_for(lambda: health.patch({"metadata": {"labels": {"a": "b"}}}).status_code in (403, 422))
    yield health
    health.http.close()
    for name in (OWN, OTHER):
        cluster.delete(f"{NODES}/{name}")


@pytest.fixture
def fit(node: Node) -> Node:
    """The first node, in service."""
    node.cluster.patch(
        f"{NODES}/{OWN}", {"spec": {"taints": [], "unschedulable": False}, "metadata": {"annotations": {REASON: None}}}
    )
    return node


@pytest.fixture
def checked(fit: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The program of that node: called with what is wrong."""
    check = program("roles/node_check/files/node_check.py")
    monkeypatch.setattr(check, "MARK", tmp_path / "fit")
    config = {"part_budget_s": 30, "kubernetes": fit.given}
    return lambda problems: check.apply(problems, config)


def test_a_cause_taints_this_node_and_its_end_lets_it_back(fit: Node, checked: Any) -> None:
    before, other = time.time(), fit.live(OTHER)
    checked(["/shared is not mounted"])
    taint = fit.taints()[OUT_OF_SERVICE]
    assert (taint["value"], taint["effect"]) == ("unfit", "NoSchedule")
    assert taint["timeAdded"] >= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(before - 2))
    assert not fit.live()["spec"].get("unschedulable")
    assert fit.live()["metadata"]["annotations"][REASON] == "bringup: /shared is not mounted"
    assert fit.live(OTHER) == other
    checked([])
    assert set(fit.taints()) <= {CORDON}  # the node controller's, for a moment
    assert not fit.live()["spec"].get("unschedulable")
    assert REASON not in fit.live()["metadata"]["annotations"]


def test_a_cause_that_acceptance_judges_stays_until_somebody_else_takes_it_away(fit: Node, checked: Any) -> None:
    checked(["S026.measured: 7 of 8 GPUs are there"])
    assert fit.taints()[OUT_OF_SERVICE]["value"] == "S026.measured"
    checked([])
    assert fit.live()["metadata"]["annotations"][REASON] == HELD
    answer = fit.patch({"spec": {"taints": []}})
    assert "may not take away" in answer.text


def test_a_node_that_a_person_cordoned_stays_so(fit: Node, checked: Any) -> None:
    fit.cluster.patch(f"{NODES}/{OWN}", {"spec": {"unschedulable": True}})
    checked(["GPU 3: lost"])
    checked([])
    assert fit.live()["spec"]["unschedulable"]
    assert OUT_OF_SERVICE not in fit.taints()
    assert "taint and the reason alone" in fit.patch({"spec": {"unschedulable": False}}).text


def test_a_node_that_a_person_cordons_while_it_is_not_fit_stays_so(fit: Node, checked: Any) -> None:
    checked(["GPU 3: lost"])
    fit.cluster.patch(f"{NODES}/{OWN}", {"spec": {"unschedulable": True}})
    checked([])
    assert OUT_OF_SERVICE not in fit.taints()
    assert fit.live()["spec"]["unschedulable"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}}, "no other taint"),
        ({"spec": {"taints": [{"key": OUT_OF_SERVICE, "value": "unfit", "effect": "NoExecute"}]}}, "evict none"),
        ({"metadata": {"labels": {"bringup.local/rack": "r2"}}}, "taint and the reason alone"),
        ({"spec": {"unschedulable": True}}, "taint and the reason alone"),
        ({"metadata": {"annotations": {"example.org/a": None}}}, "no other annotation"),
        ({"metadata": {"annotations": {"example.org/new": "b"}}}, "no other annotation"),
        ({"metadata": {"finalizers": ["example.org/stay"]}}, "taint and the reason alone"),
        ({"spec": {"providerID": "elsewhere"}}, "taint and the reason alone"),
    ],
)
def test_nothing_else_of_its_node_may_be_changed(fit: Node, body: Any, said: str) -> None:
    answer = fit.patch(body)
    assert answer.status_code == 422
    assert said in answer.json()["message"]


def test_another_node_may_not_be_changed(fit: Node) -> None:
    answer = fit.patch({"spec": {"unschedulable": True}}, OTHER)
    assert "may change that node alone" in answer.json()["message"]


def test_it_has_no_other_right(node: Node) -> None:
    assert node.http.get(NODES).status_code == 403
    assert node.http.get("/api/v1/pods").status_code == 403
    assert node.http.delete(f"{NODES}/{OWN}").status_code == 403
    assert node.http.put(f"{NODES}/{OWN}", json=node.live()).status_code == 403
    assert node.http.patch(f"{NODES}/{OWN}/status", content="{}", headers=MERGE).status_code == 403


def test_an_api_server_that_does_not_answer_is_asked_again_next_time(
    fit: Node, checked: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(fit.given, "server", "https://127.0.0.1:1")
    checked([])
    assert "the API server does not answer GET" in capsys.readouterr().err
    monkeypatch.undo()
    checked(["GPU 3: lost"])
    assert OUT_OF_SERVICE in fit.taints()
