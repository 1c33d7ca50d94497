"""1,000 simulated BMCs from a cold start to taken over, inspected and pinned; 2 % of them hang, 1 % answer with what
cannot be read: a page, broken JSON, half an answer, values of other types.

    python -m bench.bmcs [--bmcs 1000]

Each BMC has an address of its own (127.10.0.0/16) and speaks Redfish over TLS under one certificate; all are one process
(infra/lab/bmc.py). They come with the factory's account. What runs against them is what `pulumi up` runs: the account is
taken over (infra/install/takeover.py), and each server is brought through its inspection (infra/install/bring.py) until there is
no boot server that would offer it an image. Prints what was seen; exit status 1 where a server is not named as what it is.
Needs root, for port 443 and many open files.
"""

import argparse
import contextlib
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from capacity.services.boot.life import Report
from capacity.services.boot.starting import Offer, Target
from infra.boot.collect import Told
from infra.install.bring import Bringing, Delivered, Doors, Journal
from infra.install.takeover import take_over
from infra.lab import bmc_process, keys
from infra.lab.accounts import accepts
from infra.lab.paths import LabPaths
from infra.lab.powerd import GARBLED as GARBLED_AS
from infra.lab.powerd import PowerServer
from infra.lab.spec import Server, port_mac
from infra.metal.bmcs import Load, Machines
from infra.metal.machines import Machine, Power
from inventory.paths import repo_root
from network.drivers.credentials import BmcCredentials
from network.drivers.errors import DeviceError, Unreachable
from network.drivers.parallel import WORKERS, at_once
from network.drivers.redfish import Bmc

LAB = "bench-bmcs"
HANGING, GARBLED = 50, 100
"""Every 50th BMC hangs, 2 %; every 100th, beginning with the first, says nothing that can be read, 1 %."""
INSPECT_S = 20.0
CALL_S = 10.0
START_S = 300.0
THREADS = 128
"""A hanging BMC holds one of the emulator's for each client that waits."""
FILES = 1 << 14
REAL_ANSWER_S = 1.0
"""Of a real BMC, which answers a request in 0.2 to 3 s (not confirmed in a document)."""


class Counted(Machines):
    """Machines that count the requests that BMCs have answered: each of them asks for its server once."""

    def __init__(self, paths: LabPaths, loads: Mapping[str, Load]) -> None:
        super().__init__(paths, loads)
        self.requests, self._counting = 0, threading.Lock()

    def view(self, device: str = "") -> Any:
        with self._counting:
            self.requests += bool(device)
        return super().view(device)


class Nothing:
    """A boot server that offers nothing."""

    def reports(self) -> Mapping[str, Sequence[Report]]:
        return {}

    def others(self) -> str:
        return ""

    def offers(self) -> Mapping[str, Offer]:
        return {}


def spec(number: int) -> Server:
    """A simulated server."""
    name = f"gpu{number:04d}"
    return Server(
        name=name,
        role="gpu",
        model="dgx-h100",
        serial=f"SIM-{number:04d}",
        uuid=f"5d2c1f0a-3a51-5f8e-9a77-{number:012x}",
        bmc_address=f"127.10.{number // 250}.{number % 250 + 1}",
        bmc_mac=port_mac(LAB, name, "bmc"),
        address=f"10.77.{number // 250}.{number % 250 + 1}",
        mac=port_mac(LAB, name, "eth0"),
        ports=(),
        psus=6,
        psus_needed=4,
        psu_rating_w=3300.0,
        input_v=230.0,
        load_w=8000.0,
        bios_version="1.0.0",
        bmc_version="1.0.0",
    )


def kind(number: int) -> str:
    """What a BMC is: good, silent or garbled."""
    return "garbled" if number % GARBLED == 0 else "silent" if number % HANGING == 1 else "good"


def brought(load: Load, own: BmcCredentials, factory: BmcCredentials, journal: Journal) -> str:
    """Where a server stands after the take-over and its inspection: its step, or the name of its stop."""
    server = load.spec

    def connect(credentials: BmcCredentials) -> Bmc:
        return Bmc(server.bmc_address, credentials, CALL_S, name=server.name, serial=server.serial, uuid=server.uuid)

    def no_node() -> Told:
        raise Unreachable(server.name, "ask what its drives hold", "an SSH server", "none", "it has no system yet")

    with contextlib.suppress(DeviceError):  # the inspection says what its BMC is
        take_over(server.name, connect, own, factory)
    delivered = Delivered(server.serial, server.uuid, server.mac)
    target = Target(server.name, "gpu", "0" * 12, "0" * 64, ())
    with connect(own) as bmc:
        doors = Doors(bmc, Nothing(), no_node, None, lambda: True, lambda: None)
        life = Bringing(target, delivered, doors, journal, budgets={"inspect": INSPECT_S}, poll_s=0.1).bring(
            lambda text: None
        )
    return "good" if (life.step, life.stopped) == ("image", "not-offered") else life.stopped.removeprefix("bmc-")


