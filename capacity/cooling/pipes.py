"""Headers: the standard pipe that carries a flow.

The smallest steel pipe of schedule 40 (ASME B36.10, inside diameters from `fluids`) that loses at most 400 Pa/m, and in which
the flow runs at most 1.2 m/s up to 50 mm and 3 m/s beyond (ASHRAE Handbook, Fundamentals, pipe design: hydronic systems, and
erosion in pipes that run for 6,000 hours a year and more). Friction as in capacity.cooling.liquid.
Beyond the largest pipe the flow is divided over several.
"""

import math
from dataclasses import dataclass

from capacity.cooling import coolant

MOST_PA_M = 400.0
SMALL_MM, SMALL_M_S, LARGE_M_S = 50.0, 1.2, 3.0
STEEL_MM = 0.045
WATER_KG_M3 = 1000.0
DN = {
    0.5: 15,
    0.75: 20,
    1: 25,
    1.25: 32,
    1.5: 40,
    2: 50,
    2.5: 65,
    3: 80,
    4: 100,
    5: 125,
    6: 150,
    8: 200,
    10: 250,
    12: 300,
    14: 350,
    16: 400,
    18: 450,
    20: 500,
    24: 600,
    32: 800,
    36: 900,
}
"""Nominal diameter (DN, ISO 6708) by nominal pipe size in inches."""


@dataclass(frozen=True)
class Header:
    """`count` pipes side by side of nominal diameter `dn`, each way: bore in mm, velocity in m/s, friction in Pa/m."""

    count: int
    dn: int
    bore_mm: float
    velocity_m_s: float
    pa_m: float

    @property
    def words(self) -> str:
        """'DN 200', or '2 x DN 900'."""
        return f"{self.count} x DN {self.dn}" if self.count > 1 else f"DN {self.dn}"


def water_viscosity_pa_s(celsius: float) -> float:
    """Dynamic viscosity of water in Pa s: 2.414e-5 x 10^(247.8 / (T - 140)), within 2.5 % (Al-Shemmeri 2012)."""
    return float(2.414e-5 * 10 ** (247.8 / (celsius + 273.15 - 140)))


def water(flow_l_s: float, celsius: float) -> Header | None:
    """The header for a flow of water; None without flow."""
    return _header(flow_l_s, WATER_KG_M3, water_viscosity_pa_s(celsius))


def glycol(flow_l_s: float, mean_c: float) -> Header | None:
    """The header for a flow of the coolant (PG25); None without flow."""
    return _header(flow_l_s, coolant.density_kg_m3(mean_c), coolant.viscosity_pa_s(mean_c))


def _header(flow_l_s: float, density: float, viscosity: float) -> Header | None:
    from fluids.friction import friction_factor
    from fluids.piping import NPS40, S40i

    if flow_l_s <= 0:
        return None
    sizes = [(DN[inches], float(bore)) for inches, bore in zip(NPS40, S40i, strict=True) if inches in DN]
    count = 1
    while True:
        for dn, bore_mm in sizes:
            bore = bore_mm / 1000
            velocity = flow_l_s / 1000 / count / (math.pi / 4 * bore**2)
            friction = float(friction_factor(Re=density * velocity * bore / viscosity, eD=STEEL_MM / bore_mm))
            pa_m = friction / bore * density * velocity**2 / 2
            if pa_m <= MOST_PA_M and velocity <= (SMALL_M_S if dn <= SMALL_MM else LARGE_M_S):
                return Header(count, dn, bore_mm, velocity, pa_m)
        count += 1
