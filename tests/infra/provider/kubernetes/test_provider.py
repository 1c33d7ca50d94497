"""What the provider refuses before it asks a cluster anything."""

import asyncio

import pytest
from pulumi.provider.experimental import provider as sdk

from infra.provider.kubernetes.provider import Kubernetes
from infra.provider.values import wrap_map

URN = "urn:pulumi:s::p::kubernetes:core/v1:{kind}::name"


@pytest.mark.parametrize(
    ("kind", "metadata", "wrong"),
    [
        ("Secret", {"name": "a"}, ["kind: this provider keeps no Secrets: they would be in Pulumi's state"]),
        ("ConfigMap", {}, ["metadata.name: is missing: this provider makes up no names"]),
        ("ConfigMap", {"name": "a"}, []),
    ],
)
def test_objects_that_it_does_not_keep_are_named(kind: str, metadata: dict[str, str], wrong: list[str]) -> None:
    inputs = wrap_map({"apiVersion": "v1", "kind": kind, "metadata": metadata})
    request = sdk.CheckRequest(URN.format(kind=kind), {}, inputs, b"")
    found = asyncio.run(Kubernetes().check(request))
    assert [f"{one.property}: {one.reason}" for one in found.failures or ()] == wrong
