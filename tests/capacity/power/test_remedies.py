"""Printed remedies of power and cooling: the site planned anew with one of them has the finding no more."""

import functools

import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.power.upstream import loading
from inventory.findings import Finding
from inventory.site import SiteError
from inventory.site.whatif import changed
from tests.findings import as_set, only, values

pytestmark = pytest.mark.usefixtures("stages_kept")


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
    assert found.limit == pytest.approx(13.8)
    assert found.numbers["cord_a"] > 13.8
    assert [dict(one.settings) for one in found.remedies] == [
        {},
        {},
    ]  # larger banks, or more supplies that share the load


def test_more_pdus_or_fewer_servers_mend_a_bank_that_several_cords_overload() -> None:
    dense = ("rack.servers=6", "rack.power_limit_kw=100", "power.rack_circuit.breaker_a=100", "power.derating=0.7")
    found = only(plan_of("h100-1000-ib", "server.count=24", *dense), "POWER-BANK")
    assert found.numbers["cord_a"] < 21 < found.numbers["amps"], "30 A x 0.7"
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


@pytest.mark.parametrize(
    ("name", "firm"), [("h100-1000-ib", 1), ("h100-1000-ib", 14.54), ("b200-256-roce", 0.6), ("lab", 0.05)]
)
def test_the_firm_capacity_that_is_named_carries_the_worst_case_and_the_growth(name: str, firm: float) -> None:
    """The grid's lines are judged by their load after a failure too, which may be more than the load with its growth."""
    settings = (f"electrical.utility.firm_mva={firm}", "electrical.utility.growth_pct=0")
    for one in plan_of(name, *settings).findings:
        if one.id == "POWER-UTILITY" or (one.id == "POWER-ELEMENT" and one.subject.startswith("utility")):
            all_mend(name, settings, one)


def test_a_rating_is_printed_rounded_up_never_down() -> None:
    assert loading.rating_text(1.2911, "MVA") == "1.30 MVA"
    assert loading.rating_text(0.0049, "MVA") == "0.01 MVA"
    assert loading.rating_text(2608.3, "kVA") == "2,609 kVA"
    assert loading.rating_text(2608.0000000001, "kVA") == "2,608 kVA"


def test_the_fault_level_of_an_intake_is_answered_by_gear_or_grid_not_by_what_lies_behind_it() -> None:
    settings = ("electrical.utility.fault_mva=800",)
    found = only(plan_of("b200-256-roce", *settings, "electrical.medium_voltage.rating_ka=25"), "POWER-FAULT-LEVEL")
    assert found.subject.startswith("mv-")
    assert all(one.settings for one in found.remedies)
    assert {key for one in found.remedies for key in one.settings} == {
        "electrical.medium_voltage.rating_ka",
        "electrical.utility.fault_mva",
    }
    all_mend("b200-256-roce", (*settings, "electrical.medium_voltage.rating_ka=25"), found)


def test_gear_of_the_next_rating_stands_the_fault_current_of_a_switchboard_and_its_peak() -> None:
    settings = ("electrical.switchboards.rating_ka=20",)
    found = [one for one in plan_of("b200-256-roce", *settings).findings if one.id == "POWER-FAULT-LEVEL"]
    assert {one.subject.split("-")[0] for one in found} == {"swb", "mech"}
    for one in found:
        all_mend("b200-256-roce", settings, one)


def test_a_supply_above_the_servers_limit_is_answered_by_a_lower_supply() -> None:
    with pytest.raises(SiteError, match="lower cooling.supply_c below 35"):
        changed("h100-1000-ib", ["cooling.supply_c=45"])


def test_a_line_that_only_a_shared_room_overloads_is_mended_by_a_room_per_feed() -> None:
    """The loss of room x leaves feed C alone with 6.6 kW a server; the loss of one feed leaves two."""
    rooms, cap = "electrical.rooms={A: x, B: x, C: y}", ("server.power.cap_w=6600", "server.power.measured_w=6000")
    settings = ("server.count=32", rooms, "power.rack_circuit.breaker_a=40", *cap)
    found = only(plan_of("h100-1000-ib", *settings), "POWER-PHASE-LOAD")
    assert values(found, "electrical.rooms") == [{"A": "room-a", "B": "room-b", "C": "room-c"}]
    all_mend("h100-1000-ib", settings, found)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("h100-1000-ib", ("server.count=40", "ups.module_kw=50", "electrical.ups_blocks.installed=1")),
        pytest.param(
            "h100-1000-ib",
            ("server.count=100", "ups.module_kw=90", "electrical.ups_blocks.installed=1"),
            marks=pytest.mark.soak,
        ),
        ("b200-256-roce", ("ups.module_kw=100", "electrical.ups_blocks.installed=1")),
        ("b200-256-roce", ("electrical.transformers.kva=300", "electrical.transformers.installed=1")),
    ],
)
def test_no_more_servers_fewer_are_named_than_suffice(name: str, settings: tuple[str, ...]) -> None:
    """The site planned anew with one server more has the finding still: its fabric and cooling draw less too."""
    for found in (one for one in plan_of(name, *settings).findings if one.numbers.get("servers_fewer")):
        for count in values(found, "server.count"):
            kinds = {found.id}
            assert kinds.isdisjoint(errors(plan_of(name, *settings, f"server.count={count}")))
            assert not kinds.isdisjoint(errors(plan_of(name, *settings, f"server.count={count + 1}")))


def test_open_aisles_with_dense_racks_are_an_error_until_an_aisle_is_contained_or_judged() -> None:
    open_aisles = ("cooling.air.containment=none", "cooling.air.rack_air=null")
    found = only(plan_of("b200-256-roce", *open_aisles), "COOLING-OPEN-AISLES")
    assert (found.severity, found.limit) == ("error", 6.0)
    assert found.numbers["air_kw"] > 30
    all_mend("b200-256-roce", open_aisles, found)
    rack_air = "cooling.air.rack_air={airflow_m3_s: 2.5, source: test of the aisles}"
    judged = only(plan_of("b200-256-roce", "cooling.air.containment=none", rack_air), "COOLING-OPEN-AISLES")
    assert judged.severity == "info", "the site says what its aisle gives a rack"
    assert "test of the aisles" in judged.message


def test_what_a_design_says_of_its_closed_aisles_is_no_judgement_of_open_ones() -> None:
    """The design's 2.5 m3/s a rack hold in a contained hot aisle."""
    open_aisles = ("cooling.air.containment=none",)
    found = only(plan_of("b200-256-roce", *open_aisles), "COOLING-OPEN-AISLES")
    assert found.severity == "error"
    all_mend("b200-256-roce", open_aisles, found)
    confirmed = plan_of("b200-256-roce", *open_aisles, "confirmed=[cooling.air.rack_air]")
    assert only(confirmed, "COOLING-OPEN-AISLES").severity == "info", "somebody has looked at it"
