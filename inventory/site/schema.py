"""The site file as data models: the one source of validation, documentation, JSON Schema and editor completion.

Attributes mirror the YAML keys exactly (``cooling.class`` is ``cooling.class_``, since ``class`` is a Python word).
Units stand in key names: ``_w _kw _a _v _m _u _c _s _pb _gbps _kg _pct _weeks``. Every model is strict (no silent
conversion), refuses unknown keys and is immutable. Rules that span several keys are in ``inventory.site.rules``.
"""

import datetime
import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

WITHOUT_HOST_BITS = "a prefix without host bits: "
LIMITS_DOC = "Every limit that a check judges by; the known keys are in inventory/limits.yaml."

LEADTIME_ITEMS = (
    "gpu",
    "server",
    "switch",
    "optics",
    "rack",
    "pdu",
    "ups",
    "generator",
    "transformer",
    "switchgear",
    "cooling",
    "storage",
    "facility",
)
BOM_ITEMS = (
    "gpu",
    "cpu",
    "dimm",
    "drive",
    "supply",
    "nic port",
    "cold plate",
    "server",
    "system",
    "switch",
    "pdu",
    "shelf",
    "rack",
    "manifold",
    "cdu",
    "cable",
    "transceiver",
    "cord",
    "breaker",
    "ups module",
    "blanking panel",
    "label",
    "storage enclosure",
    "storage drive",
    "metadata server",
    "cooling unit",
    "floor tile",
    "containment",
    "chiller",
    "water pump",
    "cooling tower",
    "dry cooler",
    "leak sensor",
    "shut-off valve",
    "medium voltage switchgear",
    "transformer",
    "switchboard",
    "transfer switch",
    "generator",
    "pdu transformer",
    "panel",
    "conductor",
    "busway",
    "tap-off box",
    "ups battery",
    "coolant",
    "room sensor",
)
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
REPOSITORY_URL = (
    r"^(?:https?://(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~%+=/-]*)?|file:///[A-Za-z0-9._~+=/-]+)"
    r"$(?!\n)"
)
REPOSITORY_NAME = r"^[a-z0-9][a-z0-9-]{0,40}$(?!\n)"
REPOSITORY_SUITE = r"^(?:[A-Za-z0-9.][A-Za-z0-9._+/-]*|/)$(?!\n)"
REPOSITORY_COMPONENT = r"^[A-Za-z0-9][A-Za-z0-9._+/-]*$(?!\n)"
Text = Annotated[str, Field(min_length=1)]
Feed = Annotated[str, Field(pattern=r"^[A-Z]$")]

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]
Tier = Literal["inference", "training", "experimentation"]
Count = Annotated[int, Field(ge=1, le=200_000)]


class Gpu(Section):
    """The accelerator that the cluster is built from."""

    sku: Slug = Field(description="GPU slug in inventory/catalog/data/gpus.")
    form_factor: Literal["sxm", "pcie"] = Field(
        description="Baseboard module (sxm) or card (pcie); decides which assembly steps apply."
    )
    tdp_w: float = Field(ge=30, le=3000, description="Thermal design power of one GPU, watts.")


class ServerPower(Section):
    """Three named power profiles of one server, watts at its inlets; never mixed (ERR-01)."""

    seed_w: float = Field(ge=50, le=200_000, description="Rule-of-thumb figure of early planning, watts (RC-071b).")
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

    model: Slug = Field(description="Device type slug in inventory/catalog/data/device-types.")
    count: Count = Field(description="Number of GPU servers.")
    power: ServerPower = Field(description="Power profiles of one server.")
    psu: ServerPsu | None = Field(
        default=None, description="Power supplies of one server; mandatory unless it is a tray of a rack-scale system."
    )
    system: Slug | None = Field(
        default=None,
        description="Rack-scale system that the servers are trays of: a slug in inventory/catalog/data/systems.",
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
    model: Slug = Field(description="Device type slug in inventory/catalog/data/device-types.")
    count: Annotated[int, Field(ge=1, le=1000)] = Field(description="Number of nodes in this role.")


class Fabric(Section):
    """The rail-optimised compute fabric."""

    kind: Literal["ib", "roce"] = Field(
        description="InfiniBand or RoCEv2 Ethernet; decides which steps apply (ERR-12)."
    )
    switch_model: Slug = Field(description="Switch slug in inventory/catalog/data/device-types.")
    radix: int = Field(ge=4, le=1024, multiple_of=2, description="Ports per switch that the design uses; even.")
    bisection: Share = Field(description="Bisection bandwidth as a share of full: 1.0 is non-blocking (ERR-10).")
    rails: int = Field(ge=1, le=32, description="Rails: NIC k of every server goes to the leaves of rail k.")
    unit_nodes: int = Field(
        ge=1, le=1024, description="Servers of one scalable unit (those that share a set of leaves)."
    )
    tiers: Literal["auto", 1, 2, 3] = Field(
        default="auto", description="Switch tiers; auto takes the fewest that fit. 1 is refused: nothing plans it yet."
    )
    leaf_uplinks: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None,
        description="Uplinks per leaf where they are given; default: as many as the bisection needs (RC-051).",
    )
    congestion_control: Literal["dcqcn", "pfc_only", "spectrum_x"] | None = Field(
        default=None,
        description="RoCE only, and mandatory there: how the fabric stays lossless. "
        "Nothing configures it yet, which the finding FABRIC-CONGESTION-CONTROL says.",
    )
    subnet_managers: tuple[Literal["controller", "storage", "management"], ...] = Field(
        default=(),
        max_length=8,
        description="InfiniBand only: roles of the service nodes that run a subnet manager, the first one as master; "
        "each entry takes the first node of its role that has none yet. S060 asks for two.",
    )


MOST_SPINES = 256
"""Most spines of the in-band network."""
MOST_LINKS_PER_NODE = 8
"""Most in-band links of a server."""


