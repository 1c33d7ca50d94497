"""The HTML report of a plan: one self-contained page with pictures, no scripts, nothing fetched.

In: a Plan. Out: text (`render`) or a file (`write`). Rendering reads the plan only; the same plan gives the same bytes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from capacity.model import Plan
from capacity.outputs.report import assumptions, buying, electrical, fabric, mechanical, racks
from capacity.outputs.report.template import environment
from capacity.outputs.summary import answers, heat_figures
from capacity.outputs.tables import Table
from inventory.findings import Finding
from inventory.findings_registry import registry
from inventory.paths import write_file

SECTIONS = (
    ("findings", "Findings"),
    ("fabric", "Fabric"),
    ("racks", "Racks"),
    ("power", "Power"),
    ("electrical", "Electrical"),
    ("heat", "Heat"),
    ("mechanical", "Mechanical"),
    ("addresses", "Addresses"),
    ("purchase", "Buying"),
    ("assumptions", "Assumptions"),
    ("inputs", "Inputs"),
)
SEVERITY_ORDER = {"error": 0, "warning": 1, "info": 2}
FABRIC_LABELS = (("compute", "Compute fabric"), ("inband", "In-band Ethernet"))
ELEVATIONS_SHOWN = 10


def write(plan: Plan, path: Path, effects: Sequence[assumptions.Row] = ()) -> Path:
    """Write the report to `path`, replacing an earlier one in one step."""
    return write_file(path, render(plan, effects))


def render(plan: Plan, effects: Sequence[assumptions.Row] = ()) -> str:
    """The page as text; `effects` are the keys of a sensitivity study, where one was made."""
    devices, cables = plan.devices, plan.cables
    drawings = [
        (label, Markup(drawn))
        for kind, label in FABRIC_LABELS
        if (drawn := fabric.picture(devices, cables, kind, f"{label} of {plan.site.name}"))
    ]
    findings = sorted(plan.findings, key=lambda f: (SEVERITY_ORDER[f.severity], f.id, f.subject))
    return (
        environment()
        .get_template("plan.html.j2")
        .render(
            site=plan.site.name,
            lead=_lead(plan),
            example=plan.site.example,
            changes=plan.site.changes,
            sections=SECTIONS,
            answers=_answers(plan),
            unfit=_unfit(findings),
            figures=_figures(plan),
            findings=_once(findings),
            explained={f.id: registry()[f.id] for f in findings if f.id in registry()},
            counts=_counts(findings),
            fabrics=drawings,
            **_elevations(plan),
            buying=buying.page(plan),
            mechanical=mechanical.page(plan),
            electrical=electrical.section(plan, environment()),
            assumptions=assumptions.section(plan, environment(), effects),
            profile=plan.site.power.profile,
            plan_hash=plan.hash,
            source=f"site {plan.site.name}, schema {plan.site.schema_version}",
            **_tables(plan),
        )
    )


def _lead(plan: Plan) -> str:
    site = plan.site
    servers = int((plan.devices["role"] == "gpu").sum())
    systems = int(plan.devices["busbar"].max()) + 1
    which = f"{servers:,} servers with {site.gpu.sku}"
    if site.server.system:
        which = f"{servers:,} trays with {site.gpu.sku} in {systems:,} {site.server.system} racks"
    return (
        f"{which}, {site.fabric.kind.upper()} fabric with {site.fabric.rails} rails, "
        f"{len(plan.racks):,} racks on feeds {', '.join(site.power.feeds)} at {site.power.voltage_v:g} V."
    )


def _figures(plan: Plan) -> list[tuple[str, str]]:
    devices = plan.devices
    servers = devices[devices["kind"] == "server"]
    compute = devices[(devices["kind"] == "switch") & (devices["fabric"] == "compute")]
    errors = sum(f.severity == "error" for f in plan.findings)
    warnings = sum(f.severity == "warning" for f in plan.findings)
    return [
        (f"{len(servers):,}", "servers"),
        (f"{len(compute):,}", "compute switches"),
        (f"{len(plan.cables):,}", "cables"),
        (f"{plan.cables['length_m'].sum() / 1000:,.1f} km", "routed cable"),
        (f"{len(plan.racks):,}", "racks"),
        (f"{devices['nameplate_w'].sum() / 1000:,.0f} kW", "nameplate"),
        (f"{devices['measured_w'].sum() / 1000:,.0f} kW", "measured profile"),
        (f"{errors} / {warnings}", "errors / warnings"),
    ]


def _answers(plan: Plan) -> list[tuple[str, str]]:
    """What is asked first, as figures with their labels."""
    said = answers(plan)
    late = "" if said["go_live_p90"] <= said["needed"] else f", needed {said['needed']}"
    return [
        (f"{said['gpus']:,}", f"GPUs, {plan.site.gpu.sku}"),
        (f"{said['facility_kw'] / 1000:,.2f} MW", f"facility, {plan.site.power.profile} profile"),
        (f"{said['pue']:.2f}", "PUE"),
        buying.cost_figure(plan),
        (said["go_live_p50"], f"go-live, P50; P90 {said['go_live_p90']}{late}"),
    ]


def _unfit(findings: Sequence[Finding]) -> list[tuple[str, str, int]]:
    """What does not fit: id, title and number of the error findings, each once."""
    counted = Counter(finding.id for finding in findings if finding.severity == "error")
    return [(id_, registry()[id_].title if id_ in registry() else "", count) for id_, count in counted.items()]


def _once(findings: Sequence[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """Each finding once: the first of an id and severity, and the others like it."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for found in findings:
        alike.setdefault((found.severity, found.id), []).append(found)
    return [(first, others) for first, *others in alike.values()]


