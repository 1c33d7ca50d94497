"""snmpsim variation module `outlet`: answers an object from the power daemon, and lets a SET really switch.

Record: OID|TYPE:outlet|PDU/READING/INDEX (written by infra.lab.pdu). snmpsim serves all agents from one thread, so
every call has a time budget: a stuck daemon gives genErr on these objects instead of agents that hang.
"""

import json
import os
import socket
from typing import Any

from pysnmp.smi import error

READ_BUDGET_S = 2.0
WRITE_BUDGET_S = 8.0  # a SET returns when the relay has moved and what it fed is dead


def ask(budget_s: float, **request: Any) -> Any:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(budget_s)
        connection.connect(os.environ["BRINGUP_POWER_SOCKET"])
        connection.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(connection.makefile().readline())


def init(**context: Any) -> None:
    """snmpsim calls this once; there is nothing to prepare."""


def variate(oid: Any, tag: str, value: str, **context: Any) -> tuple[Any, str, Any]:
    if not context["nextFlag"] and not context["exactMatch"]:
        return context["origOid"], tag, context["errorStatus"]
    pdu, what, index = value.split("/")
    target = {"pdu": pdu, "what": what, "index": int(index)}
    position = max(0, context["varsTotal"] - context["varsRemaining"] - 1)
    try:
        if context["setFlag"]:
            reply = ask(WRITE_BUDGET_S, op="pdu_set", value=str(context["origValue"]), **target)
            if "error" in reply:
                raise error.WrongValueError(name=oid, idx=position)
        reply = ask(READ_BUDGET_S, op="pdu_get", **target)
    except (OSError, ValueError) as problem:  # no daemon, no answer in time, half an answer
        raise error.GenError(name=oid, idx=position) from problem
    if "error" in reply:
        raise error.GenError(name=oid, idx=position)
    return oid, tag, reply["ok"]


def shutdown(**context: Any) -> None:
    """snmpsim calls this at the end; there is nothing to release."""
