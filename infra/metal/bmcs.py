"""BMCs of the demo's machines: the lab's Redfish emulator (infra/lab/bmc.py, sushy-tools), with QEMU behind it.

    with Bmcs(paths, segment, {"gpu001": Load(spec, power, password)}):     one address each, on the segment
        Bmc(spec.bmc_address, …).power("On")

A machine that restarts by itself is started again, from its drives unless the BMC says otherwise; QEMU ends at a restart, and the
console of the kernel says which of the two it was. What a BMC remembers is kept in a file where its `Load` is given one.
"""

import functools
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from infra.lab import bmc_process
from infra.lab.bmc_firmware import Updates
from infra.lab.client import ask
from infra.lab.paths import LabError, LabPaths, lab_home, write_private
from infra.lab.powerd import BMC_RESTART_S, RESETS, PowerServer, bmc_as_delivered, bmc_update
from infra.lab.spec import Server
from infra.metal.machines import From, Power
from infra.metal.segment import Segment
from inventory.paths import repo_root

RESTARTS = b"reboot: Restarting system"
"""Last words of a Linux kernel on its console when it restarts the machine (kernel/reboot.c)."""
LAST_BYTES = 4096
ANSWER_S = 90.0
"""For the emulator to answer: it imports in 3 s on an idle machine."""
THREADS = 4
"""Of the emulator, for each BMC: one that hangs holds one for each of its clients."""
STARTS: Mapping[str, From] = {"Pxe": "network", "Cd": "cd"}
"""By BootSourceOverrideTarget; others start the drives."""
AT_A_START: Mapping[str, Any] = {"updates": {}, "hangs": False, "garbles": "", "update_hangs": False}
"""What a BMC does not remember: updates under way, and faults of the demo."""


class Load:
    """A machine and what its BMC remembers: as delivered, or as `memory` says, which an earlier run has kept.

    must_change: its factory account can do nothing but change its password.
    """

    def __init__(
        self,
        spec: Server,
        power: Power,
        factory_user: str,
        factory_password: str,
        memory: Path | None = None,
        *,
        must_change: bool = False,
    ) -> None:
        self.spec, self.power = spec, power
        self.lock = threading.RLock()
        self.boots, self.booted_from = 0, "None"
        self.bmc = {**bmc_as_delivered(spec, factory_user, factory_password, must_change), "cd": ""}
        self.memory = memory
        if memory is not None and memory.exists():
            self.bmc.update(json.loads(memory.read_text()), **AT_A_START)
        self.updates = Updates(spec.name, self.bmc, self.lock, changed=lambda versions: self.keep())
        self.network: Callable[[bool], None] = lambda on: None
        """Puts the BMC on the network or takes it off."""

    def keep(self) -> None:
        """Write what the BMC remembers, with the hashes of its accounts: after each change, so that a run that is killed does not
        bring back what was changed.
        """
        if self.memory is not None:
            with self.lock:
                write_private(self.memory, json.dumps(self.bmc, indent=1) + "\n")

    def reset(self, kind: str) -> None:
        """A Redfish reset. LabError for an unknown type. Machines have no power button that their system hears."""
        if kind not in RESETS:
            raise LabError(f"reset type {kind} is not one of {', '.join(RESETS)}")
        with self.lock:
            if kind not in ("On", "ForceOn"):
                self.power.off()
            if kind not in ("ForceOff", "GracefulShutdown") and not self.power.is_on:
                self._start()
            self.keep()

    def reset_bmc(self) -> None:
        """Restart the BMC: it is off the network for BMC_RESTART_S, and the server goes on."""
        self.updates.bmc_starts()
        self.network(False)
        timer = threading.Timer(BMC_RESTART_S, self.network, (True,))
        timer.daemon = True
        timer.start()

    def view(self) -> dict[str, Any]:
        """What the emulator shows of it."""
        with self.lock:
            return {
                "kind": "server",
                "name": self.spec.name,
                "role": self.spec.role,
                "address": self.spec.address,
                "bmc_address": self.spec.bmc_address,
                "bmc_mac": self.spec.bmc_mac,
                "mac": self.power.machine.mac,
                "model": self.spec.model,
                "power": "On" if self.power.is_on else "Off",
                "ready": self.power.is_on,
                "cpus": self.spec.cpus,
                "memory_gib": self.spec.memory_gib,
                "ac": True,
                "supplies": list(range(1, self.spec.psus + 1)),
                "psus": self.spec.psus,
                "psus_needed": self.spec.psus_needed,
                "psu_rating_w": self.spec.psu_rating_w,
                "input_v": self.spec.input_v,
                "watts": round(self.spec.load_w if self.power.is_on else self.spec.standby_w),
                "boots": self.boots,
                "booted_from": self.booted_from,
                **self.bmc,
            }

    def _start(self) -> None:
        boot = self.bmc["boot"]
        cd = Path(self.bmc["cd"]) if self.bmc["cd"] else None
        start = STARTS.get(boot["target"], "disk") if boot["enabled"] != "Disabled" else "disk"
        if start == "cd" and cd is None:  # firmware goes on with its next boot device
            start = "disk"
        if boot["enabled"] == "Once":
            boot.update(enabled="Disabled", target="None")
        self.bmc["bios"].update(self.bmc["bios_pending"])  # settings take effect at a boot, as on metal
        self.bmc["bios_pending"] = {}
        self.updates.host_starts()
        self.power.on(start, cd)
        self.boots, self.booted_from = self.boots + 1, start
        threading.Thread(
            target=self._watch, args=(self.power.process, self.power.machine.console(start)), daemon=True
        ).start()

    def _watch(self, process: "subprocess.Popen[bytes]", console: Path) -> None:
        """The machine ended by itself: a restart or the end."""
        process.wait()
        with self.lock:
            if self.power.process is process and restarted(console):
                self._start()


