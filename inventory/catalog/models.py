"""The hardware catalogue: facts about models, each number with its source.

A device type is a NetBox device type (same keys, so that entries can be exchanged) plus a ``bringup`` block for what
NetBox has no field for: supplies and their redundancy, power profiles, heat split, ports by use, driver.
Interface names may carry ranges, ``p[1-64]`` or ``swp[1-64]s[0-1]``, as in NetBox. GPUs, rack types, rack-scale
systems, media tables and connectors have their own small models. ``load_catalog()`` reads and checks every file once.
"""

import difflib
import functools
import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from inventory.paths import catalog_dir

KG_PER_UNIT = {"kg": 1.0, "g": 0.001, "lb": 0.45359237, "oz": 0.028349523125}
RANGE = re.compile(r"\[(\d+)-(\d+)\]")

FORM_OF_TYPE = {"osfp": "osfp", "qsfp112": "qsfp112", "qsfp56": "qsfp56", "qsfp28": "qsfp28"}
"""End of a NetBox interface type (`400gbase-x-qsfp112`): form of its cage; twisted pair (`1000base-t`) is 8p8c."""
ACCEPTS: Mapping[str, tuple[str, ...]] = {
    "qsfp56": ("qsfp56", "qsfp28"),
    "qsfp112": ("qsfp112", "qsfp56", "qsfp28"),
}
"""Form of a cage: forms of plugs that it takes, where that is more than its own. A QSFP112 cage takes slower QSFPs and the
card shifts down (NVIDIA LinkX 100G-PAM4 product line overview)."""

Form = Literal["osfp", "qsfp112", "qsfp56", "qsfp28", "8p8c"]
Top = Literal["", "finned", "flat"]
Medium = Literal["dac", "acc", "mmf", "smf", "cat6a"]
Kind = Literal["server", "switch", "pdu", "shelf"]
T = TypeVar("T", bound=BaseModel)


class CatalogError(Exception):
    """An entry that is missing or wrong; the message names the file or the nearest slug."""


def _hyphens(name: str) -> str:
    return name.replace("_", "-")


class Entry(BaseModel):
    """Base of the catalogue's models."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def expanded(name: str) -> list[str]:
    """The names that the ranges of a name stand for, the last range running fastest: p[1-2] is p1 and p2."""
    fixed = RANGE.split(name)[::3]
    ranges = [range(int(first), int(last) + 1) for first, last in RANGE.findall(name)]
    return [
        fixed[0] + "".join(f"{n}{tail}" for n, tail in zip(numbers, fixed[1:], strict=True))
        for numbers in itertools.product(*ranges)
    ]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class PowerPort(Entry):
    """A supply's inlet (NetBox ``power-ports``)."""

    name: str
    type: str = Field(description="Connector, a key of catalog/connectors.yaml.")
    maximum_draw: int | None = Field(default=None, description="Watts.")
    allocated_draw: int | None = Field(default=None, description="Watts.")


class PowerOutlet(Entry):
    """An outlet of a rack PDU (NetBox ``power-outlets``); name is the outlet's number."""

    name: str
    type: str
    power_port: str = ""
    feed_leg: Literal["A", "B", "C"] = Field(description="Phase leg: A is L1, B is L2, C is L3.")
    bank: str = Field(description="Breaker that the outlet hangs on.")


class Interface(Entry):
    """A port, or ranges of ports (NetBox ``interfaces``)."""

    name: str
    type: str
    mgmt_only: bool = False

    def names(self) -> list[str]:
        """The port names that its ranges stand for, the last range running fastest."""
        return expanded(self.name)


class Psu(Entry):
    """Power supplies of a device (of a power shelf: its modules); in a server type what the model is sold with."""

    count: int
    rating_w: float = Field(description="Output rating of one supply, watts.")
    redundancy: str = Field(description="Needed + spare: 4+2.")
    input_v_min: float
    input_v_max: float
    efficiency: float = Field(gt=0, le=1)


class PowerProfiles(Entry):
    """Draw at the inlets, watts; the same three profiles as in the site file."""

    seed_w: float
    measured_w: float
    nameplate_w: float


class Pdu(Entry):
    """What a rack PDU is fed with and how it is spoken to."""

    driver: str = Field(description="Table of OIDs in network/drivers.")
    input_type: str
    input_a: float = Field(description="Rated input current, amperes per phase.")
    phases: Literal[1, 3]
    voltage_v: float = Field(description="Line-to-line input voltage, volts.")
    outlet_v: float = Field(description="Voltage at the outlets, volts.")
    bank_a: float = Field(description="Breaker of one bank, amperes.")


