"""startup-config of EOS: accepted by AVD's schema, written the same by AVD's templates, refused with one wrong value, read back."""

import copy
import dataclasses
import functools
import re
from typing import Any

import pytest

from capacity.build import build
from infra.toolchain.avd import checked
from inventory.site.whatif import changed
from network import nos, roce
from network.nos.cumulus import startup
from network.nos.eos.startup_config import platforms, read, render, structured
from tests.capacity.services.boot.cases import PUBLIC_KEY

ARISTA = ["fabric.switch_model=arista-7060x6-64pe", "fabric.nos=eos", "fabric.mtu=9214"]


def plan_with(*settings: str):
    return build(changed("b200-256-roce", [*ARISTA, *settings]))


@pytest.fixture(scope="module")
def plan():
    return plan_with()


@pytest.fixture(scope="module")
def configs(plan):
    return roce.structured_configs(plan, PUBLIC_KEY)


def options(config):
    """The same switch with every choice of the intent made otherwise."""
    intent = dataclasses.replace(config.intent, watchdog_ms=450, share_pct=70, priority=4, traffic_class=5, cnp_class=7)
    management = dataclasses.replace(config.management, syslog=("10.72.0.1",))
    return dataclasses.replace(config, intent=intent, bfd_ms=1000, management=management, drained=True)


def lines(text: str) -> list[str]:
    """What the switch acts on. AVD writes `username X` before the key of X; the account comes by the first boot."""
    skipped = re.compile(r" *!.*|username \S+")
    return [line for line in text.splitlines() if not skipped.fullmatch(line)]


def test_every_switch_reads_back_as_planned_and_as_from_cumulus(configs):
    assert len(configs) == 10
    for config in configs.values():
        other = startup.read(startup.render(config))
        assert read(render(config)) == config.model().without_lengths() == other.without_lengths()


@pytest.mark.needs("pyavd")
def test_every_switch_passes_avds_schema_and_avd_writes_the_same_text(configs):
    first = configs["rol001"]
    unmarked = dataclasses.replace(
        first, intent=dataclasses.replace(first.intent, congestion_control="pfc_only"), ecn=None
    )
    without_key = dataclasses.replace(first, management=dataclasses.replace(first.management, key="", ntp=(), dns=()))
    asked = [*configs.values(), options(first), unmarked, without_key]
    for config, (complaints, text) in zip(asked, checked([structured(one) for one in asked]), strict=True):
        assert complaints == []
        assert lines(text) == lines(render(config))


def test_a_switch_in_maintenance_announces_longer_paths_to_its_neighbours_alone(configs):
    config = dataclasses.replace(configs["rol001"], drained=True)
    text = render(config)
    assert read(text) == config.model().without_lengths()
    assert f"   set as-path prepend {' '.join([str(config.asn)] * 3)}\n" in text
    assert "   neighbor FABRIC route-map PLANNED in\n" in text
    without = text.replace("   neighbor FABRIC route-map DRAINED out", "   neighbor FABRIC route-map PLANNED out")
    assert not read(without).drained


def test_options_of_the_intent_read_back(configs):
    first = configs["rol001"]
    unmarked = dataclasses.replace(
        first, intent=dataclasses.replace(first.intent, congestion_control="pfc_only"), ecn=None
    )
    for config in (options(first), unmarked):
        assert read(render(config)) == config.model().without_lengths()
    text = render(options(first))
    assert "   interval 1000 min-rx 1000 multiplier 3 default" in text
    assert "logging vrf MGMT host 10.72.0.1" in text
    assert "hardware counter feature ecn out" in text
    assert not {"random-detect", "hardware counter"} & set(
        re.findall("random-detect|hardware counter", render(unmarked))
    )


