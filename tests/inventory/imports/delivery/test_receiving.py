"""Manifest against scan (S004), and performance bins (S008)."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.imports.core import stored
from inventory.imports.core.tables import Fields, fields, read
from inventory.imports.delivery.receiving import (
    SCAN_FILE,
    TESTS_FILE,
    asset_table,
    performance_bins,
    read_scan,
    read_tests,
    reconcile,
)
from tests.findings import names

DATA = Path(__file__).parents[3] / "data" / "imports"


def manifest(*serials: str, kind: str = "gpu") -> pd.DataFrame:
    return pd.DataFrame({"serial": serials, "kind": kind, "part": "H100"})


def scan(*serials: str) -> pd.DataFrame:
    return pd.DataFrame({"serial": serials, "part": ""})


def recorded(name: str, kind: str) -> pd.DataFrame:
    path = DATA / name
    return fields(read(path.read_bytes(), path, kind), kind).frame


def test_the_recorded_delivery_agrees_both_ways() -> None:
    result = reconcile(recorded("manifest.csv", "manifest"), recorded("scan.csv", "scan"))
    assert result.passed
    assert (result.announced, result.scanned) == (8, 9)  # the chassis is scanned too


def test_the_recorded_short_delivery_names_each_difference() -> None:
    result = reconcile(recorded("manifest.csv", "manifest"), recorded("scan_short.csv", "scan"))
    assert result.missing == ("1650123456007",)
    assert result.extra == ("1650123456070",)
    assert result.twice_in_scan == ("1650123456002",)
    assert result.wrong_sku == (("1650123456003", "H100 SXM5 80GB", "H100 PCIe 80GB"),)
    assert not result.passed
    by_id = {f.id: f for f in result.findings()}
    assert {f.severity for f in by_id.values()} == {"error"}
    assert names(by_id["IMPORT-SCAN-MISSING"], "1650123456070", "1650123456007")
    assert [one.text for one in by_id["IMPORT-SCAN-MISSING"].remedies] == ["read that label again"]
    assert names(by_id["IMPORT-WRONG-SKU"], "H100 SXM5 80GB", "H100 PCIe 80GB")
    assert by_id["IMPORT-SCAN-EXTRA"].numbers == {"announced": 8, "scanned": result.scanned, "extra": 1}
    assert {(f.id, f.severity) for f in result.findings("warning")} == {(id_, "warning") for id_ in by_id}


def test_a_missing_serial_that_looks_like_no_other_is_searched_and_claimed() -> None:
    missing = reconcile(manifest("AAAA1111", "BBBB2222"), scan("BBBB2222")).findings()
    assert [f.id for f in missing] == ["IMPORT-SCAN-MISSING"]
    assert names(missing[0], "AAAA1111", 1, 2)
    assert missing[0].numbers == {"announced": 2, "scanned": 1, "missing": 1}
    assert "claim the shortage" in missing[0].remedies[0].text


def sent(text: str, kind: str) -> Fields:
    return fields(read(text.encode(), Path("lot.csv"), kind), kind)


def test_a_second_lot_leaves_the_first_one_and_replaces_what_is_scanned_again() -> None:
    first = read_scan(sent("serial,dock\nA,1\nB,1\nB,1\n", "scan"), None)
    kept = stored.parse(first.files[SCAN_FILE], Path(SCAN_FILE))
    second = read_scan(sent("serial,by\nb,Kim\nC,Kim\nC,Kim\n", "scan"), manifest("A", "B", "C"), kept)
    assert second.files[SCAN_FILE] == "serial,dock,by\nA,1,\nb,,Kim\nC,,Kim\nC,,Kim\n"
    assert {f.id: f.numbers for f in second.findings}["IMPORT-KEPT"] == {"rows": 1}
    assert "IMPORT-SCAN-MISSING" not in [f.id for f in second.findings]
    assert "IMPORT-SCAN-DUPLICATE" in [f.id for f in second.findings]  # C, twice in this file


def test_a_second_lot_of_tests_leaves_the_first_one_and_replaces_a_gpu_tested_again() -> None:
    gpus = pd.DataFrame({"device": "gpu001", "slot": ["1", "2"], "serial": ["A", "B"], "uuid": "U", "pci_bus_id": "P"})
    first = read_tests(sent("serial,tflops,power,run\nA,600,700,t1\nB,600,700,t1\n", "gpu_tests"), gpus, None)
    kept = stored.parse(first.files[TESTS_FILE], Path(TESTS_FILE))
    second = read_tests(sent("serial,tflops,power\nB,650,700\n", "gpu_tests"), gpus, None, kept)
    assert second.rows[["serial", "tflops", "test_ids"]].to_numpy().tolist() == [
        ["A", "600.0", "t1"],
        ["B", "650.0", ""],
    ]
    assert "IMPORT-TEST-MISSING" not in [f.id for f in second.findings]


def test_a_gpu_that_failed_is_neither_binned_nor_tested_and_its_import_is_kept() -> None:
    gpus = pd.DataFrame({"device": "gpu001", "slot": ["1", "2"], "serial": ["A", "B"], "uuid": "U", "pci_bus_id": "P"})
    text = "serial,tflops,power,status\nA,600,700,PASS\nB,900,700,FAIL\n"
    bins = performance_bins(sent(text, "gpu_tests").frame)
    assert bins.table["serial"].tolist() == ["A"]
    assert [(f.severity, f.subject) for f in bins.findings if f.id == "IMPORT-TEST-FAILED"] == [("error", "B")]
    result = read_tests(sent(text, "gpu_tests"), gpus, None)
    assert not result.refused
    warnings = {f.id: f for f in result.findings if f.severity == "warning"}
    assert names(warnings["IMPORT-TEST-FAILED"], "FAIL", "quarantine", "return", "S007")
    assert len(warnings["IMPORT-TEST-FAILED"].remedies) == 2
    assert warnings["IMPORT-TEST-MISSING"].numbers == {"gpus": 1}
    assert names(warnings["IMPORT-TEST-MISSING"], "B")


def test_a_result_that_nobody_knows_is_a_warning() -> None:
    bins = performance_bins(sent("serial,tflops,power,status\nA,600,700,hmm\n", "gpu_tests").frame)
    assert ("IMPORT-TEST-RESULT", "warning", "hmm") in [(f.id, f.severity, f.subject) for f in bins.findings]


def test_nothing_announced_is_no_pass() -> None:
    assert not reconcile(manifest(), scan()).passed
    assert reconcile(manifest(), scan()).findings()[0].id == "IMPORT-SCAN-NOTHING"


@settings(deadline=None)
@given(st.lists(st.sampled_from("ABCDEF")), st.lists(st.sampled_from("ABCDEFab ")))
def test_the_differences_are_those_of_sets(announced: list[str], scanned: list[str]) -> None:
    result = reconcile(manifest(*announced), scan(*scanned))
    seen = {s.strip().upper() for s in scanned} - {""}
    given_serials = sum(bool(s.strip()) for s in scanned)
    assert set(result.missing) == set(announced) - seen
    assert set(result.extra) == seen - set(announced)
    assert result.passed == (
        0 < len(announced) == len(set(announced)) and set(announced) == seen and len(seen) == given_serials
    )


def results_of(count: int, part: str = "h100") -> pd.DataFrame:
    # 600 TFLOP/s at 700 W is 857 TFLOP/s per kW; each further GPU is a little better
    return pd.DataFrame(
        {
            "serial": [f"{part}{n:03d}" for n in range(count)],
            "part": part,
            "tflops": [str(600 + n) for n in range(count)],
            "power_w": "700",
        }
    )


def test_quartiles_hold_a_quarter_each() -> None:
    bins = performance_bins(results_of(40))
    assert bins.table["bin"].value_counts().to_dict() == {1: 10, 2: 10, 3: 10, 4: 10}
    assert bins.table.set_index("serial").loc["H100000", "tflops_per_kw"] == pytest.approx(600 / 0.7)
    assert not bins.findings


def test_bins_are_made_within_one_sku() -> None:
    both = pd.concat([results_of(20), results_of(20, "b200").assign(tflops="2000")])
    bins = performance_bins(both).table
    assert bins.loc[bins["part"] == "h100", "bin"].max() == 4


def test_several_tests_of_one_gpu_count_by_their_median() -> None:
    frame = pd.DataFrame(
        {"serial": ["A"] * 3, "tflops": ["600", "610", "900"], "power_w": "700", "test_id": ["t1", "t2", "t2"]}
    )
    row = performance_bins(frame).table.iloc[0]
    assert (row["tflops"], row["test_ids"]) == (610, "t1 t2")


def test_a_result_without_power_is_an_error_and_few_tests_a_warning() -> None:
    frame = pd.DataFrame({"serial": ["A", "B"], "tflops": ["600", "610"], "power_w": ["0", "700"]})
    assert [f.id for f in performance_bins(frame).findings] == ["IMPORT-TEST-VALUE", "IMPORT-FEW-TESTS"]


def test_the_register_lists_untested_and_unknown_gpus() -> None:
    gpus = pd.DataFrame({"device": ["gpu001"], "slot": ["1"], "serial": ["X"], "uuid": ["U"], "pci_bus_id": ["P"]})
    table, findings = asset_table(performance_bins(results_of(2)), gpus, None)
    assert [f.id for f in findings] == ["IMPORT-TEST-UNKNOWN", "IMPORT-TEST-MISSING"]
    assert len(table) == 3


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)), min_size=1, max_size=50))
def test_a_better_gpu_is_never_in_a_lower_bin(results: list[tuple[float, float]]) -> None:
    frame = pd.DataFrame(
        {
            "serial": [f"{n}" for n in range(len(results))],
            "tflops": [str(t) for t, _ in results],
            "power_w": [str(w) for _, w in results],
        }
    )
    table = performance_bins(frame).table.sort_values("tflops_per_kw")
    assert (np.diff(table["bin"]) >= 0).all()
