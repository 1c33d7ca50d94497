"""Addresses and AS numbers of a RoCE compute fabric: worked by hand, and the same after growth."""

import ipaddress

import numpy as np
import pytest

from capacity.build import build
from inventory.site import Site, load_site
from network import fabric
from network.wiring.rails import LOOPBACK, RAIL, Rails, as_numbers, host_routes
from tests.plans import plan_of

SITE = "b200-256-roce"


@pytest.fixture(scope="module")
def plan():
    return plan_of(SITE)


def changed(**sections) -> Site:
    site = load_site(SITE)
    new = {name: getattr(site, name).model_copy(update=values) for name, values in sections.items()}
    return site.model_copy(update=new)


def by_end(plan, *networks):
    rows = plan.addresses[plan.addresses["network"].isin(networks)]
    return {(row.device, row.interface): row.address for row in rows.itertuples()}


def test_prefix_is_split_by_rail_then_by_unit():
    # /16 over 8 rails: /19 each; 128 ports take 256 addresses: /24 each, 32 units
    rails = Rails(ipaddress.IPv4Network("10.76.0.0/16"), 8, 256)
    assert str(rails.rail(1)) == "10.76.32.0/19"
    assert str(rails.leaf(2, 1)) == "10.76.34.0/24"
    assert rails.units == 32
    assert rails.size_for(33) == 1 << 17


def test_six_rails_take_eight_parts():
    assert Rails(ipaddress.IPv4Network("10.76.0.0/16"), 6, 256).rail_size == 1 << 13


def test_each_server_port_has_the_pair_of_its_leaf_port(plan):
    ends = by_end(plan, RAIL)
    # server 3 is on the third port of its leaves; rail 5 has the sixth /19
    assert ends["gpu003", "rail5"] == "10.76.160.5/31"
    assert ends["rol006", "swp2s0"] == "10.76.160.4/31"
    assert len(ends) == 2 * 32 * 8
    assert len(set(ends.values())) == len(ends)


def test_each_compute_switch_has_a_loopback_and_an_as_number(plan):
    switches = plan.devices[(plan.devices["fabric"] == "compute") & (plan.devices["kind"] == "switch")]
    assert {name for name, _ in by_end(plan, LOOPBACK)} == set(switches["name"])
    leaves, spines = (set(switches.loc[switches["role"] == role, "asn"]) for role in ("leaf", "spine"))
    assert len(leaves) == 8
    assert spines == {4210000001}
    assert not leaves & spines


def test_growth_moves_no_address_and_no_as_number(plan):
    larger = build(changed(server={"count": 64}), baseline=plan)
    before, after = by_end(plan, RAIL, LOOPBACK), by_end(larger, RAIL, LOOPBACK)
    assert len(after) > len(before)
    assert {end: after.get(end) for end in before} == before
    numbers = dict(zip(larger.devices["name"], larger.devices["asn"], strict=True))
    own = plan.devices[plan.devices["fabric"] == "compute"]
    assert [numbers[name] for name in own["name"]] == own["asn"].tolist()


def test_spines_of_a_plane_share_an_as_number_and_no_two_planes_do():
    tree = fabric.design(64, 4, 16, 8, tiers=3)
    spines = as_numbers(4200000000, "spine", tree)
    assert len(set(spines.tolist())) == tree.planes
    assert (spines.reshape(tree.planes, -1) == spines[:: tree.plane_spines, None]).all()
    every = np.concatenate([spines, as_numbers(4200000000, "leaf", tree), as_numbers(4200000000, "core", tree)])
    assert len(set(every.tolist())) == tree.planes + tree.leaves + 1


def test_a_prefix_without_room_for_all_units_is_a_finding():
    small = changed(addressing={"rails": ipaddress.IPv4Network("10.76.0.0/21")}, server={"count": 64})
    short = [f for f in build(small).findings if f.id == "ADDRESSING-EXHAUSTED"]
    assert [(f.subject, f.numbers["available"]) for f in short if f.subject == "addressing/rail"] == [
        ("addressing/rail", 2048)
    ]
    assert [dict(one.settings) for one in short[-1].remedies] == [{"addressing.rails": "10.76.0.0/20"}]
    none = build(changed(addressing={"rails": ipaddress.IPv4Network("10.76.0.0/30")}))
    assert by_end(none, RAIL) == {}


def test_servers_reach_each_rail_by_its_own_port(plan):
    routes = host_routes(plan.site, plan.catalog, plan.addresses, plan.devices)
    own = routes[routes["device"] == "gpu003"]
    main = own[own["table"] == "main"]
    assert main["interface"].tolist() == [f"rail{k}" for k in range(8)]
    assert main["destination"].tolist()[5] == "10.76.160.0/19"
    assert main["gateway"].tolist()[5] == "10.76.160.4"
    assert set(own.loc[own["table"] != "main", "destination"]) == {"10.76.0.0/16"}


def test_a_site_without_prefixes_gets_no_addresses():
    without = build(changed(addressing={"rails": None, "compute_loopbacks": None}))
    assert by_end(without, RAIL, LOOPBACK) == {}
