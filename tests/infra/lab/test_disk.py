"""Data disks of lab servers."""

import subprocess

import pytest

from infra.lab import disk
from infra.lab.paths import LabError


def no_mkfs(argv, **kwargs):
    return subprocess.CompletedProcess(argv, 0, "", "")


def test_a_disk_is_sparse_has_an_end_and_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "has_loop_devices", lambda: True)
    monkeypatch.setattr("infra.lab.disk.subprocess.run", no_mkfs)
    disk.insert(tmp_path)
    assert disk.is_bounded(tmp_path)
    image = disk.image(tmp_path)
    assert (image.stat().st_size, image.stat().st_blocks) == (disk.SIZE_B, 0)
    image.write_bytes(b"what a server has written")
    disk.insert(tmp_path)
    assert image.read_bytes() == b"what a server has written"
    assert disk.mount_script(tmp_path).endswith("&& ")


def test_without_loop_devices_the_disk_is_a_folder_without_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "has_loop_devices", lambda: False)
    disk.insert(tmp_path)
    assert not disk.is_bounded(tmp_path)
    assert (tmp_path / "data").is_dir()
    assert disk.mount_script(tmp_path) == ""


def test_a_disk_that_cannot_be_formatted_is_no_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "has_loop_devices", lambda: True)
    monkeypatch.setattr(
        "infra.lab.disk.subprocess.run", lambda argv, **_: subprocess.CompletedProcess(argv, 1, "", "no space")
    )
    with pytest.raises(LabError, match=r"mkfs\.ext4 .*: no space"):
        disk.insert(tmp_path)
    assert not disk.is_bounded(tmp_path)
