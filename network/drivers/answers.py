"""The one way in for what a device says: typed, bounded, and free of characters that a terminal or a log acts on.

    source = Source("gpu001", "read identity", "update the BMC's firmware")
    body = load(response_bytes, source)          # JSON: bounded in bytes, items and depth; every text cleaned
    identity = read(BmcIdentity, body, source)   # checked against a TypedDict made of the types below
    name = line("spine01\\x1b[2J")               # 'spine01\\\\x1b[2J': one line, at most LINE_CHARACTERS

Everything a device says is untrusted: a BMC, a PDU or a neighbour on a cable may be broken, of another make, or taken
over. What cannot be read raises UnreadableAnswer, which names the device, the operation, the field, what was expected,
what was seen and what to do. No other exception leaves this module.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import IO, Annotated, Any, TypeVar, cast

from pydantic import ConfigDict, PlainValidator, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from network.drivers.errors import DeviceError, UnreadableAnswer, printable

LINE_CHARACTERS = 256
"""Longest name, version or label that is kept; the rest is cut off. sysDescr has at most 255 (RFC 3418)."""
TEXT_CHARACTERS = 16 << 20
"""Longest text of several lines, such as a running configuration or what ibnetdiscover says of 8,192 adapters."""
JSON_BYTES = 64 << 20
"""Largest JSON answer. One node's facts are 20 kB, the raw fabric of 8,192 adapters about 20 MB."""
JSON_ITEMS = 1_000_000
"""Most values of one JSON answer: an empty list takes three bytes on the wire and sixty in memory."""
JSON_DEPTH = 32
"""Deepest nesting. Redfish and lldpcli stay below ten."""
SHOWN_CHARACTERS = 300
"""Of an answer that is none: its end, where a traceback says what happened."""
LEAST_WHOLE, MOST_WHOLE = -(1 << 63), (1 << 64) - 1
"""Counters of devices have 64 bits at most, with or without a sign."""

EXTRA_KEYS_STAY = ConfigDict(extra="allow")
"""For a TypedDict whose further keys are kept as they are: `@with_config(EXTRA_KEYS_STAY)`."""

Shape = TypeVar("Shape")


@dataclass(frozen=True)
class Source:
    """Who answered (device), to which question (operation), and what the reader of an error does next (next_step)."""

    device: str
    operation: str
    next_step: str = "check the device's model and firmware, then run the same command again"

    def unreadable(self, expected: str, seen: str) -> UnreadableAnswer:
        """The error for an answer of this source."""
        return UnreadableAnswer(self.device, self.operation, expected, seen, self.next_step)


