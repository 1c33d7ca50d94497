"""The programme: lead times and work as one network of activities, from the first order to go-live.

    result = build(site)
    result.activities        frame: early and late dates, slack, criticality, P50 and P90 of each activity
    result.finish            go-live dates: shortest, likely, longest, P50, P90

Precedence comes from the dependency groups D00 to D14 (inventory/groups.py): a group starts when all groups before it
are done; what needs the room in D04 waits for D03 besides. Lead times start with the orders (after D00, or after the items
that have to arrive first) and end before the group that uses what was ordered. Ties within the work are of the four kinds
of the precedence method, with lags. The rules of docs/purchase.md are assertions on that network (RULES); a
plan that breaks one gets a finding. Lead times count every day; work counts those of `schedule.calendar`, or every day
without one. Pure and without a clock: time starts at `schedule.start_date`, or at the latest quote.

A promised delivery holds an order until that day: its duration is then the longer of lead time and promise, in every pass.

Sources: critical path method (two passes, total float) with the ties of the precedence diagramming method; PERT: beta
distribution with mean (a + 4m + b)/6 and weight 4; criticality index: share of draws in which an activity lies on the
longest path, that is, ties without room lead from it to go-live.
"""

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from graphlib import TopologicalSorter

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.procurement.bom import lead_of, tranches_of
from capacity.procurement.calendar import EveryDay, WorkingTime
from capacity.procurement.order_dates import BUILDING
from inventory.catalog import Catalog
from inventory.findings import Finding, finding, remedy
from inventory.groups import DELIVERED_TO, GROUPS, ROOM, ROOM_GROUP, Order, Work, waits
from inventory.site import Site
from inventory.site.sections.purchase import BOM_ITEMS
from inventory.site.sections.schedule import Link, WorkCalendar

DRAWS = 10_000
SEED = 20261101
HOURS_PER_WEEK = 168
_GRID = 4096
_CRITICAL_SHARE = 0.01
"""Items that are on the longest path less often than this are not worth expediting."""
GO_LIVE = "go-live"
"""The last activity, for which nothing waits."""
_DURATIONS = ("min_h", "likely_h", "max_h")

Hours = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Tie:
    """What an activity waits for: from finish or start of `before` (F, S) to its own start or finish, with a lag.

    `lag_h` are hours of the calendar, `lag_days` working days; both count.
    """

    before: str
    type: str = "FS"
    lag_h: int = 0
    lag_days: float = 0.0

    def __str__(self) -> str:
        days = f" {self.lag_h / 24:+g} d" if self.lag_h else ""
        working = f" {self.lag_days:+g} working d" if self.lag_days else ""
        kind = f" {self.type}" if self.type != "FS" or days or working else ""
        return f"{self.before}{kind}{days}{working}"


@dataclass(frozen=True)
class Activity:
    """One node of the network; durations in hours. kind: lead (an order), work, start and end (of a group).

    `after` are ends to its start, `ties` all others. An order of several tranches is one node each, and a milestone that
    bears the item's name when all have arrived: `part` is the item and the tranche of such a node.
    """

    name: str
    kind: str
    group: str
    min_h: int
    likely_h: int
    max_h: int
    after: tuple[str, ...]
    source: str = ""
    not_before: datetime.date | None = None
    finish_not_before: datetime.date | None = None
    ties: tuple[Tie, ...] = ()
    promised_latest: datetime.date | None = None
    continuous: bool = False
    part: tuple[str, str] = ("", "")

    @property
    def waits_for(self) -> tuple[Tie, ...]:
        """All that it waits for."""
        return (*(Tie(name) for name in self.after), *self.ties)


@dataclass(frozen=True)
class Programme:
    """The programme of a site; `finish` maps shortest, likely, p50 and p90 to the date of go-live, longest to the first that begins
    when every duration at its longest is over.
    """

    activities: pd.DataFrame
    findings: tuple[Finding, ...]
    start: datetime.date
    finish: Mapping[str, datetime.date]


def go_live(activities: pd.DataFrame) -> pd.Series:
    """The row of go-live in the `activities` frame."""
    return activities[activities["activity"] == GO_LIVE].iloc[0]


def expedite(activities: pd.DataFrame) -> pd.DataFrame:
    """What to expedite first: the lead time that gains most days at P90, then the one most often on the longest path."""
    kept = activities[activities["expedite_days"] > 0]
    return kept.sort_values(["expedite_days", "criticality_pct"], ascending=False, kind="stable")


