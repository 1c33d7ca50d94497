"""Outlets and BMCs really cut and restore power."""

import time
from collections.abc import Callable

import pytest

from infra.lab.client import ask
from infra.lab.up import ssh_probe
from network.drivers.credentials import BmcCredentials, snmp_credentials
from network.drivers.errors import DeviceError, LoginRefused, WriteRefused
from network.drivers.pdu import Pdu
from network.drivers.redfish import Bmc
from tests.infra.lab.conftest import RunningLab

pytestmark = pytest.mark.lab
BUDGET_S = 30.0
BMC_BUDGET_S = 8.0


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + BUDGET_S
    while not true():
        assert time.monotonic() < end, f"not within {BUDGET_S:g} s: {what}"
        time.sleep(0.1)


def outlets(running: RunningLab, device: str) -> list[tuple[Pdu, int]]:
    """(PDU driver, outlet number) of a device, in the order of its supplies."""
    found = sorted((o.psu, o.pdu, o.number) for o in running.spec.outlets if o.device == device)
    credentials = snmp_credentials(running.site)
    return [
        (Pdu(running.spec.pdu(name).address, credentials, name=name, serial=running.spec.pdu(name).serial), number)
        for _, name, number in found
    ]


def bmc(running: RunningLab, server: str) -> Bmc:
    item = running.spec.server(server)
    factory = BmcCredentials("admin", running.paths.secret("bmc_factory_password"), running.paths.pki / "bmc.pem")
    return Bmc(item.bmc_address, factory, BMC_BUDGET_S, name=server, serial=item.serial, uuid=item.uuid)


@pytest.fixture
def node(running):
    """gpu001, on and answering over SSH; off again afterwards, with all its outlets on."""
    name = "gpu001"
    bmc(running, name).power("On")
    answers = ssh_probe(running.spec.server(name).address)
    until(lambda: answers() and running.view(name)["ready"], "gpu001 boots")
    yield name
    for pdu, number in outlets(running, name):
        pdu.set_outlet(number, True)
    until(lambda: running.view(name)["ac"], "AC is back")
    bmc(running, name).power("ForceOff")


def test_factory_state_is_switches_on_servers_off_outlets_on(running):
    state = {name: view["power"] for name, view in running_states(running).items()}
    assert {power for name, power in state.items() if running.spec.kind(name) == "switch"} == {"On"}
    assert {power for name, power in state.items() if running.spec.kind(name) == "server"} == {"Off"}
    credentials = snmp_credentials(running.site)
    for pdu in running.spec.pdus:
        assert all(outlet["on"] for outlet in Pdu(pdu.address, credentials, name=pdu.name).outlets())


def running_states(running):
    from infra import lab

    return lab.status(running.name)


def test_every_pdu_presents_its_serial_and_says_that_it_is_simulated(running):
    credentials = snmp_credentials(running.site)
    for pdu in running.spec.pdus:
        identity = Pdu(pdu.address, credentials, name=pdu.name).identity()
        assert identity["serial"] == pdu.serial
        assert "SIMULATED" in identity["sys_descr"]


def test_every_bmc_presents_its_serial_and_says_that_it_is_simulated(running):
    for server in running.spec.servers:
        identity = bmc(running, server.name).identity()
        assert (identity["serial"], identity["uuid"]) == (server.serial, server.uuid)
        assert identity["manufacturer"] == "SIMULATED (bringup lab)"


def test_a_node_that_loses_one_feed_stays_up_on_the_other(running, node):
    (first, number), (other, other_number) = outlets(running, node)
    boots = running.view(node)["boots"]
    first.set_outlet(number, False)
    state = running.view(node)
    assert (state["power"], state["supplies"], state["boots"]) == ("On", [2], boots)
    assert ssh_probe(running.spec.server(node).address)()
    supplies = bmc(running, node).psus()
    assert [s["state"] for s in supplies["psus"]] == ["UnavailableOffline", "Enabled"]
    watts = {o["number"]: o["watts"] for o in other.outlets()}[other_number]
    assert watts == running.spec.server(node).load_w


def test_a_node_that_loses_both_feeds_is_dead_and_its_bmc_silent(running, node):
    for pdu, number in outlets(running, node):
        pdu.set_outlet(number, False)
    assert running.view(node)["power"] == "Off"
    assert not ssh_probe(running.spec.server(node).address)()
    with pytest.raises(DeviceError, match=node):
        bmc(running, node).state()


def test_a_node_that_was_on_returns_with_its_feed(running, node):
    boots = running.view(node)["boots"]
    for pdu, number in outlets(running, node):
        pdu.set_outlet(number, False)
    for pdu, number in outlets(running, node):
        pdu.set_outlet(number, True)
    until(lambda: running.view(node)["ready"], "the node boots again (restore policy LastState)")
    assert running.view(node)["boots"] == boots + 1


