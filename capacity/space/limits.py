"""Limits of racks by their use, from the site file and the catalogue."""

from capacity.space import placement
from inventory.catalog import Catalog
from inventory.site import Site
from inventory.site.sections.racks import NetworkRack, Rack


def rack_limits(site: Site, catalog: Catalog) -> placement.Limits:
    """Limits of racks by their use: the compute rack's where the site names no other, and those of racks of switches for
    storage where it names none for that. A rack-scale system has no PDUs to keep room for.
    """
    rack = site.rack
    compute = _limits(site, catalog, rack, rack.servers, pdus=not site.server.system)
    network = _limits(site, catalog, rack.network, 0, pdus=True) if rack.network else compute
    return compute, network, _limits(site, catalog, rack.storage, 0, pdus=True) if rack.storage else network


def rack_keys(site: Site) -> dict[int, str]:
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
