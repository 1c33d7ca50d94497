"""The catalogue as a whole: reads and checks every entry under data/ once, and finds it by its slug.

In: the files; for one site also those of the folder `catalog` beside its site file, in the same folders and form.
Out: `Catalog`; CatalogError that names the file, its place and the way out, or the nearest slug.

A file that cannot be used stops those who ask for its entry, and what is made of it, not the rest of the catalogue.
"""

import difflib
import functools
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from inventory.catalog.devices import DeviceType
from inventory.catalog.gpus import Gpu
from inventory.catalog.media import Fibre, MediaTable
from inventory.catalog.pdus import Pdu
from inventory.catalog.power import Connector
from inventory.catalog.racks import RackType
from inventory.catalog.storage import StorageBlock
from inventory.catalog.systems import System
from inventory.paths import catalog_dir
from inventory.yaml_data import read_data

T = TypeVar("T", bound=BaseModel)
Named = TypeVar("Named", DeviceType, Gpu, RackType, System, StorageBlock, MediaTable)
"""Entries with a file of their own, named by their slug."""

FOLDERS: Mapping[str, tuple[str, type[BaseModel]]] = {
    "device-types": ("device type", DeviceType),
    "gpus": ("GPU", Gpu),
    "rack-types": ("rack type", RackType),
    "systems": ("rack-scale system", System),
    "storage": ("building block of storage", StorageBlock),
    "media": ("media table", MediaTable),
}
"""Folders of the catalogue: what an entry is called, and its model."""
CONNECTORS = "connectors.yaml"
FIBRES = "fibres.yaml"
SITE_CATALOG = "catalog"
"""Folder beside a site file that holds entries of its own."""
MAX_BYTES = 1_000_000
WAY_OUT = "correct it (docs/catalog.md has every key), or take the file away if nothing uses it"


class CatalogError(Exception):
    """An entry that is missing or wrong; the message names the file or the nearest slug."""


@dataclass(frozen=True)
class Broken:
    """A file of the catalogue that cannot be used."""

    what: str
    slug: str
    path: Path
    text: str


