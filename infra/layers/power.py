"""Power layer: one `bringup:power:RackOutlets` per rack, from the plan's outlets and circuits."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pulumi

from capacity.model import Plan
from capacity.power.rack.circuits import pdu_thresholds_a
from infra.layers.addresses import management_addresses, serials


class RackOutlets(pulumi.CustomResource):
    """The outlets of every PDU of one rack; inputs as in infra/provider/outlets.py."""

    def __init__(self, name: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions) -> None:
        super().__init__("bringup:power:RackOutlets", name, {**inputs, "results": None}, options)


class Power(pulumi.ComponentResource):
    """The power layer. `racks` maps a rack to its outlets, for resources that need power."""

    def __init__(self, plan: Plan, assets: pd.DataFrame, site_reference: str) -> None:
        super().__init__("bringup:layers:Power", "power")
        options = pulumi.ResourceOptions(parent=self)
        self.racks = {
            rack: RackOutlets(rack, inputs, options)
            for rack, inputs in rack_outlets(plan, assets, site_reference).items()
        }
        self.register_outputs({})


def rack_outlets(plan: Plan, assets: pd.DataFrame, site_reference: str) -> dict[str, dict[str, Any]]:
    """Inputs of RackOutlets by rack. Spare outlets are not named, so nobody touches them.

    A PDU warns at the continuous rating of its circuit (breaker x derating of the site's electrical code) and alarms at
    the breaker's rating, in whole amperes.
    """
    address, serial = management_addresses(plan), serials(assets)
    breakers_a = dict(zip(plan.circuits["pdu"], plan.circuits["breaker_a"], strict=True))
    used = plan.outlets[plan.outlets["device"] != ""]
    racks: dict[str, dict[str, Any]] = {}
    for (rack, pdu), rows in used.groupby(["rack", "pdu"], sort=True):
        near_overload_a, overload_a = pdu_thresholds_a(breakers_a[pdu], plan.site.power.derating)
        outlets = {
            str(outlet): {"name": f"{device} psu{psu}", "on": True}
            for outlet, device, psu in zip(rows["outlet"], rows["device"], rows["psu"], strict=True)
        }
        racks.setdefault(str(rack), {"site": site_reference, "rack": str(rack), "pdus": {}})["pdus"][str(pdu)] = {
            "address": address[str(pdu)],
            "serial": serial.get(str(pdu), ""),
            "dialect": plan.pdu_dialect,
            "near_overload_a": near_overload_a,
            "overload_a": overload_a,
            "outlets": outlets,
        }
    return racks
