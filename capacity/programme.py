"""The programme: lead times and work as one network of activities, from the first order to go-live.

    result = build(site)
    result.activities        frame: early and late dates, slack, criticality, P50 and P90 of each activity
    result.finish            go-live dates: shortest, likely, longest, P50, P90

Precedence comes from the dependency groups D00 to D14 (requirements, section 5): a group starts when all groups before it
are done. Lead times start with the orders (after D00) and end before the group that uses what was ordered. Five statements
of the planning documents are assertions on that network (RULES); a plan that breaks one gets a finding. Days are calendar
days, weeks have seven of them. Pure and without a clock: time starts at `schedule.start_date`, or at the latest quote.

Sources: critical path method (two passes, total float); PERT: beta distribution with mean (a + 4m + b)/6 and weight 4;
criticality index: share of draws in which an activity lies on the longest path.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.bom import lead_of
from capacity.schedule import FACILITY_ITEMS
from inventory.catalog import Catalog
from inventory.findings import Finding
from inventory.groups import DELIVERED_TO, GROUPS, waits
from inventory.schema import BOM_ITEMS
from inventory.site import Site

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


@dataclass(frozen=True)
class Activity:
    """One node of the network; durations in hours. kind: lead (an order), work, start and end (of a group)."""

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


@dataclass(frozen=True)
class Programme:
    """The programme of a site; `finish` maps shortest, likely, longest, p50 and p90 to the date of go-live."""

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
    frame, finish = _dated(network, start, site.schedule.need_date)
    findings = [
        *check_need_date(site, frame, finish),
        *check_agreed_starts(network, start),
        *check_generations(site, catalog),
        *check_pilot(site),
        *check_empty_groups(site),
    ]
    return Programme(frame, tuple(findings), start, finish)


def start_date(site: Site) -> datetime.date:
    """Day on which orders can be placed: the site's own, or that of its latest quote."""
    return site.schedule.start_date or max(lead.as_of for lead in site.leadtimes.values())


def activities(site: Site) -> list[Activity]:
    """The network of a site, in an order in which each activity comes after all that it waits for."""
    schedule = site.schedule
    promised = _promised(site)
    made: list[Activity] = []
    for item, lead in site.leadtimes.items():
        if schedule.greenfield or item not in FACILITY_ITEMS:
            likely = (lead.min_weeks + lead.max_weeks) / 2 if lead.likely_weeks is None else lead.likely_weeks
            hours = [round(weeks * HOURS_PER_WEEK) for weeks in (lead.min_weeks, likely, lead.max_weeks)]
            made.append(
                Activity(item, "lead", "D01", hours[0], hours[1], hours[2], ("D00 done",), lead.source,
                         finish_not_before=promised.get(item))
            )  # fmt: skip
    leads = {a.name for a in made}
    for name, work in schedule.activities.items():
        likely = (work.min_weeks + work.max_weeks) / 2 if work.likely_weeks is None else work.likely_weeks
        hours = [round(weeks * HOURS_PER_WEEK) for weeks in (work.min_weeks, likely, work.max_weeks)]
        after = tuple(b for b in work.after if b in leads or b in schedule.activities)
        made.append(
            Activity(name, "work", work.group, hours[0], hours[1], hours[2], (f"{work.group} start", *after), work.source,
                     not_before=work.start_date)
        )  # fmt: skip
    burn_in = site.limits.get("burn_in_h")
    if burn_in and not any(a.group == "D09" for a in made):
        hours_each = round(burn_in.value)
        source = f"site limits.burn_in_h: {burn_in.source}"
        made.append(Activity("burn-in", "work", "D09", hours_each, hours_each, hours_each, ("D09 start",), source))
    waiting = waits({a.name: (a.group, ()) for a in made if a.kind == "work"}, leads, DELIVERED_TO)
    for group in GROUPS:
        made.append(Activity(f"{group} start", "start", group, 0, 0, 0, waiting[f"{group} start"]))
        made.append(Activity(f"{group} done", "end", group, 0, 0, 0, waiting[f"{group} done"]))
    made.append(Activity(GO_LIVE, "end", "D14", 0, 0, 0, ("D14 done",)))
    order = TopologicalSorter({a.name: a.after for a in made}).static_order()
    by_name = {a.name: a for a in made}
    return [by_name[name] for name in order]


