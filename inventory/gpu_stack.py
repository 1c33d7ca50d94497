"""NVIDIA's software stack: which versions go together and which packages carry them (``gpu_stack.yaml``).

In: a site's pins (``versions``) and its operating system. Out: contradictions between pins, package names and versions,
package repositories. Pure but for reading the one file, once.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inventory.catalog import DeviceType
from inventory.yaml_data import read_data

STACK_FILE = Path(__file__).with_name("gpu_stack.yaml")


@dataclass(frozen=True)
class Contradiction:
    """Pins that do not go together: the pin to change, what it says, what was expected, and where that is written."""

    pin: str
    found: str
    expected: str
    source: str

    def __str__(self) -> str:
        return f"{self.pin} {self.found}, expected {self.expected} ({self.source})"


@dataclass(frozen=True)
class Stack:
    """The matrix. ``cuda_of_branch``: driver branch to newest CUDA (major, minor); ``branch_of_major``: CUDA major to the
    least driver branch that runs programs built with it."""

    pins: Mapping[str, str]
    cuda_of_branch: Mapping[int, tuple[int, int]]
    branch_of_major: Mapping[int, int]
    sources: Mapping[str, str]
    packages_of: Mapping[str, Mapping[str, Any]]
    repositories_of: Mapping[str, list[dict[str, Any]]]

    def newest_cuda(self, driver: str) -> tuple[int, int] | None:
        """The newest CUDA that a driver version runs; None for a branch that the matrix does not know."""
        return self.cuda_of_branch.get(branch(driver))

    def runs_framework(self, driver: str, cuda: str) -> bool:
        """Whether programs that bring the libraries of a CUDA release run on a driver."""
        least = self.branch_of_major.get(release(cuda)[0])
        return least is not None and branch(driver) >= least

    def contradictions(self, versions: Mapping[str, str]) -> list[Contradiction]:
        """Pins of `versions` that the matrix refuses. Pins that are absent are not judged."""
        found = []
        driver, manager, cuda = (versions.get(pin) for pin in ("driver", "fabricmanager", "cuda"))
        if cuda and not _is_release(cuda):
            return [Contradiction("cuda", cuda, "MAJOR.MINOR, such as 13.0", self.sources["cuda_of_driver_branch"])]
        if driver and manager and driver != manager:
            found.append(
                Contradiction("fabricmanager", manager, f"{driver}, as the driver", self.sources["fabricmanager"])
            )
        if driver:
            newest, source = self.newest_cuda(driver), self.sources["cuda_of_driver_branch"]
            if newest is None:
                known = ", ".join(map(str, sorted(self.cuda_of_branch)))
                found.append(Contradiction("driver", driver, f"a branch that the matrix knows: {known}", source))
            elif cuda and release(cuda) > newest:
                text = f"at most {newest[0]}.{newest[1]} with driver {driver}"
                found.append(Contradiction("cuda", cuda, text, source))
        return found

    def packages(self, os_key: str, versions: Mapping[str, str]) -> dict[str, str]:
        """Package to pinned upstream version ('' where the name alone pins it), for the pins that the site has.

        os_key: such as 'debian-12'. LookupError, with what is known, when the matrix has no names for the system or
        for the driver's branch on it.
        """
        if "driver" not in versions:
            return {}
        if os_key not in self.packages_of:
            raise LookupError(
                f"{STACK_FILE.name} names no NVIDIA packages for {os_key}; it has {', '.join(self.packages_of)}"
            )
        names, number = self.packages_of[os_key], branch(versions["driver"])
        allowed = names["branches"]
        if not allowed.get("min", number) <= number <= allowed.get("max", number):
            raise LookupError(
                f"{STACK_FILE.name} names no packages of driver branch {number} for {os_key}: it has {allowed}"
            )
        cuda = "-".join(map(str, release(versions["cuda"]))) if "cuda" in versions else ""
        return {
            name.format(branch=number, cuda=cuda): "" if pin == "cuda" else versions[pin]
            for pin in self.pins
            if pin in versions
            for name in names[pin]
        }


@functools.cache
def load_stack() -> Stack:
    """The shipped matrix."""
    data = read_data(STACK_FILE)
    return Stack(
        pins=data["pins"],
        cuda_of_branch={int(number): release(cuda) for number, cuda in data["cuda_of_driver_branch"].items()},
        branch_of_major=data["driver_branch_of_cuda_major"],
        sources=data["sources"],
        packages_of=data["packages"],
        repositories_of=data["repositories"],
    )


def branch(driver: str) -> int:
    """580 of driver 580.95.05; 0 of a version that does not begin with a number."""
    first = driver.partition(".")[0]
    return int(first) if first.isdigit() else 0


def release(cuda: str) -> tuple[int, int]:
    """(13, 0) of CUDA 13.0 or 13.0.2. ValueError for anything else."""
    if not _is_release(cuda):
        raise ValueError(f"CUDA version {cuda!r}: expected MAJOR.MINOR, such as 13.0")
    major, minor = cuda.split(".")[:2]
    return int(major), int(minor)


def _is_release(cuda: str) -> bool:
    parts = cuda.split(".")
    return len(parts) >= 2 and all(part.isdigit() for part in parts)


COMPUTE_PKEY_INDEX = "1"
"""Place of the compute partition's key in a port's table: opensm puts the default partition's first."""


def nccl_settings(server: DeviceType, partitioned: bool, traffic_class: int | None = None) -> dict[str, str]:
    """What /etc/nccl.conf must say on a server: sockets on the in-band ports, RDMA devices in the order of the rails.

    partitioned: the fabric's default partition lets hosts reach the subnet manager only (network/infiniband/subnet.py), so
    NCCL is told which partition it communicates in. traffic_class: of RoCE packets (network/roce_host.py); NCCL's default of 0 is
    outside the lossless class.
    """
    ports = server.bringup
    wanted = {"NCCL_SOCKET_IFNAME": ports.inband_ports, "NCCL_IB_HCA": ports.fabric_ports}
    settings = {key: ",".join(names) for key, names in wanted.items() if names}
    if traffic_class is not None:
        settings["NCCL_IB_TC"] = str(traffic_class)
    return {**settings, "NCCL_IB_PKEY": COMPUTE_PKEY_INDEX} if partitioned else settings
