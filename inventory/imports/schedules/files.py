"""Programmes for schedulers: the counterpart of `inventory.imports.schedules.programme`.

    text = xer(network)       Primavera XER, and encoded(text) its bytes
    text = mspdi(network)     Microsoft Project XML

Both programs compute dates anew from durations, calendars, links and constraints; the dates in the file are those of the plan.
Working days have eight hours (08:00 to 12:00, 13:00 to 17:00), the default of both. What counts every day stands on a
calendar of 24 hours, and has an elapsed duration in Project.

Lags are in working or in calendar days. P6 counts them on the calendar of the predecessor (its default); Project says per link
which they are, and counts working days on the calendar of the successor. A moment on the other calendar stands between the two
where that would count wrongly. P6 has one link of a kind between two tasks, Project one of any kind: another one leads through a
moment as well.

Sources: mspdi_pj12.xsd (order of elements, FieldID, LagFormat); Oracle, XER Import/Export Data Map Guide (tables and columns).
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from inventory.groups import GROUPS
from inventory.imports.schedules import fields as own
from inventory.imports.schedules.fields import OWN_FIELDS, plain_text
from inventory.imports.schedules.work_calendar import DAY_NAMES, HOURS_PER_DAY, XER_EPOCH
from inventory.site.sections.schedule import DAYS_A_WEEK, WorkCalendar

NAMESPACE = "http://schemas.microsoft.com/project"
CODE_LENGTH = 40
"""Longest activity ID of P6."""
_SHIFTS = (("08:00", "12:00"), ("13:00", "17:00"))
_ALL_DAY = (("00:00", "00:00"),)
_WORK, _CLOCK = 1, 2
"""Ids of the two calendars: the site's working days, and every hour."""
_DATED = {"start on or after": ("CS_MSOA", "4"), "finish on or after": ("CS_MEOA", "6")}
_P6_TYPES = {
    "text": ("FT_TEXT", "udf_text"),
    "number": ("FT_FLOAT_2_DECIMALS", "udf_number"),
    "date": ("FT_START_DATE", "udf_date"),
}
_MSPDI_LINKS = {"FF": "0", "FS": "1", "SF": "2", "SS": "3"}
_DAYS, _ELAPSED_DAYS = "7", "8"
"""DurationFormat and LagFormat of Project."""
_TENTHS_PER_HOUR = 600
"""A lag is in tenths of minutes."""


@dataclass(frozen=True)
class Task:
    """A task: `hours` of its calendar, which is that of the site or, where `by_clock`, every hour.

    `fields` by label of OWN_FIELDS; `constraint` is start or finish on or after a moment.
    """

    name: str
    title: str
    group: str
    hours: float
    by_clock: bool
    start: datetime
    finish: datetime
    fields: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    constraint: tuple[str, datetime] | None = None
    deadline: datetime | None = None
    complete: bool = False
    critical: bool = False


@dataclass(frozen=True)
class Tied:
    """A link; the lag in calendar days runs first, then that in working days."""

    before: str
    after: str
    type: str = "FS"
    days: float = 0.0
    working_days: float = 0.0


@dataclass(frozen=True)
class Network:
    """The programme of a site; `calendar` None: every day counts."""

    name: str
    start: datetime
    finish: datetime
    calendar: WorkCalendar | None
    tasks: tuple[Task, ...]
    ties: tuple[Tied, ...]


@dataclass(frozen=True)
class _Link:
    """A link with one lag in hours, of working time or by the clock."""

    before: str
    after: str
    type: str
    hours: float = 0.0
    by_clock: bool = False


