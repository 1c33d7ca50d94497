"""Computed and generated items of cooling: each recounts from devices, racks and the site file what the plan's zones and
figures claim, in another way than the planner.

Air is recounted with dry air and the ICAO pressure (capacity.cooling.heat) where the planner has moist air of PsychroLib:
the two agree within 4 % (moisture and the temperature at which the volume is taken).
"""

import functools
import math

import pandas as pd

from capacity.cooling import air, coolant, heat
from capacity.cooling.air import RECOMMENDED_C
from capacity.cooling.aisles import aisle_layout
from capacity.cooling.coolant import DEW_POINT_MARGIN_K
from capacity.model import Plan
from capacity.outputs.documents import cooling
from inventory.findings import Finding
from validation.check import Limit, Outcome, check, judged
from validation.checks.test_design import KW_TOLERANCE, generated, read_document

SPAN = 0.04
"""Share by which dry air at 1.2 kg/m3 and moist air at supply temperature may differ in volume."""
ALIKE = 0.01
BEND = 0.3
"""Velocity heads of a long-radius elbow: Rennels gives 0.25 to 0.31 from 100,000 down to 20,000 of Reynolds number."""
BY_HAND = 0.05
"""Share by which the hand count of a branch may differ: 1 % of Swamee-Jain against Colebrook, the rest for BEND."""


def found_by(plan: Plan, *ids: str) -> list[Finding]:
    """The plan's findings with one of these ids."""
    return [f for f in plan.findings if f.id in ids]


def value_of(plan: Plan, item: str, quantity: str, subject: str = "") -> float | None:
    """A figure of the plan; None where it has none."""
    table = plan.cooling_figures
    rows = table[(table["item"] == item) & (table["quantity"] == quantity)]
    if subject:
        rows = rows[rows["subject"] == subject]
    return float(rows["value"].iloc[0]) if len(rows) else None


def lacking(key: str) -> Outcome:
    """Fails: the site file does not say what the item has to be computed from."""
    return Outcome(False, None, f"not computed: add {key} to the site file (docs/site-file.md)")


def heat_by_row(plan: Plan, liquid: bool = False) -> pd.Series:
    """Heat in kW by row of the room, counted from devices and placements."""
    devices = plan.devices.merge(plan.placements, left_on="name", right_on="device").merge(
        plan.racks[["name", "row"]], left_on="rack", right_on="name", suffixes=("", "_rack")
    )
    share = 1 - devices["air_fraction"] if liquid else devices["air_fraction"]
    return (devices["nameplate_w"] * share / 1000).groupby(devices["row"]).sum()


def zone_heat(plan: Plan) -> dict[str, float]:
    """Air heat of each air zone in kW, counted from devices and placements."""
    rows = heat_by_row(plan)
    air = plan.zones[plan.zones["kind"] == "air"]
    return {
        str(z["zone"]): float(rows[(rows.index >= z["first_row"]) & (rows.index <= z["last_row"])].sum())
        for z in air.to_dict("records")
    }


def recount(plan: Plan) -> list[str]:
    """What zones and a second count disagree on: heat by zone, every row in one zone, air within SPAN."""
    wrong = []
    counted = zone_heat(plan)
    rise_k, leak = (
        (plan.site.cooling.air.rise_k, plan.site.cooling.air.leakage_pct) if plan.site.cooling.air else (15.0, 0)
    )
    for z in plan.zones[plan.zones["kind"] == "air"].to_dict("records"):
        kw = counted[z["zone"]]
        if abs(kw - z["air_kw"]) > KW_TOLERANCE * len(plan.devices):
            wrong.append(f"{z['zone']}: devices give {kw:.3f} kW, the zone says {z['air_kw']:.3f} kW")
        dry = heat.airflow_cfm(kw, rise_k, plan.site.room.altitude_m) / air.CFM_PER_M3_S / (1 - leak / 100)
        if kw and abs(dry / z["flow_needed"] - 1) > SPAN:
            wrong.append(f"{z['zone']}: {z['flow_needed']:.2f} m3/s planned, {dry:.2f} m3/s of dry air")
    total = float((plan.devices["nameplate_w"] * plan.devices["air_fraction"]).sum()) / 1000
    if abs(sum(counted.values()) - total) > KW_TOLERANCE * len(plan.devices):
        wrong.append(f"zones hold {sum(counted.values()):.3f} kW of {total:.3f} kW: a row is in no zone or in two")
    return wrong


