"""What stands beside records in a log: the second signer's own statement, subjects of statements, and rows of devices."""

import dataclasses
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from securesystemslib.signer import CryptoSigner

from inventory.findings import Finding
from inventory.findings_registry import registry
from inventory.site import Site
from tests.validation.bench import (
    ASSETS,
    FROZEN,
    HOST_KEYS,
    NOW,
    STORE,
    SmallPlan,
    countersigned,
    form_of,
    frozen,
    halves,
    judged_alone,
    mode_of,
    proven,
    statement_of,
)
from validation import countersignatures, device_identity, freeze
from validation.evidence import Contents, Entry, Record, begun
from validation.evidence.mode import same_person
from validation.evidence.store import KeyOwner, Statement
from validation.forms import began, rows
from validation.freeze import freezes_of, unlike
from validation.register import Register
from validation.verdict import SubjectVerdict
from validation.waive import Waiver, _statement, waivers_of

SAFETY = "S091.attested"
ITEM = "S062.measured"
MakeRecord = Callable[..., Record]


def owners(people: Mapping[str, CryptoSigner], signer: CryptoSigner) -> dict[str, KeyOwner]:
    found = {key.public_key.keyid: KeyOwner(role.removeprefix("second "), role) for role, key in people.items()}
    return found | {signer.public_key.keyid: KeyOwner("collector", "collector")}


@pytest.fixture
def safety(
    register: Register, real_site: Site, record: MakeRecord, people: dict[str, CryptoSigner], signer: CryptoSigner
) -> Callable[..., SubjectVerdict]:
    """What the gate says of a safety item that two people signed; `change` changes what the second one stated."""

    def status(change: Callable[[Statement], Statement | None] = lambda said: said, **form: Any) -> SubjectVerdict:
        item, plan = register.items[SAFETY], SmallPlan(real_site)
        subject = register.subjects(item, plan)[0]
        said = form_of(item) | {"name": "Jane Doe"} | form
        one = record(SAFETY, subject, identities=(), form=said, inputs=rows(plan, subject))
        first, second = (people[role].public_key.keyid for role in item.signers)
        entry, (stated,) = countersigned(Entry(one, frozenset({first, second}), 2, one.mode), second, line=1)
        changed = change(stated)
        log = Contents((entry,), (changed,) if changed else (), owners(people, signer), recorders=frozenset())
        verdict = judged_alone(register, plan, log, (), NOW)
        return next(i for i in verdict.items if i.item == SAFETY).subjects[0]

    return status


def test_a_second_signer_who_stated_it_counts(safety: Callable[..., SubjectVerdict]) -> None:
    assert safety().status == "pass"


def test_a_form_of_a_day_before_the_site_proves_nothing(real_site: Site, safety: Callable[..., SubjectVerdict]) -> None:
    """Written by hand: `bringup attest` would not have signed it."""
    first = began(real_site)
    assert first is not None
    early = (first - timedelta(days=1)).isoformat()
    found = safety(date=early, calibration=early)
    assert (found.status, f"date {early} lies before the first day of the site, {first}" in found.detail) == (
        "fail",
        True,
    )
    assert "schedule.start_date" in found.detail


def test_a_stranger_takes_no_signers_name(register: Register, real_site: Site, record: MakeRecord) -> None:
    """A statement with the second signer's name by a key that did not sign the attestation."""
    subject = register.subjects(register.items[SAFETY], SmallPlan(real_site))[0]
    one = record(SAFETY, subject, identities=(), form=form_of(register.items[SAFETY]), inputs={})
    entry, (stated,) = countersigned(Entry(one, frozenset({"first", "second"}), 2, one.mode), "second", line=1)
    stranger = dataclasses.replace(stated, signers=frozenset({"stranger"}), line=0)
    own = countersignatures.stated(Contents(statements=(stranger, stated)))
    assert countersignatures.counting(own, entry, NOW) == {"second"}


