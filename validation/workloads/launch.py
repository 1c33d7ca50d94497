"""Starts the ranks of a torch program on one node: PyTorch is imported once, then one process is forked for each rank.

    srun --ntasks-per-node=1 python launch.py --processes G --head NODE --port P program.py ...

A torchrun program sees what it sees under torchrun: RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
torchrun imports PyTorch once for its agent and once for each rank, which takes longer than the short jobs of validation. Number
and index of the nodes come from Slurm; restarts are Slurm's as well. Nothing here touches a GPU: CUDA starts in the ranks.
Exit status: that of the first rank that fails, 128 plus the signal of one that is killed; the other ranks are ended.
Standard library and torch only, so that it can be copied to a node alone.
"""

import argparse
import os
import runpy
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

GRACE_S = 10.0
"""From SIGTERM to SIGKILL of the ranks that are left."""
POLL_S = 0.05


def rank_environment(local: int, processes: int, node: int, nodes: int, head: str, port: int) -> dict[str, str]:
    """The variables of torch.distributed's env:// for one rank. Every node has the same number of processes."""
    return {
        "RANK": str(node * processes + local),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(nodes * processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": head,
        "MASTER_PORT": str(port),
    }


def run_rank(program: str, arguments: list[str], environment: Mapping[str, str]) -> None:
    """Run the program in this process, as `python program arguments` would."""
    os.environ.update(environment)
    sys.argv = [program, *arguments]
    sys.path[0] = str(Path(program).resolve().parent)
    runpy.run_path(program, run_name="__main__")


def end(ranks: set[int]) -> None:
    """End ranks that still run, and wait for them."""
    for pid in ranks:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while ranks and time.monotonic() < deadline:
        ranks -= {pid for pid in ranks if os.waitpid(pid, os.WNOHANG)[0]}
        time.sleep(POLL_S)
    for pid in ranks:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def wait(ranks: set[int]) -> int:
    """Exit status of the first rank that fails, 0 when none does. The ranks are ended with the first failure."""
    while ranks:
        pid, status = os.wait()
        ranks.discard(pid)
        code = os.waitstatus_to_exitcode(status)
        if code:
            end(ranks)
            return code if code > 0 else 128 - code
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, required=True, help="ranks of each node")
    parser.add_argument("--head", required=True, help="node of rank 0, by a name that all nodes resolve")
    parser.add_argument("--port", type=int, default=29500, help="free port of that node")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    node, nodes = int(os.environ.get("SLURM_NODEID", "0")), int(os.environ.get("SLURM_NNODES", "1"))

    import torch.distributed  # noqa: F401  (before the forks: its ranks share it)

    ranks: set[int] = set()
    for local in range(options.processes):
        pid = os.fork()
        if not pid:
            environment = rank_environment(local, options.processes, node, nodes, options.head, options.port)
            run_rank(options.program, options.arguments, environment)
            return 0
        ranks.add(pid)

    def stop(number: int, _: FrameType | None) -> None:
        end(ranks)
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    return wait(ranks)


if __name__ == "__main__":
    sys.exit(main())
