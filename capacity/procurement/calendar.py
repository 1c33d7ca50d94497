"""Working time: from hours of the calendar to hours that are worked, and back.

A day is worked around the clock or not at all: durations are in weeks or days, and parts of a day say nothing. Hours count
from midnight of the day on which the programme starts, and may be negative. All functions take arrays of whole hours.
"""

import datetime
from functools import cached_property

import numpy as np
import numpy.typing as npt

from inventory.site.sections.schedule import DAYS_A_WEEK, WorkCalendar

Hours = npt.NDArray[np.int64]
_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class EveryDay:
    """No calendar: every hour counts, and a lag of five working days is a week."""

    days_a_week = 7

    def worked(self, t: Hours) -> Hours:
        """Hours worked until `t`."""
        return t

    def ends(self, w: Hours) -> Hours:
        """The first moment at which `w` hours are worked: when something ends."""
        return w

    def begins(self, w: Hours) -> Hours:
        """The last moment at which no more than `w` hours are worked: when the next thing begins."""
        return w

    def effort(self, duration: Hours) -> Hours:
        """Worked hours of a duration whose weeks have seven days: a week of five working days is five."""
        return (duration * self.days_a_week + 3) // 7

    def lag(self, days: float) -> int:
        """Hours of worked time of a lag in working days."""
        return round(days * 24 * 7 / DAYS_A_WEEK)


class WorkingTime(EveryDay):
    """The days of a site's calendar, `reach_days` before and after the start; beyond that every day counts."""

    def __init__(self, calendar: WorkCalendar, start: datetime.date, reach_days: int) -> None:
        first = np.datetime64(start - datetime.timedelta(days=min(reach_days, start.toordinal() - 1)))
        self._before = int((np.datetime64(start) - first).astype(int))
        days = first + np.arange(self._before + reach_days)
        mask = [name in calendar.working_days for name in _NAMES]
        self._is_worked = np.is_busday(days, weekmask=mask, holidays=np.array(calendar.holidays, dtype="datetime64[D]"))
        self._is_worked |= np.isin(days, np.array(calendar.worked, dtype="datetime64[D]"))
        self._is_worked[[0, -1]] = True  # an end of the table is always found
        self.days_a_week = sum(mask)

    @cached_property
    def _hours_before(self) -> Hours:
        """Hours worked before each day, 0 at the start."""
        counts = np.concatenate([[0], np.cumsum(self._is_worked)]).astype(np.int64) * 24
        return counts - counts[self._before]

    @cached_property
    def _working_days(self) -> Hours:
        return np.flatnonzero(self._is_worked).astype(np.int64) - self._before

    @cached_property
    def _days_behind(self) -> int:
        """Working days of the table before the start."""
        return int(self._is_worked[: self._before].sum())

    def worked(self, t: Hours) -> Hours:
        day = np.clip(t // 24 + self._before, 0, len(self._is_worked) - 1)
        return self._hours_before[day] + np.where(self._is_worked[day], t - (day - self._before) * 24, 0)

    def ends(self, w: Hours) -> Hours:
        at = np.clip((w - 1) // 24 + self._days_behind, 0, len(self._working_days) - 1)
        return self._working_days[at] * 24 + (w - (at - self._days_behind) * 24)

    def begins(self, w: Hours) -> Hours:
        at = np.clip(w // 24 + self._days_behind, 0, len(self._working_days) - 1)
        return self._working_days[at] * 24 + (w - (at - self._days_behind) * 24)

    def lag(self, days: float) -> int:
        return round(days * 24)
