"""Minutes until it is too hot after fans, pumps or chillers stop, against the time until cooling is back.

The hall is adiabatic in those minutes: C dT/dt = Q, evenly mixed. Two estimates, no bounds: C is first the air on the cold side
of the racks alone (density x cp x volume; where aisles are closed off, their cold side only; racks deducted), then all air of
the zone and the metal of racks and equipment that follows (0.49 kJ/kgK, carbon steel; site's share of it). Hot air that finds
a way back around one rack reaches its inlet sooner than either says. Coolant: loop volume x density x heat capacity, pumps
running and facility water gone. With the coolant's own pumps stopped, cold plates run dry of flow and GPUs trip within seconds
(ERR-19); no buffer counts then. A store of facility water carries coils and distribution units first, drawn at the flow of both,
while fans and pumps run on the UPS.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from capacity.cooling import coolant
from capacity.cooling.air import Air, trip_c
from capacity.power.operation.standby import carried_after_s
from capacity.worst import ROUNDING
from inventory.catalog import U_M
from inventory.findings import Finding, RemedyOf, Severity, finding, remedy
from inventory.site import Site
from inventory.site.sections.cooling import RideThrough

STEEL_KJ_KGK = 0.49
"""Heat capacity of carbon steel, kJ/kgK (Engineering ToolBox, specific heat of metals)."""

MOST_STORAGE_M3 = 10_000
"""What the site file takes."""


@dataclass(frozen=True)
class Warming:
    """How a body of air or coolant warms: heat in kW, capacity in kJ/K, from `start_c` to `trip_c`."""

    heat_kw: float
    capacity_kj_k: float
    start_c: float
    trip_c: float

    @property
    def minutes(self) -> float:
        """Minutes to the trip temperature; infinite without heat, none where nothing buffers it."""
        if self.heat_kw <= 0:
            return float("inf")
        return (self.trip_c - self.start_c) * self.capacity_kj_k / self.heat_kw / 60


@dataclass(frozen=True)
class Body:
    """What buffers a zone (`kind` air) or a loop (`kind` liquid): minutes with the lesser and with the greater capacity, and
    in words what the lesser one is.
    """

    zone: str
    kind: str
    low_min: float
    high_min: float
    said: str

    def minutes(self, on_ups: bool) -> tuple[float, float]:
        """Without a store. A loop whose pumps stand still lasts no time: cold plates run dry (ERR-19)."""
        return (self.low_min, self.high_min) if on_ups or self.kind == "air" else (0.0, 0.0)


@dataclass(frozen=True)
class Store:
    """Facility water in store (m3), drawn at the flow of coils and distribution units together (L/s)."""

    volume_m3: float
    flow_l_s: float

    @property
    def minutes(self) -> float:
        return self.volume_m3 * 1000 / self.flow_l_s / 60 if self.flow_l_s > 0 else 0.0

    def volume_for_m3(self, minutes: float) -> float | None:
        """Volume that lasts `minutes`; None where no plant says what flows."""
        return minutes * 60 * self.flow_l_s / 1000 if self.flow_l_s > 0 else None


@dataclass(frozen=True)
class Hall:
    """The hall around the racks: `racks` with row, mass_kg and m3 of each, their depth in m."""

    site: Site
    air: Air
    racks: pd.DataFrame
    depth_m: float

    def volumes_m3(self, first: int, last: int, height_m: float) -> tuple[float, float]:
        """Air of these rows in m3: on the cold side of the racks, and all of it; racks are deducted from both.

        Each row has half of a cold and half of a hot aisle. A closed cold aisle ends at the top of the racks, a closed hot one
        at the ceiling; in open aisles the air is one.
        """
        room, given = self.site.room, self.site.cooling.air
        rows, length = last - first + 1, room.racks_per_row * room.rack_pitch_m
        inside = self.racks["row"].between(first, last)
        whole = max(rows * length * room.row_pitch_m * height_m - float(self.racks.loc[inside, "m3"].sum()), 0.0)
        aisle = rows * length * max(room.row_pitch_m - self.depth_m, 0.0) / 2
        closed = given.containment if given is not None else "none"
        if closed == "cold":
            return aisle * self.site.rack.height_u * U_M, whole
        return max(whole - (aisle * height_m if closed == "hot" else 0.0), 0.0), whole


def air_bodies(hall: Hall, given: RideThrough, rooms: pd.DataFrame) -> list[Body]:
    """The air of each zone, and what follows its temperature."""
    found, air, most_c = [], hall.air, trip_c(hall.site, given)
    closed = hall.site.cooling.air.containment if hall.site.cooling.air is not None else "none"
    said = (
        "air of the zone less its racks" if closed == "none" else f"air outside the closed {closed} aisles, less racks"
    )
    if closed == "cold":
        said = "air in the closed cold aisles"
    for zone, first, last, heat_kw in rooms[["zone", "first_row", "last_row", "air_kw"]].itertuples(
        index=False, name=None
    ):
        cold_m3, whole_m3 = hall.volumes_m3(first, last, given.room_height_m)
        mass = float(hall.racks.loc[hall.racks["row"].between(first, last), "mass_kg"].sum())
        light = air_capacity_kj_k(cold_m3, air)
        heavy = air_capacity_kj_k(whole_m3, air) + metal_capacity_kj_k(mass, given.metal_share)
        low, high = (Warming(heat_kw, kj_k, air.supply_c, most_c).minutes for kj_k in (light, heavy))
        found.append(Body(zone, "air", low, high, said))
    return found


def loop_bodies(site: Site, given: RideThrough, loops: pd.DataFrame) -> list[Body]:
    """The coolant of each loop; its volume goes by the racks on it."""
    loop = site.cooling.coolant.loop if site.cooling.coolant is not None else None
    if loop is None or given.coolant_trip_c is None or loops.empty:
        return []
    found, most = [], int(loops["racks"].max())
    for zone, racks, heat_kw in loops[["zone", "racks", "liquid_kw"]].itertuples(index=False, name=None):
        kj_k = coolant_capacity_kj_k(loop.volume_l * racks / most, site.cooling.supply_c)
        minutes = Warming(heat_kw, kj_k, site.cooling.supply_c, given.coolant_trip_c).minutes
        found.append(Body(zone, "liquid", minutes, minutes, "volume x rho x cp"))
    return found


def air_capacity_kj_k(volume_m3: float, air: Air) -> float:
    """Heat capacity of the air of a hall, kJ/K."""
    return volume_m3 * air.density * air.cp / 1000


def metal_capacity_kj_k(mass_kg: float, share: float) -> float:
    """Heat capacity of the racks' metal that follows the air, kJ/K."""
    return mass_kg * share * STEEL_KJ_KGK