@check("S097.computed", inputs=("site.cooling", "frame.cooling_options", "frame.devices"))
def test_cooling_options_are_compared(subject: str, plan: Plan) -> Outcome:
    table = plan.cooling_options
    if table.empty:
        return lacking("cooling.options")
    total = float(plan.devices["nameplate_w"].sum()) / 1000
    value = {
        str(o["option"]): {k: round(float(o[k]), 3) for k in ("air_kw", "liquid_kw", "largest_rack_air_kw", "pue")}
        for o in table.to_dict("records")
    }
    split = [o for o, v in value.items() if abs(v["air_kw"] + v["liquid_kw"] - total) > 0.01]
    if split:
        return Outcome(False, value, f"air and liquid do not add up to {total:.1f} kW: {', '.join(split)}")
    if list(table["air_kw"]) != sorted(table["air_kw"], reverse=True):
        return Outcome(False, value, "from air to liquid the air heat does not fall: look at cooling.options")
    if int(table["chosen"].sum()) != 1:
        return Outcome(False, value, "the site's own kind of cooling is not among the options compared")
    own = table[table["chosen"] == 1].iloc[0]
    limit = Limit(float(own["rack_air_limit_kw"]), "kW of air heat a rack", f"site cooling.options: {own['source']}")
    good = f"{own['option']}: {own['largest_rack_air_kw']:.1f} kW of air heat in the densest rack"
    return judged(found_by(plan, "COOLING-OPTION"), value, good, limit=limit)


@check(
    "S097.generated",
    inputs=("site.cooling", "frame.cooling_options", "frame.zones", "frame.devices", "frame.racks", "site.room"),
)
def test_decision_record_is_complete(subject: str, plan: Plan) -> Outcome:
    text = cooling.decision(plan)
    heads = ("## Context", "## Options", "## Decision", "## Consequences", "## What would change our mind")
    problems = [f"no section {head}" for head in heads if head not in text]
    problems += [f"option {o} is missing" for o in plan.cooling_options["option"] if f"| {o} |" not in text]
    if plan.hash not in text:
        problems.append("the plan's hash is missing")
    if plan.cooling_options.empty:
        problems.append("no options compared: add cooling.options to the site file")
    return generated(text, problems, {"options": len(plan.cooling_options)}, "decision with its options and reasons")


@check(
    "S098.computed",
    inputs=("site.cooling", "site.room", "frame.zones", "frame.placements", "frame.devices", "frame.racks"),
)
def test_aisle_airflow_holds_with_units_out(subject: str, plan: Plan) -> Outcome:
    if plan.site.cooling.air is None:
        return lacking("cooling.air")
    wrong = recount(plan)
    air = plan.zones[plan.zones["kind"] == "air"]
    value = {
        z["zone"]: {"needed_cfm": round(z["flow_needed_cfm"]), "available_cfm": round(z["flow_available_cfm"])}
        for z in air.to_dict("records")
    }
    short = air[air["flow_available"] < air["flow_needed"] * (1 - 1e-9)]
    wrong += [f"{name}: less air than its servers draw with the spare units out" for name in short["zone"]]
    worst = air.iloc[int((air["flow_available"] / air["flow_needed"]).to_numpy().argmin())]
    limit = Limit(round(float(worst["flow_needed"]), 3), "m3/s", "heat over rise of the servers, leakage on top")
    good = f"{worst['zone']}: {worst['flow_available']:.1f} m3/s for {worst['flow_needed']:.1f} m3/s with the spare units out"
    if wrong:
        return Outcome(False, value, "; ".join(wrong), limit=limit)
    return judged(found_by(plan, "COOLING-RACK-AIR"), value, good, limit=limit)


