"""Jobs through the site's own Slurm, driven over SSH on its controller.

    slurm = Slurm(SshHost("ctl01", …), {"gpu001": SshHost(…), …})
    job = slurm.submit(script, nodes=4, budget_s=240)      # waits; cancels the job when the budget is spent
    slurm.nodes(), slurm.config(), slurm.accounting(), slurm.topology()

A job's output stays on the node that ran its batch script and is fetched from there, so that nothing needs a shared
file system. A job that does not end in its budget is a result with a name (TIMEOUT), not an exception.
"""

import base64
import contextlib
import re
import shlex
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capacity.model import Plan
from network.drivers.credentials import node_credentials
from network.drivers.errors import BadAnswer, DeviceError
from network.drivers.ssh import SshHost
from validation.evidence.record import WORKLOAD
from validation.facts.gather import address_of
from validation.progress import note

OUTPUT = "/var/tmp/bringup-%j.out"
PYTHON = "/opt/bringup/venv/bin/python"
"""Python with torch on the nodes: the workloads' environment (role `workloads`)."""
POLL_S = 1.0
LONGEST_POLL_S = 30.0
"""Of a job that runs for days; one that has ended stays with slurmctld for MinJobAge, 300 s by default (slurm.conf(5))."""
SHOWN_RANKS = 5
SUBMISSION_S = 0.5
"""Time for one sbatch of many; slurmctld takes about ten milliseconds for one. Not confirmed: site choice of this program."""
USAGE_JOBS = 500
"""Jobs that one sacct is asked about: their numbers stand on its command line."""
SEPARATOR = "--"
CLASS_COLUMNS = ("Name", "Priority", "Preempt", "GraceTime", "Flags", "MaxWall", "GrpTRES", "MaxTRESPU")
ASSOCIATION_COLUMNS = ("Cluster", "Account", "User", "ParentName", "Share", "QOS", "DefaultQOS", "GrpTRES")
ASSOCIATION_LIMITS = (
    *("GrpJobs", "GrpSubmitJobs", "GrpWall", "GrpTRESMins"),
    *("MaxJobs", "MaxSubmitJobs", "MaxTRES", "MaxTRESMins", "MaxWall"),
)
"""Other limits that an association can have (sacctmgr(1), list of the association's format options); no site file sets one."""
USAGE_COLUMNS = ("JobIDRaw", "User", "Account", "QOS", "State", "ElapsedRaw", "AllocTRES")
READY = ("idle", "mixed", "allocated", "completing", "planned", "reserved")
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


@dataclass(frozen=True)
class Job:
    """A job that has ended. `state` is Slurm's; 'BUDGET' when it was cancelled because its time budget was spent."""

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
    """A job as it stands: Slurm's state and reason, and the seconds that it has run."""

    state: str
    reason: str
    seconds: float

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.state in FINAL


def seconds_of(text: str) -> float:
    """Seconds of squeue's [days-][[hours:]minutes:]seconds; 0 for what is none, such as INVALID."""
    if not re.fullmatch(r"(\d{1,5}-)?(\d{1,2}:){0,2}\d{1,2}", text):
        return 0.0
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds + 86400 * int(days or 0)


@dataclass(frozen=True)
class SlurmNode:
    """One line of `sinfo -N`: state (idle, alloc, drained, down…), CPUs, memory in MiB, generic resources."""

    name: str
    state: str
    cpus: int
    memory_mib: int
    gres: str

    @property
    def ready(self) -> bool:
        """Whether it runs jobs or would; a node that is drained, down or silent does not."""
        return self.state in READY


DRAINED_SINCE = re.compile(r" \(drained since ([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})Z\)$")
"""The end of a reason of `Drain.again`."""


@dataclass(frozen=True)
class Drain:
    """Why and since when a node runs no jobs, as slurmctld says it: `state` such as IDLE+DRAIN, `reason` without its tail.

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


@dataclass(frozen=True)
class Accounting:
    """What slurmdbd has: classes and associations of all clusters, as rows by sacctmgr's column names."""

    classes: tuple[Mapping[str, str], ...]
    associations: tuple[Mapping[str, str], ...]
    raw: str


