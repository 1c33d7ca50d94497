"""Routes and media."""

import numpy as np
import pandas as pd
import pytest

from network.wiring.cabling import longest_reach, routed_lengths, select_parts

PLACES = pd.DataFrame(
    {
        "device": ["low", "high", "same-row", "other-row"],
        "rack": ["r01", "r01", "r02", "r09"],
        "x_m": [0.3, 0.3, 0.9, 0.3],
        "y_m": [0.0, 0.0, 0.0, 3.0],
        "z_m": [0.2, 2.0, 0.2, 0.2],
    }
)
PARTS = pd.DataFrame(
    {
        "part": ["optic", "copper", "slow"],
        "medium": ["mmf", "dac", "cat6a"],
        "rate_gbps": [400.0, 400.0, 1.0],
        "reach_m": [50.0, 3.0, 100.0],
        "min_m": [0.0, 0.0, 0.0],
    }
)


def cable(a: str, b: str) -> pd.DataFrame:
    return pd.DataFrame({"a_device": [a], "b_device": [b]})


@pytest.mark.parametrize(
    ("a", "b", "length"),
    [
        ("low", "high", 1.8 + 1.0),
        ("low", "same-row", 2 * (2.6 - 0.2) + 0.6 + 1.0),
        ("low", "other-row", 2 * (2.6 - 0.2) + 3.0 + 1.0),
    ],
)
def test_route_goes_straight_in_a_rack_and_over_the_tray_otherwise(a: str, b: str, length: float) -> None:
    assert routed_lengths(cable(a, b), PLACES, 2.6, 1.0) == pytest.approx([length])


def test_a_tray_below_the_devices_is_reached_from_above() -> None:
    assert routed_lengths(cable("high", "same-row"), PLACES, 0.0, 1.0) == pytest.approx([2.0 + 0.2 + 0.6 + 1.0])


def test_a_device_without_a_place_is_named() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        routed_lengths(cable("low", "nowhere"), PLACES, 2.6, 1.0)


def test_the_shortest_reach_that_suffices_is_taken() -> None:
    chosen = select_parts(pd.Series([400.0, 400.0, 400.0, 1.0, 100.0]), np.array([3.0, 3.01, 51.0, 99.0, 1.0]), PARTS)
    assert chosen["part"].tolist() == ["copper", "optic", "", "slow", ""]
    assert chosen["medium"].tolist() == ["dac", "mmf", "", "cat6a", ""]


def test_longest_reach_is_per_rate() -> None:
    assert longest_reach(PARTS, 400) == 50
    assert longest_reach(PARTS, 800) == 0
