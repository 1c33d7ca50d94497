"""Reports of drift: what they hold, what they leave out, and which of them show a schedule without drift (S143)."""

import dataclasses
import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from capacity.model import Plan
from infra.cli import main
from tests.plans import plan_of
from validation import drift_reports
from validation.checks import test_playbooks
from validation.drift_reports import Report, ReportError, faults
from validation.facts import Facts
from validation.runners import ansible
from validation.runners.ansible import Drift

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
HEALTHY = Path(__file__).parent / "data" / "healthy.json"
CLEAN = {"ok": 90, "changed": 0, "failed": 0, "unreachable": 0, "skipped": 3}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


def of(hours_ago: float, *, plan_hash: str = "p", error: str = "", **counts: int) -> Report:
    at = NOW - timedelta(hours=hours_ago)
    changes = [{"host": "gpu001", "role": "ssh", "task": "Write", "files": ["/etc/x"]}] if counts.get("changed") else []
    return Report("lab", plan_hash, at, at + timedelta(minutes=1), error, {"gpu001": {**CLEAN, **counts}}, changes)


def said(*reports: Report, host: str = "gpu001") -> str:
    return "; ".join(faults(reports, "p", host, 3600, NOW))


def test_two_reports_without_drift_that_are_far_enough_apart_show_a_schedule() -> None:
    assert said(of(2), of(1)) == ""
    assert said(of(9, changed=1), of(8, error="timeout"), of(2), of(1)) == "", (
        "the two newest reports count: older drift is mended"
    )


@pytest.mark.parametrize(
    ("reports", "wanted"),
    [
        ((), "no report of drift under this plan: bringup validation drift, by a timer (--every)"),
        ((of(2, plan_hash="q"), of(1, plan_hash="q")), "no report of drift under this plan"),
        ((of(1),), "one report without drift, wanted are two that are 3600 s apart"),
        ((of(1.5), of(1)), "2 reports within 1800 s without drift"),
        ((of(3), of(1, changed=2)), "report of drift of 2026-11-01 11:01 UTC: 2 changed (ssh: Write)"),
        ((of(3), of(1, unreachable=1)), "1 unreachable"),
        ((of(3), of(2, changed=1), of(1)), "one report without drift"),
        ((of(2), of(1, error="no summary")), "the run had no result: no summary"),
        ((of(400), of(300)), "nothing makes them any more"),
        ((of(2), of(-1)), "which is still to come: set the clock right"),
    ],
)
def test_what_shows_no_schedule_without_drift_is_said(reports: tuple[Report, ...], wanted: str) -> None:
    assert wanted in said(*reports)


def test_a_host_that_was_not_in_the_run_is_not_proven() -> None:
    assert "gpu009 was not in the run" in said(of(2), of(1), host="gpu009")


def test_a_report_names_host_task_and_files_and_holds_nothing_that_was_printed(plan: Plan, tmp_path: Path) -> None:
    where = {"host": "gpu001", "role": "munge", "task": "Write the key"}
    drift = Drift(
        error="ansible-playbook left no summary (exit status 4): password hunter2",
        hosts={"gpu001": {**CLEAN, "changed": 1}},
        changes=({**where, "paths": ["/etc/munge/munge.key"], "handler": False, "actions": ["hunter2"]},) * 1200,
        failures=({**where, "message": "refuses hunter2"},),
        output=b"hunter2",
    )
    path = drift_reports.write(tmp_path, drift_reports.report(plan, drift, NOW, NOW))
    assert "hunter2" not in path.read_text()
    (one,) = drift_reports.read(tmp_path)
    assert one.changes[0] == {**where, "files": ["/etc/munge/munge.key"]}
    assert (len(one.changes), one.left_out, one.drifted()) == (1000, 200, ["gpu001"])
    assert (one.site, one.plan_hash, one.began) == ("lab", plan.hash, NOW)
    assert one.error == "ansible-playbook left no summary (exit status 4"