class Inband(Section):
    """The in-band Ethernet (storage, provisioning of jobs, users): BGP unnumbered leaves and spines."""

    nos: Literal["frr"] = Field(description="Network operating system: a folder of network/nos.")
    spine_model: Slug = Field(description="Spine switch slug in the catalogue.")
    leaf_model: Slug = Field(description="Leaf switch slug in the catalogue.")
    spines: Annotated[int, Field(ge=1, le=MOST_SPINES)] = Field(
        description="Number of spines; each leaf has a link to each."
    )
    leaves: Annotated[int, Field(ge=1, le=65_536)] = Field(description="Number of leaves.")
    links_per_node: Annotated[int, Field(ge=1, le=MOST_LINKS_PER_NODE)] = Field(
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
    switches: Annotated[int, Field(ge=1, le=65_536)] = Field(description="Number of management switches.")


class Media(Section):
    """Cables and transceivers."""

    reach_table: Slug = Field(description="Media table in inventory/catalog/data/media: parts with their reach.")


class NetworkRack(Section):
    """Racks of one kind without GPU servers, where they differ from the compute rack."""

    model: Slug = Field(description="Rack type slug in inventory/catalog/data/rack-types.")
    height_u: Annotated[int, Field(ge=1, le=60)] = Field(description="Usable height, rack units.")
    mass_limit_kg: Annotated[float, Field(ge=50, le=5000)] = Field(description="Permitted load of the rack, kilograms.")
    power_limit_kw: Annotated[float, Field(ge=1, le=600)] = Field(description="Permitted draw of the rack, kilowatts.")


class Rack(Section):
    """The compute rack and what may stand in it."""

    model: Slug = Field(description="Rack type slug in inventory/catalog/data/rack-types.")
    servers: Annotated[int, Field(ge=1, le=96)] = Field(description="GPU servers per rack.")
    height_u: Annotated[int, Field(ge=1, le=60)] = Field(description="Usable height, rack units.")
    mass_limit_kg: Annotated[float, Field(ge=50, le=5000)] = Field(description="Permitted load of the rack, kilograms.")
    power_limit_kw: Annotated[float, Field(ge=1, le=600)] = Field(description="Permitted draw of the rack, kilowatts.")
    network: NetworkRack | None = Field(
        default=None, description="Racks of switches and service nodes, where they differ; default: the same rack."
    )
    storage: NetworkRack | None = Field(
        default=None,
        description="Racks of storage that is bought (storage.block), where they differ; default: those of network.",
    )


class Room(Section):
    """The data hall."""

    rows: Annotated[int, Field(ge=1, le=10_000)] = Field(description="Rows of racks.")
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
    aisle_min_m: Annotated[float, Field(ge=0.6, le=5)] | None = Field(
        default=None, description="Least clear width of an aisle, metres: doors, lifts, escape routes."
    )
    rpps_per_row: Annotated[int, Field(ge=0, le=20)] = Field(
        default=0, description="Places of racks that remote power panels take at the head of each row."
    )
    length_m: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        default=None,
        description="Clear length of the hall along its rows, wall to wall, metres; rows stand in its middle.",
    )
    width_m: Annotated[float, Field(gt=0, le=5000)] | None = Field(
        default=None, description="Clear width of the hall across its rows, wall to wall, metres."
    )
    walkway_min_m: Annotated[float, Field(ge=0.6, le=10)] | None = Field(
        default=None,
        description="Least clear width of the walkways around the rows, metres: at their ends with length_m, beside the "
        "outer ones with width_m.",
    )


class RackCircuit(Section):
    """The circuit that feeds one rack PDU or power shelf."""

    breaker_a: Annotated[float, Field(ge=6, le=1000)] = Field(description="Breaker rating, amperes.")
    phases: Literal[1, 3] = Field(description="Phases of the circuit; 3 where the section electrical is given.")


MOST_PDUS_PER_FEED = 4
"""Most PDUs of a rack on a feed."""


class RackPdu(Section):
    """The rack PDUs."""

    model: Slug = Field(description="Rack PDU slug in the catalogue.")
    per_feed: Annotated[int, Field(ge=1, le=MOST_PDUS_PER_FEED)] = Field(
        default=1, description="PDUs per rack on each feed."
    )


class Power(Section):
    """Distribution from the feeds to the outlets."""

    voltage_v: Annotated[float, Field(ge=100, le=1000)] = Field(
        description="Line-to-line voltage of the rack circuits, volts."
    )
    code: Literal["nec", "iec"] = Field(description="Electrical code that the derating comes from.")
    derating: Share = Field(description="Continuous-load share of a breaker: NEC 0.8, IEC sites up to 1.0.")
    feeds: tuple[Feed, ...] = Field(min_length=1, max_length=8, description="Independent feeds, such as [A, B].")
    pue: Annotated[float, Field(ge=1, le=3)] = Field(
        description="Facility power over IT power; the supply is planned with it where cooling.plant is not given."
    )
    overhead_pct: tuple[Percent, Percent] = Field(
        description="Planning overhead range on top of the IT load, percent: [low, high]."
    )
    power_factor: Annotated[float, Field(ge=0.5, le=1)] = Field(
        default=1.0, description="Power factor of the IT load; it holds behind the UPS, electrical.power_factor above."
    )
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
    margin_s: Annotated[float, Field(ge=0, le=600)] = Field(
        default=30,
        description="Battery time left when the generators have started and taken over, seconds (ERR-18). Default: one failed "
        "crank of 15 s and the rest of 15 s after it (NFPA 110, 5.6.4.2).",
    )


class Generator(Section):
    """Standby generation."""

    present: bool = Field(description="Whether the site has generators; without them the risk is documented (ERR-18).")
    start_s: Annotated[float, Field(gt=0, le=600)] | None = Field(
        default=None, description="Time from loss of utility to load accepted, seconds; mandatory when present."
    )


