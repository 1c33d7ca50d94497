"""The evidence folder of a site: an append-only log of signed statements, and the raw outputs beside it.

    log.jsonl         one line per signed batch: {"envelope": DSSE envelope, "position": DSSE envelope}
    head.json         DSSE envelope over the number of lines and the SHA-256 of the last one (a cut tail is noticed)
    store.json        the random id of this store and the site it is about
    raw/ab/<sha256>   raw outputs, named by their content
    keys/<hex>.pub    public keys in OpenSSH form, named by their fingerprint: a cache, which gives no key any weight
    roles.json        whose key has which role; only a key that the site file pins counts outside a rehearsal
    lock              held while one process appends
    verified.mem      what the gate has verified of the log, signed by its recorder (validation/evidence/memory.py)

The position of a line is signed by the recorder: number, SHA-256 of the line before, site, store, plan, and the SHA-256 of
the envelope that it places. Each statement says site, store and plan as well, and number and line before where they were
known when it was signed. So nothing can be cut, reordered, linked anew or brought from another log without a key that counts.

The order of writing is raw files, log line, head, each flushed to disk. A process killed in between leaves at most a
torn last line, which the next append sets aside, or a head that is one line behind, which it brings up to date. What
remains possible is putting back an older copy of the whole folder; an anchor (validation/evidence/anchor.py) notices it.
"""

import fcntl
import gc
import hashlib
import itertools
import logging
import os
import secrets
import stat
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import Error as SecuresystemslibError
from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import CryptoSigner, SSlibKey

from inventory.paths import write_file
from network.drivers.errors import one_line
from validation.evidence import memory as memories
from validation.evidence import parallel, strict
from validation.evidence.keys import SigningKeyError, file_name, load_public, openssh_line_of
from validation.evidence.memory import Memory, Verified
from validation.evidence.mode import Mode
from validation.evidence.record import (
    STATEMENT_TYPE,
    TEST_RESULT,
    Record,
    from_statement,
    raw_path,
    subject_of,
    to_statement,
)
from validation.evidence.strict import Refused

BATCH_TYPE = "application/vnd.bringup.statements+json"
STATEMENT_PAYLOAD_TYPE = "application/vnd.in-toto+json"
HEAD_TYPE = "application/vnd.bringup.log-head+json"
POSITION_TYPE = "application/vnd.bringup.log-position+json"
PLACE = "bringup_log"
"""The part of a statement's predicate that says in which log it stands."""
LAB_ROLE = "lab"
SCHEMA_VERSION = 2
MAX_LINES = strict.MAX_LOG >> 10
"""Lines of a log that are read: each has more than 1 KiB with its two signatures."""
SHOWN_BROKEN = 200
"""Places that a report names; a log of empty lines would fill the memory with them."""
MAX_CHANGED = strict.MAX_RAW
"""Bytes of raw outputs which are not what was signed; the others are not read then: a link or a hole costs no disk, but time."""
MAX_KEYS = 10_000
"""Public keys on file; a site has one for each person who signs. A choice of ours."""
OF_MEMORY = 4
"""A log takes at most one part of so many of this machine's memory: what is made of it takes more than the log."""
LOCK_WAIT_S = 300
"""How long another process may hold the lock: a long log is read in minutes, an append takes milliseconds."""
EMPTY_LOG = hashlib.sha256(b"").hexdigest()
ANOTHER_VERSION = "it was written by another version of Bringup; set the folder aside and collect the evidence again"
NO_STORE = (
    "store.json is missing; a log of an earlier version of Bringup has none: set the folder aside and validate again"
)

log = logging.getLogger(__name__)


class IntegrityError(Exception):
    """The evidence folder is not what its signers left there. ``broken`` lists every place that was found."""

    def __init__(self, path: Path, broken: Sequence[str]) -> None:
        more = [f"and {len(broken) - SHOWN_BROKEN} more places"] if len(broken) > SHOWN_BROKEN else []
        self.broken = tuple(one_line(line, 600) for line in [*broken[:SHOWN_BROKEN], *more])
        shown = "\n".join(f"  - {line}" for line in self.broken)
        super().__init__(f"evidence in {path} is broken:\n{shown}")


@dataclass(frozen=True)
class KeyOwner:
    """What ``roles.json`` says about one key."""

    role: str
    owner: str


@dataclass(frozen=True)
class Entry:
    """A record as found in the log: with the keys that really signed it, its line number and its mode.

    ``payload`` is the SHA-256 of what they signed: a countersigner's own statement names it.
    """

    record: Record
    signers: frozenset[str]
    line: int
    mode: Mode
    payload: str = ""


