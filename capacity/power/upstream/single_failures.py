"""Every single failure of the supply: what loses power, what is left of each group of supplies, what is overloaded.

In: the tree above the circuits, the circuits, the cords and what they feed. Out: for each failure the circuits that are
dead, the loads that lose supplies and those that go dark, the load of every circuit and element afterwards.

A failure takes an element, all of a room, or the grid. What hangs on it takes its next source, if it has one: a board
goes to a spare transformer, then to the generators; the UPS rides through meanwhile (capacity.power.operation.standby judges
whether it can). A load whose supplies are partly dead draws the same from those that are left, at most its power cap. It
goes dark when fewer are left than it needs, or when they deliver too little: then all of it is lost, and nothing of it
stays on the other feeds. Overloads are reported and trip nothing: no cascades.

Everything is done for many failures at once, and only where a failure changes something: the circuits below it, those that
take over, and the elements above both. The work grows with circuits x levels.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.rack import line_currents
from capacity.power.rack.distribution import Cords
from capacity.power.upstream.power_factor import PowerFactors
from capacity.power.upstream.tree import Tree, losses_kw
from inventory.site.sections.electrical import Electrical

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DEAD_CIRCUITS = 150_000
"""Dead circuits of all failures that are worked on at once: bounds the memory. With it a plan of 1,000,000 GPUs takes 3.6 GB."""
NOTHING_KW = 1e-9
"""A load below this is none: what is left where equal loads were added and taken away."""
EQUAL = 1e-6
"""Loads in kW and currents in A nearer than this are equal, as in the frames, which have six places: the first failure that
causes them is named."""


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
    legs: line_currents.Legs | None = None

    @functools.cached_property
    def losses(self) -> "Losses":
        """What elements take besides their output."""
        tree, e = self.tree, self.electrical
        rating = tree.elements["rating"].to_numpy(dtype=np.float64)
        size = len(rating)
        efficiency, rated = np.ones(size), np.ones(size)
        no_load, load_loss, passes = np.zeros(size), np.zeros(size), np.ones(size, dtype=bool)
        efficiency[tree.rows("ups")] = e.ups_blocks.efficiency
        passes[tree.rows("generators")] = False
        for kind, facts in (("transformer", e.transformers), ("pdu_transformer", e.pdu_transformers)):
            if facts is not None:
                rows = tree.rows(kind)
                rated[rows] = np.maximum(rating[rows], 1.0) * self.factors.of(kind)
                no_load[rows], load_loss[rows] = facts.no_load_kw, facts.load_loss_kw
        return Losses(efficiency, rated, no_load, load_loss, passes)

    @property
    def circuits(self) -> int:
        """Number of rack circuits."""
        return len(self.end_kw)

    @property
    def cord_leg(self) -> Ints:
        """Leg of its circuit that each cord hangs on."""
        return self.legs.of_cord if self.legs is not None else np.full(len(self.cord_load), line_currents.EVEN)

    def base_leg_kw(self) -> Floats:
        """Load of each leg of each circuit with everything in order."""
        share = (self.groups.normal_w / np.maximum(self.groups.count, 1))[self.cord_load] / 1000
        return line_currents.leg_watts(self.cord_leg, self.cord_circuit, share, self.end_kw)

    def base_kw(self) -> Floats:
        """Load of each circuit with everything in order."""
        return np.asarray(self.base_leg_kw().sum(axis=1))

    def phase_a(self, leg_kw: Floats, circuit: Ints) -> tuple[Floats, Ints]:
        """Largest line current in A of each row, and its line."""
        if self.legs is None:
            return np.zeros(len(leg_kw)), np.zeros(len(leg_kw), dtype=np.int64)
        lines = self.legs.line_a(leg_kw * 1000, circuit)
        return lines.max(axis=1), lines.argmax(axis=1)

    @functools.cached_property
    def mains(self) -> tuple[Ints, Ints]:
        """(circuit, element) for each panel and PDU transformer whose lines carry the circuit: its own neutral point feeds it."""
        tree, every = self.tree, np.arange(self.circuits)
        above = tree.sources[tree.panel_of, 0]
        own = np.isin(above, tree.rows("pdu_transformer"))
        return np.concatenate([every, every[own]]), np.concatenate([tree.panel_of, above[own]])

    def main_a(self, leg_kw: Floats, element: Ints) -> tuple[Floats, Ints]:
        """Largest line current in A of panels or PDU transformers that carry these legs, and its line."""
        if self.legs is None:
            return np.zeros(len(leg_kw)), np.zeros(len(leg_kw), dtype=np.int64)
        volts = self.tree.elements["voltage_v"].to_numpy(dtype=np.float64)
        legs = replace(self.legs, volts=volts, phases=np.full(len(volts), 3))
        lines = legs.line_a(leg_kw * 1000, element)
        return lines.max(axis=1), lines.argmax(axis=1)

    def drop_per_m(self, leg_kw: Floats, circuit: Ints) -> Floats:
        """Voltage drop of each row over a metre of the rack conductor, as a share of the rated voltage, on its worst leg."""
        if self.legs is None:
            return np.zeros(len(leg_kw))
        branch = self.electrical.rack_conductor
        return self.legs.drop_share(leg_kw * 1000, circuit, complex(branch.r_ohm_km, branch.x_ohm_km) / 1000)


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
    legs: line_currents.Legs,
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
    spot, spots = pd.factorize(
        np.concatenate([failure[at] * circuits + net.cord_circuit[cord], dead_failure * circuits + dead_circuit])
    )
    is_dead = np.zeros(len(spots), dtype=bool)
    is_dead[spot[len(at) :]] = True
    spot = spot[: len(at)]
    after = np.where(is_dead[spot] | dark[at], 0.0, (groups.lost_w[load] / np.maximum(left, 1))[at])
    delta = (after - (groups.normal_w / np.maximum(groups.count, 1))[load][at]) / 1000
    slots = spot * line_currents.WIDTH + net.cord_leg[cord]
    change = np.bincount(slots, delta, minlength=len(spots) * line_currents.WIDTH).reshape(-1, line_currents.WIDTH)
    kw = net.base_leg_kw()[spots % circuits] + change
    kw[is_dead] = 0.0
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
    """Output of every element in kW (input of a transformer or UPS is its output and its loss); states x elements.

    `panel_kw` (states x elements) holds the sums of the circuits at the panels.
    """
    tree = net.tree
    load = panel_kw.copy()
    mechanical = tree.rows("mechanical")
    if len(mechanical):
        load[:, mechanical] = _mechanical_kw(net, lives[:, mechanical])
    level, size = tree.levels, load.shape
    for depth in range(int(level.max(initial=0)), 0, -1):
        rows = np.flatnonzero(level == depth)
        source = chosen[:, rows]
        flat = (np.arange(size[0])[:, None] * size[1] + np.maximum(source, 0)).ravel()
        weights = np.where(source >= 0, inputs_kw(net, rows, load[:, rows], lives[:, rows]), 0.0).ravel()
        load += np.bincount(flat, weights, minlength=size[0] * size[1]).reshape(size)
    return load


def _mechanical_kw(net: Network, up: Bools) -> Floats:
    """kW of each mechanical board; `up` (states x boards) says which have power and share the load."""
    return np.where(up, net.mechanical_kw / np.maximum(up.sum(axis=1, keepdims=True), 1), 0.0)


@dataclass(frozen=True, eq=False)
class Losses:
    """What each element takes from its source besides its output: efficiency, rated kW and losses of transformers (0: none).
    `passes` is False for a generator plant: its sets are its members, and carry nothing by themselves.
    """

    efficiency: Floats
    rated_kw: Floats
    no_load_kw: Floats
    load_loss_kw: Floats
    passes: Bools


def inputs_kw(net: Network, rows: Ints, kw: Floats, lives: Bools) -> Floats:
    """What elements take from their source for an output of `kw`: it and their losses. `rows` says which they are, last axis
    of `kw` and `lives`. A spare transformer without load stands switched off.
    """
    of = net.losses
    used = kw / of.rated_kw[rows]
    on = lives & ((kw > 0) | ~net.tree.spare[rows])
    lost = np.where(on, losses_kw(of.no_load_kw[rows], of.load_loss_kw[rows], used), 0.0)
    return np.where(of.passes[rows], kw / of.efficiency[rows] + lost, 0.0)


def grid_kw(net: Network) -> float:
    """What the grid's lines carry together with everything in order."""
    return float(normal(net, net.base_kw()).kw[net.tree.rows("utility")].sum())


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


