"""startup-config of EOS for out-of-band switches: accepted and written alike by AVD, refused with one wrong value, read back."""

import dataclasses
import re

import pytest

from capacity.build import build
from infra.toolchain.avd import checked
from inventory.paths import site_dir
from inventory.site.whatif import changed
from network import nos, oob
from network.nos import first_boot
from network.nos.access import PRIORITY
from network.nos.cumulus import access as cumulus
from network.nos.eos.access import read, render, structured
from network.wiring.oob import uplink_ports
from tests.capacity.services.boot.cases import PUBLIC_KEY
from tests.network.nos.test_eos import lines, with_value

ARISTA = ["oob.switch_model=arista-7010tx-48"]


@pytest.fixture(scope="module")
def plan():
    return build(changed(str(site_dir("b200-256-roce")), [*ARISTA, "oob.nos=eos"]))


@pytest.fixture(scope="module")
def configs(plan):
    return oob.structured_configs(plan, PUBLIC_KEY)


def options(config):
    """The same switch with other VLANs and a log server."""
    ports = tuple(dataclasses.replace(p, vlan=None if p.vlan is None else p.vlan + 100) for p in config.ports)
    management = dataclasses.replace(config.management, syslog=("10.72.0.1",))
    return dataclasses.replace(config, ports=ports, vlans=(110, 120), management_vlan=110, management=management)


def test_every_switch_reads_back_as_planned_and_as_from_cumulus(configs):
    assert list(configs) == ["oob01", "oob02", "oob03", "oob04", "oobagg01"]
    for config in (*configs.values(), options(configs["oob01"])):
        assert read(render(config)) == config.model() == cumulus.read(cumulus.render(config))


@pytest.mark.needs("pyavd")
def test_every_switch_passes_avds_schema_and_avd_writes_the_same_text(configs):
    first = configs["oob01"]
    without_key = dataclasses.replace(first, management=dataclasses.replace(first.management, key="", ntp=(), dns=()))
    asked = [*configs.values(), options(first), without_key]
    for config, (complaints, text) in zip(asked, checked([structured(one) for one in asked]), strict=True):
        assert complaints == []
        assert lines(text) == lines(render(config))


WRONG = [
    ("hostname", {}, "hostname"),
    ("spanning_tree.mode", "stp", "mode"),
    ("spanning_tree.rstp_priority", "first", "rstp_priority"),
    ("vlans.0.id", "management", "id"),
    ("ethernet_interfaces.0.switchport.mode", "host", "mode"),
    ("ethernet_interfaces.0.switchport.access_vlan", 4095, "access_vlan"),
    ("ethernet_interfaces.0.spanning_tree_portfast", "on", "spanning_tree_portfast"),
    ("ethernet_interfaces.0.spanning_tree_bpduguard", "on", "spanning_tree_bpduguard"),
    ("ethernet_interfaces.0.shutdown", "perhaps", "shutdown"),
    ("vlan_interfaces.0.ip_address", [], "ip_address"),
    ("management_api_http.enable_vrfs.0.name", None, "name"),
    ("management_ssh.enable", "perhaps", "enable"),
    ("ntp.servers.0.iburst", "yes", "iburst"),
    ("local_users.1.ssh_key", [], "ssh_key"),
    ("logging.vrfs.0.hosts.0.name", None, "name"),
]


@pytest.mark.needs("pyavd")
def test_avds_schema_refuses_one_wrong_value_of_each_kind(configs):
    tree = structured(options(configs["oob01"]))
    trunk = next(n for n, port in enumerate(tree["ethernet_interfaces"]) if "trunk" in port.get("switchport", {}))
    wrong = [*WRONG, (f"ethernet_interfaces.{trunk}.switchport.trunk.native_vlan_tag", "perhaps", "native_vlan_tag")]
    said = checked([with_value(tree, path, value) for path, value, _ in wrong])
    taken = [
        path for (path, _, word), (complaints, _) in zip(wrong, said, strict=True) if word not in " ".join(complaints)
    ]
    assert taken == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("   switchport access vlan 10\n", "   switchport access vlan 20\n"),
        ("   spanning-tree bpduguard enable\n", ""),
        ("   switchport trunk native vlan tag\n", ""),
        ("   switchport trunk allowed vlan 10,20\n", "   switchport trunk allowed vlan 10\n"),
        ("   no shutdown\n   switchport access", "   shutdown\n   switchport access"),
        ("   ip address 10.", "   ip address 11."),
        ("hostname oob01\n", "hostname oob02\n"),
        ("spanning-tree priority 32768", "spanning-tree priority 4096"),
    ],
)
def test_another_vlan_port_state_or_guard_is_read_back_as_another_model(configs, old, new):
    text = render(configs["oob01"])
    assert old in text
    assert read(text.replace(old, new, 1)) != configs["oob01"].model()


@pytest.mark.parametrize("text", ["", "hostname oob01\n", " ip address 10.0.0.1/24\n"])
def test_another_file_is_refused_by_what_it_lacks(text):
    with pytest.raises(ValueError, match="startup-config"):
        read(text)


def test_a_spanning_tree_of_another_kind_is_refused(configs):
    text = render(configs["oob01"])
    with pytest.raises(ValueError, match="mstp is not of this suite"):
        read(text.replace("spanning-tree mode rstp", "spanning-tree mode mstp"))


def test_the_first_boot_fetches_the_file_and_makes_the_account(configs):
    made = first_boot.files(configs["oob01"], "eos", "http://10.72.0.9/ztp/aa", None)
    assert made["startup-config"] == render(configs["oob01"])
    assert "username netops privilege 15" in made["provision.sh"]
    assert "no username admin\n" in made["startup-config"]


def test_the_site_names_the_system_and_gets_its_files(plan):
    made = oob.rendering(plan, PUBLIC_KEY)
    assert set(made.files) == {"oob01.cfg", "oob02.cfg", "oob03.cfg", "oob04.cfg", "oobagg01.cfg", "secrets.sh"}
    assert "never run on a device" in "\n".join(made.not_covered)


def test_switches_of_another_maker_get_none():
    made = oob.rendering(build(changed(str(site_dir("b200-256-roce")), ["oob.nos=eos"])))
    assert not made.files
    assert "eos is not known to run on their model" in made.not_covered[0]
    assert nos.capabilities("eos")["access_models"] == ["arista-7010tx-48"]


def test_switches_that_join_others_do_so_by_their_fast_ports_and_with_parts_of_25_gbps():
    plan = build(changed(str(site_dir("h100-1000-ib")), [*ARISTA, "oob.nos=eos"]))
    between = plan.cables[plan.cables["a_device"].str.startswith("oobagg") & (plan.cables["rate_gbps"] == 25)]
    assert set(uplink_ports(plan.catalog.device("arista-7010tx-48"))) == {f"Ethernet{n}" for n in range(49, 53)}
    assert len(between)
    assert set(between["part"]) <= {"dac-25g-3m", "mmf-25g-sr-100m", "smf-25g-lr-10km"}
    assert {finding.id for finding in plan.findings if "MEDIA" in finding.id or "CABLE" in finding.id} <= {
        finding.id
        for finding in build(changed(str(site_dir("h100-1000-ib")), [])).findings
        if "MEDIA" in finding.id or "CABLE" in finding.id
    }
    made = oob.structured_configs(plan, PUBLIC_KEY)
    assert {name for name, config in made.items() if config.priority < PRIORITY} == {"oobagg01"}
    uplinks = {name for name in read(render(made["oobagg01"])).trunks if int(re.sub(r"\D", "", name)) > 48}
    assert uplinks
