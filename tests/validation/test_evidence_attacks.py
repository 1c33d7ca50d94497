"""Attacks on the evidence log: somebody may write every file of the folder and holds no key that the site file pins.

Each ends with exit status 1 or 2, without a traceback, and never leaves an older page that allows something.
"""

import base64
import contextlib
import dataclasses
import hashlib
import http.server
import json
import os
import random
import re
import shutil
import socket
import stat
import subprocess
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner

from inventory.site import Site
from tests.validation.bench import (
    FROZEN,
    MACS,
    NOW,
    SmallPlan,
    halves,
    identity,
    make_key,
    proven,
    simulated,
    statement_of,
)
from tests.validation.bench import judged as judge
from validation import countersignatures, freeze, gate
from validation.evidence import (
    Entry,
    IntegrityError,
    Record,
    SigningKeyError,
    Store,
    anchor,
    begun,
    seal,
    strict,
)
from validation.evidence import store as stores
from validation.evidence.keys import file_name, openssh_line_of
from validation.evidence.mode import PINNED
from validation.evidence.record import from_statement, raw_path, to_statement
from validation.evidence.store import HEAD_TYPE, POSITION_TYPE, Contents, KeyOwner, signed, statements_of
from validation.evidence.strict import canonical
from validation.evidence.trust import open_store, set_aside_another_labs
from validation.gate_report import render_page
from validation.register import Register
from validation.waive import WAIVER

MakeRecord = Callable[..., Record]


