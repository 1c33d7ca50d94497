"""Results of stages that are kept, so that a plan of a changed site works out anew only what the change touches.

    kept = Kept()
    build(site, kept=kept)             # every stage is run
    build(changed_site, kept=kept)     # stages that read nothing of what changed give what they gave before

What a stage reads is seen, not declared: it is given a site that notes the sections which are read, and the results of earlier
stages in a mapping that notes the same. A kept result holds for a site whose sections of these names are equal, and for the very
same results of earlier stages. A stage that reads a site as a whole (its dump, its origins) is run each time.
"""

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel

from capacity.model import frames
from inventory.catalog import Catalog
from inventory.findings import Finding
from inventory.site import Site

Stage = Callable[[Site, Catalog, Any], tuple[Any, list[Finding]]]

SECTIONS = frozenset(Site.model_fields)
AS_A_WHOLE = frozenset({"__dict__", "__iter__", "effective", "given", "model_dump", "model_dump_json", "slices"})
"""Attributes that give more than one section: what reads them is not kept."""


@dataclass
class _Reads:
    """What a stage has read of a site and of the results of earlier stages."""

    site: Site
    sections: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    whole: bool = False


_reads: ContextVar[_Reads | None] = ContextVar("reads", default=None)


class _Watched(Site):
    """A site that notes what is read of it. What a copy of it has in place of a section follows from what was read before."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        reads = _reads.get()
        if reads is not None:
            if name in SECTIONS:
                if value is vars(reads.site)[name]:
                    reads.sections[name] = value
            elif name in AS_A_WHOLE:
                reads.whole = True
        return value

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        with _noted(None):
            return super().model_copy(update=update, deep=deep)


class _Results(dict[str, Any]):
    """Results of earlier stages, which notes what is read of them."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if (reads := _reads.get()) is not None:
            reads.results[name] = value
        return value

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


@dataclass(frozen=True)
class _Entry:
    catalog: Catalog
    reads: _Reads
    added: Any
    found: tuple[Finding, ...]

    def holds(self, site: Site, catalog: Catalog, built: Any) -> bool:
        return (
            catalog is self.catalog
            and all(built[name] is value for name, value in self.reads.results.items())
            and all(_same(getattr(site, name), value) for name, value in self.reads.sections.items())
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
            reads = _Reads(site)
            with _noted(reads):
                added, found = stage(_watched(site), catalog, _Results(built))
            added = {name: self._as_before(stage, name, value) for name, value in added.items()}
            entry = _Entry(catalog, reads, added, tuple(found))
            if not reads.whole:
                mine = self._entries.setdefault(_name(stage), [])
                mine.append(entry)
                del mine[: -self._most if self._most else 0]
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


def _watched(site: Site) -> Site:
    """The same site, which notes what is read of it."""
    made = _Watched.model_construct()
    object.__setattr__(made, "__dict__", vars(site))
    object.__setattr__(made, "__pydantic_private__", site.__pydantic_private__)
    object.__setattr__(made, "__pydantic_fields_set__", site.__pydantic_fields_set__)
    return made
