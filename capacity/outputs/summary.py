"""The summary of a plan: plain data, small enough to read, printed by `bringup plan --json` and written as
summary.json.
"""

import copy
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from capacity.cooling import heat
from capacity.model import Plan
from capacity.model.frames import counts
from capacity.outputs.power_figures import facility_pue
from capacity.outputs.power_figures import figures as supply_figures
from capacity.power import facility
from capacity.power.operation import standby
from capacity.power.rack import circuits
from capacity.procurement import order_dates, programme
from capacity.procurement.bom import estimated, ordered, total_of
from capacity.space import hall
from capacity.storage import sizing
from network import fabric, optics

SCHEMA_VERSION = 1
PROFILES = ("seed", "measured", "nameplate")
AIR_RISES_K = (11.1, 15.0)
"""Air temperature rises at which airflow is reported: 20 F, and a common design value of dense servers."""


_made: WeakKeyDictionary[Plan, dict[str, Any]] = WeakKeyDictionary()


def summarise(plan: Plan) -> dict[str, Any]:
    """Plain data (str, int, float, list, dict) for JSON, computed once a plan; the caller's own copy."""
    if plan not in _made:
        _made[plan] = _summarised(plan)
    return copy.deepcopy(_made[plan])


def part(plan: Plan, name: str) -> Any:
    """One part of the summary as `summarise` has it, made without the others: it reads only the frames that it tells of.

    KeyError for a name that is none of ``PARTS``.
    """
    return PARTS[name](plan)


def _summarised(plan: Plan) -> dict[str, Any]:
    """`schema_version`, site, hashes, counts, power per level and profile, heat, racks and findings."""
    site = plan.site
    return {
        "schema_version": SCHEMA_VERSION,
        "site": site.name,
        "example": site.example,
        **({"what_if": list(site.changes)} if site.changes else {}),
        "plan_hash": plan.hash,
        "inputs": dict(sorted(plan.hashes.items())),
        "answers": answers(plan),
        "devices": part(plan, "devices"),
        "fabric": part(plan, "fabric"),
        "cables": _cables(plan.cables),
        "racks": _racks(plan),
        "power_kw": part(plan, "power_kw"),
        "electrical": part(plan, "electrical"),
        "heat": part(plan, "heat"),
        "cooling": cooling_figures(plan),
        "space": hall.figures(plan),
        "critical_item": order_dates.critical_item(site.leadtimes, site.schedule.greenfield),
        "schedule": plan.schedule.to_dict("records"),
        "go_live": _go_live(plan),
        "purchase": _purchase(plan),
        "storage": _storage(plan),
        "interruptions": interruption_figures(plan),
        "findings": {
            "errors": sum(f.severity == "error" for f in plan.findings),
            "warnings": sum(f.severity == "warning" for f in plan.findings),
            "items": [finding.as_dict() for finding in plan.findings],
        },
    }


def answers(plan: Plan) -> dict[str, Any]:
    """What is asked of a plan first: GPUs, power of the facility, PUE, cost, go-live, and whether it fits.

    The power is that of the planned supply with losses and cooling, or that of the IT at the site's PUE where no supply is
    planned, both in the site's profile.
    """
    power, live, figures = plan.site.power, programme.go_live(plan.activities), plan.cooling_figures
    planned = figures.loc[(figures["item"] == "pue") & (figures["quantity"] == "PUE"), "value"]
    supplied = plan.elements[plan.elements["kind"] == "utility"]
    it_kw = float(plan.devices[f"{power.profile}_w"].sum()) / 1000
    facility_kw = float(supplied["load_kw"].sum()) if len(supplied) else facility.itemised_kw(it_kw, power.pue)
    return {
        "gpus": _gpus(plan),
        "facility_kw": round(facility_kw, 1),
        "pue": round(float(planned.iloc[0]) if len(planned) else power.pue, 3),
        "total": total_of(plan.bom, plan.site.purchase.currency),
        "go_live_p50": str(live["p50_finish"]),
        "go_live_p90": str(live["p90_finish"]),
        "needed": plan.site.schedule.need_date.isoformat(),
        "does_not_fit": list(dict.fromkeys(f.id for f in plan.findings if f.severity == "error")),
    }


