"""The order of the dependency groups (inventory/groups.yaml): which records were made before what their group comes after. Pure.

    ends = runs_end(in_order(contents.entries, begun))           # the last line of the run of each record
    late = Passed(register, judged, first, known).late(decides, ends)     # {(item, subject): why}

A record about one asset is in order if each item of the groups before its own had passed for this asset; an item about other
assets, if it had passed for at least one of them. A record about the whole site needs every asset of which something was recorded
by then. So neither a node that is repaired nor a rack that is added takes anything from the records of the others.

Where a line stands in the log decides, and no clock: a record has the place of the last line of its run, since a run asks all
devices at its beginning. What a waiver or an external report closed holds nothing up, nor do device-side halves that close later.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from validation.evidence.begun import Begun
from validation.evidence.store import Entry
from validation.register import Register

Key = tuple[str, str]
"""Item and subject."""
BY_HAND = frozenset({"waived", "external"})
APART = frozenset({"not_applicable", "not_exercised"})
DEVICE_KINDS = frozenset({"applied", "measured", "observed"})
NEVER = 1 << 62
"""The line of what has not passed yet: behind all others."""


class SubjectStatus(Protocol):
    """One asset of an item, as judged."""

    @property
    def subject(self) -> str: ...
    @property
    def status(self) -> str: ...


class ItemStatus(Protocol):
    """One item, as judged."""

    @property
    def status(self) -> str: ...
    @property
    def subjects(self) -> Sequence[SubjectStatus]: ...


Ready = tuple[int, str]
"""The line by which something had passed, NEVER if it has not; and what that is."""
_ALWAYS: Ready = (0, "")


def _ready(item: str, line: int, subject: str) -> Ready:
    return line, f"{item} of {subject}"


def runs_end(events: Iterable[Entry | Begun]) -> dict[tuple[Key, int], int]:
    """By item, subject and line of each record, the last line of the run that announced it; without one it is left out.

    In: records and checks that have begun, in the order of the log.
    """
    waiting: dict[Key, str] = {}
    last: dict[str, int] = {}
    of: dict[tuple[Key, int], str] = {}
    for event in events:
        if isinstance(event, Begun):
            waiting[event.item, event.subject] = event.run
            last[event.run] = event.line
        elif waiting and (run := waiting.pop(key := (event.record.item, event.record.subject), "")):
            of[key, event.line] = run
            last[run] = event.line
    return {made: last[run] for made, run in of.items()}


@dataclass(frozen=True)
class _Part:
    """What one item of a group needs: by asset the line of its first pass, and the first and the last of all of them.

    ``known``  the line by which something had been recorded of each of its assets
    """

    item: str
    lines: Mapping[str, int]
    first: Ready
    last: Ready
    known: int

    def by(self, at: int, known: Mapping[str, int]) -> Ready:
        """When it had passed for every asset that was known at a line."""
        if self.known <= at:
            return self.last
        there = [(line, name) for name, line in self.lines.items() if known.get(name, NEVER) <= at]
        return _ready(self.item, *max(there)) if there else _ALWAYS


class Passed:
    """When the items of each group had passed, for each asset.

    ``first``  the line of the first pass of an item and subject that counted when it was made
    ``known``  the line of the first record about a subject, of any item
    ``site``   the subject of what is about the whole site
    """

    def __init__(
        self,
        register: Register,
        judged: Mapping[str, ItemStatus],
        first: Mapping[Key, int],
        known: Mapping[str, int],
        site: str,
    ) -> None:
        self._register, self._judged, self._known, self._site = register, judged, known, site
        self._parts: dict[str, list[_Part]] = defaultdict(list)
        self._before: dict[Key, Ready] = {}
        for name, found in judged.items():
            item = register.items[name]
            if item.closes_later or found.status in APART or not found.subjects:
                continue
            lines = {
                one.subject: 0 if one.status in BY_HAND else first.get((name, one.subject), NEVER)
                for one in found.subjects
            }
            passes = [(line, subject) for subject, line in lines.items()]
            seen = max(known.get(subject, NEVER) for subject in lines)
            part = _Part(name, lines, _ready(name, *min(passes)), _ready(name, *max(passes)), seen)
            self._parts[item.group].append(part)

    def late(self, decides: Mapping[Key, int], ends: Mapping[tuple[Key, int], int]) -> dict[Key, str]:
        """Why passing records of devices came too early. ``decides`` has the line of the record that decides."""
        found: dict[Key, str] = {}
        for name, judged in self._judged.items():
            item = self._register.items[name]
            if item.kind not in DEVICE_KINDS:
                continue
            for one in judged.subjects:
                key = (name, one.subject)
                if one.status != "pass" or key not in decides:
                    continue
                at = ends.get((key, decides[key]), decides[key])
                line, what = (
                    self._whole(item.group, at) if one.subject == self._site else self._of(item.group, one.subject)
                )
                if line == NEVER:
                    found[key] = f"recorded before {what}, which has not passed: run this check again once it has"
                elif at < line:
                    found[key] = f"recorded before {what} had passed (line {line} of the log): run this check again"
        return found

    def _of(self, group: str, subject: str) -> Ready:
        """When all that a group comes after had passed for an asset."""
        key = (group, subject)
        if key not in self._before:
            self._before[key] = max(
                (max(self._of(one, subject), self._own(one, subject)) for one in self._register.groups[group].after),
                default=_ALWAYS,
            )
        return self._before[key]

    def _own(self, group: str, subject: str) -> Ready:
        parts = self._parts.get(group, ())
        return max(
            (
                _ready(part.item, part.lines[subject], subject) if subject in part.lines else part.first
                for part in parts
            ),
            default=_ALWAYS,
        )

    def _whole(self, group: str, at: int) -> Ready:
        """When all that a group comes after had passed for every asset that was known at a line."""
        waiting, seen, last = list(self._register.groups[group].after), set[str](), _ALWAYS
        while waiting:
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            waiting += self._register.groups[one].after
            for part in self._parts.get(one, ()):
                last = max(last, part.first, part.by(at, self._known))
        return last
