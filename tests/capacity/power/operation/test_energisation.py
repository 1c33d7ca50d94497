"""Waves of energisation and burn-in: within every limit, legal after a single failure, and RC-034."""

from typing import Any

import numpy as np
import pytest

from capacity.build import build
from capacity.cooling import zones
from capacity.model import Plan
from capacity.power.operation import energisation as waves
from inventory.findings import Finding
from inventory.site import load_site
from inventory.site.sections.power import OwnCircuit
from tests.capacity.power.upstream.test_tree import with_electrical
from tests.capacity.sites import variant
from tests.findings import names
from tests.plans import plan_of

pytestmark = pytest.mark.usefixtures("stages_kept")


def waved(name: str, sections: dict[str, dict[str, Any]] | None = None, **waves: Any) -> Plan:
    """A shipped site's plan with other waves."""
    return build(with_electrical(name, {**(sections or {}), "waves": waves}))


def said(plan: Plan) -> list[Finding]:
    return [f for f in plan.findings if f.id == "POWER-WAVE"]


@pytest.mark.parametrize("name", ["h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"])
def test_waves_burn_each_server_in_once_within_every_limit(name: str) -> None:
    plan = plan_of(name)
    waves, electrical = plan.waves, plan.site.electrical
    assert electrical is not None
    assert electrical.waves is not None
    servers = plan.devices[plan.devices["role"] == "gpu"]
    rack = plan.placements.set_index("device").loc[servers["name"], "rack"]
    assert waves["servers"].sum() == len(servers)
    assert waves["racks"].sum() == rack.nunique()
    assert waves["first_rack"].tolist() == sorted(waves["first_rack"])
    without = plan.racks[~plan.racks["name"].isin(rack)]
    assert np.allclose(waves["base_kw"], without["nameplate_kw"].sum())
    whole = plan.racks["nameplate_kw"].sum()
    assert (waves["load_kw"] - waves["base_kw"]).sum() == pytest.approx(whole - waves["base_kw"].iloc[0])
    assert (waves["load_kw"] <= waves["energised_kw"]).all()
    assert (waves["load_kw"] <= waves["cooling_kw"]).all()
    for load, limit in (("zone_kw", "zone_limit_kw"), ("worst_kw", "worst_limit_kw"), ("step_kw", "step_limit_kw")):
        assert (waves[load] <= waves[limit] + 1e-6).all()
    assert waves["servers_lost"].max() == 0
    assert said(plan) == []


def test_energy_of_all_waves_is_that_of_the_reference_case() -> None:
    """RC-034: 1,000 servers of 10.2 kW for 72 h are 734.4 MWh, on the basis of the limits: nameplate."""
    assert plan_of("h100-1000-ib").waves["burn_in_mwh"].sum() == pytest.approx(734.4)


def test_a_wave_of_everything_is_the_failure_study_of_the_plan() -> None:
    plan = waved("b200-256-roce", energised_kw=10_000, cooling_kw=None)
    (wave,) = plan.waves.to_dict("records")
    worst = plan.elements.set_index("name").loc[wave["worst_element"]]
    assert (wave["worst_kw"], wave["worst_case"]) == (pytest.approx(worst["worst_kw"]), worst["worst_case"])
    above = plan.elements[plan.elements["kind"] != "circuit"]
    assert worst["worst_kw"] / worst["limit_kw"] == pytest.approx((above["worst_kw"] / above["limit_kw"]).max())


def test_more_energised_than_the_step_allows_makes_waves_that_keep_the_step() -> None:
    """5 MW at the grid: 5,000 x 0.965 / 5.6 kW = 861 servers together."""
    plan = waved("h100-1000-ib", energised_kw=100_000)
    assert plan.waves["servers"].iloc[0] <= 861
    assert plan.waves["bound"].iloc[0] == "load step at utility"
    assert plan.waves["step_kw"].max() <= 5000


def test_one_of_three_feeds_runs_no_server_and_two_none_after_a_failure() -> None:
    """4+2 supplies on three feeds: one feed carries two of them, two carry four, all that a server needs."""
    alone = waved("h100-1000-ib", feeds=("A",))
    (found,) = said(alone)
    assert (found.severity, found.err, found.numbers["servers"]) == ("error", "ERR-05", 1000)
    assert names(found, 2, 6)
    assert names(found, "[A, B]", "[A, B, C]")
    assert alone.waves.empty
    two = waved("h100-1000-ib", feeds=("A", "B"))
    (feeds,) = said(two)
    assert (feeds.subject, feeds.severity) == ("electrical.waves.feeds", "warning")
    assert names(feeds, "C")
    assert (two.waves["servers_lost"] == two.waves["servers"]).all()


