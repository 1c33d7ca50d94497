"""Load a site file: text in, an immutable Site out, or one SiteError that names every fault at its line.

site = load_site("lab")                    # a shipped site by name
site = load_site("/etc/bringup/site.yaml") # any file or its folder
"""

import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, ValidationError

from inventory.paths import SITE_FILE, site_dir, sites_dir
from inventory.site import messages, yaml_source
from inventory.site.model import SiteModel, check
from inventory.site.yaml_source import Problem

MAX_BYTES = 4_000_000


class Site(SiteModel):
    """A valid site file and where it came from."""

    _path: Path = PrivateAttr(default=Path(SITE_FILE))
    _changes: tuple[str, ...] = PrivateAttr(default=())

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

    def slices(self) -> dict[str, str]:
        """SHA-256 per top-level key, over canonical JSON of the parsed values.

        Comments, order of keys and notation (``8e3``, ``8000``) do not matter; a default that is written out neither.
        """
        values = self.model_dump(mode="json", by_alias=True)
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


def load_site(name_or_path: str | Path) -> Site:
    """Read and check a site file, given by name (``lab``), by file or by folder.

    Raises SiteError, and nothing else, for anything that is wrong with the file.
    """
    path = find_site(name_or_path)
    shown = shown_path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SiteError(shown, [messages.unreadable(error.strerror or str(error))]) from None
    if len(raw) > MAX_BYTES:
        raise SiteError(shown, [messages.unreadable(f"{len(raw)} bytes, more than the {MAX_BYTES} of any site file")])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SiteError(shown, [messages.not_utf8(raw, error)]) from None
    site = parse_site(text, shown)
    site._path = path
    return site


def parse_site(text: str, shown_path: str = SITE_FILE) -> Site:
    """A Site from text; SiteError names ``shown_path`` in its messages. Reads the catalogue, nothing else."""
    document = yaml_source.parse(text)
    problems = list(document.problems)
    if document.value is None and problems:
        raise SiteError(shown_path, problems)
    if not isinstance(document.value, dict):
        raise SiteError(shown_path, [messages.not_a_mapping(document.value)])
    site: Site | None = None
    try:
        site = Site.model_validate(document.value)
    except ValidationError as error:
        problems += messages.from_validation(error, SiteModel, document)
    problems += check(document.value)
    if problems or site is None:
        raise SiteError(shown_path, messages.ordered(problems, document))
    return site


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
