"""Sizes that the site file does not state, worked out by the findings of its plan.

The site is planned with each such size at its least. Every finding that asks for more of one of them gives the next plan its
value: the remedy's, or the next rung of the ladder in which the equipment is made. So a size is judged by the same functions
whether the file states it or not, and what is worked out is what they ask for, not more.

    site = load_site("hall.yaml")       # as inventory.site.load_site, sizes included
"""

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from capacity import stages
from capacity.accepted import load_standing
from capacity.kept import Kept
from capacity.model import frames
from capacity.power.rack import breakers, budget
from capacity.power.upstream import panels
from inventory.catalog import Catalog
from inventory.delivered.assets import load_assets
from inventory.findings import Finding, plain
from inventory.findings_registry import registry
from inventory.site import Site, SiteError, loading, whatif
from inventory.site.effective import SIZES
from inventory.site.messages import dotted
from inventory.site.references import Ladder, at
from inventory.site.sections.power import RACK_USES
from inventory.site.yaml_source import Problem

MOST_PLANS = 20
"""Plans, most of them only begun, after which the sizes count as worked out; what they still lack is a finding of the plan."""
LADDER_OF = {
    "transformer": "electrical.transformers",
    "switchboard": "electrical.switchboards",
    "intake": "electrical.medium_voltage",
}
"""Kind of an element -> the ladder that its rating is taken from."""
STAGES = {
    **dict.fromkeys(("room.rows", "inband.leaves", "inband.spines"), 0),
    **dict.fromkeys(("room.rpps_per_row", "oob.switches"), 1),
    **dict.fromkeys(("power.pue", "electrical.utility.firm_mva", "schedule.need_date"), 3),
}
"""When a size is worked out: while an earlier one still grows, a later one would be asked for by what will not stand so.
Ratings of equipment come in stage 2."""
RATINGS = 2
ANEW = {
    "room.rows": ("room.rpps_per_row", "oob.switches"),
    "room.rpps_per_row": ("oob.switches",),
    "inband.leaves": ("inband.spines",),
}
"""Sizes that start again at their least when another one grows, because fewer of them may be enough then. More rows have more
heads for panels. Racks at other places may be fewer, with fewer rack PDUs to manage. More leaves share the links of the spines."""
NEED_DATE = "schedule.need_date"
STORE = "cooling.ride_through.storage_m3"
INBAND_SIZES = frozenset({"inband.leaves", "inband.spines"})
LAST = max(STAGES.values())
SOON = 1
"""Stage of the last sizes of in-band network and hall. Sizes up to it are raised as soon as they are asked for, and the rest of
that plan is not worked out."""


def panel_places(site: Site, catalog: Catalog, built: stages.Built) -> tuple[stages.Built, list[Finding]]:
    """What the panels of the rows ask for, before cables and supply are planned: by the circuits' loads without the power of the
    optics, with which they may ask for more.
    """
    if site.electrical is None:
        return {}, []
    where = built["in_racks"], built["placements"], built["circuit_ends"]
    circuits = budget.circuit_loads(site, catalog, *where)
    return {"circuit_loads": circuits}, panels.check_places(site, site.electrical, circuits, built["racks"])


def supplied(site: Site, catalog: Catalog, built: stages.Built) -> tuple[stages.Built, list[Finding]]:
    """What the loads of the supply ask for; its voltages and faults ask for no size."""
    return {}, list(built["supply_loads"].findings)


INBAND = (
    stages.fabric,
    stages.storage,
    stages.devices,
    stages.inband_network,
    stages.inband_failures,
    stages.storage_rate,
)
HALL = (
    stages.places,
    panel_places,
    stages.management_network,
    stages.cables,
)
SUPPLY = (
    stages.optics,
    stages.rack_power,
    stages.cooling_design,
    stages.supply_loads,
    supplied,
    stages.cooling,
    stages.pue,
)
PURCHASE = (stages.dates, stages.site_alone)
"""Stages of the plan, in the order in which sizes are asked for: first the in-band network; then the hall, where cables, which
take longest, are laid when the racks have places; then the supply; the dates, and what the site file alone says, last. While an
earlier group asks, later ones are not run. Stages that ask for no larger size (checks of racks and hall, voltages and faults,
waves, bill) are not run at all."""
RATED_BY = {"transformer": "kva", "switchboard": "rating_a", "intake": "rating_a"}


def load_site(name_or_path: str | Path, start: Path | None = None) -> Site:
    """`inventory.site.load_site`, with the sizes that the file does not state. SiteError for a file that is wrong."""
    return complete(loading.load_site(name_or_path, start))


def changed(name_or_path: str, settings: Sequence[str]) -> Site:
    """`inventory.site.whatif.changed`, with the sizes that neither file nor settings state."""
    return complete(whatif.changed(name_or_path, settings))


