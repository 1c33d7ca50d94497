"""What a recording of the training rehearsal tells: who noticed the outage when, what it cost, and whether the bits agree.

Pure functions of a Recording (validation/runners/training.py). Times in the results are seconds after the power cut;
what happened before it is negative.
"""

import json
import math
import statistics
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from capacity.model import Plan
from validation.check import site_limit
from validation.runners.engine import Ran, Rank, workload_of
from validation.runners.training import SCALE_RUNS, Recording, Shape, events_of, scales_of, settings_of, shapes_of
from validation.runners.training import SCHEMA_VERSION as RECORDED

SCHEMA_VERSION = 1
STRAGGLER = 1.5
"""A rank is called a straggler when its median compute time is so many times that of the median rank."""
SHOWN = 5
"""Ranks that a sentence names."""
WINDOW = 10
"""Steps over which the ranks' compute times are compared."""
PARTS = ("data_s", "compute_s", "communication_s", "checkpoint_stall_s")
Event = Mapping[str, Any]


class Incomplete(Exception):
    """The recording lacks what was asked of it; the text says what and why."""


# ---- reading a run ---------------------------------------------------------------------------------------------------
def ranks(recording: Recording, run: str) -> list[int]:
    """Ranks that wrote metrics of a run."""
    return sorted(int(rank) for rank in recording.metrics.get(run, {}))


def events(recording: Recording, run: str, event: str, rank: int = 0, attempt: int | None = None) -> list[Event]:
    """Events of one kind that a rank wrote, in order; of one attempt where it is given."""
    written = recording.metrics.get(run, {}).get(str(rank), [])
    return [e for e in written if e["event"] == event and attempt in (None, e["attempt"])]


def end_of(recording: Recording, run: str) -> Event:
    """The `end` event of a run."""
    found = events(recording, run, "end")
    if not found:
        why = "; ".join(recording.problems) or "its metrics have no end"
        raise Incomplete(f"run {run} did not end: {why}")
    return found[-1]


def ran(recording: Recording, run: str) -> list[Ran]:
    """How each attempt of a run ran: on what its ranks say that they computed."""
    starts: dict[int, list[Event]] = {}
    for rank in ranks(recording, run):
        for start in events(recording, run, "start", rank):
            starts.setdefault(start["attempt"], []).append(start)
    return [
        Ran(found[0]["device"], found[0]["backend"], found[0]["world_size"], tuple(map(Rank.of, found)))
        for _, found in sorted(starts.items())
    ]


def curve(recording: Recording, run: str, attempt: int) -> list[tuple[float, int, float]]:
    """(Unix time, step, loss averaged over the ranks) of one attempt."""
    steps: dict[int, list[Event]] = {}
    for rank in ranks(recording, run):
        for e in events(recording, run, "step", rank, attempt):
            steps.setdefault(e["step"], []).append(e)
    return [
        (max(e["time"] for e in found), step, statistics.fmean(e["loss"] for e in found))
        for step, found in sorted(steps.items())
    ]


def numbers(recording: Recording, run: str) -> dict[tuple[int, int], tuple[str, str]]:
    """Loss and gradient norm to the last bit by (rank, step); of a step that was done again the last time counts."""
    return {
        (rank, e["step"]): (float(e["loss"]).hex(), float(e["gradient_norm"]).hex())
        for rank in ranks(recording, run)
        for e in events(recording, run, "step", rank)
    }


