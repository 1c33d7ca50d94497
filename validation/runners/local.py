"""Commands on this machine with a time budget; what outlives it is ended with everything that it started."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its exit status (None when it was ended from here) and its output up to then."""

    status: int | None
    out: bytes
    err: bytes


POLL_S = 0.5
"""Seconds between two looks at `stop`."""


def run(
    argv: Sequence[str], budget_s: float, cwd: Path, env: Mapping[str, str], stop: threading.Event | None = None
) -> Ended:
    """Run a command without a terminal, in a process group of its own, for at most `budget_s` seconds.

    `stop` ends it earlier: a thread that runs a command has no other way to be told.
    """
    end = time.monotonic() + budget_s
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            while True:
                left_s = end - time.monotonic()
                try:
                    out, err = process.communicate(timeout=min(left_s, POLL_S) if stop else left_s)
                except subprocess.TimeoutExpired:
                    if time.monotonic() < end and not (stop and stop.is_set()):
                        continue
                    os.killpg(process.pid, signal.SIGKILL)
                    out, err = process.communicate()
                    return Ended(None, out, err)
                return Ended(process.returncode, out, err)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
