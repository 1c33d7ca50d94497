"""Programmes for schedulers: what is exported comes back as it was."""

import copy
import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from capacity.outputs.programme_export import network_of
from capacity.procurement.programme import build
from inventory.catalog import load_catalog
from inventory.groups import GROUPS
from inventory.imports.core.result import Imported
from inventory.imports.core.tables import records
from inventory.imports.schedules.fields import plain_text
from inventory.imports.schedules.files import encoded, mspdi, xer
from inventory.imports.schedules.programme import Programme, read_programme
from inventory.imports.schedules.proposal import imported, propose
from inventory.imports.schedules.site_file import with_activities
from inventory.site import Site, find_site, parse_site, site_names
from inventory.yaml_data import LOADER
from tests.full_sites import full_text
from tests.seed import SEED

KINDS = ("xer", "mspdi")
TEXTS = {name: find_site(name).read_text() for name in site_names()}
H100 = TEXTS["h100-1000-ib"]
SAYS_NOTHING_LOST = {"IMPORT-UNKNOWN-COLUMN", "IMPORT-UNKNOWN-TABLE", "IMPORT-ENCODING"}


def sent(site: Site, kind: str) -> bytes:
    network = network_of(site, build(site, load_catalog()).activities)
    return encoded(xer(network)) if kind == "xer" else mspdi(network).encode()


def back(data: bytes, text: str, over: bool = True) -> tuple[Programme, Imported]:
    read = read_programme(data, Path("programme"))
    return read, imported(read, "imports/x", Path("programme"), text, "site.yaml", over)


LAB = yaml.load(full_text("lab"), Loader=LOADER)
WHOLE = yaml.load(full_text("h100-1000-ib"), Loader=LOADER)


def with_schedule(changes: dict[str, Any]) -> str:
    """The lab with the orders of another site, and a schedule of its own."""
    value = copy.deepcopy(
        {**LAB, "leadtimes": WHOLE["leadtimes"], "purchase": {"tranches": WHOLE["purchase"]["tranches"]}}
    )
    value["schedule"] |= {"start_date": datetime.date(2026, 11, 1), **changes}
    value["schedule"] = {key: said for key, said in value["schedule"].items() if said is not None}
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_exported_changes_nothing_when_it_is_imported(name: str, kind: str) -> None:
    site = parse_site(TEXTS[name])
    read, result = back(sent(site, kind), TEXTS[name])
    assert "site.yaml" not in result.files
    assert {f.id for f in result.findings} <= SAYS_NOTHING_LOST
    assert set(propose(read, Path("x")).activities) == set(site.schedule.activities)


@pytest.mark.parametrize("kind", KINDS)
def test_dates_are_those_of_the_plan_and_work_ends_on_the_evening_before(kind: str) -> None:
    site = parse_site(H100)
    frame = build(site, load_catalog()).activities
    plan = {row["activity"]: row for row in records(frame)}
    table = {row["Bringup name"]: row for row in records(back(sent(site, kind), H100)[0].activities)}
    assert table["racking-1"]["start"] == plan["racking-1"]["start"]
    # racking-1 is done at midnight: the plan says the day that begins, a scheduler the working day that ends
    done = datetime.date.fromisoformat(plan["racking-1"]["finish"])
    assert table["racking-1"]["finish"] == str(np.busday_offset(done, -1, roll="forward"))
    assert table["gpu t1"]["Bringup latest safe start"][:10] == plan["gpu t1"]["safe_start"]
    assert table["go-live"]["Bringup needed by"][:10] == "2029-04-01"


