"""Room cooling units: what one of them moves at the hall's own conditions, and how many a zone needs.

A data sheet quotes net sensible capacity at one air and one water temperature. Coil effectiveness e = Q / (m cp (T_air,in -
T_water,in)) (Incropera, heat exchangers, e-NTU method) is taken from these and held: with thinner air at altitude the true
effectiveness is a little higher, so this errs on the safe side. What the air can carry between return and supply
bounds the result.
"""

import math
from dataclasses import dataclass

from capacity.cooling.air import Air, supply_air
from capacity.worst import ROUNDING
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.cooling import AirUnits

LEAST_WATER_C = 4.0
"""Coldest water that the site file takes (inventory/site/sections/cooling.py)."""


@dataclass(frozen=True)
class Capacity:
    """One unit at the hall's conditions.

    `kw` is its net sensible capacity, `airflow_m3_s` its air measured at supply temperature, `effectiveness` that of its
    coil; `coil_kw` and `air_kw` are the two bounds, `supply_c` what it supplies at full fan speed.
    """

    kw: float
    coil_kw: float
    air_kw: float
    airflow_m3_s: float
    effectiveness: float
    return_c: float
    supply_c: float


def return_c(supply_c: float, rise_k: float, leakage_pct: float) -> float:
    """Temperature of the air back at the unit in C: what leaks past the servers mixes in cold."""
    return supply_c + rise_k * (1 - leakage_pct / 100)


def capacity(units: AirUnits, air: Air, water_c: float) -> Capacity:
    """What one unit moves with `water_c` at its coil, returning air from servers with the design rise."""
    back_c = return_c(air.supply_c, units.rise_k, units.leakage_pct)
    rated = supply_air(units.rated_return_c, air.dewpoint_c, 0.0)
    here = supply_air(back_c, air.dewpoint_c, air.altitude_m)
    rated_w_k = units.airflow_m3_s * rated.density * rated.cp
    effectiveness = units.sensible_kw * 1000 / (rated_w_k * (units.rated_return_c - units.rated_water_c))
    mass_kg_s = units.airflow_m3_s * here.density
    coil_kw = max(effectiveness * mass_kg_s * here.cp * (back_c - water_c) / 1000, 0.0)
    air_kw = mass_kg_s * air.cp * (back_c - air.supply_c) / 1000
    kw = min(coil_kw, air_kw)
    return Capacity(
        kw=kw,
        coil_kw=coil_kw,
        air_kw=air_kw,
        airflow_m3_s=mass_kg_s / air.density,
        effectiveness=effectiveness,
        return_c=back_c,
        supply_c=back_c - kw * 1000 / (mass_kg_s * air.cp),
    )


def needed(heat_kw: float, unit_kw: float) -> int:
    """Units N for `heat_kw` (RC-118): at least one where there is heat, 0 where a unit moves none."""
    if heat_kw <= 0 or unit_kw <= 0:
        return 0
    return math.ceil(heat_kw / unit_kw - 1e-9)


def with_spares(heat_kw: float, unit_kw: float, n_plus: int) -> int:
    """N + `n_plus` units for `heat_kw` (RC-118, S118)."""
    n = needed(heat_kw, unit_kw)
    return n + n_plus if n else 0


MOST_BELOW = 0.005
"""A coil that moves so much less than the air could carry does not limit the unit: within the rounding of data sheets."""


def _colder_water(site: Site, one: Capacity) -> list[RemedyOf]:
    """The warmest water at the coil with which it does not limit the unit; nothing in place of a plant's water where no plant is
    described, as the water is then that of the data sheet.
    """
    plant = site.cooling.plant
    if plant is None or one.coil_kw <= 0:
        return [remedy(fix="colder-water")]
    span_k = (one.return_c - plant.water_c) * one.air_kw * (1 - MOST_BELOW) / one.coil_kw
    water_c = math.floor((one.return_c - span_k) * 10 + ROUNDING) / 10
    return [remedy({"cooling.plant.water_c": water_c})] if water_c >= LEAST_WATER_C else [remedy(fix="colder-water")]


def check_coils(site: Site, one: Capacity | None) -> list[Finding]:
    """COOLING-UNIT-FIGURES when the data sheet contradicts itself, COOLING-COIL when a coil is too weak for the supply,
    COOLING-CONDENSATE when its water is colder than the dew point.
    """
    found = list[Finding]()
    given = site.cooling.air
    if given is None or one is None:
        return found
    if one.effectiveness >= 1:
        found.append(
            finding(
                "COOLING-UNIT-FIGURES",
                "cooling.air.sensible_kw",
                limit=1.0,
                limit_source="a coil cannot cool air below its water",
                remedies=[remedy(fix="data-sheet")],
                words={
                    "sensible_kw": given.sensible_kw,
                    "airflow_m3_s": given.airflow_m3_s,
                    "return_c": given.rated_return_c,
                    "water_c": given.rated_water_c,
                },
                effectiveness=round(one.effectiveness, 3),
            )
        )
    elif one.coil_kw < one.air_kw * (1 - MOST_BELOW):
        found.append(
            finding(
                "COOLING-COIL",
                "cooling.air",
                limit=round(one.air_kw, 3),
                limit_source="e-NTU at the unit's rated conditions",
                remedies=[*_colder_water(site, one), remedy(fix="more-units")],
                coil_kw=round(one.coil_kw, 3),
                air_kw=round(one.air_kw, 3),
                supply_c=round(one.supply_c, 2),
            )
        )
    water_c = site.cooling.plant.water_c if site.cooling.plant is not None else given.rated_water_c
    if water_c < site.cooling.dewpoint_c - ROUNDING:
        found.append(
            finding(
                "COOLING-CONDENSATE",
                "cooling.plant.water_c" if site.cooling.plant is not None else "cooling.air.rated_water_c",
                case="coil",
                severity="info",
                limit=site.cooling.dewpoint_c,
                limit_source="site cooling.dewpoint_c",
                remedies=[remedy(fix="drains"), remedy(fix="warmer-water")],
                water_c=water_c,
                dewpoint_c=site.cooling.dewpoint_c,
            )
        )
    return found