def test_proven_cooling_ends_a_wave_in_all_and_by_zone() -> None:
    plan = waved("h100-1000-ib", cooling_kw=2000)
    assert set(plan.waves["bound"]) == {"proven cooling", ""}
    assert plan.waves["load_kw"].max() <= 2000
    air = plan.site.cooling.air
    assert air is not None
    few = build(variant("h100-1000-ib", cooling={"air": air.model_copy(update={"units_per_zone": 4})}))
    assert "cooling of air-1" in set(few.waves["bound"])  # three of four units: 1,309 kW of 4 MW
    assert (few.waves["zone_kw"] <= few.waves["zone_limit_kw"] + 1e-6).all()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_zone_with_no_more_than_its_spare_unit_limits_every_wave() -> None:
    site = variant("b200-256-roce", cooling={"n_plus": 1})
    assert site.cooling.air is not None
    air = site.cooling.air.model_copy(update={"units_per_zone": 1})
    waves = build(variant("b200-256-roce", cooling={"n_plus": 1, "air": air})).waves
    assert set(waves["zone"]) == {"cooling of air-1"}
    assert (waves["zone_limit_kw"] == 0).all()


def test_an_element_that_a_failure_would_overload_ends_the_wave() -> None:
    """Either line carries 3 MVA alone: with the other one lost no wave may draw more, whatever is energised."""
    plan = waved("h100-1000-ib", {"utility": {"firm_mva": 3.0}})
    assert plan.waves["bound"].iloc[0].startswith("utility-")
    assert plan.waves["worst_kw"].max() <= 3000
    assert len(plan.waves) > len(plan_of("h100-1000-ib").waves)


def test_what_one_rack_already_passes_is_told() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"energised_kw": 40.0}, "energised kW"),
        ({"cooling_kw": 40.0}, "proven cooling"),
        ({"ramp_kw_min": 5.0}, "electrical.waves.ramp_kw_min"),
    )
    for change, subject in cases:
        assert [f.subject for f in said(waved("b200-256-roce", **change))] == [subject]
    weak = waved(
        "b200-256-roce", {"ups_blocks": {"max_step_pct": 1.0}}
    )  # 4 kW of a block's 400 kW, a rack steps by 8.2
    assert [f.severity for f in said(weak)] == ["warning"]
    assert said(weak)[0].subject.startswith("ups-")


def test_loops_that_share_a_row_bear_the_heat_of_their_own_racks() -> None:
    site = load_site("gb300-nvl72-liquid")
    assert site.cooling.coolant is not None
    assert site.electrical is not None
    given = site.electrical.waves
    assert given is not None
    coolant = site.cooling.coolant.model_copy(update={"racks_per_loop": 2})
    site = site.model_copy(update={"cooling": site.cooling.model_copy(update={"coolant": coolant})})
    plan = build(site)
    heat = zones.rack_heat(plan.devices, plan.racks, plan.placements)
    loops = plan.zones[plan.zones["kind"] == "liquid"]
    assert loops.duplicated("first_row").any()
    kw = plan.racks["nameplate_kw"].to_numpy()
    own = given.model_copy(update={"cooling_kw": None})
    budget = waves.budgets(own, kw, heat, plan.zones, zones.loop_of(site, heat))
    at = [budget.names.index(f"cooling of {loop}") for loop in loops["zone"]]
    assert budget.rack_kw[:, at].sum() == pytest.approx(loops["liquid_kw"].sum())
    assert budget.limit_kw[1] == pytest.approx(plan.zones["reserve_kw"].sum())
    unknown = plan.zones.assign(installed=plan.zones["installed"].where(plan.zones["kind"] == "liquid", 0))
    assert waves.budgets(own, kw, heat, unknown, zones.loop_of(site, heat)).limit_kw[1] == np.inf


def test_a_wave_that_overloads_circuits_names_the_key_that_states_them() -> None:
    """Racks of switches with a circuit of their own, whose breaker of 6 A carries 3.5 kW at 415 V."""
    site = variant("b200-256-roce", power={"network_circuit": OwnCircuit(breaker_a=6)})
    found = [f for f in said(build(site)) if f.subject == "circuits"]
    assert [f.limit_source for f in found] == ["site power.network_circuit, power.derating"]
    assert names(found[0], "power.network_circuit")


def test_a_wave_over_a_limit_names_the_key_of_that_limit() -> None:
    alone = said(waved("b200-256-roce", energised_kw=20))
    assert [f.limit_source for f in alone if f.subject == "energised kW"] == ["site electrical.waves.energised_kw"]
    stated = said(waved("b200-256-roce", energised_kw=10_000, cooling_kw=20))
    assert [f.limit_source for f in stated if f.subject == "proven cooling"] == ["site electrical.waves.cooling_kw"]