def _promised(site: Site) -> dict[str, datetime.date]:
    """Last promised delivery by item of leadtimes (S002), of all items of the bill that wait for it.

    A tranche without items stands for all that no other one names. Power supplies count as those of servers.
    """
    tranches = site.purchase.tranches
    named = {item for tranche in tranches for item in tranche.items}
    others = tuple(item for item in BOM_ITEMS if item not in named)
    dates: dict[str, datetime.date] = {}
    for tranche in tranches:
        if tranche.promised_date is None:
            continue
        for item in tranche.items or others:
            lead = lead_of(item, "server", site.leadtimes)
            if lead:
                dates[lead] = max(tranche.promised_date, dates.get(lead, tranche.promised_date))
    return dates


class _Network:
    """Index form of a network, for passes over many draws at once: arrays are (activities, draws)."""

    def __init__(self, network: Sequence[Activity], start: datetime.date) -> None:
        self.names = [a.name for a in network]
        at = {name: i for i, name in enumerate(self.names)}
        self.before = [[at[b] for b in a.after] for a in network]
        self.after: list[list[int]] = [[] for _ in network]
        for i, befores in enumerate(self.before):
            for b in befores:
                self.after[b].append(i)
        self.earliest = [_hours(start, a.not_before) for a in network]
        self.arrives = [_hours(start, a.finish_not_before) for a in network]

    def forward(self, duration: Hours) -> tuple[Hours, Hours]:
        """Early start and early finish."""
        early = np.zeros_like(duration)
        finish = np.zeros_like(duration)
        for i, befores in enumerate(self.before):
            if befores:
                np.copyto(early[i], finish[befores[0]])
                for b in befores[1:]:
                    np.maximum(early[i], finish[b], out=early[i])
            if self.earliest[i]:
                np.maximum(early[i], self.earliest[i], out=early[i])
            np.add(early[i], duration[i], out=finish[i])
            if self.arrives[i]:
                np.maximum(finish[i], self.arrives[i], out=finish[i])
        return early, finish

    def backward(self, duration: Hours, end: Hours) -> tuple[Hours, Hours]:
        """Late start and late finish, for go-live at `end` (one value per draw)."""
        late = np.broadcast_to(end, duration.shape).copy()
        start = np.empty_like(duration)
        for i in range(len(self.names) - 1, -1, -1):
            for a in self.after[i]:
                np.minimum(late[i], start[a], out=late[i])
            np.subtract(late[i], duration[i], out=start[i])
        return start, late


