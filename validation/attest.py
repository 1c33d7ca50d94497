"""Attestations: a person states a physical or organisational act in a form, and signs it.

The form is a YAML file with the fields that the register asks for (``template`` writes an empty one). It becomes one
attested record per subject. Items with several signer roles are completed one signature at a time: the first signer
leaves a pending envelope in ``evidence/pending/``, the next one adds a signature to it, and the last one's signature
puts it into the log. Keys count only if the site file pins them for the role (``attest.roles.<role>.keys``).
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner

from inventory.paths import read_file, write_file
from inventory.site import Site
from inventory.yaml_data import handed_in
from network.drivers.errors import one_line, printable
from validation import countersignatures, forms
from validation.approvals import Approved
from validation.evidence import strict
from validation.evidence.keys import signer_from
from validation.evidence.mode import same_person
from validation.evidence.record import (
    TEST_RESULT,
    Attachment,
    Record,
    from_statement,
    raw_path,
    to_statement,
)
from validation.evidence.store import LAB_ROLE, Contents, Store, read_envelope, signed, statements_of
from validation.evidence.trust import Trust, open_store, recorder_of, trust_of
from validation.register import Item, PlanView, Register

SHOWN = 400
"""Characters of a field of a form that are shown."""
PENDING = "pending"
NAME_DIGITS = 32
"""Of the SHA-256 of a pending attestation, in the name of its file: 128 bits."""
ATTACHMENTS = "attachments"
ALL_SUBJECTS = "all"
GO_LIVE_STEP = "S195"
SKEW = timedelta(minutes=5)
Approve = Callable[[], Approved]


class AttestError(Exception):
    """An attestation that cannot be signed as it is; the message lists everything that is wrong with it."""


@dataclass(frozen=True)
class Signing:
    """What a signature led to: ``pending`` is the file that waits for the roles ``lacking``; None when it is done."""

    item: str
    subjects: tuple[str, ...]
    pending: Path | None
    lacking: tuple[str, ...]


def template(register: Register, site: Site, item_id: str, subjects: Sequence[str]) -> str:
    """An empty form for an attested item, with a word on each field. AttestError if the item is not attested."""
    item = _attested(register, item_id)
    hints = {
        "name": "your name",
        "role": f"one of: {', '.join(item.signers)}",
        "asset": "what was inspected, as its label says",
        "date": "day of the act, YYYY-MM-DD",
        "method": "how it was done or measured, with which instrument",
        "outcome": "passed, warned or failed",
        "expiry": "last day on which this still holds, YYYY-MM-DD",
    }
    lines = [
        f"# {item.id}: {register.title(item, site)}",
        f"# signed by {', then '.join(item.signers_on(site))}, each with another person's key",
        f"item: {item.id}",
        f"subjects: [{', '.join(subjects)}]",
        *(f"{name}:  # {hints.get(name) or forms.hint(name, subjects)}" for name in item.form),
        f"{ATTACHMENTS}: []  # files beside this form: reports, certificates, photos",
    ]
    return "\n".join(lines) + "\n"


def records_of(
    register: Register,
    site: Site,
    plan: PlanView,
    form_path: Path,
    now: datetime,
    store: Store | None = None,
    approve: Approve | None = None,
    known: Mapping[str, Collection[str]] | None = None,
) -> list[Record]:
    """The records of a filled-in form; with a ``store``, its attachments are kept there.

    ``approve`` says what the approvals of go-live are about; without it they name the plan alone, and do not count.

    ``known`` gives, per device, the identifiers that the inventory lists.

    AttestError lists all faults: wrong item or subjects, missing fields, a value that is none of its field (forms.py), a reading
    other than plan, site file or asset list have, a date in the future or before the site, an unknown role, a licence that the
    site file asks for, an instrument without calibration, an attachment that cannot be read.
    """
    form = _load(form_path)
    item = _attested(register, str(form.get("item")))
    faults: list[str] = []
    subjects = _subjects(register, item, plan, form.get("subjects"), faults)
    wrong = _form_faults(item, site, form, subjects)
    faults += wrong if faults or wrong else forms.off_plan(item, form, subjects, plan, known or {})
    result = forms.result_of(form)
    if form.get("outcome") and result is None:
        faults.append(f"outcome is {form['outcome']!r}; it is one of {', '.join(forms.OUTCOMES)}")
    day = forms.day_of(form.get("date"))
    if day and forms.ahead(day, now):
        faults.append(f"date {day} lies in the future")
    attachments = _attachments(form, form_path, store, faults)
    if faults or result is None or day is None:
        raise AttestError(f"{form_path}: " + "; ".join(faults))
    approved = approve() if approve is not None and item.step == GO_LIVE_STEP else None
    plain = json.loads(json.dumps({k: v for k, v in form.items() if k not in ("item", "subjects")}, default=str))
    started = min(datetime.combine(day, time(), UTC), now)  # the day may have begun east of UTC
    return [
        Record(
            step=item.step,
            kind="attested",
            subject=subject,
            result=result,
            started=started,
            ended=now,
            tool="bringup attest",
            tool_version="1",
            form=forms.of_subject(plain, subject),
            attachments=attachments,
            inputs=approved.inputs
            if approved
            else {"plan": plan.hash}
            if item.step == GO_LIVE_STEP
            else forms.rows(plan, subject),
            configuration=approved.configuration if approved else {},
            detail=f"{form['name']} ({form['role']}), {day}: {form['outcome']}",
        )
        for subject in subjects
    ]


def sign_form(
    register: Register,
    site: Site,
    plan: PlanView,
    form_path: Path,
    signer: CryptoSigner,
    store: Store,
    now: datetime,
    approve: Approve | None = None,
    known: Mapping[str, Collection[str]] | None = None,
) -> Signing:
    """Sign a form as its first signer. The signer's key must be pinned for the role that the form states."""
    records = records_of(register, site, plan, form_path, now, store, approve, known)
    return _sign(register, site, records, signer, store)


