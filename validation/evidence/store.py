"""The evidence folder of a site: an append-only log of signed statements, and the raw outputs beside it.

    log.jsonl         one line per signed batch: {"envelope": DSSE envelope, "previous": SHA-256 of the line before}
    head.json         DSSE envelope over the number of lines and the SHA-256 of the last one (a cut tail is noticed)
    raw/ab/<sha256>   raw outputs, named by their content
    keys/<hex>.pub    public keys in OpenSSH form, named by their fingerprint: a cache, which gives no key any weight
    roles.json        whose key has which role; only a key that the site file pins counts outside a rehearsal
    lock              held while one process appends

The order of writing is raw files, log line, head, each flushed to disk. A process killed in between leaves at most a
torn last line, which the next append sets aside, or a head that is one line behind, which it brings up to date.
Whoever holds no enrolled key can therefore not add, change, reorder or remove anything unnoticed. What remains
possible is putting back an older copy of the whole folder; keep a copy of ``head.json`` elsewhere against that.
"""

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import Error as SecuresystemslibError
from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import CryptoSigner, SSlibKey

from inventory.paths import write_file
from validation.evidence.keys import SigningKeyError, file_name, load_public, openssh_line_of
from validation.evidence.mode import Mode
from validation.evidence.record import TEST_RESULT, Record, from_statement, raw_path, to_statement

BATCH_TYPE = "application/vnd.bringup.statements+json"
STATEMENT_PAYLOAD_TYPE = "application/vnd.in-toto+json"
HEAD_TYPE = "application/vnd.bringup.log-head+json"
LAB_ROLE = "lab"
SCHEMA_VERSION = 1
EMPTY_LOG = hashlib.sha256(b"").hexdigest()

log = logging.getLogger(__name__)


class IntegrityError(Exception):
    """The evidence folder is not what its signers left there. ``broken`` lists every place that was found."""

    def __init__(self, path: Path, broken: Sequence[str]) -> None:
        self.broken = tuple(broken)
        shown = "\n".join(f"  - {line}" for line in self.broken)
        super().__init__(f"evidence in {path} is broken:\n{shown}")


@dataclass(frozen=True)
class KeyOwner:
    """What ``roles.json`` says about one key."""

    role: str
    owner: str


@dataclass(frozen=True)
class Entry:
    """A record as found in the log: with the keys that really signed it, its line number and its mode."""

    record: Record
    signers: frozenset[str]
    line: int
    mode: Mode


@dataclass(frozen=True)
class Statement:
    """Any other signed statement of the log (waivers), by its predicate type."""

    predicate_type: str
    subject: str
    predicate: Mapping[str, Any]
    signers: frozenset[str]
    line: int


@dataclass(frozen=True)
class Contents:
    """A verified evidence folder.

    ``head_signers`` are the keys that signed over the length of the log; ``notices`` says what is unusual but sound, such
    as a torn last line.
    """

    entries: tuple[Entry, ...] = ()
    statements: tuple[Statement, ...] = ()
    owners: Mapping[str, KeyOwner] | None = None
    head_signers: frozenset[str] = frozenset()
    notices: tuple[str, ...] = ()

    def owner(self, key_id: str) -> KeyOwner:
        """Whose key it is; a key without an entry in ``roles.json`` counts as a lab key."""
        return (self.owners or {}).get(key_id, KeyOwner(LAB_ROLE, "unknown"))


