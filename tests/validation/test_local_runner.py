"""Commands with a budget on this machine."""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from validation.runners import local

pytestmark = pytest.mark.clock

ENV = {"PATH": os.environ["PATH"]}


def test_status_and_both_outputs_come_back(tmp_path: Path):
    ended = local.run(["sh", "-c", "pwd; echo bad >&2; exit 3"], 10, tmp_path, ENV)
    assert ended == local.Ended(3, f"{tmp_path}\n".encode(), b"bad\n")


def test_a_command_beyond_its_budget_is_ended_with_its_children_and_keeps_its_output(tmp_path: Path):
    child = tmp_path / "child"
    began = time.monotonic()
    ended = local.run(["sh", "-c", f"echo begun; sleep 60 & echo $! > {child}; wait"], 0.5, tmp_path, ENV)
    assert time.monotonic() - began < 20
    assert (ended.status, ended.out) == (None, b"begun\n")
    if sys.platform == "linux":
        end = time.monotonic() + 10
        while not dead(child.read_text().strip()):
            assert time.monotonic() < end, "the child goes on"
            time.sleep(0.05)


def dead(pid: str) -> bool:
    """Whether a process has gone, or is only not yet reaped by its new parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def test_a_command_that_does_not_exist_raises(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        local.run(["no-such-command"], 1, tmp_path, ENV)


def test_a_command_in_a_thread_ends_when_it_is_told_to(tmp_path):
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(local.run, ["sleep", "60"], 60, tmp_path, ENV, stop)
        stop.set()
        assert running.result(timeout=10).status is None
