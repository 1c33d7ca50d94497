"""The in-band network of the demo: ports of the plan, and the lines that make its ends."""

import pytest

from capacity.build import build
from capacity.model import Plan
from infra.metal.controller import light_spec
from infra.metal.inband import Port, commands, inband_ports
from inventory.delivered.assets import load_assets
from inventory.site import load_site


@pytest.fixture(scope="module")
def plan() -> Plan:
    site = load_site("lab-metal")
    return build(site, assets=load_assets(site))


def test_each_in_band_link_of_a_server_is_a_port_with_the_leafs_address(plan: Plan) -> None:
    ports = inband_ports(plan, ["gpu001", "ctl01"])
    links = plan.addresses[(plan.addresses["network"] == "link") & plan.addresses["device"].isin(["gpu001", "ctl01"])]
    assert [(port.device, port.name) for port in ports] == [
        (d, p) for d in ("gpu001", "ctl01") for p in ("eth1", "eth2")
    ]
    assert {port.own for port in ports} == {address.partition("/")[0] for address in links["address"]}
    assert (
        len({port.leaf for port in ports})
        == len({port.mac for port in ports})
        == len({port.tap for port in ports})
        == 4
    )
    assert all(len(port.tap) < 15 for port in ports), "the kernel's limit, with one letter for the peer"


def test_a_server_is_reached_over_all_its_links() -> None:
    one, two = (
        Port(
            "gpu001",
            f"eth{n}",
            f"02:00:00:00:00:0{n}",
            f"172.18.0.{2 * n}/31",
            f"172.18.0.{2 * n + 1}",
            "172.16.0.7",
            f"t{n}",
        )
        for n in (1, 2)
    )
    lines = commands([one, two], 9000, {"t2": "t2x"})
    assert lines[0] == "tuntap add dev t1 mode tap"
    assert "link add t2 type veth peer name t2x" in lines
    assert "link set t1 mtu 9000 up" in lines
    assert lines[-1] == (
        "route add 172.16.0.7/32 nexthop via 172.18.0.3 dev t1 onlink nexthop via 172.18.0.5 dev t2 onlink"
    )


def test_the_light_node_is_the_planned_controller(plan: Plan) -> None:
    (server,) = light_spec(plan).servers
    assert (server.name, server.role, server.address, server.ports) == (
        "ctl01",
        "controller",
        "10.78.1.13",
        ("eth0", "eth1", "eth2"),
    )
