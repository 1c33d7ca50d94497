"""The stages of stages.py as two JobSets: in each a job starts when the one before it is complete (dependsOn, JobSet 0.11.0).

ended = run(engine, "/shared", "/shared/jobs/bringup-stages-1a2b", budget_s)      # {stage: how its job ended}
"""

import shlex
import time
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from inventory.site.sections.software import LOADS
from network.drivers.errors import BadAnswer
from validation.progress import note
from validation.runners.engine import Job
from validation.runners.jobset import API, RUN
from validation.runners.kubernetes import JOBSETS, PODS, STRICT, Kubernetes
from validation.runners.pods import node_pod
from validation.runners.stages import CHAIN, FAILING, NEVER, script_of

SET, STAGE = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
"""Labels that JobSet sets on pods."""
FIELDS = ("metadata.name", "metadata.labels", "spec.nodeName", "status.phase")
STATES = {"Succeeded": "COMPLETED", "Failed": "FAILED"}
POLL_S = 1.0
LOG_BYTES = 4096


def run(engine: Kubernetes, shared: str, folder: str, budget_s: float) -> dict[str, Job]:
    """All stages, on one node; their folder on the shared storage is removed again. budget_s: of each job. DeviceError."""
    node = next((name for name, one in engine.nodes().items() if one.ready and name in engine.hosts), "")
    if not node:
        raise BadAnswer(engine.controller.name, "run stages", "a GPU node that takes pods", "none", "kubectl get nodes")
    home, run_id = shlex.quote(folder), uuid.uuid4().hex[:8]
    chain = {stage: script_of(folder, stage, before) for before, stage in zip(("", *CHAIN), CHAIN, strict=False)}
    stops = {FAILING: "exit 3\n", NEVER: "exit 0\n"}
    sets = {f"bringup-stages-{run_id}": chain, f"bringup-stops-{run_id}": stops}
    image, ended = engine.image([node]), dict[str, Job]()
    engine.submitting()
    engine.controller.run(f"umask 077; mkdir -p {home}")
    try:
        made = [jobset(name, engine.run, node, image, shared, stages, budget_s) for name, stages in sets.items()]
        engine.ask(
            *({"verb": "POST", "path": f"{JOBSETS}?{STRICT}", "body": one, "only": ("metadata.name",)} for one in made)
        )
        for name, stages in sets.items():
            ended |= _ended(engine, name, list(stages), budget_s * len(stages))
        return ended
    finally:
        try:
            gone = "?propagationPolicy=Background"
            engine.ask(
                *({"verb": "DELETE", "path": f"{JOBSETS}/{name}{gone}", "only": ("status",)} for name in sets),
                accept=(200, 202, 404),
            )
        finally:
            engine.controller.run(f"rm -rf {home}", check=False)


def jobset(
    name: str, run_label: str, node: str, image: str, shared: str, scripts: Mapping[str, str], limit_s: float
) -> dict[str, Any]:
    """Jobs of one pod each, every one after the one before it is complete. shared: the mount of the shared storage."""
    jobs: list[dict[str, Any]] = []
    for stage, script in scripts.items():
        pod = node_pod(node, name, ["/usr/bin/bash", "-c", script], image, limit_s=limit_s, folders=(shared,))
        after = {"dependsOn": [{"name": jobs[-1]["name"], "status": "Complete"}]} if jobs else {}
        template = {"spec": {"backoffLimit": 0, "template": {"spec": pod["spec"]}}}
        jobs.append({"name": stage, "replicas": 1, "template": template, **after})
    spec = {"network": {"enableDNSHostnames": False}, "failurePolicy": {"maxRestarts": 0}, "replicatedJobs": jobs}
    metadata = {"name": name, "namespace": LOADS, "labels": {RUN: run_label}}
    return {"apiVersion": API, "kind": "JobSet", "metadata": metadata, "spec": spec}


def _ended(engine: Kubernetes, name: str, stages: list[str], budget_s: float) -> dict[str, Job]:
    """How the jobs of a JobSet stand when it is over or the budget spent: one that was never made is CANCELLED."""
    began = time.monotonic()
    while True:
        (one,) = engine.ask({"verb": "GET", "path": f"{JOBSETS}/{name}", "only": ("status",)})
        with engine.reading("read a JobSet"):
            end = str((one["status"] or {}).get("terminalState") or "")
        took_s = time.monotonic() - began
        if end or took_s >= budget_s:
            break
        note(f"{name}: {len(stages)} stages, not over yet")
        engine.nap(POLL_S)
    pods = engine.ask(
        {"verb": "GET", "path": f"{PODS}?labelSelector={quote(f'{SET}={name}', safe='')}", "fields": FIELDS}
    )
    with engine.reading("read pods"):
        by_stage = {str(pod["metadata.labels"][STAGE]): pod for pod in pods[0]["items"]}
    return {stage: _job(engine, by_stage.get(stage), end, took_s) for stage in stages}


def _job(engine: Kubernetes, pod: Mapping[str, Any] | None, end: str, seconds: float) -> Job:
    if pod is None:
        return Job(0, "CANCELLED" if end else "BUDGET", "", "", "", b"", seconds)
    state, node = STATES.get(str(pod["status.phase"]), "BUDGET"), str(pod["spec.nodeName"] or "")
    if state == "BUDGET":  # its container may have no log yet
        return Job(0, state, "", node, "", b"", seconds)
    path = f"{PODS}/{quote(str(pod['metadata.name']), safe='')}/log?limitBytes={LOG_BYTES}"
    (said,) = engine.ask({"verb": "GET", "path": path, "text": True})
    return Job(0, state, "", node, "", str(said).encode(), seconds)
