"""The edge of every parser: bytes that somebody sent, decoded and bounded, or one ImportFault that says what to do.

Nothing here trusts its input: size limits before decoding, XML without document types (so no entity can expand), and
every fault is an ImportFault that names file, place, expectation and way out.
"""

import math
import re
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

MAX_BYTES = 200_000_000
"""Largest file that is read. The biggest known kind, a walk of a thousand PDUs, is below a tenth of it."""
MAX_DEPTH = 64
MAX_ELEMENTS = 20_000_000

TIMES = "2026-12-31T12:00, 2026/12/31 12:00 or 31.12.2026 12:00 (03/04/2026 could be two days)"
"""The forms of time that `moment` reads, for messages."""

_DATES = (
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%d.%m.%Y",
    "%Y/%m/%d",
)
"""Times besides ISO 8601. Day and month with slashes are ambiguous and refused: 03/04/2026."""
_NUMBER = re.compile(r"[-+]?\d[\d.,'’\s]*(?:[eE][-+]?\d+)?|[-+]?[.,]\d+")
_CURRENCY = re.compile(r"[$€£¥]|\b(?:USD|EUR|GBP|CHF|JPY|US)\b", re.IGNORECASE)


class ImportFault(Exception):
    """A file that cannot be used as it is; the message names the file, the place, what was expected and what to do."""

    def __init__(self, path: Path, what: str, do: str, line: int | None = None) -> None:
        self.path, self.what, self.do, self.line = path, what, do, line
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {what}\n  -> {do}")


def bounded(data: bytes, path: Path, limit: int = MAX_BYTES) -> bytes:
    """The same bytes; ImportFault when there are none, or more than `limit`."""
    if not data.strip():
        raise ImportFault(path, "the file is empty", "export it again, and look whether the transfer was complete")
    if len(data) > limit:
        raise ImportFault(path, f"{len(data)} bytes, more than the {limit} that are read", "split the file")
    return data


def decode(data: bytes, path: Path, encoding: str | None = None) -> str:
    """Text of a file: `encoding` where given, UTF-16 with a byte order mark, else UTF-8. Line ends as they are."""
    bounded(data, path)
    if encoding is None:
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except LookupError:
        raise ImportFault(path, f"there is no encoding {encoding!r}", "name one such as cp1252 or utf-8") from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        byte = data[error.start : error.start + 1].hex()
        raise ImportFault(
            path,
            f"byte 0x{byte} at position {error.start} is not {encoding.upper().removesuffix('-SIG')}",
            "save it as UTF-8, or say how it is written with --encoding (cp1252 for most Western spreadsheets)",
            line,
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise ImportFault(path, "a zero byte: this is not a text file", "export it as text (CSV, XML, …) again", line)
    return text


def number(text: str) -> float | None:
    """A number as people write it: 1234.5, 1,234.50, 1.234,50, 1'234.50, $ 1,200, (300) for -300. None for anything else.

    A single comma before exactly three digits separates thousands (1,234), any other single comma is decimal (12,5); a
    single point is always decimal.
    """
    bare = _CURRENCY.sub("", text).replace("\u00a0", " ").strip()
    negative = bare.startswith("(") and bare.endswith(")")
    bare = bare.strip("()").strip()
    if not _NUMBER.fullmatch(bare):
        return None
    bare = re.sub(r"['’\s]", "", bare)
    comma, point = bare.rfind(","), bare.rfind(".")
    if comma >= 0 and point >= 0:
        thousands, decimal = (",", ".") if point > comma else (".", ",")
        bare = bare.replace(thousands, "").replace(decimal, ".")
    elif comma >= 0:
        bare = bare.replace(",", "") if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+", bare) else bare.replace(",", ".")
    elif bare.count(".") > 1:
        bare = bare.replace(".", "") if re.fullmatch(r"[-+]?\d{1,3}(\.\d{3})+", bare) else bare
    try:
        value = float(bare)
    except ValueError:
        return None
    return (-value if negative else value) if math.isfinite(value) else None


def moment(text: str) -> datetime | None:
    """A time; UTC where the text names no zone. None for a text that is none, or that could be two days."""
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        for form in _DATES:
            try:
                when = datetime.strptime(text.strip(), form)
                break
            except ValueError:
                continue
        else:
            return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def parse_xml(data: bytes, path: Path) -> ElementTree.Element:
    """The root element of an XML file, names as {namespace}tag.

    A document type is refused before anything of it is read: no entity is ever expanded and nothing is fetched.
    ImportFault names the line of a fault; nesting and the number of elements are bounded.
    """
    bounded(data, path)
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")
    depth = count = 0

    def qualified(name: str) -> str:
        return f"{{{name}" if "}" in name else name

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > MAX_DEPTH or count > MAX_ELEMENTS:
            what = f"more than {MAX_DEPTH} levels" if depth > MAX_DEPTH else f"more than {MAX_ELEMENTS} elements"
            raise ImportFault(path, what, "export it again", parser.CurrentLineNumber)
        builder.start(qualified(name), {qualified(key): value for key, value in attributes.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(qualified(name))

    def doctype(*_: object) -> None:
        raise ImportFault(
            path,
            "a document type (<!DOCTYPE …>), which may hold entities that expand without end",
            "export it again; no scheduling tool writes one",
            parser.CurrentLineNumber,
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ImportFault(
            path,
            f"not well-formed XML: {expat.errors.messages[error.code]}, column {error.offset + 1}",
            "export it again, and look whether the transfer was complete",
            error.lineno,
        ) from None
    except (LookupError, ValueError) as error:
        raise ImportFault(path, f"cannot be read as XML: {error}", "save it as UTF-8") from None
    return builder.close()
