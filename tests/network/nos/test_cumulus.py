"""startup.yaml of Cumulus Linux: accepted by the published schema of NVUE, refused by it with one wrong value, and read back."""

import copy
import dataclasses
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


def test_every_switch_passes_the_schema_and_reads_back_as_planned(schema, configs):
    assert len(configs) == 10
    for name in ("rol001", "rol008", "ros001"):
        schema.model_validate(settings(configs[name]), extra="forbid")
    for config in configs.values():
        assert read(render(config)) == config.model()


def test_options_of_the_intent_pass_the_schema_and_read_back(schema, configs):
    first = configs["rol001"]
    intent = dataclasses.replace(first.intent, load_balancing="adaptive", watchdog_ms=450, share_pct=70)
    management = dataclasses.replace(first.management, syslog=("10.72.0.1",))
    adaptive = dataclasses.replace(first, intent=intent, bfd_ms=1000, management=management)
    unmarked = dataclasses.replace(first, intent=dataclasses.replace(intent, congestion_control="pfc_only"), ecn=None)
    for config in (adaptive, unmarked):
        schema.model_validate(settings(config), extra="forbid")
        assert read(render(config)) == config.model()
    assert read(render(adaptive)).watchdog_ms == 500  # 100 ms steps
    assert "enable" not in str(settings(unmarked)["qos"]["congestion-control"])


def _mtu(s: Settings) -> None:
    s["interface"]["swp1s0"]["link"]["mtu"] = 9217


def _dscp(s: Settings) -> None:
    s["qos"]["mapping"]["default-global"]["dscp"]["26"]["switch-priority"] = 8


def _share(s: Settings) -> None:
    s["qos"]["egress-scheduler"]["default-global"]["traffic-class"]["3"]["bw-percent"] = 101


def _ecn(s: Settings) -> None:
    s["qos"]["congestion-control"]["default-global"]["traffic-class"]["3"]["min-threshold"] = 0


def _cable(s: Settings) -> None:
    s["qos"]["pfc"]["roce-10m"]["cable-length"] = 0


def _watchdog(s: Settings) -> None:
    s["qos"]["pfc-watchdog"]["polling-interval"] = 50


def _mode(s: Settings) -> None:
    s["qos"]["roce"]["mode"] = "loss-free"


def _as_number(s: Settings) -> None:
    s["router"]["bgp"]["autonomous-system"] = 2**32


def _router_id(s: Settings) -> None:
    s["router"]["bgp"]["router-id"] = "10.78.0.300"


def _neighbour(s: Settings) -> None:
    s["vrf"]["default"]["router"]["bgp"]["neighbor"]["swp17s0"]["type"] = "numberless"


def _key_type(s: Settings) -> None:
    s["system"]["aaa"]["user"]["netops"]["ssh"]["authorized-key"]["bringup"]["type"] = "ssh-dss"


def _vrf(s: Settings) -> None:
    s["interface"]["eth0"]["vrf"] = "1 mgmt"


def _host_name(s: Settings) -> None:
    s["system"]["hostname"] = "rol_001"


def _unknown_key(s: Settings) -> None:
    s["qos"]["roce"]["cable-length"] = 10


@pytest.mark.parametrize(
    "wrong",
    [
        *(_mtu, _dscp, _share, _ecn, _cable, _watchdog, _mode, _as_number, _router_id, _neighbour),
        *(_key_type, _vrf, _host_name, _unknown_key),
    ],
)
def test_the_schema_refuses_one_wrong_value(schema, configs, wrong):
    changed = copy.deepcopy(settings(configs["rol001"]))
    wrong(changed)
    with pytest.raises(ValueError):
        schema.model_validate(changed, extra="forbid")


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
    lines = roce.secrets(site.model_copy(update={"credentials_given": given})).splitlines()
    assert "reboot" not in lines
    assert any("username 'a b; reboot' auth-sha" in line for line in lines)


def test_the_password_that_the_driver_logs_in_with_is_set_from_the_environment():
    site = load_site(SITE)
    assert site.credentials_given is not None
    switch = site.credentials_given.switch.model_copy(update={"password": "vault:kv/switch#password", "ca": "ca.pem"})
    given = site.credentials_given.model_copy(update={"switch": switch})
    text = roce.secrets(site.model_copy(update={"credentials_given": given}))
    assert "#   SWITCH_PASSWORD  vault:kv/switch#password\n" in text
    assert 'nv set system aaa user netops password "$SWITCH_PASSWORD"\n' in text
    assert ': "${SNMP_AUTH:?}" "${SNMP_PRIV:?}" "${SWITCH_PASSWORD:?}"\n' in text
    assert "SWITCH_PASSWORD" not in roce.secrets(site)


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