def xer(network: Network) -> str:
    """The programme as a Primavera XER file."""
    tasks, links = _laid(network, project=False)
    ids = {task.name: str(n) for n, task in enumerate(tasks, start=1)}
    groups = [group for group in GROUPS if any(task.group == group for task in tasks)]
    wbs = {group: str(n) for n, group in enumerate(groups, start=2)}
    codes = _codes(tasks)
    used = [label for label in OWN_FIELDS if any(task.fields.get(label) for task in tasks)]
    types = {label: str(n) for n, label in enumerate(used, start=1)}
    start, finish = _xer_time(network.start), _xer_time(network.finish)
    name = _line(network.name)
    lines = [
        f"ERMHDR\t19.12\t{network.start:%Y-%m-%d}\tProject\tbringup\tbringup\tdbxDatabaseNoName\tProject Management\tUSD"
    ]
    lines += _table(
        "CURRTYPE",
        [
            {
                "curr_id": "1",
                "decimal_digit_cnt": "2",
                "curr_symbol": "$",
                "decimal_symbol": ".",
                "digit_group_symbol": ",",
                "pos_curr_fmt_type": "#1.1",
                "neg_curr_fmt_type": "(#1.1)",
                "curr_type": "US Dollar",
                "curr_short_name": "USD",
                "group_digit_cnt": "3",
                "base_exch_rate": "1",
            },
        ],
    )
    lines += _table(
        "MEMOTYPE",
        [
            {
                "memo_type_id": "1",
                "seq_num": "0",
                "eps_flag": "N",
                "proj_flag": "N",
                "wbs_flag": "N",
                "task_flag": "Y",
                "memo_type": own.SOURCE,
            },
        ],
    )
    lines += _table(
        "UDFTYPE",
        [
            {
                "udf_type_id": types[label],
                "table_name": "TASK",
                "udf_type_name": f"user_field_{types[label]}",
                "udf_type_label": label,
                "logical_data_type": _P6_TYPES[OWN_FIELDS[label].type][0],
                "super_flag": "N",
            }
            for label in used
        ],
    )
    lines += _table(
        "PROJECT",
        [
            {
                "proj_id": "1",
                "proj_short_name": name[:CODE_LENGTH],
                "clndr_id": str(_WORK),
                "project_flag": "Y",
                "plan_start_date": start,
                "last_recalc_date": start,
                "scd_end_date": finish,
                "def_complete_pct_type": "CP_Drtn",
                "def_duration_type": "DT_FixedDUR2",
                "def_task_type": "TT_Task",
                "critical_path_type": "CT_DrivPath",
                "name_sep_char": ".",
                "task_code_base": "1000",
                "task_code_step": "10",
                "export_flag": "Y",
            },
        ],
    )
    lines += _table("CALENDAR", _xer_calendars(network.calendar))
    lines += _table(
        "SCHEDOPTIONS",
        [
            {
                "schedoptions_id": "1",
                "proj_id": "1",
                "sched_retained_logic": "Y",
                "sched_progress_override": "N",
                "sched_float_type": "FT_FF",
                "sched_calendar_on_relationship_lag": "rcal_Predecessor",
            },
        ],
    )
    lines += _table(
        "PROJWBS",
        [
            {
                "wbs_id": "1",
                "proj_id": "1",
                "seq_num": "0",
                "proj_node_flag": "Y",
                "status_code": "WS_Open",
                "wbs_short_name": name[:CODE_LENGTH],
                "wbs_name": name[:100],
                "parent_wbs_id": "",
            },
            *(
                {
                    "wbs_id": wbs[group],
                    "proj_id": "1",
                    "seq_num": wbs[group],
                    "proj_node_flag": "N",
                    "status_code": "WS_Open",
                    "wbs_short_name": group,
                    "wbs_name": GROUPS[group].name,
                    "parent_wbs_id": "1",
                }
                for group in groups
            ),
        ],
    )
    lines += _table("TASK", [_xer_task(task, ids[task.name], wbs[task.group], codes[task.name]) for task in tasks])
    lines += _table(
        "TASKPRED",
        [
            {
                "task_pred_id": str(n),
                "task_id": ids[link.after],
                "pred_task_id": ids[link.before],
                "proj_id": "1",
                "pred_proj_id": "1",
                "pred_type": f"PR_{link.type}",
                "lag_hr_cnt": _number(link.hours),
            }
            for n, link in enumerate(links, start=1)
        ],
    )
    sources = [task for task in tasks if task.source]
    lines += _table(
        "TASKMEMO",
        [
            {
                "memo_id": str(n),
                "task_id": ids[task.name],
                "memo_type_id": "1",
                "proj_id": "1",
                "task_memo": _memo(task.source),
            }
            for n, task in enumerate(sources, start=1)
        ],
    )
    lines += _table(
        "UDFVALUE",
        [
            {
                "udf_type_id": types[label],
                "fk_id": ids[task.name],
                "proj_id": "1",
                **dict.fromkeys(("udf_date", "udf_number", "udf_text"), ""),
                _P6_TYPES[OWN_FIELDS[label].type][1]: f"{value} 00:00"
                if OWN_FIELDS[label].type == "date"
                else _line(value),
            }
            for task in tasks
            for label, value in task.fields.items()
            if value
        ],
    )
    return "\r\n".join([*lines, "%E", ""])


