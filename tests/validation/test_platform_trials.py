"""An object changed by hand, a kubelet that is stopped, a node that is not fit: what is done and undone, and how it is judged."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
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
    """A GPU node whose kubelet and time service are started and stopped over SSH."""

    def __init__(self, pod_runs: bool = True) -> None:
        self.kubelet, self.clock, self.pod_runs, self.said = True, True, pod_runs, list[str]()
        self.name = "gpu004"

    def run(self, command: Any, check: bool = True) -> Completed:
        text = command if isinstance(command, str) else " ".join(command)
        self.said.append(text)
        started = "systemctl" in text and "systemd-run" not in text
        if "systemctl" in text and "chrony" in text:
            self.clock = started
        elif "systemctl" in text:
            self.kubelet = started
        return Completed(0 if self.pod_runs else 1, "", "", 0.0)


class Cluster:
    """An API server with one PriorityClass to change, and one node and its pods."""

    def __init__(self, plan: Plan, node: Node) -> None:
        self.tier = dict([one for one in design(plan).objects if one.kind == "PriorityClass"][-1].manifest)
        self.node, self.pods = node, dict[str, Any]()
        self.descriptions: list[str] = []
        self.others = list[str]()  # nodes that go out of service with gpu004
        self.refuses = True
        self.broken, self.breaks_at = "", ""  # a verb that fails once, and the description after which GET does

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [self.answer(one) for one in calls]

    def answer(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        verb, path = call["verb"], call["path"].partition("?")[0]
        if self.broken and verb == self.broken:
            self.broken = ""
            return {"status": 500, "body": {"message": "etcd is slow"}, "error": ""}
        if verb == "PATCH" and "dryRun" in call["path"]:
            assert (call["user"], call["group"]) == ("bringup:node-health:gpu004", "bringup:node-health")
            said = "its own node alone" if self.refuses else None
            return {"status": 422 if self.refuses else 200, "body": {"message": said}, "error": ""}
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
            return {"items": [self.one(name, ready) for name in ("gpu003", "gpu004")]}
        if "/nodes/" in path:
            return self.one("gpu004", ready) | {"status.images": [{"names": ["docker.io/lab/pause:1"]}]}
        if verb == "POST":
            self.pods[given["metadata"]["name"]] = given
        if verb == "DELETE":
            self.pods.pop(path.rpartition("/")[2])
        running = {"containerID": "containerd://a", "restartCount": 0, "state": {"running": {"startedAt": "now"}}}
        return {"status.containerStatuses": [running], "metadata.name": "x", "kind": "Pod"}

    def one(self, name: str, ready: list[dict[str, str]]) -> dict[str, Any]:
        """A node; the cluster does what its health check would."""
        unfit = not self.node.clock and name in ("gpu004", *self.others)
        taint = {"key": "bringup.local/out-of-service", "value": "unfit", "effect": "NoSchedule"}
        reason = {"bringup.local/out-of-service-reason": "bringup: chrony does not answer"}
        return {
            "metadata.name": name,
            "metadata.annotations": reason if unfit else {},
            "metadata.resourceVersion": "1",
            "spec.taints": [taint] if unfit else [],
            "spec.unschedulable": False,
            "status.conditions": ready,
        }


def engine(cluster: Cluster) -> Kubernetes:
    controller = cast(SshHost, type("Controller", (), {"name": "ctl01"})())
    hosts = {name: cast(SshHost, cluster.node) for name in ("gpu003", "gpu004")}
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
    assert "systemctl stop kubelet.service" in cluster.node.said[0]
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


def test_a_node_without_a_time_service_is_seen_out_of_service_and_back(plan: Plan) -> None:
    cluster = Cluster(plan, Node())
    said = trials.stop_clock(engine(cluster))
    assert (said["node"], said["taint"], said["others"]) == ("gpu004", "unfit", [])
    assert [one["what"] for one in said["tried"]] == [
        "cordon gpu003",
        "evict the pods of gpu004",
        "move gpu004 to another rack",
    ]
    assert kube.node_unfit(said)[1] == []
    assert cluster.node.clock


def test_a_time_service_is_started_again_where_the_api_server_fails(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(plan, Node())

    def fails(*_: Any) -> float:
        raise BadAnswer("ctl01", "read node", "an answer", "none", "look")

    monkeypatch.setattr(trials, "_until_open", fails)
    with pytest.raises(DeviceError):
        trials.stop_clock(engine(cluster))
    assert cluster.node.clock


def test_another_node_that_goes_out_of_service_and_what_is_not_refused_are_seen(plan: Plan) -> None:
    cluster = Cluster(plan, Node())
    cluster.others, cluster.refuses = ["gpu003"], False
    _, problems = kube.node_unfit(trials.stop_clock(engine(cluster)))
    assert problems == [
        "gpu003 went out of service as well",
        "the API server lets a node's health check cordon gpu003, evict the pods of gpu004, move gpu004 to another rack",
    ]


class Machine:
    """A host with a shell, whose systemctl and systemd-run write down what they are told. `fails`: word of a call that fails, and
    how often it still does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.fails = folder, folder / "log", ("", 0)
        self.log.touch()
        program = '#!/bin/sh\necho "${0##*/} $*" >> "$LOG"\n[ -z "$FAILS" ] || case "${0##*/} $*" in *"$FAILS"*) exit 1;; esac\n'
        for name, text in {
            "systemctl": program,
            "systemd-run": program,
            "sudo": '#!/bin/sh\nshift; exec "$@"\n',
        }.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def run(self, command: str) -> Completed:
        word, times = self.fails
        self.fails = (word, times - 1 if word in command else times)
        env = {"PATH": f"{self.folder}:/usr/bin:/bin", "LOG": str(self.log), "FAILS": word if times > 0 else ""}
        done = subprocess.run(["sh", "-c", command], env=env, timeout=30, check=False)
        if done.returncode:
            raise BadAnswer("ctl01", "run a command", "exit status 0", str(done.returncode), "look")
        return Completed(0, "", "", 0.0)

    @property
    def said(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(trials, "START_AGAIN_S", 0.0)
    return Machine(tmp_path)


OFF = "systemctl stop bringup-start-etcd.timer"
LATER = (
    "systemd-run --quiet --collect --unit=bringup-start-etcd --on-active=600s systemctl start --no-block etcd.service"
)
START = "systemctl start --no-block etcd.service"


def test_a_host_starts_by_itself_what_was_stopped_where_nobody_does(machine: Machine) -> None:
    with trials.without(cast(SshHost, machine), ["etcd"], kill=True):
        assert machine.said == [
            OFF,
            LATER,
            "systemctl kill --signal=KILL etcd.service",
            "systemctl stop etcd.service",
        ]
    assert machine.said[4:] == [START, OFF]


def test_nothing_is_stopped_where_the_host_cannot_promise_to_start_it(machine: Machine) -> None:
    machine.fails = ("systemd-run", 1)
    with pytest.raises(BadAnswer), trials.without(cast(SshHost, machine), ["etcd"]):
        pytest.fail("it ran without a timer")
    assert machine.said == [OFF, LATER, "systemctl start etcd.service", OFF]


def test_a_start_that_fails_is_tried_again_and_leaves_the_timer(machine: Machine) -> None:
    with trials.without(cast(SshHost, machine), ["etcd"], kill=True):
        machine.fails = ("systemctl start", 2)
    assert machine.said[4:] == [START, START, START, OFF]
    machine.log.write_text("")
    with pytest.raises(BadAnswer), trials.without(cast(SshHost, machine), ["etcd"], kill=True):
        machine.fails = ("systemctl start", 3)
    assert machine.said[4:] == [START, START, START]


UNFIT: dict[str, Any] = {
    "node": "gpu004",
    "noticed_s": 31.5,
    "taint": "unfit",
    "reason": "bringup: chrony does not answer",
    "others": [],
    "back_s": 33.0,
    "tried": [{"what": "cordon gpu003", "said": "its own node alone"}],
}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"noticed_s": 66}, "out of service after 66 s, expected 65 s at most"),
        ({"taint": "S026.measured"}, "is S026.measured, not unfit"),
        ({"reason": "fan swap"}, "is not the health check's"),
        ({"tried": []}, "nothing was tried"),
    ],
)
def test_what_is_wrong_with_a_node_that_is_not_fit_is_said(changed: dict[str, Any], why: str, plan: Plan) -> None:
    assert kube.node_unfit(UNFIT)[1] == []
    again = from_raw.computed("P-17.measured", plan.site.name, plan, json.dumps(UNFIT | changed).encode())
    assert isinstance(again, from_raw.Again)
    assert why in again.problems[0]
