"""Waivers: a named person accepts a gap until a date; safety is not theirs to accept."""

import dataclasses
from datetime import date, timedelta
from typing import Any

import pytest
from securesystemslib.signer import CryptoSigner

from inventory.findings import Finding
from inventory.site import Site
from tests.validation.bench import NOW, SmallPlan
from tests.validation.test_register import claimed_items
from validation.evidence import Store
from validation.evidence.begun import digest_of
from validation.evidence.store import Contents, Statement
from validation.evidence.trust import Trust
from validation.program import checked_items
from validation.register import Register
from validation.waive import (
    WAIVER,
    Report,
    Waiver,
    WaiverError,
    asked_of,
    counted,
    refusal,
    unwaived_errors,
    waive,
    waivers_of,
)

KEY = "SHA256:" + "K" * 43


def waiver(item: str = "S052.applied", subject: str = "*", **changes: Any) -> Waiver:
    made: dict[str, Any] = {"owner": "Jane", "expires": NOW + timedelta(days=30), "reason": "no LAG here"}
    return Waiver(item, subject, **(made | changes))


def test_a_waiver_is_signed_into_the_log(register: Register, store: Store, signer: CryptoSigner) -> None:
    waive(store, register, waiver(subject="leaf01"), [signer], NOW, known=["leaf01"])
    found = waivers_of(store.verify())
    assert found == [waiver(subject="leaf01", signers=frozenset({signer.public_key.keyid}), given=NOW)]


def test_waivers_and_records_share_the_log(register: Register, store: Store, signer: CryptoSigner, record: Any) -> None:
    store.append([record()], signer)
    waive(store, register, waiver(), [signer], NOW)
    contents = store.verify()
    assert (len(contents.entries), len(contents.statements)) == (1, 1)


