"""What each assumption of a site does: planned at the low and the high end of its plausible range, all else as it is.

    found = study(Base.read("hall-1"))
    found.frame        one row for each key and end, the key with the largest relative effect first
    found.by_key()     one row for each key, both ends side by side

An assumption is a key of the effective site for which a reference design has a range (`ranges`), whose value the site has not
confirmed. A value that the file gives is judged too, and marked as given: a price in the file may still be a guess; `confirmed`
settles it. A site without reference designs takes the ranges of the design that its GPU, fabric and cooling ask for.

Sizes that the file does not state are worked out anew for each end. Plans share the results of stages that nothing changes for
(capacity.kept), and are made by several processes.
"""

import datetime
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import pandas as pd

from capacity.build import planned
from capacity.kept import Kept
from capacity.model import Plan
from capacity.whatif import optimise
from inventory.delivered.assets import load_assets
from inventory.site import Site, SiteError
from inventory.site.effective import offers
from inventory.site.explain import findings_of, is_confirmed, origin_of
from inventory.site.references import Span, at, joined, reference
from inventory.site.typical_halls import SHARES, Typical, like, typical
from inventory.site.whatif import Base

ENDS = ("low", "high")
MEASURES = ("facility_kw", "pue", "racks", "cost", "go_live_days", "errors")
"""What an end is measured by; `go_live_days` are days from the start of the programme to go-live at P90."""
PRICES = ("purchase", "prices")
RANKED_BY = ("facility_kw", "racks", "cost", "go_live_days")
LEAST_SHARE = 0.001
"""Share of a measure below which a change of it is not told."""
COLUMNS: Mapping[str, Any] = {
    "key": str,
    "value": float,
    "origin": str,
    "end": str,
    "at": float,
    **dict.fromkeys(MEASURES, float),
    "go_live_p90": str,
    **{f"{name}_change": float for name in MEASURES},
    "effect": float,
    "refused": str,
    "range_source": str,
}
"""Columns of the frame. Measures and changes of an end that the site file refuses are NaN, and `refused` says why; `effect` is
the largest relative change of the key in facility kW, racks, cost and days to go-live."""

Measures = dict[str, Any]


@dataclass(frozen=True)
class Assumption:
    """A key with its value, where that comes from, and its plausible range."""

    key: str
    value: float
    origin: str
    span: Span

    @property
    def width(self) -> float:
        """Width of the range as a share of the value, at most 1."""
        return min((self.span.high - self.span.low) / abs(self.value), 1.0) if self.value else 1.0

    def at(self, end: str) -> float:
        """The value at an end of the range, a whole number where the value is one."""
        found = float(getattr(self.span, end))
        return int(found) if isinstance(self.value, int) and found.is_integer() else found


@dataclass(frozen=True)
class Sensitivity:
    """The effects, and the measures of the plan as it is."""

    frame: pd.DataFrame
    base: Measures

    def by_key(self) -> list[dict[str, Any]]:
        """The keys in their order: key, value, origin, effect, refused, and `low` and `high`, the row of each end."""
        found: dict[str, dict[str, Any]] = {}
        for row in self.frame.to_dict("records"):
            one = found.setdefault(row["key"], {name: row[name] for name in ("key", "value", "origin", "effect")})
            one[row["end"]] = row
        return list(found.values())


def spans_of(site: Site) -> Mapping[str, Span]:
    """The plausible ranges of a site: of its designs, or of the one that fits it where it is based on none."""
    return site.effective.spans if site.based_on else joined(_designs(site)).spans()


def _designs(site: Site) -> Sequence[str]:
    """The designs of a site, or the one that fits it where it is based on none."""
    if site.based_on:
        return site.based_on
    fitting = [slug for (_, fabric, _), slug in offers().items() if fabric == site.fabric.kind]
    alike = [slug for slug in fitting if at(joined([slug]).value, ("cooling", "kind")) == site.cooling.kind]
    same = [slug for slug in fitting if at(reference(slug).values, ("gpu", "sku")) == site.gpu.sku]
    best = next((slug for slug in same if slug in alike), next(iter([*same, *alike]), None))
    return [best] if best else []


