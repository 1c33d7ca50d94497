"""IPv4 address plan: which address each interface gets out of the site's prefixes.

In: the site's prefixes, devices, and the addresses of an earlier plan. Out: frames with columns ADDRESS_COLUMNS, and a finding
for each prefix that is too small. Allocation is sequential from a first offset and skips addresses that are held (an earlier
plan's, or the operator's), so a device that stays keeps its address when others are added.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.catalog import Catalog
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.networks import Addressing
from network.wiring.oob import management_port, oob_legs

ADDRESS_COLUMNS = ("device", "interface", "address", "network", "peer_device", "peer_interface", "mac")

Held = Mapping[tuple[str, str, str], str]
"""Addresses of an earlier plan: (device, interface, network) -> 'a.b.c.d/len'."""

_PREFIX_KEY = {
    "oob": "oob",
    "provisioning": "provisioning",
    "loopback": "loopbacks",
    "link": "links",
    "compute-loopback": "compute_loopbacks",
    "rail": "rails",
}
"""Site key of the prefix of each network, in section addressing."""

FIRST_OFFSET = {"switch": 11, "pdu": 41, "bmc": 61, "management": 0, "provisioning": 11}
"""First host number of each group in its prefix; later groups move up where an earlier one needs the room."""


@dataclass(frozen=True)
class Exhausted:
    """A prefix that is too small: `needed` and `available` count addresses (or /31 pairs for links), `size` is what it has to
    hold, with what lies before, between and behind them.
    """

    network: str
    prefix: str
    needed: int
    available: int
    size: int

    @property
    def length(self) -> int:
        """Prefix length that holds `size` addresses."""
        return 32 - (self.size - 1).bit_length()


def site_addresses(
    site: Site,
    catalog: Catalog,
    devices: pd.DataFrame,
    inband: pd.DataFrame,
    assets: pd.DataFrame,
    held_frame: pd.DataFrame | None,
) -> tuple[pd.DataFrame, list[Finding]]:
    prefixes = site.addressing
    held = held_of(held_frame)
    servers = devices.loc[devices["kind"] == "server"]
    switches = devices.loc[devices["kind"] == "switch"]
    # In-band and management switches first: a larger compute fabric then moves nobody else.
    switches = pd.concat([switches[switches["fabric"] == name] for name in ("inband", "oob", "compute", "nvlink")])
    pdus = devices.loc[devices["kind"].isin(["pdu", "shelf"])]

    def interfaces(rows: pd.DataFrame) -> list[tuple[str, str]]:
        ports = {model: management_port(catalog, model) for model in rows["model"].unique()}
        return [(name, ports[model]) for name, model in zip(rows["name"], rows["model"], strict=True)]

    parts: list[pd.DataFrame] = []
    short: list[Exhausted] = []
    held_offsets = offsets_in_use(
        str(prefixes.oob), [text for (_, _, network), text in held.items() if network in ("oob", "bmc")]
    )
    taken = {0, 1, *held_offsets}
    first = 0
    groups = (
        ("oob", "switch", interfaces(switches)),
        ("oob", "pdu", interfaces(pdus)),
        ("bmc", "bmc", interfaces(servers)),
        ("oob", "management", oob_legs(devices, catalog)),
    )
    for network, group, wanted in groups:
        first = max(first, FIRST_OFFSET[group])
        frame, _, taken = host_addresses(network, str(prefixes.oob), wanted, first, held, taken)
        parts.append(frame)
        first += len(wanted)
    needed, found = sum(len(wanted) for _, _, wanted in groups), sum(map(len, parts))
    if found < needed:
        short.append(Exhausted("oob", str(prefixes.oob), needed, found, max(first, max(taken) + 1) + 1))
    nodes = [(name, "eth0") for name in servers["name"]]
    loopbacks = [(name, "lo") for name in [*switches.loc[switches["fabric"] == "inband", "name"], *servers["name"]]]
    for network, prefix, wanted, start, whole in (
        ("provisioning", prefixes.provisioning, nodes, FIRST_OFFSET["provisioning"], False),
        ("loopback", prefixes.loopbacks, loopbacks, 1, True),
    ):
        frame, exhausted, _ = host_addresses(
            network, str(prefix), wanted, start, held, {0, 1} if not whole else {0}, whole
        )
        parts.append(frame)
        short += [exhausted] if exhausted else []
    frame, exhausted = link_addresses(str(prefixes.links), inband[inband["stage"] == "node-leaf"], held)
    parts.append(frame)
    short += [exhausted] if exhausted else []

    addresses = pd.concat(parts, ignore_index=True)
    addresses = with_macs(addresses, servers["name"], assets)
    return addresses, [exhausted_finding(item, prefixes) for item in short]


def held_of(frame: pd.DataFrame | None) -> Held:
    """Addresses of an earlier plan's frame, by device, interface and network."""
    if frame is None:
        return {}
    keys = zip(frame["device"], frame["interface"], frame["network"], strict=True)
    return dict(zip(keys, frame["address"], strict=True))


