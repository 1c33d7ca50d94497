"""How the switches and adapters of a plan call themselves in the discovered InfiniBand fabric. Pure: plan in, names out.

    wire = on_the_wire(plan)
    wire.switch("MF0;ibl001:Q3400_RA/U2")   -> "ibl001"
    wire.adapter("gpu001 mlx5_3")           -> "gpu001:ib1" on a DGX H100
    wire.port("ibl001", 3)                  -> "sw2p1" on a Q3400

The InfiniBand number of a switch's port is its place among the data ports of its catalogue entry, from 1; the port that is meant
for a subnet manager follows. rdma-ndd writes '%h %d' (rdma-ndd(8)): the host and its RDMA device, which Linux calls mlx5_N in
the order in which drivers load, or ibpXs0 by its PCI address where rdma-core's rules rename it. Which device is which port is
in the catalogue (bringup.rdma_devices, bringup.rdma_names); where it is not, only a host with a single port is known by its name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from inventory.catalog import Catalog
from network import render

FABRIC = "compute"
STAGES = ("node-leaf", "manager-leaf")
ADAPTER_LABEL = re.compile(r"^(?P<host>\S+)(?: (?P<device>\S+))?$")
SWITCH_LABEL = re.compile(r"^(?:\w+;)?(?P<name>[^:;/\s]+)(?::[^/]*)?(?:/U[0-9]{1,2})?$")
"""A switch's name, on managed ones as 'MF0;NAME:MODEL/U1'; a system of several ASICs is U1, U2 and so on."""
INSIDE = re.compile(r"Aggregation Node|/U[0-9]{1,2}/RT$")
"""Nodes inside a switch: the SHARP aggregation node, an adapter at a port beyond the data ports, and the router of an ASIC."""


class Plan(render.Plan, Protocol):
    """What is needed of a plan beside its frames: the catalogue."""

    @property
    def catalog(self) -> Catalog: ...


@dataclass(frozen=True)
class Wire:
    """Names in discovery.

    ``ports``    {switch: {InfiniBand port number: port of the plan}}
    ``devices``  {host: {RDMA device or interface: DEVICE:PORT}}
    ``single``   {host: DEVICE:PORT} of hosts with one port
    """

    ports: Mapping[str, Mapping[int, str]]
    devices: Mapping[str, Mapping[str, str]]
    single: Mapping[str, str]

    def switch(self, label: str) -> str:
        """The planned switch that a node description names, '' for none."""
        found = SWITCH_LABEL.match(label)
        return _known(found["name"], self.ports) if found else ""

    def adapter(self, label: str) -> str:
        """The planned DEVICE:PORT that a node description names, '' for none."""
        found = ADAPTER_LABEL.match(label)
        host = _known(found["host"], self.devices) if found else ""
        if not found or not host:
            return ""
        return self.devices[host].get(found["device"] or "") or (
            "" if self.devices[host] else self.single.get(host, "")
        )

    def port(self, switch: str, number: int) -> str:
        """The port of a planned switch by its InfiniBand number, the number itself where the plan has none."""
        return self.ports.get(switch, {}).get(number) or str(number)


def on_the_wire(plan: Plan) -> Wire:
    """Names of the compute fabric's switches, ports and adapters."""
    model = dict(zip(plan.devices["name"], plan.devices["model"], strict=True))
    numbers = {name: _numbers(plan.catalog, name) for name in plan.devices["model"].unique()}
    switches = plan.devices.loc[plan.devices["fabric"] == FABRIC, "name"]
    ends: dict[str, list[str]] = {}
    rows = plan.cables[(plan.cables["fabric"] == FABRIC) & plan.cables["stage"].isin(STAGES)]
    for host, port in zip(rows["a_device"].tolist(), rows["a_port"].tolist(), strict=True):
        ends.setdefault(host, []).append(port)
    devices = {}
    for host, ports in ends.items():
        known = _devices(plan.catalog, model[host])
        devices[host] = {name: f"{host}:{port}" for port in ports for name in known.get(port, ())}
    return Wire(
        {name: numbers[model[name]] for name in switches},
        devices,
        {host: f"{host}:{ports[0]}" for host, ports in ends.items() if len(ports) == 1},
    )


def _numbers(catalog: Catalog, model: str) -> dict[int, str]:
    """{InfiniBand port number: port} of a switch's model."""
    entry = catalog.device(model)
    manager = entry.bringup.manager_port
    return dict(enumerate([*entry.data_port_names(), *([manager] if manager else [])], 1))


def _devices(catalog: Catalog, model: str) -> dict[str, tuple[str, ...]]:
    """{fabric port: the names that Linux has for its device} of a server's model, {} where the catalogue has none."""
    facts = catalog.device(model).bringup
    names: dict[str, tuple[str, ...]] = {}
    for given in (facts.rdma_devices, facts.rdma_names):
        for port, name in zip(facts.fabric_ports, given, strict=bool(given)):
            names[port] = (*names.get(port, ()), name)
    return names


def _known(name: str, names: Mapping[str, object]) -> str:
    """The name itself or its first label, without the domain, where the plan has it; '' else."""
    return next((one for one in (name, name.partition(".")[0]) if one in names), "")
