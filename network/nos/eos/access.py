"""startup-config of Arista EOS for one out-of-band switch, and back.

    text = render(config)     # network.nos.access.AccessConfig -> the file of flash:startup-config
    read(text)                # -> network.nos.access.AccessModel
    structured(config)        # the same in the data model of Arista's AVD, as in startup_config.py

Management is in the default VRF: the switch's address is in the management VLAN, and the port Management1 has no cable in the plan.
"""

import re
from collections.abc import Iterable, Iterator

from network.nos.access import AccessConfig, AccessModel, AccessPort
from network.nos.eos.startup_config import (
    API,
    READERS,
    Tree,
    lines_of_form,
    local_users,
    one_line,
    sections_of,
    user_lines,
)

VRF = "default"


def structured(config: AccessConfig) -> Tree:
    """The configuration in AVD's data model."""
    management = config.management
    made: Tree = {
        "hostname": config.hostname,
        "spanning_tree": {"mode": "rstp", "rstp_priority": config.priority},
        "vlans": [{"id": vlan} for vlan in config.vlans],
        "ethernet_interfaces": [
            *(_port(port, config) for port in config.ports),
            *({"name": name, "shutdown": True} for name in config.unused),
        ],
        "vlan_interfaces": [
            {"name": f"Vlan{config.management_vlan}", "shutdown": False, "ip_address": management.address}
        ],
        "management_api_http": {"enable_vrfs": [{"name": VRF}]},
        "management_ssh": {"enable": True},
        "snmp_server": READERS,
    }
    if management.ntp:
        made["ntp"] = {"servers": [{"name": server, "iburst": True} for server in sorted(management.ntp)]}
    if management.dns:
        servers = [{"ip_address": server} for server in sorted(management.dns)]
        made["ip_name_server"] = {"vrfs": [{"name": VRF, "servers": servers}]}
    if management.syslog:
        made["logging"] = {"vrfs": [{"name": VRF, "hosts": [{"name": server} for server in sorted(management.syslog)]}]}
    if management.key:
        made["local_users"] = local_users(management)
        made["management_ssh"]["authentication"] = {"protocols": ["public-key"]}
    return made


def _port(port: AccessPort, config: AccessConfig) -> Tree:
    made: Tree = {"name": port.name, "description": f"{port.far} {port.far_port}", "shutdown": False}
    if port.vlan is None:
        carried = {"allowed_vlan": ",".join(map(str, config.vlans)), "native_vlan_tag": True}
        return {**made, "switchport": {"enabled": True, "mode": "trunk", "trunk": carried}}
    return {
        **made,
        "switchport": {"enabled": True, "mode": "access", "access_vlan": port.vlan},
        "spanning_tree_portfast": "edge",
        "spanning_tree_bpduguard": "enabled",
    }


def render(config: AccessConfig) -> str:
    """The text of startup-config: sections in the order in which EOS shows them."""
    lines = [line for part in _text(structured(config)) if (section := list(part)) for line in ("!", *section)]
    return "! Rendered from the plan and never run on a device.\n" + "\n".join(lines) + "\n"


def _text(tree: Tree) -> Iterator[Iterable[str]]:
    """The sections, lines of each."""
    yield user_lines(tree.get("local_users", []))
    yield [f"logging host {host['name']}" for vrf in tree.get("logging", {}).get("vrfs", []) for host in vrf["hosts"]]
    yield [f"hostname {tree['hostname']}"]
    yield [
        f"ip name-server vrf {VRF} {server['ip_address']}"
        for vrf in tree.get("ip_name_server", {}).get("vrfs", [])
        for server in vrf["servers"]
    ]
    yield ["snmp-server view ALL iso included", "snmp-server group READERS v3 priv read ALL"]
    tree_of = tree["spanning_tree"]
    yield [f"spanning-tree mode {tree_of['mode']}", f"spanning-tree priority {tree_of['rstp_priority']}"]
    for vlan in tree["vlans"]:
        yield [f"vlan {vlan['id']}"]
    yield [*API, f"   vrf {VRF}", "      no shutdown"]
    for port in sorted(tree["ethernet_interfaces"], key=lambda one: int(re.sub(r"\D", "", str(one["name"])))):
        yield _port_lines(port)
    for one in tree["vlan_interfaces"]:
        yield [f"interface {one['name']}", "   no shutdown", f"   ip address {one['ip_address']}"]
    yield [f"ntp server {server['name']} iburst" for server in tree.get("ntp", {}).get("servers", [])]
    yield _ssh(tree["management_ssh"])


def _port_lines(port: Tree) -> Iterator[str]:
    yield f"interface {port['name']}"
    if port["shutdown"]:
        yield "   shutdown"
        return
    yield from (f"   description {port['description']}", "   no shutdown")
    bridged = port["switchport"]
    if bridged["mode"] == "access":
        yield from (f"   switchport access vlan {bridged['access_vlan']}", "   switchport mode access", "   switchport")
        yield from ("   spanning-tree portfast", "   spanning-tree bpduguard enable")
    else:
        yield "   switchport trunk native vlan tag"
        yield f"   switchport trunk allowed vlan {bridged['trunk']['allowed_vlan']}"
        yield from ("   switchport mode trunk", "   switchport")


def _ssh(ssh: Tree) -> Iterator[str]:
    yield "management ssh"
    if "authentication" in ssh:
        yield f"   authentication protocol {' '.join(ssh['authentication']['protocols'])}"
    yield "   no shutdown"


def read(text: str) -> AccessModel:
    """What a startup-config of this module says. Raises ValueError naming what is missing or odd."""
    sections = sections_of(text)
    (mode,) = one_line(sections, r"spanning-tree mode (\S+)")
    if mode != "rstp":
        raise ValueError(f"spanning tree {mode} is not of this suite")
    vlans = frozenset(int(vlan) for (vlan,) in lines_of_form(sections, r"vlan (\d+)"))
    ports = {
        head.removeprefix("interface "): set(body)
        for head, body in sections.items()
        if head.startswith("interface Ethernet")
    }
    up = {name: body for name, body in ports.items() if "shutdown" not in body}
    guarded = {"switchport", "switchport mode access", "spanning-tree portfast", "spanning-tree bpduguard enable"}
    carried = ",".join(map(str, sorted(vlans)))
    trunk = {
        *("switchport", "switchport mode trunk", "switchport trunk native vlan tag"),
        f"switchport trunk allowed vlan {carried}",
    }
    return AccessModel(
        hostname=one_line(sections, r"hostname (\S+)")[0],
        addresses=frozenset(
            (int(vlan), address)
            for (vlan,) in lines_of_form(sections, r"interface Vlan(\d+)")
            if "shutdown" not in sections[f"interface Vlan{vlan}"]
            for (address,) in lines_of_form(sections[f"interface Vlan{vlan}"], r"ip address (\S+)")
        ),
        vlans=vlans,
        access=frozenset(
            (name, int(vlan))
            for name, body in up.items()
            if body >= guarded
            for (vlan,) in lines_of_form(body, r"switchport access vlan (\d+)")
        ),
        trunks=frozenset(name for name, body in up.items() if body >= trunk),
        down=frozenset(ports) - frozenset(up),
        priority=int(one_line(sections, r"spanning-tree priority (\d+)")[0]),
    )
