"""BMCs of the demo's machines: which start a reset leads to, and what happens when a machine restarts or ends by itself."""

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from infra.lab.paths import LabError, LabPaths
from infra.lab.spec import Server
from infra.metal.bmcs import Load, Machines, restarted
from infra.metal.machines import Drive, Machine, Power

SPEC = Server(
    name="gpu001",
    role="gpu",
    model="lab-gpu-node",
    serial="SER1",
    uuid="uuid-1",
    bmc_address="10.78.0.11",
    bmc_mac="02:42:20:00:01:01",
    address="10.78.1.11",
    mac="52:54:00:78:00:01",
    ports=(),
    psus=2,
    psus_needed=1,
    psu_rating_w=10500.0,
    input_v=240.0,
    load_w=8400.0,
    bios_version="1.0.0",
    bmc_version="1.0.0",
)


class Process:
    """A machine that runs until it is told to end."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def wait(self) -> int:
        self.ended.wait(10.0)
        return 0


class Switch:
    """A power switch; each start is noted."""

    def __init__(self, folder: Path) -> None:
        self.machine = Machine(
            "gpu001", SPEC.mac, "tap1", uefi=False, drives=(Drive("S1", folder / "s1"),), folder=folder
        )
        self.cds = list[Path | None]()
        self.process: Process | None = None
        self.starts: list[str] = []
        self.started = threading.Condition()

    @property
    def is_on(self) -> bool:
        return self.process is not None and not self.process.ended.is_set()

    def on(self, start: str, cd: Path | None = None) -> None:
        self.process = Process()
        self.cds.append(cd)
        with self.started:
            self.starts.append(start)
            self.started.notify_all()

    def off(self) -> None:
        self.process = None

    def ends(self, start: Any, words: str) -> None:
        assert self.process is not None
        self.machine.console(start).write_text(f"much text\n{words}\n")
        self.process.ended.set()


@pytest.fixture
def load(tmp_path: Path) -> tuple[Load, Switch]:
    switch = Switch(tmp_path)
    return Load(SPEC, cast(Power, switch), "admin", "factory-password"), switch


def test_an_override_for_one_start_is_used_once_and_bios_settings_take_effect(load: tuple[Load, Switch]) -> None:
    one, switch = load
    machines = Machines(LabPaths("x"), {"gpu001": one})
    machines.update("gpu001", "boot", {"target": "Pxe", "enabled": "Once"})
    machines.update("gpu001", "bios_pending", {"SubNumaCluster": "Enabled"})
    machines.reset("gpu001", "On")
    machines.reset("gpu001", "On")
    assert switch.starts == ["network"], "it was on already"
    assert (one.view()["power"], one.view()["bios"]["SubNumaCluster"]) == ("On", "Enabled")
    machines.reset("gpu001", "PowerCycle")
    assert switch.starts == ["network", "disk"]
    machines.reset("gpu001", "ForceOff")
    assert machines.view()["gpu001"]["power"] == "Off"


def test_a_cd_is_started_once_and_only_where_one_is_in(load: tuple[Load, Switch], tmp_path: Path) -> None:
    one, switch = load
    machines = Machines(LabPaths("x"), {"gpu001": one})
    for image in ("", str(tmp_path / "management.iso")):
        machines.update("gpu001", "cd", image)
        machines.update("gpu001", "boot", {"target": "Cd", "enabled": "Once"})
        machines.reset("gpu001", "PowerCycle")
    machines.reset("gpu001", "PowerCycle")
    machines.update("gpu001", "cd", "")
    machines.reset("gpu001", "PowerCycle")
    assert switch.starts == ["disk", "cd", "disk", "disk"]
    cd = tmp_path / "management.iso"
    assert switch.cds == [None, cd, cd, None], "it stays in until it is ejected"


def test_a_machine_that_restarts_by_itself_is_started_again_and_one_that_ends_is_not(load: tuple[Load, Switch]) -> None:
    one, switch = load
    one.reset("On")
    switch.ends("disk", "[  9.1] reboot: Restarting system")
    with switch.started:
        assert switch.started.wait_for(lambda: len(switch.starts) == 2, 10.0)
    switch.ends("disk", "[  9.1] reboot: Power down")
    assert not restarted(switch.machine.console("disk"))
    assert one.view()["power"] == "Off"


def test_a_bmc_remembers_its_settings_over_runs_and_no_update_that_was_under_way(tmp_path: Path) -> None:
    memory = tmp_path / "bmc" / "gpu001.json"
    one = Load(SPEC, cast(Power, Switch(tmp_path)), "admin", "factory-password", memory)
    one.bmc["bios"]["SubNumaCluster"] = "Enabled"
    one.bmc["firmware"]["BIOS"] = "1.2.0"
    one.bmc["updates"] = {"1": {"state": "Running"}}
    one.keep()
    assert memory.stat().st_mode & 0o077 == 0
    again = Load(SPEC, cast(Power, Switch(tmp_path)), "admin", "other", memory)
    assert (again.bmc["bios"]["SubNumaCluster"], again.bmc["firmware"]["BIOS"]) == ("Enabled", "1.2.0")
    assert (again.bmc["updates"], again.bmc["accounts"]) == ({}, one.bmc["accounts"])


def test_what_was_changed_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    """A killed run ends without a last word: each change is on the disk at once."""
    memory = tmp_path / "gpu001.json"

    def again() -> Load:
        return Load(SPEC, cast(Power, Switch(tmp_path)), "admin", "factory-password", memory)

    one = again()
    machines = Machines(LabPaths("x"), {"gpu001": one})
    machines.update("gpu001", "accounts", {"1": {"user": "ours"}})
    machines.update("gpu001", "firmware_pending", {"BIOS": "1.2.0"})
    assert again().bmc["accounts"] == {"1": {"user": "ours"}}
    machines.reset("gpu001", "On")
    assert again().bmc["firmware"]["BIOS"] == "1.2.0"


def test_what_a_bmc_does_not_know_is_refused(load: tuple[Load, Switch]) -> None:
    machines = Machines(LabPaths("x"), {"gpu001": load[0]})
    with pytest.raises(LabError, match="reset type Nmi is not one of"):
        machines.reset("gpu001", "Nmi")
    with pytest.raises(LabError, match="a BMC keeps no colour"):
        machines.update("gpu001", "colour", "red")
    with pytest.raises(LabError, match="no such operation"):
        machines.call({"op": "explode"})