def _go_live(plan: Plan) -> dict[str, Any]:
    """Dates of go-live, the critical path with likely durations, and what to expedite first."""
    activities = plan.activities
    live = programme.go_live(activities)
    return {
        "needed": plan.site.schedule.need_date.isoformat(),
        "likely": str(live["finish"]),
        "p50": str(live["p50_finish"]),
        "p90": str(live["p90_finish"]),
        "critical_path": programme.critical_path(activities),
        "expedite_first": programme.expedite(activities)["activity"].tolist(),
    }


def _purchase(plan: Plan) -> dict[str, Any]:
    """Cost of the priced lines, lines without a price, and spares."""
    paid = ordered(plan.bom) > 0
    return {
        "currency": plan.site.purchase.currency,
        "cost": round(float(plan.bom["cost"].sum()), 2),
        "total": total_of(plan.bom, plan.site.purchase.currency),
        "estimated": estimated(plan.bom),
        "lines": len(plan.bom),
        "lines_without_price": int((paid & (plan.bom["price_source"] == "")).sum()),
        "spares": int(plan.bom["spares"].sum()),
    }


def interruption_figures(plan: Plan) -> dict[str, Any]:
    """How often a job on all GPUs is interrupted and the checkpoint interval that loses least, with their ranges."""
    needs, rate = sizing.needs_of(plan.site, _gpus(plan), plan.catalog), sizing.interruptions(plan.site, plan.catalog)
    return {
        "gpu_hours": round(rate.figures.gpu_hours),
        "gpu_hours_range": [round(rate.figures.low_gpu_hours), round(rate.figures.high_gpu_hours)],
        "mtti_h": round(needs.mtti_h, 3),
        "mtti_h_range": [round(hours, 3) for hours in needs.mtti_range_h],
        "checkpoint_interval_min": round(needs.interval_min, 2),
        "checkpoint_interval_min_range": [round(minutes, 2) for minutes in needs.interval_range_min],
        "source": rate.source,
        "range_source": rate.range_source,
    }


def _storage(plan: Plan) -> dict[str, Any] | None:
    """The site's building block and what it gives; None where the catalogue has none of its kind."""
    own = plan.storage[plan.storage["chosen"] == 1]
    if own.empty:
        return None
    row = {str(key): value for key, value in own.to_dict("records")[0].items()}
    names = (
        "block",
        "enclosures",
        "bound",
        "drives",
        "usable_pb",
        "write_gb_s",
        "read_gb_s",
        "rebuild_h",
        "kw",
        "mass_kg",
    )
    return {name: round(row[name], 4) if isinstance(row[name], float) else row[name] for name in names}


def _devices(plan: Plan) -> dict[str, Any]:
    devices = plan.devices
    by_kind = {kind: n for (kind,), n in counts(devices, ["kind"])}
    tiers: dict[str, dict[str, int]] = {}
    for (name, role), n in counts(devices[devices["kind"] == "switch"], ["fabric", "role"]):
        tiers.setdefault(name, {})[role] = n
    servers = {role: n for (role,), n in counts(devices[devices["kind"] == "server"], ["role"])}
    return {"by_kind": by_kind, "servers": servers, "gpus": _gpus(plan), "switches": tiers}


def _gpus(plan: Plan) -> int:
    return int(plan.bom.loc[plan.bom["item"] == "gpu", "quantity"].sum())


def _fabric(plan: Plan) -> dict[str, Any] | None:
    tree, site = plan.tree, plan.site
    if tree is None:
        return None
    return {
        "kind": site.fabric.kind,
        "tiers": tree.tiers,
        "units": tree.units,
        "pods": tree.pods,
        "planes": tree.planes,
        "endpoints": tree.endpoints,
        "oversubscription": _rounded(tree.oversubscription),
        "bisection": _rounded(tree.bisection),
        "bisection_tbps": round(tree.bisection_gbps(site.server.nic.rate_gbps) / 1000, 3),
        "maximum_hops": tree.maximum_hops(),
        "spare_leaf_ports": tree.radix - tree.leaf_down - tree.leaf_up,
        "fewest_switches": dict(zip(("leaf", "spine", "core"), _fewest(tree), strict=True)),
        "alternatives": _alternatives(tree),
        "server_pairs": dict(zip(("pairs", "rounds", "pairs_per_round"), fabric.rank_pairs(tree.nodes), strict=True)),
    }


