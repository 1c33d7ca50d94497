"""The text of a site file with activities put into it; every other byte stays as it is.

    edited = with_activities(text, activities, calendar, over)
    edited.text       the new text, or the old one where it cannot be done; findings say why

The places come from the YAML parser, so that comments, order and notation of the rest are untouched. The new text is read
back: it must hold the old values and the new ones, and pass every rule of a site file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError
from yaml.nodes import MappingNode, Node, ScalarNode

from inventory.catalog import Catalog, load_catalog
from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import some
from inventory.imports.schedules.fields import plain_text
from inventory.imports.schedules.work_calendar import DAY_NAMES
from inventory.site import SiteError, parse_site
from inventory.site.effective import complete
from inventory.site.references import at, joined, reference_names
from inventory.site.sections.schedule import DAYS_A_WEEK, Activity, WorkCalendar

_BOM = "\ufeff"
_SAME_LAG_DAYS = 1e-3
"""Scheduling programs count lags in minutes or tenths of them."""
Edit = tuple[int, int, str]
"""From and to, in characters, and the new text."""


@dataclass(frozen=True)
class Edited:
    """The text and what is to be said of it."""

    text: str
    findings: tuple[Finding, ...]


def with_activities(
    text: str,
    activities: Mapping[str, Mapping[str, Any]],
    calendar: Mapping[str, Any] | None,
    over: bool,
    catalog: Catalog | None = None,
) -> Edited:
    """`text` with `schedule.activities`, and `schedule.calendar` where it has none. `over` replaces those of the same name.

    `catalog` is the site's own, where it has one.
    """
    mark = _BOM if text.startswith(_BOM) else ""
    body = text[len(mark) :]
    schedule = _value(yaml.compose(body, Loader=yaml.SafeLoader), "schedule")
    if not isinstance(schedule, MappingNode):
        return Edited(text, (finding("IMPORT-SITE-FILE", "", case="no-schedule"),))
    now = yaml.safe_load(body)["schedule"]
    whole, of_designs = _with_designs(yaml.safe_load(body), catalog)
    given = whole.get("activities") or {}
    with_days = whole.get("calendar") is not None
    differ = [name for name in activities if name in given and not _same(given[name], activities[name], with_days)]
    kept = [] if over else differ
    new = {name: entry for name, entry in activities.items() if name not in given}
    put = new | {name: activities[name] for name in differ if over}
    put = {name: _instead(entry, of_designs.get(name) or {}) for name, entry in put.items()}
    in_file = now.get("activities") or {}
    changed = {name: entry for name, entry in put.items() if name in in_file}
    new = {name: entry for name, entry in put.items() if name not in in_file}
    add_calendar = calendar if calendar is not None and not with_days else None
    edits = _edits(body, schedule, new, changed, add_calendar)
    findings = _findings(kept, given, activities, whole.get("calendar"), calendar)
    if not edits:
        return Edited(text, tuple(findings))
    changed_text = mark + _applied(body, edits)
    after = {**now, "activities": {**in_file, **changed, **new}}
    if add_calendar is not None:
        after["calendar"] = dict(add_calendar)
    problem = _problem(changed_text, {**yaml.safe_load(body), "schedule": after}, catalog)
    if problem is not None:
        return Edited(text, (*findings, problem))
    return Edited(changed_text, tuple(findings))


def _with_designs(values: Mapping[str, Any], catalog: Catalog | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """`schedule` of the effective site, and the activities that its reference designs alone give."""
    given = _tuples(values)
    whole = complete(given, catalog or load_catalog()).value.get("schedule") or {}
    slugs = [slug for slug in given.get("based_on") or () if slug in reference_names()]
    return whole, at(joined(slugs).value, ("schedule", "activities")) or {}


def _instead(entry: Mapping[str, Any], of_design: Mapping[str, Any]) -> dict[str, Any]:
    """An entry that replaces the one of a reference design: with null for what only that one has."""
    return {**entry, **{key: None for key in of_design if key not in entry}}


def _problem(text: str, wanted: Mapping[str, Any], catalog: Catalog | None) -> Finding | None:
    """Why the new text may not be written, None where it may."""
    cannot_edit = finding("IMPORT-SITE-FILE", "", case="notation", remedies=[remedy(fix="paste")])
    try:
        if yaml.safe_load(text.removeprefix(_BOM)) != wanted:
            return cannot_edit
        parse_site(text.removeprefix(_BOM), catalog=catalog)
    except SiteError as error:
        first = error.problems[0]
        return finding(
            "IMPORT-SITE-FILE",
            "",
            case="refused",
            words={"key": ".".join(map(str, first.path)), "what": first.what, "found": first.found},
            remedies=[remedy(fix="correct", do=first.do)],
        )
    except yaml.YAMLError:
        return cannot_edit
    return None


def _tuples(value: Any) -> Any:
    """Plain values as the schema takes them, which has tuples for lists."""
    if isinstance(value, Mapping):
        return {key: _tuples(part) for key, part in value.items()}
    return tuple(_tuples(part) for part in value) if isinstance(value, list | tuple) else value


def _same(given: Mapping[str, Any], offered: Mapping[str, Any], with_calendar: bool) -> bool:
    """Whether two entries say the same, whatever their notation: defaults, ties without a lag as `after` or as links."""
    try:
        (values, ties), (other_values, other_ties) = _meaning(given, with_calendar), _meaning(offered, with_calendar)
    except ValidationError:
        return False
    alike = zip(ties, other_ties, strict=True) if len(ties) == len(other_ties) else ()
    return values == other_values and len(ties) == sum(
        a[:2] == b[:2] and all(abs(x - y) <= _SAME_LAG_DAYS for x, y in zip(a[2:], b[2:], strict=True))
        for a, b in alike
    )


_Tie = tuple[str, str, float, float]


def _meaning(entry: Mapping[str, Any], with_calendar: bool) -> tuple[tuple[object, ...], list[_Tie]]:
    """What an entry says: its values, and its ties in order.

    Without a calendar every day counts, and working days are calendar days.
    """
    activity = Activity.model_validate(_tuples(entry))
    ties: set[_Tie] = {(name, "FS", 0.0, 0.0) for name in activity.after}
    for link in activity.links:
        days, working = link.lag_days, link.lag_working_days
        if not with_calendar:
            days, working = days + working * 7 / DAYS_A_WEEK, 0.0
        ties.add((link.activity, link.type, days, working))
    values = activity.model_dump(exclude={"after", "links", "likely_weeks", "source", "continuous"})
    likely = (activity.min_weeks + activity.max_weeks) / 2 if activity.likely_weeks is None else activity.likely_weeks
    source = " ".join(plain_text(activity.source).split())
    return (values, likely, source, with_calendar and activity.continuous), sorted(ties)


def _days(calendar: Mapping[str, Any]) -> dict[str, set[Any]]:
    """The days of a calendar that differ from its week; a day that is both a holiday and worked is worked."""
    known = WorkCalendar.model_validate(_tuples(calendar))
    usual = set(known.working_days)
    return {
        "working_days": usual,
        "holidays": {d for d in known.holidays if DAY_NAMES[d.weekday()] in usual and d not in known.worked},
        "worked": {d for d in known.worked if DAY_NAMES[d.weekday()] not in usual},
    }


def _findings(
    kept: list[str],
    given: Mapping[str, Any],
    activities: Mapping[str, Any],
    calendar: Mapping[str, Any] | None,
    offered: Mapping[str, Any] | None,
) -> list[Finding]:
    found = []
    if kept:
        found.append(
            finding(
                "IMPORT-KEPT",
                "",
                case="activities",
                activities=len(kept),
                words={"names": some(kept)},
                remedies=[remedy(fix="replace")],
            )
        )
    if beside := [name for name in given if name not in activities]:
        found.append(
            finding(
                "IMPORT-BESIDE",
                "",
                activities=len(beside),
                words={"names": some(beside)},
                remedies=[remedy(fix="delete")],
            )
        )
    if calendar is not None and offered is not None:
        ours, theirs = _days(calendar), _days(offered)
        differ = [key for key in ours if ours[key] != theirs[key]]
        if differ:
            found.append(
                finding(
                    "IMPORT-CALENDAR-DIFFERS",
                    "",
                    words={"lists": ", ".join(differ)},
                    remedies=[remedy(fix="compare")],
                )
            )
    return found


def _edits(
    text: str,
    schedule: MappingNode,
    new: Mapping[str, Mapping[str, Any]],
    changed: Mapping[str, Mapping[str, Any]],
    calendar: Mapping[str, Any] | None,
) -> list[Edit]:
    edits: list[Edit] = []
    activities = _value(schedule, "activities")
    for name, entry in changed.items():
        node = _value(activities, name)
        if node is not None:
            edits.append((node.start_mark.index, _end(text, node), _flow(entry)))
    added = {name: _flow(entry) for name, entry in new.items()}
    line_end = "\r\n" if "\r\n" in text else "\n"
    below: dict[str, str | Mapping[str, str]] = {}
    if calendar is not None:
        below["calendar"] = _flow(calendar)
    if added and isinstance(activities, MappingNode) and activities.value:
        edits.append(_added(text, activities, added, line_end))
    elif added and activities is not None:
        edits.append((activities.start_mark.index, _end(text, activities), _inline(added)))
    elif added:
        below["activities"] = added
    if below:
        edits.append(_added(text, schedule, below, line_end))
    return edits


def _applied(text: str, edits: list[Edit]) -> str:
    for begin, end, instead in sorted(edits, key=lambda edit: edit[0], reverse=True):
        text = text[:begin] + instead + text[end:]
    return text


def _added(text: str, node: MappingNode, entries: Mapping[str, str | Mapping[str, str]], line_end: str) -> Edit:
    """Entries behind the last one of a mapping, in its notation; a value that is a mapping stands in lines of its own."""
    if node.flow_style:
        at = _end(text, node.value[-1][1]) if node.value else node.start_mark.index + 1
        lead = ", " if node.value else ""
        return at, at, lead + ", ".join(f"{k}: {v if isinstance(v, str) else _inline(v)}" for k, v in entries.items())
    indent = " " * node.value[0][0].start_mark.column
    lines = []
    for key, value in entries.items():
        if isinstance(value, str):
            lines.append(f"{indent}{key}: {value}")
        else:
            lines += [f"{indent}{key}:", *(f"{indent}  {name}: {entry}" for name, entry in value.items())]
    last = _end(text, node)
    newline = text.find("\n", last)
    written = line_end.join(lines)
    if newline < 0:
        return len(text), len(text), line_end + written
    return newline + 1, newline + 1, written + line_end


def _end(text: str, node: Node) -> int:
    """Where a node ends, without the blank lines and comments that the parser counts to a block."""
    if isinstance(node, ScalarNode) or getattr(node, "flow_style", False) or not node.value:
        end = node.end_mark.index
        while end > node.start_mark.index and text[end - 1] in " \r\n":
            end -= 1
        return int(end)
    last = node.value[-1]
    return _end(text, last[1] if isinstance(last, tuple) else last)


def _value(node: Node | None, key: str) -> Node | None:
    if not isinstance(node, MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _inline(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in entries.items()) + "}"


def _flow(entry: Mapping[str, Any]) -> str:
    """A mapping as YAML in one line."""
    return yaml.safe_dump(
        dict(entry), default_flow_style=True, sort_keys=False, allow_unicode=True, width=1_000_000
    ).strip()
