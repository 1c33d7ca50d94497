"""Programmes of schedulers: Primavera XER and Microsoft Project XML (MSPDI) as activities and links.

    programme = read_xer(text, path)      or  read_mspdi(data, path)
    programme.activities   one row per task: durations in weeks of its own calendar, dates, constraint
    programme.links        predecessor, successor, type (FS, SS, FF, SF) and lag in working or calendar days
    programme.calendars    the calendar of each task: days of the week and exceptions

`inventory.imports.schedules.proposal` makes `schedule.activities` of a site file of it.
XER is the tab-separated text that P6 exports
(%T table, %F fields, %R rows), MSPDI the XML of "save as XML".
"""

import dataclasses
import graphlib
import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from xml.etree.ElementTree import Element

import pandas as pd

from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import some
from inventory.imports.core.source import ImportFault, bounded, decode, number, parse_xml
from inventory.imports.core.tables import unknown_columns, without_secrets
from inventory.imports.schedules import fields as own
from inventory.imports.schedules.work_calendar import HOURS_PER_DAY, Calendar, of_mspdi, of_xer

FOLDER = "imports/programme"
COLUMNS = (
    "id",
    "code",
    "name",
    "wbs",
    "kind",
    "status",
    "duration_weeks",
    "remaining_weeks",
    "calendar_days",
    "start",
    "finish",
    "constraint",
    "constraint_date",
    "calendar",
    "predecessors",
)
"""Text columns; durations in weeks, dates as YYYY-MM-DD, '' for what the file does not say. `calendar_days`: from the start
until what remains is done, with the days off of the task's calendar."""
LINK_COLUMNS = ("predecessor", "successor", "type", "lag_days", "lag_unit", "lag_week_days")
"""`lag_unit`: working days, of a week of `lag_week_days` in the calendar that the file says, or calendar days."""

_XER_KINDS = {
    "TT_Task": "task",
    "TT_Rsrc": "task",
    "TT_Mile": "milestone",
    "TT_FinMile": "milestone",
    "TT_LOE": "level of effort",
    "TT_WBS": "summary",
}
_XER_STATUS = {"TK_NotStart": "not started", "TK_Active": "in progress", "TK_Complete": "complete"}
_XER_CONSTRAINTS = {
    "CS_MSO": "start on",
    "CS_MSOA": "start on or after",
    "CS_MSOB": "start on or before",
    "CS_MEO": "finish on",
    "CS_MEOA": "finish on or after",
    "CS_MEOB": "finish on or before",
    "CS_ALAP": "as late as possible",
    "CS_MANDSTART": "mandatory start",
    "CS_MANDFIN": "mandatory finish",
}
_XER_LINKS = {"PR_FS": "FS", "PR_SS": "SS", "PR_FF": "FF", "PR_SF": "SF"}
_MSPDI_CONSTRAINTS = {
    "0": "",
    "1": "as late as possible",
    "2": "start on",
    "3": "finish on",
    "4": "start on or after",
    "5": "start on or before",
    "6": "finish on or after",
    "7": "finish on or before",
}
_MSPDI_LINKS = {"0": "FF", "1": "FS", "2": "SF", "3": "SS"}
_ELAPSED = {"4", "6", "8", "10", "12", "20", "36", "38", "40", "42", "44", "52"}
"""DurationFormat and LagFormat values that count calendar time, 24 hours a day."""
_LAG_SIGNS = {"working": "d", "calendar": "ed"}
"""As Project writes them: d for working days, ed for elapsed ones."""
_AROUND_THE_CLOCK = Calendar("24 hours", 24, 168, (24.0,) * 7, stated=True)
_USED_ELEMENTS = {"Tasks", "Calendars", "ExtendedAttributes"}
_PERCENT = {"19", "20", "51", "52"}
_HARD = {"start on", "finish on", "mandatory start", "mandatory finish"}
_LAG_CALENDARS = {"rcal_successor": "successor", "rcal_24hour": "24 hours", "rcal_projdefault": "project"}
"""P6's calendar for the lag of a link; the predecessor's where a file says nothing else."""
_USED_TABLES = {
    "TASK",
    "TASKPRED",
    "CALENDAR",
    "PROJWBS",
    "PROJECT",
    "SCHEDOPTIONS",
    "UDFTYPE",
    "UDFVALUE",
    "MEMOTYPE",
    "TASKMEMO",
}
_TASK_FIELDS = {
    "task_id",
    "task_code",
    "task_name",
    "wbs_id",
    "task_type",
    "status_code",
    "target_drtn_hr_cnt",
    "remain_drtn_hr_cnt",
    "early_start_date",
    "early_end_date",
    "target_start_date",
    "target_end_date",
    "act_start_date",
    "act_end_date",
    "cstr_type",
    "cstr_date",
    "clndr_id",
}
_LINE_END = re.compile(r"\r\n|\n|\r")
_MARKUP_BREAK, _MARKUP = re.compile(r"<(?:br|/p|/div)\b[^>]*>", re.IGNORECASE), re.compile(r"<[^>]*>")
_NOT_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_DURATION = re.compile(r"-?P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")