def emulator(paths: LabPaths, loads: Sequence[Load], log: Path) -> "subprocess.Popen[bytes]":
    """The process of all BMCs, once the last of them answers."""
    (paths.root / "bmc").mkdir(exist_ok=True)
    argv = bmc_process.command(paths, (load.spec.bmc_address for load in loads), THREADS)
    env = {**os.environ, "BRINGUP_LAB": LAB, "PYTHONPATH": str(repo_root())}
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log.open("wb"), stderr=subprocess.STDOUT)
    end = time.monotonic() + START_S
    while True:
        try:
            ssl.get_server_certificate((loads[-1].spec.bmc_address, 443), timeout=5)
            return process
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                raise SystemExit(f"the emulator does not answer: {log.read_text()[-500:]}") from None
            time.sleep(0.5)


def main() -> int:
    """Exit status 1 when a server is named as what it is not."""
    parser = argparse.ArgumentParser(prog="python -m bench.bmcs", description=__doc__)
    parser.add_argument("--bmcs", type=int, default=1000)
    count = parser.parse_args().bmcs
    if os.geteuid() != 0:
        print("not run: BMCs need port 443, which needs root")
        return 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BRINGUP_LAB_HOME"] = folder
        return run(count, Path(folder))


def run(count: int, folder: Path) -> int:
    paths = LabPaths(LAB)
    paths.root.mkdir()
    keys.text_secret(paths.secrets / "own")
    keys.text_secret(paths.secrets / "bmc_factory_password")
    own = BmcCredentials("admin", paths.secret("own"), paths.pki / "bmc.pem")
    factory = BmcCredentials("admin", paths.secret("bmc_factory_password"), paths.pki / "bmc.pem")
    loads = {}
    for number in range(count):
        one = spec(number)
        machine = Machine(one.name, one.mac, "", False, (), folder, serial=one.serial, uuid=one.uuid)
        loads[one.name] = Load(one, Power(machine, ""), factory.user, factory.password)
        garbles = [*GARBLED_AS][number // GARBLED % len(GARBLED_AS)] if kind(number) == "garbled" else ""
        loads[one.name].bmc.update(hangs=kind(number) == "silent", garbles=garbles)
    keys.bmc_certificate(paths, [load.spec.bmc_address for load in loads.values()])
    machines = Counted(paths, loads)
    server = PowerServer(machines)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    process = emulator(paths, list(loads.values()), folder / "bmc.log")
    try:
        journal, began = Journal(folder / "lives"), time.monotonic()
        seen = at_once(loads, lambda name: brought(loads[name], own, factory, journal))
        took = time.monotonic() - began
    finally:
        process.terminate()
        process.wait()
        server.shutdown()
    wanted = {name: kind(number) for number, name in enumerate(loads)}
    wrong = {name: (wanted[name], seen[name]) for name in loads if seen[name] != wanted[name]}
    open_still = [name for name, load in loads.items() if wanted[name] == "good" and not closed(load, factory)]
    each = machines.requests / count
    print(
        f"{count:,} BMCs, {WORKERS} at once: {took:.0f} s; {dict(Counter(seen.values()))}, {len(wrong)} named wrongly"
    )
    print(f"{machines.requests:,} requests, {each:.0f} a BMC, {machines.requests / took:.0f} a second")
    real_s = count / WORKERS * each * REAL_ANSWER_S
    print(f"at {REAL_ANSWER_S:g} s an answer, an assumption for a real BMC: {count:,} in {real_s / 60:.1f} min")
    for name, (is_one, said) in wrong.items():
        print(f"{name} is {is_one}, and was called {said or 'nothing'}")
    for name in open_still:
        print(f"{name}: the factory's account is open")
    return int(bool(wrong or open_still))


def closed(load: Load, factory: BmcCredentials) -> bool:
    """Whether the factory's password opens nothing any more."""
    return not accepts(cast(dict[str, dict[str, Any]], load.bmc["accounts"]), factory.user, factory.password)


if __name__ == "__main__":
    sys.exit(main())
