"""Jobs through the site's own Slurm, driven over SSH on its controller.

    slurm = Slurm(SshHost("ctl01", …), {"gpu001": SshHost(…), …})
    job = slurm.submit(script, nodes=4, budget_s=240)      # waits; cancels the job when the budget is spent
    slurm.nodes(), slurm.config()

A job's output stays on the node that ran its batch script and is fetched from there, so that nothing needs a shared
file system. A job that does not end in its budget is a result with a name (TIMEOUT), not an exception.
"""

import base64
import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capacity.plan import Plan
from network.drivers.credentials import node_credentials
from network.drivers.errors import BadAnswer, DeviceError
from network.drivers.ssh import SshHost
from validation.facts.gather import address_of

OUTPUT = "/var/tmp/bringup-%j.out"
PYTHON = "/opt/bringup/venv/bin/python"
"""Python with torch on the nodes: the workloads' environment (role `workloads`)."""
COUNT_GPUS = """processes=$(ls /proc/driver/nvidia/gpus 2>/dev/null | grep -c . || true)
[ "$processes" -gt 0 ] || processes=1
"""
"""GPUs of the kernel's driver, at least 1. Device files would not do: they are there before a driver is."""
POLL_S = 1.0
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
    def start(self, script: str, *options: str) -> int:
        """Submit a batch script and return its job number at once. Raises BadAnswer with Slurm's reason when refused."""
        command = ["sbatch", "--parsable", f"--output={OUTPUT}", "--open-mode=append", *options]
        out = self.controller.run(command, stdin=script.encode()).out
        if not re.fullmatch(r"\d+(;\S+)?", out.strip()):
            raise BadAnswer(self.controller.name, "sbatch", "a job number", out, "submit the script by hand")
        return int(out.strip().split(";")[0])

    def wait(self, job_id: int, budget_s: float) -> Job:
        """Wait for the end of a job; cancel it when the budget is spent."""
        began = time.monotonic()
        fields = self.show(job_id)
        while fields.get("JobState") not in FINAL:
            if time.monotonic() - began > budget_s:
                self.controller.run(["scancel", str(job_id)], check=False)
                return self._ended(job_id, {**fields, "JobState": "BUDGET"}, time.monotonic() - began)
            time.sleep(POLL_S)
            fields = self.show(job_id)
        return self._ended(job_id, fields, time.monotonic() - began)

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


def connect(plan: Plan) -> Slurm:
    """The scheduler of a planned site: its first controller and its GPU nodes."""
    credentials, budget_s = node_credentials(plan.site), float(plan.site.limits["ssh_timeout_s"].value)

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
