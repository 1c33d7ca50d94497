"""Rack circuits judged in every state: their whole load, and the line that carries most.

In: the plan's `circuits` with their load after the loss of a feed, and where the supply above is planned raised to the largest
load and line current of any single failure. Out: findings POWER-CIRCUIT (ERR-04; ERR-45 where a room does it), POWER-PHASE-LOAD
(the same) for circuits whose whole load fits, POWER-PDU-LOAD, POWER-BREAKER-SIZE for a rating that does not exist, and
POWER-CIRCUIT-LIGHT for racks of switches or storage behind breakers far above their load. A way
out names a breaker only as far as the PDU or shelf behind it and the conductor go.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from capacity.least import Tried
from capacity.power.rack.circuits import RATINGS_SOURCE, next_rating_a, rating_below_a
from capacity.power.rooms import apart, name_of, shared
from capacity.worst import worst_of
from inventory.catalog import Catalog
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.power import MOST_PDUS_PER_FEED, RACK_USES

LIGHT = 2
"""Breakers of so many times the rating that is needed are named. Site choice of this program: half as large costs less for each
panel position and conductor, and one size smaller is not worth a second kind of breaker in the hall."""


@dataclass(frozen=True)
class Ways:
    """What a larger breaker has to go with: input rating of each model of PDU and power shelf, ampacity of the conductor (None: not
    stated), derating, PDUs a feed. Without `tried` the least count of rack PDUs is that of the load alone.
    """

    site: Site
    input_a: Mapping[str, float]
    tried: Tried | None = None

    def remedies(self, id_: str, row: pd.Series, needed_a: float, less: RemedyOf) -> list[RemedyOf]:
        """Remedies of finding `id_` for a circuit that needs a breaker of `needed_a`.

        The first is that breaker, or more rack PDUs if the PDU behind it does not take so much. The second is `less` load.
        """
        breaker_a = next_rating_a(self.site.power.code, needed_a)
        takes_a = self.input_a[str(row["model"])]
        if breaker_a <= takes_a:
            return [self._larger(str(row["circuit_of"]), breaker_a), less]
        beyond = {"pdu": row["pdu"], "takes_a": takes_a, "breaker_a": breaker_a}
        each = self.site.power.rack_pdu.per_feed
        least = max(math.ceil(each * needed_a / float(row["breaker_a"]) - 1e-9), each + 1)
        more = more_pdus(id_, least, self.tried) if row["kind"] != "shelf" else None
        if more is None:
            return [remedy(fix=f"{less.fix}-only", **{**less.words, **beyond})]
        return [remedy(more, fix="more-pdus", **beyond), less]

    def _larger(self, circuit: str, breaker_a: int) -> RemedyOf:
        """A breaker of `breaker_a`, and the conductor that goes with it."""
        electrical = self.site.electrical
        settings = {f"power.{circuit}.breaker_a": breaker_a}
        ampacity_a = electrical.rack_conductor.ampacity_a if electrical else None
        if ampacity_a is None:
            return remedy(settings, fix="breaker-and-conductor", breaker_a=breaker_a)
        if ampacity_a >= breaker_a:
            return remedy(settings, fix="breaker")
        settings["electrical.rack_conductor.ampacity_a"] = breaker_a
        return remedy(settings, fix="breaker-and-thicker-conductor", ampacity_a=ampacity_a)


def more_pdus(id_: str, least: int, tried: Tried | None) -> dict[str, Any] | None:
    """Site values with the fewest rack PDUs on each feed, at least `least`, that resolve finding `id_`.

    Each number is tried, because cords do not divide evenly over PDUs and lines. None if no number up to MOST_PDUS_PER_FEED
    resolves it without a new error.
    """
    for each in range(least, MOST_PDUS_PER_FEED + 1):
        values = {"power.rack_pdu.per_feed": each}
        made = values if tried is None else tried.least(values, id_)
        if made is not None:
            return made
    return None


def ways(site: Site, catalog: Catalog) -> Ways:
    """The ratings of the equipment behind the breakers of a site; a shelf takes what its connector does."""
    rated = {}
    for slug in {site.power.pdu_model(use) for use in RACK_USES}:
        facts = catalog.device(slug).bringup.pdu
        rated[slug] = facts.input_a if facts else math.inf
    part = catalog.system(site.server.system).part("shelf") if site.server.system else None
    if part is not None:
        plug = catalog.connector(catalog.device(part.model).inlet_type)
        rated[part.model] = plug.nec_a if site.power.code == "nec" else plug.iec_a
    return Ways(site, rated)


def check(
    site: Site,
    catalog: Catalog,
    circuits: pd.DataFrame,
    feed_lost_kw: pd.Series,
    model_of: Mapping[str, str],
    use_of: Mapping[str, str],
    between_lines: bool = False,
    feed_lost_a: pd.Series | None = None,
    tried: Tried | None = None,
) -> list[Finding]:
    """All findings of this module; `feed_lost_kw` and `feed_lost_a` are the largest load and line current of each circuit with
    no more than a feed lost, `model_of` and `use_of` the model at the end of a circuit and the use of its rack by the end's name,
    `between_lines` says that outlets lie
    between two lines, not between line and neutral. `tried` as in `Ways`.
    """
    feed_lost_a = circuits["worst_phase_a"] if feed_lost_a is None else feed_lost_a
    circuits = circuits.assign(feed_lost_kw=feed_lost_kw, feed_lost_a=feed_lost_a)
    circuits["apart"] = (circuits["feed_lost_kw"] <= circuits["usable_kw"] + 1e-6) & (
        circuits["feed_lost_a"] <= circuits["breaker_a"] * site.power.derating + 1e-6
    )
    known = replace(ways(site, catalog), tried=tried)
    usable = circuits["usable_kw"].to_numpy(dtype=np.float64)
    over = circuits["worst_kw"] > usable + 1e-6
    need_a = _needed_a(site, circuits)
    kinds = circuits["pdu"].str.split("-").str[0]
    models = circuits["pdu"].map(dict(model_of))
    circuits = circuits.assign(kind=kinds, model=models, need_a=need_a.groupby(circuits["circuit_of"]).transform("max"))
    return [
        *_check_load(site, circuits, known),
        *_check_lines(site, circuits[~over].reset_index(drop=True), known, between_lines),
        *_check_share(site, circuits, known),
        *_check_size(site),
        *_check_light(site, circuits.assign(use=circuits["pdu"].map(dict(use_of)))),
    ]


def _needed_a(site: Site, circuits: pd.DataFrame) -> pd.Series:
    """Rating that the breaker of each circuit needs for its whole load and its fullest line in the worst state, amperes.

    By its whole load alone where lines were not looked at (`budget.circuit_loads`): their column is missing then.
    """
    usable = np.maximum(circuits["usable_kw"].to_numpy(dtype=np.float64), 1e-9)
    by_kw = circuits["breaker_a"] * circuits["worst_kw"] / usable
    if "worst_phase_a" not in circuits:
        return by_kw
    return np.maximum(by_kw, circuits["worst_phase_a"] / site.power.derating)


def least_a(site: Site, circuits: pd.DataFrame) -> float:
    """Rating that the breakers of these circuits need, amperes: also for the share that the site allows (limits.pdu_load_pct)."""
    needed_a, share = float(_needed_a(site, circuits).max()), site.limits.get("pdu_load_pct")
    if share is None:
        return needed_a
    usable = np.maximum(circuits["usable_kw"].to_numpy(dtype=np.float64), 1e-9)
    loaded_a = float((circuits["breaker_a"] * circuits["load_kw"] / usable).max())
    return max(needed_a, loaded_a / (share.value / 100))


def _check_load(site: Site, circuits: pd.DataFrame, known: Ways) -> list[Finding]:
    """The whole load of each circuit in its worst state; a circuit is judged once, and the breaker named does for all."""
    found: list[Finding] = []
    judged = circuits.assign(together=circuits["worst_case"].isin(shared(site)))
    for (_, together), alike in judged.groupby(["usable_kw", "together"], sort=False):
        usable_kw = float(alike["usable_kw"].iloc[0])
        worst = worst_of(alike["worst_kw"], usable_kw)
        if worst is None:
            continue
        row = alike.iloc[worst.at]
        remedies = known.remedies("POWER-CIRCUIT", row, float(row["need_a"]), _less(worst.value - usable_kw, row))
        if together and alike["apart"].all():
            remedies = [apart(site, site.power.feeds), *remedies]
        lost = name_of(site, str(row["worst_case"]))
        found.append(
            finding(
                "POWER-CIRCUIT",
                str(row["circuit"]),
                case="after-loss" if lost else "all-feeds",
                limit=usable_kw,
                limit_source="site power, breaker x derating",
                err="ERR-45" if together else "ERR-04",
                kw=round(worst.value, 3),
                count=worst.count,
                words={"lost": lost},
                remedies=remedies,
            )
        )
    return found


def _check_lines(site: Site, circuits: pd.DataFrame, known: Ways, between_lines: bool) -> list[Finding]:
    """The line that carries most, of circuits whose whole load fits: a breaker trips on one line. A line of outlets between
    lines carries two legs, I = sqrt3 P_leg / (pf U) of each: an ampere less of it is 2 pf U / sqrt3 less on both together.
    """
    legs = 2 if between_lines else 1
    found: list[Finding] = []
    together_at = circuits["phase_case"].isin(shared(site))
    for (_, together), alike in circuits.groupby(["breaker_a", together_at], sort=False):
        limit_a = float(alike["breaker_a"].iloc[0]) * site.power.derating
        worst = worst_of(alike["worst_phase_a"], limit_a)
        if worst is None:
            continue
        row = alike.iloc[worst.at]
        line, lost = str(row["worst_phase"]), name_of(site, str(row["phase_case"]))
        volts = float(row["voltage_v"]) / math.sqrt(3)
        less_kw = legs * (worst.value - limit_a) * volts * site.power.power_factor / 1000
        less = remedy(fix="less-on-line", less_kw=less_kw, line=line)
        remedies = known.remedies("POWER-PHASE-LOAD", row, float(row["need_a"]), less)
        if together and alike["apart"].all():
            remedies = [apart(site, site.power.feeds), *remedies]
        found.append(
            finding(
                "POWER-PHASE-LOAD",
                str(row["circuit"]),
                case="after-loss" if lost else "all-feeds",
                limit=limit_a,
                limit_source="site power, breaker x derating",
                err="ERR-45" if together else "ERR-04",
                amps=round(worst.value, 3),
                count=worst.count,
                words={"line": line, "lost": lost},
                remedies=remedies,
            )
        )
    return found


def _check_share(site: Site, circuits: pd.DataFrame, known: Ways) -> list[Finding]:
    """POWER-PDU-LOAD: the normal load stays under the site's share of what a circuit may carry."""
    share = site.limits.get("pdu_load_pct")
    if share is None:
        return []
    worst = worst_of(circuits["load_kw"] / circuits["usable_kw"] * 100, share.value)
    if worst is None:
        return []
    row = circuits.iloc[worst.at]
    allowed_kw = float(row["usable_kw"]) * (share.value / 100)
    less = _less(float(row["load_kw"]) - allowed_kw, row)
    by_share_a = float(row["breaker_a"]) * float(row["load_kw"]) / allowed_kw if allowed_kw > 0 else math.inf
    needed_a = max(by_share_a, float(row["need_a"]))  # a breaker for the share alone may trip on its fullest line
    return [
        finding(
            "POWER-PDU-LOAD",
            str(row["pdu"]),
            limit=share.value,
            limit_source="site limits.pdu_load_pct",
            load_pct=round(worst.value, 3),
            count=worst.count,
            remedies=known.remedies("POWER-PDU-LOAD", row, needed_a, less) if allowed_kw > 0 else [less],
        )
    ]


