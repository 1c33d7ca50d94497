"""Bring one server from delivery to ready: the state machine of capacity/services/boot/life.py on a real server.

    life = Bringing(target, doors, journal).bring(say)

A BMC that is silent is asked again until the step's time budget is spent. The journal is written before each act: the same command
after a stop, a power cut, or the end of this program goes on where the server stood. A server that is ready, or that runs the
planned image already, is not touched.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from capacity.services.boot.life import (
    BUDGET_S,
    Action,
    Life,
    Report,
    Seen,
    adopted,
    advance,
    from_dict,
    reimaged,
    resumed,
    stopped,
)
from capacity.services.boot.starting import Now, Offer, Target, barred, requested
from infra.boot.collect import Told
from inventory.paths import write_file
from network.drivers.errors import (
    BadAnswer,
    DeviceError,
    DeviceTimeout,
    IdentityMismatch,
    LoginRefused,
    UnknownHostKey,
    Unreachable,
    same_identifier,
)
from network.drivers.redfish import BmcIdentity, SystemState

POLL_S = 10.0
"""Between two looks: steps take minutes."""
BOOT_FROM = {"network": "Pxe", "disk": "Hdd"}
"""Redfish BootSourceOverrideTarget (DSP0268, ComputerSystem schema)."""
Say = Callable[[str], None]


class InstallBmc(Protocol):
    """What is needed of `network.drivers.redfish.Bmc`."""

    def identity(self) -> BmcIdentity: ...

    def state(self) -> SystemState: ...

    def nics(self) -> dict[str, str]: ...

    def bios(self) -> dict[str, dict[str, Any]]: ...

    def set_bios(self, attributes: Mapping[str, Any]) -> dict[str, Any]: ...

    def set_boot(self, target: str, enabled: str = "Once") -> None: ...

    def power(self, reset: str, wait: bool = True) -> bool: ...

    def insert_media(self, image: str) -> bool: ...

    def eject_media(self) -> bool: ...

    def firmware(self) -> dict[str, str]: ...


class Heard(Protocol):
    """What is needed of a boot server (infra/install/boot_server.py). others: other DHCP servers on its segment, '' for none."""

    def reports(self) -> Mapping[str, Sequence[Report]]: ...

    def offers(self) -> Mapping[str, Offer]: ...

    def others(self) -> str: ...


@dataclass(frozen=True)
class Delivered:
    """What the server must be: serial number and UUID as delivered ('' for not listed), MAC of its boot port, BIOS attributes of
    its profile.
    """

    serial: str
    uuid: str
    mac: str
    bios: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hyphened(self) -> str:
        return self.mac.replace(":", "-")


@dataclass(frozen=True)
class Doors:
    """The ways to a server.

    bmc         its BMC, with a budget for each call
    boot        the boot server
    ask         the node itself; DeviceError where none answers
    firmware    {item: version} that runs -> what differs from the server's bundle, one sentence each; None without a bundle
    ours, mark  whether this program switched it on, and the note that it is about to
    media       address of the CD that it is started from in place of the network; '' for none
    """

    bmc: InstallBmc
    boot: Heard
    ask: Callable[[], Told]
    firmware: Callable[[Mapping[str, str]], Sequence[str]] | None
    ours: Callable[[], bool]
    mark: Callable[[], None]
    media: str = ""


class Journal:
    """Where each server of a site stands: a file of its own in the folder, so that racks at work do not meet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, server: str) -> Life:
        """The record of a server; a new one where there is none. BadAnswer, which names the file, for one of another program."""
        path = self._folder / f"{server}.json"
        if not path.exists():
            return Life(server)
        try:
            life = from_dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise self._unreadable(server, path, str(error)) from None
        if life.server != server:
            raise self._unreadable(server, path, f"that of {life.server}")
        return life

    def _unreadable(self, server: str, path: Path, seen: str) -> BadAnswer:
        way = "set the file aside: the server is then looked at from the beginning"
        return BadAnswer(server, f"read {path}", "the record of this server", seen, way)

    def keep(self, life: Life) -> None:
        """It is on the disk when this returns."""
        write_file(self._folder / f"{life.server}.json", json.dumps(life.as_dict(), indent=1) + "\n", durable=True)

    def ready_with(self, version: str) -> bool:
        """Whether any server of the site is ready with this image."""
        return any(
            life.step == "ready" and life.image == version
            for life in (self.read(path.stem) for path in self._folder.glob("*.json"))
        )


