"""An object changed by hand and a kubelet that is stopped: what is done, what is undone, and what is wrong with the result."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from capacity.model import Plan
from capacity.services.platform import design
from network.drivers.errors import BadAnswer, DeviceError
from network.drivers.ssh import Completed, SshHost
from tests.plans import plan_of
from validation import from_raw, kube
from validation.runners import platform_trials as trials
from validation.runners.kubernetes import Kubernetes

STOPPED: dict[str, Any] = {"node": "gpu004", "noticed_s": 52, "ran_on": True, "back_s": 8.1, "same_container": True}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


class Node:
    """A GPU node whose kubelet is started and stopped over SSH."""

    def __init__(self, pod_runs: bool = True) -> None:
        self.kubelet, self.pod_runs, self.said = True, pod_runs, list[str]()
        self.name = "gpu004"

    def run(self, command: Any, check: bool = True) -> Completed:
        text = command if isinstance(command, str) else " ".join(command)
        self.said.append(text)
        if "systemctl" in text:
            self.kubelet = "systemctl start" in text
        return Completed(0 if self.pod_runs else 1, "", "", 0.0)


class Cluster:
    """An API server with one PriorityClass to change, and one node and its pods."""

    def __init__(self, plan: Plan, node: Node) -> None:
        self.tier = dict([one for one in design(plan).objects if one.kind == "PriorityClass"][-1].manifest)
        self.node, self.pods = node, dict[str, Any]()
        self.descriptions: list[str] = []
        self.broken, self.breaks_at = "", ""  # a verb that fails once, and the description after which GET does

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [self.answer(one) for one in calls]

    def answer(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        verb, path = call["verb"], call["path"].partition("?")[0]
        if self.broken and verb == self.broken:
            self.broken = ""
            return {"status": 500, "body": {"message": "etcd is slow"}, "error": ""}
        return {"status": 201 if verb == "POST" else 200, "body": self.body(verb, path, call.get("body")), "error": ""}

    def body(self, verb: str, path: str, given: Any) -> Any:
        ready = [{"type": "Ready", "status": "True" if self.node.kubelet else "Unknown"}]
        if "priorityclasses" in path:
            if verb == "PATCH":
                self.tier |= given
                self.descriptions.append(given["description"])
                self.broken = "GET" if given["description"] == self.breaks_at else self.broken
            return dict(self.tier)
        if path.endswith("/nodes"):
            plain = {"metadata.annotations": {}, "metadata.resourceVersion": "1", "spec.taints": []}
            return {
                "items": [{"metadata.name": "gpu004", "spec.unschedulable": False, "status.conditions": ready, **plain}]
            }
        if "/nodes/" in path:
            return {"status.conditions": ready, "status.images": [{"names": ["docker.io/lab/pause:1"]}]}
        if verb == "POST":
            self.pods[given["metadata"]["name"]] = given
        if verb == "DELETE":
            self.pods.pop(path.rpartition("/")[2])
        running = {"containerID": "containerd://a", "restartCount": 0, "state": {"running": {"startedAt": "now"}}}
        return {"status.containerStatuses": [running], "metadata.name": "x", "kind": "Pod"}


def engine(cluster: Cluster) -> Kubernetes:
    controller = cast(SshHost, type("Controller", (), {"name": "ctl01"})())
    hosts = {"gpu004": cast(SshHost, cluster.node)}
    return Kubernetes(cluster, controller, hosts, {"gpu004": "10.0.0.4"}, "training")


def test_a_text_is_changed_seen_and_put_back(plan: Plan) -> None:
    cluster = Cluster(plan, Node())
    before = dict(cluster.tier)
    said = trials.change_by_hand(plan, engine(cluster))
    assert cluster.tier == before
    assert cluster.descriptions[0] == trials.CHANGED
    value, problems = kube.by_hand(said, plan)
    assert (value["found"], problems) == (True, [])


def test_a_text_is_put_back_where_reading_it_failed(plan: Plan) -> None:
    cluster = Cluster(plan, Node())
    before, cluster.breaks_at = dict(cluster.tier), trials.CHANGED
    with pytest.raises(BadAnswer, match="etcd is slow"):
        trials.change_by_hand(plan, engine(cluster))
    assert cluster.tier == before


def test_a_change_that_is_not_seen_or_left_is_said(plan: Plan) -> None:
    cluster = Cluster(plan, Node())
    said = trials.change_by_hand(plan, engine(cluster))
    unseen = kube.by_hand({**said, "changed": said["back"]}, plan)[1]
    left = kube.by_hand({**said, "back": said["changed"]}, plan)[1]
    assert "the comparison with the plan does not see it" in unseen[0]
    assert "after it was put back" in left[0]
    assert kube.by_hand({**said, "key": "Pod/none"}, plan)[1] == ["the plan has no Pod/none"]


def test_a_kubelet_is_stopped_missed_and_started_again(plan: Plan) -> None:
    cluster = Cluster(plan, Node())
    said = trials.stop_kubelet(engine(cluster))
    assert (said["node"], said["ran_on"], said["same_container"]) == ("gpu004", True, True)
    assert kube.kubelet_stopped(said)[1] == []
    assert [word for text in cluster.node.said for word in ("stop", "start") if f"systemctl {word}" in text][:1] == [
        "stop"
    ]
    assert cluster.node.kubelet
    assert cluster.pods == {}


def test_a_kubelet_is_started_again_where_the_api_server_fails(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(plan, Node())

    def fails(*_: Any) -> float:
        raise BadAnswer("ctl01", "read node", "an answer", "none", "look")

    monkeypatch.setattr(trials, "_until", fails)
    with pytest.raises(DeviceError):
        trials.stop_kubelet(engine(cluster))
    assert cluster.node.kubelet
    assert cluster.pods == {}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"noticed_s": 90}, "missed the kubelet after 90 s, expected 65 s at most"),
        ({"ran_on": False}, "the process of the pod was gone"),
        ({"same_container": False}, "was started anew"),
    ],
)
def test_what_is_wrong_with_a_stopped_kubelet_is_said(changed: dict[str, Any], why: str, plan: Plan) -> None:
    assert why in kube.kubelet_stopped(STOPPED | changed)[1][0]
    again = from_raw.computed("P-10.measured", plan.site.name, plan, json.dumps(STOPPED | changed).encode())
    assert isinstance(again, from_raw.Again)
    assert why in again.problems[0]