def encoded(text: str) -> bytes:
    """The bytes of an XER file: cp1252, which P6 expects on Windows; UTF-8 where a sign is not in it or could be misread."""
    try:
        data = text.encode("cp1252")
    except UnicodeEncodeError:
        return text.encode("utf-8")
    try:
        return data if data.decode("utf-8") == text else text.encode("utf-8")
    except UnicodeDecodeError:
        return data


def mspdi(network: Network) -> str:
    """The programme as a Microsoft Project XML file."""
    tasks, links = _laid(network, project=True)
    root = Element("Project", xmlns=NAMESPACE)
    day_h, week_h = (
        (24.0, 168.0)
        if network.calendar is None
        else (HOURS_PER_DAY, HOURS_PER_DAY * len(network.calendar.working_days))
    )
    _add(
        root,
        {
            "SaveVersion": "12",
            "Name": _line(network.name)[:255],
            "Title": _line(network.name),
            "ScheduleFromStart": "1",
            "StartDate": _xml_time(network.start),
            "FinishDate": _xml_time(network.finish),
            "CurrencyCode": "USD",
            "CalendarUID": str(_WORK),
            "DefaultStartTime": f"{'00' if network.calendar is None else '08'}:00:00",
            "DefaultFinishTime": f"{'00' if network.calendar is None else '17'}:00:00",
            "MinutesPerDay": f"{60 * day_h:.0f}",
            "MinutesPerWeek": f"{60 * week_h:.0f}",
            "DefaultTaskType": "1",
            "DurationFormat": _DAYS,
            "HonorConstraints": "1",
            "NewTasksEffortDriven": "0",
        },
    )
    labels = SubElement(root, "ExtendedAttributes")
    for label, known in OWN_FIELDS.items():
        _add(
            SubElement(labels, "ExtendedAttribute"),
            {
                "FieldID": str(known.project_id),
                "FieldName": known.project_name,
                "Alias": label,
            },
        )
    calendars = SubElement(root, "Calendars")
    worked = DAY_NAMES if network.calendar is None else network.calendar.working_days
    shifts = _ALL_DAY if network.calendar is None else _SHIFTS
    name = "Working days" if network.calendar else "Every day"
    _mspdi_calendar(calendars, _WORK, name, worked, shifts, _exceptions(network.calendar))
    _mspdi_calendar(calendars, _CLOCK, "Around the clock", DAY_NAMES, _ALL_DAY, {})
    rows = SubElement(root, "Tasks")
    into: dict[str, list[_Link]] = {}
    for link in links:
        into.setdefault(link.after, []).append(link)
    # UIDs of tasks first: the summaries of the groups stand between them, and a task may wait for one below it
    uids = {task.name: str(n) for n, task in enumerate(tasks, start=len(GROUPS) + 1)}
    row = 0
    for outline, group in enumerate((g for g in GROUPS if any(t.group == g for t in tasks)), start=1):
        members = [task for task in tasks if task.group == group]
        row += 1
        _add(
            SubElement(rows, "Task"),
            {
                "UID": str(list(GROUPS).index(group) + 1),
                "ID": str(row),
                "Name": f"{group} {GROUPS[group].name}",
                "Type": "1",
                "IsNull": "0",
                "WBS": group,
                "OutlineNumber": str(outline),
                "OutlineLevel": "1",
                "Start": _xml_time(min(t.start for t in members)),
                "Finish": _xml_time(max(t.finish for t in members)),
                "Milestone": "0",
                "Summary": "1",
            },
        )
        for place, task in enumerate(members, start=1):
            row += 1
            element = SubElement(rows, "Task")
            _mspdi_task(element, task, uids[task.name], str(row), f"{outline}.{place}")
            for link in into.get(task.name, ()):
                _add(
                    SubElement(element, "PredecessorLink"),
                    {
                        "PredecessorUID": uids[link.before],
                        "Type": _MSPDI_LINKS[link.type],
                        "LinkLag": str(round(link.hours * _TENTHS_PER_HOUR)),
                        "LagFormat": _ELAPSED_DAYS if link.by_clock else _DAYS,
                    },
                )
            for label, value in task.fields.items():
                if value:
                    date_value = OWN_FIELDS[label].type == "date"
                    _add(
                        SubElement(element, "ExtendedAttribute"),
                        {
                            "FieldID": str(OWN_FIELDS[label].project_id),
                            "Value": f"{value}T00:00:00" if date_value else _line(value),
                        },
                    )
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n{body}\n'