class Catalog:
    """Everything under inventory/catalog, by slug; with `own`, also the entries of one site.

    An entry of `own` with the slug of a shipped one is refused: the figures of a shipped entry stay what they are.
    """

    def __init__(self, root: Path, own: Path | None = None) -> None:
        self.root = root
        self.own = own
        self.broken: dict[str, Broken] = {}
        """Files that cannot be used, by the slug that their name says."""
        self.paths: dict[str, Path] = {}
        """File of each entry, by slug."""
        self.connectors: dict[str, Connector] = {}
        for folder in (root, own):
            if folder is not None and (folder is root or (folder / CONNECTORS).is_file()):
                self._read_connectors(folder / CONNECTORS)
        self.devices: dict[str, DeviceType] = self._read("device-types", DeviceType)
        self.gpus: dict[str, Gpu] = self._read("gpus", Gpu)
        self.racks: dict[str, RackType] = self._read("rack-types", RackType)
        self.systems: dict[str, System] = self._read("systems", System)
        self.storage: dict[str, StorageBlock] = self._read("storage", StorageBlock)
        self.media_tables: dict[str, MediaTable] = self._read("media", MediaTable)
        listed = read_yaml(root / FIBRES) if (root / FIBRES).exists() else {}
        self.fibres: dict[str, Fibre] = {name: _validate(Fibre, body, root / FIBRES) for name, body in listed.items()}
        self._drop_what_needs_others()

    def device(self, slug: str) -> DeviceType:
        """A device type; CatalogError naming the nearest slug if there is none."""
        return self._lookup(self.devices, slug, "device type")

    def rack_pdu(self, slug: str) -> Pdu:
        """What a rack PDU is fed with and how it is spoken to; CatalogError for a device type that is no rack PDU."""
        facts = self.device(slug).bringup.pdu
        if facts is None:
            raise CatalogError(f"device type {slug} has no bringup.pdu block: it is no rack PDU")
        return facts

    def gpu(self, slug: str) -> Gpu:
        """A GPU model; CatalogError naming the nearest slug if there is none."""
        return self._lookup(self.gpus, slug, "GPU")

    def rack(self, slug: str) -> RackType:
        """A rack type; CatalogError naming the nearest slug if there is none."""
        return self._lookup(self.racks, slug, "rack type")

    def system(self, slug: str) -> System:
        """A rack-scale system; CatalogError naming the nearest slug if there is none."""
        return self._lookup(self.systems, slug, "rack-scale system")

    def media(self, slug: str) -> MediaTable:
        """A media table; CatalogError naming the nearest slug if there is none."""
        return self._lookup(self.media_tables, slug, "media table")

    def connector(self, name: str) -> Connector:
        """A power connector; CatalogError naming the nearest one if there is none."""
        return self._lookup(self.connectors, name, "power connector")

    def entries(self) -> dict[str, tuple[str, BaseModel]]:
        """All entries but connectors: slug -> what it is called, and the entry."""
        kinds: tuple[Mapping[str, BaseModel], ...] = (
            self.devices,
            self.gpus,
            self.racks,
            self.systems,
            self.storage,
            self.media_tables,
        )
        names = [what for what, _ in FOLDERS.values()]
        return {slug: (what, one) for what, kind in zip(names, kinds, strict=True) for slug, one in kind.items()}

    def is_own(self, slug: str) -> bool:
        """Whether an entry is one of the site's own."""
        return self.own is not None and slug in self.paths and self.paths[slug].is_relative_to(self.own)

    def _lookup(self, entries: dict[str, T], slug: str, what: str) -> T:
        if slug in entries:
            return entries[slug]
        if slug in self.broken:
            raise CatalogError(self.broken[slug].text)
        near = difflib.get_close_matches(slug, entries, n=1, cutoff=0.4)
        nearest = f"; nearest: {near[0]}" if near else ""
        raise CatalogError(f"no {what} {slug!r} in the catalogue{nearest}; known: {', '.join(sorted(entries))}")

    def _read(self, folder: str, model: type[Named]) -> dict[str, Named]:
        what = FOLDERS[folder][0]
        entries: dict[str, Named] = {}
        for path in sorted((self.root / folder).glob("*.yaml")):
            self._take(entries, path, model, what)
        shipped = set(entries)
        for path in sorted((self.own / folder).glob("*.yaml")) if self.own is not None else ():
            if path.stem in shipped:
                self._refuse(
                    what,
                    path,
                    f"{path}: {what} {path.stem} is in the shipped catalogue already; its figures stay as they are. "
                    "Give the file and its slug a name of their own, and name that in the site file; to change one "
                    "figure, write its key in the site file",
                )
                del entries[path.stem]
                continue
            self._take(entries, path, model, what)
        return entries

    def _take(self, entries: dict[str, Named], path: Path, model: type[Named], what: str) -> None:
        """Read one entry; what is wrong with its file is kept for those who ask for it."""
        try:
            entry = _validate(model, read_yaml(path), path)
            slug = entry.slug
            if slug != path.stem:
                raise CatalogError(
                    f"{path}: slug {slug!r} differs from the name of the file; name the file {slug}.yaml, or write "
                    f"slug: {path.stem}"
                )
            if isinstance(entry, DeviceType):
                self._check_connectors(entry, path)
        except CatalogError as error:
            self._refuse(what, path, str(error))
            return
        entries[slug] = entry
        self.paths[slug] = path

    def _refuse(self, what: str, path: Path, text: str) -> None:
        self.broken[path.stem] = Broken(what, path.stem, path, text)

    def _check_connectors(self, device: DeviceType, path: Path) -> None:
        used = {f"power-ports.{port.name}": port.type for port in device.power_ports}
        used |= {f"power-outlets.{outlet.name}": outlet.type for outlet in device.power_outlets}
        if device.bringup.pdu is not None:
            used["bringup.pdu.input_type"] = device.bringup.pdu.input_type
        for where, name in used.items():
            if name not in self.connectors:
                near = difflib.get_close_matches(name, self.connectors, n=1, cutoff=0.4)
                way = f"write {near[0]}" if near else f"choose one of {', '.join(sorted(self.connectors))}"
                raise CatalogError(
                    f"{path}: not a valid catalogue entry\n  {where}: unknown power connector {name!r}; {way}, or add it "
                    f"to {SITE_CATALOG}/{CONNECTORS} beside the site file"
                )

    def _read_connectors(self, path: Path) -> None:
        try:
            raw = read_yaml(path)
            if not isinstance(raw, dict):
                raise CatalogError(f"{path}: not a mapping of connectors by name; {WAY_OUT}")
            found = {}
            for name, body in raw.items():
                if path.is_relative_to(self.root) or name not in self.connectors:
                    found[str(name)] = _validate(Connector, body, path, f"{name}.")
                else:
                    raise CatalogError(f"{path}: connector {name} is in the shipped catalogue already; take it away")
        except CatalogError as error:
            self._refuse("power connectors", path, str(error))
            return
        self.connectors |= found

    def _drop_what_needs_others(self) -> None:
        """An entry that is made of others needs them."""
        for block in list(self.storage.values()):
            self._need(self.storage, block.slug, "building block of storage", block.devices, self.devices)
        for system in list(self.systems.values()):
            models = [part.model for part in system.parts]
            self._need(self.systems, system.slug, "rack-scale system", models, self.devices)
            if system.slug in self.systems:
                self._need(self.systems, system.slug, "rack-scale system", [system.rack], self.racks)
        for table in list(self.media_tables.values()):
            fibres = [part.fibre for part in table.parts if part.fibre]
            self._need(self.media_tables, table.slug, "media table", fibres, self.fibres)

    def _need(
        self, entries: dict[str, Any], slug: str, what: str, needed: Iterable[str], known: dict[str, Any]
    ) -> None:
        for other in needed:
            if other in known:
                continue
            path = self.paths[slug]
            near = difflib.get_close_matches(other, known, n=1, cutoff=0.4)
            why = (
                self.broken[other].text
                if other in self.broken
                else f"there is no {other}" + (f"; nearest: {near[0]}" if near else "")
            )
            self._refuse(what, path, f"{path}: {what} {slug} is made of {other}: {why}")
            del entries[slug]
            return

    def fibre(self, name: str) -> Fibre:
        """What the ends of a fibre are; CatalogError naming the nearest one if there is none."""
        return self._lookup(self.fibres, name, "fibre")


