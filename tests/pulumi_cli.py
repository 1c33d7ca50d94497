"""Calls of Pulumi's CLI by tests."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.env import OWN_KUBERNETES, environment, search_path
from inventory.paths import repo_root


def call(command: Sequence[str], folder: Path, variables: Mapping[str, str], limit_s: float) -> tuple[int, str]:
    """Run one command to its end: its exit status, and what it wrote, errors last."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def kubernetes_environment(folder: Path) -> dict[str, str]:
    """Environment of a stack whose state is in `folder` and whose provider of Kubernetes is Bringup's."""
    state = folder / "state"
    state.mkdir()
    variables = environment() | {
        "PULUMI_BACKEND_URL": state.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "of a test",
        "PYTHONPATH": str(repo_root()),
    }
    variables.pop("PULUMI_CONFIG_PASSPHRASE_FILE", None)
    variables["PATH"] = search_path(variables["PATH"], [OWN_KUBERNETES])
    return variables