def _sign(register: Register, site: Site, records: Sequence[Record], signer: CryptoSigner, store: Store) -> Signing:
    """Sign the records of a form."""
    item = register.items[records[0].item]
    role, name = str(records[0].form["role"]), str(records[0].form["name"])
    _enroll(site, store, signer, (role,), name)
    mine = (countersignatures.by(record, signer.public_key.keyid) for record in records)
    envelope = signed(store.placed([to_statement(record) for record in mine]), signer)
    return _file(item, [r.subject for r in records], envelope, signer, site, store)


def countersign(
    register: Register,
    site: Site,
    pending: Path,
    signer: CryptoSigner,
    name: str,
    store: Store,
    now: datetime | None = None,
    content: bytes | None = None,
) -> Signing:
    """Add a signature to a pending attestation; the last one that it needs puts it into the log. ``content`` is that of the file as
    it was shown.

    AttestError if the file is no pending attestation, an earlier signature does not hold any more, the key has signed
    already or holds none of the roles that are still lacking, or approvals of go-live are dated later than now: they
    would last beyond attest.approval_days.
    """
    now = now or datetime.now(UTC)
    content = content_of(pending) if content is None else content
    try:
        envelope = read_envelope(content)
        statements = statements_of(envelope)
        ours = statements[0]["predicate"]["bringup_record"]
        item = _attested(register, f"{ours['step']}.{ours['kind']}")
        for statement in statements:
            _check_pending(statement, item, site, store, now)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise AttestError(f"{pending}: not a pending attestation ({error})") from None
    if len(store.valid_signers(envelope)) != len(envelope.signatures):
        raise AttestError(f"{pending}: it was changed after it had been signed; start again from the form")
    if signer.public_key.keyid in envelope.signatures:
        raise AttestError(f"{pending}: this key has signed it already; {item.id} needs another person's key")
    contents = store.verify()
    _another_person(name, envelope, statements, contents, pending)
    trust = trust_of(site, contents)
    for record in map(from_statement, statements):
        if since := _failed_since(record[0], contents, trust, item, site):
            raise AttestError(f"{pending}: {since}; do the step again, and start again from the form")
    lacking = trust.missing_roles(item.signers_on(site), frozenset(envelope.signatures), rehearsal=False)
    _enroll(site, store, signer, lacking, name)
    first = from_statement(statements[0])[0]
    said = countersignatures.statement(envelope.payload, first.subject, item.id, name, now, first.result)
    store.append_statements([said], signer)
    envelope.sign(signer)
    signing = _file(item, [s["subject"][0]["name"] for s in statements], envelope, signer, site, store)
    if signing.pending is None:
        pending.unlink()
    return signing


