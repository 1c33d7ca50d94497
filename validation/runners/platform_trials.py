"""Three trials of a Kubernetes platform: an object changed by hand, a kubelet that is stopped, and a node that is not fit.

    change_by_hand(plan, engine)      # the object as it was changed, and as it was put back
    stop_kubelet(engine)              # when the cluster noticed, and whether the node's pods ran on
    stop_clock(engine)                # when the node's health check took it out of service, and what it may not do

Both are undone before they return, and where they fail. Raise DeviceError where API server or node do not answer.
"""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from typing_extensions import TypedDict

from capacity.model import Plan
from capacity.services.cluster import HEALTH_GROUP
from capacity.services.platform import design
from capacity.services.platform.topology import OUT_OF_SERVICE, PREFIX
from network.drivers import answers
from network.drivers.answers import Flag, Line, Number
from network.drivers.errors import BadAnswer, DeviceError
from network.drivers.ssh import SshHost
from validation.facts.kube import MESSAGE, NODES, path_of
from validation.progress import note
from validation.runners.kubernetes import MERGE, PODS, Kubernetes
from validation.runners.pods import node_pod

CHANGED = "changed by bringup validation, and put back at once"
BUDGET_S = 180.0
"""Of each wait. A choice of ours: a kubelet reports every 10 s, and is missed after the node controller's grace."""
POLL_S = 1.0
LATEST_S = 600.0
"""After which a host starts by itself what a trial stopped. A choice of ours: three times the longest wait without it. Where
several controllers hang, a trial may take longer, and the host starts it before the end.
"""
START_TRIES, START_AGAIN_S = 3, 5.0
MARK = "bringup-runs-on-"
READY = "Ready"
RACK = f"{PREFIX}/rack"


class ByHand(TypedDict):
    """An object by its key, as the API server had it after it was changed and after it was put back."""

    key: Line
    changed: dict[str, Any]
    back: dict[str, Any]


class Stopped(TypedDict):
    """A node whose kubelet was stopped: seconds until it was not ready, and from its start until it was; whether the process of a
    pod was there before the kubelet came back, and whether its container is the same afterwards.
    """

    node: Line
    noticed_s: Number
    ran_on: Flag
    back_s: Number
    same_container: Flag


class Tried(TypedDict):
    """What the identity of a node's health check tried as a dry run, and how the API server refused it; '' where it did not."""

    what: Line
    said: Line


class Unfit(TypedDict):
    """A node whose time service was stopped: seconds until it was out of service, with what taint and reason; which others were as
    well that had not been before; seconds from the start of the service until the node was back.
    """

    node: Line
    noticed_s: Number
    taint: Line
    reason: Line
    others: list[Line]
    back_s: Number
    tried: list[Tried]


def change_by_hand(plan: Plan, engine: Kubernetes) -> ByHand:
    """The text of the lowest tier's PriorityClass, which nothing depends on, changed and put back."""
    chosen = [one for one in design(plan).objects if one.kind == "PriorityClass"][-1]
    path = path_of(chosen)
    (before,) = engine.ask({"verb": "GET", "path": path})
    with engine.reading(f"read {chosen.key}"):
        text = str(before.get("description", ""))

    def described(words: str) -> dict[str, Any]:
        engine.ask({"verb": "PATCH", "path": path, "type": MERGE, "body": {"description": words}, "only": ("kind",)})
        (found,) = engine.ask({"verb": "GET", "path": path})
        with engine.reading(f"read {chosen.key}"):
            return dict(found)

    try:
        changed = described(CHANGED)
    finally:
        back = described(text)
    return {"key": chosen.key, "changed": changed, "back": back}


def stop_kubelet(engine: Kubernetes) -> Stopped:
    """On the last GPU node that takes pods, with a pod of ours on it."""
    node, mark = last_ready(engine, "stop a kubelet"), f"{MARK}{uuid.uuid4().hex[:8]}"
    host = engine.hosts[node]
    with running(engine, node, mark) as path:
        before = _container(engine, path)
        with without(host, ["kubelet"]):
            noticed_s = _until(engine, node, False)
            ran_on = host.run(["pgrep", "-f", mark], check=False).status == 0
        back_s = _until(engine, node, True)
        same = _container(engine, path) == before
    return {"node": node, "noticed_s": noticed_s, "ran_on": ran_on, "back_s": back_s, "same_container": same}


@contextmanager
def running(engine: Kubernetes, node: str, name: str) -> Iterator[str]:
    """The path of a pod that runs on a node and does nothing; its process carries its name."""
    command = ["/usr/bin/python3", "-c", f"import time; time.sleep({4 * BUDGET_S})", name]
    made = node_pod(node, name, command, engine.image([node]), limit_s=4 * BUDGET_S)
    path = f"{PODS}/{name}"
    try:
        engine.ask({"verb": "POST", "path": PODS, "body": made, "only": ("metadata.name",)})
        end = time.monotonic() + BUDGET_S
        while not _container(engine, path):
            if time.monotonic() > end:
                raise BadAnswer(node, "run a pod", "a pod that runs", "none", f"kubectl describe pod {name}")
            engine.nap(POLL_S)
        yield path
    finally:
        engine.ask(
            {"verb": "DELETE", "path": f"{path}?gracePeriodSeconds=0", "only": ("kind",)}, accept=(200, 202, 404)
        )


