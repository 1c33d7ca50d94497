"""startup-config of Arista EOS for one compute switch, and back.

    text = render(config)     # network.nos.model.SwitchConfig -> the file of flash:startup-config
    read(text)                # -> network.nos.model.Model, without cable lengths
    structured(config)        # the same in the data model of Arista's AVD (role eos_cli_config_gen)

Tests hold `structured` against AVD's schema and ask that AVD's own templates write the same text (package pyavd).

Links between switches have no IPv4 address: BGP by interface over link-local addresses, with IPv6 next hops for IPv4 routes
(RFC 5549). EOS has no line for the length of a cable, so the headroom of a port is its own affair.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from inventory.site.sections.networks import LEAF_IPV6
from inventory.yaml_data import read_data
from network.lossless import Ecn
from network.nos import capabilities
from network.nos.model import Management, Model, SwitchConfig
from network.separation import NAME as FILTER
from network.separation import Rule

MANAGEMENT, VRF = "Management1", "MGMT"
"""Port and VRF of management, as the driver keeps them."""
DEFAULT_ACCOUNT = "admin"
"""Account that EOS is delivered with, without a password."""
POLLING_MS = 100
"""Interval of the PFC watchdog; timers are multiples of it, as on the other systems."""
MTU_MAX: int = capabilities("eos")["mtu_max"]
"""Largest MTU of a routed port, bytes."""
DETECT = 3
"""BFD packets of which all have to be missed (RFC 5880, 6.8.4)."""
MAXIMUM_PATHS = 64
"""Equal paths, unless there are more neighbours."""
_CLI = 'FastCli -p 15 -c "configure\n{line}\nend\nwrite memory"'
SNMP_USER = _CLI.replace("{line}", "snmp-server user {user} READERS v3 auth sha $SNMP_AUTH priv aes $SNMP_PRIV")
"""Command that makes the SNMPv3 user, with passphrases from the environment."""
PASSWORD = _CLI.replace("{line}", "username {user} privilege 15 role network-admin secret 0 $SWITCH_PASSWORD")
"""Command that sets the password which eAPI takes."""
ROUTES, LINKS, PEERS, QOS = "PLANNED", "CONNECTED", "FABRIC", "LOSSLESS"
IPV6 = "-IPV6"
"""Behind the names of the lists and maps of IPv6."""
DRAINED = "DRAINED"
"""Route map of a switch in maintenance, for what it announces."""
PREPENDED = 3
"""Times that a switch in maintenance puts its AS number before its paths: one is enough where all other ways are equally long."""
PRIORITIES = range(8)
LOOPBACK = "Loopback0"

Tree = dict[str, Any]
READERS: Tree = {
    "views": [{"name": "ALL", "mib_family_name": "iso", "included": True}],
    "groups": [{"name": "READERS", "version": "v3", "authentication": "priv", "read": "ALL"}],
}
"""SNMP in AVD's data model: a group that reads all, with authentication and privacy."""
API = ("management api http-commands", "   no shutdown", "   !")
"""First lines of the section of eAPI; a VRF follows."""
Sections = Mapping[str, list[str]]
"""{first line of a section: the lines in it, without their indents}."""


@cache
def platforms() -> Mapping[str, Mapping[str, str]]:
    """{slug of a switch model: what EOS has to be told of it}."""
    data: Mapping[str, Mapping[str, str]] = read_data(Path(__file__).with_name("platforms.yaml"))
    return data


def structured(config: SwitchConfig) -> Tree:
    """The configuration in AVD's data model. Raises ValueError for a model that platforms.yaml lacks, or too large an MTU."""
    if config.switch_model not in platforms():
        raise ValueError(f"{config.switch_model}: not in network/nos/eos/platforms.yaml")
    if config.intent.mtu > MTU_MAX:
        raise ValueError(f"{config.hostname}: MTU {config.intent.mtu} is above {MTU_MAX}, the largest of EOS")
    return {
        "hostname": config.hostname,
        "service_routing_protocols_model": "multi-agent",
        "spanning_tree": {"mode": "none"},
        "ip_routing_ipv6_interfaces": True,
        "ipv6_unicast_routing": True,
        **_management(config),
        **_interfaces(config),
        **_filters(config),
        **_qos(config),
        **_routes(config),
    }