_Leg = tuple[float, bool]
"""A lag in hours, and whether they are by the clock."""
_NO_LAG: _Leg = (0.0, True)


def _laid(network: Network, project: bool) -> tuple[list[Task], list[_Link]]:
    """Tasks with the moments that lags need, and links with one lag each, as the program (Project or P6) counts it."""
    tasks = {task.name: task for task in network.tasks}
    links: list[_Link] = []
    taken: set[tuple[str, ...]] = set()
    for tie in dict.fromkeys(network.ties):
        here, after, side = tasks[tie.before], tasks[tie.after], tie.type[0]
        legs = _legs(tie, network.calendar)
        if network.calendar and project and after.by_clock and not legs[-1][1]:
            legs.append(_NO_LAG)
        stops: list[tuple[_Leg, bool]] = []  # the leg to a moment, and whether the moment is on the clock's calendar
        if network.calendar and not project and legs[0][0] and legs[0][1] != here.by_clock:
            stops.append((_NO_LAG, legs[0][1]))
        stops += [(leg, (leg if project else following)[1]) for leg, following in pairwise(legs)]
        key = (tie.before, tie.after) if project else (tie.before, tie.after, tie.type)
        if not stops and key in taken:
            stops.append((_NO_LAG, here.by_clock))
        taken.add(key)
        for leg, by_clock in stops:
            made = _moment(f"lag {len(tasks) - len(network.tasks) + 1}", by_clock, after)
            tasks[made.name] = made
            links.append(_Link(here.name, made.name, f"{side}S", *leg))
            here, side = made, "S"
        links.append(_Link(here.name, after.name, side + tie.type[1], *legs[-1]))
    return list(tasks.values()), links


def _legs(tie: Tied, calendar: WorkCalendar | None) -> list[_Leg]:
    """The lags of a tie, one after the other, without those of no length; one leg at least."""
    if calendar is None:
        return [(24 * (tie.days + tie.working_days * 7 / DAYS_A_WEEK), True)]
    legs = [(24 * tie.days, True), (HOURS_PER_DAY * tie.working_days, False)]
    return [leg for leg in legs if leg[0]] or [_NO_LAG]


def _moment(name: str, by_clock: bool, after: Task) -> Task:
    fields = {own.NAME: name, own.KIND: own.TIE}
    return Task(name, f"lag before {after.title}", after.group, 0.0, by_clock, after.start, after.start, fields)


def _codes(tasks: Iterable[Task]) -> dict[str, str]:
    """Activity IDs by name: the name itself as far as P6 has room for it."""
    codes: dict[str, str] = {}
    taken: set[str] = set()
    for task in tasks:
        base = _line(task.name).replace(" ", "-")
        code, n = base[:CODE_LENGTH], 1
        while code in taken:
            n += 1
            code = f"{base[: CODE_LENGTH - len(str(n)) - 1]}~{n}"
        codes[task.name] = code
        taken.add(code)
    return codes