@dataclass(frozen=True)
class Statement:
    """Any other signed statement of the log (waivers, begun checks), by its predicate type.

    ``digest`` is the SHA-256 that it gives for its subject: who reads a type of statement compares it.
    """

    predicate_type: str
    subject: str
    predicate: Mapping[str, Any]
    signers: frozenset[str]
    line: int
    digest: str


@dataclass(frozen=True)
class Contents:
    """A verified evidence folder.

    ``head_signers`` are the keys that signed over the length of the log; ``notices`` says what is unusual but sound, such
    as a torn last line. ``store`` is the id of the store and ``digests`` the SHA-256 of each line: what an anchor compares.
    ``recorders`` are the keys that might record; None if the reader had no site file.
    """

    entries: tuple[Entry, ...] = ()
    statements: tuple[Statement, ...] = ()
    owners: Mapping[str, KeyOwner] | None = None
    head_signers: frozenset[str] = frozenset()
    notices: tuple[str, ...] = ()
    store: str = ""
    digests: tuple[str, ...] = ()
    recorders: frozenset[str] | None = None
    made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was made of the statements once, by their type (begun.begun_checks)."""

    @property
    def last(self) -> str:
        """SHA-256 of the last line; '' for a log without lines."""
        return self.digests[-1] if self.digests else ""

    def owner(self, key_id: str) -> KeyOwner:
        """Whose key it is; a key without an entry in ``roles.json`` counts as a lab key."""
        return (self.owners or {}).get(key_id, KeyOwner(LAB_ROLE, "unknown"))


@dataclass(frozen=True)
class _Line:
    """An opened line of the log."""

    payload: str
    statements: list[Mapping[str, Any]]
    signers: frozenset[str]


class _Cut:
    """Lines without their newline, cut out of a log when they are asked for: all of them at once are a second copy of it."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        self._data, self._ends = data, array("Q", [start])
        while start < len(data):
            end = data.find(b"\n", start)
            start = len(data) + 1 if end < 0 else end + 1
            self._ends.append(start)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> bytes:
        return self._data[self._ends[number] : self._ends[number + 1] - 1]

    @property
    def sizes(self) -> list[int]:
        """Bytes of each line."""
        return [end - start - 1 for start, end in itertools.pairwise(self._ends)]


@dataclass(frozen=True)
class _Lines:
    """The lines of a log: the SHA-256 of those that are known, and the bytes of the rest."""

    known: Sequence[str]
    rest: "_Cut"

    @property
    def count(self) -> int:
        return len(self.known) + len(self.rest)

    def digest(self, number: int) -> str:
        """SHA-256 of a line, counted from 1; of nothing for 0: what the first line follows."""
        if not number:
            return EMPTY_LOG
        known = len(self.known)
        return self.known[number - 1] if number <= known else _digest(self.rest[number - 1 - known])


@dataclass(frozen=True)
class _Tip:
    """Where the log ends, and the state of its files in which that was found."""

    lines: int
    last: str
    state: tuple[Any, ...]


