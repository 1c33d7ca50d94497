"""The site file as data models: the one source of validation, documentation, JSON Schema and editor completion.

Attributes mirror the YAML keys exactly (``cooling.class`` is ``cooling.class_``, since ``class`` is a Python word).
Units stand in key names: ``_w _kw _a _v _m _u _c _s _pb _gbps _kg _pct _weeks``. Every model is strict (no silent
conversion), refuses unknown keys and is immutable. Rules that span several keys are in ``inventory.rules``.
"""

import datetime
import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

WITHOUT_HOST_BITS = "a prefix without host bits: "
LIMITS_DOC = "Every limit that a check judges by; the known keys are in inventory/limits.yaml."

LEADTIME_ITEMS = (
    "gpu", "server", "switch", "optics", "rack", "pdu", "ups", "generator", "transformer", "switchgear", "cooling",
    "storage", "facility",
)  # fmt: skip
BOM_ITEMS = (
    "gpu", "cpu", "dimm", "drive", "supply", "nic port", "cold plate", "server", "system", "switch", "pdu", "shelf",
    "rack", "manifold", "cdu", "cable", "transceiver", "cord", "breaker", "ups module", "blanking panel", "label",
    "storage enclosure", "storage drive", "metadata server",
)  # fmt: skip
"""Items of the bill of materials: what prices, owners, tranches and failure rates name."""


class Section(BaseModel):
    """Base of every part of the site file: strict, closed, immutable."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_name=False,
        validate_by_alias=True,
        allow_inf_nan=False,
        regex_engine="python-re",
    )


def _network(value: Any) -> Any:
    if isinstance(value, ipaddress.IPv4Network):
        return value
    if not isinstance(value, str):
        raise ValueError("an IPv4 prefix such as 10.77.0.0/24")
    if "/" not in value:
        raise ValueError("an IPv4 prefix with its length, such as 10.77.0.0/24")
    try:
        interface = ipaddress.IPv4Interface(value)
    except ValueError:
        raise ValueError("an IPv4 prefix such as 10.77.0.0/24") from None
    if interface.ip != interface.network.network_address:
        raise ValueError(f"{WITHOUT_HOST_BITS}{interface.network}")
    return interface.network


def _address(value: Any) -> Any:
    if isinstance(value, ipaddress.IPv4Address):
        return value
    if not isinstance(value, str):
        raise ValueError("an IPv4 address such as 10.77.0.1")
    try:
        return ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError("an IPv4 address such as 10.77.0.1") from None


def _secret_reference(value: Any) -> Any:
    if isinstance(value, str) and re.match(r"^(env|file|vault):\S", value):
        return value
    raise ValueError("a reference: env:NAME, file:PATH or vault:PATH#FIELD, never the secret itself")


def _version(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError('a version in quotes, such as "22.05.8" (without quotes YAML reads a number or a date)')
    if value.strip().lower() in {"latest", "newest", "current", "stable", "any", "*", ""}:
        raise ValueError("a pinned version: what 'latest' means differs between two days and two nodes (ERR-24)")
    return value


Network = Annotated[
    ipaddress.IPv4Network,
    BeforeValidator(_network),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^\d+\.\d+\.\d+\.\d+/\d+$"}),
]
Address = Annotated[
    ipaddress.IPv4Address,
    BeforeValidator(_address),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "format": "ipv4"}),
]
SecretReference = Annotated[
    str,
    BeforeValidator(_secret_reference),
    WithJsonSchema({"type": "string", "pattern": r"^(env|file|vault):\S+"}),
]
Version = Annotated[str, BeforeValidator(_version), WithJsonSchema({"type": "string", "minLength": 1})]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9_]*$")]
Text = Annotated[str, Field(min_length=1)]
Feed = Annotated[str, Field(pattern=r"^[A-Z]$")]

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]
Tier = Literal["inference", "training", "experimentation"]
Count = Annotated[int, Field(ge=1, le=200_000)]


class Gpu(Section):
    """The accelerator that the cluster is built from."""

    sku: Slug = Field(description="GPU slug in inventory/catalog/gpus.")
    form_factor: Literal["sxm", "pcie"] = Field(
        description="Baseboard module (sxm) or card (pcie); decides which assembly steps apply."
    )
    tdp_w: float = Field(ge=30, le=3000, description="Thermal design power of one GPU, watts.")


class ServerPower(Section):
    """Three named power profiles of one server, watts at its inlets; never mixed (ERR-01)."""

    seed_w: float = Field(ge=50, le=200_000, description="Rule-of-thumb figure of the planning documents, watts.")
    measured_w: float = Field(ge=50, le=200_000, description="Highest draw measured under training load, watts.")
    nameplate_w: float = Field(ge=50, le=200_000, description="Rated maximum input, watts: circuits and cooling.")
    cap_w: float | None = Field(
        default=None,
        ge=50,
        le=200_000,
        description="Power cap that BMC and driver enforce at all times, watts. The loss of a feed is judged at it; "
        "purchase, circuits with all feeds up and heat stay at nameplate.",
    )


class SupplyGroup(Section):
    """The supplies that together feed one load, and how they are shared among the feeds."""

    count: int = Field(ge=1, le=24, description="Supplies of the group.")
    rating_w: float = Field(ge=50, le=200_000, description="Output rating of one supply at input_v, watts.")
    split_by_feed: dict[Feed, Annotated[int, Field(ge=0, le=24)]] = Field(
        min_length=1, description="Supplies on each feed; the numbers add up to count."
    )
    input_v: float = Field(
        ge=48, le=800, description="Voltage at the supply's inlet, volts (line to neutral at 415 V: 240)."
    )
    redundancy: Annotated[str, Field(pattern=r"^\d+\+\d+$")] = Field(
        description="Supplies needed at full load + spare ones, such as 4+2; per model (ERR-05)."
    )


class ServerPsu(SupplyGroup):
    """Power supplies of one server, each with a cord to a rack PDU."""


class PowerShelves(SupplyGroup):
    """Power shelves of one rack-scale system: each has a circuit of its own, all feed the rack's DC busbar."""


