"""What a device sees on its Ethernet ports: link state and LLDP neighbours, read over SSH.

    lldp(host) -> {"swp1": {"state": "up", "far": "spine01", "far_port": "swp1", "age_s": 416, "ttl_s": 3}, ...}

Every port is there; one without a neighbour has far ''. `age_s` is the time since lldpd first saw this neighbour there,
so where an old entry lives on beside a new one, the smaller age is the cable of today; an entry without a system name, as the
firmware of a network card sends it, counts only where there is no other. `ttl_s` is how old an entry can
be at most: a neighbour that falls silent disappears after it.
"""

import re
from typing import NotRequired

from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import Line, Source, Whole
from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost

SCRIPT = """
PATH=$PATH:/usr/sbin
for port in /sys/class/net/*; do state=; read -r state <"$port/operstate"; echo "${port##*/} $state"; done
echo
lldpcli -f json0 show neighbors
"""
"""Ports with their state, an empty line, LLDP. json0 keeps its shape whatever the number of neighbours; json does not."""
READ, WAY_OUT = "read LLDP neighbours", "check that lldpd runs on the device and that this user may ask it"


class Port(TypedDict):
    """One port: operational state as Linux names it, far device and port from LLDP ('' for none), ages in seconds."""

    state: Line
    far: Line
    far_port: Line
    age_s: Whole
    ttl_s: Whole
    far_mac: NotRequired[Line]
    """The far device's chassis MAC, where it announces one."""
    far_port_also: NotRequired[Line]
    """Another name that the far device gives its port: its description where the id is a MAC or an alias."""


class _Value(TypedDict):
    value: Line


class _Chassis(TypedDict, total=False):
    name: list[_Value]
    id: list[_Value]


class _FarPort(TypedDict):
    id: list[_Value]
    ttl: list[_Value]
    descr: NotRequired[list[_Value]]


class _Interface(TypedDict):
    name: Line
    age: Line
    chassis: list[_Chassis]
    port: list[_FarPort]


class _Lldp(TypedDict, total=False):
    interface: list[_Interface]


class _Neighbours(TypedDict):
    """lldpcli's json0, as far as it is read."""

    lldp: list[_Lldp]


AGE = re.compile(r"([0-9]{1,6}) days?, ([0-9]{1,2}):([0-9]{2}):([0-9]{2})")
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
TTL = re.compile(r"[0-9]{1,6}")


def lldp(host: SshHost) -> dict[str, Port]:
    """Ports and neighbours of one device. Raises a DeviceError, UnreadableAnswer for an answer that is cut short, BadAnswer where
    lldpd does not answer.
    """
    done = host.run("sh -s", stdin=SCRIPT.encode(), check=False)
    if done.status:
        said = done.err.strip().rpartition("\n")[2]
        raise BadAnswer(host.name, READ, "an answer of lldpcli", f"exit status {done.status}: {said}", WAY_OUT)
    return parse(host.name, done.out)


def parse(device: str, text: str) -> dict[str, Port]:
    """The answer to SCRIPT, every name on one line and printable. UnreadableAnswer names the device for anything else."""
    source = Source(device, READ, WAY_OUT)
    states, _, neighbours = text.partition("\n\n")
    with answers.reading(source, "port states and lldpcli's json0"):
        ports = {name: Port(state=state, far="", far_port="", age_s=0, ttl_s=0) for name, state in _pairs(states)}
        said = answers.read(_Neighbours, answers.load(neighbours, source), source)
        # A network card whose firmware speaks LLDP gives no system name; what the host itself says goes before it.
        latest: dict[str, tuple[bool, int]] = {}
        for entry in said["lldp"][0].get("interface", []):
            seen = _neighbour(entry)
            port = ports.setdefault(entry["name"], Port(state="unknown", far="", far_port="", age_s=0, ttl_s=0))
            rank = ("name" not in entry["chassis"][0], seen["age_s"])
            if entry["name"] not in latest or rank < latest[entry["name"]]:
                latest[entry["name"]] = rank
                seen["state"] = port["state"]
                ports[entry["name"]] = seen
    return ports


def _pairs(states: str) -> list[tuple[str, str]]:
    pairs = []
    for row in states.split("\n") if states else []:
        name, state = row.split(" ")
        pairs.append((answers.line(name), answers.line(state)))
    return pairs


def _neighbour(entry: _Interface) -> Port:
    chassis, port = entry["chassis"][0], entry["port"][0]
    name = (chassis.get("name") or chassis["id"])[0]["value"]
    ttl = port["ttl"][0]["value"]
    if not TTL.fullmatch(ttl):
        raise ValueError(f"time to live {ttl}")
    seen = Port(state="", far=name, far_port=port["id"][0]["value"], age_s=_seconds(entry["age"]), ttl_s=int(ttl))
    chassis_id = chassis["id"][0]["value"].lower() if chassis.get("id") else ""
    if MAC.fullmatch(chassis_id):
        seen["far_mac"] = chassis_id
    described = port["descr"][0]["value"] if port.get("descr") else ""
    if described and described != seen["far_port"]:
        seen["far_port_also"] = described
    return seen


def _seconds(age: str) -> int:
    """'2 days, 03:04:05' in seconds."""
    found = AGE.fullmatch(age)
    if not found:
        raise ValueError(f"age {age}")
    days, hours, minutes, seconds = map(int, found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds
