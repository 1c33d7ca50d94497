"""The evidence folder: whatever is changed in it without a key is found."""

import base64
import dataclasses
import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner

from tests.validation.bench import make_key
from validation.evidence import IntegrityError, Record, SigningKeyError, Store, begun, load_signer
from validation.evidence.keys import file_name, openssh_line_of, signer_from
from validation.evidence.record import to_statement
from validation.evidence.store import signed
from validation.evidence.strict import canonical

MakeRecord = Callable[..., Record]


@pytest.fixture
def full(store: Store, signer: CryptoSigner, record: MakeRecord) -> Store:
    """Three batches: one record, two records with raw output, one record."""
    store.append([record(subject="leaf01", raw=b"first")], signer)
    store.append([record(subject="leaf02", raw=b"second"), record(subject="leaf03", raw=b"first")], signer)
    store.append([record(subject="leaf04", raw=b"third")], signer)
    return store


def lines(store: Store) -> list[bytes]:
    return (store.path / "log.jsonl").read_bytes().splitlines()


def write_lines(store: Store, changed: list[bytes]) -> None:
    (store.path / "log.jsonl").write_bytes(b"".join(line + b"\n" for line in changed))


def broken(store: Store) -> str:
    with pytest.raises(IntegrityError) as caught:
        store.verify()
    return "\n".join(caught.value.broken)


def test_what_was_appended_is_read_back(full: Store, signer: CryptoSigner) -> None:
    found = full.verify()
    assert [(e.record.subject, e.line) for e in found.entries] == [
        ("leaf01", 1),
        ("leaf02", 2),
        ("leaf03", 2),
        ("leaf04", 3),
    ]
    assert all(entry.signers == {signer.public_key.keyid} for entry in found.entries)
    assert found.notices == ()
    assert full.raw(found.entries[0].record.raw_sha256) == b"first"


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert Store.open(tmp_path / "none").verify().entries == ()
    assert not (tmp_path / "none").exists()


def test_an_empty_batch_writes_nothing(store: Store, signer: CryptoSigner) -> None:
    store.append([], signer)
    assert not (store.path / "log.jsonl").exists()


def test_many_records_share_one_line(store: Store, signer: CryptoSigner, record: MakeRecord) -> None:
    store.append([record(subject=f"leaf{n:02}") for n in range(50)], signer)
    assert len(lines(store)) == 1
    assert len(store.verify().entries) == 50


def test_a_single_record_is_a_plain_in_toto_envelope(store: Store, signer: CryptoSigner, record: MakeRecord) -> None:
    store.append([record()], signer)
    envelope = json.loads(lines(store)[0])["envelope"]
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    assert json.loads(base64.b64decode(envelope["payload"]))["_type"] == "https://in-toto.io/Statement/v1"


def test_a_flipped_bit_anywhere_in_the_log_is_found(full: Store) -> None:
    data = (full.path / "log.jsonl").read_bytes()
    for position in range(0, len(data), 37):
        for bit in (0, 5):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            (full.path / "log.jsonl").write_bytes(flipped)
            assert broken(full), position


def test_a_flipped_bit_anywhere_in_the_head_is_found(full: Store) -> None:
    path = full.path / "head.json"
    data = path.read_bytes()
    for position in range(len(data) - 1):
        assert_found(full, path, data, position, position % 8)


@pytest.mark.soak
def test_every_flipped_bit_of_the_head_is_found(full: Store) -> None:
    path = full.path / "head.json"
    data = path.read_bytes()
    for position in range(len(data) - 1):
        for bit in range(8):
            assert_found(full, path, data, position, bit)


def assert_found(full: Store, path: Path, data: bytes, position: int, bit: int) -> None:
    flipped = bytearray(data)
    flipped[position] ^= 1 << bit
    path.write_bytes(flipped)
    assert broken(full), (position, bit)


@pytest.mark.parametrize("field", ["payloadType", "keyid", "sig"])
def test_a_changed_type_key_id_or_signature_is_found(full: Store, field: str) -> None:
    changed = lines(full)
    line = json.loads(changed[1])
    if field == "payloadType":
        line["envelope"]["payloadType"] = "application/vnd.in-toto+json"
    elif field == "keyid":
        line["envelope"]["signatures"][0]["keyid"] = "SHA256:" + "A" * 43
    else:
        other = json.loads(changed[0])["envelope"]["signatures"][0]["sig"]
        line["envelope"]["signatures"][0]["sig"] = other
    changed[1] = canonical(line)
    write_lines(full, changed)
    assert "line 2" in broken(full)


def test_a_removed_signature_is_found(full: Store) -> None:
    changed = lines(full)
    line = json.loads(changed[0])
    line["envelope"]["signatures"] = []
    changed[0] = canonical(line)
    write_lines(full, changed)
    assert "line 1: is not signed" in broken(full)


def test_a_deleted_line_is_found(full: Store) -> None:
    write_lines(full, [lines(full)[0], lines(full)[2]])
    assert "tail cut" in broken(full)


def test_reordered_lines_are_found(full: Store) -> None:
    first, second, third = lines(full)
    write_lines(full, [second, first, third])
    assert "line 1: does not follow the line before it" in broken(full)


