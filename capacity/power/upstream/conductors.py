"""Conductors against the breakers before them: ampacity of the rack circuits' conductor and of the panels' feeder (S082).

A breaker protects a conductor that carries at least its rating: NEC 240.4, IEC 60364-4-43 clause 433.1 (Ib <= In <= Iz).
NEC 240.4(B) lets the next standard rating (240.6(A)) above an ampacity stand, up to 800 A, if the conductor carries the load.

Findings: POWER-CONDUCTOR; for information where no ampacity is stated.
"""

from dataclasses import dataclass

import pandas as pd

from capacity.power.rack.circuits import Code, line_current_a, next_rating_a, rating_below_a
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Conductor, Electrical

NEC_NEXT_UP_TO_A = 800
"""NEC 240.4(B): above it a conductor carries the whole rating (240.4(C))."""


@dataclass(frozen=True)
class Protected:
    """A conductor, its key in the site file, the breaker before it in A, and the largest line current in A."""

    key: str
    conductor: Conductor
    breaker_key: str
    breaker_a: float
    load_a: float


def carries(code: Code, ampacity_a: float, breaker_a: float, load_a: float) -> bool:
    """Whether a conductor may stand behind a breaker of `breaker_a`."""
    if ampacity_a >= breaker_a:
        return True
    allowed = code == "nec" and breaker_a <= NEC_NEXT_UP_TO_A and breaker_a == next_rating_a(code, ampacity_a)
    return allowed and load_a <= ampacity_a


def protected(site: Site, electrical: Electrical, circuits: pd.DataFrame, elements: pd.DataFrame) -> list[Protected]:
    """The conductors of a site, one entry for each breaker rating before them."""
    panels = elements[elements["kind"] == "panel"]
    feeder_a = max(
        (
            line_current_a(kw, volts, site.power.power_factor)
            for kw, volts in zip(panels["worst_kw"], panels["voltage_v"], strict=True)
        ),
        default=0.0,
    )
    branches = [
        Protected(
            "electrical.rack_conductor",
            electrical.rack_conductor,
            f"power.{key}.breaker_a",
            float(part["breaker_a"].iloc[0]),
            float(part["worst_phase_a"].max()),
        )
        for key, part in circuits.groupby("circuit_of", sort=False)
    ]
    feeder = Protected(
        "electrical.panels.feeder",
        electrical.panels.feeder,
        "electrical.panels.rating_a",
        electrical.panels.rating_a,
        feeder_a,
    )
    return [*branches, feeder]


def check(site: Site, electrical: Electrical, circuits: pd.DataFrame, elements: pd.DataFrame) -> list[Finding]:
    """All findings of this module."""
    found: list[Finding] = []
    for one in protected(site, electrical, circuits, elements):
        size, ampacity = one.conductor.size, one.conductor.ampacity_a
        if ampacity is None:
            found.append(_unstated(one))
        elif not carries(site.power.code, ampacity, one.breaker_a, one.load_a):
            found.append(
                finding(
                    "POWER-CONDUCTOR",
                    one.key,
                    case="too-thin",
                    severity="error",
                    limit=one.breaker_a,
                    limit_source="NEC 240.4" if site.power.code == "nec" else "IEC 60364-4-43, 433.1",
                    err="ERR-04",
                    ampacity_a=ampacity,
                    load_a=round(one.load_a, 2),
                    words={"size": size, "breaker_key": one.breaker_key},
                    remedies=[
                        remedy({f"{one.key}.ampacity_a": one.breaker_a}, fix="thicker"),
                        *_smaller(site, one, ampacity),
                    ],
                )
            )
    return list(dict.fromkeys(found))


def _smaller(site: Site, one: Protected, ampacity_a: float) -> list[RemedyOf]:
    """The breaker that the conductor has enough for, where that still carries the load."""
    fitting = rating_below_a(site.power.code, ampacity_a)
    if not fitting or fitting * site.power.derating < one.load_a:
        return []
    return [remedy({one.breaker_key: fitting}, fix="smaller-breaker")]


def _unstated(one: Protected) -> Finding:
    return finding(
        "POWER-CONDUCTOR",
        one.key,
        case="no-ampacity",
        severity="info",
        limit_source=f"site {one.key}",
        breaker_a=one.breaker_a,
        words={"size": one.conductor.size},
        remedies=[remedy(fix="state-ampacity")],
    )
