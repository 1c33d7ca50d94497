"""A programme of a scheduler as `schedule.activities` of a site file, and the site file with them in it.

    proposal = propose(programme, path)     activities and calendar as plain values, and what could not be carried over
    imported(programme, …)                  the files of `bringup import programme`

Tasks that name a group D00 to D14 in their code, name or WBS become activities. Links keep their type and lag. A milestone
is a moment: one that names a group is an activity that takes no time; any other is taken out, and what comes before is
linked to what comes after it with both lags, which says the same. A programme has one duration where Bringup wants a
dated range; the range is then that duration twice, and a finding says so.

A programme that `bringup export` wrote says itself which activity of the site a task is, and what it has besides
(`programme_fields`). Its orders and the moments of its groups are made anew with every plan and are not carried over. What the
planner changed is: a duration becomes the likely one, and the range is widened to hold it.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from inventory.catalog import Catalog
from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import Imported, some
from inventory.imports.core.source import number
from inventory.imports.core.tables import csv_text, plain, records
from inventory.imports.schedules import fields as own
from inventory.imports.schedules import site_file
from inventory.imports.schedules.programme import FOLDER, Programme
from inventory.imports.schedules.work_calendar import Calendar
from inventory.site.sections.schedule import LEADTIME_ITEMS

__all__ = ["FOLDER", "Proposal", "imported", "propose", "text_of"]

_SLUG = re.compile(r"[a-z0-9][-a-z0-9_]*")
_SAME_DURATION = 1e-3
"""Durations are read with four digits."""
GROUP = re.compile(r"\bD(0\d|1[0-4])\b")
_START_CONSTRAINTS = ("start on", "start on or after", "mandatory start")
_UNTIMED = ("", "as late as possible")
_MOST_LINKS = 20_000
_LAST_EXCEPTION_YEARS = 15
"""Days off further ahead than this are not written: calendars of planning programs reach to the end of the century."""


@dataclass(frozen=True)
class Proposal:
    """`activities` of schedule.activities by name, `calendar` of schedule.calendar (None where the file has no days)."""

    activities: Mapping[str, dict[str, Any]]
    calendar: dict[str, Any] | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class _Link:
    before: str
    after: str
    type: str
    days: float = 0.0
    working_days: float = 0.0


def propose(programme: Programme, path: Path) -> Proposal:
    """The activities that a programme stands for. Weeks that remain count for tasks in progress; complete ones are left out."""
    rows = {row["id"]: row for row in records(programme.activities)}
    slugs, entries, findings = _activities(rows, programme, path)
    before = {key: row[own.NAME] for key, row in rows.items() if _own_kind(row) == own.ITEM} | slugs
    links, lost = _links(programme, rows, slugs, before)
    for link in links:
        _tie(entries[slugs[link.after]], before[link.before], link)
    if lost:
        findings.append(
            finding(
                "IMPORT-LINK-DROPPED",
                path.name,
                links=len(lost),
                words={"names": some(lost)},
                remedies=[remedy(fix="group"), remedy(fix="tie")],
            )
        )
    since = min((r["start"] for key, r in rows.items() if key in slugs and r["start"]), default="")
    whole = any(_own_kind(row) for row in rows.values())
    calendar, found = _calendar(programme.default, date.fromisoformat(since) if since else None, whole, path)
    return Proposal(entries, calendar if entries else None, (*findings, *found))


def text_of(proposal: Proposal) -> str:
    """The proposal as YAML text to review."""
    head = "# Keys of `schedule` of the site file, as the programme has them. Review groups and ranges.\n"
    body: dict[str, Any] = {"calendar": proposal.calendar} if proposal.calendar else {}
    return head + yaml.safe_dump({**body, "activities": dict(proposal.activities)}, sort_keys=False, allow_unicode=True)


def imported(
    programme: Programme,
    folder: str,
    path: Path,
    site_text: str,
    site_name: str,
    over: bool,
    catalog: Catalog | None = None,
) -> Imported:
    """The files that an import writes: activities.csv, links.csv and activities.yaml in `folder`, and the site file.

    `over` replaces activities that the site file has under the same name. `catalog` is the site's own, where it has one.
    """
    proposal = propose(programme, path)
    findings = [*programme.findings, *proposal.findings]
    files = {
        f"{folder}/activities.csv": csv_text(programme.activities),
        f"{folder}/links.csv": csv_text(programme.links),
        f"{folder}/activities.yaml": text_of(proposal),
    }
    if proposal.activities:
        edited = site_file.with_activities(site_text, proposal.activities, proposal.calendar, over, catalog)
        findings += [replace(one, subject=site_name) for one in edited.findings]
        if edited.text != site_text:
            files[site_name] = edited.text
    kinds = programme.activities["kind"].value_counts()
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    starts = [text for text in programme.activities["start"] if text]
    ends = [text for text in programme.activities["finish"] if text]
    span = f", {min(starts)} to {max(ends)}" if starts and ends else ""
    summary = f"{len(programme.activities)} activities ({counted}), {len(programme.links)} links{span}"
    return Imported(programme.activities, summary, tuple(findings), files)


def _activities(
    rows: Mapping[str, dict[str, str]], programme: Programme, path: Path
) -> tuple[dict[str, str], dict[str, dict[str, Any]], list[Finding]]:
    """Name by task id, entries by name, and findings about tasks that have none."""
    slugs: dict[str, str] = {}
    entries: dict[str, dict[str, Any]] = {}
    without, unread, fixed, changed, ordered, ranged = [], [], [], [], [], 0
    for key, row in rows.items():
        moment, kind = _is_moment(row), _own_kind(row)
        if kind in (own.ITEM, own.PART) and _is_changed(row):
            ordered.append(f"{row[own.NAME]} ({row['duration_weeks']} weeks)")
        if kind not in ("", own.ACTIVITY):
            continue
        if row["status"] == "complete" or row["kind"] not in ("task", "milestone"):
            continue
        given = f"{row.get(own.GROUP, '')} " if kind else ""
        group = GROUP.search(f"{given}{row['code']} {row['name']} {row['wbs']}".upper())
        if group is None:
            if not moment:
                without.append(row["name"] or row["code"])
            elif row["constraint"] not in _UNTIMED:
                fixed.append(f"{row['name'] or row['code']} ({row['constraint']} {row['constraint_date']})")
            continue
        if not (row["duration_weeks"] or moment):
            unread.append(row["name"] or row["code"])
            continue
        slugs[key] = _slug(row, entries)
        entries[slugs[key]] = entry = {"group": group[0], **_weeks(row, programme, moment)}
        entry["source"] = f"{path.name}, {row['code']} {row['name']}"
        if kind:
            same = _as_sent(entry, row)
            if same and (said := row.get(own.SOURCE) or row.get("Notes", "")):
                entry["source"] = said
            if not same:
                changed.append(f"{slugs[key]} ({row['duration_weeks'] or 0} weeks)")
        ranged += not moment and not kind
        if row["constraint"] in _START_CONSTRAINTS and row["constraint_date"]:
            entry["start_date"] = date.fromisoformat(row["constraint_date"])
        elif row["constraint"] not in _UNTIMED:
            fixed.append(f"{row['name'] or row['code']} ({row['constraint']} {row['constraint_date']})")
    findings = []
    if unread:
        findings.append(
            finding(
                "IMPORT-DURATION",
                path.name,
                case="unread",
                severity="warning",
                tasks=len(unread),
                words={"names": some(unread)},
                remedies=[remedy(fix="correct")],
            )
        )
    if ranged:
        findings.append(
            finding(
                "IMPORT-ONE-DURATION",
                path.name,
                words={"activities": ranged},
                remedies=[remedy(fix="range")],
            )
        )
    if changed:
        findings.append(
            finding(
                "IMPORT-DURATION-CHANGED",
                path.name,
                activities=len(changed),
                words={"names": some(changed)},
                remedies=[remedy(fix="check")],
            )
        )
    if ordered:
        findings.append(
            finding(
                "IMPORT-ORDER-CHANGED",
                path.name,
                orders=len(ordered),
                words={"names": some(ordered)},
                remedies=[remedy(fix="quote")],
            )
        )
    if without:
        findings.append(finding("IMPORT-NO-GROUP", path.name, words={"tasks": len(without), "names": some(without)}))
    if fixed:
        findings.append(
            finding(
                "IMPORT-CONSTRAINT",
                path.name,
                constraints=len(fixed),
                words={"names": some(fixed)},
                remedies=[remedy(fix="start-date")],
            )
        )
    return slugs, entries, findings


def _is_moment(row: Mapping[str, str]) -> bool:
    return (
        row["kind"] in ("task", "milestone")
        and row["duration_weeks"] in ("", "0")
        and (row["kind"] == "milestone" or row["duration_weeks"] == "0")
    )


def _own_kind(row: Mapping[str, str]) -> str:
    """What Bringup wrote the task for; '' for a task that it did not write."""
    kind = row.get(own.KIND, "")
    return kind if kind in (own.ACTIVITY, own.ITEM, own.PART, own.FRAME, own.TIE) and row.get(own.NAME) else ""


def _sent_weeks(row: Mapping[str, str]) -> tuple[float, float | None, float] | None:
    """Shortest, likely and longest weeks that Bringup wrote beside the duration; None where they are gone."""
    low, likely, high = (number(row.get(label, "")) for label in (own.MIN_WEEKS, own.LIKELY_WEEKS, own.MAX_WEEKS))
    return None if low is None or high is None else (low, likely, high)


def _is_changed(row: Mapping[str, str]) -> bool:
    """Whether a task has another duration than Bringup gave it; one that a promised delivery holds has none of its own."""
    sent = _sent_weeks(row)
    if sent is None or row["constraint"] == "finish on or after" or row["status"] == "complete":
        return False
    low, likely, high = sent
    expected = (low + high) / 2 if likely is None else likely
    weeks = number(row["duration_weeks"]) or 0.0
    return row["status"] == "in progress" or abs(weeks - expected) > _SAME_DURATION * max(expected, 0.1)


def _as_sent(entry: dict[str, Any], row: Mapping[str, str]) -> bool:
    """Give an entry what Bringup wrote with its task; False where its duration is another one now."""
    sent, same = _sent_weeks(row), not _is_changed(row)
    if sent and row["status"] != "in progress":
        low, likely, high = sent
        if not same:
            likely = entry["max_weeks"]
            low, high = min(low, likely), max(high, likely)
        entry |= {"min_weeks": low, "max_weeks": high, **({} if likely is None else {"likely_weeks": likely})}
    if row.get(own.TRANCHE):
        entry["tranche"] = row[own.TRANCHE]
    if row.get(own.NEEDS_ROOM) == "no":
        entry["needs_room"] = False
    if row.get(own.PILOT) == "yes":
        entry["pilot"] = True
    return same


def _slug(row: Mapping[str, str], taken: Mapping[str, object]) -> str:
    if _own_kind(row) and _SLUG.fullmatch(row[own.NAME]) and row[own.NAME] not in taken:
        return row[own.NAME]
    base = plain(row["name"]).replace(" ", "-") or plain(row["code"]).replace(" ", "-")
    base = re.sub(r"[^-a-z0-9_]", "", base).strip("-_") or f"task-{row['id']}"
    if base in LEADTIME_ITEMS:
        base += "-work"
    slug, again = base, 1
    while slug in taken:
        again += 1
        slug = f"{base}-{again}"
    return slug


def _weeks(row: Mapping[str, str], programme: Programme, moment: bool) -> dict[str, Any]:
    """Durations: weeks of work; of a task with other days off than the project the calendar weeks that it takes."""
    if moment and not _own_kind(row):
        return {"min_weeks": 0.0, "max_weeks": 0.0}
    begun = row["status"] == "in progress" and row["remaining_weeks"]
    weeks = float((row["remaining_weeks"] if begun else row["duration_weeks"]) or 0)
    its, usual = programme.calendars.get(row["id"]), programme.default
    if _own_kind(row) and its is usual:
        return {"min_weeks": weeks, "max_weeks": weeks}
    if its is None or its.continuous:
        return {"min_weeks": weeks, "max_weeks": weeks, "continuous": True}
    other = its.stated and (its.working_days, its.exceptions) != (usual.working_days, usual.exceptions)
    if other and row["calendar_days"]:
        weeks = float(f"{int(row['calendar_days']) / 7:.4g}")
        return {"min_weeks": weeks, "max_weeks": weeks, "continuous": True}
    return {"min_weeks": weeks, "max_weeks": weeks}


def _links(
    programme: Programme, rows: Mapping[str, dict[str, str]], slugs: Mapping[str, str], names: Mapping[str, str]
) -> tuple[list[_Link], list[str]]:
    """Links between activities, with moments taken out; and those that are lost, for a message.

    `names` are what an activity can be tied to: the activities, and the orders that Bringup wrote.
    """
    links = [_link(row, programme) for row in records(programme.links)]
    links = [link for link in links if link.before in rows and link.after in rows and not _is_of_groups(link, rows)]
    inner = [
        key
        for key, row in rows.items()
        if key not in slugs and row["status"] != "complete" and _is_moment(row) and _own_kind(row) in ("", own.TIE)
    ]
    into: dict[str, dict[_Link, None]] = defaultdict(dict)
    out: dict[str, dict[_Link, None]] = defaultdict(dict)
    for link in links:
        into[link.after][link] = None
        out[link.before][link] = None
    open_: list[_Link] = []
    for key in inner:
        before, after = list(into.pop(key, ())), list(out.pop(key, ()))
        if len(before) * len(after) > _MOST_LINKS:
            into[key], out[key] = dict.fromkeys(before), dict.fromkeys(after)
            continue
        if not before:
            open_.extend(link for link in after if link.days or link.working_days)
        for link in before:
            out[link.before].pop(link, None)
        for link in after:
            into[link.after].pop(link, None)
        for first in before:
            for second in after:
                both = _Link(
                    first.before,
                    second.after,
                    first.type[0] + second.type[1],
                    first.days + second.days,
                    first.working_days + second.working_days,
                )
                if both.before != both.after:
                    into[both.after][both] = None
                    out[both.before][both] = None
    found = [link for key in rows for link in into.get(key, ())]
    kept = [link for link in found if link.before in names and link.after in slugs]
    carried = set(kept)
    gone = [link for link in (*found, *open_) if link not in carried and not _is_past(link, rows)]
    codes = {key: row["code"] or row["id"] for key, row in rows.items()}
    return kept, [f"{codes[link.before]} {link.type} {codes[link.after]}" for link in gone]


def _is_of_groups(link: _Link, rows: Mapping[str, dict[str, str]]) -> bool:
    """Whether a link says what the groups and lead times of a site say themselves: made by Bringup, or a new task in its group."""
    before, after = rows[link.before], rows[link.after]
    first, last = _own_kind(before), _own_kind(after)
    if link.type != "FS" or link.days or link.working_days:
        return False
    if not (first in (own.FRAME, own.PART) or last in (own.FRAME, own.PART, own.ITEM)):
        return False
    if first and last:
        return True
    frame, task = (before, after) if first else (after, before)
    group = frame.get(own.GROUP, "")
    return bool(group) and group in f"{task['code']} {task['name']} {task['wbs']}".upper()


def _is_past(link: _Link, rows: Mapping[str, dict[str, str]]) -> bool:
    """Whether nothing is left to wait for: the successor is done, or the predecessor is and there is no lag."""
    lag = link.days or link.working_days
    return rows[link.after]["status"] == "complete" or (rows[link.before]["status"] == "complete" and not lag)


def _link(row: Mapping[str, str], programme: Programme) -> _Link:
    """A link; working days of another calendar than the project's are brought to weeks of the same length. A lag in a
    calendar that works by exceptions only is counted in calendar days.
    """
    days, kind = float(row["lag_days"] or 0), row["type"] if row["type"] in ("FS", "SS", "FF", "SF") else "FS"
    week_days = float(row["lag_week_days"] or 0)
    if row["lag_unit"] == "calendar" or not days or not week_days:
        return _Link(row["predecessor"], row["successor"], kind, days=days)
    scale = programme.default.days_a_week / week_days
    return _Link(row["predecessor"], row["successor"], kind, working_days=round(days * scale, 4))


def _tie(entry: dict[str, Any], before: str, link: _Link) -> None:
    if link.type == "FS" and not link.days and not link.working_days:
        if before not in entry.setdefault("after", []):
            entry["after"].append(before)
        return
    tie: dict[str, Any] = {"activity": before, "type": link.type}
    if link.days:
        tie["lag_days"] = link.days
    if link.working_days:
        tie["lag_working_days"] = link.working_days
    if tie not in entry.setdefault("links", []):
        entry["links"].append(tie)


def _calendar(
    calendar: Calendar, since: date | None, whole: bool, path: Path
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """`schedule.calendar` as the project has it, from the first start on; None where the file does not state its days.

    `whole`: with the days before and long after, as a calendar of Bringup has only what somebody gave.
    """
    if not calendar.stated or calendar.continuous or since is None:
        return None, []
    last = date.max if whole else date(min(since.year + _LAST_EXCEPTION_YEARS, date.max.year), 12, 31)
    since = date.min if whole else since
    made: dict[str, Any] = {"working_days": list(calendar.working_days)}
    for name, days in (("holidays", calendar.holidays(since)), ("worked", calendar.worked(since))):
        if kept := [day for day in days if day <= last]:
            made[name] = kept
    made["source"] = f"{path.name}, calendar {calendar.name or '(without a name)'}"
    short = [f"{name} ({hours:g} h of {max(calendar.week):g})" for name, hours in calendar.short_days().items()]
    short += [f"{day} ({calendar.hours(day):g} h)" for day in calendar.shorter(since) if day <= last]
    if not short:
        return made, []
    lost = finding(
        "IMPORT-CALENDAR-HOURS",
        path.name,
        days=len(short),
        words={"calendar": calendar.name or "(without a name)", "names": some(short)},
        remedies=[remedy(fix="calendar")],
    )
    return made, [lost]
