"""The supply above the rack circuits as a tree: grid, intake, transformers, boards, UPS blocks, PDU transformers, panels.

In: the section `electrical` of the site file and the circuits of the plan with their worst load. Out: a Tree, with a
row for each element, the sources that it may take in order of preference, and the panel of each circuit. Counts follow
from the loads: rack circuits fill panels row by row in the order of the racks, panels fill UPS blocks evenly, each block has
a board and a transformer of its own. Where the site says how many UPS blocks, transformers or generators stand there, the
tree has exactly these, whether they carry the load or not (`arrange`). Equal sites give equal trees.

A failure domain is a room, or the grid; elements of one domain can be lost together (ERR-45).
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power import altitude
from capacity.power.rack.circuits import usable_kw
from capacity.power.rooms import GRID, room_of
from capacity.power.upstream.power_factor import power_factors
from inventory.site import Site
from inventory.site.sections.electrical import Electrical, TransformerType

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KINDS = (
    "utility",
    "intake",
    "transformer",
    "generators",
    "generator",
    "switchboard",
    "ups",
    "pdu_transformer",
    "panel",
    "mechanical",
    "circuit",
)
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

    @functools.cached_property
    def levels(self) -> Ints:
        """Distance of each element from its farthest root; sources stand above what they feed."""
        level = np.zeros(len(self.elements), dtype=np.int64)
        for row, sources in enumerate(self.sources):
            given = sources[sources >= 0]
            level[row] = level[given].max() + 1 if len(given) else 0
        return level

    @functools.cached_property
    def _rows_of(self) -> dict[str, Ints]:
        codes, kinds = pd.factorize(self.elements["kind"])
        return {str(kind): np.flatnonzero(codes == code) for code, kind in enumerate(kinds)}

    def rows(self, *kinds: str) -> Ints:
        """Rows of elements of these kinds."""
        of = [self._rows_of[kind] for kind in kinds if kind in self._rows_of]
        return np.sort(np.concatenate(of)) if of else np.zeros(0, dtype=np.int64)


def usable_modules(electrical: Electrical, redundancy: str) -> int:
    """Modules of a full UPS block that may carry load; the others are its redundancy."""
    total = electrical.ups_blocks.frame_modules
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


def losses_kw(no_load_kw: float | Floats, load_loss_kw: float | Floats, used: float | Floats) -> Floats:
    """Losses of a transformer at so much of its rated current: those without load, and load losses with the square of it."""
    return np.asarray(no_load_kw + load_loss_kw * used**2, dtype=np.float64)


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


def spread(sizes: Floats, bins: int) -> Ints:
    """Bin of each item in order, over `bins` bins, so that the fullest bin is as small as it can be; no bin stays empty where
    there are items for all.
    """
    if bins >= len(sizes):
        return np.arange(len(sizes), dtype=np.int64)
    low, high = max(float(sizes.max()), float(sizes.sum()) / bins), float(sizes.sum())
    best = fill(sizes, low)
    if int(best[-1]) >= bins:
        for _ in range(24):
            middle = (low + high) / 2
            tried = fill(sizes, middle)
            low, high, best = (middle, high, best) if int(tried[-1]) >= bins else (low, middle, tried)
        best = fill(sizes, high)
    while int(best[-1]) < bins - 1:
        several = np.bincount(best) > 1
        fullest = int(np.where(several, np.bincount(best, sizes), -1.0).argmax())
        mine = np.flatnonzero(best == fullest)
        half = int(np.searchsorted(np.cumsum(sizes[mine]), sizes[mine].sum() / 2, side="right"))
        best[mine[min(max(half, 1), len(mine) - 1)] :] += 1
    return best


@dataclass(frozen=True, eq=False)
class Arrangement:
    """What hangs on what in a feed: UPS block of each unit (panel or PDU transformer), board of each block, and of each
    cooling board the block or switchboard that feeds it, -1 for one of its own. `idle` transformers stand without a board.
    """

    block: Ints
    board: Ints
    boards: int
    idle: int
    cooling_block: Ints
    cooling_board: Ints


@dataclass(frozen=True)
class Limits:
    """What the parts of a feed carry, kW: UPS block, transformer with its board, block on a transformer of its own."""

    block_kw: float
    board_kw: float
    share_kw: float
    efficiency: float


def arrange(
    units: Floats, cooling: Floats, on_ups: bool, limits: Limits, blocks: int | None, transformers: int | None
) -> Arrangement:
    """UPS blocks and boards of a feed; `units` and `cooling` are loads in kW, `on_ups` says where cooling hangs.

    `blocks` and `transformers` (in service) are how many stand there, None for as many as it takes. Cooling has blocks and
    transformers of its own where these then carry their load, else it shares. Blocks that too few transformers could not
    feed in equal parts stand idle where the others carry the load. Where nothing carries it, the least overload is taken.
    """
    every: list[tuple[bool, bool, int]] = []
    for own_board in (True, False) if transformers is not None and len(cooling) else (True,):
        for own_block in (True, False) if blocks is not None and on_ups and len(cooling) else (True,):
            free = None if blocks is None else blocks - len(cooling) * (on_ups and own_block)
            behind = len(cooling) * (not on_ups or own_block)
            feeding = None if transformers is None else transformers - behind * own_board
            if (free is not None and free < 1) or (feeding is not None and feeding < 1):
                continue
            every += [(own_board, own_block, used) for used in _used(free, feeding)]
    best, least = None, math.inf
    for own_board, own_block, used in every:
        made, excess = _arranged(units, cooling, on_ups, limits, blocks, transformers, own_board, own_block, used)
        if excess < least - 1e-9:
            best, least = made, excess
        if least <= 1e-9:
            break
    assert best is not None
    return best


def _used(free: int | None, feeding: int | None) -> list[int]:
    """How many of `free` blocks may carry load: all, or equally many behind each of the transformers that feed them."""
    if free is None or feeding is None or feeding >= free:
        return [free or 0]
    return list(dict.fromkeys([free, *(n * feeding for n in range(free // feeding, 0, -1))]))


def _arranged(
    units: Floats,
    cooling: Floats,
    on_ups: bool,
    limits: Limits,
    blocks: int | None,
    transformers: int | None,
    own_board: bool,
    own_block: bool,
    used: int,
) -> tuple[Arrangement, float]:
    """One arrangement, and by what share of their limits its fullest block and its fullest board are over."""
    apart = np.full(len(cooling), -1, dtype=np.int64)
    own_block = own_block or not on_ups
    if blocks is None:
        block = fill_evenly(units, limits.share_kw)
        free, on_block = int(block[-1]) + 1 if len(block) else 0, apart
    else:
        shared = units if own_block else np.concatenate([units, cooling])
        placed = spread(shared, used)
        block, on_block = placed[: len(units)], apart if own_block else placed[len(units) :]
        free = blocks - len(cooling) * (on_ups and own_block)
    behind = cooling / limits.efficiency if on_ups else cooling
    loads = np.bincount(block, units, minlength=free).astype(np.float64)
    if not own_block:
        loads += np.bincount(on_block, cooling, minlength=free)
        behind = behind[:0]
    drawn = loads / limits.efficiency
    on_board, idle = apart, 0
    if transformers is None:
        board, boards = np.arange(free), free
    elif own_board:
        boards = min(transformers - len(behind), free)
        board, idle = spread(drawn, boards), transformers - len(behind) - boards
    else:
        boards = min(transformers, free + len(behind))
        placed = spread(np.concatenate([drawn, behind]), boards)
        board, idle = placed[:free], transformers - boards
        on_board = placed[free:] if len(behind) else apart
    on_boards = np.bincount(board, drawn, minlength=boards).astype(np.float64)
    if len(behind) and not own_board:
        on_boards += np.bincount(on_board, behind, minlength=boards)
    on_blocks = np.concatenate([loads, cooling if on_ups and own_block else apart[:0]])
    excess = [
        max(float(np.max(kw, initial=0.0)) / limit - 1, 0.0)
        for kw, limit in ((on_blocks, limits.block_kw), (np.concatenate([on_boards, behind]), limits.board_kw))
    ]
    return Arrangement(block, board, boards, idle, on_block, on_board), sum(excess)


def fill_rows(sizes: Floats, rows: Ints, limit: float, places: int) -> Ints:
    """`fill_evenly` within each row: no bin holds items of two rows. Bins are numbered in the order of the rows."""
    bins = np.zeros(len(sizes), dtype=np.int64)
    number = 0
    for row in np.unique(rows):
        mine = np.flatnonzero(rows == row)
        filled = _filled(sizes[mine].tobytes(), limit, places)
        bins[mine] = filled + number
        number += int(filled[-1]) + 1
    return bins


@functools.lru_cache(maxsize=512)
def _filled(sizes: bytes, limit: float, places: int) -> Ints:
    """`fill_evenly` of a row; rows are much alike, and a supply is planned again and again with one thing changed."""
    return fill_evenly(np.frombuffer(sizes, dtype=np.float64), limit, places)


def panel_kw(site: Site, electrical: Electrical) -> float:
    """What a panel carries continuously."""
    power = site.power
    rated = usable_kw(electrical.panels.rating_a, power.voltage_v, power.derating, 3, power.power_factor)
    return rated * altitude.factor(site, "low_voltage")


def block_kw(site: Site, electrical: Electrical) -> float:
    """What a full UPS block carries continuously, without its redundant modules."""
    return usable_modules(electrical, site.ups.redundancy) * module_kw(site, electrical)


def module_kw(site: Site, electrical: Electrical) -> float:
    """What one of the needed modules of a UPS block carries continuously."""
    return site.ups.module_kw * electrical.ups_blocks.permitted_load * altitude.factor(site, "ups")


def with_modules(tree: Tree, site: Site, electrical: Electrical, needed_kw: Floats) -> Tree:
    """The tree with as many modules in each UPS block as carry `needed_kw` (per element) beside the redundant ones, and no
    more than the block has room for. Blocks stay as they are where the site says how many modules each has, and where they
    stand there already.
    """
    rows, blocks = tree.rows("ups"), electrical.ups_blocks
    free = [blocks.standing(feed) is None for feed in tree.elements["feed"].to_numpy(dtype=object)[rows]]
    rows = rows[np.array(free, dtype=bool)]
    if blocks.modules_per_block is not None or not len(rows):
        return tree
    each_kw = module_kw(site, electrical)
    usable = np.maximum(np.ceil(needed_kw[rows] / each_kw - 1e-9), 1)
    usable = np.minimum(usable, usable_modules(electrical, site.ups.redundancy))
    installed = usable * 2 if site.ups.redundancy == "2n" else usable + SPARE[site.ups.redundancy]
    columns = {name: tree.elements[name].to_numpy(dtype=np.float64).copy() for name in ("rating", "limit_kw")}
    columns["rating"][rows], columns["limit_kw"][rows] = installed * site.ups.module_kw, usable * each_kw
    return replace(tree, elements=tree.elements.assign(**columns))


def pdu_transformer_kw(site: Site, unit: TransformerType) -> float:
    """What a PDU transformer carries continuously."""
    return unit.kva * power_factors(site).of("pdu_transformer") * altitude.factor(site, "transformer")


def fill_to_kw(site: Site, electrical: Electrical) -> float:
    """What a panel is filled to: what it carries, and not more than the PDU transformer and the UPS block that feed it."""
    least = min(panel_kw(site, electrical), block_kw(site, electrical))
    unit = electrical.pdu_transformers
    if unit is None:
        return least
    carried_kw = pdu_transformer_kw(site, unit)
    least = min(least, carried_kw)
    lost_kw = float(losses_kw(unit.no_load_kw, unit.load_loss_kw, least / carried_kw))
    return min(least, block_kw(site, electrical) - lost_kw)


def by_fullest_line(circuits: pd.DataFrame, power_factor: float) -> pd.DataFrame:
    """`circuits` that take of a panel what they would with all three lines as full as the fullest one: no line of a panel that
    is filled so carries more than the panel may.
    """
    volts = circuits["voltage_v"].to_numpy(dtype=np.float64)
    full_kw = math.sqrt(3) * volts * circuits["worst_phase_a"].to_numpy(dtype=np.float64) * power_factor / 1000
    return circuits.assign(fill_kw=np.maximum(full_kw, circuits["worst_kw"].to_numpy(dtype=np.float64)))


def fill_kw(circuits: pd.DataFrame) -> Floats:
    """What each circuit takes of a panel: its worst load, or what `by_fullest_line` says."""
    kw: Floats = circuits["fill_kw" if "fill_kw" in circuits else "worst_kw"].to_numpy(dtype=np.float64)
    return kw


class _Rows:
    """Collects elements; `add` returns the new row's number."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.sources: list[tuple[int, ...]] = []
        self.roots: list[bool] = []
        self.spares: list[bool] = []

    def add(
        self,
        name: str,
        kind: str,
        feed: str,
        domain: str,
        sources: tuple[int, ...] = (),
        spare: bool = False,
        **facts: float | str,
    ) -> int:
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
        made.add(
            f"utility-{i + 1}",
            "utility",
            "",
            GRID,
            voltage_v=mv_v,
            rating=e.utility.firm_mva,
            unit="MVA",
            limit_kw=e.utility.firm_mva * 1000 * grid_pf / max(e.utility.services - 1, 1),
        )
        for i in range(e.utility.services)
    ]
    rooms = {feed: room_of(site, feed) for feed in feeds}
    worth = {kind: altitude.factor(site, kind) for kind in altitude.KINDS}
    board_kw = usable_kw(e.switchboards.rating_a, board_v, e.switchboards.continuous, 3, grid_pf) * worth["low_voltage"]
    transformer_kw = min(e.transformers.kva * grid_pf * worth["transformer"], board_kw)
    of_block_kw = block_kw(site, e)
    block_share = min(of_block_kw, transformer_kw * e.ups_blocks.efficiency)
    each_kw, filled_kw = panel_kw(site, e), fill_to_kw(site, e)
    panel_of = np.zeros(len(circuits), dtype=np.int64)
    worst, of_feed = circuits["worst_kw"].to_numpy(dtype=np.float64), circuits["feed"].to_numpy(dtype=object)
    taken = fill_kw(circuits)
    mechanical_feed_kw = mechanical_kw / max(len(feeds) - 1, 1)
    on_ups = site.ups.scope == "it_and_cooling"
    mechanical_board_kw = block_share if on_ups else transformer_kw

    for number, feed in enumerate(feeds):
        room = rooms[feed]
        own = services[number % len(services)]
        others = tuple(s for s in services if s != own) if e.utility.tie else ()
        intake = made.add(
            f"mv-{feed}",
            "intake",
            feed,
            room,
            (own, *others),
            voltage_v=mv_v,
            rating=e.medium_voltage.rating_a,
            unit="A",
            rating_ka=e.medium_voltage.rating_ka,
            limit_kw=usable_kw(e.medium_voltage.rating_a, mv_v, e.medium_voltage.continuous, 3, grid_pf)
            * worth["medium_voltage"],
        )
        mine = np.flatnonzero(of_feed == feed)
        panel = fill_rows(taken[mine], rows[mine], filled_kw, e.panels.circuits)
        panel_loads = np.bincount(panel, worst[mine]).astype(np.float64) if len(mine) else np.zeros(0)
        behind = np.arange(len(panel_loads))
        unit_loads = panel_loads
        if (unit := e.pdu_transformers) is not None:
            pdu_kw = pdu_transformer_kw(site, unit)
            lost_kw = float(losses_kw(unit.no_load_kw, unit.load_loss_kw, min(1.0, block_share / pdu_kw)))
            behind = fill_evenly(panel_loads, min(pdu_kw, block_share - lost_kw))
            unit_loads = np.bincount(behind, panel_loads).astype(np.float64) if len(behind) else np.zeros(0)
            unit_loads = unit_loads + losses_kw(unit.no_load_kw, unit.load_loss_kw, unit_loads / pdu_kw)
        mechanical = math.ceil(mechanical_feed_kw / mechanical_board_kw - 1e-9) if mechanical_kw > 0 else 0
        standing = e.transformers.standing(feed)
        made_of = arrange(
            unit_loads,
            np.full(mechanical, mechanical_feed_kw / max(mechanical, 1)),
            on_ups,
            Limits(of_block_kw, transformer_kw, block_share, e.ups_blocks.efficiency),
            e.ups_blocks.standing(feed),
            None if standing is None else standing - e.transformers.n_plus,
        )

        reserve = tuple(
            _transformer(made, e, f"tx-{feed}-r{i + 1}", feed, room, intake, board_v, transformer_kw, True)
            for i in range(e.transformers.n_plus)
        )
        beside_kw = mechanical_feed_kw / e.ups_blocks.efficiency if on_ups else mechanical_feed_kw
        demand = float(unit_loads.sum()) / e.ups_blocks.efficiency + beside_kw
        plant = _generators(
            made, e, feed, room, board_v, demand, e.generators.kw * worth["generator"] if e.generators else 0.0
        )
        backup = reserve + plant
        boards = []
        for i in range(made_of.boards):
            transformer = _transformer(made, e, f"tx-{feed}-{i + 1}", feed, room, intake, board_v, transformer_kw)
            boards.append(_board(made, e, f"swb-{feed}-{i + 1}", feed, room, (transformer, *backup), board_v, board_kw))
        for i in range(made_of.idle):
            name = f"tx-{feed}-{made_of.boards + i + 1}"
            _transformer(made, e, name, feed, room, intake, board_v, transformer_kw, True)
        uppers = [
            _ups(made, site, e, f"ups-{feed}-{i + 1}", feed, room, boards[int(b)], board_v, of_block_kw)
            for i, b in enumerate(made_of.board)
        ]
        units = [uppers[int(b)] for b in made_of.block]
        if e.pdu_transformers is not None:
            kva = e.pdu_transformers.kva
            units = [
                made.add(
                    f"pdutx-{feed}-{i + 1}",
                    "pdu_transformer",
                    feed,
                    room,
                    (above,),
                    voltage_v=volts,
                    rating=kva,
                    unit="kVA",
                    limit_kw=kva * pf * worth["transformer"],
                )
                for i, above in enumerate(units)
            ]
        panels = np.array(
            [
                made.add(
                    f"{e.panels.kind}-{feed}-{i + 1:02d}",
                    "panel",
                    feed,
                    room,
                    (units[int(behind[i])],),
                    voltage_v=volts,
                    rating=e.panels.rating_a,
                    unit="A",
                    rating_ka=e.panels.rating_ka,
                    limit_kw=each_kw,
                    length_m=e.panels.feeder.length_m or 0.0,
                )
                for i in range(len(panel_loads))
            ],
            dtype=np.int64,
        )
        panel_of[mine] = panels[panel] if len(mine) else 0
        for i in range(mechanical):
            shared_block, shared_board = int(made_of.cooling_block[i]), int(made_of.cooling_board[i])
            if shared_block >= 0:
                above = uppers[shared_block]
            elif shared_board >= 0:
                above = boards[shared_board]
            else:
                transformer = _transformer(made, e, f"tx-{feed}-m{i + 1}", feed, room, intake, board_v, transformer_kw)
                above = _board(made, e, f"swb-{feed}-m{i + 1}", feed, room, (transformer, *plant), board_v, board_kw)
            if on_ups and shared_block < 0:
                above = _ups(made, site, e, f"ups-{feed}-m{i + 1}", feed, room, above, board_v, of_block_kw)
            made.add(
                f"mech-{feed}-{i + 1}",
                "mechanical",
                feed,
                room,
                (above,),
                voltage_v=board_v,
                rating=e.switchboards.rating_a,
                unit="A",
                limit_kw=board_kw,
                rating_ka=e.switchboards.rating_ka,
            )

    width = max((len(s) for s in made.sources), default=1) or 1
    sources = np.full((len(made.rows), width), -1, dtype=np.int64)
    for row, given in enumerate(made.sources):
        sources[row, : len(given)] = given
    return Tree(
        pd.DataFrame(made.rows), sources, np.array(made.roots, dtype=bool), np.array(made.spares, dtype=bool), panel_of
    )


