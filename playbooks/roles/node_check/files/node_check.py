#!/usr/bin/python3
"""Is this node fit for jobs? Slurm runs it as prolog, epilog and health check; on Kubernetes a timer does, as the last of these.

    node_check.py health     drains the node with the cause as its reason; resumes what it drained once the cause is gone, but for a
                             cause that names an item of acceptance: that node waits for evidence (bringup validation return)
    node_check.py prolog     before a job: drains and exits 1, so that the job starts elsewhere
    node_check.py epilog     after a job: drains when the job has left a broken GPU behind

On Kubernetes a drained node has a taint, whose value is the item or `unfit`; cordons are a person's or acceptance's. The
program never hangs: each part runs in a process of its own with its own time budget. A process that cannot even be killed (an NFS
server that is gone, a GPU that has fallen off the bus) is left behind, and its part counts as failed. Standard library only.
"""

import contextlib
import email.utils
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

CONFIG = Path("/etc/bringup-node-check.json")
MARK = Path("/run/bringup-node-check")
"""Exists while this boot's last word is that the node is fit. Without it the scheduler is asked what the node's state is."""
PREFIX = "bringup: "
"""Start of every reason that this program gives; it resumes no node that was drained with another reason."""
HELD = re.compile(r"\bS[0-9]{3}\.[a-z]+\b")
"""An item of the step register in a reason: the node returns when the item has passed again, which this program cannot tell."""
POLL_S = 0.05
REASON_LENGTH = 200
PARTS = {"health": ("gpus", "mounts", "disk", "clock"), "prolog": ("gpus", "mounts"), "epilog": ("gpus",)}
DRAINED = ("DRAIN", "DRAINED", "DRAINING")
OUT_OF_SERVICE = "bringup.local/out-of-service"
"""Taint of a node of Kubernetes that is out of service; its reason is an annotation (validation/runners/kubernetes.py)."""
REASON = f"{OUT_OF_SERVICE}-reason"
UNFIT = "unfit"
"""Value of the taint for a cause that goes by itself. Of no other value may a node take it away: the API server refuses that."""
REFUSED = 300
"""The first status of HTTP that is no success."""
ANSWER_BYTES = 4 << 20
"""Of an answer of the API server; a node with its images takes about 50 kB."""

NO_BINDINGS, NO_LIBRARY, NOT_STARTED = 3, 4, 127
"""Exit statuses of the probe of GPUs: Python has no NVIDIA's bindings, the driver's library is not there, `run` started nothing."""

# Runs in the Python that has NVIDIA's bindings. Says how many GPUs answer, or ends with NO_BINDINGS or NO_LIBRARY.
GPU_PROBE = """
import sys
RECOVERY_ACTION = 230  # nvml.h: NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; 0 is none
try:
    import pynvml
    pynvml.nvmlInit()
except ImportError:
    sys.exit(3)
except pynvml.NVMLError as error:
    sys.exit(4) if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND else sys.exit(f"NVML does not start: {error}")
lost = []
count = pynvml.nvmlDeviceGetCount()
for index in range(count):
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        pynvml.nvmlDeviceGetMemoryInfo(handle)
        (action,) = pynvml.nvmlDeviceGetFieldValues(handle, [RECOVERY_ACTION])
    except pynvml.NVMLError as error:
        lost.append(f"GPU {index}: {error}")
        continue
    if action.nvmlReturn == 0 and action.value.uiVal:
        lost.append(f"GPU {index} asks for recovery action {action.value.uiVal}")
sys.exit("; ".join(lost)) if lost else print(count)
"""


@dataclass(frozen=True)
class Ended:
    """A process: its exit status (None: it was over its budget) and what it wrote."""

    status: int | None
    out: str
    err: str


def run(argv: Sequence[str], budget_s: float) -> Ended:
    """Run a program for at most `budget_s`, even when it cannot be killed: its output goes to files, nobody waits on it."""
    with open(os.memfd_create("out"), "w+b") as out, open(os.memfd_create("err"), "w+b") as err:
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, close_fds=True
            )
        except OSError as error:
            return Ended(NOT_STARTED, "", str(error))
        end = time.monotonic() + budget_s
        while (status := process.poll()) is None and time.monotonic() < end:
            time.sleep(POLL_S)
        if status is None:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.killpg(process.pid, signal.SIGKILL)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace").strip())
        return Ended(status, *texts)