@dataclasses.dataclass
class Folder:
    """An evidence folder of a lab whose last record has failed, with the page of an earlier run that passed."""

    site: Site
    out: Path
    store: Store
    signer: CryptoSigner
    said: str = ""

    @property
    def evidence(self) -> Path:
        return self.out / "evidence"

    @property
    def lines(self) -> list[bytes]:
        return (self.evidence / "log.jsonl").read_bytes().splitlines()

    def write(self, lines: list[bytes]) -> None:
        (self.evidence / "log.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))

    def judge(self, **options: Any) -> int:
        """The exit status of a rehearsal; the pages of it are checked here for every attack."""
        said = StringIO()
        console = Console(file=said, width=400)
        status = gate.run(self.site, rehearsal=True, out=self.out, now=NOW, console=console, **options)
        self.said = said.getvalue()
        page = (self.out / "reports" / "rehearsal.html").read_text()
        data = json.loads((self.out / "reports" / "rehearsal.json").read_text())
        assert "AN OLDER GREEN PAGE" not in page
        assert data["exit_code"] == status
        if status == 2:
            assert "EVIDENCE BROKEN" in self.said
            assert data["broken"]
        return status

    def sign_head(self, key: CryptoSigner) -> None:
        """Sign a head over the log as it is now, with this key, which is put on file."""
        self.put_on_file(key)
        head = json.loads(base64.b64decode(json.loads((self.evidence / "head.json").read_bytes())["payload"]))
        lines = self.lines
        head |= {"lines": len(lines), "last": hashlib.sha256(lines[-1]).hexdigest()}
        envelope = Envelope(canonical(head), HEAD_TYPE, {})
        envelope.sign(key)
        (self.evidence / "head.json").write_bytes(canonical(envelope.to_dict()) + b"\n")

    def put_on_file(self, key: CryptoSigner) -> None:
        """Put a public key into keys/ and roles.json, as whoever can write the folder can."""
        name = file_name(key.public_key.keyid)
        (self.evidence / "keys" / name).write_text(openssh_line_of(key.public_key) + "\n")
        roles = json.loads((self.evidence / "roles.json").read_bytes())
        roles["keys"][key.public_key.keyid] = {"role": "lab", "owner": "me"}
        (self.evidence / "roles.json").write_bytes(canonical(roles) + b"\n")

    def relinked(self, lines: list[bytes], key: CryptoSigner) -> None:
        """Write these lines with positions that this key signs: number and link of each are right again."""
        previous = hashlib.sha256(b"").hexdigest()
        made = []
        for number, text in enumerate(lines, start=1):
            line = json.loads(text)
            said = json.loads(base64.b64decode(line["position"]["payload"])) | {"line": number, "previous": previous}
            said["envelope"] = hashlib.sha256(canonical(line["envelope"])).hexdigest()
            position = Envelope(canonical(said), POSITION_TYPE, {})
            position.sign(key)
            made.append(canonical(line | {"position": position.to_dict()}))
            previous = hashlib.sha256(made[-1]).hexdigest()
        self.put_on_file(key)
        self.write(made)


@pytest.fixture
def folder(
    keyed_lab: Site,
    tmp_path: Path,
    signer: CryptoSigner,
    record: MakeRecord,
    plan_of_lab: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Folder:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    out = tmp_path / "out"
    store = open_store(keyed_lab, out / "evidence", plan="ab" * 32)
    store.enroll(signer, "lab", "lab")
    store.append([record(subject="leaf01", raw=b"first")], signer)
    store.append([record(subject="leaf02", raw=b"second")], signer)
    store.append([record(subject="leaf01", result="FAILED", detail="swapped", raw=b"third")], signer)
    reports = out / "reports"
    reports.mkdir()
    (reports / "rehearsal.html").write_text("AN OLDER GREEN PAGE")
    (reports / "rehearsal.json").write_text('{"verdict": "REHEARSAL PASSED", "exit_code": 0}')
    return Folder(keyed_lab, out, store, signer)


@pytest.fixture
def plan_of_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge by a small plan: what is attacked here is the log."""
    monkeypatch.setattr(gate, "build", lambda site, **_: _Small(site))
    monkeypatch.setattr(gate, "asset_aliases", lambda *_: {})


class _Small(SmallPlan):
    gpus = None


def test_an_untouched_log_is_judged(folder: Folder) -> None:
    assert folder.judge() == 1
    assert "swapped" in folder.said
    assert "no anchor" in folder.said


# -- lines that are cut out, moved, relinked or brought along ----------------------------------------------------------


@pytest.mark.parametrize("order", [[0, 1], [0, 2], [1, 2], [2, 0, 1], [0, 2, 1], [0, 1, 2, 0]])
def test_lines_in_another_order_are_broken_even_with_a_head_of_the_attacker(folder: Folder, order: list[int]) -> None:
    old = folder.lines
    folder.write([old[index] for index in order])
    assert folder.judge() == 2
    folder.sign_head(make_key())
    assert folder.judge() == 2
    assert "does not pin for the role recorder" in folder.said


@pytest.mark.parametrize("order", [[0, 1], [1, 2], [2, 0, 1]])
def test_lines_that_the_attacker_links_and_signs_anew_are_broken(folder: Folder, order: list[int]) -> None:
    stranger, old = make_key(), folder.lines
    folder.relinked([old[index] for index in order], stranger)
    folder.sign_head(stranger)
    assert folder.judge() == 2
    assert "line 1 is signed by" in folder.said


def test_a_line_relinked_by_a_recorder_still_says_its_old_place(folder: Folder) -> None:
    """Number and link of the line before stand under the collector's signature as well."""
    old = folder.lines
    folder.relinked([old[0], old[2]], folder.signer)
    folder.sign_head(folder.signer)
    assert folder.judge() == 2
    assert "line 2, statement 0: was signed as line 3" in folder.said


def test_a_last_line_without_its_newline_still_counts(folder: Folder) -> None:
    log = folder.evidence / "log.jsonl"
    log.write_bytes(log.read_bytes()[:-1])
    assert folder.judge() == 1
    assert "swapped" in folder.said
    folder.sign_head(make_key())
    assert folder.judge() == 2


@pytest.mark.parametrize("cut", [2, 10, 500])
def test_a_shortened_last_line_is_broken(folder: Folder, cut: int) -> None:
    log = folder.evidence / "log.jsonl"
    log.write_bytes(log.read_bytes()[:-cut])
    assert folder.judge() == 2


def test_lines_of_another_site_are_broken(
    folder: Folder, tmp_path: Path, record: MakeRecord, signer: CryptoSigner
) -> None:
    """The same keys are pinned there: only the site's name under the signatures tells them apart."""
    other = folder.site.model_copy(update={"name": "other"})
    store = open_store(other, tmp_path / "other", plan="ab" * 32)
    store.enroll(signer, "lab", "lab")
    store.append([record(subject="leaf01")], signer)
    line = (tmp_path / "other" / "log.jsonl").read_bytes().splitlines()[0]
    folder.write([line, *folder.lines[1:]])
    assert folder.judge() == 2
    assert "is about the site 'other', not lab" in folder.said
    shutil.rmtree(folder.evidence)
    shutil.copytree(tmp_path / "other", folder.evidence)
    assert folder.judge() == 2
    assert "evidence of the site 'other', not of lab" in folder.said


def test_lines_of_another_store_of_the_same_site_are_broken(
    folder: Folder, tmp_path: Path, record: MakeRecord, signer: CryptoSigner
) -> None:
    store = open_store(folder.site, tmp_path / "other", plan="ab" * 32)
    store.enroll(signer, "lab", "lab")
    store.append([record(subject="leaf01")], signer)
    line = (tmp_path / "other" / "log.jsonl").read_bytes().splitlines()[0]
    folder.write([line, *folder.lines[1:]])
    assert folder.judge() == 2
    assert "belongs to the store" in folder.said


@pytest.mark.parametrize("name", ["head.json", "log.jsonl", "store.json", "keys"])
def test_a_part_that_was_removed_is_broken(folder: Folder, name: str) -> None:
    path = folder.evidence / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    assert folder.judge() == 2


# -- keys that the site file does not pin --------------------------------------------------------------------------------


def test_a_rehearsal_of_invented_records_is_broken(folder: Folder, record: MakeRecord) -> None:
    """Everything is signed a minute ago with a key of the attacker, who also puts it on file."""
    stranger = make_key()
    shutil.rmtree(folder.evidence)
    store = Store.open(folder.evidence, site="lab")
    store.enroll(stranger, "lab", "lab")
    store.append([record(subject="leaf01"), record(subject="leaf02")], stranger)
    assert folder.judge() == 2
    assert "does not pin for the role recorder" in folder.said


def test_a_key_that_is_not_pinned_is_refused_as_recorder(folder: Folder, record: MakeRecord) -> None:
    stranger = make_key()
    folder.put_on_file(stranger)
    with pytest.raises(SigningKeyError, match="may not record"):
        folder.store.append([record()], stranger)


def test_records_of_a_key_that_is_not_pinned_verify_nothing_in_a_rehearsal(folder: Folder, record: MakeRecord) -> None:
    stranger = make_key()
    folder.put_on_file(stranger)
    passed = signed(folder.store.placed([to_statement(record(subject="leaf01"))]), stranger)
    folder.store.append_envelope(passed, head_signer=folder.signer)
    assert folder.judge() == 1
    assert "swapped" in folder.said


def test_without_the_labs_key_nothing_is_verified(folder: Folder, lab_site: Site) -> None:
    folder.site = lab_site
    assert folder.judge() == 2


def test_the_evidence_of_an_earlier_lab_is_set_aside_only_when_its_key_is_gone(folder: Folder, lab_site: Site) -> None:
    assert set_aside_another_labs(folder.site, folder.evidence, NOW) is None
    aside = set_aside_another_labs(lab_site, folder.evidence, NOW)
    assert aside is not None
    assert (aside / "log.jsonl").exists()
    assert not folder.evidence.exists()


def test_the_recorder_may_be_another_key_than_the_collectors(
    real_site: Site, real_store: Store, signer: CryptoSigner, record: MakeRecord
) -> None:
    recorder = make_key()
    roles = dict(real_site.attest.roles)
    roles["recorder"] = roles["recorder"].model_copy(update={"keys": (recorder.public_key.keyid,)})
    site = real_site.model_copy(update={"attest": real_site.attest.model_copy(update={"roles": roles})})
    store = open_store(site, real_store.path, recorder=recorder)
    store.append([record()], signer)
    assert store.verify().head_signers == {recorder.public_key.keyid}
    alone = open_store(site, real_store.path)
    with pytest.raises(SigningKeyError, match="may not record"):
        alone.append([record()], signer)


# -- what is no regular file, or leaves the folder ------------------------------------------------------------------------


def _replace(path: Path, how: str, outside: Path) -> None:
    content = path.read_bytes() if path.is_file() else b""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    if how == "pipe":
        os.mkfifo(path)
    elif how == "link":
        outside.write_bytes(content)
        path.symlink_to(outside)
    elif how == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()


@pytest.mark.parametrize("how", ["pipe", "link", "device", "folder"])
@pytest.mark.parametrize("name", ["log.jsonl", "head.json", "store.json", "roles.json", "lock", "raw", "key"])
def test_what_is_no_regular_file_of_the_folder_is_refused(folder: Folder, name: str, how: str) -> None:
    if name == "raw":
        path = folder.evidence / raw_path(hashlib.sha256(b"first").hexdigest())
    elif name == "key":
        path = folder.evidence / "keys" / file_name(folder.signer.public_key.keyid)
    else:
        path = folder.evidence / name
    _replace(path, how, folder.out / "outside")
    assert folder.judge() == 2


@pytest.mark.parametrize("how", ["links", "holes"])
def test_raw_outputs_that_cost_no_disk_are_not_all_hashed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A thousand names of one file of 4 GiB, or as many files of holes, were 4,000 GiB to hash."""
    monkeypatch.setattr(stores, "MAX_CHANGED", 1 << 20)
    hashed: list[str] = []
    of = strict.sha256_and_size

    def counted(place: Path, name: str) -> tuple[str, int]:
        hashed.append(name)
        return of(place, name)

    monkeypatch.setattr(strict, "sha256_and_size", counted)
    large = folder.out / "large"
    for text in (b"first", b"second", b"third"):
        path = folder.evidence / raw_path(hashlib.sha256(text).hexdigest())
        if how == "holes" or not large.exists():
            path.write_bytes(b"")
            os.truncate(path, 2 << 20)
        if how == "links" and large.exists():
            path.unlink()
            path.hardlink_to(large)
        elif how == "links":
            large.hardlink_to(path)
    assert folder.judge() == 2
    assert len(hashed) == 1
    assert "raw outputs that follow were not read" in folder.said


def test_a_million_keys_are_not_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MAX_KEYS", 2)
    for number in range(2):
        (folder.evidence / "keys" / f"{number}.pub").write_text("x")
    assert folder.judge() == 2
    assert "keys has 3 files, at most 2 are read" in folder.said
    assert "holds the key" not in folder.said


def test_a_log_larger_than_the_memory_allows_is_refused_before_it_is_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_memory_bytes", lambda: 1 << 20)
    os.truncate(folder.evidence / "log.jsonl", 1 << 19)
    assert folder.judge() == 2
    assert (
        "log.jsonl has 524288 bytes, at most 262144 are read: 1/4 of the memory here; read the folder on a"
        in folder.said
    )


def test_a_log_without_lines_is_not_copied(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be no line is not read as one: a log of one hole took three times its size in memory."""
    monkeypatch.setattr(strict, "MAX_LINE", 1 << 20)
    os.truncate(folder.evidence / "log.jsonl", 64 << 20)
    tracemalloc.start()
    try:
        assert folder.judge() == 2
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 96 << 20


def test_a_folder_of_raw_outputs_that_is_a_link_is_refused(folder: Folder) -> None:
    (folder.evidence / "raw").rename(folder.out / "raw")
    (folder.evidence / "raw").symlink_to(folder.out / "raw")
    assert folder.judge() == 2


def test_a_folder_that_is_a_file_is_refused(folder: Folder) -> None:
    shutil.rmtree(folder.evidence)
    folder.evidence.write_text("")
    assert folder.judge() == 2


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "raw/../../x", "raw//x", "."])
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(strict.Refused):
        strict.read(tmp_path, name, 10)


