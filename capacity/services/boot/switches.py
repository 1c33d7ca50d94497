"""First boot of the compute switches of a RoCE site and of out-of-band switches: what the boot server gives to which of them.

    made = switches(plan, found, address, public_key)
    made.files       {"http/ztp/48-b0-2d-00-00-01/provision.sh": …}
    made.options     DHCP options, one line of dnsmasq's configuration each
    made.nothing     {switch: why it gets nothing}

A switch is known by the MAC of its management port in assets.csv. One whose factory login would stay gets nothing.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from capacity.model import Plan
from capacity.services.boot.intents import Intents, hyphened
from inventory.site.sections.networks import NosImage
from network import oob, roce
from network.nos import first_boot
from network.nos.access import AccessConfig
from network.nos.model import SwitchConfig

ZTP = "ztp"
"""Folder of a switch's files; the boot server gives them to the holder of the lease only."""


@dataclass(frozen=True)
class Switches:
    """Files by path below the served folder, options of DHCP, and who gets nothing."""

    files: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    nothing: Mapping[str, str] = field(default_factory=dict)


def switches(plan: Plan, found: Intents, server: ipaddress.IPv4Address | None, public_key: str) -> Switches:
    """First boot of all switches that have a configuration here. `server` is the boot server in the management network,
    `public_key` that of credentials.switch. Raises roce.PublicKeyError for another form of key.
    """
    if server is None:
        return Switches()
    site, known = plan.site, list[tuple[SwitchConfig | AccessConfig, str, NosImage | None]]()
    if site.fabric.nos is not None and roce.rendering(plan).files:
        compute = roce.structured_configs(plan, public_key).values()
        known += [(config, site.fabric.nos, site.fabric.nos_image) for config in compute]
    if site.oob.nos is not None:
        access = oob.structured_configs(plan, public_key).values()
        known += [(config, site.oob.nos, site.oob.nos_image) for config in access]
    macs = dict(zip(found.managed["device"], found.managed["mac"], strict=True))
    files, options, nothing = dict[str, str](), list[str](), dict[str, str]()
    for config, system, image in known:
        name = config.hostname
        number, first = first_boot.OPTION[system]
        mac = macs.get(name, "")
        why = (
            first_boot.refusal(config.management, system)
            if mac
            else f"MAC of {name} is not known: add mgmt_mac to assets.csv"
        )
        if why:
            nothing[name] = why
            continue
        folder = f"{ZTP}/{hyphened(mac)}"
        url = f"http://{server}/{folder}"
        made = first_boot.files(config, system, url, image)
        files |= {f"{folder}/{file}": text for file, text in made.items()}
        options.append(f"dhcp-option=tag:{name},{number},{url}/{first}")
    return Switches(files, tuple(options), nothing)