def stop_clock(engine: Kubernetes) -> Unfit:
    """On the last GPU node that takes pods: its clock follows nobody any more, which is a cause that goes by itself."""
    node = last_ready(engine, "stop a time service")
    before = _out_of_service(engine)
    tried = list(_trespasses(engine, node, next((name for name in engine.nodes() if name != node), "")))
    with without(engine.hosts[node], ["chrony"]):
        noticed_s = _until_open(engine, node, False)
        found, others = engine.node(node), _out_of_service(engine) - before - {node}
    said = {
        "node": node,
        "noticed_s": noticed_s,
        "taint": str(found.taint(OUT_OF_SERVICE).get("value", "")),
        "reason": found.reason,
        "others": sorted(others),
        "back_s": _until_open(engine, node, True),
        "tried": tried,
    }
    return answers.read(Unfit, said, engine.source("stop a time service"))


def _trespasses(engine: Kubernetes, node: str, other: str) -> Iterator[Tried]:
    """What a node's health check must not be able to do, tried as it and as a dry run."""
    who = {"user": f"{HEALTH_GROUP}:{node}", "group": HEALTH_GROUP}
    evicts = {"key": OUT_OF_SERVICE, "value": "unfit", "effect": "NoExecute"}
    bodies = {
        f"cordon {other}": (other, {"spec": {"unschedulable": True}}),
        f"evict the pods of {node}": (node, {"spec": {"taints": [evicts]}}),
        f"move {node} to another rack": (node, {"metadata": {"labels": {RACK: "bringup-elsewhere"}}}),
    }
    for what, (name, body) in bodies.items():
        if name:
            path = f"{NODES}/{quote(name, safe='')}?dryRun=All"
            call = {"verb": "PATCH", "path": path, "body": body, "type": MERGE, "only": (MESSAGE,), **who}
            (answer,) = engine.ask(call, accept=(200, 403, 422))
            yield {"what": what, "said": str(answer[MESSAGE] or "")}


def last_ready(engine: Kubernetes, operation: str) -> str:
    """The last GPU node that takes pods; BadAnswer where there is none."""
    ready = [name for name, one in engine.nodes().items() if one.ready and name in engine.hosts]
    if not ready:
        wanted, seen = "a GPU node that takes pods", "none"
        raise BadAnswer(engine.controller.name, operation, wanted, seen, "kubectl get nodes")
    return ready[-1]


def _out_of_service(engine: Kubernetes) -> set[str]:
    return {name for name, one in engine.nodes().items() if one.state == "drained"}


def _until_open(engine: Kubernetes, node: str, open_: bool) -> float:
    """Seconds until a node takes pods, or takes none; BadAnswer when the budget is spent."""
    began = time.monotonic()
    while engine.node(node).ready is not open_:
        took_s = time.monotonic() - began
        wanted = "back in service" if open_ else "out of service"
        if took_s > BUDGET_S:
            step = "journalctl -u bringup-node-health there"
            raise BadAnswer(
                node, "stop its time service", f"a node that is {wanted} within {BUDGET_S:g} s", "none", step
            )
        note(f"{node}: waiting until it is {wanted}")
        engine.nap(POLL_S)
    return round(time.monotonic() - began, 1)


@contextmanager
def without(host: SshHost, services: Sequence[str], *, kill: bool = False) -> Iterator[None]:
    """Services of a host are stopped, killed first where `kill` says so, and started again whatever happens.

    The start is tried START_TRIES times. Before anything stops, the host has a timer that starts them after LATEST_S, in case that
    nobody is left to do it; the start takes it away.
    """
    names, timer = " ".join(f"{one}.service" for one in services), f"bringup-start-{services[0]}"
    off = f"systemctl stop {timer}.timer 2>/dev/null"
    later = (
        f"systemd-run --quiet --collect --unit={timer} --on-active={LATEST_S:.0f}s systemctl start --no-block {names}"
    )
    stop = f"systemctl kill --signal=KILL {names}; systemctl stop {names}" if kill else f"systemctl stop {names}"
    start = f"systemctl start {'--no-block ' if kill else ''}{names}"
    try:
        host.run(_as_root(f"{off}; {later} && {{ {stop}; }}"))
        yield
    finally:
        for left in reversed(range(START_TRIES)):
            try:
                host.run(_as_root(f"{start} && {{ {off} || true; }}"))
                break
            except DeviceError:
                if not left:
                    raise
                time.sleep(START_AGAIN_S)


def _as_root(script: str) -> str:
    return f"if [ \"$(id -u)\" = 0 ]; then sh -c '{script}'; else sudo -n sh -c '{script}'; fi"


def _until(engine: Kubernetes, node: str, ready: bool) -> float:
    """Seconds until the API server says so of a node; BadAnswer when the budget is spent."""
    began = time.monotonic()
    while True:
        (body,) = engine.ask({"verb": "GET", "path": f"{NODES}/{node}", "only": ("status.conditions",)})
        with engine.reading(f"read node {node}"):
            states = {one["type"]: one["status"] for one in body["status.conditions"] or ()}
        took_s = time.monotonic() - began
        if (states.get(READY) == "True") is ready:
            return round(took_s, 1)
        wanted = "ready again" if ready else "missed"
        if took_s > BUDGET_S:
            raise BadAnswer(
                node, "stop its kubelet", f"a node that is {wanted} within {BUDGET_S:g} s", "none", "kubectl get nodes"
            )
        note(f"{node}: waiting until it is {wanted}")
        engine.nap(POLL_S)


def _container(engine: Kubernetes, path: str) -> str:
    """The identity of the pod's container and how often it was started anew; '' while it does not run."""
    (body,) = engine.ask({"verb": "GET", "path": path, "only": ("status.containerStatuses",)})
    with engine.reading("read a pod"):
        seen: Sequence[Mapping[str, Any]] = body["status.containerStatuses"] or ()
        return next((f"{one['containerID']} {one['restartCount']}" for one in seen if "running" in one["state"]), "")
