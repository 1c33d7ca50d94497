"""Findings of the cooling: what the zones, the coolant's way and the plant cannot do.

Sources: RC-118 and S118 for spare units by zone, ERR-46 for raised floors, RC-112 for the coolant, ASHRAE TC 9.9 (5th
edition) for the band of dew points and relative humidity.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from capacity.cooling import liquid, plant, units
from capacity.cooling import ride_through as outages
from capacity.cooling.air import Air, airflow_m3_s, cfm, dew_point_c, hall_air, relative_humidity
from capacity.cooling.coolant import DEW_POINT_MARGIN_K
from inventory.catalog import Catalog
from inventory.findings import Finding, RemedyOf, Severity, finding, remedy
from inventory.site import Site
from inventory.site.sections.cooling import Plant

RECOMMENDED_DEWPOINT_C = (-9.0, 15.0)
RECOMMENDED_HUMIDITY = 0.7
"""Highest relative humidity at the inlet; 0.5 where reactivity coupons show that the air corrodes copper or silver."""
DESIGN_HOURS = 0.004
"""Share of the year that may be hotter than the design day: its 0.4 % design condition (ASHRAE Fundamentals, chapter 14)."""
MOST_STORAGE_M3 = 10_000
"""What the site file takes."""
_NEAR = 1e-6


def not_given(key: str) -> Finding:
    """For information: the site file does not give `key`, and what depends on it is not planned."""
    return finding("COOLING-NOT-PLANNED", key, case=key)


def wet_or_not(site: Site, liquid_kw: float) -> list[Finding]:
    """COOLING-NO-LOOP: heat on cold plates and no coolant to carry it. COOLING-NOTHING-WET: coolant, and nothing to cool."""
    source = "catalogue air_fraction of the devices"
    if liquid_kw > 0:
        return [
            finding(
                "COOLING-NO-LOOP",
                "cooling.coolant",
                limit=0.0,
                limit_source=source,
                liquid_kw=round(liquid_kw, 3),
                remedies=[remedy({"cooling.kind": "liquid"}, fix="loop"), remedy(fix="air-cooled")],
            )
        ]
    if site.cooling.kind == "air":
        return []
    air_c = site.cooling.air.supply_c if site.cooling.air is not None else None
    if air_c is None:
        all_air = remedy({"cooling.kind": "air"}, fix="air-at-supply")
    else:
        all_air = remedy({"cooling.kind": "air", "cooling.supply_c": air_c}, fix="air")
    return [
        finding(
            "COOLING-NOTHING-WET",
            "cooling.kind",
            limit=0.0,
            limit_source=source,
            err="ERR-46",
            liquid_kw=0.0,
            remedies=[all_air, remedy(fix="cold-plates")],
        )
    ]


def zones(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """COOLING-CAPACITY when all units of a zone or a loop are too few, COOLING-REDUNDANCY when they are with the spare ones
    out.
    """
    given, n_plus = site.cooling.air, site.cooling.n_plus
    found = [] if given is not None else [not_given("cooling.air")]
    for row in frame.to_dict("records"):
        wet = row["kind"] == "liquid"
        heat_kw, unit_kw = float(row["liquid_kw" if wet else "air_kw"]), float(row["unit_kw"])
        if heat_kw <= 0 or (given is None and not wet):
            continue
        numbers: dict[str, Any] = {k: round(float(row[k]), 3) for k in ("unit_kw", "capacity_kw", "reserve_kw")}
        numbers |= {"liquid_kw" if wet else "air_kw": round(heat_kw, 3), "installed": float(row["installed"])}
        doors_only = not wet and given is not None and given.kind == "rear_door"
        want = int(row["racks"]) if doors_only else units.with_spares(heat_kw, unit_kw, n_plus)
        more = want - int(row["installed"])
        key = "cooling.coolant.cdus_per_loop" if wet else "cooling.air.units_per_zone"
        remedies = (
            [remedy({key: want}, fix="more-units", more=more)]
            if more > 0
            else [remedy(fix="larger-units"), remedy(fix="fewer-servers")]
        )
        if row["capacity_kw"] < heat_kw - _NEAR:
            found.append(
                finding(
                    "COOLING-CAPACITY",
                    row["zone"],
                    case="liquid" if wet else "air",
                    limit=round(heat_kw, 3),
                    limit_source=f"heat of the {'loop' if wet else 'zone'} at nameplate",
                    err="ERR-45" if wet else None,
                    remedies=remedies,
                    **numbers,
                )
            )
        elif row["reserve_kw"] < heat_kw - _NEAR:
            found.append(
                finding(
                    "COOLING-REDUNDANCY",
                    row["zone"],
                    case="liquid" if wet else "air",
                    limit=round(heat_kw, 3),
                    limit_source=f"site cooling.n_plus by {'loop' if wet else 'zone'} (RC-118, S118)",
                    err="ERR-45" if wet else None,
                    remedies=remedies,
                    words={"n_plus": n_plus},
                    **numbers,
                )
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
        finding(
            "COOLING-LOOP-DOMAIN",
            str(one["zone"]),
            limit=1.0,
            limit_source="RC-118: spare units by failure domain",
            err="ERR-45",
            remedies=[remedy({"cooling.coolant.racks_per_loop": -(-racks // rows)})],
            racks=float(racks),
            rows=float(rows),
            liquid_kw=round(float(one["liquid_kw"]), 3),
        )
    ]


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
            finding(
                "COOLING-UNIT-FIGURES",
                "cooling.air.sensible_kw",
                limit=1.0,
                limit_source="a coil cannot cool air below its water",
                remedies=[remedy(fix="data-sheet")],
                words={
                    "sensible_kw": given.sensible_kw,
                    "airflow_m3_s": given.airflow_m3_s,
                    "return_c": given.rated_return_c,
                    "water_c": given.rated_water_c,
                },
                effectiveness=round(one.effectiveness, 3),
            )
        )
    elif one.coil_kw < one.air_kw - 0.005 * one.air_kw:
        found.append(
            finding(
                "COOLING-COIL",
                "cooling.air",
                limit=round(one.air_kw, 3),
                limit_source="e-NTU at the unit's rated conditions",
                remedies=[remedy(fix="colder-water"), remedy(fix="more-units")],
                coil_kw=round(one.coil_kw, 3),
                air_kw=round(one.air_kw, 3),
                supply_c=round(one.supply_c, 2),
            )
        )
    water_c = site.cooling.plant.water_c if site.cooling.plant is not None else given.rated_water_c
    if water_c < site.cooling.dewpoint_c - _NEAR:
        found.append(
            finding(
                "COOLING-CONDENSATE",
                "cooling.plant.water_c" if site.cooling.plant is not None else "cooling.air.rated_water_c",
                case="coil",
                severity="info",
                limit=site.cooling.dewpoint_c,
                limit_source="site cooling.dewpoint_c",
                remedies=[remedy(fix="drains"), remedy(fix="warmer-water")],
                water_c=water_c,
                dewpoint_c=site.cooling.dewpoint_c,
            )
        )
    return found


def _facility_condensate(site: Site) -> list[Finding]:
    loop = site.cooling.coolant.loop if site.cooling.coolant is not None else None
    dew = site.cooling.dewpoint_c
    if loop is None or loop.facility_c >= dew + DEW_POINT_MARGIN_K - _NEAR:
        return []
    return [
        finding(
            "COOLING-CONDENSATE",
            "cooling.coolant.loop.facility_c",
            case="facility-water",
            severity="warning",
            limit=dew + DEW_POINT_MARGIN_K,
            limit_source="RC-112: dew point and 2 K",
            remedies=[
                remedy({"cooling.coolant.loop.facility_c": dew + DEW_POINT_MARGIN_K}, fix="at-least"),
                remedy({"cooling.dewpoint_c": loop.facility_c - DEW_POINT_MARGIN_K}, fix="at-most"),
            ],
            facility_c=loop.facility_c,
            dewpoint_c=dew,
        )
    ]


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
        finding(
            "COOLING-RAISED-FLOOR",
            str(per_rack["rack"].iloc[worst]),
            limit=round(have, 4),
            limit_source="site cooling.air.tile",
            err="ERR-46",
            remedies=[
                remedy({"cooling.air.tile.per_rack": count}),
                remedy(fix="in-row"),
                remedy(fix="liquid"),
            ],
            words={"needed_cfm": cfm(need), "tiles": given.tile.per_rack, "possible_kw": possible},
            air_kw=round(heat_kw, 3),
            needed_m3_s=round(need, 4),
            racks=over,
        )
    ]


def duct(site: Site, worst: str, velocity: float, pressure: float) -> list[Finding]:
    """COOLING-DUCT when the units' fans cannot push a zone's air through its ducts."""
    given = site.cooling.air.duct if site.cooling.air is not None else None
    if given is None or pressure <= given.available_pa + _NEAR:
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
        finding(
            "COOLING-DOOR",
            str(per_rack["rack"].iloc[worst]),
            limit=round(one.kw, 3),
            limit_source="site cooling.air",
            remedies=[remedy(fix="larger-door"), remedy(fix="less-heat", excess_kw=heat_kw - one.kw)],
            air_kw=round(heat_kw, 3),
        )
    ]


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
    stronger = [
        remedy(fix="stronger-doors", missing_kw=heat_kw - left_kw),
        remedy(fix="room-units"),
        remedy(fix="drain"),
    ]
    return [
        finding(
            "COOLING-DOOR-OUT",
            zone,
            case="reserve" if takes else "short",
            severity="info" if takes else "warning",
            limit=round(heat_kw, 3),
            limit_source="RC-118: spare units by failure domain",
            err="ERR-45",
            remedies=[] if takes else stronger,
            words={"reserve_kw": max(left_kw, 0.0)},
            spilt_kw=round(heat_kw, 3),
            surplus_kw=round(left_kw, 3),
        )
    ]


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
    numbers: dict[str, Any] = {
        "air_kw": round(heat_kw, 3),
        "needed_m3_s": round(need, 4),
        "needed_cfm": round(cfm(need), 1),
    }
    if given.rack_air is not None:
        have = given.rack_air.airflow_m3_s
        if need <= have + _NEAR:
            return []
        possible = heat_kw * have / need
        over = int((per_rack["air_kw"] > possible + _NEAR).sum())
        return [
            finding(
                "COOLING-RACK-AIR",
                name,
                case="aisle",
                severity="error",
                limit=round(have, 4),
                limit_source=f"site cooling.air.rack_air: {given.rack_air.source}",
                err="ERR-46",
                remedies=[
                    *_fewer_servers(site, devices, heat_kw - possible),
                    remedy(fix="in-row"),
                    remedy(fix="rear-doors"),
                    remedy(fix="liquid"),
                ],
                words={"limit_cfm": cfm(have), "possible_kw": possible},
                racks=float(over),
                **numbers,
            )
        ]
    if judged or given.tile is not None or given.kind == "rear_door":
        return []
    row = int(per_rack["row"].iloc[worst])
    zone = rooms[(rooms["first_row"] <= row) & (rooms["last_row"] >= row)].iloc[0]
    share = float(zone["flow_available"]) / int(zone["racks"])
    short = given.containment == "none" and need > share + _NEAR
    enough = {"cooling.air.rack_air.airflow_m3_s": math.ceil(need * 100) / 100}
    return [
        finding(
            "COOLING-RACK-AIR",
            name,
            case="zone",
            severity="warning" if short else "info",
            limit=round(share, 4),
            limit_source="supply of the zone over its racks",
            remedies=[remedy(enough, fix="aisle-air"), remedy(fix="option")],
            words={"zone": zone["zone"], "limit_cfm": cfm(share)},
            **numbers,
        )
    ]


def _fewer_servers(site: Site, devices: pd.DataFrame, excess_kw: float) -> list[RemedyOf]:
    """So many fewer servers a rack that the excess is gone, where that leaves any."""
    gpu = devices[devices["role"] == "gpu"]
    each_kw = float((gpu["nameplate_w"] * gpu["air_fraction"]).max()) / 1000 if len(gpu) else 0.0
    left = site.rack.servers - math.ceil(excess_kw / each_kw - _NEAR) if each_kw > 0 else 0
    return [remedy({"rack.servers": left})] if left >= 1 and not site.server.system else []


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
            finding(
                "COOLING-INLET",
                key,
                case="warm" if warm else "cold",
                limit=limit,
                limit_source=said,
                err="ERR-26",
                remedies=[remedy({key: limit}, fix="at-most" if warm else "at-least")],
                words={"model": slug, "devices": count},
                supply_c=supply_c,
                min_c=span.min,
                max_c=span.max,
            )
        )
    lowest = min(permitted, default=None)
    if ride is not None and lowest is not None and ride.trip_c > lowest[0] + _NEAR:
        allowed_c, model, source = lowest
        found.append(
            finding(
                "COOLING-INLET-TRIP",
                "cooling.ride_through.trip_c",
                limit=allowed_c,
                limit_source=source,
                err="ERR-26",
                remedies=[remedy({"cooling.ride_through.trip_c": allowed_c}), remedy(fix="vendor-limit")],
                words={"model": model, "over_k": ride.trip_c - allowed_c},
                trip_c=ride.trip_c,
            )
        )
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
    high = given.server_max_c
    lower_trip = {"cooling.ride_through.coolant_trip_c": high}
    return [
        finding(
            "COOLING-COOLANT-TRIP",
            "cooling.ride_through.coolant_trip_c",
            limit=high,
            limit_source="site cooling.coolant.server_max_c",
            err="ERR-26",
            remedies=[
                remedy(lower_trip, fix="colder-supply" if high <= site.cooling.supply_c + _NEAR else ""),
                remedy({"cooling.coolant.server_max_c": ride.coolant_trip_c}, fix="vendor-limit"),
            ],
            words={"over_k": ride.coolant_trip_c - high},
            coolant_trip_c=ride.coolant_trip_c,
        )
    ]


def chilled_water(site: Site) -> list[Finding]:
    """COOLING-CHILLED-WATER when the plant and cooling.chilled_water, which switches its steps, contradict each other."""
    given = site.cooling.plant
    if given is None or plant.has_chillers(given) == site.cooling.chilled_water:
        return []
    chillers = plant.has_chillers(given)
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


def room_air(site: Site, air: Air) -> list[Finding]:
    """COOLING-DEWPOINT and COOLING-HUMIDITY outside what is recommended at the inlet (ERR-26), COOLING-OPEN-AISLES for
    information.
    """
    found = []
    dew, (low, high) = site.cooling.dewpoint_c, RECOMMENDED_DEWPOINT_C
    if not low <= dew <= high:
        moist = dew > high
        bound = high if moist else low
        found.append(
            finding(
                "COOLING-DEWPOINT",
                "cooling.dewpoint_c",
                case="above" if moist else "below",
                limit=bound,
                limit_source="ASHRAE TC 9.9, 5th edition",
                err="ERR-26",
                remedies=[remedy({"cooling.dewpoint_c": bound}, fix="dry" if moist else "humidify")],
                dewpoint_c=dew,
            )
        )
    share = relative_humidity(air)
    if share > RECOMMENDED_HUMIDITY + _NEAR:
        most_c = math.floor(dew_point_c(air.supply_c, RECOMMENDED_HUMIDITY) * 10) / 10
        found.append(
            finding(
                "COOLING-HUMIDITY",
                "cooling.dewpoint_c",
                limit=RECOMMENDED_HUMIDITY * 100,
                limit_source="ASHRAE TC 9.9, 5th edition: 70 % relative humidity",
                err="ERR-26",
                remedies=[remedy({"cooling.dewpoint_c": most_c}, fix="at-most")],
                words={"dewpoint_c": dew, "supply_c": air.supply_c},
                relative_pct=round(share * 100, 2),
            )
        )
    if site.cooling.air is not None and site.cooling.air.containment == "none":
        found.append(
            finding("COOLING-OPEN-AISLES", "cooling.air.containment", leakage_pct=site.cooling.air.leakage_pct)
        )
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
            finding(
                "COOLING-HEAD",
                "cooling.coolant.loop",
                limit=loop.cdu_head_kpa,
                limit_source="site cooling.coolant.loop.cdu_head_kpa",
                remedies=[remedy(fix="larger-rise", rise_k=rise), remedy(fix="wider-branch")],
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
        colder = {"cooling.coolant.loop.facility_c": math.floor(share.facility_max_c * 10 + _NEAR) / 10}
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


def plant_temperature(site: Site, given: Plant, day: plant.DesignDay, loads: plant.Loads) -> list[Finding]:
    """COOLING-PLANT when the plant cannot supply water as cold as coils or distribution units need on the design day:
    chillers supply cooling.plant.water_c, towers and dry coolers alone what the outdoors give.
    """
    chilled = plant.has_chillers(given)
    limits = plant.limits_c(given, loads)
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
    bulb, outdoor_c = "wet" if plant.is_wet(given) else "dry", whole.hottest_c - given.approach_k
    if chillers:
        design_c = math.ceil(outdoor_c * 10 - 1e-6) / 10
        design_day = {f"cooling.plant.design_{bulb}_c": design_c}
        if plant.is_wet(given) and outdoor_c > given.design_dry_c:
            design_day["cooling.plant.design_dry_c"] = design_c
        remedies = [remedy(design_day, fix="design-day")]
    else:
        warmer_c = math.ceil(whole.hottest_c * 10 - 1e-6) / 10
        keys = [key for key, celsius in plant.limits_c(given, loads).items() if celsius < whole.hottest_c]
        below_c = {
            "cooling.plant.water_c": hall_air(site).supply_c,
            "cooling.coolant.loop.facility_c": site.cooling.supply_c,
        }
        remedies = [remedy(fix="chillers", outdoor_c=outdoor_c, bulb=bulb)]
        if keys and all(warmer_c < below_c[key] for key in keys):
            remedies.append(remedy(dict.fromkeys(keys, warmer_c)))
    enough = short_kw <= _NEAR
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


def pue(site: Site, design: float, annual: float | None) -> list[Finding]:
    """COOLING-PUE (ERR-03) when the site's PUE is below what its own plant gives: a warning over a year, else information."""
    given = site.power.pue
    high = annual if annual is not None else design
    if max(high, design) <= given + _NEAR:
        return []
    over_year = annual is not None and annual > given + _NEAR
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


