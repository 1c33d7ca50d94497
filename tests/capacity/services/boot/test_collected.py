"""From the spool of a boot server to the record of installed servers: what is taken, and what is refused by which name."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.services.boot import boot_server, intents
from capacity.services.boot.collected import Answer, Heard, installed, read, writings
from capacity.services.boot.intents import Intents, hyphened
from capacity.services.boot.life import Report
from capacity.services.boot.record import Installed, faults
from inventory.delivered.assets import load_assets
from tests.capacity.services.boot.cases import image
from tests.plans import plan_of

ROOT = "0" * 64
VERSION = "0123456789ab"
IMAGE = f"image gpu {VERSION}"
FIRST, SECOND = "52-54-00-78-00-01", "52-54-00-78-00-02"
UUID = "5b0e8d2c-7a4f-5a43-9d11-0c7b1f5a2b01"
ANSWER = Answer(f"gpu {VERSION} {ROOT}", UUID.upper(), "SIMULATED (bringup lab)", "uefi", 2000.0)


@pytest.fixture(scope="module")
def found() -> Intents:
    plan = plan_of("lab-metal")
    assert str(boot_server(plan)) == "10.78.1.1"
    return intents(plan, load_assets(plan.site))


def told(found: Intents, mac: str = FIRST, at: float = 1000.0, **more: Any) -> list[dict[str, Any]]:
    """The reports of one writing."""
    host = {hyphened(host["mac"]): host for host in found.servers()}[mac]
    serials = found.layouts[host["device"]].serials
    lines = [
        ("started", IMAGE),
        ("writing", f"{IMAGE} to {serials[0]}=nvme0n1 {serials[1]}=nvme1n1"),
        ("verifying", IMAGE),
        ("written", f"{ROOT} read back from {' '.join(serials)}"),
    ]
    address = host["address"].partition("/")[0]
    return [
        {"time": at + n, "mac": mac, "address": address, "state": state, "text": text, **more}
        for n, (state, text) in enumerate(lines)
    ]


def spool(*reports: dict[str, Any]) -> str:
    return "".join(json.dumps(one) + "\n" for one in reports)


def heard(found: Intents, *reports: dict[str, Any]) -> Heard:
    return writings(found, read(spool(*reports), "boot server"))


def test_two_servers_written_and_asked_give_two_records_without_faults(found: Intents) -> None:
    said = heard(found, *told(found), *told(found, SECOND, 1100.0))
    assert (list(said.written), said.faults, said.standing) == (["gpu001", "gpu002"], [], {})
    second = replace(ANSWER, uuid="9f0c2a54-1d7e-5b8f-8a36-6e1d3c4b5a02")
    records, problems = installed(said, {"gpu001": ANSWER, "gpu002": second}, {"gpu001": UUID}, {})
    assert problems == []
    one = records[0]
    assert (one.uuid, one.written_at, one.seen_at, one.writings) == (UUID, 1003.0, 2000.0, 1)
    assert faults(one, image(), "52:54:00:78:00:01", found.layouts["gpu001"].serials) == []


def test_a_mac_that_is_not_planned_is_named_and_recorded_nowhere(found: Intents) -> None:
    strange = [{**one, "mac": "02-00-00-00-00-99"} for one in told(found)]
    said = heard(found, *strange)
    assert said.written == {}
    (fault,) = said.faults
    assert fault.startswith(
        "02-00-00-00-00-99 is no boot port of the plan and reported 4 times, last written from 10.78.1."
    )
    assert said.silent == ["gpu001", "gpu002"]


def test_a_report_from_another_address_than_the_planned_one_is_refused(found: Intents) -> None:
    said = heard(found, *told(found, address="10.78.1.200"), *told(found, SECOND))
    assert list(said.written) == ["gpu002"]
    assert said.faults[0].startswith("gpu001: reports came from 10.78.1.200, planned 10.78.1.")


def test_one_drive_in_two_servers_records_neither(found: Intents) -> None:
    second = told(found, SECOND)
    second[-1]["text"] = told(found)[-1]["text"]
    said = heard(found, *told(found), *second)
    assert said.written == {}
    assert said.faults[0].startswith("drive SIM-DR-1001A was written in gpu001 and gpu002: ")


def test_a_drive_that_is_read_back_twice_is_refused(found: Intents) -> None:
    reports = told(found)
    reports[-1]["text"] = f"{ROOT} read back from SIM-DR-1001A SIM-DR-1001A"
    said = heard(found, *reports)
    assert said.written == {}
    assert said.faults == [
        "gpu001: SIM-DR-1001A is named twice as read back: a drive answers in two places; not recorded"
    ]


def test_a_line_that_was_cut_off_is_named_by_its_number_and_the_others_are_read(found: Intents) -> None:
    text = spool(*told(found))
    cut = text.rstrip("\n")[:-20]
    said = read(cut, "mgm01")
    assert [report.state for report in said.reports[FIRST]] == ["started", "writing", "verifying"]
    (fault,) = said.faults
    assert fault.startswith("mgm01, line 4: read a report: expected JSON, saw ")
    assert writings(found, said).working == ["gpu001"], "its end is not known, so it is not recorded"


BAD_LINES: dict[str, tuple[dict[str, Any], str]] = {
    "time as text": ({"time": "now"}, "a number at time"),
    "no time": ({"time": 0}, "a Unix time"),
    "endless time": ({"time": 1e400}, "JSON"),
    "no MAC": ({"mac": "gpu001"}, "a MAC with hyphens"),
    "another state": ({"state": "finished"}, "a state of the initramfs"),
    "text as list": ({"text": ["x"]}, "text at text"),
    "no address": ({"address": None}, "text at address"),
}


@pytest.mark.parametrize(("change", "wanted"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_line_of_another_shape_is_refused(found: Intents, change: dict[str, Any], wanted: str) -> None:
    said = read(spool({**told(found)[-1], **change}), "mgm01")
    assert said.reports == {}
    assert f"mgm01, line 1: read a report: expected {wanted}, saw " in said.faults[0]


@given(st.text(max_size=200))
def test_whatever_stands_in_the_spool_no_exception_leaves_it(text: str) -> None:
    said = read(text, "mgm01")
    assert said.reports == {}
    assert len(said.faults) <= 21


def test_many_broken_lines_are_counted() -> None:
    assert read("{\n" * 100, "mgm01").faults[-1] == "mgm01: 80 more lines are no reports"


def test_a_server_that_stopped_after_an_earlier_writing_is_not_recorded(found: Intents) -> None:
    stop = {**told(found, at=5000.0)[-1], "state": "foreign-content", "text": "drive SIM-DR-1001A holds abc"}
    said = heard(found, *told(found), stop)
    assert said.written == {}
    assert said.standing["gpu001"].startswith(
        "foreign-content: drive SIM-DR-1001A holds abc; a drive holds what nobody"
    )


def test_the_seed_that_the_boot_server_notes_is_no_fault(found: Intents) -> None:
    said = heard(found, *told(found, seed="ab" * 32))
    assert said.faults == []
    assert said.written["gpu001"].at == 1003.0


def test_a_server_found_with_its_image_keeps_its_last_writing(found: Intents) -> None:
    again = {**told(found, at=5000.0)[0], "state": "already-written"}
    assert heard(found, *told(found), again).written["gpu001"].at == 1003.0
    said = heard(found, again)
    assert said.written == {}
    assert said.faults[0].startswith("gpu001: its drives hold the image, and the spool has no report of the writing")


def test_an_image_of_another_role_is_refused(found: Intents) -> None:
    reports = told(found)
    reports[1]["text"] = reports[1]["text"].replace("gpu", "storage", 1)
    assert heard(found, *reports).faults == [
        "gpu001: the image of role storage was written, planned is gpu; not recorded"
    ]


def test_writings_are_counted_and_the_last_one_counts(found: Intents) -> None:
    said = heard(found, *told(found), *told(found, at=9000.0))
    assert (said.written["gpu001"].writings, said.written["gpu001"].at, said.written["gpu001"].alike) == (2, 9003.0, 2)


def test_a_writing_of_another_image_before_it_is_not_alike(found: Intents) -> None:
    before = told(found)
    sha256 = before[-1]["text"].split()[0]
    before[-1]["text"] = before[-1]["text"].replace(sha256, "f" * 64)
    said = heard(found, *before, *told(found, at=9000.0))
    assert (said.written["gpu001"].writings, said.written["gpu001"].alike) == (2, 1)


@pytest.fixture
def before(found: Intents) -> Installed:
    (one,), problems = installed(heard(found, *told(found)), {"gpu001": ANSWER}, {}, {})
    assert problems == []
    return replace(one, alone=one.drives, login_s=300.0)


def test_a_node_that_does_not_answer_keeps_the_record_of_the_same_writing(found: Intents, before: Installed) -> None:
    said = heard(found, *told(found))
    records, problems = installed(said, {"gpu001": "no route"}, {}, {"gpu001": before})
    assert records == [before]
    assert problems == ["gpu001: does not say what it runs: no route; its record of the same writing is kept"]
    assert installed(said, {"gpu001": "no route"}, {}, {})[0] == []


def test_what_was_seen_of_drives_holds_for_the_same_writing_only(found: Intents, before: Installed) -> None:
    same, later = (
        installed(heard(found, *told(found, at=at)), {"gpu001": ANSWER}, {}, {"gpu001": before})[0][0]
        for at in (1000.0, 7000.0)
    )
    assert (same.alone, same.login_s) == (before.drives, 300.0)
    assert (later.alone, later.login_s) == ((), None)


def test_another_machine_at_the_address_is_not_recorded(found: Intents, before: Installed) -> None:
    other = {"gpu001": replace(ANSWER, uuid="ffffffff-0000-0000-0000-000000000000")}
    records, problems = installed(heard(found, *told(found)), other, {"gpu001": UUID}, {"gpu001": before})
    assert records == []
    assert problems[0].startswith(
        "gpu001: UUID ffffffff-0000-0000-0000-000000000000 answers at its address, delivered was 5b0e"
    )


def test_a_server_that_never_reported_keeps_its_record(found: Intents, before: Installed) -> None:
    records, problems = installed(heard(found, *told(found, SECOND)), {"gpu002": ANSWER}, {}, {"gpu001": before})
    assert {one.server for one in records} == {"gpu001", "gpu002"}
    assert problems == []


def test_a_report_says_where_it_came_from(found: Intents) -> None:
    (report, *_) = read(spool(*told(found)), "mgm01").reports[FIRST]
    assert report == Report(1000.0, "started", IMAGE, report.address)
    assert report.address.startswith("10.78.1.")