def _transformer(
    made: _Rows,
    e: Electrical,
    name: str,
    feed: str,
    room: str,
    intake: int,
    volts: float,
    limit: float,
    spare: bool = False,
) -> int:
    return made.add(
        name,
        "transformer",
        feed,
        room,
        (intake,),
        spare,
        voltage_v=volts,
        rating=e.transformers.kva,
        unit="kVA",
        limit_kw=limit,
    )


def _board(
    made: _Rows, e: Electrical, name: str, feed: str, room: str, sources: tuple[int, ...], volts: float, limit: float
) -> int:
    return made.add(
        name,
        "switchboard",
        feed,
        room,
        sources,
        voltage_v=volts,
        rating=e.switchboards.rating_a,
        unit="A",
        limit_kw=limit,
        rating_ka=e.switchboards.rating_ka,
    )


def _ups(
    made: _Rows, site: Site, e: Electrical, name: str, feed: str, room: str, board: int, volts: float, limit: float
) -> int:
    installed = e.ups_blocks.frame_modules * site.ups.module_kw
    return made.add(
        name,
        "ups",
        feed,
        room,
        (board,),
        voltage_v=volts,
        rating=installed,
        unit="kW",
        limit_kw=limit,
        rating_ka=e.ups_blocks.rating_ka or 0.0,
    )


def _generators(
    made: _Rows, e: Electrical, feed: str, room: str, volts: float, demand_kw: float, each_kw: float
) -> tuple[int, ...]:
    """The plant of a feed: its bus, and below it in the list the generators, which are sources of the bus. `each_kw` is what a set
    delivers at the site.
    """
    if e.generators is None:
        return ()
    standing = e.generators.standing(feed)
    needed = max(math.ceil(demand_kw / each_kw - 1e-9), 1)
    if standing is not None:
        needed = standing - e.generators.n_plus
    sets = tuple(
        made.add(
            f"gen-{feed}-{i + 1}",
            "generator",
            feed,
            room,
            (),
            True,
            voltage_v=volts,
            rating=e.generators.kw,
            unit="kW",
            limit_kw=each_kw,
        )
        for i in range(needed + e.generators.n_plus)
    )
    bus = made.add(
        f"genbus-{feed}",
        "generators",
        feed,
        room,
        sets,
        True,
        voltage_v=volts,
        rating=len(sets) * e.generators.kw,
        unit="kW",
        limit_kw=needed * each_kw,
    )
    return (bus,)
