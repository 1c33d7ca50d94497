"""All cables and addresses of a site: compute fabric, in-band Ethernet and management network.

In: site, catalogue, devices and their places. Out: frames `cables` and `addresses`, and findings on fabric, ports,
reach and prefixes. The wiring rules are those of network.fabric, the lengths and parts those of network.wiring.cabling.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.catalog import Catalog, DeviceType
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.networks import Addressing
from network import fabric, optics
from network.wiring import addressing, cabling
from network.wiring.inband import inband_gbps, inband_ports

PCIE_X16_GBPS = {3: 126.0, 4: 252.0, 5: 504.0, 6: 1008.0}
"""Usable rate of an x16 slot per PCIe generation in Gb/s: lanes x GT/s x 128/130 coding (generation 6: twice
generation 5).
"""

_OTHER = {"leaf": "spines", "spine": "leaves"}

_PREFIX_KEY = {
    "oob": "oob",
    "provisioning": "provisioning",
    "loopback": "loopbacks",
    "link": "links",
}
"""Site key of the prefix of each network, in section addressing."""

MANAGEMENT = "management"
"""Role of the servers that reach the out-of-band network: telemetry and the way in for operators."""

FIRST_OFFSET = {"switch": 11, "pdu": 41, "bmc": 61, "management": 0, "provisioning": 11}
"""First host number of each group in its prefix; later groups move up where an earlier one needs the room."""


@dataclass(frozen=True)
class Wiring:
    """`cables` and `addresses` as in capacity.model.frames, and what the cables take as it is bought."""

    cables: pd.DataFrame
    addresses: pd.DataFrame
    fitted: optics.Fitted
    findings: tuple[Finding, ...]


def compute_tree(site: Site, catalog: Catalog) -> tuple[fabric.FatTree | None, list[Finding]]:
    """The compute fabric's counts with findings; None when it cannot be built (FABRIC-* error)."""
    spec, nic = site.fabric, site.server.nic
    ports = catalog.device(spec.switch_model).bringup.data_ports
    if spec.radix > ports:
        return None, [
            finding(
                "FABRIC-RADIX",
                "fabric",
                case="model",
                limit=ports,
                limit_source=f"catalogue {spec.switch_model} data_ports",
                radix=spec.radix,
                words={"model": spec.switch_model},
            )
        ]
    if nic.ports != spec.rails:
        return None, [
            finding(
                "FABRIC-RAILS",
                "fabric.rails",
                limit=nic.ports,
                limit_source="site server.nic.ports",
                err="ERR-11",
                more_numbers={"ports": nic.ports, "rails": spec.rails},
            )
        ]
    try:
        tree = fabric.design(
            site.server.count, spec.rails, spec.radix, spec.unit_nodes, spec.bisection, spec.tiers, spec.leaf_uplinks
        )
    except fabric.FabricError as error:
        ways = [remedy({"fabric.tiers": tiers}) for tiers in (2, 3)] if error.case == "unsupported" else []
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
    return tree, check_tree(tree, spec.bisection) + check_nic(nic.rate_gbps, nic.pcie_gen, nic.x16_per_port)


def check_tree(tree: fabric.FatTree, required: float) -> list[Finding]:
    """FABRIC-BISECTION (ERR-10) for each tier that narrows it below the required share; FABRIC-OVERSUBSCRIBED for
    information.
    """
    found = []
    below = 1.0
    for tier, share in tree.bisection.items():
        ratio = tree.oversubscription[tier]
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


def check_congestion_control(site: Site) -> list[Finding]:
    """FABRIC-CONGESTION-CONTROL on RoCE: only in-band switches get a configuration, so nothing configures what is named."""
    wanted = site.fabric.congestion_control
    if wanted is None:
        return []
    return [
        finding(
            "FABRIC-CONGESTION-CONTROL",
            "fabric.congestion_control",
            limit_source="site fabric.congestion_control",
            words={"wanted": wanted},
            remedies=[remedy(fix="by-hand")],
        )
    ]


