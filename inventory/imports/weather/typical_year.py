"""The weather of a typical year: read from an EnergyPlus weather file (EPW) or from the bins of the site file.

    load_weather(site)   Weather with hours by dry and wet bulb; None without the section `weather`

The format is read by `inventory.imports.weather.epw`. The file is the user's own; none is shipped.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.findings import Finding, finding, remedy
from inventory.imports.core.source import ImportFault
from inventory.imports.weather.epw import read_epw_bytes
from inventory.secrets import SecretError, site_path
from inventory.site import Site

Floats = npt.NDArray[np.float64]

_NEEDED = ("dry_bulb_c", "rh_pct", "pressure_pa")


class WeatherError(Exception):
    """A weather file that cannot be used; the message names file, place, what was expected and the way out."""


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
    except SecretError as error:
        raise WeatherError(f"weather.epw: {error}") from None
    try:
        read, place = read_epw_bytes(path.read_bytes(), path)
    except OSError as error:
        raise WeatherError(
            f"{path}: {error.strerror or error}: weather.epw of the site file names it, relative to the site file's "
            "folder; put the file there or correct the path"
        ) from None
    except ImportFault as fault:
        raise WeatherError(str(fault)) from None
    return _year(read, place or given.epw, path)


def gaps(read: pd.DataFrame) -> list[Finding]:
    """IMPORT-WEATHER-GAP, an error, for each value from which wet bulb follows that hours of a year lack."""
    found = []
    for column in _NEEDED:
        missing = read[read[column].isna()]
        if len(missing):
            first = missing.iloc[0]
            found.append(
                finding(
                    "IMPORT-WEATHER-GAP",
                    f"month {first['month']:g}, day {first['day']:g}, hour {first['hour']:g}",
                    hours=len(missing),
                    words={"column": column},
                    remedies=[remedy(fix="fill"), remedy(fix="other-file")],
                )
            )
    return found


def _year(read: pd.DataFrame, place: str, path: Path) -> Weather:
    """The hours as arrays; WeatherError names the first hour without one of the values from which wet bulb follows."""
    for gap in gaps(read):
        raise WeatherError(f"{path}: {gap.subject}: {gap.message}")
    dry, humidity, pressure = (read[column].to_numpy(dtype=np.float64) for column in _NEEDED)
    humidity = np.clip(humidity / 100, 0.0, 1.0)
    return Weather(place, dry, np.zeros(0), np.ones(len(dry)), humidity, pressure, _digest(dry, humidity, pressure))


def _digest(*columns: Floats) -> str:
    found = hashlib.sha256()
    for column in columns:
        found.update(np.round(column, 6).astype("<f8").tobytes() + b"\x1e")
    return found.hexdigest()
