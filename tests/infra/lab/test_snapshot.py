"""A lab that is saved and restored is the same lab: secrets, disks, what BMCs and PDUs keep, servers that run."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from capacity.build import build
from capacity.model import Plan
from infra import lab
from infra.lab import faults, snapshot
from infra.lab.client import ask
from infra.lab.paths import LabError, LabPaths, cache_dir
from inventory.site import Site, load_site
from tests.infra.lab.conftest import kept, start
from tests.infra.lab.helpers import small_site

pytestmark = pytest.mark.lab
NAME, OCTET = "savedlab", 196
KEY = "0123456789abcdef"
BOOT_BUDGET_S = 60.0


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Plan]:
    site = load_site(small_site(tmp_path_factory.mktemp("site"), NAME, OCTET))
    return site, build(site)


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> Path:
    """A cache of the test's own for saved labs, with the base image and packages of the machine's."""
    own = tmp_path / "cache"
    own.mkdir()
    for entry in cache_dir().iterdir():
        if entry.name not in ("lock", "saved-labs"):
            os.symlink(entry, own / entry.name)
    monkeypatch.setattr(snapshot, "cache_dir", lambda: own)
    return own


def shell(server: str, command: str) -> str:
    return faults._run(lab.exec_argv(NAME, server, ["sh", "-c", command])).strip()


def is_ready(server: str) -> bool:
    return bool(ask(NAME, op="view", device=server)["ready"])


def until_ready(server: str) -> None:
    end = time.monotonic() + BOOT_BUDGET_S
    while not is_ready(server):
        assert time.monotonic() < end, f"{server} does not boot"
        time.sleep(0.2)


def test_a_saved_lab_is_restored_as_it_was(tmp_path, own_cache):
    lab.down(NAME)
    try:
        running = start(tmp_path, NAME, OCTET)
        ask(NAME, op="reset", device="gpu001", kind="On")
        ask(NAME, op="pdu_set", pdu=running.spec.pdus[0].name, what="name", index=1, value="by hand")
        ask(NAME, op="update", device="gpu002", key="asset_tag", value="tag")
        until_ready("gpu001")
        shell("gpu001", "echo kept >/root/file; rm /etc/hosts; sync")
        lab.fault(NAME, "link-down")
        with pytest.raises(LabError, match="faults in force"):
            snapshot.save(NAME, KEY)
        lab.repair(NAME)
        before, secret = kept(NAME), LabPaths(NAME).secret("bmc_password_gpu001")
        snapshot.save(NAME, KEY)
        assert (is_ready("gpu001"), shell("gpu001", "cat /root/file")) == (True, "kept"), "the lab goes on"
        shell("gpu001", "echo later >/root/file")
        lab.down(NAME)

        snapshot.restore(running.site, running.plan, KEY)
        assert kept(NAME) == before
        assert LabPaths(NAME).secret("bmc_password_gpu001") == secret
        assert (is_ready("gpu001"), lab.status(NAME)["gpu002"]["power"]) == (True, "Off")
        assert shell("gpu001", "cat /root/file; ls /etc/hosts 2>&1 | tail -c 10") == "kept\ndirectory"
        with pytest.raises(LabError, match="is up: run"):
            snapshot.restore(running.site, running.plan, KEY)
        with pytest.raises(LabError, match="was restored from a saved lab"):
            snapshot.save(NAME, KEY)
        # A network installation starts from an empty disk.
        ask(NAME, op="update", device="gpu001", key="boot", value={"target": "Pxe", "enabled": "Once"})
        ask(NAME, op="reset", device="gpu001", kind="PowerCycle")
        until_ready("gpu001")
        assert shell("gpu001", "cat /root/file 2>/dev/null || echo gone") == "gone"
    finally:
        lab.down(NAME)


def test_a_lab_that_nobody_saved_is_not_restored(planned, own_cache):
    site, plan = planned
    assert not snapshot.exists(NAME, KEY)
    with pytest.raises(LabError, match=f"no saved lab {NAME}"):
        snapshot.restore(site, plan, KEY)


def test_a_saved_lab_whose_certificate_runs_out_counts_no_more(own_cache):
    home = snapshot.folder(NAME, KEY)
    home.mkdir(parents=True)
    (home / "complete").touch()
    assert snapshot.exists(NAME, KEY)
    old = time.time() - (snapshot.MAX_AGE_DAYS + 1) * 86400
    os.utime(home / "complete", (old, old))
    assert not snapshot.exists(NAME, KEY)


def test_the_key_of_a_saved_lab_follows_plan_and_playbooks(planned, monkeypatch, tmp_path):
    site, plan = planned
    (tmp_path / "playbooks").mkdir()
    task, note = tmp_path / "playbooks" / "task.yml", tmp_path / "playbooks" / "README.md"
    task.write_text("- name: one task\n")
    monkeypatch.setattr(snapshot, "repo_root", lambda: tmp_path)
    key = snapshot.key(site, plan)
    note.write_text("text\n")
    assert snapshot.key(site, plan) == key
    assert snapshot.key(site, replace(plan, hash="0" * 64)) != key
    task.write_text("- name: another task\n")
    assert snapshot.key(site, plan) != key