def assumptions(site: Site) -> list[Assumption]:
    """What is judged: numbers with a range that the site has not confirmed, or that its file gives."""
    made = []
    for key, span in spans_of(site).items():
        path = tuple(key.split("."))
        value = at(site.effective.value, path)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        origin = origin_of(site, path)
        if origin.kind == "given" and path[:2] == PRICES and not span.low <= value <= span.high:
            span = _in_proportion(span, value, at(joined(_designs(site)).value, path))
        settled = origin.kind != "given" and is_confirmed(site, path)
        named = any(path[: len(one)] == one for one in (tuple(one.split(".")) for one in site.confirmed))
        if not settled and not named:
            made.append(Assumption(key, value, origin.design or origin.kind, span))
    return made


def _in_proportion(span: Span, value: float, planned_with: float | None) -> Span:
    """The range about a given price that lies outside of it: that of another product than the design's, such as a larger module."""
    if not planned_with:
        return span
    share = value / planned_with
    about = f"{span.low:g} to {span.high:g} about {planned_with:g} ({span.source})"
    source = f"in proportion to {about}, which the given price lies outside of"
    return Span(low=span.low * share, high=span.high * share, source=source)


def that_matter(site: Site, found: Sensitivity | None = None) -> list[Assumption]:
    """Unconfirmed assumptions with a range, the one that matters most first: by the effect that a study of the site found, or
    without one that of a typical hall of its design (`in_typical_hall`).

    Those that no study has stand last, by the width of the range as a share of the value, and by how many kinds of findings the
    key decides: a guess that costs no plan.
    """
    effects = dict(zip(found.frame["key"], found.frame["effect"], strict=True)) if found is not None else {}
    if found is None:
        halls = {one.key: in_typical_hall(site, one) for one in assumptions(site)}
        effects = {key: one.effect for key, one in halls.items() if one is not None}

    def rank(one: Assumption) -> tuple[float, float]:
        return (-effects.get(one.key, 0.0), -one.width * (1 + len(findings_of(one.key))))

    return sorted((one for one in assumptions(site) if one.origin != "given"), key=rank)


def in_typical_hall(site: Site, one: Assumption) -> Typical | None:
    """What an assumption changes in the typical hall that is most like the site; None where no hall has it."""
    return typical(one.key, like(site), one.span)


def moved(site: Site, one: Assumption, base: Measures, found: Sensitivity | None = None) -> dict[str, float]:
    """How far an assumption moves each measure of RANKED_BY at most, the largest relative change first; less than LEAST_SHARE of a
    measure is nothing.

    `base` are the measures of the plan. Without a study of the site these are the changes in a typical hall: shares of power, racks
    and cost are taken of the plan's own, and days are days.
    """
    if found is not None:
        rows = found.frame[found.frame["key"] == one.key]
        most = {name: float(rows[f"{name}_change"].abs().max(skipna=True)) for name in RANKED_BY}
    else:
        hall = in_typical_hall(site, one)
        if hall is None:
            return {}
        most = {name: hall.most(name) * (base[name] if name in SHARES else 1) for name in RANKED_BY}
    shares = {name: change / base[name] for name, change in most.items() if base[name]}
    moves = sorted((name for name, share in shares.items() if share >= LEAST_SHARE), key=lambda name: -shares[name])
    return {name: most[name] for name in moves}


def study(
    base: Base, workers: int | None = None, progress: Callable[[int, int], None] = lambda done, of: None
) -> Sensitivity:
    """Plan both ends of every assumption.

    `workers` are processes, as many as there are cores where it is not said.

    `progress` is told how many plans of how many are made; the first time when the processes have started.
    """
    global _state
    state = _State.of(base)
    judged = assumptions(state.site)
    asked = [(one, end) for one in judged for end in ENDS if one.at(end) != one.value]
    workers = min(workers or os.cpu_count() or 1, len(asked))
    found: dict[tuple[str, str], Measures] = {}
    if workers > 1:
        _state = state
        try:
            for key, end, measured in _pooled(base, asked, workers, lambda: progress(len(found), len(asked))):
                found[key, end] = measured
                progress(len(found), len(asked))
        except BrokenProcessPool:
            pass  # the rest is planned below, in this process
        finally:
            _state = None
    progress(len(found), len(asked))
    for one, end in asked:
        if (one.key, end) not in found:
            found[one.key, end] = state.measured(one.key, one.at(end))
            progress(len(found), len(asked))
    return Sensitivity(_frame(judged, found, state.base), state.base)


