"""The purchase workbook, read back by openpyxl."""

import io

import openpyxl
import pandas as pd
import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.outputs import workbook
from capacity.whatif import compare, page
from inventory.site import load_site
from inventory.site.whatif import changed
from tests.plans import plan_of


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("b200-256-roce")


def test_every_line_is_in_the_workbook(plan: Plan) -> None:
    back = pd.read_excel(io.BytesIO(workbook.purchase(plan)), sheet_name="Bill of materials")
    assert len(back) == len(plan.bom)
    assert back["Quantity"].sum() == plan.bom["quantity"].sum()
    assert back["Cost"].sum() == pytest.approx(plan.bom["cost"].sum())


def test_what_comes_inside_is_ordered_as_spares_only(plan: Plan) -> None:
    bill = workbook.bill(plan)
    inside = bill["supplied_with"] != ""
    assert (bill.loc[inside, "order"] == bill.loc[inside, "spares"]).all()


def test_the_first_sheet_says_which_plan(plan: Plan) -> None:
    sheet = openpyxl.load_workbook(io.BytesIO(workbook.purchase(plan)))["Purchase"]
    assert plan.hash in {row[1].value for row in sheet.iter_rows()}


def test_equal_plans_give_equal_bytes(plan: Plan) -> None:
    assert workbook.purchase(plan) == workbook.purchase(build(load_site("b200-256-roce")))


def test_text_that_looks_like_a_formula_stays_text(plan: Plan) -> None:
    site = changed("b200-256-roce", ['purchase.owners={"*": "=1+1"}'])
    sheet = openpyxl.load_workbook(io.BytesIO(workbook.purchase(build(site))))["Bill of materials"]
    owners = [cell for cell in sheet["I"][1:] if cell.value]
    assert owners
    assert {cell.data_type for cell in owners} == {"s"}
    assert "=1+1" in {cell.value for cell in owners}


def test_a_change_downwards_is_shown_without_an_apostrophe(plan: Plan) -> None:
    made = compare.compare(plan, build(changed("b200-256-roce", ["server.count=31"])))
    sheet = openpyxl.load_workbook(io.BytesIO(page.workbook(made)))["Figures"]
    shown = {row[1].value: row[5].value for row in sheet.iter_rows(min_row=2)}
    assert shown["GPUs"] == "-8 (-3.1 %)"


def test_comparison_holds_the_lines_that_differ(plan: Plan) -> None:
    other = build(changed("b200-256-roce", ["server.count=31"]))
    made = compare.compare(plan, other)
    back = pd.read_excel(io.BytesIO(page.workbook(made)), sheet_name="Bill of materials")
    assert len(back) == len(made.bom) > 0
