"""Roles: specified, documented, and installable from the declared packages."""

import re

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
