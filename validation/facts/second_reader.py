"""Which nodes are read a second time, what of them, and the words in which both readings are told. Pure.

A reading is told item by item; `told` does so for our facts, validation/facts/testinfra_facts.py for the second reader:

    {"package slurmd": "22.05.8-4", "service ssh running": "yes", "file /etc/shadow": "0640 root:shadow",
     "sysctl net.ipv4.ip_forward": "0", "mount /shared": "sto01:/shared fuse.glusterfs", "user root": "0:0:/root:/bin/bash"}

validation/second_reading.py compares them.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from capacity.model import Plan
from capacity.storage.load import shared
from inventory.site import Site
from inventory.slurm_packages import load_slurm_packages
from validation.facts.node_facts import FILES, SYSCTLS
from validation.facts.storage import clients

NODES = 3
"""Nodes of the sample where the site has no limit `second_reading_nodes`; one of each role comes in any case."""
PACKAGE_OF = {
    "chrony": ("chrony",),
    "munge": ("munge",),
    "openssh": ("openssh-server",),
    "lldpd": ("lldpd",),
    "glusterfs": ("glusterfs-server", "glusterfs-client"),
    "opensm": ("opensm",),
    "infiniband-diags": ("infiniband-diags",),
}
"""Pins of the site file (`versions`) and the packages that carry them on a node; Slurm's depend on where it comes from."""
SERVICES = ("chrony", "lldpd", "munge", "prometheus-node-exporter", "slurmctld", "slurmd", "slurmdbd", "ssh")
ABSENT = "absent"
AT_BOOT = {"enabled", "enabled-runtime", "static", "alias", "indirect", "generated"}
"""States of a unit file for which `systemctl is-enabled` ends with 0 (systemctl(1))."""


@dataclass(frozen=True)
class Asked:
    """What a node is read for: names of packages, services and accounts, paths of files and mounts, kernel parameters."""

    packages: tuple[str, ...] = ()
    services: tuple[str, ...] = SERVICES
    files: tuple[str, ...] = FILES
    sysctls: tuple[str, ...] = SYSCTLS
    mounts: tuple[str, ...] = ("/",)
    users: tuple[str, ...] = ("root",)


@dataclass(frozen=True)
class Reading:
    """A second reading: items with their values, items that could not be read with the reason, and what stopped it."""

    items: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


def packages_of(site: Site) -> dict[str, tuple[str, ...]]:
    """Site pins and the packages that carry them on a node of this site."""
    return {"slurm": load_slurm_packages().daemons[site.scheduler.packages], **PACKAGE_OF}


def seed_of(plan: Plan, date: str) -> str:
    """The seed of a run's sample: its date and the hash of its plan. Who knows both draws the same nodes again."""
    return f"{date}/{plan.hash[:16]}"


def sample(plan: Plan, seed: str) -> list[str]:
    """The nodes that are read twice, in plan order: one of each role, then others up to the site's number."""
    limit = plan.site.limits.get("second_reading_nodes")
    servers = plan.devices[plan.devices["kind"] == "server"]
    roles = dict(zip(servers["name"], servers["role"], strict=True))
    drawn = sorted(roles, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    first = {role: name for name, role in ((name, roles[name]) for name in reversed(drawn))}
    chosen = set(first.values())
    spare = max(0, int(limit.value if limit else NODES) - len(chosen))
    chosen |= set([name for name in drawn if name not in chosen][:spare])
    return [name for name in roles if name in chosen]


def budget_s(plan: Plan) -> float:
    """Seconds for one node."""
    return plan.site.timeouts.second_reading_s


def asked(plan: Plan, node: str, data: Mapping[str, Any]) -> Asked:
    """What to read of a node; `data` are its facts, which name the accounts that can log in."""
    accounts = data.get("accounts", ())
    return Asked(
        packages=tuple(
            name for pin, names in packages_of(plan.site).items() if pin in plan.site.versions for name in names
        ),
        mounts=("/", shared(plan.site, plan.devices).mount_point) if node in clients(plan) else ("/",),
        users=tuple(sorted({"root", *accounts} | ({"munge", "slurm"} & set(data.get("users", ()))))),
    )


def told(data: Mapping[str, Any], wanted: Asked) -> Reading:
    """Our facts of a node in the words of both readings."""
    items, unread, errors = dict[str, str](), dict[str, str](), data.get("errors", {})

    def part(key: str, names: Iterable[str]) -> None:
        for name in names:
            unread[name] = errors.get(key, "the facts do not have it")

    def look_up(key: str, kind: str, names: Iterable[str]) -> None:
        if key in data:
            items.update({f"{kind} {name}": data[key].get(name, ABSENT) for name in names})
        else:
            part(key, [f"{kind} {name}" for name in names])

    look_up("packages", "package", wanted.packages)
    look_up("files", "file", wanted.files)
    look_up("sysctls", "sysctl", wanted.sysctls)
    look_up("mounts", "mount", wanted.mounts)
    look_up("users", "user", wanted.users)
    if "users" in data:
        items["local accounts"] = " ".join(sorted(data["users"]))
    else:
        part("users", ["local accounts"])
    running = data.get("units", {}).get("services")
    for name in wanted.services:
        if running is None:
            part("units", [f"service {name} running"])
        else:
            items[f"service {name} running"] = yes(running.get(name, "").partition("/")[0] in ("active", "reloading"))
        if "enabled" in data:
            items[f"service {name} at boot"] = at_boot(data["enabled"].get(name))
        else:
            part("enabled", [f"service {name} at boot"])
    return Reading(items, unread)


def yes(true: bool) -> str:
    """'yes' or 'no'."""
    return "yes" if true else "no"


def at_boot(state: str | None) -> str:
    """'yes', 'no' or 'absent' for the state of a unit file; any other state as systemd says it."""
    if state is None:
        return ABSENT
    return "yes" if state in AT_BOOT else "no" if state == "disabled" else state
