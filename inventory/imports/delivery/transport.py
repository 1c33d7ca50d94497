"""Files of transport data loggers (S003): every sample of temperature, humidity and shock against the vendor's limits.

A quantity that the file has and no limit is given for is a finding, and so is a limit whose quantity the file does not
have: neither passes silently. Nor do cells of a limited quantity that are no number: a sensor that failed proves nothing.
Gaps in the samples are named, since the conditions in them are unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import Imported
from inventory.imports.core.source import TIMES, moment, number
from inventory.imports.core.tables import LINE, Fields, csv_text, records
from inventory.site import Site

FOLDER = "imports/transport"
QUANTITIES = {"temperature_c": "C", "humidity_pct": "%", "shock_g": "g", "tilt_deg": "degrees"}
CONTINUOUS = ("temperature_c", "humidity_pct")
"""What a logger measures with every sample; shock and tilt stay blank where there is no event."""
GAP_FACTOR = 3.0
"""A pause that is longer than so many median intervals is a gap."""


@dataclass(frozen=True)
class Range:
    """A vendor's limit of transport: lowest and highest value (None: not limited) and where it comes from."""

    low: float | None
    high: float | None
    source: str


def limits_of(site: Site) -> dict[str, Range]:
    """The vendor's limits of transport in the site file: limits.transport_temperature_min_c, …_max_c and so on."""
    ranges = {}
    for quantity in QUANTITIES:
        name, _, unit = quantity.rpartition("_")
        low, high = (site.limits.get(f"transport_{name}_{end}_{unit}") for end in ("min", "max"))
        sources = dict.fromkeys(limit.source for limit in (low, high) if limit)
        if low or high:
            values = (low.value if low else None, high.value if high else None)
            ranges[quantity] = Range(*values, source="site limits: " + "; ".join(sources))
    return ranges


@dataclass(frozen=True)
class Judgement:
    """Samples in order of time; `passed` when every one lies within every limit and nothing was left unjudged."""

    samples: pd.DataFrame
    extremes: Mapping[str, tuple[float, float]]
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether no finding stands against the transport."""
        return len(self.samples) > 0 and not any(f.severity in ("error", "warning") for f in self.findings)


def judge(given: Fields, limits: Mapping[str, Range]) -> Judgement:
    """Judge a logger's samples; `limits` is keyed by QUANTITIES."""
    findings = list(given.findings)
    name = given.frame.columns[0]
    rows = []
    unread = 0
    unread_cells = dict.fromkeys(QUANTITIES, 0)
    for row in records(given.frame):
        when = moment(row["time"])
        values = {quantity: number(row.get(quantity, "")) for quantity in QUANTITIES if quantity in row}
        if when is None or all(value is None for value in values.values()):
            unread += 1
            continue
        for quantity, value in values.items():
            unread_cells[quantity] += value is None and (quantity in CONTINUOUS or row[quantity] != "")
        rows.append({"time": when, LINE: row[LINE], **values})
    samples = pd.DataFrame(rows, columns=["time", LINE, *(q for q in QUANTITIES if q in given.frame.columns)])
    samples = samples.sort_values("time", kind="stable").reset_index(drop=True)
    if unread:
        all_lines = {"all_lines": len(given.frame)}
        findings.append(finding("IMPORT-LOGGER-UNREAD", name, case="lines", lines=unread, words=all_lines))
    if samples.empty:
        empty = finding("IMPORT-LOGGER-EMPTY", name, remedies=[remedy(fix="times", times=TIMES)])
        return Judgement(samples, {}, (*findings, empty))
    extremes = {}
    for quantity, unit in QUANTITIES.items():
        limit = limits.get(quantity)
        present = quantity in samples.columns and bool(samples[quantity].notna().any())
        if present:
            column = pd.to_numeric(samples[quantity])
            extremes[quantity] = (float(column.min()), float(column.max()))
            findings += _outside(quantity, unit, column, samples, limit)
            if limit is not None and (cells := unread_cells[quantity]):
                findings.append(
                    finding(
                        "IMPORT-LOGGER-UNREAD",
                        quantity,
                        case="sensor",
                        samples=cells,
                        words={"all_samples": len(samples)},
                        remedies=[remedy(fix="read-again"), remedy(fix="inspect")],
                    )
                )
        elif limit is not None:
            findings.append(finding("IMPORT-LOGGER-LACKS", quantity, limit_source=limit.source))
    findings += _gaps(samples)
    return Judgement(samples, extremes, tuple(findings))


def imported(given: Fields, limits: Mapping[str, Range], name: str) -> Imported:
    """The samples as sent, judged: imports/transport/NAME.csv. A failed judgement is kept: it is the proof of damage."""
    result = judge(given, limits)
    extremes = ", ".join(f"{q} {low:g} to {high:g}" for q, (low, high) in result.extremes.items())
    verdict = "within limits" if result.passed else "not passed"
    findings = tuple(
        f
        if f.id == "IMPORT-LOGGER-EMPTY" or f.severity != "error" or f in given.findings
        else replace(f, severity="warning")
        for f in result.findings
    )
    files = {f"{FOLDER}/{name}.csv": csv_text(given.frame.drop(columns=LINE))}
    return Imported(
        result.samples.astype(str), f"{len(result.samples)} samples, {extremes}: {verdict}", findings, files
    )


def _outside(quantity: str, unit: str, column: pd.Series, samples: pd.DataFrame, limit: Range | None) -> list[Finding]:
    if limit is None:
        return [finding("IMPORT-LOGGER-NO-LIMIT", quantity, remedies=[remedy(fix="limit")])]
    found = []
    for bound, wrong in (
        (limit.low, column < (limit.low if limit.low is not None else float("-inf"))),
        (limit.high, column > (limit.high if limit.high is not None else float("inf"))),
    ):
        if bound is not None and wrong.any():
            among = column[wrong].to_numpy()
            worst = int(among.argmin() if bound == limit.low else among.argmax())
            sample = samples[wrong].iloc[worst]
            value, when = float(among[worst]), sample["time"]
            found.append(
                finding(
                    "IMPORT-TRANSPORT-LIMIT",
                    quantity,
                    severity="error",
                    limit=bound,
                    limit_source=limit.source,
                    worst=value,
                    samples=float(wrong.sum()),
                    words={
                        "all_samples": int(column.notna().sum()),
                        "unit": unit,
                        "time": when,
                        "line": sample[LINE],
                    },
                    remedies=[remedy(fix="hold")],
                )
            )
    return found


def _gaps(samples: pd.DataFrame) -> list[Finding]:
    if len(samples) < 3:
        return []
    seconds = samples["time"].diff().dt.total_seconds().iloc[1:]
    usual = float(seconds.median())
    if usual <= 0 or float(seconds.max()) <= GAP_FACTOR * usual:
        return []
    worst = int(seconds.to_numpy().argmax())
    start = samples["time"].iloc[worst]
    hours = float(seconds.max()) / 3600
    words = {"hours": hours, "start": start, "usual_min": usual / 60}
    gap_s = float(seconds.max())
    return [finding("IMPORT-LOGGER-GAP", "time", limit=GAP_FACTOR * usual, gap_s=gap_s, words=words)]
