"""Attestations: complete forms, pinned keys, and as many people as the item asks for."""

import base64
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from securesystemslib.signer import CryptoSigner

from inventory.site import Site, load_site
from tests.validation.bench import FROZEN, NOW, SmallPlan, form_of, halves, make_key, with_key
from validation import attest, countersignatures, freeze
from validation.approvals import Approved
from validation.attest import AttestError, Signing, countersign, records_of, sign_form, template
from validation.evidence import Store
from validation.evidence.strict import canonical
from validation.register import Register
from validation.verdict import approved, judge

TODAY = datetime(2027, 2, 27, tzinfo=UTC).date()


@pytest.fixture
def plan(real_site: Site) -> SmallPlan:
    return SmallPlan(real_site)


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "evidence")


@pytest.fixture
def form(tmp_path: Path, register: Register) -> Callable[..., Path]:
    """Write a filled-in form; keywords change fields, None leaves one out."""

    def write(item: str = "S091.attested", **changes: Any) -> Path:
        fields: dict[str, Any] = form_of(register.items[item])
        fields |= {"item": item, "subjects": "all", "role": register.items[item].signers[0], "date": TODAY}
        fields |= {"name": "Jane Doe", "outcome": "passed", "expiry": "2030-01-01"} | changes
        path = tmp_path / "form.yaml"
        path.write_text(yaml.safe_dump({k: v for k, v in fields.items() if v is not None}))
        return path

    return write


def status_of(register: Register, plan: SmallPlan, store: Store, item: str) -> tuple[str, str]:
    verdict = judge(register, plan, store.verify(), (), NOW)
    found = next(i for i in verdict.items if i.item == item)
    return found.status, found.detail


Sign = Callable[[Path, str], Signing]
Status = Callable[[str], str]


@pytest.fixture
def sign(register: Register, real_site: Site, plan: SmallPlan, empty: Store, people: dict[str, CryptoSigner]) -> Sign:
    """Sign a form as its first signer, with the key of a role."""
    return lambda path, role: sign_form(register, real_site, plan, path, people[role], empty, NOW)


@pytest.fixture
def status(register: Register, plan: SmallPlan, empty: Store) -> Status:
    """The gate's status of an item by what was signed."""
    return lambda item: status_of(register, plan, empty, item)[0]


def test_two_people_close_a_safety_item(
    register: Register,
    real_site: Site,
    plan: SmallPlan,
    empty: Store,
    form: Callable[..., Path],
    people: dict[str, CryptoSigner],
) -> None:
    first = sign_form(register, real_site, plan, form(), people["electrician"], empty, NOW)
    assert first.lacking == ("safety-officer",)
    assert first.pending is not None
    assert status_of(register, plan, empty, "S091.attested")[0] == "missing"
    done = countersign(register, real_site, first.pending, people["safety-officer"], "Joe Bloggs", empty, NOW)
    assert done.pending is None
    assert not first.pending.exists()
    assert status_of(register, plan, empty, "S091.attested") == (
        "pass",
        "Jane Doe (electrician), 2027-02-27: passed",
    )
    owners = empty.verify().owners or {}
    assert {(o.role, o.owner) for o in owners.values()} == {
        ("electrician", "Jane Doe"),
        ("safety-officer", "Joe Bloggs"),
    }


def test_one_person_closes_an_ordinary_item_for_all_subjects(
    sign: Sign, status: Status, form: Callable[..., Path]
) -> None:
    serials = {"gpu001": "SN-1", "gpu002": "SN-2"}
    done = sign(form("S013.attested", chassis_serial=serials, cpu_serials=serials), "commissioning-agent")
    assert (done.subjects, done.pending) == (("gpu001", "gpu002"), None)
    assert status("S013.attested") == "pass"


def test_a_failed_inspection_is_a_failure(sign: Sign, status: Status, form: Callable[..., Path]) -> None:
    sign(form("S005.attested", outcome="failed"), "commissioning-agent")
    assert status("S005.attested") == "fail"