def _management(config: SwitchConfig) -> Tree:
    management = config.management
    made: Tree = {
        "vrfs": [{"name": VRF, "ip_routing": False}],
        "management_interfaces": [{"name": MANAGEMENT, "vrf": VRF, "ip_address": management.address}],
        "management_api_http": {"enable_vrfs": [{"name": VRF}]},
        "management_ssh": {"enable": False, "vrfs": [{"name": VRF, "enable": True}]},
        "snmp_server": {
            **READERS,
            "vrfs": [{"name": "default", "enable": False}, {"name": VRF, "enable": True}],
        },
    }
    if management.ntp:
        servers = [{"name": server, "iburst": True} for server in sorted(management.ntp)]
        made["ntp"] = {"vrf": VRF, "servers": servers}
    if management.dns:
        servers = [{"ip_address": server} for server in sorted(management.dns)]
        made["ip_name_server"] = {"vrfs": [{"name": VRF, "servers": servers}]}
    if management.syslog:
        hosts = [{"name": server} for server in sorted(management.syslog)]
        made["logging"] = {"vrfs": [{"name": VRF, "hosts": hosts}]}
    if management.key:
        made["local_users"] = local_users(management)
        made["management_ssh"]["authentication"] = {"protocols": ["public-key"]}
    return made


def local_users(management: Management) -> list[Tree]:
    """The operator's account by its key, without that of the factory."""
    key = f"{management.key_type} {management.key} bringup"
    users: list[Tree] = [{"name": management.user, "ssh_key": key}]
    if management.user != DEFAULT_ACCOUNT:
        users.insert(0, {"name": DEFAULT_ACCOUNT, "disabled": True})
    return users


def _interfaces(config: SwitchConfig) -> Tree:
    speed, ports = platforms()[config.switch_model]["speed"], []
    for port in config.ports:
        if port.address is None:
            own: Tree = {"ipv6_enable": True}
        else:
            own = {"ip_address": port.address, "access_group_in": FILTER}
        if port.ipv6 is not None:
            own |= {
                "ipv6_address": port.ipv6,
                "ipv6_nd_ra_disabled": True,  # servers have their routes from the plan
                "ipv6_access_group_in": f"{FILTER}{IPV6}",
            }
        ports.append(
            {
                "name": port.name,
                "description": f"{port.far} {port.far_port}",
                "shutdown": False,
                "mtu": config.intent.mtu,
                "speed": speed,
                "switchport": {"enabled": False},
                "service_profile": QOS,
                **own,
            }
        )
    loopback = {"name": LOOPBACK, "ip_address": config.loopback}
    if config.ipv6 is not None:
        loopback["ipv6_address"] = config.ipv6.loopback
    return {"ethernet_interfaces": ports, "loopback_interfaces": [loopback]}


def _filters(config: SwitchConfig) -> Tree:
    """Filter of the ports to servers. It holds for packets to the switch itself too."""
    if not config.filtered:
        return {}
    made: Tree = {"ip_access_lists": [{"name": FILTER, "entries": _entries(config, 4)}]}
    if config.ipv6 is not None:
        made["ipv6_access_lists"] = [{"name": f"{FILTER}{IPV6}", "entries": _entries(config, 6)}]
    return made


def _entries(config: SwitchConfig, version: int) -> list[Tree]:
    """Entries of the access list of one version of IP."""
    words = PROTOCOLS[version]
    entries: list[Tree] = []
    for rule in config.permits:
        if rule.version == version:
            source, destination = ("any" if one == "::/0" else one for one in (rule.source, rule.destination))
            entry: Tree = {"action": "permit", "protocol": words.get(rule.protocol, rule.protocol)}
            entry |= {"source": source, "destination": destination}
            if rule.port is not None:
                entry |= {"destination_ports_match": "eq", "destination_ports": [str(rule.port)]}
            entries.append(entry)
    entries.append({"action": "deny", "protocol": words["any"], "source": "any", "destination": "any"})
    return [{"sequence": 10 * number, **entry} for number, entry in enumerate(entries, 1)]


