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
import logging
import marshal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

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
SCHEMA_VERSION = 1
LEAST_BYTES = 8 << 20
"""A shorter log is not remembered: reading it takes at most about two seconds of a processor. A choice of ours."""
MAX_MEMORY = 4 << 30
_LIBRARIES = ("bringup", "cryptography", "securesystemslib")
_PLAIN = tuple(
    field.name
    for field in fields(Record)
    if field.name not in ("raw", "started", "ended", "limit_frozen", "identities", "channels", "attachments")
)
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
    predicate, signers, line). ``lines`` has the SHA-256 of each line, ``payloads`` that of each batch, in hex.
    """

    records: Sequence[tuple[Record, Mode, frozenset[str], int]]
    statements: Sequence[tuple[str, str, Mapping[str, Any], frozenset[str], int]]
    lines: Sequence[str]
    payloads: Sequence[str]
    size: int


def read(folder: Path, data: bytes, conditions: str, memory: Memory) -> tuple[Verified | None, str]:
    """What is remembered of the beginning of a log, and '', or None and why the memory does not hold.

    The reason is '' as well where there is no memory, or one of other conditions (other keys, another program): both are usual.
    """
    try:
        found = strict.read(folder, FILE, MAX_MEMORY)
        cut = found.index(b"\n") + 1
        header = _header(found[: cut - 1], memory)
        if header["conditions"] != conditions:
            return None, ""
        size = strict.number(header, "size")
        if size > len(data) or _sha256(memoryview(data)[:size]) != header["log"]:
            raise Refused("the log does not begin with the lines that it was signed over")
        body = memoryview(found)[cut:]
        if _sha256(body) != header["body"]:
            raise Refused("its body is not the one that was signed")
    except FileNotFoundError:
        return None, ""
    except (ValueError, KeyError, TypeError, AttributeError, SecuresystemslibError) as error:
        return None, str(error)[:200]
    return loaded(body, size), ""


def write(folder: Path, data: bytes, conditions: str, memory: Memory, verified: Verified) -> None:
    """Remember ``data``, whole lines of a verified log. A memory that cannot be written is logged and left out."""
    body = dumped(verified)
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
        write_file(folder / FILE, strict.canonical(envelope.to_dict()) + b"\n" + body)
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
    """Equal parts as one object: marshal writes it once, and the reader keeps it once."""

    def __init__(self) -> None:
        self._seen: dict[Any, Any] = {}

    def one(self, part: Any) -> Any:
        return self._seen.setdefault(part, part)

    def mapping(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """A flat mapping of texts."""
        key = tuple((self.one(name), self.one(value)) for name, value in part.items())
        return self._seen.setdefault(("mapping", key), dict(key))


def dumped(verified: Verified) -> bytes:
    """All of it but ``size``, as plain data that hold equal parts once."""
    shared = _Shared()
    records = []
    for record, mode, signers, line in verified.records:
        plain = []
        for name in _PLAIN:
            part = getattr(record, name)
            if isinstance(part, str):
                part = shared.one(part)
            elif name == "inputs":
                part = shared.mapping(part)
            plain.append(part)
        seen = [_identities(found, shared) for found in (record.identities, record.channels)]
        files = tuple((one.name, one.sha256) for one in record.attachments)
        frozen = record.limit_frozen.isoformat() if record.limit_frozen else None
        times = (record.started.isoformat(), record.ended.isoformat(), frozen)
        records.append((tuple(plain), times, *seen, files, shared.one(mode), shared.one(tuple(sorted(signers))), line))
    others = [
        (shared.one(kind), subject, dict(said), shared.one(tuple(sorted(signers))), line)
        for kind, subject, said, signers, line in verified.statements
    ]
    hashes = [b"".join(map(bytes.fromhex, found)) for found in (verified.lines, verified.payloads)]
    return marshal.dumps((records, others, *hashes))


def _identities(found: Iterable[Identity], shared: _Shared) -> tuple[Any, ...]:
    made = tuple(shared.one(tuple(shared.one(getattr(one, name)) for name in _OF_IDENTITY)) for one in found)
    return shared.one(made)


def loaded(body: bytes | memoryview, size: int) -> Verified:
    """What `dumped` wrote. Only for bytes of this program: they are not checked."""
    records, others, lines, payloads = marshal.loads(body)
    identities: dict[tuple[Any, ...], tuple[Identity, ...]] = {}
    signers: dict[tuple[str, ...], frozenset[str]] = {}

    def identities_of(found: tuple[Any, ...]) -> tuple[Identity, ...]:
        if (made := identities.get(found)) is None:
            made = identities[found] = tuple(Identity(*one) for one in found)
        return made

    def signers_of(found: tuple[str, ...]) -> frozenset[str]:
        if (made := signers.get(found)) is None:
            made = signers[found] = frozenset(found)
        return made

    def record_of(plain: Any, times: Any, said: Any, channels: Any, files: Any) -> Record:
        record = object.__new__(Record)  # its fields were checked when the line was verified
        record.__dict__.update(zip(_PLAIN, plain, strict=True))
        started, ended, frozen = times
        record.__dict__.update(
            raw=None,
            started=datetime.fromisoformat(started),
            ended=datetime.fromisoformat(ended),
            limit_frozen=datetime.fromisoformat(frozen) if frozen else None,
            identities=identities_of(said),
            channels=identities_of(channels),
            attachments=tuple(Attachment(*one) for one in files),
        )
        return record

    hashes = [[found[at : at + 32].hex() for at in range(0, len(found), 32)] for found in (lines, payloads)]
    return Verified(
        [(record_of(*parts), mode, signers_of(by), line) for *parts, mode, by, line in records],
        [(kind, subject, said, signers_of(by), line) for kind, subject, said, by, line in others],
        hashes[0],
        hashes[1],
        size,
    )


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
