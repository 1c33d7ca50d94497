"""The programme of a site for schedulers: what `bringup export programme-xer` and `programme-mspdi` write.

    network = network_of(site, activities)      activities: the frame of `capacity.procurement.programme`

Tasks are the activities of the schedule, the orders, and the moments at which groups start and end; dates are early dates with
likely durations. Bringup's hours run around the clock on working days, a scheduler's from 08:00 to 17:00: a part of a working
day is the same part of eight hours, and what ends with a day ends at 17:00.
"""

import dataclasses
import datetime
import math
from collections.abc import Mapping

import pandas as pd

from capacity.procurement.programme import GO_LIVE, HOURS_PER_WEEK, Activity, likely_hours, start_date
from inventory.imports.schedules import fields as own
from inventory.imports.schedules.files import Network, Task, Tied
from inventory.imports.schedules.work_calendar import DAY_NAMES, HOURS_PER_DAY
from inventory.site import Site
from inventory.site.sections.schedule import DAYS_A_WEEK, LeadTime, Link, WorkCalendar
from inventory.site.sections.schedule import Activity as PlannedWork

_MORNING_H, _LUNCH_AFTER_H, _LUNCH_H = 8.0, 4.0, 1.0
"""A day's work begins at 08:00, and an hour is free after four."""
_EVENING_H = _MORNING_H + HOURS_PER_DAY + _LUNCH_H


def network_of(site: Site, activities: pd.DataFrame) -> Network:
    """The programme as tasks and ties; `activities` is the frame of the programme, for safe dates and percentiles."""
    start, schedule = start_date(site), site.schedule
    rows = {str(row["activity"]): {str(k): str(v) for k, v in row.items()} for row in activities.to_dict("records")}
    tasks: dict[str, Task] = {}
    ties: list[Tied] = []
    ended: dict[str, int] = {}
    for activity, begins_h, ends_h in likely_hours(site):
        task = _task(site, start, activity, (begins_h, ends_h), rows[activity.name])
        if task.by_clock:  # what waits for the end of a day of work begins at 17:00, not at midnight
            drives = [tasks[before].finish for before in activity.after if ended[before] == begins_h]
            begins = max(drives, default=task.start)
            task = dataclasses.replace(task, start=begins, finish=begins + (task.finish - task.start))
        tasks[activity.name], ended[activity.name] = task, ends_h
        ties += [Tied(before, activity.name) for before in activity.after]
    for name, work in schedule.activities.items():
        ties += [Tied(before, name) for before in work.after if before not in tasks]
        ties += [_tied(link, name, schedule.calendar) for link in work.links]
    there = [tie for tie in ties if tie.before not in tasks]  # an existing building, of which the network has no order
    lag_days = max((abs(tie.days) + 7 * abs(tie.working_days) for tie in there), default=0.0)
    for item in dict.fromkeys(tie.before for tie in there):
        ready = _moment(start, -24 * math.ceil(lag_days))
        fields = {own.NAME: item, own.KIND: own.ITEM, own.GROUP: "D01"}
        tasks[item] = Task(item, f"{item}: there already", "D01", 0.0, True, ready, ready, fields, complete=True)
    end = max(task.finish for task in tasks.values())
    return Network(site.name, _moment(start, 0), end, schedule.calendar, tuple(tasks.values()), tuple(ties))


def _tied(link: Link, name: str, calendar: WorkCalendar | None) -> Tied:
    """A tie of the site file; without a calendar a lag in working days is one in calendar days."""
    if calendar is None:
        return Tied(link.activity, name, link.type, link.lag_days + link.lag_working_days * 7 / DAYS_A_WEEK)
    return Tied(link.activity, name, link.type, link.lag_days, link.lag_working_days)


