"""Rail-optimised fat trees of one to three tiers, and the in-band and out-of-band Ethernet: counts and wiring.

In: plain numbers (nodes, rails, switch radix, nodes per scalable unit, required bisection) and device names.
Out: a `FatTree` (the counts) and frames of cables whose ends are `(device, port)`; nothing here knows racks, sites or
models.

Structure of the compute fabric
    One tier: a single switch, port n x rails + k (from 0) for rail k of node n; its last ports are for subnet managers.
    Rail k of every node of a scalable unit ends on the same leaf, so a unit has one leaf per rail.
    Two tiers: one plane, every leaf reaches every spine, with the same number of cables.
    Three tiers: the leaves of one rail in one pod form a plane with its own spines, and every leaf reaches every spine
    of its plane. Spine j of every plane ends on core group j, with the same number of cables to each core of the group.
    So same-rail traffic within a pod never climbs to the core.

Partial last units: switches and their uplinks are built for full units (the trunk is then complete when nodes are
added); a node-leaf cable exists only for a node that is present.

Every leaf has the same number of links to every spine of its plane, and every spine to every core of its group, because a
fat tree with unequal parallel links loses bisection (three 32-node units get 16 spines, not 12). A leaf or spine takes more
uplinks than the bisection needs where that takes fewer switches (a unit of 31 takes 32 uplinks). The size of the pods, the
uplinks and the parallel links are searched for the fewest switches, then the largest pod, then the fewest cables
(decision 0265).

Sources: counts for 64-port switches and 32-node units agree with NVIDIA's DGX SuperPOD reference architecture (B200,
"Compute fabric" tables: 64 to 256 nodes in two tiers, 512 to 2,048 in three); limits k^2/2 and k^3/4 endpoints from
Al-Fares, Loukissas and Vahdat, "A Scalable, Commodity Data Center Network Architecture", SIGCOMM 2008.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

Strings = npt.NDArray[np.object_]
Ints = npt.NDArray[np.int64]

LINK_COLUMNS = ("fabric", "stage", "a_device", "a_port", "b_device", "b_port", "rail")


class FabricError(ValueError):
    """A fabric that cannot be built: `key` and `case` are the finding's id and sentence, `numbers` what it was computed from."""

    def __init__(self, key: str, case: str, message: str, **numbers: float) -> None:
        super().__init__(message)
        self.key = key
        self.case = case
        self.numbers = numbers


@dataclass(frozen=True)
class FatTree:
    """Counts of a rail-optimised fat tree; `leaf_down` counts ports for nodes, all other ports count cables in use."""

    nodes: int
    rails: int
    radix: int
    unit_nodes: int
    tiers: int
    required_bisection: float
    units: int
    leaf_up: int
    pods: int
    pod_units: int
    planes: int
    plane_leaves: int
    plane_spines: int
    leaf_spine_links: int
    spine_down: int
    spine_up: int
    group_cores: int
    spine_core_links: int
    least_spines: int = 1

    @property
    def leaf_down(self) -> int:
        return self.endpoints if self.tiers == 1 else self.unit_nodes

    @property
    def leaves(self) -> int:
        return 1 if self.tiers == 1 else self.units * self.rails

    @property
    def spines(self) -> int:
        return self.planes * self.plane_spines

    @property
    def cores(self) -> int:
        return self.plane_spines * self.group_cores if self.tiers == 3 else 0

    @property
    def endpoints(self) -> int:
        return self.nodes * self.rails

    @property
    def leaf_spine_cables(self) -> int:
        return self.leaves * self.leaf_up

    @property
    def spine_core_cables(self) -> int:
        return self.spines * self.spine_up

    @property
    def oversubscription(self) -> dict[str, float]:
        """Ports down per port up at each tier that has uplinks, with full units (1.0 = non-blocking)."""
        if self.tiers == 1:
            return {}
        ratios = {"leaf": self.leaf_down / self.leaf_up}
        if self.tiers == 3:
            ratios["spine"] = self.spine_down / self.spine_up
        return ratios

    @property
    def bisection(self) -> dict[str, float]:
        """Share of full bisection that each tier leaves, cumulative from the leaf up; 1.0 = full."""
        share, result = 1.0, {"leaf": 1.0}
        for tier, ratio in self.oversubscription.items():
            share = min(1.0, share / ratio)
            result[tier] = share
        return result

    @property
    def ports_in_use(self) -> dict[str, float]:
        """Share of its ports that each tier has cables for, with full units."""
        shares = {"leaf": self.leaf_down + self.leaf_up}
        if self.tiers > 1:
            shares["spine"] = self.spine_down + self.spine_up
        if self.tiers == 3:
            shares["core"] = self.planes * self.spine_core_links
        return {tier: ports / self.radix for tier, ports in shares.items()}

    def bisection_gbps(self, rate_gbps: float) -> float:
        """Bandwidth each way between two halves of the present endpoints, in Gb/s."""
        return self.endpoints / 2 * rate_gbps * min(self.bisection.values())

    def maximum_hops(self) -> int:
        """Switches on the longest shortest path between two nodes."""
        return 2 * self.tiers - 1