@dataclass(frozen=True, eq=False)
class Normal:
    """Elements with everything in order: which have power, the row of the source of each (-1: none), output and input."""

    lives: Bools
    chosen: Ints
    kw: Floats
    input_kw: Floats


def normal(net: Network, base: Floats) -> Normal:
    """The supply with everything in order; `base` is the load of the circuits in kW."""
    tree, size = net.tree, len(net.tree.elements)
    panels = np.bincount(tree.panel_of, base, minlength=size).astype(np.float64)
    lives, chosen = alive(tree, np.zeros((1, size), dtype=bool))
    kw = element_loads(net, lives, chosen, panels[None, :])[0]
    return Normal(lives[0], chosen[0], kw, inputs_kw(net, np.arange(size), kw, lives[0]))


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


def lost_loads(net: Network, row: int) -> Ints:
    """Rows of the loads that go dark in the failure of this row of `study`."""
    tree = net.tree
    names, _, (failure, element) = single_failures(tree)
    if row < len(names):
        failed = np.zeros((1, len(tree.elements)), dtype=bool)
        failed[0, element[failure == row]] = True
        dead = np.flatnonzero(~alive(tree, failed)[0][0, tree.panel_of])
    else:
        dead = np.array([row - len(names)], dtype=np.int64)
    out = redistribute(net, np.zeros(len(dead), dtype=np.int64), dead, 1)
    return out.affected_load[out.dark]


