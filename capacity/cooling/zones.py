"""Zones: rows that share air units, and loops of coolant with the racks on them.

A zone is a failure domain: it has units of its own and spare ones of its own (RC-118, S118, ERR-45). In: heat by rack. Out: rows of
the frame `zones` (columns in capacity.model.frames).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.cooling import coolant, units
from capacity.cooling.air import Air, airflow_m3_s, cfm, rise_and_leakage
from capacity.cooling.not_planned import not_given
from capacity.model import frames
from capacity.worst import ROUNDING
from inventory.findings import Finding, finding, remedy
from inventory.site import Site

Numbers = npt.NDArray[np.int64]


def rack_heat(devices: pd.DataFrame, racks: pd.DataFrame, placements: pd.DataFrame) -> pd.DataFrame:
    """One row a rack of `racks`: rack, row, position, model, height_u, mass_kg, air_kw and liquid_kw at nameplate."""
    rack = placements.set_index("device")["rack"].reindex(devices["name"]).to_numpy()
    watts = devices["nameplate_w"].to_numpy(dtype=np.float64)
    share = devices["air_fraction"].to_numpy(dtype=np.float64)
    table = pd.DataFrame({"air_kw": watts * share / 1000, "liquid_kw": watts * (1 - share) / 1000})
    sums = table.groupby(rack).sum().reindex(racks["name"], fill_value=0.0)
    kept = ["row", "position", "model", "height_u", "mass_kg"]
    return pd.DataFrame(
        {
            "rack": racks["name"].to_numpy(),
            **{column: racks[column].to_numpy() for column in kept},
            "air_kw": sums["air_kw"].to_numpy(),
            "liquid_kw": sums["liquid_kw"].to_numpy(),
        }
    )


def rows_per_zone(site: Site) -> int:
    """Rows that share their air units; without units the hall is one zone."""
    return site.cooling.air.rows_per_zone if site.cooling.air is not None else site.room.rows


def air_zones(site: Site, per_rack: pd.DataFrame, air: Air, one: units.Capacity | None) -> pd.DataFrame:
    """Zones of the hall's air. Without units: the heat and the air that are needed."""
    given, n_plus = site.cooling.air, site.cooling.n_plus
    rise_k, leak = rise_and_leakage(given)
    number = (per_rack["row"] // rows_per_zone(site)).to_numpy(dtype=np.int64)
    rows = []
    for zone in np.unique(number).tolist():
        part = per_rack[number == zone]
        heat_kw = float(part["air_kw"].sum())
        flow = airflow_m3_s(heat_kw, rise_k, air) / (1 - leak / 100)
        row = _row(f"air-{zone + 1}", "air", part, heat_kw, float(part["liquid_kw"].sum()))
        row |= {"supply_c": air.supply_c, "return_c": units.return_c(air.supply_c, rise_k, leak)}
        row |= {"flow_needed": flow, "flow_needed_cfm": cfm(flow), "flow_unit": "m3/s"}
        if given is not None and one is not None:
            n = len(part) if given.kind == "rear_door" else units.needed(heat_kw, one.kw)
            installed = given.units_per_zone or (n if given.kind == "rear_door" else n + n_plus if n else 0)
            row |= _sized(given.model, one.kw, one.airflow_m3_s, n, installed, n_plus)
            row["flow_available_cfm"] = cfm(max(installed - n_plus, 0) * one.airflow_m3_s)
        rows.append(row)
    return _frame(rows)


def loop_numbers(site: Site, wet: pd.DataFrame) -> Numbers:
    """The loop, from 0, of each liquid-cooled rack: `racks_per_loop` after each other along the rows, else those of the
    rows of an air zone.
    """
    given = site.cooling.coolant
    if given is not None and given.racks_per_loop is not None:
        order = np.lexsort((wet["position"].to_numpy(), wet["row"].to_numpy()))
        number = np.empty(len(wet), dtype=np.int64)
        number[order] = np.arange(len(wet)) // given.racks_per_loop
        return number
    zone = (wet["row"] // rows_per_zone(site)).to_numpy(dtype=np.int64)
    return np.unique(zone, return_inverse=True)[1].astype(np.int64)


def loop_of(site: Site, per_rack: pd.DataFrame) -> dict[str, str]:
    """The loop of each liquid-cooled rack by its name."""
    wet = per_rack[per_rack["liquid_kw"] > 0]
    if site.cooling.coolant is None or wet.empty:
        return {}
    return {
        rack: f"loop-{n + 1}" for rack, n in zip(wet["rack"].tolist(), loop_numbers(site, wet).tolist(), strict=True)
    }


def loops(site: Site, per_rack: pd.DataFrame) -> pd.DataFrame:
    """The coolant's loops, each with its distribution units; no rows without coolant or without heat to it."""
    given, n_plus = site.cooling.coolant, site.cooling.n_plus
    wet = per_rack[per_rack["liquid_kw"] > 0]
    if given is None or wet.empty:
        return _frame([])
    supply_c, number = site.cooling.supply_c, loop_numbers(site, wet)
    per_unit = coolant.flow_l_min(given.cdu_kw, supply_c, given.rise_k)
    rows = []
    for loop in np.unique(number).tolist():
        part = wet[number == loop]
        heat_kw = float(part["liquid_kw"].sum())
        n = units.needed(heat_kw, given.cdu_kw)
        row = _row(f"loop-{loop + 1}", "liquid", part, float(part["air_kw"].sum()), heat_kw)
        row |= _sized(f"CDU {given.cdu_kw:g} kW", given.cdu_kw, per_unit, n, given.cdus_per_loop or n + n_plus, n_plus)
        row |= {"supply_c": supply_c, "return_c": supply_c + given.rise_k, "flow_unit": "L/min"}
        row["flow_needed"] = coolant.flow_l_min(heat_kw, supply_c, given.rise_k)
        rows.append(row)
    return _frame(rows)


def running(needed: int, installed: int, n_plus: int) -> int:
    """Units that carry a zone with the spare ones out; as many as are needed where too few are installed."""
    return max(installed - n_plus, needed)


def _row(name: str, kind: str, part: pd.DataFrame, air_kw: float, liquid_kw: float) -> dict[str, object]:
    return {
        "zone": name,
        "kind": kind,
        "first_row": int(part["row"].min()),
        "last_row": int(part["row"].max()),
        "racks": len(part),
        "air_kw": air_kw,
        "liquid_kw": liquid_kw,
        "largest_rack_kw": float(part["air_kw" if kind == "air" else "liquid_kw"].max()),
    }


def _sized(model: str, unit_kw: float, unit_flow: float, n: int, installed: int, n_plus: int) -> Mapping[str, object]:
    """What `installed` units give, all of them and with `n_plus` out."""
    left = max(installed - n_plus, 0)
    return {
        "unit": model,
        "unit_kw": unit_kw,
        "needed": n,
        "installed": installed,
        "capacity_kw": installed * unit_kw,
        "reserve_kw": left * unit_kw,
        "flow_available": left * unit_flow,
    }


def _frame(rows: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    frame = pd.DataFrame([dict(row) for row in rows])
    for column, (kind, _) in frames.ZONES.items():
        blank = "" if kind is str else 0
        frame[column] = frame[column].fillna(blank) if column in frame else blank
    return frame[list(frames.ZONES)]


def check_zones(site: Site, frame: pd.DataFrame) -> list[Finding]:
    """COOLING-CAPACITY when all units of a zone or a loop are too few, COOLING-REDUNDANCY when they are with the spare ones
    out.
    """
    given, n_plus = site.cooling.air, site.cooling.n_plus
    found = [] if given is not None else [not_given("cooling.air")]
    for row in frame.to_dict("records"):
        wet = row["kind"] == "liquid"
        heat_kw, unit_kw = float(row["liquid_kw" if wet else "air_kw"]), float(row["unit_kw"])
        if heat_kw <= 0 or (given is None and not wet):
            continue
        numbers: dict[str, Any] = {k: round(float(row[k]), 3) for k in ("unit_kw", "capacity_kw", "reserve_kw")}
        numbers |= {"liquid_kw" if wet else "air_kw": round(heat_kw, 3), "installed": float(row["installed"])}
        doors_only = not wet and given is not None and given.kind == "rear_door"
        want = int(row["racks"]) if doors_only else units.with_spares(heat_kw, unit_kw, n_plus)
        more = want - int(row["installed"])
        key = "cooling.coolant.cdus_per_loop" if wet else "cooling.air.units_per_zone"
        remedies = (
            [remedy({key: want}, fix="more-units", more=more)]
            if more > 0
            else [remedy(fix="larger-units"), remedy(fix="fewer-servers")]
        )
        if row["capacity_kw"] < heat_kw - ROUNDING:
            found.append(
                finding(
                    "COOLING-CAPACITY",
                    row["zone"],
                    case="liquid" if wet else "air",
                    limit=round(heat_kw, 3),
                    limit_source=f"heat of the {'loop' if wet else 'zone'} at nameplate",
                    err="ERR-45" if wet else None,
                    remedies=remedies,
                    **numbers,
                )
            )
        elif row["reserve_kw"] < heat_kw - ROUNDING:
            found.append(
                finding(
                    "COOLING-REDUNDANCY",
                    row["zone"],
                    case="liquid" if wet else "air",
                    limit=round(heat_kw, 3),
                    limit_source=f"site cooling.n_plus by {'loop' if wet else 'zone'} (RC-118, S118)",
                    err="ERR-45" if wet else None,
                    remedies=remedies,
                    words={"n_plus": n_plus},
                    **numbers,
                )
            )
    return found


def check_loops(site: Site, frame: pd.DataFrame, per_rack: pd.DataFrame) -> list[Finding]:
    """COOLING-LOOP-DOMAIN (ERR-45) when the liquid-cooled racks of several rows all hang on one loop."""
    if len(frame) != 1:
        return []
    one = frame.iloc[0]
    racks = int(one["racks"])
    rows = int(per_rack.loc[per_rack["liquid_kw"] > 0, "row"].nunique())
    if rows < 2:
        return []
    return [
        finding(
            "COOLING-LOOP-DOMAIN",
            str(one["zone"]),
            limit=1.0,
            limit_source="RC-118: spare units by failure domain",
            err="ERR-45",
            remedies=[remedy({"cooling.coolant.racks_per_loop": -(-racks // rows)})],
            racks=float(racks),
            rows=float(rows),
            liquid_kw=round(float(one["liquid_kw"]), 3),
        )
    ]
