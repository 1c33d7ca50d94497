"""The freeze: what two approvers sign, which records it lets count, and what of a later one makes them stale."""

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from securesystemslib.signer import CryptoSigner

from infra.cli import main
from inventory.delivered.assets import load_assets
from inventory.paths import repo_root
from inventory.site import Site
from tests.plans import plan_of
from tests.validation.bench import (
    CHECK_FILE,
    CLEAN,
    DIGEST,
    FROZEN,
    NOW,
    SmallPlan,
    frozen,
    halves,
    judged_alone,
    make_key,
    proven,
    statement_of,
)
from tests.validation.bench import judged as judged_by_bench
from validation import freeze, gate, program
from validation.evidence import Record, Store
from validation.evidence.record import raw_path
from validation.evidence.store import Contents, Entry, KeyOwner, Statement
from validation.evidence.strict import canonical
from validation.evidence.trust import open_store, trust_of
from validation.freeze import FreezeError, Freezes, Frozen, differences, freezes_of, parsed, sign, unlike
from validation.host_keys import pinned_host_keys
from validation.program import State
from validation.register import Register
from validation.verdict import SubjectVerdict
from validation.waive import Report, Waiver, waive

ITEM = "S062.measured"
OTHER = "cd" * 32


@pytest.fixture
def approvers(people: dict[str, CryptoSigner]) -> tuple[CryptoSigner, CryptoSigner]:
    return people["approver"], people["second approver"]


@pytest.fixture
def ids(approvers: tuple[CryptoSigner, CryptoSigner]) -> list[str]:
    return [key.public_key.keyid for key in approvers]


@pytest.fixture
def contents(ids: list[str], signer: CryptoSigner) -> Contents:
    """An empty log on which the approvers and the collector are on file."""
    owners = {one: KeyOwner("approver", one) for one in ids}
    collector = signer.public_key.keyid
    owners[collector] = KeyOwner("collector", "c")
    return Contents(owners=owners, recorders=frozenset(), head_signers=frozenset({collector}))


@pytest.fixture
def says(
    register: Register, real_site: Site, contents: Contents, signer: CryptoSigner, record: Callable[..., Record]
) -> Callable[..., SubjectVerdict]:
    """What the gate says of leaf01 with these statements and one passing record in line 3; keywords change the record."""

    def judged(*statements: Statement, today: Frozen | None = None, **changes: Any) -> SubjectVerdict:
        one = record(**({"identities": proven("leaf01")} | changes))
        entry = Entry(one, frozenset({signer.public_key.keyid}), 3, one.mode)
        log = dataclasses.replace(contents, entries=(entry,), statements=statements)
        verdict = judged_alone(register, SmallPlan(real_site), log, (), NOW, today=today)
        item = next(item for item in verdict.items if item.item == ITEM)
        return next(subject for subject in item.subjects if subject.subject == "leaf01")

    return judged


def read(site: Site, contents: Contents, *statements: Statement) -> Freezes:
    log = dataclasses.replace(contents, statements=statements)
    return freezes_of(log, trust_of(site, log))


# -- who signs ---------------------------------------------------------------------------------------------------------


def test_two_approvers_bring_a_freeze_into_force(real_site: Site, contents: Contents, ids: list[str]) -> None:
    first, both = halves(FROZEN, *ids)[:1], halves(FROZEN, *ids)
    assert read(real_site, contents, *first).current is None
    assert read(real_site, contents, *first).half is not None
    found = read(real_site, contents, *both)
    assert found.current is not None
    assert (found.current.digest, [name for name, _ in found.by]) == (FROZEN.digest, ["Jane", "Joe"])


@pytest.mark.parametrize("names", [("Jane", "Joe"), ("Jane", "jane ")])
def test_one_approver_is_not_two(real_site: Site, contents: Contents, ids: list[str], names: tuple[str, str]) -> None:
    assert read(real_site, contents, *halves(FROZEN, ids[0], ids[0], names=names)).current is None


def test_two_keys_of_one_name_are_one_person(real_site: Site, contents: Contents, ids: list[str]) -> None:
    assert read(real_site, contents, *halves(FROZEN, *ids, names=("Jane", " JANE"))).current is None