def test_reordered_lines_with_mended_links_are_found(full: Store, record: MakeRecord) -> None:
    """Someone without a key can write any ``previous`` into the lines, but cannot sign a head over them."""
    _relink(full, [1, 0, 2])
    assert "line 3 of log.jsonl is not the one that head.json was signed over" in broken(full)


def test_a_repeated_line_is_found(full: Store) -> None:
    _relink(full, [0, 1, 2, 0])
    assert "line 4: repeats the batch of line 1" in broken(full)


def _relink(store: Store, order: list[int]) -> None:
    """Write the lines in another order, with the links of their positions mended; nobody can sign these anew."""
    old = lines(store)
    previous = hashlib.sha256(b"").hexdigest()
    new: list[bytes] = []
    for number, index in enumerate(order, start=1):
        line = json.loads(old[index])
        said = json.loads(base64.b64decode(line["position"]["payload"])) | {"previous": previous, "line": number}
        line["position"]["payload"] = base64.b64encode(canonical(said)).decode()
        new.append(canonical(line))
        previous = hashlib.sha256(new[-1]).hexdigest()
    write_lines(store, new)


def test_a_cut_tail_is_found(full: Store) -> None:
    write_lines(full, lines(full)[:2])
    assert "log.jsonl has 2 complete lines, but head.json was signed over 3" in broken(full)


def test_a_removed_log_is_found(full: Store) -> None:
    (full.path / "log.jsonl").unlink()
    assert "tail cut" in broken(full)


def test_a_removed_head_is_found(full: Store) -> None:
    (full.path / "head.json").unlink()
    assert "head.json is missing" in broken(full)


def test_an_older_head_of_the_same_log_hides_nothing(full: Store, signer: CryptoSigner, record: MakeRecord) -> None:
    old = (full.path / "head.json").read_bytes()
    full.append([record(subject="leaf05")], signer)
    (full.path / "head.json").write_bytes(old)
    found = full.verify()
    assert found.entries[-1].record.subject == "leaf05"
    assert found.notices == ("1 batch(es) were written but not yet covered by head.json",)


def test_a_line_signed_by_a_stranger_is_found(full: Store, record: MakeRecord) -> None:
    stranger = make_key()
    envelope = signed([to_statement(record(subject="leaf09"))], stranger)
    line = {"envelope": envelope.to_dict(), "position": json.loads(lines(full)[-1])["position"]}
    write_lines(full, [*lines(full), canonical(line)])
    assert "which is not on file" in broken(full)


@pytest.mark.parametrize("change", ["missing", "changed"])
def test_a_missing_or_changed_raw_file_is_found(full: Store, change: str) -> None:
    digest = full.verify().entries[0].record.raw_sha256
    path = full.path / "raw" / digest[:2] / digest
    if change == "missing":
        path.unlink()
        expected = f"raw/{digest[:2]}/{digest}: file of S062.measured leaf01 cannot be read: No such file or directory"
    else:
        path.write_bytes(b"better numbers")
        expected = f"raw/{digest[:2]}/{digest}: file of S062.measured leaf01 has been changed"
    assert broken(full) == expected


def test_all_broken_places_are_listed(full: Store) -> None:
    entries = full.verify().entries
    for entry in entries[1:]:
        digest = entry.record.raw_sha256
        (full.path / "raw" / digest[:2] / digest).write_bytes(b"x")
    assert len(broken(full).splitlines()) == 3


def test_a_key_file_with_another_key_is_found(full: Store, signer: CryptoSigner) -> None:
    path = full.path / "keys" / file_name(signer.public_key.keyid)
    path.write_text(openssh_line_of(make_key().public_key))
    assert "which is not the one it is named after" in broken(full)


def test_one_public_key_cannot_sign_twice_under_two_ids(full: Store, signer: CryptoSigner, record: MakeRecord) -> None:
    envelope = signed([to_statement(record())], signer)
    signature = envelope.signatures[signer.public_key.keyid]
    twin = "SHA256:" + "B" * 43
    (full.path / "keys" / file_name(twin)).write_text(openssh_line_of(signer.public_key))
    doubled = envelope.to_dict()
    doubled["signatures"].append({"keyid": twin, "sig": doubled["signatures"][0]["sig"]})
    assert signature.keyid != twin
    with pytest.raises(IntegrityError, match="not the one it is named after"):
        full.append_envelope(Envelope.from_dict(doubled), head_signer=signer)


def test_a_signer_that_is_not_on_file_is_refused(store: Store, record: MakeRecord) -> None:
    with pytest.raises(SigningKeyError, match="is not on file"):
        store.append([record()], make_key())


def test_a_broken_store_takes_no_more_records(full: Store, signer: CryptoSigner, record: MakeRecord) -> None:
    write_lines(full, lines(full)[:2])
    with pytest.raises(IntegrityError, match="tail cut"):
        full.append([record(subject="leaf05")], signer)