# ---- texts -----------------------------------------------------------------------------------------------------------
def text(said: str, limit: int = TEXT_CHARACTERS) -> str:
    """Text of several lines: newlines and tabs stay, other unprintable characters become escapes such as \\x1b."""
    shown = printable(said[: limit + 1], keep="\n\t")
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def line(said: str, limit: int = LINE_CHARACTERS) -> str:
    """Text on one line: newlines become escapes as well."""
    if len(said) <= limit and said.isprintable():
        return said
    shown = printable(said[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def decoded(said: bytes, limit: int = TEXT_CHARACTERS) -> str:
    """Bytes as cleaned text of several lines; what is not UTF-8 becomes U+FFFD."""
    return text(said[: 4 * limit + 4].decode(errors="replace"), limit)


def read_at_most(stream: IO[bytes], limit: int, source: Source) -> bytes:
    """All of a stream, at most `limit` bytes; UnreadableAnswer when it goes on after them."""
    said = stream.read(limit + 1)
    if len(said) > limit:
        raise source.unreadable(f"at most {limit} bytes", "more")
    return said


# ---- JSON ------------------------------------------------------------------------------------------------------------
def load(said: bytes | str, source: Source, *, most_bytes: int = JSON_BYTES) -> Any:
    """JSON as plain data, bounded and with every text cleaned."""
    if len(said) > most_bytes:
        raise source.unreadable(f"at most {most_bytes} bytes of JSON", f"{len(said)} bytes")
    try:
        written = said.decode() if isinstance(said, bytes) else said
        if sum(map(written.count, ",[{")) > JSON_ITEMS:
            raise source.unreadable(f"at most {JSON_ITEMS} values", "more")
        return plain(json.loads(written, parse_constant=_no_number), source)
    except RecursionError:
        raise source.unreadable(f"at most {JSON_DEPTH} levels of nesting", "more") from None
    except json.JSONDecodeError as error:
        if error.lineno == 1:
            raise _not_json(said, source) from None
        broken = error.doc.split("\n")[error.lineno - 1]
        shown = broken.strip()[:SHOWN_CHARACTERS]
        raise source.unreadable("JSON", f"line {error.lineno}: {shown or 'the end'}") from None
    except ValueError:
        raise _not_json(said, source) from None


def _not_json(said: bytes | str, source: Source) -> UnreadableAnswer:
    end = said[-SHOWN_CHARACTERS:]
    return source.unreadable("JSON", (end if isinstance(end, str) else decoded(end)) or "nothing")


def objects(output: bytes, source: Source) -> list[dict[str, Any]]:
    """The JSON objects that a job printed, one on a line, among whatever else it printed."""
    return [load(said, source) for said in output.splitlines() if said.startswith(b"{")]


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def plain(value: Any, source: Source, depth: int = 0) -> Any:
    """Plain data with every text cleaned; UnreadableAnswer for what is nested too deeply or is no JSON value."""
    if isinstance(value, str):
        if len(value) > TEXT_CHARACTERS:  # what is cut off would be missing from a fabric or a configuration
            raise source.unreadable(f"at most {TEXT_CHARACTERS} characters of text", f"{len(value)}")
        return value if value.isprintable() else text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not LEAST_WHOLE <= value <= MOST_WHOLE:
            raise source.unreadable("a number of 64 bits", "a longer one")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise source.unreadable("a finite number", str(value))
        return value
    if depth >= JSON_DEPTH:
        raise source.unreadable(f"at most {JSON_DEPTH} levels of nesting", "more")
    if isinstance(value, Mapping):
        cleaned = {line(str(key)): plain(one, source, depth + 1) for key, one in value.items()}
        if len(cleaned) < len(value):  # one of two would be taken for the other
            most = Counter(line(str(key)) for key in value).most_common(1)
            raise source.unreadable("keys that differ", f"{most[0][0]} {most[0][1]} times")
        return cleaned
    if isinstance(value, list | tuple):
        return [plain(one, source, depth + 1) for one in value]
    raise source.unreadable("a JSON value", type(value).__name__)


# ---- types of fields -------------------------------------------------------------------------------------------------
def expected(what: str) -> PydanticCustomError:
    """What a validator of a field raises: the field should be `what`."""
    return PydanticCustomError("expected", cast(Any, "{what}"), {"what": what})


def _line(value: Any) -> str:
    if not isinstance(value, str):
        raise expected("text")
    return line(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise expected("text")
    return text(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not LEAST_WHOLE <= value <= MOST_WHOLE:
        raise expected("a whole number")
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise expected("a number")
    if not math.isfinite(value) or not LEAST_WHOLE <= value <= MOST_WHOLE:
        raise expected("a number of 64 bits")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise expected("true or false")
    return value


def _setting(value: Any) -> str | int | float | bool | None:
    if isinstance(value, str):
        return line(value)
    if value is None or isinstance(value, bool):
        return value
    return _number(value)


Line = Annotated[str, PlainValidator(_line)]
"""Text on one line: a name, a serial, a version, a state."""
Text = Annotated[str, PlainValidator(_text)]
"""Text of several lines: a configuration, a banner, a message."""
Whole = Annotated[int, PlainValidator(_whole)]
"""A whole number of at most 64 bits; true is none."""
Number = Annotated[float, PlainValidator(_number)]
"""A finite number, kept as it is: 4200 stays a whole one."""
Flag = Annotated[bool, PlainValidator(_flag)]
Setting = Annotated[Any, PlainValidator(_setting)]
"""Value of a setting, such as a BIOS attribute: text, number, true, false or null."""


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def read(shape: type[Shape], said: object, source: Source) -> Shape:
    """`said` as this shape (a TypedDict, list or dict of the types above); UnreadableAnswer names the field that is not."""
    try:
        return cast(Shape, _adapter(cast(Any, shape)).validate_python(said))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=True)[0]
        where = _path(first["loc"])
        raise source.unreadable(f"{_wanted(first)}{f' at {where}' if where else ''}", _shown(first)) from None
    except RecursionError:
        raise source.unreadable("plain data", "nested too deeply") from None


STRUCTURES = {
    "missing": "a value",
    "dict_type": "an object",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "literal_error": "one of {expected}",
}
"""What pydantic's errors about structure mean, by their type."""


def _wanted(error: Any) -> str:
    known = STRUCTURES.get(error["type"])
    return known.format(**error.get("ctx", {})) if known else line(str(error["msg"]))


def _path(loc: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{line(str(part), 64)}" for part in loc)
    return "".join(part for part in parts if part != ".[key]").removeprefix(".")


def _shown(error: Any) -> str:
    """The value that was read in place of the expected one, shortly."""
    if error["type"] == "missing":
        return "none"
    value = error["input"]
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"number {str(value)[:40]}" if LEAST_WHOLE <= value <= MOST_WHOLE else "a number of more than 64 bits"
    if isinstance(value, str):
        return f"text '{line(value, 80)}'"
    if isinstance(value, Mapping):
        return f"an object of {len(value)}"
    return f"a list of {len(value)}" if isinstance(value, list | tuple) else type(value).__name__


@contextmanager
def reading(source: Source, expected: str) -> Iterator[None]:
    """Parse inside of it: what a parser raises about the text that it was given becomes UnreadableAnswer."""
    try:
        yield
    except DeviceError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise source.unreadable(expected, f"{type(error).__name__}: {error}") from None
