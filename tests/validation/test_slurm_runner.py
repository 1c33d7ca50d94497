"""The Slurm runner against a controller in memory: job states, budgets, garbage, and the script that carries a program."""

import base64
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from network.drivers.errors import BadAnswer, DeviceError, Unreachable
from network.drivers.ssh import Completed
from validation.runners import slurm
from validation.runners.engine import FINAL, Launch, Load, Workload
from validation.runners.slurm import Slurm, SlurmNode

pytestmark = pytest.mark.clock


class FakeHost:
    """Takes the place of an SshHost: answers by the command's first word, and keeps every command and its input."""

    def __init__(self, name: str, **answers: Callable[[list[str]], str] | str) -> None:
        self.name, self.answers = name, answers
        self.commands: list[tuple[list[str], bytes]] = []

    def run(self, command: str | Sequence[str], *, stdin: bytes = b"", check: bool = True) -> Completed:
        words = shlex.split(command) if isinstance(command, str) else list(command)
        self.commands.append((words, stdin))
        answer = self.answers.get(words[0], "")
        out = answer(words) if callable(answer) else answer
        if out is not None and not out.startswith("exit "):
            return Completed(0, out, "", 0.0)
        if check:
            raise BadAnswer(self.name, words[0], "exit status 0", out, "run it by hand")
        return Completed(1, "", "", 0.0)

    def ran(self, program: str) -> list[list[str]]:
        return [words for words, _ in self.commands if words[0] == program]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "POLL_S", 0.0)


def cluster(*states: str, output: str = "hello\n", batch_host: str = "gpu001") -> tuple[Slurm, FakeHost, FakeHost]:
    """A controller that shows one job in these states, one after the other, and the node that ran its batch script."""
    remaining = list(states)

    def scontrol(_: list[str]) -> str:
        state = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return f"JobId=7 JobState={state} Reason=None NodeList=gpu[001-002] BatchHost={batch_host} ExitCode=3:0\n"

    controller, node = FakeHost("ctl01", sbatch="7\n", scontrol=scontrol), FakeHost("gpu001", cat=output)
    return Slurm(controller, {"gpu001": node}), controller, node  # type: ignore[arg-type, dict-item]


def test_a_job_is_waited_for_and_its_output_fetched_and_removed():
    scheduler, controller, node = cluster("PENDING", "RUNNING", "COMPLETED")
    job = scheduler.submit("#!/bin/bash\ntrue\n", "--nodes=2", budget_s=10)
    assert (job.job_id, job.state, job.ok, job.output, job.nodes) == (7, "COMPLETED", True, b"hello\n", "gpu[001-002]")
    (words, stdin), *_ = controller.commands
    assert words[0] == "sbatch"
    assert words[-1] == "--nodes=2"
    assert stdin == b"#!/bin/bash\ntrue\n"
    assert node.commands == [(["cat", "/var/tmp/bringup-7.out;", "rm", "-f", "/var/tmp/bringup-7.out"], b"")]
    assert not controller.ran("scancel")


@pytest.mark.parametrize("state", [s for s in FINAL if s != "COMPLETED"])
def test_a_job_that_ends_otherwise_is_a_result_with_slurms_name_for_it(state: str):
    job = cluster("RUNNING", state)[0].wait(7, budget_s=10)
    assert (job.state, job.ok, job.exit_code) == (state, False, "3:0")


def test_a_job_that_outlives_its_budget_is_cancelled_and_says_so():
    scheduler, controller, _ = cluster("RUNNING")
    job = scheduler.wait(7, budget_s=0.01)
    assert (job.state, job.ok, job.output) == ("BUDGET", False, b"hello\n")
    assert controller.ran("scancel") == [["scancel", "7"]]


def gone(_: list[str]) -> str:
    raise Unreachable("ctl01", "run scontrol", "an SSH server", "no route", "check its power")


def answers_of(controller: FakeHost, *turns: Callable[[list[str]], str] | str) -> None:
    """Let the controller's scontrol answer in turn, the last one for ever; a state name stands for a shown job."""
    remaining, shown = list(turns), controller.answers["scontrol"]

    def scontrol(words: list[str]) -> str:
        turn = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return turn(words) if callable(turn) else turn

    assert callable(shown)
    line = shown([]).split("JobState=")[0] + "JobState={} Reason=None NodeList=gpu[001-002] BatchHost=gpu001\n"
    remaining[:] = [one if callable(one) or one.startswith("exit ") else line.format(one) for one in remaining]
    controller.answers["scontrol"] = scontrol


@pytest.mark.parametrize("away", [gone, "exit 1"])
def test_a_controller_that_is_away_for_a_while_is_asked_again(away: Callable[[list[str]], str] | str):
    scheduler, controller, _ = cluster("RUNNING")
    answers_of(controller, "RUNNING", away, away, "RUNNING", "COMPLETED")
    job = scheduler.wait(7, budget_s=10)
    assert (job.state, job.output) == ("COMPLETED", b"hello\n")
    assert not controller.ran("scancel")


