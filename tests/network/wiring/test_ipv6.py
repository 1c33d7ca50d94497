"""IPv6 addresses beside those of IPv4: worked by hand, one for each, and the same after growth."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.build import build
from inventory.site.whatif import changed
from network.wiring import ipv6
from network.wiring.rails import LOOPBACK, RAIL, Rails, host_routes
from tests.network import dual_stack
from tests.plans import plan_of


def by_end(plan, *networks):
    rows = ipv6.addresses(plan.site, plan.catalog, plan.addresses)
    rows = rows[rows["network"].isin(networks)]
    return {(row.device, row.interface): row.address for row in rows.itertuples()}


def test_each_leaf_has_a_64_of_its_rail_and_each_port_a_pair_of_it():
    # /48 over 8 rails: /51 each, that is 0x2000 leaves; server 3 is on the third port of its leaves
    ends = by_end(dual_stack.plan(), RAIL)
    assert ends["gpu003", "rail0"] == "fd00:76::5/127"
    assert ends["gpu003", "rail5"] == "fd00:76:0:a000::5/127"
    assert ends["rol006", "swp2s0"] == "fd00:76:0:a000::4/127"
    assert len(set(ends.values())) == len(ends) == 2 * 32 * 8


def test_loopbacks_and_bmcs_lie_where_their_ipv4_addresses_do():
    plan = dual_stack.plan()
    rows = plan.addresses.set_index(["device", "network"])["address"]
    assert rows["rol001", LOOPBACK] == "10.78.0.1/32"
    assert by_end(plan, LOOPBACK)["rol001", "lo"] == "fd00:78::1/128"
    place = int(ipaddress.ip_interface(rows["gpu001", "bmc"]).ip) - int(plan.site.addressing.oob.network_address)
    ((_, own),) = [(end, text) for end, text in by_end(plan, "bmc").items() if end[0] == "gpu001"]
    assert own == f"{ipaddress.ip_address('fd00:72::') + place}/64"


def test_growth_moves_no_address():
    small = dual_stack.plan()
    large = build(changed(dual_stack.SITE, dual_stack.settings("server.count=64")), baseline=small)
    before, after = by_end(small, RAIL, LOOPBACK, "bmc"), by_end(large, RAIL, LOOPBACK, "bmc")
    assert len(after) > len(before)
    assert {end: after.get(end) for end in before} == before


@given(
    rails=st.integers(1, 16),
    length=st.integers(8, 24),
    ports=st.sampled_from([32, 64, 128]),
    where=st.integers(0, 2**20),
)
def test_any_port_has_the_same_unit_rail_and_place_in_both_families(rails, length, ports, where):
    split = Rails(ipaddress.ip_network(f"10.0.0.0/{length}"), rails, 2 * ports)
    wider = Rails(ipaddress.ip_network("fd00::/32"), rails, 1 << 64)
    place = where % (rails * split.rail_size)
    address = ipaddress.ip_address("10.0.0.0") + place
    beside = ipaddress.ip_interface(ipv6._on_the_same_port(split, wider)(f"{address}/31"))
    rail, rest = divmod(place, split.rail_size)
    unit, end = divmod(rest, split.leaf_size)
    assert beside.ip in wider.leaf(unit, rail)
    assert int(beside.ip) - int(wider.leaf(unit, rail).network_address) == end
    assert (int(beside.ip) ^ int(address)) & 1 == 0


def test_servers_reach_each_rail_by_its_own_port():
    plan = dual_stack.plan()
    routes = ipv6.host_routes(plan.site, plan.catalog, plan.addresses, plan.devices)
    own = routes[(routes["device"] == "gpu003") & (routes["interface"] == "rail5")]
    found = {row.table: (row.source, row.destination, row.gateway) for row in own.itertuples()}
    assert found == {
        "main": ("fd00:76:0:a000::5", "fd00:76:0:a000::/51", "fd00:76:0:a000::4"),
        "106": ("fd00:76:0:a000::5", "fd00:76::/48", "fd00:76:0:a000::4"),
    }
    assert len(routes) == len(host_routes(plan.site, plan.catalog, plan.addresses, plan.devices))


@pytest.mark.parametrize("site", ["b200-256-roce", "h100-1000-ib"])
def test_a_site_without_prefixes_has_none_and_keeps_its_table(site):
    plan = plan_of(site)
    assert ipv6.addresses(plan.site, plan.catalog, plan.addresses).empty
    assert ipv6.both(plan.site, plan.catalog, plan.addresses) is plan.addresses
    assert ipv6.host_routes(plan.site, plan.catalog, plan.addresses, plan.devices).empty


def test_prefixes_alone_change_no_ipv4_address():
    assert dual_stack.plan().addresses.equals(plan_of(dual_stack.SITE).addresses)
