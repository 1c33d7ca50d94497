"""Both IP families on compute switches of every system: accepted by its outside checker, and read back to one model."""

import contextlib
import dataclasses
import importlib
import json

import pytest
import yaml

from infra.toolchain.avd import checked
from network import roce
from network.nos.cumulus import startup
from network.nos.eos import startup_config
from network.nos.sonic import config_db
from tests.network import dual_stack
from tests.network.nos.test_cumulus import with_value
from tests.network.nos.test_eos import lines
from tests.network.nos.test_eos import with_value as with_avd_value

LEAF, SPINE = "rol001", "ros001"


@pytest.fixture(scope="module")
def configs():
    return roce.structured_configs(dual_stack.plan())


@pytest.fixture(scope="module")
def arista():
    return roce.structured_configs(dual_stack.plan(*dual_stack.ARISTA))


@pytest.fixture(scope="module")
def schema():
    return importlib.import_module(f"nvueschema.models.v{startup.VERSION.replace('.', '_')}").NvueConfig


def in_maintenance(config):
    return dataclasses.replace(config, drained=True, bfd_ms=1000)


def test_a_leaf_has_both_addresses_on_each_server_port_and_announces_both_prefixes(configs):
    model = configs[LEAF].model()
    assert {("lo", "10.78.0.1/32"), ("lo", "fd00:78::1/128")} <= model.addresses
    assert {("swp1s0", "10.76.0.0/31"), ("swp1s0", "fd00:76::/127")} <= model.addresses
    assert model.aggregates == {"10.76.0.0/24", "fd00:76::/64"}
    assert model.ipv6
    assert configs[SPINE].model().aggregates == frozenset()


def test_every_switch_reads_back_as_planned_from_every_system(configs, arista):
    assert len(configs) == len(arista) == 10
    for config in [*configs.values(), in_maintenance(configs[LEAF])]:
        for system in (startup, config_db):
            assert system.read(system.render(config)) == config.model()
    for config in [*arista.values(), in_maintenance(arista[LEAF])]:
        assert startup_config.read(startup_config.render(config)) == config.model().without_lengths()


def test_nvues_schema_takes_both_families_and_refuses_a_wrong_value_of_each_kind(configs, schema):
    for config in (configs[LEAF], configs[SPINE], in_maintenance(configs[LEAF])):
        schema.model_validate(yaml.safe_load(startup.render(config))[1]["set"], extra="forbid")
    right = yaml.safe_load(startup.render(configs[LEAF]))[1]["set"]
    bgp = ("vrf", "default", "router", "bgp")
    rule = ("acl", "SEPARATION-IPV6", "rule")
    wrong = [
        ((*bgp, "address-family", "ipv6-unicast", "state"), "on"),
        ((*bgp, "peer-group", "FABRIC", "address-family", "ipv6-unicast", "policy", "inbound"), {"route": "PLANNED"}),
        (("router", "policy", "prefix-list", "PLANNED-IPV6", "type"), "ipv5"),
        (
            ("router", "policy", "prefix-list", "PLANNED-IPV6", "rule", "10", "match"),
            {"fd00::/64": {"max-prefix": 128}},
        ),
        (("router", "policy", "prefix-list", "PLANNED-IPV6", "rule", "10", "action"), "allow"),
        (("acl", "SEPARATION-IPV6", "type"), "v6"),
        ((*rule, "10", "match", "ip", "source-ip"), "fd00::/129"),
        ((*rule, "50", "match", "ip", "protocol"), "icmp6"),
        (("interface", "swp1s0", "ipv6", "address"), "fd00::1"),
    ]
    taken = []
    for path, value in wrong:
        with contextlib.suppress(ValueError):
            schema.model_validate(with_value(right, path, value), extra="forbid")
            taken.append(path)
    assert taken == []


@pytest.mark.needs("yanglint")
def test_sonics_models_take_both_families(models, configs):
    for config in (configs[LEAF], configs[SPINE]):
        assert models.complaints(json.loads(config_db.render(config))) == ""


@pytest.mark.needs("yanglint")
@pytest.mark.parametrize(
    ("table", "row", "key", "value", "said"),
    [
        ("INTERFACE", "Ethernet0|fd00:76::/129", None, {}, "ip-prefix"),
        ("PREFIX_SET", "PLANNED_IPV6", "mode", "IPv5", "enum"),
        ("PREFIX", "PLANNED_IPV6|10|fd00::/129|128..128", None, {"action": "permit"}, "prefix"),
        ("ROUTE_REDISTRIBUTE", "default|connected|bgp|ipv6", "route_map", ["OTHER"], "leafref"),
        ("BGP_PEER_GROUP_AF", "default|FABRIC|ipv6_unicast", "route_map_in", ["OTHER"], "leafref"),
        ("BGP_GLOBALS_AF", "default|ipv6_unicast", "max_ebgp_paths", "many", "uint"),
        ("ACL_TABLE", "SEPARATION_IPV6", "type", "L3V7", "type"),
        ("ACL_RULE", "SEPARATION_IPV6|PERMIT_1", "SRC_IPV6", "fd00::/129", "pattern"),
        ("ACL_RULE", "SEPARATION_IPV6|DENY", "IP_TYPE", "IPV7ANY", "enum"),
    ],
)
def test_sonics_models_refuse_one_wrong_value(models, configs, table, row, key, value, said):
    changed = json.loads(config_db.render(configs[LEAF]))
    if key is None:
        changed[table][row] = value
    else:
        assert key in changed[table][row]
        changed[table][row][key] = value
    assert said.lower() in models.complaints(changed).lower()