def read(frame: pd.DataFrame) -> Sensitivity:
    """A study from the frame that `bringup plan --sensitivity` wrote."""
    typed = frame[list(COLUMNS)].astype({name: kind for name, kind in COLUMNS.items() if kind is float})
    text = [name for name, kind in COLUMNS.items() if kind is str]
    typed[text] = typed[text].astype(object).fillna("").astype(str)
    first = typed.dropna(subset=["facility_kw"])
    base = (
        {name: float(first[name].iloc[0] - first[f"{name}_change"].iloc[0]) for name in MEASURES} if len(first) else {}
    )
    return Sensitivity(typed, base)


def measures(plan: Plan) -> Measures:
    """What a plan is measured by."""
    cost, facility_kw, pue, _, racks, live, *_ = optimise.measures(plan)
    began = min(str(day) for day in plan.activities["start"])
    days = (datetime.date.fromisoformat(str(live)) - datetime.date.fromisoformat(began)).days
    errors = sum(one.severity == "error" for one in plan.findings)
    return {
        "facility_kw": facility_kw,
        "pue": pue,
        "racks": racks,
        "cost": cost,
        "go_live_days": days,
        "errors": errors,
        "go_live_p90": str(live),
    }


@dataclass
class _State:
    """The site as it is, planned, with the results of its stages."""

    given: Base
    site: Site
    assets: pd.DataFrame
    kept: Kept
    base: Measures

    @classmethod
    def of(cls, given: Base) -> "_State":
        assets, kept = load_assets(given.site), Kept()
        plan = planned(given.site, assets=assets, kept=kept, what_ifs=False)
        return cls(given, plan.site, assets, kept, measures(plan))

    def measured(self, key: str, value: float) -> Measures:
        """The measures with another value of a key, or why the site file refuses it."""
        kept = self.kept.below()
        try:
            site = self.given.with_values({key: value})
        except SiteError as error:
            one = error.problems[0]
            return {"refused": f"{'.'.join(map(str, one.path))}: {one.what}: {one.found}; expected {one.expected}"}
        return measures(planned(site, assets=self.assets, kept=kept, what_ifs=False))


_state: _State | None = None
"""In a worker process: what it plans from. A process that was forked has it from its parent."""


def _pooled(
    base: Base, asked: list[tuple[Assumption, str]], workers: int, started: Callable[[], None]
) -> Iterator[tuple[str, str, Measures]]:
    context = multiprocessing.get_context()
    with ProcessPoolExecutor(workers, context, _begin, (base,)) as pool:
        waiting = {pool.submit(_planned, one.key, one.at(end)): (one.key, end) for one, end in asked}
        started()
        try:
            for done in as_completed(waiting):
                yield (*waiting[done], done.result())
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(base: Base) -> None:
    global _state
    if _state is None:
        _state = _State.of(base)


def _planned(key: str, value: float) -> Measures:
    assert _state is not None
    return _state.measured(key, value)


def _frame(judged: list[Assumption], found: Mapping[tuple[str, str], Measures], base: Measures) -> pd.DataFrame:
    rows = []
    for one in judged:
        ends = {end: found.get((one.key, end), base) for end in ENDS}
        changes = {
            end: {name: made[name] - base[name] for name in MEASURES} if "refused" not in made else {}
            for end, made in ends.items()
        }
        effect = max(
            (
                abs(change[name]) / base[name]
                for change in changes.values()
                for name in RANKED_BY
                if change and base[name]
            ),
            default=0.0,
        )
        for end, made in ends.items():
            rows.append(
                {
                    "key": one.key,
                    "value": one.value,
                    "origin": one.origin,
                    "end": end,
                    "at": one.at(end),
                    **{name: made.get(name) for name in MEASURES},
                    "go_live_p90": made.get("go_live_p90", ""),
                    **{f"{name}_change": changes[end].get(name) for name in MEASURES},
                    "effect": effect,
                    "refused": made.get("refused", ""),
                    "range_source": one.span.source,
                }
            )
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
    return frame.sort_values("effect", ascending=False, kind="stable").reset_index(drop=True)
