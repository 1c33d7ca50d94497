"""From checks to verdict: a rehearsal passes, go-live is refused, a hidden simulator is unproven, not real."""

import json

import pytest

from infra import lab
from inventory.secret_tables import Owner
from inventory.secrets import for_devices, resolve
from tests.standing import Standing
from validation.register import load_register

pytestmark = pytest.mark.lab

TOUCHED = ("S017.applied", "S020.observed")
"""Items that ask every BMC, so that the one without its marker decides."""


@pytest.fixture(scope="module")
def validated(standing: Standing) -> Standing:
    """The standing lab after one full run of the checks. Tests before it cut supplies, which the BMCs have logged."""
    standing.clear_event_logs()
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
    partial = {item.id for item in load_register().items.values() if item.partial}
    open_items = [i["id"] for i in judged if i["status"] != ("partial" if i["id"] in partial else "pass")]
    assert open_items == []


def test_go_live_is_refused_because_the_evidence_is_simulated(validated: Standing):
    verdict = validated.gate()
    assert verdict.returncode == 1
    assert "simulated" in verdict.stdout


def test_a_device_that_hides_its_marker_is_unproven_and_not_real(validated: Standing):
    lab.fault(validated.name, "strip-marker", ["gpu001"])
    try:
        checked = validated.validate("validation/checks/test_bmc.py", check=False)
        assert checked.returncode == 0, checked.stdout[-3000:]
        verdict = json.loads(validated.gate("--rehearsal", "--json").stdout)
        assert "UNPROVEN" in verdict["verdict"]
        touched = {item["id"]: item["status"] for item in verdict["items"] if item["id"] in TOUCHED}
        assert touched == dict.fromkeys(TOUCHED, "unproven")
        go_live = json.loads(validated.gate("--json").stdout)
        assert not go_live["go_live"]
        # other records of the run still declare the device simulated, and at go-live all of them are joined
        assert {item["status"] for item in go_live["items"] if item["id"] in TOUCHED} <= {"unproven", "simulated"}
    finally:
        lab.repair(validated.name)


def test_no_secret_is_in_evidence_facts_or_reports(validated: Standing):
    credentials = validated.site.credentials
    references = [credentials.snmp.auth, credentials.snmp.priv]
    references += [credentials.bmc.factory.password] if credentials.bmc.factory else []
    values = [resolve(reference, base=validated.site.dir).get_secret_value().encode() for reference in references]
    own = for_devices(credentials.bmc.password, validated.site.dir)
    values += [own(Owner(name)).get_secret_value().encode() for name in validated.servers]
    files = [path for path in validated.var.rglob("*") if path.is_file()]
    assert any(path.parent.name == "facts" for path in files)
    assert [path for path in files if any(value in path.read_bytes() for value in values)] == []
