"""Playbooks on real nodes: from factory state to a scheduler that takes jobs, then nothing to do, then exactly the drift."""

import json
from collections.abc import Mapping, Sequence

import pytest

from infra.env import mitogen
from inventory.paths import repo_root
from tests.playbooks.support import Run, ansible, play
from tests.standing import Standing

pytestmark = pytest.mark.lab


def counts(run: Run, key: str) -> dict[str, int]:
    return {host: numbers[key] for host, numbers in run.summary["hosts"].items() if numbers[key]}


def test_first_run_brings_up_a_scheduler_with_all_nodes(standing: Standing):
    assert standing.first is not None
    assert counts(standing.first, "failed") == counts(standing.first, "unreachable") == {}
    assert sorted(standing.shell("ctl01", "srun --nodes=4 hostname").split()) == [
        "gpu001",
        "gpu002",
        "gpu003",
        "gpu004",
    ]


DRIFT = [
    # host, role, task, file, what is done to it
    (
        "gpu001",
        "base",
        "Write names, package pins, kernel parameters and in-band network",
        "/etc/sysctl.d/60-bringup.conf",
        "echo '# by hand' >>",
    ),
    ("gpu002", "time", "Write the clock configuration", "/etc/chrony/chrony.conf", "echo '# by hand' >>"),
    ("sto01", "users", "Write keys and rights", "/etc/sudoers.d/bringup", "echo '# by hand' >>"),
    (
        "gpu003",
        "ssh",
        "Write the SSH server's configuration",
        "/etc/ssh/sshd_config.d/00-bringup.conf",
        "echo '# by hand' >>",
    ),
    ("gpu004", "lldp", "Write the LLDP configuration", "/etc/lldpd.d/bringup.conf", "echo '# by hand' >>"),
    ("gpu001", "munge", "Write the key", "/etc/munge/munge.key", "echo x >>"),
    ("gpu002", "slurm_config", "Write Slurm's configuration", "/etc/slurm/slurm.conf", "echo '# by hand' >>"),
    (
        "ctl01",
        "slurm_database",
        "Write MariaDB's configuration",
        "/etc/mysql/mariadb.conf.d/90-bringup.cnf",
        "echo '# by hand' >>",
    ),
    ("ctl01", "slurm_controller", "Create the state directory", "/var/lib/slurm/slurmctld", "chmod 0755"),
    ("gpu003", "slurm_compute", "Write GPU devices, hooks and spool directory", "/var/lib/slurm/slurmd", "chmod 0700"),
    (
        "gpu004",
        "node_check",
        "Write the health check",
        "/usr/local/libexec/bringup/node_check.py",
        "echo '# by hand' >>",
    ),
    (
        "sto01",
        "node_exporter",
        "Write the node exporter's arguments",
        "/etc/default/prometheus-node-exporter",
        "echo '# by hand' >>",
    ),
    ("mgm01", "infiniband", "Write limits", "/etc/security/limits.d/60-infiniband.conf", "echo '# by hand' >>"),
    ("sto01", "storage_server", "Write glusterd's configuration", "/etc/glusterfs/glusterd.vol", "echo '# by hand' >>"),
    (
        "gpu002",
        "storage_client",
        "Write the mount, and what mounts it again",
        "/usr/local/sbin/bringup-shared",
        "echo '# by hand' >>",
    ),
    ("gpu004", "nvidia", "Write version pins and NCCL's settings", "/etc/nccl.conf", "echo '# by hand' >>"),
    (
        "gpu001",
        "gpu_exporter",
        "Write the exporter and its unit",
        "/usr/local/lib/bringup/gpu_exporter.py",
        "echo '# by hand' >>",
    ),
    (
        "mgm01",
        "prometheus",
        "Write configuration, targets, rules and the plan as metrics",
        "/etc/prometheus/rules.yml",
        "echo '# by hand' >>",
    ),
    ("mgm01", "alertmanager", "Write routes and receivers", "/etc/prometheus/alertmanager.yml", "echo '# by hand' >>"),
    ("mgm01", "snmp_exporter", "Write the modules with their login", "/etc/prometheus/snmp.yml", "echo '# by hand' >>"),
]
CENSORED = {"munge", "alertmanager", "snmp_exporter"}


def test_a_run_mends_exactly_what_was_corrupted_and_reports_it(standing: Standing):
    """It is the second run of this lab: what it does not change, a second run does not change. Two reports of drift
    (tests/validation/test_verdict_on_lab.py, S143) are the runs after it.
    """
    mended_as_foretold(standing, mitogen(), ("gpu001", "sto01"))


@pytest.mark.soak
def test_plain_ansible_mends_exactly_the_same(standing: Standing):
    """`make soak` sets the lab up by plain Ansible (tests/standing.py); here the run that mends is, too."""
    mended_as_foretold(standing, {}, standing.servers)


