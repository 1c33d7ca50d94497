"""What the provider refuses before it asks a cluster anything."""

import asyncio
import ssl
from typing import Any

import pytest
from pulumi.provider.experimental import provider as sdk

from infra.kube.access import Connection
from infra.provider.kubernetes.api import Api
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


def test_a_new_definition_that_has_no_conditions_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a real API server answered: `conditions: null`."""
    established = {"type": "Established", "status": "True"}
    answers: list[dict[str, Any]] = [{"status": {"conditions": None}}, {"status": {"conditions": [established]}}]

    async def read(self: Api, manifest: Any) -> Any:
        return answers.pop(0)

    monkeypatch.setattr(Api, "read", read)
    manifest = {"kind": "CustomResourceDefinition", "metadata": {"name": "gangs.contract.example"}}
    asyncio.run(Api(Connection("https://127.0.0.1:9", ssl.create_default_context(), {})).established(manifest))
    assert answers == []
