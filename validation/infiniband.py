"""What is wrong with the InfiniBand fabric and its subnet managers, of the facts that their hosts gathered, and what these say of
one device. Pure."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from typing_extensions import TypedDict

from capacity.model import Plan
from inventory.findings import Finding
from network.drivers import answers
from network.drivers.answers import Line, Source
from network.infiniband import compare, parse
from network.infiniband.subnet import manager_port
from network.infiniband.wire import FABRIC, on_the_wire
from validation.facts.answer import Answer, Facts
from validation.facts.shapes import LinkRow, NodeRow

NOT_DIAGNOSED: Mapping[str, Any] = {"error": "these facts have nothing of ibdiagnet: they are older"}
"""Of a host's answer, where it has no part `diagnosed`."""


def findings(plan: Plan, guids: Mapping[str, str], facts: Facts, down: Collection[str] = ()) -> list[Finding]:
    """What is wrong with the InfiniBand fabric and its subnet managers. down: devices that are reported elsewhere.

    A manager without power, or cut off by itself or with its leaf, is no finding of its own, nor is a routing engine that gives
    up because cables are wrong.
    """
    if not facts.subnets:
        return []
    found = topology(plan, guids, facts, down)
    lost = {*down, *(f.subject for f in found if f.id == "DEVICE-SILENT"), *_cut_off(plan, facts, found)}
    found += errors(plan, guids, facts)
    managers = compare.subnet_managers(plan, guids, managers_seen(facts), lost)
    return found + [f for f in managers if f.id != "SUBNET-ROUTING" or not found]


def best_view(facts: Facts) -> Answer | None:
    """The answer of the host that sees most of the fabric: one that is cut off sees only itself."""
    answers = [answer for answer in facts.subnets.values() if not answer.error]
    return max(answers, key=lambda answer: len(answer.data["nodes"]), default=None)


def joined_view(facts: Facts) -> parse.Discovery | None:
    """What hosts see together: the view of the one that sees most, and the parts that it is cut off from."""
    best = best_view(facts)
    if best is None:
        return None
    seen = discovered(best)
    for answer in facts.subnets.values():
        if answer.error or answer is best:
            continue
        part, known = discovered(answer), set(seen.nodes["key"])
        links = part.links[~part.links["key"].isin(known) & ~part.links["far_key"].isin(known)]
        nodes = part.nodes[~part.nodes["key"].isin(known)]
        if len(nodes):
            seen = parse.Discovery(
                pd.concat([seen.nodes, nodes], ignore_index=True),
                pd.concat([seen.links, links], ignore_index=True),
                {**part.systems, **seen.systems},
            )
    return seen


def _cut_off(plan: Plan, facts: Facts, found: Collection[Finding]) -> set[str]:
    """Hosts with subnet managers that see at most a part of the fabric, where a finding about cables says why."""
    best = best_view(facts)
    dark = {port for one in found if one.id == "LINK-DOWN" for port in one.ports}
    hosts = {host for host in facts.subnets if manager_port(plan, host) in dark}
    if best is not None and any(one.id == "TOPOLOGY-CUT-OFF" for one in found):
        seen = {row[0] for row in best.data["nodes"]}
        views = {host: answer for host, answer in facts.subnets.items() if not answer.error}
        hosts |= {host for host, view in views.items() if seen.isdisjoint(row[0] for row in view.data["nodes"])}
    return hosts


def discovered(answer: Answer) -> parse.Discovery:
    """The discovery that an answer holds."""
    return parse.Discovery(
        pd.DataFrame(answer.data["nodes"], columns=list(parse.NODE_COLUMNS)),
        pd.DataFrame(answer.data["links"], columns=list(parse.LINK_COLUMNS)),
        answer.data.get("systems", {}),
    )


def topology(plan: Plan, guids: Mapping[str, str], facts: Facts, dark: Collection[str]) -> list[Finding]:
    """Differences between the planned compute cables and those discovered; none when nobody could look."""
    view = joined_view(facts)
    return compare.topology(plan, view, guids, dark) if view else []


