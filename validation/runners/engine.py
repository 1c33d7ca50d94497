"""What the runners need of a workload manager, whichever a site has: loads in, how they ended out.

    engine = engine_of(plan)                 # runners/engines.py: Slurm or Kubernetes, as scheduler.kind says
    job = engine.wait(engine.begin(load), budget_s)
    started = engine.begin_on_each(load, ["gpu001", "gpu002"])

A load says which program runs on how many nodes, once per rank; each engine writes its own batch script or JobSet from it.
Jobs have numbers on both. A load that does not end in its budget is a result with a name, not an exception.
"""

import re
import threading
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from capacity.model import Plan
from network.drivers.errors import BadAnswer
from network.drivers.ssh import SshHost
from validation.evidence.record import WORKLOAD
from validation.facts.node_results import Run

PYTHON = "/opt/bringup/venv/bin/python"
"""Python with torch on the nodes: the workloads' environment (role `workloads`)."""
OUTPUT = "/var/tmp/bringup-%j.out"
"""What a job printed, on the node that ran it; %j is its number."""
PORT = 29500
"""Of the ranks' rendezvous: torch's own default."""
SHOWN_RANKS = 5
FINAL = (
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "BOOT_FAIL",
    "DEADLINE",
    "PREEMPTED",
)
"""States of a job that is over, in Slurm's words (squeue(1), job state codes)."""


# ---- what runs -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Workload:
    """How a torch job uses each node of a site.

    `computes_on` is 'gpu' or 'cpu', `ranks_per_node` the processes of a node, `cores_per_rank` the CPU cores that each is
    bound to (0: no binding). On GPUs a job asks for all GPUs of its nodes and runs one rank on each.
    """

    computes_on: str
    ranks_per_node: int
    cores_per_rank: int = 0

    def mismatches(self, nodes: int, ran: "Ran", backend: str = "", *, cut_short: bool = False) -> list[str]:
        """In what a job differs from a planned one on so many nodes: each rank computes where the site says, on a GPU of
        its own. backend: what the ranks must talk over on GPUs ('nccl'), '' where it does not matter. cut_short: a rank
        lost its power, and what it wrote may be lost with it.
        """
        ranks = nodes * self.ranks_per_node
        asked = f"site validation.workloads_on is {self.computes_on}"
        elsewhere = [one for one in ran.each if one.computed_on != self.computes_on]
        problems = []
        if len(elsewhere) == len(ran.each) and ran.computed_on != self.computes_on:
            problems.append(f"computed on {ran.device}, {asked}")
        elif elsewhere:
            shown = ", ".join(one.named for one in elsewhere[:SHOWN_RANKS])
            more = f" and {len(elsewhere) - SHOWN_RANKS} more" if len(elsewhere) > SHOWN_RANKS else ""
            problems.append(f"{shown}{more} computed on {elsewhere[0].device}, {asked}")
        if backend and self.computes_on == "gpu" and ran.backend != backend:
            problems.append(f"the ranks talked over {ran.backend}, expected {backend}")
        if ran.ranks != ranks:
            problems.append(f"{ran.ranks} ranks, expected {ranks}: {self.ranks_per_node} on each of {nodes} nodes")
        elif len({one.number for one in ran.each}) != ranks and not cut_short:
            problems.append(f"{len(ran.each)} of {ranks} ranks said on what they computed")
        if self.computes_on == "gpu":
            owners: dict[str, Rank] = {}
            for one in ran.each:
                if (first := owners.setdefault(one.uuid, one)) is not one and one.uuid:
                    problems.append(f"{first.named} and {one.named} computed on the same GPU {one.uuid}")
        return problems


