"""A table that somebody sent, CSV or XLSX, as text cells under known field names.

`read` finds delimiter, sheet and heading row by how many headings it knows (columns.yaml); a column map says otherwise.
`fields` renames what is known, converts units that a heading states, keeps every other column under its own heading,
and reports what it did. No cell is dropped: not of unknown columns, not beyond the heading row, not of repeated headings.
Secrets in clear text are refused, whatever column they stand in, and go no further than `fields`.
"""

import csv
import functools
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from inventory.findings import Finding, finding, remedy
from inventory.imports.core.result import OUTCOMES
from inventory.imports.core.source import MAX_BYTES, ImportFault, bounded, decode, number
from inventory.yaml_data import handed_in

COLUMNS_FILE = Path(__file__).parent / "columns.yaml"
HEADING_ROWS = 40
"""Rows in which the heading row is looked for: vendors put a logo, an address and terms above it."""
MAX_ROWS = 2_000_000
LINE = "file_line"
"""Column of `fields` that holds the row's line in the file."""

UNKNOWN_COLUMN = "IMPORT-UNKNOWN-COLUMN"
REFERENCE = re.compile(r"^(env|file|vault|table):\S+$")
"""Where a secret may be looked up, in place of the secret."""
HIDDEN = "(secret)"
"""Content of a cell whose secret was refused."""

_SECRET_WORDS = frozenset(
    {
        "password",
        "passwords",
        "passwd",
        "passwort",
        "kennwort",
        "pwd",
        "pw",
        "pass",
        "passphrase",
        "passcode",
        "secret",
        "secrets",
        "community",
        "token",
        "tokens",
    }
)
_SECRET_PARTS = ("password", "passwd", "passphrase", "passwort", "kennwort")
"""Long enough to be told inside a longer word: bmcpassword."""
_SECRET_KEYS = ("private key", "secret key", "api key", "access key", "auth key", "encryption key", "priv key")
_OTHER_PASS = frozenset({"fail", "failed", "rate", "count", "pct", "number", "test", "first"})
"""Beside these words, "pass" is the outcome of a test."""
_NO_SECRETS = frozenset({"yes", "no", "y", "n", "x", "true", "false", "n/a", "none", "-"})
"""What a column about a secret may say of it: "Password changed: yes"."""

_DELIMITERS = (",", ";", "\t", "|")
_ZIP_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    SyntaxError,
    OSError,
    EOFError,
    RuntimeError,
    OverflowError,
)
"""What openpyxl and zipfile raise for workbooks that are cut short, encrypted or no workbooks at all."""


@dataclass(frozen=True)
class ColumnMap:
    """What a person says about a file: sheet, heading row (from 1), heading and unit per field, slug per part number."""

    sheet: str | None = None
    heading_row: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    skus: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Cells as text, all rows as long as `columns`; `lines` are the rows' line numbers in the file."""

    path: Path
    sheet: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Fields:
    """A table under known names: `frame` has the known fields, then the columns in `unknown`, then LINE; all text.

    Numbers of fields with a unit are converted where the heading states another one. `currencies`: by field, what the
    heading of a price says.
    """

    frame: pd.DataFrame
    unknown: tuple[str, ...]
    findings: tuple[Finding, ...]
    currencies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unit:
    """What a heading says of its numbers: kept value = value x factor + offset; the currency of a price."""

    said: str
    factor: float = 1.0
    offset: float = 0.0
    currency: str = ""


def column_map(text: str, path: Path) -> ColumnMap:
    """A column map from YAML: keys sheet, heading_row, columns, units, skus. ImportFault for anything else in it."""
    try:
        raw = handed_in(text)
    except yaml.YAMLError as error:
        raise ImportFault(path, f"not valid YAML: {' '.join(str(error).split())}", "correct the column map") from None
    do = "write keys sheet, heading_row, columns: {field: heading}, units: {field: unit} and skus: {part number: catalogue slug}"
    if not isinstance(raw, dict) or set(raw) - {"sheet", "heading_row", "columns", "units", "skus"}:
        found = ", ".join(map(str, raw)) if isinstance(raw, dict) else type(raw).__name__
        raise ImportFault(path, f"a column map with {found}", do)
    mappings, row = [raw.get(key) or {} for key in ("columns", "units", "skus")], raw.get("heading_row")
    if not all(isinstance(mapping, dict) for mapping in mappings):
        raise ImportFault(path, "columns, units and skus are mappings", do)
    if row is not None and (not isinstance(row, int) or isinstance(row, bool) or row < 1):
        raise ImportFault(path, f"heading_row {row!r} is not a row number from 1", do)
    texts = ({str(k): str(v) for k, v in mapping.items()} for mapping in mappings)
    return ColumnMap(None if raw.get("sheet") is None else str(raw["sheet"]), row, *texts)


