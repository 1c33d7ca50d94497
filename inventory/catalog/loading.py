"""The catalogue as a whole: reads and checks every entry under data/ once, and finds it by its slug.

In: the files. Out: `Catalog`; CatalogError that names the file or the nearest slug.
"""

import difflib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from inventory.catalog.devices import DeviceType
from inventory.catalog.gpus import Gpu
from inventory.catalog.media import Fibre, MediaTable
from inventory.catalog.power import Connector
from inventory.catalog.racks import RackType
from inventory.catalog.storage import StorageBlock
from inventory.catalog.systems import System
from inventory.paths import catalog_dir
from inventory.yaml_data import read_data

T = TypeVar("T", bound=BaseModel)


class CatalogError(Exception):
    """An entry that is missing or wrong; the message names the file or the nearest slug."""


class Catalog:
    """Everything under inventory/catalog, by slug."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.devices = _read_folder(root / "device-types", DeviceType, lambda d: d.slug)
        self.gpus = _read_folder(root / "gpus", Gpu, lambda g: g.slug)
        self.racks = _read_folder(root / "rack-types", RackType, lambda r: r.slug)
        self.systems = _read_folder(root / "systems", System, lambda s: s.slug)
        self.storage = _read_folder(root / "storage", StorageBlock, lambda b: b.slug)
        for block in self.storage.values():
            for slug in block.devices:
                self.device(slug)
        self.media_tables = _read_folder(root / "media", MediaTable, lambda m: m.slug)
        raw = read_yaml(root / "connectors.yaml")
        self.connectors = {
            name: _validate(Connector, {**body, "mates": tuple(body["mates"])}, root / "connectors.yaml")
            for name, body in raw.items()
        }

        listed = read_yaml(root / "fibres.yaml") if (root / "fibres.yaml").exists() else {}
        self.fibres = {name: _validate(Fibre, body, root / "fibres.yaml") for name, body in listed.items()}
        for table in self.media_tables.values():
            for part in table.parts:
                if part.fibre:
                    self.fibre(part.fibre)

    def device(self, slug: str) -> DeviceType:
        """A device type; CatalogError naming the nearest slug if there is none."""
        return _lookup(self.devices, slug, "device type")

    def gpu(self, slug: str) -> Gpu:
        """A GPU model; CatalogError naming the nearest slug if there is none."""
        return _lookup(self.gpus, slug, "GPU")

    def rack(self, slug: str) -> RackType:
        """A rack type; CatalogError naming the nearest slug if there is none."""
        return _lookup(self.racks, slug, "rack type")

    def system(self, slug: str) -> System:
        """A rack-scale system; CatalogError naming the nearest slug if there is none."""
        return _lookup(self.systems, slug, "rack-scale system")

    def media(self, slug: str) -> MediaTable:
        """A media table; CatalogError naming the nearest slug if there is none."""
        return _lookup(self.media_tables, slug, "media table")

    def connector(self, name: str) -> Connector:
        """A power connector; CatalogError naming the nearest one if there is none."""
        return _lookup(self.connectors, name, "power connector")

    def fibre(self, name: str) -> Fibre:
        """What the ends of a fibre are; CatalogError naming the nearest one if there is none."""
        return _lookup(self.fibres, name, "fibre")


@functools.cache
def load_catalog(root: Path | None = None) -> Catalog:
    """The catalogue under ``root`` (default: the shipped one), read once per process."""
    return Catalog(root or catalog_dir())


def _lookup(entries: dict[str, T], slug: str, what: str) -> T:
    if slug in entries:
        return entries[slug]
    near = difflib.get_close_matches(slug, entries, n=1, cutoff=0.4)
    nearest = f"; nearest: {near[0]}" if near else ""
    raise CatalogError(f"no {what} {slug!r} in the catalogue{nearest}; known: {', '.join(sorted(entries))}")


def _read_folder(folder: Path, model: type[T], key: Callable[[T], str]) -> dict[str, T]:
    entries: dict[str, T] = {}
    for path in sorted(folder.glob("*.yaml")):
        entry = _validate(model, read_yaml(path), path)
        slug = key(entry)
        if slug != path.stem:
            raise CatalogError(f"{path}: slug {slug!r} differs from the file name")
        entries[slug] = entry
    return entries


def _validate(model: type[T], raw: Any, path: Path) -> T:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise CatalogError("\n".join([f"{path}: not a valid catalogue entry", *lines])) from None


def read_yaml(path: Path) -> Any:
    """A data file of our own. The C parser is fast and takes no care of hostile nesting, so a site file is not read with it."""
    try:
        return read_data(path)
    except (OSError, yaml.YAMLError) as error:
        raise CatalogError(f"{path}: cannot be read: {error}") from None
