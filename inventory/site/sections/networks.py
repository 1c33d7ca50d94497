"""The networks of a site file: compute fabric, in-band, management, media, addresses."""

import itertools
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from inventory.catalog import Catalog
from inventory.site.messages import MISSING
from inventory.site.rules import device_of_kind, rule
from inventory.site.sections.servers import Server, ServiceNode
from inventory.site.values import Address, BisectionShare, Ipv6Network, Network, Section, Slug, absent
from inventory.site.yaml_source import Problem


def _is(default: object) -> Callable[[object], bool]:
    """A key that has its default is no part of a section's hash: files written before the key existed keep theirs."""
    return lambda value: value == default


class Lossless(Section):
    """The lossless class of a RoCE fabric: marks of its packets, their queues and their share of a port."""

    dscp: Annotated[int, Field(ge=0, le=63)] = Field(
        default=26, description="DSCP of RoCE packets. 26 as `nv set qos roce` of Cumulus Linux 5.16 has it."
    )
    priority: Annotated[int, Field(ge=0, le=7)] = Field(
        default=3, description="PFC priority of RoCE packets. 3 as `nv set qos roce` of Cumulus Linux 5.16 has it."
    )
    traffic_class: Annotated[int, Field(ge=1, le=7)] = Field(
        default=3, description="Egress queue of RoCE packets; queue 0 takes what is neither RoCE nor CNP."
    )
    cnp_dscp: Annotated[int, Field(ge=0, le=63)] = Field(
        default=48,
        description="DSCP of congestion notifications. 48 as `nv set qos roce` of Cumulus Linux 5.16 has it.",
    )
    cnp_class: Annotated[int, Field(ge=1, le=7)] = Field(
        default=6, description="Priority and egress queue of congestion notifications, served before all others."
    )
    share_pct: Annotated[int, Field(ge=1, le=99)] = Field(
        default=50,
        description="Share of a congested port for RoCE (ETS); the rest is queue 0's. 50 as `nv set qos roce` of Cumulus "
        "Linux 5.16 has it.",
    )
    watchdog_ms: Annotated[int, Field(ge=100, le=5000)] = Field(
        default=300,
        description="Milliseconds after which a queue that is paused all the time is taken for stuck (PFC watchdog). "
        "Not confirmed: planning figure of three readings, one every 100 ms.",
    )


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, each once. ValueError for one that is there twice."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is there twice; name each switch once")
    return names


Maintenance = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")], ...], Field(max_length=1000), AfterValidator(_once)
]
"""Names of switches, each once."""


class NosImage(Section):
    """A release of a network operating system, pinned by its content."""

    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$")] = Field(
        description="Release as the switch tells it, such as 5.16.0."
    )
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$")] = Field(
        description="Name of the image below images/nos on the boot server."
    )
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="SHA-256 of that file, from its maker."
    )


