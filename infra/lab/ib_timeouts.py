"""The time-outs that the kernel's MAD layer has and the simulator's client library has not.

    python -m infra.lab.ib_timeouts ADDRESS      runs in the namespace of the simulator that has this address

ibsim answers for switches and adapters by itself and says at once when a datagram finds no way. But a request for another
client, and that is what subnet managers send each other, may find a client that starts, ends or hangs: on hardware its
sender's kernel gives up (opensm: transaction_timeout 200 ms, transaction_retries 3), over umad2sim nobody does, and opensm
waits for ever in the middle of a sweep. So this hears what passes between clients and simulator, and tells the sender of a
request without an answer what ibsim tells one without a way: the same datagram with status 110, ETIMEDOUT.

A datagram is ibsim's `struct sim_request` (include/ibsim.h): dlid, slid, dqp, sqp, status (4 bytes each, 4 of padding),
length (8), then the MAD of 256 bytes. A client with place N talks to UDP port PORT + 1 + N.
"""

import ctypes
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass

from infra.lab.ib import PLACES, PORT

TIMEOUT_S = 2.0
"""Twice what opensm waits with its retries (4 x 200 ms): nodes of a lab share the processors of one machine."""
POLL_S = 0.25

SIZE, MAD = 288, 32
STATUS = slice(16, 20)
METHOD, TRANSACTION, ATTRIBUTE = MAD + 3, slice(MAD + 8, MAD + 16), slice(MAD + 16, MAD + 18)
GET, SET, TRAP, REPLY = 0x01, 0x02, 0x05, 0x80
NOTICE, SM_INFO = 0x0002, 0x0020
TIMED_OUT = struct.pack(">I", 110)

_IP, _UDP = 20, 8
_SO_ATTACH_FILTER = 26
_ETH_P_ALL = 0x0003  # a socket for IPv4 alone hears nothing of what leaves
_IPV4_PLAIN = 0x45  # version 4, header without options

Endpoint = tuple[str, int]
Request = tuple[Endpoint, int, int, int]
"""Sender, its place, attribute, and the half of the transaction that the sender chose."""


@dataclass
class Outstanding:
    """Requests that wait for an answer: what passes the simulator goes in, what timed out comes out."""

    server: str
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        self.waiting: dict[Request, tuple[float, bytes]] = {}

    def saw(self, source: Endpoint, target: Endpoint, datagram: bytes, now_s: float) -> None:
        """Take note of a datagram between a client and the simulator; others are no concern of this."""
        if len(datagram) != SIZE:
            return
        method = datagram[METHOD]
        attribute, transaction = int.from_bytes(datagram[ATTRIBUTE]), int.from_bytes(datagram[TRANSACTION]) & 0xFFFFFFFF
        if target[0] == self.server:
            if method in (GET, SET, TRAP) and attribute in (NOTICE, SM_INFO):
                key = (source, target[1] - PORT - 1, attribute, transaction)
                self.waiting[key] = (now_s + self.timeout_s, datagram)
        elif source[0] == self.server and (method & REPLY or datagram[STATUS] != bytes(4)):
            self.waiting.pop((target, source[1] - PORT - 1, attribute, transaction), None)

    def overdue(self, now_s: float) -> list[tuple[Endpoint, int, bytes]]:
        """(client, UDP port of its place, datagram that says so) of requests whose time is up; they are forgotten."""
        late = [key for key, (end_s, _) in self.waiting.items() if end_s <= now_s]
        return [(key[0], PORT + 1 + key[1], _timed_out(self.waiting.pop(key)[1], key[1])) for key in late]


def _timed_out(datagram: bytes, place: int) -> bytes:
    """As ibsim returns what finds no way: status, and the client's place on top of the transaction."""
    made = bytearray(datagram)
    made[STATUS] = TIMED_OUT
    made[TRANSACTION.start : TRANSACTION.start + 2] = place.to_bytes(2)
    return bytes(made)


def packet(source: Endpoint, target: Endpoint, payload: bytes) -> bytes:
    """An IPv4 packet with a UDP datagram; the kernel fills in length, identity and checksum of the IP header."""
    udp = struct.pack(">HHHH", source[1], target[1], _UDP + len(payload), 0)  # checksum 0: none
    head = struct.pack(
        ">BBHHHBBH4s4s",
        0x45,
        0,
        0,
        0,
        0,
        64,
        socket.IPPROTO_UDP,
        0,
        socket.inet_aton(source[0]),
        socket.inet_aton(target[0]),
    )
    return head + udp + payload


def parse(seen: bytes) -> tuple[Endpoint, Endpoint, bytes] | None:
    """(source, target, payload) of a UDP packet without IP options; None for any other."""
    if len(seen) < _IP + _UDP or seen[0] != _IPV4_PLAIN or seen[9] != socket.IPPROTO_UDP:
        return None
    source_port, target_port = struct.unpack(">HH", seen[_IP : _IP + 4])
    source, target = socket.inet_ntoa(seen[12:16]), socket.inet_ntoa(seen[16:20])
    return (source, source_port), (target, target_port), seen[_IP + _UDP :]


def _listener() -> socket.socket:
    """All packets of the namespace, in and out, that may be a notice or an SMInfo: the kernel drops the rest."""
    attribute = _IP + _UDP + ATTRIBUTE.start
    program = [
        (0x30, 0, 0, 0),  # load the first byte
        (0x15, 0, 6, _IPV4_PLAIN),
        (0x30, 0, 0, 9),  # load the IP protocol
        (0x15, 0, 4, socket.IPPROTO_UDP),
        (0x28, 0, 0, attribute),  # load the MAD's attribute; a shorter packet is dropped here
        (0x15, 1, 0, SM_INFO),
        (0x15, 0, 1, NOTICE),
        (0x06, 0, 0, 0xFFFF),  # take it
        (0x06, 0, 0, 0),  # drop it
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    made = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
    made.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(program), ctypes.addressof(code)))
    return made


def main(server: str) -> None:
    heard, out = _listener(), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    places = range(PORT + 1, PORT + 1 + PLACES)
    outstanding = Outstanding(server)
    while True:
        ready, _, _ = select.select([heard], [], [], POLL_S)
        if ready and (found := parse(heard.recv(2048))) is not None:
            source, target, payload = found
            if (target if target[0] == server else source)[1] in places:
                outstanding.saw(source, target, payload, time.monotonic())
        for client, port, datagram in outstanding.overdue(time.monotonic()):
            out.sendto(packet((server, port), client, datagram), (client[0], 0))
            print(f"a request of {client[0]}:{client[1]} found no answer within {TIMEOUT_S:g} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
