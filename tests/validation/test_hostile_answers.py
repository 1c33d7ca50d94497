"""What devices say is hostile until parsed: `bringup compare` on recorded facts in which one device says something odd."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from infra import cli
from infra.cli.common import CANNOT, JUDGED_NO, OK
from tests.validation.test_recorded_facts import HEALTHY, with_changes

pytestmark = pytest.mark.usefixtures("plans_kept")

LLDP = "/switches/leaf01/data/lldp/swp1"
OUTLET_OFF = {"/pdus/pdu-r02-b/data/outlets/1/on": False}
"""Another device's fault, which must be found whatever the first one says."""


def compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], *words: str
) -> tuple[int, str]:
    """(exit status, what was printed) of `bringup compare lab --facts` on the healthy recording with these changes."""
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(with_changes(json.loads(HEALTHY.read_text()), changes)))
    status = cli.main(["compare", "lab", "--facts", str(path), "--out", str(tmp_path), *words])
    return status, capsys.readouterr().out


def findings(out: str) -> dict[tuple[str, str], str]:
    return {(f["id"], f["subject"]): f["message"] for f in json.loads(out)["findings"]}


def controls(text: str) -> set[str]:
    """Characters that a terminal or a log acts on."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {"\n"}


def test_the_recording_itself_differs_in_nothing(tmp_path, capsys):
    assert compare(tmp_path, capsys, {})[0] == OK


def test_exchanged_cables_are_written_as_a_work_list_and_an_older_one_goes(tmp_path, capsys):
    swap = json.loads(HEALTHY.with_name("cable-swap.json").read_text())["changes"]
    status, out = compare(tmp_path, capsys, swap)
    (file,) = tmp_path.rglob("work-list.csv")
    assert status == JUDGED_NO
    assert "Work list, one walk of 1 steps: " in out
    rows = file.read_text().splitlines()
    assert rows[0].startswith("step,finding,do,device,port,rack,u,cage,label")
    assert ["spine01,swp1," in rows[1], "spine01,swp2," in rows[2], len(rows)] == [True, True, 3]
    assert compare(tmp_path, capsys, {})[0] == OK
    assert not file.exists()


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/bmcs/gpu001/data/identity/serial", 123456),
        ("/pdus/pdu-r01-a/data/identity/serial", ["SIM"]),
        ("/switches/leaf01/data/mgmt_mac", None),
        ("/nodes/gpu001/data/identity/uuid", {"a": 1}),
        ("/bmcs/gpu001/data/power_supplies", []),
        ("/pdus/pdu-r01-a/data/outlets/0", 7),
        ("/switches/leaf01/data/lldp/swp1/age_s", "1033"),
        ("/nodes/gpu001/data/gpus/devices/0/ecc", "off"),
    ],
)
def test_an_answer_that_cannot_be_read_is_exit_2_and_the_other_devices_are_compared(tmp_path, capsys, pointer, value):
    status, out = compare(tmp_path, capsys, {pointer: value, **OUTLET_OFF}, "--json")
    found = findings(out)
    device = pointer.split("/")[2]
    assert status == CANNOT
    assert found["ANSWER-UNREADABLE", device].startswith(f"{device}: ")
    assert ("OUTLET-STATE", "pdu-r02-b") in found


def test_a_device_whose_driver_could_not_read_it_is_exit_2_when_the_facts_are_compared_later(tmp_path, capsys):
    problem = "gpu001: read identity: expected text at serial, saw number 123456; check its firmware"
    changes = {"/bmcs/gpu001/error": problem, "/bmcs/gpu001/error_kind": "UnreadableAnswer", "/bmcs/gpu001/data": {}}
    status, out = compare(tmp_path, capsys, changes, "--json")
    assert status == CANNOT
    assert "saw number 123456" in findings(out)["ANSWER-UNREADABLE", "gpu001"]


@pytest.mark.parametrize("kind", ["Unreachable", "LoginRefused", "DeviceTimeout"])
def test_a_device_that_does_not_answer_is_a_difference_as_before(tmp_path, capsys, kind):
    changes = {"/bmcs/gpu001/error": "gpu001: no", "/bmcs/gpu001/error_kind": kind, "/bmcs/gpu001/data": {}}
    assert compare(tmp_path, capsys, changes)[0] == JUDGED_NO


def test_the_message_says_field_expected_and_seen(tmp_path, capsys):
    _, out = compare(tmp_path, capsys, {"/bmcs/gpu001/data/identity/serial": 123456}, "--json")
    message = findings(out)["ANSWER-UNREADABLE", "gpu001"]
    assert "expected text at identity.serial, saw number 123456" in message


def test_escape_sequences_of_a_neighbour_never_reach_the_terminal(tmp_path, capsys):
    name = "evil\x1b[2J\x1b]0;owned\x07\u202e\x9b31m"
    status, out = compare(tmp_path, capsys, {f"{LLDP}/far": name})
    assert status == JUDGED_NO
    assert "TOPOLOGY-FOREIGN" in out
    assert "evil" in out
    assert not controls(out)


def test_a_newline_in_a_port_id_does_not_split_a_finding(tmp_path, capsys):
    changes = {f"{LLDP}/far_port": "swp9\nerror    LINK-DOWN spine02: forged\u2028line"}
    status, out = compare(tmp_path, capsys, changes)
    assert status == JUDGED_NO
    (line,) = [line for line in out.splitlines() if "forged" in line]
    assert "TOPOLOGY-" in line.split("forged")[0]


def test_markup_of_a_neighbour_is_shown_as_it_is(tmp_path, capsys):
    status, out = compare(tmp_path, capsys, {f"{LLDP}/far": "[/red]"})
    assert status == JUDGED_NO
    assert "[/red]" in out
