"""The compute fabric of a site: its counts, its cables and those of its subnet managers.

In: site, catalogue and names of devices by role. Out: the fat tree of network.fabric, frames of links with their rate, and
findings on radix, rails, bisection, adapters and managers.
"""

import bisect
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from inventory.catalog import Catalog, DeviceType
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from network import fabric

PCIE_X16_GBPS = {3: 126.0, 4: 252.0, 5: 504.0, 6: 1008.0}
"""Usable rate of an x16 slot per PCIe generation in Gb/s: lanes x GT/s x 128/130 coding (generation 6: twice
generation 5).
"""

MANAGERS = 2
"""Subnet managers of an InfiniBand fabric: a master and a standby (S060)."""
MANAGER_ROLES = ("management", "controller", "storage")
"""Roles of service nodes that can run one, in the order in which they are proposed."""

LEAST_USED = 0.6
"""Share of its ports that a tier of the fabric uses at least, or a finding says so: a rule of this suite, not confirmed."""


def compute_tree(site: Site, catalog: Catalog) -> tuple[fabric.FatTree | None, list[Finding]]:
    """The compute fabric's counts with findings; None when it cannot be built (FABRIC-* error)."""
    spec, nic = site.fabric, site.server.nic
    ports = catalog.device(spec.switch_model).bringup.data_ports
    if spec.radix > ports:
        fitting = _smaller_leaves(site, ports)
        return None, [
            finding(
                "FABRIC-RADIX",
                "fabric",
                case="model",
                limit=ports,
                limit_source=f"catalogue {spec.switch_model} data_ports",
                radix=spec.radix,
                words={"model": spec.switch_model},
                remedies=_working(site, [{"fabric.radix": ports}, *({"fabric.radix": ports} | way for way in fitting)])[
                    :1
                ],
            )
        ]
    try:
        tree = _designed(site, {})
    except fabric.FabricError as error:
        ways = _working(site, _all_ways(site, error, ports))
        return None, [
            finding(
                error.key,
                "fabric",
                case=error.case,
                limit_source="site fabric",
                remedies=ways,
                more_numbers=error.numbers,
            )
        ]
    more = _working(site, [{"fabric.leaf_uplinks": math.ceil(spec.unit_nodes * spec.bisection - 1e-9)}])
    found = [*check_tree(tree, spec.bisection, more), *check_spines(site, tree)]
    found += check_idle_ports(site, tree)
    return tree, found + check_nic(nic.rate_gbps, nic.pcie_gen, nic.x16_per_port)


def _working(site: Site, ways: Iterable[Mapping[str, Any]]) -> list[RemedyOf]:
    """Those of the sets of site values with which the fabric can be built and keeps its share of bisection."""
    return [remedy(way) for way in ways if _tree_of(site, way) is not None]


def _tree_of(site: Site, way: Mapping[str, Any]) -> fabric.FatTree | None:
    """The compute fabric with other values; None where it cannot be built or is narrower than required."""
    try:
        tree = _designed(site, way)
    except fabric.FabricError:
        return None
    required = way.get("fabric.bisection", site.fabric.bisection)
    return tree if min(tree.bisection.values()) >= required - 1e-9 else None


def _designed(site: Site, way: Mapping[str, Any]) -> fabric.FatTree:
    """The compute fabric with other values by site key; FabricError as in `fabric.design`."""
    spec = site.fabric.model_copy(update={key.removeprefix("fabric."): value for key, value in way.items()})
    servers = int(way.get("server.count", site.server.count))
    return fabric.design(
        servers,
        spec.rails,
        spec.radix,
        spec.unit_nodes,
        spec.bisection,
        spec.tiers,
        spec.leaf_uplinks,
        spec.least_spines,
    )


