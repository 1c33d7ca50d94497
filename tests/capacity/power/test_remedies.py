"""Printed remedies of power and cooling: the site planned anew with one of them has the finding no more."""

import functools

import pytest

from capacity.build import build
from capacity.model import Plan
from inventory.findings import Finding
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


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("b200-256-roce", ("rack.servers=3", "rack.power_limit_kw=60")),
        ("h100-1000-ib", ("server.count=24", "rack.servers=6", "rack.power_limit_kw=100")),
        ("lab", ("rack.servers=4", "rack.power_limit_kw=60")),
        ("b200-256-roce", ("rack.power_limit_kw=60", "cooling.air.rack_air={airflow_m3_s: 1.7, source: test}")),
    ],
)
def test_the_change_of_the_racks_that_cooling_names_gives_every_rack_air_enough(
    name: str, settings: tuple[str, ...]
) -> None:
    all_mend(name, settings, only(plan_of(name, *settings), "COOLING-RACK-AIR"))


def test_a_lower_power_limit_mends_a_rack_of_switches_that_draws_too_much_air() -> None:
    """Servers alone one to a rack, and the switches of the fabric fill what the power limit of a rack leaves."""
    settings = (
        "room.rows=6",
        "rack.servers=1",
        "rack.power_limit_kw=60",
        "cooling.air.rack_air={airflow_m3_s: 1.2, source: test}",
    )
    found = only(plan_of("b200-256-roce", *settings), "COOLING-RACK-AIR")
    assert found.numbers["air_kw"] > 14.3, "more than a server"
    assert values(found, "rack.power_limit_kw")
    all_mend("b200-256-roce", settings, found)
