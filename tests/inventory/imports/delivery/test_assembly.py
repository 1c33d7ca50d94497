"""Assembly records: checked against the lists, and turned into forms that a person signs."""

from datetime import date
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.imports.core import stored
from inventory.imports.core.result import Imported
from inventory.imports.core.source import ImportFault
from inventory.imports.core.tables import fields, read
from inventory.imports.delivery.assembly import Delivered, Step, read_assembly
from tests.findings import names

COMMON = ("name", "role", "asset", "date", "method", "outcome")
STEPS = {
    "S005": Step((*COMMON, "checklist", "photos", "disposition"), ("gpu001", "gpu002")),
    "S013": Step((*COMMON, "chassis_serial", "cpu_serials", "paste", "torque_nm"), ("gpu001", "gpu002")),
    "S027": Step((*COMMON, "connector_count", "latch_check"), ("gpu001",), None),
    "S028": Step((*COMMON, "bracket"), ("gpu001",), "site key gpu.form_factor is sxm, the step needs pcie"),
}
DELIVERED = Delivered({"CH1": "gpu001", "CH2": "gpu002"}, {"G1": ("gpu001", "1"), "G2": ("gpu001", "2")}, 1)
HEAD = "step,chassis,CPU serials,paste,torque nm,done on,technician,result\n"


def taken(text: str, kept: dict[str, pd.DataFrame] | None = None) -> Imported:
    path = Path("build.csv")
    table = fields(read(text.encode(), path, "assembly"), "assembly")
    return read_assembly(table, STEPS, DELIVERED, date(2026, 11, 20), kept)


def ids(result: Imported, severity: str = "error") -> list[str]:
    return [f.id for f in result.findings if f.severity == severity]


def test_a_complete_build_report_becomes_one_form_per_step() -> None:
    result = taken(HEAD + "S013,CH1,A B,TF8,1.6,2026-11-02,Kim,OK\nS013,CH2,C D,TF8,1.7,2026-11-03,Kim,pass\n")
    assert not result.refused
    form = yaml.safe_load(result.files["imports/assembly/S013.form.yaml"])
    assert form["item"] == "S013.attested"
    assert form["subjects"] == ["gpu001", "gpu002"]
    assert form["date"] == date(2026, 11, 3)
    assert form["paste"] == "TF8"
    assert form["torque_nm"] == "per S013.csv, column torque nm"
    assert form["attachments"] == ["S013.csv"]
    assert form["name"] is None  # nobody has signed


def test_a_second_lot_leaves_the_records_and_the_subjects_of_the_first() -> None:
    first = taken(HEAD + "S013,CH1,A B,TF8,1.6,2026-11-02,Kim,OK\n")
    kept = {"S013": stored.parse(first.files["imports/assembly/S013.csv"], Path("S013.csv"))}
    head = HEAD.replace("torque nm", "Torque (Nm)")  # another spelling of one column
    second = taken(head + "S013,CH2,C D,TF8,1.7,2026-11-03,Kim,OK\n", kept)
    assert not second.refused, second.findings
    table = stored.parse(second.files["imports/assembly/S013.csv"], Path("S013.csv"))
    assert table[["device", "Torque (Nm)"]].to_numpy().tolist() == [["gpu001", "1.6"], ["gpu002", "1.7"]]
    form = yaml.safe_load(second.files["imports/assembly/S013.form.yaml"])
    assert form["subjects"] == ["gpu001", "gpu002"]
    assert "IMPORT-KEPT" in ids(second, "info")
    again = taken(HEAD + "S013,CH1,A B,TF8,1.9,2026-11-04,Kim,OK\n", kept)
    assert again.files["imports/assembly/S013.csv"].count("gpu001") == 1