# -- statements that are signed by a key that counts, and are none of ours -------------------------------------------------


MALFORMED_DATES: tuple[Any, ...] = (
    "yesterday",
    "2027-13-01T00:00:00+00:00",
    "2027-03-01T10:00:00",
    "0001-01-01T00:00:00+14:00",
    5,
    {},
)
OTHER_TYPES: tuple[Any, ...] = (None, 3, [[]], {"a": []})


def _changes() -> Iterator[tuple[str, Callable[[dict[str, Any]], None]]]:
    def ours(statement: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = statement["predicate"]["bringup_record"]
        return found

    yield "another type", lambda s: s.update(_type="https://in-toto.io/Statement/v0.1")
    yield "no subject", lambda s: s.update(subject=[])
    yield "two subjects", lambda s: s.update(subject=s["subject"] * 2)
    yield "no digest of the subject", lambda s: s["subject"][0].pop("digest")
    yield "digest of another asset", lambda s: s["subject"][0]["digest"].update(sha256="ab" * 32)
    yield "subject is a number", lambda s: s["subject"][0].update(name=3)
    yield "raw output elsewhere", lambda s: s["predicate"]["configuration"][-1].update(uri="../../etc/passwd")
    yield "raw output without digest", lambda s: s["predicate"]["configuration"][-1].pop("digest")
    yield "configuration is a text", lambda s: s["predicate"].update(configuration="x")
    yield "result of its own", lambda s: s["predicate"].update(result="GREAT")
    yield "predicate is a list", lambda s: s.update(predicate=[])
    yield "more than a statement has", lambda s: s.update(more=1)

    def replace(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
        return lambda s: ours(s).update({name: value})

    for name in ("started", "ended", "limit_frozen"):
        for date in MALFORMED_DATES:
            yield f"{name} {date}", replace(name, date)
    for name in ("detail", "tool", "unit", "host", "mode", "replayed", "identities", "aliases", "form"):
        for value in OTHER_TYPES:
            yield f"{name} {value}", replace(name, value)
    yield "half a character", lambda s: ours(s).update(detail="\ud800")


CHANGES = dict(_changes())
SOUND = {"form {'a': []}", "aliases {'a': []}"}  # a form may hold anything, and a device need have no alias


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in SOUND])
def test_a_statement_that_is_none_of_ours_is_broken(folder: Folder, record: MakeRecord, name: str) -> None:
    statement = json.loads(json.dumps(to_statement(record(subject="leaf02", raw=b"second"))))
    CHANGES[name](statement)
    _append_anyway(folder, [statement])
    with pytest.raises(IntegrityError):
        folder.store.verify()