def test_the_disk_outlives_a_power_cut_but_not_a_network_installation(running, node):
    from infra.lab.faults import _run
    from infra.lab.lab import exec_argv

    address = running.spec.server(node).address
    _run(exec_argv(running.name, node, ["touch", "/root/kept"]))
    bmc(running, node).power("ForceRestart")
    until(ssh_probe(address), "boots")
    _run(exec_argv(running.name, node, ["test", "-e", "/root/kept"]))
    bmc(running, node).set_boot("Pxe")
    bmc(running, node).power("ForceRestart")
    until(ssh_probe(address), "boots")
    _run(exec_argv(running.name, node, ["test", "!", "-e", "/root/kept"]))
    assert bmc(running, node).state()["boot_enabled"] == "Disabled"


def test_a_node_does_not_reach_the_management_network(running, node):
    from infra.lab.faults import _run
    from infra.lab.lab import exec_argv

    def inside(*argv: str) -> str:
        return _run(exec_argv(running.name, node, list(argv)))

    inside("ping", "-c1", "-W2", running.spec.provisioning.host)
    inside("ip", "route", "add", running.spec.oob.prefix, "via", running.spec.provisioning.host)
    lost = inside("sh", "-c", f"ping -c2 -i0.2 -W1 {running.spec.pdus[0].address} || true")
    assert "2 packets transmitted, 0 received" in lost


def test_a_node_carries_the_uuid_of_its_asset(running, node):
    from infra.lab.faults import _run
    from infra.lab.lab import exec_argv

    uuid = running.spec.server(node).uuid
    assert _run(exec_argv(running.name, node, ["cat", "/etc/machine-id"])).strip() == uuid.replace("-", "")
    assert f"container_uuid={uuid}" in _run(exec_argv(running.name, node, ["cat", "/proc/1/environ"])).split("\0")


def test_a_changed_bmc_password_closes_the_factory_login(running):
    server = running.spec.server("gpu004")
    factory, mine = bmc(running, server.name), "a-new-password-1"
    factory.change_password("admin", mine)
    with pytest.raises(LoginRefused):
        bmc(running, server.name).state()
    ours = Bmc(server.bmc_address, BmcCredentials("admin", mine, running.paths.pki / "bmc.pem"), BMC_BUDGET_S)
    assert ours.state()["power"] == "Off"
    ours.change_password("admin", running.paths.secret("bmc_factory_password"))


def test_a_server_without_ac_refuses_power_on(running):
    for pdu, number in outlets(running, "gpu004")[:1]:
        pdu.set_outlet(number, False)
    ask(running.name, op="reset", device="gpu004", kind="On")
    ask(running.name, op="reset", device="gpu004", kind="ForceOff")
    for pdu, number in outlets(running, "gpu004")[1:]:
        pdu.set_outlet(number, False)
    from infra.lab.paths import LabError

    with pytest.raises(LabError, match="gpu004 has no AC power: 0 of 2 supplies live"):
        ask(running.name, op="reset", device="gpu004", kind="On")
    for pdu, number in outlets(running, "gpu004"):
        pdu.set_outlet(number, True)
    until(lambda: running.view("gpu004")["ac"], "AC is back")


def test_a_switch_without_both_outlets_is_dead_and_boots_with_its_saved_configuration(running):
    from infra.lab import switch
    from infra.lab.faults import _run

    def vtysh(*commands: str) -> str:
        options = [word for command in commands for word in ("-c", command)]
        return _run([*switch.inside(running.spec, "leaf02"), "vtysh", *options])

    vtysh("configure terminal", "ip route 203.0.113.0/24 blackhole", "end", "write memory")
    vtysh("configure terminal", "ip route 198.51.100.0/24 blackhole", "end")
    for pdu, number in outlets(running, "leaf02"):
        pdu.set_outlet(number, False)
    assert running.view("leaf02")["power"] == "Off"
    assert not ssh_probe(running.spec.switch("leaf02").address)()
    for pdu, number in outlets(running, "leaf02"):
        pdu.set_outlet(number, True)
    until(lambda: running.view("leaf02")["ready"], "leaf02 boots")
    shown = vtysh("show running-config")
    assert "203.0.113.0/24" in shown
    assert "198.51.100.0/24" not in shown
    vtysh("configure terminal", "no ip route 203.0.113.0/24 blackhole", "end", "write memory")


def test_a_bmc_refuses_an_unknown_bios_attribute(running):
    with pytest.raises(WriteRefused, match="NoSuchAttribute"):
        bmc(running, "gpu002").set_bios({"NoSuchAttribute": "x"})


def test_settings_of_a_bmc_read_back(running):
    device = bmc(running, "gpu002")
    device.led(True)
    device.set_ntp([running.spec.oob.host])
    device.set_bios({"SriovGlobalEnable": "Enabled"})
    assert device.state()["led_on"] is True
    assert device.ntp() == [running.spec.oob.host]
    assert device.bios()["pending"] == {"SriovGlobalEnable": "Enabled"}
    device.power("On")
    assert device.bios()["current"]["SriovGlobalEnable"] == "Enabled"
    device.power("ForceOff")
    device.clear_sel()
    assert [entry["message"] for entry in device.sel()] == ["System event log cleared"]


def test_outlet_names_and_thresholds_of_a_pdu_are_kept(running):
    pdu = running.spec.pdus[0]
    driver = Pdu(pdu.address, snmp_credentials(running.site), name=pdu.name, serial=pdu.serial)
    driver.set_name(2, "gpu001 psu 1")
    assert driver.outlets()[1]["name"] == "gpu001 psu 1"
