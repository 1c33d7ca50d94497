"""Moist air: density, heat capacity, dew point and wet bulb at the altitude of the site; the airflow that carries heat.

Properties from PsychroLib (ASHRAE Handbook of Fundamentals 2017, chapter 1), pressure from its standard atmosphere.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd

from capacity.power import altitude
from capacity.worst import ROUNDING
from inventory.catalog import Catalog
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.explain import is_confirmed
from inventory.site.sections.cooling import AirUnits, RideThrough

DEFAULT_RISE_K = 15.0
"""Rise of the air through servers where the site does not say (RC-098)."""

CFM_PER_M3_S = 2118.88
"""1 m3/s = 2,118.88 cubic feet per minute."""

RECOMMENDED_C = {"A1": (18.0, 27.0), "A2": (18.0, 27.0), "A3": (18.0, 27.0), "A4": (18.0, 27.0), "H1": (18.0, 22.0)}

OPEN_AISLE_KW = 6.0
OPEN_AISLE_SOURCE = "5 to 6 kW a rack without containment: Data Center Frontier, special report of 2022-07-14, table 2"
"""Densest rack that open aisles serve at the inlet temperatures of the class
(https://datacenterfrontier.com/special-reports/article/11427230/voices-of-the-industry); more is possible where a computation
of the aisles or a test shows it."""

RACK_AIRFLOW = ("cooling", "air", "rack_air", "airflow_m3_s")
"""What an aisle gives a rack: a judgement of this site where its file states or confirms it."""

RECOMMENDED_DEWPOINT_C = (-9.0, 15.0)
"""Band of dew points at the inlet, C (ASHRAE TC 9.9, 5th edition)."""

RECOMMENDED_HUMIDITY = 0.7
"""Highest relative humidity at the inlet (ASHRAE TC 9.9, 5th edition); 0.5 where reactivity coupons show that the air corrodes
copper or silver.
"""


def air_supply_c(site: Site) -> float | None:
    """Supply temperature of the hall's air in C; None where the site gives only the coolant's."""
    given = site.cooling.air
    if given is not None and given.supply_c is not None:
        return given.supply_c
    return site.cooling.supply_c if site.cooling.kind == "air" else None


def library() -> Any:
    """PsychroLib in SI units: its unit system is a global that has to be set before every first use."""
    import psychrolib  # late: only what judges air pays for it

    psychrolib.SetUnitSystem(psychrolib.SI)
    return psychrolib


@dataclass(frozen=True)
class Air:
    """Supply air: temperature in C, dew point in C, altitude in m; `density` in kg of dry air per m3, `cp` in J per kg of
    dry air and K.
    """

    supply_c: float
    dewpoint_c: float
    altitude_m: float
    density: float
    cp: float


@lru_cache(maxsize=256)
def supply_air(supply_c: float, dewpoint_c: float, altitude_m: float) -> Air:
    """Air of this temperature and dew point. A dew point above the temperature counts as saturation."""
    lib = library()
    pressure = lib.GetStandardAtmPressure(altitude_m)
    ratio = lib.GetHumRatioFromTDewPoint(min(dewpoint_c, supply_c), pressure)
    density = 1 / lib.GetMoistAirVolume(supply_c, ratio, pressure)
    cp = lib.GetMoistAirEnthalpy(supply_c + 1, ratio) - lib.GetMoistAirEnthalpy(supply_c, ratio)
    return Air(supply_c, dewpoint_c, altitude_m, density, cp)


def airflow_m3_s(heat_kw: float, rise_k: float, air: Air) -> float:
    """Cubic metres per second of `air`, measured at its supply temperature, that carry `heat_kw` with a rise of `rise_k`."""
    return heat_kw * 1000 / (air.density * air.cp * rise_k)


def cfm(airflow: float) -> float:
    """Cubic feet per minute of cubic metres per second."""
    return airflow * CFM_PER_M3_S


def relative_humidity(air: Air) -> float:
    """Relative humidity of the supply air, 0..1. A dew point above the temperature counts as saturation."""
    return float(library().GetRelHumFromTDewPoint(air.supply_c, min(air.dewpoint_c, air.supply_c)))


def dew_point_c(dry_c: float, relative: float) -> float:
    """Dew point in C of air at `dry_c` with relative humidity `relative` (0..1)."""
    return float(library().GetTDewPointFromRelHum(dry_c, relative))


def wet_bulb_c(dry_c: float, relative: float, pressure_pa: float) -> float:
    """Wet bulb in C of air at `dry_c` with relative humidity `relative` (0..1) and `pressure_pa`."""
    return float(library().GetTWetBulbFromRelHum(dry_c, relative, pressure_pa))


def hall_air(site: Site) -> Air:
    """The hall's supply air; where a liquid-cooled site names no supply, the upper end of what its class recommends."""
    supply_c = air_supply_c(site)
    if supply_c is None:
        supply_c = RECOMMENDED_C[site.cooling.class_][1]
    return supply_air(supply_c, site.cooling.dewpoint_c, site.room.altitude_m)


def trip_c(site: Site, given: RideThrough) -> float:
    """Air at the servers' inlet that ride-through counts to, Celsius; where it is the catalogue's limit and not the site's figure,
    less what the altitude takes from it, and above the supply.
    """
    origin, supply_c = site.effective.origin(("cooling", "ride_through", "trip_c")), air_supply_c(site)
    less_k = altitude.inlet_less_k(site) if origin is not None and origin.kind == "catalogue" else 0.0
    return max(given.trip_c - less_k, supply_c + 0.1) if less_k and supply_c is not None else given.trip_c


def rise_and_leakage(given: AirUnits | None) -> tuple[float, float]:
    """Rise of the air through servers in K and the share that leaks past them in percent; without units RC-098, no leak."""
    return (given.rise_k, given.leakage_pct) if given else (DEFAULT_RISE_K, 0.0)


def check_supply_air(site: Site) -> list[Finding]:
    """COOLING-SUPPLY (ERR-26) when the supply air lies outside the band that its class recommends."""
    low, high = RECOMMENDED_C[site.cooling.class_]
    supply = air_supply_c(site)
    if supply is None or low <= supply <= high:
        return []
    given = site.cooling.air
    key = "cooling.air.supply_c" if given is not None and given.supply_c is not None else "cooling.supply_c"
    bound = high if supply > high else low
    return [
        finding(
            "COOLING-SUPPLY",
            key,
            limit=bound,
            limit_source="ASHRAE TC 9.9, 5th edition",
            err="ERR-26",
            remedies=[remedy({key: bound})],
            words={"climate_class": site.cooling.class_},
            supply_c=supply,
            low_c=low,
            high_c=high,
        )
    ]


def check_inlets(site: Site, catalog: Catalog, devices: pd.DataFrame, supply_c: float) -> list[Finding]:
    """COOLING-INLET (S104) when the supply lies outside what a vendor permits at the inlet. COOLING-INLET-TRIP when the
    temperature that ride-through counts to lies above it and the supply does not.
    """
    own = site.cooling.air is not None and site.cooling.air.supply_c is not None
    key = "cooling.air.supply_c" if own else "cooling.supply_c"
    ride, found, permitted = site.cooling.ride_through, [], []
    trips_at_c = trip_c(site, ride) if ride is not None else -math.inf
    for slug, count in devices.groupby("model").size().items():
        device = catalog.device(str(slug))
        span = device.bringup.inlet_c
        if span is None:
            continue
        most_c = span.max - altitude.inlet_less_k(site)
        said = f"catalogue {slug}: {device.sources.get('bringup.inlet_c', 'bringup.inlet_c')}"
        if most_c < span.max:
            said += f"; {span.max - most_c:.1f} K less at {site.room.altitude_m:g} m ({altitude.tables()['inlet']['source']})"
        permitted.append((most_c, str(slug), said))
        if span.min <= supply_c <= most_c:
            continue
        warm = supply_c > most_c
        limit = math.floor(most_c * 10 + ROUNDING) / 10 if warm else span.min
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
                max_c=round(most_c, 3),
            )
        )
    lowest = min(permitted, default=None)
    if lowest is not None and trips_at_c > lowest[0] + ROUNDING and lowest[0] > supply_c:
        allowed_c, model, source = lowest
        found.append(
            finding(
                "COOLING-INLET-TRIP",
                "cooling.ride_through.trip_c",
                limit=allowed_c,
                limit_source=source,
                err="ERR-26",
                remedies=[
                    remedy({"cooling.ride_through.trip_c": allowed_c}),
                    remedy(fix="vendor-limit"),
                ],
                words={"model": model, "over_k": trips_at_c - allowed_c},
                trip_c=trips_at_c,
            )
        )
    return found


