"""The supply above the rack circuits, planned and judged: tree, failures, load flow, fault level, standby, cost.

In: the site, the power plan of the racks. Out: frames `elements`, `failures` and findings. Without the section
`electrical` of the site file the frames are empty and one finding says so (POWER-TREE). Every other rule stands beside what it
judges, in `upstream/` and `operation/`.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.least import Tried
from capacity.model import frames
from capacity.power import altitude, facility
from capacity.power.elements import elements_frame, with_flow
from capacity.power.operation import load_step, standby, utility
from capacity.power.rack import breakers
from capacity.power.rack.budget import Power
from capacity.power.upstream import (
    board_balance,
    conductors,
    double_outages,
    existing_plant,
    fault_level,
    light_modules,
    load_flow,
    loading,
    lost_loads,
    panels,
    single_failures,
    switching,
    voltage_drop,
)
from capacity.power.upstream import tree as trees
from capacity.power.upstream.loads import all_circuits_kw, load_groups, mechanical_efficiency, mechanical_kw
from capacity.power.upstream.network import Network, network
from capacity.power.upstream.power_factor import power_factors
from inventory.catalog import Catalog
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical


@dataclass(frozen=True)
class Supply:
    """`circuits`, `elements`, `failures` as in capacity.model.frames, findings, and the network that failures are worked out on;
    `needed`: the elements with those that have to be added to the existing ones, `standing`: those that exist.
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


@dataclass(frozen=True, eq=False)
class Loaded:
    """The supply with its loads, before its voltages and faults: what follows from sizes and ratings, and asks for larger ones.

    `circuits` with their worst loads after failures of the supply, `fed` as they were before; `elements` with what the loads are;
    `at` places of panels. `overloads`, `service` and `places` are findings. `needed` is the supply with what has to be added to the
    equipment that stands there.
    """

    circuits: pd.DataFrame
    elements: pd.DataFrame
    overloads: tuple[Finding, ...] = ()
    service: tuple[Finding, ...] = ()
    places: tuple[Finding, ...] = ()
    fed: pd.DataFrame = field(default_factory=pd.DataFrame)
    net: Network | None = None
    study: single_failures.Study | None = None
    at: panels.Layout | None = None
    needed: trees.Tree | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return (*self.overloads, *self.service, *self.places)


def loaded(
    site: Site,
    catalog: Catalog,
    power: Power,
    racks: pd.DataFrame,
    devices: pd.DataFrame,
    beside: float | None = None,
    anew: existing_plant.Whole | None = None,
    tried: Tried | None = None,
) -> Loaded:
    """The supply of `site` with its loads; `racks` and `devices` as in the plan. `beside` is what cooling, lighting and the
    rest draw per kW of IT load; None where it follows from power.pue. `anew` plans a changed site anew, and `tried` finds
    what it has against it, for the remedies that need them.

    Panels are filled by the load of their circuits; where that leaves one with a line too full, by the fullest lines.
    """
    electrical = site.electrical
    if electrical is None:
        return Loaded(power.circuits.reset_index(drop=True), _empty("elements"))
    made = _loaded(site, electrical, catalog, power, racks, devices, beside, anew, tried, by_line=False)
    if not loading.with_full_line(made.findings, made.elements):
        return made
    again = _loaded(site, electrical, catalog, power, racks, devices, beside, anew, tried, by_line=True)
    return made if loading.with_full_line(again.findings, again.elements) else again


def _loaded(
    site: Site,
    electrical: Electrical,
    catalog: Catalog,
    power: Power,
    racks: pd.DataFrame,
    devices: pd.DataFrame,
    beside: float | None,
    anew: existing_plant.Whole | None,
    tried: Tried | None,
    by_line: bool,
) -> Loaded:
    """`loaded` with panels filled one way."""
    circuits = power.circuits.reset_index(drop=True)
    if by_line:
        circuits = trees.by_fullest_line(circuits, site.power.power_factor)
    it_kw = float(devices[f"{site.power.profile}_w"].sum()) / 1000
    rows = racks.set_index("name")["row"].reindex(circuits["rack"]).to_numpy(dtype=np.int64)
    apart = panels.filled_by(site, electrical, circuits, rows)
    drawn_kw = all_circuits_kw(site, power)

    def plan(changed: Site, e: Electrical, loads: Power, at: pd.DataFrame) -> Network:
        less = drawn_kw - all_circuits_kw(site, loads)
        return _planned(changed, catalog, loads, e, at, apart, max(it_kw - less, 0.0), beside)

    net = plan(site, electrical, power, circuits)
    tree, case = net.tree, existing_plant.Case(site, electrical, power, circuits, plan, anew)
    study = single_failures.study(net, circuits)
    fed, circuits = circuits, single_failures.with_failures(circuits, study)
    at = panels.layout(site, electrical, tree, circuits, racks)
    elements = elements_frame(tree, circuits, study, at)
    enlarged, ways = existing_plant.enlarged(case, existing_plant.ways(case, elements))
    return Loaded(
        circuits,
        elements,
        (
            *loading.check_elements(elements, ways, site.power.code, tried),
            *loading.check_mains(site, electrical, elements, power.legs.between_lines),
        ),
        (*utility.check_utility(site, electrical, elements), *utility.check_units(site, electrical, elements)),
        tuple(panels.check(site, electrical, tree, circuits.assign(worst_kw=fed["worst_kw"]), racks, at, tried)),
        fed,
        net,
        study,
        at,
        tree if enlarged == electrical else plan(site, enlarged, power, circuits).tree,
    )


