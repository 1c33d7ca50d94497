"""Records of power actions come back as they were written, and what is no such record is named by its file."""

import json
from pathlib import Path

import pytest

from inventory.delivered.power_acts import PowerActError, kept, recorder


def test_the_last_power_action_of_each_server_is_kept(tmp_path: Path) -> None:
    assert kept(tmp_path / "none") == {}
    for server in ("gpu001", "gpu002"):
        recorder(tmp_path, server, f"S-{server}")("On", "Off", "On")
    recorder(tmp_path, "gpu002", "S-gpu002")("ForceOff", "On", "Off")
    found = kept(tmp_path)
    assert {name: (act.serial, act.reset, act.before, act.after) for name, act in found.items()} == {
        "gpu001": ("S-gpu001", "On", "Off", "On"),
        "gpu002": ("S-gpu002", "ForceOff", "On", "Off"),
    }
    assert found["gpu001"].at <= found["gpu002"].at


@pytest.mark.parametrize(
    "change",
    [
        {"server": "gpu002"},
        {"serial": 7},
        {"reset": "On\n"},
        {"before": ""},
        {"after": None},
        {"at": "now"},
        {"at": True},
        {"more": 1},
        {"reset": "x" * 5000},
    ],
)
def test_a_record_of_another_shape_is_named_by_its_file(tmp_path: Path, change: dict[str, object]) -> None:
    recorder(tmp_path, "gpu001", "S1")("On", "Off", "On")
    path = tmp_path / "gpu001.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(PowerActError, match=f"{path}: no record of a power action"):
        kept(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 2000])
def test_a_file_that_is_no_json_object_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "gpu001.json").write_text(text)
    with pytest.raises(PowerActError, match=r"gpu001\.json"):
        kept(tmp_path)