def _task(site: Site, start: datetime.date, activity: Activity, hours: tuple[int, int], row: Mapping[str, str]) -> Task:
    fields = {own.NAME: activity.name, own.KIND: own.FRAME, own.GROUP: activity.group}
    dates = {own.SAFE_START: row["safe_start"], own.P50_FINISH: row["p50_finish"], own.P90_FINISH: row["p90_finish"]}
    begins, ends = (_moment(start, h) for h in hours)
    task = Task(
        activity.name,
        activity.name,
        activity.group,
        float(hours[1] - hours[0]),
        True,
        begins,
        ends,
        fields,
        activity.source,
        critical=row["critical"] == "1",
    )
    item, tranche = activity.part
    if activity.name in site.schedule.activities:
        return _work(site, start, dataclasses.replace(task, fields={**fields, **dates}), hours)
    if activity.kind == "lead":
        lead = site.leadtimes[item]
        kind = {own.KIND: own.PART, own.TRANCHE: tranche} if tranche else {own.KIND: own.ITEM}
        held = activity.finish_not_before
        return dataclasses.replace(
            task,
            title=f"order {activity.name}",
            hours=task.hours if held else _likely_weeks(lead) * HOURS_PER_WEEK,
            fields={**fields, **kind, **_weeks(lead), **dates},
            constraint=("finish on or after", _at(held, 0.0)) if held else None,
        )
    if activity.name in site.leadtimes:
        return dataclasses.replace(task, title=f"{activity.name} delivered", fields={**fields, own.KIND: own.ITEM})
    if activity.name == GO_LIVE:
        need = site.schedule.need_date
        return dataclasses.replace(
            task,
            fields={**fields, **dates, own.SAFE_START: "", own.NEEDED_BY: need.isoformat()},
            deadline=_at(need, _EVENING_H),
        )
    return task


def _work(site: Site, start: datetime.date, task: Task, hours: tuple[int, int]) -> Task:
    """A task of the schedule; its working days have eight hours."""
    work, calendar = site.schedule.activities[task.name], site.schedule.calendar
    weeks = _likely_weeks(work)
    fields = {
        **task.fields,
        **_weeks(work),
        own.KIND: own.ACTIVITY,
        own.TRANCHE: work.tranche or "",
        own.NEEDS_ROOM: "" if work.needs_room else "no",
        own.PILOT: "yes" if work.pilot else "",
    }
    agreed = ("start on or after", _at(work.start_date, 0.0)) if work.start_date else None
    task = dataclasses.replace(task, fields=fields, source=work.source, constraint=agreed, by_clock=work.continuous)
    if work.continuous or calendar is None:
        return dataclasses.replace(task, hours=weeks * HOURS_PER_WEEK)
    days = _Days(calendar)
    begins = days.start(start, hours[0])
    ends = days.finish(start, hours[1]) if hours[1] > hours[0] else begins  # less than half an hour is none
    week_h = HOURS_PER_DAY * len(set(calendar.working_days))
    return dataclasses.replace(task, hours=weeks * week_h, start=begins, finish=ends)


def _likely_weeks(given: PlannedWork | LeadTime) -> float:
    return (given.min_weeks + given.max_weeks) / 2 if given.likely_weeks is None else given.likely_weeks


def _weeks(given: PlannedWork | LeadTime) -> dict[str, str]:
    likely = given.likely_weeks
    return {
        own.MIN_WEEKS: repr(given.min_weeks),
        own.LIKELY_WEEKS: "" if likely is None else repr(likely),
        own.MAX_WEEKS: repr(given.max_weeks),
    }


class _Days:
    """Working days of a calendar, and moments of their eight hours."""

    def __init__(self, calendar: WorkCalendar) -> None:
        self._week = [name in calendar.working_days for name in DAY_NAMES]
        self._off, self._on = frozenset(calendar.holidays), frozenset(calendar.worked)

    def works(self, day: datetime.date) -> bool:
        return day in self._on or (self._week[day.weekday()] and day not in self._off)

    def start(self, start: datetime.date, hours: int) -> datetime.datetime:
        """When work begins that may begin `hours` after midnight of the first day."""
        moment = _moment(start, hours)
        return _at(moment.date(), _clock_h(hours)) if self.works(moment.date()) else moment

    def finish(self, start: datetime.date, hours: int) -> datetime.datetime:
        """When work ends that ends `hours` after midnight of the first day: the evening before, where that is midnight."""
        day = _moment(start, hours).date()
        if hours % 24 and self.works(day):
            return _at(day, _clock_h(hours))
        while day > datetime.date.min:
            day -= datetime.timedelta(days=1)
            if self.works(day):
                break
        return _at(day, _EVENING_H)


def _clock_h(hours: int) -> float:
    """Time of day at which as much of eight hours has passed as of the day."""
    worked = hours % 24 / 24 * HOURS_PER_DAY
    return _MORNING_H + worked + (_LUNCH_H if worked > _LUNCH_AFTER_H else 0.0)


def _moment(start: datetime.date, hours: int) -> datetime.datetime:
    """`hours` after midnight of a day; the first or last day that there is where it lies beyond."""
    ordinal = start.toordinal() + hours // 24
    day = datetime.date.fromordinal(min(max(ordinal, 1), datetime.date.max.toordinal()))
    return _at(day, float(hours % 24))


def _at(day: datetime.date, hour: float) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time()) + datetime.timedelta(minutes=round(60 * hour))