def _another_person(
    name: str, envelope: Envelope, statements: Sequence[Mapping[str, Any]], contents: Contents, pending: Path
) -> None:
    """AttestError if a person of this name has signed a pending attestation before: the gate would not count the second one."""
    before = [str(from_statement(statements[0])[0].form.get("name", ""))]
    digest = hashlib.sha256(envelope.payload).hexdigest()
    try:
        said = countersignatures.stated(contents).all.get(digest, ())
    except ValueError as error:
        raise AttestError(str(error)) from None
    before += [one.name for one in said if one.signers & set(envelope.signatures)]
    if same_person(name) in map(same_person, before):
        raise AttestError(f"{pending}: {printable(name)} has signed it already; the next signer is another person")


def _failed_since(record: Record, contents: Contents, trust: Trust, item: Item, site: Site) -> str:
    """Which failure of an item and asset was signed after a record about them was signed first, '' for none: the gate keeps it."""
    wanted = set(item.signers_on(site))
    for entry in contents.entries:
        one = entry.record
        if (one.item, one.subject, one.result) != (record.item, record.subject, "FAILED") or one.ended <= record.ended:
            continue
        if any(trust.roles_of_failure(key, rehearsal=False) & wanted for key in entry.signers):
            when = f"{one.ended:%Y-%m-%d %H:%M %Z} (line {entry.line})"
            return f"{one.item} {printable(one.subject)} was found failed since, on {when}"
    return ""


