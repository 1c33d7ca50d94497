"""Waivers: a named owner accepts an open item or a plan finding until a date, for a reason, and signs that.

A waiver is an in-toto statement in the evidence log. It covers evidence items (``S047.measured``) or findings of the
plan (``POWER-PHASE-IMBALANCE``), for one subject or for all. Whether a signature counts is the gate's business
(validation/evidence/trust.py): the role ``approver``, pinned in the site file.
"""

import dataclasses
import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from securesystemslib.signer import CryptoSigner

from inventory.findings import Finding
from inventory.findings_registry import current, nearest, registry
from network.drivers.errors import one_line
from validation.evidence import strict
from validation.evidence.begun import digest_of
from validation.evidence.mode import same_person
from validation.evidence.record import STATEMENT_TYPE
from validation.evidence.store import Contents, Statement, Store
from validation.evidence.strict import moment, text
from validation.evidence.trust import Trust
from validation.forms import CALIBRATED_FOR
from validation.program import checked_items, checks_of_items
from validation.register import Item, PlanView, Register

WAIVER = "urn:bringup:waiver:v1"
ALL_SUBJECTS = "*"
APPROVER_ROLE = "approver"
MAX_DAYS = 366
SKEW = timedelta(minutes=5)
MAX_NUMBER = 1e300
MAX_TEXT = 2000
"""Characters of a text of a waiver: the page repeats it for each subject. A choice of ours."""
SIGNERS_OF_REPORT = 2
"""Approvers, each with a waiver of their own about the same report."""
SIGNERS_OF_FAILED = 2
"""Approvers, each with a waiver of their own or a signature on one, that a failed item needs at go-live."""

_ITEM = re.compile(r"(S\d{3}|P-\d{2})\.[a-z]+")
_FINDING = re.compile(r"[A-Z][A-Z0-9]*(-[A-Z0-9]+)+")


REPORT = "external_report"
NO_BYTES = hashlib.sha256(b"").hexdigest()
BOUNDS = ("at most", "at least")
MOST_NAMED = 3


@dataclass(frozen=True)
class Report:
    """A report of somebody else that closes what no check asks: an item without a check, subjects that its checks do not ask on
    this site, or the part that its check does not cover.

    ``sha256``      of the report, which the evidence folder keeps under ``raw/``
    ``instrument``  what measured, ``calibrated`` the day of its calibration
    ``reading``     what it read, in ``unit``; ``bound`` (at most, at least) and ``limit`` what it was judged by
    """

    sha256: str
    instrument: str
    calibrated: date
    reading: float
    unit: str
    bound: str
    limit: float

    @property
    def holds(self) -> bool:
        """Whether the reading keeps the limit; never for a number that is none."""
        return self.reading <= self.limit if self.bound == BOUNDS[0] else self.reading >= self.limit

    def __str__(self) -> str:
        return (
            f"report {self.sha256[:16]}: {self.reading:g} {self.unit}, {self.bound} {self.limit:g} {self.unit} "
            f"({self.instrument}, calibrated {self.calibrated})"
        )


class WaiverError(Exception):
    """A waiver that cannot be given; the message says why."""


@dataclass(frozen=True)
class Waiver:
    """One accepted gap.

    ``item``     an item id or the id of a plan finding
    ``subject``  the asset or finding subject that it covers, ``*`` for all
    ``owner``    the person who answers for it
    ``expires``  end of its validity, with a time zone
    ``reason``   why it is acceptable until then
    ``signers``  key ids whose signatures hold
    ``given``    when it was signed; None before that
    ``report``   for an item without a check: the external report that closes it
    ``line``     where it stands in the log; 0 before that
    """

    item: str
    subject: str
    owner: str
    expires: datetime
    reason: str
    signers: frozenset[str] = frozenset()
    given: datetime | None = None
    report: Report | None = None
    line: int = field(default=0, compare=False)

    def covers(self, item: str, subject: str) -> bool:
        """Whether it is about this item and subject."""
        return (self.item == item or current(self.item) == item) and self.subject in (ALL_SUBJECTS, subject)


def waive(
    store: Store,
    register: Register,
    waiver: Waiver,
    signers: Sequence[CryptoSigner],
    now: datetime,
    known: Sequence[str] = (),
    asked: Collection[str] | None = None,
) -> None:
    """Sign the waiver and append it to the evidence log.

    ``known`` are the subjects of the plan that it may name, ``asked`` those that a check asks (`asked_of`). WaiverError for an
    unknown item or subject, for one that no waiver can replace, without owner or reason, or with an end in the past or more than a
    year away.
    """
    if reason := refused(register, waiver, now, known, asked):
        raise WaiverError(reason)
    store.append_statements([_statement(waiver, now)], *signers)


def asked_of(
    register: Register, item: Item, plan: PlanView, selected: Mapping[str, list[str]] | None = None
) -> list[str]:
    """The subjects of an item that its checks ask on this plan; ``selected`` is ``register.select_all(plan)``, for many items."""
    checks = checks_of_items(plan.site.scheduler.kind)
    if item.id not in checks:
        return []
    found = selected if selected is not None else register.select_all(plan)
    able = {name for selector in checks[item.id] for name in found[selector]}
    subjects = register.subjects(item, plan, selected=found)
    return [name for name in subjects if name in able] if checks[item.id] else subjects


