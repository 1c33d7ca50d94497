"""EnergyPlus weather files (EPW): hourly dry bulb, dew point, relative humidity and pressure of a year.

Format: EnergyPlus Auxiliary Programs, "EnergyPlus Weather File (EPW) Data Dictionary": eight header lines, then one line
an hour; fields 1 to 5 year, month, day, hour (1 to 24, the hour that ends then), minute; 7 dry bulb C, 8 dew point C,
9 relative humidity %, 10 pressure Pa (columns 6 to 9 counted from 0). 99.9, 99.9, 999 and 999999 mean: missing.
"""

import csv
import io
import math
from pathlib import Path

import pandas as pd

from inventory.imports.core.source import ImportFault

HEADER_LINES = 8
HOURS = (8760, 8784)
"""Hours of a year and of a leap year."""
COLUMNS = ("month", "day", "hour", "dry_bulb_c", "dew_point_c", "rh_pct", "pressure_pa")

_FIRST = "LOCATION"
_FIELDS = {
    "dry_bulb_c": (6, 99.9, -70.0, 70.0),
    "dew_point_c": (7, 99.9, -70.0, 70.0),
    "rh_pct": (8, 999.0, 0.0, 110.0),
    "pressure_pa": (9, 999999.0, 31000.0, 120000.0),
}
"""Column, code of a missing value, and the valid range of the data dictionary."""


def read_epw(text: str, path: Path) -> pd.DataFrame:
    """The hours of a weather file: columns month, day, hour (1 to 24), dry_bulb_c, dew_point_c, rh_pct, pressure_pa.

    8,760 rows, or 8,784 where 29 February is in the file. Missing values are NaN. ImportFault for another header, missing,
    repeated or unordered hours (it names the first), a value that is no number or out of range, or a column that is
    missing altogether.
    """
    lines = text.splitlines()
    if not lines or not lines[0].upper().startswith(_FIRST):
        found = lines[0][:40] if lines else ""
        what = f"the first line begins with {found!r}, expected LOCATION"
        raise ImportFault(path, what, "give an EPW file as EnergyPlus, Climate.OneBuilding or PVGIS offer it", 1)
    rows: list[tuple[float, ...]] = []
    places: list[int] = []
    body = csv.reader(io.StringIO("\n".join(lines[HEADER_LINES:])))
    try:
        for n, cells in enumerate(body, start=HEADER_LINES + 1):
            if any(cell.strip() for cell in cells):
                rows.append(_row(cells, path, n))
                places.append(n)
    except csv.Error as error:
        raise ImportFault(path, f"not CSV: {error}", "download the file again", HEADER_LINES + 1 + len(rows)) from None
    _complete(rows, places, path)
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"month": "int64", "day": "int64", "hour": "int64"})
    for column in _FIELDS:
        if frame[column].isna().all():
            raise ImportFault(path, f"{column} is missing in every hour", "take a weather file that has it")
    return frame


def read_epw_bytes(data: bytes, path: Path) -> tuple[pd.DataFrame, str]:
    """`read_epw` of a file's bytes, and city, region and country of its header: UTF-8, else Latin-1 (old files)."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    hours = read_epw(text, path)
    named = (part.strip() for part in text.splitlines()[0].split(",")[1:4])
    return hours, ", ".join(part for part in named if part not in ("", "-"))


def _row(cells: list[str], path: Path, line: int) -> tuple[float, ...]:
    if len(cells) < 10:
        what = f"{len(cells)} columns, expected at least 10"
        raise ImportFault(path, what, "the file was cut short or is no EPW file: download it again", line)
    try:
        month, day, hour = (int(cells[n]) for n in (1, 2, 3))
        values = {name: float(cells[spec[0]]) for name, spec in _FIELDS.items()}
    except ValueError:
        what = f"a cell that is no number in {','.join(cells[:10])[:80]!r}"
        raise ImportFault(path, what, "download the file again", line) from None
    if not (1 <= month <= 12 and 1 <= day <= 31 and 1 <= hour <= 24):
        raise ImportFault(
            path,
            f"month {month}, day {day}, hour {hour} is no hour of a year (hours are 1 to 24)",
            "correct the file",
            line,
        )
    for name, (_, missing, low, high) in _FIELDS.items():
        value = values[name]
        if value >= missing:
            values[name] = math.nan
        elif not low <= value <= high:
            what = f"{name} is {value:g}, valid are {low:g} to {high:g}"
            raise ImportFault(path, what, f"correct it, or write {missing:g} for a missing value", line)
    return month, day, hour, *values.values()


def _complete(rows: list[tuple[float, ...]], places: list[int], path: Path) -> None:
    """Each hour of the year once, in order; ImportFault names the first that is not."""
    leap = any(row[:2] == (2, 29) for row in rows)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    expected = [(m + 1, d + 1, h + 1) for m, length in enumerate(days) for d in range(length) for h in range(24)]
    do = "an hourly file of a whole year is needed: take the file of another source, or fill the gap with the hours around it"
    for wanted, row, line in zip(expected, rows, places, strict=False):
        if row[:3] != wanted:
            what = f"month {row[0]}, day {row[1]}, hour {row[2]}, where month {wanted[0]}, day {wanted[1]}, hour {wanted[2]} is due"
            raise ImportFault(path, f"{what} ({len(rows)} hours in the file, a year has {len(expected)})", do, line)
    if len(rows) != len(expected):
        what = f"{len(rows)} hours, a year has {HOURS[leap]}"
        last = places[-1] if places else HEADER_LINES
        raise ImportFault(
            path, f"{what}: hour {len(rows) + 1} is missing" if len(rows) < len(expected) else what, do, last
        )