def unlike_parts(recording: Recording) -> str:
    """In what the events of a recording differ from those that nodes signed, by run, rank and attempt; '' where in nothing.

    Of a run that lost a node, what that node wrote before is left out: it could not sign it any more.
    """
    signed: dict[tuple[str, str, int], tuple[str, list[Event]]] = {}
    for run, parts in recording.parts.items():
        for node, text in parts.items():
            for file in json.loads(text)["ranks"]:
                for key, found in _attempts(run, events_of(file)).items():
                    if host_of(found) != node or key in signed:
                        return f"run {run}: {node} signed rank {key[1]}, attempt {key[2]}, which was not its own"
                    signed[key] = (node, found)
    for run, ranks_ in recording.metrics.items():
        told = {key: found for events_ in ranks_.values() for key, found in _attempts(run, events_).items()}
        last = max((attempt for _, _, attempt in told), default=0)
        for key, found in told.items():
            lost = run == "interrupted" and key[2] < last and host_of(found) == recording.outage.get("victim")
            if lost:
                continue
            if key not in signed:
                return f"run {run}: no node signed rank {key[1]}, attempt {key[2]}"
            if signed[key][1] != found:
                return f"run {run}: rank {key[1]}, attempt {key[2]} is not what {signed[key][0]} signed"
        if missing := sorted(key for key in signed if key[0] == run and key not in told):
            return f"run {run}: rank {missing[0][1]}, attempt {missing[0][2]} was signed and is left out"
    return ""


def _attempts(run: str, written: Sequence[Event]) -> dict[tuple[str, str, int], list[Event]]:
    """Events by run, rank and attempt."""
    found: dict[tuple[str, str, int], list[Event]] = {}
    for event in written:
        found.setdefault((run, str(event["rank"]), int(event["attempt"])), []).append(event)
    return found


def host_of(written: Sequence[Event]) -> str:
    """The node on which an attempt of a rank says that it ran; '' where it does not say it."""
    return next((str(event["host"]) for event in written if event["event"] == "start"), "")


# ---- as planned ------------------------------------------------------------------------------------------------------
RUN_OF: Mapping[str, tuple[str, ...]] = {
    "S176.measured": ("undisturbed",),
    "S177.observed": ("alone", "undisturbed"),
    "S179.measured": ("undisturbed",),
    "S179.observed": ("undisturbed",),
    "S181.measured": ("undisturbed",),
    "S181.computed": ("undisturbed",),
    "S186.measured": ("alone", "undisturbed"),
    "S188.measured": ("alone", "interrupted", "undisturbed"),
    "P-11.measured": ("interrupted",),
}
"""By item, the runs that it is about. What else a recording has of S177 and S181 is judged too, and S186 is about those of the
site's scales as well."""
OF_EVERY_RUN = frozenset({"S177.observed", "S181.measured"})


def unplanned(plan: Plan, recording: Recording, item: str) -> list[str]:
    """In what a recording is not of the planned runs, or lacks what their ranks have to have written, for an item.

    GPU servers, their number and the ranks of each come from plan and site, steps and the delayed rank from the program that ran
    them: what a recording says of itself only has to agree.
    """
    gpu = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    workload, nodes = workload_of(plan), int(site_limit(plan.site, "training_nodes").value)
    found = [
        f"the recording has {what} {seen}, planned {wanted}"
        for what, seen, wanted in (
            ("schema version", recording.schema_version, RECORDED),
            ("scheduler", recording.scheduler.lower(), plan.site.scheduler.kind),
            ("GPU servers", recording.gpu_nodes, gpu),
            ("ranks on a server", recording.processes_per_node, workload.ranks_per_node),
            ("settings", recording.settings, settings_of(nodes)),
        )
        if seen != wanted
    ]
    if found:
        return found
    more = {*recording.jobs, *recording.metrics} if item in OF_EVERY_RUN else ()
    shapes = shapes_of(plan)
    of_scales = [scale.run for scale in scales_of(plan)] if item == "S186.measured" else ()
    for run in sorted({*RUN_OF[item], *of_scales, *more}):
        shape = shapes.get(run, shapes["undisturbed"])
        used = replace(workload, ranks_per_node=shape.per_node)
        found += [f"run {run}: {text}" for text in _unlike_plan(recording, run, shape, gpu)]
        attempts = ran(recording, run)
        for one in attempts:
            cut_short = one is not attempts[-1]
            found += [f"run {run}: {text}" for text in used.mismatches(shape.nodes, one, "nccl", cut_short=cut_short)]
    return [*found, *(_unlike_outage(recording) if "interrupted" in RUN_OF[item] else ())]


