"""The resource types that the provider serves."""

from infra.provider.fleet import Reach
from infra.provider.installed import Installed
from infra.provider.outlets import RackOutlets
from infra.provider.resource import ResourceType
from infra.provider.servers import Servers
from infra.provider.sites import Sites
from infra.provider.subnet import SubnetManager
from infra.provider.switches import SwitchConfig


def resource_types() -> dict[str, ResourceType]:
    """Every resource type by its token; they share the loaded sites and what is known of their reachability."""
    sites, reach = Sites(), Reach()
    types: tuple[ResourceType, ...] = (
        RackOutlets(sites, reach),
        SwitchConfig(sites, reach),
        Servers(sites, reach),
        Installed(sites, reach),
        SubnetManager(sites, reach),
    )
    return {kind.token: kind for kind in types}
