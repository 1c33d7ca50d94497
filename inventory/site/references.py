"""Reference designs: choices that a site file takes over by name (`based_on`), as data with their sources.

One file a design in inventory/references/, the keys of a site file under `values`. A design may be made of others; what it says
itself goes before what these say. Two designs of which neither is made of the other must not say different things, unless
the site file, or a design that is made of both, says it.

In: the YAML files. Out: `Reference`, and `joined`, the leaves of several of them with the design that each comes from.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inventory.paths import repo_root
from inventory.site.yaml_source import Path
from inventory.yaml_data import read_data

NAMED_LISTS: Mapping[Path, tuple[str, ...]] = {
    ("service_nodes",): ("role",),
    ("purchase", "prices"): ("item", "model"),
}
"""Lists whose entries are joined one by one, and the keys of an entry that name it; other lists replace each other."""
WHOLE: frozenset[Path] = frozenset(
    {
        ("server", "psu", "split_by_feed"),
        ("server", "shelves", "split_by_feed"),
        ("electrical", "rooms"),
        ("electrical", "panels", "feeder"),
        ("electrical", "rack_conductor"),
        ("schedule", "calendar"),
        ("weather",),
    }
)
"""Mappings that replace each other as a whole: a half of one and a half of the other would be nobody's."""


class ReferenceError(Exception):
    """A reference design that cannot be read; the message names the file and the place."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Span(_Data):
    """The range in which a value is plausible."""

    low: float
    high: float
    source: str = Field(min_length=1)


class Ladder(_Data):
    """The sizes in which equipment is made, smallest first: values that change together.

    ``rungs``  values by their names below `key`; a name with dots is a whole key
    ``yields_to``  keys of which the file states one, or one of the ladder's own, where the site does without the values of this
                   ladder: they have defaults that follow from those keys
    """

    key: str
    source: str = Field(min_length=1)
    rungs: tuple[Mapping[str, float | str], ...] = Field(min_length=1)
    yields_to: tuple[str, ...] = ()

    def full_key(self, name: str) -> str:
        """The whole key of a name of a rung."""
        return name if "." in name else f"{self.key}.{name}"

    def values(self, rung: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a rung by their whole keys."""
        return {self.full_key(name): value for name, value in rung.items()}

    def paths(self) -> tuple[Path, ...]:
        """Paths of the values."""
        return tuple(dict.fromkeys(tuple(key.split(".")) for rung in self.rungs for key in self.values(rung)))


class Offer(_Data):
    """What `bringup new` finds the design by."""

    gpu: str
    fabric: str
    cooling: str


class Reference(_Data):
    """A reference design.

    ``source``    where its values come from, but for those of `sources` (by key, or by what the key begins with) and those that
                  have a `source` beside them
    ``based_on``  designs that it is made of; its own values go before theirs
    ``values``    keys of a site file, nested
    ``whole``     keys whose mappings replace those of `based_on` instead of being joined with them
    ``ranges``    plausible range by key
    ``ladders``   sizes that equipment is made in, for what the planner works out
    """

    slug: str
    title: str = Field(min_length=1)
    source: str = Field(min_length=1)
    based_on: tuple[str, ...] = ()
    offers: Offer | None = None
    values: Mapping[str, Any]
    whole: tuple[str, ...] = ()
    sources: Mapping[str, str] = {}
    ranges: Mapping[str, Span] = {}
    ladders: tuple[Ladder, ...] = ()

    def source_of(self, path: Path) -> str:
        """Source of the value at a path: that of `sources` for the path itself, the `source` that stands in the value or beside it,
        else of the longest key of `sources` that the path begins with. A `source` is its own.
        """
        if path not in self._found:
            self._found[path] = self._source_of(path)
        return self._found[path]

    def _source_of(self, path: Path) -> str:
        if path[-1] == "source" and isinstance(said := at(self.tupled, path), str):
            return said
        exact, *above = [".".join(map(str, path[:n])) for n in range(len(path), 0, -1)]
        if exact in self.sources:
            return self.sources[exact]
        for place in (path, path[:-1]):
            inner = at(self.tupled, place)
            if isinstance(inner, Mapping) and isinstance(inner.get("source"), str):
                return str(inner["source"])
        return next((self.sources[key] for key in above if key in self.sources), self.source)

    @functools.cached_property
    def tupled(self) -> Any:
        """The values with tuples for lists, as the site file's parser gives them."""
        return tupled(self.values)

    @functools.cached_property
    def _found(self) -> dict[Path, str]:
        """What `source_of` has found: each plan of a site asks it of the same hundreds of paths."""
        return {}


def references_dir() -> FilePath:
    """The folder of the shipped reference designs."""
    return repo_root() / "inventory" / "references"


def reference_names() -> list[str]:
    """Slugs of the shipped reference designs."""
    return sorted(path.stem for path in references_dir().glob("*.yaml"))


@functools.cache
def reference(slug: str) -> Reference:
    """A shipped reference design. KeyError where there is none; ReferenceError where its file cannot be read."""
    path = references_dir() / f"{slug}.yaml"
    if slug not in reference_names():
        raise KeyError(slug)
    try:
        return Reference.model_validate({"slug": slug, **read_data(path)})
    except (OSError, yaml.YAMLError, TypeError) as error:
        raise ReferenceError(f"{path}: cannot be read: {error}") from None
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise ReferenceError("\n".join([f"{path}: not a valid reference design", *lines])) from None


