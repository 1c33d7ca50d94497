"""The page of last runs: its form, which run counts, and what is noted of a command."""

import json
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from infra import proven
from infra.proven import ProvenError, Run, kept, newer, noted, page, proven_targets, run_from, took
from inventory.paths import repo_root

RUN = Run("demo-metal", 0, "2026-11-26T16:15Z", 1702.0, 10.1, 2, "0123456789ab", "Leave a record", clean=True)


@pytest.fixture(autouse=True)
def handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own handlers of signals stay."""
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)


def test_the_page_is_what_the_kept_runs_give() -> None:
    names = proven_targets((repo_root() / "Makefile").read_text())
    assert proven.PAGE.read_text() == page(kept(), names)


def test_the_runs_of_every_demo_soak_and_bench_are_noted() -> None:
    makefile = (repo_root() / "Makefile").read_text()
    assert proven_targets(makefile) == ["demo", "demo-metal", "demo-platform", "soak", "bench"]
    assert set(kept()) <= set(proven_targets(makefile))


def test_a_row_says_result_date_commit_time_and_load() -> None:
    row = page({"demo-metal": RUN}, ["demo-metal"]).splitlines()[-1]
    assert row == (
        "| `make demo-metal` | passed | 2026-11-26 16:15 | Leave a record (0123456789ab) | 28 min | 10.1 / 2 |"
    )


def test_a_command_that_never_ran_has_a_row_that_says_so() -> None:
    assert page({}, ["soak"]).splitlines()[-1] == "| `make soak` | no run noted | | | | |"


def test_a_failed_run_and_a_changed_checkout_show() -> None:
    row = page({"soak": replace(RUN, name="soak", status=1, clean=False)}, ["soak"]).splitlines()[-1]
    assert "failed (exit status 1)" in row
    assert "(0123456789ab, with changes)" in row


def test_a_subject_does_not_break_the_table() -> None:
    row = page({"soak": replace(RUN, name="soak", subject="Take a | b")}, ["soak"]).splitlines()[-1]
    assert row.replace("\\|", "").count("|") == 7


@pytest.mark.parametrize(("seconds", "said"), [(59.4, "59 s"), (90, "2 min"), (3599, "60 min"), (9000, "2.5 h")])
def test_times_read_as_people_say_them(seconds: float, said: str) -> None:
    assert took(seconds) == said


def test_the_last_run_counts_also_when_it_failed() -> None:
    failed = replace(RUN, status=1, began="2026-11-27T08:00Z")
    assert newer({"demo-metal": RUN}, [failed])["demo-metal"] == failed
    assert newer({"demo-metal": failed}, [RUN])["demo-metal"] == failed


BAD: dict[str, dict[str, Any]] = {
    "name": {"name": "Demo Metal"},
    "commit": {"commit": "HEAD"},
    "date": {"began": "yesterday"},
    "time": {"took_s": -1.0},
    "truth": {"clean": 1},
    "key": {"who": "nobody"},
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD.keys())
def test_what_is_no_note_is_refused_by_its_name(change: dict[str, Any]) -> None:
    with pytest.raises(ProvenError, match=r"^demo\.json: not the note of a run"):
        run_from({**asdict(RUN), **change}, "demo.json")


@pytest.mark.parametrize("status", [0, 3])
def test_a_command_is_noted_with_how_it_ended(tmp_path: Path, status: int) -> None:
    assert noted("demo", [sys.executable, "-c", f"raise SystemExit({status})"], tmp_path) == status
    made = run_from(json.loads((tmp_path / "demo.json").read_text()), "demo.json")
    assert (made.name, made.status) == ("demo", status)


def test_a_command_that_a_signal_ended_is_noted(tmp_path: Path) -> None:
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert noted("demo", [sys.executable, "-c", kill], tmp_path) == 137
    assert json.loads((tmp_path / "demo.json").read_text())["status"] == -9


def test_notes_become_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proven, "DATA", tmp_path / "proven.yaml")
    monkeypatch.setattr(proven, "PAGE", tmp_path / "proven.md")
    (tmp_path / "proven.yaml").write_text("schema_version: 1\nruns: []\n")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "demo-metal.json").write_text(json.dumps(asdict(RUN)))
    proven.write(tmp_path / "notes")
    assert kept() == {"demo-metal": RUN}
    assert "| `make demo-metal` | passed |" in (tmp_path / "proven.md").read_text()
