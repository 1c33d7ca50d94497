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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capacity.model import Plan
from network.drivers.credentials import node_credentials
from network.drivers.errors import BadAnswer, DeviceError
from network.drivers.ssh import SshHost
from validation.check import site_limit
from validation.facts.gather import address_of

OUTPUT = "/var/tmp/bringup-%j.out"
PYTHON = "/opt/bringup/venv/bin/python"
"""Python with torch on the nodes: the workloads' environment (role `workloads`)."""
COUNT_GPUS = """processes=$(ls /proc/driver/nvidia/gpus 2>/dev/null | grep -c . || true)
[ "$processes" -gt 0 ] || processes=1
"""
"""GPUs of the kernel's driver, at least 1. Device files would not do: they are there before a driver is."""
POLL_S = 1.0
LONGEST_POLL_S = 30.0
"""Of a job that runs for days; one that has ended stays with slurmctld for MinJobAge, 300 s by default (slurm.conf(5))."""
SEPARATOR = "--"
CLASS_COLUMNS = ("Name", "Priority", "Preempt", "GraceTime", "Flags", "MaxWall", "GrpTRES", "MaxTRESPU")
ASSOCIATION_COLUMNS = ("Cluster", "Account", "User", "ParentName", "Share", "QOS", "DefaultQOS", "GrpTRES")
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


