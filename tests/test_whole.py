"""`make test` runs both halves at once, shows both, and is red when either is."""

import sys
from pathlib import Path

import pytest

from tests import whole


def says(word: str, status: int) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import sys; print({word!r}, flush=True); sys.exit({status})")


@pytest.fixture(autouse=True)
def var(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "var_dir", lambda name: tmp_path / name)


@pytest.mark.parametrize(("shown", "kept", "ended"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (2, 1, 2), (5, 0, 5)])
def test_either_half_makes_it_red(shown: int, kept: int, ended: int) -> None:
    assert whole.both(says("shown", shown), says("kept", kept)) == ended


def test_a_half_that_a_signal_ended_is_red() -> None:
    killed = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert whole.both(says("shown", 0), killed) == 9


def test_what_the_lab_said_comes_after_the_others(capfd: pytest.CaptureFixture[str]) -> None:
    whole.both(says("others", 0), says("lab", 0))
    assert capfd.readouterr().out.split("\n")[1:] == ["others", "lab", ""]


def test_both_run_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for a file that the other makes."""
    waits = (
        "import pathlib, sys, time; mine, other = map(pathlib.Path, sys.argv[1:]); mine.touch()\n"
        "end = time.monotonic() + 30\n"
        "while not other.exists():\n    assert time.monotonic() < end; time.sleep(0.01)"
    )
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    assert whole.both((sys.executable, "-c", waits, one, other), (sys.executable, "-c", waits, other, one)) == 0


def test_no_test_is_in_neither_half() -> None:
    assert (whole.WITHOUT_LAB[-2:], whole.ON_LAB[-2:]) == (("-m", "not lab"), ("-m", "lab"))
