"""A sweep of collectives over message sizes: a plain torchrun program (NCCL where every rank has a GPU, else gloo).

    torchrun --nnodes N --nproc-per-node G collectives.py --sizes 8,4096,1048576 --iterations 5

Prints one JSON object on rank 0: for each operation and size (bytes, counted as nccl-tests does: the larger of input and
output of one rank) the median time, algbw = size / time, and busbw = algbw times the factor of nccl-tests'
PERFORMANCE.md: all_reduce 2(n-1)/n, the others (n-1)/n. Every result is compared with the value it must have.
Standard library and torch only, so that it can be copied to a node alone.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist

ELEMENT_BYTES = 4  # float32
SCHEMA_VERSION = 1

Prepared = tuple[Callable[[], object], Callable[[], bool]]


def prepare(operation: str, count: int, rank: int, world: int, device: torch.device) -> Prepared:
    """(run once, is the result right) for `count` float32 elements per rank; `count` is a multiple of the world size."""
    part = count // world
    total = float(world * (world + 1) // 2)
    mine = torch.full((count,), float(rank + 1), device=device)
    if operation == "all_reduce":
        work = mine.clone()

        def run() -> None:
            work.copy_(mine)
            dist.all_reduce(work)

        return run, lambda: bool((work == total).all())
    if operation == "all_gather":
        gathered = torch.zeros(count, device=device)
        piece = mine[:part].contiguous()
        expected = torch.arange(1, world + 1, device=device, dtype=torch.float32).repeat_interleave(part)
        return lambda: dist.all_gather_into_tensor(gathered, piece), lambda: bool((gathered == expected).all())
    if operation == "reduce_scatter":
        scattered = torch.zeros(part, device=device)
        return lambda: dist.reduce_scatter_tensor(scattered, mine), lambda: bool((scattered == total).all())
    received = torch.zeros(count, device=device)
    expected = torch.arange(1, world + 1, device=device, dtype=torch.float32).repeat_interleave(part)
    return lambda: dist.all_to_all_single(received, mine), lambda: bool((received == expected).all())


OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def factor(operation: str, world: int) -> float:
    """busbw / algbw, after nccl-tests' PERFORMANCE.md."""
    return 2 * (world - 1) / world if operation == "all_reduce" else (world - 1) / world


def measure(operation: str, size_b: int, iterations: int, device: torch.device) -> dict[str, object]:
    """One row of the sweep. Times are the slowest rank's, in microseconds; bandwidths in MB/s (10^6 bytes)."""
    rank, world = dist.get_rank(), dist.get_world_size()
    count = max(size_b // ELEMENT_BYTES // world, 1) * world
    run, right = prepare(operation, count, rank, world, device)
    run()  # connections are made on first use
    times = []
    for _ in range(iterations):
        dist.barrier()
        begin = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        slowest = torch.tensor([time.perf_counter() - begin], dtype=torch.float64, device=device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        times.append(float(slowest))
    correct = torch.tensor([int(right())], device=device)
    dist.all_reduce(correct, op=dist.ReduceOp.MIN)
    median_s = statistics.median(times)
    actual_b = count * ELEMENT_BYTES
    algbw = actual_b / median_s / 1e6
    return {
        "operation": operation,
        "size_b": actual_b,
        "time_us": round(median_s * 1e6, 1),
        "algbw_mb_s": round(algbw, 3),
        "busbw_mb_s": round(algbw * factor(operation, world), 3),
        "correct": bool(correct.item()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="8,1024,65536,1048576", help="message sizes in bytes, comma-separated")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--timeout-s", type=int, default=120, help="a collective that takes longer ends the job")
    parser.add_argument(
        "--computes-on",
        choices=("gpu", "cpu"),
        default="gpu" if torch.cuda.is_available() else "cpu",
        help="gpu ends the rank where PyTorch finds none; left out: a GPU where there is one",
    )
    options = parser.parse_args()
    operations = options.operations.split(",")
    if unknown := set(operations) - set(OPERATIONS):
        parser.error(f"unknown operations: {', '.join(sorted(unknown))}; choose from {', '.join(OPERATIONS)}")
    gpu = options.computes_on == "gpu"
    if gpu and not torch.cuda.is_available():
        parser.error(f"--computes-on gpu: PyTorch {torch.__version__} finds no GPU that computes")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(seconds=options.timeout_s))
    me = {
        "rank": dist.get_rank(),
        "host": socket.gethostname(),
        "device": torch.cuda.get_device_name(device) if gpu else "cpu",
        "uuid": f"GPU-{torch.cuda.get_device_properties(device).uuid}" if gpu else "",  # as NVML writes it
    }
    ranks: list[dict[str, object]] = [{}] * dist.get_world_size()
    dist.all_gather_object(ranks, me)
    rows = [
        measure(operation, int(size), options.iterations, device)
        for operation in operations
        for size in options.sizes.split(",")
    ]
    correct = all(row["correct"] for row in rows)
    if dist.get_rank() == 0:
        report = {
            "schema_version": SCHEMA_VERSION,
            "backend": dist.get_backend(),
            "device": me["device"],
            "torch": torch.__version__,
            "world_size": dist.get_world_size(),
            "ranks": ranks,
            "rows": rows,
        }
        print(json.dumps(report), flush=True)
    dist.destroy_process_group()
    return 0 if correct else 1


if __name__ == "__main__":
    sys.exit(main())
