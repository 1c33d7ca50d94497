"""Attacks on the gate by somebody who did not write it: files of the folder, and at most one signer's key.

The collector's key, an electrician's, or none; never the recorder's. What was tried before stands in test_evidence_attacks.py.
"""

import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from rich.console import Console
from securesystemslib.signer import CryptoSigner

from infra.cli import main
from inventory.site import Site
from inventory.site.sections.acceptance import AttestRole
from network.drivers.answers import Source
from network.drivers.errors import UnreadableAnswer
from tests.plans import plan_of
from tests.validation.bench import (
    ASSETS,
    CHECK_FILE,
    FROZEN,
    HOST_KEY,
    HOST_KEYS,
    KINDS,
    NOW,
    STORE,
    SmallPlan,
    answer,
    answered,
    countersigned,
    details,
    form_of,
    frozen,
    halves,
    judged,
    judged_alone,
    make_key,
    numbers,
    proven,
    public_of,
    signature,
    statement_of,
    whole_pings,
)
from tests.validation.test_burn_in import H100, LIMITS, PROGRAM, RANK, report
from validation import attest, freeze, gate
from validation.burn_in import problems
from validation.evidence import Entry, Identity, IntegrityError, Record, Store, begun, seal, strict
from validation.evidence import store as stores
from validation.evidence.channels import Ledger
from validation.evidence.mode import PINNED, declares_simulation
from validation.evidence.record import Attachment, to_statement
from validation.evidence.sshsig import MAX_SIGNATURE, pinned_keys, verifies
from validation.evidence.store import Contents, KeyOwner, Statement, signed
from validation.evidence.trust import open_store, trust_of
from validation.facts import node_facts
from validation.forms import rows
from validation.freeze import freezes_of
from validation.program import checked_items
from validation.register import Register, load_register
from validation.runners.burn_in import joined
from validation.training_story import SCHEMA_VERSION as STORY_VERSION
from validation.verdict import APPROVAL_ITEM, Verdict, approved, judge
from validation.waive import Report, Waiver, _statement, approvers, refusal

MakeRecord = Callable[..., Record]
ITEM = "S062.measured"


