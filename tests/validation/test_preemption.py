"""A job that yields to one of a higher tier on Kubernetes: the program itself, what is asked of a cluster, and how it is judged."""

import copy
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pytest

from capacity.model import Plan
from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost
from tests.plans import plan_of
from tests.validation.modelled_hosts import Host
from validation import from_raw, kube
from validation.facts.api_calls import kept
from validation.facts.kueue import workloads
from validation.runners import preemption
from validation.runners.jobset import RUN
from validation.runners.kubernetes import Kubernetes

GOOD: dict[str, Any] = {
    "node": "gpu004",
    "urgent_tier": "inference",
    "yielding_tier": "experimentation",
    "grace_s": 60,
    "asked": "2026-11-29T10:00:00Z",
    "started": "2026-11-29T10:00:09Z",
    "evicted": "Preempted",
    "starts": 2,
    "said": ["checkpoint 17", "resumed 17"],
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


# ---- the program -----------------------------------------------------------------------------------------------------
def test_the_program_writes_its_count_at_sigterm_and_goes_on_from_there(tmp_path: Path) -> None:
    program = preemption.YIELDING.format(folder=tmp_path, write_s=0.1)
    with subprocess.Popen(["bash", "-c", program], env={"PATH": os.environ["PATH"]}) as first:
        while (children := Path(f"/proc/{first.pid}/task/{first.pid}/children")).read_text() == "":
            time.sleep(0.01)
        assert children.exists()
        first.send_signal(signal.SIGTERM)
        assert first.wait(30) == 143
    step = (tmp_path / "step").read_text().strip()
    assert subprocess.run(["bash", "-c", program], timeout=30, check=False).returncode == 0
    assert preemption.SAID.findall((tmp_path / "said").read_text()) == [("checkpoint", step), ("resumed", step)]


# ---- what is asked ---------------------------------------------------------------------------------------------------
class Cluster:
    """A Kueue that gives the node to the job of the highest tier and back. `stuck`: the urgent job is never admitted."""

    def __init__(self, stuck: bool = False, created: Any = "2026-11-29T10:00:00Z") -> None:
        self.created = created
        self.stuck, self.jobs, self.deleted, self.polls = stuck, dict[str, Any](), list[str](), 0
        self.ran: list[str] = []

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{"error": "", **self.answer(one)} for one in calls]

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        verb, path, body = call["verb"], call["path"].partition("?")[0], self.body(call)
        if verb == "POST":
            made = copy.deepcopy(call["body"])
            made["metadata"]["creationTimestamp"] = self.created
            self.jobs[made["metadata"]["name"]] = made
            body = made
        elif verb == "DELETE" and "labelSelector" in call["path"]:
            if path.endswith("/jobs"):
                of = unquote(call["path"]).partition("labelSelector=")[2].partition("&")[0].split("=")
                self.jobs = {
                    name: one for name, one in self.jobs.items() if one["metadata"]["labels"].get(of[0]) != of[1]
                }
        elif verb == "DELETE":
            self.deleted.append(path.rpartition("/")[2])
            self.jobs.pop(path.rpartition("/")[2], None)
        if "fields" in call:
            body = {"items": [kept(one, call["fields"]) for one in body["items"]]}
        elif "only" in call:
            body = kept(body, call["only"])
        return {"status": 201 if verb == "POST" else 200, "body": body}

    def body(self, call: Mapping[str, Any]) -> dict[str, Any]:
        path = call["path"]
        if path.startswith("/api/v1/nodes"):
            return NODES if path.endswith("nodes") else {"status": {"images": [{"names": ["lab/pause:1"]}]}}
        names = list(self.jobs)
        if path == workloads("bringup-loads"):
            return {"items": [self.workload(name) for name in names]}
        if "/pods" in path:
            name = path.rpartition("%3D")[2]
            return {"items": [pod(name, len(names) + len(self.deleted))] if name in self.holds() else []}
        self.polls += 1
        return {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}

    def holds(self) -> list[str]:
        """The jobs that have a pod: the newest, which preempts the other."""
        names = list(self.jobs)
        return names[:1] if self.stuck else names[-1:]

    def workload(self, name: str) -> dict[str, Any]:
        conditions = [{"type": "QuotaReserved", "status": "False", "message": "no victims found"}] if self.stuck else []
        if self.deleted and not self.stuck:
            conditions = [{"type": "Requeued", "status": "True", "reason": "Preempted"}]
        return {"metadata": {"ownerReferences": [{"name": name}]}, "status": {"conditions": conditions}}


