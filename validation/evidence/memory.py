"""What the gate remembers of a log that it has verified, so that it need not verify the same lines again.

In: the bytes of the log, the conditions of this reading, and the gate's recorder key. Out: the records and statements of the
lines that the memory covers, or None with a reason.

    verified.mem      one line: DSSE envelope over the header, signed by the recorder; then the body

The header has the number of lines and bytes, the SHA-256 of these bytes of the log and of the body, and the SHA-256 of all
conditions: site, store, keys on file, keys that may record, program. The body is read only after signature and SHA-256 hold;
it is Python's marshal form, which holds plain data and no code of ours. A memory that does not hold is no fault of the
evidence: the log is read in full.
"""

import hashlib
import importlib.metadata
import json
import logging
import marshal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import Error as SecuresystemslibError
from securesystemslib.signer import CryptoSigner

from inventory.paths import write_file
from validation.evidence import strict
from validation.evidence.mode import Identity, Mode
from validation.evidence.record import Attachment, Record
from validation.evidence.strict import Refused

FILE = "verified.mem"
MEMORY_TYPE = "application/vnd.bringup.verified-log+json"
SCHEMA_VERSION = 3
LEAST_BYTES = 8 << 20
"""A shorter log is not remembered: reading it takes at most about two seconds of a processor. A choice of ours."""
MAX_OF_LOG = 2
"""Bytes of a memory for each byte of its log, at most. One has about a third: it holds equal parts once."""
ANOTHER_LOG = "the log does not begin with the lines that it was signed over"
_LIBRARIES = ("bringup", "cryptography", "securesystemslib")
_COMMON = (
    "step",
    "kind",
    "result",
    "tool",
    "tool_version",
    "command",
    "unit",
    "limit_source",
    "replayed",
    "host",
    "inputs",
)
"""Fields that are the same in many records of a run: kept once for all of them."""
_OWN = tuple(
    field.name
    for field in fields(Record)
    if field.name not in (*_COMMON, "raw", "started", "ended", "limit_frozen", "identities", "channels", "attachments")
)
_CONFIGURATION = _OWN.index("configuration")
_OF_IDENTITY = tuple(field.name for field in fields(Identity))

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Memory:
    """Who remembers: the recorder's key, which the gate has, and a hash of the program that verifies."""

    signer: CryptoSigner
    program: str

    def conditions(self, **of_reading: Any) -> str:
        """One hash over everything besides the log that the result of a reading depends on."""
        versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
        asked = {"python": sys.version, "versions": versions, "program": self.program, **of_reading}
        return hashlib.sha256(strict.canonical(asked)).hexdigest()


@dataclass(frozen=True)
class Verified:
    """A verified beginning of a log.

    ``records`` and ``statements`` are in the order of the log: (record, mode, signers, line) and (predicate type, subject,
    predicate, signers, line, digest of the subject). ``lines`` has the SHA-256 of each line, ``payloads`` that of each batch, in
    hex. ``parts`` are the same in the form of `dumped`, as far as it was made or read already.
    """

    records: Sequence[tuple[Record, Mode, frozenset[str], int]]
    statements: Sequence[tuple[str, str, Mapping[str, Any], frozenset[str], int, str]]
    lines: Sequence[str]
    payloads: Sequence[str]
    size: int
    parts: Sequence[bytes] = ()