def test_a_name_that_nobody_sees_is_no_second_approver(real_site: Site, contents: Contents, ids: list[str]) -> None:
    assert read(real_site, contents, *halves(FROZEN, *ids, names=("Jane", "\u200b\u2800"))).current is None


def test_a_statement_that_two_approvers_signed_has_the_name_of_neither(
    real_site: Site, contents: Contents, ids: list[str]
) -> None:
    """Whoever gets the other's signature on one statement would need no word of theirs."""
    first, second = halves(FROZEN, *ids)
    both = dataclasses.replace(first, signers=frozenset(ids))
    assert read(real_site, contents, both, dataclasses.replace(second, signers=frozenset({ids[0]}))).current is None
    assert read(real_site, contents, both).half is None


def test_a_key_that_is_no_approvers_does_not_freeze(
    real_site: Site, contents: Contents, ids: list[str], people: dict[str, CryptoSigner]
) -> None:
    electrician = people["electrician"].public_key.keyid
    assert read(real_site, contents, *halves(FROZEN, ids[0], electrician)).current is None


def test_a_half_is_void_once_another_freeze_is_in_force(real_site: Site, contents: Contents, ids: list[str]) -> None:
    other = frozen(limits={"x": OTHER})
    old, late = halves(other, *ids, line=1)[:1], halves(other, *ids, line=9)[1:]
    found = read(real_site, contents, *old, *halves(FROZEN, *ids, line=2), *late)
    assert found.current is not None
    assert found.current.digest == FROZEN.digest


def half(key: str, name: str, line: int, at: datetime, *, first: bool) -> Statement:
    said = (freeze.statement if first else freeze.second)(FROZEN, name, at)
    return statement_of(said, frozenset({key}), line)


@pytest.mark.parametrize(("days", "holds"), [(14, True), (15, False), (-15, False)])
def test_a_half_lapses_as_approvals_do(
    real_site: Site, contents: Contents, ids: list[str], days: int, holds: bool
) -> None:
    """attest.approval_days is 14: what Jane signed is not what Joe signs weeks later, whichever way round they date it."""
    both = (
        half(ids[0], "Jane", 1, NOW, first=True),
        half(ids[1], "Joe", 2, NOW + timedelta(days=days), first=False),
    )
    assert (read(real_site, contents, *both).current is not None) is holds
    again = half(ids[0], "Jane", 3, NOW + timedelta(days=days, hours=1), first=True)
    assert read(real_site, contents, *both, again).current is not None, "signed again, it counts"


def test_a_second_half_that_is_dated_back_revives_no_lapsed_one(
    real_site: Site, contents: Contents, ids: list[str], signer: CryptoSigner, record: Callable[..., Record]
) -> None:
    """The log shows by a record between them that three weeks have passed."""
    first = half(ids[0], "Jane", 1, NOW - timedelta(days=30), first=True)
    late = half(ids[1], "Joe", 9, NOW - timedelta(days=29), first=False)
    assert read(real_site, contents, first, late).current is not None
    one = record(ended=NOW - timedelta(days=9), started=NOW - timedelta(days=9))
    between = dataclasses.replace(contents, entries=(Entry(one, frozenset({signer.public_key.keyid}), 5, one.mode),))
    assert read(real_site, between, first, late).current is None


def test_a_lapsed_half_is_compared_with_the_records_once(real_site: Site, contents: Contents, ids: list[str]) -> None:
    """Each of thousands of second halves was compared with all records between it and the first one."""
    asked = []

    class Counted:
        def __init__(self, line: int) -> None:
            self.line = line

        @property
        def record(self) -> SimpleNamespace:
            asked.append(self.line)
            return SimpleNamespace(ended=NOW - timedelta(days=29 if self.line < 101 else 9))

    between = tuple(cast(Entry, Counted(line)) for line in range(2, 102))
    first = half(ids[0], "Jane", 1, NOW - timedelta(days=30), first=True)
    late = [half(ids[1], "Joe", 102 + n, NOW - timedelta(days=29), first=False) for n in range(100)]
    assert read(real_site, dataclasses.replace(contents, entries=between), first, *late).current is None
    assert len(asked) <= 100


