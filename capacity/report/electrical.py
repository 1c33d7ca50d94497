"""The page that an electrical engineer opens first: one-line diagram, loading, failures, standby, waves, cost."""

from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment
from markupsafe import Markup

from capacity.plan import Plan
from capacity.power.figures import figures
from capacity.report import one_line

KIND = {
    "utility": "Grid lines", "intake": "Intake switchgear", "transformer": "Transformers", "generators": "Generator plants",
    "switchboard": "Switchboards", "ups": "UPS blocks", "pdu_transformer": "PDU transformers", "panel": "Panels",
    "mechanical": "Cooling boards", "circuit": "Rack circuits", "room": "A whole room", "grid": "The grid",
    "generator": "Generators",
}  # fmt: skip


def section(plan: Plan, environment: Environment) -> Markup:
    """The section as markup."""
    template = environment.get_template("electrical.html.j2")
    known, electrical = figures(plan), plan.site.electrical
    if known is None or electrical is None:
        return Markup(template.render(drawing=""))
    return Markup(
        template.render(
            drawing=Markup(one_line.draw(plan)),
            boxes=_boxes(known),
            elements=_elements(plan),
            element_heads=["Kind", "#Count", "Most loaded", "#Rating", "#Limit kW", "#Load kW", "#Worst kW", "Worst when",
                           "#% of limit", "#Drop %", "#Fault kA", "#Rated kA"],
            failures=_failures(plan),
            failure_heads=["Failure of", "#Judged", "Worst one", "#Circuits dead", "#Devices touched", "#GPU servers dark",
                           "Tightest supplies", "#Left W", "#Needed W", "Most loaded then", "#% of limit"],
            standby=_standby(known),
            waves=[tuple(_cell(v) for v in row) for row in plan.waves.itertuples(index=False, name=None)],
            ramp=f"{electrical.waves.ramp_kw_min:g}" if electrical.waves else "",
            year=_year(known),
        )
    )  # fmt: skip


def _cell(value: Any) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _boxes(known: dict[str, Any]) -> list[tuple[str, str]]:
    service, ups, units = known["service"], known["ups"], known["transformers"]
    boxes = [
        (f"{service['mva']:,.2f} MVA", f"of {service['firm_mva']:g} MVA firm"),
        (f"{service['amps']:,.0f} A", f"at {service['voltage_kv']:g} kV"),
        (f"{units['in_use']} + {units['spare']}", f"{units['kva']:,.0f} kVA units"),
        (f"{ups['blocks']} x {ups['modules'] // max(ups['blocks'], 1)}", f"{ups['module_kw']:g} kW UPS"),
        (f"{known['fault_ka'].get('switchboard', 0):,.1f} kA", "at the boards"),
        (f"{drop:.2f} %" if (drop := known["panels"].get("largest_drop_pct")) is not None else "none", "voltage drop"),
        (f"{known['failures']['judged']:,}", "failures"),
        (f"{known['failures']['that_lose_servers']:,}", "lose servers"),
    ]
    if plant := known.get("generators"):
        boxes.insert(4, (f"{plant['sets']}", f"{plant['kw']:,.0f} kW sets"))
    return boxes


def _elements(plan: Plan) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for kind, part in plan.elements.groupby("kind", sort=False):
        if kind == "generator":
            continue
        share = (part["worst_kw"] / part["limit_kw"].where(part["limit_kw"] > 0, np.inf)).to_numpy(dtype=np.float64)
        top = part.iloc[int(share.argmax())]
        rows.append(
            (
                KIND.get(str(kind), str(kind)), f"{len(part):,}", str(top["name"]), f"{top['rating']:,.0f} {top['unit']}",
                f"{top['limit_kw']:,.1f}", f"{top['load_kw']:,.1f}", f"{top['worst_kw']:,.1f}",
                str(top["worst_case"]) and f"{top['worst_case']} is lost", f"{share.max() * 100:.0f}",
                f"{part['drop_pct'].max():.2f}", _or_dash(float(part["fault_ka"].max())),
                _or_dash(float(part["rating_ka"].max())),
            )
        )  # fmt: skip
    return rows


def _or_dash(value: float) -> str:
    return f"{value:,.1f}" if value else "–"


def _failures(plan: Plan) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for kind, part in plan.failures.groupby("kind", sort=False):
        margin = part["left_w"] / part["needed_w"].where(part["needed_w"] > 0, np.inf)
        order = pd.DataFrame({"servers": part["servers_lost"], "dead": part["dead_circuits"], "tight": -margin})
        top = part.loc[order.sort_values(["servers", "dead", "tight"], kind="stable").index[-1]]
        touched = str(top["tightest_group"])
        rows.append(
            (
                KIND.get(str(kind), str(kind)), f"{len(part):,}", str(top["failure"]), f"{top['dead_circuits']:,}",
                f"{top['loads_affected']:,}", f"{part['servers_lost'].max():,}",
                f"{touched}: {top['supplies_left']} of {top['supplies']}" if touched else "none touched",
                f"{top['left_w']:,.0f}" if touched else "–", f"{top['needed_w']:,.0f}" if touched else "–",
                str(top["worst_element"]) or "–", f"{top['worst_pct']:.0f}" if top["worst_element"] else "–",
            )
        )  # fmt: skip
    return rows


def _verdict(good: bool) -> str:
    return "✓ holds" if good else "▲ does not hold"


def _standby(known: dict[str, Any]) -> list[tuple[str, ...]]:
    ups = known["ups"]
    rows: list[tuple[str, ...]] = [
        (
            f"UPS battery at full load, until {ups['needed_for']}",
            f"{ups['battery_s']:,.0f} s",
            f"{ups['needed_s']:,.0f} s",
            _verdict(ups["battery_s"] >= ups["needed_s"]),
        )
    ]
    if plant := known.get("generators"):
        rows.append(("Largest generator plant, grid lost", f"{plant['largest_plant_kw']:,.0f} kW", "", ""))
        rows.append((f"Fuel for {plant['fuel_h']:g} h", f"{plant['fuel_litres']:,} L", "", ""))
    for row in known.get("swing", []):
        rows.append(
            (
                f"Load step of all GPUs at the {row['subject']}",
                f"{row['step_kw']:,.0f} kW",
                f"{row['permitted_kw']:,.0f} kW",
                _verdict(row["step_kw"] <= row["permitted_kw"])
                + ("" if row["step_kw"] <= row["permitted_kw"] else f"; hold {row['floor_w']:,.0f} W a server"),
            )
        )
    counts = ups["counts_for_it"]
    rows.append((f"UPS modules for the IT load as one block, {ups['module_kw']:g} kW: N, N+1, 2N",
                 f"{counts['n']}, {counts['n+1']}, {counts['2n']}", "", ""))  # fmt: skip
    return rows


def _year(known: dict[str, Any]) -> list[tuple[str, str]]:
    year = known.get("year")
    if year is None:
        return []
    money = year["currency"]
    return [
        (f"Energy at a load factor of {year['load_factor']:g}", f"{year['mwh']:,.0f} MWh"),
        ("Energy charge", f"{year['cost_energy']:,} {money}"),
        ("Demand charge", f"{year['cost_demand']:,} {money}"),
        ("Together", f"{year['cost_total']:,} {money}"),
    ]
