"""The probe for other DHCP servers: what it sends and understands, and a real server that it finds."""

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.playbooks.support import PLAYBOOKS, load

probe: Any = load("library/bringup_dhcp_probe.py")
XID = b"\x01\x02\x03\x04"
NETNS = f"bringup-probe-{os.getpid()}"  # of a run that was killed, one may be left


def answer(options: bytes, transaction: bytes = XID, operation: int = 2) -> bytes:
    addresses = bytes(4) + bytes([10, 9, 0, 7]) + bytes(8)
    head = struct.pack("!BBBB4sHH16s16x64x128x", operation, 1, 6, 0, transaction, 0, 0, addresses)
    return head + probe.COOKIE + options


GOOD = bytes([53, 1, 2, 0, 54, 4, 10, 9, 0, 1, 255])


def test_a_discover_has_the_form_of_rfc_2131():
    packet = probe.discover(XID, b"\x02\0\0\0\0\x09")
    assert packet[:4] == bytes([1, 1, 6, 0])
    assert packet[4:8] == XID
    assert packet[10:12] == b"\x80\x00"
    assert packet[28:34] == b"\x02\0\0\0\0\x09"
    assert packet[236:] == b"\x63\x82\x53\x63" + bytes([53, 1, 1, 255])


def test_an_offer_names_its_server_and_the_offered_address():
    assert probe.offer(answer(GOOD), XID) == probe.Offer("10.9.0.1", "10.9.0.7")


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        answer(GOOD, transaction=b"\0\0\0\0"),
        answer(GOOD, operation=1),
        answer(bytes([53, 1, 5, 54, 4, 10, 9, 0, 1, 255])),
        answer(bytes([53, 1, 2, 255])),
        answer(bytes([53, 1, 2, 54])),
        answer(bytes([53, 1, 2, 54, 4, 10])),
    ],
)
def test_what_is_no_offer_to_this_question_is_none(packet):
    assert probe.offer(packet, XID) is None


@given(st.binary(max_size=400))
def test_no_packet_breaks_the_probe(data):
    found = probe.offer(answer(data), XID)
    assert found is None or found.offered == "10.9.0.7"


def test_the_interface_is_the_one_that_has_the_address():
    said = "1: lo    inet 127.0.0.1/8 scope host lo\n2: eth0    inet 10.9.0.2/24 brd 10.9.0.255 scope global eth0\n"
    assert probe.interface_of(said, "10.9.0.2") == "eth0"
    assert probe.interface_of(said, "10.9.0.20") == ""


def test_the_mac_of_a_server_is_that_of_its_neighbour_entry():
    assert probe.mac_of("10.9.0.1 dev eth0 lladdr 02:00:00:00:00:01 REACHABLE\n", "10.9.0.1") == "02:00:00:00:00:01"
    assert probe.mac_of("10.9.0.1 dev eth0 FAILED\n", "10.9.0.1") == ""


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[Path]:
    """Two ends of a wire in two namespaces: a DHCP server of somebody else's on one, the probe on the other."""
    for line in (
        f"netns add {NETNS}",
        f"netns add {NETNS}-rogue",
        f"link add probe0 netns {NETNS} type veth peer name rogue0 netns {NETNS}-rogue",
        f"-n {NETNS} addr add 10.9.0.2/24 dev probe0",
        f"-n {NETNS} link set probe0 up",
        f"-n {NETNS}-rogue addr add 10.9.0.1/24 dev rogue0",
        f"-n {NETNS}-rogue link set rogue0 up",
    ):
        subprocess.run(["ip", *line.split()], check=True, timeout=10)
    yield tmp_path
    for name in (NETNS, f"{NETNS}-rogue"):
        subprocess.run(["ip", "netns", "delete", name], check=True, timeout=10)


def rogue_mac() -> str:
    """MAC of the other server's interface."""
    argv = ["ip", "-n", f"{NETNS}-rogue", "-j", "link", "show", "rogue0"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=10)
    return str(json.loads(done.stdout)[0]["address"])


def printed() -> str:
    """What the program prints."""
    argv = ["ip", "netns", "exec", NETNS, sys.executable, str(PLAYBOOKS / "library/bringup_dhcp_probe.py"), "10.9.0.2"]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


def asked() -> str:
    code = f"import runpy; m = runpy.run_path({str(PLAYBOOKS / 'library/bringup_dhcp_probe.py')!r}); print(m['ask']('probe0', 5.0))"
    argv = ["ip", "netns", "exec", NETNS, sys.executable, "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_the_program_needs_nothing_of_ansible_and_names_an_address_that_the_machine_lacks():
    argv = [sys.executable, "-S", str(PLAYBOOKS / "library/bringup_dhcp_probe.py"), "192.0.2.1"]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=60, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    )
    assert done.returncode == 1
    assert done.stderr == "DHCP cannot be asked: no interface has the address 192.0.2.1\n"


@pytest.mark.lab
@pytest.mark.needs("dnsmasq", "root")
def test_a_rogue_server_is_found_with_its_mac_and_one_that_knows_its_clients_is_not(segment):
    base = [
        "ip",
        "netns",
        "exec",
        f"{NETNS}-rogue",
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--port=0",
    ]
    base += [f"--dhcp-leasefile={segment}/leases", "--user=root", "--no-ping", "--log-facility=-"]
    for options, said in (
        (["--dhcp-range=10.9.0.100,10.9.0.110"], "Offer(server='10.9.0.1', offered='10.9.0.1"),
        (["--dhcp-range=10.9.0.0,static", "--dhcp-ignore=tag:!known"], "[]"),
    ):
        server = subprocess.Popen([*base, *options], stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        for line in server.stderr:
            if "DHCP, " in line:
                break
        time.sleep(0.2)
        try:
            assert said in asked()
            assert [one["server"] for one in json.loads(printed())] == (["10.9.0.1"] if said != "[]" else [])
            assert all(one["mac"] == rogue_mac() for one in json.loads(printed()))
        finally:
            server.kill()
            server.wait()
