"""Closure of energy readings (S171): what each meter says against the sum of the meters below it.

Readings name level, meter and the meter above. For each meter with meters below it the difference, in percent of its
own reading, must lie between zero minus the tolerance and the loss that is allowed there plus the tolerance: a meter
cannot give more than it gets. Meters are closed over one and the same time.
"""

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import Imported, some
from inventory.imports.core.source import TIMES, moment, number
from inventory.imports.core.tables import LINE, Fields, csv_text, records
from inventory.site import Site

FOLDER = "imports/energy"
"""One file per imported one, under its name."""
CLOSURE_COLUMNS = ("meter", "level", "reading", "below", "difference_pct", "meters", "verdict")


@dataclass(frozen=True)
class Closure:
    """One row per meter that has meters below it (CLOSURE_COLUMNS; readings in `unit`), and findings."""

    table: pd.DataFrame
    unit: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether something was closed, and everything closes."""
        return len(self.table) > 0 and not any(f.severity == "error" for f in self.findings)


def close(frame: pd.DataFrame, tolerance_pct: float, loss_pct: float = 0.0, source: str = "") -> Closure:
    """Close the tree of meters.

    `frame` has columns time, level, name, parent and kwh or kw. With kWh the reading is the difference between a meter's
    first and last value (a counter that falls was reset: an error), with kW the mean. `tolerance_pct` covers the meters'
    accuracy, `loss_pct` what is lost or used between two levels.
    """
    unit = "kwh" if "kwh" in frame.columns and (frame["kwh"] != "").any() else "kw"
    findings: list[Finding] = []
    values: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    about: dict[str, tuple[str, str]] = {}
    for row in records(frame):
        place, value = f"line {row.get(LINE, '?')}", number(row.get(unit, ""))
        if value is None:
            findings.append(
                finding(
                    "IMPORT-READING",
                    place,
                    case="value",
                    words={"unit": unit, "value": row.get(unit, ""), "meter": row["name"]},
                    remedies=[remedy(fix="correct"), remedy(fix="delete")],
                )
            )
            continue
        when = moment(row["time"])
        if when is None:
            findings.append(
                finding(
                    "IMPORT-READING",
                    place,
                    case="time",
                    words={"time": row["time"], "meter": row["name"]},
                    remedies=[remedy(fix="time", forms=TIMES)],
                )
            )
            continue
        values[row["name"]].append((when, value))
        about[row["name"]] = (row["level"], row.get("parent", ""))
    spans = {name: (min(t for t, _ in seen), max(t for t, _ in seen)) for name, seen in values.items()}
    reading: dict[str, float] = {}
    for name, seen in values.items():
        ordered = [value for _, value in sorted(seen)]
        if unit == "kw":
            reading[name] = sum(ordered) / len(ordered)
        elif any(later < earlier for earlier, later in itertools.pairwise(ordered)):
            findings.append(finding("IMPORT-COUNTER-RESET", name, remedies=[remedy(fix="split")]))
        elif len(ordered) < 2:
            findings.append(finding("IMPORT-READING", name, case="one-value", remedies=[remedy(fix="two-values")]))
        else:
            reading[name] = ordered[-1] - ordered[0]
    below: dict[str, list[str]] = defaultdict(list)
    for name, (_, parent) in about.items():
        if parent and parent not in about:
            findings.append(finding("IMPORT-METER-LOST", name, words={"parent": parent}))
        elif parent:
            below[parent].append(name)
    rows = []
    for meter, fed in sorted(below.items()):
        if meter not in reading or any(name not in reading for name in fed):
            continue
        if len({spans[name] for name in (meter, *fed)}) > 1:
            first, last = (f"{when:%Y-%m-%d %H:%M}" for when in spans[meter])
            findings.append(
                finding(
                    "IMPORT-METER-TIMES", meter, words={"first": first, "last": last}, remedies=[remedy(fix="together")]
                )
            )
            continue
        total = sum(reading[name] for name in fed)
        gap = 100 * (reading[meter] - total) / reading[meter] if reading[meter] else (0.0 if not total else -100.0)
        good = -tolerance_pct <= gap <= loss_pct + tolerance_pct
        rows.append([meter, about[meter][0], reading[meter], total, gap, len(fed), "closes" if good else "open"])
        if not good:
            findings.append(
                finding(
                    "IMPORT-ENERGY-OPEN",
                    meter,
                    case="over" if gap < 0 else "under",
                    severity="error",
                    limit=loss_pct + tolerance_pct if gap > 0 else -tolerance_pct,
                    limit_source=source,
                    words={
                        "reading": reading[meter],
                        "sum": total,
                        "unit": unit,
                        "meters": len(fed),
                        "names": some(sorted(fed)),
                        "least_pct": 0 - tolerance_pct,
                        "most_pct": loss_pct + tolerance_pct,
                    },
                    difference_pct=gap,
                )
            )
    if not rows:
        findings.append(finding("IMPORT-ENERGY-NOTHING", "readings", severity="error"))
    return Closure(pd.DataFrame(rows, columns=list(CLOSURE_COLUMNS)), unit, tuple(findings))


def limits_of(site: Site) -> tuple[float, float, str]:
    """(accuracy in percent, allowed loss in percent, source) from the site's limits; 0, 0 and what is missing without."""
    accuracy, loss = site.limits.get("energy_closure_pct"), site.limits.get("energy_loss_pct")
    if accuracy is None:
        return 0.0, 0.0, "limits.energy_closure_pct is not in the site file: meters must then agree exactly"
    source = "; ".join(limit.source for limit in (accuracy, loss) if limit)
    return accuracy.value, loss.value if loss else 0.0, f"site limits.energy_closure_pct: {source}"