def _hours(start: datetime.date, day: datetime.date | None) -> int:
    return max((day - start).days * 24, 0) if day else 0


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
    numbers, so that equal sites give equal results on every machine.
    """
    order = np.random.Generator(np.random.PCG64(SEED))
    hours = np.empty((len(network), draws), dtype=np.int64)
    for i, a in enumerate(network):
        if a.max_h == a.min_h:
            hours[i] = a.min_h
            continue
        span = a.max_h - a.min_h
        mode = (a.likely_h - a.min_h) / span
        quantiles = _beta_quantiles(round(1 + 4 * mode, 6), round(1 + 4 * (1 - mode), 6), draws)
        hours[i] = order.permutation(np.rint(a.min_h + span * quantiles).astype(np.int64))
    return hours


def percentile(finish: Hours, share: float) -> int:
    """The smallest drawn value that at least `share` of all draws do not exceed (no interpolation: whole hours)."""
    rank = max(int(np.ceil(share * len(finish))) - 1, 0)
    return int(np.partition(finish, rank)[rank])


def _dated(
    network: Sequence[Activity], start: datetime.date, need: datetime.date
) -> tuple[pd.DataFrame, dict[str, datetime.date]]:
    index = _Network(network, start)
    cases = np.array([[getattr(a, which) for which in _DURATIONS] for a in network], dtype=np.int64)
    early, finish = index.forward(cases)
    float_start, _ = index.backward(cases, finish[-1])
    need_h = (need - start).days * 24
    safe_start, _ = index.backward(cases, np.full(3, need_h, dtype=np.int64))
    drawn = simulate(network)
    drawn_early, drawn_finish = index.forward(drawn)
    late, _ = index.backward(drawn, drawn_finish[-1])
    critical = (late <= drawn_early).mean(axis=1)
    p90 = percentile(drawn_finish[-1], 0.9)
    gains = [0.0] * len(network)
    for i, a in enumerate(network):
        if a.kind == "lead" and critical[i] >= _CRITICAL_SHARE and a.max_h > a.min_h:
            sooner = drawn.copy()
            sooner[i] = a.min_h
            gains[i] = max(p90 - percentile(index.forward(sooner)[1][-1], 0.9), 0) / 24

    def dates(hours: Sequence[int]) -> list[str]:
        return [(start + datetime.timedelta(hours=int(h))).isoformat() for h in hours]

    slack = float_start[:, 1] - early[:, 1]
    frame = pd.DataFrame(
        {
            "activity": index.names,
            "kind": [a.kind for a in network],
            "group": [a.group for a in network],
            "min_days": cases[:, 0] / 24,
            "likely_days": cases[:, 1] / 24,
            "max_days": cases[:, 2] / 24,
            "after": [", ".join(a.after) for a in network],
            "start": dates(early[:, 1].tolist()),
            "finish": dates(finish[:, 1].tolist()),
            "slack_days": slack / 24,
            "critical": (slack <= 0).astype(np.int64),
            "latest_start": dates(safe_start[:, 1].tolist()),
            "safe_start": dates(safe_start[:, 2].tolist()),
            "margin_days": (safe_start[:, 2] - early[:, 2]) / 24,
            "p50_finish": dates([percentile(row, 0.5) for row in drawn_finish]),
            "p90_finish": dates([percentile(row, 0.9) for row in drawn_finish]),
            "criticality_pct": np.round(critical * 100, 2),
            "expedite_days": np.round(gains, 2),
            "source": [a.source for a in network],
        }
    )
    ends = dict(zip(("shortest", "likely", "longest"), finish[-1].tolist(), strict=True))
    ends |= {"p50": percentile(drawn_finish[-1], 0.5), "p90": p90}
    return frame, {name: start + datetime.timedelta(hours=int(h)) for name, h in ends.items()}


def with_orders(schedule: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """The `schedule` frame with each item's safe order date, criticality and gain from the network."""
    own = frame.set_index("activity").reindex(schedule["activity"])
    return schedule.assign(
        safe_order=own["safe_start"].to_numpy(),
        criticality_pct=own["criticality_pct"].to_numpy(),
        expedite_days=own["expedite_days"].to_numpy(),
    )


def check_need_date(site: Site, frame: pd.DataFrame, finish: Mapping[str, datetime.date]) -> list[Finding]:
    """SCHEDULE-NEED-DATE when go-live at P90 is after the date on which the cluster is needed."""
    need = site.schedule.need_date
    late = (finish["p90"] - need).days
    if late <= 0:
        return []
    help_ = "".join(
        f"; {best['activity']} in its shortest time gains {best['expedite_days']:.0f} days"
        for best in expedite(frame).head(1).to_dict("records")
    )
    return [
        Finding(
            "SCHEDULE-NEED-DATE",
            "warning",
            "schedule.need_date",
            f"go-live is on {finish['p50']} at P50 and on {finish['p90']} at P90, {late} days after {need}{help_}; or move "
            f"schedule.need_date to {finish['p90']}",
            {"p50_late_days": (finish["p50"] - need).days, "p90_late_days": late},
            0.0,
            "site schedule.need_date",
            "ERR-25",
        )
    ]


RULES: tuple[tuple[str, str, str, str], ...] = (
    ("GPU", "D01", "D04", "GPUs are ordered before anything is assembled: their lead time often drives the timeline"),
    ("FACILITY", "D03", "D09", "power and cooling are built before any burn-in: a new facility takes longest"),
    ("SOFTWARE", "D06", "D12", "software is validated on nodes before it is given to users"),
    ("STORAGE", "D10", "D13", "storage is ready before large training"),
)
"""Statements of the planning documents that are orders of groups: (name, first group, later group, why). The fifth, that
the network's generation matches the GPUs', is `check_generations`; software on a pilot first is `check_pilot`."""


def groups_before(group: str) -> set[str]:
    """All groups that must be done before a group starts."""
    return {earlier for before in GROUPS[group][1] for earlier in (before, *groups_before(before))}


