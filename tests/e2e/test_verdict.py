"""From checks to verdict: a rehearsal passes, go-live is refused, a hidden simulator is unproven, not real."""

import json

import pytest

from infra import lab
from tests.e2e.conftest import Standing

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def validated(standing: Standing) -> Standing:
    """The standing lab after one full run of the checks."""
    standing.validate()
    return standing


def test_the_rehearsal_passes_and_says_what_it_is(validated: Standing):
    verdict = validated.gate("--rehearsal")
    assert verdict.returncode == 0, verdict.stdout[-3000:]
    assert "REHEARSAL" in verdict.stdout
    assert "go-live is allowed" not in verdict.stdout.lower()


def test_every_item_that_the_lab_exercises_has_passed_for_every_subject(validated: Standing):
    verdict = json.loads(validated.gate("--rehearsal", "--json").stdout)
    judged = [item for item in verdict["items"] if item["status"] not in ("not_exercised", "not_applicable")]
    assert judged
    assert {item["status"] for item in judged} == {"pass"}, [i["item"] for i in judged if i["status"] != "pass"]


def test_go_live_is_refused_because_the_evidence_is_simulated(validated: Standing):
    verdict = validated.gate()
    assert verdict.returncode == 1
    assert "simulated" in verdict.stdout


def test_a_device_that_hides_its_marker_is_unproven_and_not_real(validated: Standing):
    lab.fault(validated.name, "strip-marker", ["gpu001"])
    try:
        validated.validate("validation/checks/test_bmc.py", check=False)
        verdict = json.loads(validated.gate("--json").stdout)
        touched = {item["item"]: item for item in verdict["items"] if item["item"] in ("S017.applied", "S020.observed")}
        assert {item["status"] for item in touched.values()} == {"unproven"}
    finally:
        lab.repair(validated.name)
        validated.validate("validation/checks/test_bmc.py")
