"""Parts of a long log read by other processes.

In: the sizes of its lines, and a function of the numbers of a first and a behind-the-last line. Out: part by part what the
function returned, as bytes; None where it returned None or a process ended: then the reader reads that part itself.
"""

import multiprocessing
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

PARALLEL_FROM = 16 << 20
"""Bytes of lines from which other processes are started. A choice of ours, as the size of a part."""
PART_BYTES = 8 << 20

Part = tuple[int, int]
_work: Callable[[int, int], bytes | None] | None = None
"""What the processes do. They inherit it by fork, with the log and the keys: nothing is sent to them."""


def parts(sizes: Sequence[int]) -> list[Part]:
    """(first, behind the last) line of each part, of about PART_BYTES."""
    found, start, size = [], 0, 0
    for number, one in enumerate(sizes):
        size += one
        if size >= PART_BYTES:
            found.append((start, number + 1))
            start, size = number + 1, 0
    return [*found, (start, len(sizes))] if start < len(sizes) else found


def each_part(
    sizes: Sequence[int], work: Callable[[int, int], bytes | None]
) -> Generator[tuple[Part, bytes | None], None, None]:
    """Every part with what ``work`` returned for it, in order; None for all of a short log and on one processor."""
    global _work
    cut = parts(sizes)
    processes = min(os.cpu_count() or 1, len(cut))
    if sum(sizes) < PARALLEL_FROM or processes < 2:
        yield from ((part, None) for part in cut)
        return
    _work, done = work, 0
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"))
    try:
        for part, found in zip(cut, pool.map(_part, cut), strict=True):
            yield part, found
            done += 1
    except (BrokenProcessPool, OSError):  # the system ended one, or refused one
        yield from ((part, None) for part in cut[done:])
    finally:
        _work = None
        pool.shutdown(cancel_futures=True)


def _part(part: Part) -> bytes | None:
    return _work(*part) if _work is not None else None
