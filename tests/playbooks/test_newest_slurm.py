"""The newest Debian's slurmctld starts with the slurm.conf of every shipped site.

Its munged is real, in a namespace of its own without network. There is no slurmdbd, so the site's file is tried twice:
as it is, which slurmctld reads before it waits for the database; and without what needs one (AccountingStorage lines,
TRESBillingWeights), which takes it through nodes, partitions and topology until it answers.
"""

import re
import subprocess
from pathlib import Path

import pytest

from infra.setup import newest_slurm
from inventory.site import site_names
from tests.playbooks.test_slurm_templates import METAL, rendered, settings, variables

pytestmark = pytest.mark.needs("root", "unshare", "chroot")

# What a namespace without database and without the other controllers makes slurmctld say.
ALONE = re.compile(
    r"slurmdbd|can only be used with SlurmDBD|PersistInit|_open_persist_conn"
    r"|Association database appears down|Unable to get any information from the state"
    r"|ClusterID|_shutdown_bu_thread"
    r"|Job accounting information gathered, but not stored|not to be stored \(no AccountingStorageType"
)
FIRST_START = re.compile(
    r"[Cc]ould not open .*state file|No .*state file|state (save )?file .*(to recover|recover)"
    r"|NOTE: Trying backup"
)
# slurmctld times 1,000 calls of gettimeofday() as it starts and complains of a machine that is busy just then.
BUSY_MACHINE = re.compile(r"High latency for \d+ calls to gettimeofday\(\): \d+ microseconds")
# To settle before a site pins 26.05 or newer: HealthCheckTimeout is 60 s by default, slurm_health_interval_s may be 30 s.
# Slurm 22.05 has no such key: slurm.conf(5) ends a health check after 60 s.
NEW_IN_26_05 = re.compile(r"HealthCheckTimeout \(60\) must be less than HealthCheckInterval \(\d+\)")

START = r"""
set -e
mount -t tmpfs tmpfs "$WORK"; mkdir "$WORK/up" "$WORK/work" "$WORK/root"
mount -t overlay overlay -o "lowerdir=$TREE,upperdir=$WORK/up,workdir=$WORK/work" "$WORK/root"
cd "$WORK/root"
printf 'root:x:0:0::/root:/bin/sh\nmunge:x:64030:64030::/:/bin/false\nslurm:x:64031:64031::/:/bin/false\n' >etc/passwd
printf 'root:x:0:\nmunge:x:64030:\nslurm:x:64031:\n' >etc/group
mkdir -p etc/slurm etc/munge var/lib/munge var/log/munge "./$STATE"
cp "$CONF"/* etc/slurm/; cp "$CONF/hosts" etc/hosts
for hook in prolog epilog health; do printf '#!/bin/sh\n' >etc/slurm/$hook.sh; chmod 755 etc/slurm/$hook.sh; done
mount -t proc proc proc; mount --bind /dev dev; mount -t tmpfs tmpfs run; mkdir run/munge; chmod 1777 run
head -c 128 /dev/urandom >etc/munge/munge.key; chmod 600 etc/munge/munge.key; chmod 700 etc/munge
chown -R 64030:64030 run/munge var/lib/munge var/log/munge etc/munge; chown 64031:64031 "./$STATE"
ip link set lo up; ip address add "$ADDRESS/32" dev lo; hostname "$NAME"
chroot --userspec=64030:64030 . /usr/sbin/munged -F 2>run/munged.log &
for _ in $(seq 50); do [ -S run/munge/munge.socket.2 ] && break; sleep 0.1; done
timeout 20 chroot --userspec=64031:64031 . /usr/sbin/slurmctld-wlm -D 2>&1 &
controller=$!
if [ "$WHOLE" = 1 ]; then
    for _ in $(seq 80); do ss -ltn | grep -q ':6817 ' && break; sleep 0.1; done
    ss -ltn | grep -q ':6817 ' && sleep 1 && echo 'ANSWER listening'
    exit 0
fi
for _ in $(seq 30); do
    kill -0 $controller 2>/dev/null || exit 0  # it has ended, and its log says why
    ss -ltn | grep -q ':6817 ' && chroot . /usr/bin/scontrol ping | grep -q 'primary.* is UP' && break
    sleep 0.1
done
chroot . /usr/bin/scontrol ping | sed -n '1s/^/ANSWER /p'
chroot . /usr/bin/scontrol -o show nodes | sed -n 's/^NodeName=\([^ ]*\).*Gres=\([^ ]*\).*/ANSWER node \1 \2/p'
chroot . /usr/bin/scontrol show topology | sed -n 's/^SwitchName=\([^ ]*\).*/ANSWER switch \1/p'
exit 0
"""


