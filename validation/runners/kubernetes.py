"""Loads through the site's own Kubernetes, as JobSets, asked for at its API server from the first controller.

    engine = connect(plan)
    job = engine.wait(engine.begin(load), budget_s=240)      # deletes the JobSet when the load is over, or the budget spent

Calls go over SSH with the administrator's kubeconfig, which stays on the controller (facts/kube.py). States have Slurm's words, so
that runners and evidence know one set of them. Ranks leave their results on their nodes, as jobs of Slurm do.
"""

import contextlib
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from capacity.model import Plan
from capacity.services.platform.topology import OUT_OF_SERVICE
from capacity.services.slurm import design as tiers_of
from inventory.site.sections.software import LOADS
from network.drivers import answers
from network.drivers.credentials import node_credentials
from network.drivers.errors import BadAnswer, DeviceError
from network.drivers.ssh import SshHost
from validation.facts import kube
from validation.facts.gather import address_of
from validation.facts.kube import DONE, NODES, ApiServer, CallApi
from validation.progress import note
from validation.runners.engine import DRAINED_SINCE, Drain, Job, Load, OneRun, Sight, Standing, failed_items
from validation.runners.jobset import (
    API,
    ATTEMPT,
    COUNT,
    INDEX,
    JOB,
    RUN,
    Place,
    jobset,
    name_of,
    needs_rendezvous,
    service,
)

POLL_S = 1.0
LONGEST_POLL_S = 30.0
CALLS_S = 60.0
"""All calls of one question; an API server that is up answers within a second. A choice of ours."""
LOG_BYTES, LOG_LINES = 65536, 400
"""What is kept of the log of a load: the end of it. A choice of ours."""
SHOWN_PODS = 3
JOBSETS = f"/apis/{API}/namespaces/{LOADS}/jobsets"
PODS = f"/api/v1/namespaces/{LOADS}/pods"
JOBS = f"/apis/batch/v1/namespaces/{LOADS}/jobs"
SERVICES = f"/api/v1/namespaces/{LOADS}/services"
STRICT = "fieldValidation=Strict"
"""An unknown field is refused, and not dropped."""
CORDON = "node.kubernetes.io/unschedulable"
REASON = f"{OUT_OF_SERVICE}-reason"
"""Annotation of a node that is out of service: why."""
NO_POWER = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
"""Tells the cluster that a node is off for sure: its pods are given up at once
(https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown)."""
WEBHOOK = "failed calling webhook"
"""What the API server says of an object whose webhook it could not ask (k8s.io/apiserver v0.36.3,
pkg/util/webhook/error.go)."""
WEBHOOK_S = 120.0
"""How long webhooks are asked again: a node that is silent is missed after 65 s at most (validation/kube.py, NOTICED_S), and until
then one call of two waits its 10 s. A choice of ours."""
RUNNING = "/api/v1/pods?fieldSelector=status.phase%3DRunning"
MERGE = "application/merge-patch+json"
POD_FIELDS = (
    "metadata.name",
    "metadata.labels",
    "metadata.deletionTimestamp",
    "spec.nodeName",
    "status.phase",
    "status.reason",
    "status.message",
    "status.conditions",
    "status.containerStatuses",
)
NODE_FIELDS = (
    "metadata.name",
    "metadata.annotations",
    "metadata.resourceVersion",
    "spec.unschedulable",
    "spec.taints",
    "status.conditions",
)
SET_FIELDS = ("metadata.labels", "spec.suspend", "status")
DISRUPTED = {
    "DeletionByTaintManager": "NODE_FAIL",
    "DeletionByPodGC": "NODE_FAIL",
    "TerminationByKubelet": "NODE_FAIL",
    "PreemptionByScheduler": "PREEMPTED",
    "EvictionByEvictionAPI": "PREEMPTED",
}
"""Reasons of a pod's condition DisruptionTarget
(https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions), in Slurm's words."""


