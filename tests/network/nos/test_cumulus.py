"""startup.yaml of Cumulus Linux: accepted by the published schema of NVUE, refused by it with one wrong value, and read back."""

import contextlib
import copy
import dataclasses
import functools
import importlib
import ipaddress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from capacity.build import build
from inventory.site import Site, load_site
from network import nos, roce
from network.nos.cumulus.startup import VERSION, block, read, render, unblocked
from tests.plans import plan_of

SITE = "b200-256-roce"
KEY = "ssh-ed25519 " + "A" * 68
Settings = dict[str, Any]


@pytest.fixture(scope="module")
def schema():
    """Model of the whole object tree of NVUE."""
    return importlib.import_module(f"nvueschema.models.v{VERSION.replace('.', '_')}").NvueConfig


@pytest.fixture(scope="module")
def configs():
    return roce.structured_configs(plan_of(SITE), KEY)


def settings(config) -> Settings:
    made: Settings = yaml.safe_load(render(config))[1]["set"]
    return made


def options(config):
    """A leaf with everything that a site may ask for."""
    intent = dataclasses.replace(config.intent, load_balancing="adaptive", watchdog_ms=450, share_pct=70)
    management = dataclasses.replace(config.management, syslog=("10.72.0.1",))
    return dataclasses.replace(config, intent=intent, bfd_ms=1000, management=management)


def test_every_switch_passes_the_schema_and_reads_back_as_planned(schema, configs):
    assert len(configs) == 10
    for name in ("rol001", "rol008", "ros001"):
        schema.model_validate(settings(configs[name]), extra="forbid")
    for config in configs.values():
        assert read(render(config)) == config.model()


def test_options_of_the_intent_pass_the_schema_and_read_back(schema, configs):
    adaptive = options(configs["rol001"])
    intent = dataclasses.replace(adaptive.intent, congestion_control="pfc_only")
    unmarked = dataclasses.replace(adaptive, intent=intent, ecn=None)
    for config in (adaptive, unmarked):
        schema.model_validate(settings(config), extra="forbid")
        assert read(render(config)) == config.model()
    assert read(render(adaptive)).watchdog_ms == 500  # 100 ms steps
    assert "enable" not in str(settings(unmarked)["qos"]["congestion-control"])


def with_value(right: Settings, path: tuple[str, ...], value: object) -> Settings:
    """A copy of the settings with another value at one path."""
    made = copy.deepcopy(right)
    functools.reduce(lambda part, key: part[key], path[:-1], made)[path[-1]] = value
    return made


LEAF = "10.76.0.0/24"
BGP = ("vrf", "default", "router", "bgp")
POLICY = ("router", "policy")
QUEUES = ("qos", "egress-scheduler", "default-global", "traffic-class")
MARKING = ("qos", "congestion-control", "default-global", "traffic-class", "3")
WRONG = [
    (("interface", "swp1s0", "link", "mtu"), 9217),
    (("interface", "swp1s0", "type"), "ethernet"),
    (("interface", "swp1s0", "acl", "SEPARATION"), {"ingress": {}}),
    (("acl", "SEPARATION", "type"), "ipv5"),
    (("acl", "SEPARATION", "rule", "10", "action"), {"allow": {}}),
    (("acl", "SEPARATION", "rule", "10", "match", "ip", "source-ip"), "10.76.0.0/33"),
    (("acl", "SEPARATION", "rule", "10", "match", "ip", "protocol"), "rocev2"),
    (("interface", "swp1s0", "link", "state"), {"upp": {}}),
    (("interface", "swp1s0", "qos", "pfc-watchdog", "state"), "on"),
    (("interface", "swp17s0", "router", "adaptive-routing", "state"), "on"),
    (("interface", "swp1", "link", "breakout", "2x", "lanes-per-port"), 3),
    (("interface", "eth0", "vrf"), "1 mgmt"),
    (("qos", "mapping", "default-global", "dscp", "26", "switch-priority"), 8),
    (("qos", "mapping", "default-global", "trust"), "l5"),
    (("qos", "egress-queue-mapping", "default-global", "switch-priority", "3", "traffic-class"), 8),
    ((*QUEUES, "3", "bw-percent"), 101),
    ((*QUEUES, "6", "mode"), "strictly"),
    ((*MARKING, "min-threshold"), 0),
    ((*MARKING, "probability"), 101),
    ((*MARKING, "ecn"), "on"),
    (("qos", "pfc", "roce-10m", "cable-length"), 0),
    (("qos", "pfc", "roce-10m", "rx"), "on"),
    (("qos", "pfc-watchdog", "polling-interval"), 50),
    (("qos", "pfc-watchdog", "robustness"), 0),
    (("qos", "roce", "mode"), "loss-free"),
    (("qos", "roce", "cable-length"), 10),
    (("router", "bgp", "autonomous-system"), 2**32),
    (("router", "bgp", "router-id"), "10.78.0.300"),
    (("router", "bfd", "profile", "FABRIC", "min-rx-interval"), "often"),
    (("router", "bfd", "profile", "FABRIC", "detect-multiplier"), 256),
    ((*POLICY, "prefix-list", "PLANNED", "rule", "10", "match"), {"10.78.0.0/23": {"min-prefix-len": 129}}),
    ((*POLICY, "prefix-list", "PLANNED", "rule", "10", "action"), "allow"),
    ((*POLICY, "route-map", "PLANNED", "rule", "10", "match", "type"), "ipv5"),
    ((*BGP, "neighbor", "swp17s0", "type"), "numberless"),
    ((*BGP, "peer-group", "FABRIC", "remote-as"), "foreign"),
    ((*BGP, "address-family", "ipv4-unicast", "aggregate-route", LEAF, "summary-only"), "always"),
    ((*BGP, "path-selection", "multipath", "aspath-ignore"), "always"),
    (("system", "hostname"), "rol_001"),
    (("system", "ntp", "server"), {"10.73.0.1": {"iburst": "yes"}}),
    (("system", "dns", "server"), {"10.73.0.1": {"vrf": 7}}),
    (("system", "syslog", "server"), {"10.72.0.1": {"port": 70000}}),
    (("system", "snmp-server", "listening-address"), {"10.72.0.1": {"vrf": 7}}),
    (("system", "ssh-server", "permit-root-login"), "never"),
    (("system", "ssh-server", "pka-only"), "on"),
    (("system", "aaa", "user", "cumulus", "state"), "off"),
    (("system", "aaa", "user", "netops", "ssh", "authorized-key", "bringup", "type"), "ssh-dss"),
]


