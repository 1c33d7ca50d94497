"""The stages of the planner, in the order in which they need each other.

A stage is a function of the site, the catalogue and what earlier stages have built; it returns what it adds and its findings.
The rules themselves stand in the folder of their subject; here is only what each of them is given.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import pandas as pd

from capacity.accepted import Standing
from capacity.cooling import air, coolant, mechanical
from capacity.cooling import zones as cooling_zones
from capacity.kept import Kept
from capacity.least import Sized, Tried
from capacity.model import Plan, frames
from capacity.power import facility, supply
from capacity.power.operation import energisation, standby
from capacity.power.rack import budget
from capacity.power.upstream.network import Network
from capacity.procurement import bom, cooling_lines, cords, order_dates, power_lines, programme
from capacity.services import os_support, slurm_origin
from capacity.space import contradictions, hall, limits, placement
from capacity.space import devices as site_devices
from capacity.storage import network as storage_network
from capacity.storage import sizing
from inventory.catalog import Catalog
from inventory.findings import Finding
from inventory.imports.weather.typical_year import Weather, WeatherError, load_weather
from inventory.site import Site
from network import optics as network_optics
from network.fabric import FatTree
from network.wiring import build as wiring
from network.wiring import cabling, compute, inband, oob, single_failures


@dataclass(frozen=True, eq=False)
class WhatIfs:
    """How what-ifs are tried: with what their stages gave before, and with open sizes worked out anew."""

    kept: Kept
    sized: Sized


class Built(TypedDict, total=False):
    """Results so far: given first, then in the order of the stages."""

    assets: pd.DataFrame
    baseline: Plan | Standing | None
    trials: WhatIfs | None
    """None where nobody asks for what-ifs, which are tried by planning on."""
    tree: FatTree | None
    storage_options: tuple[sizing.Option, ...]
    in_racks: pd.DataFrame
    """Devices that placement puts into racks: all but rack PDUs and power shelves."""
    inband_ends: pd.DataFrame
    """Of them, servers and in-band switches: what the in-band network joins."""
    inband: pd.DataFrame
    """Links of the in-band network, with their rates."""
    management: pd.DataFrame
    """Links of the management network, with their rates."""
    placed: placement.Space
    circuit_ends: pd.DataFrame
    """Rack PDUs and power shelves: where circuits end."""
    circuit_loads: pd.DataFrame
    """Circuits with their loads but those of the optics, for the search for sizes alone."""
    devices: pd.DataFrame
    placements: pd.DataFrame
    racks: pd.DataFrame
    wiring: wiring.Wiring
    rack_power: budget.Power
    cooling_design: mechanical.Design
    supply_loads: supply.Loaded
    supply: supply.Supply
    weather: Weather | None
    cooling: mechanical.Mechanical
    waves: pd.DataFrame
    programme: programme.Programme
    order_by: dict[tuple[str, str], str]
    schedule: pd.DataFrame
    bom: pd.DataFrame


Stage = Callable[[Site, Catalog, Built], tuple[Built, list[Finding]]]


def fabric(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Counts of the compute fabric."""
    tree, findings = compute.compute_tree(site, catalog)
    return {"tree": tree}, findings + (compute.check_small(site, tree) if tree else [])