def _counts(findings: Sequence[Finding]) -> str:
    """'1 error, 2 warnings': how many findings of each severity, the gravest first; '' without findings."""
    names = {"error": "error", "warning": "warning", "info": "note"}
    counted = Counter(finding.severity for finding in findings)
    return ", ".join(
        f"{count:,} {names[severity]}{'' if count == 1 else 's'}"
        for severity, count in sorted(counted.items(), key=lambda pair: SEVERITY_ORDER[pair[0]])
    )


def _elevations(plan: Plan) -> dict[str, Any]:
    held = racks.contents(plan.devices, plan.placements, plan.racks, plan.circuits)
    alike = racks.kinds(held)
    drawn = racks.elevations(held, racks.shown(held, alike, ELEVATIONS_SHOWN), plan.racks)
    shown = [
        {
            "svg": Markup(e.svg),
            "title": e.racks[0] if len(e.racks) == 1 else f"{e.racks[0]} and {len(e.racks) - 1} more",
            "used_u": e.used_u,
            "height_u": e.height_u,
            "kw": f"{e.nameplate_kw:,.1f}",
            "mass": f"{e.mass_kg:,.0f}",
            "others": len(e.racks) - 1,
            "names": ", ".join(e.racks[1:]),
        }
        for e in drawn
    ]
    return {"elevations": shown, "rack_kinds": len(alike)}


def _tables(plan: Plan) -> dict[str, Table]:
    cables = (
        plan.cables.groupby(["fabric", "stage", "medium"], sort=False)
        .agg(count=("cable_id", "size"), total=("length_m", "sum"), longest=("length_m", "max"))
        .reset_index()
    )
    circuits = (
        plan.circuits.assign(load=plan.circuits["load_kw"].round(2), worst=plan.circuits["worst_kw"].round(2))
        .groupby(["feed", "breaker_a", "voltage_v", "phases", "usable_kw", "load", "worst"], sort=False)
        .agg(count=("circuit", "size"), first=("circuit", "first"))
        .reset_index()[["count", "first", "feed", "breaker_a", "voltage_v", "phases", "usable_kw", "load", "worst"]]
    )
    addresses = (
        plan.addresses.groupby("network", sort=False)
        .agg(count=("address", "size"), first=("address", "first"), last=("address", "last"))
        .reset_index()
    )
    managers = plan.cables.loc[plan.cables["stage"] == "manager-leaf", ["a_device", "a_port", "b_device", "b_port"]]
    feeds = plan.feeds[["feed", "voltage_v", "seed_kw", "measured_kw", "nameplate_kw", "loss_kw"]]
    return {
        "cables": Table(cables, ("Fabric", "Stage", "Medium", "#Cables", "#Total m", "#Longest m")),
        "managers": Table(managers, ("Host", "Port", "Leaf", "Port of the leaf")),
        "power": Table(_power(plan), ("Level", "#Count", "#Seed kW", "#Measured kW", "#Nameplate kW")),
        "feeds": Table(feeds, ("Feed", "#V", "#Seed kW", "#Measured kW", "#Nameplate kW", "#Worst loss of another kW")),
        "circuits": Table(
            circuits,
            ("#Circuits", "First", "Feed", "#Breaker A", "#V", "#Phases", "#Usable kW", "#Load kW", "#Worst kW"),
            digits=2,
        ),
        "addresses": Table(addresses, ("Network", "#Addresses", "First", "Last")),
        "heat": Table.of(_heat(plan), "Heat", "#Figure", "Unit"),
        "hashes": Table.of(plan.hashes.items(), "Input", "SHA-256"),
    }


def _heat(plan: Plan) -> list[tuple[str, str, str]]:
    """Heat at nameplate and what carries it away: air, and the coolant where the servers are cooled by liquid."""
    heat = heat_figures(plan)
    rows = [
        ("into the room's air", f"{heat['room_kw']:,.1f}", "kW"),
        ("the same", f"{heat['room_tons']:,.1f}", "tons of refrigeration"),
        *(
            (f"air that carries it with a rise of {rise[:-1]} K", f"{cfm:,}", "CFM")
            for rise, cfm in heat["airflow_cfm"].items()
        ),
    ]
    if loop := heat.get("coolant"):
        rows += [
            ("into the coolant", f"{heat['liquid_kw']:,.1f}", "kW"),
            (f"coolant from {loop['supply_c']:g} to {loop['return_c']:g} °C", f"{loop['flow_l_min']:,.0f}", "L/min"),
            ("the rack with most of it", f"{loop['rack_largest_kw']:,.1f}", "kW"),
            ("its coolant", f"{loop['rack_largest_l_min']:,.0f}", "L/min"),
            ("distribution units, spare ones included", f"{loop['distribution_units']:,}", "each"),
        ]
    return rows


def _power(plan: Plan) -> pd.DataFrame:
    """kW by level: each role of device, all racks, the site."""
    profiles = ["seed_w", "measured_w", "nameplate_w"]
    by_role = plan.devices[plan.devices["nameplate_w"] > 0].groupby("role", sort=False)[profiles].agg(["size", "sum"])
    rows: list[tuple[Any, ...]] = [
        (f"all {role}", int(part[("seed_w", "size")]), *(float(part[(p, "sum")]) / 1000 for p in profiles))
        for role, part in by_role.iterrows()
    ]
    kilowatts: Iterable[str] = ("seed_kw", "measured_kw", "nameplate_kw")
    rows.append(("heaviest rack", 1, *(float(plan.racks[p].max()) for p in kilowatts)))
    rows.append(("IT load of the site", len(plan.racks), *(float(plan.racks[p].sum()) for p in kilowatts)))
    return pd.DataFrame(rows, columns=["level", "count", "seed_kw", "measured_kw", "nameplate_kw"])
