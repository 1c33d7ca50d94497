"""The supply above the rack circuits, planned and judged: tree, failures, load flow, fault level, standby, cost.

In: the site, the power plan of the racks. Out: frames `elements`, `failures` and findings. Without the section
`electrical` of the site file the frames are empty and one finding says so.

Findings: POWER-TREE, POWER-ELEMENT, POWER-UPS-REDUNDANCY (ERR-45), POWER-FAILURE (ERR-05, a room: ERR-45),
POWER-PHASE-LOAD (ERR-04; a room: ERR-45), POWER-MAINTENANCE, POWER-MAINTENANCE-LOAD, POWER-FAULT-LEVEL, POWER-FAULT-RATING,
POWER-VOLTAGE-DROP, POWER-UTILITY, POWER-SWING, POWER-UPS-SCOPE (ERR-06), SPACE-RPP.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.model import frames
from capacity.power import facility, rooms
from capacity.power.operation import load_step, standby
from capacity.power.rack import breakers, line_currents, psus
from capacity.power.rack.budget import Power
from capacity.power.rack.psus import supplies_by_model
from capacity.power.upstream import conductors, existing_plant, failures, fault_level, load_flow, panels
from capacity.power.upstream import tree as trees
from capacity.power.upstream.double_outages import maintenance_pairs, overload
from capacity.power.upstream.failures import Network
from capacity.power.upstream.power_factor import power_factors
from capacity.space.devices import BUSBAR
from inventory.catalog import Catalog
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical, Panels, Switchgear

Floats = npt.NDArray[np.float64]

MAINS = ("panel", "pdu_transformer")
"""Kinds whose lines are those of the rack circuits behind them."""


@dataclass(frozen=True)
class Supply:
    """`circuits`, `elements`, `failures` as in capacity.model.frames, findings, and the network that failures are worked out on;
    `needed`: the elements with those that have to be added to what stands there, `standing`: what of them does.
    """

    circuits: pd.DataFrame
    elements: pd.DataFrame
    failures: pd.DataFrame
    findings: tuple[Finding, ...]
    net: Network | None = None
    needed: pd.DataFrame = field(default_factory=pd.DataFrame)
    standing: existing_plant.Standing = existing_plant.NONE


def _empty(name: str) -> pd.DataFrame:
    return pd.DataFrame({column: pd.Series(dtype=object) for column in frames.FRAMES[name]})


def build(
    site: Site,
    catalog: Catalog,
    power: Power,
    racks: pd.DataFrame,
    devices: pd.DataFrame,
    placements: pd.DataFrame,
    beside: float | None = None,
) -> Supply:
    """The supply of `site`; `racks`, `devices` and `placements` as in the plan. `beside` is what cooling, lighting and the
    rest draw per kW of IT load; None where it follows from power.pue.
    """
    electrical, circuits = site.electrical, power.circuits.reset_index(drop=True)
    if electrical is None:
        absent = finding("POWER-TREE", "electrical")
        judged = breakers.check(site, catalog, circuits, circuits["worst_kw"], power.legs.between_lines)
        return Supply(circuits, _empty("elements"), _empty("failures"), (absent, *judged), needed=_empty("elements"))
    profile = f"{site.power.profile}_w"
    it_kw = float(devices[profile].sum()) / 1000
    rows = racks.set_index("name")["row"].reindex(circuits["rack"]).to_numpy(dtype=np.int64)
    apart = panels.filled_by(site, electrical, circuits, rows)
    drawn_kw = _drawn_kw(site, power)

    def plan(changed: Site, e: Electrical, loads: Power, at: pd.DataFrame) -> Network:
        less = drawn_kw - _drawn_kw(site, loads)
        return _planned(changed, catalog, loads, e, at, apart, max(it_kw - less, 0.0), beside)

    net = plan(site, electrical, power, circuits)
    tree, case = net.tree, existing_plant.Case(site, electrical, power, circuits, plan)
    study = failures.study(net, circuits)
    feed_lost_kw, circuits = circuits["worst_kw"], failures.with_failures(circuits, study)
    at = panels.layout(site, electrical, tree, circuits, racks)
    states, lost = flow_states(site, net, circuits, power, profile)
    flows, unsolved = _solved(net, circuits, at, states.sum(axis=2), lost)
    end_pct = (
        load_flow.branch_pct(flows, _branch_share(net, study, states, at)) if not unsolved else np.zeros(len(circuits))
    )
    fault_ka, peak_ka = load_flow.fault_levels(tree, electrical, circuits, at.length_m, at.along_m)
    steps = load_step.steps(site, net)
    elements = _frame(tree, circuits, study, flows, end_pct, at, steps)
    elements = elements.assign(
        fault_ka=fault_ka.round(6),
        peak_ka=peak_ka.round(6),
        rating_ka=_ratings_ka(site, catalog, elements),
        rating_peak_ka=_rated_peaks_ka(electrical, elements),
    )[list(frames.ELEMENTS)]
    whole, ways = existing_plant.mended(case, existing_plant.ways(case, elements))
    findings = [
        *unsolved,
        *breakers.check(site, catalog, circuits, feed_lost_kw, power.legs.between_lines),
        *_check_elements(elements, ways),
        *_check_mains(site, electrical, elements, power.legs.between_lines),
        *_check_failures(site, catalog, electrical, study.frame, net, power.fed),
        *_check_maintenance(net, electrical),
        *_check_maintenance_load(net, electrical, elements),
        *conductors.check(site, electrical, circuits, elements),
        *_check_faults(elements),
        *_check_unrated(site, catalog, elements),
        *_check_drop(electrical, elements),
        *_check_utility(site, electrical, elements),
        *_check_swing(site, electrical, elements),
        *_check_scope(site),
        *panels.check(site, electrical, tree, circuits.assign(worst_kw=feed_lost_kw), racks, at),
    ]
    added = tree if whole == electrical else plan(site, whole, power, circuits).tree
    needed = existing_plant.planned(added)
    standing = existing_plant.standing(electrical, needed)
    return Supply(circuits, elements, study.frame, tuple(findings), net, needed, standing)


def _drawn_kw(site: Site, power: Power) -> float:
    """Load of all circuits with everything in order."""
    return (float(power.fed[f"{site.power.profile}_w"].sum()) + float(power.end_w.sum())) / 1000


def _planned(
    site: Site,
    catalog: Catalog,
    power: Power,
    electrical: Electrical,
    circuits: pd.DataFrame,
    apart: npt.NDArray[np.int64],
    it_kw: float,
    beside: float | None,
) -> Network:
    """Tree and loads of one supply; arguments as in `build`, `apart` keeps circuits on panels of their own."""
    boards_kw = mechanical_kw(site, electrical, it_kw) if beside is None else beside * it_kw
    tree = trees.build(site, electrical, circuits, boards_kw, apart)
    groups = load_groups(site, catalog, power, f"{site.power.profile}_w")
    usable = circuits["usable_kw"].to_numpy(dtype=np.float64)
    bare = failures.network(
        tree, electrical, groups, power.cord, power.end_w, usable, 0.0, power_factors(site), power.legs
    )
    if beside is None:
        left = max(facility.itemised_kw(it_kw, site.power.pue) - failures.grid_kw(bare), 0.0)
        boards_kw = left * mechanical_efficiency(site, electrical)
    return replace(bare, mechanical_kw=boards_kw)


def _solved(
    net: failures.Network, circuits: pd.DataFrame, at: panels.Layout, states: Floats, lost: list[tuple[str, ...]]
) -> tuple[load_flow.Flow, list[Finding]]:
    """The load flow, or POWER-FLOW where none exists: the voltage collapses before the load is carried."""
    from power_grid_model.errors import PowerGridError

    try:
        return load_flow.solve(net, circuits, at.length_m, states, lost, at.along_m), []
    except PowerGridError as error:
        size, rows = len(net.tree.elements), len(states)
        ends = np.full((rows, len(circuits)), np.nan)
        dead = load_flow.Flow(np.full((rows, size), np.nan), ends, ends, np.zeros((rows, size)))
        found = finding(
            "POWER-FLOW",
            "electrical",
            limit_source="site electrical.rack_conductor, electrical.panels.feeder",
            largest_circuit_kw=float(states.max(initial=0.0)),
            longest_m=float(at.length_m.max(initial=0.0)),
            words={"reason": str(error).strip().splitlines()[0].rstrip(".")},
            remedies=[remedy(fix="shorter"), remedy(fix="thicker"), remedy(fix="less-load")],
        )
        return dead, [found]


def mechanical_kw(site: Site, electrical: Electrical, it_kw: float) -> float:
    """Load beside IT, to size its boards: facility load by PUE, less IT and losses of its UPS and transformers at rated
    load. `build` then takes the losses at the planned load.
    """
    facts = electrical.transformers
    rated_kw = facts.kva * power_factors(site).of("transformer")
    losses = it_kw / electrical.ups_blocks.efficiency * (1 + (facts.load_loss_kw + facts.no_load_kw) / rated_kw) - it_kw
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
    busbar = known.get((BUSBAR, site.server.system or ""))
    groups = [busbar if role == BUSBAR else by_model.get(model) for role, model in zip(roles, models, strict=True)]
    count = fed["supplies"].to_numpy(dtype=np.int64)
    normal, lost = fed[profile].to_numpy(dtype=np.float64), fed["lost_w"].to_numpy(dtype=np.float64)
    nameplate = fed["nameplate_w"].to_numpy(dtype=np.float64)
    capped = np.array([role in ("gpu", BUSBAR) for role in roles]) & (site.server.power.cap_w is not None)
    drop = np.where(capped, nameplate - _saved_by_cap(site, catalog, np.array(roles, dtype=object)), nameplate)
    rating = np.array([g.rating_w if g else np.inf for g in groups])
    needed = np.array([g.needed if g else 1 for g in groups], dtype=np.int64)
    fewer = np.ceil(np.where(np.isfinite(rating), drop / rating, 1)).astype(np.int64)
    trays = catalog.system(site.server.system).count("compute") if site.server.system else 0
    servers = np.array([1 if r == "gpu" else trays if r == BUSBAR else 0 for r in roles], dtype=np.int64)
    return failures.Groups(
        fed["name"].to_numpy(dtype=object),
        normal,
        lost,
        drop,
        np.where(capped, np.minimum(needed, fewer), needed),
        count,
        np.where(np.isfinite(rating), rating, nameplate + 1),
        servers,
    )


def _saved_by_cap(site: Site, catalog: Catalog, roles: npt.NDArray[np.object_]) -> Floats:
    """Watts that the power cap takes off the nameplate of a server, and of all trays of a busbar."""
    cap, nameplate = site.server.power.cap_w, site.server.power.nameplate_w
    saved = nameplate - min(cap, nameplate) if cap is not None else 0.0
    trays = catalog.system(site.server.system).count("compute") if site.server.system else 0
    return np.where(roles == "gpu", saved, np.where(roles == BUSBAR, saved * trays, 0.0))


def flow_states(
    site: Site, net: failures.Network, circuits: pd.DataFrame, power: Power, profile: str
) -> tuple[Floats, list[tuple[str, ...]]]:
    """Load of each leg of each circuit in kW (states, circuits, legs) with everything in order, with each feed lost and with
    each room lost that several feeds share, and the feeds lost.
    """
    feeds, of_feed = site.power.feeds, circuits["feed"].to_numpy(dtype=object)
    index = power.cord.frame["device_index"].to_numpy()
    after_w = power.cord.after_loss_w(power.fed["lost_w"].to_numpy(dtype=np.float64)[index])
    states, lost = [net.base_leg_kw()], [(), *((feed,) for feed in feeds)]
    for feed, watts in zip(feeds, after_w.T, strict=True):
        kw = line_currents.leg_watts(net.cord_leg, net.cord_circuit, watts / 1000, net.end_kw)
        states.append(np.where((of_feed == feed)[:, None], 0.0, kw))
    for room in rooms.shared_rooms(site):
        lost.append(tuple(feed for feed in feeds if rooms.room_of(site, feed) == room))
        dead = np.flatnonzero(np.isin(of_feed, lost[-1]))
        out = failures.redistribute(net, np.zeros(len(dead), dtype=np.int64), dead, 1)
        kw = net.base_leg_kw()
        kw[out.touched_circuit] = out.touched_leg_kw
        states.append(kw)
    return np.stack(states), lost


def _branch_share(net: failures.Network, study: failures.Study, states: Floats, at: panels.Layout) -> Floats:
    """Largest share of the voltage that the rack conductor of each circuit loses, in the states of the load flow and after any
    single failure.
    """
    every = np.arange(net.circuits)
    per_m = [study.circuit_drop_m, *(net.drop_per_m(kw, every) for kw in states)]
    return np.asarray(np.max(per_m, axis=0) * at.length_m, dtype=np.float64)


def _frame(
    tree: trees.Tree,
    circuits: pd.DataFrame,
    study: failures.Study,
    flows: load_flow.Flow,
    end_pct: Floats,
    at: panels.Layout,
    steps: load_step.Steps,
) -> pd.DataFrame:
    """The `elements` frame without fault levels: tree, then circuits, at whose end `end_pct` of the voltage is lost."""
    row, x_m, y_m = np.full(len(tree.elements), -1, dtype=np.int64), *np.zeros((2, len(tree.elements)))
    for values, of_panels in ((row, at.row), (x_m, at.x_m), (y_m, at.y_m)):
        values[tree.rows("panel")] = of_panels
    above = tree.elements
    names = np.array([*above["name"], ""], dtype=object)
    upstream, others = existing_plant.sources(tree)
    with np.errstate(all="ignore"):
        drop = load_flow.drop_pct(flows.element_pu)
    upper = above.assign(
        end="",
        upstream=upstream,
        alternates=others,
        phases=3,
        load_kw=study.normal_kw.round(6),
        worst_kw=study.worst_kw.round(6),
        worst_case=study.worst_case,
        phase_a=study.lines.normal_a.round(6),
        worst_phase_a=study.lines.worst_a.round(6),
        worst_phase=np.where(
            above["kind"].isin(MAINS), np.array(line_currents.LINES, dtype=object)[study.lines.line], ""
        ),
        phase_case=study.lines.case,
        drop_pct=drop,
        row=row,
        x_m=x_m.round(3),
        y_m=np.where(row >= 0, y_m, 0.0).round(3),
        conductor_m=above["length_m"],
        step_kw=steps.kw.round(6),
        step_case=steps.case,
        step_limit_kw=steps.limit_kw.round(6),
    )
    lower = pd.DataFrame(
        {
            "name": circuits["circuit"],
            "end": circuits["pdu"],
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
            "worst_kw": circuits["worst_kw"],
            **{
                column: circuits[column]
                for column in ("worst_case", "phase_a", "worst_phase_a", "worst_phase", "phase_case")
            },
            "drop_pct": end_pct,
            "rating_ka": 0.0,
            "row": row[tree.panel_of],
            "x_m": x_m[tree.panel_of].round(3),
            "y_m": np.where(row >= 0, y_m, 0.0)[tree.panel_of].round(3),
            "conductor_m": (at.length_m + at.along_m).round(3),
            "step_kw": 0.0,
            "step_case": "",
            "step_limit_kw": 0.0,
        }
    )
    return pd.concat([upper, lower], ignore_index=True)


def _end_models(site: Site, catalog: Catalog) -> dict[str, str]:
    """Model of the rack PDUs and of the power shelves, by what the names of these begin with."""
    models = {"pdu": site.power.rack_pdu.model}
    part = catalog.system(site.server.system).part("shelf") if site.server.system else None
    return models if part is None else {**models, "shelf": part.model}


def _ratings_ka(site: Site, catalog: Catalog, elements: pd.DataFrame) -> Floats:
    """Short-circuit rating of each element; of a rack circuit that of the PDU or shelf at its end, 0 where none is known."""
    known = {kind: catalog.device(slug).bringup.rating_ka or 0.0 for kind, slug in _end_models(site, catalog).items()}
    rating = elements["rating_ka"].to_numpy(dtype=np.float64).copy()
    rack = np.flatnonzero(elements["kind"] == "circuit")
    rating[rack] = [known.get(end.partition("-")[0], 0.0) for end in elements["end"].iloc[rack].tolist()]
    return rating


def _rated_peaks_ka(electrical: Electrical, elements: pd.DataFrame) -> Floats:
    """Rated making and peak withstand current of switchgear and panels, 0 for the others: a PDU or UPS is rated behind its
    breaker, which limits the peak.
    """
    gear: dict[str, Switchgear | Panels] = {
        "intake": electrical.medium_voltage,
        "switchboard": electrical.switchboards,
        "mechanical": electrical.switchboards,
        "panel": electrical.panels,
    }
    peaks = {
        (kind, volts): gear[kind].peak_ka
        or fault_level.rated_peak_ka(gear[kind].rating_ka, volts, electrical.frequency_hz)
        for kind, volts in elements[["kind", "voltage_v"]].drop_duplicates().itertuples(index=False, name=None)
        if kind in gear
    }
    keys = zip(elements["kind"], elements["voltage_v"], strict=True)
    return np.array([peaks.get(key, 0.0) for key in keys], dtype=np.float64)


def _top(frame: pd.DataFrame, by: pd.Series) -> dict[str, Any]:
    """The row of `frame` with the largest value of `by`."""
    row = int(by.to_numpy(dtype=np.float64).argmax())
    return {str(column): frame[column].iloc[row] for column in frame.columns}


def _check_elements(elements: pd.DataFrame, ways: Mapping[str, existing_plant.Way]) -> list[Finding]:
    """Each element above the circuits carries its worst load; the least change that mends it is named: by `ways` where the
    site counts what stands there, else by its rating.

    Circuits are judged in capacity.power.rack.breakers.
    """
    found = []
    for kind, alike in elements[elements["kind"] != "circuit"].groupby("kind", sort=False):
        over = alike[(alike["worst_kw"] > alike["limit_kw"] + 1e-6) & (alike["limit_kw"] > 0)]
        if over.empty:
            continue
        worst = _top(over, over["worst_kw"] / over["limit_kw"])
        key, err = ("POWER-UPS-REDUNDANCY", "ERR-45") if kind == "ups" else ("POWER-ELEMENT", None)
        if way := ways.get(str(kind)):
            found.append(_check_installed(key, err, worst, len(over), way))
            continue
        needed = worst["rating"] * worst["worst_kw"] / worst["limit_kw"]
        larger = (
            remedy(fix="enough-modules")
            if kind == "ups"
            else remedy(fix="sufficient-rating", needed=_rating(needed, worst["unit"]))
        )
        found.append(
            finding(
                key,
                str(worst["name"]),
                case="after-loss" if worst["worst_case"] else "in-order",
                limit=float(worst["limit_kw"]),
                limit_source=f"site electrical, rating of {worst['rating']:g} {worst['unit']}",
                err=err,
                worst_kw=round(float(worst["worst_kw"]), 3),
                count=len(over),
                words={"lost": worst["worst_case"]},
                remedies=[larger, remedy(fix="less-load")],
            )
        )
    return found


def _rating(value: float, unit: str) -> str:
    """A rating with its unit; MVA with two places, other units without any."""
    return f"{value:,.{2 if unit == 'MVA' else 0}f} {unit}"


def _check_mains(site: Site, electrical: Electrical, elements: pd.DataFrame, between_lines: bool) -> list[Finding]:
    """POWER-PHASE-LOAD of panels and PDU transformers whose whole load fits: a main breaker trips on one line, a winding heats
    alone. Fewer circuits to a panel mend it for sure when its fullest line fits with all of them at their worst on it.
    """
    found = []
    circuits = elements[elements["kind"] == "circuit"]
    for kind in MAINS:
        alike = elements[elements["kind"] == kind]
        limit = line_limit_a(alike, site.power.derating)
        over = alike.assign(limit_a=limit)[
            (alike["worst_phase_a"] > limit + 1e-6) & (alike["worst_kw"] <= alike["limit_kw"])
        ]
        if over.empty:
            continue
        worst = _top(over, over["worst_phase_a"] / over["limit_a"])
        volts, legs = worst["voltage_v"] / math.sqrt(3), 2 if between_lines else 1
        less = legs * (worst["worst_phase_a"] - worst["limit_a"]) * volts * site.power.power_factor / 1000
        figures = {"less_kw": less, "line": worst["worst_phase"]}
        remedies = [remedy(fix="less-on-line", **figures), remedy(fix="moved-to-other-lines", **figures)]
        fitting = np.cumsum(np.sort(circuits["worst_phase_a"].to_numpy(dtype=np.float64))[::-1]) <= float(
            worst["limit_a"]
        )
        if kind == "panel" and (most := int(fitting[: electrical.panels.circuits].sum())):
            remedies.insert(0, remedy({"electrical.panels.circuits": most}))
        lost = rooms.name_of(site, str(worst["phase_case"]))
        found.append(
            finding(
                "POWER-PHASE-LOAD",
                str(worst["name"]),
                case="after-loss" if lost else "all-feeds",
                limit=float(worst["limit_a"]),
                limit_source=f"site electrical, rating of {worst['rating']:g} {worst['unit']}",
                err="ERR-45" if worst["phase_case"] in rooms.shared(site) else "ERR-04",
                amps=round(float(worst["worst_phase_a"]), 3),
                count=len(over),
                words={"line": worst["worst_phase"], "lost": lost},
                remedies=remedies,
            )
        )
    return found


def line_limit_a(alike: pd.DataFrame, derating: float) -> pd.Series:
    """What a line of panels, or of PDU transformers (kVA), carries continuously, A."""
    by_kva = alike["rating"] * 1000 / (math.sqrt(3) * alike["voltage_v"])
    return (alike["rating"] * derating).where(alike["unit"] == "A", by_kva)


def _check_installed(key: str, err: str | None, worst: dict[str, Any], over: int, way: existing_plant.Way) -> Finding:
    """POWER-ELEMENT or POWER-UPS-REDUNDANCY of equipment that stands there in a given number."""
    case = "installed-after-loss" if worst["worst_case"] else "installed"
    return finding(
        key,
        str(worst["name"]),
        case=case if way.more else f"{case}-more-do-not-help",
        limit=float(worst["limit_kw"]),
        limit_source=f"site electrical.{way.key}.installed, rating of {worst['rating']:g} {worst['unit']}",
        err=err,
        load_kw=round(float(worst["load_kw"]), 3),
        worst_kw=round(float(worst["worst_kw"]), 3),
        count=over,
        **dict[str, Any](way.numbers),
        words={"lost": worst["worst_case"], "key": f"electrical.{way.key}"},
        remedies=way.remedies,
    )


def _check_failures(
    site: Site, catalog: Catalog, electrical: Electrical, frame: pd.DataFrame, net: Network, fed: pd.DataFrame
) -> list[Finding]:
    """POWER-FAILURE: no single failure may take GPU servers down, nor switches, storage or service nodes, without which the
    servers stand still. Judged per element and per room, never by counting; `fed` are the loads of `net`.

    Without generators the loss of the only line is the risk that POWER-NO-GENERATOR names, and is not judged here.
    """
    if not site.generator.present:
        alone = ["grid", "utility"] if electrical.utility.services == 1 else ["grid"]
        frame = frame[~frame["kind"].isin(alone)]
    found = []
    together = frame["kind"].isin(["room", "grid"])
    for err, part in (("ERR-05", frame[~together]), ("ERR-45", frame[together])):
        for taken in ("servers_lost", "loads_lost"):
            losing = part[(part[taken] > 0) & ((part["servers_lost"] > 0) == (taken == "servers_lost"))]
            if losing.empty:
                continue
            worst = _top(losing, losing[taken])
            loads = ""
            if taken == "loads_lost":
                row = int(losing.index.to_numpy()[losing[taken].to_numpy().argmax()])
                loads = _listed(fed.iloc[failures.lost_loads(net, row)])
            found.append(
                finding(
                    "POWER-FAILURE",
                    str(worst["failure"]),
                    case="servers" if taken == "servers_lost" else "other-loads",
                    limit=float(worst["needed_w"]),
                    limit_source=f"site server supplies {site.server.supplies.redundancy}"
                    if taken == "servers_lost"
                    else "catalogue psu.redundancy",
                    err=err,
                    **dict[str, Any]({taken: int(worst[taken])}),
                    failures=len(losing),
                    left_w=float(worst["left_w"]),
                    supplies_left=int(worst["supplies_left"]),
                    words={
                        "loads": loads,
                        "lost_kw": float(worst["lost_kw"]),
                        "load": worst["tightest_group"],
                        "supplies": int(worst["supplies"]),
                    },
                    remedies=_failure_remedies(site, catalog, electrical, worst, fed),
                )
            )
    return found


LISTED = 4
"""Names of one role in a message; the others are counted."""


def _listed(lost: pd.DataFrame) -> str:
    """Loads by role: '2 management (mgm01, mgm02), 6 leaf (leaf01, leaf02, leaf03, leaf04, …)'."""
    return ", ".join(
        f"{len(names)} {role} ({', '.join(names.head(LISTED))}{', …' if len(names) > LISTED else ''})"
        for role, names in lost.groupby("role", sort=False)["name"]
    )


def _failure_remedies(
    site: Site, catalog: Catalog, electrical: Electrical, worst: dict[str, Any], fed: pd.DataFrame
) -> list[RemedyOf]:
    """The least change after which this failure takes nothing down."""
    if worst["kind"] == "room":
        sharing = [f for f in site.power.feeds if rooms.room_of(site, f) == worst["failure"]]
        if len(sharing) > 1:
            return [rooms.apart(site, sharing)]
    if worst["kind"] in ("utility", "grid"):
        return [remedy(fix="second-line"), remedy(fix="generators")]
    if not worst["servers_lost"]:
        load = fed[fed["name"] == worst["tightest_group"]].iloc[0]
        known = {slug: group for (_, slug), group in supplies_by_model(site, catalog).items()}
        group = known.get(load["model"])
        if group is None:
            return [remedy(fix="psu-on-two-feeds", model=load["model"])]
        return psus.feed_loss_remedies(group, load["nameplate_w"], load["nameplate_w"], servers=0)
    power, system = site.server.power, site.server.system
    trays = catalog.system(system).count("compute") if system else 1
    server_w = min(power.nameplate_w, power.cap_w or np.inf)
    group, needed_w = group_of(site), float(worst["needed_w"])
    group = group if power.cap_w is None else psus.under_cap(group, needed_w)
    split_key = f"server.{'psu' if site.server.psu else 'shelves'}.split_by_feed"
    return psus.feed_loss_remedies(
        group, power.nameplate_w, needed_w, trays, server_w, power.measured_w, split_key, site.power.feeds
    )


def group_of(site: Site) -> psus.Supplies:
    """The supplies of a server, or of a rack-scale system, as the site says."""
    group = site.server.supplies
    return psus.Supplies(group.count, int(group.redundancy.split("+")[0]), group.rating_w, dict(group.split_by_feed))


def _check_maintenance(net: failures.Network, electrical: Electrical) -> list[Finding]:
    """POWER-MAINTENANCE: what a failure does while another part is out, where the site asks for it."""
    if not electrical.concurrently_maintainable:
        return []
    pairs = maintenance_pairs(net)
    if not pairs.losing:
        return []
    return [
        finding(
            "POWER-MAINTENANCE",
            pairs.maintained,
            limit=0.0,
            limit_source="site electrical.concurrently_maintainable",
            err="ERR-45",
            pairs=pairs.losing,
            judged=pairs.judged,
            servers_lost=pairs.servers,
            words={"failed": pairs.failed},
            remedies=[remedy(fix="drain"), remedy(fix="further-feed")],
        )
    ]


def _check_maintenance_load(net: failures.Network, electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-MAINTENANCE-LOAD: what a failure overloads while another part is out, where the site asks for maintenance under
    load.
    """
    if not electrical.concurrently_maintainable:
        return []
    found = overload(net, elements["worst_kw"].to_numpy(dtype=np.float64)[: len(net.tree.elements)])
    if found is None:
        return []
    row = elements.iloc[found.element]
    return [
        finding(
            "POWER-MAINTENANCE-LOAD",
            str(row["name"]),
            limit=float(row["limit_kw"]),
            limit_source=f"site electrical, rating of {row['rating']:g} {row['unit']}",
            err="ERR-45",
            kw=round(found.kw, 3),
            count=found.count,
            words={"maintained": found.maintained, "failed": found.failed},
            remedies=[
                remedy(
                    fix="sufficient-rating", needed=_rating(row["rating"] * found.kw / row["limit_kw"], row["unit"])
                ),
                remedy(fix="drain", drained_kw=found.kw - row["limit_kw"]),
            ],
        )
    ]


