"""The platform layer of a site, by the shipped Pulumi program, on a real API server: what holds there and what does not.

The site is the lab's with Kubernetes in place of Slurm. No kubelet runs: its nodes are registered by the test, and pods are
created and judged by the API server, and never started.
"""

import functools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from capacity.build import build
from capacity.services.platform import PlatformObject, design
from infra.kube import dns
from infra.kube.local import ControlPlane
from infra.kube.manifests import installed
from infra.layers.platform import key_of
from infra.toolchain.controllers import controllers
from inventory.paths import repo_root, site_dir
from inventory.site import load_site
from tests.control_plane import Cluster, cluster, control_plane, wait_for
from tests.kueue_pod import pods_played
from tests.pulumi_cli import call, kubernetes_environment

__all__ = ["cluster", "control_plane"]

pytestmark = [pytest.mark.platform, pytest.mark.needs("kueue")]  # Kueue judges its objects

CALL_S = 300
PROJECT = """\
name: bringup
runtime:
  name: python
  options: {{toolchain: pip, virtualenv: {root}/.venv}}
main: {root}/infra
options:
  refresh: always
"""
"""The clone's Pulumi.yaml, with the stack's configuration beside it and not in the clone."""
SCHEDULER = """\
scheduler:
  kind: kubernetes
  accounts:
    - {name: services, max_gpus: 8, tiers: [inference], users: [serving]}
    - {name: research, users: [alice, bob]}
    - {name: vision, parent: research, max_gpus: 16, tiers: [training, experimentation], users: [alice]}
  tier_limits:
    training: {grace_s: 5, max_hours: 24}
versions: {kubernetes: "1.36.3"}
"""


@dataclass
class Applied:
    """A stack of the shipped program, what its site wants, and what the first run said."""

    folder: Path
    environment: dict[str, str]
    objects: tuple[PlatformObject, ...]
    first: str = ""

    def pulumi(self, *words: str) -> str:
        """What a call said; the test ends when it fails."""
        command = ["pulumi", *words, "--non-interactive", "--color=never"]
        status, said = call(command, self.folder, self.environment, CALL_S)
        assert status == 0, said
        return said


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, control_plane: ControlPlane, cluster: Cluster) -> Iterator[Applied]:
    built = controllers()
    assert built is not None
    folder = tmp_path_factory.mktemp("site")
    text = (site_dir("lab") / "site.yaml").read_text()
    start, end = text.index("scheduler:\n"), text.index("\ntiers: [") + 1
    (folder / "site.yaml").write_text(text[:start] + SCHEDULER + text[end:])
    (folder / "Pulumi.yaml").write_text(PROJECT.format(root=repo_root()))
    wanted = design(build(load_site(folder / "site.yaml"))).objects
    made = Applied(folder, kubernetes_environment(folder), wanted)
    for one in wanted:
        if one.kind == "Node":  # as its kubelet would
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": one.name}}
            assert cluster.post("/api/v1/nodes", node).status_code == 201
    made.pulumi("stack", "init", "platform")
    for key, value in (("site", str(folder / "site.yaml")), ("kubeconfig", str(cluster.kubeconfig))):
        made.pulumi("config", "set", f"bringup:{key}", value)
    made.pulumi("config", "set", "--path", "bringup:layers[0]", "platform")
    first_node = next(one.name for one in wanted if one.kind == "Node")
    with pods_played(control_plane, built, folder, first_node):
        made.first = made.pulumi("up", "--yes", "--skip-preview")
        yield made
        made.pulumi("destroy", "--yes", "--skip-preview")
    shutil.rmtree(folder)


