"""Compare the discovered InfiniBand fabric with the plan. Pure: frames in, findings out.

    TOPOLOGY-SWAPPED, TOPOLOGY-EXTRA, TOPOLOGY-MISSING, LINK-DOWN, DEVICE-SILENT    as in network.compare
    LINK-RATE          a planned cable that runs slower than planned
    LINK-ERRORS        a port whose error counter is above the limit
    ADAPTER-EXCHANGED  an adapter or switch whose GUID is not the one of the asset list
    NODE-NAME-TWICE    several nodes with the description of one planned adapter or switch
    TOPOLOGY-UNKNOWN   switches are discovered, and none of them is known: nothing is compared
    SUBNET-MANAGER     not one master on the planned host with a standby behind it
    SUBNET-ROUTING     the routing engine in use is not the one that was asked for

A message about cables of another rail says so: rail k of every server belongs on the leaves of rail k.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from inventory.findings import Finding, finding, remedy
from network import compare
from network.discover import Port
from network.infiniband.parse import Discovery
from network.infiniband.subnet import HIGHEST_PRIORITY, ROUTING, UNIT, manager_port, managers
from network.infiniband.wire import FABRIC, INSIDE, Plan, Wire, on_the_wire

LINK_QUALITY = frozenset(
    {
        "SymbolErrorCounter",
        "LinkErrorRecoveryCounter",
        "PortRcvErrors",
        "PortRcvRemotePhysicalErrors",
        "LocalLinkIntegrityErrors",
        "ExcessiveBufferOverrunErrors",
    }
)
"""PortCounters (IBA specification 1.4, 16.1.3.5) that speak of the link itself. Discards and LinkDowned follow from a far
end that is gone, waits from congestion."""


@dataclass(frozen=True)
class Named:
    """What the nodes of a discovered fabric are.

    ``names``      {node key: planned name}: 'ibl001' of a switch, 'gpu001:ib3' of an adapter
    ``foreign``    {node key: 'description (GUID)'} of those that the plan does not know
    ``inside``     keys of nodes inside a switch: SHARP aggregation nodes and routers
    ``claimed``    {planned name: keys} of nodes that share its description, so that none of them is known by it
    ``exchanged``  (planned name, key) of each node that calls itself so and has another GUID than the asset list
    """

    names: Mapping[str, str]
    foreign: Mapping[str, str]
    inside: frozenset[str]
    claimed: Mapping[str, Sequence[str]]
    exchanged: Sequence[tuple[str, str]]

    def of(self, key: str) -> str:
        """The name of a node, planned or foreign."""
        return self.names.get(key) or self.foreign.get(key, key)


def identify(found: Discovery, guids: Mapping[str, str], wire: Wire) -> Named:
    """Which planned switch or adapter port each node is.

    By GUID, that of the system for a switch of several ASICs; where the asset list has none for it, by node description. A
    description that several systems or adapters have names none of them.
    """
    by_guid = {guid: name for name, guid in guids.items()}
    names: dict[str, str] = {}
    inside: set[str] = set()
    systems: dict[str, str] = {}
    labels: dict[str, tuple[str, str, str]] = {}
    for key, guid, kind, label in found.nodes[["key", "guid", "kind", "label"]].itertuples(index=False, name=None):
        system = found.systems.get(key, "")
        if kind != "switch" and INSIDE.search(label):
            inside.add(key)
        elif name := by_guid.get(guid) or by_guid.get(system, ""):
            names[key] = name
            if kind == "switch" and system:
                systems[system] = name
        else:
            labels[key] = (guid, kind, label)
    claims: dict[str, list[str]] = {}
    for key, (_, kind, label) in labels.items():
        if key in names:
            continue
        system = found.systems.get(key, "")
        if name := systems.get(system, "") if kind == "switch" else "":
            names[key] = name
        elif claimed := wire.switch(label) if kind == "switch" else wire.adapter(label):
            claims.setdefault(claimed, []).append(key)
    present = set(names.values())
    several: dict[str, Sequence[str]] = {}
    others: list[tuple[str, str]] = []
    for claimed, keys in claims.items():
        one_of_each = list({found.systems.get(key) or key: key for key in reversed(keys)}.values())
        if guids.get(claimed):
            others += [(claimed, key) for key in one_of_each]
            if claimed not in present and len(one_of_each) == 1:
                names |= dict.fromkeys(keys, claimed)
        elif len(one_of_each) > 1:
            several[claimed] = keys
        else:
            names |= dict.fromkeys(keys, claimed)
    foreign = {key: f"{label or 'unnamed'} ({guid})" for key, (guid, _, label) in labels.items() if key not in names}
    return Named(names, foreign, frozenset(inside), several, others)


def exchanged(found: Discovery, guids: Mapping[str, str], named: Named) -> list[Finding]:
    """ADAPTER-EXCHANGED: a node that calls itself a planned one and has another GUID than the asset list."""
    guid_of = dict(zip(found.nodes["key"], found.nodes["guid"], strict=True))
    return [
        finding(
            "ADAPTER-EXCHANGED",
            claimed.split(":")[0],
            ports=(claimed,),
            words={"claimed": claimed, "guid": guid_of[key], "listed": guids[claimed]},
            remedies=[remedy(fix="correct-list")],
        )
        for claimed, key in named.exchanged
    ]


def same_names(found: Discovery, named: Named, seen: pd.DataFrame) -> list[Finding]:
    """NODE-NAME-TWICE: nodes that share the description of a planned one, with where each is plugged."""
    at = dict(zip(seen["far_key"], seen["end"], strict=True))
    return [
        finding(
            "NODE-NAME-TWICE",
            claimed.split(":")[0],
            ports=(claimed,),
            words={
                "claimed": claimed,
                "nodes": ", ".join(f"{named.of(key)} at {at[key]}" if key in at else named.of(key) for key in keys),
            },
            remedies=[remedy(fix="names"), remedy(fix="list")],
        )
        for claimed, keys in sorted(named.claimed.items())
    ]


def edges(found: Discovery, named: Named, wire: Wire) -> pd.DataFrame:
    """Links with planned names: columns end, far ('DEVICE:PORT'), rate_gbps, key, far_key; every link from both ends.

    The planes of a link between systems of several ASICs are one row, with the sum of their rates. Nodes inside a switch are
    left out.
    """

    def end(key: str, port: int) -> str:
        name = named.of(key)
        if key not in named.names:
            return f"{name}:{port}"
        return name if ":" in name else f"{name}:{wire.port(name, port)}"

    columns = ["key", "port", "far_key", "far_port", "rate_gbps"]
    rows = [
        (end(key, port), end(far_key, far_port), rate, key, far_key)
        for key, port, far_key, far_port, rate in found.links[columns].itertuples(index=False, name=None)
        if key not in named.inside and far_key not in named.inside
    ]
    made = pd.DataFrame(rows, columns=["end", "far", "rate_gbps", "key", "far_key"])
    return made.groupby(["end", "far"], sort=False, as_index=False).agg(
        {"rate_gbps": "sum", "key": "first", "far_key": "first"}
    )


def planes(found: Discovery, named: Named, wire: Wire) -> dict[str, list[tuple[frozenset[str], int]]]:
    """{planned end: (GUIDs of its node and port, InfiniBand port) of each of its planes}; a single one but on systems of several
    ASICs.
    """
    guid = dict(zip(found.nodes["key"], found.nodes["guid"], strict=True))
    made: dict[str, list[tuple[frozenset[str], int]]] = {}
    for key, port in found.links[["key", "port"]].itertuples(index=False, name=None):
        if name := named.names.get(key):
            end = name if ":" in name else f"{name}:{wire.port(name, port)}"
            made.setdefault(end, []).append((frozenset({guid[key], key[2:].zfill(16)}), port))
    return made


def topology(plan: Plan, found: Discovery, guids: Mapping[str, str], dark: Collection[str] = ()) -> list[Finding]:
    """Differences between the planned compute cables and the discovered ones.

    dark: devices that are known to be down and reported elsewhere; nothing is said of their cables. A planned switch that was
    not discovered is one DEVICE-SILENT, whatever hangs on it. Nothing is said of cables of nodes that cannot be told apart.
    """
    wire = on_the_wire(plan)
    named = identify(found, guids, wire)
    seen = edges(found, named, wire)
    planned = plan.cables[plan.cables["fabric"] == FABRIC]
    present = {*named.names.values(), *named.claimed}
    switches = plan.devices.loc[plan.devices["fabric"] == FABRIC, "name"]
    found_switches = found.nodes.loc[found.nodes["kind"] == "switch", "key"]
    if len(found_switches) and not present.intersection(switches):
        return [_unknown(found, switches, guids), *exchanged(found, guids, named)]
    silent = sorted({name for name in switches if name not in present and name not in dark})
    unseen = {*silent, *dark, *(name for name in named.claimed if ":" not in name)}
    doubtful = {key for keys in named.claimed.values() for key in keys}
    hidden = seen["key"].isin(doubtful) | seen["far_key"].isin(doubtful)
    unjudged = {*named.claimed, *seen.loc[hidden, "end"], *seen.loc[hidden, "far"]}
    judged = ~_ends(planned, "a").isin(unjudged) & ~_ends(planned, "b").isin(unjudged)
    ours = seen["key"].isin(named.names) | seen["far_key"].isin(named.names)
    rails = _Rails(planned)
    planned, told_apart = planned[judged], seen[~hidden & ours]
    answered = _as_answers(planned, told_apart, unseen)
    return [
        *(finding("DEVICE-SILENT", name, case="not-discovered") for name in silent),
        *compare.topology(
            planned,
            answered,
            dark=unseen,
            fabric=FABRIC,
            rail_of=rails.of,
            planned_devices=frozenset(plan.devices["name"]),
        ),
        *exchanged(found, guids, named),
        *same_names(found, named, seen),
        *rates(planned, told_apart),
    ]


def _unknown(found: Discovery, switches: pd.Series, guids: Mapping[str, str]) -> Finding:
    """TOPOLOGY-UNKNOWN: the one finding for a fabric of whose switches none is known."""
    keys = found.nodes.loc[found.nodes["kind"] == "switch", "key"]
    return finding(
        "TOPOLOGY-UNKNOWN",
        FABRIC,
        remedies=[remedy(fix="bind"), remedy(fix="list")],
        switches=len({found.systems.get(key, key) for key in keys}),
        listed=sum(name in guids for name in switches),
        planned=len(switches),
    )


def _ends(cables: pd.DataFrame, side: str) -> pd.Series:
    return cables[f"{side}_device"] + ":" + cables[f"{side}_port"]


def _as_answers(planned: pd.DataFrame, seen: pd.DataFrame, without: Collection[str]) -> dict[str, dict[str, Port]]:
    """Discovery in the form of network.compare: a planned port without a link is down."""
    far = dict(zip(seen["end"].tolist(), seen["far"].tolist(), strict=True))
    answered: dict[str, dict[str, Port]] = {}
    for end in [*_ends(planned, "a").tolist(), *_ends(planned, "b").tolist(), *far]:
        device, _, port = end.rpartition(":")
        if device in without:
            continue
        far_device, _, far_port = far.get(end, "").rpartition(":")
        answered.setdefault(device, {})[port] = Port(
            state="up" if end in far else "down", far=far_device, far_port=far_port, age_s=0, ttl_s=0
        )
    return answered


class _Rails:
    """Rail of each end of a compute cable: of an adapter's port, or of the leaf that the end is on."""

    def __init__(self, planned: pd.DataFrame) -> None:
        self._port: dict[str, int] = dict(
            zip(planned["a_device"] + ":" + planned["a_port"], planned["rail"], strict=True)
        )
        nodes = planned[planned["stage"] == "node-leaf"]
        self._leaf: dict[str, int] = dict(zip(nodes["b_device"], nodes["rail"], strict=True))

    def of(self, end: str) -> int:
        """The rail of 'DEVICE:PORT'; -1 for none, as that of an uplink."""
        return int(self._leaf.get(end.rpartition(":")[0], self._port.get(end, -1)))


