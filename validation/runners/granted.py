"""Pods that ask for all GPUs of a node but one, for one, and for none, at the same time on every GPU node.

Where GPUs are shared, two pods ask for one part each, and a third for none. Each names all GPUs in its environment, as images of
CUDA do.

    said = try_grants(plan, connect(plan))      # {node: {trial: what the pod said of its GPUs}}

They run as pods of members with GPUs do, in NVIDIA's runtime: of their node they have its /usr at another place alone.

The pods are made in the namespace of acceptance's loads and deleted at the end. They hold their GPUs for a while, so that those of
a node are there together. Raises DeviceError where the API server does not answer or refuses them.
"""

import json
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from typing_extensions import TypedDict

from capacity.model import Plan
from capacity.services.platform.runtime import runtime_of
from capacity.services.platform.sharing import offers
from capacity.services.platform.topology import PREFIX
from capacity.services.slurm import design
from network.drivers import answers
from network.drivers.answers import Line, Source, Whole
from network.drivers.errors import DeviceError
from validation.progress import note
from validation.runners.kubernetes import PODS, Kubernetes
from validation.runners.pods import LOADERS, apart, node_pod

PROGRAM = Path(__file__).parent.parent / "workloads" / "granted.py"
TRIED = f"{PREFIX}/tried"
"""Label of the pods of one run."""
HOLD_S = 20
"""How long a pod holds its GPUs. A kubelet starts three pods in a few seconds. A choice of ours."""
BUDGET_S = 300.0
"""From the first pod made to the last one ended: 3,000 pods of 1,000 nodes at 50 a second, and the time that they hold. A choice of
ours."""
POLL_S = 2.0
FIELDS = (
    "metadata.name",
    "status.phase",
    "status.reason",
    "status.message",
    "status.conditions",
    "status.containerStatuses",
)
ENDED = ("Succeeded", "Failed")
ALL_NAMED = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}


class Grant(TypedDict):
    """What became of a pod: how many GPUs it asked for, UUIDs given, minor numbers of device files seen and of GPUs that it might
    open, libraries of the driver in it, its RDMA devices and its node's, bytes that it may pin or 'unlimited'; when its container
    ran, as the kubelet says it, and why it said nothing.
    """

    asked: Whole
    uuids: list[Line]
    seen: list[Whole]
    opened: list[Whole]
    driver: list[Line]
    rdma: list[Line]
    rdma_of_node: list[Line]
    may_pin: Line
    began: Line
    ended: Line
    why: Line


def trials_of(gpus: int, shared: bool = False) -> dict[str, int]:
    """What each pod of a node asks for, by trial: GPUs, all of them together. shared: parts of GPUs, one for a pod."""
    if shared:
        return {"one": 1, "another": 1, "none": 0}
    return {"rest": gpus - 1, "one": 1, "none": 0} if gpus > 1 else {"one": 1, "none": 0}


def try_grants(plan: Plan, engine: Kubernetes) -> dict[str, dict[str, Grant]]:
    """By GPU node and trial, what each pod said."""
    gpus = {one.name: one.gpus for one in design(plan, plan.catalog).nodes if one.gpus}
    of = offers(plan)
    trials = {node: trials_of(count, shared=bool(of[node].profile)) for node, count in gpus.items()}
    run, image, architecture = uuid.uuid4().hex[:8], engine.image(gpus), engine.architecture(gpus)
    if architecture not in LOADERS:
        raise engine.source("start programs in pods").unreadable(f"a node of {' or '.join(LOADERS)}", architecture)
    program, runtime = PROGRAM.read_text(), runtime_of(plan.site)

    def pod(node: str, trial: str, asked: int) -> dict[str, Any]:
        command = ["/usr/bin/python3", "-c", program, str(gpus[node]), str(HOLD_S)]
        name, resource = _name(run, node, trial), of[node].resource
        made = node_pod(
            node, name, command, image, limit_s=BUDGET_S, gpus=asked, resource=resource, labels={TRIED: run}
        )
        (container,) = made["spec"]["containers"]
        container["env"].append(ALL_NAMED)
        return apart(made, architecture, runtime)

    pods = [pod(node, trial, asked) for node, wanted in trials.items() for trial, asked in wanted.items()]
    chosen = f"{PODS}?labelSelector={TRIED}%3D{run}"
    try:
        engine.ask(*({"verb": "POST", "path": PODS, "body": one, "only": ("metadata.name",)} for one in pods))
        found = _ended(engine, chosen, len(pods))
    finally:
        engine.ask({"verb": "DELETE", "path": chosen, "only": ("kind",)})
    return {
        node: {trial: _grant(asked, found.get(_name(run, node, trial))) for trial, asked in wanted.items()}
        for node, wanted in trials.items()
    }


def _name(run: str, node: str, trial: str) -> str:
    return f"bringup-tried-{run}-{node}-{trial}"


def _ended(engine: Kubernetes, path: str, wanted: int) -> dict[str, Mapping[str, Any]]:
    """The pods by name once all have ended, or as they are when the budget is spent."""
    end = time.monotonic() + BUDGET_S
    while True:
        (body,) = engine.ask({"verb": "GET", "path": path, "fields": FIELDS})
        with engine.reading("read pods"):
            found = {str(one["metadata.name"]): one for one in body["items"]}
            over = sum(one["status.phase"] in ENDED for one in found.values())
        if over >= wanted or time.monotonic() > end:
            return found
        note(f"{over} of {wanted} pods have said which GPUs they have")
        engine.nap(POLL_S)


def _grant(asked: int, found: Mapping[str, Any] | None) -> Grant:
    """What the API server says of a pod, and in it what the pod said. Both are bounded, and neither is believed to have a shape."""
    lists: dict[str, Any] = {part: [] for part in ("uuids", "seen", "opened", "driver", "rdma", "rdma_of_node")}
    empty = cast(Grant, {"asked": asked, **lists, "may_pin": "", "began": "", "ended": "", "why": ""})
    if found is None:
        return {**empty, "why": "the API server has no such pod any more"}
    try:
        state = ((found["status.containerStatuses"] or [{}])[0].get("state") or {}).get("terminated") or {}
        if found["status.phase"] == "Succeeded":
            said = json.loads(str(state["message"])[:8192])
            times = {"began": state["startedAt"], "ended": state["finishedAt"]}
            return answers.read(
                Grant, {**empty, **said, **times, "asked": asked, "why": ""}, Source("pod", "ask for its GPUs")
            )
        scheduled = [one.get("message") for one in found["status.conditions"] or () if one.get("status") == "False"]
        reasons = [found["status.message"], state.get("message"), state.get("reason"), *scheduled]
        why = next((str(one) for one in reasons if one), f"it is {found['status.phase']}")
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError, DeviceError) as error:
        why = f"an answer that cannot be read: {type(error).__name__}"
    return {**empty, "why": answers.line(why)}