PROTOCOLS = {4: {"any": "ip"}, 6: {"any": "ipv6", "icmp": "icmpv6"}}
"""{version of IP: {protocol of a rule: EOS's word where it has another}}."""


def _qos(config: SwitchConfig) -> Tree:
    intent = config.intent
    class_of = {intent.dscp: intent.priority, intent.cnp_dscp: intent.cnp_class}
    queue_of = {intent.priority: intent.traffic_class, intent.cnp_class: intent.cnp_class}
    others = " ".join(str(dscp) for dscp in range(64) if dscp not in class_of)
    dscp = [f"{others} to traffic-class 0", *(f"{mark} to traffic-class {to}" for mark, to in sorted(class_of.items()))]
    lossless: Tree = {"id": intent.traffic_class, "priority": "no priority", "bandwidth_percent": intent.share_pct}
    counted: Tree = {}
    if config.ecn is not None:
        counted = {"hardware_counters": {"features": [{"name": "ecn", "direction": "out"}]}}
        threshold = {"units": "bytes", "min": config.ecn.minimum, "max": config.ecn.maximum}
        lossless["random_detect"] = {"ecn": {"threshold": {**threshold, "max_probability": config.ecn.probability_pct}}}
    queues = [
        {"id": 0, "priority": "no priority", "bandwidth_percent": 100 - intent.share_pct},
        lossless,
        {"id": intent.cnp_class, "priority": "priority strict"},
    ]
    seconds = f"{-(-intent.watchdog_ms // POLLING_MS) * POLLING_MS / 1000:g}"
    return {
        **counted,
        "qos": {
            "map": {"dscp": dscp, "traffic_class": [f"{p} to uc-tx-queue {queue_of.get(p, 0)}" for p in PRIORITIES]}
        },
        "priority_flow_control": {
            "watchdog": {
                "action": "drop",
                "timeout": seconds,
                "recovery_time": seconds,
                "polling_interval": f"{POLLING_MS / 1000:g}",
            }
        },
        "qos_profiles": [
            {
                "name": QOS,
                "trust": "dscp",
                "uc_tx_queues": queues,
                "priority_flow_control": {
                    "enabled": True,
                    "priorities": [{"priority": intent.priority, "no_drop": True}],
                    "watchdog": {"enabled": True},
                },
            }
        ],
    }


