"""Kernel objects of a lab: network namespaces, bridges, cables and control groups. All carry the lab's scope as prefix.

root namespace                 <uplink>-oob, <uplink>-prv: the operator's workstation, .1 of both networks
bringup-LAB-<switch>           one per switch, there even when it has no power; the management switch holds the
                               bridges `oob` and `prov`, which nothing routes between
bringup-LAB-standby            what lives on standby power: PDUs and BMCs, one interface each
bringup-LAB-<server>           while the server runs; otherwise its ports wait in
bringup-LAB-bay                as <server>.<port>, down
cgroup bringup-LAB/<device>    every process of a device, bringup-LAB/<daemon> those of the lab itself
"""

import contextlib
import ipaddress
import itertools
import os
import re
import subprocess
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from infra.lab.paths import LabError
from infra.lab.spec import Cable, LabSpec, port_mac

IP_BUDGET_S = 30.0
KILL_BUDGET_S = 10.0
SWITCH_MTU = 9216  # what Ethernet switch ports take by default on Cumulus Linux and SONiC
HOST_MTU = 1500
NETNS = Path("/run/netns")
LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
IFNAME_MAX = 15  # IFNAMSIZ less its terminating zero


def ip(lines: Iterable[str], namespace: str = "", *, force: bool = False) -> None:
    """Run one `ip -batch`. With force, a failing line does not stop the others and is not an error."""
    argv = ["ip", *(["-n", namespace] if namespace else []), *(["-force"] if force else []), "-batch", "-"]
    done = subprocess.run(
        argv, input="\n".join(lines) + "\n", text=True, capture_output=True, check=False, timeout=IP_BUDGET_S
    )
    if done.returncode and not force:
        raise LabError(f"{' '.join(argv)}: {done.stderr.strip()}")


def namespaces(spec_scope: str) -> list[str]:
    """The lab's namespaces that exist now."""
    return sorted(path.name for path in NETNS.glob(f"{spec_scope}-*")) if NETNS.is_dir() else []


def short(name: str) -> str:
    """An interface name: the name itself, or its start and a digest where it is too long for the kernel."""
    if len(name) <= IFNAME_MAX:
        return name
    return f"{name[:8]}~{zlib.crc32(name.encode()) & 0xFFFFFF:06x}"


def port_place(spec: LabSpec, device: str, port: str, *, running: bool | None = None) -> tuple[str, str]:
    """(namespace, interface) of a port. For a server's port, `running` is looked up when it is not given."""
    kind = spec.kind(device)
    if kind == "switch":
        return spec.namespace(device), port
    if kind == "pdu":
        return spec.namespace("standby"), short(device)
    if port == "bmc":
        return spec.namespace("standby"), short(f"{device}.bmc")
    if running is None:
        running = (NETNS / spec.namespace(device)).exists()
    return (spec.namespace(device), port) if running else (spec.namespace("bay"), short(f"{device}.{port}"))


def _port_options(spec: LabSpec, device: str, port: str) -> str:
    kind = spec.kind(device)
    if kind == "pdu":
        mac = spec.pdu(device).mac
    elif kind == "switch":
        mac = spec.switch(device).mac if port == "eth0" else port_mac(spec.name, device, port)
    else:
        server = spec.server(device)
        mac = {"bmc": server.bmc_mac, "eth0": server.mac}.get(port) or port_mac(spec.name, device, port)
    mtu = SWITCH_MTU if kind == "switch" and port != "eth0" else HOST_MTU
    return f"address {mac} mtu {mtu}"


def _bridge(spec: LabSpec, cable: Cable) -> str:
    """The bridge of the management switch that a cable ends on."""
    return (
        "prov"
        if ("eth0" in (cable.a_port, cable.b_port) and any(spec.kind(device) == "server" for device, _ in cable.ends))
        else "oob"
    )


def port_is_up(spec: LabSpec, device: str, port: str) -> bool:
    """Whether the device behind a port has light on it: powered switches, running servers, standby devices."""
    kind = spec.kind(device)
    if kind == "switch":
        return switch_is_running(spec, device)
    return kind == "pdu" or port == "bmc" or (NETNS / spec.namespace(device)).exists()


def switch_is_running(spec: LabSpec, switch: str) -> bool:
    group = CGROUP_ROOTS[-1] / spec.scope / switch / "cgroup.procs"
    return group.exists() and bool(group.read_text().strip())


