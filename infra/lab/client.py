"""How the other parts of the lab talk to its power daemon (powerd.py)."""

import json
import socket
from typing import Any

from infra.lab.paths import LabError, LabPaths


def ask(name: str, budget_s: float = 20.0, **request: Any) -> Any:
    """One request to a lab's power daemon. LabError with its message, or when it does not answer in time."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(budget_s)
            connection.connect(str(LabPaths(name).power_socket))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile() as stream:
                reply = json.loads(stream.readline())
    except (OSError, ValueError) as problem:
        raise LabError(
            f"the power daemon of lab {name} does not answer ({problem}): run `bringup lab up` again, which repairs it"
        ) from problem
    if "error" in reply:
        raise LabError(reply["error"])
    return reply["ok"]
