"""Adaptive routing over parallel paths: switches choose the path of each packet, adapters put packets in order again (S057)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from capacity.model import Plan
from inventory.catalog.devices import DeviceType
from network.infiniband import subnet
from network.nos.model import Model
from network.roce_host import wanted
from validation import infiniband, permutation, roce, spreading
from validation.assembly import is_container
from validation.check import Outcome, check
from validation.checks.test_assembly import built
from validation.checks.test_fabric import compute_switch
from validation.checks.test_infiniband import NOBODY
from validation.checks.test_roce import OF_SWITCHES, READS
from validation.facts import Facts
from validation.facts.gather import identities
from validation.facts.permutation import planned
from validation.infiniband import best_view

MOST_SHOWN = 8
"""Faults of a run that a sentence names."""
BY_HASH = (
    "site fabric.load_balancing is {0}: packets of a flow take one path. Fix: fabric.load_balancing: adaptive, on a system that "
    "has it (fabric.nos: cumulus)"
)


BOTH_RUNS = (
    "{adaptive[gb_s]:.1f} GB/s with adaptive routing, uplinks {adaptive[spread]:.0%} apart; "
    "{static[gb_s]:.1f} GB/s without, {static[spread]:.0%} apart"
)
BY_DRAWS = (
    "{gb_s:.1f} GB/s, uplinks {spread:.0%} apart; one of twenty hashes of the same flows: {hashed_gb_s:.1f} GB/s, "
    "{hashed_spread:.0%} apart"
)


def not_planned(plan: Plan) -> str:
    """Why a RoCE site has no adaptive routing to judge; '' where it has."""
    chosen = plan.site.fabric.load_balancing
    return "" if chosen == "adaptive" else BY_HASH.format(chosen)


def skip_containers(facts: Facts) -> None:
    """The lab's adapters and InfiniBand switches are simulated: there is no adaptive routing to read."""
    if facts.nodes and all(is_container(node.data.get("machine", {})) for node in facts.nodes.values()):
        pytest.skip("the servers are containers: the InfiniBand simulator knows no adaptive routing")


@check("S057.applied", inputs=("frame.devices", "frame.cables", "site.fabric", "assets"), only=("infiniband_switches",))
def test_switches_route_bulk_traffic_adaptively(
    subject: str, plan: Plan, facts: Facts, guids: Mapping[str, str]
) -> Outcome:
    skip_containers(facts)
    view = best_view(facts)
    if view is None:
        return Outcome(False, None, NOBODY)
    said = view.data.get("diagnosed", infiniband.NOT_DIAGNOSED)
    if "error" in said:
        return Outcome(False, None, f"not known: {said['error']}", identities=view.identities)
    chips = infiniband.chips_of(plan, guids, view, subject)
    levels = {guid: said["adaptive"].get(guid) for guid in chips}
    problems = [
        *([] if chips else [f"{subject} is not in the subnet"]),
        *(f"ibdiagnet says nothing of adaptive routing on {guid}" for guid, mask in levels.items() if mask is None),
        *(
            f"{guid} does not route service level {subnet.BULK_LEVEL} adaptively"
            for guid, mask in levels.items()
            if is_off(mask)
        ),
    ]
    good = f"service level {subnet.BULK_LEVEL} is routed adaptively by {len(chips)} chips"
    return Outcome(
        not problems,
        {"levels": levels},
        "; ".join(problems) or good,
        identities=view.identities,
        raw=infiniband.part_of(view, ("adaptive",), chips),
    )


def is_off(mask: int | None) -> bool:
    """Whether a mask of service levels lacks that of bulk traffic."""
    return mask is not None and not mask >> subnet.BULK_LEVEL & 1


@check("S057.applied", inputs=OF_SWITCHES, only=("roce_switches",))
def test_compute_switches_spread_packets_over_paths(
    subject: str, plan: Plan, facts: Facts, models_wanted: Mapping[str, Model]
) -> Outcome:
    answer, system = compute_switch(facts, subject), plan.site.fabric.nos
    if why := not_planned(plan):
        return Outcome(False, None, why)
    if answer.error or system is None:
        return Outcome(False, None, answer.error, identities=answer.identities)
    problems = list(roce.switch_faults(system, answer.data["running"], models_wanted[subject], roce.SWITCH_ANY_PATH))
    detail = "; ".join(problems) or "adaptive routing is on, on every port to another switch"
    return Outcome(not problems, {"faults": len(problems)}, detail, identities=answer.identities, raw=answer.raw)


