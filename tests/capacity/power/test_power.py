"""Cords, outlets and what happens when a feed is lost."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.summary import fitted, summarise
from capacity.power.rack import distribution, psus
from capacity.power.rack.budget import pdu_outlets, phase_imbalance_pct
from capacity.space.devices import feed_sequence
from inventory.catalog import load_catalog
from inventory.site import load_site
from inventory.site.whatif import changed
from tests.capacity.power.upstream.test_tree import with_electrical
from tests.capacity.sites import variant
from tests.findings import values
from tests.plans import plan_of

pytestmark = pytest.mark.usefixtures("stages_kept")


@pytest.fixture(scope="module")
def lab() -> Plan:
    return plan_of("lab")


@pytest.fixture(scope="module")
def large() -> Plan:
    return plan_of("h100-1000-ib")


def test_supplies_alternate_between_feeds_until_each_has_its_share() -> None:
    assert feed_sequence({"A": 2, "B": 2, "C": 2}, ("A", "B", "C")) == [0, 1, 2, 0, 1, 2]
    assert feed_sequence({"A": 2, "B": 1}, ("A", "B")) == [0, 1, 0]


def test_each_lab_node_is_corded_to_both_feeds(lab: Plan) -> None:
    used = lab.outlets[lab.outlets["device"] != ""]
    assert (used.groupby("device")["feed"].nunique() == 2).all()
    first = used[(used["device"] == "gpu001") & (used["psu"] == 1)].iloc[0]
    assert (first["pdu"], first["phase"], first["load_w"]) == ("pdu-r01-a", "L1", 5100.0)


def test_a_lost_feed_moves_the_whole_rack_to_the_other(lab: Plan) -> None:
    pdu_kw = 0.02
    normal, worst = lab.circuits["load_kw"].to_numpy(), lab.circuits["worst_kw"].to_numpy()
    assert worst == pytest.approx(2 * (normal - pdu_kw) + pdu_kw)
    share, after_loss = lab.feeds["nameplate_kw"].to_numpy(), lab.feeds["loss_kw"].to_numpy()
    assert after_loss == pytest.approx(2 * (share - 2 * pdu_kw) + 2 * pdu_kw)


def test_of_three_feeds_the_other_two_share_a_lost_one(large: Plan) -> None:
    # A rack of three servers and no switch: 30.6 kW on three feeds, 10.2 kW each; 15.3 kW when one is lost.
    plain = large.circuits[large.circuits["rack"] == "r001"]
    assert plain["load_kw"].tolist() == pytest.approx([10.225] * 3)
    assert plain["worst_kw"].tolist() == pytest.approx([15.325] * 3)


def test_usable_power_of_a_circuit_is_breaker_times_voltage_times_derating(lab: Plan) -> None:
    assert lab.circuits["usable_kw"].tolist() == pytest.approx([34.50] * 4, abs=0.01)


def test_cords_fit_their_outlets(large: Plan) -> None:
    used = large.outlets[large.outlets["device"] != ""].merge(large.devices, left_on="device", right_on="name")
    assert set(used.loc[used["role"] == "gpu", "connector"]) == {"iec-60320-c19"}
    assert set(used.loc[used["fabric"] == "compute", "connector"]) == {"iec-60320-c13"}


def test_equal_servers_are_balanced_over_the_phases_of_a_pdu(large: Plan) -> None:
    plain = large.outlets[large.outlets["pdu"] == "pdu-r001-a"]
    assert plain.groupby("phase")["load_w"].sum().tolist() == pytest.approx([3400.0] * 3)


def test_phases_of_a_feed_balance_over_all_racks(large: Plan) -> None:
    assert phase_imbalance_pct(large.outlets, "feed").max() < 1


def test_a_pdu_with_nothing_on_it_counts_as_balanced(lab: Plan) -> None:
    spare = lab.outlets.assign(load_w=0.0)
    assert np.array_equal(phase_imbalance_pct(spare).to_numpy(), np.zeros(4))


def test_two_pdus_a_feed_share_the_cords_of_a_rack() -> None:
    pdu = load_site("lab").power.rack_pdu.model_copy(update={"per_feed": 2})
    plan = build(variant("lab", power={"rack_pdu": pdu}))
    assert {"pdu-r01-a1", "pdu-r01-a2", "pdu-r01-b1", "pdu-r01-b2"} <= set(plan.outlets["pdu"])
    used = plan.outlets[plan.outlets["device"] != ""].groupby("pdu").size()
    assert used.max() - used.min() <= 2
    assert plan.racks["nameplate_kw"].sum() == pytest.approx(plan.circuits["load_kw"].sum())


def test_208_v_outlets_lie_between_two_lines() -> None:
    model = load_catalog().device("lab-pdu-24")
    facts = model.bringup.pdu
    assert facts is not None
    across = pdu_outlets(model, facts.model_copy(update={"voltage_v": 208.0, "outlet_v": 208.0}))
    assert {outlet.phase for outlet in across} == {"L1-L2", "L2-L3", "L3-L1"}
    assert {outlet.phase for outlet in pdu_outlets(model, facts)} == {"L1", "L2", "L3"}


SMALL_BANKS = [
    "power.voltage_v=400",
    "power.code=iec",
    "power.derating=0.46",
    "electrical.panels.feeder.ampacity_a=400",
]


def test_cords_and_banks_carry_the_current_of_the_site_s_own_voltage() -> None:
    """The PDU states 240 V at 415 V: at 208 V its outlets give 120.3 V, at 400 V 231.3 V."""
    low = {
        f.subject: f for f in build(changed("b200-256-roce", ["power.voltage_v=208"])).findings if f.id == "POWER-CORD"
    }
    assert low["nvidia-dgx-b200"].numbers["amps"] == pytest.approx(3300 / 0.94 / (208 * 240 / 415), abs=0.01)
    assert low["nvidia-dgx-b200"].err == "ERR-16"
    banks = [f for f in build(changed("b200-256-roce", SMALL_BANKS)).findings if f.id == "POWER-BANK"]
    assert [f.limit for f in banks] == [pytest.approx(0.46 * 30)]
    assert banks[0].numbers["amps"] > 13.8


def test_a_bank_of_one_cord_that_is_too_large_is_not_mended_by_a_second_pdu() -> None:
    """A cord of 16 A on banks that carry 13.8 A: however many PDUs there are, each has a bank with that cord."""
    plan = build(changed("b200-256-roce", SMALL_BANKS))
    (bank,) = [one for one in plan.findings if one.id == "POWER-BANK"]
    again = build(changed("b200-256-roce", [*SMALL_BANKS, "power.rack_pdu.per_feed=2"]))
    assert "POWER-BANK" in {one.id for one in again.findings}
    assert not any("power.rack_pdu.per_feed" in way.settings for way in bank.remedies)
    assert any("a single cord carries" in way.text for way in bank.remedies)


def test_the_bound_of_the_phase_balance_is_of_the_same_state_as_the_balance(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all feeds up: what is left of a lost feed may be harder to balance and says nothing about it."""
    made: list[distribution.Balance] = []
    whole = distribution.balance_by_pdu

    def spy(*given: Any) -> distribution.Balance:
        made.append(whole(*given))
        return made[-1]

    monkeypatch.setattr(distribution, "balance_by_pdu", spy)
    for name in ("b200-256-roce", "h100-1000-ib", "gb300-nvl72-liquid"):
        build(load_site(name))
    assert len(made) == 3
    for balanced in made:
        assert (balanced.bound_pct <= balanced.normal_pct + 1e-6).all()


