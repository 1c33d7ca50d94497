"""DHCP for servers and their BMCs: dnsmasq's configuration, and the same as a Kea export for sites that run Kea.

Only MACs that the plan knows get an answer. Clients are told by their architecture (RFC 4578, IANA registry of processor
architecture types): 0 BIOS, 7 and 9 UEFI x64 over TFTP, 16 UEFI x64 over HTTP; iPXE tells itself by option 175.
"""

import ipaddress
import json
from collections.abc import Sequence
from typing import Any

from capacity.model import Plan
from capacity.services.boot.intents import Intents, boot_server
from network.wiring import ipv6

LEASE_S = 3600
TFTP_ROOT = "/srv/bringup/boot/tftp"
BIOS_LOADER, EFI_LOADER, SCRIPT = "undionly.kpxe", "ipxe.efi", "boot.ipxe"
"""iPXE's loaders by their names in the distributions' package ipxe, and the script that every iPXE starts with."""
EFI_ARCHITECTURES = (7, 9)
HTTP_ARCHITECTURE = 16
LEASES = 1000
"""dnsmasq's own limit of leases, of both families together (dnsmasq(8), --dhcp-lease-max). Here it is room beside the reserved
addresses: a lease of an earlier configuration stays until it ends.
"""
TRANSFERS = 50
"""dnsmasq's own limit of TFTP transfers at a time (dnsmasq(8), --tftp-max). Where the process may not have as many file handles,
dnsmasq scales it down and says so in its log.
"""
LEAST_IPV6 = 64
"""Bits of the prefix of a range of DHCPv6 (dnsmasq(8))."""


def base_url(plan: Plan) -> str:
    """Where the boot server answers HTTP."""
    return f"http://{boot_server(plan)}"


def dnsmasq(plan: Plan, found: Intents) -> str:
    """dnsmasq.conf (dnsmasq 2.90 and later, 2.89 of Debian 12 as well): DHCP by MAC and TFTP, no DNS."""
    base = base_url(plan)
    addressing = plan.site.addressing
    lines = [
        "# Written by `bringup boot render`. DHCP and TFTP for the MACs of the plan, and for no others.",
        "port=0",
        "bind-dynamic",
        f"listen-address={boot_server(plan)}",
        "dhcp-authoritative",
        "dhcp-ignore=tag:!known",
        "log-dhcp",
        "no-ping",
        f"dhcp-lease-max={LEASES + len(found.hosts)}",
        "enable-tftp",
        f"tftp-root={TFTP_ROOT}",
        f"tftp-max={max(TRANSFERS, len(found.hosts))}",
        f"dhcp-range={_range(addressing.provisioning)}",
        "dhcp-option=option:router",
        *([f"dhcp-option=option:dns-server,{','.join(map(str, addressing.dns))}"] if addressing.dns else []),
        *([f"dhcp-option=option:ntp-server,{','.join(map(str, addressing.ntp))}"] if addressing.ntp else []),
        "dhcp-match=set:ipxe,175",
        "dhcp-match=set:bios,option:client-arch,0",
        *(f"dhcp-match=set:efi64,option:client-arch,{number}" for number in EFI_ARCHITECTURES),
        f"dhcp-match=set:http64,option:client-arch,{HTTP_ARCHITECTURE}",
        f"dhcp-boot=tag:ipxe,{base}/{SCRIPT}",
        f"dhcp-boot=tag:!ipxe,tag:bios,{BIOS_LOADER}",
        f"dhcp-boot=tag:!ipxe,tag:efi64,{EFI_LOADER}",
        f"dhcp-boot=tag:!ipxe,tag:http64,{base}/{EFI_LOADER}",
        "dhcp-option-force=tag:!ipxe,tag:http64,option:vendor-class,HTTPClient",
    ]
    lines += [f"dhcp-host={mac},{address},{device},{LEASE_S}" for device, mac, address in _leases(found)]
    return "\n".join(lines) + "\n"


