"""The training run that loses a node: once undisturbed, once with the power of one of its nodes cut, and who saw what.

    recording = rehearse(plan, scheduler)
    recording = smoke(plan, scheduler)          # undisturbed, on one node alone and at each scale: no power is cut

Between the two come shorter runs at the scales of step S186: a GPU, a leaf group, half of the servers, all of them
(`scales_of`); of scales that are as large as each other one runs, and a node is the run of one node alone.

Both runs train the same model from the same seed as jobs of the site's scheduler, with their checkpoints on the shared storage.
When the second has a checkpoint to come back to, one of its nodes loses power at its PDU outlets. While the scheduler waits for
that node, the spare one resumes a copy of the checkpoint alone: another node count. Then the scheduler starts the job again, the
node gets its power back, and nothing stays but the recording. It is plain data; validation/training_story.py reads it.
"""

import json
import math
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from capacity.model import Plan
from capacity.storage.load import shared
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.errors import BadAnswer, DeviceError, UnreadableAnswer
from network.drivers.ssh import SshHost
from validation.check import site_limit
from validation.evidence.mode import Identity
from validation.facts import node_results
from validation.progress import note
from validation.runners.collectives import leaves_of
from validation.runners.engine import OUTPUT, PORT, Engine, Job, Launch, Load, Sight, workload_of
from validation.runners.outage import NodePower

PROGRAM = Path(__file__).parent.parent / "workloads" / "training.py"
SCHEMA_VERSION = 1
STEPS, CHECKPOINT_EVERY, CUT_AFTER = 60, 10, 20
"""Steps of a run, steps between checkpoints, and the checkpoint after which the power is cut."""
SCALE_STEPS = 30
"""Steps of a run that shows a scale: the loss is below its limit by then, and each takes a few seconds."""
SLOW_RANK, SLOW_MS, SLOW_STEPS = 1, 150, (31, 40)
"""One rank of the undisturbed run is slowed for ten steps: whoever looks for stragglers must name it."""
PACE_S = 1.0
"""The interrupted run waits so long after each step from CUT_AFTER on, until it has lost its node: however fast the
GPUs are, the power goes while it trains. Shorter than STALL_S, outside of what a step measures."""
BATCH = 24
"""Samples of a step over all ranks, or the next multiple of their number."""
MODEL = {"length": 32, "vocabulary": 64, "width": 128, "layers": 2, "heads": 4}
"""The model that all runs train and the tokens of a sample, as the program has them when nobody says otherwise."""
KEPT = "/var/tmp/bringup-training-"
"""What the ranks of a job keep on their node, followed by the number of the job."""
STALL_S = 3.0
POLL_S = 0.4
NODE_BACK_S = 180.0
"""From the return of power until the scheduler takes the node again: a boot (minutes on metal) and its daemons."""
OUTPUT_TAIL = 600
LIMITS = ("training_nodes", "training_recovery_s")
"""Limits of the site that a run needs before it can begin."""


@dataclass
class Recording:
    """All that was seen. Times are Unix seconds; `metrics[run][rank]` are the events that the ranks wrote.

    `jobs`: what the scheduler said of each run. `states`: the interrupted job and the victim as it saw them, at each change.
    `sightings`: who noticed the outage, at first sight. `problems`: why something is missing.

    On a site that pins host keys: `parts[run][node]` is what the node signed of its ranks' events, for `run` (id and nonce);
    `signatures` are those that hold (identities), `unsigned` says why a node has none.
    """

    gpu_nodes: list[str]
    scheduler: str = "Slurm"
    schema_version: int = SCHEMA_VERSION
    processes_per_node: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    metrics: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    outage: dict[str, Any] = field(default_factory=dict)
    states: list[dict[str, Any]] = field(default_factory=list)
    sightings: list[dict[str, Any]] = field(default_factory=list)
    bmc_log: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    run: dict[str, str] = field(default_factory=dict)
    parts: dict[str, dict[str, str]] = field(default_factory=dict)
    signatures: list[dict[str, str]] = field(default_factory=list)
    unsigned: dict[str, str] = field(default_factory=dict)

    @property
    def signed(self) -> tuple[Identity, ...]:
        """The signatures of the nodes."""
        return tuple(Identity(**one) for one in self.signatures)

    def as_json(self) -> bytes:
        """The recording as JSON: raw evidence."""
        return json.dumps(vars(self), sort_keys=True, default=str).encode()

    @classmethod
    def from_json(cls, text: bytes | str) -> "Recording":
        """The recording that `as_json` wrote."""
        return cls(**json.loads(text))


