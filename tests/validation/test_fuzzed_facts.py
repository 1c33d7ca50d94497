"""Recorded facts in which devices say something else: every finding can be printed, and no device's answer is a traceback."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity.model import Plan
from inventory.delivered.assets import load_assets
from tests.hostile import controls, mutated
from tests.plans import plan_of
from tests.validation.test_recorded_facts import HEALTHY
from validation.diagnose import diagnose
from validation.facts import Facts, FactsError
from validation.facts.answer import KINDS

RECORDED = json.loads(HEALTHY.read_text())
ONE_OF_EACH = {kind: sorted(RECORDED[kind])[0] for kind in KINDS if kind in RECORDED} | {
    "nodes": "gpu001",
    "bmcs": "gpu002",
}
"""The device of each kind that is no longer itself."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("facts") / "facts.json"


@pytest.mark.parametrize("kind", sorted(ONE_OF_EACH))
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_one_device_with_other_values_leaves_the_findings_about_all_others(plan, file, kind, data):
    device = ONE_OF_EACH[kind]
    answer = RECORDED[kind][device]
    said = answer | {"data": data.draw(mutated(answer["data"], most=4))}
    file.write_text(json.dumps(RECORDED | {kind: RECORDED[kind] | {device: said}}))
    facts = Facts.read(file)
    assert not controls([answer.error for answer in getattr(facts, kind).values()])
    found = [finding.as_dict() for finding in diagnose(plan, load_assets(plan.site), facts)]
    assert not controls(found)
    assert all("\n" not in str(finding[key]) for finding in found for key in ("subject", "message"))
    if facts.unreadable():
        assert facts.unreadable() == [device]


@pytest.mark.parametrize("name", ["\ud800", "gpu001\n", "\x1b[2J", "gpu\u202e001"])
@pytest.mark.parametrize("kind", ["pdus", "nodes", "roce_switches"])
def test_a_recording_of_a_device_whose_name_cannot_be_printed_is_refused(file: Path, kind: str, name: str) -> None:
    """Half of a character pair (\\ud800) has no UTF-8 form: comparing it with names of the plan ended in a traceback."""
    file.write_text(json.dumps(RECORDED | {kind: {name: None}}))
    with pytest.raises(FactsError, match=r"facts\.json: '.*' is no name of a device, expected printable text"):
        Facts.read(file)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_recording_with_anything_in_it_is_facts_or_named_as_none(plan, file, data):
    envelope = {key: RECORDED[key] for key in ("schema_version", "started", "ended")} | {kind: {} for kind in KINDS}
    some = envelope | {"pdus": {"pdu-r01-a": RECORDED["pdus"]["pdu-r01-a"]}}
    file.write_text(json.dumps(data.draw(mutated(some))))
    try:
        facts = Facts.read(file)
    except FactsError:
        return
    diagnose(plan, load_assets(plan.site), facts)