RISE_PER_K = {"copper": 0.00393, "aluminium": 0.00403}
"""Resistance that a conductor gains per kelvin, as a share of that at 20 C (IEC 60028, IEC 60889; NEC chapter 9 table 8 gives
the same of that at 75 C: 0.00323 and 0.00330)."""


class Conductor(Section):
    """A conductor by its impedance, so that any table of any code fits."""

    size: Text = Field(description="Size as the drawing says it, such as '6 AWG Cu' or '16 mm2 Cu'.")
    r_ohm_km: Annotated[float, Field(gt=0, le=50)] = Field(
        description="Resistance of one conductor at temperature_c, ohms per kilometre: of losses and voltage drop. The largest "
        "fault current takes that at 20 C (IEC 60909-0), which follows from it."
    )
    temperature_c: Annotated[float, Field(ge=20, le=250)] = Field(
        default=75.0,
        description="Working temperature that r_ohm_km holds at, degrees Celsius; NEC chapter 9 table 9: 75.",
    )
    material: Literal["copper", "aluminium"] = Field(
        default="copper", description="Metal of the conductor: how its resistance grows with temperature."
    )
    x_ohm_km: Annotated[float, Field(ge=0, le=5)] = Field(description="Reactance, ohms per kilometre.")
    length_m: Annotated[float, Field(gt=0, le=5000)] | None = Field(
        default=None,
        description="Length, metres; without it rack circuits are routed from the place of their panel, or from the busway "
        "over their row.",
    )
    source: Text = Field(description="Table or data sheet of the impedance.")
    ampacity_a: Annotated[float, Field(gt=0, le=10_000)] | None = Field(
        default=None,
        description="Current that it carries continuously as it is laid, amperes: the table's figure derated for ambient "
        "temperature, grouping and terminations; without it a finding says that nobody judged it.",
    )
    ampacity_source: Text | None = Field(
        default=None, description="Table of the ampacity and its derating; mandatory with ampacity_a."
    )

    @property
    def r20_ohm_km(self) -> float:
        """Resistance at 20 C, ohms per kilometre."""
        return self.r_ohm_km / (1 + RISE_PER_K[self.material] * (self.temperature_c - 20))


MOST_INSTALLED = 200
"""Most of a kind of equipment that a feed may have standing there."""
MOST_MODULES = 20
"""Most modules of a UPS block."""
Installable = Annotated[int, Field(ge=1, le=MOST_INSTALLED)]


def _absent(value: object) -> bool:
    """A key that is not given is no part of a section's hash: files written before the key existed keep theirs."""
    return not value


class TransformerType(Section):
    """Transformers of one kind."""

    kva: Annotated[float, Field(ge=10, le=100_000)] = Field(description="Rated power, kilovolt-amperes.")
    uk_pct: Annotated[float, Field(gt=0, le=30)] = Field(description="Short-circuit voltage, percent.")
    load_loss_kw: Annotated[float, Field(gt=0, le=1000)] = Field(
        description="Losses at rated current, kilowatts; they also give the resistance."
    )
    no_load_kw: Annotated[float, Field(ge=0, le=500)] = Field(description="Losses without load, kilowatts.")
    source: Text = Field(description="Data sheet or standard of these figures.")


class Installed(Section):
    """Equipment of one kind, of which some may stand there already."""

    installed: Installable | None = Field(
        default=None,
        exclude_if=_absent,
        description="How many stand there already on each feed, spare ones included; default: as many as the load needs.",
    )
    installed_by_feed: dict[Feed, Installable] = Field(
        default={},
        exclude_if=_absent,
        description="The same for single feeds, where they differ; other feeds follow `installed`.",
    )

    def standing(self, feed: str) -> int | None:
        """How many stand there on `feed`; None where the load decides."""
        return self.installed_by_feed.get(feed, self.installed)


class MainTransformers(TransformerType, Installed):
    """Transformers from medium voltage to the switchboards, one to a board; installed ones stand with their board."""

    n_plus: Annotated[int, Field(ge=0, le=4)] = Field(
        default=0, description="Spare transformers per feed, which a board is switched to when its own is lost."
    )


class Switchgear(Section):
    """Switchgear of one voltage level."""

    rating_a: Annotated[float, Field(ge=50, le=10_000)] = Field(description="Rated current of its busbar, amperes.")
    rating_ka: Annotated[float, Field(gt=0, le=300)] = Field(
        description="Rated short-circuit breaking and withstand current, kiloamperes."
    )
    peak_ka: Annotated[float, Field(gt=0, le=700)] | None = Field(
        default=None,
        description="Rated making and peak withstand current, kiloamperes; default: the multiple of rating_ka that IEC 61439-1 "
        "table 7, at medium voltage IEC 62271-1, gives.",
    )
    continuous: Share = Field(
        default=1.0, description="Share of rating_a that it carries continuously (100 %-rated breakers: 1)."
    )


class UtilityService(Section):
    """The supply that the grid company gives."""

    voltage_kv: Annotated[float, Field(ge=0.4, le=400)] = Field(
        description="Line-to-line voltage of the intake and of the site's medium voltage, kilovolts."
    )
    services: Annotated[int, Field(ge=1, le=8)] = Field(
        default=1, description="Independent lines of the grid company; the feeds take them in turn."
    )
    tie: bool = Field(
        default=False, description="Whether a feed's intake is switched to another line when its own is lost."
    )
    firm_mva: Annotated[float, Field(gt=0, le=5000)] = Field(
        description="Firm capacity of all lines together with one of them lost, megavolt-amperes."
    )
    growth_pct: Annotated[float, Field(ge=0, le=500)] = Field(
        default=0, description="Margin for growth that the firm capacity has to leave, percent of today's load."
    )
    fault_mva: Annotated[float, Field(gt=0, le=100_000)] = Field(
        description="Short-circuit power at the intake, megavolt-amperes."
    )
    x_over_r: Annotated[float, Field(gt=0, le=200)] = Field(description="X/R of the grid at the intake.")
    max_step_mw: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        default=None, description="Largest sudden change of load that the grid company permits, megawatts."
    )
    source: Text = Field(description="Utility letter or contract of these figures.")


