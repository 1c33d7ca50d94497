"""Exchanges of plugs: as few as a search over all cablings finds, and applied they give the planned cables."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network import moves
from network.moves import Edge, edge, faults, in_places_of_others

ENDS = [f"{side}{number % 3}:{number}" for number in range(7) for side in "ab"]


def planned(cables: int) -> dict[str, str]:
    pairs = [(ENDS[2 * n], ENDS[2 * n + 1]) for n in range(cables)]
    return {near: far for a, b in pairs for near, far in ((a, b), (b, a))}


def wrong(plan: dict[str, str], seen: set[Edge]) -> set[Edge]:
    return {cable for cable in seen if plan.get(cable[0]) != cable[1]}


def least_exchanges(cables: int) -> dict[tuple[int, ...], int]:
    """{cabling: fewest exchanges to the planned one}, by breadth first over all cablings of so many cables; a cabling is the number
    of the other end of each end."""
    start = np.array([[n ^ 1 for n in range(2 * cables)]], dtype=np.int8)
    found = {tuple(start[0]): 0}
    for distance in itertools.count(1):
        nexts = []
        for one, two in itertools.combinations(range(2 * cables), 2):
            after = start[start[:, one] != two].copy()
            rows, far_one, far_two = np.arange(len(after)), after[:, one].copy(), after[:, two].copy()
            after[rows, one], after[rows, far_two] = far_two, one
            after[rows, two], after[rows, far_one] = far_one, two
            nexts.append(after)
        fresh = [row for row in np.unique(np.concatenate(nexts), axis=0) if tuple(row) not in found]
        if not fresh:
            return found
        found |= dict.fromkeys((tuple(row) for row in fresh), distance)
        start = np.array(fresh)
    raise AssertionError("there are cablings without end")


def check_every_cabling(cables: int) -> None:
    plan, distances = planned(cables), least_exchanges(cables)
    for cabling, least in distances.items():
        seen = {edge(ENDS[n], ENDS[far]) for n, far in enumerate(cabling)}
        assert sum(len(fault.exchanges) for fault in faults(plan, wrong(plan, seen))) == least


@pytest.mark.parametrize("cables", [2, 3, 4, 5, 6])
def test_no_list_of_exchanges_is_shorter(cables: int) -> None:
    check_every_cabling(cables)


@pytest.mark.soak
def test_no_list_of_exchanges_is_shorter_for_seven_cables() -> None:
    check_every_cabling(7)


@st.composite
def cabling(draw: st.DrawFn) -> tuple[dict[str, str], set[Edge]]:
    """A plan, and some of its plugs anywhere: also at ports outside the plan, and with cables cut."""
    plan = planned(draw(st.integers(1, 7)))
    ends = [*plan, "a0:90", "b1:91"]
    order = draw(st.permutations(ends))
    count = draw(st.integers(0, len(order) // 2))
    return plan, {edge(order[2 * n], order[2 * n + 1]) for n in range(count)}


@given(cabling())
def test_the_exchanges_applied_give_the_planned_cables(given_: tuple[dict[str, str], set[Edge]]) -> None:
    plan, seen = given_
    there = {end: far for a, b in seen for end, far in ((a, b), (b, a))}
    found = faults(plan, wrong(plan, seen))
    for fault in found:
        for exchange in fault.exchanges:
            at_one, at_two = there.pop(exchange.one, None), there.pop(exchange.two, None)
            for end, far in ((exchange.one, at_two), (exchange.two, at_one)):
                if far is not None:
                    there[end], there[far] = far, end
        for a, b in fault.planned:
            assert there.get(a) == b or (a, b) == fault.missing
        assert not fault.left or there[fault.left[0]] == fault.left[1]
    assert sorted(cable for fault in found for cable in fault.seen) == sorted(wrong(plan, seen))


def test_the_cheapest_exchange_comes_first() -> None:
    plan = planned(2)
    seen = {edge(ENDS[0], ENDS[3]), edge(ENDS[2], ENDS[1])}
    for side in "ab":

        def cost(one: str, _: str, side: str = side) -> float:
            return float(not one.startswith(side))

        (fault,) = faults(plan, seen, cost)
        assert [(one.one, one.two) for one in fault.exchanges] == [(f"{side}0:0", f"{side}1:1")]


def test_an_end_that_two_sightings_claim_gives_no_exchange() -> None:
    plan = planned(3)
    seen = {edge("a0:0", "b1:1"), edge("a0:0", "b2:2")}
    found = faults(plan, seen)
    assert [fault.exchanges for fault in found] == [(), ()]
    assert [fault.seen for fault in found] == [(cable,) for cable in sorted(seen)]


def test_a_device_with_all_cables_of_another_stands_in_its_place() -> None:
    plan = {"x:1": "s:1", "x:2": "t:1", "y:1": "s:2", "y:2": "t:2"}
    plan |= {far: near for near, far in plan.items()}
    swapped = {edge("x:1", "s:2"), edge("x:2", "t:2"), edge("y:1", "s:1"), edge("y:2", "t:1")}
    assert in_places_of_others(plan, swapped) == {"x": "y", "y": "x"}
    assert in_places_of_others(plan, swapped - {edge("x:2", "t:2")}) == {"y": "x"}
    assert in_places_of_others(plan, {edge("x:2", "s:2"), edge("x:1", "t:2")}) == {}


def test_two_plugs_one_port_further_are_no_shift() -> None:
    planned = {f"h{n}:e": f"l:p{n}" for n in (1, 2)}
    planned |= {far: end for end, far in planned.items()}
    (fault,) = moves.faults(planned, {("h1:e", "l:p2"), ("h2:e", "l:p3")})
    assert moves.shift(fault, planned, moves.in_order([*planned, "l:p3"])) is None


@pytest.mark.parametrize("by", [1, 2, -1])
def test_plugs_of_a_shift_are_carried_back_each_to_a_free_port(by: int) -> None:
    ports = range(9, 15)
    planned = {f"h{n}:e": f"l:p{n}" for n in ports}
    planned |= {far: end for end, far in planned.items()}
    wrong = {edge(f"h{n}:e", f"l:p{n + by}") for n in ports}
    there = {f"l:p{n + by}" for n in ports}
    order = moves.in_order([*planned, *there])
    for fault in moves.faults(planned, wrong):
        shift = moves.shift(fault, planned, order)
        if abs(by) == 1:
            assert shift is not None
            assert (shift.device, shift.by, len(shift.plugs)) == ("l", by, len(ports))
        for wanted, at in shift.plugs if shift else ():
            assert wanted not in there
            there = there - {at} | {wanted}
    if abs(by) == 1:
        assert there == {f"l:p{n}" for n in ports}
