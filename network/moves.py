"""The fewest exchanges of plugs that turn the cables that are seen into those that are planned. Pure: plain data in and out.

    planned = {"leaf01:swp1": "spine01:swp1", ...}                # both ways
    for fault in faults(planned, {("leaf01:swp1", "spine02:swp1"), ("leaf01:swp2", "spine01:swp1")}):
        fault.exchanges                                           # (Exchange("leaf01:swp1", "leaf01:swp2"),)

Planned and seen cables together form closed chains and open ones, in which every second cable is planned and every other one is
seen. An exchange of two plugs changes two seen cables, so it splits a chain into at most two: a closed chain of k cables takes
k - 1 exchanges and no fewer (the argument by which n - c transpositions sort a permutation of n with c cycles). An open chain ends
at ports without light or outside the plan: it takes one exchange for each planned cable, less one where no cable is left for it.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

End = str
"""One end of a cable as 'device:port'."""
Edge = tuple[End, End]
"""A cable, its ends in order."""
Cost = Callable[[End, End], float]
"""What it costs to exchange the plugs at two ends; the cheapest of the shortest lists begins with the cheapest exchange."""


@dataclass(frozen=True)
class Exchange:
    """The plugs at two ports change places; one of the ports may have no plug, or one without light."""

    one: End
    two: End


@dataclass(frozen=True)
class Fault:
    """Cables that are wrong together.

    ``seen``       the cables that the plan does not have, sorted
    ``planned``    the planned cables that are not there, sorted
    ``exchanges``  what to do, in order; empty where nothing that is seen belongs to the plan
    ``missing``    the planned cable for which none is left after that, or None
    ``left``       the cable that is left over after that, or None
    """

    seen: tuple[Edge, ...]
    planned: tuple[Edge, ...]
    exchanges: tuple[Exchange, ...] = ()
    missing: Edge | None = None
    left: Edge | None = None
    ends: frozenset[End] = field(default=frozenset(), compare=False)


def edge(a: End, b: End) -> Edge:
    """A cable by its two ends."""
    return (a, b) if a < b else (b, a)


def device(end: End) -> str:
    """The device of an end."""
    return end.rpartition(":")[0]


def apart(one: End, two: End) -> float:
    """The cost of an exchange: 0 on one device, else 1."""
    return float(device(one) != device(two))


def faults(planned: Mapping[End, End], wrong: Collection[Edge], cost: Cost = apart) -> list[Fault]:
    """The wrong cables by the chains that they form, sorted by their first cable.

    planned: {end: other end}, both ways. wrong: cables that are seen and not planned. An end that several of them claim is of
    sightings at different times: such cables are faults of their own without exchanges.
    """
    seen: dict[End, list[End]] = defaultdict(list)
    for a, b in wrong:
        seen[a].append(b)
        seen[b].append(a)
    found, done = [], set()
    for start in sorted(seen):
        if start in done:
            continue
        ends = _chain(start, planned, seen)
        done |= ends
        found += _faults_of(ends, planned, seen, cost)
    return sorted(found, key=lambda fault: fault.seen)


def _chain(start: End, planned: Mapping[End, End], seen: Mapping[End, Collection[End]]) -> set[End]:
    """All ends that are joined with one by planned or seen cables."""
    ends, next_ = {start}, [start]
    while next_:
        end = next_.pop()
        joined = {*seen.get(end, ()), *([planned[end]] if end in planned else ())} - ends
        ends |= joined
        next_ += joined
    return ends


def _faults_of(
    ends: Collection[End], planned: Mapping[End, End], seen: Mapping[End, list[End]], cost: Cost
) -> list[Fault]:
    cables = sorted({edge(end, far) for end in ends for far in seen.get(end, ())})
    wanted = sorted({edge(end, planned[end]) for end in ends if end in planned})
    if any(len(seen.get(end, ())) > 1 for end in ends):
        return [
            Fault(
                (cable,),
                tuple(sorted({edge(end, planned[end]) for end in cable if end in planned})),
                ends=frozenset(cable),
            )
            for cable in cables
        ]
    there = {end: far[0] for end, far in seen.items() if end in ends}
    exchanges = tuple(_exchanges(wanted, there, cost))
    now = {edge(a, b) for a, b in there.items()}
    missing = [cable for cable in wanted if cable not in now]
    left = sorted(now - set(wanted))
    return [
        Fault(
            tuple(cables),
            tuple(wanted),
            exchanges,
            missing[0] if missing else None,
            left[0] if left else None,
            frozenset(ends),
        )
    ]


def _exchanges(wanted: Iterable[Edge], there: dict[End, End], cost: Cost) -> Iterable[Exchange]:
    """The exchanges that make planned cables right, each time the cheapest one; `there` becomes what is seen after them."""
    open_ = list(wanted)
    while True:
        open_ = [(a, b) for a, b in open_ if there.get(a) != b]
        options = [
            (cost(*pair), pair)
            for a, b in open_
            for near, far in ((a, b), (b, a))
            if near in there  # its plug goes on to `far`, and what is at `far` comes to where that plug is now
            for pair in [edge(far, there[near])]
        ]
        if not options:
            return
        _, (one, two) = min(options)
        _exchange(there, one, two)
        yield Exchange(one, two)


def carried(fault: Fault, exchanges: Iterable[Exchange]) -> Fault:
    """The fault with these exchanges in place of its own, and what is missing or left over after them; itself where they leave more
    wrong, or are more.
    """
    exchanges = tuple(exchanges)
    there = {end: far for a, b in fault.seen for end, far in ((a, b), (b, a))}
    for exchange in exchanges:
        _exchange(there, exchange.one, exchange.two)
    now = {edge(a, b) for a, b in there.items()}
    missing = [cable for cable in fault.planned if cable not in now]
    left = sorted(now - set(fault.planned))
    if max(len(missing), len(left)) > 1 or len(exchanges) > len(fault.exchanges):
        return fault
    return replace(fault, exchanges=exchanges, missing=missing[0] if missing else None, left=left[0] if left else None)


def _exchange(there: dict[End, End], one: End, two: End) -> None:
    """The plugs at two ends change places in `there`."""
    at_one, at_two = there.pop(one, None), there.pop(two, None)
    for end, far in ((one, at_two), (two, at_one)):
        if far is not None:
            there[end], there[far] = far, end


@dataclass(frozen=True)
class Shift:
    """Plugs at one device that are all so many ports further than planned.

    ``device``  where; ``by``  ports, in the order of `ports_in_order`, negative for back
    ``plugs``   (the planned end, the end at which it is) of each, in the order in which they are carried back
    """

    device: str
    by: int
    plugs: tuple[Edge, ...]


LEAST_SHIFTED = 3
"""Plugs that make a shift: two that are one port further are as well a swap and its neighbour."""


def shift(fault: Fault, planned: Mapping[End, End], ports: Mapping[str, Mapping[End, int]]) -> Shift | None:
    """The shift that a fault is: all its seen cables, but one at most, are at one device and as many ports from where they belong.

    ports: {device: {end: its number in order}}. The cable that is no part of it went around: from the last port to the first.
    """
    moved: dict[tuple[str, int], list[Edge]] = defaultdict(list)
    for a, b in fault.seen:
        for at, far in ((a, b), (b, a)):
            order, wanted = ports.get(device(at), {}), planned.get(far, "")
            if at in order and wanted in order:
                moved[device(at), order[at] - order[wanted]].append((wanted, at))
    for (where, by), plugs in sorted(moved.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(plugs) < max(LEAST_SHIFTED, len(fault.seen) - 1):
            return None
        order = ports[where]
        return Shift(where, by, tuple(sorted(plugs, key=lambda plug: order[plug[0]], reverse=by < 0)))
    return None


def in_order(ends: Iterable[End]) -> dict[str, dict[End, int]]:
    """{device: {end: its number}}, ports in the order of the numbers in their names: swp2 before swp10."""
    by_device: dict[str, list[End]] = defaultdict(list)
    for end in set(ends):
        by_device[device(end)].append(end)
    return {name: {end: n for n, end in enumerate(sorted(own, key=_natural))} for name, own in by_device.items()}


def _natural(end: End) -> tuple[tuple[str, int], ...]:
    """A sorting key in which numbers count as such."""
    return tuple((text, int(digits or -1)) for text, digits in re.findall(r"(\D*)(\d*)", end))


def in_places_of_others(planned: Mapping[End, End], seen: Collection[Edge]) -> dict[str, str]:
    """{device: the device in whose place it stands}, for devices of two cables or more.

    A device stands in the place of another if everything that is seen at the far ends of the other's planned cables is the
    same port of this device, on two cables at least, and on none the right one.
    """
    there = {end: far for a, b in seen for end, far in ((a, b), (b, a))}
    votes: dict[str, list[str | None]] = defaultdict(list)
    for end, far in planned.items():
        if (at := there.get(far)) is not None:
            same = at.rpartition(":")[2] == end.rpartition(":")[2]
            votes[device(end)].append(device(at) if same else None)
    return {
        stands[0]: place
        for place, stands in votes.items()
        if len(stands) > 1 and len(set(stands)) == 1 and stands[0] is not None and stands[0] != place
    }
