import io
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from infra import demo
from infra.demo import Ended, Stage, matched, recapped, run

pytestmark = pytest.mark.clock


def sh(*scripts: str, limit_s: float = 20.0) -> Stage:
    return Stage("Try", tuple(("sh", "-c", script) for script in scripts), limit_s, matched(r"^said .*$"))


def started(stage: Stage, tmp_path: Path) -> tuple[Ended, list[str], str]:
    """Result, the lines that were shown while it ran, and the log."""
    lines: list[str] = []
    ended = run(stage, os.environ, tmp_path / "log", lines.append)
    return ended, lines, (tmp_path / "log").read_text()


def test_output_is_shown_while_it_comes_and_kept_in_the_log(tmp_path: Path) -> None:
    ended, lines, log = started(sh("echo one; echo two >&2"), tmp_path)
    assert ended.status == 0
    assert lines == ["one", "two"]
    assert log == "$ sh -c 'echo one; echo two >&2'\none\ntwo\n"


def test_first_failing_command_ends_the_stage(tmp_path: Path) -> None:
    ended, lines, _ = started(sh("echo one", "exit 3", "echo never"), tmp_path)
    assert (ended.status, ended.command) == (3, ("sh", "-c", "exit 3"))
    assert lines == ["one"]


def test_stage_at_its_limit_is_killed_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that was started in the background ignores SIGINT, and is killed after the grace."""
    monkeypatch.setattr(demo, "GRACE_S", 1.0)
    began = time.monotonic()
    ended, lines, _ = started(sh("sleep 300 & echo $!; wait", limit_s=0.5), tmp_path)
    assert ended.status is None
    assert time.monotonic() - began < demo.GRACE_S + 60
    assert ends(int(lines[0]), within_s=5.0)


def ends(pid: int, within_s: float) -> bool:
    """Whether a process is gone, or dead and waiting to be reaped, within a time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_standard_input_is_empty_so_that_nothing_waits_for_an_answer(tmp_path: Path) -> None:
    ended, lines, _ = started(sh("read answer || echo none"), tmp_path)
    assert (ended.status, lines) == (0, ["none"])


def test_ansible_recap_is_summed_over_hosts() -> None:
    output = (
        "PLAY RECAP ***\n"
        "ctl01   : ok=30   changed=10   unreachable=0    failed=0    skipped=2\n"
        "gpu001  : ok=25   changed=9    unreachable=0    failed=1    skipped=2\n"
    )
    assert recapped(output) == "2 hosts, ok=55 changed=19 failed=1 unreachable=0"


@pytest.mark.parametrize(
    ("title", "output", "expected"),
    [
        ("Plan", "Devices\nFindings: 2, of these 0 error(s)\nPlan 0fae\n", "Findings: 2, of these 0 error(s)"),
        ("Apply", "Resources:\n    + 12 created\n    3 unchanged\n\nDuration: 9s\n", "+ 12 created 3 unchanged"),
        (
            "Validate",
            "...\n==== 62 passed, 1 skipped in 71.20s (0:01:11) ====\n",
            "62 passed, 1 skipped in 71.20s (0:01:11)",
        ),
        ("Judge", "table\nREHEARSAL PASSED (lab): 20 pass\nreport: x\n", "REHEARSAL PASSED (lab): 20 pass"),
    ],
)
def test_each_stage_reports_what_its_tool_said(title: str, output: str, expected: str) -> None:
    stage = next(stage for stage in demo.on_slurm().stages if stage.title.startswith(title))
    assert stage.said(output) == expected


@pytest.mark.parametrize("made", [demo.on_slurm(), demo.on_kubernetes()])
def test_each_stage_is_of_the_demos_own_site(made: demo.Demo) -> None:
    for stage in made.stages:
        for command in stage.commands:
            assert {made.site, f"inventory/sites/{made.site}/site.yaml"} & set(command), command


def test_the_platforms_demo_comes_twice_to_a_cluster_and_the_second_time_nothing_may_change() -> None:
    commands = [command for stage in demo.on_kubernetes().stages for command in stage.commands]
    ups = [number for number, command in enumerate(commands) if command[:2] == ("pulumi", "up")]
    assert ["--expect-no-changes" in commands[number] for number in ups] == [False, False, True]
    assert ups[0] < commands.index(("bringup", "kubeconfig", "lab-kubernetes")) < ups[1]


def test_a_playbook_that_changes_something_fails_a_stage_that_may_change_nothing() -> None:
    again = next(stage for stage in demo.on_kubernetes().stages if stage.title.startswith("Once more"))
    recap = "PLAY RECAP ***\nctl01 : ok=30 changed={} unreachable=0 failed=0\n"
    assert again.wrong(recap.format(0)) == ""
    assert again.wrong(recap.format(2)) == "the playbook changed something: {'ctl01': 2}"


def test_failure_names_the_command_and_how_to_go_on(tmp_path: Path) -> None:
    out = io.StringIO()
    failing, later = sh("exit 3"), Stage("Later", (("pytest", "validation"),), 1.0, matched("x"))
    ended = Ended(failing.commands[0], 3, 1.0, "boom\n")
    demo.show_failure(Console(file=out, width=200), failing, ended, tmp_path / "log", [later], "make demo")
    text = out.getvalue()
    assert "boom" in text
    assert "Try failed: exit status 3" in text
    assert "command: sh -c 'exit 3'" in text
    assert 'eval "$(bringup env)"' in text
    assert "start over with: make demo" in text
    assert text.index("sh -c 'exit 3'\n  pytest validation") > 0


def test_demo_without_root_says_what_works(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert demo.main([]) == 1
    assert capsys.readouterr().out.endswith("bringup plan lab\n")
    assert demo.main(["--platform"]) == 1
    assert capsys.readouterr().out.endswith("bringup plan lab-kubernetes\n")


def test_without_a_terminal_a_long_stage_says_every_few_seconds_what_runs() -> None:
    out = io.StringIO()
    with demo.Progress(Console(file=out, width=60), every_s=0.05) as progress:
        assert progress.see("TASK [base : Install packages] ****\n") == "TASK [base : Install packages]"
        assert progress.see("changed: [gpu001]") == "TASK [base : Install packages] changed: [gpu001]"
        assert progress.see("") == "TASK [base : Install packages] changed: [gpu001]"
        deadline = time.monotonic() + 10
        while out.getvalue().count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    lines = out.getvalue().splitlines()
    assert lines[:2] == 2 * ["  0 s  TASK [base : Install packages] changed: [gpu001]"]
    assert "\r" not in out.getvalue()


def test_on_a_terminal_only_the_spinner_speaks() -> None:
    out = io.StringIO()
    with demo.Progress(Console(file=out, force_terminal=True), every_s=0.01) as progress:
        assert progress.see("waiting 10 s: burn_in") == "waiting 10 s: burn_in"
        time.sleep(0.1)
    assert out.getvalue() == ""