def refusal(
    register: Register,
    waiver: Waiver,
    now: datetime,
    known: Sequence[str] | None = None,
    asked: Collection[str] | None = None,
) -> str | None:
    """Why no waiver may say this, or None: the verb and the gate ask the same. ``known`` are the subjects that the item has;
    None where they are not compared. ``asked`` are those that a check asks (`asked_of`); None: all, where the item has a check.
    """
    name = f"the waiver of {one_line(waiver.item, MAX_TEXT)}"
    for what, said in {"item": waiver.item, **_texts(waiver)}.items():
        if len(said) > MAX_TEXT:
            return f"{name} has {what} of {len(said)} characters, at most {MAX_TEXT} are read: keep a longer text as a file"
    if _ITEM.fullmatch(waiver.item):
        item = register.items.get(waiver.item)
        if item is None:
            return f"the register has no item {waiver.item}"
        if not item.waivable:
            return f"{waiver.item} cannot be waived: it is a safety item, go-live itself or has a floor"
        if known is not None and waiver.subject != ALL_SUBJECTS and waiver.subject not in known:
            return f"{waiver.item} has no subject {waiver.subject}; it has {_listed(known) or 'none'}"
    elif not _FINDING.fullmatch(waiver.item):
        return f"{waiver.item!r} is neither an item (S047.measured) nor a finding (POWER-FEED-LOSS)"
    elif (named := current(waiver.item)) is None:
        return f"there is no finding {waiver.item}. See docs/findings.md"
    elif why := registry()[named].safety:
        return (
            f"{waiver.item} cannot be waived: it is about safety ({why}). Fix: change the plan as docs/findings.md says"
        )
    if not waiver.owner.strip() or not waiver.reason.strip():
        return f"{name} needs an owner and a reason"
    if odd := [what for what, said in _texts(waiver).items() if not said.isprintable()]:
        return f"{name} has unprintable characters in {' and '.join(odd)}: write one line of text"
    given = waiver.given or now
    if given > now + SKEW:
        return f"{name} is dated in the future ({given:%Y-%m-%d %H:%M %Z})"
    if waiver.expires <= given:
        return f"{name} would have ended on {waiver.expires:%Y-%m-%d %H:%M %Z}"
    if (waiver.expires - given).days > MAX_DAYS:
        return f"{name} would last more than {MAX_DAYS} days"
    return _report_refusal(register, waiver, given, asked) if waiver.report else None


def refused(
    register: Register,
    waiver: Waiver,
    now: datetime,
    known: Sequence[str] | None = None,
    asked: Collection[str] | None = None,
) -> str | None:
    """As `refusal`, for who is about to sign; of a finding that does not exist, those whose names are alike. Takes milliseconds."""
    reason = refusal(register, waiver, now, known, asked)
    named = len(waiver.item) <= MAX_TEXT and _FINDING.fullmatch(waiver.item)
    if reason and named and current(waiver.item) is None and (alike := nearest(waiver.item)):
        return f"there is no finding {waiver.item}. Nearest: {', '.join(alike)}"
    return reason


def _texts(waiver: Waiver) -> dict[str, str]:
    """What people wrote, by its name: it is shown on screens and pages."""
    texts = {"subject": waiver.subject, "owner": waiver.owner, "reason": waiver.reason}
    if waiver.report is not None:
        texts |= {"instrument": waiver.report.instrument, "unit": waiver.report.unit}
    return texts


def _report_refusal(register: Register, waiver: Waiver, given: datetime, asked: Collection[str] | None) -> str | None:
    """Why no external report may close this item, or None."""
    report, item = waiver.report, register.items.get(waiver.item)
    if report is None or item is None or item.kind == "attested":
        return f"{waiver.item} is no item that an external report closes: those that people attest have a form, findings a waiver"
    if item.id in checked_items() and not item.partial:
        whom = None if asked is None else [one for one in asked if waiver.subject in (ALL_SUBJECTS, one)]
        if whom is None or whom:
            more = f" that asks {_listed(whom)}" if whom else ""
            return f"{item.id} has a check{more}, so no external report closes it: run the check"
    if not report.instrument.strip() or not report.unit.strip():
        return f"the external report of {item.id} needs an instrument and a unit"
    if report.sha256 == NO_BYTES:
        return f"the external report of {item.id} is an empty file"
    if report.calibrated > given.date():
        return f"the instrument of {item.id} would be calibrated on {report.calibrated}, after the waiver was signed"
    if given.date() - report.calibrated > CALIBRATED_FOR:
        return f"the instrument of {item.id} was calibrated on {report.calibrated}, more than {CALIBRATED_FOR.days} days before"
    if not (math.isfinite(report.reading) and math.isfinite(report.limit) and report.holds):
        return f"the reading of {item.id} does not keep its limit: {report}"
    return None


