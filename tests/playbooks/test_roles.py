"""Roles: specified, documented, and installable from the declared packages."""

import re
import sys

import pytest
import yaml

from inventory.paths import site_dir
from tests.playbooks.support import PLAYBOOKS, ansible, load

ROLES = sorted(path.name for path in (PLAYBOOKS / "roles").iterdir())


def read(path):
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def test_the_playbook_is_valid(tmp_path):
    site = site_dir("lab") / "site.yaml"
    done = ansible("ansible-playbook", "--syntax-check", "playbooks/site.yml", "-i", str(site), var=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_reference_page_is_current():
    doc = load("roles_doc.py")
    assert doc.PAGE.read_text() == doc.page(), "run: python playbooks/roles_doc.py --write"


@pytest.mark.parametrize("role", ROLES)
def test_every_default_is_specified_with_the_same_value(role):
    options = read(PLAYBOOKS / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
    for name, value in read(PLAYBOOKS / "roles" / role / "defaults" / "main.yml").items():
        assert name in options, f"{role}: {name} is not in meta/argument_specs.yml"
        if not re.search(r"\{\{", str(value)):
            assert options[name]["default"] == value


@pytest.mark.parametrize("role", ROLES)
def test_every_option_is_described(role):
    options = read(PLAYBOOKS / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
    assert [name for name, option in options.items() if not option.get("description")] == []


def test_every_role_with_packages_exists():
    listed = read(PLAYBOOKS / "packages.yaml")
    # A storage role's list is named after the role and the kind of storage.
    named = {re.sub(r"^(storage_\w+?)_(glusterfs|nfs)$", r"\1", name) for name in listed["packages"]}
    assert named <= set(ROLES)
    everything = {name for key in ("packages", "by_pulumi") for names in listed[key].values() for name in names}
    assert {name for names in listed["pinned_by"].values() for name in names} <= everything


def test_no_task_reveals_the_authentication_key():
    tasks = read(PLAYBOOKS / "roles" / "munge" / "tasks" / "main.yml")
    touching = [task for task in tasks if "munge_key" in str(task)]
    assert len(touching) == 2
    assert all(task["no_log"] is True for task in touching)


@pytest.mark.parametrize("missing", [True, False])
def test_a_package_that_one_node_cannot_have_stops_every_node_and_a_silent_node_stops_none(missing, tmp_path):
    """The preflight's last task as site.yml has it, between tasks that give each node an answer and count who goes on."""
    stop = next(task for task in read(PLAYBOOKS / "site.yml")[0]["pre_tasks"] if "fail" in str(list(task)))
    row = {"package": "slurmctld", "pin": "25.05.3", "offered": ["23.11.4-1"]} if missing else None
    answer = {"missing": [row] if row else [], "problems": []}
    tasks = [
        {"ansible.builtin.ping": None},
        {"ansible.builtin.set_fact": {"bringup_preflight": answer}, "when": "inventory_hostname == 'gpu002'"},
        stop,
        {"ansible.builtin.debug": {"msg": "went on {{ inventory_hostname }}"}},
    ]
    book = tmp_path / "book.yml"
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    hosts = tmp_path / "hosts.ini"
    local = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    silent = "ansible_host=127.0.0.1 ansible_port=1"
    hosts.write_text(f"gpu001 {local}\ngpu002 {local}\ngpu003 {silent}\n")
    done = ansible(
        "ansible-playbook",
        str(book),
        "-i",
        str(hosts),
        var=tmp_path,
        options={"ANSIBLE_INVENTORY_ENABLED": "ini", "ANSIBLE_SSH_RETRIES": "0"},
    )
    went_on = {name for name in ("gpu001", "gpu002", "gpu003") if f"went on {name}" in done.stdout}
    assert went_on == (set() if missing else {"gpu001", "gpu002"}), done.stdout + done.stderr
    assert ("slurmctld 25.05.3: offered 23.11.4-1, on gpu002 (1)" in done.stdout) is missing