@dataclass(frozen=True)
class Refusal:
    """A submission that should not pass: whether it was refused, and what sbatch said."""

    refused: bool
    said: str


class Slurm:
    """The scheduler of a site. `hosts` reaches every node that may run a batch script.

    All jobs carry the comment `run`, a name of this object alone: `close` ends them and everything that waits for them.
    """

    def __init__(self, controller: SshHost, hosts: Mapping[str, SshHost]) -> None:
        self.controller, self.hosts = controller, hosts
        self.run = f"bringup-{uuid.uuid4().hex[:12]}"
        self._submitted = False
        self._closed = threading.Event()

    # ---- reading -----------------------------------------------------------------------------------------------
    def nodes(self) -> dict[str, SlurmNode]:
        """Every node that the controller knows, with its state; a flag such as the '*' of a node that does not respond stays."""
        out = self.controller.run(["sinfo", "-N", "-h", "-o", "%N|%T|%c|%m|%G"]).text
        found = {}
        for line in out.splitlines():
            cells = line.split("|")
            if (
                len(cells) != 5
                or not re.fullmatch("[0-9]{1,9}", cells[2])
                or not re.fullmatch("[0-9]{1,12}[+]?", cells[3])
            ):
                raise BadAnswer(self.controller.name, "sinfo", "NAME|STATE|CPUS|MEMORY|GRES", line, "run sinfo by hand")
            found[cells[0]] = SlurmNode(cells[0], cells[1], int(cells[2]), int(cells[3].rstrip("+")), cells[4])
        return found

    def drain(self, node: str) -> Drain:
        """State, reason and time of a node. BadAnswer where slurmctld says no state, or a drain without its time."""
        command = ["env", "TZ=UTC0", "SLURM_TIME_FORMAT=standard", "scontrol", "--oneliner", "show", "node", node]
        out = self.controller.run(command).text
        state = re.search(r"\bState=(\S{1,100})", out)
        reason = re.search(r"\bReason=(.{0,500}?) \[\S{1,64}@([0-9T:-]{19})\]\s*$", out)
        if state is None:
            raise BadAnswer(self.controller.name, "scontrol show node", "State=...", out[:200], "run it by hand")
        found = Drain(node, state[1], reason[1] if reason else "", datetime.min.replace(tzinfo=UTC))
        try:
            if reason:
                since = datetime.fromisoformat(reason[2]).replace(tzinfo=UTC)
                if told := DRAINED_SINCE.search(reason[1]):
                    before = datetime.fromisoformat(told[1]).replace(tzinfo=UTC)
                    return replace(found, reason=reason[1][: told.start()], since=min(since, before))
                return replace(found, since=since)
        except ValueError:
            reason = None
        if found.drained and reason is None:
            wanted = "Reason=... [user@YYYY-MM-DDThh:mm:ss]"
            raise BadAnswer(self.controller.name, "scontrol show node", wanted, out[:200], "run it by hand")
        return found

    def resume(self, node: str) -> None:
        """Let a node run jobs again."""
        self.controller.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"])

    def drain_again(self, node: str, reason: str) -> None:
        """Let a node run no further jobs; `reason` as Drain.again has it."""
        self.controller.run(["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"])

    def config(self) -> dict[str, str]:
        """The running configuration (`scontrol show config`)."""
        out = self.controller.run(["scontrol", "show", "config"]).text
        pairs = (line.partition("=") for line in out.splitlines() if "=" in line)
        return {key.strip(): value.strip() for key, _, value in pairs}

    def ping(self) -> str:
        """What `scontrol ping` says of the controllers."""
        return self.controller.run(["scontrol", "ping"]).text.strip()

    def show(self, job_id: int) -> dict[str, str]:
        """Fields of `scontrol show job`; {} when the controller has forgotten the job."""
        done = self.controller.run(["scontrol", "-o", "show", "job", str(job_id)], check=False)
        return dict(re.findall(r"(\w+)=(\S*)", done.text)) if done.status == 0 else {}

    def accounting(self) -> Accounting:
        """Classes and associations, read from slurmdbd through sacctmgr. DeviceError when slurmdbd does not answer."""
        show, columns = "sacctmgr --noheader --parsable2 show", (*ASSOCIATION_COLUMNS, *ASSOCIATION_LIMITS)
        script = (
            f"set -e; {show} qos format={','.join(CLASS_COLUMNS)}; echo {SEPARATOR}; "
            f"{show} association format={','.join(columns)}"
        )
        out = self.controller.run(["sh", "-c", script]).text
        classes, _, associations = out.partition(f"{SEPARATOR}\n")
        return Accounting(self._rows(classes, CLASS_COLUMNS), self._rows(associations, columns), out)

    def _rows(self, text: str, columns: Sequence[str]) -> tuple[Mapping[str, str], ...]:
        rows = []
        for line in text.splitlines():
            cells = line.split("|")
            if len(cells) != len(columns):
                raise BadAnswer(self.controller.name, "sacctmgr", "|".join(columns), line, "run sacctmgr by hand")
            rows.append(dict(zip(columns, cells, strict=True)))
        return tuple(rows)

    def partitions(self) -> dict[str, str]:
        """State of each partition: up, down, drain or inact (sinfo(1), %a)."""
        found = {}
        for line in self.controller.run(["sinfo", "-h", "-o", "%R|%a"]).text.splitlines():
            name, _, state = line.partition("|")
            if not name or not re.fullmatch("[a-z]{1,20}", state):
                raise BadAnswer(self.controller.name, "sinfo", "PARTITION|STATE", line, "run sinfo by hand")
            found[name] = state
        return found

    def topology(self) -> dict[str, list[str]]:
        """Lowest switches of the topology that slurmctld runs with, each with its nodes."""
        script = (
            "scontrol --oneliner show topology | sed -n 's/^SwitchName=\\([^ ]*\\) Level=0 .*Nodes=\\([^ ]*\\).*/\\1 \\2/p' | "
            'while read -r name nodes; do echo "$name $(scontrol show hostnames "$nodes" | tr "\\n" " ")"; done'
        )
        lines = self.controller.run(["sh", "-c", script]).text.splitlines()
        return {words[0]: words[1:] for words in map(str.split, lines) if words}

    def usage(self, job_ids: Sequence[int]) -> list[dict[str, str]]:
        """What the accounting database has of jobs: one row for each time that a job ran."""
        out = self.controller.run(
            [
                "sacct",
                "--noheader",
                "--parsable2",
                "--allocations",
                "--duplicates",
                f"--format={','.join(USAGE_COLUMNS)}",
                f"--jobs={','.join(map(str, job_ids))}",
            ]
        ).text
        return [dict(row) for row in self._rows(out, USAGE_COLUMNS)]

    # ---- reservations ------------------------------------------------------------------------------------------
    def reserve(self, name: str, nodes: Sequence[str], user: str, in_s: int, minutes: int) -> None:
        """Reserve nodes for a user from `in_s` seconds on."""
        self._reserve(name, nodes, user, f"StartTime=now+{in_s}seconds", f"Duration={minutes}")

    def hold(self, name: str, nodes: Sequence[str]) -> None:
        """Reserve nodes for the account that submits here, from now until release, also nodes that are drained."""
        user = self.controller.credentials.user
        self._reserve(name, nodes, user, "StartTime=now", "Duration=UNLIMITED", "Flags=MAINT,IGNORE_JOBS")

    def _reserve(self, name: str, nodes: Sequence[str], user: str, *when: str) -> None:
        wanted = [f"ReservationName={name}", f"Nodes={','.join(nodes)}", f"Users={user}", *when]
        self.controller.run(["scontrol", "create", "reservation", *wanted])

    def reservation(self, name: str) -> dict[str, str]:
        """Fields of a reservation; {} when there is none of that name."""
        done = self.controller.run(["scontrol", "--oneliner", "show", "reservation", name], check=False)
        return dict(re.findall(r"(\w+)=(\S*)", done.text)) if done.status == 0 else {}

    def release(self, name: str) -> None:
        """Delete a reservation that may still be there."""
        self.controller.run(["scontrol", "delete", f"ReservationName={name}"], check=False)

    def glance(self, job_id: int, node: str) -> tuple[dict[str, str], str]:
        """(fields of the job, state of the node with its flags such as DOWN+NOT_RESPONDING), asked together."""
        command = f"scontrol -o show job {job_id}; scontrol -o show node {shlex.quote(node)}"
        job, _, rest = self.controller.run(command).text.partition("NodeName=")
        state = re.search(r"\bState=(\S+)", rest)
        if "JobId=" not in job or not state:
            raise BadAnswer(
                self.controller.name, "scontrol show", f"job {job_id} and node {node}", job + rest, "run it by hand"
            )
        return dict(re.findall(r"(\w+)=(\S*)", job)), state[1]

    def names(self, nodes: str) -> list[str]:
        """The names in a node list such as gpu[001-003]."""
        return self.controller.run(["scontrol", "show", "hostnames", nodes]).text.split()

    # ---- jobs --------------------------------------------------------------------------------------------------
    def start(self, script: str, *options: str, user: str = "") -> int:
        """Submit a batch script and return its job number at once, as another `user` where one is given.

        Raises BadAnswer with Slurm's reason when refused.
        """
        self._still_open()
        self._submitted = True
        out = self.controller.run(self._submission(options, user), stdin=script.encode()).text
        if not re.fullmatch(r"\d+(;\S+)?", out.strip()):
            raise BadAnswer(self.controller.name, "sbatch", "a job number", out, "submit the script by hand")
        return int(out.strip().split(";")[0])

    def start_on_each(self, script: str, nodes: Sequence[str], *options: str) -> dict[str, int]:
        """Submit a batch script once for each of these nodes; the job numbers by node, read in one call.

        Raises BadAnswer with Slurm's reason when one is refused, and cancels those before it.
        """
        self._still_open()
        self._submitted = True
        sbatch = shlex.join(self._submission(options, ""))
        command = (
            'set -u; script=$(mktemp); trap \'rm -f "$script"\' EXIT; cat >"$script"; '
            f"for node in {shlex.join(nodes)}; do "
            f'job=$({sbatch} --nodelist="$node" "$script") || {{ echo "$node refused"; exit 1; }}; echo "$node $job"; done'
        )
        budget_s = self.controller.budget_s + SUBMISSION_S * len(nodes)
        done = self.controller.run(command, stdin=script.encode(), check=False, budget_s=budget_s)
        jobs = {name: int(job) for name, job in re.findall(r"^(\S+) (\d{1,10})(?:;\S+)?$", done.text, re.MULTILINE)}
        if done.status != 0 or set(jobs) != set(nodes):
            with contextlib.suppress(DeviceError):
                self.cancel(*jobs.values())
            said = " ".join((done.text[-200:], done.err)).strip()
            raise BadAnswer(
                self.controller.name, "sbatch", f"{len(nodes)} job numbers", said, "submit the script by hand"
            )
        return jobs

    def standing(self, job_ids: Sequence[int]) -> dict[int, Standing]:
        """How jobs stand: those that slurmctld still knows by squeue, the others by the accounting database.

        A job that neither knows is left out.
        """
        out = self.controller.run(["squeue", "--noheader", "--states=all", "--format=%A|%T|%M|%r"]).text
        wanted, found = set(job_ids), {}
        for row in self._rows(out, ("JobID", "State", "Time", "Reason")):
            if row["JobID"].isdigit() and (job := int(row["JobID"])) in wanted:
                found[job] = Standing(row["State"], row["Reason"], seconds_of(row["Time"]))
        rest = sorted(wanted - set(found))
        for first in range(0, len(rest), USAGE_JOBS):
            for row in self.usage(rest[first : first + USAGE_JOBS]):
                if row["JobIDRaw"].isdigit() and row["ElapsedRaw"].isdigit():
                    state = row["State"].split()[:1]  # CANCELLED comes with "by" whom
                    found[int(row["JobIDRaw"])] = Standing(state[0] if state else "", "", float(row["ElapsedRaw"]))
        return found

    def refusal(self, script: str, *options: str, user: str = "") -> Refusal:
        """Submit what must be refused; a job that was taken all the same is cancelled."""
        self._still_open()
        self._submitted = True
        done = self.controller.run(self._submission(options, user), stdin=script.encode(), check=False)
        if done.status == 0:
            job = re.match("[0-9]{1,10}", done.text)
            self.cancel(*([int(job[0])] if job else []))
        return Refusal(done.status != 0, " ".join(done.err.split()))

    def until(self, job_id: int, reached: Callable[[Mapping[str, str]], bool], budget_s: float) -> dict[str, str]:
        """The job's fields as soon as `reached` says so of them, or the last ones when the budget is spent."""
        end = time.monotonic() + budget_s
        while not reached(fields := self.show(job_id)) and time.monotonic() < end:
            self.nap(POLL_S)
        return fields

    def wait(self, job_id: int, budget_s: float) -> Job:
        """Wait for the end of a job; cancel it when the budget is spent, or when anything ends the wait before.

        A controller that does not answer, or does not know the job (slurmctld restarts), is asked again until then.
        """
        began, fields, trouble = time.monotonic(), dict[str, str](), ""
        try:
            while True:
                try:
                    seen = self.show(job_id)
                    fields, trouble = seen or fields, "" if seen else f"slurmctld shows no job {job_id}"
                except DeviceError as error:
                    trouble = str(error)
                waited = time.monotonic() - began
                note(trouble or f"job {job_id} {fields.get('JobState', '')} {fields.get('NodeList', '')}".rstrip())
                if fields.get("JobState") in FINAL:
                    return self._ended(job_id, fields, waited)
                if waited >= budget_s:
                    break
                self.nap(min(LONGEST_POLL_S, max(POLL_S, waited / 100), budget_s - waited))
        except BaseException:
            self._try_cancel(job_id)
            raise
        self._try_cancel(job_id)
        fields = {**fields, "JobState": "BUDGET", "Reason": trouble or fields.get("Reason", "")}
        return self._ended(job_id, fields, time.monotonic() - began)

    def _try_cancel(self, job_id: int) -> None:
        with contextlib.suppress(DeviceError):
            self.cancel(job_id)

    def submit(self, script: str, *options: str, budget_s: float) -> Job:
        """Submit and wait."""
        return self.wait(self.start(script, *options), budget_s)

    def cancel(self, *job_ids: int) -> None:
        """Cancel jobs that may still be there."""
        if job_ids:
            self.controller.run(["scancel", *map(str, job_ids)], check=False)

    def close(self) -> None:
        """Cancel every job of this object that is still there, and let whoever waits for one raise BadAnswer.

        For the end of a run, however it ends. A submission that was broken off may have left a job whose number nobody
        read: the jobs are found by their comment.
        """
        self._closed.set()
        if not self._submitted:
            return
        listed = self.controller.run(["squeue", "--noheader", "--format=%i|%k"], check=False).text
        rows = (line.strip().split("|", 1) for line in listed.splitlines())
        self.cancel(*(int(row[0]) for row in rows if len(row) == 2 and row[1] == self.run and row[0].isdigit()))

    def nap(self, seconds: float) -> None:
        """Sleep, but not past the end of the run: BadAnswer then."""
        self._closed.wait(seconds)
        self._still_open()

    def _still_open(self) -> None:
        if self._closed.is_set():
            raise BadAnswer(
                self.controller.name, "wait for jobs", "a run that goes on", "the run was ended", "start it again"
            )

    def _submission(self, options: Sequence[str], user: str) -> list[str]:
        """sbatch's command line. Another user submits from a folder that is there on all nodes."""
        command = [
            "sbatch",
            "--parsable",
            f"--output={OUTPUT}",
            "--open-mode=append",
            f"--comment={self.run}",
            *options,
        ]
        return ["runuser", "-u", user, "--", *command, "--chdir=/var/tmp"] if user else command

    def _ended(self, job_id: int, fields: Mapping[str, str], seconds: float) -> Job:
        batch_host = fields.get("BatchHost", "")
        output = b""
        if batch_host in self.hosts:
            path = OUTPUT.replace("%j", str(job_id))
            try:
                output = self.hosts[batch_host].run(f"cat {path}; rm -f {path}", check=False).out.encode()
            except DeviceError as error:
                output = f"the output could not be fetched: {error}".encode()
        return Job(
            job_id,
            fields.get("JobState", "UNKNOWN"),
            fields.get("Reason", ""),
            fields.get("NodeList", ""),
            fields.get("ExitCode", ""),
            output,
            seconds,
        )