@check("S098.generated", inputs=("site.room", "site.cooling", "frame.racks", "frame.zones"))
def test_aisle_layout_is_complete(subject: str, plan: Plan) -> Outcome:
    text = cooling.rounded_csv(aisle_layout(plan))
    back = read_document(text)
    rows = sorted(int(row) for row in plan.racks["row"].unique())
    problems = []
    for row in rows:
        beside = back[back["between"].str.split(", ").map(lambda names, row=row: f"row {row}" in names)]
        if sorted(beside["role"]) != ["cold", "hot"]:
            problems.append(f"row {row} does not lie between a cold and a hot aisle")
    if back["role"].eq(back["role"].shift()).any():
        problems.append("two aisles of one kind lie side by side")
    return generated(
        text, problems, {"aisles": len(back)}, f"{len(back)} aisles, each row between a cold and a hot one"
    )


@check(
    "S099.computed",
    inputs=(
        "site.cooling",
        "site.room",
        "frame.racks",
        "frame.zones",
        "frame.cooling_figures",
        "frame.devices",
        "frame.placements",
    ),
)
def test_floor_or_ducts_carry_the_airflow(subject: str, plan: Plan) -> Outcome:
    given = plan.site.cooling.air
    if given is None:
        return lacking("cooling.air")
    load = float((plan.racks["mass_kg"] / plan.racks["model"].map(functools.partial(footprint, plan))).max())
    value: dict[str, object] = {"path": given.path, "floor_load_kg_m2": round(load, 1)}
    findings = found_by(plan, "SPACE-FLOOR-LOAD", "COOLING-RAISED-FLOOR", "SPACE-COOLING-WALL")
    limit = Limit(plan.site.room.floor_load_kg_m2, "kg/m2", "site room.floor_load_kg_m2")
    if load > plan.site.room.floor_load_kg_m2:
        return Outcome(False, value, f"a rack loads the floor with {load:.0f} kg/m2", limit=limit)
    if given.duct is not None:
        pressure = value_of(plan, "air", "pressure drop of its ducts")
        limit = Limit(given.duct.available_pa, "Pa", "site cooling.air.duct.available_pa")
        value |= {"pa": pressure, "m_s": value_of(plan, "air", "velocity in its ducts")}
        area = given.duct.count * given.duct.width_m * given.duct.height_m
        speed = float(plan.zones.loc[plan.zones["kind"] == "air", "flow_needed"].max()) / area
        if pressure is None or abs(speed / float(str(value["m_s"])) - 1) > ALIKE:
            return Outcome(False, value, f"{speed:.2f} m/s by the ducts' area", limit=limit)
        return judged([*findings, *found_by(plan, "COOLING-DUCT")], value, f"ducts lose {pressure:.0f} Pa", limit=limit)
    if given.tile is None:
        good = f"no raised floor: air comes by {given.path} (alternatives, ERR-46); floor carries {load:.0f} kg/m2"
        return judged(findings, value, good, limit=limit)
    worst = max_rack_air_kw(plan)
    need = heat.airflow_cfm(worst, given.rise_k, plan.site.room.altitude_m) / air.CFM_PER_M3_S
    have = given.tile.airflow_m3_s * given.tile.per_rack
    value |= {"needed_m3_s": round(need, 3), "tiles_m3_s": round(have, 3)}
    value["static_pa"] = round(given.tile.pressure_pa * (need / have) ** 2, 1)
    limit = Limit(round(have, 3), "m3/s a rack", "site cooling.air.tile")
    if need * (1 - SPAN) > have:
        return Outcome(False, value, f"{worst:.1f} kW draw {need:.2f} m3/s, tiles give {have:.2f} m3/s", limit=limit)
    return judged(findings, value, f"tiles give {have:.2f} m3/s for {need:.2f} m3/s", limit=limit)


def footprint(plan: Plan, model: str) -> float:
    """Area of a rack type in m2."""

    rack = plan.catalog.rack(model)
    return rack.outer_width * rack.outer_depth / 1e6


def air_heat_by_rack(plan: Plan) -> pd.Series:
    """Air heat of each rack in kW, counted from devices and placements."""
    rack = plan.placements.set_index("device")["rack"].reindex(plan.devices["name"]).to_numpy()
    return (plan.devices["nameplate_w"] * plan.devices["air_fraction"] / 1000).groupby(rack).sum()


