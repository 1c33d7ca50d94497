"""Runs of the checks against Slurm's commands, played by scripts on PATH: jobs end with their run, sinfo is asked once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from inventory.paths import repo_root
from inventory.site import load_site
from validation import plugin

pytestmark = pytest.mark.clock


pytest_plugins = ["pytester"]

CHECKS = """
from concurrent.futures import ThreadPoolExecutor

import pytest

from validation.check import Outcome, check
from validation.checks.conftest import scheduler

@pytest.fixture(scope="session")
def beside(scheduler):
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(scheduler.submit, "sleep 600", "--job-name=beside", budget_s=600)

@check("S001.computed")
def test_waits(subject, scheduler, beside):
    scheduler.submit("sleep 600", "--job-name=waits", budget_s=600)
    return Outcome(True, 0, "over")
"""
COMMANDS = {
    "ssh": 'exec bash -c "${@: -1}"',
    "sbatch": """
for word; do case $word in --comment=*) comment=${word#--comment=};; esac; done
exec 9>"$STATE/lock"; flock 9
id=$(( $(wc -l <"$STATE/jobs") + 41 )); echo "$id|$comment" >>"$STATE/jobs"; echo "$id"
""",
    "squeue": 'cat "$STATE/jobs"; echo "7|somebody else\'s"',
    "scontrol": 'echo "JobId=1 JobState=RUNNING NodeList=gpu001 BatchHost=gpu001"',
    "sinfo": 'echo asked >>"$STATE/sinfo"; for n in 1 2 3 4; do echo "gpu00$n|idle|2|900|gpu:h100:8"; done',
    "scancel": 'for id; do echo "$id" >>"$STATE/cancelled"; done',
}
BUDGET_S = 60
REGISTERED = """
from pathlib import Path

import pytest

from validation.checks.conftest import scheduler, slurm_nodes
from validation.checks.test_scheduler import test_node_is_registered_with_its_hardware
from validation.facts import Facts

@pytest.fixture(scope="session")
def facts():
    return Facts.read(Path({healthy!r}))
"""


@pytest.fixture
def slurm_commands(tmp_path: Path) -> dict[str, str]:
    """Environment in which Slurm's commands answer, and `ssh` runs what it is given here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in COMMANDS.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    (tmp_path / "jobs").touch()
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "STATE": str(tmp_path),
        "PYTHONPATH": str(repo_root()),
    }


@pytest.fixture
def site_file(tmp_path: Path) -> Path:
    """Site lab with keys that are there."""
    lab = load_site("lab")
    folder = tmp_path / "site"
    folder.mkdir()
    data = yaml.safe_load(lab.path.read_text())
    (folder / "key").write_text("no key: ssh is a script here\n")
    (folder / "key").chmod(0o600)
    (folder / "known_hosts").touch()
    data["credentials"]["ssh"] |= {"key": "file:key", "known_hosts": str(folder / "known_hosts")}
    (folder / "site.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    (folder / "assets.csv").write_bytes((lab.dir / "assets.csv").read_bytes())
    return folder / "site.yaml"


def command(site_file: Path, checks: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        plugin.__name__,
        "--site",
        str(site_file),
        "--out",
        str(checks.parent / "out"),
        "--no-record",
        "-p",
        "no:cacheprovider",
        str(checks),
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_cancels_its_jobs_and_no_others(
    number: signal.Signals, slurm_commands: dict[str, str], site_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_long.py").write_text(CHECKS)
    process = subprocess.Popen(
        [
            "env",
            "--default-signal=INT",
            *command(site_file, tmp_path / "test_long.py"),
        ],  # by default: a job in the background of a shell ignores it
        cwd=tmp_path,
        env=slurm_commands,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + BUDGET_S
        while len((tmp_path / "jobs").read_text().splitlines()) < 2:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < end
            time.sleep(0.1)
        process.send_signal(number)
        out, _ = process.communicate(timeout=BUDGET_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == pytest.ExitCode.INTERRUPTED, out
    assert set((tmp_path / "cancelled").read_text().split()) == {"41", "42"}


def test_sinfo_is_asked_once_for_all_nodes(slurm_commands: dict[str, str], site_file: Path, tmp_path: Path) -> None:
    healthy = str(repo_root() / "tests" / "validation" / "data" / "healthy.json")
    (tmp_path / "test_nodes.py").write_text(REGISTERED.format(healthy=healthy))
    done = subprocess.run(
        command(site_file, tmp_path / "test_nodes.py"),
        cwd=tmp_path,
        env=slurm_commands,
        capture_output=True,
        text=True,
        timeout=BUDGET_S,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout
    assert (tmp_path / "sinfo").read_text().split() == ["asked"]
