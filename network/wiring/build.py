"""All cables and addresses of a site: compute fabric, in-band Ethernet and management network together.

In: site, catalogue, devices and their places, the links of the in-band and of the management network. Out: frames `cables` and
`addresses`, what the cables take as it is bought, and the findings of each network. The wiring rules are those of network.fabric.
"""

from dataclasses import dataclass

import pandas as pd

from inventory.catalog import Catalog
from inventory.findings import Finding
from inventory.site import Site
from network import fabric, optics
from network.wiring import cabling, compute, lossless, maintenance, rails, single_failures
from network.wiring.addressing import held_of, site_addresses


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
    inband: pd.DataFrame,
    oob: pd.DataFrame,
    assets: pd.DataFrame,
    held_cables: pd.DataFrame | None,
    held_addresses: pd.DataFrame | None,
) -> Wiring:
    """Cables and addresses; `inband` and `oob` are the links of these two networks, `held_*` the frames of an earlier plan whose
    ends and addresses stay.
    """
    findings: list[Finding] = []
    by_role = cabling.names_by_role(devices)
    parts = []
    if tree is not None:
        links = compute.compute_cables(site, catalog, tree, by_role, held_cables)
        parts.append(links)
        managers, found = compute.manager_cables(site, catalog, tree, by_role, links, held_cables)
        findings += found
        parts.append(managers)
    parts += [inband, oob]
    cables = pd.concat(parts, ignore_index=True)
    if held_cables is None:
        findings += single_failures.check_management(oob, devices)

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
    findings += cabling.check_ports(cables)
    findings += cabling.check_reach(cables, table, site.media.reach_table)
    findings += cabling.check_cages(cables, at, table, site.media.reach_table)
    findings += cabling.check_known(cables, at, devices)
    findings += lossless.check(site, tree, cables)
    findings += maintenance.check(site, devices, cables)
    fitted = optics.fitted(cables, at, media)
    addresses, found = site_addresses(site, catalog, devices, inband, assets, held_addresses)
    compute_addresses, short = rails.addresses(site, catalog, devices, cables, held_of(held_addresses))
    if len(compute_addresses):
        addresses = pd.concat([addresses, compute_addresses], ignore_index=True)
    return Wiring(cables, addresses, fitted, (*findings, *found, *short))
