"""Both ends of each link of a lossless RoCE fabric, as server and switch read them back: what they have otherwise. Pure.

    said = links(plan, facts)
    said.differences     (item, end a, end b, text), such as ("S055", "gpu001:rail0", "rol001:swp1s0", "PFC on priority 3 and 4")
    said.unread          ends of which nothing is known

The plan is not asked here: two ends that are wrong alike are the faults of validation.roce. A pause frame that the other end does
not know, or a mark that it takes for another priority, loses packets though each end is sound by itself.
"""

import ipaddress
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from capacity.model import Plan
from inventory.findings import Finding, finding, remedy
from network import roce
from network.nos.model import Model
from validation.facts import Facts

LOSSLESS, MARKED = "S055", "S056"
"""Steps that the differences belong to."""
PRIORITIES = 8
"""Priorities of a port: IEEE 802.1Q, three bits."""
NOT_SAID = object()
"""What a driver does not show."""


class Difference(NamedTuple):
    """What two ends of one link have otherwise."""

    step: str
    a: str
    b: str
    text: str


@dataclass(frozen=True)
class End:
    """What one end says. ``priority_of`` {DSCP: priority}, all but 0; ``sends`` and ``notifies`` DSCP of a server's packets;
    ``ecn`` whether a switch marks, or a server reacts; ``address`` with its length, ``address_ipv6`` '' where it has none.
    NOT_SAID: the driver does not show it."""

    pfc: frozenset[int]
    priority_of: Mapping[int, int]
    mtu: int
    ecn: object
    address: str = ""
    gateway: str = ""
    sends: object = NOT_SAID
    notifies: object = NOT_SAID
    address_ipv6: str = ""
    gateway_ipv6: str = ""


@dataclass(frozen=True)
class Links:
    """All links that were compared: their number, what differs, and the ends of which nothing is known."""

    compared: int
    differences: tuple[Difference, ...]
    unread: tuple[str, ...]
    by_device: Mapping[str, int] = field(default_factory=dict)
    """Compared links of each device."""

    def of(self, device: str, step: str) -> list[str]:
        """What concerns one device in one step, as text."""
        found = [one for one in self.differences if one.step == step and device in _devices(one)]
        return [f"{one.a} and {one.b}: {one.text}" for one in found]

    def unread_from(self, device: str, plan: Plan) -> list[str]:
        """Ends of the device's links of which nothing is known: its own by port, far ones by their device."""
        cables = _cables(plan)
        far = {
            *(cables.loc[cables["a_device"] == device, "b_device"]),
            *(cables.loc[cables["b_device"] == device, "a_device"]),
        }
        own_ports = {end for end in self.unread if end.partition(":")[0] == device}
        return sorted(own_ports | (far & {end.partition(":")[0] for end in self.unread}))


def _devices(one: Difference) -> set[str]:
    return {one.a.partition(":")[0], one.b.partition(":")[0]}


def _cables(plan: Plan) -> Any:
    return plan.cables[plan.cables["fabric"] == "compute"]


def links(plan: Plan, facts: Facts) -> Links:
    """All planned links of the compute fabric; none on InfiniBand."""
    if plan.site.fabric.nos is None:
        return Links(0, (), ())
    ends = {**_of_servers(facts), **_of_switches(models(plan, facts))}
    found: list[Difference] = []
    unread, compared = set(), 0
    by_device: Counter[str] = Counter()
    columns = ["a_device", "a_port", "b_device", "b_port"]
    for a_device, a_port, b_device, b_port in _cables(plan)[columns].itertuples(index=False, name=None):
        names = (f"{a_device}:{a_port}", f"{b_device}:{b_port}")
        missing = [name for name in names if name not in ends]
        unread.update(missing)
        if not missing:
            compared += 1
            by_device.update((a_device, b_device))
            found += [Difference(step, *names, text) for step, text in _unlike(*(ends[name] for name in names))]
    return Links(compared, tuple(found), tuple(sorted(unread)), dict(by_device))


def models(plan: Plan, facts: Facts) -> dict[str, Model]:
    """What each switch says that could be read, as its system's reader understands it."""
    system, found = roce.SYSTEMS[str(plan.site.fabric.nos)], {}
    for name, answer in facts.roce_switches.items():
        if not answer.error:
            try:
                found[name] = system.read(answer.data["running"])
            except ValueError:
                continue  # its own check says why
    return found


def _of_switches(running: Mapping[str, Model]) -> dict[str, End]:
    """Ends of switches. A switch without ECN is left to its own check: the plan has no thresholds where the buffer is too small."""
    found = {}
    for name, model in running.items():
        address: dict[int, dict[str, str]] = {4: {}, 6: {}}
        for port, text in model.addresses:
            if version := _version(text):
                address[version][port] = text
        marks = NOT_SAID if model.ecn is None else True
        pfc: dict[str, set[int]] = {}
        for port, priority, _ in model.lossless:
            pfc.setdefault(port, set()).add(priority)
        for port, mtu in model.mtu:
            found[f"{name}:{port}"] = End(
                frozenset(pfc.get(port, ())),
                dict(model.priorities),
                mtu,
                marks,
                address[4].get(port, ""),
                address_ipv6=address[6].get(port, ""),
            )
    return found