class UpsBlocks(Installed):
    """UPS blocks; module size, redundancy and battery time stand in `ups`."""

    modules_per_block: Annotated[int, Field(ge=1, le=MOST_MODULES)] = Field(
        description="Modules of one block, redundant ones included."
    )
    permitted_load: Share = Field(default=1.0, description="Share of the needed modules' rating that may be used.")
    efficiency: Annotated[float, Field(ge=0.5, le=1)] = Field(description="Output over input at the working load.")
    max_step_pct: Annotated[float, Field(gt=0, le=100)] | None = Field(
        default=None, description="Largest load step that the block takes within its voltage limits, percent of rating."
    )
    rating_ka: Annotated[float, Field(gt=0, le=300)] | None = Field(
        default=None,
        description="Short-circuit current that input, bypass and output of a block withstand, kiloamperes; without it a "
        "finding says that nobody judged it.",
    )
    source: Text = Field(description="Data sheet of these figures.")


class Generators(Installed):
    """Generators, one plant to a feed; whether there are any, and their start, stands in `generator`."""

    kw: Annotated[float, Field(ge=10, le=20_000)] = Field(description="Rating of one generator, kilowatts.")
    n_plus: Annotated[int, Field(ge=0, le=4)] = Field(description="Spare generators of each plant.")
    transfer_s: Annotated[float, Field(ge=0, le=300)] = Field(
        description="Time of the transfer switch after the generators are ready, seconds."
    )
    max_step_pct: Annotated[float, Field(gt=0, le=100)] | None = Field(
        default=None, description="Largest load step within the frequency limits, percent of rating (ISO 8528-5)."
    )
    fuel_h: Annotated[float, Field(gt=0, le=1000)] = Field(description="Fuel on site at the planned load, hours.")
    litres_per_kwh: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.27, description="Fuel for one kilowatt-hour, litres (a data sheet's figure at 75 % load)."
    )
    source: Text = Field(description="Data sheet of these figures.")


class Panels(Section):
    """Remote power panels or runs of busway: the last distribution before the rack circuits."""

    kind: Literal["rpp", "busway"] = Field(description="Panel with branch breakers, or busway with tap-off boxes.")
    rating_a: Annotated[float, Field(ge=50, le=6000)] = Field(description="Main breaker or busway, amperes.")
    rating_ka: Annotated[float, Field(gt=0, le=300)] = Field(description="Rated short-circuit current, kiloamperes.")
    peak_ka: Annotated[float, Field(gt=0, le=700)] | None = Field(
        default=None,
        description="Rated peak withstand current, kiloamperes; default: the multiple of rating_ka in IEC 61439-1 table 7.",
    )
    circuits: Annotated[int, Field(ge=1, le=400)] = Field(
        description="Rack circuits or tap-offs that one has room for."
    )
    feeder: Conductor = Field(
        description="Its feeder from the UPS block or the PDU transformer, with its length; of busway the same conductor runs "
        "on over the row, which follows from the racks."
    )
    width_m: Annotated[float, Field(gt=0, le=5)] | None = Field(
        default=None,
        description="Width that a panel takes in its row, metres; of a cabinet with two, half of it. Default: a rack's place.",
    )
    depth_m: Annotated[float, Field(gt=0, le=3)] | None = Field(
        default=None, description="Depth of a panel, metres; default: no deeper than the racks."
    )
    source: Text | None = Field(default=None, description="Data sheet of width and depth.")