class Fabric(Section):
    """The rail-optimised compute fabric."""

    kind: Literal["ib", "roce"] = Field(
        description="InfiniBand or RoCEv2 Ethernet; decides which steps apply (ERR-12)."
    )
    switch_model: Slug = Field(description="Switch slug in inventory/catalog/data/device-types.")
    radix: int = Field(ge=4, le=1024, multiple_of=2, description="Ports per switch that the design uses; even.")
    bisection: BisectionShare = Field(
        description="Bisection bandwidth as a share of full: 1.0 is non-blocking (ERR-10). Or ports down to ports up, in quotes: "
        "'2:1' is 0.5."
    )
    rails: int = Field(ge=1, le=32, description="Rails: NIC k of every server goes to the leaves of rail k.")
    unit_nodes: int = Field(
        ge=1, le=1024, description="Servers of one scalable unit (those that share a set of leaves)."
    )
    tiers: Literal["auto", 1, 2, 3] = Field(
        default="auto",
        description="Switch tiers; auto takes 2 where they fit, else 3. 1 is a single switch for all servers.",
    )
    leaf_uplinks: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None,
        description="Uplinks per leaf where they are given; default: as many as the bisection needs (RC-051).",
    )
    least_spines: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1,
        description="Spines that each leaf goes to at least, though fewer have the ports; in three tiers, of each plane. With "
        "one, its loss separates all leaves. With those of the final size from the start, growth in two tiers moves no trunk "
        "(`bringup plan --set server.count=N` of that size says how many).",
    )
    congestion_control: Literal["dcqcn", "pfc_only", "spectrum_x"] | None = Field(
        default=None,
        description="RoCE only, and mandatory there: how the fabric stays lossless. "
        "The finding FABRIC-CONGESTION-CONTROL says what applies it.",
    )
    nos: Literal["cumulus", "eos", "sonic"] | None = Field(
        default=None,
        exclude_if=absent,
        description="RoCE only: network operating system of the compute switches, a folder of network/nos. Without it they get "
        "no configuration.",
    )
    nos_image: NosImage | None = Field(
        default=None,
        exclude_if=absent,
        description="RoCE only: image of that system which `bringup boot render` pins at the first boot. Without it switches keep "
        "the release that they are delivered with.",
    )
    asn_base: Annotated[int, Field(ge=4200000000, le=4293967294)] | None = Field(
        default=None,
        exclude_if=absent,
        description="RoCE only: first AS number of the compute switches, private and of 32 bits (RFC 6996), with a million behind "
        "it; `bringup render` needs it for them.",
    )
    mtu: Annotated[int, Field(ge=1280, le=9216)] = Field(
        default=9216,
        exclude_if=_is(9216),
        description="RoCE only: largest IP packet on links of the compute fabric, bytes. 9216 as Cumulus Linux 5.16 has it.",
    )
    load_balancing: Literal["ecmp", "dynamic", "adaptive"] = Field(
        default="ecmp",
        exclude_if=_is("ecmp"),
        description="RoCE only: how switches choose among equal paths: by a hash of the flow, by load for each flowlet, or by load "
        "for each packet.",
    )
    maintenance: Maintenance = Field(
        default=(),
        exclude_if=_is(()),
        description="RoCE only: names of compute switches in maintenance. Their configuration asks the others to go by other "
        "switches (graceful shutdown); the sessions stay up.",
    )
    lossless: Lossless = Field(
        default=Lossless(),
        exclude_if=_is(Lossless()),
        description="RoCE only: the lossless class.",
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
    maintenance: Maintenance = Field(
        default=(),
        exclude_if=_is(()),
        description="Names of in-band switches in maintenance. Their configuration asks the others to go by other switches "
        "(BGP graceful shutdown); the sessions stay up.",
    )
    asn_base: Annotated[int, Field(ge=64512, le=4294967294)] = Field(
        description="First private AS number (RFC 6996); spines share it, leaves count up from it."
    )

    def as_number(self, role: Literal["spine", "leaf"], index: int) -> int:
        """AS number of the switch of a role with this index, from 1; servers attach without one."""
        return self.asn_base + (index if role == "leaf" else 0)


class Oob(Section):
    """The out-of-band management network."""

    switch_model: Slug = Field(description="Management switch slug in the catalogue.")
    switches: Annotated[int, Field(ge=1, le=65_536)] = Field(description="Number of management switches.")
    nos: Literal["cumulus", "eos", "sonic"] | None = Field(
        default=None,
        exclude_if=absent,
        description="Network operating system of the out-of-band switches, a folder of network/nos. Without it they get no "
        "configuration.",
    )
    nos_image: NosImage | None = Field(
        default=None,
        exclude_if=absent,
        description="Image of that system which `bringup boot render` pins at the first boot. Without it switches keep the release "
        "that they are delivered with.",
    )
    management_vlan: Annotated[int, Field(ge=2, le=4094)] = Field(
        default=10,
        exclude_if=_is(10),
        description="VLAN of the management network on the out-of-band switches. The default is a planning figure.",
    )
    provisioning_vlan: Annotated[int, Field(ge=2, le=4094)] = Field(
        default=20,
        exclude_if=_is(20),
        description="VLAN of the provisioning network, the servers' first ports. The default is a planning figure.",
    )


class Media(Section):
    """Cables and transceivers."""

    reach_table: Slug = Field(description="Media table in inventory/catalog/data/media: parts with their reach.")


class Addressing(Section):
    """Prefixes; they must not overlap. IPv6 is optional: its addresses lie in their prefixes as those of IPv4 in theirs."""

    oob: Network = Field(description="Management: switches, PDUs, BMCs; .1 is the operator's workstation.")
    provisioning: Network = Field(description="Nodes' eth0; .1 is the operator's workstation and package mirror.")
    loopbacks: Network = Field(description="One /32 per in-band switch and node.")
    links: Network = Field(description="One /31 per node-leaf link.")
    compute_loopbacks: Network | None = Field(
        default=None,
        exclude_if=absent,
        description="RoCE only: one /32 per compute switch; `bringup render` needs it for them.",
    )
    rails: Network | None = Field(
        default=None,
        exclude_if=absent,
        description="RoCE only: links of servers to compute leaves. Split evenly into a prefix for each rail, and each of those "
        "into one for each leaf, with a /31 for each port; `bringup render` needs it for compute switches.",
    )
    loopbacks_ipv6: Ipv6Network | None = Field(
        default=None,
        exclude_if=absent,
        description="One /128 per in-band switch and node, beside that of loopbacks. In-band switches and servers then route both "
        "families. Needs links_ipv6.",
    )
    links_ipv6: Ipv6Network | None = Field(
        default=None,
        exclude_if=absent,
        description="One /127 per node-leaf link (RFC 6164), beside that of links. Needs loopbacks_ipv6.",
    )
    compute_loopbacks_ipv6: Ipv6Network | None = Field(
        default=None,
        exclude_if=absent,
        description="RoCE only: one /128 per compute switch, beside that of compute_loopbacks. Needs rails_ipv6.",
    )
    rails_ipv6: Ipv6Network | None = Field(
        default=None,
        exclude_if=absent,
        description="RoCE only: split as rails is, with a /64 for each leaf and a /127 for each port (RFC 6164). Compute switches "
        "and servers then route both families. Needs compute_loopbacks_ipv6.",
    )
    bmc_ipv6: Ipv6Network | None = Field(
        default=None,
        exclude_if=absent,
        description="An address for each BMC beside that of oob, in the tables for DNS, DHCP and NetBox.",
    )
    ntp: tuple[Address, ...] = Field(default=(), description="Time servers.")
    dns: tuple[Address, ...] = Field(default=(), description="Name servers.")
    syslog: tuple[Address, ...] = Field(
        default=(),
        max_length=8,
        exclude_if=absent,
        description="Log servers of the BMCs (UDP, port 514), and of the compute switches of a RoCE fabric.",
    )


PREFIXES = ("oob", "provisioning", "loopbacks", "links", "compute_loopbacks", "rails")
"""Keys of IPv4 prefixes; the last two are a RoCE fabric's."""
BESIDE = {
    "loopbacks_ipv6": "loopbacks",
    "links_ipv6": "links",
    "compute_loopbacks_ipv6": "compute_loopbacks",
    "rails_ipv6": "rails",
    "bmc_ipv6": "oob",
}
"""{key of an IPv6 prefix: key of the IPv4 prefix beside whose addresses its own lie}."""
TOGETHER = (
    *BESIDE.items(),
    ("loopbacks_ipv6", "links_ipv6"),
    ("links_ipv6", "loopbacks_ipv6"),
    ("compute_loopbacks_ipv6", "rails_ipv6"),
    ("rails_ipv6", "compute_loopbacks_ipv6"),
)
"""(key, key that it is of no use without)."""
LEAF_IPV6 = 64
"""Length of the prefix of a compute leaf, which its ports' pairs lie in: longer ones take more of a switch's table of routes."""


@rule("fabric")
def fabric_switch_is_known_and_carries_the_kind(catalog: Catalog, fabric: Fabric) -> Iterator[Problem]:
    path = ("fabric", "switch_model")
    yield from device_of_kind(catalog, path, fabric.switch_model, "switch")
    device = catalog.devices.get(fabric.switch_model)
    if device is None or device.kind != "switch":
        return
    wanted = "ib" if fabric.kind == "ib" else "eth"
    names = {"ib": "InfiniBand", "eth": "Ethernet"}
    if device.bringup.fabric != wanted:
        yield Problem(
            path,
            f"a switch of another kind than fabric.kind {fabric.kind}",
            f"{device.slug}, {names.get(device.bringup.fabric, 'no fabric')}",
            f"an {names[wanted]} switch",
            "correct fabric.kind or fabric.switch_model",
        )
    if fabric.radix > device.bringup.data_ports:
        yield Problem(
            ("fabric", "radix"),
            "more ports than the switch has",
            str(fabric.radix),
            f"at most {device.bringup.data_ports} ({device.slug})",
            f"write {device.bringup.data_ports} or less",
        )


@rule("fabric")
def congestion_control_goes_with_roce(catalog: Catalog, fabric: Fabric) -> Iterator[Problem]:
    path = ("fabric", "congestion_control")
    if fabric.kind == "roce" and fabric.congestion_control is None:
        yield Problem(
            path,
            MISSING,
            "",
            "dcqcn, pfc_only or spectrum_x, since fabric.kind is roce",
            "add 'congestion_control:' in fabric",
        )
    if fabric.kind == "ib" and fabric.congestion_control is not None:
        yield Problem(
            path,
            "a key of another fabric kind",
            fabric.congestion_control,
            "no congestion_control: InfiniBand uses credit flow control (ERR-12)",
            "delete the key",
        )


@rule("fabric")
def keys_of_roce_go_with_roce(catalog: Catalog, fabric: Fabric) -> Iterator[Problem]:
    if fabric.kind == "roce":
        return
    for key in sorted({"nos", "nos_image", "asn_base", "mtu", "load_balancing", "lossless"} & fabric.model_fields_set):
        if getattr(fabric, key) is not None:
            yield Problem(
                ("fabric", key),
                "a key of another fabric kind",
                "",
                "no such key: fabric.kind is ib",
                "delete the key",
            )


@rule("fabric")
def lossless_and_notifications_are_told_apart(catalog: Catalog, fabric: Fabric) -> Iterator[Problem]:
    lossless = fabric.lossless
    for key, other in (("cnp_dscp", "dscp"), ("cnp_class", "traffic_class"), ("cnp_class", "priority")):
        value = getattr(lossless, key)
        if value == getattr(lossless, other):
            yield Problem(
                ("fabric", "lossless", key),
                f"equal to fabric.lossless.{other}",
                str(value),
                "another value: notifications must not wait in the queue that they are about",
                f"write another {key}",
            )
            return


@rule("fabric", "service_nodes")
def subnet_managers_have_nodes(catalog: Catalog, fabric: Fabric, nodes: tuple[ServiceNode, ...]) -> Iterator[Problem]:
    path = ("fabric", "subnet_managers")
    if fabric.kind != "ib" and fabric.subnet_managers:
        yield Problem(
            path,
            "a key of another fabric kind",
            ", ".join(fabric.subnet_managers),
            "no subnet_managers: Ethernet has none",
            "delete the key",
        )
        return
    count = {node.role: node.count for node in nodes}
    for role in sorted(set(fabric.subnet_managers)):
        wanted = fabric.subnet_managers.count(role)
        if wanted > count.get(role, 0):
            yield Problem(
                path,
                "more subnet managers than nodes of the role",
                f"{wanted} on {role} nodes, of which there are {count.get(role, 0)}",
                f"each subnet manager on a {role} node of its own",
                "name another role, or raise its count in service_nodes",
            )


@rule("server", "fabric")
def one_nic_port_per_rail(catalog: Catalog, server: Server, fabric: Fabric) -> Iterator[Problem]:
    if server.nic.ports != fabric.rails:
        yield Problem(
            ("fabric", "rails"),
            "rails and NIC ports differ",
            f"{fabric.rails} rails, {server.nic.ports} NIC ports",
            "one NIC port per rail: NIC k of every server goes to the leaves of rail k (ERR-11)",
            f"write rails: {server.nic.ports}, or correct server.nic.ports",
        )
    device = catalog.devices.get(server.model)
    if device and device.bringup.fabric_ports and server.nic.ports > len(device.bringup.fabric_ports):
        yield Problem(
            ("server", "nic", "ports"),
            "more ports than the server has",
            str(server.nic.ports),
            f"at most {len(device.bringup.fabric_ports)} ({device.slug})",
            "correct the number or the model",
        )
    switch = catalog.devices.get(fabric.switch_model)
    if switch and switch.kind == "switch" and server.nic.rate_gbps > switch.bringup.rate_gbps:
        yield Problem(
            ("server", "nic", "rate_gbps"),
            "faster than the switch's ports",
            f"{server.nic.rate_gbps}",
            f"at most {switch.bringup.rate_gbps:g} ({switch.slug})",
            "correct the rate or fabric.switch_model",
        )


@rule("inband")
def inband_switches_are_known_and_have_the_ports(catalog: Catalog, inband: Inband) -> Iterator[Problem]:
    for key, uplinks, what in (("spine_model", inband.leaves, "leaves"), ("leaf_model", inband.spines, "spines")):
        slug = getattr(inband, key)
        yield from device_of_kind(catalog, ("inband", key), slug, "switch")
        device = catalog.devices.get(slug)
        if device is None or device.kind != "switch":
            continue
        if uplinks > device.bringup.data_ports:
            yield Problem(
                ("inband", what),
                "more than the switch has ports for",
                str(uplinks),
                f"at most {device.bringup.data_ports} ({device.slug}: each leaf has a link to each spine)",
                "take fewer, or a larger switch",
            )
        if inband.rate_gbps > device.bringup.rate_gbps:
            yield Problem(
                ("inband", "rate_gbps"),
                f"faster than the ports of {slug}",
                str(inband.rate_gbps),
                f"at most {device.bringup.rate_gbps:g}",
                f"correct the rate or inband.{key}",
            )
    if inband.links_per_node > inband.leaves:
        yield Problem(
            ("inband", "links_per_node"),
            "more links than leaves",
            str(inband.links_per_node),
            f"at most {inband.leaves}, since each link goes to another leaf",
            "correct one of the two",
        )


@rule("server", "inband", "service_nodes")
def nodes_have_the_inband_ports(
    catalog: Catalog, server: Server, inband: Inband, nodes: tuple[ServiceNode, ...]
) -> Iterator[Problem]:
    for slug in (server.model, *(node.model for node in nodes)):
        device = catalog.devices.get(slug)
        if device and device.kind == "server" and inband.links_per_node > len(device.bringup.inband_ports):
            yield Problem(
                ("inband", "links_per_node"),
                "more links than a server has in-band ports",
                str(inband.links_per_node),
                f"at most {len(device.bringup.inband_ports)} ({slug})",
                "correct the number or the model",
            )


@rule("inband")
def as_numbers_stay_private(catalog: Catalog, inband: Inband) -> Iterator[Problem]:
    base, last = inband.as_number("spine", 1), inband.as_number("leaf", inband.leaves)
    if not any(low <= base and last <= high for low, high in ((64512, 65534), (4200000000, 4294967294))):
        yield Problem(
            ("inband", "asn_base"),
            "AS numbers outside the private ranges",
            f"{base} to {last} ({last - base + 1} numbers)",
            "all within 64512-65534 or 4200000000-4294967294 (RFC 6996)",
            "write 4200000000",
        )


@rule("oob")
def management_switch_is_known(catalog: Catalog, oob: Oob) -> Iterator[Problem]:
    yield from device_of_kind(catalog, ("oob", "switch_model"), oob.switch_model, "switch")


@rule("oob")
def networks_of_the_switches_are_apart(catalog: Catalog, oob: Oob) -> Iterator[Problem]:
    if oob.provisioning_vlan == oob.management_vlan:
        yield Problem(
            ("oob", "provisioning_vlan"),
            "equal to oob.management_vlan",
            str(oob.provisioning_vlan),
            "a VLAN for each: servers must not reach BMCs (network/separation.yaml)",
            "write another provisioning_vlan",
        )


@rule("addressing")
def prefixes_do_not_overlap(catalog: Catalog, addressing: Addressing) -> Iterator[Problem]:
    for first, second in itertools.combinations([*PREFIXES, *BESIDE], 2):
        a, b = getattr(addressing, first), getattr(addressing, second)
        if a is not None and b is not None and a.version == b.version and a.overlaps(b):
            yield Problem(
                ("addressing", second),
                f"overlaps addressing.{first}",
                f"{b} and {a}",
                "prefixes apart from each other",
                "choose another prefix for one of the two",
            )


@rule("addressing")
def prefixes_of_both_families_go_together(catalog: Catalog, addressing: Addressing) -> Iterator[Problem]:
    for key, needed in TOGETHER:
        if getattr(addressing, key) is not None and getattr(addressing, needed) is None:
            yield Problem(
                ("addressing", key),
                f"a prefix without addressing.{needed}",
                str(getattr(addressing, key)),
                f"both, or neither: {key} is of use with {needed} only",
                f"add '{needed}:' in addressing",
            )


@rule("addressing", "fabric")
def prefixes_of_ipv6_have_the_room_of_those_of_ipv4(
    catalog: Catalog, addressing: Addressing, fabric: Fabric
) -> Iterator[Problem]:
    most = {
        key: 96 + net.prefixlen for key, beside in BESIDE.items() if (net := getattr(addressing, beside)) is not None
    }
    device, rails = catalog.devices.get(fabric.switch_model), addressing.rails
    if device is not None and device.kind == "switch" and rails is not None:
        of_leaf = 2 << (device.bringup.data_ports - 1).bit_length()  # IPv4 addresses, as network.wiring.rails has it
        most["rails_ipv6"] = LEAF_IPV6 - (max(1, rails.num_addresses // of_leaf) - 1).bit_length()
    for key, length in most.items():
        given = getattr(addressing, key)
        if given is not None and given.prefixlen > length:
            yield Problem(
                ("addressing", key),
                f"less room than addressing.{BESIDE[key]}",
                str(given),
                f"a prefix of length {length} or shorter",
                f"write {given.supernet(new_prefix=length)}" if length >= 0 else "choose a shorter prefix",
            )
