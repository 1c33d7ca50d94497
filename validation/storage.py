"""What is wrong with the shared file system, at its cause. Pure: plan and facts in, findings out.

A server that is down, or whose service is, explains every client that gets no answer: those are no findings then.
"""

import ipaddress
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from capacity.model import Plan
from capacity.storage.load import BUILT_KINDS, Shared, shared
from inventory.findings import Finding, finding, remedy
from validation.facts import Facts
from validation.facts.storage import clients
from validation.facts.storage_facts import mount_unit

MOUNTED_AS = {"glusterfs": ("fuse.glusterfs",), "nfs": ("nfs4", "nfs"), "lustre": ("lustre",)}
"""How the kernel lists a mounted file system, by kind."""


def findings(plan: Plan, facts: Facts, down: Collection[str] = ()) -> list[Finding]:
    """All findings about shared storage. down: devices that other findings explain already."""
    wanted = shared(plan.site, plan.devices)
    answered = {
        name: answer.data["storage"]
        for name, answer in facts.nodes.items()
        if not answer.error and name not in down and "storage" in answer.data
    }
    found: list[Finding] = []
    if wanted.kind in BUILT_KINDS:
        for server in wanted.servers:
            if server in answered:
                found += of_server(plan, wanted, server, answered[server])
    lost = {f.subject for f in found if f.id in UNSERVED} | {name for name in wanted.servers if name in down}
    if lost:
        return found
    for name in clients(plan):
        if name in answered:
            found += of_client(wanted, name, answered[name])
    return found


UNSERVED = ("STORAGE-SERVICE-DOWN", "STORAGE-VOLUME-STOPPED", "STORAGE-BRICK-OFFLINE")
"""Findings of a server that leave its clients without an answer."""


def of_server(plan: Plan, wanted: Shared, name: str, seen: Mapping[str, Any]) -> list[Finding]:
    """Service, volume, bricks and room of one server: the first that is wrong explains the rest."""
    server = seen.get("server", {})
    state = server.get("units", {}).get("glusterd.service", "")
    if seen.get("error") or state != "active":
        case, words = "state" if state else "not-read", {"state": state, "problem": seen.get("error")}
        return [finding("STORAGE-SERVICE-DOWN", name, case=case, words=words, remedies=[remedy(fix="start")])]
    if server.get("error"):
        return [finding("STORAGE-SERVICE-DOWN", name, case="no-answer", words={"problem": server["error"]})]
    status = server["volume"].get("status", "missing")
    if status != "Started":
        words = {"volume": wanted.volume, "status": status}
        return [finding("STORAGE-VOLUME-STOPPED", name, words=words, remedies=[remedy(fix="start")])]
    own = [brick for brick in server["bricks"] if brick["name"].startswith(f"{name}:")]
    offline = [brick["name"] for brick in own if not brick["online"]]
    if offline or not own:
        return [
            finding(
                "STORAGE-BRICK-OFFLINE",
                name,
                case="offline" if offline else "no-brick",
                ports=tuple(offline),
                words={"bricks": ", ".join(offline), "volume": wanted.volume},
                remedies=[remedy(fix="start")],
            )
        ]
    return [one for brick in own for one in of_room(plan, name, brick)]


def of_room(plan: Plan, name: str, brick: Mapping[str, Any]) -> list[Finding]:
    """STORAGE-FULL when less space or fewer inodes are free than the site's limit storage_free_min_pct."""
    limit = plan.site.limits.get("storage_free_min_pct")
    if limit is None:
        return []
    short = {
        what: round(pct, 1)
        for what, total, free in (("space", "total_b", "free_b"), ("inodes", "inodes", "inodes_free"))
        if brick[total] and (pct := 100 * brick[free] / brick[total]) < limit.value
    }
    if not short:
        return []
    return [
        finding(
            "STORAGE-FULL",
            name,
            case="both" if len(short) == 2 else next(iter(short)),
            limit=limit.value,
            limit_source=f"site limits.storage_free_min_pct: {limit.source}",
            ports=(brick["name"],),
            words={"brick": brick["name"]},
            remedies=[remedy(fix="delete"), remedy(fix="add-brick")],
            **short,
        )
    ]


