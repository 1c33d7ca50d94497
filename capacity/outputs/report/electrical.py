"""The page that an electrical engineer opens first: one-line diagram, loading, failures, standby, waves, cost."""

from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment
from markupsafe import Markup

from capacity.model import Plan
from capacity.outputs.power_figures import figures
from capacity.outputs.report import one_line
from capacity.outputs.tables import Table
from capacity.power.upstream.existing_plant import NOUNS

KIND = {
    "utility": "Grid lines",
    "intake": "Intake switchgear",
    "transformer": "Transformers",
    "generators": "Generator plants",
    "switchboard": "Switchboards",
    "ups": "UPS blocks",
    "pdu_transformer": "PDU transformers",
    "panel": "Panels",
    "mechanical": "Cooling boards",
    "circuit": "Rack circuits",
    "room": "A whole room",
    "grid": "The grid",
    "generator": "Generators",
}


def section(plan: Plan, environment: Environment) -> Markup:
    """The section as markup."""
    template = environment.get_template("electrical.html.j2")
    known, electrical = figures(plan), plan.site.electrical
    if known is None or electrical is None:
        return Markup(template.render(drawing=""))
    return Markup(
        template.render(
            drawing=Markup(one_line.draw(plan)),
            boxes=_boxes(known, maintenance(plan)),
            maintenance=next((f.message for f in plan.findings if f.id == "POWER-MAINTENANCE"), ""),
            elements=Table.of(
                _elements(plan),
                "Kind",
                "#Count",
                "Most loaded",
                "#Rating",
                "#Limit kW",
                "#Load kW",
                "#Worst kW",
                "Worst when",
                "#% of limit",
                "#Drop %",
                "#Fault kA",
                "#Rated kA",
                "#Peak kA",
                "#Rated peak kA",
            ),
            failures=Table.of(
                _failures(plan),
                "Failure of",
                "#Judged",
                "Worst one",
                "#Circuits dead",
                "#Devices touched",
                "#GPU servers dark",
                "Tightest supplies",
                "#Left W",
                "#Needed W",
                "Most loaded then",
                "#% of limit",
            ),
            circuits=Table.of(
                _circuits(plan),
                "Feed",
                "#Circuits",
                "#Breaker A",
                "#Carries A",
                "Most loaded line",
                "#All feeds up A",
                "#Worst A",
                "Worst when",
                "#% of what it carries",
                "#Imbalance %",
                "#Least possible %",
                "#Feed lost %",
                "#Least possible %",
            ),
            standby=Table.of(_standby(known), "Figure", "#Value", "#Limit", "Verdict"),
            waves=Table.of(
                _waves(plan),
                "#Wave",
                "First to last rack",
                "#Racks",
                "#Servers",
                "#kW",
                "#Energised kW",
                "#Cooling kW",
                "Fullest zone, kW",
                "Most loaded element",
                "#kW",
                "#Servers lost",
                "Load step, kW",
                "Ends at",
                "#Ramp min",
                "#Burn-in MWh",
            ),
            profile=plan.site.power.profile,
            wave_feeds=", ".join((electrical.waves.feeds if electrical.waves else None) or plan.site.power.feeds),
            ramp=f"{electrical.waves.ramp_kw_min:g}" if electrical.waves else "",
            year=Table.of(_year(known), "Figure", "#Value"),
        )
    )


def _waves(plan: Plan) -> list[tuple[str, ...]]:
    """One row a wave: racks, load, limits, worst failure, step, ramp and energy."""
    rows: list[tuple[str, ...]] = []
    for wave in plan.waves.to_dict("records"):
        worst = f"{wave['worst_element']}, {wave['worst_case']} lost" if wave["worst_case"] else wave["worst_element"]
        step = f"{wave['step_element']}, {wave['step_case']} lost" if wave["step_case"] else wave["step_element"]
        rows.append(
            (
                f"{wave['wave']}",
                f"{wave['first_rack']} to {wave['last_rack']}",
                f"{wave['racks']:,}",
                f"{wave['servers']:,}",
                f"{wave['load_kw']:,.0f}",
                f"{wave['energised_kw']:,.0f}",
                f"{wave['cooling_kw']:,.0f}" if wave["cooling_kw"] else "–",
                f"{wave['zone'].removeprefix('cooling of ')}: {wave['zone_kw']:,.0f} of {wave['zone_limit_kw']:,.0f}"
                if wave["zone"]
                else "–",
                worst,
                f"{wave['worst_kw']:,.0f} of {wave['worst_limit_kw']:,.0f}",
                f"{wave['servers_lost']:,}",
                f"{step}: {wave['step_kw']:,.0f} of {wave['step_limit_kw']:,.0f}" if wave["step_limit_kw"] else "–",
                wave["bound"] or "last rack",
                f"{wave['ramp_min']:,.1f}",
                f"{wave['burn_in_mwh']:,.1f}",
            )
        )
    return rows


def maintenance(plan: Plan) -> dict[str, float]:
    """Pairs of one part out for maintenance and another that fails: how many lose servers, how many were judged; {} where
    the site does not ask, or none does.
    """
    found = next((f for f in plan.findings if f.id == "POWER-MAINTENANCE"), None)
    return dict(found.numbers) if found else {}