def connect(plan: Plan) -> Slurm:
    """The scheduler of a planned site: its first controller and its GPU nodes."""
    credentials, budget_s = node_credentials(plan.site), plan.site.timeouts.ssh_s

    def host(name: str) -> SshHost:
        return SshHost(name, address_of(plan, name, "provisioning"), credentials, budget_s)

    devices = plan.devices
    controllers = devices.loc[devices["role"] == "controller", "name"].tolist()
    gpu = devices.loc[devices["role"] == "gpu", "name"].tolist()
    return Slurm(host(controllers[0]), {name: host(name) for name in gpu})


@dataclass(frozen=True)
class Workload:
    """How a torch job uses each node of a site.

    `computes_on` is 'gpu' or 'cpu', `ranks_per_node` the processes of a node, `cores_per_rank` the CPU cores that each is
    bound to (0: no binding). On GPUs a job asks for all GPUs of its nodes and runs one rank on each.
    """

    computes_on: str
    ranks_per_node: int
    cores_per_rank: int = 0

    def options(self, nodes: int) -> tuple[str, ...]:
        """sbatch's options for a job on so many nodes."""
        shape = (f"--nodes={nodes}", f"--ntasks-per-node={self.ranks_per_node}")
        if self.computes_on == "cpu":
            return shape
        cores = (f"--cpus-per-task={self.cores_per_rank}",) if self.cores_per_rank else ()
        return (*shape, f"--gpus-per-node={self.ranks_per_node}", *cores)

    def launch(self, program: str, arguments: Sequence[str], port: int) -> str:
        """The lines of a batch script that run a program once per rank, with the environment that torch.distributed reads.

        `program` is a word of the shell: quoted, or a variable.
        Ranks are numbered node by node and bound to consecutive cores, as the GPUs of a node follow each other over its
        sockets. Every rank sees all GPUs of its node, which NCCL needs for NVLink, and uses the one of its LOCAL_RANK.
        srun is told the cores again: since Slurm 22.05 a step does not take --cpus-per-task from its job.
        """
        cores = f" --cpus-per-task={self.cores_per_rank} --cpu-bind=cores" if self.cores_per_rank else ""
        words = shlex.join(["--computes-on", self.computes_on, *arguments])
        return f"""MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT={port} OMP_NUM_THREADS=1
srun --kill-on-bad-exit=1 --ntasks=$((SLURM_NNODES * {self.ranks_per_node})) --ntasks-per-node={self.ranks_per_node} \\
  --distribution=block:block{cores} \\
  bash -c {shlex.quote(AS_RANK)} rank {shlex.quote(PYTHON)} {program} {words}
"""

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