def critical_path(activities: pd.DataFrame) -> list[str]:
    """Orders and work on the critical path with likely durations, in order of their start."""
    kept = activities[(activities["critical"] == 1) & activities["kind"].isin(["lead", "work"])]
    return [str(name) for name in kept.sort_values(["start", "finish"], kind="stable")["activity"]]


def build(site: Site, catalog: Catalog) -> Programme:
    """The programme of a site. Never raises for a site that loads."""
    start = start_date(site)
    network = activities(site)
    calendar = site.schedule.calendar
    frame, finish = _dated(network, start, site.schedule.need_date, calendar)
    findings = [
        *check_need_date(site, frame, finish),
        *check_agreed_starts(network, start, calendar),
        *check_room(site),
        *check_generations(site, catalog),
        *check_pilot(site),
        *check_empty_groups(site),
    ]
    return Programme(frame, tuple(findings), start, finish)


def likely_hours(site: Site) -> list[tuple[Activity, int, int]]:
    """Each activity with its early start and early finish, likely durations, in hours from `start_date`."""
    network, start = activities(site), start_date(site)
    index = _Network(network, start, site.schedule.calendar)
    early, finish = index.forward(np.array([[a.likely_h] for a in network], dtype=np.int64))
    return list(zip(network, early[:, 0].tolist(), finish[:, 0].tolist(), strict=True))


def start_date(site: Site) -> datetime.date:
    """Day on which orders can be placed: the site's own, or that of its latest quote."""
    return site.schedule.start_date or max(lead.as_of for lead in site.leadtimes.values())


def activities(site: Site) -> list[Activity]:
    """The network of a site, in an order in which each activity comes after all that it waits for."""
    schedule = site.schedule
    made = _orders(site)
    orders = {a.name: Order(_delivered(a), a.after, a.part[1]) for a in made if a.kind == "lead"}
    ends = [
        Activity(item, "end", "D01", 0, 0, 0, tuple(a.name for a in made if a.part[0] == item))
        for item in dict.fromkeys(a.part[0] for a in made if a.part[1])
    ]
    known = {a.name for a in (*made, *ends)} | set(schedule.activities)
    works = {
        name: Work(work.group, tuple(b for b in work.after if b in known), work.needs_room, work.tranche or "")
        for name, work in schedule.activities.items()
    }
    burn_in = site.limits.get("burn_in_required_h")
    by_limit = {}
    if burn_in and not any(work.group == "D09" for work in works.values()):
        by_limit["burn-in"] = round(burn_in.value), f"site limits.burn_in_required_h: {burn_in.source}"
        works["burn-in"] = Work("D09")
    waiting = waits(works, orders)
    made = [dataclasses.replace(a, after=waiting[a.name]) for a in made] + ends
    for name, work in schedule.activities.items():
        ties = tuple(_tie(link) for link in work.links if link.activity in known)
        made.append(
            Activity(
                name,
                "work",
                work.group,
                *_range(work.min_weeks, work.likely_weeks, work.max_weeks),
                waiting[name],
                work.source,
                work.start_date,
                ties=ties,
                continuous=work.continuous,
            )
        )
    for name, (hours, source) in by_limit.items():
        made.append(Activity(name, "work", "D09", hours, hours, hours, waiting[name], source, continuous=True))
    for group in GROUPS:
        made.append(Activity(f"{group} start", "start", group, 0, 0, 0, waiting[f"{group} start"]))
        made.append(Activity(f"{group} done", "end", group, 0, 0, 0, waiting[f"{group} done"]))
    made.append(Activity(ROOM, "start", ROOM_GROUP, 0, 0, 0, waiting[ROOM]))
    made.append(Activity(GO_LIVE, "end", "D14", 0, 0, 0, ("D14 done",)))
    order = TopologicalSorter({a.name: [tie.before for tie in a.waits_for] for a in made}).static_order()
    by_name = {a.name: a for a in made}
    return [by_name[name] for name in order]


def _range(low: float, likely: float | None, high: float) -> tuple[int, int, int]:
    """Shortest, likely and longest duration in hours, from weeks."""
    middle = (low + high) / 2 if likely is None else likely
    return round(low * HOURS_PER_WEEK), round(middle * HOURS_PER_WEEK), round(high * HOURS_PER_WEEK)


def _tie(link: Link) -> Tie:
    return Tie(link.activity, link.type, round(link.lag_days * 24), link.lag_working_days)


def _delivered(order: Activity) -> str:
    """The group that an order is delivered to."""
    return DELIVERED_TO.get(order.part[0], "")


