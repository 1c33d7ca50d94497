"""The lock of a lab, and which namespaces are its own. No lab is built here."""

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest

from infra.lab import net
from infra.lab.lab import _own_namespaces, lock
from infra.lab.paths import LabError, lab_home
from infra.lab.spec import LabSpec


def test_labs_that_come_and_go_at_once_do_not_take_the_folder_from_under_each_other(tmp_path, monkeypatch):
    monkeypatch.setenv("BRINGUP_LAB_HOME", str(tmp_path / "labs"))

    def come_and_go(name: str) -> None:
        for _ in range(300):
            with lock(name):
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, ["one", "two", "three", "four"]))
    assert not lab_home().exists()


def test_a_fault_waits_for_the_one_before_and_not_for_ever(tmp_path, monkeypatch):
    monkeypatch.setenv("BRINGUP_LAB_HOME", str(tmp_path / "labs"))
    (lab_home() / "one").mkdir(parents=True)
    done = list[str]()

    def fault(name: str) -> None:
        with lock("one", 30):
            time.sleep(0.05)
            done.append(name)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fault, ["a", "b", "c", "d"]))
    assert sorted(done) == ["a", "b", "c", "d"]
    with lock("one"), pytest.raises(LabError, match="another `bringup lab` is working on lab one"), lock("one", 0.3):
        pass


def test_the_network_of_another_lab_whose_name_begins_alike_is_not_this_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("BRINGUP_LAB_HOME", str(tmp_path / "labs"))
    monkeypatch.setattr(net, "NETNS", tmp_path)
    for name in ("bringup-lab-gpu001", "bringup-lab-metal", "bringup-lab-metal-bay"):
        (tmp_path / name).touch()
    (lab_home() / "lab-metal").mkdir(parents=True)
    assert _own_namespaces(cast(LabSpec, SimpleNamespace(name="lab", scope="bringup-lab"))) == ["bringup-lab-gpu001"]
