"""Storage that is bought as devices: racks of its own, supplies, links, growth; and when nothing is placed."""

import pytest

from capacity.build import build
from capacity.kept import Kept
from capacity.least import with_values
from capacity.model import Plan
from inventory.catalog import load_catalog
from inventory.site import Site
from inventory.site.sections.racks import NetworkRack
from inventory.site.sections.servers import ServiceNode
from tests.capacity.sites import variant
from tests.findings import offers, only, values
from tests.plans import plan_of

pytestmark = pytest.mark.usefixtures("stages_kept")

SITES = ("h100-1000-ib", "b200-256-roce", "gb300-nvl72-liquid")


@pytest.fixture(scope="module", params=SITES)
def plan(request: pytest.FixtureRequest) -> Plan:
    return plan_of(request.param)


def small(**storage: object) -> Site:
    """64 H100 servers and 4 PB: 14 enclosures."""
    return variant("h100-1000-ib", server={"count": 64}, storage={"usable_pb": 4.0, **storage})


def stores(plan: Plan) -> list[str]:
    return plan.devices.loc[plan.devices["role"].isin(["storage", "metadata"]), "name"].tolist()


def finding(plan: Plan, name: str) -> str:
    return next(f.message for f in plan.findings if f.id == name)


def test_every_enclosure_and_metadata_server_stands_in_a_rack_with_its_like(plan: Plan) -> None:
    own = plan.storage[plan.storage["chosen"] == 1].iloc[0]
    names = stores(plan)
    assert len(names) == own["enclosures"] + own["metadata_servers"]
    rack = plan.placements.set_index("device")["rack"]
    inside = plan.placements[plan.placements["rack"].isin(rack.loc[names])]
    kinds = plan.devices.set_index("name").loc[inside["device"]]
    assert set(kinds["role"]) == {"storage", "metadata", "rack_pdu"}
    drawn = plan.devices.set_index("name").loc[names]
    assert drawn["nameplate_w"].sum() / 1000 == pytest.approx(own["kw"])
    assert drawn["mass_kg"].sum() == pytest.approx(own["mass_kg"])
    assert drawn["u_height"].sum() == own["rack_u"]


def test_shipped_sites_have_room_power_and_ports_for_it(plan: Plan) -> None:
    assert [f for f in plan.findings if f.severity == "error"] == []
    assert not [f for f in plan.findings if f.id.startswith("STORAGE-")]


def test_each_supply_has_a_cord_and_the_supplies_of_a_device_are_on_two_feeds(plan: Plan) -> None:
    cords = plan.outlets[plan.outlets["device"].isin(stores(plan))]
    assert (cords.groupby("device").size() == 2).all()
    assert (cords.groupby("device")["feed"].nunique() == 2).all()
    assert cords["device"].nunique() == len(stores(plan))


def test_all_ports_of_an_enclosure_go_to_the_leaves_of_one_pair_at_their_rate(plan: Plan) -> None:
    links = plan.cables[(plan.cables["fabric"] == "inband") & plan.cables["a_device"].isin(stores(plan))]
    own = plan.storage[plan.storage["chosen"] == 1].iloc[0]
    boxes = links[links["a_device"].str.startswith("sto")]
    assert len(boxes) == own["links"]
    assert set(links["rate_gbps"]) == {own["link_gbps"]}
    per_leaf = boxes.groupby(["a_device", "b_device"]).size()
    assert set(per_leaf) == {2}
    assert set(per_leaf.groupby("a_device").size()) == {2}


def test_the_bill_has_them_once(plan: Plan) -> None:
    own = plan.storage[plan.storage["chosen"] == 1].iloc[0]
    bill = plan.bom.groupby("item")["quantity"].sum()
    assert bill["storage enclosure"] == own["enclosures"]
    assert bill["metadata server"] == own["metadata_servers"]
    assert bill["server"] == (plan.devices["kind"] == "server").sum() - len(stores(plan))


def test_metadata_servers_do_not_share_one_rack() -> None:
    plan = plan_of("h100-1000-ib")
    rack = plan.placements.set_index("device")["rack"]
    assert rack.loc[[f"mds{i:02d}" for i in range(1, 5)]].nunique() == 3


@pytest.mark.parametrize("slug", sorted(b.slug for b in load_catalog().storage.values() if not b.in_servers))
def test_every_block_of_the_catalogue_can_be_placed(slug: str) -> None:
    plan = build(small(block=slug, kind=load_catalog().storage[slug].kinds[0]))
    own = plan.storage[plan.storage["chosen"] == 1].iloc[0]
    assert len(stores(plan)) == own["enclosures"] + own["metadata_servers"]
    known = (
        "POWER-PSU-REDUNDANCY",
        "POWER-CORD",
        "POWER-VOLTAGE",
        "POWER-OUTLETS",
        "POWER-CIRCUIT",
        "SPACE-RACK-MASS",
        "SPACE-DEPTH",
        "CABLE-REACH",
    )
    assert not [f for f in plan.findings if f.id in known]


