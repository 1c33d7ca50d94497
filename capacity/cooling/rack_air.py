"""Air of the densest rack: what its tiles or its aisle give it, against what its servers draw.

Findings: COOLING-RAISED-FLOOR (ERR-46), COOLING-RACK-AIR.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from capacity.cooling.air import Air, airflow_m3_s, cfm
from capacity.worst import ROUNDING
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site

Trial = Callable[[Site], tuple[float, Mapping[str, Any]]]
"""Air heat in kW of the densest rack when a changed site is placed anew, infinite where its racks do not fit; and the values that
have to change besides for the racks' management ports.
"""


MOST_TRIALS = 8
"""Numbers of servers a rack that are tried: bounds the time of a plan with the finding."""


def check_tiles(site: Site, per_rack: pd.DataFrame, air: Air) -> list[Finding]:
    """COOLING-RAISED-FLOOR (ERR-46) when the tiles before a rack give it less air than its servers draw."""
    given = site.cooling.air
    if given is None or given.tile is None or per_rack.empty:
        return []
    worst = int(per_rack["air_kw"].to_numpy().argmax())
    heat_kw = float(per_rack["air_kw"].iloc[worst])
    need = airflow_m3_s(heat_kw, given.rise_k, air)
    have = given.tile.airflow_m3_s * given.tile.per_rack
    if need <= have + ROUNDING:
        return []
    possible = heat_kw * have / need
    count = math.ceil(need / given.tile.airflow_m3_s)
    over = sum(airflow_m3_s(float(kw), given.rise_k, air) > have + ROUNDING for kw in per_rack["air_kw"])
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


def check_rack_air(
    site: Site, per_rack: pd.DataFrame, rooms: pd.DataFrame, air: Air, judged: bool, trial: Trial | None = None
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
        if need <= have + ROUNDING:
            return []
        possible = heat_kw * have / need
        over = int((per_rack["air_kw"] > possible + ROUNDING).sum())
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
                    *thinner_racks(site, possible, trial),
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
    short = given.containment == "none" and need > share + ROUNDING
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


def thinner_racks(site: Site, possible_kw: float, trial: Trial | None) -> list[RemedyOf]:
    """Fewer servers a rack, a lower power limit of the racks, or both: the change with which every rack has air enough. The
    limit alone does where the densest rack holds switches or storage; with fewer servers alone, switches may fill the room
    that they leave.
    """
    if trial is None:
        return []
    limit_kw = math.floor(possible_kw * 10 + ROUNDING) / 10
    limits = {
        f"rack.{key}power_limit_kw": limit_kw
        for key, rack in (("", site.rack), ("network.", site.rack.network), ("storage.", site.rack.storage))
        if rack is not None and rack.power_limit_kw > limit_kw >= 1
    }
    fewer = [] if site.server.system else list(range(site.rack.servers - 1, 0, -1))[:MOST_TRIALS]
    candidates: list[dict[str, Any]] = [
        *([limits] if limits else []),
        *({"rack.servers": servers} for servers in fewer),
        *({"rack.servers": servers, **limits} for servers in fewer if limits),
    ]
    for settings in candidates:
        densest_kw, beside = trial(_with_racks(site, settings))
        if densest_kw <= possible_kw + ROUNDING:
            return [remedy({**settings, **beside})]
    return []


def _with_racks(site: Site, settings: dict[str, Any]) -> Site:
    """The site with these keys of section rack changed."""
    rack, own = site.rack, {}
    for key, value in settings.items():
        *within, name = key.removeprefix("rack.").split(".")
        if within:
            own[within[0]] = getattr(rack, within[0]).model_copy(update={name: value})
        else:
            own[name] = value
    return site.model_copy(update={"rack": rack.model_copy(update=own)})