@dataclass(frozen=True)
class KubeNode:
    """A node: `state` is idle, drained or down."""

    name: str
    state: str
    reason: str
    taints: tuple[Mapping[str, Any], ...]
    cordoned: bool
    version: str

    def taint(self, key: str) -> Mapping[str, Any]:
        """The first taint of a key, which may have one for each effect; empty where there is none."""
        return next((one for one in self.taints if one["key"] == key), {})

    @property
    def ready(self) -> bool:
        """Whether pods are placed on it."""
        return self.state == "idle"


@dataclass(frozen=True)
class Pod:
    """A pod of a load. began, ended: when its container did, None for not yet. why: what keeps it, or ended it. lost: DISRUPTED's
    word for its end, '' for none."""

    name: str
    job: int
    index: int
    node: str
    phase: str
    going: bool
    attempt: int
    exit_code: int | None
    began: datetime | None
    ended: datetime | None
    why: str
    lost: str

    @property
    def failed(self) -> bool:
        """Whether it ended badly."""
        return self.phase == "Failed" or bool(self.exit_code)


@dataclass(frozen=True)
class Seen:
    """A JobSet and its pods. end: Completed, Failed or ''."""

    end: str
    why: str
    restarts: int
    suspended: bool
    count: int
    pods: tuple[Pod, ...]

    @property
    def current(self) -> list[Pod]:
        """The pods of the attempt that counts, by index."""
        return sorted((one for one in self.pods if one.attempt == self.restarts), key=lambda one: one.index)

    @property
    def state(self) -> str:
        """In Slurm's words."""
        if self.end == "Completed":
            return "COMPLETED"
        if self.end == "Failed":
            return next((one.lost for one in self.current if one.lost), "FAILED")
        up = [one for one in self.current if not one.going and one.phase in ("Running", "Succeeded")]
        return "RUNNING" if len(up) >= self.count else "PENDING"

    @property
    def reason(self) -> str:
        """What keeps it or ended it."""
        texts = [f"{one.node or one.name}: {one.why}" for one in self.current if one.why]
        texts = ([self.why] if self.why else []) + list(dict.fromkeys(texts))[:SHOWN_PODS]
        return "; ".join((["suspended: its queue has not admitted it"] if self.suspended else []) + texts)

    @property
    def seconds(self) -> float:
        """How long it has run, of the attempt that counts."""
        begun = [one.began for one in self.current if one.began]
        if not begun:
            return 0.0
        over = [one.ended for one in self.current if one.ended]
        last = max(over) if self.end and over else datetime.now(UTC)
        return max(0.0, (last - min(begun)).total_seconds())


