"""Faults of the demo on the wire and in what is served, each tried on a virtual machine of it, and undone.

with another_dhcp(segment): …                 a DHCP server of somebody else's on the segment
with replaced(file, data): …                  the boot server serves something else under this name
with waiting_seed(folder): …                  cloud-init of the next system waits for a page that the boot server does not have
small(drive)                                  a drive with the serial number of another, too small for the image
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path

from infra.lab.net import ip
from infra.lab.paths import LabError
from infra.metal.machines import Drive
from infra.metal.segment import Segment

ROGUE, ROGUE_ADDRESS, ROGUE_RANGE = "rogue0", "10.78.1.250", "10.78.1.240,10.78.1.249"
"""Interface, address and range of the other DHCP server, in the provisioning network of lab-metal."""
READY_S = 20.0
SMALL_MIB = 512
"""Of a drive that is too small: the image took 755 MiB on 28 November 2026."""
PAGE = "fault/seed-may-end"
SCRIPT = """#!/bin/sh
# A script of the site that waits for a server: the demo's cloud-init that never ends.
until python3 -c 'import urllib.request; urllib.request.urlopen("http://{address}/{page}", timeout=5)' 2>/dev/null; do sleep 2; done
"""


@contextlib.contextmanager
def another_dhcp(segment: Segment) -> Iterator[None]:
    """A DHCP server that answers everybody, in a network namespace of its own, plugged into the segment."""
    inside = segment.network.namespace
    own = f"{inside}-rogue"
    process = None
    try:
        ip([f"netns add {own}"])
        ip([f"link add {ROGUE} netns {own} type veth peer name {ROGUE}x netns {inside}"])
        ip([f"link set {ROGUE}x master br0 up"], inside)
        ip([f"addr add {ROGUE_ADDRESS}/24 dev {ROGUE}", f"link set {ROGUE} up"], own)
        argv = ["ip", "netns", "exec", own, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0"]
        argv += [f"--dhcp-range={ROGUE_RANGE}", f"--dhcp-leasefile={segment.state / 'rogue-leases'}", "--user=root"]
        argv += ["--no-ping", "--log-facility=-", f"--interface={ROGUE}", "--bind-interfaces"]
        log = segment.state / "rogue.log"
        with log.open("wb") as output:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        _until(lambda: b"DHCP, " in log.read_bytes(), f"the other DHCP server does not start: {log}")
        yield
    finally:
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        ip([f"netns delete {own}"], force=True)


@contextlib.contextmanager
def replaced(file: Path, data: bytes) -> Iterator[None]:
    """Other content under the name of a file for as long as the block lasts; the file itself is not written to."""
    kept = file.with_name(f"{file.name}.kept")
    other = file.with_name(f"{file.name}.other")
    os.link(file, kept)
    other.write_bytes(data)
    other.replace(file)
    try:
        yield
    finally:
        kept.replace(file)


def altered(file: Path) -> bytes:
    """A compressed part of an image that unpacks without an error, to other content: its first MiB with one byte changed."""
    with subprocess.Popen(["zstd", "-dcq", str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as unpacked:
        assert unpacked.stdout is not None
        content = bytearray(unpacked.stdout.read(1 << 20))
        unpacked.kill()
    content[len(content) // 2] ^= 1
    done = subprocess.run(
        ["zstd", "-q", "-1", "-c"], input=bytes(content), capture_output=True, check=True, timeout=READY_S
    )
    return done.stdout


def small(drive: Drive) -> Drive:
    """A drive that says the serial number of another one and is too small."""
    made = Drive(drive.serial, drive.file.with_name(f"{drive.serial}-small.raw"))
    with made.file.open("wb") as file:
        file.truncate(SMALL_MIB << 20)
    return made


@contextlib.contextmanager
def waiting_seed(http: Path, user_data: Path, address: str) -> Iterator[Path]:
    """The next seed of a server brings a script that waits for a page: the page, which the caller writes to let it end."""
    page = http / PAGE
    page.unlink(missing_ok=True)
    whole = MIMEMultipart()
    whole.attach(MIMEText(user_data.read_text(), "cloud-config", "utf-8"))
    whole.attach(MIMEText(SCRIPT.format(address=address, page=PAGE), "x-shellscript", "utf-8"))
    with replaced(user_data, whole.as_string().encode()):
        try:
            yield page
        finally:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text("it may\n")


def waits(segment: Segment, address: str, since: int) -> int:
    """How often a node has asked for the page in vain, in what the HTTP server has logged after `since` characters."""
    lines = segment.log_of_http()[since:].splitlines()
    return sum(line.startswith(f"{address} ") and f"/{PAGE} " in line and " 404 " in line for line in lines)


def _until(done: Callable[[], bool], otherwise: str) -> None:
    """Wait until `done()` is true. LabError after READY_S."""
    end = time.monotonic() + READY_S
    while not done():
        if time.monotonic() > end:
            raise LabError(otherwise)
        time.sleep(0.1)
