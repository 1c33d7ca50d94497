"""What was received against what was announced (S004), and the performance bins of what was tested (S008).

Serials are compared without case and surrounding space. Pass for S004: nothing missing, nothing extra, nothing twice,
no other SKU. The vendor publishes no bin code, so a bin is a quantile of performance per watt among the GPUs of one SKU.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from inventory.findings import Finding, Severity, finding, remedy
from inventory.imports.core.result import OUTCOMES, Imported, some
from inventory.imports.core.source import number
from inventory.imports.core.tables import LINE, Fields, csv_text, plain, records, together

SCAN_FILE = "imports/scan.csv"
TESTS_FILE = "imports/gpu_tests.csv"
QUARTILES = (0.25, 0.5, 0.75)
SMALLEST_SAMPLE = 20
"""GPUs of one SKU below which quantiles say little: with quartiles, five to a bin."""
_ALIKE = 200
"""Serials up to which a missing one is compared with the extra ones letter by letter."""


@dataclass(frozen=True)
class Reconciliation:
    """Serials of GPUs, manifest against scan. `passed` when all five are empty and something was announced."""

    announced: int
    scanned: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    twice_in_manifest: tuple[str, ...]
    twice_in_scan: tuple[str, ...]
    wrong_sku: tuple[tuple[str, str, str], ...]
    """(serial, part in the manifest, part as scanned)"""

    @property
    def passed(self) -> bool:
        """Whether every announced GPU was scanned exactly once, and nothing else was."""
        faults = (self.missing, self.extra, self.twice_in_manifest, self.twice_in_scan, self.wrong_sku)
        return self.announced > 0 and not any(faults)

    def findings(self, severity: Severity = "error") -> list[Finding]:
        """One finding of this severity per kind of difference."""
        found = []
        if not self.announced:
            found.append(
                finding(
                    "IMPORT-SCAN-NOTHING", "manifest", severity=severity, announced=self.announced, scanned=self.scanned
                )
            )
        if self.missing:
            found.append(self._missing(severity))
        if self.extra:
            found.append(
                finding(
                    "IMPORT-SCAN-EXTRA",
                    self.extra[0],
                    severity=severity,
                    words={"names": some(self.extra)},
                    remedies=[remedy(fix="hold")],
                    announced=self.announced,
                    scanned=self.scanned,
                    extra=len(self.extra),
                )
            )
        for where, twice in (("manifest", self.twice_in_manifest), ("scan", self.twice_in_scan)):
            if twice:
                found.append(
                    finding(
                        "IMPORT-SCAN-DUPLICATE",
                        f"{where} {twice[0]}",
                        severity=severity,
                        words={"list": where, "names": some(twice)},
                        remedies=[remedy(fix="labels")],
                        announced=self.announced,
                        scanned=self.scanned,
                        twice=len(twice),
                    )
                )
        found += [
            finding(
                "IMPORT-WRONG-SKU",
                serial,
                case="scan",
                severity=severity,
                words={"announced_part": announced, "scanned_part": scanned},
                remedies=[remedy(fix="hold")],
                announced=self.announced,
                scanned=self.scanned,
            )
            for serial, announced, scanned in self.wrong_sku
        ]
        return found

    def _missing(self, severity: Severity) -> Finding:
        if similar := self._similar():
            serial, scanned_serial = similar
            return finding(
                "IMPORT-SCAN-MISSING",
                self.missing[0],
                case="similar",
                severity=severity,
                words={"names": some(self.missing), "serial": serial, "scanned_serial": scanned_serial},
                remedies=[remedy(fix="label")],
                announced=self.announced,
                scanned=self.scanned,
                missing=len(self.missing),
            )
        return finding(
            "IMPORT-SCAN-MISSING",
            self.missing[0],
            case="none-similar",
            severity=severity,
            words={"names": some(self.missing)},
            remedies=[remedy(fix="search")],
            announced=self.announced,
            scanned=self.scanned,
            missing=len(self.missing),
        )

    def _similar(self) -> tuple[str, str] | None:
        """The first missing serial that an extra one looks like, with that extra one."""
        if len(self.missing) <= _ALIKE and len(self.extra) <= _ALIKE:
            for serial in self.missing:
                if near := difflib.get_close_matches(serial, self.extra, n=1, cutoff=0.85):
                    return serial, near[0]
        return None


def reconcile(manifest: pd.DataFrame, scan: pd.DataFrame) -> Reconciliation:
    """Compare both ways. `manifest` has columns serial, kind, part; `scan` serial and, if the scanner reads it, part.

    Only GPUs have to be scanned (S004); a scanned serial of any other row of the manifest is no extra one.
    """
    listed = [{**row, "serial": _bare(row["serial"])} for row in records(manifest) if row["serial"].strip()]
    gpus = [row for row in listed if row["kind"] == "gpu"]
    seen = [{**row, "serial": _bare(row["serial"])} for row in records(scan) if row["serial"].strip()]
    announced, scanned = {row["serial"]: row for row in gpus}, {row["serial"]: row for row in seen}
    every = {row["serial"] for row in listed}
    wrong = [
        (serial, announced[serial]["part"], scanned[serial]["part"])
        for serial in announced.keys() & scanned.keys()
        if announced[serial].get("part")
        and scanned[serial].get("part")
        and plain(announced[serial]["part"]) != plain(scanned[serial]["part"])
    ]
    return Reconciliation(
        announced=len(announced),
        scanned=len(scanned),
        missing=tuple(sorted(announced.keys() - scanned.keys())),
        extra=tuple(sorted(scanned.keys() - every)),
        twice_in_manifest=_twice(row["serial"] for row in gpus),
        twice_in_scan=_twice(row["serial"] for row in seen),
        wrong_sku=tuple(sorted(wrong)),
    )


def read_scan(given: Fields, manifest: pd.DataFrame | None, kept: pd.DataFrame | None = None) -> Imported:
    """The scan of received goods, with earlier scans in `kept`, compared with the manifest of earlier imports.

    A serial that is scanned again replaces its earlier scan; lots that were scanned before stay.
    """
    rows, stayed = together(kept, given.frame.drop(columns=LINE), _serial, SCAN_FILE)
    files = {SCAN_FILE: csv_text(rows)}
    if manifest is None:
        note = finding("IMPORT-NO-MANIFEST", SCAN_FILE, remedies=[remedy(fix="manifest")])
        return Imported(rows, f"{len(rows)} scanned serials", (*given.findings, *stayed, note), files)
    result = reconcile(manifest, rows)
    findings = result.findings("warning")  # a scan with differences is kept as proof; the check of S004 fails on it
    verdict = "every announced GPU was scanned once" if result.passed else "manifest and scan differ"
    summary = f"{result.scanned} scanned serials, {result.announced} announced GPUs: {verdict}"
    return Imported(rows, summary, (*given.findings, *stayed, *findings), files)


@dataclass(frozen=True)
class Bins:
    """`table` has one row per tested GPU: serial, part, tflops, power_w, tflops_per_kw, bin (1 is the lowest), tests."""

    table: pd.DataFrame
    findings: tuple[Finding, ...]


def performance_bins(
    tests: pd.DataFrame, quantiles: tuple[float, ...] = QUARTILES, failed_test: Severity = "error"
) -> Bins:
    """Bin each GPU by the quantile of its performance per watt among the GPUs of its SKU.

    `tests` has columns serial, tflops, power_w and, if known, part, firmware, test_id, result. Several tests of one GPU
    count by their medians. A test that failed counts for nothing and gives a finding of severity `failed_test`. A bin's lower
    bound belongs to it: a GPU exactly at the median of its SKU is in the upper half.
    """
    findings: list[Finding] = []
    rows = []
    failed: dict[str, str] = {}
    strange: dict[str, int] = {}
    for row in records(tests):
        said = row.get("result", "")
        outcome = OUTCOMES.get(plain(said)) if said else "passed"
        if outcome == "failed":
            failed[_bare(row["serial"])] = said
            continue
        if outcome is None:
            strange[said] = strange.get(said, 0) + 1
        tflops, power = number(row["tflops"]), number(row["power_w"])
        if tflops is None or power is None or tflops <= 0 or power <= 0:
            findings.append(
                finding(
                    "IMPORT-TEST-VALUE",
                    row["serial"],
                    words={"tflops": row["tflops"], "power_w": row["power_w"]},
                    remedies=[remedy(fix="test")],
                )
            )
            continue
        rows.append(
            (_bare(row["serial"]), row.get("part", ""), tflops, power, row.get("firmware", ""), row.get("test_id", ""))
        )
    findings += [
        finding(
            "IMPORT-TEST-FAILED",
            serial,
            severity=failed_test,
            words={"result": said},
            remedies=[remedy(fix="quarantine"), remedy(fix="return")],
        )
        for serial, said in failed.items()
    ]
    findings += [
        finding(
            "IMPORT-TEST-RESULT",
            said,
            words={"accepted": ", ".join(OUTCOMES)},
            remedies=[remedy(fix="word")],
            tests=count,
        )
        for said, count in strange.items()
    ]
    names = ["serial", "part", "tflops", "power_w", "firmware", "test_id"]
    listed = pd.DataFrame(rows, columns=names)
    grouped = listed.groupby("serial", sort=True)
    table = grouped.agg(
        part=("part", "first"),
        tflops=("tflops", "median"),
        power_w=("power_w", "median"),
        firmware=("firmware", "last"),
        test_ids=("test_id", lambda ids: " ".join(dict.fromkeys(i for i in ids if i))),
    ).reset_index()
    table["tflops_per_kw"] = (1000 * table["tflops"] / table["power_w"]).astype("float64").round(6)
    table["bin"] = 0
    for part, group in table.groupby("part"):
        bounds = np.quantile(group["tflops_per_kw"], quantiles)
        table.loc[group.index, "bin"] = 1 + np.searchsorted(bounds, group["tflops_per_kw"], side="right")
        if len(group) < SMALLEST_SAMPLE:
            findings.append(
                finding(
                    "IMPORT-FEW-TESTS",
                    str(part) or "GPUs",
                    limit=SMALLEST_SAMPLE,
                    limit_source="inventory/imports/delivery/receiving.py",
                    gpus=len(group),
                )
            )
    return Bins(table, tuple(findings))


def asset_table(
    bins: Bins, gpus: pd.DataFrame, manifest: pd.DataFrame | None, severity: Severity = "error"
) -> tuple[pd.DataFrame, list[Finding]]:
    """The register of GPUs (S008): serial, UUID, PCI address, chassis, slot, firmware, test ids, performance, bin.

    One row per GPU that is listed or tested. Findings, of this severity: tests of serials that no list has, and
    listed GPUs without tests.
    """
    cards = {_bare(row["serial"]): row for row in records(gpus)}
    if manifest is not None:
        for row in records(manifest[manifest["kind"] == "gpu"]):
            cards.setdefault(_bare(row["serial"]), row)
    tested = {row["serial"]: row for row in records(bins.table)}
    rows = []
    for serial in sorted({*cards, *tested}):
        card, test = cards.get(serial, {}), tested.get(serial, {})
        rows.append(
            [serial, card.get("uuid", ""), card.get("pci_bus_id", ""), card.get("device", ""), card.get("slot", "")]
            + [
                test.get(name, "")
                for name in ("part", "firmware", "test_ids", "tflops", "power_w", "tflops_per_kw", "bin")
            ]
        )
    columns = [
        "serial",
        "uuid",
        "pci_bus_id",
        "device",
        "slot",
        "part",
        "firmware",
        "test_ids",
        "tflops",
        "power_w",
        "tflops_per_kw",
        "bin",
    ]
    findings = []
    if strangers := sorted(tested.keys() - cards.keys()):
        findings.append(
            finding(
                "IMPORT-TEST-UNKNOWN",
                strangers[0],
                severity=severity,
                words={"names": some(strangers)},
                remedies=[remedy(fix="manifest")],
                gpus=len(strangers),
            )
        )
    if untested := sorted(cards.keys() - tested.keys()):
        findings.append(
            finding(
                "IMPORT-TEST-MISSING",
                untested[0],
                severity=severity,
                words={"names": some(untested)},
                remedies=[remedy(fix="test")],
                gpus=len(untested),
            )
        )
    return pd.DataFrame(rows, columns=columns), findings


def read_tests(
    given: Fields, gpus: pd.DataFrame, manifest: pd.DataFrame | None, kept: pd.DataFrame | None = None
) -> Imported:
    """Results of GPU tests: kept as sent, with those of earlier imports in `kept`, and the bins and gaps that follow.

    The tests of a serial replace its earlier ones, so that a GPU that was repaired and tested again has its last results.
    """
    rows, stayed = together(kept, given.frame.drop(columns=LINE), _serial, TESTS_FILE)
    bins = performance_bins(rows, failed_test="warning")  # failures and gaps are kept: the checks of S008 fail on them
    table, gaps = asset_table(bins, gpus, manifest, "warning")
    failed = [f for f in bins.findings if f.id == "IMPORT-TEST-FAILED"]
    others = [f for f in bins.findings if f.id != "IMPORT-TEST-FAILED"]
    sizes = bins.table["bin"].value_counts().sort_index()
    shares = ", ".join(f"bin {n}: {size}" for n, size in sizes.items())
    files = {TESTS_FILE: csv_text(rows), "imports/gpu_assets.csv": csv_text(table)}
    return Imported(
        table, f"{len(bins.table)} tested GPUs; {shares}", (*given.findings, *stayed, *others, *failed, *gaps), files
    )


def _serial(row: Mapping[str, str]) -> str:
    return _bare(row["serial"])


def _bare(serial: str) -> str:
    return serial.strip().upper()


def _twice(serials: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(serial for serial, count in Counter(serials).items() if count > 1))