def _routes(config: SwitchConfig) -> Tree:
    uplinks = [port.name for port in config.ports if port.address is None]
    paths = max(MAXIMUM_PATHS, len(uplinks))
    group: Tree = {"name": PEERS, **_policies(config, "")}
    if config.bfd_ms is not None:
        group["bfd"] = True
    bgp: Tree = {
        "as": str(config.asn),
        "router_id": config.loopback.partition("/")[0],
        "maximum_paths": {"paths": paths, "ecmp": paths},
        "bgp": {"default": {"ipv4_unicast": False}},
        "peer_groups": [group],
        "redistribute": {"connected": {"enabled": True, "route_map": LINKS}},
        "neighbor_interfaces": [{"name": name, "peer_group": PEERS, "peer_filter": PEERS} for name in uplinks],
        "address_family_ipv4": {
            "peer_groups": [
                {
                    "name": PEERS,
                    "activate": True,
                    "next_hop": {"address_family_ipv6": {"enabled": True, "originate": True}},
                }
            ]
        },
    }
    aggregates = [config.aggregate]
    lists = {"prefix_lists": _prefix_lists("", {config.loopbacks: (32, 32), config.rails: (31, config.leaf_length)})}
    maps = _route_maps(config, "ip", "")
    if config.ipv6 is not None:
        own = config.ipv6
        aggregates.append(own.aggregate)
        lists["ipv6_prefix_lists"] = _prefix_lists(IPV6, {own.loopbacks: (128, 128), own.rails: (127, LEAF_IPV6)})
        maps += _route_maps(config, "ipv6", IPV6)
        # What stands in router mode holds for all families: with two, each says its own.
        connected = bgp.pop("redistribute")
        bgp["address_family_ipv4"]["redistribute"] = connected
        bgp["address_family_ipv6"] = {
            "peer_groups": [{"name": PEERS, "activate": True, **_policies(config, IPV6)}],
            "redistribute": {"connected": {"enabled": True, "route_map": f"{LINKS}{IPV6}"}},
        }
        bgp["address_family_ipv4"]["peer_groups"][0] |= {
            key: group.pop(key) for key in ("route_map_in", "route_map_out")
        }
    if any(aggregates):
        bgp["aggregate_addresses"] = [{"prefix": prefix, "summary_only": True} for prefix in aggregates if prefix]
    made: Tree = {
        **lists,
        "route_maps": sorted(maps, key=lambda one: str(one["name"])),
        "peer_filters": [
            {"name": PEERS, "sequence_numbers": [{"sequence": 10, "match": "as-range 1-4294967295 result accept"}]}
        ],
        "router_bgp": bgp,
    }
    if config.bfd_ms is not None:
        made["router_bfd"] = {"interval": config.bfd_ms, "min_rx": config.bfd_ms, "multiplier": DETECT}
    return made


def _policies(config: SwitchConfig, suffix: str) -> Tree:
    """Route maps of the neighbours."""
    return {
        "route_map_in": f"{ROUTES}{suffix}",
        "route_map_out": f"{DRAINED if config.drained else ROUTES}{suffix}",
    }


def _prefix_lists(suffix: str, lengths: Mapping[str, tuple[int, int]]) -> list[Tree]:
    """Lists of the switch's own links and of all planned routes, which let prefixes of one length pass below each prefix."""
    return [
        {
            "name": f"{name}{suffix}",
            "sequence_numbers": [
                {"sequence": 10 * number, "action": f"permit {prefix} eq {bits[place]}"}
                for number, (prefix, bits) in enumerate(lengths.items(), 1)
            ],
        }
        for place, name in enumerate((LINKS, ROUTES))
    ]


def _route_maps(config: SwitchConfig, family: str, suffix: str) -> list[Tree]:
    def one(name: str, prefixes: str, **more: list[str]) -> Tree:
        match = [f"{family} address prefix-list {prefixes}{suffix}"]
        entry = {"sequence": 10, "type": "permit", "match": match, **more}
        return {"name": f"{name}{suffix}", "sequence_numbers": [entry]}

    maps = [one(name, name) for name in (LINKS, ROUTES)]
    if config.drained:
        maps.append(one(DRAINED, ROUTES, set=[f"as-path prepend {' '.join([str(config.asn)] * PREPENDED)}"]))
    return maps


def render(config: SwitchConfig) -> str:
    """The text of startup-config: sections in the order in which EOS shows them."""
    sections = [section for part in _text(structured(config)) if (section := list(part))]
    lines = [line for section in sections for line in ("!", *section)]
    return "! Rendered from the plan and never run on a device.\n" + "\n".join(lines) + "\n"