TIES = [
    {"activity": "racking-1", "type": "SS", "lag_working_days": 7},
    {"activity": "racking-1", "type": "FF", "lag_days": 3.5},
    {"activity": "racking-1", "type": "SF", "lag_days": -4, "lag_working_days": 30},
    {"activity": "gpu", "lag_working_days": 4},
    {"activity": "racking-1", "type": "SS", "lag_working_days": 9},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("continuous", [False, True])
def test_lags_of_both_kinds_come_back_between_tasks_of_both_calendars(kind: str, continuous: bool) -> None:
    activities = copy.deepcopy(WHOLE["schedule"]["activities"])
    activities["racking-2"] |= {"links": TIES, "continuous": continuous}
    activities["racking-1"]["continuous"] = not continuous
    text = with_schedule({"activities": activities, "calendar": WHOLE["schedule"]["calendar"]})
    read, result = back(sent(parse_site(text), kind), text)
    assert "site.yaml" not in result.files
    got = {tuple(sorted(link.items())) for link in propose(read, Path("x")).activities["racking-2"]["links"]}
    assert got == {tuple(sorted({"type": "FS", **tie}.items())) for tie in TIES}
    assert not read.links.duplicated(
        ["predecessor", "successor"] if kind == "mspdi" else ["predecessor", "successor", "type"]
    ).any()


NAMES = ["prep-d05", "fit_out", "a" * 60, "a" * 60 + "b", "x1", "x2", "x3"]
WEEKS = st.one_of(st.sampled_from([0.0, 0.5, 1.0, 1 / 3]), st.floats(0, 100, allow_subnormal=False))
DATES = st.dates(datetime.date(2026, 1, 1), datetime.date(2032, 1, 1))
SOURCES = st.text(
    st.sampled_from("\t\n<&>\"'\u2028\x85ü–€Ã¼中;|()") | st.characters(codec="utf-8", exclude_categories=["Cs"]),
    min_size=1,
    max_size=40,
).filter(lambda text: bool(plain_text(text).strip()))
DAY_NAMES = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


@st.composite
def schedules(draw: st.DrawFn) -> dict[str, Any]:
    """Activities in the order of their groups, each tied to earlier ones and to orders, with or without a calendar."""
    groups = sorted(draw(st.lists(st.sampled_from(list(GROUPS)[2:]), min_size=1, max_size=len(NAMES))))
    activities: dict[str, Any] = {}
    for name, group in zip(NAMES, groups, strict=False):
        low, likely, high = sorted(draw(st.tuples(WEEKS, WEEKS, WEEKS)))
        entry: dict[str, Any] = {"group": group, "min_weeks": low, "max_weeks": high, "source": draw(SOURCES)}
        entry |= draw(st.sampled_from([{}, {"likely_weeks": likely}]))
        entry |= draw(st.sampled_from([{}, {"continuous": True}, {"pilot": True}]))
        if group == "D04":
            entry |= draw(st.sampled_from([{}, {"needs_room": False}, {"tranche": "t1"}]))
        if draw(st.booleans()):
            entry["start_date"] = draw(DATES)
        before = st.sampled_from([*activities, "gpu", "switch", "facility"])
        entry["after"] = draw(st.lists(before, max_size=2, unique=True))
        lags = st.integers(-40, 400).map(lambda n: n / 8)
        entry["links"] = draw(
            st.lists(
                st.fixed_dictionaries(
                    {"activity": before, "type": st.sampled_from(["FS", "SS", "FF", "SF"])},
                    optional={"lag_days": lags, "lag_working_days": lags},
                ),
                max_size=4,
            )
        )
        activities[name] = entry
    calendar = st.fixed_dictionaries(
        {
            "working_days": st.lists(st.sampled_from(DAY_NAMES), min_size=1, unique=True),
            "holidays": st.lists(DATES, max_size=5),
            "worked": st.lists(DATES, max_size=5),
            "source": st.just("site"),
        }
    )
    return {"activities": activities, "calendar": draw(st.none() | calendar), "greenfield": draw(st.booleans())}


def test_work_of_less_than_an_hour_does_not_end_before_it_starts() -> None:
    """Two starts on Thursday in a week of Mondays: the evening before the next midnight is that of an earlier Monday."""
    one = {"group": "D02", "min_weeks": 0.0, "max_weeks": 0.0, "source": "site"}
    activities = {
        NAMES[0]: {**one, "start_date": datetime.date(2026, 1, 1)},
        NAMES[1]: {**one, "start_date": datetime.date(2026, 1, 1), "max_weeks": 1 / 3, "likely_weeks": 1e-9},
    }
    calendar = {"working_days": ["mon"], "holidays": [], "worked": [], "source": "site"}
    text = with_schedule({"activities": activities, "calendar": calendar, "greenfield": False})
    result = back(sent(parse_site(text), "xer"), text)[1]
    assert {f.id for f in result.findings} <= SAYS_NOTHING_LOST


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(), st.sampled_from(KINDS))
def test_any_schedule_comes_back_as_it_was(changes: dict[str, Any], kind: str) -> None:
    assert_comes_back(changes, kind)


