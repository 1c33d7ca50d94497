"""The lab's InfiniBand fabric: ibsim as all switches and adapters, and what a node has of an adapter.

ibsim (Debian: ibsim-utils) speaks management datagrams for a whole fabric; it has no data path. It runs in a namespace
of its own on the provisioning network, where nodes reach it by UDP: its clients are the tools inside the nodes, which
take `libumad2sim.so` in place of the kernel's /dev/infiniband/umad. What a node with an adapter gets as its hardware:

    LIBRARY              the library, read-only
    /usr/local/sbin/*    a wrapper per tool of infiniband-diags, and for opensm: library, adapter and server by
                         environment, then the real tool. The search path of logins and of systemd has this folder first.

Adapters have light while their server runs, and a switch while it has power; powerd says so through `power`. The
simulator's console is a FIFO: Unlink, ReLink, Link and counters are written to it.

ibsim has places for ten clients (IBSIM_MAX_CLIENTS), and a client that is killed, or whose server loses its power, keeps
its place: `Reaper` frees it. Requests between clients time out as `ib_timeouts` does it.
"""

import os
import re
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from infra.lab import net
from infra.lab.paths import LabError, LabPaths
from infra.lab.spec import Adapter, Cable, LabSpec

DAEMON = "ibsim"
NAMESPACE = "ibsim"
PORT = 7070  # ibsim's own default
PLACES = 10  # IBSIM_MAX_CLIENTS of ibsim
TIMEOUTS = "ibtimeouts"
HOST_LIBRARY = Path("/usr/lib")  # <multiarch triplet>/umad2sim/libumad2sim.so
LIBRARY = "/usr/lib/umad2sim/libumad2sim.so"
RATE = "4xHDR"  # the fastest that ibsim knows
TOOLS = (
    "ibnetdiscover",
    "iblinkinfo",
    "ibqueryerrors",
    "ibstat",
    "ibstatus",
    "ibping",
    "ibroute",
    "ibtracert",
    "perfquery",
    "saquery",
    "sminfo",
    "smpquery",
    "dump_lfts",
)
DAEMONS = ("opensm",)
CONSOLE_BUDGET_S = 5.0
ANSWER_BUDGET_S = 1.0
# The simulator has ten places for clients: a tool that finds none tries again.
ONCE = """\
exec 3>&1
for _ in 1 2 3 4 5 6 7 8; do
    said=$(export LD_PRELOAD=$library; exec "$tool" "$@" 2>&1 >&3)
    status=$?
    case $said in *'connect failed'*) sleep 0.5 ;; *) break ;; esac
done
[ -z "$said" ] || printf '%s\\n' "$said" >&2
exit $status
"""
"""A check of the fabric asks each port by a process of its own: the shell starts the tool and no other program."""
SETTLE_S = 0.05
END_OF_ANSWER = "# end of answer"  # the simulator says comments again
CLIENT = re.compile(r"Client (\d+): pid (\d+) connected at \"([^\"]+)\"[^\n]*?( SM)?\s*$", re.MULTILINE)


def library() -> Path:
    """The simulator's client library on this machine. LabError when it is not installed."""
    found = sorted(HOST_LIBRARY.glob("*/umad2sim/libumad2sim.so"))
    if not found:
        raise LabError("libumad2sim.so is missing: run `make setup` (package libumad2sim0)")
    return found[0]


def node_guid(adapter: Adapter) -> int:
    """Node GUID of an adapter; ibsim gives its first port the next number, which is the GUID in the asset list."""
    return int(adapter.guid, 16) - 1


def net_file(spec: LabSpec) -> str:
    """The fabric as ibsim reads it. Both ends list a cable, and the comment behind it sets the rate."""
    far = _far_ends(spec.ib_cables, spec)
    parts = []
    for switch in spec.ib_switches:
        parts.append(_node("switch", switch.guid, f'Switch {switch.ports} "{switch.name}"', far.get(switch.name, {})))
    for adapter in spec.adapters:
        parts.append(_node("ca", f"{node_guid(adapter):016x}", f'Ca 1 "{adapter.label}"', far.get(adapter.label, {})))
    return "\n".join(parts)


def _node(kind: str, guid: str, head: str, far: Mapping[int, tuple[str, int]]) -> str:
    lines = [f"sysimgguid=0x{guid}", f"{kind}guid=0x{guid}", head]
    lines += [f'[{port}] "{other}"[{other_port}] # lid 0 {RATE}' for port, (other, other_port) in sorted(far.items())]
    return "\n".join(lines) + "\n"


def place(spec: LabSpec, device: str, port: str) -> tuple[str, int]:
    """(ibsim's name of the node, port number) of an end of a compute cable."""
    for adapter in spec.adapters:
        if (adapter.device, adapter.port) == (device, port):
            return adapter.label, 1
    return device, int(port.lstrip("abcdefghijklmnopqrstuvwxyz"))