def plug(spec: LabSpec, cables: Sequence[Cable]) -> None:
    """Create both ends of each cable where their devices are now, up where the device has power."""
    lines, up, masters = [], dict[str, list[str]](), dict[str, list[str]]()
    management = spec.management_switch.name
    for cable in cables:
        ends = []
        for device, port in cable.ends:
            namespace, interface = port_place(spec, device, port)
            ends.append(f"{interface} {_port_options(spec, device, port)} netns {namespace}")
            if port_is_up(spec, device, port):
                up.setdefault(namespace, []).append(f"link set {interface} up")
            if device == management:
                masters.setdefault(namespace, []).append(f"link set {interface} master {_bridge(spec, cable)}")
        lines.append(f"link add {ends[0]} type veth peer name {ends[1]}")
    ip(lines)
    for groups in (masters, up):
        for namespace, batch in groups.items():
            ip(batch, namespace)


def exchange(spec: LabSpec, one: tuple[str, str], other: tuple[str, str]) -> None:
    """Swap the plugs in two ports of switches. The far ends keep all they have configured, as they would on metal."""
    bay = spec.namespace("bay")
    places = {port: port_place(spec, *port) for port in (one, other)}
    for plug_name, (namespace, interface) in zip(("plug-a", "plug-b"), places.values(), strict=True):
        ip([f"link set {interface} down", f"link set {interface} netns {bay} name {plug_name}"], namespace)
    for plug_name, port in (("plug-a", other), ("plug-b", one)):
        _insert(spec, plug_name, port)


def sever(spec: LabSpec, port: tuple[str, str], stump: str) -> None:
    """Pull the plug out of a switch's port: both ends of the cable stay up, without carrier."""
    namespace, interface = port_place(spec, *port)
    bay = spec.namespace("bay")
    ip([f"link set {interface} down", f"link set {interface} netns {bay} name {stump}"], namespace)
    options = _port_options(spec, *port)
    ip([f"link add {interface} {options} netns {namespace} type veth peer name {stump}x netns {bay}"])
    if port_is_up(spec, *port):
        ip([f"link set {interface} up"], namespace)


def rejoin(spec: LabSpec, port: tuple[str, str], stump: str) -> None:
    """Undo sever."""
    namespace, interface = port_place(spec, *port)
    ip([f"link del {interface}"], namespace, force=True)
    _insert(spec, stump, port)


def _insert(spec: LabSpec, plug_name: str, port: tuple[str, str]) -> None:
    """Put a plug that lies in the bay into a switch's port."""
    namespace, interface = port_place(spec, *port)
    ip([f"link set {plug_name} netns {namespace} name {interface}"], spec.namespace("bay"))
    ip([f"link set {interface} {_port_options(spec, *port)}"], namespace)
    if port_is_up(spec, *port):
        ip([f"link set {interface} up"], namespace)


def build(spec: LabSpec) -> None:
    """Namespaces, bridges, uplinks and all cables; every switch and server without power, PDUs and BMCs on the net."""
    management = spec.namespace(spec.management_switch.name)
    standby, bay = spec.namespace("standby"), spec.namespace("bay")
    ip(
        [f"netns add {spec.namespace(switch.name)}" for switch in spec.switches]
        + [f"netns add {standby}", f"netns add {bay}"]
    )
    ip(
        [f"link add {bridge} type bridge forward_delay 0" for bridge in ("oob", "prov")]
        + [f"link set oob address {spec.management_switch.mac}"],
        management,
    )
    uplinks = (("oob", spec.uplink("oob"), spec.oob), ("prov", spec.uplink("prv"), spec.provisioning))
    for bridge, uplink, network in uplinks:
        mac = port_mac(spec.name, "workstation", bridge)
        ip(
            [
                f"link add {uplink} address {mac} type veth peer name ws-{bridge} netns {management}",
                f"address add {network.cidr(network.host)} dev {uplink}",
                f"link set {uplink} up",
            ]
        )
        ip([f"link set ws-{bridge} master {bridge}"], management)
        # A node must not reach the management network through the workstation, whatever the host's own setting is.
        Path(f"/proc/sys/net/ipv4/conf/{uplink}/forwarding").write_text("0")
        Path(f"/proc/sys/net/ipv6/conf/{uplink}/disable_ipv6").write_text("1")
    _standby_sysctls(standby)
    plug(spec, spec.cables)
    lines = ["link set lo up"]
    for server in spec.servers:
        lines.append(f"address add {spec.oob.cidr(server.bmc_address)} dev {short(f'{server.name}.bmc')}")
    for pdu in spec.pdus:
        lines.append(f"address add {spec.oob.cidr(pdu.address)} dev {short(pdu.name)}")
    ip(lines, standby)


