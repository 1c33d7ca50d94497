"""Every single failure of the supply: what loses power, what is left of each group of supplies, what is overloaded.

In: the tree above the circuits, the circuits, the cords and what they feed. Out: for each failure the circuits that are
dead, the loads that lose supplies and those that go dark, the load of every circuit and element afterwards.

A failure takes an element, all of a room, or the grid. What hangs on it takes its next source, if it has one: a board
goes to a spare transformer, then to the generators; the UPS rides through meanwhile (capacity.power.standby judges
whether it can). A load whose supplies are partly dead draws the same from those that are left, at most its power cap. It
goes dark when fewer are left than it needs, or when they deliver too little: then all of it is lost, and nothing of it
stays on the other feeds. Overloads are reported and trip nothing: no cascades.

Everything is done for many failures at once: a failure touches the circuits below it only, so the work grows with
circuits x levels.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power import phases
from capacity.power.distribution import Cords
from capacity.power.power_factor import PowerFactors
from capacity.power.tree import Tree, losses_kw
from inventory.schema import Electrical

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CELLS = 4_000_000
"""Failures x elements worked on at once: bounds the memory."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Loads and their supplies, one row a load: `normal_w` and `lost_w` as the circuits are judged, `drop_w` what its
    supplies must still deliver, `needed` of `count` supplies, `rating_w` of one, `servers` GPU servers that it feeds.
    """

    names: npt.NDArray[np.object_]
    normal_w: Floats
    lost_w: Floats
    drop_w: Floats
    needed: Ints
    count: Ints
    rating_w: Floats
    servers: Ints


UNITY = PowerFactors()


@dataclass(frozen=True, eq=False)
class Network:
    """What a failure is worked out on: tree, cords (load and circuit of each), own kW and usable kW of circuits, and the
    legs of cords (None: all even).
    """

    tree: Tree
    electrical: Electrical
    groups: Groups
    cord_load: Ints
    cord_circuit: Ints
    end_kw: Floats
    usable_kw: Floats
    mechanical_kw: float
    factors: PowerFactors = UNITY
    legs: phases.Legs | None = None

    @property
    def circuits(self) -> int:
        """Number of rack circuits."""
        return len(self.end_kw)

    @property
    def cord_leg(self) -> Ints:
        """Leg of its circuit that each cord hangs on."""
        return self.legs.of_cord if self.legs is not None else np.full(len(self.cord_load), phases.EVEN)

    def base_leg_kw(self) -> Floats:
        """Load of each leg of each circuit with everything in order."""
        share = (self.groups.normal_w / np.maximum(self.groups.count, 1))[self.cord_load] / 1000
        return phases.leg_watts(self.cord_leg, self.cord_circuit, share, self.end_kw)

    def base_kw(self) -> Floats:
        """Load of each circuit with everything in order."""
        return np.asarray(self.base_leg_kw().sum(axis=1))

    def phase_a(self, leg_kw: Floats, circuit: Ints) -> tuple[Floats, Ints]:
        """Largest line current in A of each row, and its line."""
        if self.legs is None:
            return np.zeros(len(leg_kw)), np.zeros(len(leg_kw), dtype=np.int64)
        lines = self.legs.line_a(leg_kw * 1000, circuit)
        return lines.max(axis=1), lines.argmax(axis=1)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Failures (rows) after redistribution. `touched` are (failure, circuit, kW of its legs after) of circuits whose load
    changed;
    `affected` (failure, load, supplies left); `dark` marks those of `affected` that are lost;
    `dead_ends_kw` is the own draw of the rack PDUs or shelves of each failure's dead circuits.
    """

    dead_circuits: Ints
    dead_ends_kw: Floats
    touched_failure: Ints
    touched_circuit: Ints
    touched_leg_kw: Floats
    affected_failure: Ints
    affected_load: Ints
    affected_left: Ints
    dark: Bools

    @property
    def touched_kw(self) -> Floats:
        """Load of the whole circuit after."""
        return np.asarray(self.touched_leg_kw.sum(axis=1))


