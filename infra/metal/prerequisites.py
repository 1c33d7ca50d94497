"""What the demo of bare metal needs of this machine, looked at before anything is begun.

missing(paths, folder, servers)      one sentence for each thing that is not there, with what to do; [] when all is there
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from infra.lab import net
from infra.lab.lab import is_up
from infra.lab.paths import LabPaths
from infra.lab.up import UNIX_PATH_MAX
from infra.metal.machines import CPUS, DRIVE_GIB, MEMORY_MIB, OVMF_CODE
from infra.metal.segment import LOADERS, TOOLS

CONTROLLER_TOOLS = {
    "systemd-nspawn": "systemd-container",
    "nsenter": "util-linux",
    "debootstrap": "debootstrap",
    "dpkg-scanpackages": "dpkg-dev",
    "gcc": "gcc libc6-dev",
}
"""Program -> Debian package, of the light node that is the cluster's controller (infra/lab/node.py, infra/lab/base.py),
and of the simulated NVML (infra/lab/nvidia.py).
"""
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TRANSLATED_MIB = 256
"""QEMU keeps so much translated code for each machine (tb-size in infra/metal/machines.py)."""
TUN = Path("/dev/net/tun")
FILE_SYSTEMS = Path("/proc/filesystems")
MEMINFO = Path("/proc/meminfo")
MODPROBE_S = 10.0
GIB = 2**30
BUILD_GIB = 4
"""A build of the image keeps the packages' tree of 1.2 GiB, its tar and the image at the same time (seen on 26 November 2026)."""


def missing(paths: LabPaths, folder: Path, servers: int) -> list[str]:
    """What is not there. `folder` keeps images and drives; `servers` run at once."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return ["The demo makes networks and file systems: it needs root on Linux."]
    return [*_packages(), *_kernel(), *_room(folder, servers), *_lab(paths)]


def _packages() -> list[str]:
    tools = {**TOOLS, **CONTROLLER_TOOLS}
    packages = {package for tool, package in tools.items() if shutil.which(tool, path=SEARCH) is None}
    packages |= set() if OVMF_CODE.exists() else {"ovmf"}
    packages |= set() if all(path.exists() for path in LOADERS.values()) else {"ipxe", "ipxe-qemu"}
    return [f"missing: apt-get install {' '.join(sorted(packages))}"] if packages else []


def _kernel() -> list[str]:
    found = []
    if not TUN.exists() and not _module("tun"):
        found.append(f"{TUN} does not exist: the machines' network ports need it. Fix: modprobe tun")
    if "overlay" not in FILE_SYSTEMS.read_text().split() and not _module("overlay"):
        found.append("the kernel has no overlay file system: the controller needs it. Fix: modprobe overlay")
    if shut := [str(root) for root in net.CGROUP_ROOTS if not os.access(root, os.W_OK)]:
        found.append(f"{', '.join(shut)} cannot be written: the controller needs control groups of its own")
    return found


def _module(name: str) -> bool:
    """Whether the kernel can load a module when it is used."""
    try:
        done = subprocess.run(
            ["modprobe", "--dry-run", "--quiet", name], check=False, capture_output=True, timeout=MODPROBE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _room(folder: Path, servers: int) -> list[str]:
    """Memory and disk. Drives are sparse files, counted whole less what they take already."""
    found = []
    wanted_mib = servers * (MEMORY_MIB + TRANSLATED_MIB)
    rows = (line.split() for line in MEMINFO.read_text().splitlines())
    have_mib = next(int(row[1]) // 1024 for row in rows if row[0] == "MemAvailable:")
    if have_mib < wanted_mib:
        found.append(
            f"{have_mib} MiB of memory are available, {servers} machines of {CPUS} processors take {wanted_mib} MiB: end other "
            "programs"
        )
    there = folder
    while not there.exists():
        there = there.parent
    taken = sum(path.stat().st_blocks * 512 for path in folder.glob("metal/*.raw"))
    wanted_gib = servers * 2 * DRIVE_GIB + BUILD_GIB
    have_gib = (shutil.disk_usage(there).free + taken) / GIB
    if have_gib < wanted_gib:
        found.append(
            f"{have_gib:.1f} GiB are free at {there}, image and drives take up to {wanted_gib} GiB: make room, or set BRINGUP_VAR "
            "to a folder with more"
        )
    return found


def _lab(paths: LabPaths) -> list[str]:
    if len(str(paths.power_socket)) > UNIX_PATH_MAX:
        return [f"{paths.root} is too long a path for the lab's sockets: set BRINGUP_LAB_HOME to a shorter one"]
    if is_up(paths.name):
        return [f"lab {paths.name} is up with light nodes: bringup lab down --site {paths.name}"]
    return []
