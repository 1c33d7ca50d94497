"""Whether gangs start whole and where: Jobs without work that the site's Kueue places for a moment, and one that it must not.

    said = ask(plan, over_ssh(plan))       # plain data; DeviceError when the controller or the API server does not answer

Four Jobs in the namespace `commissioning`, of containers that do nothing (the pause image that the nodes have already), in the
lowest tier that the namespace may use: any other job that needs their GPUs preempts them. They take over half of the cluster for
some seconds, so they start on a cluster that others leave idle, and else wait until the time is up. All are deleted at the end; one
that cannot be ends by itself.
"""

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from capacity.model import Plan
from capacity.services.platform.queues import LOCAL_QUEUE
from capacity.services.platform.sharing import GPU_RESOURCE, whole_nodes
from capacity.services.platform.topology import HOSTNAME, PREFIX, node_labels
from capacity.services.slurm import CHECK_ACCOUNT, Design
from capacity.services.slurm import design as nodes_of
from network.drivers.errors import BadAnswer
from validation.facts.kube import DONE, MESSAGE, ApiServer, CallApi, controller_of
from validation.facts.kueue import (
    CLUSTER_QUEUES,
    JOB_OF_POD,
    PRIORITIES,
    PRIORITY,
    WORKLOAD_FIELDS,
    Object,
    condition_of,
    count,
    queued_job,
    workloads,
)

BLOCK = f"{PREFIX}/block"
HALVES, ONE_BLOCK = ("bringup-gang-a", "bringup-gang-b"), "bringup-gang-block"
TOO_MANY = "bringup-too-many-gpus"
START_S = 120.0
"""For a gang to run: Kueue and the scheduler take seconds, a machine with other work longer. A choice of ours."""
HOLD_S = 10.0
"""How long the second gang is watched beside the first."""
POLL_S = 2.0
LIMIT_S = 600
"""How long a Job may run that nobody deletes: START_S twice (for its own pods, then beside another Job) and HOLD_S, and as long
again for the calls of all samples. A choice of ours. The time that Kueue keeps it suspended does not count
(https://kubernetes.io/docs/concepts/workloads/controllers/job/#suspending-a-job)."""
NEVER_ALIVE = {"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 1}
"""The kubelet ends a container that fails it by SIGTERM, on which pause exits with 0: a pod that is not restarted has succeeded."""
RESERVED = "status.flavorsReservation"
"""Of a ClusterQueue: by flavor and resource, what its admitted workloads hold."""
IS_NAMED = "metadata.name"
"""Of an object; none in a refusal."""
ANNOTATED = ("metadata.name", "metadata.annotations")
MERGE = "application/merge-patch+json"
POD_FIELDS = ("metadata.labels", "metadata.deletionTimestamp", "spec.nodeName", "status.phase")


def job(
    name: str,
    namespace: str,
    tier: str,
    pods: int,
    gpus: int,
    image: str,
    level: str = "",
    grace_s: int = 1,
    limit_s: int = LIMIT_S,
    labels: Mapping[str, str] | None = None,
    node: str = "",
    succeeds: bool = False,
) -> Object:
    """A Job of pods that do nothing, within one value of the node label `level`, on a node, or anywhere. It fails after it ran for
    limit_s; with `succeeds` it has succeeded after a moment."""
    container = {
        "name": "a",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {GPU_RESOURCE: str(gpus)}},
        **({"livenessProbe": NEVER_ALIVE} if succeeds else {}),
    }
    pod = {
        "restartPolicy": "Never",
        "priorityClassName": tier,
        "terminationGracePeriodSeconds": grace_s,
        "containers": [container],
        **({"nodeSelector": {HOSTNAME: node}} if node else {}),
    }
    ends = {"completionMode": "Indexed", "activeDeadlineSeconds": limit_s}
    return queued_job(name, namespace, LOCAL_QUEUE, pod, pods=pods, level=level, labels=labels, **ends)


def sizes(plan: Plan) -> tuple[int, int]:
    """Pods of a gang over half of the nodes with whole GPUs, and of one over half of their largest block.

    Over half and not all: nodes that are away do not matter.
    """
    places, nodes = node_labels(plan), whole_nodes(plan)
    blocks = [places[node.name].get(BLOCK, "") for node in nodes]
    return len(nodes) // 2 + 1, max(blocks.count(one) for one in set(blocks)) // 2 + 1