def _unlike_plan(recording: Recording, run: str, shape: Shape, gpu: Sequence[str]) -> Iterator[str]:
    """What a run of this shape did not write, and where it ran otherwise than planned."""
    job, world = recording.jobs.get(run, {}), shape.world
    if job.get("state") != "COMPLETED":
        yield f"its job ended {job.get('state', 'and nobody saw how')}"
    written = recording.metrics.get(run, {})
    if missing := [str(rank) for rank in range(world) if not written.get(str(rank))]:
        yield f"{len(missing)} of {world} ranks wrote nothing: {', '.join(missing[:SHOWN])}"
        return
    if strangers := sorted(set(written) - {str(rank) for rank in range(world)}):
        yield f"rank {strangers[0]} of {world} ranks"
    attempts = sorted({event["attempt"] for told in written.values() for event in told})
    for attempt in attempts:
        lost = recording.outage.get("victim", "") if attempt != attempts[-1] else ""
        after = [at for at in attempts if at > attempt]
        yield from _unlike_attempt(recording, run, attempt, shape, lost, after[0] if after else None)
    hosts = sorted({str(start["host"]) for start in _starts(recording, run, attempts[-1])})
    if hosts != sorted(job.get("nodes", ())) or not set(hosts) <= set(gpu):
        yield f"its ranks were on {', '.join(hosts)}, its job on {', '.join(job.get('nodes', ())) or 'no node'}"
    if shape.on and hosts != sorted(shape.on):
        yield f"its ranks were on {', '.join(hosts)}, the leaf group is {', '.join(sorted(shape.on))}"


def _unlike_outage(recording: Recording) -> Iterator[str]:
    """Where the node that lost its power is not one that the first attempt ran on and the last one did without."""
    outage, attempts = recording.outage, sorted({e["attempt"] for e in events(recording, "interrupted", "start")})
    if not outage or not attempts:
        return
    before, after = (_hosts(recording, attempt) for attempt in (attempts[0], attempts[-1]))
    victim = outage["victim"]
    if sorted(outage["nodes"]) != before or victim not in before or victim in after:
        on = (
            f"the job was on {', '.join(outage['nodes'])}, its ranks on {', '.join(before)} and then {', '.join(after)}"
        )
        yield f"run interrupted: {victim} lost its power, {on}"


def _starts(recording: Recording, run: str, attempt: int) -> list[Event]:
    return [one for rank in ranks(recording, run) for one in events(recording, run, "start", rank, attempt)]


