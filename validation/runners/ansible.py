"""What Ansible would change now: a check-mode run of the site playbook, read from the summary that its callback writes."""

import json
import os
import shlex
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inventory.paths import repo_root
from inventory.site import Site
from validation.runners import local

BUDGET_S = 600
"""A check-mode run takes about a minute for the lab's six nodes; forks make it grow slower than the site."""
TAIL_B = 500
"""How much of a failed run's output stands in its error."""


@dataclass(frozen=True)
class Drift:
    """One check-mode run. `hosts` maps a host to its counts (ok, changed, failed, unreachable, skipped); `error` says
    why there is no result, `output` is what the run printed."""

    error: str = ""
    hosts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    changes: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Mapping[str, Any], ...] = ()
    output: bytes = b""


def drift(site: Site, budget_s: float = BUDGET_S, stop: threading.Event | None = None) -> Drift:
    """Run `ansible-playbook playbooks/site.yml --check` for the site; changes nothing on any node. `stop` ends it.

    The run's summary goes to a folder of its own, so that a run of somebody else at the same time is never taken for it.
    """
    root = repo_root()
    program = Path(sys.executable).with_name("ansible-playbook")
    command = [str(program), "playbooks/site.yml", "-i", str(site.path), "--check", "--diff"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(root / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "BRINGUP_VAR": folder,
        }
        done = local.run(command, budget_s, root, environment, stop)
        summaries = list(Path(folder).glob("*/ansible/*.json"))
        if done.status is None:
            return Drift(f"{shlex.join(command)} did not end within {budget_s:g} s", output=done.out)
        if len(summaries) != 1:
            tail = (done.out[-TAIL_B:] + done.err[-TAIL_B:]).decode(errors="replace")
            return Drift(
                f"{shlex.join(command)} left no summary (exit status {done.status}): {tail}", output=done.out + done.err
            )
        summary = json.loads(summaries[0].read_text())
    return Drift("", summary["hosts"], tuple(summary["changes"]), tuple(summary["failures"]), done.out)