def max_rack_air_kw(plan: Plan) -> float:
    """Air heat of the rack with most, kW."""
    return float(air_heat_by_rack(plan).max())


@check(
    "S100.computed",
    inputs=("site.cooling", "site.room", "frame.zones", "frame.devices", "frame.placements", "frame.racks"),
)
def test_room_units_suffice_at_the_conditions_of_the_hall(subject: str, plan: Plan) -> Outcome:
    return units_suffice(plan)


def units_suffice(plan: Plan) -> Outcome:
    """Every zone has ceil(heat / unit) units and the spare ones (RC-118), a unit rated by what its air can carry."""
    given = plan.site.cooling.air
    assert given is not None
    wrong = recount(plan)
    counted, value = zone_heat(plan), {}
    for z in plan.zones[plan.zones["kind"] == "air"].to_dict("records"):
        kw = counted[z["zone"]]
        rise = z["return_c"] - z["supply_c"]
        ratio = heat.pressure_ratio(plan.site.room.altitude_m)
        bound = given.airflow_m3_s * heat.AIR_DENSITY_KG_M3 * ratio * heat.AIR_CP_J_KGK * rise / 1000
        least = math.ceil(kw / (bound * (1 + SPAN))) if kw else 0
        value[z["zone"]] = {
            "heat_kw": round(kw, 2),
            "unit_kw": round(z["unit_kw"], 2),
            "n": z["needed"],
            "installed": z["installed"],
        }
        if given.kind != "rear_door" and (z["needed"] < least or z["needed"] != math.ceil(kw / z["unit_kw"] - 1e-9)):
            wrong.append(
                f"{z['zone']}: {z['needed']} units said to suffice for {kw:.0f} kW of {z['unit_kw']:.0f} kW each"
            )
        if z["installed"] < z["needed"] + (0 if given.kind == "rear_door" else plan.site.cooling.n_plus):
            wrong.append(f"{z['zone']}: {z['installed']} units, {z['needed']} + {plan.site.cooling.n_plus} needed")
        if z["unit_kw"] > bound * (1 + SPAN):
            wrong.append(f"{z['zone']}: {z['unit_kw']:.0f} kW a unit, its air carries {bound:.0f} kW")
    findings = found_by(
        plan, "COOLING-CAPACITY", "COOLING-REDUNDANCY", "COOLING-UNIT-FIGURES", "COOLING-COIL", "COOLING-DOOR"
    )
    if wrong:
        return Outcome(False, value, "; ".join(wrong))
    limit = Limit(plan.site.cooling.n_plus, "spare units a zone", "site cooling.n_plus")
    return judged(findings, value, f"{len(value)} zones, each with N + {plan.site.cooling.n_plus} units", limit=limit)


@check(
    "S101.computed",
    inputs=(
        "site.cooling",
        "frame.zones",
        "frame.cooling_units",
        "frame.devices",
        "frame.placements",
        "frame.racks",
        "site.room",
    ),
)
def test_in_row_coolers_suffice_and_have_places(subject: str, plan: Plan) -> Outcome:
    units = plan.cooling_units[plan.cooling_units["at"] == "row"]
    racks = set(zip(plan.racks["row"], plan.racks["position"], strict=True))
    inside = [
        name for name, r, p in zip(units["name"], units["row"], units["position"], strict=True) if (r, p) in racks
    ]
    air = plan.zones[plan.zones["kind"] == "air"]
    placed = units[units["zone"].isin(air["zone"])]
    if inside or len(placed) != int(air["installed"].sum()):
        detail = f"{len(placed)} of {int(air['installed'].sum())} coolers have a place; in racks: {', '.join(inside) or 'none'}"
        return Outcome(False, {"placed": len(placed)}, detail)
    return units_suffice(plan)


def vapour_hpa(celsius: float) -> float:
    """Saturation pressure after Magnus, over ice below 0 C (WMO-No. 8, annex 4.B)."""
    a, b = (17.62, 243.12) if celsius >= 0 else (22.46, 272.62)
    return 6.112 * math.exp(a * celsius / (b + celsius))


