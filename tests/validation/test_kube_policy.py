"""The scheduler's steps judged on a site with Kubernetes: nodes, tiers, quotas, GPUs. The answers are made, no cluster runs."""

import copy
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from capacity.model import Plan
from capacity.services.platform import PlatformObject, design
from capacity.services.platform.design import Platform
from capacity.services.platform.topology import node_labels
from inventory.site import Site
from inventory.site.sections.software import SchedulerAccount
from tests.plans import plan_of
from tests.validation.test_gangs import GPU_NODES
from tests.validation.test_gangs import Cluster as Gangs
from tests.validation.test_granted import GOOD as GRANTS
from tests.validation.test_kube import Server, beyond, needs
from validation import from_raw, kube, kube_policy
from validation.checks import test_platform_policy as checks
from validation.checks.conftest import PlatformSaid, Told
from validation.facts import Answer, Facts, quotas
from validation.facts.kube import ask
from validation.facts.kueue import CLUSTER_QUEUES, PRIORITIES, PRIORITY

NODE = "gpu001"
HARDWARE = {"cpus": 64, "memory_kib": 32768}
TREE = (
    SchedulerAccount(name="research", max_gpus=24, users=("alice", "bob")),
    SchedulerAccount(name="vision", parent="research", max_gpus=16, tiers=("training",), users=("alice",)),
    SchedulerAccount(name="services", max_gpus=8, tiers=("inference",), users=("serving",)),
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    made = plan_of("lab-kubernetes")
    site: Site = made.site.model_copy(update={"scheduler": made.site.scheduler.model_copy(update={"accounts": TREE})})
    return dataclasses.replace(made, site=site)


@pytest.fixture
def said(plan: Plan) -> dict[str, Any]:
    return {
        **ask(plan, Server(plan)),
        "hardware": HARDWARE,
        "grants": GRANTS,
        "too_many": {"gpus": 9, "pods": 0, "why": 'topology "gpus" doesn\'t allow to fit any of 1 pod(s)'},
    }


# ---- nodes -----------------------------------------------------------------------------------------------------------
def test_a_node_as_the_plan_and_the_node_itself_have_it_passes(said: dict[str, Any], plan: Plan) -> None:
    value, problems = kube_policy.registered(said, plan, NODE)
    assert (value, problems) == ({"ready": True, "gpus": 8, "cpus": 64, "memory_kib": 32768}, [])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"status.nodeInfo": None}, "its kubelet is of no version, pinned v1.36.3"),
        (
            {"status.nodeInfo": {"kubeletVersion": "v1.35.0", "containerRuntimeVersion": "containerd://1"}},
            "its kubelet is v1.35.0, pinned v1.36.3",
        ),
        (
            {"status.nodeInfo": {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "cri-o://1"}},
            "its pods run in cri-o://1, expected containerd",
        ),
        ({"status.capacity": {"cpu": "32", "memory": "32Mi"}}, "32 CPUs registered, the node has 64"),
        ({"status.capacity": {"cpu": "64", "memory": "33Mi"}}, "33792 KiB of memory registered, the node has 32768"),
        ({"status.capacity": {"cpu": "64", "memory": "a lot"}}, "0 KiB of memory registered"),
        ({"status.conditions": []}, "Ready is not said"),
    ],
)
def test_a_node_that_is_registered_otherwise_is_named(
    change: dict[str, Any], problem: str, said: dict[str, Any], plan: Plan
) -> None:
    said["nodes"][NODE] |= change
    assert problem in "; ".join(kube_policy.registered(said, plan, NODE)[1])


# ---- the plan alone --------------------------------------------------------------------------------------------------
def test_the_shipped_site_is_consistent() -> None:
    shipped = plan_of("lab-kubernetes")
    assert kube_policy.consistent(shipped) == ({"classes": 3, "accounts": 4, "limited": 3}, [])
    assert kube_policy.allocation(shipped) == ({"gpus": 32, "nodes": 4, "blocks": 1, "levels": 4}, [])