@dataclass(frozen=True)
class Programme:
    """Activities (COLUMNS, then columns of the file that have no field), links (LINK_COLUMNS) and findings.

    `calendars` maps the id of a task to its calendar (None: all hours count), `default` is that of the project.
    """

    activities: pd.DataFrame
    links: pd.DataFrame
    findings: tuple[Finding, ...]
    calendars: Mapping[str, Calendar | None]
    default: Calendar


def read_programme(data: bytes, path: Path, encoding: str | None = None) -> Programme:
    """XER or MSPDI, told apart by how the file begins. ImportFault for anything else."""
    bounded(data, path)
    head = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:200]
    if head.startswith(b"ERMHDR"):
        text, notes = _xer_text(data, path, encoding)
        read = read_xer(text, path)
        return dataclasses.replace(read, findings=(*notes, *read.findings))
    if head.startswith(b"<") or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return read_mspdi(data, path)
    raise ImportFault(
        path,
        "neither an XER file (which begins with ERMHDR) nor an XML file",
        "in Primavera P6 choose File > Export > XER, in Project save as XML; .mpp files cannot be read",
        1,
    )


def _xer_text(data: bytes, path: Path, encoding: str | None) -> tuple[str, list[Finding]]:
    """Text of an XER file: as `encoding` says where given, else UTF-8, else cp1252, which P6 writes on Windows."""
    if encoding is None:
        try:
            data.decode("utf-8-sig")
        except UnicodeDecodeError:
            encoding = "cp1252"
            data, strange = _NOT_CP1252.subn(b"?", data)
            note = finding(
                "IMPORT-ENCODING",
                path.name,
                case="bytes-replaced" if strange else "all-read",
                words={"replaced": strange},
                remedies=[remedy(fix="encoding")],
            )
            return decode(data, path, encoding), [note]
    return decode(data, path, encoding), []


def read_xer(text: str, path: Path) -> Programme:
    """The tasks of an XER file. ImportFault for lines outside a table, rows of another length, or no tasks."""
    tables, findings = _xer_tables(text, path)
    if "TASK" not in tables:
        raise ImportFault(
            path, f"no table TASK; tables are {', '.join(tables) or 'none'}", "export the project with its activities"
        )
    others = {name: len(rows) for name, rows in tables.items() if name not in _USED_TABLES and rows}
    if others:
        counted = [f"{name} ({count} rows)" for name, count in others.items()]
        findings.append(finding("IMPORT-UNKNOWN-TABLE", path.name, words={"tables": some(counted)}))
    raw = {row.get("clndr_id", ""): row for row in tables.get("CALENDAR", [])}
    calendars = {key: of_xer(row, raw) for key, row in raw.items()}
    default = _xer_default(tables, calendars)
    of_task = {row.get("task_id", ""): calendars.get(row.get("clndr_id", ""), default) for row in tables["TASK"]}
    wbs = _wbs(tables.get("PROJWBS", []))
    beside = _user_fields(tables)
    rows = []
    for row in tables["TASK"]:
        calendar = of_task[row.get("task_id", "")]
        week = calendar.week_h
        start = row.get("act_start_date") or row.get("early_start_date") or row.get("target_start_date", "")
        finish = row.get("act_end_date") or row.get("early_end_date") or row.get("target_end_date", "")
        kind, cstr = row.get("task_type", ""), row.get("cstr_type", "")
        rows.append(
            {
                "id": row.get("task_id", ""),
                "code": row.get("task_code", ""),
                "name": row.get("task_name", ""),
                "wbs": wbs.get(row.get("wbs_id", ""), ""),
                "kind": _XER_KINDS.get(kind, kind or "task"),
                "status": _XER_STATUS.get(row.get("status_code", ""), row.get("status_code", "")),
                "duration_weeks": _weeks(row.get("target_drtn_hr_cnt", ""), week),
                "remaining_weeks": _weeks(row.get("remain_drtn_hr_cnt", ""), week),
                "start": _day(start, row, findings),
                "finish": _day(finish, row, findings),
                "constraint": _XER_CONSTRAINTS.get(cstr, cstr),
                "constraint_date": _day(row.get("cstr_date", ""), row, findings),
                "calendar": calendar.name,
                "calendar_days": _span(row, start, calendar),
                **{key: value for key, value in row.items() if key not in _TASK_FIELDS},
                **_beside(beside.get(row.get("task_id", ""), {}), row),
            }
        )
    options = (tables.get("SCHEDOPTIONS") or [{}])[0]
    lag_in = _LAG_CALENDARS.get(options.get("sched_calendar_on_relationship_lag", "").lower(), "predecessor")
    links = [_xer_link(row, of_task, default, lag_in) for row in tables.get("TASKPRED", [])]
    findings += _calendar_findings(calendars.values())
    return _programme(rows, links, findings, path, of_task, default)