def workload_of(plan: Plan) -> Workload:
    """How the torch jobs of a planned site use its nodes: as validation.workloads_on and the catalogue say."""
    if plan.site.validation.workloads_on == "cpu":
        return Workload("cpu", 1)
    server = plan.catalog.device(plan.site.server.model).bringup
    return Workload("gpu", server.gpus, server.cores // server.gpus)


@dataclass(frozen=True)
class Launch:
    """The program of a load, started once: its arguments, and the port at which its ranks meet. A second start takes another
    port: the first one's may still be closing."""

    arguments: tuple[str, ...]
    port: int = PORT


@dataclass(frozen=True)
class Beside:
    """A command that the first node of a load runs once, after the ranks and where it is installed. What it prints goes to
    `file`; that it fails is said there and ends nothing."""

    command: tuple[str, ...]
    gpus: int
    file: str


@dataclass(frozen=True)
class Load:
    """A program of torch that runs on some nodes, once per rank, and what each node does with what its ranks kept.

    program: a file of ours that is carried to the nodes, or the path of one that all of them see. `{job}` in arguments, results and
    beside stands for the number of the job. on: nodes by name, none where any will do. limit_min: how long it may run, minutes.
    exclusive: no other job on its nodes. again: whether the whole load starts anew when a node fails; None: as the engine does.
    output: a file of what it prints that all nodes see; '' for one on its first node. folders: shared storage that it needs.
    results: the folder in which each node signs what its ranks kept, for `run`; '' where none does.
    """

    name: str
    nodes: int
    workload: Workload
    program: Path | str
    launches: tuple[Launch, ...]
    limit_min: int
    on: tuple[str, ...] = ()
    exclusive: bool = False
    again: bool | None = None
    beside: Beside | None = None
    output: str = ""
    folders: tuple[str, ...] = ()
    results: str = ""
    run: Run | None = None


def named(plan: Plan, job: object) -> str:
    """How evidence names what was submitted: the job of Slurm, or the JobSet."""
    return f"JobSet bringup-{job}" if plan.site.scheduler.kind == "kubernetes" else f"sbatch, job {job}"


# ---- how it went -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Job:
    """A job that has ended. `state` is one of FINAL; 'BUDGET' when it was cancelled because its time budget was spent."""

    job_id: int
    state: str
    reason: str
    nodes: str
    exit_code: str
    output: bytes
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether it ran to its end with exit status 0."""
        return self.state == "COMPLETED"


@dataclass(frozen=True)
class Standing:
    """A job as it stands: its state and reason, and the seconds that it has run."""

    state: str
    reason: str
    seconds: float

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.state in FINAL


@dataclass(frozen=True)
class Sight:
    """A job as it is seen at one moment: its state and reason, its nodes, the one of them that holds it together (`first`), and
    how often it was started anew. node: the state of the node that was asked about, '' where none was."""

    state: str
    reason: str = ""
    nodes: tuple[str, ...] = ()
    first: str = ""
    restarts: int = 0
    node: str = ""

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.state in FINAL


@dataclass(frozen=True)
class Rank:
    """One rank of a job as it reported itself: `device` is 'cpu' or the GPU's name, `uuid` the GPU's as NVML writes it."""

    number: int
    host: str
    device: str
    uuid: str = ""

    @property
    def computed_on(self) -> str:
        """'gpu' or 'cpu'."""
        return "cpu" if self.device == "cpu" else "gpu"

    @property
    def named(self) -> str:
        """How messages call it."""
        return f"rank {self.number} on {self.host}"

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Rank":
        """From what the rank wrote: rank, host, device, uuid."""
        return cls(said["rank"], said["host"], said["device"], said.get("uuid", ""))


@dataclass(frozen=True)
class Ran:
    """How a job did run, as its ranks reported: `device` is 'cpu' or the GPU's name of rank 0, `ranks` their number,
    `each` what every one of them says of itself."""

    device: str
    backend: str
    ranks: int
    each: tuple[Rank, ...] = ()

    @property
    def computed_on(self) -> str:
        """'gpu' where all ranks did, else 'cpu'."""
        return "cpu" if self.device == "cpu" or any(one.computed_on == "cpu" for one in self.each) else "gpu"

    def configuration(self) -> dict[str, dict[str, Any]]:
        """What evidence says of it (Outcome.configuration)."""
        named = {"workloads_on": self.computed_on, "device": self.device, "backend": self.backend, "ranks": self.ranks}
        return {WORKLOAD: named}


# ---- nodes -----------------------------------------------------------------------------------------------------------
HELD = re.compile(r"\b(?:S[0-9]{3}|P-[0-9]{2})\.[a-z]{1,12}\b")
DRAINED_SINCE = re.compile(r" \(drained since ([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})Z\)$")
"""The end of a reason of `Drain.again`."""


@dataclass(frozen=True)
class Drain:
    """Why and since when a node runs no jobs: `state` such as IDLE+DRAIN, `reason` without its tail.

    A node that was drained again after a job of its own keeps the time of its first drain: `again` writes it into the reason.
    """

    node: str
    state: str
    reason: str
    since: datetime

    @property
    def words(self) -> list[str]:
        """The state's parts, such as IDLE, DRAIN and NOT_RESPONDING; a '*' stands for the last (sinfo(1))."""
        return re.split(r"[+]", self.state.upper().replace("*", "+NOT_RESPONDING"))

    @property
    def drained(self) -> bool:
        return any(word.startswith("DRAIN") for word in self.words)

    @property
    def again(self) -> str:
        """The reason with which the node is drained again, as if it had been drained all the time."""
        return f"{self.reason} (drained since {self.since.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z)"


def failed_items(reason: str) -> list[str]:
    """The items of the register that a drain's reason names, each once."""
    return list(dict.fromkeys(HELD.findall(reason)))


class Node(Protocol):
    """A node as the workload manager sees it."""

    @property
    def state(self) -> str:
        """In the manager's words."""

    @property
    def ready(self) -> bool:
        """Whether it runs jobs or would."""


class Engine(Protocol):
    """A workload manager. Every method raises DeviceError where the manager does not answer, and BadAnswer where it refuses.

    title: how messages call it. controller: the server with the shared storage mounted. hosts: every node that may keep results.
    """

    title: str
    controller: SshHost
    hosts: Mapping[str, SshHost]

    def nodes(self) -> Mapping[str, Node]:
        """Every node that the manager knows."""

    def begin(self, load: Load) -> int:
        """Submit a load; its job number."""

    def begin_on_each(self, load: Load, nodes: Sequence[str], held: str = "") -> dict[str, int]:
        """Submit a load of one node to each of these; the job numbers by node. held: a name under which `hold` took them."""

    def wait(self, job_id: int, budget_s: float) -> Job:
        """Wait for the end of a job; cancel it when the budget is spent, or when anything ends the wait before."""

    def standing(self, job_ids: Sequence[int]) -> dict[int, Standing]:
        """How jobs stand; one that nobody knows any more is left out."""

    def look(self, job_id: int, node: str = "") -> Sight:
        """A job as it is now, and a node; state '' for a job that nobody knows."""

    def names(self, nodes: str) -> list[str]:
        """The names in the nodes of a Job."""

    def cancel(self, *job_ids: int) -> None:
        """End jobs that may still be there."""

    def nap(self, seconds: float) -> None:
        """Sleep, but not past the end of the run: BadAnswer then."""

    def close(self) -> None:
        """End every job of this object that is still there."""

    def drain(self, node: str) -> Drain:
        """State, reason and time of a node."""

    def drain_again(self, node: str, reason: str) -> None:
        """Let a node run no further jobs; `reason` as Drain.again has it."""

    def resume(self, node: str) -> None:
        """Let a node run jobs again."""

    def forget(self, *job_ids: int) -> None:
        """Remove what the manager itself keeps of jobs that are over and collected."""

    def serving(self, nodes: Sequence[str]) -> Collection[str]:
        """Those of these nodes that run a program of the manager's own which is there once."""

    def give_up(self, node: str) -> None:
        """Say that a node is known to be without power, where the manager has to be told."""

    def back(self, node: str) -> None:
        """Say that it has its power again."""

    def hold(self, name: str, nodes: Sequence[str]) -> None:
        """Keep nodes that are out of service free for jobs that are begun with this name."""

    def held(self, name: str) -> bool:
        """Whether nodes are kept under this name."""

    def admit(self, nodes: Sequence[str]) -> None:
        """Let nodes that are held take the jobs that were begun for them, and no others."""

    def release(self, name: str) -> None:
        """Let them go."""


class OneRun:
    """The jobs of one object, which end with it: all carry `run`, a name of this object alone."""

    def __init__(self, controller: SshHost) -> None:
        self.controller = controller
        self.run = f"bringup-{uuid.uuid4().hex[:12]}"
        self._submitted = False
        self._closed = threading.Event()

    def nap(self, seconds: float) -> None:
        """Sleep, but not past the end of the run: BadAnswer then."""
        self._closed.wait(seconds)
        self._still_open()

    def submitting(self) -> None:
        """Called before each submission. BadAnswer where the run was ended."""
        self._still_open()
        self._submitted = True

    def _ending(self) -> bool:
        """Let whoever waits raise BadAnswer; whether anything was submitted."""
        self._closed.set()
        return self._submitted

    def _still_open(self) -> None:
        if self._closed.is_set():
            name = self.controller.name
            raise BadAnswer(name, "wait for jobs", "a run that goes on", "the run was ended", "start it again")
