"""No text of an import becomes a formula in a spreadsheet, and numbers stay numbers."""

import csv
import io
from pathlib import Path

import pandas as pd
import pytest

from capacity.build import build
from capacity.outputs.documents import installation
from capacity.outputs.files import write_plan
from capacity.outputs.tables import csv_text, inert
from inventory.site import load_site


@pytest.mark.parametrize("text", ['=HYPERLINK("x")', "+1", "-1+2", "@SUM(A1)", "\t=1"])
def test_a_text_that_a_spreadsheet_would_calculate_gets_an_apostrophe(text):
    row = list(csv.reader(io.StringIO(csv_text(pd.DataFrame({"note": [text], "n": [-1.5]}), "head"))))
    assert row[0] == ["# head"]
    assert row[2] == [f"'{text}", "-1.5"]


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