@functools.cache
def known(kind: str) -> dict[str, dict[str, Any]]:
    """The fields of a kind of file (columns.yaml), each with names, required and unit."""
    fields: dict[str, dict[str, Any]] = _columns()[kind]
    return fields


@functools.cache
def _columns() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COLUMNS_FILE.read_text(encoding="utf-8"))
    return loaded


def plain(heading: str) -> str:
    """A heading without case, signs and repeated spaces: 'Serial-No.' -> 'serial no'; % becomes pct."""
    return " ".join(re.sub(r"[^0-9a-z]+", " ", heading.lower().replace("%", " pct ").replace("°", " deg")).split())


def read(data: bytes, path: Path, kind: str, given: ColumnMap | None = None, encoding: str | None = None) -> Table:
    """The table of a CSV or XLSX file. ImportFault says why there is none."""
    given = given or ColumnMap()
    bounded(data, path)
    if data[:4] == b"PK\x03\x04":
        return _workbook(data, path, kind, given)
    if data[:4] == b"\xd0\xcf\x11\xe0":
        raise ImportFault(path, "an old .xls workbook, or one with a password", "save it as .xlsx without a password")
    return _text(decode(data, path, encoding), path, kind, given)


def fields(table: Table, kind: str, given: ColumnMap | None = None) -> Fields:
    """The table under the field names of its kind; ImportFault names required fields that no heading stands for."""
    given = given or ColumnMap()
    wanted = known(kind)
    where = _assign(table, kind, given)
    absent = [name for name, spec in wanted.items() if spec.get("required") and name not in where]
    if absent:
        expected = "; ".join(f"{name} ({', '.join(wanted[name].get('names', [])[:4])}, …)" for name in absent)
        raise ImportFault(
            table.path,
            f"no column for {expected}; the headings are {', '.join(table.columns)[:400]}",
            f"name the column in a map: columns: {{{absent[0]}: <heading>}}, and give it with --map",
            table.lines[0] - 1 if table.lines else None,
        )
    columns: dict[str, list[str]] = {}
    currencies: dict[str, str] = {}
    findings = list(table.findings)
    for name, position in where.items():
        cells = [row[position] for row in table.rows]
        cells, found = without_secrets(cells, table.columns[position], table.lines, strict=name == "credential")
        findings += found
        stated, found = _stated(name, wanted[name].get("unit"), table, position, given)
        findings += found
        columns[name] = _converted(cells, stated)
        currencies[name] = stated.currency
    unknown: list[str] = []
    for position, heading in enumerate(table.columns):
        if position in where.values():
            continue
        name = heading
        while name in columns or name == LINE or name in wanted:
            name += " (file)"
        columns[name], found = without_secrets([row[position] for row in table.rows], heading, table.lines)
        findings += found
        unknown.append(name)
    findings += unknown_columns(table.path.name, unknown)
    frame = pd.DataFrame(columns, dtype=str)
    frame[LINE] = list(table.lines)
    return Fields(frame, tuple(unknown), tuple(findings), {name: said for name, said in currencies.items() if said})


def secret_like(heading: str) -> bool:
    """Whether a heading speaks of a secret: iLO Password, BMC pass, snmpCommunity, API key."""
    said = plain(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", heading))
    words = said.split()
    if "pass" in words and not _OTHER_PASS.isdisjoint(words):
        words.remove("pass")
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or any(part in "".join(words) for part in _SECRET_PARTS)
        or any(f" {key} " in f" {said} " for key in _SECRET_KEYS)
    )


