"""A lab comes, coexists, survives a crash, and leaves nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra import lab
from infra.lab import net
from infra.lab.client import ask
from infra.lab.paths import LabError, LabPaths, lab_home
from infra.lab.up import ssh_probe, up
from tests.infra.lab.conftest import RunningLab, start
from tests.infra.lab.helpers import small_site

pytestmark = pytest.mark.lab
BOOT_BUDGET_S = 30.0


def traces(name: str) -> dict[str, list[str]]:
    """Everything of a lab that this machine shows: processes, namespaces, mounts, control groups, links, files."""
    scope, home = f"bringup-{name}", str(lab_home() / name)
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            shown = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            group = (process / "cgroup").read_text()
        except OSError:
            continue
        if f"/{scope}/" in group or f"BRINGUP_LAB={name}\0".encode() in shown or f"{home}/".encode() in shown:
            processes.append(process.name)
    run_folders = [path for folder in ("/run/systemd/nspawn", "/run/netns") for path in Path(folder).rglob("*")]
    return {
        "processes": processes,
        "namespaces": [path.name for path in net.NETNS.glob(f"{scope}-*")],
        "mounts": [
            line for line in Path("/proc/self/mounts").read_text().splitlines() if f"{home}/" in line or scope in line
        ],
        "cgroups": [str(root / scope) for root in net.CGROUP_ROOTS if (root / scope).exists()],
        "links": [path.name for path in Path("/sys/class/net").iterdir() if path.name.startswith(name[:6])],
        "files": [path for path in (home, str(lab_home() / f".{name}.lock")) if Path(path).exists()],
        "run": [str(path) for path in run_folders if scope in path.name],
    }


NOTHING: dict[str, list[str]] = {
    key: [] for key in ("processes", "namespaces", "mounts", "cgroups", "links", "files", "run")
}


def nspawn_locks() -> set[str]:
    return {str(path) for path in Path("/run/systemd/nspawn").rglob("inode-*")}


def test_down_leaves_nothing_of_a_lab_with_running_servers(tmp_path):
    before = nspawn_locks()
    running = start(tmp_path, "gonelab", 192)
    try:
        for server in ("gpu001", "ctl01"):
            ask(running.name, op="reset", device=server, kind="On")
        wait_for_boot(running, "gpu001")
        lab.fault(running.name, "link-down")
        seen = traces(running.name)
        assert all(seen[key] for key in ("processes", "namespaces", "cgroups", "links", "files")), seen
    finally:
        lab.down(running.name)
    assert traces(running.name) == NOTHING
    assert nspawn_locks() <= before


def wait_for_boot(running: RunningLab, server: str) -> None:
    end = time.monotonic() + BOOT_BUDGET_S
    while not running.view(server)["ready"]:
        assert time.monotonic() < end, f"{server} does not boot in {BOOT_BUDGET_S:g} s"
        time.sleep(0.1)


def test_two_labs_run_side_by_side_and_down_touches_its_own_only(running, tmp_path):
    other = start(tmp_path, "testlab-two", 193)  # its name begins with the other's
    try:
        both = [ssh_probe(lab_.spec.switch("leaf01").address) for lab_ in (running, other)]
        assert [answers() for answers in both] == [True, True]
        before = set(traces(running.name)["processes"])
        time.sleep(2)
        stay = before & set(traces(running.name)["processes"])  # a leaf's uplinks.sh starts programs each second
    finally:
        lab.down(other.name)
    assert traces(other.name) == {**NOTHING, "links": traces(running.name)["links"]}
    assert stay
    assert stay <= set(traces(running.name)["processes"])
    assert ssh_probe(running.spec.switch("leaf01").address)()
    assert lab.is_up(running.name)


def test_up_recovers_after_the_daemons_were_killed(tmp_path):
    running = start(tmp_path, "crashlab", 194)
    try:
        ask(running.name, op="reset", device="gpu002", kind="On")
        wait_for_boot(running, "gpu002")
        for daemon in ("powerd", "bmc", "pdu"):
            for pid in net.cgroup_pids(f"{running.spec.scope}/{daemon}"):
                os.kill(pid, signal.SIGKILL)
        assert not lab.is_up(running.name)
        lines: list[str] = []
        up(running.site, running.plan, lines.append)
        assert "an earlier run left something behind: removing it" in lines
        state = lab.status(running.name)
        assert {state[s.name]["power"] for s in running.spec.servers} == {"Off"}  # factory state again
        assert all(ssh_probe(s.address)() for s in running.spec.switches)
    finally:
        lab.down(running.name)
    assert traces(running.name) == NOTHING


def test_up_of_a_running_lab_leaves_it_alone(running):
    pid = ask(running.name, op="pid")
    lines: list[str] = []
    up(running.site, running.plan, lines.append)
    assert lines == [f"lab {running.name} is up already"]
    assert ask(running.name, op="pid") == pid


def test_a_prefix_that_this_machine_uses_is_refused_with_its_owner(running, tmp_path):
    from capacity.build import build
    from inventory.site import load_site

    site = load_site(small_site(tmp_path, "overlap", 191))  # the prefix of the running lab
    with pytest.raises(LabError, match=r"addressing.oob 10.191.0.0/24 overlaps 10.191.0.1/24 \(interface testla"):
        up(site, build(site))
    assert traces("overlap") == NOTHING


def test_secrets_are_for_root_only(running):
    paths = LabPaths(running.name)
    assert oct(paths.root.stat().st_mode)[-3:] == "700"
    for secret in paths.secrets.iterdir():
        assert oct(secret.stat().st_mode)[-3:] == "600", secret


def test_no_secret_stands_in_a_command_line_or_a_log(running):
    secrets = [
        running.paths.secret(name).encode()
        for name in ("snmp_auth", "snmp_priv", "bmc_password_gpu001", "bmc_factory_password")
    ]
    pids = net.cgroup_pids(running.spec.scope)
    shown = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids if Path(f"/proc/{pid}").exists()]
    shown += [log.read_bytes() for log in running.paths.logs.iterdir()]
    assert len(shown) > 20
    assert not [text[:80] for text in shown if any(secret in text for secret in secrets)]


def test_status_of_a_lab_that_is_down_says_what_to_do():
    with pytest.raises(LabError, match="lab nolab is not up: run `bringup lab up`"):
        lab.status("nolab")


@pytest.mark.parametrize(
    "moment_s", [pytest.param(0.1, marks=pytest.mark.soak), 0.6, pytest.param(1.5, marks=pytest.mark.soak)]
)
def test_up_recovers_after_an_up_that_was_killed(tmp_path, moment_s):
    site_file = small_site(tmp_path, "killedup", 195)
    code = (
        "import sys; from capacity.build import build; from infra.lab.up import up; from inventory.site import load_site\n"
        "site = load_site(sys.argv[1]); plan = build(site); print('now', flush=True); up(site, plan)"
    )
    try:
        with subprocess.Popen([sys.executable, "-c", code, str(site_file)], stdout=subprocess.PIPE) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == b"now\n"
            time.sleep(moment_s)
            first.kill()
        again = subprocess.run([sys.executable, "-c", code, str(site_file)], capture_output=True, text=True, timeout=90)
        assert again.returncode == 0, again.stderr
        assert lab.is_up("killedup")
    finally:
        lab.down("killedup")
    assert traces("killedup") == NOTHING