def restarted(console: Path) -> bool:
    """Whether the last words on a console are those of a restart."""
    return console.exists() and RESTARTS in console.read_bytes()[-LAST_BYTES:]


class Machines:
    """What the emulator asks, by operation (infra/lab/powerd.py serves the socket)."""

    def __init__(self, paths: LabPaths, loads: Mapping[str, Load]) -> None:
        self.paths, self.loads = paths, loads
        self.operations: dict[str, Callable[..., Any]] = {
            "view": self.view,
            "reset": self.reset,
            "update": self.update,
            "begin_update": self.begin_update,
            "reset_bmc": self.reset_bmc,
        }

    def view(self, device: str = "") -> Any:
        """One machine's state, or all of them by name."""
        return self.loads[device].view() if device else {name: load.view() for name, load in self.loads.items()}

    def reset(self, device: str, kind: str) -> None:
        self.loads[device].reset(kind)

    def update(self, device: str, key: str, value: Any) -> None:
        """Change what a BMC remembers."""
        with self.loads[device].lock:
            bmc_update(self.loads[device].bmc, key, value)
            self.loads[device].keep()

    def begin_update(self, device: str, versions: dict[str, str], refused: str) -> str:
        return self.loads[device].updates.begin(versions, refused)

    def reset_bmc(self, device: str) -> None:
        self.loads[device].reset_bmc()

    def call(self, request: dict[str, Any]) -> Any:
        operation = self.operations.get(str(request.pop("op", "")))
        if operation is None:
            raise LabError(f"no such operation; there are {', '.join(sorted(self.operations))}")
        return operation(**request)


class Bmcs:
    """The BMCs for as long as the block lasts. The segment is up."""

    def __init__(self, paths: LabPaths, segment: Segment, loads: Mapping[str, Load]) -> None:
        self.paths, self.segment, self.machines = paths, segment, Machines(paths, loads)

    def __enter__(self) -> "Bmcs":
        self.paths.power_socket.parent.mkdir(parents=True, exist_ok=True)
        self.paths.power_socket.unlink(missing_ok=True)
        self.server = PowerServer(self.machines)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        addresses = [load.spec.bmc_address for load in self.machines.loads.values()]
        self.segment.serve_addresses(addresses)
        for load in self.machines.loads.values():
            load.network = functools.partial(self.segment.serve_address, load.spec.bmc_address)
        (self.paths.root / "bmc").mkdir(exist_ok=True)
        argv = bmc_process.command(self.paths, addresses, THREADS * len(addresses))
        env = {"BRINGUP_LAB": self.paths.name, "BRINGUP_LAB_HOME": str(lab_home()), "PYTHONPATH": str(repo_root())}
        env["TMPDIR"] = str(self.paths.root / "bmc")  # where the emulator puts a CD that is inserted
        self.segment.start(argv, self.segment.state / "bmc.log", {**os.environ, **env})
        self._wait(addresses)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
        for load in self.machines.loads.values():
            load.keep()

    def _wait(self, addresses: list[str]) -> None:
        """Until each BMC takes connections."""
        ask(self.paths.name, op="view")
        end = time.monotonic() + ANSWER_S
        for address in addresses:
            test = self.segment.enter(["bash", "-c", f"exec 3<>/dev/tcp/{address}/443"])
            while subprocess.run(test, check=False, capture_output=True).returncode:
                if time.monotonic() > end:
                    raise LabError(f"the BMC at {address} does not answer: {self.segment.state / 'bmc.log'}")
                time.sleep(0.5)
