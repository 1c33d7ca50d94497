"""Started by the engine (PulumiPlugin.yaml): serves the provider `bringup`."""

from collections.abc import Mapping

from infra.provider.provider import Bringup
from infra.provider.resource import Data, ResourceType
from infra.provider.server import serve

VERSION = "0.1.0"


def types() -> Mapping[str, ResourceType]:
    """Every resource type by its token, imported when a request asks for one."""
    from infra.provider.resource_types import resource_types

    return resource_types()


def planned(token: str, identifier: str) -> Data:
    """Inputs of the resource SITE/KEY, with the planner imported when an import asks for it."""
    from infra.provider.planned import planned

    return planned(token, identifier)


if __name__ == "__main__":
    serve(lambda log: Bringup(types, log, planned), VERSION)