def test_a_key_keeps_its_role(store: Store, signer: CryptoSigner) -> None:
    store.enroll(signer, "lab", "lab")
    with pytest.raises(SigningKeyError, match="is on file with the role lab, not approver"):
        store.enroll(signer, "approver", "somebody")


def test_a_torn_last_line_is_said_and_nothing_else_is_lost(
    full: Store, signer: CryptoSigner, record: MakeRecord, caplog: pytest.LogCaptureFixture
) -> None:
    with (full.path / "log.jsonl").open("ab") as file:
        file.write(b'{"envelope":{"payl')
    found = full.verify()
    assert len(found.entries) == 4
    assert "ends in 18 bytes of a batch whose writing was interrupted" in found.notices[0]
    full.append([record(subject="leaf05")], signer)
    assert "set the 18 bytes of an interrupted batch aside as torn-" in caplog.text
    after = full.verify()
    assert [entry.record.subject for entry in after.entries][-1] == "leaf05"
    assert after.notices == ()
    assert [path.read_bytes() for path in full.path.glob("torn-*")] == [b'{"envelope":{"payl']


def _append_until_killed(path: Path, key: bytes, record: Record) -> None:
    store, signer = Store.open(path), load_signer(key)
    number = 0
    while True:
        number += 1
        store.append([dataclasses.replace(record, subject=f"leaf{number:05}", raw=str(number).encode())], signer)


@pytest.mark.parametrize("seconds", [0.05, 0.1, 0.17])
def test_a_killed_writer_leaves_a_sound_store(
    store: Store, signer: CryptoSigner, record: MakeRecord, seconds: float
) -> None:
    context = multiprocessing.get_context("fork")
    writer = context.Process(target=_append_until_killed, args=(store.path, signer.private_bytes, record()))
    writer.start()
    while not (store.path / "head.json").exists():
        assert writer.is_alive()
    writer.join(seconds)
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    before = store.verify().entries
    store.append([record(subject="after")], signer)
    found = store.verify()
    assert [e.record.subject for e in found.entries] == [*(e.record.subject for e in before), "after"]
    assert found.notices == ()


def _append_some(path: Path, key: bytes, records: list[Record]) -> None:
    for record in records:
        Store.open(path).append([record], load_signer(key))


def test_writers_at_the_same_time_lose_nothing(store: Store, signer: CryptoSigner, record: MakeRecord) -> None:
    context = multiprocessing.get_context("fork")
    batches = [[record(subject=f"leaf{w}{n:02}") for n in range(10)] for w in range(4)]
    writers = [
        context.Process(target=_append_some, args=(store.path, signer.private_bytes, batch)) for batch in batches
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    subjects = {entry.record.subject for entry in store.verify().entries}
    assert subjects == {record.subject for batch in batches for record in batch}


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.OpenSSH])
@pytest.mark.parametrize("passphrase", [None, b"correct horse"])
def test_a_key_loads_from_pem_and_openssh_text(form: PrivateFormat, passphrase: bytes | None) -> None:
    key = Ed25519PrivateKey.generate()
    encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    text = key.private_bytes(Encoding.PEM, form, encryption).decode().strip()
    assert load_signer(text, passphrase).public_key.keyval["public"] == key.public_key().public_bytes_raw().hex()


def test_a_key_of_another_kind_is_refused() -> None:
    text = generate_ec(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(SigningKeyError, match="signed with ed25519"):
        load_signer(text)


@pytest.mark.parametrize("text", ["", "no key", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(SigningKeyError, match="not a usable private key") as caught:
        load_signer(text or " ")
    assert "AAAA" not in str(caught.value)


def test_key_ids_are_the_fingerprints_that_ssh_keygen_prints(store: Store, signer: CryptoSigner) -> None:
    path = store.path / "keys" / file_name(signer.public_key.keyid)
    shown = subprocess.run(["ssh-keygen", "-lf", path], capture_output=True, text=True, timeout=10, check=True).stdout
    assert shown.split()[1] == signer.public_key.keyid


@pytest.mark.parametrize(
    ("mode", "signs"), [(0o600, True), (0o400, True), (0o640, False), (0o604, False), (0o777, False)]
)
def test_a_private_key_that_others_can_read_signs_nothing(
    tmp_path: Path, signer: CryptoSigner, mode: int, signs: bool
) -> None:
    path = tmp_path / "a key"
    path.write_bytes(signer.private_bytes)
    path.chmod(mode)
    if signs:
        assert signer_from("file:a key", tmp_path).public_key.keyid == signer.public_key.keyid
    else:
        with pytest.raises(SigningKeyError, match=rf"others can read .* \(mode {mode:04o}\)\. Fix: chmod 600 '"):
            signer_from("file:a key", tmp_path)


@pytest.mark.parametrize("subject", ["gpu001", 'a "b" \\ c', "Zürich\n", "", "\u2028"])
def test_the_digest_of_a_subject_is_that_of_its_json(subject: str) -> None:
    """Logs hold such digests: another way to make them may not give others."""
    told = json.dumps({"item": "S062.measured", "subject": subject}, sort_keys=True)
    assert begun.digest_of("S062.measured", subject) == hashlib.sha256(told.encode()).hexdigest()
