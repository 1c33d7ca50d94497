"""Addresses and AS numbers of a RoCE compute fabric: loopbacks of the switches, a prefix for each rail and leaf, a /31 for each
server port, and the routes of the servers.

In: the site's prefixes, devices, compute cables and the addresses of an earlier plan. Out: frames, and findings on prefixes that
are too small. The other parts of the address plan are those of network.wiring.addressing.

Rails
    `addressing.rails` is split into as many equal parts as there are rails, rounded up to a power of two; each part into
    prefixes of one leaf, in the order of the scalable units. Port i of a leaf has the pair 2i (leaf), 2i + 1 (server) of its
    prefix. An address follows from unit, rail and port alone, so growth changes none. A single switch is the leaf of all
    rails: each of its ports has the pair of its number in the prefix of the rail that the port belongs to.
    `addressing.rails_ipv6` is split alike, with a /64 for each leaf; network.wiring.ipv6 has its addresses.
AS numbers
    After RFC 7938, 5.2.1: each leaf has its own, spines of one plane share one, cores share one, so that no path goes down and up
    again. Cores have the first number, planes the odd ones behind it, leaves the even ones: growth changes none, as long as the
    number of tiers and the spines of a plane stay.
"""

import ipaddress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.catalog import Catalog
from inventory.findings import Finding
from inventory.site import Site
from inventory.site.sections.networks import LEAF_IPV6
from network.fabric import FatTree
from network.wiring.addressing import ADDRESS_COLUMNS, Exhausted, Held, dotted, exhausted_finding, host_addresses

FIRST_TABLE = 101
"""Routing table of what a server sends from its address on rail 0."""
LOOPBACK, RAIL = "compute-loopback", "rail"
"""Networks of these addresses in the plan's frame."""


@dataclass(frozen=True)
class Rails:
    """How `addressing.rails` is split: prefixes of rails and, within them, of leaves."""

    prefix: ipaddress.IPv4Network | ipaddress.IPv6Network
    rails: int
    leaf_size: int

    @property
    def rail_size(self) -> int:
        """Addresses of a rail."""
        return int(self.prefix.num_addresses >> (self.rails - 1).bit_length())

    @property
    def units(self) -> int:
        """Scalable units that have room."""
        return self.rail_size // self.leaf_size

    def size_for(self, units: int) -> int:
        """Addresses that a prefix needs for so many units."""
        return int(self.leaf_size << (units - 1).bit_length() << (self.rails - 1).bit_length())

    def rail(self, rail: int) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        """Prefix of one rail, counted from 0."""
        return self._part(rail * self.rail_size, self.rail_size)

    def leaf(self, unit: int, rail: int) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        """Prefix of the leaf of one rail and one unit, both counted from 0."""
        return self._part(rail * self.rail_size + unit * self.leaf_size, self.leaf_size)

    def _part(self, offset: int, size: int) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        length = self.prefix.max_prefixlen - (size - 1).bit_length()
        return type(self.prefix)((int(self.prefix.network_address) + offset, length))


def rails_of(site: Site, catalog: Catalog) -> Rails | None:
    """How the site's prefix is split; None where it has none, or where it has no room for a leaf of each rail."""
    prefix = site.addressing.rails
    if prefix is None:
        return None
    ports = catalog.device(site.fabric.switch_model).bringup.data_ports
    return Rails(prefix, site.fabric.rails, 2 << (ports - 1).bit_length())


def rails_of_ipv6(site: Site) -> Rails | None:
    """How the site's IPv6 prefix is split; None where it has none."""
    prefix = site.addressing.rails_ipv6
    return None if prefix is None else Rails(prefix, site.fabric.rails, 1 << 128 - LEAF_IPV6)


def addresses(
    site: Site, catalog: Catalog, devices: pd.DataFrame, cables: pd.DataFrame, held: Held
) -> tuple[pd.DataFrame, list[Finding]]:
    """Loopbacks of the compute switches and both ends of each server link, as far as the site gives their prefixes."""
    switches = devices[(devices["kind"] == "switch") & (devices["fabric"] == "compute")]
    parts: list[pd.DataFrame] = []
    short: list[Exhausted] = []
    if site.addressing.compute_loopbacks is not None:
        wanted = [(name, "lo") for name in switches["name"]]
        frame, exhausted, _ = host_addresses(
            LOOPBACK, str(site.addressing.compute_loopbacks), wanted, 1, held, {0}, host_prefix=True
        )
        parts.append(frame)
        short += [exhausted] if exhausted else []
    rails = rails_of(site, catalog)
    if rails is not None:
        links = cables[(cables["fabric"] == "compute") & (cables["stage"] == "node-leaf")]
        frame, units = _server_links(rails, catalog.device(site.fabric.switch_model).data_port_names(), switches, links)
        parts.append(frame)
        if units > rails.units:
            needed, room = (units * rails.rails * rails.leaf_size, rails.units * rails.rails * rails.leaf_size)
            short.append(Exhausted(RAIL, str(rails.prefix), needed, room, rails.size_for(units)))
    made = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(ADDRESS_COLUMNS))
    return made, [exhausted_finding(item, site.addressing) for item in short]


