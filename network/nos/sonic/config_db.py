"""config_db.json of SONiC for one compute switch, and back.

    text = render(config)     # network.nos.model.SwitchConfig -> the file of /etc/sonic/config_db.json
    read(text)                # -> network.nos.model.Model

Tables after SONiC's YANG models; tests hold the file against them. BGP is in the tables of the FRR management framework, the only
ones that know neighbours by port. Ports have SONiC's names (Ethernet8) with the plan's name as alias, which is also what the switch
sends as port in LLDP (lldpmgrd of sonic-buildimage).

Buffers after buffers_defaults_objects.j2 of NVIDIA's switches in sonic-buildimage, for the buffer model `dynamic`: headroom follows
from CABLE_LENGTH, port speed, MTU and LOSSLESS_TRAFFIC_PATTERN. There all traffic is taken for the smallest frames, as
network.lossless does.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from inventory.site.sections.networks import LEAF_IPV6
from inventory.yaml_data import read_data
from network.lossless import Ecn
from network.nos.model import Ipv6, Model, SwitchConfig
from network.separation import NAME as FILTER
from network.separation import Rule

POLLING_MS = 100
"""Least interval of the PFC watchdog, ms (sonic-pfcwd.yang)."""
MAXIMUM_PATHS = 64
"""Equal paths, unless there are more neighbours."""
SNMP_USER = 'config snmp user add {user} Priv RO SHA "$SNMP_AUTH" AES "$SNMP_PRIV"'
"""Command that makes the SNMPv3 user, with passphrases from the environment."""
NAME = "bringup"
"""Name of each map and profile of which the file has one."""
ROUTES, LINKS, PEERS = "PLANNED", "CONNECTED", "FABRIC"
IPV6 = "_IPV6"
"""Behind the names of the lists and filters of IPv6."""
FAMILY_IPV6 = "default|ipv6_unicast"
PORT = re.compile(r"swp([0-9]+)(?:s([0-9]+))?")
COLOURS = ("green", "yellow", "red")
PRIORITIES = range(8)
IP_PROTOCOLS = {"icmp": "1", "tcp": "6", "udp": "17"}
"""Numbers of IANA's registry of protocols."""
FIRST = 9990
"""Priority of the first rule of a filter; the highest matches first."""
OWNED = frozenset(
    {
        *("BGP_GLOBALS", "BGP_GLOBALS_AF", "BGP_GLOBALS_AF_AGGREGATE_ADDR", "BGP_NEIGHBOR", "BGP_PEER_GROUP"),
        *("BGP_PEER_GROUP_AF", "PREFIX", "PREFIX_SET", "ROUTE_MAP", "ROUTE_MAP_SET", "ROUTE_REDISTRIBUTE"),
        *("BUFFER_PG", "BUFFER_POOL", "BUFFER_PORT_EGRESS_PROFILE_LIST", "BUFFER_PORT_INGRESS_PROFILE_LIST"),
        *("BUFFER_PROFILE", "BUFFER_QUEUE", "CABLE_LENGTH", "DEFAULT_LOSSLESS_BUFFER_PARAMETER"),
        *(
            "LOSSLESS_TRAFFIC_PATTERN",
            "DSCP_TO_TC_MAP",
            "MAP_PFC_PRIORITY_TO_QUEUE",
            "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
        ),
        *(
            "PFC_WD",
            "PORT_QOS_MAP",
            "QUEUE",
            "SCHEDULER",
            "TC_TO_PRIORITY_GROUP_MAP",
            "TC_TO_QUEUE_MAP",
            "WRED_PROFILE",
        ),
        *("DEVICE_METADATA", "INTERFACE", "LOOPBACK_INTERFACE", "PORT", "MGMT_PORT", "MGMT_VRF_CONFIG"),
        *("DNS_NAMESERVER", "NTP", "NTP_SERVER", "SNMP_AGENT_ADDRESS_CONFIG", "SSH_SERVER", "SYSLOG_SERVER"),
        *("ACL_TABLE", "ACL_RULE"),
        *("VLAN", "VLAN_INTERFACE", "VLAN_MEMBER", "PORTCHANNEL", "PORTCHANNEL_INTERFACE", "PORTCHANNEL_MEMBER"),
        *("STP", "STP_PORT", "STP_MST", "STP_MST_INST", "STP_MST_PORT", "STP_VLAN", "STP_VLAN_PORT"),
    }
)
"""Tables whose rows all come from the plan: those that `render` writes, or would write, and layer-2 tables: access.py has them."""

