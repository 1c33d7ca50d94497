"""Ducts: velocity and pressure drop of a zone's air.

Darcy-Weisbach over the hydraulic diameter 2ab / (a + b) of a rectangular duct, friction factor from `fluids` (Colebrook), bends
as rounded ones of 1.5 diameters (Rennels). Viscosity of air by Sutherland: 1.458e-6 T^1.5 / (T + 110.4) Pa s (US Standard
Atmosphere 1976).
"""

import math

from capacity.cooling.air import Air
from capacity.worst import ROUNDING
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.cooling import Duct


def viscosity_pa_s(celsius: float) -> float:
    """Dynamic viscosity of air in Pa s."""
    kelvin = celsius + 273.15
    return 1.458e-6 * kelvin**1.5 / (kelvin + 110.4)


def drop(duct: Duct, airflow: float, air: Air) -> tuple[float, float]:
    """Velocity (m/s) and pressure drop (Pa) when all ducts of a zone together carry `airflow` (m3/s at supply)."""
    from fluids.fittings import bend_rounded
    from fluids.friction import friction_factor

    velocity = airflow / (duct.count * duct.width_m * duct.height_m)
    across = 2 * duct.width_m * duct.height_m / (duct.width_m + duct.height_m)
    if velocity <= 0:
        return 0.0, 0.0
    reynolds = air.density * velocity * across / viscosity_pa_s(air.supply_c)
    friction = float(friction_factor(Re=reynolds, eD=duct.roughness_mm / 1000 / across))
    bend = float(bend_rounded(Di=across, angle=90, fd=friction, bend_diameters=1.5))
    return velocity, (friction * duct.length_m / across + duct.bends * bend) * air.density * velocity**2 / 2


def check_duct(site: Site, worst: str, velocity: float, pressure: float) -> list[Finding]:
    """COOLING-DUCT when the units' fans cannot push a zone's air through its ducts."""
    given = site.cooling.air.duct if site.cooling.air is not None else None
    if given is None or pressure <= given.available_pa + ROUNDING:
        return []
    more = math.ceil(given.count * math.sqrt(pressure / given.available_pa))
    return [
        finding(
            "COOLING-DUCT",
            worst,
            limit=given.available_pa,
            limit_source="site cooling.air.duct",
            remedies=[remedy({"cooling.air.duct.count": more}), remedy(fix="wider")],
            words={"ducts": given.count},
            m_s=round(velocity, 2),
            pa=round(pressure, 1),
        )
    ]
