"""Adaptive routing under a permutation: on counters that are made for a plan, with one thing changed; and the act itself against
servers and a fabric in memory. Nothing here was read from a device.
"""

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from capacity.model import Plan
from network.drivers.errors import Unreachable
from tests.plans import plan_of
from tests.validation.bench import WRITTEN_BW, permuted
from tests.validation.test_adaptive_routing import GUIDS, LAB, WELL, changed
from validation import permutation as judging
from validation.checks import conftest
from validation.facts import Answer, Facts, permutation
from validation.from_raw import FROM_RAW

found = permutation.planned(LAB)
assert found is not None
WANTED = found
LEVELS = {"adaptive": 0, "static": 15}


def test_every_adapter_of_two_leaves_writes_to_the_other_leaf_once() -> None:
    leaf_of = {
        f"{a}:{port}": leaf for a, port, leaf in LAB.cables[["a_device", "a_port", "b_device"]].itertuples(index=False)
    }
    assert list(WANTED.uplinks) == ["ibl001", "ibl002"]
    senders, receivers = zip(*WANTED.flows, strict=True)
    assert sorted(senders) == sorted(receivers) == sorted(WANTED.ends)
    assert len(set(senders)) == len(WANTED.flows) == 2 * 4
    for sender, receiver in WANTED.flows:
        assert {leaf_of[sender], leaf_of[receiver]} == {"ibl001", "ibl002"}
        assert sender.partition(":")[0] != receiver.partition(":")[0]
    large = permutation.planned(plan_of("h100-1000-ib"))
    assert large is not None
    assert (len(large.flows), {len(ends) for ends in large.uplinks.values()}) == (64, {32})


def healthy() -> dict[str, Any]:
    return copy.deepcopy(permuted(LAB))


def test_a_run_that_is_even_and_not_slower_passes() -> None:
    made = judging.judge(LAB, healthy())
    assert made.problems == []
    assert made.value["adaptive"] == {"gb_s": 8 * 50 / 8, "spread": 0.0, "resent": 0}
    # one uplink of a leaf sends 1.9, the others 1.0: 0.9 over their mean
    uplinks = len(WANTED.uplinks["ibl001"])
    assert made.value["static"]["spread"] == pytest.approx(0.9 * uplinks / (uplinks + 0.9), abs=1e-4)
    again = FROM_RAW["S057.measured"](json.dumps(healthy()).encode(), "lab", LAB)
    assert (again.value, again.problems) == (made.value, [])


def slow(said: dict[str, Any]) -> None:
    said["runs"]["adaptive"]["flows"] = dict.fromkeys(WANTED.ends, WRITTEN_BW.replace("50.00", "20.00"))


def uneven(said: dict[str, Any]) -> None:
    said["runs"]["adaptive"]["sent"][WANTED.uplinks["ibl002"][0]] = 9_000_000


def resent(said: dict[str, Any]) -> None:
    said["runs"]["adaptive"]["resent"][WANTED.ends[2]] = 3


def silent(said: dict[str, Any]) -> None:
    said["runs"]["static"]["flows"][WANTED.ends[0]] = "exit status 1: Couldn't connect"


def unread(said: dict[str, Any]) -> None:
    del said["runs"]["adaptive"]["sent"][WANTED.uplinks["ibl001"][0]]


def cleared(said: dict[str, Any]) -> None:
    said["runs"]["static"]["sent"][WANTED.uplinks["ibl001"][0]] = -4


def idle(said: dict[str, Any]) -> None:
    said["runs"]["adaptive"]["sent"] |= dict.fromkeys(WANTED.uplinks["ibl001"], 0)


def uncounted(said: dict[str, Any]) -> None:
    del said["runs"]["adaptive"]["resent"][WANTED.ends[1]]


def others(said: dict[str, Any]) -> None:
    said["permutation"]["flows"] = said["permutation"]["flows"][1:]


def same_level(said: dict[str, Any]) -> None:
    said["levels"] = {"adaptive": 0, "static": 0}


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (slow, "20.0 GB/s with adaptive routing, 31.0 GB/s without: it is slower"),
        (uneven, "uplinks of a leaf are"),
        (resent, "adapters reported 3 sequence errors"),
        (silent, "sent nothing: exit status 1: Couldn't connect"),
        (unread, "ibl001: counters of its uplinks began anew or were not read"),
        (cleared, "ibl001: counters of its uplinks began anew or were not read"),
        (idle, "ibl001: its uplinks carried nothing"),
        (uncounted, "what was sent again is not known"),
        (others, "its senders or uplinks are not those of the plan"),
        (same_level, "it ran on service levels 0 and 0"),
    ],
)
def test_what_shows_no_adaptive_routing_fails(spoil: Callable[[dict[str, Any]], None], why: str) -> None:
    said = healthy()
    spoil(said)
    assert [problem for problem in judging.judge(LAB, said).problems if why in problem]