def test_one_statement_that_two_keys_sign_states_for_neither(
    register: Register, real_site: Site, record: MakeRecord
) -> None:
    """Whoever gets two keys to sign one envelope has one name for both."""
    subject = register.subjects(register.items[SAFETY], SmallPlan(real_site))[0]
    one = record(SAFETY, subject, identities=(), form=form_of(register.items[SAFETY]), inputs={})
    keys = frozenset({"first", "second", "third"})
    entry, (stated,) = countersigned(Entry(one, keys, 2, one.mode), "second", line=1)
    both = dataclasses.replace(stated, signers=frozenset({"second", "third"}))
    assert countersignatures.counting(countersignatures.stated(Contents(statements=(both,))), entry, NOW) == frozenset()
    beside = dataclasses.replace(stated, signers=frozenset({"second", "a recorder"}))
    assert countersignatures.counting(countersignatures.stated(Contents(statements=(beside,))), entry, NOW) == {
        "second"
    }


CHANGES: Mapping[str, Callable[[Statement], Statement | None]] = {
    "no statement": lambda said: None,
    "of another item": lambda said: with_said(said, item="S092.attested"),
    "of another outcome": lambda said: with_said(said, outcome="FAILED"),
    "of another attestation": lambda said: dataclasses.replace(said, digest="ab" * 32),
    "behind the attestation": lambda said: dataclasses.replace(said, line=2),
    "before the form was signed": lambda said: with_said(said, at=(NOW - timedelta(days=9)).isoformat()),
    "of a day to come": lambda said: with_said(said, at=(NOW + timedelta(days=1)).isoformat()),
    "by a name that nobody sees": lambda said: with_said(said, name="\u200b\u2800"),
    "by the first signer's name": lambda said: with_said(said, name="JANE  doe"),
    "signed by another key": lambda said: dataclasses.replace(said, signers=frozenset({"SHA256:" + "x" * 43})),
}


def with_said(said: Statement, **changes: Any) -> Statement:
    return dataclasses.replace(said, predicate={**said.predicate, **changes})


@pytest.mark.parametrize("change", CHANGES)
def test_a_second_signature_alone_closes_no_safety_item(safety: Callable[..., SubjectVerdict], change: str) -> None:
    found = safety(CHANGES[change])
    assert found.status == "missing"
    assert "each after the first states name, time and outcome under their own signature" in found.detail
    assert "bringup attest --countersign" in found.detail


@pytest.mark.parametrize("name", ["Jane Doe", "Carol"])
def test_one_key_under_two_names_is_one_signer(
    safety: Callable[..., SubjectVerdict], people: dict[str, CryptoSigner], name: str
) -> None:
    """The second signer signed the form alone: what the first one's key states beside it is not theirs."""
    mine = frozenset({people["electrician"].public_key.keyid})
    assert safety(lambda said: dataclasses.replace(with_said(said, name=name), signers=mine)).status == "missing"