def rates(planned: pd.DataFrame, seen: pd.DataFrame) -> list[Finding]:
    """LINK-RATE for each planned cable that is there and slower than planned."""
    cables = pd.DataFrame(
        {
            "end": _ends(planned, "a"),
            "far": _ends(planned, "b"),
            "wanted": planned["rate_gbps"],
        }
    )
    there = cables.merge(seen[["end", "far", "rate_gbps"]], on=["end", "far"])
    slow = there[there["rate_gbps"] < there["wanted"]]
    return [
        finding(
            "LINK-RATE",
            one.rpartition(":")[0],
            limit=float(wanted),
            limit_source="plan cables.rate_gbps",
            ports=(one, other),
            rate_gbps=rate,
            words={"cable": f"{one} -- {other}"},
            remedies=[remedy(fix="check-settings")],
        )
        for one, other, wanted, rate in slow.itertuples(index=False, name=None)
    ]


def errors(
    counters: Mapping[tuple[str, int], Mapping[str, int]],
    found: Discovery,
    guids: Mapping[str, str],
    plan: Plan,
    limit: float,
    source: str,
) -> list[Finding]:
    """LINK-ERRORS for each port with a counter of LINK_QUALITY above the limit, with the port at the other end of its cable."""
    wire = on_the_wire(plan)
    named = identify(found, guids, wire)
    key_of = dict(zip(found.nodes["guid"], found.nodes["key"], strict=True))
    seen = edges(found, named, wire)
    far = dict(zip(seen["end"], seen["far"], strict=True))
    findings = []
    for (guid, port), values in sorted(counters.items()):
        high = {name: value for name, value in values.items() if name in LINK_QUALITY and value > limit}
        if not high:
            continue
        name = named.of(key_of.get(guid, guid))
        end = name if ":" in name else f"{name}:{wire.port(name, port)}"
        other = far.get(end, "")
        counted = ", ".join(f"{counter} {value}" for counter, value in sorted(high.items()))
        findings.append(
            finding(
                "LINK-ERRORS",
                end.rpartition(":")[0],
                limit=limit,
                limit_source=source,
                ports=(end, other) if other else (end,),
                words={"end": end, "counted": counted},
                remedies=[remedy(fix="clean-to", other=other) if other else remedy(fix="clean")],
                more_numbers={counter: float(value) for counter, value in high.items()},
            )
        )
    return findings


