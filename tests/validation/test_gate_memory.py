"""What the gate remembers of a verified log: it saves time, and no byte of it changes what a full reading would find."""

import dataclasses
import json
import marshal
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner

from tests.validation.bench import identity, make_key
from validation import gate
from validation.evidence import IntegrityError, Record, Store, memory, parallel, strict
from validation.evidence.memory import FILE, Memory
from validation.evidence.store import Contents
from validation.program import part_of

MakeRecord = Callable[..., Record]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LEAST_BYTES", 1)


@pytest.fixture
def gates(signer: CryptoSigner) -> Memory:
    return Memory(signer, "program 1")


@pytest.fixture
def full(store: Store, signer: CryptoSigner, record: MakeRecord, gates: Memory) -> Store:
    """Three batches that the gate has verified."""
    store.append([record(subject="leaf01", raw=b"first", channels=(identity("leaf02", channel="ssh"),))], signer)
    store.append([record(subject=f"leaf0{n}", value={"a": [1, 2.5, None, "ä"]}) for n in (2, 3)], signer)
    store.append_statements(
        [
            {"_type": "https://in-toto.io/Statement/v1", "subject": [{"name": "x", "digest": {"sha256": "ab" * 32}}]}
            | {"predicateType": "urn:test", "predicate": {"said": ["b"]}}
        ],
        signer,
    )
    store.verify(gates)
    return store


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the lines that were really verified."""
    numbers: list[int] = []
    original = Store._open_line

    def spy(self: Store, line: bytes, number: int, *rest: Any, **more: Any) -> Any:
        numbers.append(number)
        return original(self, line, number, *rest, **more)

    monkeypatch.setattr(Store, "_open_line", spy)
    return numbers


def same(found: Contents, other: Contents) -> None:
    assert dataclasses.replace(found, notices=()) == dataclasses.replace(other, notices=())


def test_a_verified_log_is_not_verified_again(full: Store, gates: Memory, opened: list[int]) -> None:
    found = full.verify(gates)
    assert opened == []
    assert found == full.verify()
    assert found.entries[0].record.identities == full.verify().entries[0].record.identities


def test_only_later_lines_are_verified(
    full: Store, gates: Memory, signer: CryptoSigner, record: MakeRecord, opened: list[int]
) -> None:
    full.append([record(subject="leaf04", result="FAILED")], signer)
    opened.clear()
    assert [one.record.subject for one in full.verify(gates).entries][-1] == "leaf04"
    assert opened == [4]
    full.verify(gates)
    assert opened == [4]
    same(full.verify(gates), full.verify())


def test_a_reader_without_the_recorders_key_neither_writes_nor_uses_a_memory(full: Store, opened: list[int]) -> None:
    (full.path / FILE).unlink()
    full.verify()
    assert not (full.path / FILE).exists()
    assert opened == [1, 2, 3]


def test_a_changed_byte_of_a_remembered_line_breaks_the_log(full: Store, gates: Memory) -> None:
    log = full.path / "log.jsonl"
    data = log.read_bytes()
    for at in range(0, len(data), 211):
        log.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(IntegrityError):
            full.verify(gates)


def test_a_cut_log_is_broken_although_the_memory_covers_more(full: Store, gates: Memory) -> None:
    log = full.path / "log.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))
    with pytest.raises(IntegrityError, match="tail cut"):
        full.verify(gates)


def test_a_line_that_repeats_a_remembered_batch_is_broken(full: Store, gates: Memory) -> None:
    log = full.path / "log.jsonl"
    first = log.read_bytes().splitlines(keepends=True)[0]
    with log.open("ab") as file:
        file.write(first)
    with pytest.raises(IntegrityError):
        full.verify(gates)


def test_raw_files_of_remembered_lines_are_hashed_at_every_reading(full: Store, gates: Memory) -> None:
    raw = next(path for path in (full.path / "raw").rglob("*") if path.is_file())
    raw.write_bytes(b"first?")
    with pytest.raises(IntegrityError, match="has been changed"):
        full.verify(gates)


def test_a_changed_byte_of_the_memory_leads_to_the_full_reading(full: Store, gates: Memory, opened: list[int]) -> None:
    path = full.path / FILE
    data, whole = path.read_bytes(), full.verify()
    for at in range(0, len(data), 61):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        opened.clear()
        found = full.verify(gates)
        assert opened == [1, 2, 3], at
        assert any(FILE in notice for notice in found.notices), at
        same(found, whole)


@pytest.mark.parametrize("data", [b"", b"\n", b"{}\n", b"[1]\n", b"null", b'{"payload":1}\n' * 3, b"[" * 99 + b"\n"])
def test_a_file_that_is_no_memory_leads_to_the_full_reading(
    full: Store, gates: Memory, opened: list[int], data: bytes
) -> None:
    (full.path / FILE).write_bytes(data)
    full.verify(gates)
    assert opened == [1, 2, 3]


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_what_is_no_regular_file_is_no_memory(full: Store, gates: Memory, opened: list[int], kind: str) -> None:
    path = full.path / FILE
    if kind == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.rename(full.path / "elsewhere")
        path.symlink_to(full.path / "elsewhere")
    full.verify(gates)
    assert opened == [1, 2, 3]


def test_a_memory_signed_by_another_key_is_not_used(full: Store, gates: Memory, opened: list[int]) -> None:
    """Whoever may write the folder signs with a key of their own, whose public key lies in keys/."""
    other = make_key()
    full.enroll(other, "lab", "attacker")
    forged(full, other)
    full.verify(gates)
    assert opened == [1, 2, 3]


def forged(store: Store, signer: CryptoSigner) -> None:
    """The memory with no records in it, signed anew."""
    line, _, body = (store.path / FILE).read_bytes().partition(b"\n")
    parts = [marshal.loads(part) for part in marshal.loads(body)]
    body = marshal.dumps([marshal.dumps((tables, [], [], *hashes)) for tables, _, _, *hashes in parts])
    header = json.loads(Envelope.from_dict(json.loads(line)).payload) | {"body": memory._sha256(body)}
    envelope = Envelope(strict.canonical(header), memory.MEMORY_TYPE, {})
    envelope.sign(signer)
    (store.path / FILE).write_bytes(strict.canonical(envelope.to_dict()) + b"\n" + body)


def test_another_signed_statement_of_the_recorder_is_no_memory(full: Store, gates: Memory, opened: list[int]) -> None:
    """The head is signed by the same key, over another payload type."""
    (full.path / FILE).write_bytes((full.path / "head.json").read_bytes())
    full.verify(gates)
    assert opened == [1, 2, 3]


def test_another_program_verifies_again(full: Store, gates: Memory, opened: list[int]) -> None:
    full.verify(dataclasses.replace(gates, program="program 2"))
    assert opened == [1, 2, 3]


def test_other_keys_on_file_lead_to_the_full_reading(full: Store, gates: Memory, opened: list[int]) -> None:
    full.enroll(make_key(), "lab", "someone")
    full.verify(gates)
    assert opened == [1, 2, 3]


def test_a_key_taken_from_the_file_breaks_what_it_signed(full: Store, gates: Memory) -> None:
    for path in (full.path / "keys").glob("*.pub"):
        path.unlink()
    with pytest.raises(IntegrityError, match="not on file"):
        full.verify(gates)


def test_other_pinned_recorders_lead_to_the_full_reading(full: Store, gates: Memory) -> None:
    other = Store.open(full.path, recorders=frozenset({make_key().public_key.keyid}))
    with pytest.raises(IntegrityError, match="does not pin"):
        other.verify(gates)


def test_the_memory_of_another_store_is_not_used(
    full: Store, gates: Memory, tmp_path: Path, signer: CryptoSigner, record: MakeRecord, opened: list[int]
) -> None:
    other = Store.open(tmp_path / "other")
    other.enroll(signer, "lab", "test")
    other.append([record()], signer)
    (other.path / FILE).write_bytes((full.path / FILE).read_bytes())
    opened.clear()
    assert len(other.verify(gates).entries) == 1
    assert opened == [1]


def test_broken_evidence_is_not_remembered(full: Store, gates: Memory) -> None:
    (full.path / FILE).unlink()
    (full.path / "head.json").unlink()
    with pytest.raises(IntegrityError):
        full.verify(gates)
    assert not (full.path / FILE).exists()


def test_a_short_log_is_not_remembered(full: Store, gates: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    (full.path / FILE).unlink()
    monkeypatch.setattr(memory, "LEAST_BYTES", 1 << 30)
    full.verify(gates)
    assert not (full.path / FILE).exists()


def test_the_gates_program_is_the_reader_and_all_that_it_imports() -> None:
    files = part_of(gate.READER).files
    assert {
        "validation/evidence/record.py",
        "validation/evidence/markers.yaml",
        "validation/evidence/memory.py",
    } <= set(files)


@pytest.fixture
def in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes read lines of logs of any length, one line each."""
    monkeypatch.setattr(parallel, "PARALLEL_FROM", 1)
    monkeypatch.setattr(parallel, "PART_BYTES", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


@pytest.mark.usefixtures("in_processes")
def test_other_processes_read_the_same(full: Store, monkeypatch: pytest.MonkeyPatch, opened: list[int]) -> None:
    found = full.verify()
    assert opened == [], "this process read no line"
    monkeypatch.setattr(parallel, "PARALLEL_FROM", 1 << 30)
    assert found == full.verify()
    assert opened == [1, 2, 3]


@pytest.mark.usefixtures("in_processes")
def test_faults_that_other_processes_find_are_named_as_ever(full: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    log = full.path / "log.jsonl"
    lines = log.read_bytes().splitlines()
    outer = json.loads(lines[1])
    outer["envelope"]["signatures"][0]["sig"] = json.loads(lines[0])["envelope"]["signatures"][0]["sig"]
    lines[1] = strict.canonical(outer)
    for changed in (
        lines,
        [*lines[:1], *lines[2:]],
        [lines[1], lines[0], lines[2]],
        [*lines, lines[0]],
        [*lines, b"{}"],
    ):
        log.write_bytes(b"".join(line + b"\n" for line in changed))
        with pytest.raises(IntegrityError) as in_parallel:
            full.verify()
        monkeypatch.setattr(parallel, "PARALLEL_FROM", 1 << 30)
        with pytest.raises(IntegrityError) as in_one:
            full.verify()
        monkeypatch.setattr(parallel, "PARALLEL_FROM", 1)
        assert in_parallel.value.broken == in_one.value.broken


@pytest.mark.usefixtures("in_processes")
def test_a_process_that_the_system_ends_costs_no_line(full: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, parent, original = full.verify(), os.getpid(), Store._part

    def killed(self: Store, *given: Any) -> Any:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, *given)

    monkeypatch.setattr(Store, "_part", killed)
    assert full.verify() == expected


def test_a_memory_larger_than_any_of_this_log_is_not_read(
    full: Store, gates: Memory, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three GiB of a memory took three GiB of the gate's."""
    with (full.path / FILE).open("r+b") as file:
        file.truncate(3 << 30)
    read = strict.read
    limits = {}

    def spy(folder: Path, name: str, limit: int) -> bytes:
        limits[name] = limit
        return read(folder, name, limit)

    monkeypatch.setattr(strict, "read", spy)
    found = full.verify(gates)
    assert opened == [1, 2, 3]
    assert limits[FILE] < 2 << 20
    assert any("at most" in notice for notice in found.notices)
