"""config_db.json of SONiC for one out-of-band switch, and back.

    text = render(config)     # network.nos.access.AccessConfig -> the file of /etc/sonic/config_db.json
    read(text)                # -> network.nos.access.AccessModel

Tables after SONiC's YANG models; tests hold the file against them. The spanning tree is PVST, one tree for each VLAN: with the mode
`mst` the models refuse a default of their own (rootguard_timeout). Its tables are read by images that have the container `stp`;
without it, ports are not guarded.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from inventory.yaml_data import read_data
from network.nos.access import AccessConfig, AccessModel, AccessPort
from network.nos.model import Management

Table = dict[str, dict[str, Any]]
EDGE = {"portfast": "true", "bpdu_guard": "true", "bpdu_guard_do_disable": "true"}
TAGS = ("tagged", "untagged")


@dataclass(frozen=True)
class _Port:
    """One port of a model: SONiC's name, lanes, number on the front, speed."""

    name: str
    lanes: str
    index: int
    speed_mbps: int


@cache
def layouts() -> Mapping[str, Mapping[str, Any]]:
    """{slug of a switch model: its rows of access_platforms.yaml}."""
    found: Mapping[str, Mapping[str, Any]] = read_data(Path(__file__).with_name("access_platforms.yaml"))
    return found


def _ports_of(model: str) -> dict[str, _Port]:
    """{the plan's name of a port: what SONiC has of it}."""
    made = {}
    for group in layouts()[model]["ports"]:
        for n in range(group["count"]):
            lane = group["lane"] + n * group["lane_step"]
            made[f"swp{group['first'] + n}"] = _Port(
                f"Ethernet{group['name'] + n * group['step']}",
                ",".join(str(lane + one) for one in range(group["lanes"])),
                group["first"] + n,
                group["speed_mbps"],
            )
    return made


def render(config: AccessConfig) -> str:
    """The text of config_db.json. Raises ValueError for a switch model without a layout in access_platforms.yaml."""
    if config.switch_model not in layouts():
        raise ValueError(f"{config.switch_model}: no port layout in network/nos/sonic/access_platforms.yaml")
    layout, known = layouts()[config.switch_model], _ports_of(config.switch_model)
    own = f"Vlan{config.management_vlan}"
    tables: dict[str, Table] = {
        "DEVICE_METADATA": {
            "localhost": {
                "hostname": config.hostname,
                "platform": layout["platform"],
                "hwsku": layout["hwsku"],
                "type": "MgmtToRRouter",  # a switch for management ports
                "default_bgp_status": "down",
            }
        },
        "PORT": _ports(config, known),
        "VLAN": {f"Vlan{vlan}": {"vlanid": str(vlan)} for vlan in config.vlans},
        "VLAN_MEMBER": {
            f"Vlan{vlan}|{known[port.name].name}": {"tagging_mode": TAGS[port.vlan is not None]}
            for port in config.ports
            for vlan in (config.vlans if port.vlan is None else (port.vlan,))
        },
        "VLAN_INTERFACE": {own: {}, f"{own}|{config.management.address}": {}},
        "STP": {"GLOBAL": {"mode": "pvst", "priority": str(config.priority)}},
        "STP_VLAN": {
            f"Vlan{vlan}": {"vlanid": str(vlan), "enabled": "true", "priority": str(config.priority)}
            for vlan in config.vlans
        },
        "STP_PORT": {
            known[port.name].name: {"enabled": "true", **(EDGE if port.vlan is not None else {})}
            for port in config.ports
        },
        **_management(config.management),
    }
    return json.dumps(tables, indent=4) + "\n"


def _ports(config: AccessConfig, known: Mapping[str, _Port]) -> Table:
    cabled: dict[str, AccessPort] = {port.name: port for port in config.ports}
    made: Table = {}
    for alias, port in known.items():
        far = cabled.get(alias)
        made[port.name] = {
            "alias": alias,
            "lanes": port.lanes,
            "index": str(port.index),
            "speed": str(port.speed_mbps),
            "admin_status": "up" if far else "down",
            **({"description": f"{far.far} {far.far_port}"} if far else {}),
        }
    return made


def _management(management: Management) -> dict[str, Table]:
    """Port eth0 is in the management VRF and has no address; all services use the VLAN's, in the default one."""
    address = management.address.partition("/")[0]
    made: dict[str, Table] = {
        "MGMT_PORT": {"eth0": {"alias": "eth0", "admin_status": "up"}},
        "MGMT_VRF_CONFIG": {"vrf_global": {"mgmtVrfEnabled": "true"}},
        "SNMP_AGENT_ADDRESS_CONFIG": {f"{address}|161|": {}},
        "SSH_SERVER": {"POLICIES": {"permit_root_login": "no"}},
    }
    if management.ntp:
        made["NTP"] = {"global": {"vrf": "default", "admin_state": "enabled"}}
        made["NTP_SERVER"] = {str(server): {"iburst": "on"} for server in management.ntp}
    if management.dns:
        made["DNS_NAMESERVER"] = {str(server): {} for server in management.dns}
    if management.syslog:
        made["SYSLOG_SERVER"] = {str(server): {"vrf": "default"} for server in management.syslog}
    return made


def read(text: str) -> AccessModel:
    """What a config_db.json of this module says. Raises ValueError naming what is missing or odd."""
    try:
        return _model(json.loads(text))
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"config_db.json is none of an out-of-band switch: {error!r}") from None


def _model(tables: dict[str, Any]) -> AccessModel:
    vlans = {name: int(row["vlanid"]) for name, row in tables["VLAN"].items()}
    if tables["STP"]["GLOBAL"]["mode"] != "pvst":
        raise ValueError(f"STP mode {tables['STP']['GLOBAL']['mode']} is not of this suite")
    member: dict[str, dict[str, set[int]]] = {}
    for key, row in tables["VLAN_MEMBER"].items():
        vlan, _, port = key.partition("|")
        member.setdefault(port, {tag: set() for tag in TAGS})[row["tagging_mode"]].add(vlans[vlan])
    up = {name: row["alias"] for name, row in tables["PORT"].items() if row["admin_status"] == "up"}
    tree = {name: row for name, row in tables["STP_PORT"].items() if row["enabled"] == "true"}
    access = {
        (alias, next(iter(member[name]["untagged"])))
        for name, alias in up.items()
        if name in member and len(member[name]["untagged"]) == 1 and not member[name]["tagged"]
        if name in tree and tree[name].items() >= EDGE.items()
    }
    trunks = {
        alias
        for name, alias in up.items()
        if name in member and member[name] == {"tagged": {*vlans.values()}, "untagged": set()} and name in tree
    }
    priorities = {row["priority"] for row in tables["STP_VLAN"].values() if row["enabled"] == "true"}
    if len(priorities) != 1 or {*tables["STP_VLAN"]} != {*vlans}:
        raise ValueError(
            f"VLANs have spanning trees of priority {', '.join(sorted(priorities)) or 'none'}: one for all is rendered"
        )
    return AccessModel(
        hostname=tables["DEVICE_METADATA"]["localhost"]["hostname"],
        addresses=frozenset(
            (vlans[name], address)
            for name, _, address in (key.partition("|") for key in tables["VLAN_INTERFACE"])
            if address
        ),
        vlans=frozenset(vlans.values()),
        access=frozenset(access),
        trunks=frozenset(trunks),
        down=frozenset(row["alias"] for row in tables["PORT"].values() if row["admin_status"] == "down"),
        priority=int(next(iter(priorities))),
    )
