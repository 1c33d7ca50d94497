"""The in-band Ethernet: which ports of a server are cabled, at what rate, and to which leaves.

In: site, catalogue, devices and the cables of an earlier plan. Out: a frame of links with their rate, and findings on leaves
and their ports.
"""

from collections import Counter
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.catalog import Catalog, StorageBlock
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from network import fabric
from network.wiring.single_failures import too_many


def placed_block(site: Site, catalog: Catalog) -> StorageBlock | None:
    """The building block whose enclosures are devices of the plan: the one that the site names, unless servers of its
    service_nodes hold it.
    """
    block = catalog.storage[site.storage.block] if site.storage.block else None
    return None if block is None or block.in_servers else block


def inband_ports(site: Site, catalog: Catalog, model: str) -> list[str]:
    """Ports that a server of this model has cables at: storage all of its own, others `inband.links_per_node`."""
    block = placed_block(site, catalog)
    ports = list(catalog.device(model).bringup.inband_ports)
    return ports if block and model in block.devices else ports[: site.inband.links_per_node]


def inband_gbps(site: Site, catalog: Catalog, model: str) -> float:
    """Rate of a server's in-band links: the site's, or less where its own ports are slower."""
    return min(site.inband.rate_gbps, catalog.device(model).bringup.rate_gbps or site.inband.rate_gbps)


