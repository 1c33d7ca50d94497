"""The checks of the plan's own frames find what is missing in them."""

import dataclasses
from typing import Any

import pandas as pd
import pytest

from capacity.model import Plan
from capacity.outputs.documents.fabric_choice import options
from capacity.outputs.documents.upgrade import switch_upgrade
from capacity.outputs.summary import summarise
from tests.capacity.golden import SITES
from tests.plans import plan_of
from validation.checks import test_design as checks


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


def with_frame(plan: Plan, **frames: Any) -> Plan:
    return dataclasses.replace(plan, **frames)


@pytest.mark.parametrize("end", ["a_device", "b_device"])
def test_a_cable_with_an_end_in_no_rack_fails_the_schedule(plan: Plan, end: str) -> None:
    lost = plan.cables[end].iloc[0]
    placed = plan.placements[plan.placements["device"] != lost]
    outcome = checks.test_cable_schedule_is_complete("lab", with_frame(plan, placements=placed))
    assert not outcome.passed
    assert f"at {lost}" in outcome.detail
    assert checks.test_cable_schedule_is_complete("lab", plan).passed


def rails(plan: Plan) -> pd.Series:
    return plan.cables["stage"].eq("node-leaf") & plan.cables["fabric"].eq("compute")


def test_a_server_without_any_cable_is_seen(plan: Plan) -> None:
    bare = plan.cables[~(rails(plan) & plan.cables["a_device"].eq("gpu002"))]
    outcome = checks.test_network_adapters_are_counted("lab", with_frame(plan, cables=bare))
    assert not outcome.passed
    assert "gpu002 has cables on 0 rails only" in outcome.detail
    assert checks.test_network_adapters_are_counted("lab", plan).passed


def test_a_plan_without_rails_fails_in_words(plan: Plan) -> None:
    outcome = checks.test_network_adapters_are_counted("lab", with_frame(plan, cables=plan.cables[~rails(plan)]))
    assert not outcome.passed
    assert "0 rails only" in outcome.detail


def test_a_pdu_without_outlets_is_not_balanced(plan: Plan) -> None:
    pdu = plan.circuits["pdu"].iloc[0]
    without = with_frame(plan, outlets=plan.outlets[plan.outlets["pdu"] != pdu])
    outcome = checks.test_phases_of_a_pdu_are_balanced(pdu, without)
    assert not outcome.passed
    assert f"no outlet of {pdu}" in outcome.detail
    assert checks.test_phases_of_a_pdu_are_balanced(pdu, plan).passed


@pytest.fixture(scope="module")
def large() -> Plan:
    return plan_of("h100-1000-ib")


def with_cells(frame: pd.DataFrame, chosen: pd.Series, **cells: Any) -> pd.DataFrame:
    frame = frame.copy()
    for column, value in cells.items():
        frame.loc[chosen, column] = value
    return frame


@pytest.mark.parametrize(
    ("item", "check"), [("gpu", checks.test_gpu_order_dates), ("cpu", checks.test_processors_are_counted)]
)
@pytest.mark.parametrize(
    ("column", "detail"), [("quantity", "s needed, the bill has"), ("spares", "spares counted again, the bill has")]
)
def test_a_bill_that_lacks_one_part_or_spare_is_seen(
    item: str, check: Any, column: str, detail: str, large: Plan
) -> None:
    good = check("site", large)
    assert good.passed or "SCHEDULE-LATE" in good.detail
    assert good.value["total"] == good.value["in_servers"] + good.value["spares"]
    line = large.bom["item"].eq(item) & ~large.bom["item"].eq(item).shift(fill_value=False)
    less = with_cells(large.bom, line, **{column: large.bom.loc[line, column] - 1})
    outcome = check("site", with_frame(large, bom=less))
    assert not outcome.passed
    assert detail in outcome.detail


def test_parts_that_the_bill_forgets_are_seen(large: Plan) -> None:
    none = large.bom[~large.bom["item"].isin(["gpu", "cpu"])]
    for check in (checks.test_gpu_order_dates, checks.test_processors_are_counted):
        assert "the bill has 0" in check("site", with_frame(large, bom=none)).detail


@pytest.mark.parametrize("column", ["safe_order", "go_live_day_order_early", "go_live_day_order_late"])
def test_a_date_of_the_schedule_that_its_lead_time_does_not_give_is_seen(column: str, large: Plan) -> None:
    wrong = with_cells(large.schedule, large.schedule["activity"].eq("gpu"), **{column: "2028-01-03"})
    outcome = checks.test_gpu_order_dates("site", with_frame(large, schedule=wrong))
    assert not outcome.passed
    assert "2028-01-03" in outcome.detail


