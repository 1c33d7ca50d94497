"""Nodes that are read twice: which ones, what counts as agreement, and testinfra's modules on this machine."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest
import testinfra
from testinfra.host import Host

from inventory.site.sections.acceptance import Limit
from network.drivers.credentials import SshCredentials
from network.drivers.errors import BadAnswer, DeviceTimeout
from network.drivers.ssh import Completed, SshHost
from tests.plans import plan_of
from validation.checks import test_nodes as nodes
from validation.facts import Facts, node_facts
from validation.facts.second_reader import ABSENT, Asked, Reading, asked, sample, seed_of, told
from validation.facts.shapes import data_of
from validation.facts.testinfra_facts import SiteSsh, read
from validation.second_reading import SecondReadings, compare

pytestmark = pytest.mark.clock

HEALTHY = Path(__file__).parent / "data" / "healthy.json"
SEED = "2026-01-02/0123456789abcdef"
WANTED = Asked(
    packages=("slurmd",),
    services=("ssh",),
    files=("/etc/shadow",),
    sysctls=("net.ipv4.ip_forward",),
    mounts=("/shared",),
    users=("root",),
)
FACTS: dict[str, Any] = {
    "packages": {"slurmd": "22.05.8-4"},
    "units": {"services": {"ssh": "active/running"}},
    "enabled": {"ssh": "enabled"},
    "files": {"/etc/shadow": "0640 root:shadow"},
    "sysctls": {"net.ipv4.ip_forward": "0"},
    "mounts": {"/shared": "sto01:/shared fuse.glusterfs"},
    "users": {"root": "0:0:/root:/bin/bash"},
    "errors": {},
}
SAME = {
    "package slurmd": "22.05.8-4",
    "service ssh running": "yes",
    "service ssh at boot": "yes",
    "file /etc/shadow": "0640 root:shadow",
    "sysctl net.ipv4.ip_forward": "0",
    "mount /shared": "sto01:/shared fuse.glusterfs",
    "user root": "0:0:/root:/bin/bash",
    "local accounts": "root",
}


# ---- which nodes -----------------------------------------------------------------------------------------------------
def with_limit(plan, key: str, value: float):
    limits = {**plan.site.limits, key: Limit(value=value, unit="nodes", source="test")}
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"limits": limits}))


def test_a_sample_has_a_node_of_every_role_even_where_the_site_asks_for_fewer():
    plan = with_limit(plan_of("lab"), "second_reading_nodes", 1)
    role = plan.devices.set_index("name")["role"]
    servers = plan.devices.loc[plan.devices["kind"] == "server", "name"]
    assert sorted(role[sample(plan, SEED)]) == sorted(set(role[servers]))


def test_a_larger_sample_is_filled_up_to_all_servers():
    plan, servers = plan_of("lab"), (plan_of("lab").devices["kind"] == "server").sum()
    assert len(sample(with_limit(plan, "second_reading_nodes", 5), SEED)) == 5
    assert len(sample(with_limit(plan, "second_reading_nodes", 500), SEED)) == servers


def test_the_same_seed_draws_the_same_nodes_and_other_days_draw_others():
    plan = plan_of("lab")
    drawn = {tuple(sample(plan, seed_of(plan, f"2026-01-{day:02}"))) for day in range(1, 29)}
    assert sample(plan, SEED) == sample(plan, SEED)
    assert len(drawn) > 1
    assert {name for nodes in drawn for name in nodes if name.startswith("gpu")} == {
        "gpu001",
        "gpu002",
        "gpu003",
        "gpu004",
    }


def test_pinned_packages_and_the_planned_mount_are_asked_for():
    wanted = asked(plan_of("lab"), "gpu001", {"accounts": ["root", "ada"], "users": {"munge": "998:998:/:/bin/false"}})
    assert {"slurmd", "openssh-server", "glusterfs-client"} <= set(wanted.packages)
    assert wanted.mounts == ("/", "/shared")
    assert wanted.users == ("ada", "munge", "root")
    assert asked(plan_of("lab"), "sto01", {}).mounts == ("/",)


# ---- what counts as agreement ----------------------------------------------------------------------------------------
def test_equal_readings_agree_on_every_item():
    compared = compare("gpu001", told(FACTS, WANTED), Reading(SAME))
    assert (compared.agreed, compared.findings) == (len(SAME), ())


@pytest.mark.parametrize(
    ("item", "seen"),
    [
        ("package slurmd", "22.05.9-1"),
        ("package slurmd", ABSENT),
        ("service ssh running", "no"),
        ("service ssh at boot", "masked"),
        ("file /etc/shadow", "0644 root:shadow"),
        ("file /etc/shadow", "0640 ada:shadow"),
        ("sysctl net.ipv4.ip_forward", "1"),
        ("mount /shared", "tmpfs tmpfs"),
        ("mount /shared", ABSENT),
        ("user root", "0:0:/root:/bin/sh"),
        ("local accounts", "mallory root"),
    ],
)
def test_a_difference_names_the_item_and_both_values(item: str, seen: str):
    compared = compare("gpu001", told(FACTS, WANTED), Reading({**SAME, item: seen}))
    (found,) = compared.findings
    assert (found.id, found.severity, found.subject) == ("FACTS-DISAGREE", "error", "gpu001")
    assert item in found.message
    assert SAME[item] in found.message
    assert seen in found.message
    assert compared.agreed == len(SAME) - 1


@pytest.mark.parametrize("key", ["packages", "units", "enabled", "files", "sysctls", "mounts", "users"])
def test_a_part_that_the_facts_lack_is_not_read(key: str):
    data = {name: value for name, value in FACTS.items() if name != key} | {"errors": {key: "no end within 8 s"}}
    compared = compare("gpu001", told(data, WANTED), Reading(SAME))
    assert {found.id for found in compared.findings} == {"FACTS-NOT-CONFIRMED"}
    assert all("no end within 8 s" in found.message for found in compared.findings)
    assert compared.agreed + len(compared.findings) == len(SAME)


def test_an_item_that_testinfra_could_not_read_is_not_read():
    items = {item: value for item, value in SAME.items() if item != "user root"}
    compared = compare("gpu001", told(FACTS, WANTED), Reading(items, {"user root": "AssertionError: exit code 2"}))
    (found,) = compared.findings
    assert found.id == "FACTS-NOT-CONFIRMED"
    assert "AssertionError: exit code 2" in found.message
    assert compared.agreed == len(SAME) - 1


def test_an_item_that_neither_reader_read_is_no_agreement():
    compared = compare("gpu001", Reading(unread={"user root": "a"}), Reading(unread={"user root": "b"}))
    assert [found.id for found in compared.findings] == ["FACTS-NOT-CONFIRMED"]
    assert compared.agreed == 0


def test_a_node_that_was_lost_half_way_is_not_read_at_all():
    compared = compare("gpu001", told(FACTS, WANTED), Reading(SAME, error="gpu001: no route"))
    (found,) = compared.findings
    assert (found.id, compared.agreed) == ("FACTS-NOT-CONFIRMED", 0)
    assert "gpu001: no route" in found.message


def test_what_a_node_says_reaches_no_finding_with_control_characters():
    compared = compare("gpu001", told(FACTS, WANTED), Reading({**SAME, "user root": "0:0:\x1b[2J\n:/bin/sh"}))
    (found,) = compared.findings
    assert found.message.isprintable()


@pytest.mark.parametrize(
    ("state", "said"),
    [("enabled", "yes"), ("static", "yes"), ("alias", "yes"), ("disabled", "no"), ("masked", "masked")],
)
def test_states_of_unit_files_are_told_as_systemctl_is_enabled_counts_them(state: str, said: str):
    data = {**FACTS, "enabled": {"ssh": state}}
    assert told(data, WANTED).items["service ssh at boot"] == said


# ---- the check -------------------------------------------------------------------------------------------------------
def test_a_disagreement_fails_the_check_of_that_node_alone():
    facts = Facts.read(HEALTHY)
    again = compare("gpu001", told(FACTS, WANTED), Reading({**SAME, "sysctl net.ipv4.ip_forward": "1"}))
    readings = SecondReadings(SEED, {"gpu001": again})
    failed = nodes.test_base_system_has_pinned_versions("gpu001", plan_of("lab"), facts, readings, {})
    assert not failed.passed
    assert [found.id for found in failed.findings] == ["FACTS-DISAGREE"]
    assert "FACTS-DISAGREE: sysctl net.ipv4.ip_forward: our facts say 0, testinfra read 1" in failed.detail
    assert nodes.test_base_system_has_pinned_versions("gpu002", plan_of("lab"), facts, readings, {}).passed


def test_an_agreement_is_told_with_the_seed_that_draws_the_node_again():
    readings = SecondReadings(SEED, {"gpu001": compare("gpu001", told(FACTS, WANTED), Reading(SAME))})
    outcome = nodes.test_base_system_has_pinned_versions("gpu001", plan_of("lab"), Facts.read(HEALTHY), readings, {})
    assert outcome.passed
    assert f"testinfra agrees on {len(SAME)} items (seed {SEED})" in outcome.detail


# ---- testinfra's modules ---------------------------------------------------------------------------------------------
def here() -> dict[str, Any]:
    """What node_facts.py reads of this machine, typed as a node's answer; systemd is not everywhere."""
    parts = {key: node_facts.PARTS[key]() for key in ("packages", "accounts", "users", "files", "sysctls", "mounts")}
    return data_of("nodes", "here", {**parts, "os_release": {}, "identity": {"uuid": "1"}, "errors": {}})