@dataclass
class Contradiction:
    """Two designs that say different things of one key."""

    path: Path
    first: str
    second: str
    values: tuple[Any, Any]


@dataclass
class Joined:
    """Several designs as one."""

    value: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, str] = field(default_factory=dict)
    """Path of a leaf -> the design that says it."""
    contradictions: list[Contradiction] = field(default_factory=list)
    order: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    """The designs that were asked for; the others of `order` are what these are made of."""

    def listed(self, slug: str) -> str:
        """The design that was asked for and is, or is made of, this one; the first of several."""
        return slug if slug in self.asked else next((one for one in self.asked if slug in lineage(one)), slug)

    def spans(self) -> dict[str, Span]:
        """Every plausible range, by key: of the last design that has one, unless a later one replaced the value without."""
        rank = {slug: n for n, slug in enumerate(self.order)}
        found = {}
        for slug in self.order:
            for key, span in reference(slug).ranges.items():
                path = tuple(key.split("."))
                by = next((self.origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.origins), slug)
                if rank[by] <= rank[slug]:
                    found[key] = span
        return found

    def ladders(self) -> dict[str, Ladder]:
        """The ladders, by key; a later design's replaces that of an earlier one."""
        return {ladder.key: ladder for slug in self.order for ladder in reference(slug).ladders}


def lineage(slug: str, above: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A design after all that it is made of, each once. ReferenceError for a circle."""
    if slug in above:
        raise ReferenceError(f"{references_dir() / slug}.yaml: based on itself, by way of {', '.join(above)}")
    inner = [name for base in reference(slug).based_on for name in lineage(base, (*above, slug))]
    return tuple(dict.fromkeys([*inner, slug]))


def joined(slugs: Sequence[str]) -> Joined:
    """The designs of some slugs, joined. KeyError for an unknown slug."""
    made = Joined(
        order=tuple(dict.fromkeys(name for slug in slugs for name in lineage(slug))), asked=tuple(dict.fromkeys(slugs))
    )
    found: list[Contradiction] = []
    for slug in made.order:
        one = reference(slug)
        below = set(lineage(slug))
        origins, values = made.origins, made.value
        for key in one.whole:
            whole: Path = tuple(key.split("."))
            made.value = without(made.value, whole)
            made.origins = {place: by for place, by in made.origins.items() if place[: len(whole)] != whole}
        placed = dict(made.origins)
        for path, value in leaves(one.tupled):
            before = origins.get(path)
            if before is not None and before not in below and (old := at(values, path)) != value:
                found.append(Contradiction(path, before, slug, (old, value)))
            placed[path] = slug
        made.origins = placed
        made.value = merged(made.value, one.tupled)
    made.contradictions = [one for one in found if made.origins.get(one.path) in (one.first, one.second)]
    return made


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Path and value of every leaf: what is neither a mapping nor an entry of a list that is joined by names."""
    if isinstance(value, Mapping) and value and path not in WHOLE:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, tuple) and path in NAMED_LISTS:
        for entry in value:
            yield from leaves(entry, (*path, entry_name(path, entry)))
    elif path:
        yield path, value


def entry_name(path: Path, entry: Any) -> str:
    """The name of an entry of a list that is joined by names."""
    keys = NAMED_LISTS[path]
    return " ".join(str(entry[key]) for key in keys if isinstance(entry, Mapping) and entry.get(key) is not None)


def merged(base: Any, over: Any, path: Path = ()) -> Any:
    """Nested values, those of `over` before those of `base`."""
    if isinstance(base, Mapping) and isinstance(over, Mapping) and path not in WHOLE:
        values = {**base, **{key: merged(base.get(key), inner, (*path, key)) for key, inner in over.items()}}
        return {key: values[key] for key in _in_order(base, over)}
    if isinstance(base, tuple) and isinstance(over, tuple) and path in NAMED_LISTS:
        entries = {entry_name(path, entry): entry for entry in base}
        for entry in over:
            name = entry_name(path, entry)
            entries[name] = merged(entries.get(name), entry, (*path, name))
        return tuple(entries.values())
    return over


def _in_order(base: Mapping[str, Any], over: Mapping[str, Any]) -> list[str]:
    """Keys of both: those of `base` in its order, a new one behind the key that `over` has before it, else last."""
    order = list(base)
    for n, key in enumerate(keys := list(over)):
        if key not in base:
            order.insert(order.index(keys[n - 1]) + 1 if n else len(order), key)
    return order


def at(value: Any, path: Path) -> Any:
    """The value at a path of names; None where there is none."""
    for n, step in enumerate(path):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, tuple) and path[:n] in NAMED_LISTS:
            value = next((entry for entry in value if entry_name(path[:n], entry) == step), None)
        elif isinstance(value, tuple) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def without(value: Any, path: Path) -> Any:
    """Nested mappings without what stands at a path."""
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    rest = {key: inner for key, inner in value.items() if key != path[0]}
    return {**rest, path[0]: without(value[path[0]], path[1:])} if len(path) > 1 else rest


def tupled(value: Any) -> Any:
    """Plain data with tuples for lists, as the site file's parser gives it."""
    if isinstance(value, Mapping):
        return {str(key): tupled(inner) for key, inner in value.items()}
    return tuple(tupled(inner) for inner in value) if isinstance(value, list | tuple) else value
