"""Arista's eAPI in memory, scripted: configuration sessions, a commit that waits for its confirmation, and faults.

Answers after tests/data/modelled/eapi. The timer of a commit runs out when a test calls `expire`, not by a clock.
"""

import base64
import difflib
import json
import re
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

MODELLED = json.loads((Path(__file__).parents[2] / "data/modelled/eapi/answers.json").read_text())
PASSWORD = "a secret of the switch"


class RefusedError(Exception):
    """A command that the CLI does not take."""


class Eapi(BaseHTTPRequestHandler):
    """One switch; its class attributes are its state. `faults`: what goes wrong, by the name that the code below looks for."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer is one packet
    running: ClassVar[str]
    startup: ClassVar[str]
    before: ClassVar[str]
    sessions: ClassVar[dict[str, Any]]
    faults: ClassVar[set[str]]
    asked: ClassVar[list[str]]
    at: ClassVar[Any]

    @classmethod
    def fresh(cls, running: str) -> type["Eapi"]:
        """A switch that runs and has saved a configuration."""
        state = {"running": running, "startup": running, "before": "", "sessions": {}, "faults": set(), "asked": []}
        return type("OneEapi", (cls,), state)

    @classmethod
    def expire(cls) -> None:
        """The switch's own timer runs out."""
        for session in cls.sessions.values():
            if session["state"] == "pendingCommitTimer":
                session["state"], cls.running = "aborted", cls.before

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def do_POST(self) -> None:
        assert self.path == "/command-api"
        assert self.headers["Authorization"] == "Basic " + base64.b64encode(f"netops:{PASSWORD}".encode()).decode()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert (body["jsonrpc"], body["method"]) == ("2.0", "runCmds")
        commands = body["params"]["cmds"]
        self.asked.extend(commands)
        if "slow" in self.faults:
            time.sleep(3)
        if "garbled" in self.faults:
            return self.raw(b'{"jsonrpc": "2.0", "result": [{"host')
        if "lost" in self.faults:
            self.close_connection = True
            return self.connection.close()
        try:
            said = {"result": [self.answer(command, commands[i + 1 :]) for i, command in enumerate(commands)]}
        except RefusedError:
            said = {"error": MODELLED["refused"]}
        if body["params"]["format"] == "text":
            said["result"] = [one if "output" in one else {"output": json.dumps(one)} for one in said["result"]]
        return self.raw(json.dumps({"jsonrpc": "2.0", "id": body["id"], **said}).encode())

    def answer(self, command: str, rest: list[str]) -> dict[str, Any]:
        """The result of one command; `rest` are the commands behind it, which a session takes."""
        cls = type(self)
        if command in MODELLED:
            return dict(MODELLED[command])
        if command == "show running-config":
            return {"output": f"! Command: show running-config\n{self.running}"}
        if command == "show running-config diffs":
            return {"output": unified(self.startup, self.running)}
        if command == "show configuration sessions detail":
            return {"sessions": {name: {"state": one["state"]} for name, one in self.sessions.items()}}
        if match := re.fullmatch("show session-config named (.*) diffs", command):
            return {"output": unified(self.running, self.sessions[match[1]]["text"])}
        if command == "write memory":
            cls.startup = self.running
        if match := re.fullmatch("configure session ([^ ]*)( commit| abort)?", command):
            self.session(match[1], (match[2] or "").strip(), rest)
        return {}

    def session(self, name: str, verb: str, rest: list[str]) -> None:
        """Fill, commit under a timer, confirm or abort a session."""
        cls, lines = type(self), rest[1:]
        if verb == "abort":
            if self.sessions.pop(name, {}).get("state") == "pendingCommitTimer":
                cls.running = self.before
        elif verb == "commit":
            if self.sessions[name]["state"] != "pendingCommitTimer":
                raise RefusedError
            self.sessions[name]["state"] = "completed"
        elif rest[0].startswith("commit timer"):
            if "refuses commit" in self.faults:
                raise RefusedError
            cls.before, cls.running = self.running, self.sessions[name]["text"]
            self.sessions[name]["state"] = "completed" if "no timer" in self.faults else "pendingCommitTimer"
            if "loses its session" in self.faults:
                self.faults.add("lost")
        else:
            assert rest[0] == "rollback clean-config"
            self.sessions[name] = {"state": "pending", "text": "".join(f"{line}\n" for line in lines)}
            if any(line.strip().startswith("mtuu") for line in lines):
                raise RefusedError

    def raw(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def unified(before: str, after: str) -> str:
    """The difference in the form of EOS."""
    names = ("system:/running-config", "session:/session-config")
    return "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm=""))
