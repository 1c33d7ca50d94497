"""The cooling's documents: zones and units, options and their decision, blanking panels, leak response.

    documents(plan) -> {"cooling-zones.csv": text, …}      pure; equal plans give equal bytes

Each names the site and the plan's hash.
"""

import numpy as np
import pandas as pd

from capacity.cooling.aisles import aisle_layout
from capacity.cooling.options import chosen
from capacity.cooling.zones import loop_of, rack_heat
from capacity.model import Plan
from capacity.outputs.tables import csv_text

LEAK_STEPS = (
    "1 alarm: leak rope or spot sensor of this rack, seen in telemetry; 2 drain: scheduler drains these servers, jobs write a "
    "checkpoint; 3 power off: BMC, then the circuits named here; 4 shut: valves of this rack, only after the servers are off "
    "(closing them at full load trips GPUs in seconds, ERR-19); 5 lock out and call the facility engineer. A large leak (flow or "
    "pressure of the loop alarms too): power off first, without draining"
)


def documents(plan: Plan) -> dict[str, str]:
    """All documents of the cooling by file name."""
    found = {
        "cooling-zones.csv": rounded_csv(plan.zones),
        "cooling-units.csv": rounded_csv(plan.cooling_units),
        "cooling-figures.csv": rounded_csv(plan.cooling_figures),
        "cooling-options.csv": rounded_csv(plan.cooling_options),
        "cooling-decision.md": decision(plan),
        "aisle-layout.csv": rounded_csv(aisle_layout(plan)),
        "blanking-panels.csv": rounded_csv(blanking(plan)),
    }
    if len(leaks := leak_response(plan)):
        found["leak-response.csv"] = rounded_csv(leaks)
    return found


def blanking(plan: Plan) -> pd.DataFrame:
    """Empty rack units of each rack, which take a 1U blanking panel each (S106)."""
    racks = plan.racks
    empty = (racks["height_u"] - racks["used_u"]).clip(lower=0)
    return pd.DataFrame(
        {"rack": racks["name"], "height_u": racks["height_u"], "used_u": racks["used_u"], "panels_1u": empty}
    )


def leak_response(plan: Plan) -> pd.DataFrame:
    """One row a liquid-cooled rack (S113): sensors, valves, servers to drain, circuits to open, in this order."""
    if plan.site.cooling.coolant is None:
        return pd.DataFrame()
    devices, placements = plan.devices, plan.placements.set_index("device")["rack"]
    wet = devices[devices["air_fraction"] < 1]
    rack = placements.reindex(wet["name"]).to_numpy()
    servers = (
        wet["name"].where(wet["kind"] == "server", "").groupby(rack).agg(lambda names: _run([n for n in names if n]))
    )
    circuits = plan.circuits.groupby("rack")["circuit"].agg(lambda names: _run(list(names)))
    heat = (wet["nameplate_w"] * (1 - wet["air_fraction"]) / 1000).groupby(rack).sum()
    names = list(heat.index)
    loop = loop_of(plan.site, rack_heat(plan.devices, plan.racks, plan.placements))
    return pd.DataFrame(
        {
            "rack": names,
            "loop": [loop.get(name, "") for name in names],
            "liquid_kw": heat.round(3).to_numpy(),
            "sensors": [f"LD-{name}-MANIFOLD, LD-{name}-FLOOR" for name in names],
            "supply_valve": [f"V-{name}-S" for name in names],
            "return_valve": [f"V-{name}-R" for name in names],
            "drain": servers.reindex(names).fillna("").to_numpy(),
            "open_circuits": circuits.reindex(names).fillna("").to_numpy(),
            "order": LEAK_STEPS,
        }
    )


def _run(names: list[str]) -> str:
    """'gpu001 to gpu018' for a run of names, all of them otherwise."""
    if len(names) > 6:
        return f"{names[0]} to {names[-1]} ({len(names)})"
    return " ".join(names)


def decision(plan: Plan) -> str:
    """The decision record on the kind of cooling (S097) as Markdown."""
    site, table = plan.site, plan.cooling_options
    own = chosen(site, plan.devices)
    it_kw = float(plan.devices["nameplate_w"].sum()) / 1000
    densest = float(plan.racks["nameplate_kw"].max())
    context = (
        f"{it_kw:,.0f} kW of IT load in {len(plan.racks):,} racks; the densest one draws {densest:.1f} kW at nameplate. ASHRAE "
        f"class {site.cooling.class_}, altitude {site.room.altitude_m:g} m. Raised floor, in-row coolers, rear doors and fan "
        "walls are alternatives (ERR-46)."
    )
    lines = [
        f"# Cooling of {site.name}: {own}",
        "",
        f"Plan {plan.hash}. Generated: change the site file, not this text.",
        "",
        "## Context",
        "",
        context,
        "",
        "## Options",
        "",
    ]
    if table.empty:
        lines += ["None compared: the site file has no cooling.options."]
    else:
        heads = (
            "Option",
            "Air kW",
            "Liquid kW",
            "Densest rack, air kW",
            "Possible",
            "Servers a rack",
            "GPU racks",
            "Air m3/s",
        )
        lines.append("| " + " | ".join((*heads, "PUE", "")) + " |")
        lines.append("|---|" + "---:|" * len(heads) + "---|")
        for row in table.to_dict("records"):
            verdict = row["reason"] or ("chosen" if row["chosen"] else "fits")
            pue = f"{row['pue']:.3f}" if row["pue"] else "–"
            racks = row["gpu_racks"] if row["gpu_racks"] >= 0 else "–"
            lines.append(
                f"| {row['option']} | {row['air_kw']:,.0f} | {row['liquid_kw']:,.0f} | {row['largest_rack_air_kw']:.1f} | "
                f"{row['rack_air_limit_kw']:g} | {row['servers_per_rack']} ({row['bound']}) | {racks} | "
                f"{row['airflow_m3_s']:.1f} | {pue} | {verdict} |"
            )
        lines += ["", *(f"- {row['option']}: {row['source']}" for row in table.to_dict("records"))]
    lines += ["", "## Decision", "", f"{own}: cooling.kind is {site.cooling.kind} in the site file.", ""]
    lines += ["## Consequences", ""]
    for row in plan.zones.to_dict("records"):
        what = "air" if row["kind"] == "air" else "coolant"
        kw = row["air_kw"] if row["kind"] == "air" else row["liquid_kw"]
        lines.append(
            f"- {row['zone']}: {kw:,.0f} kW to {what}, {row['needed']} + {row['installed'] - row['needed']} units"
            f"{' of ' + row['unit'] if row['unit'] else ' (none given)'}"
        )
    change = (
        "Another heat split of the chosen server, a rack above the air heat that is possible, another plant or climate."
    )
    lines += ["", "## What would change our mind", "", change, ""]
    return "\n".join(lines)


def rounded_csv(frame: pd.DataFrame) -> str:
    """A table as CSV, its figures with at most four decimals."""
    rounded = frame.assign(**{c: np.round(frame[c], 4) for c in frame.columns if frame[c].dtype.kind == "f"})
    return csv_text(rounded)
