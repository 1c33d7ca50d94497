"""The power daemon's loads when something goes wrong half-way; devices are stand-ins in memory."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from capacity.build import build
from infra.lab import gpus, ib, net, node, pdu, powerd, switch
from infra.lab.bmc_firmware import BASEBOARD, gpu_item
from infra.lab.paths import LabError, LabPaths
from infra.lab.planned import from_plan
from infra.lab.spec import LabSpec
from inventory.catalog import load_catalog
from inventory.delivered.assets import load_assets
from inventory.delivered.gpus import load_gpus
from inventory.site import load_site

pytestmark = pytest.mark.clock


class Process:
    """A device's first process, until somebody ends it."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def wait(self, timeout: float | None = None) -> int:
        self.ended.wait(timeout)
        return 0

    def poll(self) -> int | None:
        return 0 if self.ended.is_set() else None


class Devices:
    """What the daemon starts and cuts, in order; `fails` are the acts that raise."""

    def __init__(self) -> None:
        self.acts: list[str] = []
        self.fails: set[str] = set()
        self.listener = SimpleNamespace(closed=False, close=self.close)
        self.processes: list[Process] = []

    def close(self) -> None:
        self.listener.closed = True

    def act(self, name: str) -> None:
        self.acts.append(name)
        if name in self.fails:
            raise LabError(f"{name} fails")

    def start(self, *_: Any) -> Process:
        self.act("start")
        self.processes.append(Process())
        return self.processes[-1]

    def cut(self, *_: Any) -> None:
        self.act("cut")
        for process in self.processes:
            process.ended.set()


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Devices:
    made = Devices()
    for module in (node, switch):
        monkeypatch.setattr(module, "start", made.start)
        monkeypatch.setattr(module, "cut", made.cut)
    monkeypatch.setattr(node, "notify_socket", lambda *_: made.listener)
    monkeypatch.setattr(powerd.ServerLoad, "_listen", lambda *_: None)
    monkeypatch.setattr(ib, "power", lambda spec, device, on, dark: made.act("light" if on else "dark"))
    monkeypatch.setattr(ib.Reaper, "reap", lambda *_: [])
    monkeypatch.setattr(net, "ip", lambda *_, **__: None)
    monkeypatch.setattr(switch, "nos_version", lambda: "8.4.4")
    monkeypatch.setattr(powerd, "DEATH_BUDGET_S", 1.0)
    return made


@pytest.fixture(scope="module")
def spec() -> LabSpec:
    """The lab under a name that none has: a watcher that outlives its test cuts the power of nothing."""
    site = load_site("lab")
    return replace(from_plan(site, build(site), load_assets(site), load_catalog(), load_gpus(site)), name="nolab")


@pytest.fixture
def lab(devices: Devices, spec: LabSpec, tmp_path, monkeypatch) -> Iterator[powerd.Lab]:
    monkeypatch.setenv("BRINGUP_LAB_HOME", str(tmp_path))
    paths = LabPaths(spec.name)
    paths.secrets.mkdir(parents=True)
    (paths.secrets / "bmc_factory_password").write_text("factory")
    paths.spec.write_text(spec.to_json())
    made = powerd.Lab(spec.name)
    yield made
    for server in made.servers.values():
        with server.lock:
            server.process = None  # so that its watcher finds nothing to cut when the patches are gone
    for process in devices.processes:
        process.ended.set()


def test_a_server_that_does_not_start_leaves_nothing_and_starts_the_next_time(lab, devices):
    server = lab.servers["gpu001"]
    server.settle()
    devices.fails = {"start"}
    with pytest.raises(LabError, match="start fails"):
        server.reset("On")
    assert (server.process, devices.listener.closed, devices.acts[-1]) == (None, True, "cut")
    devices.fails.clear()
    server.settle()
    assert server.process is not None


def test_a_server_is_dead_after_a_cut_though_the_fabric_does_not_answer(lab, devices):
    server = lab.servers["gpu001"]
    server.settle()
    server.reset("On")
    devices.fails = {"dark"}
    with pytest.raises(LabError, match="dark fails"):
        server.reset("ForceOff")
    assert devices.acts[-2:] == ["dark", "cut"]
    assert devices.processes[-1].poll() is not None


def test_new_firmware_of_a_gpu_is_what_its_driver_reads_after_the_next_start(lab, devices, spec, monkeypatch):
    server, shown = lab.servers["gpu001"], {}
    monkeypatch.setattr(gpus, "change", lambda folder, index, keys: shown.update({index: keys}))
    gpu = server.spec.gpus[1]
    assert server.bmc["firmware"][gpu_item(gpu.slot)] == gpu.vbios
    assert server.bmc["firmware"]["NIC_1"]
    assert all(server.bmc["firmware"][item] for item in BASEBOARD)
    server.bmc["firmware_pending"] = {gpu_item(gpu.slot): "97.00", "NIC_1": "28.9"}
    server.settle()
    server.reset("On")
    assert (server.bmc["firmware"][gpu_item(gpu.slot)], server.bmc["firmware"]["NIC_1"]) == ("97.00", "28.9")
    assert shown == {gpu.index: {"vbios": "97.00"}}


def test_a_system_that_ends_by_itself_is_noted_though_the_fabric_does_not_answer(lab, devices, capfd):
    server = lab.servers["gpu001"]
    server.settle()
    server.reset("On")
    devices.fails = {"dark"}
    ended = server.process
    devices.cut()
    server._watch(ended)
    with server.lock:
        assert server.process is None
    assert "gpu001: dark fails" in capfd.readouterr().out
    assert server.bmc["sel"][-1]["message"] == "System power off"


def test_a_graceful_restart_that_was_cut_short_does_not_boot_the_server_later(lab, devices, monkeypatch):
    server = lab.servers["gpu001"]
    monkeypatch.setattr(Process, "send_signal", lambda *_: None, raising=False)
    server.settle()
    server.reset("On")
    server.reset("GracefulRestart")
    server.reset("ForceOff")
    server.reset("On")
    assert not server.restart


def test_a_switch_that_crashed_stays_dark_until_its_power_is_cycled(lab, devices, spec):
    name = spec.switches[0].name
    load = lab.switches[name]
    feeds = [(outlet.pdu, outlet.number) for outlet in spec.outlets if outlet.device == name]
    load.settle()
    devices.processes[-1].ended.set()
    load._watch(load.process)
    one, number = feeds[0]
    for on in (False, True):
        lab.pdus[one].on[number] = on
        load.settle()
    assert load.process is None
    for on in (False, True):
        for one, number in feeds:
            lab.pdus[one].on[number] = on
        load.settle()
    assert load.process is not None


def test_an_outlet_that_is_switched_off_while_it_reboots_stays_off(lab, devices, spec, monkeypatch):
    monkeypatch.setattr(powerd, "PDU_REBOOT_S", 0.2)
    outlet = next(outlet for outlet in spec.outlets if outlet.device == "gpu001")
    for command in (pdu.REBOOT, pdu.OFF):
        lab.pdu_set(outlet.pdu, "control", outlet.number, str(command))
    threading.Event().wait(0.5)
    assert not lab.pdus[outlet.pdu].on[outlet.number]
    lab.pdu_set(outlet.pdu, "control", outlet.number, str(pdu.REBOOT))
    threading.Event().wait(0.5)
    assert lab.pdus[outlet.pdu].on[outlet.number]
