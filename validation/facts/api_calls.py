"""Calls to the site's API server: runs on a controller (from standard input), prints one JSON array of answers.

Standard library only. The request, a JSON object as first argument, has the path of a kubeconfig (`kubeconfig`), the seconds for
all calls (`budget_s`) and the calls (`calls`): verb, path, body and its content type (`type`), the user and group to impersonate,
whether the answer is plain text (`text`), and the fields to keep of the answer (`only`) or of each item of a list (`fields`), since
25,000 answers are read as one. Of a refusal the message is kept. An answer has `status` and `body`; one that could not be had has
`error`. Certificates are read by kubectl and kept in a folder that no other user can read, until they are loaded.
"""

import base64
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

AT_ONCE = 8
CALL_S = 20.0
"""One call; an API server that is up answers within a second."""
PROGRAMS = "/opt/bringup/kubernetes/bin"
"""Where the role kubernetes has kubectl on a machine without its package."""
OK, REFUSED = 200, 300
"""A status, and the first of those that are no success."""
LONGEST = 64 << 20
"""Bytes of an answer: 1,000 nodes with their images take about 12 MB."""
PAGE = 500
"""Items of a list that are asked for at once, as kubectl does; their number has no bound."""


def connection(kubeconfig: str) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Server, TLS and headers of the current context."""
    path = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{PROGRAMS}"
    program = shutil.which("kubectl", path=path) or "kubectl"
    become = [] if os.geteuid() == 0 else ["sudo", "-n"]
    command = [
        *become,
        program,
        "--kubeconfig",
        kubeconfig,
        "config",
        "view",
        "--raw",
        "--minify",
        "--flatten",
        "-o",
        "json",
    ]
    said = json.loads(subprocess.run(command, capture_output=True, timeout=CALL_S, check=True).stdout)
    cluster, user = said["clusters"][0]["cluster"], said["users"][0]["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "client-certificate-data" in user:
        with tempfile.TemporaryDirectory() as folder:
            pem = Path(folder) / "pem"
            pem.touch(mode=0o600)
            pem.write_bytes(
                b"\n".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key"))
            )
            tls.load_cert_chain(pem)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return cluster["server"].rstrip("/"), tls, headers


def kept(item: dict[str, Any], fields: list[str]) -> dict[str, Any]:
    """The named fields of an item, by their dotted paths."""
    found = {}
    for path in fields:
        value: Any = item
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        found[path] = value
    return found


class Caller:
    """Makes calls until the budget is spent."""

    def __init__(self, kubeconfig: str, budget_s: float) -> None:
        server, self.tls, self.headers = connection(kubeconfig)
        parts = urlsplit(server)
        self.host, self.port, self.prefix = parts.hostname or "", parts.port or 443, parts.path
        self.end = time.monotonic() + budget_s
        self.own = threading.local()

    def call(self, one: dict[str, Any]) -> dict[str, Any]:
        left = self.end - time.monotonic()
        if left <= 0:
            return {"status": 0, "body": None, "error": "the time budget of all calls is spent"}
        headers = dict(
            self.headers, **{"Content-Type": one.get("type", "application/json"), "Accept": "application/json"}
        )
        if one.get("user"):
            headers["Impersonate-User"] = one["user"]
        if one.get("group"):
            headers["Impersonate-Group"] = one["group"]
        if one.get("fields"):
            return self.listed(one, headers)
        answered = self.asked_once(one, one["path"], headers)
        if one.get("only") and answered["status"] < REFUSED and isinstance(answered["body"], dict):
            answered["body"] = kept(answered["body"], one["only"])
        return answered

    def listed(self, one: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """All items of a list, page by page, each with the fields that are asked for."""
        items: list[dict[str, Any]] = []
        more = ""
        while True:
            path = f"{one['path']}{'&' if '?' in one['path'] else '?'}limit={PAGE}{more}"
            answered = self.asked_once(one, path, headers)
            body = answered["body"]
            if answered["error"] or answered["status"] >= REFUSED or not isinstance(body, dict):
                return answered
            items += [kept(item, one["fields"]) for item in body.get("items") or ()]
            token = (body.get("metadata") or {}).get("continue")
            if not token:
                return {"status": answered["status"], "body": {"items": items}, "error": ""}
            if time.monotonic() > self.end:
                why = f"the time budget of all calls is spent, {len(items)} items into the list"
                return {"status": 0, "body": None, "error": why}
            more = f"&continue={quote(token, safe='')}"

    def asked_once(self, one: dict[str, Any], path: str, headers: dict[str, str]) -> dict[str, Any]:
        data = json.dumps(one["body"]).encode() if one.get("body") is not None else None
        try:
            status, text = self.answer(one["verb"], self.prefix + path, data, headers)
        except (HTTPException, OSError) as error:
            return {"status": 0, "body": None, "error": str(error) or type(error).__name__}
        if len(text) > LONGEST:
            return {"status": status, "body": None, "error": f"an answer of more than {LONGEST >> 20} MiB"}
        if one.get("text") and status == OK:
            return {"status": status, "body": text.decode(errors="replace"), "error": ""}
        try:
            body = json.loads(text)
        except ValueError:
            return {"status": status, "body": None, "error": f"{len(text)} bytes that are no JSON"}
        if status >= REFUSED and isinstance(body, dict):
            body = kept(body, ["message"])
        return {"status": status, "body": body, "error": ""}

    def answer(self, verb: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Over the connection of this thread, which is kept; once more over a new one where the server has closed it."""
        kept_one = getattr(self.own, "http", None)
        try:
            return self.asked(kept_one or self.connect(), verb, path, data, headers)
        except (HTTPException, OSError):
            self.own.http = None
            if kept_one is None:
                raise
            return self.asked(self.connect(), verb, path, data, headers)

    def connect(self) -> HTTPSConnection:
        self.own.http = HTTPSConnection(self.host, self.port, timeout=CALL_S, context=self.tls)
        return self.own.http

    def asked(
        self, http: HTTPSConnection, verb: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        http.request(verb, path, data, headers)
        answer = http.getresponse()
        text = answer.read(LONGEST + 1)
        if len(text) > LONGEST:
            self.own.http = None
        return answer.status, text


def main(request: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        caller = Caller(request["kubeconfig"], request["budget_s"])
    except (OSError, subprocess.SubprocessError, ssl.SSLError, LookupError, ValueError) as error:
        said = getattr(error, "stderr", b"") or b""
        why = f"{request['kubeconfig']}: {said.decode(errors='replace').strip() or error}"
        return [{"status": 0, "body": None, "error": why} for _ in request["calls"]]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(caller.call, request["calls"]))


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
