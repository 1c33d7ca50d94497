"""`make test` runs both halves, says what both said, and leaves nothing behind when it is stopped."""

import contextlib
import sys
import time
from pathlib import Path

import pytest

from tests import halves


def test_both_halves_run_and_the_second_is_heard(monkeypatch, capfd):
    monkeypatch.setattr(halves, "ON_THE_LAB", ("--version",))
    monkeypatch.setattr(halves, "WITHOUT", ("--version",))
    assert halves.main() == 0
    said = capfd.readouterr()
    assert "pytest" in said.out.partition("---- without the lab ----")[2]


@pytest.mark.parametrize("failing", ["ON_THE_LAB", "WITHOUT"])
def test_a_half_that_fails_is_the_status_of_both(monkeypatch, capfd, failing):
    for name in ("ON_THE_LAB", "WITHOUT"):
        monkeypatch.setattr(halves, name, ("--no-such-option",) if name == failing else ("--version",))
    assert halves.main() == 4  # pytest's for its usage
    assert "--no-such-option" in "".join(capfd.readouterr())


def test_a_half_that_is_left_is_ended_with_what_it_started(monkeypatch, tmp_path: Path):
    """A shell's background process ignores SIGINT, and is killed after a time."""
    program = tmp_path / "python"
    program.write_text(
        f"#!/bin/sh\nsleep 300 &\necho $! >{tmp_path}/started.part\nmv {tmp_path}/started.part {tmp_path}/started\nwait\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(halves, "END_S", 0.5)

    def stopped() -> None:
        with halves.started((), 10):
            end = time.monotonic() + 30
            while not (tmp_path / "started").exists() and time.monotonic() < end:
                time.sleep(0.05)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    status, end = Path("/proc", (tmp_path / "started").read_text().strip(), "stat"), time.monotonic() + 10
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # gone
        while status.read_text().split()[2] != "Z":  # dead, and nobody has waited for it
            assert time.monotonic() < end


def test_the_half_without_the_lab_has_its_priority_against_other_sessions(monkeypatch, tmp_path: Path):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nnice; cat /proc/self/autogroup 2>/dev/null || echo nice 10\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with (tmp_path / "said").open("wb") as output, halves.started((), 10, output) as run:
        assert run.wait() == 0
    first, second = (tmp_path / "said").read_text().splitlines()
    assert first == "10"
    assert second.endswith("nice 10")