def network(
    tree: Tree,
    electrical: Electrical,
    groups: Groups,
    cord: Cords,
    end_w: Floats,
    usable_kw: Floats,
    mechanical_kw: float,
    factors: PowerFactors,
    legs: phases.Legs,
) -> Network:
    """The arrays of one site; cords as the plan made them, `end_w` the own draw of each circuit's end."""
    return Network(
        tree,
        electrical,
        groups,
        cord.frame["device_index"].to_numpy(dtype=np.int64),
        cord.frame["pdu_index"].to_numpy(dtype=np.int64),
        end_w / 1000,
        usable_kw,
        mechanical_kw,
        factors,
        legs,
    )


def expand(keys: Ints, order: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """(position in `keys`, member) for all members of each key, in a grouping given by `order` and `starts`."""
    sizes = starts[keys + 1] - starts[keys]
    position = np.repeat(np.arange(len(keys)), sizes)
    offset = np.arange(len(position)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return position, order[starts[keys][position] + offset]


def grouping(values: Ints, size: int) -> tuple[Ints, Ints]:
    """`order`, `starts` of a grouping of positions by value, for `expand`."""
    order = np.argsort(values, kind="stable")
    return order, np.searchsorted(values[order], np.arange(size + 1)).astype(np.int64)


def redistribute(net: Network, dead_failure: Ints, dead_circuit: Ints, failures: int) -> Outcome:
    """What the loads do when these circuits (pairs of failure and circuit) are dead."""
    groups, loads, circuits = net.groups, len(net.groups.count), net.circuits
    by_circuit, by_load = grouping(net.cord_circuit, circuits), grouping(net.cord_load, loads)
    position, dead_cord = expand(dead_circuit, *by_circuit)
    cord_failure = dead_failure[position]
    keys, lost = np.unique(cord_failure * loads + net.cord_load[dead_cord], return_counts=True)
    failure, load = keys // loads, keys % loads
    left = groups.count[load] - lost
    dark = (left < groups.needed[load]) | (left * groups.rating_w[load] < groups.drop_w[load] - 1e-6)

    at, cord = expand(load, *by_load)
    cords = len(net.cord_load)
    dead_keys = np.sort(cord_failure * cords + dead_cord)
    own = failure[at] * cords + cord
    found = np.searchsorted(dead_keys, own)
    is_dead = (found < len(dead_keys)) & (dead_keys[np.minimum(found, max(len(dead_keys) - 1, 0))] == own) if len(
        dead_keys
    ) else np.zeros(len(own), dtype=bool)  # fmt: skip
    after = np.where(is_dead | dark[at], 0.0, groups.lost_w[load[at]] / np.maximum(left[at], 1))
    delta = (after - groups.normal_w[load[at]] / groups.count[load[at]]) / 1000
    spots, inverse = np.unique(
        np.concatenate([failure[at] * circuits + net.cord_circuit[cord], dead_failure * circuits + dead_circuit]),
        return_inverse=True,
    )
    slots = inverse[: len(delta)] * phases.WIDTH + net.cord_leg[cord]
    change = np.bincount(slots, delta, minlength=len(spots) * phases.WIDTH).reshape(-1, phases.WIDTH)
    kw = net.base_leg_kw()[spots % circuits] + change
    kw[np.isin(spots, dead_failure * circuits + dead_circuit)] = 0.0
    return Outcome(
        np.bincount(dead_failure, minlength=failures),
        np.bincount(dead_failure, net.end_kw[dead_circuit], minlength=failures).astype(np.float64),
        spots // circuits,
        spots % circuits,
        np.maximum(kw, 0.0),
        failure,
        load,
        left,
        dark,
    )


def alive(tree: Tree, failed: Bools) -> tuple[Bools, Ints]:
    """Which elements have power, and the row of the source that each takes (-1: none); failures x elements."""
    lives = ~failed
    chosen = np.full(failed.shape, -1, dtype=np.int64)
    level = tree.levels
    for depth in range(1, int(level.max(initial=0)) + 1):
        rows = np.flatnonzero((level == depth) & ~tree.is_root)
        taken = np.full((len(failed), len(rows)), -1, dtype=np.int64)
        width = int((tree.sources[rows] >= 0).sum(axis=1).max(initial=0))
        for choice in range(width - 1, -1, -1):
            source = tree.sources[rows, choice]
            able = (source >= 0) & lives[:, np.maximum(source, 0)]
            taken = np.where(able, source, taken)
        lives[:, rows] &= taken >= 0
        chosen[:, rows] = taken
    return lives, chosen


def element_loads(net: Network, lives: Bools, chosen: Ints, panel_kw: Floats) -> Floats:
    """Output of every element in kW (input of a transformer or UPS is its output and its loss); failures x elements.

    `panel_kw` (failures x elements) holds the sums of the circuits at the panels.
    """
    tree, e = net.tree, net.electrical
    load = panel_kw.copy()
    mechanical = tree.rows("mechanical")
    if len(mechanical):
        up = lives[:, mechanical]
        load[:, mechanical] = np.where(up, net.mechanical_kw / np.maximum(up.sum(axis=1, keepdims=True), 1), 0.0)
    kinds = tree.elements["kind"].to_numpy(dtype=object)
    level, size = tree.levels, load.shape
    rating = tree.elements["rating"].to_numpy(dtype=np.float64)
    for depth in range(int(level.max(initial=0)), 0, -1):
        rows = np.flatnonzero(level == depth)
        rows = rows[kinds[rows] != "generators"]
        taken = load[:, rows]
        taken = np.where(kinds[rows] == "ups", taken / e.ups_blocks.efficiency, taken)
        for kind, facts in (("transformer", e.transformers), ("pdu_transformer", e.pdu_transformers)):
            if facts is not None:
                on = (kinds[rows] == kind) & lives[:, rows]
                used = taken / (np.maximum(rating[rows], 1.0) * net.factors.of(kind))
                lossy = on & ((taken > 0) | ~net.tree.spare[rows])
                taken = np.where(lossy, taken + losses_kw(facts, used), taken)
        source = chosen[:, rows]
        flat = (np.arange(size[0])[:, None] * size[1] + np.maximum(source, 0)).ravel()
        weights = np.where(source >= 0, taken, 0.0).ravel()
        load += np.bincount(flat, weights, minlength=size[0] * size[1]).reshape(size)
    return load


def grid_kw(net: Network) -> float:
    """What the grid's lines carry together with everything in order."""
    return float(_normal_kw(net, net.base_kw())[net.tree.rows("utility")].sum())


@dataclass(frozen=True, eq=False)
class Study:
    """All single failures: `frame` as the plan's `failures`; normal and worst kW of elements and of circuits, and the largest
    line current of circuits, with the failure that causes it ('' for normal operation).
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


def single_failures(tree: Tree) -> tuple[list[str], list[str], Iterator[Bools]]:
    """Names, kinds and rows (in chunks) of: each element alone, each room, the grid."""
    elements = tree.elements
    domains = list(dict.fromkeys(elements["domain"]))
    names = [*elements["name"], *domains]
    kinds = [*elements["kind"], *("grid" if d == "grid" else "room" for d in domains)]

    def rows() -> Iterator[Bools]:
        size = len(elements)
        step = max(CELLS // max(size, 1), 1)
        members = elements["domain"].to_numpy(dtype=object)
        for start in range(0, len(names), step):
            stop = min(start + step, len(names))
            failed = np.zeros((stop - start, size), dtype=bool)
            for at, failure in enumerate(range(start, stop)):
                if failure < size:
                    failed[at, failure] = True
                else:
                    failed[at] = members == domains[failure - size]
            yield failed

    return names, kinds, rows()


def _normal_kw(net: Network, base: Floats) -> Floats:
    """Load of every element with everything in order; `base` is that of the circuits."""
    tree, size = net.tree, len(net.tree.elements)
    panels = np.bincount(tree.panel_of, base, minlength=size).astype(np.float64)
    lives, chosen = alive(tree, np.zeros((1, size), dtype=bool))
    return element_loads(net, lives, chosen, panels[None, :])[0]


def _outcomes(net: Network, chunks: Iterator[Bools], base: Floats) -> Iterator[tuple[int, Outcome, Floats]]:
    """Number of failures before, outcome and element loads of each chunk of failures of elements."""
    tree, size = net.tree, len(net.tree.elements)
    by_panel, panels = grouping(tree.panel_of, size), tree.rows("panel")
    base_panels = np.bincount(tree.panel_of, base, minlength=size).astype(np.float64)
    done = 0
    for failed in chunks:
        lives, chosen = alive(tree, failed)
        failure, which = np.nonzero(~lives[:, panels])
        at, dead = expand(panels[which], *by_panel)
        out = redistribute(net, failure[at], dead, len(failed))
        delta = out.touched_kw - base[out.touched_circuit]
        sums = np.bincount(
            out.touched_failure * size + tree.panel_of[out.touched_circuit], delta, minlength=failed.size
        ).reshape(failed.shape)
        yield done, out, element_loads(net, lives, chosen, np.maximum(base_panels[None, :] + sums, 0.0))
        done += len(failed)


def worst_kw(net: Network) -> Floats:
    """Worst load of every element, with everything in order and after any single failure: that of `study`, and no more."""
    base = net.base_kw()
    worst = _normal_kw(net, base)
    for _, _, load in _outcomes(net, single_failures(net.tree)[2], base):
        worst = np.maximum(worst, load.max(axis=0))
    return worst


def study(net: Network, circuits: pd.DataFrame) -> Study:
    """Every single failure, circuits included. `circuits` is the plan's frame."""
    tree = net.tree
    size, base = len(tree.elements), net.base_kw()
    names, kinds, chunks = single_failures(tree)
    normal = _normal_kw(net, base)
    limit = tree.elements["limit_kw"].to_numpy(dtype=np.float64)

    worst, case = normal.copy(), np.full(size, -1, dtype=np.int64)
    every = np.arange(net.circuits)
    circuit_worst, circuit_case = base.copy(), np.full(net.circuits, -1, dtype=np.int64)
    phase_a, phase = net.phase_a(net.base_leg_kw(), every)
    phase_case = np.full(net.circuits, -1, dtype=np.int64)

    def raise_circuits(out: Outcome, done: int) -> None:
        _raise(out.touched_kw, out, circuit_worst, circuit_case, done)
        amps, line = net.phase_a(out.touched_leg_kw, out.touched_circuit)
        rows, which = _raise(amps, out, phase_a, phase_case, done)
        phase[rows] = line[which]

    rows = []
    for done, out, load in _outcomes(net, chunks, base):
        top = load.argmax(axis=0)
        peak = load[top, np.arange(size)]
        more = peak > worst + 1e-9
        worst, case = np.where(more, peak, worst), np.where(more, top + done, case)
        raise_circuits(out, done)
        used = np.where(limit > 0, load / np.maximum(limit, 1e-9), 0.0)
        rows.append(_summary(net, out, used, tree.elements["name"].to_numpy(dtype=object), base))

    out = redistribute(net, every, every, net.circuits)
    raise_circuits(out, size + len(set(tree.elements["domain"])))
    rows.append(_summary(net, out, np.zeros((net.circuits, 1)), np.array([""], dtype=object), base))
    names += circuits["circuit"].tolist()
    labels = np.array([*names, ""], dtype=object)
    frame = pd.concat(rows, ignore_index=True)
    frame.insert(0, "failure", names)
    frame.insert(1, "kind", [*kinds, *(["circuit"] * net.circuits)])
    return Study(
        frame, normal, worst, labels[case], circuit_worst, labels[circuit_case], phase_a, phase, labels[phase_case]
    )


def _raise(values: Floats, out: Outcome, worst: Floats, case: Ints, done: int) -> tuple[Ints, Ints]:
    """Raise `worst` and `case` of the circuits in place to the `values` of `out`; the circuits raised and the positions in
    `out` that they come from.
    """
    order = np.argsort(values, kind="stable")
    top = np.full(len(worst), -1, dtype=np.int64)
    top[out.touched_circuit[order]] = order
    rows = np.flatnonzero(top >= 0)
    rows = rows[values[top[rows]] > worst[rows] + 1e-9]
    worst[rows], case[rows] = values[top[rows]], out.touched_failure[top[rows]] + done
    return rows, top[rows]


def _summary(net: Network, out: Outcome, used: Floats, names: npt.NDArray[np.object_], base: Floats) -> pd.DataFrame:
    """Rows of the `failures` frame but name and kind."""
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
    columns = used.argmax(axis=1)

    def of_tightest(values: npt.NDArray[np.generic], blank: float | str) -> npt.NDArray[np.generic]:
        if not len(values):
            return np.full(size, blank)
        return np.where(hit, values[worst], blank)

    load = out.affected_load
    change = np.bincount(out.touched_failure, out.touched_kw - base[out.touched_circuit], minlength=size)
    saved = (groups.normal_w - groups.lost_w)[load] / 1000
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
            "worst_element": np.where(used.max(axis=1) > 0, names[columns], ""),
            "worst_pct": (used.max(axis=1) * 100).round(3),
        }
    )