@pytest.fixture
def out(
    keyed_lab: Site, tmp_path: Path, signer: CryptoSigner, record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The output folder of a lab with one record in its log, judged by a small plan."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(gate, "build", lambda site, **_: _Small(site))
    monkeypatch.setattr(gate, "asset_aliases", lambda *_: {})
    store = open_store(keyed_lab, tmp_path / "out" / "evidence", plan="ab" * 32)
    store.enroll(signer, "lab", "lab")
    store.append([record(raw=b"first")], signer)
    return tmp_path / "out"


class _Small(SmallPlan):
    gpus = None


def _run(site: Site, out: Path) -> tuple[int, str]:
    said = StringIO()
    status = gate.run(site, rehearsal=True, out=out, now=NOW, console=Console(file=said, width=400))
    return status, said.getvalue()


# -- no key at all ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["head.json", "store.json", "roles.json", "log.jsonl"])
def test_a_text_that_never_ends_takes_no_longer_than_its_length(keyed_lab: Site, out: Path, name: str) -> None:
    """Each escaped quote was a new place to begin from: the time grew with the square of the length."""
    (out / "evidence" / name).write_bytes(b'"' + b'\\"' * 250_000)
    began = time.monotonic()
    assert _run(keyed_lab, out)[0] == 2
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("name", [b"\xff.pub", b"\x1b[2J.pub"])
def test_a_key_file_whose_name_is_no_text_is_broken(keyed_lab: Site, out: Path, name: bytes) -> None:
    Path(os.fsdecode(os.fsencode(out / "evidence" / "keys") + b"/" + name)).write_text("x")
    status, said = _run(keyed_lab, out)
    assert status == 2
    assert "\x1b[2J" not in said


def test_a_log_of_empty_lines_is_named_in_a_report_of_bounded_length(keyed_lab: Site, out: Path) -> None:
    with (out / "evidence" / "log.jsonl").open("ab") as file:
        file.write(b"\n" * 100_000)
    status, said = _run(keyed_lab, out)
    assert status == 2
    assert len(said) < 200_000
    assert (out / "reports" / "rehearsal.html").stat().st_size < 200_000


def test_what_no_writer_can_have_left_is_no_torn_line(keyed_lab: Site, out: Path) -> None:
    os.truncate(out / "evidence" / "log.jsonl", strict.MAX_LINE + (1 << 20))
    assert _run(keyed_lab, out)[0] == 2


def test_a_key_id_of_the_attacker_moves_no_cursor(keyed_lab: Site, out: Path) -> None:
    log = out / "evidence" / "log.jsonl"
    line = json.loads(log.read_bytes())
    line["envelope"]["signatures"][0]["keyid"] = "\x1b[2J\x1b[HGO-LIVE"
    log.write_bytes(strict.canonical(line) + b"\n")
    status, said = _run(keyed_lab, out)
    assert status == 2
    assert "\x1b" not in said


def test_a_lock_that_somebody_holds_is_not_waited_for_without_end(
    keyed_lab: Site, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "LOCK_WAIT_S", 0.2)
    with (out / "evidence" / "lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        status, said = _run(keyed_lab, out)
    assert status == 2
    assert "lock is held" in said


@pytest.mark.parametrize("name", ["rehearsal.html", "rehearsal.json", "rehearsal.seal.json"])
def test_a_folder_where_a_report_belongs_is_put_aside(keyed_lab: Site, out: Path, name: str) -> None:
    (out / "reports" / name / "deep").mkdir(parents=True)
    assert _run(keyed_lab, out)[0] == 1
    assert (out / "reports" / name).is_file()


def test_a_sealed_rehearsal_is_no_verdict_on_go_live(keyed_lab: Site, out: Path) -> None:
    assert _run(keyed_lab, out)[0] == 1
    reports, quiet = out / "reports", Console(file=StringIO())
    assert gate.verify(keyed_lab, reports / "rehearsal.json", console=quiet) == 1
    for suffix in ("html", "json", "junit.xml", "seal.json"):
        (reports / f"rehearsal.{suffix}").rename(reports / f"gate.{suffix}")
    assert gate.verify(keyed_lab, reports / "gate.json", console=quiet) == 2


@pytest.mark.parametrize("suffix", ["html", "json", "junit.xml"])
def test_a_report_that_is_swapped_before_it_is_sealed_is_noticed(
    keyed_lab: Site, out: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """The seal was made over what lay in the folder: whoever was quick had the recorder sign a page of their own."""
    reports, sealed = out / "reports", seal.write

    def swapped(*given: Any) -> None:
        (reports / f"rehearsal.{suffix}").write_text('{"verdict": "GO-LIVE", "exit_code": 0, "judged": "", "site": ""}')
        sealed(*given)

    monkeypatch.setattr(seal, "write", swapped)
    assert _run(keyed_lab, out)[0] == 1
    assert gate.verify(keyed_lab, reports / "rehearsal.json", console=Console(file=StringIO())) == 2


def test_a_verdict_that_is_swapped_while_it_is_verified_is_not_told(
    keyed_lab: Site, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read a second time after its hash was compared."""
    assert _run(keyed_lab, out)[0] == 1
    told, sha256_of = out / "reports" / "rehearsal.json", strict.sha256_of

    def swapped(*given: Any) -> str:
        found = sha256_of(*given)
        told.write_text('{"verdict": "GO-LIVE", "exit_code": 0, "judged": "", "site": ""}')
        return found

    monkeypatch.setattr(strict, "sha256_of", swapped)
    assert gate.verify(keyed_lab, told, console=Console(file=StringIO())) == 1


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_a_verdict_that_nobody_reads_to_its_end_is_no_go_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """`bringup gate --json | head -1` ended in status 0, whatever the verdict was."""

    class Gone(StringIO):
        def write(self, text: str) -> int:
            raise OSError(number, "gone")

    monkeypatch.setattr(sys, "stdout", Gone())
    assert main(["gate", "--site", "lab", "--json", "--out", str(tmp_path)]) == 2
    assert json.loads((tmp_path / "reports" / "gate.json").read_text())["verdict"] == "NO GO-LIVE"


@pytest.mark.parametrize("name", ["", "/", "..", "/dev/zero", "/dev/stdin/gate.html", "nowhere/gate.html"])
def test_what_cannot_be_a_verdict_is_none(keyed_lab: Site, name: str) -> None:
    assert gate.verify(keyed_lab, Path(name), console=Console(file=StringIO())) == 2


# -- roles.json, which nobody signs ----------------------------------------------------------------------------------------


@pytest.fixture
def two_collectors(real_site: Site, signer: CryptoSigner) -> tuple[Site, str, str]:
    """A site that pins two collectors, and their key ids."""
    first, second = signer.public_key.keyid, make_key().public_key.keyid
    roles = dict(real_site.attest.roles)
    roles["collector"] = AttestRole(title="collects evidence", keys=(first, second))
    return real_site.model_copy(update={"attest": real_site.attest.model_copy(update={"roles": roles})}), first, second


def _subject(verdict: Verdict, item: str = ITEM, subject: str = "leaf01") -> Any:
    return next(s for i in verdict.items if i.item == item for s in i.subjects if s.subject == subject)


@pytest.mark.parametrize("enrolled", ["collector", "lab", None])
def test_a_failure_stays_whatever_roles_json_says_of_its_key(
    register: Register, two_collectors: tuple[Site, str, str], record: MakeRecord, enrolled: str | None
) -> None:
    site, first, second = two_collectors
    passed = record(identities=proven("leaf01"))
    failed = record(identities=proven("leaf01"), result="FAILED", detail="swapped")
    owners = {first: KeyOwner("collector", "c")} | ({second: KeyOwner(enrolled, "d")} if enrolled else {})
    entries = (Entry(passed, frozenset({first}), 1, "real"), Entry(failed, frozenset({second}), 2, "real"))
    verdict = judge(register, SmallPlan(site), Contents(entries, (), owners, recorders=frozenset()), (), NOW)
    assert (_subject(verdict).status, _subject(verdict).detail) == ("fail", "swapped")
    said = begun.statement(ITEM, "leaf01", "begun", NOW, "run")
    started = statement_of(said, frozenset({second}), 2)
    contents = Contents(entries[:1], (started,), owners, recorders=frozenset())
    assert _subject(judge(register, SmallPlan(site), contents, (), NOW)).status == "fail"


# -- the collector's key ---------------------------------------------------------------------------------------------------


def _judged(register: Register, site: Site, record: Record, signer: CryptoSigner) -> Verdict:
    key = signer.public_key.keyid
    contents = Contents(
        (Entry(record, frozenset({key}), 1, record.mode),), (), {key: KeyOwner("collector", "c")}, recorders=frozenset()
    )
    return judge(register, SmallPlan(site), contents, (), NOW)


@pytest.mark.parametrize("digits", [301, 4000])
def test_a_number_beyond_all_floats_is_no_evidence(digits: int) -> None:
    """It overflowed where the gate says by how much a value is below its floor."""
    with pytest.raises(strict.Refused, match="digits"):
        strict.loads(b"-" + b"9" * digits)
    assert strict.loads(b"9" * 300) == int("9" * 300)


@pytest.mark.parametrize("result", ["PASSED", "FAILED"])
def test_a_detail_of_megabytes_does_not_fill_the_page(
    keyed_lab: Site, out: Path, signer: CryptoSigner, record: MakeRecord, result: str
) -> None:
    store = open_store(keyed_lab, out / "evidence", plan="ab" * 32)
    store.append([record(result=result, detail="x" * (8 << 20))], signer)
    assert _run(keyed_lab, out)[0] == 1
    assert (out / "reports" / "rehearsal.html").stat().st_size < 4 << 20


def test_a_form_of_a_hundred_thousand_wrong_readings_is_named_in_a_few_lines(
    register: Register, real_site: Site, record: MakeRecord, people: dict[str, CryptoSigner]
) -> None:
    item = register.items["S091.attested"]
    keys = frozenset(people[role].public_key.keyid for role in item.signers)
    form = form_of(item) | {"ohm_readings": [-float(n) - 1 for n in range(100_000)]}
    one = record(item.id, "lab", identities=(), inputs={}, form=form)
    owners = {people[role].public_key.keyid: KeyOwner(role, role) for role in item.signers}
    contents = Contents((Entry(one, keys, 1, "unproven"),), (), owners, recorders=frozenset())
    found = _subject(judge(register, SmallPlan(real_site), contents, (), NOW), item.id, "lab")
    assert found.status == "fail"
    assert "ohm_readings" in found.detail
    assert len(found.detail) < 5000


def test_a_device_named_by_thousands_of_digits_is_unproven(
    register: Register, real_site: Site, record: MakeRecord, signer: CryptoSigner
) -> None:
    one = record(identities=(Identity("9" * 5000, "ssh"), Identity("\u00b2", "ssh")))
    assert _subject(_judged(register, real_site, one, signer)).status == "unproven"


STORIES: tuple[dict[str, Any], ...] = (
    {},
    {"curves": 3},
    {"lanes": {"a": [["dark", 1e17, 1e17]]}, "curves": {"undisturbed": [[1e17, 1, 1]]}, "victim": "a"},
)


@pytest.mark.parametrize("story", STORIES)
def test_a_training_story_that_is_none_is_left_out(
    keyed_lab: Site,
    out: Path,
    signer: CryptoSigner,
    record: MakeRecord,
    register: Register,
    story: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = dataclasses.replace(plan_of("lab"), site=keyed_lab)
    monkeypatch.setattr(gate, "build", lambda site, **_: whole)
    subject = register.subjects(register.items[gate.STORY_ITEM], whole, lab=True)[0]
    store = open_store(keyed_lab, out / "evidence", plan="ab" * 32)
    said = details(register.items[gate.STORY_ITEM], subject, True, keyed_lab)
    said["value"] |= {"schema_version": STORY_VERSION, **story}
    said["inputs"] = {"site.limits": whole.hashes["site.limits"]}
    store.append([record(gate.STORY_ITEM, subject, **said)], signer)
    assert _run(keyed_lab, out)[0] == 1
    assert "cannot be shown" in (out / "reports" / "rehearsal.html").read_text()


def test_a_training_story_of_megabytes_does_not_fill_the_page(
    register: Register, real_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "render_page", lambda verdict, register, story=None: " ".join(verdict.notices))
    verdict = judge(register, SmallPlan(real_site), Contents(), (), NOW)
    assert gate._rendered(verdict, register, {"victim": "gpu001"})[1] == {"victim": "gpu001"}
    page, story = gate._rendered(verdict, register, {"victim": "x" * gate.MAX_STORY})
    assert story is None
    assert "the story of the training run cannot be shown" in page


# -- the key of an electrician ---------------------------------------------------------------------------------------------


def _left(store: Store, item: str, envelope: Any) -> Path:
    """The file of an attestation that waits for a countersignature."""
    path = store.path / attest.PENDING / f"{item}-{hashlib.sha256(envelope.payload).hexdigest()[:32]}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(strict.canonical(envelope.to_dict()))
    return path


@pytest.fixture
def pending(
    real_site: Site, real_store: Store, people: dict[str, CryptoSigner], register: Register, record: MakeRecord
) -> Callable[..., Path]:
    """Leave these statements behind as if they waited for a countersignature."""

    def leave(*statements: Any) -> Path:
        envelope = signed(real_store.placed(statements), people["electrician"])
        return _left(real_store, "S091.attested", envelope)

    return leave


def _grounding(register: Register, record: MakeRecord, **changes: Any) -> Record:
    form = form_of(register.items["S091.attested"]) | {"role": "electrician", "outcome": "passed"}
    return record("S091.attested", "site", **{"identities": (), "inputs": {}, "form": form, **changes})


def test_a_countersigner_signs_one_item_and_nothing_beside_it(
    register: Register,
    real_site: Site,
    real_store: Store,
    people: dict[str, CryptoSigner],
    record: MakeRecord,
    pending: Callable[..., Path],
) -> None:
    sound = to_statement(_grounding(register, record))
    waiver = Waiver("S062.applied", "*", "me", NOW + timedelta(days=300), "because")
    other = to_statement(dataclasses.replace(_grounding(register, record), step="S092"))
    hollow = json.loads(json.dumps(sound))
    hollow["predicate"]["bringup_record"]["started"] = "yesterday"
    form = _grounding(register, record).form
    lies = [
        to_statement(_grounding(register, record, form=dict(form) | {name: said}))
        for name, said in (("outcome", "failed"), ("role", "approver"), ("method", ""), ("calibration", None))
    ]
    for beside in (_statement(waiver, NOW), other, hollow, *lies):
        path = pending(sound, beside)
        with pytest.raises(attest.AttestError, match="not a pending attestation"):
            attest.countersign(register, real_site, path, people["safety-officer"], "S", real_store)
        assert not real_store.verify().entries


def test_a_pending_attestation_that_is_swapped_after_it_was_read_is_not_countersigned(
    register: Register,
    real_site: Site,
    real_store: Store,
    people: dict[str, CryptoSigner],
    record: MakeRecord,
    pending: Callable[..., Path],
) -> None:
    """The first signer put another form under the name that the second one had read, and was about to sign."""
    read = pending(to_statement(_grounding(register, record)))
    attest.pending_records(read)
    other = pending(to_statement(_grounding(register, record, detail="another")))
    read.write_bytes(other.read_bytes())
    with pytest.raises(attest.AttestError, match="its name is not that of its content"):
        attest.countersign(register, real_site, read, people["safety-officer"], "S", real_store)
    with pytest.raises(attest.AttestError, match="its name is not that of its content"):
        attest.pending_records(read)


def test_what_is_countersigned_is_what_was_shown(
    register: Register,
    real_site: Site,
    real_store: Store,
    people: dict[str, CryptoSigner],
    signer: CryptoSigner,
    record: MakeRecord,
    pending: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file was read once to show it, and once more to sign it."""
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(people["safety-officer"].private_bytes)
    monkeypatch.setattr(attest, "recorder_of", lambda site: signer)
    monkeypatch.setattr(attest, "open_store", lambda *_, **__: real_store)
    path = pending(to_statement(_grounding(register, record)))
    shown = attest.shown

    def swapped(seen: Any) -> list[str]:
        path.write_bytes(b"{}")
        return shown(seen)

    monkeypatch.setattr(attest, "shown", swapped)
    given: Any = (real_site, register, SmallPlan(real_site, hash="ab" * 32), real_store.path.parent)
    assert attest.run(*given, key=f"file:{key}", pending=path, name="S", console=Console(file=StringIO())) == 0
    assert [one.record.subject for one in real_store.verify().entries] == ["site"]


def test_a_form_is_signed_as_it_was_shown(
    register: Register,
    real_site: Site,
    real_store: Store,
    people: dict[str, CryptoSigner],
    signer: CryptoSigner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The form was read once to show it, and once more to sign it."""
    item = register.items["S005.attested"]
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(people[item.signers[0]].private_bytes)
    monkeypatch.setattr(attest, "recorder_of", lambda site: signer)
    monkeypatch.setattr(attest, "open_store", lambda *_, **__: real_store)
    plan, path = SmallPlan(real_site, hash="ab" * 32), tmp_path / "form.yaml"
    today = {name: str(date.today()) for name in ("date", "calibration")}
    said = form_of(item) | {"outcome": "failed", "role": item.signers[0], **today}
    path.write_text(json.dumps({**said, "item": item.id, "subjects": register.subjects(item, plan)[:1]}))
    shown = attest.shown

    def swapped(seen: Any) -> list[str]:
        path.write_text(path.read_text().replace('"failed"', '"passed"'))
        return shown(seen)

    monkeypatch.setattr(attest, "shown", swapped)
    given: Any = (real_site, register, plan, real_store.path.parent)
    assert attest.run(*given, key=f"file:{key}", form=path, console=Console(file=StringIO())) == 0
    assert [one.record.result for one in real_store.verify().entries] == ["FAILED"]


def test_an_attachment_that_is_gone_is_not_countersigned(
    register: Register,
    real_site: Site,
    real_store: Store,
    people: dict[str, CryptoSigner],
    record: MakeRecord,
    pending: Callable[..., Path],
) -> None:
    """It would break the log for ever: a line that names a missing file cannot be taken back."""
    named = (Attachment("report.pdf", "ab" * 32),)
    path = pending(to_statement(_grounding(register, record, attachments=named)))
    with pytest.raises((attest.AttestError, IntegrityError)):
        attest.countersign(register, real_site, path, people["safety-officer"], "S", real_store)
    assert not real_store.verify().entries


@pytest.mark.parametrize("expiry", [0, False, 0.0])
def test_an_expiry_that_is_no_date_never_lasts(
    register: Register, real_site: Site, record: MakeRecord, people: dict[str, CryptoSigner], expiry: Any
) -> None:
    item = next(i for i in register.items.values() if i.kind == "attested" and len(i.signers_on(real_site)) == 1)
    key = people[item.signers[0]].public_key.keyid
    subject = register.subjects(item, SmallPlan(real_site))[0]
    form = form_of(item) | {"expiry": expiry}
    inputs = rows(SmallPlan(real_site), subject)
    one = record(item.id, subject, identities=(), inputs=inputs, form=form)
    owners = {key: KeyOwner(item.signers[0], "e")}
    contents = Contents((Entry(one, frozenset({key}), 1, "unproven"),), (), owners, recorders=frozenset())
    assert _subject(judge(register, SmallPlan(real_site), contents, (), NOW), item.id, subject).status == "fail"


def test_an_approval_of_go_live_that_names_no_plan_is_stale(
    register: Register, real_site: Site, record: MakeRecord, people: dict[str, CryptoSigner]
) -> None:
    """Its first signer writes it, and the others would approve every plan to come."""
    item = register.items["S195.attested"]
    subject = register.subjects(item, SmallPlan(real_site))[0]
    keys = {role: people[role].public_key.keyid for role in item.signers}
    form = form_of(item)
    owners = {key: KeyOwner(role, role) for role, key in keys.items()}
    plan_alone = {"plan": SmallPlan(real_site).hash}
    for inputs, why in (({}, "which plan it approves"), (plan_alone, "which records it approves")):
        one = record(item.id, subject, identities=(), inputs=inputs, form=form)
        contents = Contents((Entry(one, frozenset(keys.values()), 1, "unproven"),), (), owners, recorders=frozenset())
        verdict = judge(register, SmallPlan(real_site), contents, (), NOW)
        found = next(i for i in verdict.items if i.item == item.id).subjects[0]
        assert (found.status, why in found.detail) == ("stale", True)


def test_a_pending_attestation_that_is_put_back_is_not_signed_twice(
    register: Register,
    real_site: Site,
    real_store: Store,
    people: dict[str, CryptoSigner],
    record: MakeRecord,
    pending: Callable[..., Path],
) -> None:
    """A repeated batch breaks the log for ever."""
    path = pending(to_statement(_grounding(register, record)))
    kept = path.read_bytes()
    attest.countersign(register, real_site, path, people["safety-officer"], "S", real_store)
    path.write_bytes(kept)
    with pytest.raises(IntegrityError, match="already"):
        attest.countersign(register, real_site, path, people["safety-officer"], "S", real_store)
    assert len(real_store.verify().entries) == 1


# -- roles.json again: freezes and channels --------------------------------------------------------------------------------


def _silenced(contents: Contents, key: str, how: str | None) -> Contents:
    """The contents after somebody has rewritten roles.json: the key is on file with another role, or not at all."""
    owners = {name: owner for name, owner in (contents.owners or {}).items() if name != key}
    return dataclasses.replace(contents, owners=owners | ({key: KeyOwner(how, "x")} if how else {}))


@pytest.mark.parametrize("how", ["lab", None])
def test_no_older_freeze_comes_back_when_roles_json_silences_an_approver(
    real_site: Site, people: dict[str, CryptoSigner], how: str | None
) -> None:
    """The records of a check that was corrected since would count again."""
    keys = [*(people[role].public_key.keyid for role in ("approver", "second approver")), make_key().public_key.keyid]
    site = _pinning(real_site, "approver", *keys)
    later = frozen(checks={CHECK_FILE: "cd" * 32})
    statements = (*halves(FROZEN, *keys[:2], line=1), *halves(later, *keys[1:], line=3))
    contents = _silenced(
        Contents(statements=statements, owners={k: KeyOwner("approver", k) for k in keys}), keys[2], how
    )
    current = freezes_of(contents, trust_of(site, contents)).current
    assert current is not None
    assert current.digest == later.digest


@pytest.mark.parametrize("how", ["lab", None])
@pytest.mark.parametrize(
    "against",
    [
        Identity("leaf01", "ssh", serial="SN-other", enrolled=PINNED),
        Identity("leaf01", "ssh", text="SIMULATED", enrolled=PINNED),
    ],
)
def test_what_speaks_against_a_device_stays_when_roles_json_silences_its_collector(
    register: Register,
    two_collectors: tuple[Site, str, str],
    record: MakeRecord,
    approver_keys: list[str],
    against: Identity,
    how: str | None,
) -> None:
    site, first, second = two_collectors
    shown = record("S052.applied", "leaf01", identities=proven("spine01"), channels=(against,))
    passed = record(identities=proven("leaf01"))
    owners = {key: KeyOwner("collector", key) for key in (first, second)}
    owners |= {key: KeyOwner("approver", key) for key in approver_keys}
    entries = (Entry(passed, frozenset({first}), 1, "unproven"), Entry(shown, frozenset({second}), 2, "unproven"))
    log = Contents(entries, halves(FROZEN, *approver_keys), owners, recorders=frozenset())
    contents = _silenced(log, second, how)
    alone = dataclasses.replace(log, entries=entries[:1])
    assert _subject(judged_alone(register, SmallPlan(site), alone, (), NOW)).status == "pass"
    assert _subject(judged_alone(register, SmallPlan(site), contents, (), NOW)).status == "unproven"


def _pinning(site: Site, role: str, *keys: str) -> Site:
    roles = dict(site.attest.roles) | {role: AttestRole(title=role, keys=keys)}
    return site.model_copy(update={"attest": site.attest.model_copy(update={"roles": roles})})


# -- who signs, and under which name ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Ja\u200bne", "\uff2aane", "Jane\u3164", "JANE\u00a0", "Jane\ufe0f", "J\u2060ane"])
def test_one_name_in_two_spellings_is_one_approver(real_site: Site, people: dict[str, CryptoSigner], name: str) -> None:
    keys = [people[role].public_key.keyid for role in ("approver", "second approver")]
    contents = Contents(
        statements=halves(FROZEN, *keys, names=("Jane", name)), owners={k: KeyOwner("approver", k) for k in keys}
    )
    assert freezes_of(contents, trust_of(real_site, contents)).current is None


def test_an_owner_whom_nobody_sees_is_no_second_approver(real_site: Site, people: dict[str, CryptoSigner]) -> None:
    keys = [people[role].public_key.keyid for role in ("approver", "second approver")]
    log = Contents(owners={key: KeyOwner("approver", key) for key in keys}, recorders=frozenset())
    end = NOW + timedelta(days=30)

    def approve(*owners: str) -> int:
        given = [Waiver(ITEM, "leaf01", who, end, "x", frozenset({key})) for who, key in zip(owners, keys, strict=True)]
        return approvers(given, trust_of(real_site, log), rehearsal=False)

    assert (approve("Jane", "Joe"), approve("Jane", "\u200b\u2800")) == (2, 1)


@pytest.mark.parametrize("text", ["SIM\u3164ULATED", "SI\u2800MULATED", "S\u20ddIMULATED", "SIMU\uffa0LATED"])
def test_a_marker_with_blank_letters_is_a_marker(text: str) -> None:
    assert declares_simulation(Identity("leaf01", "snmp", text))


def test_a_freeze_half_of_another_site_breaks_the_log(
    real_site: Site, real_store: Store, people: dict[str, CryptoSigner], signer: CryptoSigner
) -> None:
    """Its statement says another site than its place in the log; a line moved whole is refused by its position."""
    store = open_store(real_site, real_store.path, plan="ab" * 32, recorder=signer)
    said = freeze.statement(frozen("other"), "Jane", NOW)
    moved = json.loads(json.dumps(said))
    moved["subject"][0]["name"] = real_site.name
    store.append_statements([moved], people["approver"])
    assert gate.run(real_site, out=store.path.parent, now=NOW, console=Console(file=StringIO())) == 2


def test_a_second_half_about_other_content_freezes_nothing(real_site: Site, people: dict[str, CryptoSigner]) -> None:
    keys = [people[role].public_key.keyid for role in ("approver", "second approver")]
    first = halves(FROZEN, *keys)[0]
    second = halves(frozen(limits={"x": "cd" * 32}), *keys)[1]
    contents = Contents(statements=(first, second), owners={k: KeyOwner("approver", k) for k in keys})
    assert freezes_of(contents, trust_of(real_site, contents)).current is None


# -- what a check does not cover -------------------------------------------------------------------------------------------


@pytest.fixture
def partly(register: Register) -> Register:
    """The register with a check of ``ITEM`` that covers only a part."""
    part = dataclasses.replace(register.items[ITEM], partial="light levels")
    return dataclasses.replace(register, items={**register.items, ITEM: part})


def _accepted(*keys: str, subject: str = "*", report: Report | None = None, line: int = 0) -> list[Waiver]:
    end = NOW + timedelta(days=30)
    return [Waiver(ITEM, subject, key, end, "why", frozenset({key}), NOW, report, line) for key in keys]


@pytest.fixture
def approver_keys(people: dict[str, CryptoSigner]) -> list[str]:
    return [people[role].public_key.keyid for role in ("approver", "second approver")]


@pytest.fixture
def of_switches(
    partly: Register, real_site: Site, record: MakeRecord, signer: CryptoSigner, approver_keys: list[str]
) -> Callable[..., Any]:
    """The verdict on ``ITEM`` where all switches but those left out have passed."""

    def item(*waivers: Waiver, without: tuple[str, ...]) -> Any:
        names = [n for n in partly.subjects(partly.items[ITEM], SmallPlan(real_site)) if n not in without]
        key = signer.public_key.keyid
        entries = tuple(
            Entry(record(subject=name, identities=proven(name)), frozenset({key}), 2, "unproven") for name in names
        )
        owners = {key: KeyOwner("collector", "c")} | {one: KeyOwner("approver", one) for one in approver_keys}
        contents = Contents(entries, halves(FROZEN, *approver_keys), owners, recorders=frozenset())
        verdict = judged_alone(partly, SmallPlan(real_site), contents, waivers, NOW)
        return next(one for one in verdict.items if one.item == ITEM)

    return item


def test_a_report_does_not_stand_in_for_a_check_that_never_ran(
    of_switches: Callable[..., Any], approver_keys: list[str]
) -> None:
    """It closes the part that the check does not cover, and not the check."""
    report = Report("ab" * 32, "Fluke, serial 7", date(2027, 1, 5), 0.8, "ohm", "at most", 1.0)
    both = _accepted(*approver_keys, report=report)
    assert of_switches(*both, without=()).status == "external"
    found = of_switches(*both, without=("leaf01",))
    assert (found.status, found.subjects[0].subject) == ("missing", "leaf01")


def test_a_waiver_of_one_asset_hides_no_part_that_the_check_of_the_others_lacks(
    of_switches: Callable[..., Any], approver_keys: list[str]
) -> None:
    one = _accepted(approver_keys[0], subject="leaf01")
    assert of_switches(*one, without=("leaf01",)).status == "partial"
    assert of_switches(*_accepted(approver_keys[0]), without=("leaf01",)).status == "waived"


def test_every_item_that_is_marked_partial_has_a_check() -> None:
    assert not [item.id for item in load_register().items.values() if item.partial and item.id not in checked_items()]


@pytest.mark.parametrize("sha256", [hashlib.sha256(b"").hexdigest()])
def test_an_empty_report_closes_nothing(register: Register, sha256: str) -> None:
    report = Report(sha256, "Fluke, serial 7", date(2027, 1, 5), 0.8, "ohm", "at most", 1.0)
    given = dataclasses.replace(_accepted("k", report=report)[0], item="S153.measured")
    assert "empty file" in (refusal(register, given, NOW) or "")


@pytest.mark.parametrize(
    "change",
    [
        {"reading": 1e301},
        {"reading": True},
        {"reading": "0"},
        {"limit": None},
        {"bound": "about"},
        {"calibrated": "today"},
    ],
)
def test_a_report_whose_numbers_are_none_breaks_the_evidence(
    real_site: Site, real_store: Store, people: dict[str, CryptoSigner], signer: CryptoSigner, change: dict[str, Any]
) -> None:
    store = open_store(real_site, real_store.path, plan="ab" * 32, recorder=signer)
    report = Report(store.keep(b"r"), "Fluke", date(2027, 1, 5), 0.8, "ohm", "at most", 1.0)
    said = json.loads(json.dumps(_statement(_accepted("k", report=report)[0], NOW)))
    said["predicate"]["external_report"] |= change
    store.append_statements([said], people["approver"])
    assert gate.run(real_site, out=store.path.parent, now=NOW, console=Console(file=StringIO())) == 2


# -- approvals of go-live --------------------------------------------------------------------------------------------------

Approvals = Callable[..., str]


@pytest.fixture
def approvals(
    register: Register,
    real_site: Site,
    record: MakeRecord,
    people: dict[str, CryptoSigner],
    signer: CryptoSigner,
    approver_keys: list[str],
) -> Approvals:
    """What the gate says of approvals in line 5 over one record in line 2; what came later, and what the first signer wrote."""
    item = register.items[APPROVAL_ITEM]
    first, *others = (people[role].public_key.keyid for role in item.signers)
    keys = frozenset({first, *others})
    collector = frozenset({signer.public_key.keyid})
    owners = {people[role].public_key.keyid: KeyOwner(role, role) for role in item.signers}
    owners |= {key: KeyOwner("approver", key) for key in approver_keys}
    owners |= {key: KeyOwner("collector", "c") for key in collector}
    plan = SmallPlan(real_site)
    passed = Entry(record(identities=proven("leaf01")), collector, 2, "unproven")

    def of(
        *later: Entry | Statement,
        waivers: tuple[Waiver, ...] = (),
        bound_to: tuple[Waiver, ...] = (),
        line: int | None = None,
        stated: Callable[[Statement], Statement] = lambda said: said,
        **changes: Any,
    ) -> str:
        entries = (passed, *(one for one in later if isinstance(one, Entry)))
        statements = (*halves(FROZEN, *approver_keys), *(one for one in later if isinstance(one, Statement)))
        log = Contents(entries, statements, owners, recorders=frozenset(), store=STORE)
        then = dataclasses.replace(log, entries=(passed,), statements=halves(FROZEN, *approver_keys))
        said = approved(
            register, plan, then if line is None else log, bound_to, NOW, asset_ids=ASSETS, host_keys=HOST_KEYS
        )
        about = dict(said.configuration["approved"]) | ({} if line is None else {"line": line})
        one = record(
            item.id,
            register.subjects(item, plan)[0],
            identities=(),
            inputs=said.inputs,
            configuration={"approved": about},
            form=form_of(item) | {"expiry": "2099-01-01"},
            ended=changes.pop("ended", NOW),
        )
        last, stated_by = countersigned(Entry(one, keys, 5, "unproven"), *others, line=4)
        log = dataclasses.replace(log, entries=(*entries, last), statements=(*statements, *map(stated, stated_by)))
        found = next(
            i for i in judged(register, plan, log, waivers, changes.pop("now", NOW)).items if i.item == APPROVAL_ITEM
        )
        return f"{found.status}: {found.detail}"

    return of


def test_approvals_of_the_log_so_far_hold(approvals: Approvals) -> None:
    assert approvals().startswith("pass")


@pytest.mark.parametrize("how", ["all of them", "the first signer", "one of the others"])
def test_an_approval_of_go_live_is_stated_by_the_key_of_its_signer_alone(
    approvals: Approvals, register: Register, people: dict[str, CryptoSigner], how: str
) -> None:
    """A statement that several keys sign states for none of them, and one key under other names for itself alone."""
    keys = [people[role].public_key.keyid for role in register.items[APPROVAL_ITEM].signers]
    signers = frozenset({"all of them": keys, "the first signer": keys[:1], "one of the others": keys[1:2]}[how])
    found = approvals(stated=lambda said: dataclasses.replace(said, signers=signers))
    assert found.startswith("missing: lab: 4 people sign it")


@pytest.mark.parametrize("line", [5, 6, 10**9])
def test_approvals_of_lines_to_come_do_not_hold(
    approvals: Approvals, record: MakeRecord, signer: CryptoSigner, line: int
) -> None:
    """The first signer writes the line, and a failure before it would never be one after the approvals."""
    collector = frozenset({signer.public_key.keyid})
    failed = Entry(record(identities=proven("leaf01"), result="FAILED"), collector, 6, "unproven")
    again = Entry(record(identities=proven("leaf01"), detail="again"), collector, 7, "unproven")
    assert approvals(failed, again, line=line).startswith("stale: lab: it approves the log up to line")


def test_a_waiver_that_was_approved_before_it_was_signed_is_not_approved(
    approvals: Approvals, approver_keys: list[str]
) -> None:
    """The first signer can write down the digest of a waiver to come: all of it is known to whoever will sign it."""
    (waiver,) = _accepted(approver_keys[0])
    assert approvals(waivers=(dataclasses.replace(waiver, line=1),), bound_to=(waiver,)).startswith("pass")
    late = dataclasses.replace(waiver, line=7)
    assert f"by {waiver.owner} was not approved" in approvals(waivers=(late,), bound_to=(waiver,))


@pytest.mark.parametrize("again", [False, True])
def test_a_check_that_was_killed_after_the_approvals_has_failed(
    approvals: Approvals, record: MakeRecord, signer: CryptoSigner, again: bool
) -> None:
    collector = frozenset({signer.public_key.keyid})
    killed = statement_of(begun.statement(ITEM, "leaf01", "begun", NOW, "run"), collector, 6)
    second = dataclasses.replace(killed, line=7)
    passed = Entry(record(identities=proven("leaf01"), detail="again"), collector, 8, "unproven")
    assert approvals(second, passed).startswith("pass"), "one run that came to its end"
    events = (killed, second, passed) if again else (killed,)
    assert f"{ITEM} leaf01 failed after the approvals (line 6)" in approvals(*events)


def test_a_value_below_its_floor_after_the_approvals_is_a_failure(
    register: Register, approvals: Approvals, record: MakeRecord, signer: CryptoSigner
) -> None:
    item = next(i for i in register.items.values() if i.floor and i.floor.quantity == "duration_h")
    collector = frozenset({signer.public_key.keyid})
    low = record(item.id, "gpu001", identities=proven("gpu001"), started=NOW - timedelta(hours=2))
    whole = dataclasses.replace(low, started=NOW - timedelta(hours=100))
    later = (Entry(low, collector, 6, "unproven"), Entry(whole, collector, 7, "unproven"))
    assert f"{item.id} gpu001 failed after the approvals (line 6)" in approvals(*later)


def test_approvals_that_are_dated_ahead_are_not_countersigned(
    register: Register,
    real_site: Site,
    real_store: Store,
    people: dict[str, CryptoSigner],
    record: MakeRecord,
) -> None:
    """They would outlive attest.approval_days: only the first signer writes the date."""
    item = register.items[APPROVAL_ITEM]
    form = form_of(item) | {"role": item.signers[0], "outcome": "passed"}
    for ended, taken in ((NOW + timedelta(days=200), False), (NOW, True)):
        one = record(item.id, "site", identities=(), inputs={}, form=form, ended=ended)
        envelope = signed(real_store.placed([to_statement(one)]), people[item.signers[0]])
        path = _left(real_store, item.id, envelope)
        given = (register, real_site, path, people[item.signers[1]], "S", real_store, NOW)
        if taken:
            assert attest.countersign(*given).pending is not None
        else:
            with pytest.raises(attest.AttestError, match="later than now"):
                attest.countersign(*given)


def test_who_countersigns_go_live_sees_what_it_rests_on(record: MakeRecord) -> None:
    one = record(APPROVAL_ITEM, "site", identities=(), inputs={"approved.waiver S062.measured * ab": "ab" * 32})
    assert "  rests on approved.waiver S062.measured * ab abababababababab" in attest.shown([one])


# -- the ledger of channels ------------------------------------------------------------------------------------------------


def _ledger(*entries: Entry, **rest: Any) -> Ledger:
    return Ledger(
        entries,
        **{"kinds": KINDS, "identifiers": ASSETS, "host_keys": HOST_KEYS, "site": "lab", "store": STORE, **rest},
    )


def _line(record: MakeRecord, line: int, *identities: Identity, at: datetime = NOW) -> Entry:
    one = record(identities=(), channels=identities, started=at, ended=at)
    return Entry(one, frozenset(), line, one.mode)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (
            Identity("gpu001", "redfish", "SIMULATED", "SN-gpu001"),
            Identity("gpu001", "supply-lost", "outlet 3 off and on", "SN-gpu001", observer="pdu-r01-a"),
        ),
        (Identity("gpu001", "redfish", "", "SN-other"), Identity("gpu001", "ipmi", "", "SN-gpu001")),
        (
            Identity("gpu001", "os-release", "VARIANT_ID=simulated", enrolled=PINNED),
            Identity("gpu001", "dmi", "", "SN-gpu001", enrolled=PINNED),
        ),
    ],
)
def test_another_channel_of_a_group_takes_nothing_back(record: MakeRecord, first: Identity, later: Identity) -> None:
    """A challenge says nothing of what the device calls itself, and two ways to one source are two readings."""
    kept = _ledger(_line(record, 1, *proven("gpu001")), _line(record, 2, first), _line(record, 3, later))
    assert kept.doubt("gpu001", NOW) is not None
    read_again = dataclasses.replace(first, text="", serial="SN-gpu001")
    kept = _ledger(_line(record, 1, *proven("gpu001")), _line(record, 2, first), _line(record, 3, read_again))
    assert kept.doubt("gpu001", NOW) is None


def test_a_channel_that_says_two_things_in_one_line_is_a_doubt(record: MakeRecord) -> None:
    both = (Identity("gpu001", "redfish", "", "SN-other"), Identity("gpu001", "redfish", "", "SN-gpu001"))
    for order in (both, both[::-1]):
        assert _ledger(_line(record, 1, *proven("gpu001"), *order)).doubt("gpu001", NOW) is not None


@pytest.mark.parametrize("namespace", ["git", "file", "challenge@bringup2", ""])
def test_a_signature_for_another_purpose_answers_no_challenge(record: MakeRecord, namespace: str) -> None:
    redfish, signed_, seen = proven("gpu001")
    other = dataclasses.replace(signed_, signature=signature(signed_.message, namespace=namespace))
    assert _ledger(_line(record, 1, redfish, other, seen)).doubt("gpu001", NOW) is not None


@pytest.mark.parametrize(
    "made",
    [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2027-03-01T11:00:00",
        "2027-W09-1",
        "\u0662\u0660\u0662\u0667-03-01T11:00:00+00:00",
    ],
)
def test_a_challenge_with_an_odd_date_is_none(record: MakeRecord, made: str) -> None:
    redfish, signed_, seen = proven("gpu001")
    message = f"bringup challenge 1\nsite lab\ndevice gpu001\nat {made}\nnonce {'ab' * 32}\n"
    odd = dataclasses.replace(signed_, message=message, signature=signature(message))
    assert _ledger(_line(record, 1, redfish, odd, seen)).doubt("gpu001", NOW) is not None


def test_one_nonce_serves_one_device(record: MakeRecord) -> None:
    """Who holds one node's key answers for that node: the message names it, and the gate knows each node's key."""
    redfish, signed_, seen = proven("gpu002")
    stolen = Ed25519PrivateKey.generate()
    keys = {**HOST_KEYS, "gpu001": frozenset({public_of(stolen)})}
    forged = dataclasses.replace(signed_, signature=signature(signed_.message, stolen))
    assert _ledger(_line(record, 1, redfish, forged, seen), host_keys=keys).doubt("gpu002", NOW) is not None
    for_other = dataclasses.replace(answered("gpu001"), device="gpu002", serial=signed_.serial)
    assert _ledger(_line(record, 1, redfish, for_other, seen)).doubt("gpu002", NOW) is not None


def test_signatures_of_blanks_take_no_longer_than_their_length() -> None:
    began = time.process_time()
    for end in ("", "!", "-----END SSH SIGNATURE-----!"):
        text = "-----BEGIN SSH SIGNATURE-----" + " " * (MAX_SIGNATURE - 60) + end
        for _ in range(100):
            assert not verifies(text, "m", "n", HOST_KEYS["gpu001"])
    assert time.process_time() - began < 3


def test_many_readings_of_one_device_are_judged_in_time(record: MakeRecord) -> None:
    """The time grew with the square of the readings: those of other weeks were walked through for each record."""
    count = 40_000
    said = Identity("gpu001", "redfish", "", "SN-gpu001")
    old, new = NOW - timedelta(days=60), NOW
    entries = [_line(record, line, said, at=old if line <= count // 2 else new) for line in range(1, count)]
    kept = _ledger(*entries)
    began = time.process_time()
    for entry in entries:
        kept.doubt("gpu001", entry.record.ended)
    assert time.process_time() - began < 10


def test_thousands_of_identities_in_a_record_are_judged_in_time(
    register: Register, real_site: Site, record: MakeRecord, signer: CryptoSigner
) -> None:
    many = tuple(Identity(f"gpu001:port{n}", "redfish", f"x{n}", f"SN-{n}") for n in range(20_000))
    began = time.monotonic()
    one = record(identities=(*proven("leaf01"), *many))
    assert _subject(_judged(register, real_site, one, signer)).status == "unproven"
    assert time.monotonic() - began < 20


def test_channels_of_one_session_prove_nothing_by_themselves(record: MakeRecord) -> None:
    """Who has a server's host key answers its challenge, and says what its GPUs and adapters are."""
    guid, uuid = "0123456789abcdef", f"gpu-{'0' * 36}"
    own = (
        answered("gpu001"),
        Identity("gpu001", "guid", serial=guid, enrolled=PINNED),
        Identity("gpu001", "nvml", serial=uuid, enrolled=PINNED),
    )
    listed = ASSETS | {"gpu001": (*ASSETS["gpu001"], guid, uuid)}
    doubt = _ledger(_line(record, 1, *own), identifiers=listed).doubt("gpu001", NOW)
    assert "all channels of gpu001 were read over its own session" in (doubt or "")
    assert "one has to be the management controller or neighbour" in (doubt or "")
    for outside in (
        Identity("gpu001", "redfish", serial="SN-gpu001"),
        Identity("gpu001", "lldp", serial=ASSETS["gpu001"][1], observer="leaf01", enrolled=PINNED),
    ):
        assert _ledger(_line(record, 1, *own[:2], outside), identifiers=listed).doubt("gpu001", NOW) is None


@pytest.mark.parametrize(
    ("channel", "device", "observer"),
    [
        ("outlet-cut", "pdu-r01-a", "pdu-r01-b"),
        ("outlet-cut", "pdu-r01-a", "leaf01"),
        ("port-shut", "leaf01", "pdu-r01-a"),
    ],
)
def test_a_device_that_cannot_see_a_change_saw_none(
    record: MakeRecord, channel: str, device: str, observer: str
) -> None:
    serial = ASSETS[device][channel == "port-shut"]
    others = [one for one in proven(device) if one.channel not in ("outlet-cut", "ssh-signature")]
    keys = HOST_KEYS

    def doubt(by: str) -> str | None:
        seen = Identity(device, channel, serial=serial, observer=by, enrolled=PINNED)
        return _ledger(_line(record, 1, *others, seen), host_keys=keys).doubt(device, NOW)

    assert doubt("gpu001") is None
    assert doubt(observer) is not None


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0f73", "\uff9e\uff9f\u302e"])
def test_thousands_of_accents_on_one_letter_take_no_longer_than_their_length(marks: str) -> None:
    """Unicode puts them in an order: 300 kB of os-release held up the gate for hours."""
    text = "x" + marks * 100_000 + "\nVARIANT_ID=s" + marks * 20 + "imul\u00e1te\u0301d"
    began = time.process_time()
    assert declares_simulation(Identity("leaf01", "os-release", text))
    assert time.process_time() - began < 10


def test_one_approver_under_thousands_of_names_is_one_and_is_judged_in_time(
    real_site: Site, people: dict[str, CryptoSigner]
) -> None:
    """Each signature was compared with all pairs of the earlier ones."""
    one, other = (people[role].public_key.keyid for role in ("approver", "second approver"))
    first, second = halves(FROZEN, one, other, line=1)
    names = [
        dataclasses.replace(second, predicate={**second.predicate, "name": f"J{n}"}, signers=frozenset({one}), line=2)
        for n in range(20_000)
    ]
    began = time.process_time()
    alone = Contents(statements=(first, *names), owners={})
    assert freezes_of(alone, trust_of(real_site, alone)).current is None
    both = Contents(statements=(first, *names, dataclasses.replace(second, line=3)), owners={})
    assert freezes_of(both, trust_of(real_site, both)).by[-1][0] == "Joe"
    assert time.process_time() - began < 20


def test_thousands_of_waivers_of_one_approver_are_judged_in_time(
    register: Register, real_site: Site, people: dict[str, CryptoSigner]
) -> None:
    """Each open subject was compared with each of them."""
    key = frozenset({people["approver"].public_key.keyid})
    end = NOW + timedelta(days=30)
    given = [Waiver(ITEM, "leaf01", "Jane", end, f"why {n}", key, NOW, line=n + 1) for n in range(20_000)]
    given += [Waiver(f"POWER-X{n}", "*", "Jane", end, "why", key, NOW) for n in range(5_000)]
    given += [Waiver(ITEM, "*", "Jane", end, "why " * 1_000_000, key, NOW)]
    log = Contents(owners={one: KeyOwner("approver", "a") for one in key}, recorders=frozenset())
    began = time.process_time()
    verdict = judge(register, SmallPlan(real_site), log, given, NOW)
    assert time.process_time() - began < 20
    assert _subject(verdict).status == "waived"
    assert max(map(len, verdict.notices)) < 3000


def test_known_hosts_pins_no_revoked_key() -> None:
    kept, lost = public_of(HOST_KEY), public_of(Ed25519PrivateKey.generate())
    for names in ("*", "10.0.0.1", "|1|abc|def"):
        text = f"10.0.0.1 ssh-ed25519 {lost} checked\n10.0.0.1 ssh-ed25519 {kept} checked\n@revoked {names} ssh-ed25519 {lost}\n"
        assert pinned_keys(text) == {"10.0.0.1": frozenset({kept})}


def test_a_host_key_of_two_devices_proves_neither(tmp_path: Path) -> None:
    """Nodes installed from one image may share theirs: who holds one node's key would answer for the other."""
    shared, own = public_of(HOST_KEY), public_of(Ed25519PrivateKey.generate())
    lines = [f"10.0.0.{n} ssh-ed25519 {key} checked" for n, key in ((1, shared), (2, shared), (3, own))]
    (tmp_path / "known_hosts").write_text("\n".join(lines))
    ssh = SimpleNamespace(host_keys=PINNED, known_hosts="known_hosts")
    credentials = SimpleNamespace(ssh=ssh, switch=SimpleNamespace(host_keys="first-use", known_hosts=""))
    names = ["gpu001", "gpu002", "ctl01"]
    addresses = [(name, "provisioning", f"10.0.0.{n}/24") for n, name in enumerate(names, 1)]
    plan: Any = SimpleNamespace(
        site=SimpleNamespace(credentials_given=credentials, dir=tmp_path),
        addresses=pd.DataFrame(addresses, columns=["device", "network", "address"]),
        devices=pd.DataFrame({"name": names, "kind": ["server"] * 3}),
    )
    found = {name: keys for name, keys in gate.pinned_host_keys(plan).items() if keys}
    assert found == {"ctl01": frozenset({own})}


# -- the pages -------------------------------------------------------------------------------------------------------------


def test_a_green_page_for_a_ci_system_does_not_outlive_the_others(out: Path) -> None:
    reports = out / "reports"
    reports.mkdir()
    (reports / "gate.junit.xml").write_text("<testsuite failures='0'/>")
    gate.not_judged(out, "lab", "the site file cannot be read", rehearsal=False)
    assert "NOT JUDGED" in (reports / "gate.junit.xml").read_text()


def test_texts_of_signers_move_no_cursor_and_break_no_page(
    keyed_lab: Site, out: Path, signer: CryptoSigner, record: MakeRecord
) -> None:
    evil = "\x1b[2J\x1b[HGO-LIVE\x00<script>\u2028"
    store = open_store(keyed_lab, out / "evidence", plan="ab" * 32)
    store.append(
        [record(result="FAILED", detail=evil, host=evil, identities=(Identity(evil, "ssh", evil, evil),))], signer
    )
    given = Waiver("S052.applied", "*", evil, NOW + timedelta(days=3), evil)
    store.append_statements([_statement(given, NOW), freeze.statement(frozen(), evil, NOW)], signer)
    status, said = _run(keyed_lab, out)
    assert status == 1
    assert "\x1b[2J" not in said
    assert "<script>\u2028" not in (out / "reports" / "rehearsal.html").read_text()
    ElementTree.fromstring((out / "reports" / "rehearsal.junit.xml").read_text())


# -- a node that hides an intruder -----------------------------------------------------------------------------------------

OPERATOR = "AAAAC3NzaC1lZDI1NTE5AAAAIB5BMsnBzMCOBjOpBHA7e7XWyPNSzPvK7RKbDAYLJBXu"
INTRUDER = "AAAAC3NzaC1lZDI1NTE5AAAAIC5BMsnBzMCOBjOpBHA7e7XWyPNSzPvK7RKbDAYLJBXu"


@pytest.mark.parametrize(
    "line",
    [
        f'environment="X={OPERATOR} {OPERATOR} " ssh-ed25519 {INTRUDER}',
        f'command="true # {OPERATOR}" ssh-ed25519 {INTRUDER}',
        f'command="say \\" ssh-ed25519 {OPERATOR} \\"" ssh-ed25519 {INTRUDER} me',
        f"ssh-ed25519 {INTRUDER} {OPERATOR}",
        f'from="10.0.0.0/8",no-pty\tssh-ed25519\t{INTRUDER}',
    ],
)
def test_a_key_inside_an_option_is_not_the_key_of_the_line(line: str) -> None:
    """The operator's key in an option made the intruder's key a planned one."""
    assert node_facts.fingerprint(line) == node_facts.fingerprint(f"ssh-ed25519 {INTRUDER}")


@pytest.mark.parametrize("line", ["", OPERATOR, f"x {OPERATOR}", f'command="ssh-ed25519 {OPERATOR}', "ssh-ed25519 AAA"])
def test_a_line_without_a_key_has_none(line: str) -> None:
    assert node_facts.fingerprint(line) == ""


PASSWD = "root:x:0:0:root:/root:/bin/bash\ngames:x:5:60:games:/usr/games:/usr/sbin/nologin\n"


@pytest.mark.parametrize(
    "line",
    [
        "games:x:0:0::/root:/bin/bash\n" + PASSWD,
        PASSWD + "evil:x:00:0::/root:/usr/sbin/nologin\n",
        PASSWD + "evil:x:+0:0::/root:/bin/bash\n",
        PASSWD + "evil:x:0:0:a\x0cb:/root:/bin/bash\n",
        PASSWD + "evil:x:0:0:a\x85b:/root:/bin/bash\n",
        PASSWD + "evil:x:0:0::/root\n",
        PASSWD + "evil:x:0:0::/root:/bin/bash:\n",
        PASSWD + " evil:x:0:0::/root:/bin/bash\n",
    ],
)
def test_an_account_that_the_c_library_knows_is_not_hidden_by_its_line(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """glibc's fgetpwent takes each of these lines as an account with user id 0, of two lines of a name the first."""
    monkeypatch.setattr(node_facts, "read", lambda path: line)
    assert set(node_facts.users()) - {"root", "games"}


@pytest.mark.parametrize(
    ("shell", "lets_in"), [("", True), ("/tmp/sync", True), ("/x/false", True), ("/bin/false", False)]
)
def test_a_shell_that_lets_somebody_in_is_one(monkeypatch: pytest.MonkeyPatch, shell: str, lets_in: bool) -> None:
    monkeypatch.setattr(node_facts, "read", lambda path: f"games:x:5:60::/usr/games:{shell}")
    assert node_facts.accounts() == (["games"] if lets_in else [])


def test_accounts_that_cannot_be_read_are_not_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_facts, "read", lambda path: "")
    with pytest.raises(RuntimeError, match="could not be read"):
        node_facts.users()


@pytest.mark.parametrize(
    "before",
    ["# harmless \\\n", "Defaults env_reset # harmless \\\n", "Defaults a=b\\\\\n", "Defaults env_reset\n", "#\n"],
)
def test_a_sudo_rule_is_not_hidden_by_the_line_above(before: str) -> None:
    """sudo ends a comment at its line's end, also behind a backslash (cvtsudoers of sudo 1.9.13 shows the rule)."""
    assert any(
        "evil ALL=(ALL) NOPASSWD: ALL" in rule
        for rule in node_facts.sudo_rules(f"{before}evil ALL=(ALL) NOPASSWD: ALL\n")
    )


def test_a_user_whose_name_begins_like_defaults_has_a_rule() -> None:
    text = "Defaults:%sudo env_reset\nDefaults\tuse_pty\nDefaultsx ALL=(ALL) ALL\n%sudo\tALL=(ALL:ALL) \\\n ALL\n"
    assert node_facts.sudo_rules(text) == ["Defaultsx ALL=(ALL) ALL", "%sudo ALL=(ALL:ALL) ALL"]


# -- a node that lies about its burn-in ------------------------------------------------------------------------------------


def _lying(**changes: Any) -> list[str]:
    run = report()
    products = run["nodes"]["gpu001"]["ranks"][1]["precisions"]["bf16"]
    products |= changes
    return problems(run, "gpu001", 2, LIMITS, ranks=2)


@pytest.mark.parametrize(
    "changes",
    [
        {"last_gflops": None},
        {"first_gflops": -1.0, "last_gflops": -1.0},
        {"last_gflops": -1e300},
        {"rounds": -1},
        {"first_gflops": 5e-324, "last_gflops": 1e-320, "rounds": 0},
    ],
)
def test_numbers_that_no_load_gives_fail_the_node(changes: dict[str, Any]) -> None:
    assert _lying(**changes)


def test_two_ranks_on_one_gpu_fail_the_node() -> None:
    """The other GPU carried no load."""
    run = report()
    first, second = run["nodes"]["gpu001"]["ranks"]
    second["uuid"] = first["uuid"]
    assert any("2 ranks loaded it" in text for text in problems(run, "gpu001", 2, LIMITS, ranks=2))


def test_thousands_of_rank_files_are_judged_in_time() -> None:
    one = json.dumps(
        {
            "device": H100,
            "took_s": -1.0,
            "phase": "end",
            "ended": True,
            "rank": {**RANK, "rank": (1 << 63)},
            "watch": None,
        }
    )
    began = time.monotonic()
    node = joined([one] * 5_000, 8, Source("gpu001", "read the results of the burn-in"))
    found = problems({"nodes": {"gpu001": node}}, "gpu001", 2, LIMITS, ranks=2)
    assert "5000 ranks loaded the node, expected 2" in found
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("text", ["[" * 5000, '{"took_s": 1e999}', "{}", '{"took_s": 99999999999999999999999}', ""])
def test_a_rank_file_that_is_none_is_named(text: str) -> None:
    with pytest.raises(UnreadableAnswer):
        joined([text], 0, Source("gpu001", "read the results of the burn-in"))


@pytest.mark.parametrize("how", ["link", "open"])
def test_the_load_keeps_no_results_in_a_folder_that_waits_for_it(tmp_path: Path, how: str) -> None:
    """Its name can be guessed, and lies where every user may write: somebody would add results, or have others overwritten."""
    folder = tmp_path / "results"
    if how == "link":
        (tmp_path / "other").mkdir()
        folder.symlink_to(tmp_path / "other")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    command = [sys.executable, str(PROGRAM), "--computes-on", "cpu", "--duration-s", "1", "--results", str(folder)]
    done = subprocess.run(
        command,
        env=os.environ | {"RANK": "0", "LOCAL_RANK": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "remove it" in done.stderr
    assert not list(folder.iterdir())


def pinged(device: str, payload_b: int) -> bytes:
    """The raw output of S054.measured."""
    return answer({"pings": whole_pings(plan_of("lab"), device, payload_b)}, device)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"value": 3}, "3 B is below the floor"),
        ({"limit": 3, "limit_source": "three is enough"}, "its limit is from 'three is enough'"),
        ({"value": 8972, "limit": 9000}, "is not at least its limit of 9000 B"),
        ({"raw": pinged("gpu001", 1472)}, "its raw output gives 1472"),
        ({"raw": pinged("gpu002", 8972)}, "it is the answer of gpu002"),
        ({"raw": b"\x00" * 9}, "cannot be computed from its raw output"),
        ({"raw": None}, "it keeps no raw output"),
    ],
)
def test_a_record_that_says_passed_is_judged_by_its_own_numbers_and_its_raw_output(
    keyed_lab: Site, out: Path, signer: CryptoSigner, record: MakeRecord, change: dict[str, Any], why: str
) -> None:
    item = load_register().items["S054.measured"]
    said = {**numbers(item, keyed_lab), "raw": pinged("gpu001", 8972), **change}
    open_store(keyed_lab, out / "evidence", plan="ab" * 32).append([record(item.id, "gpu001", **said)], signer)
    assert _run(keyed_lab, out)[0] == 1
    page = json.loads((out / "reports" / "rehearsal.json").read_text())
    found = next(one for one in page["items"] if one["id"] == item.id)
    status = {one["subject"]: one["status"] for one in found["subjects"]}["gpu001"]
    assert status == ("fail" if why else "pass")
    assert why in found["detail"]
