"""The supply above the rack circuits as a tree: grid, intake, transformers, boards, UPS blocks, PDU transformers, panels.

In: the section `electrical` of the site file and the circuits of the plan with their worst load. Out: a Tree, with a
row for each element, the sources that it may take in order of preference, and the panel of each circuit. Counts follow
from the loads: rack circuits fill panels row by row in the order of the racks, panels fill UPS blocks evenly, each block has
a board and a transformer of its own. Equal sites give equal trees.

A failure domain is a room, or the grid; what stands in one domain can be lost together (ERR-45).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.circuits import usable_kw
from capacity.power.power_factor import power_factors
from inventory.schema import Electrical
from inventory.site import Site

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

GRID = "grid"
KINDS = (
    "utility", "intake", "transformer", "generators", "generator", "switchboard", "ups", "pdu_transformer", "panel",
    "mechanical", "circuit",
)  # fmt: skip
SPARE = {"n": 0, "n+1": 1, "n+2": 2}


@dataclass(frozen=True, eq=False)
class Tree:
    """`elements`: name, kind, feed, domain, voltage_v, rating, unit, limit_kw, rating_ka, length_m, top to bottom.

    `sources` (elements, choices) are rows of `elements` that feed it, the normal one first, -1 for none; `is_root` marks
    what needs no source. `panel_of` gives each circuit's row. `spare` marks elements that carry nothing normally.
    """

    elements: pd.DataFrame
    sources: Ints
    is_root: npt.NDArray[np.bool_]
    spare: npt.NDArray[np.bool_]
    panel_of: Ints

    def rows(self, *kinds: str) -> Ints:
        """Rows of elements of these kinds."""
        return np.flatnonzero(self.elements["kind"].isin(kinds).to_numpy())


def room_of(site: Site, feed: str) -> str:
    """Electrical room of a feed: the site's, or one of its own."""
    given = site.electrical.rooms if site.electrical else {}
    return given.get(feed, f"room-{feed.lower()}")


def usable_modules(electrical: Electrical, redundancy: str) -> int:
    """Modules of a UPS block that may carry load; the others are its redundancy."""
    total = electrical.ups_blocks.modules_per_block
    return total // 2 if redundancy == "2n" else total - SPARE[redundancy]


def fill(sizes: Floats, limit: float, places: int = 2**31) -> Ints:
    """Bin of each item, next fit in order: a bin takes items up to `limit` in sum and `places` in number.

    An item over the limit gets a bin of its own.
    """
    before = np.concatenate([[0.0], np.cumsum(sizes)])
    bins = np.zeros(len(sizes), dtype=np.int64)
    start = number = 0
    while start < len(sizes):
        stop = int(np.searchsorted(before, before[start] + limit + 1e-9, side="right")) - 1
        stop = min(max(stop, start + 1), start + places)
        bins[start:stop] = number
        start, number = stop, number + 1
    return bins


def fill_evenly(sizes: Floats, limit: float, places: int = 2**31) -> Ints:
    """`fill` with as few bins, and the smallest limit that still makes do with them."""
    if not len(sizes):
        return np.zeros(0, dtype=np.int64)
    best = fill(sizes, limit, places)
    count, low, high = int(best[-1]), min(float(sizes.sum()) / (best[-1] + 1), limit), limit
    for _ in range(24):
        middle = (low + high) / 2
        tried = fill(sizes, middle, places)
        if int(tried[-1]) <= count:
            best, high = tried, middle
        else:
            low = middle
    return best


def fill_rows(sizes: Floats, rows: Ints, limit: float, places: int) -> Ints:
    """`fill_evenly` within each row: no bin holds items of two rows. Bins are numbered in the order of the rows."""
    bins = np.zeros(len(sizes), dtype=np.int64)
    known: dict[bytes, Ints] = {}
    number = 0
    for row in np.unique(rows):
        mine = np.flatnonzero(rows == row)
        key = sizes[mine].tobytes()
        if key not in known:
            known[key] = fill_evenly(sizes[mine], limit, places)
        bins[mine] = known[key] + number
        number += int(known[key][-1]) + 1
    return bins


def panel_kw(site: Site, electrical: Electrical) -> float:
    """What a panel carries continuously."""
    power = site.power
    return usable_kw(electrical.panels.rating_a, power.voltage_v, power.derating, 3, power.power_factor)


