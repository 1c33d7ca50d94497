"""Training: a run that falls to its target, and the same run again with a node losing its power in the middle.

The smoke run, which also runs at each scale, needs no leave to cut power; S188 alone does. Both are recordings
(validation/runners/training.py), where power may be cut the same one; validation/training_story.py and training_scales.py compute
what is judged.
"""

import functools
import inspect
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from capacity.model import Plan
from capacity.outputs.summary import part
from validation import training_scales
from validation import training_story as story
from validation.check import Limit, Outcome, check, site_limit
from validation.collectives import gpu_named
from validation.evidence import Identity
from validation.evidence.results import RUN
from validation.facts import Facts
from validation.facts.gather import identities
from validation.facts.node_results import left_unsigned
from validation.runners.training import Recording

INPUTS = (
    "frame.devices",
    "frame.cables",
    "frame.outlets",
    "site.scheduler",
    "site.tiers",
    "site.storage",
    "site.gpu",
    "site.limits",
    "site.validation",
    "site.versions",
    "assets",
)
MOST_PROBLEMS = 5
"""In how much a recording differs from the plan that a sentence names."""
SETUP = "jobs of the site's scheduler with validation/workloads/training.py"


def touched(plan: Plan, facts: Facts, rehearsal: Recording) -> tuple[Identity, ...]:
    """Who took part: the nodes that trained, and the devices that took the power and told of it."""
    victim = rehearsal.outage.get("victim", "")
    pdus = plan.outlets.loc[plan.outlets["device"] == victim, "pdu"].unique()
    answers = [facts.nodes.get(name) for name in rehearsal.gpu_nodes]
    answers += [facts.pdus.get(str(pdu)) for pdu in pdus] + [facts.bmcs.get(victim)]
    return identities(answers)


def as_planned(item: str) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """The judgement, with the configuration of the runs; FAILED where they did not run as planned, or did not write all of it."""

    def wrapped(judge: Callable[..., Outcome]) -> Callable[..., Outcome]:
        @functools.wraps(judge)
        def judged(*arguments: Any, **named: Any) -> Outcome:
            outcome = judge(*arguments, **named)
            given = inspect.signature(judge).bind(*arguments, **named).arguments
            plan = given["plan"]
            recording = next(value for value in given.values() if isinstance(value, Recording))
            problems = story.unplanned(plan, recording, item)[:MOST_PROBLEMS] if recording.metrics else []
            if problems:
                detail = "; ".join([*problems, *([] if outcome.passed else [outcome.detail])])
                outcome = replace(outcome, passed=False, detail=detail)
            last = story.ran(recording, "undisturbed")[-1:]
            configuration = last[0].configuration() if last else {}
            if outcome.raw is None:
                return replace(outcome, configuration=configuration)
            if outcome.passed and recording.unsigned:
                left_open = left_unsigned(recording.unsigned, recording.unsigned)
                outcome = replace(outcome, detail="; ".join([outcome.detail, *left_open]))
            configuration |= {RUN: recording.run} if recording.run else {}
            return replace(outcome, configuration=configuration, identities=(*outcome.identities, *recording.signed))

        return judged

    return wrapped


def lacking(error: story.Incomplete, limit: Limit | None = None) -> Outcome:
    return Outcome(False, None, str(error), limit=limit)


@check("S186.measured", inputs=(*INPUTS, "site.server"))
@as_planned("S186.measured")
def test_training_loss_reaches_its_target_at_each_scale(
    subject: str, plan: Plan, smoke: Recording, facts: Facts
) -> Outcome:
    limit = site_limit(plan.site, "training_loss_max_nats")
    try:
        found = training_scales.told(plan, smoke)
    except story.Incomplete as error:
        return lacking(error, limit)
    missed = training_scales.problems(plan, found)
    started = story.events(smoke, "undisturbed", "start")[-1]
    worst = max(row["loss"] for row in found["scales"])
    detail = "; ".join(missed) or (
        f"loss falls from {started['start_loss']:.2f} to {worst:.3f} nats at most, {started['device']} over "
        f"{started['backend']}; the corpus allows no less than {started['loss_floor']:.2f}; {training_scales.summary(found)}"
    )
    return Outcome(
        not missed,
        found,
        detail,
        unit="nats",
        limit=limit,
        identities=touched(plan, facts, smoke),
        raw=smoke.as_json(),
        command=SETUP,
    )