class Slurm:
    """The scheduler of a site. `hosts` reaches every node that may run a batch script."""

    def __init__(self, controller: SshHost, hosts: Mapping[str, SshHost]) -> None:
        self.controller, self.hosts = controller, hosts

    # ---- reading -----------------------------------------------------------------------------------------------
    def nodes(self) -> dict[str, SlurmNode]:
        """Every node that the controller knows, with its state; a flag such as the '*' of a node that does not respond stays."""
        out = self.controller.run(["sinfo", "-N", "-h", "-o", "%N|%T|%c|%m|%G"]).out
        found = {}
        for line in out.splitlines():
            cells = line.split("|")
            if len(cells) != 5 or not cells[2].isdigit():
                raise BadAnswer(self.controller.name, "sinfo", "NAME|STATE|CPUS|MEMORY|GRES", line, "run sinfo by hand")
            found[cells[0]] = SlurmNode(cells[0], cells[1], int(cells[2]), int(cells[3].rstrip("+")), cells[4])
        return found

    def config(self) -> dict[str, str]:
        """The running configuration (`scontrol show config`)."""
        out = self.controller.run(["scontrol", "show", "config"]).out
        pairs = (line.partition("=") for line in out.splitlines() if "=" in line)
        return {key.strip(): value.strip() for key, _, value in pairs}

    def ping(self) -> str:
        """What `scontrol ping` says of the controllers."""
        return self.controller.run(["scontrol", "ping"]).out.strip()

    def show(self, job_id: int) -> dict[str, str]:
        """Fields of `scontrol show job`; {} when the controller has forgotten the job."""
        done = self.controller.run(["scontrol", "-o", "show", "job", str(job_id)], check=False)
        return dict(re.findall(r"(\w+)=(\S*)", done.out)) if done.status == 0 else {}

    def accounting(self) -> Accounting:
        """Classes and associations, read from slurmdbd through sacctmgr. DeviceError when slurmdbd does not answer."""
        show = "sacctmgr --noheader --parsable2 show"
        script = (
            f"set -e; {show} qos format={','.join(CLASS_COLUMNS)}; echo {SEPARATOR}; "
            f"{show} association format={','.join(ASSOCIATION_COLUMNS)}"
        )
        out = self.controller.run(["sh", "-c", script]).out
        classes, _, associations = out.partition(f"{SEPARATOR}\n")
        return Accounting(self._rows(classes, CLASS_COLUMNS), self._rows(associations, ASSOCIATION_COLUMNS), out)

    def _rows(self, text: str, columns: Sequence[str]) -> tuple[Mapping[str, str], ...]:
        rows = []
        for line in text.splitlines():
            cells = line.split("|")
            if len(cells) != len(columns):
                raise BadAnswer(self.controller.name, "sacctmgr", "|".join(columns), line, "run sacctmgr by hand")
            rows.append(dict(zip(columns, cells, strict=True)))
        return tuple(rows)

    def topology(self) -> dict[str, list[str]]:
        """Lowest switches of the topology that slurmctld runs with, each with its nodes."""
        script = (
            "scontrol --oneliner show topology | sed -n 's/^SwitchName=\\([^ ]*\\) Level=0 .*Nodes=\\([^ ]*\\).*/\\1 \\2/p' | "
            'while read -r name nodes; do echo "$name $(scontrol show hostnames "$nodes" | tr "\\n" " ")"; done'
        )
        lines = self.controller.run(["sh", "-c", script]).out.splitlines()
        return {words[0]: words[1:] for words in map(str.split, lines) if words}

    def usage(self, job_ids: Sequence[int]) -> list[dict[str, str]]:
        """What the accounting database has of jobs: one row for each time that a job ran."""
        out = self.controller.run(
            ["sacct", "--noheader", "--parsable2", "--allocations", "--duplicates", f"--format={','.join(USAGE_COLUMNS)}",
             f"--jobs={','.join(map(str, job_ids))}"]
        ).out  # fmt: skip
        return [dict(row) for row in self._rows(out, USAGE_COLUMNS)]

    # ---- reservations ------------------------------------------------------------------------------------------
    def reserve(self, name: str, nodes: Sequence[str], user: str, in_s: int, minutes: int) -> None:
        """Reserve nodes for a user from `in_s` seconds on."""
        self.controller.run(
            ["scontrol", "create", "reservation", f"ReservationName={name}", f"Nodes={','.join(nodes)}", f"Users={user}",
             f"StartTime=now+{in_s}seconds", f"Duration={minutes}"]
        )  # fmt: skip

    def reservation(self, name: str) -> dict[str, str]:
        """Fields of a reservation; {} when there is none of that name."""
        done = self.controller.run(["scontrol", "--oneliner", "show", "reservation", name], check=False)
        return dict(re.findall(r"(\w+)=(\S*)", done.out)) if done.status == 0 else {}

    def release(self, name: str) -> None:
        """Delete a reservation that may still be there."""
        self.controller.run(["scontrol", "delete", f"ReservationName={name}"], check=False)

    def glance(self, job_id: int, node: str) -> tuple[dict[str, str], str]:
        """(fields of the job, state of the node with its flags such as DOWN+NOT_RESPONDING), asked together."""
        command = f"scontrol -o show job {job_id}; scontrol -o show node {shlex.quote(node)}"
        job, _, rest = self.controller.run(command).out.partition("NodeName=")
        state = re.search(r"\bState=(\S+)", rest)
        if "JobId=" not in job or not state:
            raise BadAnswer(
                self.controller.name, "scontrol show", f"job {job_id} and node {node}", job + rest, "run it by hand"
            )
        return dict(re.findall(r"(\w+)=(\S*)", job)), state[1]

    def names(self, nodes: str) -> list[str]:
        """The names in a node list such as gpu[001-003]."""
        return self.controller.run(["scontrol", "show", "hostnames", nodes]).out.split()

    # ---- jobs --------------------------------------------------------------------------------------------------
    def start(self, script: str, *options: str, user: str = "") -> int:
        """Submit a batch script and return its job number at once, as another `user` where one is given.

        Raises BadAnswer with Slurm's reason when refused.
        """
        out = self.controller.run(_submission(options, user), stdin=script.encode()).out
        if not re.fullmatch(r"\d+(;\S+)?", out.strip()):
            raise BadAnswer(self.controller.name, "sbatch", "a job number", out, "submit the script by hand")
        return int(out.strip().split(";")[0])

    def refusal(self, script: str, *options: str, user: str = "") -> Refusal:
        """Submit what must be refused; a job that was taken all the same is cancelled."""
        done = self.controller.run(_submission(options, user), stdin=script.encode(), check=False)
        if done.status == 0:
            self.cancel(int(done.out.split(";")[0]))
        return Refusal(done.status != 0, " ".join(done.err.split()))

    def until(self, job_id: int, reached: Callable[[Mapping[str, str]], bool], budget_s: float) -> dict[str, str]:
        """The job's fields as soon as `reached` says so of them, or the last ones when the budget is spent."""
        end = time.monotonic() + budget_s
        while not reached(fields := self.show(job_id)) and time.monotonic() < end:
            time.sleep(POLL_S)
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
                if fields.get("JobState") in FINAL:
                    return self._ended(job_id, fields, waited)
                if waited >= budget_s:
                    break
                time.sleep(min(LONGEST_POLL_S, max(POLL_S, waited / 100), budget_s - waited))
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

    def _ended(self, job_id: int, fields: Mapping[str, str], seconds: float) -> Job:
        batch_host = fields.get("BatchHost", "")
        output = b""
        if batch_host in self.hosts:
            path = OUTPUT.replace("%j", str(job_id))
            try:
                output = self.hosts[batch_host].run(f"cat {path}; rm -f {path}", check=False).out.encode()
            except DeviceError as error:
                output = f"the output could not be fetched: {error}".encode()
        return Job(job_id, fields.get("JobState", "UNKNOWN"), fields.get("Reason", ""), fields.get("NodeList", ""),
                   fields.get("ExitCode", ""), output, seconds)  # fmt: skip