Table = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Platform:
    """Port layout of one switch model (platforms.yaml says what the fields mean)."""

    platform: str
    hwsku: str
    cages: int
    lanes: int
    ports_per_cage: int
    speed_mbps: int
    egress_lossless_bytes: int

    def cage(self, port: str) -> tuple[int, int]:
        """Number of a port's cage, and its part of the cage. Raises ValueError for a port that the SKU lacks."""
        match = PORT.fullmatch(port)
        if match and (match[2] is not None) == (self.ports_per_cage > 1):
            cage, part = int(match[1]), int(match[2] or 0)
            if 1 <= cage <= self.cages and part < self.ports_per_cage:
                return cage, part
        raise ValueError(f"{self.hwsku} has no port {port}")

    def first_lane(self, port: str) -> int:
        """First lane of a port, which is the number in SONiC's name of it."""
        cage, part = self.cage(port)
        return (cage - 1) * self.lanes + part * self.width()

    def width(self) -> int:
        """Lanes of one port."""
        return self.lanes // self.ports_per_cage

    def ports(self) -> list[str]:
        """The plan's names of all ports."""
        parts = [f"s{part}" for part in range(self.ports_per_cage)] if self.ports_per_cage > 1 else [""]
        return [f"swp{cage}{part}" for cage in range(1, self.cages + 1) for part in parts]


@cache
def platforms() -> Mapping[str, Platform]:
    """{slug of a switch model: its port layout}."""
    return {slug: Platform(**row) for slug, row in read_data(Path(__file__).with_name("platforms.yaml")).items()}


def render(config: SwitchConfig) -> str:
    """The text of config_db.json. Raises ValueError for a switch model or a port without a layout in platforms.yaml."""
    if config.switch_model not in platforms():
        raise ValueError(f"{config.switch_model}: no port layout in network/nos/sonic/platforms.yaml")
    platform = platforms()[config.switch_model]
    names = {port.name: f"Ethernet{platform.first_lane(port.name)}" for port in config.ports}
    tables = {
        **_device(config, platform),
        **_ports(config, platform),
        **_addresses(config, names),
        **_bgp(config, names),
        **_maps(config, names),
        **_queues(config, names),
        **_counted(config),
        **_buffers(config, platform, names),
        **_filters(config, names),
        **_management(config),
    }
    return json.dumps(tables, indent=4) + "\n"


def read(text: str) -> Model:
    """What a config_db.json of this module says. Raises ValueError naming the key that is missing or odd."""
    try:
        return _model(json.loads(text))
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"config_db.json is none of this suite: {error!r}") from None


def _device(config: SwitchConfig, platform: Platform) -> dict[str, Table]:
    return {
        "DEVICE_METADATA": {
            "localhost": {
                "hostname": config.hostname,
                "platform": platform.platform,
                "hwsku": platform.hwsku,
                "type": "LeafRouter",  # a router without hosts on VLANs, as SONiC's preset `t1` has it
                "bgp_asn": str(config.asn),
                "buffer_model": "dynamic",
                "default_bgp_status": "up",
                "default_pfcwd_status": "enable",
                "docker_routing_config_mode": "unified",
                "frr_mgmt_framework_config": "true",
            }
        }
    }


def _ports(config: SwitchConfig, platform: Platform) -> dict[str, Table]:
    cabled = {port.name: port for port in config.ports}
    ports: Table = {}
    for name in platform.ports():
        first, port = platform.first_lane(name), cabled.get(name)
        ports[f"Ethernet{first}"] = {
            "alias": name,
            "lanes": ",".join(str(lane) for lane in range(first, first + platform.width())),
            "index": str(platform.cage(name)[0]),
            "speed": str(platform.speed_mbps),
            "mtu": str(config.intent.mtu),
            "admin_status": "up" if port else "down",
            **({"description": f"{port.far} {port.far_port}"} if port else {}),
        }
    return {"PORT": ports}


