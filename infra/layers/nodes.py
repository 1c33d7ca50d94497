"""Nodes layer: one `bringup:nodes:Servers` per rack, from the plan's servers and their device types."""

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd
import pulumi

from capacity.model import Plan
from infra.layers.addresses import management_addresses, rack_of, serials, uuids
from inventory.catalog import Catalog
from network.drivers.redfish import UNUSED_PROTOCOLS


class Servers(pulumi.CustomResource):
    """The servers of one rack; inputs as in infra/provider/servers.py."""

    def __init__(self, name: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions) -> None:
        outputs = {"results": None, "powered_on": None, "firmware": None}
        super().__init__("bringup:nodes:Servers", name, {**inputs, **outputs}, options)


class Nodes(pulumi.ComponentResource):
    """The nodes layer. `outlets` maps a rack to the resource that powers it; `racks` maps it to its servers. `installed`: servers
    that the installation layer brings to ready, and switches on.
    """

    def __init__(
        self,
        plan: Plan,
        catalog: Catalog,
        assets: pd.DataFrame,
        site_reference: str,
        outlets: Mapping[str, pulumi.Resource],
        installed: Collection[str] = (),
    ) -> None:
        super().__init__("bringup:layers:Nodes", "nodes")
        self.racks = {}
        for rack, inputs in rack_servers(plan, catalog, assets, site_reference, installed).items():
            powered_by = [outlets[rack]] if rack in outlets else []
            self.racks[rack] = Servers(rack, inputs, pulumi.ResourceOptions(parent=self, depends_on=powered_by))
        self.register_outputs({})


def rack_servers(
    plan: Plan, catalog: Catalog, assets: pd.DataFrame, site_reference: str, installed: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Inputs of Servers by rack: every server on, no boot override left, the site's clock and account.

    Those in `installed` keep their power as it is: an empty server that has power starts from the network at once, before its
    rack's turn and before its firmware and BIOS are as planned. The BIOS profile is that of the device type; time and log servers
    are those of the site.
    """
    address, serial, uuid, rack = management_addresses(plan), serials(assets), uuids(assets), rack_of(plan)
    ntp = [str(server) for server in plan.site.addressing.ntp]
    syslog = [str(server) for server in plan.site.addressing.syslog]
    factory, secure = plan.site.credentials.bmc.factory, plan.site.provisioning.secure_boot
    rows = plan.devices[plan.devices["kind"] == "server"].sort_values("name")
    racks: dict[str, dict[str, Any]] = {}
    for server, model in zip(rows["name"], rows["model"], strict=True):
        name = rack[server]
        racks.setdefault(name, {"site": site_reference, "rack": name, "servers": {}})["servers"][server] = {
            "address": address[server],
            "serial": serial.get(server, ""),
            "uuid": uuid.get(server, ""),
            "login": "site",
            "factory_login": "" if factory is None else "refused",
            "ntp": ntp,
            "syslog": syslog,
            "protocols_off": list(UNUSED_PROTOCOLS),
            "boot": "Disabled",
            "bios": dict(catalog.device(model).bringup.bios),
            **({} if secure is None else {"secure_boot": secure}),
            **({} if server in installed else {"power": "On"}),
        }
    return dict(sorted(racks.items()))