def run(
    site: Site,
    register: Register,
    plan: PlanView,
    folder: Path,
    *,
    key: str,
    form: Path | None = None,
    pending: Path | None = None,
    name: str = "",
    console: Console | None = None,
    approve: Approve | None = None,
    known: Mapping[str, Collection[str]] | None = None,
) -> int:
    """Sign ``form``, or add a signature to ``pending`` as ``name``; says what happened. Returns 0.

    ``known`` as in `records_of`.

    ``key`` is a secret reference (``file:``, ``env:``, ``vault:``) to the person's ed25519 private key, ``folder`` the
    site's output folder. AttestError, SigningKeyError, SecretError or IntegrityError say why not.
    """
    console = console or Console()
    signer = signer_from(key, Path.cwd())
    store = open_store(site, folder / "evidence", plan=plan.hash, recorder=recorder_of(site))
    content = None if pending is None else content_of(pending)
    if form is not None:
        seen = records_of(register, site, plan, form, datetime.now(UTC), store, approve, known)
    else:
        seen = pending_records(pending, content) if pending is not None else []
    for line in shown(seen):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if form is not None:
        done = _sign(register, site, seen, signer, store)  # what was shown: the file may be another one by now
    elif pending is not None:
        done = countersign(register, site, pending, signer, name, store, content=content)
    else:
        raise AttestError("give a form to sign, or a pending attestation to countersign")
    what = f"{done.item} for {', '.join(done.subjects)}"
    if done.pending:
        console.print(f"signed {what}; it still needs {', '.join(done.lacking)}:", markup=False, highlight=False)
        console.print(f"  bringup attest --countersign {done.pending}", markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(f"attested {what}", markup=False, highlight=False)
    return 0


def _form_faults(item: Item, site: Site, form: Mapping[str, Any], subjects: Sequence[str]) -> list[str]:
    """What is missing in a form, or not as item and site file ask for it."""
    empty = [f"{name} is empty" for name in item.form if form.get(name) in forms.EMPTY]
    return empty + forms.unfounded(item, form, site) + forms.faults(item, form, subjects, forms.began(site))


def shown(records: Sequence[Record]) -> list[str]:
    """What a signer sees before signing: each statement, and its form field by field."""
    lines = []
    for record in records:
        lines.append(f"{record.item} for {printable(record.subject)}: {record.result}")
        lines += [f"  {printable(str(name))}: {one_line(str(value), SHOWN)}" for name, value in record.form.items()]
        lines += [f"  attached: {printable(one.name)} {one.sha256}" for one in record.attachments]
        if record.step == GO_LIVE_STEP:
            lines.append(f"  signed first: {record.ended:%Y-%m-%d %H:%M %Z}")
            lines += [
                f"  rests on {one_line(name, SHOWN)} {digest[:16]}" for name, digest in sorted(record.inputs.items())
            ]
    return lines


def content_of(pending: Path) -> bytes:
    """The file of a pending attestation. AttestError if it is none, or its name is that of another one.

    Who countersigns reads it first, and gives the same name again to sign: the name stands for what it holds.
    """
    try:
        content = strict.read(pending.parent, pending.name, strict.MAX_LINE)
        if pending.stem.rpartition("-")[2] != _name_of(read_envelope(content)):
            raise strict.Refused(
                "its name is not that of its content: it was changed or renamed; start again from the form"
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AttestError(f"{pending}: not a pending attestation ({error})") from None
    return content


def _name_of(envelope: Envelope) -> str:
    """What the file of a pending attestation is named by: so long that nobody finds another content with the same name."""
    return hashlib.sha256(envelope.payload).hexdigest()[:NAME_DIGITS]


def pending_records(pending: Path, content: bytes | None = None) -> list[Record]:
    """The records of a pending attestation, for reading. AttestError if it is none."""
    content = content_of(pending) if content is None else content
    try:
        return [from_statement(statement)[0] for statement in statements_of(read_envelope(content))]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AttestError(f"{pending}: not a pending attestation ({error})") from None


def _check_pending(statement: Mapping[str, Any], item: Item, site: Site, store: Store, now: datetime) -> None:
    """Whether the log may take a statement: of this item, whole, with its files. ValueError or OSError says why not.

    Who countersigns signs all of a batch, and is told the item of its first statement.
    """
    record = from_statement(statement)[0]
    if statement["predicateType"] != TEST_RESULT or record.item != item.id:
        raise strict.Refused(f"it holds another statement than attestations of {item.id}")
    if item.step == GO_LIVE_STEP and record.ended > now + SKEW:
        raise strict.Refused(f"it is dated {record.ended:%Y-%m-%d %H:%M %Z}, later than now")
    wrong = _form_faults(item, site, record.form, (record.subject,))
    if wrong := wrong + forms.contradictions(record.form, record.result, record.ended):
        raise strict.Refused("; ".join(wrong))
    for digest in filter(None, (record.raw_sha256, *(a.sha256 for a in record.attachments))):
        if strict.sha256_of(store.path, raw_path(digest)) != digest:
            raise strict.Refused(f"{raw_path(digest)} has been changed")


def _attested(register: Register, item_id: str) -> Item:
    item = register.items.get(item_id)
    if item is None or item.kind != "attested":
        known = ", ".join(i.id for i in register.items.values() if i.kind == "attested" and i.id[:4] == item_id[:4])
        raise AttestError(f"{item_id} is not an attested item" + (f"; did you mean {known}?" if known else ""))
    return item


def _load(path: Path) -> dict[str, Any]:
    try:
        form = handed_in(read_file(path, strict.MAX_SMALL).decode("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AttestError(f"{path}: cannot be read: {error}") from None
    if not isinstance(form, dict):
        raise AttestError(f"{path}: is not a form (a YAML mapping)")
    if not _bounded(form):
        raise AttestError(f"{path}: its aliases (*name) repeat a part without end; write each value where it belongs")
    try:
        json.dumps(form, default=str, allow_nan=False)
    except (TypeError, ValueError) as error:  # .nan, .inf, a date as the name of a field
        raise AttestError(f"{path}: holds what no form can hold: {error}") from None
    return form


def _bounded(form: Any) -> bool:
    """Whether a form has no more values than its text could hold without aliases: a value takes two bytes at least."""
    todo, left = [form], strict.MAX_SMALL // 2
    while todo and left:
        one, left = todo.pop(), left - 1
        todo += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return not todo


def _subjects(register: Register, item: Item, plan: PlanView, given: object, faults: list[str]) -> list[str]:
    known = register.subjects(item, plan)
    if given == ALL_SUBJECTS or given == [ALL_SUBJECTS]:
        return known
    names = [str(name) for name in given] if isinstance(given, list) else [str(given)] if given else []
    if not names:
        faults.append("subjects is empty")
    if unknown := [name for name in names if name not in known]:
        faults.append(f"{item.id} has no subject {', '.join(unknown)}; it has {', '.join(known[:10])}")
    return names


def _attachments(
    form: Mapping[str, Any], form_path: Path, store: Store | None, faults: list[str]
) -> tuple[Attachment, ...]:
    found: list[Attachment] = []
    named = form.get(ATTACHMENTS) or []
    if not isinstance(named, list):
        faults.append(f"{ATTACHMENTS} is {named!r}; write a list of file names: [report.pdf]")
        return ()
    for name in named:
        try:
            data = read_file(form_path.parent / str(name), strict.MAX_RAW)
            found.append(Attachment(Path(str(name)).name, hashlib.sha256(data).hexdigest()))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            faults.append(f"attachment {one_line(str(name), SHOWN)} cannot be read: {why}")
            continue
        if store:
            store.keep(data)
    return tuple(found)


def _trust(site: Site, store: Store) -> Trust:
    return trust_of(site, store.verify())


def _enroll(site: Site, store: Store, signer: CryptoSigner, roles: Sequence[str], name: str) -> None:
    key_id = signer.public_key.keyid
    holds = [role for role in roles if role in site.attest.roles and key_id in site.attest.roles[role].keys]
    if not holds:
        raise AttestError(
            f"the key {key_id} is not pinned for {' or '.join(roles) or 'any role that is still lacking'}; "
            f"if it is yours, have it added to attest.roles.<role>.keys in {site.path}"
        )
    known = (store.verify().owners or {}).get(key_id)
    if known is not None and known.role == LAB_ROLE:
        raise AttestError(f"the key {key_id} was issued by a lab and cannot attest")
    if known is None:
        store.enroll(signer, holds[0], name)


def _file(
    item: Item, subjects: Sequence[str], envelope: Envelope, signer: CryptoSigner, site: Site, store: Store
) -> Signing:
    """Put a complete attestation into the log, an incomplete one into the folder of pending ones.

    One that says FAILED goes into the log with its first signature: a failure waits for nobody.
    """
    failed = any(from_statement(statement)[0].result == "FAILED" for statement in statements_of(envelope))
    lacking = _trust(site, store).missing_roles(item.signers_on(site), frozenset(envelope.signatures), rehearsal=False)
    if not lacking or failed:
        store.append_envelope(envelope, head_signer=signer)
        return Signing(item.id, tuple(subjects), None, ())
    path = store.path / PENDING / f"{item.id}-{_name_of(envelope)}.json"
    write_file(path, strict.canonical(envelope.to_dict()), follow=False)
    return Signing(item.id, tuple(subjects), path, lacking)
