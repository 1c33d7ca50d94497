"""`make test`: the tests without the lab and those on it at once, since what waits for a lab leaves the cores to the others.

    python -m tests.halves

Those that start a Kubernetes control plane are in neither half: `make test-platform` runs them.
The half without the lab runs at a lower priority and writes to the terminal. What the half on the lab writes follows when the first
has ended. Exit status: that of the first half that failed, 0 when none did.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from inventory.paths import repo_root

NICE = 10
"""Added to the niceness of the tests without the lab. The lab's daemons run at -10 (infra/lab/net.py)."""
LABS = 2
"""Workers on the lab: the standing lab and all others, which take about as long. More would try the budgets of both for nothing."""
POLL_S = 0.5
AGAIN_S = 60.0
"""From an interrupt to the next one: taking a lab down takes less."""


def halves() -> dict[str, Sequence[str]]:
    """Arguments of pytest for each half. Nothing waits for a core while there is work, so a worker for each is enough."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "without the lab": ("tests", "-n", str(cores), "-m", "not lab and not platform"),
        "on the lab": ("tests", "-n", str(LABS), "--dist", "loadscope", "-m", "lab"),
    }


def run(arguments: Mapping[str, Sequence[str]]) -> int:
    """Run pytest with both lists of arguments at once, the first with its output on the terminal."""
    pytest = [sys.executable, "-m", "pytest"]
    (shown, first), (followed, second) = arguments.items()
    signal.signal(signal.SIGTERM, end)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "output"
        with log.open("wb") as output:
            other = subprocess.Popen([*pytest, *second], cwd=repo_root(), stdout=output, stderr=subprocess.STDOUT)
        one = subprocess.Popen(["nice", "-n", str(NICE), *pytest, *first], cwd=repo_root())
        try:
            print(f"Tests {shown}. Those {followed} run beside them and are shown afterwards.", flush=True)
            status = one.wait()
            print(f"Tests {followed}:", flush=True)
            follow(log, other)
        except (KeyboardInterrupt, Ended) as why:
            if isinstance(why, Ended):  # the terminal sends SIGINT to all processes itself
                interrupt((one, other))
            one.wait()
            follow(log, other)
            return 130
        return status or other.returncode


def interrupt(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """End processes of pytest as from a terminal, and ask again after AGAIN_S: Python drops an interrupt that a callback of its
    garbage collector meets.
    """
    for process in processes:
        process.send_signal(signal.SIGINT)
    for process in processes:
        while True:
            try:
                process.wait(AGAIN_S)
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)


class Ended(Exception):
    """Somebody ends the tests by SIGTERM."""


def end(number: int, frame: FrameType | None) -> None:
    raise Ended


def follow(log: Path, process: "subprocess.Popen[bytes]") -> None:
    """Write to the terminal what a process has written to `log`, and what it still writes, until it ends."""
    with log.open("rb") as written:
        while True:
            ended = process.poll() is not None
            sys.stdout.buffer.write(written.read())
            sys.stdout.flush()
            if ended:
                return
            time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(run(halves()))