def _of_servers(facts: Facts) -> dict[str, End]:
    found = {}
    for name, answer in facts.nodes.items():
        said = {} if answer.error else answer.data.get("machine", {}).get("roce", {})
        for rail, one in said.get("rails", {}).items():
            try:
                found[f"{name}:{rail}"] = _server_end({key: json.loads(text) for key, text in one["values"].items()})
            except UNREADABLE:
                continue  # its own check says what it does not tell
    return found


UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
"""What reading a server's JSON values may end in: other types, missing keys, numbers beyond any size, nesting without end."""


def _version(text: str) -> int:
    """Of the IP address with its length; 0 for another text."""
    try:
        return ipaddress.ip_interface(text).version
    except ValueError:
        return 0


def _server_end(said: Mapping[str, Any]) -> End:
    if not isinstance(said["pfc"], list) or len(said["pfc"]) > PRIORITIES:
        raise ValueError("pfc is no list of eight")
    pfc = frozenset(priority for priority, on in enumerate(said["pfc"]) if on)
    reacts = said.get("roce_rp")
    tos, cnp = said.get("default_roce_tos"), said.get("cnp_dscp")
    return End(
        pfc,
        {int(dscp): priority for dscp, priority in said["dscp_priority"].items() if priority},
        int(said["mtu"]),
        NOT_SAID if reacts is None else "1" in reacts.values(),
        str(ipaddress.ip_interface(said["addresses"][0])),
        str(ipaddress.ip_address(said["route_rail"]["gateway"])),
        NOT_SAID if tos is None else int(tos) >> 2,
        NOT_SAID if cnp is None else int(cnp),
        *_ipv6_of(said),
    )


def _ipv6_of(said: Mapping[str, Any]) -> tuple[str, str]:
    """IPv6 address and gateway of a server's end; '' for what it does not have."""
    addresses, gateway = said.get("addresses_ipv6") or [""], said.get("route_rail_ipv6", {}).get("gateway", "")
    return (
        str(ipaddress.IPv6Interface(addresses[0])) if addresses[0] else "",
        str(ipaddress.IPv6Address(gateway)) if gateway else "",
    )


def _unlike(a: End, b: End) -> Iterator[tuple[str, str]]:
    """(step, what differs) of the ends of one link; a server is end a."""
    if a.pfc != b.pfc:
        yield LOSSLESS, f"PFC on {_list(a.pfc)} and {_list(b.pfc)}"
    if NOT_SAID not in (a.ecn, b.ecn) and a.ecn != b.ecn:
        yield LOSSLESS, f"ECN {_on(a.ecn)} and {_on(b.ecn)}"
    for dscp in sorted({*a.priority_of, *b.priority_of}):
        left, right = a.priority_of.get(dscp, 0), b.priority_of.get(dscp, 0)
        if left != right:
            yield MARKED, f"DSCP {dscp} has priority {left} and {right}"
    server = bool(a.gateway)
    if a.mtu > b.mtu or (not server and a.mtu != b.mtu):
        yield MARKED, f"MTU {a.mtu} and {b.mtu}"
    if not server:
        return
    if isinstance(a.sends, int) and b.priority_of.get(a.sends, 0) not in b.pfc:
        yield MARKED, f"RoCE is sent with DSCP {a.sends}, which has no priority without loss at the switch"
    if isinstance(a.notifies, int) and b.priority_of.get(a.notifies, 0) in {0, *b.pfc}:
        yield MARKED, f"notifications are sent with DSCP {a.notifies}, which has no priority of its own at the switch"
    for gateway, address, far in (
        (a.gateway, a.address, b.address),
        (a.gateway_ipv6, a.address_ipv6, b.address_ipv6),
    ):
        if gateway != far.partition("/")[0]:
            yield MARKED, f"gateway {gateway or 'none'} and address {far or 'none'}"
        elif far and (not address or ipaddress.ip_interface(address).network != ipaddress.ip_interface(far).network):
            yield MARKED, f"addresses {address or 'none'} and {far}"


def _list(priorities: Collection[int]) -> str:
    return ", ".join(f"priority {one}" for one in sorted(priorities)) or "none"


def _on(value: object) -> str:
    return "on" if value else "off"


def findings(plan: Plan, facts: Facts, down: Collection[str]) -> list[Finding]:
    """FABRIC-LINK-ENDS, one for each device: the one that most of the differing links share, then the same of those left."""
    left: dict[tuple[str, str], list[str]] = {}
    for one in links(plan, facts).differences:
        if not _devices(one) & set(down):
            left.setdefault((one.a, one.b), []).append(one.text)
    found = []
    while left:
        shared = Counter(end.partition(":")[0] for ends in left for end in ends)
        device = min(shared, key=lambda name: (-shared[name], name))
        of_device = [ends for ends in left if device in {end.partition(":")[0] for end in ends}]
        a, b = of_device[0]
        words = {"a": a, "b": b, "text": "; ".join(left[a, b])}
        ports = tuple(end for ends in of_device for end in ends)
        count = len(of_device)
        found.append(
            finding("FABRIC-LINK-ENDS", device, ports=ports, links=count, words=words, remedies=[remedy(fix="again")])
        )
        left = {ends: texts for ends, texts in left.items() if ends not in of_device}
    return found
