"""The coolant loop: flow that carries the liquid share of the heat, and the distribution units that move it.

Properties of propylene glycol, 25 % by volume, at the mean of supply and return: polynomials in Celsius fitted to
CoolProp 8.0 (``INCOMP::APG-25%``) from 10 to 60 C, error under 0.01 %.
"""

import math

from capacity.worst import ROUNDING
from inventory.findings import Finding, finding, remedy
from inventory.site import Site

FLUID = "propylene glycol, 25 % by volume"
W_PER_KW = 1000.0
L_PER_M3 = 1000.0
S_PER_MIN = 60.0
DEW_POINT_MARGIN_K = 2.0


def heat_capacity_j_kgk(mean_c: float) -> float:
    """Specific heat capacity in J/kgK."""
    return 6.3926e-6 * mean_c**2 + 2.4677 * mean_c + 3863.5


def density_kg_m3(mean_c: float) -> float:
    """Density in kg/m3."""
    return -0.00253728 * mean_c**2 - 0.317675 * mean_c + 1031.24


def flow_l_min(heat_kw: float, supply_c: float, rise_k: float) -> float:
    """Litres per minute that carry `heat_kw` with a rise of `rise_k` from a supply of `supply_c`."""
    mean_c = supply_c + rise_k / 2
    mass_kg_s = heat_kw * W_PER_KW / (heat_capacity_j_kgk(mean_c) * rise_k)
    return mass_kg_s / density_kg_m3(mean_c) * L_PER_M3 * S_PER_MIN


def viscosity_pa_s(mean_c: float) -> float:
    """Dynamic viscosity in Pa s."""
    return math.exp(-1.0018e-6 * mean_c**3 + 3.0712e-4 * mean_c**2 - 0.045099 * mean_c + 1.6898) / 1000


def check_coolant(site: Site) -> list[Finding]:
    """COOLING-COOLANT (ERR-26) when the coolant's supply is too near the dew point or above what the servers allow."""
    cooling, coolant = site.cooling, site.cooling.coolant
    if coolant is None:
        return []
    low, high = cooling.dewpoint_c + DEW_POINT_MARGIN_K, coolant.server_max_c
    if low <= cooling.supply_c <= high:
        return []
    warm = cooling.supply_c > high
    bound = high if warm else low
    change = remedy({"cooling.supply_c": bound})
    if low > high:
        driest_c = high - DEW_POINT_MARGIN_K
        change = remedy(
            {"cooling.dewpoint_c": driest_c, "cooling.supply_c": high}, fix="drier-room", dewpoint_max_c=driest_c
        )
    return [
        finding(
            "COOLING-COOLANT",
            "cooling.supply_c",
            case="warm" if warm else "cold",
            limit=bound,
            limit_source="site cooling.coolant.server_max_c" if warm else "RC-112: dew point and 2 K",
            err="ERR-26",
            remedies=[change],
            words={"dewpoint_c": cooling.dewpoint_c, "margin_k": DEW_POINT_MARGIN_K},
            supply_c=cooling.supply_c,
            low_c=low,
            high_c=high,
        )
    ]


def check_wet_or_not(site: Site, liquid_kw: float) -> list[Finding]:
    """COOLING-NO-LOOP: heat on cold plates and no coolant to carry it. COOLING-NOTHING-WET: coolant, and nothing to cool."""
    source = "catalogue air_fraction of the devices"
    if liquid_kw > 0:
        return [
            finding(
                "COOLING-NO-LOOP",
                "cooling.coolant",
                limit=0.0,
                limit_source=source,
                liquid_kw=round(liquid_kw, 3),
                remedies=[remedy({"cooling.kind": "liquid"}, fix="loop"), remedy(fix="air-cooled")],
            )
        ]
    if site.cooling.kind == "air":
        return []
    air_c = site.cooling.air.supply_c if site.cooling.air is not None else None
    if air_c is None:
        all_air = remedy({"cooling.kind": "air"}, fix="air-at-supply")
    else:
        all_air = remedy({"cooling.kind": "air", "cooling.supply_c": air_c}, fix="air")
    return [
        finding(
            "COOLING-NOTHING-WET",
            "cooling.kind",
            limit=0.0,
            limit_source=source,
            err="ERR-46",
            liquid_kw=0.0,
            remedies=[all_air, remedy(fix="cold-plates")],
        )
    ]


def check_facility_water(site: Site) -> list[Finding]:
    loop = site.cooling.coolant.loop if site.cooling.coolant is not None else None
    dew = site.cooling.dewpoint_c
    if loop is None or loop.facility_c >= dew + DEW_POINT_MARGIN_K - ROUNDING:
        return []
    return [
        finding(
            "COOLING-CONDENSATE",
            "cooling.coolant.loop.facility_c",
            case="facility-water",
            severity="warning",
            limit=dew + DEW_POINT_MARGIN_K,
            limit_source="RC-112: dew point and 2 K",
            remedies=[
                remedy({"cooling.coolant.loop.facility_c": dew + DEW_POINT_MARGIN_K}, fix="at-least"),
                remedy({"cooling.dewpoint_c": loop.facility_c - DEW_POINT_MARGIN_K}, fix="at-most"),
            ],
            facility_c=loop.facility_c,
            dewpoint_c=dew,
        )
    ]
