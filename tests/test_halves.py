"""`make test` runs both halves at once, shows both, and is red when one of them is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inventory.paths import repo_root
from tests import halves

SAMPLE = """
import pathlib
import time

def meet(mine, other):
    pathlib.Path(mine).touch()
    end = time.monotonic() + 60
    while not pathlib.Path(other).exists():
        assert time.monotonic() < end
        time.sleep(0.01)
"""
MEETS = "from sample import meet\ndef test_meets(): meet({mine!r}, {other!r})\n"
RUN = "import sys; from tests import halves; sys.exit(halves.run({'without': sys.argv[1:2], 'on': sys.argv[2:]}))"


@pytest.fixture
def both(tmp_path: Path) -> list[str]:
    """Two modules whose tests wait for each other."""
    (tmp_path / "sample.py").write_text(SAMPLE)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['.']\n")
    for mine, other in (("a", "b"), ("b", "a")):
        text = MEETS.format(mine=str(tmp_path / mine), other=str(tmp_path / other))
        (tmp_path / f"test_{mine}.py").write_text(text)
    return [str(tmp_path / "test_a.py"), str(tmp_path / "test_b.py")]


def start(modules: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *modules],
        cwd=repo_root(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_both_halves_run_at_once_and_both_are_shown(both: list[str]) -> None:
    with start(both) as run:
        output = run.communicate(timeout=120)[0]
    assert run.returncode == 0, output
    assert output.count("1 passed") == 2
    assert output.index("test_a.py") < output.index("Tests on:") < output.index("test_b.py")


@pytest.mark.parametrize("failing", [0, 1])
def test_one_red_half_is_enough_to_be_red(both: list[str], failing: int) -> None:
    with open(both[failing], "a") as module:
        module.write("def test_fails(): assert False\n")
    with start(both) as run:
        output = run.communicate(timeout=120)[0]
    assert run.returncode == 1, output
    assert "1 failed, 1 passed" in output


def test_a_run_that_is_ended_ends_both_halves(both: list[str], tmp_path: Path) -> None:
    for module, mine in zip(both, "ab", strict=True):
        path = str(tmp_path / mine)
        Path(module).write_text(
            "import pathlib, time\nimport pytest\n@pytest.fixture\ndef up():\n"
            f"    pathlib.Path({path!r}).touch()\n    yield\n    pathlib.Path({path!r}).unlink()\n"
            "def test_waits(up): time.sleep(600)\n"
        )
    with start(both) as run:
        end = time.monotonic() + 60
        while not ((tmp_path / "a").exists() and (tmp_path / "b").exists()):
            assert time.monotonic() < end
            time.sleep(0.05)
        os.kill(run.pid, signal.SIGTERM)
        run.communicate(timeout=200)
    assert run.returncode == 130
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_the_halves_are_all_tests_but_those_of_the_platform() -> None:
    without, on = halves.halves().values()
    assert (without[0], on[0]) == ("tests", "tests")
    assert f"not {on[-1]} and not platform" == without[-1], "make test-platform runs these"