def _user_fields(tables: Mapping[str, list[dict[str, str]]]) -> dict[str, dict[str, str]]:
    """User-defined fields and notes by task id: text by label of the field or topic of the note."""
    labels = {
        row.get("udf_type_id", ""): row.get("udf_type_label", "")
        for row in tables.get("UDFTYPE", [])
        if row.get("table_name") == "TASK"
    }
    topics = {row.get("memo_type_id", ""): row.get("memo_type", "") for row in tables.get("MEMOTYPE", [])}
    found: dict[str, dict[str, str]] = {}
    for row in tables.get("UDFVALUE", []):
        label = labels.get(row.get("udf_type_id", ""))
        value = row.get("udf_text") or row.get("udf_number") or row.get("udf_date") or row.get("udf_code_id", "")
        if label and value:
            found.setdefault(row.get("fk_id", ""), {})[label] = value
    for row in tables.get("TASKMEMO", []):
        topic = topics.get(row.get("memo_type_id", "")) or "note"
        found.setdefault(row.get("task_id", ""), {})[topic] = _plain_text(row.get("task_memo", ""))
    return found


def _plain_text(memo: str) -> str:
    """A note of P6 without its HTML; line ends stand in it as the sign 0x7F."""
    lines = _MARKUP_BREAK.sub("\n", memo.replace("\x7f\x7f", "\n").replace("\x7f", "\n"))
    return html.unescape(_MARKUP.sub("", lines)).strip()


def _beside(fields: Mapping[str, str], taken: Mapping[str, str]) -> dict[str, str]:
    """Fields that the file's user made, under names that no other column has."""
    return {f"{name} (user field)" if name in taken or name in COLUMNS else name: text for name, text in fields.items()}


def _xer_default(tables: Mapping[str, list[dict[str, str]]], calendars: Mapping[str, Calendar]) -> Calendar:
    """The project's calendar, else the one that is marked as default, else the one of most tasks."""
    named = [row.get("clndr_id", "") for row in tables.get("PROJECT", [])]
    named += [row.get("clndr_id", "") for row in tables.get("CALENDAR", []) if row.get("default_flag") == "Y"]
    named += [key for key, _ in Counter(row.get("clndr_id", "") for row in tables["TASK"]).most_common()]
    return next((calendars[key] for key in named if key in calendars), Calendar())


def _xer_link(row: Mapping[str, str], of_task: Mapping[str, Calendar], default: Calendar, lag_in: str) -> list[object]:
    before, after = row.get("pred_task_id", ""), row.get("task_id", "")
    calendar = {"successor": of_task.get(after), "project": default}.get(lag_in, of_task.get(before)) or default
    hours = number(row.get("lag_hr_cnt", "")) or 0
    by_clock = lag_in == "24 hours" or calendar.continuous
    return [
        before,
        after,
        _XER_LINKS.get(row.get("pred_type", ""), row.get("pred_type", "")),
        *_lag(hours, calendar, by_clock),
    ]


def _lag(hours: float, calendar: Calendar, by_clock: bool) -> tuple[float, str, float]:
    """A lag in days, whether they are working days, and how many of them a week has."""
    if by_clock:
        return hours / 24, "calendar", 7.0
    return hours / (calendar.day_h or HOURS_PER_DAY), "working", calendar.days_a_week