def settings_of(nodes: int) -> dict[str, Any]:
    """The settings of the runs on so many nodes."""
    slow = {"rank": SLOW_RANK, "ms": SLOW_MS, "steps": list(SLOW_STEPS)}
    every = {"steps": STEPS, "scale_steps": SCALE_STEPS, "checkpoint_every": CHECKPOINT_EVERY}
    return {**every, "nodes": nodes, "slow": slow}


@dataclass(frozen=True)
class Scale:
    """A scale of step S186. run: the run that shows it. names: what it is, several where scales are as large as each other. on: its
    nodes by name, none where any will do."""

    run: str
    names: tuple[str, ...]
    nodes: int
    per_node: int
    on: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Ranks of all nodes, one a GPU."""
        return self.nodes * self.per_node


@dataclass(frozen=True)
class Shape:
    """How large a run is planned: nodes, ranks on each, steps, samples of a step over all ranks. on: as Scale has it."""

    nodes: int
    per_node: int
    steps: int
    batch: int
    on: tuple[str, ...] = ()

    @property
    def world(self) -> int:
        """Ranks of all nodes."""
        return self.nodes * self.per_node

    @property
    def settings(self) -> dict[str, int]:
        """What the ranks of the run have to say of their settings."""
        return {"steps": self.steps, "batch": self.batch, **MODEL}


ALONE = "alone"
SCALE_RUNS = ("gpu", "leaf", "half", "full")
"""Runs that show a scale and nothing else."""


def scales_of(plan: Plan) -> list[Scale]:
    """The scales of step S186 that differ on this site, smallest first. A leaf group is the largest of the plan."""
    nodes = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
    ranks, leaf = workload_of(plan).ranks_per_node, max(leaves_of(plan), key=len)
    sizes = {
        "1 GPU": (1, 1),
        "1 node": (1, ranks),
        "one leaf group": (len(leaf), ranks),
        "half": (max(1, len(nodes) // 2), ranks),
        "full": (len(nodes), ranks),
    }
    runs = {"1 node": ALONE, "1 GPU": "gpu", "full": "full", "one leaf group": "leaf", "half": "half"}
    found: dict[tuple[int, int], Scale] = {}
    for name, run in runs.items():  # the first of those that are as large as each other gives its run
        on = tuple(leaf) if run == "leaf" else ()
        found.setdefault(
            sizes[name], Scale(run, tuple(one for one in sizes if sizes[one] == sizes[name]), *sizes[name], on)
        )
    return sorted(found.values(), key=lambda one: one.ranks)


def batch_of(plan: Plan) -> int:
    """Samples of a step of the runs on one node and on several, which all ranks share alike: a resumed run keeps its batch."""
    ranks = int(site_limit(plan.site, "training_nodes").value) * workload_of(plan).ranks_per_node
    return math.ceil(BATCH / ranks) * ranks


def shapes_of(plan: Plan) -> dict[str, Shape]:
    """How large each run of a plan is. At each scale a rank has as many samples of a step as on one node alone."""
    batch, ranks, nodes = (
        batch_of(plan),
        workload_of(plan).ranks_per_node,
        int(plan.site.limits["training_nodes"].value),
    )
    several = Shape(nodes, ranks, STEPS, batch)
    scales = {
        one.run: Shape(one.nodes, one.per_node, SCALE_STEPS, batch // ranks * one.ranks, one.on)
        for one in scales_of(plan)
        if one.run in SCALE_RUNS
    }
    return {"undisturbed": several, "interrupted": several, ALONE: replace(several, nodes=1), **scales}


class Watch:
    """Observers that look at the same time, each in a thread, until they see what they wait for or all is over."""

    def __init__(self) -> None:
        self.sightings: list[dict[str, Any]] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def see(self, by: str, what: str, at: float | None = None) -> None:
        """Note a sighting; only the first of its kind counts."""
        with self._lock:
            if not any(seen["by"] == by and seen["what"] == what for seen in self.sightings):
                self.sightings.append({"time": at or time.time(), "by": by, "what": what})

    def until(self, by: str, what: str, probe: Callable[[], bool]) -> None:
        """Ask `probe` again and again; a device that does not answer has seen nothing yet."""

        def look() -> None:
            while not self._stop.wait(POLL_S):
                try:
                    seen = probe()
                except DeviceError:
                    continue
                if seen:
                    self.see(by, what)
                    return

        thread = threading.Thread(target=look, name=by, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """End all observers."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Rehearsal:
    """One rehearsal: its folder on the shared storage, its jobs, and what is recorded."""

    def __init__(self, plan: Plan, scheduler: Engine, nodes: int, store: str = "") -> None:
        self.plan, self.scheduler, self.nodes = plan, scheduler, nodes
        self.files: SshHost = scheduler.controller
        self.shared = shared(plan.site, plan.devices).mount_point
        self.folder = f"{self.shared}/jobs/bringup-training-{int(time.time())}"
        self.budget_s = plan.site.timeouts.training_s
        self.recovery_s = float(site_limit(plan.site, "training_recovery_s").value)
        gpu = plan.devices.loc[plan.devices["role"] == "gpu", "name"].tolist()
        self.recording = Recording(gpu, scheduler.title)
        self.workload = workload_of(plan)
        self.started: list[int] = []
        self.run = node_results.begin(plan, "training", store)

    # ---- folder ------------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        """Make the folder and bring the program there."""
        folder = shlex.quote(self.folder)
        mounted = self.files.run(["mountpoint", "-q", self.shared], check=False)
        if mounted.status:
            raise BadAnswer(
                self.files.name,
                f"look at {self.shared}",
                "a mounted file system",
                "a plain folder or nothing",
                "mount the shared storage (playbooks/site.yml, tag storage)",
            )
        self.files.run(f"umask 077; mkdir -p {folder} && cat > {folder}/training.py", stdin=PROGRAM.read_bytes())
        self.recording.processes_per_node = self.workload.ranks_per_node
        self.recording.settings = settings_of(self.nodes)

    def collect(self) -> None:
        """Read what the ranks wrote, then remove the folder."""
        folder = shlex.quote(self.folder)
        out = self.files.run(f"cd {folder} && tail -v -n +1 -- */metrics/rank-*.jsonl", check=False).out
        self.recording.metrics = metrics_of(out)
        self.files.run(f"rm -rf {folder}")
        self.collect_parts()

    def collect_parts(self) -> None:
        """Read what the nodes of each run signed, then remove it; nothing where they are not asked to sign."""
        recording, hosts = self.recording, self.scheduler.hosts
        if not self.run.signed:
            return
        recording.run = {"id": self.run.name, "nonce": self.run.nonce}
        for run, job in recording.jobs.items():
            if "job" not in job:
                continue
            jobs = dict.fromkeys(job["nodes"], int(job["job"]))
            kept = node_results.collect(self.plan, hosts, jobs, KEPT, OUTPUT, self.run)
            recording.parts[run] = {node: part.decode(errors="replace") for node, part in kept.raw.items()}
            recording.signatures += [asdict(one) for one in kept.signed.values()]
            recording.unsigned |= {**kept.errors, **kept.unsigned}
            taken = [*jobs, *recording.outage.get("nodes", ())]
            node_results.remove(hosts, dict.fromkeys(taken, int(job["job"])), KEPT, OUTPUT)

    # ---- jobs --------------------------------------------------------------------------------------------------
    def load(self, run: str, port: int, more: Sequence[str] = ()) -> Load:
        """A run as a load. The scheduler starts it anew after a node failure, and the program resumes."""
        shape = shapes_of(self.plan)[run]
        results = f"{KEPT}{{job}}"
        home = f"{self.folder}/{run}"
        words = [
            "--checkpoints",
            f"{home}/checkpoints",
            "--metrics",
            f"{home}/metrics",
            "--steps",
            str(shape.steps),
            "--checkpoint-every",
            str(CHECKPOINT_EVERY),
            "--stall-s",
            f"{STALL_S:g}",
            "--hang-s",
            f"{self.recovery_s:g}",
            "--batch",
            str(shape.batch),
            *(["--results", results] if self.run.signed else []),
            *more,
        ]
        return Load(
            f"bringup-training-{run}",
            shape.nodes,
            replace(self.workload, ranks_per_node=shape.per_node),
            f"{self.folder}/training.py",
            (Launch(tuple(words), port),),
            limit_min=max(1, round((self.budget_s + self.recovery_s) / 60)),
            on=shape.on,
            exclusive=True,
            again=True,
            output=self.output(run),
            folders=(self.shared,),
            results=results,
            run=self.run,
        )

    def output(self, run: str) -> str:
        """The file of what a run prints."""
        return f"{self.folder}/{run}/output"

    def start(self, run: str, port: int = PORT, more: Sequence[str] = ()) -> int:
        """Submit a run; returns its job number."""
        self.files.run(["mkdir", "-p", f"{self.folder}/{run}/checkpoints", f"{self.folder}/{run}/metrics"])
        job = self.scheduler.begin(self.load(run, port, more))
        self.started.append(job)
        return job

    def note_end(self, run: str, job: Job, submitted: float) -> bool:
        """Keep how a job ended that was waited for. Returns whether it completed."""
        nodes = job.nodes if job.nodes != "(null)" else ""
        return self.note(run, job.job_id, job.state, submitted, self.scheduler.names(nodes) if nodes else [])

    def note(self, run: str, job_id: int, state: str, submitted: float, nodes: Sequence[str]) -> bool:
        """Keep how a job ended, with the end of its output when it failed. Returns whether it completed."""
        ok = state == "COMPLETED"
        self.recording.jobs[run] = {
            "job": job_id,
            "state": state,
            "submitted": submitted,
            "ended": time.time(),
            "nodes": list(nodes),
        }
        if not ok:
            # one file, or one of each node
            output = self.files.run(f"tail -q -c {OUTPUT_TAIL} {shlex.quote(self.output(run))}*", check=False)
            self.recording.problems.append(f"run {run}: job {job_id} ended {state}: {' '.join(output.text.split())}")
        return ok

    # ---- the runs ----------------------------------------------------------------------------------------------
    def undisturbed(self) -> bool:
        """The run to compare with."""
        slow = (
            "--slow-rank",
            str(SLOW_RANK),
            "--slow-ms",
            str(SLOW_MS),
            "--slow-steps",
            f"{SLOW_STEPS[0]}:{SLOW_STEPS[1]}",
        )
        submitted = time.time()
        job = self.scheduler.wait(self.start("undisturbed", more=slow), self.budget_s)
        return self.note_end("undisturbed", job, submitted)

    def alone(self) -> None:
        """The run on one node, from the beginning."""
        self.recording.jobs["alone"] = {"submitted": time.time()}
        self.end_alone(self.start(ALONE, port=PORT + 1))

    def scales(self) -> None:
        """The runs that show a scale, one after the other: each would slow down the others' storage."""
        for scale in scales_of(self.plan):
            if scale.run in SCALE_RUNS:
                submitted = time.time()
                job = self.scheduler.wait(self.start(scale.run, port=PORT + 2), self.budget_s)
                self.note_end(scale.run, job, submitted)

    def interrupted(self) -> None:
        """The run that loses a node."""
        submitted = time.time()
        pace = ("--pace-after", str(CUT_AFTER), "--pace-s", f"{PACE_S:g}")
        job = self.start("interrupted", more=pace)
        seen = self.wait_until_it_runs(job)
        others = [name for name in seen.nodes if name != seen.first]
        kept = self.scheduler.serving(others)  # without the manager's own programs the trial would be another one
        victim = next((name for name in reversed(others) if name not in kept), others[-1])
        power, watch = NodePower.of(self.plan, victim), Watch()
        power.prepare()
        self.wait_for_checkpoint(job)
        outage = self.recording.outage
        outage.update(victim=victim, nodes=list(seen.nodes), cut_began=time.time())
        try:
            power.cut()
            outage["cut_ended"] = time.time()
            watch.until("PDUs", "outlets off, no power drawn", power.dark)
            watch.until("BMC", "does not answer", lambda: not power.bmc_answers())
            alone = self.resume_alone()
            self.follow(job, submitted, victim, power, watch)
        finally:
            watch.close()
            self.recording.sightings = sorted(watch.sightings, key=lambda seen: seen["time"])
            self.give_back(victim, power)
        self.end_alone(alone)

    def wait_until_it_runs(self, job: int) -> Sight:
        """The job once it has its nodes."""
        end = time.monotonic() + self.budget_s
        while (seen := self.scheduler.look(job)).state != "RUNNING":
            note(f"job {job} of the run that loses a node: {seen.state} {seen.reason}")
            self.still(job, seen, end, "a running job")
            time.sleep(POLL_S)
        return seen

    def wait_for_checkpoint(self, job: int) -> None:
        """Return once the checkpoint is complete after which the power goes."""
        manifest = f"{self.folder}/interrupted/checkpoints/step-{CUT_AFTER:08d}.json"
        end = time.monotonic() + self.budget_s
        note(f"checkpoint of step {CUT_AFTER}, written by job {job}")
        while self.files.run(["test", "-e", manifest], check=False).status:
            self.still(job, self.scheduler.look(job), end, manifest)
            time.sleep(POLL_S / 2)

    def still(self, job: int, seen: Sight, end: float, wanted: str) -> None:
        """Raise when waiting has become vain: the job is over, or the time is."""
        if seen.ended or time.monotonic() > end:
            raise BadAnswer(
                self.files.name,
                f"wait for job {job}",
                f"{wanted} within {self.budget_s:g} s",
                f"the job is {seen.state or 'unknown'}",
                f"submit it by hand and look at its output in {self.folder}/interrupted",
            )

    def resume_alone(self) -> int:
        """Resume a copy of the newest checkpoint on one node, the spare one."""
        home = shlex.quote(self.folder)
        self.files.run(
            f"cd {home} && mkdir -p alone/checkpoints && newest=$(ls interrupted/checkpoints/step-*.json | tail -n 1) && "
            'cp "$newest" "${newest%.json}.pt" alone/checkpoints/'
        )
        self.recording.jobs["alone"] = {"submitted": time.time()}
        return self.start(ALONE, port=PORT + 1)

    def follow(self, job: int, submitted: float, victim: str, power: NodePower, watch: Watch) -> None:
        """Watch the job until it ends; note each change, and give the power back when the job runs elsewhere."""
        end = time.monotonic() + self.budget_s + self.recovery_s
        with ThreadPoolExecutor(1) as pool:
            restoring: Future[None] | None = None
            given_up = False
            while True:
                seen = self.scheduler.look(job, victim)
                self.change(seen)
                note(f"{victim} without power is {seen.node}, job {job} {seen.state}, restarts {seen.restarts}")
                if "NOT_RESPONDING" in seen.node or seen.node.endswith("*"):
                    watch.see(self.scheduler.title, "node does not respond")
                if seen.node.startswith("DOWN"):
                    watch.see(self.scheduler.title, "node is down")
                if not given_up and any(one["by"] == "PDUs" for one in watch.sightings):
                    self.scheduler.give_up(victim)
                    given_up = True
                if restoring is None and seen.restarts and seen.state == "RUNNING":
                    restoring = pool.submit(self.restore, power)
                if seen.node == "IDLE" and "power_back" in self.recording.outage:
                    self.recording.outage.setdefault("node_back", time.time())
                if seen.ended or time.monotonic() > end:
                    break
                time.sleep(POLL_S)
            self.note("interrupted", job, seen.state if seen.ended else "BUDGET", submitted, seen.nodes)
            if restoring:
                restoring.result()

    def change(self, sight: Sight) -> None:
        """Keep what the scheduler says, once per change."""
        seen = {
            "state": sight.state,
            "restarts": sight.restarts,
            "nodes": list(sight.nodes),
            "victim": sight.node,
        }
        last = self.recording.states[-1] if self.recording.states else {}
        if seen != {key: last.get(key) for key in seen}:
            self.recording.states.append({"time": time.time(), **seen})

    def end_alone(self, job_id: int) -> None:
        """Note how the run on one node ended."""
        job = self.scheduler.wait(job_id, self.budget_s)
        self.note_end("alone", job, self.recording.jobs["alone"]["submitted"])

    # ---- power -------------------------------------------------------------------------------------------------
    def restore(self, power: NodePower) -> None:
        """Give the power back, once."""
        if "power_back" in self.recording.outage:
            return
        self.recording.outage["restore_began"] = time.time()
        power.restore()
        self.recording.outage["power_back"] = time.time()
        self.recording.bmc_log = [dict(entry) for entry in power.log]

    def give_back(self, victim: str, power: NodePower) -> None:
        """Leave the site as it was found: the power is back, and the scheduler takes the node again."""
        self.restore(power)
        self.scheduler.back(victim)
        end = time.monotonic() + NODE_BACK_S
        while (state := self.scheduler.nodes()[victim].state) != "idle":
            note(f"{victim} has power again, in {self.scheduler.title} it is {state}")
            if time.monotonic() > end:
                raise BadAnswer(
                    victim,
                    "come back",
                    f"idle in {self.scheduler.title} within {NODE_BACK_S:g} s of its power",
                    state,
                    "look at its console and at the log of slurmd or the kubelet",
                )
            time.sleep(POLL_S)
        self.recording.outage.setdefault("node_back", time.time())


