"""Access to a device, and state of it, that no plan knows: accounts, keys, sudo rules, jobs that run by themselves, ports.

    unplanned_access(plan, "gpu001", data, operator_keys)   -> ["key SHA256:… of root (/root/.ssh/authorized_keys)", …]

In: a node's facts and the plan. Out: what is there and neither the plan, the playbooks' roles, the distribution
(expected_access.yaml) nor the site file (`validation.accepted_access`) knows. Pure. A part that the node could not
read is reported as such: what was not read is not clean.
"""

import functools
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from capacity.model import Plan
from capacity.services import telemetry
from capacity.services.cluster import cluster
from capacity.services.slurm import CHECK_USERS, COMPUTE_ROLES
from inventory.site import Site
from inventory.yaml_data import read_data

EXPECTED = Path(__file__).with_name("expected_access.yaml")
WAY_OUT = "remove it, or accept it in the site file: validation.accepted_access"


@functools.cache
def expected() -> Mapping[str, Any]:
    """The content of expected_access.yaml."""
    loaded: Mapping[str, Any] = read_data(EXPECTED)
    return loaded


def accepted(site: Site, words: str) -> bool:
    """Whether the site file accepts what these words name, such as 'port tcp/9256'."""
    return words in site.validation.accepted_access


def unplanned_access(plan: Plan, node: str, data: Mapping[str, Any], operator_keys: Collection[str]) -> list[str]:
    """Accounts, accounts with user id 0, keys and sudo rules of a node that nobody planned.

    `operator_keys` are fingerprints of the key that the site file names for logins (credentials.ssh.key).
    """
    site = plan.site
    found = [*_unread(data, ("users", "keys", "sudo", "packages"))]
    found += _accounts(site, data)
    for place, prints in data.get("keys", {}).items():
        account, _, path = place.partition(" ")
        mine = set(operator_keys) if account == site.credentials.ssh.user else set[str]()
        found += [
            f"key {one} of {account} ({path})" for one in prints if one not in mine and not accepted(site, f"key {one}")
        ]
    known = set(expected()["sudo"])
    found += [
        f"sudo rule {rule}"
        for rule in data.get("sudo", [])
        if rule not in known and not accepted(site, f"sudo rule {rule}")
    ]
    return found


def _accounts(site: Site, data: Mapping[str, Any]) -> Iterator[str]:
    packages = data.get("packages", {})
    base = expected()["accounts"].get(site.os.name, expected()["accounts"]["debian"])
    known = {*base, site.credentials.ssh.user, *CHECK_USERS, "slurm"}
    known |= {user for account in site.scheduler.accounts for user in account.users}
    known |= {name for name, made_by in expected()["package_accounts"].items() if any(p in packages for p in made_by)}
    people = {site.credentials.ssh.user, "root"} | {u for account in site.scheduler.accounts for u in account.users}
    for name, entry in data.get("users", {}).items():
        uid, _, rest = entry.partition(":")
        if uid == "0" and name != "root":
            yield f"account {name} has user id 0, as root has ({entry})"
        elif name not in known and not accepted(site, f"account {name}"):
            yield f"account {name} ({entry})"
        elif name in data.get("accounts", ()) and name not in people and not accepted(site, f"account {name}"):
            yield f"account {name} of the system has a login shell ({rest.rpartition(':')[2]})"


def unplanned_jobs(site: Site, data: Mapping[str, Any]) -> list[str]:
    """Cron files and timers of a node that belong to no package and no role, or that somebody changed."""
    found = list(_unread(data, ("scheduled",)))
    timers = {*expected()["timers"]["all"], *expected()["timers"][site.scheduler.kind]}
    for name, package in data.get("scheduled", {}).items():
        kind = "timer" if name.endswith(".timer") else "cron file"
        if accepted(site, f"{kind} {name}") or (kind == "timer" and name in timers):
            continue
        if package.startswith("changed, "):
            found.append(f"{kind} {name} differs from what package {package.removeprefix('changed, ')} ships")
        elif not package:
            found.append(f"{kind} {name} of no package")
    return found


