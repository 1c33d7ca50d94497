"""The burn-in of GPU nodes: one job of the scheduler on each node, whose results stay there until they are collected.

    started = start(plan, scheduler, store=id)  # submits and returns
    scheduler.standing(list(started.jobs.values()))
    done = collect(plan, scheduler, started)    # BurnIn: the results that each rank kept, joined

A node that dies ends its own job only. The jobs do not depend on who submitted them: what was started is kept in a file
(`keep`, `started_of`), so that another call, hours later, collects it. workloads/burnin.py says what the ranks keep.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from capacity.model import Plan
from inventory.paths import write_file
from network.drivers import answers
from network.drivers.answers import Line, Number, Source, Whole
from network.drivers.errors import DeviceError, UnreadableAnswer
from validation import readings
from validation.check import site_limit
from validation.evidence.results import Place
from validation.facts import node_results
from validation.facts.node_results import Kept, Run
from validation.host_keys import pins_node_keys
from validation.progress import note
from validation.runners.engine import OUTPUT, Drain, Engine, Launch, Load, Standing, workload_of
from validation.runners.reports import BurnInResult, report_of

PROGRAM = Path(__file__).parent.parent / "workloads" / "burnin.py"
FOLDER = "/var/tmp/bringup-burn-in-"
"""Results of a job on its node, followed by the job's number."""
FILE = "burn-in.json"
RESERVATION = "bringup-burn-in"
"""Keeps drained nodes free while they run their burn-in."""
POLL_S, LONGEST_POLL_S = 1.0, 30.0
"""A choice of this program."""


class _File(TypedDict):
    """A started burn-in in its file."""

    site: Line
    began: Number
    duration_s: Number
    jobs: dict[Line, Whole]
    run: NotRequired[Line]
    nonce: NotRequired[Line]
    store: NotRequired[Line]
    reservation: NotRequired[Line]
    drained: NotRequired[dict[Line, Line]]


@dataclass(frozen=True)
class Started:
    """A burn-in under way: when it began (Unix time), how long each load runs, the job of each node, and for which run the
    nodes sign: its name and nonce, '' in one that an earlier version started. store: id of the evidence store that they sign
    for, '' where nothing is recorded.

    drained: nodes that run no other jobs, each with the reason with which it is drained again afterwards. Until then
    `reservation` keeps them free.
    """

    site: str
    began: float
    duration_s: float
    jobs: Mapping[str, int]
    run: str = ""
    nonce: str = ""
    store: str = ""
    reservation: str = ""
    drained: Mapping[str, str] = field(default_factory=dict)

    def run_on(self, plan: Plan) -> Run:
        """The run as nodes of this plan sign it."""
        return Run(Place(self.site, self.store), self.run, self.nonce, bool(self.store) and pins_node_keys(plan))


@dataclass(frozen=True)
class BurnIn:
    """Results of a burn-in.

    report: {"nodes": {node: its ranks, gpus, xids, telemetry_error, device, duration_s}}, see validation/burn_in.py. errors: why
    a node has no result or did not end well. seconds: how long each job ran, as Slurm says. kept: what each node kept and signed,
    for this run. limit_since: when it began, where the site asks for the same length today as then; else None.
    """

    jobs: Mapping[str, int]
    report: Mapping[str, Any]
    errors: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)
    run: Run | None = None
    limit_since: datetime | None = None


# ---- run -------------------------------------------------------------------------------------------------------------
def gpu_nodes(plan: Plan) -> list[str]:
    """Names of the GPU nodes."""
    names: list[str] = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    return names


class NodeNotFree(Exception):
    """A node that is asked for by name and cannot take a job now."""


def in_service(plan: Plan, scheduler: Engine) -> tuple[list[str], dict[str, str]]:
    """(GPU nodes that take jobs, the scheduler's state of each other one)."""
    seen = scheduler.nodes()
    states = {name: seen[name].state if name in seen else f"unknown to {scheduler.title}" for name in gpu_nodes(plan)}
    ready = [name for name in states if name in seen and seen[name].ready]
    return ready, {name: state for name, state in states.items() if name not in ready}


def drains(scheduler: Engine, nodes: Sequence[str]) -> list[Drain]:
    """The drains of those of these nodes that are out of service. NodeNotFree for one that is down or still runs a job."""
    ready = {name for name, node in scheduler.nodes().items() if node.ready}
    found = [scheduler.drain(node) for node in nodes if node not in ready]
    for drain in found:
        if set(drain.words) - {"IDLE", "DRAIN", "DRAINED"}:
            raise NodeNotFree(f"{drain.node} is {drain.state} ({drain.reason}): it can take no job now")
    return found