def test_a_job_that_slurmctld_forgets_ends_with_the_budget_and_its_output_is_fetched():
    scheduler, controller, _ = cluster("RUNNING")
    answers_of(controller, "RUNNING", "exit 1")
    job = scheduler.wait(7, budget_s=0.01)
    assert (job.state, job.reason, job.output) == ("BUDGET", "slurmctld shows no job 7", b"hello\n")
    assert controller.ran("scancel") == [["scancel", "7"]]


def test_a_job_that_never_appears_ends_with_the_budget():
    scheduler, controller, _ = cluster("RUNNING")
    answers_of(controller, "exit 1")
    assert scheduler.wait(7, budget_s=0.01).state == "BUDGET"


def test_a_controller_that_stays_away_ends_with_the_budget_and_is_named():
    scheduler, controller, _ = cluster("RUNNING")
    answers_of(controller, gone)
    controller.answers["scancel"] = gone
    job = scheduler.wait(7, budget_s=0.01)
    assert job.state == "BUDGET"
    assert job.reason.startswith("ctl01: run scontrol: ")
    assert controller.ran("scancel") == [["scancel", "7"]]


def test_a_wait_that_is_broken_off_cancels_the_job():
    scheduler, controller, _ = cluster("RUNNING")

    def interrupt(_: list[str]) -> str:
        raise KeyboardInterrupt

    answers_of(controller, "RUNNING", interrupt)
    with pytest.raises(KeyboardInterrupt):
        scheduler.wait(7, budget_s=10)
    assert controller.ran("scancel") == [["scancel", "7"]]


