"""Results of stages that are kept, so that a plan of a changed site works out anew only what the change touches.

    kept = Kept()
    build(site, kept=kept)             # every stage is run
    build(changed_site, kept=kept)     # stages that read nothing of what changed give what they gave before

What a stage reads is seen, not declared: it is given a site that notes the values which are read, section by section and key by
key, and the results of earlier stages in a mapping that notes the same. A kept result holds for a site with equal values at these
keys, and for the very same results of earlier stages. A stage that reads a site as a whole (its dump, its origins) is run each
time; a section that is read as a whole (compared, copied with other values) counts with all its keys.
"""

import dataclasses
import datetime
import functools
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from pydantic import BaseModel

from capacity.model import frames
from inventory.catalog import Catalog
from inventory.findings import Finding
from inventory.site import Site
from inventory.site.effective import Effective, Origin
from inventory.site.yaml_source import Path

T = TypeVar("T")
Stage = Callable[[Site, Catalog, Any], tuple[Any, list[Finding]]]

Key = tuple[str, ...]
Question = tuple[str, Path]
"""What the effective site is asked, and of which value: ``("origin", ("power", "pue"))``; of the whole with an empty path."""
SECTIONS = frozenset(Site.model_fields)
AS_A_WHOLE = frozenset({"__dict__", "__iter__", "given", "model_dump", "model_dump_json", "slices"})
"""Attributes that give more than one section: what reads them is not kept."""
SECTION_AS_A_WHOLE = frozenset(
    {"__dict__", "__iter__", "__eq__", "__pydantic_fields_set__", "model_copy", "model_dump", "model_fields_set"}
)
"""Attributes of a section that give more than one of its keys; every other way to all of them goes through one of these."""
CLASS = "__class__"
"""Last step of a key that says of which class a section is: a plant of air or of water, or none at all."""