def _addresses(config: SwitchConfig, names: Mapping[str, str]) -> dict[str, Table]:
    interfaces: Table = {}
    for port in config.ports:
        name = names[port.name]
        if port.address is None:
            interfaces[name] = {"ipv6_use_link_local_only": "enable"}
        else:
            interfaces[name] = {}
            interfaces[f"{name}|{port.address}"] = {}
            if port.ipv6 is not None:
                interfaces[f"{name}|{port.ipv6}"] = {}
    return {
        "INTERFACE": interfaces,
        "LOOPBACK_INTERFACE": {
            "Loopback0": {},
            **{f"Loopback0|{address}": {} for port, address in config.addresses if port == "lo"},
        },
    }


def _bgp(config: SwitchConfig, names: Mapping[str, str]) -> dict[str, Table]:
    uplinks = [names[port.name] for port in config.ports if port.address is None]
    family = "default|ipv4_unicast"
    made: dict[str, Table] = {
        "PREFIX_SET": {name: {"mode": "IPv4"} for name in (ROUTES, LINKS)},
        "PREFIX": {
            f"{ROUTES}|10|{config.loopbacks}|32..32": {"action": "permit"},
            f"{ROUTES}|20|{config.rails}|{config.leaf_length}..{config.leaf_length}": {"action": "permit"},
            f"{LINKS}|10|{config.loopbacks}|32..32": {"action": "permit"},
            f"{LINKS}|20|{config.rails}|31..31": {"action": "permit"},
        },
        "ROUTE_MAP_SET": {name: {} for name in (ROUTES, LINKS)},
        "ROUTE_MAP": {
            f"{name}|10": {"route_operation": "permit", "match_prefix_set": name} for name in (ROUTES, LINKS)
        },
        "BGP_GLOBALS": {
            "default": {
                "local_asn": str(config.asn),
                "router_id": config.loopback.partition("/")[0],
                "load_balance_mp_relax": "true",
                "log_nbr_state_changes": "true",
                **({"graceful_shutdown": "true"} if config.drained else {}),
            }
        },
        "BGP_GLOBALS_AF": {family: {"max_ebgp_paths": str(max(MAXIMUM_PATHS, len(uplinks)))}},
        "ROUTE_REDISTRIBUTE": {"default|connected|bgp|ipv4": {"route_map": [LINKS]}},
        "BGP_PEER_GROUP": {
            f"default|{PEERS}": {
                "peer_type": "external",
                "capability_ext_nexthop": "true",
                **({"bfd": "true"} if config.bfd_ms is not None else {}),
            }
        },
        "BGP_PEER_GROUP_AF": {
            f"default|{PEERS}|ipv4_unicast": {
                "admin_status": "up",
                "route_map_in": [ROUTES],
                "route_map_out": [ROUTES],
            }
        },
        "BGP_NEIGHBOR": {f"default|{name}": {"peer_group_name": PEERS} for name in uplinks},
    }
    if config.aggregate:
        made["BGP_GLOBALS_AF_AGGREGATE_ADDR"] = {f"{family}|{config.aggregate}": {"summary_only": "true"}}
    if config.ipv6 is not None:
        for table, rows in _bgp_ipv6(config.ipv6, made["BGP_GLOBALS_AF"][family]).items():
            made.setdefault(table, {}).update(rows)
    return made


