"""What nccl-tests print (all_reduce_perf and the others), as plain data.

    run = parsed(text)          # None where the text has no table of theirs
    run.rows[-1].in_place.busbw_gb_s, run.wrong, run.average_gb_s

The columns are those of nccl-tests 2.13 and later, with `#wrong`, and of earlier releases, with `error`; see NVIDIA/nccl-tests,
doc/PERFORMANCE.md. A job prints what it likes: lines that are no row of the table are left out, numbers are bounded.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST_LINE, MOST_ROWS = 400, 10_000
AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*([0-9.]{1,20})")
OUT_OF_BOUNDS = re.compile(r"#\s*Out of bounds values\s*:\s*([0-9]{1,18})")
DEVICE = re.compile(r"#\s*Rank\s+\d+ .*\bon\s+(\S+)\s+device\s+\d+\s+\[\S*\]\s+(.*\S)")


@dataclass(frozen=True)
class Half:
    """One half of a row: microseconds, GB/s (10^9 bytes), wrong values (None where they were not checked)."""

    time_us: float
    algbw_gb_s: float
    busbw_gb_s: float
    wrong: int | None


@dataclass(frozen=True)
class Row:
    """One message size, bytes."""

    size_b: int
    count: int
    type: str
    out_of_place: Half
    in_place: Half | None


@dataclass(frozen=True)
class Run:
    """One program's table. devices: 'host: model' of each rank that it lists."""

    rows: tuple[Row, ...]
    devices: tuple[str, ...]
    average_gb_s: float | None
    out_of_bounds: int | None

    @property
    def wrong(self) -> int:
        """Wrong values of all rows, or what the program counted itself where that is more."""
        halves = [half for row in self.rows for half in (row.out_of_place, row.in_place) if half]
        return max(sum(half.wrong or 0 for half in halves), self.out_of_bounds or 0)

    @property
    def checked(self) -> bool:
        """Whether results were checked at all (-c 0 leaves it out)."""
        return bool(self.rows) and all(row.out_of_place.wrong is not None for row in self.rows)

    @property
    def best_busbw_gb_s(self) -> float:
        """Highest bus bandwidth of any size."""
        halves = [half for row in self.rows for half in (row.out_of_place, row.in_place) if half]
        return max((half.busbw_gb_s for half in halves), default=0.0)


def parsed(text: str) -> Run | None:
    """The first table of a text."""
    rows, devices, average, bounds = list[Row](), list[str](), None, None
    for whole in text.splitlines():
        line = whole[:LONGEST_LINE].strip()
        if found := AVERAGE.match(line):
            average = _number(found[1])
            break
        if found := OUT_OF_BOUNDS.match(line):
            bounds = int(found[1])
        elif (found := DEVICE.match(line)) and len(devices) < MOST_ROWS:
            devices.append(f"{found[1]}: {found[2]}")
        elif not line.startswith("#") and len(rows) < MOST_ROWS and (row := _row(line.split())):
            rows.append(row)
    return Run(tuple(rows), tuple(devices), average, bounds) if rows else None


def printed(samples: Mapping[str, str]) -> Run | None:
    """The first table in what the nodes of a sweep kept beside their ranks' files, by node; None where nccl-tests did not run."""
    return next((run for run in map(parsed, samples.values()) if run is not None), None)


def _row(cells: list[str]) -> Row | None:
    """size count type [redop [root]] and one or two times: time algbw busbw wrong."""
    if len(cells) < 7 or not all(re.fullmatch("[0-9]{1,15}", cell) for cell in cells[:2]):
        return None
    halves = [4, 8] if len(cells) >= 11 else [4]
    for wanted in reversed(halves):
        half = [_half(cells[-wanted + place : len(cells) - wanted + place + 4]) for place in range(0, wanted, 4)]
        if half[0] and len(cells) - wanted in (3, 4, 5):
            second = half[1] if len(half) > 1 else None
            return Row(int(cells[0]), int(cells[1]), cells[2], half[0], second)
    return None


def _half(cells: list[str]) -> Half | None:
    numbers = [_number(cell) for cell in cells[:3]]
    if len(cells) != 4 or None in numbers:
        return None
    time_us, algbw, busbw = (number or 0.0 for number in numbers)
    return Half(time_us, algbw, busbw, _wrong(cells[3]))


def _wrong(cell: str) -> int | None:
    """Count of wrong values; earlier releases print the largest error, of which any above 1e-3 is a wrong value here."""
    if re.fullmatch("[0-9]{1,15}", cell):
        return int(cell)
    error = _number(cell)
    return None if error is None else int(error > 1e-3)


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) and 0 <= number < 1e15 else None
