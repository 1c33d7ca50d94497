"""Documents of the purchase and of the storage: bill of materials, order dates, activities, storage design and comparison.

documents(plan) -> {"bill-of-materials.csv": frame or text, …}

Pure; capacity.outputs.documents.installation stamps and writes them
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from capacity.model import Plan
from capacity.outputs import workbook
from capacity.storage import sizing
from capacity.storage.load import LINK_EFFICIENCY

COMPARED = (
    "block",
    "title",
    "shared_posix",
    "media",
    "drive_tb",
    "enclosures",
    "bound",
    "drives",
    "raw_pb",
    "usable_pb",
    "write_gb_s",
    "read_gb_s",
    "metadata_ops_s",
    "metadata_servers",
    "rebuild_h",
    "links",
    "link_gbps",
    "links_needed",
    "rack_u",
    "kw",
    "mass_kg",
)


def tables(plan: Plan) -> dict[str, pd.DataFrame]:
    """The documents that are tables."""
    return {
        "bill-of-materials.csv": workbook.bill(plan),
        "order-dates.csv": plan.schedule,
        "activities.csv": plan.activities,
        "storage-comparison.csv": comparison(plan),
    }


def comparison(plan: Plan) -> pd.DataFrame:
    """One row a technology, all sized for the same needs, with what each is good for and what rules it out (S122)."""
    blocks, needs = plan.catalog.storage, needs_of(plan)
    rows = []
    for row in plan.storage.to_dict("records"):
        block = blocks[row["block"]]
        rows.append(
            {
                **{name: row[name] for name in COMPARED},
                "chosen": row["chosen"],
                "falls_short_in": shortfall(row, needs),
                "suits": block.suits,
                "watch": block.watch,
                "licence": block.licence,
            }
        )
    return pd.DataFrame(rows)


def needs_of(plan: Plan) -> sizing.Needs:
    """What the plan's GPUs ask of the storage."""
    gpus = int(plan.bom.loc[plan.bom["item"] == "gpu", "quantity"].sum())
    return sizing.needs_of(plan.site, gpus, plan.catalog)


def unmet(option: Mapping[Any, Any], needs: sizing.Needs) -> list[str]:
    """Stated needs that an option does not meet, in words; jobs need a file system."""
    wanted = {
        "usable_pb": needs.usable_pb,
        "write_gb_s": needs.write_gb_s,
        "read_gb_s": needs.read_gb_s,
        "metadata_ops_s": needs.metadata_ops_s,
    }
    short = [
        f"{name} {float(option[name]):.4g} of {need:.4g}"
        for name, need in wanted.items()
        if need is not None and float(option[name]) < need - 1e-9
    ]
    limit, hours = needs.rebuild_limit_h, float(option["rebuild_h"])
    if limit is not None and hours > limit:
        short.append(f"rebuild_h {hours:.3g} of at most {limit:g}")
    return short + ([] if option["shared_posix"] else ["no file system that jobs mount"])


def shortfall(option: Mapping[Any, Any], needs: sizing.Needs) -> str:
    """The unmet needs of an option in one cell; 'nothing' for one that meets every stated need."""
    return "; ".join(unmet(option, needs)) or "nothing"


