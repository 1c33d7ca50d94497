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
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from capacity.model import Plan
from network.drivers.credentials import node_credentials
from network.drivers.errors import BadAnswer, DeviceError
from network.drivers.ssh import SshHost
from validation.facts.gather import address_of
from validation.progress import note
from validation.runners.engine import (
    DRAINED_SINCE,
    FINAL,
    OUTPUT,
    PYTHON,
    Beside,
    Drain,
    Job,
    Load,
    OneRun,
    Sight,
    Standing,
    Workload,
)

POLL_S = 1.0
LONGEST_POLL_S = 30.0
"""Of a job that runs for days; one that has ended stays with slurmctld for MinJobAge, 300 s by default (slurm.conf(5))."""
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


class Slurm(OneRun):
    """The scheduler of a site. `hosts` reaches every node that may run a batch script.

    All jobs carry the comment `run`, a name of this object alone: `close` ends them and everything that waits for them.
    """

    title = "Slurm"

    def __init__(self, controller: SshHost, hosts: Mapping[str, SshHost]) -> None:
        super().__init__(controller)
        self.hosts = hosts

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

    def held(self, name: str) -> bool:
        """Whether there is a reservation of that name."""
        return bool(self.reservation(name))

    def admit(self, nodes: Sequence[str]) -> None:
        """Let reserved nodes that are drained run jobs: the reservation keeps others away."""
        for node in nodes:
            self.resume(node)

    def forget(self, *job_ids: int) -> None:
        """Nothing: the accounting database keeps what was."""

    def serving(self, nodes: Sequence[str]) -> Collection[str]:
        """None: slurmctld runs on controllers."""
        return ()

    def give_up(self, node: str) -> None:
        """Nothing: slurmctld finds out by itself (SlurmdTimeout)."""

    def back(self, node: str) -> None:
        """Nothing: its slurmd registers."""

    # ---- loads -------------------------------------------------------------------------------------------------
    def begin(self, load: Load) -> int:
        """Submit a load as a batch script; its job number."""
        return self.start(script_of(load), *options_of(load))

    def begin_on_each(self, load: Load, nodes: Sequence[str], held: str = "") -> dict[str, int]:
        """Submit a load of one node once for each of these; the job numbers by node. held: their reservation."""
        reserved = [f"--reservation={held}"] if held else []
        return self.start_on_each(script_of(load), nodes, *options_of(load), *reserved)

    def look(self, job_id: int, node: str = "") -> Sight:
        """A job as slurmctld has it now, and the state of a node with its flags such as DOWN+NOT_RESPONDING."""
        fields, state = self.glance(job_id, node) if node else (self.show(job_id), "")
        taken = fields.get("NodeList", "")
        return Sight(
            fields.get("JobState", ""),
            fields.get("Reason", ""),
            tuple(self.names(taken)) if taken and taken != "(null)" else (),
            fields.get("BatchHost", ""),
            int(fields.get("Restarts", "0")),
            state,
        )

    # ---- jobs --------------------------------------------------------------------------------------------------
    def start(self, script: str, *options: str, user: str = "") -> int:
        """Submit a batch script and return its job number at once, as another `user` where one is given.

        Raises BadAnswer with Slurm's reason when refused.
        """
        self.submitting()
        out = self.controller.run(self._submission(options, user), stdin=script.encode()).text
        if not re.fullmatch(r"\d+(;\S+)?", out.strip()):
            raise BadAnswer(self.controller.name, "sbatch", "a job number", out, "submit the script by hand")
        return int(out.strip().split(";")[0])

    def start_on_each(self, script: str, nodes: Sequence[str], *options: str) -> dict[str, int]:
        """Submit a batch script once for each of these nodes; the job numbers by node, read in one call.

        Raises BadAnswer with Slurm's reason when one is refused, and cancels those before it.
        """
        self.submitting()
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
        self.submitting()
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
        if not self._ending():
            return
        listed = self.controller.run(["squeue", "--noheader", "--format=%i|%k"], check=False).text
        rows = (line.strip().split("|", 1) for line in listed.splitlines())
        self.cancel(*(int(row[0]) for row in rows if len(row) == 2 and row[1] == self.run and row[0].isdigit()))

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


