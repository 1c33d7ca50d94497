"""A reservation's trial: what is asked, what is left, how it is judged. The cluster is a model of the test's own;
tests/infra/test_reservations.py asks a real Kueue.
"""

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from capacity.model import Plan
from capacity.services.platform.queues import CLOSED, CLOSES, OPEN, OPENS, moment
from capacity.services.platform.topology import HOSTNAME
from network.drivers.errors import BadAnswer
from tests.capacity.services.test_reservations import reservation, reserved
from tests.plans import plan_of
from tests.validation.test_gangs import pod
from validation import from_raw, kube, kube_policy
from validation.facts.kueue import CLUSTER_QUEUES, PRIORITIES, workloads
from validation.facts.reservation_trial import HAS, NAME, OWNS, ask

BEGAN = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
QUOTA = f"reservation-{NAME}"
STOPPED = f"ClusterQueue {QUOTA} is inactive"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


class Cluster:
    """A node for one Job. The queue opens `late_s` after its begin and closes as late. reclaims: whether its owner's Job takes
    the node from the other; ends: whether the queue is closed at all; listed: queues of other reservations.
    """

    def __init__(
        self,
        late_s: float = 5,
        reclaims: bool = True,
        ends: bool = True,
        early: bool = False,
        listed: Sequence[Any] = (),
    ) -> None:
        self.late_s, self.reclaims, self.ends, self.early, self.listed = late_s, reclaims, ends, early, list(listed)
        self.passed_s = 0.0
        self.objects: dict[str, Any] = {}
        self.held, self.evicted, self.fails_at = "", set[str](), ""
        self.made: list[tuple[str, str]] = []

    def sleep(self, seconds: float) -> None:
        self.passed_s += seconds

    def monotonic(self) -> float:
        return self.passed_s

    @property
    def at(self) -> datetime.datetime:
        return BEGAN + datetime.timedelta(seconds=self.passed_s)

    def policy(self) -> str:
        labels, late = (
            self.objects[f"{CLUSTER_QUEUES}/{QUOTA}"]["metadata"]["labels"],
            moment(self.at - datetime.timedelta(seconds=self.late_s)),
        )
        if self.early:
            return OPEN
        return OPEN if labels[OPENS] <= late and (late < labels[CLOSES] or not self.ends) else CLOSED

    def place(self) -> None:
        jobs = [path.rpartition("/")[2] for path in self.objects if "/jobs/" in path]
        owner = OWNS in jobs and self.policy() == OPEN
        if self.held == OWNS and not owner:
            self.held = ""
        if owner and self.held != OWNS and (self.reclaims or not self.held):
            self.evicted |= {self.held} - {""}
            self.held = OWNS
        if not self.held and HAS in jobs:
            self.held = HAS

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{"status": 200, "error": "", **self.answer(one)} for one in calls]

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        verb, path = call["verb"], call["path"]
        body: Any = call.get("body")
        self.place()
        if path.startswith("/api/v1/nodes/"):
            return {"body": {"status.images": [{"names": ["docker.io/lab/pause:1"]}]}}
        if verb == "POST":
            if body["metadata"]["name"] == self.fails_at:
                return {"status": 500, "body": {"message": "etcd is slow"}}
            self.objects[f"{path}/{body['metadata']['name']}"] = body
            self.made.append((body["metadata"].get("namespace", ""), body["metadata"]["name"]))
            return {"status": 201, "body": {}}
        if verb == "DELETE":
            found = self.objects.pop(path, None)
            self.held = "" if self.held == path.rpartition("/")[2] else self.held
            return {"status": 200 if found else 404, "body": {}}
        if verb == "PATCH":
            self.objects[path]["metadata"]["labels"] |= body["metadata"]["labels"]
            return {"body": {}}
        return self.read(path)

    def read(self, path: str) -> dict[str, Any]:
        if path.startswith(f"{CLUSTER_QUEUES}?"):
            own = self.objects[f"{CLUSTER_QUEUES}/{QUOTA}"]["metadata"]
            found = {"metadata.name": own["name"], "metadata.labels": own["labels"], "spec.stopPolicy": self.policy()}
            return {"body": {"items": [*self.listed, found]}}
        if path.startswith(CLUSTER_QUEUES):
            if path not in self.objects:
                return {"status": 404, "body": {"message": "not found"}}  # as api_calls.py leaves a refusal
            created = self.at.isoformat().replace("+00:00", "Z")
            found = {"metadata.creationTimestamp": created, "metadata.name": QUOTA, "spec.stopPolicy": self.policy()}
            return {"status": 200, "body": found}
        if path == workloads(path.split("/")[-2]):
            return {"body": {"items": [self.workload(name) for name in (HAS, OWNS)]}}
        (name,) = re.findall(r"job-name%3D(\S+)", path)
        return {"body": {"items": [pod("gpu001")] if self.held == name else []}}

    def workload(self, name: str) -> dict[str, Any]:
        conditions = []
        if name != self.held:
            conditions.append({"type": "QuotaReserved", "status": "False", "message": STOPPED})
        if name in self.evicted:
            conditions.append({"type": "Requeued", "status": "True", "reason": "Preempted"})
        return {"metadata.ownerReferences": [{"name": name}], "status.conditions": conditions}


