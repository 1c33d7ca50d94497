"""Taking a server's power and giving it back, against PDUs and a BMC in memory; and that a rehearsal always gives it back."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from capacity.build import build
from inventory.site import load_site
from network.drivers.errors import DeviceTimeout, Unreachable, WriteRefused
from network.drivers.pdu import Pdu
from network.drivers.redfish import Bmc
from network.drivers.ssh import Completed
from tests.plans import plan_of
from validation.runners import outage, training
from validation.runners.engine import Job, Sight
from validation.runners.outage import NodePower
from validation.runners.slurm import Slurm, SlurmNode


@dataclass
class FakePdu:
    name: str
    on: dict[int, bool]
    stuck: bool = False

    def outlets(self) -> list[dict[str, Any]]:
        return [{"number": n, "on": on, "watts": 600.0 if on else 0.0} for n, on in self.on.items()]

    def set_outlets(self, wanted: dict[int, bool]) -> None:
        if self.stuck:
            raise DeviceTimeout(self.name, "switch outlets", "an answer", "none", "look at it")
        self.on.update(wanted)


@dataclass
class FakeBmc:
    """Answers while one of the PDUs feeds it; with policy 'off' the server must be told to start."""

    pdus: list[FakePdu]
    log: list[dict[str, Any]] = field(default_factory=list)
    starts_itself: bool = True
    running: bool = True
    cleared: int = 0
    started: int = 0
    address, credentials, port = "10.0.0.1", None, 443

    def state(self) -> dict[str, Any]:
        if not any(on for pdu in self.pdus for on in pdu.on.values()):
            self.running = False
            self.log = [*self.log, {"severity": "Critical", "message": "Power supply 1 input lost"}]
            raise Unreachable("gpu003", "read state", "an answer", "no route", "check its power")
        self.running = self.running or self.starts_itself
        return {"power": "On" if self.running else "Off"}

    def power(self, reset: str) -> None:
        assert reset == "On"
        self.running, self.started = True, self.started + 1

    def sel(self) -> list[dict[str, Any]]:
        return self.log

    def clear_sel(self) -> None:
        self.log, self.cleared = [], self.cleared + 1


@pytest.fixture
def bench(monkeypatch):
    """(power, PDUs, BMC) of a server with one outlet at each of two PDUs; outlet 9 feeds somebody else."""
    pdus = [FakePdu("pdu-a", {3: True, 9: True}), FakePdu("pdu-b", {3: True, 9: True})]
    bmc = FakeBmc([FakePdu("only outlet 3", {})])
    monkeypatch.setattr(outage, "POLL_S", 0.0)
    power = NodePower("gpu003", [(cast(Pdu, pdu), [3]) for pdu in pdus], cast(Bmc, bmc))
    bmc.pdus = pdus
    monkeypatch.setattr(power, "bmc_answers", lambda budget_s=2.0: bool(pdus[0].on[3] or pdus[1].on[3]))
    power.prepare()
    return power, pdus, bmc


def test_every_outlet_of_the_server_goes_off_and_no_other(bench):
    power, pdus, _ = bench
    assert not power.dark()
    power.cut()
    assert [pdu.on for pdu in pdus] == [{3: False, 9: True}] * 2
    assert power.dark()


def test_what_was_on_comes_back_and_the_clean_event_log_is_clean_again(bench):
    power, pdus, bmc = bench
    power.cut()
    bmc.log = [{"severity": "Critical", "message": "Power supply 1 input lost"}]
    power.restore()
    assert [pdu.on for pdu in pdus] == [{3: True, 9: True}] * 2
    assert [entry["message"] for entry in power.log] == ["Power supply 1 input lost"]
    assert (bmc.cleared, bmc.log, bmc.started) == (1, [], 0)


def test_an_event_log_that_had_something_to_say_before_is_left_alone(bench):
    power, _, bmc = bench
    bmc.log = [{"severity": "Warning", "message": "fan 3 is slow"}]
    power.prepare()
    power.cut()
    power.restore()
    assert bmc.cleared == 0
    assert bmc.log[0]["message"] == "fan 3 is slow"


def test_an_outlet_that_was_off_before_stays_off(bench):
    power, pdus, _ = bench
    pdus[1].on[3] = False
    power.prepare()
    power.cut()
    power.restore()
    assert [pdu.on[3] for pdu in pdus] == [True, False]


def test_a_server_that_stays_off_is_told_to_start(bench):
    power, _, bmc = bench
    power.cut()
    bmc.running, bmc.starts_itself = False, False
    power.restore()
    assert bmc.started == 1


def test_a_pdu_that_does_not_follow_is_named(bench):
    power, pdus, _ = bench
    pdus[1].stuck = True
    with pytest.raises(DeviceTimeout, match="pdu-b"):
        power.cut()


def test_a_bmc_that_stays_silent_is_named_within_its_time(bench, monkeypatch):
    power, _, _ = bench
    monkeypatch.setattr(outage, "BMC_START_S", 0.05)
    power.cut()
    monkeypatch.setattr(power, "bmc_answers", lambda budget_s=2.0: False)
    with pytest.raises(WriteRefused, match=r"gpu003.*its BMC answers within 0\.05 s"):
        power.restore()


# ---- a rehearsal on a scheduler in memory ----------------------------------------------------------------------------
class FakeFiles:
    """The controller's shell: everything succeeds and the shared storage is mounted."""

    name = "ctl01"

    def __init__(self, mounted: bool = True) -> None:
        self.mounted, self.commands = mounted, list[str]()

    def run(self, command, *, stdin=b"", check=True):
        text = command if isinstance(command, str) else " ".join(command)
        self.commands.append(text)
        failed = text.startswith("mountpoint") and not self.mounted
        return Completed(int(failed), "0\n" if "device_count" in text else "", "", 0.0)


