"""Every single failure of the supply: what loses power, what is left of each group of supplies, what is overloaded.

In: the tree above the circuits, the circuits, the cords and what they feed. Out: for each failure the circuits that are
dead, the loads that lose supplies and those that go dark, the load of every circuit and element afterwards.

A failure takes an element, all of a room, or the grid. What then takes over: switching.py, redistribution.py. Overloads are
reported and trip nothing: no cascades.

Everything is done for many failures at once, and only where a failure changes something: the circuits below it, those that
take over, and the elements above both. The work grows with circuits x levels.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.rack import line_currents
from capacity.power.upstream.network import Network
from capacity.power.upstream.redistribution import Outcome, expand, grouping, redistribute
from capacity.power.upstream.switching import Changed, Normal, changed_loads, normal, switched
from capacity.power.upstream.tree import Tree

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DEAD_CIRCUITS = 150_000
"""Dead circuits of all failures that are worked on at once: bounds the memory. With it a plan of 1,000,000 GPUs takes 3.6 GB."""

EQUAL = 1e-6
"""Loads in kW and currents in A nearer than this are equal, as in the frames, which have six places: the first failure that
causes them is named."""


@dataclass(frozen=True, eq=False)
class Study:
    """All single failures: `frame` as the plan's `failures`; normal and worst kW of elements and of circuits, and the largest
    line current of circuits, with the failure that causes it ('' for normal operation). `circuit_drop_m` is the largest voltage
    drop over a metre of the rack conductor, as a share. `lines` of panels and PDU transformers: amperes of their fullest line.
    """

    frame: pd.DataFrame
    normal_kw: Floats
    worst_kw: Floats
    worst_case: npt.NDArray[np.object_]
    circuit_worst_kw: Floats
    circuit_worst_case: npt.NDArray[np.object_]
    circuit_phase_a: Floats
    circuit_phase: Ints
    circuit_phase_case: npt.NDArray[np.object_]
    circuit_drop_m: Floats
    lines: "Lines"


@dataclass(frozen=True, eq=False)
class Lines:
    """Line currents of elements (0: not counted), those of all circuits behind one added leg by leg: the largest with everything
    in order, and in any state, with its line and the failure ('' for normal operation).
    """

    normal_a: Floats
    worst_a: Floats
    line: Ints
    case: npt.NDArray[np.object_]


def single_failures(tree: Tree) -> tuple[list[str], list[str], Ints]:
    """Names, kinds and members of: each element alone, each room, the grid. Members are pairs (rows of failure, element)."""
    elements = tree.elements
    size = len(elements)
    domain, domains = pd.factorize(elements["domain"])
    names = [*elements["name"], *domains]
    kinds = [*elements["kind"], *("grid" if d == "grid" else "room" for d in domains)]
    every = np.arange(size)
    members = np.stack([np.concatenate([every, size + domain]), np.concatenate([every, every])])
    return names, kinds, members.astype(np.int64)


def _outcomes(net: Network, usual: Normal, members: Ints, base: Floats) -> Iterator[tuple[int, Outcome, Changed]]:
    """Number of failures before, outcome and changed elements of each chunk of failures of elements."""
    tree, size = net.tree, len(net.tree.elements)
    by_panel = grouping(tree.panel_of, size)
    is_panel = np.zeros(size, dtype=bool)
    is_panel[tree.rows("panel")] = True
    whole, failures = switched(tree, usual, members), int(members[0].max()) + 1
    dead_panels = whole.dead[is_panel[whole.dead % size]]
    at, circuit = expand(dead_panels % size, *by_panel)
    failure = (dead_panels // size)[at]
    filled = np.cumsum(np.bincount(failure, minlength=failures))
    done = 0
    while done < failures:
        before = filled[done - 1] if done else 0
        stop = max(int(np.searchsorted(filled, before + DEAD_CIRCUITS, side="right")), done + 1)
        own = slice(*np.searchsorted(failure, (done, stop)))
        out = redistribute(net, failure[own] - done, circuit[own], stop - done)
        delta = out.touched_kw - base[out.touched_circuit]
        inverse, keys = pd.factorize(out.touched_failure * size + tree.panel_of[out.touched_circuit])
        here = whole.of(done * size, stop * size)
        change = np.bincount(inverse, delta, minlength=len(keys)).astype(np.float64)
        yield done, out, changed_loads(net, usual, here, keys, change)
        done = stop


def worst(net: Network) -> tuple[Floats, npt.NDArray[np.object_]]:
    """Worst kW of every element, with everything in order or after a single failure, and that failure ('' for none): those
    of `study`, and no more.
    """
    names, _, members = single_failures(net.tree)
    kw, case = worst_of(net, normal(net, net.base_kw()), members)
    return kw, np.array([*names, ""], dtype=object)[case]


def worst_of(net: Network, usual: Normal, members: Ints) -> tuple[Floats, Ints]:
    """Worst kW of every element, with everything in order or in a failure of `members`, and its row (-1 for none)."""
    kw, case = usual.kw.copy(), np.full(len(usual.kw), -1, dtype=np.int64)
    for done, _, changed in _outcomes(net, usual, members, net.base_kw()):
        _raise(changed.kw, changed.element, changed.failure + done, kw, case)
    return kw, case


def study(net: Network, circuits: pd.DataFrame) -> Study:
    """Every single failure, circuits included. `circuits` is the plan's frame."""
    tree = net.tree
    base = net.base_kw()
    names, kinds, members = single_failures(tree)
    usual = normal(net, base)

    kw, case = usual.kw.copy(), np.full(len(usual.kw), -1, dtype=np.int64)
    every = np.arange(net.circuits)
    circuit_worst, circuit_case = base.copy(), np.full(net.circuits, -1, dtype=np.int64)
    phase_a, phase = net.phase_a(net.base_leg_kw(), every)
    drop_m = net.drop_per_m(net.base_leg_kw(), every)
    phase_case = np.full(net.circuits, -1, dtype=np.int64)

    size, base_legs = len(tree.elements), net.base_leg_kw()
    carried, main = net.mains
    by_carried = grouping(carried, net.circuits)
    main_legs = _leg_sums(main, base_legs[carried], size)
    mains = tree.rows("panel", "pdu_transformer")
    normal_a, main_line, main_case = np.zeros(size), np.zeros(size, dtype=np.int64), np.full(size, -1, dtype=np.int64)
    normal_a[mains], main_line[mains] = net.main_a(main_legs[mains], mains)
    main_a = normal_a.copy()

    def raise_mains(out: Outcome, done: int) -> None:
        at, member = expand(out.touched_circuit, *by_carried)
        change = (out.touched_leg_kw - base_legs[out.touched_circuit])[at]
        place, keys = pd.factorize(out.touched_failure[at] * size + main[member])
        element = keys % size
        kw = np.maximum(main_legs[element] + _leg_sums(place, change, len(keys)), 0.0)
        amps, line = net.main_a(kw, element)
        rows, which = _raise(amps, element, keys // size + done, main_a, main_case)
        main_line[rows] = line[which]

    def raise_circuits(out: Outcome, done: int) -> None:
        circuit, failure = out.touched_circuit, out.touched_failure + done
        _raise(out.touched_kw, circuit, failure, circuit_worst, circuit_case)
        amps, line = net.phase_a(out.touched_leg_kw, circuit)
        rows, which = _raise(amps, circuit, failure, phase_a, phase_case)
        phase[rows] = line[which]
        np.maximum.at(drop_m, circuit, net.drop_per_m(out.touched_leg_kw, circuit))
        raise_mains(out, done)

    rows, fullest = [], Fullest.of(tree, usual)
    for done, out, changed in _outcomes(net, usual, members, base):
        _raise(changed.kw, changed.element, changed.failure + done, kw, case)
        raise_circuits(out, done)
        rows.append(_summary(net, out, *fullest.after(changed, len(out.dead_circuits)), base))

    out = redistribute(net, every, every, net.circuits)
    raise_circuits(out, len(names))
    unsaid = np.full(net.circuits, "", dtype=object)
    rows.append(_summary(net, out, unsaid, np.zeros(net.circuits), base))
    names += circuits["circuit"].tolist()
    labels = np.array([*names, ""], dtype=object)
    frame = pd.concat(rows, ignore_index=True)
    frame.insert(0, "failure", names)
    frame.insert(1, "kind", [*kinds, *(["circuit"] * net.circuits)])
    return Study(
        frame,
        usual.kw,
        kw,
        labels[case],
        circuit_worst,
        labels[circuit_case],
        phase_a,
        phase,
        labels[phase_case],
        drop_m,
        Lines(normal_a, main_a, main_line, labels[main_case]),
    )


def _leg_sums(place: Ints, leg_kw: Floats, size: int) -> Floats:
    """Sums (size, legs) of rows of `leg_kw` by their place."""
    return np.column_stack([np.bincount(place, kw, minlength=size) for kw in leg_kw.T]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Fullest:
    """For the fullest element after a failure: names and limits of elements, their use with everything in order, and the place
    of each when they are sorted by it.
    """

    names: npt.NDArray[np.object_]
    limit_kw: Floats
    used: Floats
    order: Ints
    place: Ints

    @classmethod
    def of(cls, tree: Tree, usual: Normal) -> "Fullest":
        """From the loads with everything in order."""
        limit = tree.elements["limit_kw"].to_numpy(dtype=np.float64)
        used = _used(usual.kw, limit)
        order = np.argsort(-used.round(9), kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return cls(tree.elements["name"].to_numpy(dtype=object), limit, used, order, place)

    def after(self, changed: Changed, failures: int) -> tuple[npt.NDArray[np.object_], Floats]:
        """The fullest element of each failure and the share of its limit; the first of equal ones, '' where none is used."""
        size = len(self.used)
        places = np.sort(changed.failure * size + self.place[changed.element])
        failure = places // size
        starts = np.searchsorted(failure, np.arange(failures + 1))
        leading = places % size == np.arange(len(places)) - starts[failure]
        untouched = np.bincount(failure[leading], minlength=failures)  # the places before it are all changed
        standing = untouched < size
        element = np.where(standing, self.order[np.minimum(untouched, size - 1)], size)
        share = np.where(standing, self.used[np.minimum(element, size - 1)], 0.0)
        used = _used(changed.kw, self.limit_kw[changed.element])
        top = share.copy()
        np.maximum.at(top, changed.failure, used)
        element = np.where(share >= top - 1e-9, element, size)
        full = used >= top[changed.failure] - 1e-9
        np.minimum.at(element, changed.failure[full], changed.element[full])
        return np.where(top > 0, self.names[np.minimum(element, size - 1)], ""), top


def _used(kw: Floats, limit_kw: Floats) -> Floats:
    """Share of the limit; 0 where there is none."""
    return np.where(limit_kw > 0, kw / np.maximum(limit_kw, 1e-9), 0.0)


def _raise(values: Floats, place: Ints, failure: Ints, worst: Floats, case: Ints) -> tuple[Ints, Ints]:
    """Raise `worst` and `case` in place to `values` at `place`, and the first `failure` that causes them; the places raised and
    the positions in `values` that they come from.
    """
    peak = worst.copy()
    np.maximum.at(peak, place, values)
    more = peak > worst + EQUAL
    found = np.flatnonzero(more[place] & (values >= peak[place] - EQUAL))
    found = found[np.argsort(-failure[found], kind="stable")]
    top = np.full(len(worst), -1, dtype=np.int64)
    top[place[found]] = found
    rows = np.flatnonzero(more)
    worst[rows], case[rows] = peak[rows], failure[top[rows]]
    return rows, top[rows]


def _summary(net: Network, out: Outcome, fullest: npt.NDArray[np.object_], used: Floats, base: Floats) -> pd.DataFrame:
    """Rows of the `failures` frame but name and kind; `fullest` element of each failure and the share of its limit."""
    groups, size = net.groups, len(out.dead_circuits)
    dark_f, dark_l = out.affected_failure[out.dark], out.affected_load[out.dark]
    over = out.touched_kw > net.usable_kw[out.touched_circuit] + 1e-6
    margin = out.affected_left * groups.rating_w[out.affected_load] / np.maximum(groups.drop_w[out.affected_load], 1e-9)
    servers = groups.servers[out.affected_load]
    order = np.lexsort((servers, -margin, out.dark, out.dark & (servers > 0)))
    tightest = np.full(size, -1, dtype=np.int64)
    tightest[out.affected_failure[order]] = order
    hit = tightest >= 0
    worst = np.maximum(tightest, 0)

    def of_tightest(values: npt.NDArray[np.generic], blank: float | str) -> npt.NDArray[np.generic]:
        if not len(values):
            return np.full(size, blank)
        return np.where(hit, values[worst], blank)

    load = out.affected_load
    change = np.bincount(out.touched_failure, out.touched_kw - base[out.touched_circuit], minlength=size)
    drawn = np.where(
        out.reduced, np.minimum(groups.lost_w[load], out.affected_left * groups.rating_w[load]), groups.lost_w[load]
    )
    saved = (groups.normal_w[load] - drawn) / 1000
    return pd.DataFrame(
        {
            "dead_circuits": out.dead_circuits,
            "loads_affected": np.bincount(out.affected_failure, minlength=size),
            "loads_lost": np.bincount(dark_f, minlength=size),
            "servers_lost": np.bincount(dark_f, groups.servers[dark_l], minlength=size).astype(np.int64),
            "lost_kw": (np.bincount(dark_f, groups.normal_w[dark_l], minlength=size) / 1000 + out.dead_ends_kw).round(
                6
            ),
            "capped_kw": np.bincount(out.affected_failure[~out.dark], saved[~out.dark], minlength=size).round(6),
            "served_kw": (base.sum() + change).round(6),
            "tightest_group": of_tightest(groups.names[load], ""),
            "supplies": of_tightest(groups.count[load], 0),
            "supplies_left": of_tightest(out.affected_left, 0),
            "left_w": of_tightest(out.affected_left * groups.rating_w[load], 0.0),
            "needed_w": of_tightest(groups.drop_w[load], 0.0),
            "circuits_over": np.bincount(out.touched_failure[over], minlength=size),
            "worst_element": fullest,
            "worst_pct": (used * 100).round(3),
            "servers_reduced": np.bincount(
                out.affected_failure, np.where(out.reduced, servers, 0), minlength=size
            ).astype(np.int64),
        }
    )


def with_failures(circuits: pd.DataFrame, study: Study) -> pd.DataFrame:
    """`circuits` with the largest load and line current raised to those of any single failure; the feed stays named where its
    loss loads a circuit alike.
    """
    heavier = study.circuit_worst_kw > circuits["worst_kw"].to_numpy(dtype=np.float64) + 1e-6
    more = study.circuit_phase_a > circuits["worst_phase_a"].to_numpy(dtype=np.float64) + 1e-6
    return circuits.assign(
        worst_kw=circuits["worst_kw"].where(~heavier, study.circuit_worst_kw.round(6)),
        worst_case=circuits["worst_case"].where(~heavier, study.circuit_worst_case),
        worst_phase_a=circuits["worst_phase_a"].where(~more, study.circuit_phase_a.round(6)),
        worst_phase=circuits["worst_phase"].where(
            ~more, np.array(line_currents.LINES, dtype=object)[study.circuit_phase]
        ),
        phase_case=circuits["phase_case"].where(~more, study.circuit_phase_case),
    )