def check_agreed_starts(network: Sequence[Activity], start: datetime.date) -> list[Finding]:
    """SCHEDULE-ORDER (ERR-23) for work whose agreed start is before the likely end of what it waits for.

    SCHEDULE-RULE-… as well when the pair that is out of order is one that the planning documents name.
    """
    index = _Network(network, start)
    likely = np.array([[a.likely_h] for a in network], dtype=np.int64)
    _, finish = index.forward(likely)
    group = {a.name: a.group for a in network}
    found: list[Finding] = []
    for i, a in enumerate(network):
        if a.not_before is None:
            continue
        agreed = (a.not_before - start).days * 24
        ready = max((int(finish[b, 0]) for b in index.before[i]), default=0)
        if ready <= agreed:
            continue
        days = -(-(ready - agreed) // 24)
        blocker = _blocker(network, index, finish[:, 0], i)
        ready_date = start + datetime.timedelta(hours=ready)
        numbers = {"early_days": days}
        found.append(
            Finding("SCHEDULE-ORDER", "warning", f"schedule.activities.{a.name}",
                    f"{a.name} is agreed for {a.not_before}, and {blocker} is done on {ready_date}: {days} days too early; move "
                    f"its start_date to {ready_date}, or shorten what comes before", numbers, 0.0,
                    "requirements section 5: dependency groups", "ERR-23")
        )  # fmt: skip
        before = groups_before(a.group)
        for name, first, later, why in RULES:
            broken = (a.group == later or later in before) and group[blocker] in (first, *groups_before(first))
            if broken:
                found.append(
                    Finding(f"SCHEDULE-RULE-{name}", "warning", f"schedule.activities.{a.name}",
                            f"{why}; {a.name} ({a.group}) would start {days} days before {blocker} is done", numbers, 0.0,
                            "training-cluster plan, key dependencies", "ERR-23")
                )  # fmt: skip
    return found


def _blocker(network: Sequence[Activity], index: _Network, finish: Hours, i: int) -> str:
    """The order or work that ends last among all that activity `i` waits for, looking through milestones."""
    while True:
        befores = index.before[i]
        if not befores:
            return network[i].name
        i = max(befores, key=lambda b: (int(finish[b]), -b))
        if network[i].kind in ("lead", "work"):
            return network[i].name


def check_generations(site: Site, catalog: Catalog) -> list[Finding]:
    """SCHEDULE-RULE-NETWORK when switches and NICs are of different speed, or a NIC slot of an older PCIe generation than
    the GPU: network and GPU generation are bought together.
    """
    nic, switch, gpu = site.server.nic, catalog.device(site.fabric.switch_model), catalog.gpu(site.gpu.sku)
    wrong = []
    if switch.bringup.rate_gbps and switch.bringup.rate_gbps < nic.rate_gbps:
        wrong.append(f"switch ports of {switch.bringup.rate_gbps:g} Gb/s under NICs of {nic.rate_gbps} Gb/s")
    if gpu.pcie_gen and nic.pcie_gen < gpu.pcie_gen:
        wrong.append(f"NIC slots of PCIe Gen{nic.pcie_gen} beside GPUs of Gen{gpu.pcie_gen}")
    return [
        Finding("SCHEDULE-RULE-NETWORK", "warning", "fabric.switch_model",
                f"the network's generation must match the GPUs': {' and '.join(wrong)}",
                {"nic_gbps": nic.rate_gbps, "switch_gbps": switch.bringup.rate_gbps}, None,
                "training-cluster plan, key dependencies; catalogue", "ERR-08")
    ] if wrong else []  # fmt: skip


def check_pilot(site: Site) -> list[Finding]:
    """SCHEDULE-RULE-SOFTWARE, for information, when a schedule with work on nodes (D06) has no pilot in it."""
    work = site.schedule.activities.values()
    if not any(a.group == "D06" for a in work) or any(a.pilot for a in work):
        return []
    return [
        Finding("SCHEDULE-RULE-SOFTWARE", "info", "schedule.activities",
                "no activity is the pilot that proves the software on representative hardware before the whole fleet: mark "
                "one with pilot: true", {}, None, "training-cluster plan, key dependencies", "ERR-23")
    ]  # fmt: skip


def check_empty_groups(site: Site) -> list[Finding]:
    """SCHEDULE-DURATIONS, for information: groups of work that take no time because nobody estimated them."""
    given = {a.group for a in site.schedule.activities.values()}
    empty = [g for g in GROUPS if g not in given and g not in ("D00", "D01")]
    if "D09" in empty and "burn_in_h" in site.limits:
        empty.remove("D09")
    if not empty:
        return []
    return [
        Finding("SCHEDULE-DURATIONS", "info", "schedule.activities",
                f"no duration for {', '.join(empty)}: they count as no time, so every date is the earliest that could be",
                {"groups": len(empty)}, None, "", "ERR-23")
    ]  # fmt: skip


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