@check("S104.computed", inputs=("site.cooling", "frame.devices", "frame.cooling_figures", "frame.zones"))
def test_supply_air_is_in_its_band(subject: str, plan: Plan) -> Outcome:
    cooling = plan.site.cooling
    low, high = RECOMMENDED_C[cooling.class_]
    air = plan.zones[plan.zones["kind"] == "air"]
    supply = float(air["supply_c"].max())
    value: dict[str, object] = {
        "class": cooling.class_,
        "low_c": low,
        "high_c": high,
        "supply_c": supply,
        "dewpoint_c": cooling.dewpoint_c,
    }
    again = vapour_hpa(min(cooling.dewpoint_c, supply)) / vapour_hpa(supply) * 100
    planned = value_of(plan, "air", "relative humidity at the inlet")
    value |= {"relative_pct": planned, "relative_pct_again": round(again, 2)}
    limit = Limit(f"{low:g} to {high:g}", "C", f"ASHRAE TC 9.9, 5th edition, class {cooling.class_}")
    if not low <= supply <= high:
        return Outcome(False, value, f"supply air of {supply:g} C is outside the band", limit=limit)
    if planned is None or abs(again / planned - 1) > ALIKE:
        return Outcome(False, value, f"{planned} % relative humidity planned, {again:.1f} % after Magnus", limit=limit)
    good = f"supply {supply:g} C, class {cooling.class_}: {low:g} to {high:g} C; dew point {cooling.dewpoint_c:g} C"
    findings = found_by(plan, "COOLING-SUPPLY", "COOLING-DEWPOINT", "COOLING-HUMIDITY", "COOLING-INLET")
    return judged(findings, value, f"{good}, {planned:.0f} % relative humidity", limit=limit)


@check("S106.computed", inputs=("frame.racks", "frame.placements", "frame.bom"))
def test_blanking_panels_are_counted(subject: str, plan: Plan) -> Outcome:
    filled = [
        (rack, u)
        for rack, bottom, height in plan.placements.loc[
            plan.placements["u_height"] > 0, ["rack", "u_bottom", "u_height"]
        ].itertuples(index=False, name=None)
        for u in range(bottom, bottom + height)
    ]
    empty = int(plan.racks["height_u"].sum()) - len(set(filled))
    bought = int(plan.bom.loc[plan.bom["item"] == "blanking panel", "quantity"].sum())
    listed = int(read_document(cooling.rounded_csv(cooling.blanking(plan)))["panels_1u"].astype(int).sum())
    value = {"empty_u": empty, "bought": bought, "listed": listed}
    return Outcome(
        empty == bought == listed, value, f"{empty} empty rack units, {bought} panels bought, {listed} listed"
    )