def complete(site: Site, catalog: Catalog | None = None, wanted: Collection[str] | None = None) -> Site:
    """The site with its open sizes worked out; the site itself where its file states them all.

    `wanted` are keys of sizes, for those who want these alone: others are then worked out only as far as these follow from them.
    """
    if not site.effective.sized():
        return site
    return sized(site, catalog or site.catalog, load_assets(site), Kept(most=2), wanted)


def sized(
    site: Site, catalog: Catalog, assets: pd.DataFrame, kept: Kept, wanted: Collection[str] | None = None
) -> Site:
    """The site with its open sizes worked out. SiteError where the site file's rules have no room for a size that it asks for."""
    made: dict[str, Any] = {}
    standing = load_standing(site)
    groups, last = _needed(wanted)
    for _ in range(MOST_PLANS):
        built: stages.Built = {"assets": assets, "baseline": standing, "trials": None}
        more, found = _asked(site, catalog, built, groups, kept, last)
        if not more or min(map(_number, more)) > last:
            break
        for key in {other for grown in more for other in ANEW.get(grown, ())} - more.keys():
            made.pop(key, None)
        if min(map(_number, more)) <= SOON:  # what was asked for early may not be needed in another hall
            made = {key: value for key, value in made.items() if _number(key) <= SOON}
        made |= more
        try:
            site = loading.with_sizes(site, made, catalog)
        except SiteError as error:
            raise SiteError(error.shown_path, [_of_sizes(one, site, more, found) for one in error.problems]) from None
    return site


def _of_sizes(problem: Problem, site: Site, more: Mapping[str, Any], findings: Sequence[Finding]) -> Problem:
    """A fault that came with the sizes `more`, which the planner raised and nobody wrote: what asks for them, and the values of
    site file and reference designs that this follows from.
    """
    own = dotted(problem.path)
    keys = [own] if own in more else sorted(more)
    asking = [one for one in findings if any(not set(keys).isdisjoint(way.settings) for way in one.remedies)]
    behind: dict[str, list[str]] = {"given": [], "reference": []}
    for key in sorted({key for one in asking for key in registry()[one.id].keys} - set(more)):
        path = tuple(key.split("."))
        origin, value = site.effective.origin(path), at(site.effective.value, path)
        if origin is not None and origin.kind in behind and value is not None:
            behind[origin.kind].append(f"{key}: {plain(value)}")
    sizes = "; ".join(
        f"{key} {plain(more[key])}, {SIZES[key].how if key in SIZES else 'of its ladder'}" for key in keys
    )
    whose = {"given": "of the site file", "reference": "of its reference designs"}
    changes = [f"{whose[kind]} ({', '.join(values)})" for kind, values in behind.items() if values]
    why = "".join(f"; {one.id}: {one.message.partition(' Fix: ')[0]}" for one in asking[:1])
    return replace(
        problem,
        what=f"{problem.what}, needed by the plan",
        found=f"{problem.found}, computed and not in the file: {sizes}{why}",
        do=f"change a value {', or '.join(changes)}" if changes else problem.do,
    )


def _needed(wanted: Collection[str] | None) -> tuple[tuple[tuple[stages.Stage, ...], ...], int]:
    """The stages that ask for these sizes or for what they follow from, and the number of the last sizes to work out.

    The in-band network follows from no places. The hall follows from the racks' loads and from no rating of what feeds them;
    ratings may follow from a PUE that the site alone asks for. Nothing follows from the need date.
    """
    if wanted is None or NEED_DATE in wanted:
        return (INBAND, HALL, SUPPLY, PURCHASE), LAST
    if INBAND_SIZES.issuperset(wanted):
        return (INBAND,), LAST
    if max(map(_number, wanted)) <= SOON:
        supply = (stages.unit_places if one is stages.cooling else one for one in SUPPLY if one is not stages.pue)
        return (INBAND, HALL, tuple(supply)), SOON
    return (INBAND, HALL, SUPPLY, tuple(one for one in PURCHASE if one is not stages.dates)), LAST


@frames.with_python_strings
def _asked(
    site: Site, catalog: Catalog, built: stages.Built, groups: Iterable[tuple[stages.Stage, ...]], kept: Kept, last: int
) -> tuple[dict[str, Any], list[Finding]]:
    """Open sizes that the plan's findings ask to raise, by key: those of the first stage that has any. And these findings.

    Where sizes up to a `last` of ratings are wanted, circuits that their load without the optics is too much for are raised
    before the supply is planned with them.
    """
    for group in groups:
        findings: list[Finding] = []
        for stage in group:
            added, found = kept.run(stage, site, catalog, built)
            built = {**built, **added}
            findings += found
            if (more := _raised(found, site)) and (number := min(map(_number, more))) <= SOON:
                return _of_stage(more, number), found
        more = _raised(findings, site)
        for one in findings if supplied in group else ():
            more |= _rung(one, built["supply_loads"].elements, site, more)
        if panel_places in group and last >= RATINGS and "circuit_loads" in built:
            ends = built["circuit_ends"]
            use_of = dict(zip(ends["name"], ends["use"], strict=True))
            more |= _circuits(site, built["circuit_loads"], use_of, findings)
        if supplied in group:
            more |= _circuits(site, built["supply_loads"].circuits, built["rack_power"].use_of, findings)
            more |= _store(site, findings)
        if more:
            return _of_stage(more, min(map(_number, more))), findings
    return {}, []