def check_nic(rate_gbps: float, pcie_gen: int, x16_per_port: int = 1) -> list[Finding]:
    """FABRIC-NIC-PCIE (ERR-09) when the slot, or the two of socket direct, cannot fill the port."""
    slot = PCIE_X16_GBPS[pcie_gen] * x16_per_port
    if rate_gbps <= slot:
        return []
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
            words={"pcie_gen": pcie_gen, "x16_per_port": x16_per_port},
        )
    ]


def oob_aggregation(site: Site, catalog: Catalog) -> int:
    """Management switches that join the access switches, those of rack-scale systems included: none for one alone."""
    ports = catalog.device(site.oob.switch_model).bringup.data_ports
    system = catalog.system(site.server.system) if site.server.system else None
    inside = system.count("oob") * (site.server.count // system.count("compute")) if system else 0
    return fabric.oob_aggregation_count(inside + site.oob.switches, ports)


def build(
    site: Site,
    catalog: Catalog,
    tree: fabric.FatTree | None,
    devices: pd.DataFrame,
    placements: pd.DataFrame,
    assets: pd.DataFrame,
    held_cables: pd.DataFrame | None,
    held_addresses: pd.DataFrame | None,
) -> Wiring:
    """Cables and addresses; `held_*` are the frames of an earlier plan whose ends and addresses stay."""
    findings: list[Finding] = []
    by_role = {
        (str(key[0]), str(key[1])): group["name"].tolist()
        for key, group in devices.groupby(["fabric", "role"], sort=False)
    }
    parts = []
    if tree is not None:
        parts.append(_compute_cables(site, catalog, tree, by_role))
        managers, found = _manager_cables(site, catalog, tree, by_role)
        findings += found
        parts.append(managers)
    inband, found = _inband_cables(site, catalog, devices, by_role, _stage(held_cables, "inband", "node-leaf"))
    findings += found
    parts.append(inband)
    oob, found = _oob_cables(site, catalog, devices, placements, by_role, held_cables)
    findings += found
    parts.append(oob)
    cables = pd.concat(parts, ignore_index=True)

    cables["length_m"] = cabling.routed_lengths(cables, placements, site.room.tray_height_m, site.room.slack_m)
    media = catalog.media(site.media.reach_table).parts
    at = optics.ends(cables, dict(zip(devices["name"], devices["model"], strict=True)), catalog)
    cables["a_cage"], cables["b_cage"] = at.number
    group = optics.groups(at)
    allowed = optics.fitting(at, group, media)
    table = pd.DataFrame([part.model_dump() for part in media])
    chosen = cabling.select_parts(cables["rate_gbps"], cables["length_m"].to_numpy(), table, allowed, group)
    cables[["medium", "part"]] = chosen
    cables["cable_id"] = cables["a_device"].astype(str) + ":" + cables["a_port"].astype(str)
    findings += _check_reach(cables, table, site.media.reach_table)
    findings += _check_cages(cables, at, table, site.media.reach_table)
    findings += _check_known(cables, at, devices)
    fitted = optics.fitted(cables, at, media)
    addresses, found = _addresses(site, catalog, devices, inband, assets, held_addresses)
    return Wiring(cables, addresses, fitted, (*findings, *found))


def _compute_cables(
    site: Site, catalog: Catalog, tree: fabric.FatTree, by_role: dict[tuple[str, str], list[str]]
) -> pd.DataFrame:
    ports = catalog.device(site.server.model).bringup.fabric_ports
    links = fabric.fat_tree_links(
        tree,
        by_role["", "gpu"],
        by_role["compute", "leaf"],
        by_role["compute", "spine"],
        by_role.get(("compute", "core"), []),
        list(ports),
        catalog.device(site.fabric.switch_model).data_port_names(),
    )
    return links.assign(rate_gbps=float(site.server.nic.rate_gbps))


def _manager_cables(
    site: Site, catalog: Catalog, tree: fabric.FatTree, by_role: dict[tuple[str, str], list[str]]
) -> tuple[pd.DataFrame, list[Finding]]:
    """One cable from each subnet manager to a leaf, each to another one; FABRIC-MANAGER for those without a port."""
    model = catalog.device(site.fabric.switch_model)
    places = fabric.manager_ports(tree, by_role["compute", "leaf"], model.data_port_names(), model.bringup.manager_port)
    nodes: dict[str, DeviceType] = {node.role: catalog.device(node.model) for node in site.service_nodes}
    rows, findings = [], []
    for server, role in subnet_managers(site, by_role):
        own = nodes[role].bringup.fabric_ports
        if own and places:
            leaf, port = places.pop(0)
            rows.append((server, own[0], leaf, port))
            continue
        if own:
            fewer = site.fabric.unit_nodes - 1
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
    columns = ["a_device", "a_port", "b_device", "b_port"]
    cables = pd.DataFrame(rows, columns=columns, dtype=object).assign(
        fabric="compute", stage="manager-leaf", rail=-1, rate_gbps=float(site.server.nic.rate_gbps)
    )
    return cables, findings


def subnet_managers(site: Site, by_role: Mapping[tuple[str, str], list[str]]) -> list[tuple[str, str]]:
    """(server, role) of each subnet manager, master first: each entry of the site takes the next node of its role."""
    free = {role: iter(by_role.get(("", role), [])) for role in set(site.fabric.subnet_managers)}
    return [(server, role) for role in site.fabric.subnet_managers for server in [next(free[role], "")] if server]


def _inband_cables(
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
    for role, model in (("leaf", spec.leaf_model), ("spine", spec.spine_model)):
        limit = catalog.device(model).bringup.data_ports
        names = by_role["inband", role]
        used = pd.concat([links["a_device"], links["b_device"]]).value_counts().reindex(names)
        if len(used) and int(used.max()) > limit:
            most = catalog.device(spec.spine_model).bringup.data_ports
            more = _leaves_that_fit(site, gpu, count, limit, most) if role == "leaf" else 0
            change = remedy({"inband.leaves": more}) if more else remedy(fix=f"fewer-{_OTHER[role]}")
            findings.append(
                finding(
                    "INBAND-PORTS",
                    str(used.idxmax()),
                    limit=float(limit),
                    limit_source=f"catalogue {model} data_ports",
                    words={"model": model},
                    remedies=[change, remedy(fix=f"larger-{role}")],
                    more_numbers={"ports": int(used.max())},
                )
            )
    rate = servers["model"].map({model: float(inband_gbps(site, catalog, model)) for model in ports})
    by_server = dict(zip(servers["name"], rate, strict=True))
    return links.assign(rate_gbps=links["a_device"].map(by_server).fillna(float(spec.rate_gbps))), findings


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


def _oob_cables(
    site: Site,
    catalog: Catalog,
    devices: pd.DataFrame,
    placements: pd.DataFrame,
    by_role: dict[tuple[str, str], list[str]],
    held: pd.DataFrame | None,
) -> tuple[pd.DataFrame, list[Finding]]:
    """Management ports of all devices in the order of their racks: PDUs, BMCs, servers' eth0, switches."""
    model = catalog.device(site.oob.switch_model)
    ports = model.data_port_names()
    names = by_role["oob", "oob"]
    aggregation = names[len(names) - oob_aggregation(site, catalog) :]
    access = names[: len(names) - len(aggregation)]
    rack_of = placements.set_index("device")["rack"]
    ends = management_ports(devices, catalog)
    ends["rack"] = rack_of.reindex(ends["device"]).to_numpy()
    ends = ends.iloc[np.argsort(pd.factorize(ends["rack"], sort=True)[0], kind="stable")].reset_index(drop=True)
    inside = devices.loc[(devices["fabric"] == "oob") & (devices["busbar"] >= 0), "name"].tolist()
    own_rack = dict(zip(inside, rack_of.reindex(inside).tolist(), strict=True))
    links = fabric.oob_links(ends, access, aggregation, ports, held, own_rack)
    findings = []
    missing = len(ends) + (len(access) if aggregation else 0) - len(links)
    if missing:
        needed = fabric.oob_access_count(len(ends), len(ports))
        findings.append(
            finding(
                "OOB-PORTS",
                "oob.switches",
                limit=float(len(access)),
                limit_source="site oob.switches",
                words={"ports_of_one": len(ports)},
                more_numbers={"ports": len(ends), "switches_needed": needed},
            )
        )
    return links.assign(rate_gbps=float(model.bringup.rate_gbps)), findings


def management_ports(devices: pd.DataFrame, catalog: Catalog) -> pd.DataFrame:
    """Columns device, port, stage: network port of each PDU and power shelf, BMC and eth0 of each server, management
    port of each switch but the OOB's own, and the leg of each management node.
    """
    parts = []
    managed = devices[devices["role"] != "oob"]
    port = managed["model"].map({model: management_port(catalog, model) for model in managed["model"].unique()})
    for kind, stage in (
        ("pdu", "pdu-oob"),
        ("shelf", "shelf-oob"),
        ("server", "bmc-oob"),
        ("switch", "switch-oob"),
    ):
        rows = managed["kind"] == kind
        parts.append(pd.DataFrame({"device": managed.loc[rows, "name"], "port": port[rows], "stage": stage}))
        if kind == "server":
            parts.append(
                pd.DataFrame({"device": managed.loc[rows, "name"], "port": "eth0", "stage": "node-provisioning"})
            )
    legs = oob_legs(devices, catalog)
    parts.append(pd.DataFrame(legs, columns=["device", "port"]).assign(stage="node-oob"))
    return pd.concat(parts, ignore_index=True)


def oob_legs(devices: pd.DataFrame, catalog: Catalog) -> list[tuple[str, str]]:
    """(device, port) of every management node whose model has a port for the out-of-band network."""
    rows = devices[devices["role"] == MANAGEMENT]
    ports = (
        (name, catalog.device(model).bringup.oob_port) for name, model in zip(rows["name"], rows["model"], strict=True)
    )
    return [(name, port) for name, port in ports if port]


def management_port(catalog: Catalog, model: str) -> str:
    """The management interface of a model: its first `mgmt_only` one (a server's is its BMC)."""
    entry = catalog.device(model)
    return next((name for i in entry.interfaces if i.mgmt_only for name in i.names()), "eth0")


def _check_reach(cables: pd.DataFrame, table: pd.DataFrame, source: str) -> list[Finding]:
    """CABLE-REACH for each stage with cables that no part of their rate reaches: the longest one, and how many."""
    reach_m = cables["rate_gbps"].map(
        {rate: cabling.longest_reach(table, rate) for rate in cables["rate_gbps"].unique()}
    )
    short = cables[(cables["part"] == "") & (cables["length_m"] > reach_m)]
    findings = []
    for stage, rate in sorted(set(zip(short["stage"], short["rate_gbps"], strict=True))):
        group = short[(short["stage"] == stage) & (short["rate_gbps"] == rate)]
        worst = group.iloc[int(group["length_m"].to_numpy().argmax())]
        reach = cabling.longest_reach(table, rate)
        findings.append(
            finding(
                "CABLE-REACH",
                str(worst["cable_id"]),
                limit=reach,
                limit_source=f"catalogue media {source}",
                err="ERR-15",
                ports=(f"{worst['a_device']}:{worst['a_port']}", f"{worst['b_device']}:{worst['b_port']}"),
                cables=len(group),
                length_m=float(worst["length_m"]),
                words={"stage": stage, "rate_gbps": rate, "far": f"{worst['b_device']}:{worst['b_port']}"},
            )
        )
    return findings


def _check_cages(cables: pd.DataFrame, at: optics.Ends, table: pd.DataFrame, source: str) -> list[Finding]:
    """CABLE-CAGE: cables that no part joins though it would reach, by their cages; and cages whose cables are of two parts."""
    reach_m = cables["rate_gbps"].map(
        {rate: cabling.longest_reach(table, rate) for rate in cables["rate_gbps"].unique()}
    )
    apart = np.flatnonzero((cables["part"] == "") & (cables["length_m"] <= reach_m))
    limit_source = f"catalogue media {source}, plugs"
    findings = []
    kinds = cables.iloc[apart].assign(a_kind=at.kind[0, apart], b_kind=at.kind[1, apart])
    for _, rows in kinds.groupby(["rate_gbps", "a_kind", "b_kind"], sort=False):
        rate, a_kind, b_kind = (rows[name].iloc[0] for name in ("rate_gbps", "a_kind", "b_kind"))
        worst = rows.iloc[int(rows["length_m"].to_numpy().argmax())]
        a_end, b_end = f"{worst['a_device']}:{worst['a_port']}", f"{worst['b_device']}:{worst['b_port']}"
        findings.append(
            finding(
                "CABLE-CAGE",
                str(worst["cable_id"]),
                case="no-part",
                limit_source=limit_source,
                err="",
                ports=(a_end, b_end),
                cables=len(rows),
                length_m=float(worst["length_m"]),
                words={
                    "rate_gbps": rate,
                    "a_cage": at.kinds[a_kind],
                    "b_cage": at.kinds[b_kind],
                    "a_end": a_end,
                    "b_end": b_end,
                },
                remedies=[remedy(fix="other-cages"), remedy(fix="nearer"), remedy(fix="add-part")],
            )
        )
    return findings + _check_mixed(cables, at, limit_source)


def _check_known(cables: pd.DataFrame, at: optics.Ends, devices: pd.DataFrame) -> list[Finding]:
    """CABLE-CAGE-UNKNOWN: models whose entry does not say the cages of ports in use, so that their optics are a guess."""
    open_ = [i for i, kind in enumerate(at.kinds) if not kind.form]
    end, row = np.nonzero(np.isin(at.kind, open_))
    if not len(row):
        return []
    names = cables[["a_device", "b_device"]].to_numpy()[row, end]
    ports = cables[["a_port", "b_port"]].to_numpy()[row, end]
    known = pd.DataFrame({"device": names, "port": ports})
    known["model"] = known["device"].map(devices.set_index("name")["model"])
    return [
        finding(
            "CABLE-CAGE-UNKNOWN",
            str(model),
            limit_source=f"catalogue {model} interfaces, bringup.cages",
            words={"example": f"{rows['device'].iloc[0]}:{rows['port'].iloc[0]}"},
            remedies=[remedy(fix="interfaces"), remedy(fix="cages")],
            more_numbers={"ports": len(rows)},
        )
        for model, rows in known.groupby("model", sort=True)
    ]


def _check_mixed(cables: pd.DataFrame, at: optics.Ends, limit_source: str) -> list[Finding]:
    """CABLE-CAGE for cages that would need two plugs: the first one, and how many."""
    part = pd.factorize(cables["part"])[0]
    each = pd.DataFrame({"cage": at.code.ravel(), "part": np.tile(part, 2)}).drop_duplicates()
    mixed = each.loc[each["cage"].duplicated() & (np.tile(cables["part"], 2)[each.index] != ""), "cage"].unique()
    if not len(mixed):
        return []
    end, row = np.nonzero(at.code == mixed[0])
    device = cables[["a_device", "b_device"]].to_numpy()[row[0], end[0]]
    ports = cables[["a_port", "b_port"]].to_numpy()[row, end].tolist()
    parts = sorted({part for part in cables["part"].iloc[row] if part})
    rate, length_m = cables["rate_gbps"].to_numpy(), cables["length_m"].to_numpy()
    in_cage = [f"{name} {rate[i]:g} Gb/s over {length_m[i]:g} m" for name, i in zip(ports, row, strict=True)]
    return [
        finding(
            "CABLE-CAGE",
            f"{device}:{ports[0]}",
            case="several-parts",
            limit=1,
            limit_source=limit_source,
            err="",
            ports=tuple(f"{device}:{port}" for port in ports),
            cages=len(mixed),
            words={"in_cage": ", ".join(in_cage), "parts": ", ".join(parts)},
            remedies=[remedy(fix="one-rate"), remedy(fix="nearer-to-both")],
        )
    ]


def _addresses(
    site: Site,
    catalog: Catalog,
    devices: pd.DataFrame,
    inband: pd.DataFrame,
    assets: pd.DataFrame,
    held_frame: pd.DataFrame | None,
) -> tuple[pd.DataFrame, list[Finding]]:
    prefixes = site.addressing
    held: dict[tuple[str, str, str], str] = {}
    if held_frame is not None:
        keys = zip(held_frame["device"], held_frame["interface"], held_frame["network"], strict=True)
        held = dict(zip(keys, held_frame["address"], strict=True))
    servers = devices.loc[devices["kind"] == "server"]
    switches = devices.loc[devices["kind"] == "switch"]
    # In-band and management switches first: a larger compute fabric then moves nobody else.
    switches = pd.concat([switches[switches["fabric"] == name] for name in ("inband", "oob", "compute", "nvlink")])
    pdus = devices.loc[devices["kind"].isin(["pdu", "shelf"])]

    def interfaces(rows: pd.DataFrame) -> list[tuple[str, str]]:
        ports = {model: management_port(catalog, model) for model in rows["model"].unique()}
        return [(name, ports[model]) for name, model in zip(rows["name"], rows["model"], strict=True)]

    parts: list[pd.DataFrame] = []
    short: list[addressing.Exhausted] = []
    held_offsets = addressing.offsets_in_use(
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
        frame, _, taken = addressing.host_addresses(network, str(prefixes.oob), wanted, first, held, taken)
        parts.append(frame)
        first += len(wanted)
    needed, found = sum(len(wanted) for _, _, wanted in groups), sum(map(len, parts))
    if found < needed:
        short.append(addressing.Exhausted("oob", str(prefixes.oob), needed, found, max(first, max(taken) + 1) + 1))
    nodes = [(name, "eth0") for name in servers["name"]]
    loopbacks = [(name, "lo") for name in [*switches.loc[switches["fabric"] == "inband", "name"], *servers["name"]]]
    for network, prefix, wanted, start, whole in (
        ("provisioning", prefixes.provisioning, nodes, FIRST_OFFSET["provisioning"], False),
        ("loopback", prefixes.loopbacks, loopbacks, 1, True),
    ):
        frame, exhausted, _ = addressing.host_addresses(
            network, str(prefix), wanted, start, held, {0, 1} if not whole else {0}, whole
        )
        parts.append(frame)
        short += [exhausted] if exhausted else []
    frame, exhausted = addressing.link_addresses(str(prefixes.links), inband[inband["stage"] == "node-leaf"], held)
    parts.append(frame)
    short += [exhausted] if exhausted else []

    addresses = pd.concat(parts, ignore_index=True)
    addresses = with_macs(addresses, servers["name"], assets)
    return addresses, [_exhausted(item, prefixes) for item in short]


def with_macs(addresses: pd.DataFrame, servers: pd.Series, assets: pd.DataFrame) -> pd.DataFrame:
    """`addresses` with the MACs of the asset list: those of the management ports, BMC or other. A management node's leg
    into the management network is another port of it.
    """
    management = addresses["network"].eq("bmc") | (addresses["network"].eq("oob") & ~addresses["device"].isin(servers))
    macs = addresses["device"].map(assets["mgmt_mac"]) if len(assets) else pd.Series("", index=addresses.index)
    return addresses.assign(mac=macs.where(management, "").fillna(""))


def _exhausted(item: addressing.Exhausted, prefixes: Addressing) -> Finding:
    key = _PREFIX_KEY[item.network]
    others = [getattr(prefixes, other) for other in _PREFIX_KEY.values() if other != key]
    prefix = IPv4Network(item.prefix)
    larger = prefix.supernet(new_prefix=min(item.length, prefix.prefixlen))
    free = {} if any(larger.overlaps(other) for other in others) else {f"addressing.{key}": str(larger)}
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


def _stage(cables: pd.DataFrame | None, fabric_name: str, stage: str) -> pd.DataFrame | None:
    if cables is None:
        return None
    return cables[(cables["fabric"] == fabric_name) & (cables["stage"] == stage)]