@functools.cache
def load_catalog(root: Path | None = None) -> Catalog:
    """The catalogue under ``root`` (default: the shipped one), read once per process."""
    return Catalog(root or catalog_dir())


def site_catalog(folder: Path) -> Catalog:
    """The shipped catalogue with the entries of a site's own, which lie in `catalog` in the folder of its site file."""
    own = folder / SITE_CATALOG
    if not own.is_dir():
        return load_catalog()
    files = []
    for path in sorted(own.rglob("*.yaml")):
        try:
            seen = path.stat()
        except OSError:
            continue  # reading it says so
        files.append((str(path), seen.st_mtime_ns, seen.st_size))
    return _with_own(own, tuple(files)) if files else load_catalog()


@functools.lru_cache(maxsize=8)
def _with_own(own: Path, files: tuple[tuple[str, int, int], ...]) -> Catalog:
    return Catalog(catalog_dir(), own)


def _validate(model: type[T], raw: Any, path: Path, prefix: str = "") -> T:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        lines = [f"  {line}" for line in _faults(error, model, prefix)]
        raise CatalogError("\n".join([f"{path}: not a valid catalogue entry", *lines, f"  Fix: {WAY_OUT}"])) from None


def _faults(error: ValidationError, model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Place, what is wrong with it and what was expected, of each fault."""
    for one in error.errors():
        place = prefix + ".".join(map(str, one["loc"]))
        if one["type"] == "extra_forbidden":
            known = _keys(model, one["loc"][:-1])
            near = difflib.get_close_matches(str(one["loc"][-1]), known, n=1, cutoff=0.5)
            do = f"write {near[0]}" if near else f"known: {', '.join(known)}"
            yield f"{place}: unknown key; {do}"
        elif one["type"] == "missing":
            yield f"{place}: missing, and every entry has it"
        else:
            found = repr(one["input"])
            yield f"{place}: {one['msg']}; found {found if len(found) <= 60 else found[:57] + '…'}"


def _keys(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """The keys of the mapping at a place of an entry; none where it is not one of fixed keys."""
    for step in place:
        if isinstance(step, int):
            continue
        field = next((f for name, f in model.model_fields.items() if step in (name, _alias(model, name))), None)
        inner = _model_in(field.annotation) if field is not None else None
        if inner is None:
            return []
        model = inner
    return [_alias(model, name) for name in model.model_fields]


def _alias(model: type[BaseModel], name: str) -> str:
    given = model.model_fields[name].alias
    if given:
        return given
    made = model.model_config.get("alias_generator")
    return str(made(name)) if isinstance(made, types.FunctionType) else name


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in typing.get_args(annotation) if (found := _model_in(one)) is not None), None)


def read_yaml(path: Path) -> Any:
    """A data file. The C parser is fast and takes no care of hostile nesting, so a file has at most MAX_BYTES."""
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            raise CatalogError(f"{path}: {size} bytes, more than the {MAX_BYTES} of any entry; {WAY_OUT}")
        return read_data(path)
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise CatalogError(f"{path}{where}: not YAML: {error.problem}; {WAY_OUT}") from None
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise CatalogError(f"{path}: cannot be read: {error}; {WAY_OUT}") from None