def subnet_managers(
    plan: Plan, guids: Mapping[str, str], seen: Mapping[str, Mapping[str, Any]], lost: Collection[str] = ()
) -> list[Finding]:
    """SUBNET-MANAGER for each planned manager that is not in its place; SUBNET-ROUTING for another routing engine.

    seen: {host: {"state": "MASTER", "priority": 15, "guid": "…", "engine": "ftree"}}; without state where none answers,
    `error` saying why. lost: hosts and leaves that are down and reported elsewhere. Without a master, the next manager
    is rightly the master.
    """
    findings = []
    order, leaf = managers(plan), dict(_manager_leaves(plan))
    standing = [host for host in order if host not in lost and leaf.get(host) not in lost]
    answering = [host for host in standing if seen.get(host, {}).get("state")]
    for host in standing:
        manager, port = seen.get(host, {}), manager_port(plan, host)
        priority = HIGHEST_PRIORITY - order.index(host)
        first = (answering if host in answering else standing)[0]
        wanted = ("MASTER" if host == first else "STANDBY", priority, guids.get(port, ""))
        have = (str(manager.get("state") or ""), int(manager.get("priority", -1)), str(manager.get("guid", "")))
        if have != wanted:
            error = str(manager.get("error") or "")
            findings.append(
                finding(
                    "SUBNET-MANAGER",
                    host,
                    case="differs" if have[0] else "device-error" if error else "silent",
                    ports=(port,),
                    words={
                        **dict(zip(("state", "priority", "guid"), have, strict=True)),
                        **dict(zip(("wanted_state", "wanted_priority", "wanted_guid"), wanted, strict=True)),
                        "problem": error,
                    },
                    remedies=[remedy(fix="refresh", unit=UNIT)],
                )
            )
        elif wanted[0] == "MASTER" and manager.get("engine") != ROUTING[0]:
            engine = manager.get("engine")
            findings.append(
                finding(
                    "SUBNET-ROUTING",
                    host,
                    case="another" if engine else "unknown",
                    words={"engine": engine, "wanted": ROUTING[0]},
                    remedies=[remedy(fix="cables")],
                )
            )
    return findings


def _manager_leaves(plan: Plan) -> list[tuple[str, str]]:
    rows = plan.cables[plan.cables["stage"] == "manager-leaf"]
    return list(zip(rows["a_device"], rows["b_device"], strict=True))
