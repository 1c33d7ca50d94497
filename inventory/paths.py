"""Where things are: the clone, a site's folder, and the git-ignored output folder of a site; and how files are read and written.

`read_file` and `open_file` are for files that people hand in: regular ones of a bounded size. Only `write_file` creates a file.
"""

import errno
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

SITE_FILE = "site.yaml"
MAX_TABLE = 1 << 30
"""Bytes of a list that somebody hands in. A GPU takes about 100 in gpus.csv: a choice of ours, for ten million of them."""


def repo_root() -> Path:
    """The root of the clone: the folder that holds ``pyproject.toml`` and the layer folders."""
    return Path(__file__).resolve().parent.parent


def sites_dir() -> Path:
    """The folder of the shipped sites, one subfolder each."""
    return repo_root() / "inventory" / "sites"


def site_dir(name: str) -> Path:
    """The folder of the shipped site ``name`` (it need not exist)."""
    return sites_dir() / name


def catalog_dir() -> Path:
    """The folder of the hardware catalogue."""
    return repo_root() / "inventory" / "catalog" / "data"


def var_dir(site_name: str, out: Path | None = None) -> Path:
    """Where the verbs write what belongs to a site (plan, render, facts, evidence, reports).

    ``out`` (the ``--out`` option) wins, then ``$BRINGUP_VAR/<site>``, then ``<clone>/var/<site>``.
    """
    if out is not None:
        return out
    base = os.environ.get("BRINGUP_VAR")
    return (Path(base) if base else repo_root() / "var") / site_name


def open_file(path: Path) -> BinaryIO:
    """A regular file, opened for reading; links are followed.

    An OSError names what a pipe, a device or a folder is not. A pipe is not waited for.
    """
    found = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return os.fdopen(found, "rb")


def read_file(path: Path, limit: int) -> bytes:
    """All of a regular file of at most ``limit`` bytes; OSError, which names the path, for anything else."""
    with open_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > limit:
            raise OSError(errno.EFBIG, f"{size:,} bytes, more than the {limit:,} that are read", str(path))
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"more than the {limit:,} bytes that are read", str(path))
    return data


def write_file(path: Path, data: str | bytes, *, durable: bool = False, follow: bool = True) -> Path:
    """Create or replace a file in one step, and the folders above it; text as UTF-8, line ends as they are given.

    A run that is killed, or a full disk, leaves the old file. The new one is written beside it under a name of its own and
    keeps the old one's permissions; `durable` also brings it to the disk before it takes the old one's place. A link is
    followed, and what is no regular file (/dev/stdout, a pipe) is written to; without `follow` a link or a pipe is replaced,
    as where others may write the folder. An OSError names `path`.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    target = path.resolve() if follow and path.is_symlink() else path
    fresh = target.with_name(f".{secrets.token_hex(8)}.new")
    try:
        before = target.stat(follow_symlinks=follow) if os.path.lexists(target) else None
        if follow and before is not None and not (stat.S_ISREG(before.st_mode) or stat.S_ISDIR(before.st_mode)):
            with target.open("wb") as file:
                file.write(content)
            return path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with fresh.open("xb") as file:
                file.write(content)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            if before is not None and stat.S_ISREG(before.st_mode):
                fresh.chmod(stat.S_IMODE(before.st_mode))
            fresh.replace(target)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    return path


def clear_odd(path: Path) -> None:
    """Remove a link, pipe or device that stands where others may write and a file belongs: it would be followed, or waited for.

    A folder is renamed: it would keep an older file of this name from being replaced.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        path.rename(path.with_name(f"{path.name}-{secrets.token_hex(8)}"))
    elif not stat.S_ISREG(mode):
        path.unlink()
