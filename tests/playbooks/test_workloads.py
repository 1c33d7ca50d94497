"""Role workloads: what counts as an environment, and what is installed where it does not."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from inventory.paths import repo_root

TASKS = yaml.safe_load((repo_root() / "playbooks/roles/workloads/tasks/main.yml").read_text())


@pytest.mark.parametrize(
    ("installed", "found"),
    [
        ({"torch": "2.9.1+cpu", "nvidia_ml_py": "13.615.71"}, "2.9.1"),
        ({"torch": "2.9.1+cpu"}, None),
        ({"nvidia_ml_py": "13.615.71"}, None),
        ({}, None),
    ],
)
def test_an_environment_is_one_with_pytorch_and_nvidias_bindings(tmp_path: Path, installed: dict[str, str], found):
    for name, version in installed.items():
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    look = TASKS[0]["ansible.builtin.command"]["argv"]
    assert look[:2] == ["{{ workloads_venv }}/bin/python", "-c"]
    argv, env = [sys.executable, "-S", "-c", look[2]], {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout.strip() if done.returncode == 0 else None) == found


def test_both_are_installed_where_one_is_missing():
    pip = next(task["ansible.builtin.pip"] for task in TASKS[1]["block"] if "ansible.builtin.pip" in task)
    torch, bindings = pip["name"]
    assert "torch" in torch
    assert bindings == "nvidia-ml-py"
