"""Calendars of scheduling programs: hours of each weekday, and the days that differ.

    calendar = of_xer(row, calendars)      a row of P6's table CALENDAR, with its nested text `clndr_data`
    calendar = of_mspdi(element, …)        a <Calendar> of Microsoft Project XML
    calendar.span_days(start, hours)       calendar days that a duration takes, days off included

`clndr_data` is a tree of nodes `(0||name(attributes)(nodes))`: below DaysOfWeek one node per weekday (1 is Sunday) with a node
per shift (`s|08:00|f|12:00`), below Exceptions one node per day (`d|` and the number of days since 1899-12-30), without shifts
where the day is off. Line ends stand in it as the sign 0x7F.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any
from xml.etree.ElementTree import Element

from inventory.imports.core.source import number

DAY_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HOURS_PER_DAY, HOURS_PER_WEEK = 8.0, 40.0
"""Where a file has no calendar: the defaults of both programs."""
XER_EPOCH = date(1899, 12, 30)
"""Day 0 of exceptions in `clndr_data`."""
_MOST_DAYS = 40_000
_MOST_DEPTH = 64
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::\d{2})?\s*([AaPp][Mm])?")
_TOKEN = re.compile(r"[()]|[^()]+")
_DAILY, _YEARLY = {"", "1", "9"}, "2"
"""Type of an exception of Microsoft Project: every day of its period; one date of each year."""


@dataclass(frozen=True)
class Calendar:
    """`week` are hours Monday to Sunday, `exceptions` hours of days that differ; `stated` where the file gives its days.

    `unread` names what of it was not understood.
    """

    name: str = ""
    day_h: float = HOURS_PER_DAY
    week_h: float = HOURS_PER_WEEK
    week: tuple[float, ...] = (8.0, 8.0, 8.0, 8.0, 8.0, 0.0, 0.0)
    exceptions: Mapping[date, float] = field(default_factory=dict)
    stated: bool = False
    unread: tuple[str, ...] = ()

    @property
    def working_days(self) -> tuple[str, ...]:
        """Names of the weekdays that are worked."""
        return tuple(name for name, hours in zip(DAY_NAMES, self.week, strict=True) if hours > 0)

    @property
    def days_a_week(self) -> float:
        """Working days of a week: as stated, else from the hours of week and day."""
        return float(len(self.working_days)) if self.stated else self.week_h / self.day_h

    @property
    def continuous(self) -> bool:
        """Whether every hour counts."""
        return self.week_h >= 168 or (self.stated and min(self.week) >= 24 and not self.exceptions)

    def hours(self, day: date) -> float:
        """Hours worked on a day."""
        return self.exceptions.get(day, self.week[day.weekday()])

    def holidays(self, since: date) -> list[date]:
        """Days off that the week would work, from a day on."""
        return sorted(d for d, hours in self.exceptions.items() if d >= since and not hours and self.week[d.weekday()])

    def worked(self, since: date) -> list[date]:
        """Days worked that the week has off, from a day on."""
        return sorted(d for d, hours in self.exceptions.items() if d >= since and hours and not self.week[d.weekday()])

    def shorter(self, since: date) -> list[date]:
        """Worked days with other hours than their weekday, or than a whole day where that is off, from a day on."""
        return sorted(
            d
            for d, hours in self.exceptions.items()
            if d >= since and hours and abs(hours - (self.week[d.weekday()] or max(self.week))) > 1e-6
        )

    def short_days(self) -> dict[str, float]:
        """Weekdays that are worked for fewer hours than the longest, with their hours."""
        most = max(self.week)
        return {name: h for name, h in zip(DAY_NAMES, self.week, strict=True) if 0 < h < most - 1e-6}

    def span_days(self, start: date, hours: float) -> int | None:
        """Calendar days from the beginning of `start` until `hours` are worked; None where they never are."""
        left, day = hours, start
        for n in range(min(_MOST_DAYS, (date.max - start).days)):
            if left <= 1e-6:
                return n
            left -= self.hours(day)
            day += timedelta(days=1)
        return None


def of_xer(row: Mapping[str, str], others: Mapping[str, Mapping[str, str]]) -> Calendar:
    """A row of CALENDAR; days off of the calendar that it is based on count where it says nothing of a day."""
    day = number(row.get("day_hr_cnt", "")) or HOURS_PER_DAY
    week_h = number(row.get("week_hr_cnt", "")) or HOURS_PER_WEEK
    name = row.get("clndr_name", "")
    text = row.get("clndr_data", "").replace("\x7f", " ").strip()
    if not text:
        return Calendar(name, day, week_h)
    week, exceptions, unread = _clndr_data(text)
    base = others.get(row.get("base_clndr_id", ""))
    if base is not None and base is not row:
        inherited = _clndr_data(base.get("clndr_data", "").replace("\x7f", " "))[1]
        exceptions = {**inherited, **exceptions}
    if week is None:
        return Calendar(name, day, week_h, unread=("clndr_data without days of the week",))
    return Calendar(name, day, number(row.get("week_hr_cnt", "")) or sum(week), week, exceptions, True, tuple(unread))


def _clndr_data(text: str) -> tuple[tuple[float, ...] | None, dict[date, float], list[str]]:
    """Hours of the week (None for none), hours of the days that differ, and what was not understood."""
    exceptions: dict[date, float] = {}
    unread: list[str] = []
    week: tuple[float, ...] | None = None
    for name, _, nodes in _nodes(_tree(text)):
        if name == "DaysOfWeek":
            hours = [0.0] * 7
            for day, shift, shifts in _nodes(nodes):
                if day.isdecimal() and 1 <= int(day) <= 7:
                    hours[(int(day) + 5) % 7] = sum(_shift(s) for s in (shift, *(a for _, a, _ in _nodes(shifts))))
            week = tuple(hours)
        elif name == "Exceptions":
            for _, said, shifts in _nodes(nodes):
                serial = _pairs(said).get("d", "")
                if serial.isdecimal() and int(serial) < 200_000:
                    exceptions[XER_EPOCH + timedelta(days=int(serial))] = sum(_shift(a) for _, a, _ in _nodes(shifts))
                else:
                    unread.append(f"exception {said!r}")
    if week is not None and not any(week):
        week = None
    return week, exceptions, unread


def _tree(text: str) -> list[Any]:
    """The brackets of a text as nested lists; what is never closed ends with the text, and what is nested too deep is nothing."""
    root: list[Any] = []
    stack = [root]
    for token in _TOKEN.findall(text):
        if token == "(" and len(stack) > _MOST_DEPTH:
            return []
        if token == "(":
            stack.append([])
            stack[-2].append(stack[-1])
        elif token == ")":
            if len(stack) > 1:
                stack.pop()
        elif token.strip():
            stack[-1].append(token.strip())
    return root


def _nodes(tree: list[Any]) -> list[tuple[str, str, list[Any]]]:
    """(name, attributes, nodes) of each node at any depth above the next named ones."""
    found: list[tuple[str, str, list[Any]]] = []
    for item in tree:
        if not isinstance(item, list):
            continue
        if item and isinstance(item[0], str) and "||" in item[0]:
            lists = [part for part in item[1:] if isinstance(part, list)]
            said = " ".join(part for part in (lists[0] if lists else []) if isinstance(part, str))
            name = item[0].partition("||")[2]
            nodes = [node for part in lists for node in part if isinstance(node, list)]
            found += _nodes(nodes) if name == "CalendarData" else [(name, said, nodes)]
        else:
            found += _nodes(item)
    return found


def _pairs(said: str) -> dict[str, str]:
    parts = [part.strip() for part in said.split("|")]
    return dict(zip(parts[::2], parts[1::2], strict=False))


def _shift(said: str) -> float:
    pairs = _pairs(said)
    return _hours_between(pairs.get("s", ""), pairs.get("f", ""))


def _hours_between(start: str, finish: str) -> float:
    begin, end = _clock(start), _clock(finish)
    if begin is None or end is None:
        return 0.0
    return end - begin if end > begin else end - begin + 24


def _clock(text: str) -> float | None:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    hour = int(match[1])
    if match[3]:
        hour = hour % 12 + (12 if match[3].lower() == "pm" else 0)
    return hour + int(match[2]) / 60


def of_mspdi(calendars: Mapping[str, Element], uid: str, space: str, day_h: float, week_h: float) -> Calendar:
    """A calendar of Microsoft Project with what it takes from its base; `day_h` and `week_h` as the project counts them."""
    week: list[float | None] = [None] * 7
    exceptions: dict[date, float] = {}
    unread: list[str] = []
    name, here, seen = "", uid, set[str]()
    while here in calendars and here not in seen:
        seen.add(here)
        element = calendars[here]
        name = name or _text(element, space, "Name")
        for day in element.iterfind(f"{space}WeekDays/{space}WeekDay"):
            kind, hours = _text(day, space, "DayType"), _day_hours(day, space)
            if kind.isdecimal() and 1 <= int(kind) <= 7:
                at = (int(kind) + 5) % 7
                week[at] = hours if week[at] is None else week[at]
            else:
                _add(exceptions, _period(day, space), hours, unread, f"a week day of type {kind or '(none)'}")
        for exception in element.iterfind(f"{space}Exceptions/{space}Exception"):
            _exception(exception, space, exceptions, unread)
        if any(True for _ in element.iterfind(f"{space}WorkWeeks/{space}WorkWeek/{space}WeekDays/{space}WeekDay")):
            unread.append("work weeks")
        here = _text(element, space, "BaseCalendarUID")
    stated = any(hours is not None for hours in week)
    usual = Calendar().week
    filled = tuple(u if hours is None else hours for hours, u in zip(week, usual, strict=True))
    return Calendar(name, day_h, week_h, filled, exceptions, stated or bool(exceptions), tuple(dict.fromkeys(unread)))


def _exception(element: Element, space: str, found: dict[date, float], unread: list[str]) -> None:
    kind, named = _text(element, space, "Type"), _text(element, space, "Name") or "an exception"
    period, hours = _period(element, space), _day_hours(element, space)
    every = _text(element, space, "Period")
    if kind in _DAILY and every in ("", "0", "1"):
        _add(found, period, hours, unread, named)
        return
    month, month_day = _text(element, space, "Month"), _text(element, space, "MonthDay")
    if kind == _YEARLY and period and month.isdecimal() and month_day.isdecimal():
        for year in range(period[0].year, period[1].year + 1):
            try:
                day = date(year, int(month) + 1, int(month_day))
            except ValueError:
                continue
            if period[0] <= day <= period[1]:
                found.setdefault(day, hours)
        return
    unread.append(f"{named} (repeats in a way that is not read)")


def _add(
    found: dict[date, float], period: tuple[date, date] | None, hours: float, unread: list[str], named: str
) -> None:
    if period is None or not 0 <= (period[1] - period[0]).days < _MOST_DAYS:
        unread.append(f"{named} (without a period)")
        return
    for n in range((period[1] - period[0]).days + 1):
        found.setdefault(period[0] + timedelta(days=n), hours)


def _day_hours(element: Element, space: str) -> float:
    """Hours of a day; a working day without times has the eight of the program's default."""
    if _text(element, space, "DayWorking") != "1":
        return 0.0
    times = [
        _hours_between(_text(t, space, "FromTime"), _text(t, space, "ToTime"))
        for t in element.iterfind(f"{space}WorkingTimes/{space}WorkingTime")
    ]
    return sum(times) or HOURS_PER_DAY


def _period(element: Element, space: str) -> tuple[date, date] | None:
    period = element.find(f"{space}TimePeriod")
    if period is None:
        return None
    try:
        first, last = (date.fromisoformat(_text(period, space, name)[:10]) for name in ("FromDate", "ToDate"))
    except ValueError:
        return None
    return first, last


def _text(element: Element, space: str, name: str) -> str:
    return (element.findtext(f"{space}{name}") or "").strip()
