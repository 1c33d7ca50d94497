"""Where devices stand."""

import copy

import numpy as np
import pandas as pd
import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.space import hall
from capacity.space.hall import cable_bound, places, unit_spread
from inventory.site import load_site
from inventory.site.sections.racks import NetworkRack
from network.wiring.cabling import routed_lengths
from tests.capacity.sites import variant
from tests.findings import offers, only, values
from tests.plans import plan_of

pytestmark = pytest.mark.usefixtures("stages_kept")


@pytest.fixture(scope="module")
def large() -> Plan:
    return plan_of("h100-1000-ib")


def racks_of(plan: Plan, **where: object) -> pd.Series:
    """Rack index (0-based, in floor order) of the devices that have these column values."""
    devices = plan.devices
    for column, value in where.items():
        devices = devices[devices[column] == value]
    order = {name: i for i, name in enumerate(plan.racks["name"])}
    return plan.placements.set_index("device")["rack"].loc[devices["name"]].map(order)


def test_leaves_stand_within_the_middle_of_their_unit(large: Plan) -> None:
    for unit in (0, 7, 20):
        servers = racks_of(large, role="gpu", unit=unit)
        leaves = racks_of(large, role="leaf", unit=unit)
        middle = (servers.min() + servers.max()) / 2
        assert (abs(leaves - middle) <= 2.5).all()
        assert leaves.min() >= servers.min()
        assert leaves.max() <= servers.max()


def test_spines_and_cores_stand_in_racks_of_their_own_in_the_middle_of_the_room(large: Plan) -> None:
    spines = racks_of(large, role="spine", fabric="compute")
    servers = racks_of(large, role="gpu")
    assert not set(spines) & set(servers)
    assert servers.min() < spines.min()
    assert spines.max() < servers.max()


def test_a_unit_is_never_split_by_the_network_racks(large: Plan) -> None:
    for unit in range(31):
        servers = racks_of(large, role="gpu", unit=unit)
        assert servers.max() - servers.min() <= 11


def test_no_rack_exceeds_its_power_limit_although_leaves_share_it(large: Plan) -> None:
    assert large.racks["nameplate_kw"].max() <= large.site.rack.power_limit_kw


def test_a_room_without_spare_positions_puts_switches_beside_the_servers() -> None:
    lab = plan_of("lab")
    assert set(lab.placements["rack"]) == {"r01", "r02"}


def test_servers_stand_below_switches() -> None:
    plan = plan_of("lab")
    places = plan.placements.merge(plan.devices, left_on="device", right_on="name")
    for _, rack in places.groupby("rack"):
        top_of_servers = (rack.loc[rack["kind"] == "server", "u_bottom"]).max()
        assert (rack.loc[rack["kind"] == "switch", "u_bottom"] > top_of_servers).all()


def test_rack_mass_counts_the_rack_its_devices_and_its_pdus() -> None:
    plan = plan_of("lab")
    devices = plan.devices.merge(plan.placements, left_on="name", right_on="device")
    of_first = devices[devices["rack"] == "r01"]
    assert plan.racks.loc[0, "mass_kg"] == pytest.approx(140 + of_first["mass_kg"].sum())


def test_a_rack_that_its_servers_overload_is_named() -> None:
    plan = build(variant("lab", rack={"servers": 4}))
    found = {f.id: f for f in plan.findings if f.severity == "error"}
    assert found["SPACE-RACK-POWER"].numbers["nameplate_kw"] > 40
    assert found["SPACE-RACK-POWER"].limit == 34.5


def test_a_switch_that_is_higher_than_its_rack_sticks_out_at_the_top() -> None:
    low = NetworkRack(model="rack-48u-800", height_u=1, mass_limit_kg=1360, power_limit_kw=34.5)
    plan = build(variant("h100-1000-ib", server={"count": 40}, rack={"network": low}))
    placed = plan.placements.merge(plan.devices[["name", "kind"]], left_on="device", right_on="name")
    assert placed.loc[placed["kind"] == "switch", "u_bottom"].min() == 1
    assert "SPACE-RACK-U" in {f.id for f in plan.findings}


def test_what_does_not_fit_names_the_smallest_change_that_fits() -> None:
    def changes(key: str, **sections: dict[str, object]) -> list[dict[str, object]]:
        found = next(f for f in build(variant("lab", **sections)).findings if f.id == key)
        return [dict(one.settings) for one in found.remedies]

    # 44.5 kW in the rack, 34.5 allowed, 12 a server: one fewer
    assert changes("SPACE-RACK-POWER", rack={"servers": 4}) == [{"rack.servers": 3}]
    fewer = build(variant("lab", rack={"servers": 3}, server={"count": 3}))
    assert changes("SPACE-ROOM", rack={"servers": 1}) == [{"room.rows": 2}, {"room.racks_per_row": 6}]
    assert "SPACE-RACK-U" not in {f.id for f in fewer.findings}
    assert changes("SPACE-FLOOR-LOAD", room={"floor_load_kg_m2": 700.0}) == [{"rack.servers": 1}]
    (stronger,) = changes("SPACE-FLOOR-LOAD", room={"floor_load_kg_m2": 210.0})
    assert list(stronger) == ["room.floor_load_kg_m2"]
    enough = build(variant("lab", room=dict(zip(["floor_load_kg_m2"], stronger.values(), strict=True))))
    assert "SPACE-FLOOR-LOAD" not in {f.id for f in enough.findings}