def _span(row: Mapping[str, str], start: str, calendar: Calendar) -> str:
    """Calendar days from the start of a task until what remains of it is done, '' where its calendar is not stated."""
    begun = row.get("status_code") == "TK_Active"
    hours = number(row.get("remain_drtn_hr_cnt" if begun else "target_drtn_hr_cnt", ""))
    return _span_of(hours, start, calendar)


def _span_of(hours: float | None, start: str, calendar: Calendar) -> str:
    try:
        first = datetime.fromisoformat(start.strip()).date()
    except ValueError:
        return ""
    if hours is None or not calendar.stated:
        return ""
    days = calendar.span_days(first, hours)
    return "" if days is None else str(days)


def _calendar_findings(calendars: Iterable[Calendar]) -> list[Finding]:
    return [
        finding(
            "IMPORT-CALENDAR-UNREAD",
            calendar.name or "calendar",
            words={"parts": some(calendar.unread)},
            remedies=[remedy(fix="exceptions"), remedy(fix="site-calendar")],
        )
        for calendar in calendars
        if calendar.unread
    ]


def read_mspdi(data: bytes, path: Path) -> Programme:
    """The tasks of a Microsoft Project XML file. ImportFault for broken XML and for XML of something else."""
    root = parse_xml(data, path)
    space = root.tag.partition("}")[0] + "}" if "}" in root.tag else ""
    if root.tag.rpartition("}")[2] != "Project":
        raise ImportFault(
            path, f"the root element is {root.tag.rpartition('}')[2]}, not Project", "save the project as XML (MSPDI)"
        )
    findings: list[Finding] = []
    day = (number(_text(root, space, "MinutesPerDay")) or 480) / 60
    week = (number(_text(root, space, "MinutesPerWeek")) or 2400) / 60
    raw = {_text(c, space, "UID"): c for c in root.iterfind(f"{space}Calendars/{space}Calendar")}
    calendars = {uid: of_mspdi(raw, uid, space, day, week) for uid in raw}
    default = calendars.get(_text(root, space, "CalendarUID"), next(iter(calendars.values()), Calendar("", day, week)))
    labels = {
        _text(a, space, "FieldID"): _text(a, space, "Alias") or _text(a, space, "FieldName")
        for a in root.iterfind(f"{space}ExtendedAttributes/{space}ExtendedAttribute")
    }
    tasks = [t for t in root.iterfind(f"{space}Tasks/{space}Task") if _text(t, space, "IsNull") != "1"]
    if not tasks:
        raise ImportFault(
            path, "the project has no tasks", "save the project that holds the tasks, not a resource pool"
        )
    rows: list[dict[str, str]] = []
    links: list[list[object]] = []
    unread = {name for child in root if (name := child.tag.rpartition("}")[2]) not in _USED_ELEMENTS and len(child)}
    of_task: dict[str, Calendar | None] = {}
    durations = {_text(t, space, "UID"): _hours(_text(t, space, "Duration")) or 0.0 for t in tasks}
    used = {
        "UID",
        "WBS",
        "Name",
        "Duration",
        "Start",
        "Finish",
        "ConstraintType",
        "ConstraintDate",
        "CalendarUID",
        "Summary",
        "Milestone",
        "PercentComplete",
        "RemainingDuration",
        "PredecessorLink",
        "IsNull",
    }
    for task in tasks:
        uid = _text(task, space, "UID")
        extras: dict[str, str] = {}
        made: dict[str, str] = {}
        for child in task:
            name = child.tag.rpartition("}")[2]
            if name == "ExtendedAttribute" and _text(child, space, "Value"):
                label = labels.get(_text(child, space, "FieldID")) or f"field {_text(child, space, 'FieldID')}"
                made[label] = _text(child, space, "Value")
            elif name not in used and len(child):
                unread.add(name)
            elif name not in used:
                extras[name] = (child.text or "").strip()
        extras |= _beside(made, extras)
        named = {"task_code": _text(task, space, "WBS"), "task_name": _text(task, space, "Name")}
        elapsed = extras.get("DurationFormat") in _ELAPSED
        hours_of_week = 168 if elapsed else week
        calendar = calendars.get(_text(task, space, "CalendarUID"), default)
        of_task[uid] = None if elapsed else calendar
        kind = "summary" if _text(task, space, "Summary") == "1" or uid == "0" else "task"
        done = number(_text(task, space, "PercentComplete")) or 0
        constraint, dated = _text(task, space, "ConstraintType"), _text(task, space, "ConstraintDate")
        rows.append(
            {
                "id": uid,
                "code": _text(task, space, "WBS") or _text(task, space, "ID"),
                "name": _text(task, space, "Name"),
                "wbs": _text(task, space, "OutlineNumber"),
                "kind": "milestone" if kind == "task" and _text(task, space, "Milestone") == "1" else kind,
                "status": "complete" if done >= 100 else "in progress" if done else "not started",
                "duration_weeks": _weeks_of(_hours(_text(task, space, "Duration")), hours_of_week),
                "remaining_weeks": _weeks_of(_hours(_text(task, space, "RemainingDuration")), hours_of_week),
                "start": _day(_text(task, space, "Start"), named, findings),
                "finish": _day(_text(task, space, "Finish"), named, findings),
                "constraint": _MSPDI_CONSTRAINTS.get(constraint, constraint),
                "constraint_date": _day(dated if constraint not in ("", "0", "1") else "", named, findings),
                "calendar": calendar.name,
                **extras,
                "calendar_days": _span_of(
                    _hours(_text(task, space, "RemainingDuration" if 0 < done < 100 else "Duration")),
                    _text(task, space, "Start"),
                    _AROUND_THE_CLOCK if elapsed else calendar,
                ),
            }
        )
        for link in task.iterfind(f"{space}PredecessorLink"):
            before, lag = _text(link, space, "PredecessorUID"), number(_text(link, space, "LinkLag")) or 0.0
            form = _text(link, space, "LagFormat")
            hours = durations.get(before, 0.0) * lag / 100 if form in _PERCENT else lag / 600  # tenths of minutes
            kind_of = _text(link, space, "Type")
            links.append(
                [before, uid, _MSPDI_LINKS.get(kind_of, kind_of or "FS"), *_lag(hours, calendar, form in _ELAPSED)]
            )
    if unread:
        findings.append(finding("IMPORT-UNKNOWN-ELEMENT", path.name, words={"elements": ", ".join(sorted(unread))}))
    findings += _calendar_findings(
        calendars[uid] for uid in calendars if calendars[uid] in (default, *of_task.values())
    )
    return _programme(rows, links, findings, path, of_task, default)