@dataclass
class _Reads:
    """What a stage has read of a site and of the results of earlier stages: `values` by key, `results` by name."""

    site: Site
    built: Mapping[str, Any]
    values: dict[Key, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    asked: dict[Question, Any] = field(default_factory=dict)
    """Answers of the effective site."""
    whole: bool = False
    what_ifs: bool | None = None
    """Whether what-ifs were to be tried; None where the stage did not ask."""
    sections: dict[Key, BaseModel] = field(default_factory=dict)
    """Sections that have been given out, each made to note what is read of it."""
    key_of: dict[int, Key] = field(default_factory=dict)
    """Their keys, by the identity of their values: a copy with other values has values of its own, and notes nothing."""

    def also(self, within: "_Reads") -> None:
        """Note what a stage has read that was run within this one, for a what-if: with other values here it would say another
        thing.
        """
        self.whole = self.whole or within.whole
        if within.what_ifs is not None:
            self.what_ifs = _tries(self.built)
        self.values.update({key: _at(self.site, key) for key in within.values if key not in self.values})
        self.asked.update({one: _answer(self.site, one) for one in within.asked if one not in self.asked})
        self.results.update({name: self.built[name] for name in within.results if name in self.built})

    def noted(self, key: Key, value: Any) -> Any:
        """The value as it is given to the stage: a section so that it notes in its turn what is read of it."""
        if not isinstance(value, BaseModel):
            self.values[key] = value
            return value
        made = self.sections.get(key)
        if made is None:
            self.values[*key, CLASS] = type(value)
            made = self.sections[key] = _watching(value, _section_class(type(value)))
            self.key_of[id(vars(value))] = key
        return made


_reads: ContextVar[_Reads | None] = ContextVar("reads", default=None)


def _subclass(model: type[BaseModel], body: Mapping[str, Any]) -> type[Any]:
    """A subclass of a model for values that have been checked: without the schema that pydantic makes, in hundredths of its
    time.
    """
    return ABCMeta.__new__(type(model), model.__name__, (model,), {"__module__": __name__, "__slots__": (), **body})


def _watched_attribute(self: Site, name: str) -> Any:
    """An attribute of a site that notes what is read of it. What a copy of it has in place of a section follows from what was
    read before.
    """
    value = Site.__getattribute__(self, name)
    reads = _reads.get()
    if reads is not None:
        if name in SECTIONS:
            if value is vars(reads.site)[name]:
                return reads.noted((name,), value)
        elif name == "effective":
            return _Asked(value)
        elif name in AS_A_WHOLE:
            reads.whole = True
    return value


class _Asked:
    """An effective site that notes what it is asked. Whatever is no question of `_answer` reads it as a whole."""

    def __init__(self, effective: Effective) -> None:
        self._effective = effective

    def __getattr__(self, name: str) -> Any:
        if (reads := _reads.get()) is not None:
            reads.whole = True
        return getattr(self._effective, name)

    @property
    def open(self) -> tuple[str, ...]:
        """Keys of sizes that nobody states."""
        return self._noted("open", (), self._effective.open)

    def sized(self) -> frozenset[Path]:
        """Paths of the sizes that are worked out."""
        return self._noted("sized", (), self._effective.sized())

    def origin(self, path: Path) -> Origin | None:
        """Origin of the value at a path."""
        return self._noted("origin", path, self._effective.origin(path))

    def _noted(self, what: str, path: Path, answer: T) -> T:
        reads = _reads.get()
        if reads is not None and self._effective is _effective(reads.site):
            reads.asked[what, path] = answer
        return answer


def _answer(site: Site, question: Question) -> Any:
    """What the effective site answers."""
    what, path = question
    found = getattr(site.effective, what)
    return found if what == "open" else found(*([path] if path else []))


def _effective(site: Site) -> Effective:
    """The effective site, without a note that it was read."""
    with _noted(None):
        return site.effective


def _copy_of_site(self: Site, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Site:
    with _noted(None):
        return Site.model_copy(self, update=update, deep=deep)


_Watched = _subclass(Site, {"__getattribute__": _watched_attribute, "model_copy": _copy_of_site})


@functools.cache
def _section_class(model: type[BaseModel]) -> type[Any]:
    """The subclass of a section's model that notes what is read of it. It is equal to a section with equal values."""
    fields = frozenset(model.model_fields)

    def attribute(self: BaseModel, name: str) -> Any:
        value = model.__getattribute__(self, name)
        reads = _reads.get()
        if reads is not None:
            key = reads.key_of.get(id(object.__getattribute__(self, "__dict__")))
            if key is not None:
                if name in fields:
                    return reads.noted((*key, name), value)
                if name in SECTION_AS_A_WHOLE:
                    reads.values[key] = _at(reads.site, key)
        return value

    def equal(self: BaseModel, other: object) -> bool:
        return _plain(self) == (_plain(other) if isinstance(other, model) else other)

    return _subclass(model, {"__getattribute__": attribute, "__eq__": equal, "__hash__": model.__hash__, PLAIN: model})


PLAIN = "_model_of_section"


def _plain(section: BaseModel) -> BaseModel:
    """A section that notes nothing, with the same values."""
    model = getattr(type(section), PLAIN, None)
    return _watching(section, model) if model is not None else section


def _watching(values: BaseModel, model: type[Any]) -> Any:
    """The same values as an object of another class."""
    made = object.__new__(model)
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
        object.__setattr__(made, name, getattr(values, name))
    return made


def _at(site: Site, key: Key) -> Any:
    """The value at a key; _ABSENT where a section above it is missing or another."""
    value: Any = site
    for step in key:
        value = getattr(value, step, _ABSENT)
    return value


_ABSENT = object()


TRIALS = "trials"
"""Name of what tries what-ifs, among the results of stages. Of it only whether there is any changes a result."""


def _tries(built: Mapping[str, Any]) -> bool:
    return built.get(TRIALS) is not None


class _Results(dict[str, Any]):
    """Results of earlier stages, which notes what is read of them."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if (reads := _reads.get()) is not None:
            if name == TRIALS:
                reads.what_ifs = value is not None
            else:
                reads.results[name] = value
        return value

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


@dataclass(frozen=True, eq=False)
class _Entry:
    catalog: Catalog
    reads: _Reads
    added: Any
    found: tuple[Finding, ...]

    def holds(self, site: Site, catalog: Catalog, built: Any) -> bool:
        return (
            catalog is self.catalog
            and self.reads.what_ifs in (None, _tries(built))
            and all(built[name] is value for name, value in self.reads.results.items())
            and all(_same(_at(site, key), value) for key, value in self.reads.values.items())
            and all(_same(_answer(site, one), value) for one, value in self.reads.asked.items())
        )


class Kept:
    """Results of stages by what they were made from; `below` makes one that sees these and forgets its own with itself.

    `most` bounds the results of each stage, the latest ones: a plan of 1,000,000 GPUs takes gigabytes.
    """

    def __init__(self, above: "Kept | None" = None, most: int | None = None) -> None:
        self._above, self._most = above, most
        self._entries: dict[str, list[_Entry]] = {}
        self._frames: dict[tuple[Any, ...], tuple[pd.DataFrame, Any]] = {}

    def below(self) -> "Kept":
        """Kept results for one changed site."""
        return Kept(self)

    def run(self, stage: Stage, site: Site, catalog: Catalog, built: Any) -> tuple[Any, list[Finding]]:
        """What the stage gives: kept, or worked out now."""
        entry = next((one for one in self._of(stage) if one.holds(site, catalog, built)), None)
        if entry is None:
            reads = _Reads(site, built)
            with _noted(reads):
                added, found = stage(_watching(site, _Watched), catalog, _Results(built))
            added = {name: self._as_before(stage, name, value) for name, value in added.items()}
            entry = _Entry(catalog, reads, added, tuple(found))
            if not reads.whole:
                mine = self._entries.setdefault(_name(stage), [])
                mine.append(entry)
                del mine[: -self._most if self._most else 0]
        elif self._most and entry in (mine := self._entries.get(_name(stage), [])):
            mine.append(mine.pop(mine.index(entry)))
        if (outer := _reads.get()) is not None:
            outer.also(entry.reads)
        return entry.added, list(entry.found)

    def frame(self, name: str, frame: pd.DataFrame) -> pd.DataFrame:
        """`capacity.model.frames.conform`, once for each frame."""
        return self._once(("conform", name), frame, lambda: frames.conform(name, frame))

    def frame_hash(self, frame: pd.DataFrame) -> str:
        """`capacity.model.frames.frame_hash`, once for each frame."""
        return self._once(("hash",), frame, lambda: frames.frame_hash(frame))

    def _once(self, what: tuple[str, ...], frame: pd.DataFrame, make: Callable[[], Any]) -> Any:
        key = (*what, id(frame))
        found = self._made(key)
        if found is None:
            found = self._frames[key] = (frame, make())
            while self._most and len(self._frames) > 2 * self._most * len(frames.FRAMES):
                del self._frames[next(iter(self._frames))]
        return found[1]

    def _made(self, key: tuple[Any, ...]) -> tuple[pd.DataFrame, Any] | None:
        return self._frames.get(key) or (self._above._made(key) if self._above is not None else None)

    def _as_before(self, stage: Stage, name: str, value: Any) -> Any:
        """The result of an earlier run that equals this one, so that what is made from it holds still."""
        for one in self._of(stage):
            if name in one.added and alike(one.added[name], value):
                return one.added[name]
        return value

    def _of(self, stage: Stage) -> Iterator[_Entry]:
        """Oldest first: a plan that was made before finds in each stage the result that it had."""
        if self._above is not None:
            yield from self._above._of(stage)
        yield from self._entries.get(_name(stage), [])


def unwatched(site: Site) -> Site:
    """The same site for what-ifs within a stage: their own stages say what they read of it."""
    with _noted(None):
        return _watching(site, Site)


def as_a_whole(site: Site) -> Site:
    """The same site for a result that follows from all of it, and is not kept."""
    if (reads := _reads.get()) is not None:
        reads.whole = True
    return unwatched(site)


@contextmanager
def _noted(reads: _Reads | None) -> Iterator[None]:
    token = _reads.set(reads)
    try:
        yield
    finally:
        _reads.reset(token)


def _name(stage: Stage) -> str:
    return getattr(stage, "__qualname__", repr(stage))


def alike(one: Any, other: Any) -> bool:
    """Whether two results of a stage are equal to the last bit; False where that cannot be told."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.DataFrame):
        return one.shape == other.shape and one.columns.equals(other.columns) and bool(one.equals(other))
    if isinstance(one, pd.Series):
        return one.name == other.name and bool(one.equals(other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if dataclasses.is_dataclass(one):
        return all(alike(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    if one is None or isinstance(one, str | int | float | datetime.date | BaseModel):
        return bool(one == other)
    return False


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)
