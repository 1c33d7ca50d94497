"""snmpsim variation module `kept`: objects in memory that a SET writes, and commands that set another object.

Record: OID|TYPE:kept|KEY=FIRST, a value (0x80: octets in hexadecimal), or OID|TYPE:kept|KEY<COMMAND:VALUE,COMMAND:VALUE.
"""

from typing import Any

KEPT: dict[str, Any] = {}


def init(**context: Any) -> None:
    """Nothing to prepare."""


def variate(oid: Any, tag: str, value: str, **context: Any) -> tuple[Any, str, Any]:
    if not context["nextFlag"] and not context["exactMatch"]:
        return context["origOid"], tag, context["errorStatus"]
    given = context["origValue"] if context["setFlag"] else None
    if "<" in value:
        key, commands = value.split("<")
        if given is not None:
            KEPT[key] = dict(one.split(":") for one in commands.split(","))[str(int(given))]
        return oid, tag, KEPT.get(key, 0)
    key, first = value.split("=")
    if given is not None:
        KEPT[key] = bytes(given) if tag == "4" else int(given)
    found = KEPT.setdefault(key, bytes.fromhex(first[2:]) if first.startswith("0x") else first)
    return oid, tag, found


def shutdown(**context: Any) -> None:
    """Nothing to release."""