class ServerNic(Section):
    """Compute-fabric ports of one server."""

    ports: int = Field(ge=1, le=32, description="Fabric ports per server, one per rail.")
    rate_gbps: Literal[100, 200, 400, 800] = Field(description="Rate of one port, gigabits per second.")
    pcie_gen: Literal[3, 4, 5, 6] = Field(description="PCIe generation of the slots; caps the usable rate (ERR-09).")
    x16_per_port: Literal[1, 2] = Field(
        default=1, description="x16 connections to the host behind one port; 2 is socket direct (ConnectX-8 on Gen5)."
    )


class Server(Section):
    """The GPU servers."""

    model: Slug = Field(description="Device type slug in inventory/catalog/device-types.")
    count: Count = Field(description="Number of GPU servers.")
    power: ServerPower = Field(description="Power profiles of one server.")
    psu: ServerPsu | None = Field(
        default=None, description="Power supplies of one server; mandatory unless it is a tray of a rack-scale system."
    )
    system: Slug | None = Field(
        default=None,
        description="Rack-scale system that the servers are trays of: a slug in inventory/catalog/systems.",
    )
    shelves: PowerShelves | None = Field(
        default=None, description="Power shelves of one rack-scale system; mandatory with system, in place of psu."
    )
    nic: ServerNic = Field(description="Compute-fabric ports of one server.")

    @property
    def supplies(self) -> SupplyGroup:
        """What feeds the servers: the supplies of each one, or the shelves of each rack-scale system."""
        group = self.psu or self.shelves
        if group is None:
            raise ValueError("neither server.psu nor server.shelves: the rules of the site file refuse this")
        return group


class ServiceNode(Section):
    """Servers that are not GPU servers."""

    role: Literal["controller", "storage", "management"] = Field(
        description="What the nodes do. Management nodes alone have a leg in the out-of-band network."
    )
    model: Slug = Field(description="Device type slug in inventory/catalog/device-types.")
    count: Annotated[int, Field(ge=1, le=1000)] = Field(description="Number of nodes in this role.")