class Kubernetes(OneRun, ApiServer):
    """The scheduler of a site with Kubernetes. `addresses`: of its GPU nodes in the provisioning network, in the order of the plan;
    priority: the PriorityClass of loads.

    All JobSets, Jobs and Services carry the label RUN, a name of this object alone: `close` deletes them.
    """

    title = "Kubernetes"

    def __init__(
        self,
        call: CallApi,
        controller: SshHost,
        hosts: Mapping[str, SshHost],
        addresses: Mapping[str, str],
        priority: str,
    ) -> None:
        OneRun.__init__(self, controller)
        ApiServer.__init__(self, call, controller.name)
        self.hosts = hosts
        self.addresses, self.priority = addresses, priority

    # ---- nodes -------------------------------------------------------------------------------------------------
    def nodes(self) -> dict[str, KubeNode]:
        """The nodes that the API server knows."""
        (body,) = self.ask({"verb": "GET", "path": NODES, "fields": NODE_FIELDS})
        with self.reading("list nodes"):
            return {one.name: one for one in map(_node, body["items"])}

    def node(self, name: str) -> KubeNode:
        """One node."""
        (body,) = self.ask({"verb": "GET", "path": f"{NODES}/{quote(name, safe='')}", "only": NODE_FIELDS})
        with self.reading(f"read node {name}"):
            return _node(body)

    def drain(self, node: str) -> Drain:
        """Why and since when a node takes no pods. BadAnswer for one that is cordoned and does not say since when."""
        found = self.node(node)
        words = {"idle": "IDLE", "drained": "IDLE+DRAIN", "down": "DOWN+NOT_RESPONDING"}[found.state]
        taken_out = bool(found.cordoned or found.taint(OUT_OF_SERVICE))
        if found.state == "down" and taken_out:
            words = "DOWN+DRAIN+NOT_RESPONDING"
        if not taken_out:
            return Drain(node, words, found.reason, datetime.min.replace(tzinfo=UTC))
        for key in (OUT_OF_SERVICE, CORDON):
            at = found.taint(key).get("timeAdded")
            if at:
                with self.reading(f"read taint {key} of {node}"):
                    since = _time(at)
                reason = found.reason
                if told := DRAINED_SINCE.search(reason):
                    since = min(since, datetime.fromisoformat(told[1]).replace(tzinfo=UTC))
                    reason = reason[: told.start()]
                return Drain(node, words, reason, since)
        raise self.source(f"read node {node}").unreadable(
            f"taint {OUT_OF_SERVICE} with timeAdded", "a cordoned node that does not say since when"
        )

    def drain_again(self, node: str, reason: str) -> None:
        """Cordon a node and taint it with its reason; pods that run there go on."""
        item, now = next(iter(failed_items(reason)), "drained"), datetime.now(UTC)
        taint = {"key": OUT_OF_SERVICE, "value": item, "effect": "NoSchedule", "timeAdded": f"{now:%Y-%m-%dT%H:%M:%SZ}"}
        self._change(node, OUT_OF_SERVICE, taint, cordoned=True, reason=reason)

    def resume(self, node: str) -> None:
        """Take taint, reason and cordon from a node."""
        self._change(node, OUT_OF_SERVICE, None, cordoned=False, reason=None)

    def serving(self, nodes: Sequence[str]) -> Collection[str]:
        """Those of these nodes with a pod of a Deployment, such as the controllers of JobSets and queues."""
        fields = ("spec.nodeName", "metadata.ownerReferences")
        (body,) = self.ask({"verb": "GET", "path": RUNNING, "fields": fields})
        with self.reading("list pods"):
            found = {
                str(one["spec.nodeName"])
                for one in body["items"]
                for owner in one["metadata.ownerReferences"] or ()
                if owner["kind"] == "ReplicaSet"
            }
        return found & set(nodes)

    def give_up(self, node: str) -> None:
        """Tell the cluster that a node is without power: its pods are taken from it at once. Its return takes the taint away."""
        self._change(node, NO_POWER["key"], NO_POWER)

    def back(self, node: str) -> None:
        """Tell the cluster that a node has its power again."""
        self._change(node, NO_POWER["key"], None)

    def _change(
        self,
        node: str,
        key: str,
        taint: Mapping[str, Any] | None,
        cordoned: bool | None = None,
        reason: str | None = None,
    ) -> None:
        """Set or remove a taint, and with `cordoned` cordon and reason. A node that somebody has changed meanwhile is refused: the
        API has no way to change one taint of a list."""
        found = self.node(node)
        taints = [dict(one) for one in found.taints if one["key"] != key]
        body: dict[str, Any] = {
            "metadata": {"resourceVersion": found.version},
            "spec": {"taints": [*taints, dict(taint)] if taint else taints},
        }
        if cordoned is not None:
            body["spec"]["unschedulable"] = cordoned
            body["metadata"]["annotations"] = {REASON: reason}
            # the node controller's own, which follows the cordon
            body["spec"]["taints"] = [one for one in body["spec"]["taints"] if one["key"] != CORDON]
        path = f"{NODES}/{quote(node, safe='')}"
        self.ask({"verb": "PATCH", "path": path, "body": body, "type": MERGE, "only": ("metadata.name",)})

    def hold(self, name: str, nodes: Sequence[str]) -> None:
        """Nothing: nodes stay cordoned, and loads for them tolerate that."""

    def held(self, name: str) -> bool:
        """Never: see `hold`."""
        return False

    def admit(self, nodes: Sequence[str]) -> None:
        """Nothing: see `hold`."""

    def release(self, name: str) -> None:
        """Nothing: see `hold`."""

    # ---- loads -------------------------------------------------------------------------------------------------
    def begin(self, load: Load) -> int:
        """Submit a load; its number."""
        candidates = list(load.on) or [name for name, node in self.nodes().items() if node.ready]
        addresses = self._addresses(candidates)
        if len(addresses) < load.nodes:
            seen = f"{len(addresses)}: {', '.join(addresses) or 'none'}"
            step = "bring nodes up or uncordon them: kubectl get nodes"
            raise BadAnswer(self.controller.name, f"begin {load.name}", f"{load.nodes} nodes ready", seen, step)
        place = Place(_number(), self.run, addresses, self.image(addresses), self.priority)
        if needs_rendezvous(load, addresses):
            place = replace(place, rendezvous=self._rendezvous(load, place.number))
        try:
            self._create(jobset(load, place))
        except BaseException:
            self._try_cancel(place.number)
            raise
        return place.number

    def begin_on_each(self, load: Load, nodes: Sequence[str], held: str = "") -> dict[str, int]:
        """Submit a load of one node to each of these. held: they are out of service, and the loads run there all the same."""
        addresses = self._addresses(nodes)
        image = self.image(addresses)
        places = {
            node: Place(_number(), self.run, {node: address}, image, self.priority, drained=bool(held))
            for node, address in addresses.items()
        }
        try:
            self._create(*(jobset(load, place) for place in places.values()))
        except BaseException:
            with contextlib.suppress(DeviceError):
                self.cancel(*(place.number for place in places.values()))
            raise
        return {node: places[node].number for node in nodes}

    def _addresses(self, nodes: Sequence[str]) -> dict[str, str]:
        """Addresses of those of these nodes that are GPU nodes of the plan, in its order."""
        return {name: address for name, address in self.addresses.items() if name in set(nodes)}

    def _rendezvous(self, load: Load, number: int) -> str:
        self.submitting()
        body = service(number, self.run, [one.port for one in load.launches])
        (made,) = self.ask({"verb": "POST", "path": SERVICES, "body": body, "only": ("spec.clusterIP",)})
        with self.reading("read the address of a Service"):
            return answers.line(made["spec.clusterIP"] + "")

    def _create(self, *sets: Mapping[str, Any]) -> None:
        """Make JobSets. While a webhook does not answer, ask again: a node that has lost its power may have had one of its pods."""
        self.submitting()
        calls = [
            {"verb": "POST", "path": f"{JOBSETS}?{STRICT}", "body": one, "only": ("metadata.name",)} for one in sets
        ]
        accept: Sequence[int] = DONE
        end = time.monotonic() + WEBHOOK_S
        while True:
            try:
                self.ask(*calls, accept=accept)
                return
            except BadAnswer as error:
                if WEBHOOK not in str(error) or time.monotonic() >= end:
                    raise
                note(f"a webhook of the cluster does not answer yet: {error}")
            accept = (*DONE, 409)  # those before it are there
            self.nap(POLL_S)

    def wait(self, job_id: int, budget_s: float) -> Job:
        """Wait for the end of a load and delete it; delete it earlier when the budget is spent, or when anything ends the wait.

        An API server that does not answer is asked again until then.
        """
        began, seen, trouble = time.monotonic(), None, ""
        try:
            while True:
                try:
                    found = self._seen([job_id]).get(job_id)
                    seen, trouble = found or seen, "" if found else f"there is no JobSet {name_of(job_id)}"
                except DeviceError as error:
                    trouble = str(error)
                waited = time.monotonic() - began
                note(trouble or f"job {job_id} {seen.state if seen else ''} {seen.reason if seen else ''}".rstrip())
                if seen and seen.end:
                    return self._ended(job_id, seen, seen.state, seen.reason, waited)
                if waited >= budget_s:
                    break
                self.nap(min(LONGEST_POLL_S, max(POLL_S, waited / 100), budget_s - waited))
        except BaseException:
            self._try_cancel(job_id)
            raise
        return self._ended(job_id, seen, "BUDGET", trouble or (seen.reason if seen else ""), time.monotonic() - began)

    def _ended(self, job_id: int, seen: Seen | None, state: str, reason: str, seconds: float) -> Job:
        output, pods = b"", seen.current if seen else []
        bad = [one for one in pods if one.failed] or pods[:1]
        try:
            output = self._log(bad[0]) if bad else b""
        except DeviceError as error:
            output = f"the output could not be fetched: {error}".encode()
        self._try_cancel(job_id)
        nodes = ",".join(dict.fromkeys(one.node for one in pods if one.node))
        code = next((str(one.exit_code) for one in bad if one.exit_code is not None), "")
        return Job(job_id, state, reason, nodes, code, output, seconds)

    def _log(self, pod: Pod) -> bytes:
        path = f"{PODS}/{quote(pod.name, safe='')}/log?tailLines={LOG_LINES}&limitBytes={LOG_BYTES}"
        (body,) = self.ask({"verb": "GET", "path": path, "text": True})
        return str(body).encode()

    def names(self, nodes: str) -> list[str]:
        """The names in the nodes of a Job."""
        return [name for name in nodes.split(",") if name]

    def standing(self, job_ids: Sequence[int]) -> dict[int, Standing]:
        """How loads stand; one without a JobSet is left out."""
        seen = self._seen(job_ids)
        return {job: Standing(one.state, one.reason, one.seconds) for job, one in seen.items()}

    def look(self, job_id: int, node: str = "") -> Sight:
        """A load as it is now, and the state of a node: IDLE, IDLE+DRAIN, or DOWN+NOT_RESPONDING where its kubelet is silent."""
        seen, state = self._seen([job_id]).get(job_id), ""
        if node:
            state = {"idle": "IDLE", "drained": "IDLE+DRAIN", "down": "DOWN+NOT_RESPONDING"}[self.node(node).state]
        if seen is None:
            return Sight("", node=state)
        pods = [one for one in seen.current if one.node]
        order = [name for name in self.addresses if name in {one.node for one in pods}]
        first = next((one.node for one in pods if one.index == 0), "")
        return Sight(seen.state, seen.reason, tuple(order), first, seen.restarts, state)

    def _seen(self, job_ids: Sequence[int]) -> dict[int, Seen]:
        """JobSets with their pods, by number."""
        if not job_ids:
            return {}
        of = f"{JOB} in ({','.join(map(str, job_ids))})" if len(job_ids) < 50 else JOB
        select = f"labelSelector={quote(of, safe='')}"
        sets, pods = self.ask(
            {"verb": "GET", "path": f"{JOBSETS}?{select}", "fields": SET_FIELDS},
            {"verb": "GET", "path": f"{PODS}?{select}", "fields": POD_FIELDS},
        )
        wanted, found = set(job_ids), dict[int, Seen]()
        with self.reading("list JobSets and pods"):
            by_job: dict[int, list[Pod]] = {}
            for pod in map(_pod, pods["items"]):
                by_job.setdefault(pod.job, []).append(pod)
            for one in sets["items"]:
                job = int(one["metadata.labels"][JOB])
                if job in wanted:
                    found[job] = _jobset(one, tuple(by_job.get(job, ())))
        return found

    # ---- ends --------------------------------------------------------------------------------------------------
    def cancel(self, *job_ids: int) -> None:
        """Delete the objects of loads that may still be there."""
        if job_ids:
            gone = "propagationPolicy=Background"
            calls = [
                {"verb": "DELETE", "path": f"{path}/{name_of(job)}?{gone}", "only": ("status",)}
                for job in job_ids
                for path in (JOBSETS, SERVICES)
            ]
            self.ask(*calls, accept=(200, 202, 404))

    def forget(self, *job_ids: int) -> None:
        """Delete what is left of loads that are over."""
        self.cancel(*job_ids)

    def _try_cancel(self, job_id: int) -> None:
        with contextlib.suppress(DeviceError):
            self.cancel(job_id)

    def close(self) -> None:
        """Delete every object of this run, and let whoever waits for one raise BadAnswer. A submission that was broken off may have
        left a JobSet whose number nobody read: they are found by their label."""
        if not self._ending():
            return
        select = f"labelSelector={quote(f'{RUN}={self.run}', safe='')}&propagationPolicy=Background"
        self.ask(
            *({"verb": "DELETE", "path": f"{path}?{select}", "only": ("status",)} for path in (JOBSETS, JOBS, SERVICES))
        )