def _programme(
    rows: list[dict[str, str]],
    links: list[list[object]],
    findings: list[Finding],
    path: Path,
    calendars: Mapping[str, Calendar | None],
    default: Calendar,
) -> Programme:
    known = {row["id"] for row in rows}
    twice = sorted(key for key, count in Counter(row["id"] for row in rows).items() if count > 1)
    if twice:
        findings.append(
            finding("IMPORT-TASK-TWICE", path.name, words={"ids": some(twice)}, remedies=[remedy(fix="one-project")])
        )
    frame = pd.DataFrame(links, columns=list(LINK_COLUMNS))
    lost = [f"{link[0]} -> {link[1]}" for link in links if link[0] not in known or link[1] not in known]
    if lost:
        findings.append(
            finding(
                "IMPORT-LINK-LOST",
                path.name,
                words={"links": len(lost), "names": some(lost)},
                remedies=[remedy(fix="together")],
            )
        )
    codes = {row["id"]: row["code"] or row["id"] for row in rows}
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    before: dict[str, list[str]] = {}
    for first, second, kind, lag, unit, _ in links:
        if str(first) in known and str(second) in known:
            sorter.add(str(second), str(first))
            days = float(str(lag))
            before.setdefault(str(second), []).append(
                f"{codes[str(first)]} {kind}{f' {days:+g}{_LAG_SIGNS[str(unit)]}' if days else ''}"
            )
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        ring = " -> ".join(codes[str(task)] for task in error.args[1])
        findings.append(finding("IMPORT-CYCLE", path.name, words={"ring": ring}, remedies=[remedy(fix="remove")]))
    for row in rows:
        row["predecessors"] = "; ".join(before.get(row["id"], []))
        if row["start"] and row["finish"] and row["finish"] < row["start"]:
            findings.append(
                finding(
                    "IMPORT-ENDS-BEFORE-START",
                    row["code"] or row["id"],
                    words={"name": row["name"], "start": row["start"], "finish": row["finish"]},
                    remedies=[remedy(fix="schedule")],
                )
            )
        if (number(row["duration_weeks"]) or 0) < 0:
            findings.append(
                finding(
                    "IMPORT-DURATION",
                    row["code"] or row["id"],
                    case="negative",
                    severity="error",
                    words={"name": row["name"], "weeks": row["duration_weeks"]},
                )
            )
    hard = [row["code"] or row["id"] for row in rows if row["constraint"] in _HARD]
    if hard:
        findings.append(finding("IMPORT-HARD-CONSTRAINT", path.name, words={"tasks": len(hard), "names": some(hard)}))
    open_ends = [row["code"] or row["id"] for row in rows if row["kind"] == "task" and not row["predecessors"]]
    if open_ends:
        findings.append(
            finding("IMPORT-OPEN-START", path.name, words={"tasks": len(open_ends), "names": some(open_ends)})
        )
    extras = list(dict.fromkeys(key for row in rows for key in row if key not in COLUMNS))
    findings += unknown_columns(path.name, [name for name in extras if name not in (*own.OWN_FIELDS, own.SOURCE)])
    table = pd.DataFrame(rows).reindex(columns=[*COLUMNS, *extras]).fillna("").astype(str)
    for name in extras:
        cells, faults = without_secrets(table[name].tolist(), name, range(len(table)))
        table[name] = cells
        for fault in faults:
            row = rows[int(fault.subject.removeprefix("line "))]
            findings.append(dataclasses.replace(fault, subject=row["code"] or row["id"]))
    return Programme(table, frame, tuple(findings), calendars, default)