def without_secrets(
    cells: list[str], heading: str, lines: Sequence[int], strict: bool = False
) -> tuple[list[str], list[Finding]]:
    """Cells of a column with HIDDEN for each secret in clear text, and the error that refuses them.

    Only references may stand in a `strict` column. In another one that its heading says is about secrets, so may a
    plain yes or no, and under "pass" the outcome of a test. `lines` are those of the cells in their file.
    """
    if not strict and not secret_like(heading):
        return cells, []
    answers = _NO_SECRETS
    if "pass" in plain(heading).split():
        answers = answers | OUTCOMES.keys()
    allowed = {cell for cell in cells if not cell or REFERENCE.match(cell) or (not strict and cell.lower() in answers)}
    bad = [line for cell, line in zip(cells, lines, strict=True) if cell not in allowed]
    if not bad:
        return cells, []
    fault = finding(
        "IMPORT-SECRET",
        f"line {bad[0]}",
        rows=len(bad),
        words={"column": heading},
        remedies=[remedy(fix="vault")],
    )
    return [cell if cell in allowed else HIDDEN for cell in cells], [fault]


def unknown_columns(file: str, names: Sequence[str]) -> list[Finding]:
    """The finding that names columns kept without a field of their own; none for no such column."""
    if not names:
        return []
    return [finding(UNKNOWN_COLUMN, file, columns=len(names), words={"names": ", ".join(names)})]


