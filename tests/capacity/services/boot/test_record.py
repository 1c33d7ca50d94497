"""The record of installed servers: written and read, refused when it is another file, and compared with image and plan."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.services.boot.record import (
    Installed,
    RecordError,
    faults,
    from_text,
    read_back,
    starts_from_each,
    to_text,
)
from tests.capacity.services.boot.cases import image

ROOT = "0" * 64
MAC = "52:54:00:78:00:01"
SERIALS = ("S1", "S2")
GOOD = Installed(
    server="gpu001",
    role="gpu",
    mac=MAC,
    uuid="5b0e8d2c-7a4f-5a43-9d11-0c7b1f5a2b01",
    maker="SIMULATED (bringup lab)",
    firmware="bios",
    version="0123456789ab",
    sha256=ROOT,
    drives=SERIALS,
    running=f"gpu 0123456789ab {ROOT}",
    writings=1,
    written_s=163.5,
    login_s=390.0,
    alone=SERIALS,
)

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
seconds = st.none() | st.floats(0, 1e6, allow_nan=False)
serials = st.lists(names, max_size=3).map(tuple)
RECORDS = st.builds(
    Installed,
    server=names,
    role=names,
    mac=names,
    uuid=names,
    maker=names,
    firmware=st.sampled_from(["bios", "uefi"]),
    version=names,
    sha256=names,
    drives=serials,
    running=names,
    writings=st.integers(0, 9),
    written_s=seconds,
    login_s=seconds,
    alone=serials,
)


@given(st.lists(RECORDS, max_size=4, unique_by=lambda one: one.server))
def test_what_is_written_is_what_is_read(records: list[Installed]) -> None:
    text = to_text(records)
    assert from_text(text, "installed.json") == {one.server: one for one in records}
    assert to_text(list(reversed(records))) == text


Change = Callable[[dict[str, Any]], Any]
BAD: dict[str, Change] = {
    "no key": lambda said: said["servers"][0].pop("uuid"),
    "unknown key": lambda said: said["servers"][0].update(hash="x"),
    "number as text": lambda said: said["servers"][0].update(writings="1"),
    "truth as number": lambda said: said["servers"][0].update(writings=True),
    "text as list": lambda said: said["servers"][0].update(drives="S1 S2"),
    "list of numbers": lambda said: said["servers"][0].update(alone=[1]),
    "time as text": lambda said: said["servers"][0].update(login_s="soon"),
    "twice": lambda said: said["servers"].append(said["servers"][0]),
    "another version": lambda said: said.update(schema_version=2),
    "no servers": lambda said: said.update(servers=None),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD.keys())
def test_another_file_is_refused_by_its_name(change: Change) -> None:
    said = json.loads(to_text([GOOD]))
    change(said)
    with pytest.raises(RecordError, match=r"^var/hall/installed\.json: "):
        from_text(json.dumps(said), "var/hall/installed.json")


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100000])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match=r"^installed\.json: "):
        from_text(text, "installed.json")


def test_the_report_of_a_written_server_names_hash_and_drives() -> None:
    assert read_back(f"{ROOT} read back from S1 S2") == (ROOT, SERIALS)


@pytest.mark.parametrize(
    "text", ["", "image gpu 0123456789ab", f"{ROOT} read back from ", f"{ROOT[1:]} read back from S1"]
)
def test_another_report_says_nothing_of_what_was_read_back(text: str) -> None:
    with pytest.raises(ValueError, match="not what a server reports when it is written"):
        read_back(text)


def test_a_server_with_the_image_on_its_planned_drives_has_no_faults() -> None:
    assert faults(GOOD, image(), MAC, SERIALS) == []


FAULTY: dict[str, tuple[dict[str, Any], str]] = {
    "another port": ({"mac": "52:54:00:78:00:ff"}, "installed over 52:54:00:78:00:ff, planned 52:54:00:78:00:01"),
    "another image read back": (
        {"sha256": "f" * 64},
        "ffffffffffff was read back, the image of role gpu is 000000000000",
    ),
    "one drive only": ({"drives": ("S1",)}, "nothing was read back from S2"),
    "a drive too many": ({"drives": ("S1", "S2", "S3")}, "S3 was written and is not planned"),
    "another image runs": ({"running": f"gpu ffff {ROOT}"}, f"the node runs gpu ffff {ROOT}, planned gpu 0123456789ab"),
    "the node knows of no image": ({"running": ""}, "the node runs no image that it knows of"),
}


@pytest.mark.parametrize(("change", "says"), FAULTY.values(), ids=FAULTY.keys())
def test_each_difference_is_named(change: dict[str, Any], says: str) -> None:
    found = faults(replace(GOOD, **change), image(), MAC, SERIALS)
    assert len(found) == 1
    assert says in found[0]


@pytest.mark.parametrize(
    ("alone", "each"), [(("S1", "S2"), True), (("S1",), False), ((), False), (("S1", "S3"), False)]
)
def test_a_server_starts_from_each_drive_when_each_was_tried(alone: tuple[str, ...], each: bool) -> None:
    assert starts_from_each(replace(GOOD, alone=alone), SERIALS) is each
    assert not starts_from_each(None, SERIALS)
    assert not starts_from_each(GOOD, ())