NODES = {
    "items": [
        {
            "metadata": {"name": f"gpu00{n}", "resourceVersion": "1"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        for n in (1, 2, 3, 4)
    ]
}


def pod(name: str, turn: int) -> dict[str, Any]:
    state = {"running": {"startedAt": f"2026-11-29T10:00:0{3 * turn}Z"}}
    return {
        "metadata": {"name": f"{name}-{turn}"},
        "spec": {"nodeName": "gpu002"},
        "status": {"phase": "Running", "containerStatuses": [{"state": state}]},
    }


def engine_on(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> tuple[Kubernetes, Host]:
    host = Host("checkpoint 17\nresumed 17\nsomething else\n")
    hosts = {f"gpu00{n}": cast(SshHost, host) for n in (1, 2, 3, 4)}
    made = Kubernetes(cluster, cast(SshHost, host), hosts, dict.fromkeys(hosts, "10.0.0.1"), "experimentation")
    monkeypatch.setattr(made, "nap", lambda seconds: None)
    return made, host


def test_the_lowest_tier_yields_to_the_highest_on_one_node(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    engine, host = engine_on(cluster, monkeypatch)
    posted: list[Any] = []
    call = cluster.answer

    def noting(one: Mapping[str, Any]) -> dict[str, Any]:
        posted.extend([one["body"]] if one["verb"] == "POST" else [])
        return call(one)

    monkeypatch.setattr(cluster, "answer", noting)
    said = preemption.preempt(plan, engine, "/shared")
    value, problems = kube.preempted(said, plan)
    assert problems == []
    assert value == {"start_s": 6.0, "grace_s": 60, "checkpoint_step": 17, "resumed_step": 17}
    assert (said["node"], said["starts"]) == ("gpu002", 2), "the node that Kueue had free"
    low, high = (one["spec"]["template"]["spec"] for one in posted)
    assert (low["priorityClassName"], high["priorityClassName"]) == ("experimentation", "inference")
    assert (low["nodeSelector"], high["nodeSelector"]) == ({}, {"kubernetes.io/hostname": "gpu002"})
    for one, made in zip((low, high), posted, strict=True):
        assert one["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
        assert one["terminationGracePeriodSeconds"] == 60
        assert made["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "acceptance", RUN: engine.run}
        assert made["spec"]["podReplacementPolicy"] == "Failed"
    writes = [mount["mountPath"] for mount in low["containers"][0]["volumeMounts"] if not mount["readOnly"]]
    assert writes == ["/shared"]
    assert cluster.jobs == {}
    assert host.ran[-1].startswith("rm -rf /shared/jobs/bringup-yields-")


def test_a_job_that_nobody_yields_to_is_said_with_kueues_words(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "BUDGET_S", -1.0)
    cluster = Cluster(stuck=True)
    engine, host = engine_on(cluster, monkeypatch)
    with pytest.raises(BadAnswer, match="bringup-urgent-.* starts in place of .*no victims found"):
        preemption.preempt(plan, engine, "/shared")
    assert cluster.jobs == {}, "nothing is left"
    assert len(cluster.deleted) == 2
    assert host.ran[-1].startswith("rm -rf ")


@pytest.mark.parametrize("named", [None, 7])
def test_a_job_without_a_time_of_creation_is_an_error_with_a_name(
    named: Any, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(created=named)
    engine, _ = engine_on(cluster, monkeypatch)
    with pytest.raises(BadAnswer, match="preempt a job: expected text at asked"):
        preemption.preempt(plan, engine, "/shared")
    assert cluster.jobs == {}


def test_a_run_that_was_ended_submits_no_job(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    engine, _ = engine_on(cluster, monkeypatch)
    engine.close()
    with pytest.raises(BadAnswer, match="the run was ended"):
        preemption.preempt(plan, engine, "/shared")
    assert (cluster.jobs, cluster.deleted) == ({}, [])


def test_the_end_of_a_run_deletes_a_job_that_could_not_be_deleted(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    engine, _ = engine_on(cluster, monkeypatch)
    answer = cluster.answer

    def fails(call: Mapping[str, Any]) -> dict[str, Any]:
        if call["verb"] == "DELETE" and "labelSelector" not in call["path"]:
            return {"status": 500, "body": {"message": "etcd is slow"}}
        return answer(call)

    monkeypatch.setattr(cluster, "answer", fails)
    with pytest.raises(BadAnswer, match="etcd is slow"):
        preemption.preempt(plan, engine, "/shared")
    assert len(cluster.jobs) == 2
    engine.close()
    assert cluster.jobs == {}


# ---- how it is judged ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"started": "2026-11-29T10:02:00Z"}, "the urgent job waited 120 s"),
        ({"evicted": ""}, "Kueue evicted the job for the reason (none), expected Preempted"),
        ({"said": ["resumed 17"]}, "it wrote no checkpoint in its grace time"),
        ({"said": ["checkpoint 17", "resumed 3"]}, "it resumed at 3, its checkpoint was 17"),
        ({"said": ["checkpoint 17"], "starts": 1}, "it resumed at None, its checkpoint was 17"),
        ({"starts": 3}, "it was started 3 times and wrote 2 lines, expected 2 of each"),
        (
            {"urgent_tier": "experimentation", "yielding_tier": "inference"},
            "inference yielded to experimentation, which does not stand above it",
        ),
    ],
)
def test_what_went_otherwise_is_said(change: dict[str, Any], problem: str, plan: Plan) -> None:
    assert kube.preempted(GOOD, plan)[1] == []
    assert problem in kube.preempted(GOOD | change, plan)[1]


@pytest.mark.parametrize("item", ["P-03.measured", "S160.measured"])
def test_the_gate_judges_again_from_the_raw_output(item: str, plan: Plan) -> None:
    again = from_raw.computed(item, "", plan, json.dumps(GOOD).encode())
    assert isinstance(again, from_raw.Again)
    assert (again.value, list(again.problems)) == kube.preempted(GOOD, plan)
    for other in ({}, GOOD | {"said": [1]}, GOOD | {"started": "soon"}, GOOD | {"urgent_tier": "none"}):
        assert isinstance(from_raw.computed(item, "", plan, json.dumps(other).encode()), str)