def _unlike_attempt(
    recording: Recording, run: str, attempt: int, shape: Shape, lost: str, then: int | None
) -> Iterator[str]:
    """What the ranks of an attempt did not write. lost: the node that it lost, '' for the last attempt, which came to its end.
    then: the attempt after it."""
    world, starts = shape.world, _starts(recording, run, attempt)
    hosts = [str(one["host"]) for one in sorted(starts, key=lambda one: int(one["rank"]))]
    alive = [int(one["rank"]) for one in starts if one["host"] != lost]
    told = sum(host == lost for host in starts[0]["hosts"]) if starts and lost else 0
    if len(set(alive)) != len(alive) or len(alive) != world - told:
        yield f"attempt {attempt}: {len(alive)} ranks say that they started, expected {world - told}"
        return
    per_node = shape.per_node
    if uneven := [f"{count} on {host}" for host, count in Counter(hosts).items() if host != lost and count != per_node]:
        yield f"attempt {attempt}: {', '.join(uneven)} ranks, planned {per_node} on each"
    for one in starts:
        if one["world_size"] != world or (len(hosts) == world and list(one["hosts"]) != hosts):
            yield f"attempt {attempt}: rank {one['rank']} saw {one['world_size']} ranks on {', '.join(one['hosts'])}"
        if other := {
            key: one["settings"].get(key) for key, value in shape.settings.items() if one["settings"].get(key) != value
        }:
            yield f"attempt {attempt}: rank {one['rank']} trained with {other}, planned {shape.settings}"
    resumed = {int(e["step"]) for rank in alive for e in events(recording, run, "resume", rank, attempt)}
    if len(resumed) != 1 or any(len(events(recording, run, "resume", rank, attempt)) != 1 for rank in alive):
        yield f"attempt {attempt}: its ranks do not say from which one step they went on"
        return
    first, last = resumed.pop() + 1, shape.steps
    if lost:  # where the power went nobody can say: one step more or less
        done = {rank: [e["step"] for e in events(recording, run, "step", rank, attempt)] for rank in alive}
        last = max((max(steps, default=0) for steps in done.values()), default=0) - 1
    for rank in alive:
        steps = [e["step"] for e in events(recording, run, "step", rank, attempt)]
        if steps[: max(0, last + 1 - first)] != list(range(first, last + 1)) or (
            not lost and len(steps) != last + 1 - first
        ):
            yield f"attempt {attempt}: rank {rank} did not write steps {first} to {last} one by one"
        if not lost and len(events(recording, run, "end", rank, attempt)) != 1:
            yield f"attempt {attempt}: rank {rank} did not write its end"
    if lost and then is not None:  # it wrote the checkpoint that the next attempt went on from
        last = max((int(e["step"]) for e in events(recording, run, "resume", 0, then)), default=0)
    every = int(recording.settings["checkpoint_every"])
    due = [step for step in range(first, last + 1) if step % every == 0 or step == shape.steps]
    kept = [e["step"] for e in events(recording, run, "checkpoint", 0, attempt)]
    if 0 in alive and kept[: len(due)] != due:
        yield f"attempt {attempt}: checkpoints of steps {kept}, expected {due}"


# ---- comparison ------------------------------------------------------------------------------------------------------
def differences(recording: Recording) -> list[str]:
    """In what the interrupted run differs from the undisturbed one; nothing when they agree to the last bit."""
    one, other = end_of(recording, "undisturbed"), end_of(recording, "interrupted")
    found = [
        f"{what}: {one[key]} undisturbed, {other[key]} interrupted"
        for key, what in (("loss_hex", "final loss"), ("parameters_sha256", "parameters' SHA-256"))
        if one[key] != other[key]
    ]
    mine, theirs = numbers(recording, "undisturbed"), numbers(recording, "interrupted")
    unlike = sorted({step for rank, step in mine if mine[rank, step] != theirs.get((rank, step), mine[rank, step])})
    if unlike:
        found.append(f"loss or gradient norm from step {unlike[0]} on ({len(unlike)} steps)")
    return found


