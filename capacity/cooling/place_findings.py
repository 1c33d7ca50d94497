"""Findings of where the cooling units stand, each with its smallest remedy."""

import math

import numpy as np
import pandas as pd

from capacity.cooling.findings import not_given
from capacity.cooling.places import Placed
from inventory.findings import Finding, finding, remedy
from inventory.site import Site

IN_ROW_REACH_M = 3.0
"""Distance from a cooler between racks that is worth a note: engineering experience, no standard."""
MOST_ROW_PITCH_M = 20
"""What the site file takes."""


def unit_places(site: Site, placed: Placed, zones: pd.DataFrame, racks: int) -> list[Finding]:
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


def far_coolers(site: Site, placed: pd.DataFrame, racks: pd.DataFrame) -> list[Finding]:
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
