"""One GPU of each node that reports an XID, and what the node offers to pods then and after its repair.

    said = raise_xids(engine, {"gpu001": Chosen(8, "GPU-…")}, Programs(("raise-it",), ("repair-it",)))

Nothing in NVIDIA's driver makes a GPU report a fatal XID on request, so whoever runs the checks gives a program that does, and one
that repairs the GPU. Both are started on this machine with a node and a slot as their last words. NVIDIA's device plugin never
takes a GPU back that it has called unhealthy (k8s-device-plugin v0.18.0, internal/plugin/server.go, ListAndWatch), so its pod is
started anew after the repair. Repair and new start come in all cases. Nodes are tried in batches, each repaired before the next
begins. Raises DeviceError where the API server does not answer.
"""

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from capacity.services.platform.sharing import GPU_RESOURCE
from network.drivers import answers
from network.drivers.answers import Line, Number, Source, Whole
from network.drivers.errors import one_line
from validation.facts.kube import NODES
from validation.progress import note
from validation.runners import local
from validation.runners.kubernetes import PODS, Kubernetes
from validation.runners.pods import node_pod

IN_POD = (Path(__file__).parent.parent / "workloads" / "granted.py").read_text()
PROGRAM_S = 120.0
"""Of one program that raises an XID or repairs a GPU. A choice of ours."""
AT_ONCE = 8
BATCH = 32
"""Nodes with a GPU at fault at the same time: what is left to do by hand where this machine fails meanwhile. Four programs one
after the other, as AT_ONCE run at once. A choice of ours."""
BUDGET_S = 3600.0
"""After that no further batch begins: 1,000 nodes are 32 batches of 112 s each. A choice of ours."""
NOTICE_S = 60.0
"""Until the nodes offer less: far beyond what is expected (kube.OFFERED_S), to say how long it took."""
POD_S = 60.0
BACK_S = 180.0
"""Until the plugin's new pods run and all GPUs are on offer again. Choices of ours."""
POLL_S = 0.5
ALLOCATABLE = "status.allocatable"
PLUGINS = "/api/v1/namespaces/kube-system/pods?labelSelector=name%3Dnvidia-device-plugin-ds"
"""The device plugin's pods (third_party/k8s-device-plugin)."""
NOT_ENDED = "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"


@dataclass(frozen=True)
class Chosen:
    """A GPU by its slot (the driver's module ID) and UUID."""

    slot: int
    uuid: str


@dataclass(frozen=True)
class Programs:
    """What raises an XID and what repairs the GPU, as words of a command without node and slot."""

    fault: tuple[str, ...]
    repair: tuple[str, ...]


class Less(TypedDict):
    """What a node offered: GPUs before, after the XID and seconds until then; UUIDs given to a pod that asked for that many; GPUs
    after the repair and seconds since the plugin was started anew. `uuid`: of the GPU that reported. `why`: what went wrong.
    """

    uuid: Line
    before: Whole
    offered: Whole
    noticed_s: Number
    given: list[Line]
    after: Whole
    back_s: Number
    why: Line


def raise_xids(engine: Kubernetes, chosen: Mapping[str, Chosen], programs: Programs) -> dict[str, Less]:
    """By node. One whose GPUs pods hold, or that is not reached in time, is left alone, and says so."""
    said, nodes, end = dict[str, Less](), list(chosen), time.monotonic() + BUDGET_S
    for first in range(0, len(nodes), BATCH):
        if time.monotonic() > end:
            why = f"not tried: {BUDGET_S:.0f} s were spent on the {first} nodes before it"
            return said | {node: _untried(chosen[node], 0, why) for node in nodes[first:]}
        said |= _try({node: chosen[node] for node in nodes[first : first + BATCH]}, engine, programs)
        note(f"{len(said)} of {len(nodes)} nodes are done")
    return said


def _untried(gpu: Chosen, before: int, why: str) -> Less:
    return Less(uuid=gpu.uuid, before=before, offered=before, noticed_s=0, given=[], after=before, back_s=0, why=why)


