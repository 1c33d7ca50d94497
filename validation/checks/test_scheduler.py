"""The scheduler: registered nodes, all-or-nothing starts, job dependencies, and collectives over all nodes."""

import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict

from capacity.model import Plan
from capacity.storage.load import shared
from network.drivers.errors import DeviceError
from validation import readings
from validation.check import Limit, Outcome, check, site_limit
from validation.checks.conftest import SlurmNodes, Sweep
from validation.collectives import compared, expected, gpu_named, links_of
from validation.collectives import problems as bandwidth_problems
from validation.evidence import Identity
from validation.facts import Facts
from validation.facts.gather import identities
from validation.facts.node_results import left_unsigned, side_by_side
from validation.runners import slurm_stages, stages
from validation.runners.engine import Job, Ran, Rank, named, workload_of
from validation.runners.slurm import Slurm

WHOLE_STARTS = {"SchedulerType": "sched/backfill", "SelectType": "select/cons_tres"}
"""What S159 rests on, as role `slurm_config` writes it: sched/builtin holds no nodes for a large job that waits, and only
select/cons_tres grants GPUs (slurm.conf(5))."""
HOLD = "#!/bin/bash\nexec sleep 60\n"


def gpu_nodes(plan: Plan) -> list[str]:
    return plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()


@check("S156.applied", inputs=("site.scheduler", "site.versions", "frame.devices", "assets"), manager="slurm")
def test_node_is_registered_with_its_hardware(
    subject: str, plan: Plan, facts: Facts, slurm_nodes: SlurmNodes
) -> Outcome:
    node = facts.nodes[subject]
    if node.error:
        return Outcome(False, None, node.error)
    known = slurm_nodes.known
    if slurm_nodes.error:
        return Outcome(False, None, slurm_nodes.error, identities=node.identities)
    if subject not in known:
        return Outcome(False, None, f"the controller does not know {subject}", identities=node.identities, raw=node.raw)
    seen, slurm = known[subject], node.data.get("slurm", {})
    pin = plan.site.versions.get("slurm")
    detected_mib = int(slurm.get("detected", {}).get("RealMemory", 0))
    model = str(plan.devices.loc[plan.devices["name"] == subject, "model"].iloc[0])
    facts_of_model = plan.catalog.device(model).bringup
    cores, gpus = facts_of_model.cores, facts_of_model.gpus
    problems = [
        *[
            f"slurmdbd does not answer on {name}"
            for name, answer in facts.nodes.items()
            if answer.data.get("slurm", {}).get("accounting_answers") is False
        ],
        *([f"state is {seen.state}"] if not seen.ready else []),
        *([f"slurmd {slurm.get('version')}, pinned {pin}"] if pin and slurm.get("version") != pin else []),
        *(
            [f"{seen.cpus} CPUs configured, the node has {node.data['hardware']['cpus']}"]
            if seen.cpus > node.data["hardware"]["cpus"]
            else []
        ),
        *([f"{seen.memory_mib} MiB configured, slurmd finds {detected_mib}"] if seen.memory_mib > detected_mib else []),
        *(
            [f"Slurm hands out {seen.gres}, the catalogue has {gpus} GPUs for {model}"]
            if gpus and not re.match(rf"gpu:[^:]+:{gpus}(\(|$)", seen.gres)
            else []
        ),
        *(
            [f"Slurm hands out {seen.cpus} CPUs, the catalogue has {cores} for {model}"]
            if cores and seen.cpus != cores
            else []
        ),
    ]
    value = {"state": seen.state, "cpus": seen.cpus, "memory_mib": seen.memory_mib, "gres": seen.gres}
    detail = "; ".join(problems) or f"{seen.state}, {seen.cpus} CPUs, {seen.memory_mib} MiB, gres {seen.gres}"
    return Outcome(not problems, value, detail, identities=node.identities, raw=node.raw)


def all_identities(plan: Plan, facts: Facts) -> tuple[Identity, ...]:
    return identities([facts.nodes.get(name) for name in gpu_nodes(plan)])


