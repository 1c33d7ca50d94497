"""Pods that ask for all GPUs of a node but one, for one, and for none, at the same time on every GPU node.

Where GPUs are shared, two pods ask for one part each, and a third for none. Each names all GPUs in its environment, as images of
CUDA do.

    said = try_grants(plan, connect(plan))      # {node: {trial: what the pod said of its GPUs}}

They run as pods of members with GPUs do, in NVIDIA's runtime: of their node they have its /usr at another place alone.

The pods are made in the namespace of acceptance's loads and deleted at the end. They hold their GPUs for a while, so that those of
a node are there together. Raises DeviceError where the API server does not answer or refuses them.
"""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from typing_extensions import TypedDict

from capacity.model import Plan
from capacity.services.platform.runtime import runtime_of
from capacity.services.platform.sharing import offers
from capacity.services.slurm import design
from network.drivers import answers
from network.drivers.answers import Line, Source, Whole
from network.drivers.errors import DeviceError
from validation.runners.kubernetes import Kubernetes
from validation.runners.pods import LOADERS, apart, node_pod
from validation.runners.trial_pods import BUDGET_S, TRIED, message_of, run_pods, unreadable

PROGRAM = Path(__file__).parent.parent / "workloads" / "granted.py"
HOLD_S = 20
"""How long a pod holds its GPUs. A kubelet starts three pods in a few seconds. A choice of ours."""
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
    found = run_pods(engine, pods, run, "have said which GPUs they have")
    return {
        node: {trial: _grant(asked, found.get(_name(run, node, trial))) for trial, asked in wanted.items()}
        for node, wanted in trials.items()
    }


def _name(run: str, node: str, trial: str) -> str:
    return f"bringup-tried-{run}-{node}-{trial}"


def _grant(asked: int, found: Mapping[str, Any] | None) -> Grant:
    lists: dict[str, Any] = {part: [] for part in ("uuids", "seen", "opened", "driver", "rdma", "rdma_of_node")}
    empty = {"asked": asked, **lists, "may_pin": "", "began": "", "ended": "", "why": ""}
    said, why = message_of(found)
    if not why:
        try:
            return answers.read(Grant, {**empty, **said, "asked": asked, "why": ""}, Source("pod", "ask for its GPUs"))
        except DeviceError as error:
            why = unreadable(error)
    return cast(Grant, {**empty, "why": why})
