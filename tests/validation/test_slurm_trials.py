"""Trials of policy against a scheduler in memory: what they report, and that they always clean up."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from network.drivers.errors import BadAnswer
from validation.runners import slurm_trials as trials
from validation.runners.engine import Job
from validation.runners.slurm import Refusal

pytestmark = pytest.mark.clock

WANTED = trials.Wanted(
    nodes=("gpu001", "gpu002", "gpu003"),
    gpus=8,
    users=("bringup-a", "bringup-b"),
    highest="inference",
    lowest="experimentation",
    over_limit=("--time=9999",),
    start_budget_s=1.0,
)
TIMES = {"SubmitTime": "2026-11-21T19:40:06", "StartTime": "2026-11-21T19:40:16"}


class FakeSlurm:
    """Every job runs at once and completes with `output`; `refuse` makes that call fail."""

    def __init__(self, output: str = "", refuse: str = "") -> None:
        self.output, self.refuse = output, refuse
        self.next_job = 0
        self.users: list[str] = []
        self.cancelled: set[int] = set()
        self.made: set[str] = set()

    def _call(self, name: str) -> None:
        if self.refuse == name:
            raise BadAnswer("ctl01", name, "success", "no", "do it by hand")

    def start(self, script: str, *options: str, user: str = "") -> int:
        self._call("start")
        self.users.append(user)
        self.next_job += 1
        return self.next_job

    def refusal(self, script: str, *options: str, user: str = "") -> Refusal:
        self._call("refusal")
        return Refusal(True, "too much")

    def until(self, job: int, reached: Callable[[Mapping[str, str]], bool], budget_s: float) -> dict[str, str]:
        self._call("until")
        return {"JobState": "RUNNING", **TIMES}

    def wait(self, job: int, budget_s: float) -> Job:
        self._call("wait")
        return Job(job, "COMPLETED", "None", "gpu001", "0:0", self.output.encode(), 1.0)

    def show(self, job: int) -> dict[str, str]:
        return {"JobState": "PENDING", "Restarts": "1"}

    def cancel(self, *jobs: int) -> None:
        self._call("cancel")
        self.cancelled |= set(jobs)

    def reserve(self, name: str, nodes: Sequence[str], user: str, in_s: int, minutes: int) -> None:
        self._call("reserve")
        self.made.add(name)

    def reservation(self, name: str) -> dict[str, str]:
        return {"ReservationName": name, "NodeCnt": "2"}

    def release(self, name: str) -> None:
        self.made.discard(name)

    def usage(self, jobs: Sequence[int]) -> list[dict[str, str]]:
        self._call("usage")
        return [{"JobIDRaw": str(job)} for job in jobs]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def scheduler(**how: str) -> Any:
    return FakeSlurm(**how)


def test_a_victim_that_wrote_and_resumed_is_reported_with_its_steps():
    seen = trials.preemption(scheduler(output="srun: noise\ncheckpoint 21\nresumed 21\n"), WANTED, "gpu001")
    assert (seen.error, seen.start_s, seen.checkpoint, seen.resumed, seen.victim["Restarts"]) == ("", 10.0, 21, 21, "1")


def test_a_victim_that_wrote_nothing_has_no_checkpoint():
    seen = trials.preemption(scheduler(output="killed\n"), WANTED, "gpu001")
    assert (seen.checkpoint, seen.resumed) == (None, None)


def test_both_users_take_part():
    slurm = scheduler()
    trials.preemption(slurm, WANTED, "gpu001")
    assert slurm.users == ["bringup-a", "bringup-b"]


@pytest.mark.parametrize("call", ["start", "until", "wait"])
def test_a_preemption_that_fails_says_why_and_leaves_no_job(call: str):
    slurm = scheduler(refuse=call)
    assert f"ctl01: {call}" in trials.preemption(slurm, WANTED, "gpu001").error
    assert slurm.cancelled == set(range(1, slurm.next_job + 1))


@pytest.mark.parametrize("call", ["reserve", "start", "until"])
def test_a_window_that_fails_says_why_and_leaves_no_reservation_and_no_job(call: str):
    slurm = scheduler(refuse=call)
    assert f"ctl01: {call}" in trials.window(slurm, WANTED, ["gpu002", "gpu003"]).error
    assert slurm.made == set()
    assert slurm.cancelled == set(range(1, slurm.next_job + 1))


@pytest.mark.parametrize("call", ["start", "refusal", "wait"])
def test_grants_that_fail_say_why_and_leave_no_job(call: str):
    slurm = scheduler(refuse=call)
    assert f"ctl01: {call}" in trials.grants(slurm, WANTED).error
    assert slurm.cancelled == set(range(1, slurm.next_job + 1))


def test_a_controller_that_takes_no_cancellation_hides_no_result():
    slurm = scheduler(output="checkpoint 1\nresumed 1\n", refuse="cancel")
    seen = trials.run(slurm, WANTED)
    assert (seen.grants.error, seen.preemption.resumed) == ("", 1)
    assert "ctl01: cancel" in seen.window.error
    assert slurm.made == set()


def test_grants_are_read_by_node():
    line = '{"host": "gpu001", "visible": "0", "allowed": [0]}'
    seen = trials.grants(scheduler(output=f"srun: noise\n{line}\n"), WANTED)
    assert seen.error == ""
    assert seen.seen == {"gpu001": {"host": "gpu001", "visible": "0", "allowed": [0]}}
    assert seen.too_many == seen.over_limit == Refusal(True, "too much")


def test_all_trials_charge_their_jobs():
    slurm = scheduler(output="checkpoint 1\nresumed 1\n")
    seen = trials.run(slurm, WANTED)
    assert len(seen.usage) == 3
    assert slurm.made == set()


def test_without_a_ready_node_every_trial_says_so():
    slurm = scheduler()
    seen = trials.run(slurm, trials.Wanted((), 8, WANTED.users, "inference", "experimentation", (), 1.0))
    assert seen.grants.error == seen.preemption.error == seen.window.error == "no node is ready for jobs"
    assert slurm.next_job == 0


def test_an_accounting_database_that_is_away_is_named_and_the_rest_stays():
    seen = trials.run(scheduler(output="checkpoint 1\nresumed 1\n", refuse="usage"), WANTED)
    assert "ctl01: usage" in seen.usage_error
    assert seen.preemption.checkpoint == 1


def test_the_programs_of_the_trials_are_valid_bash():
    import subprocess

    for script in (trials.GRANT, trials.VICTIM, trials.PASSING):
        done = subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True, timeout=10, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_the_program_that_asks_for_grants_is_valid_python():
    body = trials.GRANT.split("<<'END'\n")[1].split("END\n")[0]
    compile(body, "grant", "exec")


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ('{"host": "gpu001", "visible": 0, "allowed": [0]}', "text at [0].visible"),
        ('{"host": "gpu001", "allowed": [0]}', "a value at [0].visible"),
        ('{"host": "gpu001", ', "expected JSON"),
    ],
)
def test_a_grant_that_cannot_be_read_is_an_error_and_never_a_crash(printed: str, expected: str):
    seen = trials.grants(scheduler(output=f"{printed}\n"), WANTED)
    assert expected in seen.error
    assert seen.seen == {}
