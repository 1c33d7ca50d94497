"""Findings of the cooling: what the zones, the coolant's way and the plant cannot do, with the smallest change that mends it.

Sources: RC-118 and S118 for spare units by zone, ERR-46 for raised floors, RC-112 for the coolant, ASHRAE TC 9.9 (5th
edition) for the band of dew points.
"""

import math

import numpy as np
import pandas as pd

from capacity.cooling import liquid, plant, units
from capacity.cooling import ride_through as outages
from capacity.cooling.air import Air, airflow_m3_s, cfm
from inventory.findings import Finding, Severity
from inventory.schema import Plant
from inventory.site import Site

RECOMMENDED_DEWPOINT_C = (-9.0, 15.0)
IN_ROW_REACH_M = 3.0
"""Distance from a cooler between racks that is worth a note: engineering experience, no standard."""
_NEAR = 1e-6


def not_given(key: str, what: str) -> Finding:
    """For information: the site file does not say what a judgement needs."""
    return Finding("COOLING-NOT-PLANNED", "info", key, f"{key} is not given: {what} cannot be planned", {}, None, "")


def no_loop(liquid_kw: float) -> Finding:
    """COOLING-NO-LOOP: heat on cold plates and no coolant to carry it."""
    return Finding(
        "COOLING-NO-LOOP",
        "error",
        "cooling.coolant",
        f"{liquid_kw:.1f} kW go to cold plates and the site has no coolant loop: cooling.kind liquid with coolant, or servers "
        "that are cooled by air",
        {"liquid_kw": round(liquid_kw, 3)},
        0.0,
        "catalogue air_fraction of the devices",
    )