def errors(plan: Plan, guids: Mapping[str, str], facts: Facts) -> list[Finding]:
    """Ports whose error counters are above the site's limit; none without a limit, which S060 names as missing."""
    view, limit = best_view(facts), plan.site.limits.get("ib_link_errors_max")
    if limit is None or view is None:
        return []
    counters = {(port.split("/")[0], int(port.split("/")[1])): values for port, values in view.data["errors"].items()}
    source = f"site limits.ib_link_errors_max: {limit.source}"
    return compare.errors(counters, discovered(view), guids, plan, float(limit.value), source)


def managers_seen(facts: Facts) -> dict[str, dict[str, Any]]:
    """{host: state, priority, guid, engine} of each subnet manager that answered; state '' and `error` else."""
    return {
        host: {**(answer.data.get("own") or {}), "engine": answer.data.get("engine", ""), "error": answer.error}
        for host, answer in facts.subnets.items()
    }


# ---- one device ------------------------------------------------------------------------------------------------------
def _named(plan: Plan, guids: Mapping[str, str], view: Answer) -> compare.Named:
    return compare.identify(discovered(view), guids, on_the_wire(plan))


def chips_of(plan: Plan, guids: Mapping[str, str], view: Answer, switch: str) -> list[str]:
    """Node GUIDs of a switch in the subnet: one, or one for each ASIC."""
    named = _named(plan, guids, view)
    return sorted(
        guid for key, guid, kind, _, _ in view.data["nodes"] if kind == "switch" and named.names.get(key) == switch
    )


def places_of(plan: Plan, guids: Mapping[str, str], view: Answer, host: str) -> dict[str, list[str]]:
    """{planned end of a host's compute ports: 'GUID/port' by which the subnet may know it}; [] for one that it does not have."""
    found, wire = discovered(view), on_the_wire(plan)
    planes = compare.planes(found, compare.identify(found, guids, wire), wire)
    rows = plan.cables[(plan.cables["fabric"] == FABRIC) & (plan.cables["stage"] == "node-leaf")]
    ends = [f"{host}:{port}" for port in rows.loc[rows["a_device"] == host, "a_port"]]
    return {end: [f"{guid}/{port}" for known, port in planes.get(end, ()) for guid in sorted(known)] for end in ends}


def aggregation_nodes(plan: Plan, guids: Mapping[str, str], view: Answer) -> dict[str, str]:
    """{port GUID of an aggregation node: the switch in which it is}."""
    named = _named(plan, guids, view)
    port_guid = {key: guid for key, guid, *_ in view.data["nodes"]}
    return {
        port_guid[far_key]: named.names[key]
        for key, _, far_key, *_ in view.data["links"]
        if far_key in named.inside and key in named.names and far_key in port_guid
    }


def leaves_of_rails(plan: Plan, switch: str) -> dict[str, set[str]]:
    """{rail: its leaves} of the rails that hang on a leaf; all rails for a switch of a higher tier. A rail is the same port of
    every server.
    """
    rows = plan.cables[(plan.cables["fabric"] == FABRIC) & (plan.cables["stage"] == "node-leaf")]
    gpus = set(plan.devices.loc[plan.devices["role"] == "gpu", "name"])
    rails: dict[str, set[str]] = {}
    for host, port, leaf in rows[["a_device", "a_port", "b_device"]].itertuples(index=False, name=None):
        if host in gpus:
            rails.setdefault(port, set()).add(leaf)
    leaves = set().union(*rails.values())
    return {rail: of for rail, of in rails.items() if switch in of or switch not in leaves}


def part_of(view: Answer, names: Collection[str], places: Collection[str]) -> bytes:
    """What a host's diagnosis says of some GUIDs or ports, as raw output; all of a part where none is named."""
    said = view.data["diagnosed"]
    cut = {
        name: {place: said[name][place] for place in places if place in said[name]} if places else said[name]
        for name in names
    }
    return json.dumps({"host": view.device, **cut}, sort_keys=True, indent=1).encode()


# ---- one switch ---------------------------------------------------------------------------------------------------------
Node = tuple[str, str, str, str, int]
"""(key, GUID, kind, label, LID) of a discovered node."""


def node_of(view: Answer, guid: str) -> Node | None:
    """(key, GUID, kind, label, LID) of the discovered node with this GUID."""
    return next((tuple(row) for row in view.data["nodes"] if row[1] == guid), None)


