"""The LabSpec of a site: a pure function of the site, its Plan and its asset lists.

In: `site` (addressing, credentials, server.psu, versions), the Plan's frames devices, cables, outlets, addresses,
assets.csv and gpus.csv. A compute fabric of InfiniBand is taken as well, as switches and adapters of its simulator; one
of Ethernet stays out. The lab's daemons do not import this module: they read the spec (spec.py).
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pandas as pd

from capacity.model import Plan
from infra.lab.bmc_firmware import BASEBOARD, adapter_item, gpu_item
from infra.lab.paths import LabError
from infra.lab.spec import (
    SERVER,
    SWITCH,
    Adapter,
    Cable,
    Gpu,
    GpuModel,
    IbSwitch,
    LabSpec,
    Network,
    Outlet,
    Pdu,
    Server,
    SnmpUser,
    Switch,
    port_mac,
)
from inventory.catalog import Catalog
from inventory.gpu_stack import load_stack
from inventory.site import Site

BUILT_FABRICS = ("inband", "oob")
DELIVERED_FIRMWARE = "1.0.0"  # what a simulated server reports where the site file pins no version of it


def supplies_needed(redundancy: str, count: int) -> int:
    """How many live supplies carry the load: 'N+M' needs N; one of several where the catalogue says nothing."""
    left, plus, right = redundancy.lower().partition("+")
    if not plus:
        return 1
    if left.isdigit():
        return int(left)
    return count - int(right) if right.isdigit() else 1


def _check_name(name: str) -> None:
    if not name or len(name) > 24 or not all(c.isalnum() or c == "-" for c in name) or not name[0].isalnum():
        raise LabError(f"site name {name!r} cannot name a lab: use letters, digits and '-', at most 24 characters")


def from_plan(
    site: Site, plan: Plan, assets: pd.DataFrame, catalog: Catalog, gpus: pd.DataFrame | None = None
) -> LabSpec:
    """LabSpec of a site. `assets` is indexed by device and has serial, uuid, mgmt_mac; `catalog` knows the supplies.

    `gpus` is the frame of gpus.csv; without it, or for servers that it does not list, there are no GPUs.
    LabError when the site is one that the lab cannot build: a device without identity or address, more than one
    management switch, a name that does not fit.
    """
    name = site.name
    _check_name(name)
    devices = plan.devices.set_index("name")
    wanted = devices[(devices.kind != SWITCH) | devices.fabric.isin(BUILT_FABRICS)]
    infiniband = _infiniband(site, plan, assets, catalog) if site.fabric.kind == "ib" else {}
    adapters = Counter(adapter.device for adapter in infiniband.get("adapters", ()))
    missing = sorted(set(wanted.index) - set(assets.index))
    if missing:
        raise LabError(
            f"assets.csv of site {name} lists no {', '.join(missing[:8])}: the lab cannot give them an identity"
        )
    addresses = {
        (row.device, row.interface): (str(row.address).split("/")[0], str(row.mac or ""))
        for row in _rows(plan.addresses)
    }

    def address(device: str, interface: str) -> str:
        if (device, interface) not in addresses:
            raise LabError(f"the plan of site {name} gives {device} no address on {interface}")
        return addresses[device, interface][0]

    def mac(device: str, interface: str, otherwise: str = "") -> str:
        known = addresses.get((device, interface), ("", ""))[1]
        return known or otherwise or port_mac(name, device, interface)

    built = plan.cables[plan.cables.fabric.isin(BUILT_FABRICS)]
    there = set(wanted.index)  # compute switches have management cables too, but nothing stands at their ends
    cables = tuple(
        Cable(row.cable_id, row.a_device, row.a_port, row.b_device, row.b_port)
        for row in _rows(built)
        if row.a_device in there and row.b_device in there
    )
    ports: dict[str, list[str]] = {}
    for cable in cables:
        for device, port in cable.ends:
            ports.setdefault(device, []).append(port)
    breaker = {row.pdu: float(row.breaker_a) for row in _rows(plan.circuits)}
    pdu_place = {row.pdu: (row.rack, row.feed) for row in _rows(plan.outlets)}
    versions: dict[str, str] = {str(k): str(v) for k, v in dict(site.versions).items()}

    volts = float(site.server.supplies.input_v)
    servers, switches, pdus = list[Server](), list[Switch](), list[Pdu]()
    for row in _rows(wanted.reset_index()):
        device, asset = str(row.name), assets.loc[row.name]
        model, serial, mgmt_mac = str(row.model), str(asset.serial), str(asset.mgmt_mac)
        psus = int(row.psu_count)
        psu = site.server.supplies if row.role == "gpu" else catalog.device(model).bringup.psu
        needed = supplies_needed(psu.redundancy if psu else "", psus)
        if row.kind == SERVER:
            servers.append(
                Server(
                    name=device,
                    role=str(row.role),
                    model=model,
                    serial=serial,
                    uuid=str(asset.uuid),
                    bmc_address=address(device, "bmc"),
                    bmc_mac=mac(device, "bmc", mgmt_mac),
                    address=address(device, "eth0"),
                    mac=mac(device, "eth0"),
                    ports=tuple(sorted(port for port in ports.get(device, []) if port.startswith("eth"))),
                    psus=psus,
                    psus_needed=needed,
                    psu_rating_w=float(psu.rating_w) if psu else 0.0,
                    input_v=volts,
                    load_w=float(row.measured_w),
                    bios_version=versions.get("bios", DELIVERED_FIRMWARE),
                    bmc_version=versions.get("bmc", DELIVERED_FIRMWARE),
                    cpus=(facts := catalog.device(model).bringup).cpus or 1,
                    memory_gib=facts.memory_gib or 1,
                    gpus=(own := gpus_of(device, gpus, versions)),
                    components=components(
                        [(gpu.slot, gpu.vbios) for gpu in own],
                        adapters[device],
                        BASEBOARD if own and site.gpu.form_factor == "sxm" else (),
                    ),
                )
            )
        elif row.kind == SWITCH:
            switches.append(
                Switch(
                    name=device,
                    role=str(row.role),
                    model=model,
                    serial=serial,
                    mac=mac(device, "eth0", mgmt_mac),
                    address=address(device, "eth0"),
                    ports=tuple(ports.get(device, [])),
                    psus=psus,
                    psus_needed=needed,
                    input_v=volts,
                    load_w=float(row.measured_w),
                )
            )
        else:
            rack, feed = pdu_place.get(device, ("", ""))
            pdus.append(
                Pdu(
                    device,
                    model,
                    serial,
                    mac(device, "eth0", mgmt_mac),
                    address(device, "eth0"),
                    str(rack),
                    str(feed),
                    breaker.get(device, 0.0),
                    volts,
                    catalog.rack_pdu(model).driver,
                )
            )
    if sum(switch.role == "oob" for switch in switches) != 1:
        raise LabError(
            f"the lab builds exactly one management switch (role oob); the plan of {name} has another number"
        )
    credentials = site.credentials
    return LabSpec(
        name=name,
        oob=_network(str(site.addressing.oob)),
        provisioning=_network(str(site.addressing.provisioning)),
        snmp=SnmpUser(credentials.snmp.user, credentials.snmp.auth_protocol, credentials.snmp.priv_protocol),
        bmc_factory_user=(credentials.bmc.factory or credentials.bmc).user,
        switch_user=credentials.switch.user,
        servers=tuple(servers),
        switches=tuple(switches),
        pdus=tuple(pdus),
        outlets=tuple(
            Outlet(row.pdu, int(row.outlet), str(row.feed), str(row.phase), str(row.device or ""), int(row.psu))
            for row in _rows(plan.outlets)
        ),
        cables=cables,
        gpu_model=gpu_model(catalog, site.gpu.sku) if any(server.gpus for server in servers) else None,
        gpu_packages=_gpu_packages(site, versions),
        cuda=versions.get("cuda", ""),
        workers=tuple(s.name for s in servers if s.role == "gpu") if site.scheduler.kind == "kubernetes" else (),
        **infiniband,
    )


def components(
    gpus: Iterable[tuple[int, str]], adapters: int, baseboard: Iterable[str] = ()
) -> tuple[tuple[str, str], ...]:
    """What a BMC lists of firmware beside its own and the BIOS: GPUs by (slot, version), the parts of their baseboard and
    adapters as delivered."""
    return (
        *((gpu_item(slot), version) for slot, version in gpus),
        *((item, DELIVERED_FIRMWARE) for item in baseboard),
        *((adapter_item(number), DELIVERED_FIRMWARE) for number in range(1, adapters + 1)),
    )


def gpus_of(device: str, gpus: pd.DataFrame | None, versions: dict[str, str]) -> tuple[Gpu, ...]:
    """The GPUs of a server in the order in which the driver counts them, which is that of their PCI addresses."""
    rows = [] if gpus is None else sorted(_rows(gpus[gpus["device"] == device]), key=lambda row: row.pci_bus_id)
    if bad := [row.slot for row in rows if not row.slot.isdigit()]:
        raise LabError(f"gpus.csv: {device}: the lab's GPUs are SXM modules with numbers, not {', '.join(bad)}")
    firmware = {pin: versions.get(pin, DELIVERED_FIRMWARE) for pin in ("vbios", "inforom")}
    return tuple(
        Gpu(index, int(row.slot), row.serial, row.uuid, row.pci_bus_id, **firmware) for index, row in enumerate(rows)
    )


def gpu_model(catalog: Catalog, sku: str) -> GpuModel:
    gpu = catalog.gpu(sku)
    return GpuModel(gpu.nvml_name, gpu.tdp_w, gpu.memory_gib, gpu.pcie_gen, gpu.pcie_width, gpu.nvlinks)


def _gpu_packages(site: Site, versions: dict[str, str]) -> tuple[tuple[str, str], ...]:
    try:
        return tuple(load_stack().packages(site.os.key, versions).items())
    except LookupError as error:
        raise LabError(str(error)) from None


def _infiniband(site: Site, plan: Plan, assets: pd.DataFrame, catalog: Catalog) -> dict[str, Any]:
    """The fields of a LabSpec about the InfiniBand fabric. LabError when the asset list lacks a GUID."""
    cables = plan.cables[plan.cables.fabric == "compute"]
    switches = plan.devices[(plan.devices.kind == SWITCH) & (plan.devices.fabric == "compute")]
    known = {str(name): str(guid) for name, guid in assets["guid"].items() if guid}
    ports: dict[str, list[str]] = {}
    for row in _rows(cables[cables.stage.isin(["node-leaf", "manager-leaf"])]):
        ports.setdefault(row.a_device, []).append(row.a_port)
    ends = [f"{device}:{port}" for device, own in ports.items() for port in own]
    missing = [name for name in (*switches["name"], *ends) if name not in known]
    if missing:
        raise LabError(
            f"assets.csv of site {site.name} lists no GUID of {', '.join(missing[:8])}: the lab cannot simulate them"
        )
    highest = ipaddress.ip_network(str(site.addressing.provisioning))[-2]
    return {
        "ib_switches": tuple(
            IbSwitch(
                row.name,
                str(row.role),
                str(row.model),
                known[row.name],
                _port_count(catalog, str(row.model)),
                supplies_needed(_redundancy(catalog, str(row.model)), int(row.psu_count)),
                float(row.measured_w),
            )
            for row in _rows(switches)
        ),
        "adapters": tuple(
            Adapter(device, port, known[f"{device}:{port}"], f"mlx5_{number}")
            for device, own in ports.items()
            for number, port in enumerate(own)
        ),
        "ib_cables": tuple(Cable(r.cable_id, r.a_device, r.a_port, r.b_device, r.b_port) for r in _rows(cables)),
        # Nodes get the low addresses of the prefix.
        "ib_address": str(highest),
    }


def _port_count(catalog: Catalog, model: str) -> int:
    entry = catalog.device(model).bringup
    return entry.data_ports + bool(entry.manager_port)


def _redundancy(catalog: Catalog, model: str) -> str:
    psu = catalog.device(model).bringup.psu
    return psu.redundancy if psu else ""


def _rows(frame: pd.DataFrame) -> list[Any]:
    return list(frame.itertuples(index=False))


def _network(prefix: str) -> Network:
    network = ipaddress.ip_network(prefix)
    return Network(str(network), str(network[1]))
