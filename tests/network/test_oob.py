"""Configurations of out-of-band switches: every planned cable in its VLAN, accepted by the published schema, and read back."""

import dataclasses
import functools
import importlib
from typing import Any

import pytest
import yaml

from capacity.build import build
from inventory.paths import site_dir
from inventory.site import SiteError, load_site
from inventory.site.whatif import changed
from network import oob
from network.nos import first_boot
from network.nos.access import PRIORITY
from network.nos.cumulus import access
from network.nos.cumulus.startup import VERSION
from tests.capacity.services.boot.cases import PUBLIC_KEY
from tests.plans import plan_of

SITE = "b200-256-roce"
OTHER = "gb300-nvl72-liquid"


@pytest.fixture(scope="module")
def schema():
    return importlib.import_module(f"nvueschema.models.v{VERSION.replace('.', '_')}").NvueConfig


@pytest.fixture(scope="module")
def configs():
    return oob.structured_configs(plan_of(SITE), PUBLIC_KEY)


@functools.cache
def rack_scale():
    """A site with management switches inside its rack-scale systems, whose model is another one."""
    return build(changed(str(site_dir(OTHER)), ["oob.nos=cumulus"]))


def settings(config) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load(access.render(config))[1]["set"]
    return made


def test_every_switch_passes_the_schema_and_reads_back_as_planned(schema, configs):
    assert list(configs) == ["oob01", "oob02", "oob03", "oob04", "oobagg01"]
    for config in configs.values():
        schema.model_validate(settings(config), extra="forbid")
        assert access.read(access.render(config)) == config.model()


def test_switches_inside_rack_scale_systems_are_configured_too(schema):
    made = oob.structured_configs(rack_scale(), PUBLIC_KEY)
    assert list(made) == oob.switches(rack_scale())
    assert {one.switch_model for one in made.values()} == {"nvidia-sn2201", "nvidia-sn2201-dc"}
    for config in made.values():
        schema.model_validate(settings(config), extra="forbid")
        assert access.read(access.render(config)) == config.model()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("interface", "swp1", "bridge", "domain", "br_default", "access"), 4095),
        (("interface", "swp1", "bridge", "domain", "br_default", "stp", "bpdu-guard"), "on"),
        (("interface", "swp1", "type"), "port"),
        (("interface", "vlan10", "vlan"), 5000),
        (("bridge", "domain", "br_default", "stp", "priority"), 0),
        (("system", "ntp", "server"), "10.73.0.1"),
        (("bridge", "domain", "br_default", "type"), "vlan"),
        (("bridge", "domain", "br_default", "untagged"), "all"),
        (("system", "ssh-server", "permit-root-login"), "never"),
    ],
)
def test_the_schema_refuses_a_wrong_value_of_each_kind(schema, configs, path, value):
    wrong = settings(configs["oob01"])
    functools.reduce(lambda part, key: part[key], path[:-1], wrong)[path[-1]] = value
    with pytest.raises(ValueError, match=path[-1].replace("_", ".")):
        schema.model_validate(wrong, extra="forbid")


def test_each_cable_of_the_plan_is_in_its_network():
    """From the cables alone, by what is plugged in: a server's eth0 is in the provisioning network, all else in management."""
    plan, made = plan_of(SITE), oob.structured_configs(plan_of(SITE))
    seen = 0
    kinds = dict(zip(plan.devices["name"], plan.devices["kind"], strict=True))
    ends = ["a_device", "a_port", "b_device", "b_port"]
    for device, port, switch, far in plan.cables.loc[plan.cables["fabric"] == "oob", ends].to_numpy().tolist():
        if device in made:
            assert port in made[device].model().trunks
            assert far in made[switch].model().trunks
            continue
        wanted = 20 if kinds[device] == "server" and port == "eth0" else 10
        assert (far, wanted) in made[switch].model().access
        seen += 1
    assert seen == sum(len(one.model().access) for one in made.values())


def test_ports_without_a_cable_are_down(configs):
    ports = {f"swp{n}" for n in range(1, 53)}
    for config in configs.values():
        model = config.model()
        assert model.down == ports - {port for port, _ in model.access} - model.trunks
        assert {f"swp{n}" for n in range(49, 53)} <= model.down


def test_the_address_is_the_planned_one_in_the_management_vlan_and_no_other(configs):
    rows = plan_of(SITE).addresses.set_index(["device", "interface"])["address"]
    for name, config in configs.items():
        assert config.model().addresses == {(10, rows[name, "eth0"])}
        assert "vlan20" not in settings(config)["interface"]


