"""Checkpoint writes of one client: a file of its own, then its part of a file that all clients share.

    python3 storage_write.py '{"folder": "/shared/…", "rank": 0, "clients": 4, "size_b": …, "budget_s": …}'

Standard library only. The folder exists. The clients meet in it before each phase, so that all write at once; one that waits
longer than budget_s for the others ends with an error. Data are random, so that nothing on the way can compress them, and are
on the server's disk (fsync) when a phase ends. Prints {"size_b", "own": {"began", "ended"}, "shared": {…}}, Unix times in seconds.
"""

import json
import os
import sys
import time
from pathlib import Path

BLOCK_B = 1024 * 1024
"""Blocks of 1 MiB: what serialisers of checkpoints write."""
POLL_S = 0.1
OPEN_BUDGET_S = 10.0
"""As long as a training waits for a folder that another rank makes."""


def meet(folder: Path, phase: str, rank: int, clients: int, budget_s: float) -> None:
    """Wait for all clients. TimeoutError tells how many came."""
    end = time.monotonic() + budget_s
    (folder / f"{phase}-here-{rank}").touch()
    while (here := len(list(folder.glob(f"{phase}-here-*")))) < clients:
        if time.monotonic() > end:
            raise TimeoutError(f"{here} of {clients} clients came within {budget_s:g} s")
        time.sleep(POLL_S)


def opened(path: Path) -> int:
    """A handle to write with, of a file that this client makes or that another one makes at the same moment."""
    end = time.monotonic() + OPEN_BUDGET_S
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        except FileExistsError:  # of GlusterFS, without O_EXCL too, until it shows the file of the other client
            if time.monotonic() > end:
                raise
            time.sleep(POLL_S)


def write(path: Path, offset_b: int, size_b: int) -> dict[str, float]:
    """Write size_b bytes at an offset and force them to the server; when it began and ended."""
    block = os.urandom(BLOCK_B)
    handle = opened(path)
    try:
        began = time.time()
        for done_b in range(0, size_b, BLOCK_B):
            part = memoryview(block)[: min(BLOCK_B, size_b - done_b)]
            at = offset_b + done_b
            while part:
                written = os.pwrite(handle, part, at)
                part, at = part[written:], at + written
        os.fsync(handle)
        return {"began": began, "ended": time.time()}
    finally:
        os.close(handle)


def main() -> None:
    request = json.loads(sys.argv[1])
    folder, rank, size_b = Path(request["folder"]), int(request["rank"]), int(request["size_b"])
    phases = {"own": (folder / f"file-{rank}", 0), "shared": (folder / "file", rank * size_b)}
    times: dict[str, object] = {"size_b": size_b}
    for phase, (path, offset_b) in phases.items():
        meet(folder, phase, rank, int(request["clients"]), float(request["budget_s"]))
        times[phase] = write(path, offset_b, size_b)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
