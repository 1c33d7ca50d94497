"""Programmes of Primavera and Microsoft Project."""

import datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.imports.programme import Programme, proposal, read_programme
from inventory.imports.source import ImportFault, parse_xml

DATA = Path(__file__).parents[2] / "data" / "imports"
PATH = Path("x.xer")


def programme(name: str) -> Programme:
    return read_programme((DATA / name).read_bytes(), DATA / name)


def error_ids(result: Programme) -> list[str]:
    return [f.id for f in result.findings if f.severity == "error"]


def test_an_xer_file_of_windows_is_read_and_says_so() -> None:
    data = (DATA / "programme.xer").read_bytes().replace(b"A100", b"A\xe4\x81")
    result = read_programme(data, PATH)
    assert "A\u00e4?" in result.activities["code"].tolist()
    assert "read as cp1252" in {f.id: f.message for f in result.findings}["IMPORT-ENCODING"]


def test_an_encoding_that_does_not_exist_is_not_replaced_by_another() -> None:
    with pytest.raises(ImportFault, match="there is no encoding 'cp125'"):
        read_programme((DATA / "programme.xer").read_bytes(), PATH, "cp125")


def test_an_empty_programme_is_refused_as_every_file_is() -> None:
    with pytest.raises(ImportFault, match="the file is empty"):
        read_programme(b"", PATH)


@pytest.mark.parametrize("name", ["programme.xer", "programme.xml"])
def test_both_formats_give_the_same_activities(name: str) -> None:
    result = programme(name)
    table = result.activities.set_index("code")
    # 400 h in weeks of 40 h; 120 h in weeks of 60 h (six days of ten hours)
    assert list(table.loc["A100", ["kind", "duration_weeks", "start", "finish"]]) == [
        "task",
        "10",
        "2026-03-02",
        "2026-05-08",
    ]
    assert table.loc["A200", "constraint"] == "start on or after"
    assert table.loc["A200", "constraint_date"] == "2026-05-11"
    assert table.loc["A300", "kind"] == "milestone"
    assert table.loc["A200", "predecessors"] == "A100 FS +5d"
    assert table.loc["A300", "predecessors"] == "A200 FF"
    assert not error_ids(result)


def test_weeks_are_those_of_the_tasks_own_calendar() -> None:
    table = programme("programme.xer").activities.set_index("code")
    assert list(table.loc["A200", ["duration_weeks", "calendar"]]) == ["2", "Six days of ten hours"]


def test_columns_without_a_field_are_kept() -> None:
    assert "driving_path_flag" in programme("programme.xer").activities.columns


def test_a_task_that_names_its_group_becomes_an_activity_of_the_site() -> None:
    text, findings = proposal(programme("programme.xer"), PATH)
    activities = yaml.safe_load(text)["activities"]
    assert activities["d04-rack-and-cable"] | {"source": ""} == {
        "group": "D04", "min_weeks": 2.0, "max_weeks": 2.0, "source": "",
        "start_date": datetime.date(2026, 5, 11), "after": ["d01-order-switchgear"],
    }  # fmt: skip
    assert [f.id for f in findings] == ["IMPORT-ONE-DURATION"]


def xer(*lines: str) -> Programme:
    head = ["ERMHDR\t21.12", "%T\tTASK", "%F\ttask_id\ttask_code\ttask_name\ttarget_start_date\ttarget_end_date"]
    return read_programme("\r\n".join([*head, *lines, "%E", ""]).encode(), PATH)


def test_a_cycle_is_named_task_by_task() -> None:
    result = xer(
        "%R\t1\tA\ta",
        "%R\t2\tB\tb",
        "%T\tTASKPRED",
        "%F\ttask_id\tpred_task_id\tpred_type",
        "%R\t1\t2\tPR_FS",
        "%R\t2\t1\tPR_FS",
    )
    assert error_ids(result) == ["IMPORT-CYCLE"]
    assert "A -> B -> A" in " ".join(f.message for f in result.findings) or "B -> A -> B" in " ".join(
        f.message for f in result.findings
    )


@pytest.mark.parametrize(
    ("lines", "finding"),
    [
        (["%R\t1\tA\ta\t2026-05-01 08:00\t2026-04-01 08:00"], "IMPORT-ENDS-BEFORE-START"),
        (["%R\t1\tA\ta", "%R\t1\tB\tb"], "IMPORT-TASK-TWICE"),
        (["%R\t1\tA\ta\tsoon"], "IMPORT-DATE"),
        (["%R\t1\tA\ta", "%T\tTASKPRED", "%F\ttask_id\tpred_task_id", "%R\t1\t77"], "IMPORT-LINK-LOST"),
    ],
)
def test_impossible_programmes_are_findings(lines: list[str], finding: str) -> None:
    assert finding in [f.id for f in xer(*lines).findings]


def test_a_file_without_its_end_mark_was_cut_short() -> None:
    result = read_programme(b"ERMHDR\n%T\tTASK\n%F\ttask_id\n%R\t1\n", PATH)
    assert error_ids(result) == ["IMPORT-CUT-SHORT"]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"ERMHDR\n%R\t1\n", "before its table"),
        (b"ERMHDR\n%T\tTASK\n%F\ttask_id\n%R\t1\t2\n", "2 cells in a row of TASK"),
        (b"ERMHDR\n%T\tPROJECT\n%E\n", "no table TASK"),
        (b"ERMHDR\nhello\n", "begins with 'hello'"),
        (b"MPXJ", "neither an XER"),
        (b"<a/>", "root element is a"),
        (b"<Project/>", "no tasks"),
        (b"<Project><Tasks>", "not well-formed"),
    ],
)
def test_malformed_files_say_where_and_what_to_do(data: bytes, what: str) -> None:
    with pytest.raises(ImportFault, match=what):
        read_programme(data, PATH)


def test_entities_are_refused_before_they_expand() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><Project>&b;</Project>'
    with pytest.raises(ImportFault, match="document type"):
        parse_xml(bomb, PATH)
    with pytest.raises(ImportFault, match="document type"):
        parse_xml(b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', PATH)


def test_nesting_is_bounded() -> None:
    with pytest.raises(ImportFault, match="more than 64 levels"):
        parse_xml(b"<a>" * 100, PATH)


SAMPLES = [(DATA / name).read_bytes() for name in ("programme.xer", "programme.xml")]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SAMPLES), st.integers(0, 4000), st.binary(max_size=30), st.integers(0, 60))
def test_a_damaged_file_gives_findings_or_a_fault(sample: bytes, at: int, noise: bytes, gone: int) -> None:
    try:
        read_programme(sample[:at] + noise + sample[at + gone :], PATH)
    except ImportFault:
        return


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: f"ERMHDR\n{t}".encode()))
def test_any_bytes_give_findings_or_a_fault(data: bytes) -> None:
    try:
        read_programme(data, PATH)
    except ImportFault:
        return