def test_the_verb_begins_anew_when_the_first_half_has_lapsed(
    real_site: Site, log: Store, approvers: tuple[CryptoSigner, CryptoSigner]
) -> None:
    one, other = approvers
    sign(real_site, log, FROZEN, "Jane", one, NOW)
    said = sign(real_site, log, FROZEN, "Joe", other, NOW + timedelta(days=15))
    assert f"the half that Jane signed on {NOW:%Y-%m-%d} has lapsed" in said
    assert freeze.read_freezes(real_site, log).current is None
    assert "is in force" in sign(real_site, log, FROZEN, "Jane", one, NOW + timedelta(days=16))


def test_a_freeze_of_a_dirty_program_is_none(real_site: Site, contents: Contents, ids: list[str]) -> None:
    dirty = frozen(program=CLEAN | {"unclean": "1 files are not as committed"})
    assert read(real_site, contents, *halves(dirty, *ids)).current is None


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["frozen"]["limits"].update(x=OTHER),
        lambda said: said["frozen"].update(site="other"),
        lambda said: said["frozen"].pop("limits"),
        lambda said: said["frozen"].update(limits=[1]),
        lambda said: said["frozen"]["limits"].update(x="no digest"),
        lambda said: said["frozen"]["checks"].update({"a.py": {"sha256": OTHER, "files": [1]}}),
        lambda said: said["frozen"].update(program={"version": 1, "commit": "", "unclean": ""}),
        lambda said: said.update(frozen=None),
        lambda said: said.update(freeze="x"),
        lambda said: said.update(at="today"),
        lambda said: said.update(name=" "),
    ],
)
def test_an_edited_freeze_is_no_freeze(
    real_site: Site, contents: Contents, ids: list[str], change: Callable[[Any], Any]
) -> None:
    first, last = halves(FROZEN, *ids)
    said = json.loads(canonical(first.predicate))
    change(said)
    with pytest.raises(ValueError, match="line -1: not a freeze"):
        read(real_site, contents, dataclasses.replace(first, predicate=said), last)


def test_a_freeze_reads_as_it_was_written() -> None:
    assert parsed(json.loads(canonical(FROZEN.said))) == FROZEN


# -- which records count -----------------------------------------------------------------------------------------------


def test_a_record_of_a_freeze_in_force_counts(says: Callable[..., SubjectVerdict], ids: list[str]) -> None:
    assert says(*halves(FROZEN, *ids)).status == "pass"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"inputs": {"site.fabric": DIGEST}}, "without a freeze"),
        ({"inputs": {"freeze": OTHER, f"program.{CHECK_FILE}": DIGEST}}, "which two approvers had not signed"),
        ({"inputs": {"freeze": FROZEN.digest}}, "does not say which check"),
        ({"configuration": {}}, "does not say which program"),
        ({"configuration": {"program": {}}}, "does not say which program"),
        ({"configuration": {"program": {"unclean": ["x"]}}}, "no commit that a freeze could name"),
        ({"configuration": {"program": CLEAN | {"unclean": "2 files"}}}, "no commit that a freeze could name: 2 files"),
    ],
)
def test_a_record_of_no_known_freeze_or_of_a_dirty_program_never_counts(
    says: Callable[..., SubjectVerdict], ids: list[str], changes: dict[str, Any], why: str
) -> None:
    found = says(*halves(FROZEN, *ids), **changes)
    assert found.status == "stale"
    assert why in found.detail


def test_a_record_before_its_freeze_does_not_count(says: Callable[..., SubjectVerdict], ids: list[str]) -> None:
    assert "had not signed when it was recorded" in says(*halves(FROZEN, *ids, line=3)).detail


def test_a_later_freeze_leaves_what_rests_on_other_files(says: Callable[..., SubjectVerdict], ids: list[str]) -> None:
    later = frozen(limits={"x": OTHER}, tables={"validation/steps.yaml": OTHER})
    assert says(*halves(FROZEN, *ids), *halves(later, *ids, line=5)).status == "pass"


def test_a_later_freeze_names_the_file_that_makes_a_record_stale(
    says: Callable[..., SubjectVerdict], ids: list[str]
) -> None:
    files = {CHECK_FILE: DIGEST, "validation/xids.yaml": OTHER}
    later = frozen(files=files, checks={CHECK_FILE: OTHER})
    found = says(*halves(FROZEN, *ids), *halves(later, *ids, line=5))
    assert found.status == "stale"
    assert found.detail.startswith("validation/xids.yaml changed since")


