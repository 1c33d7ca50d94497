"""Reading what others may have written: bounded files, bounded JSON, one form only.

In: a path below a folder, or bytes. Out: bytes, or plain data. ``Refused`` says what is wrong, for a person who has to find
the place; FileNotFoundError says that nothing is there. Nothing waits: a pipe, a device or a link is refused before it is
read. The bounds are choices of ours: they keep a reader from running out of time or memory, and no standard gives them.
"""

import base64
import binascii
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

MAX_LINE = 64 << 20
MAX_LOG = 4 << 30
MAX_RAW = 4 << 30
MAX_SMALL = 1 << 20
MAX_DEPTH = 48
MAX_DIGITS = 300
"""Digits of a whole number: no float holds 310, and arithmetic with such numbers overflows."""
CHUNK = 1 << 20
YEARS = range(2000, 2200)
"""Years in which evidence can lie: date arithmetic near year 1 or 9999 overflows."""

_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_ONE_BRACKET = bytes.maketrans(b"{}", b"[]")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Refused(ValueError):
    """What was read is not what evidence may hold; the message says why."""


class TooLarge(Refused):
    """A file of more bytes than may be read."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(data: Any) -> bytes:
    """The one form in which data are written: sorted keys, no spaces, ASCII. ValueError for what JSON does not hold."""
    return _CANONICAL.encode(data).encode()


def loads(data: bytes, *, limit: int = MAX_LINE) -> Any:
    """JSON in canonical form, at most ``limit`` bytes and ``MAX_DEPTH`` levels, without repeated keys."""
    if len(data) > limit:
        raise Refused(f"{len(data)} bytes, at most {limit} are read")
    if (depth := _depth(data)) > MAX_DEPTH:
        raise Refused(f"nested {depth} levels deep, at most {MAX_DEPTH} are read")
    try:
        found = json.loads(
            data.decode("ascii"), object_pairs_hook=_object, parse_int=_whole, parse_constant=_no_constant
        )
        same = canonical(found) == data
        if b"\\ud" in data:  # half a surrogate pair can be written nowhere; the one form writes it in lower case
            json.dumps(found, ensure_ascii=False).encode()
    except Refused:
        raise
    except (ValueError, RecursionError) as error:
        raise Refused(f"no JSON that evidence may hold: {str(error)[:120]}") from None
    if not same:
        raise Refused("not in the form in which evidence is written (sorted keys, no spaces)")
    return found


def _depth(data: bytes) -> int:
    """Levels of nesting; where there are few brackets, their number, which is not less."""
    if (count := data.count(b"[") + data.count(b"{")) <= MAX_DEPTH:
        return count
    brackets = left = _outside_texts(data).translate(_ONE_BRACKET, _NO_BRACKET)
    for levels in range(MAX_DEPTH + 1):
        if not left:
            return levels
        left = left.replace(b"[]", b"")
    deepest = depth = 0
    for byte in brackets:  # too deep, or brackets that do not match
        depth += 1 if byte == ord("[") else -1
        deepest = max(deepest, depth)
    return deepest


def _outside_texts(data: bytes) -> bytes:
    """What stands outside texts; a text that never ends goes to the end of the data."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused("a key stands there twice")
    return found


def _no_constant(name: str) -> Any:
    raise Refused(f"{name} is no number of JSON")


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise Refused(f"a number of {len(digits)} digits, at most {MAX_DIGITS} are read")
    return int(digits)


def _finite(digits: str) -> float:
    if not math.isfinite(found := float(digits)):
        raise Refused(f"no float holds {digits[:20]}")
    return found


RAW_JSON = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_finite, parse_constant=_no_constant
)
"""Reads raw outputs, whose layout is free. A comparison with NaN is false, so a limit would never be passed by it."""


