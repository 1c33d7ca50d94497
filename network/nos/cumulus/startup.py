"""startup.yaml of NVUE for one compute switch, and back.

    text = render(config)     # network.nos.model.SwitchConfig -> the file of /etc/nvue.d/startup.yaml
    read(text)                # -> network.nos.model.Model

Keys after the NVUE object model of Cumulus Linux 5.16; tests hold them against its published schema (package nvueschema).
`on` and `off` are no values of it, so nothing depends on how YAML reads those words.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from inventory.site.sections.networks import LEAF_IPV6
from inventory.yaml_data import LOADER
from network.lossless import Ecn
from network.nos.model import Management, Model, Port, SwitchConfig
from network.separation import NAME as FILTER
from network.separation import Rule

VERSION = "5.16"
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
LINE = re.compile(
    r'( *)(?:"([^"\\]*)"|([A-Za-z][A-Za-z0-9_./-]*)):(?: (\{\}|-?(?:0|[1-9][0-9]*)|"[^"\\]*"|[A-Za-z][A-Za-z0-9_./-]*))?'
)
"""A line of `block` without escapes."""
READ_OTHERWISE = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that YAML 1.1 reads as something else than text."""
POLLING_MS = 100
"""Least interval of the PFC watchdog, ms."""
DETECT = 3
"""BFD packets of which all have to be missed (RFC 5880, 6.8.4)."""
LEAST_PATHS = 64
"""Equal paths that NVUE takes by default; more uplinks need the key."""
DEFAULT_ACCOUNT = "cumulus"
"""Account that Cumulus Linux is delivered with (page "User Accounts"); it is disabled where another account has a key."""
SNMP_USER = """\
nv set system snmp-server username {user} auth-sha "$SNMP_AUTH" encrypt-aes "$SNMP_PRIV"
nv config apply"""
"""Commands that make the SNMPv3 user, with passphrases from the environment."""
PASSWORD = 'nv set system aaa user {user} password "$SWITCH_PASSWORD"'
"""Command that sets the password which the REST interface takes; the commands of SNMP_USER, behind it, apply it."""
ROUTES = "PLANNED"
"""Name of the prefix list and the route map that let planned prefixes pass."""
PEERS = "FABRIC"
TO_SWITCH = f"{FILTER}-CPU"
"""The same filter for packets to the switch itself, which NVUE binds apart from those that are forwarded."""
LINKS = "CONNECTED"
"""Prefix list and route map of what a switch announces of its own links."""
IPV6 = "-IPV6"
"""Behind the names of the lists and filters of IPv6."""
BOUND: Mapping[str, dict[str, Any]] = {FILTER: {"inbound": {}}, TO_SWITCH: {"inbound": {"control-plane": {}}}}
"""{access list: how a port takes it}."""
VERSIONS = {4: "", 6: IPV6}
"""{version of IP: what follows the names of its lists}."""
FAMILIES = {4: "ipv4-unicast", 6: "ipv6-unicast"}
"""{version of IP: BGP's address family}."""


def render(config: SwitchConfig) -> str:
    """The text of startup.yaml."""
    return document(_settings(config))


def document(settings: Mapping[str, Any]) -> str:
    """The file that sets a tree."""
    header = {"model": "all", "nvue-api-version": "nvue_v1", "version": f"Cumulus Linux {VERSION}.0"}
    parts = {"header": header, "set": settings}
    lines = ["# Rendered from the plan and never run on a device."]
    for name, tree in parts.items():
        lines += [f"- {name}:", *block(tree, "    ")]
    return "\n".join(lines) + "\n"


