"""The GPU checks of one machine, on this one's CPUs: each stage's verdict, and each fault that is found."""

import json
import sys
from pathlib import Path

import pytest

from infra import cli
from inventory.paths import repo_root
from tests.first_sites import text_of
from validation import here
from validation.here import ALONE, FAULTS, Wanted
from validation.register import load_register

pytestmark = pytest.mark.clock


def wanted(out: Path, python: str = sys.executable) -> Wanted:
    return Wanted(out, python, ranks=1, seconds=2.0, computes_on="cpu")


@pytest.mark.soak
@pytest.mark.needs("torch")
def test_a_machine_without_gpus_runs_what_it_can_and_names_what_it_cannot(tmp_path: Path) -> None:
    said: list[str] = []
    done = here.run(wanted(tmp_path), said.append)
    results = {one["stage"]: one["result"] for one in done["stages"]}
    assert (results["burn-in"], results["training"]) == ("passed", "passed"), said
    assert results["collectives"] == results["facts"] == "not exercised"
    assert len(said) == len(results)
    assert json.loads((tmp_path / "summary.json").read_text()) == done
    assert done["not_shown"]


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    "name",
    ["flipped-bit", *(pytest.param(name, marks=pytest.mark.soak) for name in ("delay", "hang", "killed", "stopped"))],
)
def test_a_fault_in_the_workload_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "flipped-bit":
        monkeypatch.setattr(here, "FAULT_S", 4.0)
    ended = here.fault(wanted(tmp_path), name)
    assert ended.result == "passed", ended.said
    assert FAULTS[name][0] in ended.said


def test_a_fault_that_the_burn_in_does_not_see_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "_burnt", lambda *given: (0, ["rank 0 on a: something else"]))
    ended = here.fault(wanted(tmp_path), "flipped-bit")
    assert (ended.result, ended.said) == ("failed", "not found; the burn-in says: rank 0 on a: something else")
    assert here.fault(wanted(tmp_path), "always-wrong").result == "not exercised"


def test_a_stage_that_crashes_stops_no_other(tmp_path: Path) -> None:
    done = here.run(wanted(tmp_path, python=str(tmp_path / "no-python")))
    assert {one["stage"]: one["result"] for one in done["stages"]}["burn-in"] == "failed"
    assert len(done["stages"]) == 6


def test_the_verb_says_where_there_is_no_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["validation", "here", "--out", str(tmp_path / "o"), "--python", str(tmp_path / "no-python")])
    assert status == 2
    assert "finds no GPU here through NVML; --cpu 2 runs the programs on CPUs" in capsys.readouterr().err


def test_the_verb_refuses_gpus_of_amd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(here, "AMD_DRIVER", tmp_path)
    status = cli.main(["validation", "here", "--out", str(tmp_path / "o"), "--python", str(tmp_path / "no-python")])
    assert status == 2
    assert "AMD's (driver amdgpu): the GPU checks and the burn-in read NVIDIA's NVML" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("act", ["start", "status", "collect", "stop", "return"])
def test_no_verb_begins_anything_on_gpus_of_amd(act: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "site.yaml").write_text(text_of("mi355x"))
    node = ["gpu0001"] if act == "return" else []
    assert cli.main(["validation", act, str(tmp_path / "site.yaml"), *node, "--out", str(tmp_path / "o")]) == 2
    assert "gpu.sku amd-mi355x of first-mi355x is of AMD" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_what_one_gpu_cannot_show_names_items_of_the_register_as_the_page_does() -> None:
    page = (repo_root() / "docs" / "checks.md").read_text()
    for text, items in ALONE.items():
        assert set(items) <= set(load_register().items), text
        assert f"| {text} | {', '.join(items)} |" in page
