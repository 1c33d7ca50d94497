"""The supply above the rack circuits, planned and judged: tree, failures, load flow, fault level, standby, cost.

In: the site, the power plan of the racks. Out: frames `elements`, `failures`, `waves` and findings. Without the section
`electrical` of the site file the frames are empty and one finding says so.

Findings: POWER-TREE, POWER-ELEMENT, POWER-UPS-REDUNDANCY (ERR-45), POWER-FAILURE (ERR-05, a room: ERR-45),
POWER-MAINTENANCE, POWER-FAULT-LEVEL, POWER-VOLTAGE-DROP, POWER-UTILITY, POWER-SWING, POWER-WAVE, POWER-UPS-SCOPE (ERR-06).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity import frames
from capacity.equipment import supplies_by_model
from capacity.power import distribution, facility, failures, flow, standby, supplies
from capacity.power import tree as trees
from capacity.power.budget import Power
from inventory.catalog import Catalog
from inventory.findings import Finding
from inventory.schema import Electrical
from inventory.site import Site

Floats = npt.NDArray[np.float64]

PAIRS_AT_MOST = 400


@dataclass(frozen=True)
class Supply:
    """`elements`, `failures`, `waves` as in capacity.frames, and findings."""

    elements: pd.DataFrame
    failures: pd.DataFrame
    waves: pd.DataFrame
    findings: tuple[Finding, ...]


def _empty(name: str) -> pd.DataFrame:
    return pd.DataFrame({column: pd.Series(dtype=object) for column in frames.FRAMES[name]})


def build(
    site: Site, catalog: Catalog, power: Power, racks: pd.DataFrame, devices: pd.DataFrame, placements: pd.DataFrame
) -> Supply:
    """The supply of `site`; `racks`, `devices` and `placements` as in the plan."""
    electrical = site.electrical
    if electrical is None:
        absent = Finding(
            "POWER-TREE",
            "info",
            "electrical",
            "the supply above the rack circuits is not planned: without the section electrical nothing is said of "
            "transformers, UPS blocks, panels, their failures, voltage drop and fault level",
        )
        return Supply(_empty("elements"), _empty("failures"), _empty("waves"), (absent,))
    circuits = power.circuits.reset_index(drop=True)
    profile = f"{site.power.profile}_w"
    it_kw = float(devices[profile].sum()) / 1000
    tree = trees.build(site, electrical, circuits, mechanical_kw(site, electrical, it_kw))
    groups = load_groups(site, catalog, power, profile)
    usable = circuits["usable_kw"].to_numpy(dtype=np.float64)
    bare = failures.network(tree, electrical, groups, power.cord, power.end_w, usable, 0.0)
    beside = max(facility.itemised_kw(it_kw, site.power.pue) - failures.grid_kw(bare), 0.0)
    net = replace(bare, mechanical_kw=beside * mechanical_efficiency(site, electrical))
    study = failures.study(net, circuits)
    lengths = flow.conductor_lengths(electrical, circuits, racks, site.room.tray_height_m)
    states, lost = feed_states(net, site.power.feeds, circuits, power, profile)
    flows, unsolved = _solved(net, circuits, lengths, states, lost, site.power.power_factor)
    fault_ka, end_ka = flow.fault_levels(tree, electrical, circuits, lengths)
    elements = _frame(tree, circuits, study, flows, fault_ka, end_ka)
    waves, found = _waves(site, electrical, racks, devices, placements)
    findings = [
        *unsolved,
        *_check_elements(elements),
        *_check_failures(site, catalog, electrical, study.frame),
        *_check_maintenance(net, electrical),
        *_check_faults(elements),
        *_check_drop(electrical, elements),
        *_check_utility(site, electrical, elements),
        *_check_swing(site, electrical, elements),
        *_check_scope(site),
        *found,
    ]
    return Supply(elements, study.frame, waves, tuple(findings))


def _solved(
    net: failures.Network, circuits: pd.DataFrame, lengths: Floats, states: Floats, lost: list[str], power_factor: float
) -> tuple[flow.Flow, list[Finding]]:
    """The load flow, or POWER-FLOW where none exists: the voltage collapses before the load is carried."""
    from power_grid_model.errors import PowerGridError

    try:
        return flow.solve(net, circuits, lengths, states, lost, power_factor), []
    except PowerGridError as error:
        size, rows = len(net.tree.elements), len(states)
        dead = flow.Flow(np.full((rows, size), np.nan), np.full((rows, len(circuits)), np.nan), np.zeros((rows, size)))
        found = Finding(
            "POWER-FLOW",
            "error",
            "electrical",
            "no voltage carries the load over these conductors and transformers "
            f"({str(error).strip().splitlines()[0]}): shorter or thicker conductors, or less load on each, mend it",
            {"largest_circuit_kw": float(states.max(initial=0.0)), "longest_m": float(lengths.max(initial=0.0))},
            None,
            "site electrical.rack_conductor, electrical.panels.feeder",
        )
        return dead, [found]


def mechanical_kw(site: Site, electrical: Electrical, it_kw: float) -> float:
    """Load beside IT, to size its boards: facility load by PUE, less IT and losses of its UPS and transformers at rated
    load. `build` then takes the losses at the planned load.
    """
    facts = electrical.transformers
    losses = (
        it_kw / electrical.ups_blocks.efficiency * (1 + (facts.load_loss_kw + facts.no_load_kw) / facts.kva) - it_kw
    )
    return max(facility.itemised_kw(it_kw, site.power.pue) - it_kw - losses, 0.0) * mechanical_efficiency(
        site, electrical
    )


def mechanical_efficiency(site: Site, electrical: Electrical) -> float:
    """Share of the power beside IT that reaches the motors: that of a UPS where cooling is on it, else all."""
    return electrical.ups_blocks.efficiency if site.ups.scope == "it_and_cooling" else 1.0


def load_groups(site: Site, catalog: Catalog, power: Power, profile: str) -> failures.Groups:
    """The loads of the plan with what their supplies are; those of GPU servers need no more than their power cap."""
    fed = power.fed
    known = supplies_by_model(site, catalog)
    roles, models = fed["role"].tolist(), fed["model"].tolist()
    by_model = {slug: group for (_, slug), group in known.items()}
    busbar = known.get((distribution.BUSBAR, site.server.system or ""))
    groups = [
        busbar if role == distribution.BUSBAR else by_model.get(model)
        for role, model in zip(roles, models, strict=True)
    ]
    count = fed["supplies"].to_numpy(dtype=np.int64)
    normal, lost = fed[profile].to_numpy(dtype=np.float64), fed["lost_w"].to_numpy(dtype=np.float64)
    nameplate = fed["nameplate_w"].to_numpy(dtype=np.float64)
    capped = np.array([role in ("gpu", distribution.BUSBAR) for role in roles]) & (site.server.power.cap_w is not None)
    drop = np.where(capped, nameplate - _saved_by_cap(site, catalog, np.array(roles, dtype=object)), nameplate)
    rating = np.array([g.rating_w if g else np.inf for g in groups])
    needed = np.array([g.needed if g else 1 for g in groups], dtype=np.int64)
    fewer = np.ceil(np.where(np.isfinite(rating), drop / rating, 1)).astype(np.int64)
    trays = catalog.system(site.server.system).count("compute") if site.server.system else 0
    servers = np.array([1 if r == "gpu" else trays if r == distribution.BUSBAR else 0 for r in roles], dtype=np.int64)
    return failures.Groups(
        fed["name"].to_numpy(dtype=object), normal, lost, drop, np.where(capped, np.minimum(needed, fewer), needed),
        count, np.where(np.isfinite(rating), rating, nameplate + 1), servers,
    )  # fmt: skip


def _saved_by_cap(site: Site, catalog: Catalog, roles: npt.NDArray[np.object_]) -> Floats:
    """Watts that the power cap takes off the nameplate of a server, and of all trays of a busbar."""
    cap, nameplate = site.server.power.cap_w, site.server.power.nameplate_w
    saved = nameplate - min(cap, nameplate) if cap is not None else 0.0
    trays = catalog.system(site.server.system).count("compute") if site.server.system else 0
    return np.where(roles == "gpu", saved, np.where(roles == distribution.BUSBAR, saved * trays, 0.0))


def feed_states(
    net: failures.Network, feeds: tuple[str, ...], circuits: pd.DataFrame, power: Power, profile: str
) -> tuple[Floats, list[str]]:
    """Load of each circuit with everything in order and with each feed lost (states x circuits), and the feed lost."""
    index = power.cord.frame["device_index"].to_numpy()
    normal, lost = distribution.circuit_loads_kw(
        power.cord,
        power.fed[profile].to_numpy(dtype=np.float64)[index],
        power.fed["lost_w"].to_numpy(dtype=np.float64)[index],
        power.end_w,
    )
    own = pd.Index(feeds).get_indexer(pd.Index(circuits["feed"]))
    lost[np.arange(len(circuits)), own] = 0.0
    return np.vstack([normal, lost.T]), ["", *feeds]


def _frame(
    tree: trees.Tree, circuits: pd.DataFrame, study: failures.Study, flows: flow.Flow, fault_ka: Floats, end_ka: Floats
) -> pd.DataFrame:
    """The `elements` frame: tree, then circuits."""
    above = tree.elements
    names = np.array([*above["name"], ""], dtype=object)
    others = ["; ".join(str(names[i]) for i in row[1:] if i >= 0) for row in tree.sources]
    kinds = above["kind"].to_numpy(dtype=object)
    upstream = np.where(kinds == "generators", "", names[tree.sources[:, 0]])
    others = [
        "; ".join(str(names[i]) for i in row if i >= 0) if kind == "generators" else text
        for row, kind, text in zip(tree.sources, kinds, others, strict=True)
    ]
    with np.errstate(all="ignore"):
        drop = _worst_drop(flows.element_pu)
    upper = above.assign(
        upstream=upstream,
        alternates=others,
        phases=3,
        load_kw=study.normal_kw.round(6),
        worst_kw=study.worst_kw.round(6),
        worst_case=study.worst_case,
        drop_pct=drop,
        fault_ka=fault_ka.round(6),
    )
    lower = pd.DataFrame(
        {
            "name": circuits["circuit"],
            "kind": "circuit",
            "upstream": names[tree.panel_of],
            "alternates": "",
            "feed": circuits["feed"],
            "domain": above["domain"].to_numpy(dtype=object)[tree.panel_of],
            "voltage_v": circuits["voltage_v"],
            "phases": circuits["phases"],
            "rating": circuits["breaker_a"],
            "unit": "A",
            "limit_kw": circuits["usable_kw"],
            "load_kw": circuits["load_kw"],
            "worst_kw": np.maximum(study.circuit_worst_kw, circuits["worst_kw"]).round(6),
            "worst_case": study.circuit_worst_case,
            "drop_pct": _worst_drop(flows.circuit_pu),
            "fault_ka": end_ka.round(6),
            "rating_ka": 0.0,
        }
    )
    return pd.concat([upper, lower], ignore_index=True)[list(frames.ELEMENTS)]


def _worst_drop(per_unit: Floats) -> Floats:
    """Largest drop in percent over the states; dead states do not count."""
    lowest = np.where(np.isnan(per_unit), 1.0, per_unit).min(axis=0)
    return np.asarray(((1 - lowest) * 100).round(6), dtype=np.float64)


def _top(frame: pd.DataFrame, by: pd.Series) -> dict[str, Any]:
    """The row of `frame` with the largest value of `by`."""
    row = int(by.to_numpy(dtype=np.float64).argmax())
    return {str(column): frame[column].iloc[row] for column in frame.columns}


def _check_elements(elements: pd.DataFrame) -> list[Finding]:
    """Each element above the circuits carries its worst load; the least change that mends it is named.

    Circuits are judged as POWER-CIRCUIT.
    """
    found = []
    for kind, alike in elements[elements["kind"] != "circuit"].groupby("kind", sort=False):
        over = alike[(alike["worst_kw"] > alike["limit_kw"] + 1e-6) & (alike["limit_kw"] > 0)]
        if over.empty:
            continue
        worst = _top(over, over["worst_kw"] / over["limit_kw"])
        state = f"after the loss of {worst['worst_case']}" if worst["worst_case"] else "with everything in order"
        more = f" ({len(over) - 1} more like it)" if len(over) > 1 else ""
        needed = worst["rating"] * worst["worst_kw"] / worst["limit_kw"]
        key, err, mend = "POWER-ELEMENT", None, f"{needed:,.0f} {worst['unit']} would carry it"
        if kind == "ups":
            key, err = "POWER-UPS-REDUNDANCY", "ERR-45"
            mend = f"{worst['worst_kw']:,.0f} kW without the redundant modules would carry it"
        found.append(
            Finding(
                key,
                "error",
                str(worst["name"]),
                f"{worst['name']} carries {worst['worst_kw']:,.0f} kW {state} and may carry {worst['limit_kw']:,.0f} kW"
                f"{more}: {mend}, or less load behind it",
                {"worst_kw": round(float(worst["worst_kw"]), 3), "count": len(over)},
                float(worst["limit_kw"]),
                f"site electrical, rating of {worst['rating']:g} {worst['unit']}",
                err,
            )
        )
    return found


def _check_failures(site: Site, catalog: Catalog, electrical: Electrical, frame: pd.DataFrame) -> list[Finding]:
    """POWER-FAILURE: no single failure may take GPU servers down. Judged per element and per room, never by counting.

    Without generators the loss of the only line is the risk that POWER-NO-GENERATOR names, and is not judged here.
    """
    if not site.generator.present:
        alone = ["grid", "utility"] if electrical.utility.services == 1 else ["grid"]
        frame = frame[~frame["kind"].isin(alone)]
    found = []
    together = frame["kind"].isin(["room", "grid"])
    for err, part in (("ERR-05", frame[~together]), ("ERR-45", frame[together])):
        losing = part[part["servers_lost"] > 0]
        if losing.empty:
            continue
        worst = _top(losing, losing["servers_lost"])
        found.append(
            Finding(
                "POWER-FAILURE",
                "error",
                str(worst["failure"]),
                f"the loss of {worst['failure']} takes {worst['servers_lost']:,} GPU servers down ({worst['lost_kw']:,.0f} "
                f"kW): {worst['tightest_group']} keeps {worst['supplies_left']} of {worst['supplies']} supplies, "
                f"{worst['left_w']:,.0f} W for {worst['needed_w']:,.0f} W; {len(losing):,} single failures do so. "
                + _mend(site, catalog, electrical, worst),
                {
                    "servers_lost": int(worst["servers_lost"]),
                    "failures": len(losing),
                    "left_w": float(worst["left_w"]),
                    "supplies_left": int(worst["supplies_left"]),
                },
                float(worst["needed_w"]),
                f"site server supplies {site.server.supplies.redundancy}",
                err,
            )
        )
    return found


def _mend(site: Site, catalog: Catalog, electrical: Electrical, worst: dict[str, Any]) -> str:
    """The least change after which this failure takes no server down."""
    if worst["kind"] == "room":
        sharing = [f for f in site.power.feeds if electrical.rooms.get(f, f"room-{f.lower()}") == worst["failure"]]
        if len(sharing) > 1:
            return f"The least change that mends it: a room for each of the feeds {', '.join(sharing)}"
    if worst["kind"] in ("utility", "grid"):
        return "The least change that mends it: a second line with a tie, or generators"
    power, system = site.server.power, site.server.system
    trays = catalog.system(system).count("compute") if system else 1
    server_w = min(power.nameplate_w, power.cap_w or np.inf)
    return supplies.mend(group_of(site), power.nameplate_w, float(worst["needed_w"]), trays, server_w, power.measured_w)


def group_of(site: Site) -> supplies.Supplies:
    """The supplies of a server, or of a rack-scale system, as the site says."""
    group = site.server.supplies
    return supplies.Supplies(
        group.count, int(group.redundancy.split("+")[0]), group.rating_w, dict(group.split_by_feed)
    )


def _check_maintenance(net: failures.Network, electrical: Electrical) -> list[Finding]:
    """POWER-MAINTENANCE: what a failure does while another part is out, where the site asks for it."""
    if not electrical.concurrently_maintainable:
        return []
    pairs = failures.maintenance_pairs(net, PAIRS_AT_MOST)
    if not pairs.losing:
        return []
    return [
        Finding(
            "POWER-MAINTENANCE",
            "warning",
            pairs.maintained,
            f"while {pairs.maintained} is out for maintenance, the failure of {pairs.failed} takes {pairs.servers:,} GPU "
            f"servers down; {pairs.losing:,} of {pairs.judged:,} pairs ({pairs.scope}) lose servers. Maintain with the "
            "servers behind drained, or add a feed that carries them alone",
            {"pairs": pairs.losing, "judged": pairs.judged, "servers_lost": pairs.servers},
            0.0,
            "site electrical.concurrently_maintainable",
            "ERR-45",
        )
    ]


def _check_faults(elements: pd.DataFrame) -> list[Finding]:
    """POWER-FAULT-LEVEL: switchgear breaks the largest fault current that can flow there."""
    rated = elements[elements["rating_ka"] > 0]
    over = rated[rated["fault_ka"] > rated["rating_ka"] + 1e-6]
    found = []
    for kind, alike in over.groupby("kind", sort=False):
        worst = _top(alike, alike["fault_ka"])
        found.append(
            Finding(
                "POWER-FAULT-LEVEL",
                "error",
                str(worst["name"]),
                f"a short circuit at {worst['name']} draws {worst['fault_ka']:.1f} kA and it is rated "
                f"{worst['rating_ka']:g} kA ({len(alike)} such {kind}): gear of the next rating, a smaller transformer or one "
                "with more uk, or a longer feeder mends it",
                {"fault_ka": round(float(worst["fault_ka"]), 3), "count": len(alike)},
                float(worst["rating_ka"]),
                "IEC 60909-0, site electrical rating_ka",
            )
        )
    return found


def _check_drop(electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-VOLTAGE-DROP: from the UPS output to the rack, in the worst state."""
    ends = elements[elements["kind"] == "circuit"]
    over = ends[ends["drop_pct"] > electrical.max_drop_pct]
    if over.empty:
        return []
    worst = _top(over, over["drop_pct"])
    return [
        Finding(
            "POWER-VOLTAGE-DROP",
            "warning",
            str(worst["name"]),
            f"{worst['name']} loses {worst['drop_pct']:.2f} % from the UPS to the rack ({len(over)} circuits over the limit): "
            f"a conductor with {electrical.max_drop_pct / worst['drop_pct']:.0%} of the resistance mends it",
            {"drop_pct": round(float(worst["drop_pct"]), 3), "count": len(over)},
            electrical.max_drop_pct,
            "site electrical.max_drop_pct",
        )
    ]


