"""Weather files: whole years, gaps, missing values, garbage."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.imports.core.source import ImportFault
from inventory.imports.weather.epw import COLUMNS, read_epw, read_epw_bytes

PATH = Path("town.epw")
HEADER = ["LOCATION,Town,-,UTO,Synthetic,000000,50.0,8.0,1.0,100.0", *(f"LINE {n}" for n in range(2, 9))]
DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def year(leap: bool = False) -> list[str]:
    days = [29 if leap and m == 1 else d for m, d in enumerate(DAYS)]
    return [
        f"2001,{m + 1},{d},{h},60,?9?9,{10 + 10 * (h / 24):.1f},8.5,60,101300,0,0"
        for m, length in enumerate(days)
        for d in range(1, length + 1)
        for h in range(1, 25)
    ]


def read(lines: list[str]):
    return read_epw("\n".join(HEADER + lines), PATH)


def test_a_year_has_8760_hours_and_a_leap_year_8784() -> None:
    frame = read(year())
    assert (len(frame), tuple(frame.columns)) == (8760, COLUMNS)
    assert frame.iloc[23].tolist() == [1, 1, 24, 20.0, 8.5, 60.0, 101300.0]
    assert len(read(year(leap=True))) == 8784


def test_missing_codes_are_nan() -> None:
    lines = year()
    lines[0] = "2001,1,1,1,60,?9?9,99.9,99.9,999,999999,0"
    assert read(lines).iloc[0][list(COLUMNS[3:])].isna().all()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda lines: lines[:-1], r"town.epw:8767: 8759 hours, a year has 8760: hour 8760 is missing"),
        (
            lambda lines: lines[:100] + lines[101:],
            r"town.epw:109: month 1, day 5, hour 6, where month 1, day 5, hour 5 is due",
        ),
        (lambda lines: [lines[0], *lines], r"town.epw:10: month 1, day 1, hour 1, where month 1, day 1, hour 2"),
        (lambda lines: [*lines, lines[-1]], "8761 hours"),
        (lambda lines: [lines[0].replace("101300", "1013"), *lines[1:]], r"pressure_pa is 1013, valid are 31000"),
        (lambda lines: [lines[0].replace("8.5", "x"), *lines[1:]], "no number"),
        (lambda lines: [lines[0].replace("8.5", "nan"), *lines[1:]], "dew_point_c is nan"),
        (lambda lines: ["2001,1,1", *lines[1:]], "3 columns"),
        (
            lambda lines: [line.replace(",101300,", ",999999,") for line in lines],
            "pressure_pa is missing in every hour",
        ),
        (lambda lines: [], "0 hours"),
    ],
)
def test_incomplete_years_name_the_line(change, what: str) -> None:
    with pytest.raises(ImportFault, match=what):
        read(change(year()))


def test_another_file_is_no_weather_file() -> None:
    with pytest.raises(ImportFault, match="expected LOCATION"):
        read_epw("time,temperature\n", PATH)


def test_latin_1_place_names_are_read() -> None:
    data = "\n".join([HEADER[0].replace("Town", "Zürich"), *HEADER[1:], *year()]).encode("latin-1")
    hours, place = read_epw_bytes(data, PATH)
    assert (len(hours), place) == (8760, "Zürich, UTO")


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300) | st.text(max_size=300).map(lambda t: "\n".join([*HEADER, t])))
def test_any_text_gives_a_fault(text: str) -> None:
    with pytest.raises(ImportFault):
        read_epw(text, PATH)
