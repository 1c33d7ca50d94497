"""Printed remedies of power and cooling: the site planned anew with one of them has the finding no more."""

import functools

import pytest

from capacity.build import build
from capacity.model import Plan
from inventory.findings import Finding
from inventory.site import SiteError
from inventory.site.whatif import changed
from tests.findings import as_set, only, values


@functools.cache
def plan_of(name: str, *settings: str) -> Plan:
    return build(changed(name, settings))


def errors(plan: Plan) -> set[str]:
    return {one.id for one in plan.findings if one.severity == "error"}


def all_mend(name: str, settings: tuple[str, ...], found: Finding) -> None:
    """Each remedy that is made of site keys takes the finding away and brings no other error."""
    before = errors(plan_of(name, *settings))
    ways = [one for one in found.remedies if one.settings]
    assert ways, found.message
    for one in ways:
        after = errors(plan_of(name, *settings, *as_set(one)))
        assert found.id not in after, one.text
        assert after <= before, one.text


IEC_400 = ("power.voltage_v=400", "power.code=iec", "electrical.panels.feeder.ampacity_a=400")


def test_a_bank_that_one_cord_overloads_is_not_answered_by_more_pdus_or_fewer_servers() -> None:
    """Four of six supplies carry 13,000 W: 3,250 W at 231.3 V is 14.1 A, and a bank of 30 A x 0.46 carries 13.8 A."""
    found = only(plan_of("b200-256-roce", *IEC_400, "power.derating=0.46"), "POWER-BANK")
    assert found.numbers["cord_a"] > found.limit == pytest.approx(13.8)
    assert [dict(one.settings) for one in found.remedies] == [{}]


def test_more_pdus_or_fewer_servers_mend_a_bank_that_several_cords_overload() -> None:
    dense = ("rack.servers=6", "rack.power_limit_kw=100", "power.rack_circuit.breaker_a=100", "power.derating=0.7")
    found = only(plan_of("h100-1000-ib", "server.count=24", *dense), "POWER-BANK")
    assert found.numbers["cord_a"] < found.limit
    assert values(found, "power.rack_pdu.per_feed")
    for one in found.remedies:
        if one.settings:
            assert "POWER-BANK" not in errors(plan_of("h100-1000-ib", "server.count=24", *dense, *as_set(one)))