@check("S188.measured", inputs=INPUTS)
@as_planned("S188.measured")
def test_interrupted_run_ends_bit_identical_to_the_undisturbed_one(
    subject: str, plan: Plan, rehearsal: Recording, facts: Facts
) -> Outcome:
    recovery = site_limit(plan.site, "training_recovery_s")
    found = touched(plan, facts, rehearsal)
    try:
        told = story.tell(rehearsal)
        story.end_of(rehearsal, "alone")
    except story.Incomplete as error:
        return Outcome(
            False, None, str(error), limit=recovery, identities=found, raw=rehearsal.as_json(), command=SETUP
        )
    off_pct = story.alone_off_pct(rehearsal)
    problems = story.unrecovered(plan, rehearsal, told)
    final = told.finals["interrupted"]
    detail = "; ".join(problems) or (
        f"{told.victim} lost power after step {told.cut_after_step}; {told.first_by} noticed after {told.stages['noticed']:.1f} s; "
        f"training went on with {told.spare} from step {told.resumed_step} after {told.recovery_s:.1f} s; lost {told.lost_steps} "
        f"steps ({told.lost_s:.1f} s); final loss {final['loss_hex']} in both runs, parameters {final['parameters_sha256'][:12]}; "
        f"resumed by one node instead of {len(told.before)}: loss within {off_pct:.1g} %"
    )
    return Outcome(
        not problems,
        {**told.as_dict(), "alone_off_pct": off_pct},
        detail,
        unit="s",
        limit=recovery,
        identities=found,
        raw=rehearsal.as_json(),
        command=SETUP,
    )


@check("S177.observed", inputs=INPUTS)
@as_planned("S177.observed")
def test_losses_are_finite_and_fault_detectors_work(
    subject: str, plan: Plan, smoke: Recording, facts: Facts
) -> Outcome:
    runs = sorted(smoke.metrics)
    faults = story.series_faults(smoke)
    starts = [start for run in runs for start in story.events(smoke, run, "start")]
    if not starts:
        return lacking(story.Incomplete("no run wrote metrics: " + "; ".join(smoke.problems)))
    problems = [*faults[:5], *story.silent_detectors(smoke)]
    last = story.events(smoke, runs[-1], "step")[-1]
    value = {"runs": runs, "faults": len(faults), "accuracy": last["accuracy"], "detectors": starts[0]["detectors"]}
    detail = "; ".join(problems) or (
        f"loss, accuracy, learning rate and gradient norm of {len(starts)} attempts are finite and ascend step by step "
        f"(final accuracy {last['accuracy']:.2f}); each attempt's detectors named a loss that is no number and one that climbs"
    )
    return Outcome(not problems, value, detail, identities=touched(plan, facts, smoke), raw=smoke.as_json())


@check("S176.measured", inputs=INPUTS)
@as_planned("S176.measured")
def test_metrics_overhead_is_within_limit(subject: str, plan: Plan, smoke: Recording, facts: Facts) -> Outcome:
    limit = site_limit(plan.site, "training_metrics_pct")
    try:
        shares = story.metrics_pct(smoke, "undisturbed")
    except story.Incomplete as error:
        return lacking(error, limit)
    worst = max(shares.values())
    return Outcome(
        worst < float(limit.value),
        shares,
        f"metrics: {worst:.2f} % of training time at most",
        unit="%",
        limit=limit,
        identities=touched(plan, facts, smoke),
        raw=smoke.as_json(),
    )


@check("S179.measured", inputs=INPUTS)
@as_planned("S179.measured")
def test_every_rank_reports_its_step_time_breakdown(
    subject: str, plan: Plan, smoke: Recording, facts: Facts
) -> Outcome:
    parts = story.split(smoke, "undisturbed")
    wanted = int(smoke.settings.get("nodes", 0)) * smoke.processes_per_node
    if not parts or len(parts) < wanted:
        return lacking(story.Incomplete(f"{len(parts)} of {wanted} ranks wrote steps: {'; '.join(smoke.problems)}"))
    limit = site_limit(plan.site, "training_delay_seen_pct")
    seen_pct = story.delay_seen_pct(smoke, "undisturbed")
    slow = smoke.settings["slow"]
    problems = [
        f"rank {rank}: {share:.0f} % of the delay of rank {slow['rank']} is in its {story.DELAYED_PART[rank == slow['rank']]}"
        for rank, share in seen_pct.items()
        if share < float(limit.value)
    ]
    waits = {rank: part["communication_s"] / part["step_s"] for rank, part in parts.items()}
    text = ", ".join(f"rank {rank} {share:.0%}" for rank, share in waits.items())
    detail = "; ".join(problems) or (
        f"{slow['ms']} ms injected into rank {slow['rank']} show in its compute and in the others' communication, "
        f"{min(seen_pct.values()):.0f} % of it at least; exposed communication, of a step: {text}"
    )
    value = {str(rank): {**part, "delay_seen_pct": seen_pct[rank]} for rank, part in parts.items()}
    return Outcome(
        not problems,
        value,
        detail,
        unit="s",
        limit=limit,
        identities=touched(plan, facts, smoke),
        raw=smoke.as_json(),
    )