def connect(plan: Plan) -> Kubernetes:
    """The scheduler of a planned site with Kubernetes."""
    credentials, budget_s = node_credentials(plan.site), plan.site.timeouts.ssh_s

    def host(name: str) -> SshHost:
        return SshHost(name, address_of(plan, name, "provisioning"), credentials, budget_s)

    devices = plan.devices
    controllers = devices.loc[devices["role"] == "controller", "name"].tolist()
    hosts = {name: host(name) for name in devices.loc[devices["role"] == "gpu", "name"].tolist()}
    addresses = {name: one.address for name, one in hosts.items()}
    # the lowest tier: it preempts nobody
    priority = tiers_of(plan, plan.catalog).qos[-1].name
    return Kubernetes(kube.over_ssh(plan, CALLS_S), host(controllers[0]), hosts, addresses, priority)


# ---- reading ---------------------------------------------------------------------------------------------------------
def _number() -> int:
    """A number of nine digits by chance: nothing counts loads, and two of a cluster must not meet."""
    return 100_000_000 + secrets.randbelow(900_000_000)


def _time(text: Any) -> datetime:
    found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _node(one: Mapping[str, Any]) -> KubeNode:
    conditions = {each["type"]: each["status"] for each in one["status.conditions"] or ()}
    taints = tuple(one["spec.taints"] or ())
    keys = {str(each["key"]) for each in taints}
    cordoned = bool(one["spec.unschedulable"])
    down = conditions.get("Ready") != "True" or NO_POWER["key"] in keys
    state = "down" if down else "drained" if cordoned or OUT_OF_SERVICE in keys else "idle"
    reason = (one["metadata.annotations"] or {}).get(REASON, "")
    return KubeNode(
        str(one["metadata.name"]), state, str(reason), taints, cordoned, str(one["metadata.resourceVersion"])
    )


