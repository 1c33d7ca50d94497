"""The building's cooling: zones with their units, the coolant's way, the plant, a year of weather, ride-through, options.

    design = design_day(site, devices, racks, placements)         before the supply is planned: what the cooling draws
    mechanical = build(site, catalog, devices, racks, placements, weather, losses_kw)

Out: frames `zones`, `cooling_units`, `cooling_figures`, `cooling_options` (columns in capacity.model.frames) and findings. Heat is
judged at nameplate. Pure; what the site file does not give is not judged, and one information says so.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from capacity.cooling import (
    air,
    coolant,
    doors,
    ducts,
    liquid,
    options,
    pipes,
    places,
    plant,
    plant_year,
    rack_air,
    ride_through,
    units,
    zones,
)
from capacity.cooling.air import Air, airflow_m3_s, hall_air, relative_humidity
from capacity.cooling.not_planned import not_given
from capacity.space import hall as room
from inventory.catalog import U_M, Catalog
from inventory.findings import Finding
from inventory.imports.weather.typical_year import Weather
from inventory.site import Site
from inventory.site.sections.cooling import AirUnits, Coolant, CoolantLoop


@dataclass(frozen=True)
class Mechanical:
    """The frames by name, and findings."""

    frames: Mapping[str, pd.DataFrame]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Design:
    """The hall's zones and loops with their heat, and the plant on the design day; `day` and `power` are None where the site
    gives no plant.
    """

    per_rack: pd.DataFrame
    air: Air
    unit: units.Capacity | None
    air_zones: pd.DataFrame
    loops: pd.DataFrame
    loads: plant.Loads
    day: plant.DesignDay | None
    power: plant.MechanicalPower | None


@dataclass
class _Figures:
    """Rows of `cooling_figures`, collected as they are computed."""

    rows: list[tuple[str, str, str, float, str, str]] = field(default_factory=list)

    def add(self, item: str, subject: str, quantity: str, value: float, unit: str, source: str) -> None:
        self.rows.append((item, subject, quantity, round(float(value), 4), unit, source))


def design_day(site: Site, devices: pd.DataFrame, racks: pd.DataFrame, placements: pd.DataFrame) -> Design:
    """Heat, flows and power of the cooling on the design day: what follows from the placed devices and the site's cooling
    alone, not from the supply above the racks. `racks` and `placements` are the plan's frames; heat is at nameplate.
    """
    per_rack, air = zones.rack_heat(devices, racks, placements), hall_air(site)
    given = site.cooling.air
    one = units.capacity(given, air, _coil_water_c(site, given)) if given else None
    rooms, loops = zones.air_zones(site, per_rack, air, one), zones.loops(site, per_rack)
    loads, works = _loads(site, devices, rooms, loops), site.cooling.plant
    day = plant.design_day(works, loads, plant.spare(site.cooling)) if works is not None else None
    power = plant.power(loads, day) if day is not None else None
    return Design(per_rack, air, one, rooms, loops, loads, day, power)


def build(
    site: Site,
    catalog: Catalog,
    devices: pd.DataFrame,
    racks: pd.DataFrame,
    placements: pd.DataFrame,
    weather: Weather | None,
    losses_kw: float | None = None,
    design: Design | None = None,
    trial: rack_air.Trial | None = None,
) -> Mechanical:
    """Plan the cooling of a placed site. `losses_kw`: what UPS, transformers and conductors lose with all IT at nameplate;
    None where nobody plans them. `design`: that of `design_day`, where it is known already.
    `trial` places a changed site anew; without it the remedies that need one are not looked for.
    """
    figures, found = _Figures(), list[Finding]()
    design = design or design_day(site, devices, racks, placements)
    _air_figures(site, design, figures)
    found += _coolant(site, design, figures)
    every, placed, short = placed_units(site, design, racks)
    found += short
    found += zones.check_zones(site, every)
    found += zones.check_loops(site, design.loops, design.per_rack)
    found += coolant.check_facility_water(site)
    found += units.check_coils(site, design.unit)
    found += rack_air.check_tiles(site, design.per_rack, design.air)
    found += _ducts(site, design.air_zones, design.air, figures)
    found += doors.check_doors(site, design.per_rack, design.unit, trial)
    found += doors.check_door_out(site, design.air_zones)
    compared = options.compare(site, devices, placements, design.unit, losses_kw or 0.0)
    found += rack_air.check_rack_air(
        site, design.per_rack, design.air_zones, design.air, judged=bool(compared["chosen"].any()), trial=trial
    )
    found += air.check_room_air(site, design.air, design.per_rack)
    found += air.check_inlets(site, catalog, devices, design.air.supply_c)
    found += ride_through.check_coolant_trip(site)
    found += plant.check_chilled_water(site)
    found += _plant(site, design, losses_kw, figures)
    found += _year(site, design, weather, losses_kw, figures)
    found += places.check_far_coolers(site, placed.frame, racks)
    found += _ride_through(site, catalog, design, figures)
    found += options.check_options(site, compared)
    rows = pd.DataFrame(figures.rows, columns=["item", "subject", "quantity", "value", "unit", "source"])
    built = {"zones": every, "cooling_units": placed.frame, "cooling_figures": rows, "cooling_options": compared}
    return Mechanical(built, tuple(found))


def placed_units(site: Site, design: Design, racks: pd.DataFrame) -> tuple[pd.DataFrame, places.Placed, list[Finding]]:
    """All zones, the places of their cooling units, and a finding for each unit that has no place."""
    every = pd.concat([design.air_zones, design.loops], ignore_index=True)
    placed = places.place(site, every, racks)
    return every, placed, places.check_unit_places(site, placed, every, len(racks))


def _air_figures(site: Site, design: Design, figures: _Figures) -> None:
    given, one, air = site.cooling.air, design.unit, design.air
    if one is not None and given is not None:
        said = f"site cooling.air: {given.source}"
        figures.add("air units", "one unit", "sensible capacity in this hall", one.kw, "kW", said)
        figures.add("air units", "one unit", "rated sensible capacity", given.sensible_kw, "kW", said)
        figures.add("air units", "one unit", "coil effectiveness", one.effectiveness, "1", "e-NTU method")
        figures.add("air units", "one unit", "air at supply temperature", one.airflow_m3_s, "m3/s", said)
        figures.add("air units", "one unit", "return temperature", one.return_c, "C", "mixing with leakage")
        water_c = _coil_water_c(site, given)
        figures.add("air units", "one unit", "water at the coil", water_c, "C", "site cooling.plant.water_c")
    figures.add("air", "hall", "density", air.density, "kg/m3", "PsychroLib, site room.altitude_m")
    figures.add("air", "hall", "dew point", min(air.dewpoint_c, air.supply_c), "C", "site cooling.dewpoint_c")
    figures.add("air", "hall", "relative humidity at the inlet", relative_humidity(air) * 100, "%", "PsychroLib")


def _ducts(site: Site, rooms: pd.DataFrame, air: Air, figures: _Figures) -> list[Finding]:
    """Velocity and pressure of the zone with most air, where ducts carry it; static pressure of tiles."""
    given = site.cooling.air
    if given is None or rooms.empty:
        return []
    worst = rooms.iloc[int(rooms["flow_needed"].to_numpy().argmax())]
    if given.tile is not None:
        need = airflow_m3_s(float(rooms["largest_rack_kw"].max()), given.rise_k, air)
        static = given.tile.pressure_pa * (need / (given.tile.airflow_m3_s * given.tile.per_rack)) ** 2
        figures.add(
            "air", "largest rack", "static pressure under its tiles", static, "Pa", "quoted pressure x flow squared"
        )
    if given.duct is None:
        return []
    velocity, pressure = ducts.drop(given.duct, float(worst["flow_needed"]), air)
    figures.add("air", str(worst["zone"]), "velocity in its ducts", velocity, "m/s", "site cooling.air.duct")
    figures.add("air", str(worst["zone"]), "pressure drop of its ducts", pressure, "Pa", "Darcy-Weisbach, fluids")
    return ducts.check_duct(site, str(worst["zone"]), velocity, pressure)


def _coil_water_c(site: Site, given: AirUnits | None) -> float:
    if site.cooling.plant is not None:
        return site.cooling.plant.water_c
    return given.rated_water_c if given is not None else site.cooling.supply_c


def _coolant(site: Site, design: Design, figures: _Figures) -> list[Finding]:
    """Flow of each loop; the branch to the rack with most heat, and the exchanger of the loop whose units have most."""
    given, loops = site.cooling.coolant, design.loops
    wet_kw = float(design.per_rack["liquid_kw"].sum())
    if given is None or loops.empty:
        return coolant.check_wet_or_not(site, wet_kw)
    supply_c, mean_c = site.cooling.supply_c, site.cooling.supply_c + given.rise_k / 2
    for zone, flow in loops[["zone", "flow_needed"]].itertuples(index=False, name=None):
        figures.add("coolant", zone, "flow", flow, "L/min", "PG25 properties, RC-112")
    widest = pipes.glycol(float(loops["flow_needed"].max()) / 60, mean_c)
    if widest is not None:
        figures.add(
            "coolant",
            "largest loop",
            "header, nominal diameter",
            widest.dn,
            "mm",
            "400 Pa/m and 3 m/s, ASHRAE Fundamentals",
        )
        figures.add("coolant", "largest loop", "headers each way", widest.count, "each", "schedule 40, ASME B36.10")
        figures.add("coolant", "largest loop", "velocity in its header", widest.velocity_m_s, "m/s", "flow / area")
    largest = float(loops["largest_rack_kw"].max())
    flow = coolant.flow_l_min(largest, supply_c, given.rise_k)
    figures.add("coolant", "largest rack", "liquid heat", largest, "kW", "nameplate x (1 - air fraction)")
    figures.add("coolant", "largest rack", "flow", flow, "L/min", "PG25 properties, site cooling.coolant.rise_k")
    if given.loop is None:
        return [not_given("cooling.coolant.loop")]
    way = _branch(site, given, given.loop, largest, figures)
    return liquid.check_hydraulics(site, largest, way, _exchanger(site, given, given.loop, loops, figures))


def _branch(site: Site, given: Coolant, loop: CoolantLoop, largest: float, figures: _Figures) -> liquid.Branch:
    way = liquid.branch(largest, site.cooling.supply_c, loop, given.rise_k)
    said = f"site cooling.coolant.loop: {loop.source}"
    figures.add("coolant", "largest rack", "velocity in its branch", way.velocity_m_s, "m/s", said)
    figures.add("coolant", "largest rack", "Reynolds number", way.reynolds, "1", "PG25 properties")
    figures.add("coolant", "largest rack", "friction factor (Darcy)", way.friction, "1", "Colebrook, fluids")
    figures.add("coolant", "largest rack", "drop over pipe and bends", way.pipe_kpa, "kPa", "Darcy-Weisbach, fluids")
    figures.add("coolant", "largest rack", "drop over manifold and cold plates", way.rack_kpa, "kPa", said)
    figures.add("coolant", "largest rack", "drop together", way.total_kpa, "kPa", "sum")
    figures.add("coolant", "distribution unit", "head left for it", loop.cdu_head_kpa, "kPa", said)
    return way


def _exchanger(
    site: Site, given: Coolant, loop: CoolantLoop, loops: pd.DataFrame, figures: _Figures
) -> liquid.Exchanger:
    counts = zip(loops["liquid_kw"], loops["needed"], loops["installed"], strict=True)
    most_kw = max(kw / zones.running(n, k, site.cooling.n_plus) for kw, n, k in counts)
    share = liquid.exchanger(most_kw, site.cooling.supply_c, given.rise_k, loop)
    said = f"site cooling.coolant.loop: {loop.source}"
    figures.add(
        "coolant",
        "distribution unit",
        "heat of each with the spare ones out",
        share.heat_kw,
        "kW",
        "heat of the loop over its units in use",
    )
    figures.add("coolant", "distribution unit", "approach", share.approach_k, "K", said)
    ua = share.ua_needed if math.isfinite(share.ua_needed) else -1.0
    figures.add("coolant", "distribution unit", "conductance needed", ua, "kW/K", "e-NTU, counterflow, ht")
    figures.add("coolant", "distribution unit", "conductance", share.ua, "kW/K", said)
    figures.add("coolant", "distribution unit", "warmest facility water", share.facility_max_c, "C", "e-NTU, ht")
    figures.add(
        "coolant", "distribution unit", "facility water", share.facility_l_min, "L/min", "RC-114: Q / (4.186 x rise)"
    )
    return share


def _loads(site: Site, devices: pd.DataFrame, rooms: pd.DataFrame, loops: pd.DataFrame) -> plant.Loads:
    """Heat on the facility water and power of fans and pumps in the hall; the fans' power ends up in the air."""
    given, loop = site.cooling.air, site.cooling.coolant
    fans = 0.0
    if given is not None:
        pairs = zip(rooms["needed"].tolist(), rooms["installed"].tolist(), strict=True)
        fans = sum(plant.fan_power_kw(given.fan_kw, min(n, k), k) for n, k in pairs)
    liquid_rise_k = site.cooling.plant.water_rise_k if site.cooling.plant else math.inf  # no plant, no water
    pumps, liquid_water_c = 0.0, site.cooling.plant.water_c if site.cooling.plant else site.cooling.supply_c
    if loop is not None and loop.loop is not None:
        n = int(loops["needed"].sum())
        pumps, liquid_water_c = n * loop.loop.cdu_pump_kw, loop.loop.facility_c
        liquid_rise_k = loop.loop.facility_rise_k
    return plant.Loads(
        it_kw=float(devices["nameplate_w"].sum()) / 1000,
        air_kw=float(rooms["air_kw"].sum()) + fans,
        liquid_kw=float(loops["liquid_kw"].sum()) + pumps,
        air_fan_kw=fans,
        cdu_pump_kw=pumps,
        liquid_water_c=liquid_water_c,
        liquid_rise_k=liquid_rise_k,
    )