@check("S179.observed", inputs=INPUTS)
@as_planned("S179.observed")
def test_straggler_is_identified(subject: str, plan: Plan, smoke: Recording, facts: Facts) -> Outcome:
    named = story.stragglers(smoke, "undisturbed")
    slow = smoke.settings.get("slow")
    if not slow:
        return lacking(story.Incomplete("nothing ran: " + "; ".join(smoke.problems)))
    window = "-".join(map(str, slow["steps"]))
    right = named.get(window) == slow["rank"]
    gpus = {rank.number: gpu_named(rank, facts) for ran in story.ran(smoke, "undisturbed") for rank in ran.each}
    others = {key: gpus.get(rank, rank) for key, rank in named.items() if key != window}
    at = f" ({gpus[slow['rank']]})" if slow["rank"] in gpus else ""
    detail = (
        f"rank {slow['rank']}{at}, slowed by {slow['ms']} ms in steps {window}, is named there"
        + (f"; also above the others: {others}" if others else "; nobody else is, elsewhere")
        if right
        else f"rank {slow['rank']} was slowed in steps {window}; named are {named or 'nobody'}"
    )
    return Outcome(right, named, detail, identities=touched(plan, facts, smoke), raw=smoke.as_json())


@check("S181.measured", inputs=INPUTS)
@as_planned("S181.measured")
def test_checkpoint_stall_is_within_plan(subject: str, plan: Plan, smoke: Recording, facts: Facts) -> Outcome:
    allowed = plan.site.storage.checkpoint.stall_s
    limit = Limit(allowed, "s", "site storage.checkpoint.stall_s")
    failed = [e for run in smoke.metrics for e in story.events(smoke, run, "checkpoint failed")]
    try:
        value = story.checkpoints(smoke)
    except story.Incomplete as error:
        return lacking(error, limit)
    stall_s = value["stall_s_max"]
    detail = (
        f"{value['count']} checkpoints of {value['bytes'] / 1e6:.1f} MB, each durable on the shared storage in "
        f"{value['total_s_median']:.2f} s ({value['gb_s_median']:.3f} GB/s); training waited {stall_s:.3f} s at most"
        + (f"; {len(failed)} failed, first: {failed[0]['error']}" if failed else "")
    )
    return Outcome(
        stall_s <= allowed and not failed,
        value,
        detail,
        unit="s",
        limit=limit,
        identities=touched(plan, facts, smoke),
        raw=smoke.as_json(),
    )


@check("S181.computed", inputs=(*INPUTS, "frame.bom"))
@as_planned("S181.computed")
def test_checkpoint_interval_follows_from_checkpoint_cost(
    subject: str, plan: Plan, smoke: Recording, facts: Facts
) -> Outcome:
    per_gpu = site_limit(plan.site, "gpu_mtti_h")
    written = story.events(smoke, "undisturbed", "checkpoint")
    if not written:
        return lacking(story.Incomplete("no checkpoint was written: " + "; ".join(smoke.problems)), per_gpu)
    gpus = int(part(plan, "devices")["gpus"])
    mtti_s = float(per_gpu.value) * 3600 / gpus
    total_s = statistics.median(e["total_s"] for e in written)
    interval_s = story.checkpoint_interval_s(total_s, mtti_s)
    planned_min = plan.site.storage.checkpoint.interval_min
    planned_s = None if planned_min is None else planned_min * 60
    value = {
        "interval_s": interval_s,
        "planned_interval_s": planned_s,
        "write_s": total_s,
        "mtti_h": mtti_s / 3600,
        "gpus": gpus,
    }
    problems = []
    if planned_s is None:
        problems.append("storage.checkpoint.interval_min is not given: no interval to compare with")
    else:
        if planned_s < total_s:
            problems.append(f"a checkpoint every {planned_s:g} s, and one takes {total_s:.2f} s to be durable")
        if planned_s > mtti_s:
            often = f"a checkpoint every {planned_s / 3600:g} h"
            problems.append(f"{often}, and a job on all {gpus} GPUs is interrupted every {mtti_s / 3600:.2f} h")
    detail = "; ".join(problems) or (
        f"a job on all {gpus} GPUs is interrupted every {mtti_s / 3600:.0f} h; with {total_s:.2f} s a checkpoint, one every "
        f"{interval_s / 60:.0f} min loses least: sqrt(2 x {total_s:.2f} s x {mtti_s:.0f} s); planned: {planned_min:g} min"
    )
    return Outcome(not problems, value, detail, unit="s", limit=per_gpu, identities=touched(plan, facts, smoke))