def mean_kw(frame: pd.DataFrame) -> dict[str, float]:
    """Mean power per meter: of its readings in kW, or of what its counter ran over its own time. Unreadable lines are left
    out; `close` names them.
    """
    unit = "kwh" if "kwh" in frame.columns and (frame["kwh"] != "").any() else "kw"
    seen: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for row in records(frame):
        value, when = number(row.get(unit, "")), moment(row["time"])
        if value is not None and when is not None:
            seen[row["name"]].append((when, value))
    means = {}
    for name, readings in seen.items():
        (first, low), (last, high) = min(readings), max(readings)
        hours = (last - first).total_seconds() / 3600
        if unit == "kw":
            means[name] = sum(value for _, value in readings) / len(readings)
        elif hours > 0:
            means[name] = (high - low) / hours
    return means


def against_model(measured_kw: Mapping[str, float], modelled_kw: Mapping[str, float]) -> pd.DataFrame:
    """Mean measured power per meter beside the plan's figure of the same name: name, measured_kw, model_kw, error_pct.

    error_pct is (model - measured) / measured. Only meters that both have, and that measured some power where the model has
    some.
    """
    rows = []
    for name in sorted(measured_kw.keys() & modelled_kw.keys()):
        measured, model = measured_kw[name], modelled_kw[name]
        if measured and math.isfinite(model):
            rows.append([name, measured, model, 100 * (model - measured) / measured])
    return pd.DataFrame(rows, columns=["name", "measured_kw", "model_kw", "error_pct"])


def standing(readings: Mapping[str, pd.DataFrame]) -> list[str]:
    """Names of the files that still say something: those with a meter that no file with later readings has."""

    def last(name: str) -> tuple[float, str]:
        times = [when.timestamp() for text in readings[name]["time"] if (when := moment(text))]
        return (max(times, default=math.inf), name)

    seen: set[str] = set()
    kept = []
    for name in sorted(readings, key=last, reverse=True):
        meters = set(readings[name]["name"])
        if meters - seen:
            kept.append(name)
        seen |= meters
    return sorted(kept)


def imported(given: Fields, tolerance_pct: float, loss_pct: float, source: str, name: str) -> Imported:
    """The readings as sent (imports/energy/NAME.csv) and how they close.

    Open ones are kept, with a warning: the check of S171 fails on them.
    """
    result = close(given.frame, tolerance_pct, loss_pct, source)
    findings = [
        dataclasses.replace(f, severity="warning") if f.id.startswith("IMPORT-ENERGY") else f for f in result.findings
    ]
    closed = int((result.table["verdict"] == "closes").sum()) if len(result.table) else 0
    summary = f"{len(given.frame)} readings; {closed} of {len(result.table)} meters close within {tolerance_pct:g} %"
    text = csv_text(given.frame.drop(columns=LINE))
    return Imported(result.table, summary, (*given.findings, *findings), {f"{FOLDER}/{name}.csv": text})