def with_macs(addresses: pd.DataFrame, servers: pd.Series, assets: pd.DataFrame) -> pd.DataFrame:
    """`addresses` with the MACs of the asset list: those of the management ports, BMC or other. A management node's leg
    into the management network is another port of it.
    """
    management = addresses["network"].eq("bmc") | (addresses["network"].eq("oob") & ~addresses["device"].isin(servers))
    macs = addresses["device"].map(assets["mgmt_mac"]) if len(assets) else pd.Series("", index=addresses.index)
    return addresses.assign(mac=macs.where(management, "").fillna(""))


def host_addresses(
    network: str,
    prefix: str,
    interfaces: list[tuple[str, str]],
    first: int,
    held: Held,
    taken: Iterable[int] = (),
    host_prefix: bool = False,
) -> tuple[pd.DataFrame, Exhausted | None, set[int]]:
    """Addresses for `interfaces` (device, interface), from offset `first` of `prefix` upwards.

    `taken` are offsets in use by others. `host_prefix` writes /32 instead of the prefix length (loopbacks).
    Returns the frame, Exhausted if not all fitted (those left out have no row), and all offsets in use afterwards.
    The network and broadcast addresses are never given out, except for /32 use, where only offset 0 is left out.
    """
    net = ipaddress.IPv4Network(prefix)
    base, size = int(net.network_address), net.num_addresses
    last = size - 1 if host_prefix else size - 2
    length = 32 if host_prefix else net.prefixlen
    offsets = np.full(len(interfaces), -1, dtype=np.int64)
    for i, (device, interface) in enumerate(interfaces):
        offset = _offset(held.get((device, interface, network)), base)
        if offset is not None and 0 < offset <= last:
            offsets[i] = offset
    used = set(taken) | set(offsets[offsets >= 0].tolist())
    missing = np.flatnonzero(offsets < 0)
    free = _free(first, last, used, len(missing))
    offsets[missing[: len(free)]] = free
    fitted = np.flatnonzero(offsets >= 0)
    frame = pd.DataFrame(
        {
            "device": [interfaces[i][0] for i in fitted],
            "interface": [interfaces[i][1] for i in fitted],
            "address": [f"{text}/{length}" for text in dotted(base + offsets[fitted])],
            "network": network,
            "peer_device": "",
            "peer_interface": "",
            "mac": "",
        },
        columns=list(ADDRESS_COLUMNS),
    )
    short = len(missing) - len(free)
    whole = max(first + len(interfaces), int(offsets.max(initial=0)) + 1) + (0 if host_prefix else 1)
    exhausted = Exhausted(network, prefix, len(interfaces), len(interfaces) - short, whole) if short else None
    return frame, exhausted, used | set(free.tolist())


