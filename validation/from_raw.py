"""The value of a record computed again from its raw output, with the functions that the check used.

    doubt = reader(site, folder)
    why = doubt(item, record)        # None, or why the raw output does not show what the record says

What a raw output holds is hostile: a collector's key may have signed anything as one.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inventory.site import Site
from network.drivers.answers import Source
from network.drivers.errors import UnreadableAnswer, one_line
from validation import burn_in, readings
from validation.evidence import strict
from validation.evidence.record import Record, raw_path
from validation.register import Item
from validation.rejudge import MOST_NAMED, Doubt, numbers_of
from validation.runners.burn_in import joined

MAX_BYTES = 256 << 20
"""Of a raw output from which a value is computed again: a burn-in of 72 h keeps a result an hour for each GPU."""
REL_TOLERANCE = 1e-9
"""Between a value and its computation from the raw output: both come from the same function, JSON keeps all digits."""
UNREADABLE = (UnreadableAnswer, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError)
"""What code that expects a sound raw output raises for one that is not."""


def reader(site: Site, folder: Path) -> Doubt:
    """Why a record's raw output in this evidence folder does not show what the record says; None for an item that has none."""

    def doubt(item: Item, record: Record) -> str | None:
        if item.id not in FROM_RAW or item.judged is None:
            return None
        if not record.raw_sha256:
            return "it keeps no raw output, from which its value could be computed again"
        try:
            raw = strict.read(folder, raw_path(record.raw_sha256), MAX_BYTES)
        except (OSError, ValueError) as error:
            return f"its raw output cannot be read: {error}"
        if hashlib.sha256(raw).hexdigest() != record.raw_sha256:
            return f"{raw_path(record.raw_sha256)} has been changed"
        return unlike_raw(item, record, site, raw)

    return doubt


def unlike_raw(item: Item, record: Record, site: Site, raw: bytes) -> str | None:
    """Why the raw output of a record does not give its value, or holds a fault; None also where nothing can be computed."""
    if item.id not in FROM_RAW or item.judged is None:
        return None
    try:
        again = FROM_RAW[item.id](raw, record.subject, site)
    except UNREADABLE as error:
        return one_line(f"its value cannot be computed from its raw output ({type(error).__name__}: {error})")[:300]
    if again.problems:
        return f"it says {record.result}, its raw output shows: {'; '.join(again.problems[:MOST_NAMED])}"
    numbers = numbers_of(item.judged, record.value)
    if isinstance(numbers, str):
        return numbers
    if len(numbers) != 1 or not math.isclose(numbers[0][1], again.value, rel_tol=REL_TOLERANCE, abs_tol=REL_TOLERANCE):
        said = ", ".join(f"{value:g}" for _, value in numbers[:MOST_NAMED])
        return f"it says {said} {record.unit}, its raw output gives {again.value:g}"
    return None


@dataclass(frozen=True)
class Again:
    """What a raw output gives: the value, and faults in it."""

    value: float
    problems: tuple[str, ...] = ()


def _data(raw: bytes, subject: str) -> Mapping[str, Any]:
    """The data of a device's answer (facts.answer.Answer.raw); ValueError for that of another device."""
    answer = json.loads(raw)
    if answer["device"] != subject:
        raise ValueError(f"it is the answer of {str(answer['device'])[:60]}")
    data = answer["data"]
    if not isinstance(data, dict):
        raise TypeError("data is no object")
    return data


def _crossed(raw: bytes, subject: str, site: Site) -> Again:
    pings = _data(raw, subject)["pings"]
    lost = [f"no whole answer from {str(ping['device'])[:60]}" for ping in pings if ping["ok"] is not True]
    return Again(readings.crossed_b(pings), tuple(lost))


def _offset(raw: bytes, subject: str, site: Site) -> Again:
    return Again(readings.offset_ms(_data(raw, subject)["chrony"]["offset_s"]))


def _imbalance(raw: bytes, subject: str, site: Site) -> Again:
    return Again(readings.imbalance_pct([phase["amps"] for phase in _data(raw, subject)["phases"]]))


def _burn_in(raw: bytes, subject: str, site: Site) -> Again:
    """Hours and faults of one node's samples. What only a comparison with other nodes shows is not among them."""
    files = json.loads(raw)["ranks"]
    if not isinstance(files, list) or not all(isinstance(text, str) for text in files):
        raise TypeError("ranks is no list of texts")
    node = joined(files, 0, Source(subject, "read the results of the burn-in"))
    limits = burn_in.Limits(*(site.limits[f"burn_in_{key}"].value for key in ("drift_pct", "outlier_c", "power_pct")))
    found = burn_in.problems({"nodes": {subject: node}}, subject, len(node["gpus"]), limits, len(node["ranks"]))
    return Again(readings.hours(node["duration_s"]), tuple(found))


FROM_RAW: Mapping[str, Callable[[bytes, str, Site], Again]] = {
    "S034.measured": _burn_in,
    "S054.measured": _crossed,
    "S088.observed": _imbalance,
    "S144.observed": _offset,
}
"""By item, how its value is computed from the raw output of its check, with the functions that the check uses."""
