"""What SONiC's databases say of its ports: counters of queues and pauses, and the ends of links. Pure: commands out, answers in.
network/switch_ends.py reads a row of `link_ends`.

    names = ports_of(ask, source)               # {the plan's port: SONiC's}; ask(database, commands) -> one line for each value
    queue_counters(ask, ["swp1"], names, source)
    link_ends(ask, ["swp1"], names, source)     # {"swp1": {"oper_status": "up", "speed": "400000", "fec": "rs", ...}}

Tables and fields as sonic-net/sonic-utilities reads them (commit 691b1bbc): scripts/queuestat, scripts/wredstat, scripts/pfcstat,
pfcwd/main.py, utilities_common/portstat.py, scripts/sfpshow; `redis-cli -n N` as in scripts/fast-reboot. Databases by number, as in
database_config.json: 0 APPL_DB, 2 COUNTERS_DB, 4 CONFIG_DB, 6 STATE_DB. redis-cli writes each value of HMGET on a line of its own,
and an empty line for a field that is not there.

Marks are counted only where `counterpoll wredqueue enable` has been run; FEC's bit error rates where ports are polled. What FEC did
not correct is counted since before the link came up: `sonic-clear` sets no counter of a database back (scripts/portstat). When it
came up says last_up_time, in UTC (sonic-net/sonic-swss, commit e6b0c5b5: orchagent/portsorch.cpp, updateDbPortFlapCount).
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from network.drivers import answers
from network.drivers.answers import Source

APPL, COUNTERS, CONFIG, STATE = 0, 2, 4, 6
NUMBERS = range(8)
"""Queues, priorities and priority groups of a port that are read: PFC has eight (IEEE 802.1Qbb)."""
QUEUE = {
    "SAI_QUEUE_STAT_PACKETS": "sent",
    "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": "marked",
    "SAI_QUEUE_STAT_DROPPED_PACKETS": "dropped",
    "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED": "storms",
}
GROUP = {"SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS": "dropped"}
PORT = {"SAI_PORT_STAT_PFC_{}_TX_PKTS": "pauses_sent", "SAI_PORT_STAT_PFC_{}_RX_PKTS": "pauses_received"}
NEEDED = frozenset({"sent", "marked", "dropped", "pauses_sent", "pauses_received"})
LANES = 8
"""Most lanes of a module: QSFP-DD and OSFP."""
LINK = {
    (APPL, "PORT_TABLE:{}"): ("oper_status", "speed", "lanes", "fec", "last_up_time"),
    (STATE, "PORT_TABLE|{}"): ("fec",),
    (STATE, "TRANSCEIVER_DOM_SENSOR|{}"): tuple(f"rx{lane}power" for lane in range(1, LANES + 1)),
    (STATE, "TRANSCEIVER_DOM_THRESHOLD|{}"): ("rxpowerlowalarm", "rxpowerhighalarm"),
}
"""(database, key): fields of a port that its end of a link is known by, under these names; a later `fec` counts, if it is there."""
RATES = ("FEC_PRE_BER", "FEC_POST_BER")
UNCORRECTED = "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES"
READ_AT = "read_at"
"""Seconds since 1970 by the clock of the switch, when its databases were read."""

Ask = Callable[[int, Sequence[str]], list[str]]
"""(number of a database, commands) -> the lines that redis-cli writes. Raises a DeviceError."""

_NAME = re.compile(r"PORT\|(Ethernet[0-9]{1,4})")
_OID = re.compile(r"oid:0x[0-9a-f]{1,16}")
_COUNT = re.compile(r"[0-9]{1,20}")

Name = TypeVar("Name", bound=Hashable)


def ports_of(ask: Ask, source: Source) -> dict[str, str]:
    """{alias, which is the plan's name of a port: SONiC's name}."""
    names = sorted(found[1] for line in ask(CONFIG, ["KEYS PORT|*"]) if (found := _NAME.fullmatch(line)))
    aliases = _hashes(source, ask, CONFIG, {name: (f"PORT|{name}", ("alias",)) for name in names})
    return {answers.line(row["alias"]): name for name, row in aliases.items() if "alias" in row}


def queue_counters(
    ask: Ask, ports: Iterable[str], names: Mapping[str, str], source: Source
) -> dict[str, dict[str, int]]:
    """{port: {"sent/3": packets of queue 3, "marked/3", "dropped/3", "storms/3", "pauses_sent/3", "pauses_received/3"}}.

    "dropped" has those of queues and of priority groups of the same number, "storms" how often the PFC watchdog found one.
    UnreadableAnswer for a port that counts no marks or no pauses.
    """
    ports = list(ports)
    if lost := [port for port in ports if port not in names]:
        raise source.unreadable(f"ports with the plan's names as alias: {', '.join(lost)}", "no such alias")
    numbered = [f"{names[port]}:{number}" for port in ports for number in NUMBERS]
    wanted = {
        "queue": ("COUNTERS_QUEUE_NAME_MAP", tuple(numbered)),
        "group": ("COUNTERS_PG_NAME_MAP", tuple(numbered)),
        "port": ("COUNTERS_PORT_NAME_MAP", tuple(names[port] for port in ports)),
    }
    oids = _hashes(source, ask, COUNTERS, wanted)
    asked: dict[tuple[str, str, int], tuple[str, tuple[str, ...]]] = {}
    for port in ports:
        own = tuple(field.format(number) for field in PORT for number in NUMBERS)
        if oid := oids["port"].get(names[port]):
            asked["port", port, 0] = (_key(oid, source), own)
        for kind, fields in (("queue", QUEUE), ("group", GROUP)):
            for number in NUMBERS:
                if oid := oids[kind].get(f"{names[port]}:{number}"):
                    asked[kind, port, number] = (_key(oid, source), tuple(fields))
    counted: dict[str, dict[str, int]] = {port: {} for port in ports}
    words = {**QUEUE, **GROUP} | {
        field.format(number): f"{word}/{number}" for field, word in PORT.items() for number in NUMBERS
    }
    for (kind, port, number), row in _hashes(source, ask, COUNTERS, asked).items():
        for field, value in row.items():
            if not _COUNT.fullmatch(value):
                raise source.unreadable(f"a number of {field} at {port}", answers.line(value)[:80])
            name = words[field] if kind == "port" else f"{words[field]}/{number}"
            counted[port][name] = counted[port].get(name, 0) + int(value)
    for port, row_of in counted.items():
        if lacking := sorted(NEEDED - {name.partition("/")[0] for name in row_of}):
            hint = "; marks need `counterpoll wredqueue enable`" if "marked" in lacking else ""
            raise source.unreadable(f"{', '.join(lacking)} of {port}{hint}", "nothing of them")
    return counted


def link_ends(ask: Ask, ports: Iterable[str], names: Mapping[str, str], source: Source) -> dict[str, dict[str, str]]:
    """{port: the fields of LINK and RATES that the switch has of it}; a port that it does not know is left out."""
    known = [port for port in ports if port in names]
    found: dict[str, dict[str, str]] = {port: {} for port in known}
    for (database, key), fields in LINK.items():
        rows = _hashes(source, ask, database, {port: (key.format(names[port]), fields) for port in known})
        for port, row in rows.items():
            found[port] |= {name: answers.line(value) for name, value in row.items()}
    asked = {"oid": ("COUNTERS_PORT_NAME_MAP", tuple(names[port] for port in known))}
    oids = _hashes(source, ask, COUNTERS, asked)["oid"] if known else {}
    valid = {port: oid for port in known if _OID.fullmatch(oid := oids.get(names[port], ""))}
    for key, fields in (("RATES:{}", RATES), ("COUNTERS:{}", (UNCORRECTED,))):
        asked_of = {port: (key.format(oid), fields) for port, oid in valid.items()}
        for port, row in _hashes(source, ask, COUNTERS, asked_of).items():
            found[port] |= {name: answers.line(value) for name, value in row.items()}
    clock = ask(APPL, ["TIME"])[:1] if known else []
    return {port: {**row, **({READ_AT: answers.line(clock[0])} if clock else {})} for port, row in found.items()}


def _hashes(
    source: Source, ask: Ask, database: int, wanted: Mapping[Name, tuple[str, Sequence[str]]]
) -> dict[Name, dict[str, str]]:
    """{name: {field: value}} of hashes, by one call: {name: (key, fields)}; fields that are not there are left out."""
    if not wanted:
        return {}
    lines = ask(database, [f"HMGET {key} {' '.join(fields)}" for key, fields in wanted.values() if fields])
    total = sum(len(fields) for _, fields in wanted.values())
    if len(lines) != total:
        raise source.unreadable(f"{total} values", f"{len(lines)} lines")
    each = iter(lines)
    return {
        name: {field: value for field, value in [(field, next(each)) for field in fields] if value}
        for name, (_, fields) in wanted.items()
    }


def _key(oid: str, source: Source) -> str:
    if not _OID.fullmatch(oid):
        raise source.unreadable("an object's number", answers.line(oid)[:80])
    return f"COUNTERS:{oid}"
