"""Every fault does to the devices what its name says, and repair undoes it."""

import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from infra import lab
from infra.lab import switch
from infra.lab.faults import OTHER_MAC, OTHER_SERIAL, _run
from infra.lab.paths import LabError
from infra.lab.powerd import GARBLED
from infra.lab.up import ssh_probe
from network.drivers.credentials import BmcCredentials, snmp_credentials
from network.drivers.errors import DeviceTimeout, IdentityMismatch, UnreadableAnswer
from network.drivers.pdu import Pdu
from network.drivers.redfish import Bmc
from tests.infra.lab.conftest import RunningLab

pytestmark = pytest.mark.lab
LLDP_BUDGET_S = 15.0
BMC_BUDGET_S = 4.0


@pytest.fixture(autouse=True)
def repaired(running):
    yield
    lab.repair(running.name)
    assert lab.active(running.name) == []


def neighbours(running: RunningLab, name: str) -> dict[str, str]:
    """{port: 'device:port'} as the switch sees it over LLDP."""
    import json

    shown = _run([*switch.inside(running.spec, name), "lldpcli", "-f", "json0", "show", "neighbors"])
    found: dict[str, str] = {}
    for item in json.loads(shown)["lldp"][0].get("interface", []):
        found[item["name"]] = f"{item['chassis'][0]['name'][0]['value']}:{item['port'][0]['id'][0]['value']}"
    return found


def until_equal(seen: Callable[[], Any], wanted: Any) -> None:
    end = time.monotonic() + LLDP_BUDGET_S
    while (now := seen()) != wanted:
        assert time.monotonic() < end, f"{now} is not {wanted} after {LLDP_BUDGET_S:g} s"
        time.sleep(0.3)


def bmc(running: RunningLab, server: str) -> Bmc:
    item = running.spec.server(server)
    factory = BmcCredentials("admin", running.paths.secret("bmc_factory_password"), running.paths.pki / "bmc.pem")
    return Bmc(item.bmc_address, factory, BMC_BUDGET_S, name=server, serial=item.serial, uuid=item.uuid)


def test_swapped_cables_are_seen_by_lldp_and_swapped_back(running):
    def far(port: str = "swp1") -> list[str | None]:
        return [neighbours(running, leaf).get(port) for leaf in ("leaf01", "leaf02")]

    until_equal(far, ["spine01:swp1", "spine01:swp2"])
    lab.fault(running.name, "cable-swap", ["leaf01:swp1", "leaf02:swp1"])
    until_equal(far, ["spine01:swp2", "spine01:swp1"])
    lab.repair(running.name)
    until_equal(far, ["spine01:swp1", "spine01:swp2"])


def test_an_unplugged_cable_has_both_ports_up_without_carrier(running):
    lab.fault(running.name, "link-down", ["leaf02:swp2"])
    for namespace, port in ((running.spec.namespace("leaf02"), "swp2"), (running.spec.namespace("spine02"), "swp2")):
        shown = subprocess.run(
            ["ip", "-n", namespace, "link", "show", port], capture_output=True, text=True, check=True
        )
        assert "NO-CARRIER" in shown.stdout
        assert ",UP>" in shown.stdout
    lab.repair(running.name)
    until_equal(lambda: neighbours(running, "leaf02").get("swp2"), "spine02:swp2")


def test_lldpd_of_a_switch_starts_again_after_a_crash(running):
    def seen() -> str | None:
        try:
            return neighbours(running, "spine02").get("swp2")
        except LabError:  # nobody answers just then
            return None

    until_equal(seen, "leaf02:swp2")
    before = lldpd_crashes(running, "spine02")
    inside = switch.inside(running.spec, "spine02")
    monitor = _run([*inside, "pgrep", "--oldest", "--exact", "lldpd"]).strip()
    _run([*inside, "pkill", "--signal", "SEGV", "--parent", monitor, "--exact", "lldpd"])
    until_equal(lambda: lldpd_crashes(running, "spine02") > before, True)
    until_equal(seen, "leaf02:swp2")


def lldpd_crashes(running: RunningLab, name: str) -> int:
    return _run([*switch.inside(running.spec, name), "cat", "/var/log/lldpd.log"]).count("lldpd ended")


def test_a_dead_switch_is_dark_and_comes_back(running):
    lab.fault(running.name, "switch-dead", ["spine02"])
    assert running.view("spine02")["power"] == "Off"
    until_equal(lambda: neighbours(running, "leaf01").get("swp2"), None)
    lab.repair(running.name)
    until_equal(lambda: neighbours(running, "leaf01").get("swp2"), "spine02:swp1")


def test_an_outlet_pressed_off_is_off_at_the_pdu_and_the_device_stays_up(running):
    done = lab.fault(running.name, "outlet-off", ["leaf01"])
    assert running.view("leaf01")["power"] == "On"
    assert len(running.view("leaf01")["supplies"]) == 1
    outlet = next(o for o in running.spec.outlets if o.device == "leaf01")
    assert done == f"outlet {outlet.number} of {outlet.pdu} switched off by hand"
    pdu = running.spec.pdu(outlet.pdu)
    states = {o["number"]: o["on"] for o in Pdu(pdu.address, snmp_credentials(running.site), name=pdu.name).outlets()}
    assert [number for number, on in states.items() if not on] == [outlet.number]


