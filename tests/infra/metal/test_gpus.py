"""What gives a virtual machine its simulated GPUs, and where the cards are that they stand for."""

import base64
import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from infra.lab.paths import LabError
from infra.metal.gpus import DEVICES, STATES, Simulated, packed
from infra.metal.machines import WITHOUT_LINK, Drive, Machine, command, slot_of
from tests.plans import plan_of
from validation.facts.gather import GPU_PYTHON


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Simulated:
    monkeypatch.setattr(Simulated, "library", b"library")
    return Simulated(plan_of("lab-metal"), tmp_path)


def machine(folder: Path, **more: Any) -> Machine:
    drives = (Drive("S1", folder / "s1.raw"), Drive("S2", folder / "s2.raw"))
    cards = tuple(slot_of(number) for number in range(8))
    whole = {"drives": drives, "cards": cards, **more}
    return Machine("gpu001", "52:54:00:78:00:01", "tap1", uefi=False, folder=folder, **whole)


def options(argv: list[str], kind: str) -> list[dict[str, str]]:
    """Options of each device of a kind on QEMU's command line, in their order."""
    words = [text.split(",") for text in argv if text.split(",")[0] == kind]
    return [dict(pair.split("=", 1) for pair in rest) for _, *rest in words]


def test_the_states_have_the_listed_gpus_at_their_addresses_with_the_links_of_the_machine(simulated: Simulated) -> None:
    states = simulated.states("gpu001")
    listed = simulated.plan.gpus[simulated.plan.gpus["device"] == "gpu001"]
    assert [state["serial"] for state in states] == list(listed["serial"])
    assert [state["pci.bus_id"] for state in states] == list(listed["pci_bus_id"])
    assert {(state["pcie.gen"], state["pcie.width"]) for state in states} == {(1, 1)}
    assert all(str(state["name"]).startswith("SIMULATED ") for state in states)


def test_a_value_of_one_gpu_is_changed_and_no_other(simulated: Simulated) -> None:
    states = simulated.states("gpu002", {2: {"power.limit_mw": 1}})
    assert [state["power.limit_mw"] == 1 for state in states] == [False, False, True, *[False] * 5]


def test_a_node_without_listed_gpus_is_refused(simulated: Simulated) -> None:
    with pytest.raises(LabError, match="gpus.csv of site lab-metal lists no GPU of ctl01"):
        simulated.files("ctl01")


def test_what_is_unpacked_is_what_was_given_and_programs_can_be_run(simulated: Simulated) -> None:
    files = simulated.files("gpu001")
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed(files)))) as archive:
        members = [(member, archive.extractfile(member)) for member in archive]
        found = {f"/{member.name}": content.read() for member, content in members if content is not None}
        modes = {f"/{member.name}": member.mode for member, _ in members}
    assert found == files
    assert modes[GPU_PYTHON] == 0o755
    assert modes[f"{STATES}/gpu0"] == 0o644
    assert b"c /dev/nvidia7 0666 root root - 195:7\n" in files[DEVICES]


def test_cards_are_two_behind_each_switch_and_drives_behind_ports_of_their_own(tmp_path: Path) -> None:
    argv = command(machine(tmp_path), "disk")
    behind = {port["id"]: port["bus"] for port in options(argv, "xio3130-downstream")}
    cards = [behind[card["bus"]] for card in options(argv, "virtio-serial-pci")]
    assert cards == [f"switch{number // 2}" for number in range(8)]
    assert [drive["bus"] for drive in options(argv, "nvme")] == ["bay1", "bay2"]


def test_a_card_beside_its_switch_leaves_the_addresses_of_the_others(tmp_path: Path) -> None:
    whole = machine(tmp_path)
    argv = command(machine(tmp_path, cards=(WITHOUT_LINK, *whole.cards[1:])), "disk")
    assert options(argv, "virtio-serial-pci")[0]["addr"] == "0x8"
    for kind in ("pcie-root-port", "x3130-upstream", "xio3130-downstream"):
        assert options(argv, kind) == options(command(whole, "disk"), kind)


def test_a_drive_can_warn_and_have_no_link(tmp_path: Path) -> None:
    drives = (Drive("S1", tmp_path / "s1.raw"), Drive("S9", tmp_path / "s2.raw", warning=1, linked=False))
    first, second = options(command(machine(tmp_path, drives=drives), "disk"), "nvme")
    assert (first["bus"], first["smart_critical_warning"]) == ("bay1", "0")
    assert (second["bus"], second["smart_critical_warning"], second["serial"]) == (WITHOUT_LINK, "1", "S9")


@pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="needs QEMU: make demo-metal installs it")
def test_qemu_takes_the_board(tmp_path: Path) -> None:
    """The machine is made and nothing of it runs: QEMU ends by itself at the first command of its monitor."""
    argv = command(machine(tmp_path, drives=(), still=True), "disk")
    at = argv.index("-netdev")
    argv[at + 1] = "user,id=port"
    argv[argv.index("-monitor") + 1] = "stdio"
    done = subprocess.run(argv, input="info qtree\nquit\n", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = {
        kind: done.stdout.count(f"dev: {kind},")
        for kind in ("x3130-upstream", "xio3130-downstream", "virtio-serial-pci")
    }
    assert seen == {"x3130-upstream": 4, "xio3130-downstream": 8, "virtio-serial-pci": 8}
