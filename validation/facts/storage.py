"""Ask nodes for the shared file system: which program with which request, and answers that are none."""

from pathlib import Path
from typing import Any

from capacity.model import Plan
from capacity.storage.load import BUILT_KINDS, shared
from network.drivers.answers import Source
from network.drivers.errors import DeviceError
from network.drivers.ssh import SshHost
from validation.facts.shapes import storage_of

PROGRAM = Path(__file__).with_name("storage_facts.py").read_text()
CLIENT_ROLES = ("gpu", "controller", "management")
"""Roles of the servers that mount the shared file system (playbooks/site.yml)."""


def clients(plan: Plan) -> list[str]:
    """Names of the servers that mount it."""
    return plan.devices.loc[plan.devices["role"].isin(CLIENT_ROLES), "name"].tolist()


def request(plan: Plan, node: str) -> dict[str, Any]:
    """What to ask a node; storage_facts.py says what each key means."""
    wanted = shared(plan.site, plan.devices)
    jobs = plan.site.scheduler.kind == "slurm" and node in set(plan.devices.loc[plan.devices["role"] == "gpu", "name"])
    served = node in wanted.servers and wanted.kind in BUILT_KINDS
    return {
        "mount_point": wanted.mount_point,
        "needed_by": ["slurmd.service"] if jobs else [],
        "volume": wanted.volume if served else "",
        "budget_s": plan.site.timeouts.storage_s,
    }


def ask(host: SshHost, asked: dict[str, Any]) -> dict[str, Any]:
    """A node's answer in the shape of storage_facts.py. What hinders all of it is under "error", not raised: the rest of
    what the node says still counts."""
    try:
        said = host.program(PROGRAM, asked, operation="storage facts")
        return storage_of(said, Source(host.name, "storage facts", "run python3 on the node by hand"))
    except DeviceError as error:
        return {"error": str(error), "error_kind": type(error).__name__}