def service_kw(elements: pd.DataFrame) -> float:
    """Load at the grid's lines together, kW."""
    return float(elements.loc[elements["kind"] == "utility", "load_kw"].sum())


def _check_utility(site: Site, electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-UTILITY: the firm capacity carries the load (error), and leaves the margin for growth (warning)."""
    need = standby.mva(service_kw(elements), site.power.power_factor)
    wanted = need * (1 + electrical.utility.growth_pct / 100)
    firm = electrical.utility.firm_mva
    if firm >= wanted:
        return []
    short = firm < need
    return [
        Finding(
            "POWER-UTILITY",
            "error" if short else "warning",
            "electrical.utility.firm_mva",
            f"the site draws {need:.2f} MVA, {wanted:.2f} MVA with {electrical.utility.growth_pct:g} % growth; the service has "
            f"{firm:g} MVA firm. {wanted - firm:.2f} MVA more, or a smaller first tranche, mends it",
            {"mva": round(need, 3), "with_growth_mva": round(wanted, 3)},
            firm,
            "site electrical.utility.firm_mva",
        )
    ]


def swing_figures(site: Site, electrical: Electrical, elements: pd.DataFrame) -> list[dict[str, Any]]:
    """The training swing against each limit: subject, step_kw, permitted_kw, floor_w (draw to hold per server)."""
    swing = electrical.swing
    if swing is None:
        return []
    servers, full = site.server.count, site.server.power.measured_w
    step = standby.swing_kw(servers, full, swing.idle_w)
    at = step / electrical.ups_blocks.efficiency
    rows: list[tuple[str, float, float]] = []
    if electrical.utility.max_step_mw is not None:
        rows.append(("utility", at, electrical.utility.max_step_mw * 1000))
    for kind, percent in (
        ("ups", electrical.ups_blocks.max_step_pct),
        ("generators", electrical.generators.max_step_pct if electrical.generators else None),
    ):
        part = elements[(elements["kind"] == kind)]
        if percent is None or part.empty:
            continue
        share = step if kind == "ups" else at
        served = part[(part["load_kw"] > 0) & part["name"].isin(_above_panels(elements))] if kind == "ups" else part
        rows.append((kind, share, float(served["rating"].sum()) * percent / 100))
    return [
        {
            "subject": name,
            "step_kw": round(kw, 3),
            "permitted_kw": round(limit, 3),
            "floor_w": round(standby.floor_w(servers, full, limit * (step / kw)), 1) if kw > limit else swing.idle_w,
        }
        for name, kw, limit in rows
    ]


def _above_panels(elements: pd.DataFrame) -> set[str]:
    """What panels hang on, through a PDU transformer or not: GPUs swing there, not behind the UPS of pumps and fans."""
    below = elements[elements["kind"].isin(["panel", "pdu_transformer"])]
    return set(below["upstream"])


def _check_swing(site: Site, electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-SWING: all GPUs from full load to idle in a second, and back, against UPS, generators and grid."""
    found = []
    for row in swing_figures(site, electrical, elements):
        if row["step_kw"] <= row["permitted_kw"] + 1e-6:
            continue
        found.append(
            Finding(
                "POWER-SWING",
                "warning",
                row["subject"],
                f"when all GPUs stop or start together the load steps by {row['step_kw']:,.0f} kW and {row['subject']} "
                f"permits {row['permitted_kw']:,.0f} kW: hold each server above {row['floor_w']:,.0f} W (power smoothing), "
                "or ramp jobs in stages",
                {"step_kw": row["step_kw"], "floor_w": row["floor_w"]},
                row["permitted_kw"],
                f"site electrical, largest step of {row['subject']}",
            )
        )
    return found


def _check_scope(site: Site) -> list[Finding]:
    """POWER-UPS-SCOPE (ERR-06): what is not on the UPS stops at once."""
    if site.ups.scope != "it":
        return []
    return [
        Finding(
            "POWER-UPS-SCOPE",
            "info",
            "ups.scope",
            "only IT is on the UPS: pumps and fans stop until the generators carry, and dense servers reach their trip "
            "temperature within minutes at full load",
            {"autonomy_min": site.ups.autonomy_min},
            None,
            "site ups.scope",
            "ERR-06",
        )
    ]


def _waves(
    site: Site, electrical: Electrical, racks: pd.DataFrame, devices: pd.DataFrame, placements: pd.DataFrame
) -> tuple[pd.DataFrame, list[Finding]]:
    """The `waves` frame: racks in order, each wave within the energised kW (RC-034)."""
    plan = electrical.waves
    if plan is None:
        return _empty("waves"), []
    kw = racks[f"{site.power.profile}_kw"].to_numpy(dtype=np.float64)
    used = np.flatnonzero(kw > 0)
    gpu = placements.loc[placements["device"].isin(devices.loc[devices["role"] == "gpu", "name"]), "rack"]
    per_rack = gpu.value_counts().reindex(racks["name"], fill_value=0).to_numpy(dtype=np.int64)
    names = racks["name"].to_numpy(dtype=object)
    hours = site.limits["burn_in_h"].value if "burn_in_h" in site.limits else 0.0
    rows, found = [], []
    for number, wave in enumerate(standby.waves(kw[used].tolist(), plan.energised_kw)):
        members = used[wave.first : wave.last + 1]
        servers = int(per_rack[members].sum())
        energy = standby.burn_in(servers, site.server.power.measured_w / 1000, hours, 0)["mwh"]
        rows.append((number + 1, names[members[0]], names[members[-1]], len(members), servers, wave.kw,
                     wave.kw / plan.ramp_kw_min, energy))  # fmt: skip
        if wave.kw > plan.energised_kw + 1e-6:
            found.append(
                Finding(
                    "POWER-WAVE",
                    "warning",
                    str(names[members[0]]),
                    f"{names[members[0]]} alone draws {wave.kw:.1f} kW and {plan.energised_kw:g} kW are energised: energise "
                    "more, or burn it in under a power cap",
                    {"load_kw": round(wave.kw, 3)},
                    plan.energised_kw,
                    "site electrical.waves.energised_kw",
                )
            )
    return pd.DataFrame(rows, columns=list(frames.WAVES)).round(6), found[:1]