def _text(tree: Tree) -> Iterator[Iterable[str]]:
    """The sections, lines of each."""
    yield user_lines(tree.get("local_users", []))
    yield [
        f"hardware counter feature {one['name']} {one['direction']}"
        for one in tree.get("hardware_counters", {}).get("features", [])
    ]
    yield [f"service routing protocols model {tree['service_routing_protocols_model']}"]
    yield [
        f"logging vrf {VRF} host {host['name']}"
        for vrf in tree.get("logging", {}).get("vrfs", [])
        for host in vrf["hosts"]
    ]
    yield [f"hostname {tree['hostname']}"]
    yield [
        f"ip name-server vrf {VRF} {server['ip_address']}"
        for vrf in tree.get("ip_name_server", {}).get("vrfs", [])
        for server in vrf["servers"]
    ]
    for profile in tree["qos_profiles"]:
        yield _profile(profile)
    yield [
        "snmp-server view ALL iso included",
        "snmp-server group READERS v3 priv read ALL",
        "no snmp-server vrf default",
        f"snmp-server vrf {VRF}",
    ]
    yield [f"spanning-tree mode {tree['spanning_tree']['mode']}"]
    yield [f"vrf instance {VRF}"]
    yield [*API, f"   vrf {VRF}", "      no shutdown"]
    for port in tree["ethernet_interfaces"]:
        yield _port(port)
    yield [f"interface {LOOPBACK}", *_addresses(tree["loopback_interfaces"][0])]
    address = tree["management_interfaces"][0]["ip_address"]
    yield [f"interface {MANAGEMENT}", f"   vrf {VRF}", f"   ip address {address}"]
    for family in ("ipv6", "ip"):
        for one in tree.get(f"{family}_access_lists", []):
            yield [f"{family} access-list {one['name']}", *(f"   {_entry(entry)}" for entry in one["entries"])]
    yield ["ip routing ipv6 interfaces", f"no ip routing vrf {VRF}"]
    for family, key in (("ip", "prefix_lists"), ("ipv6", "ipv6_prefix_lists")):
        for one in tree.get(key, []):
            yield [
                f"{family} prefix-list {one['name']}",
                *(f"   seq {s['sequence']} {s['action']}" for s in one["sequence_numbers"]),
            ]
    yield ["ipv6 unicast-routing"]
    yield [f"ntp server vrf {VRF} {server['name']} iburst" for server in tree.get("ntp", {}).get("servers", [])]
    yield (f"qos map {kind} {line}" for kind, key in _MAPS for line in tree["qos"]["map"][key])
    watchdog = tree["priority_flow_control"]["watchdog"]
    timers = (("timeout", "timeout"), ("recovery-time", "recovery_time"), ("polling-interval", "polling_interval"))
    yield [
        *(f"priority-flow-control pause watchdog default {word} {watchdog[key]}" for word, key in timers),
        f"priority-flow-control pause watchdog action {watchdog['action']}",
    ]
    for one in tree["route_maps"]:
        for entry in one["sequence_numbers"]:
            yield [
                f"route-map {one['name']} {entry['type']} {entry['sequence']}",
                *(f"   match {match}" for match in entry["match"]),
                *(f"   set {value}" for value in entry.get("set", [])),
            ]
    for one in tree["peer_filters"]:
        yield [
            f"peer-filter {one['name']}",
            *(f"   {entry['sequence']} match {entry['match']}" for entry in one["sequence_numbers"]),
        ]
    if "router_bfd" in tree:
        bfd = tree["router_bfd"]
        yield [
            "router bfd",
            f"   interval {bfd['interval']} min-rx {bfd['min_rx']} multiplier {bfd['multiplier']} default",
        ]
    yield _bgp(tree["router_bgp"])
    yield _ssh(tree["management_ssh"])


_MAPS = (("dscp", "dscp"), ("traffic-class", "traffic_class"))


def user_lines(users: list[Tree]) -> Iterator[str]:
    """Lines of the accounts."""
    for user in users:
        yield (
            f"no username {user['name']}"
            if user.get("disabled")
            else f"username {user['name']} ssh-key {user['ssh_key']}"
        )


