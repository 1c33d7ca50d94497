"""A sweep of collectives over message sizes: a plain torchrun program (NCCL where every rank has a GPU, else gloo).

    torchrun --nnodes N --nproc-per-node G collectives.py --sizes 8,4096,1048576 --spans node,leaf,whole --leaf "gpu1 gpu2;gpu3"

Each span is measured in groups that work at the same time: all ranks of a node, of a leaf group (--leaf: its hosts, groups apart
by semicolons), of the whole job. A span whose groups are those of the whole is left out, and so are groups of one rank.

Method as of nccl-tests: in place where the operation allows it, 25 rounds of which the last 20 are timed together; the time
is that of the slowest rank. Filling and checking the buffers is outside the timing. The values are whole numbers up to 251, so
that every result is exact in float32 and bfloat16 at any number of ranks; each element of a sum comes from two ranks, so that
a maximum, a rank left out and a rank counted twice show. send_recv goes to the rank that many further as a node has, on the same
rail, and comes from the one before; within a node it goes to the next.

Each rank tells what it measured itself: "spans" has for each span the name and size of its group, and for each type, operation and
message size, in the same order in all groups, the microseconds that it took and whether its result was right ("wrong": the numbers
of those that were not). The first rank of a group also has the "rows" that these are about, with the size in bytes counted as
nccl-tests does: the larger of input and output of one rank. "transports": over what NCCL connected the rank (P2P, SHM, NET/IB,
NET/Socket; NCCL_DEBUG's "via"), and how many channels. runners/collectives.py joins what the ranks tell.

--in-network on lets NCCL reduce in the switches (NCCL_COLLNET_ENABLE), off forbids it. "in_network" then tells which was asked,
the CollNet plugin that NCCL loaded, how many channels it connected through it, and, where NCCL logs it (its rank 0), by which
algorithms it ran an all-reduce of each size in bytes.

With --results each rank writes rank-N.json into that folder on its node; without it rank 0 prints {"ranks": [each rank's]}.
Standard library and torch only, so that it can be copied to a node alone.
"""

import argparse
import json
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

SCHEMA_VERSION = 3
ITERATIONS, WARM_UP = 20, 5
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SPANS = ("node", "leaf", "whole")
SUMMANDS = (101, 97)
"""Highest values of the two ranks that an element of a sum comes from: the sum, up to 198, is exact in bfloat16."""
PIECE = 251
"""Values of data that is moved are at most this; bfloat16 has all whole numbers up to 256."""
CHUNK = 1 << 24
"""Elements that are filled or compared at a time."""
VIA = re.compile(r"Channel \d+(?:/\d+)? ?: .* via (P2P|SHM|NET/[A-Za-z]+)")
"""A connection in NCCL's log, subsystem INIT (transport/p2p.cc, shm.cc, net.cc of NCCL)."""
COLLNET_PLUGIN = re.compile(r"NET/Plugin: Loaded collnet plugin (\S+)")
COLLNET_VIA = re.compile(r"CollNet \d+/\d+ : .* via COLLNET/")
ALGORITHM = re.compile(r"AllReduce: (\d{1,15}) Bytes -> Algo (\w{1,20}) ")
"""The plugin that NCCL loaded (plugin/net/net_v*.cc), a channel through it (transport/coll_net.cc), both of subsystem INIT; the
algorithm of an operation (enqueue.cc, subsystem TUNING: by its name since NCCL 2.24, by a number before)."""
Row = tuple[float, bool, dict[str, Any]]
"""Microseconds that a rank took, whether its result was right, and what was measured: type, operation, size_b."""
Value = Callable[[Tensor], Tensor]
"""The whole numbers that elements have, from the numbers of the elements."""


@dataclass(frozen=True)
class Group:
    """Ranks that work together: `ranks` of the job in order, `mine` this rank's place, `per_node` how far send_recv goes."""

    name: str
    ranks: tuple[int, ...]
    mine: int
    per_node: int
    handle: Any = None

    @property
    def size(self) -> int:
        """How many ranks."""
        return len(self.ranks)


@dataclass(frozen=True)
class Work:
    """An operation that is ready: `fill` the buffers, `run` it once, `right` after one run on filled buffers."""

    fill: Callable[[], None]
    run: Callable[[], object]
    right: Callable[[], bool]


