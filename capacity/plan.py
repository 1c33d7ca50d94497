"""The Plan: everything that follows from a site file, as frames, findings and hashes.

    plan = build(load_site("lab"))
    plan.devices, plan.cables, …      pandas frames, columns in capacity.frames
    plan.findings                     what does not hold, with the numbers and the source of each limit
    plan.summary()                    plain data: what `bringup plan --json` prints

Order: fabric (counts) -> space -> cabling -> power -> cooling -> storage -> schedule -> BOM. Deterministic: equal inputs give
equal frames and hashes on every machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from capacity import bom, equipment, frames, programme, schedule, site_rules, space, storage_design
from capacity import room as room_rules
from capacity import wiring as wires
from capacity.cooling import mechanical
from capacity.cooling import purchase as cooling_purchase
from capacity.power import budget, supply
from capacity.power import purchase as power_purchase
from inventory.assets import assets_hash, gpus_hash, load_assets, load_gpus
from inventory.catalog import Catalog, load_catalog
from inventory.findings import Finding
from inventory.imports import stored
from inventory.schema import NetworkRack, Rack
from inventory.site import Site
from inventory.weather import Weather, WeatherError, load_weather
from network import fabric

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
        """The frames by name, in the order of capacity.frames.FRAMES."""
        return {name: getattr(self, name) for name in frames.FRAMES}

    def summary(self) -> dict[str, Any]:
        """Plain data (str, int, float, list, dict) for JSON."""
        from capacity.summary import summarise  # summary reads a Plan: imported late to keep the modules apart

        return summarise(self)

    def write(self, folder: Path) -> dict[str, Path]:
        """Write each frame as Parquet and CSV and `summary.json` into `folder`; returns the paths by name."""
        from capacity.output import write_plan

        return write_plan(self, folder)


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
    devices = equipment.servers_and_switches(
        site, catalog, tree, wires.oob_aggregation(site, catalog), _widths(baseline)
    )
    limits = _rack_limits(site, catalog), _network_rack_limits(site, catalog)
    at = room_rules.rack_places(site)
    room = space.Room(
        site.room.rows,
        len(at),
        site.room.rack_pitch_m,
        site.room.row_pitch_m,
        site.room.floor_load_kg_m2,
        at,
    )
    inlets = {slug: catalog.device(slug).inlet_type for slug in devices["model"].unique()}
    outlets = equipment.outlets_per_rack(site, catalog, sorted(set(inlets.values())))
    held = space.Held(baseline.racks, baseline.placements) if baseline else None
    bottoms = equipment.system_bottoms(site, catalog, devices)
    placed = space.place(devices, site.fabric.unit_nodes, limits[0], room, inlets, outlets, held, limits[1], bottoms)
    findings += placed.findings
    filled = placed.racks["system"].to_numpy()
    ends = pd.concat(
        [
            equipment.pdu_devices(site, catalog, placed.racks.loc[~filled, "name"]),
            equipment.shelf_devices(site, catalog, placed.racks.loc[filled, "name"]),
        ],
        ignore_index=True,
    )
    placements = pd.concat([placed.placements, space.end_placements(ends, placed.racks)], ignore_index=True)
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
    power = budget.build(site, catalog, devices, placements, ends)
    findings += power.findings
    racks = _rack_totals(placed.racks, every, placements)
    above = supply.build(site, catalog, power, racks, every, placements)
    findings += above.findings
    computing = placements.loc[placements["device"].isin(devices.loc[devices["role"] == "gpu", "name"]), "rack"]
    findings += space.check(racks, limits, room, racks["name"].isin(computing))
    findings = room_rules.mend(findings, site, every, racks, placements)
    findings += room_rules.check(site, catalog, every, racks, placements)
    weather, found = _weather(site)
    findings += found
    cooled = mechanical.build(site, every, racks, placements, weather)
    findings += cooled.findings
    stores, found = storage_design.build(
        site, catalog, site.server.count * catalog.device(site.server.model).bringup.gpus
    )
    findings += found
    plan_schedule, found = schedule.build(site.leadtimes, site.schedule.need_date, site.schedule.greenfield)
    findings += found
    times = programme.build(site, catalog)
    findings += times.findings
    plan_schedule = programme.with_orders(plan_schedule, times.activities)
    order_by = dict(zip(plan_schedule["activity"], plan_schedule["safe_order"], strict=True))
    own = next((option for option in stores if option.chosen), None)
    others = [*power_purchase.lines(above.elements), *cooling_purchase.lines(site, racks, cooled.frames)]
    plan_bom, found = bom.build(
        site, catalog, every, racks, wiring.cables, power.cords, above.elements, own, order_by, others
    )
    findings += found

    findings += site_rules.check(site)

    built = {
        "devices": every,
        "racks": racks,
        "placements": placements,
        "cables": wiring.cables,
        "feeds": power.feeds,
        "circuits": power.circuits,
        "outlets": power.outlets,
        "elements": above.elements,
        "failures": above.failures,
        "waves": above.waves,
        "addresses": wiring.addresses,
        "bom": plan_bom,
        "schedule": plan_schedule,
        **cooled.frames,
        "activities": times.activities,
        "storage": storage_design.frame(stores),
    }
    built = {name: frames.conform(name, frame) for name, frame in built.items()}
    ordered = tuple(sorted(findings, key=lambda f: (_SEVERITY_ORDER[f.severity], f.id, f.subject)))
    gpus = load_gpus(site)
    hashes = _hashes(site, assets, gpus, built)
    if weather is not None:
        hashes["weather"] = weather.digest
    return Plan(
        site=site, catalog=catalog, tree=tree, findings=ordered, hashes=hashes, hash=_whole(hashes), gpus=gpus, **built
    )


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
    return equipment.Widths(
        gpu=len(gpu.iloc[0]) - len("gpu") if len(gpu) else 0,
        compute=max((sum(c.isdigit() for c in name) for name in compute), default=0),
    )


def _rack_limits(site: Site, catalog: Catalog) -> space.RackLimits:
    """Limits of a rack with GPU servers; a rack-scale system has no PDUs to keep room for."""
    return _limits(site, catalog, site.rack, site.rack.servers, pdus=not site.server.system)


def _network_rack_limits(site: Site, catalog: Catalog) -> space.RackLimits:
    """Limits of a rack without GPU servers: the same rack where the site names no other."""
    if site.rack.network is None:
        return _rack_limits(site, catalog)
    return _limits(site, catalog, site.rack.network, 0, pdus=True)


def _limits(site: Site, catalog: Catalog, given: Rack | NetworkRack, servers: int, pdus: bool) -> space.RackLimits:
    """Limits of a rack of the site file, with room kept for its PDUs where it has any."""
    rack, pdu = catalog.rack(given.model), catalog.device(site.power.rack_pdu.model)
    count = len(site.power.feeds) * site.power.rack_pdu.per_feed if pdus else 0
    return space.RackLimits(
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
    hashes = {f"site.{key}": value for key, value in site.slices().items()}
    hashes["assets"], hashes["gpus"] = assets_hash(assets), gpus_hash(gpus)
    hashes |= {f"import.{name}": value for name, value in stored.hashes(site.dir).items()}
    for name, frame in built.items():
        hashes[f"frame.{name}"] = frames.frame_hash(frame.drop(columns="mac") if name == "addresses" else frame)
    return hashes


def _whole(hashes: Mapping[str, str]) -> str:
    """Hash of the plan: all slices but what was delivered."""
    intent = sorted((key, value) for key, value in hashes.items() if not key.startswith(DELIVERED))
    return frames.digest("\n".join(f"{key} {value}" for key, value in intent))