def start(site: str, folder: Path, *, whole: bool) -> tuple[list[str], list[str], dict[str, str]]:
    """Lines of slurmctld's log, answers, and the files that it was given."""
    known = variables(site, METAL)
    files = {
        name: rendered("slurm_config", f"{name}.j2", known) for name in ("slurm.conf", "topology.conf", "cgroup.conf")
    }
    state = settings(files["slurm.conf"])["StateSaveLocation"][0]
    conf, work = folder / "conf", folder / "work"
    conf.mkdir()
    work.mkdir()
    given = (
        files
        if whole
        else {
            **files,
            "slurm.conf": re.sub(r"(?m)^AccountingStorage\w+=.*\n| TRESBillingWeights=\S+", "", files["slurm.conf"]),
        }
    )
    hosts = "".join(f"{host['address']} {host['name']}\n" for host in known["bringup_hosts"])
    for name, text in {**given, "hosts": "127.0.0.1 localhost\n" + hosts}.items():
        (conf / name).write_text(text)
    controller = known["bringup_controllers"][0]
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "TREE": str(newest_slurm.tree()),
        "WORK": str(work),
        "CONF": str(conf),
        "STATE": state,
        "NAME": controller["name"],
        "ADDRESS": controller["address"],
        "WHOLE": "1" if whole else "0",
    }
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "bash", "-c", START],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env=environment,
    )
    lines = done.stdout.splitlines()
    assert any("slurmctld version" in line for line in lines), done.stdout + done.stderr
    answers = [line.removeprefix("ANSWER ") for line in lines if line.startswith("ANSWER ")]
    return [line for line in lines if not line.startswith("ANSWER ")], answers, files


def complaints(log: list[str]) -> list[str]:
    """Errors, warnings and what slurmctld does not know, but for what this start alone explains."""
    bad = re.compile(r"error|fatal|warning|[Ii]gnor|[Uu]nknown|[Uu]nrecogni|[Dd]eprecated|[Dd]efunct|obsolete")
    explained = (ALONE, FIRST_START, BUSY_MACHINE, NEW_IN_26_05)
    return [line for line in log if bad.search(line) and not any(known.search(line) for known in explained)]


@pytest.fixture(autouse=True)
def unpacked() -> None:
    if not newest_slurm.is_ready():
        pytest.skip("needs the newest Debian's slurmctld: run make setup")


@pytest.mark.parametrize("site", site_names())
def test_the_newest_slurmctld_reads_the_sites_configuration_without_complaint(site, tmp_path):
    log, answers, _ = start(site, tmp_path, whole=True)
    assert complaints(log) == []
    assert answers == ["listening"]


@pytest.mark.parametrize("site", site_names())
def test_the_newest_slurmctld_starts_with_the_sites_nodes_and_topology(site, tmp_path):
    log, answers, files = start(site, tmp_path, whole=False)
    assert complaints(log) == []
    assert re.search(r"primary.* is UP", answers[0])
    nodes = [line.split() for line in settings(files["slurm.conf"])["NodeName"]]
    assert sorted(line.split()[1] for line in answers if line.startswith("node ")) == sorted(
        words[0] for words in nodes
    )
    switches = [line.split()[0] for line in settings(files["topology.conf"])["SwitchName"]]
    assert sorted(line.split()[1] for line in answers if line.startswith("switch ")) == sorted(switches)


def test_a_key_that_slurm_does_not_know_is_a_complaint(tmp_path, monkeypatch):
    real = rendered

    def with_another_key(role, name, known):
        return real(role, name, known) + ("NoSuchKey=1\n" if name == "cgroup.conf.j2" else "")

    monkeypatch.setitem(globals(), "rendered", with_another_key)
    log, _, _ = start("lab", tmp_path, whole=False)
    assert any("NoSuchKey" in line for line in complaints(log)), log
