"""What was measured beside what was planned: closure of the power tree (S171), and a month's use of the GPUs (S184).

    power(plan, readings)       readings: level, name, watts    -> frame of errors, findings
    usage(plan, jobs, start, end)                               -> Markdown

Readings come from a file (`read_power`, `read_jobs`), whichever system exported it: a DCIM, Prometheus, Slurm's sacct.
Pure: text in, frames and text out.
"""

import datetime
import io
from collections.abc import Sequence

import numpy as np
import pandas as pd

from capacity.plan import Plan
from inventory.findings import Finding

LEVELS = ("outlet", "pdu", "feed", "site")
POWER_COLUMNS = ("level", "name", "watts")
JOB_COLUMNS = ("job", "account", "gpus", "submit", "start", "end", "nodes", "mfu_pct")
WORST = 5


class AuditError(Exception):
    """A file of readings that cannot be used; the message names the line, what was expected and the way out."""


def read_power(text: str, name: str = "power.csv") -> pd.DataFrame:
    """Readings from CSV: level (outlet, pdu, feed, site), name (outlets as pdu:number), watts."""
    frame = _read(text, name, POWER_COLUMNS)
    unknown = frame[~frame["level"].isin(LEVELS)]
    if len(unknown):
        line, level = int(unknown.index[0]) + 2, unknown["level"].iloc[0]
        raise AuditError(f"{name}:{line}: level {level!r}; expected one of {', '.join(LEVELS)}")
    twice = frame[frame.duplicated(["level", "name"])]
    if len(twice):
        raise AuditError(
            f"{name}:{int(twice.index[0]) + 2}: {twice['name'].iloc[0]} is read twice: give one reading each"
        )
    return frame.assign(watts=_numbers(frame["watts"], name, "watts", 0.0))


def read_jobs(text: str, name: str = "jobs.csv") -> pd.DataFrame:
    """Finished jobs from CSV: times as ISO 8601, nodes joined by '+', mfu_pct empty where nobody measured it."""
    frame = _read(text, name, JOB_COLUMNS)
    for column in ("submit", "start", "end"):
        try:
            frame[column] = pd.to_datetime(frame[column], format="ISO8601")
        except (ValueError, TypeError) as error:
            raise AuditError(f"{name}: {column}: {error}; expected times such as 2028-03-01T12:00:00") from None
    frame["gpus"] = _numbers(frame["gpus"], name, "gpus", 0.0)
    given = frame["mfu_pct"].replace("", "-1")
    frame["mfu_pct"] = _numbers(given, name, "mfu_pct", -1.0)
    backwards = frame[(frame["end"] < frame["start"]) | (frame["start"] < frame["submit"])]
    if len(backwards):
        line = int(backwards.index[0]) + 2
        raise AuditError(
            f"{name}:{line}: job {backwards['job'].iloc[0]} ends before it starts, or starts before it was submitted"
        )
    return frame


def _read(text: str, name: str, columns: Sequence[str]) -> pd.DataFrame:
    try:
        frame = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise AuditError(f"{name}: {str(error).strip()}; expected a CSV with columns {', '.join(columns)}") from None
    absent = [column for column in columns if column not in frame.columns]
    unknown = [column for column in frame.columns if column not in columns]
    if absent or unknown:
        said = [f"lacks {', '.join(absent)}"] * bool(absent) + [f"has unknown columns {', '.join(unknown)}"] * bool(
            unknown
        )
        raise AuditError(f"{name}:1: {' and '.join(said)}; expected {', '.join(columns)}: rename or delete columns")
    return frame


def _numbers(column: pd.Series, name: str, what: str, least: float) -> pd.Series:
    numbers = pd.to_numeric(column, errors="coerce")
    bad = numbers.isna() | ~np.isfinite(numbers) | (numbers < least)
    if bad.any():
        at = int(np.flatnonzero(bad.to_numpy())[0])
        raise AuditError(
            f"{name}:{at + 2}: {what} {column.iloc[at]!r}; expected a number of at least {max(least, 0):g}"
        )
    return numbers.astype("float64")