class Fabric(Section):
    """The rail-optimised compute fabric."""

    kind: Literal["ib", "roce"] = Field(
        description="InfiniBand or RoCEv2 Ethernet; decides which steps apply (ERR-12)."
    )
    switch_model: Slug = Field(description="Switch slug in inventory/catalog/device-types.")
    radix: int = Field(ge=4, le=1024, multiple_of=2, description="Ports per switch that the design uses; even.")
    bisection: Share = Field(description="Bisection bandwidth as a share of full: 1.0 is non-blocking (ERR-10).")
    rails: int = Field(ge=1, le=32, description="Rails: NIC k of every server goes to the leaves of rail k.")
    unit_nodes: int = Field(
        ge=1, le=1024, description="Servers of one scalable unit (those that share a set of leaves)."
    )
    tiers: Literal["auto", 1, 2, 3] = Field(default="auto", description="Switch tiers; auto takes the fewest that fit.")
    leaf_uplinks: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None,
        description="Uplinks per leaf where they are given; default: as many as the bisection needs (RC-051).",
    )
    congestion_control: Literal["dcqcn", "pfc_only", "spectrum_x"] | None = Field(
        default=None, description="RoCE only, and mandatory there: how the fabric stays lossless."
    )
    subnet_managers: tuple[Literal["controller", "storage", "management"], ...] = Field(
        default=(),
        max_length=8,
        description="InfiniBand only: roles of the service nodes that run a subnet manager, the first one as master; "
        "each entry takes the first node of its role that has none yet. S060 asks for two.",
    )


class Inband(Section):
    """The in-band Ethernet (storage, provisioning of jobs, users): BGP unnumbered leaves and spines."""

    nos: Literal["frr"] = Field(description="Network operating system: a folder of network/nos.")
    spine_model: Slug = Field(description="Spine switch slug in the catalogue.")
    leaf_model: Slug = Field(description="Leaf switch slug in the catalogue.")
    spines: Annotated[int, Field(ge=1, le=256)] = Field(description="Number of spines; each leaf has a link to each.")
    leaves: Annotated[int, Field(ge=1, le=4096)] = Field(description="Number of leaves.")
    links_per_node: Annotated[int, Field(ge=1, le=8)] = Field(
        description="In-band links per server, each to another leaf."
    )
    rate_gbps: Literal[1, 10, 25, 40, 50, 100, 200, 400, 800] = Field(
        description="Rate of one link, gigabits per second."
    )
    mtu: Annotated[int, Field(ge=1280, le=9216)] = Field(description="IP MTU of hosts and links, bytes (S054: 9000).")
    asn_base: Annotated[int, Field(ge=64512, le=4294967294)] = Field(
        description="First private AS number (RFC 6996); spines share it, leaves and nodes count up from it."
    )


class Oob(Section):
    """The out-of-band management network."""

    switch_model: Slug = Field(description="Management switch slug in the catalogue.")
    switches: Annotated[int, Field(ge=1, le=4096)] = Field(description="Number of management switches.")


class Media(Section):
    """Cables and transceivers."""

    reach_table: Slug = Field(description="Media table in inventory/catalog/media: parts with their reach.")


class NetworkRack(Section):
    """Racks without GPU servers, where they differ from the compute rack."""

    model: Slug = Field(description="Rack type slug in inventory/catalog/rack-types.")
    height_u: Annotated[int, Field(ge=1, le=60)] = Field(description="Usable height, rack units.")
    mass_limit_kg: Annotated[float, Field(ge=50, le=5000)] = Field(description="Permitted load of the rack, kilograms.")
    power_limit_kw: Annotated[float, Field(ge=1, le=600)] = Field(description="Permitted draw of the rack, kilowatts.")


class Rack(Section):
    """The compute rack and what may stand in it."""

    model: Slug = Field(description="Rack type slug in inventory/catalog/rack-types.")
    servers: Annotated[int, Field(ge=1, le=96)] = Field(description="GPU servers per rack.")
    height_u: Annotated[int, Field(ge=1, le=60)] = Field(description="Usable height, rack units.")
    mass_limit_kg: Annotated[float, Field(ge=50, le=5000)] = Field(description="Permitted load of the rack, kilograms.")
    power_limit_kw: Annotated[float, Field(ge=1, le=600)] = Field(description="Permitted draw of the rack, kilowatts.")
    network: NetworkRack | None = Field(
        default=None, description="Racks of switches and service nodes, where they differ; default: the same rack."
    )


