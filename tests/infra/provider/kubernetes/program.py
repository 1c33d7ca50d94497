"""The program of the contract tests: declares what objects.json holds, with the types of `pulumi_kubernetes`."""

import json
import os
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.layers.platform import snake

CLASSES: dict[str, Any] = {
    "ConfigMap": k8s.core.v1.ConfigMap,
    "CustomResourceDefinition": k8s.apiextensions.v1.CustomResourceDefinition,
    "DaemonSet": k8s.apps.v1.DaemonSet,
    "Deployment": k8s.apps.v1.Deployment,
    "Namespace": k8s.core.v1.Namespace,
    "Node": k8s.core.v1.NodePatch,
    "PriorityClass": k8s.scheduling.v1.PriorityClass,
    "Secret": k8s.core.v1.Secret,
}

cluster = k8s.Provider("cluster", kubeconfig=os.environ["KUBECONFIG_OF_TEST"])
made: dict[str, pulumi.Resource] = {}
"""Namespaces by name, definitions by their kind: what others wait for."""
for one in json.loads((Path(__file__).parent / "objects.json").read_text()):
    metadata = one["metadata"]
    body = {key: value for key, value in one.items() if key not in ("apiVersion", "kind", "metadata")}
    name = "/".join([one["kind"], *([metadata["namespace"]] if "namespace" in metadata else []), metadata["name"]])
    needs = [of for key, of in made.items() if key in (metadata.get("namespace"), one["kind"])]
    options = pulumi.ResourceOptions(provider=cluster, depends_on=needs)
    if one["kind"] in CLASSES:
        given = {snake(key): value for key, value in body.items()}
        declared = CLASSES[one["kind"]](name, metadata=metadata, opts=options, **given)
        if one["kind"] == "Namespace":
            made[metadata["name"]] = declared
        elif one["kind"] == "CustomResourceDefinition":
            made[one["spec"]["names"]["kind"]] = declared
    else:
        k8s.apiextensions.CustomResource(
            name, api_version=one["apiVersion"], kind=one["kind"], metadata=metadata, opts=options, **body
        )
