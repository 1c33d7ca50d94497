"""What this machine lacks for the demo of bare metal is named, with what to do."""

import os
import shutil
from pathlib import Path

import pytest

from infra.lab.paths import LabPaths
from infra.metal import prerequisites
from infra.metal.prerequisites import missing


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has everything."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    monkeypatch.setattr(shutil, "which", lambda tool, path=None: f"/usr/bin/{tool}")
    monkeypatch.setattr(prerequisites, "_module", lambda name: False)
    for name, text in (("tun", ""), ("filesystems", "nodev overlay\n"), ("meminfo", "MemAvailable: 16000000 kB\n")):
        (tmp_path / name).write_text(text)
    for name, file in (("TUN", "tun"), ("FILE_SYSTEMS", "filesystems"), ("MEMINFO", "meminfo"), ("OVMF_CODE", "tun")):
        monkeypatch.setattr(prerequisites, name, tmp_path / file)
    monkeypatch.setattr(prerequisites, "LOADERS", {"loader": tmp_path / "tun"})
    monkeypatch.setattr(prerequisites, "is_up", lambda name: False)
    monkeypatch.setattr(prerequisites, "BUILD_GIB", 0)
    monkeypatch.setattr(prerequisites, "DRIVE_GIB", 0)
    return tmp_path


def told(folder: Path) -> list[str]:
    return missing(LabPaths("lab-metal"), folder / "var" / "lab-metal", servers=2)


def test_a_machine_that_has_everything_lacks_nothing(machine: Path) -> None:
    assert told(machine) == []


def test_packages_of_the_machines_and_of_the_controller_are_named_together(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shutil, "which", lambda tool, path=None: None if tool in ("mmdebstrap", "systemd-nspawn") else tool
    )
    assert told(machine) == ["missing: apt-get install mmdebstrap systemd-container"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda where: (where / "tun").unlink(), "modprobe tun"),
        (lambda where: (where / "filesystems").write_text("ext4\n"), "modprobe overlay"),
        (lambda where: (where / "meminfo").write_text("MemAvailable: 100000 kB\n"), "97 MiB of memory are available"),
    ],
)
def test_what_is_not_there_is_named_with_what_to_do(machine: Path, change, said: str) -> None:
    change(machine)
    assert any(said in line for line in told(machine))


def test_a_full_disk_is_named_with_what_is_needed(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "BUILD_GIB", 10**9)
    (line,) = told(machine)
    assert "image and drives take up to 1000000000 GiB" in line


def test_a_lab_of_light_nodes_in_the_way_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "is_up", lambda name: True)
    assert told(machine) == ["lab lab-metal is up with light nodes: bringup lab down --site lab-metal"]


def test_nobody_but_root_is_told_more(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert told(machine) == ["The demo makes networks and file systems: it needs root on Linux."]