@pytest.mark.soak
@settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@seed(SEED)
@given(schedules(), st.sampled_from(KINDS))
def test_any_other_schedule_comes_back_as_it_was(changes: dict[str, Any], kind: str) -> None:
    assert_comes_back(changes, kind)


def assert_comes_back(changes: dict[str, Any], kind: str) -> None:
    text = with_schedule(changes)
    read, result = back(sent(parse_site(text), kind), text)
    assert {f.id for f in result.findings} <= SAYS_NOTHING_LOST
    assert "site.yaml" not in result.files
    assert set(propose(read, Path("x")).activities) == set(changes["activities"])


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(), st.sampled_from(KINDS))
def test_a_site_without_a_schedule_gets_the_one_that_was_exported(changes: dict[str, Any], kind: str) -> None:
    text = with_schedule(changes)
    there = with_schedule({**changes, "activities": {}, "calendar": None})
    result = back(sent(parse_site(text), kind), there)[1]
    after = parse_site(result.files["site.yaml"])
    before = parse_site(text)
    start = {name: (a.group, a.min_weeks, a.max_weeks, a.start_date) for name, a in before.schedule.activities.items()}
    assert {
        name: (a.group, a.min_weeks, a.max_weeks, a.start_date) for name, a in after.schedule.activities.items()
    } == start
    columns = ["activity", "start", "finish", "p90_finish"]
    frames = [build(site, load_catalog()).activities[columns] for site in (before, after)]
    assert frames[0].sort_values("activity").to_dict("list") == frames[1].sort_values("activity").to_dict("list")


def changed(data: bytes, name: str, column: str, value: str) -> bytes:
    """An XER file with another value in a row of TASK."""
    lines = data.decode().split("\r\n")
    at = lines.index("%T\tTASK")
    column_at = lines[at + 1].split("\t").index(column)
    row = next(n for n in range(at, len(lines)) if lines[n].startswith("%R") and f"\t{name}\t" in lines[n])
    cells = lines[row].split("\t")
    cells[column_at] = value
    lines[row] = "\t".join(cells)
    return "\r\n".join(lines).encode()


def test_a_duration_that_a_planner_changed_is_the_likely_one_in_a_range_that_holds_it() -> None:
    data = changed(sent(parse_site(H100), "xer"), "racking-1", "target_drtn_hr_cnt", "320")
    result = back(data, H100)[1]
    activity = parse_site(result.files["site.yaml"]).schedule.activities["racking-1"]
    # 320 h are eight weeks of 40 h; the site had 2 to 5 weeks, of tranche t1
    assert (activity.min_weeks, activity.likely_weeks, activity.max_weeks, activity.tranche) == (2, 8, 8, "t1")
    assert [f.numbers for f in result.findings if f.id == "IMPORT-DURATION-CHANGED"] == [{"activities": 1}]


def test_a_changed_activity_of_a_reference_design_is_written_into_the_file() -> None:
    before = parse_site(H100)
    assert before.effective.origins["schedule", "activities", "node-stack", "after"].kind == "reference"
    data = changed(sent(before, "xer"), "node-stack", "target_drtn_hr_cnt", "320")
    result = back(data, H100)[1]
    assert H100.count("\n") + 1 == result.files["site.yaml"].count("\n")
    after = parse_site(result.files["site.yaml"]).schedule.activities
    assert (after["node-stack"].likely_weeks, after["node-stack"].after) == (8, ("pilot",))
    rest = {name: entry for name, entry in before.schedule.activities.items() if name != "node-stack"}
    assert {name: entry for name, entry in after.items() if name != "node-stack"} == rest


