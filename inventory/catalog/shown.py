"""The catalogue as people and editors read it: a list, one entry key by key with its sources, the JSON Schema.

In: a Catalog. Out: plain rows and mappings. Pure.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from inventory.catalog.loading import CONNECTORS, FIBRES, FOLDERS, Catalog, CatalogError
from inventory.catalog.media import Fibre
from inventory.catalog.power import Connector

UNCONFIRMED = "not confirmed"
"""What a source says where nobody has seen the document that a number should come from."""


@dataclass(frozen=True)
class Listed:
    """An entry in the list: what it is, its id, its name, whether the site brought it, how many sources are not confirmed."""

    what: str
    id: str
    name: str
    own: bool
    unconfirmed: int


@dataclass(frozen=True)
class Shown:
    """A value of an entry and where it comes from; source '' for a name, which has none."""

    key: str
    value: str
    source: str


def listed(catalog: Catalog) -> list[Listed]:
    """Every entry, by kind and id; connectors last."""
    rows = []
    for slug, (what, entry) in catalog.entries().items():
        texts = list(_sources_of(entry))
        name = " ".join(str(getattr(entry, key)) for key in ("manufacturer", "model", "title") if hasattr(entry, key))
        rows.append(Listed(what, slug, name, catalog.is_own(slug), sum(UNCONFIRMED in text for text in texts)))
    for name, connector in catalog.connectors.items():
        mates = "mates with " + ", ".join(connector.mates)
        rows.append(Listed("power connector", name, mates, False, int(UNCONFIRMED in connector.source)))
    return rows


def shown(catalog: Catalog, slug: str) -> list[Shown]:
    """An entry value by value; CatalogError that names the nearest id, or the fault of the entry's file."""
    if slug in catalog.broken:
        raise CatalogError(catalog.broken[slug].text)
    entries: dict[str, BaseModel] = {one: entry for one, (_, entry) in catalog.entries().items()}
    entries |= catalog.connectors
    if slug not in entries:
        near = difflib.get_close_matches(slug, entries, n=1, cutoff=0.4)
        way = f"nearest: {near[0]}; " if near else ""
        raise CatalogError(f"no entry {slug!r} in the catalogue; {way}bringup catalog list shows all")
    body = entries[slug].model_dump(by_alias=True, mode="json", exclude_defaults=True)
    sources = body.pop("sources", {})
    return [Shown(key, value, source) for key, value, source in _leaves(body, sources, body.pop("source", ""))]


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the files of the catalogue, for editors: any of its kinds."""
    models: list[tuple[type[BaseModel], Literal["validation"]]] = [
        (model, "validation") for _, model in FOLDERS.values()
    ]
    names, whole = models_json_schema([*models, (Connector, "validation"), (Fibre, "validation")], by_alias=True)
    refs = {folder: names[model, "validation"] for folder, (_, model) in FOLDERS.items()}
    connectors = {"type": "object", "additionalProperties": names[Connector, "validation"]}
    fibres = {"type": "object", "additionalProperties": names[Fibre, "validation"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Bringup catalogue entry",
        "anyOf": [
            *({**ref, "$comment": f"files in {folder}/"} for folder, ref in refs.items()),
            {**connectors, "$comment": CONNECTORS},
            {**fibres, "$comment": FIBRES},
        ],
        "$defs": whole["$defs"],
    }


def _sources_of(entry: BaseModel) -> Iterator[str]:
    if isinstance(sources := getattr(entry, "sources", None), Mapping):
        yield from sources.values()
    for part in getattr(entry, "parts", ()):
        yield getattr(part, "source", "")
        yield from (plug.source for plug in getattr(part, "plugs", ()))


def _leaves(value: Any, sources: Mapping[str, str], near: str, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, value and source of every leaf; lists of names and numbers are one leaf."""
    if isinstance(value, Mapping):
        near = value.get("source", near)
        for key, inner in value.items():
            if key != "source":
                yield from _leaves(inner, sources, near, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(inner, Mapping | list) for inner in value):
        for n, inner in enumerate(value):
            name = inner.get("name", inner.get("part", n)) if isinstance(inner, Mapping) else n
            yield from _leaves(inner, sources, near, f"{path}[{name}]")
    else:
        text = ", ".join(map(_text, value)) if isinstance(value, list) else _text(value)
        yield path, text, _source(path, sources) or near


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _source(path: str, sources: Mapping[str, str]) -> str:
    """The source of the longest key that a path begins with."""
    plain = path.split("[")[0]
    ends = [n for n in range(len(plain), 0, -1) if n == len(plain) or plain[n] in "._"]
    return next((sources[plain[:n]] for n in ends if plain[:n] in sources), "")
