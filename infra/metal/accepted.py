"""From a login to a node that is accepted: the playbook twice, idle in Slurm, and what the checks say.

    configured(segment, site_file, hosts, log)      the playbook's recap by host, from within the segment
    states(controller)                   {"gpu001": "idle", …} as Slurm tells

The demo has a controller and no storage, no telemetry and no NVIDIA GPU: plays and roles of these are left out by their tags;
GPUs are simulated (infra/metal/gpus.py). Time budgets for slurmd, for registering and of Ansible are longer
than the site's (SLOWER).
"""

import configparser
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.env import environment, mitogen
from infra.lab import node
from infra.lab.paths import LabError
from infra.metal.controller import Controller
from infra.metal.segment import Segment
from infra.playbook import recap
from inventory.paths import repo_root
from inventory.yaml_data import read_data

SKIPPED = ("storage", "telemetry", "gpu_stack", "workloads")
SLOWER = 5
"""Time budgets of roles and of Ansible are multiplied by it: they are made for servers and light nodes, and a machine without KVM
beside other work is slower. Choice of the demo; its runs at a load of 11 on two processors (docs/network-boot.md) ended within it.
"""
TIMEOUTS = configparser.ConfigParser()
TIMEOUTS.read(repo_root() / "ansible.cfg")
TASK_S = SLOWER * TIMEOUTS.getint("defaults", "task_timeout")
LOGIN_S = SLOWER * TIMEOUTS.getint("defaults", "timeout")
REGISTERED_S = SLOWER * int(
    read_data(repo_root() / "playbooks/roles/slurm_registered/defaults/main.yml")["slurm_registered_budget_s"]
)
HEALTH_S = 30
"""The shortest interval of health checks that the role slurm_config takes: the demo waits for a node to become idle."""
VARIABLES = {
    "bringup_nvidia": {"packages": {}, "repositories": []},
    "node_check_mounts": [],
    "slurm_slurmd_timeout_s": REGISTERED_S,
    "slurm_health_interval_s": HEALTH_S,
    "slurm_registered_budget_s": REGISTERED_S,
}
PLAYBOOK_S = 2400.0
"""For one run on three nodes: eight times what the first run took on 27 November 2026 (5 min, docs/network-boot.md)."""


def command(site_file: Path, hosts: Sequence[str]) -> list[str]:
    """ansible-playbook on these hosts."""
    argv = [
        "ansible-playbook",
        "playbooks/site.yml",
        "-i",
        str(site_file),
        "--limit",
        ",".join(hosts),
    ]
    return [*argv, "--skip-tags", ",".join(SKIPPED), "--extra-vars", json.dumps(VARIABLES)]


def configured(segment: Segment, site_file: Path, hosts: Sequence[str], log: Path) -> dict[str, dict[str, int]]:
    """Run the playbook on these hosts; its recap. LabError where it fails or ends without a recap of each host."""
    more = {"ANSIBLE_TASK_TIMEOUT": str(TASK_S), "ANSIBLE_TIMEOUT": str(LOGIN_S), "PYTHONPATH": str(repo_root())}
    with log.open("w") as file:
        try:
            done = subprocess.run(
                segment.enter(command(site_file, hosts)),
                cwd=repo_root(),
                env={**environment(), **mitogen(), **more},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=PLAYBOOK_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise LabError(f"the playbook did not end within {PLAYBOOK_S:g} s: {log}") from None
    rows = recap(log.read_text(errors="replace"))
    if done.returncode or {*hosts} - {*rows}:
        raise LabError(f"the playbook ended with exit status {done.returncode}: {log}")
    return rows


def states(controller: Controller) -> Mapping[str, str]:
    """State of each node as Slurm's controller tells it (sinfo(1), compact form)."""
    said = node.run(controller.spec, controller.name, "sinfo", "--noheader", "--Node", "--format", "%N %t")
    return dict(line.split() for line in said.splitlines() if line.strip())