def _boxes(known: dict[str, Any], pairs: dict[str, float]) -> list[tuple[str, str]]:
    service, ups, units = known["service"], known["ups"], known["transformers"]
    boxes = [
        (f"{service['mva']:,.2f} MVA", f"of {service['firm_mva']:g} MVA firm"),
        (f"{service['amps']:,.0f} A", f"at {service['voltage_kv']:g} kV"),
        (f"{units['in_use']} + {units['spare']}", f"{units['kva']:,.0f} kVA units"),
        (f"{ups['modules']:,} x {ups['module_kw']:g} kW", f"UPS modules in {ups['blocks']} blocks"),
        (f"{known['fault_ka'].get('switchboard', 0):,.1f} kA", "at the boards"),
        (f"{drop:.2f} %" if (drop := known["panels"].get("largest_drop_pct")) is not None else "none", "voltage drop"),
        (
            f"{known['failures']['that_lose_servers']:,}",
            f"of {known['failures']['judged']:,} single failures lose servers",
        ),
    ]
    if pairs:
        boxes.append((f"{pairs['pairs']:,.0f}", f"of {pairs['judged']:,.0f} failures during maintenance do"))
    boxes += [
        (f"{counts['standing']} + {counts['to_add']}", f"{NOUNS[key]}s that stand there + to add")
        for key, counts in known.get("installed", {}).items()
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
                KIND.get(str(kind), str(kind)),
                f"{len(part):,}",
                str(top["name"]),
                f"{top['rating']:,.6g} {top['unit']}",
                f"{top['limit_kw']:,.1f}",
                f"{top['load_kw']:,.1f}",
                f"{top['worst_kw']:,.1f}",
                str(top["worst_case"]) and f"{top['worst_case']} is lost",
                f"{share.max() * 100:.0f}",
                f"{part['drop_pct'].max():.2f}",
                _or_dash(float(part["fault_ka"].max())),
                _or_dash(float(part["rating_ka"].max())),
                _or_dash(float(part["peak_ka"].max())),
                _or_dash(float(part["rating_peak_ka"].max())),
            )
        )
    return rows


def _circuits(plan: Plan) -> list[tuple[str, ...]]:
    """Of each feed and breaker the circuit whose line carries most, and the PDU whose phases differ most."""
    rows: list[tuple[str, ...]] = []
    for (feed, breaker_a), part in plan.circuits.groupby(["feed", "breaker_a"], sort=False):
        top = part.iloc[int(part["worst_phase_a"].to_numpy(dtype=np.float64).argmax())]
        spread = part[["imbalance_pct", "loss_imbalance_pct"]].max(axis=1).to_numpy(dtype=np.float64)
        uneven = part.iloc[int(spread.argmax())]
        carries = float(top["breaker_a"]) * plan.site.power.derating
        rows.append(
            (
                str(feed),
                f"{len(part):,}",
                f"{breaker_a:g}",
                f"{carries:.1f}",
                f"{top['pdu']} {top['worst_phase']}",
                f"{top['phase_a']:.1f}",
                f"{top['worst_phase_a']:.1f}",
                str(top["phase_case"]) and f"{top['phase_case']} is lost",
                f"{top['worst_phase_a'] / carries * 100:.0f}",
                *(
                    f"{uneven[c]:.1f}"
                    for c in ("imbalance_pct", "imbalance_bound_pct", "loss_imbalance_pct", "loss_imbalance_bound_pct")
                ),
            )
        )
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
                KIND.get(str(kind), str(kind)),
                f"{len(part):,}",
                str(top["failure"]),
                f"{top['dead_circuits']:,}",
                f"{top['loads_affected']:,}",
                f"{part['servers_lost'].max():,}",
                f"{touched}: {top['supplies_left']} of {top['supplies']}" if touched else "none touched",
                f"{top['left_w']:,.0f}" if touched else "–",
                f"{top['needed_w']:,.0f}" if touched else "–",
                str(top["worst_element"]) or "–",
                f"{top['worst_pct']:.0f}" if top["worst_element"] else "–",
            )
        )
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
                f"Load step of all GPUs at the {row['subject']}"
                + (f" ({row['element']}, {row['failure']} lost)" if row["failure"] else ""),
                f"{row['step_kw']:,.0f} kW",
                f"{row['permitted_kw']:,.0f} kW",
                _verdict(row["step_kw"] <= row["permitted_kw"])
                + ("" if row["step_kw"] <= row["permitted_kw"] else f"; hold {row['floor_w']:,.0f} W a server"),
            )
        )
    counts = ups["counts_for_it"]
    rows.append(
        (
            f"UPS modules for the IT load as one block, {ups['module_kw']:g} kW: N, N+1, 2N",
            f"{counts['n']}, {counts['n+1']}, {counts['2n']}",
            "",
            "",
        )
    )
    return rows


def _year(known: dict[str, Any]) -> list[tuple[str, str]]:
    year = known.get("year")
    if year is None:
        return []
    money = year["currency"]
    return [
        ("IT load, measured profile", f"{year['it_kw']:,.0f} kW"),
        ("Peak at the meter", f"{year['peak_kw']:,.0f} kW"),
        (
            f"Energy at a load factor of {year['load_factor']:g} and a PUE of {year['pue']:.3f}",
            f"{year['mwh']:,.0f} MWh",
        ),
        *([("Water on the same basis", f"{year['water_m3']:,.0f} m3")] if "water_m3" in year else []),
        ("Energy charge", f"{year['cost_energy']:,} {money}"),
        ("Demand charge", f"{year['cost_demand']:,} {money}"),
        ("Together", f"{year['cost_total']:,} {money}"),
    ]
