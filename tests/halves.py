"""`make test`: the tests on the lab, and those without it in what processor time the lab leaves.

    python -m tests.halves

Out: the first half as it goes, then all that the other said. Exit status 0 when both passed. Tests that hold a time budget
(marker `clock`) run beside the lab's.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import IO

from infra.lab.net import of_priority
from inventory.paths import repo_root

ON_THE_LAB = (
    "-n",
    "2",
    "--dist",
    "loadscope",
    "--no-loadscope-reorder",
    "-m",
    "lab or clock",
    "-o",
    "cache_dir=.pytest_cache/lab",
)
WITHOUT = (
    "-n",
    "auto",
    "--dist",
    "loadscope",
    "--no-loadscope-reorder",
    "-m",
    "not lab and not clock and not platform",
)
"""One worker for a module, so that what its tests share is made once."""
NICE = 10
"""Of the half without the lab: switches, nodes and what is asked of them within a time go first. A choice of ours."""
POLL_S = 0.5
END_S = 120.0


def main() -> int:
    with tempfile.TemporaryFile() as said, started(WITHOUT, NICE, said) as other, started(ON_THE_LAB, 0) as lab:
        statuses = [lab.wait()]
        print("\n---- without the lab ----", flush=True)
        statuses.append(shown(other, said))
    return next(filter(None, statuses), 0)


@contextlib.contextmanager
def started(tests: Sequence[str], nice: int, output: IO[bytes] | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """A run of pytest, ended when the block is left before its time: within END_S by its own hand, then by force."""
    argv = [sys.executable, "-m", "pytest", "tests", *tests, *(["--color=yes"] if sys.stdout.isatty() else [])]
    run = subprocess.Popen(
        ["sh", "-c", f'{of_priority(nice)} exec "$@"', "sh", *argv],
        cwd=repo_root(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        yield run
    except BaseException:
        if run.returncode is None:
            os.killpg(run.pid, signal.SIGINT)  # fixtures take their labs down
            end = time.monotonic() + END_S
            while _runs(run.pid) and time.monotonic() < end:
                time.sleep(POLL_S)
            os.killpg(run.pid, signal.SIGKILL)  # nobody has waited for it yet, so that the number is still its own
            run.wait()
        raise


def _runs(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def shown(run: "subprocess.Popen[bytes]", said: IO[bytes]) -> int:
    """Copy what a run says to our output until it has ended; its exit status."""
    offset = 0
    while True:
        status = run.poll()
        part = os.pread(said.fileno(), 1 << 16, offset)
        offset += len(part)
        sys.stdout.buffer.write(part)
        sys.stdout.flush()
        if not part:
            if status is not None:
                return status
            time.sleep(POLL_S)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
