"""What is wrong with the InfiniBand fabric and its subnet managers, of the facts that their hosts gathered, and what these say of
one device. Pure."""

import json
from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from capacity.model import Plan
from inventory.findings import Finding
from network.infiniband import compare, parse
from network.infiniband.wire import FABRIC, on_the_wire
from validation.facts.answer import Answer, Facts

NOT_DIAGNOSED: Mapping[str, Any] = {"error": "these facts have nothing of ibdiagnet: they are older"}
"""Of a host's answer, where it has no part `diagnosed`."""


def findings(plan: Plan, guids: Mapping[str, str], facts: Facts, down: Collection[str] = ()) -> list[Finding]:
    """What is wrong with the InfiniBand fabric and its subnet managers. down: devices that are reported elsewhere.

    A manager without power or cut off with its leaf is no finding of its own, nor is a routing engine that gives up
    because cables are wrong.
    """
    if not facts.subnets:
        return []
    found = topology(plan, guids, facts, down)
    lost = {*down, *(f.subject for f in found if f.id == "DEVICE-SILENT")}
    found += errors(plan, guids, facts)
    managers = compare.subnet_managers(plan, guids, managers_seen(facts), lost)
    return found + [f for f in managers if f.id != "SUBNET-ROUTING" or not found]


def best_view(facts: Facts) -> Answer | None:
    """The answer of the host that sees most of the fabric: one that is cut off sees only itself."""
    answers = [answer for answer in facts.subnets.values() if not answer.error]
    return max(answers, key=lambda answer: len(answer.data["nodes"]), default=None)


def discovered(answer: Answer) -> parse.Discovery:
    """The discovery that an answer holds."""
    return parse.Discovery(
        pd.DataFrame(answer.data["nodes"], columns=list(parse.NODE_COLUMNS)),
        pd.DataFrame(answer.data["links"], columns=list(parse.LINK_COLUMNS)),
        answer.data.get("systems", {}),
    )


def topology(plan: Plan, guids: Mapping[str, str], facts: Facts, dark: Collection[str]) -> list[Finding]:
    """Differences between the planned compute cables and those discovered; none when nobody could look."""
    view = best_view(facts)
    return compare.topology(plan, discovered(view), guids, dark) if view else []


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
