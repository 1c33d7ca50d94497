"""The monthly report of use (S184): idle GPU-hours, waiting, use by project and node, from the scheduler's accounting.

One row per job: GPUs, hours waited and run, and, where telemetry knows them, GPU-hours spent idle and the mean TFLOP/s per
GPU. Times are hours or Slurm's [D-]HH:MM:SS, nodes are names or Slurm's host lists (gpu[001-004,007]).
Model FLOPS utilisation (MFU) is that rate over the GPU's peak, as Chowdhery et al. 2022 (PaLM) define it.
"""

import calendar
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import Imported, some
from inventory.imports.core.source import ImportFault, number
from inventory.imports.core.tables import LINE, Fields, csv_text, records

FOLDER = "imports/usage"
"""One file per month; a month that is imported again replaces its file, the other months stay."""
REPORTS = "imports/usage_reports"
MAX_HOSTS = 100_000
"""Nodes that one host list may stand for."""

_TIME = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?)")
_NO_NODES = ("none assigned", "(null)")
"""What Slurm writes for a job that never started."""


@dataclass(frozen=True)
class Usage:
    """`projects` and `nodes`: rows with gpu_h, idle_gpu_h, jobs, mfu_pct (NaN where unknown); `totals` of the month."""

    projects: pd.DataFrame
    nodes: pd.DataFrame
    totals: dict[str, float]
    findings: tuple[Finding, ...]


def report(frame: pd.DataFrame, gpus: int, hours: float, peak_tflops: float | None = None) -> Usage:
    """The report of one month.

    `gpus` x `hours` is what was there to use; more used than that is an error. `peak_tflops` is a GPU's dense rate (None
    or 0: not known, no MFU). A job's GPU-hours are shared equally among its nodes.
    """
    findings: list[Finding] = []
    groups: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    waits: list[tuple[float, float]] = []
    seen: set[str] = set()
    for row in records(frame):
        place = f"line {row.get(LINE, '?')}"
        count, elapsed = number(row["gpus"]), in_hours(row["elapsed_h"])
        if count is None or elapsed is None or count < 0 or elapsed < 0:
            findings.append(
                finding(
                    "IMPORT-USAGE-VALUE",
                    place,
                    case="gpus-or-time",
                    words={"job": row["job"], "gpus": row["gpus"], "elapsed_h": row["elapsed_h"]},
                    remedies=[remedy(fix="export")],
                )
            )
            continue
        if row["job"] in seen:
            findings.append(
                finding("IMPORT-USAGE-TWICE", place, words={"job": row["job"]}, remedies=[remedy(fix="jobs-only")])
            )
            continue
        seen.add(row["job"])
        used, idle = count * elapsed, in_hours(row.get("idle_gpu_h", ""))
        if idle is not None and idle > used * (1 + 1e-9):
            findings.append(
                finding(
                    "IMPORT-USAGE-VALUE",
                    place,
                    case="idle",
                    words={"job": row["job"], "idle_gpu_h": idle, "gpu_h": used},
                )
            )
            continue
        rate = number(row.get("model_tflops", ""))
        nodes = hosts(row.get("nodes", ""))
        if nodes is None:
            findings.append(
                finding(
                    "IMPORT-USAGE-VALUE",
                    place,
                    case="nodes",
                    words={"job": row["job"], "nodes": row["nodes"]},
                    remedies=[remedy(fix="names"), remedy(fix="slurm-form")],
                )
            )
            continue
        shares = [
            ("project", row.get("project", "") or "(none)", 1.0),
            *(("node", node, 1 / len(nodes)) for node in nodes),
        ]
        for kind, name, share in shares:
            group = groups[kind, name]
            group["gpu_h"] += used * share
            group["jobs"] += 1
            group["idle_gpu_h"] += (idle or 0.0) * share
            group["known_idle_h"] += used * share if idle is not None else 0.0
            if rate is not None:
                group["rate_h"] += rate * used * share
                group["rated_h"] += used * share
        if (wait := in_hours(row.get("queued_h", ""))) is not None:
            waits.append((wait, used))
    there = gpus * hours
    used_total = sum(group["gpu_h"] for (kind, _), group in groups.items() if kind == "project")
    if used_total > there * (1 + 1e-9):
        findings.append(finding("IMPORT-USAGE-OVER", "usage", gpu_h=used_total, limit=there, limit_source="plan"))
    tables = {kind: _table(groups, kind, peak_tflops) for kind in ("project", "node")}
    projects = tables["project"]
    rated = sum(group["rated_h"] for (kind, _), group in groups.items() if kind == "project")
    rate_h = sum(group["rate_h"] for (kind, _), group in groups.items() if kind == "project")
    totals = {
        "gpu_h_there": there,
        "gpu_h_allocated": used_total,
        "gpu_h_unallocated": there - used_total,
        "gpu_h_idle": float(projects["idle_gpu_h"].sum()),
        "allocated_pct": 100 * used_total / there if there else 0.0,
        "mfu_pct": 100 * rate_h / rated / peak_tflops if rated and peak_tflops else float("nan"),
        "wait_p50_h": float(np.quantile([w for w, _ in waits], 0.5)) if waits else float("nan"),
        "wait_p95_h": float(np.quantile([w for w, _ in waits], 0.95)) if waits else float("nan"),
        "jobs": float(len(seen)),
    }
    for column in ("idle_gpu_h", "model_tflops", "queued_h"):
        if column not in frame.columns or not (frame[column] != "").any():
            findings.append(finding("IMPORT-USAGE-LACKS", column, case=column))
    if rated and not peak_tflops:
        findings.append(finding("IMPORT-USAGE-NO-PEAK", "mfu_pct", remedies=[remedy(fix="catalogue")]))
    return Usage(projects, tables["node"], totals, tuple(findings))


