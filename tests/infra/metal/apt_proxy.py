"""An HTTP proxy in a segment that has no way out: it fetches by apt, with the sources, proxies and logins of this machine.

    with AptProxy(segment, 3142, folder, sources(run_apt(), "bookworm")) as proxy:      in the block of a Segment
        proxy.answered              {URL: None, or what apt said against it}

Only Debian's archives are fetched, from where this machine gets them; other addresses get status 404.
"""

import http.server
import shutil
import subprocess
import threading
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import cast

from infra.metal.segment import Segment, set_namespace

ARCHIVES = {"http://deb.debian.org/debian/": "", "http://security.debian.org/debian-security/": "-security"}
"""What a client asks for -> suffix of the suite whose source answers."""
HELPER = "/usr/lib/apt/apt-helper"
APT_S = 300.0
FETCH_S = 300.0
"""One file: the kernel's package of 70 MB at 2 Mbit/s."""
IDLE_S = 120.0
"""A client that sends nothing is let go."""


def run_apt() -> str:
    """The sources of this machine, `created by|suite|component|URL` a line."""
    argv = ["apt-get", "indextargets", "--format", "$(CREATED_BY)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)"]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=APT_S).stdout


def sources(said: str, suite: str) -> dict[str, str]:
    """Archive as it is asked for -> where this machine has it from. LookupError where it has none."""
    rows = [row.split("|") for row in said.splitlines()]
    own = {release: url for by, release, component, url in rows if (by, component) == ("Packages", "main")}
    if lacking := [suite + suffix for suffix in ARCHIVES.values() if suite + suffix not in own]:
        raise LookupError(f"apt of this machine has no source of {', '.join(lacking)}")
    return {archive: own[suite + suffix].rstrip("/") + "/" for archive, suffix in ARCHIVES.items()}


class AptProxy:
    """The proxy for as long as the block lasts. `folder` keeps what was fetched."""

    def __init__(self, segment: Segment, port: int, folder: Path, known: Mapping[str, str]) -> None:
        self.segment, self.folder, self.known = segment, folder, known
        self.answered: dict[str, str | None] = {}
        self.server = _Server((segment.network.address.partition("/")[0], port), self)

    def __enter__(self) -> "AptProxy":
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def _serve(self) -> None:
        """Its socket is of the segment; this thread, and those that it starts, stand outside, where apt has its way out."""
        set_namespace(self.segment.outside)
        self.server.serve_forever()

    def fetch(self, url: str) -> Path | None:
        """The file of a URL; None where there is none."""
        archive = next((archive for archive in self.known if url.startswith(archive)), None)
        if archive is None or ".." in url:
            self.answered[url] = "not of Debian's archives"
            return None
        kept = self.folder / url.removeprefix("http://")
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            part = kept.with_name(f"{kept.name}.{threading.get_ident()}")
            argv = [HELPER, "download-file", self.known[archive] + url.removeprefix(archive), str(part)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=FETCH_S)
            if done.returncode:
                self.answered[url] = done.stderr.strip()
                return None
            part.rename(kept)
        self.answered[url] = None
        return kept


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], proxy: AptProxy) -> None:
        self.proxy = proxy
        super().__init__(address, _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def do_GET(self) -> None:
        file = cast(_Server, self.server).proxy.fetch(self.path)
        if file is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", str(file.stat().st_size))
        self.end_headers()
        with file.open("rb") as opened:
            shutil.copyfileobj(opened, self.wfile)

    def log_message(self, format: str, *args: object) -> None:
        """`answered` holds what there is to say."""
