"""Heat removal of a site file: air, coolant, plant, ride-through."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from inventory.catalog import U_M, Catalog
from inventory.site.messages import MISSING
from inventory.site.rules import rule
from inventory.site.sections.racks import Rack, Room
from inventory.site.values import Section, Share, Text
from inventory.site.yaml_source import Problem

MOST_RISE_K, MOST_BORE_MM = 30, 400
"""Largest rise of a coolant loop and bore of a branch that the site file takes."""


class CoolantLoop(Section):
    """Pipes, cold plates and heat exchanger of the loop, as one distribution unit sees them."""

    facility_c: Annotated[float, Field(ge=4, le=55)] = Field(
        description="Facility water that reaches the distribution units, Celsius."
    )
    facility_rise_k: Annotated[float, Field(ge=2, le=30)] = Field(description="Its rise, kelvin.")
    cdu_ua_kw_k: Annotated[float, Field(gt=0, le=20_000)] = Field(
        description="Heat exchanger of one unit: conductance at rated flows, kilowatts per kelvin."
    )
    cdu_head_kpa: Annotated[float, Field(gt=0, le=1000)] = Field(
        description="Pressure that a unit's pumps leave for pipes and racks at rated flow, kilopascals."
    )
    cdu_pump_kw: Annotated[float, Field(ge=0, le=200)] = Field(description="Pumps of one unit, kilowatts.")
    branch_bore_mm: Annotated[float, Field(ge=10, le=MOST_BORE_MM)] = Field(
        description="Bore of the pipe or hose to one rack, millimetres."
    )
    branch_m: Annotated[float, Field(gt=0, le=500)] = Field(
        description="Length of that pipe, supply and return together, metres."
    )
    branch_bends: Annotated[int, Field(ge=0, le=100)] = Field(description="Right-angle bends in it.")
    roughness_mm: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.045, description="Roughness of its wall, millimetres; commercial steel by default."
    )
    rack_kpa: Annotated[float, Field(gt=0, le=500)] = Field(
        description="Drop over manifolds, quick disconnects and cold plates of a rack at rack_l_min, kilopascals."
    )
    rack_l_min: Annotated[float, Field(gt=0, le=2000)] = Field(
        description="Flow at which rack_kpa is quoted, litres per minute."
    )
    volume_l: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        description="Coolant in the loop with most racks, litres: what buffers the heat while facility water is away; "
        "smaller loops count in proportion to their racks."
    )
    source: Text = Field(description="Where the figures come from.")


class Coolant(Section):
    """The coolant loop between distribution units and liquid-cooled servers; propylene glycol, 25 % by volume."""

    rise_k: Annotated[float, Field(ge=2, le=MOST_RISE_K)] = Field(
        description="Design rise from supply to return, kelvin."
    )
    server_max_c: Annotated[float, Field(ge=20, le=70)] = Field(
        description="Highest supply temperature that the servers allow, Celsius."
    )
    cdu_kw: Annotated[float, Field(ge=10, le=10_000)] = Field(
        description="Heat that one coolant distribution unit moves at the design rise, kilowatts."
    )
    racks_per_loop: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None,
        description="Liquid-cooled racks that share a loop and its distribution units, in the order of the rows: a failure "
        "domain with spare units of its own (ERR-45); default: those in the rows of an air zone "
        "(cooling.air.rows_per_zone, without cooling.air all).",
    )
    cdus_per_loop: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None,
        description="Distribution units of each loop where they are given; default: as many as its heat needs, and the "
        "spare ones (cooling.n_plus).",
    )
    cdu_places_per_row: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0,
        description="Places of racks kept free for distribution units at the end of each row; default: they take what is free.",
    )
    loop: CoolantLoop | None = Field(
        default=None, description="Pipes, cold plates and exchanger of a loop; without it only its flow is planned."
    )


class Tile(Section):
    """Perforated tiles or grates in front of the racks."""

    airflow_m3_s: Annotated[float, Field(gt=0, le=5)] = Field(
        description="Air through one tile at pressure_pa, cubic metres per second."
    )
    pressure_pa: Annotated[float, Field(gt=0, le=250)] = Field(
        description="Static pressure under the floor at which that air flows, pascals."
    )
    per_rack: Annotated[int, Field(ge=1, le=6)] = Field(description="Tiles in front of one rack.")


class Duct(Section):
    """The ducts of one zone, all alike and side by side, supply or return, whichever is longer."""

    count: Annotated[int, Field(ge=1, le=1000)] = Field(description="Ducts of a zone.")
    width_m: Annotated[float, Field(gt=0, le=10)] = Field(description="Width inside, metres.")
    height_m: Annotated[float, Field(gt=0, le=10)] = Field(description="Height inside, metres.")
    length_m: Annotated[float, Field(gt=0, le=1000)] = Field(description="Length of the longest one, metres.")
    bends: Annotated[int, Field(ge=0, le=100)] = Field(description="Right-angle bends in it.")
    roughness_mm: Annotated[float, Field(ge=0, le=10)] = Field(
        default=0.09, description="Roughness, millimetres; galvanised steel by default (ASHRAE Fundamentals)."
    )
    available_pa: Annotated[float, Field(gt=0, le=2000)] = Field(
        description="Static pressure that the units' fans leave for the ducts, pascals."
    )


class RackAir(Section):
    """The air that reaches a rack through its aisle."""

    airflow_m3_s: Annotated[float, Field(gt=0, le=50)] = Field(
        description="Air that one rack gets at supply temperature with the spare units out, cubic metres per second."
    )
    source: Text = Field(
        description="Where the figure comes from: a computation of the aisle, or a commissioning test."
    )


class AirUnits(Section):
    """The units that cool the air of the hall, all of one model."""

    kind: Literal["crah", "in_row", "rear_door", "fan_wall"] = Field(
        description="Room units, coolers between racks, exchangers in the racks' rear doors, or fan walls."
    )
    model: Text = Field(description="Model, as it is ordered.")
    sensible_kw: Annotated[float, Field(gt=0, le=2000)] = Field(
        description="Net sensible capacity of one unit at rated_return_c and rated_water_c, kilowatts."
    )
    airflow_m3_s: Annotated[float, Field(gt=0, le=200)] = Field(
        description="Air of one unit at full speed, cubic metres per second at its inlet."
    )
    rated_return_c: Annotated[float, Field(ge=15, le=60)] = Field(
        description="Air temperature at the unit's inlet that sensible_kw is quoted for, Celsius."
    )
    rated_water_c: Annotated[float, Field(ge=2, le=45)] = Field(
        description="Water temperature at the coil's inlet that sensible_kw is quoted for, Celsius."
    )
    fan_kw: Annotated[float, Field(ge=0, le=200)] = Field(description="Fans of one unit at full speed, kilowatts.")
    rise_k: Annotated[float, Field(ge=5, le=30)] = Field(
        description="Rise of the air through the servers at full load, kelvin; their fans set it."
    )
    leakage_pct: Annotated[float, Field(ge=0, le=60)] = Field(
        description="Share of the supplied air that passes the servers by, per cent."
    )
    containment: Literal["hot", "cold", "none"] = Field(description="Which aisles are closed off.")
    path: Literal["raised_floor", "duct", "room", "row"] = Field(
        description="How the air reaches the racks: tiles, ducts, the open hall, or from beside them."
    )
    supply_c: Annotated[float, Field(ge=5, le=35)] | None = Field(
        default=None,
        description="Supply temperature of the air, Celsius; default cooling.supply_c, mandatory with kind liquid.",
    )
    rows_per_zone: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=2, description="Rows that share their units: a zone, which has spare units of its own (S118)."
    )
    units_per_zone: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="Units of each zone where they are given; default: as many as its heat and air need."
    )
    width_m: Annotated[float, Field(gt=0, le=10)] | None = Field(
        default=None,
        description="Width of a unit, metres: in-row units take places of racks (default 0.3), room units and fan walls stand "
        "along the walls at both ends of their rows (without it nobody judges whether they fit).",
    )
    rack_air: RackAir | None = Field(
        default=None,
        description="What the aisle gives one rack, beside which the densest rack is judged; without it the option of "
        "cooling.options that the site is, or tiles and doors, judge it.",
    )
    every_racks: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None,
        description="kind in_row: a place is kept free for coolers after so many racks; default: they take what is free.",
    )
    tile: Tile | None = Field(default=None, description="The tiles; mandatory with path raised_floor.")
    duct: Duct | None = Field(default=None, description="The ducts; mandatory with path duct.")
    source: Text = Field(description="Where the figures come from.")


class Plant(Section):
    """What takes the heat out of the building, at the design day."""

    kind: Literal["chiller_tower", "chiller_dry", "dry_cooler", "tower"] = Field(
        description="Chillers rejecting to wet towers or to dry coolers, or these alone, without chillers."
    )
    reject_kw: Annotated[float, Field(gt=0, le=50_000)] = Field(
        description="Heat that one tower or dry cooler rejects at the design day, kilowatts."
    )
    reject_fan_kw: Annotated[float, Field(ge=0, le=1000)] = Field(
        description="Fans of one tower or dry cooler at full speed, kilowatts."
    )
    approach_k: Annotated[float, Field(gt=0, le=30)] = Field(
        description="Water that leaves it over the outdoor wet bulb (tower) or dry bulb (dry cooler), kelvin."
    )
    design_dry_c: Annotated[float, Field(ge=-20, le=60)] = Field(description="Dry bulb of the design day, Celsius.")
    design_wet_c: Annotated[float, Field(ge=-25, le=40)] = Field(description="Wet bulb of the design day, Celsius.")
    chiller_kw: Annotated[float, Field(gt=0, le=50_000)] | None = Field(
        default=None, description="Cooling of one chiller at the design day, kilowatts; mandatory with chillers."
    )
    chiller_cop: Annotated[float, Field(gt=1, le=30)] | None = Field(
        default=None, description="Heat moved per power at the design day; mandatory with chillers."
    )
    water_c: Annotated[float, Field(ge=4, le=50)] = Field(
        description="Facility water that the plant supplies to coils and distribution units, Celsius."
    )
    water_rise_k: Annotated[float, Field(ge=2, le=25)] = Field(description="Rise of that water, kelvin.")
    pump_kpa: Annotated[float, Field(gt=0, le=2000)] = Field(
        description="Head of the facility water's pumps, kilopascals."
    )
    pump_efficiency: Share = Field(description="Pump, motor and drive together.")
    pump_l_s: Annotated[float, Field(gt=0, le=2000)] | None = Field(
        default=None,
        description="Flow of one pump of the facility water, litres per second; without it their number is not planned.",
    )
    reject_rise_k: Annotated[float, Field(ge=2, le=25)] = Field(
        default=5.0,
        description="Rise of the water between chillers and towers or dry coolers, kelvin; default: 30 to 35 Celsius, at which "
        "AHRI 551/591 rates chillers.",
    )
    reject_pump_kpa: Annotated[float, Field(gt=0, le=2000)] | None = Field(
        default=None,
        description="Head of the pumps between chillers and towers or dry coolers, kilopascals; without it their power is not "
        "counted.",
    )
    n_plus: Annotated[int, Field(ge=0, le=4)] | None = Field(
        default=None, description="Spare chillers, and spare towers or dry coolers; default cooling.n_plus."
    )
    economiser: bool = Field(description="Whether the plant cools without chillers when the weather allows.")
    cycles: Annotated[float, Field(gt=1, le=20)] | None = Field(
        default=None, description="Cycles of concentration of the towers' water; mandatory with towers."
    )
    other_pct: Annotated[float, Field(ge=0, le=50)] = Field(
        description="Lighting, offices and the rest, per cent of the IT load; losses of UPS and transformers come from the "
        "section electrical."
    )
    source: Text = Field(description="Where the figures come from.")


class RideThrough(Section):
    """What decides how soon it is too hot after fans or pumps stop."""

    trip_c: Annotated[float, Field(ge=25, le=60)] = Field(
        description="Air at the servers' inlet at which they throttle or stop, Celsius."
    )
    coolant_trip_c: Annotated[float, Field(ge=25, le=80)] | None = Field(
        default=None, description="Coolant at the servers' inlet at which they stop, Celsius; for kind liquid."
    )
    room_height_m: Annotated[float, Field(ge=2, le=20)] = Field(description="Height of the hall's air, metres.")
    metal_share: Share = Field(
        description="Share of the racks' mass that follows the air's temperature in those minutes."
    )
    restart_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        description="From power restored to full cooling, seconds: controllers, fans, pumps, chillers."
    )
    storage_m3: Annotated[float, Field(ge=0, le=10_000)] = Field(
        default=0.0,
        description="Storage of facility water at cooling.plant.water_c, which coils and distribution units draw from while "
        "fans and pumps run on the UPS, cubic metres.",
    )
    source: Text = Field(description="Where the figures come from.")


class CoolingOption(Section):
    """One way to cool this site, for the comparison that S097 asks for."""

    kind: Literal["air", "hybrid", "liquid"] = Field(
        description="All by air; cold plates for the hot parts and air for the rest; nearly all by liquid."
    )
    air_fraction: Annotated[float, Field(ge=0, le=1)] = Field(description="Share of a server's heat that goes to air.")
    rack_air_kw: Annotated[float, Field(gt=0, le=300)] = Field(
        description="Air heat that a rack may have with this way of supplying air, kilowatts."
    )
    liquid_water_c: Annotated[float, Field(ge=4, le=55)] | None = Field(
        default=None, description="Facility water for the liquid part, Celsius; default cooling.plant.water_c."
    )
    cdu_pump_w_per_kw: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0.0, description="Pumps of the distribution units per kilowatt that they move, watts."
    )
    source: Text = Field(description="Where the figures come from.")


class Cooling(Section):
    """Heat removal."""

    kind: Literal["air", "liquid"] = Field(description="Air-cooled or direct liquid-cooled servers.")
    class_: Literal["A1", "A2", "A3", "A4", "H1"] = Field(
        alias="class", description="ASHRAE TC9.9 class of the pool; H1 recommends 18-22 C (ERR-26)."
    )
    n_plus: Annotated[int, Field(ge=0, le=4)] = Field(
        description="Spare cooling units per zone; with kind liquid also of the coolant distribution units."
    )
    supply_c: Annotated[float, Field(ge=5, le=50)] = Field(description="Supply temperature of air or coolant, Celsius.")
    dewpoint_c: Annotated[float, Field(ge=-20, le=30)] = Field(description="Highest dew point of the room, Celsius.")
    chilled_water: bool = Field(
        default=False, description="Whether a chilled-water plant serves the room (steps for it apply)."
    )
    coolant: Coolant | None = Field(
        default=None, description="The coolant loop; with kind liquid, and mandatory there."
    )
    air: AirUnits | None = Field(
        default=None, description="The units that cool the hall's air; without them only its heat and air are planned."
    )
    plant: Plant | None = Field(
        default=None, description="Chillers, towers and dry coolers; without it nothing outside the hall is planned."
    )
    ride_through: RideThrough | None = Field(
        default=None, description="For the minutes to the trip temperature; without it they are not computed."
    )
    options: tuple[CoolingOption, ...] = Field(
        default=(), max_length=3, description="Ways to cool this site, to be compared (S097); each kind once."
    )


@rule("cooling", "room", "rack")
def rooms_are_higher_than_what_stands_in_them(
    catalog: Catalog, cooling: Cooling, room: Room, rack: Rack
) -> Iterator[Problem]:
    given = cooling.ride_through
    if given is None:
        return
    path, found = ("cooling", "ride_through", "room_height_m"), f"{given.room_height_m:g}"
    slugs = [kind.model for kind in (rack, rack.network, rack.storage) if kind is not None]
    models = [catalog.racks[slug] for slug in slugs if slug in catalog.racks]
    tallest = max(models, key=lambda model: model.u_height, default=None)
    if tallest is not None and given.room_height_m < tallest.u_height * U_M - 1e-9:
        yield Problem(
            path,
            "lower than a rack",
            found,
            f"at least the {tallest.u_height * U_M:.2f} metres of {tallest.u_height} rack units ({tallest.slug})",
            "write the height from the floor to the ceiling of the hall",
        )
    if given.room_height_m <= room.tray_height_m:
        yield Problem(
            path,
            "not above the cable trays",
            found,
            f"more than room.tray_height_m, {room.tray_height_m:g} metres",
            "write the height from the floor to the ceiling of the hall, or lower tray_height_m",
        )


@rule("cooling")
def supply_stays_above_the_dew_point(catalog: Catalog, cooling: Cooling) -> Iterator[Problem]:
    if cooling.supply_c <= cooling.dewpoint_c:
        yield Problem(
            ("cooling", "supply_c"),
            "not above the dew point",
            f"{cooling.supply_c:g}",
            f"more than dewpoint_c, {cooling.dewpoint_c:g} degrees Celsius: water would condense (RC-112)",
            "raise supply_c or dry the room",
        )


@rule("cooling")
def coolant_goes_with_liquid(catalog: Catalog, cooling: Cooling) -> Iterator[Problem]:
    path = ("cooling", "coolant")
    if cooling.kind == "liquid" and cooling.coolant is None:
        yield Problem(
            path,
            MISSING,
            "",
            "rise, highest supply temperature and distribution units of the coolant loop, since cooling.kind is liquid",
            "add 'coolant: {rise_k: ..., server_max_c: ..., cdu_kw: ...}' in cooling",
        )
    if cooling.kind == "air" and cooling.coolant is not None:
        yield Problem(
            path,
            "a coolant loop of air-cooled servers",
            f"{cooling.coolant.cdu_kw:g} kW units",
            "no coolant while cooling.kind is air",
            "delete the key, or write kind: liquid",
        )


@rule("cooling")
def air_units_fit_their_hall(catalog: Catalog, cooling: Cooling) -> Iterator[Problem]:
    air = cooling.air
    if air is None:
        return
    path = ("cooling", "air")
    if air.path == "raised_floor" and air.tile is None:
        yield Problem(
            (*path, "tile"),
            MISSING,
            "",
            "the tiles, since path is raised_floor",
            "add 'tile: {airflow_m3_s: ..., pressure_pa: ..., per_rack: ...}' in cooling.air, or name another path",
        )
    if air.path != "raised_floor" and air.tile is not None:
        yield Problem(
            (*path, "tile"),
            "tiles without a raised floor",
            f"path {air.path}",
            "no tile unless path is raised_floor (ERR-46: these are alternatives)",
            "delete the key, or write path: raised_floor",
        )
    if (air.path == "duct") != (air.duct is not None):
        yield Problem(
            (*path, "duct"),
            MISSING if air.duct is None else "ducts that no air goes through",
            "" if air.duct is None else f"path {air.path}",
            "the ducts with path duct, and only there (ERR-46: these are alternatives)",
            "add 'duct: {count: ..., width_m: ..., ...}' in cooling.air" if air.duct is None else "delete the key",
        )
    if (air.kind == "in_row") != (air.path == "row"):
        yield Problem(
            (*path, "path"),
            "a way of the air that these units do not have",
            f"{air.path} with {air.kind}",
            "path row with kind in_row, and only there",
            "write path: row" if air.kind == "in_row" else "name raised_floor, duct or room",
        )
    if air.every_racks is not None and air.kind != "in_row":
        yield Problem(
            (*path, "every_racks"),
            "places for coolers that stand elsewhere",
            f"kind {air.kind}",
            "no every_racks unless kind is in_row",
            "delete the key, or write kind: in_row",
        )
    if cooling.kind == "liquid" and air.supply_c is None:
        yield Problem(
            (*path, "supply_c"),
            MISSING,
            "",
            "the supply temperature of the air, since cooling.supply_c is the coolant's",
            "add supply_c in cooling.air",
        )
    supply_c = cooling.supply_c if air.supply_c is None else air.supply_c
    if air.rated_return_c <= air.rated_water_c:
        yield Problem(
            (*path, "rated_return_c"),
            "not above the water",
            f"{air.rated_return_c:g}",
            f"more than rated_water_c, {air.rated_water_c:g} degrees Celsius",
            "copy both from one line of the data sheet",
        )
    if air.supply_c is not None and supply_c <= cooling.dewpoint_c:
        yield Problem(
            (*path, "supply_c"),
            "not above the dew point",
            f"{supply_c:g}",
            f"more than dewpoint_c, {cooling.dewpoint_c:g} degrees Celsius",
            "raise supply_c or dry the room",
        )
    water_c = cooling.plant.water_c if cooling.plant is not None else air.rated_water_c
    if water_c >= supply_c:
        yield Problem(
            ("cooling", "plant", "water_c") if cooling.plant is not None else (*path, "rated_water_c"),
            "too warm for the air",
            f"{water_c:g}",
            f"less than the air's supply temperature, {supply_c:g} degrees Celsius",
            "lower the water's temperature or raise the air's",
        )


@rule("cooling", "room")
def coolers_between_racks_are_no_wider_than_a_place(
    catalog: Catalog, cooling: Cooling, room: Room
) -> Iterator[Problem]:
    air = cooling.air
    if air is not None and air.kind == "in_row" and air.width_m is not None and air.width_m > room.rack_pitch_m:
        yield Problem(
            ("cooling", "air", "width_m"),
            "wider than the place of a rack",
            f"{air.width_m:g}",
            f"at most room.rack_pitch_m, {room.rack_pitch_m:g} metres, while kind is in_row",
            "copy the width of the in-row unit from its data sheet, or correct room.rack_pitch_m",
        )


@rule("cooling", "room")
def distribution_units_leave_places_for_racks(catalog: Catalog, cooling: Cooling, room: Room) -> Iterator[Problem]:
    kept = cooling.coolant.cdu_places_per_row if cooling.coolant is not None else 0
    if kept and kept + room.rpps_per_row >= room.racks_per_row:
        yield Problem(
            ("cooling", "coolant", "cdu_places_per_row"),
            "no place is left for racks",
            f"{kept:g}",
            f"less than room.racks_per_row {room.racks_per_row} without room.rpps_per_row {room.rpps_per_row}",
            "keep fewer places free, or make the rows longer",
        )


@rule("cooling")
def plants_have_what_their_kind_needs(catalog: Catalog, cooling: Cooling) -> Iterator[Problem]:
    plant = cooling.plant
    if plant is None:
        return
    path = ("cooling", "plant")
    chillers = plant.kind.startswith("chiller")
    for key, value in (("chiller_kw", plant.chiller_kw), ("chiller_cop", plant.chiller_cop)):
        if chillers and value is None:
            yield Problem((*path, key), MISSING, "", f"a value, since kind is {plant.kind}", f"add {key}")
        if not chillers and value is not None:
            yield Problem(
                (*path, key),
                "chillers in a plant without any",
                f"{value:g}",
                f"no {key} while kind is {plant.kind}",
                "delete the key, or name a kind with chillers",
            )
    towers = plant.kind in ("chiller_tower", "tower")
    if towers and plant.cycles is None:
        yield Problem((*path, "cycles"), MISSING, "", f"a value, since kind is {plant.kind}", "add cycles")
    if not towers and plant.cycles is not None:
        yield Problem(
            (*path, "cycles"),
            "cycles of concentration of a dry plant",
            f"{plant.cycles:g}",
            f"no cycles while kind is {plant.kind}",
            "delete the key, or name a kind with towers",
        )
    if plant.design_wet_c > plant.design_dry_c:
        yield Problem(
            (*path, "design_wet_c"),
            "above the dry bulb",
            f"{plant.design_wet_c:g}",
            f"at most design_dry_c, {plant.design_dry_c:g} degrees Celsius",
            "swap the two, or correct one of them",
        )


@rule("cooling")
def loop_is_colder_than_its_coolant(catalog: Catalog, cooling: Cooling) -> Iterator[Problem]:
    loop = cooling.coolant.loop if cooling.coolant is not None else None
    if loop is not None and loop.facility_c >= cooling.supply_c:
        yield Problem(
            ("cooling", "coolant", "loop", "facility_c"),
            "not colder than the coolant",
            f"{loop.facility_c:g}",
            f"less than cooling.supply_c, {cooling.supply_c:g} degrees Celsius: the heat goes from coolant to water",
            "lower facility_c or raise supply_c",
        )


@rule("cooling")
def trips_lie_above_the_supply(catalog: Catalog, cooling: Cooling) -> Iterator[Problem]:
    given = cooling.ride_through
    if given is None:
        return
    path = ("cooling", "ride_through")
    air_c = cooling.supply_c if cooling.kind == "air" else cooling.air.supply_c if cooling.air is not None else None
    key = "cooling.supply_c" if cooling.kind == "air" else "cooling.air.supply_c"
    if air_c is not None and given.trip_c <= air_c:
        yield Problem(
            (*path, "trip_c"),
            "not above the supply",
            f"{given.trip_c:g}",
            f"more than the air's supply temperature, {air_c:g} degrees Celsius",
            f"lower {key} below {given.trip_c:g}: trip_c is the servers' limit; raise trip_c only where their maker permits more",
        )
    if cooling.kind == "liquid" and given.coolant_trip_c is None:
        yield Problem((*path, "coolant_trip_c"), MISSING, "", "a value, since cooling.kind is liquid", "add it")
    if given.coolant_trip_c is not None and cooling.kind == "liquid" and given.coolant_trip_c <= cooling.supply_c:
        yield Problem(
            (*path, "coolant_trip_c"),
            "not above the supply",
            f"{given.coolant_trip_c:g}",
            f"more than cooling.supply_c, {cooling.supply_c:g} degrees Celsius",
            f"lower cooling.supply_c below {given.coolant_trip_c:g}: coolant_trip_c is the servers' limit; raise it only where "
            "their maker permits more",
        )


@rule("cooling")
def cooling_options_are_distinct(catalog: Catalog, cooling: Cooling) -> Iterator[Problem]:
    kinds = [option.kind for option in cooling.options]
    for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        yield Problem(
            ("cooling", "options"), "a kind given twice", kind, "each kind once", f"keep one entry for {kind}"
        )
