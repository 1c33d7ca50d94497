"""Concurrent maintainability: each pair of two elements of the supply out at once, without trying each pair.

In: the tree, the loads and their supplies. Out: how many pairs lose GPU servers, and the worst pair; and the element that a
pair overloads most, though no single failure does.

What kills an element is a cut: the element itself, or one cut of every source that it may take. Cuts of one and of two
elements are all that a pair can hold, and a panel has few of them: those on its path, and the pairs that take a path and
its reserve. Loads with equal supplies on equal panels are one class. Only the elements on the paths of a class can make a
pair with an effect that is more than the sum of two single failures, so the work grows with the number of classes.

Two outages overload what both send their load to: a source that several elements may take instead of their own, which is worst
off with the two heaviest of them, and the mechanical boards that are left.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.upstream import single_failures, switching
from capacity.power.upstream.loading import rating_text
from capacity.power.upstream.network import Groups, Network
from capacity.power.upstream.switching import Normal
from capacity.power.upstream.tree import Tree
from inventory.findings import Finding, finding, remedy
from inventory.site.sections.electrical import Electrical

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Cuts:
    """What kills an element: single elements, and pairs of which neither does it alone."""

    singles: frozenset[int]
    pairs: frozenset[Pair]


@dataclass(frozen=True)
class Pairs:
    """Maintenance of one element and failure of another: how many pairs were judged, how many lose servers, the worst."""

    judged: int
    losing: int
    servers: int
    maintained: str
    failed: str


@dataclass(frozen=True)
class Overload:
    """An element (row of the tree) that carries `kw` while one part is out for maintenance and another fails, the fullest by its
    limit of `count` such elements.
    """

    element: int
    kw: float
    maintained: str
    failed: str
    count: int


@dataclass(frozen=True)
class LoadClass:
    """Loads with equal supplies on equal panels: supplies on each panel, the most that may be lost, GPU servers of all."""

    supplies: dict[int, int]
    spare: int
    servers: int


def cuts_of(tree: Tree) -> list[Cuts]:
    """The cuts of each element, in the order of the tree: sources stand above what they feed."""
    made: list[Cuts] = []
    shared: dict[tuple[int, ...], Cuts] = {}
    for row, sources in enumerate(tree.sources):
        given = tuple(int(source) for source in sources if source >= 0)
        if given not in shared:
            shared[given] = _all_of([made[source] for source in given])
        above = shared[given]
        made.append(Cuts(above.singles | {row}, above.pairs))
    return made


def _all_of(sources: list[Cuts]) -> Cuts:
    """Cuts of all `sources` together; none for an element that needs no source."""
    if not sources:
        return Cuts(frozenset(), frozenset())
    first, *others = sources
    singles, pairs = first.singles, first.pairs
    for other in others:
        both = singles & other.singles
        joined = {(min(a, b), max(a, b)) for a in singles - both for b in other.singles - both}
        joined |= {pair for pair in pairs if pair in other.pairs or not other.singles.isdisjoint(pair)}
        joined |= {pair for pair in other.pairs if not singles.isdisjoint(pair)}
        singles, pairs = both, frozenset(pair for pair in joined if both.isdisjoint(pair))
        if not singles and not pairs:
            break
    return Cuts(singles, pairs)


def load_classes(groups: Groups, cord_load: Ints, panel: Ints) -> list[LoadClass]:
    """Classes of loads that hold GPU servers; `cord_load` and `panel` give load and panel of each cord."""
    order = np.lexsort((panel, cord_load))
    width = int(groups.count.max(initial=1))
    place = np.arange(len(order)) - np.searchsorted(cord_load[order], cord_load[order])
    table = np.full((len(groups.count), width + 3), -1, dtype=np.int64)
    table[cord_load[order], place] = panel[order]
    table[:, width] = groups.needed
    table[:, width + 1] = groups.rating_w.astype(np.int64)
    table[:, width + 2] = np.ceil(groups.drop_w).astype(np.int64)
    _, keys, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    servers = np.bincount(inverse.ravel(), groups.servers, minlength=len(keys)).astype(np.int64)
    enough = np.ceil((groups.drop_w[keys] - 1e-6) / np.maximum(groups.rating_w[keys], 1e-9)).astype(np.int64)
    spare = groups.count[keys] - np.maximum(groups.needed[keys], enough)
    made = []
    for at in np.flatnonzero(servers > 0):
        panels, number = np.unique(table[keys[at], :width], return_counts=True)
        made.append(
            LoadClass(
                {int(p): int(n) for p, n in zip(panels, number, strict=True) if p >= 0},
                int(spare[at]),
                int(servers[at]),
            )
        )
    return made


def maintenance_pairs(net: Network) -> Pairs:
    """Every pair of two elements out at once, by what the supplies of alike loads have left."""
    tree = net.tree
    size = len(tree.elements)
    cuts = cuts_of(tree)
    alone = np.zeros(size, dtype=np.int64)
    beyond: dict[Pair, int] = {}
    for kind in load_classes(net.groups, net.cord_load, tree.panel_of[net.cord_circuit]):
        _add(kind, cuts, alone, beyond)
    lossy = np.flatnonzero(alone)
    some = len(lossy)
    losing = some * (size - 1) - some * (some - 1) // 2
    losing += sum(1 for (a, b), extra in beyond.items() if extra > 0 and not alone[a] and not alone[b])
    (first, second), servers = _worst(alone, beyond)
    judged = size * (size - 1) // 2
    if not losing:
        return Pairs(judged, 0, 0, "", "")
    names = tree.elements["name"].to_numpy(dtype=object)
    return Pairs(judged, losing, servers, str(names[first]), str(names[second]))


def _add(kind: LoadClass, cuts: list[Cuts], alone: Ints, beyond: dict[Pair, int]) -> None:
    """Add the servers that a class loses to `alone` (each element out alone) and to `beyond` (each pair, above the sum of
    its two elements; negative where both take the same servers).
    """
    lost: dict[int, int] = {}
    together: dict[Pair, int] = {}
    for panel, supplies in kind.supplies.items():
        on_path = sorted(cuts[panel].singles)
        for at, a in enumerate(on_path):
            lost[a] = lost.get(a, 0) + supplies
            for b in on_path[at + 1 :]:
                together[a, b] = together.get((a, b), 0) - supplies
        for pair in cuts[panel].pairs:
            together[pair] = together.get(pair, 0) + supplies
    elements = sorted(lost)
    dark = {a for a in elements if lost[a] > kind.spare}
    for a in dark:
        alone[a] += kind.servers
    candidates = {(a, b) for at, a in enumerate(elements) for b in elements[at + 1 :] if lost[a] + lost[b] > kind.spare}
    for a, b in candidates | together.keys():
        if a in dark and b in dark:
            extra = -kind.servers
        elif a in dark or b in dark or lost.get(a, 0) + lost.get(b, 0) + together.get((a, b), 0) <= kind.spare:
            continue
        else:
            extra = kind.servers
        beyond[a, b] = beyond.get((a, b), 0) + extra


def _worst(alone: Ints, beyond: dict[Pair, int]) -> tuple[Pair, int]:
    """The pair that takes the most servers down, the first in the order of the tree among equals, and their number."""
    best, most = (0, 0), 0

    def offer(a: int, b: int) -> None:
        nonlocal best, most
        pair = (min(a, b), max(a, b))
        servers = int(alone[a] + alone[b]) + beyond.get(pair, 0)
        if servers > most or (servers == most and pair < best):
            best, most = pair, servers

    for a, b in beyond:
        offer(a, b)
    order = np.argsort(-alone, kind="stable")
    for a in order[: int((alone > 0).sum())]:
        if alone[a] + alone[order[0]] < most:
            break
        apart = next((int(b) for b in order if b != a and (min(a, b), max(a, b)) not in beyond), None)
        if apart is not None:
            offer(int(a), apart)
    return best, most


def overload(net: Network, single_kw: Floats) -> Overload | None:
    """What two outages overload, and neither of them alone; `single_kw` is the worst load of each element in a single one."""
    tree = net.tree
    tried, kw, case = _of_pairs(net)
    if not tried:
        return None
    limit = tree.elements["limit_kw"].to_numpy(dtype=np.float64)
    over = np.flatnonzero((kw > limit + 1e-6) & (single_kw <= limit + 1e-6) & (limit > 0))
    if not len(over):
        return None
    worst = int(over[(kw[over] / limit[over]).argmax()])
    names = tree.elements["name"].to_numpy(dtype=object)
    first, second = tried[int(case[worst])]
    return Overload(worst, float(kw[worst]), str(names[first]), str(names[second]), len(over))


def loads_kw(net: Network) -> Floats:
    """The worst load of each element after two outages of those that `overload` tries; 0 where there are none."""
    return _of_pairs(net)[1]


def _of_pairs(net: Network) -> tuple[list[Pair], Floats, Ints]:
    """The pairs of outages that are tried, and of each element its worst load and the number of the pair that causes it."""
    tree = net.tree
    usual = switching.normal(net, net.base_kw())
    tried = sorted({*_sharing(tree, usual), *itertools.combinations(tree.rows("mechanical").tolist(), 2)})
    if not tried:
        return [], np.zeros(len(tree.elements)), np.zeros(len(tree.elements), dtype=np.int64)
    members = np.stack([np.repeat(np.arange(len(tried)), 2), np.array(tried).ravel()])
    return tried, *single_failures.worst_of(net, usual, members)


def _sharing(tree: Tree, usual: Normal) -> list[Pair]:
    """For each source in reserve, the normal sources of the two heaviest elements that may take it."""
    users: dict[int, dict[int, float]] = {}
    for row in np.flatnonzero((tree.sources >= 0).sum(axis=1) > 1).tolist():
        own = int(usual.chosen[row])
        for reserve in tree.sources[row]:
            if reserve >= 0 and reserve != own and own >= 0:
                loads = users.setdefault(int(reserve), {})
                loads[own] = loads.get(own, 0.0) + float(usual.kw[row])
    heaviest = (sorted(loads, key=lambda source: (-loads[source], source))[:2] for loads in users.values())
    return [(min(pair), max(pair)) for pair in heaviest if len(pair) == 2]


def check_maintenance(net: Network, electrical: Electrical) -> list[Finding]:
    """POWER-MAINTENANCE: what a failure does while another part is out, where the site asks for it."""
    if not electrical.concurrently_maintainable:
        return []
    pairs = maintenance_pairs(net)
    if not pairs.losing:
        return []
    return [
        finding(
            "POWER-MAINTENANCE",
            pairs.maintained,
            limit=0.0,
            limit_source="site electrical.concurrently_maintainable",
            err="ERR-45",
            pairs=pairs.losing,
            judged=pairs.judged,
            servers_lost=pairs.servers,
            words={"failed": pairs.failed},
            remedies=[remedy(fix="drain"), remedy(fix="further-feed")],
        )
    ]


def check_maintenance_load(net: Network, electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-MAINTENANCE-LOAD: what a failure overloads while another part is out, where the site asks for maintenance under
    load.
    """
    if not electrical.concurrently_maintainable:
        return []
    found = overload(net, elements["worst_kw"].to_numpy(dtype=np.float64)[: len(net.tree.elements)])
    if found is None:
        return []
    row = elements.iloc[found.element]
    return [
        finding(
            "POWER-MAINTENANCE-LOAD",
            str(row["name"]),
            limit=float(row["limit_kw"]),
            limit_source=f"site electrical, rating of {row['rating']:g} {row['unit']}",
            err="ERR-45",
            kw=round(found.kw, 3),
            count=found.count,
            words={"maintained": found.maintained, "failed": found.failed},
            remedies=[
                remedy(
                    fix="sufficient-rating", needed=rating_text(row["rating"] * found.kw / row["limit_kw"], row["unit"])
                ),
                remedy(fix="drain", drained_kw=found.kw - row["limit_kw"]),
            ],
        )
    ]
