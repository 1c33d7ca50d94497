"""Every fault of the lab raises its finding, with the right ports or devices, and nothing else; repair removes it.

`make test` injects independent faults together and wants exactly their findings; `make soak` injects them one by one.
"""

import time
from collections.abc import Iterator

import pytest

from infra import lab
from inventory.findings import Finding
from tests.standing import Standing, until

pytestmark = pytest.mark.lab

SETTLE_S = 45
"""LLDP tells a new neighbour within its interval, and forgets an old one after its time to live."""
PAUSE_S = 8
"""Between two gatherings. One takes 15 s of processor time from all that runs beside it."""

EXPECTED = {
    "cable-swap": ("TOPOLOGY-SWAPPED", ["leaf01:swp1", "leaf02:swp1"], ["leaf01:swp1", "leaf02:swp1"]),
    "link-down": ("LINK-DOWN", ["leaf01:swp1"], ["leaf01:swp1", "spine01:swp1"]),
    "switch-dead": ("DEVICE-SILENT", ["leaf02"], ["leaf02"]),
    "outlet-off": ("OUTLET-STATE", ["pdu-r01-a", "1"], ["pdu-r01-a:1"]),
    "node-power-lost": ("POWER-LOST", ["gpu002"], ["gpu002"]),
    "feed-lost": ("FEED-LOST", ["r02", "B"], ["r02/B", "pdu-r02-b"]),
    "switch-config-drift": ("CONFIG-DRIFT", ["leaf03"], ["leaf03"]),
    "bmc-hang": ("BMC-TIMEOUT", ["gpu003"], ["gpu003"]),
    "bmc-garbled": ("ANSWER-UNREADABLE", ["gpu003", "types"], ["gpu003"]),
    "slurmctld-hung": ("SCHEDULER-SILENT", ["ctl01"], ["ctl01"]),
    "slurmdbd-down": ("ACCOUNTING-DOWN", ["ctl01"], ["ctl01"]),
    "mariadb-down": ("ACCOUNTING-DATABASE-DOWN", ["ctl01"], ["ctl01"]),
    "node-drained": ("NODE-OUT-OF-SERVICE", ["gpu002"], ["gpu002"]),
    "munge-key-differs": ("NODE-REFUSED", ["gpu003"], ["gpu003"]),
    "identity-changed": ("IDENTITY-MISMATCH", ["gpu004"], ["gpu004"]),
    "gpu-xid": ("GPU-XID", ["gpu001", "3"], ["gpu001", "gpu001:slot3"]),
    "gpu-lost": ("GPU-LOST", ["gpu002", "8"], ["gpu002", "gpu002:slot8"]),
    "row-remap-pending": ("GPU-ROW-REMAP", ["gpu003", "1"], ["gpu003", "gpu003:slot1"]),
    "wrong-firmware": ("GPU-FIRMWARE", ["gpu004", "5"], ["gpu004", "gpu004:slot5"]),
    "wrong-driver": ("GPU-DRIVER", ["gpu001"], ["gpu001"]),
    "thermal-alarm": ("GPU-THERMAL", ["gpu001", "6"], ["gpu001", "gpu001:slot6"]),
    "ib-cable-swap": (
        "TOPOLOGY-SWAPPED",
        ["ibl003:p2", "gpu002:ib3"],
        ["gpu002:ib2", "gpu002:ib3", "ibl003:p2", "ibl004:p2"],
    ),
    "ib-switch-dead": ("DEVICE-SILENT", ["ibs002"], ["ibs002"]),
    "ib-link-errors": ("LINK-ERRORS", ["ibl004:p6"], ["ibl004:p6", "ibs002:p4"]),
    "storage-lost": ("STORAGE-SERVICE-DOWN", [], ["sto01"]),
    "disk-full": ("STORAGE-FULL", [], ["sto01", "sto01:/srv/data/shared/brick"]),
}
"""Fault: finding, arguments of the injection, and the subject or ports that the finding must name."""

