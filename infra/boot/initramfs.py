"""An initramfs as bytes: files in the cpio format newc (Linux, Documentation/driver-api/early-userspace/buffer-format.rst).

    archive({"init": File(b"...", 0o755), "bin/sh": Link("busybox")})

The same entries give the same bytes: paths are sorted, times are zero, inodes are counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

MAGIC = b"070701"
DIRECTORY, REGULAR, SYMLINK, CHARACTER = 0o040000, 0o100000, 0o120000, 0o020000


@dataclass(frozen=True)
class File:
    """A regular file."""

    data: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Device:
    """A character device."""

    major: int
    minor: int
    mode: int = 0o600


Entry = File | Link | Device
CONSOLE: Mapping[str, Entry] = {"dev/console": Device(5, 1)}
"""The kernel opens it for init before init can mount anything."""


def archive(entries: Mapping[str, Entry]) -> bytes:
    """The archive. Folders above each path are added. ValueError for an absolute path or one with `..`."""
    folders: set[str] = set()
    for path in entries:
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise ValueError(f"{path!r} is no path within an initramfs")
        folders |= {str(parent) for parent in pure.parents} - {"."}
    if clash := sorted(folders & set(entries)):
        raise ValueError(f"{clash[0]!r} is a file and a folder")
    parts = []
    for number, path in enumerate(sorted({*folders, *entries}), start=1):
        entry = entries.get(path)
        if entry is None:
            parts.append(_record(number, path, DIRECTORY | 0o755, b"", links=2))
        elif isinstance(entry, File):
            parts.append(_record(number, path, REGULAR | entry.mode, entry.data))
        elif isinstance(entry, Link):
            parts.append(_record(number, path, SYMLINK | 0o777, entry.target.encode()))
        else:
            parts.append(_record(number, path, CHARACTER | entry.mode, b"", device=(entry.major, entry.minor)))
    parts.append(_record(0, "TRAILER!!!", 0, b""))
    return _padded(b"".join(parts), 512)


def _record(inode: int, path: str, mode: int, data: bytes, links: int = 1, device: tuple[int, int] = (0, 0)) -> bytes:
    name = path.encode() + b"\0"
    fields = (inode, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(name), 0)
    head = MAGIC + b"".join(b"%08x" % field for field in fields)
    return _padded(head + name, 4) + _padded(data, 4)


def _padded(data: bytes, to: int) -> bytes:
    return data + b"\0" * (-len(data) % to)
