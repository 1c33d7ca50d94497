"""Platform layer: what a Kubernetes cluster is to know of the plan, declared with the types of `pulumi_kubernetes`.

Each object once: those of Kueue, JobSet and the device plugin (infra/kube/manifests.py), then those of the plan
(capacity/services/platform). Here they only get a type, a provider and an order: objects of a namespace depend on it, custom
resources on their definition and on the controllers.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from capacity.model import Plan
from capacity.services.cluster import DNS_SERVICE
from capacity.services.platform import design
from capacity.services.platform.objects import MANAGED_BY, OWNER
from capacity.services.platform.sharing import configuration, profiles, whole_nodes
from infra.kube import dns
from infra.kube.manifests import installed

FORCE = {"pulumi.com/patchForce": "true"}
"""What somebody changed by hand is changed back, as docs/kubernetes.md says; without it the API server reports a conflict."""


class Platform(pulumi.ComponentResource):
    """The platform layer of one cluster; `declared` maps an object's key to its resource."""

    def __init__(self, plan: Plan, kubeconfig: str) -> None:
        super().__init__("bringup:layers:Platform", "platform")
        self._cluster = k8s.Provider("cluster", kubeconfig=kubeconfig, opts=pulumi.ResourceOptions(parent=self))
        self.declared: dict[str, pulumi.Resource] = {}
        self._needs: dict[str, list[str]] = {}
        """{kind: keys of what its objects need}: its definition, and the controller whose webhook judges it."""
        objects, shared = design(plan).objects, profiles(plan)
        self._nodes = len(whole_nodes(plan)) + sum(len(one.nodes) for one in shared)
        for one in configuration(shared):  # before the device plugin, which reads it when it starts
            self._declare(one.key, one.manifest, [])
            self._needs["DaemonSet"] = [one.key]
        texts = {one.name: one.text for one in shared}
        replicas = REPLICAS if self._nodes > 1 else 1
        site, registry = plan.site, plan.site.scheduler.registry
        releases = installed(registry, shared=texts, replicas=replicas, rdma=site.fabric.kind == "ib")
        dns_objects = dns.objects(DNS_SERVICE, nodes=self._nodes, upstream=bool(site.addressing.dns), registry=registry)
        for manifests in (dns_objects, *releases.values()):
            self._declare_release(manifests)
        for one in objects:
            if one.key not in self.declared:
                self._declare(one.key, one.manifest, [])
        self.register_outputs({})

    def _declare_release(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """One controller: what runs waits for all else of its release, objects of its kinds wait for what runs.

        And so for all of its release: to declare a dependency on each of 70 objects, for each of dozens, took 0.2 s.
        """
        keys = {key_of(manifest): manifest["kind"] for manifest in manifests}
        runs, others = ([key for key, kind in keys.items() if (kind in WORKLOADS) is one] for one in (True, False))
        for key, manifest in zip(keys, manifests, strict=True):
            self._declare(key, manifest, others if manifest["kind"] in WORKLOADS else [])
            if manifest["kind"] == "CustomResourceDefinition":
                self._needs[manifest["spec"]["names"]["kind"]] = [key, *runs]

    def _declare(self, key: str, manifest: Mapping[str, Any], needs: Sequence[str]) -> None:
        space = f"Namespace/{manifest['metadata'].get('namespace', '')}"
        needed = [*needs, *self._needs.get(manifest["kind"], ()), *([space] if space in self.declared else ())]
        options = pulumi.ResourceOptions(
            parent=self, provider=self._cluster, depends_on=[self.declared[one] for one in dict.fromkeys(needed)]
        )
        if manifest["kind"] == "DaemonSet":
            manifest = in_time(manifest, self._nodes)
        self.declared[key] = declare(key, manifest, options)


ROLLOUT_S, NODE_S = 600, 1
"""For the roll-out of a DaemonSet: a minute for each tenth of its nodes, which start anew together, and a second for each node to
fetch its image from one registry. A choice of ours."""
REPLICAS = 2
"""Pods of Kueue and of JobSet on a site with several nodes: one may be lost. A choice of ours (decision 0454)."""
WORKLOADS = ("Deployment", "DaemonSet")
TYPES: dict[tuple[str, str], Any] = {
    ("v1", "ConfigMap"): k8s.core.v1.ConfigMap,
    ("v1", "Namespace"): k8s.core.v1.Namespace,
    ("v1", "Node"): k8s.core.v1.NodePatch,
    ("v1", "ResourceQuota"): k8s.core.v1.ResourceQuota,
    ("v1", "Secret"): k8s.core.v1.Secret,
    ("v1", "Service"): k8s.core.v1.Service,
    ("v1", "ServiceAccount"): k8s.core.v1.ServiceAccount,
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): (
        k8s.admissionregistration.v1.MutatingWebhookConfiguration
    ),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): (
        k8s.admissionregistration.v1.ValidatingWebhookConfiguration
    ),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): k8s.apiextensions.v1.CustomResourceDefinition,
    ("apps/v1", "DaemonSet"): k8s.apps.v1.DaemonSet,
    ("apps/v1", "Deployment"): k8s.apps.v1.Deployment,
    ("networking.k8s.io/v1", "NetworkPolicy"): k8s.networking.v1.NetworkPolicy,
    ("node.k8s.io/v1", "RuntimeClass"): k8s.node.v1.RuntimeClass,
    ("policy/v1", "PodDisruptionBudget"): k8s.policy.v1.PodDisruptionBudget,
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): k8s.rbac.v1.ClusterRole,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): k8s.rbac.v1.ClusterRoleBinding,
    ("rbac.authorization.k8s.io/v1", "Role"): k8s.rbac.v1.Role,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): k8s.rbac.v1.RoleBinding,
    ("scheduling.k8s.io/v1", "PriorityClass"): k8s.scheduling.v1.PriorityClass,
}


def declare(key: str, manifest: Mapping[str, Any], options: pulumi.ResourceOptions) -> pulumi.Resource:
    """The resource of one object, under its key."""
    metadata, (version, kind) = owned(manifest), (manifest["apiVersion"], manifest["kind"])
    body = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "metadata")}
    declared_as = TYPES.get((version, kind))
    if declared_as is None:
        return k8s.apiextensions.CustomResource(
            key, api_version=version, kind=kind, metadata=metadata, opts=options, **body
        )
    return declared_as(key, metadata=metadata, opts=options, **{snake(name): value for name, value in body.items()})


def in_time(manifest: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """A DaemonSet with as much time for its roll-out as that many nodes need (annotation of Pulumi's plugin, and of ours)."""
    metadata = manifest["metadata"]
    budget = {"pulumi.com/timeoutSeconds": str(ROLLOUT_S + NODE_S * nodes)}
    return {**manifest, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **budget}}}


def key_of(manifest: Mapping[str, Any]) -> str:
    """The name of an object among all, as PlatformObject.key: `Deployment/kueue-system/kueue-controller-manager`."""
    metadata = manifest["metadata"]
    return "/".join(part for part in (manifest["kind"], metadata.get("namespace"), metadata["name"]) if part)


def owned(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata with the mark of this layer; a node is the cluster's own."""
    metadata = manifest["metadata"]
    mark = {} if manifest["kind"] == "Node" else {MANAGED_BY: OWNER}
    labels = {**metadata.get("labels", {}), **mark}
    return {**metadata, "labels": labels, "annotations": {**metadata.get("annotations", {}), **FORCE}}


def snake(key: str) -> str:
    """`preemptionPolicy` as Python's `preemption_policy`."""
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", key)
