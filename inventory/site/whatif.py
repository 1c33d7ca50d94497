"""A site with some keys changed, checked as strictly as a site file: `changed("h100-1000-ib", ["rack.servers=4"])`.

A setting is `key=value`: the key path of the site file with dots, an entry of a list by number (`service_nodes[1].count`) or
by its role, name or item (`service_nodes.storage.count`); the value as YAML (`60`, `0.8`, `[A, B]`, `2028-03-01`). A list of
settings of one key (`rack.servers=2..6`, `power.rack_circuit.breaker_a=60,80`) is an axis, for `axes`.

The changed site says so in `changes`; nothing that is planned from it counts as the site's own plan.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path as FilePath
from typing import Any

from inventory.findings import plain
from inventory.site import messages, yaml_source
from inventory.site.effective import complete
from inventory.site.loading import Site, SiteError, find_site, from_same_file, load_site, shown_path, site_of
from inventory.site.references import NAMED_LISTS, WHOLE, entry_name
from inventory.site.yaml_source import Document, Mark, Path, Problem

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_RANGE = re.compile(rf"{_NUMBER}\.\.{_NUMBER}(?:\.\.{_NUMBER})?")
_NAMED_BY = ("name", "role", "item")
MAX_CANDIDATES = 500


@dataclass(frozen=True)
class Axis:
    """One key and the values that it takes, as text."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Base:
    """A valid site file as plain values, read once for many changes."""

    site: Site
    value: Mapping[str, Any]
    shown: str

    @classmethod
    def read(cls, name_or_path: str, start: FilePath | None = None) -> "Base":
        """Read a site file, `start` as in `load_site`; SiteError for anything that is wrong with it."""
        site = load_site(name_or_path, start)
        path = find_site(name_or_path)
        return cls(site, site.given, shown_path(path))

    def changed(self, settings: Sequence[str]) -> Site:
        """The site with these settings; SiteError that names each key that is wrong."""
        if not settings:
            return self.site
        value: Any = self.value
        catalog, unsized = self.site.catalog, self.site.effective.unsized
        problems: list[Problem] = []
        for setting in settings:
            try:
                whole = complete(value, catalog, accepted=self.site.accepted, unsized=unsized).value
                path, new = _setting(setting, whole)
                value = _put(value, path, new, whole)
            except _SettingError as error:
                problems.append(error.problem)
        return self._site(value, settings, problems)

    def with_values(self, values: Mapping[str, Any]) -> Site:
        """The site with other values of keys of its effective site, entries of named lists by their names:
        ``purchase.prices.server nvidia-dgx-h100.unit_price``. SiteError for what the site file would refuse.
        """
        value: Any = self.value
        whole = self.site.effective.value
        for key, new in values.items():
            value = _put_named(value, tuple(key.split(".")), new, whole)
        return self._site(value, [f"{key}={new}" for key, new in values.items()], [])

    def _site(self, value: Any, settings: Sequence[str], problems: list[Problem]) -> Site:
        title = f"{self.shown} --set {' --set '.join(settings)}"
        site: Site | None = None
        try:
            site = site_of(value, _document(value), title, catalog=self.site.catalog, accepted=self.site.accepted)
        except SiteError as error:
            problems += error.problems
        if problems or site is None:
            raise SiteError(title, messages.ordered(problems, Document()))
        return from_same_file(site, self.site, settings)


def changed(name_or_path: str, settings: Sequence[str], start: FilePath | None = None) -> Site:
    """A site given by name or path with these settings, its plans from another accepted state (`load_site`)."""
    return Base.read(name_or_path, start).changed(settings)


def with_settings(site: Site, values: Mapping[str, Any]) -> Site:
    """The site with other values of site keys, its open sizes at their least. SiteError for what the site file would refuse."""
    base = Base(site, site.given, shown_path(site.path))
    return base.changed([f"{key}={plain(value)}" for key, value in values.items()])


def axes(text: str) -> list[Axis]:
    """The axes of `rack.servers=2..6,power.rack_circuit.breaker_a=60,80`; SiteError for what cannot be read.

    A range counts in ones, or in steps with a third number: 100..400..50, 1.1..1.3..0.05. A key that is given twice is one
    axis with the values of both.
    """
    made: dict[str, dict[str, None]] = {}
    last: str | None = None
    for part in _split(text):
        key, equals, value = part.partition("=")
        if equals:
            last = key.strip()
        elif last is None:
            raise SiteError(
                "--over", [Problem((), "an axis without a key", part, "key=value,value…", "write rack.servers=2..6")]
            )
        else:
            value = part
        made.setdefault(last, {}).update(dict.fromkeys(_values(value.strip())))
    found = [Axis(key, tuple(values)) for key, values in made.items()]
    _bounded(math.prod(len(axis.values) for axis in found))
    return found


def _bounded(count: int) -> None:
    """SiteError for more options than are searched."""
    if count > MAX_CANDIDATES:
        do = "take fewer values, or larger steps"
        raise SiteError("--over", [Problem((), "too many options", f"{count}", f"at most {MAX_CANDIDATES}", do)])


def combinations(found: Sequence[Axis]) -> Iterator[tuple[str, ...]]:
    """Every combination of the axes' values, as settings; the last axis runs fastest."""
    for values in itertools.product(*(axis.values for axis in found)):
        yield tuple(f"{axis.key}={value}" for axis, value in zip(found, values, strict=True))


