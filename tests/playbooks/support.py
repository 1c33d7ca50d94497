"""Runs ansible-playbook as a person would, and loads plugins and modules that live outside any package."""

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from inventory.paths import repo_root, site_dir

PLAYBOOKS = repo_root() / "playbooks"
BUDGET_S = 400


def load(relative: str) -> ModuleType:
    """A Python file below playbooks/ as a module."""
    path = PLAYBOOKS / relative
    name = f"playbooks_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Run:
    """One run of ansible-playbook: its output and the summary that it left."""

    code: int
    output: str
    summary: dict[str, Any]


def ansible(
    program: str, *arguments: str, var: Path, options: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BRINGUP_VAR": str(var), "ANSIBLE_CONFIG": str(repo_root() / "ansible.cfg")}
    environment |= options or {}
    return subprocess.run(
        [str(Path(sys.executable).with_name(program)), *arguments],
        cwd=repo_root(),
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUDGET_S,
        check=False,
    )


@functools.cache
def tasks_of(site: str) -> str:
    """The tasks of playbooks/site.yml on a shipped site, as --list-tasks prints them."""
    with TemporaryDirectory() as var:
        inventory = str(site_dir(site) / "site.yaml")
        done = ansible("ansible-playbook", "playbooks/site.yml", "-i", inventory, "--list-tasks", var=Path(var))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def play(site: Path, var: Path, *arguments: str, options: Mapping[str, str] | None = None) -> Run:
    """Run playbooks/site.yml on a site; `options` are further variables of the environment."""
    done = ansible("ansible-playbook", "playbooks/site.yml", "-i", str(site), *arguments, var=var, options=options)
    written = sorted(var.glob("*/ansible/*.json"))
    assert written, done.stdout + done.stderr
    return Run(done.returncode, done.stdout + done.stderr, json.loads(written[-1].read_text()))
