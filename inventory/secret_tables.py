"""Tables of secrets that differ from device to device, such as the passwords on the labels of BMCs: CSV or YAML.

    read_table(path, "password", "table:bmc.csv#password").secret(Owner("gpu001", serial="S1"))

CSV: a heading, then one line per device. YAML: a list of mappings with the same keys, every value is text as it is written.
Columns `device`, `serial` and `mac` (of the BMC) say whose row it is; one of them is enough. Every other column is a secret.
The file is for its owner alone (mode 0600) and lies in no Git working tree. No error shows the content of a cell or a heading.
"""

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from inventory.paths import open_file

IDENTIFIERS = ("device", "serial", "mac")
MAX_TABLE = 32 << 20
"""Bytes: 200,000 servers, the most of a site, at 160 bytes a line."""
MAX_ROWS = 200_000
MAX_COLUMNS = 32
MAX_CELL = 1024
"""Characters of a cell; Redfish sets no limit, and the passwords on labels have 8 to 20."""
OTHERS = 0o077
"""Permissions of a group and of everybody."""
_SEPARATORS = re.compile(r"[\s:.-]")


class TableError(Exception):
    """A table that cannot be used, or that has no row for a device; the message names place and way out, never a value."""


@dataclass(frozen=True)
class Owner:
    """The device that a secret belongs to. serial and mac (of its BMC) as the asset list has them; '' where it has none."""

    device: str
    serial: str = ""
    mac: str = ""


@dataclass(frozen=True)
class Row:
    """One row: where it stands in the file, whose it is, and the secret."""

    line: int
    device: str
    serial: str
    mac: str
    value: str


class Table:
    """The rows of one column of a table. `place` names the reference and the file in errors."""

    def __init__(self, place: str, key: str, rows: list[Row]) -> None:
        self._place, self._key = place, key
        self._rows: dict[str, dict[str, Row]] = {name: {} for name in IDENTIFIERS}
        for row in rows:
            for name, found in self._rows.items():
                if not (said := _plain(name, getattr(row, name))):
                    continue
                if said in found:
                    raise TableError(
                        f"{place}:{row.line}: {name} of line {found[said].line} again; "
                        "a device has one row: delete the other"
                    )
                found[said] = row

    def secret(self, owner: Owner) -> str:
        """The value in the device's row. TableError where it has none, more than one, or one that speaks of another device."""
        known = {name: said for name in IDENTIFIERS if (said := _plain(name, getattr(owner, name)))}
        found = {row.line: row for name, said in known.items() if (row := self._rows[name].get(said)) is not None}
        who = " ".join(f"{name} {getattr(owner, name)}" for name in known)
        if not found:
            raise TableError(f"{self._place}: no row of {who}; add one with its {self._key}")
        row = found[min(found)]
        if len(found) > 1:
            raise TableError(
                f"{self._place}: lines {' and '.join(map(str, sorted(found)))} are both about {who}; "
                "one device has one row: correct device, serial or mac"
            )
        for name, said in known.items():
            if (there := getattr(row, name)) and _plain(name, there) != said:
                raise TableError(
                    f"{self._place}:{row.line}: the row of {who} has another {name}; correct it there or in assets.csv"
                )
        if not row.value:
            raise TableError(f"{self._place}:{row.line}: no {self._key} of {who}; write it there")
        return row.value


def read_table(path: Path, key: str, reference: str) -> Table:
    """The column `key` of the table at `path`. TableError, which names `reference` and the line, for anything unexpected."""
    place = f"{reference}: {path}"
    if path.suffix not in READERS:
        raise TableError(f"{place}: expected a name that ends in .csv, .yaml or .yml")
    if key in IDENTIFIERS:
        raise TableError(f"{place}: {key} says whose row it is; name the column of the secret behind #")
    text = _text(path, place)
    seen: list[Row] = []
    for line, cells in READERS[path.suffix](text, key, place):
        if len(seen) == MAX_ROWS:
            raise TableError(f"{place}:{line}: more than {MAX_ROWS:,} rows; split the table")
        seen.append(_row(line, cells, key, place))
    return Table(place, key, seen)


def _text(path: Path, place: str) -> str:
    """The file's content. It must be a regular file of its owner alone, outside of any Git working tree."""
    for folder in path.absolute().parents:
        if (folder / ".git").exists():
            raise TableError(
                f"{place}: it lies in the Git working tree {folder}, where it could be committed; "
                "move it out of there and correct the path"
            )
    try:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            if status.st_mode & OTHERS:
                raise TableError(
                    f"{place}: mode {status.st_mode & 0o777:04o} lets others read it or write to it; expected 0600: "
                    f"chmod 600 {path}"
                )
            data = file.read(MAX_TABLE + 1)
    except OSError as error:
        raise TableError(
            f"{place}: cannot be read: {error.strerror}; put the table there, or correct the path"
        ) from None
    if len(data) > MAX_TABLE:
        raise TableError(f"{place}: more than the {MAX_TABLE:,} bytes that are read; split the table")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TableError(f"{place}:{line}: not UTF-8; save the file as UTF-8") from None


