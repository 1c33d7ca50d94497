"""config_db.json of SONiC: accepted by SONiC's published YANG models, refused by them with one wrong value, and read back."""

import dataclasses
import json
from typing import Any

import pytest

from capacity.build import build
from inventory.site import Site, load_site
from network import nos, roce
from network.nos.cumulus import startup
from network.nos.sonic.config_db import platforms, read, render
from tests.plans import plan_of

SITE = "b200-256-roce"
Tables = dict[str, dict[str, Any]]
LEAF_PORT, UPLINK = "Ethernet0", "Ethernet128"
"""The first port of a leaf, which a server has, and its first port to a spine."""


def site_with(**fabric: object) -> Site:
    site = load_site(SITE)
    return site.model_copy(update={"fabric": site.fabric.model_copy(update={"nos": "sonic", **fabric})})


@pytest.fixture(scope="module")
def configs():
    return roce.structured_configs(plan_of(SITE))


def tables(config) -> Tables:
    made: Tables = json.loads(render(config))
    return made


def test_every_switch_reads_back_as_planned_and_as_from_cumulus(configs):
    assert len(configs) == 10
    for config in configs.values():
        assert read(render(config)) == config.model() == startup.read(startup.render(config))


@pytest.mark.needs("yanglint")
def test_every_switch_passes_the_models(models, configs):
    for name in ("rol001", "rol008", "ros001"):
        assert models.complaints(tables(configs[name])) == ""


@pytest.mark.needs("yanglint")
def test_options_of_the_intent_pass_the_models_and_read_back(models, configs):
    first = configs["rol001"]
    intent = dataclasses.replace(first.intent, watchdog_ms=450, share_pct=70, priority=4, traffic_class=5, cnp_class=7)
    management = dataclasses.replace(first.management, syslog=("10.72.0.1",))
    other = dataclasses.replace(first, intent=intent, bfd_ms=1000, management=management)
    unmarked = dataclasses.replace(first, intent=dataclasses.replace(intent, congestion_control="pfc_only"), ecn=None)
    for config in (other, unmarked):
        assert models.complaints(tables(config)) == ""
        assert read(render(config)) == config.model()
    assert tables(other)["BGP_PEER_GROUP"]["default|FABRIC"]["bfd"] == "true"
    assert tables(other)["SYSLOG_SERVER"] == {"10.72.0.1": {"vrf": "mgmt"}}
    assert tables(other)["FLEX_COUNTER_TABLE"] == {"WRED_ECN_QUEUE": {"FLEX_COUNTER_STATUS": "enable"}}
    assert not {"WRED_PROFILE", "FLEX_COUNTER_TABLE"} & set(tables(unmarked))