# -- before ------------------------------------------------------------------------------------------------------------
def masks(mask: int) -> dict[str, int]:
    return dict.fromkeys(WELL.data["diagnosed"]["adaptive"], mask)


def with_links(seen: Facts) -> Facts:
    """The servers with their adapters as Linux names them."""
    nodes = {}
    for host in {end.partition(":")[0] for end in WANTED.ends}:
        links: dict[str, Any] = {f"mlx5_{n}": {} for n in range(12)}
        nodes[host] = Answer(host, "os", {"machine": {"links": links}})
    return dataclasses.replace(seen, nodes=nodes)


def test_the_level_that_no_switch_routes_adaptively_is_compared_with() -> None:
    known = judging.prepared(LAB, WANTED, with_links(changed("adaptive", masks(0x7FFF))), GUIDS)
    assert isinstance(known, permutation.Known)
    assert (known.manager, known.levels) == ("mgm01", LEVELS)
    assert sorted(known.devices) == sorted(WANTED.ends)
    assert {len(each) for each in known.places.values()} == {1}
    assert judging.levels_of({"a": 0x7FFF, "b": 0x3FFF}) == {"adaptive": 0, "static": 15}


@pytest.mark.parametrize("mask", [0xFFFF, 0, 0x7FFE])
def test_without_a_level_to_compare_with_nothing_runs(mask: int) -> None:
    assert judging.prepared(LAB, WANTED, with_links(changed("adaptive", masks(mask))), GUIDS) == {
        "lab": judging.NO_LEVELS
    }


def test_what_is_not_known_before_is_named() -> None:
    assert "no host with a subnet manager" in str(judging.prepared(LAB, WANTED, Facts(), GUIDS))
    dark = judging.prepared(LAB, WANTED, changed("adaptive", masks(0x7FFF)), GUIDS)
    assert set(dark) == {"gpu001", "gpu002", "gpu003", "gpu004"} if isinstance(dark, Mapping) else False


# -- the act -----------------------------------------------------------------------------------------------------------
class Servers:
    """Servers that count and send; gpu003 answers no more in `dark`."""

    dark = False
    asked: list[dict[str, Any]]

    def __init__(self, plan: Plan) -> None:
        Servers.asked = []

    def ask(self, name: str, request: dict[str, Any], budget_s: float) -> Any:
        Servers.asked.append(request)
        if Servers.dark and name == "gpu003":
            raise Unreachable(name, "try", "an SSH server", "nothing", "check its power")
        if request["do"] == "count":
            return {"counters": {rail: {"packet_seq_err": 7} for rail in request["rails"]}}
        return {"status": 0, "printed": WRITTEN_BW} if request["do"] == "send" else {"ended": {}}


@pytest.fixture
def fabric(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter(range(10))

    def counters(*_: Any, **__: Any) -> dict[str, Any]:
        sent = 1000 * next(readings)
        return {"counters": {place: {"sent": sent} for place in WELL.data["diagnosed"]["ends"]}}

    monkeypatch.setattr(permutation, "Hosts", Servers)
    monkeypatch.setattr(permutation, "diagnosed", counters)
    monkeypatch.setattr(permutation, "ManagerHost", lambda *_: None)
    monkeypatch.setattr(permutation, "node_credentials", lambda _: None)
    monkeypatch.setattr(permutation, "READY_S", 0.01)
    monkeypatch.setattr(Servers, "dark", False)


def test_each_run_has_its_level_and_what_rose_meanwhile(fabric: None) -> None:
    said = conftest.try_adaptive(LAB, with_links(changed("adaptive", masks(0x7FFF))), GUIDS)
    assert said["errors"] == {}
    assert {request["level"] for request in Servers.asked if request["do"] == "send"} == {0, 15}
    assert set(said["runs"]["static"]["sent"].values()) == {1000}
    assert set(said["runs"]["adaptive"]["resent"].values()) == {0}
    assert sorted(said["runs"]["adaptive"]["flows"]) == sorted(WANTED.ends)
    made = judging.judge(LAB, said)
    assert made.problems == []
    ports = [request["port"] for request in Servers.asked if request["do"] == "send" and request["level"] == 0]
    assert len(set(ports)) == len(ports)


def test_a_server_that_does_not_answer_ends_it_before_any_load(fabric: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Servers, "dark", True)
    said = conftest.try_adaptive(LAB, with_links(changed("adaptive", masks(0x7FFF))), GUIDS)
    assert list(said["errors"]) == ["gpu003"]
    assert not [request for request in Servers.asked if request["do"] != "count"]
    assert not judging.judge(LAB, said).value