def test_the_four_approvals_of_go_live_are_tied_to_the_plan(
    register: Register,
    real_site: Site,
    plan: SmallPlan,
    empty: Store,
    form: Callable[..., Path],
    people: dict[str, CryptoSigner],
) -> None:
    roles = register.items["S195.attested"].signers
    approvers = [people[role] for role in ("approver", "second approver")]
    for said, key in zip(halves(FROZEN, *(key.public_key.keyid for key in approvers)), approvers, strict=True):
        empty.enroll(key, "approver", "an approver")
        whole = freeze.statement(FROZEN, "x", NOW)
        empty.append_statements([{**whole, "predicateType": said.predicate_type, "predicate": said.predicate}], key)

    def approve() -> Approved:
        return approved(register, plan, empty.verify(), (), NOW)

    signing = sign_form(register, real_site, plan, form("S195.attested"), people[roles[0]], empty, NOW, approve)
    for role in roles[1:]:
        assert signing.pending is not None
        signing = countersign(register, real_site, signing.pending, people[role], role, empty, NOW)
    assert signing.pending is None
    assert status_of(register, plan, empty, "S195.attested")[0] == "pass"
    other = SmallPlan(real_site, hash="cd" * 32)
    assert status_of(register, other, empty, "S195.attested")[0] == "stale"


def test_a_signed_failure_goes_into_the_log_at_its_first_signature(
    sign: Sign, status: Status, form: Callable[..., Path]
) -> None:
    assert sign(form(outcome="failed"), "electrician").pending is None
    assert status("S091.attested") == "fail"


def test_a_form_from_before_a_failure_is_not_countersigned(
    register: Register,
    real_site: Site,
    empty: Store,
    plan: SmallPlan,
    pending: Path,
    form: Callable[..., Path],
    people: dict[str, CryptoSigner],
) -> None:
    later = NOW + timedelta(hours=1)
    sign_form(register, real_site, plan, form(outcome="failed"), people["electrician"], empty, later)
    with pytest.raises(AttestError, match="S091.attested lab was found failed since, on 2027-03-01 13:00"):
        countersign(register, real_site, pending, people["safety-officer"], "Joe", empty, later)


def test_a_countersigner_states_name_and_outcome_under_the_own_signature(
    register: Register, real_site: Site, empty: Store, pending: Path, people: dict[str, CryptoSigner]
) -> None:
    countersign(register, real_site, pending, people["safety-officer"], "Joe Bloggs", empty, NOW)
    (said,) = [one for one in empty.verify().statements if one.predicate_type == countersignatures.COUNTERSIGNATURE]
    assert said.signers == {people["safety-officer"].public_key.keyid}
    assert [said.predicate[name] for name in ("item", "name", "outcome")] == ["S091.attested", "Joe Bloggs", "PASSED"]