def _standby_sysctls(namespace: str) -> None:
    """Many interfaces on one subnet: each answers ARP for its own address only, with its own MAC."""
    script = (
        "cd /proc/sys/net/ipv4/conf; echo 1 >all/arp_ignore; echo 2 >all/arp_announce; echo 0 >all/forwarding; "
        "for file in */rp_filter; do echo 0 >$file; done"
    )
    subprocess.run([*enter(namespace), "sh", "-ec", script], check=True, capture_output=True, timeout=IP_BUDGET_S)


def init_pid(group: str) -> int | None:
    """PID, as the host sees it, of the first process in the PID namespace of a device. Those of its pods are a level below."""
    for pid in cgroup_pids(group):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if re.search(r"^NSpid:\t\d+\t1$", status, re.MULTILINE):
            return pid
    return None


def enter(namespace: str) -> list[str]:
    """argv prefix that runs a program in a namespace. Not `ip netns exec`: that hides /sys/fs/cgroup."""
    return ["nsenter", f"--net={NETNS / namespace}", "--"]


def without(capabilities: Iterable[str | int]) -> list[str]:
    """argv prefix that runs a program, and all that it starts, without these Linux capabilities."""
    names = ",".join(f"-cap_{number}" if isinstance(number, int) else f"-{number}" for number in capabilities)
    return ["setpriv", f"--bounding-set={names}", f"--inh-caps={names}", "--"] if names else []


