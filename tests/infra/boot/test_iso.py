"""A CD that writes an image: what is on it, from which files firmware starts it, and when none is made."""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from capacity.services.boot import Image, parse_image
from infra.boot import image, iso

FOUND = {"plan/02-5e-00-00-00-01.env": "DEVICE='mgmt01'\n", "seed/02-5e-00-00-00-01/meta-data": "instance-id: x\n"}
NEEDS = ("xorriso", "mkfs.vfat", "mcopy", "zstd")


def built(folder: Path, *, cd: bool = True) -> Image:
    """The parts of an image as `bringup image build` leaves them, with files of letters in place of programs."""
    for name in ("BOOTX64.EFI", "grubx64.efi"):
        (folder / name).write_bytes(name.encode() * 1000)
    image.fat(
        folder / "esp.img",
        32,
        image.ESP_FS_MIB,
        "12345678",
        {f"EFI/BOOT/{n}": folder / n for n in ("BOOTX64.EFI", "grubx64.efi")},
    )
    for name, size in (
        ("root.img", 5000),
        ("core.img", 3000),
        ("boot.img", 440),
        ("vmlinuz", 7000),
        ("deploy.initrd", 900),
    ):
        (folder / name).write_bytes(name.encode() * size)
    (folder / "cd.img").write_bytes(bytes(4096))
    described = image.describe(image.system("debian-12", "management"), folder, {})
    if not cd:
        del described["parts"]["cd"]
    for name in ("root.img", "esp.img"):
        subprocess.run(["zstd", "-q", "--rm", folder / name], check=True, timeout=60)
    return parse_image(json.dumps(described), "image.json")


def xorriso(made: Path, *argv: str) -> str:
    done = subprocess.run(
        ["xorriso", "-indev", made, *argv],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


@pytest.mark.needs(*NEEDS)
def test_the_cd_has_what_its_plans_name_and_starts_by_bios_and_by_uefi(tmp_path: Path) -> None:
    of = built(tmp_path)
    digest = iso.write(tmp_path, of, FOUND, "management.iso", "ttyS0")
    made = tmp_path / "management.iso"
    assert hashlib.sha256(made.read_bytes()).hexdigest() == digest
    assert (tmp_path / "management.iso.sha256").read_text() == f"{digest}  management.iso\n"
    files = set(re.findall(r"'(/.+)'", xorriso(made, "-find", "/", "-type", "f")))
    parts = f"/images/management/{of.version}"
    assert files == {
        *(f"/{path}" for path in FOUND),
        *(f"{parts}/{name}" for name in ("root.img.zst", "esp.img.zst", "core.img", "boot.img")),
        *("/vmlinuz", "/deploy.initrd", "/boot/grub/grub.cfg", "/bringup-id", "/bios.img", "/efi.img"),
    }
    said = xorriso(made, "-report_el_torito", "plain")
    assert re.findall(r"El Torito boot img : +\d+ +(\w+) ", said) == ["BIOS", "UEFI"]
    assert re.findall(r"El Torito img path : +\d+ +(\S+)", said) == ["/bios.img", "/efi.img"]
    out = tmp_path / "out"
    xorriso(made, "-osirrox", "on", "-extract", "/", str(out))
    config = (out / "boot/grub/grub.cfg").read_text()
    assert f"bringup.medium={(out / 'bringup-id').read_text().strip()}\n" in config
    assert (out / parts[1:] / "root.img.zst").read_bytes() == (tmp_path / "root.img.zst").read_bytes()
    subprocess.run(["mcopy", "-i", out / "efi.img", "::EFI/BOOT/BOOTX64.EFI", out / "shim"], check=True, timeout=60)
    assert (out / "shim").read_bytes() == b"BOOTX64.EFI" * 1000


@pytest.mark.needs(*NEEDS)
def test_the_same_image_and_plans_give_the_same_cd_on_another_day(tmp_path: Path) -> None:
    of = built(tmp_path)
    first = iso.write(tmp_path, of, FOUND, "management.iso", "ttyS0")
    os.utime(tmp_path / "core.img", (1, 1))
    assert iso.write(tmp_path, of, FOUND, "management.iso", "ttyS0") == first


@pytest.mark.needs(*NEEDS)
def test_the_kernel_of_a_cd_writes_to_the_serial_line_of_the_site(tmp_path: Path) -> None:
    iso.write(tmp_path, built(tmp_path), FOUND, "management.iso", "ttyS1")
    xorriso(
        tmp_path / "management.iso", "-osirrox", "on", "-extract", "/boot/grub/grub.cfg", str(tmp_path / "grub.cfg")
    )
    assert " console=tty0 console=ttyS1,115200n8 " in (tmp_path / "grub.cfg").read_text()


@pytest.mark.needs(*NEEDS)
def test_an_image_without_grub_for_cds_makes_none_and_the_earlier_cd_stays(tmp_path: Path) -> None:
    (tmp_path / "management.iso").write_text("earlier")
    of = built(tmp_path, cd=False)
    with pytest.raises(image.ImageBuildError, match="without GRUB for CDs: build it again"):
        iso.write(tmp_path, of, FOUND, "management.iso", "ttyS0")
    assert (tmp_path / "management.iso").read_text() == "earlier"


@pytest.mark.needs(*NEEDS)
def test_a_part_that_is_not_there_makes_none(tmp_path: Path) -> None:
    of = built(tmp_path)
    (tmp_path / "core.img").unlink()
    with pytest.raises(image.ImageBuildError, match="no CD was made"):
        iso.write(tmp_path, of, FOUND, "management.iso", "ttyS0")
    assert not (tmp_path / "management.iso").exists()
    assert not list(tmp_path.glob(".build-*"))


def test_a_cd_is_known_by_its_image_and_its_files() -> None:
    parts = {
        name: {"file": name, "sha256": "a" * 64, "size": 1}
        for name in ("root", "esp", "bios", "mbr", "kernel", "initrd")
    }
    one, other = (
        parse_image(json.dumps({"role": "management", "version": version, "parts": parts}), "x")
        for version in ("1a", "1b")
    )
    identity = iso.identity_of(one, FOUND)
    assert re.fullmatch(r"[0-9a-f]{12}", identity)
    assert identity == iso.identity_of(one, dict(reversed(FOUND.items())))
    assert identity != iso.identity_of(other, FOUND)
    assert identity != iso.identity_of(one, {**FOUND, "plan/02-5e-00-00-00-01.env": "DEVICE='mgmt02'\n"})


def test_a_machine_without_the_programs_is_told_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert iso.missing_tools() == ["dosfstools", "mtools", "xorriso", "zstd"]


def test_a_cd_that_is_not_read_in_time_ends_the_look_at_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "xorriso").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (tmp_path / "xorriso").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(iso, "QUERY_LIMIT_S", 0.2, raising=False)
    with pytest.raises(image.ImageBuildError, match=r"xorriso .* did not end within 0\.2 s"):
        iso.plans(tmp_path / "management.iso")