def in_hours(text: str) -> float | None:
    """Hours of a number of hours or of Slurm's [D-]HH:MM:SS[.fff]; None for anything else."""
    if (time := _TIME.fullmatch(text.strip())) is None:
        return number(text)
    days, hours, minutes, seconds = time.groups()
    return 24 * int(days or 0) + int(hours) + int(minutes) / 60 + float(seconds) / 3600


def hosts(text: str) -> list[str] | None:
    """The nodes of a list with spaces, commas or semicolons, brackets expanded as Slurm does; None for a broken list."""
    if text.strip().lower() in _NO_NODES:
        return []
    found: list[str] = []
    for part in re.findall(r"(?:\[[^\[\]]*\]|[^\s,;])+", text):
        pieces = re.split(r"\[([^\[\]]*)\]", part)
        if "[" in "".join(pieces[::2]) or "]" in "".join(pieces[::2]):
            return None
        choices = [[piece] if n % 2 == 0 else _numbers(piece) for n, piece in enumerate(pieces)]
        size = math.prod(map(len, choices))
        if not 0 < size <= MAX_HOSTS:
            return None
        found += ["".join(names) for names in itertools.product(*choices)]
    return found if len(found) <= MAX_HOSTS else None


def _numbers(ranges: str) -> list[str]:
    """001-003,007 as 001, 002, 003, 007; empty for anything else."""
    found: list[str] = []
    for part in ranges.split(","):
        ends = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if ends is None:
            return []
        first, last = ends[1], ends[2] or ends[1]
        if not int(first) <= int(last) < int(first) + MAX_HOSTS:
            return []
        found += [f"{n:0{len(first)}}" for n in range(int(first), int(last) + 1)]
    return found


def hours_of(frame: pd.DataFrame, path: Path) -> float:
    """Hours of the one month that the rows are of; ImportFault as in `month_of`."""
    return 24.0 * calendar.monthrange(*month_of(frame, path))[1]


def month_of(frame: pd.DataFrame, path: Path) -> tuple[int, int]:
    """Year and month (YYYY-MM) that all rows are of. ImportFault for none, several, or another form."""
    months = sorted(set(frame["month"])) if "month" in frame.columns else []
    if len(months) != 1:
        what = f"months {', '.join(months)} in one file" if months else "no column month"
        raise ImportFault(path, what, "give one month a file, with a column month (2026-11) in each row")
    try:
        year, month = (int(part) for part in months[0].split("-")[:2])
        calendar.monthrange(year, month)
    except (ValueError, IndexError):
        raise ImportFault(path, f"month {months[0]!r} is not of the form 2026-11", "write year and month") from None
    return year, month


def compare(now: Usage, before: Usage) -> pd.DataFrame:
    """Two months side by side: figure, before, now, change; the largest relative change first."""
    rows = [[name, before.totals[name], value, value - before.totals[name]] for name, value in now.totals.items()]
    table = pd.DataFrame(rows, columns=["figure", "before", "now", "change"])
    weight = (table["change"] / table["before"].replace(0, np.nan)).abs().fillna(0)
    return table.loc[weight.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


def imported(
    given: Fields, gpus: int, path: Path, peak_tflops: float | None, planned: Collection[str] | None = None
) -> Imported:
    """The accounting as sent and the report that follows from it, each in a file of its month.

    Nodes that are not among the `planned` ones are named, where these are given.
    """
    year, month = month_of(given.frame, path)
    usage = report(given.frame, gpus, hours_of(given.frame, path), peak_tflops)
    rows = [["total", name, f"{value:.6g}"] for name, value in usage.totals.items() if value == value]
    for kind, table in (("project", usage.projects), ("node", usage.nodes)):
        for row in records(table):
            rows += [
                [kind, f"{row['name']}: {name}", row[name]]
                for name in ("gpu_h", "idle_gpu_h", "mfu_pct")
                if row[name] != "nan"
            ]
    frame = pd.DataFrame(rows, columns=["level", "figure", "value"])
    strangers = [] if planned is None else sorted(set(usage.nodes["name"]) - set(planned))
    found = [*given.findings, *usage.findings]
    if strangers:
        found.append(
            finding(
                "IMPORT-USAGE-NODE",
                "nodes",
                nodes=len(strangers),
                limit_source="plan",
                words={"names": some(strangers)},
            )
        )
    total = usage.totals
    summary = (
        f"{total['jobs']:.0f} jobs, {total['gpu_h_allocated']:,.0f} of {total['gpu_h_there']:,.0f} GPU-hours allocated"
    )
    name = f"{year:04}-{month:02}.csv"
    files = {f"{FOLDER}/{name}": csv_text(given.frame.drop(columns=LINE)), f"{REPORTS}/{name}": csv_text(frame)}
    return Imported(frame, summary, tuple(found), files)


def _table(groups: dict[tuple[str, str], dict[str, float]], kind: str, peak: float | None) -> pd.DataFrame:
    rows = []
    for (of, name), group in groups.items():
        if of == kind:
            mfu = 100 * group["rate_h"] / group["rated_h"] / peak if group["rated_h"] and peak else float("nan")
            rows.append([name, group["gpu_h"], group["idle_gpu_h"], int(group["jobs"]), mfu])
    table = pd.DataFrame(rows, columns=["name", "gpu_h", "idle_gpu_h", "jobs", "mfu_pct"])
    return table.sort_values(
        ["idle_gpu_h", "gpu_h", "name"], ascending=[False, False, True], kind="stable"
    ).reset_index(drop=True)