def storage(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Building blocks of the shared storage."""
    options, findings = sizing.build(site, catalog, _gpus(site, catalog))
    return {"storage_options": tuple(options)}, findings


def devices(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Servers and switches with their names."""
    widths = site_devices.widths_of(built["baseline"])
    aggregation = oob.oob_aggregation(site, catalog)
    made = site_devices.servers_and_switches(site, catalog, built["tree"], aggregation, widths, _chosen(built))
    ends = made[(made["kind"] == "server") | (made["fabric"] == "inband")]
    return {"in_racks": made, "inband_ends": ends.reset_index(drop=True)}, []


def inband_network(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Links of the in-band network, which follow from no places."""
    ends, held = built["inband_ends"], _held_cables(built)
    if held is not None:
        held = held[held["fabric"] == "inband"]
    links, findings = inband.inband_cables(site, catalog, ends, cabling.names_by_role(ends), held)
    return {"inband": links}, findings


def inband_failures(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """What a lost switch of the in-band network takes with it, where the network has no past."""
    if built["baseline"] is not None:
        return {}, []
    return {}, single_failures.check_inband(site, built["inband"], built["inband_ends"])


def management_network(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Links of the management network."""
    devices = built["devices"]
    links, findings = oob.oob_cables(
        site, catalog, devices, built["placements"], cabling.names_by_role(devices), _held_cables(built)
    )
    return {"management": links}, findings


def places(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Racks, their devices, and their PDUs or power shelves."""
    waiting, baseline = built["in_racks"], built["baseline"]
    inlets = {slug: catalog.device(slug).inlet_type for slug in waiting["model"].unique()}
    outlets = site_devices.outlets_per_rack(site, catalog, sorted(set(inlets.values())))
    block = inband.placed_block(site, catalog)
    placed = placement.place(
        waiting,
        site.fabric.unit_nodes,
        limits.rack_limits(site, catalog),
        hall.room(site),
        inlets,
        outlets,
        catalog.device(site.oob.switch_model).bringup.data_ports,
        placement.Held(baseline.racks, baseline.placements) if baseline else None,
        site_devices.system_bottoms(site, catalog, waiting),
        block.devices if block else (),
    )
    systems = placed.racks["system"].to_numpy()
    ends = pd.concat(
        [
            site_devices.pdu_devices(site, catalog, placed.racks[~systems]),
            site_devices.shelf_devices(site, catalog, placed.racks.loc[systems, "name"]),
        ],
        ignore_index=True,
    )
    all_devices = pd.concat([waiting, ends[list(frames.DEVICES)]], ignore_index=True)
    placements = pd.concat([placed.placements, placement.end_placements(ends, placed.racks)], ignore_index=True)
    return {
        "placed": placed,
        "circuit_ends": ends,
        "devices": all_devices,
        "placements": placements,
        "racks": placement.rack_totals(placed.racks, all_devices, placements),
    }, hall.positions(site, placed.racks)


def cables(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Cables and addresses of all fabrics."""
    baseline = built["baseline"]
    made = wiring.build(
        site,
        catalog,
        built["tree"],
        built["devices"],
        built["placements"],
        built["inband"],
        built["management"],
        built["assets"],
        _held_cables(built),
        baseline.addresses if baseline else None,
    )
    return {"wiring": made}, list(made.findings)


def storage_rate(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """What the in-band network carries to the storage."""
    reach = storage_network.reach(built["inband"], built["inband_ends"])
    needs = sizing.needs_of(site, _gpus(site, catalog), catalog)
    return {}, storage_network.check(site, needs, reach)


def optics(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Devices and racks with the power of what the cables put into the cages of switches."""
    made = built["wiring"]
    watts = network_optics.watts_of(made.cables, made.fitted)
    devices = site_devices.with_optics(built["devices"], catalog, watts)
    racks = built["placed"].racks
    return {
        "in_racks": site_devices.with_optics(built["in_racks"], catalog, watts),
        "devices": devices,
        "racks": placement.rack_totals(racks, devices, built["placements"]),
    }, []


def rack_power(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Cords, outlets and rack circuits."""

    where = built["in_racks"], built["placements"], built["circuit_ends"]
    power = budget.build(site, catalog, *where, _tried(site, catalog, built))
    return {"rack_power": power}, list(power.findings)


def _untried_power(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """`rack_power` of a what-if, whose own remedies nobody asks for."""
    power = budget.build(site, catalog, built["in_racks"], built["placements"], built["circuit_ends"])
    return {"rack_power": power}, list(power.findings)


def _tried(site: Site, catalog: Catalog, built: Built) -> Tried:
    """What-ifs from the fabric to the supply, where values of the racks and their circuits show."""
    again = (
        fabric,
        storage,
        devices,
        inband_network,
        places,
        halls,
        management_network,
        cables,
        inband_failures,
        storage_rate,
        optics,
        rooms,
        _untried_power,
        cooling_design,
        unit_places,
        _untried_loads,
        _untried_supply,
    )

    def trial(changed: Site) -> list[Finding] | None:
        return _anew(changed, catalog, built, *again)[1] if built.get("trials") else None

    def sized(unchanged: Site, values: Mapping[str, Any]) -> Site:
        trials = built.get("trials")
        return trials.sized(unchanged, values) if trials else unchanged

    return Tried(site, trial, sized)


def _anew(site: Site, catalog: Catalog, built: Built, *again: Stage) -> tuple[Built, list[Finding]]:
    """What these stages build and find for a changed site, with the rest as built: a what-if, cheaper than a plan."""
    findings: list[Finding] = []
    trials = built.get("trials")
    for stage in again:
        added, found = trials.kept.run(stage, site, catalog, built) if trials else stage(site, catalog, built)
        built = {**built, **added}
        findings += found
    return built, findings


def cooling_design(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Cooling on the design day: its power is a load of the supply."""
    return {"cooling_design": mechanical.design_day(site, built["devices"], built["racks"], built["placements"])}, []


def unit_places(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """What the places of the cooling units ask for, for those who ask for this alone of the cooling."""
    return {}, mechanical.placed_units(site, built["cooling_design"], built["racks"])[2]


def supply_loads(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """The supply above the rack circuits with its loads, after every single failure; `supply_tree` has what is found."""

    def whole(changed: Site) -> Network:
        again, _ = _anew(
            changed, catalog, built, fabric, storage, devices, places, optics, _untried_power, cooling_design
        )
        more = mechanical.beside_it(changed, again["cooling_design"])
        return supply.network_of(changed, catalog, again["rack_power"], again["racks"], again["devices"], more)

    loads = supply.loaded(site, catalog, *_supplied(site, built), whole, _tried(site, catalog, built))
    return {"supply_loads": loads}, []


def _untried_loads(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """`supply_loads` of a what-if, whose own remedies nobody asks for."""
    return {"supply_loads": supply.loaded(site, catalog, *_supplied(site, built))}, []


def _supplied(site: Site, built: Built) -> tuple[budget.Power, pd.DataFrame, pd.DataFrame, float | None]:
    """What the supply carries: rack circuits, racks, devices, and what a kW of IT load draws beside itself."""
    beside = mechanical.beside_it(site, built["cooling_design"])
    return built["rack_power"], built["racks"], built["devices"], beside


def supply_tree(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """The supply with its voltages and faults, judged."""
    where = built["rack_power"], built["racks"], built["devices"], built["placements"], built["supply_loads"]
    above = supply.build(site, catalog, *where, _tried(site, catalog, built))
    return {"supply": above}, list(above.findings)


def _untried_supply(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """`supply_tree` of a what-if, whose own remedies nobody asks for."""
    where = built["rack_power"], built["racks"], built["devices"], built["placements"], built["supply_loads"]
    above = supply.build(site, catalog, *where)
    return {"supply": above}, list(above.findings)


def rooms(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Racks against their limits, with the power of the optics as soon as it is known."""
    where = built["devices"], built["racks"], built["placements"]
    over = placement.check(
        built["racks"],
        limits.rack_limits(site, catalog),
        hall.room(site),
        built["placed"].racks["use"],
        hall.least_change(site, *where),
        limits.rack_keys(site),
    )
    return {}, list(over)


def halls(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """The hall against its limits, which the power of the optics does not change."""
    return {}, hall.check(site, catalog, built["devices"], built["racks"], built["placements"])


def cooling(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Zones, units, plant, a year of weather, ride-through."""
    weather: Weather | None = None
    findings = []
    try:
        weather = load_weather(site)
    except WeatherError as error:
        findings.append(error.finding)
    losses_kw = supply.losses_kw(site, built["devices"], built["supply_loads"].elements)

    def trial(changed: Site) -> tuple[float, Mapping[str, Any]]:
        if not built.get("trials"):
            return math.inf, {}
        again, found = _anew(changed, catalog, built, places, cooling_design, rooms)
        stands = {one.id for one in rooms(site, catalog, built)[1]}
        new = [one for one in found if one.severity == "error" and one.id not in stands]
        _, ports = management_network(changed, catalog, again)
        more = {} if "oob.switches" in site.effective.open else _more_switches(ports)
        return math.inf if new else float(again["cooling_design"].per_rack["air_kw"].max()), more

    cooled = mechanical.build(
        site,
        catalog,
        built["devices"],
        built["racks"],
        built["placements"],
        weather,
        losses_kw,
        built["cooling_design"],
        trial,
    )
    return {"weather": weather, "cooling": cooled}, [*findings, *cooled.findings]


def pue(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """The PUE of the planned cooling beside that of the site file."""
    return {}, mechanical.check_pue(site, built["cooling"].frames["cooling_figures"])


def _more_switches(findings: Iterable[Finding]) -> Mapping[str, Any]:
    """What the management network needs, where its ports are too few."""
    return next((way.settings for one in findings if one.id == "OOB-PORTS" for way in one.remedies if way.settings), {})


def waves(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Waves of energisation and burn-in."""
    per_rack = built["cooling_design"].per_rack
    made, findings = energisation.build(
        site,
        built["supply"].net,
        built["rack_power"].circuits,
        built["racks"],
        per_rack,
        built["cooling"].frames["zones"],
        cooling_zones.loop_of(site, per_rack),
    )
    return {"waves": made}, findings


def dates(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """The programme and its order dates."""
    times = programme.build(site, catalog)
    order_by = programme.order_dates(times.activities)
    schedule, findings = order_dates.build(
        site.leadtimes, site.schedule.need_date, times.activities, order_by, times.finish["longest"]
    )
    return {"programme": times, "order_by": order_by, "schedule": schedule}, [*times.findings, *findings]


def bill(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """The bill of materials."""
    above, power = built["supply"], built["rack_power"]
    lines = [
        *power_lines.lines(above.needed, above.standing),
        *power_lines.wiring(site, power.circuits, above.elements, built["racks"]),
        *power_lines.batteries(site, above.needed, above.standing),
        *power_lines.labels(power.outlets, power.circuits, above.elements),
        *cooling_lines.lines(site, built["racks"], built["cooling"].frames),
    ]
    to_buy = above.needed[~above.needed["name"].isin(above.standing.names)]
    made, findings = bom.build(
        site,
        catalog,
        built["devices"],
        built["racks"],
        built["wiring"].cables,
        built["wiring"].fitted,
        power.cords.assign(
            length_m=cords.lengths(power.cords, power.outlets, built["placements"], built["racks"], catalog)
        ),
        power.circuits,
        to_buy,
        _chosen(built),
        built["order_by"],
        lines,
    )
    return {"bom": made}, findings


def site_alone(site: Site, catalog: Catalog, built: Built) -> tuple[Built, list[Finding]]:
    """Rules that need the site file, and the catalogue, only."""
    return {}, [*contradictions.check_catalog(site, catalog), *site_findings(site)]


def site_findings(site: Site) -> list[Finding]:
    """Findings that follow from the site file alone."""
    return [
        *facility.check_overhead(site),
        *air.check_supply_air(site),
        *coolant.check_coolant(site),
        *standby.check_ride_through(site),
        *os_support.check_os_support(site),
        *slurm_origin.check_slurm_origin(site),
        *compute.check_congestion_control(site),
    ]


STAGES: tuple[Stage, ...] = (
    fabric,
    storage,
    devices,
    inband_network,
    inband_failures,
    storage_rate,
    places,
    halls,
    management_network,
    cables,
    optics,
    rack_power,
    cooling_design,
    supply_loads,
    supply_tree,
    rooms,
    cooling,
    pue,
    waves,
    dates,
    bill,
    site_alone,
)


def plan_frames(built: Built) -> dict[str, pd.DataFrame]:
    """The frames of the plan, by their name in capacity.model.frames, from what the stages built."""
    power, above = built["rack_power"], built["supply"]
    return {
        "devices": built["devices"],
        "racks": built["racks"],
        "placements": built["placements"],
        "cables": built["wiring"].cables,
        "feeds": power.feeds,
        "circuits": above.circuits,
        "outlets": power.outlets,
        "elements": above.elements,
        "failures": above.failures,
        "waves": built["waves"],
        "addresses": built["wiring"].addresses,
        "bom": built["bom"],
        "schedule": built["schedule"],
        **built["cooling"].frames,
        "activities": built["programme"].activities,
        "storage": sizing.frame(list(built["storage_options"])),
    }


def _held_cables(built: Built) -> pd.DataFrame | None:
    """The cables that are laid already, as accepted; None for a site that was never accepted."""
    baseline = built["baseline"]
    return baseline.cables if baseline else None


def _gpus(site: Site, catalog: Catalog) -> int:
    return site.server.count * catalog.device(site.server.model).bringup.gpus


def _chosen(built: Built) -> sizing.Option | None:
    return next((option for option in built["storage_options"] if option.chosen), None)
