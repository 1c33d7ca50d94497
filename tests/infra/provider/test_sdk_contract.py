"""What we rely on in Pulumi's experimental provider SDK, which may change between releases: it is pinned exactly."""

import asyncio
import tomllib
from importlib.metadata import version

import grpc
import pytest
from pulumi.provider.experimental import provider as sdk
from pulumi.provider.experimental.property_value import Computed, PropertyValue
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime.proto import provider_pb2, status_pb2
from pulumi.runtime.rpc import UNKNOWN

from infra.provider.server import PartialFailure, Servicer, partial_failure_status
from infra.provider.values import plain, plain_map, wrap, wrap_map
from inventory.paths import repo_root


def test_sdk_is_pinned_to_the_installed_version():
    project = tomllib.loads((repo_root() / "pyproject.toml").read_text())["project"]
    assert f"pulumi=={version('pulumi')}" in project["dependencies"]


def test_the_sdk_cannot_marshal_an_unknown():
    with pytest.raises(ValueError, match="Unsupported value type"):
        PropertyValue(Computed()).marshal()


def test_the_engine_reads_our_unknown_as_unknown():
    assert wrap(UNKNOWN).marshal().string_value == UNKNOWN
    assert plain(PropertyValue(Computed())) == UNKNOWN


def test_the_sdk_takes_no_int():
    with pytest.raises(TypeError):
        PropertyValue(1)


def test_data_survives_the_wire():
    data: dict[str, object] = {
        "n": 48,
        "x": 1.5,
        "on": True,
        "off": False,
        "none": None,
        "text": "é",
        "list": ["a", {"b": 1}],
        "map": {},
    }
    assert plain_map(PropertyValue.unmarshal_map(PropertyValue.marshal_map(wrap_map(data)))) == data


def test_a_secret_stays_data_for_the_provider():
    assert plain(PropertyValue("x", is_secret=True)) == "x"


def test_what_is_not_data_is_refused():
    with pytest.raises(TypeError, match="set"):
        wrap({1, 2})


def test_the_request_type_carries_the_parents():
    urn = "urn:pulumi:lab::bringup::bringup:layers:Power$bringup:power:RackOutlets::r01"
    assert sdk.CheckRequest(urn, {}, {}, b"").type == "bringup:layers:Power$bringup:power:RackOutlets"


def test_partial_failure_reaches_the_engine_with_state_and_reasons():
    error = PartialFailure("r01", {"rack": "r01", "n": 1}, {"rack": "r01"}, ["pdu-r01-b: silent"])
    status = status_pb2.Status.FromString(partial_failure_status(error))
    detail = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(detail)
    assert (detail.id, list(detail.reasons)) == ("r01", ["pdu-r01-b: silent"])
    assert plain_map(PropertyValue.unmarshal_map(detail.properties)) == {"rack": "r01", "n": 1}


@pytest.mark.parametrize("verb", ["Create", "Update", "Read", "Delete"])
def test_the_servicer_still_has_the_verbs_that_ours_wraps(verb):
    assert verb in vars(ProviderServicer)
    assert verb in vars(Servicer)


class Context:
    """The part of a gRPC servicer context that a failing verb uses."""

    async def abort(self, code, details, trailing_metadata=()):
        raise grpc.aio.AbortError(code, details, trailing_metadata)


def test_a_partial_failure_aborts_the_call_with_the_details_trailer():
    class Failing(sdk.Provider):
        async def create(self, request):
            raise PartialFailure("r01", {}, {}, ["pdu-r01-b: silent"])

    async def call():
        servicer = Servicer([], "0.1.0", Failing(), "127.0.0.1:1")
        await servicer.Create(provider_pb2.CreateRequest(urn="urn:pulumi:a::b::c::d"), Context())

    with pytest.raises(grpc.aio.AbortError) as aborted:
        asyncio.run(call())
    code, details, trailer = aborted.value.args
    assert (code, details, trailer[0][0]) == (grpc.StatusCode.UNKNOWN, "pdu-r01-b: silent", "grpc-status-details-bin")
