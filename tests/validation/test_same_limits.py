"""Planner and checks draw the line at the same place, and judge by the catalogue that the plan was made with."""

import copy
import dataclasses
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.build import build
from capacity.model import Plan
from capacity.power.rack.circuits import pdu_thresholds_a
from capacity.services.slurm import design
from capacity.worst import ROUNDING, exceeds
from inventory.catalog import load_catalog
from tests.plans import plan_of
from validation import gpu_health
from validation.checks import test_design as design_checks
from validation.checks import test_slurm_policy as policy_checks


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


# ---- products of decimal numbers -----------------------------------------------------------------------------------------
def test_ninety_amperes_at_seventy_percent_are_sixty_three() -> None:
    assert int(90 * 0.7) == 62, "the trap: the product of floats is a hair too small"
    assert pdu_thresholds_a(90, 0.7) == (63, 90)


@given(breaker_a=st.integers(1, 6300), hundredths=st.integers(1, 100))
def test_thresholds_are_the_exact_product_rounded_down(breaker_a: int, hundredths: int) -> None:
    assert pdu_thresholds_a(breaker_a, hundredths / 100) == (Fraction(breaker_a * hundredths, 100) // 1, breaker_a)


# ---- the same comparison -------------------------------------------------------------------------------------------------
def with_imbalance(plan: Plan, above_pct: float) -> Plan:
    """The plan judged by a limit that its worst phase imbalance exceeds by so much."""
    worst = float(plan.circuits[["imbalance_pct", "loss_imbalance_pct"]].to_numpy().max())
    limit = plan.site.limits["phase_imbalance_pct"].model_copy(update={"value": worst - above_pct})
    return build(plan.site.model_copy(update={"limits": {**plan.site.limits, "phase_imbalance_pct": limit}}))


@pytest.mark.parametrize("above_pct", [-0.004, -ROUNDING / 2, ROUNDING / 2, 2e-6, 0.004, 1.0])
def test_phase_imbalance_is_found_by_the_planner_where_the_check_fails(plan: Plan, above_pct: float) -> None:
    judged = with_imbalance(plan, above_pct)
    found = any(finding.limit_source == "site limits.phase_imbalance_pct" for finding in judged.findings)
    pdus = judged.circuits["pdu"].unique()
    failed = any(not design_checks.test_phases_of_a_pdu_are_balanced(str(pdu), judged).passed for pdu in pdus)
    assert failed is found
    assert found is (above_pct > ROUNDING)


@pytest.mark.parametrize(("over", "passes"), [(-1e-3, True), (5e-7, True), (1e-3, False)])
@pytest.mark.parametrize("column", ["worst_kw", "worst_phase_a"])
def test_circuits_are_judged_with_the_planners_tolerance(plan: Plan, column: str, over: float, passes: bool) -> None:
    row = plan.circuits.iloc[0]
    bound = row["usable_kw"] if column == "worst_kw" else row["breaker_a"] * plan.site.power.derating
    circuits = plan.circuits.copy()
    circuits.loc[circuits["circuit"] == row["circuit"], column] = bound + over
    changed = dataclasses.replace(plan, circuits=circuits)
    assert design_checks.test_circuit_carries_its_worst_load(row["circuit"], changed).passed is passes
    if column == "worst_kw":
        assert design_checks.test_rack_survives_the_loss_of_a_feed(row["rack"], changed).passed is passes
    assert exceeds(bound + over, bound) is not passes


# ---- the plan's catalogue ------------------------------------------------------------------------------------------------
def test_checks_read_the_catalogue_that_the_plan_was_made_with(plan: Plan) -> None:
    shipped = load_catalog()
    device = shipped.device(plan.site.server.model)
    other = device.model_copy(update={"bringup": device.bringup.model_copy(update={"gpus": 4})})
    gpu = shipped.gpu(plan.site.gpu.sku)
    catalog = copy.copy(shipped)
    catalog.devices = {**shipped.devices, plan.site.server.model: other}
    catalog.gpus = {**shipped.gpus, gpu.slug: gpu.model_copy(update={"tdp_w": 1})}
    changed = dataclasses.replace(plan, catalog=catalog)
    assert {node.gpus for node in policy_checks.designed(changed).nodes} == {4}
    assert policy_checks.designed(changed) == design(changed, catalog)
    assert gpu_health.wanted_of(changed).model.tdp_w == 1