class Bringing:
    """One server. `clock` and `sleep` are the time; `budgets` those of the steps. `new_key`: whether SSH answered under a host
    key that is not enrolled when the node was last asked, as after the first start from an image.
    """

    def __init__(
        self,
        target: Target,
        delivered: Delivered,
        doors: Doors,
        journal: Journal,
        *,
        budgets: Mapping[str, float] = BUDGET_S,
        poll_s: float = POLL_S,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.target, self.delivered, self.doors, self.journal = target, delivered, doors, journal
        self.budgets, self.poll_s, self.clock, self.sleep = budgets, poll_s, clock, sleep
        self.new_key = False
        self._cd_in = bool(doors.media)  # until it was taken out

    def now(self) -> Now:
        """The server as it stands. A BMC or a node that does not answer is no error."""
        told = self._told()[0]
        on = self._on()[0]
        had = self.journal.read(self.target.server).image
        if told is None:
            return Now(on, self.doors.ours(), None, had=had)
        return Now(on, self.doors.ours(), told.running, told.contents, had)

    def bring(self, say: Say) -> Life:
        """Go on to ready or to a stop with its name."""
        life = self._begun()
        while life.step != "ready" and not life.stopped:
            before = life
            seen = self._seen(life)
            life, action = advance(life, seen, self.clock(), self.target.version, self.budgets)
            if life != before:
                self.journal.keep(life)
            if (life.step, life.stopped) != (before.step, before.stopped):
                why = f": {life.text}" if life.text else ""
                say(f"{life.server}: {life.stopped or life.step}{why}")
            if action != "none":
                life = self._acted(life, action, seen)
            if life.step != "ready" and not life.stopped:
                self.sleep(self.poll_s)
        return life

    def _begun(self) -> Life:
        """The record that this call begins with."""
        kept = self.journal.read(self.target.server)
        told = self._told()[0]
        runs = told is not None and told.running == self.target.note
        life = adopted(kept, self.target.version if runs else None, self.target.version, self.clock())
        if life.step == "ready" and self._requested(told):
            life = reimaged(life, self.clock())
        elif life.step == "ready" and life.image == self.target.version and (runs or told is None):
            life = life if runs else replace(life, step="first-boot", since=0.0, started=False)
        elif life.step == "ready":
            life = reimaged(life, self.clock())
        if life.started and not life.stopped and life.step != "ready" and self._on()[0] is False:
            life = stopped(life, "power-off", "it was off when this program began")
        life = resumed(life, self.clock())
        if life != kept:
            self.journal.keep(life)
        return life

    def _requested(self, told: Told | None) -> bool:
        """Whether the server is to be written although it has the image. Without a word of the boot server it is not."""
        try:
            offer = self.doors.boot.offers().get(self.delivered.hyphened)
        except DeviceError:
            return False
        on = self._on()[0] if told is None else None
        running, contents = (None, {}) if told is None else (told.running, told.contents)
        return requested(self.target, offer, Now(on, self.doors.ours(), running, contents))

    def _told(self) -> tuple[Told | None, str]:
        """What the node says, and why it is not trusted."""
        self.new_key = False
        try:
            return self.doors.ask(), ""
        except IdentityMismatch as error:
            self.new_key = isinstance(error, UnknownHostKey)
            return None, str(error)
        except DeviceError:
            return None, ""

    def _on(self) -> tuple[bool | None, str]:
        """Whether it has power, and why the BMC is silent."""
        try:
            return self.doors.bmc.state()["power"] != "Off", ""
        except (Unreachable, DeviceTimeout) as error:
            return None, str(error)
        except DeviceError:
            return None, ""

    def _seen(self, life: Life) -> Seen:
        """What this step has to know. A silent BMC or boot server is told, and asked again at the next look."""
        on, silent = self._on()  # before the reports: the last one counts
        if life.step in ("inspect", "firmware", "bios"):
            try:
                return replace(getattr(self, f"_{life.step}")(), on=on, silent=silent)
            except (Unreachable, DeviceTimeout) as error:
                return Seen(on=on, silent=str(error))
            except (IdentityMismatch, LoginRefused) as error:
                return Seen(inspected=(str(error),), on=on, silent=silent)
            except DeviceError as error:
                return Seen(on=on, garbled=str(error))
        if life.step == "image" and life.started and self.doors.media:
            told, stranger = self._told()
            runs = None if told is None else self._version(told)
            return Seen(on=on, silent=silent, running=runs, stranger=stranger, mute=True)
        if life.step == "image":
            try:
                reports = tuple(self.doors.boot.reports().get(self.delivered.hyphened, ()))
                offer = self.doors.boot.offers().get(self.delivered.hyphened)
                others = "" if life.started else self.doors.boot.others()
            except DeviceError as error:  # whether it was written is not known, so neither is what a lost power means
                return Seen(silent=silent, barred=("not-offered", str(error)))
            if others:
                return Seen(reports=reports, on=on, silent=silent, barred=("rogue-dhcp", others))
            return Seen(reports=reports, on=on, silent=silent, barred=barred(self.target, offer, self.now()))
        told, stranger = self._told()
        if told is None:
            return Seen(on=on, silent=silent, stranger=stranger)
        running = self._version(told)
        bios = tuple(self._bios_differs(pending=False))
        return Seen(running=running, on=on, silent=silent, bios=bios, seeding_s=told.seeding_s, cd_in=self._cd_in)

    def _version(self, told: Told) -> str:
        """Version of the image that a node says it runs; all that it says where the planned one has another role or hash."""
        version = (told.running.split()[1:2] or [""])[0]
        return told.running if version == self.target.version and told.running != self.target.note else version

    def _inspect(self) -> Seen:
        seen = self.doors.bmc.identity()
        try:
            nics = self.doors.bmc.nics()
        except BadAnswer:
            nics = {}  # many BMCs list the server's ports only after its first self-test
        faults = [
            f"{what} {given or 'none'}, delivered {wanted}"
            for what, given, wanted in (
                ("serial", seen["serial"], self.delivered.serial),
                ("UUID", seen["uuid"], self.delivered.uuid),
            )
            if wanted and not same_identifier(wanted, given)
        ]
        macs = [mac for mac in nics.values() if mac]
        if macs and not any(same_identifier(self.delivered.mac, mac) for mac in macs):
            faults.append(f"no port has the MAC {self.delivered.mac}; the BMC reports {', '.join(macs)}")
        return Seen(inspected=tuple(faults))

    def _firmware(self) -> Seen:
        if self.doors.firmware is None:
            return Seen(firmware=())
        return Seen(firmware=tuple(self.doors.firmware(self.doors.bmc.firmware())))

    def _bios(self) -> Seen:
        return Seen(bios=tuple(self._bios_differs(pending=True)))

    def _bios_differs(self, *, pending: bool) -> list[str]:
        """Attributes that are not those of the profile. `pending`: what is to come with the next boot counts as there."""
        if not self.delivered.bios:
            return []
        try:
            said = self.doors.bmc.bios()
        except DeviceError:
            if pending:
                raise
            return []  # the node is there; the attributes are compared again by the checks
        there = said["current"] | (said["pending"] if pending else {})
        return [
            f"{key} {there.get(key, 'unknown')}, planned {value}"
            for key, value in sorted(self.delivered.bios.items())
            if there.get(key) != value
        ]

    def _acted(self, life: Life, action: Action, seen: Seen) -> Life:
        """The record after the act; where a device refuses, the act is tried again at the next look."""
        try:
            if action == "update-firmware":
                life = stopped(life, "firmware-behind", "; ".join(seen.firmware or ()))
            elif action == "set-bios":
                self.doors.bmc.set_bios(self.delivered.bios)
            elif action == "boot-from-network":
                self._boot("network")
            elif action == "boot-from-disk":
                self._boot("disk")
            elif action == "eject":
                self._eject()
            else:
                return life
        except DeviceError as error:
            life = replace(life, started=False, text=str(error))
        self.journal.keep(life)
        return life

    def _boot(self, start: str) -> None:
        """Start from there. From its drives a server is only switched on: the initramfs restarts one that is on by itself.
        Where a CD wrote it, that one runs from its drives already, and an override would wait for a later start.
        """
        bmc, media, target = self.doors.bmc, self.doors.media, BOOT_FROM[start]
        if start == "network":
            bmc.power("ForceOff")
        if media:
            self._eject()  # before an insertion too: a BMC may keep a copy of what was at the same address before
        if media and start == "network":
            self._cd_in = True
            bmc.insert_media(media)
            target = "Cd"
        elif media and bmc.state()["power"] != "Off":
            return
        bmc.set_boot(target, "Once")
        self.doors.mark()
        bmc.power("On")

    def _eject(self) -> None:
        self.doors.bmc.eject_media()
        self._cd_in = False
