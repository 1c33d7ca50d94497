"""A drained node returns when what it failed has passed since, by evidence that counts."""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from infra.cli import validation as verbs
from inventory.site import Site
from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost
from tests.validation import test_gate
from tests.validation.bench import NOW, SmallPlan, judged
from tests.validation.test_gate import changed, with_record
from tests.validation.test_slurm_runner import FakeHost
from validation.evidence import Contents
from validation.register import Register
from validation.return_to_service import why_not
from validation.runners.engine import Drain, failed_items
from validation.runners.slurm import Slurm

real_contents = test_gate.real_contents
"""Evidence for every item of a real site, which opens the gate."""
ITEM, NODE = "S026.measured", "gpu001"
REASON = "bringup: S026.measured: GPU 3: GPU is lost"
SHOWN = "NodeName=gpu001 Arch=x86_64 State=IDLE+DRAIN ThreadsPerCore=2 Reason={} [root@2026-11-21T10:00:00]\n"


def drained(hours_before: float, reason: str = REASON) -> Drain:
    return Drain(NODE, "IDLE+DRAIN", reason, NOW - timedelta(hours=hours_before))


def kept_out(drain: Drain, register: Register, site: Site, contents: Contents) -> str:
    return "; ".join(why_not(drain, contents, judged(register, SmallPlan(site), contents, (), NOW)))


def test_a_pass_that_began_after_the_drain_returns_the_node(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    assert kept_out(drained(100), register, real_site, real_contents) == ""


def test_a_pass_from_before_the_drain_returns_nothing(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    assert "it has to pass after that" in kept_out(drained(0), register, real_site, real_contents)


def test_a_check_that_began_before_the_drain_and_ended_after_it_returns_nothing(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    first = next(e.record for e in real_contents.entries if (e.record.item, e.record.subject) == (ITEM, NODE))
    between = dataclasses.replace(drained(0), since=first.started + (first.ended - first.started) / 2)
    assert "it has to pass after that" in kept_out(between, register, real_site, real_contents)


def test_a_failure_or_no_record_returns_nothing(register: Register, real_site: Site, real_contents: Contents) -> None:
    failed = changed(real_contents, ITEM, lambda entry: with_record(entry, result="FAILED"))
    assert f"{ITEM} of {NODE} is fail" in kept_out(drained(100), register, real_site, failed)
    none = changed(real_contents, ITEM, lambda entry: None)
    assert f"{ITEM} of {NODE} is missing" in kept_out(drained(100), register, real_site, none)


def test_every_item_of_the_reason_has_to_pass(register: Register, real_site: Site, real_contents: Contents) -> None:
    none = changed(real_contents, "S029.measured", lambda entry: None)
    reason = "bringup: S026.measured: GPU 3; S029.measured: x8 of x16"
    assert failed_items(reason) == ["S026.measured", "S029.measured"]
    assert "S029.measured of gpu001 is missing" in kept_out(drained(100, reason), register, real_site, none)
    unknown = drained(100, "bringup: S999.measured: ?")
    assert "S999.measured is not judged for gpu001" in kept_out(unknown, register, real_site, real_contents)


def test_a_persons_drain_and_a_node_in_service_are_left_alone(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    assert "a person decides" in kept_out(drained(100, "fan swap"), register, real_site, real_contents)
    idle = dataclasses.replace(drained(100), state="IDLE")
    assert "not drained" in kept_out(idle, register, real_site, real_contents)


def controller(answer: str) -> tuple[Slurm, FakeHost]:
    host = FakeHost("ctl01", env=answer)
    return Slurm(cast(SshHost, host), {}), host


def test_slurmctlds_reason_is_read_with_its_time_in_utc() -> None:
    scheduler, host = controller(SHOWN.format(REASON))
    assert scheduler.drain(NODE) == Drain(NODE, "IDLE+DRAIN", REASON, datetime(2026, 11, 21, 10, tzinfo=UTC))
    assert host.ran("env")[0][:3] == ["env", "TZ=UTC0", "SLURM_TIME_FORMAT=standard"]


@pytest.mark.parametrize(
    "answer", ["", "garbage", "State=IDLE+DRAIN Reason=no time\n", "State=DRAIN Reason=x [r@2026-99-99T10:00:00]\n"]
)
def test_an_answer_without_state_or_time_is_an_error(answer: str) -> None:
    with pytest.raises(BadAnswer):
        controller(answer)[0].drain(NODE)


def test_a_node_that_is_drained_again_while_the_evidence_is_read_stays_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter([SHOWN.format(REASON), SHOWN.format("bringup: S026.measured: GPU 5: GPU is lost")])
    host = FakeHost("ctl01", env=lambda _: next(answers))
    monkeypatch.setattr("validation.runners.slurm.connect", lambda plan: Slurm(cast(SshHost, host), {}))
    monkeypatch.setattr("validation.gate.judge_with_log", lambda *_, **__: (None, None))
    monkeypatch.setattr("validation.return_to_service.why_not", lambda *_: [])
    arguments = type("Arguments", (), {"site": "lab", "node": NODE, "out": tmp_path})()
    assert verbs.run_return(arguments) == 1
    assert host.ran("scontrol") == []
    assert "GPU 5: GPU is lost" in capsys.readouterr().err


@pytest.mark.parametrize(("missing", "status"), [([], 0), (["S026.measured of gpu001 is missing"], 1)])
def test_the_verb_resumes_only_a_node_that_may_return(
    missing: Sequence[str],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scheduler, host = controller(SHOWN.format(REASON))
    monkeypatch.setattr("validation.runners.slurm.connect", lambda plan: scheduler)
    monkeypatch.setattr("validation.gate.judge_with_log", lambda *_, **__: (None, None))
    monkeypatch.setattr("validation.return_to_service.why_not", lambda *_: missing)
    arguments = type("Arguments", (), {"site": "lab", "node": NODE, "out": tmp_path})()
    assert verbs.run_return(arguments) == status
    resumed = [["scontrol", "update", "NodeName=gpu001", "State=RESUME"]]
    assert host.ran("scontrol") == ([] if missing else resumed)
    assert "".join(missing) in capsys.readouterr().err