def _profile(profile: Tree) -> Iterator[str]:
    yield f"qos profile {profile['name']}"
    yield f"   qos trust {profile['trust']}"
    pfc = profile["priority_flow_control"]
    yield "   priority-flow-control on"
    for one in pfc["priorities"]:
        yield f"   priority-flow-control priority {one['priority']} no-drop"
    yield "   priority-flow-control pause watchdog"
    for queue in sorted(profile["uc_tx_queues"], key=lambda one: int(one["id"])):
        yield from ("   !", f"   uc-tx-queue {queue['id']}", f"      {queue['priority']}")
        if "bandwidth_percent" in queue:
            yield f"      bandwidth percent {queue['bandwidth_percent']}"
        if "random_detect" in queue:
            t = queue["random_detect"]["ecn"]["threshold"]
            yield (
                f"      random-detect ecn minimum-threshold {t['min']} {t['units']} maximum-threshold {t['max']} {t['units']} "
                f"max-mark-probability {t['max_probability']}"
            )


def _port(port: Tree) -> Iterator[str]:
    yield f"interface {port['name']}"
    yield f"   description {port['description']}"
    yield "   no shutdown"
    yield f"   mtu {port['mtu']}"
    yield f"   speed {port['speed']}"
    yield "   no switchport"
    yield from _addresses(port) if "ip_address" in port else ("   ipv6 enable",)
    if port.get("ipv6_nd_ra_disabled"):
        yield "   ipv6 nd ra disabled"
    for family, key in (("ip", "access_group_in"), ("ipv6", "ipv6_access_group_in")):
        if key in port:
            yield f"   {family} access-group {port[key]} in"
    yield f"   service-profile {port['service_profile']}"


def _addresses(port: Tree) -> Iterator[str]:
    yield f"   ip address {port['ip_address']}"
    if "ipv6_address" in port:
        yield f"   ipv6 address {port['ipv6_address']}"


def _entry(entry: Tree) -> str:
    ports = "".join(f" eq {port}" for port in entry.get("destination_ports", []))
    return "{sequence} {action} {protocol} {source} {destination}".format(**entry) + ports


def _bgp(bgp: Tree) -> Iterator[str]:
    yield f"router bgp {bgp['as']}"
    yield f"   router-id {bgp['router_id']}"
    yield "   no bgp default ipv4-unicast"
    yield f"   maximum-paths {bgp['maximum_paths']['paths']} ecmp {bgp['maximum_paths']['ecmp']}"
    for group in bgp["peer_groups"]:
        yield f"   neighbor {group['name']} peer group"
        if group.get("bfd"):
            yield f"   neighbor {group['name']} bfd"
        yield from _neighbour_maps(group, "   ")
    for one in bgp.get("aggregate_addresses", []):
        yield f"   aggregate-address {one['prefix']} summary-only"
    if "redistribute" in bgp:
        yield f"   redistribute connected route-map {bgp['redistribute']['connected']['route_map']}"
    for one in bgp["neighbor_interfaces"]:
        yield f"   neighbor interface {one['name']} peer-group {one['peer_group']} peer-filter {one['peer_filter']}"
    for version in (4, 6):
        if family := bgp.get(f"address_family_ipv{version}"):
            yield from ("   !", f"   address-family ipv{version}", f"      neighbor {PEERS} activate")
            (group,) = family["peer_groups"]
            yield from _neighbour_maps(group, "      ")
            if "next_hop" in group:
                yield f"      neighbor {PEERS} next-hop address-family ipv6 originate"
            if "redistribute" in family:
                yield f"      redistribute connected route-map {family['redistribute']['connected']['route_map']}"


def _neighbour_maps(group: Tree, indent: str) -> Iterator[str]:
    for way in ("in", "out"):
        if name := group.get(f"route_map_{way}"):
            yield f"{indent}neighbor {group['name']} route-map {name} {way}"


def _ssh(ssh: Tree) -> Iterator[str]:
    yield "management ssh"
    if "authentication" in ssh:
        yield f"   authentication protocol {' '.join(ssh['authentication']['protocols'])}"
    yield from ("   shutdown", "   !", f"   vrf {VRF}", "      no shutdown")


def read(text: str) -> Model:
    """What a startup-config of this module says, without cable lengths. Raises ValueError naming what is missing or odd."""
    try:
        return _model(sections_of(text))
    except (KeyError, IndexError, StopIteration) as error:
        raise ValueError(f"startup-config is none of this suite: {error!r}") from None