def _row(line: int, cells: Mapping[str, str], key: str, place: str) -> Row:
    for name, cell in cells.items():
        if len(cell) > MAX_CELL or not cell.isprintable() or cell != cell.strip():
            column = name if name in IDENTIFIERS or name == key else "another column"
            raise TableError(
                f"{place}:{line}: {column}: expected at most {MAX_CELL} printable characters without space at either end"
            )
    if not any(cells.get(name) for name in IDENTIFIERS):
        raise TableError(f"{place}:{line}: no device, serial or mac; say whose row it is")
    return Row(line, cells.get("device", ""), cells.get("serial", ""), cells.get("mac", ""), cells.get(key, ""))


def _columns(names: list[str], key: str, place: str, line: int) -> None:
    """TableError unless these can be the columns. They are not shown: a file without a heading begins with a secret."""
    if len(set(names)) != len(names):
        raise TableError(f"{place}:{line}: a column twice; give each column a name of its own")
    if len(names) > MAX_COLUMNS:
        raise TableError(f"{place}:{line}: more than {MAX_COLUMNS} columns; delete what is not needed")
    if not set(names) & set(IDENTIFIERS):
        raise TableError(
            f"{place}:{line}: none of the columns device, serial and mac; name them as these in the heading"
        )
    if key not in names:
        raise TableError(f"{place}:{line}: no column {key}; add it, or correct the name behind # in the site file")


def _csv(text: str, key: str, place: str) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    names: list[str] = []
    try:
        for cells in reader:
            line = reader.line_num
            if not names:
                names = cells
                _columns(names, key, place, line)
            elif len(cells) != len(names):
                raise TableError(
                    f"{place}:{line}: {len(cells)} cells, expected {len(names)} as in the heading; "
                    'complete the line, and write "..." around a cell with a comma'
                )
            else:
                yield line, dict(zip(names, cells, strict=True))
    except csv.Error:  # its text may quote the file
        raise TableError(
            f"{place}:{reader.line_num}: not CSV; check the quotation marks: a mark in a cell is written twice"
        ) from None
    if not names:
        raise TableError(f"{place}: an empty file; the first line names the columns")


def _yaml(text: str, key: str, place: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows from the events of a YAML text: one list of flat mappings; nothing is built from anything else."""
    events, line = yaml.parse(text, Loader=yaml.SafeLoader), 1
    columns: dict[str, str] | None = None
    name: str | None = None
    depth = documents = 0
    try:
        for event in events:
            line = event.start_mark.line + 1 if event.start_mark else line
            if isinstance(event, DocumentStartEvent):
                documents += 1
            if documents > 1 or (isinstance(event, NodeEvent) and (event.anchor or getattr(event, "tag", None))):
                raise _no_rows(place, line)
            if isinstance(event, SequenceStartEvent) and depth == 0:
                depth = 1
            elif isinstance(event, MappingStartEvent) and depth == 1:
                depth, columns, first = 2, {}, line
            elif isinstance(event, ScalarEvent) and depth == 2 and columns is not None:
                if name is None:
                    name = event.value
                    if name in columns:
                        raise TableError(f"{place}:{line}: a key twice in one row; delete one of them")
                else:
                    columns[name], name = event.value, None
            elif isinstance(event, MappingEndEvent) and depth == 2 and columns is not None:
                depth = 1
                _columns(list(columns), key, place, first)
                yield first, columns
            elif isinstance(event, SequenceEndEvent) and depth == 1:
                depth = 3
            elif isinstance(event, NodeEvent) or (isinstance(event, DocumentEndEvent) and depth != 3):
                raise _no_rows(place, line)
    except yaml.MarkedYAMLError as error:  # its text may quote the file
        mark = error.problem_mark or error.context_mark
        raise TableError(f"{place}:{mark.line + 1 if mark else line}: not YAML; correct it at this place") from None
    except yaml.YAMLError:
        raise TableError(f"{place}: a character that YAML does not allow; delete it") from None
    if documents == 0:
        raise TableError(f"{place}: an empty file; expected a list of rows")


def _no_rows(place: str, line: int) -> TableError:
    return TableError(
        f"{place}:{line}: expected one list of rows '- {{device: ..., password: ...}}' with texts as values, "
        "without anchors, aliases and tags"
    )


READERS = {".csv": _csv, ".yaml": _yaml, ".yml": _yaml}


def _plain(name: str, text: str) -> str:
    """A serial or MAC without what people write differently: case and separators. Names of devices stay as they are."""
    return text if name == "device" else _SEPARATORS.sub("", text).casefold()