# ---- the story -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Story:
    """One node's outage in one training run. `at` and the stages are seconds after the cut.

    `stages` holds, in this order and where seen: noticed, node_down, requeued, running, resumed, caught_up, finished,
    power_back, node_back. `curves`: [seconds, step, loss] of the undisturbed run (moved to the start of the other) and
    of each attempt. `lanes`: per node [kind, from, to], kind is training, lost, waiting, dark, starting or alone.
    """

    victim: str
    spare: str
    before: list[str]
    after: list[str]
    world_size: int
    backend: str
    device: str
    cut_after_step: int
    resumed_step: int
    lost_steps: int
    lost_s: float
    first_by: str
    stages: dict[str, float]
    timeline: list[dict[str, Any]]
    curves: dict[str, list[tuple[float, int, float]]]
    lanes: dict[str, list[tuple[str, float, float]]]
    finals: dict[str, dict[str, str]]
    equal: bool
    checkpoints: list[float] = field(default_factory=list)
    schema_version: int = SCHEMA_VERSION

    @property
    def recovery_s(self) -> float:
        """From the cut to the first step after the resume."""
        return self.stages["resumed"]

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def tell(recording: Recording) -> Story:
    """The story of a recording. Incomplete names what is missing."""
    outage = recording.outage
    if "cut_ended" not in outage:
        raise Incomplete("no power was cut: " + ("; ".join(recording.problems) or "the recording has no outage"))
    zero = float(outage["cut_began"])
    end = end_of(recording, "interrupted")
    attempts = sorted({e["attempt"] for e in events(recording, "interrupted", "start")})
    if len(attempts) < 2:
        raise Incomplete("the job was not started again after the cut: it lived on, or it was over before")
    before, after = (curve(recording, "interrupted", attempt) for attempt in (attempts[0], attempts[-1]))
    resume = events(recording, "interrupted", "resume", attempt=attempts[-1])
    if not before or not after or not resume:
        raise Incomplete("the metrics of the interrupted run lack the steps before or after the cut")
    last, first = before[-1][1], int(resume[0]["step"])
    caught = next((time for time, step, _ in after if step > last), after[-1][0])
    stages = {"resumed": after[0][0] - zero, "caught_up": caught - zero, "finished": end["time"] - zero}
    stages |= _scheduler_stages(recording, zero)
    stages |= {key: outage[key] - zero for key in ("power_back", "node_back") if key in outage}
    timeline = _timeline(recording, zero, stages, first)
    noticed = [t for t in timeline if t["noticed"]]
    if noticed:
        stages["noticed"] = noticed[0]["at"]
    hosts = {attempt: _hosts(recording, attempt) for attempt in (attempts[0], attempts[-1])}
    start = events(recording, "interrupted", "start")[0]
    if not (undisturbed := curve(recording, "undisturbed", 0)):
        raise Incomplete(
            "the undisturbed run has no steps of its first attempt: it was disturbed too, and is no measure"
        )
    shift = undisturbed[0][0] - before[0][0] + zero
    repeated = [e for e in events(recording, "interrupted", "step", attempt=attempts[0]) if e["step"] > first]
    finals = {
        run: {key: str(end_of(recording, run)[key]) for key in ("loss", "loss_hex", "parameters_sha256")}
        for run in ("undisturbed", "interrupted")
    }
    order = (
        "noticed",
        "node_down",
        "requeued",
        "running",
        "resumed",
        "caught_up",
        "finished",
        "power_back",
        "node_back",
    )
    return Story(
        victim=str(outage["victim"]),
        spare=", ".join(sorted(set(hosts[attempts[-1]]) - set(hosts[attempts[0]]))),
        before=hosts[attempts[0]],
        after=hosts[attempts[-1]],
        world_size=int(start["world_size"]),
        backend=str(start["backend"]),
        device=str(start["device"]),
        cut_after_step=last,
        resumed_step=first,
        lost_steps=last - first,
        lost_s=round(sum(e["step_s"] for e in repeated), 3),
        first_by=noticed[0]["by"] if noticed else "",
        stages={key: round(stages[key], 2) for key in order if key in stages},
        timeline=timeline,
        curves={
            "undisturbed": [(round(t - shift, 3), step, loss) for t, step, loss in undisturbed],
            "before": [(round(t - zero, 3), step, loss) for t, step, loss in before],
            "after": [(round(t - zero, 3), step, loss) for t, step, loss in after],
        },
        lanes=_lanes(recording, zero, hosts, stages),
        finals=finals,
        equal=not differences(recording),
        checkpoints=[round(e["time"] - zero, 3) for e in events(recording, "interrupted", "checkpoint")],
    )


def _hosts(recording: Recording, attempt: int) -> list[str]:
    starts = events(recording, "interrupted", "start", attempt=attempt)
    return sorted(set(starts[0]["hosts"])) if starts else []


def _scheduler_stages(recording: Recording, zero: float) -> dict[str, float]:
    stages: dict[str, float] = {}
    for seen in recording.states:
        at = seen["time"] - zero
        if seen["victim"].startswith("DOWN"):
            stages.setdefault("node_down", at)
        if seen["restarts"]:
            stages.setdefault("requeued", at)
            if seen["state"] == "RUNNING":
                stages.setdefault("running", at)
    return stages


