"""The plant outside the hall: chillers, towers and dry coolers on the design day; water, energy and PUE by component.

A year of it: plant_year.py.

Formulae
- Heat to reject = heat of the chillers x (1 + 1/COP) + heat that reaches towers or dry coolers without them.
- Water leaves a tower at wet bulb + approach, a dry cooler at dry bulb + approach.
- Flow = Q / (4.186 kJ/kgK x rise), 1 kg/L (RC-114), for air and liquid part each with its rise, and for what the chillers
  reject with theirs; heat that needs no chillers goes to the towers with the facility water itself. Pump power = flow x head /
  efficiency.
- Free share of an hour = clip((return - source) / (return - supply), 0, 1): what the outdoor water takes before chillers.
- Evaporation = heat / 2,430 kJ/kg (water at 30 C, steam tables); make-up = evaporation x C / (C - 1) with C cycles of
  concentration.
- Fans follow the cube of their speed (fan laws): all installed units run, each at N / installed of full speed.
Not modelled: part-load gain of chillers (COP is held at the design day's, which errs high on energy), heat of the water's
own pumps, drift of towers, adiabatic assistance, glycol in the facility water.

Findings: COOLING-CHILLED-WATER, COOLING-PLANT, COOLING-PUE (ERR-03).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capacity.cooling import units
from capacity.cooling.heat import WATER_KJ_KGK
from capacity.worst import ROUNDING
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.cooling import Cooling, Plant

EVAPORATION_KJ_KG = 2430.0
S_PER_H = 3600.0
Floats = npt.NDArray[np.float64]


def spare(given: Cooling) -> int:
    """Spare chillers, pumps, and towers or dry coolers."""
    return given.n_plus if given.plant is None or given.plant.n_plus is None else given.plant.n_plus


@dataclass(frozen=True)
class Loads:
    """Heat and power of the hall in kW: `air_kw` and `liquid_kw` that reach the facility water (with fans and pumps),
    `it_kw`, and the fans and pumps in the hall; `liquid_water_c` and `liquid_rise_k` of the water at the distribution units.
    """

    it_kw: float
    air_kw: float
    liquid_kw: float
    air_fan_kw: float
    cdu_pump_kw: float
    liquid_water_c: float
    liquid_rise_k: float


@dataclass(frozen=True)
class DesignDay:
    """The plant on the design day: kW, units N and installed, water in L/s and C. `free_liquid`: the liquid part needs no
    chillers even then.
    """

    outdoor_water_c: float
    free_liquid: bool
    chiller_load_kw: float
    chillers: int
    chillers_installed: int
    chiller_power_kw: float
    reject_kw: float
    rejectors: int
    rejectors_installed: int
    reject_fan_kw: float
    air_l_s: float
    liquid_l_s: float
    pump_kw: float
    pumps: int
    pumps_installed: int
    chiller_water_l_s: float
    reject_l_s: float
    reject_return_c: float
    reject_pump_kw: float
    makeup_m3_h: float

    @property
    def flow_l_s(self) -> float:
        """Facility water of coils and distribution units together."""
        return self.air_l_s + self.liquid_l_s


@dataclass(frozen=True)
class MechanicalPower:
    """What the cooling draws on the design day with all IT at nameplate, kW by kind of motor."""

    air_fans_kw: float
    coolant_pumps_kw: float
    water_pumps_kw: float
    chillers_kw: float
    reject_fans_kw: float
    reject_pumps_kw: float

    @property
    def total_kw(self) -> float:
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """kW by name, as the components of the PUE are called."""
        return {
            "air fans": self.air_fans_kw,
            "coolant pumps": self.coolant_pumps_kw,
            "water pumps": self.water_pumps_kw,
            "chillers": self.chillers_kw,
            "heat rejection": self.reject_fans_kw + self.reject_pumps_kw,
        }


def power(loads: Loads, day: DesignDay) -> MechanicalPower:
    """The cooling's power: fans and pumps of the hall, and the plant."""
    return MechanicalPower(
        air_fans_kw=loads.air_fan_kw,
        coolant_pumps_kw=loads.cdu_pump_kw,
        water_pumps_kw=day.pump_kw,
        chillers_kw=day.chiller_power_kw,
        reject_fans_kw=day.reject_fan_kw,
        reject_pumps_kw=day.reject_pump_kw,
    )