def _append_anyway(folder: Folder, statements: list[dict[str, Any]], payload: bytes | None = None) -> None:
    """Append what the writer would refuse, signed with the collector's and recorder's key."""
    place = {"site": "lab", "store": folder.store.verify().store, "plan": "ab" * 32}
    for statement in statements:
        if isinstance(statement["predicate"], dict):
            statement["predicate"]["bringup_log"] = place
    envelope = signed(statements, folder.signer)
    if payload is not None:
        envelope = Envelope(payload, envelope.payload_type, {})
        envelope.sign(folder.signer)
    tip = folder.store._find_tip(folder.signer)
    folder.store._add(envelope, tip, folder.signer)


@pytest.mark.parametrize(
    "payload",
    [
        b"{" * 100_000,
        b"[" * 30 + b"]" * 30 + b" ",
        b'{"a":' * 60 + b"1" + b"}" * 60,
        b'{"_type":1,"_type":2}',
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'{"b":1,"a":2}',
        b'{"a": 1}',
        b'"\xff"',
        b"1" * 5000,
        b"null",
        b"",
    ],
)
def test_json_that_evidence_may_not_hold_is_broken(folder: Folder, record: MakeRecord, payload: bytes) -> None:
    _append_anyway(folder, [json.loads(json.dumps(to_statement(record())))], payload)
    assert folder.judge() == 2
    assert "line 4: cannot be read" in folder.said


def test_a_line_that_is_too_long_is_broken(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict.loads, "__kwdefaults__", {"limit": 1000})
    assert folder.judge() == 2
    assert "at most 1000 are read" in folder.said


@pytest.mark.parametrize("expires", ["soon", "2027-03-05T00:00:00", None, 5])
@pytest.mark.parametrize("kind", [WAIVER, begun.BEGUN])
def test_a_waiver_or_begun_check_with_a_malformed_date_is_broken(folder: Folder, expires: Any, kind: str) -> None:
    predicate = {
        "item": "S062.measured",
        "owner": "x",
        "reason": "y",
        "expires": expires,
        "state": "begun",
        "at": expires,
    }
    about = [{"name": "leaf01", "digest": {"sha256": begun.digest_of("S062.measured", "leaf01")}}]
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": about, "predicateType": kind}
    _append_anyway(folder, [{**statement, "predicate": predicate}])
    assert folder.judge() == 2
    assert "line 4: not a" in folder.said
    assert "digest" not in folder.said


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (begun.statement("S062.measured", "leaf01", "begun", NOW, "run"), "the digest of leaf02 is that of another"),
        (freeze.second(FROZEN, "Jane", NOW), "its digest or its site is that of another freeze"),
        (countersignatures.statement(b"x", "lab", "S091.attested", "", NOW, "PASSED"), "it needs a name"),
    ],
)
def test_a_statement_that_is_moved_to_another_subject_is_broken(
    folder: Folder, statement: Mapping[str, Any], why: str
) -> None:
    moved = [{"name": "leaf02", "digest": {"sha256": begun.digest_of("S062.measured", "leaf01")}}]
    _append_anyway(folder, [{**statement, "subject": moved}])
    assert folder.judge() == 2
    assert f"{why}" in " ".join(folder.said.split())
    assert "Traceback" not in folder.said


def test_changed_bytes_never_crash_the_reader(folder: Folder) -> None:
    """Random bytes flipped, cut, doubled and filled in, in every file that the reader opens."""
    draw = random.Random(13)
    files = [path for path in folder.evidence.rglob("*") if path.is_file() and path.name != "lock"]
    for _ in range(250):
        path = draw.choice(files)
        data = path.read_bytes()
        at, length = draw.randrange(len(data)), draw.randrange(1, 40)
        piece = draw.choice(
            [b"", draw.randbytes(length), b"[" * length, b'"', b"\n", b"\x00", b"null", data[at : at + length] * 2]
        )
        path.write_bytes(data[:at] + piece + data[at + length :])
        with contextlib.suppress(IntegrityError):
            folder.store.verify()
        path.write_bytes(data)