def build(
    site: Site,
    catalog: Catalog,
    power: Power,
    racks: pd.DataFrame,
    devices: pd.DataFrame,
    placements: pd.DataFrame,
    loads: Loaded,
    tried: Tried | None = None,
) -> Supply:
    """The supply of `site` with its `loads`; `racks`, `devices` and `placements` as in the plan. `tried` finds what a changed site
    has against it, for the remedies that need it.
    """
    electrical, circuits = site.electrical, loads.circuits
    net, study, at = loads.net, loads.study, loads.at
    if electrical is None or net is None or study is None or at is None or loads.needed is None:
        absent = finding("POWER-TREE", "electrical", remedies=[remedy(fix="section")])
        judged = breakers.check(
            site,
            catalog,
            circuits,
            circuits["worst_kw"],
            power.model_of,
            power.use_of,
            power.legs.between_lines,
            tried=tried,
        )
        return Supply(circuits, _empty("elements"), _empty("failures"), (absent, *judged), needed=_empty("elements"))
    tree, profile = net.tree, f"{site.power.profile}_w"
    feed_lost_kw, feed_lost_a = loads.fed["worst_kw"], loads.fed["worst_phase_a"]
    states, lost = voltage_drop.flow_states(site, net, circuits, power, profile)
    flows, unsolved = voltage_drop.solved(net, circuits, at, states.sum(axis=2), lost)
    end_pct = (
        load_flow.branch_pct(flows, voltage_drop.branch_share(net, study, states, at))
        if not unsolved
        else np.zeros(len(circuits))
    )
    fault_ka, peak_ka = load_flow.fault_levels(tree, electrical, circuits, at.length_m, at.along_m)
    elements = with_flow(loads.elements, flows, end_pct, load_step.steps(site, net))
    elements = elements.assign(
        fault_ka=fault_ka.round(6),
        peak_ka=peak_ka.round(6),
        rating_ka=fault_level.ratings_ka(catalog, power.model_of, elements),
        rating_peak_ka=fault_level.rated_peaks_ka(electrical, elements),
    )[list(frames.ELEMENTS)]
    findings = [
        *unsolved,
        *breakers.check(
            site,
            catalog,
            circuits,
            feed_lost_kw,
            power.model_of,
            power.use_of,
            power.legs.between_lines,
            feed_lost_a,
            tried,
        ),
        *loads.overloads,
        *board_balance.check(site, board_balance.boards(site, power.outlets, circuits, elements)),
        *lost_loads.check_failures(site, catalog, electrical, study.frame, net, power.fed),
        *double_outages.check_maintenance(net, electrical),
        *double_outages.check_maintenance_load(net, electrical, elements),
        *conductors.check(site, electrical, circuits, elements),
        *fault_level.check_faults(electrical, elements),
        *fault_level.check_unrated(power.model_of, elements),
        *voltage_drop.check_drop(electrical, elements, tried),
        *loads.service,
        *load_step.check_swing(site, electrical, elements),
        *standby.check_scope(site),
        *light_modules.check(site, electrical, elements),
        *altitude.check(site),
        *loads.places,
    ]
    needed = existing_plant.planned(loads.needed)
    standing = existing_plant.standing(electrical, needed)
    circuits = circuits.drop(columns="fill_kw", errors="ignore")
    return Supply(circuits, elements, study.frame, tuple(findings), net, needed, standing)


def network_of(
    site: Site, catalog: Catalog, power: Power, racks: pd.DataFrame, devices: pd.DataFrame, beside: float | None = None
) -> Network:
    """The network of `build` alone, for what-ifs: nothing is judged. ValueError for a site without section `electrical`."""
    electrical, circuits = site.electrical, power.circuits.reset_index(drop=True)
    if electrical is None:
        raise ValueError("no supply is planned without the section electrical")
    rows = racks.set_index("name")["row"].reindex(circuits["rack"]).to_numpy(dtype=np.int64)
    apart = panels.filled_by(site, electrical, circuits, rows)
    it_kw = float(devices[f"{site.power.profile}_w"].sum()) / 1000
    return _planned(site, catalog, power, electrical, circuits, apart, it_kw, beside)


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
    bare = network(tree, electrical, groups, power.cord, power.end_w, usable, 0.0, power_factors(site), power.legs)
    if beside is None:
        left = max(facility.itemised_kw(it_kw, site.power.pue) - switching.grid_kw(bare), 0.0)
        boards_kw = left * mechanical_efficiency(site, electrical)
    return with_modules(site, electrical, replace(bare, mechanical_kw=boards_kw))


def with_modules(site: Site, electrical: Electrical, net: Network) -> Network:
    """The network with as many modules in each UPS block as its worst load and its largest step need, where the site leaves
    them open: after any single failure, and after two where parts are maintained under load.
    """
    blocks = electrical.ups_blocks
    if blocks.modules_per_block is not None:
        return net
    needed_kw = single_failures.worst(net)[0]
    if electrical.concurrently_maintainable:
        needed_kw = np.maximum(needed_kw, double_outages.loads_kw(net))
    if electrical.swing is not None and blocks.max_step_pct is not None:
        step_kw = load_step.steps(site, net).kw
        needed_kw = np.maximum(needed_kw, step_kw / (blocks.max_step_pct / 100) * blocks.permitted_load)
    return replace(net, tree=trees.with_modules(net.tree, site, electrical, needed_kw))


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