def start(
    plan: Plan,
    scheduler: Engine,
    nodes: Sequence[str] | None = None,
    drained: Sequence[Drain] = (),
    *,
    store: str = "",
) -> Started:
    """Submit the load of these GPU nodes, all by default, in the site's length. DeviceError where the scheduler does not take it.

    Jobs of `drained` nodes go into a reservation of theirs and wait for `open_up`. store: as for node_results.begin.
    """
    duration_s = _duration_s(plan)
    spare_s = float(site_limit(plan.site, "job_start_s").value)
    results = f"{FOLDER}{{job}}"
    run = node_results.begin(plan, "burn-in", store)
    load = Load(
        "bringup-burn-in",
        1,
        workload_of(plan),
        PROGRAM,
        (
            Launch(
                (
                    "--duration-s",
                    f"{duration_s:g}",
                    "--sample-s",
                    f"{readings.sample_s(duration_s):g}",
                    "--results",
                    results,
                )
            ),
        ),
        limit_min=max(1, math.ceil((duration_s + 2 * spare_s) / 60)),
        exclusive=True,
        again=False,
        results=results,
        run=run,
    )
    again = {drain.node: drain.again for drain in drained}
    open_ = [node for node in (gpu_nodes(plan) if nodes is None else nodes) if node not in again]
    started = Started(plan.site.name, time.time(), duration_s, {}, run.name, run.nonce, store)
    if again:
        if scheduler.held(RESERVATION):
            raise NodeNotFree(
                f"a reservation {RESERVATION} is there: another burn-in of drained nodes runs, or one was broken off; when none "
                f"runs: scontrol delete ReservationName={RESERVATION}"
            )
        scheduler.hold(RESERVATION, list(again))
        started = replace(started, reservation=RESERVATION, drained=again)
    try:
        jobs = scheduler.begin_on_each(load, open_) if open_ else {}
        started = replace(started, jobs=jobs)
        if again:
            held = scheduler.begin_on_each(load, list(again), held=started.reservation)
            started = replace(started, jobs={**jobs, **held})
    except DeviceError:
        with suppress(DeviceError):
            scheduler.cancel(*started.jobs.values())
        with suppress(DeviceError):
            close(scheduler, started)
        raise
    return started


def _duration_s(plan: Plan) -> float:
    """How long the site asks each load to run, seconds."""
    return 3600 * float(site_limit(plan.site, "burn_in_run_h").value)


def open_up(scheduler: Engine, started: Started) -> None:
    """Let the drained nodes of a started burn-in take its jobs; their reservation keeps others away."""
    scheduler.admit(list(started.drained))


def close(scheduler: Engine, started: Started) -> None:
    """Drain again what was drained before the burn-in, and release its reservation. A node that something else has drained
    meanwhile keeps that reason."""
    for node, reason in started.drained.items():
        if not scheduler.drain(node).drained:
            scheduler.drain_again(node, reason)
    if started.reservation:
        scheduler.release(started.reservation)


def overdue(plan: Plan, started: Started) -> bool:
    """Whether every job should have ended: the load's time and three times that for a job to start have passed."""
    return time.time() > started.began + _budget_s(plan, started)


def _budget_s(plan: Plan, started: Started) -> float:
    return started.duration_s + 3 * float(site_limit(plan.site, "job_start_s").value)


def give_up(plan: Plan, scheduler: Engine, started: Started) -> list[str]:
    """Cancel jobs that are not over, and wait until they are; the nodes of those that go on."""
    left = running(scheduler.standing(list(started.jobs.values())), started)
    scheduler.cancel(*(started.jobs[node] for node in left))
    end = time.monotonic() + float(site_limit(plan.site, "job_start_s").value)
    while left and time.monotonic() < end:
        scheduler.nap(POLL_S)
        left = running(scheduler.standing(list(started.jobs.values())), started)
    return left


def running(standing: Mapping[int, Standing], started: Started) -> list[str]:
    """Nodes whose job is not over."""
    return [node for node, job in started.jobs.items() if job in standing and not standing[job].ended]


def run(plan: Plan, scheduler: Engine, store: str = "") -> BurnIn:
    """Start the load of all GPU nodes, wait for its end and collect it. Jobs that outlive their time are cancelled."""
    try:
        started = start(plan, scheduler, store=store)
    except DeviceError as error:
        return BurnIn({}, {"nodes": {}}, dict.fromkeys(gpu_nodes(plan), str(error)))
    budget_s = _budget_s(plan, started)
    began = time.monotonic()
    while (waited := time.monotonic() - began) < budget_s:
        scheduler.nap(min(LONGEST_POLL_S, max(POLL_S, waited / 100)))
        with suppress(DeviceError):  # it may restart; asked again until the budget is spent
            left = running(scheduler.standing(list(started.jobs.values())), started)
            if not left:
                break
            note(f"burn-in on {len(left)} of {len(started.jobs)} nodes")
    else:
        with suppress(DeviceError):
            scheduler.cancel(*started.jobs.values())
    done = collect(plan, scheduler, started)
    remove(scheduler, started)
    return done


