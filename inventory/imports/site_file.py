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
from yaml.nodes import MappingNode, Node, ScalarNode

from inventory.findings import Finding
from inventory.imports.result import some
from inventory.site import SiteError, parse_site

_BOM = "\ufeff"
Edit = tuple[int, int, str]
"""From and to, in characters, and what stands there instead."""


@dataclass(frozen=True)
class Edited:
    """The text and what is to be said of it."""

    text: str
    findings: tuple[Finding, ...]


def with_activities(
    text: str, activities: Mapping[str, Mapping[str, Any]], calendar: Mapping[str, Any] | None, over: bool
) -> Edited:
    """`text` with `schedule.activities`, and `schedule.calendar` where it has none. `over` replaces those of the same name."""
    mark = _BOM if text.startswith(_BOM) else ""
    body = text[len(mark) :]
    schedule = _value(yaml.compose(body, Loader=yaml.SafeLoader), "schedule")
    if not isinstance(schedule, MappingNode):
        return Edited(text, (_warning("it has no mapping `schedule`: nothing is put into it"),))
    now = yaml.safe_load(body)["schedule"]
    given = now.get("activities") or {}
    kept = [name for name in activities if name in given and not over and given[name] != activities[name]]
    new = {name: entry for name, entry in activities.items() if name not in given}
    changed = {
        name: activities[name] for name in activities if name in given and over and given[name] != activities[name]
    }
    add_calendar = calendar if calendar is not None and now.get("calendar") is None else None
    edits = _edits(body, schedule, new, changed, add_calendar)
    findings = _findings(kept, given, activities, now.get("calendar"), calendar)
    if not edits:
        return Edited(text, tuple(findings))
    changed_text = mark + _applied(body, edits)
    after = {**now, "activities": {**given, **changed, **new}}
    if add_calendar is not None:
        after["calendar"] = dict(add_calendar)
    problem = _problem(changed_text, {**yaml.safe_load(body), "schedule": after})
    if problem:
        return Edited(
            text,
            (*findings, _warning(f"it stays as it is, since with these activities it would be refused: {problem}")),
        )
    return Edited(changed_text, tuple(findings))


def _problem(text: str, wanted: Mapping[str, Any]) -> str:
    """Why the new text may not be written, '' where it may."""
    try:
        if yaml.safe_load(text.removeprefix(_BOM)) != wanted:
            return "its notation of `schedule` is one that cannot be edited; paste activities.yaml"
        parse_site(text.removeprefix(_BOM))
    except SiteError as error:
        first = error.problems[0]
        where = ".".join(map(str, first.path))
        return f"{where}: {first.what}, {first.found}; {first.do}"
    except yaml.YAMLError:
        return "its notation of `schedule` is one that cannot be edited; paste activities.yaml"
    return ""


def _findings(
    kept: list[str],
    given: Mapping[str, Any],
    activities: Mapping[str, Any],
    calendar: Mapping[str, Any] | None,
    offered: Mapping[str, Any] | None,
) -> list[Finding]:
    found = []
    if kept:
        what = f"{len(kept)} activities of the same name stay as they are: {some(kept)}; --replace takes those of the programme"
        found.append(Finding("IMPORT-KEPT", "info", "", what, {"activities": len(kept)}))
    if beside := [name for name in given if name not in activities]:
        what = (
            f"{len(beside)} activities are not in the programme and stay: {some(beside)}; delete those that it replaces"
        )
        found.append(Finding("IMPORT-BESIDE", "info", "", what, {"activities": len(beside)}))
    if calendar is not None and offered is not None:
        keys = ("working_days", "holidays", "worked")
        differ = [
            key for key in keys if sorted(map(str, calendar.get(key, ()))) != sorted(map(str, offered.get(key, ())))
        ]
        if differ:
            what = f"schedule.calendar stays as it is, and the programme has other {' and '.join(differ)}: see activities.yaml"
            found.append(Finding("IMPORT-CALENDAR-DIFFERS", "warning", "", what))
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


def _warning(what: str) -> Finding:
    return Finding("IMPORT-SITE-FILE", "warning", "", what)
