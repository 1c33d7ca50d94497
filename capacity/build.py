"""The Plan: everything that follows from a site file, as frames, findings and hashes.

    plan = build(load_site("lab"))
    plan.devices, plan.cables, …      pandas frames, columns in capacity.model.frames
    plan.findings                     what does not hold, with the numbers and the source of each limit
    plan.summary()                    plain data: what `bringup plan --json` prints

Order: fabric and storage (counts) -> space -> cabling -> power -> cooling -> schedule -> BOM. Deterministic: equal inputs give
equal frames and hashes on every machine.
"""

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from capacity import site_rules
from capacity.cooling import mechanical
from capacity.cooling import zones as cooling_zones
from capacity.model import frames
from capacity.power.operation import energisation as waves
from capacity.power.rack import budget
from capacity.power.upstream import arrangement
from capacity.procurement import bom, programme
from capacity.procurement import cooling_lines as cooling_purchase
from capacity.procurement import order_dates as schedule
from capacity.procurement import power_lines as power_purchase
from capacity.space import devices as equipment
from capacity.space import hall as room_rules
from capacity.space import placement
from capacity.storage import network as storage_network
from capacity.storage import sizing
from inventory.catalog import Catalog, load_catalog
from inventory.delivered.assets import assets_hash, gpus_hash, load_assets, load_gpus
from inventory.findings import Finding
from inventory.imports.core import stored
from inventory.imports.weather.typical_year import Weather, WeatherError, load_weather
from inventory.site import Site
from inventory.site.schema import NetworkRack, Rack
from network import fabric
from network import wiring as wires
from network.inband import placed_block

DELIVERED = ("assets", "gpus", "import.")
"""Hashes, or what they begin with, of what was delivered: no part of the plan's own hash."""

_SEVERITY_ORDER = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, eq=False)
class Plan:
    """One site's plan. Frames are shared, not copied: do not change them in place.

    `catalog` is the catalogue that it was planned with: documents and checks read this one and no other.
    `gpus` is no frame of the plan but what was delivered (gpus.csv), beside which checks judge the plan's servers.
    """

    site: Site
    catalog: Catalog
    tree: fabric.FatTree | None
    devices: pd.DataFrame
    racks: pd.DataFrame
    placements: pd.DataFrame
    cables: pd.DataFrame
    feeds: pd.DataFrame
    circuits: pd.DataFrame
    outlets: pd.DataFrame
    elements: pd.DataFrame
    failures: pd.DataFrame
    waves: pd.DataFrame
    addresses: pd.DataFrame
    bom: pd.DataFrame
    schedule: pd.DataFrame
    zones: pd.DataFrame
    cooling_units: pd.DataFrame
    cooling_figures: pd.DataFrame
    cooling_options: pd.DataFrame
    activities: pd.DataFrame
    storage: pd.DataFrame
    gpus: pd.DataFrame
    findings: tuple[Finding, ...]
    hashes: Mapping[str, str]
    hash: str

    def __repr__(self) -> str:
        return f"Plan({self.site.name!r}, {len(self.devices)} devices, {len(self.findings)} findings, {self.hash[:12]})"

    def frames(self) -> dict[str, pd.DataFrame]:
        """The frames by name, in the order of capacity.model.frames.FRAMES."""
        return {name: getattr(self, name) for name in frames.FRAMES}

    def summary(self) -> dict[str, Any]:
        """Plain data (str, int, float, list, dict) for JSON; the caller's own."""
        return copy.deepcopy(self._summary)

    @functools.cached_property
    def _summary(self) -> dict[str, Any]:
        from capacity.outputs.summary import summarise  # summary reads a Plan: imported late to keep the modules apart

        return summarise(self)

    def delivered(self, assets: pd.DataFrame, gpus: pd.DataFrame | None = None) -> "Plan":
        """The plan of the same site after a delivery: `assets` and `gpus` as `load_assets` and `load_gpus` give them.

        What is delivered moves nothing: no name, place, port or address depends on it, so every frame but the MACs of
        `addresses` stays, and so does the hash of the plan. Equal to `build(site, catalog, assets)`.
        """
        gpus = load_gpus(self.site) if gpus is None else gpus
        servers = self.devices.loc[self.devices["kind"] == "server", "name"]
        addresses = frames.conform("addresses", wires.with_macs(self.addresses, servers, assets))
        intent = {key: value for key, value in self.hashes.items() if not key.startswith(DELIVERED)}
        hashes = intent | _delivered_hashes(self.site, assets, gpus)
        return replace(self, addresses=addresses, gpus=gpus, hashes=hashes)

    def write(self, folder: Path) -> dict[str, Path]:
        """Write each frame as Parquet and CSV and `summary.json` into `folder`; returns the paths by name."""
        from capacity.outputs.files import write_plan

        return write_plan(self, folder)


