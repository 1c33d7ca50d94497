"""The checks of training: a healthy recording passes them all, and each thing that goes wrong fails its check by name."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from capacity.model import Plan
from inventory.paths import repo_root
from tests.plans import plan_of
from tests.validation.recordings import ZERO, end_event, made
from validation import rejudge
from validation.check import Outcome
from validation.checks import test_training as checks
from validation.evidence.record import Kind, Record
from validation.facts import Answer, Facts
from validation.register import load_register
from validation.runners.training import STEPS, Recording

CHECKS = {
    function.__check__.item: function
    for function in vars(checks).values()
    if getattr(getattr(function, "__check__", None), "item", None)
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


def judge(item: str, plan: Plan, recording: Recording) -> Outcome:
    return CHECKS[item]("site", plan, recording, Facts())


@pytest.mark.parametrize("item", sorted(CHECKS))
def test_a_healthy_rehearsal_passes(item: str, plan: Plan):
    outcome = judge(item, plan, made())
    assert outcome.passed, outcome.detail
    assert contradiction(item, outcome, plan) is None


def contradiction(item: str, outcome: Outcome, plan: Plan) -> str | None:
    """Why the gate would call a record of an outcome a failure by its own numbers."""
    step, kind = item.split(".")
    limit, now = outcome.limit, datetime.now(UTC)
    given: dict[str, Any] = {"limit": limit.value, "limit_source": limit.source} if limit else {}
    value = json.loads(json.dumps(outcome.value))
    record = Record(
        step, cast(Kind, kind), "site", "PASSED", now, now, "t", "1", value=value, unit=outcome.unit, **given
    )
    return rejudge.fault(load_register().items[item], record, plan.site) or rejudge.limit_changed(record, plan.site)


SMOKE = sorted(set(CHECKS) - {"S188.measured"})


@pytest.mark.parametrize("item", SMOKE)
def test_a_smoke_run_passes_without_any_outage(item: str, plan: Plan):
    recording = made()
    del recording.metrics["interrupted"], recording.jobs["interrupted"]
    recording.outage, recording.states, recording.sightings = {}, [], []
    outcome = judge(item, plan, recording)
    assert outcome.passed, outcome.detail


def test_a_rank_that_lost_its_power_may_have_written_nothing(plan: Plan):
    recording = made()
    recording.metrics["interrupted"]["2"] = recording.metrics["interrupted"]["2"][-STEPS:]
    assert "ranks said" not in judge("S188.measured", plan, recording).detail


@pytest.mark.parametrize("item", sorted(CHECKS))
def test_a_rehearsal_that_could_not_start_fails_with_the_reason(item: str, plan: Plan):
    outcome = judge(item, plan, Recording(["gpu001"], problems=["ctl01: sbatch: no answer"]))
    assert not outcome.passed
    assert "ctl01: sbatch: no answer" in outcome.detail


def another_bit(r: Recording) -> None:
    r.metrics["interrupted"]["0"][-1] = end_event(0, 1, ZERO + 33, 0.8000000000000002)


def from_the_beginning(r: Recording) -> None:
    for rank in r.metrics["interrupted"].values():
        for event in rank:
            if event["event"] == "resume":
                event["step"] = 0


def late(r: Recording) -> None:
    for rank in r.metrics["interrupted"].values():
        for event in rank:
            if event["attempt"] == 1:
                event["time"] += 1000


def other_loss_alone(r: Recording) -> None:
    r.metrics["alone"]["0"][-1] = end_event(0, 0, ZERO + 9, 0.9)


def node_lost_for_good(r: Recording) -> None:
    r.problems.append("gpu003: come back: expected idle in Slurm")


def above_target(r: Recording) -> None:
    r.metrics["undisturbed"]["0"][-1] = end_event(0, 0, 805.0, 2.5)


def costly(r: Recording) -> None:
    r.metrics["undisturbed"]["2"][-1]["observing_s"] = 0.2


def slow_elsewhere(r: Recording) -> None:
    for rank, steps in r.metrics["undisturbed"].items():
        for event in steps:
            if event["event"] == "step" and 30 < event["step"] <= 40:
                event["compute_s"] = 0.2 if rank == "2" else 0.06


def silent_rank(r: Recording) -> None:
    del r.metrics["undisturbed"]["2"]


def nobody_waits(r: Recording) -> None:
    for rank in ("0", "2"):
        for event in r.metrics["undisturbed"][rank]:
            if event["event"] == "step":
                event["communication_s"] = 0.02


def delay_in_the_wrong_part(r: Recording) -> None:
    for event in r.metrics["undisturbed"]["1"]:
        if event["event"] == "step":
            event |= {"compute_s": 0.06, "data_s": 0.15}


def checkpoints_slower_than_their_interval(r: Recording) -> None:
    for event in r.metrics["undisturbed"]["0"]:
        if event["event"] == "checkpoint":
            event["total_s"] = 700.0


def no_number(r: Recording) -> None:
    r.metrics["interrupted"]["1"][4]["gradient_norm"] = float("inf")


def no_detector(r: Recording) -> None:
    r.metrics["undisturbed"]["0"][0]["detectors"] = ["diverged"]


def disk_full(r: Recording) -> None:
    r.metrics["undisturbed"]["0"].append(
        {"event": "checkpoint failed", "attempt": 0, "rank": 0, "step": 30, "error": "/shared: No space left on device"}
    )


def one_rank_on_a_gpu(r: Recording) -> None:
    r.metrics["undisturbed"]["2"][0] |= {"device": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1"}


def long_stall(r: Recording) -> None:
    next(e for e in r.metrics["undisturbed"]["0"] if e["event"] == "checkpoint")["stall_s"] = 61.0


@pytest.mark.parametrize(
    ("item", "harm", "said"),
    [
        (
            "S188.measured",
            another_bit,
            "final loss: 0x1.999999999999ap-1 undisturbed, 0x1.999999999999bp-1 interrupted",
        ),
        ("S188.measured", from_the_beginning, "started from the beginning"),
        ("S188.measured", late, "resumed after 1030 s"),
        ("S188.measured", other_loss_alone, "on one node the loss differs by 12.50 %, more than 1 %"),
        ("S188.measured", node_lost_for_good, "gpu003: come back"),
        ("S186.measured", above_target, "3 nodes end at 2.500"),
        ("S176.measured", costly, "metrics: 5.00 %"),
        ("S179.observed", slow_elsewhere, "rank 1 was slowed in steps 31-40; named are {'31-40': 2}"),
        ("S179.measured", silent_rank, "2 of 3 ranks wrote steps"),
        ("S179.measured", nobody_waits, "rank 0: 0 % of the delay of rank 1 is in its communication_s"),
        ("S179.measured", delay_in_the_wrong_part, "rank 1: 0 % of the delay of rank 1 is in its compute_s"),
        (
            "S181.computed",
            checkpoints_slower_than_their_interval,
            "a checkpoint every 600 s, and one takes 700.00 s to be durable",
        ),
        ("S177.observed", no_number, "gradient_norm is inf"),
        ("S177.observed", no_detector, "detectors silent in jobs 7"),
        ("S181.measured", disk_full, "1 failed, first: /shared: No space left on device"),
        (
            "S186.measured",
            one_rank_on_a_gpu,
            "run undisturbed: rank 2 on gpu003 computed on NVIDIA H100 80GB HBM3, site ",
        ),
        ("S181.measured", long_stall, "training waited 61.000 s at most"),
    ],
)
def test_what_goes_wrong_fails_its_check_by_name(item: str, harm: Callable[[Recording], None], said: str, plan: Plan):
    recording = made()
    harm(recording)
    outcome = judge(item, plan, recording)
    assert not outcome.passed
    assert said in outcome.detail


def test_the_story_in_the_evidence_is_what_the_page_draws(plan: Plan):
    outcome = judge("S188.measured", plan, made())
    assert isinstance(outcome.value, dict)
    assert outcome.value["lost_steps"] == 6
    assert len(outcome.value["curves"]["undisturbed"]) == STEPS
    assert Recording.from_json(outcome.raw or b"") == made()


def test_a_straggler_is_named_with_node_slot_and_serial(plan: Plan):
    recording = made()
    recording.metrics["undisturbed"]["1"][0]["uuid"] = "GPU-1"
    gpu = {"uuid": "GPU-1", "name": "NVIDIA H100", "module_id": 5, "serial": "S5", "error": ""}
    facts = Facts(nodes={"gpu002": Answer("gpu002", "ssh", data={"gpus": {"devices": [gpu]}})})
    outcome = CHECKS["S179.observed"]("site", plan, recording, facts)
    assert outcome.detail.startswith(
        "rank 1 (gpu002 slot 5, serial S5), slowed by 150 ms in steps 31-40, is named there"
    )


def test_the_interval_follows_from_the_write_time_and_the_sites_gpus(plan: Plan):
    value = judge("S181.computed", plan, made()).value
    assert isinstance(value, dict)
    assert value["gpus"] == 32
    assert value["interval_s"] == pytest.approx((2 * 0.21 * 50678 / 32 * 3600) ** 0.5)


def test_a_site_that_does_not_allow_it_is_left_alone_and_told_why():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "validation/checks/test_training.py",
            "--site",
            "b200-256-roce",
            "--no-record",
            "-rs",
            "-p",
            "no:cacheprovider",
        ],
        cwd=repo_root(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert "1 skipped" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert "NOT RUN: it cuts a GPU server's power at its PDU outlets" in " ".join(done.stdout.split())


def test_an_interval_longer_than_the_time_between_interruptions_fails(plan: Plan):
    often = plan.site.limits["gpu_mtti_h"].model_copy(update={"value": 4.0})
    site = plan.site.model_copy(update={"limits": {**plan.site.limits, "gpu_mtti_h": often}})
    outcome = judge("S181.computed", dataclasses.replace(plan, site=site), made())
    assert not outcome.passed
    assert "a checkpoint every 0.166667 h, and a job on all 32 GPUs is interrupted every 0.12 h" in outcome.detail