def gpus(config: dict[str, Any]) -> str:
    """'' when all planned GPUs answer through NVML; else what is wrong. OSError where the probe cannot ask.

    Where acceptance judges no GPU (no item in `held`: workloads compute on CPUs), a node may lack NVML, its bindings and a Python.
    """
    if not config["gpus"]:
        return ""
    seen = run([config["nvml_python"], "-I", "-c", GPU_PROBE], config["part_budget_s"])
    if seen.status is None:
        return f"GPUs do not answer within {config['part_budget_s']} s"
    if seen.status in (NO_BINDINGS, NO_LIBRARY, NOT_STARTED) and "gpus" not in config.get("held", {}):
        return ""
    if seen.status == NOT_STARTED:
        raise OSError(seen.err)
    if seen.status == NO_BINDINGS:
        raise OSError(f"{config['nvml_python']} has no nvidia-ml-py: install it (role workloads)")
    if seen.status == NO_LIBRARY:
        return "the driver's library is not there: libnvidia-ml.so.1"
    if seen.status:
        return seen.err.splitlines()[-1] if seen.err else f"GPU probe ended with {seen.status}"
    return "" if int(seen.out) == config["gpus"] else f"{seen.out} of {config['gpus']} GPUs are there"


def mounts(config: dict[str, Any]) -> str:
    """'' when every shared file system is mounted and answers."""
    for path in config["mounts"]:
        if not any(line.split()[1] == path for line in Path("/proc/self/mounts").read_text().splitlines()):
            return f"{path} is not mounted"
        seen = run(["stat", "--file-system", "--format=%i", path], config["part_budget_s"])
        if seen.status is None:
            return f"{path} does not answer within {config['part_budget_s']} s"
        if seen.status:
            return f"{path}: {seen.err}"
    return ""


def disk(config: dict[str, Any]) -> str:
    """'' when the node's own disk has room for spool files and logs."""
    for path in config["disk_paths"]:
        found = os.statvfs(path)
        free_mib = found.f_bavail * found.f_frsize // 2**20
        if free_mib < config["disk_free_min_mib"]:
            return f"{path} has {free_mib} MiB free, less than {config['disk_free_min_mib']}"
    return ""


def clock(config: dict[str, Any]) -> str:
    """'' when chrony is synchronised and near: credentials of a node with another time are refused."""
    seen = run(["chronyc", "-n", "-c", "tracking"], config["part_budget_s"])
    if seen.status != 0:
        return f"chrony does not answer: {seen.out or seen.err or 'no end'}"
    cells = seen.out.split(",")  # chronyc(1): without a time source the offset is 0, and only the leap status tells
    if cells[13] == "Not synchronised":
        return "clock is not synchronised"
    offset_s = abs(float(cells[4]))
    limit_s = config["clock_offset_max_s"]
    return "" if offset_s <= limit_s else f"clock is off by {offset_s:.3f} s, more than {limit_s} s"


CHECKS = {"gpus": gpus, "mounts": mounts, "disk": disk, "clock": clock}


def causes(parts: Sequence[str], config: dict[str, Any]) -> list[str]:
    """What is wrong; a part that cannot be judged is wrong as well. `held` of the configuration names the item of a part that was
    judged: what merely could not be is over once it can.

    Held causes come first: a long reason is cut at its end.
    """
    found = []
    for part in parts:
        item = config.get("held", {}).get(part)
        try:
            problem = CHECKS[part](config)
        except (OSError, ValueError, IndexError) as error:
            item, problem = None, f"{part} cannot be judged: {error}"
        if problem:
            found.append(f"{item}: {problem}" if item else problem)
    return sorted(found, key=lambda problem: not HELD.match(problem))


def decide(drained: bool, reason: str, problems: Sequence[str]) -> str | None:
    """The reason to drain the node with; '' to resume it, None to do nothing. Somebody else's drain is never touched, nor one that
    names an item of acceptance.

    `reason` with whatever the scheduler puts behind it (Slurm: '[user@time]').
    """
    ours = reason.startswith(PREFIX)
    if drained and ours and HELD.search(reason):
        return None
    if not problems:
        return "" if drained and ours else None
    wanted = (PREFIX + "; ".join(problems)).replace('"', "'")[:REASON_LENGTH]
    if drained and (not ours or reason.startswith(wanted)):
        return None
    return wanted


class SchedulerError(Exception):
    """The scheduler does not answer, or refuses; the text says which."""


