"""Counters of the two ends of a link as rates: what one sends, the other has to receive. Pure.

    made = rates(first, second)                        # of one end, between two readings
    list(unlike("gpu001:rail0", a, "rol001:swp1s0", b, slack_b_s=1e6))

Two ends are not read at the same moment. What a link can carry in the time between their readings is what their counts may differ
by, and no more (`slack_b_s`): below it a difference says nothing, above it one of the two counts wrong or bytes were lost.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FRAME_B = 24
"""Bytes of a frame that one counter may have and the other not: preamble 8, check sequence 4, gap 12 (IEEE 802.3, clauses 3, 4)."""
LEAST_SHARE = 0.05
"""Of the rate of a link: a comparison has to see a difference of that size, else it was counted for too short a time."""


@dataclass(frozen=True)
class Rates:
    """What one end counted in each second. ``drops_s`` good packets that found no room; ``frames_s`` 0: not known; ``cleared``:
    counters that began anew in between, so that their rates are lower bounds."""

    sent_b_s: float
    received_b_s: float
    errors_s: float
    drops_s: float = 0.0
    frames_s: float = 0.0
    cleared: tuple[str, ...] = ()


def increase(first: int, second: int) -> tuple[int, bool]:
    """By how much a counter rose, at least, and whether it began anew in between: one that is lower than before did."""
    return (second - first, False) if second >= first else (second, True)


def rates(first: Mapping[str, int], second: Mapping[str, int], seconds: float, *, word_b: int = 1) -> Rates:
    """Rates between two readings of one end, of the counters that both have; data are counted in words of `word_b` bytes.

    KeyError without `sent` and `received`; ValueError for readings that are not one after the other.
    """
    if not seconds > 0:
        raise ValueError(f"{seconds:g} s between two readings")
    rose = {name: increase(first[name], second[name]) for name in second if name in first}
    errors = sum(amount for name, (amount, _) in rose.items() if name not in ("sent", "received", "discards"))
    return Rates(
        rose["sent"][0] * word_b / seconds,
        rose["received"][0] * word_b / seconds,
        errors / seconds,
        rose.get("discards", (0, False))[0] / seconds,
        cleared=tuple(sorted(name for name, (_, anew) in rose.items() if anew)),
    )


def slack_b_s(rate_gbps: float, apart_s: float, window_s: float) -> float:
    """Bytes a second by which counts of two ends may differ that are read up to `apart_s` apart, at both ends of a window."""
    return rate_gbps * 1e9 / 8 * apart_s / window_s


def unlike(a: str, said_a: Rates, b: str, said_b: Rates, slack: float) -> Iterator[str]:
    """What the ends of a link count otherwise, in both directions; slack in bytes a second."""
    for source, sent, destination, received in (
        (a, said_a.sent_b_s, b, said_b.received_b_s),
        (b, said_b.sent_b_s, a, said_a.received_b_s),
    ):
        framing = FRAME_B * max(said_a.frames_s, said_b.frames_s)
        if abs(sent - received) > slack + framing:
            yield (
                f"{source} sends {_gbps(sent)} and {destination} receives {_gbps(received)}; up to "
                f"{_gbps(slack + framing)} of it may be the moments of reading"
            )


def _gbps(bytes_s: float) -> str:
    return f"{bytes_s * 8 / 1e9:.3g} Gb/s"