def collect(plan: Plan, scheduler: Engine, started: Started) -> BurnIn:
    """What the nodes of a burn-in kept, however far it is. A node that does not answer, and a job that did not end well, is in
    `errors`; nothing is removed."""
    errors: dict[str, str] = {}
    try:
        standing = scheduler.standing(list(started.jobs.values()))
    except DeviceError as error:
        standing, errors = {}, dict.fromkeys(started.jobs, str(error))
    run = started.run_on(plan)
    kept, nodes = node_results.collect(plan, scheduler.hosts, started.jobs, FOLDER, OUTPUT, run), {}
    errors |= kept.errors
    ranks = workload_of(plan).ranks_per_node
    for number, (node, job) in enumerate(started.jobs.items()):
        if node not in kept.ranks:
            continue
        stands = standing.get(job)
        if stands and stands.state != "COMPLETED":
            said = answers.text(kept.said[node][-400:]).strip()
            errors[node] = f"job {job} is {stands.state} {stands.reason} after {stands.seconds:.0f} s: {said}"
        try:
            nodes[node] = joined(kept.ranks[node], number * ranks, Source(node, "read the results of the burn-in"))
        except UnreadableAnswer as error:
            errors.setdefault(node, str(error))
    seconds = {node: standing[job].seconds for node, job in started.jobs.items() if job in standing}
    same = started.duration_s == _duration_s(plan)
    limit_since = datetime.fromtimestamp(started.began, UTC) if same else None
    return BurnIn(dict(started.jobs), {"nodes": nodes}, errors, seconds, kept, run, limit_since)


def joined(files: Sequence[str], first: int, source: Source) -> dict[str, Any]:
    """The results of a node's ranks as one; `first` is added to their numbers. UnreadableAnswer where there are none, or odd ones.

    duration_s is the shortest time of a rank whose load came to its end without error, of all ranks where none did.
    """
    results = [report_of(BurnInResult, text.encode(), source) for text in files]
    if not results:
        raise source.unreadable("results of at least one rank", "none")
    whole = [one for one in results if one["ended"] and not one["rank"]["error"]] or results
    watches = [one["watch"] for one in results if one["watch"] is not None]
    watch = watches[0] if watches else {"gpus": [], "xids": [], "telemetry_error": "nobody watched"}
    ranks = [
        {
            **one["rank"],
            "rank": first + one["rank"]["rank"],
            **{key: one[key] for key in ("ended", "phase", "took_s")},
        }
        for one in results
    ]
    return {
        "device": results[0]["device"],
        "duration_s": min(one["took_s"] for one in whole),
        "ranks": ranks,
        **watch,
    }


def remove(scheduler: Engine, started: Started) -> None:
    """Remove what the jobs left on their nodes and in the scheduler; what does not answer keeps it."""
    with suppress(DeviceError):
        scheduler.forget(*started.jobs.values())
    node_results.remove(scheduler.hosts, started.jobs, FOLDER, OUTPUT)


# ---- a burn-in that outlives its caller ------------------------------------------------------------------------------
class UnreadableRunError(Exception):
    """The file of a started burn-in is not what `keep` wrote."""


def keep(folder: Path, started: Started) -> Path:
    """Write what was started into the site's folder of outputs; the file."""
    return write_file(folder / "validation" / FILE, json.dumps(asdict(started), indent=1) + "\n", durable=True)


def started_of(folder: Path, plan: Plan) -> Started | None:
    """The burn-in that was started and not judged yet; None if there is none. UnreadableRunError names the file and what to do."""
    path = folder / "validation" / FILE
    if not path.is_file():
        return None
    source = Source(str(path), "read the burn-in that was started")
    try:
        told: Any = answers.read(_File, answers.load(path.read_text(errors="replace"), source), source)
    except (UnreadableAnswer, OSError) as error:
        raise UnreadableRunError(f"{error}; set the file aside, then start the burn-in again") from None
    if told["site"] != plan.site.name or not {*told["jobs"], *told.get("drained", ())} <= set(gpu_nodes(plan)):
        raise UnreadableRunError(
            f"{path}: a burn-in of {told['site']} with nodes that the plan does not have; set the file aside, then start "
            "the burn-in again"
        )
    return Started(**told)


def forget(folder: Path, scheduler: Engine, started: Started) -> None:
    """The burn-in was judged: drain again what was drained, remove its results from the nodes, and its file."""
    close(scheduler, started)
    remove(scheduler, started)
    (folder / "validation" / FILE).unlink(missing_ok=True)