def check_room_air(site: Site, air: Air, per_rack: pd.DataFrame) -> list[Finding]:
    """COOLING-DEWPOINT and COOLING-HUMIDITY outside what is recommended at the inlet (ERR-26), COOLING-OPEN-AISLES."""
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
    if share > RECOMMENDED_HUMIDITY + ROUNDING:
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
    return [*found, *_check_open_aisles(site, per_rack)]


def _check_open_aisles(site: Site, per_rack: pd.DataFrame) -> list[Finding]:
    """COOLING-OPEN-AISLES: an error where a rack is denser than open aisles serve and nobody has judged what an aisle gives it
    (cooling.air.rack_air); else information. Rear doors take the heat before it reaches the aisle. What a reference design
    says of its own aisles judges nothing here until the site states or confirms it.
    """
    given = site.cooling.air
    if given is None or given.containment != "none":
        return []
    judgement = given.rack_air if is_confirmed(site, RACK_AIRFLOW) else None
    heat_kw = float(per_rack["air_kw"].max()) if len(per_rack) else 0.0
    dense = heat_kw > OPEN_AISLE_KW + ROUNDING and judgement is None and given.kind != "rear_door"
    return [
        finding(
            "COOLING-OPEN-AISLES",
            "cooling.air.containment",
            case="dense" if dense else "judged" if judgement is not None else "sparse",
            severity="error" if dense else "info",
            limit=OPEN_AISLE_KW,
            limit_source=OPEN_AISLE_SOURCE,
            leakage_pct=given.leakage_pct,
            air_kw=round(heat_kw, 3),
            racks=float((per_rack["air_kw"] > OPEN_AISLE_KW + ROUNDING).sum()),
            words={"judgement": judgement.source if judgement is not None else ""},
            remedies=[remedy({"cooling.air.containment": "hot"}), remedy(fix="judgement")] if dense else [],
        )
    ]