def test_a_job_of_days_is_looked_at_twice_a_minute_and_never_past_its_budget(monkeypatch: pytest.MonkeyPatch):
    scheduler, _, _ = cluster("RUNNING")
    now, naps = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        now[0] += seconds + 0.1

    monkeypatch.setattr(slurm, "POLL_S", 1.0)
    monkeypatch.setattr(slurm, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(scheduler, "nap", sleep)
    assert scheduler.wait(7, budget_s=2 * 86400).seconds < 2 * 86400 + 1
    assert (naps[0], max(naps)) == (1.0, 30.0)
    assert len(naps) < 2 * 86400 / 25


def test_a_job_whose_node_is_gone_keeps_its_state_and_says_why_there_is_no_output():
    scheduler, _, node = cluster("NODE_FAIL")

    def gone(_: list[str]) -> str:
        raise Unreachable("gpu001", "cat", "an SSH server", "no route", "check its power")

    node.answers["cat"] = gone
    job = scheduler.wait(7, budget_s=10)
    assert job.state == "NODE_FAIL"
    assert job.output.startswith(b"the output could not be fetched: gpu001: ")


def test_a_job_on_a_node_that_nobody_reaches_has_no_output():
    assert cluster("COMPLETED", batch_host="gpu009")[0].wait(7, budget_s=10).output == b""


@pytest.mark.parametrize("answer", ["", "sbatch: error: no partition\n", "Submitted batch job 7\n", "7;x y\n"])
def test_a_submission_that_is_no_job_number_names_the_controller(answer: str):
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["sbatch"] = answer
    with pytest.raises(BadAnswer, match=r"ctl01: sbatch: expected a job number"):
        scheduler.start("true")


def test_a_federated_job_number_is_understood():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["sbatch"] = "12;cluster\n"
    assert scheduler.start("true") == 12


def test_a_refused_submission_raises():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["sbatch"] = "exit 1"
    with pytest.raises(DeviceError):
        scheduler.start("true")


def test_nodes_are_read_with_their_flags():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["sinfo"] = "gpu001|idle|2|3900|gpu:h100:8\ngpu002|down*|2|3900+|(null)\n"
    assert scheduler.nodes() == {
        "gpu001": SlurmNode("gpu001", "idle", 2, 3900, "gpu:h100:8"),
        "gpu002": SlurmNode("gpu002", "down*", 2, 3900, "(null)"),
    }


@pytest.mark.parametrize("line", ["slurm_load_partitions: Unable to contact", "gpu001|idle|two|3900|x", "gpu001|idle"])
def test_garbage_from_sinfo_names_the_controller(line: str):
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["sinfo"] = line
    with pytest.raises(BadAnswer, match="ctl01: sinfo"):
        scheduler.nodes()


def test_the_configuration_is_read_with_equals_signs_in_values():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["scontrol"] = "Configuration data\nSelectType = select/cons_tres\nX = a=b\n"
    assert scheduler.config() == {"SelectType": "select/cons_tres", "X": "a=b"}


def test_a_forgotten_job_has_no_fields():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["scontrol"] = "exit 1"
    assert scheduler.show(7) == {}


def test_cancelling_nothing_asks_nobody():
    scheduler, controller, _ = cluster("PENDING")
    scheduler.cancel()
    assert controller.commands == []
    scheduler.cancel(3, 4)
    assert controller.ran("scancel") == [["scancel", "3", "4"]]


@pytest.fixture
def script(tmp_path: Path) -> str:
    program = tmp_path / "program.py"
    program.write_bytes(b"print('it''s $HOME')\nEND\n" * 50)
    launch = Launch(("--label", "two words; $(reboot) 'quoted'"))
    return slurm.script_of(Load("a-load", 2, Workload("gpu", 3, 4), program, (launch,), limit_min=1))


def test_the_script_is_bash_and_carries_the_program_unchanged(script: str):
    checked = subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True, timeout=10, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")
    carried = re.search(r"<<'END'\n(.*?)END\n", script, re.S)
    assert carried
    assert base64.b64decode(carried[1]) == b"print('it''s $HOME')\nEND\n" * 50


def test_arguments_reach_the_program_as_they_are(script: str):
    call = script[script.index("srun --kill-on-bad-exit=1") :].replace("\\\n", "")
    words = shlex.split(call)
    assert words[-2:] == ["--label", "two words; $(reboot) 'quoted'"]


def test_the_script_fails_when_any_step_fails_and_cleans_up(script: str):
    lines = script.splitlines()
    assert lines[:2] == ["#!/bin/bash", "set -eu"]
    assert any(line.startswith("trap ") and line.endswith(" EXIT") for line in lines)


def test_another_user_submits_from_a_folder_that_is_on_every_node():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["runuser"] = "7\n"
    assert scheduler.start("true", "--nodes=1", user="bringup-a") == 7
    (words,) = controller.ran("runuser")
    assert words[:5] == ["runuser", "-u", "bringup-a", "--", "sbatch"]
    assert words[-1] == "--chdir=/var/tmp"


def test_a_submission_that_should_be_refused_and_is_not_is_cancelled():
    scheduler, controller, _ = cluster("PENDING")
    assert scheduler.refusal("true") == slurm.Refusal(False, "")
    assert controller.ran("scancel") == [["scancel", "7"]]


def test_a_refusal_is_what_sbatch_said():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["sbatch"] = "exit 1"
    assert scheduler.refusal("true").refused
    assert controller.ran("scancel") == []


def test_the_accounting_database_is_read_in_one_go():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["sh"] = "normal|0||00:00:00||||\n--\nlab|root|root||1|normal||||||5|||||\n"
    seen = scheduler.accounting()
    assert seen.classes[0]["Name"] == "normal"
    assert (seen.associations[0]["Account"], seen.associations[0]["DefaultQOS"]) == ("root", "")
    assert {name: seen.associations[0][name] for name in slurm.ASSOCIATION_LIMITS if seen.associations[0][name]} == {
        "GrpTRESMins": "5"
    }
    assert len(controller.commands) == 1


def test_partitions_are_read_with_their_state():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["sinfo"] = "all|up\ndebug|drain\n"
    assert scheduler.partitions() == {"all": "up", "debug": "drain"}
    controller.answers["sinfo"] = "slurm_load_partitions error: Unable to contact slurm controller\n"
    with pytest.raises(BadAnswer, match=r"ctl01: sinfo: expected PARTITION\|STATE"):
        scheduler.partitions()


def test_an_accounting_database_that_answers_otherwise_names_the_controller():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["sh"] = (
        "sacctmgr: error: slurm_persist_conn_open_without_init: failed to open persistent connection\n"
    )
    with pytest.raises(BadAnswer, match=r"ctl01: sacctmgr: expected Name\|Priority"):
        scheduler.accounting()


def test_leaf_groups_are_read_with_their_nodes():
    scheduler, controller, _ = cluster("PENDING")
    controller.answers["sh"] = "unit001 gpu001 gpu002 \nunit002 gpu003\n"
    assert scheduler.topology() == {"unit001": ["gpu001", "gpu002"], "unit002": ["gpu003"]}


def test_use_is_one_row_for_each_time_that_a_job_ran():
    scheduler, controller, _ = cluster("PENDING")
    row = "7|bringup-a|commissioning|training|{}|{}|billing=8,cpu=1,gres/gpu=8,node=1\n"
    controller.answers["sacct"] = row.format("PREEMPTED", 26) + row.format("COMPLETED", 4)
    assert [(one["State"], one["ElapsedRaw"]) for one in scheduler.usage([7])] == [
        ("PREEMPTED", "26"),
        ("COMPLETED", "4"),
    ]


def test_waiting_for_a_state_ends_with_the_budget():
    scheduler, _, _ = cluster("PENDING")
    assert scheduler.until(7, lambda fields: fields["JobState"] == "RUNNING", 0.01)["JobState"] == "PENDING"


@pytest.mark.parametrize(
    ("state", "ready"),
    [("idle", True), ("mixed", True), ("planned", True), ("drained", False), ("down*", False), ("idle*", False)],
)
def test_a_node_is_ready_when_it_would_take_a_job(state: str, ready: bool):
    assert SlurmNode("gpu001", state, 2, 972, "gpu:h100:8").ready is ready
