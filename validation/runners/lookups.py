"""A pod on every GPU node that asks the cluster's DNS for the API server's name.

    said = try_names(plan, connect(plan))      # {node: what its pod said}

The pods ask as programs of members do: from the network of pods, at the server that the kubelet wrote into their /etc/resolv.conf.
They are made in the namespace of acceptance's loads and deleted at the end. Raises DeviceError where the API server does not answer
or refuses them.
"""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from typing_extensions import TypedDict

from capacity.model import Plan
from capacity.services.slurm import design
from network.drivers import answers
from network.drivers.answers import Line, Source, Whole
from network.drivers.errors import DeviceError
from validation.runners.kubernetes import Kubernetes
from validation.runners.pods import node_pod
from validation.runners.trial_pods import BUDGET_S, TRIED, message_of, run_pods, unreadable

PROGRAM = Path(__file__).parent.parent / "workloads" / "names.py"
NAME = "kubernetes.default.svc.cluster.local."
"""Of the API server. The dot at its end keeps the resolver from trying it in other domains first."""


class Lookup(TypedDict):
    """What became of a pod: name servers that it has, addresses of the name, milliseconds until they were there, why there are
    none; when its container ran, as the kubelet says it.
    """

    servers: list[Line]
    addresses: list[Line]
    took_ms: Whole
    began: Line
    ended: Line
    why: Line


def try_names(plan: Plan, engine: Kubernetes) -> dict[str, Lookup]:
    """By GPU node, what its pod said."""
    nodes = [one.name for one in design(plan, plan.catalog).nodes if one.gpus]
    run, image, command = (
        uuid.uuid4().hex[:8],
        engine.image(nodes),
        ["/usr/bin/python3", "-c", PROGRAM.read_text(), NAME],
    )
    names = {node: f"bringup-named-{run}-{node}" for node in nodes}
    labels = {TRIED: run}
    pods = [node_pod(node, name, command, image, limit_s=BUDGET_S, labels=labels) for node, name in names.items()]
    found = run_pods(engine, pods, run, "have asked for a name")
    return {node: _lookup(found.get(name)) for node, name in names.items()}


def _lookup(found: Mapping[str, Any] | None) -> Lookup:
    empty: dict[str, Any] = {"servers": [], "addresses": [], "took_ms": 0, "began": "", "ended": "", "why": ""}
    said, why = message_of(found)
    if not why:
        try:
            return answers.read(Lookup, {**empty, **said}, Source("pod", "ask for a name"))
        except DeviceError as error:
            why = unreadable(error)
    return cast(Lookup, {**empty, "why": why})