def records(frame: pd.DataFrame) -> list[dict[str, str]]:
    """The rows of a frame as dictionaries of text."""
    names = [str(column) for column in frame.columns]
    columns = [list(map(str, frame.iloc[:, n].tolist())) for n in range(len(names))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def together(
    kept: pd.DataFrame | None,
    new: pd.DataFrame,
    key: Callable[[Mapping[str, str]], Hashable],
    file: str,
    *,
    cells: bool = False,
) -> tuple[pd.DataFrame, list[Finding]]:
    """Rows of earlier imports whose key the new file lacks, and all rows of the new file; IMPORT-KEPT counts the former.

    Columns are those of both, the earlier ones first. With `cells`, a cell that the new file leaves empty keeps its
    earlier value.
    """
    old = new.iloc[:0] if kept is None else kept
    columns = list(dict.fromkeys([*map(str, old.columns), *map(str, new.columns)]))
    fresh: dict[Hashable, list[dict[str, str]]] = {}
    for row in records(new):
        fresh.setdefault(key(row), []).append(row)
    lines: list[dict[str, str]] = []
    placed: set[Hashable] = set()
    stayed = 0
    for row in records(old):
        named = key(row)
        if named not in fresh:
            lines.append(row)
            stayed += 1
        elif named not in placed:
            placed.add(named)
            lines += [_over(row, one) if cells else one for one in fresh[named]]
    lines += [row for named, rows in fresh.items() if named not in placed for row in rows]
    frame = pd.DataFrame(lines, columns=columns).fillna("").astype(str)
    if not stayed:
        return frame, []
    return frame, [finding("IMPORT-KEPT", file, case="rows", rows=stayed)]


def _over(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    return {**old, **{name: value for name, value in new.items() if value or name not in old}}


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as the CSV that Bringup writes: a heading row, minimal quotes, line feeds."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([str(column) for column in frame.columns])
    writer.writerows(zip(*(frame.iloc[:, n].tolist() for n in range(frame.shape[1])), strict=True))
    return out.getvalue()


def _assign(table: Table, kind: str, given: ColumnMap) -> dict[str, int]:
    """Field -> position of its column: as the map says, else by exact name, else by a known name; first come first."""
    wanted = known(kind)
    if strange := [name for name in given.columns if name not in wanted]:
        raise ImportFault(
            table.path,
            f"the map names {', '.join(strange)}, which is no field of {kind}",
            f"fields are {', '.join(wanted)}",
        )
    where: dict[str, int] = {}
    for name, heading in given.columns.items():
        if heading not in table.columns:
            raise ImportFault(
                table.path,
                f"the map has {name}: {heading!r}, and no heading says so",
                f"headings are {', '.join(table.columns)[:400]}",
            )
        where[name] = table.columns.index(heading)
    for exact in (True, False):
        for position, heading in enumerate(table.columns):
            if position in where.values():
                continue
            field_name = _field(heading, kind, exact)
            if field_name is not None and field_name not in where:
                where[field_name] = position
    return {name: where[name] for name in wanted if name in where}


def _field(heading: str, kind: str, exact: bool = False) -> str | None:
    """The field that a heading stands for: the whole of it, or without a unit in brackets or as its last word."""
    if exact:
        return heading if heading in known(kind) else None
    names = _names(kind)
    bare = re.sub(r"[\[(].*?[\])]", " ", heading)
    for candidate in (plain(heading), plain(bare)):
        if candidate in names:
            return names[candidate]
    words = plain(heading).split()
    for cut in (1, 2):
        head = " ".join(words[:-cut])
        name = names.get(head)
        if name and _tail_unit(heading, cut, known(kind)[name].get("unit")):
            return name
    return None


@functools.cache
def _names(kind: str) -> dict[str, str]:
    return {plain(alias): name for name, spec in known(kind).items() for alias in (*spec.get("names", ()), name)}


def _converted(cells: list[str], unit: Unit) -> list[str]:
    """Cells in the field's unit; a text that is no number is left for the parser."""
    if (unit.factor, unit.offset) == (1, 0):
        return cells
    return [cell if (value := number(cell)) is None else f"{value * unit.factor + unit.offset:.10g}" for cell in cells]


def _stated(
    name: str, kept_in: str | None, table: Table, position: int, given: ColumnMap
) -> tuple[Unit, list[Finding]]:
    """The unit of a column: as the map says, else from its heading; an error for a text in brackets that may be a unit."""
    heading = table.columns[position]
    if name in given.units:
        unit = _unit(given.units[name], kept_in) if kept_in else None
        if unit is None:
            some = f"units of {name} are {_units_of(kept_in)}" if kept_in else f"{name} has no unit"
            raise ImportFault(table.path, f"the map has units: {{{name}: {given.units[name]}}}", some)
    elif kept_in is None or heading == name:
        return Unit(""), []
    else:
        brackets = re.findall(r"[\[(](.*?)[\])]", heading)
        read_as = [_unit(part, kept_in) for part in brackets]
        strange = [part for part, unit in zip(brackets, read_as, strict=True) if unit is None and not _is_remark(part)]
        if strange and (kept_in == "money" or not any(read_as)):
            unknown = finding(
                "IMPORT-UNIT-UNKNOWN",
                f"{table.path.name}: {heading}",
                words={"unit": strange[0], "heading": heading, "field": name, "kept_in": kept_in},
                remedies=[remedy(fix="map", units=_units_of(kept_in)), remedy(fix="heading")],
            )
            return Unit(""), [unknown]
        tails = [_tail_unit(heading, cut, kept_in) for cut in (2, 1)]
        unit = next((unit for unit in (*read_as, *tails) if unit and unit.said != plain(name)), None)
    if unit is None or (unit.factor, unit.offset) == (1, 0):
        return unit or Unit(""), []
    note = finding(
        "IMPORT-UNIT",
        f"{table.path.name}: {heading}",
        case="money" if kept_in == "money" and not unit.currency else "",
        limit_source="inventory/imports/core/columns.yaml",
        factor=unit.factor,
        offset=unit.offset,
        words={"unit": unit.said, "kept_in": unit.currency if kept_in == "money" else kept_in},
    )
    return unit, [note]


def _units_of(kept_in: str) -> str:
    if kept_in == "money":
        return "a currency, k or M, or both (kUSD)"
    return ", ".join(_columns()["units"][kept_in])


def _tail_unit(heading: str, words: int, kept_in: str | None) -> Unit | None:
    """The unit that the last words of a heading are; of a price, only with its currency."""
    tail = " ".join(re.sub(r"[()\[\]]", " ", heading).split()[-words:])
    unit = _unit(tail, kept_in) if kept_in and len(plain(heading).split()) > words else None
    return unit if unit and (unit.currency or kept_in != "money") else None


def _unit(text: str, kept_in: str) -> Unit | None:
    """The unit that a text is, remarks aside: "weeks ARO", "kUSD"; None for anything else."""
    said = plain(text)
    bare = " ".join(word for word in said.split() if word not in _columns()["remarks"])
    if kept_in == "money":
        return _money_unit(text)
    table: dict[str, list[float]] = _columns()["units"][kept_in]
    found = next((words for words in (said, bare) if words in table), None)
    if found is None:
        return None
    factor, offset = table[found]
    return Unit(found, float(factor), float(offset))


def _money_unit(text: str) -> Unit | None:
    """A currency, a factor, or both: USD, k€, EUR k, '000 CHF, MUSD."""
    money = _columns()["money"]
    head, _, piece = text.partition("/")
    if not all(word in _columns()["remarks"] for word in plain(piece).split()):
        return None
    for sign, currency in money["signs"].items():
        head = re.sub(re.escape(sign), f" {currency} ", head, flags=re.IGNORECASE)
    factor, currency = 0.0, ""
    for word in re.findall(r"[0-9A-Za-z]+", head):
        code = next((code for code in money["currencies"] if code in word.lower()), "")
        rest = re.sub(code, "", word, count=1, flags=re.IGNORECASE) if code else word
        if not code and word.lower() in _columns()["remarks"]:
            continue
        value = money["factors"].get(rest, money["factors"].get(rest.lower()) if len(rest) > 1 else None)
        if (code and currency) or (rest and (factor or value is None)):
            return None
        currency, factor = code or currency, float(value) if rest else factor
    return Unit(text.strip(), factor or 1.0, 0.0, currency.upper()) if factor or currency else None


def _is_remark(text: str) -> bool:
    """Whether a text in brackets is surely no unit: known words, and numbers of at most two digits that are no "per 10"."""
    words = plain(text).split()
    numbers = [word for word in words if word.isdigit() and len(word) <= 2 and "per" not in words]
    return all(word in _columns()["remarks"] or word in numbers for word in words)


def _text(text: str, path: Path, kind: str, given: ColumnMap) -> Table:
    head = "".join(text.splitlines(keepends=True)[:HEADING_ROWS])
    scored = []
    for order, delimiter in enumerate(_DELIMITERS):
        try:
            rows = list(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter))
        except csv.Error:
            continue
        score, _ = _heading(rows, kind, given)
        scored.append((score, max((len(row) for row in rows), default=0), -order, delimiter))
    delimiter = max(scored)[3] if scored else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    cells: list[Sequence[str]] = []
    lines: list[int] = []
    before = 0
    try:
        for row in reader:
            cells.append(row)
            lines.append(before + 1)
            before = reader.line_num
            if len(cells) > MAX_ROWS:
                raise ImportFault(path, f"more than {MAX_ROWS} rows", "split the file", before)
    except csv.Error as error:
        raise ImportFault(path, f"not CSV: {error}", "close the quotation mark of this line", reader.line_num) from None
    return _table(cells, lines, path, "", kind, given, [])


def _workbook(data: bytes, path: Path, kind: str, given: ColumnMap) -> Table:
    import openpyxl

    _safe_zip(data, path)
    sheets: dict[str, list[list[str]]] = {}
    findings: list[Finding] = []
    try:
        formulas = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=False)
        values = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        for name in values.sheetnames:
            sheet = values[name]
            if not hasattr(sheet, "iter_rows"):  # a chart sheet
                continue
            rows = [[_cell(value) for value in row] for row in sheet.iter_rows(values_only=True)]
            lost = 0
            for position, row in enumerate(formulas[name].iter_rows(values_only=True)):
                for column, value in enumerate(row):
                    if isinstance(value, str) and value.startswith("=") and not rows[position][column]:
                        rows[position][column], lost = value, lost + 1
            if any(any(row) for row in rows):
                sheets[name] = rows
            if lost:
                findings.append(
                    finding(
                        "IMPORT-FORMULA",
                        f"{path.name}: {name}",
                        formulas=lost,
                        remedies=[remedy(fix="save")],
                    )
                )
    except _ZIP_FAULTS as error:
        raise ImportFault(
            path, f"not a workbook that can be read: {type(error).__name__}", "open it, and save it as .xlsx again"
        ) from None
    if not sheets:
        raise ImportFault(path, "the workbook has no cells", "look which sheet holds the table")
    if given.sheet is not None and given.sheet not in sheets:
        raise ImportFault(path, f"no sheet {given.sheet!r}", f"sheets with cells are {', '.join(sheets)}")
    chosen = given.sheet or max(sheets, key=lambda name: (_heading(sheets[name], kind, given)[0], len(sheets[name])))
    if others := [name for name in sheets if name != chosen]:
        findings.append(
            finding(
                "IMPORT-SHEETS",
                path.name,
                sheets=len(sheets),
                words={"sheet": chosen, "others": ", ".join(others)},
                remedies=[remedy(fix="map")],
            )
        )
    rows = sheets[chosen]
    return _table(rows, range(1, len(rows) + 1), path, chosen, kind, given, findings)


