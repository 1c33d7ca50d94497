"""Attacks on the gate by somebody who did not write it: files of the folder, and at most one signer's key.

The collector's key, an electrician's, or none; never the recorder's. What was tried before stands in test_evidence_attacks.py.
"""

import dataclasses
import fcntl
import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from securesystemslib.signer import CryptoSigner

from inventory.site import Site
from inventory.site.sections.acceptance import AttestRole
from tests.validation.bench import NOW, SmallPlan, make_key, proven
from validation import attest, gate
from validation.evidence import Entry, Identity, IntegrityError, Record, Store, begun, strict
from validation.evidence import store as stores
from validation.evidence.record import Attachment, to_statement
from validation.evidence.store import Contents, KeyOwner, Statement, signed
from validation.evidence.trust import open_store
from validation.register import Register
from validation.training_story import SCHEMA_VERSION as STORY_VERSION
from validation.verdict import Verdict, judge
from validation.waive import Waiver, _statement

MakeRecord = Callable[..., Record]
ITEM = "S062.measured"


@pytest.fixture
def out(
    keyed_lab: Site, tmp_path: Path, signer: CryptoSigner, record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The output folder of a lab with one record in its log, judged by a small plan."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(gate, "build", lambda site: _Small(site))
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
    for suffix in ("html", "json", "seal.json"):
        (reports / f"rehearsal.{suffix}").rename(reports / f"gate.{suffix}")
    assert gate.verify(keyed_lab, reports / "gate.json", console=quiet) == 2


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
    started = Statement(begun.BEGUN, "leaf01", said["predicate"], frozenset({second}), 2)
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
    keyed_lab: Site, out: Path, signer: CryptoSigner, record: MakeRecord, register: Register, story: dict[str, Any]
) -> None:
    subject = register.subjects(register.items[gate.STORY_ITEM], _Small(keyed_lab), lab=True)[0]
    store = open_store(keyed_lab, out / "evidence", plan="ab" * 32)
    store.append([record(gate.STORY_ITEM, subject, value={"schema_version": STORY_VERSION, **story})], signer)
    assert _run(keyed_lab, out)[0] == 1
    assert "cannot be shown" in (out / "reports" / "rehearsal.html").read_text()


# -- the key of an electrician ---------------------------------------------------------------------------------------------


@pytest.fixture
def pending(
    real_site: Site, real_store: Store, people: dict[str, CryptoSigner], register: Register, record: MakeRecord
) -> Callable[..., Path]:
    """Leave these statements behind as if they waited for a countersignature."""

    def leave(*statements: Any) -> Path:
        envelope = signed(real_store.placed(statements), people["electrician"])
        path = real_store.path / attest.PENDING / "S091.attested-x.json"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(strict.canonical(envelope.to_dict()))
        return path

    return leave


def _grounding(register: Register, record: MakeRecord, **changes: Any) -> Record:
    form = dict.fromkeys(register.items["S091.attested"].form, "yes") | {"role": "electrician", "outcome": "passed"}
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
    form = dict.fromkeys(item.form, "yes") | {"expiry": expiry}
    one = record(item.id, subject, identities=(), inputs={}, form=form)
    owners = {key: KeyOwner(item.signers[0], "e")}
    contents = Contents((Entry(one, frozenset({key}), 1, "unproven"),), (), owners, recorders=frozenset())
    assert _subject(judge(register, SmallPlan(real_site), contents, (), NOW), item.id, subject).status == "stale"


def test_an_approval_of_go_live_that_names_no_plan_is_stale(
    register: Register, real_site: Site, record: MakeRecord, people: dict[str, CryptoSigner]
) -> None:
    """Its first signer writes it, and the others would approve every plan to come."""
    item = register.items["S195.attested"]
    subject = register.subjects(item, SmallPlan(real_site))[0]
    keys = {role: people[role].public_key.keyid for role in item.signers}
    form = dict.fromkeys(item.form, "yes")
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
