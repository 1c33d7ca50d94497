"""Slurm's configuration as the templates write it for the shipped sites."""

from typing import Any

import jinja2
import pytest
import yaml

from capacity.outputs import ansible_hosts
from inventory.catalog import load_catalog
from tests.plans import plan_of
from tests.playbooks.support import PLAYBOOKS, load

ROLES = PLAYBOOKS / "roles"
METAL = {"container": "", "cgroup": "v2", "memory_mib": 512000, "confining": ["cpuset", "devices", "freezer", "memory"]}
CONTAINER = {"container": "docker", "cgroup": "v2", "memory_mib": 8000, "confining": []}


def variables(site: str, probe: dict[str, Any]) -> dict[str, Any]:
    """Variables of the first controller: the inventory's, the roles' defaults evaluated, and what the probe found."""
    hosts = ansible_hosts.hosts_of(plan_of(site), load_catalog())
    known: dict[str, Any] = {**hosts.common, "bringup_probe": probe}
    for role in ("slurm_config", "node_check", "slurm_compute", "slurm_database"):
        for name, value in yaml.safe_load((ROLES / role / "defaults" / "main.yml").read_text()).items():
            text = isinstance(value, str)
            known[name] = (
                jinja2.Environment(autoescape=False).from_string(value).render(known).strip() if text else value
            )
    return known


def rendered(role: str, template: str, known: dict[str, Any], **more: Any) -> str:
    loader = jinja2.FileSystemLoader(ROLES / role / "templates")
    environment = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    return environment.get_template(template).render(known, **more)


def settings(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.fixture(scope="module")
def big() -> dict[str, Any]:
    return variables("h100-1000-ib", METAL)


@pytest.fixture(scope="module")
def lab() -> dict[str, Any]:
    return variables("lab", CONTAINER)


def test_every_node_has_its_gpus_and_its_place(big):
    conf = settings(rendered("slurm_config", "slurm.conf.j2", big))
    assert len(conf["NodeName"]) == 1000
    assert conf["NodeName"][0].split()[0] == "gpu0001"
    assert all("Gres=gpu:h100:8 " in line and " CPUs=112 " in line for line in conf["NodeName"])
    topology = settings(rendered("slurm_config", "topology.conf.j2", big))["SwitchName"]
    assert len(topology) == 33
    assert topology[-1].startswith("fabric Switches=unit001,")


def test_several_controllers_keep_their_state_on_shared_storage_that_must_be_mounted(big, lab):
    conf = settings(rendered("slurm_config", "slurm.conf.j2", big))
    assert [host.partition("(")[0] for host in conf["SlurmctldHost"]] == ["ctl01", "ctl02", "ctl03"]
    mount = big["bringup_storage"]["mount_point"]
    assert conf["StateSaveLocation"] == [f"{mount}/slurm"]
    assert f"AssertPathIsMountPoint={mount}" in rendered("slurm_controller", "slurmctld.conf.j2", big)
    assert settings(rendered("slurm_config", "slurm.conf.j2", lab))["StateSaveLocation"] == ["/var/lib/slurm/slurmctld"]
    assert "Assert" not in rendered("slurm_controller", "slurmctld.conf.j2", lab)


def test_jobs_are_confined_where_the_machine_lets_slurm(big, lab):
    conf, cgroup = (rendered("slurm_config", name, big) for name in ("slurm.conf.j2", "cgroup.conf.j2"))
    assert settings(conf)["ProctrackType"] == ["proctrack/cgroup"]
    assert settings(cgroup)["ConstrainDevices"] == ["yes"]
    conf, cgroup = (rendered("slurm_config", name, lab) for name in ("slurm.conf.j2", "cgroup.conf.j2"))
    assert settings(conf)["ProctrackType"] == ["proctrack/linuxproc"]
    assert settings(cgroup)["ConstrainDevices"] == ["no"]


def test_times_follow_the_sites_limit(big, lab):
    for known, wanted in ((big, ("60", "cred_expire=30", "60", "10")), (lab, ("10", "cred_expire=5", "30", "5"))):
        conf = settings(rendered("slurm_config", "slurm.conf.j2", known))
        parameters = dict(word.split("=") for word in conf["SchedulerParameters"][0].split(",") if "=" in word)
        seen = (
            conf["SlurmdTimeout"][0],
            conf["AuthInfo"][0],
            conf["HealthCheckInterval"][0],
            parameters["bf_interval"],
        )
        assert seen == wanted


def test_no_class_shares_gpus_in_time_slices(big):
    conf = settings(rendered("slurm_config", "slurm.conf.j2", big))
    assert conf["PreemptMode"] == ["REQUEUE"]
    assert int(conf["PriorityWeightQOS"][0]) >= 10 * int(conf["PriorityWeightFairshare"][0])


def test_a_hook_is_killed_before_slurm_gives_up_on_it(big):
    conf = settings(rendered("slurm_config", "slurm.conf.j2", big))
    hook = rendered("slurm_compute", "hook.sh.j2", big, slurm_compute_hook="prolog")
    budget_s = big["slurm_hook_budget_s"]
    assert f"timeout --kill-after=5 {budget_s} " in hook
    assert int(conf["PrologEpilogTimeout"][0]) > budget_s + 5
    parts = 2 + len(big["node_check_mounts"])
    assert parts * big["node_check_part_budget_s"] < budget_s


def test_gpus_are_device_files(big):
    assert "File=/dev/nvidia[0-7]\n" in rendered("slurm_compute", "gres.conf.j2", big, slurm_compute_gpus=8)
    assert "Name=gpu" not in rendered("slurm_compute", "gres.conf.j2", big, slurm_compute_gpus=0)


def test_the_database_keeps_records_as_long_as_it_is_told(big):
    conf = settings(rendered("slurm_database", "slurmdbd.conf.j2", big, slurm_database_password="x"))
    assert conf["PurgeJobAfter"] == ["24months"]
    for_ever = rendered(
        "slurm_database", "slurmdbd.conf.j2", {**big, "slurm_database_keep_months": 0}, slurm_database_password="x"
    )
    assert "Purge" not in for_ever


def test_the_databases_pid_file_is_where_its_unit_may_write(big, lab):
    for known, wanted in ((big, "/run/slurmdbd/slurmdbd.pid"), (lab, "/run/slurmdbd.pid")):
        conf = settings(rendered("slurm_database", "slurmdbd.conf.j2", known, slurm_database_password="x"))
        assert conf["PidFile"] == [wanted]


def test_tasks_that_touch_the_password_hide_it_and_its_file_is_slurms_alone():
    tasks = yaml.safe_load((ROLES / "slurm_database" / "tasks" / "main.yml").read_text())
    touching = [task for task in tasks if "bringup_secret" in str(task)]
    assert len(touching) == 2
    assert all(task["no_log"] is True for task in touching)
    (entry,) = touching[1]["bringup_files"]["files"]
    assert (entry["path"], entry["owner"], entry["mode"]) == ("/etc/slurm/slurmdbd.conf", "slurm", "0600")


def test_a_secret_that_is_missing_is_named_by_its_reference(tmp_path):
    from ansible.errors import AnsibleError

    lookup = load("lookup_plugins/bringup_secret.py").LookupModule()
    lookup.set_options = lambda **_: None
    lookup.get_option = lambda _: str(tmp_path)
    with pytest.raises(AnsibleError, match="file:password: cannot read"):
        lookup.run(["file:password"])
    (tmp_path / "password").write_text("hidden\n")
    assert lookup.run(["file:password"]) == ["hidden"]
