"""GPU time charged to who uses it (S163): what is tried, what is left, how it is judged. API server and Prometheus are models of
the test's own; tests/infra/test_submitter.py asks a real API server, tests/validation/test_usage.py a real Prometheus.
"""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from capacity.model import Plan
from capacity.services import telemetry
from capacity.services.platform.submitter import USER as KEY
from network.drivers.errors import BadAnswer
from tests.plans import plan_of
from tests.validation.test_gangs import pod
from tests.validation.test_kube import Server
from validation import from_raw, kube_policy
from validation.checks import test_platform_policy as checks
from validation.checks.conftest import PlatformSaid
from validation.facts import Facts, charged
from validation.facts.charged import GPUS, NAME, OTHER, USER
from validation.facts.kube import ask as ask_platform
from validation.facts.kueue import workloads
from validation.facts.shapes import Queried

DELAY_S = 70
"""Until Prometheus of the model has what is so: a run of the collector, a scrape, an evaluation."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


class Cluster:
    """One Job, and what Prometheus records of it. writes: whether the API server writes who made it; keeps: and undoes a change;
    free: whether a node is. delay_s: as DELAY_S; lasts: Prometheus never forgets; times: how much of its GPU time is recorded.
    """

    def __init__(self, interval_s: float, **given: Any) -> None:
        self.interval_s, self.now = interval_s, 1000.0
        self.writes, self.keeps, self.free = (given.pop(name, True) for name in ("writes", "keeps", "free"))
        self.delay_s, self.lasts, self.times = (
            given.pop(name, value) for name, value in (("delay_s", DELAY_S), ("lasts", False), ("times", 1.0))
        )
        assert not given
        self.calls: list[Mapping[str, Any]] = []
        self.user, self.gpus = "", 0
        self.made: float | None = None
        self.gone: float | None = None

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now

    def prometheus(self, request: Mapping[str, Any]) -> Queried:
        ((name, text),) = request["queries"].items()
        shown = self.shown_s()
        value = self.gpus * (
            shown * self.times if "sum_over_time" in text else self.interval_s if self.showing() else 0
        )
        rows: Any = [{"labels": {}, "value": value}] if value and f'user="{self.user}"' in text else []
        return {"queries": {name: rows}, "ranges": {}}

    def showing(self) -> bool:
        begun = self.made is not None and self.now >= self.made + self.delay_s
        return begun and (self.lasts or self.gone is None or self.now < self.gone + self.delay_s)

    def shown_s(self) -> float:
        if self.made is None:
            return 0
        end = self.now if self.gone is None or self.lasts else min(self.now, self.gone + self.delay_s)
        return max(0, end - self.made - self.delay_s)

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        self.calls += calls
        return [{"status": 200, "error": "", **self.answer(one)} for one in calls]

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        verb, path, body = call["verb"], call["path"], call.get("body")
        there = self.made is not None and self.gone is None
        if path.startswith("/api/v1/nodes/"):
            return {"body": {"status.images": [{"names": ["docker.io/lab/pause:1"]}]}}
        if verb == "POST" and body:
            template = body["spec"]["template"]
            (container,) = template["spec"]["containers"]
            self.gpus = int(container["resources"]["limits"]["nvidia.com/gpu"])
            self.user = call["user"] if self.writes else template["metadata"]["annotations"][KEY]
            self.made = self.now if self.free else None
            return {"status": 201, "body": {}}
        if verb == "DELETE":
            self.gone = self.now
            return {"body": {}}
        if verb == "PATCH" and body:
            if not self.keeps:
                self.user = body["metadata"]["annotations"][KEY]
            return {"body": {}}
        if path == workloads(path.split("/")[-2]):
            waits = {"type": "QuotaReserved", "status": "False", "message": "insufficient unused quota"}
            return {"body": {"items": [{"metadata.ownerReferences": [{"name": NAME}], "status.conditions": [waits]}]}}
        assert re.search(rf"job-name%3D{NAME}$", path)
        one = {**pod("gpu002"), "metadata.name": "a", "metadata.annotations": {KEY: self.user}}
        return {"body": {"items": [one] if there else []}}


def judged(plan: Plan, **given: Any) -> tuple[dict[str, Any], list[str]]:
    return kube_policy.charged(said_by(plan, **given), plan)


def said_by(plan: Plan, **given: Any) -> dict[str, Any]:
    cluster = Cluster(telemetry.interval_s(plan.site), **given)
    said = charged.ask(plan, cluster, cluster.prometheus, cluster.sleep, cluster.clock)
    assert cluster.gone is not None, "the Job is deleted"
    return {"charged": said, "objects": ask_platform(plan, Server(plan))["objects"]}


def test_a_job_is_made_and_changed_by_a_user_who_names_another(plan: Plan) -> None:
    cluster = Cluster(telemetry.interval_s(plan.site))
    charged.ask(plan, cluster, cluster.prometheus, cluster.sleep, cluster.clock)
    made, change = (next(one for one in cluster.calls if one["verb"] == verb) for verb in ("POST", "PATCH"))
    assert made["body"]["metadata"]["annotations"] == {KEY: OTHER}
    assert made["body"]["spec"]["template"]["metadata"]["annotations"][KEY] == OTHER
    assert change["body"] == {"metadata": {"annotations": {KEY: OTHER}}}
    assert change["path"].endswith("/commissioning/pods/a")
    assert [(one["user"], one["group"]) for one in (made, change)] == [(USER, "system:masters")] * 2


def test_gpu_time_that_is_charged_to_who_made_the_job_passes(plan: Plan) -> None:
    value, problems = judged(plan)
    assert problems == []
    assert value["gpus"] == GPUS
    assert DELAY_S <= value["seen_s"] < DELAY_S + 10
    assert value["gpu_s"] == pytest.approx(GPUS * value["shown_s"], abs=GPUS * 10)
    assert value["objects"] == value["as_planned"] > 8


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"writes": False}, f"the pod names {OTHER} as it was made, expected {USER}"),
        ({"keeps": False}, f"the pod names {OTHER} as it was to be changed, expected {USER}"),
        ({"delay_s": 1000}, f"Prometheus counted no GPU of {USER} within 180 s"),
        ({"lasts": True}, "Prometheus still counted GPUs 180 s after the Job was gone"),
        ({"times": 0.4}, "GPU-s were recorded, but 2 GPUs were counted for"),
        ({"times": 2}, "GPU-s were recorded, but 2 GPUs were counted for"),
        ({"free": False}, "2 GPUs were free for no job: ask again when they are (insufficient unused quota)"),
    ],
)
def test_what_is_charged_otherwise_is_named(given: dict[str, Any], problem: str, plan: Plan) -> None:
    assert problem in "; ".join(judged(plan, **given)[1])


def test_gpus_of_whom_the_job_named_are_named(plan: Plan) -> None:
    said = said_by(plan)
    said["charged"] |= {"others": 2.0, "counted": 1.0}
    assert kube_policy.charged(said, plan)[1] == [
        "Prometheus counted 1 GPUs, the Job had 2",
        "Prometheus counted 2 GPUs for the user whom the Job named",
    ]


def test_a_tree_of_accounts_that_is_not_as_planned_is_named(plan: Plan) -> None:
    said = said_by(plan)
    said["objects"]["MutatingAdmissionPolicy/pod-user"] = None
    (problem,) = kube_policy.charged(said, plan)[1]
    assert problem.startswith("MutatingAdmissionPolicy/pod-user")


def test_a_kubernetes_without_such_policies_is_told_which_has_them(plan: Plan) -> None:
    old = plan.site.model_copy(update={"versions": {**plan.site.versions, "kubernetes": "1.35.2"}})
    problems = judged(dataclasses.replace(plan, site=old), writes=False)[1]
    assert any("Fix: versions.kubernetes 1.36 or later" in one for one in problems)


def test_the_job_is_deleted_where_prometheus_does_not_answer(plan: Plan) -> None:
    cluster = Cluster(1.0)

    def away(request: Mapping[str, Any]) -> Queried:
        raise BadAnswer("mgmt01", "ask Prometheus", "an answer", "none", "look there")

    with pytest.raises(BadAnswer):
        charged.ask(plan, cluster, away, cluster.sleep, cluster.clock)
    assert cluster.gone is not None


def test_the_gate_judges_the_raw_output_again(plan: Plan) -> None:
    said = said_by(plan)
    assert again(said, plan) == []
    assert again({**said, "charged": said["charged"] | {"after": OTHER}}, plan) != []
    assert again({**said, "charged": said["charged"] | {"gpus": 0, "counted": 0}}, plan) != []
    found = from_raw.computed("S163.applied", plan.site.name, plan, json.dumps({"objects": {}}).encode())
    assert isinstance(found, str), "nothing was tried"


def test_the_gate_computes_from_the_raw_output_what_the_check_recorded(plan: Plan) -> None:
    said = said_by(plan)
    outcome = checks.test_gpu_time_is_charged_to_who_uses_it(
        "", plan, Facts(), PlatformSaid({"objects": said["objects"]}), PlatformSaid({"charged": said["charged"]})
    )
    assert outcome.passed, outcome.detail
    assert outcome.raw is not None
    found = from_raw.computed("S163.applied", plan.site.name, plan, outcome.raw)
    assert isinstance(found, from_raw.Again)
    assert (found.value, list(found.problems)) == (outcome.value, [])


def test_a_prometheus_that_did_not_answer_fails_the_check(plan: Plan) -> None:
    error = PlatformSaid({}, "mgmt01: no answer")
    outcome = checks.test_gpu_time_is_charged_to_who_uses_it("", plan, Facts(), PlatformSaid({"objects": {}}), error)
    assert (outcome.passed, outcome.detail) == (False, "mgmt01: no answer")


def again(said: Mapping[str, Any], plan: Plan) -> list[str]:
    found = from_raw.computed("S163.applied", plan.site.name, plan, json.dumps(said).encode())
    assert isinstance(found, from_raw.Again)
    return list(found.problems)
