"""Commands on this machine with a time budget; what outlives it is ended with everything that it started."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its exit status (None when its budget was spent) and its output up to then."""

    status: int | None
    out: bytes
    err: bytes


def run(argv: Sequence[str], budget_s: float, cwd: Path, env: Mapping[str, str]) -> Ended:
    """Run a command without a terminal, in a process group of its own, for at most `budget_s` seconds."""
    with subprocess.Popen(
        argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=budget_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Ended(None, out, err)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return Ended(process.returncode, out, err)
