import copy

import pytest

from infra.provider.fleet import Reach
from infra.provider.outlets import RackOutlets
from infra.provider.resource import RefusedError
from tests.infra.provider.fakes import FakePdu


class Room:
    """Two PDUs of rack r01, the resource type on top of them, and its inputs."""

    def __init__(self, sites, site_file):
        self.pdus = {name: FakePdu(name) for name in ("pdu-r01-a", "pdu-r01-b")}
        self.kind = RackOutlets(sites, Reach(probes=8), lambda credentials, name, pdu, budget_s: self.pdus[name])
        self.inputs = {
            "site": str(site_file),
            "rack": "r01",
            "pdus": {
                name: {
                    "address": "192.0.2.1",
                    "serial": "S1",
                    "near_overload_a": 48,
                    "overload_a": 60,
                    "outlets": {"1": {"name": "gpu001 psu1", "on": True}, "2": {"name": "gpu002 psu1", "on": True}},
                }
                for name in self.pdus
            },
        }


@pytest.fixture
def room(sites, site_file):
    return Room(sites, site_file)


def test_create_labels_sets_alarms_and_says_what_it_changed(room):
    applied = room.kind.apply(room.inputs, None)
    assert applied.failures == []
    assert room.pdus["pdu-r01-a"].names == {1: "gpu001 psu1", 2: "gpu002 psu1", 3: "", 4: ""}
    assert set(room.pdus["pdu-r01-b"].alarms.values()) == {(48, 60)}
    assert applied.state["results"] == {"pdu-r01-a": "done", "pdu-r01-b": "done"}
    assert 'pdu-r01-a ~ outlets["1"].name: "" => "gpu001 psu1"' in applied.changed


def test_second_apply_writes_nothing(room):
    room.kind.apply(room.inputs, None)
    room.pdus["pdu-r01-a"].writes.clear()
    assert room.kind.apply(room.inputs, None).changed == []
    assert room.pdus["pdu-r01-a"].writes == []


def test_outlets_that_are_not_named_stay_as_they_are(room):
    room.pdus["pdu-r01-a"].on[3] = False
    room.kind.apply(room.inputs, None)
    assert room.pdus["pdu-r01-a"].on[3] is False


def test_read_finds_exactly_the_outlet_that_is_off(room):
    state = room.kind.apply(room.inputs, None).state
    room.pdus["pdu-r01-b"].on[2] = False
    expected = copy.deepcopy(state)
    expected["pdus"]["pdu-r01-b"]["outlets"]["2"]["on"] = False
    assert room.kind.read(state).state == expected


def test_read_finds_one_phase_with_other_alarms(room):
    state = room.kind.apply(room.inputs, None).state
    room.pdus["pdu-r01-b"].alarms[3] = (10, 20)
    seen = room.kind.read(state).state["pdus"]["pdu-r01-b"]
    assert (seen["near_overload_a"], seen["overload_a"]) == (10, 20)


def test_one_silent_pdu_leaves_the_other_finished_and_is_named(room):
    room.pdus["pdu-r01-b"].silent = True
    applied = room.kind.apply(room.inputs, None)
    assert list(applied.state["pdus"]) == ["pdu-r01-a"]
    assert [reason.split(":")[0] for reason in applied.failures] == ["pdu-r01-b"]
    room.pdus["pdu-r01-b"].silent = False
    again = room.kind.apply(room.inputs, applied.state)
    assert again.failures == []
    assert again.state["pdus"] == room.inputs["pdus"]


def test_no_pdu_reached_on_create_keeps_nothing(room):
    for pdu in room.pdus.values():
        pdu.silent = True
    with pytest.raises(RefusedError, match=r"pdu-r01-a: .*; pdu-r01-b: "):
        room.kind.apply(room.inputs, None)


def test_a_pdu_with_another_identity_is_not_written(room):
    room.pdus["pdu-r01-a"].stranger = True
    applied = room.kind.apply(room.inputs, None)
    assert room.pdus["pdu-r01-a"].writes == []
    assert "find the device" in applied.failures[0]


def test_read_of_a_silent_pdu_keeps_what_was_known_and_names_it(room):
    state = room.kind.apply(room.inputs, None).state
    room.pdus["pdu-r01-a"].silent = True
    observed = room.kind.read(state)
    assert observed.state["pdus"] == state["pdus"]
    assert observed.failures[0].startswith("pdu-r01-a: ")


def test_preview_shows_the_devices_own_differences_and_writes_nothing(room):
    room.kind.apply(room.inputs, None)
    room.pdus["pdu-r01-a"].on[1] = False
    room.pdus["pdu-r01-a"].writes.clear()
    assert room.kind.preview(room.inputs, None) == ['pdu-r01-a ~ outlets["1"].on: false => true']
    assert room.pdus["pdu-r01-a"].writes == []


def test_preview_stops_asking_a_site_that_does_not_answer(room):
    for pdu in room.pdus.values():
        pdu.silent = True
    for _ in range(4):
        assert room.kind.preview(room.inputs, None)[0].startswith("not reachable, all its outlets will be set: ")
    assert room.kind.preview(room.inputs, None) == [
        "r01: devices of this site do not answer; not asked: all outlets will be set"
    ]


def test_delete_switches_nothing(room):
    state = room.kind.apply(room.inputs, None).state
    room.pdus["pdu-r01-a"].writes.clear()
    assert room.kind.delete(state) == []
    assert room.pdus["pdu-r01-a"].writes == []


@pytest.mark.parametrize(
    ("change", "prop"),
    [
        ({"outlets": {"0": {"name": "x", "on": True}}}, 'pdus["pdu-r01-a"].outlets'),
        ({"near_overload_a": 61}, 'pdus["pdu-r01-a"].near_overload_a'),
        ({"dialect": "eaton"}, 'pdus["pdu-r01-a"].dialect'),
    ],
)
def test_check_names_the_property_that_cannot_be(room, change, prop):
    room.inputs["pdus"]["pdu-r01-a"] |= change
    assert [name for name, _ in room.kind.check(room.inputs)] == [prop]
