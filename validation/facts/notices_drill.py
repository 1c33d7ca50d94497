"""Takes notices about jobs and nodes on the controller that sends them: runs there (from standard input), prints one JSON object.

Standard library only. The request, a JSON object as first argument: `port`, and what to do (`act`):
    listen    leave a listener behind, for `budget_s` at most; {"listening": true} once it listens
    heard     what it has taken: {"now_s", "heard": [{"at_s", …FIELDS}]}, both seconds since it began; several events in one message
              each count
    stop      end it
    files     {"timer", "enabled", "result", "files": {path: {"mode", "uid"} or null}, "hooks", "failing", "round_age_s"}: of the
              paths in `paths`, of the configuration at `config` without its URLs (null for none), of the metrics at `metrics`
{"error": …} for what could not be done.
"""

import http.client
import http.server
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
CALL_S = 10.0
MESSAGE_MAX, HEARD_MAX, TEXT_MAX = 4 << 20, 5000, 300
FIELDS = ("id", "event", "account", "job", "node", "namespace", "reason", "time")
UNITS = ("bringup-notices.timer", "bringup-notices.service")
METRIC = re.compile(r'(bringup_notices_[a-z_]+)(?:\{hook="([^"]*)"\})? ([0-9.e+]+)')


class Desk(http.server.BaseHTTPRequestHandler):
    """Notes what is posted, shows it, and ends the listener."""

    timeout = CALL_S
    began = time.monotonic()
    noting = threading.Lock()

    def __init__(self, heard: list[dict[str, Any]], *given: Any) -> None:
        self.heard = heard
        super().__init__(*given)

    def do_POST(self) -> None:
        try:
            length = int(self.headers["Content-Length"])
            said = json.loads(self.rfile.read(length)) if 0 < length <= MESSAGE_MAX else None
            events = said.get("events", [said]) if isinstance(said, Mapping) else []
            kept = [{name: str(one.get(name, ""))[:TEXT_MAX] for name in FIELDS} for one in events]
        except (ValueError, TypeError, AttributeError, RecursionError):
            kept = []
        with self.noting:
            at_s = round(time.monotonic() - self.began, 3)
            self.heard += [{"at_s": at_s, **one} for one in kept][: HEARD_MAX - len(self.heard)]
        self._answer({})

    def do_GET(self) -> None:
        with self.noting:
            self._answer({"now_s": round(time.monotonic() - self.began, 3), "heard": self.heard})

    def do_DELETE(self) -> None:
        self._answer({})
        threading.Thread(target=self.server.shutdown, daemon=True).start()

    def _answer(self, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


def server(port: int) -> http.server.ThreadingHTTPServer:
    """A listener that does not run yet."""
    heard: list[dict[str, Any]] = []
    made = http.server.ThreadingHTTPServer((HOST, port), lambda *given: Desk(heard, *given))
    made.daemon_threads = True
    return made


def listen(port: int, budget_s: float) -> dict[str, Any]:
    """The listener goes on in a process of its own, which this one leaves behind."""
    made = server(port)
    ready, done = os.pipe()
    if os.fork():
        os.close(done)
        os.read(ready, 1)  # nothing, once the other one belongs to no login any more
        return {"listening": True}
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.close(done)
    end = threading.Timer(budget_s, made.shutdown)
    end.daemon = True
    end.start()
    made.serve_forever()
    os._exit(0)


def told(port: int, verb: str) -> Any:
    """What the listener answers."""
    connection = http.client.HTTPConnection(HOST, port, timeout=CALL_S)
    try:
        connection.request(verb, "/")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def unit(name: str, word: str) -> str:
    """A property of a unit."""
    argv = ["systemctl", "show", "--value", f"--property={word}", name]
    return subprocess.run(argv, capture_output=True, text=True, timeout=CALL_S, check=False).stdout.strip()


def file(path: str) -> dict[str, Any] | None:
    """Mode and owner of a file or folder; None where there is none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return {"mode": f"{stat.S_IMODE(found.st_mode):04o}", "uid": found.st_uid}


def hooks(path: Path) -> dict[str, Any] | None:
    """Who has a webhook in the configuration, without its URL."""
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    return {
        "accounts": sorted(name for name, url in found["accounts"].items() if url),
        "default": bool(found.get("default")),
        "operators": bool(found.get("operators")),
    }


def measured(path: Path) -> dict[str, Any]:
    """Hooks that fail, and the age of the last round; None where there was none."""
    lines = path.read_text().splitlines() if path.exists() else []
    values = [(one[1], one[2] or "", float(one[3])) for one in map(METRIC.fullmatch, lines) if one]
    rounds = [value for name, _, value in values if name == "bringup_notices_round_seconds"]
    failing = [hook for name, hook, value in values if name == "bringup_notices_failing_since_seconds" and value]
    return {"failing": failing, "round_age_s": round(time.time() - rounds[0], 1) if rounds else None}


def files(paths: list[str], config: str, metrics: str) -> dict[str, Any]:
    """What is there of the program that sends notices."""
    timer, service = UNITS
    return {
        "timer": unit(timer, "ActiveState"),
        "enabled": unit(timer, "UnitFileState"),
        "result": unit(service, "Result"),
        "files": {path: file(path) for path in paths},
        "hooks": hooks(Path(config)),
        **measured(Path(metrics)),
    }


def answer(request: Mapping[str, Any]) -> Any:
    """See the module's text."""
    act = request["act"]
    if act == "listen":
        return listen(request["port"], request["budget_s"])
    if act == "files":
        return files(request["paths"], request["config"], request["metrics"])
    return told(request["port"], {"heard": "GET", "stop": "DELETE"}[act])


def main() -> None:
    try:
        said = answer(json.loads(sys.argv[1]))
    except (
        OSError,
        ValueError,
        LookupError,
        AttributeError,
        subprocess.SubprocessError,
        http.client.HTTPException,
    ) as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