def _timeline(
    recording: Recording, zero: float, stages: Mapping[str, float], resumed_step: int
) -> list[dict[str, Any]]:
    """Everything that happened, in order: {at, by, what, noticed}. The PDUs did it: their word is no notice."""
    outage = recording.outage
    found = [(0.0, "PDUs", f"outlets of {outage['victim']} switched off", False)]
    found += [(seen["time"] - zero, seen["by"], seen["what"], seen["by"] != "PDUs") for seen in recording.sightings]
    stalls = [
        e
        for rank in ranks(recording, "interrupted")
        for e in events(recording, "interrupted", "stalled", rank)
        if e["time"] > zero
    ]
    if stalls:
        first = min(stalls, key=lambda e: float(e["time"]))
        text = f"rank {first['rank']}: no step since step {first['after_step']} for {first['seconds']:.0f} s"
        found.append((first["time"] - zero, "Training", text, True))
    words = {
        "requeued": (recording.scheduler, "job put back into the queue"),
        "running": (recording.scheduler, "job started again"),
        "resumed": ("Training", f"first step after the checkpoint of step {resumed_step}"),
        "caught_up": ("Training", "beyond the last step before the cut"),
        "finished": ("Training", "all steps done"),
        "power_back": ("BMC", f"{outage['victim']} has its power back and is on"),
        "node_back": (recording.scheduler, f"{outage['victim']} takes jobs again"),
    }
    found += [(stages[key], by, what, False) for key, (by, what) in words.items() if key in stages]
    return [{"at": round(at, 2), "by": by, "what": what, "noticed": noticed} for at, by, what, noticed in sorted(found)]


def _lanes(
    recording: Recording, zero: float, hosts: Mapping[int, Sequence[str]], stages: Mapping[str, float]
) -> dict[str, list[tuple[str, float, float]]]:
    """What each GPU node did, as bars."""
    outage = recording.outage
    attempts = sorted(hosts)
    begins = {
        attempt: min(e["time"] for e in events(recording, "interrupted", "start", attempt=attempt)) - zero
        for attempt in attempts
    }
    requeued, running = stages.get("requeued", 0.0), stages.get("running", begins[attempts[-1]])
    lanes: dict[str, list[tuple[str, float, float]]] = {}
    for node in recording.gpu_nodes:
        bars: list[tuple[str, float, float]] = []
        if node in hosts[attempts[0]]:
            bars.append(("training", begins[attempts[0]], 0.0))
            if node != outage["victim"]:
                bars.append(("waiting", 0.0, requeued))
        if node in hosts[attempts[-1]]:
            bars += [("starting", running, stages["resumed"]), ("training", stages["resumed"], stages["finished"])]
        if node == outage["victim"]:
            back = outage.get("restore_began", outage.get("power_back", zero)) - zero
            bars.append(("dark", 0.0, back))
            if "node_back" in stages:
                bars.append(("starting", back, stages["node_back"]))
        if node in recording.jobs.get("alone", {}).get("nodes", ()):
            wrote = [e["time"] - zero for e in recording.metrics.get("alone", {}).get("0", [])]
            if wrote:
                bars.append(("alone", wrote[0], wrote[-1]))
        lanes[node] = [
            (kind, round(first, 2), round(last, 2)) for kind, first, last in sorted(bars, key=lambda bar: bar[1])
        ]
    return lanes


# ---- measurements ----------------------------------------------------------------------------------------------------
DETECTORS = frozenset({"not finite", "diverged"})
"""What each attempt proves before it trains: that a loss that is no number and one that climbs are named."""


def silent_detectors(recording: Recording) -> list[str]:
    """Jobs of which an attempt did not prove its detectors, as a sentence."""
    starts = [
        e
        for run in sorted(recording.metrics)
        for rank in ranks(recording, run)
        for e in events(recording, run, "start", rank)
    ]
    jobs = sorted({str(start["job"]) for start in starts if set(start["detectors"]) != DETECTORS})
    return [f"detectors silent in jobs {', '.join(jobs)}"] if jobs else []


