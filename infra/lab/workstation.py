"""What the operator's workstation offers: a package mirror over HTTP, the time over NTP, and webhooks of alerts and of notices.

python -m infra.lab.workstation LAB     binds only the workstation's address on the provisioning network

Their URLs are the lab's secrets alert_webhook, which Alertmanager alone gets, and notices_webhook, which the first controller gets:
another path is refused. What comes is kept, one JSON object a line with the time of arrival, in the lab's logs/alerts.jsonl and
logs/notices.jsonl.
"""

import functools
import hmac
import http.server
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from infra.lab.keys import WEBHOOK_PORT
from infra.lab.node import GPU_MIRROR, KUBERNETES_MIRROR, MIRROR_PORT
from infra.lab.paths import LabPaths
from infra.lab.spec import LabSpec

NTP_PORT = 123
NTP_EPOCH_OFFSET_S = 2_208_988_800  # 1900-01-01 to 1970-01-01 (RFC 5905, figure 4)
STRATUM = 10  # the usual stratum of a server that follows its own clock
REQUEST_BYTES = 48
CLIENT_BUDGET_S = 10.0  # for a client of the webhook to send what it has
NOTIFICATION_BYTES = 4 << 20
SERVER_MODE, VERSION_4 = 4, 4


def timestamp(seconds: float) -> bytes:
    """NTP's 64-bit timestamp: seconds since 1900 and a 32-bit fraction."""
    whole = int(seconds)
    return struct.pack("!II", (whole + NTP_EPOCH_OFFSET_S) & 0xFFFFFFFF, int((seconds - whole) * 2**32))


def ntp_reply(request: bytes, received: float, sent: float) -> bytes:
    """The answer of a server that follows its own clock (RFC 5905, section 7.3). ValueError for a short request."""
    if len(request) < REQUEST_BYTES:
        raise ValueError(f"an NTP request has {REQUEST_BYTES} bytes or more, not {len(request)}")
    head = struct.pack("!BBbb", VERSION_4 << 3 | SERVER_MODE, STRATUM, request[2], -20)
    root = struct.pack("!II4s", 0, 1 << 6, b"\x7f\x7f\x01\x01")  # delay 0, dispersion 1 ms, reference 127.127.1.1
    return head + root + timestamp(received) + request[40:48] + timestamp(received) + timestamp(sent)


def serve_time(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, NTP_PORT))
        while True:
            request, client = server.recvfrom(1024)
            received = time.time()
            if len(request) >= REQUEST_BYTES:
                server.sendto(ntp_reply(request, received, time.time()), client)


def mirror_handler(debs: str, others: Mapping[str, str]) -> type[http.server.SimpleHTTPRequestHandler]:
    """A handler that serves the folder `debs`, and each of `others`, {name: folder}, as its folder of that name."""

    class Mirror(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            first, _, rest = path.removeprefix("/").partition("/")
            other = others.get(first, "")
            self.directory = other or debs
            return super().translate_path(rest if other else path)

    return Mirror


class Webhooks(http.server.BaseHTTPRequestHandler):
    """Takes JSON by POST at the secret path of each webhook, and appends it to the file of that webhook."""

    timeout = CLIENT_BUDGET_S
    writing = threading.Lock()

    def __init__(self, files: Mapping[str, Path], *arguments: Any) -> None:
        self.files = files
        super().__init__(*arguments)

    def do_POST(self) -> None:
        own = [at for path, at in self.files.items() if hmac.compare_digest(self.path.encode(), path.encode())]
        if not own:
            self.send_error(404, "not a webhook of this lab")
            return
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 < length <= NOTIFICATION_BYTES:
                raise ValueError("of no size that these have")
            notification = json.loads(self.rfile.read(length))
            if not isinstance(notification, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError):
            self.send_error(400, f"a notification is a JSON object of at most {NOTIFICATION_BYTES} bytes")
            return
        with self.writing, own[0].open("a") as file:
            file.write(json.dumps({"received": time.time(), **notification}) + "\n")
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the line of a request would put the secret path into the log."""


def webhook_server(files: Mapping[str, Path]) -> http.server.ThreadingHTTPServer:
    """The server of webhooks, {URL: file}, all of one address: one thread a client, so that one that says nothing keeps no other
    waiting.
    """
    webhook = urlsplit(next(iter(files)))
    at = (str(webhook.hostname), WEBHOOK_PORT if webhook.port is None else webhook.port)
    return http.server.ThreadingHTTPServer(
        at, functools.partial(Webhooks, {urlsplit(url).path: file for url, file in files.items()})
    )


def main(name: str) -> None:
    paths = LabPaths(name)
    spec = LabSpec.from_json(paths.spec.read_text())
    address = spec.provisioning.host
    kept = {"alert_webhook": paths.alerts, "notices_webhook": paths.notices}
    webhooks = webhook_server({paths.secret(name): at for name, at in kept.items() if (paths.secrets / name).exists()})
    threading.Thread(target=webhooks.serve_forever, daemon=True).start()
    threading.Thread(target=serve_time, args=(address,), daemon=True).start()
    handler = mirror_handler(spec.debs, {GPU_MIRROR: spec.gpu_debs, KUBERNETES_MIRROR: spec.kubernetes_debs})
    http.server.ThreadingHTTPServer((address, MIRROR_PORT), handler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
