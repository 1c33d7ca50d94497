"""A node signs the result of its load for itself alone, and at go-live nothing else counts for S034 where host keys are pinned."""

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner

from inventory.site import Site
from tests.validation.bench import (
    DIGEST,
    FROZEN,
    HOST_KEY,
    HOST_KEYS,
    NOW,
    SmallPlan,
    answered,
    halves,
    judged,
    public_of,
    signature,
)
from validation.evidence import Entry, Identity, Record
from validation.evidence.channels import NAMESPACE as CHALLENGE
from validation.evidence.results import NAMESPACE, message_of, signed_result, why_unsigned
from validation.evidence.store import Contents, KeyOwner
from validation.register import Register

ITEM = "S034.measured"
KEYS = frozenset({public_of(HOST_KEY)})


def said(
    device: str = "gpu001",
    *,
    about: str = "",
    site: str = "lab",
    sha256: str = DIGEST,
    at: Any = NOW,
    key: Ed25519PrivateKey = HOST_KEY,
    namespace: str = NAMESPACE,
) -> Identity:
    message = message_of(site, about or device, at, sha256)
    return signed_result(device, message, signature(message, key, namespace))


def record(*identities: Identity, **changes: Any) -> Record:
    given: dict[str, Any] = {"raw_sha256": DIGEST, "identities": identities, **changes}
    return Record("S034", "measured", "gpu001", "PASSED", NOW - timedelta(hours=49), NOW, "test", "1", **given)


def test_a_nodes_own_signature_on_its_result_counts() -> None:
    assert why_unsigned(record(said()), "lab", KEYS) == ""


@pytest.mark.parametrize(
    ("identities", "why"),
    [
        ((), "did not sign"),
        ((said("gpu002"),), "did not sign"),
        ((said("gpu001", about="gpu002"),), "signed for gpu002"),
        ((said(site="other"),), "of the site other"),
        ((said(sha256="cd" * 32),), "another result"),
        ((said(key=Ed25519PrivateKey.generate()),), "no pinned host key"),
        ((said(namespace=CHALLENGE),), "no pinned host key"),
        ((answered("gpu001"),), "did not sign"),
        ((dataclasses.replace(answered("gpu001"), channel="result-signature"),), "no signed result"),
        ((dataclasses.replace(said(), signature=""),), "no pinned host key"),
        ((dataclasses.replace(said(), message=""),), "no signed result"),
        ((said(at=NOW - timedelta(days=2)),), "it was signed at"),
        ((said(at=NOW + timedelta(hours=1)),), "it was signed at"),
        ((said(at=NOW.replace(tzinfo=None)),), "time zone"),
        ((said(at=NOW.replace(year=9999)),), "year"),
    ],
)
def test_what_the_node_did_not_sign_for_itself_counts_for_nothing(identities: tuple[Identity, ...], why: str) -> None:
    assert why in why_unsigned(record(*identities), "lab", KEYS)


def test_a_result_without_raw_output_is_not_signed() -> None:
    assert "another result" in why_unsigned(record(said(), raw_sha256=""), "lab", KEYS)


def test_a_node_without_a_pinned_key_signs_nothing() -> None:
    assert "no pinned host key" in why_unsigned(record(said()), "lab", frozenset())


def with_s034(contents: Contents, *more: Identity, devices: tuple[str, ...] = ("gpu001", "gpu002")) -> Contents:
    """The contents with each S034 record about the raw output that its node signed."""

    def changed(entry: Entry) -> Entry:
        one = entry.record
        if one.item != ITEM or one.subject not in devices:
            return entry
        signed = more or (said(one.subject, at=one.ended),)
        made = dataclasses.replace(one, raw_sha256=DIGEST, identities=(*one.identities, *signed))
        return dataclasses.replace(entry, record=made)

    return dataclasses.replace(contents, entries=tuple(changed(entry) for entry in contents.entries))


@pytest.fixture(scope="module")
def real_contents(
    real_site: Site,
    passing: Callable[..., list[Record]],
    signer: CryptoSigner,
    people: dict[str, CryptoSigner],
) -> Contents:
    """Evidence of devices for every item, signed by the collector and under a freeze."""
    key = signer.public_key.keyid
    made = [Entry(one, frozenset({key}), 1, one.mode) for one in passing(SmallPlan(real_site))]
    approvers = [people[role].public_key.keyid for role in ("approver", "second approver")]
    owners = {key: KeyOwner("collector", "collector")} | {one: KeyOwner("approver", "x") for one in approvers}
    return Contents(tuple(made), halves(FROZEN, *approvers), owners=owners, head_signers=frozenset({key}))


@pytest.fixture
def pinning(real_site: Site) -> SmallPlan:
    """A real site that pins the host keys of its servers."""
    ssh = real_site.credentials.ssh.model_copy(update={"host_keys": "pinned"})
    credentials = real_site.credentials.model_copy(update={"ssh": ssh})
    return SmallPlan(real_site.model_copy(update={"credentials_given": credentials}))


def status(register: Register, plan: SmallPlan, contents: Contents, **rest: Any) -> tuple[str, str]:
    verdict = judged(register, plan, contents, (), NOW, **rest)
    found = next(one for one in verdict.items if one.item == ITEM)
    return found.status, found.detail


def test_the_gate_asks_each_node_for_its_signature(
    register: Register, pinning: SmallPlan, real_contents: Contents
) -> None:
    found, detail = status(register, pinning, real_contents)
    assert (found, "gpu001 did not sign its result" in detail) == ("unproven", True)
    assert status(register, pinning, with_s034(real_contents))[0] == "pass"
    found, detail = status(register, pinning, with_s034(real_contents, devices=("gpu001",)))
    assert (found, "gpu002 did not sign its result" in detail) == ("unproven", True)


def test_a_part_that_one_node_signed_about_another_counts_for_nothing(
    register: Register, pinning: SmallPlan, real_contents: Contents
) -> None:
    """gpu002 signs, with a key that is pinned for it alone, a result that says it is of gpu001."""
    key = Ed25519PrivateKey.generate()
    keys = {**HOST_KEYS, "gpu002": KEYS | {public_of(key)}}
    at = NOW - timedelta(hours=1)
    signed = with_s034(real_contents, said("gpu002", at=at, key=key), devices=("gpu002",))
    assert "gpu001 did not sign" in status(register, pinning, signed, host_keys=keys)[1]
    contents = with_s034(signed, said("gpu001", at=at, key=key), devices=("gpu001",))
    found, detail = status(register, pinning, contents, host_keys=keys)
    assert (found, "no pinned host key of gpu001" in detail) == ("unproven", True)


def test_an_unsigned_pass_does_not_replace_a_counting_failure(
    register: Register, pinning: SmallPlan, real_contents: Contents
) -> None:
    failed = next(e for e in real_contents.entries if (e.record.item, e.record.subject) == (ITEM, "gpu001"))
    first = dataclasses.replace(
        failed, line=0, record=dataclasses.replace(failed.record, result="FAILED", detail="bad")
    )
    contents = dataclasses.replace(real_contents, entries=(first, *real_contents.entries))
    assert status(register, pinning, contents)[0] == "fail"
    assert status(register, pinning, with_s034(contents))[0] == "pass"


def test_a_site_of_first_use_keys_goes_on_as_before(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    assert status(register, SmallPlan(real_site), real_contents)[0] == "pass"


def test_a_rehearsal_asks_for_no_signature(register: Register, pinning: SmallPlan, real_contents: Contents) -> None:
    assert "did not sign" not in status(register, pinning, real_contents, rehearsal=True)[1]