class Slurm:
    """This node as slurmctld has it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.node, self.budget_s = socket.gethostname(), config["part_budget_s"]

    def state(self) -> tuple[bool, str]:
        """Whether the node is drained, and the reason that it has."""
        seen = self.scontrol("--oneliner", "show", "node", self.node)
        if seen.status != 0:
            raise SchedulerError(f"slurmctld does not answer: {seen.err or seen.out or 'no end'}")
        state, reason = re.search(r"\bState=(\S+)", seen.out), re.search(r"\bReason=(.*)$", seen.out)
        words = re.split(r"[+*]", state[1].upper() if state else "")
        return any(word in DRAINED for word in words), reason[1] if reason else ""

    def change(self, reason: str) -> None:
        """Drain the node with a reason, or resume it with none."""
        words = ["State=DRAIN", f"Reason={reason}"] if reason else ["State=RESUME"]
        done = self.scontrol("update", f"NodeName={self.node}", *words)
        if done.status != 0:
            raise SchedulerError(f"slurmctld refuses {words}: {done.err or done.out or 'no end'}")

    def scontrol(self, *words: str) -> Ended:
        return run(["scontrol", *words], self.budget_s)


class Kubernetes:
    """This node as the API server has it; `kubernetes` of the configuration has server, node, ca and certificate (a file with its
    key)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.given, self.budget_s = config["kubernetes"], config["part_budget_s"]
        self.version, self.taints, self.now = "", list[dict[str, Any]](), ""

    def state(self) -> tuple[bool, str]:
        """Whether the node is out of service, and the reason that its taint has. One that is only cordoned has none: a person's."""
        found = self.call("GET")
        spec, metadata = found["spec"], found["metadata"]
        self.version, self.taints = metadata["resourceVersion"], spec.get("taints") or []
        tainted = any(one["key"] == OUT_OF_SERVICE for one in self.taints)
        reason = (metadata.get("annotations") or {}).get(REASON, "") if tainted else ""
        return tainted or bool(spec.get("unschedulable")), reason

    def change(self, reason: str) -> None:
        """Taint the node with a reason, or take both away; pods that run go on, and a cordon stays. `state` came before."""
        taints = [one for one in self.taints if one["key"] != OUT_OF_SERVICE]
        if reason:
            item = HELD.search(reason)
            taint = {"key": OUT_OF_SERVICE, "value": item[0] if item else UNFIT, "effect": "NoSchedule"}
            taints.append({**taint, "timeAdded": self.now})
        metadata = {"resourceVersion": self.version, "annotations": {REASON: reason or None}}
        self.call("PATCH", {"metadata": metadata, "spec": {"taints": taints}})

    def call(self, verb: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The node as the answer has it. The time is the server's: this node's clock may be what is wrong."""
        server = urlsplit(self.given["server"])
        try:
            tls = ssl.create_default_context(cafile=self.given["ca"])
            tls.load_cert_chain(self.given["certificate"])
            http = HTTPSConnection(server.hostname or "", server.port, timeout=self.budget_s, context=tls)
            with contextlib.closing(http):
                data = None if body is None else json.dumps(body).encode()
                kind = {"Content-Type": "application/merge-patch+json"}
                http.request(verb, f"/api/v1/nodes/{quote(self.given['node'], safe='')}", data, kind)
                answer = http.getresponse()
                said = json.loads(answer.read(ANSWER_BYTES))
                if answer.status >= REFUSED:
                    raise SchedulerError(f"the API server refuses {verb}: {said.get('message', answer.status)}")
                at = email.utils.parsedate_to_datetime(answer.headers["Date"])
        except (OSError, HTTPException, ValueError, TypeError) as error:
            raise SchedulerError(f"the API server does not answer {verb}: {error or type(error).__name__}") from None
        self.now = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return dict(said)


def apply(problems: Sequence[str], config: Mapping[str, Any]) -> bool:
    """Make the node's state in its scheduler follow; False where the scheduler does not answer or refuses."""
    if problems:  # before the scheduler is asked: a change may be made although its answer is lost
        MARK.unlink(missing_ok=True)
    elif MARK.exists():
        return True
    scheduler = Kubernetes(config) if config.get("kubernetes") else Slurm(config)
    try:
        reason = decide(*scheduler.state(), problems)
        if reason is not None:
            scheduler.change(reason)
    except SchedulerError as error:
        print(error, file=sys.stderr)
        return False
    if not problems:
        MARK.touch()
    return True


def main() -> int:
    mode = sys.argv[1]
    config = json.loads(CONFIG.read_text())
    problems = causes(PARTS[mode], config)
    told = apply(problems, config) if mode == "health" or problems else True
    for problem in problems:
        print(f"{PREFIX}{problem}", file=sys.stderr)
    if mode == "health":  # systemd's unit fails; Slurm only logs the status of a health check
        return 0 if told or not config.get("kubernetes") else 1
    return 1 if problems and mode == "prolog" else 0


if __name__ == "__main__":
    sys.exit(main())