def part_name(item: str, tranche: str) -> str:
    """The name of an order in the network: the item of leadtimes, and its tranche where there are several."""
    return f"{item} {tranche}".rstrip()


def _orders(site: Site) -> list[Activity]:
    """The orders; `after` are only the orders that have to arrive first, of the same tranche where there is one."""
    counted = {item: lead for item, lead in site.leadtimes.items() if site.schedule.greenfield or item not in BUILDING}
    parts = {item: _deliveries(site, item) for item in counted}
    made = []
    for item, lead in counted.items():
        for tranche, (promised, latest, by) in parts[item].items():
            said = f"; promised for {promised}{f': {by}' if by else ''}" if promised else ""
            after = [
                part_name(first, part)
                for first in lead.after
                if first in counted
                for part in ([tranche] if tranche in parts[first] else parts[first])
            ]
            made.append(
                Activity(
                    part_name(item, tranche),
                    "lead",
                    "D01",
                    *_range(lead.min_weeks, lead.likely_weeks, lead.max_weeks),
                    tuple(after),
                    lead.source + said,
                    finish_not_before=promised,
                    promised_latest=latest,
                    part=(item, tranche),
                )
            )
    return made


Promise = tuple[datetime.date | None, datetime.date | None, str]
"""Promised day, the latest that the promise allows, and who promised it."""


def _deliveries(site: Site, lead: str) -> dict[str, Promise]:
    """Promised delivery (S002) by tranche, of an item of leadtimes; one tranche '' where all come together.

    A tranche counts for the items of the bill that wait for this lead time; power supplies count as those of servers.
    """
    promises: dict[str, Promise] = {}
    for item in BOM_ITEMS:
        if lead_of(item, "server", site.leadtimes) == lead:
            promises |= {
                t.name: (t.promised_date, t.promised_latest, t.source or "") for t in tranches_of(site.purchase, item)
            }
    if len(promises) > 1:
        return promises
    return {"": next(iter(promises.values()), (None, None, ""))}


Before = tuple[int, str, int, int]
"""Index of an activity, kind of the tie, lag in hours of the calendar, lag in worked hours."""