WRONG = [
    ("hostname", {}, "hostname"),
    ("ethernet_interfaces.0.ip_address", [], "ip_address"),
    ("ethernet_interfaces.0.speed", 400, "speed"),
    ("ethernet_interfaces.0.description", [], "description"),
    ("ethernet_interfaces.0.service_profile", {}, "service_profile"),
    ("ethernet_interfaces.0.switchport.enabled", "routed", "enabled"),
    ("ethernet_interfaces.0.access_group_in", [], "access_group_in"),
    ("ip_access_lists.0.name", [], "name"),
    ("ip_access_lists.0.entries.0.action", "allow", "action"),
    ("ip_access_lists.0.entries.0.destination_ports_match", "equal", "destination_ports_match"),
    ("loopback_interfaces.0.ip_address", {}, "ip_address"),
    ("management_interfaces.0.vrf", [], "vrf"),
    ("vrfs.0.ip_routing", "none", "ip_routing"),
    ("ip_name_server.vrfs.0.servers.0.ip_address", None, "ip_address"),
    ("logging.vrfs.0.hosts.0.name", None, "name"),
    ("ethernet_interfaces.0.mtu", 67, "mtu"),
    ("ethernet_interfaces.0.mtu", "large", "mtu"),
    ("ethernet_interfaces.0.shutdown", "perhaps", "shutdown"),
    ("ethernet_interfaces.0.ipv6_enable", "local", "ipv6_enable"),
    ("ethernet_interfaces.0.rate", "400g", "rate"),
    ("qos_profiles.0.trust", "mac", "trust"),
    ("qos_profiles.0.uc_tx_queues.1.priority", "strictly", "priority"),
    ("qos_profiles.0.uc_tx_queues.1.bandwidth_percent", "half", "bandwidth_percent"),
    ("qos_profiles.0.uc_tx_queues.1.random_detect.ecn.threshold.units", "cells", "units"),
    ("qos_profiles.0.uc_tx_queues.1.random_detect.ecn.threshold.max_probability", 101, "max_probability"),
    ("qos_profiles.0.priority_flow_control.priorities.0.priority", 8, "priority"),
    ("qos_profiles.0.priority_flow_control.priorities.0.no_drop", "no", "no_drop"),
    ("qos_profiles.0.priority_flow_control.watchdog.enabled", "perhaps", "enabled"),
    ("qos_profiles.0.uc_tx_queues.1.random_detect.ecn.threshold.min", "low", "min"),
    ("qos.map.dscp", "26 to traffic-class 3", "dscp"),
    ("hardware_counters.features.0.name", {}, "name"),
    ("qos.map.traffic_class.0", {}, "traffic_class"),
    ("priority_flow_control.watchdog.timeout", {}, "timeout"),
    ("priority_flow_control.watchdog.action", "ignore", "action"),
    ("prefix_lists.0.sequence_numbers.0.sequence", "first", "sequence"),
    ("route_maps.0.sequence_numbers.0.type", "allow", "type"),
    ("router_bfd.interval", "often", "interval"),
    ("router_bfd.multiplier", 51, "multiplier"),
    ("router_bgp.maximum_paths.paths", 601, "paths"),
    ("route_maps.1.sequence_numbers.0.set", {"as_path": 1}, "set"),
    ("router_bgp.as", {}, "as"),
    ("router_bgp.router_id", [], "router_id"),
    ("router_bgp.peer_groups.0.bfd", "fast", "bfd"),
    ("router_bgp.peer_groups.0.route_map_in", [], "route_map_in"),
    ("router_bgp.redistribute.connected.enabled", "perhaps", "enabled"),
    ("router_bgp.aggregate_addresses.0.prefix", None, "prefix"),
    ("router_bgp.address_family_ipv4.peer_groups.0.activate", "perhaps", "activate"),
    ("router_bgp.neighbor_interfaces.0.name", None, "name"),
    ("router_bgp.neighbour_interfaces", [], "neighbour_interfaces"),
    ("ntp.servers.0.iburst", "yes", "iburst"),
    ("local_users.1.privilege", 16, "privilege"),
    ("snmp_server.groups.0.version", "v4", "version"),
    ("management_ssh.authentication.protocols.0", "telnet", "protocols"),
    ("spanning_tree.mode", "stp", "mode"),
    ("service_routing_protocols_model", "single", "service_routing_protocols_model"),
]


