"""What the provider refuses before it asks a cluster anything."""

import asyncio
import ssl
from typing import Any, cast

import httpx
import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st
from pulumi.provider.experimental import provider as sdk
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime.proto import provider_pb2

from infra.kube.access import ClusterError, Connection
from infra.provider.kubernetes import api as provider_api
from infra.provider.kubernetes.api import Api
from infra.provider.kubernetes.provider import Kubernetes
from infra.provider.kubernetes.unchanged import UnchangedServicer
from infra.provider.server import EngineLog
from infra.provider.values import plain_map, plain_struct, wire_map, wrap_map

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
    state = wrap_map({**wanted, "__uid": "1"})
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


# ---- what did not change ---------------------------------------------------------------------------------------------
CONTENT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "x"}, "spec": {"n": 3}}
STATE = {**CONTENT, "__uid": "1"}


def servicer(monkeypatch: pytest.MonkeyPatch, live: dict[str, Any] | None) -> UnchangedServicer:
    """Of a cluster whose object is `live`; the SDK's own conversion raises."""

    async def read(self: Api, manifest: Any) -> Any:
        return live

    def converted(*_: Any) -> Any:
        raise AssertionError("a message was converted")

    monkeypatch.setattr(Api, "read", read)
    monkeypatch.setattr(Kubernetes, "_api", Api(Connection("https://127.0.0.1:9", ssl.create_default_context(), {})))
    monkeypatch.setattr(PropertyValue, "unmarshal_map", converted)
    return UnchangedServicer([], "1", Kubernetes(), engine_address="")


def asked(verb: Any, request: Any) -> Any:
    return asyncio.run(verb(request, None))


def on_the_wire(data: dict[str, Any]) -> Any:
    return struct_pb2.Struct(fields=wire_map(data).fields)


def test_an_object_that_did_not_change_is_passed_back_unconverted(monkeypatch: pytest.MonkeyPatch) -> None:
    live = {**CONTENT, "metadata": {"name": "a", "uid": "1", "resourceVersion": "7"}, "status": {"seen": True}}
    one, state, inputs = servicer(monkeypatch, live), on_the_wire(STATE), on_the_wire(CONTENT)
    urn = URN.format(kind="ConfigMap")
    read = asked(one.Read, provider_pb2.ReadRequest(id="a", urn=urn, properties=state, inputs=inputs))
    assert (read.id, read.properties, read.inputs) == ("a", state, inputs)
    check = asked(one.Check, provider_pb2.CheckRequest(urn=urn, olds=inputs, news=inputs))
    assert (check.inputs, list(check.failures)) == (inputs, [])
    diff = asked(one.Diff, provider_pb2.DiffRequest(id="a", urn=urn, olds=state, news=inputs))
    assert diff.changes == provider_pb2.DiffResponse.DIFF_NONE


@pytest.mark.parametrize(
    ("state", "live"),
    [
        (STATE, {**CONTENT, "metadata": {"name": "a", "uid": "1"}, "data": {"key": "y"}}),
        (STATE, {**CONTENT, "metadata": {"name": "a", "uid": "2"}}),
        (STATE, None),
        ({**STATE, "__inputs": {**CONTENT, "data": {"key": "y"}}}, {**CONTENT, "metadata": {"name": "a", "uid": "1"}}),
        ({**STATE, "data": {"key": "y"}}, {**CONTENT, "metadata": {"name": "a", "uid": "1"}}),
    ],
    ids=["another value", "another object", "gone", "wanted is another", "inputs are others"],
)
def test_an_object_that_changed_is_converted(
    state: dict[str, Any], live: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, urn = servicer(monkeypatch, live), URN.format(kind="ConfigMap")
    request = provider_pb2.ReadRequest(id="a", urn=urn, properties=on_the_wire(state), inputs=on_the_wire(CONTENT))
    with pytest.raises(AssertionError, match="was converted"):
        asked(one.Read, request)


def test_another_wish_is_converted_to_say_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    one, urn = servicer(monkeypatch, None), URN.format(kind="ConfigMap")
    news = on_the_wire({**CONTENT, "data": {"key": "y"}})
    with pytest.raises(AssertionError, match="was converted"):
        asked(one.Diff, provider_pb2.DiffRequest(id="a", urn=urn, olds=on_the_wire(STATE), news=news))


def test_inputs_are_checked_without_being_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = on_the_wire({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"key": "eA=="}})
    urn = URN.format(kind="Secret")
    check = asked(servicer(monkeypatch, None).Check, provider_pb2.CheckRequest(urn=urn, news=secret))
    assert [one.property for one in check.failures] == ["data"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_the_fast_way_to_plain_data_gives_what_the_slow_one_does(data: Any) -> None:
    wire = wire_map({"a": data})
    assert plain_struct(wire) == plain_map(PropertyValue.unmarshal_map(wire))


def test_nodes_that_a_daemon_set_which_has_rolled_out_leaves_out_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = {"name": "plugin", "namespace": "a"}
    wanted = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata}
    update = {"rollingUpdate": {"maxUnavailable": "10%"}}
    status = {"desiredNumberScheduled": 10, "updatedNumberScheduled": 9, "numberAvailable": 10}
    annotations = {"deprecated.daemonset.template.generation": "2"}
    live = {
        **wanted,
        "metadata": {**metadata, "uid": "1", "annotations": annotations},
        "spec": {"updateStrategy": update},
        "status": status,
    }
    pods = [
        {
            "metadata": {"name": f"p{number}", "labels": {"pod-template-generation": "2" if number else "1"}},
            "spec": {"nodeName": f"n{number}"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        for number in range(10)
    ]

    async def answer(self: Api, *_: Any, **__: Any) -> Any:
        return live

    async def listed(self: Api, namespace: str, labels: Any) -> Any:
        return pods

    class Log:
        def __init__(self) -> None:
            self.said: list[tuple[str, str]] = []

        async def info(self, urn: str, text: str) -> None:
            self.said.append((urn, text))

    for name, function in (("apply", answer), ("read", answer), ("pods", listed)):
        monkeypatch.setattr(Api, name, function)
    monkeypatch.setattr(Kubernetes, "_api", Api(Connection("https://127.0.0.1:9", ssl.create_default_context(), {})))
    log, urn = Log(), URN.format(kind="DaemonSet")
    request = sdk.UpdateRequest(urn, "a/plugin", wrap_map(wanted), wrap_map(wanted), 600, [], False)
    asyncio.run(Kubernetes(cast(EngineLog, log)).update(request))
    message = "DaemonSet a/plugin has rolled out, but 1 of its nodes have no ready pod of this revision: n0 (old)"
    assert log.said == [(urn, message)]