def sections_of(text: str) -> Sections:
    """The sections of a startup-config, comments left out. ValueError for a line that is indented below none."""
    found: dict[str, list[str]] = {}
    head = ""
    for line in text.splitlines():
        if line.startswith("!") or not line.strip():
            continue
        if line.startswith(" "):
            if not head:
                raise ValueError(f"startup-config is none of this suite: it begins within a section, {line.strip()!r}")
            found[head].append(line.strip())
        else:
            head = line.strip()
            found.setdefault(head, [])
    return found


def lines_of_form(lines: Iterable[str], pattern: str) -> list[tuple[str, ...]]:
    """The groups of each line that has the form of `pattern`."""
    return [match.groups() for line in lines if (match := re.fullmatch(pattern, line))]


def one_line(lines: Iterable[str], pattern: str) -> tuple[str, ...]:
    """The groups of the one line that has the form of `pattern`."""
    found = list(dict.fromkeys(lines_of_form(lines, pattern)))
    if len(found) != 1:
        raise ValueError(f"startup-config has {len(found)} different lines of the form {pattern!r}, expected 1")
    return found[0]


def _model(sections: Sections) -> Model:
    ports = {
        head.removeprefix("interface "): body
        for head, body in sections.items()
        if head.startswith("interface Ethernet")
    }
    (number,) = one_line(sections, r"router bgp (\d+)")
    bgp, profile = sections[f"router bgp {number}"], sections[f"qos profile {QOS}"]
    marked = lines_of_form(sections, r"qos map dscp ([\d ]+) to traffic-class (\d)")
    queue_of = {
        int(p): int(queue) for p, queue in lines_of_form(sections, r"qos map traffic-class (\d) to uc-tx-queue (\d)")
    }
    queues = _queues(profile)
    priority = int(one_line(profile, r"priority-flow-control priority (\d) no-drop")[0])
    ecn_of = {queue: ecn for queue, body in queues.items() if (ecn := _ecn(body)) is not None}
    if set(ecn_of) - {queue_of[priority]}:
        raise ValueError(f"queue {', '.join(map(str, sorted(ecn_of)))} is marked and not the one without loss")
    lossless = [name for name, body in ports.items() if f"service-profile {QOS}" in body]
    (timeout,) = one_line(sections, r"priority-flow-control pause watchdog default timeout ([\d.]+)")
    lists = _read_filters(sections)
    addresses = [
        (name, found)
        for name, body in {"lo": sections[f"interface {LOOPBACK}"], **ports}.items()
        for (found,) in lines_of_form(body, r"(?:ip|ipv6) address (\S+)")
    ]
    if not any(name == "lo" for name, _ in addresses):
        raise ValueError(f"startup-config has no address of {LOOPBACK}")
    return Model(
        hostname=one_line(sections, r"hostname (\S+)")[0],
        asn=int(number),
        router_id=one_line(bgp, r"router-id (\S+)")[0],
        addresses=frozenset(addresses),
        neighbours=frozenset(
            name for (name,) in lines_of_form(bgp, rf"neighbor interface (\S+) peer-group {PEERS} peer-filter \S+")
        ),
        aggregates=frozenset(prefix for (prefix,) in lines_of_form(bgp, r"aggregate-address (\S+) summary-only")),
        drained=_drained(bgp, sections),
        mtu=frozenset((name, int(one_line(body, r"mtu (\d+)")[0])) for name, body in ports.items()),
        priorities=frozenset((int(dscp), int(to)) for dscps, to in marked for dscp in dscps.split() if int(to)),
        queues=frozenset((p, queue) for p, queue in queue_of.items() if queue),
        shares=frozenset((queue, _share(body)) for queue, body in queues.items()),
        lossless=frozenset((name, priority, None) for name in lossless),
        ecn=ecn_of.get(queue_of[priority]),
        watchdog_ms=round(float(timeout) * 1000),
        adaptive=False,
        permits=frozenset[Rule]().union(*(permits for permits, _ in lists.values())),
        filtered=frozenset(
            name
            for name, body in ports.items()
            if all(denies and f"{group} in" in body for group, (_, denies) in lists.items())
        ),
        ipv6=_routes_ipv6(bgp),
    )


