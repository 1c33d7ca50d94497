"""What Arista EOS says of queues, pauses and ends of links, from the JSON of its show commands. Pure.

    made = queue_counters(["Ethernet1/1"], *said, source)     # said: the answers to QUEUE_COMMANDS, in order
    made = link_ends(["Ethernet1/1"], *said)                  # the answers to LINK_COMMANDS; network.switch_ends reads a row

Fields of queues, drops, ECN marks, bit error rates and light as Arista's own test library reads them (aristanetworks/anta, commit
68667e0e: anta/tests/interfaces.py and its tests), of pauses by priority, frames of a queue and the watchdog as public tools of
operators do. A range such as 'TC0-2' is one counter of three classes: it is known for each of them only while it is 0.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from network.drivers import answers
from network.drivers.answers import Source

QUEUE_COMMANDS = (
    "show interfaces counters queue detail",
    "show qos interfaces ecn counters queue",
    "show priority-flow-control counters detail",
    "show priority-flow-control counters watchdog",
)
LINK_COMMANDS = ("show interfaces", "show interfaces phy detail", "show interfaces transceiver dom thresholds")
NEEDED = frozenset({"sent", "marked", "dropped", "pauses_sent", "pauses_received"})
NUMBERS = re.compile(r"(?:TC|DP)?([0-7])(?:-([0-7]))?")
DIGITS = 20
"""Of a counter of 64 bits."""


def queue_counters(
    ports: Iterable[str],
    queues: Mapping[str, Any],
    marks: Mapping[str, Any],
    pauses: Mapping[str, Any],
    watchdog: Mapping[str, Any],
    source: Source,
) -> dict[str, dict[str, int]]:
    """{port: {"sent/3": packets of class 3, "marked/3", "dropped/3", "storms/3", and of priority 3 "pauses_sent/3" and
    "pauses_received/3"}}.

    A port of which the watchdog says nothing had no storm: EOS lists it after its first one. UnreadableAnswer for a port that
    counts no marks or no pauses.
    """
    made = {}
    for port in ports:
        found = made[port] = dict[str, int]()
        for numbers, word, value in _rows(port, queues, marks, pauses, watchdog, source):
            number = _number(value, f"{word} of {port}", source)
            if len(numbers) > 1 and number:
                raise source.unreadable(
                    f"{word} of each of the classes {numbers[0]} to {numbers[-1]} at {port}", str(number)
                )
            for one in numbers:
                found[f"{word}/{one}"] = found.get(f"{word}/{one}", 0) + number
        if lacking := sorted(NEEDED - {name.partition("/")[0] for name in found}):
            hint = "; marks need `hardware counter feature ecn out`" if "marked" in lacking else ""
            raise source.unreadable(f"{', '.join(lacking)} of {port}{hint}", "nothing of them")
    return made


def _rows(
    port: str,
    queues: Mapping[str, Any],
    marks: Mapping[str, Any],
    pauses: Mapping[str, Any],
    watchdog: Mapping[str, Any],
    source: Source,
) -> Iterator[tuple[list[int], str, Any]]:
    """(numbers of queues or priorities, our word, value)."""
    of_port = _at(queues, "egressQueueCounters", "interfaces", port)
    for kind in ("ucastQueues", "mcastQueues"):
        for name, row in _at(of_port, kind, "trafficClasses").items():
            for drops in _at(row, "dropPrecedences").values():
                for field, word in (("enqueuedPackets", "sent"), ("droppedPackets", "dropped")):
                    if isinstance(drops, Mapping) and field in drops:
                        yield _range(name, source), word, drops[field]
    for name, value in _at(marks, "intfQueueCounters", port, "queueCounters").items():
        yield _range(name, source), "marked", value
    for name, row in _at(pauses, "interfaces", port, "priorities").items():
        for field, word in (("txFrames", "pauses_sent"), ("rxFrames", "pauses_received")):
            if isinstance(row, Mapping) and field in row:
                yield _range(name, source), word, row[field]
    for name, row in _at(watchdog, "interfaces", port, "txQueues").items():
        if isinstance(row, Mapping) and "stuckCount" in row:
            yield _range(name, source), "storms", row["stuckCount"]


def link_ends(
    ports: Iterable[str], interfaces: Mapping[str, Any], phys: Mapping[str, Any], optics: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """{port: what EOS says of its end, as text}, without ports that it does not have. `preFecBer` is the worst of the PHYs on the
    side of the line, `lastUncorrected` their latest moment of an error that FEC left, `rxPowerN` of channel N in dBm.
    """
    made = {}
    for port in ports:
        row = _at(interfaces, "interfaces", port)
        if not row:
            continue
        found = {name: row[name] for name in ("lineProtocolStatus", "bandwidth", "lanes") if name in row}
        found |= _times(row)
        statuses = _at(phys, "interfacePhyStatuses", port).get("phyStatuses", [])
        line = [
            one
            for one in (statuses if isinstance(statuses, list) else [])
            if _at(one, "description").get("location", "line") == "line" and _at(one, "preFecBer")
        ]
        found |= _fec(line)
        errors = [_at(one, "preFecBer").get("value") for one in line]
        numbers = [one for one in errors if isinstance(one, int | float) and not isinstance(one, bool)]
        if errors:
            found["preFecBer"] = max(numbers) if len(numbers) == len(errors) else "unreadable"
        power = _at(optics, "interfaces", port, "parameters", "rxPower")
        found |= {f"rxPower{channel}": value for channel, value in _at(power, "channels").items()}
        found |= {
            name: _at(power, "threshold")[name] for name in ("lowAlarm", "highAlarm") if name in _at(power, "threshold")
        }
        made[port] = {answers.line(str(name)): answers.line(str(value)) for name, value in found.items()}
    return made


def _times(row: Mapping[str, Any]) -> dict[str, Any]:
    """When the port changed its state, and when its counters were read, seconds since 1970 by the clock of the switch."""
    said = (
        ("lastStatusChange", row.get("lastStatusChangeTimestamp")),
        ("counterRefresh", _at(row, "interfaceCounters").get("counterRefreshTime")),
    )
    return {name: value for name, value in said if value is not None}


def _fec(line: list[Any]) -> dict[str, Any]:
    """FEC's code, and when it last failed to correct a code word, 0 for never; nothing where a PHY of the line does not say it.
    A code that is no text counts as not said.
    """
    said = [_at(one, "fec").get("encoding") for one in line]
    codes = {code if isinstance(code, str) else None for code in said}
    counted = [_at(one, "fec", "uncorrectedCodewords") for one in line]
    found = {"fec": next(iter(codes))} if len(codes) == 1 and None not in codes else {}
    if counted and all({"value", "lastChange"} <= set(one) for one in counted):
        found["lastUncorrected"] = max((str(one["lastChange"]) for one in counted), key=_seconds)
    return found


def _seconds(said: str) -> float:
    """For the latest of several moments; what is no number counts as the latest, and is refused where it is read."""
    return float(said) if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", said) else float("inf")


def _at(said: Any, *path: str) -> Mapping[str, Any]:
    """A part of an answer by its keys; {} where it is not there or is no object."""
    for key in path:
        said = said.get(key, {}) if isinstance(said, Mapping) else {}
    return said if isinstance(said, Mapping) else {}


def _range(name: str, source: Source) -> list[int]:
    """The numbers that a key stands for: 'TC3' 3, 'TC0-2' 0, 1, 2."""
    found = NUMBERS.fullmatch(name)
    if not found:
        raise source.unreadable("a number of a class or priority, 0 to 7", answers.line(name)[:80])
    return list(range(int(found[1]), int(found[2] or found[1]) + 1))


def _number(value: Any, what: str, source: Source) -> int:
    """A counter, which EOS writes as a number or as its digits."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= DIGITS:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise source.unreadable(f"a number of {what}", answers.line(str(value))[:80])