def _plant(site: Site, design: Design, losses_kw: float | None, figures: _Figures) -> list[Finding]:
    given, loads, day = site.cooling.plant, design.loads, design.day
    if given is None or day is None or design.power is None:
        return [not_given("cooling.plant")]
    spare = plant.spare(site.cooling)
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
        ("facility water of the air units", day.air_l_s, "L/s", "RC-114, site cooling.plant.water_rise_k"),
        ("facility water of the distribution units", day.liquid_l_s, "L/s", "RC-114, site cooling.coolant.loop"),
        ("power of its pumps", day.pump_kw, "kW", "flow x head / efficiency"),
        ("pumps needed", day.pumps, "each", "flow / site cooling.plant.pump_l_s"),
        ("pumps installed", day.pumps_installed, "each", f"N + {spare}"),
        (
            "water through the chillers' condensers",
            day.chiller_water_l_s,
            "L/s",
            "RC-114, site cooling.plant.reject_rise_k",
        ),
        ("water through towers or dry coolers", day.reject_l_s, "L/s", "condensers, and what needs no chillers"),
        ("its temperature back at them", day.reject_return_c, "C", "heat to reject over its flow"),
        ("power of its own pumps", day.reject_pump_kw, "kW", "flow x head / efficiency"),
        ("make-up water", day.makeup_m3_h, "m3/h", "evaporation x C / (C - 1)"),
        ("power of all cooling", design.power.total_kw, "kW", "fans, pumps, chillers and heat rejection"),
    ]
    for quantity, value, unit, source in rows:
        figures.add("plant", "design day", quantity, value, unit, source)
    warm = day.outdoor_water_c
    for name, flow, celsius in (
        ("header of the air units", day.air_l_s, given.water_c),
        ("header of the distribution units", day.liquid_l_s, loads.liquid_water_c),
        ("header of the condensers", day.chiller_water_l_s, warm),
        ("header of towers or dry coolers", day.reject_l_s, warm),
    ):
        pipe = pipes.water(flow, celsius)
        if pipe is not None:
            figures.add("plant", name, "nominal diameter", pipe.dn, "mm", "400 Pa/m and 3 m/s, ASHRAE Fundamentals")
            figures.add("plant", name, "pipes each way", pipe.count, "each", "one header for the whole flow")
            figures.add("plant", name, "velocity", pipe.velocity_m_s, "m/s", "flow / area")
    parts = plant.pue(loads.it_kw, design.power, losses_kw or 0.0, given.other_pct)
    for part, value in parts.items():
        source = "the planned supply" if losses_kw is not None else "not planned: no section electrical"
        said = f"losses over IT load: {source}" if part == "power losses" else "power at nameplate over IT load"
        figures.add("pue", "design day", part, value, "1", said)
    figures.add("pue", "design day", "PUE", sum(parts.values()), "1", "sum of the components")
    found = plant.check_temperature(site, given, day, loads)
    if losses_kw is None:
        found.append(not_given("electrical"))
    return found


