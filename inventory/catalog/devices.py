"""Device types: servers, switches, PDUs, power shelves and storage enclosures.

A device type is a NetBox device type (same keys, so that entries can be exchanged) plus a ``bringup`` block for what
NetBox has no field for: supplies and their redundancy, power profiles, heat split, ports by use, driver.
"""

import itertools
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from inventory.catalog.entry import Entry, hyphens
from inventory.catalog.pdus import Pdu, PowerOutlet
from inventory.catalog.ports import Cage, Cages, Interface, form_of
from inventory.catalog.power import PowerPort, PowerProfiles, Psu
from inventory.catalog.servers import Board, Drives, InletRange, Memory, NicSlot

KG_PER_UNIT = {"kg": 1.0, "g": 0.001, "lb": 0.45359237, "oz": 0.028349523125}
Kind = Literal["server", "switch", "pdu", "shelf"]


class Extension(Entry):
    """The ``bringup`` block of a device type: what NetBox has no field for."""

    kind: Kind = Field(description="What it is.")
    psu: Psu | None = Field(default=None, description="Its supplies.")
    power: PowerProfiles = Field(description="What it draws.")
    air_fraction: float = Field(ge=0, le=1, description="Share of the heat that goes to air; the rest goes to liquid.")
    inlet_c: InletRange | None = Field(
        default=None,
        description="Air at the inlet that the vendor permits in operation; None where not known (not judged).",
    )
    depth_mm: float | None = Field(default=None, description="Depth, millimetres.")
    gpus: int = Field(default=0, description="Server: GPUs.")
    gpu_models: tuple[str, ...] = Field(
        default=(), description="Server: slugs of the GPUs that it is sold with; none where it takes any (not judged)."
    )
    cpus: int = Field(default=0, description="Server: processors (sockets).")
    cores: int = Field(default=0, description="Server: cores of all processors together.")
    memory_gib: int = Field(default=0, description="Server: installed memory, GiB.")
    bios: Mapping[str, str] = Field(default_factory=dict, description="Server: Redfish BIOS attributes of its profile.")
    board: Board | None = Field(default=None, description="Server: PCIe lanes.")
    emulated_lanes: int = Field(
        default=0,
        ge=0,
        description="Server of a lab: lanes that each of its emulated PCIe links tells, whatever its slot has; 0 for hardware.",
    )
    memory: Memory | None = Field(default=None, description="Server: how memory_gib is made up.")
    drives: tuple[Drives, ...] = Field(default=(), description="Server: its drives.")
    fabric_ports: tuple[str, ...] = Field(default=(), description="Server: port names by rail.")
    rdma_devices: tuple[str, ...] = Field(
        default=(),
        description="Server: RDMA device of each fabric port, by rail, as Linux numbers them; none where not known.",
    )
    rdma_names: tuple[str, ...] = Field(
        default=(),
        description="Server: name of each fabric port's device by its PCI address, by rail; none where not known.",
    )
    nic_slot: NicSlot | None = Field(default=None, description="Server: the connection behind each fabric port.")
    inband_ports: tuple[str, ...] = Field(default=(), description="Server: in-band Ethernet port names.")
    oob_port: str = Field(
        default="", description="Server: port that a management node has in the out-of-band network, beside its BMC."
    )
    fabric: Literal["", "ib", "eth"] = Field(default="", description="Switch: what its ports carry.")
    data_ports: int = Field(default=0, description="Switch: ports for data.")
    data_port_prefix: str = Field(default="", description="Switch: what the names of its data ports begin with.")
    rate_gbps: float = Field(
        default=0,
        description="Switch: rate of one data port, gigabits per second. Storage: of one in-band port; 0 takes the site's rate.",
    )
    manager_port: str = Field(
        default="", description="Switch: port beside the data ports that is meant for a subnet manager; '' for none."
    )
    cages: tuple[Cages, ...] = Field(
        default=(),
        description="Cages of ports whose interface type does not say them, and of those that share a cage with others.",
    )
    pdu: Pdu | None = Field(default=None, description="PDU: its input and its outlets.")
    rating_ka: float | None = Field(
        default=None,
        gt=0,
        description="PDU, shelf: short-circuit current rating at its input, kiloamperes; left out where it is not confirmed.",
    )