# ---- data ------------------------------------------------------------------------------------------------------------
def summand(element: Tensor, rank: int, size: int) -> Tensor:
    """What a rank adds to each element: element i is the sum of two ranks, i mod size and the next."""
    first, second = element * 7 % SUMMANDS[0] + 1, element * 13 % SUMMANDS[1] + 1
    zero = torch.zeros_like(element)
    return torch.where(element % size == rank, first, zero) + torch.where((element + 1) % size == rank, second, zero)


def total(element: Tensor) -> Tensor:
    """The sum of all ranks' summands."""
    return element * 7 % SUMMANDS[0] + 1 + element * 13 % SUMMANDS[1] + 1


def piece(element: Tensor, sender: Tensor | int, receiver: Tensor | int = 0) -> Tensor:
    """What a rank sends as an element of its piece."""
    return (element * 7 + sender * 31 + receiver * 17) % PIECE


def fill(buffer: Tensor, value: Value) -> None:
    """Give each element its value, part by part: the numbers of 8 GB of elements would take another 16 GB."""
    for first in range(0, len(buffer), CHUNK):
        part = buffer[first : first + CHUNK]
        part.copy_(value(torch.arange(first, first + len(part), device=buffer.device)))


def same(buffer: Tensor, value: Value, offset: int = 0) -> bool:
    """Whether each element has its value; `offset` is the number of the first one."""
    wrong = torch.zeros((), dtype=torch.int64, device=buffer.device)
    for first in range(0, len(buffer), CHUNK):
        part = buffer[first : first + CHUNK]
        numbers = torch.arange(offset + first, offset + first + len(part), device=buffer.device)
        wrong += (part != value(numbers).to(buffer.dtype)).sum()
    return not int(wrong)