def options_of(load: Load) -> tuple[str, ...]:
    """sbatch's options for a load."""
    workload = load.workload
    shape = (f"--nodes={load.nodes}", f"--ntasks-per-node={workload.ranks_per_node}")
    if workload.computes_on == "gpu":
        cores = (f"--cpus-per-task={workload.cores_per_rank}",) if workload.cores_per_rank else ()
        shape = (*shape, f"--gpus-per-node={workload.ranks_per_node}", *cores)
    requeue = () if load.again is None else ("--requeue",) if load.again else ("--no-requeue",)
    return (
        *shape,
        *([f"--nodelist={','.join(load.on)}"] if load.on else []),
        *(["--exclusive"] if load.exclusive else []),
        *requeue,
        f"--job-name={load.name}",
        f"--time={load.limit_min}",
        *([f"--output={load.output}"] if load.output else []),
    )


def script_of(load: Load) -> str:
    """The batch script of a load. A program of ours is carried in it and copied to the job's nodes."""
    if isinstance(load.program, Path):
        begin, program = CARRY.format(base64.encodebytes(load.program.read_bytes()).decode()), '"$program"'
    else:
        begin, program = "umask 077\n", shlex.quote(load.program)
    lines = [launch(load.workload, program, one.arguments, one.port) for one in load.launches]
    if load.beside:
        lines.append(_beside(load.beside))
    if load.run and load.results:
        lines.append(load.run.step(load.results))
    return f"#!/bin/bash\nset -eu\n{begin}{''.join(lines)}".replace("{job}", "$SLURM_JOB_ID")


CARRY = """umask 077
source=$(mktemp --tmpdir=/var/tmp --suffix=.bringup)
program=/var/tmp/bringup-$SLURM_JOB_ID.py
trap 'rm -f "$source"; srun --overlap --ntasks="$SLURM_NNODES" --ntasks-per-node=1 rm -f "$program"' EXIT
base64 -d >"$source" <<'END'
{}END
sbcast --force "$source" "$program"
"""
AS_RANK = 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; exec "$@"'
"""Runs its arguments with the variables that torch.distributed reads (env://), from those that srun gives each task."""


def launch(workload: Workload, program: str, arguments: Sequence[str], port: int) -> str:
    """The lines of a batch script that run a program once per rank, with the environment that torch.distributed reads.

    `program` is a word of the shell: quoted, or a variable. The rendezvous is on the first node's in-band name.
    Ranks are numbered node by node and bound to consecutive cores, as the GPUs of a node follow each other over its
    sockets. Every rank sees all GPUs of its node, which NCCL needs for NVLink, and uses the one of its LOCAL_RANK.
    srun is told the cores again: since Slurm 22.05 a step does not take --cpus-per-task from its job. A failing rank ends the job.
    """
    cores = f" --cpus-per-task={workload.cores_per_rank} --cpu-bind=cores" if workload.cores_per_rank else ""
    words = shlex.join(["--computes-on", workload.computes_on, *arguments])
    return f"""MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT={port} OMP_NUM_THREADS=1
srun --kill-on-bad-exit=1 --ntasks=$((SLURM_NNODES * {workload.ranks_per_node})) --ntasks-per-node={workload.ranks_per_node} \\
  --distribution=block:block{cores} \\
  bash -c {shlex.quote(AS_RANK)} rank {shlex.quote(PYTHON)} {program} {words}
"""


def _beside(one: Beside) -> str:
    name, command = one.command[0], shlex.join(one.command)
    return f"""if command -v {shlex.quote(name)} >/dev/null; then
  srun --overlap --nodes=1 --ntasks=1 --gpus-per-node={one.gpus} \\
    {command} >{one.file} 2>&1 ||
    echo "{name} failed: $?"
fi
"""