@frames.with_python_strings
def build(
    site: Site, catalog: Catalog | None = None, assets: pd.DataFrame | None = None, baseline: Plan | None = None
) -> Plan:
    """Plan a site.

    `catalog` and `assets` default to the shipped catalogue and to the asset list beside the site file. `baseline` is an
    earlier plan of the same site: devices that it has keep their names, places, addresses, and their ports on leaves
    and management switches. (Trunk cables follow the new size of the fabric.)
    Never raises for a site that loads: what cannot be built becomes an error finding, and the frames hold the rest.
    """
    catalog = catalog or load_catalog()
    assets = load_assets(site) if assets is None else assets
    findings: list[Finding] = []

    tree, found = wires.compute_tree(site, catalog)
    findings += found
    gpus = site.server.count * catalog.device(site.server.model).bringup.gpus
    stores, found = sizing.build(site, catalog, gpus)
    findings += found
    own = next((option for option in stores if option.chosen), None)
    devices = equipment.servers_and_switches(
        site, catalog, tree, wires.oob_aggregation(site, catalog), _widths(baseline), own
    )
    limits = _rack_limits(site, catalog)
    at = room_rules.rack_places(site)
    room = placement.Room(
        site.room.rows,
        len(at),
        site.room.rack_pitch_m,
        site.room.row_pitch_m,
        site.room.floor_load_kg_m2,
        at,
    )
    inlets = {slug: catalog.device(slug).inlet_type for slug in devices["model"].unique()}
    outlets = equipment.outlets_per_rack(site, catalog, sorted(set(inlets.values())))
    held = placement.Held(baseline.racks, baseline.placements) if baseline else None
    bottoms = equipment.system_bottoms(site, catalog, devices)
    block = placed_block(site, catalog)
    bought = block.devices if block else ()
    placed = placement.place(devices, site.fabric.unit_nodes, limits, room, inlets, outlets, held, bottoms, bought)
    findings += placed.findings
    filled = placed.racks["system"].to_numpy()
    ends = pd.concat(
        [
            equipment.pdu_devices(site, catalog, placed.racks.loc[~filled, "name"]),
            equipment.shelf_devices(site, catalog, placed.racks.loc[filled, "name"]),
        ],
        ignore_index=True,
    )
    placements = pd.concat([placed.placements, placement.end_placements(ends, placed.racks)], ignore_index=True)
    every = pd.concat([devices, ends[list(frames.DEVICES)]], ignore_index=True)

    wiring = wires.build(
        site,
        catalog,
        tree,
        every,
        placements,
        assets,
        baseline.cables if baseline else None,
        baseline.addresses if baseline else None,
    )
    findings += wiring.findings
    reach = storage_network.reach(wiring.cables, every)
    findings += storage_network.check(site, sizing.needs_of(site, gpus), reach)
    power = budget.build(site, catalog, devices, placements, ends)
    findings += power.findings
    racks = _rack_totals(placed.racks, every, placements)
    cooling = mechanical.design_day(site, every, racks, placements)
    above = arrangement.build(site, catalog, power, racks, every, placements, _beside(site, cooling))
    findings += above.findings
    findings += placement.check(racks, limits, room, placed.racks["use"], _rack_keys(site))
    findings = room_rules.mend(findings, site, every, racks, placements)
    findings += room_rules.check(site, catalog, every, racks, placements)
    weather, found = _weather(site)
    findings += found
    losses_kw = _losses_kw(site, every, above.elements)
    cooled = mechanical.build(site, catalog, every, racks, placements, weather, losses_kw, cooling)
    findings += cooled.findings
    burnt, found = waves.build(
        site,
        above.net,
        power.circuits,
        racks,
        cooling.per_rack,
        cooled.frames["zones"],
        cooling_zones.loop_of(site, cooling.per_rack),
    )
    findings += found
    times = programme.build(site, catalog)
    findings += times.findings
    order_by = programme.order_dates(times.activities)
    plan_schedule, found = schedule.build(
        site.leadtimes, site.schedule.need_date, times.activities, order_by, times.finish["longest"]
    )
    findings += found
    others = [
        *power_purchase.lines(above.needed, above.standing),
        *power_purchase.wiring(site, power.circuits, above.elements, racks),
        *power_purchase.batteries(site, above.needed, above.standing),
        *power_purchase.labels(power.outlets, power.circuits, above.elements),
        *cooling_purchase.lines(site, racks, cooled.frames),
    ]
    to_buy = above.needed[~above.needed["name"].isin(above.standing.names)]
    plan_bom, found = bom.build(
        site, catalog, every, racks, wiring.cables, wiring.fitted, power.cords, to_buy, own, order_by, others
    )
    findings += found

    findings += site_rules.check(site)

    built = {
        "devices": every,
        "racks": racks,
        "placements": placements,
        "cables": wiring.cables,
        "feeds": power.feeds,
        "circuits": above.circuits,
        "outlets": power.outlets,
        "elements": above.elements,
        "failures": above.failures,
        "waves": burnt,
        "addresses": wiring.addresses,
        "bom": plan_bom,
        "schedule": plan_schedule,
        **cooled.frames,
        "activities": times.activities,
        "storage": sizing.frame(stores),
    }
    built = {name: frames.conform(name, frame) for name, frame in built.items()}
    ordered = tuple(sorted(findings, key=lambda f: (_SEVERITY_ORDER[f.severity], f.id, f.subject)))
    tested = load_gpus(site)
    hashes = _hashes(site, assets, tested, built)
    if weather is not None:
        hashes["weather"] = weather.digest
    return Plan(
        site=site,
        catalog=catalog,
        tree=tree,
        findings=ordered,
        hashes=hashes,
        hash=_whole(hashes),
        gpus=tested,
        **built,
    )