def with_value(tree: dict[str, Any], path: str, value: object) -> Any:
    """A copy of the tree with another value at one path; None takes the key away."""
    made: Any = copy.deepcopy(tree)
    *way, last = (int(key) if key.isdigit() else key for key in path.split("."))
    place: Any = functools.reduce(lambda part, key: part[key], way, made)
    if value is None:
        del place[last]
    else:
        place[last] = value
    return made


@pytest.mark.needs("pyavd")
def test_avds_schema_refuses_one_wrong_value_of_each_kind(configs):
    tree = structured(options(configs["rol001"]))
    said = checked([with_value(tree, path, value) for path, value, _ in WRONG])
    taken = [
        path for (path, _, word), (complaints, _) in zip(WRONG, said, strict=True) if word not in " ".join(complaints)
    ]
    assert taken == []


@pytest.mark.parametrize("text", ["", "hostname rol001\n", " router-id 1.2.3.4\n"])
def test_another_file_is_refused_by_what_it_lacks(text):
    with pytest.raises(ValueError, match="startup-config"):
        read(text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("qos map traffic-class 3 to uc-tx-queue 3", "qos map traffic-class 3 to uc-tx-queue 6", "queue 3 is marked"),
        ("hostname rol001", "hostname rol001\nhostname rol002", "2 different lines"),
        ("   mtu 9214\n", "", "0 different lines of the form 'mtu"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(configs, old, new, said):
    text = render(configs["rol001"])
    assert old in text
    with pytest.raises(ValueError, match=said):
        read(text.replace(old, new))


def test_a_whole_cage_is_a_port_of_eight_lanes():
    made = roce.structured_configs(plan_with("fabric.switch_model=arista-7060x6-64pe-800g", "fabric.unit_nodes=16"))
    text = render(made["rol001"])
    assert "interface Ethernet2/1\n" in text
    assert "   speed 800g-8\n" in text
    assert "/5\n" not in text


def test_a_model_without_an_entry_is_refused_by_name(configs):
    with pytest.raises(ValueError, match="nvidia-sn5600: not in network/nos/eos/platforms.yaml"):
        render(dataclasses.replace(configs["rol001"], switch_model="nvidia-sn5600"))


def test_a_site_with_eos_gets_its_files_and_what_they_leave_open(plan):
    made = roce.rendering(plan, PUBLIC_KEY)
    assert {f"{name}.cfg" for name in roce.switches(plan)} < set(made.files)
    assert "snmp-server user ops READERS v3 auth sha $SNMP_AUTH priv aes $SNMP_PRIV" in made.files["secrets.sh"]
    assert "before startup-config is in place" in made.files["secrets.sh"]
    assert (
        "driver of network OS eos: never run on a device; `bringup switches preview` asks the switches"
        in made.not_covered
    )
    assert any("EOS has no line for cable lengths" in one for one in made.not_covered)


def test_an_mtu_above_the_limit_is_a_finding_with_its_remedy_and_gives_no_files(configs):
    plan = plan_with("fabric.mtu=9216")
    found = [f for f in plan.findings if f.id == "FABRIC-LOSSLESS-SYSTEM"]
    assert [dict(one.settings) for f in found for one in f.remedies] == [{"fabric.mtu": 9214}]
    assert "at most 9214 bytes" in found[0].message
    assert roce.rendering(plan).files == {}
    with pytest.raises(ValueError, match="MTU 9216 is above 9214"):
        render(roce.structured_configs(plan)["rol001"])
    assert not [f for f in plan_with().findings if f.id == "FABRIC-LOSSLESS-SYSTEM"]
    assert render(configs["rol001"])


def test_the_capability_table_says_that_nothing_ran():
    table = nos.capabilities("eos")
    assert table["run"] == "never run on a device"
    assert not any(feature["exercised"] for feature in table["features"].values())
    assert set(table["models"]) == set(platforms())