def _all_ways(site: Site, error: fabric.FabricError, ports: int) -> list[dict[str, Any]]:
    """Values with which a refused fabric may be built; `ports` are those of the switch's model."""
    if error.key == "FABRIC-SPINES":
        spines, uplinks = int(error.numbers["spines"]), site.fabric.leaf_uplinks
        more = [{"fabric.leaf_uplinks": spines}] if uplinks is not None else []
        return [*more, {"fabric.least_spines": int(error.numbers["uplinks"])}]
    if error.case != "leaf":
        return _tiers(site, ports)
    larger = [{"fabric.radix": ports}] if ports > site.fabric.radix else []
    return [*larger, *_smaller_leaves(site, site.fabric.radix)]


def _smaller_leaves(site: Site, radix: int) -> list[dict[str, Any]]:
    """Values with which a leaf of `radix` ports has enough of them: fewer uplinks, fewer nodes, less bisection."""
    spec, up = site.fabric, site.fabric.leaf_uplinks
    free = radix - spec.unit_nodes
    nodes = radix - up if up is not None else math.floor(radix / (1 + spec.bisection) + 1e-9)
    return [
        *([{"fabric.leaf_uplinks": free}] if up is not None and free > 0 else []),
        *([{"fabric.unit_nodes": nodes}] if nodes > 0 else []),
        *([{"fabric.bisection": math.floor(free / spec.unit_nodes * 100) / 100}] if up is None and free > 0 else []),
    ]


def _tiers(site: Site, ports: int) -> list[dict[str, Any]]:
    """Values with which the tiers join all leaves: another number of tiers, all `ports` of a switch, else as many servers as
    they can join.
    """
    others: list[dict[str, Any]] = [{"fabric.tiers": tiers} for tiers in (2, 3) if tiers != site.fabric.tiers]
    others += [{"fabric.radix": ports}] if ports > site.fabric.radix else []
    if any(_tree_of(site, way) for way in others):
        return others
    most = bisect.bisect_left(
        range(1, site.server.count), True, key=lambda n: _tree_of(site, {"server.count": n}) is None
    )
    return [{"server.count": most}] if most else []


def check_tree(tree: fabric.FatTree, required: float, more: Iterable[RemedyOf] = ()) -> list[Finding]:
    """FABRIC-BISECTION (ERR-10) for each tier that narrows it below the required share, with the ways to have `more`;
    FABRIC-OVERSUBSCRIBED for information.
    """
    found = []
    below = 1.0
    for tier, ratio in tree.oversubscription.items():
        share = tree.bisection[tier]
        narrows, below = share < below - 1e-9, share
        if narrows and share < required - 1e-9:
            found.append(
                finding(
                    "FABRIC-BISECTION",
                    f"fabric/{tier}",
                    limit=required,
                    limit_source="site fabric.bisection",
                    err="ERR-10",
                    bisection=round(share, 4),
                    oversubscription=round(ratio, 4),
                    words={"tier": tier},
                    remedies=[
                        *more,
                        remedy({"fabric.bisection": math.floor(min(tree.bisection.values()) * 100) / 100}),
                    ],
                )
            )
        elif narrows:
            found.append(
                finding(
                    "FABRIC-OVERSUBSCRIBED",
                    f"fabric/{tier}",
                    limit=required,
                    limit_source="site fabric.bisection",
                    bisection=round(share, 4),
                    oversubscription=round(ratio, 4),
                    words={"tier": tier},
                )
            )
    return found


def check_spines(site: Site, tree: fabric.FatTree) -> list[Finding]:
    """FABRIC-SINGLE-SPINE when the leaves of a plane meet in one switch only, FABRIC-SINGLE-SWITCH when there is one;
    FABRIC-SPINES when the site file asks for spines beside that one.
    """
    if tree.tiers == 1:
        way = {"fabric.tiers": 2, "fabric.least_spines": 2}
        stated = _stated_spines(site)
        contradiction = finding(
            "FABRIC-SPINES",
            "fabric",
            case="one-tier",
            limit_source="site fabric.tiers",
            spines=stated,
            remedies=[remedy({"fabric.least_spines": 1}), *_working(site, [{"fabric.tiers": 2}])],
        )
        return [
            *([contradiction] if stated > 1 else []),
            finding(
                "FABRIC-SINGLE-SWITCH",
                "fabric",
                limit_source="single failures",
                remedies=_working(site, [way]),
                endpoints=tree.endpoints,
            ),
        ]
    if tree.plane_spines > 1 or tree.plane_leaves < 2:
        return []
    way = {"fabric.least_spines": 2}
    return [
        finding(
            "FABRIC-SINGLE-SPINE",
            "fabric",
            limit_source="single failures",
            remedies=_working(site, [way]),
            leaves=tree.plane_leaves,
            uplinks=tree.leaf_up,
        )
    ]


