"""Findings of where the cooling units stand, with the smallest change that mends each."""

import math

import numpy as np
import pandas as pd

from capacity.cooling.findings import not_given
from capacity.cooling.places import Placed
from inventory.findings import Finding
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
        Finding("SPACE-COOLING-UNITS", "error", "room.racks_per_row",
                f"{placed.missing} places of racks are missing for cooling units in the rows: racks_per_row "
                f"{longer} instead of {room.racks_per_row}, or rows {-(-total // per_row)} instead of {room.rows}",
                {"missing": placed.missing, "placed": len(placed.frame)}, float(room.rows * room.racks_per_row),
                "site room.rows x room.racks_per_row")
    ]  # fmt: skip


def _walls(site: Site, placed: Placed, zones: pd.DataFrame) -> list[Finding]:
    given, room = site.cooling.air, site.room
    if given is None or given.kind not in ("crah", "fan_wall"):
        return []
    if given.width_m is None:
        return [not_given("cooling.air.width_m", "whether the units fit beside each other on the walls")]
    if not placed.walls:
        return []
    heat_kw = dict(zip(zones["zone"].tolist(), zones["air_kw"].tolist(), strict=True))
    zone, most, fits, span = max(placed.walls, key=lambda one: one[1] / one[3])
    width = math.floor(span / most * 100) / 100
    pitch = math.ceil(given.width_m * most / span * room.row_pitch_m * 100) / 100
    ways = [f"cooling.air.width_m of at most {width:g}"] if width > 0 else []
    ways += [f"room.row_pitch_m {pitch:g}"] if pitch <= MOST_ROW_PITCH_M else []
    left = [(name, 2 * fit - site.cooling.n_plus) for name, _, fit, _ in placed.walls]
    if all(units > 0 for _, units in left):
        each = max(math.ceil(heat_kw[name] / units) for name, units in left)
        ways.append(f"units that move {each:g} kW each in this hall")
    return [
        Finding("SPACE-COOLING-WALL", "error", zone,
                f"{most} units of {given.width_m:g} m on one side take {most * given.width_m:.1f} m and the wall beside these "
                f"rows has {span:.1f} m, for {fits} ({len(placed.walls)} zones in all): "
                f"{', or '.join(ways) or 'another kind of unit'}",
                {"units_on_side": float(most), "fit_on_side": float(fits), "zones": float(len(placed.walls))}, round(span, 3),
                "site room.row_pitch_m x rows of the zone")
    ]  # fmt: skip


def _far_units(site: Site, placed: Placed) -> list[Finding]:
    if not placed.far or placed.missing:
        return []
    zone, outside, _ = max(placed.far, key=lambda one: one[1])
    keep = max(per_row for _, _, per_row in placed.far)
    return [
        Finding("COOLING-CDU-FAR", "info", zone,
                f"{outside} distribution units of {zone} stand in rows of other racks ({len(placed.far)} loops in all), as its "
                f"own have no free places: cooling.coolant.cdu_places_per_row {keep} keeps some, in longer rows or in more of them",
                {"units": float(outside), "loops": float(len(placed.far))}, None, "")
    ]  # fmt: skip


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
        Finding("COOLING-IN-ROW-FAR", "info", str(racks["name"].iloc[worst]),
                f"coolers stand on free places only, and the nearest one to this rack is {nearest[worst]:.1f} m away: keep "
                "places between the racks free (cooling.air.every_racks), or show by the commissioning test that the aisle mixes",
                {"distance_m": round(float(nearest[worst]), 2)}, IN_ROW_REACH_M, "engineering experience, to be replaced")
    ]  # fmt: skip
