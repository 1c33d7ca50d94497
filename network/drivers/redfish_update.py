"""Firmware updates over Redfish: the task that follows one, what went wrong in it, and the body that pushes a file.

    task = read_task(body)                     # {"state": "Running", "percent": 40, "messages": [...]}
    reason = failure(task)                     # ("Update.1.0.VerificationFailed", "...", "what to do"), or None
    body = Multipart(parameters, path)         # for requests: data=body, headers=body.headers

Task states: DSP0268, Task schema. What to do for a message id: redfish_messages.yaml.
"""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import TypedDict

from network.drivers.answers import Line, Number, Text

ENDED = ("Completed", "Killed", "Exception", "Cancelled")
"""States that a task does not leave. Completed is a success unless its TaskStatus or a message says otherwise."""
MESSAGES = 1_000
"""Most messages of one task that are looked at."""
NEXT_STEPS: dict[str, str] = yaml.safe_load(Path(__file__).with_name("redfish_messages.yaml").read_text())
BAD = ("Critical", "Warning")


class TaskMessage(TypedDict):
    """One message of a task; severity is 'OK', 'Warning', 'Critical' or ''."""

    id: Line
    severity: Line
    text: Text


class UpdateTask(TypedDict):
    """How far an update is. percent: None where the BMC does not tell; health: its TaskStatus."""

    name: Line
    state: Line
    health: Line
    percent: Number | None
    messages: list[TaskMessage]


def read_task(body: Mapping[str, Any]) -> dict[str, Any]:
    """A Task resource as UpdateTask, not typed yet."""
    messages = []
    for one in (body.get("Messages") or [])[:MESSAGES]:
        severity = one.get("MessageSeverity") or one.get("Severity")  # Severity is deprecated since Message 1.1
        messages.append(
            {"id": _told(one.get("MessageId")), "severity": _told(severity), "text": _told(one.get("Message"))}
        )
    return {
        "name": _told(body.get("Name")),
        "state": _told(body.get("TaskState")),
        "health": _told(body.get("TaskStatus")),
        "percent": body.get("PercentComplete"),
        "messages": messages,
    }


def failure(task: UpdateTask) -> tuple[str, str, str] | None:
    """(message id, text, what to do) of a task that has ended badly; None for one that runs or has succeeded.

    The worst message names the failure: the first critical one, else the first warning, else the last of all.
    """
    if task["state"] not in ENDED or (task["state"] == "Completed" and task["health"] in ("", "OK")):
        return None
    if task["state"] == "Completed" and task["health"] == "Warning" and not any(_failed(m) for m in task["messages"]):
        return None
    ranked = [m for severity in BAD for m in task["messages"] if m["severity"] == severity] or task["messages"][-1:]
    if not ranked:
        return f"task {task['state']}", "the BMC gives no reason", NEXT_STEPS["default"]
    worst = ranked[0]
    return worst["id"] or f"task {task['state']}", worst["text"], _next_step(worst["id"])


def _failed(message: TaskMessage) -> bool:
    return message["id"].rsplit(".", 1)[-1].endswith("Failed")


def _next_step(message_id: str) -> str:
    return NEXT_STEPS.get(message_id.rsplit(".", 1)[-1], NEXT_STEPS["default"])


def _told(value: Any) -> Any:
    return "" if value is None else value


class Multipart:
    """The body of a multipart push (DSP0266, section "Multipart HTTP push updates"): parameters, then the file.

    requests reads it in pieces: an image of a GPU baseboard has more than a gigabyte.
    """

    def __init__(self, parameters: Mapping[str, Any], image: Path) -> None:
        boundary = secrets.token_hex(16)
        part = f'--{boundary}\r\nContent-Disposition: form-data; name="{{}}"{{}}\r\nContent-Type: {{}}\r\n\r\n'
        name = "".join(c for c in image.name if c.isascii() and (c.isalnum() or c in "._-")) or "image"
        self._head = (
            part.format("UpdateParameters", "", "application/json")
            + json.dumps(parameters)
            + "\r\n"
            + part.format("UpdateFile", f'; filename="{name}"', "application/octet-stream")
        ).encode()
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self._file = image.open("rb")
        self._size = len(self._head) + os.fstat(self._file.fileno()).st_size + len(self._tail)
        self.headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}

    def __enter__(self) -> "Multipart":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        """The next bytes, b'' at the end."""
        for name in ("_head", "_file", "_tail"):
            if name == "_file":
                piece = self._file.read(size)
            else:
                held: bytes = getattr(self, name)
                piece = held if size < 0 else held[:size]
                setattr(self, name, held[len(piece) :])
            if piece:
                return piece
        return b""