def split_ports(radix: int, oversubscription: float) -> tuple[int, int, int]:
    """Ports (down, up, spare) of a leaf at `oversubscription` ports down for each port up.

    >>> split_ports(64, 2)
    (42, 21, 1)
    """
    up = int(radix // (1 + oversubscription))
    down = int(min(radix - up, up * oversubscription))
    return down, up, radix - down - up


def floor_counts(endpoints: int, radix: int, tiers: int) -> tuple[int, int, int]:
    """Fewest (leaf, spine, core) switches that carry `endpoints` at full bisection, ignoring units and rails."""
    if tiers == 1:
        return 1, 0, 0
    half = radix // 2
    leaves = _ceil_div(endpoints, half)
    if tiers == 2:
        return leaves, _ceil_div(endpoints, radix), 0
    return leaves, leaves, _ceil_div(endpoints, radix)


def two_tier_limit(radix: int) -> int:
    """Endpoints that two tiers carry at full bisection: k^2/2."""
    return radix * radix // 2


def design(
    nodes: int,
    rails: int,
    radix: int,
    unit_nodes: int,
    bisection: float = 1.0,
    tiers: int | Literal["auto"] = "auto",
    leaf_uplinks: int | None = None,
    least_spines: int = 1,
) -> FatTree:
    """Count the switches and cables of a fat tree for `nodes` nodes with one port in each of `rails` rails.

    `bisection` is the required share (1.0 full, 0.5 is 2:1). `leaf_uplinks` fixes the uplinks of a leaf instead of
    deriving them; the tree then has the bisection that follows, which the caller compares with the requirement. Derived
    uplinks beyond the required ones leave one port of a leaf free, which a subnet manager can take. Each leaf goes to at
    least `least_spines` spines; a single switch has none. In two tiers, a tree with the spines of a larger one of the same
    units has all of its trunk cables in that too (decision 0333).
    Raises FabricError: FABRIC-RADIX (ports of one switch do not suffice), FABRIC-TIERS (too many endpoints for the
    tiers), FABRIC-SPINES (a leaf has fewer uplinks than `least_spines`).
    """
    units = _ceil_div(nodes, unit_nodes)
    if tiers == 1:
        if nodes * rails > radix:
            raise FabricError(
                "FABRIC-TIERS",
                "one-tier",
                f"one switch of {radix} ports cannot join {nodes * rails} ports of servers",
                endpoints=nodes * rails,
                radix=radix,
            )
        return FatTree(
            nodes, rails, radix, unit_nodes, 1, bisection, units, least_spines=least_spines, **_one_switch(units)
        )
    least_up = leaf_uplinks if leaf_uplinks is not None else _ceil_div_float(unit_nodes * bisection)
    if unit_nodes + least_up > radix:
        raise FabricError(
            "FABRIC-RADIX",
            "leaf",
            f"a leaf needs {unit_nodes} ports down and {least_up} up, and the switch has {radix}",
            down=unit_nodes,
            up=least_up,
            radix=radix,
        )
    most_up = least_up if leaf_uplinks is not None else max(least_up, radix - unit_nodes - 1)
    if least_spines > most_up:
        raise FabricError(
            "FABRIC-SPINES",
            "uplinks",
            f"a leaf is to go to {least_spines} spines at least, and has at most {most_up} uplinks",
            spines=least_spines,
            uplinks=most_up,
        )
    leaf = _Leaf(least_up, most_up, least_spines)
    if tiers == "auto":
        allowed: tuple[int, ...] = (2, 3)
    elif tiers in (2, 3):
        allowed = (tiers,)
    else:
        raise FabricError(
            "FABRIC-TIERS", "unsupported", f"a fat tree of {tiers} tiers is not supported: use 1, 2 or 3", tiers=tiers
        )
    found = _two_tiers(units, rails, radix, leaf) if 2 in allowed else None
    if found is None and 3 not in allowed:
        raise FabricError(
            "FABRIC-TIERS",
            "two-tiers",
            f"two tiers of {radix}-port switches cannot join {units * rails} leaves: a spine has a port for {radix}",
            leaves=units * rails,
            radix=radix,
            endpoints=nodes * rails,
            limit=two_tier_limit(radix),
        )
    tier_count = 3 if found is None else 2
    if found is None:
        found = _three_tiers(units, rails, radix, leaf)
    if found is None:
        pods = _ceil_div(units, radix // 2)
        raise FabricError(
            "FABRIC-TIERS",
            "three-tiers",
            f"three tiers of {radix}-port switches cannot join {pods * rails} planes: a core has a port for {radix}",
            planes=pods * rails,
            radix=radix,
            endpoints=nodes * rails,
        )
    return FatTree(
        nodes=nodes,
        rails=rails,
        radix=radix,
        unit_nodes=unit_nodes,
        tiers=tier_count,
        required_bisection=bisection,
        units=units,
        least_spines=least_spines,
        **found,
    )


@dataclass(frozen=True)
class _Leaf:
    """What a search may choose for a leaf: its uplinks (`least_up` to `most_up`) over at least `least_spines` spines."""

    least_up: int
    most_up: int
    least_spines: int

    def spines(self, links: int) -> int | None:
        """Fewest spines above a leaf with `links` links to each; None where the leaf would have too many uplinks."""
        count = max(_ceil_div(self.least_up, links), 1)
        if count * links < self.least_up or count * links > self.most_up:
            return None
        while count < self.least_spines and (count + 1) * links <= self.most_up:
            count += 1
        return count if count >= self.least_spines else None


def _one_switch(units: int) -> dict[str, int]:
    """Counts of a single switch as fields of FatTree."""
    return {
        "leaf_up": 0,
        "pods": 1,
        "pod_units": units,
        "planes": 1,
        "plane_leaves": 1,
        "plane_spines": 0,
        "leaf_spine_links": 0,
        "spine_down": 0,
        "spine_up": 0,
        "group_cores": 0,
        "spine_core_links": 0,
    }


def _two_tiers(units: int, rails: int, radix: int, leaf: _Leaf) -> dict[str, int] | None:
    """Counts of the two-tier tree with the fewest spines, then the fewest cables, as fields of FatTree; None if none fits."""
    leaves = units * rails
    choices = [
        (spines, spines * links, links)
        for links in range(1, min(radix // leaves, leaf.most_up) + 1)
        if (spines := leaf.spines(links)) is not None
    ]
    if not choices:
        return None
    spines, leaf_up, links = min(choices)
    return {
        "leaf_up": leaf_up,
        "pods": 1,
        "pod_units": units,
        "planes": 1,
        "plane_leaves": leaves,
        "plane_spines": spines,
        "leaf_spine_links": links,
        "spine_down": leaves * links,
        "spine_up": 0,
        "group_cores": 0,
        "spine_core_links": 0,
    }


def _three_tiers(units: int, rails: int, radix: int, leaf: _Leaf) -> dict[str, int] | None:
    """Counts of the three-tier tree with the fewest spines and cores, then the largest pod, then the fewest cables.

    A spine has at least as many uplinks as downlinks. A pod of P units has one plane for each rail.
    """
    best: tuple[tuple[int, ...], dict[str, int]] | None = None
    for pod_units in range(1, min(units, radix // 2) + 1):
        pods = _ceil_div(units, pod_units)
        planes = pods * rails
        for links in range(1, min(radix // 2 // pod_units, leaf.most_up) + 1):
            spines, down = leaf.spines(links), pod_units * links
            if spines is None:
                continue
            for core_links in range(1, radix // planes + 1):
                cores = _ceil_div(down, core_links)
                up = cores * core_links
                if down + up > radix:
                    continue
                cables = units * rails * spines * links + planes * spines * up
                rank = (planes * spines + spines * cores, -pod_units, cables)
                if best is None or rank < best[0]:
                    best = (
                        rank,
                        {
                            "leaf_up": spines * links,
                            "pods": pods,
                            "pod_units": pod_units,
                            "planes": planes,
                            "plane_leaves": pod_units,
                            "plane_spines": spines,
                            "leaf_spine_links": links,
                            "spine_down": down,
                            "spine_up": up,
                            "group_cores": cores,
                            "spine_core_links": core_links,
                        },
                    )
    return best[1] if best is not None else None


def fat_tree_switches(tree: FatTree) -> pd.DataFrame:
    """One row per switch: role (leaf, spine, core), index (1-based within the role), unit and rail (-1 where it has
    none).

    Leaves are ordered by unit, then rail; spines by plane (pod, then rail), then position; cores by group.
    """
    leaf = np.arange(tree.leaves)
    spine = np.arange(tree.spines)
    leaf_rail = leaf % tree.rails if tree.tiers > 1 else np.full(tree.leaves, -1)
    spine_rail = (spine // tree.plane_spines) % tree.rails if tree.tiers == 3 else np.full(tree.spines, -1)
    return pd.DataFrame(
        {
            "role": np.repeat(
                np.array(["leaf", "spine", "core"], dtype=object), [tree.leaves, tree.spines, tree.cores]
            ),
            "index": np.concatenate([leaf + 1, spine + 1, np.arange(tree.cores) + 1]),
            "unit": np.concatenate([leaf // tree.rails, np.full(tree.spines + tree.cores, -1)]),
            "rail": np.concatenate([leaf_rail, spine_rail, np.full(tree.cores, -1)]),
        }
    )


def fat_tree_links(
    tree: FatTree,
    nodes: list[str],
    leaves: list[str],
    spines: list[str],
    cores: list[str],
    node_ports: list[str],
    switch_ports: list[str],
    held: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Cables of the tree (columns LINK_COLUMNS, lower tier at end a), ordered by stage, then by the lower device and
    port.

    `nodes` in order of their index; `node_ports` by rail; `switch_ports` are the ports of one switch, at least `radix`.
    Leaf ports: nodes of the unit first, then uplinks, so that a node keeps its port when the trunk grows. `held` (columns
    LINK_COLUMNS) are cables of an earlier plan: of the trunk, each pair of switches keeps as many as it has in the tree.
    """
    node_names, leaf_names = np.array(nodes, dtype=object), np.array(leaves, dtype=object)
    spine_names, core_names = np.array(spines, dtype=object), np.array(cores, dtype=object)
    port_names = np.array(switch_ports, dtype=object)
    rail_ports = np.array(node_ports, dtype=object)

    node = np.repeat(np.arange(len(nodes)), tree.rails)
    rail = np.tile(np.arange(tree.rails), len(nodes))
    if tree.tiers == 1:
        ends, place = np.zeros_like(node), node * tree.rails + rail
    else:
        ends, place = (node // tree.unit_nodes) * tree.rails + rail, node % tree.unit_nodes
    parts = [
        _links("compute", "node-leaf", node_names[node], rail_ports[rail], leaf_names[ends], port_names[place], rail)
    ]
    if tree.tiers == 1:
        return parts[0]

    leaf = np.repeat(np.arange(tree.leaves), tree.leaf_up)
    uplink = np.tile(np.arange(tree.leaf_up), tree.leaves)
    position, copy = np.divmod(uplink, tree.leaf_spine_links)
    leaf_rail, unit = leaf % tree.rails, leaf // tree.rails
    up_start = min(tree.radix // 2, tree.radix - tree.spine_up)
    ports = switch_ports[: tree.radix]
    if tree.tiers == 3:
        plane = (unit // tree.pod_units) * tree.rails + leaf_rail
        leaf_in_plane = unit % tree.pod_units
    else:
        plane, leaf_in_plane = np.zeros_like(leaf), leaf
    down_ports = ports[:up_start] if tree.tiers == 3 else ports
    parts.append(
        _keeping(
            held,
            ports[tree.leaf_down : tree.leaf_down + tree.leaf_up],
            down_ports,
            "leaf-spine",
            leaf_names[leaf],
            port_names[tree.leaf_down + uplink],
            spine_names[plane * tree.plane_spines + position],
            port_names[leaf_in_plane * tree.leaf_spine_links + copy],
            leaf_rail,
        )
    )

    if tree.tiers == 3:
        spine = np.repeat(np.arange(tree.spines), tree.spine_up)
        uplink = np.tile(np.arange(tree.spine_up), tree.spines)
        core_in_group, copy = np.divmod(uplink, tree.spine_core_links)
        plane, group = np.divmod(spine, tree.plane_spines)
        parts.append(
            _keeping(
                held,
                ports[up_start : up_start + tree.spine_up],
                ports,
                "spine-core",
                spine_names[spine],
                port_names[up_start + uplink],
                core_names[group * tree.group_cores + core_in_group],
                port_names[plane * tree.spine_core_links + copy],
                plane % tree.rails,
            )
        )
    return pd.concat(parts, ignore_index=True)


def manager_ports(tree: FatTree, leaves: list[str], ports: Sequence[str], dedicated: str = "") -> list[tuple[str, str]]:
    """Where subnet managers can be cabled to the tree, best place first, at most one (leaf, port) on a leaf of several.

    `ports` are the data ports of a leaf, `dedicated` a port of its own for this purpose. In order: the dedicated port; a
    data port beyond nodes and uplinks; the last port for nodes where the last unit has room (NVIDIA's DGX SuperPOD leaves
    a place of a unit free for it: 31 nodes instead of 32). On a single switch all of its free ports, from the last one down,
    so that servers that are added later get the ports behind those of the servers.
    """
    used = tree.leaf_down + tree.leaf_up
    if tree.tiers == 1:
        (switch,) = leaves
        return [(switch, port) for port in (*([dedicated] if dedicated else []), *reversed(ports[used:]))]
    if dedicated:
        return [(leaf, dedicated) for leaf in leaves]
    if used < len(ports):
        return [(leaf, ports[used]) for leaf in leaves]
    if tree.nodes < tree.units * tree.unit_nodes:
        return [(leaf, ports[tree.unit_nodes - 1]) for leaf in leaves[-tree.rails :]]
    return []


def leaf_pairs(servers: int, pairs: int) -> Ints:
    """Leaf pair (0-based) of each of `servers` servers: contiguous blocks whose sizes differ by at most one."""
    return np.arange(servers, dtype=np.int64) * pairs // max(servers, 1)


def emptiest_pairs(
    servers: list[str], links: list[int], leaves: list[str], links_per_node: int, held: pd.DataFrame
) -> Ints:
    """Leaf pair (0-based) of each server of a grown network: held servers stay, a new one joins the emptiest pair.

    `links` is how many cables each server has.
    """
    number = {leaf: i // links_per_node for i, leaf in enumerate(leaves)}
    known = {a: number[b] for a, b in zip(held["a_device"], held["b_device"], strict=True) if b in number}
    size = [0] * max(len(leaves) // links_per_node, 1)
    for server, count in zip(servers, links, strict=True):
        if server in known:
            size[known[server]] += count
    pair = np.empty(len(servers), dtype=np.int64)
    for i, server in enumerate(servers):
        pair[i] = known.get(server, -1)
        if pair[i] < 0:
            pair[i] = int(np.argmin(size))
            size[pair[i]] += links[i]
    return pair


def inband_links(
    servers: list[str],
    pair: Ints,
    ports: list[list[str]],
    leaves: list[str],
    spines: list[str],
    links_per_node: int,
    held: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Cables of the in-band Ethernet: the ports of each server in turn to the `links_per_node` leaves of its pair, each
    leaf once to every spine.

    Leaf ports: swp1..swpS to spine 1..S, then the servers in the order given. Spine port swpL goes to leaf L. A trunk cable
    whose port of that number is taken goes to the next free one.
    `ports` are the in-band ports of each server that get a cable. `held` (columns LINK_COLUMNS) are in-band cables of an earlier
    plan: those between devices that are still there keep both ends, and nobody else gets their ports.
    """
    kept, kept_trunk = _held_inband(servers, leaves, spines, held)
    used = {*kept.values(), *(end for ends in kept_trunk.values() for end in ends)}
    next_port = dict.fromkeys(leaves, len(spines) + 1) | dict.fromkeys(spines, len(leaves) + 1)

    def free_port(switch: str, wanted: int | None = None) -> tuple[str, str]:
        """The wanted port of a switch, or the next free one behind those that are wanted."""
        end = (switch, f"swp{wanted}")
        while wanted is None or end in used:
            wanted = next_port[switch]
            next_port[switch] += 1
            end = (switch, f"swp{wanted}")
        used.add(end)
        return end

    node_rows: list[tuple[str, str, str, str]] = []
    for server, group, own in zip(servers, pair.tolist(), ports, strict=True):
        for link, port in enumerate(own):
            leaf = leaves[(group * links_per_node + link % links_per_node) % len(leaves)]
            node_rows.append((server, port, *(kept.get((server, port)) or free_port(leaf))))
    trunk_rows: list[tuple[str, str, str, str]] = []
    for i, leaf in enumerate(leaves, 1):
        for j, spine in enumerate(spines, 1):
            near, far = kept_trunk.get((leaf, spine)) or (free_port(leaf, j), free_port(spine, i))
            trunk_rows.append((*near, *far))
    parts = []
    for stage, rows in (("node-leaf", node_rows), ("leaf-spine", trunk_rows)):
        a, ap, b, bp = (np.array(column, dtype=object) for column in zip(*rows, strict=True)) if rows else _no_ends()
        parts.append(_links("inband", stage, a, ap, b, bp, np.full(len(rows), -1)))
    return pd.concat(parts, ignore_index=True)


def _held_inband(
    servers: list[str], leaves: list[str], spines: list[str], held: pd.DataFrame | None
) -> tuple[dict[tuple[str, str], tuple[str, str]], dict[tuple[str, str], tuple[tuple[str, str], tuple[str, str]]]]:
    """In-band cables of an earlier plan whose devices are still there: {end at a server: end at a leaf} and
    {(leaf, spine): both ends}. Of cables on one port the first stays.
    """
    nodes: dict[tuple[str, str], tuple[str, str]] = {}
    trunk: dict[tuple[str, str], tuple[tuple[str, str], tuple[str, str]]] = {}
    if held is None:
        return nodes, trunk
    of_server, of_leaf, of_spine = set(servers), set(leaves), set(spines)
    used: set[tuple[str, str]] = set()
    columns = ["a_device", "a_port", "b_device", "b_port"]
    for a, a_port, b, b_port in held[columns].itertuples(index=False, name=None):
        near, far = (a, a_port), (b, b_port)
        if {near, far} & used:
            continue
        if a in of_server and b in of_leaf:
            nodes[near] = far
        elif a in of_leaf and b in of_spine and (a, b) not in trunk:
            trunk[a, b] = (near, far)
        else:
            continue
        used |= {near, far}
    return nodes, trunk


def oob_access_count(ends: int, ports: int) -> int:
    """Management switches of `ports` ports for `ends` cables; more than one each keep a port for their uplink."""
    return 1 if ends <= ports else _ceil_div(ends, ports - 1)


def oob_aggregation_count(access: int, ports: int, uplinks: int = 0) -> int:
    """Switches that join `access` management switches, each by its last port, and one another; one access switch needs none.

    Of the `ports` of a switch only those that carry no cable between aggregation switches are free. These cables are on
    `uplinks` further ports, or take one of the `ports` at both ends where a switch has fewer than two of them.
    """
    if access <= 1:
        return 0
    if uplinks > 1 or access <= ports:
        return _ceil_div(access, ports)
    return _ceil_div(access - 2, ports - 2)


def oob_joins(aggregation: list[str], ports: list[str], uplinks: list[str]) -> list[tuple[str, str, str, str]]:
    """(switch, port, switch nearer to the first one, port) of the cables between aggregation switches: a tree without loops.

    The first switch takes as many others as it has `uplinks`, each of these one less, so that a path has few switches. Models
    with fewer than two uplinks use their `ports` from the last one down. A cable stays where it is when switches are added.
    """
    own = uplinks if len(uplinks) > 1 else ports[::-1]
    below = len(own) - 1
    rows = []
    for number in range(1, len(aggregation)):
        above, place = (0, number - 1) if number <= len(own) else divmod(number - len(own) - 1, below)
        if number > len(own):
            above, place = above + 1, place + 1
        rows.append((aggregation[number], own[0], aggregation[above], own[place]))
    return rows


def oob_links(
    ends: pd.DataFrame,
    access: list[str],
    aggregation: list[str],
    ports: list[str],
    held: pd.DataFrame | None = None,
    rack_of: Mapping[str, str] | None = None,
    uplinks: list[str] | None = None,
) -> pd.DataFrame:
    """Cables of the management network: row i of `ends` (device, port, stage, rack) to the next free port of a switch.

    Give `ends` in the order of their racks, so that neighbours share a switch; where there are more switches than needed,
    each keeps free ports. `ports` are those of one switch; where there is aggregation, the last one is the uplink. Several
    aggregation switches are joined as in `oob_joins`, with `uplinks` further ports. `held`
    as in `inband_links`, but for an uplink whose port now joins aggregation switches. Switches in `rack_of` serve the devices
    of that rack and no others; a device whose rack has none left goes to a switch of no rack. An end for which no port is left
    has no cable.
    """
    usable = ports[:-1] if aggregation else ports
    home = [(rack_of or {}).get(switch, "") for switch in access]
    shared = int((~ends["rack"].isin([rack for rack in home if rack])).sum())
    even = min(_ceil_div(shared, max(home.count(""), 1)), len(usable))
    slots = [
        ((switch, port), rack)
        for part in (slice(even), slice(even, None))
        for switch, rack in zip(access, home, strict=True)
        for port in usable[part]
    ]
    keys = list(zip(ends["device"], ends["port"], strict=True))
    wanted = set(keys)
    kept: dict[tuple[str, str], tuple[str, str]] = {}
    kept_up: dict[tuple[str, str], tuple[str, str]] = {}
    if held is not None:
        known, above = {slot for slot, _ in slots}, set(aggregation)
        stands = {
            (a, ap): (b, bp)
            for a, ap, b, bp in zip(held["a_device"], held["a_port"], held["b_device"], held["b_port"], strict=True)
        }
        first = {slot: end for end, slot in reversed(stands.items())}
        kept = {end: slot for slot, end in first.items() if slot in known and end in wanted}
        kept_up = {end: slot for slot, end in first.items() if slot[0] in above}
    used = set(kept.values())
    free: dict[str, deque[tuple[str, str]]] = {"": deque()}
    for slot, rack in slots:
        if slot not in used:
            free.setdefault(rack, deque()).append(slot)
    rows = []
    for key, stage, rack in zip(keys, ends["stage"], ends["rack"], strict=True):
        pool = free[rack] if free.get(rack) else free[""]
        end = kept.get(key) or (pool.popleft() if pool else None)
        if end is not None:
            rows.append((stage, *key, *end))
    columns = ["stage", "a_device", "a_port", "b_device", "b_port"]
    parts = [pd.DataFrame(rows, columns=columns).assign(fabric="oob", rail=-1)[list(LINK_COLUMNS)]]
    if aggregation:
        joins = oob_joins(aggregation, ports, uplinks or [])
        joining = {end for near, near_port, far, far_port in joins for end in ((near, near_port), (far, far_port))}
        ends_up = [(switch, ports[-1]) for switch in access]
        kept_up = {end: slot for end, slot in kept_up.items() if slot not in joining}
        taken = joining | {kept_up[end] for end in ends_up if end in kept_up}
        free_down = ((switch, port) for switch in aggregation for port in ports if (switch, port) not in taken)
        rows_up = [(*end, *(kept_up.get(end) or next(free_down))) for end in ends_up]
        near, near_port, far, far_port = (
            np.array(column, dtype=object) for column in zip(*rows_up, *joins, strict=True)
        )
        parts.append(_links("oob", "switch-oob", near, near_port, far, far_port, np.full(len(near), -1)))
    return pd.concat(parts, ignore_index=True)


def rank_pairs(nodes: int) -> tuple[int, int, int]:
    """(pairs, rounds, pairs per round) of a round-robin tournament over `nodes` nodes; an odd count has a bye each
    round.
    """
    players = nodes + nodes % 2
    return nodes * (nodes - 1) // 2, players - 1, players // 2


def _links(
    fabric: str, stage: str, a: Strings, a_port: Strings, b: Strings, b_port: Strings, rail: npt.NDArray[np.integer]
) -> pd.DataFrame:
    columns = (fabric, stage, a, a_port, b, b_port, rail)
    return pd.DataFrame(dict(zip(LINK_COLUMNS, columns, strict=True)), index=range(len(a)))


def _keeping(
    held: pd.DataFrame | None,
    a_ports: Sequence[str],
    b_ports: Sequence[str],
    stage: str,
    a: Strings,
    a_port: Strings,
    b: Strings,
    b_port: Strings,
    rail: npt.NDArray[np.integer],
) -> pd.DataFrame:
    """Links of a trunk between the same pairs of switches as given, on the ports of `held` where these are of the trunk.

    Each pair keeps its held cables, up to the number that it has in the trunk; the other cables take the free ports in
    their order. `a_ports` and `b_ports` are the ports that a switch has for this trunk.
    """
    links = _links("compute", stage, a, a_port, b, b_port, rail)
    if held is None:
        return links
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    open_ = Counter(pairs)
    on_a, on_b = frozenset(a_ports), frozenset(b_ports)
    kept: dict[tuple[str, str], deque[tuple[str, str]]] = {}
    used: set[tuple[str, str]] = set()
    stands = held[(held["fabric"] == "compute") & (held["stage"] == stage)]
    columns = ["a_device", "a_port", "b_device", "b_port"]
    for near, near_port, far, far_port in stands[columns].itertuples(index=False, name=None):
        fits = near_port in on_a and far_port in on_b and not used & {(near, near_port), (far, far_port)}
        if fits and open_[near, far] > 0:
            open_[near, far] -= 1
            used |= {(near, near_port), (far, far_port)}
            kept.setdefault((near, far), deque()).append((near_port, far_port))
    free_a = {name: iter([port for port in a_ports if (name, port) not in used]) for name in dict.fromkeys(a.tolist())}
    free_b = {name: iter([port for port in b_ports if (name, port) not in used]) for name in dict.fromkeys(b.tolist())}
    ends = [
        kept[near, far].popleft() if kept.get((near, far)) else (next(free_a[near]), next(free_b[far]))
        for near, far in pairs
    ]
    links["a_port"], links["b_port"] = [near for near, _ in ends], [far for _, far in ends]
    order = pd.DataFrame(
        {"a": pd.factorize(links["a_device"])[0], "port": pd.Index(a_ports).get_indexer(pd.Index(links["a_port"]))}
    )
    return links.loc[order.sort_values(["a", "port"], kind="stable").index].reset_index(drop=True)


def _no_ends() -> tuple[Strings, Strings, Strings, Strings]:
    empty = np.array([], dtype=object)
    return empty, empty, empty, empty


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _ceil_div_float(value: float) -> int:
    """Next integer up, forgiving binary rounding (42 x 0.5 is 21, not 22)."""
    return int(np.ceil(round(value, 9)))