def test_changed_statements_never_crash_reader_or_judge(
    register: Register, real_site: Site, record: MakeRecord, signer: CryptoSigner
) -> None:
    """Statements of a collector who writes anything: each part in turn is another value, or missing."""
    key = frozenset({signer.public_key.keyid})
    owners = {signer.public_key.keyid: KeyOwner("collector", "c")}
    frozen = NOW - timedelta(days=1)
    sound = record(
        raw=b"x", value={"a": 1.5}, limit=3, limit_source="x", limit_frozen=frozen, form={"expiry": "2030-01-01"}
    )
    values: tuple[Any, ...] = (
        None,
        True,
        -1,
        10**40,
        1.5e300,
        "",
        "\x1b[2J",
        "<script>",
        [],
        [[]],
        {},
        {"a": {"b": []}},
    )
    draw = random.Random(13)
    read: list[Entry] = []
    for path in _paths(to_statement(sound)):
        for value in (_GONE, *draw.sample(values, 3)):
            statement = json.loads(json.dumps(to_statement(sound)))
            _put(statement, path, value)
            envelope = Envelope(canonical(statement), "application/vnd.in-toto+json", {})
            with contextlib.suppress(ValueError):
                made, mode = from_statement(statements_of(envelope)[0])
                read.append(Entry(made, key, len(read) + 1, mode))
    assert len(read) > 10
    plan = SmallPlan(real_site)
    for entry in read:
        one = dataclasses.replace(entry.record, step="S062", kind="measured", subject="leaf01")
        contents = Contents((dataclasses.replace(entry, record=one),), (), owners, recorders=key)
        verdict = judge(register, plan, contents, (), NOW)
        assert verdict.exit_code == 1
    whole = judge(register, plan, Contents(tuple(read), (), owners, recorders=key), (), NOW)
    assert "<script>" not in render_page(whole, register)


_GONE = object()


def _paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from _paths(value, (*path, key))


def _put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    if value is _GONE:
        del data[path[-1]]
    else:
        data[path[-1]] = value


# -- the page, and the verdict's file ------------------------------------------------------------------------------------


def test_the_page_is_replaced_before_anything_is_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "verify", crash)
    with pytest.raises(KeyboardInterrupt):
        folder.judge()
    assert "NOT JUDGED" in (folder.out / "reports" / "rehearsal.html").read_text()
    data = json.loads((folder.out / "reports" / "rehearsal.json").read_text())
    assert (data["verdict"], data["go_live"], data["exit_code"]) == ("NOT JUDGED", False, 2)


@pytest.mark.parametrize("how", ["pipe", "link", "device"])
@pytest.mark.parametrize("name", ["rehearsal.html", "rehearsal.json"])
def test_a_report_that_is_no_regular_file_is_replaced(folder: Folder, name: str, how: str) -> None:
    _replace(folder.out / "reports" / name, how, folder.out / "outside")
    assert folder.judge() == 1
    assert not (folder.out / "reports" / name).is_symlink()


@pytest.mark.parametrize("name", ["rehearsal.json", "rehearsal.html", "rehearsal.junit.xml", "rehearsal.seal.json"])
def test_an_edited_verdict_is_noticed(folder: Folder, name: str) -> None:
    quiet = Console(file=StringIO())
    assert folder.judge() == 1
    file = folder.out / "reports" / "rehearsal.json"
    assert gate.verify(folder.site, file, console=quiet) == 1
    path = folder.out / "reports" / name
    path.write_bytes(path.read_bytes().replace(b'"exit_code": 1', b'"exit_code": 0') + b"\n")
    assert gate.verify(folder.site, file, console=quiet) == 2
    path.unlink()
    assert gate.verify(folder.site, file, console=quiet) == 2


def test_the_file_for_a_ci_system_is_verified_by_its_own_name(folder: Folder) -> None:
    quiet = Console(file=StringIO())
    assert folder.judge() == 1
    file = folder.out / "reports" / "rehearsal.junit.xml"
    assert gate.verify(folder.site, file, console=quiet) == 1
    file.write_text(re.sub(r"<failure .*?/>", "", file.read_text()))
    assert gate.verify(folder.site, file, console=quiet) == 2


@pytest.mark.parametrize("name", ["rehearsal.htm", "rehearsal.pdf", "rehearsal", "rehearsal.html.txt"])
def test_a_file_beside_the_page_is_not_covered_by_its_seal(folder: Folder, name: str) -> None:
    assert folder.judge() == 1
    file = folder.out / "reports" / name
    file.write_text("GO-LIVE")
    said = StringIO()
    assert gate.verify(folder.site, file, console=Console(file=said, width=300)) == 2
    assert "is no verdict" in said.getvalue()


def test_a_verdict_that_a_stranger_seals_is_noticed(folder: Folder) -> None:
    assert folder.judge() == 1
    page = folder.out / "reports" / "rehearsal.html"
    seal.write(page, "lab", make_key(), {suffix: page.with_suffix(suffix).read_text() for suffix in seal.SEALED})
    said = StringIO()
    assert gate.verify(folder.site, page, console=Console(file=said, width=300)) == 2
    assert "does not pin for the role recorder" in said.getvalue()


def test_an_older_verdict_with_its_seal_is_noticed_by_the_anchor(
    folder: Folder, record: MakeRecord, tmp_path: Path
) -> None:
    """It was made by the gate and is unchanged: only the length of the log says that it is not the newest."""
    where, said = str(tmp_path / "anchor.json"), StringIO()
    verify = partial(gate.verify, folder.site, console=Console(file=said, width=300))
    file, older = folder.out / "reports" / "rehearsal.json", tmp_path / "older"
    assert folder.judge() == 1
    assert verify(file, anchor=where) == 2
    assert "there is no anchor" in said.getvalue()
    assert folder.judge(anchor=where) == 1
    assert verify(file, anchor=where) == 1
    assert "on 3 lines of the log" in said.getvalue()
    shutil.copytree(file.parent, older)
    folder.store.append([record(subject="leaf03", result="FAILED")], folder.signer)
    assert folder.judge(anchor=where) == 1
    assert verify(older / file.name) == 1
    assert verify(older / file.name, anchor=where) == 2
    assert "a verdict on 3 lines of the log, its anchor has 4" in said.getvalue()