def test_a_node_without_power_is_off_and_on_again_after_repair(running):
    bmc(running, "gpu003").power("On")
    lab.fault(running.name, "node-power-lost", ["gpu003"])
    assert (running.view("gpu003")["power"], running.view("gpu003")["supplies"]) == ("Off", [])
    lab.repair(running.name)
    assert (running.view("gpu003")["power"], running.view("gpu003")["ready"]) == ("On", True)
    bmc(running, "gpu003").power("ForceOff")


def test_a_line_configured_by_hand_runs_and_is_removed(running):
    def shown() -> bool:
        return "198.51.100.0/24" in _run([*switch.inside(running.spec, "leaf02"), "vtysh", "-c", "show running-config"])

    lab.fault(running.name, "switch-config-drift", ["leaf02"])
    assert shown()
    lab.repair(running.name)
    assert not shown()


def test_a_hanging_bmc_takes_the_connection_and_leaves_the_others_alone(running):
    lab.fault(running.name, "bmc-hang", ["gpu002"])
    with pytest.raises(DeviceTimeout, match="gpu002"):
        bmc(running, "gpu002").state()
    assert bmc(running, "gpu001").state()["power"] == "Off"
    lab.repair(running.name)
    assert bmc(running, "gpu002").state()["power"] == "Off"


def test_a_bmc_that_garbles_is_named_as_such_each_way_and_speaks_again_once_repaired(running):
    for how in GARBLED:
        lab.fault(running.name, "bmc-garbled", ["gpu002", how])
        with pytest.raises(UnreadableAnswer, match="gpu002"):
            bmc(running, "gpu002").state()
        with pytest.raises(UnreadableAnswer, match="gpu002"):
            bmc(running, "gpu002").power("On")
        lab.repair(running.name)
        assert bmc(running, "gpu002").state()["power"] == "Off"
    with pytest.raises(LabError, match="at most one server, and how: page, json, cut, types"):
        lab.fault(running.name, "bmc-garbled", ["page", "cut"])


def test_a_bmc_with_another_identity_is_not_written_to(running):
    lab.fault(running.name, "identity-changed", ["gpu002"])
    assert bmc(running, "gpu002").identity()["serial"] == OTHER_SERIAL
    with pytest.raises(IdentityMismatch, match=OTHER_SERIAL):
        bmc(running, "gpu002").led(True)


def test_a_pdu_with_another_serial(running):
    name = running.spec.pdus[0].name
    lab.fault(running.name, "identity-changed", [name])
    driver = Pdu(running.spec.pdus[0].address, snmp_credentials(running.site), name=name)
    assert driver.identity()["serial"] == OTHER_SERIAL
    lab.repair(running.name)
    assert driver.identity()["serial"] == running.spec.pdus[0].serial


def test_a_switch_with_another_mac(running):
    def mac() -> str:
        return _run([*switch.inside(running.spec, "leaf02"), "cat", "/sys/class/net/eth0/address"]).strip()

    lab.fault(running.name, "identity-changed", ["leaf02"])
    assert mac() == OTHER_MAC
    assert ssh_probe(running.spec.switch("leaf02").address)()
    lab.repair(running.name)
    assert mac() == running.spec.switch("leaf02").mac


def test_stripped_markers_are_gone_and_restored(running):
    pdu = running.spec.pdus[0]
    driver = Pdu(pdu.address, snmp_credentials(running.site), name=pdu.name)

    def told() -> list[str]:
        release = _run([*switch.inside(running.spec, "leaf01"), "cat", "/etc/os-release", "/etc/issue.net"])
        return [driver.identity()["sys_descr"], bmc(running, "gpu001").identity()["manufacturer"], release]

    assert all("simulated" in text.lower() for text in told())
    for device in (pdu.name, "gpu001", "leaf01"):
        lab.fault(running.name, "strip-marker", [device])
    assert not any("simulated" in text.lower() for text in told())
    lab.repair(running.name)
    assert all("simulated" in text.lower() for text in told())


SOFTWARE = sorted(name for name, item in lab.FAULTS.items() if item.needs_software)


@pytest.mark.parametrize("name", sorted(set(lab.FAULTS) - set(SOFTWARE)))
def test_every_fault_of_hardware_has_a_default_target_and_is_undone(running, name):
    assert lab.fault(running.name, name)
    assert [entry["fault"] for entry in lab.active(running.name)] == [name]
    assert len(lab.repair(running.name)) == 1


@pytest.mark.parametrize("name", SOFTWARE)  # on configured servers: tests/validation/test_faults_on_lab.py
def test_a_fault_of_software_says_that_its_server_is_off_and_is_not_in_force(running, name):
    with pytest.raises(LabError, match="is off: switch it on first"):
        lab.fault(running.name, name)
    assert lab.active(running.name) == []


def test_wrong_targets_are_answered_with_what_there_is(running):
    with pytest.raises(LabError, match="no fault fire; there are cable-swap, link-down"):
        lab.fault(running.name, "fire")
    with pytest.raises(LabError, match="no cable ends at leaf01:swp99"):
        lab.fault(running.name, "link-down", ["leaf01:swp99"])
    with pytest.raises(LabError, match="gpu001:eth0 is no port of the in-band fabric"):
        lab.fault(running.name, "link-down", ["gpu001:eth0"])