AS_RANK = 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; exec "$@"'
"""Runs its arguments with the variables that torch.distributed reads (env://), from those that srun gives each task."""


def workload_of(plan: Plan) -> Workload:
    """How the torch jobs of a planned site use its nodes: as validation.workloads_on and the catalogue say."""
    if plan.site.validation.workloads_on == "cpu":
        return Workload("cpu", 1)
    server = plan.catalog.device(plan.site.server.model).bringup
    return Workload("gpu", server.gpus, server.cores // server.gpus)


def carried_script(program: Path, arguments: Sequence[str], workload: Workload, port: int = 29500) -> str:
    """A batch script that carries a torch program, copies it to the job's nodes and runs it on all of them.

    The rendezvous is on the first node's in-band name; a failing rank ends the job.
    """
    encoded = base64.encodebytes(program.read_bytes()).decode()
    launch = workload.launch('"$program"', arguments, port)
    return f"""#!/bin/bash
set -eu
umask 077
source=$(mktemp /var/tmp/bringup-source-XXXXXX)
program=/var/tmp/bringup-$SLURM_JOB_ID.py
trap 'rm -f "$source"; srun --overlap --ntasks="$SLURM_NNODES" --ntasks-per-node=1 rm -f "$program"' EXIT
base64 -d >"$source" <<'END'
{encoded}END
sbcast --force "$source" "$program"
{launch}"""
