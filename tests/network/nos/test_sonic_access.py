"""config_db.json of SONiC for out-of-band switches: accepted by SONiC's models, refused with one wrong value, and read back."""

import dataclasses
import json
from typing import Any

import pytest

from capacity.build import build
from inventory.paths import site_dir
from inventory.site.whatif import changed
from network import nos, oob
from network.nos import first_boot
from network.nos.access import PRIORITY, ROOT_PRIORITY
from network.nos.cumulus import access as cumulus
from network.nos.sonic.access import layouts, read, render
from tests.capacity.services.boot.cases import PUBLIC_KEY
from tests.plans import plan_of

SITE = "b200-256-roce"
Tables = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def plan():
    return build(changed(str(site_dir(SITE)), ["oob.nos=sonic"]))


@pytest.fixture(scope="module")
def configs(plan):
    return oob.structured_configs(plan, PUBLIC_KEY)


def tables(config) -> Tables:
    made: Tables = json.loads(render(config))
    return made


def test_every_switch_reads_back_as_planned_and_as_from_cumulus(configs):
    assert list(configs) == ["oob01", "oob02", "oob03", "oob04", "oobagg01"]
    assert configs == oob.structured_configs(plan_of(SITE), PUBLIC_KEY)
    for config in configs.values():
        assert read(render(config)) == config.model() == cumulus.read(cumulus.render(config))


@pytest.mark.needs("yanglint")
def test_every_switch_passes_the_models(models, configs):
    for config in configs.values():
        assert models.complaints(tables(config)) == ""
    syslog = dataclasses.replace(configs["oob01"].management, syslog=("10.72.0.1",))
    other = dataclasses.replace(configs["oob01"], management=syslog, switch_model="nvidia-sn2201-dc", vlans=(110, 120))
    ports = tuple(dataclasses.replace(p, vlan=None if p.vlan is None else p.vlan + 100) for p in other.ports)
    other = dataclasses.replace(other, ports=ports, management_vlan=110)
    assert models.complaints(tables(other)) == ""
    assert read(render(other)) == other.model()


@pytest.mark.needs("yanglint")
@pytest.mark.parametrize(
    ("table", "row", "key", "value", "said"),
    [
        ("PORT", "Ethernet0", "speed", "0", "range"),
        ("PORT", "Ethernet0", "admin_status", "on", "enum"),
        ("VLAN", "Vlan10", "vlanid", "11", "vlanid"),
        ("VLAN", "Vlan5000", None, {"vlanid": "5000"}, "pattern"),
        ("VLAN_MEMBER", "Vlan10|Ethernet99", None, {"tagging_mode": "untagged"}, "leafref|VLAN_MEMBER|Ethernet99"),
        ("VLAN_MEMBER", "Vlan10|Ethernet0", "tagging_mode", "both", "enum"),
        ("VLAN_MEMBER", "Vlan20|Ethernet0", None, {"tagging_mode": "untagged"}, "untagged"),
        ("VLAN_INTERFACE", "Vlan10|10.72.0.300/22", None, {}, "ip-prefix"),
        ("VLAN_INTERFACE", "Vlan30", None, {}, "leafref"),
        ("STP", "GLOBAL", "mode", "rstp", "enum"),
        ("STP_VLAN", "Vlan10", "priority", "70000", "uint16"),
        ("STP_VLAN", "Vlan10", "enabled", None, "enabled"),
        ("STP", "GLOBAL", "mode", "mst", "PVST"),
        ("STP_PORT", "Ethernet0", "bpdu_guard", "on", "boolean"),
        ("DEVICE_METADATA", "localhost", "type", "AccessSwitch", "pattern"),
        ("NTP", "global", "vrf", "oob", "pattern"),
    ],
)
def test_the_models_refuse_a_wrong_value_of_each_kind(models, configs, table, row, key, value, said):
    changed_tables = tables(configs["oob01"])
    if key is None:
        changed_tables[table][row] = value
    elif value is None:
        del changed_tables[table][row][key]
    else:
        changed_tables[table][row][key] = value
    complaint = models.complaints(changed_tables)
    assert complaint
    assert any(word in complaint for word in said.split("|")), complaint