def _safe_zip(data: bytes, path: Path) -> None:
    """Refuse archives that unpack beyond the limit, and parts with a document type."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            total = sum(part.file_size for part in archive.infolist())
            if total > MAX_BYTES:
                raise ImportFault(path, f"unpacks to {total} bytes, more than {MAX_BYTES}", "split the workbook")
            for part in archive.infolist():
                if part.filename.endswith((".xml", ".rels")):
                    content = archive.read(part)
                    if b"<!DOCTYPE" in content or "<!DOCTYPE".encode("utf-16-le") in content:
                        raise ImportFault(
                            path, f"{part.filename} has a document type", "save it with a spreadsheet program again"
                        )
    except _ZIP_FAULTS as error:
        what = f"not a workbook that can be read: {type(error).__name__}"
        raise ImportFault(
            path, what, "open it, and save it as .xlsx again; look whether the transfer was complete"
        ) from None


def _cell(value: object) -> str:
    """A cell as text: whole numbers without a decimal point, dates in ISO form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat() if isoformat else value).strip()


def _heading(rows: Iterable[Sequence[str]], kind: str, given: ColumnMap) -> tuple[int, int]:
    """(headings that are known, position) of the row that looks most like a heading row; the first one of the best."""
    best = (0, -1)
    wanted = {plain(heading) for heading in given.columns.values()}
    for position, row in enumerate(rows):
        if position >= HEADING_ROWS:
            break
        found = {_field(cell, kind) for cell in row if cell} - {None}
        score = len(found) + sum(plain(cell) in wanted for cell in row if cell)
        if score > best[0]:
            best = (score, position)
    return best