def _pod(one: Mapping[str, Any]) -> Pod:
    labels = one["metadata.labels"]
    status: Mapping[str, Any] = next((each for each in one["status.containerStatuses"] or ()), {})
    state = status.get("state") or {}
    running, ended, waiting = (state.get(key) or {} for key in ("running", "terminated", "waiting"))
    conditions = {each["type"]: each for each in one["status.conditions"] or () if each["status"] == "True"}
    unplaced = [
        each for each in one["status.conditions"] or () if each["type"] == "PodScheduled" and each["status"] == "False"
    ]
    disrupted = conditions.get("DisruptionTarget", {}).get("reason", "")
    deadline = one["status.reason"] == "DeadlineExceeded"
    memory = ended.get("reason") == "OOMKilled"
    lost = "TIMEOUT" if deadline else "OUT_OF_MEMORY" if memory else DISRUPTED.get(disrupted, "")
    told = [
        *(str(part) for part in (one["status.reason"], one["status.message"]) if part),
        *(f"{each.get('reason')}: {each.get('message', '')}" for each in (waiting, *unplaced) if each),
        *([disrupted] if disrupted else []),
        *([f"exit status {ended['exitCode']}"] if ended.get("exitCode") else []),
    ]
    began = running.get("startedAt") or ended.get("startedAt")
    return Pod(
        name=str(one["metadata.name"]),
        job=int(labels[JOB]),
        index=int(labels[INDEX]),
        node=str(one["spec.nodeName"] or ""),
        phase=str(one["status.phase"]),
        going=bool(one["metadata.deletionTimestamp"]),
        attempt=int(labels[ATTEMPT]),
        exit_code=int(ended["exitCode"]) if "exitCode" in ended else None,
        began=_time(began) if began else None,
        ended=_time(ended["finishedAt"]) if ended.get("finishedAt") else None,
        why=answers.line("; ".join(told)),
        lost=lost,
    )


def _jobset(one: Mapping[str, Any], pods: tuple[Pod, ...]) -> Seen:
    status = one["status"] or {}
    end = str(status.get("terminalState") or "")
    said = [each for each in status.get("conditions") or () if each["type"] == "Failed" and each["status"] == "True"]
    why = answers.line(str(said[0].get("message", ""))) if said else ""
    count = int(one["metadata.labels"][COUNT])
    return Seen(end, why, int(status.get("restarts") or 0), bool(one["spec.suspend"]), count, pods)