@check("S159.applied", inputs=("site.scheduler", "assets", "frame.devices"), manager="slurm")
def test_jobs_never_share_nodes_in_time(subject: str, plan: Plan, facts: Facts, scheduler: Slurm) -> Outcome:
    try:
        config = scheduler.config()
    except DeviceError as error:
        return Outcome(False, None, str(error))
    keys = ("SchedulerType", "SelectType", "PreemptMode", "SlurmctldDebug")
    value = {key: config.get(key, "") for key in keys[:3]}
    problems = [
        *(
            ["PreemptMode has GANG: jobs would share GPUs in time slices (ERR-22)"]
            if "GANG" in value["PreemptMode"].upper()
            else []
        ),
        *[
            f"{key} is {value[key] or 'not told'}, the role writes {wanted}"
            for key, wanted in WHOLE_STARTS.items()
            if value[key] != wanted
        ],
    ]
    detail = "; ".join(problems) or (
        f"{value['SelectType']}, PreemptMode {value['PreemptMode']}: a job starts with all its nodes or not at all"
    )
    return Outcome(
        not problems,
        value,
        detail,
        identities=all_identities(plan, facts),
        raw="\n".join(f"{k} = {v}" for k, v in config.items()).encode(),
    )


@check(
    "S159.measured",
    inputs=("site.scheduler", "frame.devices", "assets", "site.server", "site.versions"),
    manager="slurm",
)
def test_large_jobs_start_whole_or_not_at_all(subject: str, plan: Plan, facts: Facts, scheduler: Slurm) -> Outcome:
    nodes = len(gpu_nodes(plan))
    size = nodes // 2 + 1
    start = site_limit(plan.site, "job_start_s")
    gpus = plan.catalog.device(plan.site.server.model).bringup.gpus
    options = (f"--nodes={size}", "--ntasks-per-node=1", f"--gpus-per-node={gpus}", "--exclusive", "--time=2")
    jobs: list[int] = []
    try:
        jobs = [scheduler.start(HOLD, *options, f"--job-name=bringup-half-{k}") for k in (1, 2)]
        first = wait_running(scheduler, jobs, float(start.value))
        shown = {job: scheduler.show(job) for job in jobs}
        scheduler.cancel(*[job for job in jobs if job == first])
        second = [job for job in jobs if job != first]
        later = wait_running(scheduler, second, float(start.value)) if first else 0
    except DeviceError as error:
        return Outcome(False, None, str(error))
    finally:
        scheduler.cancel(*jobs)
    if not first:
        return Outcome(False, None, f"neither job started in {start}", limit=start)
    waiting = shown[second[0]]
    partly = waiting.get("JobState") != "PENDING" or int(shown[first].get("NumNodes", "0").split("-")[0]) != size
    value = {"nodes_each": size, "of": nodes, "second_waited_for": waiting.get("Reason"), "second_started": bool(later)}
    ok = not partly and bool(later)
    detail = (
        f"the first had {size} of {nodes} nodes, the second waited ({waiting.get('Reason')}) and started when they were free"
        if ok
        else f"second job: {waiting.get('JobState')} on {waiting.get('NodeList') or 'no nodes'}, started later: {bool(later)}"
    )
    return Outcome(ok, value, detail, limit=start, identities=all_identities(plan, facts), raw=repr(shown).encode())


def wait_running(scheduler: Slurm, jobs: list[int], budget_s: float) -> int:
    """The first of the jobs that runs, or 0 when none does within the budget."""
    end = time.monotonic() + budget_s
    while time.monotonic() < end:
        for job in jobs:
            if scheduler.show(job).get("JobState") == "RUNNING":
                return job
        time.sleep(0.5)
    return 0


@check(
    "S165.measured",
    inputs=("site.scheduler", "site.storage", "assets", "frame.devices", "site.versions"),
    manager="slurm",
)
def test_stages_hand_on_by_hash_and_a_failed_one_stops_its_chain(
    subject: str, plan: Plan, facts: Facts, scheduler: Slurm
) -> Outcome:
    budget = site_limit(plan.site, "job_start_s")
    folder = f"{shared(plan.site, plan.devices).mount_point}/jobs/bringup-stages-{secrets.token_hex(4)}"
    return of_stages(
        lambda: slurm_stages.run(scheduler, folder, float(budget.value)), budget, all_identities(plan, facts)
    )


