"""Trials of scheduling policy with real jobs: what is granted, who yields to whom, what a reservation keeps free.

    seen = run(slurm, Wanted(...))        # all trials, those on different nodes at the same time

Nothing is judged here. Every trial has a time budget, and takes away the jobs, reservations and files that it made; one
that could not be carried out says why in `error`. The jobs run as the two users of the checks' account.
"""

import contextlib
import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import Line, Source, Whole
from network.drivers.errors import DeviceError
from validation.runners.engine import FINAL, Job
from validation.runners.slurm import POLL_S, Refusal, Slurm

LEAD_S = 8
"""From the making of a reservation to its start: two submissions fit in."""
MINUTES = 1
"""Shortest time that Slurm reserves, and the shortest limit that a job can ask for."""

# Says which of the node's GPU device files this process may open. EPERM: a cgroup forbids it. Without a driver an
# allowed device gives ENXIO.
GRANT = """#!/bin/bash
srun --ntasks-per-node=1 python3 - <<'END'
import errno, glob, json, os, re, socket
allowed = []
for path in glob.glob("/dev/nvidia[0-9]*"):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES):
            continue
    allowed.append(int(re.sub(r"\\D", "", path)))
print(json.dumps({"host": socket.gethostname(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
                  "allowed": sorted(allowed)}))
END
"""
# Counts steps. Writes the count at the first SIGTERM, which opens the grace time, and goes on: a job that ends by itself
# is not requeued. The second one ends it.
VICTIM = """#!/bin/bash
srun --ntasks=1 bash -s <<'END'
state=/var/tmp/bringup-victim-$SLURM_JOB_ID
if [ -s "$state" ]; then echo "resumed $(cat "$state")"; rm -f "$state"; exit 0; fi
step=0
trap '[ ! -s "$state" ] || exit 1; echo "$step" >"$state"; echo "checkpoint $step"' TERM
while true; do sleep 0.2 & wait; step=$((step + 1)); done
END
"""
PASSING = "#!/bin/bash\nsleep 2\n"


@dataclass(frozen=True)
class Wanted:
    """What the trials need to know: GPU nodes that are ready for jobs, in order, GPUs of a node, the two users, the
    highest and lowest class, options of a job that breaks a limit (none where no class has one), and the time that a job
    has to start."""

    nodes: tuple[str, ...]
    gpus: int
    users: tuple[str, str]
    highest: str
    lowest: str
    over_limit: tuple[str, ...]
    start_budget_s: float


class _Grant(TypedDict):
    """What GRANT prints on one node."""

    host: Line
    visible: Line
    allowed: list[Whole]


@dataclass(frozen=True)
class Grants:
    """One GPU asked for on every node: per node what its process could see and open. More than a node has: the refusal."""

    error: str = ""
    seen: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    too_many: Refusal | None = None
    over_limit: Refusal | None = None
    job: Job | None = None


@dataclass(frozen=True)
class Preemption:
    """A job of the highest class took the node of one of the lowest. Seconds by Slurm's own clock."""

    error: str = ""
    urgent: Mapping[str, str] = field(default_factory=dict)
    victim: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    job_ids: tuple[int, ...] = ()

    @property
    def start_s(self) -> float:
        """From the submission of the urgent job to its start. LookupError where nothing says it, ValueError for odd times."""
        return _seconds_between(self.urgent["SubmitTime"], self.urgent["StartTime"])

    @property
    def restarts(self) -> int:
        """How often the victim was started again."""
        return int(self.victim.get("Restarts", "0"))

    @property
    def faults(self) -> list[str]:
        """What is wrong with what the victim did."""
        return [
            *([f"the victim was restarted {self.restarts} times, expected once"] if self.restarts != 1 else []),
            *(["the victim wrote no checkpoint in its grace time"] if self.checkpoint is None else []),
            *(
                [f"the victim resumed at {self.resumed}, its checkpoint was {self.checkpoint}"]
                if self.resumed != self.checkpoint
                else []
            ),
        ]

    def as_json(self) -> bytes:
        """What was seen, as JSON: raw evidence."""
        seen = {"urgent": dict(self.urgent), "victim": dict(self.victim), "output": self.output}
        return json.dumps(seen).encode()

    @classmethod
    def from_json(cls, text: bytes | str) -> "Preemption":
        """What `as_json` wrote."""
        said = json.loads(text)
        return cls("", said["urgent"], said["victim"], said["output"])

    @property
    def checkpoint(self) -> int | None:
        """The step that the victim wrote in its grace time."""
        return _number(self.output, "checkpoint")

    @property
    def resumed(self) -> int | None:
        """The step that it went on from."""
        return _number(self.output, "resumed")