def ask(plan: Plan, call: CallApi, sleep: Callable[[float], None] = time.sleep) -> dict[str, Any]:
    """What became of the four. `halves`: samples of running and of all pods of both; `block`: the nodes of the third; `too_many`:
    how many pods the fourth had at most, and why it waits.
    """
    half, one_block = sizes(plan)
    site = Site(plan, call, sleep)
    with site.job(HALVES[0], half), site.job(HALVES[1], half):
        first, samples, why = site.first_of_two(half)
        then = []
        if first:
            site.delete(first)
            (second,) = set(HALVES) - {first}
            then = site.until(second, half)
    with site.job(ONE_BLOCK, one_block, BLOCK):
        site.until(ONE_BLOCK, one_block)
        _, nodes, said = site.seen(ONE_BLOCK)
    with site.job(TOO_MANY, 1, gpus=site.largest + 1):
        most, waits = site.refused(TOO_MANY)
    return {
        "halves": {"pods": half, "first": first, "samples": samples, "then": then, "why": why},
        "block": {"pods": one_block, "nodes": sorted(nodes), "why": said},
        "too_many": {"gpus": site.largest + 1, "pods": most, "why": waits},
    }


def lowest_tier(wanted: Design, account: str) -> str:
    """The lowest tier that an account may use."""
    (own,) = [one for one in wanted.accounts if one.name == account]
    return [one.name for one in wanted.qos if one.name in own.qos][-1]


