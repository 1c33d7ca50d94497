"""Changes of a site file: only the changed lines differ, comments stay, and the values are those asked for."""

import difflib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.paths import site_dir
from inventory.site import load_site, parse_site
from inventory.site.edit import edited
from inventory.site.whatif import Base
from tests.first_sites import text_of

TEXT = text_of("h100") + "oob: {switches: 1}  # one is few\n"


def rewritten(text: str, *changes: str) -> str:
    """The text with settings of a what-if written into it."""
    site = parse_site(text)
    after = Base(site, site.given, "site.yaml").changed(list(changes))
    new = edited(text, site.given, after.given)
    assert parse_site(new).given == after.given
    return new


def changed_lines(old: str, new: str) -> list[str]:
    """Lines that differ, with + and -."""
    return [
        line
        for line in difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
        if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]


def test_a_changed_value_keeps_its_comment() -> None:
    assert changed_lines(TEXT, rewritten(TEXT, "oob.switches=6")) == [
        "-oob: {switches: 1}  # one is few",
        "+oob: {switches: 6}  # one is few",
    ]


def test_a_new_key_stands_in_its_section_or_in_a_new_one() -> None:
    new = rewritten(TEXT, "room.rows=3", "electrical.utility.growth_pct=5")
    assert "electrical: {utility: {firm_mva: 1.2, growth_pct: 5}}" in new
    assert "room:\n  rows: 3\n" in new


def test_an_entry_of_a_list_of_the_design_is_written_with_the_list() -> None:
    site = parse_site(rewritten(TEXT, "service_nodes.management.count=4"))
    assert {node.role: node.count for node in site.service_nodes}["management"] == 4


def test_a_dropped_value_of_the_design_stays_dropped_in_words() -> None:
    text = TEXT + "schedule: {activities: {racking: {after: null}, receiving: null}}\n"
    given = parse_site(text).given
    new = edited(text, given, {**given, "oob": {"switches": 2}})
    assert changed_lines(text, new) == ["-oob: {switches: 1}  # one is few", "+oob: {switches: 2}  # one is few"]


@pytest.mark.parametrize("name", ["lab", "h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"])
def test_a_shipped_file_changes_where_it_is_changed_and_where_a_long_mapping_was_wrapped(name: str) -> None:
    text = (site_dir(name) / "site.yaml").read_text()
    values = load_site(name).given
    old = f"  racks_per_row: {values['room']['racks_per_row']}"
    new = edited(text, values, {**values, "room": {**values["room"], "racks_per_row": 350}})
    plain = edited(text, values, values)
    assert [line.partition("  #")[0] for line in changed_lines(plain, new)] == [f"-{old}", "+  racks_per_row: 350"]
    assert all(re.search(r"[{\[\]]|source", line) for line in changed_lines(text, plain))
    assert text.count("#") == new.count("#")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 3000), st.integers(1, 40), st.floats(2, 4).map(lambda metres: round(metres, 2)))
def test_what_is_written_reads_back(altitude: int, rows: int, pitch: float) -> None:
    rewritten(TEXT, f"room.altitude_m={altitude}", f"room.rows={rows}", f"room.row_pitch_m={pitch}")
