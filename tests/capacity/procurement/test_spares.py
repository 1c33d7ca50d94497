"""Spares against scipy and hand-worked numbers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.procurement.spares import expected_failures, poisson_spares, share_spares


def test_hand_worked_level() -> None:
    # Mean 2: P(X <= 4) = 0.947, P(X <= 5) = 0.983.
    assert poisson_spares(2.0, 0.94) == 4
    assert poisson_spares(2.0, 0.95) == 5


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 5e5), st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]))
def test_level_is_that_of_scipy(mean: float, confidence: float) -> None:
    from scipy import stats  # 2 s, for this test alone

    assert abs(poisson_spares(mean, confidence) - stats.poisson.ppf(confidence, mean)) <= (1 if mean > 1e4 else 0)


def test_failures_while_a_replacement_travels() -> None:
    # 8,000 parts at 9.1 % a year for 12 weeks of 52.18: 728 x 0.23 = 167.4.
    assert expected_failures(8000, 9.1, 12) == pytest.approx(167.4, rel=1e-3)


@pytest.mark.parametrize(("parts", "share", "spares"), [(0, 2, 0), (1, 2, 1), (100, 2, 2), (101, 2, 3), (50, 0, 0)])
def test_share_rounds_up_and_is_at_least_one(parts: int, share: float, spares: int) -> None:
    assert share_spares(parts, share) == spares