@dataclass(frozen=True, eq=False)
class Switched:
    """What failures do to the tree: `dead` and `moved` are pairs of failure and element as failure x elements + element,
    sorted; those that are moved hang on `source`.
    """

    dead: Ints
    moved: Ints
    source: Ints

    def of(self, first: int, last: int) -> "Switched":
        """The part with pairs from `first` to before `last`, counted from `first`."""
        dead, moved = (slice(*np.searchsorted(keys, (first, last))) for keys in (self.dead, self.moved))
        return Switched(self.dead[dead] - first, self.moved[moved] - first, self.source[moved])


def _holds(keys: Ints, asked: Ints) -> Bools:
    """Which of `asked` are in the sorted `keys`."""
    if not len(keys):
        return np.zeros(len(asked), dtype=bool)
    return np.asarray(keys[np.minimum(np.searchsorted(keys, asked), len(keys) - 1)] == asked)


def switched(tree: Tree, usual: Normal, members: Ints) -> Switched:
    """What loses power and what takes another source when `members` fail. Only what hangs on something dead is looked at."""
    size, level = len(tree.elements), tree.levels
    below = grouping(usual.chosen + 1, size + 1)
    failed = np.unique(members[0] * size + members[1])
    dead = failed
    waiting: list[list[Ints]] = [[] for _ in range(int(level.max(initial=0)) + 1)]

    def wait_below(keys: Ints) -> None:
        at, user = expand(keys % size + 1, *below)
        pairs = (keys // size)[at] * size + user
        for depth in np.flatnonzero(np.bincount(level[user])):
            waiting[depth].append(pairs[level[user] == depth])

    wait_below(failed)
    moved, sources = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for at_level in waiting:
        if not at_level:
            continue
        pairs = np.unique(np.concatenate(at_level))
        pairs = pairs[~_holds(failed, pairs)]
        failure, element = pairs // size, pairs % size
        taken = np.full(len(pairs), -1, dtype=np.int64)
        seeking = np.arange(len(pairs))
        for choice in range(tree.sources.shape[1]):
            source = tree.sources[element[seeking], choice]
            seeking, source = seeking[source >= 0], source[source >= 0]
            if not len(seeking):
                break
            able = usual.lives[source] & ~_holds(dead, failure[seeking] * size + source)
            taken[seeking[able]] = source[able]
            seeking = seeking[~able]
        lost = pairs[taken < 0]
        moved.append(pairs[taken >= 0])
        sources.append(taken[taken >= 0])
        dead = np.sort(np.concatenate([dead, lost]))
        wait_below(lost)
    every = np.concatenate(moved)
    order = np.argsort(every)
    return Switched(dead, every[order], np.concatenate(sources)[order])


@dataclass(frozen=True, eq=False)
class Changed:
    """Elements whose load a failure changes: pairs of failure and element, each once in any order, and the kW of each after."""

    failure: Ints
    element: Ints
    kw: Floats


def changed_loads(net: Network, usual: Normal, at: Switched, panels: Ints, panel_kw: Floats) -> Changed:
    """Loads of the elements that differ from `usual`. `panel_kw` is what changes at `panels`, pairs of failure and panel as in
    Switched. What an element takes more or less than usual changes its source, level by level.
    """
    tree, size = net.tree, len(net.tree.elements)
    level = tree.levels
    dead_failure, dead_element = at.dead // size, at.dead % size
    boards = tree.rows("mechanical")
    pairs, more = [panels, at.dead, at.moved], [panel_kw, np.zeros(len(at.dead)), np.zeros(len(at.moved))]
    if len(boards) and net.mechanical_kw:
        hit = np.unique(dead_failure[np.isin(dead_element, boards)])
        of_hit = (hit[:, None] * size + boards).ravel()
        up = ~_holds(at.dead, of_hit).reshape(-1, len(boards))
        pairs.append(of_hit)
        more.append((_mechanical_kw(net, up) - usual.kw[boards]).ravel())
    waiting: list[list[tuple[Ints, Floats]]] = [[] for _ in range(int(level.max(initial=0)) + 1)]

    def wait(keys: Ints, kw: Floats) -> None:
        depth_of = level[keys % size]
        for depth in np.flatnonzero(np.bincount(depth_of)):
            waiting[depth].append((keys[depth_of == depth], kw[depth_of == depth]))

    wait(np.concatenate(pairs), np.concatenate(more))
    found: list[tuple[Ints, Floats]] = []
    for at_level in reversed(waiting):
        if not at_level:
            continue
        inverse, keys = pd.factorize(np.concatenate([own for own, _ in at_level]))
        change = np.bincount(inverse, np.concatenate([kw for _, kw in at_level]), minlength=len(keys))
        element = keys % size
        kw = usual.kw[element] + change
        kw[kw < NOTHING_KW] = 0.0
        found.append((keys, kw))
        lives = usual.lives[element] & ~_holds(at.dead, keys)
        place = np.minimum(np.searchsorted(at.moved, keys), max(len(at.moved) - 1, 0))
        source = usual.chosen[element]
        if len(at.moved):
            source = np.where(at.moved[place] == keys, at.source[place], source)
        first = keys - element
        before, after = usual.chosen[element] >= 0, lives & (source >= 0)
        wait((first + usual.chosen[element])[before], -usual.input_kw[element][before])
        wait((first + source)[after], inputs_kw(net, element, kw, lives)[after])
    every = np.concatenate([np.zeros(0, dtype=np.int64), *(keys for keys, _ in found)])
    return Changed(every // size, every % size, np.concatenate([np.zeros(0), *(kw for _, kw in found)]))


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
            "worst_element": fullest,
            "worst_pct": (used * 100).round(3),
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