class NicSlot(Entry):
    """How a fabric port of a server reaches its host; the usable rate follows from it, not from the card (ERR-09)."""

    pcie_gen: Literal[3, 4, 5, 6]
    x16: Literal[1, 2] = Field(description="x16 connections behind one port; 2 is socket direct.")


class LaneSwitch(Entry):
    """PCIe switches of a board: ports to the processors and ports to devices, in lanes each."""

    count: int = Field(description="Switches of this kind on the board.")
    up_lanes: int = Field(description="Lanes of one switch to its processor.")
    down: Mapping[str, int] = Field(
        description="Devices behind one switch: what (gpu, nic, drive) -> lanes of all of them."
    )


class Board(Entry):
    """Lanes of a server board: what its processors have and what hangs on them directly or behind switches."""

    cpu_lanes: int = Field(description="PCIe lanes of one processor.")
    pcie_gen: Literal[3, 4, 5, 6]
    direct: Mapping[str, int] = Field(
        default_factory=dict, description="Devices on the processors: what -> lanes of all."
    )
    switches: tuple[LaneSwitch, ...] = ()
    coherent: tuple[str, ...] = Field(
        default=(), description="Devices that reach their processor by another link than PCIe (NVLink-C2C): gpu."
    )

    def lanes(self, device: str) -> int:
        """Lanes that all devices of a kind have."""
        return self.direct.get(device, 0) + sum(s.count * s.down.get(device, 0) for s in self.switches)


class Memory(Entry):
    """How a server's memory is made up."""

    dimm_gib: float = Field(gt=0, description="Size of one module (or package), GiB.")
    dimms: int = Field(gt=0, description="Modules in the server.")
    channels: int = Field(gt=0, description="Memory channels of one processor.")
    per_channel: int = Field(default=2, gt=0, description="Slots per channel.")
    gb_s: float = Field(default=0, description="Bandwidth of one channel, GB/s; 0 where not known.")
    soldered: bool = Field(default=False, description="Memory on the board: nothing to populate.")

    @property
    def balanced(self) -> tuple[int, ...]:
        """Modules of one processor that fill every channel alike (ERR-44): one a channel up to `per_channel`."""
        return tuple(n * self.channels for n in range(1, self.per_channel + 1))


class Drives(Entry):
    """Drives of one kind in a server."""

    use: Literal["boot", "data"]
    count: int = Field(gt=0)
    tb: float = Field(gt=0, description="Capacity of one drive, TB (10^12 bytes).")
    raid: Literal["0", "1", "5", "10"]
    dwpd: float = Field(default=0, description="Drive writes per day over its warranty; 0 where not known.")
    warranty_years: float = Field(default=5)


class InletRange(Entry):
    """Air temperatures at the inlet that a vendor permits in operation, Celsius."""

    min: float
    max: float


class Cage(NamedTuple):
    """A kind of cage: its form, the top of the plugs that it takes and its ports; form '' where a model does not say it."""

    form: str
    top: str
    ports: int

    def __str__(self) -> str:
        words = (f"{self.ports}-port" if self.ports > 1 else "", self.form, self.top)
        return " ".join(word for word in words if word) or "unknown"


class Cages(Entry):
    """Cages of a device: which of its ports share one, and what plugs into it."""

    ports: tuple[str, ...] = Field(
        min_length=1, description="Ports in the order of their cages; names with ranges as in interfaces."
    )
    each: int = Field(default=1, gt=0, description="Ports of one cage: those that follow one another share it.")
    form: Form
    top: Top = Field(
        default="",
        description="OSFP: plugs with fins (air-cooled switches) or flat (cards with a heat sink of their own).",
    )

    def names(self) -> list[str]:
        """The ports, ranges expanded."""
        return [name for given in self.ports for name in expanded(given)]


