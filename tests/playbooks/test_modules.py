"""Modules: what they decide, without a node."""

import os
import stat
import subprocess
import sys
import time
import types

import pytest

from tests.playbooks.support import load

files = load("library/bringup_files.py")
units = load("library/bringup_units.py")
nvidia = load("library/bringup_nvidia.py")
packages = load("library/bringup_packages.py")
preflight = load("filter_plugins/bringup_preflight.py")
reach = load("library/bringup_reach.py")
slurm = load("library/bringup_slurm_nodes.py")
probe = load("library/bringup_probe.py")


def wanted(path, content="a\n", mode="0644", validate=()):
    import grp
    import pwd

    return {
        "path": str(path),
        "content": content,
        "content_base64": None,
        "mode": mode,
        "validate": list(validate),
        "owner": pwd.getpwuid(os.getuid()).pw_name,
        "group": grp.getgrgid(os.getgid()).gr_name,
    }


def test_a_file_is_written_once(tmp_path):
    target = tmp_path / "x"
    assert files.apply_file(wanted(target, mode="0600"), check=False)["after"].endswith("a\n")
    assert target.read_text() == "a\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert files.apply_file(wanted(target, mode="0600"), check=False) is None


def test_a_wrong_mode_alone_is_drift(tmp_path):
    target = tmp_path / "x"
    files.apply_file(wanted(target), check=False)
    target.chmod(0o666)
    assert files.apply_file(wanted(target), check=False) is not None
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


def test_check_mode_writes_nothing(tmp_path):
    assert files.apply_file(wanted(tmp_path / "x"), check=True) is not None
    assert list(tmp_path.iterdir()) == []


def test_content_that_its_validator_refuses_leaves_the_old_file(tmp_path):
    target = tmp_path / "x"
    target.write_text("old\n")
    with pytest.raises(files.CannotApplyError, match="the old stays"):
        files.apply_file(wanted(target, validate=["grep", "-q", "never", "%s"]), check=False)
    assert target.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [target]


def test_a_symbolic_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("a\n")
    (tmp_path / "x").symlink_to(tmp_path / "elsewhere")
    assert files.apply_file(wanted(tmp_path / "x", content="b\n"), check=False) is not None
    assert (tmp_path / "elsewhere").read_text() == "a\n"


STATE = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "ConditionResult": "yes"}


@pytest.mark.parametrize(
    ("seen", "actions"),
    [
        ({}, []),
        ({"ActiveState": "failed"}, [("start", "a.service")]),
        ({"UnitFileState": "disabled", "Names": "a.service"}, [("enable", "a.service")]),
        ({"UnitFileState": "masked", "ActiveState": "inactive"}, [("enable", "a.service"), ("start", "a.service")]),
    ],
)
def test_only_what_differs_of_a_unit_is_changed(monkeypatch, seen, actions):
    monkeypatch.setattr(units, "aliases", lambda name: set())
    unit = {"name": "a.service", "enabled": True, "active": True}
    assert units.plan_actions([unit], {"a.service": STATE | seen}, check=False) == actions


class ForgetfulSystemd:
    """One unit with an alias that another unit names, as systemd 252 treats it: enabled while it runs, it is forgotten."""

    def __init__(self, active: str = "inactive") -> None:
        self.active, self.enabled, self.process = active, False, active == "active"
        self.did: list[str] = []

    def __call__(self, verb: str, *words: str, budget_s: float = 0.0) -> types.SimpleNamespace:
        if verb == "show":
            names = "chrony.service chronyd.service" if self.enabled else "chrony.service"
            state = STATE | {"Names": names, "ActiveState": self.active}
            state["UnitFileState"] = "enabled" if self.enabled else "disabled"
            return self._said("".join(f"{key}={value}\n" for key, value in state.items()))
        if verb == "cat":
            return self._said("[Install]\nAlias=chronyd.service\nWantedBy=multi-user.target\n")
        self.did.append(verb)
        if verb == "enable":
            self.enabled, self.active = True, "inactive"
        elif verb == "stop":
            self.active, self.process = "inactive", False
        elif self.process and self.active != "active":
            return types.SimpleNamespace(
                returncode=1, stdout="", stderr="Another chronyd may already be running (pid=1)"
            )
        else:
            self.active, self.process = "active", True
        return self._said("")

    @staticmethod
    def _said(text: str) -> types.SimpleNamespace:
        return types.SimpleNamespace(returncode=0, stdout=text, stderr="")


