"""Where Slurm's packages come from (``slurm_packages.yaml``): what a distribution release has, what packages are called.

Pure but for reading the one file, once.
"""

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from inventory.yaml_data import read_data

PACKAGES_FILE = Path(__file__).with_name("slurm_packages.yaml")


@dataclass(frozen=True)
class Stated:
    """A version and the page that states it."""

    version: str
    source: str


@dataclass(frozen=True)
class SlurmPackages:
    """``distribution_versions``: by key of the system, such as ``ubuntu-24.04``. ``daemons``: package names by origin."""

    distribution_versions: Mapping[str, Stated]
    schedmd_first_packaged: Stated
    daemons: Mapping[str, tuple[str, ...]]

    def packaged_by_schedmd(self, version: str) -> bool:
        """Whether SchedMD's tarball of a version has what builds Debian packages."""
        return _numbers(version) >= _numbers(self.schedmd_first_packaged.version)


@functools.cache
def load_slurm_packages() -> SlurmPackages:
    """The shipped table."""
    data = read_data(PACKAGES_FILE)
    return SlurmPackages(
        distribution_versions={key: Stated(**value) for key, value in data["distribution_versions"].items()},
        schedmd_first_packaged=Stated(**data["schedmd_first_packaged"]),
        daemons={origin: tuple(names) for origin, names in data["daemons"].items()},
    )


def _numbers(version: str) -> tuple[int, ...]:
    """(25, 5, 3) of 25.05.3: the numbers that it begins with."""
    return tuple(int(part) for part in itertools.takewhile(str.isdecimal, version.split(".")))
