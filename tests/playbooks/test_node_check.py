"""The program behind prolog, epilog and health check: what it decides, and that it ends whatever its parts do."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.playbooks.support import PLAYBOOKS, load

pytestmark = pytest.mark.clock


check = load("roles/node_check/files/node_check.py")

CONFIG = {
    "gpus": 8,
    "mounts": [],
    "disk_paths": ["/"],
    "disk_free_min_mib": 1,
    "clock_offset_max_s": 1.0,
    "nvml_python": "/nonexistent",
    "part_budget_s": 1,
}
TRACKING = "0A4D010F,10.77.1.15,12,1763742000.1,{offset_s},-0.000002,0.000003985,-1,0,0,0,0,64.2,{leap}"
UNSYNCHRONISED = (
    "00000000,,0,0.000000000,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,1.0,1.0,0.0,Not synchronised"
)
"""chronyd 4.3 before its first source is selected."""


FOUND = "[root@2026-11-21T10:00:00]"
"""What Slurm puts behind a reason."""


@pytest.mark.parametrize(
    ("drained", "reason", "problems", "wanted"),
    [
        (False, "", [], None),
        (False, "", ["GPU 3: lost"], "bringup: GPU 3: lost"),
        (True, f"bringup: GPU 3: lost {FOUND}", [], ""),
        (True, f"bringup: GPU 3: lost {FOUND}", ["GPU 3: lost"], None),
        (True, f"bringup: GPU 3: lost {FOUND}", ["/shared is not mounted"], "bringup: /shared is not mounted"),
        (True, f"fan swap, ticket 7 {FOUND}", [], None),
        (True, f"fan swap, ticket 7 {FOUND}", ["GPU 3: lost"], None),
        (True, "", ["GPU 3: lost"], None),  # cordoned by hand, without a reason
        (False, "bringup: stale reason of an earlier drain", [], None),
        (False, "", ["a", "b"], "bringup: a; b"),
        # what names an item of acceptance waits for evidence, whatever else comes and goes
        (True, f"bringup: S026.measured: GPU 3: lost {FOUND}", [], None),
        (True, f"bringup: S026.measured: GPU 3: lost {FOUND}", ["/shared is not mounted"], None),
        (
            True,
            f"bringup: /shared is not mounted {FOUND}",
            ["S026.measured: GPU 3: lost"],
            "bringup: S026.measured: GPU 3: lost",
        ),
    ],
)
def test_only_its_own_drains_are_touched(drained: bool, reason: str, problems: list[str], wanted: str | None):
    assert check.decide(drained, reason, problems) == wanted


def test_a_long_reason_is_cut_and_still_recognised_as_the_same():
    problem = "x" * 1000
    reason = check.decide(False, "", [problem])
    assert len(reason) <= check.REASON_LENGTH
    assert check.decide(True, f"{reason} [root@now]", [problem]) is None


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("NodeName=n State=IDLE Reason=none\n", (False, "none")),
        ("NodeName=n State=MIXED+DRAIN \n   Reason=bringup: a [root@now]\n", (True, "bringup: a [root@now]")),
        ("NodeName=n State=DOWN*+DRAIN Reason=Not responding\n", (True, "Not responding")),
        ("NodeName=n State=DOWN*\n", (False, "")),
    ],
)
def test_slurm_says_whether_a_node_is_drained_and_why(monkeypatch, said: str, state: tuple[bool, str]):
    monkeypatch.setattr(check.Slurm, "scontrol", lambda *_: check.Ended(0, said, ""))
    assert check.Slurm(CONFIG).state() == state


def test_a_part_that_hangs_is_left_behind_within_its_budget():
    began = time.monotonic()
    seen = check.run(["sleep", "30"], 0.2)
    assert seen.status is None
    assert time.monotonic() - began < 20


def test_what_a_part_starts_dies_with_it(tmp_path: Path):
    check.run(["sh", "-c", f"(sleep 1; touch {tmp_path}/late) & sleep 30"], 0.2)
    time.sleep(1.5)
    assert not (tmp_path / "late").exists()


def test_a_program_that_is_not_there_is_no_crash():
    assert check.run(["/nonexistent"], 1).status == 127


@pytest.mark.parametrize(
    ("ended", "problem"),
    [
        ((0, "8", ""), ""),
        ((0, "7", ""), "7 of 8 GPUs are there"),
        ((1, "", "GPU 3: GPU is lost"), "GPU 3: GPU is lost"),
        ((None, "", ""), "GPUs do not answer within 1 s"),
        ((3, "", ""), ""),  # no bindings
        ((4, "", ""), ""),  # no driver
        ((127, "", "no such file"), ""),
        ((139, "", ""), "GPU probe ended with 139"),
    ],
)
def test_gpus_are_judged_by_what_nvml_says(monkeypatch, ended, problem: str):
    monkeypatch.setattr(check, "run", lambda *_: check.Ended(*ended))
    assert check.gpus(CONFIG) == problem


@pytest.mark.parametrize(
    ("ended", "found"),
    [
        (
            (3, "", ""),
            [f"gpus cannot be judged: {CONFIG['nvml_python']} has no nvidia-ml-py: install it (role workloads)"],
        ),
        ((4, "", ""), ["S026.measured: the driver's library is not there: libnvidia-ml.so.1"]),
        ((127, "", "no such file"), ["gpus cannot be judged: no such file"]),
        ((0, "many", ""), ["gpus cannot be judged: invalid literal for int() with base 10: 'many'"]),
    ],
)
def test_where_acceptance_judges_gpus_nvml_has_to_be_there_and_a_probe_that_fails_holds_no_node(
    monkeypatch, ended, found: list[str]
):
    monkeypatch.setattr(check, "run", lambda *_: check.Ended(*ended))
    assert check.causes(("gpus",), {**CONFIG, "held": {"gpus": "S026.measured"}}) == found


def test_a_node_without_gpus_asks_no_nvml(monkeypatch):
    monkeypatch.setattr(check, "run", lambda *_: pytest.fail("asked"))
    assert check.gpus({**CONFIG, "gpus": 0}) == ""


def test_the_probe_of_gpus_is_a_program_that_says_where_bindings_are_missing():
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", check.GPU_PROBE], capture_output=True, timeout=30, check=False
    )
    assert done.returncode == check.NO_BINDINGS


BINDINGS = """
class NVMLError(Exception):
    value = 0