def test_the_first_run_enables_a_unit_before_it_starts_it(monkeypatch):
    """make demo-metal on 28 November 2026: the handler started chrony, the task enabled it, and systemd forgot it."""
    systemd, done = ForgetfulSystemd(), list[str]()
    monkeypatch.setattr(units, "systemctl", systemd)
    units.renew("restart", ["chrony.service"], done, check=False)
    units.settle([{"name": "chrony.service", "enabled": True, "active": True}], done, check=False)
    assert systemd.did == ["enable", "start"]
    assert done == ["enable chrony.service", "start chrony.service"]


def test_a_unit_that_runs_is_stopped_before_it_is_enabled_under_another_name(monkeypatch):
    """A node on which an earlier run ended between the two."""
    systemd, done = ForgetfulSystemd("active"), list[str]()
    monkeypatch.setattr(units, "systemctl", systemd)
    units.renew("restart", ["chrony.service"], done, check=False)
    units.settle([{"name": "chrony.service", "enabled": True, "active": True}], done, check=False)
    assert systemd.did == ["restart", "stop", "enable", "start"]


def test_a_unit_that_failed_is_restarted_by_its_new_configuration_once_it_is_enabled(monkeypatch):
    systemd, done = ForgetfulSystemd("failed"), list[str]()
    monkeypatch.setattr(units, "systemctl", systemd)
    units.renew("restart", ["chrony.service"], done, check=False)
    assert done == []
    systemd.enabled = True
    units.renew("reload", ["chrony.service"], done, check=False)
    assert (systemd.did, done) == (["reload-or-restart"], ["reload chrony.service"])


def test_a_unit_that_does_not_exist_is_an_error_except_in_check_mode():
    unit, seen = (
        {"name": "a.service", "enabled": True, "active": True},
        {"a.service": STATE | {"LoadState": "not-found"}},
    )
    with pytest.raises(units.UnitError, match=r"a\.service does not exist"):
        units.plan_actions([unit], seen, check=False)
    units.plan_actions([unit], seen, check=True)


@pytest.mark.parametrize(
    ("version", "upstream"),
    [
        ("22.05.8-4+deb12u3", "22.05.8"),
        ("1:9.2p1-2+deb12u10", "9.2p1"),
        ("20250419~deb12u2", "20250419~deb12u2"),
        ("1:2-3-4", "2-3"),
    ],
)
def test_upstream_version_of_a_debian_version(version, upstream):
    assert packages.upstream(version) == upstream


def test_a_package_of_another_version_than_the_pin_is_wrong():
    have = packages.installed_versions(
        "install ok installed\tslurmd\t21.08.1-1\ninstall ok installed\tsudo\t1.9-1\ndeinstall ok config-files\tlldpd\t1-1\n"
    )
    assert packages.wrong(["slurmd", "sudo", "lldpd"], {"slurmd": "22.05.8"}, have) == ["slurmd", "lldpd"]


def test_a_pinned_version_that_no_source_offers_is_named_with_what_there_is():
    madison = "    slurmd | 23.02.3-1 | http://mirror ./ Packages\n"
    with pytest.raises(packages.PackageError, match=r"pins version 22\.05\.8.*offer 23\.02\.3-1"):
        packages.candidate("slurmd", "22.05.8", madison)


LINKS = [
    {"interface": "eth1", "leaf": "leaf01", "port": "swp3", "address": "172.18.0.0"},
    {"interface": "eth2", "leaf": "leaf02", "port": "swp3", "address": "172.18.0.2"},
]


def test_one_silent_link_is_a_warning_that_names_leaf_and_port():
    failure, warnings = reach.judge(LINKS, [], ["172.18.0.2"], 60)
    assert failure == ""
    assert warnings == ["in-band link without answer: eth2 -> leaf02 port swp3 (172.18.0.2)"]