def test_the_schema_refuses_one_wrong_value_of_each_kind(schema, configs):
    """All in one test, since it takes seconds to import the schema and milliseconds to ask it."""
    right = settings(options(configs["rol001"]))
    taken = []
    for path, value in WRONG:
        with contextlib.suppress(ValueError):
            schema.model_validate(with_value(right, path, value), extra="forbid")
            taken.append(path)
    assert taken == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("interface", "swp1s0", "ipv4", "address"), {"10.76.0.300/31": {}}),
        (("interface", "lo", "ipv4", "address"), {"10.78.0.1/33": {}}),
        (("qos", "pfc", "roce-10m", "switch-priority"), {"8": {}}),
        (("qos", "mapping", "default-global", "dscp", "64"), {"switch-priority": 3}),
        ((*BGP, "address-family", "ipv4-unicast", "aggregate-route"), {"10.76.0.0/33": {}}),
    ],
)
def test_what_the_schema_knows_no_range_of_is_seen_by_reading_back(schema, configs, path, value):
    """NVUE's tree has addresses and priorities as keys, and the published schema takes any key of such an object."""
    changed = with_value(settings(configs["rol001"]), path, value)
    schema.model_validate(changed, extra="forbid")
    text = yaml.safe_dump([{"header": {}}, {"set": changed}])
    with contextlib.suppress(ValueError):
        assert read(text) != configs["rol001"].model()


@pytest.mark.parametrize("text", ["", "[]", "- header: {}\n- set: {}\n", "a: [", "- {}\n- {set: {interface: 3}}\n"])
def test_another_file_is_refused_without_a_traceback_of_keys(text):
    with pytest.raises(ValueError, match="none of this suite"):
        read(text)


def test_trunk_ports_are_neighbours_at_both_ends_and_as_numbers_differ(configs):
    for config in configs.values():
        for port in config.ports:
            if port.address is None:
                far = configs[port.far]
                assert port.far_port in far.model().neighbours
                assert far.asn != config.asn


def test_only_ports_of_servers_have_addresses_and_the_leaf_announces_their_prefix(configs):
    leaf, spine = configs["rol002"], configs["ros001"]
    assert {port.address is None for port in spine.ports} == {True}
    assert leaf.aggregate == "10.76.32.0/24"
    assert sum(port.address is not None for port in leaf.ports) == 32
    assert spine.aggregate == ""


def test_a_cage_is_split_into_the_ports_of_its_model(configs):
    assert configs["rol001"].breakouts["swp1"] == 2
    assert settings(configs["rol001"])["interface"]["swp1"]["link"]["breakout"] == {"2x": {}}


def test_no_secret_is_in_any_file_and_its_reference_is(configs):
    made = roce.rendering(plan_of(SITE), KEY)
    texts = "".join(text for name, text in made.files.items() if name != "secrets.sh")
    assert "vault:" not in texts
    assert "vault:kv/bringup/b200-256-roce/snmp#auth" in made.files["secrets.sh"]


def test_a_reference_with_a_line_break_stays_a_comment():
    site = load_site(SITE)
    assert site.credentials_given is not None
    snmp = site.credentials_given.snmp.model_copy(update={"auth": "env:A\nreboot", "user": "a b; reboot"})
    given = site.credentials_given.model_copy(update={"snmp": snmp})
    lines = roce.secrets(site.model_copy(update={"credentials_given": given}), "cumulus").splitlines()
    assert "reboot" not in lines
    assert any("username 'a b; reboot' auth-sha" in line for line in lines)


