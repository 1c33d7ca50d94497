"""Stages as JobSets: their order, what is read of them, and that nothing is left."""

from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

import pytest

from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost
from tests.validation.modelled_hosts import Host
from validation.facts.api_calls import kept
from validation.runners import jobset_stages, stages
from validation.runners.jobset import RUN
from validation.runners.kubernetes import Kubernetes
from validation.runners.stages import CHAIN, FAILING, NEVER

NODE = {
    "metadata": {"name": "gpu001", "resourceVersion": "1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


class Cluster:
    """A JobSet controller that starts each job when the one before it is complete. `blind`: it starts all of them. creating: a
    stage whose container is being made."""

    def __init__(self, blind: bool = False, over: bool = True, creating: str = "") -> None:
        self.blind, self.over, self.sets = blind, over, dict[str, dict[str, Any]]()
        self.creating, self.labels, self.broken = creating, list[dict[str, str]](), False
        self.selected = list[str]()

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{"error": "", **self.answer(one)} for one in calls]

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        path, _, query = call["path"].partition("?")
        name = path.rpartition("/")[2]
        body: Any = {}
        if call["verb"] == "POST":
            self.sets[call["body"]["metadata"]["name"]] = call["body"]
            self.labels.append(call["body"]["metadata"]["labels"])
        elif call["verb"] == "DELETE" and query.startswith("labelSelector"):
            self.selected.append(unquote(call["path"]))
        elif call["verb"] == "DELETE" and self.broken:
            return {"status": 500, "body": {"message": "etcd is slow"}}
        elif call["verb"] == "DELETE":
            self.sets.pop(name)
        elif call.get("text"):
            if path.split("/")[-2] == self.creating:
                said = f'container "main" in pod "{self.creating}" is waiting to start: ContainerCreating'
                return {"status": 400, "body": {"message": said}}
            body = self.said(path.split("/")[-2])
        elif path.endswith("/nodes"):
            body = {"items": [kept(NODE, call["fields"])]}
        elif path.endswith("/nodes/gpu001"):
            body = kept({"status": {"images": [{"names": ["lab/pause:1"]}]}}, call["only"])
        elif path.endswith("/pods"):
            body = {"items": [kept(one, call["fields"]) for one in self.pods(query.rpartition("%3D")[2])]}
        else:
            failed = any(one["status"]["phase"] == "Failed" for one in self.pods(name))
            end = ("Failed" if failed else "Completed") if self.over else ""
            body = kept({"status": {"terminalState": end}}, call["only"])
        return {"status": 201 if call["verb"] == "POST" else 200, "body": body}

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Pods of the jobs that were started, in order."""
        found: list[dict[str, Any]] = []
        phases = dict[str, str]()
        for job in self.sets[name]["spec"]["replicatedJobs"]:
            waits = [one["name"] for one in job.get("dependsOn", ()) if phases.get(one["name"]) != "Succeeded"]
            if waits and not self.blind:
                break
            (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
            phases[job["name"]] = "Failed" if "exit 3" in container["command"][-1] else "Succeeded"
            if job["name"] == self.creating:
                phases[job["name"]] = "Pending"
            labels = {jobset_stages.SET: name, jobset_stages.STAGE: job["name"]}
            metadata = {"name": job["name"], "labels": labels}
            found.append(
                {"metadata": metadata, "spec": {"nodeName": "gpu001"}, "status": {"phase": phases[job["name"]]}}
            )
        return found

    def said(self, stage: str) -> str:
        if stage not in CHAIN:
            return ""
        at = CHAIN.index(stage)
        took = f"{stage} took {at:064x}\n" if at else ""
        return f"{took}{stage} made {at + 1:064x}\n"


def engine_on(cluster: Cluster, nodes: Sequence[str] = ("gpu001",)) -> tuple[Kubernetes, Host]:
    host = Host()
    hosts = {name: cast(SshHost, host) for name in nodes}
    return Kubernetes(cluster, cast(SshHost, host), hosts, dict.fromkeys(hosts, "10.0.0.1"), "experimentation"), host


def run(cluster: Cluster, nodes: Sequence[str] = ("gpu001",), budget_s: float = 0.0) -> tuple[dict[str, Any], Host]:
    engine, host = engine_on(cluster, nodes)
    ended = jobset_stages.run(engine, "/shared", "/shared/jobs/bringup-stages-1a2b", budget_s)
    assert cluster.sets == {}, "nothing is left"
    assert host.ran[-1] == "rm -rf /shared/jobs/bringup-stages-1a2b"
    return dict(ended), host


def test_stages_that_run_one_after_the_other_pass() -> None:
    ended, _ = run(Cluster())
    assert stages.faults(ended) == []
    assert ended[NEVER].state == "CANCELLED"


def test_each_job_waits_for_the_one_before_it_and_writes_to_the_shared_storage_alone() -> None:
    made = jobset_stages.jobset(
        "x", "run-1", "gpu001", "lab/pause:1", "/shared", dict.fromkeys(CHAIN, "exit 0\n"), 60.0
    )
    jobs = made["spec"]["replicatedJobs"]
    assert [job["name"] for job in jobs] == list(CHAIN)
    assert [job.get("dependsOn") for job in jobs] == [
        None,
        [{"name": "preprocess", "status": "Complete"}],
        [{"name": "train", "status": "Complete"}],
    ]
    for job in jobs:
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        assert [one["mountPath"] for one in container["volumeMounts"] if not one["readOnly"]] == ["/shared"]


def test_a_stage_after_a_failed_one_that_runs_is_found() -> None:
    ended, _ = run(Cluster(blind=True))
    assert stages.faults(ended) == [f"{NEVER} ended COMPLETED, expected CANCELLED"]


def test_stages_that_are_not_over_in_time_are_no_pass() -> None:
    ended, _ = run(Cluster(over=False))
    assert f"{NEVER} ended BUDGET, expected CANCELLED" in stages.faults(ended)
    assert ended[FAILING].state == "FAILED"


def test_a_stage_whose_container_is_being_made_keeps_what_the_others_said() -> None:
    ended, _ = run(Cluster(over=False, creating=CHAIN[1]))
    assert [ended[stage].state for stage in CHAIN] == ["COMPLETED", "BUDGET", "BUDGET"]
    assert stages.hashes(ended)[CHAIN[0]] == {"made": f"{1:064x}"}


def test_a_chain_has_the_budget_of_all_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets = list[float]()
    real = jobset_stages._ended

    def ended(engine: Kubernetes, name: str, names: list[str], budget_s: float) -> dict[str, Any]:
        budgets.append(budget_s)
        return dict(real(engine, name, names, budget_s))

    monkeypatch.setattr(jobset_stages, "_ended", ended)
    run(Cluster(), budget_s=60.0)
    assert budgets == [180.0, 120.0]


def test_jobsets_carry_the_label_by_which_the_end_of_the_run_deletes_them() -> None:
    cluster = Cluster()
    made = engine_on(cluster)[0]
    jobset_stages.run(made, "/shared", "/shared/jobs/bringup-stages-1a2b", 0.0)
    assert cluster.labels == [{RUN: made.run}] * 2
    made.close()
    assert any(f"/jobsets?labelSelector={RUN}={made.run}&" in path for path in cluster.selected)
    with pytest.raises(BadAnswer, match="the run was ended"):
        jobset_stages.run(made, "/shared", "/shared/jobs/bringup-stages-1a2b", 0.0)
    assert len(cluster.labels) == 2


def test_jobsets_that_cannot_be_deleted_are_said_and_their_folder_is_removed() -> None:
    cluster = Cluster()
    cluster.broken = True
    made, host = engine_on(cluster)
    with pytest.raises(BadAnswer, match="etcd is slow"):
        jobset_stages.run(made, "/shared", "/shared/jobs/bringup-stages-1a2b", 0.0)
    assert host.ran[-1].startswith("rm -rf ")


def test_without_a_node_that_takes_pods_nothing_is_made() -> None:
    with pytest.raises(BadAnswer, match="a GPU node that takes pods"):
        run(Cluster(), nodes=())