def of_switch(subject: str, cabling: Sequence[Finding]) -> list[Finding]:
    """Those findings about the fabric's cables that are about one switch, without those for information."""
    about = [f for f in cabling if subject == f.subject or any(port.split(":")[0] == subject for port in f.ports)]
    return [f for f in about if f.severity != "info"]


def chips(view: Answer, guid: str) -> list[Node]:
    """The discovered nodes of a switch: one, or one for each ASIC of its system. The asset list may have the GUID of any of them,
    or that of the system; [] where the subnet has no such switch.
    """
    systems, own = view.data.get("systems", {}), node_of(view, guid)
    system = systems.get(own[0], "") if own else guid
    alike = [
        tuple(row) for row in view.data["nodes"] if row[2] == "switch" and system and systems.get(row[0]) == system
    ]
    return alike or ([own] if own else [])


def own_part(view: Answer, guid: str) -> bytes:
    """What the view says of one switch, as raw output: a whole fabric for each of 640 switches would be gigabytes."""
    own, systems = chips(view, guid), view.data.get("systems", {})
    keys, places = {row[0] for row in own}, tuple(f"{row[1]}/" for row in own)
    links = [row for row in view.data["links"] if row[0] in keys]
    ends = {row[2] for row in links} - keys
    their = {systems[key] for key in ends if key in systems}  # an ASIC is known by the others of its system
    far = [row for row in view.data["nodes"] if row[0] in ends or (row[0] not in keys and systems.get(row[0]) in their)]
    part = {
        "host": view.device,
        "nodes": own,
        "links": links,
        "far": far,
        "systems": {row[0]: systems[row[0]] for row in (*own, *far) if row[0] in systems},
        **{
            kind: {port: table for port, table in view.data[kind].items() if port.startswith(places)}
            for kind in ("lanes", "arbitration", "errors")
        },
    }
    return json.dumps(part, sort_keys=True, indent=1).encode()


class Part(TypedDict):
    """What `own_part` keeps of a switch: its own nodes, their links, the nodes at the far ends, and of which system each is."""

    host: Line
    nodes: list[NodeRow]
    links: list[LinkRow]
    far: list[NodeRow]
    systems: dict[Line, Line]
    lanes: dict[Line, Any]
    arbitration: dict[Line, Any]
    errors: dict[Line, Any]


def links_of_part(
    plan: Plan, switch: str, cables: pd.DataFrame, guids: Mapping[str, str], raw: bytes
) -> tuple[list[list[Any]], list[Finding]]:
    """(its links without its own keys, what of them is not as planned) of a switch, from its part of the subnet.

    cables: those of the plan that end at it. UnreadableAnswer for what is no such part, ValueError for that of another switch.
    """
    source = Source(switch, "read its part of the subnet")
    part: Any = answers.read(Part, answers.load(raw, source), source)
    own, systems = part["nodes"], part["systems"]
    keys, known = {row[0] for row in own}, {row[1] for row in own} | {systems.get(row[0], "") for row in own}
    if not own or guids.get(switch, own[0][1]) not in known or any(row[0] not in keys for row in part["links"]):
        raise ValueError(f"it is the part of {', '.join(row[1] for row in own)}, {switch} is {guids.get(switch)}")
    if len(own) > 1 and len({systems.get(row[0], row[0]) for row in own}) > 1:
        raise ValueError(f"it has the nodes of several systems: {', '.join(row[1] for row in own)}")
    if part["host"] not in set(plan.devices["name"]):
        raise ValueError(f"{part['host'][:60]} looked at the subnet, and the plan has no such device")
    ends = {switch, *cables["a_device"], *cables["b_device"]}
    back = [[row[2], row[3], row[0], row[1], row[4]] for row in part["links"]]
    nodes = pd.DataFrame([*own, *part["far"]], columns=list(parse.NODE_COLUMNS))
    links = pd.DataFrame([*part["links"], *back], columns=list(parse.LINK_COLUMNS))
    planned = replace(plan, cables=cables, devices=plan.devices[plan.devices["name"].isin(ends)])
    found = compare.topology(planned, parse.Discovery(nodes, links, systems), guids)
    return [row[1:] for row in part["links"]], of_switch(switch, found)
