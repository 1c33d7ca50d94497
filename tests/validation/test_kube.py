"""Judging a platform by what its API server said, and the questions that it is asked. The answers are made, no cluster runs."""

import contextlib
import copy
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity.model import Plan
from capacity.services.platform import design
from inventory.site import Site
from inventory.site.sections.software import LOADS, SchedulerAccount
from network.drivers.errors import DeviceError
from network.drivers.ssh import SshHost
from tests.capacity.services.test_logins import logging_in
from tests.plans import plan_of
from validation import from_raw, kube
from validation.checks import test_platform
from validation.checks.conftest import PlatformSaid
from validation.evidence import Record
from validation.evidence.record import raw_path
from validation.facts import Answer, Facts, gangs, quotas
from validation.facts.kube import STRANGER, Right, Trial, ask, members, path_of, rights, trials
from validation.kube_policy import PLACEMENT, POLICY, PREEMPTION
from validation.register import load_register
from validation.runners import platform_trials
from validation.runners.kubernetes import Kubernetes

ACCOUNTS = (
    SchedulerAccount(name="research", users=("alice", "bob")),
    SchedulerAccount(name="vision", parent="research", max_gpus=16, tiers=("training",), users=("alice",)),
    SchedulerAccount(name="empty"),
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    made = plan_of("lab")
    scheduler = made.site.scheduler.model_copy(update={"kind": "kubernetes", "accounts": ACCOUNTS})
    site: Site = made.site.model_copy(update={"scheduler": scheduler})
    return dataclasses.replace(made, site=site)


KEYS = st.sampled_from(["items", "status.phase", "metadata.name", "metadata.ownerReferences", "status.images"])
GARBAGE = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["x", "Running", "a/pause:1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(GARBAGE, st.sampled_from([200, 201]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_an_api_server_that_says_something_else_is_an_error_with_a_name(plan: Plan, body: Any, status: int) -> None:
    def call(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{"status": status, "body": body, "error": ""} for _ in calls]

    with contextlib.suppress(DeviceError):
        ask(plan, call)
    with contextlib.suppress(DeviceError):
        gangs.ask(plan, call, sleep=lambda seconds: None)
    with contextlib.suppress(DeviceError):
        platform_trials.change_by_hand(
            plan, Kubernetes(call, SshHost("ctl01", "10.0.0.9", cast(Any, None), 5), {}, {}, "low")
        )


@pytest.mark.parametrize(
    "changed", [7, None, [], {"status.conditions": 5}, {"metadata.labels": [1], "status.conditions": [[]]}]
)
def test_a_node_that_is_none_fails_its_check_with_a_reason(plan: Plan, changed: Any) -> None:
    said = PlatformSaid({"nodes": {"gpu001": changed}, "objects": changed})
    for judge, part in ((partial(kube.node, name="gpu001"), "nodes"), (kube.objects, "objects")):
        found = test_platform.outcome(judge, plan, said, (), "", part)
        assert not found.passed
        assert found.detail


class Server:
    """Answers like an API server on which the platform is as planned."""

    def __init__(self, plan: Plan) -> None:
        self.objects = {path_of(one): one for one in design(plan).objects}
        self.nodes = [one for one in design(plan).objects if one.partial]
        self.may = {json.dumps(right.review): right.wanted for right in rights(plan)}
        self.trials = list(trials(plan))
        self.asked: list[Mapping[str, Any]] = []

    def __call__(self, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        self.asked = list(calls)
        return [{"error": "", **self.answer(one)} for one in calls]

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        if call["path"] == "/version":
            return {"status": 200, "body": {"gitVersion": "v1.36.3"}}
        if call["path"] == "/api/v1/nodes":
            return {"status": 200, "body": {"items": [node(one.name, dict(one.labels)) for one in self.nodes]}}
        if call["path"].endswith("subjectaccessreviews"):
            return {"status": 201, "body": {"status.allowed": self.may[json.dumps(call["body"])], "message": None}}
        if "dryRun=All" in call["path"]:
            trial = self.trials.pop(0)
            if trial.refused_by:
                return {"status": 403, "body": {"message": f'pods "x" is forbidden: {trial.refused_by}, used: 0'}}
            return {
                "status": 201,
                "body": {"message": None, **{f"spec.{key}": one for key, one in trial.written.items()}},
            }
        live = copy.deepcopy(self.objects[call["path"]].manifest)
        live["metadata"] |= {"uid": "u", "resourceVersion": "1"}
        return {"status": 200, "body": live | {"status": {"phase": "Active"}}}


def node(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    info = {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://1.6.20"}
    return {
        "metadata.name": name,
        "metadata.labels": {**labels, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        "spec.unschedulable": None,
        "spec.taints": None,
        "status.allocatable": {"nvidia.com/gpu": "8", "cpu": "64"},
        "status.capacity": {"nvidia.com/gpu": "8", "cpu": "64", "memory": "32768Ki"},
        "status.conditions": [{"type": "Ready", "status": "True"}],
        "status.nodeInfo": info,
    }


def beyond(asked: int, most: int) -> str:
    """Kueue's words for a workload that no idle cluster would admit (version 0.15.0, flavorassigner.go, fitsResourceQuota)."""
    return (
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor h100, previously considered "
        f"podsets requests (0) + current podset request ({asked}) > maximum capacity ({most})"
    )


def needs(more: int) -> str:
    """The same for one that waits for GPUs in use."""
    return (
        "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, "
        f"{more} more needed"
    )


def held_by(trial: quotas.Trial) -> dict[str, Any]:
    """A trial on an idle cluster that holds accounts to their limits."""
    asked = 8 * (trial.beside + trial.pods)
    why = needs(asked - trial.limit) if trial.first else beyond(asked, trial.limit)
    return asdict(trial) | {"ran": trial.beside, "most": 0, "why": why, "free": 8 * trial.pods}


@pytest.fixture
def said(plan: Plan) -> dict[str, Any]:
    held = [held_by(one) for one in quotas.trials(plan)]
    return ask(plan, Server(plan)) | {"quotas": held}


def test_a_platform_as_planned_has_no_problem(said: dict[str, Any], plan: Plan) -> None:
    assert kube.objects(said, plan)[1] == []
    assert kube.who_may(said, plan)[1] == []
    assert kube.admitted(said, plan)[1] == []
    for one in said["nodes"]:
        value, problems = kube.node(said, plan, one)
        assert (value, problems) == ({"ready": True, "gpus": 8}, [])


def test_nothing_is_asked_that_changes_anything(plan: Plan) -> None:
    server = Server(plan)
    ask(plan, server)
    for call in server.asked:
        harmless = call["path"].endswith("/subjectaccessreviews") or call["path"].endswith("?dryRun=All")
        assert call["verb"] == "GET" or (call["verb"] == "POST" and harmless), call


def test_paths_are_those_of_the_api(plan: Plan) -> None:
    paths = {path_of(one) for one in design(plan).objects}
    assert {
        "/api/v1/namespaces/research",
        "/api/v1/namespaces/research/resourcequotas/gpus",
        "/apis/networking.k8s.io/v1/namespaces/research/networkpolicies/default-deny",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/bringup-member",
        "/apis/scheduling.k8s.io/v1/priorityclasses/training",
        "/apis/kueue.x-k8s.io/v1beta1/topologies/lab",
        "/apis/kueue.x-k8s.io/v1beta1/clusterqueues/vision",
        "/apis/kueue.x-k8s.io/v1beta1/namespaces/vision/localqueues/default",
    } <= paths


def test_rights_are_asked_of_members_of_others_and_of_a_stranger(plan: Plan) -> None:
    asked = list(rights(plan))
    assert {(one.user, one.namespace) for one in asked if one.namespace == "vision"} == {
        ("alice", "vision"),
        ("bringup-a", "vision"),
        (STRANGER, "vision"),
    }
    assert Right("alice", "vision", "", "pods", "create", True) in asked
    assert Right(STRANGER, "vision", "", "pods", "create", False) in asked
    assert Right("alice", "", "", "nodes", "get", False) in asked
    assert not [one for one in asked if one.namespace == "empty"], "nobody is a member of it"
    to_root = {(one.user, one.namespace) for one in asked if one.namespace in (LOADS, "kube-system")}
    assert to_root == {(user, where) for user in everyone(plan) for where in (LOADS, "kube-system")}
    exec_ = Right("alice", "vision", "", "pods/exec", "create", True)
    assert exec_ in asked
    assert (
        exec_.review["spec"]["resourceAttributes"] | {"resource": "pods", "subresource": "exec"}
        == (exec_.review["spec"]["resourceAttributes"])
    )


def everyone(plan: Plan) -> set[str]:
    """All members of accounts, and nobody's."""
    return {STRANGER, *(user for account in members(plan) for user in account.users)}


@pytest.mark.parametrize("resource", ["pods", "jobsets"])
def test_a_second_member_who_may_start_pods_beside_those_of_acceptance_is_a_problem(plan: Plan, resource: str) -> None:
    """Such a pod may be root on its node. The comparison with the plan does not see a RoleBinding that nobody planned."""
    said = ask(plan, Server(plan))
    (bound,) = [
        one
        for one in said["rights"]
        if (one["user"], one["namespace"], one["resource"], one["verb"]) == ("bob", LOADS, resource, "create")
    ]
    bound["said"] = True
    assert kube.who_may(said, plan)[1] == [f"bob create {resource} in {LOADS}: allowed, planned refused"]


def test_each_rule_of_admission_is_tried(plan: Plan) -> None:
    of_vision = {one.name: one for one in trials(plan) if one.namespace == "vision"}
    assert set(of_vision) == {
        "fits",
        "one GPU more than the account may hold",
        "tier training, as its limits are",
        "tier training, a second more than its limits",
        "no tier",
        "tier inference",
        "tier experimentation",
        "tier system-cluster-critical",
        "privileged",
    }
    (container,) = of_vision["one GPU more than the account may hold"].spec["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "17"}
    assert all(isinstance(one, Trial) and one.user == "alice" for one in of_vision.values())


def changed(said: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    return copy.deepcopy({**said, **parts})


def test_an_object_that_somebody_changed_or_deleted_is_named(said: dict[str, Any], plan: Plan) -> None:
    quota = copy.deepcopy(said["objects"]["ResourceQuota/vision/gpus"])
    quota["spec"]["hard"] = {"requests.nvidia.com/gpu": "999"}
    objects = {
        **said["objects"],
        "ResourceQuota/vision/gpus": quota,
        "Namespace/research": None,
        "Cohort/root": "refused",
    }
    value, problems = kube.objects(changed(said, objects=objects), plan)
    assert value["objects"] - value["as_planned"] == 3
    text = " ".join(problems)
    assert "ResourceQuota/vision/gpus: spec is not as planned" in text
    assert "Namespace/research: is not there" in text
    assert "Cohort/root: refused" in text
    assert "pulumi up puts them back" in text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"status.conditions": [{"type": "Ready", "status": "Unknown"}]}, "Ready is Unknown"),
        ({"spec.unschedulable": True}, "it is cordoned"),
        ({"status.allocatable": {"nvidia.com/gpu": "7"}}, "7 GPUs are on offer, planned 8"),
        ({"status.allocatable": {}}, "0 GPUs are on offer, planned 8"),
        ({"spec.taints": [{"key": "node.kubernetes.io/unreachable"}]}, "taints node.kubernetes.io/unreachable"),
        ({"spec.taints": [{"key": "bringup.local/out-of-service"}]}, "taints bringup.local/out-of-service"),
        ({"metadata.labels": {}}, "label bringup.local/rack is missing"),
    ],
)
def test_what_is_wrong_with_a_node_is_said(
    change: dict[str, Any], problem: str, said: dict[str, Any], plan: Plan
) -> None:
    name = next(iter(said["nodes"]))
    bad = changed(said)
    bad["nodes"][name] |= change
    assert problem in "; ".join(kube.node(bad, plan, name)[1])


def test_a_node_that_never_registered_is_said(said: dict[str, Any], plan: Plan) -> None:
    name = next(iter(said["nodes"]))
    assert "its kubelet has not registered it" in kube.node(changed(said, nodes={}), plan, name)[1][0]


def test_a_right_too_many_one_too_few_and_one_not_asked_are_named(said: dict[str, Any], plan: Plan) -> None:
    bad = changed(said)
    by = {(one["user"], one["namespace"], one["resource"], one["verb"]): one for one in bad["rights"]}
    by["alice", "vision", "pods", "create"]["said"] = False
    by["alice", "", "nodes", "get"]["said"] = True
    bad["rights"] = [one for one in bad["rights"] if one is not by[STRANGER, "vision", "secrets", "get"]]
    value, problems = kube.who_may(bad, plan)
    assert value["wrong"] == 3
    assert set(problems) == {
        "alice create pods in vision: refused, planned allowed",
        "alice get nodes of the cluster: allowed, planned refused",
        f"{STRANGER} get secrets in vision: not asked, planned refused",
    }


@pytest.mark.parametrize(
    ("name", "status", "message", "problem"),
    [
        ("fits", 403, "exceeded quota: other", "refused: exceeded quota: other"),
        ("privileged", 201, "", "admitted, expected a refusal with 'violates PodSecurity'"),
        ("no tier", 403, "webhook is down", "got webhook is down"),
        ("no tier", 0, "the time budget of all calls is spent", "got the time budget"),
    ],
)
def test_a_pod_that_is_judged_otherwise_is_named(
    name: str, status: int, message: str, problem: str, said: dict[str, Any], plan: Plan
) -> None:
    bad = changed(said)
    for one in bad["trials"]:
        if (one["namespace"], one["name"]) == ("vision", name):
            one |= {"status": status, "said": message}
    value, problems = kube.admitted(bad, plan)
    assert value["wrong"] == 1
    assert problem in problems[0]


def test_a_server_that_does_not_answer_leaves_no_pass(plan: Plan) -> None:
    silent = ask(plan, lambda calls: [{"status": 0, "body": None, "error": "connection refused"} for _ in calls])
    for judge in (kube.objects, kube.who_may, kube.admitted):
        problems = judge(silent, plan)[1]
        assert problems
        assert "connection refused" in " ".join(problems) or judge is kube.admitted
    assert all(
        "got connection refused" in one or "refused: connection refused" in one
        for one in kube.admitted(silent, plan)[1]
    )


def test_each_check_keeps_a_raw_output_from_which_the_gate_judges_again(
    said: dict[str, Any], plan: Plan, record: Callable[..., Record], tmp_path: Path
) -> None:
    register, reader = load_register(platform=True), from_raw.Reader(plan, tmp_path)
    facts, name = Facts(nodes={one: Answer(one, "ssh") for one in plan.devices["name"]}), next(iter(said["nodes"]))
    for check_of_item, item, subject in (
        (test_platform.test_users_may_what_their_role_says_and_nothing_else, "P-05.measured", plan.site.name),
        (test_platform.test_objects_of_the_platform_are_as_planned, "P-13.applied", plan.site.name),
        (test_platform.test_node_stands_in_its_place_with_all_its_gpus, "P-16.applied", name),
    ):
        outcome = check_of_item(subject, plan, facts, PlatformSaid(said))
        assert outcome.passed, outcome.detail
        assert outcome.raw is not None
        path = tmp_path / raw_path(hashlib.sha256(outcome.raw).hexdigest())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(outcome.raw)
        value = json.loads(json.dumps(outcome.value))
        made = record(item, subject, value=value, raw=outcome.raw)
        assert reader.doubt(register.items[item], made) is None
        silent = check_of_item(subject, plan, facts, PlatformSaid({}, "ctl01 gave no answer"))
        assert (silent.passed, silent.detail) == (False, "ctl01 gave no answer")


OF_RAW: Mapping[str, tuple[str, ...]] = {
    "P-04.measured": ("trials", "quotas"),
    "P-05.measured": ("rights",),
    "P-13.applied": ("objects",),
    "S157.applied": ("objects", "trials", "quotas"),
    "S159.applied": ("objects", "nodes"),
    "S160.applied": ("objects",),
}
KINDS = {"S157.applied": POLICY, "S159.applied": PLACEMENT, "S160.applied": PREEMPTION}


@pytest.mark.parametrize("item", OF_RAW)
def test_the_gate_computes_the_value_again_from_the_raw_output(item: str, said: dict[str, Any], plan: Plan) -> None:
    raw = kube.raw_of(said, *OF_RAW[item])
    again = from_raw.computed(item, plan.site.name, plan, raw)
    assert isinstance(again, from_raw.Again)
    assert again.problems == []
    empty = json.dumps({part: type(said[part])() for part in OF_RAW[item]}).encode()
    worse = from_raw.computed(item, plan.site.name, plan, empty)
    assert isinstance(worse, from_raw.Again)
    assert worse.problems, "a raw output that says nothing shows nothing"
    assert isinstance(from_raw.computed(item, plan.site.name, plan, b'{"x": 1}'), str)


@pytest.mark.parametrize("item", OF_RAW)
def test_no_part_can_be_left_out_of_the_raw_output(item: str, said: dict[str, Any], plan: Plan) -> None:
    whole = {part: said[part] for part in OF_RAW[item]}
    for part, answers in whole.items():
        places: Sequence[Any] = list(answers)
        if not isinstance(answers, dict):
            places = range(0, len(answers), 1 + len(answers) // 40)
        if part == "objects" and item in KINDS:
            places = [place for place in places if place.partition("/")[0] in KINDS[item]]
        for place in places:
            less = copy.copy(answers)
            del less[place]
            found = from_raw.computed(item, plan.site.name, plan, json.dumps(whole | {part: less}).encode())
            assert isinstance(found, str) or found.problems, place


@pytest.mark.parametrize("item", OF_RAW)
def test_a_record_with_another_value_is_unlike_its_raw_output(
    item: str, record: Callable[..., Record], said: dict[str, Any], plan: Plan
) -> None:
    again = from_raw.computed(item, plan.site.name, plan, kube.raw_of(said, *OF_RAW[item]))
    assert isinstance(again, from_raw.Again)
    first = next(iter(again.value))
    assert from_raw.unlike(record(item, "lab", value=again.value), again) is None
    edited = {**again.value, first: again.value[first] + 1}
    assert from_raw.unlike(record(item, "lab", value=edited), again)


def test_the_gate_reads_a_node_from_its_own_raw_output(said: dict[str, Any], plan: Plan) -> None:
    name = next(iter(said["nodes"]))
    raw = kube.raw_of({"nodes": {name: said["nodes"][name]}}, "nodes")
    again = from_raw.computed("P-16.applied", name, plan, raw)
    assert isinstance(again, from_raw.Again)
    assert (again.value, again.problems) == ({"ready": True, "gpus": 8}, [])


def test_members_of_an_accounts_group_are_asked_for_there_and_elsewhere() -> None:
    plan = logging_in(vision=("team", "guests"), services=("serving",), research=("team",))
    asked = [right for right in rights(plan) if right.member_of]
    groups = {
        (right.user, right.namespace): right.review["spec"]["groups"]
        for right in asked
        if right.user == f"{STRANGER}-of-vision"
    }
    assert groups == {
        (f"{STRANGER}-of-vision", one): ["system:authenticated", "login:team"]
        for one in ("vision", "services", "research")
    }
    wanted = {
        (right.user.rpartition("-")[2], right.namespace)
        for right in asked
        if (right.resource, right.verb) == ("jobs", "create") and right.wanted
    }
    assert {("vision", "vision"), ("vision", "research"), ("services", "services")} <= wanted
    assert ("vision", "services") not in wanted
    assert [right for right in rights(plan) if not right.member_of] == list(rights(plan_of("lab-kubernetes")))