def _stated_spines(site: Site) -> int:
    """`fabric.least_spines` where the site file states it; 1 where a reference design does, which a single switch overrides."""
    origin = site.effective.origin(("fabric", "least_spines"))
    return site.fabric.least_spines if origin is not None and origin.kind == "given" else 1


def check_idle_ports(site: Site, tree: fabric.FatTree) -> list[Finding]:
    """FABRIC-PORTS-IDLE for each tier that uses less than LEAST_USED of its ports: what would fill it, and the switches that
    the next scalable unit after that adds.
    """
    found = []
    for tier, used in tree.ports_in_use.items():
        if used >= LEAST_USED:
            continue
        case, numbers = "leaf", {"used": used, "radix": float(tree.radix)}
        if tree.tiers == 1:
            fill = (tree.radix - len(site.fabric.subnet_managers)) // tree.rails
            larger = _tree_of(site, {"server.count": fill + 1, "fabric.tiers": "auto"})
            case = "one" if larger else "one-last"
            if larger:
                numbers["leaf"], numbers["spine"] = float(larger.leaves), float(larger.spines)
        elif tier == "leaf":
            fill = fabric.split_ports(tree.radix, 1 / site.fabric.bisection)[0]
        else:
            units = _filled_units(site, tree)
            fill = units * tree.unit_nodes
            full, larger = (_tree_of(site, {"server.count": n * tree.unit_nodes}) for n in (units, units + 1))
            case = "above" if full and larger else "last"
            if full and larger:
                numbers["leaf"] = float(larger.leaves - full.leaves)
                numbers["spine"], numbers["core"] = larger.spines - full.spines, larger.cores - full.cores
        numbers["fill"] = float(fill)
        found.append(
            finding(
                "FABRIC-PORTS-IDLE",
                f"fabric/{tier}",
                case=case,
                limit=LEAST_USED,
                limit_source="a rule of this suite, not confirmed",
                words={"tier": tier},
                remedies=[remedy(fix="larger-units" if tier == "leaf" and tree.tiers > 1 else "more-servers")],
                more_numbers=numbers,
            )
        )
    return found


def check_small(site: Site, tree: fabric.FatTree) -> list[Finding]:
    """FABRIC-SMALL when one switch of this radix has ports for all servers and subnet managers, and the plan has more."""
    needed = tree.endpoints + len(site.fabric.subnet_managers)
    if tree.tiers == 1 or needed > tree.radix:
        return []
    return [
        finding(
            "FABRIC-SMALL",
            "fabric",
            limit=float(tree.radix),
            limit_source="site fabric.radix",
            remedies=_working(
                site, [{"fabric.tiers": 1} | ({"fabric.least_spines": 1} if _stated_spines(site) > 1 else {})]
            ),
            needed=needed,
            switches=tree.leaves + tree.spines + tree.cores,
            fill=(tree.radix - len(site.fabric.subnet_managers)) // tree.rails,
        )
    ]


def _filled_units(site: Site, tree: fabric.FatTree) -> int:
    """Most scalable units that the spines and cores of a tree carry: its own, where one more takes more switches."""

    def takes_more(units: int) -> bool:
        larger = _tree_of(site, {"server.count": units * tree.unit_nodes})
        return larger is None or (larger.tiers, larger.spines + larger.cores) > (tree.tiers, tree.spines + tree.cores)

    beyond = range(tree.units + 1, tree.units + tree.radix + 1)
    return tree.units + bisect.bisect_left(beyond, True, key=takes_more)