def pue(it_kw: float, cooling: MechanicalPower, losses_kw: float, other_pct: float) -> dict[str, float]:
    """PUE by component: kW per kW of IT load; the sum is the PUE. `losses_kw` are those of UPS, transformers and
    conductors, `other_pct` lighting and the rest.
    """
    parts = {
        "it": it_kw,
        **cooling.parts(),
        "power losses": losses_kw,
        "lighting and the rest": it_kw * other_pct / 100,
    }
    return {name: kw / it_kw for name, kw in parts.items()}


def has_chillers(plant: Plant) -> bool:
    return plant.kind.startswith("chiller")


def is_wet(plant: Plant) -> bool:
    return plant.kind in ("chiller_tower", "tower")


def flow_l_s(heat_kw: float, rise_k: float) -> float:
    """Litres per second of water that carry `heat_kw` with `rise_k` (RC-114)."""
    return heat_kw / (WATER_KJ_KGK * rise_k)


def pump_power_kw(flow_l_s: float, head_kpa: float, efficiency: float) -> float:
    """Power of pumps: flow x head / efficiency."""
    return flow_l_s / 1000 * head_kpa / efficiency


def makeup_m3_h(reject_kw: float, cycles: float) -> float:
    """Water that towers need for `reject_kw`: evaporation and blow-down, m3/h."""
    return reject_kw / EVAPORATION_KJ_KG * S_PER_H / 1000 * cycles / (cycles - 1)


def fan_power_kw(full_kw: float, needed: int, installed: int) -> float:
    """Power of `installed` units that share the air of `needed` ones at full speed (fan laws)."""
    return installed * full_kw * (needed / installed) ** 3 if installed else 0.0


def design_day(plant: Plant, loads: Loads, n_plus: int) -> DesignDay:
    """Sizes for the design day, with `n_plus` spare chillers and as many spare towers or dry coolers."""
    outdoor_c = (plant.design_wet_c if is_wet(plant) else plant.design_dry_c) + plant.approach_k
    free_liquid = outdoor_c <= loads.liquid_water_c + 1e-9
    heat = loads.air_kw + loads.liquid_kw
    cooled = loads.air_kw + (0.0 if free_liquid else loads.liquid_kw) if has_chillers(plant) else 0.0
    chiller_kw = cooled / plant.chiller_cop if plant.chiller_cop else 0.0
    chillers = units.needed(cooled, plant.chiller_kw) if plant.chiller_kw else 0
    reject = heat + chiller_kw
    rejectors = units.needed(reject, plant.reject_kw)
    installed = rejectors + n_plus if rejectors else 0
    air_l_s = flow_l_s(loads.air_kw, plant.water_rise_k)
    liquid_l_s = flow_l_s(loads.liquid_kw, loads.liquid_rise_k)
    chiller_l_s = flow_l_s(cooled + chiller_kw, plant.reject_rise_k) if cooled > 0 else 0.0
    direct_l_s = (liquid_l_s if free_liquid else 0.0) if has_chillers(plant) else air_l_s + liquid_l_s
    reject_l_s = chiller_l_s + direct_l_s
    flow = air_l_s + liquid_l_s
    pumps = units.needed(flow, plant.pump_l_s) if plant.pump_l_s else 0
    return DesignDay(
        outdoor_water_c=outdoor_c,
        free_liquid=free_liquid,
        chiller_load_kw=cooled,
        chillers=chillers,
        chillers_installed=chillers + n_plus if chillers else 0,
        chiller_power_kw=chiller_kw,
        reject_kw=reject,
        rejectors=rejectors,
        rejectors_installed=installed,
        reject_fan_kw=fan_power_kw(plant.reject_fan_kw, rejectors, installed),
        air_l_s=air_l_s,
        liquid_l_s=liquid_l_s,
        pump_kw=pump_power_kw(flow, plant.pump_kpa, plant.pump_efficiency),
        pumps=pumps,
        pumps_installed=pumps + n_plus if pumps else 0,
        chiller_water_l_s=chiller_l_s,
        reject_l_s=reject_l_s,
        reject_return_c=outdoor_c + (reject / (WATER_KJ_KGK * reject_l_s) if reject_l_s > 0 else 0.0),
        reject_pump_kw=pump_power_kw(chiller_l_s, plant.reject_pump_kpa or 0.0, plant.pump_efficiency),
        makeup_m3_h=makeup_m3_h(reject, plant.cycles) if plant.cycles else 0.0,
    )