@pytest.mark.needs("pyavd")
def test_avd_takes_both_families_writes_the_same_text_and_refuses_wrong_values(arista):
    asked = [arista[LEAF], arista[SPINE], in_maintenance(arista[LEAF])]
    trees = [startup_config.structured(one) for one in asked]
    for config, (complaints, text) in zip(asked, checked(trees), strict=True):
        assert complaints == []
        assert lines(text) == lines(startup_config.render(config))
    wrong = [
        ("ethernet_interfaces.0.ipv6_address", [], "ipv6_address"),
        ("ethernet_interfaces.0.ipv6_nd_ra_disabled", "perhaps", "ipv6_nd_ra_disabled"),
        ("ethernet_interfaces.0.ipv6_access_group_in", [], "ipv6_access_group_in"),
        ("loopback_interfaces.0.ipv6_address", {}, "ipv6_address"),
        ("ipv6_access_lists.0.entries.0.action", "allow", "action"),
        ("ipv6_prefix_lists.0.sequence_numbers.0.sequence", "first", "sequence"),
        ("router_bgp.address_family_ipv6.peer_groups.0.activate", "perhaps", "activate"),
        ("router_bgp.address_family_ipv6.redistribute.connected.enabled", "perhaps", "enabled"),
    ]
    said = checked([with_avd_value(trees[0], path, value) for path, value, _ in wrong])
    assert [path for (path, _, word), (one, _) in zip(wrong, said, strict=True) if word not in " ".join(one)] == []


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("      neighbor FABRIC route-map PLANNED-IPV6 in\n", "", "ipv6"),
        ("redistribute connected route-map CONNECTED-IPV6", "redistribute connected", "ipv6"),
        ("   ipv6 access-group SEPARATION-IPV6 in\n", "", "filtered"),
        ("   130 deny ipv6 any any\n", "", "filtered"),
        ("   10 permit udp fd00:76::/48 fd00:76::/48 eq 4791", "   10 permit udp any any eq 4791", "permits"),
        ("   ipv6 address fd00:76::/127\n", "", "addresses"),
        ("   aggregate-address fd00:76::/64 summary-only\n", "", "aggregates"),
    ],
)
def test_another_line_of_eos_is_read_as_another_model(arista, old, new, field):
    text, planned = startup_config.render(arista[LEAF]), arista[LEAF].model().without_lengths()
    assert old in text
    (told,) = startup_config.read(text.replace(old, new, 1)).unlike(planned, [field])
    assert told.startswith(field)


@pytest.mark.parametrize(
    ("table", "row", "field"),
    [
        ("BGP_PEER_GROUP_AF", "default|FABRIC|ipv6_unicast", "ipv6"),
        ("ROUTE_REDISTRIBUTE", "default|connected|bgp|ipv6", "ipv6"),
        ("ACL_RULE", "SEPARATION_IPV6|DENY", "filtered"),
        ("ACL_TABLE", "SEPARATION_IPV6", "filtered"),
        ("INTERFACE", "Ethernet0|fd00:76::/127", "addresses"),
        ("BGP_GLOBALS_AF_AGGREGATE_ADDR", "default|ipv6_unicast|fd00:76::/64", "aggregates"),
    ],
)
def test_a_row_that_sonic_lacks_is_read_as_another_model(configs, table, row, field):
    tables = json.loads(config_db.render(configs[LEAF]))
    del tables[table][row]
    (told,) = config_db.read(json.dumps(tables)).unlike(configs[LEAF].model(), [field])
    assert told.startswith(field)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("vrf.default.router.bgp.peer-group.FABRIC.address-family.ipv6-unicast", "ipv6"),
        ("vrf.default.router.bgp.address-family.ipv6-unicast.redistribute", "ipv6"),
        ("vrf.default.router.bgp.address-family.ipv6-unicast.aggregate-route", "aggregates"),
        ("interface.swp1s0.acl.SEPARATION-CPU-IPV6", "filtered"),
        ("acl.SEPARATION-IPV6.rule.130", "filtered"),
        ("interface.swp1s0.ipv6", "addresses"),
    ],
)
def test_a_key_that_nvue_lacks_is_read_as_another_model(configs, path, field):
    parts = yaml.safe_load(startup.render(configs[LEAF]))
    *way, last = path.split(".")
    place = parts[1]["set"]
    for key in way:
        place = place[key]
    del place[last]
    (told,) = startup.read(yaml.safe_dump(parts)).unlike(configs[LEAF].model(), [field])
    assert told.startswith(field)


def test_without_prefixes_no_system_says_a_word_of_ipv6_routes(configs):
    plain = dataclasses.replace(
        configs[LEAF],
        ipv6=None,
        ports=tuple(dataclasses.replace(port, ipv6=None) for port in configs[LEAF].ports),
        permits=tuple(rule for rule in configs[LEAF].permits if rule.version == 4),
    )
    for system in (startup, config_db):
        text = system.render(plain)
        assert system.read(text) == plain.model()
        assert "fd00" not in text
        assert not system.read(text).ipv6
