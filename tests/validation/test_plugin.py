"""The pytest plugin: small check files run through it, and the evidence, messages and exit statuses that come out."""

import errno
import signal
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from capacity.build import build
from inventory.paths import repo_root
from inventory.site import Site, load_site
from tests.first_sites import text_of
from tests.full_sites import full_text
from validation import plugin
from validation.evidence import Contents, Entry, Record, Store
from validation.evidence.store import KeyOwner
from validation.evidence.trust import open_store
from validation.facts import Facts
from validation.register import load_register
from validation.verdict import judge

pytest_plugins = ["pytester"]

SITE = load_site("lab")
HEADER = "from validation.check import Limit, Outcome, check\nfrom validation.evidence import Identity\n"
PASSES = """
@check("S001.computed", inputs=("site.leadtimes", "frame.sch*"))
def test_passes(subject):
    return Outcome(True, {"gpus": 32}, "32 GPUs", unit="GPUs", limit=Limit(40, "GPUs", "site limits.x"), raw=b"thirty-two")
"""
FAILS = """
@check("S009.computed", inputs=("site.server",))
def test_fails(subject):
    return Outcome(False, 3, "rack r01 is too heavy", limit=Limit(900, "kg", "site rack.mass_limit_kg"))
"""
CRASHES = """
@check("S011.computed", inputs=("site.server",))
def test_crashes(subject):
    raise KeyError("no row for cpu")
"""


@dataclass
class Bench:
    """A copy of the lab site with a signing key of its own, and runs of check files against it."""

    pytester: pytest.Pytester
    site: Path
    out: Path

    def run(self, *options: str, apart: bool = False, **files: str) -> pytest.RunResult:
        """Run check files (name to source) with `options`; `apart`: in a process of its own."""
        for name, source in files.items():
            self.pytester.makepyfile(**{name: HEADER + source})
        argv = ("-p", plugin.__name__, "--site", str(self.site), "--out", str(self.out), "-p", "no:cacheprovider")
        run = self.pytester.runpytest_subprocess if apart else self.pytester.runpytest_inprocess
        return run(*argv, *options)

    def records(self) -> dict[tuple[str, str], Record]:
        """What the store holds, after its signatures have been verified: (item, subject) to record."""
        contents = Store.open(self.out / "evidence").verify()
        return {(entry.record.item, entry.record.subject): entry.record for entry in contents.entries}


@pytest.fixture
def bench(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, plans_kept: None) -> Bench:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    folder = pytester.path / "site"
    folder.mkdir()
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "evidence_key").touch(mode=0o600)
    (folder / "evidence_key").write_bytes(key)
    data = yaml.safe_load(full_text("lab"))
    data["credentials"]["evidence"]["key"] = "file:evidence_key"
    (folder / "site.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    (folder / "assets.csv").write_bytes((SITE.dir / "assets.csv").read_bytes())
    return Bench(pytester, folder / "site.yaml", pytester.path / "out")


def test_a_passing_check_leaves_a_signed_record_with_limit_inputs_and_raw_output(bench: Bench):
    result = bench.run(test_one=PASSES)
    assert result.ret == pytest.ExitCode.OK
    record = bench.records()["S001.computed", "lab"]
    assert (record.result, record.value, record.unit, record.detail) == ("PASSED", {"gpus": 32}, "GPUs", "32 GPUs")
    assert (record.limit, record.limit_source) == (40, "site limits.x")
    assert record.limit_frozen is not None
    assert record.limit_frozen <= record.started <= record.ended
    assert {name for name in record.inputs if not name.startswith("program.")} == {
        "site.leadtimes",
        "frame.schedule",
        "site.limits",
    }
    assert [name.rpartition("/")[2] for name in record.inputs if name.startswith("program.")] == [
        "test_one.py",
        "steps.yaml#S001.computed",
    ]
    assert set(record.configuration["program"]) == {"version", "commit", "unclean"}
    assert Store.open(bench.out / "evidence").raw(record.raw_sha256) == b"thirty-two"
    result.stdout.fnmatch_lines(["1 records of 1 checks signed into *", "next: bringup gate --site lab"])


def test_a_failing_check_is_a_failed_record_and_a_failed_run(bench: Bench):
    result = bench.run(test_one=PASSES + FAILS)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert {item: record.result for (item, _), record in bench.records().items()} == {
        "S001.computed": "PASSED",
        "S009.computed": "FAILED",
    }
    result.stdout.fnmatch_lines(["*S009.computed lab: rack r01 is too heavy (limit 900 kg, site rack.mass_limit_kg)*"])


def test_a_crashing_check_is_a_failed_record_that_names_the_error(bench: Bench):
    assert bench.run(test_one=CRASHES).ret == pytest.ExitCode.TESTS_FAILED
    record = bench.records()["S011.computed", "lab"]
    assert (record.result, record.value) == ("FAILED", None)
    assert record.detail == "the check ended with KeyError: 'no row for cpu'"


def test_a_check_whose_fixture_crashes_is_a_failed_record(bench: Bench):
    source = """
import pytest

@pytest.fixture
def job():
    raise OSError("controller is gone")

@check("S001.computed")
def test_needs_a_job(subject, job):
    return Outcome(True, 1, "fine")
"""
    assert bench.run(test_one=source).ret == pytest.ExitCode.TESTS_FAILED
    record = bench.records()["S001.computed", "lab"]
    assert (record.result, record.detail) == ("FAILED", "the check ended with OSError: controller is gone")


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        ("None", "TypeError: test_one.py::test_odd[lab] is a check and must return an Outcome, not NoneType"),
        ("Outcome(True, {1, 2}, 'a set')", "ValueError: S001.computed lab: value is not plain JSON data"),
        ("Outcome(True, float('nan'), 'no number')", "ValueError: S001.computed lab: value is not plain JSON data"),
    ],
)
def test_a_check_that_returns_no_evidence_is_an_error_and_a_failed_record(bench: Bench, returned: str, error: str):
    source = f'@check("S001.computed")\ndef test_odd(subject):\n    return {returned}\n'
    assert bench.run(test_one=source).ret == pytest.ExitCode.TESTS_FAILED
    record = bench.records()["S001.computed", "lab"]
    assert record.result == "FAILED"
    assert record.detail.startswith(f"the check ended with {error}")