def test_a_failed_inspection_has_a_form_of_its_own() -> None:
    result = taken(HEAD + "S013,CH1,A B,TF8,1.6,2026-11-02,Kim,OK\nS013,CH2,C D,TF8,1.7,2026-11-03,Kim,RMA\n")
    assert yaml.safe_load(result.files["imports/assembly/S013.failed.form.yaml"])["subjects"] == ["gpu002"]
    assert yaml.safe_load(result.files["imports/assembly/S013.form.yaml"])["subjects"] == ["gpu001"]


@pytest.mark.parametrize(
    ("row", "finding"),
    [
        ("S013,CH9,A B,TF8,1.6,2026-11-02,Kim,OK", "IMPORT-SERIAL-UNKNOWN"),
        ("S013,CH1,,TF8,1.6,2026-11-02,Kim,OK", "IMPORT-RECORD-LACKS"),
        ("S013,CH1,A B,TF8,1.6,2026-12-02,Kim,OK", "IMPORT-DATE"),
        ("S013,CH1,A B,TF8,1.6,02/11/26,Kim,OK", "IMPORT-DATE"),
        ("S013,CH1,A B,TF8,1.6,2026-11-02,Kim,maybe", "IMPORT-OUTCOME"),
        ("S013,,A B,TF8,1.6,2026-11-02,Kim,OK", "IMPORT-NO-DEVICE"),
        ("S999,CH1,A B,TF8,1.6,2026-11-02,Kim,OK", "IMPORT-STEP-UNKNOWN"),
        ("S013,CH1,A B,TF8,1.6,2026-11-02,Kim,OK\nS013,CH1,A B,TF8,1.6,2026-11-02,Kim,OK", "IMPORT-RECORD-TWICE"),
    ],
)
def test_records_that_do_not_fit_are_refused(row: str, finding: str) -> None:
    assert finding in ids(taken(HEAD + row + "\n"))


def test_servers_and_gpus_without_a_record_are_named() -> None:
    text = "step,serial,slot,checklist,photos,disposition,date,outcome\nS005,G1,1,seal,p1,accept,2026-11-02,ok\n"
    result = taken(text)
    assert not result.refused
    messages = [f.message for f in result.findings if f.id == "IMPORT-RECORD-MISSING"]
    assert "gpu002" in messages[0]
    assert "G2" in messages[1]


def test_a_gpu_in_another_slot_than_listed_is_refused() -> None:
    text = "step,serial,slot,checklist,photos,disposition,date,outcome\nS005,G1,2,seal,p1,accept,2026-11-02,ok\n"
    result = taken(text)
    assert ids(result) == ["IMPORT-SERIAL-PLACE"]
    assert names(next(f for f in result.findings if f.severity == "error"), "G1", "gpu001 slot 2", "gpu001 slot 1")


def test_a_gpu_in_no_list_of_the_site_is_refused() -> None:
    text = "step,serial,slot,checklist,photos,disposition,date,outcome\nS005,G9,2,seal,p1,accept,2026-11-02,ok\n"
    unknown = [f for f in taken(text).findings if f.id == "IMPORT-SERIAL-UNKNOWN"]
    assert len(unknown) == 1
    assert names(unknown[0], "G9")


def test_more_connectors_than_the_card_has_is_err_07() -> None:
    result = taken("step,device,connector count,latch check,date,outcome\nS027,gpu001,3,yes,2026-11-02,ok\n")
    wrong = [f for f in result.findings if f.severity == "error"]
    assert [f.err for f in wrong] == ["ERR-07"]
    assert names(wrong[0], 3, 1)


def test_steps_that_do_not_apply_get_no_form() -> None:
    result = taken("step,device,bracket,date,outcome\nS028,gpu001,B7,2026-11-02,ok\n")
    assert "IMPORT-STEP-NOT-APPLICABLE" in ids(result, "warning")
    assert list(result.files) == ["imports/assembly/S028.csv"]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.text(max_size=10), min_size=8, max_size=8), max_size=5))
def test_any_cells_give_findings_or_a_fault(rows: list[list[str]]) -> None:
    try:
        taken(HEAD + "\n".join("S013," + ",".join(row) for row in rows) + "\n")
    except ImportFault:
        return