def _xer_task(task: Task, id: str, wbs: str, code: str) -> dict[str, str]:
    start, finish, hours = _xer_time(task.start), _xer_time(task.finish), _number(task.hours)
    left = "0" if task.complete else hours
    kind, moment = task.constraint or ("", None)
    return {
        "task_id": id,
        "proj_id": "1",
        "wbs_id": wbs,
        "clndr_id": str(_CLOCK if task.by_clock else _WORK),
        "complete_pct_type": "CP_Drtn",
        "task_type": "TT_Task" if task.hours else "TT_Mile",
        "duration_type": "DT_FixedDUR2",
        "status_code": "TK_Complete" if task.complete else "TK_NotStart",
        "task_code": code,
        "task_name": _line(task.title)[:120],
        "remain_drtn_hr_cnt": left,
        "target_drtn_hr_cnt": hours,
        "cstr_date": _xer_time(moment) if moment else "",
        "act_start_date": start if task.complete else "",
        "act_end_date": finish if task.complete else "",
        "early_start_date": "" if task.complete else start,
        "early_end_date": "" if task.complete else finish,
        "target_start_date": start,
        "target_end_date": finish,
        "cstr_type": _DATED[kind][0] if kind else "",
        "driving_path_flag": "Y" if task.critical else "N",
    }


def _mspdi_task(element: Element, task: Task, uid: str, row: str, outline: str) -> None:
    start, finish, duration = _xml_time(task.start), _xml_time(task.finish), _duration(task.hours)
    kind, moment = task.constraint or ("", None)
    done = "1" if task.complete else ""
    _add(
        element,
        {
            "UID": uid,
            "ID": row,
            "Name": _line(task.title)[:512],
            "Type": "1",
            "IsNull": "0",
            "WBS": f"{task.group}.{_line(task.name)}",
            "OutlineNumber": outline,
            "OutlineLevel": "2",
            "Start": start,
            "Finish": finish,
            "Duration": duration,
            "DurationFormat": _ELAPSED_DAYS if task.by_clock else _DAYS,
            "EffortDriven": "0",
            "Estimated": "0",
            "Milestone": "0" if task.hours else "1",
            "Summary": "0",
            "Critical": "1" if task.critical else "0",
            "EarlyStart": start,
            "EarlyFinish": finish,
            "PercentComplete": "100" if task.complete else "0",
            "ActualStart": done and start,
            "ActualFinish": done and finish,
            "ActualDuration": duration if task.complete else _duration(0.0),
            "RemainingDuration": _duration(0.0) if task.complete else duration,
            "ConstraintType": _DATED[kind][1] if kind else "0",
            "CalendarUID": str(_CLOCK) if task.by_clock else "",
            "ConstraintDate": _xml_time(moment) if moment else "",
            "Deadline": _xml_time(task.deadline) if task.deadline else "",
            "Notes": plain_text(task.source),
        },
    )


def _xer_calendars(calendar: WorkCalendar | None) -> list[dict[str, str]]:
    week = len(calendar.working_days) if calendar else 7
    day_h = HOURS_PER_DAY if calendar else 24.0
    every = dict.fromkeys(DAY_NAMES, _ALL_DAY)
    own_days = {day: _SHIFTS if day in calendar.working_days else () for day in DAY_NAMES} if calendar else every
    return [
        _xer_calendar(_WORK, "Working days" if calendar else "Every day", day_h, week, own_days, _exceptions(calendar)),
        _xer_calendar(_CLOCK, "Around the clock", 24.0, 7, every, {}),
    ]


_Shifts = tuple[tuple[str, str], ...]


def _xer_calendar(
    id: int, name: str, day_h: float, week: int, days: Mapping[str, _Shifts], exceptions: Mapping[date, _Shifts]
) -> dict[str, str]:
    sunday_first = (DAY_NAMES[-1], *DAY_NAMES[:-1])
    shown = "".join(f"(0||{n}()({_xer_shifts(days[day])}))" for n, day in enumerate(sunday_first, start=1))
    differ = "".join(
        f"(0||{n}(d|{(day - XER_EPOCH).days})({_xer_shifts(shifts)}))"
        for n, (day, shifts) in enumerate((d, s) for d, s in exceptions.items() if d > XER_EPOCH)
    )
    return {
        "clndr_id": str(id),
        "default_flag": "Y" if id == _WORK else "N",
        "clndr_name": name,
        "proj_id": "1",
        "base_clndr_id": "",
        "last_chng_date": "",
        "clndr_type": "CA_Project",
        "day_hr_cnt": _number(day_h),
        "week_hr_cnt": _number(day_h * week),
        "month_hr_cnt": _number(round(day_h * week * 52 / 12)),
        "year_hr_cnt": _number(day_h * week * 52),
        "rsrc_private": "N",
        "clndr_data": f"(0||CalendarData()((0||DaysOfWeek()({shown}))(0||Exceptions()({differ}))))",
    }


