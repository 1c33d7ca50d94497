"""Panels and busway in the hall: which rows a panel serves, where it stands, and the way of its rack circuits.

In: the site, the circuits and racks of the plan, the tree. Out: the rows that panels are filled by, their places, lengths of
conductors, and SPACE-RPP where the hall has no room for them.

Panels stand at the head of a row, on the places that room.rpps_per_row keeps, first one of each feed, then the second ones.
A panel serves one row where each row has places for its own panels, otherwise panels are filled across the rows. It stands in
the row of its middle circuit, or in the nearest row with a free place; its conductors then cross the aisles. Busway hangs
over its row, from the head on, and takes no place.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.least import Tried
from capacity.power.upstream import tree as trees
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TAIL_M = 1.0
"""Conductor inside panel and rack, up to both terminals: site experience, no standard; electrical.rack_conductor.length_m
replaces the routed length where it matters."""
PLACES_SOURCE = "site room.rpps_per_row x room.rows, electrical.panels.width_m"


@dataclass(frozen=True, eq=False)
class Layout:
    """Per panel, in the order of the tree: `row` whose head it stands at or over which it runs (-1: no place), centre
    `x_m`, `y_m`. Per circuit: `length_m` of its conductor, `along_m` of busway before it.
    """

    row: Ints
    x_m: Floats
    y_m: Floats
    length_m: Floats
    along_m: Floats


def per_row(site: Site, electrical: Electrical, places: int | None = None) -> int:
    """Panels that stand side by side on the `places` at the head of a row (default: the site's)."""
    room = site.room
    taken = (room.rpps_per_row if places is None else places) * room.rack_pitch_m
    return int(taken / (electrical.panels.width_m or room.rack_pitch_m) + 1e-9)


def places_for(site: Site, electrical: Electrical, panels: int) -> int:
    """Places of racks that this many panels take side by side."""
    width = electrical.panels.width_m or site.room.rack_pitch_m
    return math.ceil(panels * width / site.room.rack_pitch_m - 1e-9)


def by_rows(site: Site, electrical: Electrical, circuits: pd.DataFrame, rows: Ints) -> Ints:
    """Panels of each row (index: its number) when none serves two rows."""
    limit, places = trees.fill_to_kw(site, electrical), electrical.panels.circuits
    worst, feed = trees.fill_kw(circuits), circuits["feed"].to_numpy(dtype=object)
    count = np.zeros(site.room.rows + int(rows.max(initial=0)) + 1, dtype=np.int64)
    for name in site.power.feeds:
        mine = np.flatnonzero(feed == name)
        if len(mine):
            bins = trees.fill_rows(worst[mine], rows[mine], limit, places)
            first = np.unique(bins, return_index=True)[1]
            count += np.bincount(rows[mine][first], minlength=len(count))
    return count


def filled_by(site: Site, electrical: Electrical, circuits: pd.DataFrame, rows: Ints) -> Ints:
    """What keeps circuits apart when panels are filled: their rows, or nothing where only fewer panels find places."""
    fits = per_row(site, electrical)
    if electrical.panels.kind == "busway" or by_rows(site, electrical, circuits, rows).max() <= fits:
        return rows
    across = np.zeros_like(rows)
    fewest = int(by_rows(site, electrical, circuits, across).sum())
    return across if fewest <= fits * site.room.rows else rows


def layout(site: Site, electrical: Electrical, tree: trees.Tree, circuits: pd.DataFrame, racks: pd.DataFrame) -> Layout:
    """Places of the panels of `tree`, and the ways of the circuits."""
    room, panels = site.room, tree.rows("panel")
    at = pd.Index(racks["name"]).get_indexer(pd.Index(circuits["rack"]))
    rows, x_m, y_m = (racks[c].to_numpy(dtype=np.float64)[at] for c in ("row", "x_m", "y_m"))
    panel = np.searchsorted(panels, tree.panel_of)
    middle = pd.Series(rows).groupby(panel).median().reindex(range(len(panels)), fill_value=0.0)
    wanted = np.floor(middle.to_numpy(dtype=np.float64)).astype(np.int64)
    given = electrical.rack_conductor.length_m
    if electrical.panels.kind == "busway":
        start = np.zeros(len(panels))
        along = x_m - start[panel]
        way = np.full(len(circuits), room.tray_height_m + TAIL_M)
        row, place_x, place_y = wanted, start, wanted * room.row_pitch_m
    else:
        row, spot = _stand(tree, panels, wanted, room.rows, per_row(site, electrical))
        width = electrical.panels.width_m or room.rack_pitch_m
        place_x = np.where(row >= 0, (spot + 0.5) * width, 0.0)
        place_y = np.where(row >= 0, row, wanted) * room.row_pitch_m
        along = np.zeros(len(circuits))
        way = np.abs(x_m - place_x[panel]) + np.abs(y_m - place_y[panel]) + 2 * room.tray_height_m + TAIL_M
    lengths = way if given is None else np.full(len(circuits), given)
    return Layout(row, place_x, place_y, np.asarray(lengths, dtype=np.float64), along)


def _stand(tree: trees.Tree, panels: Ints, wanted: Ints, rows: int, fits: int) -> tuple[Ints, Ints]:
    """Row (-1: none) and spot of each panel: its own row, else the nearest with a free spot."""
    feed = tree.elements["feed"].to_numpy(dtype=object)[panels]
    number = pd.DataFrame({"feed": feed, "row": wanted}).groupby(["feed", "row"]).cumcount().to_numpy()
    order = np.lexsort((np.arange(len(panels)), number))
    free = np.full(rows, fits, dtype=np.int64)
    row, spot = np.full(len(panels), -1, dtype=np.int64), np.zeros(len(panels), dtype=np.int64)
    late = []
    for panel in order:
        own = int(wanted[panel])
        if own < rows and free[own]:
            row[panel], spot[panel] = own, fits - free[own]
            free[own] -= 1
        else:
            late.append(panel)
    for panel in late:
        left = np.flatnonzero(free)
        if not len(left):
            break
        near = int(left[np.abs(left - wanted[panel]).argmin()])
        row[panel], spot[panel] = near, fits - free[near]
        free[near] -= 1
    return row, spot


def taps(tree: trees.Tree, along_m: Floats) -> tuple[Ints, Floats]:
    """Of each circuit on busway the circuit whose tap comes before its own (-1: none), and the metres between the two."""
    order = np.lexsort((along_m, tree.panel_of))
    first = np.diff(tree.panel_of[order], prepend=-1) != 0
    before = np.full(len(along_m), -1, dtype=np.int64)
    before[order] = np.where(first, -1, np.roll(order, 1))
    return before, along_m - np.where(before >= 0, along_m[before], 0.0)


def check_places(site: Site, electrical: Electrical, circuits: pd.DataFrame, racks: pd.DataFrame) -> list[Finding]:
    """SPACE-RPP of rows that have fewer places than their own panels take, before the tree of the supply is known: what `check`
    then finds, too. Not judged are busway, and a hall without places for all racks.
    """
    if electrical.panels.kind == "busway" or int(racks["row"].max()) >= site.room.rows:
        return []
    rows = _rows_of(racks, circuits)
    panels, fits = by_rows(site, electrical, circuits, rows), per_row(site, electrical)
    need, more = int(panels.max()), int(np.maximum(panels - fits, 0).sum())
    if not more:
        return []
    return [
        _no_place(site, fits, int(panels.sum()), int(panels.sum()), more, need, _more_places(site, electrical, need))
    ]


def _rows_of(racks: pd.DataFrame, circuits: pd.DataFrame) -> Ints:
    """Row of each circuit's rack."""
    return racks.set_index("name")["row"].reindex(circuits["rack"]).to_numpy(dtype=np.int64)


def _more_places(site: Site, electrical: Electrical, panels: int) -> RemedyOf:
    """As many places at the head of a row as so many panels take, and rows that are longer by them, where more rows do not follow
    by themselves.
    """
    places, room = places_for(site, electrical, panels), site.room
    if "room.rows" in site.effective.open and places < room.racks_per_row:
        return remedy({"room.rpps_per_row": places}, fix="more-places-alone")
    behind = room.racks_per_row - room.rpps_per_row
    return remedy({"room.rpps_per_row": places, "room.racks_per_row": behind + places}, fix="more-places")


def _no_place(site: Site, fits: int, panels: int, housed: int, lacking: int, need: int, way: RemedyOf) -> Finding:
    """SPACE-RPP of panels that have no place in the hall."""
    room = site.room
    return finding(
        "SPACE-RPP",
        "room.rpps_per_row",
        case="no-place",
        severity="error",
        limit=float(fits * room.rows),
        limit_source=PLACES_SOURCE,
        panels=panels,
        without_place=lacking,
        panels_of_a_row=need,
        places_of_a_row=fits,
        words={"rpps_now": room.rpps_per_row, "racks_now": room.racks_per_row, "housed": housed, "rows": room.rows},
        remedies=[way],
    )


def check(
    site: Site,
    electrical: Electrical,
    tree: trees.Tree,
    circuits: pd.DataFrame,
    racks: pd.DataFrame,
    at: Layout,
    tried: Tried | None = None,
) -> list[Finding]:
    """SPACE-RPP: panels without a place (error), in the aisle (error), or that serve racks of other rows (information). `tried`
    finds out whether places for panels alone are enough, or what else has to change.
    """
    if electrical.panels.kind == "busway":
        return []
    rows = _rows_of(racks, circuits)
    need, room = int(by_rows(site, electrical, circuits, rows).max()), site.room
    more_places = _more_places(site, electrical, need)
    panels, fits = tree.rows("panel"), per_row(site, electrical)
    panel = np.searchsorted(panels, tree.panel_of)
    housed = np.unique(panel[rows < room.rows])  # a hall without places for the racks is SPACE-ROOM
    lacking = int((at.row[housed] < 0).sum())
    crossing = int(((at.row[panel] >= 0) & (at.row[panel] != rows)).sum())
    found = _depth(site, electrical)
    if lacking:
        alone = {"room.rpps_per_row": places_for(site, electrical, need)}
        made = tried.least(alone, "SPACE-RPP", "room.rpps_per_row") if tried else None
        way = remedy(made, fix="more-places-alone") if made else more_places
        found.append(_no_place(site, fits, len(panels), len(housed), lacking, need, way))
    elif crossing:
        longest = float(at.length_m.max())
        found.append(
            finding(
                "SPACE-RPP",
                "room.rpps_per_row",
                case="crossing",
                severity="info",
                limit=float(fits),
                limit_source=PLACES_SOURCE,
                panels=len(panels),
                without_place=lacking,
                panels_of_a_row=need,
                places_of_a_row=fits,
                crossing=crossing,
                longest_m=round(longest, 2),
                words={
                    "rpps_now": room.rpps_per_row,
                    "racks_now": room.racks_per_row,
                    "circuits": len(circuits),
                },
                remedies=[more_places],
            )
        )
    return found


def _depth(site: Site, electrical: Electrical) -> list[Finding]:
    """Panels that are so deep that two rows of them leave less than the least clear width of an aisle."""
    depth, room = electrical.panels.depth_m, site.room
    if (
        depth is None
        or room.aisle_min_m is None
        or room.rows < 2
        or room.row_pitch_m - depth >= room.aisle_min_m - 1e-9
    ):
        return []
    clear = room.row_pitch_m - depth
    return [
        finding(
            "SPACE-RPP",
            "electrical.panels.depth_m",
            case="aisle",
            severity="error",
            limit=room.aisle_min_m,
            limit_source="site room.aisle_min_m",
            clear_m=round(clear, 3),
            words={"depth_m": depth},
            remedies=[
                remedy({"room.row_pitch_m": round(room.aisle_min_m + depth, 4)}, fix="at-least"),
                remedy({"electrical.panels.depth_m": round(room.row_pitch_m - room.aisle_min_m, 4)}, fix="at-most"),
            ],
        )
    ]