class Value:
    def __init__(self, action, status):
        self.nvmlReturn, self.value = status, type("Value", (), {"uiVal": action})

NVML_ERROR_LIBRARY_NOT_FOUND = 12
def nvmlInit(): pass
def nvmlDeviceGetCount(): return len(GPUS)
def nvmlDeviceGetHandleByIndex(index): return GPUS[index]
def nvmlDeviceGetMemoryInfo(gpu):
    if gpu is None: raise NVMLError("GPU is lost")
def nvmlDeviceGetFieldValues(gpu, fields):
    assert fields == [230]
    return [Value(*gpu)]
"""
"""NVIDIA's bindings (nvidia-ml-py) as far as the probe uses them; a GPU is its recovery action and the status of that field."""


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        ("(0, 0), (0, 0)", (0, "2", "")),
        ("(0, 0), (1, 0)", (1, "", "GPU 1 asks for recovery action 1")),
        ("(1, 3),", (0, "1", "")),  # an older driver does not know the field (NVML_ERROR_NOT_SUPPORTED)
        ("None, (1, 0)", (1, "", "GPU 0: GPU is lost; GPU 1 asks for recovery action 1")),
    ],
)
def test_the_probe_of_gpus_names_those_that_are_lost_or_ask_for_a_reset(tmp_path: Path, gpus: str, said):
    (tmp_path / "pynvml.py").write_text(f"GPUS = [{gpus}]\n{BINDINGS}")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{check.GPU_PROBE}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == said


def test_the_probe_of_gpus_says_where_the_drivers_library_is_missing(tmp_path: Path):
    refuses = "def nvmlInit():\n    error = NVMLError('no library'); error.value = 12; raise error\n"
    (tmp_path / "pynvml.py").write_text(f"GPUS = []\n{BINDINGS}{refuses}")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{check.GPU_PROBE}"
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == check.NO_LIBRARY


