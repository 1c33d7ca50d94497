"""Checks on imported files: missing where nothing was imported, judged and stale by what was."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import capacity.build
from capacity.model import Plan
from capacity.outputs.workbook import bill
from infra.cli import imports, main
from inventory.imports.core.tables import csv_text
from inventory.paths import site_dir
from inventory.site import load_site, site_names
from tests.full_sites import full_text
from validation.checks import test_imports as checks

DATA = Path(__file__).parents[1] / "data" / "imports"
ALL = [
    checks.test_transport_stayed_within_the_vendors_limits,
    checks.test_manifest_and_scan_agree_both_ways,
    checks.test_every_gpu_is_registered_with_its_tests,
    checks.test_bins_are_quantiles_of_performance_per_watt,
    checks.test_energy_of_racks_rows_and_facility_balances,
    checks.test_monthly_usage_report_is_consistent,
]
LIMITS = """
  energy_loss_pct: {value: 2, unit: "%", source: "cable and transformer losses by the electrical design"}
  transport_temperature_min_c: {value: -20, unit: C, source: "vendor, packaging data sheet"}
  transport_temperature_max_c: {value: 60, unit: C, source: "vendor, packaging data sheet"}
  transport_humidity_max_pct: {value: 90, unit: "%", source: "vendor, packaging data sheet"}
  transport_shock_max_g: {value: 20, unit: g, source: "vendor, packaging data sheet"}
"""


pytestmark = pytest.mark.usefixtures("plans_kept")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The lab's site file with limits of transport and energy, and nothing delivered."""
    text = full_text("lab").replace("\nlimits:\n", f"\nlimits:{LIMITS}")
    (tmp_path / "site.yaml").write_text(text)
    return tmp_path


def plan_of(folder: Path) -> Plan:
    return capacity.build.build(load_site(str(folder / "site.yaml")))


def bring(folder: Path, kind: str, file: Path, *more: str) -> int:
    return main(["import", kind, str(file), "--site", str(folder / "site.yaml"), *more])


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("site", site_names())
def test_without_imports_an_item_stays_missing(function: Callable[..., Any], site: str) -> None:
    only_the_site = SimpleNamespace(site=load_site(site))
    with pytest.raises(pytest.skip.Exception, match="bringup import"):
        function(site, only_the_site)