def of_client(wanted: Shared, name: str, seen: Mapping[str, Any]) -> list[Finding]:
    """The mount of one node: there, from the right source, and alive."""
    if seen.get("error"):
        return [finding("STORAGE-UNREADABLE", name, words={"problem": seen["error"]})]
    mount = seen["mount"]
    if not mount:
        unit = shlex.quote(mount_unit(wanted.mount_point))
        words = {"mount_point": wanted.mount_point}
        return [finding("STORAGE-UNMOUNTED", name, words=words, remedies=[remedy(fix="unit", unit=unit)])]
    if found := differs(wanted, name, mount):
        return found
    if "error" in seen["usage"]:
        words = {"mount_point": wanted.mount_point, "problem": seen["usage"]["error"]}
        return [finding("STORAGE-SILENT", name, words=words, remedies=[remedy(fix="log")])]
    return []


def differs(wanted: Shared, name: str, mount: Mapping[str, Any]) -> list[Finding]:
    """STORAGE-MOUNT-DIFFERS when a node's mount is another than the wanted one, or read-only."""
    types = MOUNTED_AS.get(wanted.kind, (wanted.kind,))
    another = mount["type"] not in types or mount["source"] != wanted.source
    if not another and "rw" in mount["options"]:
        return []
    return [
        finding(
            "STORAGE-MOUNT-DIFFERS",
            name,
            case="another" if another else "read-only",
            words={
                "mount_point": wanted.mount_point,
                "source": mount["source"],
                "type": mount["type"],
                "wanted_source": wanted.source,
                "wanted_type": types[0],
            },
            remedies=[remedy(fix="playbooks")],
        )
    ]


# ---- the links of a storage server (S125) ----------------------------------------------------------------------------
def inband_ports(plan: Plan, server: str) -> list[str]:
    """The in-band ports that the plan cables at a server."""
    cables = plan.cables[plan.cables["fabric"] == "inband"]
    return sorted(
        {*cables.loc[cables["a_device"] == server, "a_port"], *cables.loc[cables["b_device"] == server, "b_port"]}
    )


def link_faults(plan: Plan, name: str, data: Mapping[str, Any]) -> list[str]:
    """What a storage server says against using its own links only: MTU, state, routes, sockets, clients, as sentences."""
    seen, links, routes = data["storage"], data["links"], data["storage"].get("routes", [])
    ports = inband_ports(plan, name)
    mtu = plan.site.inband.mtu
    loopbacks = ipaddress.ip_network(str(plan.site.addressing.loopbacks))
    server = seen.get("server", {})
    strangers = [one for one in server.get("clients", []) if ipaddress.ip_address(one) not in loopbacks]
    open_to = [one for one in server.get("listening", []) if not _within(one, loopbacks)]
    ways = {route["destination"]: sorted(route["interfaces"]) for route in routes}
    used = ", ".join(ways.get(str(loopbacks), [])) or "no link"
    return [
        *([f"storage cannot be asked: {seen['error']}"] if "error" in seen else []),
        *(
            f"{port} has MTU {links.get(port, {}).get('mtu')}, expected {mtu}"
            for port in ports
            if links.get(port, {}).get("mtu") != mtu
        ),
        *(
            f"{port} is {links.get(port, {}).get('state')}"
            for port in ports
            if links.get(port, {}).get("state") != "UP"
        ),
        *(
            [f"in-band route {loopbacks} goes over {used}, expected {', '.join(ports)}"]
            if used != ", ".join(ports)
            else []
        ),
        *([f"listens at {', '.join(open_to)}, outside {loopbacks}"] if open_to else []),
        *([f"clients come from {', '.join(strangers)}, outside {loopbacks}"] if strangers else []),
        *(["no storage daemon listens"] if "error" not in seen and not server.get("listening") else []),
        *(["it does not say from where its clients come"] if "error" not in seen and "clients" not in server else []),
    ]


def _within(socket: str, prefix: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        return ipaddress.ip_address(socket.rpartition(":")[0]) in prefix
    except ValueError:  # '*' or '[::]': all addresses
        return False
