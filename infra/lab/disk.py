"""Data disks of servers: what a storage server keeps its bricks on. They outlive power cuts and re-installations.

A disk is a sparse image file with ext4 in the server's folder, mounted through a loop device in the server's own mount
namespace: it has an end, so that it can really be full, and its mount vanishes with the server. Where the machine has no
loop devices (most containers), the disk is a plain folder without an end.
"""

import shlex
import subprocess
from pathlib import Path

from infra.lab.paths import LabError

MOUNT_POINT = "/srv/data"
ROLES = ("storage",)
SIZE_B = 2 * 1024**3
"""Room for some hundred checkpoints of the lab's training job; a sparse file takes only what is written."""
INODES = 65536
TOOL_BUDGET_S = 60.0
ATTACH_TRIES = 50
"""A power cut ends the old mount within a second or two; the image is free again then. One try each 0.2 s."""


def image(folder: Path) -> Path:
    """The disk of the server that keeps its things in `folder`, where it is an image."""
    return folder / "data.img"


def is_bounded(folder: Path) -> bool:
    """Whether the server has a disk with an end, which a fault can fill."""
    return image(folder).exists()


def has_loop_devices() -> bool:
    """Whether this machine can mount an image file."""
    return Path("/dev/loop-control").exists()


def insert(folder: Path) -> None:
    """Put an empty disk into the server, unless it has one."""
    mount_point = folder / "data"
    if mount_point.exists():
        return
    if has_loop_devices():
        _format(image(folder))
    mount_point.mkdir()


def mount_script(folder: Path) -> str:
    """Shell words that mount the disk at `folder`/data, and end with `&&`; '' for a disk that is a plain folder."""
    if not is_bounded(folder):
        return ""
    mount = shlex.join(["mount", "-o", "loop,nodev,nosuid", str(image(folder)), str(folder / "data")])
    return f"n=0; until {mount}; do n=$((n+1)); [ $n -lt {ATTACH_TRIES} ] || exit 1; sleep 0.2; done && "


def nspawn_options(folder: Path) -> list[str]:
    """How the disk shows in the server's own file system."""
    return [f"--bind={folder / 'data'}:{MOUNT_POINT}"]


def _format(path: Path) -> None:
    new = path.with_name(path.name + ".new")
    with open(new, "wb") as file:
        file.truncate(SIZE_B)
    # Blocks for root only are no use on a data disk; tables are zeroed by reading holes, not by writing.
    options = ["-q", "-F", "-m", "0", "-N", str(INODES), "-L", "data", "-E", "lazy_itable_init=1,lazy_journal_init=1"]
    done = subprocess.run(
        ["mkfs.ext4", *options, str(new)], capture_output=True, text=True, timeout=TOOL_BUDGET_S, check=False
    )
    if done.returncode:
        raise LabError(f"mkfs.ext4 {new}: {done.stderr.strip()}")
    new.rename(path)
