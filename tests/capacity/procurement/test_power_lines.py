"""The supply above the racks in the bill of materials: each element of the tree is bought, once."""

import pandas as pd
import pytest

from capacity.model import Plan
from capacity.procurement import bom, power_lines
from inventory.site.sections.purchase import BOM_ITEMS
from inventory.site.sections.schedule import LEADTIME_ITEMS
from tests.plans import plan_of

KINDS = {
    "medium voltage switchgear": "intake",
    "transformer": "transformer",
    "switchboard": "switchboard",
    "generator": "generator",
    "pdu transformer": "pdu_transformer",
    "panel": "panel",
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("b200-256-roce")


@pytest.mark.parametrize(("item", "kind"), KINDS.items())
def test_every_element_of_the_tree_is_bought(plan: Plan, item: str, kind: str) -> None:
    bought = int(plan.bom.loc[plan.bom["item"] == item, "quantity"].sum())
    assert bought == int((plan.elements["kind"] == kind).sum()) > 0


def test_boards_with_generators_behind_them_take_transfer_switches(plan: Plan) -> None:
    boards = plan.elements[plan.elements["kind"] == "switchboard"]
    behind = int(boards["alternates"].str.contains("genbus-").sum())
    assert int(plan.bom.loc[plan.bom["item"] == "transfer switch", "quantity"].sum()) == behind > 0


def test_models_say_rating_and_voltage_and_differ_by_them() -> None:
    columns = ["name", "kind", "rating", "unit", "voltage_v", "alternates"]
    rows = [
        ("mv-A", "intake", 630.0, "A", 13800.0, ""),
        ("tx-A-1", "transformer", 1000.0, "kVA", 480.0, ""),
        ("tx-A-2", "transformer", 1000.0, "kVA", 480.0, ""),
        ("tx-B-1", "transformer", 1500.0, "kVA", 480.0, ""),
    ]
    made = power_lines.lines(pd.DataFrame(rows, columns=columns))
    assert [(line.model, line.quantity) for line in made] == [
        ("630 A, 13.8 kV", 1),
        ("1000 kVA, 480 V", 2),
        ("1500 kVA, 480 V", 1),
    ]


def test_a_site_without_a_planned_supply_buys_none(plan: Plan) -> None:
    assert power_lines.lines(plan.elements.iloc[:0]) == []


def test_items_are_known_to_prices_and_wait_for_a_lead_time() -> None:
    items = {*KINDS, "transfer switch"}
    assert items <= set(BOM_ITEMS)
    assert {bom.LEADS[item] for item in items} <= set(LEADTIME_ITEMS)
