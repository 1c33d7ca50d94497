"""A lab of the tests' own, built once per module."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capacity.build import build
from capacity.model import Plan
from infra import lab
from infra.lab.paths import LabPaths
from infra.lab.spec import LabSpec
from infra.lab.up import up
from inventory.site import Site, load_site
from tests.infra.lab.helpers import other_site


@dataclass
class RunningLab:
    """A lab that is up, and what the tests need to talk to it."""

    name: str
    site: Site
    plan: Plan
    spec: LabSpec

    @property
    def paths(self) -> LabPaths:
        return LabPaths(self.name)

    def view(self, device: str) -> dict[str, Any]:
        return lab.status(self.name)[device]


def start(folder: Path, name: str, octet: int) -> RunningLab:
    site = load_site(other_site(folder, name, octet))
    plan = build(site)
    up(site, plan)
    return RunningLab(name, site, plan, lab.load_spec(name))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """A lab in factory state at the start of the module; its tests put back what they change."""
    name = "testlab"
    lab.down(name)
    try:
        yield start(tmp_path_factory.mktemp("site"), name, 191)
    finally:
        lab.down(name)