class Store:
    """One evidence folder. Reading never changes it; only ``enroll``, ``append`` and their kin do.

    ``pinned``     fingerprints that the site file pins. Such a key continues only a log whose head one of them signed: it
                   would otherwise vouch for a log whose tail somebody cut.
    ``site``       name of the site: lines of another one are refused ('': not compared)
    ``plan``       hash of the plan that new lines are about
    ``recorders``  the only keys whose signature on positions and head holds; None: any key on file, for a reader who has no
                   site file
    ``recorder``   signs positions and head of new lines; None: the first signer of each batch does
    """

    def __init__(
        self,
        path: Path,
        pinned: frozenset[str] = frozenset(),
        *,
        site: str = "",
        plan: str = "",
        recorders: frozenset[str] | None = None,
        recorder: CryptoSigner | None = None,
    ) -> None:
        self.path, self.pinned, self.site, self.plan = path, pinned, site, plan
        self.recorders, self.recorder = recorders, recorder
        self._log = path / "log.jsonl"
        self._head = path / "head.json"
        self._roles = path / "roles.json"
        self._tip: _Tip | None = None
        self._id = ""
        self._data = self._torn = b""

    @classmethod
    def open(cls, path: Path, pinned: frozenset[str] = frozenset(), **rest: Any) -> "Store":
        """The store in ``path``; the folder is made by the first write."""
        return cls(path, pinned, **rest)

    # -- writing ------------------------------------------------------------------------------------------------

    def id(self) -> str:
        """The random id of this store, made with the first call. IntegrityError for a log without one."""
        with self._locked():
            return self._place()["store"]

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
            self._write_key(public, owner)
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
        for record in batch:
            if record.raw is not None:
                self.keep(record.raw)
        self.append_statements([to_statement(record) for record in batch], *signers)

    def append_statements(self, statements: Sequence[Mapping[str, Any]], *signers: CryptoSigner) -> None:
        """Add statements as one batch, each with its whole place in the log under the signatures."""
        if not statements:
            return
        if not signers:
            raise SigningKeyError("a batch needs at least one signer")
        with self._locked():
            recorder = self.recorder or signers[0]
            self._on_file({*(s.public_key.keyid for s in signers)}, recorder)
            tip = self._find_tip(recorder)
            place = {**self._place(), "line": tip.lines + 1, "previous": tip.last}
            self._add(signed([_placed(statement, place) for statement in statements], *signers), tip, recorder)

    def append_envelope(self, envelope: Envelope, head_signer: CryptoSigner) -> None:
        """Add an envelope that was signed earlier, perhaps by several people one after the other (see ``placed``)."""
        with self._locked():
            recorder = self.recorder or head_signer
            keys = self._on_file(set(envelope.signatures), recorder)
            tip = self._find_tip(recorder)
            broken: list[str] = []
            _verified_signers(envelope, keys, "the new batch", broken)
            for index, statement in enumerate(_statements(envelope, broken)):
                self._check_place(statement, tip.lines + 1, tip.last, f"the new batch, statement {index}", broken)
            payload = _json(envelope.to_dict()["payload"])
            self._read(broken)
            if payload in self._data:
                broken.append("the new batch: stands in the log already, and a repeated one would break it for ever")
            if broken:
                raise IntegrityError(self.path, broken)
            self._add(envelope, tip, recorder)

    def placed(self, statements: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Statements that are signed now and appended later: they say site, store and plan."""
        with self._locked():
            return [_placed(statement, self._place()) for statement in statements]

    def keep(self, data: bytes) -> str:
        """Put a raw output or an attachment into ``raw/``; returns its SHA-256."""
        digest = _digest(data)
        path = self.path / raw_path(digest)
        if not _is_file(path):
            self._write_atomically(path, data)
        return digest

    # -- reading ------------------------------------------------------------------------------------------------

    def verify(self, memory: Memory | None = None) -> Contents:
        """Check everything and return what the log holds.

        With a ``memory`` the lines that it verified earlier are not verified again (see memory.py); head, later lines and raw
        files are.

        IntegrityError lists every flipped bit, changed type, signature or key id, every deleted, repeated or reordered
        line, lines of another site or store, a cut tail, every missing or changed raw output, and all that is no regular
        file in its one form. A torn last line from a killed process is a notice.
        """
        if not self.path.exists() and not self.path.is_symlink():
            return Contents(owners={}, recorders=self.recorders)
        broken: list[str] = []
        notices: list[str] = []
        try:
            with self._locked(shared=True), collector_paused():
                keys = self._keys(broken)
                owners = self._owners(broken)
                self._read(broken)
                store = self._identity(broken) if self._data or self._there("store.json") else ""
                self._id = store
                known, conditions = self._remembered(keys, memory, notices)
                lines = self._lines(broken, known)
                torn = self._torn
                covered, head_signers = self._check_head(lines, keys, broken)
                if torn and not broken:
                    notices.append(
                        f"log.jsonl ends in {len(torn)} bytes of a batch whose writing was interrupted; "
                        "that batch was never finished and does not count, run its checks again"
                    )
                if covered < lines.count and not broken:
                    notices.append(f"{lines.count - covered} batch(es) were written but not yet covered by head.json")
                entries, statements, verified = self._contents(lines, keys, broken, known)
                self._check_raw(entries, broken)
                longer = known is None or known.size < verified.size
                if memory and conditions and longer and not broken and verified.size >= memories.LEAST_BYTES:
                    memories.write(self.path, self._data, conditions, memory, verified)
        except OSError as error:
            raise IntegrityError(self.path, [*broken, f"cannot be read: {error.strerror} ({error.filename})"]) from None
        except MemoryError:
            raise IntegrityError(self.path, [*broken, "log.jsonl does not fit into this machine's memory"]) from None
        if broken:
            raise IntegrityError(self.path, broken)
        return Contents(
            tuple(entries),
            tuple(statements),
            owners,
            head_signers,
            tuple(notices),
            store,
            tuple(verified.lines),
            self.recorders,
        )

    def raw(self, sha256: str) -> bytes:
        """A raw output by its digest."""
        return strict.read(self.path, raw_path(sha256), strict.MAX_RAW)

    def valid_signers(self, envelope: Envelope) -> frozenset[str]:
        """The ids of the keys on file whose signature on an envelope (in the log or not) holds."""
        return _verified_signers(envelope, self._keys(), "envelope", [])

    # -- parts of writing ---------------------------------------------------------------------------------------

    def _on_file(self, key_ids: set[str], recorder: CryptoSigner) -> dict[str, SSlibKey]:
        """The keys on file; SigningKeyError if a signer is missing there, or the recorder may not record."""
        if self.recorder is not None:
            self._write_key(self.recorder.public_key, "recorder")
        keys = self._keys()
        recorder_id = recorder.public_key.keyid
        for key_id in {*key_ids, recorder_id}:
            if key_id not in keys:
                raise SigningKeyError(f"key {key_id} is not on file in {self.path / 'keys'}; enrol it first")
        if self.recorders is not None and recorder_id not in self.recorders:
            raise SigningKeyError(
                f"the key {recorder_id} may not record: add it to attest.roles.recorder.keys of the site file, or name the "
                "key that stands there in credentials.evidence.recorder"
            )
        return keys

    def _find_tip(self, recorder: CryptoSigner) -> _Tip:
        """Where the log ends. IntegrityError if what the head does not cover, or the head, is broken.

        A log that nobody touched since this store wrote its last line is not read again.
        """
        if self._tip is not None and self._tip.state == self._state():
            return self._tip
        keys = self._keys()
        broken: list[str] = []
        log = self._all_lines(broken)
        lines, torn = log.rest, self._torn
        self._id = self._place()["store"]
        covered, head_signers = self._check_head(log, keys, broken)
        if recorder.public_key.keyid in self.pinned and head_signers and not head_signers & self.pinned:
            broken.append(
                "head.json is signed by no key that the site file pins, so a cut tail of log.jsonl could not be noticed; "
                "set this folder aside and collect the evidence again"
            )
        previous = _digest(lines[covered - 1]) if covered else EMPTY_LOG
        for number in range(covered, len(lines)):
            self._open_line(lines[number], number + 1, previous, keys, broken)
            previous = _digest(lines[number])
        if broken:
            raise IntegrityError(self.path, broken)
        if torn:
            self._set_aside(torn, len(self._data))
        elif len(lines) and not self._data.endswith(b"\n"):
            with self._writing() as file:
                file.write(b"\n")
        return _Tip(len(lines), previous, ())

    def _add(self, envelope: Envelope, tip: _Tip, recorder: CryptoSigner) -> None:
        inner = envelope.to_dict()
        position = {
            "schema_version": SCHEMA_VERSION,
            **self._place(),
            "line": tip.lines + 1,
            "previous": tip.last,
            "envelope": _digest(_json(inner)),
        }
        outer = Envelope(_json(position), POSITION_TYPE, {})
        outer.sign(recorder)
        line = _json({"envelope": inner, "position": outer.to_dict()})
        if len(line) > strict.MAX_LINE:
            raise ValueError(
                f"a batch of {len(line)} bytes; the log takes at most {strict.MAX_LINE}: keep it as raw output"
            )
        fresh = not self._log.exists()
        if not self._head.exists():
            self._write_head(0, EMPTY_LOG, recorder)
        with self._writing() as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if fresh:
            _fsync_folder(self.path)
        self._write_head(tip.lines + 1, _digest(line), recorder)
        self._tip = _Tip(tip.lines + 1, _digest(line), self._state())

    def _state(self) -> tuple[Any, ...]:
        def of(path: Path) -> tuple[int, ...]:
            found = path.lstat()
            return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

        try:
            return of(self._log), of(self._head), of(self.path / "keys")
        except OSError:
            return ()

    def _place(self) -> dict[str, str]:
        """Site, store and plan of new lines; makes the store's id with its first line."""
        if not self._there("store.json"):
            if self._there("log.jsonl"):
                raise IntegrityError(self.path, [NO_STORE])
            made = {"schema_version": SCHEMA_VERSION, "site": self.site, "store": secrets.token_hex(16)}
            self._write_atomically(self.path / "store.json", _json(made) + b"\n")
        broken: list[str] = []
        store = self._identity(broken)
        if broken:
            raise IntegrityError(self.path, broken)
        return {"site": self.site, "store": store, "plan": self.plan}

    def _write_key(self, public: SSlibKey, owner: str) -> None:
        path = self.path / "keys" / file_name(public.keyid)
        if not _is_file(path):
            self._write_atomically(path, f"{openssh_line_of(public)} {owner}\n".encode())

    # -- parts of reading ---------------------------------------------------------------------------------------

    def _there(self, name: str) -> bool:
        return os.path.lexists(self.path / name)

    def _identity(self, broken: list[str]) -> str:
        """The store's id from store.json."""
        try:
            data = strict.read(self.path, "store.json", strict.MAX_SMALL)
            found = strict.fields(strict.loads(data.removesuffix(b"\n")), "schema_version", "site", "store")
            site, store = strict.text(found, "site"), strict.text(found, "store")
        except FileNotFoundError:
            broken.append(NO_STORE)
            return ""
        except Refused as error:
            broken.append(f"store.json: {error}")
            return ""
        if self.site and site != self.site:
            broken.append(f"store.json: evidence of the site {site!r}, not of {self.site}")
        return store

    def _remembered(
        self,
        keys: Mapping[str, SSlibKey],
        memory: Memory | None,
        notices: list[str],
    ) -> tuple[Verified | None, str]:
        """What the gate verified earlier of this log, and the conditions of this reading."""
        if memory is None or self._torn or not self._data.endswith(b"\n"):
            return None, ""
        conditions = memory.conditions(
            site=self.site,
            store=self._id,
            keys={key_id: key.keyval["public"] for key_id, key in keys.items()},
            recorders=None if self.recorders is None else sorted(self.recorders),
        )
        known, why = memories.read(self.path, self._data, conditions, memory)
        if why:
            notices.append(f"{memories.FILE} does not hold and was not used, all lines were verified again: {why}")
        return known, conditions

    def _contents(
        self, lines: "_Lines", keys: Mapping[str, SSlibKey], broken: list[str], known: Verified | None = None
    ) -> tuple[list[Entry], list[Statement], Verified]:
        """Entries and statements of all lines; those of ``known`` lines are taken as they were verified."""
        found = [known] if known else []
        first_line_of = {payload: number for number, payload in enumerate(known.payloads if known else (), start=1)}
        bodies = list(known.parts if known else ())
        before, made = len(lines.known), memories.Made()

        def elsewhere(start: int, end: int) -> bytes | None:
            """In another process: a part of the lines without any fault, else None."""
            faults: list[str] = []
            part = self._part(lines, before + start, before + end, keys, faults, {})
            return None if faults else memories.dumped(part)

        with closing(parallel.each_part(lines.rest.sizes, elsewhere)) as parts:
            for (start, end), body in parts:
                part = memories.loaded(body, made) if body is not None else None
                if body is None or part is None or not first_line_of.keys().isdisjoint(part.payloads):
                    part = self._part(lines, before + start, before + end, keys, broken, first_line_of)
                    body = memories.dumped(part) if not broken and len(self._data) >= memories.LEAST_BYTES else b""
                first_line_of.update(zip(part.payloads, range(before + start + 1, before + end + 1), strict=False))
                found.append(part)
                bodies.append(body)
                if len(broken) > SHOWN_BROKEN:
                    break
        verified = memories.joined(found, len(self._data), bodies)
        payloads = verified.payloads  # one a line, where nothing is broken
        entries = [
            Entry(record, signers, line, mode, payloads[line - 1] if not broken else "")
            for record, mode, signers, line in verified.records
        ]
        return entries, [Statement(*one) for one in verified.statements], verified

    def _part(
        self,
        lines: "_Lines",
        start: int,
        end: int,
        keys: Mapping[str, SSlibKey],
        broken: list[str],
        first_line_of: dict[str, int],
    ) -> Verified:
        """What the lines from ``start`` up to ``end`` hold; ``first_line_of`` gives the line of each batch before them."""
        first_line_of = dict(first_line_of)
        records: list[tuple[Record, Mode, frozenset[str], int]] = []
        others: list[tuple[str, str, Mapping[str, Any], frozenset[str], int, str]] = []
        payloads: list[str] = []
        digests: list[str] = []
        previous = lines.digest(start)
        for number in range(start + 1, end + 1):
            if len(broken) > SHOWN_BROKEN:
                broken.append(f"line {number} and what follows it were not read")
                break
            line = lines.rest[number - 1 - len(lines.known)]
            opened = self._open_line(line, number, previous, keys, broken)
            previous = _digest(line)
            digests.append(previous)
            if opened is None:
                continue
            if opened.payload in first_line_of:
                broken.append(f"line {number}: repeats the batch of line {first_line_of[opened.payload]}")
                continue
            first_line_of[opened.payload] = number
            payloads.append(opened.payload)
            for index, statement in enumerate(opened.statements):
                try:
                    kind = strict.text(statement, "predicateType")
                    if kind == TEST_RESULT:
                        record, mode = from_statement(statement)
                        records.append((record, mode, opened.signers, number))
                    else:
                        name, digest = subject_of(statement)
                        others.append((kind, name, statement["predicate"], opened.signers, number, digest))
                except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
                    broken.append(f"line {number}, statement {index}: not a statement of ours ({error})")
        return Verified(records, others, digests, payloads, 0)

    def _open_line(
        self,
        line: bytes,
        number: int,
        previous: str,
        keys: Mapping[str, SSlibKey],
        broken: list[str],
    ) -> _Line | None:
        """The content of a line; None, and a word in ``broken``, if it cannot be read."""
        place = f"line {number}"
        try:
            outer = strict.loads(line)
            if isinstance(outer, dict) and set(outer) == {"envelope", "previous"}:
                raise Refused(ANOTHER_VERSION)
            strict.fields(outer, "envelope", "position")
            envelope = _envelope(outer["envelope"])
            position = _envelope(outer["position"])
            if position.payload_type != POSITION_TYPE:
                raise Refused(f"the position has the payload type {position.payload_type!r}")
            said = strict.loads(position.payload, limit=strict.MAX_SMALL)
            strict.fields(said, "schema_version", "site", "store", "plan", "line", "previous", "envelope")
            statements = statements_of(envelope)
        except (ValueError, KeyError, TypeError, AttributeError, SecuresystemslibError) as error:
            broken.append(f"{place}: cannot be read: {error}")
            return None
        recorded = _verified_signers(position, keys, f"{place}, position", broken)
        self._check_recorder(recorded, place, broken)
        if said["envelope"] != _digest(_json(outer["envelope"])):
            broken.append(f"{place}: its position was signed for another batch")
        self._check_position(said, number, previous, place, broken)
        for index, statement in enumerate(statements):
            self._check_place(statement, number, previous, f"{place}, statement {index}", broken)
        signers = _verified_signers(envelope, keys, place, broken)
        return _Line(_digest(envelope.payload), statements, signers)

    def _check_place(
        self, statement: Mapping[str, Any], number: int, previous: str, place: str, broken: list[str]
    ) -> None:
        said = statement["predicate"].get(PLACE)
        if not isinstance(said, dict) or not {"site", "store", "plan"} <= set(said):
            broken.append(f"{place}: does not say which log it belongs to")
            return
        self._check_position({"line": number, "previous": previous, **said}, number, previous, place, broken)

    def _check_position(
        self, said: Mapping[str, Any], number: int, previous: str, place: str, broken: list[str]
    ) -> None:
        if self.site and said["site"] != self.site:
            broken.append(f"{place}: is about the site {said['site']!r}, not {self.site}")
        if said["store"] != self._id:
            broken.append(f"{place}: belongs to the store {said['store']!r}, not {self._id!r}")
        if said["line"] != number:
            broken.append(f"{place}: was signed as line {said['line']!r} (a line was removed, added or moved)")
        if said["previous"] != previous:
            broken.append(f"{place}: does not follow the line before it (one was removed, changed or moved)")

    def _check_recorder(self, signers: frozenset[str], place: str, broken: list[str]) -> None:
        if self.recorders is not None and signers and not signers & self.recorders:
            broken.append(
                f"{place} is signed by {', '.join(sorted(signers))}, which the site file does not pin for the role recorder "
                "(attest.roles.recorder.keys; in a lab the key of credentials.evidence.key)"
            )

    def _check_raw(self, entries: Iterable[Entry], broken: list[str]) -> None:
        named: dict[str, str] = {}
        for entry in entries:
            record = entry.record
            if not record.raw_sha256 and not record.attachments:
                continue
            for digest in filter(None, (record.raw_sha256, *(a.sha256 for a in record.attachments))):
                named.setdefault(digest, f"{record.item} {record.subject}")
        changed = 0
        for digest, user in named.items():
            if changed >= MAX_CHANGED:
                broken.append("raw outputs that follow were not read: those above are too large")
                break
            try:
                found, size = strict.sha256_and_size(self.path, raw_path(digest))
            except FileNotFoundError as error:
                broken.append(f"{raw_path(digest)}: file of {user} cannot be read: {error.strerror}")
            except Refused as error:
                broken.append(f"{raw_path(digest)}: file of {user}: {error}")
            else:
                if found != digest:
                    changed += size
                    broken.append(f"{raw_path(digest)}: file of {user} has been changed")

    def _read(self, broken: list[str]) -> None:
        """Read the log: its complete lines, and the torn rest.

        A rest that is a whole line counts as one: taking the newline from a line that somebody wants to lose changes nothing.
        """
        self._data = self._torn = b""
        try:
            data = strict.read(self.path, "log.jsonl", most := min(strict.MAX_LOG, _memory_bytes() // OF_MEMORY))
        except FileNotFoundError:
            return
        except strict.TooLarge as error:
            here = f": 1/{OF_MEMORY} of the memory here; read the folder on a machine with more memory"
            broken.append(f"{error}{here if most < strict.MAX_LOG else ''}")
            return
        except Refused as error:
            broken.append(str(error))
            return
        end = data.rfind(b"\n") + 1
        if len(data) - end > strict.MAX_LINE:
            broken.append(f"log.jsonl ends in {len(data) - end} bytes, and no batch has more than {strict.MAX_LINE}")
            return
        if end < len(data):
            try:
                strict.loads(data[end:])
            except Refused:
                data, self._torn = data[:end], data[end:]
        self._data = data

    def _lines(self, broken: list[str], known: Verified | None = None) -> "_Lines":
        """The lines of the log that was read, without their newline; those that are ``known`` are not cut out again."""
        size, digests = (known.size, known.lines) if known else (0, ())
        if (count := len(digests) + self._data.count(b"\n", size)) > MAX_LINES:
            broken.append(f"log.jsonl has {count} lines, at most {MAX_LINES} are read")
            return _Lines((), _Cut(b""))
        return _Lines(digests, _Cut(self._data, size))

    def _all_lines(self, broken: list[str]) -> "_Lines":
        self._read(broken)
        return self._lines(broken)

    def _check_head(
        self, lines: "_Lines", keys: Mapping[str, SSlibKey], broken: list[str]
    ) -> tuple[int, frozenset[str]]:
        """How many lines the signed head covers, and who signed it."""
        try:
            data = strict.read(self.path, "head.json", strict.MAX_SMALL)
            if not data.endswith(b"\n"):
                raise Refused("head.json is not in the form in which it was written")
            envelope = _envelope(strict.loads(data[:-1]))
            if envelope.payload_type != HEAD_TYPE:
                raise Refused(f"it has the payload type {envelope.payload_type!r}")
            head = strict.loads(envelope.payload)
            strict.fields(head, "schema_version", "site", "store", "lines", "last", "time")
            count, last = strict.number(head, "lines"), strict.digest(head, "last")
        except FileNotFoundError:
            if lines.count:
                broken.append("head.json is missing, so a cut tail of log.jsonl could not be noticed")
            return 0, frozenset()
        except (ValueError, KeyError, TypeError, AttributeError, SecuresystemslibError) as error:
            broken.append(f"head.json cannot be read: {error}")
            return 0, frozenset()
        signers = _verified_signers(envelope, keys, "head.json", broken)
        self._check_recorder(signers, "head.json", broken)
        self._check_position({**head, "line": 0, "previous": ""}, 0, "", "head.json", broken)
        if count > lines.count:
            broken.append(
                f"log.jsonl has {lines.count} complete lines, but head.json was signed over {count}: tail cut"
            )
            return lines.count, signers
        if lines.digest(count) != last:
            broken.append(f"line {count} of log.jsonl is not the one that head.json was signed over")
        return count, signers

    def _keys(self, broken: list[str] | None = None) -> dict[str, SSlibKey]:
        keys: dict[str, SSlibKey] = {}
        names = sorted(path.name for path in (self.path / "keys").glob("*.pub"))
        if len(names) > MAX_KEYS:
            why = f"keys has {len(names)} files, at most {MAX_KEYS} are read; remove those that nobody signs with"
            if broken is None:
                raise IntegrityError(self.path, [why])
            broken.append(why)
            return {}
        for name in names:
            path = self.path / "keys" / name
            try:
                key = load_public(strict.read(self.path, f"keys/{name}", strict.MAX_SMALL).decode(), path)
                if file_name(key.keyid) != name:
                    raise SigningKeyError(f"{path}: holds the key {key.keyid}, which is not the one it is named after")
            except (SigningKeyError, ValueError, FileNotFoundError) as error:
                if broken is None:
                    raise IntegrityError(self.path, [str(error)]) from None
                broken.append(str(error))
                continue
            keys[key.keyid] = key
        return keys

    def _owners(self, broken: list[str] | None = None) -> dict[str, KeyOwner]:
        try:
            data = strict.read(self.path, "roles.json", strict.MAX_SMALL)
            keys = strict.loads(data.removesuffix(b"\n"))["keys"]
            return {key_id: KeyOwner(strict.text(o, "role"), strict.text(o, "owner")) for key_id, o in keys.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if broken is None:
                raise IntegrityError(self.path, [f"roles.json cannot be read: {error}"]) from None
            broken.append(f"roles.json cannot be read: {error}")
            return {}

    def _set_aside(self, torn: bytes, keep: int) -> None:
        name = f"torn-{_digest(torn)[:16]}"
        self._write_atomically(self.path / name, torn)
        with self._writing() as file:
            file.truncate(keep)
            os.fsync(file.fileno())
        log.warning("%s: set the %d bytes of an interrupted batch aside as %s", self._log, len(torn), name)

    def _write_head(self, lines: int, last: str, signer: CryptoSigner) -> None:
        place = self._place()
        head = {
            "schema_version": SCHEMA_VERSION,
            "site": place["site"],
            "store": place["store"],
            "lines": lines,
            "last": last,
            "time": datetime.now(UTC).isoformat(),
        }
        envelope = Envelope(_json(head), HEAD_TYPE, {})
        envelope.sign(signer)
        self._write_atomically(self._head, _json(envelope.to_dict()) + b"\n")

    def _write_atomically(self, path: Path, data: bytes) -> None:
        """Create or replace a file of the store, also where somebody has put a link or a pipe in its place."""
        for folder in path.parents:
            if folder == self.path:
                break
            if folder.is_symlink():
                raise IntegrityError(
                    self.path, [f"{folder.relative_to(self.path)} is a link; a store has folders of its own"]
                )
        write_file(path, data, durable=True, follow=False)
        _fsync_folder(path.parent)

    def _writing(self) -> BinaryIO:
        """The log, opened for adding to its end."""
        return os.fdopen(self._open_own("log.jsonl", os.O_APPEND), "ab")

    def _open_own(self, name: str, flags: int) -> int:
        """A file of the store, made where it is not there. IntegrityError for a link, pipe or device that stands in its place."""
        odd = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            found = os.open(self.path / name, os.O_RDWR | os.O_CREAT | odd | flags, 0o666)
        except OSError as error:
            raise IntegrityError(self.path, [f"{name} cannot be opened as a regular file: {error.strerror}"]) from None
        if not stat.S_ISREG(os.fstat(found).st_mode):
            os.close(found)
            raise IntegrityError(self.path, [f"{name} is no regular file"])
        return found

    def _wait_for(self, lock: int, how: int) -> None:
        end = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(lock, how | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    why = f"lock is held by another process for {LOCK_WAIT_S} s; end it (fuser names it), or try again later"
                    raise IntegrityError(self.path, [why]) from None
            time.sleep(0.02)

    @contextmanager
    def _locked(self, shared: bool = False) -> Iterator[None]:
        if shared and not os.access(self.path, os.W_OK):  # a read-only copy has no writer to wait for
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        lock = self._open_own("lock", 0)
        try:
            self._wait_for(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Python's garbage collector stands still: all records that are read stay in use, so its passes find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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


def statements_of(envelope: Envelope) -> list[Mapping[str, Any]]:
    """The statements in an envelope; ValueError for a payload type, a form or a statement type that is not one of ours."""
    found = strict.loads(envelope.payload)
    if envelope.payload_type == BATCH_TYPE:
        found = strict.fields(found, "schema_version", "statements")["statements"]
        if not isinstance(found, list) or len(found) < 2:
            raise Refused("a batch holds two statements or more")
    elif envelope.payload_type == STATEMENT_PAYLOAD_TYPE:
        found = [found]
    else:
        raise Refused(f"unknown payload type {envelope.payload_type!r}")
    for statement in found:
        strict.fields(statement, "_type", "subject", "predicateType", "predicate")
        if statement["_type"] != STATEMENT_TYPE:
            raise Refused(f"a statement has the type {statement['_type']!r}, not {STATEMENT_TYPE}")
        if not isinstance(statement["predicate"], dict):
            raise Refused("a predicate must be an object")
        subject_of(statement)
    return cast(list[Mapping[str, Any]], found)


def read_envelope(data: bytes) -> Envelope:
    """A DSSE envelope from a file, in its one form; ValueError for anything else."""
    return _envelope(strict.loads(data))


def _statements(envelope: Envelope, broken: list[str]) -> list[Mapping[str, Any]]:
    try:
        return statements_of(envelope)
    except ValueError as error:
        broken.append(f"the new batch: {error}")
        return []


def _placed(statement: Mapping[str, Any], place: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**statement, "predicate": {**statement["predicate"], PLACE: dict(place)}}


def _envelope(data: Any) -> Envelope:
    """A DSSE envelope of one form: base64 has spare bits, and readers overlook keys that they do not know."""
    strict.fields(data, "payload", "payloadType", "signatures")
    strict.unbase64(data, "payload")
    strict.text(data, "payloadType")
    if not isinstance(data["signatures"], list):
        raise Refused("signatures must be a list")
    for signature in data["signatures"]:
        strict.fields(signature, "keyid", "sig")
        strict.text(signature, "keyid")
        strict.unbase64(signature, "sig")
    envelope: Envelope = Envelope.from_dict({**data, "signatures": [dict(one) for one in data["signatures"]]})
    if envelope.to_dict() != data:
        raise Refused("the envelope is not in the form in which it was written")
    return envelope


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


_json = strict.canonical


def _memory_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _is_file(path: Path) -> bool:
    """Whether a regular file stands there, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _fsync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
