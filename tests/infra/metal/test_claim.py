"""One run at a time, and what is done about what a killed one has left."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.lab import net
from infra.lab.paths import LabError, LabPaths
from infra.metal import claim
from infra.metal.claim import MARK, Claim, end_processes, marked

CLONE = Path("/srv/clone")
NAMES = ["bringup-lab-metal", "bringup-lab-metal-bay"]


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabPaths:
    """A lab home of its own, with folders for namespaces; `ip netns delete` removes what it is told."""
    monkeypatch.setenv("BRINGUP_LAB_HOME", str(tmp_path / "labs"))
    monkeypatch.setattr(net, "NETNS", tmp_path / "netns")
    net.NETNS.mkdir()

    def ip(lines: list[str], namespace: str = "", *, force: bool = False) -> None:
        for line in lines:
            (net.NETNS / line.removeprefix("netns delete ")).unlink()

    monkeypatch.setattr(net, "ip", ip)
    monkeypatch.setattr(net, "cgroup_kill", lambda scope: None)
    return LabPaths("lab-metal")


def claimed(paths: LabPaths, said: list[str], clone: Path = CLONE, *, foreign: bool = False) -> Claim:
    return Claim(paths, clone, NAMES, "bringup-lab-metal", said.append, foreign=foreign)


def left_behind(paths: LabPaths, clone: Path = CLONE, mark: str = "mark-of-the-killed") -> None:
    """The note and the namespaces of a run that was killed."""
    paths.root.mkdir(parents=True)
    (paths.root / "metal-run.json").write_text(json.dumps({"clone": str(clone), "pid": 1, "mark": mark}))
    for name in NAMES:
        (net.NETNS / name).touch()


@pytest.fixture
def survivor() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of a killed run."""
    env = {**os.environ, MARK: "mark-of-the-killed"}
    made = subprocess.Popen(
        [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"], env=env, stdout=-1
    )
    assert made.stdout is not None
    made.stdout.readline()
    yield made
    made.kill()
    made.wait()
    made.stdout.close()


def test_a_run_that_ends_leaves_no_note(paths: LabPaths) -> None:
    said: list[str] = []
    with claimed(paths, said) as one:
        assert json.loads(one.record.read_text())["clone"] == str(CLONE)
        assert os.environ[MARK] == one.mark
    assert not one.record.exists()
    assert MARK not in os.environ
    assert said == []


def test_two_runs_at_the_same_time_are_refused_and_the_first_is_named(paths: LabPaths) -> None:
    with claimed(paths, []), pytest.raises(LabError, match=f"process {os.getpid()} of {CLONE}"):
        claimed(paths, [], Path("/srv/other")).__enter__()


def test_processes_and_networks_of_a_killed_run_are_removed(
    paths: LabPaths, survivor: "subprocess.Popen[bytes]"
) -> None:
    left_behind(paths)
    said: list[str] = []
    with claimed(paths, said):
        assert survivor.wait(5) == -9
        assert list(net.NETNS.iterdir()) == []
    assert said == [f"A killed run has left 1 processes and {', '.join(NAMES)}: removing them"]


def test_processes_without_the_mark_are_left_alone(paths: LabPaths, survivor: "subprocess.Popen[bytes]") -> None:
    left_behind(paths, mark="another-mark")
    with claimed(paths, []):
        assert survivor.poll() is None


def test_what_another_clone_has_left_is_named_and_stays(paths: LabPaths, survivor: "subprocess.Popen[bytes]") -> None:
    left_behind(paths, Path("/srv/other"))
    with pytest.raises(LabError, match=r"of /srv/other has left bringup-lab-metal.*python -m infra.metal --clear"):
        claimed(paths, []).__enter__()
    assert survivor.poll() is None
    assert len(list(net.NETNS.iterdir())) == 2
    with claimed(paths, [], foreign=True):
        assert survivor.wait(5) == -9


def test_networks_without_a_note_are_not_touched(paths: LabPaths) -> None:
    (net.NETNS / NAMES[0]).touch()
    with pytest.raises(LabError, match="an unknown clone has left bringup-lab-metal"):
        claimed(paths, []).__enter__()
    assert (net.NETNS / NAMES[0]).exists()


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_note_that_cannot_be_read_is_none(paths: LabPaths, text: str) -> None:
    paths.root.mkdir(parents=True)
    (paths.root / "metal-run.json").write_text(text)
    with claimed(paths, []) as one:
        assert one.record.exists()


def test_a_process_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "END_S", 0.0)
    monkeypatch.setattr(claim, "marked", lambda mark: [2**22 + 1])
    with pytest.raises(LabError, match=f"do not end: {2**22 + 1}"):
        end_processes("mark")


def test_no_process_has_an_unused_mark() -> None:
    assert marked("no-such-mark") == []
