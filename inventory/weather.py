"""The weather of a typical year: read from an EnergyPlus weather file (EPW) or from the bins of the site file.

    load_weather(site)   Weather with hours by dry and wet bulb; None without the section `weather`

Format: EnergyPlus auxiliary programs, EPW: eight header lines, then one line an hour, comma-separated: year, month, day,
hour (1 to 24), minute, data source flags, dry bulb (C), dew point (C), relative humidity (%), pressure (Pa), …
Missing values are 99.9, 99.9, 999 and 999999. The file is the user's own; none is shipped.
"""

import csv
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from inventory.site import Site

Floats = npt.NDArray[np.float64]

HEADER_LINES = 8
HOURS = (8760, 8784)
FIRST_HEADER = "LOCATION"
_COLUMNS = {"dry bulb": (6, 99.9, -70.0, 70.0), "relative humidity": (8, 999.0, 0.0, 110.0),
            "pressure": (9, 999999.0, 31000.0, 120000.0)}  # fmt: skip
"""Column, value that means missing, and the span that the format allows."""


class WeatherError(Exception):
    """A weather file that cannot be used; the message names file, line, what was expected and the way out."""


@dataclass(frozen=True)
class Epw:
    """Hourly values: dry bulb in C, relative humidity 0..1, pressure in Pa; `place` as the file's header says."""

    place: str
    dry_c: Floats
    humidity: Floats
    pressure_pa: Floats


@dataclass(frozen=True)
class Weather:
    """A year: `hours[i]` at dry bulb `dry_c[i]` with wet bulb `wet_c[i]`, or with `humidity` and `pressure_pa`, from
    which the wet bulb follows (`wet_c` is then empty). `digest` is the SHA-256 of the values.
    """

    place: str
    dry_c: Floats
    wet_c: Floats
    hours: Floats
    humidity: Floats
    pressure_pa: Floats
    digest: str


def parse_epw(text: str, name: str) -> Epw:
    """Read an EPW file's text; `name` stands in the messages of WeatherError."""
    lines = text.splitlines()
    if not lines or not lines[0].upper().startswith(FIRST_HEADER):
        raise WeatherError(f"{name}:1: not an EPW file: the first line starts with LOCATION in one; name the .epw file")
    head = lines[0].split(",")
    place = ", ".join(part.strip() for part in head[1:4] if part.strip() not in ("", "-"))
    rows: list[tuple[float, ...]] = []
    expected: tuple[int, int, int] | None = None
    for number, cells in enumerate(csv.reader(io.StringIO("\n".join(lines[HEADER_LINES:]))), HEADER_LINES + 1):
        if not cells or not any(cell.strip() for cell in cells):
            continue
        rows.append(_values(cells, f"{name}:{number}"))
        at = _time(cells, f"{name}:{number}")
        if expected is not None and at != expected:
            missing = f"month {expected[0]}, day {expected[1]}, hour {expected[2]}"
            raise WeatherError(
                f"{name}:{number}: found month {at[0]}, day {at[1]}, hour {at[2]} where {missing} comes next: hours are "
                "missing or out of order; take the file from its source again"
            )
        expected = _next(at)
    if len(rows) not in HOURS:
        raise WeatherError(
            f"{name}: {len(rows)} hours; a year has {HOURS[0]} (leap year {HOURS[1]}): take a file of a whole year"
        )
    table = np.array(rows, dtype=np.float64)
    return Epw(place, table[:, 0], np.clip(table[:, 1] / 100, 0.0, 1.0), table[:, 2])


def _values(cells: list[str], at: str) -> tuple[float, ...]:
    if len(cells) < 10:
        raise WeatherError(
            f"{at}: {len(cells)} columns; an EPW line has 35, ten of which are needed; the line is cut off"
        )
    values = []
    for what, (column, missing, low, high) in _COLUMNS.items():
        try:
            value = float(cells[column])
        except ValueError:
            raise WeatherError(f"{at}: {what} {cells[column]!r} in column {column + 1} is no number") from None
        if abs(value) >= missing or not low <= value <= high:
            raise WeatherError(
                f"{at}: {what} is {value:g}, which means missing or impossible ({low:g} to {high:g}); fill the gap or "
                "take another file"
            )
        values.append(value)
    return tuple(values)


def _time(cells: list[str], at: str) -> tuple[int, int, int]:
    try:
        return int(cells[1]), int(cells[2]), int(cells[3])
    except ValueError:
        raise WeatherError(f"{at}: month, day and hour are {cells[1:4]}, not numbers") from None


_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _next(at: tuple[int, int, int]) -> tuple[int, int, int] | None:
    """The hour after; None where two may follow (after 28 February) or where the year ends."""
    month, day, hour = at
    if hour < 24:
        return month, day, hour + 1
    if month == 2 and day == 28:
        return None
    if month == 2 and day == 29:
        return 3, 1, 1
    if not 1 <= month <= 12 or day < _DAYS[month - 1]:
        return month, day + 1, 1
    return (month + 1, 1, 1) if month < 12 else None


def load_weather(site: Site) -> Weather | None:
    """The site's weather; None without the section. WeatherError when its file cannot be used."""
    given = site.weather
    if given is None:
        return None
    none = np.zeros(0)
    if given.epw is None:
        dry, wet, hours = (np.array([getattr(one, k) for one in given.bins]) for k in ("dry_c", "wet_c", "hours"))
        return Weather(given.source, dry, wet, hours, none, none, _digest(dry, wet, hours))
    path = site.dir / Path(given.epw).expanduser()
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise WeatherError(
            f"{path}: {error.strerror or error}: weather.epw of the site file names it, relative to the site file's "
            "folder; put the file there or correct the path"
        ) from None
    read = parse_epw(text, str(given.epw))
    hours = np.ones(len(read.dry_c))
    digest = _digest(read.dry_c, read.humidity, read.pressure_pa)
    return Weather(read.place or given.epw, read.dry_c, none, hours, read.humidity, read.pressure_pa, digest)


def _digest(*columns: Floats) -> str:
    found = hashlib.sha256()
    for column in columns:
        found.update(np.round(column, 6).astype("<f8").tobytes() + b"\x1e")
    return found.hexdigest()