def metrics_of(out: str) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Events by run and rank from `tail -v` of the ranks' files; a line that a power cut tore is left out."""
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    events: list[dict[str, Any]] = []
    for line in out.splitlines():
        if line.startswith("==> ") and line.endswith(" <=="):
            run, _, file = line[4:-4].split("/")
            events = runs.setdefault(run, {}).setdefault(
                str(int(file.removeprefix("rank-").removesuffix(".jsonl"))), []
            )
        else:
            events += events_of(line)
    return runs


def events_of(text: str) -> list[dict[str, Any]]:
    """The events in lines that a rank wrote; a line that is none is left out."""
    return [event for line in text.splitlines() if (event := _event(line)) is not None]


def _event(line: str) -> dict[str, Any] | None:
    try:
        event = answers.load(line, Source("training job", "read its events"))
    except UnreadableAnswer:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def rehearse(plan: Plan, scheduler: Engine, store: str = "") -> Recording:
    """Run the whole rehearsal. What a device refuses is in the recording's problems; the power is given back in any case. store: as
    for node_results.begin."""

    def runs(rehearsal: Rehearsal) -> None:
        if rehearsal.undisturbed():
            rehearsal.scales()
            rehearsal.interrupted()

    return _recorded(plan, scheduler, store, runs, spares=1)


