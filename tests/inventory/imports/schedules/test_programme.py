"""Programmes of Primavera and Microsoft Project."""

import datetime
import difflib
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.imports.core.source import ImportFault, parse_xml
from inventory.imports.schedules.programme import Programme, read_programme
from inventory.imports.schedules.proposal import imported, propose, text_of
from inventory.site import find_site, parse_site
from tests.findings import names

DATA = Path(__file__).parents[3] / "data" / "imports"
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
    proposal = propose(programme("programme.xer"), PATH)
    activities = yaml.safe_load(text_of(proposal))["activities"]
    assert activities["d04-rack-and-cable"] | {"source": ""} == {
        "group": "D04",
        "min_weeks": 2.0,
        "max_weeks": 2.0,
        "source": "",
        "start_date": datetime.date(2026, 5, 11),
        "links": [{"activity": "d01-order-switchgear", "type": "FS", "lag_working_days": 5.0}],
    }
    assert [f.id for f in proposal.findings] == ["IMPORT-ONE-DURATION"]


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


SHIFT = "(0||0(s|08:00|f|12:00)())(0||1(s|13:00|f|17:00)())"
WORKED = "".join(f"(0||{day}()({SHIFT}))" for day in range(2, 7))
HALL = (
    f"(0||CalendarData()(\x7f  (0||DaysOfWeek()((0||1()()){WORKED}(0||7()())))\x7f(0||VIEW(ShowTotal|N)())"
    "(0||Exceptions()((0||0(d|46146)())(0||1(d|46151)((0||0(s|08:00|f|12:00)())))))))"
)
"""Monday to Friday, eight hours; Monday 2026-05-04 off, Saturday 2026-05-09 worked until noon."""


def network(links: list[str], tasks: list[str], calendar: str = HALL, options: list[str] | None = None) -> Programme:
    """An XER file with one calendar; tasks as id, code and name, type, status and hours, links as successor, predecessor, type
    and hours of lag.
    """
    head = [
        "ERMHDR\t21.12",
        "%T\tCALENDAR",
        "%F\tclndr_id\tclndr_name\tday_hr_cnt\tweek_hr_cnt\tclndr_data",
        f"%R\t1\tHall\t8\t40\t{calendar}",
        *(options or []),
        "%T\tTASK",
        ("%F\ttask_id\ttask_code\ttask_name\ttask_type\tstatus_code\ttarget_drtn_hr_cnt\ttarget_start_date\tclndr_id"),
    ]
    rows = ["%R\t" + task.replace(",", "\t") + "\t2026-05-01 08:00\t1" for task in tasks]
    ties = ["%T\tTASKPRED", "%F\ttask_id\tpred_task_id\tpred_type\tlag_hr_cnt"]
    ties += ["%R\t" + link.replace(",", "\t") for link in links]
    return read_programme("\r\n".join([*head, *rows, *ties, "%E", ""]).encode(), PATH)


TWO = ["1,A,D04 a,TT_Task,TK_NotStart,40", "2,B,D04 b,TT_Task,TK_NotStart,40"]


@pytest.mark.parametrize(
    ("link", "tie"),
    [
        ("2,1,PR_SS,40", {"type": "SS", "lag_working_days": 5.0}),
        ("2,1,PR_FF,-16", {"type": "FF", "lag_working_days": -2.0}),
        ("2,1,PR_SF,8", {"type": "SF", "lag_working_days": 1.0}),
        ("2,1,PR_FS,400", {"type": "FS", "lag_working_days": 50.0}),
    ],
)
def test_every_type_of_link_and_every_lag_is_in_the_proposal(link: str, tie: dict[str, object]) -> None:
    proposal = propose(network([link], TWO), PATH)
    assert proposal.activities["d04-b"]["links"] == [{"activity": "d04-a", **tie}]


def test_lags_around_the_clock_are_calendar_days_where_the_file_says_so() -> None:
    options = ["%T\tSCHEDOPTIONS", "%F\tsched_calendar_on_relationship_lag", "%R\trcal_24Hour"]
    proposal = propose(network(["2,1,PR_FS,48"], TWO, options=options), PATH)
    assert proposal.activities["d04-b"]["links"] == [{"activity": "d04-a", "type": "FS", "lag_days": 2.0}]