class Site(ApiServer):
    """The Jobs of one run in the namespace of an account. gpus, largest: of the whole node with the fewest and of that with the
    most.
    """

    def __init__(self, plan: Plan, call: CallApi, sleep: Callable[[float], None]) -> None:
        super().__init__(call, controller_of(plan))
        self.plan = plan
        self._sleep, self._wanted = sleep, nodes_of(plan, plan.catalog)
        nodes = whole_nodes(plan)
        self._all_gpus = sum(one.gpus for one in nodes)
        self.gpus, self.largest = (of(one.gpus for one in nodes) for of in (min, max))
        self._image = self.image([nodes[0].name])
        self._labels: Mapping[str, str] = {}
        self._enter(CHECK_ACCOUNT)

    def _enter(self, account: str) -> None:
        self.account, self.tier = account, lowest_tier(self._wanted, account)
        self._jobs = f"/apis/batch/v1/namespaces/{account}/jobs"
        self._pods = f"/api/v1/namespaces/{account}/pods"

    def of(self, account: str, labels: Mapping[str, str]) -> "Site":
        """The same site in the namespace of another account. labels: of its Jobs."""
        other = copy.copy(self)
        other._labels = labels
        other._enter(account)
        return other

    @contextlib.contextmanager
    def job(
        self,
        name: str,
        pods: int,
        level: str = "",
        gpus: int = 0,
        node: str = "",
        caller: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        limit_s: int = LIMIT_S,
        succeeds: bool = False,
    ) -> Iterator[None]:
        """A Job while the body runs. gpus: of each pod; 0: all of a node, of that with the fewest. caller: whom the administrator
        impersonates to make it (user, group). annotations: of the Job and of its pods. limit_s, succeeds: as for `job`.
        """
        given = (self.account, self.tier, pods, gpus or self.gpus, self._image, level)
        body = job(name, *given, limit_s=limit_s, labels=self._labels, node=node, succeeds=succeeds)
        body["metadata"]["annotations"] = dict(annotations or {})
        body["spec"]["template"]["metadata"]["annotations"] |= annotations or {}
        self.ask({"verb": "POST", "path": self._jobs, "body": body, "only": (MESSAGE,), **(caller or {})})
        try:
            yield
        finally:
            self.delete(name)

    def annotated(self, name: str) -> dict[str, dict[str, str]]:
        """The annotations of each pod of a Job, by its name."""
        call = {"verb": "GET", "path": f"{self._pods}?labelSelector={JOB_OF_POD}%3D{name}", "fields": ANNOTATED}
        (listed,) = self.ask(call)
        with self.reading(f"read the pods of {name}"):
            return {str(one["metadata.name"]): dict(one["metadata.annotations"] or {}) for one in listed["items"]}

    def annotate(self, pod: str, annotations: Mapping[str, str], caller: Mapping[str, str]) -> None:
        """Try to change annotations of a pod, as `caller`. A refusal is as good as none: what is there afterwards counts."""
        body = {"metadata": {"annotations": dict(annotations)}}
        call = {
            "verb": "PATCH",
            "path": f"{self._pods}/{pod}",
            "body": body,
            "type": MERGE,
            "only": (MESSAGE,),
            **caller,
        }
        self.ask(call, accept=(*DONE, 403, 422))

    def delete(self, name: str) -> None:
        """Delete a Job with its pods, and wait until these are gone."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        self.ask(
            {"verb": "DELETE", "path": f"{self._jobs}/{name}", "body": body, "only": (MESSAGE,)}, accept=(*DONE, 404)
        )
        for _ in range(int(START_S / POLL_S)):
            if self.seen(name)[0][1] == 0:
                return
            self._sleep(POLL_S)

    def until_gone(self, path: str) -> None:
        """Wait until an object that was deleted is no more; BadAnswer when the time is up."""
        for _ in range(int(START_S / POLL_S)):
            (found,) = self.ask({"verb": "GET", "path": path, "only": (IS_NAMED,)}, accept=(*DONE, 404))
            with self.reading(f"read {path}"):
                if found.get(IS_NAMED) is None:
                    return
            self._sleep(POLL_S)
        wanted, step = f"{path} gone within {START_S:g} s", f"kubectl get --raw {path}"
        raise BadAnswer(self.name, "delete what a trial made", wanted, "it is still there", step)

    def first_of_two(self, pods: int) -> tuple[str, list[list[int]], str]:
        """Which runs whole ('' for none in time); samples of [running, all] of the one, then of the other; why one waits."""
        samples: list[list[int]] = []
        first, why, rounds = "", "", int(START_S / POLL_S)
        while rounds > 0:
            a, b = (self.seen(name) for name in HALVES)
            samples.append([*a[0], *b[0]])
            why = a[2] or b[2]
            if not first:
                first = next((name for name, one in zip(HALVES, (a, b), strict=True) if one[0][0] == pods), "")
                rounds = int(HOLD_S / POLL_S) if first else rounds
            rounds -= 1
            self._sleep(POLL_S)
        return first, samples, why

    def until(self, name: str, pods: int) -> list[list[int]]:
        """Samples of [running, all] until all pods run, or the time is up."""
        samples = []
        for _ in range(int(START_S / POLL_S)):
            counts, _, _ = self.seen(name)
            samples.append(list(counts))
            if counts[0] == pods:
                break
            self._sleep(POLL_S)
        return samples

    def refused(self, name: str) -> tuple[int, str]:
        """(most pods of a Job that Kueue must not admit, why it waits; '' where Kueue has not said in time)."""
        most, why = 0, ""
        for _ in range(int(START_S / POLL_S)):
            counts, _, why = self.seen(name)
            most = max(most, counts[1])
            if most or why:
                break
            self._sleep(POLL_S)
        return most, why

    def seen(self, name: str) -> tuple[tuple[int, int], list[str], str]:
        """((running, all) pods of a Job, the nodes of those that run, why Kueue has not admitted it)."""
        selector = f"?labelSelector={JOB_OF_POD}%3D{name}"
        pods, queued = self.ask(
            {"verb": "GET", "path": f"{self._pods}{selector}", "fields": POD_FIELDS},
            {"verb": "GET", "path": workloads(self.account), "fields": WORKLOAD_FIELDS},
        )
        with self.reading(f"read the pods of {name}"):
            running = [
                str(one["spec.nodeName"])
                for one in pods["items"]
                if one["status.phase"] == "Running" and not one["metadata.deletionTimestamp"]
            ]
            waits = condition_of(queued["items"], name, "QuotaReserved", "False")
            return (len(running), len(pods["items"])), running, str(waits.get("message", ""))[:300]

    def evicted(self, name: str) -> str:
        """Why Kueue took the GPUs of a Job that ran, and queued it again; '' where it has not."""
        (queued,) = self.ask({"verb": "GET", "path": workloads(self.account), "fields": WORKLOAD_FIELDS})
        with self.reading(f"read the workload of {name}"):
            return str(condition_of(queued["items"], name, "Requeued", "True").get("reason", ""))

    @contextlib.contextmanager
    def priority(self, body: Mapping[str, Any]) -> Iterator[dict[str, str]]:
        """The label that gives a WorkloadPriorityClass to a Job, while the body runs; one that another run left is as good."""
        name = body["metadata"]["name"]
        self.ask({"verb": "POST", "path": PRIORITIES, "body": body, "only": (MESSAGE,)}, accept=(*DONE, 409))
        try:
            yield {PRIORITY: name}
        finally:
            self.ask({"verb": "DELETE", "path": f"{PRIORITIES}/{name}", "only": (MESSAGE,)}, accept=(*DONE, 404))

    def unreserved(self) -> int:
        """Whole GPUs of the site that Kueue has reserved for nobody; all quota stands at the root (platform/queues.py)."""
        (body,) = self.ask({"verb": "GET", "path": CLUSTER_QUEUES, "fields": (RESERVED,)})
        with self.reading("read what is reserved"):
            reserved = sum(
                count(str(resource["total"]))
                for queue in body["items"]
                for flavor in queue[RESERVED] or ()
                for resource in flavor["resources"]
                if resource["name"] == GPU_RESOURCE
            )
        return self._all_gpus - reserved
