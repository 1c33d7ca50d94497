"""Every way to leave something out of a raw output: texts that hold JSON are opened, and closed again.

for place, without in without_each(raw_of(item, subject)): ...  # each key, element and leaf left out in turn
for place, with_other in renamed(raw, names): ...               # each name of a device changed in turn

The raw output of a place is made when it is asked for: `without()`. Of longer lists every element is left out, and `ends`
of them are opened at each end: the others are like them. `of_each_kind` picks from the places.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

Pass = Callable[[str], bool]
Put = Callable[[Any], bytes]
Changed = Callable[[], bytes]
STRANGER = "stranger99"
"""A name that no plan has."""
ENDS = 2


@dataclass(frozen=True, eq=False)
class Opened:
    """A text and what it holds: `form` is json (one document), lines (one on a line), rows (lines of words)."""

    form: str
    holds: Any

    def closed(self) -> str:
        """The text again."""
        return self._text

    @cached_property
    def _text(self) -> str:
        """Made once: what is left out or renamed makes new objects on its way up to the whole, and shares all others."""
        if self.form == "json":
            return written(self.holds)
        if self.form == "lines":
            return "".join(written(one) + "\n" for one in self.holds)
        return "\n".join(" ".join(map(str, words)) for words in self.holds)


written = json.JSONEncoder(default=Opened.closed).encode
"""JSON of a value, with each opened text closed."""


def opened(value: Any) -> Any:
    """A value with each text of it that holds JSON opened."""
    if isinstance(value, dict):
        return {key: opened(one) for key, one in value.items()}
    if isinstance(value, list):
        return [opened(one) for one in value]
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return Opened("json", opened(json.loads(value)))
        except ValueError:
            return _lines(value)
    return value


def _lines(text: str) -> Any:
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        try:
            one, at = decoder.raw_decode(text, at)
        except ValueError:
            return text
        found.append(opened(one))
        while text[at : at + 1].isspace():
            at += 1
    return Opened("lines", found)


def document(raw: bytes) -> Opened:
    """A raw output, opened. One that is no JSON is rows of words."""
    text = raw.decode()
    found = opened(text)
    return found if isinstance(found, Opened) else Opened("rows", [line.split() for line in text.splitlines()])


def without_each(raw: bytes, other: Pass = lambda place: False, ends: int = ENDS) -> Iterator[tuple[str, Changed]]:
    """(place, what makes the raw output without it) of each key and element at any depth.

    Left out are places of which `other` says that they are about something else.
    """
    yield from _without(document(raw), "", lambda new: new.closed().encode(), other, ends)


def _without(value: Any, at: str, put: Put, keep: Pass, ends: int) -> Iterator[tuple[str, Changed]]:
    for place, part, with_, lacking in _parts(value, at, put, ends):
        if keep(place):
            continue
        if lacking is not None:
            yield place, lacking
        if part is not None:
            yield from _without(part, place, with_, keep, ends)


def _parts(value: Any, at: str, put: Put, ends: int) -> Iterator[tuple[str, Any, Put, Changed | None]]:
    """(place, part or None for one that is not opened, how to put another there, how to leave it out)."""
    if isinstance(value, Opened):
        form = value.form
        yield at, value.holds, lambda new: put(Opened(form, new)), None
    elif isinstance(value, dict):
        for key, part in value.items():
            yield f"{at}/{key}", part, partial(_with, value, key, put), partial(_lacking, value, key, put)
    elif isinstance(value, list):
        for n, part in enumerate(value):
            like_others = ends <= n < len(value) - ends
            shown = None if like_others else part
            yield f"{at}/{n}", shown, partial(_with, value, n, put), partial(_lacking, value, n, put)


def _with(value: Any, at: Any, put: Put, new: Any) -> bytes:
    return put({**value, at: new} if isinstance(value, dict) else [*value[:at], new, *value[at + 1 :]])


def _lacking(value: Any, at: Any, put: Put) -> bytes:
    if isinstance(value, dict):
        return put({name: one for name, one in value.items() if name != at})
    return put([*value[:at], *value[at + 1 :]])


def renamed(
    raw: bytes, names: Collection[str], other: Pass = lambda place: False, ends: int = ENDS
) -> Iterator[tuple[str, Changed]]:
    """(place, what makes the raw output) with each name of a device changed in turn into a stranger's, as a key or a value."""
    yield from _renamed(document(raw), "", lambda new: new.closed().encode(), names, other, ends)


def _renamed(
    value: Any, at: str, put: Put, names: Collection[str], keep: Pass, ends: int
) -> Iterator[tuple[str, Changed]]:
    for place, part, with_, _ in _parts(value, at, put, ends):
        if keep(place):
            continue
        if isinstance(value, dict) and (key := place.rpartition("/")[2]) in names:
            yield f"{place} (key)", partial(_with_key, value, key, put)
        if isinstance(part, str) and part in names:
            yield f"{place} (value)", partial(with_, STRANGER)
        elif part is not None:
            yield from _renamed(part, place, with_, names, keep, ends)


def _with_key(value: dict[str, Any], key: str, put: Put) -> bytes:
    return put({(STRANGER if name == key else name): one for name, one in value.items()})


def of_each_kind(places: Iterable[tuple[str, Changed]], both_ends: bool) -> Iterator[tuple[str, Changed]]:
    """The first of the places that differ by numbers only, with `both_ends` the last too: gpu001 is like gpu004, and not
    like leaf01.
    """
    kinds: dict[str, list[tuple[str, Changed]]] = {}
    for place, changed in places:
        kinds.setdefault(re.sub(r"\d+", "0", place), []).append((place, changed))
    for alike in kinds.values():
        yield alike[0]
        if both_ends and len(alike) > 1:
            yield alike[-1]