class _Rows:
    """Collects elements; `add` returns the new row's number."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.sources: list[tuple[int, ...]] = []
        self.roots: list[bool] = []
        self.spares: list[bool] = []

    def add(
        self, name: str, kind: str, feed: str, domain: str, sources: tuple[int, ...] = (), spare: bool = False,
        **facts: float | str,
    ) -> int:  # fmt: skip
        blank = {"voltage_v": 0.0, "rating": 0.0, "unit": "", "limit_kw": 0.0, "rating_ka": 0.0, "length_m": 0.0}
        self.rows.append({"name": name, "kind": kind, "feed": feed, "domain": domain, **blank, **facts})
        self.sources.append(sources)
        self.roots.append(not sources)
        self.spares.append(spare)
        return len(self.rows) - 1


def build(
    site: Site, electrical: Electrical, circuits: pd.DataFrame, mechanical_kw: float, rows: Ints | None = None
) -> Tree:
    """The tree of `site`; `circuits` as the plan's frame. `mechanical_kw` is the load that is not IT or its losses. `rows`
    keeps circuits apart: a panel serves those of one number (default: all are alike).
    """
    rows = np.zeros(len(circuits), dtype=np.int64) if rows is None else rows
    made, e, power = _Rows(), electrical, site.power
    feeds, factors = list(power.feeds), power_factors(site)
    pf, grid_pf = factors.it, factors.grid
    volts, board_v, mv_v = power.voltage_v, e.switchboard_v or power.voltage_v, e.utility.voltage_kv * 1000
    services = [
        made.add(f"utility-{i + 1}", "utility", "", GRID, voltage_v=mv_v, rating=e.utility.firm_mva, unit="MVA",
                 limit_kw=e.utility.firm_mva * 1000 * grid_pf / max(e.utility.services - 1, 1))
        for i in range(e.utility.services)
    ]  # fmt: skip
    rooms = {feed: room_of(site, feed) for feed in feeds}
    board_kw = usable_kw(e.switchboards.rating_a, board_v, e.switchboards.continuous, 3, grid_pf)
    transformer_kw = min(e.transformers.kva * grid_pf, board_kw)
    block_kw = usable_modules(e, site.ups.redundancy) * site.ups.module_kw * e.ups_blocks.permitted_load
    block_share = min(block_kw, transformer_kw * e.ups_blocks.efficiency)
    each_kw = panel_kw(site, e)
    panel_of = np.zeros(len(circuits), dtype=np.int64)
    worst, of_feed = circuits["worst_kw"].to_numpy(dtype=np.float64), circuits["feed"].to_numpy(dtype=object)
    mechanical_feed_kw = mechanical_kw / max(len(feeds) - 1, 1)
    on_ups = site.ups.scope == "it_and_cooling"
    mechanical_board_kw = block_share if on_ups else transformer_kw

    for number, feed in enumerate(feeds):
        room = rooms[feed]
        own = services[number % len(services)]
        others = tuple(s for s in services if s != own) if e.utility.tie else ()
        intake = made.add(f"mv-{feed}", "intake", feed, room, (own, *others), voltage_v=mv_v,
                          rating=e.medium_voltage.rating_a, unit="A", rating_ka=e.medium_voltage.rating_ka,
                          limit_kw=usable_kw(e.medium_voltage.rating_a, mv_v, e.medium_voltage.continuous, 3, grid_pf))  # fmt: skip
        mine = np.flatnonzero(of_feed == feed)
        panel = fill_rows(worst[mine], rows[mine], each_kw, e.panels.circuits)
        panel_loads = np.bincount(panel, worst[mine]).astype(np.float64) if len(mine) else np.zeros(0)
        behind = np.arange(len(panel_loads))
        unit_loads = panel_loads
        if e.pdu_transformers is not None:
            behind = fill_evenly(panel_loads, min(e.pdu_transformers.kva * pf, block_share))
            unit_loads = np.bincount(behind, panel_loads).astype(np.float64) if len(behind) else np.zeros(0)
        block = fill_evenly(unit_loads, block_share)
        blocks = int(block[-1]) + 1 if len(block) else 0
        mechanical = math.ceil(mechanical_feed_kw / mechanical_board_kw - 1e-9) if mechanical_kw > 0 else 0

        reserve = tuple(_transformer(made, e, f"tx-{feed}-r{i + 1}", feed, room, intake, board_v, transformer_kw, True)
                        for i in range(e.transformers.n_plus))  # fmt: skip
        beside_kw = mechanical_feed_kw / e.ups_blocks.efficiency if on_ups else mechanical_feed_kw
        demand = float(unit_loads.sum()) / e.ups_blocks.efficiency + beside_kw
        plant = _generators(made, e, feed, room, board_v, demand)
        backup = reserve + plant
        boards = []
        for i in range(blocks):
            transformer = _transformer(made, e, f"tx-{feed}-{i + 1}", feed, room, intake, board_v, transformer_kw)
            boards.append(_board(made, e, f"swb-{feed}-{i + 1}", feed, room, (transformer, *backup), board_v, board_kw))
        uppers = [_ups(made, site, e, f"ups-{feed}-{i + 1}", feed, room, boards[i], board_v, block_kw)
                  for i in range(blocks)]  # fmt: skip
        units = [uppers[int(b)] for b in block]
        if e.pdu_transformers is not None:
            kva = e.pdu_transformers.kva
            units = [
                made.add(f"pdutx-{feed}-{i + 1}", "pdu_transformer", feed, room, (above,), voltage_v=volts, rating=kva,
                         unit="kVA", limit_kw=kva * pf)
                for i, above in enumerate(units)
            ]  # fmt: skip
        panels = np.array(
            [
                made.add(f"{e.panels.kind}-{feed}-{i + 1:02d}", "panel", feed, room, (units[int(behind[i])],),
                         voltage_v=volts, rating=e.panels.rating_a, unit="A", rating_ka=e.panels.rating_ka,
                         limit_kw=each_kw, length_m=e.panels.feeder.length_m or 0.0)
                for i in range(len(panel_loads))
            ],
            dtype=np.int64,
        )  # fmt: skip
        panel_of[mine] = panels[panel] if len(mine) else 0
        for i in range(mechanical):
            transformer = _transformer(made, e, f"tx-{feed}-m{i + 1}", feed, room, intake, board_v, transformer_kw)
            board = _board(made, e, f"swb-{feed}-m{i + 1}", feed, room, (transformer, *plant), board_v, board_kw)
            above = board
            if on_ups:
                above = _ups(made, site, e, f"ups-{feed}-m{i + 1}", feed, room, board, board_v, block_kw)
            made.add(f"mech-{feed}-{i + 1}", "mechanical", feed, room, (above,), voltage_v=board_v,
                     rating=e.switchboards.rating_a, unit="A", limit_kw=board_kw,
                     rating_ka=e.switchboards.rating_ka)  # fmt: skip

    width = max((len(s) for s in made.sources), default=1) or 1
    sources = np.full((len(made.rows), width), -1, dtype=np.int64)
    for row, given in enumerate(made.sources):
        sources[row, : len(given)] = given
    return Tree(
        pd.DataFrame(made.rows), sources, np.array(made.roots, dtype=bool), np.array(made.spares, dtype=bool), panel_of
    )


def _transformer(
    made: _Rows, e: Electrical, name: str, feed: str, room: str, intake: int, volts: float, limit: float,
    spare: bool = False,
) -> int:  # fmt: skip
    return made.add(name, "transformer", feed, room, (intake,), spare, voltage_v=volts, rating=e.transformers.kva,
                    unit="kVA", limit_kw=limit)  # fmt: skip


def _board(
    made: _Rows, e: Electrical, name: str, feed: str, room: str, sources: tuple[int, ...], volts: float, limit: float
) -> int:
    return made.add(name, "switchboard", feed, room, sources, voltage_v=volts, rating=e.switchboards.rating_a,
                    unit="A", limit_kw=limit, rating_ka=e.switchboards.rating_ka)  # fmt: skip


def _ups(
    made: _Rows, site: Site, e: Electrical, name: str, feed: str, room: str, board: int, volts: float, limit: float
) -> int:
    installed = e.ups_blocks.modules_per_block * site.ups.module_kw
    return made.add(name, "ups", feed, room, (board,), voltage_v=volts, rating=installed, unit="kW", limit_kw=limit,
                    rating_ka=e.ups_blocks.rating_ka or 0.0)  # fmt: skip


def _generators(made: _Rows, e: Electrical, feed: str, room: str, volts: float, demand_kw: float) -> tuple[int, ...]:
    """The plant of a feed: its bus, and below it in the list the generators, which are sources of the bus."""
    if e.generators is None:
        return ()
    needed = max(math.ceil(demand_kw / e.generators.kw - 1e-9), 1)
    sets = tuple(
        made.add(f"gen-{feed}-{i + 1}", "generator", feed, room, (), True, voltage_v=volts, rating=e.generators.kw,
                 unit="kW", limit_kw=e.generators.kw)
        for i in range(needed + e.generators.n_plus)
    )  # fmt: skip
    bus = made.add(f"genbus-{feed}", "generators", feed, room, sets, True, voltage_v=volts,
                   rating=len(sets) * e.generators.kw, unit="kW", limit_kw=needed * e.generators.kw)  # fmt: skip
    return (bus,)