class Room(Section):
    """The data hall."""

    rows: Annotated[int, Field(ge=1, le=1000)] = Field(description="Rows of racks.")
    racks_per_row: Annotated[int, Field(ge=1, le=500)] = Field(description="Racks in one row.")
    rack_pitch_m: Annotated[float, Field(ge=0.4, le=2)] = Field(
        description="Distance of rack centres in a row, metres."
    )
    row_pitch_m: Annotated[float, Field(ge=1, le=20)] = Field(description="Distance of row centres, metres.")
    tray_height_m: Annotated[float, Field(ge=0, le=10)] = Field(
        description="Height of the cable tray over the floor, metres."
    )
    slack_m: Annotated[float, Field(ge=0, le=20)] = Field(description="Slack per cable, metres, both ends together.")
    altitude_m: Annotated[float, Field(ge=-450, le=5000)] = Field(
        description="Height over sea level, metres (air density)."
    )
    floor_load_kg_m2: Annotated[float, Field(ge=100, le=10_000)] = Field(
        description="Permitted floor load, kilograms per square metre."
    )


class RackCircuit(Section):
    """The circuit that feeds one rack PDU or power shelf."""

    breaker_a: Annotated[float, Field(ge=6, le=1000)] = Field(description="Breaker rating, amperes.")
    phases: Literal[1, 3] = Field(description="Phases of the circuit.")


class RackPdu(Section):
    """The rack PDUs."""

    model: Slug = Field(description="Rack PDU slug in the catalogue.")
    per_feed: Annotated[int, Field(ge=1, le=4)] = Field(default=1, description="PDUs per rack on each feed.")


class Power(Section):
    """Distribution from the feeds to the outlets."""

    voltage_v: Annotated[float, Field(ge=100, le=1000)] = Field(
        description="Line-to-line voltage of the rack circuits, volts."
    )
    code: Literal["nec", "iec"] = Field(description="Electrical code that the derating comes from.")
    derating: Share = Field(description="Continuous-load share of a breaker: NEC 0.8, IEC sites up to 1.0.")
    feeds: tuple[Feed, ...] = Field(min_length=1, max_length=8, description="Independent feeds, such as [A, B].")
    pue: Annotated[float, Field(ge=1, le=3)] = Field(description="Facility power over IT power.")
    overhead_pct: tuple[Percent, Percent] = Field(
        description="Planning overhead range on top of the IT load, percent: [low, high]."
    )
    power_factor: Annotated[float, Field(ge=0.5, le=1)] = Field(default=1.0, description="Power factor of the IT load.")
    profile: Literal["seed", "measured", "nameplate"] = Field(
        default="nameplate", description="Profile that circuits are judged at; anything but nameplate is a finding."
    )
    rack_circuit: RackCircuit = Field(description="The circuit behind each rack PDU.")
    shelf_circuit: RackCircuit | None = Field(
        default=None, description="The circuit (busway tap) behind each power shelf; mandatory with server.system."
    )
    rack_pdu: RackPdu = Field(description="The rack PDUs.")


class Ups(Section):
    """Uninterruptible power supply."""

    module_kw: Annotated[float, Field(ge=1, le=5000)] = Field(description="Rating of one module, kilowatts.")
    redundancy: Literal["n", "n+1", "n+2", "2n"] = Field(description="Module redundancy per UPS block (ERR-45).")
    scope: Literal["it", "it_and_cooling"] = Field(description="What the UPS carries.")
    autonomy_min: Annotated[float, Field(ge=0, le=240)] = Field(description="Battery time at full load, minutes.")


class Generator(Section):
    """Standby generation."""

    present: bool = Field(description="Whether the site has generators; without them the risk is documented (ERR-18).")
    start_s: Annotated[float, Field(gt=0, le=600)] | None = Field(
        default=None, description="Time from loss of utility to load accepted, seconds; mandatory when present."
    )


class Coolant(Section):
    """The coolant loop between distribution units and liquid-cooled servers; propylene glycol, 25 % by volume."""

    rise_k: Annotated[float, Field(ge=2, le=30)] = Field(description="Design rise from supply to return, kelvin.")
    server_max_c: Annotated[float, Field(ge=20, le=70)] = Field(
        description="Highest supply temperature that the servers allow, Celsius."
    )
    cdu_kw: Annotated[float, Field(ge=10, le=10_000)] = Field(
        description="Heat that one coolant distribution unit moves at the design rise, kilowatts."
    )