def test_another_vlan_port_state_or_guard_is_read_back_as_another_model(configs):
    config = configs["oob01"]
    for path, value in (
        (("interface", "swp1", "bridge", "domain", "br_default", "access"), 20),
        (("interface", "swp1", "link", "state"), {"down": {}}),
        (("interface", "swp1", "bridge", "domain", "br_default", "stp", "bpdu-guard"), "disabled"),
        (("interface", "swp48", "bridge", "domain", "br_default", "vlan"), {"10": {}}),
        (("interface", "swp48", "bridge", "domain", "br_default", "untagged"), 10),
        (("interface", "vlan10", "ipv4", "address"), {"10.72.0.99/22": {}}),
        (("system", "hostname"), "oob02"),
        (("bridge", "domain", "br_default", "stp", "priority"), 4096),
    ):
        wrong = settings(config)
        functools.reduce(lambda part, key: part[key], path[:-1], wrong)[path[-1]] = value
        assert access.read(yaml.safe_dump([{"header": {}}, {"set": wrong}])) != config.model(), path


@pytest.mark.parametrize("text", ["", "- set: {}", "- set: {interface: {swp1: 3}}", "hello", "- set:\n    bridge:"])
def test_what_is_no_such_file_is_an_error(text):
    with pytest.raises(ValueError, match=r"startup\.yaml is none of"):
        access.read(text)


def test_vlans_of_the_site_file_are_used_and_may_not_be_one():
    plan = build(changed(str(site_dir(SITE)), ["oob.management_vlan=110", "oob.provisioning_vlan=120"]))
    model = oob.structured_configs(plan)["oob01"].model()
    assert model.vlans == {110, 120}
    assert {vlan for _, vlan in model.access} == {110, 120}
    with pytest.raises(SiteError, match=r"equal to oob\.management_vlan"):
        changed(str(site_dir(SITE)), ["oob.management_vlan=20"])


def test_the_account_of_the_factory_is_disabled_and_ours_opens_by_key(configs):
    users = settings(configs["oob01"])["system"]["aaa"]["user"]
    assert users["cumulus"] == {"state": "disabled"}
    assert users["netops"]["state"] == "enabled"
    assert settings(configs["oob01"])["system"]["ssh-server"]["vrf"] == {"default": {}}


def test_first_boot_fetches_the_rendered_file_and_is_refused_without_a_key(configs):
    config = configs["oobagg01"]
    files = first_boot.files(config, "cumulus", "http://10.72.0.9/ztp/aa", None)
    assert files["startup.yaml"] == access.render(config)
    assert "# First boot of oobagg01" in files["provision.sh"]
    keyless = dataclasses.replace(config, management=dataclasses.replace(config.management, key=""))
    with pytest.raises(ValueError, match="oobagg01: no public key"):
        first_boot.files(keyless, "cumulus", "http://10.72.0.9/ztp/aa", None)


def test_a_rendering_has_a_file_for_each_switch_and_says_what_is_left():
    made = oob.rendering(plan_of(SITE), PUBLIC_KEY)
    assert set(made.files) == {"oob01.yaml", "oob02.yaml", "oob03.yaml", "oob04.yaml", "oobagg01.yaml", "secrets.sh"}
    said = "\n".join(made.not_covered)
    assert "never run on a device" in said
    assert "management ports of out-of-band switches: the plan has no cable there" in said
    assert "oob.nos_image pins none" in said
    assert "default login stays" not in said
    assert "default login stays" in "\n".join(oob.rendering(plan_of(SITE)).not_covered)


def test_switches_that_join_others_carry_both_networks_between_them_and_the_first_is_the_root(schema):
    plan = build(changed(str(site_dir("h100-1000-ib")), ["oob.nos=cumulus"]))
    made = oob.structured_configs(plan, PUBLIC_KEY)
    assert {name for name, config in made.items() if config.priority < PRIORITY} == {"oobagg01"}
    for name in ("oobagg01", "oobagg02"):
        schema.model_validate(settings(made[name]), extra="forbid")
        assert "swp49" in access.read(access.render(made[name])).trunks
    assert "apart" not in "\n".join(oob.rendering(plan, PUBLIC_KEY).not_covered)


def test_a_site_without_the_key_gets_no_files_and_nothing_is_said():
    made = oob.rendering(plan_of("lab"))
    assert not made.files
    assert not made.not_covered


def test_a_model_that_the_system_does_not_run_on_gets_none():
    site = changed(str(site_dir("lab")), ["oob.nos=cumulus"])
    made = oob.rendering(build(site))
    assert not made.files
    assert "cumulus is not known to run on their model" in made.not_covered[0]


def test_the_shipped_site_names_its_system():
    assert load_site(SITE).oob.nos == "cumulus"