def link_addresses(prefix: str, links: pd.DataFrame, held: Held) -> tuple[pd.DataFrame, Exhausted | None]:
    """A /31 (RFC 3021) for each row of `links` (a_device, a_port = node end; b_device, b_port = leaf end).

    The leaf end has the even address. Two rows per link: the leaf end, then the node end, each naming its peer.
    """
    net = ipaddress.IPv4Network(prefix)
    base, pairs = int(net.network_address), net.num_addresses // 2
    a = list(zip(links["a_device"], links["a_port"], strict=True))
    number = np.full(len(a), -1, dtype=np.int64)
    for i, (device, port) in enumerate(a):
        offset = _offset(held.get((device, port, "link")), base)
        if offset is not None and 0 <= offset < 2 * pairs:
            number[i] = offset // 2
    used = set(number[number >= 0].tolist())
    missing = np.flatnonzero(number < 0)
    free = _free(0, pairs - 1, used, len(missing))
    number[missing[: len(free)]] = free
    fitted = np.flatnonzero(number >= 0)
    order = np.repeat(fitted, 2)
    leaf_end = np.tile([True, False], len(fitted))
    device, port, peer, peer_port = (
        np.where(leaf_end, links[near].to_numpy(dtype=object)[order], links[far].to_numpy(dtype=object)[order])
        for near, far in (
            ("b_device", "a_device"),
            ("b_port", "a_port"),
            ("a_device", "b_device"),
            ("a_port", "b_port"),
        )
    )
    frame = pd.DataFrame(
        {
            "device": device,
            "interface": port,
            "address": [f"{text}/31" for text in dotted(base + 2 * number[order] + np.where(leaf_end, 0, 1))],
            "network": "link",
            "peer_device": peer,
            "peer_interface": peer_port,
            "mac": "",
        },
        columns=list(ADDRESS_COLUMNS),
    )
    short = len(missing) - len(free)
    return frame, (Exhausted("link", prefix, len(a), len(a) - short, 2 * len(a)) if short else None)


def offsets_in_use(prefix: str, addresses: Iterable[str]) -> set[int]:
    """Offsets from the start of `prefix` of those `addresses` ('a.b.c.d/len') that lie in it."""
    net = ipaddress.IPv4Network(prefix)
    inside = (ipaddress.IPv4Interface(address).ip for address in addresses)
    return {int(ip) - int(net.network_address) for ip in inside if ip in net}


def dotted(numbers: npt.NDArray[np.int64]) -> list[str]:
    """Dotted-quad text of 32-bit addresses."""
    octets = [((numbers >> shift) & 255).tolist() for shift in (24, 16, 8, 0)]
    return [f"{a}.{b}.{c}.{d}" for a, b, c, d in zip(*octets, strict=True)]


def exhausted_finding(item: Exhausted, prefixes: Addressing) -> Finding:
    """ADDRESSING-EXHAUSTED, with the larger prefix where nothing else has its addresses."""
    key = _PREFIX_KEY[item.network]
    others = [getattr(prefixes, other) for other in _PREFIX_KEY.values() if other != key]
    prefix = ipaddress.IPv4Network(item.prefix)
    larger = prefix.supernet(new_prefix=min(item.length, prefix.prefixlen))
    free = {} if any(other and larger.overlaps(other) for other in others) else {f"addressing.{key}": str(larger)}
    return finding(
        "ADDRESSING-EXHAUSTED",
        f"addressing/{item.network}",
        case="pairs" if item.network == "link" else "addresses",
        limit=item.available,
        limit_source="site addressing",
        needed=item.needed,
        available=item.available,
        words={"prefix": item.prefix, "network": item.network},
        remedies=[remedy(free, fix="larger", key=f"addressing.{key}", length=item.length)],
    )


def _offset(address: str | None, base: int) -> int | None:
    return int(ipaddress.IPv4Interface(address).ip) - base if address else None


def _free(first: int, last: int, used: set[int], count: int) -> npt.NDArray[np.int64]:
    """The first `count` offsets in first..last that are not used (fewer if there are not enough)."""
    span = np.arange(first, min(last, first + count + len(used)) + 1, dtype=np.int64)
    if used:
        span = span[~np.isin(span, np.fromiter(used, dtype=np.int64, count=len(used)))]
    return span[:count]
