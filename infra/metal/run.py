"""Bring virtual machines from their BMC to a login: infra/install/bring.py with their consoles and a boot server on this machine.

    Bringing(segment, {"gpu001": Server(power, access, bmc, target, delivered)}, journal, budgets).bring(["gpu001", "gpu002"], say)

The journal holds the records; the same call after a stop, or after this program was killed, goes on where each server stood.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capacity.services.boot.life import BUDGET_S, Life, Report, reimaged
from capacity.services.boot.seeds import console_keys
from capacity.services.boot.starting import Offer, Target
from infra.boot.collect import IMAGE_NOTE, Told, parse_drives, script_for
from infra.boot.enrol import enrol
from infra.install import bring
from infra.install.boot_server import parse_others
from infra.install.bring import Delivered, Doors, InstallBmc, Journal
from infra.metal.machines import Power
from infra.metal.segment import Segment
from inventory.paths import write_file
from network.drivers.errors import Unreachable
from network.drivers.parallel import at_once

POLL_S = 2.0
LOGIN_S = 30.0
ANSWER_S = 180.0
"""For a node that was logged in to before: six logins, each of which takes its whole time."""
Say = Callable[[str], None]
Watch = Callable[[str, Life], None]


@dataclass(frozen=True)
class Access:
    """How a node is logged in to: address, login, private key, and the known_hosts file that its console key goes to."""

    address: str
    user: str
    key: Path
    known_hosts: Path


@dataclass(frozen=True)
class Server:
    """A machine with its BMC, how its node is reached, what it shall run, and what was delivered. `firmware`: what differs from its
    bundle, {item: version} that runs given; None without a bundle.
    """

    power: Power
    access: Access
    bmc: InstallBmc
    target: Target
    delivered: Delivered
    firmware: Callable[[Mapping[str, str]], Sequence[str]] | None = None


class Heard:
    """The boot server of the segment."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    def reports(self) -> Mapping[str, Sequence[Report]]:
        return self._segment.reports()

    def offers(self) -> Mapping[str, Offer]:
        return self._segment.offers()

    def others(self) -> str:
        return parse_others(self._segment.probe(), "boot server")


class Watched(Journal):
    """A journal that tells each change, with the record before it."""

    def __init__(self, folder: Path, hear: Callable[[Life, Life], None]) -> None:
        super().__init__(folder)
        self._hear = hear

    def keep(self, life: Life) -> None:
        before = self.read(life.server)
        super().keep(life)
        self._hear(before, life)