def test_a_countersigner_sees_each_statement_and_its_form(pending: Path, tmp_path: Path) -> None:
    lines = attest.shown(attest.pending_records(pending))
    assert lines[0] == "S091.attested for lab: PASSED"
    assert "  ohm_readings: [1.0]" in lines
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(AttestError, match="not a pending attestation"):
        attest.pending_records(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("item", "changes", "message"),
    [
        ("S091.attested", {"method": None}, "method is empty"),
        ("S091.attested", {"ohm_readings": "", "permit_number": []}, "ohm_readings is empty; permit_number is empty"),
        (
            "S091.attested",
            {"role": "approver"},
            "role is 'approver'; S091.attested is signed by electrician, safety-officer",
        ),
        ("S091.attested", {"outcome": "fine"}, "outcome is 'fine'; it is one of passed, warned, failed"),
        ("S091.attested", {"date": "2027-03-03"}, "date 2027-03-03 lies in the future"),
        ("S091.attested", {"date": "yesterday"}, "date 'yesterday' is not a date of the form YYYY-MM-DD"),
        ("S193.attested", {"expiry": "never"}, "expiry 'never' is not a date of the form YYYY-MM-DD"),
        ("S004.attested", {"instrument": "Fluke 1625", "calibration": None}, "calibration of the instrument is empty"),
        ("S013.attested", {"subjects": ["gpu001", "gpu9"]}, "S013.attested has no subject gpu9; it has gpu001, gpu002"),
        ("S013.attested", {"subjects": []}, "subjects is empty"),
        (
            "S091.attested",
            {"attachments": ["gone.pdf"]},
            "attachment gone.pdf cannot be read: No such file or directory",
        ),
        ("S091.attested", {"attachments": ["a\0b"]}, "cannot be read: embedded null byte"),
        ("S091.attested", {"attachments": 5}, "attachments is 5; write a list of file names"),
    ],
)
def test_an_incomplete_form_is_refused_with_all_that_is_wrong(
    register: Register,
    real_site: Site,
    plan: SmallPlan,
    form: Callable[..., Path],
    item: str,
    changes: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(AttestError) as caught:
        records_of(register, real_site, plan, form(item, **changes), NOW)
    assert message in str(caught.value)


def test_today_may_have_begun_east_of_utc(
    register: Register, real_site: Site, plan: SmallPlan, form: Callable[..., Path]
) -> None:
    """The clock stands at noon in UTC, and at 01:00 of the next day in Auckland."""
    records = records_of(register, real_site, plan, form(date="2027-03-02"), NOW)
    assert {one.result for one in records} == {"PASSED"}


def test_a_licence_that_the_site_asks_for_must_be_given(
    register: Register, real_site: Site, form: Callable[..., Path]
) -> None:
    roles = dict(real_site.attest.roles)
    roles["electrician"] = roles["electrician"].model_copy(update={"licence": "master electrician"})
    site = real_site.model_copy(update={"attest": real_site.attest.model_copy(update={"roles": roles})})
    with pytest.raises(AttestError, match="licence is empty; the site file asks for it: master electrician"):
        records_of(register, site, SmallPlan(site), form(), NOW)
    assert records_of(register, site, SmallPlan(site), form(licence="ME 4711"), NOW)[0].form["licence"] == "ME 4711"


def test_only_attested_items_can_be_attested(
    register: Register, real_site: Site, plan: SmallPlan, tmp_path: Path
) -> None:
    path = tmp_path / "form.yaml"
    path.write_text("item: S001.computed\n")
    with pytest.raises(AttestError, match=r"S001\.computed is not an attested item; did you mean S001\.attested\?"):
        records_of(register, real_site, plan, path, NOW)


BOMB = "\n".join(["a0: &a0 [x]", *(f"a{n + 1}: &a{n + 1} [{', '.join(9 * [f'*a{n}'])}]" for n in range(12))])
"""About 280 thousand million values in half a kilobyte."""


@pytest.mark.parametrize(
    "text",
    [
        "- a list",
        "a: [unclosed",
        "",
        "a: &a [*a]",
        BOMB,
        "item: S091.attested\nmethod: .nan",
        "item: S091.attested\nmethod: [-.inf]",
        "item: S091.attested\n2027-01-01: a date as a name",
        "item: S091.attested\nmethod: {2027-01-01: a date as a name}",
    ],
)
def test_what_is_no_form_is_refused(
    register: Register, real_site: Site, plan: SmallPlan, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "form.yaml"
    path.write_text(text)
    with pytest.raises(AttestError, match="form.yaml"):
        records_of(register, real_site, plan, path, NOW)


def test_attachments_are_kept_by_their_content(
    register: Register,
    real_site: Site,
    plan: SmallPlan,
    empty: Store,
    form: Callable[..., Path],
    people: dict[str, CryptoSigner],
    tmp_path: Path,
) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"pixels")
    path = form("S005.attested", attachments=["photo.jpg"])
    sign_form(register, real_site, plan, path, people["commissioning-agent"], empty, NOW)
    attachment = empty.verify().entries[0].record.attachments[0]
    assert attachment.name == "photo.jpg"
    assert empty.raw(attachment.sha256) == b"pixels"


def test_a_key_that_the_site_does_not_pin_cannot_attest(
    register: Register, real_site: Site, plan: SmallPlan, empty: Store, form: Callable[..., Path]
) -> None:
    with pytest.raises(AttestError, match="is not pinned for electrician"):
        sign_form(register, real_site, plan, form(), make_key(), empty, NOW)
    assert empty.verify().entries == ()


def test_a_key_of_another_role_cannot_attest(
    register: Register,
    real_site: Site,
    plan: SmallPlan,
    empty: Store,
    form: Callable[..., Path],
    people: dict[str, CryptoSigner],
) -> None:
    with pytest.raises(AttestError, match="is not pinned for electrician"):
        sign_form(register, real_site, plan, form(), people["approver"], empty, NOW)


def test_a_lab_key_cannot_attest(
    register: Register,
    real_site: Site,
    plan: SmallPlan,
    empty: Store,
    form: Callable[..., Path],
    people: dict[str, CryptoSigner],
) -> None:
    empty.enroll(people["electrician"], "lab", "lab")
    with pytest.raises(AttestError, match="was issued by a lab and cannot attest"):
        sign_form(register, real_site, plan, form(), people["electrician"], empty, NOW)


@pytest.fixture
def pending(
    register: Register,
    real_site: Site,
    plan: SmallPlan,
    empty: Store,
    form: Callable[..., Path],
    people: dict[str, CryptoSigner],
) -> Path:
    path = sign_form(register, real_site, plan, form(), people["electrician"], empty, NOW).pending
    assert path is not None
    return path


def test_the_same_key_cannot_sign_twice(
    register: Register, real_site: Site, empty: Store, pending: Path, people: dict[str, CryptoSigner]
) -> None:
    with pytest.raises(AttestError, match="this key has signed it already"):
        countersign(register, real_site, pending, people["electrician"], "Jane Doe", empty)


def test_a_pending_attestation_that_is_swapped_for_a_link_writes_no_other_file(
    register: Register,
    real_site: Site,
    plan: SmallPlan,
    empty: Store,
    form: Callable[..., Path],
    people: dict[str, CryptoSigner],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the moment when the second of four signers reads it and that when it waits for the third."""
    first, second, *_ = (people[role] for role in register.items["S195.attested"].signers)
    pending = sign_form(register, real_site, plan, form("S195.attested"), first, empty, NOW).pending
    assert pending is not None
    victim, append = tmp_path / "victim", empty.append_statements
    victim.write_text("own")

    def swapped(*given: Any) -> None:
        append(*given)
        pending.unlink()
        pending.symlink_to(victim)

    monkeypatch.setattr(empty, "append_statements", swapped)
    done = countersign(register, real_site, pending, second, "Joe", empty, NOW)
    assert done.pending == pending
    assert not pending.is_symlink()
    assert victim.read_text() == "own"


def test_the_second_signer_needs_the_role_that_is_lacking(
    register: Register, real_site: Site, empty: Store, pending: Path, people: dict[str, CryptoSigner]
) -> None:
    with pytest.raises(AttestError, match="is not pinned for safety-officer"):
        countersign(register, real_site, pending, people["approver"], "Joe", empty, NOW)


def test_a_pending_attestation_that_was_changed_is_refused(
    register: Register, real_site: Site, empty: Store, pending: Path, people: dict[str, CryptoSigner]
) -> None:
    data = json.loads(pending.read_text())
    payload = base64.b64decode(data["payload"]).replace(b"2027-02-27", b"2027-02-26")
    data["payload"] = base64.b64encode(payload).decode()
    named = pending.with_name(f"S091.attested-{hashlib.sha256(payload).hexdigest()[: attest.NAME_DIGITS]}.json")
    for path, why in (
        (pending, "its name is not that of its content"),
        (named, "it was changed after it had been signed"),
    ):
        path.write_bytes(canonical(data))
        with pytest.raises(AttestError, match=why):
            countersign(register, real_site, path, people["safety-officer"], "Joe", empty, NOW)


def test_what_is_no_pending_attestation_is_refused(
    register: Register, real_site: Site, empty: Store, tmp_path: Path, people: dict[str, CryptoSigner]
) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(AttestError, match="not a pending attestation"):
        countersign(register, real_site, tmp_path / "x.json", people["safety-officer"], "Joe", empty, NOW)


@pytest.mark.parametrize("item", ["S001.attested", "S091.attested", "S195.attested"])
def test_the_template_asks_for_every_field(register: Register, lab_site: Site, item: str) -> None:
    text = template(register, lab_site, item, ["lab"])
    fields = yaml.safe_load(text)
    assert set(register.items[item].form) | {"item", "subjects", "attachments"} == set(fields)
    assert (fields["item"], fields["subjects"], fields["name"]) == (item, ["lab"], None)


def test_run_signs_with_a_key_reference_and_says_what_is_still_needed(
    register: Register,
    real_site: Site,
    plan: SmallPlan,
    form: Callable[..., Path],
    people: dict[str, CryptoSigner],
    signer: CryptoSigner,
    tmp_path: Path,
) -> None:
    real_site = with_key(real_site, tmp_path / "recorder", signer)
    out = StringIO()
    console = Console(file=out, width=200)
    for role in ("electrician", "safety-officer"):
        (tmp_path / role).touch(mode=0o600)
        (tmp_path / role).write_bytes(people[role].private_bytes)
    path = form(date="2026-11-01", calibration="2026-10-01")
    attest.run(real_site, register, plan, tmp_path, key=f"file:{tmp_path / 'electrician'}", form=path, console=console)
    assert "signed S091.attested for lab; it still needs safety-officer" in out.getvalue()
    pending = next((tmp_path / "evidence" / "pending").glob("S091.attested-*.json"))
    key = f"file:{tmp_path / 'safety-officer'}"
    attest.run(real_site, register, plan, tmp_path, key=key, pending=pending, name="Joe", console=console)
    assert "attested S091.attested for lab" in out.getvalue()


# ---- the second signer of a role ---------------------------------------------------------------------------------------


def with_electricians(site: Site, *keys: CryptoSigner) -> Site:
    """The site with these keys pinned for the electrician, of whom it asks a second signer, as the shipped sites do."""
    assert load_site("h100-1000-ib").attest.roles["electrician"].second_signer
    role = (
        load_site("h100-1000-ib")
        .attest.roles["electrician"]
        .model_copy(update={"keys": tuple(key.public_key.keyid for key in keys), "licence": None})
    )
    roles = {**site.attest.roles, "electrician": role}
    return site.model_copy(update={"attest": site.attest.model_copy(update={"roles": roles})})


def test_a_second_signer_of_the_role_is_a_second_key(
    register: Register,
    real_site: Site,
    empty: Store,
    form: Callable[..., Path],
    people: dict[str, CryptoSigner],
) -> None:
    second = make_key()
    site = with_electricians(real_site, people["electrician"], second)
    plan = SmallPlan(site)
    signing = sign_form(register, site, plan, form(), people["electrician"], empty, NOW)
    assert signing.pending is not None
    assert signing.lacking == ("electrician", "safety-officer")
    signing = countersign(register, site, signing.pending, people["safety-officer"], "Joe", empty, NOW)
    assert signing.pending is not None
    assert signing.lacking == ("electrician",)
    with pytest.raises(AttestError, match="this key has signed it already"):
        countersign(register, site, signing.pending, people["electrician"], "Jane again", empty, NOW)
    assert countersign(register, site, signing.pending, second, "Max", empty, NOW).pending is None
    assert status_of(register, plan, empty, "S091.attested")[0] == "pass"


def test_the_gate_asks_for_the_second_signer_of_what_was_signed_without(
    register: Register, real_site: Site, empty: Store, form: Callable[..., Path], people: dict[str, CryptoSigner]
) -> None:
    first = sign_form(register, real_site, SmallPlan(real_site), form(), people["electrician"], empty, NOW)
    assert first.pending is not None
    countersign(register, real_site, first.pending, people["safety-officer"], "Joe", empty, NOW)
    asked = SmallPlan(with_electricians(real_site, people["electrician"]))
    status, detail = status_of(register, asked, empty, "S091.attested")
    assert (status, detail) == ("missing", "lab: no counting signature of electrician, each by another key")
    notices = judge(register, asked, empty.verify(), (), NOW).notices
    assert any(
        "attest.roles.electrician of the site file asks for a second signer and pins one key" in n for n in notices
    )


def test_an_ordinary_item_needs_no_second_signer(register: Register, real_site: Site) -> None:
    roles = {role: holder.model_copy(update={"second_signer": True}) for role, holder in real_site.attest.roles.items()}
    site = real_site.model_copy(update={"attest": real_site.attest.model_copy(update={"roles": roles})})
    assert register.items["S013.attested"].signers_on(site) == ("commissioning-agent",)
    assert register.items["S091.attested"].signers_on(site) == ("electrician",) * 2 + ("safety-officer",) * 2
