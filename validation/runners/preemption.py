"""A job of the highest tier that needs the GPUs of one of the lowest, on a site with Kubernetes: who yields, when, and goes on.

    said = preempt(plan, connect(plan), shared_folder)

Both are Jobs in the queue of acceptance's loads that ask for all GPUs of a node. The one that yields waits for a free node; the
other is bound to that node, so that jobs on other nodes stay. The one that yields counts steps. At SIGTERM it writes the count to
the shared storage, for WRITE_S seconds, and ends. Started again, there or elsewhere, it goes on from there. Jobs and folder are
removed. Raises DeviceError where the API server or a node does not answer.
"""

import contextlib
import re
import shlex
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import TypedDict

from capacity.model import Plan
from capacity.services.platform.queues import LOADS_QUEUE
from capacity.services.platform.sharing import whole_nodes
from capacity.services.slurm import CHECK_ACCOUNT
from capacity.services.slurm import design as tiers_of
from inventory.site.sections.software import LOADS
from network.drivers import answers
from network.drivers.answers import Line, Whole
from network.drivers.errors import BadAnswer
from validation.facts.kueue import JOB_OF_POD, WORKLOAD_FIELDS, condition_of, queued_job, workloads
from validation.progress import note
from validation.runners.jobset import RUN
from validation.runners.kubernetes import JOBS, PODS, Kubernetes
from validation.runners.pods import node_pod

WRITE_S = 3
"""How long the one that yields takes for its checkpoint: more than no grace at all, less than any tier has. A choice of ours."""
POLL_S = 1.0
BUDGET_S = 300.0
"""Of each wait. A choice of ours; the limit that a site sets is judged afterwards."""
LONGEST_S = 3600
RESTARTS = 3
"""Pods of a Job that may fail before it does: a pod that ends because its Job was suspended may be counted as one."""
POD_FIELDS = (
    "metadata.name",
    "metadata.deletionTimestamp",
    "spec.nodeName",
    "status.phase",
    "status.containerStatuses",
)
AFTER_ITS_END = "Failed"
"""podReplacementPolicy: a Job starts no further pod, perhaps on another node, while one still writes its checkpoint
(https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy)."""
SAID = re.compile(r"^(checkpoint|resumed) ([0-9]{1,9})$", re.MULTILINE)

# As the first process of its pod: bash waits for a child only, so that its trap runs at once.
YIELDING = """cd {folder}
if [ -s step ]; then echo "resumed $(cat step)" >>said; exit 0; fi
step=0
trap 'sleep {write_s}; echo "$step" >step; echo "checkpoint $step" >>said; exit 143' TERM
while :; do sleep 0.2 & wait $!; step=$((step + 1)); done
"""
URGENT = "sleep 2"


class Preempted(TypedDict):
    """Both tiers, and the times of the urgent job (RFC 3339) as the API server has them; why Kueue evicted the other, how often its
    pod was made, and what it wrote.
    """

    node: Line
    urgent_tier: Line
    yielding_tier: Line
    grace_s: Whole
    asked: Line
    started: Line
    evicted: Line
    starts: Whole
    said: list[Line]


def preempt(plan: Plan, engine: Kubernetes, shared: str) -> Preempted:
    """On a GPU node that Kueue has free, of those with the most GPUs. shared: where the shared storage is mounted."""
    wanted = tiers_of(plan, plan.catalog)
    (account,) = [one for one in wanted.accounts if one.name == CHECK_ACCOUNT]
    tiers = [one for one in wanted.qos if one.name in account.qos]
    highest, lowest = tiers[0], tiers[-1]
    whole = {one.name: one.gpus for one in whole_nodes(plan)}
    gpus = max(whole.values())
    ready = [name for name, one in engine.nodes().items() if one.ready and name in whole]
    if not ready or highest is lowest:
        seen = f"{len(ready)} nodes and {len(tiers)} tiers"
        step = "kubectl get nodes; tiers of the site file"
        raise BadAnswer(engine.controller.name, "preempt a job", "a GPU node that takes pods, two tiers", seen, step)
    run = uuid.uuid4().hex[:8]
    folder, image = f"{shared}/jobs/bringup-yields-{run}", engine.image(ready)
    victim, urgent = f"bringup-yields-{run}", f"bringup-urgent-{run}"
    program = YIELDING.format(folder=shlex.quote(folder), write_s=WRITE_S)
    trial = _Trial(engine)

    def job(name: str, command: str, tier: str, node: str = "") -> dict[str, Any]:
        command_line = ["/usr/bin/bash", "-c", command]
        made = node_pod(node, name, command_line, image, limit_s=LONGEST_S, gpus=gpus, folders=(shared,))
        pod = {**made["spec"], "priorityClassName": tier, "terminationGracePeriodSeconds": lowest.grace_s}
        return queued_job(
            name,
            LOADS,
            LOADS_QUEUE,
            pod,
            labels={RUN: engine.run},
            backoffLimit=RESTARTS,
            podReplacementPolicy=AFTER_ITS_END,
        )

    engine.controller.run(f"umask 077; mkdir -p {shlex.quote(folder)}")
    try:
        with trial.job(job(victim, program, lowest.name)):
            trial.until(victim, "runs", lambda: trial.began(victim) != "")
            node = trial.nodes[victim]
            engine.nap(POLL_S)  # its steps count
            with trial.job(job(urgent, URGENT, highest.name, node)) as asked:
                trial.until(urgent, f"starts in place of {victim}", lambda: trial.began(urgent) != "")
                started = trial.began(urgent)
                trial.until(urgent, "ends", lambda: trial.over(urgent))
            trial.until(victim, "goes on and ends", lambda: trial.over(victim))
            evicted = trial.evicted(victim)
        text = engine.controller.run(f"cat {shlex.quote(folder)}/said", check=False).out
    finally:
        engine.controller.run(f"rm -rf {shlex.quote(folder)}", check=False)
    said = {
        "node": node,
        "urgent_tier": highest.name,
        "yielding_tier": lowest.name,
        "grace_s": lowest.grace_s,
        "asked": asked,
        "started": started,
        "evicted": evicted,
        "starts": trial.starts(victim),
        "said": [" ".join(found) for found in SAID.findall(text)][:4],
    }
    return answers.read(Preempted, said, engine.source("preempt a job"))


