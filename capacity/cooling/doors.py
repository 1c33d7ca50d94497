"""Rear doors: what each moves, and what is left to the hall when one is out.

Findings: COOLING-DOOR, COOLING-DOOR-OUT (ERR-45).
"""

import pandas as pd

from capacity.cooling import rack_air, units
from capacity.worst import ROUNDING
from inventory.findings import Finding, finding, remedy
from inventory.site import Site


def check_doors(
    site: Site, per_rack: pd.DataFrame, one: units.Capacity | None, trial: rack_air.Trial | None
) -> list[Finding]:
    """COOLING-DOOR when a rack gives its rear door more heat than it moves; `trial` as in `rack_air.thinner_racks`."""
    given = site.cooling.air
    if given is None or one is None or given.kind != "rear_door":
        return []
    worst = int(per_rack["air_kw"].to_numpy().argmax())
    heat_kw = float(per_rack["air_kw"].iloc[worst])
    if heat_kw <= one.kw + ROUNDING:
        return []
    return [
        finding(
            "COOLING-DOOR",
            str(per_rack["rack"].iloc[worst]),
            limit=round(one.kw, 3),
            limit_source="site cooling.air",
            remedies=[
                remedy(fix="larger-door"),
                *(rack_air.thinner_racks(site, one.kw, trial) or [remedy(fix="less-heat", excess_kw=heat_kw - one.kw)]),
            ],
            air_kw=round(heat_kw, 3),
        )
    ]


def check_door_out(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """COOLING-DOOR-OUT (ERR-45): a rear door has no spare by rack. With the one of the densest rack out its heat is left to the
    hall, for information where the other doors of the zone have as much to spare, else a warning.
    """
    given = site.cooling.air
    if given is None or given.kind != "rear_door" or not (frame["installed"] > 0).any():
        return []
    spilt, surplus = frame["largest_rack_kw"], door_surplus_kw(frame)
    worst = int((surplus - spilt).to_numpy().argmin())
    zone, heat_kw, left_kw = str(frame["zone"].iloc[worst]), float(spilt.iloc[worst]), float(surplus.iloc[worst])
    takes = left_kw >= heat_kw - ROUNDING
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