class Tariff(Section):
    """What energy costs."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = Field(description="Currency, such as USD.")
    energy_per_mwh: Annotated[float, Field(ge=0, le=10_000)] = Field(description="Price of one megawatt-hour.")
    demand_per_kw_month: Annotated[float, Field(ge=0, le=1000)] = Field(
        description="Demand charge per kilowatt of the month's highest load."
    )
    load_factor: Share = Field(description="Average load over the highest load.")
    source: Text = Field(description="Tariff or contract.")


class LoadSwing(Section):
    """What the load does when all GPUs of a job stop and start together."""

    idle_w: Annotated[float, Field(ge=0, le=200_000)] = Field(
        description="Draw of one GPU server while its GPUs wait, watts."
    )
    source: Text = Field(description="Measurement or study of the figure.")


class Waves(Section):
    """How racks are energised and burnt in before the whole supply stands."""

    energised_kw: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        description="IT load that the energised supply is released for at the time, kilowatts."
    )
    feeds: tuple[Feed, ...] | None = Field(
        default=None, min_length=1, description="Feeds that are energised at the time; default: all of power.feeds."
    )
    cooling_kw: Annotated[float, Field(gt=0, le=1_000_000)] | None = Field(
        default=None,
        description="Heat that the proven cooling carries in all, kilowatts; default: the planned zones with their spare "
        "units out, which limit each zone in any case.",
    )
    ramp_kw_min: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        description="Fastest rise of load that supply and cooling are to see, kilowatts per minute."
    )
    source: Text = Field(description="Who said so.")


class Electrical(Section):
    """The supply above the rack circuits, from the grid to the panels. Counts follow from the load, but for what stands there."""

    concurrently_maintainable: bool = Field(
        default=False,
        description="Whether any part may be out for maintenance; then each part is also judged with each failure.",
    )
    utility: UtilityService = Field(description="The supply that the grid company gives.")
    medium_voltage: Switchgear = Field(description="Intake switchgear, a board to a feed.")
    transformers: MainTransformers = Field(description="From medium voltage to the switchboards.")
    switchboard_v: Annotated[float, Field(ge=100, le=1000)] | None = Field(
        default=None,
        description="Line-to-line voltage of switchboards and UPS, volts; default: that of the rack circuits.",
    )
    switchboards: Switchgear = Field(
        description="Low-voltage boards with the transfer switch, one to a UPS block; boards of cooling are of the same type."
    )
    ups_blocks: UpsBlocks = Field(description="UPS blocks.")
    generators: Generators | None = Field(default=None, description="Generators; mandatory when generator.present.")
    pdu_transformers: TransformerType | None = Field(
        default=None, description="From switchboard_v to the rack circuits' voltage; mandatory where these differ."
    )
    panels: Panels = Field(description="Remote power panels or busway.")
    rack_conductor: Conductor = Field(description="From the panel to the rack PDU or power shelf.")
    max_drop_pct: Annotated[float, Field(gt=0, le=20)] = Field(
        default=5.0,
        description="Permitted voltage drop from the UPS output to the rack, percent (NEC 215.2 informational note: 5 in "
        "all; IEC 60364-5-52 table G.52.1: 5).",
    )
    frequency_hz: Literal[50, 60] = Field(default=60, description="Frequency, hertz.")
    power_factor: Annotated[float, Field(ge=0.5, le=1)] = Field(
        default=1.0,
        description="Power factor from the switchboards up to the grid: of UPS inputs and of the plant's drives, which correct "
        "theirs; power.power_factor holds behind the UPS only.",
    )
    rooms: dict[Feed, Slug] = Field(
        default={},
        description="Electrical room of a feed: a failure domain. Default: each feed has its own room.",
    )
    drain_s: Annotated[float, Field(gt=0, le=7200)] | None = Field(
        default=None,
        description="Time to write a checkpoint and shut all servers down, seconds; what the battery must last where "
        "there is no generator. Default: storage.checkpoint.stall_s and two minutes.",
    )
    tariff: Tariff | None = Field(default=None, description="What energy costs.")
    swing: LoadSwing | None = Field(default=None, description="Load swing of training.")
    waves: Waves | None = Field(default=None, description="Energisation and burn-in in waves.")


class CoolantLoop(Section):
    """Pipes, cold plates and heat exchanger of the loop, as one distribution unit sees them."""

    facility_c: Annotated[float, Field(ge=4, le=55)] = Field(
        description="Facility water that reaches the distribution units, Celsius."
    )
    facility_rise_k: Annotated[float, Field(ge=2, le=30)] = Field(description="Its rise, kelvin.")
    cdu_ua_kw_k: Annotated[float, Field(gt=0, le=20_000)] = Field(
        description="Heat exchanger of one unit: conductance at rated flows, kilowatts per kelvin."
    )
    cdu_head_kpa: Annotated[float, Field(gt=0, le=1000)] = Field(
        description="Pressure that a unit's pumps leave for pipes and racks at rated flow, kilopascals."
    )
    cdu_pump_kw: Annotated[float, Field(ge=0, le=200)] = Field(description="Pumps of one unit, kilowatts.")
    branch_bore_mm: Annotated[float, Field(ge=10, le=400)] = Field(
        description="Bore of the pipe or hose to one rack, millimetres."
    )
    branch_m: Annotated[float, Field(gt=0, le=500)] = Field(
        description="Length of that pipe, supply and return together, metres."
    )
    branch_bends: Annotated[int, Field(ge=0, le=100)] = Field(description="Right-angle bends in it.")
    roughness_mm: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.045, description="Roughness of its wall, millimetres; commercial steel by default."
    )
    rack_kpa: Annotated[float, Field(gt=0, le=500)] = Field(
        description="Drop over manifolds, quick disconnects and cold plates of a rack at rack_l_min, kilopascals."
    )
    rack_l_min: Annotated[float, Field(gt=0, le=2000)] = Field(
        description="Flow at which rack_kpa is quoted, litres per minute."
    )
    volume_l: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        description="Coolant in the loop with most racks, litres: what buffers the heat while facility water is away; "
        "smaller loops count in proportion to their racks."
    )
    source: Text = Field(description="Where the figures come from.")


class Coolant(Section):
    """The coolant loop between distribution units and liquid-cooled servers; propylene glycol, 25 % by volume."""

    rise_k: Annotated[float, Field(ge=2, le=30)] = Field(description="Design rise from supply to return, kelvin.")
    server_max_c: Annotated[float, Field(ge=20, le=70)] = Field(
        description="Highest supply temperature that the servers allow, Celsius."
    )
    cdu_kw: Annotated[float, Field(ge=10, le=10_000)] = Field(
        description="Heat that one coolant distribution unit moves at the design rise, kilowatts."
    )
    racks_per_loop: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None,
        description="Liquid-cooled racks that share a loop and its distribution units, in the order of the rows: a failure "
        "domain with spare units of its own (ERR-45); default: those in the rows of an air zone "
        "(cooling.air.rows_per_zone, without cooling.air all).",
    )
    cdus_per_loop: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None,
        description="Distribution units of each loop where they are given; default: as many as its heat needs, and the "
        "spare ones (cooling.n_plus).",
    )
    cdu_places_per_row: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0,
        description="Places of racks kept free for distribution units at the end of each row; default: they take what is free.",
    )
    loop: CoolantLoop | None = Field(
        default=None, description="Pipes, cold plates and exchanger of a loop; without it only its flow is planned."
    )


class Tile(Section):
    """Perforated tiles or grates in front of the racks."""

    airflow_m3_s: Annotated[float, Field(gt=0, le=5)] = Field(
        description="Air through one tile at pressure_pa, cubic metres per second."
    )
    pressure_pa: Annotated[float, Field(gt=0, le=250)] = Field(
        description="Static pressure under the floor at which that air flows, pascals."
    )
    per_rack: Annotated[int, Field(ge=1, le=6)] = Field(description="Tiles in front of one rack.")


class Duct(Section):
    """The ducts of one zone, all alike and side by side, supply or return, whichever is longer."""

    count: Annotated[int, Field(ge=1, le=1000)] = Field(description="Ducts of a zone.")
    width_m: Annotated[float, Field(gt=0, le=10)] = Field(description="Width inside, metres.")
    height_m: Annotated[float, Field(gt=0, le=10)] = Field(description="Height inside, metres.")
    length_m: Annotated[float, Field(gt=0, le=1000)] = Field(description="Length of the longest one, metres.")
    bends: Annotated[int, Field(ge=0, le=100)] = Field(description="Right-angle bends in it.")
    roughness_mm: Annotated[float, Field(ge=0, le=10)] = Field(
        default=0.09, description="Roughness, millimetres; galvanised steel by default (ASHRAE Fundamentals)."
    )
    available_pa: Annotated[float, Field(gt=0, le=2000)] = Field(
        description="Static pressure that the units' fans leave for the ducts, pascals."
    )


class RackAir(Section):
    """The air that reaches a rack through its aisle."""

    airflow_m3_s: Annotated[float, Field(gt=0, le=50)] = Field(
        description="Air that one rack gets at supply temperature with the spare units out, cubic metres per second."
    )
    source: Text = Field(
        description="Where the figure comes from: a computation of the aisle, or a commissioning test."
    )


class AirUnits(Section):
    """The units that cool the air of the hall, all of one model."""

    kind: Literal["crah", "in_row", "rear_door", "fan_wall"] = Field(
        description="Room units, coolers between racks, exchangers in the racks' rear doors, or fan walls."
    )
    model: Text = Field(description="Model, as it is ordered.")
    sensible_kw: Annotated[float, Field(gt=0, le=2000)] = Field(
        description="Net sensible capacity of one unit at rated_return_c and rated_water_c, kilowatts."
    )
    airflow_m3_s: Annotated[float, Field(gt=0, le=200)] = Field(
        description="Air of one unit at full speed, cubic metres per second at its inlet."
    )
    rated_return_c: Annotated[float, Field(ge=15, le=60)] = Field(
        description="Air temperature at the unit's inlet that sensible_kw is quoted for, Celsius."
    )
    rated_water_c: Annotated[float, Field(ge=2, le=45)] = Field(
        description="Water temperature at the coil's inlet that sensible_kw is quoted for, Celsius."
    )
    fan_kw: Annotated[float, Field(ge=0, le=200)] = Field(description="Fans of one unit at full speed, kilowatts.")
    rise_k: Annotated[float, Field(ge=5, le=30)] = Field(
        description="Rise of the air through the servers at full load, kelvin; their fans set it."
    )
    leakage_pct: Annotated[float, Field(ge=0, le=60)] = Field(
        description="Share of the supplied air that passes the servers by, per cent."
    )
    containment: Literal["hot", "cold", "none"] = Field(description="Which aisles are closed off.")
    path: Literal["raised_floor", "duct", "room", "row"] = Field(
        description="How the air reaches the racks: tiles, ducts, the open hall, or from beside them."
    )
    supply_c: Annotated[float, Field(ge=5, le=35)] | None = Field(
        default=None,
        description="Supply temperature of the air, Celsius; default cooling.supply_c, mandatory with kind liquid.",
    )
    rows_per_zone: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=2, description="Rows that share their units: a zone, which has spare units of its own (S118)."
    )
    units_per_zone: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="Units of each zone where they are given; default: as many as its heat and air need."
    )
    width_m: Annotated[float, Field(gt=0, le=10)] | None = Field(
        default=None,
        description="Width of a unit, metres: in-row units take places of racks (default 0.3), room units and fan walls stand "
        "along the walls at both ends of their rows (without it nobody judges whether they fit).",
    )
    rack_air: RackAir | None = Field(
        default=None,
        description="What the aisle gives one rack, beside which the densest rack is judged; without it the option of "
        "cooling.options that the site is, or tiles and doors, judge it.",
    )
    every_racks: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None,
        description="kind in_row: a place is kept free for coolers after so many racks; default: they take what is free.",
    )
    tile: Tile | None = Field(default=None, description="The tiles; mandatory with path raised_floor.")
    duct: Duct | None = Field(default=None, description="The ducts; mandatory with path duct.")
    source: Text = Field(description="Where the figures come from.")


class Plant(Section):
    """What takes the heat out of the building, at the design day."""

    kind: Literal["chiller_tower", "chiller_dry", "dry_cooler", "tower"] = Field(
        description="Chillers rejecting to wet towers or to dry coolers, or these alone, without chillers."
    )
    reject_kw: Annotated[float, Field(gt=0, le=50_000)] = Field(
        description="Heat that one tower or dry cooler rejects at the design day, kilowatts."
    )
    reject_fan_kw: Annotated[float, Field(ge=0, le=1000)] = Field(
        description="Fans of one tower or dry cooler at full speed, kilowatts."
    )
    approach_k: Annotated[float, Field(gt=0, le=30)] = Field(
        description="Water that leaves it over the outdoor wet bulb (tower) or dry bulb (dry cooler), kelvin."
    )
    design_dry_c: Annotated[float, Field(ge=-20, le=60)] = Field(description="Dry bulb of the design day, Celsius.")
    design_wet_c: Annotated[float, Field(ge=-25, le=40)] = Field(description="Wet bulb of the design day, Celsius.")
    chiller_kw: Annotated[float, Field(gt=0, le=50_000)] | None = Field(
        default=None, description="Cooling of one chiller at the design day, kilowatts; mandatory with chillers."
    )
    chiller_cop: Annotated[float, Field(gt=1, le=30)] | None = Field(
        default=None, description="Heat moved per power at the design day; mandatory with chillers."
    )
    water_c: Annotated[float, Field(ge=4, le=50)] = Field(
        description="Facility water that the plant supplies to coils and distribution units, Celsius."
    )
    water_rise_k: Annotated[float, Field(ge=2, le=25)] = Field(description="Rise of that water, kelvin.")
    pump_kpa: Annotated[float, Field(gt=0, le=2000)] = Field(
        description="Head of the facility water's pumps, kilopascals."
    )
    pump_efficiency: Share = Field(description="Pump, motor and drive together.")
    pump_l_s: Annotated[float, Field(gt=0, le=2000)] | None = Field(
        default=None,
        description="Flow of one pump of the facility water, litres per second; without it their number is not planned.",
    )
    reject_rise_k: Annotated[float, Field(ge=2, le=25)] = Field(
        default=5.0,
        description="Rise of the water between chillers and towers or dry coolers, kelvin; default: 30 to 35 Celsius, at which "
        "AHRI 551/591 rates chillers.",
    )
    reject_pump_kpa: Annotated[float, Field(gt=0, le=2000)] | None = Field(
        default=None,
        description="Head of the pumps between chillers and towers or dry coolers, kilopascals; without it their power is not "
        "counted.",
    )
    n_plus: Annotated[int, Field(ge=0, le=4)] | None = Field(
        default=None, description="Spare chillers, and spare towers or dry coolers; default cooling.n_plus."
    )
    economiser: bool = Field(description="Whether the plant cools without chillers when the weather allows.")
    cycles: Annotated[float, Field(gt=1, le=20)] | None = Field(
        default=None, description="Cycles of concentration of the towers' water; mandatory with towers."
    )
    other_pct: Annotated[float, Field(ge=0, le=50)] = Field(
        description="Lighting, offices and the rest, per cent of the IT load; losses of UPS and transformers come from the "
        "section electrical."
    )
    source: Text = Field(description="Where the figures come from.")


class RideThrough(Section):
    """What decides how soon it is too hot after fans or pumps stop."""

    trip_c: Annotated[float, Field(ge=25, le=60)] = Field(
        description="Air at the servers' inlet at which they throttle or stop, Celsius."
    )
    coolant_trip_c: Annotated[float, Field(ge=25, le=80)] | None = Field(
        default=None, description="Coolant at the servers' inlet at which they stop, Celsius; for kind liquid."
    )
    room_height_m: Annotated[float, Field(ge=2, le=20)] = Field(description="Height of the hall's air, metres.")
    metal_share: Share = Field(
        description="Share of the racks' mass that follows the air's temperature in those minutes."
    )
    restart_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        description="From power restored to full cooling, seconds: controllers, fans, pumps, chillers."
    )
    storage_m3: Annotated[float, Field(ge=0, le=10_000)] = Field(
        default=0.0,
        description="Storage of facility water at cooling.plant.water_c, which coils and distribution units draw from while "
        "fans and pumps run on the UPS, cubic metres.",
    )
    source: Text = Field(description="Where the figures come from.")


class CoolingOption(Section):
    """One way to cool this site, for the comparison that S097 asks for."""

    kind: Literal["air", "hybrid", "liquid"] = Field(
        description="All by air; cold plates for the hot parts and air for the rest; nearly all by liquid."
    )
    air_fraction: Annotated[float, Field(ge=0, le=1)] = Field(description="Share of a server's heat that goes to air.")
    rack_air_kw: Annotated[float, Field(gt=0, le=300)] = Field(
        description="Air heat that a rack may have with this way of supplying air, kilowatts."
    )
    liquid_water_c: Annotated[float, Field(ge=4, le=55)] | None = Field(
        default=None, description="Facility water for the liquid part, Celsius; default cooling.plant.water_c."
    )
    cdu_pump_w_per_kw: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0.0, description="Pumps of the distribution units per kilowatt that they move, watts."
    )
    source: Text = Field(description="Where the figures come from.")


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
    air: AirUnits | None = Field(
        default=None, description="The units that cool the hall's air; without them only its heat and air are planned."
    )
    plant: Plant | None = Field(
        default=None, description="Chillers, towers and dry coolers; without it nothing outside the hall is planned."
    )
    ride_through: RideThrough | None = Field(
        default=None, description="For the minutes to the trip temperature; without it they are not computed."
    )
    options: tuple[CoolingOption, ...] = Field(
        default=(), max_length=3, description="Ways to cool this site, to be compared (S097); each kind once."
    )


class WeatherBin(Section):
    """Hours of a year with about the same weather."""

    dry_c: Annotated[float, Field(ge=-60, le=60)] = Field(description="Dry bulb, Celsius.")
    wet_c: Annotated[float, Field(ge=-60, le=45)] = Field(description="Wet bulb, Celsius.")
    hours: Annotated[float, Field(gt=0, le=8784)] = Field(description="Hours a year.")


class Weather(Section):
    """The weather of a typical year at the site: an EPW file or bins."""

    epw: Text | None = Field(
        default=None, description="Path of an EnergyPlus weather file, relative to the folder of the site file."
    )
    bins: tuple[WeatherBin, ...] = Field(
        default=(), description="Bins where there is no such file; their hours add up to a year."
    )
    source: Text = Field(description="Where the file or the bins come from.")


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
        description="Building block that the storage is bought in: a slug in inventory/catalog/data/storage. Its enclosures are "
        "devices of the plan; while none is named, the first one of this kind is sized and nothing is placed.",
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


class Repository(Section):
    """A package repository of the site's own, which every node is told of."""

    name: Annotated[str, Field(pattern=REPOSITORY_NAME)] = Field(
        description="Name of its file in /etc/apt/sources.list.d, without .sources."
    )
    url: Annotated[str, Field(pattern=REPOSITORY_URL)] = Field(
        description="URL as the nodes reach it: https, http or file, without a login."
    )
    suites: tuple[Annotated[str, Field(pattern=REPOSITORY_SUITE)], ...] = Field(
        min_length=1, description="Suites, such as noble; a flat repository has a folder with a slash at its end: ./"
    )
    components: tuple[Annotated[str, Field(pattern=REPOSITORY_COMPONENT)], ...] = Field(
        default=(), description="Components, such as main; none in a flat repository."
    )
    key: Text = Field(
        description="Path of the public key that signs it, ASCII-armoured or binary (relative to this file, ~ is expanded)."
    )


