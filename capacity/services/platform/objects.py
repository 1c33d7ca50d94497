"""One object of the Kubernetes API as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MANAGED_BY, OWNER = "app.kubernetes.io/managed-by", "bringup"
"""Label of what is ours, and its value (https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/)."""


@dataclass(frozen=True)
class PlatformObject:
    """`body` is the object without apiVersion, kind and metadata. `partial`: the cluster makes it, we add labels to it."""

    api_version: str
    kind: str
    name: str
    body: Mapping[str, Any]
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    partial: bool = False

    @property
    def key(self) -> str:
        """Its name among all objects: `LocalQueue/vision/default`."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)

    @property
    def manifest(self) -> dict[str, Any]:
        """The object as kubectl would take it."""
        owned = {} if self.partial else {MANAGED_BY: OWNER}
        metadata: dict[str, Any] = {"name": self.name, "labels": owned | dict(self.labels)}
        if self.namespace:
            metadata["namespace"] = self.namespace
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **self.body}