def _server_links(
    rails: Rails, port_names: list[str], switches: pd.DataFrame, links: pd.DataFrame
) -> tuple[pd.DataFrame, int]:
    """Both ends of each server link whose leaf has a prefix, leaf end first; and the units that want one."""
    leaves = switches[switches["role"] == "leaf"].set_index("name")
    unit = links["b_device"].map(leaves["unit"]).to_numpy(dtype=np.int64)
    rail = links["rail"].to_numpy(dtype=np.int64)
    position = links["b_port"].map({name: i for i, name in enumerate(port_names)}).to_numpy(dtype=np.int64)
    fits = np.flatnonzero(unit < rails.units)
    offset = rail[fits] * rails.rail_size + unit[fits] * rails.leaf_size + 2 * position[fits]
    leaf, server = links[["b_device", "b_port"]].to_numpy()[fits], links[["a_device", "a_port"]].to_numpy()[fits]
    near = np.stack([leaf, server], axis=1).reshape(-1, 2)
    far = np.stack([server, leaf], axis=1).reshape(-1, 2)
    both: npt.NDArray[np.int64] = np.stack([offset, offset + 1], axis=1).reshape(-1)
    frame = pd.DataFrame(
        {
            "device": near[:, 0],
            "interface": near[:, 1],
            "address": [f"{text}/31" for text in dotted(int(rails.prefix.network_address) + both)],
            "network": RAIL,
            "peer_device": far[:, 0],
            "peer_interface": far[:, 1],
            "mac": "",
        },
        columns=list(ADDRESS_COLUMNS),
    )
    return frame, int(unit.max(initial=-1)) + 1


def as_numbers(base: int, role: str, tree: FatTree) -> npt.NDArray[np.int64]:
    """AS numbers of all switches of one role (leaf, spine or core), in the order of their index."""
    if role == "core":
        return np.full(tree.cores, base, dtype=np.int64)
    if role == "spine":
        return base + 1 + 2 * (np.arange(tree.spines, dtype=np.int64) // tree.plane_spines)
    return base + 2 + 2 * np.arange(tree.leaves, dtype=np.int64)


def host_routes(
    site: Site, catalog: Catalog, addresses: pd.DataFrame, devices: pd.DataFrame, *, split: Rails | None = None
) -> pd.DataFrame:
    """Routes of the servers into the compute fabric: device, interface, source, destination, gateway, table.

    In the main table each rail is reached by its own port. What an adapter sends from its own address to another rail leaves by
    that adapter: a table for each port, chosen by source address (table 101 is rail 0's). `addresses` are those of one family, and
    `split` its prefix: that of IPv4 if none is given.
    """
    columns = ["device", "interface", "source", "destination", "gateway", "table"]
    rails = split or rails_of(site, catalog)
    ends = addresses[addresses["network"] == RAIL]
    servers = set(devices.loc[devices["kind"] == "server", "name"])
    own = ends[ends["device"].isin(servers)]
    if rails is None or own.empty:
        return pd.DataFrame(columns=columns)
    leaf = dict(zip(zip(ends["device"], ends["interface"], strict=True), ends["address"], strict=True))
    base, rows = int(rails.prefix.network_address), []
    for device, interface, address, peer, peer_port in own[
        ["device", "interface", "address", "peer_device", "peer_interface"]
    ].itertuples(index=False, name=None):
        source, gateway = address.partition("/")[0], leaf[peer, peer_port].partition("/")[0]
        rail = (int(ipaddress.ip_address(source)) - base) // rails.rail_size
        rows.append((device, interface, source, str(rails.rail(rail)), gateway, "main"))
        rows.append((device, interface, source, str(rails.prefix), gateway, str(FIRST_TABLE + rail)))
    return pd.DataFrame(rows, columns=columns)
