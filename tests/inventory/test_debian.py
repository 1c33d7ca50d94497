"""Upstream versions of Debian packages, and that the copies on nodes read them alike."""

import pytest

from inventory.debian import upstream
from network.infiniband import on_host
from tests.playbooks.support import load

VERSIONS = {
    "3.3.23-2+b1": "3.3.23",
    "22.05.8-4+deb12u3": "22.05.8",
    "1:9.2p1-2+deb12u10": "9.2p1",
    "2.42.0+ds-5+deb12u1": "2.42.0+ds",
    "1.0~rc2-1": "1.0~rc2",
    "20250419~deb12u2": "20250419~deb12u2",
    "1:2-3-4": "2-3",
    "1:9.2": "9.2",
    "44.0": "44.0",
    "": "",
}


@pytest.mark.parametrize(("version", "part"), VERSIONS.items())
@pytest.mark.parametrize("read", [upstream, on_host.upstream, load("library/bringup_packages.py").upstream])
def test_everybody_takes_the_same_part_of_a_version(read, version, part):
    assert read(version) == part


@pytest.mark.parametrize(
    ("have", "installed"), [("3.3.23-2+b1", False), ("1:3.3.23-2", False), ("3.3.23-2-1", True), ("3.3.2-1", True)]
)
def test_a_subnet_manager_of_another_version_than_the_pin_is_installed_anew(monkeypatch, have, installed):
    ran: list[tuple[str, ...]] = []

    def run(*argv: str, **rest: object) -> str:
        ran.append(argv)
        return ""

    monkeypatch.setattr(on_host, "versions", lambda packages: dict.fromkeys(packages, have))
    monkeypatch.setattr(on_host, "run", run)
    on_host.install(["opensm"], {"opensm": "3.3.23"})
    assert bool(ran) is installed
    assert not ran or ran[-1][-1] == "opensm=3.3.23-*"