def _beside(site: Site, cooling: mechanical.Design) -> float | None:
    """What a kW of IT load draws beside itself in the building, losses of the supply left out: cooling on the design day,
    lighting and the rest. None where the site gives no plant: then power.pue says it.
    """
    if cooling.power is None or site.cooling.plant is None or not cooling.loads.it_kw:
        return None
    return cooling.power.total_kw / cooling.loads.it_kw + site.cooling.plant.other_pct / 100


def _losses_kw(site: Site, devices: pd.DataFrame, elements: pd.DataFrame) -> float | None:
    """What the supply loses between the grid and the racks at nameplate: as much of the IT load as in the site's profile, with
    everything in order; None without a planned supply.
    """
    if elements.empty:
        return None
    load = elements.groupby("kind")["load_kw"].sum()
    it_kw = float(devices[f"{site.power.profile}_w"].sum()) / 1000
    lost = float(load.get("utility", 0.0)) - float(load.get("mechanical", 0.0)) - it_kw
    return max(lost, 0.0) / it_kw * float(devices["nameplate_w"].sum()) / 1000


def _weather(site: Site) -> tuple[Weather | None, list[Finding]]:
    """The site's weather, and COOLING-WEATHER when its file cannot be used."""
    try:
        return load_weather(site), []
    except WeatherError as error:
        return None, [Finding("COOLING-WEATHER", "error", "weather.epw", str(error), {}, None, "EnergyPlus EPW format")]


def _widths(baseline: Plan | None) -> equipment.Widths:
    """Digits of the names in an earlier plan."""
    if baseline is None:
        return equipment.Widths()
    devices = baseline.devices
    gpu = devices.loc[devices["role"] == "gpu", "name"]
    compute = devices.loc[devices["fabric"] == "compute", "name"]
    stores = devices.loc[devices["name"].str.fullmatch(r"sto\d+"), "name"]
    return equipment.Widths(
        gpu=len(gpu.iloc[0]) - len("gpu") if len(gpu) else 0,
        storage=len(stores.iloc[-1]) - len("sto") if len(stores) else 0,
        compute=max((sum(c.isdigit() for c in name) for name in compute), default=0),
    )