def test_what_one_key_states_thousands_of_times_is_heard_a_few_times(
    register: Register, real_site: Site, record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record of a form was compared with all that its signers stated of the form."""
    compared: list[str] = []

    def counted(name: str) -> str:
        compared.append(name)
        return same_person(name)

    monkeypatch.setattr(countersignatures, "same_person", counted)
    subject = register.subjects(register.items[SAFETY], SmallPlan(real_site))[0]
    one = record(SAFETY, subject, identities=(), form=form_of(register.items[SAFETY]), inputs={})
    entry, (stated,) = countersigned(Entry(one, frozenset({"first", "second"}), 999, one.mode), "second", line=998)
    mine = dataclasses.replace(stated, signers=frozenset({"first"}), line=1)
    own = countersignatures.stated(Contents(statements=(*(with_said(mine, name=f"J{n}") for n in range(500)), stated)))
    for _ in range(50):
        assert countersignatures.counting(own, entry, NOW) == {"second"}
    assert len(compared) <= 50 * (1 + 2 * (countersignatures.SAID_OF_ONE_KEY + 1))


def test_the_first_signers_key_takes_no_name_of_another(
    register: Register, real_site: Site, record: MakeRecord
) -> None:
    subject = register.subjects(register.items[SAFETY], SmallPlan(real_site))[0]
    one = record(SAFETY, subject, identities=(), form=form_of(register.items[SAFETY]), inputs={})
    entry, (stated,) = countersigned(Entry(one, frozenset({"first", "second"}), 9, one.mode), "second", line=8)
    mine = dataclasses.replace(stated, signers=frozenset({"first"}), line=1)
    assert countersignatures.counting(countersignatures.stated(Contents(statements=(mine, stated))), entry, NOW) == {
        "second"
    }


@pytest.mark.parametrize("role", ["safety-officer", "approver", "nobody"])
def test_a_first_signer_has_the_role_that_the_form_names(safety: Callable[..., SubjectVerdict], role: str) -> None:
    """Of two people who sign, each has a role of their own."""
    assert safety(role=role).status in ("missing", "fail")


@pytest.mark.parametrize(
    "changes", [{"outcome": "GOOD"}, {"name": " "}, {"name": 1}, {"at": "soon"}, {"at": "2027-01-01T00:00:00"}]
)
def test_a_countersignature_that_is_none_is_named_by_its_line(changes: dict[str, Any]) -> None:
    said = countersignatures.statement(b"x", "lab", SAFETY, "Joe", NOW, "PASSED")
    broken = with_said(statement_of(said, frozenset(), 7), **changes)
    with pytest.raises(ValueError, match="line 7: not a countersignature"):
        countersignatures.stated(Contents(statements=(broken,)))


# ---- subjects of statements ---------------------------------------------------------------------------------------------
WAIVED = Waiver("S052.applied", "leaf01", "Jane", NOW + timedelta(days=9), "no LAG here")
TYPES: Mapping[str, tuple[Mapping[str, Any], Callable[[Contents], object], str]] = {
    "waiver": (_statement(WAIVED, NOW), waivers_of, "not a waiver: the digest of leaf01"),
    "begun": (
        begun.statement(ITEM, "leaf01", "begun", NOW, "run"),
        begun.begun_checks,
        "not a check that has begun: the digest of leaf01",
    ),
    "freeze": (
        freeze.statement(FROZEN, "Jane", NOW),
        lambda contents: freezes_of(contents, NOBODY),
        "not a freeze: its digest or its site is that of another freeze",
    ),
    "second half": (
        freeze.second(FROZEN, "Jane", NOW),
        lambda contents: freezes_of(contents, NOBODY),
        "not a freeze: its digest",
    ),
}


class _Nobody:
    pinned: Mapping[str, frozenset[str]] = {}


NOBODY: Any = _Nobody()


@pytest.mark.parametrize("kind", TYPES)
def test_a_statement_about_another_subject_than_it_names_breaks_the_log(kind: str) -> None:
    said, read, why = TYPES[kind]
    whole = statement_of(said, frozenset(), 7)
    read(Contents(statements=(whole,)))
    with pytest.raises(ValueError, match=f"line 7: {why}"):
        read(Contents(statements=(dataclasses.replace(whole, digest="ab" * 32),)))


# ---- findings about safety ----------------------------------------------------------------------------------------------
def test_no_waiver_accepts_a_finding_about_safety(
    register: Register, real_site: Site, people: dict[str, CryptoSigner], signer: CryptoSigner
) -> None:
    overload = Finding("POWER-CIRCUIT", "error", "cb-r01-a", "47 A on 40 A")
    dark = Finding("POWER-FEED-LOSS", "error", "r01", "too few supplies")
    keys = [people[role].public_key.keyid for role in ("approver", "second approver")]
    given = [
        Waiver(one.id, one.subject, "Jane", NOW + timedelta(days=9), "later", frozenset({key}), NOW, line=1)
        for one in (overload, dark)
        for key in keys
    ]
    log = Contents((), halves(FROZEN, *keys), owners(people, signer), recorders=frozenset())
    verdict = judged_alone(register, SmallPlan(real_site, findings=(overload, dark)), log, given, NOW)
    assert [one.id for one in verdict.errors] == ["POWER-CIRCUIT"]
    assert any(reason.startswith("POWER-CIRCUIT cb-r01-a") for reason in verdict.reasons)
    assert any("POWER-CIRCUIT cannot be waived: it is about safety" in notice for notice in verdict.notices)


def test_findings_about_safety_can_be_errors() -> None:
    about_safety = {id_ for id_, entry in registry().items() if entry.safety}
    assert {"POWER-CIRCUIT", "POWER-FAULT-LEVEL", "SPACE-FLOOR-LOAD", "POWER-PDU-RATING"} <= about_safety
    assert all("error" in registry()[id_].severity for id_ in about_safety)


# ---- rows of devices ----------------------------------------------------------------------------------------------------
@pytest.fixture
def measured(
    register: Register, real_site: Site, record: MakeRecord, people: dict[str, CryptoSigner], signer: CryptoSigner
) -> Callable[..., dict[str, tuple[str, str]]]:
    """What the gate says of S062 of two switches, when assets.csv or known_hosts have changed."""

    def status(change: Callable[[Record], Record] = lambda one: one, **rest: Any) -> dict[str, tuple[str, str]]:
        key = frozenset({signer.public_key.keyid})
        made = [change(record(ITEM, name, identities=proven(name))) for name in ("leaf01", "spine01")]
        entries = tuple(Entry(one, key, 2, one.mode) for one in made)
        keys = [people[role].public_key.keyid for role in ("approver", "second approver")]
        log = Contents(entries, halves(FROZEN, *keys), owners(people, signer), head_signers=key, recorders=key)
        verdict = judged_alone(register, SmallPlan(real_site), log, (), NOW, **rest)
        found = next(i for i in verdict.items if i.item == ITEM)
        return {one.subject: (one.status, one.detail) for one in found.subjects}

    return status


def test_a_row_that_changes_makes_records_of_its_device_alone_stale(
    measured: Callable[..., dict[str, tuple[str, str]]],
) -> None:
    both = measured()
    assert {both[name][0] for name in ("leaf01", "spine01")} == {"pass"}
    added = {**ASSETS, "leaf01": (*ASSETS["leaf01"], "one-more")}
    told = measured(asset_ids=added)
    assert told["leaf01"][0] == "stale"
    assert told["leaf01"][1].startswith("assets.csv#leaf01 changed since")
    assert told["spine01"][0] == "pass"
    rekeyed = {**HOST_KEYS, "leaf01": HOST_KEYS["leaf01"] | {"another key"}}
    told = measured(host_keys=rekeyed)
    assert told["leaf01"][1].startswith("known_hosts#leaf01 changed since")
    assert told["spine01"][0] == "pass"
    parts = {**ASSETS, "leaf01:swp1": ("ab" * 8,)}
    assert measured(asset_ids=parts)["leaf01"][0] == "stale", "a part belongs to its device"


def test_a_record_that_names_no_rows_is_stale(measured: Callable[..., dict[str, tuple[str, str]]]) -> None:
    def without(one: Record) -> Record:
        said = {name: what for name, what in one.configuration.items() if name != device_identity.DEVICES}
        return dataclasses.replace(one, configuration=said)

    status, why = measured(without)["leaf01"]
    assert status == "stale"
    assert why.startswith("assets.csv, known_hosts changed since")


def test_a_gate_with_other_devices_than_the_freeze_says_so() -> None:
    swapped = device_identity.digests_of({**ASSETS, "gpu001": ("SN-other",)}, HOST_KEYS)
    today = frozen(devices=swapped)
    assert unlike(FROZEN, today) == ["devices assets.csv#gpu001: changed"]
    earlier = dataclasses.replace(FROZEN, parts={k: v for k, v in FROZEN.parts.items() if k != "devices"})
    assert freeze.parsed(earlier.said) == earlier, "a freeze of an earlier version stays readable"
    assert unlike(earlier, FROZEN), "and asks for a new one"


def test_order_and_case_of_identifiers_are_the_same_row() -> None:
    one = device_identity.digests_of({"gpu001": ("SN-1", "b8:59")}, {"gpu001": {"k1", "k2"}})
    assert one == device_identity.digests_of({"gpu001": ("B8:59", "", "sn-1")}, {"gpu001": ["k2", "k1"]})


# ---- the store of a challenge -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("device", ["gpu001", "leaf01"])
def test_a_challenge_of_another_store_proves_nothing(device: str) -> None:
    """The same site, the same key, the same day: a log of its own."""
    assert mode_of(proven(device), store=STORE) == "real"
    assert mode_of(proven(device), store="6" * 32) == "unproven"