# -- order, not clocks ---------------------------------------------------------------------------------------------------

ITEM = "S062.measured"
Decide = Callable[..., tuple[str, str]]


@pytest.fixture
def decide(
    register: Register, real_site: Site, signer: CryptoSigner, record: MakeRecord, people: dict[str, CryptoSigner]
) -> Decide:
    """What the gate says of leaf01 after these events, each on a line of its own: (result, mode, key counts) or a state. No
    group of steps stands before another: the order of groups has tests of its own."""

    free = {name: dataclasses.replace(group, after=()) for name, group in register.groups.items()}
    alone = dataclasses.replace(register, groups=free)
    approvers = [people[role].public_key.keyid for role in ("approver", "second approver")]

    def status(*events: Any, rehearsal: bool = False, clocks: bool = True) -> tuple[str, str]:
        key = frozenset({signer.public_key.keyid})
        entries, statements = [], []
        for line, event in enumerate(events, start=1):
            if isinstance(event, str):
                said = begun.statement(ITEM, "leaf01", event, NOW, "run")
                statements.append(statement_of(said, key, line))
                continue
            result, mode, counts = event
            then = NOW - timedelta(minutes=line if clocks else 100 - line)
            said_by = {
                "real": proven("leaf01", then),
                "replayed": proven("leaf01", then),
                "simulated": simulated("leaf01"),
                "read again": (identity("leaf01", serial=MACS["leaf01"], enrolled=PINNED), *proven("leaf01", then)),
            }.get(mode, ())
            one = record(
                result=result, identities=said_by, replayed=mode == "replayed", detail=f"line {line}", ended=then
            )
            entries.append(Entry(one, key if counts else frozenset({STRANGER}), line, one.mode))
        owners = {signer.public_key.keyid: KeyOwner("collector", "c"), STRANGER: KeyOwner("collector", "me")}
        owners |= {one: KeyOwner("approver", one) for one in approvers}
        statements += halves(FROZEN, *approvers)
        contents = Contents(tuple(entries), tuple(statements), owners, recorders=frozenset())
        verdict = judge(alone, SmallPlan(real_site), contents, (), NOW, rehearsal=rehearsal)
        item = next(item for item in verdict.items if item.item == ITEM)
        found = next(subject for subject in item.subjects if subject.subject == "leaf01")
        return found.status, found.detail

    return status


STRANGER = "SHA256:" + "S" * 43
PASS, FAIL = ("PASSED", "real", True), ("FAILED", "real", True)
READ_AGAIN = ("PASSED", "read again", True)
"""A pass whose record has also read the channel that carried the marker of `simulated`."""


@pytest.mark.parametrize("clocks", [True, False])
def test_the_order_of_the_log_decides_and_no_clock(decide: Decide, clocks: bool) -> None:
    assert decide(PASS, FAIL, clocks=clocks) == ("fail", "line 2")
    assert decide(FAIL, PASS, clocks=clocks) == ("pass", "line 2")


@pytest.mark.parametrize(
    "later",
    [("PASSED", "real", False), ("PASSED", "simulated", True), ("PASSED", "replayed", True), ("PASSED", "", True)],
)
def test_a_failure_that_counts_stays_until_a_pass_that_counts(decide: Decide, later: Any) -> None:
    assert decide(FAIL, later) == ("fail", "line 1")
    assert decide(FAIL, later, later, READ_AGAIN) == ("pass", "line 4")


@pytest.mark.parametrize(
    "later",
    [
        ("FAILED", "real", False),
        ("PASSED", "real", False),
        ("PASSED", "simulated", True),
        ("PASSED", "replayed", True),
        ("PASSED", "", True),
    ],
)
def test_what_does_not_count_never_replaces_what_counts(decide: Decide, later: Any) -> None:
    if later[1] == "simulated":  # it replaces nothing, and the device that says this is no longer the proven asset
        assert decide(PASS, later)[0] == "simulated"
        assert decide(PASS, later, PASS)[0] == "unproven", "the channel that had the marker was not read again"
        assert decide(PASS, later, READ_AGAIN) == ("pass", "line 3")
        return
    assert decide(PASS, later) == ("pass", "line 1")


def test_a_crash_without_identities_is_a_failure_that_counts(decide: Decide) -> None:
    assert decide(PASS, ("FAILED", "", True)) == ("fail", "line 2")


def test_where_nothing_counts_the_last_record_is_shown(decide: Decide) -> None:
    assert decide(("PASSED", "", True), ("PASSED", "simulated", True))[0] == "simulated"
    assert decide(("PASSED", "simulated", True), ("PASSED", "", True))[0] == "unproven"


@pytest.mark.parametrize("replayed", [("PASSED", "replayed", True)])
def test_a_recording_never_replaces_a_simulated_pass_in_a_rehearsal(decide: Decide, replayed: Any) -> None:
    assert decide(("PASSED", "simulated", True), replayed, rehearsal=True)[0] == "pass"


def test_what_has_begun_and_never_ended_is_failed(decide: Decide) -> None:
    status, detail = decide(PASS, "begun")
    assert status == "fail"
    assert "and never ended" in detail
    assert decide("begun", PASS) == ("pass", "line 2")
    assert decide(PASS, "begun", FAIL) == ("fail", "line 3")
    assert decide(PASS, "begun", "skipped") == ("pass", "line 1")


def test_a_killed_run_stays_failed_until_a_pass_that_counts(decide: Decide) -> None:
    assert decide(PASS, "begun", "begun", ("PASSED", "", True))[0] == "fail"
    assert decide(PASS, "begun", "begun", PASS) == ("pass", "line 4")


