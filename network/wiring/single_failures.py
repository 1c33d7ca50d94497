"""What a lost switch of the in-band or the management network takes with it, and whether that network is more than is needed.

    losses(links, devices) -> one row a switch: servers without any in-band link, devices without management
    check_inband(site, links), check_management(links, devices) -> findings, for a network without a past
    apart(links, devices) -> management ports from which no cables lead to a management node

In: links (network.fabric.LINK_COLUMNS with `rate_gbps`). A switch is lost alone. A device has management while a path of
switches leads from it to a management node or, in a site without any, to the switch that joins all others.
"""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from network.graph import pieces

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
LEG = "node-oob"
"""Stage of the cables of management nodes in the out-of-band network, beside those of their BMCs."""

TOO_MANY = 2.0
"""Times the needed number from which switches are reported as too many: a rule of this suite, not confirmed."""
MOST_OVERSUBSCRIPTION = 12.0
"""Server links to spine links of a leaf, by rate: a rule of this suite, not confirmed. Storage is judged on its own need."""


def losses(links: pd.DataFrame, devices: pd.DataFrame) -> pd.DataFrame:
    """Columns switch, fabric, role, servers_cut_off, devices_unmanaged, in the order of the switches in `devices`."""
    switches = devices[(devices["kind"] == "switch") & devices["fabric"].isin(["inband", "oob"])]
    cut, dark = _cut_off(links), _unmanaged(links, devices)
    names = switches["name"].tolist()
    return pd.DataFrame(
        {
            "switch": names,
            "fabric": switches["fabric"].tolist(),
            "role": switches["role"].tolist(),
            "servers_cut_off": [cut.get(name, 0) for name in names],
            "devices_unmanaged": [dark.get(name, 0) for name in names],
        }
    )


def _cut_off(links: pd.DataFrame) -> dict[str, int]:
    """Servers that each leaf alone connects; of a single spine, those outside the largest group of leaves left."""
    inband = links["fabric"] == "inband"
    if not inband.any():
        return {}
    ends = links[inband & (links["stage"] == "node-leaf")]
    by_server = ends.groupby("a_device", sort=False)["b_device"].agg(["nunique", "first"])
    found = _counts(by_server.loc[by_server["nunique"] == 1, "first"])
    spines = links.loc[inband & (links["stage"] == "leaf-spine"), "b_device"].unique()
    if len(spines) == 1:
        leaves_of: dict[str, list[str]] = {}
        for server, leaf in ends[["a_device", "b_device"]].itertuples(index=False, name=None):
            leaves_of.setdefault(server, []).append(leaf)
        found[str(spines[0])] = len(leaves_of) - _largest_group(list(leaves_of.values()))
    return found


def _counts(names: pd.Series) -> dict[str, int]:
    return {str(name): int(count) for name, count in names.value_counts().items()}


def _largest_group(servers: list[list[str]]) -> int:
    """Most servers that still reach one another over shared leaves."""
    root: dict[str, str] = {}

    def top(leaf: str) -> str:
        while root.setdefault(leaf, leaf) != leaf:
            leaf = root[leaf]
        return leaf

    for leaves in servers:
        for leaf in leaves[1:]:
            root[top(leaf)] = top(leaves[0])
    return max(Counter(top(leaves[0]) for leaves in servers).values(), default=0)


@dataclass(frozen=True, eq=False)
class _Management:
    """The management network: `switches`, the cables between them as their numbers (`near`, `far`), the other cables (`ends`)
    with the switch of each (`home`), and the switches of the management nodes (`legs`).
    """

    switches: list[str]
    near: Ints
    far: Ints
    ends: pd.DataFrame
    home: Ints
    legs: Ints

    def dark(self, sources: Ints, lost: int = -1) -> Bools:
        """Which switches have no path to any of `sources`, once switch `lost` is gone."""
        stays = (self.near != lost) & (self.far != lost)
        piece = pieces(self.near[stays], self.far[stays], len(self.switches))
        return ~np.isin(piece, piece[sources[sources != lost]])


def _management_network(links: pd.DataFrame, devices: pd.DataFrame) -> _Management:
    oob = links[links["fabric"] == "oob"]
    switches = pd.Index(devices.loc[(devices["kind"] == "switch") & (devices["fabric"] == "oob"), "name"])
    near, far = (switches.get_indexer(pd.Index(oob[column])) for column in ("a_device", "b_device"))
    between = near >= 0
    ends, home = oob[~between], far[~between]
    legs = np.unique(home[(ends["stage"] == LEG).to_numpy()])
    return _Management(switches.tolist(), near[between], far[between], ends, home, legs)


def apart(links: pd.DataFrame, devices: pd.DataFrame) -> pd.DataFrame:
    """The cables of management ports from which no path of cables leads to a management node."""
    network = _management_network(links, devices)
    return network.ends[network.dark(network.legs)[network.home]]