class Cooling(Section):
    """Heat removal."""

    kind: Literal["air", "liquid"] = Field(description="Air-cooled or direct liquid-cooled servers.")
    class_: Literal["A1", "A2", "A3", "A4", "H1"] = Field(
        alias="class", description="ASHRAE TC9.9 class of the pool; H1 recommends 18-22 C (ERR-26)."
    )
    n_plus: Annotated[int, Field(ge=0, le=4)] = Field(
        description="Spare cooling units per zone; with kind liquid also of the coolant distribution units."
    )
    supply_c: Annotated[float, Field(ge=5, le=50)] = Field(description="Supply temperature of air or coolant, Celsius.")
    dewpoint_c: Annotated[float, Field(ge=-20, le=30)] = Field(description="Highest dew point of the room, Celsius.")
    chilled_water: bool = Field(
        default=False, description="Whether a chilled-water plant serves the room (steps for it apply)."
    )
    coolant: Coolant | None = Field(
        default=None, description="The coolant loop; with kind liquid, and mandatory there."
    )


class Checkpoint(Section):
    """What a training checkpoint weighs and how long it may stall the job."""

    bytes_per_param: Annotated[float, Field(ge=1, le=64)] = Field(
        description="Bytes per parameter (weights and optimiser)."
    )
    params_b: Annotated[float, Field(gt=0, le=100_000)] = Field(
        description="Parameters of the largest model, billions."
    )
    stall_s: Annotated[float, Field(gt=0, le=3600)] = Field(description="Permitted stall while writing, seconds.")
    interval_min: Annotated[float, Field(gt=0, le=10_080)] | None = Field(
        default=None, description="Time between two checkpoints, minutes; without it nobody says what they fill."
    )
    retained: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="Checkpoints that are kept on the shared storage at one time."
    )


class Storage(Section):
    """Shared storage."""

    kind: Literal["glusterfs", "nfs", "lustre", "weka", "gpfs", "ceph"] = Field(
        description="Shared file system; which kinds the roles set up is in docs/roles.md."
    )
    source: Text | None = Field(
        default=None,
        description="What the nodes mount, as mount(8) takes it (filer:/export, mgs@o2ib:/fs), where the file system is "
        "not built by the roles.",
    )
    usable_pb: Annotated[float, Field(gt=0, le=10_000)] = Field(description="Usable capacity, petabytes (10^15 bytes).")
    checkpoint: Checkpoint = Field(description="Checkpoint load that the storage must take.")
    block: Slug | None = Field(
        default=None,
        description="Building block that the storage is bought in: a slug in inventory/catalog/storage; default: the "
        "first one of this kind.",
    )
    read_gb_s_per_gpu: Annotated[float, Field(gt=0, le=100)] | None = Field(
        default=None, description="Training data that one GPU reads, gigabytes per second (10^9 bytes)."
    )
    metadata_ops_s_per_gpu: Annotated[float, Field(gt=0, le=100_000)] | None = Field(
        default=None,
        description="Metadata operations (open, stat, create) that the work of one GPU asks for, per second.",
    )
    rebuild_limit_h: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        default=None, description="Longest acceptable rebuild of one drive, hours."
    )


class Os(Section):
    """Operating system of the nodes."""

    name: Literal["debian", "ubuntu", "rocky", "almalinux", "rhel"] = Field(description="Distribution.")
    version: Version = Field(description="Release, in quotes.")
    eol_date: datetime.date = Field(
        description="End of standard support, YYYY-MM-DD; warned of under 12 months (ERR-21)."
    )
    nvidia_packages: Literal["official", "provided"] = Field(
        default="official",
        description="NVIDIA's packages come from its own repositories, or the nodes' sources provide them already (a mirror).",
    )


class TierLimits(Section):
    """Limits of one priority class; what is not given is not limited."""

    grace_s: Annotated[int, Field(ge=0, le=3600)] | None = Field(
        default=None,
        description="Seconds that a preempted job has to write its checkpoint; without it storage.checkpoint.stall_s.",
    )
    max_hours: Annotated[float, Field(gt=0, le=8760)] | None = Field(
        default=None, description="Longest run time of a job, hours."
    )
    max_gpus: Count | None = Field(default=None, description="GPUs that all jobs of the class may hold together.")
    max_gpus_per_user: Count | None = Field(default=None, description="GPUs that the jobs of one user may hold.")


