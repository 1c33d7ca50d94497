"""Started by the engine (PulumiPlugin.yaml): serves the provider `bringup`."""

from infra.provider.fleet import Reach
from infra.provider.installed import Installed
from infra.provider.outlets import RackOutlets
from infra.provider.planned import planned
from infra.provider.provider import Bringup
from infra.provider.resource import ResourceType
from infra.provider.server import serve
from infra.provider.servers import Servers
from infra.provider.sites import Sites
from infra.provider.subnet import SubnetManager
from infra.provider.switches import SwitchConfig

VERSION = "0.1.0"


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


if __name__ == "__main__":
    serve(lambda log: Bringup(resource_types(), log, planned), VERSION)
