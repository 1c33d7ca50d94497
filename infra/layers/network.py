"""Network layer: one `bringup:network:SwitchConfig` per in-band switch, configured as rendered from the plan."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pulumi

from capacity.model import Plan
from infra.layers.addresses import macs, management_addresses, rack_of
from network.render import switches, whole


class SwitchConfig(pulumi.CustomResource):
    """The configuration of one switch; inputs as in infra/provider/switches.py."""

    def __init__(self, name: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions) -> None:
        super().__init__("bringup:network:SwitchConfig", name, {**inputs, "pushed": None}, options)


class Network(pulumi.ComponentResource):
    """The network layer. `outlets` maps a rack to the resource that powers it."""

    def __init__(
        self, plan: Plan, assets: pd.DataFrame, site_reference: str, outlets: Mapping[str, pulumi.Resource]
    ) -> None:
        super().__init__("bringup:layers:Network", "network")
        rack = rack_of(plan)
        for switch, inputs in switch_configs(plan, assets, site_reference).items():
            powered_by = [outlets[rack[switch]]] if rack.get(switch) in outlets else []
            SwitchConfig(switch, inputs, pulumi.ResourceOptions(parent=self, depends_on=powered_by))
        self.register_outputs({})


def switch_configs(plan: Plan, assets: pd.DataFrame, site_reference: str) -> dict[str, dict[str, Any]]:
    """Inputs of SwitchConfig by in-band switch."""
    address, mac = management_addresses(plan), macs(assets)
    return {
        switch: {
            "site": site_reference,
            "switch": switch,
            "nos": plan.site.inband.nos,
            "address": address[switch],
            "mgmt_mac": mac.get(switch, ""),
            "config": whole(plan, switch),
            "drift": [],
        }
        for switch in sorted(switches(plan))
    }