class _Network:
    """Index form of a network, for passes over many draws at once: arrays are (activities, draws)."""

    def __init__(self, network: Sequence[Activity], start: datetime.date, calendar: WorkCalendar | None = None) -> None:
        self.names = [a.name for a in network]
        self.time = WorkingTime(calendar, start, _reach_days(network, start)) if calendar else EveryDay()
        self.worked = [calendar is not None and a.kind == "work" and not a.continuous for a in network]
        at = {name: i for i, name in enumerate(self.names)}
        self.before: list[list[Before]] = [
            [(at[t.before], t.type, t.lag_h, self.time.lag(t.lag_days)) for t in a.waits_for] for a in network
        ]
        self.after: list[list[Before]] = [[] for _ in network]
        for i, befores in enumerate(self.before):
            for b, kind, lag, lag_worked in befores:
                self.after[b].append((i, kind, lag, lag_worked))
        self.earliest = [_hours(start, a.not_before) for a in network]
        self.promised = [_hours(start, a.finish_not_before) for a in network]
        self.latest = [_hours(start, a.promised_latest or a.finish_not_before) for a in network]

    def later(self, t: Hours, lag: int, lag_worked: int) -> Hours:
        """The moment a lag after `t`."""
        if lag:
            t = t + lag
        return self.time.ends(self.time.worked(t) + lag_worked) if lag_worked else t

    def sooner(self, t: Hours, lag: int, lag_worked: int) -> Hours:
        """The last moment whose `later` is `t`."""
        if lag_worked:
            t = self.time.begins(self.time.worked(t) - lag_worked)
        return t - lag if lag else t

    def _start_of(self, i: int, finish: Hours, duration: Hours) -> Hours:
        """The last start from which activity `i` is done by `finish`."""
        if not self.worked[i]:
            return finish - duration
        begin = self.time.begins(self.time.worked(finish) - self.time.effort(duration))
        return np.where(duration > 0, begin, finish)

    def _finish_of(self, i: int, start: Hours, duration: Hours) -> Hours:
        if not self.worked[i]:
            return start + duration
        return np.maximum(self.time.ends(self.time.worked(start) + self.time.effort(duration)), start)

    def _last_finish_of(self, i: int, start: Hours, duration: Hours) -> Hours:
        """The last finish that asks for no later start: days off after the work is done are part of it."""
        if not self.worked[i]:
            return start + duration
        return np.where(duration > 0, self.time.begins(self.time.worked(start) + self.time.effort(duration)), start)

    def _begun(self, i: int, start: Hours, duration: Hours) -> Hours:
        """The first moment from `start` on at which activity `i` can be worked on; milestones need none."""
        if not self.worked[i]:
            return start
        return np.where(duration > 0, self.time.begins(self.time.worked(start)), start)

    def _begun_by(self, i: int, moment: Hours, duration: Hours) -> Hours:
        """The last moment from which activity `i` is begun by `moment`: an hour before the end of work where that is a day off."""
        if not self.worked[i]:
            return moment
        off = self._begun(i, moment, duration) > moment
        return np.where(off, self.time.ends(self.time.worked(moment)) - 1, moment)

    def _asked(self, i: int, early: Hours, finish: Hours) -> Iterator[tuple[int, str, Hours]]:
        """Per tie of activity `i`: what it waits for, and the moment from which its start (S) or finish (F) may be."""
        for b, kind, lag, lag_worked in self.before[i]:
            yield b, kind[1], self.later((finish if kind[0] == "F" else early)[b], lag, lag_worked)

    def forward(self, duration: Hours, arrives: Hours | None = None) -> tuple[Hours, Hours]:
        """Early start and early finish; `arrives` are promised deliveries (0: none), one row per activity."""
        early = np.zeros_like(duration)
        finish = np.zeros_like(duration)
        for i in range(len(self.names)):
            ends: Hours | None = None
            for _, side, moment in self._asked(i, early, finish):
                if side == "F":
                    ends = moment if ends is None else np.maximum(ends, moment)
                    moment = self._start_of(i, moment, duration[i])
                np.maximum(early[i], moment, out=early[i])
            if self.earliest[i]:
                np.maximum(early[i], self.earliest[i], out=early[i])
            early[i] = self._begun(i, early[i], duration[i])
            finish[i] = self._finish_of(i, early[i], duration[i])
            if ends is not None:
                np.maximum(finish[i], ends, out=finish[i])
            if self.promised[i]:
                np.maximum(finish[i], self.promised[i] if arrives is None else arrives[i], out=finish[i])
        return early, finish

    def readiness(self, i: int, early: Hours, finish: Hours, duration: Hours) -> dict[int, int]:
        """Of one case: the moment from which each activity before `i` lets it start."""
        moments: dict[int, int] = {}
        for b, side, moment in self._asked(i, early, finish):
            first = moment if side == "S" else self._start_of(i, moment, duration[i])
            moments[b] = max(int(first[0]), moments.get(b, 0))
        return moments

    def held(self, duration: Hours, early: Hours, finish: Hours) -> Hours:
        """Durations with those of promised deliveries as long as the promise makes them."""
        longer = duration.copy()
        for i in range(len(self.names)):
            if self.promised[i]:
                longer[i] = finish[i] - early[i]
        return longer

    def backward(self, duration: Hours, end: Hours) -> tuple[Hours, Hours]:
        """Late start and late finish, for go-live at `end` (one value per draw); `duration` as `held` gives it."""
        late = np.broadcast_to(end, duration.shape).copy()
        start = np.empty_like(duration)
        for i in range(len(self.names) - 1, -1, -1):
            begins: Hours | None = None
            for a, kind, lag, lag_worked in self.after[i]:
                moment = self.sooner((start if kind[1] == "S" else late)[a], lag, lag_worked)
                if kind[0] == "F":
                    np.minimum(late[i], moment, out=late[i])
                else:
                    begins = moment if begins is None else np.minimum(begins, moment)
            start[i] = self._start_of(i, late[i], duration[i])
            if begins is not None:
                np.minimum(start[i], self._begun_by(i, begins, duration[i]), out=start[i])
                np.minimum(late[i], self._last_finish_of(i, start[i], duration[i]), out=late[i])
        return start, late

    def driving(self, duration: Hours, early: Hours, finish: Hours) -> Flags:
        """Where an activity lies on the longest path: ties without room lead from it to the last activity."""
        decides = np.zeros(duration.shape, dtype=bool)
        decides[-1] = True
        for i in range(len(self.names) - 1, -1, -1):
            for b, side, moment in self._asked(i, early, finish):
                tight = moment == finish[i] if side == "F" else self._begun(i, moment, duration[i]) == early[i]
                decides[b] |= decides[i] & tight
        return decides