def _year(
    site: Site, design: Design, weather: Weather | None, losses_kw: float | None, figures: _Figures
) -> list[Finding]:
    given, day = site.cooling.plant, design.day
    if given is None or day is None:
        return []
    if weather is None:
        if site.weather is not None:
            return []  # the file cannot be read: a finding of its own says so
        return [not_given("weather")]
    whole = plant_year.year(given, design.loads, day, weather, losses_kw or 0.0)
    rows = [
        ("hours without chillers", whole.free_h, "h"),
        ("hours with some chiller work", whole.partial_h, "h"),
        ("hours with chillers alone", whole.chiller_h, "h"),
        ("hours above the outdoor water's limit", whole.above_h, "h"),
        ("warmest outdoor water", whole.hottest_c, "C"),
        ("largest load of the chillers", whole.peak_kw, "kW"),
        ("energy of the chillers", whole.chiller_mwh, "MWh"),
        ("energy that the economiser saves", whole.saved_mwh, "MWh"),
        ("energy of all cooling", whole.cooling_mwh, "MWh"),
        ("water", whole.water_m3, "m3"),
        ("PUE", whole.pue, "1"),
    ]
    for quantity, value, unit in rows:
        figures.add("year", "full load", quantity, value, unit, f"weather: {weather.place}")
    return plant_year.check_hours(site, given, day, design.loads, whole, float(weather.hours.sum()))


