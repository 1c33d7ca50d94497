"""compare(): recorded facts in, findings out, and properties that hold for any cable plan."""

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.findings import Finding
from network import compare
from network.discover import Port
from network.drivers.errors import IdentityMismatch
from network.drivers.pdu import Outlet
from tests.findings import names

CASES = Path(__file__).parent / "data" / "compare"


def cables(pairs):
    """A cables frame of the in-band fabric from [['leaf01:swp1', 'spine01:swp1'], ...]."""
    rows = [(*a.rsplit(":", 1), *b.rsplit(":", 1), "inband", stage(a, b)) for a, b in pairs]
    return pd.DataFrame(rows, columns=["a_device", "a_port", "b_device", "b_port", "fabric", "stage"])


def stage(a, b):
    """The stage of a cable by the names of its ends."""
    return "leaf-spine" if {a[:4], b[:4]} == {"leaf", "spin"} else "node-leaf"


def sightings(pairs, observers):
    """What the observers see over these cables, as network.discover.lldp returns it."""
    seen: dict[str, dict[str, Port]] = {device: {} for device in observers}
    for a, b in pairs:
        for near, far in ((a, b), (b, a)):
            device, port = near.rsplit(":", 1)
            if device in seen:
                other, other_port = far.rsplit(":", 1)
                seen[device][port] = Port(state="up", far=other, far_port=other_port, age_s=60, ttl_s=4)
    return seen


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_facts_give_exactly_these_findings(path):
    case = json.loads(path.read_text())
    answered = sightings(case["seen"], case["observers"])
    for end in case.get("down", []):
        device, port = end.rsplit(":", 1)
        answered[device][port] = Port(state="down", far="", far_port="", age_s=0, ttl_s=0)
    for end, far, age_s in case.get("also_seen", []):
        device, port = end.rsplit(":", 1)
        other, other_port = far.rsplit(":", 1)
        answered[device][port] = Port(state="up", far=other, far_port=other_port, age_s=age_s, ttl_s=4)
    found = compare.topology(
        cables(case["planned"]), answered, case.get("silent", []), dark=case.get("dark", []), max_age_s=30
    )
    assert [[f.id, f.subject, list(f.ports)] for f in found] == case["findings"]


def test_a_foreign_device_says_what_is_there_and_what_is_planned():
    planned = [["leaf1:swp1", "spine1:swp1"], ["host1:eth0", "leaf1:swp2"]]
    seen = [["leaf1:swp1", "spine1:swp1"], ["printer [3:4]:eth0", "leaf1:swp2"], ["laptop:usb0", "leaf1:swp9"]]
    found = compare.topology(cables(planned), sightings(seen, ["leaf1", "spine1"]))
    assert [(f.id, f.subject, f.ports) for f in found] == [
        ("TOPOLOGY-FOREIGN", "leaf1", ("leaf1:swp9",)),
        ("TOPOLOGY-FOREIGN", "leaf1", ("leaf1:swp2",)),
    ]
    assert names(found[0], "laptop", "usb0", "leaf1:swp9")
    assert names(found[1], "printer [3:4]", "eth0", "leaf1:swp2", "host1:eth0")


def test_two_parallel_links_exchanged_are_information():
    planned = [["leaf1:swp1", "spine1:swp1"], ["leaf1:swp2", "spine1:swp2"], ["leaf1:swp3", "spine2:swp1"]]
    seen = [["leaf1:swp1", "spine1:swp2"], ["leaf1:swp2", "spine1:swp1"], ["leaf1:swp3", "spine2:swp1"]]
    (found,) = compare.topology(cables(planned), sightings(seen, ["leaf1", "spine1", "spine2"]))
    assert (found.id, found.severity, found.subject) == ("TOPOLOGY-PARALLEL", "info", "leaf1")
    assert found.ports == ("leaf1:swp1", "leaf1:swp2", "spine1:swp1", "spine1:swp2")


def test_two_links_of_a_server_exchanged_are_an_error():
    planned = [["host1:eth1", "leaf1:swp1"], ["host1:eth2", "leaf1:swp2"]]
    seen = [["host1:eth1", "leaf1:swp2"], ["host1:eth2", "leaf1:swp1"]]
    (found,) = compare.topology(cables(planned), sightings(seen, ["leaf1"]))
    assert (found.id, found.severity) == ("TOPOLOGY-SWAPPED", "error")