def _reach_days(network: Sequence[Activity], start: datetime.date) -> int:
    """Days on either side of the start that no date of the network lies beyond: every duration and lag, one after the other.

    A tenth and twenty years are added for days off, which make work longer; a week has one working day at least.
    """
    days = sum(a.max_h / 24 + sum(abs(t.lag_h) / 24 + abs(t.lag_days) * 7 for t in a.ties) for a in network)
    dated = [d for a in network for d in (a.not_before, a.finish_not_before, a.promised_latest) if d]
    fixed = max((abs((day - start).days) for day in dated), default=0)
    return round(days * 1.1) + fixed + 20 * 366


def _hours(start: datetime.date, day: datetime.date | None) -> int:
    return max((day - start).days * 24, 0) if day else 0


def _day(start: datetime.date, hours: int) -> datetime.date:
    """The day of an hour; the first or last one that there is where the hour lies beyond."""
    day = start.toordinal() + int(hours) // 24
    return datetime.date.fromordinal(min(max(day, 1), datetime.date.max.toordinal()))


def _day_after(start: datetime.date, hours: int) -> datetime.date:
    """The first day that begins at an hour or after it, as `_day`."""
    return _day(start, -(-int(hours) // 24) * 24)


@cache
def _beta_quantiles(alpha: float, beta: float, draws: int) -> npt.NDArray[np.float64]:
    """Quantiles (k + 0.5)/draws of the beta distribution, by trapezoids over a grid; error under 1e-4 of the range."""
    x = np.linspace(0.0, 1.0, _GRID + 1)
    density = x ** (alpha - 1) * (1 - x) ** (beta - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return np.interp((np.arange(draws) + 0.5) / draws, mass / mass[-1], x)


def simulate(network: Sequence[Activity], draws: int = DRAWS) -> Hours:
    """Durations in hours, one column per draw: PERT, in a Latin hypercube.

    Each activity's quantiles are fixed; only their order is drawn, by integer arithmetic from a fixed seed. Hours are whole
    numbers, so that equal sites give equal results on every machine. Tranches of one order take equally long in a draw: they
    have one supplier.
    """
    order = np.random.Generator(np.random.PCG64(SEED))
    hours = np.empty((len(network), draws), dtype=np.int64)
    same: dict[str, int] = {}
    for i, a in enumerate(network):
        first = same.setdefault(a.part[0] or a.name, i)
        if first != i:
            hours[i] = hours[first]
        else:
            hours[i] = _drawn(a.min_h, a.likely_h, a.max_h, draws, order)
    return hours


def _drawn(low: int, likely: int, high: int, draws: int, order: np.random.Generator) -> Hours:
    if low == high:
        return np.full(draws, low, dtype=np.int64)
    mode = (likely - low) / (high - low)
    quantiles = _beta_quantiles(round(1 + 4 * mode, 6), round(1 + 4 * (1 - mode), 6), draws)
    return order.permutation(np.rint(low + (high - low) * quantiles).astype(np.int64))


def _arrivals(index: _Network, draws: int) -> Hours:
    """Promised deliveries, one column per draw: the promised day likely, and as late as its range goes."""
    order = np.random.Generator(np.random.PCG64(SEED + 1))
    rows = [_drawn(day, day, latest, draws, order) for day, latest in zip(index.promised, index.latest, strict=True)]
    return np.array(rows, dtype=np.int64)


def percentile(finish: Hours, share: float) -> int:
    """The smallest drawn value that at least `share` of all draws do not exceed (no interpolation: whole hours)."""
    rank = max(int(np.ceil(share * len(finish))) - 1, 0)
    return int(np.partition(finish, rank)[rank])


def _dated(
    network: Sequence[Activity], start: datetime.date, need: datetime.date, calendar: WorkCalendar | None = None
) -> tuple[pd.DataFrame, dict[str, datetime.date]]:
    index = _Network(network, start, calendar)
    cases = np.array([[getattr(a, which) for which in _DURATIONS] for a in network], dtype=np.int64)
    promised = np.array([index.promised, index.promised, index.latest], dtype=np.int64).T
    early, finish = index.forward(cases, promised)
    held = index.held(cases, early, finish)
    float_start, _ = index.backward(held, finish[-1])
    need_h = (need - start).days * 24
    safe_start, _ = index.backward(held, np.full(3, need_h, dtype=np.int64))
    drawn = _outcome(tuple(network), start, calendar)

    def dates(hours: Sequence[int]) -> list[str]:
        return [_day(start, h).isoformat() for h in hours]

    slack = float_start[:, 1] - early[:, 1]
    frame = pd.DataFrame(
        {
            "activity": index.names,
            "kind": [a.kind for a in network],
            "group": [a.group for a in network],
            "min_days": cases[:, 0] / 24,
            "likely_days": cases[:, 1] / 24,
            "max_days": cases[:, 2] / 24,
            "promised": [a.finish_not_before.isoformat() if a.finish_not_before else "" for a in network],
            "after": [", ".join(map(str, a.waits_for)) for a in network],
            "start": dates(early[:, 1].tolist()),
            "finish": dates(finish[:, 1].tolist()),
            "slack_days": slack / 24,
            "critical": index.driving(cases, early, finish)[:, 1].astype(np.int64),
            "latest_start": dates(safe_start[:, 1].tolist()),
            "safe_start": dates(safe_start[:, 2].tolist()),
            "margin_days": (safe_start[:, 2] - early[:, 2]) / 24,
            "p50_finish": dates(drawn.p50),
            "p90_finish": dates(drawn.p90),
            "criticality_pct": np.round(np.array(drawn.critical) * 100, 2),
            "expedite_days": np.round(drawn.gains, 2),
            "source": [a.source for a in network],
        }
    )
    ends = dict(zip(("shortest", "likely", "longest"), finish[-1].tolist(), strict=True))
    ends |= {"p50": drawn.p50[-1], "p90": drawn.p90[-1]}
    done = _day_after(start, ends["longest"])
    return frame, {**{name: _day(start, h) for name, h in ends.items()}, "longest": done}


@dataclass(frozen=True)
class _Outcome:
    """What the draws say of each activity: finish in hours at P50 and P90, share of draws in which it is critical, and the
    days that go-live gains (see `_gains`).
    """

    p50: tuple[int, ...]
    p90: tuple[int, ...]
    critical: tuple[float, ...]
    gains: tuple[float, ...]


@lru_cache(maxsize=32)
def _outcome(network: tuple[Activity, ...], start: datetime.date, calendar: WorkCalendar | None) -> _Outcome:
    """The draws of a network. Kept, because most plans of a site with other values have the same draws: trials of remedies, the
    ends of a sensitivity, another need date. 32, a choice.
    """
    index = _Network(network, start, calendar)
    drawn, arrives = simulate(network), _arrivals(index, DRAWS)
    early, finish = index.forward(drawn, arrives)
    critical = index.driving(drawn, early, finish).mean(axis=1)
    p50, p90 = (tuple(percentile(row, share) for row in finish) for share in (0.5, 0.9))
    gains = _gains(network, index, drawn, arrives, critical, p90[-1])
    return _Outcome(p50, p90, tuple(critical.tolist()), tuple(gains))


def _gains(
    network: Sequence[Activity],
    index: _Network,
    drawn: Hours,
    arrives: Hours,
    critical: npt.NDArray[np.float64],
    p90: int,
) -> list[float]:
    """Days that go-live gains at P90 if an order takes its shortest time, all tranches together, and is not held by a promise."""
    gains: dict[str, float] = {}
    for a, share in zip(network, critical, strict=True):
        item = a.part[0] or a.name
        if a.kind != "lead" or share < _CRITICAL_SHARE or item in gains:
            continue
        own = [i for i, b in enumerate(network) if (b.part[0] or b.name) == item and b.kind == "lead"]
        sooner, promises = drawn.copy(), arrives.copy()
        sooner[own] = a.min_h
        promises[own] = 0
        gains[item] = max(p90 - percentile(index.forward(sooner, promises)[1][-1], 0.9), 0) / 24
    return [
        gains.get(a.part[0] or a.name, 0.0) if a.kind == "lead" and share >= _CRITICAL_SHARE else 0.0
        for a, share in zip(network, critical, strict=True)
    ]


def order_dates(frame: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Latest safe order date by item of leadtimes and tranche; by item alone ('' as tranche) that of the first to order."""
    dates: dict[tuple[str, str], str] = {}
    for row in frame[frame["kind"] == "lead"].to_dict("records"):
        item, _, tranche = str(row["activity"]).partition(" ")
        day = str(row["safe_start"])
        dates[item, tranche] = day
        dates[item, ""] = min(day, dates.get((item, ""), day))
    return dates


def check_need_date(site: Site, frame: pd.DataFrame, finish: Mapping[str, datetime.date]) -> list[Finding]:
    """SCHEDULE-NEED-DATE when go-live at P90 is after the date on which the cluster is needed."""
    need = site.schedule.need_date
    late = (finish["p90"] - need).days
    if late <= 0:
        return []
    remedies = []
    for best in expedite(frame).head(1).to_dict("records"):
        promised = best["promised"]
        remedies.append(
            remedy(
                fix="expedite-promise" if promised else "expedite",
                activity=best["activity"],
                promised=promised,
                gain_days=best["expedite_days"],
            )
        )
    return [
        finding(
            "SCHEDULE-NEED-DATE",
            "schedule.need_date",
            limit=0.0,
            limit_source="site schedule.need_date",
            err="ERR-25",
            remedies=[*remedies, remedy({"schedule.need_date": finish["p90"].isoformat()})],
            words={"p50": finish["p50"], "p90": finish["p90"], "need_date": need},
            p50_late_days=(finish["p50"] - need).days,
            p90_late_days=late,
        )
    ]


RULES: tuple[tuple[str, str, str], ...] = (
    ("GPU", "D01", "D04"),
    ("FACILITY", "D03", "D09"),
    ("SOFTWARE", "D06", "D12"),
    ("STORAGE", "D10", "D13"),
)
"""Rules of docs/purchase.md that are orders of groups: (name, first group, later group); the finding
SCHEDULE-RULE-name says why. The fifth, that the network's generation matches the GPUs', is `check_generations`; software on a
pilot first is `check_pilot`."""


def groups_before(group: str) -> set[str]:
    """All groups that must be done before a group starts."""
    return {earlier for before in GROUPS[group].after for earlier in (before, *groups_before(before))}


def check_agreed_starts(
    network: Sequence[Activity], start: datetime.date, calendar: WorkCalendar | None = None
) -> list[Finding]:
    """SCHEDULE-ORDER (ERR-23) for work whose agreed start is before the likely end of what it waits for.

    SCHEDULE-RULE-… as well when the pair that is out of order is one that a rule of docs/purchase.md names.
    """
    index = _Network(network, start, calendar)
    likely = np.array([[a.likely_h] for a in network], dtype=np.int64)
    early, finish = index.forward(likely)
    found: list[Finding] = []
    for i, a in enumerate(network):
        if a.not_before is None:
            continue
        agreed = (a.not_before - start).days * 24
        ready = max(index.readiness(i, early, finish, likely).values(), default=0)
        if ready <= agreed:
            continue
        days = -(-(ready - agreed) // 24)
        blocker = network[_blocker(network, index, early, finish, likely, i)]
        ready_date = _day_after(start, ready)
        subject = f"schedule.activities.{a.name}"
        later = [remedy({f"{subject}.start_date": ready_date.isoformat()})]
        found.append(
            finding(
                "SCHEDULE-ORDER",
                subject,
                limit=0.0,
                limit_source="dependency groups of the step register",
                err="ERR-23",
                remedies=[*later, remedy(fix="shorter-before")],
                words={"agreed": a.not_before, "blocker": blocker.name, "ready": ready_date},
                early_days=days,
            )
        )
        found += [
            finding(
                f"SCHEDULE-RULE-{name}",
                subject,
                case="early",
                severity="warning",
                limit=0.0,
                limit_source="rules of the programme (docs/purchase.md)",
                err="ERR-23",
                words={"group": a.group, "blocker": blocker.name},
                remedies=later,
                early_days=days,
            )
            for name, first, after in RULES
            if _breaks(a, blocker, first, after)
        ]
        if ROOM in a.after and "D03" in (blocker.group, DELIVERED_TO.get(blocker.part[0])):
            found.append(
                finding(
                    "SCHEDULE-RULE-ROOM",
                    subject,
                    case="early",
                    limit=0.0,
                    limit_source="dependency groups of the step register: the racking part of D04 needs the room from D03",
                    err="ERR-23",
                    remedies=[*later, remedy({f"{subject}.needs_room": False}, fix="receiving")],
                    words={"blocker": blocker.name},
                    early_days=days,
                )
            )
    return found


def _breaks(a: Activity, blocker: Activity, first: str, later: str) -> bool:
    """Whether `a`, of group `later` or one behind it, would start before `blocker`, of group `first` or one before it."""
    behind = a.group == later or later in groups_before(a.group)
    return behind and blocker.group in (first, *groups_before(first))


def _blocker(network: Sequence[Activity], index: _Network, early: Hours, finish: Hours, duration: Hours, i: int) -> int:
    """The order or work that lets activity `i` start last, looking through milestones."""
    while True:
        moments = index.readiness(i, early, finish, duration)
        if not moments:
            return i
        i = max(moments, key=lambda b: (moments[b], -b))
        if network[i].kind in ("lead", "work"):
            return i


def check_room(site: Site) -> list[Finding]:
    """SCHEDULE-RULE-ROOM when all work of D04 is marked as needing no room: something is racked and cabled in the room."""
    work = {name: a for name, a in site.schedule.activities.items() if a.group == ROOM_GROUP}
    if not work or any(a.needs_room for a in work.values()):
        return []
    return [
        finding(
            "SCHEDULE-RULE-ROOM",
            "schedule.activities",
            case="no-activity",
            limit_source="dependency groups of the step register: the racking part of D04 needs the room from D03",
            err="ERR-23",
            remedies=[remedy(fix="own-activities")],
            words={"group": ROOM_GROUP, "names": ", ".join(work)},
            activities=len(work),
        )
    ]


def check_generations(site: Site, catalog: Catalog) -> list[Finding]:
    """SCHEDULE-RULE-NETWORK when switches and NICs are of different speed, or a NIC slot of an older PCIe generation than
    the GPU: network and GPU generation are bought together.
    """
    nic, switch, gpu = site.server.nic, catalog.device(site.fabric.switch_model), catalog.gpu(site.gpu.sku)
    slower = bool(switch.bringup.rate_gbps and switch.bringup.rate_gbps < nic.rate_gbps)
    older = bool(gpu.pcie_gen and nic.pcie_gen < gpu.pcie_gen)
    if not slower and not older:
        return []
    return [
        finding(
            "SCHEDULE-RULE-NETWORK",
            "fabric.switch_model",
            case="rate-and-pcie" if slower and older else "rate" if slower else "pcie",
            limit_source="catalogue: generations of GPU, NIC and switch",
            err="ERR-08",
            words={"nic_gen": nic.pcie_gen, "gpu_gen": gpu.pcie_gen},
            nic_gbps=nic.rate_gbps,
            switch_gbps=switch.bringup.rate_gbps,
            remedies=[remedy(fix="faster-switch")] * slower + [remedy(fix="newer-slot")] * older,
        )
    ]


def check_pilot(site: Site) -> list[Finding]:
    """SCHEDULE-RULE-SOFTWARE, for information, when a schedule with work on nodes (D06) has no pilot in it."""
    work = site.schedule.activities.values()
    if not any(a.group == "D06" for a in work) or any(a.pilot for a in work):
        return []
    return [
        finding(
            "SCHEDULE-RULE-SOFTWARE",
            "schedule.activities",
            case="no-pilot",
            severity="info",
            limit_source="rules of the programme (docs/purchase.md)",
            err="ERR-23",
            remedies=[remedy(fix="pilot")],
        )
    ]


def check_empty_groups(site: Site) -> list[Finding]:
    """SCHEDULE-DURATIONS, for information: groups of work that take no time because nobody estimated them."""
    given = {a.group for a in site.schedule.activities.values()}
    empty = [g for g in GROUPS if g not in given and g not in ("D00", "D01")]
    if "D09" in empty and "burn_in_required_h" in site.limits:
        empty.remove("D09")
    if not empty:
        return []
    return [
        finding(
            "SCHEDULE-DURATIONS",
            "schedule.activities",
            err="ERR-23",
            words={"names": ", ".join(empty)},
            groups=len(empty),
            remedies=[remedy(fix="durations")],
        )
    ]


def differences(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """What another duration changes: activities whose dates, slack or criticality differ, go-live last.

    Columns: activity, and start, finish, p90_finish, safe_start and criticality_pct before and after, and days moved.
    """
    columns = ["start", "finish", "p90_finish", "safe_start", "criticality_pct"]
    kept = [
        kind in ("lead", "work") or name == GO_LIVE for name, kind in zip(after["activity"], after["kind"], strict=True)
    ]
    both = after[kept][["activity", *columns]].merge(
        before[["activity", *columns]], on="activity", how="left", suffixes=("_after", "_before")
    )
    changed = np.zeros(len(both), dtype=bool)
    for column in columns:
        changed |= (both[f"{column}_after"] != both[f"{column}_before"]).to_numpy()
    moved = pd.to_datetime(both["finish_after"]) - pd.to_datetime(both["finish_before"])
    return both.assign(moved_days=moved.dt.days)[changed].reset_index(drop=True)
