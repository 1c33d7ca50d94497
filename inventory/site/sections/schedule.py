"""Lead times, activities and calendar of a site file."""

import datetime
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from inventory import groups
from inventory.catalog import Catalog
from inventory.site.messages import MISSING, nearest, shown
from inventory.site.rules import rule
from inventory.site.values import Section, Slug, Text
from inventory.site.yaml_source import Path, Problem

LEADTIME_ITEMS = (
    "gpu",
    "server",
    "switch",
    "optics",
    "rack",
    "pdu",
    "ups",
    "generator",
    "transformer",
    "switchgear",
    "cooling",
    "storage",
    "facility",
)


class LeadTime(Section):
    """A dated range, never a constant (ERR-25)."""

    min_weeks: Annotated[float, Field(ge=0, le=520)] = Field(description="Shortest quoted lead time, weeks.")
    max_weeks: Annotated[float, Field(ge=0, le=520)] = Field(description="Longest quoted lead time, weeks.")
    likely_weeks: Annotated[float, Field(ge=0, le=520)] | None = Field(
        default=None, description="Most likely lead time, weeks; default: the middle of the range."
    )
    after: tuple[Slug, ...] = Field(
        default=(),
        description="Other items of leadtimes that have to arrive first: servers are integrated after their GPUs are allocated.",
    )
    as_of: datetime.date = Field(description="Date of the quote, YYYY-MM-DD.")
    source: Text = Field(description="Source: the document, person or measurement.")


class Link(Section):
    """A tie to other work that is more than `after`: another kind, or a lag."""

    activity: Slug = Field(description="The activity or item of leadtimes that comes first.")
    type: Literal["FS", "SS", "FF", "SF"] = Field(
        default="FS",
        description="From its finish or start (first letter) to this one's start or finish (second letter).",
    )
    lag_days: Annotated[float, Field(ge=-3650, le=3650)] = Field(
        default=0, description="Calendar days between the two; negative for a lead."
    )
    lag_working_days: Annotated[float, Field(ge=-3650, le=3650)] = Field(
        default=0,
        description="Working days of schedule.calendar between the two, added to lag_days; five a week without it.",
    )


class Activity(Section):
    """Work between the deliveries and go-live, as a dated range."""

    group: Annotated[str, Field(pattern=r"^D(0\d|1[0-4])$")] = Field(
        description="Dependency group, D00 to D14: starts when the groups before it are done."
    )
    min_weeks: Annotated[float, Field(ge=0, le=520)] = Field(description="Shortest duration, weeks.")
    max_weeks: Annotated[float, Field(ge=0, le=520)] = Field(description="Longest duration, weeks.")
    likely_weeks: Annotated[float, Field(ge=0, le=520)] | None = Field(
        default=None, description="Most likely duration, weeks; default: the middle of the range."
    )
    after: tuple[Slug, ...] = Field(
        default=(), description="Other activities or items of leadtimes that must be done before, beside its group's."
    )
    links: tuple[Link, ...] = Field(default=(), description="Ties of other kinds than `after`, or with a lag.")
    needs_room: bool = Field(
        default=True,
        description="Group D04: whether it waits for the building (D03). false for receiving and assembly only: racking and "
        "cabling need the room.",
    )
    tranche: Slug | None = Field(
        default=None,
        description="Group D04: the tranche of purchase.tranches that it works on: it waits for that delivery, not for all.",
    )
    continuous: bool = Field(
        default=False,
        description="Whether it goes on over nights, weekends and holidays (a burn-in), whatever schedule.calendar says.",
    )
    start_date: datetime.date | None = Field(
        default=None,
        description="Start that is already agreed, YYYY-MM-DD: it does not start earlier, and what must be done before "
        "and is not by then is a finding.",
    )
    pilot: bool = Field(
        default=False, description="Whether it proves the software on representative hardware before the whole fleet."
    )
    source: Text = Field(description="Who estimated it.")


DAYS_A_WEEK = 5
"""Working days of a week where the site has no calendar, for lags in working days: the default of planning programs."""


class WorkCalendar(Section):
    """Days on which people work. Lead times of suppliers, and what is continuous, count every day."""

    working_days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = Field(
        default=("mon", "tue", "wed", "thu", "fri"), min_length=1, max_length=7, description="Working days of a week."
    )
    holidays: tuple[datetime.date, ...] = Field(
        default=(), max_length=4000, description="Days without work besides, YYYY-MM-DD."
    )
    worked: tuple[datetime.date, ...] = Field(
        default=(), max_length=4000, description="Days that are worked though the week says otherwise, YYYY-MM-DD."
    )
    source: Text = Field(description="Whose calendar it is.")


class Schedule(Section):
    """When the cluster is needed, and the work until then."""

    need_date: datetime.date = Field(description="Date of go-live, YYYY-MM-DD.")
    greenfield: bool = Field(description="Whether the facility is still to be built (its path is then the longest).")
    start_date: datetime.date | None = Field(
        default=None,
        description="Date on which orders can be placed, YYYY-MM-DD; default: that of the latest quote in leadtimes.",
    )
    calendar: WorkCalendar | None = Field(
        default=None,
        description="Working days and holidays of the activities; without it every day counts, seven to a week.",
    )
    activities: dict[Slug, Activity] = Field(
        default={}, description="Work by name; a group of steps without any takes no time in the schedule."
    )