@check("S108.computed", inputs=("site.cooling", "frame.zones", "frame.devices", "frame.cooling_figures"))
def test_distribution_units_suffice(subject: str, plan: Plan) -> Outcome:
    loop = plan.site.cooling.coolant
    wet = plan.zones[plan.zones["kind"] == "liquid"]
    if loop is None or wet.empty:
        return lacking("cooling.coolant")
    if loop.loop is None:
        return lacking("cooling.coolant.loop")
    kw = float((plan.devices["nameplate_w"] * (1 - plan.devices["air_fraction"])).sum()) / 1000
    spare, wrong, most_kw = plan.site.cooling.n_plus, [], 0.0
    for z in wet.to_dict("records"):
        n = math.ceil(z["liquid_kw"] / loop.cdu_kw)
        most_kw = max(most_kw, z["liquid_kw"] / max(z["installed"] - spare, n))
        if z["installed"] < n + spare:
            wrong.append(f"{z['zone']}: {n} + {spare} units needed, {z['installed']} planned")
    if abs(kw - float(wet["liquid_kw"].sum())) > KW_TOLERANCE * len(plan.devices):
        wrong.append(f"loops hold {wet['liquid_kw'].sum():.3f} kW of {kw:.3f} kW")
    # counterflow with equal capacity flows is linear: the mean difference is the approach itself (else LMTD)
    hot, cold = plan.site.cooling.supply_c + loop.rise_k - (loop.loop.facility_c + loop.loop.facility_rise_k), 0.0
    cold = plan.site.cooling.supply_c - loop.loop.facility_c
    mean = hot if abs(hot - cold) < 1e-9 else (hot - cold) / math.log(hot / cold) if hot > 0 else 0.0
    ua = most_kw / mean if mean > 0 else math.inf
    planned = value_of(plan, "coolant", "conductance needed")
    value = {
        "liquid_kw": round(kw, 2),
        "loops": len(wet),
        "n": int(wet["needed"].sum()),
        "installed": int(wet["installed"].sum()),
        "approach_k": cold,
        "ua_by_lmtd": round(ua, 2),
        "ua_by_ntu": planned,
        "flow_l_min": round(float(wet["flow_needed"].sum()), 1),
    }
    limit = Limit(loop.loop.cdu_ua_kw_k, "kW/K", f"site cooling.coolant.loop: {loop.loop.source}")
    if planned is None or abs(ua / planned - 1) > ALIKE:
        return Outcome(False, value, f"conductance by mean difference {ua:.1f} kW/K, by e-NTU {planned}", limit=limit)
    if wrong:
        return Outcome(False, value, "; ".join(wrong), limit=limit)
    low, high = plan.site.cooling.dewpoint_c + DEW_POINT_MARGIN_K, loop.server_max_c
    if not low <= plan.site.cooling.supply_c <= high:
        return Outcome(
            False, value, f"supply {plan.site.cooling.supply_c:g} C is outside {low:g} to {high:g} C", limit=limit
        )
    findings = found_by(
        plan, "COOLING-APPROACH", "COOLING-COOLANT", "COOLING-NO-LOOP", "COOLING-NOTHING-WET", "COOLING-LOOP-DOMAIN"
    )
    good = f"{kw:.0f} kW on {len(wet)} loops, each with N + {spare} units; approach {cold:g} K"
    return judged(findings, value, good, limit=limit)


@check("S109.computed", inputs=("site.cooling", "frame.cooling_figures", "frame.devices", "frame.placements"))
def test_pumps_supply_the_largest_rack(subject: str, plan: Plan) -> Outcome:
    loop = plan.site.cooling.coolant
    if loop is None or loop.loop is None:
        return lacking("cooling.coolant.loop")
    rack = float(heat.liquid_kw_by_rack(plan.devices, plan.placements).max())
    flow = coolant.flow_l_min(rack, plan.site.cooling.supply_c, loop.rise_k)
    mean_c = plan.site.cooling.supply_c + loop.rise_k / 2
    bore = loop.loop.branch_bore_mm / 1000
    speed = flow / 60000 / (math.pi / 4 * bore**2)
    reynolds = coolant.density_kg_m3(mean_c) * speed * bore / coolant.viscosity_pa_s(mean_c)
    # Swamee-Jain in place of Colebrook, bends of BEND velocity heads each
    friction = 0.25 / math.log10(loop.loop.roughness_mm / 1000 / (3.7 * bore) + 5.74 / reynolds**0.9) ** 2
    head = coolant.density_kg_m3(mean_c) * speed**2 / 2000
    drop = (friction * loop.loop.branch_m / bore + BEND * loop.loop.branch_bends) * head
    drop += loop.loop.rack_kpa * (flow / loop.loop.rack_l_min) ** 2
    planned = value_of(plan, "coolant", "drop together")
    value = {"l_min": round(flow, 2), "m_s": round(speed, 3), "kpa": planned, "kpa_again": round(drop, 2)}
    limit = Limit(loop.loop.cdu_head_kpa, "kPa", f"site cooling.coolant.loop: {loop.loop.source}")
    if planned is None or abs(drop / planned - 1) > BY_HAND:
        return Outcome(False, value, f"{planned} kPa planned, {drop:.1f} kPa by Swamee-Jain", limit=limit)
    good = f"{rack:.0f} kW take {flow:.0f} L/min and lose {planned:.0f} kPa"
    return judged(found_by(plan, "COOLING-HEAD"), value, good, unit="kPa", limit=limit)


