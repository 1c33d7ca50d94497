"""Findings of the cooling: what the zones, the coolant's way and the plant cannot do, with the smallest change that mends it.

Sources: RC-118 and S118 for spare units by zone, ERR-46 for raised floors, RC-112 for the coolant, ASHRAE TC 9.9 (5th
edition) for the band of dew points and relative humidity.
"""

import math
from collections.abc import Sequence

import pandas as pd

from capacity.cooling import liquid, plant, units
from capacity.cooling import ride_through as outages
from capacity.cooling.air import Air, airflow_m3_s, cfm, dew_point_c, hall_air, relative_humidity
from capacity.cooling.coolant import DEW_POINT_MARGIN_K
from inventory.catalog import Catalog
from inventory.findings import Finding, Severity
from inventory.site import Site
from inventory.site.schema import Plant

RECOMMENDED_DEWPOINT_C = (-9.0, 15.0)
RECOMMENDED_HUMIDITY = 0.7
"""Highest relative humidity at the inlet; 0.5 where reactivity coupons show that the air corrodes copper or silver."""
DESIGN_HOURS = 0.004
"""Share of the year that may be hotter than the design day: its 0.4 % design condition (ASHRAE Fundamentals, chapter 14)."""
MOST_STORAGE_M3 = 10_000
"""What the site file takes."""
_NEAR = 1e-6


def not_given(key: str, what: str) -> Finding:
    """For information: the site file does not say what a judgement needs."""
    return Finding("COOLING-NOT-PLANNED", "info", key, f"{key} is not given: {what} cannot be planned", {}, None, "")


def wet_or_not(site: Site, liquid_kw: float) -> list[Finding]:
    """COOLING-NO-LOOP: heat on cold plates and no coolant to carry it. COOLING-NOTHING-WET: coolant, and nothing to cool."""
    if liquid_kw > 0:
        return [
            Finding("COOLING-NO-LOOP", "error", "cooling.coolant",
                    f"{liquid_kw:.1f} kW go to cold plates and the site has no coolant loop: cooling.kind liquid with coolant, or "
                    "servers that are cooled by air", {"liquid_kw": round(liquid_kw, 3)}, 0.0,
                    "catalogue air_fraction of the devices")
        ]  # fmt: skip
    if site.cooling.kind == "air":
        return []
    air = site.cooling.air.supply_c if site.cooling.air is not None else None
    supply = f" of {air:g}" if air is not None else ""
    return [
        Finding("COOLING-NOTHING-WET", "error", "cooling.kind",
                "cooling.kind is liquid and every device gives all its heat to air: no distribution unit has anything to cool; "
                f"cooling.kind air with cooling.supply_c{supply} and without cooling.coolant, or servers with cold plates",
                {"liquid_kw": 0.0}, 0.0, "catalogue air_fraction of the devices", "ERR-46")
    ]  # fmt: skip


