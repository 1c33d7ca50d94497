"""Items that are judged on imported files: deliveries, GPU tests, transport, energy readings and the scheduler's accounting.

`bringup import KIND FILE --site SITE --write` puts the files into the site's folder; without them the item stays missing.
Sums and bins are counted a second time here, in another way than the modules that made them.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from capacity.model import Plan
from inventory.findings import Finding
from inventory.imports.core import stored, tables
from inventory.imports.core.source import number
from inventory.imports.delivery import manifest, receiving, transport
from inventory.imports.operation import energy, usage
from inventory.paths import MAX_TABLE, read_file
from validation.check import Limit, Outcome, check, judged, site_limit

FLOAT = 1e-6
"""Relative difference of two sums of the same figures in another order."""


MOST_NAMED = 5
"""Meters that a message names; the rest is in the value."""


def imported(plan: Plan, name: str, kind: str) -> pd.DataFrame:
    """A table of earlier imports; the check is skipped, and its item stays missing, where there is none."""
    frame = stored.load(plan.site.dir, name)
    if frame is None or frame.empty:
        pytest.skip(f"{plan.site.dir / name} is not there: bringup import {kind} FILE --site {plan.site.name} --write")
    return frame


def imported_each(plan: Plan, folder: str, kind: str) -> dict[str, pd.DataFrame]:
    """The tables of a folder of earlier imports by the name of their file; skipped where there is none."""
    names = sorted(path.name for path in (plan.site.dir / folder).glob("*.csv"))
    found = {Path(name).stem: stored.load(plan.site.dir, f"{folder}/{name}") for name in names}
    frames = {name: frame for name, frame in found.items() if frame is not None and not frame.empty}
    if not frames:
        where = plan.site.dir / folder
        pytest.skip(f"{where} has no file: bringup import {kind} FILE --site {plan.site.name} --write")
    return frames


@check("S003.observed", inputs=("site.limits", "import.transport/*"))
def test_transport_stayed_within_the_vendors_limits(subject: str, plan: Plan) -> Outcome:
    files = sorted((plan.site.dir / transport.FOLDER).glob("*.csv"))
    if not files:
        pytest.skip(f"no logger file was imported: bringup import transport FILE --site {plan.site.name} --write")
    limits = transport.limits_of(plan.site)
    raw = b""
    value: dict[str, object] = {}
    findings: list[Finding] = []
    for path in files:
        data = read_file(path, MAX_TABLE)
        raw += data
        result = transport.judge(tables.fields(tables.read(data, path, "transport"), "transport"), limits)
        value[path.stem] = {"samples": len(result.samples), **{q: list(ends) for q, ends in result.extremes.items()}}
        findings += result.findings
    said = "; ".join(
        f"{q} {r.low if r.low is not None else ''}..{r.high if r.high is not None else ''}" for q, r in limits.items()
    )
    limit = Limit(said, "", "; ".join(dict.fromkeys(r.source for r in limits.values()))) if limits else None
    return judged(findings, value, f"{len(files)} logger file(s), every sample within its limits", limit=limit, raw=raw)


@check("S004.computed", inputs=("import.manifest.csv", "import.scan.csv", "site.server"))
def test_manifest_and_scan_agree_both_ways(subject: str, plan: Plan) -> Outcome:
    announced = imported(plan, manifest.MANIFEST_FILE, "manifest")
    scanned = imported(plan, receiving.SCAN_FILE, "scan")
    result = receiving.reconcile(announced, scanned)
    wanted = plan.site.server.count * plan.catalog.device(plan.site.server.model).bringup.gpus
    value = {
        "announced": result.announced,
        "scanned": result.scanned,
        "missing": list(result.missing),
        "extra": list(result.extra),
        "planned": wanted,
    }
    both = pd.merge(
        announced.loc[announced["kind"] == "gpu", "serial"].str.strip().str.upper().drop_duplicates().to_frame(),
        scanned["serial"].str.strip().str.upper().drop_duplicates().to_frame(),
        how="left",
        on="serial",
        indicator=True,
    )
    lost = int((both["_merge"] == "left_only").sum())
    if lost != len(result.missing):
        return Outcome(False, value, f"{lost} announced GPUs lack a scan by a join, {len(result.missing)} by sets")
    good = f"{result.announced} GPUs announced and scanned once each (the plan has {wanted})"
    return judged(
        result.findings(), value, good, limit=Limit(0, "differences", "S004: manifest against scan, both ways")
    )


def bins_of(plan: Plan) -> receiving.Bins:
    """The performance bins of the imported GPU tests."""
    return receiving.performance_bins(imported(plan, receiving.TESTS_FILE, "gpu-tests"))


@check("S008.generated", inputs=("gpus", "import.gpu_tests.csv", "import.manifest.csv", "site.server"))
def test_every_gpu_is_registered_with_its_tests(subject: str, plan: Plan) -> Outcome:
    bins = bins_of(plan)
    listed = stored.load(plan.site.dir, manifest.MANIFEST_FILE)
    table, findings = receiving.asset_table(bins, plan.gpus, listed)
    wanted = plan.site.server.count * plan.catalog.device(plan.site.server.model).bringup.gpus
    text = tables.csv_text(table)
    if len(table) < wanted:
        return Outcome(False, len(table), f"{len(table)} GPUs are registered, the plan has {wanted}", raw=text.encode())
    return judged(
        findings, len(table), f"{len(table)} GPUs with serial, place, firmware, tests and bin", raw=text.encode()
    )


@check("S008.computed", inputs=("import.gpu_tests.csv",))
def test_bins_are_quantiles_of_performance_per_watt(subject: str, plan: Plan) -> Outcome:
    bins = bins_of(plan)
    sizes = {}
    for part, group in bins.table.groupby("part"):
        ordered = group.sort_values("tflops_per_kw")
        best = [int((group["bin"] <= n).sum()) for n in range(1, len(receiving.QUARTILES) + 2)]
        for quantile, below in zip(receiving.QUARTILES, best, strict=False):
            bound = np.percentile(ordered["tflops_per_kw"], 100 * quantile)
            if below != int((ordered["tflops_per_kw"] < bound).sum()):
                return Outcome(
                    False,
                    below,
                    f"{part}: {below} GPUs below the {quantile:g} quantile, not as many as a recount finds",
                )
        sizes[str(part)] = np.diff([0, *best]).tolist()
    source = f"quantiles {', '.join(map(str, receiving.QUARTILES))} within one SKU; the vendor publishes no bins (S008)"
    limit = Limit(receiving.SMALLEST_SAMPLE, "GPUs of one SKU", source)
    return judged(bins.findings, sizes, f"{len(bins.table)} GPUs in bins", limit=limit)


def modelled_kw(plan: Plan) -> dict[str, float]:
    """The plan's measured profile (S071 to S073) by the name of what a meter may stand at: rack, rack circuit and its PDU,
    element of the supply, and the site's facility by its name. Circuits and elements share it as they share the plan's profile;
    the facility is what its utility feeds carry, or IT load by power.pue where no supply is planned.
    """
    racks = plan.racks.set_index("name")
    share = racks["measured_kw"] / racks[f"{plan.site.power.profile}_kw"]
    model = {str(name): float(kw) for name, kw in racks["measured_kw"].items()}
    own = plan.circuits["load_kw"] * plan.circuits["rack"].map(share)
    model |= dict(zip(plan.circuits["circuit"], own, strict=True)) | dict(zip(plan.circuits["pdu"], own, strict=True))
    whole = racks["measured_kw"].sum() / racks[f"{plan.site.power.profile}_kw"].sum()
    above = plan.elements[plan.elements["kind"] != "circuit"] if len(plan.elements) else plan.elements
    model |= {str(name): float(kw) * whole for name, kw in zip(above["name"], above["load_kw"], strict=True)}
    at_grid = above.loc[above["kind"] == "utility", "load_kw"].sum() * whole
    return model | {plan.site.name: float(at_grid or racks["measured_kw"].sum() * plan.site.power.pue)}


@check(
    "S171.computed",
    inputs=("site.limits", "site.power", "frame.racks", "frame.circuits", "import.energy/*", "frame.elements"),
)
def test_energy_of_racks_rows_and_facility_balances(subject: str, plan: Plan) -> Outcome:
    files = imported_each(plan, energy.FOLDER, "energy")
    accuracy = site_limit(plan.site, "energy_closure_pct")
    percent, loss, source = energy.limits_of(plan.site)
    value: dict[str, dict[str, float]] = {}
    findings: list[Finding] = []
    errors: dict[str, float] = {}
    model = modelled_kw(plan)
    for name in energy.standing(files):
        readings = files[name]
        compared = energy.against_model(energy.mean_kw(readings), model)
        errors |= dict(zip(compared["name"], compared["error_pct"].round(2), strict=True))
        result = energy.close(readings, percent, loss, source)
        rows = {row["meter"]: row for row in tables.records(result.table)}
        value[name] = {meter: round(float(row["difference_pct"]), 3) for meter, row in rows.items()}
        findings += result.findings
        if result.unit == "kwh" and result.passed:
            counters = readings["kwh"].map(number).astype(float).groupby(readings["name"]).agg(np.ptp)
            for meter, row in rows.items():
                fed = readings.loc[readings["parent"] == meter, "name"].unique()
                if abs(float(counters[fed].sum()) - float(row["below"])) > FLOAT * max(float(row["below"]), 1):
                    what = f"the meters below it add up to {counters[fed].sum():g}, not {row['below']}"
                    return Outcome(False, value, f"{name}: {meter}: {what}")
    closed = sum(len(meters) for meters in value.values())
    value["model over measured"] = errors
    good = f"{closed} meters in {len(value) - 1} file(s) close within {percent:g} % accuracy and {loss:g} % loss"
    if errors:
        worst = max(errors, key=lambda meter: abs(errors[meter]))
        good += f"; the plan's measured profile is off by {errors[worst]:+g} % at most, at {worst}"
    if bound := plan.site.limits.get("energy_model_pct"):
        far = {meter: error for meter, error in errors.items() if abs(error) > bound.value}
        if far and not findings:
            what = ", ".join(f"{meter} {error:+g} %" for meter, error in list(far.items())[:MOST_NAMED])
            return Outcome(
                False, value, f"the plan and the meters differ by more than {bound.value:g} %: {what}", unit="%"
            )
    return judged(findings, value, good, limit=accuracy, unit="%")


@check("S184.generated", inputs=("site.server", "site.gpu", "import.usage/*"))
def test_monthly_usage_report_is_consistent(subject: str, plan: Plan) -> Outcome:
    months = imported_each(plan, usage.FOLDER, "usage")
    catalog = plan.catalog
    gpus = plan.site.server.count * catalog.device(plan.site.server.model).bringup.gpus
    peak = catalog.gpu(plan.site.gpu.sku).peak_tflops
    value: dict[str, dict[str, float]] = {}
    findings: list[Finding] = []
    text = ""
    for month, jobs in months.items():
        result = usage.report(jobs, gpus, usage.hours_of(jobs, Path(usage.FOLDER) / f"{month}.csv"), peak)
        used = float(
            (jobs["gpus"].map(number).astype(float) * jobs["elapsed_h"].map(usage.in_hours).astype(float)).sum()
        )
        value[month] = {name: round(total, 3) for name, total in result.totals.items() if total == total}
        text += f"{month}\n{tables.csv_text(result.projects)}\n{tables.csv_text(result.nodes)}"
        findings += result.findings
        problems = [f for f in result.findings if f.severity == "error"]
        if not problems and abs(used - result.totals["gpu_h_allocated"]) > FLOAT * max(used, 1):
            what = f"{used:g} GPU-hours in the jobs, {result.totals['gpu_h_allocated']:g} in the report"
            return Outcome(False, value, f"{month}: {what}")
    last = value[max(value)]
    mfu = f", MFU {last['mfu_pct']:.1f} %" if "mfu_pct" in last else ""
    good = (
        f"{len(value)} month(s); {max(value)}: {last['jobs']:g} jobs, {last['gpu_h_idle']:g} idle GPU-hours, "
        f"{last['gpu_h_unallocated']:g} not allocated{mfu}"
    )
    return judged(findings, value, good, raw=text.encode())
