"""Lines of panels and feeds: a sum by hand, shelves on all lines, and a panel whose racks load one line."""

import pandas as pd
import pytest

from capacity.model import Plan
from capacity.power.upstream import board_balance
from tests.first_sites import FIRST, first_plan
from tests.plans import plan_of
from validation.register import load_register


def of(plan: Plan, outlets: pd.DataFrame | None = None) -> pd.DataFrame:
    return board_balance.boards(
        plan.site, plan.outlets if outlets is None else outlets, plan.circuits, plan.elements
    ).set_index("name")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return first_plan("h100")


def test_lines_of_a_panel_are_the_sum_of_its_outlets_and_of_what_lies_on_all_lines(plan: Plan) -> None:
    board = of(plan).loc["rpp-A-01"]
    own = plan.elements[(plan.elements["kind"] == "circuit") & (plan.elements["upstream"] == "rpp-A-01")]
    circuits = plan.circuits[plan.circuits["circuit"].isin(own["name"])]
    mine = plan.outlets[plan.outlets["pdu"].isin(circuits["pdu"])]
    even_w = circuits["load_kw"].sum() * 1000 - mine["load_w"].sum()
    volts = 415 / 3**0.5
    by_hand = {
        line: (mine.loc[mine["phase"] == line, "load_w"].sum() + even_w / 3) / volts for line in ("L1", "L2", "L3")
    }
    assert {line: board[line] for line in by_hand} == pytest.approx(by_hand, abs=1e-3)
    assert board["half_a"] == 400 * 0.8 / 2
    spread, mean = max(by_hand.values()) - min(by_hand.values()), sum(by_hand.values()) / 3
    assert board["imbalance_pct"] == pytest.approx(100 * spread / max(mean, 160), abs=1e-3)


def test_the_lines_of_a_feed_are_those_of_its_panels(plan: Plan) -> None:
    every = of(plan)
    panels = every[(every["kind"] == "panel") & (every["feed"] == "B")]
    for line in ("L1", "L2", "L3"):
        assert every[line]["B"] == pytest.approx(panels[line].sum())


def test_power_shelves_lie_evenly_on_all_lines() -> None:
    every = of(first_plan("gb300"))
    assert every["imbalance_pct"].max() < 2
    assert every.loc["busway-A-01", ["L1", "L2", "L3"]].min() > 430


@pytest.mark.parametrize("name", FIRST)
def test_new_sites_keep_the_balance_that_s088_asks_for(name: str) -> None:
    assert of(first_plan(name))["imbalance_pct"].max() <= board_balance.STEP_MOST_PCT


def test_racks_that_load_one_line_are_a_finding_with_both_lines(plan: Plan) -> None:
    one_line = plan.outlets.assign(phase="L1")
    (found,) = board_balance.check(plan.site, of(plan, one_line).reset_index())
    assert (found.id, found.severity, found.limit) == ("POWER-BOARD-BALANCE", "warning", 10)
    assert "L1 carries" in found.message
    assert "L1 to where L2 is" in found.message


def test_a_laxer_limit_of_the_site_hides_nothing_and_a_stricter_one_counts() -> None:
    lab = plan_of("lab")
    assert lab.site.limits["board_imbalance_pct"].value == 150
    assert board_balance.limit_of(lab.site) == (10, "step S088")
    assert [one.id for one in lab.findings if one.id == "POWER-BOARD-BALANCE"]
    strict = lab.site.limits["board_imbalance_pct"].model_copy(update={"value": 5.0})
    site = lab.site.model_copy(update={"limits": {**lab.site.limits, "board_imbalance_pct": strict}})
    assert board_balance.limit_of(site) == (5, "site limits.board_imbalance_pct")


def test_the_limit_is_that_of_the_step() -> None:
    (floor,) = load_register().items["S088.computed"].limits
    assert (floor.site_limit, floor.most) == (board_balance.LIMIT, board_balance.STEP_MOST_PCT)


def test_without_a_supply_there_are_no_boards(plan: Plan) -> None:
    assert board_balance.boards(plan.site, plan.outlets, plan.circuits, plan.elements.iloc[:0]).empty
