"""Waves of energisation and burn-in (RC-034): racks in order, each wave within what is energised, cooled and safe to lose.

In: the network of the failures, racks and cooling zones of the plan. Out: frame `waves` and POWER-WAVE.

One load basis: the site's profile (power.profile), for the limits, the failures and the energy. Racks without GPU servers
(spines, storage, management) are on from the first wave to the last; the racks of a wave are off again before the next one.
Only the feeds of electrical.waves.feeds are energised. A wave ends before it passes the energised kW, the proven cooling in all
or of a zone, the limit of an energised element with everything in order or after any single failure, or the permitted load
step of all its GPUs together. Cooling power follows the share of the load. What no smaller wave resolves is a finding: servers and
rack circuits that a failure takes down or overloads, and one rack alone over a limit, from where on no wave is planned.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.model import frames
from capacity.power.operation import load_step, standby
from capacity.power.upstream import single_failures
from capacity.power.upstream.network import Groups, Network
from capacity.power.upstream.tree import Tree
from inventory.findings import Finding, Severity, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical, Waves

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Budget:
    """What a wave adds up against: names of the limits, their kW, and the kW of each rack (racks x limits)."""

    names: list[str]
    limit_kw: Floats
    rack_kw: Floats

    def fullest_zone(self, sums: Floats) -> int:
        """The zone whose load in `sums` is nearest to its limit; -1 without zones."""
        kw, limit = sums[2:], self.limit_kw[2:]
        share = np.divide(kw, limit, out=np.where(kw > 0, np.inf, 0.0), where=limit > 0)
        return 2 + int(share.argmax()) if len(share) else -1


@dataclass(frozen=True)
class Worst:
    """An element, the failure ('' for none) and the kW that bring it nearest to its limit."""

    element: str
    case: str
    kw: float
    limit_kw: float

    @property
    def share(self) -> float:
        """Load over limit; 0 without a limit."""
        return self.kw / self.limit_kw if self.limit_kw > 0 else 0.0

    @property
    def why(self) -> str:
        """The element and when."""
        return f"{self.element} after the loss of {self.case}" if self.case else self.element


@dataclass(frozen=True)
class Verdict:
    """A wave after every single failure: its worst element and step, the servers that a failure takes down, and of the rack
    circuits that carry more than they may, in all or on a line, the key of the site's power that states each.
    """

    load: Worst
    step: Worst
    servers_lost: int
    lost_with: str
    circuits_over: tuple[str, ...]


def build(
    site: Site,
    net: Network | None,
    circuits: pd.DataFrame,
    racks: pd.DataFrame,
    heat: pd.DataFrame,
    zones: pd.DataFrame,
    loops: Mapping[str, str],
) -> tuple[pd.DataFrame, list[Finding]]:
    """The `waves` frame and what is wrong with it. `heat` gives air and liquid kW of each rack in the order of `racks`,
    `loops` the loop of each liquid-cooled rack.
    """
    electrical = site.electrical
    empty = pd.DataFrame({column: pd.Series(dtype=object) for column in frames.WAVES})
    if electrical is None or electrical.waves is None or net is None:
        return empty, []
    plan, feeds = electrical.waves, electrical.waves.feeds or site.power.feeds
    circuits = circuits.reset_index(drop=True)
    live = energised(net, circuits, feeds)
    found = _unable(site, net, circuits, feeds)
    if any(f.severity == "error" for f in found):
        return empty, found
    rack_of = pd.Index(racks["name"]).get_indexer(pd.Index(circuits["rack"]))
    servers = _servers_by_rack(live, rack_of, len(racks))
    kw = racks[f"{site.power.profile}_kw"].to_numpy(dtype=np.float64)
    base, own = np.flatnonzero((servers == 0) & (kw > 0)), np.flatnonzero(servers > 0)
    budget = budgets(plan, kw, heat, zones, loops)

    def judge(members: Ints) -> Verdict:
        on = np.zeros(len(racks), dtype=bool)
        on[base], on[members] = True, True
        part, kept = subset(live, rack_of, on, float(kw[on].sum() / kw.sum()))
        return _judge(site, electrical, part, circuits.iloc[kept].reset_index(drop=True))

    names = racks["name"].to_numpy(dtype=object)
    hours = site.limits["burn_in_required_h"].value if "burn_in_required_h" in site.limits else 0.0
    each_kw = float(getattr(site.server.power, f"{site.power.profile}_w")) / 1000
    rows: list[tuple[object, ...]] = []
    start, count, bound = 0, 0, ""
    tight: tuple[str, ...] = ()
    while start < len(own):
        count, bound, verdict = _longest(budget, base, own[start:], judge, (count, bound))
        members = own[start : start + count]
        start += count
        sums = budget.rack_kw[np.concatenate([base, members])].sum(axis=0)
        zone = budget.fullest_zone(sums)
        burnt = int(servers[members].sum())
        energy = standby.burn_in(burnt, each_kw, hours, 0)["mwh"]
        rows.append(
            (
                len(rows) + 1,
                names[members[0]],
                names[members[-1]],
                count,
                burnt,
                sums[0],
                float(kw[base].sum()),
                plan.energised_kw,
                _finite(budget.limit_kw[1]),
                budget.names[zone] if zone > 0 else "",
                sums[zone] if zone > 0 else 0.0,
                budget.limit_kw[zone] if zone > 0 else 0.0,
                bound if start < len(own) else "",
                verdict.load.element,
                verdict.load.case,
                verdict.load.kw,
                verdict.load.limit_kw,
                verdict.servers_lost,
                verdict.lost_with,
                verdict.step.element,
                verdict.step.case,
                verdict.step.kw,
                verdict.step.limit_kw,
                sums[0] / plan.ramp_kw_min,
                energy,
            )
        )
        tight = max(tight, verdict.circuits_over, key=len)
        over = _over(site, str(names[members[0]]), sums, budget, verdict)
        found += over
        if over:
            break
    frame = pd.DataFrame(rows, columns=list(frames.WAVES)).round(6)
    return frame, [*found, *_overloaded(tight, len(frame)), *_dropped(site, frame, feeds), *_ramp(plan, each_kw)]


def _finite(value: float) -> float:
    return float(value) if np.isfinite(value) else 0.0


def _servers_by_rack(net: Network, rack_of: Ints, racks: int) -> Ints:
    """GPU servers of each rack."""
    load, first = np.unique(net.cord_load, return_index=True)
    at = rack_of[net.cord_circuit[first]]
    return np.bincount(at, net.groups.servers[load], minlength=racks).astype(np.int64)


def budgets(plan: Waves, kw: Floats, heat: pd.DataFrame, zones: pd.DataFrame, loops: Mapping[str, str]) -> Budget:
    """Energised kW, cooling in all, then each zone and loop. Without cooling_kw the zones with their spare units out are the
    proven cooling, where each that takes heat has planned units; one without limits nothing.
    """
    air, liquid = (heat[c].to_numpy(dtype=np.float64) for c in ("air_kw", "liquid_kw"))
    wet, row = liquid / np.maximum(air + liquid, 1e-9), heat["row"]
    loop = heat["rack"].map(loops)
    names, limits, columns = ["energised kW", "proven cooling"], [plan.energised_kw], [kw, kw]
    zone_limits = []
    for name, kind, first, last, reserve, installed in zones[
        ["zone", "kind", "first_row", "last_row", "reserve_kw", "installed"]
    ].itertuples(index=False, name=None):
        if installed:
            names.append(f"cooling of {name}")
            zone_limits.append(float(reserve))
            inside = loop == name if kind == "liquid" else row.between(first, last)
            columns.append(np.where(inside, kw * (wet if kind == "liquid" else 1 - wet), 0.0))
    taken = zones["air_kw"].where(zones["kind"] == "air", zones["liquid_kw"])
    known = float(taken[zones["installed"] > 0].sum()) >= float((air + liquid).sum()) - 1e-3
    limits += [plan.cooling_kw if plan.cooling_kw is not None else sum(zone_limits) if known else np.inf, *zone_limits]
    return Budget(names, np.array(limits, dtype=np.float64), np.column_stack(columns))


def _longest(
    budget: Budget, base: Ints, own: Ints, judge: Callable[[Ints], Verdict], before: tuple[int, str]
) -> tuple[int, str, Verdict]:
    """How many of the racks `own` make the next wave, what ends it, and how it takes the failures. At least one rack.
    `before` are racks and bound of the last wave: where a failure bound that one, this one starts no larger.
    """
    room = budget.limit_kw - budget.rack_kw[base].sum(axis=0)
    limited = before[1] not in ("", *budget.names)
    size, most = 64, before[0] if limited else len(own)
    while True:  # in steps, so that the work does not grow with what is left
        sums = budget.rack_kw[own[:size]].cumsum(axis=0)
        full = (sums > room + 1e-9).any(axis=1)
        if full.any() or size >= min(most, len(own)):
            break
        size *= 4
    count = int(full.argmax()) if full.any() else len(own)
    bound = budget.names[int((sums[count] - room).argmax())] if full.any() else ""
    if limited:
        count, bound = min((count, bound), before)
    count = max(count, 1)
    base_kw = float(budget.rack_kw[base, 0].sum())
    while True:
        verdict = judge(own[:count])
        worst = max((verdict.load, verdict.step), key=lambda one: one.share)
        if worst.share <= 1 + 1e-9 or count == 1:
            return count, bound, verdict
        bound = ("load step at " if worst is verdict.step else "") + worst.why
        stays = base_kw if worst is verdict.load else 0.0  # what stays on is no smaller in a smaller wave
        own_kw = float(sums[count - 1, 0])
        left = max((stays + own_kw) / worst.share - stays, 0.0) / own_kw
        count = max(min(count - 1, int(count * left)), 1)


def energised(net: Network, circuits: pd.DataFrame, feeds: tuple[str, ...]) -> Network:
    """`net` with the supplies on these feeds alone: loads that lost some draw what they draw after a failure."""
    on = circuits["feed"].isin(feeds).to_numpy()[net.cord_circuit]
    groups = net.groups
    count = np.bincount(net.cord_load[on], minlength=len(groups.count)).astype(np.int64)
    normal = np.where(count < groups.count, groups.lost_w, groups.normal_w)
    keep = on & ~unable(groups, count)[net.cord_load]
    return replace(
        net,
        groups=replace(groups, count=count, normal_w=normal),
        cord_load=net.cord_load[keep],
        cord_circuit=net.cord_circuit[keep],
        legs=None if net.legs is None else net.legs.of(keep),
    )


def unable(groups: Groups, count: Ints) -> Bools:
    """Loads that do not run on `count` supplies."""
    return (count < groups.needed) | (count * groups.rating_w < groups.drop_w - 1e-6)


def subset(net: Network, rack_of: Ints, on: Bools, share: float) -> tuple[Network, Ints]:
    """The network of the racks that are `on`, and the rows of its circuits; of the tree only what may feed them. `share` is
    that of the mechanical load.
    """
    cord = on[rack_of[net.cord_circuit]]
    load, cord_load = np.unique(net.cord_load[cord], return_inverse=True)
    circuit, cord_circuit = np.unique(net.cord_circuit[cord], return_inverse=True)
    tree, feeds = net.tree, net.tree.elements["feed"].to_numpy(dtype=object)
    live = np.isin(feeds, ["", *np.unique(feeds[tree.panel_of[circuit]])])
    used = np.zeros(len(feeds), dtype=bool)
    used[tree.panel_of[circuit]] = True
    mechanical = tree.rows("mechanical")
    used[mechanical[live[mechanical]]] = True
    for _ in range(int(tree.levels.max(initial=0))):
        above = tree.sources[used]
        used[above[(above >= 0)]] = True
        used &= live
    rows = np.flatnonzero(used)
    at = np.full(len(feeds) + 1, -1, dtype=np.int64)
    at[rows] = np.arange(len(rows))
    small = Tree(
        tree.elements.iloc[rows].reset_index(drop=True),
        at[tree.sources[rows]],
        tree.is_root[rows],
        tree.spare[rows],
        at[tree.panel_of[circuit]],
    )
    groups = Groups(*(getattr(net.groups, name)[load] for name in Groups.__dataclass_fields__))
    part = replace(
        net,
        tree=small,
        groups=groups,
        cord_load=cord_load.astype(np.int64),
        cord_circuit=cord_circuit.astype(np.int64),
        end_kw=net.end_kw[circuit],
        usable_kw=net.usable_kw[circuit],
        mechanical_kw=net.mechanical_kw * share,
        legs=None if net.legs is None else net.legs.of(cord, circuit),
    )
    return part, circuit


def _judge(site: Site, electrical: Electrical, net: Network, circuits: pd.DataFrame) -> Verdict:
    """Every single failure of a wave: loads and steps of what is energised."""
    study, steps = single_failures.study(net, circuits), load_step.steps(site, net)
    names = net.tree.elements["name"].to_numpy(dtype=object)
    limit = net.tree.elements["limit_kw"].to_numpy(dtype=np.float64)
    frame = study.frame
    if not site.generator.present:
        frame = frame[~frame["kind"].isin(["grid", "utility"] if electrical.utility.services == 1 else ["grid"])]
    worst = frame.iloc[int(frame["servers_lost"].to_numpy().argmax())]
    lost = int(worst["servers_lost"])
    step = _nearest(names, steps.kw, steps.case, steps.limit_kw)
    if electrical.swing is not None and electrical.utility.max_step_mw is not None:
        kw = load_step.at_utility_kw(site, electrical, electrical.swing, int(net.groups.servers.sum()))
        step = max(step, Worst("utility", "", kw, electrical.utility.max_step_mw * 1000), key=lambda one: one.share)
    line_a = circuits["breaker_a"].to_numpy(dtype=np.float64) * site.power.derating
    over = (study.circuit_worst_kw > net.usable_kw + 1e-6) | (study.circuit_phase_a > line_a + 1e-6)
    stated = tuple(circuits["circuit_of"].to_numpy(dtype=object)[over].tolist())
    nearest = _nearest(names, study.worst_kw, study.worst_case, limit)
    return Verdict(nearest, step, lost, str(worst["failure"]) if lost else "", stated)


def _nearest(names: npt.NDArray[np.object_], kw: Floats, case: npt.NDArray[np.object_], limit: Floats) -> Worst:
    share = np.where(limit > 0, kw / np.maximum(limit, 1e-9), 0.0)
    top = int(share.argmax())
    if share[top] <= 0:
        return Worst("", "", 0.0, 0.0)
    return Worst(str(names[top]), str(case[top]), float(kw[top]), float(limit[top]))


def _unable(site: Site, net: Network, circuits: pd.DataFrame, feeds: tuple[str, ...]) -> list[Finding]:
    """POWER-WAVE when the energised feeds do not run the servers (error), or leave other devices dark (warning)."""
    groups = net.groups

    def dark(on: tuple[str, ...]) -> Bools:
        cord = circuits["feed"].isin(on).to_numpy()[net.cord_circuit]
        return unable(groups, np.bincount(net.cord_load[cord], minlength=len(groups.count)).astype(np.int64))

    now = dark(feeds)
    if not now.any():
        return []
    gpu = groups.servers > 0
    stuck = now & gpu if (now & gpu).any() else now
    at = int(stuck.argmax())
    own = circuits["feed"].isin(feeds).to_numpy()[net.cord_circuit]
    has = int((net.cord_load[own] == at).sum())
    least = _least(site.power.feeds, feeds, lambda on: not (dark(on) & stuck).any())
    safe = _least(
        site.power.feeds,
        feeds,
        lambda on: len(on) > 1 and not any((dark(tuple(f for f in on if f != lost)) & stuck).any() for lost in on),
    )
    remedies = [remedy({"electrical.waves.feeds": list(least)})] if least else []
    if safe and safe != least:
        remedies.append(remedy({"electrical.waves.feeds": list(safe)}, fix="safe-feeds"))
    servers, others = int(groups.servers[now].sum()), int((now & ~gpu).sum())
    return [
        finding(
            "POWER-WAVE",
            "electrical.waves.feeds",
            case="unable" if least else "unable-on-any-feeds",
            severity="error" if servers else "warning",
            limit=float(groups.needed[at]),
            limit_source="site electrical.waves.feeds, server supplies",
            err="ERR-05" if servers else None,
            servers=servers,
            others=others,
            supplies_left=has,
            words={
                "feeds": ", ".join(feeds),
                "device": groups.names[at],
                "supplies": int(groups.count[at]),
                "left_w": has * groups.rating_w[at],
                "needed_w": groups.drop_w[at],
            },
            remedies=remedies,
        )
    ]


def _least(
    every: tuple[str, ...], given: tuple[str, ...], good: Callable[[tuple[str, ...]], bool]
) -> tuple[str, ...] | None:
    """The fewest feeds with the given ones that are good."""
    rest = [feed for feed in every if feed not in given]
    for more in range(len(rest) + 1):
        for chosen in itertools.combinations(rest, more):
            on = tuple(feed for feed in every if feed in given or feed in chosen)
            if good(on):
                return on
    return None


def _over(site: Site, first: str, sums: Floats, budget: Budget, verdict: Verdict) -> list[Finding]:
    """POWER-WAVE of a wave that no smaller one resolves: what one rack, with those that stay on, already passes."""
    found = []
    for at in np.flatnonzero(sums > budget.limit_kw + 1e-6).tolist():
        enough_kw = math.ceil(sums[at] * 10 - 1e-6) / 10
        more = [
            remedy({"electrical.waves.energised_kw": enough_kw}, fix="at-least"),
            remedy({"electrical.waves.cooling_kw": enough_kw}, fix="at-least"),
            remedy(fix="more-zone-cooling", more_kw=sums[at] - budget.limit_kw[at]),
        ][min(at, 2)]
        found.append(
            finding(
                "POWER-WAVE",
                budget.names[at],
                case=("energised", "cooling", "zone")[min(at, 2)],
                severity="warning",
                limit=float(budget.limit_kw[at]),
                limit_source=_source(site, int(at)),
                load_kw=round(float(sums[at]), 3),
                words={"rack": first},
                remedies=[more, remedy(fix="power-cap")],
            )
        )
    elements: list[tuple[Worst, str, Severity]] = [
        (verdict.load, "element", "error"),
        (verdict.step, "load-step", "warning"),
    ]
    for worst, case, severity in elements:
        if worst.share > 1 + 1e-9:
            found.append(
                finding(
                    "POWER-WAVE",
                    worst.element,
                    case=f"{case}-after-loss" if worst.case else case,
                    severity=severity,
                    limit=worst.limit_kw,
                    limit_source="site electrical",
                    load_kw=round(worst.kw, 3),
                    words={"rack": first, "lost": worst.case},
                    remedies=[remedy(fix="further-feed"), remedy(fix="power-cap")],
                )
            )
    return found


def _source(site: Site, at: int) -> str:
    """Where the limit at this place of a Budget comes from."""
    waves = site.electrical.waves if site.electrical else None
    if at == 0:
        return "site electrical.waves.energised_kw"
    if at == 1 and waves is not None and waves.cooling_kw is not None:
        return "site electrical.waves.cooling_kw"
    return "cooling of the zones with their spare units out"


def _overloaded(circuits: tuple[str, ...], waves: int) -> list[Finding]:
    """POWER-WAVE when a single failure overloads rack circuits, of which `circuits` names the keys; a smaller wave does not
    help.
    """
    if not circuits:
        return []
    return [
        finding(
            "POWER-WAVE",
            "circuits",
            case="circuits",
            severity="error",
            limit=0.0,
            limit_source=f"site {', '.join(f'power.{key}' for key in sorted(set(circuits)))}, power.derating",
            err="ERR-04",
            circuits=len(circuits),
            words={"waves": waves},
            remedies=[remedy(fix="further-feed"), remedy(fix="power-cap")],
        )
    ]


def _dropped(site: Site, frame: pd.DataFrame, feeds: tuple[str, ...]) -> list[Finding]:
    """POWER-WAVE when a single failure takes servers of a wave down; a smaller wave does not help."""
    losing = frame[frame["servers_lost"] > 0]
    if losing.empty:
        return []
    worst = losing.iloc[int(losing["servers_lost"].to_numpy().argmax())]
    missing = [feed for feed in site.power.feeds if feed not in feeds]
    with_one_more = [feed for feed in site.power.feeds if feed in feeds or feed in missing[:1]]
    return [
        finding(
            "POWER-WAVE",
            "electrical.waves.feeds",
            case="dropped",
            severity="warning",
            limit=0.0,
            limit_source="site electrical.waves.feeds",
            err="ERR-05",
            servers_lost=int(worst["servers_lost"]),
            waves=len(losing),
            words={
                "feeds": ", ".join(feeds),
                "lost": worst["lost_with"],
                "servers": int(worst["servers"]),
                "wave": worst["wave"],
                "all_waves": len(frame),
            },
            remedies=[
                remedy({"electrical.waves.feeds": with_one_more}) if missing else remedy(fix="power-failure"),
                remedy(fix="accept-restart"),
            ],
        )
    ]


def _ramp(plan: Waves, server_kw: float) -> list[Finding]:
    """POWER-WAVE when the start of one server, the smallest step of a ramp, is steeper than the ramp in a minute."""
    if server_kw <= plan.ramp_kw_min + 1e-9:
        return []
    return [
        finding(
            "POWER-WAVE",
            "electrical.waves.ramp_kw_min",
            case="ramp",
            severity="warning",
            limit=plan.ramp_kw_min,
            limit_source="site electrical.waves.ramp_kw_min",
            server_kw=server_kw,
            remedies=[
                remedy({"electrical.waves.ramp_kw_min": server_kw}, fix="at-least"),
                remedy(fix="start-under-cap"),
            ],
        )
    ]
