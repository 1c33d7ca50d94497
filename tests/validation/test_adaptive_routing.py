"""Adaptive routing and aggregation trees, on modelled answers of ibdiagnet, of switches as rendered and of adapters as planned."""

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from inventory.delivered.assets import load_assets
from network import roce as fabric_roce
from network.infiniband.subnet import guid_book
from network.roce_host import wanted
from tests.plans import plan_of
from tests.validation import modelled_links
from tests.validation.test_roce import ADAPTIVE, CONFIGS, PLAN, facts, healthy, told, with_intent
from validation.check import Outcome
from validation.checks import test_adaptive_routing as routing
from validation.checks import test_sharp as sharp
from validation.facts import Answer, Facts
from validation.facts.shapes import data_of

LAB = plan_of("lab")
GUIDS = guid_book(load_assets(LAB.site))
RECORDED = Facts.read(Path(__file__).parent / "data" / "healthy.json").subnets["mgm01"]


# -- InfiniBand --------------------------------------------------------------------------------------------------------
def an_of(switch: str) -> str:
    """GUID of the aggregation node that is modelled inside a switch."""
    return f"aa{GUIDS[switch][2:]}"


def with_aggregation_nodes() -> Answer:
    """The lab's fabric with an aggregation node at port 41 of each switch, and one tree over all of them; all levels adaptive."""
    data = copy.deepcopy(dict(RECORDED.data))
    switches = [row for row in data["nodes"] if row[2] == "switch"]
    for key, _, _, name, _ in switches:
        own = f"H-{an_of(name)}"
        data["nodes"].append([own, an_of(name), "adapter", "Mellanox Technologies Aggregation Node", 900])
        data["links"] += [[key, 41, own, 1, 200.0], [own, 1, key, 41, 200.0]]
    view = dataclasses.replace(RECORDED, data=data)
    made = modelled_links.diagnosed(LAB, RECORDED, GUIDS, began=0.0, words=0)
    made["adaptive"] = {row[1]: 0xFFFF for row in switches}
    made["out_of_order"] = dict.fromkeys(made["ends"], 65535)
    made["trees"] = {"0": [[int(name.startswith("ibl")), an_of(name)] for _, _, _, name, _ in switches]}
    data["diagnosed"] = made
    return dataclasses.replace(view, data=data_of("subnets", "mgm01", data))


WELL = with_aggregation_nodes()


def changed(part: str, values: Any) -> Facts:
    """The well fabric, of whose diagnosis a part is another."""
    diagnosed = {**WELL.data["diagnosed"], part: values}
    return Facts(subnets={"mgm01": dataclasses.replace(WELL, data={**WELL.data, "diagnosed": diagnosed})})


def said(part: str) -> Any:
    return copy.deepcopy(WELL.data["diagnosed"][part])


def test_switches_servers_and_trees_as_they_have_to_be_pass() -> None:
    found = changed("sharp_am", "active")
    for switch in ("ibl001", "ibs001"):
        outcome = routing.test_switches_route_bulk_traffic_adaptively(switch, LAB, found, GUIDS)
        assert (outcome.passed, outcome.value) == (True, {"levels": {GUIDS[switch]: 0xFFFF}}), outcome.detail
        outcome = sharp.test_aggregation_trees_hold_the_switch(switch, LAB, found, GUIDS)
        assert (outcome.passed, outcome.value) == (True, {"manager": ["mgm01"], "trees": ["0"]}), outcome.detail
    outcome = routing.test_adapters_take_packets_out_of_order("gpu001", LAB, found, GUIDS, {})
    assert outcome.passed, outcome.detail
    assert isinstance(outcome.value, dict)
    assert len(outcome.value["levels"]) == 8


@pytest.mark.parametrize(
    ("mask", "words"),
    [(0, "does not route service level 0"), (2, "does not route service level 0"), (None, "says nothing of")],
)
def test_a_switch_that_does_not_route_the_bulk_level_adaptively_fails(mask: int | None, words: str) -> None:
    masks = said("adaptive")
    del masks[GUIDS["ibl001"]]
    found = changed("adaptive", masks if mask is None else {**masks, GUIDS["ibl001"]: mask})
    outcome = routing.test_switches_route_bulk_traffic_adaptively("ibl001", LAB, found, GUIDS)
    assert (outcome.passed, words in outcome.detail) == (False, True)
    assert routing.test_switches_route_bulk_traffic_adaptively("ibl002", LAB, found, GUIDS).passed


@pytest.mark.parametrize(
    ("mask", "words"), [(0xFFFE, "does not take service level 0"), (None, "ibdiagnet says nothing of packets")]
)
def test_an_adapter_that_keeps_the_order_of_packets_is_named(mask: int | None, words: str) -> None:
    masks, place = said("out_of_order"), f"{GUIDS['gpu001:ib3']}/1"
    assert place in masks
    del masks[place]
    found = changed("out_of_order", masks if mask is None else {**masks, place: mask})
    outcome = routing.test_adapters_take_packets_out_of_order("gpu001", LAB, found, GUIDS, {})
    assert not outcome.passed
    assert words in outcome.detail
    assert "gpu001:ib3" in outcome.detail