@pytest.mark.parametrize(("hours", "shown"), [(-3, "before a record above it"), (3, "lies in the future")])
def test_a_clock_that_runs_back_or_ahead_is_named(
    register: Register, real_site: Site, record: MakeRecord, hours: int, shown: str
) -> None:
    odd = record(subject="leaf02", started=NOW - timedelta(days=1), ended=NOW + timedelta(hours=hours))
    entries = tuple(Entry(one, frozenset(), line, one.mode) for line, one in enumerate((record(), odd), start=1))
    verdict = judge(register, SmallPlan(real_site), Contents(entries), (), NOW)
    assert [notice for notice in verdict.notices if shown in notice and "line 2: S062.measured leaf02" in notice]


# -- the anchor ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["file", "git", "url"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield str(tmp_path / "anchor.json")
    elif request.param == "git":
        subprocess.run(["git", "init", "-q", "--bare", tmp_path / "anchors.git"], check=True, timeout=20)
        yield f"git:{tmp_path / 'anchors.git'}"
    else:
        with _anchor_server() as address:
            yield address


@contextlib.contextmanager
def _anchor_server() -> Iterator[str]:
    """A server that keeps what is PUT there."""
    kept: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = kept.get(self.path)
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(found or b"")

        def do_PUT(self) -> None:
            kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/lab"
    finally:
        server.shutdown()
        server.server_close()


def test_an_older_copy_of_the_folder_is_noticed_by_its_anchor(folder: Folder, record: MakeRecord, where: str) -> None:
    shutil.copytree(folder.evidence, folder.out / "copy")
    folder.store.append([record(subject="leaf03", result="FAILED")], folder.signer)
    assert folder.judge(anchor=where) == 1
    assert "no anchor" not in folder.said
    assert folder.judge(anchor=where) == 1
    shutil.rmtree(folder.evidence)
    (folder.out / "copy").rename(folder.evidence)
    assert folder.judge() == 1  # the older copy is sound in itself
    assert folder.judge(anchor=where) == 2
    assert "the log has 3 lines, but its anchor 4" in folder.said


def test_a_log_that_goes_on_extends_its_anchor(folder: Folder, record: MakeRecord, where: str) -> None:
    assert folder.judge(anchor=where) == 1
    folder.store.append([record(subject="leaf03")], folder.signer)
    assert folder.judge(anchor=where) == 1
    assert anchor.place(where, "lab").read() == anchor.Anchor(
        "lab", folder.store.verify().store, 4, hashlib.sha256(folder.lines[-1]).hexdigest()
    )