def _far_ends(cables: Iterable[Cable], spec: LabSpec) -> dict[str, dict[int, tuple[str, int]]]:
    far: dict[str, dict[int, tuple[str, int]]] = {}
    for cable in cables:
        one, other = (place(spec, *end) for end in cable.ends)
        far.setdefault(one[0], {})[one[1]] = other
        far.setdefault(other[0], {})[other[1]] = one
    return far


# ---- the simulator --------------------------------------------------------------------------------------------------
def build(spec: LabSpec) -> None:
    """The simulator's namespace, with its address on the provisioning network."""
    namespace, management = spec.namespace(NAMESPACE), spec.namespace(spec.management_switch.name)
    net.ip([f"netns add {namespace}"])
    net.ip(
        [
            f"link add fabric type veth peer name {NAMESPACE} netns {management}",
            f"address add {spec.provisioning.cidr(spec.ib_address)} dev fabric",
            "link set lo up",
            "link set fabric up",
        ],
        namespace,
    )
    net.ip([f"link set {NAMESPACE} up", f"link set {NAMESPACE} master prov"], management)


def start(spec: LabSpec, paths: LabPaths, env: Mapping[str, str]) -> dict[str, "subprocess.Popen[bytes]"]:
    """Start ibsim with all adapters dark, and what times its requests out; `env` is that of the lab's own programs.

    Its console must always have a writer: it ends at end of file.
    """
    folder = paths.root / DAEMON
    folder.mkdir(exist_ok=True)
    (folder / "net").write_text(net_file(spec))
    console(paths).unlink(missing_ok=True)
    os.mkfifo(console(paths), 0o600)
    ports = sum(switch.ports + 1 for switch in spec.ib_switches) + 2 * len(spec.adapters)
    size = ["-N", len(spec.ib_switches) + len(spec.adapters) + 1, "-S", len(spec.ib_switches) + 1, "-P", ports + 1]
    command = ["ibsim", "-r", "-s", *map(str, size), str(folder / "net")]
    script = f'exec <>"{console(paths)}"; exec "$@"'
    inside = net.enter(spec.namespace(NAMESPACE))
    simulator = net.spawn(
        f"{spec.scope}/{DAEMON}",
        [*inside, "sh", "-c", script, "sh", *command],
        paths.logs / f"{DAEMON}.log",
        cwd=folder,
        nice=net.DEVICE_NICE,
    )
    timeouts = net.spawn(
        f"{spec.scope}/{TIMEOUTS}",
        [*inside, sys.executable, "-m", "infra.lab.ib_timeouts", spec.ib_address],
        paths.logs / f"{TIMEOUTS}.log",
        env=env,
        cwd=folder,
        nice=net.DEVICE_NICE,
    )
    return {DAEMON: simulator, TIMEOUTS: timeouts}


def is_ready(paths: LabPaths) -> bool:
    """Whether the simulator has read its fabric."""
    log = paths.logs / f"{DAEMON}.log"
    return log.exists() and "simulator ready" in log.read_text(errors="replace")


def console(paths: LabPaths) -> Path:
    return paths.root / DAEMON / "console"


def tell(spec: LabSpec, *commands: str) -> None:
    """Write console commands; LabError when no simulator reads them."""
    end = time.monotonic() + CONSOLE_BUDGET_S
    text = "".join(f"{command}\n" for command in commands).encode()
    while True:
        try:
            descriptor = os.open(console(LabPaths(spec.name)), os.O_WRONLY | os.O_NONBLOCK)
        except OSError as problem:
            if time.monotonic() > end:
                raise LabError(f"the InfiniBand simulator does not read its console: {problem.strerror}") from None
            time.sleep(SETTLE_S)
            continue
        try:
            os.write(descriptor, text)
        finally:
            os.close(descriptor)
        return


def power(spec: LabSpec, device: str, on: bool, dark: Collection[str]) -> None:
    """Light on or off at a server's adapters or at a switch. dark: all devices without light, this one included."""
    commands = [f'{"ReLink" if on else "Unlink"} "{name}"' for name in _nodes(spec, device)]
    if on:  # ReLink lights both ends
        near = {
            end
            for cable in spec.ib_cables
            for end in (cable.a_device, cable.b_device)
            if device in (cable.a_device, cable.b_device)
        }
        commands += [f'Unlink "{name}"' for other in sorted(near & set(dark)) for name in _nodes(spec, other)]
    tell(spec, *commands)


def _nodes(spec: LabSpec, device: str) -> list[str]:
    """The simulator's names of a device's nodes: one per adapter of a server, one for a switch."""
    return [adapter.label for adapter in spec.adapters if adapter.device == device] or [device]


class Client(NamedTuple):
    """A client of the simulator: its place, its device, the adapter that it stands for, its own UDP port."""

    place: int
    device: str
    port: str
    udp: int
    manages: bool


