"""A built root image, as its image.json describes it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

PARTS = ("root", "esp", "bios", "mbr", "kernel", "initrd")
"""Files of an image: root file system, ESP, GRUB's core and boot sector for BIOS, and kernel and initramfs that write it."""
BOOT = "boot"
"""A part of an image for encrypted disks: the file system of /boot."""
CD = "cd"
"""A part beside them: GRUB for BIOS on a CD. Images of earlier versions lack it."""
_HEX = re.compile(r"[0-9a-f]{64}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ARGUMENTS = re.compile(r"[A-Za-z0-9_.=, -]*")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ImageError(Exception):
    """An image.json that is not one; the message names the file and the key."""


@dataclass(frozen=True)
class Part:
    """`sha256` is of the content as it lies on the disk, `size` its bytes; `file` may be that content compressed by zstd."""

    file: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Image:
    """`version` is the beginning of the root file system's SHA-256, and names the folder that the files are served from.
    `arguments` are more ones for its kernel. `luks`: UUID of the LUKS2 volume that its root lies in, '' where it is not encrypted.
    """

    role: str
    version: str
    parts: Mapping[str, Part]
    arguments: str = ""
    luks: str = ""

    @property
    def needed(self) -> tuple[str, ...]:
        """The parts that a server is written with."""
        return (*PARTS, BOOT) if self.luks else PARTS


def parse_image(text: str, where: str) -> Image:
    """An Image from the text of image.json; `where` is only named in messages. ImageError for anything else."""
    try:
        said = json.loads(text)
        parts = {name: Part(str(p["file"]), str(p["sha256"]), int(p["size"])) for name, p in said["parts"].items()}
        made = Image(
            str(said["role"]), str(said["version"]), parts, str(said.get("arguments", "")), str(said.get("luks", ""))
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ImageError(f"{where}: not the description of an image: {error!r}") from None
    if missing := [name for name in made.needed if name not in parts]:
        raise ImageError(f"{where}: parts are missing: {', '.join(missing)}")
    for name, part in parts.items():
        if not _HEX.fullmatch(part.sha256) or not _FILE.fullmatch(part.file) or part.size <= 0:
            raise ImageError(f"{where}: part {name} has no valid file, sha256 and size")
    if not _FILE.fullmatch(made.version) or not _FILE.fullmatch(made.role):
        raise ImageError(f"{where}: role {made.role!r} or version {made.version!r} cannot name a folder")
    if not _ARGUMENTS.fullmatch(made.arguments):
        raise ImageError(f"{where}: {made.arguments!r} are no arguments of a kernel")
    if made.luks and not _UUID.fullmatch(made.luks):
        raise ImageError(f"{where}: {made.luks!r} is no UUID of a LUKS2 volume")
    return made
