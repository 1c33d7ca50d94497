"""Rack circuits judged in every state: their whole load, and the line that carries most.

In: the plan's `circuits` with their load after the loss of a feed, and where the supply above is planned raised to the largest
load and line current of any single failure. Out: findings POWER-CIRCUIT (ERR-04; ERR-45 where a room does it), POWER-PHASE-LOAD
(the same) for circuits whose whole load fits, POWER-PDU-LOAD, and POWER-BREAKER-SIZE for a rating that does not exist. A way
out names a breaker only as far as the PDU or shelf behind it and the conductor go.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capacity.power.rack.circuits import RATINGS_SOURCE, next_rating_a, rating_below_a
from capacity.power.rooms import in_words, shared
from capacity.worst import worst_above
from inventory.catalog import Catalog
from inventory.findings import Finding
from inventory.site import Site
from inventory.site.schema import MOST_PDUS_PER_FEED


@dataclass(frozen=True)
class Ways:
    """What a larger breaker has to go with: input rating of each kind of end, ampacity of the conductor (None: not
    stated), derating, PDUs a feed.
    """

    site: Site
    input_a: Mapping[str, float]

    def out(self, row: pd.Series, needed_a: float, surplus: str) -> str:
        """The change that mends a circuit that needs a breaker of `needed_a`, or the smaller load `surplus`."""
        breaker_a = next_rating_a(self.site.power.code, needed_a)
        takes = self.input_a[str(row["kind"])]
        if breaker_a <= takes:
            return f"a breaker of at least {breaker_a} A{self._conductor(breaker_a)}, or {surplus}"
        beyond = f"{row['pdu']} takes {takes:g} A and would need {breaker_a} A"
        each = self.site.power.rack_pdu.per_feed
        more = math.ceil(each * needed_a / float(row["breaker_a"]) - 1e-9)
        if row["kind"] == "shelf" or not each < more <= MOST_PDUS_PER_FEED:
            return f"{beyond}, so no larger breaker mends it: {surplus}"
        return (
            f"{beyond}, so no larger breaker mends it: power.rack_pdu.per_feed {more} instead of {each}, or {surplus}"
        )

    def _conductor(self, breaker_a: int) -> str:
        electrical = self.site.electrical
        ampacity = electrical.rack_conductor.ampacity_a if electrical else None
        if ampacity is None:
            return " with a conductor that carries as much"
        return f" with a conductor of as much instead of {ampacity:g} A" if ampacity < breaker_a else ""


def ways(site: Site, catalog: Catalog) -> Ways:
    """The ratings of what stands behind the breakers of a site; a shelf takes what its connector does."""
    facts = catalog.device(site.power.rack_pdu.model).bringup.pdu
    rated = {"pdu": facts.input_a if facts else math.inf}
    part = catalog.system(site.server.system).part("shelf") if site.server.system else None
    if part is not None:
        plug = catalog.connector(catalog.device(part.model).inlet_type)
        rated["shelf"] = plug.nec_a if site.power.code == "nec" else plug.iec_a
    return Ways(site, rated)


def check(
    site: Site, catalog: Catalog, circuits: pd.DataFrame, feed_lost_kw: pd.Series, between_lines: bool = False
) -> list[Finding]:
    """All findings of this module; `feed_lost_kw` is the largest load of each circuit with no more than a feed lost,
    `between_lines` says that outlets lie between two lines, not between line and neutral.
    """
    known = ways(site, catalog)
    usable = circuits["usable_kw"].to_numpy(dtype=np.float64)
    over = circuits["worst_kw"] > usable + 1e-6
    by_kw = circuits["breaker_a"] * circuits["worst_kw"] / np.maximum(usable, 1e-9)
    need_a = np.maximum(by_kw, circuits["worst_phase_a"] / site.power.derating)
    kinds = circuits["pdu"].str.split("-").str[0]
    circuits = circuits.assign(kind=kinds, need_a=need_a.groupby(kinds).transform("max"))
    return [
        *_check_load(site, circuits, feed_lost_kw, known),
        *_check_lines(site, circuits[~over].reset_index(drop=True), known, between_lines),
        *_check_share(site, circuits, known),
        *_check_size(site),
    ]


def _check_load(site: Site, circuits: pd.DataFrame, feed_lost_kw: pd.Series, known: Ways) -> list[Finding]:
    """The whole load of each circuit in its worst state; a circuit is judged once, and the breaker named does for all."""
    found: list[Finding] = []
    judged = circuits.assign(feed_lost_kw=feed_lost_kw, together=circuits["worst_case"].isin(shared(site)))
    for (_, together), alike in judged.groupby(["usable_kw", "together"], sort=False):
        usable = float(alike["usable_kw"].iloc[0])

        def words(at: int, alike: pd.DataFrame = alike, usable: float = usable) -> dict[str, str]:
            row = alike.iloc[at]
            way = known.out(row, float(row["need_a"]), _less(row["worst_kw"] - usable, row))
            rooms = bool(row["together"]) and float(row["feed_lost_kw"]) <= usable
            apart = "a room of its own for each feed, or " if rooms else ""
            return {"state": in_words(site, str(row["worst_case"])), "mend": apart + way}

        found += worst_above(
            "POWER-CIRCUIT",
            "error",
            alike["circuit"],
            alike["worst_kw"],
            usable,
            "carries {value:.2f} kW {state}, and {limit:.2f} kW is usable: {mend}",
            "site power, breaker x derating",
            "kw",
            "ERR-45" if together else "ERR-04",
            words,
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
        limit = float(alike["breaker_a"].iloc[0]) * site.power.derating

        def words(at: int, alike: pd.DataFrame = alike, limit: float = limit) -> dict[str, str]:
            row = alike.iloc[at]
            amps = float(row["worst_phase_a"])
            volts = float(row["voltage_v"]) / math.sqrt(3)
            less = legs * (amps - limit) * volts * site.power.power_factor / 1000
            way = known.out(row, float(row["need_a"]), f"{less:.2f} kW less on {row['worst_phase']}")
            return {"line": str(row["worst_phase"]), "state": in_words(site, str(row["phase_case"])), "mend": way}

        found += worst_above(
            "POWER-PHASE-LOAD",
            "error",
            alike["circuit"],
            alike["worst_phase_a"],
            limit,
            "carries {value:.1f} A on {line} {state}, and its breaker carries {limit:.1f} A continuously, though its whole load "
            "fits: {mend}",
            "site power, breaker x derating",
            "amps",
            "ERR-45" if together else "ERR-04",
            words,
        )
    return found


def _check_share(site: Site, circuits: pd.DataFrame, known: Ways) -> list[Finding]:
    """POWER-PDU-LOAD: the normal load stays under the site's share of what a circuit may carry."""
    share = site.limits.get("pdu_load_pct")
    if share is None:
        return []
    part = share.value / 100

    def words(at: int) -> dict[str, str]:
        row = circuits.iloc[at]
        allowed = float(row["usable_kw"]) * part
        surplus = _less(float(row["load_kw"]) - allowed, row)
        if allowed <= 0:
            return {"mend": surplus}
        return {"mend": known.out(row, float(row["breaker_a"]) * float(row["load_kw"]) / allowed, surplus)}

    return worst_above(
        "POWER-PDU-LOAD",
        "warning",
        circuits["pdu"],
        circuits["load_kw"] / circuits["usable_kw"] * 100,
        share.value,
        "normally carries {value:.1f} % of what its circuit may, limit {limit:g} %: {mend}",
        "site limits.pdu_load_pct",
        "load_pct",
        None,
        words,
    )


def _check_size(site: Site) -> list[Finding]:
    """POWER-BREAKER-SIZE: a rating that no breaker comes in cannot be bought."""
    power, found = site.power, []
    for key, circuit in (("rack_circuit", power.rack_circuit), ("shelf_circuit", power.shelf_circuit)):
        if circuit is None or circuit.breaker_a == (larger := next_rating_a(power.code, circuit.breaker_a)):
            continue
        below = rating_below_a(power.code, circuit.breaker_a)
        found.append(
            Finding(
                "POWER-BREAKER-SIZE",
                "warning",
                f"power.{key}.breaker_a",
                f"power.{key}: breakers to {RATINGS_SOURCE[power.code]} do not come in {circuit.breaker_a:g} A: breaker_a "
                f"{larger}, the next that exists{f', or {below}, the one below' if below else ''}",
                {"breaker_a": circuit.breaker_a},
                float(larger),
                RATINGS_SOURCE[power.code],
            )
        )
    return found


def _less(kw: float, row: pd.Series) -> str:
    return f"{kw:.2f} kW less behind it (fewer servers in rack {row['rack']})"
