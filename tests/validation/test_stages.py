"""Jobs in stages: the scripts run on this machine, one after the other, and what they hand on is held against each other."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from validation.runners.engine import Job
from validation.runners.stages import CHAIN, FAILING, NEVER, WANTED, faults, hashes, script_of


def job(state: str, output: bytes = b"") -> Job:
    return Job(7, state, "", "gpu001", "0:0", output, 1.0)


def ran(folder: Path, stage: str, before: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash"], input=script_of(str(folder), stage, before).encode(), capture_output=True, timeout=60, check=False
    )


def ended(folder: Path, meanwhile: Callable[[Path, str], None] = lambda folder, stage: None) -> dict[str, Job]:
    """All stages by their own scripts; `meanwhile` runs after each."""
    found = {}
    for before, stage in zip(("", *CHAIN), CHAIN, strict=False):
        done = ran(folder, stage, before)
        found[stage] = job("FAILED" if done.returncode else "COMPLETED", done.stdout)
        meanwhile(folder, stage)
    return found | {FAILING: job("FAILED"), NEVER: job("CANCELLED")}


def test_each_stage_takes_what_the_one_before_it_made(tmp_path: Path) -> None:
    found = ended(tmp_path)
    assert faults(found) == []
    said = hashes(found)
    assert said["train"]["took"] == said["preprocess"]["made"]
    assert said["evaluate"]["took"] == said["train"]["made"]
    assert len({one["made"] for one in said.values()}) == len(CHAIN)
    assert not list(tmp_path.glob("*.part"))


def test_an_artefact_that_was_changed_meanwhile_stops_the_chain(tmp_path: Path) -> None:
    def spoil(folder: Path, stage: str) -> None:
        if stage == "preprocess":
            (folder / (folder / "preprocess.name").read_text().strip()).write_bytes(b"stale")

    found = ended(tmp_path, spoil)
    assert faults(found)[0] == "train ended FAILED, expected COMPLETED"
    assert "took nothing" in "; ".join(faults(found))


def test_an_artefact_of_another_run_is_named(tmp_path: Path) -> None:
    found = ended(tmp_path)
    other = b"train took " + b"ab" * 32 + b"\ntrain made " + b"cd" * 32 + b"\n"
    wrong = faults({**found, "train": job("COMPLETED", other)})
    assert [text.split(", ")[1] for text in wrong] == [
        f"train took {'ab' * 32}",
        f"evaluate took {hashes(found)['evaluate']['took']}",
    ]


@pytest.mark.parametrize("stage", WANTED)
def test_a_stage_that_ends_otherwise_is_named(tmp_path: Path, stage: str) -> None:
    found = ended(tmp_path)
    assert f"{stage} ended TIMEOUT, expected {WANTED[stage]}" in faults(
        {**found, stage: job("TIMEOUT", found[stage].output)}
    )