PLANS = st.builds(
    lambda leaves, spines, hosts: (
        [[f"leaf{leaf}:swp{spine}", f"spine{spine}:swp{leaf}"] for leaf in range(leaves) for spine in range(spines)]
        + [
            [f"host{leaf}-{host}:eth0", f"leaf{leaf}:swp{spines + host}"]
            for leaf in range(leaves)
            for host in range(hosts)
        ]
    ),
    leaves=st.integers(2, 5),
    spines=st.integers(1, 4),
    hosts=st.integers(0, 3),
)


def switches(pairs):
    return {end.rsplit(":", 1)[0] for pair in pairs for end in pair if not end.startswith("host")}


@settings(deadline=None)
@given(PLANS)
def test_a_plan_compared_with_itself_has_no_finding(pairs):
    assert compare.topology(cables(pairs), sightings(pairs, switches(pairs)), max_age_s=30) == []


@settings(deadline=None)
@given(PLANS, st.data())
def test_any_swap_of_two_cables_is_one_finding_with_a_pair_of_plugs_that_mends_it(pairs, data):
    first, second = data.draw(st.lists(st.sampled_from(range(len(pairs))), min_size=2, max_size=2, unique=True))
    swapped = [list(pair) for pair in pairs]
    swapped[first][1], swapped[second][1] = swapped[second][1], swapped[first][1]
    found = compare.topology(cables(pairs), sightings(swapped, switches(pairs)))
    assert [f.id for f in found] == ["TOPOLOGY-SWAPPED"]
    assert set(found[0].ports) == {*pairs[first], *pairs[second]}
    one, two = found[0].ports[:2]
    exchange = {one: two, two: one}
    mended = [sorted(exchange.get(end, end) for end in pair) for pair in swapped]
    assert sorted(mended) == sorted(sorted(pair) for pair in pairs)


@settings(deadline=None)
@given(PLANS.filter(lambda pairs: "leaf0:swp1" in {pair[0] for pair in pairs}))
def test_two_leaves_in_each_others_place_are_one_finding_and_exchanged_back_none(pairs):
    def exchanged(cables_):
        other = {"leaf0": "leaf1", "leaf1": "leaf0"}
        ends = [[end.rsplit(":", 1) for end in pair] for pair in cables_]
        return [[f"{other.get(device, device)}:{port}" for device, port in pair] for pair in ends]

    (found,) = compare.topology(cables(pairs), sightings(exchanged(pairs), switches(pairs)))
    assert (found.id, found.subject) == ("TOPOLOGY-PLACES", "leaf0")
    assert compare.topology(cables(pairs), sightings(exchanged(exchanged(pairs)), switches(pairs))) == []


@settings(deadline=None)
@given(PLANS, st.data())
def test_a_silent_switch_is_one_finding_whatever_the_others_no_longer_see(pairs, data):
    dead = data.draw(st.sampled_from(sorted(switches(pairs))))
    alive = [pair for pair in pairs if not any(end.startswith(f"{dead}:") for end in pair)]
    found = compare.topology(cables(pairs), sightings(alive, switches(pairs) - {dead}), [dead])
    assert [(f.id, f.subject) for f in found] == [("DEVICE-SILENT", dead)]


def test_cables_of_another_fabric_are_neither_missing_nor_extra():
    frame = cables([["leaf1:swp1", "spine1:swp1"], ["leaf1:eth0", "oob01:swp9"]])
    frame.loc[1, "fabric"] = "oob"
    seen = sightings([["leaf1:swp1", "spine1:swp1"], ["leaf1:eth0", "elsewhere:swp1"]], ["leaf1"])
    assert compare.topology(frame, seen) == []


def test_a_neighbour_that_would_outlive_the_limit_is_stale():
    seen = sightings([["leaf1:swp1", "spine1:swp1"]], ["leaf1"])
    seen["leaf1"]["swp1"]["ttl_s"] = 120
    (found,) = compare.topology(cables([["leaf1:swp1", "spine1:swp1"]]), seen, max_age_s=30)
    assert (found.id, found.limit, found.ports) == ("TOPOLOGY-STALE", 30, ("leaf1:swp1",))