def test_without_a_freeze_nothing_goes_live(register: Register, real_site: Site, contents: Contents) -> None:
    verdict = judged_by_bench(register, SmallPlan(real_site), contents, (), NOW)
    assert verdict.exit_code == 1
    assert "no freeze is in force: two approvers sign it with bringup freeze" in verdict.reasons


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"tables": {"validation/steps.yaml": OTHER}}, "tables validation/steps.yaml: changed"),
        ({"limits": {"x": OTHER}}, "limits x: added"),
        ({"accepted": {}}, "accepted accepted/values.jsonl: removed"),
        ({"catalogue": {"a.yaml": OTHER}}, "catalogue a.yaml: added"),
        ({"program": CLEAN | {"unclean": "1 files"}}, "the gate's program: 1 files"),
    ],
)
def test_the_gate_refuses_to_judge_by_another_configuration(
    register: Register, real_site: Site, contents: Contents, ids: list[str], part: dict[str, Any], shown: str
) -> None:
    log = dataclasses.replace(contents, statements=halves(FROZEN, *ids))
    verdict = judged_by_bench(register, SmallPlan(real_site), log, (), NOW, today=frozen(**part))
    assert verdict.exit_code == 1
    assert any(shown in reason for reason in verdict.reasons)
    assert unlike(FROZEN, frozen()) == []


# -- the verb ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def log(real_site: Site, real_store: Store, signer: CryptoSigner) -> Store:
    return open_store(real_site, real_store.path, plan=DIGEST, recorder=signer)


def test_the_verb_needs_two_people_and_their_keys(
    real_site: Site, log: Store, approvers: tuple[CryptoSigner, CryptoSigner]
) -> None:
    one, other = approvers
    site = real_site
    with pytest.raises(FreezeError, match="is not pinned for approver"):
        sign(site, log, FROZEN, "Jane", make_key(), NOW)
    assert "a second approver signs" in sign(site, log, FROZEN, "the approver", one, NOW)
    with pytest.raises(FreezeError, match="this key has signed it already"):
        sign(site, log, FROZEN, "Somebody Else", one, NOW)
    with pytest.raises(FreezeError, match="is another person"):
        sign(site, log, FROZEN, "The  Approver", other, NOW)
    assert "is in force" in sign(site, log, FROZEN, "the second approver", other, NOW)
    with pytest.raises(FreezeError, match="is in force already"):
        sign(site, log, FROZEN, "the approver", one, NOW)
    current = freeze.read_freezes(site, log).current
    assert current is not None
    assert current.digest == FROZEN.digest


def test_a_dirty_program_is_not_frozen(
    real_site: Site, log: Store, approvers: tuple[CryptoSigner, CryptoSigner]
) -> None:
    with pytest.raises(FreezeError, match="commit or undo the changes"):
        sign(real_site, log, frozen(program=CLEAN | {"unclean": "1 files"}), "Jane", approvers[0], NOW)


def test_without_an_accepted_state_the_verb_names_accept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["freeze", "lab", "--out", str(tmp_path)]) == 2
    assert "bringup accept" in capsys.readouterr().err


def test_a_freeze_of_a_site_fixes_its_files_and_the_program(
    real_site: Site, register: Register, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "accepted").mkdir()
    (tmp_path / "accepted" / "values.jsonl").write_text("{}\n")
    monkeypatch.setattr(type(real_site), "dir", tmp_path)
    monkeypatch.setattr(program, "program_state", lambda: State("1", "c0ffee"))
    plan = dataclasses.replace(plan_of("lab"), site=real_site)
    now = freeze.frozen_today(plan, register)
    assert set(now.parts["accepted"]) == {"accepted/values.jsonl"}
    assert set(now.parts["tables"]) == set(freeze.TABLES)
    assert set(now.parts["limits"]) == set(real_site.limits)
    assert any("/device-types/" in name for name in now.parts["catalogue"])
    assert "validation/xids.yaml" in now.closures["validation/checks/test_gpus.py"]
    assert "validation/steps.yaml" not in now.parts["files"]
    assert parsed(json.loads(canonical(now.said))) == now
    assert differences(now, now) == []
    (tmp_path / "accepted" / "values.jsonl").write_text("{ }\n")
    assert differences(now, freeze.frozen_today(plan, register)) == ["accepted accepted/values.jsonl: changed"]
    (tmp_path / "accepted" / "values.jsonl").unlink()
    (tmp_path / "accepted" / "values.jsonl").symlink_to("/dev/zero")
    with pytest.raises(FreezeError, match="bringup accept"):
        freeze.frozen_today(plan, register)