class Extension(Entry):
    """The ``bringup`` block of a device type: what NetBox has no field for."""

    kind: Kind
    psu: Psu | None = None
    power: PowerProfiles
    air_fraction: float = Field(ge=0, le=1, description="Share of the heat that goes to air; the rest goes to liquid.")
    inlet_c: InletRange | None = Field(
        default=None,
        description="Air at the inlet that the vendor permits in operation; None where not known (not judged).",
    )
    depth_mm: float | None = None
    gpus: int = Field(default=0, description="Server: GPUs.")
    cpus: int = Field(default=0, description="Server: processors (sockets).")
    cores: int = Field(default=0, description="Server: cores of all processors together.")
    memory_gib: int = Field(default=0, description="Server: installed memory, GiB.")
    bios: Mapping[str, str] = Field(default_factory=dict, description="Server: Redfish BIOS attributes of its profile.")
    board: Board | None = Field(default=None, description="Server: PCIe lanes.")
    memory: Memory | None = Field(default=None, description="Server: how memory_gib is made up.")
    drives: tuple[Drives, ...] = Field(default=(), description="Server: its drives.")
    fabric_ports: tuple[str, ...] = Field(default=(), description="Server: port names by rail.")
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
    pdu: Pdu | None = None
    rating_ka: float | None = Field(
        default=None,
        gt=0,
        description="PDU, shelf: short-circuit current rating at its input, kiloamperes; left out where it is not confirmed.",
    )