def smoke(plan: Plan, scheduler: Engine, store: str = "") -> Recording:
    """The runs that disturb nothing: on several nodes, from the beginning on one, and at each scale. No power is touched."""

    def runs(rehearsal: Rehearsal) -> None:
        if rehearsal.undisturbed():
            rehearsal.alone()
            rehearsal.scales()

    return _recorded(plan, scheduler, store, runs, spares=0)


def _recorded(plan: Plan, scheduler: Engine, store: str, runs: Callable[[Rehearsal], None], spares: int) -> Recording:
    """The recording of `runs`, which needs so many GPU servers beside those of limits.training_nodes."""
    if missing := [key for key in LIMITS if key not in plan.site.limits]:
        keys = ", ".join(f"limits.{key}" for key in missing)
        return Recording([], problems=[f"{plan.site.path}: no {keys}; add each with value, unit and source"])
    wanted = int(site_limit(plan.site, "training_nodes").value)
    rehearsal = Rehearsal(plan, scheduler, wanted, store)
    recording = rehearsal.recording
    if wanted + spares > len(recording.gpu_nodes):
        lacks = "no spare is left" if spares else "that is too few"
        recording.problems.append(
            f"limits.training_nodes is {wanted} and the site has {len(recording.gpu_nodes)} GPU servers: {lacks}"
        )
        return recording
    try:
        rehearsal.prepare()
        runs(rehearsal)
    except DeviceError as error:
        recording.problems.append(str(error))
    finally:
        scheduler.cancel(*rehearsal.started)
        try:
            rehearsal.collect()
        except DeviceError as error:
            recording.problems.append(str(error))
    return recording