@pytest.mark.parametrize(
    ("table", "row", "key", "value"),
    [
        ("VLAN_MEMBER", "Vlan10|Ethernet0", "tagging_mode", "tagged"),
        ("PORT", "Ethernet0", "admin_status", "down"),
        ("STP_PORT", "Ethernet0", "bpdu_guard_do_disable", "false"),
        ("STP_PORT", "Ethernet0", "enabled", "false"),
        ("VLAN_INTERFACE", "Vlan10|10.72.0.99/22", None, {}),
        ("DEVICE_METADATA", "localhost", "hostname", "oob02"),
    ],
)
def test_another_vlan_port_state_or_guard_is_read_back_as_another_model(configs, table, row, key, value):
    wrong = tables(configs["oob01"])
    if key is None:
        wrong[table][row] = value
    else:
        wrong[table][row][key] = value
    assert read(json.dumps(wrong)) != configs["oob01"].model()


def test_trees_that_differ_by_vlan_are_refused(configs):
    for table, row, fields in (
        ("STP_VLAN", "Vlan10", {"vlanid": "10", "enabled": "true", "priority": "8192"}),
        ("VLAN", "Vlan30", {"vlanid": "30"}),
        ("STP", "GLOBAL", {"mode": "mst"}),
    ):
        wrong = tables(configs["oob01"])
        wrong[table][row] = fields
        with pytest.raises(ValueError, match="one for all is rendered|is not of this suite"):
            read(json.dumps(wrong))


@pytest.mark.parametrize("text", ["", "{}", "[]", "hello", '{"VLAN": 3}'])
def test_what_is_no_such_file_is_an_error(text):
    with pytest.raises(ValueError, match=r"config_db\.json is none of"):
        read(text)


def test_ports_have_the_names_and_lanes_of_the_hardware_sku(configs):
    """port_config.ini of ACS-SN2201: Ethernet47 has lane 188, Ethernet48 lanes 192 to 195, Ethernet60 lanes 204 to 207."""
    ports = tables(configs["oob01"])["PORT"]
    assert len(ports) == 52
    assert (ports["Ethernet47"]["alias"], ports["Ethernet47"]["lanes"]) == ("swp48", "188")
    assert (ports["Ethernet48"]["lanes"], ports["Ethernet48"]["speed"]) == ("192,193,194,195", "100000")
    assert (ports["Ethernet60"]["alias"], ports["Ethernet60"]["lanes"]) == ("swp52", "204,205,206,207")


def test_the_first_aggregation_switch_is_the_root(configs):
    assert {name: config.priority for name, config in configs.items() if config.priority != PRIORITY} == {
        "oobagg01": ROOT_PRIORITY
    }
    assert tables(configs["oobagg01"])["STP_VLAN"]["Vlan10"]["priority"] == "4096"


def test_the_first_boot_writes_the_file_and_locks_the_account_of_the_factory(configs):
    config = configs["oob01"]
    made = first_boot.files(config, "sonic", "http://10.72.0.9/ztp/aa", None)
    assert set(made) == {"account.sh", "config_db.json", "ztp.json"}
    assert made["config_db.json"] == render(config)
    assert "passwd --lock admin" in made["account.sh"]
    assert "# First boot of oob01" in made["account.sh"]
    keyless = dataclasses.replace(config, management=dataclasses.replace(config.management, key=""))
    with pytest.raises(ValueError, match="oob01: no public key"):
        first_boot.files(keyless, "sonic", "http://10.72.0.9/ztp/aa", None)


def test_the_site_names_the_system_and_gets_its_files(plan):
    made = oob.rendering(plan, PUBLIC_KEY)
    assert set(made.files) == {"oob01.json", "oob02.json", "oob03.json", "oob04.json", "oobagg01.json", "secrets.sh"}
    assert "never run on a device" in "\n".join(made.not_covered)


def test_a_model_without_a_layout_gets_none():
    made = oob.rendering(build(changed(str(site_dir("lab")), ["oob.nos=sonic"])))
    assert not made.files
    assert "sonic is not known to run on their model" in made.not_covered[0]
    assert set(layouts()) == set(nos.capabilities("sonic")["access_models"])


def test_every_system_says_whether_it_configures_out_of_band_switches():
    said = {
        system: nos.capabilities(system)["features"]["out_of_band"]["supported"]
        for system in ("cumulus", "sonic", "eos")
    }
    assert said == {"cumulus": True, "sonic": True, "eos": True}
    assert set(oob.RENDER) == set(oob.READ) == set(said)
