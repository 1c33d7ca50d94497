"""All cables and addresses of a site: compute fabric, in-band Ethernet and management network together.

In: site, catalogue, devices and their places. Out: frames `cables` and `addresses`, what the cables take as it is bought,
and the findings of each network. The wiring rules are those of network.fabric.
"""

from dataclasses import dataclass

import pandas as pd

from inventory.catalog import Catalog
from inventory.findings import Finding
from inventory.site import Site
from network import fabric, optics
from network.wiring import cabling, compute, lossless, rails, single_failures
from network.wiring.addressing import held_of, site_addresses
from network.wiring.inband import inband_cables
from network.wiring.oob import oob_cables


@dataclass(frozen=True)
class Wiring:
    """`cables` and `addresses` as in capacity.model.frames, and what the cables take as it is bought."""

    cables: pd.DataFrame
    addresses: pd.DataFrame
    fitted: optics.Fitted
    findings: tuple[Finding, ...]


def build(
    site: Site,
    catalog: Catalog,
    tree: fabric.FatTree | None,
    devices: pd.DataFrame,
    placements: pd.DataFrame,
    assets: pd.DataFrame,
    held_cables: pd.DataFrame | None,
    held_addresses: pd.DataFrame | None,
) -> Wiring:
    """Cables and addresses; `held_*` are the frames of an earlier plan whose ends and addresses stay."""
    findings: list[Finding] = []
    by_role = {
        (str(key[0]), str(key[1])): group["name"].tolist()
        for key, group in devices.groupby(["fabric", "role"], sort=False)
    }
    parts = []
    if tree is not None:
        links = compute.compute_cables(site, catalog, tree, by_role, held_cables)
        parts.append(links)
        managers, found = compute.manager_cables(site, catalog, tree, by_role, links, held_cables)
        findings += found
        parts.append(managers)
    inband, found = inband_cables(site, catalog, devices, by_role, _stage(held_cables, "inband", "node-leaf"))
    findings += found
    parts.append(inband)
    oob, found = oob_cables(site, catalog, devices, placements, by_role, held_cables)
    findings += found
    parts.append(oob)
    cables = pd.concat(parts, ignore_index=True)
    if held_cables is None:
        findings += single_failures.check(site, cables, devices)

    cables["length_m"] = cabling.routed_lengths(cables, placements, site.room.tray_height_m, site.room.slack_m)
    media = catalog.media(site.media.reach_table).parts
    at = optics.ends(cables, dict(zip(devices["name"], devices["model"], strict=True)), catalog)
    cables["a_cage"], cables["b_cage"] = at.number
    group = optics.groups(at)
    allowed = optics.fitting(at, group, media)
    table = pd.DataFrame([part.model_dump() for part in media])
    chosen = cabling.select_parts(cables["rate_gbps"], cables["length_m"].to_numpy(), table, allowed, group)
    cables[["medium", "part"]] = chosen
    cables["cable_id"] = cables["a_device"].astype(str) + ":" + cables["a_port"].astype(str)
    findings += cabling.check_reach(cables, table, site.media.reach_table)
    findings += cabling.check_cages(cables, at, table, site.media.reach_table)
    findings += cabling.check_known(cables, at, devices)
    findings += lossless.check(site, tree, cables)
    fitted = optics.fitted(cables, at, media)
    addresses, found = site_addresses(site, catalog, devices, inband, assets, held_addresses)
    compute_addresses, short = rails.addresses(site, catalog, devices, cables, held_of(held_addresses))
    if len(compute_addresses):
        addresses = pd.concat([addresses, compute_addresses], ignore_index=True)
    return Wiring(cables, addresses, fitted, (*findings, *found, *short))


def _stage(cables: pd.DataFrame | None, fabric_name: str, stage: str) -> pd.DataFrame | None:
    if cables is None:
        return None
    return cables[(cables["fabric"] == fabric_name) & (cables["stage"] == stage)]
