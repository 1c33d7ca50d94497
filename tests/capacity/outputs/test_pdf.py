"""Sheets to print: a page for each panel and each isolation point, stamped, the same for the same plan."""

import re
import zlib
from collections import Counter

import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.documents import power as electrical
from capacity.outputs.pdf import _each, prints
from capacity.outputs.report import one_line, sheets
from inventory.site import load_site
from inventory.site.whatif import changed
from tests.plans import plan_of


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


@pytest.fixture(scope="module")
def papers(plan: Plan) -> dict[str, bytes]:
    return prints(plan)


def pages(pdf: bytes) -> int:
    """Pages of a PDF: the largest count of its page tree, which may lie in compressed objects."""
    bodies = [pdf, *(inflated(raw) for raw in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL))]
    nodes = [node for body in bodies for node in re.findall(rb"<<[^<>]*/Type\s*/Pages[^<>]*>>", body)]
    return max(int(count) for node in nodes for count in re.findall(rb"/Count\s+(\d+)", node))


def inflated(raw: bytes) -> bytes:
    try:
        return zlib.decompress(raw)
    except zlib.error:
        return b""


def test_every_set_is_a_pdf_with_a_page_for_each_sheet(plan, papers):
    assert all(content.startswith(b"%PDF-") for content in papers.values())
    assert set(papers) == {"drawings.pdf", "rack-elevations.pdf", "panel-schedules.pdf", "lockout-sheets.pdf"}
    assert pages(papers["panel-schedules.pdf"]) == int((plan.elements["kind"] == "panel").sum())
    assert pages(papers["lockout-sheets.pdf"]) == len(plan.elements)


def test_each_sheet_holds_the_rows_of_its_panel_and_their_sum(plan):
    table = electrical.panel_schedule(plan)
    for sheet, (panel, rows) in zip(
        _each(table, "panel", "Panel", ("load_kw",)), table.groupby("panel", sort=False), strict=True
    ):
        assert sheet["name"] == f"Panel {panel}"
        assert len(sheet["rows"]) == len(rows)
        said = dict(sheet["head"]) | dict.fromkeys(sheet["columns"], "")
        assert len(said) == len(table.columns) - 1  # every column stands above the table or in it
        assert sheet["totals"][sheet["columns"].index("Load kW")] == f"{rows['load_kw'].sum():,.4g}"


def test_each_isolation_point_has_its_steps_on_one_sheet(plan):
    table = electrical.lockout_sheets(plan)
    made = _each(table, "isolation_point", "Lockout", signed=True)
    assert [sheet["name"] for sheet in made] == [
        f"Lockout {name}" for name in table["isolation_point"].drop_duplicates()
    ]
    assert sum(len(sheet["rows"]) for sheet in made) == len(table)


def test_the_same_plan_gives_the_same_bytes(plan, papers):
    assert prints(build(load_site("lab"))) == papers


def test_a_site_without_a_planned_supply_prints_the_rest():
    bare = build(load_site("lab").model_copy(update={"electrical": None}))
    assert set(prints(bare)) == {"drawings.pdf", "rack-elevations.pdf"}


@pytest.mark.parametrize("name", ["h100-1000-ib", "b200-256-roce"])
def test_each_part_of_the_printed_one_line_diagram_is_readable_on_a3(name: str) -> None:
    """Letters of 10 px on a sheet of 390 mm x 250 mm inside its margins: at least 2.5 mm high (ISO 3098-1, smallest lettering)."""
    for picture in one_line.pages(plan_of(name)):
        width, height = sheets.size_px(picture)
        assert 10 * min(390 / width, 250 / height) >= 2.5


def test_the_one_line_diagram_shows_breakers_and_the_feeders_of_the_panels() -> None:
    plan = plan_of("b200-256-roce")
    electrical = plan.site.electrical
    assert electrical is not None
    drawn = one_line.draw(plan)
    assert electrical.panels.feeder.size in drawn
    boards = drawn.count('width="7"')
    assert boards >= 4 * int((plan.elements["kind"] == "switchboard").sum() // 2)


def test_the_one_line_diagram_counts_the_rack_breakers_of_each_size() -> None:
    """Racks of switches and of storage have smaller breakers than those of servers; the largest alone stood for all."""
    plan = build(changed("b200-256-roce", ["power.network_circuit.breaker_a=30", "power.storage_circuit.breaker_a=20"]))
    texts = re.findall(r">(?:\d+x)?\d+(?:, \d+x\d+)* A<", one_line.draw(plan))
    drawn: Counter[float] = Counter()
    for text in texts:
        for part in text.strip("><").removesuffix(" A").split(", "):
            count, _, size = part.rpartition("x")
            drawn[float(size)] += int(count)
    assert drawn == Counter(plan.circuits["breaker_a"].tolist())
    assert len(drawn) == 3


def test_every_source_and_every_feeder_of_the_one_line_diagram_has_its_breaker() -> None:
    plan = plan_of("b200-256-roce")
    drawn, kinds = one_line.draw(plan), plan.elements["kind"].value_counts()
    trains = int((plan.elements["kind"] == "ups").sum())
    entries = sum(
        1 + len([other for other in row.split("; ") if other])
        for row in plan.elements.loc[plan.elements["kind"] == "intake", "alternates"]
    )
    boards = int(kinds["switchboard"])
    # into each intake; above and below each transformer, below each board, behind its UPS, at its racks; generators to boards
    assert drawn.count('width="7"') == entries + 2 * boards + boards + 2 * trains + kinds["generators"] + boards
    assert all(line in drawn for line in one_line.LEGEND)
