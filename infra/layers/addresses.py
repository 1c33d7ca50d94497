"""Where the devices of a plan are reached, and what they must present as identity."""

import pandas as pd

from capacity.model import Plan


def management_addresses(plan: Plan) -> dict[str, str]:
    """Management address (without prefix length) of every device that has one: switches, PDUs, and BMCs of servers."""
    rows = plan.addresses[plan.addresses["network"].isin(["oob", "bmc"])]
    rows = rows[rows["network"].eq("bmc") | ~rows["device"].isin(rows.loc[rows["network"] == "bmc", "device"])]
    return {device: address.partition("/")[0] for device, address in zip(rows["device"], rows["address"], strict=True)}


def node_addresses(plan: Plan) -> dict[str, str]:
    """Provisioning address (without prefix length) of every server's operating system."""
    rows = plan.addresses[plan.addresses["network"] == "provisioning"]
    return {device: address.partition("/")[0] for device, address in zip(rows["device"], rows["address"], strict=True)}


def serials(assets: pd.DataFrame) -> dict[str, str]:
    """Serial number by device, from the asset list."""
    return _column(assets, "serial")


def uuids(assets: pd.DataFrame) -> dict[str, str]:
    """System UUID by device, from the asset list."""
    return _column(assets, "uuid")


def macs(assets: pd.DataFrame) -> dict[str, str]:
    """MAC of the management port by device, from the asset list."""
    return _column(assets, "mgmt_mac")


def _column(assets: pd.DataFrame, column: str) -> dict[str, str]:
    return {str(device): str(value) for device, value in assets[column].items()}


def rack_of(plan: Plan) -> dict[str, str]:
    """Rack by device."""
    return dict(zip(plan.placements["device"], plan.placements["rack"], strict=True))
