"""EPW files and weather bins: synthetic years made here, and every way such a file can be wrong."""

import datetime
import math
from pathlib import Path

import pytest

from inventory.imports.weather.epw import read_epw
from inventory.imports.weather.typical_year import Weather, WeatherError, gaps, load_weather
from inventory.site import Site, load_site
from inventory.site.sections.weather import Weather as Section
from tests.findings import names

HEADER = [
    "LOCATION,Made Up,-,UTO,synthetic,000000,50.0,8.0,1.0,100.0",
    "DESIGN CONDITIONS,0",
    "TYPICAL/EXTREME PERIODS,0",
    "GROUND TEMPERATURES,0",
    "HOLIDAYS/DAYLIGHT SAVINGS,No,0,0,0",
    "COMMENTS 1,made in a test",
    "COMMENTS 2,",
    "DATA PERIODS,1,1,Data,Sunday, 1/ 1,12/31",
]


def hour_line(month: int, day: int, hour: int, dry: float, dew: float, humidity: float, pressure: float) -> str:
    """An EPW line: what nobody reads here is missing, as the format writes it."""
    rest = ["9999"] * 25
    return ",".join([str(v) for v in (2001, month, day, hour, 0, "?9", dry, dew, humidity, pressure)] + rest)


def year(days: int = 365) -> list[str]:
    """A synthetic year: 10 C on average, 12 K of season and 5 K of day, 70 % relative humidity."""
    first = datetime.date(2001, 1, 1) if days == 365 else datetime.date(2004, 1, 1)
    lines = []
    for n in range(days):
        date = first + datetime.timedelta(days=n)
        season = -math.cos(2 * math.pi * n / days)
        for hour in range(1, 25):
            dry = 10 + 12 * season - 5 * math.cos(2 * math.pi * (hour - 3) / 24)
            lines.append(hour_line(date.month, date.day, hour, round(dry, 1), round(dry - 5, 1), 70, 101325))
    return lines


def epw(lines: list[str]) -> str:
    return "\n".join([*HEADER, *lines]) + "\n"


def with_weather(section: Section | None, path: Path | None = None) -> Site:
    site = load_site("lab").model_copy(update={"weather": section})
    if path is not None:
        site._path = path / "site.yaml"
    return site


def loaded(text: str, folder: Path) -> Weather:
    (folder / "made.epw").write_text(text, encoding="utf-8")
    read = load_weather(with_weather(Section(epw="made.epw", source="made up"), folder))
    assert read is not None
    return read


@pytest.mark.parametrize(("days", "hours"), [(365, 8760), (366, 8784)])
def test_a_year_is_read_hour_by_hour(days: int, hours: int, tmp_path: Path) -> None:
    read = loaded(epw(year(days)), tmp_path)
    assert read.place == "Made Up, UTO"
    assert len(read.dry_c) == hours
    assert read.dry_c.mean() == pytest.approx(10, abs=0.1)
    assert read.humidity.max() == read.humidity.min() == 0.7
    assert read.pressure_pa[0] == 101325
    assert read.hours.sum() == hours


def test_a_missing_dew_point_is_no_obstacle(tmp_path: Path) -> None:
    """Wet bulb follows from dry bulb, humidity and pressure."""
    lines = year()
    lines[7] = hour_line(1, 1, 8, 12, 99.9, 70, 101325)
    assert len(loaded(epw(lines), tmp_path).dry_c) == 8760