def inband_cables(
    site: Site,
    catalog: Catalog,
    devices: pd.DataFrame,
    by_role: dict[tuple[str, str], list[str]],
    held: pd.DataFrame | None,
) -> tuple[pd.DataFrame, list[Finding]]:
    """GPU servers in contiguous blocks over the leaf pairs, service nodes and storage over the pairs in turn."""
    spec = site.inband
    findings = []
    servers = devices[devices["kind"] == "server"]
    gpu = (servers["role"] == "gpu").to_numpy()
    ports = {model: inband_ports(site, catalog, model) for model in servers["model"].unique()}
    count = servers["model"].map({model: len(own) for model, own in ports.items()}).to_numpy(dtype=np.int64)
    pairs = max(spec.leaves // spec.links_per_node, 1)
    if held is None:
        pair = _pairs(gpu, pairs)
    else:
        pair = fabric.emptiest_pairs(
            servers["name"].tolist(), count.tolist(), by_role["inband", "leaf"], spec.links_per_node, held
        )
    if spec.leaves < spec.links_per_node:
        findings.append(
            finding(
                "INBAND-LEAVES",
                "inband.leaves",
                limit=spec.links_per_node,
                limit_source="site inband.links_per_node",
                leaves=spec.leaves,
                links_per_node=spec.links_per_node,
                remedies=[remedy({"inband.leaves": spec.links_per_node})],
            )
        )
    links = fabric.inband_links(
        servers["name"].tolist(),
        pair,
        [ports[model] for model in servers["model"]],
        by_role["inband", "leaf"],
        by_role["inband", "spine"],
        spec.links_per_node,
        held,
    )
    ends = Counter(links["a_device"].tolist()) + Counter(links["b_device"].tolist())
    models: tuple[tuple[Literal["leaf", "spine"], str], ...] = (("leaf", spec.leaf_model), ("spine", spec.spine_model))
    for role, model in models:
        limit = catalog.device(model).bringup.data_ports
        names = by_role["inband", role]
        used = {name: ends[name] for name in names}
        if used and max(used.values()) > limit:
            worst = max(used, key=used.__getitem__)
            findings.append(_too_few_ports(site, catalog, gpu, count, role, worst, used[worst]))
    if held is None:
        findings += _too_many_leaves(site, catalog, gpu, count)
    rate = servers["model"].map({model: float(inband_gbps(site, catalog, model)) for model in ports})
    by_server = dict(zip(servers["name"], rate, strict=True))
    return links.assign(rate_gbps=links["a_device"].map(by_server).fillna(float(spec.rate_gbps))), findings


def _too_few_ports(
    site: Site,
    catalog: Catalog,
    gpu: npt.NDArray[np.bool_],
    links: npt.NDArray[np.int64],
    role: Literal["leaf", "spine"],
    name: str,
    used: int,
) -> Finding:
    """INBAND-PORTS of a switch; of the network where no number of leaves of its models has the ports."""
    spec = site.inband
    model = spec.leaf_model if role == "leaf" else spec.spine_model
    ports, most = (catalog.device(one).bringup.data_ports for one in (spec.leaf_model, spec.spine_model))
    room, leaves = ports - spec.spines, _leaves_that_fit(site, gpu, links, ports, most)
    larger = (_larger_spine(site, catalog) if role == "spine" else {}) or _larger_leaf(site, catalog, gpu, links)
    changes = [remedy({"inband.leaves": leaves})] if leaves else []
    changes += [remedy(larger)] if larger else []
    spines = ports - used + spec.spines
    if role == "leaf" and not changes and 0 < spines < spec.spines:
        changes.append(remedy({"inband.spines": spines}))
    if not changes:
        best_leaf, best_spine, carried = _largest(site, catalog)
        changes.append(remedy(fix="none-in-catalogue", best_leaf=best_leaf, best_spine=best_spine, carried=carried))
    if leaves or room <= 0:
        return finding(
            "INBAND-PORTS",
            name,
            case="switch",
            limit=float(ports if role == "leaf" else most),
            limit_source=f"catalogue {model} data_ports",
            words={"model": model},
            remedies=changes,
            more_numbers={"ports": used},
        )
    total = int(links.sum())
    return finding(
        "INBAND-PORTS",
        "inband.leaves",
        case="network",
        limit=float(most),
        limit_source=f"catalogue {spec.spine_model} data_ports",
        words={"model": spec.leaf_model, "spine_model": spec.spine_model},
        remedies=changes,
        links=total,
        leaves=-(-total // room),
    )


def _largest(site: Site, catalog: Catalog) -> tuple[str, str, int]:
    """The leaf and the spine model of the most ports that the maker has in the catalogue, and the links of servers that a network
    of them carries.
    """
    spec = site.inband
    leaf, spine = (
        max([(catalog.device(one).bringup.data_ports, one), *_larger(catalog, one, spec.rate_gbps)])
        for one in (spec.leaf_model, spec.spine_model)
    )
    leaves = spine[0] // spec.links_per_node * spec.links_per_node
    return leaf[1], spine[1], max(leaf[0] - spec.spines, 0) * leaves


def _larger_leaf(
    site: Site, catalog: Catalog, gpu: npt.NDArray[np.bool_], links: npt.NDArray[np.int64]
) -> dict[str, str | int]:
    """The smallest leaf model on which these links have ports, with a spine model where the site's has no port for each such leaf,
    and the number of leaves where the site states one; {} where the catalogue has none.
    """
    spec = site.inband
    now = catalog.device(spec.spine_model).bringup.data_ports
    spines = [(now, spec.spine_model), *_larger(catalog, spec.spine_model, spec.rate_gbps)]
    for ports, model in _larger(catalog, spec.leaf_model, spec.rate_gbps):
        for most, spine in spines:
            if leaves := _leaves_that_fit(site, gpu, links, ports, most):
                changed: dict[str, str | int] = {"inband.leaf_model": model}
                changed |= {"inband.spine_model": spine} if spine != spec.spine_model else {}
                return changed if "inband.leaves" in site.effective.open else {**changed, "inband.leaves": leaves}
    return {}


def _larger_spine(site: Site, catalog: Catalog) -> dict[str, str | int]:
    """The smallest spine model with a port for each leaf; {} where the catalogue has none."""
    spec = site.inband
    fitting = (model for ports, model in _larger(catalog, spec.spine_model, spec.rate_gbps) if ports >= spec.leaves)
    return {"inband.spine_model": model} if (model := next(fitting, None)) else {}


def _larger(catalog: Catalog, than: str, rate_gbps: float) -> list[tuple[int, str]]:
    """Ethernet switches of the same maker with more ports that have this rate: ports and model, the fewest ports first."""
    now = catalog.device(than)
    facts = ((slug, one.bringup) for slug, one in catalog.devices.items() if one.manufacturer == now.manufacturer)
    switches = ((slug, one) for slug, one in facts if one.kind == "switch" and one.fabric == "eth")
    return sorted(
        (one.data_ports, slug)
        for slug, one in switches
        if one.data_ports > now.bringup.data_ports and one.rate_gbps >= rate_gbps
    )


def _too_many_leaves(
    site: Site, catalog: Catalog, gpu: npt.NDArray[np.bool_], count: npt.NDArray[np.int64]
) -> list[Finding]:
    """INBAND-TOO-MANY: leaves that hardly any server is on."""
    spec = site.inband
    ports, most = (catalog.device(model).bringup.data_ports for model in (spec.leaf_model, spec.spine_model))
    fewest = _leaves_that_fit(site, gpu, count, ports, most)
    if not fewest or not too_many(spec.leaves, fewest):
        return []
    return [
        finding(
            "INBAND-TOO-MANY",
            "inband.leaves",
            limit=float(fewest),
            limit_source=f"catalogue {spec.leaf_model} data_ports",
            remedies=[remedy({"inband.leaves": fewest})],
            words={"model": spec.leaf_model, "ports_of_one": ports},
            leaves=spec.leaves,
            links=int(count.sum()),
        )
    ]


def _pairs(gpu: npt.NDArray[np.bool_], pairs: int) -> npt.NDArray[np.int64]:
    """Leaf pair of each server of a network without a past."""
    pair = np.empty(len(gpu), dtype=np.int64)
    pair[gpu] = fabric.leaf_pairs(int(gpu.sum()), pairs)
    pair[~gpu] = np.arange(int((~gpu).sum())) % pairs
    return pair


def _leaves_that_fit(
    site: Site, gpu: npt.NDArray[np.bool_], links: npt.NDArray[np.int64], ports: int, most: int
) -> int:
    """Fewest leaves of `ports` ports for servers with so many `links`; 0 where none of at most `most` leaves helps."""
    each, room = site.inband.links_per_node, ports - site.inband.spines
    if room <= 0:
        return 0
    for pairs in range(-(-int(links.sum()) // (each * room)), most // each + 1):
        if -(-int(np.bincount(_pairs(gpu, pairs), links).max()) // each) <= room:
            return pairs * each
    return 0