def test_the_change_that_is_named_does_mend_it() -> None:
    short = build(variant("h100-1000-ib", room={"rows": 5}))
    found = only(short, "SPACE-ROOM")
    assert offers(found, "room.rows", 15)
    assert offers(found, "room.racks_per_row", 73)
    for change in ({"rows": 15}, {"rows": 5, "racks_per_row": 73}):
        assert not [f for f in build(variant("h100-1000-ib", room=change)).findings if f.id == "SPACE-ROOM"]


def test_a_longer_row_with_places_kept_for_coolers_does_mend_it() -> None:
    air = load_site("b200-256-roce").cooling.air
    assert air is not None
    cooling = {"air": air.model_copy(update={"every_racks": 1})}
    short = build(variant("b200-256-roce", cooling=cooling, room={"racks_per_row": 8, "rows": 2}))
    (longer,) = values(only(short, "SPACE-ROOM"), "room.racks_per_row")
    for length, missing in ((longer, False), (longer - 1, True)):
        plan = build(variant("b200-256-roce", cooling=cooling, room={"racks_per_row": length, "rows": 2}))
        assert bool([f for f in plan.findings if f.id == "SPACE-ROOM"]) == missing


def test_aisles_depth_and_airflow_are_judged() -> None:
    narrow = build(variant("h100-1000-ib", room={"row_pitch_m": 2.0, "aisle_min_m": 1.2}, server={"count": 40}))
    found = {f.id: f for f in narrow.findings}
    assert offers(found["SPACE-AISLE"], "room.row_pitch_m", 2.4)
    assert found["SPACE-AIRFLOW"].subject == "nvidia-sn2201"
    assert "SPACE-DEPTH" not in found


def test_racks_do_not_overlap_and_rows_end_before_the_walls() -> None:
    room = {
        "rack_pitch_m": 0.6,
        "row_pitch_m": 1.1,
        "aisle_min_m": None,
        "walkway_min_m": None,
        "length_m": 8.9,
        "width_m": 9,
    }
    plan = build(variant("b200-256-roce", room=room))
    found = {f.subject: f for f in plan.findings if f.id in ("SPACE-PITCH", "SPACE-WALKWAY")}
    assert {key: (f.id, f.limit) for key, f in found.items()} == {
        "room.rack_pitch_m": ("SPACE-PITCH", 0.8),
        "room.row_pitch_m": ("SPACE-PITCH", 1.2),
        "room.length_m": ("SPACE-WALKWAY", 0.0),
    }
    assert found["room.length_m"].numbers["clear_m"] == -0.05


def test_power_panels_take_the_heads_of_the_rows() -> None:
    plan = plan_of("b200-256-roce")
    assert plan.racks["position"].min() == 3
    assert plan.cooling_units["position"].min() >= 3
    assert not [f for f in plan.findings if f.severity == "error"]


def test_coolers_between_the_racks_stand_near_them() -> None:
    site = load_site("b200-256-roce")
    assert site.cooling.air is not None
    between = site.cooling.air.model_copy(update={"every_racks": 4})
    plan = build(variant(site.name, cooling={"air": between}))
    assert not set(plan.racks["position"]) & {7, 12}  # three places of panels at the head
    assert not [f for f in plan.findings if f.severity == "error"]
    coolers = plan.cooling_units[plan.cooling_units["at"] == "row"]
    assert {7, 12} <= set(coolers["position"])
    ids = {f.id: f for f in plan.findings}
    before = {f.id: f for f in build(site).findings}["COOLING-IN-ROW-FAR"].numbers["distance_m"]
    assert "COOLING-IN-ROW-FAR" not in ids or ids["COOLING-IN-ROW-FAR"].numbers["distance_m"] < before


def shuffled(plan: Plan, seed: int) -> float:
    """Metres of compute cable with every compute switch in some rack, at some height."""
    pick = np.random.default_rng(seed)
    places = plan.placements.copy()
    switches = places["device"].isin(plan.devices.loc[plan.devices["fabric"] == "compute", "name"]).to_numpy()
    rack = pick.integers(0, len(plan.racks), int(switches.sum()))
    if seed % 2:
        rack[:] = rack[0]
    for column in ("x_m", "y_m"):
        places.loc[switches, column] = plan.racks[column].to_numpy()[rack]
    places.loc[switches, "rack"] = plan.racks["name"].to_numpy()[rack]
    places.loc[switches, "z_m"] = pick.integers(1, 48, len(rack)) * 0.04445
    compute = plan.cables[plan.cables["fabric"] == "compute"]
    room = plan.site.room
    return float(routed_lengths(compute, places, room.tray_height_m, room.slack_m).sum())