def test_a_tie_of_a_reference_design_that_the_programme_does_not_have_is_dropped() -> None:
    entry = {"group": "D06", "min_weeks": 1.0, "max_weeks": 2.0, "source": "ours"}
    edited = with_activities(H100, {"node-stack": entry}, None, over=True)
    activity = parse_site(edited.text).schedule.activities["node-stack"]
    assert (activity.after, activity.likely_weeks, activity.max_weeks) == ((), None, 2)


def test_another_name_of_a_task_is_the_same_activity() -> None:
    assert (
        "site.yaml"
        not in back(changed(sent(parse_site(H100), "xer"), "racking-1", "task_name", "Rack hall A"), H100)[1].files
    )


def test_an_order_of_another_duration_is_named_since_no_import_changes_lead_times() -> None:
    data = changed(sent(parse_site(H100), "xer"), "order transformer", "target_drtn_hr_cnt", "168")
    found = {f.id: f.message for f in back(data, H100)[1].findings}
    assert "transformer (1 weeks)" in found["IMPORT-ORDER-CHANGED"]


def test_a_lag_that_a_planner_put_behind_a_group_is_named() -> None:
    lines = sent(parse_site(H100), "xer").decode().split("\r\n")
    at = lines.index("%T\tTASKPRED")
    lines[at + 2] = lines[at + 2].rpartition("\t")[0] + "\t80"
    assert "IMPORT-LINK-DROPPED" in {f.id for f in back("\r\n".join(lines).encode(), H100)[1].findings}


def test_columns_of_the_planner_are_kept_and_reported() -> None:
    lines = sent(parse_site(H100), "xer").decode().split("\r\n")
    at = lines.index("%T\tUDFTYPE")
    lines.insert(at + 2, "%R\t99\tTASK\tuser_field_99\tShift foreman\tFT_TEXT\tN")
    at = lines.index("%T\tUDFVALUE")
    lines.insert(at + 2, "%R\t99\t5\t1\t\t\tMs Grün")
    read, result = back("\r\n".join(lines).encode(), H100)
    assert read.activities.set_index("id").loc["5", "Shift foreman"] == "Ms Grün"
    assert "Shift foreman" in next(f.message for f in result.findings if f.id == "IMPORT-UNKNOWN-COLUMN")
    assert "Shift foreman" in result.files["imports/x/activities.csv"]


@pytest.mark.parametrize("text", ["plain", "Grün – 5 €", "Ã¼", "中"])
def test_the_bytes_of_an_xer_file_are_read_as_the_text_that_was_written(text: str) -> None:
    data = encoded(f"ERMHDR\r\n%T\tTASK\r\n%F\ttask_id\ttask_name\r\n%R\t1\t{text}\r\n%E\r\n")
    assert read_programme(data, Path("x.xer")).activities["name"].tolist() == [text]


SEQUENCE = [
    "UID",
    "ID",
    "Name",
    "Type",
    "IsNull",
    "WBS",
    "OutlineNumber",
    "OutlineLevel",
    "Start",
    "Finish",
    "Duration",
    "DurationFormat",
    "EffortDriven",
    "Estimated",
    "Milestone",
    "Summary",
    "Critical",
    "EarlyStart",
    "EarlyFinish",
    "PercentComplete",
    "ActualStart",
    "ActualFinish",
    "ActualDuration",
    "RemainingDuration",
    "ConstraintType",
    "CalendarUID",
    "ConstraintDate",
    "Deadline",
    "Notes",
    "PredecessorLink",
    "ExtendedAttribute",
]
"""Elements of a task in the order of mspdi_pj12.xsd, without those that are not written."""


def test_elements_of_a_task_stand_in_the_order_of_the_schema() -> None:
    entry = {"group": "D04", "min_weeks": 1, "max_weeks": 2, "after": ["facility"], "source": "me"}
    entry["start_date"] = datetime.date(2028, 1, 1)
    text = with_schedule({"greenfield": False, "activities": {"a": entry}})
    root = ElementTree.fromstring(sent(parse_site(text), "mspdi"))
    seen = set()
    for task in root.iter("{http://schemas.microsoft.com/project}Task"):
        names = [child.tag.partition("}")[2] for child in task]
        assert names == sorted(names, key=SEQUENCE.index)
        seen |= set(names)
    assert seen == set(SEQUENCE)