OF_A_SCALE = tuple(f"run {run}:" for run in SCALE_RUNS)
"""How a problem of a run begins that has nothing to do with the loss of a node."""


def started_anew(recording: Recording) -> tuple[dict[str, Any], list[str]]:
    """How the run that lost a node was started again (P-11), and what is wrong with it: all ranks anew, as many as before, without
    that node."""
    if not recording.outage:
        raise Incomplete("no power was cut: " + ("; ".join(recording.problems) or "the recording has no outage"))
    starts = [
        one for rank in ranks(recording, "interrupted") for one in events(recording, "interrupted", "start", rank)
    ]
    attempts = sorted({int(one["attempt"]) for one in starts})
    if not attempts:
        raise Incomplete("no rank of the interrupted run said that it started")
    before, after = ([one for one in starts if one["attempt"] == at] for at in (attempts[0], attempts[-1]))
    ranks_of = [sorted(int(one["rank"]) for one in starts) for starts in (before, after)]
    nodes, victim = sorted({str(one["host"]) for one in after}), str(recording.outage["victim"])
    value = {"victim": victim, "nodes": nodes, "ranks": len(ranks_of[1]), "restarts": len(attempts) - 1}
    return value, [
        *([f"it was started {len(attempts)} times, expected twice"] if len(attempts) != 2 else []),
        *([f"{victim}, which lost its power, is among its nodes again"] if victim in nodes else []),
        *(
            [f"{len(ranks_of[1])} ranks started anew, {len(ranks_of[0])} were there before"]
            if ranks_of[0] != ranks_of[1]
            else []
        ),
    ]


def unrecovered(plan: Plan, recording: Recording, told: Story) -> list[str]:
    """In what the run that lost a node did not recover as it has to (S188)."""
    recovery, tolerance = site_limit(plan.site, "training_recovery_s"), site_limit(plan.site, "training_tolerance_pct")
    allowed, off_pct = int(recording.settings["checkpoint_every"]) * 2, alone_off_pct(recording)
    return [
        *differences(recording),
        *([f"resumed after {told.recovery_s:.0f} s"] if told.recovery_s > float(recovery.value) else []),
        *([] if told.resumed_step else ["started from the beginning"]),
        *(
            [f"{told.lost_steps} steps lost, two checkpoint intervals are {allowed}"]
            if told.lost_steps > allowed
            else []
        ),
        *(
            [f"on one node the loss differs by {off_pct:.2f} %, more than {tolerance}"]
            if off_pct > float(tolerance.value)
            else []
        ),
        *(problem for problem in recording.problems if not problem.startswith(OF_A_SCALE)),
    ]


def split(recording: Recording, run: str, steps: Container[int] | None = None) -> dict[int, dict[str, float]]:
    """Median seconds of each part of a step, and of the step, by rank."""
    parts: dict[int, dict[str, float]] = {}
    for rank in ranks(recording, run):
        chosen = [e for e in events(recording, run, "step", rank) if steps is None or e["step"] in steps]
        if chosen:
            parts[rank] = {key: statistics.median(e[key] for e in chosen) for key in (*PARTS, "step_s")}
    return parts


DELAYED_PART = {True: "compute_s", False: "communication_s"}
"""Where a delay of one rank must show: in its own compute, and in what the others wait for it."""


def delay_seen_pct(recording: Recording, run: str) -> dict[int, float]:
    """How much of the injected delay each rank's split attributes to the part that it belongs to, percent of the delay."""
    slow = recording.settings["slow"]
    first, last = slow["steps"]
    window = range(first, last + 1)
    inside = split(recording, run, window)
    outside = split(recording, run, set(range(1, int(recording.settings["steps"]) + 1)) - set(window))
    return {
        rank: 100 * (parts[part] - outside[rank][part]) / (slow["ms"] / 1e3)
        for rank, parts in inside.items()
        if rank in outside
        for part in (DELAYED_PART[rank == slow["rank"]],)
    }