def _rack_limits(site: Site, catalog: Catalog) -> placement.Limits:
    """Limits of racks by their use: the compute rack's where the site names no other, and those of racks of switches for
    storage where it names none for that. A rack-scale system has no PDUs to keep room for.
    """
    rack = site.rack
    compute = _limits(site, catalog, rack, rack.servers, pdus=not site.server.system)
    network = _limits(site, catalog, rack.network, 0, pdus=True) if rack.network else compute
    return compute, network, _limits(site, catalog, rack.storage, 0, pdus=True) if rack.storage else network


def _rack_keys(site: Site) -> dict[int, str]:
    """Where in the site's `rack` the limits of each use stand."""
    network = "network." if site.rack.network else ""
    storage_key = "storage." if site.rack.storage else network
    return {placement.COMPUTE: "", placement.NETWORK: network, placement.STORAGE: storage_key}


def _limits(site: Site, catalog: Catalog, given: Rack | NetworkRack, servers: int, pdus: bool) -> placement.RackLimits:
    """Limits of a rack of the site file, with room kept for its PDUs where it has any."""
    rack, pdu = catalog.rack(given.model), catalog.device(site.power.rack_pdu.model)
    count = len(site.power.feeds) * site.power.rack_pdu.per_feed if pdus else 0
    return placement.RackLimits(
        model=rack.slug,
        height_u=given.height_u,
        servers=servers,
        mass_kg=rack.weight,
        mass_limit_kg=given.mass_limit_kg,
        power_limit_kw=given.power_limit_kw,
        width_m=rack.outer_width / 1000,
        depth_m=rack.outer_depth / 1000,
        reserved_kg=count * pdu.mass_kg,
        reserved_kw=count * pdu.bringup.power.nameplate_w / 1000,
    )


def _rack_totals(racks: pd.DataFrame, devices: pd.DataFrame, placements: pd.DataFrame) -> pd.DataFrame:
    """`racks` with power per profile, and with the mass and rack units of PDUs and power shelves."""
    rack = placements.set_index("device")["rack"].reindex(devices["name"]).to_numpy()
    late = devices["kind"].isin(["pdu", "shelf"])
    columns = {name: devices[name] for name in ("seed_w", "measured_w", "nameplate_w")}
    columns |= {name: devices[name].where(late, 0) for name in ("mass_kg", "u_height")}
    sums = pd.DataFrame(columns).groupby(rack).sum().reindex(racks["name"], fill_value=0.0)
    totals = {f"{p}_kw": (sums[f"{p}_w"] / 1000).round(6).to_numpy() for p in ("seed", "measured", "nameplate")}
    return racks.assign(
        mass_kg=(racks["mass_kg"].to_numpy() + sums["mass_kg"].to_numpy()).round(3),
        used_u=racks["used_u"].to_numpy() + sums["u_height"].to_numpy(dtype=np.int64),
        **totals,
    )


def _hashes(site: Site, assets: pd.DataFrame, gpus: pd.DataFrame, built: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Hash per site key (`site.fabric`), of the assets, of the GPUs, per imported file and per frame (`frame.cables`).

    MACs come from the assets, so `frame.addresses` leaves them out: a swapped NIC changes `assets` only.
    """
    hashes = {f"site.{key}": value for key, value in site.slices().items()} | _delivered_hashes(site, assets, gpus)
    for name, frame in built.items():
        hashes[f"frame.{name}"] = frames.frame_hash(frame.drop(columns="mac") if name == "addresses" else frame)
    return hashes


def _delivered_hashes(site: Site, assets: pd.DataFrame, gpus: pd.DataFrame) -> dict[str, str]:
    """Hashes of what was delivered: assets, GPUs, imported files."""
    files = {f"import.{name}": value for name, value in stored.hashes(site.dir).items()}
    return {"assets": assets_hash(assets), "gpus": gpus_hash(gpus), **files}


def _whole(hashes: Mapping[str, str]) -> str:
    """Hash of the plan: all slices but what was delivered."""
    intent = sorted((key, value) for key, value in hashes.items() if not key.startswith(DELIVERED))
    return frames.digest("\n".join(f"{key} {value}" for key, value in intent))
