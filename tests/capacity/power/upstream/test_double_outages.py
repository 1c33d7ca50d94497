"""Pairs of outages against trying each pair."""

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.power.upstream import double_outages
from capacity.power.upstream.network import Groups, Network
from capacity.power.upstream.tree import Tree
from inventory.site import load_site
from inventory.site.sections.electrical import Electrical


@dataclass(frozen=True)
class Case:
    """A small supply: sources of each element (roots first), panels, and for each load its cords' panels and needs."""

    sources: list[list[int]]
    panels: list[int]
    loads: list[tuple[list[int], int, int]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    roots = draw(st.integers(1, 4))
    sources: list[list[int]] = [[] for _ in range(roots)]
    for row in range(roots, roots + draw(st.integers(1, 8))):
        sources.append(draw(st.lists(st.integers(0, row - 1), min_size=1, max_size=3, unique=True)))
    above = len(sources)
    for _ in range(draw(st.integers(1, 4))):
        sources.append([draw(st.integers(0, above - 1))])
    panels = list(range(above, len(sources)))
    load = st.tuples(st.lists(st.sampled_from(panels), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 5))
    return Case(sources, panels, draw(st.lists(load, min_size=1, max_size=6)))


@functools.cache
def plant() -> Electrical:
    electrical = load_site("h100-1000-ib").electrical
    assert electrical is not None
    return electrical


def network_of(case: Case) -> Network:
    """The case as the planner holds it; one circuit a panel, supplies of 100 W and loads that need as many as stated."""
    size, width = len(case.sources), max(len(given) for given in case.sources) or 1
    sources = np.full((size, width), -1, dtype=np.int64)
    for row, above in enumerate(case.sources):
        sources[row, : len(above)] = above
    kinds = ["panel" if row in case.panels else "switchboard" for row in range(size)]
    elements = pd.DataFrame({"name": [f"e{row:02d}" for row in range(size)], "kind": kinds})
    roots = np.array([not given for given in case.sources])
    tree = Tree(elements, sources, roots, np.zeros(size, dtype=bool), np.array(case.panels))
    count = np.array([len(panels) for panels, _, _ in case.loads])
    needed = np.array([min(need, len(panels)) for panels, need, _ in case.loads])
    watts = needed * 100.0
    groups = Groups(
        np.array([f"load{i}" for i in range(len(count))], dtype=object),
        watts,
        watts,
        watts,
        needed,
        count,
        np.full(len(count), 100.0),
        np.array([servers for _, _, servers in case.loads]),
    )
    cords = [(load, case.panels.index(panel)) for load, (panels, _, _) in enumerate(case.loads) for panel in panels]
    return Network(
        tree,
        plant(),
        groups,
        np.array([load for load, _ in cords]),
        np.array([circuit for _, circuit in cords]),
        np.zeros(len(case.panels)),
        np.full(len(case.panels), 100.0),
        0.0,
    )


def tried(case: Case) -> tuple[int, int, set[tuple[str, str]]]:
    """(pairs that lose servers, most servers lost, the pairs that lose so many), by taking each pair out."""
    losses = {}
    for pair in itertools.combinations(range(len(case.sources)), 2):
        lives: list[bool] = []
        for row, above in enumerate(case.sources):
            lives.append(row not in pair and (not above or any(lives[source] for source in above)))
        losses[f"e{pair[0]:02d}", f"e{pair[1]:02d}"] = sum(
            servers for panels, need, servers in case.loads if sum(lives[p] for p in panels) < min(need, len(panels))
        )
    most = max(losses.values())
    return sum(lost > 0 for lost in losses.values()), most, {pair for pair, lost in losses.items() if lost == most}


@settings(max_examples=300, deadline=None)
@given(cases())
def test_pairs_are_those_of_trying_each(case: Case) -> None:
    found = double_outages.maintenance_pairs(network_of(case))
    losing, most, worst = tried(case)
    assert (found.judged, found.losing, found.servers) == (
        len(case.sources) * (len(case.sources) - 1) // 2,
        losing,
        most,
    )
    assert (found.maintained, found.failed) in (worst if most else {("", "")})


def test_a_reserve_dies_with_what_it_stands_in_for() -> None:
    """Two transformers side by side: either alone loses nothing, both lose the panel's server."""
    case = Case([[], [], [0], [1], [2, 3], [4]], [5], [([5], 1, 7)])
    cuts = double_outages.cuts_of(network_of(case).tree)
    assert cuts[5] == double_outages.Cuts(frozenset({4, 5}), frozenset({(0, 1), (0, 3), (1, 2), (2, 3)}))
    found = double_outages.maintenance_pairs(network_of(case))
    assert (found.losing, found.servers, found.maintained, found.failed) == (9 + 4, 7, "e00", "e01")
