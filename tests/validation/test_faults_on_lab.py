"""Every fault of the lab raises its finding, with the right ports or devices, and nothing else; repair removes it."""

import time
from collections.abc import Iterator

import pytest

from infra import lab
from inventory.findings import Finding
from tests.standing import Standing

pytestmark = pytest.mark.lab

SETTLE_S = 45
"""LLDP tells a new neighbour within its interval, and forgets an old one after its time to live."""

EXPECTED = {
    "cable-swap": ("TOPOLOGY-SWAPPED", ["leaf01:swp1", "leaf02:swp1"], ["leaf01:swp1", "leaf02:swp1"]),
    "link-down": ("LINK-DOWN", ["leaf01:swp1"], ["leaf01:swp1", "spine01:swp1"]),
    "switch-dead": ("DEVICE-SILENT", ["leaf02"], ["leaf02"]),
    "outlet-off": ("OUTLET-STATE", ["pdu-r01-a", "1"], ["pdu-r01-a:1"]),
    "node-power-lost": ("POWER-LOST", ["gpu002"], ["gpu002"]),
    "feed-lost": ("FEED-LOST", ["r02", "B"], ["r02/B", "pdu-r02-b"]),
    "switch-config-drift": ("CONFIG-DRIFT", ["leaf03"], ["leaf03"]),
    "bmc-hang": ("BMC-TIMEOUT", ["gpu003"], ["gpu003"]),
    "identity-changed": ("IDENTITY-MISMATCH", ["gpu004"], ["gpu004"]),
    "gpu-xid": ("GPU-XID", ["gpu001", "3"], ["gpu001", "gpu001:slot3"]),
    "gpu-lost": ("GPU-LOST", ["gpu002", "8"], ["gpu002", "gpu002:slot8"]),
    "row-remap-pending": ("GPU-ROW-REMAP", ["gpu003", "1"], ["gpu003", "gpu003:slot1"]),
    "wrong-firmware": ("GPU-FIRMWARE", ["gpu004", "5"], ["gpu004", "gpu004:slot5"]),
    "wrong-driver": ("GPU-DRIVER", ["gpu002"], ["gpu002"]),
    "thermal-alarm": ("GPU-THERMAL", ["gpu001", "6"], ["gpu001", "gpu001:slot6"]),
}
"""Fault: finding, arguments of the injection, and the subject or ports that the finding must name."""


@pytest.fixture(autouse=True)
def mended(standing: Standing) -> Iterator[None]:
    """Whatever a test did, the next one finds a lab without faults."""
    yield
    lab.repair(standing.name)


def settled(standing: Standing, wanted: list[tuple[str, str]]) -> list[Finding]:
    """The findings once they are the wanted (id, subject) pairs, or as they are when the time is up."""
    end = time.monotonic() + SETTLE_S
    while True:
        found = standing.findings()
        if [(f.id, f.subject) for f in found] == wanted or time.monotonic() > end:
            return found
        time.sleep(1)


def test_a_standing_lab_has_no_findings(standing: Standing):
    assert settled(standing, []) == []


@pytest.mark.parametrize("fault", EXPECTED)
def test_a_fault_raises_its_finding_alone_and_repair_removes_it(standing: Standing, fault: str):
    finding_id, arguments, named = EXPECTED[fault]
    assert settled(standing, []) == []
    lab.fault(standing.name, fault, arguments)
    end = time.monotonic() + SETTLE_S
    while True:
        found = standing.findings()
        if [f.id for f in found] == [finding_id] or time.monotonic() > end:
            break
        time.sleep(1)
    assert [f.id for f in found] == [finding_id], [f"{f.id} {f.subject}: {f.message}" for f in found]
    (finding,) = found
    assert set(named) <= {finding.subject, *finding.ports}, finding
    lab.repair(standing.name)
    assert settled(standing, []) == []


def test_every_fault_of_the_lab_has_its_finding():
    assert set(lab.FAULTS) - set(EXPECTED) == {"strip-marker"}, (
        "strip-marker hides a device's nature: test_verdict_on_lab.py"
    )
