"""Ansible inventory plugin: hosts, groups and variables of a site, computed from its plan.

In:  the path of a site file (`-i inventory/sites/lab/site.yaml`; any path will do).
Out: what capacity/outputs/ansible_hosts.py says, with all rack_<name> under racks.

That module runs in a process of its own: Ansible forks one worker for each task of each host, and every fork would copy the
page tables of pandas and the planner.
"""

import gc
import json
import os
import shlex
import subprocess
import sys
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.inventory import BaseInventoryPlugin

from inventory.paths import SITE_FILE, repo_root, site_dir

DOCUMENTATION = r"""
name: bringup
short_description: Servers of a site file
description:
  - Reads a site file and its plan; see docs/roles.md for the variables.
options: {}
"""

MODULE = "capacity.outputs.ansible_hosts"
REFUSED = 3
"""The module's exit status where its stderr is a message for the person who wrote the site file."""
BUDGET_S = 900.0
"""For site file and plan, so that nothing waits for ever. A choice of ours: 2,000 servers take seconds (bench/inventory.py)."""

MOST_OF_A_LINE = 500


def shipped(path: str) -> bool:
    """Whether `-i NAME` (which Ansible turns into a path in the current folder) names a shipped site."""
    return not os.path.exists(path) and (site_dir(os.path.basename(path)) / SITE_FILE).is_file()


def computed(site: str) -> dict[str, Any]:
    """`common`, `hosts` and `groups` of a site file or shipped site. AnsibleParserError where there are none."""
    # -P and PYTHONPATH: the modules are this clone's, whatever the current folder holds. Paths stay relative to that folder.
    command = [sys.executable, "-P", "-X", "utf8", "-m", MODULE, site]
    path = os.pathsep.join(filter(None, [str(repo_root()), os.environ.get("PYTHONPATH")]))
    by_hand = f"To see all that it says: PYTHONPATH={shlex.quote(path)} {shlex.join(command)}"
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=BUDGET_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AnsibleParserError(f"{site}: no inventory within {BUDGET_S:g} s. {by_hand}") from None
    except OSError as error:
        raise AnsibleParserError(f"{site}: no inventory: {error}. {by_hand}") from None
    if done.returncode == REFUSED:
        raise AnsibleParserError(done.stderr)
    try:
        found: dict[str, Any] = json.loads(done.stdout if done.returncode == 0 else "")
    except ValueError:
        last = done.stderr.strip().rpartition("\n")[2][:MOST_OF_A_LINE] or "no message"
        raise AnsibleParserError(f"{site}: no inventory: exit status {done.returncode}: {last}. {by_hand}") from None
    return found


class InventoryModule(BaseInventoryPlugin):
    NAME = "bringup"

    def verify_file(self, path: str) -> bool:
        """Any site file, and the name of a shipped site. A path that does not exist is the site loader's to complain of."""
        return path.endswith((".yaml", ".yml")) or shipped(path)

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        found = computed(os.path.basename(path) if shipped(path) else path)
        for key, value in found["common"].items():
            inventory.set_variable("all", key, value)
        inventory.add_group("racks")
        inventory.add_group("kubernetes")
        for group, names in found["groups"].items():
            inventory.add_group(group)
            if group.startswith("rack_"):
                inventory.add_child("racks", group)
            for name in names:
                inventory.add_host(name, group=group)
        for name, variables in found["hosts"].items():
            for key, value in variables.items():
                inventory.set_variable(name, key, value)
        # Workers are forked from here on. The collector writes to every object that it looks at, which copies its page in each
        # worker; frozen ones it leaves alone (gc.freeze in Python's documentation).
        gc.collect()
        gc.freeze()