class Os(Section):
    """Operating system of the nodes."""

    name: Literal["debian", "ubuntu"] = Field(description="Distribution.")
    version: Version = Field(description="Release, in quotes.")
    eol_date: datetime.date = Field(
        description="End of standard support, YYYY-MM-DD; warned of under 12 months (ERR-21)."
    )
    nvidia_packages: Literal["official", "provided"] = Field(
        default="official",
        description="NVIDIA's packages come from its own repositories, or the nodes' sources provide them already (a mirror).",
    )
    repositories: tuple[Repository, ...] = Field(
        default=(),
        description="Package repositories of the site's own, beside those that the nodes were installed with.",
    )

    @property
    def key(self) -> str:
        """Key of tables by operating system, such as the packages of gpu_stack.yaml: `debian-12`."""
        return f"{self.name}-{self.version}"


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

    kind: Literal["slurm", "kubernetes"] = Field(
        description="Workload manager. kubernetes is refused: nothing installs or checks it yet."
    )
    packages: Literal["distribution", "schedmd"] = Field(
        default="distribution",
        description="Where Slurm's packages come from: the distribution, in the one version that it has, or built once from "
        "SchedMD's release and published in a repository of the site (os.repositories); see docs/slurm-packages.md.",
    )
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
    after: tuple[Slug, ...] = Field(
        default=(),
        description="Other items of leadtimes that have to arrive first: servers are integrated after their GPUs are allocated.",
    )
    as_of: datetime.date = Field(description="Date of the quote, YYYY-MM-DD.")
    source: Text = Field(description="Who said so.")


