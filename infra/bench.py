"""`make bench`: how long the main commands take on this machine. Prints; judges nothing.

In: a clone that has been set up; the lab and its stack where one is up. Out: a table of wall times, processor times of the
commands and what they started, and the goals that were set for two cores. The first plan and what is explained are of a new site
of ten lines, 64 servers of eight H100 on InfiniBand, in a temporary folder, with all outputs.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console

from infra.env import environment
from infra.lab.lab import is_up
from infra.values_shown import table
from inventory.paths import repo_root

LIMIT_S = 1800.0
LAB, LAB_OF_KUBERNETES = "lab", "lab-kubernetes"
FIRST = "first"
"""Name of the new site; in a command the folder that it is in."""
NEW = ("bringup", "new", FIRST, "--gpu", "h100", "--servers", "64", "--fabric", "ib", "--power-kw", "1200")


@dataclass(frozen=True)
class Case:
    """A command to time, the goal for it on two cores, and the lab that has to be up and configured for it, '' for none."""

    name: str
    command: tuple[str, ...]
    goal_s: float
    lab: str = ""


QUICK = (
    Case("set-up with nothing to do", ("infra/setup/setup.sh",), 2.0),
    Case("plan of 1,000 servers with report", ("bringup", "plan", "h100-1000-ib"), 3.0),
    Case("first plan of ten lines, 64 servers", ("bringup", "plan", FIRST), 2.0),
    Case("explain of a number worked out", ("bringup", "explain", FIRST, "oob.switches"), 1.0),
    Case("explain of a rating worked out", ("bringup", "explain", FIRST, "electrical.transformers.kva"), 1.0),
    Case("explain of a plain value", ("bringup", "explain", FIRST, "rack.servers"), 1.0),
    Case("discovery of 640 InfiniBand switches judged", (sys.executable, "-m", "bench.infiniband"), 10.0),
    Case("second pulumi up on the lab", ("pulumi", "up", "-s", LAB, "--yes"), 10.0, LAB),
    Case(
        "second pulumi up on the lab with Kubernetes, its platform as well",
        ("pulumi", "up", "-s", LAB_OF_KUBERNETES, "--yes", "--expect-no-changes"),
        20.0,
        LAB_OF_KUBERNETES,
    ),
)
DEMO = Case("whole demo", (sys.executable, "-m", "infra.demo"), 360.0)


def measure(case: Case, env: Mapping[str, str], folder: str) -> tuple[float, float, int]:
    """Wall seconds, processor seconds and exit status of one run; the new site is in `folder`."""
    own = FIRST in case.command
    command = [os.path.join(folder, FIRST) if word == FIRST else word for word in case.command]
    began, used = time.monotonic(), _processor_s()
    done = subprocess.run(
        command,
        cwd=repo_root(),
        env={**env, "BRINGUP_VAR": folder} if own else env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=LIMIT_S,
        check=False,
    )
    return time.monotonic() - began, _processor_s() - used, done.returncode


def _processor_s() -> float:
    """User and system time of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Time every case that can run here; exit status 0 whatever the times are."""
    arguments = argparse.ArgumentParser(prog="python -m infra.bench", description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="leave out the demo, which rebuilds the lab")
    quick = arguments.parse_args().quick
    env = environment()
    root = os.geteuid() == 0
    rows = []
    cases = QUICK if quick or not root else (DEMO, *QUICK)
    with tempfile.TemporaryDirectory() as folder:
        new = [*NEW, "--dir", os.path.join(folder, FIRST)]
        subprocess.run(new, env=env, stdout=subprocess.DEVNULL, timeout=LIMIT_S, check=True)
        for case in cases:
            if case.lab and not (root and is_up(case.lab)):
                rows.append([case.name, f"not run: {case.lab} is not up", "", "", f"{case.goal_s:.0f}"])
                continue
            seconds, used, status = measure(case, env, folder)
            rows.append([case.name, f"exit {status}", f"{seconds:.1f}", f"{used:.1f}", f"{case.goal_s:.0f}"])
    Console().print(
        table(
            f"Timings on {os.cpu_count()} cores",
            "what",
            "ended",
            "#seconds",
            "#processor s",
            "#goal on 2 cores",
            rows=rows,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