def block(tree: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Lines of a tree of texts and whole numbers in YAML's block style: a general writer takes six times as long."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{_scalar(key)}:"
            yield from block(value, indent + "  ")
        else:
            yield f"{indent}{_scalar(key)}: {'{}' if value == {} else _scalar(value)}"


def unblocked(text: str) -> dict[str, Any] | None:
    """The tree of lines that `block` has written; None where a line has another form, so that a YAML reader has to look."""
    root: dict[str, Any] = {}
    open_at: dict[int, dict[str, Any]] = {}
    headings: list[dict[str, Any]] = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        if match is None:
            return None
        indent, quoted, plain, value = match.groups()
        depth, key = len(indent), plain if quoted is None else quoted
        if not open_at:
            open_at[depth] = root
        place = open_at.get(depth)
        if place is None or key in place:
            return None
        for deeper in [at for at in open_at if at > depth]:
            del open_at[deeper]
        if value is None:
            place[key] = open_at[depth + 2] = {}
            headings.append(open_at[depth + 2])
        elif value == "{}":
            place[key] = {}
        elif value.startswith('"'):
            place[key] = value[1:-1]
        else:
            place[key] = int(value) if value.lstrip("-").isdecimal() else value
        if (plain or "").lower() in READ_OTHERWISE or (str(place[key]).lower() in READ_OTHERWISE and value[:1] != '"'):
            return None
    return root if all(headings) else None  # a key without a value is null in YAML


def _scalar(value: str | int) -> str:
    """A number, a word that YAML reads as itself, or a quoted text."""
    if isinstance(value, int):
        return str(value)
    if PLAIN.fullmatch(value) and value.lower() not in READ_OTHERWISE:
        return value
    return '"' + "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\U{ord(c):08X}" for c in value) + '"'


def read(text: str) -> Model:
    """What a startup.yaml of this module says. Raises ValueError naming the key that is missing or odd."""
    try:
        return _model(settings_of(text))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"startup.yaml is none of this suite: {error!r}") from None


def settings_of(text: str) -> dict[str, Any]:
    """The tree that a file sets. Raises ValueError for a text that is no such file."""
    head, mark, body = text.partition("\n- set:\n")
    own = unblocked(body) if mark and head.count("\n- ") == 1 else None
    try:
        return _set(yaml.load(text, Loader=LOADER)) if own is None else own
    except (KeyError, StopIteration, TypeError, AttributeError, yaml.YAMLError) as error:
        raise ValueError(f"startup.yaml is none of this suite: {error!r}") from None


