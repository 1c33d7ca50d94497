"""A GPU that reports an XID: what the trial does and undoes, and what is wrong with what a node offered."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from capacity.model import Plan
from capacity.services.platform.sharing import GPU_RESOURCE
from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost
from tests.plans import plan_of
from validation import from_raw, kube
from validation.facts.kube import NODES
from validation.runners import local, xids
from validation.runners.kubernetes import Kubernetes

NODE = "gpu001"
GOOD: dict[str, Any] = {
    "uuid": "GPU-7",
    "before": 8,
    "offered": 7,
    "noticed_s": 1.4,
    "given": [f"GPU-{index}" for index in range(7)],
    "after": 8,
    "back_s": 6.0,
    "why": "",
}
CHOSEN = {NODE: xids.Chosen(8, "GPU-7"), "gpu002": xids.Chosen(8, "GPU-7")}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


def test_a_node_that_offers_one_gpu_less_and_then_all_passes(plan: Plan) -> None:
    value, problems = kube.one_gpu_less(GOOD, plan, NODE)
    assert (value["offered"], problems) == (7, [])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"offered": 8, "given": []}, "8 of 8 stayed on offer, expected one less"),
        ({"offered": 0, "given": []}, "0 of 8 stayed on offer, expected one less"),
        ({"noticed_s": 16.0}, "fell after 16 s, expected 15 s at most"),
        ({"given": [f"GPU-{index}" for index in range(1, 8)]}, "was given GPU-7, which had reported the XID"),
        ({"given": []}, "asked for 7 GPUs was given 0"),
        ({"given": ["GPU-1"] * 7}, "asked for 7 GPUs was given 1"),
        ({"after": 7}, "7 of 8 GPUs are on offer after the repair"),
        ({"before": 7, "offered": 6, "given": GOOD["given"][:6], "after": 7}, "7 GPUs were on offer, planned 8"),
        ({"why": "raise-it: no such GPU"}, "raise-it: no such GPU"),
    ],
)
def test_what_is_wrong_with_an_offer_is_said_and_judged_again(changed: dict[str, Any], why: str, plan: Plan) -> None:
    said = GOOD | changed
    assert any(why in one for one in kube.one_gpu_less(said, plan, NODE)[1])
    again = from_raw.computed("P-12.measured", NODE, plan, json.dumps(said).encode())
    assert isinstance(again, from_raw.Again)
    assert any(why in one for one in again.problems)


class Cluster:
    """Two nodes whose device plugin sees a GPU's fault, which is a file in `folder`, until it is started anew."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.held = folder, dict[str, int]()
        self.unhealthy, self.restarted, self.pods = set[str](), list[str](), dict[str, Any]()
        self.offered, self.broken = 7, ""
        self.at_fault, self.questions, self.interrupted = 0, list[list[str]](), False

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        self.at_fault = max(self.at_fault, len(list(self.folder.iterdir())))
        self.questions.append([one["verb"] for one in calls])
        if self.interrupted and "POST" in self.questions[-1]:
            raise KeyboardInterrupt
        return [self.answer(one) for one in calls]

    def answer(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        verb, path = call["verb"], call["path"].partition("?")[0]
        if self.broken and self.broken in path and verb == "POST":
            return {"status": 500, "body": {"message": "etcd is slow"}, "error": ""}
        return {"status": 201 if verb == "POST" else 200, "body": self.body(verb, path, call), "error": ""}

    def body(self, verb: str, path: str, call: Mapping[str, Any]) -> Any:
        name = path.rpartition("/")[2]
        if verb == "POST":
            self.pods[call["body"]["metadata"]["name"]] = call["body"]
        elif verb == "DELETE" and path.startswith("/api/v1/namespaces/kube-system/"):
            node = name.removeprefix("plugin-")
            self.restarted.append(node)
            if not (self.folder / node).exists():
                self.unhealthy.discard(node)
        elif verb == "DELETE":
            self.pods.pop(name, None)
        elif path == NODES:
            self.unhealthy |= {one.name for one in self.folder.iterdir()}
            return {"items": [self.node(node) for node in CHOSEN]}
        elif "/nodes/" in path:
            return {"status.images": [{"names": ["registry.k8s.io/pause:3.10.1"]}]}
        elif "kube-system" in path:
            return {"items": [{"metadata.name": f"plugin-{node}", "spec.nodeName": node} for node in CHOSEN]}
        elif path == "/api/v1/pods":
            return {"items": [self.pod_of_somebody(node, gpus) for node, gpus in self.held.items()]}
        else:
            message = json.dumps({"uuids": [f"GPU-{index}" for index in range(7)], "seen": [], "opened": []})
            return {"status.containerStatuses": [{"state": {"terminated": {"message": message}}}]}
        return {"metadata.name": name, "kind": "Pod"}

    def node(self, name: str) -> dict[str, Any]:
        gpus = self.offered if name in self.unhealthy else 8
        return {"metadata.name": name, "status.allocatable": {GPU_RESOURCE: str(gpus), "cpu": "2"}}

    def pod_of_somebody(self, node: str, gpus: int) -> dict[str, Any]:
        containers = [{"name": "a", "resources": {"limits": {GPU_RESOURCE: str(gpus)}}}, {"name": "b"}]
        return {"spec.nodeName": node, "spec.containers": containers}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def tried(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, xids.Less]:
    """The trial, with programs that make a node's fault and take it away."""
    made = Kubernetes(cluster, cast(SshHost, type("Controller", (), {"name": "ctl01"})()), {}, {}, "training")
    monkeypatch.setattr(xids, "POLL_S", 0.001)
    fault = ("sh", "-c", f'[ "$2" = 8 ] && touch {cluster.folder}/"$1"', "raise-it")
    repair = ("sh", "-c", f'rm {cluster.folder}/"$1"', "repair-it")
    return xids.raise_xids(made, CHOSEN, xids.Programs(fault, repair))


def test_each_node_loses_a_gpu_and_has_all_again_after_repair_and_new_start(
    cluster: Cluster, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tried(cluster, monkeypatch)
    assert list(said) == list(CHOSEN)
    assert [kube.one_gpu_less(one, plan, node)[1] for node, one in said.items()] == [[], []]
    assert (cluster.pods, list(cluster.folder.iterdir()), cluster.restarted) == ({}, [], list(CHOSEN))


def test_a_node_whose_gpus_are_in_use_is_left_alone(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.held = {NODE: 4}
    said = tried(cluster, monkeypatch)
    assert said[NODE]["why"] == "pods hold 4 of its GPUs: ask again when it is idle"
    assert (said["gpu002"]["why"], cluster.restarted) == ("", ["gpu002"])


def test_all_is_repaired_where_the_api_server_fails(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.broken = "/pods"
    with pytest.raises(BadAnswer, match="etcd is slow"):
        tried(cluster, monkeypatch)
    assert (list(cluster.folder.iterdir()), cluster.restarted) == ([], list(CHOSEN))


def test_each_batch_is_repaired_before_the_next_begins(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xids, "BATCH", 1)
    said = tried(cluster, monkeypatch)
    assert [one["after"] for one in said.values()] == [8, 8]
    assert (cluster.at_fault, cluster.restarted) == (1, list(CHOSEN))


def test_all_nodes_of_a_batch_are_asked_for_at_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    tried(cluster, monkeypatch)
    changing = [verbs for verbs in cluster.questions if "GET" not in verbs]
    assert changing == [["POST"] * 2, ["DELETE"] * 2, ["DELETE"] * 2], "pods, their end, and pods of the plugin"


def test_nodes_beyond_the_budget_are_not_touched(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xids, "BUDGET_S", -1.0)
    said = tried(cluster, monkeypatch)
    assert all(one["why"].startswith("not tried: ") for one in said.values())
    assert (list(said), cluster.questions) == (list(CHOSEN), [])


def test_all_is_repaired_after_an_interrupt(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        tried(cluster, monkeypatch)
    assert (list(cluster.folder.iterdir()), cluster.restarted) == ([], list(CHOSEN))


def test_all_is_repaired_where_the_repair_is_interrupted(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(text: str) -> None:
        if "repaired" in text:
            raise KeyboardInterrupt

    monkeypatch.setattr(xids, "note", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tried(cluster, monkeypatch)
    assert (list(cluster.folder.iterdir()), cluster.restarted) == ([], list(CHOSEN))


def test_a_repair_that_breaks_does_not_end_the_others(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    run = local.run

    def broken(words: list[str], *more: Any) -> Any:
        if words[-3:-1] == ["repair-it", NODE]:
            raise RuntimeError("no more threads")
        return run(words, *more)

    monkeypatch.setattr(local, "run", broken)
    monkeypatch.setattr(xids, "BACK_S", 0.01)
    said = tried(cluster, monkeypatch)
    assert "no more threads" in said[NODE]["why"]
    assert [one.name for one in cluster.folder.iterdir()] == [NODE]


def test_a_plugin_that_sees_nothing_is_said(cluster: Cluster, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.offered = 8
    monkeypatch.setattr(xids, "NOTICE_S", 0.01)
    said = tried(cluster, monkeypatch)
    assert "8 of 8 stayed on offer" in kube.one_gpu_less(said[NODE], plan, NODE)[1][0]


@pytest.mark.parametrize(
    ("program", "why"), [("/nonexistent", "/nonexistent: No such file"), ("false", "false: "), ("sleep", "sleep: ")]
)
def test_a_program_that_fails_is_said(
    program: str, why: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Kubernetes(cluster, cast(SshHost, type("Controller", (), {"name": "ctl01"})()), {}, {}, "training")
    monkeypatch.setattr(xids, "POLL_S", 0.001)
    said = xids.raise_xids(made, {NODE: CHOSEN[NODE]}, xids.Programs((program,), ("true",)))
    assert said[NODE]["why"].startswith(why)