def identity_check(serial: str, passed: bool = True) -> str:
    return f"""
@check("S020.observed", inputs=("assets",))
def test_supplies(subject):
    if subject != "gpu001":
        return Outcome(True, 2, "fine")
    return Outcome({passed}, 2, "2 supplies", identities=(Identity("gpu001", "redfish", "SIMULATED", "{serial}"),))
"""


def test_evidence_from_another_asset_than_the_planned_one_fails(bench: Bench):
    result = bench.run(test_one=identity_check("SIM-OTHER-0001"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    records = bench.records()
    failed = records["S020.observed", "gpu001"]
    assert failed.result == "FAILED"
    assert failed.value == 2
    assert failed.detail.startswith("not the planned asset: gpu001 says SIM-OTHER-0001 by redfish, the asset list has ")
    assert all(record.result == "PASSED" for (_, subject), record in records.items() if subject != "gpu001")


def test_a_failure_of_another_asset_keeps_its_own_reason(bench: Bench):
    bench.run(test_one=identity_check("SIM-OTHER-0001", passed=False))
    assert bench.records()["S020.observed", "gpu001"].detail.endswith("; 2 supplies")


@pytest.mark.parametrize("spelled", [str.upper, str.lower, lambda text: text.replace("-", "")])
def test_an_identifier_of_the_asset_counts_in_any_spelling(bench: Bench, spelled: Callable[[str], str]):
    uuid = next(
        line.split(",")[3] for line in (SITE.dir / "assets.csv").read_text().splitlines() if line.startswith("gpu001,")
    )
    assert bench.run(test_one=identity_check(spelled(uuid))).ret == pytest.ExitCode.OK
    assert bench.records()["S020.observed", "gpu001"].result == "PASSED"


def test_an_item_that_does_not_apply_is_skipped_with_the_site_key_that_says_so(bench: Bench):
    register = load_register()
    item = next(item for item in register.items.values() if register.not_applicable(item, SITE))
    source = f'@check("{item.id}")\ndef test_other_site(subject):\n    raise AssertionError("must not run")\n'
    result = bench.run("-rs", test_one=source)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([f"SKIPPED*not applicable: {register.not_applicable(item, SITE)}*"])
    assert bench.records() == {}


def test_an_item_without_an_asset_in_the_plan_is_skipped(bench: Bench):
    source = '@check("S062.measured", only=("servers",))\ndef test_nothing(subject):\n    raise AssertionError\n'
    result = bench.run("-rs", test_one=source)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["SKIPPED*the plan has no asset that S062.measured is about*"])


def test_junit_xml_lists_every_check(bench: Bench):
    bench.run(test_one=PASSES + FAILS)
    suite = ET.parse(bench.out / "reports" / "validation.xml").getroot()[0]
    cases = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert cases == {"test_passes[lab]": [], "test_fails[lab]": ["failure"]}


def test_the_results_of_a_run_are_written_over_no_other_file(bench: Bench):
    """Whoever may write the reports puts a link in their place while the checks run."""
    victim, results = bench.out.parent / "victim", bench.out / "reports" / "validation.xml"
    victim.write_text("own")
    swaps = f"""
import pathlib
import pytest

@pytest.fixture(autouse=True)
def swapped():
    place = pathlib.Path({str(results)!r})
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to({str(victim)!r})
"""
    bench.run(test_one=swaps + PASSES)
    assert victim.read_text() == "own"
    suite = ET.parse(results).getroot()[0]
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("1", "0", "0")


def test_a_run_that_is_killed_keeps_the_records_of_the_modules_before(bench: Bench):
    dies = """
import os, signal

@check("S009.computed")
def test_dies(subject):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    result = bench.run(apart=True, test_a_first=PASSES, test_b_second=dies)
    assert result.ret == -signal.SIGKILL
    assert list(bench.records()) == [("S001.computed", "lab")]


def test_no_record_writes_no_evidence_and_needs_no_key(bench: Bench):
    (bench.site.parent / "evidence_key").unlink()
    result = bench.run("--no-record", test_one=PASSES + FAILS)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["no evidence written (--no-record)"])
    assert bench.records() == {}


def test_a_run_that_could_not_sign_its_evidence_does_not_start(bench: Bench):
    (bench.site.parent / "evidence_key").unlink()
    result = bench.run(test_one=PASSES)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: evidence cannot be signed: credentials.evidence.key: *evidence_key*--no-record*"]
    )


def test_gpus_of_amd_are_refused_before_anything_is_asked_and_the_plan_alone_is_judged(bench: Bench):
    bench.site.write_text(text_of("mi355x"))
    result = bench.run("--no-record", test_one=PASSES)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: gpu.sku amd-mi355x of first-mi355x is of AMD: the GPU checks*--planned"])
    assert not bench.out.exists()
    planned = bench.run("--no-record", "--planned", test_one=PASSES)
    assert planned.ret == pytest.ExitCode.OK


def test_an_unknown_site_is_a_usage_error_with_the_way_out(bench: Bench):
    bench.pytester.makepyfile(test_one=HEADER + PASSES)
    result = bench.pytester.runpytest_inprocess("-p", plugin.__name__, "--site", "labb")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*labb*no such site*", "*expected: one of *lab*"])


def test_no_site_is_a_usage_error_and_help_needs_none(bench: Bench):
    bench.pytester.makepyfile(test_one=HEADER + PASSES)
    result = bench.pytester.runpytest_inprocess("-p", plugin.__name__)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*say which site to validate: pytest validation --site SITE*"])
    helped = bench.pytester.runpytest_inprocess("-p", plugin.__name__, "--help")
    assert helped.ret == pytest.ExitCode.OK
    helped.stdout.fnmatch_lines(["*--site=SITE*"])


# ---- the limits that a check was judged by -------------------------------------------------------------------------------

JUDGED = """
import pytest

from validation.check import site_limit

@pytest.fixture(scope="session")
def job(plan):
    return site_limit(plan.site, "job_start_s")

@check("S165.measured")
def test_reads_one_itself_and_one_by_its_fixture(subject, plan, job):
    limit = site_limit(plan.site, "burn_in_run_h")
    plan.site.limits.get("ib_link_errors_max")
    return Outcome(True, 1.0, "fine", limit=limit)
"""


def judged_by(record: Record) -> set[str]:
    return {name.removeprefix("limit.") for name in record.inputs if name.startswith("limit.")}


def with_limit(bench: Bench, key: str, change: dict[str, object] | None) -> Site:
    """The bench's site with one limit changed, or without it."""
    data = yaml.safe_load(bench.site.read_text())
    if change is None:
        del data["limits"][key]
    else:
        data["limits"][key] |= change
    changed = bench.site.parent / "changed" / "site.yaml"
    changed.parent.mkdir(exist_ok=True)
    changed.write_text(yaml.safe_dump(data, sort_keys=False))
    return load_site(changed)


def test_a_record_names_the_very_limits_that_it_was_judged_by(bench: Bench):
    assert bench.run(test_one=JUDGED).ret == pytest.ExitCode.OK
    records = bench.records()
    assert len(records) == 1
    for record in records.values():
        assert judged_by(record) == {"burn_in_run_h", "job_start_s", "ib_link_errors_max"}


def test_limits_of_session_fixtures_count_where_a_folders_conftest_brings_the_plugin(bench: Bench):
    """As `pytest validation` does: pytest asks such a conftest.py nothing about session fixtures."""
    folder = bench.pytester.mkdir("checked")
    (folder / "conftest.py").write_text("from validation.plugin import *\n")
    (folder / "test_one.py").write_text(HEADER + JUDGED)
    result = bench.pytester.runpytest_subprocess(
        "checked", "--site", str(bench.site), "--out", str(bench.out), "--import-mode=importlib"
    )
    assert result.ret == pytest.ExitCode.OK
    (record,) = bench.records().values()
    assert "job_start_s" in judged_by(record)


@pytest.mark.parametrize(
    ("key", "change", "stale"),
    [
        ("burn_in_run_h", {"value": 0.001}, True),
        ("burn_in_run_h", {"source": "somebody else"}, True),
        ("job_start_s", {"value": 119}, True),
        ("ib_link_errors_max", None, True),
        ("telemetry_retention_d", {"value": 3}, False),
    ],
)
def test_evidence_is_stale_when_a_limit_that_judged_it_changes(
    bench: Bench, key: str, change: dict[str, object] | None, stale: bool
):
    bench.run(test_one=JUDGED)
    (record, *_) = bench.records().values()
    plan = build(with_limit(bench, key, change))
    contents = Contents((Entry(record, frozenset({"k"}), 1, record.mode),), owners={"k": KeyOwner("lab", "lab")})
    verdict = judge(load_register(), plan, contents, (), datetime.now(UTC), rehearsal=False)
    (item,) = [one for one in verdict.items if one.item == record.item]
    (found,) = [one for one in item.subjects if one.subject == record.subject]
    assert (f"limit.{key} changed" in found.detail) is stale, found


def test_every_check_that_judges_by_a_limit_is_stale_without_saying_so(bench: Bench):
    """S034 of the shipped checks, whose limits of drift, temperature and power nobody listed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            plugin, "gather", lambda plan, store: Facts.read(repo_root() / "tests/validation/data/healthy.json")
        )
        bench.run(test_one=BURN_IN)
    (record, *_) = bench.records().values()
    assert {"burn_in_run_h", "burn_in_drift_pct", "burn_in_outlier_c", "burn_in_power_pct"} <= judged_by(record)


BURN_IN = """
import pytest

from validation.checks.test_burn_in import test_gpu_burn_in_ends_without_fault
from validation.runners.burn_in import BurnIn

@pytest.fixture(scope="session")
def burn_in():
    node = {"device": "cpu", "duration_s": 9.0, "ranks": [], "gpus": [], "xids": [], "telemetry_error": ""}
    return BurnIn({}, {"nodes": {f"gpu00{n}": node for n in range(1, 5)}})
"""


# -- what has begun ----------------------------------------------------------------------------------------------------

PASSES_THEN_DIES = """
import os, signal

@check("S001.computed", inputs=("site.leadtimes",))
def test_first(subject):
    return Outcome(True, 1, "fine")

@check("S009.computed", inputs=("site.server",))
def test_second(subject):
    if os.environ.get("DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(True, 1, "fine")
"""


def status_of(bench: Bench) -> dict[str, str]:
    """What a rehearsal says of the two items of PASSES_THEN_DIES."""
    site = load_site(bench.site)
    contents = open_store(site, bench.out / "evidence").verify()
    verdict = judge(load_register(), build(site), contents, (), datetime.now(UTC), rehearsal=True)
    return {item.item: item.status for item in verdict.items if item.item in ("S001.computed", "S009.computed")}


def test_a_check_that_kill_9_ends_is_failed_and_not_its_earlier_pass(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    assert bench.run(test_one=PASSES_THEN_DIES).ret == pytest.ExitCode.OK
    assert status_of(bench) == {"S001.computed": "pass", "S009.computed": "pass"}
    monkeypatch.setenv("DIE", "1")
    assert bench.run(test_one=PASSES_THEN_DIES, apart=True).ret not in (0, 1)
    assert status_of(bench) == {"S001.computed": "pass", "S009.computed": "fail"}
    monkeypatch.delenv("DIE")
    assert bench.run(test_one=PASSES_THEN_DIES).ret == pytest.ExitCode.OK
    assert status_of(bench) == {"S001.computed": "pass", "S009.computed": "pass"}


def test_a_check_whose_result_a_full_disk_refuses_is_failed_and_not_its_earlier_pass(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    assert bench.run(test_one=PASSES_THEN_DIES).ret == pytest.ExitCode.OK
    written: list[int] = []
    real = Store._add

    def full(self: Store, *rest: Any) -> None:
        if len(written) == 1:  # what begins was written, no result is
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(1)
        real(self, *rest)

    monkeypatch.setattr(Store, "_add", full)
    result = bench.run(test_one=PASSES_THEN_DIES)
    assert result.ret == plugin.CANNOT_RECORD
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.fnmatch_lines(["*1 results could not be written *No space left on device*"])
    monkeypatch.undo()
    assert status_of(bench)["S001.computed"] == "fail"


def test_a_check_that_skips_itself_leaves_nothing_begun(bench: Bench):
    source = """
import pytest

@check("S001.computed")
def test_skips(subject):
    pytest.skip("no file was imported")

@pytest.fixture
def file():
    pytest.skip("no file was imported")

@check("S009.computed")
def test_fixture_skips(subject, file):
    return Outcome(True, 1, "fine")
"""
    assert bench.run(test_one=source).ret == pytest.ExitCode.OK
    assert status_of(bench) == {"S001.computed": "missing", "S009.computed": "missing"}


def test_every_result_is_written_before_the_next_check_ends(bench: Bench):
    assert bench.run(test_one=PASSES_THEN_DIES).ret == pytest.ExitCode.OK
    contents = Store.open(bench.out / "evidence").verify()
    assert [(entry.record.item, entry.line) for entry in contents.entries] == [
        ("S001.computed", 2),
        ("S009.computed", 3),
    ]
    assert [(one.predicate["item"], one.line) for one in contents.statements] == [
        ("S001.computed", 1),
        ("S009.computed", 2),
    ]


def test_a_broken_log_ends_the_run_before_any_check(bench: Bench):
    assert bench.run(test_one=PASSES_THEN_DIES).ret == pytest.ExitCode.OK
    log = bench.out / "evidence" / "log.jsonl"
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    result = bench.run(test_one=PASSES_THEN_DIES)
    assert result.ret == plugin.CANNOT_RECORD
    result.stdout.fnmatch_lines(["*tail cut*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*1 passed*")


OF_SLURM = """
@check("S160.applied", inputs=("site.scheduler",), manager="slurm")
def test_of_slurm(subject):
    return Outcome(True, 1, "one")
"""
OF_THE_PLATFORM = """
@check("P-05.measured", inputs=("site.scheduler",))
def test_of_the_platform(subject):
    return Outcome(True, 1, "one")
"""


def test_on_kubernetes_the_platforms_checks_run_and_those_that_ask_no_slurm(bench: Bench):
    data = yaml.safe_load(bench.site.read_text())
    data["scheduler"] = {"kind": "kubernetes", "accounts": [{"name": "research", "users": ["alice"]}]}
    data["versions"]["kubernetes"] = "1.36.3"
    bench.site.write_text(yaml.safe_dump(data, sort_keys=False))
    result = bench.run(test_one=PASSES + OF_SLURM + OF_THE_PLATFORM)
    assert result.ret == pytest.ExitCode.OK
    assert set(bench.records()) == {("S001.computed", "lab"), ("P-05.measured", "lab")}
    record = bench.records()["P-05.measured", "lab"]
    assert "program.validation/platform_steps.yaml#P-05.measured" in record.inputs
    result.assert_outcomes(passed=2, deselected=1)


def test_elsewhere_a_check_of_the_platform_is_skipped_with_the_key_that_causes_it(bench: Bench):
    result = bench.run("-rs", test_one=PASSES + OF_THE_PLATFORM)
    assert set(bench.records()) == {("S001.computed", "lab")}
    result.stdout.fnmatch_lines(["*not applicable: site key scheduler.kind is slurm, the step needs kubernetes*"])
