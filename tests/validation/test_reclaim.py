"""GPUs that an account takes from another by priority: what is asked, what is left, how it is judged. The cluster is a model of the
test's own; tests/infra/test_scheduling.py asks a real Kueue.
"""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from capacity.model import Plan
from capacity.services.platform.topology import HOSTNAME
from network.drivers.errors import BadAnswer
from tests.plans import plan_of
from tests.validation.test_gangs import pod
from validation import from_raw, kube
from validation.facts.kueue import PRIORITIES, PRIORITY, workloads
from validation.facts.reclaim import HOLDS, TAKES, WAITS, ask, pair

NO_VICTIM = "couldn't assign flavors: insufficient unused quota, 8 more needed"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


class Cluster:
    """Nodes with 8 GPUs, one Job each, given by priority. across: whether Kueue preempts in another account's queue; upward:
    whether also a higher priority; free: nodes that are idle.
    """

    def __init__(self, across: bool = True, upward: bool = False, free: Sequence[str] = ("gpu003", "gpu004")) -> None:
        self.across, self.upward, self.free = across, upward, list(free)
        self.classes: dict[str, int] = {}
        self.held: dict[str, str] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.evicted: set[str] = set()
        self.made: list[tuple[str, str]] = []
        self.fails_at = ""

    def place(self, name: str) -> None:
        spec = self.jobs[name]["spec"]["template"]["spec"]
        wanted = spec.get("nodeSelector", {}).get(HOSTNAME)
        holder = next((one for one, node in self.held.items() if node == wanted), None)
        if holder and self.across and (self.upward or self.rank(holder) < self.rank(name)):
            del self.held[holder]
            self.evicted.add(holder)
            self.held[name] = wanted
        elif not holder and (left := [node for node in self.free if node not in self.held.values()]):
            self.held[name] = wanted or left[0]

    def rank(self, name: str) -> int:
        return self.classes[self.jobs[name]["metadata"]["labels"][PRIORITY]]

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{"status": 200, "error": "", **self.answer(one)} for one in calls]

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        verb, path, body = call["verb"], call["path"], call.get("body")
        if path.startswith("/api/v1/nodes/"):
            return {"body": {"status.images": [{"names": ["docker.io/lab/pause:1"]}]}}
        if verb == "POST" and body:
            name = body["metadata"]["name"]
            if path == PRIORITIES:
                self.classes[name] = body["value"]
            elif name == self.fails_at:
                return {"status": 500, "body": {"message": "etcd is slow"}}
            else:
                self.jobs[name] = dict(body)
                self.made.append((body["metadata"]["namespace"], name))
                self.place(name)
            return {"status": 201, "body": {}}
        if verb == "DELETE":
            name = path.rpartition("/")[2]
            self.held.pop(name, None)
            found = (self.classes if path.startswith(PRIORITIES) else self.jobs).pop(name, None)
            return {"status": 200 if found else 404, "body": {}}
        if path == workloads(path.split("/")[-2]):
            return {"body": {"items": [self.workload(name) for name in self.jobs]}}
        (name,) = re.findall(r"job-name%3D(\S+)", path)
        return {"body": {"items": [pod(self.held[name])] if name in self.held else []}}

    def workload(self, name: str) -> dict[str, Any]:
        conditions = []
        if name not in self.held:
            conditions.append({"type": "QuotaReserved", "status": "False", "message": NO_VICTIM})
        if name in self.evicted:
            conditions.append({"type": "Requeued", "status": "True", "reason": "Preempted"})
        return {"metadata.ownerReferences": [{"name": name}], "status.conditions": conditions}


def said_by(cluster: Cluster, plan: Plan) -> dict[str, Any]:
    said = ask(plan, cluster, sleep=lambda seconds: None)
    assert (cluster.jobs, cluster.classes) == ({}, {}), "nothing is left"
    return {"reclaim": said}


def test_an_account_takes_a_node_of_another_by_priority_and_never_against_it(plan: Plan) -> None:
    cluster = Cluster()
    said = said_by(cluster, plan)
    assert cluster.made == [("vision", HOLDS), ("services", TAKES), ("vision", WAITS)]
    value, problems = kube.reclaimed(said, plan)
    assert problems == []
    assert value["found"].startswith("services took gpu003 from vision")


def test_priorities_of_the_trial_are_below_every_tier(plan: Plan) -> None:
    seen: dict[str, int] = {}

    class Kept(Cluster):
        def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
            seen.update(self.classes)
            return super().answer(call)

    said_by(Kept(), plan)
    low, high = sorted(seen.values())
    assert high == low + 1
    assert high < 0


def test_an_account_with_gpus_of_its_own_is_not_tried(plan: Plan) -> None:
    """It gets them back against any priority, which is no fault."""
    own = {"services": 8}
    accounts = tuple(one.model_copy(update={"min_gpus": own.get(one.name)}) for one in plan.site.scheduler.accounts)
    scheduler = plan.site.scheduler.model_copy(update={"accounts": accounts})
    changed = dataclasses.replace(plan, site=plan.site.model_copy(update={"scheduler": scheduler}))
    assert (pair(plan), pair(changed)) == (("vision", "services"), ("vision", "research"))


def test_a_queue_that_does_not_preempt_in_others_is_found(plan: Plan) -> None:
    problems = kube.reclaimed(said_by(Cluster(across=False), plan), plan)[1]
    assert problems[0] == f"the job of services did not get gpu003: {NO_VICTIM}"
    assert "Kueue evicted the job of vision for the reason (none), expected Preempted" in problems


def test_a_queue_that_preempts_upward_is_found(plan: Plan) -> None:
    problems = kube.reclaimed(said_by(Cluster(upward=True), plan), plan)[1]
    assert "a job of a lower priority got 1 pods" in problems
    assert "the job of services did not run on beside one of a lower priority" in problems


def test_a_cluster_without_a_free_node_proves_nothing(plan: Plan) -> None:
    (problem,) = kube.reclaimed(said_by(Cluster(free=()), plan), plan)[1]
    assert problem.startswith("no node was free for the job of vision: ask again when one is")


def test_everything_is_deleted_where_a_job_cannot_be_made(plan: Plan) -> None:
    cluster = Cluster()
    cluster.fails_at = TAKES
    with pytest.raises(BadAnswer, match="etcd is slow"):
        ask(plan, cluster, sleep=lambda seconds: None)
    assert (cluster.jobs, cluster.classes) == ({}, {})


def test_the_gate_judges_the_raw_output_and_misses_what_was_left_out(plan: Plan) -> None:
    said = said_by(Cluster(), plan)
    assert again(said, plan) == []
    assert again({"reclaim": said["reclaim"] | {"stayed": False}}, plan) != []
    assert again({"reclaim": said["reclaim"] | {"takes": "research"}}, plan) == [
        "accounts vision and services were not tried"
    ]


def again(said: Mapping[str, Any], plan: Plan) -> list[str]:
    found = from_raw.computed("P-18.measured", plan.site.name, plan, json.dumps(said).encode())
    assert isinstance(found, from_raw.Again)
    return list(found.problems)


def test_accounts_of_different_parents_are_taken_where_there_are_some() -> None:
    assert pair(plan_of("h100-1000-ib")) == ("vision", "product")
