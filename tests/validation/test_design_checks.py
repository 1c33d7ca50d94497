"""The checks of the plan's own frames find what is missing in them."""

import dataclasses
from typing import Any

import pandas as pd
import pytest

from capacity.model import Plan
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
