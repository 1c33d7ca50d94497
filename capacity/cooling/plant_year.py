"""A year of the plant: hours with and without chillers, energy, water and PUE; the hours that outdoor water is too warm.

Formulae and what is not modelled: plant.py. Findings: COOLING-HOURS.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capacity.cooling import air
from capacity.cooling.air import hall_air
from capacity.cooling.plant import DesignDay, Loads, has_chillers, is_wet, limits_c, makeup_m3_h, power
from capacity.worst import ROUNDING
from inventory.findings import Finding, finding, remedy
from inventory.imports.weather.typical_year import Weather
from inventory.site import Site
from inventory.site.sections.cooling import Plant

Floats = npt.NDArray[np.float64]

DESIGN_HOURS = 0.004
"""Share of the year that may be hotter than the design day: its 0.4 % design condition (ASHRAE Fundamentals, chapter 14)."""


@dataclass(frozen=True)
class Year:
    """A year at full load: hours without, with some and with full chiller work, MWh and m3. `above_h`: hours with outdoor
    water warmer than `limit_c`, `hottest_c` the warmest of it, `peak_kw` the largest load of the chillers.
    """

    free_h: float
    partial_h: float
    chiller_h: float
    above_h: float
    limit_c: float
    hottest_c: float
    peak_kw: float
    chiller_mwh: float
    saved_mwh: float
    cooling_mwh: float
    water_m3: float
    pue: float


def wet_bulbs(weather: Weather) -> Floats:
    """Wet bulb of each hour or bin, C."""
    if len(weather.wet_c):
        return weather.wet_c
    columns = (weather.dry_c.tolist(), weather.humidity.tolist(), weather.pressure_pa.tolist())
    return np.array([air.wet_bulb_c(*one) for one in zip(*columns, strict=True)], dtype=np.float64)


def free_share(return_c: float, supply_c: float, source_c: Floats) -> Floats:
    """Share of the heat that water of `source_c` takes out of a loop from `return_c` to `supply_c`, 0..1."""
    return np.asarray(np.clip((return_c - source_c) / (return_c - supply_c), 0.0, 1.0), dtype=np.float64)


def limit_c(plant: Plant, loads: Loads, day: DesignDay) -> float:
    """The warmest outdoor water that the plant is made for: with chillers that of their design day, without them what the
    heat needs.
    """
    if has_chillers(plant):
        return day.outdoor_water_c
    return min(limits_c(plant, loads).values(), default=math.inf)


def year(plant: Plant, loads: Loads, day: DesignDay, weather: Weather, losses_kw: float = 0.0) -> Year:
    """A year at full load, constant over the hours, and so are the losses of power distribution."""
    outdoor = (wet_bulbs(weather) if is_wet(plant) else weather.dry_c) + plant.approach_k
    hours = weather.hours
    air_share = free_share(plant.water_c + plant.water_rise_k, plant.water_c, outdoor)
    liquid_share = free_share(loads.liquid_water_c + loads.liquid_rise_k, loads.liquid_water_c, outdoor)
    limit = limit_c(plant, loads, day)
    without = loads.air_kw + loads.liquid_kw * (1 - (liquid_share if day.free_liquid else np.zeros_like(outdoor)))
    if not has_chillers(plant):
        air_share, liquid_share = np.ones_like(outdoor), np.ones_like(outdoor)
    elif not plant.economiser:
        air_share = np.zeros_like(outdoor)
        liquid_share = liquid_share if day.free_liquid else np.zeros_like(outdoor)
    cop = plant.chiller_cop or math.inf
    load_kw = loads.air_kw * (1 - air_share) + loads.liquid_kw * (1 - liquid_share)
    chiller_kw = load_kw / cop
    constant = power(loads, day).total_kw - day.chiller_power_kw
    total = float(hours.sum())
    chiller_kwh = float((chiller_kw * hours).sum())
    cooling_kwh = chiller_kwh + constant * total
    heat = loads.air_kw + loads.liquid_kw
    evaporated = makeup_m3_h(1.0, plant.cycles) * float(((heat + chiller_kw) * hours).sum()) if plant.cycles else 0.0
    share = air_share if loads.air_kw > 0 else liquid_share
    free, none = share >= 1 - 1e-9, share <= 1e-9
    return Year(
        free_h=float(hours[free].sum()),
        partial_h=float(hours[~free & ~none].sum()),
        chiller_h=float(hours[none].sum()),
        above_h=float(hours[outdoor > limit + 1e-9].sum()),
        limit_c=limit,
        hottest_c=float(outdoor.max()),
        peak_kw=float(load_kw.max()),
        chiller_mwh=chiller_kwh / 1000,
        saved_mwh=(float((without / cop * hours).sum()) - chiller_kwh) / 1000 if has_chillers(plant) else 0.0,
        cooling_mwh=cooling_kwh / 1000,
        water_m3=evaporated,
        pue=1 + plant.other_pct / 100 + losses_kw / loads.it_kw + cooling_kwh / (loads.it_kw * total),
    )


def check_hours(site: Site, given: Plant, day: DesignDay, loads: Loads, whole: Year, hours: float) -> list[Finding]:
    """COOLING-HOURS when outdoor water is warmer in the year than the plant is made for. With chillers: for information while
    they carry the largest load and the hours are no more than the design condition of ASHRAE leaves out, else a warning.
    """
    if whole.above_h <= 0:
        return []
    chillers = has_chillers(given)
    short_kw = max(whole.peak_kw - day.chillers * (given.chiller_kw or 0.0), 0.0) if chillers else 0.0
    bulb, outdoor_c = "wet" if is_wet(given) else "dry", whole.hottest_c - given.approach_k
    if chillers:
        design_c = math.ceil(outdoor_c * 10 - 1e-6) / 10
        design_day = {f"cooling.plant.design_{bulb}_c": design_c}
        if is_wet(given) and outdoor_c > given.design_dry_c:
            design_day["cooling.plant.design_dry_c"] = design_c
        remedies = [remedy(design_day, fix="design-day")]
    else:
        warmer_c = math.ceil(whole.hottest_c * 10 - 1e-6) / 10
        keys = [key for key, celsius in limits_c(given, loads).items() if celsius < whole.hottest_c]
        below_c = {
            "cooling.plant.water_c": hall_air(site).supply_c,
            "cooling.coolant.loop.facility_c": site.cooling.supply_c,
        }
        remedies = [remedy(fix="chillers", outdoor_c=outdoor_c, bulb=bulb)]
        if keys and all(warmer_c < below_c[key] for key in keys):
            remedies.append(remedy(dict.fromkeys(keys, warmer_c)))
    enough = short_kw <= ROUNDING
    few = chillers and enough and whole.above_h <= DESIGN_HOURS * hours
    return [
        finding(
            "COOLING-HOURS",
            "weather",
            case="no-chillers" if not chillers else "chillers" if enough else "chillers-short",
            severity="info" if few else "warning",
            limit=whole.limit_c,
            limit_source="site weather and cooling.plant",
            remedies=remedies,
            words={"year_h": hours},
            hours=whole.above_h,
            hottest_c=whole.hottest_c,
            short_kw=round(short_kw, 3),
        )
    ]