def test_links_through_milestones_are_kept_with_both_lags() -> None:
    tasks = [*TWO, "3,M,Power on,TT_FinMile,TK_NotStart,0", "4,N,Ready,TT_Mile,TK_NotStart,0"]
    links = ["3,1,PR_SS,16", "4,3,PR_FS,8", "2,4,PR_FF,24"]
    proposal = propose(network(links, tasks), PATH)
    assert proposal.activities["d04-b"]["links"] == [{"activity": "d04-a", "type": "SF", "lag_working_days": 6.0}]
    assert "IMPORT-LINK-DROPPED" not in {f.id for f in proposal.findings}


def test_a_milestone_of_a_group_is_an_activity_without_duration() -> None:
    tasks = [*TWO, "3,M,D03 room ready,TT_FinMile,TK_NotStart,0"]
    entry = propose(network(["2,3,PR_FS,0"], tasks), PATH).activities
    assert (entry["d03-room-ready"]["max_weeks"], entry["d04-b"]["after"]) == (0.0, ["d03-room-ready"])


def test_links_that_the_proposal_cannot_have_are_named() -> None:
    tasks = [*TWO, "3,C,no group,TT_Task,TK_NotStart,40", "4,D,done,TT_Task,TK_Complete,40"]
    found = {f.id: f for f in propose(network(["2,3,PR_SS,8", "2,4,PR_FS,0"], tasks), PATH).findings}
    assert found["IMPORT-LINK-DROPPED"].numbers == {"links": 1}
    assert names(found["IMPORT-LINK-DROPPED"], "C", "SS", "B")


def test_days_of_the_week_and_exceptions_of_xer_are_the_calendar_of_the_site() -> None:
    proposal = propose(network([], TWO), PATH)
    assert proposal.calendar is not None
    assert proposal.calendar | {"source": ""} == {
        "working_days": ["mon", "tue", "wed", "thu", "fri"],
        "holidays": [datetime.date(2026, 5, 4)],
        "worked": [datetime.date(2026, 5, 9)],
        "source": "",
    }


def test_days_of_a_task_are_those_of_its_calendar_with_exceptions() -> None:
    # 40 h from Friday 1 May: 8 on the Friday, Monday off, 24 until Thursday, 8 on Friday the 8th: eight days, 1 to 8 May.
    table = network([], TWO).activities.set_index("code")
    assert table.loc["A", "calendar_days"] == "8"


def test_a_calendar_that_is_not_understood_is_named() -> None:
    assert "IMPORT-CALENDAR-UNREAD" in {f.id for f in network([], TWO, "(0||CalendarData()())").findings}


def test_half_days_are_named_as_a_loss() -> None:
    # the Friday until noon; of the exceptions a Saturday worked until noon
    short = HALL.replace(f"(0||6()({SHIFT}))", "(0||6()((0||0(s|08:00|f|12:00)())))")
    found = {f.id: f for f in propose(network([], TWO, short), PATH).findings}["IMPORT-CALENDAR-HOURS"]
    assert found.severity == "warning"
    assert found.numbers == {"days": 2}
    assert names(found, "fri", "4 h", 8, "2026-05-09")


def test_fields_and_notes_that_a_planner_made_are_columns_of_their_own() -> None:
    options = [
        "%T\tUDFTYPE",
        "%F\tudf_type_id\ttable_name\tudf_type_label",
        "%R\t1\tTASK\tForeman",
        "%R\t2\tTASK\tcode",
        "%R\t3\tPROJWBS\tArea",
        "%T\tUDFVALUE",
        "%F\tudf_type_id\tfk_id\tudf_text\tudf_number",
        "%R\t1\t1\tMs Gray\t",
        "%R\t2\t2\t\t7.5",
        "%R\t3\t1\thall\t",
        "%T\tMEMOTYPE",
        "%F\tmemo_type_id\tmemo_type",
        "%R\t1\tAccess",
        "%T\tTASKMEMO",
        "%F\ttask_id\tmemo_type_id\ttask_memo",
        "%R\t2\t1\t<HTML><BODY>gate 3 &amp; 4<BR>by day</BODY></HTML>",
    ]
    read = network([], TWO, options=options)
    table = read.activities.set_index("code")
    assert table.loc["A", "Foreman"] == "Ms Gray"
    assert table.loc["B", "code (user field)"] == "7.5"
    assert table.loc["B", "Access"] == "gate 3 & 4\nby day"
    assert "Foreman" in next(f.message for f in read.findings if f.id == "IMPORT-UNKNOWN-COLUMN")