class Link(Section):
    """A tie to other work that is more than `after`: another kind, or a lag."""

    activity: Slug = Field(description="The activity or item of leadtimes that comes first.")
    type: Literal["FS", "SS", "FF", "SF"] = Field(
        default="FS",
        description="From its finish or start (first letter) to this one's start or finish (second letter).",
    )
    lag_days: Annotated[float, Field(ge=-3650, le=3650)] = Field(
        default=0, description="Calendar days between the two; negative for a lead."
    )
    lag_working_days: Annotated[float, Field(ge=-3650, le=3650)] = Field(
        default=0,
        description="Working days of schedule.calendar between the two, added to lag_days; five a week without it.",
    )


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
    links: tuple[Link, ...] = Field(default=(), description="Ties of other kinds than `after`, or with a lag.")
    needs_room: bool = Field(
        default=True,
        description="Group D04: whether it waits for the building (D03). false for receiving and assembly only: racking and "
        "cabling need the room.",
    )
    tranche: Slug | None = Field(
        default=None,
        description="Group D04: the tranche of purchase.tranches that it works on: it waits for that delivery, not for all.",
    )
    continuous: bool = Field(
        default=False,
        description="Whether it goes on over nights, weekends and holidays (a burn-in), whatever schedule.calendar says.",
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


DAYS_A_WEEK = 5
"""Working days of a week where the site has no calendar, for lags in working days: the default of planning programs."""


class WorkCalendar(Section):
    """Days on which people work. Lead times of suppliers, and what is continuous, count every day."""

    working_days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = Field(
        default=("mon", "tue", "wed", "thu", "fri"), min_length=1, max_length=7, description="Working days of a week."
    )
    holidays: tuple[datetime.date, ...] = Field(
        default=(), max_length=4000, description="Days without work besides, YYYY-MM-DD."
    )
    worked: tuple[datetime.date, ...] = Field(
        default=(), max_length=4000, description="Days that are worked though the week says otherwise, YYYY-MM-DD."
    )
    source: Text = Field(description="Whose calendar it is.")


class Schedule(Section):
    """When the cluster is needed, and the work until then."""

    need_date: datetime.date = Field(description="Date of go-live, YYYY-MM-DD.")
    greenfield: bool = Field(description="Whether the facility is still to be built (its path is then the longest).")
    start_date: datetime.date | None = Field(
        default=None,
        description="Date on which orders can be placed, YYYY-MM-DD; default: that of the latest quote in leadtimes.",
    )
    calendar: WorkCalendar | None = Field(
        default=None,
        description="Working days and holidays of the activities; without it every day counts, seven to a week.",
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
    promised_latest: datetime.date | None = Field(
        default=None,
        description="Latest delivery that the promise allows, YYYY-MM-DD; default: promised_date, a promise without a range.",
    )
    source: Text | None = Field(default=None, description="Who promised it, and where it is written.")


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
    """How the checks run on this site, and what they may do to it."""

    workloads_on: Literal["gpu", "cpu"] = Field(
        default="gpu",
        description="Where burn-in, collectives and training compute. `gpu`: on every GPU of a node, one rank each, over NCCL; "
        "a job that finds no GPU fails. `cpu`: one rank a node over gloo; proves nothing about GPUs and never counts at "
        "go-live.",
    )
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
    ca: Text = Field(
        description="Path of the CA certificate that signed the BMCs' TLS certificates; like every path here relative to "
        "the site file's folder, with ~ as the home of whoever runs the command."
    )
    factory: FactoryAccount | None = Field(
        default=None, description="Account as delivered; its login must be refused once the site's account is in place."
    )


class SshCredentials(Section):
    """Key login over SSH."""

    user: Text = Field(description="Login name.")
    key: SecretReference = Field(description="file: reference to the private key.")
    known_hosts: Text = Field(
        description="Path of the known_hosts file (relative to this file, ~ is expanded); unknown host keys are refused."
    )


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
    electrical: Electrical | None = Field(
        default=None, description="The supply above the rack circuits; without it nothing above them is planned."
    )
    cooling: Cooling = Field(description="Heat removal.")
    weather: Weather | None = Field(
        default=None, description="A typical year, for economiser hours, water and energy; without it none of these."
    )
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