class SchedulerAccount(Section):
    """A team or project that work is charged to."""

    name: Slug = Field(description="Account name.")
    parent: Slug | None = Field(default=None, description="Account that it is part of; without it the root.")
    shares: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1, description="Its part of the fair share, relative to the other accounts of its parent."
    )
    tiers: tuple[Tier, ...] = Field(
        default=(), description="Priority classes that it may use; without them all of the site."
    )
    max_gpus: Count | None = Field(default=None, description="GPUs that all its jobs may hold together.")
    users: tuple[Annotated[str, Field(pattern=r"^[a-z_][-a-z0-9_]{0,31}$")], ...] = Field(
        default=(), description="Login names that may charge to it."
    )


class Scheduler(Section):
    """Workload manager."""

    kind: Literal["slurm", "kubernetes"] = Field(description="Workload manager.")
    accounts: tuple[SchedulerAccount, ...] = Field(
        default=(), description="Who may submit; whoever is in none of them may not."
    )
    tier_limits: dict[Tier, TierLimits] = Field(default={}, description="Limits by priority class.")


class LeadTime(Section):
    """A dated range, never a constant (ERR-25)."""

    min_weeks: Annotated[float, Field(ge=0, le=520)] = Field(description="Shortest quoted lead time, weeks.")
    max_weeks: Annotated[float, Field(ge=0, le=520)] = Field(description="Longest quoted lead time, weeks.")
    likely_weeks: Annotated[float, Field(ge=0, le=520)] | None = Field(
        default=None, description="Most likely lead time, weeks; default: the middle of the range."
    )
    as_of: datetime.date = Field(description="Date of the quote, YYYY-MM-DD.")
    source: Text = Field(description="Who said so.")


class Activity(Section):
    """Work between the deliveries and go-live, as a dated range."""

    group: Annotated[str, Field(pattern=r"^D(0\d|1[0-4])$")] = Field(
        description="Dependency group, D00 to D14: starts when the groups before it are done."
    )
    min_weeks: Annotated[float, Field(ge=0, le=520)] = Field(description="Shortest duration, weeks.")
    max_weeks: Annotated[float, Field(ge=0, le=520)] = Field(description="Longest duration, weeks.")
    likely_weeks: Annotated[float, Field(ge=0, le=520)] | None = Field(
        default=None, description="Most likely duration, weeks; default: the middle of the range."
    )
    after: tuple[Slug, ...] = Field(
        default=(), description="Other activities or items of leadtimes that must be done before, beside its group's."
    )
    start_date: datetime.date | None = Field(
        default=None,
        description="Start that is already agreed, YYYY-MM-DD: it does not start earlier, and what must be done before "
        "and is not by then is a finding.",
    )
    pilot: bool = Field(
        default=False, description="Whether it proves the software on representative hardware before the whole fleet."
    )
    source: Text = Field(description="Who estimated it.")


class Schedule(Section):
    """When the cluster is needed, and the work until then."""

    need_date: datetime.date = Field(description="Date of go-live, YYYY-MM-DD.")
    greenfield: bool = Field(description="Whether the facility is still to be built (its path is then the longest).")
    start_date: datetime.date | None = Field(
        default=None,
        description="Date on which orders can be placed, YYYY-MM-DD; default: that of the latest quote in leadtimes.",
    )
    activities: dict[Slug, Activity] = Field(
        default={}, description="Work by name; a group of steps without any takes no time in the schedule."
    )


class Price(Section):
    """A unit price with its source."""

    item: Text = Field(description="Item of the bill of materials: " + ", ".join(BOM_ITEMS) + ".")
    model: Text | None = Field(
        default=None, description="Model, or what the model begins with, where the price is for one model only."
    )
    unit_price: Annotated[float, Field(ge=0, le=1e10)] = Field(description="Price of one unit.")
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] | None = Field(
        default=None, description="ISO 4217 code; default: purchase.currency."
    )
    source: Text = Field(description="Quote, price list or estimate, with its date.")


class ExchangeRate(Section):
    """What one unit of another currency is worth."""

    rate: Positive = Field(description="Units of purchase.currency for one unit of this currency.")
    as_of: datetime.date = Field(description="Date of the rate, YYYY-MM-DD.")
    source: Text = Field(description="Who published it.")


class FailureRate(Section):
    """How often an item fails."""

    afr_pct: Annotated[float, Field(gt=0, le=100)] = Field(description="Annual failure rate, percent.")
    source: Text = Field(description="Field study, data sheet or own record.")