def test_custom_fields_of_microsoft_project_are_columns_of_their_own() -> None:
    text = (
        MSPDI.format(week=WEEK, exceptions="")
        .replace(
            "<Calendars>",
            (
                "<ExtendedAttributes><ExtendedAttribute><FieldID>188743731</FieldID><FieldName>Text1</FieldName><Alias>Foreman</Alias>"
                "</ExtendedAttribute></ExtendedAttributes><Calendars>"
            ),
        )
        .replace(
            "<Duration>",
            ("<ExtendedAttribute><FieldID>188743731</FieldID><Value>Ms Gray</Value></ExtendedAttribute><Duration>"),
        )
    )
    read = read_programme(text.encode(), PATH)
    assert read.activities["Foreman"].tolist() == ["Ms Gray"]
    assert "IMPORT-UNKNOWN-ELEMENT" not in {f.id for f in read.findings}


def test_a_secret_in_a_field_of_a_planner_is_refused_and_not_shown() -> None:
    options = [
        "%T\tUDFTYPE",
        "%F\tudf_type_id\ttable_name\tudf_type_label",
        "%R\t1\tTASK\tBMC password",
        "%T\tUDFVALUE",
        "%F\tudf_type_id\tfk_id\tudf_text",
        "%R\t1\t2\thunter2",
    ]
    read = network([], TWO, options=options)
    assert [(f.id, f.subject) for f in read.findings if f.severity == "error"] == [("IMPORT-SECRET", "B")]
    assert "hunter2" not in read.activities.to_csv()


def test_a_line_separator_within_a_name_ends_no_row() -> None:
    assert xer("%R\t1\tA\ta\u2028b\x85c").activities["name"].tolist() == ["a\u2028b\x85c"]


MSPDI = """<Project xmlns="http://schemas.microsoft.com/project"><CalendarUID>1</CalendarUID><Calendars><Calendar><UID>1</UID>
<Name>Hall</Name><WeekDays>{week}</WeekDays><Exceptions>{exceptions}</Exceptions></Calendar></Calendars><Tasks><Task><UID>1</UID>
<Name>D04 a</Name><Start>2026-05-01T08:00:00</Start><Duration>PT40H0M0S</Duration></Task></Tasks></Project>"""
WEEK = "".join(
    f"<WeekDay><DayType>{day}</DayType><DayWorking>{int(day in range(2, 7))}</DayWorking></WeekDay>"
    for day in range(1, 8)
)
OFF = "<Exception><Name>{name}</Name><TimePeriod><FromDate>{first}T00:00:00</FromDate><ToDate>{last}T23:59:00</ToDate></TimePeriod>"


def mspdi(*exceptions: str) -> Programme:
    return read_programme(MSPDI.format(week=WEEK, exceptions="".join(exceptions)).encode(), Path("x.xml"))


def test_exceptions_of_microsoft_project_are_days_off() -> None:
    shut = OFF.format(name="Shutdown", first="2026-05-04", last="2026-05-05")
    yearly = OFF.format(name="New year", first="2026-01-01", last="2028-12-31")
    read = mspdi(
        f"{shut}<Type>1</Type><DayWorking>0</DayWorking></Exception>",
        f"{yearly}<Type>2</Type><Month>0</Month><MonthDay>1</MonthDay><DayWorking>0</DayWorking></Exception>",
    )
    calendar = propose(read, PATH).calendar
    assert calendar is not None
    assert list(map(str, calendar["holidays"])) == ["2026-05-04", "2026-05-05", "2027-01-01"]
    # 1 January 2028 is a Saturday. Friday 8 h, Monday and Tuesday off, three days of 8 h, and the Monday after: 1 to 11 May.
    assert read.activities["calendar_days"].tolist() == ["11"]


def test_an_exception_that_repeats_in_another_way_is_named() -> None:
    first = OFF.format(name="Every other Friday", first="2026-01-01", last="2028-12-31")
    found = mspdi(f"{first}<Type>6</Type><DayWorking>0</DayWorking></Exception>").findings
    unread = next(f for f in found if f.id == "IMPORT-CALENDAR-UNREAD")
    assert names(unread, "Every other Friday")


Tied = tuple[str, str, str, float]


