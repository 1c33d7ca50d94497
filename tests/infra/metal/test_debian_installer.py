"""Debian's own installer with what is rendered for it: it gets its lease, its answers and its packages, and asks nothing.

Its programs run in namespaces of this machine, from the initrd that servers start by iPXE, on a segment with the rendered DHCP
and HTTP, and without a way out. It ends where the installer has read what components there are: those need its own kernel.
"""

import contextlib
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.services import boot
from infra.lab.keys import ssh_key
from infra.lab.net import ip
from infra.metal.segment import Network, Segment
from inventory.delivered.assets import load_assets
from inventory.paths import write_file
from inventory.site.whatif import changed
from tests.infra.metal.apt_proxy import AptProxy, run_apt, sources
from tests.soak import INSTALLER_INITRD

START = Path(__file__).with_name("start_installer.sh")
SUITE, PROXY_PORT = "bookworm", 3142
SEGMENT, NODE = "installer-segment", "installer-node"
COMPONENTS = f"http://deb.debian.org/debian/dists/{SUITE}/main/debian-installer/binary-amd64/Packages"
"""The list of the installer's components, less the ending of its compression."""
ASKS = "Prompt: '?' for help"
"""What cdebconf's text frontend writes where it waits for an answer."""
INSTALL_S, POLL_S, UNPACK_S = 900.0, 0.5, 120.0
SHOWN = 3000


def test_the_proxy_fetches_each_archive_from_this_machines_own_source() -> None:
    said = (
        "Packages|bookworm|main|http://mirror.example/debian\n"
        "Packages|bookworm|contrib|http://other.example/debian\n"
        "Packages|bookworm-security|main|https://mirror.example/security/\n"
        "Translations|bookworm|main|http://third.example/debian\n"
    )
    assert sources(said, "bookworm") == {
        "http://deb.debian.org/debian/": "http://mirror.example/debian/",
        "http://security.debian.org/debian-security/": "https://mirror.example/security/",
    }
    with pytest.raises(LookupError, match="no source of trixie, trixie-security"):
        sources(said, "trixie")


@contextlib.contextmanager
def node(mac: str) -> Iterator[None]:
    """A namespace whose port has this MAC, joined to the segment's bridge."""
    try:
        ip([f"netns add {NODE}"])
        ip([f"link add node netns {SEGMENT} type veth peer name eth0 address {mac} netns {NODE}"])
        ip(["link set node master br0 up"], SEGMENT)
        ip(["link set lo up"], NODE)
        yield
    finally:
        ip([f"netns delete {NODE}"], force=True)


def arguments(script: str) -> list[str]:
    """The kernel's arguments in an iPXE script."""
    found = re.search(r"^kernel \S+ (.*) \|\| goto failed$", script, re.MULTILINE)
    assert found is not None, script
    return found[1].split()


def render(plan: Plan, found: boot.Intents, key: str, folder: Path) -> dict[str, str]:
    made = boot.files(plan, found, {}, key)
    for name, text in made.items():
        write_file(folder / name, text)
    return made


def run(root: Path, given: list[str], log: Path, proxy: AptProxy) -> str:
    """Run the installer until it has the list of its components, or asks; what it wrote by then."""
    argv = ["ip", "netns", "exec", NODE, "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
    argv += ["sh", str(START), str(root)]
    with log.open("wb") as output:
        process = subprocess.Popen([*argv, *given], stdin=subprocess.PIPE, stdout=output, stderr=output)
    end = time.monotonic() + INSTALL_S
    try:
        while time.monotonic() < end and process.poll() is None:
            said = log.read_text(errors="replace")
            if ASKS in said or any(url.startswith(COMPONENTS) for url in proxy.answered):
                break
            time.sleep(POLL_S)
    finally:
        process.kill()
        process.wait()
    return log.read_text(errors="replace")


@pytest.mark.soak
@pytest.mark.needs("root", "dnsmasq", "cpio", "unshare", "setpriv", "ipxe", "debian-installer")
def test_debians_installer_asks_nothing_until_it_fetches_its_components(tmp_path: Path) -> None:
    address = "10.78.1.1"
    given = ["provisioning.method=preseed", f"provisioning.proxy=http://{address}:{PROXY_PORT}"]
    site = changed("lab-metal", given)
    assets = load_assets(site)
    plan = build(site, assets=assets)
    found = boot.intents(plan, assets)
    ssh_key(tmp_path / "key", "operator")
    public = (tmp_path / "key.pub").read_text()
    made = render(plan, found, public, tmp_path / "boot")
    host = found.servers()[0]
    name = host["mac"].replace(":", "-")

    root = tmp_path / "root"
    root.mkdir()
    with subprocess.Popen(["zcat", INSTALLER_INITRD], stdout=subprocess.PIPE) as unpacked:
        cpio = ["cpio", "--extract", "--make-directories", "--quiet", "--no-absolute-filenames"]
        subprocess.run(cpio, cwd=root, stdin=unpacked.stdout, check=True, timeout=UNPACK_S)
    network = Network(SEGMENT, f"{address}/24", ())
    known = sources(run_apt(), SUITE)
    for left in (NODE, SEGMENT):  # by a run that was killed
        ip([f"netns delete {left}"], force=True)
    with (
        Segment(network, tmp_path / "boot", tmp_path / "state") as segment,
        AptProxy(segment, PROXY_PORT, tmp_path / "packages", known) as proxy,
        node(host["mac"]),
    ):
        said = run(root, arguments(made[f"http/by-mac/{name}.ipxe"]), tmp_path / "installer.log", proxy)

    assert ASKS not in said, f"the installer asks:\n{said[:SHOWN]}"
    syslog = (root / "var/log/syslog").read_text(errors="replace")
    answered = [url for url, refused in proxy.answered.items() if refused is None]
    assert any(url.startswith(COMPONENTS) for url in answered), f"{said[-SHOWN:]}\n{syslog[-SHOWN:]}"
    assert f'DHCP hostname: "{host["device"]}"' in syslog
    assert "Good signature" in syslog
    taken = (root / "var/lib/preseed/log").read_text().splitlines()
    assert set(made[f"http/preseed/{name}.cfg"].splitlines()) <= set(taken)
    shutil.rmtree(root)