def test_the_environment_that_asks_gpus_is_there_before_a_health_check_runs():
    roles = [role for play in yaml.safe_load((PLAYBOOKS / "site.yml").read_text()) for role in play.get("roles", ())]
    assert roles.index("workloads") < min(roles.index("slurm_compute"), roles.index("kubelet"))
    assert roles.index("nvidia") < roles.index("workloads")


def test_a_mount_that_is_not_there_is_named(tmp_path: Path):
    assert check.mounts({**CONFIG, "mounts": [str(tmp_path)]}) == f"{tmp_path} is not mounted"


def test_a_mount_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(check, "run", lambda *_: check.Ended(None, "", ""))
    assert check.mounts({**CONFIG, "mounts": ["/"]}) == "/ does not answer within 1 s"


def test_a_mount_that_answers_is_fit():
    assert check.mounts({**CONFIG, "mounts": ["/"]}) == ""


def test_a_full_disk_is_named():
    assert check.disk({**CONFIG, "disk_free_min_mib": 10**12}).startswith("/ has ")
    assert check.disk(CONFIG) == ""


@pytest.mark.parametrize(
    ("ended", "problem"),
    [
        ((0, TRACKING.format(offset_s="-0.25", leap="Normal"), ""), ""),
        ((0, TRACKING.format(offset_s="0.25", leap="Insert second"), ""), ""),
        ((0, TRACKING.format(offset_s="-2.5", leap="Normal"), ""), "clock is off by 2.500 s, more than 1.0 s"),
        ((0, UNSYNCHRONISED, ""), "clock is not synchronised"),
        ((1, "506 Cannot talk to daemon", ""), "chrony does not answer: 506 Cannot talk to daemon"),
        ((None, "", ""), "chrony does not answer: no end"),
    ],
)
def test_the_clock_is_judged_by_leap_status_and_offset(monkeypatch, ended, problem: str):
    monkeypatch.setattr(check, "run", lambda *_: check.Ended(*ended))
    assert check.clock(CONFIG) == problem


def test_a_part_that_cannot_be_judged_is_a_cause(monkeypatch):
    monkeypatch.setattr(check, "run", lambda *_: check.Ended(0, "garbage", ""))
    assert check.causes(("clock",), CONFIG) == ["clock cannot be judged: list index out of range"]


def test_a_part_that_acceptance_judges_names_its_item_first(monkeypatch):
    monkeypatch.setattr(check, "CHECKS", {"clock": lambda _: "clock is off", "gpus": lambda _: "GPU 3: lost"})
    held = {**CONFIG, "held": {"gpus": "S026.measured"}}
    assert check.causes(("clock", "gpus"), held) == ["S026.measured: GPU 3: lost", "clock is off"]
    assert check.causes(("clock", "gpus"), CONFIG) == ["clock is off", "GPU 3: lost"]


@pytest.fixture
def node(monkeypatch, tmp_path: Path):
    """A node whose slurmctld answers `answer`; returns the scontrol calls."""
    calls: list[list[str]] = []
    answers = {"show": "NodeName=n State=IDLE ThreadsPerCore=1 Reason=none\n"}

    def scontrol(_self, *words):
        calls.append(list(words))
        return check.Ended(0, answers["show"], "")

    config = tmp_path / "node_check.json"
    config.write_text(json.dumps(CONFIG))
    monkeypatch.setattr(check, "CONFIG", config)
    monkeypatch.setattr(check, "MARK", tmp_path / "fit")
    monkeypatch.setattr(check.Slurm, "scontrol", scontrol)
    monkeypatch.setattr(check.socket, "gethostname", lambda: "n")
    return calls, answers


def outcome(monkeypatch, mode: str, problems: list[str]) -> int:
    monkeypatch.setattr(check, "causes", lambda *_: problems)
    monkeypatch.setattr(check.sys, "argv", ["node_check.py", mode])
    return check.main()


def test_a_fit_node_asks_slurmctld_once_in_its_life(monkeypatch, node):
    calls, _ = node
    assert [outcome(monkeypatch, "health", []) for _ in range(3)] == [0, 0, 0]
    assert len(calls) == 1