@dataclass(frozen=True)
class Window:
    """A reservation of two nodes and what became of its owner's and of another user's job."""

    error: str = ""
    nodes: tuple[str, ...] = ()
    reservation: Mapping[str, str] = field(default_factory=dict)
    owner: Mapping[str, str] = field(default_factory=dict)
    other_inside: Mapping[str, str] = field(default_factory=dict)
    other_after: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Trials:
    """What all trials saw."""

    grants: Grants
    preemption: Preemption
    window: Window
    usage: tuple[Mapping[str, str], ...] = ()
    usage_error: str = ""


def failed(error: str) -> Trials:
    """Trials that could not be carried out at all."""
    return Trials(Grants(error), Preemption(error), Window(error), usage_error=error)


def run(slurm: Slurm, wanted: Wanted) -> Trials:
    """All trials. Grants go first, since they use every node; then the two others on nodes of their own."""
    if not wanted.nodes:
        return failed("no node is ready for jobs")
    granted = grants(slurm, wanted)
    spare = wanted.nodes[1:][-2:] or wanted.nodes
    with ThreadPoolExecutor(1 if set(spare) & {wanted.nodes[0]} else 2) as pool:
        yielding = pool.submit(preemption, slurm, wanted, wanted.nodes[0])
        keeping = pool.submit(window, slurm, wanted, spare)
        preempted, kept = yielding.result(), keeping.result()
    jobs = [*([granted.job.job_id] if granted.job else []), *preempted.job_ids]
    try:
        return Trials(granted, preempted, kept, tuple(slurm.usage(jobs) if jobs else ()))
    except DeviceError as error:
        return Trials(granted, preempted, kept, usage_error=str(error))


def grants(slurm: Slurm, wanted: Wanted) -> Grants:
    """One GPU on every node, and two submissions that must be refused."""
    user, whole = wanted.users[0], len(wanted.nodes)
    quick = ("--ntasks-per-node=1", f"--time={MINUTES}", f"--qos={wanted.highest}", "--job-name=bringup-grants")
    jobs: list[int] = []
    try:
        jobs.append(slurm.start(GRANT, f"--nodes={whole}", "--gpus-per-node=1", *quick, user=user))
        too_many = slurm.refusal(PASSING, "--nodes=1", f"--gpus-per-node={wanted.gpus + 1}", *quick, user=user)
        over = slurm.refusal(PASSING, *wanted.over_limit, user=wanted.users[1]) if wanted.over_limit else None
        job = slurm.wait(jobs[0], wanted.start_budget_s)
    except DeviceError as error:
        return Grants(str(error))
    finally:
        _clean_up(slurm, jobs)
    source = Source(f"job {job.job_id}", "read what it was granted", "read the job's output")
    try:
        lines = answers.read(list[_Grant], answers.objects(job.output, source), source)
    except DeviceError as error:
        return Grants(str(error), {}, too_many, over, job)
    problem = (
        ""
        if job.ok
        else f"job {job.job_id} ended {job.state} {job.reason}: {job.output[-300:].decode(errors='replace')}"
    )
    return Grants(problem, {line["host"]: dict(line) for line in lines}, too_many, over, job)