def check_congestion_control(site: Site) -> list[Finding]:
    """FABRIC-CONGESTION-CONTROL on RoCE: no driver loads it onto switches; whether files for them are rendered is said."""
    wanted = site.fabric.congestion_control
    if wanted is None:
        return []
    return [
        finding(
            "FABRIC-CONGESTION-CONTROL",
            "fabric.congestion_control",
            case="rendered" if site.fabric.nos else "none",
            limit_source="site fabric.congestion_control",
            words={"wanted": wanted, **({"nos": site.fabric.nos} if site.fabric.nos else {})},
            remedies=[remedy(fix="by-hand")],
        )
    ]


def check_nic(rate_gbps: float, pcie_gen: int, x16_per_port: int = 1) -> list[Finding]:
    """FABRIC-NIC-PCIE (ERR-09) when the slot, or the two of socket direct, cannot fill the port."""
    slot = PCIE_X16_GBPS[pcie_gen] * x16_per_port
    if rate_gbps <= slot:
        return []
    newer = [gen for gen, each in PCIE_X16_GBPS.items() if each * x16_per_port >= rate_gbps]
    return [
        finding(
            "FABRIC-NIC-PCIE",
            "server.nic",
            case="slot" if x16_per_port == 1 else "socket-direct",
            limit=slot,
            limit_source="PCI Express Base Specification, x16",
            err="ERR-09",
            rate_gbps=rate_gbps,
            slot_gbps=slot,
            remedies=[
                *(remedy(fix="newer-slot", needed_gen=gen) for gen in newer[:1]),
                *(
                    remedy(fix="socket-direct", both_gbps=2 * slot)
                    for _ in range(x16_per_port, 2)
                    if 2 * slot >= rate_gbps
                ),
                remedy(fix="slower-port"),
            ],
            words={"pcie_gen": pcie_gen, "x16_per_port": x16_per_port},
        )
    ]