def unplanned_ports(plan: Plan, node: str, data: Mapping[str, Any]) -> list[str]:
    """Sockets that take traffic from other machines and that no role of the node opens."""
    ports, role = expected()["ports"], _role(plan, node)
    open_to = {*ports["all"], *ports.get(role, ())}
    part = "compute" if role in COMPUTE_ROLES else role
    open_to |= set(ports["compute"]) if role in COMPUTE_ROLES else set()
    open_to |= set(ports[plan.site.scheduler.kind].get(part, ()))
    open_to |= set(ports["telemetry"]) if node in telemetry.servers(plan) else set()
    listeners = data.get("listeners", {})
    found = [*_unread(data, ("listening", "listeners"))]
    for socket in data.get("listening", []):
        kind, _, port = socket.partition("/")
        programs = set(listeners.get(socket, "").split())
        client = kind == "udp" and port.isdigit() and int(port) >= expected()["udp_client_ports_from"]
        dynamic = bool(programs) and programs <= set(expected()["programs"])
        if socket not in open_to and not client and not dynamic and not accepted(plan.site, f"port {socket}"):
            found.append(f"port {socket} ({' '.join(sorted(programs)) or 'program not known'})")
    return found


def forwards(plan: Plan, node: str, data: Mapping[str, Any]) -> list[str]:
    """Why a node passes packets on between its networks. A node of Kubernetes does for its pods, and for nothing else."""
    if not data["forwards"] or accepted(plan.site, "forwarding"):
        return []
    if plan.site.scheduler.kind != "kubernetes" or _role(plan, node) not in COMPUTE_ROLES:
        return ["passes packets on between its networks"]
    wanted, found = list(cluster(plan).forwarded), list(data.get("forwarded", ()))
    if found == wanted:
        return []
    return [f"passes packets on by the rules {'; '.join(found) or '(none)'}, planned {'; '.join(wanted)}"]


def unplanned_bmc_accounts(site: Site, accounts: Collection[Mapping[str, Any]]) -> list[str]:
    """Enabled accounts of a BMC beside the site's own and the factory's, whose login is tried by itself."""
    known = {site.credentials.bmc.user} | (
        {site.credentials.bmc.factory.user} if site.credentials.bmc.factory else set()
    )
    return [
        f"BMC account {one['user']} ({one['role']}, {one['path']})"
        for one in accounts
        if one["enabled"] and one["user"] not in known and not accepted(site, f"BMC account {one['user']}")
    ]


def power_limits(site: Site, gpus: Collection[Mapping[str, Any]]) -> list[str]:
    """GPUs whose power limit in force is another than their default, as sentences."""
    return [
        f"GPU {gpu['index']} {gpu['serial']} at {gpu['pci_bus_id']}: power limit {gpu['power']['limit_w']:g} W, default "
        f"{gpu['power']['default_limit_w']:g} W"
        for gpu in gpus
        if None not in (gpu["power"]["limit_w"], gpu["power"]["default_limit_w"])
        and gpu["power"]["limit_w"] != gpu["power"]["default_limit_w"]
        and not accepted(site, f"GPU power limit {gpu['power']['limit_w']:g} W")
    ]


def told(found: Collection[str]) -> list[str]:
    """The findings as problems of a check, with the way out after the last."""
    return [f"not planned: {'; '.join(found)}; {WAY_OUT}"] if found else []


def _unread(data: Mapping[str, Any], parts: Collection[str]) -> Iterator[str]:
    for part in parts:
        if part not in data:
            yield f"{part} could not be read: {data.get('errors', {}).get(part, 'the node said nothing of them')}"


def _role(plan: Plan, node: str) -> str:
    return str(plan.devices.loc[plan.devices["name"] == node, "role"].iloc[0])
