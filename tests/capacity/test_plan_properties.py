"""What must hold for every plan, over sites drawn at random (by fixed seeds)."""

import functools
import ipaddress
import random

import numpy as np
import pandas as pd
import pytest

from capacity.frames import FRAMES
from capacity.plan import Plan, build
from inventory.catalog import load_catalog
from tests.capacity.sites import variant

PROFILES = ("seed", "measured", "nameplate")
BLOCKS = [block for block in load_catalog().storage.values() if not block.in_servers]


@functools.cache
def plan_of(seed: int) -> Plan:
    """A cluster of 1 to 90 nodes in racks of 1 to 4, on two or three feeds, in rooms that may be too small; with storage of
    any block, or of none.
    """
    pick = random.Random(seed)
    feeds = pick.choice([("A", "B"), ("A", "B", "C")])
    stored = random.Random(f"storage {seed}")
    block = stored.choice([None, *BLOCKS])
    site = variant(
        "h100-1000-ib",
        storage={
            "block": block.slug if block else None,
            "kind": block.kinds[0] if block else "nfs",
            "usable_pb": stored.choice([0.2, 2.0, 10.0]),
        },
        server={"count": pick.randint(1, 90)},
        fabric={"radix": pick.choice([16, 64]), "unit_nodes": pick.choice([4, 8])},
        inband={"leaves": 2 * pick.randint(1, 4), "spines": pick.randint(1, 4)},
        oob={"switches": pick.choice([4, 12])},
        rack={"servers": pick.randint(1, 4), "power_limit_kw": pick.choice([34.5, 60.0])},
        room={"rows": pick.randint(1, 10), "racks_per_row": pick.randint(1, 12), "rpps_per_row": 0},
        power={"feeds": feeds},
    )
    psu = site.server.supplies.model_copy(update={"split_by_feed": dict.fromkeys(feeds, 6 // len(feeds))})
    return build(site.model_copy(update={"server": site.server.model_copy(update={"psu": psu})}))


@functools.cache
def rack_scale_plan_of(seed: int) -> Plan:
    """1 to 9 racks of 18 trays on two to four feeds, with or without a power cap, in rooms that may be too small."""
    pick = random.Random(seed)
    feeds = tuple("ABCD"[: pick.randint(2, 4)])
    split = {feed: len(range(i, 8, len(feeds))) for i, feed in enumerate(feeds)}
    server = variant("gb300-nvl72-liquid").server
    assert server.shelves is not None
    return build(
        variant(
            "gb300-nvl72-liquid",
            server={
                "count": 18 * pick.randint(1, 9),
                "shelves": server.shelves.model_copy(update={"split_by_feed": split}),
                "power": server.power.model_copy(update={"cap_w": pick.choice([None, 6700.0])}),
            },
            fabric={"unit_nodes": pick.choice([18, 36, 72])},
            inband={"leaves": 2 * pick.randint(2, 4)},
            oob={"switches": pick.choice([1, 4])},
            room={"rows": pick.randint(1, 3), "racks_per_row": pick.randint(4, 12)},
            power={"feeds": feeds},
            storage={"usable_pb": pick.choice([0.5, 5.0])},
        )
    )


@pytest.fixture(params=range(16), ids=lambda seed: f"seed{seed}" if seed < 12 else f"rack-scale{seed}")
def plan(request: pytest.FixtureRequest) -> Plan:
    return plan_of(request.param) if request.param < 12 else rack_scale_plan_of(request.param)


def test_each_cable_has_two_distinct_ends_and_each_port_one_cable(plan: Plan) -> None:
    cables = plan.cables
    assert (cables["a_device"] != cables["b_device"]).all()
    ends = pd.concat(
        [
            cables[["a_device", "a_port"]].set_axis(["device", "port"], axis=1),
            cables[["b_device", "b_port"]].set_axis(["device", "port"], axis=1),
        ]
    )
    assert not ends.duplicated().any()
    assert set(ends["device"]) <= set(plan.devices["name"])
    assert cables["cable_id"].is_unique


def test_each_supply_has_at_most_one_outlet_on_its_feed_and_rack(plan: Plan) -> None:
    used = plan.outlets[plan.outlets["device"] != ""]
    assert not used.duplicated(["device", "psu"]).any()
    assert not plan.outlets.duplicated(["pdu", "outlet"]).any()
    rack = plan.placements.set_index("device")["rack"]
    assert (rack.loc[used["device"]].to_numpy() == used["rack"].to_numpy()).all()
    supplies = plan.devices.set_index("name")["psu_count"]
    assert (used["psu"].to_numpy() <= supplies.loc[used["device"]].to_numpy()).all()
    if not any(f.id == "POWER-OUTLETS" for f in plan.findings):
        assert len(used) == supplies.sum()


def test_no_rack_unit_is_filled_twice(plan: Plan) -> None:
    placed = plan.placements[plan.placements["u_height"] > 0]
    units = [
        (rack, u)
        for rack, bottom, height in zip(placed["rack"], placed["u_bottom"], placed["u_height"], strict=True)
        for u in range(bottom, bottom + height)
    ]
    assert len(units) == len(set(units))
    assert min(u for _, u in units) >= 1
    assert max(u for _, u in units) <= plan.site.rack.height_u
    assert set(plan.placements["device"]) == set(plan.devices["name"])
    assert plan.placements["device"].is_unique


def test_power_adds_up_at_every_level(plan: Plan) -> None:
    for profile in PROFILES:
        devices_kw = plan.devices[f"{profile}_w"].sum() / 1000
        assert plan.racks[f"{profile}_kw"].sum() == pytest.approx(devices_kw)
        assert plan.feeds[f"{profile}_kw"].sum() == pytest.approx(devices_kw)
    chosen = plan.site.power.profile
    assert plan.circuits["load_kw"].sum() == pytest.approx(plan.racks[f"{chosen}_kw"].sum())
    per_rack = plan.circuits.groupby("rack")["load_kw"].sum().reindex(plan.racks["name"])
    assert per_rack.to_numpy() == pytest.approx(plan.racks[f"{chosen}_kw"].to_numpy(), abs=1e-5)
    if not any(f.id == "POWER-OUTLETS" for f in plan.findings):
        watts = plan.devices.groupby([plan.devices["kind"] == "pdu", plan.devices["busbar"] >= 0])[f"{chosen}_w"].sum()
        assert plan.outlets["load_w"].sum() == pytest.approx(watts.get((False, False), 0.0), abs=1)


def test_heat_of_all_devices_arrives_in_the_zones(plan: Plan) -> None:
    watts, air = plan.devices["nameplate_w"], plan.devices["air_fraction"]
    by_kind = plan.zones.groupby("kind")[["air_kw", "liquid_kw"]].sum()
    assert by_kind.loc["air", "air_kw"] == pytest.approx((watts * air).sum() / 1000)
    if "liquid" in by_kind.index:
        assert by_kind.loc["liquid", "liquid_kw"] == pytest.approx((watts * (1 - air)).sum() / 1000)


def test_storage_of_a_named_block_is_placed_and_bought_once(plan: Plan) -> None:
    own = plan.storage[plan.storage["chosen"] == 1]
    bought = int(own["enclosures"].sum() + own["metadata_servers"].sum())
    standing = plan.devices[plan.devices["role"].isin(["storage", "metadata"])]
    assert len(standing) == bought
    items = plan.bom[plan.bom["item"].isin(["storage enclosure", "metadata server"])]
    assert items["quantity"].sum() == bought
    assert standing["mass_kg"].sum() == pytest.approx(own["mass_kg"].sum())
    assert set(standing["name"]) <= set(plan.cables["a_device"])


def test_no_circuit_carries_less_after_a_loss_than_before(plan: Plan) -> None:
    assert (plan.circuits["worst_kw"] >= plan.circuits["load_kw"]).all()
    assert (plan.feeds["loss_kw"] >= plan.feeds[f"{plan.site.power.profile}_kw"] - 1e-6).all()


def test_addresses_are_unique_and_inside_their_prefix(plan: Plan) -> None:
    prefixes = plan.site.addressing
    where = {
        "oob": prefixes.oob,
        "bmc": prefixes.oob,
        "provisioning": prefixes.provisioning,
        "loopback": prefixes.loopbacks,
        "link": prefixes.links,
    }
    hosts = [ipaddress.IPv4Interface(a).ip for a in plan.addresses["address"]]
    assert len(set(hosts)) == len(hosts)
    assert all(host in where[network] for host, network in zip(hosts, plan.addresses["network"], strict=True))
    operator = {prefixes.oob.network_address + 1, prefixes.provisioning.network_address + 1}
    assert not operator & set(hosts)
    assert not plan.addresses.duplicated(["device", "interface"]).any()


def test_a_rail_is_the_same_hca_port_on_every_node_of_a_leaf(plan: Plan) -> None:
    links = plan.cables[(plan.cables["fabric"] == "compute") & (plan.cables["stage"] == "node-leaf")]
    assert (links.groupby("b_device")["rail"].nunique() == 1).all()
    assert (links["a_port"] == "ib" + links["rail"].astype(str)).all()
    rails = plan.devices.set_index("name")["rail"]
    assert (rails.loc[links["b_device"]].to_numpy() == links["rail"].to_numpy()).all()


def test_every_leaf_reaches_every_spine_of_its_plane_equally(plan: Plan) -> None:
    tree = plan.tree
    assert tree is not None
    trunk = plan.cables[(plan.cables["fabric"] == "compute") & (plan.cables["stage"] == "leaf-spine")]
    parallel = trunk.groupby(["a_device", "b_device"]).size()
    assert set(parallel) == {tree.leaf_spine_links}
    assert (trunk.groupby("a_device")["b_device"].nunique() == tree.plane_spines).all()
    assert (trunk.groupby("a_device").size() == tree.leaf_up).all()


def test_cables_within_a_rack_are_shorter_than_the_tray_is_high(plan: Plan) -> None:
    rack = plan.placements.set_index("device")["rack"]
    same = rack.loc[plan.cables["a_device"]].to_numpy() == rack.loc[plan.cables["b_device"]].to_numpy()
    assert (plan.cables.loc[same, "length_m"] <= plan.site.room.tray_height_m + plan.site.room.slack_m).all()
    assert (plan.cables["length_m"] >= plan.site.room.slack_m).all()
    part_known = plan.cables["part"] != ""
    assert (part_known == (plan.cables["medium"] != "")).all()


def test_frames_have_their_documented_columns_and_no_missing_values(plan: Plan) -> None:
    for name, frame in plan.frames().items():
        assert list(frame.columns) == list(FRAMES[name])
        assert isinstance(frame.index, pd.RangeIndex)
        assert not frame.isna().any().any()
        numbers = frame.select_dtypes("number").to_numpy()
        assert np.isfinite(numbers).all()