def _number(key: str) -> int:
    """Number of the stage in which a size is worked out."""
    return STAGES.get(key, RATINGS)


def _of_stage(values: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The sizes of one stage."""
    return {key: value for key, value in values.items() if _number(key) == number}


def _raised(findings: Iterable[Finding], site: Site) -> dict[str, Any]:
    """The largest value that findings ask for of each open size."""
    open_ = set(site.effective.open)
    more: dict[str, Any] = {}
    for one in findings:
        for settings in _settings(one, open_):
            for key, value in settings.items():
                value = _typed(value, at(site.effective.value, tuple(key.split("."))))
                if value > more.get(key, at(site.effective.value, tuple(key.split(".")))):
                    more[key] = value
            break
    return more


def _settings(one: Finding, open_: set[str]) -> Iterator[Mapping[str, Any]]:
    """Remedies of a finding that are made of open sizes only, as far as they are: racks_per_row may be the site's choice."""
    for way in one.remedies:
        mine = {key: value for key, value in way.settings.items() if key in open_}
        if mine and (len(mine) == len(way.settings) or way.settings.keys() <= open_ | {"room.racks_per_row"}):
            yield mine


def _typed(value: Any, now: Any) -> Any:
    """A remedy's value as the site file's parser would read it."""
    return datetime.date.fromisoformat(value) if isinstance(now, datetime.date) and isinstance(value, str) else value


def _rung(one: Finding, elements: pd.DataFrame, site: Site, more: Mapping[str, Any]) -> dict[str, Any]:
    """The next rung for an element above its rating: the first that carries what the finding has."""
    if one.id != "POWER-ELEMENT":
        return {}
    kinds = elements.loc[elements["name"] == one.subject, "kind"]
    key = LADDER_OF.get(kinds.iloc[0], "") if len(kinds) else ""
    ladder = site.effective.ladders.get(key)
    if ladder is None or one.limit is None:
        return {}
    rating = RATED_BY[kinds.iloc[0]]
    path = (*key.split("."), rating)
    now = float(at(site.effective.value, path))
    needed = now * one.numbers["worst_kw"] / one.limit
    return ladder.values(first_rung(ladder, rating, max(needed, float(more.get(f"{key}.{rating}", 0))), now))


def _circuits(
    site: Site, circuits: pd.DataFrame, use_of: Mapping[str, str], findings: Iterable[Finding]
) -> dict[str, Any]:
    """The next breakers, with PDUs that take them, of racks of switches and of storage whose load asks for more; the next PDUs
    where a bank of outlets asks for more. `use_of` each PDU is its rack.
    """
    more: dict[str, Any] = {}
    uses = np.array([use_of[name] for name in circuits["pdu"].tolist()], dtype=object)
    overloaded = {use_of.get(one.subject.partition("/")[0]) for one in findings if one.id == "POWER-BANK"}
    for use in RACK_USES[1:]:
        ladder = site.effective.ladders.get(f"power.{use}_circuit")
        fed = circuits[uses == use]
        if ladder is not None and len(fed):
            now, needed_a = float(fed["breaker_a"].iloc[0]), breakers.least_a(site, fed)
            if use in overloaded:
                model = f"power.{use}_pdu.model"
                others = [float(rung["breaker_a"]) for rung in ladder.rungs if rung[model] != site.power.pdu_model(use)]
                needed_a = max(needed_a, min((rating_a for rating_a in others if rating_a > now), default=now))
            more |= ladder.values(first_rung(ladder, "breaker_a", needed_a, now))
    return more


def _store(site: Site, findings: Iterable[Finding]) -> dict[str, Any]:
    """The next store of facility water, where one alone brings the hall over the time without cooling."""
    ladder, ride = site.effective.ladders.get("cooling.ride_through"), site.cooling.ride_through
    if ladder is None or ride is None:
        return {}
    asked = [dict(way.settings) for one in findings if one.id == "COOLING-RIDE-THROUGH" for way in one.remedies]
    needed = [float(way[STORE]) for way in asked if way.keys() == {STORE}]
    return ladder.values(first_rung(ladder, "storage_m3", needed[0], ride.storage_m3)) if needed else {}


def first_rung(ladder: Ladder, rating: str, needed: float, now: float) -> Mapping[str, Any]:
    """The first rung of at least `needed`, the last one where none is so large; {} where that is what stands there now."""
    fitting = [rung for rung in ladder.rungs if float(rung[rating]) >= needed - 1e-9]
    best = fitting[0] if fitting else ladder.rungs[-1]
    return best if float(best[rating]) > now else {}
