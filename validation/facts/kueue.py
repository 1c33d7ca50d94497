"""Jobs that Kueue admits, and what it says of them in their workloads. Pure.

Sources: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/ (suspended, label of the queue),
https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/ (annotations).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from capacity.services.platform.queues import API

CLUSTER_QUEUES, PRIORITIES = f"/apis/{API}/clusterqueues", f"/apis/{API}/workloadpriorityclasses"
QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
"""Labels of a Job. PRIORITY: the class by which Kueue orders and preempts, whatever class its pods have
(https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/)."""
JOB_OF_POD = "batch.kubernetes.io/job-name"
WORKLOAD_FIELDS = ("metadata.ownerReferences", "status.conditions")
COUNT = re.compile(r"[0-9]{1,9}k?")

Object = dict[str, Any]


def workloads(namespace: str) -> str:
    """The path of a namespace's workloads."""
    return f"/apis/{API}/namespaces/{namespace}/workloads"


def queued_job(
    name: str,
    namespace: str,
    queue: str,
    pod: Mapping[str, Any],
    *,
    pods: int = 1,
    level: str = "",
    labels: Mapping[str, str] | None = None,
    **more: Any,
) -> Object:
    """A Job of pods that start together: within one value of the node label `level`, or anywhere. Kueue lifts its suspension.

    pod: the spec of each. more: further fields of the Job's spec.
    """
    where = {"podset-required-topology": level} if level else {"podset-unconstrained-topology": "true"}
    template = {
        "metadata": {"annotations": {f"kueue.x-k8s.io/{key}": value for key, value in where.items()}},
        "spec": dict(pod),
    }
    spec = {"suspend": True, "parallelism": pods, "completions": pods, "template": template, **more}
    metadata = {"name": name, "namespace": namespace, "labels": {QUEUE: queue, **(labels or {})}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def priority_class(name: str, value: int, description: str) -> Object:
    """A WorkloadPriorityClass."""
    metadata = {"name": name}
    return {
        "apiVersion": API,
        "kind": "WorkloadPriorityClass",
        "metadata": metadata,
        "value": value,
        "description": description,
    }


def condition_of(items: Iterable[Mapping[str, Any]], job: str, kind: str, status: str) -> Mapping[str, Any]:
    """A condition of a Job's workload, of `items` with WORKLOAD_FIELDS; {} where it has none with this status."""
    for one in items:
        if any(owner.get("name") == job for owner in one["metadata.ownerReferences"] or ()):
            for condition in one["status.conditions"] or ():
                if (condition.get("type"), condition.get("status")) == (kind, status):
                    return dict(condition)
    return {}


def count(quantity: str) -> int:
    """A whole quantity as Kueue writes it: 8k is 8000. ValueError for another form."""
    if not COUNT.fullmatch(quantity):
        raise ValueError(f"{quantity} is no whole quantity")
    return int(quantity.replace("k", "000"))