class FakeSlurm:
    """Starts jobs at once; after the cut it loses its own connection."""

    title = "Slurm"

    def __init__(self, files: FakeFiles, busy: Sequence[str] = ()) -> None:
        self.controller, self.hosts, self.cancelled = files, {"gpu001": files}, list[int]()
        self.busy = busy
        self.jobs, self.arguments = 0, list[tuple[str, ...]]()

    def begin(self, load):
        self.jobs += 1
        self.arguments.append(load.launches[0].arguments)
        return self.jobs

    def wait(self, job_id, budget_s):
        return Job(job_id, "COMPLETED", "", "gpu[001-003]", "0:0", b"", 1.0)

    def names(self, nodes):
        return ["gpu001", "gpu002", "gpu003"]

    def look(self, job_id, node=""):
        if not node:
            return Sight("RUNNING", nodes=("gpu001", "gpu002", "gpu003"), first="gpu001")
        raise Unreachable("ctl01", "scontrol", "an answer", "no route", "check its power")

    def nodes(self):
        return {name: SlurmNode(name, "idle", 8, 1000, "") for name in ("gpu002", "gpu003")}

    def cancel(self, *job_ids):
        self.cancelled += job_ids

    def serving(self, nodes):
        return self.busy

    def give_up(self, node):
        raise AssertionError("no load was seen after the cut")

    def back(self, node):
        self.returned = node


def rehearse(monkeypatch, bench, files, busy=()):
    power, _, _ = bench
    monkeypatch.setattr(NodePower, "of", classmethod(lambda cls, plan, name: power))
    monkeypatch.setattr(training, "POLL_S", 0.001)
    scheduler = FakeSlurm(files, busy)
    return training.rehearse(plan_of("lab"), cast(Slurm, scheduler)), scheduler


def test_a_rehearsal_that_fails_midway_gives_the_power_back_and_leaves_nothing(monkeypatch, bench):
    files = FakeFiles()
    recording, scheduler = rehearse(monkeypatch, bench, files)
    assert recording.outage["victim"] == "gpu003"
    assert {"cut_ended", "power_back", "node_back"} <= set(recording.outage)
    assert [pdu.on[3] for pdu in bench[1]] == [True, True]
    assert recording.problems == ["ctl01: scontrol: expected an answer, saw no route; check its power"]
    assert scheduler.cancelled == [1, 2, 3, 4, 5]
    assert ["--pace-after" in arguments for arguments in scheduler.arguments] == [False, False, False, True, False]
    assert files.commands[-1].startswith("rm -rf /shared/jobs/bringup-training-")


@pytest.mark.parametrize(
    ("busy", "victim"),
    [(("gpu003",), "gpu002"), (("gpu002",), "gpu003"), (("gpu002", "gpu003"), "gpu003")],
)
def test_a_node_with_the_managers_own_programs_keeps_its_power_where_another_can_lose_it(
    monkeypatch, bench, busy, victim
):
    recording, _ = rehearse(monkeypatch, bench, FakeFiles(), busy)
    assert recording.outage["victim"] == victim


def test_without_the_shared_storage_nothing_is_started_and_no_power_is_cut(monkeypatch, bench):
    recording, scheduler = rehearse(monkeypatch, bench, FakeFiles(mounted=False))
    assert scheduler.jobs == 0
    assert recording.outage == {}
    assert "mount the shared storage" in recording.problems[0]


def test_without_a_spare_node_nothing_is_started(monkeypatch, bench):
    site = load_site("lab")
    limit = site.limits["training_nodes"].model_copy(update={"value": 4})
    site = site.model_copy(update={"limits": {**site.limits, "training_nodes": limit}})
    monkeypatch.setattr(NodePower, "of", classmethod(lambda cls, plan, name: bench[0]))
    scheduler = FakeSlurm(FakeFiles())
    recording = training.rehearse(build(site), cast(Slurm, scheduler))
    assert scheduler.jobs == 0
    assert recording.problems == ["limits.training_nodes is 4 and the site has 4 GPU servers: no spare is left"]


def test_the_smoke_run_needs_no_leave_to_cut_power_and_touches_none(monkeypatch):
    def untouched(*_: object) -> None:
        raise AssertionError("the smoke run asked for a node's power")

    monkeypatch.setattr(NodePower, "of", classmethod(untouched))
    site = load_site("lab")
    validation = site.validation.model_copy(update={"fault_injection": False})
    limit = site.limits["training_nodes"].model_copy(update={"value": 4})  # no spare is asked for either
    changes = {"validation": validation, "limits": {**site.limits, "training_nodes": limit}}
    scheduler = FakeSlurm(FakeFiles())
    recording = training.smoke(build(site.model_copy(update=changes)), cast(Slurm, scheduler))
    assert sorted(recording.jobs) == ["alone", "full", "half", "undisturbed"]
    assert (recording.outage, recording.problems) == ({}, [])
    assert scheduler.cancelled == [1, 2, 3, 4]


def test_a_site_without_the_limits_of_training_is_told_which():
    plan = plan_of("h100-1000-ib")
    limits = {name: limit for name, limit in plan.site.limits.items() if not name.startswith("training_")}
    bare = dataclasses.replace(plan, site=plan.site.model_copy(update={"limits": limits}))
    recording = training.smoke(bare, cast(Slurm, FakeSlurm(FakeFiles())))
    (problem,) = recording.problems
    assert "no limits.training_nodes, limits.training_recovery_s; add each with value, unit and source" in problem