def test_a_silent_fabric_is_a_failure_that_names_every_leaf_and_port():
    failure, _ = reach.judge(LINKS, [], ["172.18.0.0", "172.18.0.2"], 60)
    assert "leaf01 port swp3" in failure
    assert "leaf02 port swp3" in failure


def test_a_controller_behind_an_answering_leaf_is_a_routing_failure():
    failure, _ = reach.judge(LINKS, [{"name": "ctl01", "address": "172.16.0.11"}], ["172.16.0.11"], 60)
    assert failure.startswith("no answer over the in-band fabric after 60 s from ctl01 (172.16.0.11)")


def test_nodes_that_slurm_lacks_are_named_with_their_state():
    seen = slurm.states("gpu001 idle\ngpu002 unk*\ngpu003 drain\ngpu004 idle*\n")
    nodes = ["gpu001", "gpu002", "gpu003", "gpu004", "gpu005"]
    assert slurm.absent(nodes, seen) == ["gpu002 (unk*)", "gpu004 (idle*)", "gpu005 (unknown to slurmctld)"]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("24 18 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "v2"),
        ("24 18 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro", "v1"),
        ("25 24 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw", "v1"),
    ],
)
def test_cgroup_version(line, version):
    assert probe.cgroup_version(line) == version


def test_packages_that_nobody_holds_are_told_from_those_on_hold():
    seen = "hold ok installed\tlibnccl2\t2.28.3-1+cuda13.0\ninstall ok installed\tnvidia-driver-cuda\t580.95.05-1\n"
    assert packages.held(seen) == {"libnccl2"}
    assert packages.installed_versions(seen) == {"libnccl2": "2.28.3-1+cuda13.0", "nvidia-driver-cuda": "580.95.05-1"}


SMI = "| NVIDIA-SMI 580.95.05    Driver Version: 580.95.05    CUDA Version: 13.0 |\n"


def test_the_running_drivers_version_is_read_from_nvidia_smi():
    assert nvidia.version_in(SMI, "580.95.05") == "580.95.05"


def test_a_running_driver_other_than_the_pin_asks_for_a_reboot():
    with pytest.raises(nvidia.DriverError, match=r"driver is 580\.95\.05, pinned 590\.44\.01: reboot"):
        nvidia.version_in(SMI, "590.44.01")


@pytest.mark.parametrize("said", ["", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."])
def test_a_driver_that_does_not_run_is_named_with_what_was_said(said):
    with pytest.raises(nvidia.DriverError, match=r"names no driver version: .*is the driver's module loaded\?"):
        nvidia.version_in(said, "580.95.05")


def test_a_missing_nvidia_smi_is_named():
    with pytest.raises(nvidia.DriverError, match="no-such-smi is not installed"):
        nvidia.run("no-such-smi")


@pytest.mark.parametrize(
    ("version", "container", "writable", "found"),
    [
        ("v1", "", ("cpuset", "devices", "freezer", "memory"), ["cpuset", "devices", "freezer", "memory"]),
        ("v1", "systemd-nspawn", ("cpuset", "devices", "freezer"), ["cpuset", "devices", "freezer"]),
        ("v1", "docker", (), []),
        ("v2", "", (), ["cpuset", "devices", "freezer", "memory"]),
        ("v2", "systemd-nspawn", ("cpuset", "devices"), []),
    ],
)
def test_jobs_are_confined_by_what_the_machine_lets_a_daemon_write(version, container, writable, found):
    assert probe.confining(version, container, lambda path: path.rpartition("/")[2] in writable) == found


def test_memory_is_what_the_kernel_shows():
    assert probe.memory_mib("MemFree: 1 kB\nMemTotal:       16303428 kB\n") == 15921


def test_numa_nodes_are_those_of_the_kernel_with_and_without_cpus():
    assert probe.numa_nodes(["node0", "node1", "node33", "possible", "has_cpu", "nodes", "power"]) == 3
    assert probe.numa_nodes([]) == 1


def test_swap_is_what_the_kernel_swaps_to():
    heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    assert probe.swap_of(heading + "/swap.img                               file\t\t8388604\t\t0\t\t-2\n") == [
        "/swap.img"
    ]
    assert probe.swap_of(heading) == probe.swap_of("") == []


SLOW_SYSTEMCTL = """#!/bin/sh
# slurmctld.service as Debian ships it: `stop` and `restart` take {taken} s.
case "$1" in
  show) printf '%s\\n' Id=slurmctld.service LoadState=loaded ActiveState=active UnitFileState=enabled ConditionResult=yes \\
    'TimeoutStartUSec=1min 30s' 'TimeoutStopUSec=1min 30s' ;;
  *) sleep {taken} ;;
esac
"""


def test_a_unit_that_stops_as_slowly_as_systemd_lets_it_does_not_fail(tmp_path, monkeypatch):
    """At a thirtieth of all times: a stop of 90 s, where an answer may take 60 s."""
    (tmp_path / "systemctl").write_text(SLOW_SYSTEMCTL.format(taken=3))
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(units, "BUDGET_S", units.BUDGET_S / 30)
    monkeypatch.setattr(units, "SPAN_S", {unit: length_s / 30 for unit, length_s in units.SPAN_S.items()})
    units.act("restart", "slurmctld.service")


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ("1min 30s", 90),
        ("500ms", 0.5),
        ("2h 5min", 7500),
        ("1w", 604800),
        ("infinity", float("inf")),
        ("0", float("inf")),
    ],
)
def test_time_spans_are_read_as_systemd_writes_them(span, expected):
    assert units.seconds(span) == expected


