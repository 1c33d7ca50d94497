"""Whether a workload has rolled out, and what keeps its pods from running. Pure.

The rules are those of `kubectl rollout status` (k8s.io/kubectl, pkg/polymorphichelpers/rollout_status.go), but for a DaemonSet: on
hundreds of nodes some are always away, so as many pods may be old or not available as its own update may take down at once.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

GENERATION, GENERATION_OF_POD = "deprecated.daemonset.template.generation", "pod-template-generation"
"""Annotation of a DaemonSet, and the label of its pods with the same number (k8s.io/api, apps/v1)."""
NODES_NAMED = 8
"""In one message, a choice: a rack, not a list of hundreds."""
Object = Mapping[str, Any]


@dataclass(frozen=True)
class Rollout:
    """`done`; or `failed`, when waiting longer is of no use; or neither. `seen` is how far it is."""

    done: bool
    seen: str
    failed: bool = False


def rollout(live: Object) -> Rollout | None:
    """How far the roll-out of an object is; None for a kind that has none."""
    judge = JUDGES.get(str(live.get("kind")))
    if judge is None:
        return None
    status = live.get("status", {})
    if status.get("observedGeneration", 0) < live["metadata"].get("generation", 0):
        return Rollout(False, "its controller has not seen the change")
    return judge(live.get("spec", {}), status)


def _deployment(spec: Object, status: Object) -> Rollout:
    wanted, updated, ready = (
        spec.get("replicas", 1),
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
    )
    old = status.get("replicas", 0) - updated
    seen = f"{updated} of {wanted} pods of the new revision, {ready} available, {max(old, 0)} of the old one left"
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    if conditions.get("Progressing", {}).get("reason") == "ProgressDeadlineExceeded":
        return Rollout(False, seen, failed=True)
    return Rollout(updated >= wanted and old <= 0 and ready >= updated, seen)


def _daemon_set(spec: Object, status: Object) -> Rollout:
    wanted = status.get("desiredNumberScheduled", 0)
    updated, ready = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    old, away = max(wanted - updated, 0), max(wanted - ready, 0)
    given = (spec.get("updateStrategy", {}).get("rollingUpdate") or {}).get("maxUnavailable", 0)
    # A pod may be both, which counts twice. Where all are away nothing says that the new ones work.
    done = old + away <= may_be_away(given, wanted) and (ready > 0 or not wanted)
    return Rollout(done, f"{updated} of {wanted} pods updated, {away} not available")


def may_be_away(given: int | str, wanted: int) -> int:
    """Pods of a DaemonSet by its maxUnavailable, a number or a percentage, which rounds up (k8s.io/api, apps/v1)."""
    if isinstance(given, int):
        return given
    return -(-wanted * int(given.removesuffix("%")) // 100)


def left_out(live: Object, pods: Iterable[Object]) -> str:
    """Nodes that have no pod of a DaemonSet's revision that is ready, by count and name; '' where all have one, and of other kinds.

    pods: those of the DaemonSet. The template's generation says which are of its revision (kubernetes/kubernetes,
    pkg/controller/daemon/util, IsPodUpdated). A node without any pod is counted and has no name here.
    """
    if live["kind"] != "DaemonSet":
        return ""
    generation = (live["metadata"].get("annotations") or {}).get(GENERATION)
    whole, lacking = set[str](), dict[str, str]()
    for pod in pods:
        node, own = _node_of(pod), (pod["metadata"].get("labels") or {}).get(GENERATION_OF_POD)
        if own == generation and _is_ready(pod):
            whole.add(node)
        else:
            lacking[node] = "not ready" if own == generation else "old"
    named = [f"{node} ({why})" for node, why in sorted(lacking.items()) if node and node not in whole]
    count = live.get("status", {}).get("desiredNumberScheduled", 0) - len(whole)
    if count <= 0:
        return ""
    names = ", ".join(named[:NODES_NAMED]) + (" and others" if len(named) > NODES_NAMED else "")
    return f"{count} of its nodes have no ready pod of this revision" + (f": {names}" if named else "")


def _node_of(pod: Object) -> str:
    """Where a pod of a DaemonSet is, or is to be: its affinity names the node before it is placed."""
    spec = pod.get("spec", {})
    placed = spec.get("nodeName")
    if placed:
        return str(placed)
    affinity = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    for term in affinity.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def _is_ready(pod: Object) -> bool:
    conditions = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions") or ()}
    return conditions.get("Ready") == "True"


def _stateful_set(spec: Object, status: Object) -> Rollout:
    wanted, updated, ready = spec.get("replicas", 1), status.get("updatedReplicas", 0), status.get("readyReplicas", 0)
    return Rollout(updated >= wanted and ready >= wanted, f"{updated} of {wanted} pods updated, {ready} ready")


JUDGES: dict[str, Callable[[Object, Object], Rollout]] = {
    "Deployment": _deployment,
    "DaemonSet": _daemon_set,
    "StatefulSet": _stateful_set,
}


def obstacle(pods: Iterable[Object]) -> str:
    """Why the first pod that is not ready is not: a container's reason, else the scheduler's; '' where no pod says one."""
    for pod in pods:
        status = pod.get("status", {})
        conditions = {one["type"]: one for one in status.get("conditions") or ()}
        if _is_ready(pod):
            continue
        said = [
            one["state"][state]
            for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
            for state in ("waiting", "terminated")
            if state in one.get("state", {})
        ]
        if conditions.get("PodScheduled", {}).get("status") == "False":
            said.append(conditions["PodScheduled"])
        for one in said:
            if one.get("reason"):
                why = ": ".join(part for part in (one["reason"], one.get("message", "")) if part)
                return f"pod {pod['metadata']['name']}: {why}"
    return ""
