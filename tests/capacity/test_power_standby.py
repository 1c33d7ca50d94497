"""UPS counts, autonomy, swings, waves and cost by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.power import standby


def test_battery_lasts_longer_at_less_load_and_is_judged_against_start_and_transfer() -> None:
    """5 min at full load; at half load at least 10 min. Start 10 s and transfer 5 s need 15 s."""
    result = standby.autonomy(5, 0.5, 10, 5, 180)
    assert (result.have_s, result.need_s, result.enough) == (600, 15, True)
    assert not standby.autonomy(0.2, 1.0, 10, 5, 180).enough


def test_without_generators_the_battery_lasts_until_the_servers_are_drained() -> None:
    result = standby.autonomy(2, 1.0, None, 0, 180)
    assert (result.need_s, result.enough, result.reason) == (180, False, "checkpoint and shutdown")


def test_a_year_of_10_mw_at_80_percent() -> None:
    """10,000 kW x 0.8 x 8,760 h = 70,080 MWh; at 65 a MWh 4,555,200; demand 10,000 kW x 12 x 12 = 1,440,000."""
    assert standby.annual_mwh(10_000, 0.8) == pytest.approx(70_080)
    cost = standby.annual_cost(10_000, 0.8, 65, 12)
    assert cost == pytest.approx({"energy": 4_555_200, "demand": 1_440_000, "total": 5_995_200})


def test_swing_and_the_floor_that_keeps_it_within_the_limit() -> None:
    """1,000 servers from 8.4 to 2.8 kW: 5,600 kW. 5,000 kW permitted: each holds 8,400 - 5,000 = 3,400 W."""
    assert standby.swing_kw(1000, 8400, 2800) == pytest.approx(5600)
    assert standby.floor_w(1000, 8400, 5000) == pytest.approx(3400)


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=60), st.floats(1, 500))
def test_waves_take_each_rack_once_in_order_and_keep_the_limit(loads: list[float], energised: float) -> None:
    made = standby.waves(loads, energised)
    assert [rack for wave in made for rack in range(wave.first, wave.last + 1)] == list(range(len(loads)))
    for wave in made:
        assert wave.kw == pytest.approx(sum(loads[wave.first : wave.last + 1]))
        assert wave.kw <= energised + 1e-6 or wave.first == wave.last
