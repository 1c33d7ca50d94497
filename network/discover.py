"""What a device sees on its Ethernet ports: link state and LLDP neighbours, read over SSH.

    lldp(host) -> {"swp1": {"state": "up", "far": "spine01", "far_port": "swp1", "age_s": 416, "ttl_s": 3}, ...}

Every port is there; one without a neighbour has far ''. `age_s` is the time since lldpd first saw this neighbour there,
so where an old entry lives on beside a new one, the smaller age is the cable of today. `ttl_s` is how old an entry can
be at most: a neighbour that falls silent disappears after it.
"""

import json
from collections.abc import Mapping
from typing import Any, TypedDict

from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost

SCRIPT = """
PATH=$PATH:/usr/sbin
for port in /sys/class/net/*; do echo "${port##*/} $(cat "$port/operstate")"; done
echo
lldpcli -f json0 show neighbors
"""
"""Ports with their state, an empty line, LLDP. json0 keeps its shape whatever the number of neighbours; json does not."""


class Port(TypedDict):
    """One port: operational state as Linux names it, far device and port from LLDP ('' for none), ages in seconds."""

    state: str
    far: str
    far_port: str
    age_s: int
    ttl_s: int


def lldp(host: SshHost) -> dict[str, Port]:
    """Ports and neighbours of one device. Raises a DeviceError, BadAnswer for an answer that is cut short."""
    return parse(host.name, host.run("sh -s", stdin=SCRIPT.encode()).out)


def parse(device: str, text: str) -> dict[str, Port]:
    """The answer to SCRIPT. Raises BadAnswer that names the device for anything else."""
    states, _, answer = text.partition("\n\n")
    try:
        ports = {name: Port(state=state, far="", far_port="", age_s=0, ttl_s=0) for name, state in _pairs(states)}
        for entry in _interfaces(json.loads(answer)):
            seen = _neighbour(entry)
            port = ports.setdefault(entry["name"], Port(state="unknown", far="", far_port="", age_s=0, ttl_s=0))
            if not port["far"] or seen["age_s"] < port["age_s"]:
                seen["state"] = port["state"]
                ports[entry["name"]] = seen
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as e:
        raise BadAnswer(
            device,
            "read LLDP neighbours",
            "port states and lldpcli's json0",
            f"{type(e).__name__} in {text[-80:]!r}",
            "check that lldpd runs on the device and that this user may ask it",
        ) from e
    return ports


def _pairs(states: str) -> list[tuple[str, str]]:
    pairs = []
    for line in states.splitlines():
        name, state = line.split(" ")
        pairs.append((name, state))
    return pairs


def _interfaces(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of lldpcli's json0; several with the same name where a port has several neighbours."""
    found: list[dict[str, Any]] = answer["lldp"][0].get("interface", [])
    return found


def _neighbour(entry: Mapping[str, Any]) -> Port:
    chassis, port = entry["chassis"][0], entry["port"][0]
    name = (chassis.get("name") or chassis["id"])[0]["value"]
    return Port(
        state="", far=name, far_port=port["id"][0]["value"], age_s=_seconds(entry["age"]), ttl_s=int(_ttl(port))
    )


def _ttl(port: Mapping[str, Any]) -> str:
    return str(port["ttl"][0]["value"])


def _seconds(age: str) -> int:
    """'2 days, 03:04:05' in seconds."""
    days, _, clock = age.partition(",")
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return int(days.split()[0]) * 86400 + hours * 3600 + minutes * 60 + seconds
