"""Where a value of the site comes from, what it means, who reads it, and what it decides.

    told = explain(load_site("hall-1/site.yaml"), "cooling.air.rise_k")

Pure, but for the program's own source files, which it searches for the readers of a key.
"""

import functools
import os
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from inventory.findings_registry import registry
from inventory.paths import repo_root
from inventory.site.effective import Origin
from inventory.site.loading import Site, SiteError
from inventory.site.messages import nearest
from inventory.site.model import SiteModel
from inventory.site.references import NAMED_LISTS, Span, at, entry_name
from inventory.site.typical_halls import Typical, like, typical
from inventory.site.yaml_source import Path, Problem

READERS = ("capacity", "network", "validation", "infra", "playbooks", "inventory/delivered", "inventory/imports")


@dataclass(frozen=True)
class Told:
    """What is known of one key.

    ``values``     value of each leaf at or below the key, by key
    ``origins``    origin of each of these
    ``meaning``    description in the schema
    ``span``       plausible range, where the reference designs have one
    ``findings``   ids that the key influences, with their titles
    ``steps``      commissioning steps and known errors that these findings are about
    ``read_by``    modules that read the key
    ``confirmed``  whether the value is the site's own decision: given in the file, or confirmed in it
    ``decides``    what the key decides beside findings, in words: dates, cost
    ``halls``      what the key, or the most important ones of a section, changes in a typical hall of the site's design
    """

    key: str
    values: Mapping[str, Any]
    origins: Mapping[str, Origin]
    meaning: str
    span: Span | None
    findings: Mapping[str, str]
    steps: tuple[str, ...]
    read_by: tuple[str, ...]
    confirmed: bool
    decides: str
    halls: tuple[Typical, ...]


DECIDES: Mapping[Path, str] = {
    ("leadtimes",): "the latest safe date of each order, and the date of go-live",
    ("schedule",): "the dates of the programme, and that of go-live",
    ("purchase", "prices"): "the cost of the plan; lines without a price are not in it",
    ("purchase", "exchange_rates"): "the cost of what is priced in another currency",
    ("purchase", "spares"): "how many spares are bought, and their cost",
}
"""What sections decide that no finding says."""
HALLS_TOLD = 5


def explain(site: Site, key: str) -> Told:
    """What is known of a key of the site; SiteError that names the nearest key where there is none."""
    path: Path = tuple(key.split("."))
    place = _place(path)
    field = place.field
    value = at(site.effective.value, path)
    if value is None and (field is None or any(at(site.effective.value, entry) is None for entry in place.entries)):
        near = nearest(key, [".".join(map(str, one)) for one in site.effective.origins] + schema_keys())
        do = f"write {near}" if near else "docs/site-file.md lists all keys"
        raise SiteError(
            str(site.path), [Problem(path, "an unknown key", key, "a key of the site file", do, nearest=near)]
        )
    if value is None:
        value = field.default if field is not None and not field.is_required() else None
    flat = {".".join(map(str, inner)): (inner, leaf) for inner, leaf in _flat(value, path)}
    ids = findings_of(key)
    steps = sorted({one for id_ in ids for one in registry()[id_].related})
    return Told(
        key=key,
        values={name: leaf for name, (_, leaf) in flat.items()},
        origins={name: origin_of(site, inner) for name, (inner, _) in flat.items()},
        meaning=place.meaning,
        span=site.effective.spans.get(key),
        findings=ids,
        steps=tuple(steps),
        read_by=readers(path),
        confirmed=all(is_confirmed(site, inner) for inner, _ in flat.values()),
        decides=next((text for start, text in DECIDES.items() if path[: len(start)] == start), ""),
        halls=_in_halls(site, list(flat)),
    )


def _in_halls(site: Site, keys: Sequence[str]) -> tuple[Typical, ...]:
    """What keys change in a typical hall, the largest effect first."""
    found = [typical(key, like(site), site.effective.spans.get(key)) for key in keys]
    return tuple(sorted((one for one in found if one is not None), key=lambda one: -one.effect)[:HALLS_TOLD])


def findings_of(key: str) -> dict[str, str]:
    """Findings that a key influences: id -> title."""
    path: Path = tuple(key.split("."))
    touching = {id_ for id_, other in _keys_of_findings().get(str(path[0]), ()) if _touches(path, other)}
    return {id_: entry.title for id_, entry in registry().items() if id_ in touching}


@functools.cache
def _keys_of_findings() -> Mapping[str, Sequence[tuple[str, Path]]]:
    """Findings with the keys that they follow from, by the section of the key."""
    found: dict[str, list[tuple[str, Path]]] = {}
    for id_, entry in registry().items():
        for key in entry.keys:
            found.setdefault(key.partition(".")[0], []).append((id_, tuple(key.split("."))))
    return found


def origin_of(site: Site, path: Path) -> Origin:
    """Origin of the value at a path: the default of the schema where nothing else gives it."""
    found = site.effective.origin(path)
    if found is not None:
        return found
    return Origin("default", "default of the schema (docs/site-file.md)")