class Store:
    """One evidence folder. Reading never changes it; only ``enroll``, ``append`` and ``append_envelope`` do.

    ``pinned`` are the fingerprints that the site file pins. Such a key continues only a log whose head one of them signed:
    it would otherwise vouch for a log whose tail somebody cut.
    """

    def __init__(self, path: Path, pinned: frozenset[str] = frozenset()) -> None:
        self.path, self.pinned = path, pinned
        self._log = path / "log.jsonl"
        self._head = path / "head.json"
        self._roles = path / "roles.json"

    @classmethod
    def open(cls, path: Path, pinned: frozenset[str] = frozenset()) -> "Store":
        """The store in ``path``; the folder is made by the first write."""
        return cls(path, pinned)

    # -- writing ------------------------------------------------------------------------------------------------

    def enroll(self, key: SSlibKey | CryptoSigner, role: str, owner: str) -> str:
        """Put a public key and its role on file (again: no change). Returns the key id, its fingerprint.

        SigningKeyError if the key is on file with another role.
        """
        public = key.public_key if isinstance(key, CryptoSigner) else key
        with self._locked():
            owners = self._owners()
            known = owners.get(public.keyid)
            if known is not None and known.role != role:
                raise SigningKeyError(f"key {public.keyid} is on file with the role {known.role}, not {role}")
            self._write_atomically(
                self.path / "keys" / file_name(public.keyid), f"{openssh_line_of(public)} {owner}\n".encode()
            )
            if known != KeyOwner(role, owner):
                owners[public.keyid] = KeyOwner(role, owner)
                keys = {key_id: {"role": o.role, "owner": o.owner} for key_id, o in sorted(owners.items())}
                self._write_atomically(self._roles, _json({"schema_version": SCHEMA_VERSION, "keys": keys}) + b"\n")
        return str(public.keyid)

    def append(self, records: Iterable[Record], *signers: CryptoSigner) -> None:
        """Add the records as one batch, signed by all ``signers``.

        A signer that is not on file is an error (SigningKeyError); a store whose log, head or keys are broken refuses
        (IntegrityError). Raw bytes of the records go into ``raw/``.
        """
        batch = list(records)
        if not batch:
            return
        for record in batch:
            if record.raw is not None:
                self.keep(record.raw)
        self.append_envelope(signed([to_statement(record) for record in batch], *signers), head_signer=signers[0])

    def append_envelope(self, envelope: Envelope, head_signer: CryptoSigner) -> None:
        """Add an envelope that was signed earlier, perhaps by several people one after the other."""
        with self._locked():
            keys = self._keys()
            for key_id in {*envelope.signatures, head_signer.public_key.keyid}:
                if key_id not in keys:
                    raise SigningKeyError(f"key {key_id} is not on file in {self.path / 'keys'}; enrol it first")
            broken: list[str] = []
            lines, torn = self._lines()
            covered, head_signers = self._check_head(lines, keys, broken)
            if head_signer.public_key.keyid in self.pinned and head_signers and not head_signers & self.pinned:
                broken.append(
                    "head.json is signed by no key that the site file pins, so a cut tail of log.jsonl could not be noticed; "
                    "set this folder aside and collect the evidence again"
                )
            previous = _digest(lines[covered - 1]) if covered else EMPTY_LOG
            for number, line in enumerate(lines[covered:], start=covered + 1):
                _open_line(line, number, previous, keys, broken)
                previous = _digest(line)
            _verified_signers(envelope, keys, "the new batch", broken)
            if broken:
                raise IntegrityError(self.path, broken)
            if torn:
                self._set_aside(torn, sum(len(line) + 1 for line in lines))
            line = _json({"envelope": envelope.to_dict(), "previous": previous})
            if not self._head.exists():
                self._write_head(0, EMPTY_LOG, head_signer)
            with self._log.open("ab") as file:
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
            _fsync_folder(self.path)
            self._write_head(len(lines) + 1, _digest(line), head_signer)

    def keep(self, data: bytes) -> str:
        """Put a raw output or an attachment into ``raw/``; returns its SHA-256."""
        digest = _digest(data)
        path = self.path / raw_path(digest)
        if not path.exists():
            self._write_atomically(path, data)
        return digest

    # -- reading ------------------------------------------------------------------------------------------------

    def verify(self) -> Contents:
        """Check everything and return what the log holds.

        IntegrityError lists every flipped bit, changed type, signature or key id, every deleted, repeated or reordered
        line, a cut tail, and every missing or changed raw output. A torn last line from a killed process is a notice.
        """
        if not self.path.exists():
            return Contents(owners={})
        broken: list[str] = []
        notices: list[str] = []
        with self._locked(shared=True):
            keys = self._keys(broken)
            owners = self._owners(broken)
            lines, torn = self._lines()
            covered, head_signers = self._check_head(lines, keys, broken)
            if torn and not broken:
                notices.append(
                    f"log.jsonl ends in {len(torn)} bytes of a batch whose writing was interrupted; "
                    "that batch was never finished and does not count, run its checks again"
                )
            if covered < len(lines) and not broken:
                notices.append(f"{len(lines) - covered} batch(es) were written but not yet covered by head.json")
            entries, statements = self._contents(lines, keys, broken)
            self._check_raw(entries, broken)
        if broken:
            raise IntegrityError(self.path, broken)
        return Contents(tuple(entries), tuple(statements), owners, head_signers, tuple(notices))

    def raw(self, sha256: str) -> bytes:
        """A raw output by its digest."""
        return (self.path / raw_path(sha256)).read_bytes()

    def valid_signers(self, envelope: Envelope) -> frozenset[str]:
        """The ids of the keys on file whose signature on an envelope (in the log or not) holds."""
        return _verified_signers(envelope, self._keys(), "envelope", [])

    # -- parts --------------------------------------------------------------------------------------------------

    def _contents(
        self, lines: Sequence[bytes], keys: Mapping[str, SSlibKey], broken: list[str]
    ) -> tuple[list[Entry], list[Statement]]:
        entries: list[Entry] = []
        others: list[Statement] = []
        previous = EMPTY_LOG
        first_line_of: dict[str, int] = {}
        for number, line in enumerate(lines, start=1):
            opened = _open_line(line, number, previous, keys, broken)
            previous = _digest(line)
            if opened is None:
                continue
            payload, statements, signers = opened
            if payload in first_line_of:
                broken.append(f"line {number}: repeats the batch of line {first_line_of[payload]}")
                continue
            first_line_of[payload] = number
            for index, statement in enumerate(statements):
                try:
                    if statement["predicateType"] == TEST_RESULT:
                        record, mode = from_statement(statement)
                        entries.append(Entry(record, signers, number, mode))
                    else:
                        others.append(
                            Statement(
                                statement["predicateType"],
                                statement["subject"][0]["name"],
                                statement["predicate"],
                                signers,
                                number,
                            )
                        )
                except (KeyError, TypeError, ValueError, IndexError) as error:
                    broken.append(f"line {number}, statement {index}: not a statement of ours ({error!r})")
        return entries, others

    def _check_raw(self, entries: Iterable[Entry], broken: list[str]) -> None:
        named: dict[str, str] = {}
        for entry in entries:
            record = entry.record
            for digest in filter(None, (record.raw_sha256, *(a.sha256 for a in record.attachments))):
                named.setdefault(digest, f"{record.item} {record.subject}")
        for digest, user in named.items():
            path = self.path / raw_path(digest)
            try:
                found = hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError as error:
                broken.append(f"{raw_path(digest)}: file of {user} cannot be read: {error.strerror}")
                continue
            if found != digest:
                broken.append(f"{raw_path(digest)}: file of {user} has been changed")

    def _lines(self) -> tuple[list[bytes], bytes]:
        """Complete lines without their newline, and the torn rest."""
        data = self._log.read_bytes() if self._log.exists() else b""
        *lines, torn = data.split(b"\n")
        return lines, torn

    def _check_head(
        self, lines: Sequence[bytes], keys: Mapping[str, SSlibKey], broken: list[str]
    ) -> tuple[int, frozenset[str]]:
        """How many lines the signed head covers, and who signed it."""
        if not self._head.exists():
            if lines:
                broken.append("head.json is missing, so a cut tail of log.jsonl could not be noticed")
            return 0, frozenset()
        data = self._head.read_bytes()
        try:
            envelope = Envelope.from_dict(json.loads(data))
            if _json(envelope.to_dict()) + b"\n" != data:  # base64 has spare bits: the same content in other bytes
                broken.append("head.json is not in the form in which it was written")
            head = json.loads(envelope.payload)
            count, last = int(head["lines"]), str(head["last"])
        except (ValueError, KeyError, TypeError, AttributeError, SecuresystemslibError) as error:
            broken.append(f"head.json cannot be read: {error!r}")
            return 0, frozenset()
        if envelope.payload_type != HEAD_TYPE:
            broken.append(f"head.json has the payload type {envelope.payload_type!r}")
        signers = _verified_signers(envelope, keys, "head.json", broken)
        if count > len(lines):
            broken.append(f"log.jsonl has {len(lines)} complete lines, but head.json was signed over {count}: tail cut")
            return len(lines), signers
        if count and _digest(lines[count - 1]) != last:
            broken.append(f"line {count} of log.jsonl is not the one that head.json was signed over")
        return count, signers

    def _keys(self, broken: list[str] | None = None) -> dict[str, SSlibKey]:
        keys: dict[str, SSlibKey] = {}
        for path in sorted((self.path / "keys").glob("*.pub")):
            try:
                key = load_public(path.read_text(encoding="utf-8"), path)
                if file_name(key.keyid) != path.name:
                    raise SigningKeyError(f"{path}: holds the key {key.keyid}, which is not the one it is named after")
            except (SigningKeyError, UnicodeDecodeError) as error:
                if broken is None:
                    raise IntegrityError(self.path, [str(error)]) from None
                broken.append(str(error))
                continue
            keys[key.keyid] = key
        return keys

    def _owners(self, broken: list[str] | None = None) -> dict[str, KeyOwner]:
        if not self._roles.exists():
            return {}
        try:
            keys = json.loads(self._roles.read_bytes())["keys"]
            return {key_id: KeyOwner(str(o["role"]), str(o["owner"])) for key_id, o in keys.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if broken is None:
                raise IntegrityError(self.path, [f"roles.json cannot be read: {error!r}"]) from None
            broken.append(f"roles.json cannot be read: {error!r}")
            return {}

    def _set_aside(self, torn: bytes, keep: int) -> None:
        name = f"torn-{_digest(torn)[:16]}"
        self._write_atomically(self.path / name, torn)
        with self._log.open("r+b") as file:
            file.truncate(keep)
            os.fsync(file.fileno())
        log.warning("%s: set the %d bytes of an interrupted batch aside as %s", self._log, len(torn), name)

    def _write_head(self, lines: int, last: str, signer: CryptoSigner) -> None:
        head = {"schema_version": SCHEMA_VERSION, "lines": lines, "last": last, "time": datetime.now(UTC).isoformat()}
        envelope = Envelope(_json(head), HEAD_TYPE, {})
        envelope.sign(signer)
        self._write_atomically(self._head, _json(envelope.to_dict()) + b"\n")

    def _write_atomically(self, path: Path, data: bytes) -> None:
        write_file(path, data, durable=True)
        _fsync_folder(path.parent)

    @contextmanager
    def _locked(self, shared: bool = False) -> Iterator[None]:
        if shared and not os.access(self.path, os.W_OK):  # a read-only copy has no writer to wait for
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            yield


def signed(statements: Sequence[Mapping[str, Any]], *signers: CryptoSigner) -> Envelope:
    """A DSSE envelope over one statement (in-toto's own payload type) or over a batch of several."""
    if not signers:
        raise SigningKeyError("a batch needs at least one signer")
    if len(statements) == 1:
        envelope = Envelope(_json(statements[0]), STATEMENT_PAYLOAD_TYPE, {})
    else:
        batch = {"schema_version": SCHEMA_VERSION, "statements": list(statements)}
        envelope = Envelope(_json(batch), BATCH_TYPE, {})
    for signer in signers:
        envelope.sign(signer)
    return envelope


def statements_of(envelope: Envelope) -> list[dict[str, Any]]:
    """The statements in an envelope; ValueError for a payload type that is not one of ours."""
    if envelope.payload_type == STATEMENT_PAYLOAD_TYPE:
        return [json.loads(envelope.payload)]
    if envelope.payload_type == BATCH_TYPE:
        found: list[dict[str, Any]] = json.loads(envelope.payload)["statements"]
        return found
    raise ValueError(f"unknown payload type {envelope.payload_type!r}")


def _open_line(
    line: bytes, number: int, previous: str, keys: Mapping[str, SSlibKey], broken: list[str]
) -> tuple[str, list[dict[str, Any]], frozenset[str]] | None:
    """(payload digest, statements, verified signers) of a log line; None, and a word in ``broken``, if unreadable."""
    try:
        outer = json.loads(line)
        if set(outer) != {"envelope", "previous"}:
            raise ValueError("unexpected fields")
        envelope = Envelope.from_dict(outer["envelope"])
        statements = statements_of(envelope)
    except (ValueError, KeyError, TypeError, AttributeError, SecuresystemslibError) as error:
        broken.append(f"line {number}: cannot be read: {error!r}")
        return None
    if outer["previous"] != previous:
        broken.append(f"line {number}: does not follow the line before it (one was removed, changed or moved)")
    signers = _verified_signers(envelope, keys, f"line {number}", broken)
    return _digest(envelope.payload), statements, signers


def _verified_signers(
    envelope: Envelope, keys: Mapping[str, SSlibKey], place: str, broken: list[str]
) -> frozenset[str]:
    """The ids of the distinct public keys whose signature holds. Every signature must."""
    if not envelope.signatures:
        broken.append(f"{place}: is not signed")
    by_public: dict[str, str] = {}
    pae = envelope.pae()
    for key_id, signature in envelope.signatures.items():
        key = keys.get(key_id)
        if key is None:
            broken.append(f"{place}: signed with the key {key_id}, which is not on file")
            continue
        try:
            key.verify_signature(signature, pae)
        except UnverifiedSignatureError:
            broken.append(f"{place}: the signature of {key_id} does not fit the content")
            continue
        by_public[key.keyval["public"]] = key_id
    return frozenset(by_public.values())


def _json(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _fsync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