def test_without_a_named_block_nothing_is_placed_and_it_is_said() -> None:
    plan = build(small(block=None))
    assert stores(plan) == []
    assert offers(only(plan, "STORAGE-UNPLACED"), "storage.block", "lustre-flash")


def test_a_kind_without_a_block_places_nothing_and_says_nothing() -> None:
    plan = build(small(kind="nfs", block=None))
    assert stores(plan) == []
    assert not [f for f in plan.findings if f.id == "STORAGE-UNPLACED"]


def test_storage_servers_beside_enclosures_are_found_and_keep_their_names() -> None:
    site = small()
    nodes = (*site.service_nodes, ServiceNode(role="storage", model="generic-service-node-2u", count=3))
    plan = build(site.model_copy(update={"service_nodes": nodes}))
    twice = only(plan, "STORAGE-TWICE")
    assert twice.numbers["nodes"] == 3
    assert twice.remedies[0].settings == {"storage.block": None}
    assert twice.remedies[0].text.startswith("storage.block: null, ")
    assert "STORAGE-TWICE" not in {one.id for one in build(with_values(plan.site, twice.remedies[0].settings)).findings}
    model = plan.devices.set_index("name")["model"]
    assert (model["sto03"], model["sto04"]) == ("generic-service-node-2u", "lustre-flash-2u24")


def test_the_number_of_leaves_that_is_named_does_mend_it() -> None:
    short = build(variant("h100-1000-ib", inband={"leaves": 44}))
    assert offers(only(short, "INBAND-PORTS"), "inband.leaves", 46)
    for leaves, ids in ((46, []), (44, ["INBAND-PORTS"])):
        found = build(variant("h100-1000-ib", inband={"leaves": leaves})).findings
        assert [f.id for f in found if f.id == "INBAND-PORTS"] == ids


def test_where_no_number_of_leaves_has_the_ports_a_larger_leaf_is_named_that_does() -> None:
    inband = {"leaves": 44, "spines": 40}
    short = build(variant("h100-1000-ib", inband=inband), kept=Kept(), what_ifs=False)
    (way,) = only(short, "INBAND-PORTS").remedies
    assert dict(way.settings) == {"inband.leaf_model": "nvidia-sn5600", "inband.leaves": 26}
    changes = {key.removeprefix("inband."): value for key, value in way.settings.items()}
    found = build(variant("h100-1000-ib", inband={**inband, **changes}), kept=Kept(), what_ifs=False).findings
    assert not {one.id for one in found if one.severity == "error"} - {f.id for f in short.findings}
    assert "INBAND-PORTS" not in {one.id for one in found}


def test_racks_of_their_own_class_have_their_own_limits() -> None:
    given = NetworkRack(model="rack-48u-600", height_u=42, mass_limit_kg=1000, power_limit_kw=8)
    plan = build(variant("h100-1000-ib", server={"count": 64}, rack={"storage": given}, storage={"usable_pb": 4.0}))
    rack = plan.placements.set_index("device")["rack"].loc[stores(plan)]
    racks = plan.racks.set_index("name").loc[rack.unique()]
    assert set(racks["model"]) == {"rack-48u-600"}
    assert set(racks["height_u"]) == {42}
    assert racks["nameplate_kw"].max() <= 8
    assert set(plan.racks.loc[~plan.racks["name"].isin(racks.index), "model"]) == {"rack-48u-800"}


def test_an_enclosure_above_the_limit_of_its_rack_names_the_key() -> None:
    given = NetworkRack(model="rack-48u-800", height_u=48, mass_limit_kg=1360, power_limit_kw=1.5)
    plan = build(variant("h100-1000-ib", server={"count": 8}, rack={"storage": given}, storage={"usable_pb": 0.1}))
    assert values(only(plan, "SPACE-RACK-POWER"), "rack.storage.power_limit_kw") == [2]


def test_growth_keeps_names_racks_and_ports_of_storage() -> None:
    before = build(small())
    after = build(small(usable_pb=5.0), baseline=before)
    old = stores(before)
    assert set(old) < set(stores(after))
    places = [p.placements.set_index("device").loc[old, ["rack", "u_bottom"]] for p in (before, after)]
    assert places[0].equals(places[1])
    ends = [
        p.cables[p.cables["a_device"].isin(old)].set_index("cable_id")["b_port"].sort_index() for p in (before, after)
    ]
    assert ends[0].equals(ends[1])
    model = after.racks.set_index("name")["model"]
    assert (model.loc[before.racks["name"]].to_numpy() == before.racks["model"].to_numpy()).all()


def test_in_a_hall_without_places_it_stands_in_the_racks_of_servers() -> None:
    hall = {"rows": 1, "racks_per_row": 27}
    plan = build(variant("b200-256-roce", rack={"servers": 1}, server={"count": 24}, room=hall))
    assert not [f for f in plan.findings if f.id == "SPACE-ROOM"]
    rack = plan.placements.set_index("device")["rack"]
    servers = plan.devices.loc[plan.devices["role"] == "gpu", "name"]
    assert set(rack.loc[stores(plan)]) <= set(rack.loc[servers])
