"""What the provider refuses before it asks a cluster anything."""

import asyncio
import ssl
from typing import Any

import httpx
import pytest
from pulumi.provider.experimental import provider as sdk

from infra.kube.access import ClusterError, Connection
from infra.provider.kubernetes import api as provider_api
from infra.provider.kubernetes.api import Api
from infra.provider.kubernetes.provider import Kubernetes
from infra.provider.values import wrap_map

URN = "urn:pulumi:s::p::kubernetes:core/v1:{kind}::name"


@pytest.mark.parametrize(
    ("kind", "metadata", "body", "wrong"),
    [
        (
            "Secret",
            {"name": "a"},
            {"data": {"key": "eA=="}, "stringData": {"key": "x"}},
            [
                f"{key}: this provider keeps no content of Secrets: it would be in Pulumi's state"
                for key in ("data", "stringData")
            ],
        ),
        ("Secret", {"name": "a"}, {}, []),
        ("ConfigMap", {}, {}, ["metadata.name: is missing: this provider makes up no names"]),
        ("ConfigMap", {"name": "a"}, {"data": {"key": "x"}}, []),
    ],
    ids=["secret", "secret without content", "no name", "map"],
)
def test_objects_that_it_does_not_keep_are_named(
    kind: str, metadata: dict[str, str], body: dict[str, Any], wrong: list[str]
) -> None:
    inputs = wrap_map({"apiVersion": "v1", "kind": kind, "metadata": metadata, **body})
    request = sdk.CheckRequest(URN.format(kind=kind), {}, inputs, b"")
    found = asyncio.run(Kubernetes().check(request))
    assert [f"{one.property}: {one.reason}" for one in found.failures or ()] == wrong


def test_what_a_controller_writes_into_a_secret_is_not_in_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}

    async def read(self: Api, manifest: Any) -> Any:
        return {**wanted, "metadata": {"name": "a", "uid": "1"}, "data": {"tls.key": "c2VjcmV0"}, "type": "Opaque"}

    monkeypatch.setattr(Api, "read", read)
    monkeypatch.setattr(Kubernetes, "_api", Api(Connection("https://127.0.0.1:9", ssl.create_default_context(), {})))
    state = wrap_map({**wanted, "__inputs": wanted, "__uid": "1"})
    urn = URN.format(kind="Secret")
    found = asyncio.run(Kubernetes().read(sdk.ReadRequest(urn, "a", state, wrap_map(wanted))))
    assert "c2VjcmV0" not in repr((found.properties, found.inputs))


@pytest.mark.parametrize(
    "said",
    [
        'Internal error occurred: failed calling webhook "vclusterqueue.kb.io": no endpoints available',
        "conversion webhook for kueue.x-k8s.io/v1beta2, Kind=ClusterQueue failed: connection refused",
    ],
)
def test_a_webhook_that_does_not_answer_is_asked_again_and_then_named(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [500, 500, 200]
    monkeypatch.setattr(asyncio, "sleep", lambda seconds, sleep=asyncio.sleep: sleep(0))
    api = Api(Connection("https://127.0.0.1:9", ssl.create_default_context(), {}))

    async def request(verb: str, url: str, **more: Any) -> httpx.Response:
        status = answers.pop(0) if answers else 500
        return httpx.Response(status, json={"message": said} if status == 500 else {"kind": "ClusterQueue"})

    monkeypatch.setattr(api._http, "request", request)
    assert asyncio.run(api._call("PATCH", "/x")) == {"kind": "ClusterQueue"}
    monkeypatch.setattr(provider_api, "CALL_S", 0.0)
    with pytest.raises(ClusterError, match=r"The controller behind it does not answer: see why its pods are not ready"):
        asyncio.run(api._call("PATCH", "/x"))


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


def test_a_definition_that_is_slow_is_not_said_to_have_names_in_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a busy API server answered for longer than it was given: its names are accepted, and no more is said."""
    accepted = {"type": "NamesAccepted", "status": "True", "message": "no conflicts found"}

    async def read(self: Api, manifest: Any) -> Any:
        return {"status": {"conditions": [accepted]}}

    monkeypatch.setattr(Api, "read", read)
    monkeypatch.setattr(provider_api, "ESTABLISHED_S", 0.0)
    manifest = {"kind": "CustomResourceDefinition", "metadata": {"name": "workloads.kueue.x-k8s.io"}}
    api = Api(Connection("https://127.0.0.1:9", ssl.create_default_context(), {}))
    with pytest.raises(ClusterError, match="the cluster does not serve it: not established within 0 s"):
        asyncio.run(api.established(manifest))