def _submission(options: Sequence[str], user: str) -> list[str]:
    """sbatch's command line. Another user submits from a folder that is there on all nodes."""
    command = ["sbatch", "--parsable", f"--output={OUTPUT}", "--open-mode=append", *options]
    return ["runuser", "-u", user, "--", *command, "--chdir=/var/tmp"] if user else command


def connect(plan: Plan) -> Slurm:
    """The scheduler of a planned site: its first controller and its GPU nodes."""
    credentials, budget_s = node_credentials(plan.site), float(site_limit(plan.site, "ssh_timeout_s").value)

    def host(name: str) -> SshHost:
        return SshHost(name, address_of(plan, name, "provisioning"), credentials, budget_s)

    devices = plan.devices
    controllers = devices.loc[devices["role"] == "controller", "name"].tolist()
    gpu = devices.loc[devices["role"] == "gpu", "name"].tolist()
    return Slurm(host(controllers[0]), {name: host(name) for name in gpu})


def torchrun_script(program: Path, arguments: list[str], processes_per_node: int | None, port: int = 29500) -> str:
    """A batch script that carries a torchrun program, copies it to the job's nodes and runs it on all of them.

    The rendezvous is on the first node's in-band name; a failing rank ends the job. processes_per_node None: one for each
    GPU that the kernel's driver has on the first node, one where it has none.
    """
    encoded = base64.encodebytes(program.read_bytes()).decode()
    words = shlex.join(arguments)
    processes, count_gpus = str(processes_per_node), ""
    if processes_per_node is None:
        processes, count_gpus = '"$processes"', COUNT_GPUS
    return f"""#!/bin/bash
set -eu
umask 077
source=$(mktemp /var/tmp/bringup-source-XXXXXX)
program=/var/tmp/bringup-$SLURM_JOB_ID.py
trap 'rm -f "$source"; srun --overlap rm -f "$program"' EXIT
base64 -d >"$source" <<'END'
{encoded}END
sbcast --force "$source" "$program"
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export OMP_NUM_THREADS=1
{count_gpus}srun --kill-on-bad-exit=1 {shlex.quote(PYTHON)} -m torch.distributed.run --nnodes="$SLURM_NNODES" \\
  --nproc-per-node={processes} --rdzv-backend=c10d --rdzv-endpoint="$head:{port}" --rdzv-id="$SLURM_JOB_ID" \\
  "$program" {words}
"""
