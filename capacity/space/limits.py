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
    compute = rack, rack.servers, not site.server.system
    network = (rack.network, 0, True) if rack.network else compute
    storage = (rack.storage, 0, True) if rack.storage else network
    return (
        _limits(site, catalog, "rack", *compute),
        _limits(site, catalog, "network", *network),
        _limits(site, catalog, "storage", *storage),
    )


def rack_keys(site: Site) -> dict[int, str]:
    """Where in the site's `rack` the limits of each use stand."""
    network = "network." if site.rack.network else ""
    storage_key = "storage." if site.rack.storage else network
    return {placement.COMPUTE: "", placement.NETWORK: network, placement.STORAGE: storage_key}


def _limits(
    site: Site, catalog: Catalog, use: str, given: Rack | NetworkRack, servers: int, pdus: bool
) -> placement.RackLimits:
    """Limits of a rack of the site file, with room kept for the PDUs of its use where it has any."""
    rack, pdu = catalog.rack(given.model), catalog.device(site.power.pdu_model(use))
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
