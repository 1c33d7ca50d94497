"""The gate: what closes an item, what does not, and what it says."""

import copy
import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from securesystemslib.signer import CryptoSigner

from capacity.build import build
from inventory.findings import Finding, Remedy
from inventory.site import Site
from inventory.site.effective import Origin
from inventory.site.sections.acceptance import Limit
from inventory.site.yaml_source import Path as KeyPath
from tests.plans import plan_of
from tests.validation.bench import (
    ASSETS,
    DIGEST,
    FROZEN,
    HOST_KEYS,
    NOW,
    STORE,
    SmallPlan,
    countersigned,
    frozen,
    halves,
    identity,
    make_key,
    proven,
    simulated,
    statement_of,
)
from tests.validation.bench import judged as judge
from tests.validation.recordings import made
from validation import gate
from validation.countersignatures import COUNTERSIGNATURE
from validation.evidence import Contents, Entry, IntegrityError, Record, Store, begun
from validation.evidence.store import KeyOwner, Statement
from validation.evidence.trust import open_store, pinned_keys, trust_of
from validation.forms import rows
from validation.gate_report import as_json, print_verdict, render_page
from validation.junit import junit_of
from validation.limits import limit_inputs
from validation.next_steps import todo
from validation.program import checks_of_items
from validation.register import SAFETY_ROLE, Register, load_register, of_platform
from validation.training_story import tell
from validation.verdict import CLOSED, GATE_ITEM, ItemVerdict, SubjectVerdict, Verdict, approved
from validation.waive import Report, Waiver

MakeRecord = Callable[..., Record]
LAB_KEY = "SHA256:" + "L" * 43
LAB_OWNERS = {LAB_KEY: KeyOwner("lab", "lab")}


def entries(records: Sequence[Record], signers: frozenset[str] = frozenset({LAB_KEY})) -> tuple[Entry, ...]:
    return tuple(Entry(record, signers, 1, record.mode) for record in records)


def rehearse(register: Register, plan: SmallPlan, records: Sequence[Record], **rest: Any) -> Verdict:
    contents = Contents(entries(records), owners=LAB_OWNERS)
    return judge(register, plan, contents, rest.pop("waivers", ()), NOW, rehearsal=True, **rest)


def item_of(verdict: Verdict, name: str) -> ItemVerdict:
    return next(item for item in verdict.items if item.item == name)


@pytest.fixture(scope="module")
def plan(lab_site: Site) -> SmallPlan:
    return SmallPlan(lab_site)


@pytest.fixture(scope="module")
def lab_records(plan: SmallPlan, passing: Callable[..., list[Record]]) -> list[Record]:
    return passing(plan, lab=True)


@pytest.fixture(scope="module")
def real_contents(
    real_site: Site,
    passing: Callable[..., list[Record]],
    signer: CryptoSigner,
    people: dict[str, CryptoSigner],
    register: Register,
) -> Contents:
    """Evidence for every item, from real devices, signed with the keys that the site pins."""
    made: list[Entry] = []
    stated: list[Statement] = []
    for record in passing(SmallPlan(real_site)):
        signers = register.items[record.item].signers
        keys = [key.public_key.keyid for key in [people[role] for role in signers] or [signer]]
        entry, statements = countersigned(Entry(record, frozenset(keys), 1, record.mode), *keys[1:])
        made.append(entry)
        stated += statements
    owners = {key.public_key.keyid: KeyOwner(role, role) for role, key in people.items()}
    owners[signer.public_key.keyid] = KeyOwner("collector", "collector")
    approvers = [people[role].public_key.keyid for role in ("approver", "second approver")]
    recorder = frozenset({signer.public_key.keyid})
    contents = Contents(
        tuple(made), (*halves(FROZEN, *approvers), *stated), owners=owners, head_signers=recorder, store=STORE
    )
    return approving(register, SmallPlan(real_site), contents)


def approving(
    register: Register, plan: SmallPlan, contents: Contents, waivers: Sequence[Waiver] = (), now: datetime = NOW
) -> Contents:
    """The contents with approvals of go-live that are signed over them and these waivers, in the last line."""
    before = changed(contents, "S195.attested", lambda entry: None)
    said = approved(register, plan, before, waivers, now, asset_ids=ASSETS, host_keys=HOST_KEYS)
    return changed(
        contents,
        "S195.attested",
        lambda e: dataclasses.replace(
            with_record(
                e, inputs=said.inputs, configuration={**e.record.configuration, **said.configuration}, ended=now
            ),
            line=2,
        ),
    )


def changed(contents: Contents, item: str, change: Callable[[Entry], Entry | None]) -> Contents:
    """The contents with each entry of one item replaced, or left out for None."""
    made = [change(entry) if entry.record.item == item else entry for entry in contents.entries]
    return dataclasses.replace(contents, entries=tuple(entry for entry in made if entry))


def with_record(entry: Entry, **changes: Any) -> Entry:
    record = dataclasses.replace(entry.record, **changes)
    return dataclasses.replace(entry, record=record, mode=record.mode)


def assuming(site: Site, *paths: KeyPath, confirmed: tuple[str, ...] = ()) -> Site:
    """The site as if these values came from a reference design, and all others stood in its file."""
    made = site.model_copy(update={"confirmed": confirmed})
    origins = dict.fromkeys(site.effective.origins, Origin("given", "site file"))
    origins |= dict.fromkeys(paths, Origin("reference", "planning figure", "some-design"))
    made._effective = dataclasses.replace(site.effective, origins=origins)
    return made


# -- go-live ----------------------------------------------------------------------------------------------------------


def test_complete_real_evidence_allows_go_live(register: Register, real_site: Site, real_contents: Contents) -> None:
    verdict = judge(register, SmallPlan(real_site), real_contents, (), NOW)
    assert (verdict.word, verdict.exit_code, verdict.reasons) == ("GO-LIVE", 0, ())
    assert set(verdict.counts) == {"pass", "not_applicable"}
    assert len(verdict.items) == 325


def test_an_example_site_never_goes_live(register: Register, real_site: Site, real_contents: Contents) -> None:
    example = real_site.model_copy(update={"example": True})
    verdict = judge(register, SmallPlan(example), real_contents, (), NOW)
    assert (verdict.word, verdict.exit_code) == ("NO GO-LIVE", 1)
    assert verdict.reasons == ("the site file says example: true, and an example site never goes live",)


BISECTION: KeyPath = ("fabric", "bisection")


