"""Disk layout of a server from its catalogue entry and its delivered boot drives.

    layout(device, {"boot0": "S1", "boot1": "S2"}, None)     RAID1 over both, an ESP and a BIOS boot partition on each

Both boot drives are partitioned alike, so that the server starts from either, by UEFI and by BIOS:

    1  bios    2 MiB      GRUB's core image for BIOS
    2  esp     256 MiB    EFI system partition with /EFI/BOOT/BOOTX64.EFI; a copy on each drive, never a RAID member
    3  root    the rest   member of the mirror that holds the root file system

Where the root is encrypted, GRUB cannot read it, and kernel and initramfs are apart:

    3  boot    1 GiB      member of the mirror that holds /boot, not encrypted
    4  root    the rest   member of the mirror that holds a LUKS2 volume, and that the root file system
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from inventory.catalog.devices import DeviceType

BIOS_MIB, ESP_MIB = 2, 256
"""ESP: shim, GRUB and their configuration take 8 MiB; FAT32 needs 33 MiB at least (65,525 clusters of 512 B)."""
BOOT_MIB = 1024
"""Choice: a kernel with its initramfs took 35 MiB in an image for virtual machines; others have more drivers, updates keep two."""
BESIDE_MIB, LUKS_MIB = 32, 16
"""Of a drive beside its partitions: their tables, and what a member of a mirror keeps for itself (choice). Header of LUKS2:
cryptsetup(8), luksFormat.
"""
TYPE_BIOS = "21686148-6449-6E6F-744E-656564454649"
TYPE_ESP = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
TYPE_RAID = "A19D880F-05FC-4D3B-A006-743F0F84911E"
TYPE_LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
"""GPT partition types: GRUB manual (BIOS boot), UEFI specification (ESP), UAPI discoverable partitions (the others)."""
NAME = "bringup-root"
Encrypt = Literal["tpm2"] | None


class LayoutError(Exception):
    """Boot drives that cannot be laid out; the message says which and what to do."""


@dataclass(frozen=True)
class Partition:
    """`size_mib` None: the rest of the drive."""

    number: int
    name: str
    gpt_type: str
    size_mib: int | None


@dataclass(frozen=True)
class Layout:
    """What is written to a server's drives. `serials` are the boot drives', in the order of their names; `scratch_drives` data
    drives are one RAID of level `scratch_level` (0: none). `firmware` is what the board boots with: uefi or bios.
    """

    serials: tuple[str, ...]
    partitions: tuple[Partition, ...]
    scratch_drives: int
    scratch_level: str
    encrypt: Encrypt
    firmware: Literal["uefi", "bios"]

    @property
    def mirrored(self) -> bool:
        """Whether the root file system is on a RAID1."""
        return len(self.serials) > 1


def layout(device: DeviceType, drives: Mapping[str, str], encrypt: Encrypt) -> Layout:
    """The layout of one server. LayoutError where boot drives are missing, too many, or in another RAID than 1."""
    boot = [kind for kind in device.bringup.drives if kind.use == "boot"]
    data = [kind for kind in device.bringup.drives if kind.use == "data"]
    wanted = sum(kind.count for kind in boot) or len(drives)
    if not drives:
        raise LayoutError("serial numbers of its boot drives are not known: add lines DEVICE:boot0 … to assets.csv")
    if len(drives) != wanted:
        raise LayoutError(
            f"assets.csv lists {len(drives)} boot drives ({', '.join(drives)}), {device.slug} has {wanted}"
        )
    if wanted > 2 or any(kind.raid != "1" for kind in boot if kind.count > 1):
        levels = ", ".join(f"{kind.count} in RAID {kind.raid}" for kind in boot) or f"{wanted}"
        raise LayoutError(f"boot drives of {device.slug}: {levels}; one, or two in RAID 1 can be laid out")
    member = TYPE_RAID if wanted > 1 else TYPE_LINUX
    apart = (Partition(3, "bringup-boot", member, BOOT_MIB),) if encrypt else ()
    return Layout(
        serials=tuple(drives.values()),
        partitions=(
            Partition(1, "bringup-bios", TYPE_BIOS, BIOS_MIB),
            Partition(2, "bringup-esp", TYPE_ESP, ESP_MIB),
            *apart,
            Partition(3 + len(apart), NAME, member, None),
        ),
        scratch_drives=sum(kind.count for kind in data),
        scratch_level=data[0].raid if data else "",
        encrypt=encrypt,
        firmware="bios" if device.bringup.bios.get("BootMode", "Uefi").lower().startswith(("bios", "leg")) else "uefi",
    )


def drive_mib(found: Layout, root_bytes: int) -> int:
    """MiB that each boot drive has to have for a root file system of so many bytes."""
    fixed_mib = sum(part.size_mib or 0 for part in found.partitions)
    return math.ceil(root_bytes / 2**20) + fixed_mib + BESIDE_MIB + (LUKS_MIB if found.encrypt else 0)


def shortage(device: DeviceType, found: Layout, root_bytes: int) -> str:
    """Why a root file system of so many bytes does not fit on the boot drives that the catalogue gives a server; '' where it does,
    or where the catalogue gives none.
    """
    sizes = [kind.tb * 10**12 for kind in device.bringup.drives if kind.use == "boot"]
    needed_mib = drive_mib(found, root_bytes)
    if not sizes or min(sizes) >= needed_mib * 2**20:
        return ""
    return (
        f"needs {needed_mib} MiB of each boot drive, those of {device.slug} have {math.floor(min(sizes) / 2**20)} MiB"
    )


def sfdisk(found: Layout) -> str:
    """Input of sfdisk(8) for each boot drive. The GUID of the table is left to chance: it tells one writing from the next."""
    lines = ["label: gpt"]
    for part in found.partitions:
        size = f"size={part.size_mib}MiB, " if part.size_mib else ""
        lines.append(f'{size}type={part.gpt_type}, name="{part.name}"')
    return "\n".join(lines) + "\n"