class _Trial:
    """The Jobs of one trial as the API server has them."""

    def __init__(self, engine: Kubernetes) -> None:
        self.engine = engine
        self.pods: dict[str, set[str]] = {}
        self.nodes: dict[str, str] = {}

    @contextlib.contextmanager
    def job(self, body: Mapping[str, Any]) -> Iterator[Any]:
        """A Job while the body runs; the time of its creation, as the API server gives it."""
        name = body["metadata"]["name"]
        self.engine.submitting()
        (made,) = self.engine.ask({"verb": "POST", "path": JOBS, "body": body, "only": ("metadata.creationTimestamp",)})
        try:
            yield made["metadata.creationTimestamp"]
        finally:
            gone = f"{JOBS}/{name}?propagationPolicy=Background"
            self.engine.ask({"verb": "DELETE", "path": gone, "only": ("kind",)}, accept=(200, 202, 404))

    def until(self, name: str, what: str, holds: Any) -> None:
        """Wait for it; BadAnswer with Kueue's words when the budget is spent."""
        end = time.monotonic() + BUDGET_S
        while not holds():
            if time.monotonic() > end:
                seen = self._condition(name, "QuotaReserved", "False").get("message") or "nothing said why not"
                where = self.engine.controller.name
                raise BadAnswer(
                    where, "preempt a job", f"{name} {what} within {BUDGET_S:g} s", seen, "kubectl get workloads -A"
                )
            note(f"waiting until {name} {what}")
            self.engine.nap(POLL_S)

    def began(self, name: str) -> str:
        """When the container of its pod started, and in `nodes` where; '' while none has."""
        (body,) = self.engine.ask(
            {"verb": "GET", "path": f"{PODS}?labelSelector={JOB_OF_POD}%3D{name}", "fields": POD_FIELDS}
        )
        with self.engine.reading("read pods"):
            self.pods.setdefault(name, set()).update(str(one["metadata.name"]) for one in body["items"])
            for one in body["items"]:
                for container in one["status.containerStatuses"] or ():
                    state = container["state"].get("running") or container["state"].get("terminated") or {}
                    if state.get("startedAt") and not one["metadata.deletionTimestamp"]:
                        self.nodes[name] = answers.line(one["spec.nodeName"] + "")
                        return str(state["startedAt"])
        return ""

    def starts(self, name: str) -> int:
        """How many pods of it were seen."""
        return len(self.pods.get(name, ()))

    def over(self, name: str) -> bool:
        """Whether it is complete; BadAnswer for one that failed."""
        self.began(name)  # to count its pods
        (body,) = self.engine.ask({"verb": "GET", "path": f"{JOBS}/{name}", "only": ("status.conditions",)})
        with self.engine.reading("read a Job"):
            states = {str(one["type"]): one for one in body["status.conditions"] or () if one["status"] == "True"}
        if "Failed" in states:
            said = str(states["Failed"].get("message", ""))
            raise self.engine.source(f"read Job {name}").unreadable("a Job that completes", said)
        return "Complete" in states

    def evicted(self, name: str) -> str:
        """Why Kueue evicted its workload and queued it again; '' where it has not. The condition stays when it goes on."""
        return str(self._condition(name, "Requeued", "True").get("reason", ""))

    def _condition(self, name: str, kind: str, status: str) -> Mapping[str, Any]:
        (body,) = self.engine.ask({"verb": "GET", "path": workloads(LOADS), "fields": WORKLOAD_FIELDS})
        with self.engine.reading("read workloads"):
            return condition_of(body["items"], name, kind, status)
