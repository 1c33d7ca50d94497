"""Programs on torch, one process a rank with the environment that torch.distributed reads, as srun starts them on nodes.

    done = ranks.run(TRAINING, ["--steps", "8"], world=3)      a CompletedProcess: the first bad exit status ends all ranks

torch takes five seconds to import, far longer than the programs of these tests run: one Python imports it once, and each rank
is a fork of it that then runs the program file as `python PROGRAM` does.
"""

import atexit
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
POLL_S = 0.02
GRACE_S = 3.0
"""What the other ranks have to end by themselves after one ended badly, as with srun."""

_SERVER = """
import json, os, runpy, sys, traceback
import torch, torch.distributed, torch.nn.parallel, torch._dynamo, torch._inductor.config

def child(order):
    os.setsid()
    for number, path in ((1, order["out"]), (2, order["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv = [order["program"], *order["arguments"]]
    sys.path[0] = os.path.dirname(order["program"])
    status = 1
    try:
        runpy.run_path(order["program"], run_name="__main__")
        status = 0
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    if "pid" in order:
        pid, state = os.waitpid(order["pid"], os.WNOHANG)
        print(json.dumps(os.waitstatus_to_exitcode(state) if pid else None), flush=True)
    else:
        pid = os.fork()
        if pid == 0:
            child(order)
        print(json.dumps(pid), flush=True)
"""


@cache
def _server() -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **ENVIRONMENT},
    )
    atexit.register(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _ask(order: object) -> int | None:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(order) + "\n")
    server.stdin.flush()
    answer: int | None = json.loads(server.stdout.readline())
    return answer


class Job:
    """Ranks of one program. `poll` is None while all run; a bad exit status of one ends the others soon."""

    def __init__(
        self, program: Path, arguments: Sequence[str], world: int, env: Mapping[str, str] | None = None
    ) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        self._folder = tempfile.TemporaryDirectory()
        self.out, self.err = (Path(self._folder.name) / name for name in ("out", "err"))
        self._running: dict[int, int] = {}
        self._status, self._bad_since = 0, math.inf
        for rank in range(world):
            where = {
                "RANK": rank,
                "LOCAL_RANK": rank,
                "WORLD_SIZE": world,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            }
            pid = _ask(
                {
                    "program": str(program),
                    "arguments": list(arguments),
                    "cwd": os.getcwd(),
                    "out": str(self.out),
                    "err": str(self.err),
                    "env": {
                        **os.environ,
                        **ENVIRONMENT,
                        **{key: str(value) for key, value in where.items()},
                        **(env or {}),
                    },
                }
            )
            assert pid is not None
            self._running[pid] = rank

    def poll(self) -> int | None:
        """The exit status of the job, 0 when all ranks ended well; None while it runs."""
        for pid in list(self._running):
            status = _ask({"pid": pid})
            if status is not None:
                del self._running[pid]
                self._status = self._status or status
                if status:
                    self._bad_since = min(self._bad_since, time.monotonic())
        if time.monotonic() - self._bad_since > GRACE_S:
            self.kill()
        return None if self._running else self._status

    def kill(self) -> None:
        """End what still runs."""
        for pid in self._running:
            os.killpg(pid, signal.SIGKILL)

    def wait(self, budget_s: float) -> int:
        """The exit status. TimeoutError, and no rank left, when the budget is over."""
        end = time.monotonic() + budget_s
        while (status := self.poll()) is None:
            if time.monotonic() > end:
                self.kill()
                raise TimeoutError(f"{len(self._running)} ranks still ran after {budget_s:g} s: {self.err.read_text()}")
            time.sleep(POLL_S)
        return status


def run(
    program: Path, arguments: Sequence[str], world: int = 1, budget_s: float = 180, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end; output of all ranks together."""
    job = Job(program, arguments, world, env)
    status = job.wait(budget_s)
    texts = [path.read_text() if path.exists() else "" for path in (job.out, job.err)]
    return subprocess.CompletedProcess([str(program), *arguments], status, *texts)
