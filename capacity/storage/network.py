"""What the in-band network carries between the GPU servers and the storage, all of them at once.

Every GPU server moves as much as every other, from or to all storage servers alike. BGP takes the shortest way: over the leaves
that both hang on, evenly; where they share none, over all links of both and the spines between. Links carry LINK_EFFICIENCY
of their rate; both directions are alike, so that the figure holds for reads and for writes.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.storage.load import LINK_EFFICIENCY
from capacity.storage.sizing import Needs
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.networks import MOST_LINKS_PER_NODE, MOST_SPINES

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reach:
    """The largest rate between GPU servers and storage in GB/s, and what ends it: `kind` is client, storage or uplink."""

    gb_s: float
    kind: str
    at: str


def reach(cables: pd.DataFrame, devices: pd.DataFrame) -> Reach | None:
    """The rate that the cables allow; None where GPU servers or storage have no in-band links."""
    ends = cables[cables["fabric"] == "inband"]
    role = devices.set_index("name")["role"]
    from_role, to_role = ends["a_device"].map(role), ends["b_device"].map(role)
    links = pd.DataFrame({"name": ends["a_device"], "leaf": ends["b_device"], "gbps": ends["rate_gbps"]})[
        to_role == "leaf"
    ]
    clients, stores = (_groups(links[from_role[links.index] == wanted]) for wanted in ("gpu", "storage"))
    if clients.empty or stores.empty:
        return None
    shared = clients.merge(stores, on="leaf", suffixes=("_c", "_s"))
    pairs = shared[["group_c", "group_s", "weight_c", "weight_s"]].drop_duplicates(["group_c", "group_s"])
    common = shared.groupby(["group_c", "group_s"])["leaf"].transform("size").to_numpy()
    up = ends[(from_role == "leaf") & (to_role == "spine")].groupby("a_device")["rate_gbps"].sum()
    bounds = []
    for kind, own, other, groups in (("client", "c", "s", clients), ("storage", "s", "c", stores)):
        near = pairs.groupby(f"group_{own}")[f"weight_{other}"].sum()
        far = 1 - groups["group"].map(near).fillna(0.0).clip(upper=1.0)
        spread = groups["weight"] * far / groups["leaves"]
        direct = (
            (shared[f"weight_{own}"] * shared[f"weight_{other}"] / common)
            .groupby([shared[f"group_{own}"], shared["leaf"]])
            .sum()
        )
        keys = pd.MultiIndex.from_frame(groups[["group", "leaf"]])
        share = spread.to_numpy() + direct.reindex(keys, fill_value=0.0).to_numpy()
        bounds.append(_least(kind, groups["first"], groups["gbps"].to_numpy(), share))
        over = spread.groupby(groups["leaf"]).sum()
        bounds.append(
            _least("uplink", pd.Series(over.index), up.reindex(over.index, fill_value=0.0).to_numpy(), over.to_numpy())
        )
    return min(bounds, key=lambda bound: bound.gb_s)


def _groups(links: pd.DataFrame) -> pd.DataFrame:
    """A row a group of servers on the same leaves and leaf of theirs: group, leaf, leaves, first server, Gb/s of all their
    links there, and their share of all servers.
    """
    named = links.sort_values(["name", "leaf"], kind="stable")
    group = named["name"].map(named.groupby("name")["leaf"].agg("|".join))
    total = named["name"].nunique()
    grouped = named.assign(group=group).groupby(["group", "leaf"], as_index=False)
    table = grouped.agg(first=("name", "first"), gbps=("gbps", "sum"), servers=("name", "nunique"))
    leaves = table.groupby("group")["leaf"].transform("size")
    return table.assign(leaves=leaves, weight=table["servers"] / max(total, 1)).drop(columns="servers")


def _least(kind: str, names: pd.Series, gbps: Floats, share: Floats) -> Reach:
    """The bound of the link that is full first; `share` of all traffic crosses each."""
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(share > 1e-12, gbps / 8 * LINK_EFFICIENCY / share, np.inf)
    at = int(most.argmin())
    return Reach(float(most[at]), kind, str(names.iloc[at]))


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