def _listed(names: Sequence[str]) -> str:
    """Names as a person reads them, a few of many."""
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _report(said: Any) -> Report | None:
    """The external report of a waiver's predicate; ValueError for what is none."""
    if said is None:
        return None
    found = strict.fields(said, "sha256", "instrument", "calibrated", "reading", "unit", "bound", "limit")
    numbers = [found[name] for name in ("reading", "limit")]
    if any(type(one) not in (int, float) or abs(one) > MAX_NUMBER for one in numbers) or found["bound"] not in BOUNDS:
        raise strict.Refused(f"reading and limit must be numbers, bound one of {', '.join(BOUNDS)}")
    calibrated = date.fromisoformat(strict.text(found, "calibrated"))
    instrument, unit = strict.text(found, "instrument"), strict.text(found, "unit")
    return Report(
        strict.digest(found), instrument, calibrated, float(numbers[0]), unit, found["bound"], float(numbers[1])
    )


def waivers_of(contents: Contents) -> list[Waiver]:
    """All waivers of a verified log, expired ones included. ValueError names the line of one that is no waiver."""
    return [_waiver(statement) for statement in contents.statements if statement.predicate_type == WAIVER]


def _waiver(statement: Statement) -> Waiver:
    said = statement.predicate
    try:
        item = text(said, "item")
        if statement.digest != digest_of(item, statement.subject):
            raise strict.Refused(f"the digest of {statement.subject} is that of another subject or item")
        return Waiver(
            item=item,
            subject=statement.subject,
            owner=text(said, "owner"),
            expires=moment(said.get("expires"), "expires"),
            reason=text(said, "reason"),
            signers=statement.signers,
            given=moment(said.get("given"), "given"),
            report=_report(said.get(REPORT)),
            line=statement.line,
        )
    except ValueError as error:
        raise ValueError(f"line {statement.line}: not a waiver: {error}") from None


def counted(
    waivers: Iterable[Waiver],
    register: Register,
    trust: Trust,
    now: datetime,
    *,
    rehearsal: bool,
    subjects: Callable[[Item], Sequence[str]] | None = None,
    asked: Callable[[Item], Collection[str]] | None = None,
) -> tuple[list[Waiver], list[str]]:
    """The waivers that are valid and signed by a key that counts, and a notice for each that is not.

    The rules of the verb hold here as well, whatever wrote the log; ``subjects`` gives those of an item, and
    ``asked`` those of them that a check asks, where they are compared. At go-live the key must
    hold the role ``approver``; in a rehearsal any key that is on file will do.
    """
    valid: list[Waiver] = []
    notices: list[str] = []
    for waiver in waivers:
        name = one_line(f"the waiver of {waiver.item} {waiver.subject} by {waiver.owner}", MAX_TEXT)
        item = register.items.get(waiver.item)
        roles = {role for key in waiver.signers for role in trust.roles(key, rehearsal=rehearsal)}
        if waiver.expires <= now:
            notices.append(f"{name} expired on {waiver.expires:%Y-%m-%d}")
        elif APPROVER_ROLE not in roles and not (rehearsal and roles):
            notices.append(f"{name} does not count: no key of the role {APPROVER_ROLE} signed it")
        elif why := refusal(
            register,
            waiver,
            now,
            subjects(item) if item and subjects else None,
            asked(item) if item and asked else None,
        ):
            notices.append(f"{name} does not count: {why}")
        else:
            valid.append(waiver)
    return valid, notices


def approvers(waivers: Iterable[Waiver], trust: Trust, *, rehearsal: bool) -> int:
    """How many approvers signed waivers, up to two: people with a key and a name (``owner``) of their own. In a rehearsal every
    signer is one. A waiver that two of them signed has the name of neither.
    """
    signed = set()
    for waiver in waivers:
        keys = [key for key in waiver.signers if rehearsal or APPROVER_ROLE in trust.roles(key, rehearsal=False)]
        if len(keys) == 1 and (person := same_person(waiver.owner)):
            signed.add((keys[0], person))
    return min(2, len({key for key, _ in signed}), len({name for _, name in signed}))


def unwaived_errors(findings: Iterable[Finding], waivers: Iterable[Waiver], now: datetime) -> list[Finding]:
    """The error findings that no valid waiver covers. Pass only waivers whose signature counts."""
    valid = [waiver for waiver in waivers if waiver.expires > now]
    return [
        finding
        for finding in findings
        if finding.severity == "error" and not any(w.covers(finding.id, finding.subject) for w in valid)
    ]


def _statement(waiver: Waiver, now: datetime) -> Mapping[str, Any]:
    report = waiver.report
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": waiver.subject, "digest": {"sha256": digest_of(waiver.item, waiver.subject)}}],
        "predicateType": WAIVER,
        "predicate": {
            "schema_version": 1,
            "item": waiver.item,
            "owner": waiver.owner,
            "given": now.isoformat(),
            "expires": waiver.expires.isoformat(),
            "reason": waiver.reason,
            **({REPORT: dataclasses.asdict(report) | {"calibrated": str(report.calibrated)}} if report else {}),
        },
    }