def test_an_order_that_comes_after_its_work_is_seen(large: Plan) -> None:
    late = "2027-06-07"
    activities = with_cells(large.activities, large.activities["activity"].eq("gpu t1"), safe_start=late)
    safe = activities.loc[activities["activity"].isin(["gpu t1", "gpu t2"]), "safe_start"].min()
    schedule = with_cells(large.schedule, large.schedule["activity"].eq("gpu"), safe_order=safe)
    outcome = checks.test_gpu_order_dates("site", with_frame(large, activities=activities, schedule=schedule))
    assert not outcome.passed
    assert f"gpu t1 ordered on {late} has 168 days until it is needed, and takes 52 weeks" in outcome.detail


@pytest.mark.parametrize("name", SITES)
def test_gpus_and_processors_of_shipped_sites_are_counted_alike(name: str) -> None:
    plan = plan_of(name)
    assert not checks.counted_with_spares(plan, "gpu", plan.catalog.device(plan.site.server.model).bringup.gpus)[1]
    assert not checks.order_dates_again(plan, "gpu")
    assert checks.test_processors_are_counted(name, plan).passed


def first_cable(plan: Plan) -> pd.Series:
    return plan.cables["cable_id"].eq(plan.cables["cable_id"].iloc[0])


def test_a_second_cable_in_a_port_fails_the_labels(plan: Plan) -> None:
    cables = with_cells(plan.cables, first_cable(plan), b_port=plan.cables["b_port"].iloc[1])
    cables = with_cells(cables, first_cable(plan), b_device=plan.cables["b_device"].iloc[1])
    outcome = checks.test_cable_labels_are_complete("lab", with_frame(plan, cables=cables))
    assert not outcome.passed
    assert "1 ports with two cables" in outcome.detail
    assert checks.test_cable_labels_are_complete("lab", plan).passed


def test_a_cable_that_stands_twice_fails_schedule_and_topology(plan: Plan) -> None:
    twice = with_frame(plan, cables=pd.concat([plan.cables, plan.cables[first_cable(plan)]]))
    for check in (checks.test_cable_schedule_is_complete, checks.test_topology_file_is_complete):
        assert f"first {plan.cables['cable_id'].iloc[0]}" in check("lab", twice).detail
        assert not check("lab", twice).passed


@pytest.mark.parametrize(("fabric", "lost"), [("compute", "ibl001"), ("inband", "leaf01")])
def test_a_switch_without_cables_fails_the_topology(plan: Plan, fabric: str, lost: str) -> None:
    cables = plan.cables[plan.cables["a_device"].ne(lost) & plan.cables["b_device"].ne(lost)]
    outcome = checks.test_topology_file_is_complete("lab", with_frame(plan, cables=cables))
    assert not outcome.passed
    assert f"devices that no {fabric} cable joins with gpu001, first {lost}" in outcome.detail


def test_a_cable_longer_than_its_part_is_seen(plan: Plan) -> None:
    outcome = checks.test_cables_are_within_reach(
        "lab", with_frame(plan, cables=with_cells(plan.cables, first_cable(plan), length_m=100.5))
    )
    assert not outcome.passed
    assert "1 cables longer than their part, first gpu001:ib0" in outcome.detail


def test_chassis_that_share_a_rack_unit_or_stand_too_high_are_seen(plan: Plan) -> None:
    gpu = plan.placements["device"].eq("gpu001")
    for bottom, detail in ((48, "1 chassis outside of their rack's units"), (2, "chassis share a rack unit")):
        placements = with_cells(plan.placements, gpu, u_bottom=bottom)
        outcome = checks.test_chassis_fit_their_racks("lab", with_frame(plan, placements=placements))
        assert not outcome.passed
        assert detail in outcome.detail
    placements = plan.placements[~gpu]
    outcome = checks.test_chassis_fit_their_racks("lab", with_frame(plan, placements=placements))
    assert "1 chassis without a place, first gpu001" in outcome.detail
    assert checks.test_chassis_fit_their_racks("lab", plan).passed


