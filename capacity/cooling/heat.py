"""Heat into the room and the air that carries it away.

Nearly all electrical power of IT equipment becomes heat; the liquid share leaves through the coolant. Losses of
equipment outside the room (UPS, transformers, chillers) are not room heat (ERR-26).

Sources: 1 ton of refrigeration = 3.51685 kW; 1 kW = 3,412.14 BTU/h; air of 1.2 kg/m3 and 1,005 J/kgK at sea level
(ASHRAE Fundamentals, standard air); pressure with altitude from the ICAO standard atmosphere.
"""

import pandas as pd

from capacity.cooling.air import CFM_PER_M3_S

KW_PER_TON = 3.51685
BTU_H_PER_KW = 3412.14
AIR_DENSITY_KG_M3 = 1.2
AIR_CP_J_KGK = 1005.0
WATER_KJ_KGK = 4.186
"""Heat capacity of water, kJ/kgK (RC-114)."""


def tons(heat_kw: float) -> float:
    """Tons of refrigeration."""
    return heat_kw / KW_PER_TON


def btu_per_hour(heat_kw: float) -> float:
    """BTU per hour."""
    return heat_kw * BTU_H_PER_KW


def pressure_ratio(altitude_m: float) -> float:
    """Air pressure over its value at sea level."""
    return float((1 - 2.25577e-5 * altitude_m) ** 5.25588)


def airflow_cfm(heat_kw: float, rise_k: float, altitude_m: float = 0.0) -> float:
    """Cubic feet per minute of air that carry `heat_kw` with a temperature rise of `rise_k`."""
    density = AIR_DENSITY_KG_M3 * pressure_ratio(altitude_m)
    return heat_kw * 1000 / (density * AIR_CP_J_KGK * rise_k) * CFM_PER_M3_S


def liquid_kw_by_rack(devices: pd.DataFrame, placements: pd.DataFrame) -> pd.Series:
    """Heat at nameplate that leaves each rack through the coolant, in kW, by rack."""
    rack = placements.set_index("device")["rack"].reindex(devices["name"]).to_numpy()
    liquid_w = devices["nameplate_w"] * (1 - devices["air_fraction"])
    return (liquid_w / 1000).groupby(rack).sum()