class DeviceType(Entry):
    """A NetBox device type, extended."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_hyphens, populate_by_name=True)

    manufacturer: str
    model: str
    slug: Annotated[str, Field(pattern=r"^[-a-z0-9_]+$")]
    part_number: Annotated[str, Field(alias="part_number")] = ""
    u_height: Annotated[float, Field(alias="u_height", ge=0, multiple_of=0.5)]
    is_full_depth: Annotated[bool, Field(alias="is_full_depth")]
    weight: float
    weight_unit: Annotated[Literal["kg", "g", "lb", "oz"], Field(alias="weight_unit")]
    airflow: Literal["front-to-rear", "rear-to-front", "passive", "mixed"] | None = None
    comments: str = ""
    interfaces: tuple[Interface, ...] = ()
    power_ports: tuple[PowerPort, ...] = ()
    power_outlets: tuple[PowerOutlet, ...] = ()
    bringup: Extension
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
            own = Cage(_form(interface.type), "", 1)
            for name in interface.names():
                first, kind = shared.get(name, (name, own))
                found[name] = (numbers.setdefault(first, len(numbers) + 1), kind)
        return found

    def data_port_names(self) -> list[str]:
        """The data ports of a switch, in the order of the entry."""
        prefix = self.bringup.data_port_prefix
        named = (i.names() for i in self.interfaces if not i.mgmt_only and i.name.startswith(prefix))
        return list(itertools.chain.from_iterable(named))[: self.bringup.data_ports]


class SystemPart(Entry):
    """Devices of one model in a rack-scale system: one for each rack unit in ``u``, which is the lowest it fills."""

    role: Literal["compute", "nvlink", "oob", "shelf"]
    model: str = Field(description="Device type slug.")
    u: tuple[int, ...] = Field(min_length=1)


class System(Entry):
    """A rack that is bought whole: trays on a DC busbar, the power shelves that feed it, one NVLink domain."""

    slug: str
    manufacturer: str
    model: str
    rack: str = Field(description="Rack type slug.")
    parts: tuple[SystemPart, ...]
    sources: Mapping[str, str] = Field(min_length=1)

    def part(self, role: str) -> SystemPart | None:
        """The part with a role, None if the system has none."""
        return next((part for part in self.parts if part.role == role), None)

    def count(self, role: str) -> int:
        """Devices with a role."""
        return sum(len(part.u) for part in self.parts if part.role == role)


class Gpu(Entry):
    """A GPU model."""

    slug: str
    manufacturer: str
    model: str
    form_factor: Literal["sxm", "pcie"]
    tdp_w: float
    memory_gib: float
    nvlink_gb_s: float = Field(description="Both directions together, gigabytes per second; 0 where there is none.")
    aux_connectors: int = Field(
        description="Power connectors on the card itself; a baseboard module has none (ERR-07)."
    )
    peak_tflops: float = Field(
        default=0, description="Dense BF16 rate on tensor cores, TFLOP/s; 0 where not known (MFU is then not reported)."
    )
    nvml_name: str = Field(default="", description="Product name as NVML says it.")
    pcie_gen: int = Field(default=0, description="PCIe generation; 0 where not known (not judged).")
    pcie_width: int = Field(default=0, description="PCIe lanes; 0 where not known (not judged).")
    nvlinks: int = Field(default=0, description="NVLink links that must be up.")
    sources: Mapping[str, str] = Field(min_length=1)


U_M = 0.04445
"""Height of a rack unit in metres (EIA-310: 1.75 inch)."""


class RackType(Entry):
    """A rack (NetBox rack type)."""

    manufacturer: str
    model: str
    slug: str
    form_factor: str
    width: int = Field(description="Inches between the posts.")
    u_height: int
    outer_width: float
    outer_depth: float
    outer_unit: Literal["mm"]
    weight: float
    max_weight: float
    weight_unit: Literal["kg"]
    sources: Mapping[str, str] = Field(min_length=1)


class Plug(Entry):
    """What a part puts into a cage: a transceiver that is bought by itself, or the fixed end of a cable."""

    name: str
    form: Form
    top: Top = Field(default="", description="'' for one that is made for either.")
    ports: int = Field(default=1, gt=0, description="Ports that it fills: all of its cage.")
    power_w: float = Field(default=0, ge=0, description="Most that it draws, watts; 0 for passive copper.")
    number: str = Field(default="", description="A maker's part number, as an example of the class.")
    source: str = ""

    def fits(self, cage: Cage) -> bool:
        """Whether it goes into such a cage; a cage of unknown form takes any plug of one port."""
        if not cage.form:
            return self.ports == 1
        form = self.form in ACCEPTS.get(cage.form, (cage.form,))
        return form and self.ports == cage.ports and self.top in ("", cage.top)


class MediaPart(Entry):
    """A kind of cable for one rate.

    fibre: each link has a fibre of its own between two transceivers. straight: a cable with its plugs on, which carries all
    ports of a cage to one other cage. splitter: one plug in a cage of several ports, a tail for each of them.
    """

    part: str
    medium: Medium
    shape: Literal["fibre", "straight", "splitter"]
    rate_gbps: float = Field(description="Rate of one link.")
    reach_m: float = Field(gt=0)
    min_m: float = 0
    fibre: str = Field(
        default="", description="The fibre between two transceivers; '' where the plugs are on the cable."
    )
    plugs: Annotated[tuple[Plug, ...], BeforeValidator(_tuple)] = Field(min_length=1)
    source: str

    def plug(self, cage: Cage) -> Plug | None:
        """What it puts into such a cage."""
        return next((plug for plug in self.plugs if plug.fits(cage)), None)

    def joins(self, a: Cage, b: Cage) -> bool:
        """Whether it has a plug for either cage, and its shape goes from one to the other."""
        if self.plug(a) is None or self.plug(b) is None:
            return False
        return self.shape == "fibre" or (a.ports == b.ports) == (self.shape == "straight")


class MediaTable(Entry):
    """Parts with their reach, per part and not per class."""

    slug: str
    title: str
    parts: Annotated[tuple[MediaPart, ...], BeforeValidator(_tuple)]


class StorageDrive(Entry):
    """A drive of the shared storage."""

    media: Literal["hdd", "nvme"]
    tb: float = Field(gt=0, description="Capacity, TB (10^12 bytes).")
    write_mb_s: float = Field(gt=0, description="Sequential write rate, MB/s.")
    read_mb_s: float = Field(gt=0, description="Sequential read rate, MB/s.")
    rebuild_mb_s: float = Field(gt=0, description="Rate at which the data of a lost drive is written again, MB/s.")
    kg: float = Field(ge=0)


class StorageEnclosure(Entry):
    """Drives and what serves them, bought as one: a JBOD with its share of servers, or a flash server."""

    device: str = Field(description="Device type slug; its weight is without drives, its nameplate with them.")
    drives: int = Field(gt=0)
    spare_drives: int = Field(ge=0, description="Drives (or their room) that are kept free for rebuilds.")
    data: int = Field(gt=0, description="Data drives (or chunks) of a stripe.")
    parity: int = Field(ge=0, description="Parity drives (or chunks) of a stripe.")
    spread: bool = Field(
        default=False, description="Whether every chunk of a stripe lies in another enclosure, whose loss costs one."
    )
    write_gb_s: float = Field(gt=0, description="Most that its controllers write, GB/s.")
    read_gb_s: float = Field(gt=0, description="Most that its controllers read, GB/s.")

    @property
    def least(self) -> int:
        """Enclosures that there are at least: one a chunk where stripes are spread over them (ERR-45)."""
        return self.data + self.parity if self.spread else 1


class StorageMetadata(Entry):
    """Servers of the metadata; count 0 where every enclosure serves metadata too."""

    ops_s: float = Field(gt=0, description="Operations per second of one server, or of one enclosure.")
    least: int = Field(ge=0, description="Servers that there are at least; 0: the enclosures do it.")
    device: str = Field(default="", description="Device type slug of a server; '' where the enclosures do it.")


class StorageBlock(Entry):
    """A building block of shared storage and what one of it gives."""

    slug: str
    title: str
    kinds: tuple[str, ...] = Field(min_length=1, description="Kinds of storage.kind that run on it.")
    shared_posix: bool = Field(description="Whether jobs mount it as a file system.")
    in_servers: bool = Field(
        default=False, description="Whether the storage servers of the plan hold it: nothing is bought."
    )
    suits: str = Field(description="What it is good at.")
    watch: str = Field(description="What to look out for.")
    licence: str
    formatted: float = Field(gt=0, le=1, description="Share of the space after parity that files get.")
    drive: StorageDrive
    enclosure: StorageEnclosure
    metadata: StorageMetadata
    sources: Mapping[str, str] = Field(min_length=1)

    @property
    def devices(self) -> tuple[str, ...]:
        """Device types that it is made of."""
        return (self.enclosure.device, *((self.metadata.device,) if self.metadata.least else ()))


class Connector(Entry):
    """A power connector: what it mates with and what it carries."""

    mates: tuple[str, ...]
    iec_a: float = Field(description="Rated current, IEC, amperes.")
    nec_a: float = Field(description="Rated current, North America, amperes.")
    source: str


class Catalog:
    """Everything under inventory/catalog, by slug."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.devices = _read_folder(root / "device-types", DeviceType, lambda d: d.slug)
        self.gpus = _read_folder(root / "gpus", Gpu, lambda g: g.slug)
        self.racks = _read_folder(root / "rack-types", RackType, lambda r: r.slug)
        self.systems = _read_folder(root / "systems", System, lambda s: s.slug)
        self.storage = _read_folder(root / "storage", StorageBlock, lambda b: b.slug)
        for block in self.storage.values():
            for slug in block.devices:
                self.device(slug)
        self.media_tables = _read_folder(root / "media", MediaTable, lambda m: m.slug)
        raw = read_yaml(root / "connectors.yaml")
        self.connectors = {
            name: _validate(Connector, {**body, "mates": tuple(body["mates"])}, root / "connectors.yaml")
            for name, body in raw.items()
        }

    def device(self, slug: str) -> DeviceType:
        """A device type; CatalogError naming the nearest slug if there is none."""
        return _lookup(self.devices, slug, "device type")

    def gpu(self, slug: str) -> Gpu:
        """A GPU model; CatalogError naming the nearest slug if there is none."""
        return _lookup(self.gpus, slug, "GPU")

    def rack(self, slug: str) -> RackType:
        """A rack type; CatalogError naming the nearest slug if there is none."""
        return _lookup(self.racks, slug, "rack type")

    def system(self, slug: str) -> System:
        """A rack-scale system; CatalogError naming the nearest slug if there is none."""
        return _lookup(self.systems, slug, "rack-scale system")

    def media(self, slug: str) -> MediaTable:
        """A media table; CatalogError naming the nearest slug if there is none."""
        return _lookup(self.media_tables, slug, "media table")

    def connector(self, name: str) -> Connector:
        """A power connector; CatalogError naming the nearest one if there is none."""
        return _lookup(self.connectors, name, "power connector")


