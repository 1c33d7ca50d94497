"""The coolant's way: branch pipes to the racks, what they lose in pressure, and the heat exchanger of a distribution unit.

Friction factor and bend loss from `fluids` (Colebrook solved by Clamond's method; long-radius elbows of 1.5 diameters
after Rennels), exchanger from `ht` (effectiveness-NTU, counterflow). Manifolds, quick disconnects and cold plates: the
quoted drop times the square of the flow over the quoted flow (turbulent).
"""

import math
from dataclasses import dataclass

from capacity.cooling import coolant
from capacity.cooling.heat import WATER_KJ_KGK
from capacity.worst import ROUNDING
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.cooling import MOST_BORE_MM, MOST_RISE_K, CoolantLoop

BALANCED = 1e-6
"""Capacity ratios this near to 1 count as balanced: ht 1.2's NTU is wrong within rounding of 1 and raises above it."""


@dataclass(frozen=True)
class Branch:
    """The pipe to one rack: velocity in m/s, friction factor, drops in kPa over pipe with bends and over the rack."""

    flow_l_min: float
    velocity_m_s: float
    reynolds: float
    friction: float
    pipe_kpa: float
    rack_kpa: float

    @property
    def total_kpa(self) -> float:
        return self.pipe_kpa + self.rack_kpa


def pipe(
    flow_l_min: float, mean_c: float, bore_mm: float, length_m: float, bends: int, roughness_mm: float
) -> tuple[float, float, float, float]:
    """Velocity (m/s), Reynolds number, Darcy friction factor and drop (kPa) of coolant at `mean_c` through a pipe."""
    from fluids.fittings import bend_rounded
    from fluids.friction import friction_factor

    bore = bore_mm / 1000
    velocity = flow_l_min / 60000 / (math.pi * bore**2 / 4)
    density = coolant.density_kg_m3(mean_c)
    reynolds = density * velocity * bore / coolant.viscosity_pa_s(mean_c)
    friction = float(friction_factor(Re=reynolds, eD=roughness_mm / bore_mm))
    loss = friction * length_m / bore + bends * float(bend_rounded(Di=bore, angle=90, fd=friction, bend_diameters=1.5))
    return velocity, reynolds, friction, loss * density * velocity**2 / 2 / 1000


def branch(heat_kw: float, supply_c: float, loop: CoolantLoop, rise_k: float) -> Branch:
    """The branch to a rack with `heat_kw` of liquid heat."""
    flow = coolant.flow_l_min(heat_kw, supply_c, rise_k)
    velocity, reynolds, friction, drop = pipe(
        flow, supply_c + rise_k / 2, loop.branch_bore_mm, loop.branch_m, loop.branch_bends, loop.roughness_mm
    )
    return Branch(flow, velocity, reynolds, friction, drop, loop.rack_kpa * (flow / loop.rack_l_min) ** 2)


def ntu(effectiveness: float, ratio: float) -> float:
    """Transfer units of a counterflow exchanger; `ratio` is the smaller capacity flow over the larger (0..1).

    Infinite where no counterflow exchanger reaches `effectiveness`.
    """
    if effectiveness >= 1:
        return float("inf")
    if abs(ratio - 1) < BALANCED:
        return effectiveness / (1 - effectiveness)
    from ht.hx import NTU_from_effectiveness

    return float(NTU_from_effectiveness(effectiveness, min(ratio, 1.0), subtype="counterflow"))


def effectiveness(units: float, ratio: float) -> float:
    """Effectiveness of a counterflow exchanger with `units` transfer units."""
    if abs(ratio - 1) < BALANCED:
        return units / (1 + units)
    from ht.hx import effectiveness_from_NTU

    return float(effectiveness_from_NTU(units, ratio, subtype="counterflow"))


@dataclass(frozen=True)
class Exchanger:
    """The exchanger of one distribution unit with its share of the heat.

    `ua_needed` and `ua` in kW/K (`ua_needed` infinite where no exchanger does it), `approach_k` of coolant supply over
    facility water, `facility_max_c` the warmest facility water with which `ua` still holds the coolant's supply.
    """

    heat_kw: float
    ratio: float
    ntu_needed: float
    ua_needed: float
    ua: float
    approach_k: float
    facility_l_min: float
    facility_max_c: float


