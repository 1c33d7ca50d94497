"""The building's cooling: zones with their units, the coolant's way, the plant, a year of weather, ride-through, options.

    mechanical = build(site, devices, racks, placements, weather)

Out: frames `zones`, `cooling_units`, `cooling_figures`, `cooling_options` (columns in capacity.frames) and findings. Heat is
judged at nameplate. Pure; what the site file does not give is not judged, and one information says so.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from capacity import frames
from capacity.cooling import coolant, ducts, findings, liquid, options, plant, ride_through, units
from capacity.cooling.air import Air, airflow_m3_s, cfm, hall_air, rise_and_leakage
from inventory.findings import Finding
from inventory.schema import AirUnits, Coolant
from inventory.site import Site
from inventory.weather import Weather

WALL_M = 1.5
"""Where room units are drawn: this far from the end of the rows."""


@dataclass(frozen=True)
class Mechanical:
    """The frames by name, and findings."""

    frames: Mapping[str, pd.DataFrame]
    findings: tuple[Finding, ...]


@dataclass
class _Figures:
    """Rows of `cooling_figures`, collected as they are computed."""

    rows: list[tuple[str, str, str, float, str, str]] = field(default_factory=list)

    def add(self, item: str, subject: str, quantity: str, value: float, unit: str, source: str) -> None:
        self.rows.append((item, subject, quantity, round(float(value), 4), unit, source))


def build(
    site: Site, devices: pd.DataFrame, racks: pd.DataFrame, placements: pd.DataFrame, weather: Weather | None
) -> Mechanical:
    """Plan the cooling of a placed site. `racks` and `placements` are the plan's frames; heat is at nameplate."""
    figures, found = _Figures(), list[Finding]()
    per_rack = rack_heat(devices, racks, placements)
    air = hall_air(site)
    zones, capacity = _air_zones(site, per_rack, air, figures)
    loops = _liquid_zones(site, per_rack, figures, found)
    every = pd.concat([zones, loops], ignore_index=True)
    placed, short = _places(site, every, racks)
    found += short
    found += findings.zones(site, zones)
    found += findings.coils(site, capacity)
    found += findings.tiles(site, per_rack, air)
    found += _ducts(site, zones, air, figures)
    found += findings.doors(site, per_rack, capacity)
    found += findings.room_air(site)
    loads = _loads(site, devices, zones, loops)
    day = _plant(site, loads, figures, found)
    found += _year(site, loads, day, weather, figures)
    found += _pue(site, figures)
    found += findings.far_coolers(site, placed, racks)
    found += _ride_through(site, every, per_rack, air, figures)
    compared = options.compare(site, devices, placements, capacity)
    found += findings.options(site, compared)
    rows = pd.DataFrame(figures.rows, columns=["item", "subject", "quantity", "value", "unit", "source"])
    built = {"zones": every, "cooling_units": placed, "cooling_figures": rows, "cooling_options": compared}
    return Mechanical(built, tuple(found))


def rack_heat(devices: pd.DataFrame, racks: pd.DataFrame, placements: pd.DataFrame) -> pd.DataFrame:
    """One row a rack of `racks`: rack, row, mass_kg, air_kw and liquid_kw at nameplate."""
    rack = placements.set_index("device")["rack"].reindex(devices["name"]).to_numpy()
    watts = devices["nameplate_w"].to_numpy(dtype=np.float64)
    share = devices["air_fraction"].to_numpy(dtype=np.float64)
    table = pd.DataFrame({"air_kw": watts * share / 1000, "liquid_kw": watts * (1 - share) / 1000})
    sums = table.groupby(rack).sum().reindex(racks["name"], fill_value=0.0)
    return pd.DataFrame(
        {
            "rack": racks["name"].to_numpy(),
            "row": racks["row"].to_numpy(),
            "mass_kg": racks["mass_kg"].to_numpy(),
            "air_kw": sums["air_kw"].to_numpy(),
            "liquid_kw": sums["liquid_kw"].to_numpy(),
        }
    )


