"""The program that reads what a machine is built of: modelled outputs, a tree like the kernel's, and all of it on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from network.drivers.ssh import with_request
from validation.facts import machine_facts

MODELLED = Path(__file__).parents[1] / "data" / "modelled" / "machine"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine_facts, "SYS", tmp_path)
    return tmp_path


def function(tree: Path, path: str, kind: str, **link: str) -> Path:
    """A PCIe function below the bridges of `path`, linked as the kernel links it."""
    place = tree / "devices" / "pci0000:00" / path
    for name, value in {"class": kind, "numa_node": "1", **link}.items():
        write(place / name, value)
    devices = tree / "bus" / "pci" / "devices"
    devices.mkdir(parents=True, exist_ok=True)
    (devices / place.name).symlink_to(place)
    return place


GEN5 = {
    "current_link_width": "16",
    "max_link_width": "16",
    "current_link_speed": "32.0 GT/s PCIe",
    "max_link_speed": "32.0 GT/s PCIe",
}


def test_the_whole_program_runs_here_and_prints_one_json_object():
    program = with_request(Path(machine_facts.__file__).read_text(), {})
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=120, check=True)
    said = json.loads(done.stdout)
    parts = set(said) | set(said["errors"])
    assert parts == {"container", "errors"} if said["container"] else parts >= set(machine_facts.PARTS)


def test_memory_slots_are_read_with_size_and_trained_speed():
    slots = machine_facts.modules((MODELLED / "dmidecode-memory.txt").read_text())
    assert [(s["locator"], s["size_mib"], s["speed_mts"], s["configured_mts"]) for s in slots] == [
        ("CPU0_DIMM_A1", 65536, 4800, 4400),
        ("CPU0_DIMM_A2", 0, 0, 0),
        ("CPU1_DIMM_A1", 65536, 4800, 4000),
        ("CPU1_DIMM_A2", 0, 0, 0),
    ]
    assert slots[0]["serial"] == "80CE012317434C7C01"


def test_boot_entries_are_those_that_start_from_a_partition():
    found = list(machine_facts.entries((MODELLED / "efibootmgr.txt").read_text()))
    assert [(one["id"], one["partition"][-2:], one["active"]) for one in found] == [
        ("0001", "01", True),
        ("0002", "02", True),
        ("0003", "03", False),
    ]


def test_pcie_functions_come_with_the_bridges_above_them(tree: Path):
    function(tree, "0000:00:01.0/0000:17:00.0/0000:18:00.0/0000:1b:00.0", "0x030200", **GEN5)
    function(tree, "0000:00:1f.0", "0x060100")
    assert machine_facts.pcie() == {
        "0000:1b:00.0": {
            "class": "0x030200",
            "path": ["0000:00:01.0", "0000:17:00.0", "0000:18:00.0", "0000:1b:00.0"],
            "numa": 1,
            "width": 16,
            "max_width": 16,
            "speed_gts": 32.0,
            "max_speed_gts": 32.0,
        }
    }


def test_an_adapter_is_known_by_guid_and_pci_address(tree: Path):
    place = function(tree, "0000:00:01.0/0000:1a:00.0", "0x020700", **GEN5)
    write(tree / "class/infiniband/mlx5_0/node_guid", "b8ce:f603:0012:3456")
    (tree / "class/infiniband/mlx5_0/device").symlink_to(place)
    write(tree / "class/net/lo/address", "00:00:00:00:00:00")
    assert machine_facts.adapters() == {"mlx5_0": {"pcie": "0000:1a:00.0", "guid": "b8cef60300123456"}}
    assert machine_facts.interfaces() == {}


@pytest.mark.parametrize(
    ("warning", "errors"), [(4, 7), ({"value": 4, "available_spare": 0}, 7), (4, "7")], ids=["1.x", "2.x", "2.3"]
)
def test_a_drive_comes_with_its_warnings_in_each_form_of_nvme_cli(
    tree: Path, monkeypatch: pytest.MonkeyPatch, warning: object, errors: object
):
    place = function(tree, "0000:00:01.0/0000:c1:00.0", "0x010802", **GEN5)
    for name, text in {"model": "MTFDKBA1T9", "serial": "S1 ", "firmware_rev": "E2MU200", "transport": "pcie"}.items():
        write(tree / "class/nvme/nvme0" / name, text)
    write(tree / "class/nvme/nvme0/nvme0n1/size", "3750748848")
    (tree / "class/nvme/nvme0/device").symlink_to(place)
    write(tree / "class/nvme/nvme1/transport", "tcp")
    said = json.dumps({"critical_warning": warning, "percent_used": 3, "media_errors": errors})
    monkeypatch.setattr(machine_facts, "output", lambda *argv, root: said)
    (drive,) = machine_facts.drives()
    assert (drive["name"], drive["pcie"], drive["serial"]) == ("nvme0", "0000:c1:00.0", "S1")
    assert (drive["size_b"], drive["critical_warning"], drive["percent_used"]) == (1_920_383_410_176, 4, 3)
    assert drive["media_errors"] == 7


def test_an_array_comes_with_the_disks_of_its_members(tree: Path):
    for disk in ("nvme0n1", "nvme1n1"):
        part = tree / "devices/nvme" / disk / f"{disk}p2"
        write(part / "partition", "2")
        (tree / "class/block").mkdir(parents=True, exist_ok=True)
        (tree / "class/block" / f"{disk}p2").symlink_to(part)
        write(tree / "class/block/md0/md" / f"dev-{disk}p2" / "state", "in_sync")
    for name, text in {"level": "raid1", "array_state": "clean", "raid_disks": "2", "degraded": "0"}.items():
        write(tree / "class/block/md0/md" / name, text)
    write(tree / "class/block/md127/md/level", "container")
    (array,) = machine_facts.arrays()
    assert (array["name"], array["level"], array["disks"], array["degraded"]) == ("md0", "raid1", 2, 0)
    assert [member["disk"] for member in array["members"]] == ["nvme0n1", "nvme1n1"]


def test_memory_controllers_come_with_the_modules_of_their_channels(tree: Path):
    controller = tree / "devices/system/edac/mc/mc0"
    write(controller / "ce_count", "7")
    write(controller / "ue_count", "0")
    write(controller / "dimm0/dimm_location", "channel 0 slot 0 ")
    write(controller / "dimm0/size", "65536")
    assert machine_facts.controllers() == [
        {
            "name": "mc0",
            "corrected": 7,
            "uncorrected": 0,
            "modules": [{"location": "channel 0 slot 0", "size_mib": 65536}],
        }
    ]


def test_a_program_that_is_missing_is_named():
    with pytest.raises(RuntimeError, match="no-such-program is not installed"):
        machine_facts.output("no-such-program")


def test_boot_programs_of_a_mounted_partition_are_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    write(tmp_path / "EFI/BOOT/BOOTX64.EFI", "loader")
    write(tmp_path / "EFI/debian/grub.cfg", "menu")
    ((path, digest),) = machine_facts.loaders("nvme0n1p1", str(tmp_path)).items()
    assert path == "EFI/BOOT/BOOTX64.EFI"
    assert len(digest) == 64


def test_ethtool_is_asked_of_interfaces_and_a_question_without_answer_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def output(*argv: str, root: bool = False) -> str:
        if "-m" in argv:
            raise RuntimeError("ethtool: exit status 95: netlink error: Operation not supported")
        return f"{' '.join(argv)}\n     rx_bits_phy: 8\n     rx_packets: 9\n"

    monkeypatch.setattr(machine_facts, "output", output)
    said = machine_facts.ethtool(["swp1"])["swp1"]
    assert said["fec"].startswith("ethtool -I --show-fec swp1\n")
    assert (said["module"], said["statistics"]) == ("", "     rx_bits_phy: 8\n")


def test_a_switch_is_asked_for_its_interfaces_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine_facts, "container", lambda: "")
    monkeypatch.setattr(machine_facts, "output", lambda *argv, root=False: "")
    monkeypatch.setattr("sys.argv", ["", json.dumps({"ethtool": ["swp1"]})])
    machine_facts.main()
    empty = {"link": "", "fec": "", "module": "", "statistics": ""}
    assert json.loads(capsys.readouterr().out) == {"container": "", "errors": {}, "ethtool": {"swp1": empty}}
