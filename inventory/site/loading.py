"""Load a site file: text in, an immutable Site out, or one SiteError that names every fault at its line.

site = load_site("lab")                    # a shipped site by name
site = load_site("/etc/bringup/site.yaml") # any file or its folder
"""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, ValidationError

from inventory.catalog import CONNECTORS, Catalog, load_catalog, site_catalog
from inventory.paths import SITE_FILE, read_file, site_dir, sites_dir
from inventory.site import accepted, effective, messages, needs, yaml_source
from inventory.site.accepted import AcceptedValue
from inventory.site.effective import Effective, Unsized
from inventory.site.model import SiteModel, check
from inventory.site.sections.credentials import Credentials
from inventory.site.yaml_source import Document, Problem
from inventory.site.yaml_source import Path as KeyPath

MAX_BYTES = 4_000_000
MANY_SECTIONS = 3
"""Mandatory sections that a file without a reference design lacks when it was meant to have one."""


class Site(SiteModel):
    """A valid site file and where it came from."""

    _path: Path = PrivateAttr(default=Path(SITE_FILE))
    _changes: tuple[str, ...] = PrivateAttr(default=())
    _given: Mapping[str, Any] = PrivateAttr(default_factory=dict)
    _effective: Effective = PrivateAttr(default_factory=lambda: Effective({}))
    _accepted: Mapping[KeyPath, AcceptedValue] = PrivateAttr(default_factory=dict)
    _start: Path | None = PrivateAttr(default=None)
    _catalog: Catalog | None = PrivateAttr(default=None)

    @property
    def given(self) -> Mapping[str, Any]:
        """What the file says, as plain nested values; the site has all that reference designs and catalogue add."""
        return self._given

    @property
    def effective(self) -> Effective:
        """The site's values with their origins."""
        return self._effective

    @property
    def accepted(self) -> Mapping[KeyPath, AcceptedValue]:
        """The values that were accepted (`bringup accept`), by key; {} where nothing was."""
        return self._accepted

    @property
    def accepted_folder(self) -> Path:
        """The folder of the accepted state that plans of this site start from, which need not exist."""
        return self._start or self.dir / accepted.FOLDER

    @property
    def catalog(self) -> Catalog:
        """The hardware catalogue that the site was read with: the shipped one, and the site's own entries where it has some."""
        return self._catalog or load_catalog()

    @property
    def path(self) -> Path:
        """The file that the site was read from, absolute."""
        return self._path

    @property
    def changes(self) -> tuple[str, ...]:
        """Settings that make it another site than its file says (inventory.site.whatif); () for the site itself."""
        return self._changes

    @property
    def dir(self) -> Path:
        """The folder of the site file: ``assets.csv`` and ``as_built.csv`` lie here."""
        return self._path.parent

    @property
    def credentials(self) -> Credentials:
        """The references to secrets; SiteError with a block to paste where the file has none."""
        if self.credentials_given is None:
            raise SiteError(shown_path(self._path), [needs.credentials_missing(self.name)])
        return self.credentials_given

    def slices(self) -> dict[str, str]:
        """SHA-256 per top-level key, over canonical JSON of the parsed values.

        Comments, order of keys and notation (``8e3``, ``8000``) do not matter; a default that is written out neither, and
        whether a value is written in the file or comes from a reference design.
        """
        values = self.model_dump(mode="json", by_alias=True, exclude={"based_on", "confirmed"})
        return {key: hashlib.sha256(_canonical(value)).hexdigest() for key, value in values.items()}


class SiteError(Exception):
    """Everything that is wrong with one site file; ``str()`` is the whole message, ``problems`` the parts."""

    def __init__(self, shown_path: str, problems: list[Problem]) -> None:
        self.shown_path = shown_path
        self.problems = tuple(problems)
        super().__init__(messages.render(shown_path, problems))


