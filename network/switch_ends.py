"""One end of an Ethernet link as a switch's driver reads it (network.nos.driver.TellsLinks). Pure.

    end = sonic({"oper_status": "up", "speed": "400000", "fec": "rs", "FEC_PRE_BER": "1.48e-20"}, Source("rol001", "read swp1"))

Fields of `sonic` are those of SONiC's APPL_DB, STATE_DB and COUNTERS_DB (network/nos/sonic/databases.py has the source).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from network.drivers import answers
from network.drivers.answers import Source
from network.link_ends import LinkEnd
from network.nos.sonic.databases import READ_AT, UNCORRECTED

_DECIMAL = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?")
_SPEED = re.compile(r"([0-9]{1,4})G")
_LIGHT = re.compile(r"rx[0-9]{1,2}power")


def sonic(row: Mapping[str, str], source: Source) -> LinkEnd:
    """An end by SONiC's databases. UnreadableAnswer without `oper_status`, for fields that are no numbers, and for a second reading
    that lacks what the first one has.

    FEC_PRE_BER and FEC_POST_BER are of the last polling. `errors` are code words that FEC did not correct. Without one the time is
    that since the link came up. A link makes some while it comes up: then they are those between two readings (`again`), and the
    time is None without a second one. Copper has no light.
    """
    state = row.get("oper_status", "")
    later = row.get(f"{AGAIN}oper_status", "") if _is_twice(row) else state
    for said in (state, later):
        if said not in ("up", "down"):
            raise source.unreadable("oper_status of a port, up or down", answers.line(said)[:80] or "nothing")
    up = state == "up"
    with answers.reading(source, "numbers of SONiC's databases"):
        power = [
            _number(row, name) for name in sorted(row, key=lambda name: (len(name), name)) if _LIGHT.fullmatch(name)
        ]
        low, high = _number(row, "rxpowerlowalarm"), _number(row, "rxpowerhighalarm")
        speed_mbps = _number(row, "speed")
        errors, counted_s = _uncorrected(row)
        return LinkEnd(
            state="Up" if up else "Down",
            physical="LinkUp" if up else "LinkDown",
            rate_gbps=speed_mbps / 1000 if up and speed_mbps else 0.0,
            fec="" if row.get("fec", "N/A") == "N/A" else answers.line(row["fec"]),
            raw_ber=_number(row, "FEC_PRE_BER"),
            errors=errors,
            counted_s=counted_s,
            rx_dbm=tuple(one for one in power if one is not None),
            rx_range_dbm=None if low is None or high is None else (low, high),
            lanes=len(row["lanes"].split(",")) if row.get("lanes") else 0,
            effective_ber=_number(row, "FEC_POST_BER"),
            went_down=(state, later) == ("up", "down") or _came_up_again(row),
        )


READ_TWICE = frozenset({"sonic"})
"""Systems that do not show since when they count what FEC did not correct."""
AGAIN = "again "
"""Before the names of fields of a second reading of the same end."""
_SOAKED = (UNCORRECTED, READ_AT, "last_up_time")
"""Fields of two readings that say how many errors there were for how long."""
_NOTHING = ("N/A", "", "None")
_UP_TIME = "%a %b %d %H:%M:%S %Y"


def again(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Two readings of one end as one row."""
    return {**first, **{f"{AGAIN}{name}": value for name, value in second.items()}}


def _is_twice(row: Mapping[str, str]) -> bool:
    return any(name.startswith(AGAIN) for name in row)


def _came_up_again(row: Mapping[str, str]) -> bool:
    return row.get(f"{AGAIN}last_up_time", "") not in ("", row.get("last_up_time", ""))


