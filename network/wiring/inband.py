"""In-band ports of servers: which of a model's ports are cabled, and at what rate. Pure."""

from inventory.catalog import Catalog, StorageBlock
from inventory.site import Site


def placed_block(site: Site, catalog: Catalog) -> StorageBlock | None:
    """The building block whose enclosures are devices of the plan: the one that the site names, unless servers of its
    service_nodes hold it.
    """
    block = catalog.storage[site.storage.block] if site.storage.block else None
    return None if block is None or block.in_servers else block


def inband_ports(site: Site, catalog: Catalog, model: str) -> list[str]:
    """Ports that a server of this model has cables at: storage all of its own, others `inband.links_per_node`."""
    block = placed_block(site, catalog)
    ports = list(catalog.device(model).bringup.inband_ports)
    return ports if block and model in block.devices else ports[: site.inband.links_per_node]


def inband_gbps(site: Site, catalog: Catalog, model: str) -> float:
    """Rate of a server's in-band links: the site's, or less where its own ports are slower."""
    return min(site.inband.rate_gbps, catalog.device(model).bringup.rate_gbps or site.inband.rate_gbps)
