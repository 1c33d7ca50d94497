"""What the reference cases of cooling compute (tests/data/reference_cases.yaml)."""

import math
from collections.abc import Callable
from typing import Any

import pandas as pd

from capacity.cooling import air, liquid, plant, rack_air, units
from capacity.cooling.air import check_supply_air
from capacity.cooling.coolant import check_coolant
from inventory.findings import Finding
from inventory.site.sections.cooling import CoolantLoop, Tile
from tests.capacity.sites import variant


def ids(found: list[Finding], *, err: bool = True) -> list[str]:
    return [text for f in found for text in ((f.id, f.err or "") if err else (f.id,))]


def supply_air_findings(class_: str, supplies_c: list[float]) -> list[list[str]]:
    return [
        ids(check_supply_air(variant("h100-1000-ib", cooling={"class_": class_, "supply_c": float(c)})))
        for c in supplies_c
    ]


def coolant_findings(dewpoint_c: float, server_max_c: float, supplies_c: list[float]) -> list[list[str]]:
    coolant = variant("gb300-nvl72-liquid").cooling.coolant
    assert coolant is not None
    loop = coolant.model_copy(update={"server_max_c": float(server_max_c)})
    changes = [{"dewpoint_c": float(dewpoint_c), "coolant": loop, "supply_c": float(c)} for c in supplies_c]
    return [ids(check_coolant(variant("gb300-nvl72-liquid", cooling=change)), err=False) for change in changes]


def zone_units(heats_kw: list[float], unit_kw: float, n_plus: int) -> dict[str, int]:
    return {
        "by_site": units.with_spares(sum(heats_kw), unit_kw, n_plus),
        "by_zone": sum(units.with_spares(kw, unit_kw, n_plus) for kw in heats_kw),
    }


def dew_and_wet(states: list[list[float]]) -> list[float]:
    return [
        value
        for dry_c, humidity in states
        for value in (air.dew_point_c(dry_c, humidity), air.wet_bulb_c(dry_c, humidity, 101325.0))
    ]


def pipe(**inputs: Any) -> dict[str, float]:
    speed, _, friction, drop = liquid.pipe(**inputs)
    return {"m_s": speed, "friction": friction, "kpa": drop}


def loop(**changes: Any) -> CoolantLoop:
    given = variant("gb300-nvl72-liquid").cooling.coolant
    assert given is not None
    assert given.loop is not None
    return given.loop.model_copy(update=changes)


def exchanger(heat_kw: float, supply_c: float, rise_k: float, **given: float) -> dict[str, float]:
    found = liquid.exchanger(heat_kw, supply_c, rise_k, loop(**given))
    assert math.isfinite(found.ua_needed)
    return {"ntu": found.ntu_needed, "ua": found.ua_needed}


def raised_floor_findings(racks_kw: list[float], tile_m3_s: float, per_rack: int) -> list[list[str]]:
    given = variant("lab").cooling.air
    assert given is not None
    tile = Tile(airflow_m3_s=tile_m3_s, pressure_pa=12.5, per_rack=per_rack)
    site = variant("lab", cooling={"air": given.model_copy(update={"path": "raised_floor", "tile": tile})})
    hall = air.supply_air(20, 12, 0)
    racks = [pd.DataFrame({"rack": ["r1"], "air_kw": [float(kw)]}) for kw in racks_kw]
    return [ids(rack_air.check_tiles(site, rack, hall)) for rack in racks]


COMPUTE: dict[str, Callable[..., Any]] = {
    "supply_air_findings": supply_air_findings,
    "coolant_findings": coolant_findings,
    "water_l_s": plant.flow_l_s,
    "unit_counts": lambda heats_kw, unit_kw, n_plus: [units.with_spares(kw, unit_kw, n_plus) for kw in heats_kw],
    "zone_units": zone_units,
    "moist_cfm": lambda heat_kw, rise_k, **state: air.cfm(air.airflow_m3_s(heat_kw, rise_k, air.supply_air(**state))),
    "dew_and_wet": dew_and_wet,
    "pipe": pipe,
    "exchanger": exchanger,
    "raised_floor_findings": raised_floor_findings,
}