def exchanger(heat_kw: float, supply_c: float, rise_k: float, loop: CoolantLoop) -> Exchanger:
    """Judge the exchanger of a unit that moves `heat_kw` from coolant to facility water (water: RC-114, 1 kg/L)."""
    hot, cold = heat_kw / rise_k, heat_kw / loop.facility_rise_k
    least, most = min(hot, cold), max(hot, cold)
    ratio = least / most
    back_c = supply_c + rise_k
    wanted = heat_kw / (least * (back_c - loop.facility_c))
    transfer = ntu(wanted, ratio)
    reached = effectiveness(loop.cdu_ua_kw_k / least, ratio)
    return Exchanger(
        heat_kw=heat_kw,
        ratio=ratio,
        ntu_needed=transfer,
        ua_needed=transfer * least,
        ua=loop.cdu_ua_kw_k,
        approach_k=supply_c - loop.facility_c,
        facility_l_min=cold / WATER_KJ_KGK * 60,
        facility_max_c=back_c - heat_kw / (reached * least),
    )


def more_head(heat_kw: float, supply_c: float, loop: CoolantLoop, rise_k: float) -> list[RemedyOf]:
    """The least rise, in tenths of a kelvin, and the least bore, in millimetres, with which the pumps drive the flow to a rack with
    `heat_kw`, each as far as there is one.
    """
    rises = (n / 10 for n in range(math.floor(rise_k * 10) + 1, round(MOST_RISE_K * 10) + 1))
    bores = range(math.floor(loop.branch_bore_mm) + 1, MOST_BORE_MM + 1)

    def enough(bore_mm: float, rise: float) -> bool:
        wider = loop.model_copy(update={"branch_bore_mm": bore_mm})
        return branch(heat_kw, supply_c, wider, rise).total_kpa <= loop.cdu_head_kpa + ROUNDING

    rise = next((one for one in rises if enough(loop.branch_bore_mm, one)), None)
    bore = next((one for one in bores if enough(one, rise_k)), None) if enough(MOST_BORE_MM, rise_k) else None
    return [
        *([remedy({"cooling.coolant.rise_k": rise}, fix="larger-rise")] if rise is not None else []),
        *([remedy({"cooling.coolant.loop.branch_bore_mm": bore}, fix="wider-branch")] if bore is not None else []),
    ]


def check_hydraulics(site: Site, heat_kw: float, way: Branch, share: Exchanger) -> list[Finding]:
    """COOLING-HEAD when the pumps cannot drive the flow to the rack with `heat_kw`, COOLING-APPROACH when the exchanger is too
    small.
    """
    found = []
    given = site.cooling.coolant
    if given is None or given.loop is None:
        return []
    loop = given.loop
    if way.total_kpa > loop.cdu_head_kpa + ROUNDING:
        found.append(
            finding(
                "COOLING-HEAD",
                "cooling.coolant.loop",
                limit=loop.cdu_head_kpa,
                limit_source="site cooling.coolant.loop.cdu_head_kpa",
                remedies=[
                    *more_head(heat_kw, site.cooling.supply_c, loop, given.rise_k),
                    remedy(fix="stronger-pumps"),
                ],
                words={"flow_l_min": way.flow_l_min, "total_kpa": way.total_kpa},
                pipe_kpa=round(way.pipe_kpa, 2),
                rack_kpa=round(way.rack_kpa, 2),
            )
        )
    if share.ua_needed > share.ua * (1 + 1e-6):
        # the conductance needed is in proportion to the heat of a unit
        fits_kw = math.floor(share.heat_kw * share.ua / share.ua_needed)
        smaller = [remedy({"cooling.coolant.cdu_kw": fits_kw}, fix="smaller-units")] if fits_kw >= 1 else []
        reachable = math.isfinite(share.ua_needed)
        colder = {"cooling.coolant.loop.facility_c": math.floor(share.facility_max_c * 10 + ROUNDING) / 10}
        found.append(
            finding(
                "COOLING-APPROACH",
                "cooling.coolant.loop.cdu_ua_kw_k",
                case="needed" if reachable else "impossible",
                limit=round(share.ua_needed, 2) if reachable else None,
                limit_source="e-NTU, counterflow (site cooling.coolant.loop)",
                remedies=[remedy(colder, fix="colder-water"), *smaller],
                words={"approach_k": share.approach_k},
                ua_kw_k=share.ua,
                heat_kw=round(share.heat_kw, 2),
            )
        )
    return found