def test_a_cap_is_what_is_missing_taken_off_each_server_of_a_busbar() -> None:
    """Four shelves of 33 kW for 150 kW: 18 kW are missing, 1 kW of each of 18 trays at 7 kW."""
    shelves = psus.Supplies(8, 5, 33000, {"A": 4, "B": 4})
    cap, feeds = psus.feed_loss_remedies(shelves, 7000, 150_000, 18, 7000)
    assert (cap.settings, round(cap.words["below_pct"])) == ({"server.power.cap_w": 6000}, 14)
    assert (feeds.settings, feeds.words) == ({}, {"feeds_needed": 3, "most": 3, "count": 8})
    none_left = psus.feed_loss_remedies(shelves, 7000, 300_000, 18, 7000)  # 168 kW are missing: 9.3 kW a tray
    assert [one.words for one in none_left] == [feeds.words]


def test_a_rack_scale_site_that_loses_a_feed_is_offered_a_cap_that_makes_sense() -> None:
    site = load_site("gb300-nvl72-liquid")
    shelves = site.server.shelves
    assert shelves is not None
    half = shelves.model_copy(update={"split_by_feed": {"A": 4, "B": 4, "C": 0, "D": 0}})
    plan = build(variant(site.name, server={"shelves": half}))
    failures = [f for f in plan.findings if f.id == "POWER-FAILURE"]
    assert failures
    for failure in failures:
        (cap,) = values(failure, "server.power.cap_w")
        assert 0 < cap < site.server.power.nameplate_w


