"""One server's firmware against a BMC that behaves well, fails, forgets, hangs or restarts."""

import hashlib

import pytest

from infra.firmware import flash as flashing
from infra.firmware.flash import Doors, FlashError, flash, restart
from inventory.delivered.firmware import Bundle
from network.drivers.errors import DeviceTimeout, Unreachable, UpdateFailed, UpdateGone, WriteRefused


class Server:
    """A BMC in memory. Images bring what `images` says; `effect` is when it runs; `refuses` names items that fail to install."""

    name = "gpu001"

    def __init__(self, images, effect="bmc_reset", **versions):
        self.images, self.effect = images, effect
        self.versions, self.pending = dict(versions), {}
        self.on, self.refuses, self.ignores, self.gone, self.silent_for = True, set(), set(), False, 0
        self.tasks, self.said, self.lost = [], [], []
        self.shutdown_refused, self.booting = False, 0

    def _speak(self):
        if self.silent_for:
            self.silent_for -= 1
            raise Unreachable(self.name, "read", "an answer", "none", "wait")

    def state(self):
        self._speak()
        self.booting = max(0, self.booting - 1)
        return {"power": "On" if self.on else "Off", "boot_progress": "OSBootStarted" if self.booting else "OSRunning"}

    def psus(self):
        return {"psus": [{"name": "PSU 1", "state": "Enabled", "health": "OK"}, *self.lost]}

    def firmware_items(self):
        self._speak()
        return [{"key": key, "version": version, "path": f"/inventory/{key}"} for key, version in self.versions.items()]

    def running_tasks(self):
        return list(self.tasks)

    def push_update(self, image, targets=(), *, budget_s=0):
        self.said.append(("push", image.name, tuple(targets)))
        self.installing = self.images[image.read_bytes()]
        return "/task"

    def follow_update(self, task, budget_s, progress=lambda seen: None, *, poll_s=0):
        if task in self.tasks:
            self.tasks.remove(task)
            raise UpdateFailed(self.name, "follow update", "task Completed", "ApplyFailed", "")
        progress({"state": "Running", "percent": 40})
        if self.refuses & set(self.installing.items()):
            raise UpdateFailed(
                self.name, "follow update", "task Completed", "Update.1.0.VerificationFailed", "check the image"
            )
        taken = {k: v for k, v in self.installing.items() if (k, v) not in self.ignores}
        (self.versions if self.effect == "at_once" else self.pending).update(taken)
        if self.gone:
            self.versions.update(self.pending)
            raise UpdateGone(self.name, "follow update", "task", "no such task", "")

    def _effective(self):
        self.versions.update(self.pending)
        self.pending = {}

    def reset_bmc(self):
        self.said.append("bmc reset")
        self.silent_for = 3
        if self.effect == "bmc_reset":
            self._effective()

    def power(self, reset, wait=True):
        assert not (reset == "GracefulShutdown" and self.booting), "a server that boots does not hear of a shutdown"
        self.booting = 5 if reset == "On" else 0
        if reset == "GracefulShutdown" and self.shutdown_refused:
            raise WriteRefused(self.name, "reset", "Off", "On", "")
        self.said.append(reset)
        self.on = reset == "On"
        if self.on and self.effect == "host_restart":
            self._effective()
        return True

    def ac_cycle(self):
        self.said.append("dark")
        self.silent_for = 2
        self._effective()


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(flashing, "SETTLE_S", 0.2)


def bundle(folder, *packages):
    """A bundle of (item, version, takes_effect, previous version or None); an image's content is ITEM VERSION."""

    def release(item, version):
        data = f"{item} {version}".encode()
        (folder / f"{item}-{version}").write_bytes(data)
        image = {"file": f"{item}-{version}", "sha256": hashlib.sha256(data).hexdigest(), "folder": folder}
        return {"image": image, "versions": {item: version}}

    listed = [
        {
            **release(item, version),
            "name": item.strip("*"),
            "takes_effect": effect,
            "budget_min": 1,
            **({"previous": release(item, previous)} if previous else {}),
        }
        for item, version, effect, previous in packages
    ]
    return Bundle.model_validate({"bundle": "1", "model": "m", "source": "this test", "packages": listed})


def images(wanted):
    found = {}
    for package in wanted.packages:
        for release in filter(None, (package, package.previous)):
            found[release.image.path.read_bytes()] = dict(release.versions)
    return found


