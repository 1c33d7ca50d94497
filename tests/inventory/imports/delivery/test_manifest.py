"""Factory manifests: what a site's lists gain, what is refused, and that nothing is lost on the way out and in again."""

import io
from contextlib import suppress
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.catalog import load_catalog
from inventory.delivered.assets import COLUMNS, parse_assets
from inventory.delivered.gpus import GPU_COLUMNS, parse_gpus
from inventory.imports.core import stored
from inventory.imports.core.result import Imported
from inventory.imports.core.source import ImportFault
from inventory.imports.core.tables import ColumnMap, csv_text, fields, read
from inventory.imports.delivery import manifest
from inventory.imports.delivery.manifest import Expected, export, merge, read_manifest
from tests.findings import names

PATH = Path("manifest.csv")
DEVICES = pd.DataFrame({"name": ["gpu001", "gpu002", "sw1"], "model": ["nvidia-dgx-h100"] * 2 + ["nvidia-qm9700"]})
PLACEMENTS = pd.DataFrame(
    {"device": ["gpu001", "gpu002", "sw1"], "rack": ["r01", "r01", "r02"], "u_bottom": [1, 9, 40]}
)
EXPECTED = Expected.of(DEVICES, PLACEMENTS, "nvidia-h100-sxm5-80gb")
NO_ASSETS = pd.DataFrame(columns=list(COLUMNS), dtype=str).set_index("device")
NO_GPUS = pd.DataFrame(columns=list(GPU_COLUMNS), dtype=str)
GPU = "GPU-fd00befd-ddc5-5336-8d33-620ac672eda{}"


def imported(
    text: str | bytes, given: ColumnMap | None = None, assets=NO_ASSETS, gpus=NO_GPUS, kept=None, **rest
) -> Imported:
    data = text if isinstance(text, bytes) else text.encode()
    table = fields(read(data, PATH, "manifest", given), "manifest", given)
    skus = given.skus if given else None
    return merge(read_manifest(table, EXPECTED, load_catalog(), skus, assets), assets, gpus, kept, **rest)


def ids(result: Imported, severity: str = "error") -> list[str]:
    return [finding.id for finding in result.findings if finding.severity == severity]


def test_rack_and_unit_name_the_planned_device() -> None:
    result = imported("Rack;RU;Serial No.;BMC MAC\nr01;U09;ABC2;02-42-10-00-01-02\nr02;40;SW9;0242.1000.0103\n")
    assets = parse_assets(result.files["assets.csv"])
    assert list(assets.loc["gpu002", ["serial", "mgmt_mac"]]) == ["ABC2", "02:42:10:00:01:02"]
    assert assets.loc["sw1", "mgmt_mac"] == "02:42:10:00:01:03"
    assert not result.refused


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("r05,1", "gpu001 r05 U1"),
        ("r01,9", "gpu001 r01 U9"),
        ("r02,", "gpu001 r02"),
        ("R01,1", ""),
        ("r01,", ""),
        (",", ""),
    ],
)
def test_a_place_that_contradicts_the_plan_is_named(place: str, said: str) -> None:
    result = imported(f"Hostname,Serial,Rack,U\ngpu001,SN1,{place}\n")
    wrong = [f for f in result.findings if f.id == "IMPORT-PLACE"]
    assert len(wrong) == bool(said)
    assert all(names(f, said, "gpu001 r01 U1") for f in wrong)
    assert [f.limit_source for f in wrong] == ["plan placements"] * len(wrong)


def test_names_and_racks_are_those_of_the_plan_in_any_case() -> None:
    result = imported("Hostname,Serial,Rack,U,Model\nGPU001,SN1,R01,1,DGX B200\n,SN2,R01,9,\n")
    assert list(parse_assets(result.files["assets.csv"]).index) == ["gpu001", "gpu002"]
    assert ids(result) == ["IMPORT-WRONG-SKU"]
    assert not ids(result, "warning")


def test_a_workbook_with_a_letterhead_reads_like_its_csv() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["ACME"], [], ["Hostname", "Serial Number", "PO"], ["gpu001", 4711, "7"]):
        sheet.append(row)
    book.create_sheet("Terms").append(["none"])
    out = io.BytesIO()
    book.save(out)
    result = imported(out.getvalue())
    assert parse_assets(result.files["assets.csv"]).loc["gpu001", "serial"] == "4711"
    assert ids(result, "info") == ["IMPORT-SHEETS", "IMPORT-PREAMBLE", "IMPORT-UNKNOWN-COLUMN"]


def test_one_row_per_server_with_a_column_per_gpu_is_unfolded() -> None:
    text = f"device,serial,GPU1 SN,GPU1 UUID,GPU1 PCI address\ngpu001,ABC1,16501,{GPU.format(2)},1b:00.0\n"
    result = imported(text)
    card = parse_gpus(result.files["gpus.csv"]).iloc[0]
    assert card.tolist() == ["gpu001", "1", "16501", GPU.format(2), "00000000:1B:00.0"]