class DeviceType(Entry):
    """A NetBox device type, extended."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, defer_build=True, alias_generator=hyphens, populate_by_name=True
    )

    manufacturer: str = Field(description="Maker, as it prints its name.")
    model: str = Field(description="The maker's name of the model.")
    slug: Annotated[
        str, Field(description="Id: the name of the file, and what site files name.", pattern=r"^[-a-z0-9_]+$")
    ]
    part_number: Annotated[str, Field(description="The maker's part number.", alias="part_number")] = ""
    u_height: Annotated[
        float,
        Field(
            description="Height, rack units; 0 for what stands beside them.", alias="u_height", ge=0, multiple_of=0.5
        ),
    ]
    is_full_depth: Annotated[bool, Field(description="Whether it takes both sides of the rack.", alias="is_full_depth")]
    weight: float = Field(description="Mass, in weight_unit.")
    weight_unit: Annotated[Literal["kg", "g", "lb", "oz"], Field(description="Unit of weight.", alias="weight_unit")]
    airflow: Literal["front-to-rear", "rear-to-front", "passive", "mixed"] | None = Field(
        default=None, description="Where the air goes."
    )
    comments: str = Field(default="", description="What a reader has to know beside the figures.")
    interfaces: tuple[Interface, ...] = Field(default=(), description="Its ports.")
    power_ports: tuple[PowerPort, ...] = Field(
        default=(), description="Its inlets, one for each supply; none for what hangs on a DC busbar."
    )
    power_outlets: tuple[PowerOutlet, ...] = Field(default=(), description="PDU: its outlets.")
    bringup: Extension = Field(description="What NetBox has no field for.")
    sources: Mapping[str, str] = Field(
        min_length=1, description="Key (or prefix of keys) -> where its numbers come from."
    )

    @property
    def kind(self) -> Kind:
        """server, switch, pdu or shelf."""
        return self.bringup.kind

    @property
    def mass_kg(self) -> float:
        """Mass in kilograms."""
        return self.weight * KG_PER_UNIT[self.weight_unit]

    @property
    def psu_count(self) -> int:
        """Number of supplies; for devices without a ``psu`` block the number of inlets."""
        return self.bringup.psu.count if self.bringup.psu else len(self.power_ports)

    @property
    def inlet_type(self) -> str:
        """Connector of the inlets ('' for a device that has none); every device here has inlets of one type."""
        return self.power_ports[0].type if self.power_ports else ""

    def port_names(self) -> list[str]:
        """Every interface, ranges expanded, in the order of the entry."""
        return [name for interface in self.interfaces for name in interface.names()]

    def cages(self) -> dict[str, tuple[int, Cage]]:
        """Cage of each port: its number in the device, from 1 in the order of the interfaces, and its kind."""
        shared: dict[str, tuple[str, Cage]] = {}
        for given in self.bringup.cages:
            kind, names = Cage(given.form, given.top, given.each), given.names()
            for i, name in enumerate(names):
                shared[name] = (names[i - i % given.each], kind)
        numbers: dict[str, int] = {}
        found = {}
        for interface in self.interfaces:
            own = Cage(form_of(interface.type), "", 1)
            for name in interface.names():
                first, kind = shared.get(name, (name, own))
                found[name] = (numbers.setdefault(first, len(numbers) + 1), kind)
        return found

    def data_port_names(self) -> list[str]:
        """The data ports of a switch, in the order of the entry."""
        prefix = self.bringup.data_port_prefix
        named = (i.names() for i in self.interfaces if not i.mgmt_only and i.name.startswith(prefix))
        return list(itertools.chain.from_iterable(named))[: self.bringup.data_ports]