def mended_as_foretold(standing: Standing, strategy: Mapping[str, str], checked_hosts: Sequence[str]) -> None:
    """Corrupt a file or folder of every role and run the playbooks with `strategy`: the run repairs these and changes nothing else.

    Before it, check mode on `checked_hosts` lists the changes of these hosts.
    """
    assert {role for _, role, *_ in DRIFT} >= roles_with_files()
    for host, _, _, path, how in DRIFT:
        standing.shell(host, f"{how} {path}")
    bricks = standing.shell("sto01", "pgrep -x glusterfsd")
    foretold = play(
        standing.site.path, standing.var, "--check", "--diff", "--limit", ",".join(checked_hosts), options=mitogen()
    )
    assert foretold.summary["check_mode"] is True
    mended = play(standing.site.path, standing.var, options=strategy)
    assert mended.code == 0, mended.output[-3000:]
    seen = changed_tasks(mended)
    assert seen == {(host, role, task) for host, role, task, *_ in DRIFT}
    assert changed_tasks(foretold) == {one for one in seen if one[0] in checked_hosts}, (
        "check mode must foretell what a run changes: S143 is judged by it"
    )
    # Results of tasks that write a secret are censored, their paths with them.
    paths = {(change["host"], path) for change in mended.summary["changes"] for path in change["paths"]}
    assert paths == {(host, path) for host, role, _, path, _ in DRIFT if role not in CENSORED}
    assert standing.shell("gpu001", "munge -n | unmunge | grep -c Success").strip() == "1"
    assert standing.shell("sto01", "pgrep -x glusterfsd") == bricks, "bricks serve on while glusterd restarts"


@pytest.mark.soak
def test_second_run_changes_nothing(standing: Standing):
    """Needs the test before it, whose run wrote the changed files anew: the run after that must change no file at all."""
    second = play(standing.site.path, standing.var, options=mitogen())
    assert second.code == 0, second.output[-3000:]
    assert second.summary["changes"] == []
    assert set(second.summary["hosts"]) == set(standing.servers)
    assert counts(second, "changed") == counts(second, "failed") == {}


FORGETFUL = r"""set -e
cd /etc/systemd/system
for i in $(seq 12); do
    printf '[Service]\nType=forking\nExecStart=/bin/sh -c "sleep 900 &"\n' >alias-test$i.service
    printf '[Install]\nWantedBy=multi-user.target\nAlias=alias-test-d%s.service\n' $i >>alias-test$i.service
done
printf '[Unit]\nBefore=%s\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n' \
    "$(for i in $(seq 12); do printf 'alias-test-d%s.service ' $i; done)" >alias-test.service
systemctl daemon-reload
systemctl start alias-test.service
"""
"""As cloud-init.service has Before=chronyd.service, an alias of chrony.service."""


def test_units_that_another_names_by_an_alias_run_on_once_they_are_enabled(standing: Standing):
    """systemd 252 forgets about half of such units where they are enabled while they run: all twelve survive by chance once in
    some thousand runs.
    """
    names = [f"alias-test{i}.service" for i in range(1, 13)]
    standing.shell("gpu004", FORGETFUL)
    try:
        for wanted in ({"restart": names}, {"units": [{"name": name} for name in names]}):
            said = ansible(
                "ansible",
                *("gpu004", "-i", str(standing.site.path), "-m", "bringup_units", "-a", json.dumps(wanted)),
                var=standing.var,
            )
            assert said.returncode == 0, said.stdout + said.stderr
        processes = "grep -l alias-test /proc/[0-9]*/cgroup | wc -l"
        assert standing.shell("gpu004", f"systemctl is-active {' '.join(names)}").split() == ["active"] * 12
        assert standing.shell("gpu004", processes).strip() == "12"
    finally:
        standing.shell(
            "gpu004",
            f"systemctl disable --now {' '.join(names)}; systemctl stop alias-test.service; "
            "rm -f /etc/systemd/system/alias-test*.service; systemctl daemon-reload; systemctl reset-failed",
        )


def changed_tasks(run: Run) -> set[tuple[str, str, str]]:
    """(host, role, task) of every change that is not a handler's."""
    return {
        (change["host"], change["role"], change["task"]) for change in run.summary["changes"] if not change["handler"]
    }


def roles_with_files() -> set[str]:
    roles = repo_root() / "playbooks" / "roles"
    wrote = {path.parts[-3] for path in roles.glob("*/tasks/*.yml") if "bringup_files:" in path.read_text()}
    # The lab's site has no repositories of its own and takes Slurm from Debian, whose packages make the user and the folder:
    # tests/playbooks/test_repositories.py and test_slurm_user.py run these roles. boot_server is in boot.yml alone, the roles of
    # Kubernetes are for sites that have it (test_kubernetes_roles.py, test_gpu_sharing.py), and the lab's compute fabric is
    # InfiniBand.
    of_kubernetes = {
        "gpu_sharing",
        "kubelet",
        "kubernetes",
        "kubernetes_balancer",
        "kubernetes_control_plane",
        "kubernetes_metrics",
        "kubernetes_reservations",
        "kubernetes_notices",
    }
    return wrote - {"boot_server", "repositories", "roce", "slurm_user"} - of_kubernetes
