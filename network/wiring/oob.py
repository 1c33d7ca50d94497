"""The out-of-band management network: management ports of all devices, and their cables to access switches.

In: site, catalogue, devices, their racks and the cables of an earlier plan. Out: a frame of links with their rate, and
findings where ports are missing or reach no management node.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from inventory.catalog import Catalog, DeviceType
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.effective import port_gbps
from network import fabric
from network.wiring.single_failures import LEG, apart, too_many

MANAGEMENT = "management"
"""Role of the servers that reach the out-of-band network: telemetry and the way in for operators."""
AGGREGATION = "oobagg"
"""What names of switches that join the access switches begin with; their role is that of the access switches."""


def oob_aggregation(site: Site, catalog: Catalog) -> int:
    """Management switches that join the access switches, those of rack-scale systems included: none for one alone."""
    model = catalog.device(site.oob.switch_model)
    system = catalog.system(site.server.system) if site.server.system else None
    inside = system.count("oob") * (site.server.count // system.count("compute")) if system else 0
    return fabric.oob_aggregation_count(inside + site.oob.switches, model.bringup.data_ports, len(uplink_ports(model)))


def uplink_ports(model: DeviceType) -> dict[str, float]:
    """{port: Gb/s} of the fastest ports of a management switch, if they are faster than its data ports."""
    rates = {port: float(port_gbps(model, port) or 0) for port in model.port_names()}
    fastest = max(rates.values(), default=0.0)
    return {port: rate for port, rate in rates.items() if rate == fastest > model.bringup.rate_gbps}


def oob_cables(
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
    uplinks = uplink_ports(model)
    links = fabric.oob_links(ends, access, aggregation, ports, held, own_rack, list(uplinks))
    findings = []
    shared = _shared_ports(ends, own_rack, len(ports))
    alone = not inside and shared <= len(ports)
    needed = 1 if alone else max(-(-shared // (len(ports) - 1)), 1)
    missing = len(ends) + (len(names) - 1 if aggregation else 0) - len(links)
    if missing:
        findings.append(
            finding(
                "OOB-PORTS",
                "oob.switches",
                limit=float(site.oob.switches),
                limit_source="site oob.switches",
                words={"ports_of_one": len(ports)},
                more_numbers={"ports": shared, "switches_needed": needed},
                remedies=[remedy({"oob.switches": needed})],
            )
        )
    elif held is None and too_many(site.oob.switches, needed):
        findings.append(
            finding(
                "OOB-TOO-MANY",
                "oob.switches",
                limit=float(needed),
                limit_source=f"catalogue {site.oob.switch_model} data_ports",
                words={"ports_of_one": len(ports)},
                more_numbers={"ports": shared, "switches": site.oob.switches},
                remedies=[remedy({"oob.switches": needed})],
            )
        )
    if oob_legs(devices, catalog):
        findings += _check_paths(links, devices, len(ends), {"oob.switches": needed} if missing else None)
    between = links["a_device"].isin(set(aggregation))
    rate = links["a_port"].map(uplinks).where(between).fillna(float(model.bringup.rate_gbps))
    return links.assign(rate_gbps=rate.astype(np.float64)), findings


def _check_paths(
    links: pd.DataFrame, devices: pd.DataFrame, ports: int, settings: Mapping[str, int] | None
) -> list[Finding]:
    """OOB-APART of the first management port from which no planned cables lead to a management node; `settings` mend it."""
    cut = apart(links, devices)
    if cut.empty:
        return []
    device, port, switch = cut[["a_device", "a_port", "b_device"]].iloc[0].tolist()
    return [
        finding(
            "OOB-APART",
            device,
            limit=0.0,
            limit_source="cables of the plan",
            remedies=[remedy(settings) if settings else remedy(fix="cable")],
            words={"port": f"{device}:{port}", "switch": switch},
            more_numbers={"ports": ports},
            cut_off=len(cut),
        )
    ]


def _shared_ports(ends: pd.DataFrame, own_rack: Mapping[str, str], ports: int) -> int:
    """Management ports that need a switch of oob.switches: all but those that the switches inside their racks have room for."""
    inside = pd.Series(list(own_rack.values()), dtype=object).value_counts() * (ports - 1)
    per_rack = ends["rack"].value_counts()
    return int((per_rack - inside.reindex(per_rack.index).fillna(0)).clip(lower=0).sum())


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
    parts.append(pd.DataFrame(legs, columns=["device", "port"]).assign(stage=LEG))
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