def power(plan: Plan, readings: pd.DataFrame, tolerance_pct: float) -> tuple[pd.DataFrame, list[Finding]]:
    """Closure of the tree and error of the model.

    Each PDU, feed and the site is compared with the sum of the readings one level below (outlets, PDUs, feeds), where all of
    these were read. Columns: level, name, measured_w, below_w, closure_pct; model_w and model_pct compare with the plan's
    load in the site's profile. POWER-CLOSURE: a sum that differs by more than the tolerance; POWER-UNREAD: below a
    meter something has no reading.
    """
    read = {level: part.set_index("name")["watts"] for level, part in readings.groupby("level")}
    outlets = plan.outlets[plan.outlets["device"] != ""]
    circuit = plan.circuits.drop_duplicates("pdu")
    below: dict[str, list[tuple[str, list[str]]]] = {
        "pdu": [(str(pdu), [f"{pdu}:{n}" for n in part["outlet"]]) for pdu, part in outlets.groupby("pdu", sort=False)],
        "feed": [(str(feed), part["pdu"].tolist()) for feed, part in circuit.groupby("feed", sort=False)],
        "site": [(plan.site.name, plan.feeds["feed"].tolist())],
    }
    model: dict[str, dict[str, float]] = {
        "pdu": _watts(circuit["pdu"], circuit["load_kw"]),
        "feed": _watts(plan.feeds["feed"], plan.feeds[f"{plan.site.power.profile}_kw"]),
        "site": {plan.site.name: float(plan.feeds[f"{plan.site.power.profile}_kw"].sum()) * 1000},
    }
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    numbers: dict[str, float]
    for level, under in zip(("pdu", "feed", "site"), ("outlet", "pdu", "feed"), strict=True):
        for name, parts in below[level]:
            meter = read.get(level, pd.Series(dtype=float)).get(name)
            if meter is None:
                continue
            seen = read.get(under, pd.Series(dtype=float)).reindex(parts)
            total, missing = float(seen.sum()), int(seen.isna().sum())
            off = (total - meter) / meter * 100 if meter else 0.0
            planned = float(model[level].get(name, 0.0))
            error = (meter - planned) / planned * 100 if planned else np.nan
            rows.append((level, name, meter, total, np.nan if missing else off, planned, error))
            if missing:
                message = (
                    f"{missing} of {len(parts)} {under}s below {level} {name} have no reading: its sum cannot be judged"
                )
                numbers = {"unread": missing, "of": len(parts)}
                findings.append(Finding("POWER-UNREAD", "warning", name, message, numbers))
            elif abs(off) > tolerance_pct:
                message = (
                    f"{level} {name} reads {meter:.0f} W and the {under}s below it {total:.0f} W, {off:+.1f} %: a meter is wrong, "
                    "or something is fed that the plan does not know"
                )
                numbers = {"measured_w": meter, "below_w": total}
                findings.append(
                    Finding("POWER-CLOSURE", "error", name, message, numbers, tolerance_pct, "tolerance of the audit")
                )
    columns = ["level", "name", "measured_w", "below_w", "closure_pct", "model_w", "model_pct"]
    return pd.DataFrame(rows, columns=columns), findings


def _watts(names: pd.Series, kw: pd.Series) -> dict[str, float]:
    return {str(name): float(value) * 1000 for name, value in zip(names, kw, strict=True)}


def usage(plan: Plan, jobs: pd.DataFrame, start: datetime.datetime, end: datetime.datetime) -> str:
    """The report of a period as Markdown (S184): GPU-hours used and idle, MFU and queue wait by account, the worst nodes.

    Jobs count for the part of them that lies in the period. A node's figure is the mean MFU of the jobs that ran on it.
    """
    gpus = int(plan.bom.loc[plan.bom["item"] == "gpu", "quantity"].sum())
    first, last = pd.Timestamp(start), pd.Timestamp(end)
    inside = jobs[(jobs["end"] > first) & (jobs["start"] < last)]
    until = inside["end"].where(inside["end"] < last, last)
    since = inside["start"].where(inside["start"] > first, first)
    hours = (until - since).dt.total_seconds() / 3600
    held = inside.assign(
        gpu_h=hours * inside["gpus"], wait_h=(inside["start"] - inside["submit"]).dt.total_seconds() / 3600
    )
    capacity_h = gpus * (last - first).total_seconds() / 3600
    used = float(held["gpu_h"].sum())
    measured = held[held["mfu_pct"] >= 0]
    idle = capacity_h - used
    share = idle / capacity_h
    lines = [
        f"# Use of {plan.site.name}, {start:%Y-%m-%d} to {end:%Y-%m-%d}",
        "",
        f"Plan {plan.hash}. {gpus:,} GPUs, {capacity_h:,.0f} GPU-hours: {used:,.0f} used, {idle:,.0f} idle ({share:.1%}).",
        "",
        "| Account | Jobs | GPU-hours | MFU, % (weighted by GPU-hours) | Median wait, h | Longest wait, h |",
        "|---|---|---|---|---|---|",
    ]
    for account, part in held.groupby("account"):
        known = part[part["mfu_pct"] >= 0]
        weight = float(known["gpu_h"].sum())
        mfu = f"{float((known['mfu_pct'] * known['gpu_h']).sum()) / weight:.1f}" if weight else "not measured"
        lines.append(
            f"| {account} | {len(part)} | {float(part['gpu_h'].sum()):,.0f} | {mfu} | {float(part['wait_h'].median()):.2f} | "
            f"{float(part['wait_h'].max()):.2f} |"
        )
    each = measured.assign(node=measured["nodes"].str.split("+")).explode("node")
    known_nodes = set(plan.devices.loc[plan.devices["role"] == "gpu", "name"])
    strange = sorted({str(node) for node in each["node"] if node not in known_nodes})
    worst = (
        each[each["node"].isin(known_nodes)]
        .groupby("node")["mfu_pct"]
        .agg(["mean", "size"])
        .sort_values(["mean", "size"])
    )
    lines += ["", "| Slowest nodes | Mean MFU, % | Jobs |", "|---|---|---|"]
    lines += [f"| {node} | {row['mean']:.1f} | {int(row['size'])} |" for node, row in worst.head(WORST).iterrows()]
    if strange:
        lines += ["", f"Nodes that the plan does not have: {', '.join(strange)}."]
    return "\n".join(lines) + "\n"