@check("S057.applied", inputs=(*READS, "frame.devices"), only=("gpu_servers",))
def test_adapters_take_packets_out_of_order(
    subject: str, plan: Plan, facts: Facts, guids: Mapping[str, str], planned_rails: Mapping[str, Any]
) -> Outcome:
    if plan.site.fabric.kind == "ib":
        return on_infiniband(subject, plan, facts, guids)
    if why := not_planned(plan):
        return Outcome(False, None, why)

    def faults(machine: Mapping[str, Any], _: DeviceType) -> Iterator[str]:
        if subject not in planned_rails:
            yield "the plan gives its rails no addresses (site addressing.rails, fabric.nos, fabric.asn_base)"
        else:
            yield from roce.faults(machine["roce"], planned_rails[subject], roce.ANY_PATH)

    good = "every rail takes packets in any order"
    return built(plan, facts.nodes[subject], {"roce": "roce"}, faults, good)


@pytest.fixture(scope="session")
def planned_rails(plan: Plan) -> Mapping[str, Any]:
    """What the plan gives the rails of each server; {} on InfiniBand."""
    return wanted(plan)


def on_infiniband(subject: str, plan: Plan, facts: Facts, guids: Mapping[str, str]) -> Outcome:
    """Whether all adapters of a server put the bulk traffic's packets in order, as ibdiagnet reads it from them."""
    skip_containers(facts)
    view = best_view(facts)
    if view is None:
        return Outcome(False, None, NOBODY)
    said = view.data.get("diagnosed", infiniband.NOT_DIAGNOSED)
    if "error" in said:
        return Outcome(False, None, f"not known: {said['error']}", identities=view.identities)
    places = infiniband.places_of(plan, guids, view, subject)
    levels = {
        end: next((said["out_of_order"][one] for one in each if one in said["out_of_order"]), None)
        for end, each in places.items()
    }
    level = subnet.BULK_LEVEL
    problems = []
    for end, mask in levels.items():
        if not places[end]:
            problems.append(f"{end} is not in the subnet")
        elif mask is None:
            problems.append(f"ibdiagnet says nothing of packets out of order at {end}")
        elif is_off(mask):
            problems.append(f"{end} does not take service level {level} out of order")
    good = f"{len(places)} adapters take service level {level} in any order"
    every = [one for each in places.values() for one in each]
    answers = (facts.nodes.get(subject), view)
    return Outcome(
        not problems,
        {"levels": levels},
        "; ".join(problems) or good,
        identities=tuple(one for answer in answers if answer for one in answer.identities),
        raw=infiniband.part_of(view, ("out_of_order",), every),
    )


@check(
    "S057.measured",
    inputs=(*OF_SWITCHES, "site.server", "site.versions"),
)
def test_adaptive_routing_spreads_a_permutation(
    subject: str, plan: Plan, facts: Facts, request: pytest.FixtureRequest
) -> Outcome:
    """With adaptive routing the load is not slower than without, its uplinks are more alike, and no packet is sent again.

    On RoCE there is no run without it: the load has to be faster and more even than a hash of the same flows.
    """
    over_ethernet = plan.site.fabric.kind != "ib"
    if over_ethernet and (why := not_planned(plan)):
        return Outcome(False, None, why)
    skip_containers(facts)
    said: Mapping[str, Any] = request.getfixturevalue("permutation_run")
    found = (spreading if over_ethernet else permutation).judge(plan, said)
    wanted = planned(plan)
    hosts = {end.partition(":")[0] for end in wanted.ends} if wanted else set()
    leaves = (
        [facts.roce_switches.get(name) for name in wanted.uplinks] if wanted and over_ethernet else [best_view(facts)]
    )
    asked = identities([*(facts.nodes.get(name) for name in sorted(hosts)), *leaves])
    value = found.value
    good = "" if found.problems else BY_DRAWS.format(**value) if over_ethernet else BOTH_RUNS.format(**value)
    shown = found.problems[:MOST_SHOWN]
    more = [f"and {len(found.problems) - MOST_SHOWN} more"] if len(found.problems) > MOST_SHOWN else []
    raw = json.dumps(said, sort_keys=True, indent=1).encode()
    return Outcome(
        not found.problems, value, "; ".join([*shown, *more]) or good, unit="GB/s", identities=asked, raw=raw
    )
