"""What servers of a RoCE site set their adapters to: the same marks, queues and addresses as the switches at the other end."""

import ipaddress

import pytest

from network.lossless import Intent
from network.roce import structured_configs
from network.roce_host import class_of, class_settings, tos, wanted
from network.wiring import lossless
from tests.network import dual_stack
from tests.plans import plan_of

PLAN = plan_of("b200-256-roce")


def intent() -> Intent:
    found = lossless.intent(PLAN.site)
    assert found is not None
    return found


def test_rocev2_packets_carry_the_mark_and_may_be_marked_further() -> None:
    assert tos(26) == 106  # 26 << 2 is 104, ECT(0) is 2
    assert class_of(PLAN.site) == 106
    assert class_of(plan_of("h100-1000-ib").site) is None


def test_every_gpu_server_has_all_its_rails_and_other_sites_none() -> None:
    found = wanted(PLAN)
    assert len(found) == 32
    assert {tuple(rail["name"] for rail in one["rails"]) for one in found.values()} == {
        tuple(f"rail{index}" for index in range(8))
    }
    assert wanted(plan_of("h100-1000-ib")) == {}


def test_both_ends_of_each_link_have_the_addresses_of_one_pair_and_the_same_class() -> None:
    switches = structured_configs(PLAN)
    ports = {(config.hostname, port.name): port for config in switches.values() for port in config.ports}
    cables = PLAN.cables[(PLAN.cables["fabric"] == "compute") & (PLAN.cables["stage"] == "node-leaf")]
    far = {(a, port): (b, other) for a, port, b, other in cables[["a_device", "a_port", "b_device", "b_port"]].values}
    seen = 0
    for server, one in wanted(PLAN).items():
        for rail in one["rails"]:
            switch, port = far[server, rail["name"]]
            settings, model = rail["settings"], switches[switch].model()
            address = ports[switch, port].address
            assert address is not None
            assert settings["route_rail"]["gateway"] == address.partition("/")[0]
            marked = {(int(dscp), priority) for dscp, priority in settings["dscp_priority"].items() if priority}
            assert marked == set(model.priorities)
            queued = {(p, queue) for p, queue in enumerate(settings["queues"]["prio-tc"]) if queue}
            assert queued == set(model.queues)
            assert {p for p, on in enumerate(settings["pfc"]) if on} == {
                p for name, p, _ in model.lossless if name == port
            }
            assert settings["mtu"] <= dict(model.mtu)[port]
            seen += 1
    assert seen == 256


def test_servers_of_both_families_have_the_second_pair_of_their_port_and_its_routes() -> None:
    plan = dual_stack.plan()
    plain, both = wanted(PLAN), wanted(plan)
    far = {(config.hostname, port.name): port for config in structured_configs(plan).values() for port in config.ports}
    ports = {(port.far, port.far_port): port for port in far.values()}
    assert set(plain) == set(both)
    for server, one in both.items():
        for old, rail in zip(plain[server]["rails"], one["rails"], strict=True):
            more = {key: value for key, value in rail["settings"].items() if key not in old["settings"]}
            assert {key: value for key, value in rail["settings"].items() if key in old["settings"]} == old["settings"]
            leaf = ports[server, rail["name"]].ipv6
            assert leaf is not None
            ((own,), gateway) = more["addresses_ipv6"], leaf.partition("/")[0]
            assert ipaddress.ip_interface(own).network == ipaddress.ip_interface(leaf).network
            assert {more[key]["gateway"] for key in ("route_rail_ipv6", "route_fabric_ipv6")} == {gateway}
            assert more["route_fabric_ipv6"]["prefix"] == "fd00:76::/48"
            assert ipaddress.ip_network(more["route_rail_ipv6"]["prefix"]).prefixlen == 51
            assert more["rule_ipv6"] == {"source": own.partition("/")[0], "table": old["settings"]["rule"]["table"]}
            assert more["accept_ra_ipv6"] == "0"
            assert len(more) == 5


def test_shares_of_the_queues_are_a_hundred_percent() -> None:
    queues = class_settings(intent())["queues"]
    assert sum(queues["tc-bw"]) == 100
    assert [i for i, way in enumerate(queues["tc-tsa"]) if way == "ets"] == [0, 3]
    assert queues["tc-bw"][3] == intent().share_pct


@pytest.mark.parametrize(("control", "flag"), [("dcqcn", {"3": "1"}), ("pfc_only", {"3": "0"}), ("spectrum_x", None)])
def test_adapters_react_to_marks_as_congestion_control_says(control: str, flag: dict[str, str] | None) -> None:
    changed = Intent(**{**vars(intent()), "congestion_control": control})
    assert class_settings(changed).get("roce_rp") == flag
