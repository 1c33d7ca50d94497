"""What the cooling adds to the bill of materials: air and distribution units, containment, plant and pumps, room and leak
sensors, valves, coolant.
"""

import math
from collections.abc import Mapping

import pandas as pd

from capacity.cooling.coolant import FLUID
from capacity.procurement.bom import Line
from inventory.site import Site

SENSORS_PER_RACK = 3
"""Temperature at the inlet of a rack: top, middle and bottom (S103)."""


def lines(site: Site, racks: pd.DataFrame, built: Mapping[str, pd.DataFrame]) -> list[Line]:
    """Lines of the bill; manifolds and blanking panels, which go by racks and servers, are lines of capacity.procurement.bom."""
    zones, figures = built["zones"], built["cooling_figures"]
    found: list[Line] = []
    air, given = zones[zones["kind"] == "air"], site.cooling.air
    if given is not None:
        step = {"in_row": "S101"}.get(given.kind, "S100")
        spare = f"{len(air)} zones, {site.cooling.n_plus} to spare in each"
        found.append(Line("cooling unit", given.model, int(air["installed"].sum()), step, spare))
        if given.tile is not None:
            tiles = given.tile.per_rack * len(racks)
            found.append(Line("floor tile", f"{given.tile.airflow_m3_s:g} m3/s", tiles, "S099", "perforated, per rack"))
        if given.containment != "none":
            rows = racks["row"].nunique()
            aisles = (rows + 1) // 2 if given.containment == "hot" else rows // 2 + 1
            found.append(
                Line("containment", f"{given.containment} aisle", aisles, "S105", "doors, roof and end panels")
            )
    plant = site.cooling.plant
    if plant is not None:
        counts = figures[figures["item"] == "plant"].set_index("quantity")["value"]
        chillers, rejectors = (int(counts[f"{name} installed"]) for name in ("chillers", "towers or dry coolers"))
        if plant.chiller_kw:
            found.append(Line("chiller", f"{plant.chiller_kw:g} kW", chillers, "S114", "spare ones included"))
        what = "cooling tower" if plant.kind in ("chiller_tower", "tower") else "dry cooler"
        found.append(Line(what, f"{plant.reject_kw:g} kW", rejectors, "S115", "spare ones included"))
        if plant.pump_l_s:
            pumps, model = int(counts["pumps installed"]), f"{plant.pump_l_s:g} L/s, {plant.pump_kpa:g} kPa"
            note = "spare ones included"
        else:
            pumps = chillers if plant.chiller_kw else rejectors
            model = f"{counts['facility water']:,.0f} L/s at {plant.pump_kpa:g} kPa together"
            unit = "chiller" if plant.chiller_kw else what
            note = (
                f"assumed: one per {unit}, spare ones included; cooling.plant.pump_l_s or the hydraulic design decides"
            )
        found.append(Line("water pump", model, pumps, "S116", note))
    found.append(
        Line("room sensor", "temperature", SENSORS_PER_RACK * len(racks), "S103", "rack inlets: top, middle and bottom")
    )
    found.append(Line("room sensor", "humidity and temperature", len(air), "S103", "one per air zone"))
    wet, loop = zones[zones["kind"] == "liquid"], site.cooling.coolant
    if loop is not None and len(wet):
        units = int(wet["installed"].sum())
        spare = (
            f"{len(wet)} loops, {site.cooling.n_plus} to spare in each"
            if len(wet) > 1
            else f"{site.cooling.n_plus} to spare"
        )
        found.append(Line("cdu", f"{loop.cdu_kw:g} kW", units, "S108", spare))
        each = 2 * int(wet["racks"].sum())
        found.append(Line("leak sensor", "rope, manifold and floor", each, "S113", "two a liquid-cooled rack"))
        found.append(Line("shut-off valve", "motorised, supply and return", each, "S113", "two a liquid-cooled rack"))
        if loop.loop is not None:
            litres = math.ceil(loop.loop.volume_l * wet["racks"].sum() / wet["racks"].max())
            said = "first fill of the loop, its volume_l"
            if len(wet) > 1:
                said = f"first fill of {len(wet)} loops, volume_l in proportion to their racks"
            found.append(Line("coolant", FLUID, litres, "S111", said, unit="L"))
    return found