def fields(data: Any, *names: str) -> Mapping[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(data, dict) or set(data) != set(names):
        raise Refused(f"must be an object with exactly {', '.join(names)}")
    return data


def text(data: Any, name: str) -> str:
    """The text under a key."""
    found = data.get(name) if type(data) is dict or isinstance(data, Mapping) else None
    if not isinstance(found, str):
        raise Refused(f"{name} must be a text")
    return found


def digest(data: Any, name: str = "sha256") -> str:
    """The SHA-256 under a key, lower-case hex."""
    found = text(data, name)
    if not _SHA256.fullmatch(found):
        raise Refused(f"{name} must be a SHA-256 in lower-case hex")
    return found


def number(data: Any, name: str) -> int:
    """The count under a key: 0 or more."""
    found = data.get(name) if isinstance(data, Mapping) else None
    if type(found) is not int or not 0 <= found <= 1 << 53:
        raise Refused(f"{name} must be a whole number of 0 or more")
    return found


def moment(found: Any, name: str) -> datetime:
    """A date and time with a zone, in ISO form."""
    try:
        made = datetime.fromisoformat(found)
    except (TypeError, ValueError):
        raise Refused(f"{name} {str(found)[:40]!r} is no date and time in ISO form") from None
    if made.tzinfo is None or made.year not in YEARS:
        raise Refused(f"{name} {str(found)[:40]!r} must have a time zone and a year of {YEARS[0]} to {YEARS[-1]}")
    return made


def unbase64(data: Any, name: str) -> bytes:
    """The bytes of a base64 text in its one form."""
    try:
        found = base64.b64decode(text(data, name), validate=True)
    except (binascii.Error, ValueError):
        raise Refused(f"{name} must be base64") from None
    if base64.b64encode(found).decode() != data[name]:
        raise Refused(f"{name} is not in the one form of base64")
    return found


def open_regular(folder: Path, name: str) -> int:
    """A descriptor of a regular file below ``folder``; no part of ``name`` may be a link or leave the folder.

    FileNotFoundError if it is not there.
    """
    parts = name.split("/")
    if not all(parts) or {".", ".."} & set(parts):
        raise Refused(f"{name} leaves the folder")
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        for part in parts[:-1]:
            at = _step(at, part, os.O_RDONLY | os.O_DIRECTORY)
        found = _step(at, parts[-1], os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refused(f"{name} cannot be read as a regular file: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise Refused(f"{name} is no regular file")
    return found


def _step(at: int, part: str, flags: int) -> int:
    try:
        return os.open(part, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


def chunks(folder: Path, name: str, limit: int) -> Iterator[bytes]:
    """The content of a regular file below ``folder``, at most ``limit`` bytes of it."""
    with _opened(folder, name, limit) as file:
        left = limit
        while piece := file.read(min(CHUNK, left)):
            left -= len(piece)
            yield piece


def _opened(folder: Path, name: str, limit: int) -> BinaryIO:
    file = os.fdopen(open_regular(folder, name), "rb")
    if (size := os.fstat(file.fileno()).st_size) > limit:
        file.close()
        raise TooLarge(f"{name} has {size} bytes, at most {limit} are read")
    return file


def read(folder: Path, name: str, limit: int) -> bytes:
    """All of a regular file below ``folder``: as many bytes as it has when it is opened, and `limit` at most if it grows."""
    try:
        with _opened(folder, name, limit) as file:
            data = file.read(min(os.fstat(file.fileno()).st_size, limit))
            while more := file.read(min(CHUNK, limit - len(data))):  # a buffer of what may be read is made at once
                data += more
            return data
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refused(f"{name} cannot be read: {error.strerror}") from None


def sha256_of(folder: Path, name: str) -> str:
    """The SHA-256 of a raw output below ``folder``."""
    return sha256_and_size(folder, name)[0]


def sha256_and_size(folder: Path, name: str) -> tuple[str, int]:
    """The SHA-256 of a raw output below ``folder``, and its bytes."""
    found, size = hashlib.sha256(), 0
    try:
        for piece in chunks(folder, name, MAX_RAW):
            found.update(piece)
            size += len(piece)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refused(f"{name} cannot be read: {error.strerror}") from None
    return found.hexdigest(), size