def test_gpus_without_uuid_wait_in_the_manifest() -> None:
    result = imported("device,kind,slot,serial\ngpu001,GPU,1,16501\n")
    assert "gpus.csv" not in result.files
    assert "IMPORT-GPU-INCOMPLETE" in ids(result, "info")
    assert "16501" in result.files[manifest.MANIFEST_FILE]


def test_parts_of_a_server_do_not_take_its_serial() -> None:
    result = imported("device,type,serial,parent\ngpu001,Server,ABC1,\ngpu001,PSU,PS77,ABC1\n,DIMM,D1,ABC1\n")
    assert parse_assets(result.files["assets.csv"]).loc["gpu001", "serial"] == "ABC1"
    whole = stored.parse(result.files[manifest.MANIFEST_FILE], PATH)
    assert whole["kind"].tolist() == ["device", "component", "component"]
    assert whole["kind (file)"].tolist() == ["Server", "PSU", "DIMM"]
    assert whole["device"].tolist() == ["gpu001"] * 3


@pytest.mark.parametrize(
    ("row", "finding"),
    [
        ("gpu001,,ABC1,hunter2,,", "IMPORT-SECRET"),
        ("gpu001,,1.65E+12,,,", "IMPORT-SERIAL-MANGLED"),
        ("gpu001,,ABC1,,02:42,", "IMPORT-FORM"),
        ("gpu001,,,,02:42:10:00:01:01,", "IMPORT-NO-SERIAL"),
        ("gpu001,nvidia-dgx-b200,ABC1,,,", "IMPORT-WRONG-SKU"),
        ("gpu001,H100 PCIe 80GB,ABC1,,,1", "IMPORT-FORM-FACTOR"),
        ("gpu001,B200 SXM 180GB,ABC1,,,1", "IMPORT-WRONG-SKU"),
    ],
)
def test_what_does_not_fit_is_refused(row: str, finding: str) -> None:
    kind = "gpu" if row.endswith("1") else ""
    result = imported(f"device,part,serial,credential,mgmt_mac,slot,kind\n{row},{kind}\n")
    assert finding in ids(result)
    assert result.refused


def test_a_secret_is_never_repeated_in_a_message() -> None:
    result = imported("device,serial,BMC password\ngpu001,ABC1,hunter2\n")
    assert not any("hunter2" in finding.message for finding in result.findings)


@pytest.mark.parametrize(
    "heading",
    ["iLO Password", "BMC pass", "bmcpassword", "SNMP community", "BMC_PW", "redfishToken", "API key", "Pass"],
)
def test_a_secret_under_any_heading_is_refused_and_goes_no_further(heading: str) -> None:
    result = imported(f"device,serial,{heading}\ngpu001,ABC1,hunter2\n")
    assert "IMPORT-SECRET" in ids(result)
    assert "hunter2" not in result.rows.to_csv() + "".join(result.files.values()) + str(result.findings)
    assert "(secret)" in result.rows.to_csv()


def test_a_secret_above_the_headings_is_not_repeated() -> None:
    result = imported("ACME,default password: hunter2\ndevice,serial\ngpu001,ABC1\n")
    assert "IMPORT-PREAMBLE" in ids(result, "info")
    assert "hunter2" not in str(result.findings)


def test_a_secret_that_an_earlier_import_kept_is_refused_and_not_exported() -> None:
    kept = pd.DataFrame([{"device": "gpu002", "kind": "device", "serial": "X", "iLO Password": "hunter2"}])
    kept = kept.reindex(columns=[*manifest.FIELDS, "iLO Password"], fill_value="")
    result = imported("device,serial\ngpu001,ABC1\n", kept=kept)
    assert {f.id: f.subject for f in result.findings}["IMPORT-SECRET"] == "imports/manifest.csv line 2"
    assert "hunter2" not in "".join(result.files.values())
    assert "hunter2" not in export(kept, NO_ASSETS, NO_GPUS, PLACEMENTS).to_csv()


@pytest.mark.parametrize(
    ("heading", "cell"),
    [
        ("iLO Password", "vault:bmc#gpu001"),
        ("Password changed", "yes"),
        ("Pass", "OK"),
        ("Pass/Fail", "P"),
        ("Passive", "1"),
    ],
)
def test_references_answers_and_outcomes_are_no_secrets(heading: str, cell: str) -> None:
    result = imported(f"device,serial,{heading}\ngpu001,ABC1,{cell}\n")
    assert not ids(result)
    assert cell in result.files[manifest.MANIFEST_FILE]