def _split(text: str) -> list[str]:
    """Parts between commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for n, letter in enumerate(text):
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append(text[start:n])
            start = n + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def _values(text: str) -> list[str]:
    ranged = _RANGE.fullmatch(text)
    if not ranged:
        return [text]
    first, last = Decimal(ranged[1]), Decimal(ranged[2])
    if ranged[3] is None and "." in ranged[1] + ranged[2]:
        do = f"write {text}..0.05, or the values themselves"
        raise SiteError("--over", [Problem((), "a range of fractions without a step", text, "first..last..step", do)])
    step = Decimal(ranged[3] or 1)
    if last < first or step <= 0:
        raise SiteError(
            "--over", [Problem((), "a range that ends before it starts", text, "first..last", "swap the two")]
        )
    count = int((Fraction(last) - Fraction(first)) // Fraction(step)) + 1
    _bounded(count)
    return [str(first + n * step) for n in range(count)]


class _SettingError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.what)
        self.problem = problem


def _setting(text: str, value: Any) -> tuple[Path, Any]:
    key, equals, given = text.partition("=")
    if not equals or not key.strip():
        way = "write it as rack.servers=4"
        raise _SettingError(Problem((), "a setting without a value", text, "key=value", way))
    steps = [name or int(number) for name, number in _STEP.findall(key.strip())]
    if not steps:
        raise _SettingError(Problem((), "a setting without a key", text, "key=value", "write it as rack.servers=4"))
    path = _resolved(tuple(steps), value)
    document = yaml_source.parse(f"v: {given}" if given.strip() else 'v: ""')
    if document.problems:
        raise _SettingError(
            Problem(path, "a value that YAML cannot read", given, "a value as in a site file", "quote it")
        )
    return path, document.value["v"]


def _resolved(path: Path, value: Any) -> Path:
    """The path with entries of lists by number, where they are given by name; unknown keys are left to the schema."""
    done: list[str | int] = []
    for step in path:
        if isinstance(value, tuple):
            step = _entry(tuple(done), step, value)
            value = value[step]
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        else:
            value = None
        done.append(step)
    return tuple(done)


def _entry(path: Path, step: str | int, entries: tuple[Any, ...]) -> int:
    if isinstance(step, str) and step.isdecimal():
        step = int(step)
    if isinstance(step, int) and step < len(entries):
        return step
    names = [
        next((str(e[by]) for by in _NAMED_BY if isinstance(e, Mapping) and by in e), str(n))
        for n, e in enumerate(entries)
    ]
    if step in names:
        return names.index(str(step))
    near = messages.nearest(str(step), names)
    expected = f"one of {', '.join(names)}, or a number from 0 to {len(entries) - 1}"
    do = f"write {near}" if near else "name an entry that the list has, or set the whole list"
    raise _SettingError(Problem((*path, step), "an unknown entry", str(step), expected, do, nearest=near))


def _document(value: Any) -> Document:
    """Values as a document: every path is there, at no place that a message could name."""
    document = Document(value=value)
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, inner = waiting.pop()
        document.keys[path] = document.values[path] = Mark(0, 0)
        entries = inner.items() if isinstance(inner, Mapping) else enumerate(inner) if isinstance(inner, tuple) else ()
        waiting += [((*path, step), entry) for step, entry in entries]
    return document


def _put(value: Any, path: Path, new: Any, whole: Any = None, above: Path = ()) -> Any:
    """A copy of nested values with one of them replaced; sections that are not there yet are made, lists and mappings that are
    joined as a whole taken over from `whole`, the effective values.
    """
    if not path:
        return new
    step, rest = path[0], path[1:]
    whole = value if whole is None else whole
    if isinstance(whole, tuple) and isinstance(step, int):
        entries = whole
        return (*entries[:step], _put(entries[step], rest, new, entries[step]), *entries[step + 1 :])
    start = value if isinstance(value, Mapping) else whole if above in WHOLE and isinstance(whole, Mapping) else {}
    inner, here = dict(start), (*above, step)
    inner[step] = _put(inner.get(step), rest, new, whole.get(step) if isinstance(whole, Mapping) else None, here)
    return inner


def _put_named(value: Any, path: Path, new: Any, whole: Any, above: Path = ()) -> Any:
    """A copy of nested values with one of them replaced; what is joined as a whole is taken over from `whole`."""
    if not path:
        return new
    step, rest, here = path[0], path[1:], (*above, path[0])
    if above in NAMED_LISTS:
        entries = {entry_name(above, entry): entry for entry in (value if isinstance(value, tuple) else ())}
        effective: Any = next((entry for entry in whole or () if entry_name(above, entry) == step), {})
        names = {key: effective[key] for key in NAMED_LISTS[above] if key in effective}
        entries[str(step)] = _put_named(entries.get(str(step), names), rest, new, effective, here)
        return tuple(entries.values())
    inner = dict(value if isinstance(value, Mapping) else whole if above in WHOLE and whole else {})
    inner[str(step)] = _put_named(inner.get(str(step)), rest, new, _below(whole, step), here)
    return inner


def _below(value: Any, step: str | int) -> Any:
    """What stands at one step below a value; None where it is no mapping."""
    return value.get(step) if isinstance(value, Mapping) else None
