"""snmpsim variation module `outlet`: answers an object from the power daemon, and lets a SET really switch.

Record: OID|TYPE:outlet|PDU/READING/INDEX (written by infra.lab.pdu). snmpsim serves all agents from one thread, so
every call has a time budget: a stuck daemon gives genErr on these objects instead of agents that hang. A PDU's readings
come in one call and serve the rows of one request: with a call for each row, four agents answered a walk in seconds.
"""

import json
import math
import os
import socket
import time
from typing import Any

from pysnmp.smi import error

READ_BUDGET_S = 2.0
NEXT_ROW_S = 0.005
"""Rows of one request follow each other faster than this, two requests do not: each is encrypted and decrypted between."""
WRITE_BUDGET_S = 8.0  # a SET returns when the relay has moved and what it fed is dead


def ask(budget_s: float, **request: Any) -> Any:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(budget_s)
        connection.connect(os.environ["BRINGUP_POWER_SOCKET"])
        connection.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(connection.makefile().readline())


_held: dict[str, tuple[float, dict[str, Any]]] = {}


def readings(pdu: str) -> dict[str, Any]:
    """{"ok": {READING/INDEX: value}} of a PDU, fetched once for the rows of a request, or {"error": ...}."""
    asked, reply = _held.get(pdu, (-math.inf, {}))
    if time.monotonic() - asked > NEXT_ROW_S:
        reply = ask(READ_BUDGET_S, op="pdu_readings", pdu=pdu)
    _held[pdu] = time.monotonic(), reply
    return reply


def init(**context: Any) -> None:
    """snmpsim calls this once; there is nothing to prepare."""


def variate(oid: Any, tag: str, value: str, **context: Any) -> tuple[Any, str, Any]:
    if not context["nextFlag"] and not context["exactMatch"]:
        return context["origOid"], tag, context["errorStatus"]
    pdu, what, index = value.split("/")
    position = max(0, context["varsTotal"] - context["varsRemaining"] - 1)
    try:
        if context["setFlag"]:
            reply = ask(
                WRITE_BUDGET_S, op="pdu_set", pdu=pdu, what=what, index=int(index), value=str(context["origValue"])
            )
            _held.pop(pdu, None)
            if "error" in reply:
                raise error.WrongValueError(name=oid, idx=position)
        reply = readings(pdu)
    except (OSError, ValueError) as problem:  # no daemon, no answer in time, half an answer
        raise error.GenError(name=oid, idx=position) from problem
    if "error" in reply:
        raise error.GenError(name=oid, idx=position)
    return oid, tag, reply["ok"][f"{what}/{index}"]


def shutdown(**context: Any) -> None:
    """snmpsim calls this at the end; there is nothing to release."""
