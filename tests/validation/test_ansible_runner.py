"""The drift run: what comes of the summary that Ansible's callback writes, and of runs that leave none."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from inventory.site import load_site
from validation.runners import ansible, local

SITE = load_site("lab")
SUMMARY = {
    "hosts": {"gpu001": {"ok": 30, "changed": 1, "failed": 0, "unreachable": 0, "skipped": 2}},
    "changes": [{"host": "gpu001", "role": "chrony", "task": "Configure chrony"}],
    "failures": [],
}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch):
    """Let a function take the place of ansible-playbook; returns what it was called with."""

    def install(status: int | None, *summaries: Mapping[str, object]) -> dict[str, object]:
        called: dict[str, object] = {}

        def run(
            argv: Sequence[str], budget_s: float, cwd: Path, env: Mapping[str, str], stop: object = None
        ) -> local.Ended:
            called.update(argv=list(argv), budget_s=budget_s, cwd=cwd, env=env)
            folder = Path(env["BRINGUP_VAR"]) / SITE.name / "ansible"
            for number, summary in enumerate(summaries):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{number}.json").write_text(json.dumps(summary))
            return local.Ended(status, b"PLAY RECAP\n", b"a warning\n")

        monkeypatch.setattr(local, "run", run)
        return called

    return install


def test_hosts_changes_and_failures_come_from_the_summary(runs):
    called = runs(0, SUMMARY)
    drift = ansible.drift(SITE)
    assert drift.error == ""
    assert drift.hosts["gpu001"]["changed"] == 1
    assert drift.changes == ({"host": "gpu001", "role": "chrony", "task": "Configure chrony"},)
    assert drift.output == b"PLAY RECAP\n"
    assert called["budget_s"] == ansible.BUDGET_S


def test_the_run_is_in_check_mode_for_this_site_and_outside_the_sites_outputs(runs, monkeypatch):
    monkeypatch.setenv("BRINGUP_VAR", "/somewhere/else")
    called = runs(0, SUMMARY)
    ansible.drift(SITE)
    assert called["argv"][1:] == ["playbooks/site.yml", "-i", str(SITE.path), "--check", "--diff"]
    assert called["env"]["BRINGUP_VAR"] != "/somewhere/else"
    assert not Path(called["env"]["BRINGUP_VAR"]).exists()


def test_a_summary_counts_also_when_hosts_failed(runs):
    failed = {**SUMMARY, "failures": [{"host": "gpu001", "role": "base", "task": "x", "message": "no"}]}
    runs(2, failed)
    assert ansible.drift(SITE).failures == ({"host": "gpu001", "role": "base", "task": "x", "message": "no"},)


def test_a_run_without_a_summary_says_its_status_and_last_words(runs):
    runs(4)
    drift = ansible.drift(SITE)
    assert "left no summary (exit status 4): PLAY RECAP\na warning" in drift.error
    assert drift.hosts == {}
    assert drift.output == b"PLAY RECAP\na warning\n"


def test_a_run_beyond_its_budget_is_an_error_whatever_it_left(runs):
    runs(None, SUMMARY)
    drift = ansible.drift(SITE, budget_s=30)
    assert drift.error.endswith("did not end within 30 s")
    assert drift.hosts == {}
