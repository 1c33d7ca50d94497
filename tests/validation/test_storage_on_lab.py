"""The shared file system of a standing lab: written here, read there, after a reboot, a lost server, a dead client."""

import time
from collections.abc import Iterator

import pytest

from infra import lab
from infra.lab.client import ask
from tests.standing import Standing, until, until_all_read_shared
from validation.facts.storage_acts import canaries

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def repaired(standing: Standing) -> Iterator[None]:
    yield
    lab.repair(standing.name)
    until_all_read_shared(standing)
    standing.clear_event_logs()


def reboot(standing: Standing, node: str) -> float:
    """Restart a node through its BMC; seconds until it had booted."""
    began = time.monotonic()
    ask(standing.name, op="reset", device=node, kind="ForceRestart")
    until(lambda: bool(ask(standing.name, op="view", device=node)["ready"]), f"{node} does not boot")
    return time.monotonic() - began


def state(standing: Standing, node: str, *units: str) -> list[str]:
    return standing.shell(node, f"systemctl is-active {' '.join(units)} || true").split()


def test_every_node_reads_what_the_others_wrote_and_nothing_stays(standing: Standing):
    found = canaries(standing.plan)
    assert {name: (one.error, len(one.read)) for name, one in found.items()} == {
        name: ("", len(found) - 1) for name in found
    }
    assert not [what for one in found.values() for what in one.read.values() if what]
    assert standing.shell("ctl01", "ls -A /shared").split() == ["jobs"]


def test_the_mount_survives_a_reboot(standing: Standing):
    standing.shell("gpu004", "echo kept > /shared/jobs/kept")
    reboot(standing, "gpu004")
    until(lambda: state(standing, "gpu004", "shared.mount", "slurmd.service") == ["active", "active"], "not mounted")
    assert standing.shell("gpu004", "cat /shared/jobs/kept; rm /shared/jobs/kept").strip() == "kept"
    seen = standing.facts("gpu004").nodes["gpu004"].data["storage"]
    assert seen["booted_at"] > seen["installed_at"]


def test_a_node_that_boots_before_its_storage_comes_up_without_jobs_and_joins_by_itself(standing: Standing):
    lab.fault(standing.name, "node-power-lost", ["sto01"])
    reboot(standing, "gpu004")
    # A FUSE mount stands for a moment even where its server does not answer.
    until(lambda: "active" not in state(standing, "gpu004", "shared.mount"), "gpu004 has mounted what is not there")
    assert standing.shell("gpu004", "systemctl show slurmd.service -p ActiveEnterTimestamp --value").strip() == ""
    lab.repair(standing.name)
    until(lambda: state(standing, "gpu004", "shared.mount", "slurmd.service") == ["active", "active"], "did not join")


def test_a_server_without_power_is_the_only_finding(standing: Standing):
    lab.fault(standing.name, "node-power-lost", ["sto01"])
    # A PDU of a busy machine may miss its budget once, and nobody knows of an outlet then.
    until(
        lambda: [(f.id, f.subject) for f in standing.findings()] == [("POWER-LOST", "sto01")], "other findings as well"
    )


def test_calls_to_a_lost_server_fail_within_the_ping_timeout(standing: Standing):
    lab.fault(standing.name, "node-power-lost", ["sto01"])
    began = time.monotonic()
    said = standing.shell("gpu001", "timeout 40 stat -f /shared 2>&1 || true")
    assert "Transport endpoint is not connected" in said
    assert time.monotonic() - began < 30


def test_a_full_disk_refuses_writes_and_takes_them_again(standing: Standing):
    write = "dd if=/dev/zero of=/shared/jobs/block bs=1M count=4 conv=fsync 2>&1; rm -f /shared/jobs/block"
    lab.fault(standing.name, "disk-full")
    assert "No space left on device" in standing.shell("gpu001", write)
    lab.repair(standing.name)
    until(lambda: "4194304 bytes" in standing.shell("gpu001", write), "still full")


def test_a_dead_client_is_mounted_again(standing: Standing):
    kill = 'for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = glusterfs ] && kill -9 ${p#/proc/}; done'
    # In one command: the timer that mounts again may come at any moment.
    said = standing.shell("gpu004", f"{kill}; ls /shared 2>&1 || true")
    assert "not connected" in said or "connection abort" in said  # the call that was under way when its program ended
    until(lambda: standing.reads_shared("gpu004"), "not mounted again")
    until(lambda: state(standing, "gpu004", "slurmd.service") == ["active"], "slurmd does not run again")