def stragglers(recording: Recording, run: str) -> dict[str, int]:
    """The rank whose compute time stands out, by window of steps ('31-40'); windows without one are left out."""
    found = {}
    last = max((e["step"] for e in events(recording, run, "step")), default=0)
    for first in range(1, last - WINDOW + 2, WINDOW):
        compute = {
            rank: parts["compute_s"] for rank, parts in split(recording, run, range(first, first + WINDOW)).items()
        }
        if len(compute) < 3:
            continue
        slowest = max(compute, key=lambda rank: compute[rank])
        if compute[slowest] > STRAGGLER * statistics.median(compute.values()):
            found[f"{first}-{first + WINDOW - 1}"] = slowest
    return found


def tokens_per_s(recording: Recording, run: str) -> float:
    """Median throughput of a run in tokens/s over its steps without an injected delay."""
    first, last = recording.settings["slow"]["steps"]
    slow = range(first, last + 1) if run == "undisturbed" else range(0)
    values = [e["tokens_per_s"] for e in events(recording, run, "step") if e["step"] not in slow]
    if not values:
        raise Incomplete(f"run {run} has no steps")
    return statistics.median(values)


def series_faults(recording: Recording) -> list[str]:
    """What is wrong with the series of loss, learning rate, gradient norm and accuracy of any run; nothing when all is well."""
    faults = []
    for run in sorted(recording.metrics):
        for rank in ranks(recording, run):
            for attempt in sorted({e["attempt"] for e in recording.metrics[run][str(rank)]}):
                steps = events(recording, run, "step", rank, attempt)
                count = [e["step"] for e in steps]
                if count != list(range(count[0], count[0] + len(count))) if count else False:
                    faults.append(f"run {run}, rank {rank}: steps do not ascend one by one")
                faults += [
                    f"run {run}, rank {rank}, step {e['step']}: {name} is {e[name]}"
                    for e in steps
                    for name in ("loss", "learning_rate", "gradient_norm", "accuracy")
                    if not (e[name] is None and name == "accuracy") and not math.isfinite(e[name])
                ]
    return faults


def alone_off_pct(recording: Recording) -> float:
    """By how much the final loss of the run on one node differs from the undisturbed one, percent."""
    reference = float(end_of(recording, "undisturbed")["loss"])
    return float(abs(end_of(recording, "alone")["loss"] - reference) / reference * 100)


def metrics_pct(recording: Recording, run: str) -> dict[str, float]:
    """Time that each rank spent on its metrics, percent of its training time. Incomplete where the run did not end."""
    end_of(recording, run)
    return {
        str(rank): 100 * end["observing_s"] / end["trained_s"]
        for rank in ranks(recording, run)
        for end in events(recording, run, "end", rank)
    }


def checkpoints(recording: Recording) -> dict[str, Any]:
    """The checkpoints of the runs on several nodes: how many, bytes, longest stall, median time and rate (GB/s).

    Incomplete where none was written.
    """
    written = [e for run in ("undisturbed", "interrupted") for e in events(recording, run, "checkpoint")]
    if not written:
        raise Incomplete("no checkpoint was written: " + "; ".join(recording.problems))
    return {
        "count": len(written),
        "failed": sum(len(events(recording, run, "checkpoint failed")) for run in recording.metrics),
        "bytes": written[-1]["bytes"],
        "stall_s_max": max(e["stall_s"] for e in written),
        "total_s_median": statistics.median(e["total_s"] for e in written),
        "gb_s_median": statistics.median(e["gb_s"] for e in written),
    }


def checkpoint_interval_s(write_s: float, mtti_s: float) -> float:
    """Interval between checkpoints that loses least time: sqrt(2 x write time x mean time to interruption) (Young, 1974)."""
    return math.sqrt(2 * write_s * mtti_s)
