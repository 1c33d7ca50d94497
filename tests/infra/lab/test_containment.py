"""`bringup lab exec`: root on a device, with what the device itself may do and nothing of the host's."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import lab
from infra.lab import node, switch
from tests.infra.lab.conftest import RunningLab
from tests.infra.lab.test_power import bmc, until

BUDGET_S = 90.0
DEVICES = ("leaf01", "oob01", "gpu001")
SET_CLOCK = (
    "import time\n"
    "try: time.clock_settime_ns(time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME))\n"
    "except PermissionError: print('refused')"
)
"""Sets the clock to what it says, so that a lab that lets it pass does no harm."""


def run(running: RunningLab, device: str, *command: str) -> subprocess.CompletedProcess[str]:
    argv = lab.exec_argv(running.name, device, list(command))
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=BUDGET_S)


def init_pid(running: RunningLab, device: str) -> int:
    find = switch.init_pid if running.spec.kind(device) == "switch" else node.leader_pid
    pid = find(running.spec, device)
    assert pid is not None
    return pid


def capability_sets(status: str) -> dict[str, str]:
    return dict(re.findall(r"^(CapPrm|CapEff|CapBnd):\t(\w+)$", status, re.MULTILINE))


@pytest.fixture(scope="module")
def powered(running: RunningLab) -> Iterator[RunningLab]:
    """The lab with a node that runs."""
    bmc(running, "gpu001").power("On")
    until(lambda: running.view("gpu001")["ready"], "gpu001 boots")
    yield running
    bmc(running, "gpu001").power("ForceOff")


@pytest.mark.lab
@pytest.mark.parametrize("device", DEVICES)
def test_no_one_on_a_device_sets_the_clock_of_the_host(powered, device):
    assert run(powered, device, "python3", "-c", SET_CLOCK).stdout.strip() == "refused"


@pytest.mark.lab
@pytest.mark.parametrize("device", DEVICES)
def test_a_command_has_the_capabilities_and_the_namespaces_of_the_device(powered, device):
    pid = init_pid(powered, device)
    seen = capability_sets(run(powered, device, "cat", "/proc/self/status").stdout)
    own = capability_sets(Path(f"/proc/{pid}/status").read_text())
    assert seen["CapBnd"] == own["CapBnd"]
    assert int(seen["CapEff"], 16) & ~int(own["CapBnd"], 16) == 0
    kinds = ("mnt", "uts", "ipc", "net", "pid", "cgroup")
    links = run(powered, device, "sh", "-c", f"cd /proc/self/ns; for k in {' '.join(kinds)}; do readlink $k; done")
    assert links.stdout.split() == [os.readlink(f"/proc/{pid}/ns/{kind}") for kind in kinds]


@pytest.mark.lab
@pytest.mark.parametrize("folder", ["/usr", "/opt", "/root", "/var/lib", "/srv"])
def test_what_a_switch_writes_never_reaches_the_host(powered, folder):
    mark = Path(folder) / "bringup-containment-test"
    try:
        run(powered, "leaf01", "touch", str(mark))
        assert not mark.exists()
    finally:
        mark.unlink(missing_ok=True)


@pytest.mark.lab
def test_a_switch_sees_none_of_the_hosts_disks_and_changes_none_of_its_kernel(powered):
    devices = set(run(powered, "leaf01", "ls", "/dev").stdout.split())
    assert (
        {"null", "urandom", "pts"}
        <= devices
        <= {"fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
    )
    writes = run(
        powered, "leaf01", "sh", "-c", "for f in kernel/sysrq vm/swappiness; do [ -w /proc/sys/$f ] && echo $f; done"
    )
    assert writes.stdout == ""