def doors_to(server, busy=""):
    return Doors(server, server, lambda: busy, server.ac_cycle, poll_s=0.01, boot_s=0.2, return_s=0.2)


def run(server, wanted, busy=""):
    said = []
    try:
        return flash("gpu001", wanted, doors_to(server, busy), lambda name, text: said.append(text)), said
    except FlashError as error:
        return error, said


@pytest.mark.parametrize(
    ("effect", "acts"),
    [
        ("at_once", []),
        ("bmc_reset", ["bmc reset"]),
        ("host_restart", ["GracefulShutdown", "On"]),
        ("ac_cycle", ["GracefulShutdown", "dark", "On"]),
    ],
)
def test_a_package_is_pushed_brought_into_effect_and_read_back(tmp_path, effect, acts):
    wanted = bundle(tmp_path, ("BIOS", "5", effect, None))
    server = Server(images(wanted), effect, BIOS="4", other="1")
    done, said = run(server, wanted)
    assert done == ["BIOS"]
    assert server.said == [("push", "BIOS-5", ("/inventory/BIOS",)), *acts]
    assert server.versions == {"BIOS": "5", "other": "1"}
    assert server.on
    assert said[:2] == ["BIOS: BIOS 4 -> 5", "BIOS: Running, 40 %"]
    assert run(server, wanted) == ([], [])


def test_a_server_that_is_off_is_off_afterwards(tmp_path):
    wanted = bundle(tmp_path, ("BIOS", "5", "host_restart", None))
    server = Server(images(wanted), "host_restart", BIOS="4")
    server.on = False
    assert run(server, wanted, busy="jobs")[0] == ["BIOS"]
    assert not server.on
    assert server.versions["BIOS"] == "5"


@pytest.mark.parametrize(("on", "acts"), [(True, ["GracefulShutdown", "On"]), (False, ["On"])])
def test_a_server_is_restarted_and_one_that_is_off_switched_on(on, acts):
    server = Server({})
    server.on = on
    restart("gpu001", doors_to(server, busy="" if on else "jobs"), lambda name, text: None)
    assert (server.said, server.on) == (acts, True)


def test_a_server_with_jobs_is_not_restarted():
    server = Server({})
    with pytest.raises(FlashError, match="gpu001: refused: jobs may run"):
        restart("gpu001", doors_to(server, busy="jobs may run"), lambda name, text: None)
    assert server.said == []


def test_a_shutdown_that_does_not_end_is_forced(tmp_path):
    wanted = bundle(tmp_path, ("BIOS", "5", "host_restart", None))
    server = Server(images(wanted), "host_restart", BIOS="4")
    server.shutdown_refused = True
    assert run(server, wanted)[0] == ["BIOS"]
    assert server.said[1:] == ["ForceOff", "On"]


def refused(server, wanted, busy=""):
    error, _ = run(server, wanted, busy)
    assert isinstance(error, FlashError)
    assert error.state == "refused"
    assert not server.said, "nothing is done to a server that is refused"
    return str(error)


def test_nothing_is_sent_to_a_server_with_jobs_or_a_lost_supply_or_by_an_altered_image(tmp_path):
    wanted = bundle(tmp_path, ("BIOS", "5", "at_once", None))
    server = Server(images(wanted), BIOS="4")
    assert "jobs may run" in refused(server, wanted, "jobs may run")
    server.lost = [{"name": "PSU 2", "state": "UnavailableOffline", "health": "OK"}]
    assert "power supply without input or broken: PSU 2" in refused(server, wanted)
    server.lost = []
    (tmp_path / "BIOS-5").write_bytes(b"altered")
    assert "has SHA-256" in refused(server, wanted)
    assert "the BMC lists no BIOS; it has NIC" in refused(Server(images(wanted), NIC="1"), wanted)


def test_an_image_that_the_bmc_refuses_leaves_the_earlier_version_and_a_second_run_mends(tmp_path):
    wanted = bundle(tmp_path, ("BMC", "2", "bmc_reset", None), ("BIOS", "5", "at_once", "4"))
    server = Server(images(wanted), "bmc_reset", BMC="1", BIOS="4")
    server.refuses = {("BIOS", "5")}
    error, _ = run(server, wanted)
    assert error.state == "installing"
    assert "VerificationFailed" in str(error)
    assert "the earlier version still runs" in str(error)
    assert server.versions == {"BMC": "2", "BIOS": "4"}
    server.refuses, server.effect = set(), "at_once"
    assert run(server, wanted)[0] == ["BIOS"]