def test_the_gate_judges_by_the_lists_that_it_compared(
    lab_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever swaps assets.csv or known_hosts between two readings has one compared and the other one judged by."""
    reads: Counter[str] = Counter()

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def read(*given: Any) -> Any:
            reads[name] += 1
            return real(*given)

        return read

    for real in (load_assets, pinned_host_keys):
        counted = counting(real.__name__, real)
        for module in list(sys.modules.values()):
            if vars(module).get(real.__name__) is real:
                monkeypatch.setattr(module, real.__name__, counted)
    monkeypatch.setattr(freeze, "_accepted", lambda site: {"accepted/values.jsonl": "ab" * 32})
    monkeypatch.setattr(program, "program_state", lambda: State("1", "c0ffee"))
    verdict = gate.judge_site(lab_site, tmp_path, NOW)
    assert verdict.reasons[0].startswith("no freeze is in force"), "it was compared"
    gate.approved(lab_site, tmp_path, NOW)
    assert reads == {"load_assets": 2, "pinned_host_keys": 2}, "once by each"


def test_a_check_rests_on_what_it_imports() -> None:
    files = program.part_of("validation/checks/test_gpus.py").files
    assert {
        "validation/checks/test_gpus.py",
        "validation/checks/conftest.py#test_gpus",
        "validation/gpu_health.py",
    } <= set(files)
    assert all((repo_root() / name.partition("#")[0]).is_file() for name in files)


@pytest.mark.parametrize("predicate", [{}, {"name": 1}, {"name": "x", "freeze": DIGEST, "at": None}])
def test_what_is_no_freeze_breaks_the_evidence(
    real_site: Site, log: Store, approvers: tuple[CryptoSigner, CryptoSigner], predicate: dict[str, Any]
) -> None:
    made = {**freeze.statement(FROZEN, "Jane", NOW - timedelta(days=1)), "predicate": predicate}
    log.append_statements([made], approvers[0])
    assert gate.run(real_site, out=log.path.parent, now=NOW) == 2


# -- external reports in the folder --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["changed", "missing", "link"])
def test_an_external_report_that_is_not_as_it_was_signed_breaks_the_evidence(
    register: Register, real_site: Site, log: Store, approvers: tuple[CryptoSigner, CryptoSigner], how: str
) -> None:
    digest = log.keep(b"a report")
    report = Report(digest, "Fluke", date(2027, 1, 5), 0.8, "ohm", "at most", 1.0)
    given = Waiver("S153.measured", "*", "Jane", NOW + timedelta(days=9), "by others", report=report)
    waive(log, register, given, [approvers[0]], NOW)
    path = log.path / raw_path(digest)
    path.unlink()
    if how == "changed":
        path.write_bytes(b"another one")
    elif how == "link":
        path.symlink_to("/dev/zero")
    assert gate.run(real_site, out=log.path.parent, now=NOW) == 2


REPORTED = ["S153.measured", "--site", "lab", "--owner", "J", "--expires", "2026-12-31", "--reason", "r"]


WHOLE = ["--instrument", "i", "--calibrated", "2026-01-01", "--reading", "1", "--unit", "ohm", "--at-most", "2"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--reading", "1"], "belong to --external-report"),
        (["--external-report", "x.pdf"], "needs --instrument"),
        (["--external-report", "/dev/zero", *WHOLE], "no regular file"),
    ],
)
def test_an_external_report_lacks_nothing(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["waive", *REPORTED, "--key", "file:x", "--out", str(tmp_path), *more]) == 2
    assert said in capsys.readouterr().err