def test_every_object_of_the_design_is_there(stack: Applied, cluster: Cluster) -> None:
    assert "provider is Bringup's pulumi-resource-kubernetes" in stack.first
    for one in stack.objects:
        live = cluster.find(one.manifest)
        assert live is not None, one.key
        assert live["metadata"]["labels"].items() >= one.manifest["metadata"]["labels"].items(), one.key
    names = dns.objects("10.96.0.10", nodes=4, upstream=False)
    for manifest in (one for objects in (names, *installed(replicas=2, rdma=True).values()) for one in objects):
        live = cluster.find(manifest)
        assert live is not None, key_of(manifest)
        assert live["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "bringup", key_of(manifest)


def test_an_api_server_knows_every_field_of_controllers_with_two_pods(cluster: Cluster) -> None:
    checked = [one for name in ("kueue", "jobset") for one in installed(replicas=2)[name]]
    kinds = {"Deployment": "/apis/apps/v1", "PodDisruptionBudget": "/apis/policy/v1"}
    for one in checked:
        if one["kind"] in kinds:
            given = {**one, "metadata": {**one["metadata"], "namespace": "default"}}
            path = f"{kinds[one['kind']]}/namespaces/default/{one['kind'].lower()}s?dryRun=All&fieldValidation=Strict"
            answer = cluster.post(path, given)
            assert answer.status_code == 201, answer.text
            assert answer.json()["spec"].items() >= {"selector": one["spec"]["selector"]}.items()


def test_a_second_run_changes_nothing(stack: Applied, cluster: Cluster) -> None:
    before = {one.key: cluster.version(one.manifest) for one in stack.objects}
    said = stack.pulumi("up", "--yes", "--skip-preview")
    summary = said.partition("Resources:")[2]
    assert "unchanged" in summary
    assert not {"created", "updated", "replaced", "deleted"} & set(summary.split())
    assert {one.key: cluster.version(one.manifest) for one in stack.objects} == before


DRIFT: dict[str, dict[str, Any]] = {
    "Namespace": {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
    "ResourceQuota": {"spec": {"hard": {"requests.nvidia.com/gpu": "999", "pods": "999"}}},
    "ClusterRole": {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]},
    "RoleBinding": {"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}]},
    "NetworkPolicy": {"spec": {"policyTypes": ["Ingress"], "ingress": [{}], "egress": None}},
    "PriorityClass": {"metadata": {"labels": {"app.kubernetes.io/managed-by": "kim"}}},
    "RuntimeClass": {"metadata": {"labels": {"app.kubernetes.io/managed-by": "kim"}}},
    "MutatingAdmissionPolicy": {"spec": {"failurePolicy": "Ignore"}},
    "MutatingAdmissionPolicyBinding": {"metadata": {"labels": {"app.kubernetes.io/managed-by": "kim"}}},
    "Node": {"metadata": {"labels": {"bringup.local/rack": "elsewhere"}}},
    "Topology": {"metadata": {"labels": {"app.kubernetes.io/managed-by": "kim"}}},
    "ResourceFlavor": {"metadata": {"labels": {"app.kubernetes.io/managed-by": "kim"}}},
    "Cohort": {"spec": {"resourceGroups": None}},
    "ClusterQueue": {"spec": {"queueingStrategy": "StrictFIFO"}},
    "LocalQueue": {"metadata": {"labels": {"app.kubernetes.io/managed-by": "kim"}}},
}
"""A change by hand of what we set in one object of each kind; of kinds that let nobody change their body, a label."""


def test_a_change_by_hand_of_any_kind_is_found_by_preview_and_put_back(stack: Applied, cluster: Cluster) -> None:
    first = {one.kind: one for one in reversed(stack.objects)}
    assert first.keys() == DRIFT.keys()
    try:
        for kind, change in DRIFT.items():
            cluster.patch(cluster.path(first[kind].manifest), change)
        found = stack.pulumi("preview", "--diff")
    finally:
        stack.pulumi("up", "--yes", "--skip-preview")
    for one in first.values():
        assert f"::{one.key}]" in found, f"preview does not name {one.key}:\n{found[-3000:]}"
    said = stack.pulumi("preview")
    assert not {"create", "update", "replace", "delete"} & set(said.partition("Resources:")[2].split()), said


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
READ = ("get", "list", "watch")
MATRIX: dict[tuple[str, str], tuple[str, ...]] = {
    # (group, resource): what a member may do in the own namespace
    ("", "pods"): VERBS,
    ("", "secrets"): VERBS,
    ("", "configmaps"): VERBS,
    ("", "services"): VERBS,
    ("", "persistentvolumeclaims"): VERBS,
    ("batch", "jobs"): VERBS,
    ("", "events"): READ,
    ("", "resourcequotas"): READ,
    ("kueue.x-k8s.io", "localqueues"): READ,
    ("kueue.x-k8s.io", "workloads"): READ,
    ("", "serviceaccounts"): (),
    ("", "limitranges"): (),
    ("", "replicationcontrollers"): (),
    ("apps", "deployments"): (),
    ("apps", "daemonsets"): (),
    ("networking.k8s.io", "networkpolicies"): (),
    ("rbac.authorization.k8s.io", "roles"): (),
    ("rbac.authorization.k8s.io", "rolebindings"): (),
}
ACROSS = (  # of the whole cluster: nothing
    ("", "nodes"),
    ("", "namespaces"),
    ("", "persistentvolumes"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("kueue.x-k8s.io", "clusterqueues"),
    ("kueue.x-k8s.io", "cohorts"),
    ("kueue.x-k8s.io", "resourceflavors"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
)
MEMBERS = {"services": {"serving"}, "research": {"alice", "bob"}, "vision": {"alice"}, "commissioning": set[str]()}


def test_members_may_do_in_their_namespace_what_the_matrix_says_and_nothing_else(
    stack: Applied, cluster: Cluster
) -> None:
    wrong = []
    for namespace, members in MEMBERS.items():
        for user in ("alice", "bob", "serving", "mallory"):
            for (group, resource), verbs in MATRIX.items():
                for verb in (*VERBS, "deletecollection", "bind", "escalate"):
                    wanted = user in members and verb in verbs
                    if cluster.may(user, verb, resource, namespace, group) != wanted:
                        wrong.append(f"{user} {verb} {group}/{resource} in {namespace}: expected {wanted}")
    assert wrong == []


def test_members_may_do_nothing_across_the_cluster(stack: Applied, cluster: Cluster) -> None:
    wrong = [
        f"{verb} {group}/{resource}"
        for group, resource in ACROSS
        for verb in VERBS
        if cluster.may("alice", verb, resource, group=group)
    ]
    assert wrong == []


def test_members_may_enter_their_pods_and_nobody_elses(stack: Applied, cluster: Cluster) -> None:
    for sub in ("exec", "portforward"):
        assert cluster.may("alice", "create", "pods", "vision", sub=sub)
        assert not cluster.may("bob", "create", "pods", "vision", sub=sub)
    assert not cluster.may("alice", "create", "serviceaccounts", "vision", sub="token")
    assert not cluster.may("alice", "patch", "pods", "vision", sub="ephemeralcontainers")


def a_pod(name: str, tier: str, gpus: int, **more: Any) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "a",
        "image": "lab/a:1",
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
    }
    spec = {
        "containers": [container | more.pop("container", {})],
        **({"priorityClassName": tier} if tier else {}),
        **more,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def pods(stack: Applied, cluster: Cluster) -> Iterator[Any]:
    """Creates pods as a user; they go at the end, and the quota counts none again."""
    made = []

    def create(user: str, namespace: str, pod: dict[str, Any]) -> httpx.Response:
        answer = cluster.post(f"/api/v1/namespaces/{namespace}/pods", pod, user)
        if answer.status_code == 201:
            made.append(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}")
        return answer

    def has_quota(namespace: str) -> bool:
        account = cluster.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
        quota = cluster.get(f"/api/v1/namespaces/{namespace}/resourcequotas/gpus")
        return bool(account and quota and quota.get("status", {}).get("hard"))

    for namespace in MEMBERS:
        assert wait_for(functools.partial(has_quota, namespace)), namespace
    yield create
    for path in made:
        cluster.http.request("DELETE", path, json={"gracePeriodSeconds": 0})


def test_the_quota_of_gpus_holds_to_the_last_gpu(pods: Any) -> None:
    assert pods("alice", "vision", a_pod("first", "training", 12)).status_code == 201
    refused = pods("alice", "vision", a_pod("too-much", "training", 5))
    assert refused.status_code == 403
    assert (
        "exceeded quota: gpus, requested: requests.nvidia.com/gpu=5, used: requests.nvidia.com/gpu=12" in refused.text
    )
    assert pods("alice", "vision", a_pod("rest", "experimentation", 4)).status_code == 201
    assert pods("alice", "vision", a_pod("one-more", "training", 1)).status_code == 403


@pytest.mark.parametrize(("tier", "quota"), [("inference", "tier-not-of-this-account"), ("", "priority-class-missing")])
def test_a_pod_of_a_foreign_tier_or_of_none_is_refused_by_a_quota_that_says_so(
    tier: str, quota: str, pods: Any
) -> None:
    refused = pods("alice", "vision", a_pod("a", tier, 1))
    assert refused.status_code == 403
    assert f"exceeded quota: {quota}" in refused.text


@pytest.mark.parametrize(("asked_s", "seconds"), [(None, 86400), (60, 60), (100_000, 86400)])
def test_a_pod_of_a_limited_tier_ends_in_time_and_has_the_grace_of_the_tier(
    asked_s: int | None, seconds: int, pods: Any
) -> None:
    more = {"activeDeadlineSeconds": asked_s} if asked_s else {}
    made = pods("alice", "vision", a_pod("a", "training", 1, **more)).json()["spec"]
    assert (made["activeDeadlineSeconds"], made["terminationGracePeriodSeconds"]) == (seconds, 5)


GPU = {"nvidia.com/gpu": "1"}
CPU = {"cpu": "1"}


@pytest.mark.parametrize(
    ("limits", "more", "runtime"),
    [
        (GPU, {}, "nvidia"),
        (CPU, {"initContainers": [{"name": "i", "image": "lab/a:1", "resources": {"limits": GPU}}]}, "nvidia"),
        (CPU, {"initContainers": [{"name": "i", "image": "lab/a:1"}]}, None),
        (CPU, {}, None),
        ({}, {}, None),
    ],
    ids=["gpu", "gpu-to-begin-with", "without-limits-to-begin-with", "cpu", "without-limits"],
)
def test_a_pod_that_asks_for_gpus_runs_in_nvidias_runtime_and_no_other_does(
    limits: dict[str, str], more: dict[str, Any], runtime: str | None, pods: Any
) -> None:
    made = pods("alice", "vision", a_pod("a", "training", 0, container={"resources": {"limits": limits}}, **more))
    assert made.status_code == 201, made.text
    assert made.json()["spec"].get("runtimeClassName") == runtime


def test_a_pod_of_another_tier_keeps_its_own_times(pods: Any) -> None:
    made = pods("alice", "vision", a_pod("a", "experimentation", 1)).json()["spec"]
    assert (made.get("activeDeadlineSeconds"), made["terminationGracePeriodSeconds"]) == (None, 30)


def test_a_class_of_the_system_is_no_way_around_the_tiers(pods: Any) -> None:
    refused = pods("alice", "vision", a_pod("a", "system-node-critical", 1))
    assert refused.status_code == 403


@pytest.mark.parametrize(
    "more",
    [
        {"container": {"securityContext": {"privileged": True}}},
        {"hostNetwork": True},
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    ],
    ids=["privileged", "host-network", "host-path"],
)
def test_pod_security_refuses_what_reaches_the_node(more: dict[str, Any], pods: Any) -> None:
    refused = pods("alice", "vision", a_pod("a", "training", 1, **more))
    assert refused.status_code == 403
    assert "violates PodSecurity" in refused.text


def test_a_stranger_creates_nothing(pods: Any) -> None:
    assert pods("bob", "vision", a_pod("a", "training", 1)).status_code == 403
    assert pods("alice", "services", a_pod("a", "inference", 1)).status_code == 403
