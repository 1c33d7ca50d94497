"""Judging a record again: its value against its limit, and the limit against today's. From raw outputs: from_raw.py.

    why = fault(item, record, site)                 # None, or why a passing record is a failure
    why = limit_changed(record, site)               # None, or why its limit is not today's

An item of the register says in `judged` which number its check compares with which limit (register.Judged). A record only
claims a result, a value and a limit; here they are compared, so that a record whose numbers contradict its result is a failure.
Pure. What a record says is of any type: nothing here raises for it.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from inventory.site import Site
from validation.evidence.record import Record
from validation.evidence.results import Part
from validation.register import Item, Judged, site_value

SITE_LIMIT = re.compile(r"site limits\.([a-z0-9_]+)(?:: |$)")
"""How check.site_limit names its source."""
SITE_KEY = re.compile(r"site ([a-z0-9_]+(?:\.[a-z0-9_]+)+)")
"""A limit that is one value of the site file; sources with more words are computed from several."""
MOST_NAMED = 3


class FromRaw(Protocol):
    """What raw outputs say of their records (from_raw.Reader)."""

    def doubt(self, item: Item, record: Record) -> str | None:
        """Why a record's raw output does not show what the record says, or None."""

    def parts(self, item: Item, record: Record) -> Sequence[Part] | str:
        """The parts of a record's raw output that nodes have to have signed, or why that cannot be said."""

    def limit_changed(self, item: Item, record: Record) -> str | None:
        """Why the limit of a record is not what plan and catalogue give today, or None."""


COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "at least": lambda value, limit: value >= limit,
    "at most": lambda value, limit: value <= limit,
    "below": lambda value, limit: value < limit,
    "equal": lambda value, limit: value == limit,
}


def fault(item: Item, record: Record, site: Site) -> str | None:
    """Why a record that says passed is a failure by its own numbers, or None. None also for an item without `judged`."""
    rule = item.judged
    if rule is None:
        return None
    if (named := _named(rule, record.limit_source)) is None:
        wanted = " or ".join(rule.limits)
        return (
            f"its limit is from {record.limit_source[:80]!r}, and {item.id} is judged by {wanted}; run the check again"
        )
    limit = record.limit
    if not is_number(limit):
        return f"its limit {_short(limit)} is no number"
    if named in rule.constants and limit != rule.constants[named]:
        return f"it was judged by {limit:g}, the step says {rule.constants[named]:g} ({named})"
    numbers = numbers_of(rule, record.value)
    if isinstance(numbers, str):
        return numbers
    unit = f" {record.unit}" if record.unit else ""
    wrong = [f"{name} {value:g}" for name, value in numbers if not COMPARE[rule.must](value, limit)]
    if wrong:
        shown = ", ".join(wrong[:MOST_NAMED])
        return f"it says {record.result} with {shown}{unit}, which is not {rule.must} its limit of {limit:g}{unit}"
    floor = item.floor
    if floor is not None and floor.quantity == "duration_h" and floor.unit == "h":
        own = site.limits.get(floor.site_limit)
        minimum = max(floor.minimum, own.value) if own else floor.minimum
        if below := [f"{name} {value:g}" for name, value in numbers if value < minimum]:
            return f"it measured {', '.join(below)} h, below the floor of {minimum:g} h ({floor.source})"
    return None


def limit_changed(record: Record, site: Site) -> str | None:
    """Why the limit of a record is not today's, where its source names a limit or another value of the site file."""
    source, limit = record.limit_source, record.limit
    if limit is None:
        return None
    if named := SITE_LIMIT.match(source):
        key, own = f"limits.{named[1]}", site.limits.get(named[1])
        if own is None:
            return f"it was judged by {_short(limit)} of {key}, which the site file does not have"
        today: object = own.value
    elif named := SITE_KEY.fullmatch(source):
        key, today = named[1], site_value(site, named[1])
        if not isinstance(today, str) and not is_number(today):
            return None  # not set, or a section: the check derived its limit from it
    else:
        return None
    if limit != today or isinstance(limit, bool):
        return f"it was judged by {_short(limit)}, {key} of the site file is {_short(today)}"
    return None


def is_number(found: object) -> bool:
    """Whether a value of JSON is a finite number that a float holds; a truth value is none."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        return False
    try:
        return math.isfinite(found)
    except OverflowError:
        return False


def _named(rule: Judged, source: str) -> str | None:
    """The one of an item's limits that the record's limit source names, None where it names none of them.

    A source is written 'site limits.time_offset_ms', or with its reason as 'site limits.time_offset_ms: log and job correlation'.
    """
    return next((name for name in rule.limits if source == name or source.startswith(f"{name}: ")), None)


def numbers_of(rule: Judged, value: Any) -> list[tuple[str, float]] | str:
    """The numbers of a value that the limit is about, by name; or what is wrong with them."""
    found: list[tuple[str, Any]] = []
    for path in rule.values:
        here = list(_at(value, path.split(".") if path else [], ""))
        if not here:
            return f"its value has no {path or 'number'}, which {' or '.join(rule.limits)} is about"
        found += here
    for name, one in found:
        if not is_number(one):
            return f"its value {name or _short(one)} is not a number: {_short(one)}"
    return [(name or "value", float(one)) for name, one in found]


def _at(value: Any, path: list[str], name: str) -> Iterator[tuple[str, Any]]:
    """The values at a path; `*` stands for each part of an object or list. A part that lacks the rest gives None."""
    if not path:
        yield name, value
        return
    first, rest = path[0], path[1:]
    if first == "*":
        if isinstance(value, dict):
            parts = [(str(key), one) for key, one in value.items()]
        else:
            parts = [(str(at), one) for at, one in enumerate(value)] if isinstance(value, list) else []
        for key, one in parts:
            yield from _at(one, rest, f"{name}.{key}" if name else key)
    elif isinstance(value, dict) and first in value:
        yield from _at(value[first], rest, f"{name}.{first}" if name else first)
    elif name:
        yield f"{name}.{first}", None


def _short(value: Any) -> str:
    return repr(value)[:60]
