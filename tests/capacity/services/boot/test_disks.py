"""Disk layout: both boot drives alike, an ESP on each, the root file system on their mirror."""

import dataclasses

import pytest

from capacity.services.boot.disks import LayoutError, layout, sfdisk, shortage
from inventory.catalog import load_catalog
from inventory.catalog.devices import DeviceType

DGX = load_catalog().device("nvidia-dgx-h100")
SERVICE = load_catalog().device("lab-service-node")
TWO = {"boot0": "S1", "boot1": "S2"}


def test_two_boot_drives_are_a_mirror_with_an_esp_and_a_bios_partition_on_each():
    found = layout(DGX, TWO, None)
    assert found.mirrored
    assert found.serials == ("S1", "S2")
    assert [part.name for part in found.partitions] == ["bringup-bios", "bringup-esp", "bringup-root"]
    assert (found.scratch_drives, found.scratch_level) == (8, "0")


def test_the_table_gives_the_rest_to_the_root_partition_as_a_raid_member():
    lines = sfdisk(layout(DGX, TWO, None)).splitlines()
    assert lines[0] == "label: gpt"
    assert lines[-1] == 'type=A19D880F-05FC-4D3B-A006-743F0F84911E, name="bringup-root"'


def test_one_boot_drive_is_no_mirror():
    found = layout(SERVICE, {"boot0": "S1"}, None)
    assert not found.mirrored
    assert found.partitions[-1].gpt_type == "0FC63DAF-8483-4772-8E79-3D69D8477DE4"


@pytest.mark.parametrize(
    ("encrypt", "least_mib"), [(None, 2 + 256 + 1000 + 32), ("tpm2", 2 + 256 + 1024 + 1000 + 32 + 16)]
)
def test_a_root_file_system_fits_beside_the_other_partitions_of_the_smallest_boot_drive(encrypt, least_mib):
    def of(mib: int) -> DeviceType:
        boot, *data = DGX.bringup.drives
        drives = (boot.model_copy(update={"tb": mib * 2**20 / 10**12}), *data)
        return DGX.model_copy(update={"bringup": DGX.bringup.model_copy(update={"drives": drives})})

    found = layout(DGX, TWO, encrypt)
    assert shortage(of(least_mib + 1), found, 1000 << 20) == ""
    assert shortage(of(least_mib - 1), found, 1000 << 20).startswith(f"needs {least_mib} MiB of each boot drive")


def test_drives_that_the_catalogue_does_not_give_are_not_judged():
    bare = SERVICE.model_copy(update={"bringup": SERVICE.bringup.model_copy(update={"drives": ()})})
    assert shortage(bare, layout(bare, {"boot0": "S1"}, None), 1 << 50) == ""


def test_a_drive_that_was_not_delivered_is_named():
    with pytest.raises(LayoutError, match=r"lists 1 boot drives \(boot0\), nvidia-dgx-h100 has 2"):
        layout(DGX, {"boot0": "S1"}, None)


def test_no_drive_is_guessed():
    with pytest.raises(LayoutError, match="serial numbers of its boot drives are not known"):
        layout(SERVICE, {}, None)


def test_another_raid_level_than_a_mirror_is_refused():
    drives = tuple(kind.model_copy(update={"raid": "0"}) for kind in DGX.bringup.drives)
    striped = DGX.model_copy(update={"bringup": DGX.bringup.model_copy(update={"drives": drives})})
    with pytest.raises(LayoutError, match="2 in RAID 0"):
        layout(striped, TWO, None)


def test_firmware_follows_the_bios_profile():
    legacy = DGX.model_copy(update={"bringup": DGX.bringup.model_copy(update={"bios": {"BootMode": "LegacyBios"}})})
    assert (layout(DGX, TWO, None).firmware, layout(legacy, TWO, None).firmware) == ("uefi", "bios")


def test_an_encrypted_root_leaves_the_kernel_apart_on_a_mirror_of_its_own():
    found = layout(DGX, TWO, "tpm2")
    assert [(part.number, part.name, part.size_mib) for part in found.partitions] == [
        (1, "bringup-bios", 2),
        (2, "bringup-esp", 256),
        (3, "bringup-boot", 1024),
        (4, "bringup-root", None),
    ]
    assert {part.gpt_type for part in found.partitions[2:]} == {"A19D880F-05FC-4D3B-A006-743F0F84911E"}
    plain = layout(DGX, TWO, None)
    assert dataclasses.replace(found, partitions=plain.partitions, encrypt=None) == plain


def test_a_plain_layout_is_as_it_was():
    assert sfdisk(layout(DGX, TWO, None)) == (
        "label: gpt\n"
        'size=2MiB, type=21686148-6449-6E6F-744E-656564454649, name="bringup-bios"\n'
        'size=256MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name="bringup-esp"\n'
        'type=A19D880F-05FC-4D3B-A006-743F0F84911E, name="bringup-root"\n'
    )