def storage_document(plan: Plan) -> str:
    """The storage design as Markdown (S121): needs with their formulae, the design, and how it compares."""
    site, needs = plan.site, needs_of(plan)
    checkpoint = site.storage.checkpoint
    own = plan.storage[plan.storage["chosen"] == 1]
    parts = f"{checkpoint.params_b:g} billion parameters x {checkpoint.bytes_per_param:g} B"
    rate = sizing.interruptions(site, plan.catalog)
    each = f"{rate.figures.gpu_hours:,.0f} GPU-hours each ({rate.source})"
    spread = (
        f"{rate.figures.low_gpu_hours:,.0f} to {rate.figures.high_gpu_hours:,.0f} GPU-hours each ({rate.range_source})"
    )
    lines = [
        f"# Storage of {site.name}",
        "",
        f"Plan {plan.hash}. Rates in GB/s are 10^9 bytes a second, capacities in PB 10^15 bytes.",
        "",
        "## What the cluster needs",
        "",
        "| Need | Value | From |",
        "|---|---|---|",
        f"| Usable capacity | {needs.usable_pb:.6g} PB | site storage.usable_pb |",
        f"| One checkpoint | {needs.checkpoint_tb:.4g} TB | {parts} |",
        f"| Checkpoint write rate | {needs.write_gb_s:.4g} GB/s | one checkpoint in {checkpoint.stall_s:g} s |",
        f"| Kept checkpoints | {_or_open(needs.retained_pb, 'PB')} | storage.checkpoint.retained |",
        f"| Time between interruptions | {needs.mtti_h:.3g} h | {each} |",
        f"| Its range | {_span(needs.mtti_range_h, 'h')} | {spread} |",
        f"| Interval that loses least | {needs.interval_min:.3g} min | sqrt(2 x stall x time between interruptions), Young 1974 |",
        f"| Its range | {_span(needs.interval_range_min, 'min')} | the same, over the range of interruptions |",
        f"| Interval of the site | {_or_open(checkpoint.interval_min, 'min')} | storage.checkpoint.interval_min |",
        f"| Read rate | {_or_open(needs.read_gb_s, 'GB/s')} | storage.read_gb_s_per_gpu |",
        f"| Rebuild of a drive | {_or_open(needs.rebuild_limit_h, 'h')} at most | storage.rebuild_limit_h |",
        f"| Metadata | {_or_open(needs.metadata_ops_s, 'operations/s')} | storage.metadata_ops_s_per_gpu |",
        "",
        "## Design",
        "",
    ]
    if own.empty:
        lines += [f"The catalogue has no building block for storage.kind {site.storage.kind}: nothing is sized.", ""]
    for row in own.to_dict("records"):
        lines += [
            f"{row['title']} ({row['block']}): {row['enclosures']} enclosures; the {row['bound']} decides their number.",
            "",
            "| Figure | Value |",
            "|---|---|",
            f"| Drives | {row['drives']} x {row['drive_tb']:g} TB {row['media']}, {row['raw_pb']:.4g} PB raw |",
            f"| Usable | {row['usable_pb']:.4g} PB |",
            f"| Write, read | {row['write_gb_s']:.4g} GB/s, {row['read_gb_s']:.4g} GB/s |",
            f"| Metadata | {row['metadata_ops_s']:,.0f} operations/s, {row['metadata_servers']} servers of their own |",
            f"| Rebuild of a drive | {row['rebuild_h']:.3g} h |",
            f"| Links | {row['links']} x {row['link_gbps']:g} Gb/s; {row['links_needed']} needed at {LINK_EFFICIENCY:.0%} |",
            f"| Rack units, power, mass | {row['rack_u']:g} U, {row['kw']:.4g} kW, {row['mass_kg']:,.0f} kg |",
            "",
        ]
    lines += [
        "## Compared with",
        "",
        "| Technology | Enclosures | Usable PB | Write | Read | Rebuild h | kW | Falls short in |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in plan.storage.to_dict("records"):
        lines.append(
            f"| {row['title']} | {row['enclosures']} | {row['usable_pb']:.3g} | {row['write_gb_s']:.4g} | {row['read_gb_s']:.4g} | "
            f"{row['rebuild_h']:.3g} | {row['kw']:.4g} | {shortfall(row, needs)} |"
        )
    return "\n".join(lines) + "\n"


def _span(values: tuple[float, float], unit: str) -> str:
    return f"{values[0]:.3g} to {values[1]:.3g} {unit}"


def _or_open(value: float | None, unit: str) -> str:
    return "not given" if value is None else f"{value:.4g} {unit}"