def limits_c(plant: Plant, loads: Loads) -> dict[str, float]:
    """Water that the heat needs at the most, C by key of the site: that of the coils, and that of the distribution units."""
    needs = {
        "cooling.plant.water_c": (loads.air_kw, plant.water_c),
        "cooling.coolant.loop.facility_c": (loads.liquid_kw, loads.liquid_water_c),
    }
    return {key: celsius for key, (kw, celsius) in needs.items() if kw > 0}


def check_chilled_water(site: Site) -> list[Finding]:
    """COOLING-CHILLED-WATER when the plant and cooling.chilled_water, which switches its steps, contradict each other."""
    given = site.cooling.plant
    if given is None or has_chillers(given) == site.cooling.chilled_water:
        return []
    chillers = has_chillers(given)
    return [
        finding(
            "COOLING-CHILLED-WATER",
            "cooling.chilled_water",
            case="with-chillers" if chillers else "without-chillers",
            limit_source="site cooling.plant.kind",
            remedies=[
                remedy({"cooling.chilled_water": chillers}),
                *([] if chillers else [remedy(fix="chillers")]),
            ],
            words={"kind": given.kind},
        )
    ]


def check_temperature(site: Site, given: Plant, day: DesignDay, loads: Loads) -> list[Finding]:
    """COOLING-PLANT when the plant cannot supply water as cold as coils or distribution units need on the design day:
    chillers supply cooling.plant.water_c, towers and dry coolers alone what the outdoors give.
    """
    chilled = has_chillers(given)
    limits = limits_c(given, loads)
    if chilled:
        limits.pop("cooling.plant.water_c", None)
    coldest_c = min(given.water_c, day.outdoor_water_c) if chilled else day.outdoor_water_c
    return [
        finding(
            "COOLING-PLANT",
            key,
            limit=water_c,
            limit_source=f"site {key}",
            remedies=[
                remedy({key: coldest_c}),
                remedy({"cooling.plant.water_c": water_c}) if chilled else remedy(fix="chillers"),
            ],
            words={"kind": given.kind},
            outdoor_water_c=day.outdoor_water_c,
            supplied_c=coldest_c,
        )
        for key, water_c in limits.items()
        if coldest_c > water_c + ROUNDING
    ]


def check_pue(site: Site, design: float, annual: float | None) -> list[Finding]:
    """COOLING-PUE (ERR-03) when the site's PUE is below what its own plant gives: a warning over a year, else information."""
    given = site.power.pue
    high = annual if annual is not None else design
    if max(high, design) <= given + ROUNDING:
        return []
    over_year = annual is not None and annual > given + ROUNDING
    when = "year" if over_year else "design-day"
    numbers: dict[str, Any] = {"design": round(design, 4)} | ({"year": round(annual, 4)} if annual is not None else {})
    enough = math.ceil((annual if over_year and annual else design) * 1000 - 1e-6) / 1000
    return [
        finding(
            "COOLING-PUE",
            "power.pue",
            case=f"{when}-supply-planned" if site.electrical is not None else when,
            severity="warning" if over_year else "info",
            limit=given,
            limit_source="site power.pue",
            err="ERR-03",
            remedies=[remedy({"power.pue": enough})],
            **numbers,
        )
    ]