def read(folder: Path, data: bytes, conditions: str, memory: Memory) -> tuple[Verified | None, str]:
    """What is remembered of the beginning of a log, and '', or None and why the memory does not hold.

    The reason is '' as well where there is no memory, or one of other conditions (other keys, another program): both are usual.
    """
    try:
        found = strict.read(folder, FILE, MAX_OF_LOG * len(data) + strict.MAX_SMALL)
        cut = found.index(b"\n") + 1
        header = _header(found[: cut - 1], memory)
        if header["conditions"] != conditions:
            return None, ""
        size = strict.number(header, "size")
        if size > len(data):
            raise Refused(ANOTHER_LOG)
        with ThreadPoolExecutor(1) as beside:  # hashlib leaves the interpreter to others
            log_sha256 = beside.submit(_sha256, memoryview(data)[:size])
            body = memoryview(found)[cut:]
            if _sha256(body) != header["body"]:
                raise Refused("its body is not the one that was signed")
            parts = marshal.loads(body)
            made = Made()
            verified = joined([loaded(part, made) for part in parts], size, parts)
            if log_sha256.result() != header["log"]:
                raise Refused(ANOTHER_LOG)
            return verified, ""
    except FileNotFoundError:
        return None, ""
    except (ValueError, KeyError, TypeError, AttributeError, SecuresystemslibError) as error:
        return None, str(error)[:200]


def write(folder: Path, data: bytes, conditions: str, memory: Memory, verified: Verified) -> None:
    """Remember ``data``, whole lines of a verified log. A memory that cannot be written is logged and left out."""
    body = marshal.dumps(list(verified.parts))
    header = {
        "schema_version": SCHEMA_VERSION,
        "conditions": conditions,
        "size": len(data),
        "log": _sha256(data),
        "body": _sha256(body),
    }
    envelope = Envelope(strict.canonical(header), MEMORY_TYPE, {})
    envelope.sign(memory.signer)
    try:
        write_file(folder / FILE, strict.canonical(envelope.to_dict()) + b"\n" + body, follow=False)
    except OSError as error:
        log.warning("%s: not written, the next reading verifies all lines again: %s", folder / FILE, error)


def _header(line: bytes, memory: Memory) -> Mapping[str, Any]:
    envelope: Envelope = Envelope.from_dict(strict.loads(line, limit=strict.MAX_SMALL))
    key = memory.signer.public_key
    if envelope.payload_type != MEMORY_TYPE or set(envelope.signatures) != {key.keyid}:
        raise Refused("it is not signed by the key of this gate")
    key.verify_signature(envelope.signatures[key.keyid], envelope.pae())
    return strict.fields(strict.loads(envelope.payload), "schema_version", "conditions", "size", "log", "body")