def test_a_preview_writes_nothing(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bring(copy, "manifest", DATA / "manifest.csv") == 0
    assert sorted(path.name for path in copy.iterdir()) == ["site.yaml"]
    assert "add --write" in capsys.readouterr().out


def test_a_reader_that_closes_the_pipe_does_not_keep_the_files_from_being_written(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(changes: object) -> None:
        raise RuntimeError("pipe closed")

    monkeypatch.setattr(imports, "_show", closed)
    with suppress(RuntimeError):
        bring(copy, "scan", DATA / "scan.csv", "--write")
    assert (copy / "imports" / "scan.csv").exists()


def test_a_delivery_is_judged_on_its_files(copy: Path) -> None:
    assert bring(copy, "manifest", DATA / "manifest.csv", "--map", str(DATA / "manifest_map.yaml"), "--write") == 0
    assert bring(copy, "scan", DATA / "scan_short.csv", "--write") == 0
    outcome = checks.test_manifest_and_scan_agree_both_ways("lab", plan_of(copy))
    assert not outcome.passed
    assert "1650123456007" in outcome.detail
    (copy / "imports" / "scan.csv").unlink()
    assert bring(copy, "scan", DATA / "scan.csv", "--write") == 0
    outcome = checks.test_manifest_and_scan_agree_both_ways("lab", plan_of(copy))
    assert outcome.passed, outcome.detail


def test_evidence_hangs_on_the_hash_of_the_file_and_the_plan_does_not(copy: Path) -> None:
    before = plan_of(copy)
    bring(copy, "energy", DATA / "energy.csv", "--write")
    after = plan_of(copy)
    assert set(after.hashes) - set(before.hashes) == {"import.energy/energy.csv", "import.energy/"}
    assert after.hash == before.hash


def test_evidence_on_a_folder_goes_stale_with_one_more_file(copy: Path, tmp_path: Path) -> None:
    bring(copy, "energy", DATA / "energy.csv", "--write")
    before = plan_of(copy).hashes
    shutil.copy(DATA / "energy.csv", tmp_path / "later.csv")
    bring(copy, "energy", tmp_path / "later.csv", "--write")
    after = plan_of(copy).hashes
    assert {name for name in before if before[name] != after[name]} == {"import.energy/"}


def test_transport_energy_and_use_are_judged_on_recorded_files(copy: Path) -> None:
    bring(copy, "transport", DATA / "transport.csv", "--write")
    bring(copy, "energy", DATA / "energy.csv", "--write")
    bring(copy, "usage", DATA / "usage.csv", "--write")
    plan = plan_of(copy)
    for function in (
        checks.test_transport_stayed_within_the_vendors_limits,
        checks.test_energy_of_racks_rows_and_facility_balances,
        checks.test_monthly_usage_report_is_consistent,
    ):
        outcome = function("lab", plan)
        assert outcome.passed, outcome.detail
    assert "2026-11: 3 jobs" in outcome.detail
    assert "MFU 42." in outcome.detail  # 420 TFLOP/s of 989.4
    energy = copy / "imports" / "energy" / "energy.csv"
    energy.write_text(energy.read_text().replace("3440", "1440"))
    outcome = checks.test_energy_of_racks_rows_and_facility_balances("lab", plan_of(copy))
    assert not outcome.passed
    assert "has no meter" in outcome.detail


def test_a_quote_of_our_own_column_to_order_agrees(copy: Path, tmp_path: Path, capsys) -> None:
    lines = bill(plan_of(copy)).groupby(["item", "model"], as_index=False)["order"].sum()
    assert lines["model"].duplicated().any()  # a server and its processors have one model
    quote = tmp_path / "quote.csv"
    quote.write_text(csv_text(lines[lines["order"] > 0].set_axis(["Item", "Model", "Qty"], axis=1)))
    bring(copy, "quote", quote, "--json")
    told = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in told["rows"]} <= {"agrees", "in the server"}
    assert not [f for f in told["findings"] if f["id"].startswith("IMPORT-QUOTE")]


def test_a_second_month_of_use_leaves_the_first(copy: Path, tmp_path: Path) -> None:
    december = tmp_path / "usage.csv"
    december.write_text((DATA / "usage.csv").read_text().replace("2026-11", "2026-12"))
    bring(copy, "usage", DATA / "usage.csv", "--write")
    bring(copy, "usage", december, "--write")
    outcome = checks.test_monthly_usage_report_is_consistent("lab", plan_of(copy))
    assert outcome.passed, outcome.detail
    assert isinstance(outcome.value, dict)
    assert outcome.value.keys() == {"2026-11", "2026-12"}


def test_the_register_of_gpus_lists_every_planned_one(copy: Path, tmp_path: Path) -> None:
    shutil.copy(site_dir("lab") / "gpus.csv", copy)
    serials = [line.split(",")[2] for line in (copy / "gpus.csv").read_text().splitlines()[1:]]
    results = tmp_path / "results.csv"
    rows = [f"{serial},{600 + n},700,t{n}" for n, serial in enumerate(serials)]
    results.write_text("GPU serial,TFLOPS,Power (W),Run\n" + "\n".join(rows) + "\n")
    assert bring(copy, "gpu-tests", results, "--write") == 0
    plan = plan_of(copy)
    assert checks.test_every_gpu_is_registered_with_its_tests("lab", plan).passed
    bins = checks.test_bins_are_quantiles_of_performance_per_watt("lab", plan)
    assert bins.passed, bins.detail
    assert bins.value == {"": [8, 8, 8, 8]}


@pytest.mark.parametrize("kind", ["racks", "devices", "power-feeds"])
def test_what_is_exported_for_netbox_comes_back_without_difference(
    kind: str, copy: Path, capsys, tmp_path: Path
) -> None:
    out = tmp_path / f"{kind}.csv"
    site = str(copy / "site.yaml")
    assert main(["export", f"netbox-{kind}", "--site", site, "--out", str(out)]) == 0
    assert main(["import", f"netbox-{kind}", str(out), "--site", site]) == 0
    assert "0 differences from the plan" in capsys.readouterr().out


def test_the_manifest_that_is_exported_changes_nothing(copy: Path, tmp_path: Path, capsys) -> None:
    for name in ("assets.csv", "gpus.csv"):
        shutil.copy(site_dir("lab") / name, copy)
    out = tmp_path / "sent.csv"
    main(["export", "manifest", "--site", str(copy / "site.yaml"), "--out", str(out)])
    assert bring(copy, "manifest", out, "--write") == 0
    for name in ("assets.csv", "gpus.csv"):
        assert (copy / name).read_text() == (site_dir("lab") / name).read_text()
    assert bring(copy, "manifest", out) == 0
    assert "holds all of it already" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["xer", "mspdi"])
def test_the_programme_that_is_exported_leaves_the_site_file_as_it_is(
    kind: str, copy: Path, tmp_path: Path, capsys
) -> None:
    before = (copy / "site.yaml").read_bytes()
    out = tmp_path / f"sent.{kind}"
    assert main(["export", f"programme-{kind}", "--site", str(copy / "site.yaml"), "--out", str(out)]) == 0
    assert out.read_text().count("gpu") > 0
    assert bring(copy, "programme", out, "--write") == 0
    assert "IMPORT-KEPT" not in capsys.readouterr().out
    assert (copy / "site.yaml").read_bytes() == before
    assert bring(copy, "programme", out) == 0
    assert "holds all of it already" in capsys.readouterr().out


def test_a_file_with_errors_is_not_written(copy: Path, tmp_path: Path, capsys) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("device,serial,BMC password\ngpu001,ABC1,hunter2\n")
    assert bring(copy, "manifest", bad, "--write") == 1
    assert not (copy / "assets.csv").exists()
    shown = capsys.readouterr().out
    assert "IMPORT-SECRET" in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("manifest", "device,serial,iLO Password\ngpu001,ABC1,hunter2\n"),
        ("scan", "serial,Scanner login password\nABC1,hunter2\n"),
        ("transport", "time,temperature,Logger passwd\n2026-10-01 08:00,20,hunter2\n2026-10-01 09:00,20,hunter2\n"),
        ("gpu-tests", "serial,tflops,power,BMC pass\nABC1,600,700,hunter2\n"),
    ],
)
def test_a_refused_secret_is_in_no_output_of_any_kind(kind: str, text: str, copy: Path, tmp_path: Path, capsys) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(text)
    assert bring(copy, kind, bad, "--write", "--json") == 1
    shown = capsys.readouterr().out
    assert "IMPORT-SECRET" in shown
    assert "hunter2" not in shown
    assert not (copy / "imports").exists()


def test_a_file_that_cannot_be_read_says_so_and_ends_with_2(copy: Path, tmp_path: Path, capsys) -> None:
    broken = tmp_path / "x.xlsx"
    broken.write_bytes(b"PK\x03\x04broken")
    assert bring(copy, "quote", broken) == 2
    assert "save it as .xlsx again" in capsys.readouterr().err