def _fewest(tree: fabric.FatTree) -> tuple[int, int, int]:
    """Switches that the endpoints take at full bisection without regard to units and rails."""
    return fabric.floor_counts(tree.endpoints, tree.radix, tree.tiers)


def _alternatives(tree: fabric.FatTree) -> dict[str, Any]:
    """The same cluster at 1:1 and at 2:1: switches (each leaf keeps its servers), and ports of a leaf that is full."""
    result: dict[str, Any] = {}
    for label, bisection in (("1:1", 1.0), ("2:1", 0.5)):
        down, up, spare = fabric.split_ports(tree.radix, 1 / bisection)
        try:
            other = fabric.design(
                tree.nodes, tree.rails, tree.radix, tree.unit_nodes, bisection, least_spines=tree.least_spines
            )
        except fabric.FabricError as error:
            result[label] = {"not_buildable": str(error)}
        else:
            result[label] = {"tiers": other.tiers, "leaf": other.leaves, "spine": other.spines, "core": other.cores}
        result[label]["full_leaf_ports"] = {"down": down, "up": up, "spare": spare}
    return result


def _cables(cables: pd.DataFrame) -> dict[str, dict[str, dict[str, int]]]:
    """fabric -> stage -> medium -> count; a cable that no part reaches counts as 'none'."""
    result: dict[str, dict[str, dict[str, int]]] = {}
    for (name, stage, medium), n in counts(cables, ["fabric", "stage", "medium"]):
        result.setdefault(name, {}).setdefault(stage, {})[medium or "none"] = n
    return result


def _racks(plan: Plan) -> dict[str, Any]:
    racks, placements, devices = plan.racks, plan.placements, plan.devices
    with_gpu = placements.loc[
        placements["device"].isin(devices.loc[devices["role"] == "gpu", "name"]), "rack"
    ].nunique()
    return {
        "count": len(racks),
        "with_gpu_servers": int(with_gpu),
        "rows": int(racks["row"].nunique()),
        "largest_used_u": int(racks["used_u"].max()),
        "largest_mass_kg": round(float(racks["mass_kg"].max()), 1),
    }


def _power(plan: Plan) -> dict[str, Any]:
    """kW per level (server, rack, row, feed, site) and profile; feeds also after the worst loss of another feed."""
    site, racks, feeds = plan.site, plan.racks, plan.feeds
    per_row = racks.groupby("row")[[f"{p}_kw" for p in PROFILES]].sum()
    it = {p: float(racks[f"{p}_kw"].sum()) for p in PROFILES}
    servers = site.server.count
    return {
        "profile": site.power.profile,
        "gpus_of_a_server": round(_gpus(plan) / servers * site.gpu.tdp_w / 1000, 3),
        "server": {p: getattr(site.server.power, f"{p}_w") / 1000 for p in PROFILES},
        "all_gpu_servers": {p: round(servers * getattr(site.server.power, f"{p}_w") / 1000, 3) for p in PROFILES},
        "rack_largest": {p: round(float(racks[f"{p}_kw"].max()), 3) for p in PROFILES},
        "row_largest": {p: round(float(per_row[f"{p}_kw"].max()), 3) for p in PROFILES},
        "feeds": {
            row["feed"]: {
                **{p: round(row[f"{p}_kw"], 3) for p in PROFILES},
                "after_loss_of_another": round(row["loss_kw"], 3),
            }
            for row in feeds.to_dict("records")
        },
        "circuit": _circuit(plan),
        "site_it": {p: round(it[p], 3) for p in PROFILES},
        "site_facility": {
            p: {
                "flat": [round(kw, 3) for kw in facility.flat_overhead_kw(it[p], site.power.overhead_pct)],
                "pue": round(facility.itemised_kw(it[p], facility_pue(plan)), 3),
            }
            for p in PROFILES
        },
        "optics": round(optics_kw(plan), 3),
        "ups_modules": standby.planned_modules(site, plan.elements, it[site.power.profile]),
    }


def optics_kw(plan: Plan) -> float:
    """Draw of what sits in the cages, which is a part of the devices'; a cable without a part counts as nothing."""
    watts = fitted(plan).plugs["power_w"].to_numpy()
    return facility.optics_kw((float(each), int((watts == each).sum())) for each in np.unique(watts))