def _set(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What is set; the text of a switch has no header before it."""
    found: dict[str, Any] = next(part["set"] for part in parts if "set" in part)
    return found


def _settings(config: SwitchConfig) -> dict[str, Any]:
    return {
        **_filters(config),
        "interface": _interfaces(config),
        "qos": _qos(config),
        "router": _router(config),
        "system": system(config.hostname, config.management, "mgmt"),
        "vrf": {"default": {"router": {"bgp": _bgp(config)}}},
    }


def _interfaces(config: SwitchConfig) -> dict[str, Any]:
    management = config.management
    made: dict[str, Any] = {
        "lo": {"type": "loopback", "ipv4": {"address": {config.loopback: {}}}},
        management.port: {"type": "eth", "vrf": "mgmt", "ipv4": {"address": {management.address: {}}}},
    }
    if config.ipv6 is not None:
        made["lo"]["ipv6"] = {"address": {config.ipv6.loopback: {}}}
    for cage, count in config.breakouts.items():
        made[cage] = {"type": "swp", "link": {"breakout": {f"{count}x": {}}}}
    for port in config.ports:
        made[port.name] = {
            "type": "swp",
            "description": f"{port.far} {port.far_port}",
            "link": {"mtu": config.intent.mtu, "state": {"up": {}}},
            "qos": {"pfc": {"profile": _profile(port)}, "pfc-watchdog": {"state": "enable"}},
        }
        if port.address is not None:
            made[port.name]["ipv4"] = {"address": {port.address: {}}}
            made[port.name]["acl"] = _bound(port.ipv6 is not None)
            if port.ipv6 is not None:
                made[port.name]["ipv6"] = {"address": {port.ipv6: {}}}
        elif config.intent.load_balancing == "adaptive":
            made[port.name]["router"] = {"adaptive-routing": {"state": "enabled"}}
    return made


def _bound(both: bool) -> dict[str, Any]:
    """Access lists of a port to a server."""
    suffixes = VERSIONS.values() if both else ("",)
    return {f"{name}{suffix}": how for suffix in suffixes for name, how in BOUND.items()}


def _filters(config: SwitchConfig) -> dict[str, Any]:
    if not config.filtered:
        return {}
    made: dict[str, Any] = {}
    for version, suffix in VERSIONS.items():
        rules: dict[str, Any] = {}
        for number, rule in enumerate((one for one in config.permits if one.version == version), 1):
            match: dict[str, Any] = {"source-ip": rule.source, "dest-ip": rule.destination}
            if rule.protocol != "any":
                match["protocol"] = ICMPV6 if (version, rule.protocol) == (6, "icmp") else rule.protocol
            if rule.port is not None:
                match[rule.protocol] = {"dest-port": {str(rule.port): {}}}
            rules[str(10 * number)] = {"match": {"ip": match}, "action": {"permit": {}}}
        if rules or version == 4:
            rules[str(10 * len(rules) + 10)] = EVERYTHING_ELSE
            made |= {f"{name}{suffix}": {"type": f"ipv{version}", "rule": rules} for name in BOUND}
    return {"acl": made}


ICMPV6 = "icmpv6"
EVERYTHING_ELSE: dict[str, Any] = {
    "match": {"ip": {"source-ip": "ANY", "dest-ip": "ANY"}},
    "action": {"deny": {}},
}
"""The last rule of each access list."""


def _profile(port: Port) -> str:
    return f"roce-{port.cable_m}m"


def _qos(config: SwitchConfig) -> dict[str, Any]:
    intent = config.intent
    priority_of = {intent.dscp: intent.priority, intent.cnp_dscp: intent.cnp_class}
    queue_of = {intent.priority: intent.traffic_class, intent.cnp_class: intent.cnp_class}
    marking: dict[str, Any] = {"ecn": "disable"}
    if config.ecn is not None:
        marking = {
            "ecn": "enable",
            "red": "disable",
            "min-threshold": config.ecn.minimum,
            "max-threshold": config.ecn.maximum,
            "probability": config.ecn.probability_pct,
        }
    return {
        "roce": {"state": "enabled", "mode": "lossless-single-ipool"},
        "mapping": {
            "default-global": {
                "trust": "l3",
                "dscp": {str(dscp): {"switch-priority": priority_of.get(dscp, 0)} for dscp in range(64)},
            }
        },
        "egress-queue-mapping": {
            "default-global": {
                "switch-priority": {str(p): {"traffic-class": queue_of.get(p, 0)} for p in range(8)},
            }
        },
        "egress-scheduler": {
            "default-global": {
                "traffic-class": {
                    "0": {"mode": "dwrr", "bw-percent": 100 - intent.share_pct},
                    str(intent.traffic_class): {"mode": "dwrr", "bw-percent": intent.share_pct},
                    str(intent.cnp_class): {"mode": "strict"},
                }
            }
        },
        "congestion-control": {"default-global": {"traffic-class": {str(intent.traffic_class): marking}}},
        "pfc": {
            _profile(port): {
                "cable-length": port.cable_m,
                "rx": "enable",
                "tx": "enable",
                "switch-priority": {str(intent.priority): {}},
            }
            for port in config.ports
        },
        "pfc-watchdog": {"polling-interval": POLLING_MS, "robustness": -(-intent.watchdog_ms // POLLING_MS)},
    }


def _router(config: SwitchConfig) -> dict[str, Any]:
    lists = {
        ROUTES: _prefixes(4, {config.loopbacks: 32, config.rails: config.leaf_length}),
        LINKS: _prefixes(4, {config.loopbacks: 32, config.rails: 31}),
    }
    if config.ipv6 is not None:
        lists |= {
            f"{ROUTES}{IPV6}": _prefixes(6, {config.ipv6.loopbacks: 128, config.ipv6.rails: LEAF_IPV6}),
            f"{LINKS}{IPV6}": _prefixes(6, {config.ipv6.loopbacks: 128, config.ipv6.rails: 127}),
        }
    made: dict[str, Any] = {
        "bgp": {"autonomous-system": config.asn, "router-id": config.loopback.partition("/")[0], "state": "enabled"},
        "policy": {
            "prefix-list": lists,
            "route-map": {
                name: {
                    "rule": {
                        "10": {"action": {"permit": {}}, "match": {"ip-prefix-list": name, "type": one["type"]}},
                    }
                }
                for name, one in lists.items()
            },
        },
    }
    if config.drained:
        made["bgp"]["graceful-shutdown"] = "enabled"
    if config.bfd_ms is not None:
        timing = {"detect-multiplier": DETECT, "min-rx-interval": config.bfd_ms, "min-tx-interval": config.bfd_ms}
        made["bfd"] = {"state": "enabled", "profile": {PEERS: timing}}
    if config.intent.load_balancing == "adaptive":
        made["adaptive-routing"] = {"state": "enabled"}
    return made


def _prefixes(version: int, lengths: Mapping[str, int]) -> dict[str, Any]:
    """A prefix list that lets prefixes of one length pass below each prefix."""
    rules = {
        str(10 * number): {"action": "permit", "match": {prefix: {"min-prefix-len": bits, "max-prefix-len": bits}}}
        for number, (prefix, bits) in enumerate(lengths.items(), 1)
    }
    return {"type": f"ipv{version}", "rule": rules}


def _bgp(config: SwitchConfig) -> dict[str, Any]:
    uplinks = [port.name for port in config.ports if port.address is None]
    aggregates = {4: config.aggregate, **({} if config.ipv6 is None else {6: config.ipv6.aggregate})}
    families: dict[str, Any] = {}
    policies: dict[str, Any] = {}
    for version, aggregate in aggregates.items():
        name, suffix = FAMILIES[version], VERSIONS[version]
        families[name] = {
            "state": "enabled",
            "redistribute": {"connected": {"state": "enabled", "route-map": f"{LINKS}{suffix}"}},
        }
        if aggregate:
            families[name]["aggregate-route"] = {aggregate: {"summary-only": "enabled"}}
        if len(uplinks) > LEAST_PATHS:
            families[name]["multipaths"] = {"ebgp": len(uplinks)}
        policy = {"route-map": f"{ROUTES}{suffix}"}
        policies[name] = {"state": "enabled", "policy": {"inbound": policy, "outbound": dict(policy)}}
    group: dict[str, Any] = {"remote-as": "external", "address-family": policies}
    if config.bfd_ms is not None:
        group["bfd"] = {"profile": PEERS}
    return {
        "state": "enabled",
        "address-family": families,
        "path-selection": {"multipath": {"aspath-ignore": "enabled"}},
        "peer-group": {PEERS: group},
        "neighbor": {name: {"peer-group": PEERS, "type": "unnumbered"} for name in uplinks},
    }


def system(hostname: str, management: Management, vrf: str) -> dict[str, Any]:
    """Name, services and accounts of a switch that is managed in this VRF."""
    made: dict[str, Any] = {
        "hostname": hostname,
        "ssh-server": {"state": "enabled", "vrf": {vrf: {}}, "permit-root-login": "disabled"},
        "snmp-server": {
            "state": "enabled",
            "listening-address": {management.address.partition("/")[0]: {"vrf": vrf}},
        },
    }
    if management.ntp:
        servers = {address: {"iburst": "enabled"} for address in management.ntp}
        made["ntp"] = {"state": "enabled", "vrf": vrf, "server": servers}
    if management.dns:
        made["dns"] = {"server": {address: {"vrf": vrf} for address in management.dns}}
    if management.syslog:
        made["syslog"] = {"server": {address: {"vrf": vrf} for address in management.syslog}}
    if management.key:
        made["aaa"] = {
            "user": {
                management.user: {
                    "role": "system-admin",
                    "state": "enabled",
                    "ssh": {"authorized-key": {"bringup": {"type": management.key_type, "key": management.key}}},
                },
                **({} if management.user == DEFAULT_ACCOUNT else {DEFAULT_ACCOUNT: {"state": "disabled"}}),
            }
        }
        made["ssh-server"]["pka-only"] = "enabled"
    return made


def _read_filter(settings: dict[str, Any], name: str) -> tuple[frozenset[Rule], bool]:
    """What an access list permits, and whether its last rule denies all else."""
    rules = settings.get("acl", {}).get(name, {}).get("rule", {})
    *permits, last = [rules[number] for number in sorted(rules, key=int)] or [{}]
    denies = last == EVERYTHING_ELSE
    return frozenset(map(_rule, permits if denies else rules.values())), denies


def _rule(rule: dict[str, Any]) -> Rule:
    match = rule["match"]["ip"]
    protocol = match.get("protocol", "any")
    ports = [int(port) for port in match.get(protocol, {}).get("dest-port", {})]
    if (
        rule["action"] != {"permit": {}}
        or set(match) - {"source-ip", "dest-ip", "protocol", protocol}
        or len(ports) > 1
    ):
        raise ValueError(f"access list: {rule} is no rule of this suite")
    known = "icmp" if protocol == ICMPV6 else protocol
    return Rule(match["source-ip"], match["dest-ip"], known, ports[0] if ports else None)


def _model(settings: dict[str, Any]) -> Model:
    qos, bgp = settings["qos"], settings["vrf"]["default"]["router"]["bgp"]
    ports = {name: port for name, port in settings["interface"].items() if "qos" in port}
    addresses = {
        (name, address)
        for name, port in settings["interface"].items()
        if port.get("vrf") != "mgmt"
        for family in ("ipv4", "ipv6")
        for address in port.get(family, {}).get("address", {})
    }
    queues = qos["egress-queue-mapping"]["default-global"]["switch-priority"]
    shares = qos["egress-scheduler"]["default-global"]["traffic-class"]
    ((lossless_class, marking),) = qos["congestion-control"]["default-global"]["traffic-class"].items()
    if queues[_only(qos["pfc"])]["traffic-class"] != int(lossless_class):
        raise ValueError(f"traffic class {lossless_class} is marked and not the one without loss")
    ecn = None
    if marking["ecn"] == "enable":
        ecn = Ecn(marking["min-threshold"], marking["max-threshold"], marking["probability"])
    watchdog = qos["pfc-watchdog"]
    both = any(f"{name}{IPV6}" in settings.get("acl", {}) for name in BOUND)
    lists = [_read_filter(settings, name) for name in _bound(both)]
    families, group = bgp["address-family"], bgp["peer-group"][PEERS]["address-family"]
    return Model(
        hostname=settings["system"]["hostname"],
        asn=settings["router"]["bgp"]["autonomous-system"],
        drained=settings["router"]["bgp"].get("graceful-shutdown") == "enabled",
        router_id=settings["router"]["bgp"]["router-id"],
        addresses=frozenset(addresses),
        neighbours=frozenset(bgp["neighbor"]),
        aggregates=frozenset(
            prefix for name in FAMILIES.values() for prefix in families.get(name, {}).get("aggregate-route", {})
        ),
        mtu=frozenset((name, port["link"]["mtu"]) for name, port in ports.items()),
        priorities=frozenset(
            (int(dscp), to["switch-priority"])
            for dscp, to in qos["mapping"]["default-global"]["dscp"].items()
            if to["switch-priority"]
        ),
        queues=frozenset((int(p), to["traffic-class"]) for p, to in queues.items() if to["traffic-class"]),
        shares=frozenset((int(queue), to.get("bw-percent")) for queue, to in shares.items()),
        lossless=frozenset(
            (name, int(priority), profile["cable-length"])
            for name, port in ports.items()
            for profile in (qos["pfc"][port["qos"]["pfc"]["profile"]],)
            for priority in profile["switch-priority"]
        ),
        ecn=ecn,
        watchdog_ms=watchdog["polling-interval"] * watchdog["robustness"],
        adaptive=settings["router"].get("adaptive-routing", {}).get("state") == "enabled",
        permits=frozenset[Rule]().union(*(permits for permits, _ in lists)),
        filtered=frozenset(
            name
            for name, port in ports.items()
            if all(denies for _, denies in lists) and port.get("acl") == _bound(both)
        ),
        ipv6=_routes(families.get(FAMILIES[6], {}), group.get(FAMILIES[6], {}), IPV6),
    )


def _routes(own: dict[str, Any], of_neighbours: dict[str, Any], suffix: str) -> bool:
    """Whether a family's own routes are announced and its neighbours' taken, the planned ones only."""
    policy = {"route-map": f"{ROUTES}{suffix}"}
    connected = own.get("redistribute", {}).get("connected", {})
    return (own.get("state"), of_neighbours.get("state")) == ("enabled", "enabled") and (
        of_neighbours.get("policy") == {"inbound": policy, "outbound": policy}
        and connected == {"state": "enabled", "route-map": f"{LINKS}{suffix}"}
    )


def _only(profiles: dict[str, Any]) -> str:
    """The one priority of all PFC profiles."""
    (priority,) = {priority for profile in profiles.values() for priority in profile["switch-priority"]}
    return str(priority)