def earliest(weeks: dict[str, float], ties: list[Tied]) -> dict[str, float]:
    """The oracle: early starts in working days, by relaxing every tie until nothing moves."""
    start = dict.fromkeys(weeks, 0.0)
    for _ in weeks:
        for before, after, kind, lag in ties:
            moment = start[before] + (5 * weeks[before] if kind[0] == "F" else 0) + lag
            start[after] = max(start[after], moment - (5 * weeks[after] if kind[1] == "F" else 0))
    return start


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=8),
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from(["FS", "SS", "FF", "SF"]), st.integers(0, 9)),
        max_size=14,
    ),
)
def test_taking_milestones_out_moves_no_activity(weeks: list[int], drawn: list[tuple[int, int, str, int]]) -> None:
    size, weeks = len(weeks), [1, *weeks[1:]]
    ties = [(f"t{a}", f"t{b}", kind, float(lag)) for a, b, kind, lag in drawn if a < b < size]
    open_ends = [n for n, w in enumerate(weeks) if not w and not any(b == f"t{n}" for _, b, _, _ in ties)]
    ties += [("t0", f"t{n}", "SS", 2.0) for n in open_ends]
    tasks = [
        f"{n},T{n},{f'D04 t{n}' if w else f'moment {n}'},{'TT_Task' if w else 'TT_Mile'},TK_NotStart,{40 * w}"
        for n, w in enumerate(weeks)
    ]
    links = [f"{b[1:]},{a[1:]},PR_{kind},{8 * lag}" for a, b, kind, lag in ties]
    entries = propose(network(links, tasks), PATH).activities
    durations = {f"t{n}": float(w) for n, w in enumerate(weeks)}
    kept = {name.removeprefix("d04-"): entry["max_weeks"] for name, entry in entries.items()}
    made: list[Tied] = []
    for name, entry in entries.items():
        here = name.removeprefix("d04-")
        made += [(before.removeprefix("d04-"), here, "FS", 0.0) for before in entry.get("after", ())]
        made += [
            (link["activity"].removeprefix("d04-"), here, link["type"], link.get("lag_working_days", 0.0))
            for link in entry.get("links", ())
        ]
    whole = earliest(durations, ties)
    assert earliest(kept, made) == {name: whole[name] for name in kept}


def test_a_lag_behind_a_milestone_that_waits_for_nothing_is_named() -> None:
    tasks = [*TWO, "3,M,Notice to proceed,TT_Mile,TK_NotStart,0"]
    found = {f.id: f.message for f in propose(network(["2,3,PR_FS,40"], tasks), PATH).findings}
    assert "M FS B" in found["IMPORT-LINK-DROPPED"]


SITES = {name: find_site(name).read_text() for name in ("lab", "h100-1000-ib")}


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_the_site_file_gets_the_activities_and_keeps_every_other_byte(name: str, line_end: str) -> None:
    before = "\ufeff" + SITES[name].replace("\n", line_end)
    tasks = ["1,A,D03 power,TT_Task,TK_NotStart,40", "2,B,D04 rack them,TT_Task,TK_NotStart,40"]
    result = imported(network(["2,1,PR_SS,40"], tasks), "imports/x", PATH, before, "site.yaml", over=False)
    after = result.files["site.yaml"]
    lines = [line for line in difflib.ndiff(before.split(line_end), after.split(line_end)) if line[0] in "+-"]
    # the lab has its schedule in one line, which is the only one that changes
    assert [line for line in lines if line.startswith("- ")] == ([f"- {LAB_LINE}"] if name == "lab" else [])
    site = parse_site(after.removeprefix("\ufeff"))
    assert site.schedule.activities["d04-rack-them"].links[0].lag_working_days == 5
    assert site.schedule.calendar is not None
    again = imported(network(["2,1,PR_SS,40"], tasks), "imports/x", PATH, after, "site.yaml", over=False)
    assert "site.yaml" not in again.files


LAB_LINE = next(line for line in SITES["lab"].split("\n") if line.startswith("schedule:"))


def test_activities_of_the_same_name_are_replaced_only_when_asked() -> None:
    tasks = ["1,A,racking 1 (D04),TT_Task,TK_NotStart,400"]
    read = network([], tasks)
    text = SITES["h100-1000-ib"].replace("racking-1:", "racking-1-d04:").replace("racking-1]", "racking-1-d04]")
    text = text.replace("racking-1,", "racking-1-d04,")
    kept = imported(read, "imports/x", PATH, text, "site.yaml", over=False)
    assert "site.yaml" not in kept.files
    assert "IMPORT-KEPT" in {f.id for f in kept.findings}
    site = parse_site(imported(read, "imports/x", PATH, text, "site.yaml", over=True).files["site.yaml"])
    assert site.schedule.activities["racking-1-d04"].max_weeks == 10