def test_outlets_that_are_off_or_do_not_exist_are_named():
    planned = pd.DataFrame(
        {"device": ["gpu001", "gpu002", "", "gpu003"], "psu": [1, 1, 0, 1]}, index=pd.Index([1, 2, 3, 9], name="outlet")
    )
    seen = [Outlet(number=n, name="", on=n == 1, amps=0.0, watts=0.0) for n in (1, 2, 3)]
    found = compare.outlets("pdu-r01-a", planned, seen)
    assert [(f.id, f.ports) for f in found] == [
        ("OUTLET-STATE", ("pdu-r01-a:2",)),
        ("OUTLET-STATE", ("pdu-r01-a:9",)),
    ]
    assert names(found[0], "gpu002", 1, "off")
    assert names(found[1], "gpu003", 1, "exist")


def test_a_config_difference_and_an_unsaved_config_are_drift():
    assert compare.config("leaf01", "", saved=True) == []
    (drift,) = compare.config("leaf01", "- interface swp1 / description x")
    assert (drift.id, drift.numbers["lines"]) == ("CONFIG-DRIFT", 1)
    assert [f.id for f in compare.config("leaf01", "", saved=False)] == ["CONFIG-DRIFT"]


def test_identity_ignores_case_and_separators_and_names_the_wrong_field():
    planned = {"mgmt_mac": "02:42:10:00:03:01", "serial": ""}
    assert compare.identity("leaf01", planned, {"mgmt_mac": "0242-1000-0301"}) == []
    (found,) = compare.identity("leaf01", planned, {"mgmt_mac": "02:42:10:00:03:02"})
    assert (found.id, found.subject) == ("IDENTITY-MISMATCH", "leaf01")
    assert names(found, "mgmt_mac", "02:42:10:00:03:01", "02:42:10:00:03:02")
    assert not names(found, "serial")


@pytest.mark.parametrize(
    ("channel", "kind", "expected"),
    [
        ("redfish", "DeviceTimeout", "BMC-TIMEOUT"),
        ("snmp", "DeviceTimeout", "DEVICE-SILENT"),
        ("ssh", "Unreachable", "DEVICE-SILENT"),
        ("ssh", "IdentityMismatch", "IDENTITY-MISMATCH"),
        *(("ssh", kind.__name__, "IDENTITY-MISMATCH") for kind in IdentityMismatch.__subclasses__()),
        ("redfish", "LoginRefused", "LOGIN-REFUSED"),
        ("redfish", "PasswordChangeRequired", "LOGIN-REFUSED"),
        ("redfish", "LoginNotGiven", "LOGIN-REFUSED"),
    ],
)
def test_a_device_that_cannot_be_read_gets_the_finding_of_its_fault(channel, kind, expected):
    found: Finding = compare.no_answer("x", channel, kind, "why")
    assert (found.id, found.subject) == (expected, "x")
    assert names(found, "why")


def test_a_switch_that_answers_and_sees_nothing_is_one_finding():
    planned = [(f"gpu{n:03}:eth0", f"leaf01:swp{n}") for n in range(1, 5)]
    planned += [("leaf01:swp9", "spine01:swp1"), ("leaf02:swp9", "spine01:swp2"), ("leaf02:swp10", "spine02:swp2")]
    planned += [("leaf01:swp10", "spine02:swp1")]
    seen = [pair for pair in planned if "leaf01" not in pair[0] + pair[1]]
    answered = sightings(seen, ["leaf01", "leaf02", "spine01", "spine02"])
    (found,) = compare.topology(cables(planned), answered)
    assert (found.id, found.subject, found.numbers["cables"]) == ("TOPOLOGY-CUT-OFF", "leaf01", 6)
    assert names(found, "answers and sees nothing", "gpu001:eth0 -- leaf01:swp1")


def test_a_cable_of_a_switch_that_sees_nothing_to_a_silent_one_is_not_judged():
    planned = [("gpu001:eth0", "leaf01:swp1"), ("gpu002:eth0", "leaf01:swp2"), ("leaf01:swp9", "spine01:swp1")]
    (silent, found) = compare.topology(cables(planned), {"leaf01": {}}, ["spine01"])
    assert (silent.id, found.id, found.numbers["cables"]) == ("DEVICE-SILENT", "TOPOLOGY-CUT-OFF", 2)
