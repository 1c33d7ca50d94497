"""What is wrong with the shared file system, at its cause. Pure: plan and facts in, findings out.

A server that is down, or whose service is, explains every client that gets no answer: those are no findings then.
"""

import shlex
from collections.abc import Collection, Mapping
from typing import Any

from capacity.model import Plan
from capacity.storage.load import BUILT_KINDS, Shared, shared
from inventory.findings import Finding
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
        message = (
            f"glusterd is {state or 'not to be asked: ' + str(seen.get('error'))}; start it and look at its journal"
        )
        return [Finding("STORAGE-SERVICE-DOWN", "error", name, message)]
    if server.get("error"):
        message = f"glusterd runs and does not answer: {server['error']}"
        return [Finding("STORAGE-SERVICE-DOWN", "error", name, message)]
    status = server["volume"].get("status", "missing")
    if status != "Started":
        message = f"volume {wanted.volume} is {status}, expected Started; run `gluster volume start {wanted.volume}`"
        return [Finding("STORAGE-VOLUME-STOPPED", "error", name, message)]
    own = [brick for brick in server["bricks"] if brick["name"].startswith(f"{name}:")]
    offline = [brick["name"] for brick in own if not brick["online"]]
    if offline or not own:
        message = (
            f"brick {', '.join(offline) or 'of this server'} is offline: look at its disk, then at its log in "
            f"/var/log/glusterfs/bricks; `gluster volume start {wanted.volume} force` starts it again"
        )
        return [Finding("STORAGE-BRICK-OFFLINE", "error", name, message, ports=tuple(offline))]
    return [finding for brick in own for finding in of_room(plan, name, brick)]


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
    said = " and ".join(f"{pct:g} % of {what}" for what, pct in short.items())
    message = f"{said} free on {brick['name']}, limit {limit.value:g} %: delete old checkpoints or add a brick"
    return [Finding("STORAGE-FULL", "error", name, message, dict(short), limit.value,
                    f"site limits.storage_free_min_pct: {limit.source}", ports=(brick["name"],))]  # fmt: skip


def of_client(wanted: Shared, name: str, seen: Mapping[str, Any]) -> list[Finding]:
    """The mount of one node: there, from the right source, and alive."""
    if seen.get("error"):
        return [Finding("STORAGE-UNREADABLE", "error", name, f"its mount cannot be read: {seen['error']}")]
    mount = seen["mount"]
    if not mount:
        unit = shlex.quote(mount_unit(wanted.mount_point))
        message = f"{wanted.mount_point} is not mounted: see `systemctl status {unit}`"
        return [Finding("STORAGE-UNMOUNTED", "error", name, message)]
    if problem := differs(wanted, mount):
        return [Finding("STORAGE-MOUNT-DIFFERS", "error", name, f"{problem}; run the playbooks")]
    if "error" in seen["usage"]:
        message = (
            f"{wanted.mount_point} is mounted and gives no answer ({seen['usage']['error']}), though its servers are well: "
            "look at its log in /var/log/glusterfs and at the node's in-band links"
        )
        return [Finding("STORAGE-SILENT", "error", name, message)]
    return []


def differs(wanted: Shared, mount: Mapping[str, Any]) -> str:
    """How a mount differs from the wanted one, or ''."""
    kinds = MOUNTED_AS.get(wanted.kind, (wanted.kind,))
    if mount["type"] not in kinds or mount["source"] != wanted.source:
        return (
            f"{wanted.mount_point} is {mount['source']} ({mount['type']}), the site wants {wanted.source} ({kinds[0]})"
        )
    return "" if "rw" in mount["options"] else f"{wanted.mount_point} is mounted read-only"
