"""Tables read the same everywhere; no text of an import becomes a formula in a spreadsheet, and numbers stay numbers."""

import csv
import io
from pathlib import Path

import pandas as pd
import pytest

from capacity.build import build
from capacity.outputs.documents import installation
from capacity.outputs.files import write_plan
from capacity.outputs.tables import Head, Table, cell, csv_text, inert
from inventory.site import load_site


@pytest.mark.parametrize("text", ['=HYPERLINK("x")', "+1", "-1+2", "@SUM(A1)", "\t=1"])
def test_a_text_that_a_spreadsheet_would_calculate_gets_an_apostrophe(text):
    rows = list(csv.reader(io.StringIO(csv_text(pd.DataFrame({"note": [text], "n": [-1.5]})))))
    assert rows[0] == ["note", "n"]
    assert rows[1] == [f"'{text}", "-1.5"]


def test_a_text_that_begins_with_a_line_break_is_kept_from_it_too():
    assert inert(pd.DataFrame({"note": ["\r=1", "\n=1"]}))["note"].tolist() == ["'\r=1", "'\n=1"]


def test_numbers_and_plain_texts_are_left_alone_even_in_a_mixed_column():
    frame = pd.DataFrame({"kw": [-1.5, 2.0], "name": ["a-b", "x=y"], "mixed": [-3, "plain"]})
    pd.testing.assert_frame_equal(inert(frame), frame)


def test_the_bill_and_the_frames_of_a_plan_carry_no_formula(tmp_path: Path) -> None:
    site = load_site("lab")
    owner = '=cmd|" /C calc"!A0'
    plan = build(site.model_copy(update={"purchase": site.purchase.model_copy(update={"owners": {"*": owner}})}))
    assert set(plan.bom["owner"]) == {owner}
    write_plan(plan, tmp_path)
    for text in (
        installation.documents(plan)["bill-of-materials.csv"],
        (tmp_path / "bom.csv").read_text(encoding="utf-8"),
    ):
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert f"'{owner}" in cells
        assert owner not in cells
    assert set(pd.read_parquet(tmp_path / "bom.parquet")["owner"]) == {owner}


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (None, 1, "–"),
        (float("nan"), 1, "–"),
        (pd.NaT, 1, "–"),
        (1234.56, 1, "1,234.6"),
        (1234.56, 2, "1,234.56"),
        (1234.56, None, "1,235"),
        (123456.7, None, "123,457"),
        (-123456.7, None, "-123,457"),
        (0.123456, None, "0.1235"),
        (12345, 1, "12,345"),
        (True, 1, "True"),
        (["a", "b"], 1, "['a', 'b']"),
        ("rack-a01", 1, "rack-a01"),
    ],
)
def test_a_cell_is_written_with_separators_and_a_dash_where_nothing_is_known(value, digits, text):
    assert cell(value, digits) == text


def test_headings_follow_from_names_and_types_of_the_columns():
    table = Table(pd.DataFrame({"rack": ["a01"], "load_kw": [1.25], "drop_l1_a": [3], "spare": [True]}))
    assert table.heads == [
        Head("Rack", False),
        Head("Load kW", True),
        Head("Drop l1 A", True),
        Head("Spare", False),
    ]
    assert list(table.labelled.columns) == ["rack", "load_kw", "drop_l1_a", "spare"]
    assert table.rows == [("a01", "1.2", "3", "True")]


def test_given_headings_stand_in_page_and_workbook_alike():
    table = Table(pd.DataFrame({"a": ["x"], "b": [2000.0]}), ("Name", "#Load kW"), digits=2)
    assert table.heads == [Head("Name", False), Head("Load kW", True)]
    assert list(table.labelled.columns) == ["Name", "Load kW"]
    assert table.rows == [("x", "2,000.00")]


def test_a_table_without_rows_keeps_its_headings():
    table = Table.of([], "Figure", "#Value")
    assert table.rows == []
    assert table.heads == [Head("Figure", False), Head("Value", True)]


def test_a_table_with_another_number_of_headings_than_columns_is_refused():
    with pytest.raises(ValueError, match="2 columns"):
        Table(pd.DataFrame({"a": [1], "b": [2]}), ("A",))