TOGETHER = {
    "cables, an outlet, a BMC, a full disk": (
        "cable-swap",
        "outlet-off",
        "switch-config-drift",
        "bmc-hang",
        "node-drained",
        "ib-link-errors",
        "gpu-xid",
        "disk-full",
    ),
    "a link, a feed, a lost GPU, no database": (
        "link-down",
        "feed-lost",
        "gpu-lost",
        "munge-key-differs",
        "wrong-firmware",
        "ib-cable-swap",
        "mariadb-down",
    ),
    "dead switches, an unknown and a dark server, no scheduler, no accounting, no storage": (
        "switch-dead",
        "identity-changed",
        "row-remap-pending",
        "wrong-driver",
        "thermal-alarm",
        "ib-switch-dead",
        "slurmdbd-down",
        "bmc-garbled",
        "node-power-lost",
        "storage-lost",
        "slurmctld-hung",
    ),
}
"""Faults that neither hide nor cause each other's findings. A node that Slurm has lost is no finding of its own where
another one names it already, so node-drained and munge-key-differs have their nodes for themselves."""


@pytest.fixture(autouse=True)
def repaired(standing: Standing) -> Iterator[None]:
    """Whatever a test did, the next one finds a lab without faults."""
    yield
    lab.repair(standing.name)


def settled(standing: Standing) -> list[Finding]:
    """Findings that are left once Slurm has every node in service again, or when the time is up. Health checks run every ten
    seconds."""
    until(standing.in_service, "Slurm does not have every node in service")
    end = time.monotonic() + SETTLE_S
    while (found := standing.findings()) and time.monotonic() < end:
        time.sleep(PAUSE_S)
    return found


def mismatch(found: list[Finding], faults: tuple[str, ...]) -> tuple[list[str], list[Finding]]:
    """Faults without their finding, and findings that no fault explains."""
    missing, left = [], list(found)
    for fault in faults:
        finding_id, _, named = EXPECTED[fault]
        own = [f for f in left if f.id == finding_id and set(named) <= {f.subject, *f.ports}]
        if own:
            left.remove(own[0])
        else:
            missing.append(fault)
    return missing, left


@pytest.mark.parametrize("group", TOGETHER)
def test_faults_together_raise_exactly_their_findings_and_repair_removes_them(standing: Standing, group: str):
    for fault in TOGETHER[group]:
        lab.fault(standing.name, fault, EXPECTED[fault][1])
    end = time.monotonic() + SETTLE_S
    while (wrong := mismatch(standing.findings(), TOGETHER[group])) != ([], []) and time.monotonic() < end:
        time.sleep(PAUSE_S)
    assert wrong == ([], [])
    lab.repair(standing.name)
    assert settled(standing) == []


def test_every_fault_is_injected_together_with_others():
    assert sorted(fault for group in TOGETHER.values() for fault in group) == sorted(EXPECTED)


@pytest.mark.soak
@pytest.mark.parametrize("fault", EXPECTED)
def test_a_fault_raises_its_finding_alone_and_repair_removes_it(standing: Standing, fault: str):
    finding_id, arguments, named = EXPECTED[fault]
    assert settled(standing) == []
    lab.fault(standing.name, fault, arguments)
    end = time.monotonic() + SETTLE_S
    while True:
        found = standing.findings()
        if [f.id for f in found] == [finding_id] or time.monotonic() > end:
            break
        time.sleep(PAUSE_S)
    assert [f.id for f in found] == [finding_id], [f"{f.id} {f.subject}: {f.message}" for f in found]
    (finding,) = found
    assert set(named) <= {finding.subject, *finding.ports}, finding
    lab.repair(standing.name)
    assert settled(standing) == []


def test_every_fault_of_the_lab_has_its_finding():
    assert set(lab.FAULTS) - set(EXPECTED) == {"strip-marker", "update-hangs", "gpu-memory"}, (
        "strip-marker hides a device's nature: test_verdict_on_lab.py; update-hangs shows in a roll-out: "
        "infra/lab/test_firmware.py; gpu-memory is an XID alone, which nodes without a kernel log of their own cannot show: P-12"
    )
