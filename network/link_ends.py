"""What one end of a link says of it: state, rate, FEC, bit errors before and after FEC, optical power. Pure.

    end = parse(mlxlink, Source("gpu001", "read mlx5_0"))           # mlxlink --json -c -m
    list(faults(end, rate_gbps=400, raw_ber=2.4e-4, ber=1e-15))     # [] where the link is as planned and counted for long enough
    list(seen(end, rate_gbps=400, raw_ber=2.4e-4, ber=1e-15))       # the same without the time that it has to have counted
    list(unlike(end, far))                                          # in what two ends of one link differ

`mlxlink` belongs to MFT and, as mstlink, to mstflint (Mellanox/mstflint, mlxlink/modules/mlxlink_commander.cpp): raw bit errors are
those before FEC, effective ones those that FEC left.

No error within a time says something of the bit error rate only after so many bits: with N bits and no error, the rate is below 3/N
with 95 % confidence (rule of three: 1 - (1 - p)^N = 0.95 gives p = -ln(0.05)/N). 1e-15 at 400 Gb/s takes 7,500 s.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from network.drivers import answers
from network.drivers.answers import Line, Source
from network.infiniband.parse import LANE_GBPS

RULE_OF_THREE = 3.0
"""-ln(1 - 0.95), rounded up."""
FEC_FROM_GBPS = 50.0
"""Of a lane: signals of four levels, which IEEE 802.3cd specifies with RS(544,514) alone."""
SECTIONS = ("Operational Info", "Physical Counters and BER Info", "Module Info")

_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?")
_SPEED = re.compile(r"(?:IB-)?([A-Z]DR(?:10)?)|([0-9]{1,4})(?:G|GbE)\b.*")
_WIDTH = re.compile(r"([0-9]{1,2})x")
_RANGE = re.compile(r"(.*?)\[\s*(\S+?)\s*\.\.\s*(\S+?)\s*\]\s*")


class _Result(TypedDict):
    output: dict[Line, Any]


class _Answer(TypedDict):
    result: _Result


@dataclass(frozen=True)
class LinkEnd:
    """One end of a link, as it says itself. None: the end does not say it.

    ``rate_gbps``   0 where there is no link. ``lanes`` 0: the end does not say its width
    ``raw_ber``     bit error rate before FEC, ``errors`` bits that are wrong after it, since `counted_s`; of some systems
                    code words, each of which has several
    ``effective_ber``  bit error rate after FEC as the end itself computes it
    ``went_down``   whether it lost its link between two readings
    ``rx_dbm``      received power of each lane; empty for copper. ``rx_range_dbm``: what the module allows
    """

    state: str
    physical: str
    rate_gbps: float
    fec: str
    raw_ber: float | None
    errors: int | None
    counted_s: float | None
    rx_dbm: tuple[float, ...] = ()
    rx_range_dbm: tuple[float, float] | None = None
    lanes: int = 0
    effective_ber: float | None = None
    went_down: bool = False

    @property
    def unshown(self) -> tuple[str, ...]:
        """What the end does not show, of what it is judged by."""
        lacking = {
            "width": not self.lanes,
            "FEC": not self.fec,
            "bit errors before FEC": self.raw_ber is None,
            "bit errors after FEC": self.effective_ber is None and self.counted_s is None,
        }
        return tuple(name for name, lacks in lacking.items() if lacks)


def soak_s(ber: float, rate_gbps: float) -> float:
    """Seconds without an error that a link of this rate has to run to say that its bit error rate is below `ber` with 95 %."""
    return RULE_OF_THREE / (ber * rate_gbps * 1e9)


def parse(text: str, source: Source) -> LinkEnd:
    """What `mlxlink --json -c -m` says. UnreadableAnswer names the device for anything else."""
    output = answers.read(_Answer, answers.load(text, source), source)["result"]["output"]
    link, counters, module = (_section(output, name, source) for name in SECTIONS)
    for field in ("State", "Physical state", "Speed", "Width"):
        if field not in link:
            raise source.unreadable(f"{SECTIONS[0]}: {field}", "nothing")
    with answers.reading(source, "numbers of mlxlink"):
        minutes, errors = (
            _number(counters, "Time Since Last Clear [Min]"),
            _number(counters, "Effective Physical Errors"),
        )
        power, bounds = _lanes(module.get("Rx Power Current [dBm]"))
        return LinkEnd(
            state=link["State"],
            physical=link["Physical state"],
            rate_gbps=_rate(link["Speed"], link["Width"]),
            fec=link.get("FEC", ""),
            raw_ber=_number(counters, "Raw Physical BER"),
            errors=None if errors is None else int(errors),
            counted_s=None if minutes is None else minutes * 60,
            rx_dbm=() if "copper" in module.get("Cable Type", "").lower() else power,
            rx_range_dbm=bounds,
            lanes=int(found[1]) if (found := _WIDTH.fullmatch(link["Width"])) else 0,
            effective_ber=_number(counters, "Effective Physical BER"),
        )


def faults(end: LinkEnd, *, rate_gbps: float, raw_ber: float, ber: float, needs_raw: bool = True) -> Iterator[str]:
    """What is wrong with an end. rate_gbps: planned; raw_ber, ber: highest bit error rate before and after FEC. needs_raw: whether
    it is a fault not to show the one before FEC.
    """
    if not end_is_up(end):
        yield _down(end)
        return
    yield from _set_up(end, rate_gbps)
    if not end.fec and needs_fec(end):
        yield "names no FEC: lanes of 50 Gb/s and more need it (IEEE 802.3, clause 91 and 119)"
    if end.errors is None or end.counted_s is None:
        yield "counts no bit errors"
    else:
        if end.raw_ber is None and needs_raw:
            yield "counts no bit errors before FEC"
        yield from _raw(end, raw_ber)
        needed = soak_s(ber, rate_gbps)
        bits = end.counted_s * end.rate_gbps * 1e9
        if end.errors and end.errors > ber * bits:
            yield f"has {end.errors} wrong bits after FEC in {end.counted_s:.0f} s, limit {ber:.1e} of all bits"
        elif end.counted_s < needed:
            yield f"has counted for {end.counted_s:.0f} s: {ber:.1e} takes {needed:.0f} s without an error"
    yield from _light(end)


def seen(end: LinkEnd, *, rate_gbps: float, raw_ber: float, ber: float) -> Iterator[str]:
    """What an end shows that is wrong now, however long it has counted. What it does not show is no fault (LinkEnd.unshown)."""
    if not end_is_up(end):
        yield _down(end)
        return
    yield from _set_up(end, rate_gbps)
    yield from _raw(end, raw_ber)
    if end.effective_ber is not None and end.effective_ber > ber:
        yield f"has a bit error rate of {end.effective_ber:.1e} after FEC, limit {ber:.1e}"
    yield from _light(end)


def unlike(a: LinkEnd, b: LinkEnd) -> Iterator[str]:
    """In what the ends of one link differ; what one of them does not show is not compared."""
    if end_is_up(a) != end_is_up(b):
        yield f"state {a.state}, {a.physical} and {b.state}, {b.physical}"
        return
    if a.rate_gbps != b.rate_gbps:
        yield f"{a.rate_gbps:g} and {b.rate_gbps:g} Gb/s"
    if a.lanes and b.lanes and a.lanes != b.lanes:
        yield f"{a.lanes} and {b.lanes} lanes"
    kinds = kind_of_fec(a.fec), kind_of_fec(b.fec)
    if all(kinds) and kinds[0] != kinds[1]:
        yield f"FEC {a.fec} and {b.fec}"


def kind_of_fec(said: str) -> str:
    """The code that a tool names in its own words: 'RS', 'low-latency RS', 'Firecode', 'none'; '' for words that are not known."""
    word = re.sub(r"[^A-Z/]", "", said.upper())
    if word.startswith(("NO", "N/A", "OFF")):
        return "none"
    if "RS" in word or word == "REEDSOLOMON":
        return "low-latency RS" if "LL" in word else "RS"
    return "Firecode" if "FIRECODE" in word or word in ("BASER", "FC", "FCFEC") else ""


def needs_fec(end: LinkEnd) -> bool:
    """Whether its lanes carry 50 Gb/s or more; of unknown lanes, whether the whole rate is one that only such lanes give."""
    return end.rate_gbps / end.lanes >= FEC_FROM_GBPS if end.lanes else end.rate_gbps >= 4 * FEC_FROM_GBPS


def end_is_up(end: LinkEnd) -> bool:
    """Whether an end has its link, in the words of any of the tools: mlxlink, ibdiagnet, ethtool."""
    return (end.state.upper(), end.physical.upper().replace(" ", "").replace("_", "")) in UP


UP = {("ACTIVE", "LINKUP"), ("ACT", "LINKUP"), ("UP", "LINKUP")}


def _down(end: LinkEnd) -> str:
    return f"is {end.state}, {end.physical}, wanted Active, LinkUp"


def _set_up(end: LinkEnd, rate_gbps: float) -> Iterator[str]:
    if end.went_down:
        yield "went down during the run"
    if end.rate_gbps != rate_gbps:
        yield f"runs at {end.rate_gbps:g} Gb/s, planned {rate_gbps:g}"
    if kind_of_fec(end.fec) == "none" and needs_fec(end):
        yield f"has no FEC ({end.fec}): lanes of 50 Gb/s and more need it (IEEE 802.3, clause 91 and 119)"


def _raw(end: LinkEnd, limit: float) -> Iterator[str]:
    if end.raw_ber is not None and end.raw_ber > limit:
        yield f"has a bit error rate of {end.raw_ber:.1e} before FEC, limit {limit:.1e}"


def _light(end: LinkEnd) -> Iterator[str]:
    for lane, power in enumerate(end.rx_dbm, 1):
        if end.rx_range_dbm and not end.rx_range_dbm[0] <= power <= end.rx_range_dbm[1]:
            low, high = end.rx_range_dbm
            yield f"receives {power:g} dBm on lane {lane}, the module allows {low:g} to {high:g}"


def _section(output: Mapping[str, Any], name: str, source: Source) -> Mapping[str, str]:
    """A section as texts; {} where the tool was not asked for it. Lists of lanes are joined by commas."""
    given = output.get(name, {})
    if not isinstance(given, Mapping):
        raise source.unreadable(f"{name}: fields", str(given)[:80])
    made = {}
    for field, value in given.items():
        value = value.get("values", "") if isinstance(value, Mapping) else value
        made[field] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return made


def _rate(speed: str, width: str) -> float:
    found, lanes = _SPEED.fullmatch(speed), _WIDTH.fullmatch(width)
    if found is None:
        return 0.0
    if found[2]:
        return float(found[2])
    return LANE_GBPS.get(found[1], 0.0) * (int(lanes[1]) if lanes else 0)


def _number(section: Mapping[str, str], field: str) -> float | None:
    """A number, None where the field is missing or 'N/A'; ValueError for other words."""
    said = section.get(field, "N/A")
    if said in ("N/A", ""):
        return None
    if not _NUMBER.fullmatch(said):
        raise ValueError(f"{field}: {said[:40]!r}")
    return float(said)


def _lanes(said: str | None) -> tuple[tuple[float, ...], tuple[float, float] | None]:
    """'1.2,1.1 [-10.0..5.0]': the values of the lanes, and the range that the module allows."""
    if said is None or said.startswith("N/A"):
        return (), None
    ranged = _RANGE.fullmatch(said)
    values = (ranged[1] if ranged else said).replace(" ", "").strip(",")
    lanes = tuple(float(one) for one in values.split(",") if one)
    return lanes, (float(ranged[2]), float(ranged[3])) if ranged else None