def test_a_version_that_half_changed_is_taken_back(tmp_path):
    wanted = bundle(tmp_path, ("GPU*", "9", "at_once", "8"))
    server = Server({}, "at_once", GPU1="8", GPU2="8")
    server.images = {b"GPU* 9": {"GPU1": "9", "GPU2": "9"}, b"GPU* 8": {"GPU1": "8", "GPU2": "8"}}
    server.ignores = {("GPU2", "9")}
    error, _ = run(server, wanted)
    assert error.state == "verifying"
    assert "GPU2 8 after at once" in str(error)
    assert "the previous release runs again" in str(error)
    assert server.versions == {"GPU1": "8", "GPU2": "8"}


def test_without_a_previous_release_the_mixture_is_told(tmp_path):
    wanted = bundle(tmp_path, ("GPU*", "9", "at_once", None))
    server = Server({b"GPU* 9": {"GPU1": "9", "GPU2": "9"}}, "at_once", GPU1="8", GPU2="8")
    server.ignores = {("GPU2", "9")}
    assert "the bundle has no previous release to return to" in str(run(server, wanted)[0])


def test_a_previous_release_that_fails_too_is_told(tmp_path):
    wanted = bundle(tmp_path, ("GPU*", "9", "at_once", "8"))
    server = Server({}, "at_once", GPU1="8", GPU2="8")
    server.images = {b"GPU* 9": {"GPU1": "9", "GPU2": "9"}, b"GPU* 8": {"GPU1": "8", "GPU2": "8"}}
    server.ignores, server.refuses = {("GPU2", "9")}, {("GPU1", "8")}
    assert "the previous release could not be installed again" in str(run(server, wanted)[0])


def test_a_bmc_that_restarts_into_its_new_version_and_forgets_the_task_has_succeeded(tmp_path):
    wanted = bundle(tmp_path, ("BMC", "2", "bmc_reset", None))
    server = Server(images(wanted), BMC="1")
    server.gone = True
    assert run(server, wanted)[0] == ["BMC"]
    assert "bmc reset" not in server.said


def test_a_bmc_that_restarts_in_the_middle_keeps_its_version_and_is_named(tmp_path):
    wanted = bundle(tmp_path, ("BMC", "2", "bmc_reset", None))
    server = Server(images(wanted), BMC="1")
    server.gone, server.ignores = True, {("BMC", "2")}
    error, _ = run(server, wanted)
    assert "no such task" in str(error)
    assert "the earlier version still runs" in str(error)


def test_an_update_that_is_under_way_is_waited_for(tmp_path):
    wanted = bundle(tmp_path, ("BMC", "2", "at_once", None))
    server = Server(images(wanted), "at_once", BMC="1")
    server.tasks = ["/running"]
    done, said = run(server, wanted)
    assert done == ["BMC"]
    assert said[0].startswith("waits for task /running on the BMC")
    assert said[1] == "that task has failed: ApplyFailed"


def test_a_bmc_that_stays_silent_afterwards_is_named(tmp_path, monkeypatch):
    wanted = bundle(tmp_path, ("BMC", "2", "bmc_reset", "1"))
    server = Server(images(wanted), BMC="1")
    monkeypatch.setattr(server, "reset_bmc", lambda: setattr(server, "silent_for", 10**6))
    error, _ = run(server, wanted)
    assert "which version runs is not known, the BMC does not answer (none)" in str(error)


def test_a_hanging_update_ends_with_its_budget(tmp_path, monkeypatch):
    wanted = bundle(tmp_path, ("BMC", "2", "bmc_reset", None))
    server = Server(images(wanted), BMC="1")

    def hang(task, budget_s, progress=None, *, poll_s=0):
        assert budget_s == 60
        raise DeviceTimeout(
            "gpu001", "follow update", "an update that ends in 60 s", "Running, 40 %", "leave the power on"
        )

    monkeypatch.setattr(server, "follow_update", hang)
    error, _ = run(server, wanted)
    assert error.state == "installing"
    assert "Running, 40 %" in str(error)