def _check_faults(elements: pd.DataFrame) -> list[Finding]:
    """POWER-FAULT-LEVEL: gear breaks and withstands the largest fault current that can flow there, and its peak."""
    rated = elements[elements["rating_ka"] > 0]
    share = rated["fault_ka"] / rated["rating_ka"]
    peak = (rated["peak_ka"] / rated["rating_peak_ka"].where(rated["rating_peak_ka"] > 0, np.inf)).fillna(0.0)
    over = rated.assign(share=share, peak=peak, most=np.maximum(share, peak))
    over = over[over["most"] > 1 + 1e-6]
    found = []
    for kind, alike in over.groupby("kind", sort=False):
        worst = _top(alike, alike["most"])
        broken = worst["share"] >= worst["peak"] or worst["share"] > 1
        drawn, limit = ("fault_ka", "rating_ka") if broken else ("peak_ka", "rating_peak_ka")
        found.append(
            finding(
                "POWER-FAULT-LEVEL",
                str(worst["name"]),
                case="current" if broken else "peak",
                limit=float(worst[limit]),
                limit_source="IEC 60909-0, rated short-circuit current of the site file or the catalogue",
                **dict[str, Any]({drawn: round(float(worst[drawn]), 3)}),
                count=len(alike),
                words={"place": worst["end"] or worst["name"], "kind": kind, "drawn_ka": worst[drawn]},
                remedies=[
                    remedy(fix="stronger-gear" if kind != "circuit" else "stronger-end"),
                    remedy(fix="smaller-transformer"),
                    remedy(fix="more-uk"),
                    remedy(fix="longer-feeder"),
                ],
            )
        )
    return found