def test_an_adapter_that_is_not_in_the_subnet_is_named() -> None:
    (key,) = (row[0] for row in WELL.data["nodes"] if row[1] == GUIDS["gpu001:ib3"])
    links = [row for row in WELL.data["links"] if key not in (row[0], row[2])]
    lost = dataclasses.replace(WELL, data={**WELL.data, "links": links})
    outcome = routing.test_adapters_take_packets_out_of_order("gpu001", LAB, Facts(subnets={"mgm01": lost}), GUIDS, {})
    assert outcome.detail == "gpu001:ib3 is not in the subnet"


def trees_without(*switches: str) -> dict[str, Any]:
    gone = {an_of(one) for one in switches}
    return {"0": [node for node in said("trees")["0"] if node[1] not in gone]}


@pytest.mark.parametrize(
    ("part", "values", "words"),
    [
        ("sharp_am", "inactive", "no aggregation manager runs"),
        ("trees", {}, "it is in none of 0 aggregation trees"),
        ("trees", trees_without("ibl001"), "it is in none of 1 aggregation trees"),
    ],
)
def test_trees_that_do_not_hold_a_leaf_or_its_rails_fail(part: str, values: Any, words: str) -> None:
    outcome = sharp.test_aggregation_trees_hold_the_switch("ibl001", LAB, changed(part, values), GUIDS)
    assert (outcome.passed, words in outcome.detail) == (False, True), outcome.detail


def test_a_tree_has_to_span_all_leaves_of_a_rail() -> None:
    outcome = sharp.test_aggregation_trees_hold_the_switch(
        "ibs001", LAB, changed("trees", trees_without("ibl003")), GUIDS
    )
    assert not outcome.passed
    assert "the best one lacks ibl003" in outcome.detail


def test_a_switch_without_an_aggregation_node_is_named() -> None:
    view = dataclasses.replace(RECORDED, data={**RECORDED.data, "diagnosed": WELL.data["diagnosed"]})
    outcome = sharp.test_aggregation_trees_hold_the_switch("ibl001", LAB, Facts(subnets={"mgm01": view}), GUIDS)
    assert "it shows no aggregation node in the subnet" in outcome.detail


def judged_by_all(found: Facts) -> list[Outcome]:
    return [
        routing.test_switches_route_bulk_traffic_adaptively("ibl001", LAB, found, GUIDS),
        sharp.test_aggregation_trees_hold_the_switch("ibl001", LAB, found, GUIDS),
        routing.test_adapters_take_packets_out_of_order("gpu001", LAB, found, GUIDS, {}),
    ]


def test_without_ibdiagnet_or_a_view_all_fail_with_the_reason() -> None:
    older = Facts(subnets={"mgm01": RECORDED})
    lacking = dataclasses.replace(
        RECORDED, data={**RECORDED.data, "diagnosed": {"error": "ibdiagnet is not installed"}}
    )
    for found, words in (
        (older, "these facts have nothing of ibdiagnet"),
        (Facts(subnets={"mgm01": lacking}), "ibdiagnet is not installed"),
        (Facts(), "see S060"),
    ):
        assert [(one.passed, words in one.detail) for one in judged_by_all(found)] == [(False, True)] * 3


def test_containers_are_skipped() -> None:
    node = Answer("gpu001", "ssh", data={"machine": {"container": "lxc", "errors": {}}})
    with pytest.raises(pytest.skip.Exception, match="containers"):
        judged_by_all(Facts(nodes={"gpu001": node}, subnets={"mgm01": WELL}))


# -- RoCE --------------------------------------------------------------------------------------------------------------
def test_a_site_that_chooses_paths_by_hash_fails_with_the_key() -> None:
    words = "site fabric.load_balancing is ecmp: packets of a flow take one path"
    outcome = routing.test_compute_switches_spread_packets_over_paths("rol001", PLAN, Facts(), {})
    assert (outcome.passed, words in outcome.detail) == (False, True)
    outcome = routing.test_adapters_take_packets_out_of_order("gpu001", PLAN, Facts(), {}, {})
    assert (outcome.passed, words in outcome.detail) == (False, True)


def test_a_switch_is_judged_by_what_it_runs() -> None:
    models = fabric_roce.models(ADAPTIVE)
    right = told(with_intent("rol001", load_balancing="adaptive"))
    judge = routing.test_compute_switches_spread_packets_over_paths
    outcome = judge("rol001", ADAPTIVE, Facts(roce_switches={"rol001": right}), models)
    assert outcome.passed, outcome.detail
    outcome = judge("rol001", ADAPTIVE, Facts(roce_switches={"rol001": told(CONFIGS["rol001"])}), models)
    assert outcome.detail == "adaptive: is False, planned True"
    assert "no answer of it" in judge("rol001", ADAPTIVE, Facts(), models).detail


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, ""),
        (False, "rail5: adaptive_routing is false, planned true"),
        (None, "rail5: adaptive_routing is null, planned true"),
    ],
)
def test_an_adapter_is_judged_by_its_register(value: bool | None, words: str) -> None:
    rails = healthy()
    for name, rail in rails["rails"].items():
        rail["values"]["adaptive_routing"] = json.dumps(value if name == "rail5" else True)
    judge = routing.test_adapters_take_packets_out_of_order
    outcome = judge("gpu001", ADAPTIVE, facts(rails), {}, wanted(ADAPTIVE))
    assert (outcome.passed, words in outcome.detail) == (not words, True)


def test_a_server_without_planned_rails_says_what_the_plan_lacks() -> None:
    outcome = routing.test_adapters_take_packets_out_of_order("gpu001", ADAPTIVE, facts(healthy()), {}, {})
    assert "the plan gives its rails no addresses" in outcome.detail
