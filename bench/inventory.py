"""Ansible's inventory of 2,000 hosts and more, as ansible-playbook reads it from the site file.

    python -m bench.inventory [--servers 2000]

A new site in a temporary folder, whose grid connection the planner works out. The first figure is for hosts, groups and variables
of a plan that is there; the second is what a run pays: site file, plan and inventory, in the process that the plugin starts.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SITE = "hosts"
CREDENTIALS = """
credentials:
  snmp: {user: bringup, auth: "file:keys/a", priv: "file:keys/b"}
  bmc: {user: bringup, password: "file:keys/c", ca: keys/bmc-ca.pem}
  ssh: {user: bringup, key: "file:keys/node", known_hosts: keys/known_hosts}
  switch: {user: bringup, key: "file:keys/switch", known_hosts: keys/known_hosts}
  evidence: {key: "file:keys/evidence"}
  slurmdbd: {password: "file:keys/d"}
"""
READ = """
import os, sys, time
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from capacity.build import build
from capacity.outputs import ansible_hosts
from capacity.sizes import load_site
path = sys.argv[1]
plan = build(load_site(path))
def processor_s():
    return sum(os.times()[:4])  # with processes that have ended
def told(what):
    print(f"{what}: {time.perf_counter() - began:.1f} s, {processor_s() - used:.1f} s of processor time")
began, used = time.perf_counter(), processor_s()
made = ansible_hosts.hosts_of(plan, plan.catalog)
told(f"{len(made.hosts):,} hosts of a plan")
began, used = time.perf_counter(), processor_s()
inventory = InventoryManager(DataLoader(), sources=[path])
told(f"{len(inventory.hosts):,} hosts of a site file, with its plan")
sys.exit(len(inventory.hosts) != len(made.hosts) or len(made.hosts) < int(sys.argv[2]))
"""


def main() -> int:
    """Exit status 1 when a host is missing."""
    parser = argparse.ArgumentParser(prog="python -m bench.inventory", description=__doc__)
    parser.add_argument("--servers", type=int, default=2000)
    servers = parser.parse_args().servers
    root = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(root), "ANSIBLE_CONFIG": str(root / "ansible.cfg")}
    with tempfile.TemporaryDirectory() as folder:
        new = ["new", SITE, "--gpu", "h100", "--servers", str(servers), "--fabric", "ib"]
        new += ["--dir", f"{folder}/{SITE}"]
        subprocess.run(
            [sys.executable, "-m", "infra.cli", *new], cwd=root, env=env, stdout=subprocess.DEVNULL, check=True
        )
        path = Path(folder, SITE, "site.yaml")
        path.write_text(path.read_text() + CREDENTIALS)
        return subprocess.run(
            [sys.executable, "-c", READ, str(path), str(servers)], cwd=root, env=env, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
