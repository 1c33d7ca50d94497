"""The program of a pod that says which GPUs it has: runs with the node's Python, standard library only.

    python3 granted.py GPUS HOLD_S

Writes JSON to the pod's termination message and holds its GPUs for HOLD_S seconds. The JSON has

    uuids           UUIDs of the GPUs that it was given: the device plugin makes a mount of that name for each
    seen            minor numbers of the GPUs that have a device file in its /dev
    opened          minor numbers of the GPUs, among 0 to GPUS - 1, that the kernel lets it open. Each is tried with a device file
                    that we make, as any container may: a GPU whose file is only missing from /dev could be opened that way
    driver          which libraries of NVIDIA's driver are in its /usr
    rdma            RDMA devices in its /dev
    rdma_of_node    RDMA devices of its node
    may_pin         memory that it may pin, which RDMA needs: bytes, or 'unlimited'
"""

import contextlib
import errno
import json
import os
import resource
import stat
import sys
import tempfile
import time
from pathlib import Path

MAJOR = 195
"""Character devices of NVIDIA's driver (Linux, Documentation/admin-guide/devices.txt)."""
CONTROL = 255
"""/dev/nvidiactl, which is of no GPU."""
REFUSED = (errno.EPERM, errno.EACCES)
RDMA, RDMA_OF_NODE = Path("/dev/infiniband"), Path("/sys/class/infiniband_verbs")
"""A container has device files of its own, and the node's /sys."""
DRIVER = ("libcuda.so", "libnvidia-ml.so")
MESSAGE = Path("/dev/termination-log")
GIVEN = Path("/var/run/nvidia-container-devices")
"""Where the device plugin has a mount for each GPU or part of one (k8s-device-plugin v0.18.0, internal/plugin/server.go)."""


def seen(folder: Path) -> list[int]:
    """Minor numbers of GPUs that have a device file."""
    found = set()
    for path in folder.glob("nvidia*"):
        status = path.stat()
        if stat.S_ISCHR(status.st_mode) and os.major(status.st_rdev) == MAJOR and os.minor(status.st_rdev) < CONTROL:
            found.add(os.minor(status.st_rdev))
    return sorted(found)


def given(folder: Path) -> list[str]:
    """UUIDs that the device plugin gave; [] for a pod without a grant."""
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted(name for name in names if name.startswith(("GPU-", "MIG-")))


def libraries(folder: Path) -> list[str]:
    """Which of DRIVER the pod has: a program with CUDA finds them by these names."""
    return [name for name in DRIVER if any(folder.glob(f"*/{name}*"))]


def verbs(folder: Path) -> list[str]:
    """RDMA devices of a folder by name: uverbs0."""
    return sorted(path.name for path in folder.glob("uverbs*"))


def may_pin() -> str:
    """Memory that this process may pin: bytes, or 'unlimited'."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


def may_open(minor: int, folder: str) -> bool:
    """Whether the kernel lets this process open a GPU. A GPU that is let through and does not answer counts as open."""
    path = Path(folder) / f"gpu{minor}"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(MAJOR, minor))
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except OSError as error:
        return error.errno not in REFUSED
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    return True


def main(gpus: int, hold_s: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        opened = [minor for minor in range(gpus) if may_open(minor, folder)]
    of_gpus = {
        "uuids": given(GIVEN),
        "seen": seen(Path("/dev")),
        "opened": opened,
        "driver": libraries(Path("/usr/lib")),
    }
    of_rdma = {"rdma": verbs(RDMA), "rdma_of_node": verbs(RDMA_OF_NODE), "may_pin": may_pin()}
    MESSAGE.write_text(json.dumps(of_gpus | of_rdma))
    time.sleep(hold_s)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