def _try(chosen: Mapping[str, Chosen], engine: Kubernetes, programs: Programs) -> dict[str, Less]:
    """All of these nodes together."""
    before, held = _offers(engine), _held(engine)
    said = {
        node: _untried(
            gpu,
            before.get(node, 0),
            f"pods hold {held[node]} of its GPUs: ask again when it is idle" if held.get(node) else "",
        )
        for node, gpu in chosen.items()
    }
    tried = [node for node, one in said.items() if not one["why"]]
    try:
        _give_the_rest(engine, said, _raise_and_wait(engine, said, tried, chosen, programs))
    finally:
        try:
            _repair(said, tried, chosen, programs)
        finally:
            _wait_for_all(engine, said, tried)
    return said


def _repair(said: Mapping[str, Less], nodes: Sequence[str], chosen: Mapping[str, Chosen], programs: Programs) -> None:
    """The GPU of each node, whatever becomes of another's. Where the wait is interrupted, the pool still runs all of them."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {node: pool.submit(_run, programs.repair, node, chosen[node]) for node in nodes}
        for node, one in running.items():
            error = one.exception()
            why = f"{programs.repair[0]}: {one_line(repr(error))}" if error else one.result()
            said[node]["why"] = said[node]["why"] or why
            note(f"{node}: its GPU is {'not ' if why else ''}repaired")


def _raise_and_wait(
    engine: Kubernetes, said: Mapping[str, Less], nodes: Sequence[str], chosen: Mapping[str, Chosen], programs: Programs
) -> list[str]:
    """Nodes whose GPU reported an XID, once each of them offers less, or the budget is spent. Seconds count from the end of the
    program that raised it; programs of several nodes run at once.
    """
    raised: dict[str, float] = {}

    def report(node: str) -> None:
        why = _run(programs.fault, node, chosen[node])
        if why:
            said[node]["why"] = why
        else:
            raised[node] = time.monotonic()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(report, node) for node in nodes]
        try:
            while True:
                over = all(one.done() for one in running)
                offers, now = _offers(engine), time.monotonic()
                for node in nodes:
                    if said[node]["offered"] == said[node]["before"] > offers.get(node, 0):
                        said[node]["offered"] = offers.get(node, 0)
                        said[node]["noticed_s"] = round(now - raised.get(node, now), 1)
                waiting = [node for node in raised if said[node]["offered"] == said[node]["before"]]
                if over and (not waiting or now - max(raised.values()) > NOTICE_S):
                    break
                note(f"{len(raised) - len(waiting)} of {len(nodes)} nodes offer a GPU less")
                engine.nap(POLL_S)
        finally:
            for one in running:
                one.cancel()  # those that have not begun, where this is broken off
    for one in running:
        one.result()
    return list(raised)


def _give_the_rest(engine: Kubernetes, said: Mapping[str, Less], nodes: Sequence[str]) -> None:
    """A pod on each node that asks for all that is on offer there, and says which GPUs it was given."""
    wanted = {node: said[node]["offered"] for node in nodes if 0 < said[node]["offered"] < said[node]["before"]}
    if not wanted:
        return
    run, image = f"bringup-xid-{uuid.uuid4().hex[:8]}", engine.image(wanted)
    names = {node: f"{run}-{node}" for node in wanted}
    try:
        pods = []
        for node, gpus in wanted.items():
            command = ["/usr/bin/python3", "-c", IN_POD, str(said[node]["before"]), "0"]
            made = node_pod(node, names[node], command, image, limit_s=POD_S, gpus=gpus)
            made["spec"]["nodeName"] = node  # its health check may have taken it out of service meanwhile
            pods.append(made)
        engine.ask(*({"verb": "POST", "path": PODS, "body": one, "only": ("metadata.name",)} for one in pods))
        left, end = list(wanted), time.monotonic() + POD_S
        while left and time.monotonic() < end:
            engine.nap(POLL_S)
            fields = ("status.containerStatuses",)
            bodies = engine.ask(*({"verb": "GET", "path": f"{PODS}/{names[node]}", "only": fields} for node in left))
            for node, body in zip(left, bodies, strict=True):
                said[node]["given"] = _given(engine, body)
            left = [node for node in left if not said[node]["given"]]
    finally:
        paths = [f"{PODS}/{name}?gracePeriodSeconds=0" for name in names.values()]
        _delete(engine, paths)


def _delete(engine: Kubernetes, paths: Sequence[str]) -> None:
    """Objects that may be gone already."""
    engine.ask(*({"verb": "DELETE", "path": path, "only": ("kind",)} for path in paths), accept=(200, 202, 404))


def _given(engine: Kubernetes, body: Mapping[str, Any]) -> list[str]:
    """UUIDs that a pod said it was given; none until it has ended."""
    with engine.reading("read a pod"):
        ended = [one["state"].get("terminated") or {} for one in body["status.containerStatuses"] or ()]
        text = next((one["message"] for one in ended if one.get("message")), "")
        if not text:
            return []
        said = json.loads(str(text)[:8192])["uuids"]
    return answers.read(list[Line], said, Source("pod", "ask for its GPUs"))


def _wait_for_all(engine: Kubernetes, said: Mapping[str, Less], nodes: Sequence[str]) -> None:
    """Start the plugin's pods on these nodes anew, and wait until all offer as many GPUs as before, or the budget is spent."""
    (body,) = engine.ask({"verb": "GET", "path": PLUGINS, "fields": ("metadata.name", "spec.nodeName")})
    with engine.reading("list the device plugin's pods"):
        pods = {str(one["spec.nodeName"]): str(one["metadata.name"]) for one in body["items"]}
    _delete(engine, [f"{PLUGINS.partition('?')[0]}/{pods[node]}" for node in nodes if node in pods])
    began, waiting = time.monotonic(), list(nodes)
    while waiting and time.monotonic() - began < BACK_S:
        engine.nap(POLL_S)
        offers = _offers(engine)
        for node in list(waiting):
            said[node]["after"] = offers.get(node, 0)
            said[node]["back_s"] = round(time.monotonic() - began, 1)
            if said[node]["after"] == said[node]["before"]:
                waiting.remove(node)
        note(f"{len(nodes) - len(waiting)} of {len(nodes)} nodes offer all their GPUs again")