def management_dnsmasq(plan: Plan, found: Intents, address: ipaddress.IPv4Address, options: Sequence[str] = ()) -> str:
    """dnsmasq.conf of a second instance: addresses for BMCs, PDUs and switches. `address` is the server's own there.

    `options` are lines for the tag of one device, which is its name: where a switch's first boot fetches its files. With a prefix
    for IPv6 there, BMCs get that address too. Router advertisements send them to DHCPv6 for it (RFC 4861, the flag M), and to no
    router.
    """
    site = plan.site
    lines = [
        "# Written by `bringup boot render`. Addresses of the management network for the MACs of assets.csv, and for no others.",
        "port=0",
        "bind-dynamic",
        f"listen-address={address}",
        "dhcp-authoritative",
        "dhcp-ignore=tag:!known",
        "log-dhcp",
        "no-ping",
        f"dhcp-range={_range(plan.site.addressing.oob)}",
        "dhcp-option=option:router",
    ]
    if site.addressing.bmc_ipv6 is not None:
        lines += [
            f"listen-address={ipv6.beside_management(site, str(address)).partition('/')[0]}",
            f"dhcp-range={_range_ipv6(site.addressing.bmc_ipv6)}",
            "enable-ra",
            "ra-param=*,0,0",
        ]
    bmcs = set(plan.addresses.loc[plan.addresses["network"] == "bmc", "address"])
    rows = zip(found.managed["device"], found.managed["mac"], found.managed["address"], strict=True)
    tagged = {option.removeprefix("dhcp-option=tag:").partition(",")[0] for option in options}
    reserved, hosts = 0, []
    for device, mac, leased in rows:
        tag = f"set:{device}," if device in tagged else ""
        second = ipv6.beside_management(site, leased).partition("/")[0] if leased in bmcs else ""
        both = f"{leased.partition('/')[0]}{f',[{second}]' if second else ''}"
        reserved += 2 if second else 1
        hosts.append(f"dhcp-host={mac},{tag}{both},{device},{LEASE_S}")
    return "\n".join([*lines, f"dhcp-lease-max={LEASES + reserved}", *hosts, *options]) + "\n"


def kea(plan: Plan, found: Intents) -> str:
    """kea-dhcp4.conf (Kea 2.2 of Debian 12 and later): reservations only, no pool, so others get no address."""
    base, server = base_url(plan), str(boot_server(plan))
    addressing = plan.site.addressing
    efi = " or ".join(f"option[93].hex == 0x{number:04x}" for number in EFI_ARCHITECTURES)
    options = [
        {"name": name, "data": ", ".join(map(str, servers))}
        for name, servers in (("domain-name-servers", addressing.dns), ("ntp-servers", addressing.ntp))
        if servers
    ]
    config: dict[str, Any] = {
        "interfaces-config": {"interfaces": ["*"]},
        "lease-database": {"type": "memfile"},
        "valid-lifetime": LEASE_S,
        "authoritative": True,
        "option-data": options,
        "client-classes": [
            {"name": "ipxe", "test": "option[175].exists", "boot-file-name": f"{base}/{SCRIPT}"},
            {
                "name": "bios",
                "test": "not option[175].exists and option[93].hex == 0x0000",
                "next-server": server,
                "boot-file-name": BIOS_LOADER,
            },
            {
                "name": "efi64",
                "test": f"not option[175].exists and ({efi})",
                "next-server": server,
                "boot-file-name": EFI_LOADER,
            },
            {
                "name": "http64",
                "test": f"not option[175].exists and option[93].hex == 0x{HTTP_ARCHITECTURE:04x}",
                "boot-file-name": f"{base}/{EFI_LOADER}",
                "option-data": [{"name": "vendor-class-identifier", "data": "HTTPClient"}],
            },
        ],
        "subnet4": [
            {
                "id": 1,
                "subnet": str(addressing.provisioning),
                "reservations-in-subnet": True,
                "reservations-out-of-pool": True,
                "reservations": [
                    {"hw-address": mac, "ip-address": address, "hostname": device}
                    for device, mac, address in _leases(found)
                ],
            }
        ],
    }
    return json.dumps({"Dhcp4": config}, indent=1) + "\n"


def _leases(found: Intents) -> list[tuple[str, str, str]]:
    """(device, MAC, address without prefix length) of every server that boots."""
    rows = zip(found.hosts["device"], found.hosts["mac"], found.hosts["address"], strict=True)
    return [(device, mac, address.partition("/")[0]) for device, mac, address in rows]


def _range_ipv6(prefix: ipaddress.IPv6Network) -> str:
    """dnsmasq takes no prefix below 64 bits; the addresses of a management network of IPv4 lie in the first one of those."""
    return f"{prefix.network_address},static,{max(prefix.prefixlen, LEAST_IPV6)},{LEASE_S}"


def _range(prefix: object) -> str:
    network = ipaddress.IPv4Network(str(prefix))
    return f"{network.network_address},static,{network.netmask},{LEASE_S}"
