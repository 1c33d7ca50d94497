"""The summary that keeps a green run on a laptop from being mistaken for a full one."""

import functools
import os
import subprocess
import sys
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


@functools.cache
def run(folder: Path, machine: str, *arguments: str) -> str:
    """Output of pytest on the sample, on a machine described by a line of Python."""
    code = f"{machine}; import pytest, sys; sys.exit(pytest.main(sys.argv[1:], plugins=[c]))"
    options = [
        "-s",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(repo_root() / "pyproject.toml"),
        "--rootdir",
        str(folder),
    ]
    done = subprocess.run(
        [sys.executable, "-c", code, *options, *arguments, str(folder)],
        cwd=repo_root(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={name: value for name, value in os.environ.items() if name != "SOAK_SEED"},
    )
    return done.stdout


def test_skipped_tests_are_counted_by_reason(sample: Path) -> None:
    output = run(sample, WITHOUT_LAB)
    assert "1  lab: the lab needs root" in output
    assert "1  gpu: no GPU" in output
    assert "RAN lab" not in output


def test_deselected_tests_are_counted(sample: Path) -> None:
    assert "2  deselected on the command line" in run(sample, WITH_LAB, "-m", "not lab and not gpu")


def test_lab_tests_run_last(sample: Path) -> None:
    output = run(sample, WITH_LAB)
    assert output.index("RAN anywhere") < output.index("RAN lab")


def test_lab_tests_alone_import_no_other_module(sample: Path) -> None:
    output = run(sample, WITH_LAB, "-m", "lab")
    assert "RAN lab" in output
    assert "IMPORTED plain" not in output
    assert "IMPORTED plain" in run(sample, WITH_LAB, "-m", "not lab")


def test_complete_run_has_no_such_section(sample: Path) -> None:
    assert "did not run" not in run(sample, IN_A_SOAK, "-v")


def test_long_runs_wait_for_a_soak_and_are_counted(sample: Path) -> None:
    output = run(sample, WITH_LAB)
    assert "1  soak: runs in make soak" in output
    assert "RAN soak" not in output


def test_a_soak_runs_them_and_prints_its_seed(sample: Path) -> None:
    output = run(sample, IN_A_SOAK, "-v")
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