@pytest.mark.needs("yanglint")
@pytest.mark.parametrize(
    ("table", "row", "key", "value", "said"),
    [
        ("PORT", LEAF_PORT, "mtu", "9217", "range"),
        ("PORT", LEAF_PORT, "speed", "0", "range"),
        ("PORT", LEAF_PORT, "lanes", None, "lanes"),
        ("PORT", LEAF_PORT, "admin_status", "on", "enum"),
        ("INTERFACE", "Ethernet3", None, {}, "leafref"),
        ("INTERFACE", f"{LEAF_PORT}|10.76.0.300/31", None, {}, "ip-prefix"),
        ("INTERFACE", UPLINK, "ipv6_use_link_local_only", "yes", "enum"),
        ("DEVICE_METADATA", "localhost", "hostname", "r" * 64, "length"),
        ("DEVICE_METADATA", "localhost", "bgp_asn", "4294967296", "uint32"),
        ("DEVICE_METADATA", "localhost", "buffer_model", "static", "pattern"),
        ("BGP_GLOBALS", "default", "local_asn", "0", "range"),
        ("BGP_GLOBALS", "default", "router_id", "10.78.0.300", "pattern"),
        ("BGP_NEIGHBOR", f"default|{UPLINK}", "peer_group_name", "FABRICS", "leafref"),
        ("BGP_NEIGHBOR", "default|Ethernet3", None, {"peer_group_name": "FABRIC"}, "neighbor"),
        ("BGP_PEER_GROUP", "default|FABRIC", "peer_type", "foreign", "enum"),
        ("BGP_PEER_GROUP_AF", "default|FABRIC|ipv4_unicast", "route_map_in", ["OTHER"], "leafref"),
        ("ROUTE_MAP", "PLANNED|10", "match_prefix_set", "OTHER", "leafref"),
        ("PREFIX", "PLANNED|10|10.78.0.0/33|32..32", None, {"action": "permit"}, "prefix"),
        ("DSCP_TO_TC_MAP", "bringup", "26", "16", "Traffic Class"),
        ("DSCP_TO_TC_MAP", "bringup", "64", "0", "DSCP"),
        ("TC_TO_QUEUE_MAP", "bringup", "3", "q3", "qindex"),
        ("PORT_QOS_MAP", LEAF_PORT, "dscp_to_tc_map", "AZURE", "leafref"),
        ("PORT_QOS_MAP", LEAF_PORT, "pfc_enable", "8", "fc"),
        ("PFC_WD", LEAF_PORT, "detection_time", "50", "range"),
        ("PFC_WD", LEAF_PORT, "action", "ignore", "enum"),
        ("SCHEDULER", "lossless", "weight", "101", "range"),
        ("QUEUE", f"{LEAF_PORT}|3", "wred_profile", "other", "leafref"),
        ("WRED_PROFILE", "bringup", "green_max_threshold", "1024", "Green max threshold"),
        ("WRED_PROFILE", "bringup", "red_drop_probability", "101", "range"),
        ("WRED_PROFILE", "bringup", "ecn", "on", "enum"),
        ("CABLE_LENGTH", "bringup", LEAF_PORT, "10", "cable length"),
        ("FLEX_COUNTER_TABLE", "WRED_ECN_QUEUE", "FLEX_COUNTER_STATUS", "on", "enum"),
        ("BUFFER_PG", f"{LEAF_PORT}|3", "profile", "lossless", "profile"),
        ("BUFFER_POOL", "ingress_lossless_pool", "mode", "shared", "enum"),
        ("NTP_SERVER", "10.73.0.1", "iburst", "yes", "enum"),
        ("NTP", "global", "vrf", "management", "pattern"),
        ("DNS_NAMESERVER", "10.73.0.300", None, {}, "union"),
        ("SYSLOG_SERVER", "10.73.0.1", None, {"vrf": "management"}, "vrf"),
        ("BGP_GLOBALS_AF_AGGREGATE_ADDR", "default|ipv4_unicast|10.76.0.0/33", None, {}, "union"),
        ("SSH_SERVER", "POLICIES", "permit_root_login", "never", "enum"),
        ("SNMP_AGENT_ADDRESS_CONFIG", "10.72.0.20|70000|mgmt", None, {}, "union"),
        ("MGMT_VRF_CONFIG", "vrf_global", "mgmtVrfEnabled", "on", "boolean"),
        ("ACL_TABLE", "SEPARATION", "stage", "inward", "stage"),
        ("ACL_TABLE", "SEPARATION", "type", "L5", "type"),
        ("ACL_TABLE", "SEPARATION", "ports", ["Ethernet3"], "Invalid"),
        ("ACL_RULE", "SEPARATION|PERMIT_1", "PACKET_ACTION", "PERMIT", "enum"),
        ("ACL_RULE", "SEPARATION|PERMIT_1", "SRC_IP", "10.76.0.0/33", "pattern"),
        ("ACL_RULE", "SEPARATION|PERMIT_1", "L4_DST_PORT", "70000", "uint16"),
        ("ACL_RULE", "OTHER|PERMIT_1", None, {"PRIORITY": "1"}, "leafref"),
        ("PORT", LEAF_PORT, "rate", "400", "rate"),
        ("PORTS", LEAF_PORT, None, {}, "no model has the table PORTS"),
    ],
)
def test_the_models_refuse_one_wrong_value(models, configs, table, row, key, value, said):
    changed = tables(configs["rol001"])
    if key is None:
        changed.setdefault(table, {})[row] = value
    elif value is None:
        del changed[table][row][key]
    else:
        changed[table][row][key] = value
    assert said.lower() in models.complaints(changed).lower()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"DEVICE_METADATA": {"localhost": 3}}'])
def test_another_file_is_refused_without_a_traceback_of_keys(text):
    with pytest.raises(ValueError, match="none of this suite"):
        read(text)


