"""The provisioning network of the demo and its boot server: a namespace with a bridge, dnsmasq, and the role's HTTP server.

dnsmasq runs with the rendered configuration; what is added is where its files lie, and IPv6 router advertisements, without
which iPXE waits 13 s for one.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from capacity.services.boot.collected import Spool, read
from capacity.services.boot.dhcp import BIOS_LOADER, EFI_LOADER, TFTP_ROOT
from capacity.services.boot.files import HTTP
from capacity.services.boot.life import Report
from capacity.services.boot.starting import Offer, parse_offer
from infra.lab.net import IP_BUDGET_S, NETNS, ip
from infra.lab.paths import LabError
from inventory.paths import repo_root
from network.drivers.errors import Unreachable

LOADERS = {BIOS_LOADER: Path("/usr/lib/ipxe/undionly.kpxe"), EFI_LOADER: Path("/usr/lib/ipxe/ipxe.efi")}
HTTP_SERVER = repo_root() / "playbooks/roles/boot_server/files/boot_server.py"
DHCP_PROBE = repo_root() / "playbooks/library/bringup_dhcp_probe.py"
PROBE_S = 60.0
CLONE_NEWNET = 0x40000000
"""setns(2): the descriptor is of a network namespace (linux/sched.h)."""
TOOLS = {
    "dnsmasq": "dnsmasq-base",
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "xorriso": "xorriso",
    "zstd": "zstd",
    "ip": "iproute2",
    "ssh": "openssh-client",
}
"""Program -> Debian package, of the demo; files of `ipxe` and `ovmf` beside them."""


@dataclass(frozen=True)
class Network:
    """Addresses of the segment: of the boot server with prefix length, and the ports of the machines. `inband`: lines of
    `ip -batch` that make the in-band network (infra/metal/inband.py).
    """

    namespace: str
    address: str
    taps: Sequence[str]
    inband: Sequence[str] = ()


class Segment:
    """The segment for as long as the block lasts. The thread of the block, and those that it starts, stand in it. `folder` is what
    `bringup boot render` wrote, `state` what the daemons keep.
    """

    def __init__(self, network: Network, folder: Path, state: Path) -> None:
        self.network, self.folder, self.state = network, folder, state
        self.daemons: list[subprocess.Popen[bytes]] = []

    @property
    def reports_file(self) -> Path:
        return self.state / "reports.jsonl"

    @property
    def dhcp_log(self) -> Path:
        return self.state / "dnsmasq.log"

    def __enter__(self) -> "Segment":
        self.state.mkdir(parents=True, exist_ok=True)
        name = self.network.namespace
        if (NETNS / name).exists():
            raise LabError(f"network namespace {name} exists. Fix: python -m infra.metal --clear")
        loaders = self.state / "tftp"
        loaders.mkdir(exist_ok=True)
        for loader, source in LOADERS.items():
            if not source.exists():
                raise LabError(f"{source} does not exist: apt-get install ipxe")
            shutil.copyfile(source, loaders / loader)
        ip([f"netns add {name}"])
        ip(
            [
                "link set lo up",
                "link add br0 type bridge",
                f"addr add {self.network.address} dev br0",
                "addr add fd77::1/64 dev br0 nodad",
                "link set br0 up",
            ],
            name,
        )
        for tap in self.network.taps:
            ip([f"tuntap add dev {tap} mode tap", f"link set {tap} master br0 up"], name)
        if self.network.inband:
            ip(self.network.inband, name)
            settings = "cd /proc/sys/net/ipv4; echo 1 >ip_forward; for file in conf/*/rp_filter; do echo 0 >$file; done"
            subprocess.run(self.enter(["sh", "-ec", settings]), check=True, capture_output=True, timeout=IP_BUDGET_S)
        self._dnsmasq(loaders)
        self._http()
        self.outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        with (NETNS / name).open() as inside:
            set_namespace(inside.fileno())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_namespace(self.outside)
        os.close(self.outside)
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        ip([f"netns delete {self.network.namespace}"], force=True)

    def enter(self, argv: Sequence[str | Path]) -> list[str]:
        """A command within the segment."""
        return ["ip", "netns", "exec", self.network.namespace, *map(str, argv)]

    def serve_addresses(self, addresses: Sequence[str]) -> None:
        """The boot server answers at these addresses too."""
        ip([f"addr add {address}/32 dev lo" for address in addresses], self.network.namespace)

    def serve_address(self, address: str, on: bool) -> None:
        """Put one of these addresses on the network, or take it off."""
        ip([f"addr {'add' if on else 'del'} {address}/32 dev lo"], self.network.namespace)

    def offers(self) -> dict[str, Offer]:
        """By MAC with hyphens what is served to servers."""
        return {path.stem: parse_offer(path.read_text()) for path in (self.folder / HTTP / "plan").glob("*.env")}

    def reports(self) -> dict[str, Sequence[Report]]:
        """What servers have told the boot server, by MAC with hyphens, in order."""
        return dict(self.spool().reports)

    def spool(self) -> Spool:
        """The same with what is no report in it."""
        return read(self.reports_file.read_text() if self.reports_file.exists() else "", str(self.reports_file))

    def probe(self) -> str:
        """Who else answers DHCP on the segment, as the role's program prints it. Unreachable where it cannot ask."""
        address = self.network.address.partition("/")[0]
        argv = self.enter([sys.executable, DHCP_PROBE, address])
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=PROBE_S, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise Unreachable(
                "boot server", "look for other DHCP servers", "a list", done.stderr.strip(), "look at br0"
            )
        return done.stdout

    def log_of_http(self) -> str:
        """What the HTTP server was asked for, a line a request: address and request."""
        log = self.state / "http.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _dnsmasq(self, loaders: Path) -> None:
        leases = self.state / "leases"
        leases.touch()
        text = (self.folder / "dnsmasq.conf").read_text().replace(TFTP_ROOT, str(loaders))
        text += f"dhcp-range=fd77::,ra-only\nenable-ra\ndhcp-leasefile={leases}\nuser=root\n"
        config = self.state / "dnsmasq.conf"
        config.write_text(text)
        self.start(["dnsmasq", "--keep-in-foreground", f"--conf-file={config}", "--log-facility=-"], self.dhcp_log)

    def _http(self) -> None:
        address = self.network.address.partition("/")[0]
        argv: list[str | Path] = [sys.executable, HTTP_SERVER, "--root", self.folder / "http"]
        argv += ["--leases", self.state / "leases", "--reports", self.reports_file, "--listen", f"{address}:80"]
        self.start(argv, self.state / "http.log")

    def start(self, argv: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        """A program in the segment, which ends with it."""
        with log.open("wb") as output:
            self.daemons.append(
                subprocess.Popen(self.enter(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env)
            )


def set_namespace(descriptor: int) -> None:
    """Put the calling thread into a network namespace, as setns(2) does. OSError where it may not."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