def test_a_site_of_thousands_of_gpus_is_consistent() -> None:
    large = plan_of("h100-1000-ib")
    value, problems = kube_policy.allocation(large)
    assert (value["gpus"], problems) == (8000, [])


def test_a_site_without_any_limit_is_told_how_to_set_one(plan: Plan) -> None:
    scheduler = plan.site.scheduler.model_copy(update={"accounts": ()})
    free = dataclasses.replace(plan, site=plan.site.model_copy(update={"scheduler": scheduler}))
    assert kube_policy.consistent(free)[1] == [
        "no account has a limit: add max_gpus to an account of scheduler.accounts"
    ]


def changed(plan: Plan, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, change: Mapping[str, Any]) -> None:
    """Let the design have another body for one object; change {} leaves the object out."""
    real = design(plan)
    objects: list[PlatformObject] = []
    for one in real.objects:
        if (one.kind, one.name) != (kind, name):
            objects.append(one)
        elif change:
            objects.append(dataclasses.replace(one, body={**one.body, **change}))
    made = Platform(tuple(objects), real.levels, real.gpus)
    monkeypatch.setattr(kube_policy, "design", lambda plan: made)


@pytest.mark.parametrize(
    ("kind", "name", "change", "problem"),
    [
        ("PriorityClass", "training", {"value": 5000}, "priorities do not fall"),
        ("PriorityClass", "training", {}, "the classes are not the site's tiers"),
        (
            "PriorityClass",
            "experimentation",
            {"preemptionPolicy": "PreemptLowerPriority"},
            "experimentation preempts others: it is the lowest tier",
        ),
        ("ResourceQuota", "gpus", {"spec": {"hard": {"requests.nvidia.com/gpu": "1"}}}, "vision has no quota of 16"),
        ("LocalQueue", "default", {}, "vision has no queue of its own"),
        ("Cohort", "research", {"spec": {"parentName": "nowhere"}}, "the queue of vision is below cohort research"),
    ],
)
def test_a_policy_that_contradicts_itself_is_named(
    kind: str, name: str, change: dict[str, Any], problem: str, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(plan, monkeypatch, kind, name, change)
    assert problem in "; ".join(kube_policy.consistent(plan)[1])


def test_a_quota_of_all_that_is_not_what_the_nodes_have_is_named(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": "16"}]
    groups = [{"flavors": [{"name": "h100", "resources": resources}]}]
    changed(plan, monkeypatch, "Cohort", "root", {"spec": {"resourceGroups": groups}})
    assert kube_policy.allocation(plan)[1] == ["16 GPUs to grant, 32 planned"]


def test_a_node_without_its_labels_is_named(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {name: dict(one) for name, one in node_labels(plan).items()}
    del labels[NODE]["bringup.local/rack"]
    monkeypatch.setattr(kube_policy, "node_labels", lambda plan: labels)
    assert kube_policy.allocation(plan)[1] == ["gpu001 has no label bringup.local/rack"]


# ---- whole starts and grants -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("offered", "problem"),
    [
        ({"nvidia.com/gpu": "32"}, "gpu001: 32 GPUs are on offer, planned 8"),
        (
            {"nvidia.com/gpu": "8", "nvidia.com/gpu.shared": "16"},
            "gpu001: 16 nvidia.com/gpu.shared are on offer, planned none",
        ),
        ({"nvidia.com/mig-1g.10gb": "56"}, "gpu001: 56 nvidia.com/mig-1g.10gb are on offer, planned none"),
    ],
)
def test_gpus_that_are_shared_or_divided_are_named(
    offered: dict[str, str], problem: str, said: dict[str, Any], plan: Plan
) -> None:
    assert kube_policy.placed_whole(said, plan)[1] == []
    said["nodes"][NODE]["status.allocatable"] = offered
    assert any(one.startswith(problem) for one in kube_policy.placed_whole(said, plan)[1])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"pods": 1}, "a pod that asks for 9 GPUs of a node was made 1 times"),
        ({"why": ""}, "a pod that asks for 9 GPUs of a node: nobody says why it waits"),
        (
            {"why": needs(9)},
            f"a pod that asks for 9 GPUs of a node: not proven, it waits for another reason: {needs(9)}",
        ),
        ({"gpus": 2}, "2 GPUs were asked for, planned 9"),
    ],
)
def test_a_pod_with_more_gpus_than_a_node_has_must_wait(
    change: dict[str, Any], problem: str, said: dict[str, Any], plan: Plan
) -> None:
    assert kube_policy.allotted(said, plan, NODE) == ({"ready": True, "gpus": 8, "pods": 2}, [])
    said["too_many"] |= change
    assert kube_policy.allotted(said, plan, NODE)[1] == [problem]