def test_what_a_boot_would_start_is_told_by_what_runs_afterwards(monkeypatch):
    """A timer's service that happens to run is not among them: it is not enabled itself."""
    running = {"chrony.service"}

    def systemctl(*words, budget_s=0.0):
        if words[:2] == ("start", "default.target"):
            running.update({"rdma-ndd.service", "apt-daily.service"})
            return None
        names = running if words[0] == "list-units" else {"chrony.service", "rdma-ndd.service", "failed.service"}
        return types.SimpleNamespace(stdout="".join(f"{name} loaded active running x\n" for name in sorted(names)))

    monkeypatch.setattr(units, "systemctl", systemctl)
    assert units.start_enabled() == ["start rdma-ndd.service"]
    assert units.start_enabled() == []


def test_a_unit_without_an_end_has_that_of_a_task():
    assert units.unit_budget_s({"TimeoutStartUSec": "infinity", "TimeoutStopUSec": "1min 30s"}) == 280
    assert units.unit_budget_s({"TimeoutStartUSec": "1min 30s", "TimeoutStopUSec": "1min 30s"}) == 240
    assert units.unit_budget_s({}) == 60


# In the form of apt-get(8), --simulate.
SIMULATED = """\
NOTE: This is only a simulation!
Remv exim4-base [4.96-15]
Inst perl-base [5.36.0-7+deb12u3] (5.36.0-7+deb12u4 Debian:12 [amd64])
Conf perl-base (5.36.0-7+deb12u4 Debian:12 [amd64])
Inst munge (0.5.15-2+deb12u1 Debian:12 [amd64])
"""


def test_only_packages_that_are_there_are_replaced():
    assert packages.replaced(SIMULATED) == ["exim4-base", "perl-base"]


@pytest.mark.parametrize(
    ("script", "acts"),
    [
        ("udev.postinst", True),
        ("udev:amd64.prerm", True),
        ("udev.list", False),
        ("udev-doc.postinst", False),
    ],
)
def test_a_package_acts_on_services_by_its_scripts(tmp_path, script, acts):
    (tmp_path / script).write_text("#!/bin/sh\ndeb-systemd-invoke restart systemd-udevd.service\n")
    assert packages.acts_on_services("udev", tmp_path) is acts
    (tmp_path / script).write_text("#!/bin/sh\nldconfig\n")
    assert packages.acts_on_services("udev", tmp_path) is False


