"""The number that a check compares with its limit, from what a device said: for the check and, from its raw output, for the gate.

Pure. Rounded here, so that the number that was compared is the number that the record keeps.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def crossed_b(pings: Iterable[Mapping[str, Any]]) -> int:
    """The smallest payload that came back whole, bytes; 0 where none did."""
    return min((int(ping["payload_b"]) for ping in pings if ping["ok"]), default=0)


def offset_ms(offset_s: float) -> float:
    """How far a clock is off, milliseconds."""
    return round(abs(offset_s) * 1000, 6)


def imbalance_pct(amps: Sequence[float]) -> float:
    """By how much the phases of a PDU differ, percent of their mean. ZeroDivisionError where none carries a current."""
    return round(100 * (max(amps) - min(amps)) / (sum(amps) / len(amps)), 1)


def hours(seconds: float) -> float:
    """A duration in hours."""
    return round(seconds / 3600, 6)