# ---- quotas of Kueue -------------------------------------------------------------------------------------------------
class Kueue(Gangs):
    """Admits what fits below the limit of its account and of all above it, in place of what has a lower priority.

    blind: accounts whose limit it does not know. others: nodes that a job of the lowest tier holds, in the account `of`. silent: it
    looks at no Job.
    """

    LIMITS: Mapping[str, tuple[tuple[str, ...], int]] = {
        "research": (("research", "vision"), 24),
        "vision": (("vision",), 16),
        "services": (("services",), 8),
    }
    PRIORITIES: Mapping[str, int] = {"inference": 3000, "training": 2000, "experimentation": 1000}

    def __init__(
        self, blind: Sequence[str] = (), others: int = 0, of: str = "commissioning", silent: bool = False
    ) -> None:
        super().__init__(GPU_NODES)
        self.blind, self.others, self.of, self.silent = blind, others, of, silent
        self.account, self.runs, self.evicted = dict[str, str](), list[tuple[str, str]](), False
        self.classes, self.priority = dict[str, int](), dict[str, int]()
        self.said = dict[str, str]()

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        if call["path"].startswith(PRIORITIES):
            if call["verb"] == "POST":
                self.classes[call["body"]["metadata"]["name"]] = call["body"]["value"]
            else:
                del self.classes[call["path"].rpartition("/")[2]]
            return {"body": {}}
        if call["path"] == CLUSTER_QUEUES:
            held = 8 * (self.others + sum(map(len, self.placed().values())))
            resources = [{"name": "cpu", "total": "1500m"}, {"name": "nvidia.com/gpu", "total": str(held)}]
            reserved = [{"name": "h100", "resources": resources}]
            return {"body": {"items": [{"status.flavorsReservation": reserved}, {"status.flavorsReservation": None}]}}
        if call["verb"] == "POST":
            metadata, pod = call["body"]["metadata"], call["body"]["spec"]["template"]["spec"]
            name, tier = metadata["name"], pod["priorityClassName"]
            self.account[name] = metadata["namespace"]
            self.runs.append((metadata["namespace"], tier))
            label = metadata["labels"].get(PRIORITY)
            self.priority[name] = self.classes[label] if label else self.PRIORITIES[tier]
        return super().answer(call)

    def placed(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        free, self.said, held = self.nodes[self.others :], {}, {self.of: 8 * self.others}
        for name, pods in () if self.silent else self.jobs.items():
            account, asked = self.account[name], 8 * pods
            limits = [([*held], 32)] + [
                (list(members), most)
                for limited, (members, most) in self.LIMITS.items()
                if account in members and limited not in self.blind
            ]
            room = min(most - sum(held.get(one, 0) for one in members) for members, most in limits)
            found[name] = []
            if asked > (most := min(most for _, most in limits)):
                self.said[name] = beyond(asked, most)
            elif asked > room:
                self.said[name] = needs(asked - room)
                self.evicted |= self.others > 0 and self.priority[name] > self.PRIORITIES["experimentation"]
            else:
                held[account] = held.get(account, 0) + asked
                found[name], free = free[:pods], free[pods:]
        return found

    def why(self, name: str) -> str:
        return self.said[name]


def tried(plan: Plan, kueue: Kueue) -> list[dict[str, Any]]:
    found = quotas.ask(plan, kueue, sleep=lambda seconds: None)
    assert (kueue.jobs, kueue.classes) == ({}, {}), "nothing is left"
    return found


def test_each_limit_is_tried_alone_and_that_of_a_parent_beside_its_child(plan: Plan) -> None:
    assert list(quotas.trials(plan)) == [
        quotas.Trial("research", 24, "research", 4),
        quotas.Trial("services", 8, "services", 2),
        quotas.Trial("vision", 16, "vision", 3),
        quotas.Trial("research", 24, "research", 2, "vision", 2),
    ]


def test_a_limit_below_a_smaller_one_is_not_tried_beside_a_child(plan: Plan) -> None:
    tree = (
        SchedulerAccount(name="research", max_gpus=16),
        SchedulerAccount(name="vision", parent="research", max_gpus=24),
        SchedulerAccount(name="video", parent="vision"),
    )
    scheduler = plan.site.scheduler.model_copy(update={"accounts": tree})
    made = dataclasses.replace(plan, site=plan.site.model_copy(update={"scheduler": scheduler}))
    assert [(one.account, one.limit, one.first) for one in quotas.trials(made)] == [
        ("research", 16, ""),
        ("vision", 16, ""),
        ("video", 16, ""),
        ("research", 16, "vision"),
    ]


def test_what_kueue_holds_to_its_limits_passes(plan: Plan) -> None:
    kueue = Kueue()
    assert kube.quotas({"quotas": tried(plan, kueue)}, plan) == ({"limits": 4, "held": 4}, [])
    assert ("vision", "training") in kueue.runs
    assert ("services", "inference") in kueue.runs, "each in the lowest tier that its account may use"


def test_a_limit_of_a_parent_that_does_not_hold_is_found(plan: Plan) -> None:
    value, problems = kube.quotas({"quotas": tried(plan, Kueue(blind=["research"]))}, plan)
    assert value == {"limits": 4, "held": 2}
    assert problems == [
        "4 nodes for research, limit 24 GPUs: 4 pods were made",
        "2 nodes for research beside 2 of vision, limit 24 GPUs: 2 pods were made",
    ]


@pytest.mark.parametrize("others", [1, 2, 3, 4])
def test_a_limit_that_does_not_hold_is_found_or_not_proven_while_others_hold_the_gpus(others: int, plan: Plan) -> None:
    kueue = Kueue(blind=["research", "services"], others=others)
    _, problems = kube.quotas({"quotas": tried(plan, kueue)}, plan)
    found = [one.partition(", limit")[0] for one in problems]
    assert found == ["4 nodes for research", "2 nodes for services", "2 nodes for research beside 2 of vision"]
    assert "not proven: the cluster is busy" in problems[0]
    assert not kueue.evicted


@pytest.mark.parametrize(("others", "of"), [(2, "commissioning"), (1, "research")])
def test_a_limit_of_a_parent_is_not_proven_while_others_hold_the_gpus(others: int, of: str, plan: Plan) -> None:
    kueue = Kueue(others=others, of=of)
    value, (problem,) = kube.quotas({"quotas": tried(plan, kueue)}, plan)
    assert value == {"limits": 4, "held": 3}
    assert problem.startswith("2 nodes for research beside 2 of vision, limit 24 GPUs: not proven: the cluster is busy")


def test_trials_end_where_kueue_says_nothing_or_the_budget_is_spent(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tried(plan, Kueue(silent=True))
    assert len(silent) == 1
    _, problems = kube.quotas({"quotas": silent}, plan)
    assert problems[0].endswith("Kueue named no quota: it said nothing")
    assert [one.rpartition(": ")[2] for one in problems[1:]] == ["not tried"] * 3
    monkeypatch.setattr(quotas, "BUDGET_S", -1.0)
    assert len(tried(plan, Kueue())) == 1


def test_the_design_and_the_image_are_asked_for_once(plan: Plan) -> None:
    kueue, paths = Kueue(), list[str]()

    def call(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        paths.extend(one["path"] for one in calls)
        return kueue(calls)

    quotas.ask(plan, call, sleep=lambda seconds: None)
    assert sum(path.startswith("/api/v1/nodes/") for path in paths) == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"why": ""}, "Kueue named no quota: it said nothing"),
        ({"why": "topology does not fit"}, "Kueue named no quota: topology does not fit"),
        ({"why": needs(16)}, f"not proven: the cluster is busy, ask again when it is idle: {needs(16)}"),
        ({"free": 8}, f"not proven: the cluster is busy, ask again when it is idle: {needs(8)}"),
        ({"ran": 1}, "1 of 2 pods of vision ran: ask again when their GPUs are idle"),
        ({"limit": 32}, "not tried"),
    ],
)
def test_a_trial_that_shows_nothing_is_no_pass(change: dict[str, Any], problem: str, plan: Plan) -> None:
    said = tried(plan, Kueue())
    said[-1] |= change
    (only,) = kube.quotas({"quotas": said}, plan)[1]
    assert only == f"2 nodes for research beside 2 of vision, limit 24 GPUs: {problem}"