def check_pue(site: Site, figures: pd.DataFrame) -> list[Finding]:
    """What the components add up to (frame `cooling_figures`), beside the PUE that the site plans its power with. Not part of
    `build`, which does not follow from that PUE.
    """
    rows = figures[figures["quantity"] == "PUE"]
    known = dict(zip(rows["item"].tolist(), rows["value"].tolist(), strict=True))
    return plant.check_pue(site, known["pue"], known.get("year")) if "pue" in known else []


def _ride_through(site: Site, catalog: Catalog, design: Design, figures: _Figures) -> list[Finding]:
    """Minutes to the trip temperature by zone and by loop against the minutes without cooling."""
    given = site.cooling.ride_through
    if given is None:
        return [not_given("cooling.ride_through")]
    out_min, why = ride_through.outage_min(site)
    figures.add("ride-through", "site", "without cooling after a loss of utility", out_min, "min", why)
    areas = {slug: _rack_m2(catalog, slug) for slug in design.per_rack["model"].unique()}
    rack_m3 = design.per_rack["model"].map(areas) * design.per_rack["height_u"] * U_M
    hall = ride_through.Hall(site, design.air, design.per_rack.assign(m3=rack_m3), room.rack_depth_m(site, catalog))
    bodies = [
        *ride_through.air_bodies(hall, given, design.air_zones),
        *ride_through.loop_bodies(site, given, design.loops),
    ]
    store = ride_through.Store(given.storage_m3, design.day.flow_l_s if design.day is not None else 0.0)
    on_ups = site.ups.scope == "it_and_cooling"
    for body in bodies:
        low, high = body.minutes(on_ups)
        if body.kind == "liquid":
            said = "volume x rho x cp" if on_ups else "its pumps are not on the UPS (ERR-19)"
            figures.add("ride-through", body.zone, "facility water lost, coolant", low, "min", said)
            continue
        figures.add("ride-through", body.zone, "no cooling, cold-side air alone", low, "min", body.said)
        figures.add(
            "ride-through", body.zone, "no cooling, air and metal", high, "min", f"cooling.ride_through: {given.source}"
        )
    if on_ups and store.flow_l_s > 0 and store.volume_m3 > 0:
        said = "volume over the flow of coils and distribution units"
        figures.add("ride-through", "site", "chilled-water storage", store.minutes, "min", said)
    return ride_through.check_ride_through(site, bodies, store, out_min)


def _rack_m2(catalog: Catalog, slug: str) -> float:
    rack = catalog.rack(slug)
    return rack.outer_width * rack.outer_depth / 1e6


def beside_it(site: Site, design: Design) -> float | None:
    """What a kW of IT load draws beside itself in the building, losses of the supply left out: cooling on the design day,
    lighting and the rest. None where the site gives no plant: then power.pue says it.
    """
    if design.power is None or site.cooling.plant is None or not design.loads.it_kw:
        return None
    return design.power.total_kw / design.loads.it_kw + site.cooling.plant.other_pct / 100
