"""Where the cooling units stand: coolers between racks and distribution units on free places of the rows, room units and fan
walls along the walls at both ends of their rows, doors on their racks. What finds no place is counted, not drawn.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from capacity.cooling.not_planned import not_given
from capacity.model import frames
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.cooling import AirUnits

WALL_M = 1.5
"""Where room units are drawn: this far from the end of the rows."""

IN_ROW_M = 0.3
"""Width of a cooler between racks where the site gives none."""

Place = tuple[int, int]
"""Row and position."""

IN_ROW_REACH_M = 3.0
"""Distance from a cooler between racks that is worth a note: engineering experience, no standard."""

MOST_ROW_PITCH_M = 20
"""What the site file takes."""


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


def check_unit_places(site: Site, placed: Placed, zones: pd.DataFrame, racks: int) -> list[Finding]:
    """SPACE-COOLING-UNITS when coolers or distribution units find no free place in the rows, SPACE-COOLING-WALL when room
    units do not fit beside each other on the walls, COOLING-CDU-FAR for information.
    """
    return [*_in_rows(site, placed, racks), *_walls(site, placed, zones), *_far_units(site, placed)]


def _in_rows(site: Site, placed: Placed, racks: int) -> list[Finding]:
    if placed.missing <= 0:
        return []
    room, total = site.room, racks + placed.wanted
    longer = max(-(-total // room.rows) + room.rpps_per_row, room.racks_per_row + 1)
    per_row = max(room.racks_per_row - room.rpps_per_row, 1)
    return [
        finding(
            "SPACE-COOLING-UNITS",
            "room.racks_per_row",
            limit=float(room.rows * room.racks_per_row),
            limit_source="site room.rows x room.racks_per_row",
            remedies=[remedy({"room.racks_per_row": longer}), remedy({"room.rows": -(-total // per_row)})],
            missing=placed.missing,
            placed=len(placed.frame),
        )
    ]


def _walls(site: Site, placed: Placed, zones: pd.DataFrame) -> list[Finding]:
    given, room = site.cooling.air, site.room
    if given is None or given.kind not in ("crah", "fan_wall"):
        return []
    if given.width_m is None:
        return [not_given("cooling.air.width_m")]
    if not placed.walls:
        return []
    heat_kw = dict(zip(zones["zone"].tolist(), zones["air_kw"].tolist(), strict=True))
    zone, most, fits, span = max(placed.walls, key=lambda one: one[1] / one[3])
    width = math.floor(span / most * 100) / 100
    pitch = math.ceil(given.width_m * most / span * room.row_pitch_m * 100) / 100
    ways = [remedy({"cooling.air.width_m": width}, fix="at-most")] if width > 0 else []
    ways += [remedy({"room.row_pitch_m": pitch})] if pitch <= MOST_ROW_PITCH_M else []
    left = [(name, 2 * fit - site.cooling.n_plus) for name, _, fit, _ in placed.walls]
    if all(units > 0 for _, units in left):
        ways.append(remedy(fix="larger-units", each_kw=max(math.ceil(heat_kw[name] / units) for name, units in left)))
    return [
        finding(
            "SPACE-COOLING-WALL",
            zone,
            limit=round(span, 3),
            limit_source="site room.row_pitch_m x rows of the zone",
            remedies=ways or [remedy(fix="other-kind")],
            words={"width_m": given.width_m, "needed_m": most * given.width_m},
            units_on_side=float(most),
            fit_on_side=float(fits),
            zones=float(len(placed.walls)),
        )
    ]


def _far_units(site: Site, placed: Placed) -> list[Finding]:
    if not placed.far or placed.missing:
        return []
    zone, outside, _ = max(placed.far, key=lambda one: one[1])
    keep = max(per_row for _, _, per_row in placed.far)
    return [
        finding(
            "COOLING-CDU-FAR",
            zone,
            remedies=[remedy({"cooling.coolant.cdu_places_per_row": keep}, fix="keep-places")],
            units=float(outside),
            loops=float(len(placed.far)),
        )
    ]


def check_far_coolers(site: Site, placed: pd.DataFrame, racks: pd.DataFrame) -> list[Finding]:
    """COOLING-IN-ROW-FAR, for information: how far the rack is that is farthest from a cooler between racks."""
    given = site.cooling.air
    inside = placed[placed["name"].str.startswith("IR-")]
    if given is None or given.kind != "in_row" or inside.empty or racks.empty:
        return []
    dx = np.abs(racks["x_m"].to_numpy()[:, None] - inside["x_m"].to_numpy()[None, :])
    dy = np.abs(racks["y_m"].to_numpy()[:, None] - inside["y_m"].to_numpy()[None, :])
    nearest = (dx + dy).min(axis=1)
    worst = int(nearest.argmax())
    if nearest[worst] <= IN_ROW_REACH_M:
        return []
    return [
        finding(
            "COOLING-IN-ROW-FAR",
            str(racks["name"].iloc[worst]),
            limit=IN_ROW_REACH_M,
            limit_source="engineering experience, to be replaced",
            remedies=[remedy(fix="keep-places"), remedy(fix="measure")],
            distance_m=round(float(nearest[worst]), 2),
        )
    ]
