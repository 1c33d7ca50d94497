#!/usr/bin/env python3
"""HTTP for network boot: scripts, images, and what is one server's only to that server.

    boot_server.py --root /srv/bringup/boot/http --leases /var/lib/misc/dnsmasq.leases --reports FILE --listen 10.77.1.1:80

    GET  /boot.ipxe /by-mac/… /images/…                    to anybody
    GET  /plan/MAC… /seed/MAC/… /autoinstall/MAC/… /preseed/MAC… /ztp/MAC/…     to the address that dnsmasq has leased to that MAC
    POST /report/MAC                                       from that address: what a server says of its writing, one line a report

A seed is served until its server reports `written`, then no more: 410, until it is rendered with another content. MACs are written
with hyphens, as iPXE does. Reports are lines of JSON: time, mac, address, state, text, and for `written` the SHA-256 of the seed.
Python 3.11 and nothing else.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

OWN = ("plan", "seed", "autoinstall", "preseed", "ztp")
SEEDS = ("seed", "autoinstall", "preseed")
MAC = re.compile(r"([0-9a-f]{2}(?:-[0-9a-f]{2}){5})(?:\.[a-z]+)?")
STATE = re.compile(r"[a-z][a-z-]{0,30}")
MAX_REPORT = 4096
TIMEOUT_S = 120
"""A client that sends or takes nothing for so long is dropped."""


class BootServer(ThreadingHTTPServer):
    """The server; `root` holds what is served, `leases` is dnsmasq's lease file, `reports` gets the reports."""

    daemon_threads = True

    def __init__(self, listen: tuple[str, int], root: Path, leases: Path, reports: Path) -> None:
        self.root, self.leases, self.reports = root.resolve(), leases, reports
        self.lock = threading.Lock()
        self.used = used_before(reports)
        self.served: dict[str, str] = {}
        super().__init__(listen, Handler)

    def leased(self, address: str) -> str:
        """The MAC, with hyphens, that an address is leased to now; '' for none."""
        try:
            lines = self.leases.read_text().splitlines()
        except FileNotFoundError:
            return ""
        for line in lines:
            cells = line.split()
            if len(cells) >= 3 and cells[2] == address and (cells[0] == "0" or int(cells[0]) > time.time()):
                return cells[1].replace(":", "-")
        return ""

    def record(self, mac: str, address: str, state: str, text: str) -> None:
        """Keep one report; it is on the disk when this returns."""
        said = {"time": time.time(), "mac": mac, "address": address, "state": state, "text": text}
        with self.lock:
            if state == "written":
                said["seed"] = seed = self.served.pop(mac, "") or self.seed_of(mac)
                self.used.setdefault(mac, set()).add(seed)
            with self.reports.open("a+b") as file:
                begin = b"" if file.tell() == 0 else b"\n" * (last_byte(file) != b"\n")
                file.write(begin + json.dumps(said).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

    def seed_of(self, mac: str) -> str:
        """SHA-256 over names and contents of the files that are served to a server until it is written."""
        digest = hashlib.sha256()
        for folder in (self.root / name for name in SEEDS):
            for path in sorted([*(folder / mac).rglob("[!.]*"), folder / f"{mac}.cfg"]):
                if path.is_file():
                    content = hashlib.sha256(path.read_bytes()).hexdigest()
                    digest.update(f"{path.relative_to(self.root)} {content}\n".encode())
        return digest.hexdigest()

    def serve_seed(self, mac: str) -> bool:
        """Whether the seed may be served to its server; it is then the one that a report `written` uses up."""
        seed = self.seed_of(mac)
        with self.lock:
            if seed in self.used.get(mac, ()):
                return False
            self.served[mac] = seed
        return True


def used_before(reports: Path) -> dict[str, set[str]]:
    """By MAC the SHA-256 of seeds that its server was written with. A line that a power cut left half is named and passed over."""
    used: dict[str, set[str]] = {}
    for number, line in enumerate(
        reports.read_text(errors="replace").splitlines() if reports.exists() else [], start=1
    ):
        try:
            said = json.loads(line)
            if said["state"] == "written" and "seed" in said:  # earlier versions did not note it
                used.setdefault(said["mac"], set()).add(said["seed"])
        except (ValueError, KeyError, TypeError):
            print(f"{reports}: line {number} is no report and is passed over", flush=True)
    return used


def last_byte(file: BinaryIO) -> bytes:
    """The last byte of a file that is not empty."""
    file.seek(-1, os.SEEK_END)
    return file.read(1)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: BootServer
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        self.serve(body=True)

    def do_HEAD(self) -> None:
        self.serve(body=False)

    def serve(self, *, body: bool) -> None:
        parts = [part for part in self.path.partition("?")[0].split("/") if part]
        path = self.server.root.joinpath(*parts)
        if not parts or any(part.startswith(".") for part in parts) or self.server.root not in path.resolve().parents:
            return self.say(HTTPStatus.NOT_FOUND, "no such file")
        if parts[0] in OWN:
            mac = self.own_mac(parts[1] if len(parts) > 1 else "")
            if not mac:
                return None
            if parts[0] in SEEDS and path.is_file() and not self.server.serve_seed(mac):
                return self.say(HTTPStatus.GONE, "this seed was used: a consent or another image makes a new one")
        if not path.is_file():
            return self.say(HTTPStatus.NOT_FOUND, "no such file")
        with path.open("rb") as file:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(path.stat().st_size))
            self.end_headers()
            if body:
                shutil.copyfileobj(file, self.wfile, 1 << 20)
        return None

    def do_POST(self) -> None:
        parts = [part for part in self.path.split("/") if part]
        length = self.headers.get("Content-Length", "")
        if len(parts) != 2 or parts[0] != "report" or not length.isdigit() or int(length) > MAX_REPORT:
            self.close_connection = True
            return self.say(HTTPStatus.BAD_REQUEST, f"POST /report/MAC with at most {MAX_REPORT} bytes")
        text = self.rfile.read(int(length)).decode("utf-8", errors="replace")
        mac = self.own_mac(parts[1])
        if not mac:
            return None
        state, _, rest = text.strip().partition(" ")
        if not STATE.fullmatch(state):
            return self.say(HTTPStatus.BAD_REQUEST, "a report begins with the name of a state")
        self.server.record(mac, self.client_address[0], state, "".join(c if c.isprintable() else " " for c in rest))
        return self.say(HTTPStatus.OK, "kept")

    def own_mac(self, name: str) -> str:
        """The MAC that a name stands for, if the client's address is leased to it; otherwise '' and the refusal is sent."""
        match = MAC.fullmatch(name)
        leased = self.server.leased(self.client_address[0])
        if match and match.group(1) == leased:
            return leased
        self.say(HTTPStatus.FORBIDDEN, f"{self.client_address[0]} is leased to {leased or 'nobody'}: not yours")
        return ""

    def say(self, status: HTTPStatus, text: str) -> None:
        data = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        print(f"{self.client_address[0]} {format % args}", flush=True)


def main(argv: list[str]) -> int:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description="HTTP for network boot.")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--leases", type=Path, required=True)
    parser.add_argument("--reports", type=Path, required=True)
    parser.add_argument("--listen", required=True, metavar="ADDRESS:PORT")
    arguments = parser.parse_args(argv)
    address, _, port = arguments.listen.rpartition(":")
    arguments.reports.parent.mkdir(parents=True, exist_ok=True)
    server = BootServer((address, int(port)), arguments.root, arguments.leases, arguments.reports)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