@pytest.mark.parametrize(
    ("table", "row", "key", "value", "said"),
    [
        ("DEVICE_METADATA", "localhost", "bgp_asn", "65000", "AS number 65000"),
        ("WRED_PROFILE", "bringup", "red_min_threshold", "1", "some colours otherwise"),
        ("PFC_WD", LEAF_PORT, "detection_time", "5000", "ports differ: 300, 5000"),
        ("QUEUE", f"{LEAF_PORT}|0", "wred_profile", "bringup", "queue 0, 3 is marked"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(configs, table, row, key, value, said):
    changed = tables(configs["rol001"])
    changed[table][row][key] = value
    with pytest.raises(ValueError, match=said):
        read(json.dumps(changed))


def test_ports_have_the_lanes_and_the_label_of_the_hardware_sku(configs):
    ports = tables(configs["rol001"])["PORT"]
    assert len(ports) == 128
    assert (ports["Ethernet508"]["alias"], ports["Ethernet508"]["lanes"]) == ("swp64s1", "508,509,510,511")
    assert ports["Ethernet508"]["index"] == "64"


def test_ports_without_a_cable_are_down(configs):
    spine = configs["ros001"]
    ports = tables(spine)["PORT"]
    up = {row["alias"] for row in ports.values() if row["admin_status"] == "up"}
    assert up == {port.name for port in spine.ports}


@pytest.mark.parametrize("port", ["swp65s0", "swp0s0", "swp1s2", "swp1", "eth0"])
def test_a_port_that_the_hardware_sku_does_not_have_is_refused(port):
    with pytest.raises(ValueError, match=f"Mellanox-SN5600-O128 has no port {port}"):
        platforms()["nvidia-sn5600"].first_lane(port)


def test_a_model_without_a_port_layout_is_refused_by_name(configs):
    other = dataclasses.replace(configs["rol001"], switch_model="nvidia-sn4600c")
    with pytest.raises(ValueError, match="nvidia-sn4600c: no port layout"):
        render(other)


def test_a_site_with_sonic_gets_its_files_and_what_they_leave_open():
    made = roce.rendering(build(site_with()))
    assert "rol001.json" in made.files
    assert 'config snmp user add ops Priv RO SHA "$SNMP_AUTH" AES "$SNMP_PRIV"' in made.files["secrets.sh"]
    assert "after config_db.json is in place" in made.files["secrets.sh"]
    assert not any("vault:" in text for name, text in made.files.items() if name != "secrets.sh")
    assert any("the default login stays" in one for one in made.not_covered)
    assert any("asks DHCP" in one for one in made.not_covered)


@pytest.mark.parametrize(
    ("fabric", "remedy"),
    [
        ({"load_balancing": "adaptive"}, {"fabric.load_balancing": "ecmp"}),
        ({"load_balancing": "dynamic"}, {"fabric.load_balancing": "ecmp"}),
    ],
)
def test_what_the_system_cannot_do_is_a_finding_with_its_remedy(fabric, remedy):
    found = [f for f in build(site_with(**fabric)).findings if f.id == "FABRIC-LOSSLESS-SYSTEM"]
    assert [dict(one.settings) for f in found for one in f.remedies] == [remedy]


def test_a_switch_without_a_port_layout_is_a_finding_and_gets_no_files():
    plan = build(site_with(switch_model="arista-7060x6-64pe"))
    found = [f for f in plan.findings if f.id == "FABRIC-LOSSLESS-SYSTEM"]
    assert [f.subject for f in found] == ["fabric.nos"]
    assert "sonic is rendered for nvidia-sn5600, nvidia-sn5600-800g only" in found[0].message
    assert not any(name.endswith(".json") for name in roce.rendering(plan).files)
    assert set(nos.capabilities("sonic")["models"]) == set(platforms())


def test_any_priority_and_queue_is_possible():
    lossless = load_site(SITE).fabric.lossless.model_copy(update={"priority": 4, "traffic_class": 4})
    assert not [f for f in build(site_with(lossless=lossless)).findings if f.id == "FABRIC-LOSSLESS-SYSTEM"]


def test_the_capability_table_says_that_nothing_ran():
    table = nos.capabilities("sonic")
    assert table["run"] == "never run on a device"
    assert not any(feature["exercised"] for feature in table["features"].values())