def test_the_password_that_the_driver_logs_in_with_is_set_from_the_environment():
    site = load_site(SITE)
    assert site.credentials_given is not None
    switch = site.credentials_given.switch.model_copy(update={"password": "vault:kv/switch#password", "ca": "ca.pem"})
    given = site.credentials_given.model_copy(update={"switch": switch})
    text = roce.secrets(site.model_copy(update={"credentials_given": given}), "cumulus")
    assert "#   SWITCH_PASSWORD  vault:kv/switch#password\n" in text
    assert 'nv set system aaa user netops password "$SWITCH_PASSWORD"\n' in text
    assert ': "${SNMP_AUTH:?}" "${SNMP_PRIV:?}" "${SWITCH_PASSWORD:?}"\n' in text
    assert "SWITCH_PASSWORD" not in roce.secrets(site, "cumulus")


def test_a_public_key_in_another_form_is_refused():
    with pytest.raises(roce.PublicKeyError):
        roce.rendering(plan_of(SITE), "-----BEGIN OPENSSH PRIVATE KEY-----")


def test_without_a_public_key_the_default_login_is_named_as_not_covered(configs):
    made = roce.rendering(plan_of(SITE))
    assert any("default login stays" in one for one in made.not_covered)
    assert "aaa" not in yaml.safe_load(made.files["rol001.yaml"])[1]["set"]["system"]


def site_with(**fabric: object) -> Site:
    site = load_site(SITE)
    return site.model_copy(update={"fabric": site.fabric.model_copy(update=fabric)})


def test_without_a_needed_key_the_rendering_says_which():
    made = roce.rendering(build(site_with(asn_base=None, nos=None)))
    assert made.files == {}
    assert "fabric.nos, fabric.asn_base" in made.not_covered[0]
    assert roce.rendering(plan_of("h100-1000-ib")).files == {}


def test_a_prefix_without_room_for_one_leaf_gives_no_configuration():
    site = load_site(SITE)
    small = site.addressing.model_copy(update={"rails": ipaddress.IPv4Network("10.76.0.4/30")})
    made = roce.rendering(build(site.model_copy(update={"addressing": small})))
    assert not any(name.endswith(".yaml") for name in made.files)
    assert any("10 switches without a planned address" in one for one in made.not_covered)


@pytest.mark.parametrize(
    ("fabric", "remedy"),
    [
        ({"load_balancing": "dynamic"}, {"fabric.load_balancing": "adaptive"}),
        ({"congestion_control": "spectrum_x"}, {"fabric.load_balancing": "adaptive"}),
    ],
)
def test_what_the_system_cannot_do_is_a_finding_with_its_remedy(fabric, remedy):
    found = [f for f in build(site_with(**fabric)).findings if f.id == "FABRIC-LOSSLESS-SYSTEM"]
    assert [dict(one.settings) for f in found for one in f.remedies] == [remedy]


def test_switches_of_another_maker_get_no_files_and_a_finding():
    plan = build(site_with(switch_model="arista-7060x6-64pe"))
    assert "fabric.nos" in {f.subject for f in plan.findings if f.id == "FABRIC-LOSSLESS-SYSTEM"}
    assert roce.rendering(plan).files == {}


def test_queues_without_buffer_pools_are_a_finding():
    lossless = load_site(SITE).fabric.lossless.model_copy(update={"priority": 4, "traffic_class": 4})
    found = [f for f in build(site_with(lossless=lossless)).findings if f.id == "FABRIC-LOSSLESS-SYSTEM"]
    assert sorted(f.subject for f in found) == ["fabric.lossless.priority", "fabric.lossless.traffic_class"]


def test_the_capability_table_says_that_nothing_ran():
    table = nos.capabilities("cumulus")
    assert table["run"] == "never run on a device"
    assert not any(feature["exercised"] for feature in table["features"].values())


KEYS = st.text(max_size=40)
"""YAML takes keys of up to 1,024 characters, and one that is escaped has ten for each."""
TREES = st.recursive(
    st.integers()
    | st.text()
    | st.sampled_from(["on", "Null", "1e3", "0x1f", "~", "1:30", "2026-01-01", "a b", ".", "a-", "=", "<<"]),
    lambda parts: st.dictionaries(KEYS, parts, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, TREES, max_size=4))
def test_what_is_written_reads_as_itself(tree):
    text = "\n".join(block(tree))
    assert (yaml.safe_load(text) or {}) == tree
    assert unblocked(text) in (tree, None)


def test_a_rendering_is_read_without_a_yaml_library_and_alike(configs):
    for text in map(render, configs.values()):
        assert unblocked(text.partition("\n- set:\n")[2]) == yaml.safe_load(text)[1]["set"]


@pytest.mark.parametrize(
    "text", ["a:", "a:\n  b:\nc: 1", "a: 1\na: 2", "a: yes", "a: [1]", "a: 1 # odd", "  a: 1\nb: 2"]
)
def test_lines_of_another_form_are_left_to_a_yaml_library(text):
    assert unblocked(text) is None