def coolant_capacity_kj_k(volume_l: float, mean_c: float) -> float:
    """Heat capacity of the coolant loop, kJ/K."""
    return volume_l / 1000 * coolant.density_kg_m3(mean_c) * coolant.heat_capacity_j_kgk(mean_c) / 1000


def outage_min(site: Site) -> tuple[float, str]:
    """Minutes without cooling after a loss of the utility, and why so many: until the generators carry the load and cooling
    has restarted; without generators until the load is drained.
    """
    given = site.cooling.ride_through
    restart_s = given.restart_s if given is not None else 0.0
    carried_s, _, _ = carried_after_s(site)
    if site.generator.present and site.generator.start_s is not None:
        return (carried_s + restart_s) / 60, "generators start and take over, then cooling restarts"
    return carried_s / 60, "without generators, until a checkpoint is written and the load is drained"


def outage_source(site: Site) -> str:
    """The keys of the site file that `outage_min` comes from."""
    _, _, source = carried_after_s(site)
    restarts = site.generator.present and site.generator.start_s is not None
    return f"{source} + cooling.ride_through.restart_s" if restarts else source


def check_coolant_trip(site: Site) -> list[Finding]:
    """COOLING-COOLANT-TRIP when the temperature that ride-through counts the coolant to lies above what the servers allow."""
    given, ride = site.cooling.coolant, site.cooling.ride_through
    if (
        given is None
        or ride is None
        or ride.coolant_trip_c is None
        or ride.coolant_trip_c <= given.server_max_c + ROUNDING
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
                remedy(lower_trip, fix="colder-supply" if high <= site.cooling.supply_c + ROUNDING else ""),
                remedy({"cooling.coolant.server_max_c": ride.coolant_trip_c}, fix="vendor-limit"),
            ],
            words={"over_k": ride.coolant_trip_c - high},
            coolant_trip_c=ride.coolant_trip_c,
        )
    ]