def test_what_keeps_too_little_when_servers_go_down_is_a_server() -> None:
    """A switch with one supply left dark beside them is not what the message is about."""
    site = with_electrical("h100-1000-ib", rooms={"A": "er-1", "B": "er-1", "C": "er-2"})
    row = build(site).failures.set_index("failure").loc["er-1"]
    assert row["servers_lost"] > 0
    assert str(row["tightest_group"]).startswith("gpu")


def test_optics_are_part_of_what_a_switch_is_measured_to_draw() -> None:
    """A QM9700 is measured at 747 W with passive cables. A leaf of h100-1000-ib has 16 twin-port optics of 17 W to its spines,
    and what its servers' ports take. By hand: the draw of all switches is that of the models and of the plugs in their cages.
    """
    plan = plan_of("h100-1000-ib")
    switches = plan.devices[plan.devices["kind"] == "switch"].set_index("name")
    made = fitted(plan)
    row, end = made.plugs["cable"].to_numpy(), made.plugs["end"].to_numpy()
    device = np.where(end == 0, plan.cables["a_device"].to_numpy()[row], plan.cables["b_device"].to_numpy()[row])
    spine = switches[(switches["role"] == "spine") & (switches["model"] == "nvidia-qm9700")].index[0]
    assert switches.loc[spine, "measured_w"] == 747 + made.plugs["power_w"].to_numpy()[device == spine].sum()
    assert switches.loc[spine, "measured_w"] == pytest.approx(747 + 32 * 17), "64 links to leaves and cores"
    base = {"nvidia-qm9700": 747, "nvidia-sn4600c": 466, "nvidia-sn2201": 98}
    in_switches = pd.Series(device).isin(switches.index).to_numpy()
    by_hand = switches["model"].map(base).sum() + made.plugs["power_w"].to_numpy()[in_switches].sum()
    assert switches["measured_w"].sum() == pytest.approx(by_hand)
    compute = switches[switches["fabric"] == "compute"]
    assert (compute["measured_w"] - 747).sum() / 1000 == pytest.approx(346, abs=1), "missing from it before"
    assert (switches["measured_w"] <= switches["nameplate_w"]).all()
    assert plan.racks["measured_kw"].sum() == pytest.approx(plan.devices["measured_w"].sum() / 1000, abs=1e-3)


@pytest.mark.parametrize("name", ["h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"])
def test_facility_power_is_what_the_service_carries_and_water_stands_on_the_basis_of_the_energy(name: str) -> None:
    plan = plan_of(name)
    told = summarise(plan)
    service, profile = told["electrical"]["service"], plan.site.power.profile
    assert told["power_kw"]["site_facility"][profile]["pue"] == pytest.approx(service["kw"], abs=0.01)
    year = told["electrical"].get("year")
    if year is None or "water_m3" not in year:
        return
    full = plan.cooling_figures.set_index(["item", "quantity"])["value"].loc[("year", "water")]
    share = year["it_kw"] / told["power_kw"]["site_it"]["nameplate"] * year["load_factor"]
    assert year["water_m3"] == pytest.approx(full * share, rel=1e-4)