@functools.cache
def load_catalog(root: Path | None = None) -> Catalog:
    """The catalogue under ``root`` (default: the shipped one), read once per process."""
    return Catalog(root or catalog_dir())


def _form(interface_type: str) -> str:
    if re.search(r"base-tx?$", interface_type):
        return "8p8c"
    return FORM_OF_TYPE.get(interface_type.rsplit("-", 1)[-1], "")


def _lookup(entries: dict[str, T], slug: str, what: str) -> T:
    if slug in entries:
        return entries[slug]
    near = difflib.get_close_matches(slug, entries, n=1, cutoff=0.4)
    nearest = f"; nearest: {near[0]}" if near else ""
    raise CatalogError(f"no {what} {slug!r} in the catalogue{nearest}; known: {', '.join(sorted(entries))}")


def _read_folder(folder: Path, model: type[T], key: Callable[[T], str]) -> dict[str, T]:
    entries: dict[str, T] = {}
    for path in sorted(folder.glob("*.yaml")):
        entry = _validate(model, read_yaml(path), path)
        slug = key(entry)
        if slug != path.stem:
            raise CatalogError(f"{path}: slug {slug!r} differs from the file name")
        entries[slug] = entry
    return entries


def _validate(model: type[T], raw: Any, path: Path) -> T:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise CatalogError("\n".join([f"{path}: not a valid catalogue entry", *lines])) from None


def read_yaml(path: Path) -> Any:
    """A data file of our own. The C parser is fast and takes no care of hostile nesting, so a site file is not read with it."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except (OSError, yaml.YAMLError) as error:
        raise CatalogError(f"{path}: cannot be read: {error}") from None
