"""The platform's objects as they follow from a plan: each node once, quotas that add up, names that Kubernetes takes."""

import dataclasses
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity.services.platform import Platform, design, sharing
from capacity.services.platform.queues import amounts_of, capacity_of, mebibytes, own_amounts, queues
from capacity.services.platform.tenancy import RULES, gpus_allowed, namespaces, quantity
from capacity.services.platform.topology import HOSTNAME, PREFIX, node_labels
from capacity.services.slurm import Account
from capacity.services.slurm import design as nodes_of
from inventory.site import site_names
from inventory.site.sections.software import Scheduler, names_fit_kubernetes
from tests.capacity.services.test_sharing import SLICES, shared
from tests.plans import plan_of

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
"""RFC 1123, and https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set."""
GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module", params=site_names())
def site(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def platform(site: str) -> Platform:
    return design(plan_of(site))


def of_kind(platform: Platform, kind: str) -> list[dict[str, Any]]:
    return [one.manifest for one in platform.objects if one.kind == kind]


def gpu_quota(manifest: dict[str, Any], which: str) -> int | None:
    (group,) = manifest["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    found = {one["name"]: one.get(which) for one in flavor["resources"]}[GPU]
    return None if found is None else whole(found)


def whole(text: str) -> int:
    """The number of a quantity of DecimalSI without a fraction."""
    power = {"k": 3, "M": 6}.get(text[-1], 0)
    return int(text.rstrip("kM")) * 10**power


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0Mi"), (3, "3Mi"), (4096, "4Gi"), (4097, "4097Mi"), (2 * 1024**2, "2Ti"), (1024**3, "1Pi")]
)
def test_memory_is_written_as_the_api_server_writes_it(count: int, text: str) -> None:
    """Otherwise a second `pulumi up` has something to change."""
    assert mebibytes(count) == text


def test_each_object_is_there_once_and_after_what_it_needs(platform: Platform) -> None:
    keys = [one.key for one in platform.objects]
    assert [key for key, count in Counter(keys).items() if count > 1] == []
    for place, one in enumerate(platform.objects):
        assert not one.namespace or f"Namespace/{one.namespace}" in keys[:place]


def test_each_gpu_node_is_labelled_once_and_no_other_node(site: str, platform: Platform) -> None:
    devices = plan_of(site).devices
    gpu_nodes = sorted(devices.loc[devices["role"] == "gpu", "name"])
    assert sorted(one["metadata"]["name"] for one in of_kind(platform, "Node")) == gpu_nodes


def test_every_level_of_the_topology_is_a_label_of_every_gpu_node(platform: Platform) -> None:
    (topology,) = of_kind(platform, "Topology")
    levels = [level["nodeLabel"] for level in topology["spec"]["levels"]]
    assert levels[0] == f"{PREFIX}/hall"
    assert levels[-1] == HOSTNAME
    for node in of_kind(platform, "Node"):
        assert set(levels[:-1]) <= node["metadata"]["labels"].keys()


def test_nodes_of_a_rail_group_share_every_leaf_of_the_compute_fabric(site: str) -> None:
    plan = plan_of(site)
    cables = plan.cables[(plan.cables["fabric"] == "compute") & (plan.cables["stage"] == "node-leaf")]
    leaves: dict[str, set[str]] = {}
    for node, leaf in zip(cables["a_device"], cables["b_device"], strict=True):
        leaves.setdefault(node, set()).add(leaf)
    groups: dict[str, set[frozenset[str]]] = {}
    for node, labels in node_labels(plan).items():
        groups.setdefault(labels[f"{PREFIX}/rail-group"], set()).add(frozenset(leaves[node]))
    assert all(len(sets) == 1 for sets in groups.values())
    assert len({one for sets in groups.values() for one in sets}) == len(groups)


def test_all_gpus_of_the_plan_stand_at_the_root_and_none_elsewhere(site: str, platform: Platform) -> None:
    plan = plan_of(site)
    gpus = sum(
        plan.catalog.device(model).bringup.gpus for model in plan.devices.loc[plan.devices["role"] == "gpu", "model"]
    )
    cohorts = {one["metadata"]["name"]: one for one in of_kind(platform, "Cohort")}
    assert gpu_quota(cohorts.pop("root"), "nominalQuota") == platform.gpus == gpus
    assert {gpu_quota(one, "nominalQuota") for one in [*cohorts.values(), *of_kind(platform, "ClusterQueue")]} == {0}


def test_each_accounts_limit_is_that_of_the_site_file(site: str, platform: Platform) -> None:
    given_limits = {account.name: account.max_gpus for account in plan_of(site).site.scheduler.accounts}
    limits = {one["metadata"]["name"]: gpu_quota(one, "borrowingLimit") for one in of_kind(platform, "ClusterQueue")}
    assert limits == {**given_limits, "commissioning": None}
    for cohort in of_kind(platform, "Cohort"):
        name = cohort["metadata"]["name"]
        assert gpu_quota(cohort, "borrowingLimit") == given_limits.get(name)


def test_gpus_of_an_account_s_own_stand_in_its_queue_and_are_not_borrowed() -> None:
    """Of 32 GPUs 8 are those of services and 4 those of vision, which is below research."""
    plan = plan_of("lab-kubernetes")
    own = {"services": 8, "vision": 4}
    accounts = tuple(one.model_copy(update={"min_gpus": own.get(one.name)}) for one in plan.site.scheduler.accounts)
    scheduler = plan.site.scheduler.model_copy(update={"accounts": accounts})
    made = design(dataclasses.replace(plan, site=plan.site.model_copy(update={"scheduler": scheduler})))
    queues = {one["metadata"]["name"]: one for one in of_kind(made, "ClusterQueue")}
    cohorts = {one["metadata"]["name"]: one for one in of_kind(made, "Cohort")}
    nominal = {name: gpu_quota(one, "nominalQuota") for name, one in queues.items()}
    assert nominal == {"services": 8, "vision": 4, "research": 0, "commissioning": 0}
    assert gpu_quota(cohorts["root"], "nominalQuota") == 20
    assert gpu_quota(cohorts["research"], "borrowingLimit") == 24 - 4
    limits = {name: gpu_quota(one, "borrowingLimit") for name, one in queues.items()}
    assert limits == {"services": 0, "vision": 12, "research": 20, "commissioning": None}
    reclaims = {name: one["spec"]["preemption"]["reclaimWithinCohort"] for name, one in queues.items()}
    assert reclaims == {
        "services": "Any",
        "vision": "Any",
        "research": "LowerPriority",
        "commissioning": "LowerPriority",
    }


def test_cpus_and_memory_of_own_gpus_stand_in_the_queue_with_them() -> None:
    """A pod that has to borrow its CPUs gets no GPUs back from a higher tier. services has as many GPUs as a node, vision half."""
    plan = plan_of("lab-kubernetes")
    own = {"services": 8, "vision": 4}
    accounts = tuple(one.model_copy(update={"min_gpus": own.get(one.name)}) for one in plan.site.scheduler.accounts)
    scheduler = plan.site.scheduler.model_copy(update={"accounts": accounts})
    made = design(dataclasses.replace(plan, site=plan.site.model_copy(update={"scheduler": scheduler})))
    (node, *others) = nodes_of(plan, plan.catalog).nodes
    assert [(one.gpus, one.cpus, one.memory_mib) for one in others] == [(8, node.cpus, node.memory_mib)] * 3
    nodes = {"services": 1.0, "vision": 0.5, "research": 0.0, "commissioning": 0.0, "root": 2.5}
    for one in [
        *of_kind(made, "ClusterQueue"),
        *(one for one in of_kind(made, "Cohort") if "parentName" not in one["spec"]),
    ]:
        ((flavor,),) = [group["flavors"] for group in one["spec"]["resourceGroups"]]
        found = {each["name"]: each["nominalQuota"] for each in flavor["resources"]}
        count = nodes.pop(one["metadata"]["name"])
        memory = mebibytes(int(node.memory_mib * count)) if count else "0"
        assert (found["cpu"], found["memory"]) == (quantity(int(node.cpus * count)), memory)
    assert nodes == {}


def test_own_parts_and_what_is_left_are_all_that_there_is() -> None:
    """Whatever does not divide stays at the root, and nodes whose GPUs are shared give nothing to own GPUs."""
    plan = shared(SLICES)
    nodes, profiles = nodes_of(plan, plan.catalog).nodes, sharing.profiles(plan)
    own = own_amounts(nodes, {"a": 3, "b": 5}, profiles)
    alone = sharing.whole(nodes, profiles)
    for name, amount in amounts_of(alone).items():
        gpus = sum(node.gpus for node in alone)
        for account, count in (("a", 3), ("b", 5)):
            assert 0 <= amount * count - own[account][name] * gpus < gpus
    assert own["a"].keys() == {GPU, "cpu", "memory"}
    left = amounts_of(nodes, profiles)["cpu"] - own["a"]["cpu"] - own["b"]["cpu"]
    assert capacity_of(nodes, profiles, own.values())["cpu"] == quantity(left)


def test_a_lab_account_may_use_its_own_tiers_and_no_pod_goes_without_one() -> None:
    quotas = [one.manifest for one in design(plan_of("lab")).objects if one.kind == "ResourceQuota"]
    services = {one["metadata"]["name"]: one["spec"] for one in quotas if one["metadata"]["namespace"] == "services"}
    assert services["tier-not-of-this-account"] == {
        "hard": {"pods": "0"},
        "scopeSelector": {
            "matchExpressions": [
                {
                    "scopeName": "PriorityClass",
                    "operator": "In",
                    "values": ["training", "experimentation", "system-cluster-critical", "system-node-critical"],
                }
            ]
        },
    }
    assert services["priority-class-missing"]["hard"] == {"pods": "0"}
    research = {one["metadata"]["name"]: one["spec"] for one in quotas if one["metadata"]["namespace"] == "research"}
    assert research.keys() == {"gpus", "priority-class-missing", "tier-not-of-this-account"}
    (expression,) = research["tier-not-of-this-account"]["scopeSelector"]["matchExpressions"]
    assert expression["values"] == ["system-cluster-critical", "system-node-critical"], "classes of the system alone"


def test_priorities_follow_the_order_of_the_tiers_and_the_lowest_preempts_none(platform: Platform) -> None:
    classes = of_kind(platform, "PriorityClass")
    values = [one["value"] for one in classes]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == len(values)
    assert [one["preemptionPolicy"] for one in classes] == ["PreemptLowerPriority"] * (len(classes) - 1) + ["Never"]
    assert not any(one["globalDefault"] for one in classes)


def test_every_namespace_denies_traffic_by_default(platform: Platform) -> None:
    denying = {
        one["metadata"]["namespace"]
        for one in of_kind(platform, "NetworkPolicy")
        if one["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    }
    assert denying == {one["metadata"]["name"] for one in of_kind(platform, "Namespace")}


def test_no_member_may_change_quotas_rights_policies_or_queues(platform: Platform) -> None:
    (role,) = of_kind(platform, "ClusterRole")
    writable = {
        (group, resource)
        for rule in role["rules"]
        if set(rule["verbs"]) - {"get", "list", "watch"}
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {group for group, _ in writable} == {"", "batch", "jobset.x-k8s.io"}
    assert not {"resourcequotas", "namespaces", "nodes", "serviceaccounts"} & {resource for _, resource in writable}


def test_members_run_jobsets_as_they_run_jobs() -> None:
    verbs = {(group, resource): verbs for group, resources, verbs in RULES for resource in resources}
    for sub in ("", "/status"):
        assert verbs["jobset.x-k8s.io", f"jobsets{sub}"] == verbs["batch", f"jobs{sub}"]


def test_a_site_gives_names_and_labels_that_kubernetes_takes(platform: Platform) -> None:
    for one in platform.objects:
        assert LABEL.fullmatch(one.name), one.key
        assert all(LABEL_VALUE.fullmatch(value) for _, value in one.labels), one.key


@st.composite
def trees(draw: st.DrawFn) -> list[Account]:
    """Accounts, parents before children."""
    accounts: list[Account] = []
    for number in range(draw(st.integers(1, 8))):
        parent = draw(st.sampled_from(["root", *(account.name for account in accounts)]))
        limit = draw(st.none() | st.integers(0, 10_000))
        accounts.append(Account(f"a{number}", parent, 1, ("training",), limit, ()))
    return accounts


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees(), st.integers(1, 9000))
def test_no_account_may_hold_more_than_any_above_it_or_than_the_site_has(accounts: list[Account], gpus: int) -> None:
    allowed, limits = gpus_allowed(accounts, gpus), {account.name: account for account in accounts}
    for account in accounts:
        above = [gpus]
        name = account.name
        while name != "root":
            if (limit := limits[name].max_gpus) is not None:
                above.append(limit)
            name = limits[name].parent
        assert allowed[account.name] == min(above)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees())
def test_the_tree_of_cohorts_is_the_tree_of_accounts(accounts: list[Account]) -> None:
    made = list(queues(accounts, {GPU: "8"}, "h100"))
    cohorts = {one.name: one.body["spec"].get("parentName") for one in made if one.kind == "Cohort"}
    assert cohorts.pop("root") is None
    parents = {account.name: account.parent for account in accounts}
    assert cohorts == {name: parents[name] for name in parents if name in parents.values()}
    for one in made:
        if one.kind == "ClusterQueue":
            assert one.body["spec"]["cohort"] == (one.name if one.name in cohorts else parents[one.name])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.from_regex(r"\A[a-z0-9][-a-z0-9_]*\n?\Z") | st.sampled_from(["default", "kube-system", "a" * 63, "a" * 64, "a-"])
)
def test_a_name_is_refused_or_fits_every_object_of_its_account(name: str) -> None:
    scheduler = Scheduler.model_validate({"kind": "kubernetes", "accounts": ({"name": name, "users": ("alice",)},)})
    problems = list(names_fit_kubernetes(None, "lab", scheduler))
    account = Account(name, "root", 1, ("training",), None, ("alice",))
    objects = [*namespaces([account], ["training"], 8), *queues([account], {GPU: "8"}, "h100")]
    spaces = {one.namespace for one in objects if one.namespace}
    fits = all(LABEL.fullmatch(text) for text in [*spaces, *(one.name for one in objects)])
    fits = fits and name != "default" and not name.startswith("kube-")
    assert fits == (problems == [])
    assert all(problem.path == ("scheduler", "accounts", 0, "name") and problem.do for problem in problems)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**15))
def test_a_quantity_keeps_its_value_and_has_one_form(count: int) -> None:
    found = re.fullmatch(r"(\d+)([kMGTPE]?)", quantity(count))
    assert found is not None
    power = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}[found[2]]
    assert int(found[1]) * 10**power == count
    assert count == 0 or power == 18 or int(found[1]) % 1000 != 0


def test_eight_thousand_gpus_are_written_as_the_api_server_writes_them() -> None:
    assert quantity(8000) == "8k"