def is_confirmed(site: Site, path: Path) -> bool:
    """Whether a value is the site's own: written in its file, a fact of the hardware or what follows from it, or confirmed.

    A size that was worked out is confirmed by being accepted.
    """
    origin = origin_of(site, path)
    if origin.kind in ("given", "catalogue", "default"):
        return True
    if origin.kind == "computed" and (path not in site.effective.sized() or path in site.accepted):
        return True
    return any(path[: len(one)] == one for one in (tuple(key.split(".")) for key in site.confirmed))


def assumptions(site: Site) -> Iterator[tuple[str, Any, Origin]]:
    """Every value that comes from a reference design and that the site has not confirmed: key, value, origin."""
    for path in unconfirmed(site):
        if (origin := site.effective.origins[path]).kind == "reference":
            yield ".".join(map(str, path)), at(site.effective.value, path), origin


def unconfirmed(site: Site) -> Iterator[Path]:
    """Path of every value that nobody has confirmed for this site: assumptions of a design, and sizes that are worked out."""
    for path in site.effective.origins:
        if not _names_another(path) and not is_confirmed(site, path):
            yield path


def _names_another(path: Path) -> bool:
    """Whether a value says of another value what it is: its source, the unit that the register of limits asks for, or the
    name of an entry. Nobody can settle such a value by itself.
    """
    if path[-1] in ("source", "ampacity_source"):
        return True
    if path[0] == "limits":
        return path[-1] == "unit"
    return path[-1] in NAMED_LISTS.get(path[:-2], ())


@functools.cache
def schema_keys() -> list[str]:
    """Every key of the schema, dotted; those below lists and free names excepted."""
    return [".".join(path) for path in _schema(SiteModel, ())]


def _schema(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        path = (*above, field.alias or name)
        yield path
        for inner in _models(field.annotation):
            yield from _schema(inner, path)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (tuple, dict):
        return []
    return [one for inner in typing.get_args(annotation) for one in _models(inner)]


@dataclass(frozen=True)
class _Place:
    """A key in the schema: its field, if it is one; what it means; and the entries that it stands in, whose names are free."""

    field: Any = None
    meaning: str = ""
    entries: tuple[Path, ...] = ()


def _place(path: Path) -> _Place:
    """Where a key stands in the schema: below the name of an entry (an item of leadtimes, a price), in the model of the entry."""
    models: list[type[BaseModel]] = [SiteModel]
    place, of_entries = _Place(), list[type[BaseModel]]()
    for n, step in enumerate(path, start=1):
        if of_entries:
            models, of_entries = of_entries, []
            meaning = " ".join([place.meaning, *((model.__doc__ or "").partition("\n")[0] for model in models)])
            place = _Place(None, meaning, (*place.entries, path[:n]))
            continue
        named = {field.alias or name: field for model in models for name, field in model.model_fields.items()}
        field = named.get(str(step))
        if field is None:
            return _Place()
        place = _Place(field, field.description or "", place.entries)
        models, of_entries = _models(field.annotation), _models_of_entries(field.annotation, path[:n])
    return place


def _models_of_entries(annotation: Any, path: Path) -> list[type[BaseModel]]:
    """Models of the entries of a mapping with free names, or of a list that is joined by names."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is dict:
        return _models(inner[1])
    if origin is tuple:
        return _models(inner[0]) if path in NAMED_LISTS else []
    return [one for part in inner for one in _models_of_entries(part, path)]


def _flat(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Path and value of what stands at or below a path, one by one: entries of lists that are joined by names too."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(inner, (*path, key))
    elif isinstance(value, tuple) and value and path in NAMED_LISTS:
        for entry in value:
            yield from _flat(entry, (*path, entry_name(path, entry)))
    else:
        yield path, value


def _touches(path: Path, other: Path) -> bool:
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def readers(path: Path) -> tuple[str, ...]:
    """Modules that read a key: those that name its attribute behind that of its section (``rack.servers``).

    Where nobody names the section beside it (``units.rise_k``), those that name the attribute alone.
    """
    leaf = str(path[-1])
    word = re.escape(leaf) + ("_?" if leaf in ("class",) else "")
    loose = rf"\.{word}\b"
    attribute = f".{leaf}".encode()
    near = {name: text for name, text in _sources().items() if attribute in text}
    if len(path) > 1:
        found = _naming(rf"\b{re.escape(str(path[-2]))}\w*{loose}", near)
        if found:
            return found
    return _naming(loose, near)


def _naming(pattern: str, sources: Mapping[str, bytes]) -> tuple[str, ...]:
    found = re.compile(pattern.encode())
    return tuple(name for name, text in sources.items() if found.search(text))


@functools.cache
def _sources() -> Mapping[str, bytes]:
    """Source files of the readers by path; as they stand on disk, because half a thousand of them take longer to decode than
    to search.
    """
    root = repo_root()
    found: dict[str, bytes] = {}
    for reader in READERS:
        for folder, _, names in os.walk(root / reader):
            for name in names:
                if name.endswith(".py") and not name.startswith("test_"):
                    file = os.path.join(folder, name)
                    with open(file, "rb") as source:
                        found[os.path.relpath(file, root)] = source.read()
    return dict(sorted(found.items()))