@pytest.fixture(scope="module")
def both() -> tuple[Reading, Reading]:
    """This machine read by both readers."""
    if not Path("/usr/bin/dpkg-query").exists():
        pytest.skip("this machine has no Debian packages")
    wanted = Asked(packages=("coreutils", "no-such-package"), services=(), users=("root", "nobody"))
    return told(here(), wanted), read(testinfra.get_host("local://"), wanted)


def test_both_readers_agree_on_this_machine(both: tuple[Reading, Reading]):
    first, second = both
    compared = compare("here", first, second)
    assert [found.message for found in compared.findings] == []
    assert compared.agreed == len(first.items) >= 20
    assert first.items["package no-such-package"] == ABSENT
    assert first.items["package coreutils"] != ABSENT
    assert first.items["file /etc/passwd"] != ABSENT


def test_a_file_whose_mode_changes_between_the_readings_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "kept.conf"
    path.write_text("x")
    path.chmod(0o600)
    monkeypatch.setattr(node_facts, "FILES", (str(path),))
    wanted = Asked(services=(), files=(str(path),), sysctls=(), mounts=(), users=())
    data = {"packages": {}, "files": node_facts.files(), "users": node_facts.users(), "errors": {}}
    path.chmod(0o666)
    compared = compare("here", told(data, wanted), read(testinfra.get_host("local://"), wanted))
    (found,) = compared.findings
    assert found.id == "FACTS-DISAGREE"
    assert "our facts say 0600" in found.message
    assert "testinfra read 0666" in found.message


