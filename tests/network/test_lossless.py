"""Headroom, XOFF and ECN of a lossless class against figures worked by hand."""

import numpy as np
import pytest

from network.lossless import (
    Chip,
    Ecn,
    bandwidth_delay_bytes,
    cell_factor,
    chips,
    ecn_thresholds,
    headroom_bytes,
    headrooms,
    in_flight_bytes,
    pause_bytes,
    rtt_ns,
    xoff_bytes,
)

CHIP = Chip(buffer_bytes=134_217_728, cell_bytes=192, mac_phy_bytes=819, switch_ns=800, sources={})


def test_bytes_in_flight_are_those_of_both_directions():
    # 2 x 99 m / 1.98e8 m/s = 1 us; 400 Gb/s for 1 us = 400,000 bit = 50,000 bytes
    assert in_flight_bytes(400, 99.0) == pytest.approx(50_000)


def test_response_of_the_peer_is_the_pause_time_limit():
    assert pause_bytes(400) == 905 * 64 == 57_920
    assert pause_bytes(100) == 394 * 64
    assert pause_bytes(112) == pause_bytes(200)  # not listed: the next higher rate
    with pytest.raises(ValueError, match="800"):
        pause_bytes(1600)


@pytest.mark.parametrize(("cell", "factor"), [(192, 3.0), (256, 4.0), (96, 192 / 97)])
def test_small_frames_take_a_cell_each(cell, factor):
    assert cell_factor(cell) == pytest.approx(factor)


def test_headroom_of_400_gbps_over_ten_metres():
    # in flight: 2 x 10 / 1.98e8 x 4e11 / 8 = 5,050.5
    # late:      9,216 + 5,050.5 + 819 + 57,920 = 73,005.5; in cells of 192 for frames of 64: x 3 = 219,016.5
    # and the frame that the peer has begun: + 9,216 = 228,232.5 = 222.9 KiB
    assert headroom_bytes(400, 10.0, 9216, CHIP) == 223 * 1024


def test_headroom_grows_with_length_rate_and_mtu():
    first = headroom_bytes(400, 10.0, 4096, CHIP)
    assert headroom_bytes(400, 50.0, 4096, CHIP) > first
    assert headroom_bytes(400, 10.0, 9216, CHIP) > first
    assert headroom_bytes(200, 10.0, 4096, CHIP) < first


def test_headrooms_of_many_ports_are_those_of_each():
    rates, lengths = np.array([400.0, 100.0, 400.0]), np.array([10.0, 3.0, 50.0])
    each = [headroom_bytes(r, m, 9216, CHIP) for r, m in zip(rates, lengths, strict=True)]
    assert headrooms(rates, lengths, 9216, CHIP).tolist() == each


def test_ports_share_what_the_headrooms_leave():
    # 134,217,728 - 128 x 228,352 = 104,988,672; / 128 = 820,224 = 801 KiB
    assert xoff_bytes(134_217_728, 128, 128 * 228_352) == 801 * 1024
    assert xoff_bytes(1_000_000, 128, 128 * 228_352) == 0


def test_round_trip_and_what_the_path_holds():
    # 3 switches of 800 ns, 39.6 m = 200 ns, an adapter of 1,000 ns at the far end: 3,600 ns one way
    assert rtt_ns(3, 39.6, CHIP, 1000) == pytest.approx(7_200)
    # 400 Gb/s x 7,200 ns = 2,880,000 bit
    assert bandwidth_delay_bytes(400, 7_200) == 360_000


def test_marking_begins_at_one_bandwidth_delay_product_and_ends_below_xoff():
    # 360,000 = 351.6 KiB; four of them are 1,408 KiB, which XOFF of 801 KiB less 9 KiB caps
    assert ecn_thresholds(360_000, 801 * 1024, 9216) == Ecn(352 * 1024, 792 * 1024, 100)
    assert ecn_thresholds(100 * 1024, 801 * 1024, 9216) == Ecn(100 * 1024, 400 * 1024, 100)


def test_a_path_that_holds_more_than_xoff_is_marked_early():
    assert ecn_thresholds(2_000_000, 801 * 1024, 9216) == Ecn(198 * 1024, 792 * 1024, 100)
    assert ecn_thresholds(360_000, 16 * 1024, 9216) is None


def test_every_figure_of_a_chip_has_a_source():
    for slug, chip in chips().items():
        assert set(chip.sources) == {"buffer_bytes", "cell_bytes", "mac_phy_bytes", "switch_ns"}, slug