def of_stages(run: Callable[[], Mapping[str, Job]], budget: Limit, seen: tuple[Identity, ...]) -> Outcome:
    """What is made of jobs in stages, whichever workload manager ran them."""
    try:
        ended = run()
    except DeviceError as error:
        return Outcome(False, None, str(error))
    wrong, said = stages.faults(ended), stages.hashes(ended)
    made = said[stages.CHAIN[-1]].get("made", "")
    good = (
        f"{', '.join(stages.CHAIN)} ran one after the other, each took what the one before it made by its SHA-256, last "
        f"{made[:12]}; a failed stage cancelled its successor"
    )
    return Outcome(
        not wrong,
        {"states": {stage: job.state for stage, job in ended.items()}, "hashes": said},
        "; ".join(wrong) or good,
        limit=budget,
        identities=seen,
        raw=repr(ended).encode(),
    )


@check(
    "S066.measured",
    inputs=(
        "site.scheduler",
        "site.tiers",
        "site.storage",
        "frame.devices",
        "frame.cables",
        "site.gpu",
        "site.limits",
        "site.validation",
        "gpus",
        "assets",
        "site.server",
        "site.versions",
    ),
)
def test_collectives_over_all_gpu_nodes(subject: str, plan: Plan, facts: Facts, collectives: Sweep) -> Outcome:
    limit = site_limit(plan.site, "allreduce_min_algbw_mb_s")
    names = gpu_nodes(plan)
    found = identities([facts.nodes.get(name) for name in names])
    if collectives.error or collectives.report is None or collectives.job is None:
        return Outcome(False, None, collectives.error, limit=limit, identities=found)
    report, workload = collectives.report, workload_of(plan)
    rows, gpu = report["rows"], workload.computes_on == "gpu"
    best = readings.all_reduce_mb_s(rows)
    ran = Ran(report["device"], report["backend"], report["world_size"], tuple(map(Rank.of, report["ranks"])))
    absent = sorted(set(names) - {rank.host for rank in ran.each})
    links = links_of(plan) if gpu else None
    least_pct = plan.site.limits.get("collectives_busbw_pct")
    against, compared_with = compared(collectives.nccl_tests) if gpu else ([], "")
    problems = [
        *workload.mismatches(len(names), ran, "nccl"),
        *bandwidth_problems(links, ran.each, rows, facts, float(least_pct.value) if least_pct else None),
        *([f"not in the job: {', '.join(absent)}"] if absent else []),
        *(["no all-reduce over the whole job was measured"] if best is None else []),
        *([f"all-reduce reaches {best:.1f} MB/s"] if best is not None and best < float(limit.value) else []),
        *against,
    ]
    value = {
        "world_size": report["world_size"],
        "backend": report["backend"],
        "device": report["device"],
        "ranks": [{**said, "gpu": gpu_named(Rank.of(said), facts)} for said in report["ranks"]],
        "rows": rows,
        "all_reduce_mb_s": best,
        "expected": expected(links, rows) if links else [],
        "links": asdict(links) if links else None,
    }
    left_open = [
        *left_unsigned(collectives.kept.unsigned, names),
        *(["bus bandwidth not judged: limits.collectives_busbw_pct is not set"] if links and not least_pct else []),
        *([compared_with] if compared_with else []),
    ]
    good = (
        f"{report['world_size']} ranks on {report['device']} over {report['backend']}: {len(rows)} measurements, all correct, "
        f"all-reduce up to {best or 0:.0f} MB/s"
    )
    return Outcome(
        not problems,
        value,
        "; ".join(problems or [good, *left_open]),
        unit="MB/s",
        limit=Limit(limit.value, limit.unit, limit.source),
        identities=(*found, *collectives.kept.signed.values()),
        raw=side_by_side(collectives.kept.raw, output=collectives.job.output.decode(errors="replace")),
        command=named(plan, collectives.job.job_id),
        configuration={**ran.configuration(), **collectives.configuration},
    )
