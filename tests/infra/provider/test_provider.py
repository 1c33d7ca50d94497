"""Pulumi's verbs onto a resource type: what the engine sees."""

import asyncio

import pytest
from pulumi.provider.experimental import provider as sdk
from pulumi.runtime.rpc import UNKNOWN

from infra.provider.provider import Bringup
from infra.provider.resource import Applied, RefusedError
from infra.provider.server import PartialFailure
from infra.provider.values import plain_map, wrap_map
from network.drivers.errors import Unreachable

URN = "urn:pulumi:lab::bringup::bringup:layers:Power$test:index:Lamp::lamp"


class Lamp:
    """A resource type of one device; `answer` is what its verbs return or raise."""

    token = "test:index:Lamp"
    outputs = frozenset({"watts"})
    key = "name"
    answer = None

    def nothing_done(self, inputs):
        return {"watts": 0}

    def check(self, inputs):
        return [("on", "must be true or false")] if not isinstance(inputs["on"], bool) else []

    def preview(self, inputs, state):
        return [f"lamp ~ on: {json(state)} => {json(inputs)}"]

    def apply(self, inputs, state):
        return self._answered(inputs | {"watts": 7})

    def read(self, state):
        return self._answered(state)

    def delete(self, state):
        return [] if self.answer is None else self.answer

    def _answered(self, state):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or Applied(state, changed=["lamp + on"])


def json(data):
    return "" if data is None else str(data["on"])


class Log:
    def __init__(self):
        self.lines = []

    async def info(self, urn, text):
        self.lines.append((urn, text))


@pytest.fixture
def lamp():
    return Lamp()


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def provider(lamp, log):
    return Bringup(lambda: {lamp.token: lamp}, log, planned)


def planned(token, identifier):
    if (token, identifier) != (Lamp.token, "house/lamp"):
        raise RefusedError(f"no {identifier}")
    return ON


def run(verb, *arguments, **options):
    async def call():
        return await verb(*arguments, **options)

    return asyncio.run(call())


def create(provider, inputs, preview=False):
    return run(provider.create, sdk.CreateRequest(URN, wrap_map(inputs), 0, preview))


def diff(provider, state, inputs):
    return run(provider.diff, sdk.DiffRequest(URN, "lamp", wrap_map(state), wrap_map(inputs), []))


def read(provider, state, identifier="lamp"):
    return run(provider.read, sdk.ReadRequest(URN, identifier, wrap_map(state), {}))


ON, OFF = {"name": "lamp", "on": True}, {"name": "lamp", "on": False}


def test_create_keeps_inputs_and_outputs_under_the_key(provider, log):
    response = create(provider, ON)
    assert (response.resource_id, plain_map(response.properties)) == ("lamp", ON | {"watts": 7})
    assert log.lines == [(URN, "lamp + on")]


def test_preview_of_create_shows_the_device_and_leaves_outputs_unknown(provider, log):
    response = create(provider, ON, preview=True)
    assert (response.resource_id, plain_map(response.properties)) == (None, ON | {"watts": UNKNOWN})
    assert log.lines == [(URN, "lamp ~ on:  => True")]


def test_outputs_take_no_part_in_the_difference(provider):
    assert diff(provider, ON | {"watts": 7}, ON).changes is False


def test_a_difference_has_its_path_and_updates_in_place(provider):
    response = diff(provider, OFF | {"watts": 7}, ON)
    assert (response.changes, response.diffs, response.replaces) == (True, ["on"], [])
    assert response.detailed_diff["on"].kind is sdk.PropertyDiffKind.UPDATE


def test_another_key_replaces(provider):
    response = diff(provider, ON, ON | {"name": "other"})
    assert (response.replaces, response.delete_before_replace) == (["name"], True)


def test_a_device_error_is_shown_as_it_is(provider, lamp):
    lamp.answer = Unreachable("lamp", "connect", "an answer", "none", "check its cable")
    with pytest.raises(RefusedError, match="lamp: connect: expected an answer, saw none; check its cable"):
        create(provider, ON)


def test_a_partial_failure_keeps_the_state(provider, lamp):
    lamp.answer = Applied({"name": "lamp", "watts": 1}, ["lamp: half lit"])
    with pytest.raises(PartialFailure) as failure:
        create(provider, ON)
    assert (failure.value.resource_id, failure.value.state, failure.value.reasons) == (
        "lamp",
        {"name": "lamp", "watts": 1},
        ["lamp: half lit"],
    )


def test_update_in_preview_asks_the_device(provider, log):
    request = sdk.UpdateRequest(URN, "lamp", wrap_map(OFF), wrap_map(ON), 0, [], True)
    assert plain_map(run(provider.update, request).properties) == ON | {"watts": UNKNOWN}
    assert log.lines == [(URN, "lamp ~ on: False => True")]


def test_read_gives_observed_inputs_without_outputs(provider):
    response = read(provider, OFF | {"watts": 7})
    assert (plain_map(response.properties), plain_map(response.inputs)) == (OFF | {"watts": 7}, OFF)


def test_read_of_a_silent_device_keeps_the_state_and_warns(provider, lamp):
    lamp.answer = Applied(ON, ["lamp: silent"])
    with pytest.raises(PartialFailure, match="lamp: silent"):
        read(provider, ON)


def test_import_reads_the_device_as_it_is(provider, lamp):
    lamp.answer = Applied(OFF | {"watts": 3})
    response = read(provider, {}, "house/lamp")
    assert (response.resource_id, plain_map(response.inputs)) == ("lamp", OFF)
    assert plain_map(response.properties) == OFF | {"watts": 3}


def test_import_of_what_the_plan_does_not_have_is_refused(provider):
    with pytest.raises(RefusedError, match="no house/torch"):
        read(provider, {}, "house/torch")


def test_import_of_a_silent_device_is_refused_with_the_reason(provider, lamp):
    lamp.answer = Applied(ON, ["lamp: silent"])
    with pytest.raises(RefusedError, match="house/lamp cannot be imported: lamp: silent"):
        read(provider, {}, "house/lamp")


def test_delete_that_is_not_complete_is_an_error(provider, lamp):
    lamp.answer = ["lamp: still lit"]
    with pytest.raises(RefusedError, match="lamp: still lit"):
        run(provider.delete, sdk.DeleteRequest(URN, "lamp", wrap_map(ON), 0))


def test_check_names_the_property(provider):
    response = run(provider.check, sdk.CheckRequest(URN, {}, wrap_map({"name": "lamp", "on": "yes"}), b""))
    assert [(f.property, f.reason) for f in response.failures or []] == [("on", "must be true or false")]


def test_an_unknown_type_names_the_known_ones(provider):
    with pytest.raises(RefusedError, match="no resource type test:index:Fan; there are test:index:Lamp"):
        run(provider.check, sdk.CheckRequest(URN.replace("Lamp", "Fan"), {}, {}, b""))