def _bgp_ipv6(own: Ipv6, limits: dict[str, Any]) -> dict[str, Table]:
    """Rows of the same tables for IPv6. The key of a route map's prefix set is the one of both families (sonic-route-map.yang)."""
    routes, links = f"{ROUTES}{IPV6}", f"{LINKS}{IPV6}"
    made: dict[str, Table] = {
        "PREFIX_SET": {name: {"mode": "IPv6"} for name in (routes, links)},
        "PREFIX": {
            f"{name}|{number}|{prefix}|{length}..{length}": {"action": "permit"}
            for name, lengths in ((routes, (128, LEAF_IPV6)), (links, (128, 127)))
            for number, prefix, length in zip((10, 20), (own.loopbacks, own.rails), lengths, strict=True)
        },
        "ROUTE_MAP_SET": {name: {} for name in (routes, links)},
        "ROUTE_MAP": {
            f"{name}|10": {"route_operation": "permit", "match_prefix_set": name} for name in (routes, links)
        },
        "BGP_GLOBALS_AF": {FAMILY_IPV6: dict(limits)},
        "ROUTE_REDISTRIBUTE": {"default|connected|bgp|ipv6": {"route_map": [links]}},
        "BGP_PEER_GROUP_AF": {
            f"default|{PEERS}|ipv6_unicast": {
                "admin_status": "up",
                "route_map_in": [routes],
                "route_map_out": [routes],
            }
        },
    }
    if own.aggregate:
        made["BGP_GLOBALS_AF_AGGREGATE_ADDR"] = {f"{FAMILY_IPV6}|{own.aggregate}": {"summary_only": "true"}}
    return made