def _unmanaged(links: pd.DataFrame, devices: pd.DataFrame) -> dict[str, int]:
    """Devices whose management goes through each switch alone."""
    network = _management_network(links, devices)
    top = np.setdiff1d(network.far, network.near)
    sources = network.legs if network.legs.size else top
    homes = pd.Series(network.home).groupby(network.ends["a_device"].to_numpy(), sort=False).agg(["nunique", "first"])
    alone = np.bincount(homes.loc[homes["nunique"] == 1, "first"], minlength=len(network.switches))
    found = dict(zip(network.switches, alone.tolist(), strict=True))
    device = pd.factorize(network.ends["a_device"])[0]
    cables = np.bincount(np.concatenate([network.near, network.far]), minlength=len(network.switches))
    for number in np.union1d(np.flatnonzero(cables > 1), sources).tolist():
        lit = ~network.dark(sources, number)[network.home]
        found[network.switches[number]] = int((np.bincount(device, weights=lit) == 0).sum())
    return found


def check_inband(site: Site, links: pd.DataFrame, devices: pd.DataFrame) -> list[Finding]:
    """INBAND-SINGLE, INBAND-SPINE and INBAND-OVERSUBSCRIBED of the links of the in-band network."""
    lost = losses(links, devices)
    return [*_single_leaf(site, lost), *_single_spine(site, lost), *_oversubscribed(site, links)]


def check_management(links: pd.DataFrame, devices: pd.DataFrame) -> list[Finding]:
    """OOB-SINGLE of the links of the management network."""
    return _management(losses(links, devices), devices)


def _single_leaf(site: Site, lost: pd.DataFrame) -> list[Finding]:
    leaves = lost[(lost["fabric"] == "inband") & (lost["role"] == "leaf") & (lost["servers_cut_off"] > 0)]
    if leaves.empty:
        return []
    worst = leaves.sort_values("servers_cut_off", ascending=False, kind="stable").to_dict("records")[0]
    more = {"inband.links_per_node": 2} if site.inband.links_per_node == 1 else {}
    if more and site.inband.leaves < 2:
        more["inband.leaves"] = 2
    return [
        finding(
            "INBAND-SINGLE",
            str(worst["switch"]),
            limit=0.0,
            limit_source="single failures",
            remedies=[remedy(more)] if more else [remedy(fix="two-ports")],
            servers=int(worst["servers_cut_off"]),
            leaves=len(leaves),
        )
    ]


def _single_spine(site: Site, lost: pd.DataFrame) -> list[Finding]:
    spine = lost[(lost["fabric"] == "inband") & (lost["role"] == "spine") & (lost["servers_cut_off"] > 0)]
    return [
        finding(
            "INBAND-SPINE",
            str(row["switch"]),
            limit=0.0,
            limit_source="single failures",
            remedies=[remedy({"inband.spines": 2})],
            servers=int(row["servers_cut_off"]),
            leaves=site.inband.leaves,
        )
        for row in spine.to_dict("records")
    ]


def _oversubscribed(site: Site, links: pd.DataFrame) -> list[Finding]:
    """Of leaves whose servers reach others over the spines only: where all servers are on all leaves nothing has to."""
    inband = links[links["fabric"] == "inband"]
    if site.inband.leaves <= site.inband.links_per_node:
        return []
    down = inband[inband["stage"] == "node-leaf"].groupby("b_device")["rate_gbps"].sum()
    up = inband[inband["stage"] == "leaf-spine"].groupby("a_device")["rate_gbps"].sum().reindex(down.index)
    ratio = down / up
    if ratio.empty or not float(ratio.max()) > MOST_OVERSUBSCRIPTION + 1e-9:
        return []
    worst = str(ratio.idxmax())
    each = float(up[worst]) / site.inband.spines
    spines = math.ceil(float(down[worst]) / MOST_OVERSUBSCRIPTION / each - 1e-9)
    return [
        finding(
            "INBAND-OVERSUBSCRIBED",
            worst,
            limit=MOST_OVERSUBSCRIPTION,
            limit_source="rule of this suite, not confirmed",
            remedies=[remedy({"inband.spines": spines})],
            ratio=round(float(ratio.max()), 2),
            down_gbps=float(down[worst]),
            up_gbps=float(up[worst]),
        )
    ]


def _management(lost: pd.DataFrame, devices: pd.DataFrame) -> list[Finding]:
    """The switch that takes the management of most devices, where that is half of all or more."""
    oob = lost[lost["fabric"] == "oob"]
    managed = int((~devices["role"].isin(["oob"])).sum())
    if oob.empty or not managed:
        return []
    worst = oob.sort_values("devices_unmanaged", ascending=False, kind="stable").to_dict("records")[0]
    if worst["devices_unmanaged"] * 2 < managed:
        return []
    return [
        finding(
            "OOB-SINGLE",
            str(worst["switch"]),
            limit_source="single failures",
            lost=int(worst["devices_unmanaged"]),
            managed=managed,
            remedies=[remedy(fix="spare")],
        )
    ]


def too_many(have: int, needed: int) -> bool:
    """Whether switches are so many that a smaller number is worth saying."""
    return bool(np.greater(have, TOO_MANY * needed))