def test_import_and_plan_judge_missing_hours_alike(tmp_path: Path) -> None:
    lines = year()
    for n in range(100, 110):
        lines[n] = hour_line(1, n // 24 + 1, n % 24 + 1, 99.9, 99.9, 999, 101325)
    found = gaps(read_epw(epw(lines), tmp_path / "made.epw"))
    assert [(f.severity, f.numbers["hours"]) for f in found] == [("error", 10), ("error", 10)]
    with pytest.raises(WeatherError) as refused:
        loaded(epw(lines), tmp_path)
    assert names(refused.value.finding, found[0].subject, "dry_bulb_c", 10)
    assert names(found[0], "dry_bulb_c", 10)
    assert len(refused.value.finding.remedies) == len(found[0].remedies) == 2


def spoilt(change: str) -> str:
    lines = year()
    match change:
        case "missing hour":
            del lines[100]
        case "cut off":
            lines = lines[:4000]
        case "no number":
            lines[7] = lines[7].replace(",70,", ",wet,")
        case "missing value":
            lines[7] = hour_line(1, 1, 8, 99.9, 99.9, 70, 101325)
        case "missing humidity":
            lines[7] = hour_line(1, 1, 8, 12, 5, 999, 101325)
        case "missing pressure":
            lines[7] = hour_line(1, 1, 8, 12, 5, 70, 999999)
        case "impossible":
            lines[7] = hour_line(1, 1, 8, 12, 5, 70, 1013)
        case "short line":
            lines[7] = "2001,1,1,8,0,?9,10.0"
        case "swapped":
            lines[7], lines[8] = lines[8], lines[7]
        case "date":
            lines[7] = lines[7].replace("2001,1,1,8", "2001,Jan,1,8")
    return epw(lines)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("missing hour", r"made\.epw:109: month 1, day 5, hour 6, where month 1, day 5, hour 5 is due"),
        ("cut off", r"made\.epw:4008: 4000 hours, a year has 8760(.|\n)*take the file of another source"),
        ("no number", r"made\.epw:16: a cell that is no number in '2001,1,1,8,0,\?9,.*,wet,"),
        ("missing value", r"made\.epw: month 1, day 1, hour 8: dry_bulb_c is missing in 1 hours .*Fix: fill the gap"),
        ("missing humidity", r"made\.epw: month 1, day 1, hour 8: rh_pct is missing in 1 hours .*Fix: fill the gap"),
        (
            "missing pressure",
            r"made\.epw: month 1, day 1, hour 8: pressure_pa is missing in 1 hours .*Fix: fill the gap",
        ),
        ("impossible", r"made\.epw:16: pressure_pa is 1013, valid are 31000 to 120000"),
        ("short line", r"made\.epw:16: 7 columns, expected at least 10"),
        ("swapped", r"made\.epw:16: month 1, day 1, hour 9, where month 1, day 1, hour 8 is due"),
        ("date", r"made\.epw:16: a cell that is no number in '2001,Jan,1,8,"),
    ],
)
def test_a_spoilt_file_is_refused_at_its_place(change: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(WeatherError, match=words):
        loaded(spoilt(change), tmp_path)


def test_the_file_lies_beside_the_site_file(tmp_path: Path) -> None:
    (tmp_path / "place.epw").write_text(epw(year()))
    read = load_weather(with_weather(Section(epw="place.epw", source="made up"), tmp_path))
    assert read is not None
    assert read.hours.sum() == 8760
    assert len(read.digest) == 64


def test_a_file_that_is_not_there_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(WeatherError, match=r"place\.epw: No such file or directory.*weather\.epw") as refused:
        load_weather(with_weather(Section(epw="place.epw", source="made up"), tmp_path))
    found = refused.value.finding
    assert (found.id, found.severity, found.subject) == ("COOLING-WEATHER", "error", "weather.epw")
    assert names(found, str(tmp_path / "place.epw"))
    assert len(found.remedies) == 2


def test_a_home_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeatherError, match="no home directory") as refused:
        load_weather(with_weather(Section(epw="~nobody-of-this-name/x.epw", source="made up"), tmp_path))
    assert names(refused.value.finding, "~nobody-of-this-name/x.epw")


def test_a_file_of_another_format_says_what_to_do_instead(tmp_path: Path) -> None:
    with pytest.raises(WeatherError) as refused:
        loaded("hour,dry\n1,2\n", tmp_path)
    assert names(refused.value.finding, "LOCATION", f"{tmp_path / 'made.epw'}:1")
    assert "EPW file" in refused.value.finding.remedies[0].text


def test_bins_make_a_year_and_without_the_section_there_is_none() -> None:
    read = load_weather(load_site("lab"))
    assert read is not None
    assert read.hours.sum() == 8760
    assert load_weather(with_weather(None)) is None