@pytest.mark.parametrize(("there", "offline"), [("ldconfig", {"SYSTEMD_OFFLINE": "1"}), ("systemctl restart x", {})])
def test_services_of_new_packages_wait_for_their_role(tmp_path, monkeypatch, there, offline):
    """But where apt replaces a package with services, these must be restarted as it wants."""
    (tmp_path / "perl-base.postinst").write_text(there)
    seen = []

    def run(argv, budget_s, more=None):
        seen.append((argv, dict(more or {})))
        return SIMULATED if "--simulate" in argv else ""

    monkeypatch.setattr(packages, "run", run)
    monkeypatch.setattr(packages.acts_on_services, "__defaults__", (tmp_path,))
    packages.install_from_lists(["munge"], {}, time.monotonic() + 60)
    installed = [more for argv, more in seen if "install" in argv and "--simulate" not in argv]
    assert installed == [offline]
    assert (["systemctl", "daemon-reload"] in [argv for argv, _ in seen]) is bool(offline)


# Recorded from `apt-cache madison slurmctld munge nosuch chrony` on Debian 12 (apt 2.6.1).
MADISON = """\
 slurmctld | 22.05.8-4+deb12u3 | http://deb.debian.org/debian bookworm/main amd64 Packages
 slurmctld | 22.05.8-4+deb12u3 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
     munge | 0.5.15-2+deb12u1 | http://deb.debian.org/debian bookworm/main amd64 Packages
     munge | 0.5.15-2+deb12u1 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
    chrony | 4.3-2+deb12u3 | http://deb.debian.org/debian bookworm/main amd64 Packages
"""
CUDA = {
    "name": "nvidia-cuda",
    "uris": "https://mirror/cuda/",
    "suites": ["/"],
    "components": [],
    "key_url": "https://mirror/key.pub",
    "fingerprint": "EB693B3035CD5710E231E123A4B469963BF863CC",
}


