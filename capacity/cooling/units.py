"""Room cooling units: what one of them moves at the hall's own conditions, and how many a zone needs.

A data sheet quotes net sensible capacity at one air and one water temperature. Coil effectiveness e = Q / (m cp (T_air,in -
T_water,in)) (Incropera, heat exchangers, e-NTU method) is taken from these and held: with thinner air at altitude the true
effectiveness is a little higher, so this errs on the safe side. What the air can carry between return and supply
bounds the result.
"""

import math
from dataclasses import dataclass

from capacity.cooling.air import Air, supply_air
from inventory.site.sections.cooling import AirUnits


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