def _check_size(site: Site) -> list[Finding]:
    """POWER-BREAKER-SIZE: a rating that no breaker comes in cannot be bought."""
    power, found = site.power, []
    for key in ("rack_circuit", "shelf_circuit", "network_circuit", "storage_circuit"):
        circuit = getattr(power, key)
        if circuit is None or circuit.breaker_a == (larger := next_rating_a(power.code, circuit.breaker_a)):
            continue
        below = rating_below_a(power.code, circuit.breaker_a)
        setting = f"power.{key}.breaker_a"
        found.append(
            finding(
                "POWER-BREAKER-SIZE",
                setting,
                limit=float(larger),
                limit_source=RATINGS_SOURCE[power.code],
                breaker_a=circuit.breaker_a,
                remedies=[remedy({setting: larger}), *([remedy({setting: below})] if below else [])],
            )
        )
    return found


def _check_light(site: Site, circuits: pd.DataFrame) -> list[Finding]:
    """POWER-CIRCUIT-LIGHT: racks of switches or storage behind breakers of twice what their worst circuit needs, or more."""
    power, found = site.power, []
    for use in RACK_USES[1:]:
        fed = circuits[circuits["use"] == use]
        if fed.empty:
            continue
        breaker_a = float(fed["breaker_a"].iloc[0])
        least = next_rating_a(power.code, least_a(site, fed))
        if LIGHT * least > breaker_a:
            continue
        found.append(
            finding(
                "POWER-CIRCUIT-LIGHT",
                f"power.{use}_circuit",
                limit=float(least),
                limit_source=RATINGS_SOURCE[power.code],
                breaker_a=breaker_a,
                count=len(fed),
                kw=round(float(fed["worst_kw"].max()), 3),
                words={"racks": "storage" if use == "storage" else "switches and service nodes"},
                remedies=[remedy({f"power.{use}_circuit.breaker_a": least})],
            )
        )
    return found


def _less(kw: float, row: pd.Series) -> RemedyOf:
    """Less load behind a circuit."""
    return remedy(fix="less-load", less_kw=kw, rack=row["rack"])