def _xer_shifts(shifts: _Shifts) -> str:
    return "".join(f"(0||{n}(s|{begin}|f|{end})())" for n, (begin, end) in enumerate(shifts))


def _exceptions(calendar: WorkCalendar | None) -> dict[date, _Shifts]:
    """Days that differ from the week, each once; a day that is both a holiday and worked is worked."""
    if calendar is None:
        return {}
    days = dict.fromkeys(calendar.holidays, ()) | dict.fromkeys(calendar.worked, _SHIFTS)
    return {day: days[day] for day in sorted(days)}


def _mspdi_calendar(
    calendars: Element, uid: int, name: str, worked: Sequence[str], whole: _Shifts, exceptions: Mapping[date, _Shifts]
) -> None:
    element = SubElement(calendars, "Calendar")
    _add(element, {"UID": str(uid), "Name": name, "IsBaseCalendar": "1", "BaseCalendarUID": "-1"})
    days = SubElement(element, "WeekDays")
    for n, day in enumerate((DAY_NAMES[-1], *DAY_NAMES[:-1]), start=1):
        here = SubElement(days, "WeekDay")
        _add(here, {"DayType": str(n)})
        _mspdi_shifts(here, whole if day in worked else ())
    if not exceptions:
        return
    listed = SubElement(element, "Exceptions")
    for date_, shifts in exceptions.items():
        here = SubElement(listed, "Exception")
        _add(here, {"EnteredByOccurrences": "0"})
        period = {"FromDate": f"{date_:%Y-%m-%d}T00:00:00", "ToDate": f"{date_:%Y-%m-%d}T23:59:00"}
        _add(SubElement(here, "TimePeriod"), period)
        _add(here, {"Occurrences": "1", "Name": f"{'worked' if shifts else 'day off'} {date_}", "Type": "1"})
        _mspdi_shifts(here, shifts)


def _mspdi_shifts(element: Element, shifts: _Shifts) -> None:
    _add(element, {"DayWorking": "1" if shifts else "0"})
    if shifts:
        times = SubElement(element, "WorkingTimes")
        for begin, end in shifts:
            _add(SubElement(times, "WorkingTime"), {"FromTime": f"{begin}:00", "ToTime": f"{end}:00"})


def _add(element: Element, values: Mapping[str, str]) -> None:
    """Elements with text below an element, in their order; those without text are left out."""
    for name, text in values.items():
        if text:
            SubElement(element, name).text = text


def _table(name: str, rows: list[dict[str, str]]) -> list[str]:
    if not rows:
        return []
    return [f"%T\t{name}", "\t".join(["%F", *rows[0]]), *("\t".join(["%R", *row.values()]) for row in rows)]


def _line(text: str) -> str:
    """Text in one line without control characters: both formats cut or refuse others."""
    return " ".join(plain_text(text).split())


def _memo(text: str) -> str:
    """A note of P6, which is HTML."""
    lines = [html.escape(_line(line), quote=False) for line in text.splitlines()]
    return f"<HTML><BODY>{'<BR>'.join(lines)}</BODY></HTML>"


def _number(value: float) -> str:
    return f"{round(value, 6):.12g}"


def _xer_time(moment: datetime) -> str:
    return moment.isoformat(" ", "minutes")


def _xml_time(moment: datetime) -> str:
    return moment.isoformat("T", "seconds")


def _duration(hours: float) -> str:
    """An XML Schema duration in hours, minutes and seconds, as Project writes it."""
    seconds = round(hours * 3600)
    return f"PT{seconds // 3600}H{seconds % 3600 // 60}M{seconds % 60}S"
