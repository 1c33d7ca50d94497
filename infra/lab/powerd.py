"""Power daemon: owns outlets, BMC latches and all that follows from them. One truth per lab, no shared files.

    python -m infra.lab.powerd LAB      serves LAB's power.sock: one JSON request a line, one reply a line

Model: a supply of a device is alive while the outlet that feeds it is on and its PDU has input. A device has AC while enough of its
supplies live. A switch runs while it has AC. A server runs while it has AC and its BMC's latch is on; losing AC clears
the latch, and when AC returns the restore policy (AlwaysOn, AlwaysOff, LastState) decides. A BMC without any live supply
is off the network. PDU agents and BMCs are clients of the socket. A thread per client, a lock per device; a reply to a
command that cuts power means that the device is dead.
"""

import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from infra.lab import gpus, ib, net, node, pdu, switch
from infra.lab.accounts import account
from infra.lab.bmc_firmware import BIOS_ITEM, BMC_ITEM, Updates, gpu_item
from infra.lab.paths import LabError, LabPaths
from infra.lab.spec import IbSwitch, LabSpec, Server, Switch

RESETS = ("On", "ForceOn", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle")
RESTORE_POLICIES = ("AlwaysOn", "AlwaysOff", "LastState")
PDU_REBOOT_S = 5.0
REAP_S = 2.0
DEATH_BUDGET_S = 5.0
REBOOT_EXIT = 133  # systemd-nspawn --keep-unit leaves with it when its payload asks for a reboot
SEL_MAX = 512
BMC_RESTART_S = 3.0
"""How long a restart of a BMC takes here: made up, so that tests wait seconds where metal takes minutes."""

GARBLED = {
    "page": "with a page that is no Redfish",
    "json": "with broken JSON",
    "cut": "half of what it should, and ends the connection",
    "types": "with values of other types",
}
"""How a BMC may answer what cannot be read (infra/lab/bmc.py), in words."""


class Load(Protocol):
    """What an outlet feeds."""

    def settle(self) -> None: ...
    def watts(self) -> float: ...
    def live(self) -> list[int]: ...
    def view(self) -> dict[str, Any]: ...


class Supplies:
    """Which supplies of a device live, and what each of its outlets carries."""

    def __init__(self, lab: "Lab", device: str, needed: int) -> None:
        self.lab, self.device, self.needed = lab, device, needed
        self.outlets = {
            outlet.psu: (outlet.pdu, outlet.number) for outlet in lab.spec.outlets if outlet.device == device
        }

    def live(self) -> list[int]:
        return sorted(psu for psu, (name, number) in self.outlets.items() if self.lab.pdus[name].feeds(number))

    def has_ac(self) -> bool:
        return len(self.live()) >= self.needed


class SwitchLoad:
    """A switch: on while it has AC, unless it is broken."""

    def __init__(self, lab: "Lab", spec: Switch) -> None:
        self.lab, self.spec = lab, spec
        self.supplies = Supplies(lab, spec.name, spec.psus_needed)
        self.lock = threading.RLock()
        self.process: subprocess.Popen[bytes] | None = None
        self.broken = self.crashed = False
        self.boots = 0

    def live(self) -> list[int]:
        return self.supplies.live()

    def watts(self) -> float:
        return self.spec.load_w if self.process else 0.0

    def settle(self) -> None:
        with self.lock:
            ac = self.supplies.has_ac()
            self.crashed = self.crashed and ac
            wanted = ac and not self.broken and not self.crashed
            if wanted and not self.process:
                self.boots += 1
                self.process = switch.start(self.lab.spec, self.spec, self.lab.nos_version)
                threading.Thread(target=self._watch, args=(self.process,), daemon=True).start()
            elif not wanted and self.process:
                self._cut()

    def _cut(self) -> None:
        process, self.process = self.process, None
        switch.cut(self.lab.spec, self.spec)
        if process:
            process.wait(DEATH_BUDGET_S)

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        """A switch whose PID 1 ended by itself has crashed: dark ports until its power is cycled."""
        process.wait()
        with self.lock:
            if self.process is process:
                self.crashed = True
                self._cut()

    def view(self) -> dict[str, Any]:
        return {
            "name": self.spec.name,
            "kind": "switch",
            "role": self.spec.role,
            "address": self.spec.address,
            "power": "On" if self.process else "Off",
            "ready": switch.is_ready(self.lab.spec, self.spec.name),
            "ac": self.supplies.has_ac(),
            "supplies": self.live(),
            "boots": self.boots,
            "broken": self.broken,
            "watts": round(self.watts()),
        }


class IbSwitchLoad:
    """An InfiniBand switch: its ports have light while it has AC, unless it is broken."""

    def __init__(self, lab: "Lab", spec: IbSwitch) -> None:
        self.lab, self.spec = lab, spec
        self.supplies = Supplies(lab, spec.name, spec.psus_needed)
        self.lock = threading.RLock()
        self.on = self.broken = False

    def live(self) -> list[int]:
        return self.supplies.live()

    def watts(self) -> float:
        return self.spec.load_w if self.on else 0.0

    def settle(self) -> None:
        with self.lock:
            wanted = self.supplies.has_ac() and not self.broken
            if wanted != self.on:
                self.on = wanted
                self.lab.light(self.spec.name, wanted)

    def view(self) -> dict[str, Any]:
        return {
            "name": self.spec.name,
            "kind": "ib_switch",
            "role": self.spec.role,
            "address": "",
            "power": "On" if self.on else "Off",
            "ready": self.on,
            "ac": self.supplies.has_ac(),
            "supplies": self.live(),
            "boots": int(self.on),
            "broken": self.broken,
            "watts": round(self.watts()),
        }


def bmc_as_delivered(spec: Server, user: str, password: str, must_change: bool = False) -> dict[str, Any]:
    """What a server's BMC remembers when it comes from the factory, with the factory's account.

    must_change: it does nothing for that account before its password is changed, as the BMCs of most makers since 2020.
    """
    return {
        "restore": "LastState",
        "boot": {"target": "None", "enabled": "Disabled", "mode": "UEFI"},
        "bios": {
            "BootMode": "Uefi",
            "SriovGlobalEnable": "Disabled",
            "ProcPwrPerf": "OsControlled",
            "LogicalProc": "Enabled",
            "SubNumaCluster": "Disabled",
        },
        "bios_pending": {},
        "firmware": {BIOS_ITEM: spec.bios_version, BMC_ITEM: spec.bmc_version, **dict(spec.components)},
        "firmware_pending": {},
        "updates": {},
        "update_hangs": False,
        "accounts": {"1": {**account(user, password), "must_change": must_change}},
        "indicator": False,
        "ntp": {"ProtocolEnabled": False, "NTPServers": []},
        "ipmi": True,
        "log_servers": [],
        "asset_tag": "",
        "serial": spec.serial,
        "uuid": spec.uuid,
        "hides_marker": False,
        "hangs": False,
        "garbles": "",
        "sel": [],
    }


def bmc_update(bmc: dict[str, Any], key: str, value: Any) -> None:
    """Change what a BMC remembers; a mapping is merged into the one there, except accounts, which is replaced."""
    if key not in bmc:
        raise LabError(f"a BMC keeps no {key}")
    if isinstance(bmc[key], dict) and key != "accounts":
        bmc[key].update(value)
    else:
        bmc[key] = value


class ServerLoad:
    """A server and what its BMC remembers."""

    def __init__(self, lab: "Lab", spec: Server) -> None:
        self.lab, self.spec = lab, spec
        self.supplies = Supplies(lab, spec.name, spec.psus_needed)
        self.lock = threading.RLock()
        self.process: subprocess.Popen[bytes] | None = None
        self.latch = self.last = self.had_ac = self.restart = self.os_running = False
        self.on_network, self.bmc_restarts = True, False
        self.known_live = sorted(self.supplies.outlets)
        self.boots, self.booted_from, self.since = 0, "None", time.time()
        self.ready_after_s: float | None = None
        self.bmc = bmc_as_delivered(spec, lab.spec.bmc_factory_user, lab.paths.secret("bmc_factory_password"))
        self.updates = Updates(spec.name, self.bmc, self.lock, self.log, self._shown_by_gpus)

    def live(self) -> list[int]:
        return self.supplies.live()

    def watts(self) -> float:
        if not self.live():
            return 0.0
        return self.spec.load_w if self.process else self.spec.standby_w

    def log(self, message: str, severity: str = "OK") -> None:
        """Append to the system event log, which keeps its newest entries."""
        entries = self.bmc["sel"]
        number = entries[-1]["id"] + 1 if entries else 1
        entries.append({"id": number, "created": time.time(), "message": message, "severity": severity})
        del entries[:-SEL_MAX]

    def settle(self) -> None:
        """Follow supplies and latch. On return the server has been started or is dead."""
        with self.lock:
            live, ac = self.live(), self.supplies.has_ac()
            if live and not self.known_live:
                self.updates.bmc_starts()
            for psu in sorted(set(self.known_live) ^ set(live)):
                gone = psu in self.known_live
                self.log(f"Power supply {psu} input {'lost' if gone else 'restored'}", "Critical" if gone else "OK")
            self.known_live = live
            if self.had_ac and not ac:
                self.last, self.latch = self.latch, False
            elif ac and not self.had_ac:
                self.latch = {"AlwaysOn": True, "AlwaysOff": False, "LastState": self.last}[self.bmc["restore"]]
            self.had_ac = ac
            answers = bool(live) and not self.bmc_restarts
            if answers != self.on_network:
                self.on_network = answers
                interface = net.short(f"{self.spec.name}.bmc")
                net.ip([f"link set {interface} {'up' if answers else 'down'}"], self.lab.spec.namespace("standby"))
            if self.latch and not self.process:
                self._start()
            elif not self.latch and self.process:
                self._cut()

    def _start(self) -> None:
        boot = self.bmc["boot"]
        self.booted_from = boot["target"] if boot["enabled"] != "Disabled" and boot["target"] != "None" else "Hdd"
        if boot["enabled"] == "Once":
            boot.update(enabled="Disabled", target="None")
        self.bmc["bios"].update(self.bmc["bios_pending"])  # settings take effect at a boot, as on metal
        self.bmc["bios_pending"] = {}
        self.updates.host_starts()
        self.os_running, self.restart, self.ready_after_s = False, False, None
        listener = node.notify_socket(self.lab.spec, self.spec)
        try:
            self.process = node.start(self.lab.spec, self.spec, self.booted_from)
        except BaseException:
            listener.close()
            node.cut(self.lab.spec, self.spec)
            raise
        self.boots, self.since = self.boots + 1, time.time()
        self.log(f"System power on, boot from {self.booted_from}")
        threading.Thread(target=self._listen, args=(listener, self.process), daemon=True).start()
        threading.Thread(target=self._watch, args=(self.process,), daemon=True).start()
        self.lab.light(self.spec.name, True)

    def _cut(self) -> None:
        process, self.process = self.process, None
        self.os_running = False
        try:
            self.lab.light(self.spec.name, False)
        finally:
            node.cut(self.lab.spec, self.spec)
            if process:
                process.wait(DEATH_BUDGET_S)
            if any(adapter.device == self.spec.name for adapter in self.lab.spec.adapters):
                self.lab.reap()
            self.since = time.time()
            self.log("System power off")

    def _listen(self, listener: socket.socket, process: "subprocess.Popen[bytes]") -> None:
        """Hear from systemd inside that its default target is reached."""
        with listener:
            listener.settimeout(0.5)
            while process.poll() is None:
                with contextlib.suppress(TimeoutError):
                    if b"READY=1" in listener.recv(4096) and self.process is process:
                        self.os_running, self.ready_after_s = True, round(time.time() - self.since, 3)
                        return

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        """The system went down by itself: poweroff, reboot or crash."""
        code = process.wait()
        with self.lock:
            if self.process is process:
                try:
                    self._cut()
                except LabError as problem:  # nobody waits for this thread: the log hears of it
                    print(f"{self.spec.name}: {problem}", flush=True)
                self.latch = code == REBOOT_EXIT or self.restart
                self.restart = False
                self.settle()

    def reset(self, kind: str) -> None:
        """A Redfish reset. LabError for an unknown type, or without AC."""
        with self.lock:
            if kind not in RESETS:
                raise LabError(f"reset type {kind} is not one of {', '.join(RESETS)}")
            if not self.supplies.has_ac() and kind != "ForceOff":
                raise LabError(
                    f"{self.spec.name} has no AC power: {len(self.live())} of {self.spec.psus} supplies live"
                )
            if kind in ("GracefulShutdown", "GracefulRestart"):
                if self.process:
                    self.restart = kind == "GracefulRestart"
                    self.process.send_signal(signal.SIGTERM)  # nspawn turns it into an orderly shutdown
                return
            if kind in ("ForceRestart", "PowerCycle"):
                self.latch = False
                self.settle()
            self.latch = kind != "ForceOff"
            self.settle()

    def _shown_by_gpus(self, new: Mapping[str, str]) -> None:
        """The driver reads a GPU's new firmware as well."""
        for gpu in self.spec.gpus:
            if version := new.get(gpu_item(gpu.slot)):
                gpus.change(self.lab.paths.hardware(self.spec.name), gpu.index, {"vbios": version})

    def reset_bmc(self) -> None:
        """Restart the BMC: it is off the network for BMC_RESTART_S, and the server goes on."""
        with self.lock:
            self.updates.bmc_starts()
            self.bmc_restarts = True
            self.settle()
            timer = threading.Timer(BMC_RESTART_S, self._bmc_is_back)
            timer.daemon = True
            timer.start()

    def _bmc_is_back(self) -> None:
        with self.lock:
            self.bmc_restarts = False
            self.settle()

    def view(self) -> dict[str, Any]:
        return {
            "name": self.spec.name,
            "kind": "server",
            "role": self.spec.role,
            "address": self.spec.address,
            "bmc_address": self.spec.bmc_address,
            "bmc_mac": self.spec.bmc_mac,
            "mac": self.spec.mac,
            "ports": list(self.spec.ports),
            "model": self.spec.model,
            "power": "On" if self.process else "Off",
            "ready": self.os_running,
            "ready_after_s": self.ready_after_s,
            "cpus": self.spec.cpus,
            "memory_gib": self.spec.memory_gib,
            "ac": self.supplies.has_ac(),
            "supplies": self.live(),
            "psus": self.spec.psus,
            "psus_needed": self.spec.psus_needed,
            "psu_rating_w": self.spec.psu_rating_w,
            "input_v": self.spec.input_v,
            "watts": round(self.watts()),
            "boots": self.boots,
            "booted_from": self.booted_from,
            "since": self.since,
            **self.bmc,
        }


class Lab:
    """All loads and PDUs of a lab, and the operations of the socket."""

    def __init__(self, name: str) -> None:
        self.paths = LabPaths(name)
        self.spec = LabSpec.from_json(self.paths.spec.read_text())
        self.nos_version = switch.nos_version()
        self.pdus = pdu.factory_states(self.spec)
        self.switches = {item.name: SwitchLoad(self, item) for item in self.spec.switches}
        self.servers = {item.name: ServerLoad(self, item) for item in self.spec.servers}
        self.ib_switches = {item.name: IbSwitchLoad(self, item) for item in self.spec.ib_switches}
        self.loads: dict[str, Load] = {**self.switches, **self.ib_switches, **self.servers}
        self.dark: set[str] = set()
        self.lighting = threading.Lock()
        self.reaper = ib.Reaper(self.spec, self.paths)
        self.reboots: dict[tuple[str, int], threading.Timer] = {}
        """Outlets that a reboot switches on again, unless another command comes first."""
        self.background = concurrent.futures.ThreadPoolExecutor(8)
        self.operations: dict[str, Callable[..., Any]] = {
            "view": self.view,
            "reset": self.reset,
            "update": self.update,
            "sel_clear": self.sel_clear,
            "begin_update": self.begin_update,
            "reset_bmc": self.reset_bmc,
            "pdu_readings": self.pdu_readings,
            "pdu_set": self.pdu_set,
            "pdu_update": self.pdu_update,
            "pdu_input": self.pdu_input,
            "break_switch": self.break_switch,
            "pid": os.getpid,
            "kept": self.kept,
        }

    # ---- operations ----------------------------------------------------------------------------------------
    def view(self, device: str = "") -> Any:
        """One device's state, or all of them by name."""
        if device:
            return self.loads[device].view()
        return {name: load.view() for name, load in self.loads.items()}

    def reset(self, device: str, kind: str) -> None:
        self.servers[device].reset(kind)

    def update(self, device: str, key: str, value: Any) -> None:
        """Change what a BMC remembers; a mapping is merged into the one there, except accounts, which is replaced."""
        server = self.servers[device]
        with server.lock:
            bmc_update(server.bmc, key, value)

    def sel_clear(self, device: str) -> None:
        server = self.servers[device]
        with server.lock:
            server.bmc["sel"] = []
            server.log("System event log cleared")

    def begin_update(self, device: str, versions: dict[str, str], refused: str) -> str:
        return self.servers[device].updates.begin(versions, refused)

    def reset_bmc(self, device: str) -> None:
        self.servers[device].reset_bmc()

    def outlet_watts(self, name: str) -> dict[int, float]:
        """Load of every outlet of a PDU: a device's draw, shared equally by its live supplies."""
        state, watts = self.pdus[name], dict[int, float]()
        for number, outlet in state.outlets.items():
            load = self.loads.get(outlet.device)
            live = load.live() if load else []
            watts[number] = load.watts() / len(live) if load and state.feeds(number) and outlet.psu in live else 0.0
        return watts

    def pdu_readings(self, pdu: str) -> dict[str, int | str]:
        """Every reading of a PDU, by READING/INDEX."""
        return self.pdus[pdu].readings(self.outlet_watts(pdu))

    def pdu_set(self, pdu: str, what: str, index: int, value: str) -> None:
        state = self.pdus[pdu]
        if what == "control":
            self._switch_outlet(pdu, index, state.command(int(value)))
        else:
            state.write(what, index, value)

    def _switch_outlet(self, name: str, number: int, command: int) -> None:
        state = self.pdus[name]
        if command not in (pdu.ON, pdu.OFF, pdu.REBOOT):
            raise LabError(f"{command} is no outlet command")
        if (waiting := self.reboots.pop((name, number), None)) is not None:
            waiting.cancel()
        state.on[number] = command == pdu.ON
        if command == pdu.REBOOT:
            self.reboots[name, number] = threading.Timer(PDU_REBOOT_S, self._switch_outlet, (name, number, pdu.ON))
            self.reboots[name, number].start()
        load = self.loads.get(state.outlets[number].device)
        if load is None:
            return
        if state.on[number]:
            self.background.submit(self._settled, load)  # a boot takes its time, a relay does not wait for it
        else:
            load.settle()

    def _settled(self, load: Load) -> None:
        try:
            load.settle()
        except (LabError, OSError, subprocess.SubprocessError) as problem:
            print(f"{load}: {problem}", file=sys.stderr, flush=True)

    def pdu_update(self, pdu: str, serial: str | None = None, hides_marker: bool | None = None) -> None:
        """Change what a PDU says it is (for faults)."""
        if serial is not None:
            self.pdus[pdu].serial = serial
        if hides_marker is not None:
            self.pdus[pdu].hides_marker = hides_marker

    def light(self, device: str, on: bool) -> None:
        """Switch the light of a device's InfiniBand ports. A cable has light when both its ends have."""
        if device not in self.ib_switches and not any(a.device == device for a in self.spec.adapters):
            return
        with self.lighting:
            self.dark ^= {device} & self.dark if on else {device} - self.dark
            ib.power(self.spec, device, on, self.dark)

    def reap(self) -> None:
        """Free what dead clients hold of the InfiniBand simulator."""
        try:
            freed = self.reaper.reap(self._leader)
        except (LabError, OSError) as problem:
            print(f"reap: {problem}", flush=True)
        else:
            if freed:
                print(f"reap: places {freed} of dead clients freed", flush=True)

    def keep_reaping(self) -> None:
        while True:
            time.sleep(REAP_S)
            self.reap()

    def _leader(self, device: str) -> int | None:
        return node.leader_pid(self.spec, device) if device in self.servers else None

    def pdu_input(self, pdu: str, live: bool) -> None:
        """Give or take a PDU's input: without it the PDU is off the network and all its outlets are dead."""
        state = self.pdus[pdu]
        state.has_input = live
        net.ip([f"link set {net.short(pdu)} {'up' if live else 'down'}"], self.spec.namespace("standby"))
        fed = dict.fromkeys(outlet.device for outlet in state.outlets.values())
        for load in [self.loads[device] for device in fed if device in self.loads]:
            if live:
                self.background.submit(self._settled, load)
            else:
                load.settle()

    def break_switch(self, device: str, broken: bool) -> None:
        load = self.switches.get(device) or self.ib_switches[device]
        with load.lock:
            load.broken = broken
            load.settle()

    def kept(self) -> dict[str, Any]:
        """What BMCs and PDUs would keep without power: everything that a saved lab needs (snapshot.py)."""
        return {
            "servers": {name: {"on": load.latch, "bmc": load.bmc} for name, load in self.servers.items()},
            "pdus": {name: state.kept() for name, state in self.pdus.items()},
        }

    def recall(self, kept: dict[str, Any]) -> None:
        """Start from what `kept` returned: servers that ran boot again."""
        for name, server in kept["servers"].items():
            load = self.servers[name]
            load.bmc.update(server["bmc"])
            load.bmc["updates"] = {}
            load.latch, load.had_ac = bool(server["on"]), True
        for name, state in kept["pdus"].items():
            self.pdus[name].recall(state)

    # ---- the rest ------------------------------------------------------------------------------------------
    def call(self, request: dict[str, Any]) -> Any:
        operation = self.operations.get(str(request.pop("op", "")))
        if operation is None:
            raise LabError(f"no such operation; there are {', '.join(sorted(self.operations))}")
        return operation(**request)


class Handler(socketserver.StreamRequestHandler):
    server: "PowerServer"

    def handle(self) -> None:
        for line in self.rfile:
            try:
                reply = {"ok": self.server.lab.call(json.loads(line))}
            except Exception as problem:  # noqa: BLE001  the client must hear of it, and the daemon goes on
                reply = {"error": f"{type(problem).__name__}: {problem}"}
            try:
                self.wfile.write(json.dumps(reply).encode() + b"\n")
            except BrokenPipeError:  # the client's time budget ended first
                return


class Serves(Protocol):
    """What the socket asks."""

    paths: LabPaths

    def call(self, request: dict[str, Any]) -> Any: ...


class PowerServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, lab: Serves) -> None:
        super().__init__(str(lab.paths.power_socket), Handler)
        self.lab = lab


def main(name: str) -> None:
    lab = Lab(name)
    if lab.paths.power_saved.exists():
        lab.recall(json.loads(lab.paths.power_saved.read_text()))
    lab.paths.power_socket.unlink(missing_ok=True)
    for device in dict.fromkeys([*lab.ib_switches, *(adapter.device for adapter in lab.spec.adapters)]):
        lab.light(device, False)  # the simulator begins with light everywhere
    with PowerServer(lab) as server:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda load: load.settle(), lab.loads.values()))  # AC arrives everywhere
        if lab.spec.ib_switches:
            threading.Thread(target=lab.keep_reaping, daemon=True).start()
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
