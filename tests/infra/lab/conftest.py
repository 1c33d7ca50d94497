"""A lab of the tests' own, which the modules of this folder use one after the other."""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capacity.build import build
from capacity.model import Plan
from infra import lab
from infra.lab.client import ask
from infra.lab.paths import LabPaths
from infra.lab.spec import LabSpec
from infra.lab.up import up
from inventory.site import Site, load_site
from tests.infra.lab.helpers import small_site


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
    site = load_site(small_site(folder, name, octet))
    plan = build(site)
    up(site, plan)
    return RunningLab(name, site, plan, lab.load_spec(name))


def kept(name: str) -> dict[str, Any]:
    """What BMCs and PDUs of a lab keep, without the event logs, which go on."""
    state: dict[str, Any] = ask(name, op="kept")
    for server in state["servers"].values():
        del server["bmc"]["sel"]
    return state


class Shared:
    """The lab of this folder, with what its BMCs and PDUs kept when it was built."""

    name = "testlab"

    def __init__(self) -> None:
        self.built: tuple[RunningLab, dict[str, Any]] | None = None

    def running(self, folder: Path) -> RunningLab:
        """The lab that is up if its BMCs and PDUs are in factory state, else a new one."""
        if self.built and lab.is_up(self.name) and kept(self.name) == self.built[1]:
            return self.built[0]
        self.down()
        running = start(folder, self.name, 191)
        self.built = running, kept(self.name)
        return running

    def down(self) -> None:
        self.built = None
        lab.down(self.name)


SHARED = Shared()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    """A lab in factory state. Disks may hold what an earlier module wrote; tests put back what else they change."""
    return SHARED.running(tmp_path_factory.mktemp("site"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Take the lab down after the last test of this folder: an idle lab costs processor time."""
    try:
        return (yield)
    finally:
        if SHARED.built and nextitem and nextitem.path.parent != item.path.parent:
            SHARED.down()


def pytest_sessionfinish() -> None:
    if SHARED.built:
        SHARED.down()