def _air_zones(
    site: Site, per_rack: pd.DataFrame, air: Air, figures: _Figures
) -> tuple[pd.DataFrame, units.Capacity | None]:
    """Zones of the hall's air: rows in groups that share units. Without units: heat and air that are needed."""
    given, n_plus = site.cooling.air, site.cooling.n_plus
    rise_k, leak = rise_and_leakage(given)
    water_c = _coil_water_c(site, given)
    one = units.capacity(given, air, water_c) if given else None
    group = given.rows_per_zone if given else site.room.rows
    number = (per_rack["row"] // group).to_numpy(dtype=np.int64)
    rows = []
    for zone in np.unique(number).tolist():
        part = per_rack[number == zone]
        heat_kw = float(part["air_kw"].sum())
        flow = airflow_m3_s(heat_kw, rise_k, air) / (1 - leak / 100)
        row = _zone_row(f"air-{zone + 1}", "air", part, heat_kw, float(part["liquid_kw"].sum()))
        row |= {"supply_c": air.supply_c, "return_c": units.return_c(air.supply_c, rise_k, leak)}
        row |= {"flow_needed": flow, "flow_needed_cfm": cfm(flow), "flow_unit": "m3/s"}
        if given is not None and one is not None:
            n = len(part) if given.kind == "rear_door" else units.needed(heat_kw, one.kw)
            installed = given.units_per_zone or (n if given.kind == "rear_door" else n + n_plus if n else 0)
            row |= _sized(given.model, one.kw, one.airflow_m3_s, n, installed, n_plus)
            row["flow_available_cfm"] = cfm(max(installed - n_plus, 0) * one.airflow_m3_s)
        rows.append(row)
    if one is not None and given is not None:
        said = f"site cooling.air: {given.source}"
        figures.add("air units", "one unit", "sensible capacity in this hall", one.kw, "kW", said)
        figures.add("air units", "one unit", "rated sensible capacity", given.sensible_kw, "kW", said)
        figures.add("air units", "one unit", "coil effectiveness", one.effectiveness, "1", "e-NTU method")
        figures.add("air units", "one unit", "air at supply temperature", one.airflow_m3_s, "m3/s", said)
        figures.add("air units", "one unit", "return temperature", one.return_c, "C", "mixing with leakage")
        figures.add("air units", "one unit", "water at the coil", water_c, "C", "site cooling.plant.water_c")
    figures.add("air", "hall", "density", air.density, "kg/m3", "PsychroLib, site room.altitude_m")
    figures.add("air", "hall", "dew point", min(air.dewpoint_c, air.supply_c), "C", "site cooling.dewpoint_c")
    return _zone_frame(rows), one


def _ducts(site: Site, zones: pd.DataFrame, air: Air, figures: _Figures) -> list[Finding]:
    """Velocity and pressure of the zone with most air, where ducts carry it; static pressure of tiles."""
    given = site.cooling.air
    if given is None or zones.empty:
        return []
    worst = zones.iloc[int(zones["flow_needed"].to_numpy().argmax())]
    if given.tile is not None:
        need = airflow_m3_s(float(zones["largest_rack_kw"].max()), given.rise_k, air)
        static = given.tile.pressure_pa * (need / (given.tile.airflow_m3_s * given.tile.per_rack)) ** 2
        figures.add(
            "air", "largest rack", "static pressure under its tiles", static, "Pa", "quoted pressure x flow squared"
        )
    if given.duct is None:
        return []
    velocity, pressure = ducts.drop(given.duct, float(worst["flow_needed"]), air)
    figures.add("air", str(worst["zone"]), "velocity in its ducts", velocity, "m/s", "site cooling.air.duct")
    figures.add("air", str(worst["zone"]), "pressure drop of its ducts", pressure, "Pa", "Darcy-Weisbach, fluids")
    return findings.duct(site, str(worst["zone"]), velocity, pressure)


def _coil_water_c(site: Site, given: AirUnits | None) -> float:
    if site.cooling.plant is not None:
        return site.cooling.plant.water_c
    return given.rated_water_c if given is not None else site.cooling.supply_c


def _zone_row(name: str, kind: str, part: pd.DataFrame, air_kw: float, liquid_kw: float) -> dict[str, object]:
    first, last = int(part["row"].min()), int(part["row"].max())
    return {
        "zone": name,
        "kind": kind,
        "first_row": first,
        "last_row": last,
        "racks": len(part),
        "air_kw": air_kw,
        "liquid_kw": liquid_kw,
        "largest_rack_kw": float(part["air_kw" if kind == "air" else "liquid_kw"].max()),
    }


def _sized(model: str, unit_kw: float, unit_flow: float, n: int, installed: int, n_plus: int) -> dict[str, object]:
    """What `installed` units give, all of them and with `n_plus` out."""
    left = max(installed - n_plus, 0)
    return {
        "unit": model,
        "unit_kw": unit_kw,
        "needed": n,
        "installed": installed,
        "capacity_kw": installed * unit_kw,
        "reserve_kw": left * unit_kw,
        "flow_available": left * unit_flow,
    }


def _zone_frame(rows: list[dict[str, object]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    for column, (kind, _) in frames.ZONES.items():
        blank = "" if kind is str else 0
        frame[column] = frame[column].fillna(blank) if column in frame else blank
    return frame[list(frames.ZONES)]


def _liquid_zones(site: Site, per_rack: pd.DataFrame, figures: _Figures, found: list[Finding]) -> pd.DataFrame:
    """The coolant loop as one zone: distribution units, flow, pressure and approach; no rows without a loop."""
    loop = site.cooling.coolant
    wet = per_rack[per_rack["liquid_kw"] > 0]
    if loop is None or wet.empty:
        if not wet.empty:
            found.append(findings.no_loop(float(wet["liquid_kw"].sum())))
        return _zone_frame([])
    total, largest = float(wet["liquid_kw"].sum()), float(wet["liquid_kw"].max())
    n = units.needed(total, loop.cdu_kw)
    supply_c = site.cooling.supply_c
    row = _zone_row("loop-1", "liquid", wet, float(wet["air_kw"].sum()), total)
    per_unit = coolant.flow_l_min(loop.cdu_kw, supply_c, loop.rise_k)
    row |= _sized(f"CDU {loop.cdu_kw:g} kW", loop.cdu_kw, per_unit, n, n + site.cooling.n_plus, site.cooling.n_plus)
    row |= {"supply_c": supply_c, "return_c": supply_c + loop.rise_k, "flow_unit": "L/min"}
    row["flow_needed"] = flow = coolant.flow_l_min(total, supply_c, loop.rise_k)
    figures.add("coolant", "loop", "flow", flow, "L/min", "PG25 properties, RC-112")
    figures.add("coolant", "largest rack", "liquid heat", largest, "kW", "nameplate x (1 - air fraction)")
    _hydraulics(site, loop, total, largest, n, figures, found)
    return _zone_frame([row])


def _hydraulics(
    site: Site, loop: Coolant, total: float, largest: float, n: int, figures: _Figures, found: list[Finding]
) -> None:
    flow = coolant.flow_l_min(largest, site.cooling.supply_c, loop.rise_k)
    figures.add("coolant", "largest rack", "flow", flow, "L/min", "PG25 properties, site cooling.coolant.rise_k")
    if loop.loop is None:
        found.append(findings.not_given("cooling.coolant.loop", "pressure drop and approach of the coolant loop"))
        return
    way = liquid.branch(largest, site.cooling.supply_c, loop.loop, loop.rise_k)
    said = f"site cooling.coolant.loop: {loop.loop.source}"
    figures.add("coolant", "largest rack", "velocity in its branch", way.velocity_m_s, "m/s", said)
    figures.add("coolant", "largest rack", "Reynolds number", way.reynolds, "1", "PG25 properties")
    figures.add("coolant", "largest rack", "friction factor (Darcy)", way.friction, "1", "Colebrook, fluids")
    figures.add("coolant", "largest rack", "drop over pipe and bends", way.pipe_kpa, "kPa", "Darcy-Weisbach, fluids")
    figures.add("coolant", "largest rack", "drop over manifold and cold plates", way.rack_kpa, "kPa", said)
    figures.add("coolant", "largest rack", "drop together", way.total_kpa, "kPa", "sum")
    figures.add("coolant", "distribution unit", "head left for it", loop.loop.cdu_head_kpa, "kPa", said)
    share = liquid.exchanger(total / n, site.cooling.supply_c, loop.rise_k, loop.loop)
    figures.add("coolant", "distribution unit", "heat of each with the spare ones out", share.heat_kw, "kW", "heat / N")
    figures.add("coolant", "distribution unit", "approach", share.approach_k, "K", said)
    ua = share.ua_needed if math.isfinite(share.ua_needed) else -1.0
    figures.add("coolant", "distribution unit", "conductance needed", ua, "kW/K", "e-NTU, counterflow, ht")
    figures.add("coolant", "distribution unit", "conductance", share.ua, "kW/K", said)
    figures.add("coolant", "distribution unit", "warmest facility water", share.facility_max_c, "C", "e-NTU, ht")
    figures.add(
        "coolant", "distribution unit", "facility water", share.facility_l_min, "L/min", "RC-114: Q / (4.186 x rise)"
    )
    found += findings.hydraulics(site, way, share)


def _loads(site: Site, devices: pd.DataFrame, zones: pd.DataFrame, loops: pd.DataFrame) -> plant.Loads:
    """Heat on the facility water and power of fans and pumps in the hall; the fans' power ends up in the air."""
    given, loop = site.cooling.air, site.cooling.coolant
    fans = 0.0
    if given is not None:
        pairs = zip(zones["needed"].tolist(), zones["installed"].tolist(), strict=True)
        fans = sum(plant.fan_power_kw(given.fan_kw, min(n, k), k) for n, k in pairs)
    liquid_rise_k = site.cooling.plant.water_rise_k if site.cooling.plant else math.inf  # no plant, no water
    pumps, liquid_water_c = 0.0, site.cooling.plant.water_c if site.cooling.plant else site.cooling.supply_c
    if loop is not None and loop.loop is not None:
        n = int(loops["needed"].sum())
        pumps, liquid_water_c = n * loop.loop.cdu_pump_kw, loop.loop.facility_c
        liquid_rise_k = loop.loop.facility_rise_k
    return plant.Loads(
        it_kw=float(devices["nameplate_w"].sum()) / 1000,
        air_kw=float(zones["air_kw"].sum()) + fans,
        liquid_kw=float(loops["liquid_kw"].sum()) + pumps,
        air_fan_kw=fans,
        cdu_pump_kw=pumps,
        liquid_water_c=liquid_water_c,
        liquid_rise_k=liquid_rise_k,
    )


def _plant(site: Site, loads: plant.Loads, figures: _Figures, found: list[Finding]) -> plant.DesignDay | None:
    given = site.cooling.plant
    if given is None:
        found.append(findings.not_given("cooling.plant", "chillers, heat rejection, water and PUE"))
        return None
    spare = site.cooling.n_plus if given.n_plus is None else given.n_plus
    day = plant.design_day(given, loads, spare)
    said = f"site cooling.plant: {given.source}"
    hot = "wet bulb" if plant.is_wet(given) else "dry bulb"
    rows = [
        ("air heat with fans", loads.air_kw, "kW", "zones and fan laws"),
        ("liquid heat with pumps", loads.liquid_kw, "kW", "nameplate x (1 - air fraction)"),
        ("fans of the air units", loads.air_fan_kw, "kW", "fan laws"),
        ("pumps of the distribution units", loads.cdu_pump_kw, "kW", "site cooling.coolant.loop"),
        ("outdoor water on the design day", day.outdoor_water_c, "C", f"design {hot} + approach, {said}"),
        ("liquid part without chillers on the design day", float(day.free_liquid), "1 = yes", said),
        ("load of the chillers", day.chiller_load_kw, "kW", "heat that outdoor water does not take"),
        ("chillers needed", day.chillers, "each", "RC-118: ceil(Q / unit)"),
        ("chillers installed", day.chillers_installed, "each", f"N + {spare}"),
        ("power of the chillers", day.chiller_power_kw, "kW", "load / COP"),
        ("heat to reject", day.reject_kw, "kW", "heat + power of the chillers"),
        ("towers or dry coolers needed", day.rejectors, "each", "RC-118: ceil(Q / unit)"),
        ("towers or dry coolers installed", day.rejectors_installed, "each", f"N + {spare}"),
        ("power of their fans", day.reject_fan_kw, "kW", "fan laws"),
        ("facility water", day.flow_l_s, "L/s", "RC-114: Q / (4.186 x rise)"),
        ("power of its pumps", day.pump_kw, "kW", "flow x head / efficiency"),
        ("make-up water", day.makeup_m3_h, "m3/h", "evaporation x C / (C - 1)"),
    ]
    for quantity, value, unit, source in rows:
        figures.add("plant", "design day", quantity, value, unit, source)
    parts = day.pue(loads, given.other_pct)
    for name, value in parts.items():
        figures.add("pue", "design day", name, value, "1", "power at nameplate over IT load")
    figures.add("pue", "design day", "PUE", sum(parts.values()), "1", "sum of the components")
    found += findings.plant_temperature(site, given, day, loads)
    return day


def _year(
    site: Site, loads: plant.Loads, day: plant.DesignDay | None, weather: Weather | None, figures: _Figures
) -> list[Finding]:
    given = site.cooling.plant
    if given is None or day is None:
        return []
    if weather is None:
        if site.weather is not None:
            return []  # the file cannot be read: a finding of its own says so
        return [findings.not_given("weather", "economiser hours, water and energy of a year")]
    whole = plant.year(given, loads, day, weather)
    rows = [
        ("hours without chillers", whole.free_h, "h"),
        ("hours with some chiller work", whole.partial_h, "h"),
        ("hours with chillers alone", whole.chiller_h, "h"),
        ("hours above the water's temperature", whole.above_h, "h"),
        ("energy of the chillers", whole.chiller_mwh, "MWh"),
        ("energy that the economiser saves", whole.saved_mwh, "MWh"),
        ("energy of all cooling", whole.cooling_mwh, "MWh"),
        ("water", whole.water_m3, "m3"),
        ("PUE", whole.pue, "1"),
    ]
    for quantity, value, unit in rows:
        figures.add("year", "full load", quantity, value, unit, f"weather: {weather.place}")
    return findings.hours_above(site, whole, float(weather.hours.sum()))


def _pue(site: Site, figures: _Figures) -> list[Finding]:
    """What the components add up to, beside the PUE that the site plans its power with."""
    known = {item: value for item, _, quantity, value, _, _ in figures.rows if quantity == "PUE"}
    return findings.pue(site, known["pue"], known.get("year")) if "pue" in known else []


def _ride_through(
    site: Site, zones: pd.DataFrame, per_rack: pd.DataFrame, air: Air, figures: _Figures
) -> list[Finding]:
    """Minutes to the trip temperature by zone, and of the coolant, against the minutes without cooling."""
    given = site.cooling.ride_through
    if given is None:
        return [findings.not_given("cooling.ride_through", "minutes to the trip temperature when fans or pumps stop")]
    out_min, why = ride_through.outage_min(site)
    figures.add("ride-through", "site", "without cooling after a loss of utility", out_min, "min", why)
    found: list[Finding] = []
    judged: list[tuple[str, float, float]] = []
    wet: set[str] = set()
    on_ups, room = site.ups.scope == "it_and_cooling", site.room
    for zone, kind, first, last, air_kw, liquid_kw in zones[
        ["zone", "kind", "first_row", "last_row", "air_kw", "liquid_kw"]
    ].itertuples(index=False, name=None):
        if kind == "liquid":
            loop = site.cooling.coolant.loop if site.cooling.coolant else None
            if loop is None or given.coolant_trip_c is None:
                continue
            kj_k = ride_through.coolant_capacity_kj_k(loop.volume_l, site.cooling.supply_c)
            body = ride_through.Warming(liquid_kw, kj_k, site.cooling.supply_c, given.coolant_trip_c)
            minutes = body.minutes if on_ups else 0.0  # pumps that stand still leave the cold plates dry (ERR-19)
            said = "volume x rho x cp" if on_ups else "its pumps are not on the UPS (ERR-19)"
            figures.add("ride-through", zone, "facility water lost, coolant", minutes, "min", said)
            judged.append((zone, minutes, minutes))
            wet.add(zone)
            continue
        volume = (last - first + 1) * room.row_pitch_m * room.racks_per_row * room.rack_pitch_m * given.room_height_m
        mass = float(per_rack.loc[per_rack["row"].between(first, last), "mass_kg"].sum())
        light = ride_through.air_capacity_kj_k(volume, air)
        heavy = light + ride_through.metal_capacity_kj_k(mass, given.metal_share)
        low, high = (ride_through.Warming(air_kw, kj_k, air.supply_c, given.trip_c).minutes for kj_k in (light, heavy))
        figures.add("ride-through", zone, "fans stop, air alone", low, "min", "air of the zone")
        figures.add(
            "ride-through", zone, "fans stop, air and metal", high, "min", f"cooling.ride_through: {given.source}"
        )
        judged.append((zone, low, high))
    if on_ups and given.storage_m3 and site.cooling.plant is not None:
        load = float(zones.loc[zones["kind"] == "air", "air_kw"].sum())
        kept = ride_through.storage_minutes(given.storage_m3, site.cooling.plant.water_rise_k, load)
        figures.add("ride-through", "site", "chilled-water storage", kept, "min", "volume x 4.186 x rise")
        judged = [
            (zone, low + kept, high + kept) if zone not in wet else (zone, low, high) for zone, low, high in judged
        ]
    found += findings.ride_through(site, judged, out_min, why)
    return found


def _places(site: Site, zones: pd.DataFrame, racks: pd.DataFrame) -> tuple[pd.DataFrame, list[Finding]]:
    """Where the units stand: coolers between racks and distribution units on free places of the rows, room units at
    the ends of the rows, doors on their racks.
    """
    given, room = site.cooling.air, site.room
    per_row = room.racks_per_row - room.rpps_per_row
    taken = set(zip(racks["row"].tolist(), racks["position"].tolist(), strict=True))
    free = [(r, p) for r in range(room.rows) for p in range(per_row) if (r, p) not in taken]
    rows: list[tuple[object, ...]] = []
    missing = 0
    share = max(int(room.rack_pitch_m / given.width_m + 1e-9), 1) if given and given.kind == "in_row" else 1
    for zone, kind, first, last, unit, unit_kw, installed in zones[
        ["zone", "kind", "first_row", "last_row", "unit", "unit_kw", "installed"]
    ].itertuples(index=False, name=None):
        letter = "CDU" if kind == "liquid" else "CRAH" if given and given.kind == "crah" else "FW"
        in_rows = kind == "liquid" or (given is not None and given.kind == "in_row")
        if in_rows:
            letter = "CDU" if kind == "liquid" else "IR"
            each = 1 if kind == "liquid" else share
            own = [at for at in free if first <= at[0] <= last] or free
            wanted = -(-installed // each)
            spots = own[:wanted] if len(own) >= wanted else free[:wanted]
            missing += wanted - len(spots)
            free = [at for at in free if at not in set(spots)]
            for i in range(installed):
                if i // each >= len(spots):
                    break
                r, p = spots[i // each]
                x = (p + (i % each + 0.5) / each) * room.rack_pitch_m
                rows.append((f"{letter}-{zone}-{i + 1}", zone, unit, "row", r, p, x, r * room.row_pitch_m, unit_kw))
        elif given is not None and given.kind == "rear_door":
            inside = racks[racks["row"].between(first, last)]
            at = inside[["name", "row", "position", "x_m", "y_m"]].head(installed).itertuples(index=False, name=None)
            rows += [(f"RD-{name}", zone, unit, "door", r, p, x, y, unit_kw) for name, r, p, x, y in at]
        else:
            middle, span = (first + last) / 2 * room.row_pitch_m, (last - first + 1) * room.row_pitch_m
            length = per_row * room.rack_pitch_m
            for i in range(installed):
                side, k = i % 2, i // 2
                on_side = -(-(installed - side) // 2)
                y = middle - span / 2 + span * (k + 0.5) / max(on_side, 1)
                x = length + WALL_M if side else -WALL_M
                rows.append((f"{letter}-{zone}-{i + 1}", zone, unit, "wall", -1, -1, x, y, unit_kw))
    frame = pd.DataFrame(rows, columns=list(frames.COOLING_UNITS))
    for column in ("x_m", "y_m"):
        frame[column] = frame[column].astype(float).round(3)
    return frame, findings.unit_places(site, missing, frame)