def site_names() -> list[str]:
    """Names of the shipped sites."""
    return sorted(path.parent.name for path in sites_dir().glob(f"*/{SITE_FILE}"))


def find_site(name_or_path: str | Path) -> Path:
    """The absolute path of a site file, given by name, by file or by folder. SiteError if there is none."""
    given = Path(name_or_path)
    if isinstance(name_or_path, str) and os.sep not in name_or_path and given.suffix not in (".yaml", ".yml"):
        shipped = site_dir(name_or_path) / SITE_FILE
        if shipped.is_file():
            return shipped
        if not given.is_dir():
            raise SiteError(name_or_path, [messages.unknown_site(name_or_path, site_names())])
    path = given / SITE_FILE if given.is_dir() else given
    if not path.is_file():
        raise SiteError(str(path), [messages.no_such_file(path)])
    return path.resolve()


def load_site(name_or_path: str | Path, start: Path | None = None) -> Site:
    """Read and check a site file, given by name (``lab``), by file or by folder.

    `start` names the accepted state that its plans start from, in place of the one beside the file.
    Raises SiteError, and nothing else, for anything that is wrong with the file.
    """
    path = find_site(name_or_path)
    shown = shown_path(path)
    try:
        raw = read_file(path, MAX_BYTES)
    except OSError as error:
        raise SiteError(shown, [messages.unreadable(error.strerror or str(error))]) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SiteError(shown, [messages.not_utf8(raw, error)]) from None
    try:
        folder = accepted.folder_of(start) if start else None
        kept = accepted.read(folder or path.parent / accepted.FOLDER)
    except accepted.AcceptedError as error:
        raise SiteError(shown, [messages.unusable_accepted(str(error))]) from None
    site = parse_site(text, shown, site_catalog(path.parent), kept)
    site._path, site._start = path, folder
    return site


def parse_site(
    text: str,
    shown_path: str = SITE_FILE,
    catalog: Catalog | None = None,
    accepted: Mapping[KeyPath, AcceptedValue] | None = None,
) -> Site:
    """A Site from text; SiteError names ``shown_path`` in its messages. Reads the catalogue, nothing else."""
    document = yaml_source.parse(text)
    problems = list(document.problems)
    if document.value is None and problems:
        raise SiteError(shown_path, problems)
    if not isinstance(document.value, dict):
        raise SiteError(shown_path, [messages.not_a_mapping(document.value)])
    return site_of(document.value, document, shown_path, catalog=catalog, accepted=accepted)


def site_of(
    given: Mapping[str, Any],
    document: Document,
    shown_path: str,
    computed: Mapping[str, Any] | None = None,
    catalog: Catalog | None = None,
    accepted: Mapping[KeyPath, AcceptedValue] | None = None,
    unsized: Unsized | None = None,
) -> Site:
    """The site of what a file says, completed (inventory.site.effective) and checked; SiteError for all that is wrong.

    `computed` are sizes by key that the planner has worked out; `document` knows where in the file a key stands; `unsized` is
    that of the same site with other sizes.
    """
    catalog = catalog or load_catalog()
    whole = effective.complete(given, catalog, computed, accepted, unsized)
    problems = [*document.problems, *whole.problems, *broken_entries(whole.value, catalog)]
    if len(problems) > len(document.problems):
        # What these designs and entries would have given counts as missing, or as wrong, only because of them.
        raise SiteError(shown_path, messages.ordered(problems, document))
    site: Site | None = None
    try:
        site = Site.model_validate(whole.value)
    except ValidationError as error:
        problems += messages.from_validation(error, SiteModel, document, whole.value)
    problems += check(whole.value, catalog, site)
    if site is not None:
        problems += _confirmed_are_keys(site, whole)
    lacking = [str(one.path[0]) for one in problems if one.what == messages.MISSING and len(one.path) == 1]
    if "based_on" not in given and len(lacking) >= MANY_SECTIONS:
        problems = [one for one in problems if one.what != messages.MISSING]
        problems.append(effective.no_design(given, lacking))
    problems = [one for one in problems if not _follows(one, problems, whole)]
    if problems or site is None:
        raise SiteError(shown_path, messages.ordered([_with_design(one, whole) for one in problems], document))
    site._given, site._effective, site._accepted = given, whole, accepted or {}
    site._catalog = catalog if catalog is not load_catalog() else None
    return site


