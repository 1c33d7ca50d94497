"""Typical halls: what is kept of their studies is what a study finds, and of the ranges that the designs have today."""

from typing import Any

import pytest

from capacity.whatif import sensitivity, typical
from capacity.whatif.typical import HALLS, hall_of
from inventory.site.effective import offers
from inventory.site.new import Wanted
from inventory.site.typical_halls import FILE, MEASURES, Typical, halls, like
from inventory.site.whatif import Base

ANEW = "python -m capacity.whatif.typical"
NAMES = [" ".join((one.gpu, one.fabric, one.power_code)) for one in HALLS]


def rows_of(wanted: Wanted) -> dict[str, Typical]:
    """The rows of a hall in the file, by key."""
    hall = like(hall_of(wanted))
    return {key: row for key, all_ in halls().items() for row in all_ if row.hall == hall}


@pytest.mark.parametrize("wanted", HALLS, ids=NAMES)
def test_a_hall_has_each_assumption_of_its_design_with_the_range_of_today(wanted: Wanted) -> None:
    site = hall_of(wanted)
    today = {one.key: (one.at("low"), one.value, one.at("high")) for one in sensitivity.assumptions(site)}
    kept = {key: (row.low, row.value, row.high) for key, row in rows_of(wanted).items()}
    assert kept == today, f"the ranges of {site.based_on} changed: {ANEW}"
    assert {row.servers for row in rows_of(wanted).values()} == {site.server.count}


def test_there_is_a_hall_of_every_design_that_is_offered() -> None:
    assert {hall_of(wanted).based_on[0] for wanted in HALLS} == set(offers().values())


SAMPLE = ("cooling.plant.chiller_cop", "leadtimes.transformer.max_weeks", "storage.usable_pb")


def test_a_study_of_today_finds_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of one hall, within a tenth: what moved further is a planner that changed."""
    every = sensitivity.assumptions
    monkeypatch.setattr(sensitivity, "assumptions", lambda site: [one for one in every(site) if one.key in SAMPLE])
    site = hall_of(HALLS[0])
    found = sensitivity.study(Base(site, site.given, "typical"), workers=1)
    kept = rows_of(HALLS[0])
    made = {row["key"]: row for row in typical.rows(site, found)}
    assert made.keys() == set(SAMPLE)
    for key, row in made.items():
        for measure in MEASURES:
            now = [float(row[f"{measure}_{end}"]) for end in ("low", "high")]
            assert now == pytest.approx(kept[key].changes[measure], rel=0.1, abs=0.005), f"{key}: {ANEW}"


def test_the_file_is_written_as_it_is_read() -> None:
    small: list[dict[str, Any]] = [{"designs": "a b", "key": "rack.servers", "low": "2", "cost_low": ""}]
    head, line = typical.text_of(small).splitlines()
    assert head == FILE.read_text(encoding="utf-8").partition("\n")[0]
    assert line.startswith("a b,,,,rack.servers,2,")
