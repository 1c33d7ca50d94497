"""The firmware of one server, package by package: checked, sent, installed, brought into effect, read back.

    flash(server, bundle, doors, say)          # FlashError names the state in which it stopped

Where it stops the same command goes on: what runs already is read from the BMC, and an update that is under way there is
waited for first. Nothing is sent to a server that runs jobs, lacks a power supply or is another one than planned. A package
that fails, or that does not show its version afterwards, is taken back where the bundle has its previous release.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from infra.firmware.rollout import outstanding
from inventory.delivered.firmware import Bundle, Package, Release
from network.drivers.errors import DeviceError, DeviceTimeout, Unreachable, UpdateFailed, UpdateGone, WriteRefused
from network.drivers.redfish import BmcIdentity, FirmwareItem, SystemState
from network.drivers.redfish_power import PowerSupplies
from network.drivers.redfish_update import UpdateTask

RUNNING_S = 3600.0
"""For an update that somebody else has started. The longest that NVIDIA's and Dell's guides state are below an hour; not
confirmed as a limit."""
RETURN_S = 600.0
"""For a BMC to answer again after its restart: five minutes are usual on AMI and iDRAC; not confirmed as a limit."""
BOOT_S = 1800.0
"""For the new version to show after a restart of the server: servers with eight GPUs need 10 to 20 minutes of self-test
after a change of firmware; not confirmed as a limit."""
SETTLE_S = 20.0
"""For a BMC that answers again to list what it runs; not confirmed in a document."""
BOOTED_S = 600.0
"""For a server that is to be switched off to end its boot first; a BMC that never says OSRunning costs this time."""
BOOTED = ("OSRunning", "None", "")
"""BootProgress of a server whose operating system hears of a shutdown, that is off, or whose BMC does not tell (DSP0268,
ComputerSystem schema)."""
DARK_S = 20.0
"""How long outlets stay off, so that supplies discharge; not confirmed in a document."""
POLL_S = 2.0
"""Between two looks: BMCs of real servers answer a request in 0.2 to 3 s."""
SHUTDOWN_S = 180.0
"""For a graceful shutdown before it is forced: twice systemd's default time for a service to stop (90 s)."""

Say = Callable[[str, str], None]
"""(server, what happens) for the person who waits."""


class FirmwareBmc(Protocol):
    """What a roll-out needs of `network.drivers.redfish.Bmc`."""

    name: str

    def identity(self) -> BmcIdentity: ...

    def state(self) -> SystemState: ...

    def psus(self) -> PowerSupplies: ...

    def firmware_items(self) -> list[FirmwareItem]: ...

    def running_tasks(self) -> list[str]: ...

    def push_update(self, image: Path, targets: Sequence[str] = (), *, budget_s: float = ...) -> str: ...

    def follow_update(
        self, task: str, budget_s: float, progress: Callable[[UpdateTask], None] = ..., *, poll_s: float = ...
    ) -> UpdateTask: ...

    def reset_bmc(self) -> None: ...

    def power(self, reset: str, wait: bool = True) -> bool: ...


class FlashError(Exception):
    """A roll-out stopped at a server. `state`: refused, installing, activating or verifying; the message has the way out."""

    def __init__(self, server: str, state: str, why: str) -> None:
        super().__init__(f"{server}: {state}: {why}")
        self.server, self.state, self.why = server, state, why


@dataclass(frozen=True)
class Doors:
    """The ways to a server, and how long is waited between two looks.

    bmc, resets: its BMC, the second with SHUTDOWN_S for each call; busy: why jobs may run on it, "" if none can; ac_cycle:
    cuts all its outlets for DARK_S, FlashError where it has none; boot_s, return_s: for the new version to show after a restart of
    the server, and for a BMC to answer again after its own.
    """

    bmc: FirmwareBmc
    resets: FirmwareBmc
    busy: Callable[[], str]
    ac_cycle: Callable[[], None]
    poll_s: float = POLL_S
    boot_s: float = BOOT_S
    return_s: float = RETURN_S


def flash(server: str, bundle: Bundle, doors: Doors, say: Say) -> list[str]:
    """Bring a server to its bundle; returns the names of the packages that were installed. It is on or off as before."""
    _wait_for_others(server, doors, say)
    inventory = _inventory(doors)
    missing = outstanding(bundle, inventory)
    for one in missing:
        if one.absent:
            raise FlashError(
                server,
                "refused",
                f"{one.package.name}: the BMC lists no {', '.join(one.absent)}; it has {', '.join(inventory)}; "
                "correct the bundle's names",
            )
        if fault := one.package.image.fault():
            raise FlashError(server, "refused", f"{one.package.name}: {fault}")
    if not missing:
        return []
    was_on = doors.bmc.state()["power"] != "Off"
    _refuse_if_unfit(server, doors, was_on)
    for one in missing:
        _install(server, one.package, doors, say)
    if not was_on and doors.bmc.state()["power"] != "Off":
        _off(doors)
    return [one.package.name for one in missing]


def restart(server: str, doors: Doors, say: Say) -> None:
    """Shut a server down and switch it on again; one that is off is only switched on. FlashError where it is not fit for that."""
    on = doors.bmc.state()["power"] != "Off"
    _refuse_if_unfit(server, doors, on)
    if on:
        say(server, "shuts down")
        _off(doors)
    doors.resets.power("On")


def _wait_for_others(server: str, doors: Doors, say: Say) -> None:
    """An update that an earlier run or somebody else started: the inventory is read after its end."""
    for task in doors.bmc.running_tasks():
        say(server, f"waits for task {task} on the BMC, which an earlier run or somebody else has started")
        try:
            doors.bmc.follow_update(task, RUNNING_S, poll_s=doors.poll_s)
        except UpdateFailed as error:  # what it left is read from the inventory and installed anew
            say(server, f"that task has failed: {error.seen}")