def test_a_wrong_form_factor_is_err_07() -> None:
    result = imported("device,kind,slot,part,serial\ngpu001,gpu,1,NVIDIA H100 PCIe,1\n")
    assert [f.err for f in result.findings if f.id == "IMPORT-FORM-FACTOR"] == ["ERR-07"]


def test_an_unknown_part_number_is_a_warning_until_the_map_knows_it() -> None:
    text = "device,part,serial\ngpu001,900-XYZ,ABC1\n"
    assert "IMPORT-SKU-UNKNOWN" in ids(imported(text), "warning")
    assert not ids(imported(text, ColumnMap(skus={"900-XYZ": "nvidia-dgx-h100"})), "warning")
    assert ids(imported(text, ColumnMap(skus={"900-XYZ": "nvidia-dgx-b200"}))) == ["IMPORT-WRONG-SKU"]


def test_two_rows_with_one_serial_name_both_lines() -> None:
    result = imported("device,serial\ngpu001,ABC1\ngpu002,ABC1\n")
    assert any(names(f, 2, 3) for f in result.findings if f.id == "IMPORT-DUPLICATE")


def test_another_serial_needs_replace() -> None:
    assets = parse_assets(imported("device,serial\ngpu001,OLD\n").files["assets.csv"])
    assert ids(imported("device,serial\ngpu001,NEW\n", assets=assets)) == ["IMPORT-REPLACES"]
    new = imported("device,serial\ngpu001,NEW\n", assets=assets, replace=True)
    assert parse_assets(new.files["assets.csv"]).loc["gpu001", "serial"] == "NEW"


def test_devices_outside_the_plan_are_kept_and_reported() -> None:
    result = imported("device,serial\ngpu999,ABC1\n")
    lost = next(f for f in result.findings if f.id == "IMPORT-NO-DEVICE")
    assert (lost.severity, lost.numbers) == ("warning", {"rows": 1})
    assert names(lost, "gpu999")
    assert "gpu999" in result.files[manifest.MANIFEST_FILE]
    assert "gpu999" not in result.files["assets.csv"]


def test_a_device_outside_the_plan_comes_with_the_nearest_name_of_the_plan() -> None:
    result = imported("device,serial\ngpu0021,ABC1\n")
    lost = next(f for f in result.findings if f.id == "IMPORT-NO-DEVICE")
    assert names(lost, "gpu0021", "gpu002")


def test_a_file_without_serials_names_the_headings_that_it_has() -> None:
    with pytest.raises(ImportFault, match=r"no column for serial.*headings are Foo, Bar"):
        imported("Foo,Bar\n1,2\n")


WORDS = st.text(alphabet="abcXYZ019 -_/,;\"'äß\n", max_size=8).map(str.strip)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "device": st.sampled_from(["gpu001", "gpu002", "sw1", "gpu999", ""]),
            "kind": st.sampled_from(["", "Server", "gpu", "PSU", "GPU module"]),
            "manufacturer": WORDS,
            "rack": st.sampled_from(["r01", "r02", ""]),
            "slot": st.sampled_from(["", "1", "02"]),
            "Remark": WORDS,
            "S/N 2": WORDS,
        }
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=30, deadline=None)
@given(ROWS)
def test_export_then_import_loses_nothing(rows: list[dict[str, str]]) -> None:
    frame = pd.DataFrame([{**row, "serial": f"SN{n}"} for n, row in enumerate(rows)])
    first = imported(csv_text(frame), ColumnMap(columns={"serial": "serial"}))
    if first.refused:
        return
    kept = stored.parse(first.files[manifest.MANIFEST_FILE], PATH)
    assert sorted(kept["serial"]) == sorted(frame["serial"])
    assert sorted(kept["Remark"]) == sorted(frame["Remark"])
    assets = parse_assets(first.files["assets.csv"])
    gpus = parse_gpus(first.files["gpus.csv"]) if "gpus.csv" in first.files else NO_GPUS
    sent = csv_text(export(kept, assets, gpus, PLACEMENTS))
    again = imported(sent, assets=assets, gpus=gpus)
    assert not again.refused, again.findings
    assert again.files["assets.csv"] == first.files["assets.csv"]
    assert csv_text(export(stored.parse(again.files[manifest.MANIFEST_FILE], PATH), assets, gpus, PLACEMENTS)) == sent


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=400),
        st.text(max_size=400).map(str.encode),
        st.binary(max_size=200).map(b"PK\x03\x04".__add__),
    )
)
def test_any_bytes_give_rows_or_a_fault(data: bytes) -> None:
    with suppress(ImportFault):
        imported(data)


def test_a_workbook_that_is_cut_short_gives_a_fault() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["device", "serial"])
    out = io.BytesIO()
    book.save(out)
    for cut in range(0, len(out.getvalue()), 97):
        with pytest.raises(ImportFault):
            imported(out.getvalue()[:cut])