def test_a_log_that_goes_on_while_it_is_judged_extends_its_anchor(
    folder: Folder, record: MakeRecord, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check appends and another gate moves the anchor on while a long log is read: honest evidence was broken then."""
    read = gate.read

    def slowly(site: Site, path: Path) -> Any:
        found = read(site, path)
        monkeypatch.setattr(gate, "read", read)
        folder.store.append([record(subject="leaf03")], folder.signer)
        assert folder.judge(anchor=where) == 1
        return found

    assert folder.judge(anchor=where) == 1
    monkeypatch.setattr(gate, "read", slowly)
    assert folder.judge(anchor=where) == 1
    now = anchor.place(where, "lab").read()
    assert now is not None
    assert now.lines == 4, "an anchor never goes back"


def test_the_verdict_says_that_its_anchor_is_new(folder: Folder, where: str) -> None:
    """One that is mistyped, or kept on a machine that is made anew, was taken for an anchor at each run."""
    assert folder.judge(anchor=where) == 1
    assert "the anchor was not there and was made now" in folder.said
    assert folder.judge(anchor=where) == 1
    assert "the anchor was not there" not in folder.said


def test_the_environment_names_no_other_anchor(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git prefers GIT_DIR to the folder that it is told: hooks and CI jobs set it, and so may who starts the gate."""
    for name in ("anchors", "other"):
        subprocess.run(["git", "init", "-q", "--bare", tmp_path / f"{name}.git"], check=True, timeout=20)
    where = f"git:{tmp_path / 'anchors.git'}"
    assert folder.judge(anchor=where) == 1
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other.git"))
    assert folder.judge(anchor=where) == 1
    assert "the anchor was not there" not in folder.said


def test_the_environment_puts_no_other_server_before_an_anchor(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment answered in its place: an older copy of the folder would have had its older anchor there."""
    with _anchor_server() as where, _anchor_server() as other:
        assert folder.judge(anchor=where) == 1
        monkeypatch.delenv("no_proxy", raising=False)
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, other)
        assert folder.judge(anchor=where) == 1
        assert "the anchor was not there" not in folder.said


@contextlib.contextmanager
def _raw_server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that reads one request of a connection and answers it by itself."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/lab"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"nothing of HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/hostname\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"{" * (2 << 20),
    ],
    ids=["nothing", "garbage", "a header without end", "a bad chunk", "a redirect to a file", "too much"],
)
def test_a_server_that_keeps_no_anchor_is_an_error(folder: Folder, said: bytes) -> None:
    with _raw_server(lambda connection: connection.sendall(said)) as where:
        assert folder.judge(anchor=where) == 2
    assert "anchor http://127.0.0.1" in folder.said


def test_a_server_that_sends_a_byte_at_a_time_is_given_up(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchor, "TIMEOUT_S", 0.5)
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not over.wait(0.1):
            connection.sendall(b" ")

    with _raw_server(drip) as where:
        assert folder.judge(anchor=where) == 2
        over.set()
    assert "no whole answer to GET within 0.5 s" in folder.said


@pytest.mark.parametrize(
    "where",
    [
        "http://",
        "http://me:hunter2@host/x",
        "http://host:port/x",
        "http://[::1/x",
        "https://hunter2@/x",
        "http://a b/x",
    ],
)
def test_an_address_that_is_none_is_an_error_and_shows_no_password(folder: Folder, where: str) -> None:
    assert folder.judge(anchor=where) == 2
    assert "hunter2" not in folder.said


def test_what_may_be_a_secret_of_an_address_is_not_shown(folder: Folder) -> None:
    with _raw_server(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n{}")) as where:
        assert folder.judge(anchor=f"{where}?token=hunter2") == 2
    assert where in folder.said
    assert "hunter2" not in folder.said


@pytest.mark.parametrize("name", ["anchor.json", "evidence/anchor.json", "git:evidence", "link/anchor.json"])
def test_an_anchor_in_the_folder_that_it_guards_is_refused(folder: Folder, name: str) -> None:
    (folder.out / "link").symlink_to(folder.out / "evidence")
    kind, _, path = name.rpartition(":")
    where = f"{kind}:{folder.out / path}" if kind else str(folder.out / path)
    assert folder.judge(anchor=where) == 2
    assert "which it guards" in folder.said


@pytest.mark.parametrize("kind", ["", "git:"])
def test_an_anchor_below_a_linked_evidence_folder_is_refused(folder: Folder, tmp_path: Path, kind: str) -> None:
    """Who may write the evidence, which lies on another disk, may write what lies beside the log."""
    folder.evidence.rename(tmp_path / "disk")
    folder.evidence.symlink_to(tmp_path / "disk")
    assert folder.judge(anchor=f"{kind}{tmp_path / 'disk' / 'anchor.json'}") == 2
    assert "which it guards" in folder.said


@pytest.mark.parametrize("lines", [0, 3])
def test_a_folder_that_was_begun_anew_is_noticed_by_its_anchor(
    folder: Folder, record: MakeRecord, tmp_path: Path, lines: int
) -> None:
    """Also by somebody who holds the recorder's key."""
    where = str(tmp_path / "anchor.json")
    assert folder.judge(anchor=where) == 1
    shutil.rmtree(folder.evidence)
    store = open_store(folder.site, folder.evidence, plan="ab" * 32)
    store.enroll(folder.signer, "lab", "lab")
    for number in range(lines):
        store.append([record(subject=f"leaf{number:02}")], folder.signer)
    assert folder.judge(anchor=where) == 2


@pytest.mark.parametrize(
    "content", ["", "{}", "x", '{"last":"a","lines":-1,"schema_version":1,"site":"lab","store":""}']
)
def test_an_anchor_that_is_none_is_an_error(folder: Folder, tmp_path: Path, content: str) -> None:
    (tmp_path / "anchor.json").write_text(content)
    assert folder.judge(anchor=str(tmp_path / "anchor.json")) == 2
    assert (tmp_path / "anchor.json").read_text() == content


@pytest.mark.parametrize("where", ["none/anchor.json", "git:none", "ftp://x/y", "http://127.0.0.1:1/x"])
def test_an_anchor_that_cannot_be_reached_is_an_error(folder: Folder, tmp_path: Path, where: str) -> None:
    assert folder.judge(anchor=where) == 2
    assert "anchor" in folder.said


def test_an_anchor_of_another_site_is_an_error(folder: Folder, tmp_path: Path) -> None:
    where = tmp_path / "anchor.json"
    where.write_bytes(anchor.Anchor("other", "x", 1, "ab" * 32).as_bytes())
    assert folder.judge(anchor=str(where)) == 2
    assert "of the site 'other'" in folder.said


@pytest.mark.parametrize("put", ["link", "dangling", "pipe"])
@pytest.mark.parametrize("place", ["torn", "raw", "key", "head"])
def test_what_stands_where_the_store_writes_is_replaced_and_never_followed(
    place: str, put: str, tmp_path: Path, store: Store, record: MakeRecord, signer: CryptoSigner
) -> None:
    """Whoever may write the folder gets no other file written, and no writer to wait."""
    store.append([record()], signer)
    victim, content = tmp_path / "victim", b"ssh-ed25519 AAAA attacker"
    if put == "link":
        victim.write_bytes(b"own")
    digest = hashlib.sha256(content).hexdigest()
    other = make_key()
    name = {
        "torn": f"torn-{digest[:16]}",
        "raw": raw_path(digest),
        "key": f"keys/{file_name(other.public_key.keyid)}",
        "head": "head.json",
    }[place]
    target = store.path / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if place == "head":
        target.unlink()
    if put == "pipe":
        os.mkfifo(target)
    else:
        target.symlink_to(victim)
    if place == "torn":
        with (store.path / "log.jsonl").open("ab") as log:
            log.write(content)
    with contextlib.suppress(IntegrityError):
        if place == "raw":
            assert store.keep(content) == digest
        elif place == "key":
            store.enroll(other, "collector", "somebody")
        else:
            store.append([record()], signer)
    if place in ("torn", "raw", "key"):
        assert stat.S_ISREG(target.lstat().st_mode)
    assert (victim.read_bytes() if victim.exists() else None) == (b"own" if put == "link" else None)


@pytest.mark.parametrize("put", ["link", "pipe"])
def test_a_log_that_is_swapped_before_a_line_is_added_is_not_written(
    put: str, tmp_path: Path, store: Store, record: MakeRecord, signer: CryptoSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read as a regular file, and opened once more."""
    store.append([record()], signer)
    log, victim = store.path / "log.jsonl", tmp_path / "victim"
    victim.write_bytes(b"own")
    find = Store._find_tip

    def swapped(self: Store, recorder: CryptoSigner) -> Any:
        tip = find(self, recorder)
        log.rename(tmp_path / "log")
        if put == "pipe":
            os.mkfifo(log)
        else:
            log.symlink_to(victim)
        return tip

    monkeypatch.setattr(Store, "_find_tip", swapped)
    with pytest.raises(IntegrityError, match=r"log\.jsonl (is no|cannot be opened as a) regular file"):
        store.append([record(subject="leaf02")], signer)
    assert victim.read_bytes() == b"own"
