"""Separation of the site's networks: which may reach which, and what a router of each lets through.

    matrix(site)               one row for each pair of networks and what is allowed between them, denied pairs too
    permits(site, "inband")    (Rule, ...): what the switches at the edge of that network forward; they drop all else

separation.yaml says what is allowed. Prefixes come from section `addressing`; a network without a prefix there does not exist.
"""

import ipaddress
import itertools
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from inventory.site import Site
from inventory.yaml_data import read_data

COLUMNS = ("source", "destination", "protocol", "port", "verdict", "enforced_by", "because")
NOT_ROUTED = "no device of the plan routes between them"
NAME = "SEPARATION"
"""Name of the filter on switches where it has one."""


NEIGHBOURS = (("::/0", "ff02::/16"), ("::/0", "fe80::/10"))
"""(source, destination) of ICMPv6 that never leaves a link: neighbour discovery and multicast listeners (RFC 4890, 4.4.1)."""
LINK_LOCAL = "fe80::/10"


class Rule(NamedTuple):
    """Packets that pass. protocol: any, icmp (of the version of the prefixes), tcp or udp; port: destination port, None for all."""

    source: str
    destination: str
    protocol: str
    port: int | None

    @property
    def version(self) -> int:
        """Of IP."""
        return 6 if ":" in self.source else 4


@cache
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = read_data(Path(__file__).with_name("separation.yaml"))
    return data


def networks(site: Site) -> dict[str, tuple[str, ...]]:
    """{network: its prefixes} of those that the site has."""
    found = {
        name: tuple(str(prefix) for key in one["keys"] if (prefix := getattr(site.addressing, key)) is not None)
        for name, one in _data()["networks"].items()
    }
    return {name: prefixes for name, prefixes in found.items() if prefixes}


def permits(site: Site, network: str) -> tuple[Rule, ...]:
    """What a switch at the edge of a network forwards, in the order of separation.yaml."""
    prefixes = networks(site)
    return tuple(
        Rule(source, destination, flow["protocol"], flow.get("port"))
        for flow in _data()["allowed"]
        if flow["from"] == network and flow["to"] in prefixes
        for source, destination in itertools.product(prefixes[network], prefixes[flow["to"]])
        if (":" in source) == (":" in destination)
    )


def at_ports(site: Site, network: str) -> tuple[Rule, ...]:
    """What a port at the edge of a network takes: `permits`, and for IPv6 what stays on the link, solicitations to a group and
    answers to any address there.
    """
    own = [prefix for prefix in networks(site).get(network, ()) if ":" in prefix]
    pairs = [*NEIGHBOURS, *((LINK_LOCAL, prefix) for prefix in own)] if own else []
    return permits(site, network) + tuple(Rule(source, destination, "icmp", None) for source, destination in pairs)


def allows(site: Site, source: str, destination: str, protocol: str, port: int) -> bool:
    """Whether the matrix lets a connection to this port of one network begin in the other."""
    return any(
        (flow["from"], flow["to"]) == (source, destination)
        and flow["protocol"] in ("any", protocol)
        and flow.get("port", port) == port
        for flow in _data()["allowed"]
        if {source, destination} <= networks(site).keys()
    )


def matrix(site: Site) -> pd.DataFrame:
    """The matrix (columns COLUMNS): all allowed traffic between each ordered pair of networks, or one row that denies it."""
    rows = []
    for source, destination in itertools.product(networks(site), repeat=2):
        by = _enforced_by(source, destination)
        flows = [one for one in _data()["allowed"] if (one["from"], one["to"]) == (source, destination)]
        rows += [
            (source, destination, one["protocol"], str(one.get("port", "")), "allowed", by, one["because"])
            for one in flows
        ]
        if not flows or all(one["protocol"] != "any" for one in flows):
            rest = "any" if not flows else "any other"
            rows.append((source, destination, rest, "", "denied", by, "not in separation.yaml"))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def outside(site: Site, addresses: pd.DataFrame) -> list[str]:
    """Planned addresses, with device and port, that lie in no network or in two."""
    known = [ipaddress.ip_network(prefix) for prefixes in networks(site).values() for prefix in prefixes]
    bounds = [(one.version, int(one.network_address), int(one.broadcast_address)) for one in known]
    found = []
    for device, port, address in addresses[["device", "interface", "address"]].itertuples(index=False, name=None):
        ip = ipaddress.ip_address(address.partition("/")[0])
        if sum(version == ip.version and first <= int(ip) <= last for version, first, last in bounds) != 1:
            found.append(f"{device} {port} {address}")
    return found


def _enforced_by(source: str, destination: str) -> str:
    """Whose filters stand between two networks, or in one."""
    filters = [_data()["networks"][one].get("filtered_by", "") for one in dict.fromkeys((source, destination))]
    return ", ".join(filter(None, filters)) or (NOT_ROUTED if source != destination else "nothing: one segment")
