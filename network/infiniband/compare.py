"""Compare the discovered InfiniBand fabric with the plan. Pure: frames in, findings out.

    TOPOLOGY-SWAPPED, TOPOLOGY-EXTRA, TOPOLOGY-MISSING, LINK-DOWN, DEVICE-SILENT    as in network.compare
    LINK-RATE          a planned cable that runs slower than planned
    LINK-ERRORS        a port whose error counter is above the limit
    ADAPTER-EXCHANGED  an adapter or switch whose GUID is not the one of the asset list
    SUBNET-MANAGER     not one master on the planned host with a standby behind it
    SUBNET-ROUTING     the routing engine in use is not the one that was asked for

A message about cables of another rail says so: rail k of every server belongs on the leaves of rail k.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from inventory.findings import Finding, finding, remedy
from network import compare
from network.discover import Port
from network.infiniband.parse import Discovery
from network.infiniband.subnet import HIGHEST_PRIORITY, ROUTING, UNIT, manager_port, managers
from network.render import Plan

FABRIC = "compute"
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
HCA_LABEL = re.compile(r"^(?P<host>\S+) (?:mlx5_|HCA-)(?P<number>\d+)$")
"""Node description that rdma-ndd writes ('%h %d', rdma-ndd(8)): host and RDMA device."""
SWITCH_LABEL = re.compile(r"^(?:\w+;)?(?P<name>[^:;\s]+)")
"""Node description of a switch: its name, on managed ones as 'MF0;NAME:MODEL/U1'."""


def names(found: Discovery, guids: Mapping[str, str], plan: Plan) -> dict[str, str]:
    """{node key: planned name} of what was discovered: 'ibl001' for a switch, 'gpu001:ib3' for an adapter.

    By GUID; where the asset list has none for it, by node description. What is neither keeps its description.
    """
    by_guid = {guid: name for name, guid in guids.items()}
    switches = set(plan.devices.loc[plan.devices["fabric"] == FABRIC, "name"])
    ports = _adapter_ports(plan)
    named = {}
    for key, guid, kind, label in found.nodes[["key", "guid", "kind", "label"]].itertuples(index=False, name=None):
        if guid in by_guid:
            named[key] = by_guid[guid]
            continue
        by_label = _by_label(kind, label, switches, ports)
        unlisted = by_label if by_label and not guids.get(by_label) else ""
        named[key] = unlisted or f"{label or 'unnamed'} ({guid})"
    return named


def _by_label(kind: str, label: str, switches: Collection[str], ports: Mapping[str, Sequence[str]]) -> str:
    if kind == "switch":
        found = SWITCH_LABEL.match(label)
        return found["name"] if found and found["name"] in switches else ""
    found = HCA_LABEL.match(label)
    own = ports.get(found["host"], ()) if found else ()
    return f"{found['host']}:{own[int(found['number'])]}" if found and int(found["number"]) < len(own) else ""


def _adapter_ports(plan: Plan) -> dict[str, list[str]]:
    """Ports of each host in the fabric, by rail."""
    rows = plan.cables[(plan.cables["fabric"] == FABRIC) & plan.cables["stage"].isin(["node-leaf", "manager-leaf"])]
    ports: dict[str, list[str]] = {}
    for host, port in zip(rows["a_device"].tolist(), rows["a_port"].tolist(), strict=True):
        ports.setdefault(host, []).append(port)
    return ports


def exchanged(found: Discovery, guids: Mapping[str, str], plan: Plan) -> list[Finding]:
    """ADAPTER-EXCHANGED: a node that calls itself a planned one and has another GUID than the asset list."""
    strange = found.nodes[~found.nodes["guid"].isin(list(guids.values()))]
    switches, ports = set(plan.devices.loc[plan.devices["fabric"] == FABRIC, "name"]), _adapter_ports(plan)
    findings = []
    for guid, kind, label in strange[["guid", "kind", "label"]].itertuples(index=False, name=None):
        claimed = _by_label(kind, label, switches, ports)
        if claimed and guids.get(claimed):
            findings.append(
                finding(
                    "ADAPTER-EXCHANGED",
                    claimed.split(":")[0],
                    ports=(claimed,),
                    words={"claimed": claimed, "guid": guid, "listed": guids[claimed]},
                    remedies=[remedy(fix="correct-list")],
                )
            )
    return findings


def edges(found: Discovery, named: Mapping[str, str], prefix: str) -> pd.DataFrame:
    """Links with planned names: columns end, far ('DEVICE:PORT'), rate_gbps; every link from both ends."""
    links = found.links

    def end(key: pd.Series, port: pd.Series) -> pd.Series:
        name = key.map(named)
        return name.where(key.str.startswith("H-"), name + ":" + prefix + port.astype(str))

    return pd.DataFrame(
        {
            "end": end(links["key"], links["port"]),
            "far": end(links["far_key"], links["far_port"]),
            "rate_gbps": links["rate_gbps"],
        }
    )


def topology(
    plan: Plan, found: Discovery, guids: Mapping[str, str], prefix: str, dark: Collection[str] = ()
) -> list[Finding]:
    """Differences between the planned compute cables and the discovered ones.

    prefix: how the switches' ports are named before their number ('p' for p1). dark: devices that are known to be down
    and reported elsewhere; nothing is said of their cables. A planned switch that was not discovered is one
    DEVICE-SILENT, whatever hangs on it.
    """
    named = names(found, guids, plan)
    seen = edges(found, named, prefix)
    planned = plan.cables[plan.cables["fabric"] == FABRIC]
    present = set(named.values())
    switches = plan.devices.loc[plan.devices["fabric"] == FABRIC, "name"]
    silent = sorted({name for name in switches if name not in present and name not in dark})
    unseen = {*silent, *dark}
    answered = _as_answers(planned, seen, unseen)
    return [
        *(finding("DEVICE-SILENT", name, case="not-discovered") for name in silent),
        *compare.topology(plan.cables, answered, dark=unseen, fabric=FABRIC, rail_of=_Rails(planned).of),
        *exchanged(found, guids, plan),
        *rates(planned, seen),
    ]


def _as_answers(planned: pd.DataFrame, seen: pd.DataFrame, without: Collection[str]) -> dict[str, dict[str, Port]]:
    """Discovery in the form of network.compare: a planned port without a link is down."""
    far = dict(zip(seen["end"].tolist(), seen["far"].tolist(), strict=True))
    ends = [
        *(planned["a_device"] + ":" + planned["a_port"]).tolist(),
        *(planned["b_device"] + ":" + planned["b_port"]).tolist(),
        *(end for end in far if ":" in end),
    ]
    answered: dict[str, dict[str, Port]] = {}
    for end in ends:
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
            "end": planned["a_device"] + ":" + planned["a_port"],
            "far": planned["b_device"] + ":" + planned["b_port"],
            "wanted": planned["rate_gbps"],
        }
    )
    there = cables.merge(seen, on=["end", "far"])
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
    prefix: str,
    limit: float,
    source: str,
) -> list[Finding]:
    """LINK-ERRORS for each port with a counter of LINK_QUALITY above the limit, with the port at the other end of its cable."""
    named = names(found, guids, plan)
    guid_of = dict(zip(found.nodes["guid"], found.nodes["key"], strict=True))
    seen = edges(found, named, prefix)
    far = dict(zip(seen["end"], seen["far"], strict=True))
    findings = []
    for (guid, port), values in sorted(counters.items()):
        high = {name: value for name, value in values.items() if name in LINK_QUALITY and value > limit}
        if not high:
            continue
        name = named.get(guid_of.get(guid, ""), guid)
        end = name if ":" in name else f"{name}:{prefix}{port}"
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
