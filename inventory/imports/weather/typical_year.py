"""The weather of a typical year: read from an EnergyPlus weather file (EPW) or from the bins of the site file.

    load_weather(site)   Weather with hours by dry and wet bulb; None without the section `weather`

The format is read by `inventory.imports.weather.epw`. The file is the user's own; none is shipped.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.findings import Finding, finding, remedy
from inventory.imports.core.source import ImportFault
from inventory.imports.weather.epw import read_epw_bytes
from inventory.paths import MAX_TABLE, read_file
from inventory.secrets import SecretError, site_path
from inventory.site import Site

Floats = npt.NDArray[np.float64]

_FORMAT = "EnergyPlus EPW format"
_NEEDED = ("dry_bulb_c", "rh_pct", "pressure_pa")


class WeatherError(Exception):
    """A weather file that cannot be used. `finding`, COOLING-WEATHER, names file, place, what was expected and what to do."""

    def __init__(self, found: Finding) -> None:
        super().__init__(found.message)
        self.finding = found


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


def load_weather(site: Site) -> Weather | None:
    """The site's weather; None without the section. WeatherError when its file cannot be used."""
    given = site.weather
    if given is None:
        return None
    none = np.zeros(0)
    if given.epw is None:
        dry, wet, hours = (np.array([getattr(one, k) for one in given.bins]) for k in ("dry_c", "wet_c", "hours"))
        return Weather(given.source, dry, wet, hours, none, none, _digest(dry, wet, hours))
    try:
        path = site_path(given.epw, site.dir)
    except SecretError:  # its one reason for a path: no home directory
        raise WeatherError(
            finding(
                "COOLING-WEATHER",
                "weather.epw",
                case="home",
                limit_source=_FORMAT,
                words={"path": given.epw},
                remedies=[remedy(fix="whole-path")],
            )
        ) from None
    try:
        read, place = read_epw_bytes(read_file(path, MAX_TABLE), path)
    except OSError as error:
        raise WeatherError(
            finding(
                "COOLING-WEATHER",
                "weather.epw",
                case="unreadable",
                limit_source=_FORMAT,
                words={"path": path, "problem": error.strerror or error},
                remedies=[remedy(fix="file"), remedy(fix="path")],
            )
        ) from None
    except ImportFault as fault:
        raise WeatherError(
            finding(
                "COOLING-WEATHER",
                "weather.epw",
                case="format",
                limit_source=_FORMAT,
                words={"place": path if fault.line is None else f"{path}:{fault.line}", "problem": fault.what},
                remedies=[remedy(fix="format", change=fault.do)],
            )
        ) from None
    return _year(read, place or given.epw, path)


def gaps(read: pd.DataFrame) -> list[Finding]:
    """IMPORT-WEATHER-GAP, an error, for each value from which wet bulb follows that hours of a year lack."""
    return [
        finding(
            "IMPORT-WEATHER-GAP",
            first,
            hours=hours,
            words={"column": column},
            remedies=[remedy(fix="fill"), remedy(fix="other-file")],
        )
        for column, hours, first in _missing(read)
    ]


def _missing(read: pd.DataFrame) -> Iterator[tuple[str, int, str]]:
    """Column, hours without a value and the first of them, for each column of _NEEDED that lacks some."""
    for column in _NEEDED:
        missing = read[read[column].isna()]
        if len(missing):
            first = missing.iloc[0]
            yield column, len(missing), f"month {first['month']:g}, day {first['day']:g}, hour {first['hour']:g}"


def _year(read: pd.DataFrame, place: str, path: Path) -> Weather:
    """The hours as arrays; WeatherError names the first hour without one of the values from which wet bulb follows."""
    for column, hours, first in _missing(read):
        raise WeatherError(
            finding(
                "COOLING-WEATHER",
                "weather.epw",
                case="gap",
                limit_source=_FORMAT,
                words={"path": path, "column": column, "hours": hours, "first": first},
                remedies=[remedy(fix="fill"), remedy(fix="other-file")],
            )
        )
    dry, humidity, pressure = (read[column].to_numpy(dtype=np.float64) for column in _NEEDED)
    humidity = np.clip(humidity / 100, 0.0, 1.0)
    return Weather(place, dry, np.zeros(0), np.ones(len(dry)), humidity, pressure, _digest(dry, humidity, pressure))


def _digest(*columns: Floats) -> str:
    found = hashlib.sha256()
    for column in columns:
        found.update(np.round(column, 6).astype("<f8").tobytes() + b"\x1e")
    return found.hexdigest()
