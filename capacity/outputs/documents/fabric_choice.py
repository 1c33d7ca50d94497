"""The decision record of the compute fabric (S038): InfiniBand and RoCE, 1:1 and 2:1, for the servers of the site.

    options(plan)     one row a switch model of the catalogue and ratio: switches, cables, transceivers, kW, price
    decision(plan)    the record as Markdown, for the one who approves it

Switches and cables are counted by `network.fabric.design`. Transceivers, watts and price of a cable are those that the plan's
cables of the same stage have on average: the other options have cables as long, of the same parts. A stage that the plan does
not have counts as the stage below it. The row of the plan itself has the plan's own counts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capacity.model import Plan
from capacity.outputs.summary import fitted
from capacity.procurement.bom import ordered_m, unit_price
from inventory.catalog import DeviceType
from network import fabric

RATIOS = (1.0, 0.5)
"""Bisection of 1:1 and 2:1."""
STAGES = ("node-leaf", "leaf-spine", "spine-core")
COLUMNS = (
    "technology",
    "switch_model",
    "ratio",
    "bisection",
    "chosen",
    "tiers",
    "unit_nodes",
    "leaf",
    "spine",
    "core",
    "switches",
    "cables",
    "transceivers",
    "switch_kw",
    "optics_kw",
    "price",
    "without_price",
    "not_buildable",
)
NAMES: Mapping[str, str] = {"ib": "InfiniBand", "roce": "RoCE"}
TECHNOLOGIES = """\
- InfiniBand brings SHARP: switches reduce all-reduces. Credits keep links from losing packets, with nothing to tune. The subnet
  manager sets routes and adaptive routing. It needs two subnet managers (S060), and tools and knowledge of its own.
- RoCE brings switches and network systems of several vendors, and one set of tools for all networks of the cluster. PFC,
  ECN, DSCP and headroom have to agree at both ends of each link (S055, S056). It has no SHARP. Without adaptive routing, flows that
  hash to one path share it (S057).
- 2:1 has half of full bisection: collectives over many units take up to twice as long, those within a rail of a unit do not.

