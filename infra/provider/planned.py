"""What the plan wants of a resource that Pulumi does not know yet: the start of an import.

    pulumi import bringup:network:SwitchConfig leaf01 lab/leaf01 --parent network=URN

The id is SITE/KEY: name or path of the site, and the resource's key (rack, switch or host).
"""

from collections.abc import Mapping

import pandas as pd

from capacity.build import build
from capacity.model import Plan
from capacity.services.boot import BootError, ImageError
from capacity.sizes import load_site
from infra.boot.built import IMAGES
from infra.layers.installed import rack_images, servers_of
from infra.layers.network import switch_configs
from infra.layers.nodes import rack_servers
from infra.layers.power import rack_outlets
from infra.layers.subnet import subnet_managers
from infra.provider.installed import Installed
from infra.provider.outlets import RackOutlets
from infra.provider.resource import Data, RefusedError
from infra.provider.servers import Servers
from infra.provider.subnet import SubnetManager
from infra.provider.switches import SwitchConfig
from inventory.delivered.assets import load_assets
from inventory.paths import var_dir
from inventory.site import SiteError


def inputs_by_key(plan: Plan, reference: str) -> dict[str, Mapping[str, Data]]:
    """{token: {key: inputs}} of every resource of a plan; `reference` is the site's name or path."""
    assets = load_assets(plan.site)
    images = _images(plan, assets, reference) if plan.site.provisioning.installed_by == "pulumi" else {}
    return {
        RackOutlets.token: rack_outlets(plan, assets, reference),
        SwitchConfig.token: switch_configs(plan, assets, reference),
        Servers.token: rack_servers(plan, plan.catalog, assets, reference, servers_of(images)),
        Installed.token: images,
        SubnetManager.token: subnet_managers(plan, assets, reference),
    }


def _images(plan: Plan, assets: pd.DataFrame, reference: str) -> dict[str, Data]:
    try:
        return rack_images(plan, assets, reference, var_dir(plan.site.name) / IMAGES)[0]
    except (BootError, ImageError, OSError) as error:
        raise RefusedError(str(error)) from None


def planned(token: str, identifier: str) -> Data:
    """Inputs of the resource SITE/KEY. RefusedError names what there is instead."""
    reference, slash, key = identifier.rpartition("/")
    if not slash or not reference:
        raise RefusedError(f"{identifier} cannot be imported: write SITE/KEY as its id, such as lab/leaf01")
    try:
        known = inputs_by_key(build(load_site(reference)), reference)[token]
    except SiteError as error:
        raise RefusedError(str(error)) from error
    if key not in known:
        raise RefusedError(f"the plan of {reference} has no {token} {key}; it has {', '.join(sorted(known))}")
    return known[key]
