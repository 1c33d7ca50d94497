"""Which server boots from which MAC, under which address, onto which disks.

The MAC of a server's provisioning port comes from assets.csv, where a network adapter is a device of its own, DEVICE:PORT, as
host channel adapters are: the line `gpu001:eth0` has it in `mgmt_mac`. Where that line is missing, the BMC's own report of its
NICs is taken. The serial number of a boot drive is that of the line `gpu001:boot0`, `gpu001:boot1`.
"""

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from capacity.model import Plan
from capacity.services.boot.disks import Layout, LayoutError, layout
from inventory.delivered.assets import MAC

COLUMNS = ("device", "role", "rack", "model", "mac", "source", "address", "interface")
ASSETS, BMC = "assets.csv", "BMC"
MANAGEMENT = "management"
MOST_DRIVES = 64
"""Of one use in a server: lines up to this number are looked for."""
Reported = Mapping[str, Mapping[str, str]]
"""What BMCs say of their NICs: server -> name of the NIC -> MAC, lower case."""


class BootError(Exception):
    """Contradicting MACs, no public key where one is expected, or nobody to write to: nothing is rendered. The message names all
    concerned.
    """


@dataclass(frozen=True)
class Intents:
    """Who boots, and who does not.

    hosts     columns COLUMNS, one row a server: `address` with prefix length, `source` of the MAC (assets.csv or BMC)
    layouts   disk layout by server of `hosts`
    nothing   servers that get nothing, and why
    managed   columns device, mac, address: ports of the management network (BMCs, PDUs, switches) whose MAC is known
    """

    hosts: pd.DataFrame
    layouts: Mapping[str, Layout]
    nothing: Mapping[str, str]
    managed: pd.DataFrame

    def servers(self) -> list[dict[str, str]]:
        """The rows of `hosts`, each by column."""
        return [dict(zip(COLUMNS, row, strict=True)) for row in self.hosts.itertuples(index=False, name=None)]


def intents(plan: Plan, assets: pd.DataFrame, reported: Reported | None = None) -> Intents:
    """Boot intents of all servers. `assets` is the frame of load_assets. BootError for contradicting MACs, all at once."""
    rows = plan.addresses[plan.addresses["network"] == "provisioning"]
    devices = plan.devices.set_index("name")
    rack = plan.placements.set_index("device")["rack"]
    said: Reported = reported or {}
    problems, nothing = [], {}
    hosts: list[tuple[str, ...]] = []
    layouts: dict[str, Layout] = {}
    for device, interface, address in zip(rows["device"], rows["interface"], rows["address"], strict=True):
        try:
            mac, source = _mac(device, interface, assets, said.get(device, {}))
            drives = drive_serials(assets, device)
            made = layout(plan.catalog.device(str(devices.at[device, "model"])), drives, plan.site.provisioning.encrypt)
        except BootError as error:
            problems.append(str(error))
        except (LookupError, LayoutError) as error:
            nothing[device] = str(error.args[0])
        else:
            role, model = str(devices.at[device, "role"]), str(devices.at[device, "model"])
            hosts.append((device, role, str(rack.get(device, "")), model, mac, source, address, interface))
            layouts[device] = made
    frame = pd.DataFrame(hosts, columns=list(COLUMNS), dtype=str)
    managed = plan.addresses.loc[
        plan.addresses["network"].isin(["oob", "bmc"]) & plan.addresses["mac"].ne(""), ["device", "mac", "address"]
    ].reset_index(drop=True)
    problems += _shared(frame, managed)
    if problems:
        raise BootError("\n".join(problems))
    return Intents(frame, layouts, nothing, managed)


def drive_serials(assets: pd.DataFrame, device: str) -> dict[str, str]:
    """Serial numbers of a server's delivered boot drives by name (boot0, boot1), in the order of their names."""
    return _drives(assets, device, "boot")


def all_drive_serials(assets: pd.DataFrame, device: str) -> dict[str, str]:
    """Serial numbers of all drives of a server that the asset list has: boot0, boot1, data0, …"""
    return _drives(assets, device, "boot") | _drives(assets, device, "data")


def _drives(assets: pd.DataFrame, device: str, use: str) -> dict[str, str]:
    found = {f"{use}{n}": f"{device}:{use}{n}" for n in range(MOST_DRIVES)}
    return {name: str(assets.at[line, "serial"]) for name, line in found.items() if line in assets.index}


def boot_server(plan: Plan) -> ipaddress.IPv4Address:
    """Address of the boot server: the site's, else the first management node's, else .1 of the provisioning prefix."""
    if plan.site.provisioning.server is not None:
        return plan.site.provisioning.server
    devices = plan.devices
    names = devices.loc[(devices["kind"] == "server") & (devices["role"] == MANAGEMENT), "name"]
    rows = plan.addresses[(plan.addresses["network"] == "provisioning") & plan.addresses["device"].isin(names[:1])]
    if len(rows):
        return ipaddress.IPv4Interface(rows["address"].iloc[0]).ip
    return ipaddress.IPv4Network(str(plan.site.addressing.provisioning))[1]


def _mac(device: str, interface: str, assets: pd.DataFrame, nics: Mapping[str, str]) -> tuple[str, str]:
    line = f"{device}:{interface}"
    listed = str(assets.at[line, "mgmt_mac"]) if line in assets.index else ""
    for name, mac in nics.items():
        if not MAC.fullmatch(mac):
            raise BootError(f"{device}: the BMC reports {mac!r} for NIC {name}, which is no MAC")
    if listed:
        if nics and listed not in nics.values():
            told = ", ".join(f"{name} {mac}" for name, mac in sorted(nics.items()))
            raise BootError(
                f"{device}: assets.csv has {listed} for {line}, the BMC reports {told}. "
                f"Fix: correct the line {line}, or find out which board was swapped"
            )
        return listed, ASSETS
    if interface in nics:
        return nics[interface], BMC
    if len(nics) == 1:
        return next(iter(nics.values())), BMC
    if nics:
        raise LookupError(
            f"the BMC reports {len(nics)} NICs and none is named {interface}: add the line {line} to assets.csv"
        )
    raise LookupError(f"MAC of {interface} is not known: add the line {line} to assets.csv")


def _shared(hosts: pd.DataFrame, managed: pd.DataFrame) -> Iterator[str]:
    """Each MAC belongs to one port."""
    owners: dict[str, list[str]] = defaultdict(list)
    for device, mac in zip(hosts["device"], hosts["mac"], strict=True):
        owners[mac].append(device)
    for device, mac in zip(managed["device"], managed["mac"], strict=True):
        owners[mac].append(f"{device} (management port)")
    for mac, names in owners.items():
        if len(names) > 1:
            yield f"MAC {mac} belongs to {' and '.join(names)}. Fix: correct assets.csv; two ports never have the same MAC"


def hyphened(mac: str) -> str:
    """A MAC as iPXE writes it in file names: 52-54-00-77-00-01."""
    return re.sub(":", "-", mac)
