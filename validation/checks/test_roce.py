"""Both sides of lossless RoCE: servers (network/roce_host.py says what is wanted), compute switches (network/roce.py), and
whether the ends of each link agree."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from capacity.model import Plan
from inventory.catalog.devices import DeviceType
from network.nos.model import Model
from network.roce_host import wanted
from validation import roce, roce_ends
from validation.check import Outcome, check
from validation.checks.test_assembly import built
from validation.checks.test_fabric import compute_switch
from validation.facts import Facts
from validation.roce_ends import Links

READS = ("site.fabric", "site.addressing", "site.server", "frame.addresses", "frame.devices", "frame.cables", "assets")
OF_SWITCHES = (
    "site.fabric",
    "site.addressing",
    "site.inband",
    "site.credentials",
    "frame.addresses",
    "frame.devices",
    "frame.cables",
    "assets",
)


@pytest.fixture(scope="session")
def rails_wanted(plan: Plan) -> Mapping[str, Any]:
    """What the plan gives the rails of each server."""
    return wanted(plan)


@pytest.fixture(scope="session")
def link_ends(plan: Plan, facts: Facts) -> Links:
    """Both ends of each link, compared."""
    return roce_ends.links(plan, facts)


def judged(
    subject: str, plan: Plan, facts: Facts, planned: Mapping[str, Any], ends: Links, step: str, good: str
) -> Outcome:
    names = {roce_ends.LOSSLESS: roce.LOSSLESS, roce_ends.MARKED: roce.MARKED}[step]
    node = facts.nodes[subject]

    def faults(machine: Mapping[str, Any], _: DeviceType) -> Iterator[str]:
        if subject not in planned:
            yield "the plan gives its rails no addresses (site addressing.rails, fabric.nos, fabric.asn_base)"
        else:
            yield from roce.faults(machine["roce"], planned[subject], names)
            yield from ends.of(subject, step)

    lacking = roce.not_judged(node.data.get("machine", {}).get("roce", {}), names) if not node.error else []
    left_open = f"; not judged, its driver does not show them: {', '.join(lacking)}" if lacking else ""
    return built(plan, node, {"roce": "roce"}, faults, f"{good}{left_open}{_far_ends(subject, plan, ends)}")


def _far_ends(subject: str, plan: Plan, ends: Links) -> str:
    silent = ends.unread_from(subject, plan)
    alike = f", both ends of {ends.by_device.get(subject, 0)} links alike"
    return f"; ends not read and not compared: {', '.join(silent)}" if silent else alike


def of_switch(
    subject: str, plan: Plan, facts: Facts, planned: Mapping[str, Model], ends: Links, step: str, good: str
) -> Outcome:
    names = {roce_ends.LOSSLESS: roce.SWITCH_LOSSLESS, roce_ends.MARKED: roce.SWITCH_MARKED}[step]
    answer, system = compute_switch(facts, subject), plan.site.fabric.nos
    if answer.error or system is None:
        return Outcome(False, None, answer.error, identities=answer.identities)
    problems = [
        *roce.switch_faults(system, answer.data["running"], planned[subject], names),
        *ends.of(subject, step),
    ]
    detail = "; ".join(problems) or f"{good}{_far_ends(subject, plan, ends)}"
    value = {"faults": len(problems), "links": ends.by_device.get(subject, 0)}
    return Outcome(not problems, value, detail, identities=answer.identities, raw=answer.raw)


@check("S055.applied", inputs=READS, only=("gpu_servers",))
def test_adapters_have_one_lossless_class(
    subject: str, plan: Plan, facts: Facts, rails_wanted: Mapping[str, Any], link_ends: Links
) -> Outcome:
    good = "PFC on one priority, no pause frames for all traffic, shares of the queues as planned"
    return judged(subject, plan, facts, rails_wanted, link_ends, roce_ends.LOSSLESS, good)


@check("S056.applied", inputs=READS, only=("gpu_servers",))
def test_adapters_mark_rocev2_as_planned(
    subject: str, plan: Plan, facts: Facts, rails_wanted: Mapping[str, Any], link_ends: Links
) -> Outcome:
    good = "RoCE version 2 with the planned marks, addresses and routes on every rail"
    return judged(subject, plan, facts, rails_wanted, link_ends, roce_ends.MARKED, good)


@check("S055.applied", inputs=OF_SWITCHES, only=("compute_switches",))
def test_switches_have_one_lossless_class(
    subject: str, plan: Plan, facts: Facts, models_wanted: Mapping[str, Model], link_ends: Links
) -> Outcome:
    good = "PFC on one priority of every cabled port, queues, shares, ECN thresholds and watchdog as planned"
    return of_switch(subject, plan, facts, models_wanted, link_ends, roce_ends.LOSSLESS, good)


@check("S056.applied", inputs=OF_SWITCHES, only=("compute_switches",))
def test_switches_take_the_marks_as_planned(
    subject: str, plan: Plan, facts: Facts, models_wanted: Mapping[str, Model], link_ends: Links
) -> Outcome:
    good = "marks, MTU and addresses as planned"
    return of_switch(subject, plan, facts, models_wanted, link_ends, roce_ends.MARKED, good)
