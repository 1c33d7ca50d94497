"""Bring servers from the network to a login: the state machine of capacity/services/boot/life.py with power, reports and SSH.

    Bringing(segment, {"gpu001": Server(power, address, key)}, image, journal).bring(["gpu001", "gpu002"], say)

The journal holds the records; the same call after a stop, or after this program was killed, goes on where each server stood.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from capacity.services.boot.intents import hyphened
from capacity.services.boot.life import Life, Report, Seen, advance, from_dict, reimaged, resumed
from capacity.services.boot.seeds import console_keys
from infra.boot.collect import IMAGE_NOTE
from infra.metal.machines import Power
from infra.metal.segment import Segment
from inventory.paths import write_file

POLL_S = 1.0
LOGIN_S = 20.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Access:
    """How a node is logged in to: address, login, private key, and the known_hosts file that its console key goes to."""

    address: str
    user: str
    key: Path
    known_hosts: Path


@dataclass(frozen=True)
class Server:
    """A machine and how its node is reached."""

    power: Power
    access: Access


class Bringing:
    """Servers of one segment; `journal` keeps where each of them stands."""

    def __init__(
        self, segment: Segment, servers: Mapping[str, Server], image: str, journal: Path, budgets: Mapping[str, float]
    ) -> None:
        self.segment, self.servers, self.image, self.journal = segment, servers, image, journal
        self.budgets = budgets
        self.lives = self._read()
        self.times_file = journal.with_name("times.json")
        self.times: dict[str, dict[str, float]] = (
            json.loads(self.times_file.read_text()) if self.times_file.exists() else {}
        )
        """Unix times of the last writing of each server: power-on, read back, first login."""
        self.began: dict[str, float] = {}

    def bring(
        self, names: Iterable[str], say: Say, watch: Callable[[str, Life], None] | None = None
    ) -> dict[str, Life]:
        """Bring these servers as far as they go: to ready, or to a stop with its name. `watch` sees each record as it changes."""
        wanted = list(names)
        for name in wanted:
            life = self.lives.get(name) or Life(name, "image")
            if life.started and not self.servers[name].power.is_on:
                life = replace(life, stopped="power-off")
            self._keep(resumed(life, time.time()))
        going = set(wanted)
        while going:
            on = {name: self.servers[name].power.is_on for name in going}  # before the reports: the last one counts
            reports = self.segment.reports()
            for name in sorted(going):
                before = self.lives[name]
                life, action = advance(
                    before, self._seen(name, before, reports, on[name]), time.time(), self.image, self.budgets
                )
                if life != before:
                    self._keep(life)
                    if life.step != before.step:
                        self._moved(name, before, life)
                    if (life.step, life.stopped, life.text) != (before.step, before.stopped, before.text):
                        say(f"{name}: {life.stopped or life.step}" + (f": {life.text}" if life.text else ""))
                if watch is not None:
                    watch(name, life)
                power = self.servers[name].power
                if action == "boot-from-network":
                    self.began[name] = time.time()
                    power.on("network")
                elif action == "boot-from-disk":
                    power.on("disk")
                if life.stopped:
                    power.off()
                if life.stopped or life.step == "ready":
                    going.discard(name)
            time.sleep(POLL_S)
        return {name: self.lives[name] for name in wanted}

    def start(self, names: Iterable[str], say: Say) -> dict[str, str]:
        """Start ready servers that are off from their drives; by name what each says it runs, '' where none logs us in in time."""
        waiting, found = list(names), dict[str, str]()
        for name in waiting:
            if not self.servers[name].power.is_on:
                self.servers[name].power.on("disk")
        deadline = time.monotonic() + self.budgets["first-boot"]
        while waiting and time.monotonic() < deadline and all(self.servers[name].power.is_on for name in waiting):
            for name in list(waiting):
                if (said := self.run(name, f"cat {IMAGE_NOTE}")) is not None:
                    found[name] = said.strip()
                    waiting.remove(name)
                    say(f"{name}: runs {' '.join(said.split()[:2])}")
            time.sleep(POLL_S)
        return {name: found.get(name, "") for name in self.servers if name in found or name in waiting}

    def again(self, name: str) -> None:
        """A ready server is to be written anew at the next call. ValueError for another one."""
        self._keep(reimaged(self.lives[name], time.time()))

    def run(self, name: str, command: str) -> str | None:
        """Standard output of a command on a node under the host key of its console; None when it cannot be had."""
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
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return None
        return done.stdout if done.returncode == 0 else None

    def _seen(self, name: str, life: Life, reports: Mapping[str, Sequence[Report]], on: bool) -> Seen:
        server = self.servers[name]
        told = tuple(reports.get(hyphened(server.power.machine.mac), ()))
        running = None
        if life.step == "first-boot" and self._enrolled(name):
            said = self.run(name, f"cat {IMAGE_NOTE}")
            running = said.split()[1] if said and len(said.split()) > 1 else None if said is None else ""
        return Seen(inspected=(), firmware=(), bios=(), reports=told, running=running, on=on)

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

    def _know(self, access: Access, keys: Iterable[str]) -> None:
        """These are the host keys of a node, and no others."""
        old = access.known_hosts.read_text().splitlines() if access.known_hosts.exists() else []
        lines = [line for line in old if line.split()[0] != access.address]
        lines += [f"{access.address} {key} console" for key in keys]
        write_file(access.known_hosts, "".join(f"{line}\n" for line in lines))

    def _moved(self, name: str, before: Life, after: Life) -> None:
        """A server came to its next step. Its times are kept once for each writing. The host key of a system that was overwritten
        is forgotten; a server that was found already written keeps its own.
        """
        mac = hyphened(self.servers[name].power.machine.mac)
        told = [
            report.state for report in self.segment.reports().get(mac, []) if before.told < report.time <= after.told
        ]
        if after.step == "first-boot" and "written" in told:
            self._know(self.servers[name].access, ())
            self.times[name] = {"on": self.began[name], "written": time.time()} if name in self.began else {}
        elif after.step == "ready":
            self.times.setdefault(name, {}).setdefault("login", time.time())
        write_file(self.times_file, json.dumps(self.times, indent=1) + "\n")

    def _keep(self, life: Life) -> None:
        self.lives[life.server] = life
        text = json.dumps({name: one.as_dict() for name, one in sorted(self.lives.items())}, indent=1) + "\n"
        write_file(self.journal, text, durable=True)

    def _read(self) -> dict[str, Life]:
        if not self.journal.exists():
            return {}
        said = json.loads(self.journal.read_text())
        return {name: from_dict(record) for name, record in said.items()}