@pytest.mark.parametrize("site", ["lab", "b200-256-roce", "gb300-nvl72-liquid"])
def test_no_placement_of_the_switches_undercuts_the_cable_bound(site: str) -> None:
    plan = plan_of(site)
    bound = cable_bound(plan)
    assert 0 < bound["bound_m"] <= bound["reached_m"]
    assert min(shuffled(plan, seed) for seed in range(40)) >= bound["bound_m"]


def test_the_cable_bound_of_the_large_site_is_more_than_half_of_what_is_reached(large: Plan) -> None:
    bound = cable_bound(large)
    assert bound["bound_m"] > 0.5 * bound["reached_m"]
    assert min(shuffled(large, seed) for seed in range(4)) >= bound["bound_m"]


def test_units_stay_together(large: Plan) -> None:
    spread = unit_spread(large.devices, large.racks, large.placements)
    assert (spread["places"] == spread["racks"]).all()


def test_a_unit_between_whose_racks_others_stand_is_named(large: Plan) -> None:
    apart = pd.concat([large.racks.iloc[1:], large.racks.iloc[:1]])
    said = hall.check(large.site, large.catalog, large.devices, apart, large.placements)
    split = [f for f in said if f.id == "SPACE-UNIT-SPLIT"]
    assert [(f.subject, f.severity, f.numbers["units"]) for f in split] == [("unit 0", "info", 1)]


def test_a_server_deeper_than_its_rack_that_blows_into_the_cold_aisle_is_named() -> None:
    plan = plan_of("lab")
    catalog = copy.copy(plan.catalog)
    model, rack = plan.site.server.model, plan.site.rack.model
    turned = plan.catalog.device(model).model_copy(update={"airflow": "rear-to-front"})
    catalog.devices = {**catalog.devices, model: turned}
    catalog.racks = {**catalog.racks, rack: plan.catalog.rack(rack).model_copy(update={"outer_depth": 890})}
    said = hall.check(plan.site, catalog, plan.devices, plan.racks, plan.placements)
    found = {f.id: f for f in said if f.subject == model}
    assert (found["SPACE-DEPTH"].limit, found["SPACE-DEPTH"].numbers["depth_mm"]) == (890, 897)
    (deeper,) = [one.settings["rack.model"] for one in found["SPACE-DEPTH"].remedies if one.settings]
    assert catalog.racks[deeper].outer_depth >= 897
    assert catalog.racks[deeper].outer_width == catalog.racks[rack].outer_width
    assert (found["SPACE-AIRFLOW"].severity, found["SPACE-AIRFLOW"].numbers["devices"]) == ("warning", 4)


def test_places_add_up() -> None:
    for site in ("lab", "h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid"):
        at = places(plan_of(site))
        assert at["all"] == at["racks"] + at["cooling_units"] + at["kept_for_panels"] + at["free"]


def test_racks_without_gpu_servers_have_limits_of_their_own() -> None:
    site = load_site("gb300-nvl72-liquid")
    assert site.rack.network is not None
    weak = site.rack.network.model_copy(update={"power_limit_kw": 7.0})
    changes: dict[str, dict[str, object]] = {"room": {"racks_per_row": 40, "length_m": 40.0}, "oob": {"switches": 4}}
    found = build(variant(site.name, rack={"network": weak}, **changes)).findings
    assert [(f.id, f.limit_source) for f in found if f.severity == "error"] == [
        ("SPACE-RACK-POWER", "site rack.network.power_limit_kw")
    ]


def test_fewer_rows_are_offered_only_where_one_is_left() -> None:
    for width_m, fewer in ((5.0, True), (3.0, False)):
        plan = build(variant("b200-256-roce", room={"width_m": width_m}))
        (found,) = [f for f in plan.findings if f.id == "SPACE-WALKWAY"]
        assert offers(found, "room.width_m", 6.6)
        assert offers(found, "room.rows", 1) == fewer
        assert len(found.remedies) == 1 + fewer


@pytest.mark.parametrize(("key", "size"), [("length_m", 24.0), ("width_m", 60.0)])
def test_walkways_around_the_rows_are_judged_and_the_change_mends_them(key: str, size: float) -> None:
    """29 places of 0.8 m are 23.2 m; 20 rows at 3 m are 57 m and a rack of 1.2 m."""
    (found,) = [f for f in build(variant("h100-1000-ib", room={key: size})).findings if f.id == "SPACE-WALKWAY"]
    assert found.numbers["clear_m"] == pytest.approx((size - (23.2 if key == "length_m" else 58.2)) / 2, abs=1e-3)
    (mended,) = values(found, f"room.{key}")
    for tried, short in ((mended, False), (mended - 0.02, True)):
        plan = build(variant("h100-1000-ib", room={key: tried}))
        assert bool([f for f in plan.findings if f.id == "SPACE-WALKWAY"]) == short
