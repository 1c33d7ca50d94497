"""NVUE's REST interface in memory, scripted: revisions, a commit that waits for its confirmation, and faults.

Answers after tests/data/modelled/nvue. The timer of a commit runs out when a test calls `expire`, not by a clock.
"""

import base64
import copy
import json
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

MODELLED = json.loads((Path(__file__).parents[2] / "data/modelled/nvue/answers.json").read_text())
PASSWORD = "a secret of the switch"


class Nvue(BaseHTTPRequestHandler):
    """One switch; its class attributes are its state. `faults`: what goes wrong, by the name that the code below looks for."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer is one packet
    trees: ClassVar[dict[str, Any]]
    revisions: ClassVar[dict[str, Any]]
    before: ClassVar[dict[str, Any]]
    faults: ClassVar[set[str]]
    asked: ClassVar[list[tuple[str, str]]]
    confirm_s: ClassVar[int]
    at: ClassVar[Any]

    @classmethod
    def fresh(cls, running: dict[str, Any]) -> type["Nvue"]:
        """A switch that runs and has saved a configuration."""
        trees = {"applied": copy.deepcopy(running), "startup": copy.deepcopy(running)}
        state = {"trees": trees, "revisions": {}, "before": {}, "faults": set(), "asked": [], "confirm_s": 0}
        return type("OneNvue", (cls,), state)

    @classmethod
    def expire(cls) -> None:
        """The switch's own timer runs out."""
        for revision in cls.revisions.values():
            if revision["state"] == "confirm":
                revision["state"] = "confirm_fail"
                cls.trees["applied"] = cls.before

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        path, query = self.where("GET")
        if "slow" in self.faults:
            time.sleep(3)
        if "garbled" in self.faults:
            return self.raw(200, b'{"applied": {"interface": ')
        if "lost" in self.faults:
            return self.close()
        if path == "":
            return self.answer(200, self.trees.get(query.get("rev", ""), {}))
        if path == "revision":
            return self.answer(200, self.revisions)
        if path.startswith("revision/"):
            return self.answer(200, self.revisions[unquote(path.removeprefix("revision/"))])
        if path == "vrf/default/router/bgp/neighbor":
            return self.answer(200, MODELLED["neighbor"])
        if path.endswith("/phy-detail") and path not in MODELLED:
            return self.answer(404, {"title": "Not Found"})
        return self.answer(200, MODELLED[path])

    def do_POST(self) -> None:
        self.where("POST")
        name = str(len(self.revisions) + 1)
        self.revisions[name] = copy.deepcopy(MODELLED["pending"])
        self.trees[name] = copy.deepcopy(self.trees["applied"])
        self.answer(200, {name: self.revisions[name]})

    def do_DELETE(self) -> None:
        _, query = self.where("DELETE")
        self.trees[query["rev"]] = {}
        self.raw(204, b"")

    def do_PATCH(self) -> None:
        path, query = self.where("PATCH")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if path == "":
            if "refuses keys" in self.faults:
                return self.answer(400, {"title": "Bad Request", "detail": "'qoss' is not a known key"})
            self.trees[query["rev"]] = body
            if "adds" in self.faults:
                body.setdefault("bridge", {"domain": {"br_default": {"type": "vlan-aware"}}})
            return self.answer(200, body)
        name = path.removeprefix("revision/")
        if body["state"] == "save":
            type(self).trees["startup"] = copy.deepcopy(self.trees["applied"])
        elif body["state"] == "apply":
            self.apply(name, body)
        else:
            assert self.revisions[name]["state"] == "confirm"
            kept = body["state"] == "confirm_yes"
            self.revisions[name]["state"] = "applied_and_saved" if kept else "confirm_fail"
            if kept:
                self.trees["startup"] = copy.deepcopy(self.trees["applied"])
            else:
                self.trees["applied"] = self.before
        return self.answer(200, {"state": body["state"], "transition": {"issue": {}, "progress": ""}})

    def apply(self, name: str, body: Any) -> None:
        """Apply a revision under a timer, as far as no fault is in the way."""
        type(self).confirm_s = body["state-controls"]["confirm"]
        if "refuses commit" in self.faults:
            self.revisions[name] = copy.deepcopy(MODELLED["refused"])
            return
        type(self).before = self.trees["applied"]
        self.trees["applied"] = copy.deepcopy(self.trees[name])
        self.revisions[name]["state"] = "applied" if "no timer" in self.faults else "confirm"
        if "loses its session" in self.faults:
            self.faults.add("lost")

    def where(self, method: str) -> tuple[str, dict[str, str]]:
        """(path below the root, query) of a request with the right login."""
        assert self.headers["Authorization"] == "Basic " + base64.b64encode(f"netops:{PASSWORD}".encode()).decode()
        url = urlsplit(self.path)
        assert url.path.startswith("/nvue_v1/")
        path = url.path.removeprefix("/nvue_v1/")
        self.asked.append((method, path))
        return path, {key: values[0] for key, values in parse_qs(url.query).items()}

    def answer(self, status: int, body: Any) -> None:
        self.raw(status, json.dumps(body).encode())

    def raw(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def close(self) -> None:
        """The connection breaks without an answer."""
        self.close_connection = True
        self.connection.close()
