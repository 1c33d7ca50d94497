"""Slurm's user on sites whose packages do not make it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from inventory.paths import repo_root
from tests.playbooks.support import PLAYBOOKS, tasks_of

ETC_OF_ITS_OWN = """
mount -t tmpfs tmpfs "$WORK" && mkdir "$WORK/up" "$WORK/work" || exit 99
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$WORK/up,workdir=$WORK/work" /etc || exit 99
"$@"; echo "first run: $?"
"$@"; echo "second run: $?"
getent passwd slurm; getent group slurm; ls -d /etc/slurm
"""


@pytest.mark.needs("root", "unshare", "useradd")
def test_the_user_has_the_uid_of_debians_packages_and_the_second_run_changes_nothing(tmp_path: Path) -> None:
    """On this machine with an /etc that only the run sees."""
    book, hosts, work = tmp_path / "book.yml", tmp_path / "hosts.ini", tmp_path / "work"
    work.mkdir()
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "roles": ["slurm_user"]}]))
    hosts.write_text(f"node ansible_connection=local ansible_python_interpreter={sys.executable}\n")
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    command = ["unshare", "--mount", "sh", "-c", ETC_OF_ITS_OWN, "sh", program, str(book), "-i", str(hosts)]
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(repo_root() / "ansible.cfg"),
        "ANSIBLE_INVENTORY_ENABLED": "ini",
        "BRINGUP_VAR": str(tmp_path),
        "WORK": str(work),
    }
    done = subprocess.run(
        command, capture_output=True, check=False, timeout=120, env=environment, cwd=repo_root(), text=True
    )
    said = done.stdout + done.stderr
    assert "first run: 0" in said, said
    assert "second run: 0" in said, said
    assert re.findall(r"changed=(\d)", said)[1] == "0"
    assert re.search(r"^slurm:x:64030:64030:.*:/nonexistent:/usr/sbin/nologin$", said, re.MULTILINE), said
    assert "\nslurm:x:64030:\n" in said
    assert "/etc/slurm\n" in said


def test_the_user_is_there_before_the_first_file_that_it_owns_and_only_where_packages_do_not_make_it() -> None:
    said = tasks_of("b200-256-roce")
    plays = {play.split("\n")[0]: play for play in re.split(r"\n  play #\d+ ", said)}
    owning = [
        role for role in ("slurm_database", "slurm_config") if any(f" {role} : " in play for play in plays.values())
    ]
    assert owning == ["slurm_database", "slurm_config"], said
    for play in plays.values():
        for role in owning:
            if f" {role} : " in play:
                assert 0 < play.index("slurm_user : Create Slurm's user") < play.index(f" {role} : ")
    for role in owning:
        (need,) = yaml.safe_load((PLAYBOOKS / "roles" / role / "meta" / "main.yml").read_text())["dependencies"]
        assert need == {"role": "slurm_user", "when": "bringup_slurm_packages == 'schedmd'"}
