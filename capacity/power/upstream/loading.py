"""The load of each element above the circuits against its rating: in kW, and line by line.

In: the frame `elements`. Out: findings POWER-ELEMENT, POWER-UPS-REDUNDANCY (ERR-45) and POWER-PHASE-LOAD (ERR-04; a room:
ERR-45). Circuits are judged in capacity.power.rack.breakers.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from capacity.least import Tried
from capacity.power import altitude, rooms
from capacity.power.rack.circuits import RATINGS_A, Code
from capacity.power.upstream import existing_plant
from capacity.worst import ROUNDING, top_row
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical

MAINS = ("panel", "pdu_transformer")
"""Kinds whose lines are those of the rack circuits behind them."""


RATINGS = {
    "transformer": "electrical.transformers.kva",
    "intake": "electrical.medium_voltage.rating_a",
    "switchboard": "electrical.switchboards.rating_a",
    "panel": "electrical.panels.rating_a",
}
"""Kinds whose rating one site key states, in the unit of the frame `elements`."""
KVA: Mapping[Code, tuple[float, ...]] = {
    "nec": (75, 112.5, 150, 225, 300, 500, 750, 1000, 1500, 2000, 2500, 3750, 5000, 7500, 10_000),
    "iec": (100, 125, 160, 200, 250, 315, 400, 500, 630, 800, 1000, 1250, 1600, 2000, 2500, 3150, 4000, 5000, 6300),
}
"""Ratings that three-phase transformers come in: IEEE C57.12.00, preferred continuous kVA ratings; IEC 60076-1, series R10."""
MOST_RATINGS = 3
"""Ratings that are tried. Beside larger elements fewer stand, so that the next rating may not be enough either."""


def _larger(tried: Tried | None, code: Code, key: str, worst: Mapping[str, Any], needed: float) -> list[RemedyOf]:
    """The smallest rating in which the element comes with which the finding is gone, and what has to change besides; without
    `tried` the next rating.
    """
    rating = RATINGS.get(str(worst["kind"]))
    if rating is None:
        return []
    offered = KVA[code] if worst["unit"] == "kVA" else RATINGS_A[code]
    for value in [one for one in offered if one >= needed - ROUNDING][:MOST_RATINGS]:
        made = tried.least({rating: value}, key, str(worst["name"])) if tried else {rating: value}
        if made is not None:
            return [remedy(made)]
    return []


def check_elements(
    elements: pd.DataFrame, ways: Mapping[str, existing_plant.Way], code: Code, tried: Tried | None = None
) -> list[Finding]:
    """Each element above the circuits carries its worst load; else the least change is named: by `ways` where the
    site counts the existing elements, else by its rating, which `tried` finds.

    Circuits are judged in capacity.power.rack.breakers.
    """
    found = []
    kinds = elements["kind"].to_numpy(dtype=object)
    worst_kw, limit_kw = (elements[name].to_numpy(dtype=np.float64) for name in ("worst_kw", "limit_kw"))
    too_much = (worst_kw > limit_kw + 1e-6) & (limit_kw > 0) & (kinds != "circuit")
    for kind in dict.fromkeys(kinds.tolist()) if too_much.any() else ():
        over = elements[too_much & (kinds == kind)]
        if over.empty:
            continue
        worst = top_row(over, over["worst_kw"] / over["limit_kw"])
        key, err = ("POWER-UPS-REDUNDANCY", "ERR-45") if kind == "ups" else ("POWER-ELEMENT", None)
        if way := ways.get(kind):
            found.append(_check_installed(key, err, worst, len(over), way))
            continue
        needed = worst["rating"] * worst["worst_kw"] / worst["limit_kw"]
        if kind == "ups":
            larger = [remedy(fix="enough-modules")]
        elif kind == "utility":
            larger = [remedy({"electrical.utility.firm_mva": rounded_up(needed, 2)}, fix="firm")]
        else:
            larger = _larger(tried, code, key, worst, needed) or [
                remedy(fix="sufficient-rating", needed=rating_text(needed, worst["unit"]))
            ]
        found.append(
            finding(
                key,
                str(worst["name"]),
                case="after-loss" if worst["worst_case"] else "in-order",
                limit=float(worst["limit_kw"]),
                limit_source=f"site electrical, rating of {worst['rating']:g} {worst['unit']}",
                err=err,
                worst_kw=round(float(worst["worst_kw"]), 3),
                count=len(over),
                words={"lost": worst["worst_case"]},
                remedies=[*larger, remedy(fix="less-load")],
            )
        )
    return found


def rating_text(value: float, unit: str) -> str:
    """A rating with its unit, rounded up, so that what is printed carries the load; MVA with two places, other units without
    any.
    """
    places = 2 if unit == "MVA" else 0
    return f"{rounded_up(value, places):,.{places}f} {unit}"


def rounded_up(value: float, places: int) -> float:
    """The smallest number of so many decimal places that is no less than `value`, but for what frames lose by rounding."""
    return math.ceil(value * 10**places - ROUNDING) / 10**places


def most_used(elements: pd.DataFrame, kind: str) -> float:
    """The worst load of the elements of a kind over its limit: the largest share; 0 where none has a limit."""
    alike = elements[(elements["kind"] == kind) & (elements["limit_kw"] > 0)]
    return float((alike["worst_kw"] / alike["limit_kw"]).max()) if len(alike) else 0.0


def check_mains(site: Site, electrical: Electrical, elements: pd.DataFrame, between_lines: bool) -> list[Finding]:
    """POWER-PHASE-LOAD of panels and PDU transformers whose whole load fits: a main breaker trips on one line, a winding heats
    alone. Fewer circuits to a panel are enough for sure when its fullest line fits with all of them at their worst on it.
    """
    found = []
    kinds = elements["kind"].to_numpy(dtype=object)
    circuits = elements[kinds == "circuit"]
    for kind in MAINS:
        alike = elements[kinds == kind]
        if alike.empty:
            continue
        worth = altitude.factor(site, "low_voltage" if kind == "panel" else "transformer")
        limit = line_limit_a(alike, site.power.derating) * worth
        over = alike.assign(limit_a=limit)[
            (alike["worst_phase_a"] > limit + 1e-6) & (alike["worst_kw"] <= alike["limit_kw"])
        ]
        if over.empty:
            continue
        worst = top_row(over, over["worst_phase_a"] / over["limit_a"])
        volts, legs = worst["voltage_v"] / math.sqrt(3), 2 if between_lines else 1
        less = legs * (worst["worst_phase_a"] - worst["limit_a"]) * volts * site.power.power_factor / 1000
        figures = {"less_kw": less, "line": worst["worst_phase"]}
        remedies = [remedy(fix="less-on-line", **figures), remedy(fix="moved-to-other-lines", **figures)]
        fitting = np.cumsum(np.sort(circuits["worst_phase_a"].to_numpy(dtype=np.float64))[::-1]) <= float(
            worst["limit_a"]
        )
        if kind == "panel" and (most := int(fitting[: electrical.panels.circuits].sum())):
            remedies.insert(0, remedy({"electrical.panels.circuits": most}))
        lost = rooms.name_of(site, str(worst["phase_case"]))
        found.append(
            finding(
                "POWER-PHASE-LOAD",
                str(worst["name"]),
                case="after-loss" if lost else "all-feeds",
                limit=float(worst["limit_a"]),
                limit_source=f"site electrical, rating of {worst['rating']:g} {worst['unit']}",
                err="ERR-45" if worst["phase_case"] in rooms.shared(site) else "ERR-04",
                amps=round(float(worst["worst_phase_a"]), 3),
                count=len(over),
                words={"line": worst["worst_phase"], "lost": lost},
                remedies=remedies,
            )
        )
    return found


def with_full_line(findings: Iterable[Finding], elements: pd.DataFrame) -> bool:
    """Whether a panel carries too much on a line alone."""
    panels = set(elements.loc[elements["kind"] == "panel", "name"])
    return any(one.id == "POWER-PHASE-LOAD" and one.subject in panels for one in findings)


def line_limit_a(alike: pd.DataFrame, derating: float) -> pd.Series:
    """What a line of panels, or of PDU transformers (kVA), carries continuously, A."""
    by_kva = alike["rating"] * 1000 / (math.sqrt(3) * alike["voltage_v"])
    return (alike["rating"] * derating).where(alike["unit"] == "A", by_kva)


def _check_installed(key: str, err: str | None, worst: dict[str, Any], over: int, way: existing_plant.Way) -> Finding:
    """POWER-ELEMENT or POWER-UPS-REDUNDANCY of equipment that stands there in a given number."""
    case = "installed-after-loss" if worst["worst_case"] else "installed"
    return finding(
        key,
        str(worst["name"]),
        case=case if way.more else f"{case}-more-do-not-help",
        limit=float(worst["limit_kw"]),
        limit_source=f"site electrical.{way.key}.installed, rating of {worst['rating']:g} {worst['unit']}",
        err=err,
        load_kw=round(float(worst["load_kw"]), 3),
        worst_kw=round(float(worst["worst_kw"]), 3),
        count=over,
        **dict[str, Any](way.numbers),
        words={"lost": worst["worst_case"], "key": f"electrical.{way.key}"},
        remedies=way.remedies,
    )