@pytest.mark.parametrize(("column", "factor"), [("usable_kw", 1.1), ("load_kw", 0.9)])
def test_a_circuit_whose_figures_are_not_its_breaker_s_or_its_cords_is_seen(
    plan: Plan, column: str, factor: float
) -> None:
    circuits = plan.circuits.assign(**{column: plan.circuits[column] * factor})
    subject = circuits["circuit"].iloc[0]
    outcome = checks.test_circuit_carries_its_worst_load(subject, with_frame(plan, circuits=circuits))
    assert not outcome.passed
    assert "counted again" in outcome.detail
    assert checks.test_circuit_carries_its_worst_load(subject, plan).passed


def test_an_address_that_a_switch_does_not_set_is_seen(plan: Plan) -> None:
    addresses = plan.addresses
    chosen = addresses["device"].eq("leaf01") & addresses["network"].eq("loopback")
    other = with_frame(plan, addresses=addresses)
    assert chosen.sum() == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "render", lambda plan, name: "hostname " + name)
        outcome = checks.test_switch_configurations_carry_the_planned_addresses("lab", other)
    assert not outcome.passed
    assert "addresses that their switch's configuration does not set" in outcome.detail
    assert checks.test_switch_configurations_carry_the_planned_addresses("lab", plan).passed


def test_a_supply_without_an_outlet_and_an_outlet_with_two_are_seen(plan: Plan) -> None:
    first = pd.Series(plan.outlets.index == plan.outlets["device"].ne("").idxmax(), plan.outlets.index)
    bare = with_frame(plan, outlets=with_cells(plan.outlets, first, device=""))
    assert "1 supplies without an outlet, first gpu001 1" in checks.test_outlet_map_is_complete("lab", bare).detail
    doubled = with_frame(plan, outlets=pd.concat([plan.outlets, plan.outlets[first]]))
    outcome = checks.test_outlet_map_is_complete("lab", doubled)
    assert "1 outlets with two supplies" in outcome.detail
    assert not checks.test_power_labels_are_complete("lab", doubled).passed


def test_a_pdu_without_a_source_circuit_fails_the_power_labels(plan: Plan) -> None:
    outcome = checks.test_power_labels_are_complete("lab", with_frame(plan, circuits=plan.circuits.iloc[1:]))
    assert not outcome.passed
    assert "1 PDUs without a source circuit, first pdu-r01-a" in outcome.detail


def test_told_figures_that_differ_from_their_recount_are_seen(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    told = summarise(plan)
    facility = {**told["power_kw"]["site_facility"], plan.site.power.profile: {"flat": [1.0, 2.0], "pue": 3.0}}
    wrong = {
        **told,
        "power_kw": {**told["power_kw"], "site_facility": facility},
        "heat": {**told["heat"], "room_tons": told["heat"]["room_tons"] * 1.01},
    }
    monkeypatch.setattr(checks, "part", lambda _, name: wrong[name])
    assert "the plan tells 3.0 kW" in checks.test_facility_power_agrees_both_ways("lab", plan).detail
    assert not checks.test_room_heat("lab", plan).passed


def test_an_upgrade_that_drains_nobody_cuts_servers_off(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.test_upgrades_of_switches_leave_a_way_to_all_that_is_not_drained("lab", plan).passed
    monkeypatch.setattr("capacity.outputs.documents.upgrade.cut_off", lambda *_, **__: [])
    outcome = checks.test_upgrades_of_switches_leave_a_way_to_all_that_is_not_drained("lab", plan)
    assert outcome.detail == "4 devices without a way in window 11, first gpu001"


def test_a_switch_that_no_window_has_is_named(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = switch_upgrade(plan)
    monkeypatch.setattr("capacity.outputs.documents.installation.switch_upgrade", lambda _: whole.iloc[1:])
    outcome = checks.test_upgrades_of_switches_leave_a_way_to_all_that_is_not_drained("lab", plan)
    assert outcome.detail == "1 switches in the plan or the list only, first spine01"


def test_a_decision_record_that_is_not_of_this_plan_is_seen(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.test_choice_of_the_fabric_is_recorded("lab", plan).passed
    whole = options(plan)
    monkeypatch.setattr("capacity.outputs.documents.fabric_choice.options", lambda _: whole.assign(switches=13))
    outcome = checks.test_choice_of_the_fabric_is_recorded("lab", plan)
    assert "13, 64" in outcome.detail
    monkeypatch.setattr("capacity.outputs.documents.fabric_choice.options", lambda _: whole[whole["ratio"] == "1:1"])
    outcome = checks.test_choice_of_the_fabric_is_recorded("lab", plan)
    assert outcome.detail == "lab-ib-switch-8 is not compared at 2:1"