def test_a_site_file_that_would_be_refused_stays_as_it_is() -> None:
    tasks = ["1,A,D09 burn,TT_Task,TK_NotStart,40", "2,B,D04 rack,TT_Task,TK_NotStart,40"]
    result = imported(network(["2,1,PR_FS,0"], tasks), "imports/x", PATH, SITES["lab"], "site.yaml", over=False)
    assert "site.yaml" not in result.files
    assert (
        "activities that wait for each other" in next(f for f in result.findings if f.id == "IMPORT-SITE-FILE").message
    )


SAMPLES = [(DATA / name).read_bytes() for name in ("programme.xer", "programme.xml")]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SAMPLES), st.integers(0, 4000), st.binary(max_size=30), st.integers(0, 60))
def test_a_damaged_file_gives_findings_or_a_fault(sample: bytes, at: int, noise: bytes, gone: int) -> None:
    try:
        propose(read_programme(sample[:at] + noise + sample[at + gone :], PATH), PATH)
    except ImportFault:
        return


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: f"ERMHDR\n{t}".encode()))
def test_any_bytes_give_findings_or_a_fault(data: bytes) -> None:
    try:
        read_programme(data, PATH)
    except ImportFault:
        return


SHAPES = {
    "empty": """schedule:
  need_date: 2027-12-01
  greenfield: false
  activities: {}   # none yet
""",
    "flow": """schedule:
  need_date: 2027-12-01
  activities: {old: {group: D13, min_weeks: 1, max_weeks: 2, source: me}}
  greenfield: false
""",
    "block": """schedule:
    need_date: 2027-12-01
    activities:
        old:   # mine
            group: D13
            min_weeks: 1
            max_weeks: 2
            source: |
                two
                lines

    # the end
    greenfield: false
""",
    "behind a comment": """schedule:
  greenfield: false   # no
  need_date: 2027-12-01 # soon
# nothing here
""",
    "spread": """schedule: {need_date: 2027-12-01,
  greenfield: false,  # an old building
  }
""",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("last", [False, True])
def test_every_notation_of_the_schedule_gets_the_activities_and_nothing_else(shape: str, last: bool) -> None:
    rest = SITES["lab"].replace(LAB_LINE + "\n", "")
    before = rest + SHAPES[shape].rstrip("\n") if last else SHAPES[shape] + rest
    tasks = ["1,A,D04 rack: all of it,TT_Task,TK_NotStart,40", "2,B,D05 management,TT_Task,TK_NotStart,40"]
    result = imported(network([], tasks), "imports/x", PATH, before, "site.yaml", over=False)
    after = result.files["site.yaml"]
    assert {"d04-rack-all-of-it", "d05-management"} <= set(parse_site(after).schedule.activities)
    added, at = "", 0
    for letter in after:  # every byte of the old text is still there, in its order
        if at < len(before) and letter == before[at]:
            at += 1
        else:
            added += letter
    assert at == len(before)


def test_a_task_of_a_group_whose_duration_cannot_be_read_is_named() -> None:
    data = (DATA / "programme.xer").read_bytes()
    named = propose(read_programme(data, DATA / "programme.xer"), DATA / "programme.xer")
    name = next(iter(named.activities))
    code = named.activities[name]["source"].partition(", ")[2].split(" ")[0].encode()
    fields = next(line for line in data.splitlines() if line.startswith(b"%F") and b"target_drtn_hr_cnt" in line).split(
        b"\t"
    )
    lines = data.splitlines(keepends=True)
    row = next(n for n, line in enumerate(lines) if line.startswith(b"%R") and code in line.split(b"\t"))
    cells = lines[row].split(b"\t")
    for column in (b"target_drtn_hr_cnt", b"remain_drtn_hr_cnt"):
        cells[fields.index(column)] = b"abc"
    lines[row] = b"\t".join(cells)
    result = propose(read_programme(b"".join(lines), DATA / "programme.xer"), DATA / "programme.xer")
    assert name not in result.activities
    assert "IMPORT-DURATION" in [f.id for f in result.findings]