def _family(bgp: list[str], version: int) -> list[str]:
    """Lines of an address family of BGP."""
    body = itertools.dropwhile(lambda line: line != f"address-family ipv{version}", bgp)
    return list(itertools.takewhile(lambda line: line != "!", itertools.islice(body, 1, None)))


def _routes_ipv6(bgp: list[str]) -> bool:
    """Whether neighbours get the planned IPv6 routes and no others."""
    out = rf"neighbor {PEERS} route-map (?:{ROUTES}|{DRAINED}){IPV6} out"
    lines = _family(bgp, 6)
    wanted = {
        f"neighbor {PEERS} activate",
        f"neighbor {PEERS} route-map {ROUTES}{IPV6} in",
        f"redistribute connected route-map {LINKS}{IPV6}",
    }
    return wanted <= set(lines) and bool(lines_of_form(lines, out))


def _drained(bgp: list[str], sections: Sections) -> bool:
    """Whether paths of all families are made longer for the neighbours."""
    suffixes = ("", IPV6) if _family(bgp, 6) else ("",)
    return all(
        f"neighbor {PEERS} route-map {DRAINED}{suffix} out" in bgp
        and bool(
            lines_of_form(sections.get(f"route-map {DRAINED}{suffix} permit 10", []), r"set as-path prepend [\d ]+")
        )
        for suffix in suffixes
    )


def _read_filters(sections: Sections) -> dict[str, tuple[frozenset[Rule], bool]]:
    """{command that puts it on a port: what it permits, whether it denies all else} of the access lists; IPv6's if there is one."""
    second = f"ipv6 access-list {FILTER}{IPV6}"
    found = {f"ip access-group {FILTER}": _read_filter(sections.get(f"ip access-list {FILTER}", []), 4)}
    if second in sections:
        found[f"ipv6 access-group {FILTER}{IPV6}"] = _read_filter(sections[second], 6)
    return found


def _read_filter(lines: list[str], version: int) -> tuple[frozenset[Rule], bool]:
    """What an access list permits, and whether its last entry denies all else."""
    known = {word: protocol for protocol, word in PROTOCOLS[version].items()}
    entries = [line.partition(" ")[2] for line in sorted(lines, key=lambda line: int(line.split()[0]))]
    denies = entries[-1:] == [f"deny {PROTOCOLS[version]['any']} any any"]
    permits = set()
    for entry in entries[:-1] if denies else entries:
        match = re.fullmatch(r"permit (ip|ipv6|icmp|icmpv6|tcp|udp) (\S+) (\S+?)(?: eq (\d+))?", entry)
        if match is None:
            raise ValueError(f"access list: {entry!r} is no entry of this suite")
        port = None if match[4] is None else int(match[4])
        source, destination = ("::/0" if (one, version) == ("any", 6) else one for one in match.group(2, 3))
        permits.add(Rule(source, destination, known.get(match[1], match[1]), port))
    return frozenset(permits), denies


def _queues(profile: list[str]) -> dict[int, list[str]]:
    """{egress queue: its lines} of the QoS profile."""
    found: dict[int, list[str]] = {}
    body: list[str] = []
    for line in profile:
        if match := re.fullmatch(r"uc-tx-queue (\d)", line):
            body = found.setdefault(int(match[1]), [])
        else:
            body.append(line)
    return found


def _share(body: list[str]) -> int | None:
    return None if "priority strict" in body else int(one_line(body, r"bandwidth percent (\d+)")[0])


def _ecn(body: list[str]) -> Ecn | None:
    form = r"random-detect ecn minimum-threshold (\d+) bytes maximum-threshold (\d+) bytes max-mark-probability (\d+)"
    found = lines_of_form(body, form)
    return Ecn(*(int(number) for number in found[0])) if found else None