class Reaper:
    """Frees the simulator's places that dead clients hold.

    A place has a UDP socket, which stays connected to its last client. One whose client's port is bound no longer is
    either free or leaked; ibsim tells which when it is asked. A leaked place is given to nobody else, so that it is safe
    to free it by number. But freeing the place of a subnet manager takes the port's IsSM flag, also from a new manager
    that has started on it: a server's places are freed before it boots again, and such a place is left.
    """

    def __init__(self, spec: LabSpec, paths: LabPaths) -> None:
        self.spec, self.paths = spec, paths
        self.devices = {server.address: server.name for server in spec.servers}
        self.judged: set[tuple[str, int]] = set()
        """Clients known to be gone from their places."""
        self.lock = threading.Lock()

    def reap(self, alive: Callable[[str], int | None]) -> list[int]:
        """Free all places of dead clients and return them. alive: device -> PID of a process in it, None when off."""
        with self.lock:
            return self._reap(alive)

    def _reap(self, alive: Callable[[str], int | None]) -> list[int]:
        simulators = net.cgroup_pids(f"{self.spec.scope}/{DAEMON}")
        if not simulators:
            return []
        last = {remote for _, remote in _udp(min(simulators)) if remote[1]}
        bound = {
            (address, local[1])
            for address in {address for address, _ in last}
            if (pid := alive(self.devices.get(address, ""))) is not None
            for local, _ in _udp(pid)
        }
        self.judged &= last - bound
        if last - bound <= self.judged:
            return []
        dead = {(self.devices.get(address, ""), port) for address, port in last - bound}
        clients = self.clients()
        managed = {client.port for client in clients if client.manages and (client.device, client.udp) not in dead}
        leaked = [
            client.place
            for client in clients
            if (client.device, client.udp) in dead and not (client.manages and client.port in managed)
        ]
        if leaked:
            tell(self.spec, *(f"X {place}" for place in leaked))
        self.judged = last - bound
        return leaked

    def clients(self) -> list["Client"]:
        """The clients that the simulator counts."""
        log = self.paths.logs / f"{DAEMON}.log"
        before = log.stat().st_size
        marker = f"{END_OF_ANSWER} {time.monotonic_ns()}"  # a late answer must not end the next one
        tell(self.spec, "Attached", marker)
        end = time.monotonic() + ANSWER_BUDGET_S
        while True:
            with log.open("rb") as file:
                file.seek(before)
                answer = file.read().decode(errors="replace")
            if marker in answer:
                found = CLIENT.findall(answer)
                return [
                    Client(int(place), label.split()[0], label, int(udp), bool(sm)) for place, udp, label, sm in found
                ]
            if time.monotonic() > end:
                raise LabError(f"the InfiniBand simulator named not all its clients within {ANSWER_BUDGET_S:g} s")
            time.sleep(SETTLE_S)


def _udp(pid: int) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """(local, remote) addresses and ports of all UDP sockets in a process's network; none when the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/net/udp").read_text().splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [(_endpoint(fields[1]), _endpoint(fields[2])) for fields in map(str.split, lines)]


def _endpoint(text: str) -> tuple[str, int]:
    """'0F01610A:A29A' -> ('10.97.1.15', 41626): the kernel writes the address as a native integer."""
    address, port = text.split(":")
    return socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16)


# ---- a node's adapter -----------------------------------------------------------------------------------------------
def seed(spec: LabSpec, device: str, disk: Path) -> None:
    """Give a node's disk the tools' way to its adapters; nothing where it has none."""
    own = [adapter for adapter in spec.adapters if adapter.device == device]
    if not own:
        return
    folder = disk / "usr/local/sbin"
    folder.mkdir(parents=True, exist_ok=True)
    for tool in TOOLS:
        _script(folder / tool, _wrapper(spec, own, f"/usr/sbin/{tool}", "run"))
    for daemon in DAEMONS:
        _script(folder / daemon, _wrapper(spec, own, f"/usr/sbin/{daemon}", "exec"))


def binds(spec: LabSpec, device: str) -> list[str]:
    """nspawn's read-only binds for a node's adapters: the library, as a driver would be."""
    if not any(adapter.device == device for adapter in spec.adapters):
        return []
    return [f"{library()}:{LIBRARY}"]


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _wrapper(spec: LabSpec, own: list[Adapter], tool: str, how: str) -> str:
    """A tool over the simulated adapter. `-C mlx5_3` chooses an adapter, as with real ones; the first by default.

    The library makes a folder in the working directory, named by process.
    """
    host = own[0].device
    return textwrap.dedent(f"""\
        #!/bin/sh
        # SIMULATED InfiniBand adapters of a lab node: {tool} over ibsim.
        tool={tool}
        [ -x "$tool" ] || {{ echo "$tool: not found" >&2; exit 127; }}
        ca={own[0].rdma_device}
        if [ "$1" = -C ]; then ca=$2; shift 2; fi
        cd /run/ibsim 2>/dev/null || {{ mkdir -p /run/ibsim && cd /run/ibsim; }} || exit 1
        export SIM_HOST="{host} $ca" IBSIM_SERVER_NAME={spec.ib_address} IBSIM_SERVER_PORT={PORT}
        library={LIBRARY}
        """) + ('export LD_PRELOAD=$library\nexec "$tool" "$@"\n' if how == "exec" else ONCE)
