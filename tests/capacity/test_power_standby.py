"""UPS counts, autonomy, swings, waves and cost by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.cooling import ride_through
from capacity.plan import build
from capacity.power import standby
from capacity.site_rules import check_ride_through
from inventory.site import load_site
from tests.capacity.sites import variant


def test_the_battery_is_judged_against_start_and_transfer() -> None:
    """5 min are 300 s; start 10 s and transfer 5 s need 15 s, and 0.2 min are 12 s."""
    result = standby.autonomy(load_site("h100-1000-ib"))
    assert (result.have_s, result.need_s, result.enough) == (300, 15, True)
    assert not standby.autonomy(variant("h100-1000-ib", ups={"autonomy_min": 0.2})).enough


def test_without_generators_the_battery_lasts_until_the_servers_are_drained() -> None:
    dark = {"present": False, "start_s": None}
    site = variant("h100-1000-ib", ups={"autonomy_min": 2}, generator=dark)  # 60 s of stall and 120 s of shutdown
    result = standby.autonomy(site)
    assert (result.need_s, result.enough, result.reason) == (
        180,
        False,
        "a checkpoint is written and the servers are down",
    )


@pytest.mark.parametrize("name", ["h100-1000-ib", "lab"])
def test_everybody_who_asks_when_the_load_is_carried_hears_the_same(name: str) -> None:
    site = variant(name, ups={"autonomy_min": 0.01})
    seconds, _, source = standby.carried_after_s(site)
    (short,) = [f for f in check_ride_through(site) if f.id == "POWER-RIDE-THROUGH"]
    assert (short.limit, short.limit_source) == (seconds, source)
    restart_s = 50 if site.generator.present else 0
    assert ride_through.outage_min(site)[0] == pytest.approx((seconds + restart_s) / 60)
    assert ride_through.outage_source(site).startswith(source)
    summary = build(site).summary()["electrical"]
    assert summary["ups"]["needed_s"] == pytest.approx(seconds, abs=0.05)


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