def ride_through(site: Site, bodies: Sequence[outages.Body], store: outages.Store, out_min: float) -> list[Finding]:
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
    severity: Severity = "warning" if high < out_min - _NEAR else "info"
    remedies = [remedy(fix="failover-test")]
    if severity == "warning":
        too_hot = [body for body, _, most in short if most < out_min - _NEAR]
        remedies = _longer_ride_through(site, bodies, too_hot, store, out_min, high)
    if worst.kind == "liquid":
        case = "liquid-pumps-on" if on_ups else "liquid-pumps-off"
    else:
        case = "air-fans-on" if on_ups else "air-fans-off"
    return [
        finding(
            "COOLING-RIDE-THROUGH",
            worst.zone,
            case=case,
            severity=severity,
            limit=round(out_min, 3),
            limit_source=outages.outage_source(site),
            err="ERR-18",
            remedies=remedies,
            low_min=round(low, 3),
            high_min=round(high, 3),
            outage_min=round(out_min, 3),
        )
    ]


def _longer_ride_through(
    site: Site,
    bodies: Sequence[outages.Body],
    short: Sequence[outages.Body],
    store: outages.Store,
    out_min: float,
    high: float,
) -> list[RemedyOf]:
    """What brings every zone and loop over the outage, each with its number: fans and pumps on the UPS and a store, more
    coolant where only loops are short, cooling that is back sooner.
    """
    on_ups, ways = site.ups.scope == "it_and_cooling", list[RemedyOf]()
    scope = {} if on_ups else {"ups.scope": "it_and_cooling"}
    least = min(body.low_min for body in bodies)
    volume = store.volume_for_m3(max(out_min - least, 0.0))
    already = least + (store.minutes if store.volume_m3 > 0 else 0.0) >= out_min
    if scope and already:
        ways.append(remedy(scope))
    elif volume is not None and math.ceil(volume * 10) / 10 <= MOST_STORAGE_M3:
        tank = {"cooling.ride_through.storage_m3": math.ceil(volume * 10) / 10}
        ways.append(remedy({**scope, **tank}, fix="at-least"))
    elif scope:
        ways.append(remedy(scope, fix="ups-and-store"))
    loop = site.cooling.coolant.loop if site.cooling.coolant is not None else None
    if on_ups and loop is not None and all(body.kind == "liquid" for body in short):
        need = loop.volume_l * max(out_min - store.minutes, 0.0) / min(body.low_min for body in short)
        ways.append(remedy({"cooling.coolant.loop.volume_l": math.ceil(need)}, fix="at-least"))
    restarts = site.generator.present and site.generator.start_s is not None
    given = site.cooling.ride_through
    if restarts and given is not None:
        left_s = math.floor(high * 60 - (out_min * 60 - given.restart_s) + _NEAR)
        if left_s >= 1:
            ways.append(remedy({"cooling.ride_through.restart_s": left_s}, fix="at-most"))
    elif site.electrical is not None and high * 60 >= 1:
        ways.append(remedy({"electrical.drain_s": math.floor(high * 60)}, fix="at-most"))
    return ways or [remedy(fix="no-break")]


def options(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """COOLING-OPTION when the site's own option does not fit, although another one of the comparison does."""
    if frame.empty:
        return [not_given("cooling.options")]
    own = frame[frame["chosen"] == 1]
    if own.empty or bool(own["fits"].iloc[0]):
        return []
    other = frame.loc[frame["fits"] == 1, "option"].tolist()
    row = own.iloc[0]
    system = site.server.system
    if other:
        remedies = [remedy(fix="other-option", options=", ".join(other))]
    elif system is None:
        remedies = [remedy(fix="fewer-servers")]
    else:
        remedies = [remedy(fix="other-system"), remedy(fix="more-air")]
    return [
        finding(
            "COOLING-OPTION",
            f"cooling.options {row['option']}",
            case="servers" if system is None else "system",
            limit=float(row["rack_air_limit_kw"]),
            limit_source=str(row["source"]),
            err="ERR-46",
            remedies=remedies,
            words={"servers_per_rack": int(row["servers_per_rack"]), "system": system},
            largest_rack_air_kw=round(float(row["largest_rack_air_kw"]), 3),
        )
    ]