def _offers(engine: Kubernetes) -> dict[str, int]:
    """GPUs on offer by node."""
    (body,) = engine.ask({"verb": "GET", "path": NODES, "fields": ("metadata.name", ALLOCATABLE)})
    with engine.reading("list nodes"):
        return {str(one["metadata.name"]): int((one[ALLOCATABLE] or {}).get(GPU_RESOURCE, 0)) for one in body["items"]}


def _held(engine: Kubernetes) -> dict[str, int]:
    """GPUs by node that pods hold."""
    (body,) = engine.ask({"verb": "GET", "path": NOT_ENDED, "fields": ("spec.nodeName", "spec.containers")})
    held: dict[str, int] = {}
    with engine.reading("list pods"):
        for one in body["items"]:
            for container in one["spec.containers"]:
                asked = (container.get("resources") or {}).get("limits") or {}
                node = str(one["spec.nodeName"])
                held[node] = held.get(node, 0) + int(asked.get(GPU_RESOURCE, 0))
    return held


def _run(words: Sequence[str], node: str, gpu: Chosen) -> str:
    """Start a program for a GPU; '' or what went wrong."""
    try:
        ended = local.run([*words, node, str(gpu.slot)], PROGRAM_S, Path.cwd(), os.environ)
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    if ended.status == 0:
        return ""
    said = one_line((ended.err or ended.out).decode(errors="replace"))
    return f"{words[0]}: {'no end in time' if ended.status is None else said}"