def zones(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """COOLING-CAPACITY when all units of a zone or a loop are too few, COOLING-REDUNDANCY when they are with the spare ones
    out.
    """
    given, n_plus = site.cooling.air, site.cooling.n_plus
    found = [] if given is not None else [not_given("cooling.air", "capacity and spare units of the zones")]
    for row in frame.to_dict("records"):
        wet = row["kind"] == "liquid"
        heat_kw, unit_kw = float(row["liquid_kw" if wet else "air_kw"]), float(row["unit_kw"])
        if heat_kw <= 0 or (given is None and not wet):
            continue
        numbers = {k: round(float(row[k]), 3) for k in ("unit_kw", "capacity_kw", "reserve_kw")}
        numbers |= {"liquid_kw" if wet else "air_kw": round(heat_kw, 3), "installed": float(row["installed"])}
        doors_only = not wet and given is not None and given.kind == "rear_door"
        want = int(row["racks"]) if doors_only else units.with_spares(heat_kw, unit_kw, n_plus)
        more = want - int(row["installed"])
        key = "cooling.coolant.cdus_per_loop" if wet else "cooling.air.units_per_zone"
        change = (
            f"{more:g} more unit{'s' if more > 1 else ''} of {unit_kw:.0f} kW ({key} {want})"
            if more > 0
            else "larger units, or fewer servers a rack"
        )
        if row["capacity_kw"] < heat_kw - _NEAR:
            kind, limit = "COOLING-CAPACITY", f"heat of the {'loop' if wet else 'zone'} at nameplate"
            what = f"all {row['installed']:g} units move {row['capacity_kw']:.0f} kW"
        elif row["reserve_kw"] < heat_kw - _NEAR:
            kind, limit = "COOLING-REDUNDANCY", f"site cooling.n_plus by {'loop' if wet else 'zone'} (RC-118, S118)"
            what = f"with {n_plus} of {row['installed']:g} units out {row['reserve_kw']:.0f} kW are left"
        else:
            continue
        message = f"{heat_kw:.0f} kW of {'liquid' if wet else 'air'} heat and {what}: {change}"
        found.append(
            Finding(kind, "error", row["zone"], message, numbers, round(heat_kw, 3), limit, "ERR-45" if wet else None)
        )
    return found


def loops(site: Site, frame: pd.DataFrame, per_rack: pd.DataFrame) -> list[Finding]:
    """COOLING-LOOP-DOMAIN (ERR-45) when the liquid-cooled racks of several rows all hang on one loop."""
    if len(frame) != 1:
        return []
    one = frame.iloc[0]
    racks = int(one["racks"])
    rows = int(per_rack.loc[per_rack["liquid_kw"] > 0, "row"].nunique())
    if rows < 2:
        return []
    return [
        Finding("COOLING-LOOP-DOMAIN", "warning", str(one["zone"]),
                f"one loop carries all {racks} liquid-cooled racks of {rows} rows, {one['liquid_kw']:,.0f} kW: a leak, a lost "
                f"header or spoilt coolant stops them together, however many spare units it has: "
                f"cooling.coolant.racks_per_loop {-(-racks // rows)}",
                {"racks": float(racks), "rows": float(rows), "liquid_kw": round(float(one["liquid_kw"]), 3)}, 1.0,
                "RC-118: spare units by failure domain", "ERR-45")
    ]  # fmt: skip


def coils(site: Site, one: units.Capacity | None) -> list[Finding]:
    """COOLING-UNIT-FIGURES when the data sheet contradicts itself, COOLING-COIL when a coil is too weak for the supply,
    COOLING-CONDENSATE when its water is colder than the dew point.
    """
    found = _facility_condensate(site)
    given = site.cooling.air
    if given is None or one is None:
        return found
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


def _facility_condensate(site: Site) -> list[Finding]:
    loop = site.cooling.coolant.loop if site.cooling.coolant is not None else None
    dew = site.cooling.dewpoint_c
    if loop is None or loop.facility_c >= dew + DEW_POINT_MARGIN_K - _NEAR:
        return []
    return [
        Finding("COOLING-CONDENSATE", "warning", "cooling.coolant.loop.facility_c",
                f"facility water of {loop.facility_c:g} C at the distribution units, and the dew point may be {dew:g} C: pipes and "
                f"exchangers sweat in the hall: cooling.coolant.loop.facility_c of at least {dew + DEW_POINT_MARGIN_K:g}, or "
                f"cooling.dewpoint_c of at most {loop.facility_c - DEW_POINT_MARGIN_K:g}",
                {"facility_c": loop.facility_c, "dewpoint_c": dew}, dew + DEW_POINT_MARGIN_K,
                "RC-112: dew point and 2 K", None)
    ]  # fmt: skip


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


def door_out(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """COOLING-DOOR-OUT (ERR-45): a rear door has no spare by rack. With the one of the densest rack out its heat is left to the
    hall, for information where the other doors of the zone have as much to spare, else a warning.
    """
    given = site.cooling.air
    if given is None or given.kind != "rear_door" or not (frame["installed"] > 0).any():
        return []
    spilt, surplus = frame["largest_rack_kw"], door_surplus_kw(frame)
    worst = int((surplus - spilt).to_numpy().argmin())
    zone, heat_kw, left_kw = str(frame["zone"].iloc[worst]), float(spilt.iloc[worst]), float(surplus.iloc[worst])
    takes = left_kw >= heat_kw - _NEAR
    what = (
        f"the other doors of the zone have {left_kw:.1f} kW to spare, if the hall's air brings it to them"
        if takes
        else f"the other doors of the zone have {max(left_kw, 0.0):.1f} kW to spare: doors that move {heat_kw - left_kw:.1f} kW "
        "more together, room units beside them, or a drain of the rack when its door stops"
    )
    return [
        Finding("COOLING-DOOR-OUT", "info" if takes else "warning", zone,
                f"no rack has a spare door: with one out {heat_kw:.1f} kW spill into the hall, and {what}",
                {"spilt_kw": round(heat_kw, 3), "surplus_kw": round(left_kw, 3)}, round(heat_kw, 3),
                "RC-118: spare units by failure domain", "ERR-45")
    ]  # fmt: skip


def door_surplus_kw(frame: pd.DataFrame) -> "pd.Series[float]":
    """What the doors of each zone could move beside their own racks' heat, that of the densest rack out, kW."""
    return (frame["installed"] - 1) * frame["unit_kw"] - (frame["air_kw"] - frame["largest_rack_kw"])


def rack_air(
    site: Site, devices: pd.DataFrame, per_rack: pd.DataFrame, rooms: pd.DataFrame, air: Air, judged: bool
) -> list[Finding]:
    """COOLING-RACK-AIR: an error when the densest rack draws more air than its aisle gives a rack; where the site does not say
    what that is, and nothing else judges it (`judged`), the even share of its zone stands beside it: a warning when open
    aisles would have to bring more than that, else information.
    """
    given = site.cooling.air
    if given is None or per_rack.empty:
        return []
    worst = int(per_rack["air_kw"].to_numpy().argmax())
    name, heat_kw = str(per_rack["rack"].iloc[worst]), float(per_rack["air_kw"].iloc[worst])
    need = airflow_m3_s(heat_kw, given.rise_k, air)
    draws = f"{heat_kw:.1f} kW of air heat draw {need:.2f} m3/s ({cfm(need):,.0f} CFM)"
    numbers = {"air_kw": round(heat_kw, 3), "needed_m3_s": round(need, 4), "needed_cfm": round(cfm(need), 1)}
    if given.rack_air is not None:
        have = given.rack_air.airflow_m3_s
        if need <= have + _NEAR:
            return []
        possible = heat_kw * have / need
        over = int((per_rack["air_kw"] > possible + _NEAR).sum())
        return [
            Finding("COOLING-RACK-AIR", "error", name,
                    f"{draws} and the aisle gives a rack {have:.2f} m3/s ({cfm(have):,.0f} CFM), enough for {possible:.1f} kW: "
                    f"{_fewer(site, devices, heat_kw - possible)}coolers in the rows, rear doors or liquid ({over} racks in all)",
                    numbers | {"racks": float(over)}, round(have, 4), f"site cooling.air.rack_air: {given.rack_air.source}",
                    "ERR-46")
        ]  # fmt: skip
    if judged or given.tile is not None or given.kind == "rear_door":
        return []
    row = int(per_rack["row"].iloc[worst])
    zone = rooms[(rooms["first_row"] <= row) & (rooms["last_row"] >= row)].iloc[0]
    share = float(zone["flow_available"]) / int(zone["racks"])
    short = given.containment == "none" and need > share + _NEAR
    return [
        Finding("COOLING-RACK-AIR", "warning" if short else "info", name,
                f"{draws}; with the spare ones out the units of {zone['zone']} supply {share:.2f} m3/s ({cfm(share):,.0f} CFM) for "
                "each of its racks, and nobody says what an aisle gives one rack: cooling.air.rack_air of at least "
                f"{math.ceil(need * 100) / 100:g} m3/s, with its source, or rack_air_kw of the site's own kind in cooling.options",
                numbers, round(share, 4), "supply of the zone over its racks", None)
    ]  # fmt: skip


def _fewer(site: Site, devices: pd.DataFrame, excess_kw: float) -> str:
    """'rack.servers 3, or ' where so many fewer servers take the excess away."""
    gpu = devices[devices["role"] == "gpu"]
    each_kw = float((gpu["nameplate_w"] * gpu["air_fraction"]).max()) / 1000 if len(gpu) else 0.0
    left = site.rack.servers - math.ceil(excess_kw / each_kw - _NEAR) if each_kw > 0 else 0
    return f"rack.servers {left}, or " if left >= 1 and not site.server.system else ""


def inlets(site: Site, catalog: Catalog, devices: pd.DataFrame, supply_c: float) -> list[Finding]:
    """COOLING-INLET (S104) when the supply lies outside what a vendor permits at the inlet, COOLING-INLET-TRIP when the
    temperature that ride-through counts to lies above it.
    """
    own = site.cooling.air is not None and site.cooling.air.supply_c is not None
    key = "cooling.air.supply_c" if own else "cooling.supply_c"
    ride, found, permitted = site.cooling.ride_through, [], []
    for slug, count in devices.groupby("model").size().items():
        device = catalog.device(str(slug))
        span = device.bringup.inlet_c
        if span is None:
            continue
        said = f"catalogue {slug}: {device.sources.get('bringup.inlet_c', 'bringup.inlet_c')}"
        permitted.append((span.max, str(slug), said))
        if span.min <= supply_c <= span.max:
            continue
        warm = supply_c > span.max
        limit = span.max if warm else span.min
        found.append(
            Finding("COOLING-INLET", "error", key,
                    f"supply air of {supply_c:g} C is {'warmer' if warm else 'colder'} than the {limit:g} C that {slug} ({count:,} "
                    f"of them) permits at inlet: {key} of at {'most' if warm else 'least'} {limit:g}",
                    {"supply_c": supply_c, "min_c": span.min, "max_c": span.max}, limit, said, "ERR-26")
        )  # fmt: skip
    lowest = min(permitted, default=None)
    if ride is not None and lowest is not None and ride.trip_c > lowest[0] + _NEAR:
        found.append(
            Finding("COOLING-INLET-TRIP", "warning", "cooling.ride_through.trip_c",
                    f"minutes are counted up to {ride.trip_c:g} C and {lowest[1]} is permitted {lowest[0]:g} C at its inlet: the "
                    f"last {ride.trip_c - lowest[0]:g} K are outside of what its vendor permits: "
                    f"cooling.ride_through.trip_c {lowest[0]:g}, or his word for {ride.trip_c:g} C in the catalogue (inlet_c)",
                    {"trip_c": ride.trip_c}, lowest[0], lowest[2], "ERR-26")
        )  # fmt: skip
    return found


def coolant_trip(site: Site) -> list[Finding]:
    """COOLING-COOLANT-TRIP when the temperature that ride-through counts the coolant to lies above what the servers allow."""
    given, ride = site.cooling.coolant, site.cooling.ride_through
    if (
        given is None
        or ride is None
        or ride.coolant_trip_c is None
        or ride.coolant_trip_c <= given.server_max_c + _NEAR
    ):
        return []
    over_k, high = ride.coolant_trip_c - given.server_max_c, given.server_max_c
    mend = f"cooling.ride_through.coolant_trip_c {high:g}, or "
    if high <= site.cooling.supply_c + _NEAR:
        mend = f"cooling.supply_c below {high:g} with cooling.ride_through.coolant_trip_c {high:g}, or "
    return [
        Finding("COOLING-COOLANT-TRIP", "warning", "cooling.ride_through.coolant_trip_c",
                f"minutes are counted up to coolant of {ride.coolant_trip_c:g} C and the servers allow {high:g} C: the last "
                f"{over_k:g} K are outside of what their vendor permits: {mend}his word for {ride.coolant_trip_c:g} C as "
                "cooling.coolant.server_max_c",
                {"coolant_trip_c": ride.coolant_trip_c}, high, "site cooling.coolant.server_max_c", "ERR-26")
    ]  # fmt: skip


def chilled_water(site: Site) -> list[Finding]:
    """COOLING-CHILLED-WATER when the plant and cooling.chilled_water, which switches its steps, contradict each other."""
    given = site.cooling.plant
    if given is None or plant.has_chillers(given) == site.cooling.chilled_water:
        return []
    said = (
        f"cooling.plant is a {given.kind} and cooling.chilled_water is false, so that steps S114 "
        "and S116 do not apply: cooling.chilled_water true"
        if plant.has_chillers(given)
        else f"cooling.chilled_water is true and cooling.plant is a {given.kind}, without chillers: cooling.chilled_water false, "
        "or a plant with chillers"
    )
    return [
        Finding("COOLING-CHILLED-WATER", "warning", "cooling.chilled_water", said, {}, None, "site cooling.plant.kind")
    ]


def room_air(site: Site, air: Air) -> list[Finding]:
    """COOLING-DEWPOINT and COOLING-HUMIDITY outside what is recommended at the inlet (ERR-26), COOLING-OPEN-AISLES for
    information.
    """
    found = []
    dew, (low, high) = site.cooling.dewpoint_c, RECOMMENDED_DEWPOINT_C
    if not low <= dew <= high:
        moist = dew > high
        found.append(
            Finding("COOLING-DEWPOINT", "warning", "cooling.dewpoint_c",
                    f"a dew point of {dew:g} C lies {'above' if moist else 'below'} the {high if moist else low:g} C that is "
                    f"recommended: {'dry' if moist else 'humidify'} the room: cooling.dewpoint_c {high if moist else low:g}",
                    {"dewpoint_c": dew}, high if moist else low, "ASHRAE TC 9.9, 5th edition", "ERR-26")
        )  # fmt: skip
    share = relative_humidity(air)
    if share > RECOMMENDED_HUMIDITY + _NEAR:
        most_c = math.floor(dew_point_c(air.supply_c, RECOMMENDED_HUMIDITY) * 10) / 10
        found.append(
            Finding("COOLING-HUMIDITY", "warning", "cooling.dewpoint_c",
                    f"a dew point of {dew:g} C in supply air of {air.supply_c:g} C is {share:.1%} relative humidity at the "
                    f"inlet, {RECOMMENDED_HUMIDITY:.0%} is recommended at the most (50 % where the air corrodes): "
                    f"cooling.dewpoint_c of at most {most_c:g}",
                    {"relative_pct": round(share * 100, 2)}, RECOMMENDED_HUMIDITY * 100,
                    "ASHRAE TC 9.9, 5th edition: 70 % relative humidity", "ERR-26")
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
    """COOLING-PLANT when the plant cannot supply water as cold as coils or distribution units need on the design day:
    chillers supply cooling.plant.water_c, towers and dry coolers alone what the outdoors give.
    """
    chilled = plant.has_chillers(given)
    limits = plant.limits_c(given, loads)
    if chilled:
        limits.pop("cooling.plant.water_c", None)
    coldest_c = min(given.water_c, day.outdoor_water_c) if chilled else day.outdoor_water_c
    what = f"the {given.kind.replace('_', ' ')} supplies {coldest_c:g} C"
    return [
        Finding(
            "COOLING-PLANT",
            "error",
            key,
            f"on the design day {what} and {water_c:g} C are needed: {key} {coldest_c:g}, or "
            + (f"cooling.plant.water_c {water_c:g}" if chilled else "chillers for that part"),
            {"outdoor_water_c": day.outdoor_water_c, "supplied_c": coldest_c},
            water_c,
            f"site {key}",
        )
        for key, water_c in limits.items()
        if coldest_c > water_c + _NEAR
    ]


def hours_above(
    site: Site, given: Plant, day: plant.DesignDay, loads: plant.Loads, whole: plant.Year, hours: float
) -> list[Finding]:
    """COOLING-HOURS when outdoor water is warmer in the year than the plant is made for. With chillers: for information while
    they carry the largest load and the hours are no more than the design condition of ASHRAE leaves out, else a warning.
    """
    if whole.above_h <= 0:
        return []
    chillers = plant.has_chillers(given)
    short_kw = max(whole.peak_kw - day.chillers * (given.chiller_kw or 0.0), 0.0) if chillers else 0.0
    short = f", and {short_kw:,.0f} kW of the chillers' load find no chiller" if short_kw > _NEAR else ""
    bulb, outdoor_c = "wet" if plant.is_wet(given) else "dry", whole.hottest_c - given.approach_k
    if chillers:
        mend = f"cooling.plant.design_{bulb}_c {math.ceil(outdoor_c * 10 - 1e-6) / 10:g}"
        if plant.is_wet(given) and outdoor_c > given.design_dry_c:
            mend += f" with cooling.plant.design_dry_c {math.ceil(outdoor_c * 10 - 1e-6) / 10:g}"
        mend += " covers the year"
    else:
        warmer_c = math.ceil(whole.hottest_c * 10 - 1e-6) / 10
        keys = [key for key, celsius in plant.limits_c(given, loads).items() if celsius < whole.hottest_c]
        below_c = {
            "cooling.plant.water_c": hall_air(site).supply_c,
            "cooling.coolant.loop.facility_c": site.cooling.supply_c,
        }
        mend = f"chillers for a design day of {outdoor_c:g} C {bulb} bulb"
        if all(warmer_c < below_c[key] for key in keys):
            mend += f", or {' with '.join(f'{key} {warmer_c:g}' for key in keys)}"
    few = chillers and short_kw <= _NEAR and whole.above_h <= DESIGN_HOURS * hours
    made = "that of the design day" if chillers else "what the heat needs"
    return [
        Finding("COOLING-HOURS", "info" if few else "warning", "weather",
                f"in {whole.above_h:g} of {hours:g} hours the outdoor water is warmer than {whole.limit_c:g} C, {made}, up to "
                f"{whole.hottest_c:g} C{short}: {mend}",
                {"hours": whole.above_h, "hottest_c": whole.hottest_c, "short_kw": round(short_kw, 3)}, whole.limit_c,
                "site weather and cooling.plant")
    ]  # fmt: skip


def pue(site: Site, design: float, annual: float | None) -> list[Finding]:
    """COOLING-PUE (ERR-03) when the site's PUE is below what its own plant gives: a warning over a year, else information."""
    given = site.power.pue
    high = annual if annual is not None else design
    if max(high, design) <= given + _NEAR:
        return []
    over_year = annual is not None and annual > given + _NEAR
    when = f"{annual:.3f} over the year" if over_year else f"{design:.3f} on the design day"
    supply = "the supply is planned with the components, and " if site.electrical is not None else ""
    numbers = {"design": round(design, 4)} | ({"year": round(annual, 4)} if annual is not None else {})
    return [
        Finding("COOLING-PUE", "warning" if over_year else "info", "power.pue",
                f"the components add up to a PUE of {when}, and power.pue is {given:g}: {supply}flat figures of the "
                "facility are planned with the lower one: set power.pue to "
                f"{math.ceil((annual if over_year and annual else design) * 1000 - 1e-6) / 1000:g}",
                numbers, given, "site power.pue", "ERR-03")
    ]  # fmt: skip


def ride_through(
    site: Site, bodies: Sequence[outages.Body], store: outages.Store, out_min: float, why: str
) -> list[Finding]:
    """COOLING-RIDE-THROUGH: a warning when even air and metal are too hot before cooling is back, information when
    the cold-side air alone is.

    With a UPS that carries cooling too, fans and pumps go on and only the chillers are away; stored water comes first. Without,
    a loop lasts no time at all: its pumps stop (ERR-19).
    """
    on_ups = site.ups.scope == "it_and_cooling"
    kept = store.minutes if on_ups else 0.0
    judged = [(body, kept + body.minutes(on_ups)[0], kept + body.minutes(on_ups)[1]) for body in bodies]
    short = [one for one in judged if one[1] < out_min - _NEAR]
    if not short:
        return []
    worst, low, high = min(short, key=lambda one: (one[2], one[1]))
    scope = "chillers are off, fans run" if on_ups else "the UPS carries the IT load only"
    severity: Severity = "warning" if high < out_min - _NEAR else "info"
    mend = "the failover test (S118) has to show which of the two is nearer the truth"
    if severity == "warning":
        mend = _ride_through_mends(
            site, bodies, [body for body, _, most in short if most < out_min - _NEAR], store, out_min, high
        )
    span = (
        f"after {low:.1f} min"
        if worst.kind == "liquid"
        else f"after {low:.1f} min (cold-side air alone) to {high:.1f} min (with all air and the racks' metal)"
    )
    return [
        Finding(
            "COOLING-RIDE-THROUGH",
            severity,
            worst.zone,
            f"{scope}, cooling is away for {out_min:.1f} min ({why}) and the trip temperature is reached {span}: {mend}",
            {"low_min": round(low, 3), "high_min": round(high, 3), "outage_min": round(out_min, 3)},
            round(out_min, 3),
            outages.outage_source(site),
            "ERR-18",
        )
    ]


def _ride_through_mends(
    site: Site,
    bodies: Sequence[outages.Body],
    short: Sequence[outages.Body],
    store: outages.Store,
    out_min: float,
    high: float,
) -> str:
    """What brings every zone and loop over the outage, each with its number: fans and pumps on the UPS and a store, more
    coolant where only loops are short, cooling that is back sooner.
    """
    on_ups, ways = site.ups.scope == "it_and_cooling", []
    scope = "" if on_ups else "ups.scope it_and_cooling"
    least = min(body.low_min for body in bodies)
    volume = store.volume_for_m3(max(out_min - least, 0.0))
    already = least + (store.minutes if store.volume_m3 > 0 else 0.0) >= out_min
    if scope and already:
        ways.append(scope)
    elif volume is not None and math.ceil(volume * 10) / 10 <= MOST_STORAGE_M3:
        tank = f"cooling.ride_through.storage_m3 of at least {math.ceil(volume * 10) / 10:g}"
        ways.append(f"{scope} with {tank}" if scope else tank)
    elif scope:
        ways.append(f"{scope}, with facility water in store")
    loop = site.cooling.coolant.loop if site.cooling.coolant is not None else None
    if on_ups and loop is not None and all(body.kind == "liquid" for body in short):
        need = loop.volume_l * max(out_min - store.minutes, 0.0) / min(body.low_min for body in short)
        ways.append(f"cooling.coolant.loop.volume_l of at least {math.ceil(need)}")
    restarts = site.generator.present and site.generator.start_s is not None
    given = site.cooling.ride_through
    if restarts and given is not None:
        left_s = math.floor(high * 60 - (out_min * 60 - given.restart_s) + _NEAR)
        if left_s >= 1:
            ways.append(f"cooling.ride_through.restart_s of at most {left_s}")
    elif site.electrical is not None and high * 60 >= 1:
        ways.append(f"electrical.drain_s of at most {math.floor(high * 60)}")
    return "; or ".join(ways) if ways else "cooling that goes on without a break"


def options(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """COOLING-OPTION when the site's own option does not fit, although another one of the comparison does."""
    if frame.empty:
        return [not_given("cooling.options", "a comparison of air, hybrid and liquid (S097)")]
    own = frame[frame["chosen"] == 1]
    if own.empty or bool(own["fits"].iloc[0]):
        return []
    other = frame.loc[frame["fits"] == 1, "option"].tolist()
    fewer = "fewer servers a rack" if site.server.system is None else "another system, or more air a rack (rack_air_kw)"
    mend = f"{' or '.join(other)} fits" if other else f"none of the options fits: {fewer}"
    row = own.iloc[0]
    return [
        Finding("COOLING-OPTION", "warning", f"cooling.options {row['option']}", f"{row['reason']}: {mend}",
                {"largest_rack_air_kw": round(float(row["largest_rack_air_kw"]), 3)},
                float(row["rack_air_limit_kw"]), str(row["source"]), "ERR-46")
    ]  # fmt: skip
