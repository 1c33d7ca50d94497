"""Which source each element of the supply takes, and what it then carries.

In: the network, elements that fail. Out: sources, outputs and inputs of all elements with everything in order, and of those that
a failure changes.

What hangs on a failed element takes its next source, if it has one: a board goes to a spare transformer, then to the
generators; the UPS rides through meanwhile (capacity.power.operation.standby judges whether it can).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.upstream.network import Network
from capacity.power.upstream.redistribution import expand, grouping
from capacity.power.upstream.tree import Tree, losses_kw

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NOTHING_KW = 1e-9
"""A load below this is none: what is left where equal loads were added and taken away."""


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
