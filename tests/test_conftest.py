"""The summary that keeps a green run on a laptop from being mistaken for a full one."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from capacity.build import build
from inventory.paths import repo_root
from tests import conftest
from tests.capacity.sites import variant

SAMPLE = """
import pytest
from pydantic import ValidationError

@pytest.mark.lab
def test_on_the_lab(): print("RAN lab")

@pytest.mark.gpu
def test_on_a_gpu(): print("RAN gpu")

@pytest.mark.soak
def test_for_an_hour(): print("RAN soak")

def test_anywhere(): print("RAN anywhere")
"""
WITHOUT_LAB = "import tests.conftest as c; c.OBSTACLES.update(lab=lambda: 'the lab needs root', gpu=lambda: 'no GPU')"
WITH_LAB = "import tests.conftest as c; c.OBSTACLES.update(lab=lambda: None, gpu=lambda: None)"
IN_A_SOAK = f"import os; os.environ['SOAK_SEED'] = '20261123'; {WITH_LAB}"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    (folder / "test_sample.py").write_text(SAMPLE)
    (folder / "test_plain.py").write_text("print('IMPORTED plain')\n")
    return folder


RUNS = """
import json, os, sys
import pytest
import tests.conftest as c
for line in sys.stdin:
    machine, output, arguments = json.loads(line)
    run = os.fork()
    if not run:
        os.dup2(os.open(output, os.O_CREAT | os.O_WRONLY), 1)
        exec(machine)
        sys.exit(pytest.main(arguments, plugins=[c]))
    print(os.waitstatus_to_exitcode(os.waitpid(run, 0)[1]), flush=True)
"""
"""Imports once what each run of pytest needs, and runs it in a process of its own."""
Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Output of pytest on the sample, on a machine described by a line of Python."""
    out = tmp_path_factory.mktemp("runs")
    options = [
        "-s",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(repo_root() / "pyproject.toml"),
        "--rootdir",
        str(sample),
    ]
    with subprocess.Popen(
        [sys.executable, "-c", RUNS],
        cwd=repo_root(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "SOAK_SEED"},
    ) as runs:
        asked, told = runs.stdin, runs.stdout
        assert asked is not None
        assert told is not None

        @functools.cache
        def run(machine: str, *arguments: str) -> str:
            output = out / str(len(list(out.iterdir())))
            print(json.dumps([machine, str(output), [*options, *arguments, str(sample)]]), file=asked, flush=True)
            assert told.readline() == "0\n", output.read_text()
            return output.read_text()

        yield run


def test_skipped_tests_are_counted_by_reason(run: Run) -> None:
    output = run(WITHOUT_LAB)
    assert "1  lab: the lab needs root" in output
    assert "1  gpu: no GPU" in output
    assert "RAN lab" not in output


def test_deselected_tests_are_counted(run: Run) -> None:
    assert "2  deselected on the command line" in run(WITH_LAB, "-m", "not lab and not gpu")


def test_lab_tests_run_last(run: Run) -> None:
    output = run(WITH_LAB)
    assert output.index("RAN anywhere") < output.index("RAN lab")


def test_lab_tests_alone_import_no_other_module(run: Run) -> None:
    output = run(WITH_LAB, "-m", "lab")
    assert "RAN lab" in output
    assert "IMPORTED plain" not in output
    assert "IMPORTED plain" in run(WITH_LAB, "-m", "not lab")


def test_complete_run_has_no_such_section(run: Run) -> None:
    assert "did not run" not in run(IN_A_SOAK, "-v")


def test_long_runs_wait_for_a_soak_and_are_counted(run: Run) -> None:
    output = run(WITH_LAB)
    assert "1  soak: runs in make soak" in output
    assert "RAN soak" not in output


def test_a_soak_runs_them_and_prints_its_seed(run: Run) -> None:
    output = run(IN_A_SOAK, "-v")
    assert "soak seed: 20261123" in output
    assert "RAN soak" in output


def test_lab_without_root_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert conftest.lab_obstacle.__wrapped__() == "the lab needs root"  # without the cache


def test_a_need_that_is_not_met_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert conftest.missing("root") == "needs root"
    assert conftest.missing("no-such-program") == "needs no-such-program: run make setup"
    assert conftest.missing("sh") is None


def test_a_site_that_cannot_be_loaded_is_not_planned() -> None:
    with pytest.raises(AssertionError, match="rails and NIC ports differ"):
        build(variant("lab", fabric={"rails": 4}))
    with pytest.raises(ValidationError, match="tray_height_m"):
        build(variant("lab", room={"tray_height_m": 90.0}))
