#!/usr/bin/python3
"""Is this node fit for jobs? Slurm runs it as prolog, epilog and health check; it never hangs.

    node_check.py health     drains the node with the cause as its reason; resumes what it drained once the cause is gone, but for a
                             cause that names an item of acceptance: that node waits for evidence (bringup validation return)
    node_check.py prolog     before a job: drains and exits 1, so that the job starts elsewhere
    node_check.py epilog     after a job: drains when the job has left a broken GPU behind

Every part runs in a process of its own with its own time budget. A process that cannot even be killed (an NFS server that
is gone, a GPU that has fallen off the bus) is left behind, and its part counts as failed. Standard library only.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIG = Path("/etc/slurm/node_check.json")
MARK = Path("/run/bringup-node-check")
"""Exists while this boot's last word is that the node is fit. Without it slurmctld is asked what the node's state is."""
PREFIX = "bringup: "
"""Start of every reason that this program gives; it resumes no node that was drained with another reason."""
HELD = re.compile(r"\bS[0-9]{3}\.[a-z]+\b")
"""An item of the step register in a reason: the node returns when the item has passed again, which this program cannot tell."""
POLL_S = 0.05
REASON_LENGTH = 200
PARTS = {"health": ("gpus", "mounts", "disk", "clock"), "prolog": ("gpus", "mounts"), "epilog": ("gpus",)}
DRAINED = ("DRAIN", "DRAINED", "DRAINING")

# Runs in the Python that has NVIDIA's bindings. Says how many GPUs answer; exit status 3: NVML is not installed here.
GPU_PROBE = """
import sys
try:
    import pynvml
    pynvml.nvmlInit()
except ImportError:
    sys.exit(3)
except pynvml.NVMLError as error:
    sys.exit(3) if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND else sys.exit(f"NVML does not start: {error}")
lost = []
count = pynvml.nvmlDeviceGetCount()
for index in range(count):
    try:
        pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(index))
    except pynvml.NVMLError as error:
        lost.append(f"GPU {index}: {error}")
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
            return Ended(127, "", str(error))
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
    """'' when all planned GPUs answer through NVML, or where NVML is not installed; else what is wrong."""
    if not config["gpus"]:
        return ""
    seen = run([config["nvml_python"], "-I", "-c", GPU_PROBE], config["part_budget_s"])
    if seen.status is None:
        return f"GPUs do not answer within {config['part_budget_s']} s"
    if seen.status in (3, 127):
        return ""
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
    """What is wrong; a part that cannot be judged is wrong as well. `held` of the configuration names the item of a part.

    Held causes come first: a long reason is cut at its end.
    """
    found = []
    for part in parts:
        try:
            problem = CHECKS[part](config)
        except (OSError, ValueError, IndexError) as error:
            problem = f"{part} cannot be judged: {error}"
        if problem:
            item = config.get("held", {}).get(part)
            found.append(f"{item}: {problem}" if item else problem)
    return sorted(found, key=lambda problem: not HELD.match(problem))


def decide(state: str, reason: str, problems: Sequence[str]) -> list[str]:
    """The `scontrol update` words that follow, [] for none. Somebody else's drain is never touched, nor one that names an item
    of acceptance.

    `state` as `scontrol show node` prints it (IDLE+DRAIN), `reason` with its '[user@time]' tail.
    """
    drained = any(word in DRAINED for word in re.split(r"[+*]", state.upper()))
    ours = reason.startswith(PREFIX)
    if drained and ours and HELD.search(reason):
        return []
    if not problems:
        return ["State=RESUME"] if drained and ours else []
    wanted = (PREFIX + "; ".join(problems)).replace('"', "'")[:REASON_LENGTH]
    if drained and (not ours or reason.startswith(wanted)):
        return []
    return ["State=DRAIN", f"Reason={wanted}"]


def scontrol(words: Sequence[str], config: dict[str, Any]) -> Ended:
    return run(["scontrol", *words], config["part_budget_s"])


def apply(problems: Sequence[str], config: dict[str, Any]) -> None:
    """Make the node's state in slurmctld follow."""
    node = socket.gethostname()
    if not problems and MARK.exists():
        return
    seen = scontrol(["--oneliner", "show", "node", node], config)
    if seen.status != 0:
        print(f"slurmctld does not answer: {seen.err or seen.out or 'no end'}", file=sys.stderr)
        return
    state = re.search(r"\bState=(\S+)", seen.out)
    reason = re.search(r"\bReason=(.*)$", seen.out)
    words = decide(state[1] if state else "", reason[1] if reason else "", problems)
    done = scontrol(["update", f"NodeName={node}", *words], config) if words else Ended(0, "", "")
    if done.status != 0:
        print(f"slurmctld refuses {words}: {done.err or done.out or 'no end'}", file=sys.stderr)
    elif problems:
        MARK.unlink(missing_ok=True)
    else:
        MARK.touch()


def main() -> int:
    mode = sys.argv[1]
    config = json.loads(CONFIG.read_text())
    problems = causes(PARTS[mode], config)
    if mode == "health" or problems:
        apply(problems, config)
    for problem in problems:
        print(f"{PREFIX}{problem}", file=sys.stderr)
    return 1 if problems and mode == "prolog" else 0


if __name__ == "__main__":
    sys.exit(main())
