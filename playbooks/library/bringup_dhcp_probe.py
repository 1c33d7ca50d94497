#!/usr/bin/python3
"""Ansible module: which DHCP servers answer an unknown MAC on the segment of an address (RFC 2131).

The role boot_server installs it as a program too: `bringup-dhcp-probe ADDRESS` prints the servers as JSON. `pulumi up` calls it
before it starts a server from the network.
"""

import contextlib
import json
import secrets
import socket
import struct
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

with contextlib.suppress(ImportError):  # the program needs nothing of Ansible
    from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bringup_dhcp_probe
short_description: DHCP servers that answer an unknown MAC
description:
  - Sends DHCPDISCOVER from a random MAC, as a broadcast on the interface that has the address, and lists who offers an address.
    No address is taken. A boot server of the plan answers listed MACs only, so that each answer is another server's.
options:
  address: {description: Address of this machine on the segment., type: str, required: true}
  wait_s: {description: Seconds in which answers are waited for., type: float, default: 3.0}
"""
RETURN = r"""
servers:
  description: C(server) (its address), C(offered) (the address that it offers) and C(mac) of each that answered, by address.
  type: list
  returned: always
"""
COOKIE = b"\x63\x82\x53\x63"
DISCOVER, OFFER = 1, 2
MESSAGE_TYPE, SERVER_ID, END, PAD = 53, 54, 255, 0
IP_BUDGET_S = 10
WAIT_S = 3.0
ARP_S = 1.0
"""Linux asks for a neighbour once a second (arp(7), retrans_time_ms)."""
DISCARD = 9
"""UDP port of the discard protocol (RFC 863): what is sent there is of no use to anybody but for its ARP."""


@dataclass(frozen=True)
class Offer:
    """What a server offers."""

    server: str
    offered: str
    mac: str = ""


def discover(transaction: bytes, mac: bytes) -> bytes:
    """DHCPDISCOVER: operation 1 on Ethernet, with the broadcast flag, since nobody has an address to answer to."""
    head = struct.pack("!BBBB4sHH16x16s64x128x", 1, 1, 6, 0, transaction, 0, 0x8000, mac.ljust(16, b"\0"))
    return head + COOKIE + bytes([MESSAGE_TYPE, 1, DISCOVER, END])


def offer(packet: bytes, transaction: bytes) -> Offer | None:
    """The offer in a packet that answers this transaction; None for anything else."""
    if len(packet) < 241 or packet[0] != 2 or packet[4:8] != transaction or packet[236:240] != COOKIE:
        return None
    options: dict[int, bytes] = {}
    at = 240
    while at < len(packet) and packet[at] != END:
        if packet[at] == PAD:
            at += 1
            continue
        if at + 1 >= len(packet):
            return None
        length = packet[at + 1]
        options[packet[at]] = packet[at + 2 : at + 2 + length]
        at += 2 + length
    server = options.get(SERVER_ID, b"")
    if options.get(MESSAGE_TYPE) != bytes([OFFER]) or len(server) != 4:
        return None
    return Offer(socket.inet_ntoa(server), socket.inet_ntoa(packet[16:20]))


def interface_of(said: str, address: str) -> str:
    """The interface that has an address, from `ip -o -4 addr`; '' for none."""
    for line in said.splitlines():
        cells = line.split()
        if len(cells) > 3 and cells[3].partition("/")[0] == address:
            return cells[1]
    return ""


def mac_of(said: str, address: str) -> str:
    """The MAC of a neighbour, from `ip -4 neigh`; '' where it is not known."""
    for line in said.splitlines():
        cells = line.split()
        if cells[:1] == [address] and "lladdr" in cells:
            return cells[cells.index("lladdr") + 1]
    return ""


def neighbour(address: str) -> str:
    """MAC of a machine on the segment; '' where it does not tell. Who has only sent a broadcast is asked for it by ARP."""
    end = time.monotonic() + ARP_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as poke, contextlib.suppress(OSError):
        poke.sendto(b"", (address, DISCARD))
    while not (mac := mac_of(ip("-4", "neigh"), address)) and time.monotonic() < end:
        time.sleep(0.05)
    return mac


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True, timeout=IP_BUDGET_S)
    return done.stdout


def ask(interface: str, wait_s: float) -> list[Offer]:
    """Everybody who offers an address within the time."""
    transaction = secrets.token_bytes(4)
    mac = bytes([0x02]) + secrets.token_bytes(5)
    found: dict[str, tuple[str, str]] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        link.bind(("", 68))
        link.sendto(discover(transaction, mac), ("255.255.255.255", 67))
        end = time.monotonic() + wait_s
        while (left := end - time.monotonic()) > 0:
            link.settimeout(left)
            try:
                packet, sender = link.recvfrom(4096)
            except TimeoutError:
                break
            said = offer(packet, transaction)
            if said is not None:
                found[said.server] = (said.offered, sender[0])
    made = [Offer(server, offered, neighbour(sender)) for server, (offered, sender) in found.items()]
    return sorted(made, key=lambda one: socket.inet_aton(one.server))


def program(address: str) -> int:
    """The servers on standard output; exit status 1 with a message where they cannot be asked for."""
    try:
        interface = interface_of(ip("-o", "-4", "addr"), address)
        if not interface:
            raise OSError(f"no interface has the address {address}")
        print(json.dumps([asdict(server) for server in ask(interface, WAIT_S)]))
    except (OSError, subprocess.SubprocessError) as error:
        print(f"DHCP cannot be asked: {error}", file=sys.stderr)
        return 1
    return 0


def main() -> None:
    module = AnsibleModule(
        argument_spec={"address": {"type": "str", "required": True}, "wait_s": {"type": "float", "default": WAIT_S}},
        supports_check_mode=True,
    )
    address = module.params["address"]
    interface = interface_of(ip("-o", "-4", "addr"), address)
    if not interface:
        module.fail_json(msg=f"no interface has the address {address}: the plan gives it to this machine")
    try:
        servers = ask(interface, module.params["wait_s"])
    except OSError as error:
        module.fail_json(msg=f"{interface}: DHCP cannot be asked: {error}")
    module.exit_json(changed=False, servers=[asdict(server) for server in servers])


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.exit(program(sys.argv[1]))
    main()