def _check_unrated(site: Site, catalog: Catalog, elements: pd.DataFrame) -> list[Finding]:
    """POWER-FAULT-RATING: what stands at a fault level without a known rating, for information."""
    models = _end_models(site, catalog)
    bare = elements[(elements["rating_ka"] <= 0) & elements["kind"].isin(["ups", "circuit"])]
    found = []
    for kind, alike in bare.groupby(bare["end"].str.split("-").str[0], sort=True):
        worst = _top(alike, alike["fault_ka"])
        found.append(
            finding(
                "POWER-FAULT-RATING",
                str(worst["name"]),
                case="catalogue" if kind else "ups",
                limit_source="IEC 60909-0",
                fault_ka=round(float(worst["fault_ka"]), 3),
                count=len(alike),
                words={
                    "place": worst["end"] or worst["name"],
                    "drawn_ka": worst["fault_ka"],
                    "model": models[str(kind)] if kind else "",
                },
                remedies=[remedy(fix="catalogue" if kind else "ups")],
            )
        )
    return found


def _check_drop(electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-VOLTAGE-DROP: from the UPS output to the rack, on the worst line in the worst state."""
    ends = elements[elements["kind"] == "circuit"]
    over = ends[ends["drop_pct"] > electrical.max_drop_pct]
    if over.empty:
        return []
    worst = _top(over, over["drop_pct"])
    return [
        finding(
            "POWER-VOLTAGE-DROP",
            str(worst["name"]),
            limit=electrical.max_drop_pct,
            limit_source="site electrical.max_drop_pct",
            drop_pct=round(float(worst["drop_pct"]), 3),
            count=len(over),
            remedies=[
                remedy(fix="conductor", resistance_pct=math.floor(electrical.max_drop_pct / worst["drop_pct"] * 100))
            ],
        )
    ]


def service_kw(elements: pd.DataFrame) -> float:
    """Load at the grid's lines together, kW."""
    return float(elements.loc[elements["kind"] == "utility", "load_kw"].sum())


def _check_utility(site: Site, electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-UTILITY: the firm capacity carries the load (error), and leaves the margin for growth (warning)."""
    need = standby.mva(service_kw(elements), power_factors(site).of("utility"))
    wanted = need * (1 + electrical.utility.growth_pct / 100)
    firm = electrical.utility.firm_mva
    if firm >= wanted:
        return []
    return [
        finding(
            "POWER-UTILITY",
            "electrical.utility.firm_mva",
            severity="error" if firm < need else "warning",
            limit=firm,
            limit_source="site electrical.utility.firm_mva",
            mva=round(need, 3),
            with_growth_mva=round(wanted, 3),
            words={"growth_pct": electrical.utility.growth_pct},
            remedies=[
                remedy({"electrical.utility.firm_mva": math.ceil(wanted * 100) / 100}, fix="at-least"),
                remedy(fix="smaller-tranche"),
            ],
        )
    ]


def _check_swing(site: Site, electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-SWING: all GPUs from full load to idle in a second, and back, against UPS, generators and grid."""
    found = []
    for row in load_step.figures(site, electrical, elements):
        if row["step_kw"] <= row["permitted_kw"] + 1e-6:
            continue
        found.append(
            finding(
                "POWER-SWING",
                row["subject"],
                case=f"{row['subject']}-after-loss" if row["failure"] else row["subject"],
                limit=row["permitted_kw"],
                limit_source=f"site electrical, largest step of {row['subject']}",
                step_kw=row["step_kw"],
                floor_w=row["floor_w"],
                words={"element": row["element"], "lost": row["failure"]},
                remedies=[remedy(fix="power-smoothing"), remedy(fix="ramp")],
            )
        )
    return found


def _check_scope(site: Site) -> list[Finding]:
    """POWER-UPS-SCOPE (ERR-06): what is not on the UPS stops at once."""
    if site.ups.scope != "it":
        return []
    return [
        finding(
            "POWER-UPS-SCOPE",
            "ups.scope",
            limit_source="site ups.scope",
            err="ERR-06",
            autonomy_min=site.ups.autonomy_min,
        )
    ]


def losses_kw(site: Site, devices: pd.DataFrame, elements: pd.DataFrame) -> float | None:
    """What the supply loses between the grid and the racks at nameplate: as much of the IT load as in the site's profile, with
    everything in order; None without a planned supply.
    """
    if elements.empty:
        return None
    load = elements.groupby("kind")["load_kw"].sum()
    it_kw = float(devices[f"{site.power.profile}_w"].sum()) / 1000
    lost = float(load.get("utility", 0.0)) - float(load.get("mechanical", 0.0)) - it_kw
    return max(lost, 0.0) / it_kw * float(devices["nameplate_w"].sum()) / 1000
