"""Where the cooling units stand: coolers between racks and distribution units on free places of the rows, room units and fan
walls along the walls at both ends of their rows, doors on their racks. What finds no place is counted, not drawn.
"""

from dataclasses import dataclass, field

import pandas as pd

from capacity.model import frames
from inventory.site import Site
from inventory.site.sections.cooling import AirUnits

WALL_M = 1.5
"""Where room units are drawn: this far from the end of the rows."""
IN_ROW_M = 0.3
"""Width of a cooler between racks where the site gives none."""

Place = tuple[int, int]
"""Row and position."""


@dataclass
class Placed:
    """`frame`: the plan's `cooling_units`. `wanted` and `missing`: places in rows for units. `walls`: where units do not fit
    beside each other, the zone, units a side, how many of them fit, and metres of wall. `far`: zone, units that stand in rows
    of others, and the most units of a loop for each of its rows.
    """

    frame: pd.DataFrame
    wanted: int = 0
    missing: int = 0
    walls: list[tuple[str, int, int, float]] = field(default_factory=list)
    far: list[tuple[str, int, int]] = field(default_factory=list)


def in_row_share(site: Site, given: AirUnits | None) -> int:
    """Coolers between racks on one place of a rack."""
    if given is None or given.kind != "in_row":
        return 1
    return max(int(site.room.rack_pitch_m / (given.width_m or IN_ROW_M) + 1e-9), 1)


def fit_on_side(span_m: float, width_m: float | None, wanted: int) -> int:
    """Units that stand beside each other on a wall of `span_m`; `wanted` of them where nobody says how wide they are."""
    return wanted if width_m is None else min(wanted, int(span_m / width_m + 1e-9))


def place(site: Site, zones: pd.DataFrame, racks: pd.DataFrame) -> Placed:
    """Places for all units of `zones`."""
    given, room = site.cooling.air, site.room
    taken = set(zip(racks["row"].tolist(), racks["position"].tolist(), strict=True))
    places = range(room.rpps_per_row, room.racks_per_row)
    free = [(r, p) for r in range(room.rows) for p in places if (r, p) not in taken]
    rows: list[tuple[object, ...]] = []
    made = Placed(pd.DataFrame())
    columns = ["zone", "kind", "first_row", "last_row", "unit", "unit_kw", "installed"]
    for zone, kind, first, last, unit, kw, installed in zones[columns].itertuples(index=False, name=None):
        if kind == "liquid" or (given is not None and given.kind == "in_row"):
            each = 1 if kind == "liquid" else in_row_share(site, given)
            letter = "CDU" if kind == "liquid" else "IR"
            spots = _spots(free, first, last, -(-installed // each))
            made.wanted += -(-installed // each)
            made.missing += -(-installed // each) - len(spots)
            gone = set(spots)
            free = [at for at in free if at not in gone]
            outside = sum(not first <= r <= last for r, _ in spots)
            if kind == "liquid" and outside:
                made.far.append((zone, outside, -(-installed // (last - first + 1))))
            for i in range(min(installed, each * len(spots))):
                r, p = spots[i // each]
                x = (p + (i % each + 0.5) / each) * room.rack_pitch_m
                rows.append((f"{letter}-{zone}-{i + 1}", zone, unit, "row", r, p, x, r * room.row_pitch_m, kw))
        elif given is not None and given.kind == "rear_door":
            inside = racks[racks["row"].between(first, last)]
            at = inside[["name", "row", "position", "x_m", "y_m"]].head(installed).itertuples(index=False, name=None)
            rows += [(f"RD-{name}", zone, unit, "door", r, p, x, y, kw) for name, r, p, x, y in at]
        elif given is not None:
            rows += _on_walls(site, given, (zone, unit, kw), first, last, installed, made)
    frame = pd.DataFrame(rows, columns=list(frames.COOLING_UNITS))
    for column in ("x_m", "y_m"):
        frame[column] = frame[column].astype(float).round(3)
    made.frame = frame
    return made


def _spots(free: list[Place], first: int, last: int, wanted: int) -> list[Place]:
    """Free places for `wanted` units of these rows: in them, then in the rows nearest to them."""
    own = [at for at in free if first <= at[0] <= last]
    if len(own) >= wanted:
        return own[:wanted]
    return sorted(free, key=lambda at: (max(first - at[0], at[0] - last, 0), at))[:wanted]


def _on_walls(
    site: Site, given: AirUnits, unit: tuple[str, str, float], first: int, last: int, installed: int, made: Placed
) -> list[tuple[object, ...]]:
    """Units on both walls beside the rows, evenly spaced, in turn; what a wall has no room for is left out."""
    room, (zone, model, kw) = site.room, unit
    letter = "CRAH" if given.kind == "crah" else "FW"
    start = first // given.rows_per_zone * given.rows_per_zone
    end = start + given.rows_per_zone - 1
    if last < room.rows:
        end = min(end, room.rows - 1)
    span, middle = (end - start + 1) * room.row_pitch_m, (start + end) / 2 * room.row_pitch_m
    length = room.racks_per_row * room.rack_pitch_m
    most = -(-installed // 2)
    fits = fit_on_side(span, given.width_m, most)
    if fits < most:
        made.walls.append((zone, most, fits, span))
    rows: list[tuple[object, ...]] = []
    for i in range(min(installed, 2 * fits)):
        side, k = i % 2, i // 2
        on_side = min(fits, -(-(installed - side) // 2))
        y = middle - span / 2 + span * (k + 0.5) / on_side
        rows.append(
            (f"{letter}-{zone}-{i + 1}", zone, model, "wall", -1, -1, length + WALL_M if side else -WALL_M, y, kw)
        )
    return rows