def join(pid: int) -> list[str]:
    """argv prefix that runs a program in all namespaces of a device, with no capability that its process `pid` lacks."""
    try:
        bounding = re.search(r"^CapBnd:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        bounding = None
    if bounding is None:
        raise LabError(f"process {pid} of a device has ended: look at `bringup lab status`")
    kept = int(bounding[1], 16)
    lacking = [number for number in range(int(LAST_CAPABILITY.read_text()) + 1) if not kept >> number & 1]
    return [*without(lacking), "nsenter", "-t", str(pid), "-a", "--"]


def overlaps(spec: LabSpec) -> str:
    """Why the lab's two networks cannot be put on this machine, or ''."""
    shown = [
        subprocess.run(["ip", "-4", *argv], capture_output=True, text=True, check=True, timeout=IP_BUDGET_S).stdout
        for argv in (["-o", "address", "show"], ["route", "show", "table", "main"])
    ]
    wanted = {"addressing.oob": spec.oob.prefix, "addressing.provisioning": spec.provisioning.prefix}
    return conflict(wanted, shown[0].splitlines(), shown[1].splitlines())


def conflict(wanted: Mapping[str, str], addresses: Iterable[str], routes: Iterable[str]) -> str:
    """The first thing that one of the prefixes {key: prefix} collides with, as a sentence, or ''.

    addresses: lines of `ip -4 -o address show`; routes: lines of `ip -4 route show`. A wider route through a gateway, such as
    that of a VPN, is no obstacle: the lab's own prefix is more specific.
    """
    prefixes = {key: ipaddress.IPv4Network(prefix) for key, prefix in wanted.items()}
    for (key, prefix), (other_key, other) in itertools.combinations(prefixes.items(), 2):
        if prefix.overlaps(other):
            return f"{key} {prefix} and {other_key} {other} overlap"
    taken = []
    for fields in map(str.split, addresses):
        text = fields[fields.index("inet") + 1]
        taken.append((ipaddress.IPv4Interface(text).network, text, f"interface {fields[1]}"))
    for fields in map(str.split, routes):
        if fields[0][0].isdigit() and "dev" in fields:
            device = fields[fields.index("dev") + 1]
            taken.append((ipaddress.IPv4Interface(fields[0]).network, fields[0], f"route via {device}"))
    for network, text, owner in taken:
        for key, prefix in prefixes.items():
            wider = owner.startswith("route") and network != prefix and network.supernet_of(prefix)
            if prefix.overlaps(network) and not wider:
                return f"{key} {prefix} overlaps {text} ({owner}) of this machine"
    return ""


# ---- control groups -------------------------------------------------------------------------------------------------
CONFINING = ("cpuset", "devices", "freezer")
"""Controllers that a node gets a hierarchy of its own in, so that its scheduler can confine jobs as on metal."""


KUBELET = ("cpu", "cpuacct", "memory", "blkio", "pids")
"""What a kubelet makes groups in beside these."""


def _cgroup_roots() -> list[Path]:
    """Hybrid hosts need several hierarchies: systemd in a container looks at the first, jobs are confined by the
    controllers, and cgroup.kill is in the last. On others one hierarchy does it all."""
    names = ("systemd", *CONFINING, "unified")
    hybrid = [path for path in (Path("/sys/fs/cgroup", name) for name in names) if path.is_dir()]
    return hybrid or [Path("/sys/fs/cgroup")]


CGROUP_ROOTS = _cgroup_roots()


def kubelet_roots() -> list[Path]:
    """Where a node that runs containers gets groups of its own: below those that this process is accounted in, never beside them,
    so that a limit of the lab's processes holds for their containers too. Empty on hosts with one hierarchy.
    """
    if len(CGROUP_ROOTS) == 1:
        return []
    rows = (row.split(":", 2) for row in Path("/proc/self/cgroup").read_text().splitlines())
    own = {controller: path for _, controllers, path in rows for controller in controllers.split(",")}
    # powerd, which starts nodes, may itself be in a group of a lab.
    return [
        Path("/sys/fs/cgroup", name) / own.get(name, "/").partition("/bringup-")[0].strip("/")
        for name in KUBELET
        if Path("/sys/fs/cgroup", name).is_dir()
    ]


def groups_of_kubelets(cgroup: str) -> list[Path]:
    """Groups of a lab, or of one of its nodes, among those of kubelets: wherever the process stood that started the lab."""
    scope, _, rest = cgroup.partition("/")
    found = (path for name in KUBELET for path in Path("/sys/fs/cgroup", name).rglob(scope))
    return [path / rest for path in found if (path / rest).is_dir()]


DEVICE_NICE = -10
"""Of the processes that play a device's own electronics: jobs on the nodes do not slow a PDU, a BMC or a switch chip down."""


def of_priority(nice: int) -> str:
    """Shell commands that give a shell and what it starts this priority. The shell has to lead a session: many kernels weigh
    sessions against each other, by a value of their own.
    """
    return f"renice -n {nice} -p $$ >/dev/null 2>&1; [ -w /proc/$$/autogroup ] && echo {nice} >/proc/$$/autogroup;"


def spawn(
    cgroup: str,
    argv: Sequence[str | Path],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    nice: int = 0,
    more: Sequence[Path] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in a control group of its own, in a session of its own, its output appended to `log`.

    `nice` is absolute, and holds against other sessions too where the kernel groups processes by session. `more`: groups below
    which it gets one as well.
    """
    roots = [*CGROUP_ROOTS, *more]
    folders = [root / cgroup for root in roots]
    for root, folder in zip(roots, folders, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        if root.name == "cpuset":
            _lend_processors(root, folder)
    script = "".join(f'echo $$ >"{folder}/cgroup.procs"; ' for folder in folders)
    script += f'{of_priority(nice)} exec "$@"'
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        return subprocess.Popen(
            ["sh", "-c", script, "sh", *map(str, argv)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=cwd,
            env=None if env is None else dict(env),
        )


def _lend_processors(root: Path, folder: Path) -> None:
    """A new group of the cpuset controller (v1) has no processors and takes no process until it is given some."""
    for group in [*reversed(folder.relative_to(root).parents), folder.relative_to(root)][1:]:
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not (root / group / name).read_text().strip():
                (root / group / name).write_text((root / name).read_text())


def cgroup_kill(cgroup: str) -> None:
    """SIGKILL all below a control group in one kernel operation, then remove it. LabError when something stays."""
    with contextlib.suppress(FileNotFoundError):
        (CGROUP_ROOTS[-1] / cgroup / "cgroup.kill").write_text("1")
    end = time.monotonic() + KILL_BUDGET_S
    for group in (*(root / cgroup for root in CGROUP_ROOTS), *groups_of_kubelets(cgroup)):
        for path, _, _ in sorted(os.walk(group), key=lambda entry: -len(entry[0])):
            while os.path.isdir(path):
                try:
                    os.rmdir(path)
                except OSError:  # a dying process is still in it
                    if time.monotonic() > end:
                        raise LabError(f"control group {path} is still busy after {KILL_BUDGET_S:g} s") from None
                    time.sleep(0.01)


def cgroup_pids(cgroup: str) -> set[int]:
    pids: set[int] = set()
    for root in CGROUP_ROOTS:
        for path, _, _ in os.walk(root / cgroup):
            with contextlib.suppress(OSError):
                pids |= set(map(int, (Path(path) / "cgroup.procs").read_text().split()))
    return pids


def namespace_pids(scope: str) -> dict[int, str]:
    """{pid: namespace} of every process whose network namespace is one of the lab's."""
    inodes = {}
    for name in namespaces(scope):
        with contextlib.suppress(OSError):
            inodes[os.stat(NETNS / name).st_ino] = name
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            namespace = inodes.get(os.stat(process / "ns/net").st_ino)
            if namespace:
                found[int(process.name)] = namespace
    return found
