"""Rack-scale systems: a rack bought whole, its busbar fed by power shelves, its heat shared by coolant and air."""

from typing import Any

import pandas as pd
import pytest

from capacity.build import build
from capacity.cooling import coolant, units
from capacity.model import Plan
from capacity.outputs.summary import summarise
from inventory.catalog import load_catalog
from inventory.site import load_site
from network.wiring.compute import check_nic
from tests.capacity.sites import variant
from tests.plans import plan_of

SITE = "gb300-nvl72-liquid"
BUSBAR_W = 142_000 - 8 * 445.5
"""What the trays and switches of a rack draw from its busbar: the rack's 142 kW less the losses of eight shelves."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(SITE)


def changed(cap_w: float | None = None, feeds: str = "ABCD", **shelves: Any) -> Plan:
    """The shipped site with a power cap, other feeds and another split of the shelves over them."""
    server = load_site(SITE).server
    assert server.shelves is not None
    split = {feed: len(range(i, 8, len(feeds))) for i, feed in enumerate(feeds)}
    changes = {
        "power": server.power.model_copy(update={"cap_w": cap_w}),
        "shelves": server.shelves.model_copy(update={"split_by_feed": split, **shelves}),
    }
    electrical = load_site(SITE).electrical
    assert electrical is not None
    rooms = {"rooms": {feed: electrical.rooms[feed] for feed in feeds}}
    # Fewer feeds have fewer outlets in a rack: one place more for storage.
    room = {"racks_per_row": 17}
    return build(variant(SITE, server=changes, power={"feeds": tuple(feeds)}, electrical=rooms, room=room))


def in_racks(plan: Plan) -> pd.DataFrame:
    """The devices of rack-scale systems, with their places."""
    return plan.devices[plan.devices["busbar"] >= 0].merge(plan.placements, left_on="name", right_on="device")


def test_the_shipped_site_has_no_error_and_only_the_warning_of_its_operating_system(plan: Plan) -> None:
    said = [f.id for f in plan.findings if f.severity != "info"]
    assert said == ["OS-END-OF-SUPPORT"]  # of dates, not of racks


def test_a_rack_is_an_nvlink_domain_of_18_trays_and_9_switches(plan: Plan) -> None:
    domains = in_racks(plan)
    domains = domains[domains["nvlink_domain"] >= 0]
    assert domains.groupby("rack")["nvlink_domain"].nunique().tolist() == [1] * 8
    assert domains.groupby("nvlink_domain")["rack"].nunique().tolist() == [1] * 8
    counted = domains.groupby(["nvlink_domain", "role"]).size().unstack()
    assert set(counted["gpu"]) == {18}
    assert set(counted["nvlink"]) == {9}
    gpus = load_catalog().device("nvidia-gb300-compute-tray").bringup.gpus
    assert counted["gpu"].iloc[0] * gpus == 72


def test_nothing_else_stands_in_the_rack_of_a_system(plan: Plan) -> None:
    racks = in_racks(plan)["rack"].unique()
    there = plan.placements[plan.placements["rack"].isin(racks)]
    assert sorted(there["device"]) == sorted(in_racks(plan)["name"])
    assert set(plan.racks.loc[plan.racks["name"].isin(racks), "model"]) == {"rack-mgx-48u"}
    assert set(plan.racks.loc[~plan.racks["name"].isin(racks), "model"]) == {"rack-48u-800"}


def test_devices_stand_where_the_system_says(plan: Plan) -> None:
    rack = in_racks(plan)
    rack = rack[rack["rack"] == "r01"].sort_values("name")
    places = rack.groupby("model")["u_bottom"].apply(list)
    for part in load_catalog().system("nvidia-gb300-nvl72").parts:
        assert places[part.model] == list(part.u)
    assert plan.racks.loc[plan.racks["name"] == "r01", "used_u"].item() == 37


def test_a_rack_draws_142_kw_and_weighs_1360_kg(plan: Plan) -> None:
    systems = plan.racks[plan.racks["model"] == "rack-mgx-48u"]
    assert systems["nameplate_kw"].tolist() == pytest.approx([142.0] * 8)
    assert systems["mass_kg"].tolist() == pytest.approx([1359.82] * 8)


def test_the_load_of_a_rack_is_on_the_circuits_of_its_shelves(plan: Plan) -> None:
    circuits = plan.circuits[plan.circuits["rack"] == "r01"]
    assert circuits["pdu"].tolist() == [f"shelf-r01-{n}" for n in range(1, 9)]
    assert circuits["circuit"].tolist() == [f"cb-r01-{n}" for n in range(1, 9)]
    assert circuits["feed"].tolist() == list("ABCDABCD")
    assert circuits["load_kw"].tolist() == pytest.approx([142 / 8] * 8)
    assert circuits["worst_kw"].tolist() == pytest.approx([(BUSBAR_W / 6 + 445.5) / 1000] * 8)
    assert plan.circuits["load_kw"].sum() == pytest.approx(plan.racks["nameplate_kw"].sum())


def test_shelves_have_no_outlet_and_trays_no_supply(plan: Plan) -> None:
    assert set(plan.outlets["rack"]).isdisjoint(in_racks(plan)["rack"])
    assert (plan.devices.loc[plan.devices["busbar"] >= 0, "psu_count"] == 0).all()


def test_on_two_feeds_the_loss_of_one_leaves_too_few_shelves() -> None:
    found = [f for f in changed(feeds="AB").findings if f.id == "POWER-FEED-LOSS"]
    assert [f.subject for f in found] == [f"nvidia-gb300-nvl72 busbar/{feed}" for feed in "AB"]
    assert found[0].numbers["left_w"] == 132_000
    assert found[0].numbers["load_w"] == pytest.approx(BUSBAR_W)


def test_on_two_feeds_a_power_cap_carries_the_busbar_over_the_loss_of_one() -> None:
    findings = changed(cap_w=6700.0, feeds="AB").findings
    assert [f for f in findings if f.severity == "error"] == []
    (cap,) = [f for f in findings if f.id == "POWER-CAP"]
    assert cap.numbers["capped_w"] == pytest.approx(BUSBAR_W - 18 * (7130 - 6700))


def test_shelves_that_cannot_spare_one_are_refused() -> None:
    found = changed(rating_w=17_000.0, redundancy="8+0").findings
    assert "POWER-PSU-REDUNDANCY" in {f.id for f in found if f.subject == "nvidia-gb300-nvl72 busbar"}


def test_a_shelf_circuit_that_is_too_small_is_refused() -> None:
    circuit = load_site(SITE).power.rack_circuit.model_copy(update={"breaker_a": 40.0})
    found = build(variant(SITE, power={"shelf_circuit": circuit})).findings
    assert [f.subject for f in found if f.id == "POWER-CIRCUIT"] == ["cb-r01-1"]


def test_tray_management_stays_in_its_rack(plan: Plan) -> None:
    rack = plan.placements.set_index("device")["rack"]
    oob = plan.cables[(plan.cables["fabric"] == "oob") & (plan.cables["stage"] != "switch-oob")]
    inside = oob[oob["a_device"].isin(in_racks(plan)["name"])]
    assert len(inside) == 8 * (18 * 2 + 8)
    assert (rack[inside["a_device"]].to_numpy() == rack[inside["b_device"]].to_numpy()).all()


def test_nvlink_switches_have_management_cables_only(plan: Plan) -> None:
    switches = plan.devices.loc[plan.devices["role"] == "nvlink", "name"]
    ends = plan.cables[plan.cables["a_device"].isin(switches) | plan.cables["b_device"].isin(switches)]
    assert len(ends) == len(switches) == 72
    assert set(ends["stage"]) == {"switch-oob"}


def test_eight_racks_take_8_leaves_and_4_spines_of_144_ports(plan: Plan) -> None:
    assert summarise(plan)["devices"]["switches"]["compute"] == {"leaf": 8, "spine": 4}
    stages = plan.cables[plan.cables["fabric"] == "compute"]["stage"].value_counts()
    assert stages.to_dict() == {"node-leaf": 576, "leaf-spine": 576, "manager-leaf": 2}


def test_the_slot_limits_an_800g_port_not_the_card() -> None:
    assert check_nic(800, 6) == []
    assert [f.id for f in check_nic(800, 5)] == ["FABRIC-NIC-PCIE"]
    assert check_nic(800, 5, x16_per_port=2) == []


def test_flow_of_propylene_glycol_is_that_of_the_enthalpy_balance() -> None:
    assert coolant.flow_l_min(130, 30, 10) == pytest.approx(194.2, abs=0.1)
    assert units.with_spares(1035, 1300, 1) == 2
    assert units.with_spares(2600, 1300, 1) == 3


def test_coolant_carries_what_the_air_does_not(plan: Plan) -> None:
    heat = summarise(plan)["heat"]
    assert heat["room_kw"] + heat["liquid_kw"] == pytest.approx(plan.racks["nameplate_kw"].sum())
    per_rack = (18 * 7130 * (1 - 0.061) + 9 * 1100 * 0.9) / 1000
    assert heat["coolant"]["rack_largest_kw"] == pytest.approx(per_rack, abs=0.01)
    assert heat["coolant"]["distribution_units"] == 2
    assert plan.bom.set_index("item")["quantity"]["cdu"] == 2


def test_an_air_cooled_site_has_no_coolant() -> None:
    assert "coolant" not in summarise(plan_of("lab"))["heat"]


@pytest.mark.parametrize(("supply_c", "limit"), [(16.0, 17.0), (46.0, 45.0)])
def test_coolant_outside_dew_point_and_server_limit_is_refused(supply_c: float, limit: float) -> None:
    given = load_site(SITE).cooling
    assert given.coolant is not None
    assert given.coolant.loop is not None
    assert given.ride_through is not None
    loop = given.coolant.loop.model_copy(update={"facility_c": supply_c - 5})
    cooling = {
        "supply_c": supply_c,
        "coolant": given.coolant.model_copy(update={"loop": loop}),
        "ride_through": given.ride_through.model_copy(update={"coolant_trip_c": 50.0}),
    }
    found = build(variant(SITE, cooling=cooling)).findings
    assert [(f.subject, f.limit) for f in found if f.id == "COOLING-COOLANT"] == [("cooling.supply_c", limit)]


def test_a_grown_cluster_keeps_its_racks_trays_and_switches(plan: Plan) -> None:
    large = build(variant(SITE, server={"count": 162}, fabric={"tiers": "auto"}), baseline=plan)
    was = plan.placements.merge(plan.devices[["name", "kind", "role"]], left_on="device", right_on="name")
    now = large.placements.set_index("device")
    stayed = was[was["role"].isin(["gpu", "nvlink", "power_shelf"]) & was["device"].isin(now.index)]
    assert len(stayed) == 8 * (18 + 9 + 8)
    assert (now.loc[stayed["device"], "rack"].to_numpy() == stayed["rack"].to_numpy()).all()
    assert (now.loc[stayed["device"], "u_bottom"].to_numpy() == stayed["u_bottom"].to_numpy()).all()
