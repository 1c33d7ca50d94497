"""snmpsim variation module `relay`: three outlets in memory whose control really changes their state, and thresholds.

Record: OID|TYPE:relay|WHAT/OUTLET. Outlet 3 is welded: it takes commands and stays on.
"""

from typing import Any

ON, OFF = 2, 1
STATE = {"1": ON, "2": OFF, "3": ON}
AMPS = {"near": 48, "over": 60}
NAMES = {"1": "Outlet 1", "2": "Outlet 2", "3": "Outlet 3"}


def init(**context: Any) -> None:
    """Nothing to prepare."""


def variate(oid: Any, tag: str, value: str, **context: Any) -> tuple[Any, str, Any]:
    if not context["nextFlag"] and not context["exactMatch"]:
        return context["origOid"], tag, context["errorStatus"]
    what, outlet = value.split("/")
    if context["setFlag"]:
        given = context["origValue"]
        if what == "control" and outlet != "3":
            STATE[outlet] = ON if int(given) == 1 else OFF
        if what in AMPS:
            AMPS[what] = int(given)
        if what == "name":
            NAMES[outlet] = bytes(given).decode()[:10]
    if what in AMPS:
        return oid, tag, AMPS[what]
    if what == "name":
        return oid, tag, NAMES[outlet]
    return oid, tag, STATE[outlet] if what == "state" else ON + OFF - STATE[outlet]  # a command counts the other way


def shutdown(**context: Any) -> None:
    """Nothing to release."""
