"""Moist air: density, heat capacity, dew point and wet bulb at the altitude of the site; the airflow that carries heat.

Properties from PsychroLib (ASHRAE Handbook of Fundamentals 2017, chapter 1), pressure from its standard atmosphere.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

CFM_PER_M3_S = 2118.88
"""1 m3/s = 2,118.88 cubic feet per minute."""


def library() -> Any:
    """PsychroLib in SI units: its unit system is a global that has to be set before every first use."""
    import psychrolib  # late: only what judges air pays for it

    psychrolib.SetUnitSystem(psychrolib.SI)
    return psychrolib


@dataclass(frozen=True)
class Air:
    """Supply air: temperature in C, dew point in C, altitude in m; `density` in kg of dry air per m3, `cp` in J per kg of
    dry air and K.
    """

    supply_c: float
    dewpoint_c: float
    altitude_m: float
    density: float
    cp: float


@lru_cache(maxsize=256)
def supply_air(supply_c: float, dewpoint_c: float, altitude_m: float) -> Air:
    """Air of this temperature and dew point. A dew point above the temperature counts as saturation."""
    lib = library()
    pressure = lib.GetStandardAtmPressure(altitude_m)
    ratio = lib.GetHumRatioFromTDewPoint(min(dewpoint_c, supply_c), pressure)
    density = 1 / lib.GetMoistAirVolume(supply_c, ratio, pressure)
    cp = lib.GetMoistAirEnthalpy(supply_c + 1, ratio) - lib.GetMoistAirEnthalpy(supply_c, ratio)
    return Air(supply_c, dewpoint_c, altitude_m, density, cp)


def airflow_m3_s(heat_kw: float, rise_k: float, air: Air) -> float:
    """Cubic metres per second of `air`, measured at its supply temperature, that carry `heat_kw` with a rise of `rise_k`."""
    return heat_kw * 1000 / (air.density * air.cp * rise_k)


def carried_kw(airflow: float, rise_k: float, air: Air) -> float:
    """Heat in kW that `airflow` (m3/s at supply temperature) carries with a rise of `rise_k`."""
    return airflow * air.density * air.cp * rise_k / 1000


def cfm(airflow: float) -> float:
    """Cubic feet per minute of cubic metres per second."""
    return airflow * CFM_PER_M3_S


def dew_point_c(dry_c: float, relative: float) -> float:
    """Dew point in C of air at `dry_c` with relative humidity `relative` (0..1)."""
    return float(library().GetTDewPointFromRelHum(dry_c, relative))


def wet_bulb_c(dry_c: float, relative: float, pressure_pa: float) -> float:
    """Wet bulb in C of air at `dry_c` with relative humidity `relative` (0..1) and `pressure_pa`."""
    return float(library().GetTWetBulbFromRelHum(dry_c, relative, pressure_pa))


def relative_humidity(dry_c: float, dewpoint_c: float) -> float:
    """Relative humidity (0..1) of air at `dry_c` whose dew point is `dewpoint_c`."""
    return float(library().GetRelHumFromTDewPoint(dry_c, min(dewpoint_c, dry_c)))
