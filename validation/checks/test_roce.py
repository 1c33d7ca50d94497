"""The servers' side of lossless RoCE (network/roce_host.py says what is wanted). Compute switches have no check: no driver reads
them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from capacity.model import Plan
from inventory.catalog.devices import DeviceType
from network.roce_host import wanted
from validation import roce
from validation.check import Outcome, check
from validation.checks.test_assembly import built
from validation.facts import Facts

READS = ("site.fabric", "site.addressing", "site.server", "frame.addresses", "frame.devices", "assets")


@pytest.fixture(scope="session")
def rails_wanted(plan: Plan) -> Mapping[str, Any]:
    """What the plan gives the rails of each server."""
    return wanted(plan)


def judged(
    subject: str, plan: Plan, facts: Facts, planned: Mapping[str, Any], names: Sequence[str], good: str
) -> Outcome:
    node = facts.nodes[subject]

    def faults(machine: Mapping[str, Any], _: DeviceType) -> Iterator[str]:
        if subject not in planned:
            yield "the plan gives its rails no addresses (site addressing.rails, fabric.nos, fabric.asn_base)"
        else:
            yield from roce.faults(machine["roce"], planned[subject], names)

    lacking = roce.not_judged(node.data.get("machine", {}).get("roce", {}), names) if not node.error else []
    left_open = f"; not judged, its driver does not show them: {', '.join(lacking)}" if lacking else ""
    return built(plan, node, {"roce": "roce"}, faults, f"{good}{left_open}")


@check("S055.applied", inputs=READS, only=("gpu_servers",))
def test_adapters_have_one_lossless_class(
    subject: str, plan: Plan, facts: Facts, rails_wanted: Mapping[str, Any]
) -> Outcome:
    good = "PFC on one priority, no pause frames for all traffic, shares of the queues as planned"
    return judged(subject, plan, facts, rails_wanted, roce.LOSSLESS, good)


@check("S056.applied", inputs=READS, only=("gpu_servers",))
def test_adapters_mark_rocev2_as_planned(
    subject: str, plan: Plan, facts: Facts, rails_wanted: Mapping[str, Any]
) -> Outcome:
    good = "RoCE version 2 with the planned marks, addresses and routes on every rail"
    return judged(subject, plan, facts, rails_wanted, roce.MARKED, good)
