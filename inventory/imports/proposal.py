"""A programme of a scheduler as `schedule.activities` of a site file, and the site file with them in it.

    proposal = propose(programme, path)     activities and calendar as plain values, and what could not be carried over
    imported(programme, …)                  the files of `bringup import programme`

Tasks that name a group D00 to D14 in their code, name or WBS become activities. Links keep their type and lag. A milestone
is a moment: one that names a group is an activity that takes no time; any other is taken out, and what comes before is
linked to what comes after it with both lags, which says the same. A programme has one duration where Bringup wants a
dated range; the range is then that duration twice, and a finding says so.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from inventory.findings import Finding
from inventory.imports import site_file
from inventory.imports.programme import FOLDER, Programme
from inventory.imports.result import Imported, some
from inventory.imports.tables import csv_text, plain, records
from inventory.imports.work_calendar import Calendar
from inventory.schema import LEADTIME_ITEMS

__all__ = ["FOLDER", "Proposal", "imported", "propose", "text_of"]

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
    links, lost = _links(programme, rows, slugs)
    for link in links:
        _tie(entries[slugs[link.after]], slugs[link.before], link)
    if lost:
        what = (
            f"{len(lost)} link(s) are not in the proposal, since a task at one end is not: {some(lost)}; give those tasks a group "
            "D00 to D14, or tie the activities in the site file"
        )
        findings.append(Finding("IMPORT-LINK-DROPPED", "warning", path.name, what, {"links": len(lost)}))
    since = min((r["start"] for key, r in rows.items() if key in slugs and r["start"]), default="")
    calendar, found = _calendar(programme.default, date.fromisoformat(since) if since else None, path)
    return Proposal(entries, calendar if entries else None, (*findings, *found))


def text_of(proposal: Proposal) -> str:
    """The proposal as YAML text to review."""
    head = "# Keys of `schedule` of the site file, as the programme has them. Review groups and ranges.\n"
    body: dict[str, Any] = {"calendar": proposal.calendar} if proposal.calendar else {}
    return head + yaml.safe_dump({**body, "activities": dict(proposal.activities)}, sort_keys=False, allow_unicode=True)


def imported(programme: Programme, folder: str, path: Path, site_text: str, site_name: str, over: bool) -> Imported:
    """The files that an import writes: activities.csv, links.csv and activities.yaml in `folder`, and the site file.

    `over` replaces activities that the site file has under the same name.
    """
    proposal = propose(programme, path)
    findings = [*programme.findings, *proposal.findings]
    files = {
        f"{folder}/activities.csv": csv_text(programme.activities),
        f"{folder}/links.csv": csv_text(programme.links),
        f"{folder}/activities.yaml": text_of(proposal),
    }
    if proposal.activities:
        edited = site_file.with_activities(site_text, proposal.activities, proposal.calendar, over)
        findings += [replace(finding, subject=site_name) for finding in edited.findings]
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
    without, fixed, ranged = [], [], 0
    for key, row in rows.items():
        moment = _is_moment(row)
        if (
            row["status"] == "complete"
            or row["kind"] not in ("task", "milestone")
            or not (row["duration_weeks"] or moment)
        ):
            continue
        group = GROUP.search(f"{row['code']} {row['name']} {row['wbs']}".upper())
        if group is None:
            if not moment:
                without.append(row["name"] or row["code"])
            elif row["constraint"] not in _UNTIMED:
                fixed.append(f"{row['name'] or row['code']} ({row['constraint']} {row['constraint_date']})")
            continue
        slugs[key] = _slug(row, entries)
        entries[slugs[key]] = entry = {"group": group[0], **_weeks(row, programme, moment)}
        entry["source"] = f"{path.name}, {row['code']} {row['name']}"
        ranged += not moment
        if row["constraint"] in _START_CONSTRAINTS and row["constraint_date"]:
            entry["start_date"] = date.fromisoformat(row["constraint_date"])
        elif row["constraint"] not in _UNTIMED:
            fixed.append(f"{row['name'] or row['code']} ({row['constraint']} {row['constraint_date']})")
    findings = []
    if ranged:
        what = (
            f"{ranged} activities have one duration each: widen min_weeks and max_weeks to a range before they are used"
        )
        findings.append(Finding("IMPORT-ONE-DURATION", "info", path.name, what))
    if without:
        what = f"{len(without)} task(s) name no group D00 to D14 and stand in activities.csv only: {some(without)}"
        findings.append(Finding("IMPORT-NO-GROUP", "info", path.name, what))
    if fixed:
        what = (
            f"{len(fixed)} constraint(s) that an activity cannot have stand in activities.csv only: {some(fixed)}; where one "
            "matters, give the activity after it a start_date"
        )
        findings.append(Finding("IMPORT-CONSTRAINT", "warning", path.name, what, {"constraints": len(fixed)}))
    return slugs, entries, findings


def _is_moment(row: Mapping[str, str]) -> bool:
    return row["kind"] in ("task", "milestone") and row["duration_weeks"] in ("", "0") and (
        row["kind"] == "milestone" or row["duration_weeks"] == "0"
    )  # fmt: skip


def _slug(row: Mapping[str, str], taken: Mapping[str, object]) -> str:
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
    if moment:
        return {"min_weeks": 0.0, "max_weeks": 0.0}
    begun = row["status"] == "in progress" and row["remaining_weeks"]
    weeks = float(row["remaining_weeks"] if begun else row["duration_weeks"])
    own, usual = programme.calendars.get(row["id"]), programme.default
    if own is None or own.continuous:
        return {"min_weeks": weeks, "max_weeks": weeks, "continuous": True}
    other = own.stated and (own.working_days, own.exceptions) != (usual.working_days, usual.exceptions)
    if other and row["calendar_days"]:
        weeks = float(f"{int(row['calendar_days']) / 7:.4g}")
        return {"min_weeks": weeks, "max_weeks": weeks, "continuous": True}
    return {"min_weeks": weeks, "max_weeks": weeks}


def _links(
    programme: Programme, rows: Mapping[str, dict[str, str]], slugs: Mapping[str, str]
) -> tuple[list[_Link], list[str]]:
    """Links between activities, with moments taken out; and those that are lost, for a message."""
    links = [_link(row, programme) for row in records(programme.links)]
    links = [link for link in links if link.before in rows and link.after in rows]
    inner = [key for key, row in rows.items() if key not in slugs and row["status"] != "complete" and _is_moment(row)]
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
                    first.before, second.after, first.type[0] + second.type[1], first.days + second.days,
                    first.working_days + second.working_days,
                )  # fmt: skip
                if both.before != both.after:
                    into[both.after][both] = None
                    out[both.before][both] = None
    found = [link for key in rows for link in into.get(key, ())]
    kept = [link for link in found if link.before in slugs and link.after in slugs]
    carried = set(kept)
    gone = [link for link in (*found, *open_) if link not in carried and not _is_past(link, rows)]
    names = {key: row["code"] or row["id"] for key, row in rows.items()}
    return kept, [f"{names[link.before]} {link.type} {names[link.after]}" for link in gone]


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


def _calendar(calendar: Calendar, since: date | None, path: Path) -> tuple[dict[str, Any] | None, list[Finding]]:
    """`schedule.calendar` as the project has it, from the first start on; None where the file does not state its days."""
    if not calendar.stated or calendar.continuous or since is None:
        return None, []
    last = date(since.year + _LAST_EXCEPTION_YEARS, 12, 31)
    made: dict[str, Any] = {"working_days": list(calendar.working_days)}
    for name, days in (("holidays", calendar.holidays(since)), ("worked", calendar.worked(since))):
        if kept := [day for day in days if day <= last]:
            made[name] = kept
    made["source"] = f"{path.name}, calendar {calendar.name or '(without a name)'}"
    if not (shorter := calendar.shorter(since)):
        return made, []
    what = f"{len(shorter)} day(s) have other hours than their weekday and count as whole days: {some(shorter)}"
    return made, [Finding("IMPORT-CALENDAR-HOURS", "info", path.name, what)]
