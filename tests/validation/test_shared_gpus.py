"""Nodes that share their GPUs, judged: what they offer, what their pods have, and trials that leave them alone."""

import json
from typing import Any

import pytest

from capacity.model import Plan
from capacity.services.platform.sharing import SHARED_RESOURCE, SHARING
from inventory.site.sections.sharing import GpuSharing
from tests.capacity.services.test_sharing import INSTANCES, MIG, SLICES, shared
from tests.validation.test_granted import Api, grant, tried
from tests.validation.test_kube import Server, node
from validation import from_raw, kube, kube_policy
from validation.facts import gangs, quotas
from validation.facts.kube import ask, trials

SLICED, DIVIDED, WHOLE = "gpu003", "gpu004", "gpu001"
OFFERED = {SLICED: {SHARED_RESOURCE: "32"}, DIVIDED: {INSTANCES: "56"}}
PROFILES = {SLICED: "time-slices-4", DIVIDED: "mig-1g.10gb"}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return shared(SLICES, MIG)


@pytest.fixture
def said(plan: Plan) -> dict[str, Any]:
    """What the API server says once playbooks/gpu_sharing.yml has run."""
    answers = ask(plan, Server(plan))
    for name, resources in OFFERED.items():
        labels = {**answers["nodes"][name]["metadata.labels"], SHARING: PROFILES[name]}
        answers["nodes"][name] = {**node(name, labels), "status.allocatable": {"nvidia.com/gpu": "0", **resources}}
    return answers


@pytest.mark.parametrize(("name", "count"), [(SLICED, 32), (DIVIDED, 56), (WHOLE, 8)])
def test_a_node_that_offers_what_the_plan_shares_passes(
    name: str, count: int, said: dict[str, Any], plan: Plan
) -> None:
    assert kube.node(said, plan, name) == ({"ready": True, "gpus": count}, [])
    raw = kube.raw_of({"nodes": {name: said["nodes"][name]}}, "nodes")
    again = from_raw.computed("P-16.applied", name, plan, raw)
    assert isinstance(again, from_raw.Again)
    assert (again.value, again.problems) == ({"ready": True, "gpus": count}, [])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"status.allocatable": {SHARED_RESOURCE: "16"}}, f"16 {SHARED_RESOURCE} are on offer, planned 32"),
        ({"status.allocatable": {SHARED_RESOURCE: "32", "nvidia.com/gpu": "8"}}, "8 nvidia.com/gpu are on offer"),
        ({"metadata.labels": {}}, "its GPUs are whole, planned shared as time-slices-4: playbooks/gpu_sharing.yml"),
        (
            {"metadata.labels": {SHARING: "changing"}},
            "its GPUs are shared as changing, planned shared as time-slices-4",
        ),
    ],
)
def test_what_a_node_shares_otherwise_is_said(
    change: dict[str, Any], why: str, said: dict[str, Any], plan: Plan
) -> None:
    said["nodes"][SLICED] |= change
    assert why in "; ".join(kube.node(said, plan, SLICED)[1])


def test_a_node_that_still_shares_what_the_plan_has_whole_is_named(said: dict[str, Any]) -> None:
    problems = kube.node(said, shared(), SLICED)[1]
    assert "its GPUs are shared as time-slices-4, planned whole: playbooks/gpu_sharing.yml changes it" in problems
    assert "0 GPUs are on offer, planned 8" in problems


def two(**changed: Any) -> dict[str, Any]:
    """Two pods with a slice each, of one GPU, and one without."""
    return {"one": grant(1), "another": grant(1), "none": grant(0), **changed}


def instances(first: str, second: str) -> dict[str, Any]:
    return two(one=grant(1, uuids=[f"MIG-{first}"]), another=grant(1, uuids=[f"MIG-{second}"]))


def test_slices_of_one_gpu_and_two_instances_of_one_pass(plan: Plan) -> None:
    assert kube.granted(two(), plan, SLICED) == ({"gpus": 1, "pods": 2}, [])
    assert kube.granted(instances("a", "b"), plan, DIVIDED) == ({"gpus": 2, "pods": 2}, [])
    again = from_raw.computed("P-06.measured", DIVIDED, plan, json.dumps(instances("a", "b")).encode())
    assert isinstance(again, from_raw.Again)
    assert again.problems == []


@pytest.mark.parametrize(
    ("name", "pods", "why"),
    [
        (SLICED, two(one=grant(1, opened=[0, 1])), "one: asked for 1 GPUs and has 2 GPUs to open"),
        (SLICED, two(one=grant(1, why="Insufficient")), "one: Insufficient"),
        (SLICED, {"one": grant(1), "none": grant(0)}, f"two pods had to ask for one {SHARED_RESOURCE} each"),
        (SLICED, {"rest": grant(7), "one": grant(1, 7)}, f"two pods had to ask for one {SHARED_RESOURCE} each"),
        (SLICED, instances("a", "b"), "MIG-a is not of time-slices-4"),
        (SLICED, two(one=grant(1, began="2026-11-29T08:00:00Z")), "did not run at the same time"),
        (DIVIDED, two(), "GPU-0 is not of mig-1g.10gb"),
        (DIVIDED, instances("a", "a"), "two pods have the same instance of MIG"),
    ],
)
def test_what_is_wrong_with_pods_that_share_is_said(name: str, pods: dict[str, Any], why: str, plan: Plan) -> None:
    assert any(why in one for one in kube.granted(pods, plan, name)[1])


def test_pods_ask_for_one_part_where_gpus_are_shared(plan: Plan) -> None:
    api = Api()
    found = tried(api, plan)
    assert {name: [one["asked"] for one in of.values()] for name, of in found.items()} == {
        "gpu001": [7, 1, 0],
        "gpu002": [7, 1, 0],
        SLICED: [1, 1, 0],
        DIVIDED: [1, 1, 0],
    }
    asked = [
        (pod["spec"]["nodeSelector"]["kubernetes.io/hostname"], resource, count)
        for pod in api.pods
        for resource, count in pod["spec"]["containers"][0].get("resources", {}).get("limits", {}).items()
    ]
    assert [one[1:] for one in asked if one[0] == SLICED] == [(SHARED_RESOURCE, "1")] * 2
    assert [one[1:] for one in asked if one[0] == DIVIDED] == [(INSTANCES, "1")] * 2
    assert {one[1] for one in asked if one[0] == WHOLE} == {"nvidia.com/gpu"}


def test_a_pod_of_each_account_tries_more_parts_than_it_may_hold(plan: Plan) -> None:
    asked = [
        one.spec["containers"][0]["resources"]["limits"]
        for one in trials(plan)
        if one.namespace == "services" and one.refused_by == "exceeded quota: gpus"
    ]
    assert asked == [{"nvidia.com/gpu": "9"}, {SHARED_RESOURCE: "33"}, {INSTANCES: "57"}]


def test_gangs_and_limits_are_tried_on_whole_gpus_alone(plan: Plan) -> None:
    assert gangs.sizes(plan) == (2, 2)
    assert {one.account for one in quotas.trials(plan)} == {"services"}, "others may hold all 16"
    assert kube.planned_gpus(plan) == {"gpu001": 8, "gpu002": 8}


def test_the_scheduler_s_steps_hold_on_such_a_site(said: dict[str, Any], plan: Plan) -> None:
    assert kube_policy.consistent(plan)[1] == []
    value, problems = kube_policy.allocation(plan)
    assert (value["gpus"], problems) == (16, [])
    assert kube_policy.placed_whole(said, plan)[1] == []
    assert kube_policy.placed_whole(said, shared(GpuSharing(servers=(DIVIDED,), time_slices=4)))[1] != []