@rule("leadtimes", "schedule")
def lead_times_are_dated_ranges(
    catalog: Catalog, leadtimes: dict[str, LeadTime], schedule: Schedule
) -> Iterator[Problem]:
    for item, lead in leadtimes.items():
        path = ("leadtimes", item)
        if item not in LEADTIME_ITEMS:
            near = nearest(item, LEADTIME_ITEMS)
            yield Problem(
                path,
                "an unknown item",
                item,
                f"one of {', '.join(LEADTIME_ITEMS)}",
                f"write {near}" if near else "delete the item",
                nearest=near,
            )
        if lead.min_weeks > lead.max_weeks:
            yield Problem(
                (*path, "min_weeks"),
                "a range that ends before it starts",
                f"{lead.min_weeks:g} to {lead.max_weeks:g}",
                "min_weeks at most max_weeks",
                "swap the two",
            )
        yield from _likely_in_range(path, lead)
        if lead.as_of > schedule.need_date:
            yield Problem(
                (*path, "as_of"),
                "a quote from after go-live",
                shown(lead.as_of),
                f"a date before schedule.need_date, {schedule.need_date}",
                "correct one of the two dates",
            )
    for item in ("gpu", *(["facility"] if schedule.greenfield else [])):
        if item not in leadtimes:
            why = " since schedule.greenfield is true" if item == "facility" else ""
            yield Problem(
                ("leadtimes", item),
                MISSING,
                "",
                f"the dated lead time of {item}{why}",
                f"add '{item}: {{min_weeks: ..., max_weeks: ..., as_of: ..., source: ...}}' in leadtimes",
            )


def _likely_in_range(path: Path, given: LeadTime | Activity) -> Iterator[Problem]:
    likely = given.likely_weeks
    if likely is not None and given.min_weeks <= given.max_weeks and not given.min_weeks <= likely <= given.max_weeks:
        yield Problem(
            (*path, "likely_weeks"),
            "outside its range",
            f"{likely:g}",
            f"between min_weeks and max_weeks, {given.min_weeks:g} to {given.max_weeks:g}",
            "correct it, or leave it out: the middle is taken",
        )


@rule("leadtimes")
def orders_make_an_order(catalog: Catalog, leadtimes: dict[str, LeadTime]) -> Iterator[Problem]:
    for item, lead in leadtimes.items():
        for n, before in enumerate(lead.after):
            if before not in leadtimes:
                near = nearest(before, list(leadtimes))
                yield Problem(
                    ("leadtimes", item, "after", n),
                    "an item without a lead time",
                    before,
                    f"one of {', '.join(leadtimes)}",
                    f"write {near}" if near else f"add {before} to leadtimes, or take it out of after",
                    nearest=near,
                )
    circle = groups.cycle({item: [b for b in lead.after if b in leadtimes] for item, lead in leadtimes.items()})
    if circle:
        yield Problem(
            ("leadtimes", circle[0], "after"),
            "orders that wait for each other",
            " after ".join(circle),
            "an order in which each item can arrive",
            "delete one of these dependencies",
        )


@rule("leadtimes", "schedule")
def activities_make_an_order(catalog: Catalog, leadtimes: dict[str, LeadTime], schedule: Schedule) -> Iterator[Problem]:
    known = [*schedule.activities, *leadtimes]
    for name, activity in schedule.activities.items():
        path = ("schedule", "activities", name)
        if name in LEADTIME_ITEMS:
            yield Problem(path, "the name of a lead time", name, "a name that no lead time has", "rename the activity")
        if activity.min_weeks > activity.max_weeks:
            found = f"{activity.min_weeks:g} to {activity.max_weeks:g}"
            yield Problem(
                (*path, "min_weeks"),
                "a range that ends before it starts",
                found,
                "min_weeks at most max_weeks",
                "swap the two",
            )
        yield from _likely_in_range(path, activity)
        named: list[tuple[Path, str]] = [(("after", n), before) for n, before in enumerate(activity.after)]
        named += [(("links", n, "activity"), link.activity) for n, link in enumerate(activity.links)]
        for below, before in named:
            if before not in known:
                near = nearest(before, known)
                yield Problem(
                    (*path, *below),
                    "an unknown activity",
                    before,
                    f"one of {', '.join(known)}",
                    f"write {near}" if near else "name an activity of the schedule or an item of leadtimes",
                    nearest=near,
                )
        if activity.group != groups.ROOM_GROUP and not activity.needs_room:
            yield Problem(
                (*path, "needs_room"),
                "only work of D04 can do without the room",
                activity.group,
                "group D04, or no needs_room",
                "delete needs_room, or move receiving and assembly to D04",
            )
    nodes = groups.waits(
        {
            n: groups.Work(a.group, (*a.after, *(link.activity for link in a.links)), a.needs_room)
            for n, a in schedule.activities.items()
        },
        {i: groups.Order(groups.DELIVERED_TO.get(i, "")) for i in leadtimes if i not in schedule.activities},
    )
    circle = groups.cycle(nodes)
    if circle:
        first = next(name for name in circle if name in schedule.activities)
        yield Problem(
            ("schedule", "activities", first, "after" if schedule.activities[first].after else "links"),
            "activities that wait for each other",
            " after ".join(circle),
            "an order in which each activity can start; groups come after those before them",
            "delete one of these dependencies, or move the activity to a later group",
        )
    if schedule.start_date and schedule.start_date >= schedule.need_date:
        yield Problem(
            ("schedule", "start_date"),
            "a start after go-live",
            shown(schedule.start_date),
            f"a date before schedule.need_date, {schedule.need_date}",
            "correct one of the two dates",
        )