def test_what_rests_on_an_assumption_does_not_count_for_go_live(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    verdict = judge(register, SmallPlan(assuming(real_site, BISECTION)), real_contents, (), NOW)
    found = item_of(verdict, "S036.computed")
    assert found.status == "assumed"
    assert "rests on fabric.bisection, which nobody has confirmed" in found.detail
    assert (verdict.word, verdict.exit_code) == ("NO GO-LIVE", 1)
    assert any("rest on assumptions nobody has confirmed" in reason for reason in verdict.reasons)
    assert item_of(verdict, "S091.attested").status == "pass"


@pytest.mark.parametrize("confirmed", ["fabric.bisection", "fabric"])
def test_a_confirmed_assumption_counts(
    register: Register, real_site: Site, real_contents: Contents, confirmed: str
) -> None:
    site = assuming(real_site, BISECTION, confirmed=(confirmed,))
    verdict = judge(register, SmallPlan(site), real_contents, (), NOW)
    assert (verdict.word, verdict.exit_code) == ("GO-LIVE", 0)


def test_a_measurement_judged_by_an_assumed_limit_is_assumed(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    limit = next(iter(real_site.limits))
    inputs = limit_inputs(real_site.limits, {limit})
    contents = changed(
        real_contents,
        "S062.measured",
        lambda entry: with_record(entry, inputs={**entry.record.inputs, **inputs}),
    )
    site = assuming(real_site, ("limits", limit, "value"))
    assert item_of(judge(register, SmallPlan(site), contents, (), NOW), "S062.measured").status == "assumed"
    assert item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S062.measured").status == "pass"


def test_a_rehearsal_lists_what_is_assumed_and_does_not_fail_by_it(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    verdict = rehearse(register, SmallPlan(assuming(plan.site, BISECTION)), lab_records)
    assert verdict.counts["assumed"] > 0
    assert (verdict.word, verdict.exit_code) == ("REHEARSAL PASSED", 0)
    page = StringIO()
    print_verdict(verdict, register, Console(file=page, width=160))
    assert "assumed" in page.getvalue()


def test_without_evidence_every_item_is_missing(register: Register, real_site: Site) -> None:
    verdict = judge(register, SmallPlan(real_site), Contents(), (), NOW)
    assert set(verdict.counts) == {"missing", "not_applicable"}
    assert verdict.exit_code == 1


def test_a_limit_in_a_record_is_compared_with_the_sites_own(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    key, limit = next(iter(real_site.limits.items()))

    def status(value: float) -> str:
        given = {"limit": value, "limit_source": f"site limits.{key}: {limit.source}"}
        contents = changed(real_contents, "S062.measured", lambda entry: with_record(entry, **given))
        return item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S062.measured").status

    assert status(limit.value) == "pass"
    assert status(limit.value * 2 + 1) == "stale"


@pytest.mark.parametrize(
    "change",
    [{"aliases": {"leaf01": ("SN-leaf01", "SN-gone")}}, {"aliases": {"leaf09": ("SN-leaf09",)}}],
)
def test_what_the_asset_list_no_longer_lists_makes_a_record_stale(
    register: Register, real_site: Site, real_contents: Contents, change: dict[str, Any]
) -> None:
    contents = changed(real_contents, "S062.measured", lambda entry: with_record(entry, **change))
    found = item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S062.measured")
    assert found.status == "stale"
    assert "assets.csv listed SN-" in found.detail


def test_a_record_about_a_device_that_it_did_not_touch_is_unproven(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    contents = changed(real_contents, "S062.measured", lambda entry: with_record(entry, identities=proven("spine01")))
    found = {
        s.subject: s.status
        for s in item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S062.measured").subjects
    }
    assert found["leaf01"] == "unproven"
    assert found["spine01"] == "pass"


def test_what_no_check_can_prove_is_listed_apart(register: Register, real_site: Site) -> None:
    checked = checks_of_items()
    assert {"S062.measured", "S084.applied"} <= set(checked)
    assert {name for name in checked if not of_platform(name)} <= set(register.items)
    verdict = judge(register, SmallPlan(real_site), Contents(), (), NOW, checked=checked)
    split = as_json(verdict, register)["missing"]
    assert "S062.measured" in split["evidence"]
    assert "S091.attested" in split["evidence"]
    assert split["no_check"]
    assert not set(split["no_check"]) & set(checked)
    page = render_page(verdict, register)
    assert "no check can prove it yet" in page
    tiles = page.split('<div class="tiles">')[1].split("<h2>")[0]
    for key, words in (("evidence", "missing: only the evidence"), ("no_check", "missing: no check yet")):
        assert f"{len(split[key])}</b><span>{words}" in tiles


def test_each_blocker_says_who_must_do_what(register: Register, real_site: Site, real_contents: Contents) -> None:
    failed = changed(real_contents, "S062.measured", lambda entry: with_record(entry, result="FAILED"))
    lost = changed(failed, "S091.attested", lambda entry: None)
    verdict = judge(register, SmallPlan(real_site), lost, (), NOW)
    rows = todo(verdict, register)
    who = {item: (row.who, row.what) for row in rows for item in row.items}
    assert set(who) == {one.item for one in verdict.items if one.status not in CLOSED}
    assert who["S062.measured"] == ("who runs the site", "do what the reason says, then run the checks again")
    assert rows[0].items == ("S062.measured",), "failures come first"
    assert who["S091.attested"][0] == " and ".join(register.items["S091.attested"].signers)
    assert "bringup attest --template ITEM" in who["S091.attested"][1]
    for said in (render_page(verdict, register), shown(verdict, register)):
        assert "do what the reason says" in said
    assert {"who": rows[0].who, "what": rows[0].what, "items": ["S062.measured"]} in as_json(verdict, register)["todo"]


def lines(verdict: Verdict, register: Register) -> dict[str, tuple[str, str]]:
    """Who must do what, by item."""
    return {item: (row.who, row.what) for row in todo(verdict, register) for item in row.items}


def test_who_signs_is_named_once_for_each_role_on_this_site(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    safety = next(one for one in register.items.values() if SAFETY_ROLE in one.signers)
    role = safety.signers[0]
    roles = real_site.attest.roles
    own = roles[role].model_copy(update={"second_signer": True, "keys": (*roles[role].keys, "ab" * 32)})
    site = real_site.model_copy(update={"attest": real_site.attest.model_copy(update={"roles": {**roles, role: own}})})
    lost = changed(real_contents, safety.id, lambda entry: None)
    who = lines(judge(register, SmallPlan(site), lost, (), NOW), register)
    assert who[safety.id][0].startswith(f"{role} (2 people)")
    assert who[safety.id][0].count(role) == 1
    assert "bringup attest --countersign FILE" in who[safety.id][1]


def test_a_role_that_pins_too_few_keys_has_a_line_of_its_own(register: Register, real_site: Site) -> None:
    roles = {role: one for role, one in real_site.attest.roles.items() if role not in ("electrician", "recorder")}
    roles["approver"] = roles["approver"].model_copy(update={"keys": roles["approver"].keys[:1]})
    site = real_site.model_copy(update={"attest": real_site.attest.model_copy(update={"roles": roles})})
    verdict = judge(register, SmallPlan(site), Contents(), (), NOW)
    rows = todo(verdict, register)
    pinned = {row.what.split(" for ")[1].split(":")[0]: row for row in rows if row.what.startswith("pin ")}
    assert set(pinned) == {"electrician", "recorder", "approver"}
    assert {row.who for row in pinned.values()} == {"who writes the site file"}
    assert "attest.roles.electrician.keys" in pinned["electrician"].what
    asked = {one.id for one in register.items.values() if "electrician" in one.signers_on(site)}
    assert set(pinned["electrician"].items) <= asked
    assert pinned["recorder"].items == (GATE_ITEM,)


def test_a_freeze_that_is_missing_or_of_something_else_has_a_line(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    bare = dataclasses.replace(real_contents, statements=())
    rows = todo(judge(register, SmallPlan(real_site), bare, (), NOW), register)
    assert (rows[0].who, rows[0].what) == (
        "two approvers",
        "sign a freeze, each of the two: bringup freeze SITE --as NAME --key KEY",
    )
    other = frozen(limits={"x": "1"})
    rows = todo(judge(register, SmallPlan(real_site), real_contents, (), NOW, today=other), register)
    assert "freeze anew" in rows[0].what


def test_a_run_that_never_ended_and_errors_of_the_plan_have_lines(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    error = Finding("POWER-BREAKER", "error", "cb-r01-a", "too small")
    said = begun.statement("S062.measured", "leaf01", "begun", NOW, "run")
    last = max(entry.line for entry in real_contents.entries) + 1
    started = statement_of(said, next(iter(real_contents.entries)).signers, last)
    waits = dataclasses.replace(real_contents, statements=(*real_contents.statements, started))
    verdict = judge(register, SmallPlan(real_site, findings=(error,)), waits, (), NOW)
    rows = todo(verdict, register)
    assert (rows[0].who, rows[0].items) == ("who writes the site file", ("POWER-BREAKER cb-r01-a",))
    assert "bringup plan SITE" in rows[0].what
    assert "pytest validation --site SITE" in lines(verdict, register)["S062.measured"][1]
    assert "never ended" in lines(verdict, register)["S062.measured"][1]


def test_devices_without_a_pinned_key_have_a_line(register: Register, real_site: Site, real_contents: Contents) -> None:
    keys = {name: one for name, one in HOST_KEYS.items() if name != "leaf01"}
    verdict = judge(register, SmallPlan(real_site), real_contents, (), NOW, host_keys=keys)
    who = lines(verdict, register)["S062.measured"]
    assert (who[0], "known_hosts" in who[1], "bringup boot enrol SITE SERVER FILE" in who[1]) == (
        "who runs the site",
        True,
        True,
    )


def test_what_has_no_check_is_for_approvers_and_the_rest_for_who_runs_the_checks(
    register: Register, real_site: Site
) -> None:
    verdict = judge(register, SmallPlan(real_site), Contents(), (), NOW, checked=checks_of_items())
    who = {item: row.who for row in todo(verdict, register) for item in row.items}
    assert {who[item] for item in verdict.no_check} == {"two approvers"}
    asked = {one.item for one in verdict.items if one.status == "missing"} - set(verdict.no_check)
    assert {who[item] for item in asked if not item.endswith("attested")} == {"who runs the checks", "nobody"}


def test_a_go_live_leaves_nobody_anything_to_do(register: Register, real_site: Site, real_contents: Contents) -> None:
    verdict = judge(register, SmallPlan(real_site), real_contents, (), NOW)
    assert verdict.word == "GO-LIVE"
    assert todo(verdict, register) == []
    assert "Who must do what" not in render_page(verdict, register)


INFINIBAND = re.compile(
    r"\b(infiniband|sharp|ufm|opensm|p_keys?|guids?|quantum|ibsim|ndr|lid|(subnet.manager|virtual.lane|service.level)s?)\b",
    re.I,
)


def test_the_whole_output_of_a_roce_site_is_in_the_words_of_ethernet(register: Register) -> None:
    verdict = judge(register, plan_of("b200-256-roce"), Contents(), (), NOW, checked=checks_of_items())
    said = [
        *json.dumps(as_json(verdict, register), indent=0).splitlines(),
        *render_page(verdict, register).splitlines(),
    ]
    assert [line for line in said if INFINIBAND.search(line)] == []


def test_what_is_missing_of_a_roce_fabric_is_named(register: Register) -> None:
    verdict = judge(register, plan_of("b200-256-roce"), Contents(), (), NOW, checked=checks_of_items())
    assert "S060.applied" in verdict.no_check  # the takeover of a subnet manager is InfiniBand's
    assert item_of(verdict, "S062.measured").detail == (
        "leaf01: no evidence (and 13 more of 14); no check asks rol001, rol002, rol003 and 7 more yet"
    )
    assert item_of(verdict, "S059.observed").detail == "leaf01: no evidence (and 13 more of 14)"
    assert item_of(verdict, "S061.applied").detail == "leaf01: no evidence (and 13 more of 14)"


@pytest.mark.parametrize(
    ("item", "change", "status", "detail"),
    [
        ("S062.measured", {"result": "FAILED", "detail": "swapped"}, "fail", "ibl001: swapped (and 3 more of 4)"),
        ("S062.measured", {"result": "FAILED"}, "fail", "ibl001: failed without a word (and 3 more of 4)"),
        ("S062.measured", {"identities": simulated("leaf01")}, "simulated", "declares itself simulated"),
        ("S062.measured", {"identities": ()}, "unproven", "names no device that it touched"),
        ("S062.measured", {"identities": (identity("x"),)}, "unproven", "it touched x, and not"),
        ("S062.measured", {"replayed": True}, "unproven", "comes from a recording or an import"),
        ("S062.measured", {"inputs": {"site.fabric": "00" * 32}}, "stale", "site.fabric changed since 2027-03-01"),
        ("S034.measured", {"inputs": {"site.versions": "00" * 32}}, "stale", "site.versions changed since 2027-0"),
        ("S066.measured", {"inputs": {"frame.cables": "00" * 32}}, "stale", "frame.cables changed since 2027-0"),
        ("S062.measured", {"inputs": {"site.gone": DIGEST}}, "stale", "site.gone changed since"),
        ("S062.measured", {"ended": NOW + timedelta(hours=1)}, "fail", "dated in the future"),
        ("S036.computed", {"inputs": {}}, "stale", "does not say which inputs it was made from"),
        ("S034.measured", {"started": NOW - timedelta(hours=48)}, "fail", "47 h is below the floor of 48 h"),
        ("S054.measured", {"value": 8971}, "fail", "8971 B is below the floor of 8972 B"),
        ("S054.measured", {"value": None}, "fail", "its value None is not a number"),
        ("S054.measured", {"value": True}, "fail", "its value True is not a number"),
        ("S091.attested", {"form": {}}, "missing", "the form lacks name, role, asset"),
        ("S193.attested", {"form": {"expiry": "2027-02-28"}}, "stale", "it expired on 2027-02-28"),
        ("S193.attested", {"form": {"expiry": "soon"}}, "stale", "it expired on soon"),
        (
            "S062.measured",
            {"limit": 1, "limit_source": "site limits.x", "limit_frozen": NOW},
            "fail",
            "its limit was fixed after the run had begun",
        ),
    ],
)
def test_what_does_not_count_blocks_go_live(
    register: Register,
    real_site: Site,
    real_contents: Contents,
    item: str,
    change: dict[str, Any],
    status: str,
    detail: str,
) -> None:
    contents = changed(real_contents, item, lambda entry: with_record(entry, **change))
    verdict = judge(register, SmallPlan(real_site), contents, (), NOW)
    found = item_of(verdict, item)
    assert found.status == status
    assert detail in found.detail
    assert (verdict.word, verdict.exit_code) == ("NO GO-LIVE", 1)
    assert item_of(verdict, "S195.generated").status == "missing"


@pytest.mark.parametrize(
    ("item", "changes", "why"),
    [
        ("S091.attested", {"outcome": "failed"}, "its form says 'failed', its result PASSED"),
        ("S091.attested", {"outcome": "Passed"}, "its form says 'Passed', its result PASSED"),
        ("S091.attested", {"outcome": "warned"}, "its form says 'warned', its result PASSED"),
        ("S091.attested", {"outcome": "not applicable"}, "its form says 'not applicable', its result PASSED"),
        ("S091.attested", {"outcome": ["passed"]}, "its form says \"['passed']\", its result PASSED"),
        ("S091.attested", {"outcome": {"passed": "no"}}, "its result PASSED"),
        ("S091.attested", {"date": "2099-01-01"}, "date 2099-01-01 lies after the signature of 2027-0"),
        ("S091.attested", {"role": "approver"}, "role is 'approver'; S091.attested is signed by electrician, safety"),
        ("S091.attested", {"role": ["electrician"]}, "role is ['electrician']; S091.attested is signed by"),
        ("S004.attested", {"instrument": "Fluke 1625", "calibration": ""}, "calibration of the instrument is empty"),
        (
            "S078.attested",
            {"autonomy_min": 0.5},
            "autonomy_min of lab is 0.5, and ups.autonomy_min of the site file is",
        ),
        ("S013.attested", {"chassis_serial": "SN-gpu999"}, "is SN-gpu999, and assets.csv does not list it"),
    ],
)
def test_a_signed_form_that_belies_its_record_or_the_plan_has_failed(
    register: Register,
    real_site: Site,
    real_contents: Contents,
    item: str,
    changes: dict[str, Any],
    why: str,
) -> None:
    """Whoever holds a pinned key can write a record by hand, past `bringup attest`."""
    belied = changed(real_contents, item, lambda one: with_record(one, form=dict(one.record.form) | changes))
    verdict = judge(register, SmallPlan(real_site), belied, (), NOW)
    found = item_of(verdict, item)
    assert (found.status, verdict.exit_code) == ("fail", 1), found.detail
    assert why in found.detail


def test_an_attestation_that_names_no_row_of_its_circuit_is_stale(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    """Else whoever writes it by hand would never have it become stale."""
    bare = changed(real_contents, "S085.attested", lambda one: with_record(one, inputs={}))
    found = item_of(judge(register, SmallPlan(real_site), bare, (), NOW), "S085.attested")
    assert (found.status, "it does not say what row.circuits.cb-r01-a was" in found.detail) == ("stale", True)
    assert [one.status for one in found.subjects] == ["stale", "stale"]


def test_a_form_that_warns_passes_as_a_warning(register: Register, real_site: Site, real_contents: Contents) -> None:
    item = "S091.attested"
    form = {"outcome": "warned"}
    said = changed(real_contents, item, lambda one: with_record(one, result="WARNED", form={**one.record.form, **form}))
    assert item_of(judge(register, SmallPlan(real_site), said, (), NOW), item).status == "missing", "another outcome"
    stated = [
        dataclasses.replace(one, predicate={**one.predicate, "outcome": "WARNED"})
        if one.predicate_type == COUNTERSIGNATURE
        else one
        for one in said.statements
    ]
    said = dataclasses.replace(said, statements=tuple(stated))
    assert item_of(judge(register, SmallPlan(real_site), said, (), NOW), item).status == "pass"


@pytest.mark.parametrize(
    ("item", "changes", "why"),
    [
        (
            "S078.attested",
            {"autonomy_min": 0.5},
            "autonomy_min of lab is 0.5, and ups.autonomy_min of the site file is",
        ),
        ("S013.attested", {"chassis_serial": "SN-gpu999"}, "is SN-gpu999, and assets.csv does not list it"),
        ("S085.attested", {"trip_test": "failed at 5 In"}, "outcome is warned, and trip_test failed"),
    ],
)
def test_a_form_that_warns_is_compared_like_one_that_passes(
    register: Register, real_site: Site, real_contents: Contents, item: str, changes: dict[str, Any], why: str
) -> None:
    """A warning closes an item: `warned` took another breaker, another serial and a failed test past the gate."""
    form = {"outcome": "warned", **changes}
    said = changed(real_contents, item, lambda one: with_record(one, result="WARNED", form={**one.record.form, **form}))
    found = item_of(judge(register, SmallPlan(real_site), said, (), NOW), item)
    assert found.status == "fail"
    assert why in found.detail


def test_a_signed_reading_other_than_the_row_of_the_plan_has_failed(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    small = SmallPlan(real_site)
    small = dataclasses.replace(small, circuits=small.circuits.assign(breaker_a=60))

    def judged_with(rating_a: float) -> ItemVerdict:
        def read(one: Entry) -> Entry:
            form, inputs = {**one.record.form, "rating_a": rating_a}, rows(small, one.record.subject)
            return with_record(one, form=form, inputs=inputs)

        said = changed(real_contents, "S085.attested", read)
        return item_of(judge(register, small, said, (), NOW), "S085.attested")

    assert judged_with(60).status == "pass"
    assert judged_with(1).status == "fail"
    assert "rating_a of cb-r01-a is 1, and the plan has a breaker of 60 A" in judged_with(1).detail


@pytest.mark.parametrize(
    ("item", "days", "status"),
    [
        ("S062.measured", 89, "pass"),
        ("S062.measured", 91, "stale"),
        ("S061.applied", 29, "pass"),
        ("S061.applied", 31, "stale"),
        ("S140.observed", 6, "pass"),
        ("S140.observed", 8, "stale"),
        ("S036.computed", 2000, "pass"),
        ("S001.attested", 2000, "pass"),
    ],
)
def test_evidence_ages_by_its_kind(
    register: Register, real_site: Site, real_contents: Contents, item: str, days: int, status: str
) -> None:
    then = NOW - timedelta(days=days)

    def aged(entry: Entry) -> Entry:
        said = entry.record.identities
        form = dict(entry.record.form) | (
            {"date": f"{then:%Y-%m-%d}", "calibration": None} if entry.record.form else {}
        )
        found = proven(said[0].device, then) if said else ()
        return with_record(entry, started=then, ended=then, identities=found, form=form)

    contents = changed(real_contents, item, aged)
    began = real_site.schedule.model_copy(update={"start_date": then.date()})
    site = real_site.model_copy(update={"schedule": began})
    assert item_of(judge(register, SmallPlan(site), contents, (), NOW), item).status == status


def test_one_subject_without_evidence_keeps_the_item_open(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    contents = changed(real_contents, "S034.measured", lambda e: e if e.record.subject != "gpu002" else None)
    found = item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S034.measured")
    assert (found.status, found.detail) == ("missing", "gpu002: no evidence (of 2)")
    assert [(s.subject, s.status) for s in found.subjects] == [("gpu002", "missing"), ("gpu001", "pass")]


def test_a_subject_that_the_plan_does_not_have_changes_nothing(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    stray = next(e for e in real_contents.entries if e.record.item == "S034.measured")
    contents = dataclasses.replace(
        real_contents, entries=(*real_contents.entries, with_record(stray, subject="gpu999", result="FAILED"))
    )
    assert judge(register, SmallPlan(real_site), contents, (), NOW).word == "GO-LIVE"


def test_the_newest_record_decides(register: Register, real_site: Site, real_contents: Contents) -> None:
    old = next(e for e in real_contents.entries if (e.record.item, e.record.subject) == ("S062.measured", "leaf01"))
    earlier = old.record.ended - timedelta(minutes=1)  # by its own clock; the order of the log decides
    newer = dataclasses.replace(with_record(old, result="FAILED", detail="swapped", ended=earlier), line=2)
    for order in ((old, newer), (newer, old)):
        rest = [e for e in real_contents.entries if e is not old]
        contents = dataclasses.replace(real_contents, entries=(*rest, *order))
        assert item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S062.measured").status == "fail"


def test_of_two_records_of_the_same_moment_the_failed_one_decides(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    old = next(e for e in real_contents.entries if (e.record.item, e.record.subject) == ("S062.measured", "leaf01"))
    failed = with_record(old, result="FAILED", detail="swapped")
    for order in ((old, failed), (failed, old)):
        rest = [e for e in real_contents.entries if e is not old]
        contents = dataclasses.replace(real_contents, entries=(*rest, *order))
        assert item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S062.measured").status == "fail"


def test_equal_parts_of_records_are_judged_alike_as_one_object_or_as_many(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    """The memory of a log has equal inputs and identities as one object, a full reading has many."""
    objects: dict[str, Any] = {}

    def one(part: Any) -> Any:
        return objects.setdefault(repr(part), part)

    def with_equal_parts_as_one_object(entry: Entry) -> Entry:
        inputs, identities = one(entry.record.inputs), one(entry.record.identities)
        return dataclasses.replace(
            entry, record=dataclasses.replace(entry.record, inputs=inputs, identities=identities)
        )

    many = [dataclasses.replace(e, record=copy.deepcopy(e.record)) for e in real_contents.entries]
    few = [with_equal_parts_as_one_object(e) for e in many]
    assert len({id(e.record.inputs) for e in few}) < len(few) / 2
    approvers = [people[role].public_key.keyid for role in ("approver", "second approver")]
    # after this freeze every record of a check is stale, what people attest is not
    later = halves(frozen(checks={}), *approvers, line=5)
    for more in ((), later):
        statements = (*real_contents.statements, *more)
        verdicts = [
            judge(
                register,
                SmallPlan(real_site),
                dataclasses.replace(real_contents, entries=tuple(made), statements=statements),
                (),
                NOW,
            )
            for made in (few, many)
        ]
        assert verdicts[0] == verdicts[1]
        assert ("stale" in verdicts[0].counts) is bool(more)


def test_a_replaced_device_makes_only_its_own_evidence_stale(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    assets = {**ASSETS, "leaf01": ("SN-new",)}
    verdict = judge(register, SmallPlan(real_site), real_contents, (), NOW, asset_ids=assets)
    found = item_of(verdict, "S062.measured")
    assert [(s.subject, s.status) for s in found.subjects[:2]] == [("leaf01", "stale"), ("ibl001", "pass")]
    assert found.detail.startswith("leaf01: leaf01 was b8:59:9f:00:00:04 then, which the inventory does not list")


def test_a_plan_error_blocks_go_live_until_it_is_waived(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    ways = (Remedy({"rack.servers": 2}, "rack.servers: 2"), Remedy({}, "a larger feed"))
    message = "feed B cannot carry the rack. Fix: rack.servers: 2, or a larger feed."
    finding = Finding("POWER-FEED-LOSS", "error", "r01", message, remedies=ways)
    plan = SmallPlan(real_site, findings=(finding,))
    verdict = judge(register, plan, real_contents, (), NOW)
    assert verdict.exit_code == 1
    untried = "a larger feed, or a remedy that bringup plan prints for it: that verb tries each"
    assert verdict.reasons[0] == f"POWER-FEED-LOSS r01: feed B cannot carry the rack. Fix: {untried}."
    signers = frozenset({people["approver"].public_key.keyid})
    waiver = Waiver("POWER-FEED-LOSS", "r01", "Jane", NOW + timedelta(days=9), "cap set", signers)
    contents = approving(register, plan, real_contents, [waiver])
    assert judge(register, plan, contents, [waiver], NOW).word == "GO-LIVE"


# -- signatures -------------------------------------------------------------------------------------------------------


def signed_by(*keys: CryptoSigner) -> Callable[[Entry], Entry]:
    return lambda entry: dataclasses.replace(entry, signers=frozenset(key.public_key.keyid for key in keys))


def test_a_safety_item_needs_both_signers(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    contents = changed(real_contents, "S091.attested", signed_by(people["electrician"]))
    found = item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S091.attested")
    assert (found.status, found.detail) == (
        "missing",
        "lab: no counting signature of safety-officer, each by another key",
    )


def test_one_key_with_two_roles_is_not_two_signers(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    key = people["electrician"]
    roles = dict(real_site.attest.roles)
    roles["safety-officer"] = roles["safety-officer"].model_copy(update={"keys": (key.public_key.keyid,)})
    site = real_site.model_copy(update={"attest": real_site.attest.model_copy(update={"roles": roles})})
    contents = changed(real_contents, "S091.attested", signed_by(key))
    assert item_of(judge(register, SmallPlan(site), contents, (), NOW), "S091.attested").status == "missing"


def test_a_key_that_the_site_does_not_pin_does_not_count(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    stranger = make_key()
    contents = changed(real_contents, "S062.measured", signed_by(stranger))
    owners = {**(real_contents.owners or {}), stranger.public_key.keyid: KeyOwner("collector", "me")}
    contents = dataclasses.replace(contents, owners=owners)
    found = item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S062.measured")
    assert found.status == "simulated"
    assert "not signed with a key that attest.roles.collector of the site file pins" in found.detail


def test_a_pinned_key_that_a_lab_issued_does_not_count(
    register: Register, real_site: Site, real_contents: Contents, signer: CryptoSigner
) -> None:
    owners = {**(real_contents.owners or {}), signer.public_key.keyid: KeyOwner("lab", "lab")}
    contents = dataclasses.replace(real_contents, owners=owners)
    verdict = judge(register, SmallPlan(real_site), contents, (), NOW)
    assert item_of(verdict, "S062.measured").status == "simulated"
    assert verdict.exit_code == 1


def test_a_key_that_collects_and_records_is_named(register: Register, real_site: Site) -> None:
    """Whoever holds it can cut a failure out of the log."""

    def notices(site: Site) -> list[str]:
        verdict = judge(register, SmallPlan(site), Contents(), (), NOW)
        return [one for one in verdict.notices if "can cut or reorder the log" in one]

    roles = real_site.attest.roles
    (said,) = notices(real_site)
    assert said.startswith(roles["collector"].keys[0])
    apart = roles | {"recorder": roles["recorder"].model_copy(update={"keys": (make_key().public_key.keyid,)})}
    attest = real_site.attest.model_copy(update={"roles": apart})
    assert notices(real_site.model_copy(update={"attest": attest})) == []


def test_a_role_without_a_pinned_key_is_named(register: Register, lab_site: Site, real_site: Site) -> None:
    notices = judge(register, SmallPlan(lab_site), Contents(), (), NOW).notices
    assert "attest.roles.safety-officer of the site file pins no key, so 4 attested items cannot be closed" in notices
    complete = judge(register, SmallPlan(real_site), Contents(), (), NOW).notices
    assert not [one for one in complete if "cannot be closed" in one]


# -- waivers ----------------------------------------------------------------------------------------------------------


def test_a_waiver_closes_an_item_until_it_expires(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    contents = changed(real_contents, "S052.applied", lambda entry: None)
    signers = frozenset({people["approver"].public_key.keyid})
    waiver = Waiver("S052.applied", "*", "Jane", NOW + timedelta(days=30), "routed to the host", signers)
    contents = approving(register, SmallPlan(real_site), contents, [waiver])
    verdict = judge(register, SmallPlan(real_site), contents, [waiver], NOW)
    assert verdict.word == "GO-LIVE"
    detail = item_of(verdict, "S052.applied").detail
    assert detail == "leaf01: Jane until 2027-03-31: routed to the host (was missing) (and 1 more of 2)"
    later = judge(register, SmallPlan(real_site), contents, [waiver], NOW + timedelta(days=31))
    assert item_of(later, "S052.applied").status == "missing"
    assert "the waiver of S052.applied * by Jane expired on 2027-03-31" in later.notices


def test_of_many_waivers_some_owners_are_named_and_the_rest_counted(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    contents = changed(real_contents, "S052.applied", lambda entry: None)
    signers = frozenset({people["approver"].public_key.keyid})
    waivers = [
        Waiver("S052.applied", "leaf01", f"owner {number}", NOW + timedelta(days=30), "routed", signers)
        for number in range(2000)
    ]
    found = item_of(judge(register, SmallPlan(real_site), contents, waivers, NOW), "S052.applied")
    detail = next(one.detail for one in found.subjects if one.subject == "leaf01")
    assert "owner 0, and owner 1, and owner 2, and owner 3, and 1996 more until" in detail


def test_a_waiver_for_one_subject_covers_only_that(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    contents = changed(real_contents, "S052.applied", lambda entry: None)
    signers = frozenset({people["approver"].public_key.keyid})
    waiver = Waiver("S052.applied", "leaf01", "Jane", NOW + timedelta(days=30), "why", signers)
    found = item_of(judge(register, SmallPlan(real_site), contents, [waiver], NOW), "S052.applied")
    assert (found.status, found.subjects[0].subject) == ("missing", "spine01")


@pytest.mark.parametrize("item", ["S091.attested", "S095.generated", "S034.measured", "S195.attested"])
def test_what_cannot_be_waived_stays_open(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner], item: str
) -> None:
    contents = changed(real_contents, item, lambda entry: None)
    signers = frozenset({people["approver"].public_key.keyid})
    waiver = Waiver(item, "*", "Jane", NOW + timedelta(days=30), "why", signers)
    assert item_of(judge(register, SmallPlan(real_site), contents, [waiver], NOW), item).status == "missing"


def test_a_waiver_counts_only_with_the_signature_of_an_approver(
    register: Register, real_site: Site, real_contents: Contents, signer: CryptoSigner
) -> None:
    contents = changed(real_contents, "S052.applied", lambda entry: None)
    signers = frozenset({signer.public_key.keyid})
    waiver = Waiver("S052.applied", "*", "Jane", NOW + timedelta(days=30), "why", signers)
    verdict = judge(register, SmallPlan(real_site), contents, [waiver], NOW)
    assert verdict.exit_code == 1
    assert any("does not count: no key of the role approver signed it" in one for one in verdict.notices)


def test_a_failed_item_is_waived_by_two_approvers(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner], signer: CryptoSigner
) -> None:
    contents = changed(
        real_contents,
        "S052.applied",
        lambda e: with_record(e, result="FAILED"),
    )
    one, other = people["approver"].public_key.keyid, signer.public_key.keyid
    roles = dict(real_site.attest.roles)
    roles["approver"] = roles["approver"].model_copy(update={"keys": (*roles["approver"].keys, other)})
    site = real_site.model_copy(update={"attest": real_site.attest.model_copy(update={"roles": roles})})

    def judged(*signers: tuple[set[str], str]) -> str:
        given = [
            Waiver("S052.applied", "*", name, NOW + timedelta(days=30), "why", frozenset(keys), NOW, line=3)
            for keys, name in signers
        ]
        return item_of(judge(register, SmallPlan(site), contents, given, NOW), "S052.applied").status

    assert judged() == judged(({one}, "Jane")) == judged(({one}, "Jane"), ({one}, "Joe")) == "fail"
    assert judged(({one}, "Jane"), ({other}, "Joe")) == "waived"
    assert judged(({one, other}, "Jane")) == "fail", "the second key says nothing of its own"
    assert judged(({one}, "Jane"), ({other}, " JANE")) == "fail", "one person with two keys"
    assert judged(({one, other}, "Jane"), ({one}, "Joe")) == "fail", "whose name Jane is, nobody can say"


def test_a_waiver_from_before_a_failure_is_no_second_approver_of_it(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    """It was signed for an item that was missing: the other approver alone would waive the failure."""
    first = next(entry for entry in real_contents.entries if entry.record.item == "S052.applied")
    subject = first.record.subject

    def judged(failed: Sequence[int], *waived: int) -> SubjectVerdict:
        """Failures and waivers by approver and second approver, by their lines."""
        contents = real_contents
        for line in failed:
            contents = after(contents, "S052.applied", line=line, result="FAILED")
        given = [
            Waiver("S052.applied", subject, r, NOW + timedelta(days=30), "why", frozenset({key}), NOW, line=line)
            for r, key, line in zip(
                ("approver", "second approver"),
                (people[r].public_key.keyid for r in ("approver", "second approver")),
                waived,
                strict=True,
            )
        ]
        found = item_of(judge(register, SmallPlan(real_site), contents, given, NOW), "S052.applied")
        return next(one for one in found.subjects if one.subject == subject)

    assert judged([5], 3, 6).status == "fail"
    assert "waived by 1 of 2 approvers since it failed in line 5" in judged([5], 3, 6).detail
    assert judged([5], 6, 7).status == "waived"
    assert judged([5, 8], 6, 7).status == "waived", "it was not better in between"


def test_an_attestation_signed_before_a_failure_does_not_replace_it(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    """Whoever signs last can keep a form back, and bring it when the first signer has found the asset faulty since."""
    item = "S091.attested"

    def status(failed_at: timedelta, passed_at: timedelta) -> str:
        def of(age: timedelta) -> dict[str, datetime]:
            return {"started": NOW - age, "ended": NOW - age}

        failed = after(real_contents, item, line=3, result="FAILED", detail="no continuity", **of(failed_at))
        both = after(failed, item, line=4, **of(passed_at))
        return item_of(judge(register, SmallPlan(real_site), both, (), NOW), item).status

    assert status(timedelta(hours=3), timedelta(hours=2)) == "pass"
    assert status(timedelta(hours=2), timedelta(hours=3)) == "fail"
    assert status(-timedelta(days=3), timedelta(hours=3)) == "pass", "a failure dated ahead holds up no later pass"


# -- external reports -------------------------------------------------------------------------------------------------

UNCHECKED = "S153.measured"
REPORT = Report(DIGEST, "Fluke 1625, serial 7", date(2027, 1, 5), 0.8, "ohm", "at most", 1.0)


def reporting(report: Report, *keys: CryptoSigner, item: str = UNCHECKED) -> list[Waiver]:
    end = NOW + timedelta(days=30)
    return [
        Waiver(item, "*", f"the holder of {name}", end, "measured by others", frozenset({name}), NOW, report)
        for name in (key.public_key.keyid for key in keys)
    ]


def test_two_approvers_close_an_item_without_a_check_by_an_external_report(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    one, other = people["approver"], people["second approver"]
    contents = changed(real_contents, UNCHECKED, lambda entry: None)
    for keys in ((one,), (one, one)):
        found = item_of(judge(register, SmallPlan(real_site), contents, reporting(REPORT, *keys), NOW), UNCHECKED)
        assert found.status == "missing"
        assert "needs 2 approvers" in found.detail
    two_readings = [*reporting(REPORT, one), *reporting(dataclasses.replace(REPORT, reading=0.7), other)]
    assert item_of(judge(register, SmallPlan(real_site), contents, two_readings, NOW), UNCHECKED).status == "missing"
    both = reporting(REPORT, one, other)
    verdict = judge(
        register, SmallPlan(real_site), approving(register, SmallPlan(real_site), contents, both), both, NOW
    )
    assert (verdict.word, verdict.counts["external"]) == ("GO-LIVE", 1)
    assert "0.8 ohm, at most 1 ohm (Fluke 1625, serial 7, calibrated 2027-01-05)" in item_of(verdict, UNCHECKED).detail
    page = StringIO()
    print_verdict(verdict, register, Console(file=page, width=300))
    assert "1 by external report" in page.getvalue()
    assert "by external report" in render_page(verdict, register)


def test_an_external_report_closes_the_part_that_a_check_does_not_cover(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    part = dataclasses.replace(register.items["S062.measured"], partial="light levels")
    partly = dataclasses.replace(register, items={**register.items, "S062.measured": part})
    plan = SmallPlan(real_site)
    assert item_of(judge(partly, plan, real_contents, (), NOW), "S062.measured").status == "partial"
    one = reporting(REPORT, people["approver"], item="S062.measured")
    assert item_of(judge(partly, plan, real_contents, one, NOW), "S062.measured").status == "partial"
    both = reporting(REPORT, people["approver"], people["second approver"], item="S062.measured")
    verdict = judge(partly, plan, approving(partly, plan, real_contents, both), both, NOW)
    assert (verdict.word, item_of(verdict, "S062.measured").status) == ("GO-LIVE", "external")
    assert "does not cover: light levels" in item_of(verdict, "S062.measured").detail
    failed = changed(real_contents, "S062.measured", lambda entry: with_record(entry, result="FAILED"))
    assert item_of(judge(partly, plan, failed, both, NOW), "S062.measured").status == "fail"
    never = changed(real_contents, "S062.measured", lambda entry: None)
    assert item_of(judge(partly, plan, never, both, NOW), "S062.measured").status == "missing"
    junit = junit_of(as_json(verdict, register))
    assert 'failures="0"' in junit


def test_a_waiver_of_one_asset_leaves_the_others_partial(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    part = dataclasses.replace(register.items["S062.measured"], partial="light levels")
    partly = dataclasses.replace(register, items={**register.items, "S062.measured": part})
    without = dataclasses.replace(
        real_contents,
        entries=tuple(
            entry
            for entry in real_contents.entries
            if (entry.record.item, entry.record.subject) != ("S062.measured", "leaf01")
        ),
    )
    key = frozenset({people["approver"].public_key.keyid})
    waiver = Waiver("S062.measured", "leaf01", "Jane", NOW + timedelta(days=30), "replaced soon", key, NOW)
    verdict = judge(partly, SmallPlan(real_site), without, (waiver,), NOW)
    assert item_of(verdict, "S062.measured").status == "partial"


@pytest.mark.parametrize(
    ("item", "change", "why"),
    [
        ("S062.measured", {}, "has a check"),
        ("S001.attested", {}, "no item that an external report closes"),
        ("POWER-FEED-LOSS", {}, "no item that an external report closes"),
        ("S034.measured", {}, "cannot be waived"),
        (UNCHECKED, {"reading": 1.2}, "does not keep its limit"),
        (UNCHECKED, {"reading": float("nan")}, "does not keep its limit"),
        (UNCHECKED, {"calibrated": date(2028, 1, 1)}, "after the waiver was signed"),
        (UNCHECKED, {"instrument": " "}, "needs an instrument"),
    ],
)
def test_an_external_report_closes_nothing_else(
    register: Register,
    real_site: Site,
    real_contents: Contents,
    people: dict[str, CryptoSigner],
    item: str,
    change: dict[str, Any],
    why: str,
) -> None:
    keys = (people["approver"], people["second approver"])
    contents = changed(real_contents, item, lambda entry: None)
    given = reporting(dataclasses.replace(REPORT, **change), *keys, item=item)
    verdict = judge(register, SmallPlan(real_site), contents, given, NOW)
    assert any(why in notice for notice in verdict.notices)
    assert "external" not in verdict.counts


FOR_SOME = "S061.applied"
"""Its checks ask in-band switches and switches of RoCE fabrics; nobody asks an InfiniBand switch."""


def without_subject(contents: Contents, item: str, subject: str) -> Contents:
    left = (one for one in contents.entries if (one.record.item, one.record.subject) != (item, subject))
    return dataclasses.replace(contents, entries=tuple(left))


@pytest.mark.parametrize("partial", ["", "the boot loader"])
def test_an_external_report_closes_a_subject_that_no_check_asks(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner], partial: str
) -> None:
    item = dataclasses.replace(register.items[FOR_SOME], partial=partial)
    some = dataclasses.replace(register, items={**register.items, FOR_SOME: item})
    both = reporting(REPORT, people["approver"], people["second approver"], item=FOR_SOME)

    def status(subject: str, waivers: Sequence[Waiver]) -> tuple[str, list[str]]:
        left = without_subject(real_contents, FOR_SOME, subject)
        verdict = judge(some, SmallPlan(real_site), left, waivers, NOW)
        found = next(one for one in item_of(verdict, FOR_SOME).subjects if one.subject == subject)
        return found.status, [text for text in verdict.notices if FOR_SOME in text]

    about = {name: [dataclasses.replace(one, subject=name) for one in both] for name in ("ibl001", "leaf01")}
    assert status("ibl001", about["ibl001"]) == ("external", [])
    assert status("ibl001", about["ibl001"][:1])[0] == "missing"
    assert status("leaf01", about["leaf01"])[0] == "missing"
    assert status("leaf01", both)[0] == "missing"
    if not partial:
        assert "has a check that asks leaf01" in status("leaf01", about["leaf01"])[1][0]
        assert (
            "has a check that asks leaf01 and spine01, so no external report closes it" in status("ibl001", both)[1][0]
        )


# -- approvals of go-live ---------------------------------------------------------------------------------------------

APPROVAL = "S195.attested"


def approval_of(register: Register, site: Site, contents: Contents, *waivers: Waiver, now: datetime = NOW) -> str:
    found = item_of(judge(register, SmallPlan(site), contents, waivers, now), APPROVAL)
    return f"{found.status}: {found.detail}" if found.status != "pass" else "pass"


def after(contents: Contents, item: str, line: int = 3, **changes: Any) -> Contents:
    """The contents with one more record of the first subject of an item, in a line behind the approvals."""
    first = next(entry for entry in contents.entries if entry.record.item == item)
    more = dataclasses.replace(with_record(first, **changes), line=line)
    return dataclasses.replace(contents, entries=(*contents.entries, more))


def test_a_newer_pass_leaves_the_approvals_valid(register: Register, real_site: Site, real_contents: Contents) -> None:
    contents = after(real_contents, "S062.measured", detail="again")
    assert approval_of(register, real_site, contents) == "pass"
    assert judge(register, SmallPlan(real_site), contents, (), NOW).word == "GO-LIVE"


@pytest.mark.parametrize("item", ["S062.measured", "S036.computed", "S091.attested"])
def test_approvals_before_the_evidence_do_not_cover_it(
    register: Register, real_site: Site, real_contents: Contents, item: str
) -> None:
    """Four people approved what was there then: neither they nor anybody else saw the pass that came later."""
    early = approving(register, SmallPlan(real_site), changed(real_contents, item, lambda entry: None))
    passed = [dataclasses.replace(one, line=3) for one in real_contents.entries if one.record.item == item]
    contents = dataclasses.replace(early, entries=(*early.entries, *passed))
    assert item_of(judge(register, SmallPlan(real_site), contents, (), NOW), item).status == "pass"
    assert "had not passed when it was signed (it did in line 3)" in approval_of(register, real_site, contents)
    assert judge(register, SmallPlan(real_site), contents, (), NOW).exit_code == 1


def test_a_failure_after_the_approvals_makes_them_stale_even_if_it_passes_again(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    failed = after(real_contents, "S062.measured", result="FAILED", detail="swapped")
    again = after(failed, "S062.measured", line=4)
    for contents in (failed, again):
        assert "S062.measured leaf01 failed after the approvals (line 3)" in approval_of(register, real_site, contents)


def test_a_new_waiver_makes_the_approvals_stale(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    signers = frozenset({people["approver"].public_key.keyid})
    waiver = Waiver("S052.applied", "*", "Jane", NOW + timedelta(days=30), "why", signers)
    said = approval_of(register, real_site, real_contents, waiver)
    assert "the waiver of S052.applied * by Jane was not approved" in said
    approved_too = approving(register, SmallPlan(real_site), real_contents, [waiver])
    assert approval_of(register, real_site, approved_too, waiver) == "pass"
    changed_since = dataclasses.replace(waiver, reason="another")
    assert "was not approved" in approval_of(register, real_site, approved_too, changed_since)


def test_another_freeze_makes_the_approvals_stale(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    approvers = [people[role].public_key.keyid for role in ("approver", "second approver")]
    more = halves(frozen(limits={"x": "cd" * 32}), *approvers, line=5)
    contents = dataclasses.replace(real_contents, statements=(*real_contents.statements, *more))
    assert "another freeze is in force" in approval_of(register, real_site, contents)


def test_a_lost_record_makes_the_approvals_stale(register: Register, real_site: Site, real_contents: Contents) -> None:
    contents = changed(real_contents, "S052.applied", lambda entry: None)
    assert "records were lost" in approval_of(register, real_site, contents)
    another = dataclasses.replace(real_contents, digests=("cd" * 32,))
    assert "line 1 of the log is not the one" in approval_of(register, real_site, another)


@pytest.mark.parametrize(("days", "status"), [(13, "pass"), (15, "stale")])
def test_approvals_lapse(register: Register, real_site: Site, real_contents: Contents, days: int, status: str) -> None:
    now = NOW + timedelta(days=days)
    assert approval_of(register, real_site, real_contents, now=now).split(":")[0] == status


@pytest.mark.parametrize(
    "configuration", [{}, {"approved": {}}, {"approved": {"line": "1"}}, {"approved": {"line": -1}}]
)
def test_approvals_that_do_not_say_what_they_approve_do_not_count(
    register: Register, real_site: Site, real_contents: Contents, configuration: dict[str, Any]
) -> None:
    contents = changed(real_contents, APPROVAL, lambda e: with_record(e, configuration=configuration))
    assert "does not say which records it approves" in approval_of(register, real_site, contents)


# -- floors -----------------------------------------------------------------------------------------------------------


def with_limit(site: Site, value: float) -> Site:
    return site.model_copy(
        update={"limits": {**site.limits, "burn_in_required_h": Limit(value=value, unit="h", source="site")}}
    )


def test_a_site_may_raise_a_floor(register: Register, real_site: Site, real_contents: Contents) -> None:
    site = with_limit(real_site, 72)
    found = item_of(judge(register, SmallPlan(site), real_contents, (), NOW), "S034.measured")
    assert found.status == "fail"
    assert "is below the floor of 72 h" in found.detail


def test_a_site_cannot_lower_a_floor(register: Register, real_site: Site, real_contents: Contents) -> None:
    site = with_limit(real_site, 1)
    contents = changed(real_contents, "S034.measured", lambda e: with_record(e, started=NOW - timedelta(hours=3)))
    verdict = judge(register, SmallPlan(site), contents, (), NOW)
    assert item_of(verdict, "S034.measured").status == "fail"
    assert any("limits.burn_in_required_h is 1 h, below the floor of 48 h" in notice for notice in verdict.notices)


def with_lax(site: Site, key: str, value: float) -> Site:
    return site.model_copy(
        update={"limits": {**site.limits, key: site.limits[key].model_copy(update={"value": value})}}
    )


def test_a_limit_laxer_than_its_step_opens_no_gate(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    contents = changed(real_contents, "S176.measured", lambda entry: with_record(entry, limit=2))
    verdict = judge(register, SmallPlan(with_lax(real_site, "training_metrics_pct", 2)), contents, (), NOW)
    found = item_of(verdict, "S176.measured")
    assert found.status == "unproven"
    assert "limits.training_metrics_pct is 2 %, and the step allows 1 % or less" in found.detail
    assert verdict.word == "NO GO-LIVE"


def test_no_waiver_makes_the_limit_of_a_step_laxer(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner]
) -> None:
    contents = changed(real_contents, "S176.measured", lambda entry: None)
    signers = frozenset({people["approver"].public_key.keyid})
    given = Waiver("S176.measured", "*", "Jane", NOW + timedelta(days=30), "later", signers)
    for percent, status in ((1, "waived"), (2, "unproven")):
        site = with_lax(real_site, "training_metrics_pct", percent)
        assert item_of(judge(register, SmallPlan(site), contents, (given,), NOW), "S176.measured").status == status


def test_a_partial_item_names_the_lax_limit_too(real_site: Site, real_contents: Contents) -> None:
    contents = changed(real_contents, "S144.observed", lambda entry: with_record(entry, limit=10))
    site = with_lax(real_site, "time_offset_ms", 10)
    shipped = load_register()
    part = dataclasses.replace(shipped.items["S144.observed"], partial="PTP")
    partly = dataclasses.replace(shipped, items={**shipped.items, part.id: part})
    found = item_of(judge(partly, SmallPlan(site), contents, (), NOW), "S144.observed")
    assert found.status == "partial"
    assert "limits.time_offset_ms is 10 ms, and the step allows 1 ms or less" in found.detail


def test_a_rehearsal_with_a_lax_limit_is_a_rehearsal_only(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    verdict = rehearse(register, plan, lab_records)
    found = item_of(verdict, "S066.measured")
    assert found.status == "pass"
    assert "rehearsal only: limits.collectives_max_size_b is 1,048,576 B" in found.detail
    assert any(notice.startswith("S066.measured: rehearsal only: ") for notice in verdict.notices)


# -- order ------------------------------------------------------------------------------------------------------------


def test_evidence_ahead_of_its_prerequisites_is_premature(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    contents = changed(real_contents, "S001.attested", lambda entry: None)
    verdict = judge(register, SmallPlan(real_site), contents, (), NOW)
    groups = {item.group for item in verdict.items if item.premature}
    assert groups == {f"D{number:02}" for number in range(3, 15)}
    found = item_of(verdict, "S034.measured")
    assert found.status == "out_of_order"
    assert "recorded before S001.attested of lab, which has not passed" in found.detail
    assert item_of(verdict, "S091.attested").status == "pass", "what people saw has no order"


def at_line(contents: Contents, item: str, line: int, subject: str = "") -> Contents:
    """The contents with the records of one item in another line."""
    return changed(
        contents,
        item,
        lambda entry: dataclasses.replace(entry, line=line) if subject in ("", entry.record.subject) else entry,
    )


def test_a_record_counts_only_after_what_its_group_comes_after_had_passed(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    late = at_line(real_contents, "S001.attested", 5)
    verdict = judge(register, SmallPlan(real_site), late, (), NOW)
    found = item_of(verdict, "S034.measured")
    assert (verdict.word, found.status) == ("NO GO-LIVE", "out_of_order")
    assert "before S001.attested of lab had passed (line 5 of the log): run this check again" in found.detail
    assert any("recorded before what they build on had passed" in reason for reason in verdict.reasons)
    again = at_line(late, "S034.measured", 6)
    assert item_of(judge(register, SmallPlan(real_site), again, (), NOW), "S034.measured").status == "pass"


def test_a_later_failure_of_what_came_before_takes_nothing_from_a_record(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    passed = real_contents.entries
    failed = [
        dataclasses.replace(with_record(one, result="FAILED", detail="swapped"), line=7)
        for one in passed
        if one.record.item == "S032.applied"
    ]
    assert failed
    contents = dataclasses.replace(real_contents, entries=(*passed, *failed))
    verdict = judge(register, SmallPlan(real_site), contents, (), NOW)
    assert item_of(verdict, "S032.applied").status == "fail"
    assert item_of(verdict, "S034.measured").status == "pass"


def test_a_node_that_is_repaired_later_takes_nothing_from_the_others(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    contents = at_line(real_contents, "S032.applied", 7, "gpu001")
    found = item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S034.measured")
    assert {one.subject: one.status for one in found.subjects} == {"gpu001": "out_of_order", "gpu002": "pass"}


def test_records_of_one_run_have_no_order_among_each_other(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    late = at_line(at_line(real_contents, "S034.measured", 4), "S032.applied", 6)

    def starting(runs: Mapping[str, str]) -> tuple[Statement, ...]:
        key = next(iter(late.entries[0].signers))
        return tuple(
            statement_of(
                begun.statement(entry.record.item, entry.record.subject, "begun", NOW, runs[entry.record.item]),
                frozenset({key}),
                3,
            )
            for entry in late.entries
            if entry.record.item in runs
        )

    for other, status in (("one", "pass"), ("another", "out_of_order")):
        runs = {"S034.measured": "one", "S032.applied": other}
        contents = dataclasses.replace(late, statements=(*late.statements, *starting(runs)))
        found = item_of(judge(register, SmallPlan(real_site), contents, (), NOW), "S034.measured")
        assert found.status == status, other


def test_a_rehearsal_names_what_is_out_of_order_and_passes(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    made = [
        dataclasses.replace(entry, line=2 if entry.record.item == "S032.applied" else 1)
        for entry in entries(lab_records)
    ]
    verdict = judge(register, plan, Contents(tuple(made), owners=LAB_OWNERS), (), NOW, rehearsal=True)
    assert verdict.word == "REHEARSAL PASSED"
    assert verdict.counts == rehearse(register, plan, lab_records).counts
    assert any(notice.startswith("out of order, and would not count at go-live: ") for notice in verdict.notices)
    assert not any("out of order" in notice for notice in rehearse(register, plan, lab_records).notices)


def test_the_device_half_of_a_planned_step_holds_up_nothing(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    contents = changed(real_contents, "S020.observed", lambda entry: None)
    verdict = judge(register, SmallPlan(real_site), contents, (), NOW)
    assert not [item.item for item in verdict.items if item.premature]


def test_a_page_of_a_rehearsal_gives_no_reasons_against_go_live(
    register: Register, plan: SmallPlan, lab_records: list[Record], real_site: Site, real_contents: Contents
) -> None:
    """Checks that cover a part leave it passed: they are no reasons against anything that it decides."""
    page = render_page(rehearse(load_register(), plan, lab_records), register)
    assert "<h2>What the rehearsal found open</h2>" in page
    assert "Reasons against go-live" not in page
    against = judge(load_register(), SmallPlan(real_site), real_contents, (), NOW)
    assert "<h2>Reasons against go-live</h2>" in render_page(against, register)


def test_devices_that_cannot_show_three_channels_are_named_with_the_proof_they_get(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    verdict = judge(register, SmallPlan(real_site), real_contents, (), NOW)
    found = as_json(verdict, register)["fewer_channels"][0]
    assert found["devices"] == ["ibl001", "ibs001"]
    assert found["items"] == ["S049.attested", "S050.attested", "S062.measured"]
    page = render_page(verdict, register)
    assert "Devices that cannot show three independent channels" in page
    assert "ibl001 ibs001" in page
    assert "Serial and place read at the device by two people" in page
    none = dataclasses.replace(register, fewer_channels=())
    assert "cannot show three" not in render_page(judge(none, SmallPlan(real_site), real_contents, (), NOW), none)


# -- rehearsal --------------------------------------------------------------------------------------------------------


def test_complete_simulated_evidence_passes_the_rehearsal(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    verdict = rehearse(register, plan, lab_records)
    assert (verdict.word, verdict.exit_code, verdict.mode) == ("REHEARSAL PASSED", 0, "simulated")
    assert set(verdict.counts) == {"pass", "not_applicable", "not_exercised"}
    judged = {item.item for item in verdict.items if item.status == "pass"}
    applicable = {i for i in register.exercised_items() if not register.not_applicable(register.items[i], plan.site)}
    assert judged == applicable


def test_the_same_evidence_is_refused_for_go_live(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    verdict = judge(register, plan, Contents(entries(lab_records), owners=LAB_OWNERS), (), NOW)
    assert (verdict.word, verdict.exit_code, verdict.mode) == ("NO GO-LIVE", 1, "simulated")
    assert "the evidence is simulated" in verdict.reasons
    assert item_of(verdict, "S054.measured").status == "simulated"
    assert item_of(verdict, "S036.computed").status == "simulated", "it is signed with a lab key"


def test_a_stripped_marker_makes_the_rehearsal_unproven(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    stripped = [
        dataclasses.replace(r, identities=tuple(dataclasses.replace(i, text="Debian") for i in r.identities))
        if r.subject == "leaf01"
        else r
        for r in lab_records
    ]
    verdict = rehearse(register, plan, stripped)
    assert (verdict.word, verdict.exit_code, verdict.mode) == ("REHEARSAL UNPROVEN", 0, "unproven")
    assert item_of(verdict, "S062.measured").status == "unproven"
    live = judge(register, plan, Contents(entries(stripped), owners=LAB_OWNERS), (), NOW)
    assert (live.word, live.mode, live.exit_code) == ("NO GO-LIVE", "unproven", 1)


def test_real_evidence_passes_a_rehearsal_too(register: Register, plan: SmallPlan, lab_records: list[Record]) -> None:
    real = [
        dataclasses.replace(r, identities=proven(r.subject if r.subject in ASSETS else "gpu001")) if r.identities else r
        for r in lab_records
    ]
    verdict = rehearse(register, plan, real)
    assert (verdict.word, verdict.mode) == ("REHEARSAL PASSED", "real")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"result": "FAILED"}, "fail"),
        ({"inputs": {"site.fabric": "00" * 32}}, "stale"),
        (None, "missing"),
    ],
)
def test_failed_stale_or_missing_items_fail_the_rehearsal(
    register: Register, plan: SmallPlan, lab_records: list[Record], change: dict[str, Any] | None, status: str
) -> None:
    records = [
        dataclasses.replace(r, **change) if change and r.item == "S066.measured" else r
        for r in lab_records
        if change or r.item != "S066.measured"
    ]
    verdict = rehearse(register, plan, records)
    assert (verdict.word, verdict.exit_code) == ("REHEARSAL NOT PASSED", 1)
    assert item_of(verdict, "S066.measured").status == status


def test_a_rehearsal_names_the_part_of_the_subjects_that_it_judged(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    found = item_of(rehearse(register, plan, lab_records), "S061.applied")
    assert [s.subject for s in found.subjects] == ["leaf01", "spine01"]
    assert found.detail.startswith("2 of 2; the InfiniBand simulator's switches")


@given(dropped=st.sets(st.integers(0, 200), max_size=5), rehearsal=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
def test_less_evidence_never_gives_a_better_verdict(
    register: Register, plan: SmallPlan, lab_records: list[Record], dropped: set[int], rehearsal: bool
) -> None:
    kept = [record for number, record in enumerate(lab_records) if number not in dropped]
    full = judge(register, plan, Contents(entries(lab_records), owners=LAB_OWNERS), (), NOW, rehearsal=rehearsal)
    less = judge(register, plan, Contents(entries(kept), owners=LAB_OWNERS), (), NOW, rehearsal=rehearsal)
    assert less.exit_code >= full.exit_code
    closed_full = {i.item for i in full.items if i.status in CLOSED}
    assert {i.item for i in less.items if i.status in CLOSED} <= closed_full


@given(rehearsal=st.booleans(), status=st.sampled_from(["PASSED", "FAILED", "WARNED"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=10)
def test_simulated_evidence_never_allows_go_live(
    register: Register, real_site: Site, lab_records: list[Record], rehearsal: bool, status: str
) -> None:
    records = [dataclasses.replace(r, result=status) for r in lab_records]  # type: ignore[arg-type]
    contents = Contents(entries(records), owners=LAB_OWNERS)
    verdict = judge(register, SmallPlan(real_site), contents, (), NOW, rehearsal=rehearsal)
    assert verdict.word != "GO-LIVE"
    assert not as_json(verdict, register)["go_live"]


# -- what people see --------------------------------------------------------------------------------------------------


def shown(verdict: Verdict, register: Register) -> str:
    out = StringIO()
    print_verdict(verdict, register, Console(file=out, width=200))
    return out.getvalue()


def test_a_rehearsal_says_so_everywhere_and_never_go_live(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    verdict = rehearse(register, plan, lab_records)
    page, text, data = render_page(verdict, register), shown(verdict, register), as_json(verdict, register)
    for said in (page, text, json.dumps(data)):
        assert "REHEARSAL PASSED" in said
        assert "GO-LIVE" not in said
    assert "not exercised by the lab" in text
    assert "the lab's GPUs are simulated: they answer NVML and compute nothing: S006.measured" in text
    assert (
        "S006.measured" in data["not_exercised"]["the lab's GPUs are simulated: they answer NVML and compute nothing"]
    )


def test_the_headline_stays_on_one_line(register: Register, plan: SmallPlan, lab_records: list[Record]) -> None:
    out = StringIO()
    print_verdict(rehearse(register, plan, lab_records), register, Console(file=out, width=60))
    counts = r"\d+ passed, \d+ not applicable, \d+ not exercised"
    assert re.fullmatch(
        rf"REHEARSAL PASSED on simulated evidence \(lab\): {counts}", out.getvalue().splitlines()[-1].strip()
    )


def test_the_terminal_names_the_worst_subject(register: Register, plan: SmallPlan, lab_records: list[Record]) -> None:
    records = [
        dataclasses.replace(r, result="FAILED", detail="p1 and p2 are swapped")
        if (r.item, r.subject) == ("S062.measured", "leaf01")
        else r
        for r in lab_records
    ]
    assert "S062.measured  leaf01: p1 and p2 are swapped (of 4)" in shown(rehearse(register, plan, records), register)


def test_the_page_is_self_contained_and_escapes_what_devices_say(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    records = [dataclasses.replace(r, result="FAILED", detail="<script>alert(1)</script>") for r in lab_records]
    page = render_page(rehearse(register, plan, records), register)
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"\b(src|href)=", page)


def test_the_page_has_a_row_for_every_item(register: Register, plan: SmallPlan, lab_records: list[Record]) -> None:
    page = render_page(rehearse(register, plan, lab_records), register)
    assert set(re.findall(r'<td class="id row">(S\d{3}\.\w+)</td>', page)) == set(register.items)


def test_json_gives_every_item_and_subject(register: Register, plan: SmallPlan, lab_records: list[Record]) -> None:
    data = json.loads(json.dumps(as_json(rehearse(register, plan, lab_records), register)))
    assert data["schema_version"] == 1
    assert len(data["items"]) == 325
    found = next(item for item in data["items"] if item["id"] == "S016.applied")
    assert [s["subject"] for s in found["subjects"]] == ["ctl01", "gpu001", "gpu002", "sto01"]
    assert {s["mode"] for s in found["subjects"]} == {"simulated"}


# -- the verb ---------------------------------------------------------------------------------------------------------


def test_run_without_evidence_refuses_and_writes_page_and_json(
    lab_site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate.run(lab_site, as_json=True, out=tmp_path, now=NOW) == 1
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads((tmp_path / "reports" / "gate.json").read_text())
    assert data["verdict"] == "NO GO-LIVE"
    assert "NO GO-LIVE (lab)" in (tmp_path / "reports" / "gate.html").read_text()


def test_run_on_broken_evidence_exits_2_and_replaces_the_earlier_page(
    keyed_lab: Site, tmp_path: Path, signer: CryptoSigner, record: MakeRecord
) -> None:
    store = open_store(keyed_lab, tmp_path / "evidence")
    store.enroll(signer, "lab", "lab")
    store.append([record()], signer)
    gate.run(keyed_lab, rehearsal=True, out=tmp_path, now=NOW, console=Console(file=StringIO()))
    (tmp_path / "evidence" / "log.jsonl").write_bytes(b"")
    out = StringIO()
    assert gate.run(keyed_lab, rehearsal=True, out=tmp_path, now=NOW, console=Console(file=out, width=200)) == 2
    assert "EVIDENCE BROKEN (lab)" in out.getvalue()
    assert "tail cut" in out.getvalue()
    page = (tmp_path / "reports" / "rehearsal.html").read_text()
    assert "EVIDENCE BROKEN" in page
    assert "REHEARSAL" not in page
    assert json.loads((tmp_path / "reports" / "rehearsal.json").read_text())["exit_code"] == 2


def test_run_reads_signed_evidence_of_the_real_plan(
    keyed_lab: Site, tmp_path: Path, signer: CryptoSigner, passing: Callable[..., list[Record]]
) -> None:
    plan = build(keyed_lab)
    records = [dataclasses.replace(r, inputs=dict(list(plan.hashes.items())[:2])) for r in passing(plan, lab=True)]
    store = open_store(keyed_lab, tmp_path / "evidence")
    store.enroll(signer, "lab", "lab")
    store.append(records, signer)
    quiet = Console(file=StringIO())
    errors = [finding for finding in plan.findings if finding.severity == "error"]
    assert errors == []
    assert gate.run(keyed_lab, rehearsal=True, out=tmp_path, now=NOW, console=quiet) == 0
    assert gate.run(keyed_lab, out=tmp_path, now=NOW, console=quiet) == 1


# -- the story of a training run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, True),
        ({"result": "FAILED"}, False),
        ({"inputs": {"site.fabric": "00" * 32}}, False),
        ({"value": {"schema_version": 99}}, False),
        ({"value": 3.0}, False),
    ],
)
def test_a_training_story_is_shown_only_where_its_evidence_stands(
    register: Register, real_site: Site, real_contents: Contents, change: dict[str, Any], shown: bool
) -> None:
    told = tell(made()).as_dict()
    contents = changed(real_contents, gate.STORY_ITEM, lambda entry: with_record(entry, **{"value": told, **change}))
    story = gate.training_story(
        judge(register, SmallPlan(real_site), contents, (), NOW), contents, trust_of(real_site, contents)
    )
    assert story == (told if shown else None)


# -- whose signature counts for what ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", ["S062.measured", "S048.applied", "S086.observed", "S036.computed"])
def test_only_the_collectors_key_counts_for_what_checks_record(
    register: Register, real_site: Site, real_contents: Contents, people: dict[str, CryptoSigner], item: str
) -> None:
    other = frozenset({people["electrician"].public_key.keyid})
    contents = changed(real_contents, item, lambda entry: dataclasses.replace(entry, signers=other))
    verdict = judge(register, SmallPlan(real_site), contents, (), NOW)
    (found,) = [one for one in verdict.items if one.item == item]
    assert found.status == "simulated"
    assert "attest.roles.collector" in found.detail
    assert verdict.exit_code == 1


def test_a_head_that_no_pinned_key_signed_stops_go_live(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    stranger = make_key().public_key.keyid
    contents = dataclasses.replace(real_contents, head_signers=frozenset({stranger}))
    verdict = judge(register, SmallPlan(real_site), contents, (), NOW)
    assert (verdict.word, verdict.exit_code) == ("NO GO-LIVE", 1)
    assert "head.json is signed by no key that the site file pins" in verdict.reasons[0]


def test_a_cut_tail_that_a_strangers_head_covers_never_goes_live_nor_goes_on(
    register: Register, real_site: Site, tmp_path: Path, signer: CryptoSigner, record: MakeRecord
) -> None:
    """Who can write the folder adds a key to keys/, cuts the log and signs a head over the rest."""
    store = Store.open(tmp_path, pinned_keys(real_site))
    store.enroll(signer, "collector", "collector")
    store.append([record(result="PASSED")], signer)
    store.append([record(result="FAILED")], signer)
    stranger = make_key()
    store.enroll(stranger, "collector", "me")
    line = (tmp_path / "log.jsonl").read_bytes().splitlines()[0]
    (tmp_path / "log.jsonl").write_bytes(line + b"\n")
    store._write_head(1, hashlib.sha256(line).hexdigest(), stranger)
    verdict = judge(register, SmallPlan(real_site), store.verify(), (), NOW)
    assert "head.json is signed by no key that the site file pins" in verdict.reasons[0]
    with pytest.raises(IntegrityError, match="head.json is signed by no key that the site file pins"):
        store.append([record()], signer)


def test_an_item_whose_check_covers_a_part_of_its_step_counts_for_no_go_live(
    register: Register, real_site: Site, real_contents: Contents
) -> None:
    items = {**register.items, "S144.observed": dataclasses.replace(register.items["S144.observed"], partial="the p99")}
    cut = dataclasses.replace(register, items=items)
    verdict = judge(cut, SmallPlan(real_site), real_contents, (), NOW)
    found = next(item for item in verdict.items if item.item == "S144.observed")
    assert (verdict.word, verdict.exit_code, verdict.counts["partial"]) == ("NO GO-LIVE", 1, 1)
    assert found.status == "partial"
    assert found.detail.startswith("the check does not cover: the p99; ")


def test_a_rehearsal_counts_partial_items_apart_and_passes(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    shipped = load_register()
    verdict = rehearse(shipped, plan, lab_records)
    partial = {item.id for item in shipped.items.values() if item.partial and item.lab_exercisable}
    assert verdict.word == "REHEARSAL PASSED"
    assert {item.item for item in verdict.items if item.status == "partial"} <= partial
    assert verdict.counts["partial"] + verdict.counts["pass"] == rehearse(register, plan, lab_records).counts["pass"]
    assert not [item.item for item in verdict.items if item.premature]


def test_at_most_twelve_items_of_the_lab_are_partial() -> None:
    shipped = load_register()
    assert len([item for item in shipped.items.values() if item.partial and item.lab_exercisable]) <= 12


def test_a_failed_check_of_a_partial_item_is_a_failure(
    register: Register, plan: SmallPlan, lab_records: list[Record]
) -> None:
    shipped = load_register()
    failed = [
        dataclasses.replace(record, result="FAILED") if record.item == "S144.observed" else record
        for record in lab_records
    ]
    verdict = rehearse(shipped, plan, failed)
    assert next(item.status for item in verdict.items if item.item == "S144.observed") == "fail"
    assert verdict.word == "REHEARSAL NOT PASSED"