Transceivers, watts and price of a cable are the averages of the plan's cables of the same stage: other options are taken to have
cables as long, of the same parts. NICs, subnet managers, licences and support are not counted. A price without a model counts for
all switches; an option whose switch has no price has no total. The draw by nameplate has the part of the optics that sits in
switches already.
"""


@dataclass(frozen=True)
class PerCable:
    """What a cable of a stage has on average. `price` counts what has one; `unpriced` names the rest."""

    transceivers: float
    watts: float
    price: float
    unpriced: frozenset[str]


def options(plan: Plan) -> pd.DataFrame:
    """All options; a row that cannot be built says why, and has no counts. `price` is in purchase.currency, without what
    `without_price` names, and NaN where that is the switch: a total without it would look cheaper than it is.
    """
    site, cables = plan.site, per_cable(plan)
    rows = []
    for model in models(plan):
        own = model.slug == site.fabric.switch_model
        for bisection in sorted({*RATIOS, *([site.fabric.bisection] if own else [])}, reverse=True):
            chosen = own and bisection == site.fabric.bisection
            row: dict[str, object] = {
                "technology": "ib" if model.bringup.fabric == "ib" else "roce",
                "switch_model": model.slug,
                "ratio": f"{1 / bisection:.3g}:1",
                "bisection": bisection,
                "chosen": int(chosen),
                "not_buildable": "",
            }
            try:
                tree = plan.tree if chosen and plan.tree else _tree(plan, model, bisection, own)
            except fabric.FabricError as error:
                rows.append({**row, "not_buildable": str(error)})
                continue
            rows.append({**row, **_counted(plan, model, tree, cables)})
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(
        dict.fromkeys(("tiers", "unit_nodes", "leaf", "spine", "core", "switches", "cables", "transceivers"), "Int64")
    )


def models(plan: Plan) -> list[DeviceType]:
    """Switches of the catalogue with ports of the NICs' rate, the site's own first."""
    rate, own = plan.site.server.nic.rate_gbps, plan.site.fabric.switch_model
    fitting = [
        device
        for device in plan.catalog.devices.values()
        if device.bringup.kind == "switch"
        and (device.slug == own or (device.bringup.fabric in ("ib", "eth") and device.bringup.rate_gbps == rate))
    ]
    return sorted(fitting, key=lambda device: (device.slug != own, device.slug))


def per_cable(plan: Plan) -> dict[str, PerCable]:
    """The averages of each stage of the compute fabric, those without cables of the plan as the stage below."""
    made, purchase = fitted(plan), plan.site.purchase
    stage = plan.cables["stage"].where(plan.cables["fabric"] == "compute", "").to_numpy(dtype=object)
    plugs = made.plugs.assign(stage=stage[made.plugs["cable"].to_numpy(dtype=np.int64)])
    pieces = made.pieces.assign(
        stage=stage[made.pieces["cable"].to_numpy(dtype=np.int64)], metres=ordered_m(made.pieces["length_m"])
    )
    found: dict[str, PerCable] = {}
    before = PerCable(0.0, 0.0, 0.0, frozenset())
    for name in STAGES:
        count = int((stage == name).sum())
        if count:
            mine, bought = plugs[plugs["stage"] == name], pieces[pieces["stage"] == name]
            fibre = mine[mine["fibre"]]
            sizes = bought.groupby(["part", "metres"]).size().reset_index(name="n")
            lines = [
                *(("transceiver", made.known[n].name, int((fibre["plug"] == n).sum())) for n in fibre["plug"].unique()),
                *(
                    ("cable", f"{made.parts[part].fibre or made.parts[part].part}, {metres:g} m", n)
                    for part, metres, n in sizes.itertuples(index=False, name=None)
                ),
            ]
            price, unpriced = 0.0, set[str]()
            for item, model, n in lines:
                each, _, rate, source = unit_price(purchase, item, model)
                price += each * rate * n
                unpriced |= set() if source else {item}
            before = PerCable(
                len(fibre) / count, float(mine["power_w"].sum()) / count, price / count, frozenset(unpriced)
            )
        found[name] = before
    return found


def _tree(plan: Plan, model: DeviceType, bisection: float, own: bool) -> fabric.FatTree:
    """The tree of fewest switches. A leaf of the site's own model keeps its servers; one of another takes several units, or a
    whole part of one, after its ports.
    """
    given, nodes, unit = plan.site.fabric, plan.site.server.count, plan.site.fabric.unit_nodes
    radix = given.radix if own else int(model.bringup.data_ports) // 2 * 2
    ports = int(radix / (1 + bisection))
    several = [] if own else [size for size in range(1, ports + 1) if size % unit == 0 or unit % size == 0]
    trees, refused = [], list[fabric.FabricError]()
    for size in {unit: None, **dict.fromkeys(several)}:
        try:
            trees.append(fabric.design(nodes, given.rails, radix, size, bisection, least_spines=given.least_spines))
        except fabric.FabricError as error:
            refused.append(error)
    if not trees:
        raise refused[0]
    return min(trees, key=lambda tree: (_switches(tree), tree.leaf_spine_cables + tree.spine_core_cables))


def _switches(tree: fabric.FatTree) -> int:
    return tree.leaves + tree.spines + tree.cores


def _counted(plan: Plan, model: DeviceType, tree: fabric.FatTree, cables: Mapping[str, PerCable]) -> dict[str, object]:
    number = dict(zip(STAGES, (tree.endpoints, tree.leaf_spine_cables, tree.spine_core_cables), strict=True))
    if tree.tiers == 1:
        number = {**number, "leaf-spine": 0}
    profile, power = plan.site.power.profile, model.bringup.power
    each, _, rate, source = unit_price(plan.site.purchase, "switch", model.slug)
    missing = set() if source else {"switch"}
    for stage, count in number.items():
        missing |= cables[stage].unpriced if count else set()
    return {
        "tiers": tree.tiers,
        "unit_nodes": tree.unit_nodes,
        "leaf": tree.leaves,
        "spine": tree.spines,
        "core": tree.cores,
        "switches": _switches(tree),
        "cables": sum(number.values()),
        "transceivers": round(sum(cables[stage].transceivers * count for stage, count in number.items())),
        "switch_kw": round(_switches(tree) * getattr(power, f"{profile}_w") / 1000, 3),
        "optics_kw": round(sum(cables[stage].watts * count for stage, count in number.items()) / 1000, 3),
        "price": round(_switches(tree) * each * rate + sum(cables[s].price * n for s, n in number.items()), 2)
        if source
        else math.nan,
        "without_price": " ".join(sorted(missing)),
    }


def decision(plan: Plan) -> str:
    """The record: what is decided, the options in numbers, what each brings, and what is not counted."""
    site, found = plan.site, options(plan).to_dict("records")
    given, rate = site.fabric, site.server.nic.rate_gbps
    shown = [name for name in COLUMNS if name not in ("bisection", "chosen", "unit_nodes", "not_buildable")]
    rows = [f"| {' | '.join(shown)} |", "|" + "---|" * len(shown)]
    for row in found:
        cells = {name: "-" if pd.isna(row[name]) else str(row[name]) for name in shown}
        cells["ratio"] += " (chosen)" if row["chosen"] else ""
        rows.append(f"| {' | '.join(cells.values())} |")
    notes = [
        f"- {row['switch_model']} {row['ratio']}: {row['not_buildable']}." for row in found if row["not_buildable"]
    ]
    absent = [name for key, name in NAMES.items() if key not in {row["technology"] for row in found}]
    notes += [f"- The catalogue has no {name} switch with ports of {rate:g} Gb/s." for name in absent]
    chosen = f"{NAMES[given.kind]}, {given.switch_model}, bisection {given.bisection:g} of full (S037, S038)"
    lines = [
        f"# Decision record of the compute fabric: {site.name}\n",
        f"Plan {plan.hash}. {site.server.count} servers with {given.rails} rails of {rate:g} Gb/s.\n",
        f"Decided: {chosen}. Who approves it signs S038.attested.\n",
        f"Draw of the profile {site.power.profile}. Price in {site.purchase.currency}, without what the last column names.\n",
        *rows,
        "",
        *([*notes, ""] if notes else []),
    ]
    return "\n".join(lines) + "\n" + TECHNOLOGIES