# ---- the transport ---------------------------------------------------------------------------------------------------
class FakeSsh(SshHost):
    """An SSH host whose answers are made here; `answers` may raise."""

    def __init__(self, answers) -> None:
        super().__init__("gpu001", "192.0.2.1", SshCredentials("root", Path("key"), Path("known")))
        self.answers, self.budgets = answers, list[float]()

    def run(self, command, *, stdin=b"", check=True, budget_s=None):
        self.budgets.append(budget_s)
        return self.answers(command)


def test_all_commands_share_one_time_budget():
    def slow(command: str) -> Completed:
        time.sleep(0.02)
        return Completed(0, "", "", 0.02)

    ssh = FakeSsh(slow)
    began = time.monotonic()
    reading = read(Host(SiteSsh(ssh, 0.2)), Asked(packages=("a", "b", "c"), users=("root", "ada")))
    assert time.monotonic() - began < 2
    assert "an end within 0.2 s" in reading.error
    assert ssh.budgets == sorted(ssh.budgets, reverse=True)
    assert max(ssh.budgets) <= 0.2


def test_a_node_that_hangs_up_ends_the_reading():
    def gone(command: str) -> Completed:
        raise DeviceTimeout("gpu001", "run", "an SSH server", "none", "check the cable")

    ssh = FakeSsh(gone)
    reading = read(Host(SiteSsh(ssh, 60)), WANTED)
    assert reading.error.startswith("gpu001: run: expected an SSH server")
    assert len(ssh.budgets) == 1


def test_garbage_from_a_node_is_unread_and_never_a_crash():
    ssh = FakeSsh(lambda command: Completed(0, "\x1b[2J \udcff ÿ\n", "", 0.0))
    first = told(json.loads(json.dumps(FACTS)), WANTED)
    compared = compare("gpu001", first, read(Host(SiteSsh(ssh, 60)), WANTED))
    assert compared.agreed < len(SAME)
    assert all(found.message.isprintable() for found in compared.findings)


def test_an_answer_that_the_transport_refuses_is_no_agreement():
    def refused(command: str) -> Completed:
        raise BadAnswer("gpu001", "run", "at most 64 bytes", "more", "read it by hand")

    assert "at most 64 bytes" in read(Host(SiteSsh(FakeSsh(refused), 60)), WANTED).error
