"""What the in-band network carries between the GPU servers and the storage, all of them at once.

Every GPU server moves as much as every other, from or to all storage servers alike. BGP takes the shortest way: over the leaves
that both hang on, evenly; where they share none, over all links of both and the spines between. Links carry LINK_EFFICIENCY
of their rate; both directions are alike, so that the figure holds for reads and for writes.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from capacity.storage.load import LINK_EFFICIENCY
from capacity.storage.sizing import Needs
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.networks import MOST_LINKS_PER_NODE, MOST_SPINES


@dataclass(frozen=True)
class Reach:
    """The largest rate between GPU servers and storage in GB/s, and what ends it: `kind` is client, storage or uplink."""

    gb_s: float
    kind: str
    at: str


def reach(cables: pd.DataFrame, devices: pd.DataFrame) -> Reach | None:
    """The rate that the cables allow; None where GPU servers or storage have no in-band links."""
    ends = cables[cables["fabric"] == "inband"]
    role = dict(zip(devices["name"].tolist(), devices["role"].tolist(), strict=True))
    links: dict[str, dict[str, list[tuple[str, float]]]] = {"gpu": {}, "storage": {}}
    up: dict[str, float] = {}
    for a, b, gbps in zip(*(ends[column].tolist() for column in ("a_device", "b_device", "rate_gbps")), strict=True):
        if role.get(b) == "leaf" and role.get(a) in links:
            links[role[a]].setdefault(a, []).append((b, gbps))
        elif role.get(a) == "leaf" and role.get(b) == "spine":
            up[a] = up.get(a, 0.0) + gbps
    clients, stores = _groups(links["gpu"]), _groups(links["storage"])
    if not clients or not stores:
        return None
    bounds = []
    for kind, own, others in (("client", clients, stores), ("storage", stores, clients)):
        shares, over = [], dict[str, float]()
        at_leaf: dict[str, list[_Group]] = {}
        for other in others:
            for leaf in other.leaves:
                at_leaf.setdefault(leaf, []).append(other)
        for group in own:
            common = Counter(id(other) for leaf in group.leaves for other in at_leaf.get(leaf, ()))
            near = {id(other): other.weight for leaf in group.leaves for other in at_leaf.get(leaf, ())}
            spread = group.weight * (1 - min(math.fsum(near.values()), 1.0)) / len(group.leaves)
            for leaf, gbps in group.leaves.items():
                here = at_leaf.get(leaf, ())
                direct = math.fsum(group.weight * other.weight / common[id(other)] for other in here)
                shares.append((group.first, gbps, spread + direct))
                over[leaf] = over.get(leaf, 0.0) + spread
        bounds.append(_least(kind, shares))
        bounds.append(_least("uplink", [(leaf, up.get(leaf, 0.0), over[leaf]) for leaf in sorted(over)]))
    return min(bounds, key=lambda bound: bound.gb_s)


@dataclass
class _Group:
    """Servers on the same leaves: the first of them, Gb/s of all their links by leaf, and their share of all servers."""

    first: str
    leaves: dict[str, float]
    weight: float


def _groups(links: Mapping[str, Sequence[tuple[str, float]]]) -> list[_Group]:
    """Servers by their leaves, in the order of the names of these. `links` of each server: leaf and Gb/s."""
    members: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(links):
        members.setdefault(tuple(sorted(leaf for leaf, _ in links[name])), []).append(name)
    found = []
    for leaves, names in sorted(members.items()):
        gbps = dict.fromkeys(leaves, 0.0)
        for name in names:
            for leaf, rate in links[name]:
                gbps[leaf] += rate
        found.append(_Group(names[0], gbps, len(names) / len(links)))
    return found


def _least(kind: str, shares: Sequence[tuple[str, float, float]]) -> Reach:
    """The bound of the link that is full first: its end, its Gb/s, and the share of all traffic that crosses it."""
    most = [gbps / 8 * LINK_EFFICIENCY / share if share > 1e-12 else math.inf for _, gbps, share in shares]
    at = most.index(min(most))
    return Reach(most[at], kind, shares[at][0])


def check(site: Site, needs: Needs, found: Reach | None) -> list[Finding]:
    """STORAGE-NETWORK when the in-band network carries less than the busier of reads and checkpoint writes."""
    need = needs.busiest_gb_s
    if found is None or found.gb_s >= need * (1 - 1e-9):
        return []
    writes = needs.write_gb_s >= need
    possible = found.gb_s / need
    remedies = [
        *_more_links(site, found, need),
        remedy(fix="faster-links"),
        *(_less_load(site, found, writes, possible) if possible > 0 else []),
    ]
    full = "uplinks" if found.kind == "uplink" else "links"
    return [
        finding(
            "STORAGE-NETWORK",
            "inband",
            case=f"{'writes' if writes else 'reads'}-{full}",
            limit=round(found.gb_s, 3),
            limit_source=f"links at {LINK_EFFICIENCY:.0%} of their rate (RC-125)",
            err="ERR-40",
            remedies=remedies,
            words={"at": found.at},
            need_gb_s=round(need, 3),
            gb_s=round(found.gb_s, 3),
        )
    ]


def _more_links(site: Site, found: Reach, need_gb_s: float) -> list[RemedyOf]:
    """As many links of a server, or spines, as carry the need; the links of storage are those of its model."""
    if found.kind == "client":
        ports = len(site.catalog.device(site.server.model).bringup.inband_ports)
        key, now, most = "inband.links_per_node", site.inband.links_per_node, min(MOST_LINKS_PER_NODE, ports)
    else:
        key, now, most = "inband.spines", site.inband.spines, MOST_SPINES
    if found.kind == "storage" or now is None or found.gb_s <= 0:
        return []
    count = math.ceil(now * need_gb_s / found.gb_s - 1e-9)
    # Each link of a server goes to a leaf of its own.
    leaves = {"inband.leaves": count} if found.kind == "client" and count > site.inband.leaves else {}
    return [remedy({key: count, **leaves}, fix="more-links")] if count <= most else []


def _less_load(site: Site, found: Reach, writes: bool, possible: float) -> list[RemedyOf]:
    """A longer checkpoint, or less reading, that takes the share `possible` of the rate that is needed. None where the planner
    counts the leaves: with less to carry it takes fewer leaves and storage servers, and their uplinks are full again.
    """
    if found.kind == "uplink" and ("inband", "leaves") in site.effective.sized():
        return []
    if writes:
        stall_s = math.ceil(site.storage.checkpoint.stall_s / possible)
        return [remedy({"storage.checkpoint.stall_s": stall_s}, fix="at-least")]
    read_gb_s = math.floor((site.storage.read_gb_s_per_gpu or 0.0) * possible * 1000) / 1000
    return [remedy({"storage.read_gb_s_per_gpu": read_gb_s}, fix="at-most")]