def _xer_tables(text: str, path: Path) -> tuple[dict[str, list[dict[str, str]]], list[Finding]]:
    tables: dict[str, list[dict[str, str]]] = {}
    findings: list[Finding] = []
    name, names, short, ended = "", [""], 0, False
    for n, line in enumerate(_LINE_END.split(text), start=1):
        cells = line.split("\t")
        mark = cells[0]
        if mark == "%T":
            name = cells[1].strip() if len(cells) > 1 else ""
            if not name:
                raise ImportFault(path, "%T without the name of a table", "export the XER file again", n)
            tables.setdefault(name, [])
            names = []
        elif mark == "%F":
            names = cells[1:]
        elif mark == "%R":
            if not name or not names:
                raise ImportFault(
                    path, "a row (%R) before its table (%T) and fields (%F)", "export the XER file again", n
                )
            if len(cells) - 1 > len(names):
                what = f"{len(cells) - 1} cells in a row of {name}, which has {len(names)} fields"
                raise ImportFault(path, what, "a tab inside a text: export the XER file again", n)
            short += len(cells) - 1 < len(names)
            tables[name].append(dict(zip(names, cells[1:] + [""] * (len(names) - len(cells) + 1), strict=True)))
        elif mark == "%E":
            ended = True
        elif n > 1 and line.strip():
            raise ImportFault(
                path, f"a line that begins with {mark[:20]!r}", "lines begin with %T, %F, %R or %E: export it again", n
            )
    if not ended:
        findings.append(finding("IMPORT-CUT-SHORT", path.name, remedies=[remedy(fix="again")]))
    if short:
        findings.append(finding("IMPORT-SHORT-ROW", path.name, words={"rows": short}))
    return tables, findings


def _wbs(rows: list[dict[str, str]]) -> dict[str, str]:
    """WBS id -> path of short names, up to 20 levels."""
    by_id = {row.get("wbs_id", ""): row for row in rows}
    paths = {}
    for key in by_id:
        names: list[str] = []
        here = key
        while here in by_id and len(names) < 20:
            names.insert(0, by_id[here].get("wbs_short_name", ""))
            here = by_id[here].get("parent_wbs_id", "")
        paths[key] = ".".join(names)
    return paths


def _text(element: Element, space: str, name: str) -> str:
    return (element.findtext(f"{space}{name}") or "").strip()


def _hours(text: str) -> float | None:
    """Hours of an XML Schema duration such as PT80H30M0S; None for anything else."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    value = 24 * days + hours + minutes / 60 + seconds / 3600
    return -value if text.startswith("-") else value


def _weeks(hours: str, week: float) -> str:
    return _weeks_of(number(hours), week)


def _weeks_of(hours: float | None, week: float) -> str:
    return "" if hours is None else f"{hours / week:.4g}"


def _day(text: str, row: Mapping[str, str], findings: list[Finding]) -> str:
    """The date of '2026-03-02 08:00' or '2026-03-02T08:00:00'; a finding for a text that is none."""
    if not text:
        return ""
    try:
        return datetime.fromisoformat(text.strip()).date().isoformat()
    except ValueError:
        findings.append(
            finding(
                "IMPORT-DATE",
                row.get("task_code", ""),
                case="task",
                severity="warning",
                words={"date": text, "task": row.get("task_name", "")},
            )
        )
        return ""