def fitted(plan: Plan) -> optics.Fitted:
    """Transceivers and cables of a plan as they are bought."""
    model_of = dict(zip(plan.devices["name"], plan.devices["model"], strict=True))
    parts = plan.catalog.media(plan.site.media.reach_table).parts
    return optics.fitted(plan.cables, optics.ends(plan.cables, model_of, plan.catalog), parts)


def _circuit(plan: Plan) -> dict[str, Any]:
    """The circuit that carries most, and the key of the site that states it: usable power, what it carries in any state
    (`worst_a`: were it even on its lines), the largest line current in any state, servers that one carries alone.
    """
    site, circuit = plan.site, plan.circuits.iloc[int(plan.circuits["worst_kw"].argmax())]
    usable_kw, worst_kw = float(circuit["usable_kw"]), float(circuit["worst_kw"])
    amps = circuits.line_current_a(
        worst_kw, float(circuit["voltage_v"]), site.power.power_factor, int(circuit["phases"])
    )
    return {
        "stated_by": f"power.{circuit['circuit_of']}",
        "usable_kw": round(usable_kw, 3),
        "worst_kw": round(worst_kw, 3),
        "worst_a": round(amps, 2),
        "worst_line_a": round(float(plan.circuits["worst_phase_a"].max()), 2),
        "servers_alone": {
            p: circuits.servers_per_circuit(usable_kw, getattr(site.server.power, f"{p}_w") / 1000) for p in PROFILES
        },
    }


def heat_figures(plan: Plan) -> dict[str, Any]:
    """Heat at nameplate: the air share of every device and the air to carry it; with liquid cooling also the coolant."""
    devices = plan.devices
    room_kw = float((devices["nameplate_w"] * devices["air_fraction"]).sum()) / 1000
    total_kw = float(devices["nameplate_w"].sum()) / 1000
    return {
        "room_kw": round(room_kw, 3),
        "room_tons": round(heat.tons(room_kw), 2),
        "room_btu_h": round(heat.btu_per_hour(room_kw)),
        "liquid_kw": round(total_kw - room_kw, 3),
        "airflow_cfm": {
            f"{rise:g}K": round(heat.airflow_cfm(room_kw, rise, plan.site.room.altitude_m)) for rise in AIR_RISES_K
        },
        **_coolant(plan),
    }


def cooling_figures(plan: Plan) -> dict[str, Any]:
    """Zones with their units, the other figures of `cooling_figures` by item, and the options compared (S097)."""
    figures: dict[str, dict[str, float]] = {}
    table = plan.cooling_figures
    for item, subject, quantity, value, unit in table[["item", "subject", "quantity", "value", "unit"]].itertuples(
        index=False, name=None
    ):
        figures.setdefault(item, {})[f"{subject}: {quantity}, {unit}"] = round(value, 3)
    zones = plan.zones[["zone", "kind", "air_kw", "liquid_kw", "unit_kw", "needed", "installed", "reserve_kw"]].round(3)
    options = plan.cooling_options[["option", "chosen", "fits", "air_kw", "liquid_kw", "gpu_racks", "pue"]].round(3)
    return {"zones": zones.to_dict("records"), "figures": figures, "options": options.to_dict("records")}


def _coolant(plan: Plan) -> dict[str, Any]:
    """`coolant`: flow of all loops and of the rack with most liquid heat, loops and distribution units; {} without a loop."""
    wet = plan.zones[plan.zones["kind"] == "liquid"]
    if wet.empty:
        return {}
    loop, figures = wet.iloc[0], plan.cooling_figures
    flow = figures[
        (figures["item"] == "coolant") & (figures["subject"] == "largest rack") & (figures["quantity"] == "flow")
    ]
    return {
        "coolant": {
            "supply_c": float(loop["supply_c"]),
            "return_c": float(loop["return_c"]),
            "loops": len(wet),
            "flow_l_min": round(float(wet["flow_needed"].sum()), 1),
            "rack_largest_kw": round(float(wet["largest_rack_kw"].max()), 3),
            "rack_largest_l_min": round(float(flow["value"].iloc[0]), 1),
            "distribution_units": int(wet["installed"].sum()),
        }
    }


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {key: round(value, 4) for key, value in values.items()}


PARTS: dict[str, Callable[[Plan], Any]] = {
    "devices": _devices,
    "fabric": _fabric,
    "power_kw": _power,
    "electrical": supply_figures,
    "heat": heat_figures,
}
"""Parts of the summary that checks compare with a count of their own."""