def _maps(config: SwitchConfig, names: Mapping[str, str]) -> dict[str, Table]:
    """Marks to priorities, priorities to queues and priority groups, and the ports that use the maps."""
    intent = config.intent
    priority_of = {intent.dscp: intent.priority, intent.cnp_dscp: intent.cnp_class}
    queue_of = {intent.priority: intent.traffic_class, intent.cnp_class: intent.cnp_class}
    lossless = str(intent.priority)
    port = {
        "dscp_to_tc_map": NAME,
        "tc_to_queue_map": NAME,
        "tc_to_pg_map": NAME,
        "pfc_to_queue_map": NAME,
        "pfc_to_pg_map": NAME,
        "pfc_enable": lossless,
        "pfcwd_sw_enable": lossless,
    }
    detection = str(-(-intent.watchdog_ms // POLLING_MS) * POLLING_MS)
    return {
        "DSCP_TO_TC_MAP": {NAME: {str(dscp): str(priority_of.get(dscp, 0)) for dscp in range(64)}},
        "TC_TO_QUEUE_MAP": {NAME: {str(p): str(queue_of.get(p, 0)) for p in PRIORITIES}},
        "TC_TO_PRIORITY_GROUP_MAP": {NAME: {str(p): lossless if p == intent.priority else "0" for p in PRIORITIES}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {NAME: {lossless: str(intent.traffic_class)}},
        "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": {NAME: {lossless: lossless}},
        "PORT_QOS_MAP": {name: dict(port) for name in names.values()},
        "PFC_WD": {
            "GLOBAL": {"POLL_INTERVAL": str(POLLING_MS)},
            **{
                name: {"action": "drop", "detection_time": detection, "restoration_time": detection}
                for name in names.values()
            },
        },
    }


def _queues(config: SwitchConfig, names: Mapping[str, str]) -> dict[str, Table]:
    intent, ecn = config.intent, config.ecn
    queues = {
        0: {"scheduler": "other"},
        intent.traffic_class: {"scheduler": "lossless", **({"wred_profile": NAME} if ecn else {})},
        intent.cnp_class: {"scheduler": "cnp"},
    }
    made: dict[str, Table] = {
        "SCHEDULER": {
            "other": {"type": "DWRR", "weight": str(100 - intent.share_pct)},
            "lossless": {"type": "DWRR", "weight": str(intent.share_pct)},
            "cnp": {"type": "STRICT"},
        },
        "QUEUE": {f"{name}|{queue}": dict(queues[queue]) for name in names.values() for queue in sorted(queues)},
    }
    if ecn:
        marking = {"ecn": "ecn_all"}
        for colour in COLOURS:
            marking |= {
                f"wred_{colour}_enable": "true",
                f"{colour}_min_threshold": str(ecn.minimum),
                f"{colour}_max_threshold": str(ecn.maximum),
                f"{colour}_drop_probability": str(ecn.probability_pct),
            }
        made["WRED_PROFILE"] = {NAME: marking}
    return made


def _counted(config: SwitchConfig) -> dict[str, Table]:
    """What `counterpoll wredqueue enable` sets: packets marked by each queue are counted, which no switch does by itself."""
    return {"FLEX_COUNTER_TABLE": {"WRED_ECN_QUEUE": {"FLEX_COUNTER_STATUS": "enable"}}} if config.ecn else {}


def _buffers(config: SwitchConfig, platform: Platform, names: Mapping[str, str]) -> dict[str, Table]:
    """Pools, profiles and cable lengths. Profile NULL: the switch computes the headroom (buffermgrd)."""
    intent, lossless = config.intent, config.intent.traffic_class
    return {
        "CABLE_LENGTH": {NAME: {names[port.name]: f"{port.cable_m}m" for port in config.ports}},
        "LOSSLESS_TRAFFIC_PATTERN": {NAME: {"mtu": str(intent.mtu), "small_packet_percentage": "100"}},
        "DEFAULT_LOSSLESS_BUFFER_PARAMETER": {NAME: {"default_dynamic_th": "0"}},
        "BUFFER_POOL": {
            "ingress_lossless_pool": {"type": "ingress", "mode": "dynamic"},
            "ingress_lossy_pool": {"type": "ingress", "mode": "dynamic"},
            "egress_lossless_pool": {
                "type": "egress",
                "mode": "dynamic",
                "size": str(platform.egress_lossless_bytes),
            },
            "egress_lossy_pool": {"type": "egress", "mode": "dynamic"},
        },
        "BUFFER_PROFILE": {
            "ingress_lossless_profile": {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "7"},
            "ingress_lossy_profile": {"pool": "ingress_lossy_pool", "size": "0", "dynamic_th": "3"},
            "egress_lossless_profile": {"pool": "egress_lossless_pool", "size": "0", "dynamic_th": "7"},
            "egress_lossy_profile": {"pool": "egress_lossy_pool", "size": "9216", "dynamic_th": "7"},
            "q_lossy_profile": {"pool": "egress_lossy_pool", "size": "0", "dynamic_th": "3"},
        },
        "BUFFER_PORT_INGRESS_PROFILE_LIST": {
            name: {"profile_list": "ingress_lossless_profile,ingress_lossy_profile"} for name in names.values()
        },
        "BUFFER_PORT_EGRESS_PROFILE_LIST": {
            name: {"profile_list": "egress_lossless_profile,egress_lossy_profile"} for name in names.values()
        },
        "BUFFER_PG": {
            f"{name}|{group}": {"profile": profile}
            for name in names.values()
            for group, profile in ((0, "ingress_lossy_profile"), (intent.priority, "NULL"))
        },
        "BUFFER_QUEUE": {
            f"{name}|{queue}": {"profile": "egress_lossless_profile" if queue == lossless else "q_lossy_profile"}
            for name in names.values()
            for queue in PRIORITIES
        },
    }


def _filters(config: SwitchConfig, names: Mapping[str, str]) -> dict[str, Table]:
    """Filter of the ports to servers. The table holds for packets to the switch itself too."""
    if not config.filtered:
        return {}
    ports = [names[port] for port in config.filtered]
    tables, rules = Table(), Table()
    for kind in FILTERS if config.ipv6 is not None else FILTERS[:1]:
        tables[kind.name] = {"type": kind.type, "stage": "ingress", "ports": list(ports)}
        for number, rule in enumerate(one for one in config.permits if one.version == kind.version):
            row = {"PRIORITY": str(FIRST - 10 * number), kind.source: rule.source, kind.destination: rule.destination}
            if rule.protocol != "any":
                row["IP_PROTOCOL"] = kind.protocols[rule.protocol]
            if rule.port is not None:
                row["L4_DST_PORT"] = str(rule.port)
            rules[f"{kind.name}|PERMIT_{number + 1}"] = {**row, "PACKET_ACTION": "FORWARD"}
        rules[f"{kind.name}|DENY"] = dict(kind.deny)
    return {"ACL_TABLE": tables, "ACL_RULE": rules}


def _read_filters(tables: dict[str, Any], alias: Mapping[str, str]) -> tuple[frozenset[Rule], frozenset[str]]:
    """What the filters permit, and the ports that they are on if they deny all else. That of IPv6 counts if there is one."""
    there = {name.partition("|")[0] for name in (*tables.get("ACL_TABLE", {}), *tables.get("ACL_RULE", {}))}
    found = [_read_filter(tables, kind) for kind in FILTERS if kind.version == 4 or kind.name in there]
    on = set.intersection(*(ports for _, ports in found))
    return frozenset[Rule]().union(*(permits for permits, _ in found)), frozenset(alias[port] for port in on)


def _read_filter(tables: dict[str, Any], kind: "Filter") -> tuple[frozenset[Rule], set[str]]:
    rules = {
        name.partition("|")[2]: row
        for name, row in tables.get("ACL_RULE", {}).items()
        if name.partition("|")[0] == kind.name
    }
    denies = rules.pop("DENY", None) == kind.deny and all(int(row["PRIORITY"]) > 1 for row in rules.values())
    permits = set()
    taken = {kind.source, kind.destination, "IP_PROTOCOL", "L4_DST_PORT"}
    for name, row in rules.items():
        if row["PACKET_ACTION"] != "FORWARD" or set(row) - {*taken, "PRIORITY", "PACKET_ACTION"}:
            raise ValueError(f"ACL_RULE {kind.name}|{name} is no rule of this suite")
        protocol = {number: word for word, number in kind.protocols.items()}.get(row.get("IP_PROTOCOL", ""), "any")
        port = row.get("L4_DST_PORT")
        permits.add(Rule(row[kind.source], row[kind.destination], protocol, None if port is None else int(port)))
    table = tables.get("ACL_TABLE", {}).get(kind.name, {})
    on = table.get("ports", []) if denies and (table.get("type"), table.get("stage")) == (kind.type, "ingress") else []
    return frozenset(permits), set(on)


class Filter(NamedTuple):
    """How SONiC filters one version of IP: table, its type, and the fields by which a rule takes packets."""

    version: int
    name: str
    type: str
    source: str
    destination: str
    protocols: Mapping[str, str]
    ip_type: str

    @property
    def deny(self) -> dict[str, str]:
        """The last rule."""
        return {"PRIORITY": "1", "IP_TYPE": self.ip_type, "PACKET_ACTION": "DROP"}


FILTERS = (
    Filter(4, FILTER, "L3", "SRC_IP", "DST_IP", IP_PROTOCOLS, "IPV4ANY"),
    Filter(6, f"{FILTER}{IPV6}", "L3V6", "SRC_IPV6", "DST_IPV6", {**IP_PROTOCOLS, "icmp": "58"}, "IPV6ANY"),
)


def _management(config: SwitchConfig) -> dict[str, Table]:
    """No MGMT_INTERFACE: sonic-mgmt_interface.yang refuses an address without a gateway, which no site has. The port asks DHCP."""
    management = config.management
    address = management.address.partition("/")[0]
    made: dict[str, Table] = {
        "MGMT_PORT": {management.port: {"alias": management.port, "admin_status": "up"}},
        "MGMT_VRF_CONFIG": {"vrf_global": {"mgmtVrfEnabled": "true"}},
        "SNMP_AGENT_ADDRESS_CONFIG": {f"{address}|161|mgmt": {}},
        "SSH_SERVER": {"POLICIES": {"permit_root_login": "no"}},
    }
    if management.ntp:
        made["NTP"] = {"global": {"vrf": "mgmt", "admin_state": "enabled"}}
        made["NTP_SERVER"] = {str(server): {"iburst": "on"} for server in management.ntp}
    if management.dns:
        made["DNS_NAMESERVER"] = {str(server): {} for server in management.dns}
    if management.syslog:
        made["SYSLOG_SERVER"] = {str(server): {"vrf": "mgmt"} for server in management.syslog}
    return made


def _model(tables: dict[str, Any]) -> Model:
    device, bgp = tables["DEVICE_METADATA"]["localhost"], tables["BGP_GLOBALS"]["default"]
    if device["bgp_asn"] != bgp["local_asn"]:
        raise ValueError(f"AS number {device['bgp_asn']} of the device is {bgp['local_asn']} in BGP")
    alias = {name: port["alias"] for name, port in tables["PORT"].items() if port["admin_status"] == "up"}
    addresses = {
        (alias.get(name, "lo"), address)
        for table in ("INTERFACE", "LOOPBACK_INTERFACE")
        for name, _, address in (key.partition("|") for key in tables[table])
        if address
    }
    classes = {
        (queue, scheduler["type"], scheduler.get("weight"))
        for queue, scheduler in (
            (int(key.partition("|")[2]), tables["SCHEDULER"][row["scheduler"]]) for key, row in tables["QUEUE"].items()
        )
    }
    maps = {kind: next(iter(tables[kind].values())) for kind in ("DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP")}
    watchdogs = {row["detection_time"] for name, row in tables["PFC_WD"].items() if name != "GLOBAL"}
    (lengths,) = tables["CABLE_LENGTH"].values()
    permits, filtered = _read_filters(tables, alias)
    routes, links = f"{ROUTES}{IPV6}", f"{LINKS}{IPV6}"
    of_neighbours = tables["BGP_PEER_GROUP_AF"].get(f"default|{PEERS}|ipv6_unicast", {})
    connected = tables["ROUTE_REDISTRIBUTE"].get("default|connected|bgp|ipv6", {})
    return Model(
        hostname=device["hostname"],
        asn=int(bgp["local_asn"]),
        drained=bgp.get("graceful_shutdown") == "true",
        router_id=bgp["router_id"],
        addresses=frozenset(addresses),
        neighbours=frozenset(alias[key.partition("|")[2]] for key in tables["BGP_NEIGHBOR"]),
        aggregates=frozenset(key.rpartition("|")[2] for key in tables.get("BGP_GLOBALS_AF_AGGREGATE_ADDR", {})),
        mtu=frozenset((name, int(tables["PORT"][port]["mtu"])) for port, name in alias.items()),
        priorities=frozenset((int(dscp), int(p)) for dscp, p in maps["DSCP_TO_TC_MAP"].items() if int(p)),
        queues=frozenset((int(p), int(queue)) for p, queue in maps["TC_TO_QUEUE_MAP"].items() if int(queue)),
        shares=frozenset((queue, None if kind == "STRICT" else int(weight)) for queue, kind, weight in classes),
        lossless=frozenset(
            (alias[port], int(row["pfc_enable"]), int(lengths[port].removesuffix("m")))
            for port, row in tables["PORT_QOS_MAP"].items()
        ),
        ecn=_ecn(tables),
        watchdog_ms=int(_only(watchdogs)),
        adaptive=False,
        permits=permits,
        filtered=filtered,
        ipv6=of_neighbours == {"admin_status": "up", "route_map_in": [routes], "route_map_out": [routes]}
        and connected == {"route_map": [links]},
    )


def _ecn(tables: dict[str, Any]) -> Ecn | None:
    """Thresholds of the lossless queue, the same for packets of each colour."""
    marked = {
        key.partition("|")[2]: row["wred_profile"] for key, row in tables["QUEUE"].items() if "wred_profile" in row
    }
    if not marked:
        return None
    (queues,) = tables["MAP_PFC_PRIORITY_TO_QUEUE"].values()
    if set(marked) != set(queues.values()):
        raise ValueError(f"queue {', '.join(sorted(marked))} is marked and not the one without loss")
    profiles = set(marked.values())
    row = tables["WRED_PROFILE"][_only(profiles)]
    found = {
        (row[f"{colour}_min_threshold"], row[f"{colour}_max_threshold"], row[f"{colour}_drop_probability"])
        for colour in COLOURS
    }
    if len(found) != 1 or row["ecn"] != "ecn_all":
        raise ValueError("WRED_PROFILE marks packets of some colours otherwise than of others")
    ((least, most, probability),) = found
    return Ecn(int(least), int(most), int(probability))


def _only(values: set[str]) -> str:
    """The one value that all ports have."""
    if len(values) != 1:
        raise ValueError(f"ports differ: {', '.join(sorted(values))}")
    return next(iter(values))