def _refuse_if_unfit(server: str, doors: Doors, on: bool) -> None:
    """Jobs, or a supply without input: an update that is cut short may leave a dead board."""
    if on and (why := doors.busy()):
        raise FlashError(server, "refused", why)
    supplies = doors.bmc.psus()["psus"]
    lost = [psu["name"] for psu in supplies if psu["state"] == "UnavailableOffline" or psu["health"] == "Critical"]
    if lost:
        raise FlashError(server, "refused", f"power supply without input or broken: {', '.join(lost)}; mend it first")


def _install(server: str, package: Package, doors: Doors, say: Say) -> None:
    before = package.behind(_inventory(doors))
    wanted = package.items(before)
    say(server, f"{package.name}: " + ", ".join(f"{item} {runs} -> {to}" for item, (runs, to) in wanted.items()))
    try:
        _release(server, package, package, doors, say)
    except (FlashError, DeviceError) as error:
        state, why = (error.state, error.why) if isinstance(error, FlashError) else ("installing", str(error))
        became = _taken_back(server, package, before, doors, say)
        raise FlashError(server, state, f"{package.name}: {why}; {became}") from error


def _taken_back(server: str, package: Package, before: Mapping[str, str], doors: Doors, say: Say) -> str:
    """What became of the earlier version, in words for the end of a message."""
    try:
        now = _inventory(doors)
    except DeviceError as error:
        return f"which version runs is not known, the BMC does not answer ({error.seen}): leave the power on, run this again"
    if all(now.get(item) == runs for item, runs in before.items()):
        return "the earlier version still runs: mend the cause, then run this again"
    if package.previous is None:
        return "the bundle has no previous release to return to: leave the power on, run this again"
    say(server, f"{package.name}: installs the previous release again")
    try:
        _release(server, package, package.previous, doors, say)
    except (FlashError, DeviceError) as error:
        return f"the previous release could not be installed again ({error}): leave the power on, ask the maker"
    return "the previous release runs again"


def _release(server: str, package: Package, release: Release, doors: Doors, say: Say) -> None:
    """Install a release: the package itself, or its previous one."""
    if fault := release.image.fault():
        raise FlashError(server, "refused", fault)
    items = {item["key"]: item["path"] for item in doors.bmc.firmware_items()}
    targets = [items[key] for key in release.items(dict.fromkeys(items, ""))]
    task = doors.bmc.push_update(release.image.path, targets)
    try:
        doors.bmc.follow_update(
            task,
            60.0 * package.budget_min,
            lambda seen: say(server, f"{package.name}: {seen['state']}{_percent(seen)}"),
            poll_s=doors.poll_s,
        )
    except UpdateGone:  # a BMC that restarts into its own new version forgets the task
        if not _shows(release, doors, SETTLE_S):
            raise
    if release.behind(_inventory(doors)):
        _bring_into_effect(server, package, doors, say)
    if not _shows(release, doors, doors.return_s if package.takes_effect in ("at_once", "bmc_reset") else doors.boot_s):
        left = ", ".join(f"{item} {runs}" for item, runs in release.behind(_inventory(doors)).items())
        raise FlashError(server, "verifying", f"{left} after {package.takes_effect.replace('_', ' ')}")


def _percent(seen: UpdateTask) -> str:
    return "" if seen["percent"] is None else f", {seen['percent']:g} %"


def _bring_into_effect(server: str, package: Package, doors: Doors, say: Say) -> None:
    if package.takes_effect == "bmc_reset":
        say(server, f"{package.name}: restarts the BMC")
        doors.bmc.reset_bmc()
    elif package.takes_effect == "host_restart":
        say(server, f"{package.name}: restarts the server")
        _off(doors)
        doors.resets.power("On")
    elif package.takes_effect == "ac_cycle":
        was_on = doors.bmc.state()["power"] != "Off"
        say(server, f"{package.name}: cuts all outlets of the server for {DARK_S:g} s")
        _off(doors)
        doors.ac_cycle()
        if _answers(doors) and was_on:
            doors.resets.power("On")


def _off(doors: Doors) -> None:
    """A graceful shutdown, forced where it does not end in time. A server that still boots would not hear of it."""
    deadline = time.monotonic() + BOOTED_S
    while doors.bmc.state()["boot_progress"] not in BOOTED and time.monotonic() < deadline:
        time.sleep(doors.poll_s)
    try:
        doors.resets.power("GracefulShutdown")
    except (WriteRefused, DeviceTimeout):
        doors.resets.power("ForceOff")


def _answers(doors: Doors) -> bool:
    """Whether the BMC answers in the time that it has to return."""
    deadline = time.monotonic() + doors.return_s
    while time.monotonic() < deadline:
        with suppress(Unreachable, DeviceTimeout):
            doors.bmc.state()
            return True
        time.sleep(doors.poll_s)
    return False


def _shows(release: Release, doors: Doors, budget_s: float) -> bool:
    """Whether all items show the release's versions before the budget is spent; a silent BMC is asked again."""
    deadline = time.monotonic() + budget_s
    while True:
        with suppress(Unreachable, DeviceTimeout):
            inventory = _inventory(doors)
            if not release.absent(inventory) and not release.behind(inventory):
                return True
        if time.monotonic() + doors.poll_s > deadline:
            return False
        time.sleep(doors.poll_s)


def _inventory(doors: Doors) -> dict[str, str]:
    return {item["key"]: item["version"] for item in doors.bmc.firmware_items()}