def said_by(cluster: Cluster, plan: Plan) -> dict[str, Any]:
    said = ask(plan, cluster, cluster.sleep, cluster.monotonic)
    assert cluster.objects == {}, "nothing is left"
    return {"reservation": said}


def test_a_node_is_its_owners_in_its_time_and_anothers_before_and_after(plan: Plan) -> None:
    cluster = Cluster()
    said = said_by(cluster, plan)
    assert cluster.made[2:] == [("vision", HAS), ("", QUOTA), ("commissioning", NAME), ("commissioning", OWNS)]
    value, problems = kube_policy.window(said, plan)
    assert problems == []
    assert (value["node"], value["account"]) == ("gpu001", "vision")
    assert 5 <= value["start_s"] <= 9
    assert 5 <= value["end_s"] <= 9
    assert said["reservation"]["before"] == {"most": 0, "policy": CLOSED, "why": STOPPED}
    assert kube_policy.reservations(said, plan) == ({"reservations": 0, "at": said["reservation"]["at"]}, [])


def test_its_job_asks_for_the_node_of_the_other_and_by_the_lower_priority(plan: Plan) -> None:
    seen: dict[str, Any] = {}

    class Kept(Cluster):
        def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
            seen.update(self.objects)
            return super().answer(call)

    said_by(Kept(), plan)
    jobs = {path.rpartition("/")[2]: body for path, body in seen.items() if "/jobs/" in path}
    values = {body["metadata"]["name"]: body["value"] for path, body in seen.items() if path.startswith(PRIORITIES)}
    ranks = {name: values[body["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]] for name, body in jobs.items()}
    assert ranks[OWNS] < ranks[HAS] < 0
    assert jobs[OWNS]["spec"]["template"]["spec"]["nodeSelector"] == {HOSTNAME: "gpu001"}
    assert jobs[OWNS]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == NAME
    quota = seen[f"{CLUSTER_QUEUES}/{QUOTA}"]
    assert quota["spec"]["stopPolicy"] == CLOSED, "before the program has seen it"
    assert quota["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "8"


def test_a_queue_that_nobody_opens_is_found_and_left_within_its_budget(plan: Plan) -> None:
    cluster = Cluster(late_s=10_000)
    said = said_by(cluster, plan)
    assert cluster.passed_s < 400
    problems = kube_policy.window(said, plan)[1]
    assert problems == [f"the owner's job did not start in its time: {STOPPED}; {kube_policy.TIMER}"]
    assert "the trial of one gave" in kube_policy.reservations(said, plan)[1][0]


def test_a_start_that_is_late_is_found(plan: Plan) -> None:
    most_s = plan.site.limits["preempt_start_s"].value
    problems = kube_policy.window(said_by(Cluster(late_s=float(most_s) + 5), plan), plan)[1]
    assert re.fullmatch(rf"the owner's job started \d+ s after the begin, limit {most_s:g}", problems[0])


def test_a_queue_that_takes_nothing_back_is_found(plan: Plan) -> None:
    (problem,) = kube_policy.window(said_by(Cluster(reclaims=False), plan), plan)[1]
    assert "did not start in its time" in problem


def test_a_queue_that_is_open_before_its_time_is_found(plan: Plan) -> None:
    problems = kube_policy.window(said_by(Cluster(early=True), plan), plan)[1]
    assert f"its queue was {OPEN} before its time, expected {CLOSED}" in problems
    assert "the owner's job had 1 pods before the time" in problems


def test_a_queue_that_nobody_closes_is_found(plan: Plan) -> None:
    problems = kube_policy.window(said_by(Cluster(ends=False), plan), plan)[1]
    assert problems[0] == f"the owner's job ran on after the end: {kube_policy.TIMER}"


def listed(name: str, opens: str, closes: str, policy: str | None) -> dict[str, Any]:
    labels = {OPENS: opens, CLOSES: closes}
    return {"metadata.name": f"reservation-{name}", "metadata.labels": labels, "spec.stopPolicy": policy}


def test_each_reservation_of_the_site_is_held_against_its_window() -> None:
    season = datetime.timedelta(days=100)
    plan = reserved(
        reservation("now", "vision", 8, BEGAN - season, hours=24 * 200),
        reservation("later", "vision", 8, BEGAN + season),
        reservation("moved", "services", 8, BEGAN + season),
        reservation("away", "services", 8, BEGAN + 2 * season),
    )
    now, later = moment(BEGAN - season), moment(BEGAN + season)
    cluster = Cluster(
        listed=[
            listed("now", now, moment(BEGAN + season), CLOSED),
            listed("later", later, moment(BEGAN + season + datetime.timedelta(hours=4)), None),
            listed("moved", now, later, OPEN),
            listed("stranger", now, later, OPEN),
        ]
    )
    said = said_by(cluster, plan)
    at = said["reservation"]["at"]
    assert sorted(kube_policy.reservations(said, plan)[1]) == sorted(
        [
            "reservation-away is not there: pulumi up makes it",
            f"reservation-moved is for {now} to {later}, planned {later} to {moment(BEGAN + season + datetime.timedelta(hours=4))}",
            f"reservation-now is {CLOSED} at {at}, expected {OPEN}: {kube_policy.TIMER}",
            f"reservation-later is {OPEN} at {at}, expected {CLOSED}: {kube_policy.TIMER}",
            "reservation-stranger is a reservation that is not in the site file",
        ]
    )


def test_a_queue_may_be_as_before_for_a_moment_after_its_begin() -> None:
    start = BEGAN + datetime.timedelta(seconds=20)
    plan = reserved(reservation("soon", "vision", 8, start))
    cluster = Cluster(listed=[listed("soon", moment(start), moment(start + datetime.timedelta(hours=4)), CLOSED)])
    assert kube_policy.reservations(said_by(cluster, plan), plan)[1] == []


def test_what_was_made_is_deleted_where_the_api_server_refuses(plan: Plan) -> None:
    cluster = Cluster()
    cluster.fails_at = OWNS
    with pytest.raises(BadAnswer, match="etcd is slow"):
        ask(plan, cluster, cluster.sleep, cluster.monotonic)
    assert cluster.objects == {}


def test_the_gate_judges_the_raw_answer_again(plan: Plan) -> None:
    raw = kube.raw_of(said_by(Cluster(), plan), "reservation")
    for item, judge in (("S162.applied", kube_policy.reservations), ("S162.measured", kube_policy.window)):
        again = from_raw.computation(item, plan)
        assert again is not None
        assert again(raw, plan.site.name, plan).value == judge(said_by(Cluster(), plan), plan)[0]