@check("S114.computed", inputs=("site.cooling", "frame.cooling_figures", "frame.zones", "frame.devices"))
def test_chilled_water_plant_suffices_with_one_chiller_out(subject: str, plan: Plan) -> Outcome:
    given = plan.site.cooling.plant
    if given is None:
        return lacking("cooling.plant")
    if given.chiller_kw is None:
        return Outcome(
            False, {"kind": given.kind}, "chilled_water is true and cooling.plant has no chillers: correct one"
        )
    load = value_of(plan, "plant", "load of the chillers") or 0.0
    installed = value_of(plan, "plant", "chillers installed") or 0.0
    flow = value_of(plan, "plant", "facility water") or 0.0
    watts, share = plan.devices["nameplate_w"], plan.devices["air_fraction"]
    loop = plan.site.cooling.coolant.loop if plan.site.cooling.coolant else None
    wet_rise_k = loop.facility_rise_k if loop else given.water_rise_k
    again = float((watts * share).sum() / given.water_rise_k + (watts * (1 - share)).sum() / wet_rise_k)
    again /= 1000 * heat.WATER_KJ_KGK
    left = max(installed - 1, 0) * given.chiller_kw
    value = {"load_kw": load, "chillers": installed, "left_kw": left, "l_s": flow, "l_s_of_it_load": round(again, 2)}
    limit = Limit(round(load, 2), "kW", "load of the chillers on the design day")
    if left < load:
        return Outcome(
            False, value, f"one of {installed:g} chillers out leaves {left:g} kW of {load:g} kW", limit=limit
        )
    if not again * 0.99 <= flow <= again * 1.1:
        return Outcome(False, value, f"{flow:.1f} L/s planned, the IT load alone takes {again:.1f} L/s", limit=limit)
    return Outcome(True, value, f"{left:,.0f} kW with one chiller out for {load:,.0f} kW; {flow:.0f} L/s", limit=limit)


@check("S115.computed", inputs=("site.cooling", "frame.cooling_figures", "frame.devices"))
def test_heat_is_rejected_on_the_design_day(subject: str, plan: Plan) -> Outcome:
    given = plan.site.cooling.plant
    if given is None:
        return lacking("cooling.plant")

    def of(quantity: str) -> float:
        return value_of(plan, "plant", quantity) or 0.0

    it_kw = float(plan.devices["nameplate_w"].sum()) / 1000
    inside = of("fans of the air units") + of("pumps of the distribution units")
    balance = it_kw + inside + of("power of the chillers")
    spare = plan.site.cooling.n_plus if given.n_plus is None else given.n_plus
    left = (of("towers or dry coolers installed") - spare) * given.reject_kw
    value = {
        "reject_kw": of("heat to reject"),
        "balance_kw": round(balance, 3),
        "left_kw": left,
        "outdoor_water_c": of("outdoor water on the design day"),
        "makeup_m3_h": of("make-up water"),
    }
    limit = Limit(round(of("heat to reject"), 2), "kW", f"site cooling.plant: {given.source}")
    if abs(balance - of("heat to reject")) > 0.01 + ALIKE * 0.01 * balance:
        return Outcome(False, value, f"{balance:.1f} kW go in, {of('heat to reject'):.1f} kW go out", limit=limit)
    if left < of("heat to reject"):
        return Outcome(False, value, f"with {spare} units out {left:g} kW are left", limit=limit)
    good = f"{of('heat to reject'):,.0f} kW rejected with {spare} units out, water {of('make-up water'):.1f} m3/h"
    return judged(found_by(plan, "COOLING-PLANT", "COOLING-HOURS"), value, good, limit=limit)