@pytest.mark.parametrize(
    ("item", "changes", "message"),
    [
        ("S091.attested", {}, "S091.attested cannot be waived: it is a safety item"),
        ("S034.measured", {}, "S034.measured cannot be waived"),
        ("S195.generated", {}, "S195.generated cannot be waived"),
        ("S999.applied", {}, "the register has no item S999.applied"),
        ("everything", {}, "'everything' is neither an item"),
        ("POWER-FEED-LOS", {}, "no finding POWER-FEED-LOS. Nearest: POWER-FEED-LOSS"),
        ("S052.applied", {"subject": "leaf99"}, "S052.applied has no subject leaf99; it has leaf01"),
        ("S052.applied", {"owner": " "}, "needs an owner and a reason"),
        ("S052.applied", {"reason": ""}, "needs an owner and a reason"),
        ("S052.applied", {"owner": "J. \x1b[2K"}, "has unprintable characters in owner: write one line"),
        ("S052.applied", {"reason": "late\nGO-LIVE"}, "has unprintable characters in reason"),
        ("S052.applied", {"reason": "x" * 2001}, "has reason of 2001 characters, at most 2000 are read"),
        ("A-" * 2000 + "A", {}, "has item of 4001 characters"),
        ("S052.applied", {"expires": NOW}, "would have ended on 2027-03-01"),
        ("S052.applied", {"expires": NOW + timedelta(days=400)}, "would last more than 366 days"),
    ],
)
def test_what_cannot_be_waived_is_refused(
    register: Register, store: Store, signer: CryptoSigner, item: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(WaiverError, match=message):
        waive(store, register, waiver(item, **changes), [signer], NOW, known=["leaf01"])
    assert waivers_of(store.verify()) == []


def test_an_error_finding_is_covered_by_its_waiver_only() -> None:
    findings = [
        Finding("POWER-FEED-LOSS", "error", "r01", "too much"),
        Finding("POWER-FEED-LOSS", "error", "r02", "too much"),
        Finding("SPACE-MASS", "warning", "r01", "heavy"),
    ]
    given = [waiver("POWER-FEED-LOSS", "r01")]
    assert [f.subject for f in unwaived_errors(findings, given, NOW)] == ["r02"]
    assert [f.subject for f in unwaived_errors(findings, given, NOW + timedelta(days=31))] == ["r01", "r02"]
    assert unwaived_errors(findings, [waiver("POWER-FEED-LOSS")], NOW) == []


@pytest.mark.parametrize(
    ("pinned", "enrolled", "rehearsal", "counts"),
    [
        ({"approver"}, "approver", False, True),
        ({"electrician"}, "approver", False, False),
        (set(), "approver", False, False),
        ({"approver"}, "lab", False, False),
        (set(), "lab", True, True),
    ],
)
def test_whose_signature_makes_a_waiver_count(
    register: Register, pinned: set[str], enrolled: str, rehearsal: bool, counts: bool
) -> None:
    trust = Trust({KEY: frozenset(pinned)}, {KEY: enrolled})
    valid, notices = counted([waiver(signers=frozenset({KEY}))], register, trust, NOW, rehearsal=rehearsal)
    assert bool(valid) == counts
    assert bool(notices) != counts


def test_a_role_is_given_to_one_key_each() -> None:
    first, second = KEY, "SHA256:" + "M" * 43
    both = frozenset({"electrician", "safety-officer"})
    trust = Trust({first: both, second: frozenset({"electrician"})}, {first: "electrician", second: "electrician"})
    wanted = ("electrician", "safety-officer")
    assert trust.missing_roles(wanted, frozenset({first, second}), rehearsal=False) == ()
    assert trust.missing_roles(wanted, frozenset({first}), rehearsal=False) == ("safety-officer",)
    assert trust.missing_roles(wanted, frozenset({second}), rehearsal=False) == ("safety-officer",)


@pytest.mark.parametrize(
    ("item", "changes", "why"),
    [
        ("S091.attested", {}, "is a safety item"),
        ("S999.applied", {}, "the register has no item S999.applied"),
        ("S052.applied", {"subject": "leaf99"}, "has no subject leaf99"),
        ("S052.applied", {"owner": " "}, "needs an owner and a reason"),
        ("S052.applied", {"expires": NOW + timedelta(days=400)}, "would last more than 366 days"),
        ("S052.applied", {"given": NOW - timedelta(days=350)}, "would last more than 366 days"),
        ("S052.applied", {"given": NOW + timedelta(days=2)}, "is dated in the future"),
    ],
)
def test_the_gate_counts_no_waiver_that_the_verb_would_refuse(
    register: Register, item: str, changes: dict[str, Any], why: str
) -> None:
    trust = Trust({KEY: frozenset({"approver"})}, {KEY: "approver"})
    forged = waiver(item, signers=frozenset({KEY}), **({"given": NOW} | changes))
    valid, notices = counted([forged], register, trust, NOW, rehearsal=False, subjects=lambda item: ["leaf01"])
    assert valid == []
    assert why in notices[0]


@pytest.mark.parametrize(
    ("calibrated", "why"),
    [
        (date(1, 1, 1), "calibrated on 0001-01-01, more than 731 days before"),
        (NOW.date() - timedelta(days=732), "more than 731 days before"),
        (NOW.date() + timedelta(days=1), "after the waiver was signed"),
        (NOW.date() - timedelta(days=731), ""),
    ],
)
def test_a_report_needs_an_instrument_that_is_calibrated(register: Register, calibrated: date, why: str) -> None:
    """Attested readings need one within two years; a report took one of the year 1."""
    given = waiver("S153.measured", given=NOW, report=dataclasses.replace(REPORT, calibrated=calibrated))
    said = refusal(register, given, NOW)
    assert (said is None) if not why else (said is not None and why in said)


REPORT = Report("ab" * 32, "Fluke 1625", date(2027, 1, 5), 0.8, "ohm", "at most", 1.0)


def test_an_external_report_reads_as_it_was_signed(register: Register, store: Store, signer: CryptoSigner) -> None:
    waive(store, register, waiver("S153.measured", "gpu001", report=REPORT), [signer], NOW, known=["gpu001"])
    assert waivers_of(store.verify())[0].report == REPORT


def test_the_verb_takes_a_report_for_a_subject_that_no_check_asks(
    register: Register, store: Store, signer: CryptoSigner
) -> None:
    given = waiver("S061.applied", "ibl001", report=REPORT)
    with pytest.raises(WaiverError, match="has a check that asks ibl001, so no external report closes it"):
        waive(store, register, given, [signer], NOW, known=["ibl001", "leaf01"], asked=["ibl001", "leaf01"])
    with pytest.raises(WaiverError, match="has a check, so no external report closes it"):
        waive(store, register, given, [signer], NOW, known=["ibl001", "leaf01"])
    all_of_them = dataclasses.replace(given, subject="*")
    with pytest.raises(WaiverError, match="has a check that asks leaf01"):
        waive(store, register, all_of_them, [signer], NOW, known=["ibl001", "leaf01"], asked=["leaf01"])
    waive(store, register, given, [signer], NOW, known=["ibl001", "leaf01"], asked=["leaf01"])
    waive(store, register, all_of_them, [signer], NOW, known=["ibl001"], asked=[])
    assert [one.subject for one in waivers_of(store.verify())] == ["ibl001", "*"]


def test_whom_the_checks_of_an_item_ask_on_a_plan(register: Register, lab_site: Site) -> None:
    plan = SmallPlan(lab_site)
    assert asked_of(register, register.items["S061.applied"], plan) == ["leaf01", "spine01"]
    assert asked_of(register, register.items["S153.measured"], plan) == []
    switches = register.subjects(register.items["S062.measured"], plan)
    assert asked_of(register, register.items["S062.measured"], plan) == switches


@pytest.mark.parametrize(
    "change",
    [
        {"reading": "0.8"},
        {"reading": True},
        {"reading": 10**301},
        {"bound": "about"},
        {"calibrated": "soon"},
        {"sha256": "x"},
        {"more": 1},
        {"unit": 1},
    ],
)
def test_an_external_report_that_is_none_is_named_by_its_line(change: dict[str, Any]) -> None:
    said = {"item": "S153.measured", "owner": "Jane", "reason": "x", "given": NOW.isoformat()}
    report = dataclasses.asdict(REPORT) | {"calibrated": "2027-01-05"} | change
    predicate = {**said, "expires": (NOW + timedelta(days=9)).isoformat(), "external_report": report}
    contents = Contents(
        statements=(Statement(WAIVER, "*", predicate, frozenset(), 7, digest_of("S153.measured", "*")),)
    )
    with pytest.raises(ValueError, match="line 7: not a waiver"):
        waivers_of(contents)


def test_the_registers_checks_are_found_without_importing_them() -> None:
    assert checked_items() == claimed_items()