class _Shared:
    """Equal parts as one object, which marshal writes once, and tables of what the reader makes once."""

    def __init__(self) -> None:
        self._seen: dict[Any, Any] = {}
        self._plain: dict[str, Mapping[str, Any]] = {}
        self._rows: dict[str, dict[Any, int]] = {}
        self._identities: dict[tuple[Identity, ...], int] = {}
        self.tables: dict[str, list[Any]] = {"common": [], "identities": [], "signers": []}

    def one(self, part: Any) -> Any:
        return self._seen.setdefault(part, part)

    def mapping(self, part: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """A flat mapping of texts."""
        return cast(
            tuple[tuple[str, str], ...],
            self.one(tuple((self.one(name), self.one(value)) for name, value in part.items())),
        )

    def plain(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        """A mapping of plain data: marshal writes the same one once."""
        return self._plain.setdefault(json.dumps(part, sort_keys=True), part) if part else part

    def identities(self, found: tuple[Identity, ...]) -> int:
        """The place of what a record saw of devices."""
        if (row := self._identities.get(found)) is None:
            said = tuple(self.one(tuple(self.one(getattr(one, name)) for name in _OF_IDENTITY)) for one in found)
            row = self._identities[found] = self.row("identities", said)
        return row

    def row(self, table: str, key: Any) -> int:
        """The place of a value in a table."""
        rows = self._rows.setdefault(table, {})
        if (found := rows.get(key)) is None:
            found = rows[key] = len(rows)
            self.tables[table].append(key)
        return found


def dumped(verified: Verified) -> bytes:
    """All of it but ``size`` and ``parts``, as plain data that hold equal parts once."""
    shared = _Shared()
    records = []
    for record, mode, signers, line in verified.records:
        common = [shared.one(getattr(record, name)) for name in _COMMON[:-1]]
        own = [getattr(record, name) for name in _OWN]
        own[_CONFIGURATION] = shared.plain(own[_CONFIGURATION])
        frozen = record.limit_frozen.isoformat() if record.limit_frozen else None
        records.append(
            (
                shared.row("common", (*common, shared.mapping(record.inputs))),
                tuple(shared.one(part) if isinstance(part, str) else part for part in own),
                record.started.isoformat(),
                record.ended.isoformat(),
                frozen,
                shared.identities(record.identities),
                shared.identities(record.channels),
                tuple((one.name, one.sha256) for one in record.attachments),
                shared.one(mode),
                shared.row("signers", tuple(sorted(signers))),
                line,
            )
        )
    others = [
        (shared.one(kind), subject, dict(said), shared.row("signers", tuple(sorted(signers))), line, shared.one(digest))
        for kind, subject, said, signers, line, digest in verified.statements
    ]
    hashes = [b"".join(map(bytes.fromhex, found)) for found in (verified.lines, verified.payloads)]
    return marshal.dumps((shared.tables, records, others, *hashes))


class Made:
    """Identities that were made of earlier parts: a log says the same of a device many times."""

    def __init__(self) -> None:
        self._one: dict[tuple[str, ...], Identity] = {}
        self._rows: dict[tuple[tuple[str, ...], ...], tuple[Identity, ...]] = {}

    def row(self, said: tuple[tuple[str, ...], ...]) -> tuple[Identity, ...]:
        """The identities of a record."""
        if (found := self._rows.get(said)) is None:
            found = self._rows[said] = tuple(
                self._one.get(one) or self._one.setdefault(one, Identity(*one)) for one in said
            )
        return found


def _alike(row: Sequence[Any]) -> dict[str, Any]:
    """The fields that records share, those that most of them lack, and their item, which is asked for each of them."""
    known = dict(zip(_COMMON, (*row[:-1], dict(row[-1])), strict=True))
    return {**known, "raw": None, "limit_frozen": None, "attachments": (), "item": f"{known['step']}.{known['kind']}"}


def loaded(body: bytes, made: Made) -> Verified:
    """What `dumped` wrote. Only for bytes of this program: they are not checked."""
    tables, records, others, lines, payloads = marshal.loads(body)
    common = [_alike(row) for row in tables["common"]]
    identities = [made.row(row) for row in tables["identities"]]
    signers = [frozenset(row) for row in tables["signers"]]
    moment, put, new = datetime.fromisoformat, object.__setattr__, object.__new__
    found = []
    for alike, own, started, ended, frozen, said, channels, files, mode, by, line in records:
        known = common[alike].copy()
        known.update(zip(_OWN, own, strict=True))
        known["started"], known["ended"] = moment(started), moment(ended)
        known["identities"], known["channels"] = identities[said], identities[channels]
        if frozen:
            known["limit_frozen"] = moment(frozen)
        if files:
            known["attachments"] = tuple(Attachment(*one) for one in files)
        record = new(Record)
        put(record, "__dict__", known)  # its fields were checked when the line was verified
        found.append((record, mode, signers[by], line))
    hashes = [[text[at : at + 32].hex() for at in range(0, len(text), 32)] for text in (lines, payloads)]
    return Verified(
        found,
        [(kind, subject, text, signers[by], line, digest) for kind, subject, text, by, line, digest in others],
        hashes[0],
        hashes[1],
        0,
    )


def joined(found: Sequence[Verified], size: int, parts: Sequence[bytes]) -> Verified:
    """Parts of a log that follow each other, as one."""
    return Verified(
        [one for part in found for one in part.records],
        [one for part in found for one in part.statements],
        [one for part in found for one in part.lines],
        [one for part in found for one in part.payloads],
        size,
        parts,
    )


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