def preemption(slurm: Slurm, wanted: Wanted, node: str) -> Preemption:
    """A job of the lowest class fills a node; one of the highest wants the same."""
    budget_s, jobs = wanted.start_budget_s, list[int]()
    whole = ("--ntasks=1", f"--nodelist={node}", f"--gpus-per-node={wanted.gpus}")
    try:
        victim = slurm.start(
            VICTIM,
            *whole,
            f"--qos={wanted.lowest}",
            "--requeue",
            "--time=10",
            "--job-name=bringup-victim",
            user=wanted.users[0],
        )
        jobs.append(victim)
        if slurm.until(victim, _is("RUNNING"), budget_s).get("JobState") != "RUNNING":
            return Preemption(f"the victim, job {victim}, did not start within {budget_s:g} s", job_ids=tuple(jobs))
        time.sleep(1.0)  # its steps count
        urgent = slurm.start(
            PASSING,
            *whole,
            f"--qos={wanted.highest}",
            f"--time={MINUTES}",
            "--job-name=bringup-urgent",
            user=wanted.users[1],
        )
        jobs.append(urgent)
        started = slurm.until(urgent, _is("RUNNING", *FINAL), budget_s)
        if started.get("JobState") in (None, "PENDING"):
            return Preemption(
                f"job {urgent} of class {wanted.highest} did not start within {budget_s:g} s: {started.get('Reason')}",
                job_ids=tuple(jobs),
            )
        slurm.until(
            victim, _is(*(state for state in FINAL if state != "PREEMPTED")), budget_s
        )  # it comes back from that
        ended = slurm.wait(victim, POLL_S)
        fields = slurm.show(victim)
    except DeviceError as error:
        return Preemption(str(error), job_ids=tuple(jobs))
    finally:
        _clean_up(slurm, jobs)
    return Preemption(
        "" if ended.ok else f"the victim, job {victim}, ended {ended.state} {ended.reason}",
        started,
        fields,
        ended.output.decode(errors="replace"),
        tuple(jobs),
    )


def window(slurm: Slurm, wanted: Wanted, nodes: Sequence[str]) -> Window:
    """Nodes reserved for one user a few seconds ahead; another user's job that would reach into the window must wait."""
    name, jobs, budget_s = f"bringup-{uuid.uuid4().hex[:8]}", list[int](), wanted.start_budget_s
    shape = (
        f"--nodes={len(nodes)}",
        f"--nodelist={','.join(nodes)}",
        "--ntasks-per-node=1",
        "--gpus-per-node=1",
        f"--time={MINUTES}",
        f"--qos={wanted.highest}",
    )
    try:
        slurm.reserve(name, nodes, wanted.users[0], LEAD_S, MINUTES)
        made = slurm.reservation(name)
        other = slurm.start(PASSING, *shape, "--job-name=bringup-other", user=wanted.users[1])
        jobs.append(other)
        owner = slurm.start(PASSING, *shape, f"--reservation={name}", "--job-name=bringup-owner", user=wanted.users[0])
        jobs.append(owner)
        owners = slurm.until(owner, _is("RUNNING", *FINAL), LEAD_S + budget_s)
        inside = slurm.show(other)
        slurm.cancel(owner)
        slurm.release(name)
        after = slurm.until(other, _is("RUNNING", *FINAL), budget_s)
    except DeviceError as error:
        return Window(str(error), tuple(nodes))
    finally:
        _clean_up(slurm, jobs)
        with contextlib.suppress(DeviceError):
            slurm.release(name)
    return Window("", tuple(nodes), made, owners, inside, after)


def _clean_up(slurm: Slurm, jobs: Sequence[int]) -> None:
    """Cancel what a trial left; the trial's error names a controller that does not answer."""
    with contextlib.suppress(DeviceError):
        slurm.cancel(*jobs)


def _is(*states: str) -> Any:
    return lambda fields: fields.get("JobState") in states


def _number(output: str, word: str) -> int | None:
    found = re.search(rf"^{word} (\d+)$", output, re.MULTILINE)
    return int(found[1]) if found else None


def _seconds_between(first: str, then: str) -> float:
    """Seconds between two of Slurm's times, such as 2026-11-21T19:00:57."""
    form = "%Y-%m-%dT%H:%M:%S"
    return time.mktime(time.strptime(then, form)) - time.mktime(time.strptime(first, form))
