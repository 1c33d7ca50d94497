"""Subnet layer: one `bringup:network:SubnetManager` per host that the plan gives one, on InfiniBand sites."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pulumi

from capacity.model import Plan
from infra.layers.addresses import node_addresses, rack_of
from network.infiniband import subnet

READY_S = 180
"""A server's firmware, kernel and services, from power-on to SSH, where the site sets no limit node_ready_s."""


class SubnetManager(pulumi.CustomResource):
    """The subnet manager of one host; inputs as in infra/provider/subnet.py."""

    def __init__(self, name: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions) -> None:
        super().__init__("bringup:network:SubnetManager", name, {**inputs, "pushed": None}, options)


class Subnet(pulumi.ComponentResource):
    """The subnet layer. `servers` maps a rack to the resource that powers its servers on."""

    def __init__(
        self, plan: Plan, assets: pd.DataFrame, site_reference: str, servers: Mapping[str, pulumi.Resource]
    ) -> None:
        super().__init__("bringup:layers:Subnet", "subnet")
        rack = rack_of(plan)
        try:
            managers = subnet_managers(plan, assets, site_reference)
        except subnet.MissingGuidsError as error:
            pulumi.log.warn(f"no subnet manager is set up yet: {error}")
            managers = {}
        for host, inputs in managers.items():
            powered_by = [servers[rack[host]]] if rack.get(host) in servers else []
            SubnetManager(host, inputs, pulumi.ResourceOptions(parent=self, depends_on=powered_by))
        self.register_outputs({})


def subnet_managers(plan: Plan, assets: pd.DataFrame, site_reference: str) -> dict[str, dict[str, Any]]:
    """Inputs of SubnetManager by host. Raises network.infiniband.subnet.MissingGuidsError."""
    address, guids = node_addresses(plan), subnet.guid_book(assets)
    limits, versions = plan.site.limits, plan.site.versions
    return {
        host: {
            "site": site_reference,
            "host": host,
            "address": address[host],
            "guid": guids.get(subnet.manager_port(plan, host), ""),
            "files": subnet.render(plan, guids, host),
            "pins": {package: versions[package] for package in subnet.PACKAGES if package in versions},
            "ready_s": limits["node_ready_s"].value if "node_ready_s" in limits else READY_S,
            "drift": [],
        }
        for host in subnet.managers(plan)
    }
