"""Counters of two ends as rates: clearing, errors, and how much two ends may be apart by the moments of reading."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.counters import Rates, increase, rates, slack_b_s, unlike

FIRST = {"sent": 1000, "received": 5000, "symbol_errors": 3, "discards": 1}


def test_rates_are_what_was_counted_in_between() -> None:
    made = rates(FIRST, {"sent": 2000, "received": 5100, "symbol_errors": 3, "discards": 21}, 10, word_b=4)
    assert made == Rates(400, 40, 0, 2)


def test_a_counter_that_began_anew_gives_a_lower_bound_and_is_named() -> None:
    made = rates(FIRST, {"sent": 600, "received": 6000, "symbol_errors": 0}, 10)
    assert (made.sent_b_s, made.errors_s, made.cleared) == (60, 0, ("sent", "symbol_errors"))


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_no_counter_rises_by_less_than_nothing(first: int, second: int) -> None:
    rose, anew = increase(first, second)
    assert 0 <= rose <= second
    assert anew == (second < first)


def test_a_counter_that_only_one_reading_has_is_left_out() -> None:
    assert rates(FIRST, {"sent": 1000, "received": 5000, "receive_errors": 9}, 1).errors_s == 0
    with pytest.raises(KeyError):
        rates(FIRST, {"sent": 1}, 1)
    with pytest.raises(ValueError, match="0 s between"):
        rates(FIRST, FIRST, 0)


def test_what_a_link_carries_between_two_moments_of_reading_is_no_difference() -> None:
    slack = slack_b_s(400, apart_s=60, window_s=3600)
    assert slack == pytest.approx(400e9 / 8 / 60)  # one sixtieth of 50 GB/s
    a, b = Rates(20e9, 0, 0), Rates(0, 20e9 - slack, 0)
    assert list(unlike("a:1", a, "b:1", b, slack * 1.001)) == []
    (fault,) = unlike("a:1", a, "b:1", b, slack * 0.99)
    assert fault.startswith("a:1 sends 160 Gb/s and b:1 receives 153 Gb/s")


def test_both_directions_are_compared_and_framing_is_no_difference() -> None:
    a, b = Rates(0, 1e9, 0), Rates(2e9, 0, 0)
    assert [fault.split(" sends")[0] for fault in unlike("a:1", a, "b:1", b, 1e6)] == ["b:1"]
    frames = 1e6
    counted, with_check = Rates(64e6, 0, 0, frames_s=frames), Rates(0, 68e6, 0, frames_s=frames)
    assert list(unlike("a:1", counted, "b:1", with_check, 0)) == []  # 4 bytes of check sequence in each frame
