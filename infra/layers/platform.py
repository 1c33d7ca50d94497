"""Platform layer: what a Kubernetes cluster is to know of the plan, declared with the types of `pulumi_kubernetes`.

Each object once. Objects of a namespace depend on it, custom resources on their definition. The objects themselves are computed in
capacity/services/platform; here they only get a type, a provider and an order.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import yaml

from capacity.model import Plan
from capacity.services.platform import PlatformObject, design

DEFINITIONS = Path(__file__).parents[2] / "third_party" / "kueue"
SHA256 = {
    "clusterqueues": "7e6d060f748b3c669929091a1ead115452f1c848d0753c092aca011d7c3f126d",
    "cohorts": "646290350f33efccbc9a16e486583814554f64c1d080eaae7b5ba27b324b5ea5",
    "localqueues": "4024fcc64ca42f46167c0fb1d44e9fa82da431c95f240125ef87bd4419468667",
    "resourceflavors": "8566ccd95ad63a4de59192bf0ca9afe753e939a4b401deef7d087ed7871a876c",
    "topologies": "967d6e643c40c9bb7351dde43e81dfe9223d3ef4de99f06123ed735fc6582c5e",
}
"""By custom resource of Kueue 0.15.0 (third_party/kueue/README.md)."""
FORCE = {"pulumi.com/patchForce": "true"}
"""What somebody changed by hand is changed back, as docs/kubernetes.md says; without it the API server reports a conflict."""


class DefinitionError(Exception):
    """A definition of a custom resource is missing or altered."""


class Platform(pulumi.ComponentResource):
    """The platform layer of one cluster; `declared` maps an object's key to its resource."""

    def __init__(self, plan: Plan, kubeconfig: str) -> None:
        super().__init__("bringup:layers:Platform", "platform")
        cluster = k8s.Provider("cluster", kubeconfig=kubeconfig, opts=pulumi.ResourceOptions(parent=self))
        self.declared: dict[str, pulumi.Resource] = {}
        for kind, definition in definitions().items():
            metadata = {"name": definition["metadata"]["name"], "annotations": definition["metadata"]["annotations"]}
            self.declared[kind] = k8s.apiextensions.v1.CustomResourceDefinition(
                f"CustomResourceDefinition/{definition['metadata']['name']}",
                metadata=owned(metadata),
                spec=definition["spec"],
                opts=pulumi.ResourceOptions(parent=self, provider=cluster),
            )
        for one in design(plan).objects:
            needs = [key for key in (one.kind, f"Namespace/{one.namespace}") if key in self.declared]
            options = pulumi.ResourceOptions(
                parent=self, provider=cluster, depends_on=[self.declared[key] for key in needs]
            )
            self.declared[one.key] = declare(one, options)
        self.register_outputs({})


TYPES: dict[tuple[str, str], Any] = {
    ("v1", "Namespace"): k8s.core.v1.Namespace,
    ("v1", "Node"): k8s.core.v1.NodePatch,
    ("v1", "ResourceQuota"): k8s.core.v1.ResourceQuota,
    ("networking.k8s.io/v1", "NetworkPolicy"): k8s.networking.v1.NetworkPolicy,
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): k8s.rbac.v1.ClusterRole,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): k8s.rbac.v1.RoleBinding,
    ("scheduling.k8s.io/v1", "PriorityClass"): k8s.scheduling.v1.PriorityClass,
}


def declare(one: PlatformObject, options: pulumi.ResourceOptions) -> pulumi.Resource:
    """The resource of one object, under its key."""
    metadata = owned(one.manifest["metadata"])
    kind = TYPES.get((one.api_version, one.kind))
    if kind is None:
        return k8s.apiextensions.CustomResource(
            one.key, api_version=one.api_version, kind=one.kind, metadata=metadata, opts=options, **one.body
        )
    return kind(one.key, metadata=metadata, opts=options, **{snake(key): value for key, value in one.body.items()})


def owned(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata with the mark of this layer."""
    labels = metadata.get("labels") or {"app.kubernetes.io/managed-by": "bringup"}
    return {**metadata, "labels": labels, "annotations": {**metadata.get("annotations", {}), **FORCE}}


def snake(key: str) -> str:
    """`preemptionPolicy` as Python's `preemption_policy`."""
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", key)


def definitions(folder: Path = DEFINITIONS) -> dict[str, dict[str, Any]]:
    """{kind: definition} of Kueue's objects; DefinitionError for a file that is not the pinned one."""
    found = {}
    for plural, pinned in SHA256.items():
        path = folder / f"kueue.x-k8s.io_{plural}.yaml"
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DefinitionError(f"{path}: {error.strerror}. Restore it: git checkout {path.parent}") from None
        if (seen := hashlib.sha256(content).hexdigest()) != pinned:
            raise DefinitionError(
                f"{path}: SHA-256 {seen}, expected {pinned} (Kueue 0.15.0). Restore it: git checkout {path.parent}"
            )
        definition = yaml.load(content, yaml.CSafeLoader)
        found[str(definition["spec"]["names"]["kind"])] = definition
    return found
