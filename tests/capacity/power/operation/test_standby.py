"""UPS counts, autonomy, swings and cost by hand."""

import pytest

from capacity.build import build
from capacity.cooling import ride_through
from capacity.outputs.summary import summarise
from capacity.power.operation import standby
from capacity.power.operation.standby import check_ride_through
from inventory.site import load_site
from tests.capacity.power.upstream.test_tree import with_electrical
from tests.capacity.sites import variant


def test_the_battery_is_judged_against_start_and_transfer() -> None:
    """5 min are 300 s; start 10 s, transfer 5 s and a margin of 30 s need 45 s; 0.25 min are 15 s, 0.75 min 45 s."""
    result = standby.autonomy(load_site("h100-1000-ib"))
    assert (result.have_s, result.need_s, result.enough) == (300, 45, True)
    for minutes, margin_s, enough in ((0.25, 30, False), (0.25, 0, True), (0.75, 30, True)):
        site = variant("h100-1000-ib", ups={"autonomy_min": minutes, "margin_s": margin_s})
        assert standby.autonomy(site).enough == enough
        assert (not [f for f in check_ride_through(site) if f.id == "POWER-RIDE-THROUGH"]) == enough


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
    margin_s, margin_source = (30, " + ups.margin_s") if site.generator.present else (0, "")
    assert (short.limit, short.limit_source) == (seconds + margin_s, source + margin_source)
    restart_s = 50 if site.generator.present else 0
    assert ride_through.outage_min(site)[0] == pytest.approx((seconds + restart_s) / 60)
    assert ride_through.outage_source(site).startswith(source)
    summary = summarise(build(site))["electrical"]
    assert summary["ups"]["needed_s"] == pytest.approx(seconds + margin_s, abs=0.05)


def test_a_year_of_10_mw_at_80_percent() -> None:
    """10,000 kW x 0.8 x 8,760 h = 70,080 MWh; at 65 a MWh 4,555,200; demand 10,000 kW x 12 x 12 = 1,440,000."""
    assert standby.annual_mwh(10_000, 0.8) == pytest.approx(70_080)
    cost = standby.annual_cost(70_080, 10_000, 65, 12)
    assert cost == pytest.approx({"energy": 4_555_200, "demand": 1_440_000, "total": 5_995_200})


def test_swing_of_a_thousand_servers() -> None:
    assert standby.swing_kw(1000, 8400, 2800) == pytest.approx(5600)


def test_a_block_takes_the_step_of_a_lost_feed_on_the_modules_that_it_needs() -> None:
    """Each server has two supplies on each of three feeds; after the loss of one the step of 5.6 kW comes half over each of
    the others. A block needs four of its five modules: 4 x 500 kW x 20 % = 400 kW.
    """
    site = with_electrical("h100-1000-ib", {"ups_blocks": {"max_step_pct": 20.0}})
    plan = build(site)
    (found,) = [f for f in plan.findings if f.id == "POWER-SWING" and f.subject == "ups"]
    assert found.limit == 400
    (row,) = [s for s in summarise(plan)["electrical"]["swing"] if s["subject"] == "ups"]
    elements = plan.elements.set_index("name")
    panels = elements.index[elements["upstream"] == row["element"]]
    racks = set(plan.circuits.loc[elements.loc[plan.circuits["circuit"], "upstream"].isin(panels).to_numpy(), "rack"])
    gpu = plan.devices.loc[plan.devices["role"] == "gpu", "name"]
    servers = int(plan.placements.set_index("device").loc[gpu, "rack"].isin(racks).sum())
    assert row["step_kw"] == pytest.approx(servers * 5.6 / 2)
    assert elements.loc[row["failure"], "feed"] != elements.loc[row["element"], "feed"]
    assert row["floor_w"] == pytest.approx(8400 - 5600 * 400 / row["step_kw"], abs=0.1)


def test_a_plant_takes_its_share_of_the_step_on_the_sets_that_it_needs() -> None:
    """A third of 5,600 kW over 0.965 is 1,934 kW; three of four sets of 2,500 kW at 20 % permit 1,500 kW."""
    plan = build(with_electrical("h100-1000-ib", {"generators": {"max_step_pct": 20.0}}))
    (row,) = [s for s in summarise(plan)["electrical"]["swing"] if s["subject"] == "generators"]
    assert (row["step_kw"], row["permitted_kw"]) == (pytest.approx(5600 / 3 / 0.965, abs=0.001), 1500)
    assert [f.limit for f in plan.findings if f.id == "POWER-SWING" and f.subject == "generators"] == [1500]
