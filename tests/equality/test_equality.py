"""The equality report itself: it says nothing of the same tree, and names what a change moved."""

import copy
import dataclasses
from pathlib import Path

import pytest

from tests.equality import __main__ as command
from tests.equality import collect, records
from tests.equality.product import SHIPPED, Tree, masked, named

RANDOM = "random-b200-256-roce-001"
FAULT = "fault-outlet-off"
FEW = ("lab", RANDOM, FAULT)


@pytest.fixture(scope="module")
def baseline() -> records.Records:
    return records.loaded(records.read_text(records.BASELINE))


@pytest.fixture(scope="module")
def found(baseline: records.Records) -> records.Records:
    """What the baseline has of one site or recording of each kind."""
    return {key: fields for key, fields in baseline.items() if key[0] in FEW}


def test_the_baseline_is_of_the_shipped_and_210_random_sites_and_of_every_recording(baseline):
    sites = {site for site, _ in baseline}
    assert set(SHIPPED) <= sites
    assert len([site for site in sites if site.startswith("random-")]) == 207
    assert set(collect.random_sites()) <= sites
    recordings = {f"fault-{path.stem}" for path in (Path("tests/validation/data")).glob("*.json")}
    assert len(recordings) > 60
    assert len([site for site in sites if site.startswith(("fault-", "cabling-"))]) >= 62 + 14


def test_no_site_of_the_baseline_was_refused_and_no_shipped_one_ended_in_a_traceback(baseline):
    assert {site for site, thing in baseline if thing.startswith("error/") and not site.startswith("random-")} == set()
    assert [key for key, fields in baseline.items() if key[1] == "load" and fields["error"]] == []
    assert [key for key, fields in baseline.items() if key[1].startswith("manifest/") and fields["wrong"]] == []


def test_this_tree_is_as_the_baseline_says_but_for_what_is_accepted(tmp_path, found, capfd):
    """As `make equality` does it, in a process of its own: a shipped site, a random one and a recorded fault."""
    out = tmp_path / "found.jsonl"
    status = command.main([word for name in FEW for word in ("--only", name)] + ["--jobs", "1", "--out", str(out)])
    assert (status, capfd.readouterr().out) == (0, "")
    assert {site for site, _ in records.loaded(out.read_text())} == set(FEW)


def test_each_kind_of_thing_is_recorded(found):
    kinds = {name: {thing.partition("/")[0] for site, thing in found if site == name} for name in FEW}
    assert kinds["lab"] >= {"load", "frame", "finding", "hashes", "summary", "file", "ansible", "telemetry", "slurm"}
    assert kinds[RANDOM] >= {"load", "frame", "finding", "hashes", "summary", "file"}
    assert kinds[FAULT] >= {"recording", "finding", "check"}
    files = {thing for site, thing in found if site == "lab" and thing.startswith("file/")}
    assert {
        "file/render/leaf01.conf",
        "file/plan/report.html",
        "file/render/drawings.pdf",
        "file/plan/purchase.xlsx",
        "file/export/programme-xer",
    } <= files


@pytest.mark.parametrize("thing", ["frame/outlets", "hashes", "summary/power_kw", "file/render/leaf01.conf"])
def test_one_changed_field_is_one_line_that_names_site_and_thing(found, thing):
    changed = copy.deepcopy(found)
    name = sorted(changed["lab", thing])[-1]
    changed["lab", thing][name] = "another"
    (line,) = records.report(found, changed)
    assert line.startswith(f"lab  {thing}  {name} ")


def test_new_and_missing_findings_are_told_with_their_severity(found):
    key = next(key for key in sorted(found) if key[0] == FAULT and key[1].startswith("finding/"))
    fewer = {one: fields for one, fields in found.items() if one != key}
    assert records.report(found, fewer) == [f"{FAULT}  {key[1]}  gone (severity error)"]
    assert records.report(fewer, found) == [f"{FAULT}  {key[1]}  new (severity error)"]


def test_texts_of_findings_differ_only_when_asked(found):
    key = next(key for key in sorted(found) if key[1].startswith("finding/"))
    reworded = {**found, key: {**found[key], "message": "another"}}
    assert records.report(found, reworded) == []
    assert len(records.report(found, reworded, messages=True)) == 1


def accepted(**given) -> records.Accepted:
    return records.Accepted(**{"sites": "*", "things": "*", "commit": "Change it", "reason": "wanted", **given})


def test_an_accepted_difference_is_not_told_and_a_superfluous_entry_is(found):
    changed = {**found, ("lab", "frame/bom"): {**found["lab", "frame/bom"], "rows": -1}}
    assert records.report(found, changed, [accepted(sites="la*", things="frame/bom", fields=("rows",))]) == []
    assert len(records.report(found, changed, [accepted(things="frame/bom", fields=("column.*",))])) == 2
    assert records.report(found, found, [accepted()]) == ["accepted.yaml  * *  superfluous: nothing differs there"]


def test_a_site_that_is_refused_is_one_line(found):
    refused = {key: fields for key, fields in found.items() if key[0] != "lab"} | {("lab", "load"): {"error": "no"}}
    (line,) = records.report(found, refused)
    assert line.startswith("lab  load  ")


def test_an_accepted_entry_needs_a_commit_and_a_reason(tmp_path):
    path = tmp_path / "accepted.yaml"
    path.write_text("accepted:\n- {sites: lab, things: '*', commit: ' ', reason: because}\n")
    with pytest.raises(ValueError, match="lab"):
        records.read_accepted(path)


def test_rewording_changes_the_hash_of_a_text_and_not_that_of_its_numbers():
    one, other = records.text_fields("load 3.5 kW of 4"), records.text_fields("4 kW limit, 3.5 kW load")
    assert one["text"] != other["text"]
    assert one["numbers"] == other["numbers"]
    assert records.text_fields("load 3.6 kW of 4")["numbers"] != one["numbers"]


def test_the_tenth_digit_of_a_number_is_not_compared():
    assert records.canonical({"a": 1.00000000001}) == records.canonical({"a": 1.0})
    assert records.canonical({"a": 1.0000001}) != records.canonical({"a": 1.0})
    assert records.text_fields("0.30000000000000004") == records.text_fields("0.3")


def test_findings_of_one_subject_are_numbered_by_their_numbers_and_not_by_their_texts():
    finding = type(next(iter(_lab().findings)))
    one, other = finding("A", "info", "x", "z", {"n": 1}), finding("A", "info", "x", "a", {"n": 2})
    assert [f.numbers["n"] for _, f in named([other, one])] == [1, 2]


def test_what_is_rendered_has_neither_the_hash_of_the_plan_nor_texts_of_findings():
    plan = _lab()
    blank = masked(plan)
    assert blank.hash != plan.hash
    assert not {f.message for f in blank.findings} & {f.message for f in plan.findings}
    assert [dataclasses.replace(f, message="") for f in blank.findings] == [
        dataclasses.replace(f, message="") for f in plan.findings
    ]


def _lab():
    from infra.cli.common import planned

    return planned("lab")


def test_every_stored_site_is_a_whole_site_file():
    stored = collect.random_sites()
    assert len(stored) == len({files["site.yaml"] for files in stored.values()}) == 207


def test_a_folder_that_is_no_tree_is_refused(tmp_path, capsys):
    assert command.main(["--tree", str(tmp_path)]) == 2
    assert "no tree of Bringup" in capsys.readouterr().err


def test_the_tree_is_not_patched_by_importing_the_harness():
    import typst

    assert typst.compile.__module__ != Tree.__module__