def prepare(operation: str, count: int, group: Group, device: torch.device, kind: torch.dtype) -> Work:
    """The operation on `count` elements per rank; `count` is a multiple of the group's size."""
    part, size, mine, handle = count // group.size, group.size, group.mine, group.handle
    buffer = torch.zeros(count, dtype=kind, device=device)
    own = buffer[mine * part :][:part]
    if device.type != "cuda":
        own = own.clone()  # NCCL works in place on this rank's part of the buffer; gloo wants memory of its own

    def summands(element: Tensor) -> Tensor:
        return summand(element, mine, size)

    if operation == "all_reduce":
        return Work(
            lambda: fill(buffer, summands),
            lambda: dist.all_reduce(buffer, group=handle),
            lambda: same(buffer, total),
        )
    if operation == "reduce_scatter":
        return Work(
            lambda: fill(buffer, summands),
            lambda: dist.reduce_scatter_tensor(own, buffer, group=handle),
            lambda: same(own, total, mine * part),
        )
    if operation == "all_gather":

        def only_mine() -> None:
            buffer.zero_()
            fill(own, lambda element: piece(element, mine))

        return Work(
            only_mine,
            lambda: dist.all_gather_into_tensor(buffer, own, group=handle),
            lambda: same(buffer, lambda element: piece(element % part, element // part)),
        )
    if operation == "broadcast":
        return Work(
            lambda: fill(buffer, lambda element: piece(element, 0) + 1 if mine == 0 else torch.zeros_like(element)),
            lambda: dist.broadcast(buffer, src=group.ranks[0], group=handle),
            lambda: same(buffer, lambda element: piece(element, 0) + 1),
        )
    received = torch.zeros_like(buffer)
    if operation == "send_recv":
        further = group.per_node if size > group.per_node else 1
        to, come = (mine + further) % size, (mine - further) % size

        def exchange() -> None:
            send = dist.P2POp(dist.isend, buffer, group.ranks[to], group=handle)
            receive = dist.P2POp(dist.irecv, received, group.ranks[come], group=handle)
            for request in dist.batch_isend_irecv([send, receive]):
                request.wait()

        return Work(
            lambda: fill(buffer, lambda element: piece(element, mine) + 1),
            exchange,
            lambda: same(received, lambda element: piece(element, come) + 1),
        )
    return Work(
        lambda: fill(buffer, lambda element: piece(element % part, mine, element // part) + 1),
        lambda: dist.all_to_all_single(received, buffer, group=handle),
        lambda: same(received, lambda element: piece(element % part, element // part, mine) + 1),
    )


OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")


# ---- measurement -----------------------------------------------------------------------------------------------------
def measure(operation: str, size_b: int, kind: str, rounds: tuple[int, int], group: Group, device: torch.device) -> Row:
    """What this rank took for one row of its group. rounds: (timed, before them)."""
    timed, warm_up = rounds
    element_b = torch.empty((), dtype=TYPES[kind]).element_size()
    count = max(size_b // element_b // group.size, 1) * group.size
    work = prepare(operation, count, group, device, TYPES[kind])
    work.fill()
    work.run()
    right = work.right()
    for _ in range(warm_up - 1):
        work.run()
    _wait(device)
    dist.barrier(group=group.handle)
    _wait(device)
    begin = time.perf_counter()
    for _ in range(timed):
        work.run()
    _wait(device)
    took_s = (time.perf_counter() - begin) / timed
    return round(took_s * 1e6, 3), right, {"type": kind, "operation": operation, "size_b": count * element_b}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def groups_of(
    span: str, hosts: Sequence[str], leaf: Mapping[str, str], rank: int
) -> tuple[list[tuple[str, tuple[int, ...]]], int]:
    """(name and ranks of each group of a span, number of this rank's one). hosts: of each rank; leaf: host -> leaf group."""

    def name(host: str) -> str:
        return {"node": host, "leaf": leaf.get(host, f"{host} in no leaf group"), "whole": "whole"}[span]

    found: dict[str, list[int]] = {}
    for number, host in enumerate(hosts):
        found.setdefault(name(host), []).append(number)
    return [(one, tuple(ranks)) for one, ranks in found.items()], list(found).index(name(hosts[rank]))


def sweep(options: argparse.Namespace, hosts: Sequence[str], device: torch.device) -> list[dict[str, Any]]:
    """What this rank measured in its group of each span."""
    rank, found = dist.get_rank(), list[dict[str, Any]]()
    leaf = {host: f"leaf group {n}" for n, one in enumerate(options.leaf.split(";"), 1) for host in one.split()}
    per_node = max(hosts.count(host) for host in set(hosts))
    seen: list[list[tuple[int, ...]]] = []
    for span in sorted(options.spans.split(","), key=SPANS.index, reverse=True):
        groups, number = groups_of(span, hosts, leaf, rank)
        parts = [ranks for _, ranks in groups]
        if parts in seen:
            continue
        seen.append(parts)
        name, ranks = groups[number]
        if len(ranks) > 1:
            handle = None if len(ranks) == len(hosts) else dist.new_group(list(ranks), use_local_synchronization=True)
            group = Group(name, ranks, ranks.index(rank), per_node, handle)
            rows = list(measured(options, group, device))
            told = {
                "span": span,
                "group": name,
                "size": len(ranks),
                "time_us": [time_us for time_us, _, _ in rows],
                "wrong": [number for number, (_, right, _) in enumerate(rows) if not right],
            }
            found.append(told | ({"rows": [row for _, _, row in rows]} if group.mine == 0 else {}))
        dist.barrier()
    return found


def transports(log: str) -> dict[str, int]:
    """How many channels NCCL connected over what, from its log."""
    return dict(Counter(found[1] for line in log.splitlines() if (found := VIA.search(line))))


def in_network(log: str, asked: str) -> dict[str, Any]:
    """What NCCL's log says of reduction in the switches."""
    algorithms: dict[str, set[str]] = {}
    for size_b, algorithm in ALGORITHM.findall(log):
        algorithms.setdefault(size_b, set()).add(algorithm)
    plugin = COLLNET_PLUGIN.search(log)
    return {
        "asked": asked,
        "plugin": plugin[1] if plugin else "",
        "channels": sum(1 for _ in COLLNET_VIA.finditer(log)),
        "algorithms": {size_b: sorted(names) for size_b, names in algorithms.items()},
    }


def measured(options: argparse.Namespace, group: Group, device: torch.device) -> Iterator[Row]:
    """The rows of a group, in the order of types, operations and sizes."""
    for kind, operation, size in product(
        options.types.split(","), options.operations.split(","), options.sizes.split(",")
    ):
        yield measure(operation, int(size), kind, (options.iterations, options.warm_up), group, device)


def folder_of(text: str) -> Path:
    """The folder of results, made where it is not there; $NAME stands for a variable."""
    folder = Path(os.path.expandvars(text))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def everyone(mine: dict[str, Any]) -> list[dict[str, Any]]:
    """What each rank says, by its number."""
    said: list[dict[str, Any]] = [{}] * dist.get_world_size()
    dist.all_gather_object(said, mine)
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="8,1024,65536,1048576", help="message sizes in bytes, comma-separated")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--spans", default="whole", help="of node, leaf, whole; comma-separated")
    parser.add_argument("--leaf", default="", help="hosts of each leaf group, groups apart by semicolons")
    parser.add_argument("--iterations", type=int, default=ITERATIONS, help="rounds that are timed together")
    parser.add_argument("--warm-up", type=int, default=WARM_UP, help="rounds before them, at least 1")
    parser.add_argument("--results", default="", help="folder for what each rank tells; $NAME stands for a variable")
    parser.add_argument(
        "--in-network", choices=("on", "off"), default="", help="let NCCL reduce in the switches, or not"
    )
    parser.add_argument("--timeout-s", type=int, default=120, help="a collective that takes longer ends the job")
    parser.add_argument(
        "--computes-on",
        choices=("gpu", "cpu"),
        default="gpu" if torch.cuda.is_available() else "cpu",
        help="gpu ends the rank where PyTorch finds none; left out: a GPU where there is one",
    )
    options = parser.parse_args()
    for what, given, known in (
        ("operations", options.operations, OPERATIONS),
        ("types", options.types, tuple(TYPES)),
        ("spans", options.spans, SPANS),
    ):
        if unknown := set(given.split(",")) - set(known):
            parser.error(f"unknown {what}: {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    gpu = options.computes_on == "gpu"
    if gpu and not torch.cuda.is_available():
        parser.error(f"--computes-on gpu: PyTorch {torch.__version__} finds no GPU that computes")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    log = Path(tempfile.mkdtemp(prefix="bringup-nccl-")) / "log"
    if gpu:
        torch.cuda.set_device(device)
        subsystems = "INIT,TUNING" if options.in_network else "INIT"
        os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": subsystems, "NCCL_DEBUG_FILE": str(log)}
    if options.in_network:
        os.environ["NCCL_COLLNET_ENABLE"] = str(int(options.in_network == "on"))
    dist.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(seconds=options.timeout_s))
    me = {
        "rank": dist.get_rank(),
        "host": socket.gethostname(),
        "device": torch.cuda.get_device_name(device) if gpu else "cpu",
        "uuid": f"GPU-{torch.cuda.get_device_properties(device).uuid}" if gpu else "",  # as NVML writes it
    }
    spans = sweep(options, [one["host"] for one in everyone(me)], device)
    said = log.read_text(errors="replace") if log.exists() else ""
    mine: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        **me,
        "backend": dist.get_backend(),
        "torch": torch.__version__,
        "world_size": dist.get_world_size(),
        "iterations": options.iterations,
        "transports": transports(said),
        "spans": spans,
    }
    shutil.rmtree(log.parent, ignore_errors=True)
    if options.in_network:
        mine["in_network"] = in_network(said, options.in_network)
    if options.results:
        name = f"rank-{dist.get_rank():06d}{options.in_network and '-' + options.in_network}.json"
        (folder_of(options.results) / name).write_text(json.dumps(mine))
    else:
        gathered: list[dict[str, Any]] | None = [{}] * dist.get_world_size() if dist.get_rank() == 0 else None
        dist.gather_object(mine, gathered)
        if gathered is not None:
            print(json.dumps({"ranks": gathered}), flush=True)
    correct = torch.tensor([int(not any(one["wrong"] for one in spans))], device=device)
    dist.all_reduce(correct, op=dist.ReduceOp.MIN)
    dist.destroy_process_group()
    return 0 if correct.item() else 1


if __name__ == "__main__":
    sys.exit(main())