def _table(
    cells: Sequence[Sequence[str]],
    lines: Sequence[int],
    path: Path,
    sheet: str,
    kind: str,
    given: ColumnMap,
    notes: list[Finding],
) -> Table:
    position = given.heading_row - 1 if given.heading_row else _heading(cells, kind, given)[1]
    if position < 0:
        position = next((n for n, row in enumerate(cells) if any(cell.strip() for cell in row)), 0)
    if position >= len(cells):
        raise ImportFault(path, f"heading_row is {position + 1} and the file has {len(cells)} rows", "correct the map")
    body = [(line, [cell.strip() for cell in row]) for line, row in zip(lines, cells, strict=True)][position:]
    heading = body[0][1]
    body = [(line, row) for line, row in body[1:] if any(row)]
    width = max([len(heading), *(len(row) for _, row in body)])
    filled = [any(len(row) > n and row[n] for _, row in body) for n in range(width)]
    names: list[str] = []
    keep = [n for n in range(width) if (n < len(heading) and heading[n]) or filled[n]]
    for n in keep:
        name = heading[n] if n < len(heading) and heading[n] else f"column {n + 1}"
        again, base = 1, name
        while name in names:
            again += 1
            name = f"{base} ({again})"
        names.append(name)
    above = [" ".join(cell.strip() for cell in row if cell.strip()) for row in cells[:position]]
    above = [HIDDEN if secret_like(line) else line for line in above]
    if said := " / ".join(filter(None, above)):
        words = {"line": lines[position], "text": said[:200]}
        notes = [*notes, finding("IMPORT-PREAMBLE", path.name, rows=position, words=words)]
    rows = tuple(tuple(row[n] if n < len(row) else "" for n in keep) for _, row in body)
    return Table(path, sheet, tuple(names), rows, tuple(line for line, _ in body), tuple(notes))