class Spares(Section):
    """How many spares are bought."""

    confidence_pct: Annotated[float, Field(ge=50, lt=100)] = Field(
        default=95, description="Probability that the spares last until replacements arrive, percent."
    )
    restock_weeks: Annotated[float, Field(gt=0, le=520)] | None = Field(
        default=None,
        description="Time until a replacement arrives, weeks; default: the longest lead time of the item, 12 where it has none.",
    )
    share_pct: Percent = Field(
        default=2, description="Spares of items without a failure rate, percent of their number, at least one."
    )
    rates: dict[Text, FailureRate] = Field(default={}, description="Failure rates by item of the bill of materials.")


class Tranche(Section):
    """A part of the order that is delivered together."""

    name: Slug = Field(description="Name of the tranche.")
    share_pct: Annotated[float, Field(gt=0, le=100)] = Field(
        description="Share of each of its items, percent; the shares of an item add up to 100."
    )
    items: tuple[Text, ...] = Field(
        default=(), description="Items of the bill of materials; default: all that no other tranche names."
    )
    promised_date: datetime.date | None = Field(
        default=None, description="Delivery that the supplier has promised, YYYY-MM-DD (S002)."
    )


class Purchase(Section):
    """What things cost, who buys them, in which parts, with how many spares."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = Field(
        default="USD", description="Currency of all totals: an ISO 4217 code."
    )
    prices: tuple[Price, ...] = Field(
        default=(), description="Unit prices; a price for a model goes before one for all models of the item."
    )
    exchange: dict[Annotated[str, Field(pattern=r"^[A-Z]{3}$")], ExchangeRate] = Field(
        default={}, description="Rates of the other currencies that prices are given in."
    )
    owners: dict[Text, Text] = Field(
        default={}, description="Who buys an item of the bill of materials; * stands for all others."
    )
    tranches: tuple[Tranche, ...] = Field(default=(), max_length=24, description="Parts of the order.")
    spares: Spares = Field(default=Spares(), description="How many spares are bought.")


class Limit(Section):
    """One limit of a check. It is hashed before the run that it judges."""

    value: float = Field(description="The limit.")
    unit: Text = Field(description="Unit of the value; as inventory/limits.yaml says.")
    source: Text = Field(description="Where the number comes from: data sheet, standard, contract, baseline.")


class AttestRole(Section):
    """A role whose holders may sign attested steps."""

    title: Text = Field(description="What the role does.")
    licence: Text | None = Field(default=None, description="Licence that the law or the contract asks for.")
    second_signer: bool = Field(default=False, description="Whether safety items need a second signer of this role.")
    keys: tuple[Annotated[str, Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}$")], ...] = Field(
        default=(),
        description="Fingerprints (ssh-keygen -lf) of the keys whose signatures count for this role at go-live.",
    )


class Attest(Section):
    """Who may attest."""

    roles: dict[Slug, AttestRole] = Field(min_length=1, description="Roles by name.")


class Addressing(Section):
    """IPv4 prefixes; they must not overlap."""

    oob: Network = Field(description="Management: switches, PDUs, BMCs; .1 is the operator's workstation.")
    provisioning: Network = Field(description="Nodes' eth0; .1 is the operator's workstation and package mirror.")
    loopbacks: Network = Field(description="One /32 per in-band switch and node.")
    links: Network = Field(description="One /31 per node-leaf link.")
    ntp: tuple[Address, ...] = Field(default=(), description="Time servers.")
    dns: tuple[Address, ...] = Field(default=(), description="Name servers.")


class Validation(Section):
    """What the checks may do to this site."""

    fault_injection: bool = Field(
        default=False,
        description="Checks may cut a GPU server's power at its PDU outlets during a job (S187, S188), and give it back.",
    )


class SnmpCredentials(Section):
    """SNMPv3 authPriv user of PDUs and switches."""

    user: Text = Field(description="SNMPv3 user name.")
    auth: SecretReference = Field(description="Reference to the authentication passphrase.")
    priv: SecretReference = Field(description="Reference to the privacy passphrase.")
    auth_protocol: Literal["SHA1", "SHA224", "SHA256", "SHA384", "SHA512"] = Field(
        default="SHA256", description="Authentication protocol; what the devices speak."
    )
    priv_protocol: Literal["AES128", "AES192", "AES256"] = Field(default="AES128", description="Privacy protocol.")


class FactoryAccount(Section):
    """The account that the BMCs are delivered with; its password is replaced when a server is taken over."""

    user: Text = Field(description="Account name.")
    password: SecretReference = Field(description="Reference to the factory password.")


class BmcCredentials(Section):
    """Redfish account of the BMCs."""

    user: Text = Field(description="Account name.")
    password: SecretReference = Field(description="Reference to the password.")
    ca: Text = Field(description="Path of the CA certificate that signed the BMCs' TLS certificates.")
    factory: FactoryAccount | None = Field(
        default=None, description="Account as delivered; its login must be refused once the site's account is in place."
    )


class SshCredentials(Section):
    """Key login over SSH."""

    user: Text = Field(description="Login name.")
    key: SecretReference = Field(description="file: reference to the private key.")
    known_hosts: Text = Field(description="Path of the known_hosts file; unknown host keys are refused.")


class DatabaseCredentials(Section):
    """Account of a daemon in its database."""

    password: SecretReference = Field(description="Reference to the password.")


class EvidenceCredentials(Section):
    """Who signs what the checks record."""

    key: SecretReference = Field(description="Reference to the ed25519 signing key.")
    role: Slug = Field(
        default="lab",
        description="Role of that key. lab counts in rehearsals only; another one counts if attest.roles pins the key.",
    )


class AlertCredentials(Section):
    """Where alerts go."""

    webhook: SecretReference = Field(
        description="Reference to the URL that Alertmanager posts alerts to; a secret, since it often carries a token."
    )


class Credentials(Section):
    """References to secrets, never their values."""

    snmp: SnmpCredentials = Field(description="PDUs and switches.")
    bmc: BmcCredentials = Field(description="BMCs.")
    ssh: SshCredentials = Field(description="Nodes.")
    switch: SshCredentials = Field(description="Switches.")
    evidence: EvidenceCredentials = Field(description="Evidence signing.")
    slurmdbd: DatabaseCredentials | None = Field(
        default=None, description="Slurm's accounting daemon in its database; mandatory where scheduler.kind is slurm."
    )
    alerts: AlertCredentials | None = Field(
        default=None, description="On-call: without it alerts are seen in Alertmanager only."
    )


class SiteModel(Section):
    """A site file: the intent for one cluster, from utility feed to go-live."""

    schema_version: Literal[1] = Field(description="Version of this format.")
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")] = Field(
        description="Site name: lower case, digits and hyphens; names its outputs and stack."
    )
    example: bool = Field(default=False, description="An example site can never go live.")
    gpu: Gpu = Field(description="The accelerator.")
    server: Server = Field(description="The GPU servers.")
    service_nodes: tuple[ServiceNode, ...] = Field(default=(), description="Servers that are not GPU servers.")
    fabric: Fabric = Field(description="The compute fabric.")
    inband: Inband = Field(description="The in-band Ethernet.")
    oob: Oob = Field(description="The management network.")
    media: Media = Field(description="Cables and transceivers.")
    rack: Rack = Field(description="The compute rack.")
    room: Room = Field(description="The data hall.")
    power: Power = Field(description="Distribution from the feeds to the outlets.")
    ups: Ups = Field(description="Uninterruptible power supply.")
    generator: Generator = Field(description="Standby generation.")
    cooling: Cooling = Field(description="Heat removal.")
    storage: Storage = Field(description="Shared storage.")
    os: Os = Field(description="Operating system of the nodes.")
    versions: dict[Slug, Version] = Field(min_length=1, description="Pinned versions by component, in quotes (ERR-24).")
    scheduler: Scheduler = Field(description="Workload manager.")
    tiers: tuple[Tier, ...] = Field(min_length=1, max_length=3, description="Priority classes, highest first.")
    leadtimes: dict[Slug, LeadTime] = Field(
        min_length=1, description="Lead times by item: " + ", ".join(LEADTIME_ITEMS) + "."
    )
    schedule: Schedule = Field(description="When the cluster is needed.")
    purchase: Purchase = Field(default=Purchase(), description="Prices, owners, tranches and spares.")
    limits: dict[Slug, Limit] = Field(min_length=1, description=LIMITS_DOC)
    attest: Attest = Field(description="Who may attest.")
    addressing: Addressing = Field(description="IPv4 prefixes.")
    credentials: Credentials = Field(description="References to secrets.")
    validation: Validation = Field(default=Validation(), description="What the checks may do.")
    lab: dict[Slug, str | int | float | bool] | None = Field(
        default=None, description="Hints for the embedded lab; nothing else reads them."
    )
