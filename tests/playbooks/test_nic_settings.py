"""The program of role infiniband that sets adapters, on a tree like sysfs, with a script that answers as NVIDIA's manual shows."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from capacity.outputs import ansible_hosts
from inventory.delivered.firmware import Bundle
from network.infiniband.subnet import compute_ports
from tests.plans import plan_of
from tests.playbooks.support import load

ANSWER = Path(__file__).parents[1] / "data" / "modelled" / "mlxconfig" / "query.txt"
module: Any = load("roles/infiniband/files/nic_settings.py")
GUIDS = {"mlx5_0": "b83fd20300aa0000", "mlx5_1": "b83fd20300aa0001", "mlx5_9": "b83fd20300bb0000"}
PCI = {"mlx5_0": "0000:18:00.0", "mlx5_1": "0000:2a:00.0", "mlx5_9": "0000:e1:00.0"}
SETTINGS = {"LINK_TYPE_P1": 1, "PCI_WR_ORDERING": 1, "ATS_ENABLED": 0}

MLXCONFIG = r"""
import json, os, re, sys
words = sys.argv[1:]
state = os.path.join(os.environ["STATE"], words[words.index("-d") + 1])
after = json.load(open(state)) if os.path.exists(state) else {}
if "set" in words:
    assert words[0] == "-y", "it would ask"
    with open(os.path.join(os.environ["STATE"], "log"), "a") as log:
        log.write(" ".join(words) + "\n")
    if not os.environ.get("FORGETS"):
        after |= dict(pair.split("=") for pair in words[words.index("set") + 1:])
        json.dump(after, open(state, "w"))
    sys.exit()
names = words[words.index("query") + 1:]
for line in open(os.environ["ANSWER"]).read().splitlines():
    cells = line.lstrip("*").split()
    if not cells or not re.fullmatch("[A-Z][A-Z0-9_]+", cells[0]):
        print(line)
    elif cells[0] in names:
        print(line if cells[0] not in after else line[:line.rindex(cells[3])] + "x(" + after[cells[0]] + ")")
"""


class Server:
    """A server with three adapters, two of them planned."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self.sys, self.capture = folder, folder / "sys", capture
        for name, guid in GUIDS.items():
            place = self.sys / "devices/pci0000:00" / PCI[name] / "infiniband" / name
            gids = place / "ports/1/gids/0"
            gids.parent.mkdir(parents=True)
            spaced = ":".join(guid[n : n + 4] for n in range(0, 16, 4))
            (place / "node_guid").write_text(spaced + "\n")
            gids.write_text(f"fe80:0000:0000:0000:{spaced}\n")
            (place / "device").symlink_to(place.parents[1])
            entry = self.sys / "class/infiniband" / name
            entry.parent.mkdir(parents=True, exist_ok=True)
            entry.symlink_to(place)
        (folder / "bin").mkdir()
        tool = folder / "bin/mlxconfig"
        tool.write_text(f"#!{sys.executable}\n{MLXCONFIG}")
        tool.chmod(0o755)

    def run(self, act: str, wanted: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        path = self.folder / "wanted.json"
        path.write_text(json.dumps(wanted))
        self.capture.readouterr()
        code = module.main([act, str(path)])
        return code, json.loads(self.capture.readouterr().out)

    def set_commands(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def server(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server(tmp_path, capsys)
    monkeypatch.setattr(module, "SYS", made.sys)
    for name, value in {"STATE": tmp_path, "ANSWER": ANSWER, "PATH": tmp_path / "bin"}.items():
        monkeypatch.setenv(name, str(value))
    return made


WANTED = {"settings": SETTINGS, "guids": [GUIDS["mlx5_0"], GUIDS["mlx5_1"]]}


def test_what_differs_is_set_on_planned_adapters_only_and_is_in_force_after_the_next_boot(server: Server) -> None:
    planned = [PCI["mlx5_0"], PCI["mlx5_1"]]
    code, said = server.run("show", WANTED)
    assert code == 0
    assert said["differs"] == {pci: {"LINK_TYPE_P1": [2, 1], "PCI_WR_ORDERING": [0, 1]} for pci in planned}
    assert server.set_commands() == []
    code, said = server.run("apply", WANTED)
    assert (code, said["differs"], said["restart"], said["error"]) == (0, {}, planned, "")
    assert server.set_commands() == [f"-y -d {pci} set LINK_TYPE_P1=1 PCI_WR_ORDERING=1" for pci in planned]


def test_a_second_run_sets_nothing(server: Server) -> None:
    server.run("apply", WANTED)
    before = server.set_commands()
    assert server.run("apply", WANTED)[1]["done"] == []
    assert server.set_commands() == before


def test_a_setting_that_does_not_stick_fails(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGETS", "1")
    code, said = server.run("apply", WANTED)
    assert code == 1
    assert said["differs"][PCI["mlx5_0"]]["LINK_TYPE_P1"] == [2, 1]


@pytest.mark.parametrize(("wanted", "said"), [
    ({**WANTED, "guids": []}, "assets.csv has no GUID"),
    ({**WANTED, "guids": ["b83fd20300ff0000"]}, "no adapter has the GUID b83fd20300ff0000"),
    ({**WANTED, "settings": {"NO_SUCH": 1}}, "mlxconfig shows no NO_SUCH"),
])  # fmt: skip
def test_what_cannot_be_set_is_named_and_nothing_is_set(server: Server, wanted: dict[str, Any], said: str) -> None:
    code, answer = server.run("apply", wanted)
    assert code == 1
    assert said in answer["error"]
    assert server.set_commands() == []


def test_without_the_program_its_package_is_named(server: Server) -> None:
    (server.folder / "bin/mlxconfig").unlink()
    assert "NVIDIA's MFT, or the package mstflint" in server.run("show", WANTED)[1]["error"]


@pytest.mark.parametrize(("shown", "number"), [("IB(1)", 1), ("8", 8), ("True(1)", 1), ("0x10", 16), ("_256KB(1)", 1)])
def test_values_are_compared_by_their_number(shown: str, number: int) -> None:
    assert module.number(shown) == number


@pytest.mark.parametrize("shown", ["Array[0..7]", "N/A", "IB"])
def test_a_value_without_a_number_is_refused(shown: str) -> None:
    with pytest.raises(module.SettingsError):
        module.number(shown)


def test_servers_get_the_settings_of_their_models_bundle_and_the_guids_of_the_asset_list() -> None:
    plan = plan_of("lab")
    ports = [port for port in compute_ports(plan) if port.startswith("gpu001:")]
    assets = plan.devices.set_index("name").assign(guid="")[["guid"]]
    assets.loc[ports[0], "guid"] = GUIDS["mlx5_0"]
    model = plan.devices.set_index("name")["model"]["gpu001"]
    bundle = Bundle.model_construct(adapter_settings=SETTINGS)
    found = ansible_hosts.adapter_settings_of(plan, {model: bundle}, assets)
    assert found["gpu001"] == {"settings": SETTINGS, "guids": [GUIDS["mlx5_0"]]}
    assert found["gpu002"]["guids"] == []
    assert ansible_hosts.adapter_settings_of(plan, {}, assets) == {}
    assert ansible_hosts.adapter_settings_of(plan_of("b200-256-roce"), {model: bundle}, assets) == {}
