"""startup.yaml of NVUE for one out-of-band switch, and back.

    text = render(config)     # network.nos.access.AccessConfig -> the file of /etc/nvue.d/startup.yaml
    read(text)                # -> network.nos.access.AccessModel

Keys after the NVUE object model of Cumulus Linux 5.16; tests hold them against its published schema (package nvueschema).
"""

from typing import Any

from network.nos.access import AccessConfig, AccessModel, AccessPort
from network.nos.cumulus.startup import document, settings_of, system

BRIDGE = "br_default"
"""The bridge that Cumulus Linux has without being told (page "VLAN-aware Bridge Mode")."""
VRF = "default"
"""The management VLAN is in it, since the port eth0 of an out-of-band switch has no cable in the plan."""
EDGE = {"admin-edge": "enabled", "bpdu-guard": "enabled"}


def render(config: AccessConfig) -> str:
    """The text of startup.yaml."""
    vlans: dict[str, Any] = {str(vlan): {} for vlan in config.vlans}
    return document(
        {
            "bridge": {
                "domain": {
                    BRIDGE: {
                        "type": "vlan-aware",
                        "untagged": "none",
                        "vlan": vlans,
                        "stp": {"mode": "rstp", "priority": config.priority, "state": {"up": {}}},
                    }
                }
            },
            "interface": {
                "eth0": {"type": "eth", "vrf": "mgmt"},
                **{port.name: _port(port, vlans) for port in config.ports},
                **{name: {"type": "swp", "link": {"state": {"down": {}}}} for name in config.unused},
                config.management.port: {
                    "type": "svi",
                    "vlan": config.management_vlan,
                    "ipv4": {"address": {config.management.address: {}}},
                },
            },
            "system": system(config.hostname, config.management, VRF),
        }
    )


def _port(port: AccessPort, vlans: dict[str, Any]) -> dict[str, Any]:
    bridged = (
        {"untagged": "none", "vlan": dict(vlans)} if port.vlan is None else {"access": port.vlan, "stp": dict(EDGE)}
    )
    return {
        "type": "swp",
        "description": f"{port.far} {port.far_port}",
        "link": {"state": {"up": {}}},
        "bridge": {"domain": {BRIDGE: bridged}},
    }


def read(text: str) -> AccessModel:
    """What a startup.yaml of this module says. Raises ValueError naming what is missing or odd."""
    try:
        return _model(settings_of(text))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"startup.yaml is none of an out-of-band switch: {error!r}") from None


def _model(settings: dict[str, Any]) -> AccessModel:
    carried = set(settings["bridge"]["domain"][BRIDGE]["vlan"])
    ports = {name: port for name, port in settings["interface"].items() if port["type"] == "swp"}
    bridged = {name: port["bridge"]["domain"][BRIDGE] for name, port in ports.items() if "bridge" in port}
    up = {name: one for name, one in bridged.items() if ports[name]["link"]["state"] == {"up": {}}}
    return AccessModel(
        hostname=settings["system"]["hostname"],
        addresses=frozenset(
            (port["vlan"], address)
            for port in settings["interface"].values()
            if port["type"] == "svi"
            for address in port["ipv4"]["address"]
        ),
        vlans=frozenset(map(int, carried)),
        access=frozenset((name, one["access"]) for name, one in up.items() if one.get("stp") == EDGE),
        trunks=frozenset(
            name for name, one in up.items() if one.get("untagged") == "none" and set(one["vlan"]) == carried
        ),
        down=frozenset(name for name, port in ports.items() if port["link"]["state"] == {"down": {}}),
        priority=settings["bridge"]["domain"][BRIDGE]["stp"]["priority"],
    )