def zones(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """COOLING-CAPACITY when all units of a zone are too few, COOLING-REDUNDANCY when they are with the spare ones out."""
    given, n_plus = site.cooling.air, site.cooling.n_plus
    if given is None:
        return [not_given("cooling.air", "capacity and spare units of the zones")]
    found = []
    for row in frame.to_dict("records"):
        heat_kw, unit_kw = float(row["air_kw"]), float(row["unit_kw"])
        if heat_kw <= 0:
            continue
        numbers = {k: round(float(row[k]), 3) for k in ("air_kw", "unit_kw", "capacity_kw", "reserve_kw")}
        numbers["installed"] = float(row["installed"])
        doors_only = given.kind == "rear_door"
        want = int(row["racks"]) if doors_only else units.with_spares(heat_kw, unit_kw, n_plus)
        more = want - int(row["installed"])
        change = (
            f"{more:g} more unit{'s' if more > 1 else ''} of {unit_kw:.0f} kW"
            if more > 0
            else "larger units, or fewer servers a rack"
        )
        if row["capacity_kw"] < heat_kw - _NEAR:
            kind, limit = "COOLING-CAPACITY", "heat of the zone at nameplate"
            what = f"all {row['installed']:g} units move {row['capacity_kw']:.0f} kW"
        elif row["reserve_kw"] < heat_kw - _NEAR:
            kind, limit = "COOLING-REDUNDANCY", "site cooling.n_plus by zone (RC-118, S118)"
            what = f"with {n_plus} of {row['installed']:g} units out {row['reserve_kw']:.0f} kW are left"
        else:
            continue
        message = f"{heat_kw:.0f} kW of air heat and {what}: {change}"
        found.append(Finding(kind, "error", row["zone"], message, numbers, round(heat_kw, 3), limit, None))
    return found


def coils(site: Site, one: units.Capacity | None) -> list[Finding]:
    """COOLING-UNIT-FIGURES when the data sheet contradicts itself, COOLING-COIL when a coil is too weak for the supply,
    COOLING-CONDENSATE when its water is colder than the dew point.
    """
    given = site.cooling.air
    if given is None or one is None:
        return []
    found = []
    if one.effectiveness >= 1:
        found.append(
            Finding(
                "COOLING-UNIT-FIGURES",
                "error",
                "cooling.air.sensible_kw",
                f"{given.sensible_kw:g} kW with {given.airflow_m3_s:g} m3/s from {given.rated_return_c:g} C over water of "
                f"{given.rated_water_c:g} C is more than that air can give off: take all four from one line of the data sheet",
                {"effectiveness": round(one.effectiveness, 3)},
                1.0,
                "a coil cannot cool air below its water",
            )
        )
    elif one.coil_kw < one.air_kw - 0.005 * one.air_kw:
        found.append(
            Finding(
                "COOLING-COIL",
                "warning",
                "cooling.air",
                f"the coil moves {one.coil_kw:.0f} kW and its air could carry {one.air_kw:.0f} kW: at full speed a unit "
                f"supplies {one.supply_c:.1f} C, not the design's; colder water, or more units at lower speed",
                {"coil_kw": round(one.coil_kw, 3), "air_kw": round(one.air_kw, 3), "supply_c": round(one.supply_c, 2)},
                round(one.air_kw, 3),
                "e-NTU at the unit's rated conditions",
            )
        )
    water_c = site.cooling.plant.water_c if site.cooling.plant is not None else given.rated_water_c
    if water_c < site.cooling.dewpoint_c - _NEAR:
        found.append(
            Finding(
                "COOLING-CONDENSATE",
                "info",
                "cooling.plant.water_c" if site.cooling.plant is not None else "cooling.air.rated_water_c",
                f"water of {water_c:g} C is below the highest dew point of {site.cooling.dewpoint_c:g} C: coils condense "
                "then, and part of their capacity is latent; drains and lagging, or warmer water",
                {"water_c": water_c, "dewpoint_c": site.cooling.dewpoint_c},
                site.cooling.dewpoint_c,
                "site cooling.dewpoint_c",
            )
        )
    return found


def tiles(site: Site, per_rack: pd.DataFrame, air: Air) -> list[Finding]:
    """COOLING-RAISED-FLOOR (ERR-46) when the tiles before a rack give it less air than its servers draw."""
    given = site.cooling.air
    if given is None or given.tile is None or per_rack.empty:
        return []
    worst = int(per_rack["air_kw"].to_numpy().argmax())
    heat_kw = float(per_rack["air_kw"].iloc[worst])
    need = airflow_m3_s(heat_kw, given.rise_k, air)
    have = given.tile.airflow_m3_s * given.tile.per_rack
    if need <= have + _NEAR:
        return []
    possible = heat_kw * have / need
    count = math.ceil(need / given.tile.airflow_m3_s)
    over = sum(airflow_m3_s(float(kw), given.rise_k, air) > have + _NEAR for kw in per_rack["air_kw"])
    return [
        Finding(
            "COOLING-RAISED-FLOOR",
            "error",
            str(per_rack["rack"].iloc[worst]),
            f"{heat_kw:.1f} kW draw {need:.2f} m3/s ({cfm(need):,.0f} CFM) and {given.tile.per_rack} tiles give {have:.2f} m3/s, "
            f"enough for {possible:.1f} kW: {count} such tiles a rack, or coolers in the rows, or liquid ({over} racks in all)",
            {"air_kw": round(heat_kw, 3), "needed_m3_s": round(need, 4), "racks": over},
            round(have, 4),
            "site cooling.air.tile",
            "ERR-46",
        )
    ]


def duct(site: Site, worst: str, velocity: float, pressure: float) -> list[Finding]:
    """COOLING-DUCT when the units' fans cannot push a zone's air through its ducts."""
    given = site.cooling.air.duct if site.cooling.air is not None else None
    if given is None or pressure <= given.available_pa + _NEAR:
        return []
    more = math.ceil(given.count * math.sqrt(pressure / given.available_pa))
    return [
        Finding("COOLING-DUCT", "error", worst,
                f"the zone's air runs at {velocity:.1f} m/s through {given.count} ducts and loses {pressure:.0f} Pa, the fans "
                f"leave {given.available_pa:g} Pa: {more} such ducts, or wider ones",
                {"m_s": round(velocity, 2), "pa": round(pressure, 1)}, given.available_pa, "site cooling.air.duct")
    ]  # fmt: skip


def doors(site: Site, per_rack: pd.DataFrame, one: units.Capacity | None) -> list[Finding]:
    """COOLING-DOOR when a rack gives its rear door more heat than it moves."""
    given = site.cooling.air
    if given is None or one is None or given.kind != "rear_door":
        return []
    worst = int(per_rack["air_kw"].to_numpy().argmax())
    heat_kw = float(per_rack["air_kw"].iloc[worst])
    if heat_kw <= one.kw + _NEAR:
        return []
    return [
        Finding("COOLING-DOOR", "warning", str(per_rack["rack"].iloc[worst]),
                f"{heat_kw:.1f} kW of air heat and its rear door moves {one.kw:.1f} kW, the hall gets the rest: a door that "
                f"moves {heat_kw:.1f} kW in this hall, or {heat_kw - one.kw:.1f} kW less in the rack (rack.servers)",
                {"air_kw": round(heat_kw, 3)}, round(one.kw, 3), "site cooling.air")
    ]  # fmt: skip


def room_air(site: Site) -> list[Finding]:
    """COOLING-DEWPOINT outside the recommended band (ERR-26), COOLING-OPEN-AISLES for information."""
    found = []
    dew, high = site.cooling.dewpoint_c, RECOMMENDED_DEWPOINT_C[1]
    if dew > high:
        found.append(
            Finding("COOLING-DEWPOINT", "warning", "cooling.dewpoint_c",
                    f"a dew point of {dew:g} C lies above the {high:g} C that is recommended: dry the room",
                    {"dewpoint_c": dew}, high, "ASHRAE TC 9.9, 5th edition", "ERR-26")
        )  # fmt: skip
    if site.cooling.air is not None and site.cooling.air.containment == "none":
        found.append(
            Finding("COOLING-OPEN-AISLES", "info", "cooling.air.containment",
                    "no aisle is closed off: hot air that flows back to the inlets is not modelled, only the leakage given",
                    {"leakage_pct": site.cooling.air.leakage_pct}, None, "")
        )  # fmt: skip
    return found


def hydraulics(site: Site, way: liquid.Branch, share: liquid.Exchanger) -> list[Finding]:
    """COOLING-HEAD when the pumps cannot drive the flow, COOLING-APPROACH when the exchanger is too small."""
    found = []
    loop = site.cooling.coolant.loop if site.cooling.coolant else None
    if loop is None:
        return []
    if way.total_kpa > loop.cdu_head_kpa + _NEAR:
        ratio = math.sqrt(loop.cdu_head_kpa / way.total_kpa)
        rise = site.cooling.coolant.rise_k / ratio if site.cooling.coolant else 0.0
        found.append(
            Finding(
                "COOLING-HEAD",
                "error",
                "cooling.coolant.loop",
                f"{way.flow_l_min:.0f} L/min to the largest rack lose {way.total_kpa:.0f} kPa and the pumps have "
                f"{loop.cdu_head_kpa:g} kPa: a rise of about {rise:.1f} K, or a wider branch",
                {"pipe_kpa": round(way.pipe_kpa, 2), "rack_kpa": round(way.rack_kpa, 2)},
                loop.cdu_head_kpa,
                "site cooling.coolant.loop.cdu_head_kpa",
            )
        )
    if share.ua_needed > share.ua * (1 + 1e-6):
        # the conductance needed is in proportion to the heat of a unit
        fits_kw = math.floor(share.heat_kw * share.ua / share.ua_needed)
        smaller = (
            f", or cooling.coolant.cdu_kw of at most {fits_kw} (more units of such exchangers)" if fits_kw >= 1 else ""
        )
        needed = "no exchanger" if math.isinf(share.ua_needed) else f"{share.ua_needed:.0f} kW/K"
        found.append(
            Finding(
                "COOLING-APPROACH",
                "error",
                "cooling.coolant.loop.cdu_ua_kw_k",
                f"an approach of {share.approach_k:.1f} K takes {needed} and a unit has {share.ua:.0f} kW/K: facility water "
                f"of at most {share.facility_max_c:.1f} C{smaller}",
                {"ua_kw_k": share.ua, "heat_kw": round(share.heat_kw, 2)},
                round(share.ua_needed, 2) if math.isfinite(share.ua_needed) else None,
                "e-NTU, counterflow (site cooling.coolant.loop)",
            )
        )
    return found


def plant_temperature(site: Site, given: Plant, day: plant.DesignDay, loads: plant.Loads) -> list[Finding]:
    """COOLING-PLANT when a plant without chillers cannot reach the water's temperature on the design day."""
    if plant.has_chillers(given):
        return []
    limits = []
    if loads.air_kw > 0:
        limits.append(("cooling.plant.water_c", given.water_c))
    if loads.liquid_kw > 0:
        limits.append(("cooling.coolant.loop.facility_c", loads.liquid_water_c))
    return [
        Finding(
            "COOLING-PLANT",
            "error",
            key,
            f"on the design day the {given.kind.replace('_', ' ')} supplies {day.outdoor_water_c:g} C and {water_c:g} C are "
            f"needed: chillers for that part, or water of {day.outdoor_water_c:g} C",
            {"outdoor_water_c": day.outdoor_water_c},
            water_c,
            f"site {key}",
        )
        for key, water_c in limits
        if day.outdoor_water_c > water_c + _NEAR
    ]


def hours_above(site: Site, whole: plant.Year, hours: float) -> list[Finding]:
    """COOLING-HOURS when the weather of the year is too hot for a plant without chillers, although its design day is not."""
    if whole.above_h <= 0:
        return []
    return [
        Finding("COOLING-HOURS", "warning", "weather",
                f"in {whole.above_h:g} of {hours:g} hours the outdoor water is warmer than cooling.plant.water_c: a hotter "
                "design day, or chillers for these hours",
                {"hours": whole.above_h}, 0.0, "site weather")
    ]  # fmt: skip


def pue(site: Site, design: float, annual: float | None) -> list[Finding]:
    """COOLING-PUE (ERR-03) when the site's PUE is below what its own plant gives: a warning over a year, else information."""
    given = site.power.pue
    high = annual if annual is not None else design
    if max(high, design) <= given + _NEAR:
        return []
    over_year = annual is not None and annual > given + _NEAR
    when = f"{annual:.3f} over the year" if over_year else f"{design:.3f} on the design day"
    return [
        Finding("COOLING-PUE", "warning" if over_year else "info", "power.pue",
                f"the components add up to a PUE of {when}, and power.pue is {given:g}: facility power is planned with the "
                f"lower one: set power.pue to {math.ceil((annual if over_year and annual else design) * 1000 - 1e-6) / 1000:g}",
                {"design": round(design, 4), "year": round(high, 4)}, given, "site power.pue", "ERR-03")
    ]  # fmt: skip


def far_coolers(site: Site, placed: pd.DataFrame, racks: pd.DataFrame) -> list[Finding]:
    """COOLING-IN-ROW-FAR, for information: how far the rack is that is farthest from a cooler between racks."""
    given = site.cooling.air
    inside = placed[placed["name"].str.startswith("IR-")]
    if given is None or given.kind != "in_row" or inside.empty or racks.empty:
        return []
    dx = np.abs(racks["x_m"].to_numpy()[:, None] - inside["x_m"].to_numpy()[None, :])
    dy = np.abs(racks["y_m"].to_numpy()[:, None] - inside["y_m"].to_numpy()[None, :])
    nearest = (dx + dy).min(axis=1)
    worst = int(nearest.argmax())
    if nearest[worst] <= IN_ROW_REACH_M:
        return []
    return [
        Finding("COOLING-IN-ROW-FAR", "info", str(racks["name"].iloc[worst]),
                f"coolers stand on free places only, and the nearest one to this rack is {nearest[worst]:.1f} m away: keep "
                "places between the racks free (cooling.air.every_racks), or show by the commissioning test that the aisle mixes",
                {"distance_m": round(float(nearest[worst]), 2)}, IN_ROW_REACH_M, "engineering experience, to be replaced")
    ]  # fmt: skip


def ride_through(site: Site, judged: list[tuple[str, float, float]], out_min: float, why: str) -> list[Finding]:
    """COOLING-RIDE-THROUGH: a warning when even air and metal are too hot before cooling is back, information when
    the air alone is.

    With a UPS that carries cooling too, fans and pumps go on and only the chillers are away. Without, a zone of coolant
    lasts no time at all: its pumps stop (ERR-19).
    """
    short = [one for one in judged if one[1] < out_min]
    if not short:
        return []
    zone, low, high = min(short, key=lambda one: (one[2], one[1]))
    on_ups = site.ups.scope == "it_and_cooling"
    scope = "chillers are off, fans run" if on_ups else "the UPS carries the IT load only"
    severity: Severity = "warning" if high < out_min else "info"
    mend = "the failover test (S118) has to show which of the two is nearer the truth"
    if severity == "warning":
        left_s = (high - out_min) * 60 + (site.cooling.ride_through.restart_s if site.cooling.ride_through else 0.0)
        faster = f"; or cooling.ride_through.restart_s of at most {math.floor(left_s)}" if left_s >= 1 else ""
        store = "chilled-water storage (cooling.ride_through.storage_m3)"
        mend = (store if on_ups else f"ups.scope it_and_cooling, with {store} where that is not enough") + faster
    return [
        Finding(
            "COOLING-RIDE-THROUGH",
            severity,
            zone,
            f"{scope}, cooling is away for {out_min:.1f} min ({why}) and the trip temperature is reached after {low:.1f} min "
            f"(air or coolant alone) to {high:.1f} min (with the racks' metal): {mend}",
            {"low_min": round(low, 3), "high_min": round(high, 3), "outage_min": round(out_min, 3)},
            round(out_min, 3),
            outages.outage_source(site),
            "ERR-18",
        )
    ]


def unit_places(site: Site, missing: int, frame: pd.DataFrame) -> list[Finding]:
    """SPACE-COOLING-UNITS when coolers or distribution units find no free place in the rows."""
    if missing <= 0:
        return []
    per_row, rows = -(-missing // site.room.rows), -(-missing // site.room.racks_per_row)
    return [
        Finding("SPACE-COOLING-UNITS", "error", "room.racks_per_row",
                f"{missing} places of racks are missing for cooling units in the rows: racks_per_row "
                f"{site.room.racks_per_row + per_row} instead of {site.room.racks_per_row}, or {rows} more rows",
                {"missing": missing, "placed": len(frame)}, float(site.room.rows * site.room.racks_per_row),
                "site room.rows x room.racks_per_row")
    ]  # fmt: skip


def options(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """COOLING-OPTION when the site's own option does not fit, although another one of the comparison does."""
    if frame.empty:
        return [not_given("cooling.options", "a comparison of air, hybrid and liquid (S097)")]
    own = frame[frame["chosen"] == 1]
    if own.empty or bool(own["fits"].iloc[0]):
        return []
    other = frame.loc[frame["fits"] == 1, "option"].tolist()
    mend = f"{' or '.join(other)} fits" if other else "none of the options fits: fewer servers a rack"
    row = own.iloc[0]
    return [
        Finding("COOLING-OPTION", "warning", f"cooling.options {row['option']}", f"{row['reason']}: {mend}",
                {"largest_rack_air_kw": round(float(row["largest_rack_air_kw"]), 3)},
                float(row["rack_air_limit_kw"]), str(row["source"]), "ERR-46")
    ]  # fmt: skip
