"""Findings from the site file alone: overhead, cooling class and coolant, ride-through, support of the operating system.

Pure: no clock. What depends on a date is judged at the site's need date.

Sources: ASHRAE TC 9.9 thermal guidelines, 5th edition: recommended 18 to 27 C for classes A1 to A4 and 18 to 22 C for H1;
RC-112 for the coolant's margin over the dew point; ERR-18 for ride-through; ERR-21 for support.
"""

import datetime
import math

from capacity.power.operation.standby import autonomy
from inventory.findings import Finding
from inventory.site import Site

RECOMMENDED_C = {"A1": (18.0, 27.0), "A2": (18.0, 27.0), "A3": (18.0, 27.0), "A4": (18.0, 27.0), "H1": (18.0, 22.0)}
DEW_POINT_MARGIN_K = 2.0
_DAYS_PER_MONTH = 365.25 / 12


def check(site: Site) -> list[Finding]:
    """All findings of this module."""
    return [
        *check_overhead(site),
        *check_supply_air(site),
        *check_coolant(site),
        *check_ride_through(site),
        *check_os_support(site),
    ]


def check_overhead(site: Site) -> list[Finding]:
    """POWER-OVERHEAD (ERR-03) when the PUE lies outside the flat overhead that the site plans with."""
    low, high = site.power.overhead_pct
    used = "the plan uses the PUE"
    if site.electrical is not None and site.cooling.plant is not None:
        used = "the supply is planned with the plant's components, flat figures of the facility with the PUE"
    given = (site.power.pue - 1) * 100
    if low - 1e-9 <= given <= high + 1e-9:
        return []
    return [
        Finding(
            "POWER-OVERHEAD",
            "warning",
            "power.overhead_pct",
            f"a flat overhead of {low:g} to {high:g} % and a PUE of {site.power.pue:g}, which is {given:.4g} % on the IT load, "
            f"do not describe one building: {used}; widen overhead_pct or mend power.pue",
            {"low_pct": low, "high_pct": high, "pue_pct": round(given, 4)},
            high if given > high else low,
            "site power.pue",
            "ERR-03",
        )
    ]


def air_supply_c(site: Site) -> float | None:
    """Supply temperature of the hall's air in C; None where the site gives only the coolant's."""
    given = site.cooling.air
    if given is not None and given.supply_c is not None:
        return given.supply_c
    return site.cooling.supply_c if site.cooling.kind == "air" else None


def check_supply_air(site: Site) -> list[Finding]:
    """COOLING-SUPPLY (ERR-26) when the supply air lies outside the band that its class recommends."""
    low, high = RECOMMENDED_C[site.cooling.class_]
    supply = air_supply_c(site)
    if supply is None or low <= supply <= high:
        return []
    given = site.cooling.air
    key = "cooling.air.supply_c" if given is not None and given.supply_c is not None else "cooling.supply_c"
    return [
        Finding(
            "COOLING-SUPPLY",
            "warning",
            key,
            f"supply air of {supply:g} C lies outside {low:g} to {high:g} C, which class {site.cooling.class_} recommends: "
            f"{key} {high if supply > high else low:g}",
            {"supply_c": supply, "low_c": low, "high_c": high},
            high if supply > high else low,
            "ASHRAE TC 9.9, 5th edition",
            "ERR-26",
        )
    ]


def check_coolant(site: Site) -> list[Finding]:
    """COOLING-COOLANT (ERR-26) when the coolant's supply is too near the dew point or above what the servers allow."""
    cooling, coolant = site.cooling, site.cooling.coolant
    if coolant is None:
        return []
    low, high = cooling.dewpoint_c + DEW_POINT_MARGIN_K, coolant.server_max_c
    if low <= cooling.supply_c <= high:
        return []
    warm = cooling.supply_c > high
    mend = f"cooling.supply_c {high if warm else low:g}"
    if low > high:
        mend = f"cooling.dewpoint_c of at most {high - DEW_POINT_MARGIN_K:g} with cooling.supply_c {high:g}"
    return [
        Finding(
            "COOLING-COOLANT",
            "error",
            "cooling.supply_c",
            f"coolant of {cooling.supply_c:g} C is "
            + (
                f"warmer than the {high:g} C that the servers allow"
                if warm
                else f"less than {DEW_POINT_MARGIN_K:g} K above the dew point of {cooling.dewpoint_c:g} C, so that water condenses"
            )
            + f": {mend}",
            {"supply_c": cooling.supply_c, "low_c": low, "high_c": high},
            high if warm else low,
            "site cooling.coolant.server_max_c" if warm else "RC-112: dew point and 2 K",
            "ERR-26",
        )
    ]


def check_ride_through(site: Site) -> list[Finding]:
    """POWER-RIDE-THROUGH (ERR-18) when the batteries end before the generators carry, or before a checkpoint is written.

    POWER-NO-GENERATOR, for information, when there is none: somebody has to accept that risk.
    """
    battery = autonomy(site)
    autonomy_s, needed_s = battery.have_s, battery.need_s
    found = []
    if not battery.enough:
        found.append(
            Finding(
                "POWER-RIDE-THROUGH",
                "error",
                "ups.autonomy_min",
                f"the batteries last {autonomy_s:g} s and {battery.reason} after {needed_s:g} s: ups.autonomy_min of at least "
                f"{math.ceil(needed_s / 60 * 100) / 100:g}",
                {"autonomy_s": autonomy_s, "needed_s": needed_s},
                needed_s,
                battery.source,
                "ERR-18",
            )
        )
    if not site.generator.present:
        found.append(
            Finding(
                "POWER-NO-GENERATOR",
                "info",
                "generator.present",
                f"no generators: after {autonomy_s:g} s of batteries the cluster goes dark; the risk has to be accepted by name",
                {"autonomy_s": autonomy_s},
                None,
                "",
                "ERR-18",
            )
        )
    return found


def check_os_support(site: Site) -> list[Finding]:
    """OS-END-OF-SUPPORT (ERR-21) when support ends before, or too soon after, the date of go-live."""
    limit = site.limits.get("os_eol_min_months")
    left_days = (site.os.eol_date - site.schedule.need_date) / datetime.timedelta(days=1)
    months = left_days / _DAYS_PER_MONTH
    if limit is None or months >= limit.value:
        return []
    return [
        Finding(
            "OS-END-OF-SUPPORT",
            "warning",
            "os.eol_date",
            f"support of {site.os.name} {site.os.version} ends on {site.os.eol_date}, {months:.1f} months after go-live on "
            f"{site.schedule.need_date}; limit {limit.value:g} months",
            {"months": round(months, 1)},
            limit.value,
            "site limits.os_eol_min_months",
            "ERR-21",
        )
    ]