@pytest.mark.parametrize(
    ("why", "problem"),
    [
        (needs(8), f"not proven: the cluster is busy, ask again when it is idle: {needs(8)}"),
        (beyond(32, 16), "Kueue holds it to 16 GPUs"),
        (
            beyond(32, 24).replace("nvidia.com/gpu", "cpu"),
            "Kueue named no quota: couldn't assign flavors to pod set main: insufficient quota for cpu",
        ),
    ],
)
def test_a_job_alone_is_held_by_its_own_limit(why: str, problem: str, plan: Plan) -> None:
    said = tried(plan, Kueue())
    said[0] |= {"why": why}
    (only,) = kube.quotas({"quotas": said}, plan)[1]
    assert only.startswith(f"4 nodes for research, limit 24 GPUs: {problem}")


# ---- checks and gate -------------------------------------------------------------------------------------------------
def test_the_gate_computes_from_the_raw_output_what_the_checks_recorded(said: dict[str, Any], plan: Plan) -> None:
    data = {"hardware": HARDWARE}
    facts = Facts(nodes={str(name): Answer(str(name), "ssh", data=data) for name in plan.devices["name"]})
    platform, held = PlatformSaid(said), PlatformSaid({"quotas": tried(plan, Kueue())})
    grants = Told({NODE: GRANTS}, 20.0)
    outcomes = {
        "S156.applied": checks.test_node_is_registered_with_its_hardware(NODE, plan, facts, platform),
        "S157.applied": checks.test_tiers_quotas_and_queues_are_applied_and_enforced("", plan, facts, platform, held),
        "S158.applied": checks.test_pods_get_the_gpus_they_asked_for_and_no_other(
            NODE, plan, facts, platform, platform, grants
        ),
        "S159.applied": checks.test_jobs_never_share_gpus_in_time("", plan, facts, platform),
        "S160.applied": checks.test_tiers_and_queues_say_who_yields("", plan, facts, platform),
    }
    for item, outcome in outcomes.items():
        assert outcome.passed, outcome.detail
        assert outcome.raw is not None
        again = from_raw.computed(item, NODE, plan, outcome.raw)
        assert isinstance(again, from_raw.Again)
        assert (again.value, list(again.problems)) == (outcome.value, [])


def test_checks_of_the_plan_keep_the_objects(plan: Plan) -> None:
    for outcome in (
        checks.test_tiers_quotas_and_queues_are_consistent("", plan),
        checks.test_gpus_and_places_match_the_plan("", plan),
    ):
        assert outcome.passed, outcome.detail
        assert len(json.loads(outcome.raw or b"")) > 20


def test_a_node_that_does_not_answer_fails(said: dict[str, Any], plan: Plan) -> None:
    facts = Facts(nodes={NODE: Answer(NODE, "ssh", error="gpu001: no answer within 30 s")})
    outcome = checks.test_node_is_registered_with_its_hardware(NODE, plan, facts, PlatformSaid(copy.deepcopy(said)))
    assert (outcome.passed, outcome.detail) == (False, "gpu001: no answer within 30 s")


def test_slurm_sites_are_judged_as_before() -> None:
    slurm = plan_of("lab")
    assert from_raw.computation("S160.measured", slurm) is from_raw.FROM_RAW["S160.measured"]
    assert from_raw.computation("S156.applied", slurm) is None
