"""A server in memory with its BMC, its initramfs and its node, and the boot server that hears it; time is simulated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capacity.services.boot.life import Report
from capacity.services.boot.starting import Offer, Target
from infra.boot.collect import Told
from infra.install.bring import Delivered, Doors
from network.drivers.errors import BadAnswer, UnknownHostKey, Unreachable, UnreadableAnswer, WriteRefused

TARGET = Target("gpu001", "gpu", "0123456789ab", "0" * 64, ("S1", "S2"))
DELIVERED = Delivered("SER1", "uuid-1", "02:5e:00:00:00:01", {"BootMode": "Uefi"})
OFFER = Offer("gpu001", "gpu", "0123456789ab", "0" * 64, ("S1", "S2"))
HELD = "ab" * 32


class Clock:
    """Time that passes only when somebody sleeps; what is due then happens."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while ready := sorted((one for one in self.due if one[0] <= end), key=lambda one: one[0]):
            self.due.remove(ready[0])
            self.now = max(self.now, ready[0][0])
            ready[0][1]()
        self.now = end

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, act))

    def forget(self, *acts: Callable[[], None]) -> None:
        self.due = [one for one in self.due if one[1] not in acts]


@dataclass
class Boot:
    """The boot server."""

    clock: Clock
    offer: Offer | None = OFFER
    told: list[Report] = field(default_factory=list)
    silent: bool = False
    rogue: str = ""

    def reports(self) -> Mapping[str, Sequence[Report]]:
        self._answer()
        return {DELIVERED.hyphened: list(self.told)}

    def offers(self) -> Mapping[str, Offer]:
        self._answer()
        return {} if self.offer is None else {DELIVERED.hyphened: self.offer}

    def others(self) -> str:
        self._answer()
        return self.rogue

    def _answer(self) -> None:
        if self.silent:
            raise Unreachable("mgm01", "read reports", "an SSH server", "nothing", "check its power")

    def hear(self, state: str, text: str = "") -> None:
        self.clock.now += 0.001  # no two reports at the same time
        self.told.append(Report(self.clock.now, state, text))


class Machine:
    """The server. `writes`: what the initramfs reports instead of `written`; `holds`: content of its drives."""

    def __init__(self, clock: Clock, boot: Boot, name: str = "gpu001") -> None:
        self.clock, self.boot, self.name = clock, boot, name
        self.mac = "02:5E:00:00:00:01"
        self.serial, self.power_state, self.boot_from = "SER1", "Off", "None"
        self.silent = self.garbled = self.lists_ports_late = False
        self.refuses_power = False
        self.firmware_behind: list[str] = []
        self.bios_now, self.bios_next = {"BootMode": "Legacy"}, dict[str, Any]()
        self.bios_sticks = True
        self.writes: tuple[str, str] | None = None
        self.runs: str | None = None
        self.next_boot_runs = TARGET.note
        self.key_known = True
        self.seeding = False
        self.started_at = 0.0
        self.power_cut_while_writing = False
        self.contents: dict[str, str] = {}
        self.written = False
        self.ours = False
        self.media, self.inserted = "", ""
        self.served = self.copied = "a CD"
        self.keeps_cd = False
        self.acts: list[str] = []

    # ---- BMC
    def _answer(self) -> None:
        if self.silent:
            raise Unreachable(self.name, "read state", "a BMC", "nothing", "check its cable")
        if self.garbled:
            raise UnreadableAnswer(self.name, "read identity", "text at serial", "number 1", "check its firmware")

    def identity(self) -> Any:
        self._answer()
        return {"serial": self.serial, "uuid": "uuid-1"}

    def nics(self) -> dict[str, str]:
        self._answer()
        if self.lists_ports_late:
            raise BadAnswer(self.name, "read network ports", "EthernetInterfaces", "none", "check its firmware")
        return {"eth0": self.mac}

    def state(self) -> Any:
        self._answer()
        return {"power": self.power_state}

    def bios(self) -> dict[str, dict[str, Any]]:
        self._answer()
        return {"current": dict(self.bios_now), "pending": dict(self.bios_next)}

    def firmware(self) -> dict[str, str]:
        self._answer()
        return {"BIOS": "1"}

    def set_bios(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        self._answer()
        self.acts.append("bios")
        self.bios_next = dict(attributes)
        return dict(attributes)

    def set_boot(self, target: str, enabled: str = "Once") -> None:
        self._answer()
        self.boot_from = target

    def insert_media(self, image: str) -> bool:
        """This BMC copies the CD when it is inserted."""
        self._answer()
        if self.inserted == image:
            return False
        self.inserted, self.copied = image, self.served
        return True

    def eject_media(self) -> bool:
        self._answer()
        if self.inserted and self.keeps_cd:
            raise WriteRefused(self.name, "eject virtual media", "an empty drive", "Inserted True", "eject it by hand")
        had, self.inserted = self.inserted, ""
        return bool(had)

    def power(self, reset: str, wait: bool = True) -> bool:
        self._answer()
        if reset == "On" and self.refuses_power:
            raise Unreachable(self.name, "reset On", "power On", "power Off", "look at its supplies")
        if reset == "ForceOff":
            self.off()
            return True
        if self.power_state == "On":
            return False
        self.power_state = "On"
        if self.bios_sticks:
            self.bios_now |= self.bios_next
        start, self.boot_from = self.boot_from, "None"
        self.acts.append(f"on {start}")
        by = {"Pxe": self._network, "Cd": self._cd if self.inserted else self._disk}
        self.clock.after(60, by.get(start, self._disk))
        return True

    # ---- what happens inside
    def off(self) -> None:
        self.power_state, self.runs = "Off", None
        self.clock.forget(self._network, self._cd, self._done, self._disk, self.off)

    def _network(self) -> None:
        self.boot.hear("started", f"image gpu {TARGET.version}")
        if self.written:
            self.boot.hear("already-written", "")
            return self._restart()
        if self.writes is not None:
            self.boot.hear(*self.writes)
            return self.off()
        self.boot.hear("writing", f"image gpu {TARGET.version} to S1=nvme0n1 S2=nvme1n1")
        if self.power_cut_while_writing:
            self.power_cut_while_writing = False
            self.clock.after(20, self.off)
        return self.clock.after(100, self._done)

    def _cd(self) -> None:
        """The same without a word to the boot server."""
        if self.writes is not None:
            return self.off()
        if self.power_cut_while_writing:
            self.power_cut_while_writing = False
            self.clock.after(20, self.off)
        return self.clock.after(100, self._done)

    def _done(self) -> None:
        self.written = True
        if not self.inserted:
            self.boot.hear("written", f"{TARGET.sha256} read back from S1 S2")
        self._restart()

    def _restart(self) -> None:
        self.clock.after(60, self._disk)

    def _disk(self) -> None:
        self.runs, self.started_at = self.next_boot_runs, self.clock.now

    # ---- the node
    def ask(self) -> Told:
        if self.runs is None:
            raise Unreachable(self.name, "ask", "an SSH server", "nothing", "check its power")
        if not self.key_known:
            raise UnknownHostKey(self.name, "run sh -s", "the host key in known_hosts", "an unknown host key", "look")
        return Told(self.runs, self.contents, self.clock.now - self.started_at if self.seeding else None)

    def doors(self) -> Doors:
        return Doors(
            self,
            self.boot,
            self.ask,
            lambda inventory: self.firmware_behind,
            lambda: self.ours,
            self._mark,
            self.media,
        )

    def _mark(self) -> None:
        self.ours = True