def check_ride_through(site: Site, bodies: Sequence[Body], store: Store, out_min: float) -> list[Finding]:
    """COOLING-RIDE-THROUGH: a warning when even air and metal are too hot before cooling is back, information when
    the cold-side air alone is.

    With a UPS that carries cooling too, fans and pumps go on and only the chillers are away; stored water comes first. Without,
    a loop lasts no time at all: its pumps stop (ERR-19).
    """
    on_ups = site.ups.scope == "it_and_cooling"
    kept = store.minutes if on_ups else 0.0
    judged = [(body, kept + body.minutes(on_ups)[0], kept + body.minutes(on_ups)[1]) for body in bodies]
    short = [one for one in judged if one[1] < out_min - ROUNDING]
    if not short:
        return []
    worst, low, high = min(short, key=lambda one: (one[2], one[1]))
    severity: Severity = "warning" if high < out_min - ROUNDING else "info"
    if severity == "warning":
        too_hot = [body for body, _, most in short if most < out_min - ROUNDING]
        remedies = _longer_ride_through(site, bodies, too_hot, store, out_min, high)
    else:
        larger = _larger_store(bodies, store, out_min) if on_ups else {}
        remedies = [remedy(fix="failover-test"), *([remedy(larger, fix="at-least")] if larger else [])]
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
            limit_source=outage_source(site),
            err="ERR-18",
            remedies=remedies,
            low_min=round(low, 3),
            high_min=round(high, 3),
            outage_min=round(out_min, 3),
        )
    ]


def _larger_store(bodies: Sequence[Body], store: Store, out_min: float) -> dict[str, float]:
    """The site value with which water and the cold side's air last for the outage everywhere; {} where no store is so large."""
    volume = store.volume_for_m3(max(out_min - min(body.low_min for body in bodies), 0.0))
    if volume is None or math.ceil(volume * 10) / 10 > MOST_STORAGE_M3:
        return {}
    return {"cooling.ride_through.storage_m3": math.ceil(volume * 10) / 10}


def _longer_ride_through(
    site: Site,
    bodies: Sequence[Body],
    short: Sequence[Body],
    store: Store,
    out_min: float,
    high: float,
) -> list[RemedyOf]:
    """What brings every zone and loop over the outage, each with its number: fans and pumps on the UPS and a store, more
    coolant where only loops are short, cooling that is back sooner.
    """
    on_ups, ways = site.ups.scope == "it_and_cooling", list[RemedyOf]()
    scope = {} if on_ups else {"ups.scope": "it_and_cooling"}
    least, tank = min(body.low_min for body in bodies), _larger_store(bodies, store, out_min)
    already = least + (store.minutes if store.volume_m3 > 0 else 0.0) >= out_min
    if scope and already:
        ways.append(remedy(scope))
    elif tank:
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
        left_s = math.floor(high * 60 - (out_min * 60 - given.restart_s) + ROUNDING)
        if left_s >= 1:
            ways.append(remedy({"cooling.ride_through.restart_s": left_s}, fix="at-most"))
    elif site.electrical is not None and high * 60 >= 1:
        ways.append(remedy({"electrical.drain_s": math.floor(high * 60)}, fix="at-most"))
    return ways or [remedy(fix="no-break")]
