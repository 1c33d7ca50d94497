"""What Ansible would change now: a check-mode run of the site playbook, read from the summary that its callback writes."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inventory.paths import repo_root
from inventory.site import Site

BUDGET_S = 600


@dataclass(frozen=True)
class Drift:
    """One check-mode run. `hosts` maps a host to its counts (ok, changed, failed, unreachable, skipped)."""

    error: str = ""
    hosts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    changes: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Mapping[str, Any], ...] = ()
    output: bytes = b""


def drift(site: Site, out: Path, budget_s: float = BUDGET_S) -> Drift:
    """Run `ansible-playbook playbooks/site.yml --check` for the site; changes nothing on any node."""
    root = repo_root()
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")), "playbooks/site.yml", "-i", str(site.path), "--check", "--diff",
    ]  # fmt: skip
    folder = out / "ansible"
    before = set(folder.glob("*.json"))
    environment = {**os.environ, "ANSIBLE_CONFIG": str(root / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1",
                   "BRINGUP_VAR": str(out.parent)}  # fmt: skip
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=budget_s, check=False,
                              stdin=subprocess.DEVNULL)  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return Drift(f"{' '.join(command)} did not end within {budget_s:g} s", output=late.stdout or b"")
    fresh = sorted(set(folder.glob("*.json")) - before)
    if not fresh:
        tail = done.stdout.decode(errors="replace")[-500:] + done.stderr.decode(errors="replace")[-500:]
        return Drift(f"{' '.join(command)} left no summary (exit status {done.returncode}): {tail}", output=done.stdout)
    summary = json.loads(fresh[-1].read_text())
    return Drift("", summary["hosts"], tuple(summary["changes"]), tuple(summary["failures"]), done.stdout)
