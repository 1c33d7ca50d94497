"""Limits of a tier on Kubernetes: what the API server is to write into pods, and that each account's pods are tried for it."""

import dataclasses
from typing import Any

import pytest

from capacity.model import Plan
from capacity.services.platform import design
from capacity.services.platform.tier_limits import DEADLINE, GRACE, policies, written
from inventory.site.sections.software import TierLimits
from inventory.site.values import Tier
from tests.plans import plan_of
from tests.validation.test_kube import Server
from validation import kube
from validation.facts.kube import ask, trials

LIMITS: dict[Tier, TierLimits] = {
    "training": TierLimits(grace_s=5, max_hours=24),
    "experimentation": TierLimits(max_hours=0.5),
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    made = plan_of("lab-kubernetes")
    scheduler = made.site.scheduler.model_copy(update={"tier_limits": LIMITS})
    return dataclasses.replace(made, site=made.site.model_copy(update={"scheduler": scheduler}))


@pytest.mark.parametrize(
    ("limits", "fields"),
    [
        (TierLimits(), {}),
        (TierLimits(max_gpus=8), {}),
        (TierLimits(grace_s=0), {GRACE: 0}),
        (TierLimits(max_hours=0.5), {DEADLINE: 1800}),
        (TierLimits(max_hours=0.0001), {DEADLINE: 1}),
        (TierLimits(grace_s=5, max_hours=24), {DEADLINE: 86400, GRACE: 5}),
    ],
)
def test_limits_are_seconds_of_a_pod(limits: TierLimits, fields: dict[str, int]) -> None:
    assert written(limits) == fields


def expressions(limits: dict[Tier, TierLimits]) -> dict[str, str]:
    found = {}
    for one in policies(limits):
        if one.kind == "MutatingAdmissionPolicy":
            (mutation,) = one.body["spec"]["mutations"]
            found[one.name] = mutation["applyConfiguration"]["expression"]
    return found


def test_a_pod_keeps_the_time_that_it_gives_and_gets_the_grace_of_its_tier() -> None:
    given = "object.spec.?activeDeadlineSeconds.orValue({0})"
    day, half = given.format(86400), given.format(1800)
    assert expressions(LIMITS) == {
        "tier-training": (
            f"Object{{spec: Object.spec{{activeDeadlineSeconds: {day} < 86400 ? {day} : 86400, "
            "terminationGracePeriodSeconds: 5}}"
        ),
        "tier-experimentation": f"Object{{spec: Object.spec{{activeDeadlineSeconds: {half} < 1800 ? {half} : 1800}}}}",
    }


def test_each_policy_is_bound_and_holds_for_pods_of_its_tier_in_namespaces_of_accounts(plan: Plan) -> None:
    objects = design(plan).objects
    made = {one.name: one.body["spec"] for one in objects if one.kind == "MutatingAdmissionPolicy"}
    bound = {one.name: one.body["spec"] for one in objects if one.kind == "MutatingAdmissionPolicyBinding"}
    assert bound == {name: {"policyName": name} for name in made}
    labelled = {one.name for one in objects if one.kind == "Namespace" and "bringup.local/account" in dict(one.labels)}
    assert labelled == {"services", "research", "vision", "commissioning"}, "loads of acceptance keep their own times"
    for tier in LIMITS:
        (selector,) = made[f"tier-{tier}"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
        assert selector == {"key": "bringup.local/account", "operator": "Exists"}
        (condition,) = made[f"tier-{tier}"]["matchConditions"]
        assert condition["expression"] == f"object.spec.?priorityClassName.orValue('') == '{tier}'"


def test_a_site_without_such_limits_has_no_policy_of_a_tier() -> None:
    names = {one.name for one in design(plan_of("lab-kubernetes")).objects if one.kind.startswith("Mutating")}
    assert names == {"gpu-runtime", "pod-user", "job-user", "jobset-user"}


def test_each_tier_of_an_account_is_tried_with_no_time_and_with_more_than_it_has(plan: Plan) -> None:
    tried = [one for one in trials(plan) if one.namespace == "vision" and one.written]
    assert [(one.spec["priorityClassName"], one.spec.get(DEADLINE), one.spec.get(GRACE)) for one in tried] == [
        ("training", None, None),
        ("training", 86401, 6),
        ("experimentation", None, None),
        ("experimentation", 1801, None),
    ]


def test_what_the_api_server_writes_otherwise_is_named(plan: Plan) -> None:
    said: dict[str, Any] = ask(plan, Server(plan))
    assert kube.admitted(said, plan)[1] == []
    name = "tier training, a second more than its limits"
    (one,) = [one for one in said["trials"] if (one["namespace"], one["name"]) == ("vision", name)]
    one["written"] = {DEADLINE: 86401, GRACE: 5}
    (problem,) = kube.admitted(said, plan)[1]
    assert problem.startswith(f"vision, {name}: the API server made it {{'{DEADLINE}': 86401, '{GRACE}': 5}}, planned")