class Bringing:
    """Servers of one segment; `journal` is the folder that keeps where each of them stands."""

    def __init__(
        self, segment: Segment, servers: Mapping[str, Server], journal: Path, budgets: Mapping[str, float] = BUDGET_S
    ) -> None:
        self.segment, self.servers, self.journal = segment, servers, Journal(journal)
        self.folder, self.budgets = journal, {**BUDGET_S, **budgets}
        self.times_file = journal.with_name("times.json")
        self.times: dict[str, dict[str, float]] = (
            json.loads(self.times_file.read_text()) if self.times_file.exists() else {}
        )
        """Unix times of the last writing of each server: power-on, read back, first login; `bare`: seconds of its last start
        from its drives to a login.
        """
        self.began: dict[str, float] = {}

    @property
    def lives(self) -> dict[str, Life]:
        """Where each server stands."""
        return {name: self.journal.read(name) for name in self.servers}

    def bring(self, names: Iterable[str], say: Say, watch: Watch | None = None) -> dict[str, Life]:
        """Bring these servers as far as they go: to ready, or to a stop with its name. `watch` sees each record as it changes."""

        def one(name: str) -> Life:
            def hear(before: Life, after: Life) -> None:
                if after.step != before.step:
                    self._moved(name, before, after)
                if watch is not None:
                    watch(name, after)

            server = self.servers[name]
            doors = Doors(
                server.bmc,
                Heard(self.segment),
                lambda: self.told(name),
                server.firmware,
                lambda: True,  # nobody else switches these machines
                lambda: self._marked(name),
            )
            journal = Watched(self.folder, hear)
            return bring.Bringing(
                server.target, server.delivered, doors, journal, budgets=self.budgets, poll_s=POLL_S
            ).bring(say)

        return at_once(names, one)

    def start(self, names: Iterable[str], say: Say) -> dict[str, str]:
        """Start ready servers that are off from their drives; by name what each says it runs, '' where none logs us in in time."""
        waiting, found = list(names), dict[str, str]()
        off = {name: time.time() for name in waiting if not self.servers[name].power.is_on}
        for name in waiting:
            self.servers[name].bmc.power("On")
        deadline = time.monotonic() + self.budgets["first-boot"]
        while waiting and time.monotonic() < deadline and all(self.servers[name].power.is_on for name in waiting):
            for name in list(waiting):
                if (said := self.run(name, f"cat {IMAGE_NOTE}")) is not None:
                    found[name] = said.strip()
                    waiting.remove(name)
                    if name in off:
                        self.times.setdefault(name, {})["bare"] = time.time() - off[name]
                    say(f"{name}: runs {' '.join(said.split()[:2])}")
            time.sleep(POLL_S)
        write_file(self.times_file, json.dumps(self.times, indent=1) + "\n")
        return {name: found.get(name, "") for name in self.servers if name in found or name in waiting}

    def again(self, name: str) -> None:
        """A ready server is to be written anew at the next call. ValueError for another one."""
        self.journal.keep(reimaged(self.journal.read(name), time.time()))

    def run(self, name: str, command: str, given: str = "") -> str | None:
        """Standard output of a command on a node under the host key of its console; None when it cannot be had. It is given this
        text on its standard input.
        """
        access = self.servers[name].access
        argv: list[str | Path] = ["ssh", "-i", access.key, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
        argv += ["-o", f"UserKnownHostsFile={access.known_hosts}", "-o", "ConnectTimeout=5"]
        try:
            done = subprocess.run(
                self.segment.enter([*argv, f"{access.user}@{access.address}", command]),
                capture_output=True,
                text=True,
                check=False,
                timeout=LOGIN_S,
                input=given,
            )
        except subprocess.TimeoutExpired:
            return None
        return done.stdout if done.returncode == 0 else None

    def ask(self, name: str, command: str, given: str = "") -> str | None:
        """run(), again until the node answers within ANSWER_S: right after a start, on a busy machine, one login may take too long.
        The command may run more than once.
        """
        deadline = time.monotonic() + ANSWER_S
        while (said := self.run(name, command, given)) is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return said

    def told(self, name: str) -> Told:
        """What a node says of its image and its drives. Unreachable before its console has shown its key, or without an answer."""
        server = self.servers[name]
        said = (
            self.run(name, script_for(server.target.serials)) if server.power.is_on and self._enrolled(name) else None
        )
        if said is None:
            raise Unreachable(name, "ask what its drives hold", "an SSH server", "none", "look at its console")
        return parse_drives(said, name, server.delivered.uuid, server.target.serials)

    def _enrolled(self, name: str) -> bool:
        """Whether the host key of a node is known: read from its console when it prints it, or kept from then."""
        server = self.servers[name]
        console = server.power.machine.console("disk")
        keys = console_keys(console.read_text(errors="replace")) if console.exists() else ()
        access = server.access
        old = access.known_hosts.read_text().splitlines() if access.known_hosts.exists() else []
        if not keys:  # the key is shown at the first start after a writing only
            return any(line.split()[0] == access.address for line in old)
        self._know(access, keys)
        return True

    def forget(self, name: str) -> None:
        """The host key of a node is to be read from its console again: it is about to be written by other means."""
        self._know(self.servers[name].access, ())

    def _know(self, access: Access, keys: Iterable[str]) -> None:
        """These are the host keys of a node, and no others."""
        enrol(access.known_hosts, access.address, keys)

    def _marked(self, name: str) -> None:
        """It is about to be switched on."""
        if self.journal.read(name).step == "image":
            self.began[name] = time.time()

    def _moved(self, name: str, before: Life, after: Life) -> None:
        """A server came to its next step. Its times are kept once for each writing. The host key of a system that was overwritten
        is forgotten; a server that was found already written keeps its own.
        """
        mac = self.servers[name].delivered.hyphened
        told = [
            report.state for report in self.segment.reports().get(mac, []) if before.told < report.time <= after.told
        ]
        if after.step == "first-boot" and "written" in told:
            self._know(self.servers[name].access, ())
            self.times[name] = {"on": self.began[name], "written": time.time()} if name in self.began else {}
        elif after.step == "ready":
            self.times.setdefault(name, {}).setdefault("login", time.time())
        write_file(self.times_file, json.dumps(self.times, indent=1) + "\n")
