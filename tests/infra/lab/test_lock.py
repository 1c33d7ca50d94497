"""The lock of a lab. No lab is built here."""

from concurrent.futures import ThreadPoolExecutor

from infra.lab.lab import lock
from infra.lab.paths import lab_home


def test_labs_that_come_and_go_at_once_do_not_take_the_folder_from_under_each_other(tmp_path, monkeypatch):
    monkeypatch.setenv("BRINGUP_LAB_HOME", str(tmp_path / "labs"))

    def come_and_go(name: str) -> None:
        for _ in range(300):
            with lock(name):
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, ["one", "two", "three", "four"]))
    assert not lab_home().exists()