def test_a_node_is_drained_once_and_resumed_when_its_cause_is_gone(monkeypatch, node):
    calls, answers = node
    outcome(monkeypatch, "health", ["GPU 3: lost"])
    assert calls[-1] == ["update", "NodeName=n", "State=DRAIN", "Reason=bringup: GPU 3: lost"]
    answers["show"] = "NodeName=n State=IDLE+DRAIN \n   Reason=bringup: GPU 3: lost [root@2026-11-21T10:00:00]\n"
    before = len(calls)
    outcome(monkeypatch, "health", ["GPU 3: lost"])
    assert [words[0] for words in calls[before:]] == ["--oneliner"]
    outcome(monkeypatch, "health", [])
    assert calls[-1] == ["update", "NodeName=n", "State=RESUME"]


def test_a_prolog_that_fails_drains_first_and_then_refuses_the_job(monkeypatch, node):
    calls, _ = node
    assert outcome(monkeypatch, "prolog", ["/shared is not mounted"]) == 1
    assert calls[-1][2] == "State=DRAIN"


def test_a_prolog_of_a_fit_node_asks_nobody(monkeypatch, node):
    calls, _ = node
    assert outcome(monkeypatch, "prolog", []) == 0
    assert calls == []


def test_an_epilog_drains_and_lets_the_job_end(monkeypatch, node):
    calls, _ = node
    assert outcome(monkeypatch, "epilog", ["GPU 3: lost"]) == 0
    assert calls[-1][2] == "State=DRAIN"


def test_a_slurmctld_that_does_not_answer_is_asked_again_next_time(monkeypatch, node):
    monkeypatch.setattr(check.Slurm, "scontrol", lambda *_: check.Ended(None, "", ""))
    assert outcome(monkeypatch, "health", []) == 0
    assert not check.MARK.exists()


def test_a_drain_whose_answer_was_lost_is_taken_back_when_its_cause_is_gone(monkeypatch, node):
    calls, answers = node
    outcome(monkeypatch, "health", [])
    asked = check.Slurm.scontrol

    def lost(self, *words):
        asked(self, *words)
        return check.Ended(None if words[0] == "update" else 0, answers["show"], "")

    monkeypatch.setattr(check.Slurm, "scontrol", lost)
    outcome(monkeypatch, "health", ["GPU 3: lost"])
    monkeypatch.setattr(check.Slurm, "scontrol", asked)
    answers["show"] = "NodeName=n State=IDLE+DRAIN \n   Reason=bringup: GPU 3: lost [root@2026-11-21T10:00:00]\n"
    outcome(monkeypatch, "health", [])
    assert calls[-1] == ["update", "NodeName=n", "State=RESUME"]


@pytest.mark.parametrize("problems", [[], ["GPU 3: lost"]])
def test_a_health_check_that_an_api_server_refuses_fails_and_is_made_again(monkeypatch, node, problems: list[str]):
    def refused(*_):
        raise check.SchedulerError("the API server refuses GET: Unauthorized")

    check.CONFIG.write_text(json.dumps({**CONFIG, "kubernetes": {"server": "https://api"}}))
    monkeypatch.setattr(check.Kubernetes, "call", refused)
    assert [outcome(monkeypatch, "health", problems) for _ in range(2)] == [1, 1]
    monkeypatch.setattr(check.Kubernetes, "call", lambda *_: NODE)
    assert outcome(monkeypatch, "health", problems) == 0


def test_a_person_who_cordons_a_node_that_is_not_fit_keeps_the_cordon_when_its_cause_is_gone(monkeypatch, node):
    live: dict[str, dict[str, Any]] = {"spec": {}, "metadata": {"resourceVersion": "1"}}

    def call(_self, _verb, body=None):
        if body:
            live["spec"] = {**live["spec"], **body["spec"]}
            live["metadata"] = {**live["metadata"], **body["metadata"]}
        return live

    check.CONFIG.write_text(json.dumps({**CONFIG, "kubernetes": {"server": "https://api"}}))
    monkeypatch.setattr(check.Kubernetes, "call", call)
    outcome(monkeypatch, "health", ["GPU 3: lost"])
    assert [one["key"] for one in live["spec"]["taints"]] == [check.OUT_OF_SERVICE]
    live["spec"]["unschedulable"] = True
    outcome(monkeypatch, "health", [])
    assert live["spec"] == {"taints": [], "unschedulable": True}


NODE = {"spec": {}, "metadata": {"resourceVersion": "1"}}
"""A node in service, as the API server has it."""