def _follows(problem: Problem, problems: Collection[Problem], whole: Effective) -> bool:
    """Whether the value at fault was worked out from a key that is at fault itself: that one says it."""
    origin = whole.origin(problem.path)
    if origin is None or origin.kind != "computed":
        return False
    behind = origin.source.partition(" ")[0]
    return any(messages.dotted(one.path) == behind for one in problems if one.path != problem.path)


def without_accepted(site: Site, keys: Collection[KeyPath]) -> Site:
    """The same site without some of its accepted values."""
    left = {path: one for path, one in site.accepted.items() if path not in keys}
    again = site_of(site.given, Document(value=site.given), shown_path(site.path), catalog=site.catalog, accepted=left)
    return from_same_file(again, site)


def from_same_file(again: Site, site: Site, settings: Sequence[str] = ()) -> Site:
    """`again`, which is `site` with other values, as one of the same file; `settings` are those that changed it."""
    again._path, again._start, again._changes = site._path, site._start, (*site._changes, *settings)
    return again


def _confirmed_are_keys(site: Site, whole: Effective) -> Iterator[Problem]:
    """Entries of `confirmed` that name no value of the effective site."""
    if not site.confirmed:
        return
    known = {".".join(map(str, path[:n])) for path in whole.origins for n in range(1, len(path) + 1)}
    for n, key in enumerate(site.confirmed):
        if key not in known:
            near = messages.nearest(key, sorted(known))
            do = f"write {near}" if near else "bringup explain SITE lists the keys that are not confirmed"
            expected = "a key that has a value, or a section of such keys"
            yield Problem(("confirmed", n), "an unknown key", key, expected, do, nearest=near)


def with_sizes(site: Site, computed: Mapping[str, Any], catalog: Catalog | None = None) -> Site:
    """The same site with sizes by key that the planner has worked out."""
    used = catalog or site.catalog
    document, unsized = Document(value=site.given), site.effective.unsized
    again = site_of(site.given, document, shown_path(site.path), computed, used, site.accepted, unsized)
    return from_same_file(again, site)


def broken_entries(values: Mapping[str, Any], catalog: Catalog) -> list[Problem]:
    """Entries of the catalogue that a site names and that cannot be used."""
    if not catalog.broken:
        return []
    connectors = [one for one in catalog.broken.values() if one.path.name == CONNECTORS]
    named = [(path, catalog.broken[text]) for path, text in _texts(values) if text in catalog.broken]
    return [
        Problem(
            path,
            f"a {broken.what} whose file in the catalogue cannot be used",
            broken.slug,
            "an entry that the catalogue takes",
            broken.text.replace("\n", " "),
        )
        for path, broken in [*named, *(((), one) for one in connectors)]
    ]


def _texts(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Path and value of every text in nested values."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping | tuple):
        for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _texts(inner, (*path, key))


def _with_design(problem: Problem, whole: Effective) -> Problem:
    """A problem that says which reference design the value at its place comes from, where one does."""
    origin = whole.origins.get(problem.path)
    if origin is None or origin.kind != "reference":
        return problem
    found = f"{problem.found} (from reference design {origin.design})".strip()
    return dataclasses.replace(
        problem, found=found, do=problem.do.replace("delete the key", f"write {problem.path[-1]}: null")
    )


@functools.cache
def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the site file, for editors and for ``docs/site-file.md``."""
    schema = SiteModel.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Bringup site file"}


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def shown_path(path: Path) -> str:
    """A path as messages show it: relative where it lies below the working folder."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