def _uncorrected(row: Mapping[str, str]) -> tuple[int | None, float | None]:
    """(code words that FEC did not correct, seconds that they were counted for) of an end of SONiC. No time where the link or its
    counter began anew between two readings. ValueError where the second one lacks what the first one has.
    """
    count, read_at = _number(row, UNCORRECTED), _number(row, READ_AT)
    if count is None:
        return None, None
    later, later_at = _number(row, f"{AGAIN}{UNCORRECTED}"), _number(row, f"{AGAIN}{READ_AT}")
    since = row.get("last_up_time", "")
    had = [name for name in _SOAKED if row.get(name, "") not in _NOTHING]
    if _is_twice(row) and (lost := [name for name in had if row.get(f"{AGAIN}{name}", "") in _NOTHING]):
        raise ValueError(f"{', '.join(lost)}: nothing the second time")
    if later is not None and later_at is not None:
        if row.get(f"{AGAIN}last_up_time", "") != since or later < count:
            return int(later), None
        if later and read_at is not None:
            return int(later - count), later_at - read_at
        count, read_at = later, later_at
    if count or read_at is None or not since:
        return int(count), None
    return 0, read_at - datetime.strptime(since, _UP_TIME).replace(tzinfo=UTC).timestamp()


def cumulus(row: Mapping[str, str], source: Source) -> LinkEnd:
    """An end by NVUE (network.nos.cumulus.driver). UnreadableAnswer without `oper-status`, and for fields that are no numbers.
    Width and light are not known.
    """
    state = row.get("oper-status", "")
    if not state.isalpha():
        raise source.unreadable("oper-status of a port", answers.line(state)[:80] or "nothing")
    up = state == "up"
    with answers.reading(source, "numbers of NVUE"):
        speed = _SPEED.fullmatch(row.get("speed", ""))
        if up and not speed:
            raise ValueError(f"speed: {row.get('speed', 'nothing')[:40]!r}")
        errors, minutes = _number(row, "effective-errors"), _number(row, "time-since-last-clear-min")
        return LinkEnd(
            state="Up" if up else "Down",
            physical="LinkUp" if up else "LinkDown",
            rate_gbps=float(speed[1]) if up and speed else 0.0,
            fec="" if row.get("fec", "auto") == "auto" else answers.line(row["fec"]),  # auto is what was asked for
            raw_ber=_number(row, "raw-ber"),
            errors=None if errors is None else int(errors),
            counted_s=None if minutes is None else minutes * 60,
            effective_ber=_number(row, "effective-ber"),
        )


def eos(row: Mapping[str, str], source: Source) -> LinkEnd:
    """An end by EOS's show commands (network/nos/eos/counters.py). UnreadableAnswer without `lineProtocolStatus`, and for fields
    that are no numbers. There is no error since the last code word that FEC did not correct, or since the link came up.
    """
    state = row.get("lineProtocolStatus", "")
    if not state.isalpha():
        raise source.unreadable("lineProtocolStatus of a port", answers.line(state)[:80] or "nothing")
    up = state == "up"
    with answers.reading(source, "numbers of EOS"):
        power = [
            _number(row, name) for name in sorted(row, key=lambda name: (len(name), name)) if name.startswith("rxPower")
        ]
        low, high = _number(row, "lowAlarm"), _number(row, "highAlarm")
        bandwidth, lanes = _number(row, "bandwidth"), _number(row, "lanes")
        changed, missed, now = (
            _number(row, name) for name in ("lastStatusChange", "lastUncorrected", "counterRefresh")
        )
        timed = None not in (changed, missed, now)
        return LinkEnd(
            state="Up" if up else "Down",
            physical="LinkUp" if up else "LinkDown",
            rate_gbps=bandwidth / 1e9 if up and bandwidth else 0.0,
            fec=answers.line(row.get("fec", "")),
            raw_ber=_number(row, "preFecBer"),
            errors=0 if timed else None,
            counted_s=(now or 0.0) - max(changed or 0.0, missed or 0.0) if timed else None,
            rx_dbm=tuple(one for one in power if one is not None),
            rx_range_dbm=None if low is None or high is None else (low, high),
            lanes=int(lanes or 0),
        )


def _number(row: Mapping[str, str], field: str) -> float | None:
    """A number, None where the field is missing or N/A; ValueError for other words."""
    said = row.get(field, "N/A").removesuffix("dBm").strip()
    if said in _NOTHING:
        return None
    if said == "-inf":
        return float("-inf")
    if not _DECIMAL.fullmatch(said):
        raise ValueError(f"{field}: {said[:40]!r}")
    return float(said)
