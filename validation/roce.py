"""Judging how a server's RoCE adapters and the compute switches are set, against what the plan gives them. Pure.

The values are those that server and switch read back (machine_facts.py: roce; drivers of network/nos); what they have to be comes
from the plan, not from the file on the server. Whether the two ends of a link agree: validation/roce_ends.py.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from network.nos.model import Model
from network.roce import SYSTEMS

LOSSLESS = ("dcbx", "global_pause", "pfc", "queues", "roce_np", "roce_rp")
"""Settings that keep the class without loss: S055."""
MARKED = (
    *("mtu", "up", "addresses", "route_rail", "route_fabric", "rule", "dscp_priority"),
    *("addresses_ipv6", "route_rail_ipv6", "route_fabric_ipv6", "rule_ipv6"),
    *("default_roce_mode", "default_roce_tos", "traffic_class", "cnp_dscp"),
)
"""Settings that bring RoCE version 2 with its marks onto its rail: S056."""
ANY_PATH = ("adaptive_routing",)
"""Setting that lets packets of one flow take several paths: S057."""
SWITCH_LOSSLESS = ("lossless", "queues", "shares", "ecn", "watchdog_ms")
"""Fields of network.nos.model.Model that keep the class without loss: S055."""
SWITCH_ANY_PATH = ("adaptive",)
"""Field of the same that spreads packets of one flow over several paths: S057."""
SWITCH_MARKED = ("priorities", "mtu", "addresses")
"""Fields of the same that take the marks for their priorities, for packets of every size on their rail: S056."""
NOT_IN_EVERY_DRIVER = frozenset({"roce_np", "roce_rp", "traffic_class", "cnp_dscp"})
"""The kernel's own driver leaves ECN to the adapter's firmware, and has no class of all RDMA packets."""
MOST_SHOWN = 4


def faults(said: Mapping[str, Any], wanted: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """What is wrong with a server's adapters. said: facts; wanted: network.roce_host.wanted() of the server; names: settings."""
    if not said:
        yield "roce_host.py is not on the server: run the playbooks (role roce)"
        return
    if said["error"]:
        yield said["error"]
        return
    for rail in wanted["rails"]:
        found = said["rails"].get(rail["name"])
        if found is None:
            yield f"{rail['name']}: the server does not tell of it"
            continue
        if {found["netdev"], found["rdma"]} != {rail["name"]}:
            yield f"{rail['name']}: its interface is {found['netdev']} and its RDMA device {found['rdma']}"
        for name in names:
            yield from _setting(rail, name, found)


def _setting(rail: Mapping[str, Any], name: str, found: Mapping[str, Any]) -> Iterator[str]:
    if name not in rail["settings"]:
        return
    if why := found["unread"].get(name):
        yield f"{rail['name']}: {name} could not be read: {why}"
        return
    try:
        value = json.loads(found["values"].get(name, ""))
    except ValueError:
        yield f"{rail['name']}: {name} was not told"
        return
    if value is None and name in NOT_IN_EVERY_DRIVER:
        return
    if value != rail["settings"][name]:
        yield f"{rail['name']}: {name} {_unlike(value, rail['settings'][name])}"


def _unlike(value: Any, planned: Any) -> str:
    """How a value differs from the planned one; of a table only the rows that do."""
    if not (isinstance(value, dict) and isinstance(planned, dict)):
        return f"is {json.dumps(value)}, planned {json.dumps(planned)}"
    rows = [key for key in {**planned, **value} if value.get(key) != planned.get(key)]
    shown = [
        f"{key} is {json.dumps(value[key]) if key in value else 'missing'}, planned {json.dumps(planned.get(key))}"
        for key in rows[:MOST_SHOWN]
    ]
    more = f" and {len(rows) - MOST_SHOWN} more" if len(rows) > MOST_SHOWN else ""
    return f"{'; '.join(shown)}{more}"


def not_judged(said: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Settings that the driver of some adapter does not show."""
    lacking = {
        name
        for rail in said.get("rails", {}).values()
        for name in names
        if name in NOT_IN_EVERY_DRIVER and rail["values"].get(name) == "null"
    }
    return sorted(lacking)


def switch_faults(system: str, running: str, wanted: Model, names: Sequence[str]) -> Iterator[str]:
    """What is wrong with a switch. running: what it said it runs; wanted: its planned model; names: fields of it."""
    try:
        said = SYSTEMS[system].read(running)
    except ValueError as error:
        yield f"its configuration cannot be compared: {error}"
        return
    yield from said.unlike(wanted, names)