class Apt:
    """Answers for apt and gpg: the node's own sources, and those of one further repository."""

    def __init__(self, own=MADISON, further="", fingerprint=CUDA["fingerprint"], fails=()):
        self.own, self.further, self.fingerprint, self.fails, self.ran = own, further, fingerprint, fails, []

    def __call__(self, argv, budget_s, more=None):
        self.ran.append(argv)
        if "update" in argv:
            if ("private" if "Dir::Etc::sourcelist=/dev/null" in argv else "own") in self.fails:
                raise packages.PackageError("apt-get failed: E: Failed to fetch http://mirror/InRelease")
            return ""
        if argv[0] == "gpg":
            return f"pub:-:4096:1:A4B469963BF863CC:1649964132:::-:::scSC::::::23::0:\nfpr:::::::::{self.fingerprint}:\n"
        return self.further if "Dir::Etc::sourcelist=/dev/null" in argv else self.own

    def updates(self):
        return sum("update" in argv for argv in self.ran)


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A node with sources and a stamp of its own."""
    (tmp_path / "etc" / "sources.list.d").mkdir(parents=True)
    (tmp_path / "etc" / "sources.list").write_text("deb http://mirror ./\n")
    monkeypatch.setattr(packages, "SOURCES", tmp_path / "etc")
    monkeypatch.setattr(packages, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(packages, "UPDATES", tmp_path / "updates")
    monkeypatch.setattr(packages, "LOCKS", [tmp_path / "lock-frontend", tmp_path / "lock"])
    return tmp_path


def looked(monkeypatch, apt, names, pins, repositories=()):
    monkeypatch.setattr(packages, "run", apt)
    return packages.look(names, pins, list(repositories), lambda url: b"key", 60)


def test_preflight_names_a_pinned_version_that_is_not_offered_and_a_package_that_nobody_has(node, monkeypatch):
    missing, problems = looked(
        monkeypatch, Apt(), ["slurmctld", "chrony", "munge", "nosuch"], {"slurmctld": "25.05.3", "chrony": "4.3"}
    )
    assert missing == [
        {"package": "slurmctld", "pin": "25.05.3", "offered": ["22.05.8-4+deb12u3"]},
        {"package": "nosuch", "pin": "", "offered": []},
    ]
    assert problems == []


def test_preflight_takes_no_source_package_for_an_offer():
    assert packages.offers("slurmctld | 25.05.3-1 | http://mirror ./ Sources\n") == {}


def test_preflight_reads_a_repository_that_the_node_lacks_without_touching_the_nodes_own(node, monkeypatch):
    apt = Apt(further="libnccl2 | 2.28.3-1+cuda13.0 | https://mirror/cuda  Packages\n")
    before = sorted(path for path in (node / "etc").rglob("*"))
    missing, problems = looked(monkeypatch, apt, ["munge", "libnccl2"], {"libnccl2": "2.28.3"}, [CUDA])
    assert (missing, problems) == ([], [])
    private = [argv for argv in apt.ran if "Dir::Etc::sourcelist=/dev/null" in argv]
    assert [argv[-1] for argv in private] == ["update", "libnccl2"]  # what the node's own sources have is not asked for
    for argv in private:
        folders = [
            word.partition("=")[2]
            for word in argv
            if word.startswith(("Dir::State", "Dir::Cache", "Dir::Etc::sourceparts"))
        ]
        assert len(folders) == 3
        assert all("bringup-preflight-" in folder for folder in folders)
        assert not any(os.path.exists(folder) for folder in folders)
    assert sorted(path for path in (node / "etc").rglob("*")) == before


def test_preflight_uses_no_repository_with_another_key(node, monkeypatch):
    apt = Apt(further="libnccl2 | 2.28.3-1+cuda13.0 | https://mirror/cuda  Packages\n", fingerprint="0" * 40)
    missing, problems = looked(monkeypatch, apt, ["libnccl2"], {"libnccl2": "2.28.3"}, [CUDA])
    assert [row["package"] for row in missing] == ["libnccl2"]
    assert problems == [
        "repository nvidia-cuda: https://mirror/key.pub gave a key without the fingerprint EB693B3035CD5710E231E123A4B469963BF863CC"
    ]


def test_preflight_does_not_ask_twice_for_a_repository_that_the_node_has(node, monkeypatch):
    (node / "etc/sources.list.d/nvidia-cuda.sources").write_text("Types: deb\nURIs: https://mirror/cuda/\nSuites: /\n")
    apt = Apt()
    missing, _ = looked(monkeypatch, apt, ["libnccl2"], {"libnccl2": "2.28.3"}, [CUDA])
    assert [row["package"] for row in missing] == ["libnccl2"]
    assert apt.updates() == 1


def test_preflight_goes_on_with_the_old_lists_when_a_source_does_not_answer(node, monkeypatch):
    missing, problems = looked(monkeypatch, Apt(fails=("own",)), ["munge"], {})
    assert missing == []
    assert problems == ["apt-get failed: E: Failed to fetch http://mirror/InRelease"]
    assert not packages.lists_are_fresh()


def test_an_installation_after_the_preflight_fetches_no_lists_until_the_sources_change(node, monkeypatch):
    apt = Apt()
    looked(monkeypatch, apt, ["munge"], {})
    packages.install(["munge"], {}, 60)
    assert apt.updates() == 1
    assert ["install", "munge"] in [argv[-2:] for argv in apt.ran]
    (node / "etc/sources.list.d/new.sources").write_text("Types: deb\n")
    packages.install(["munge"], {}, 60)
    assert apt.updates() == 2


def test_an_installation_fetches_lists_that_are_ten_minutes_old(node, monkeypatch):
    apt = Apt()
    looked(monkeypatch, apt, ["munge"], {})
    old = packages.STAMP.stat().st_mtime - 600
    os.utime(packages.STAMP, (old, old))
    packages.install(["munge"], {}, 60)
    assert apt.updates() == 2


def test_an_installation_that_fails_on_fresh_lists_fetches_them_and_tries_again(node, monkeypatch):
    apt = Apt()
    looked(monkeypatch, apt, ["munge"], {})
    apt.own = ""
    with pytest.raises(packages.PackageError, match="no version at all"):
        packages.install(["slurmctld"], {"slurmctld": "25.05.3"}, 60)
    assert apt.updates() == 2


def test_an_installation_that_was_cut_short_is_brought_to_its_end_first(node, monkeypatch):
    apt = Apt()
    looked(monkeypatch, apt, ["munge"], {})
    packages.UPDATES.mkdir()
    packages.install(["munge"], {}, 60)
    assert not [argv for argv in apt.ran if argv[0] == "dpkg"]
    (packages.UPDATES / "0003").write_text("Package: munge\n")
    apt.ran.clear()
    packages.install(["munge"], {}, 60)
    assert apt.ran[0] == ["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"]


def test_packages_that_dpkg_cannot_configure_are_mended_by_apt(node, monkeypatch):
    apt = Apt()
    looked(monkeypatch, apt, ["munge"], {})
    packages.UPDATES.mkdir()
    (packages.UPDATES / "0003").write_text("Package: munge\n")
    apt.ran.clear()

    def run(argv, budget_s, more=None):
        if argv[0] == "dpkg":
            raise packages.PackageError("dpkg failed: dependency problems")
        return apt(argv, budget_s)

    monkeypatch.setattr(packages, "run", run)
    packages.install(["munge"], {}, 60)
    assert apt.ran[0][-2:] == ["--fix-broken", "install"]
    assert ["install", "munge"] in [argv[-2:] for argv in apt.ran]


def test_what_another_program_installs_is_waited_for_and_left_alone(node, monkeypatch):
    apt = Apt()
    looked(monkeypatch, apt, ["munge"], {})
    packages.UPDATES.mkdir()
    (packages.UPDATES / "0003").write_text("Package: munge\n")
    holder = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, packages.LOCKS[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        given = other.stdin
        other.stdout.readline()

        def ends(seconds):
            (packages.UPDATES / "0003").unlink()
            given.close()
            other.wait()

        monkeypatch.setattr(packages.time, "sleep", ends)
        apt.ran.clear()
        packages.install(["munge"], {}, 60)
    assert not [argv for argv in apt.ran if argv[0] == "dpkg"]


def test_an_installation_that_takes_too_long_is_not_tried_again_at_once(node, monkeypatch):
    apt = Apt()
    looked(monkeypatch, apt, ["munge"], {})
    apt.ran.clear()

    def slow(argv, budget_s, more=None):
        if argv[-2:] == ["install", "munge"]:
            raise packages.TooSlowError("apt-get -q took over 60 s")
        return apt(argv, budget_s)

    monkeypatch.setattr(packages, "run", slow)
    with pytest.raises(packages.TooSlowError):
        packages.install(["munge"], {}, 60)
    assert apt.updates() == 0


def test_a_program_that_takes_too_long_is_named_with_the_way_on():
    with pytest.raises(packages.TooSlowError, match="sleep 5 took over 0 s and was ended; run the playbook again"):
        packages.run(["sleep", "5"], 0.1)


def test_what_cannot_be_had_is_one_list_by_package_with_its_nodes():
    row = {"package": "slurmctld", "pin": "25.05.3", "offered": ["23.11.4-1.2ubuntu5"]}
    looks: dict[str, dict[str, list[object]]] = {
        f"gpu{number:03}": {"missing": [row], "problems": []} for number in range(1, 11)
    }
    looks["ctl01"] = {
        "missing": [{"package": "lldpd", "pin": "", "offered": []}],
        "problems": ["apt-get took over 280 s"],
    }
    looks["sto01"] = {}
    message = preflight.preflight_message(looks)
    assert "- lldpd (any version): offered no version, on ctl01 (1)\n" in message
    assert (
        "- slurmctld 25.05.3: offered 23.11.4-1.2ubuntu5, on gpu001, gpu002, gpu003, gpu004, gpu005, gpu006, gpu007, gpu008"
        " and 2 more (10)\n" in message
    )
    assert "- problem: apt-get took over 280 s, on ctl01 (1)\n" in message
    assert "Fix: " in message


def test_nodes_that_can_have_everything_give_no_message():
    assert (
        preflight.preflight_message({"gpu001": {"missing": [], "problems": ["apt-get failed: E: x"]}, "gpu002": None})
        == ""
    )
