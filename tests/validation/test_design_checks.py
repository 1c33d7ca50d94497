"""The checks of the plan's own frames find what is missing in them."""

import dataclasses
from typing import Any

import pandas as pd
import pytest

from capacity.plan import Plan, build
from inventory.site import load_site
from validation.checks import test_design as checks


@pytest.fixture(scope="module")
def plan() -> Plan:
    return build(load_site("lab"))


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