def test_old_reports_go_and_the_newest_are_read_in_order(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift_reports, "KEPT", 3)
    for minute in range(5):
        at = NOW + timedelta(minutes=minute)
        drift_reports.write(tmp_path, drift_reports.report(plan, Drift(hosts={"gpu001": CLEAN}), at, at))
    assert [one.ended.minute for one in drift_reports.read(tmp_path)] == [2, 3, 4]


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"hosts": {"gpu001": {"ok": 1}}},
        {"hosts": []},
        {"began": "2026-11-01T12:00:00"},
        {"ended": "yesterday"},
        {"changes": [{"host": "gpu001"}]},
        {"left_out": "many"},
    ],
)
def test_a_file_that_is_no_report_is_named(plan: Plan, tmp_path: Path, change: dict[str, object]) -> None:
    path = drift_reports.write(tmp_path, drift_reports.report(plan, Drift(hosts={"gpu001": CLEAN}), NOW, NOW))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ReportError, match=f"{path}: no report of drift .*: set it aside"):
        drift_reports.read(tmp_path)


def test_the_check_wants_the_reports_beside_its_own_run(plan: Plan) -> None:
    facts, drift = Facts.read(HEALTHY), Drift(hosts={"gpu001": CLEAN}, output=b"PLAY RECAP")
    before = datetime.now(UTC) - timedelta(hours=2)

    def judged(*reports: Report) -> tuple[bool, str]:
        found = test_playbooks.test_second_run_changes_nothing("gpu001", plan, facts, drift, reports)
        return found.passed, found.detail

    alone = judged()
    assert not alone[0]
    assert "no report of drift under this plan" in alone[1]
    two = [
        dataclasses.replace(of(0, plan_hash=plan.hash), began=at, ended=at)
        for at in (before, before + timedelta(seconds=5))
    ]
    assert judged(*two) == (True, "90 tasks, none would change; nor in the scheduled reports of drift")


def test_the_command_reports_and_says_what_drifted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change = {"host": "gpu001", "role": "ssh", "task": "Write", "paths": ["/etc/ssh/x"]}
    drifts = [
        Drift(hosts={"gpu001": CLEAN}),
        Drift(hosts={"gpu001": {**CLEAN, "changed": 1}}, changes=(change,)),
        Drift(error="no end"),
    ]
    monkeypatch.setattr(ansible, "drift", lambda site: drifts.pop(0))
    statuses = [main(["validation", "drift", "lab", "--out", str(tmp_path)]) for _ in range(3)]
    assert statuses == [0, 1, 2]
    out = capsys.readouterr().out
    assert "1 hosts, nothing drifted" in out
    assert "gpu001: ssh: Write (/etc/ssh/x)" in out
    assert len(drift_reports.read(tmp_path)) == 3


def test_every_prints_units_of_systemd_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ansible, "drift", lambda site: pytest.fail("it ran"))
    assert main(["validation", "drift", "lab", "--every", "6h", "--out", str(tmp_path)]) == 0
    units = capsys.readouterr().out
    assert "OnUnitActiveSec=21600s" in units
    assert f'"drift" "{Path.cwd()}' in units or '"drift" "/' in units
    assert drift_reports.read(tmp_path) == []
    if analyze := subprocess.run(
        ["which", "systemd-analyze"], capture_output=True, text=True, check=False
    ).stdout.strip():
        service, _, timer = units.partition("\n# /etc/systemd/system/bringup-drift-lab.timer\n")
        (tmp_path / "bringup-drift-lab.service").write_text(service)
        (tmp_path / "bringup-drift-lab.timer").write_text(timer)
        done = subprocess.run(
            [analyze, "verify", "--man=no", str(tmp_path / "bringup-drift-lab.timer")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "bringup-drift" not in done.stderr, done.stderr


@pytest.mark.parametrize("every", ["5min", "32d", "1w", "h", "-1h", "0d"])
def test_a_time_that_is_none_is_refused(every: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validation", "drift", "lab", f"--every={every}"]) == 2
    assert "expected a time from 10min to 31d" in capsys.readouterr().err