def compute_cables(
    site: Site,
    catalog: Catalog,
    tree: fabric.FatTree,
    by_role: dict[tuple[str, str], list[str]],
    held: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Cables of servers and trunk with their rate; of the `held` cables of an earlier plan as many stay as the tree allows."""
    ports = catalog.device(site.server.model).bringup.fabric_ports
    links = fabric.fat_tree_links(
        tree,
        by_role["", "gpu"],
        by_role["compute", "leaf"],
        by_role.get(("compute", "spine"), []),
        by_role.get(("compute", "core"), []),
        list(ports),
        catalog.device(site.fabric.switch_model).data_port_names(),
        held,
    )
    return links.assign(rate_gbps=float(site.server.nic.rate_gbps))


def manager_cables(
    site: Site,
    catalog: Catalog,
    tree: fabric.FatTree,
    by_role: dict[tuple[str, str], list[str]],
    links: pd.DataFrame,
    held: pd.DataFrame | None = None,
) -> tuple[pd.DataFrame, list[Finding]]:
    """One cable from each subnet manager to a leaf, each to another one; FABRIC-MANAGER for those without a port.

    A manager stays where it is in `held`, the cables of an earlier plan, unless one of `links` takes the port.
    """
    model = catalog.device(site.fabric.switch_model)
    places = fabric.manager_ports(tree, by_role["compute", "leaf"], model.data_port_names(), model.bringup.manager_port)
    stands = _held_managers(by_role["compute", "leaf"], links, held)
    taken = {(leaf, port) if tree.tiers == 1 else leaf for _, leaf, port in stands.values()}
    places = [place for place in places if not {place, place[0]} & taken]
    nodes: dict[str, DeviceType] = {node.role: catalog.device(node.model) for node in site.service_nodes}
    rows, findings = [], []
    for server, role in subnet_managers(site, by_role):
        own = nodes[role].bringup.fabric_ports
        if own and stands.get(server, ("",))[0] == own[0]:
            rows.append((server, *stands[server]))
            continue
        if own and places:
            leaf, port = places.pop(0)
            rows.append((server, own[0], leaf, port))
            continue
        if own:
            fewer = site.fabric.unit_nodes - 1 if tree.tiers > 1 else 0
            smaller = [remedy({"fabric.unit_nodes": fewer}, fix="smaller-unit")] if fewer else []
            ways = [*smaller, remedy(fix="manager-port")]
        else:
            ways = [remedy(fix="adapter")]
        findings.append(
            finding(
                "FABRIC-MANAGER",
                server,
                case="no-leaf-port" if own else "no-adapter",
                words={"model": nodes[role].slug},
                remedies=ways,
            )
        )
    findings += _check_managers(site, nodes, tree, len(places) + len(rows))
    columns = ["a_device", "a_port", "b_device", "b_port"]
    cables = pd.DataFrame(rows, columns=columns, dtype=object).assign(
        fabric="compute", stage="manager-leaf", rail=-1, rate_gbps=float(site.server.nic.rate_gbps)
    )
    return cables, findings


def _check_managers(site: Site, nodes: Mapping[str, DeviceType], tree: fabric.FatTree, places: int) -> list[Finding]:
    """FABRIC-MANAGER-COUNT of an InfiniBand fabric with fewer than two subnet managers; `places` on its leaves take one each.

    Where none is left, one server fewer leaves a place of the last unit, as the DGX SuperPOD has it (RA-11333-001, table 4: 63
    servers in two units).
    """
    stated = site.fabric.subnet_managers
    if site.fabric.kind != "ib" or len(stated) >= MANAGERS:
        return []
    free: dict[str, int] = {
        node.role: node.count for node in site.service_nodes if nodes[node.role].bringup.fabric_ports
    }
    roles: list[str] = list(stated)
    for role in MANAGER_ROLES * MANAGERS:
        if len(roles) < MANAGERS and roles.count(role) < free.get(role, 0):
            roles.append(role)
    ways = []
    if len(roles) == MANAGERS:
        wanted: dict[str, Any] = {"fabric.subnet_managers": roles}
        if places >= MANAGERS:
            ways.append(remedy(wanted))
        elif not site.server.system and site.server.count > 1:
            less = {"server.count": site.server.count - 1, **wanted}
            ways.append(remedy(less, fix="place-of-a-server", sure=True))
    if tree.unit_nodes > 1 and places < MANAGERS:
        ways.append(remedy(fix="smaller-unit"))
    return [
        finding(
            "FABRIC-MANAGER-COUNT",
            "fabric.subnet_managers",
            case="place" if places >= MANAGERS else "no-place",
            limit=float(MANAGERS),
            limit_source="S060",
            managers=len(stated),
            places=places,
            words={"servers": tree.nodes, "units": tree.units, "unit_nodes": tree.unit_nodes},
            remedies=[*ways, remedy(fix="manager-elsewhere")],
        )
    ]


def _held_managers(
    leaves: list[str], links: pd.DataFrame, held: pd.DataFrame | None
) -> dict[str, tuple[str, str, str]]:
    """{subnet manager: (its port, leaf, port of the leaf)} of the held cables whose ports no other cable takes."""
    if held is None:
        return {}
    used = {end for side in "ab" for end in zip(links[f"{side}_device"], links[f"{side}_port"], strict=True)}
    known, stands = set(leaves), held[held["stage"] == "manager-leaf"]
    columns = ["a_device", "a_port", "b_device", "b_port"]
    return {
        str(server): (port, leaf, leaf_port)
        for server, port, leaf, leaf_port in stands[columns].itertuples(index=False, name=None)
        if leaf in known and (leaf, leaf_port) not in used
    }


def subnet_managers(site: Site, by_role: Mapping[tuple[str, str], list[str]]) -> list[tuple[str, str]]:
    """(server, role) of each subnet manager, master first: each entry of the site takes the next node of its role."""
    free = {role: iter(by_role.get(("", role), [])) for role in set(site.fabric.subnet_managers)}
    return [(server, role) for role in site.fabric.subnet_managers for server in [next(free[role], "")] if server]
