"""S062 of a switch with several ASICs: one system in the asset list, several nodes in the subnet. The fabric is modelled."""

import json
from typing import Any

import pytest

from bench.fabric import made_up_guids
from network.infiniband import parse
from tests.network.infiniband.fabrics import as_tools_write
from tests.plans import plan_of
from validation.check import Outcome
from validation.checks.test_infiniband import test_discovered_cables_match_the_plan as discovered_cables
from validation.checks.test_infiniband import test_leaf_is_managed as leaf_is_managed
from validation.evidence import Identity
from validation.facts import Answer, Facts
from validation.infiniband import chips, links_of_part, topology

SITE, LEAF, HOST = "gb300-nvl72-liquid", "ibl001", "mgm01"
ASICS = 4


def links_in(outcome: Outcome) -> list[list[Any]]:
    """The links that a check wrote as its value."""
    assert isinstance(outcome.value, dict)
    return list(outcome.value["links"])


@pytest.fixture(scope="module")
def seen() -> tuple[Any, dict[str, str], Facts]:
    """Plan, GUIDs of the asset list, and what a host sees of the fabric."""
    plan = plan_of(SITE)
    guids = made_up_guids(plan)
    found = parse.discovery(as_tools_write(plan, guids, "1xXDR", planes=ASICS, managed="Q3400_RA"))
    nodes = found.nodes.to_numpy().tolist()
    ports = [f"{row[1]}/1" for row in nodes if row[2] == "switch"]
    data = {
        "nodes": nodes,
        "links": found.links.to_numpy().tolist(),
        "systems": dict(found.systems),
        "lanes": {},
        "arbitration": {port: {} for port in ports},
        "errors": {},
    }
    return (
        plan,
        guids,
        Facts(subnets={HOST: Answer(HOST, "ssh", data, identities=(Identity(HOST, "os-release", "", ""),))}),
    )


def test_the_nodes_of_all_asics_are_the_switch(seen: tuple[Any, dict[str, str], Facts]) -> None:
    plan, guids, facts = seen
    view = facts.subnets[HOST]
    own = chips(view, guids[LEAF])
    assert len(own) == ASICS
    assert {view.data["systems"][row[0]] for row in own} == {guids[LEAF]}
    assert chips(view, own[2][1]) == own, "the list may have the GUID of any ASIC"
    assert chips(view, "0" * 16) == []
    outcome = discovered_cables(LEAF, plan, facts, guids, topology(plan, guids, facts, set()))
    assert outcome.passed, outcome.detail
    planned = plan.cables[(plan.cables["fabric"] == "compute")]
    count = int(((planned["a_device"] == LEAF) | (planned["b_device"] == LEAF)).sum())
    assert len(links_in(outcome)) == ASICS * count
    assert (LEAF, guids[LEAF]) in {(one.device, one.serial) for one in outcome.identities}


def test_the_gate_reads_all_asics_again(seen: tuple[Any, dict[str, str], Facts]) -> None:
    plan, guids, facts = seen
    cables = plan.cables[(plan.cables["a_device"] == LEAF) | (plan.cables["b_device"] == LEAF)]
    outcome = discovered_cables(LEAF, plan, facts, guids, [])
    assert outcome.raw is not None

    def again(raw: dict[str, Any]) -> tuple[list[list[Any]], list[str]]:
        links, found = links_of_part(plan, LEAF, cables, guids, json.dumps(raw).encode())
        return links, [one.id for one in found]

    raw = json.loads(outcome.raw)
    assert again(raw) == (links_in(outcome), [])
    lost = raw["nodes"][1][0]
    without = [row for row in raw["links"] if row[0] != lost]
    assert "LINK-RATE" in again({**raw, "links": without})[1], "the rows of one ASIC left out"
    cut = {**raw, "links": without, "nodes": [row for row in raw["nodes"] if row[0] != lost]}
    assert "LINK-RATE" in again(cut)[1], "one ASIC left out"
    foreign = {**raw, "systems": {**raw["systems"], lost: "ab" * 8}}
    with pytest.raises(ValueError, match="nodes of several systems"):
        again(foreign)
    with pytest.raises(ValueError, match="it is the part of"):
        links_of_part(plan, "ibl002", cables, guids, outcome.raw)


def test_tables_of_each_asic_are_asked_for(seen: tuple[Any, dict[str, str], Facts]) -> None:
    _, guids, facts = seen
    outcome = leaf_is_managed(LEAF, facts, guids, [])
    assert not outcome.passed
    assert "its service level tables cannot be read" in outcome.detail