@check("S117.computed", inputs=("site.cooling", "site.weather", "weather", "frame.cooling_figures"))
def test_economiser_year_is_consistent(subject: str, plan: Plan) -> Outcome:
    given = plan.site.cooling.plant
    if given is None:
        return lacking("cooling.plant")

    def of(quantity: str) -> float:
        return value_of(plan, "year", quantity) or 0.0

    if value_of(plan, "year", "energy of all cooling") is None:
        found = found_by(plan, "COOLING-WEATHER")
        return judged(found, None, "") if found else lacking("weather")
    hours = of("hours without chillers") + of("hours with some chiller work") + of("hours with chillers alone")
    value = {
        name: of(name)
        for name in (
            "hours without chillers",
            "hours with some chiller work",
            "hours with chillers alone",
            "energy of the chillers",
            "energy that the economiser saves",
            "water",
            "PUE",
        )
    }
    whole = (value_of(plan, "plant", "power of the chillers") or 0.0) * hours / 1000
    together = of("energy of the chillers") + of("energy that the economiser saves")
    problems = []
    if not 8760 <= hours <= 8784:
        problems.append(f"the hours add up to {hours:g}")
    hotter = of("hours above the outdoor water's limit") > 0  # then chillers carry more than on the design day
    if together < whole - 0.01 * max(whole, 1) or (together > whole + 0.01 * max(whole, 1) and not hotter):
        problems.append(f"chillers {together:.1f} MWh with what is saved, {whole:.1f} MWh without an economiser")
    if of("PUE") > (value_of(plan, "pue", "PUE") or 0.0) + 1e-6:
        problems.append("the year's PUE is above the design day's")
    good = f"{of('hours without chillers'):g} h without chillers, {of('energy that the economiser saves'):,.0f} MWh saved a year"
    if problems:
        return Outcome(False, value, "; ".join(problems))
    return judged(found_by(plan, "COOLING-HOURS"), value, good)


@check(
    "S118.computed",
    inputs=(
        "site.cooling",
        "site.ups",
        "site.generator",
        "frame.zones",
        "frame.cooling_figures",
        "frame.devices",
        "frame.placements",
        "frame.racks",
    ),
)
def test_every_zone_keeps_its_redundancy(subject: str, plan: Plan) -> Outcome:
    if plan.site.cooling.air is None:
        return lacking("cooling.air")
    if plan.site.cooling.ride_through is None:
        return lacking("cooling.ride_through")
    table = plan.cooling_figures[plan.cooling_figures["item"] == "ride-through"]
    minutes = {
        f"{s} {q}": round(v, 3) for s, q, v in zip(table["subject"], table["quantity"], table["value"], strict=True)
    }
    value: dict[str, object] = {"minutes": minutes}
    problems = []
    doors = plan.site.cooling.air.kind == "rear_door"
    heat_by_rack = air_heat_by_rack(plan)
    for z in plan.zones.to_dict("records"):
        kw = z["air_kw"] if z["kind"] == "air" else z["liquid_kw"]
        if doors and z["kind"] == "air":
            rows = (
                plan.racks.set_index("name")["row"].reindex(heat_by_rack.index).between(z["first_row"], z["last_row"])
            )
            most = float(heat_by_rack[rows.to_numpy()].max())
            surplus = (z["installed"] - 1) * z["unit_kw"] - (kw - most)
            value[z["zone"]] = {"doors": z["installed"], "spilt_kw": round(most, 2), "surplus_kw": round(surplus, 2)}
            continue
        n = math.ceil(kw / z["unit_kw"] - 1e-9)
        value[z["zone"]] = {"n": n, "n+1": n + 1, "n+2": n + 2, "installed": z["installed"]}
        if z["installed"] < n + plan.site.cooling.n_plus:
            problems.append(f"{z['zone']} has {z['installed']} units, {n} + {plan.site.cooling.n_plus} needed")
    limit = Limit(plan.site.cooling.n_plus, "spare units a zone", "site cooling.n_plus (RC-118)")
    if problems:
        return Outcome(False, value, "; ".join(problems), limit=limit)
    found = found_by(plan, "COOLING-CAPACITY", "COOLING-REDUNDANCY", "COOLING-RIDE-THROUGH", "COOLING-DOOR-OUT")
    counted = plan.zones[plan.zones["kind"] == "liquid"] if doors else plan.zones
    said = [f"{len(counted)} zones with N + {plan.site.cooling.n_plus} units each"] if len(counted) else []
    said += [f.message for f in found if f.id == "COOLING-DOOR-OUT"]
    return judged(found, value, "; ".join(said), limit=limit)
