import copy
import json

import pytest

from infra.provider.fleet import Reach
from infra.provider.ledger import PowerLedger
from infra.provider.resource import RefusedError
from infra.provider.servers import Servers
from inventory.delivered import power_acts
from network.drivers.redfish import Bmc
from tests.infra.provider.conftest import SECRETS
from tests.infra.provider.fakes import FakeBmc, FakeServer
from tests.network.drivers import redfish_in_memory
from tests.network.drivers.test_redfish import RESOURCES

SITE_ACCOUNT = {"admin": SECRETS["bmc_password"]}
FACTORY_ACCOUNT = {"ADMIN": SECRETS["bmc_factory_password"]}


class Rack:
    """Servers of rack r01 as delivered, the resource type on top of them, and its inputs."""

    def __init__(self, sites, site_file, tmp_path):
        self.servers = {name: FakeServer(name, dict(FACTORY_ACCOUNT), f"S-{name}") for name in ("gpu001", "gpu002")}
        self.ledger = PowerLedger(tmp_path / "powered-on")
        self.kind = Servers(sites, Reach(), self.connect, lambda site: self.ledger)
        self.inputs = {
            "site": str(site_file),
            "rack": "r01",
            "servers": {
                name: {
                    "address": "192.0.2.61",
                    "serial": f"S-{name}",
                    "uuid": "",
                    "login": "site",
                    "factory_login": "refused",
                    "ntp": ["10.77.1.1"],
                    "syslog": ["10.77.0.1", "10.77.0.2"],
                    "protocols_off": ["IPMI", "Telnet"],
                    "boot": "Disabled",
                    "bios": {"Sriov": "Enabled"},
                    "power": "On",
                }
                for name in self.servers
            },
        }

    def connect(self, name, server, credentials, budget_s, acted=None):
        return FakeBmc(self.servers[name], credentials, acted)


@pytest.fixture
def rack(sites, site_file, tmp_path, monkeypatch):
    monkeypatch.setenv("BRINGUP_VAR", str(tmp_path / "var"))
    return Rack(sites, site_file, tmp_path)


def test_create_takes_a_delivered_server_over(rack):
    applied = rack.kind.apply(rack.inputs, None)
    server = rack.servers["gpu001"]
    assert applied.failures == []
    assert server.passwords["admin"] == SECRETS["bmc_password"]
    assert server.passwords["ADMIN"] != SECRETS["bmc_factory_password"]
    assert (server.power_state, server.boot, server.servers) == ("On", ("None", "Disabled"), ["10.77.1.1"])
    assert server.log_servers == ["10.77.0.1", "10.77.0.2"]
    assert server.protocols == {"IPMI": False, "SSH": True}
    assert server.bios_pending == {"Sriov": "Enabled"}
    assert applied.state["powered_on"] == ["gpu001", "gpu002"]
    assert applied.state["firmware"]["gpu001"] == {"BIOS": "1.0.0"}


def test_a_server_without_a_planned_power_state_is_taken_over_and_left_off(rack):
    del rack.inputs["servers"]["gpu001"]["power"]
    assert rack.kind.check(rack.inputs) == []
    applied = rack.kind.apply(rack.inputs, None)
    assert applied.failures == []
    assert (rack.servers["gpu001"].power_state, rack.servers["gpu002"].power_state) == ("Off", "On")
    assert rack.servers["gpu001"].passwords["admin"] == SECRETS["bmc_password"]
    assert applied.state["powered_on"] == ["gpu002"]
    assert "power" not in rack.kind.read(applied.state).state["servers"]["gpu001"]


def test_what_was_switched_on_is_recorded_as_a_power_action_and_what_ran_is_not(rack, tmp_path):
    rack.servers["gpu002"].power_state = "On"
    rack.kind.apply(rack.inputs, None)
    (folder,) = (tmp_path / "var").glob("*/power-acts")
    acts = power_acts.kept(folder)
    assert set(acts) == {"gpu001"}
    act = acts["gpu001"]
    assert (act.serial, act.reset, act.before, act.after) == ("S-gpu001", "On", "Off", "On")


def test_every_server_is_delivered_with_its_own_password_and_gets_its_own(rack, site_file):
    labels = {name: (f"s3cret-label-{name}", f"s3cret-own-{name}") for name in rack.servers}
    table = site_file.with_name("labels.csv")
    table.write_text("device,factory,own\n" + "".join(f"{name},{','.join(own)}\n" for name, own in labels.items()))
    table.chmod(0o600)
    text = site_file.read_text()
    for secret, column in (("bmc_password", "own"), ("bmc_factory_password", "factory")):
        assert f'"file:{secret}"' in text
        text = text.replace(f'"file:{secret}"', f'"table:labels.csv#{column}"')
    site_file.write_text(text)
    for name, server in rack.servers.items():
        server.passwords = {"ADMIN": labels[name][0]}
    applied = rack.kind.apply(rack.inputs, None)
    assert applied.failures == []
    for name, server in rack.servers.items():
        assert server.passwords["admin"] == labels[name][1]
        assert server.passwords["ADMIN"] != labels[name][0]
    assert "s3cret" not in json.dumps(applied.state) + json.dumps(rack.inputs)
    assert rack.kind.read(applied.state).state == applied.state


def test_a_server_whose_label_is_not_listed_is_named_and_the_other_is_set(rack, site_file):
    site_file.write_text(site_file.read_text().replace('"file:bmc_factory_password"', '"file:labels/{device}"'))
    label = site_file.with_name("labels") / "gpu001"
    label.parent.mkdir()
    label.write_text(SECRETS["bmc_factory_password"])
    failure = "\n".join(rack.kind.apply(rack.inputs, None).failures)
    assert failure.startswith("gpu002: log in: expected a password at credentials.bmc.factory.password")
    assert rack.servers["gpu001"].passwords["admin"] == SECRETS["bmc_password"]


def test_a_bmc_that_takes_one_log_server_gets_the_first_and_has_no_drift(rack):
    rack.servers["gpu001"].most_log_servers = 1
    applied = rack.kind.apply(rack.inputs, None)
    assert rack.servers["gpu001"].log_servers == ["10.77.0.1"]
    assert rack.kind.read(applied.state).state == applied.state
    rack.servers["gpu001"].log_servers = ["10.99.0.1"]
    assert rack.kind.read(applied.state).state["servers"]["gpu001"]["syslog"] == ["10.99.0.1"]


def test_ipmi_that_was_switched_on_again_is_drift(rack):
    state = rack.kind.apply(rack.inputs, None).state
    assert rack.kind.read(state).state == state
    rack.servers["gpu001"].protocols["IPMI"] = True
    assert rack.kind.read(state).state["servers"]["gpu001"]["protocols_off"] == ["Telnet"]


def test_secure_boot_is_set_where_the_site_asks_and_what_was_changed_is_drift(rack):
    rack.inputs["servers"]["gpu001"]["secure_boot"] = True
    state = rack.kind.apply(rack.inputs, None).state
    assert {name: server.secure_boot for name, server in rack.servers.items()} == {"gpu001": True, "gpu002": False}
    assert "secure boot True" not in rack.servers["gpu002"].writes
    assert rack.servers["gpu001"].writes.index("secure boot True") < rack.servers["gpu001"].writes.index("On")
    assert rack.kind.read(state).state == state
    rack.servers["gpu001"].secure_boot = False
    assert rack.kind.read(state).state["servers"]["gpu001"]["secure_boot"] is False


def test_a_bmc_without_log_servers_is_named_and_has_all_else_set(rack):
    rack.servers["gpu001"].most_log_servers = 0
    (failure,) = rack.kind.apply(rack.inputs, None).failures
    assert failure.startswith("gpu001: set log servers")
    assert rack.servers["gpu001"].power_state == "On"


def test_a_site_without_log_servers_leaves_those_of_the_bmc(rack):
    for name, server in rack.servers.items():
        server.log_servers = ["10.99.0.1"]
        rack.inputs["servers"][name]["syslog"] = []
    state = rack.kind.apply(rack.inputs, None).state
    assert rack.servers["gpu001"].log_servers == ["10.99.0.1"]
    assert rack.kind.read(state).state == state


def test_a_server_whose_password_must_be_changed_first_is_previewed_and_taken_over(rack):
    state = rack.kind.apply(rack.inputs, None).state
    rack.servers["gpu001"] = FakeServer("gpu001", dict(FACTORY_ACCOUNT), "S-gpu001", must_change={"ADMIN"})
    seen = rack.kind.read(state).state["servers"]["gpu001"]
    assert (seen["login"], seen["factory_login"]) == ("refused", "accepted")
    applied = rack.kind.apply(rack.inputs, state)
    assert applied.failures == []
    assert rack.servers["gpu001"].passwords["admin"] == SECRETS["bmc_password"]
    assert rack.servers["gpu001"].power_state == "On"


def test_profile_is_set_before_power_on(rack):
    rack.kind.apply(rack.inputs, None)
    writes = rack.servers["gpu001"].writes
    assert writes.index("bios") < writes.index("On")


def test_read_after_apply_is_what_was_wanted(rack):
    state = rack.kind.apply(rack.inputs, None).state
    assert rack.kind.read(state).state == state


def test_read_finds_a_server_that_is_off(rack):
    state = rack.kind.apply(rack.inputs, None).state
    rack.servers["gpu002"].power_state = "Off"
    seen = rack.kind.read(state).state["servers"]
    assert (seen["gpu001"]["power"], seen["gpu002"]["power"]) == ("On", "Off")


def test_read_finds_a_factory_password_that_is_back(rack):
    state = rack.kind.apply(rack.inputs, None).state
    rack.servers["gpu001"].passwords = dict(FACTORY_ACCOUNT)
    seen = rack.kind.read(state).state["servers"]["gpu001"]
    assert (seen["login"], seen["factory_login"]) == ("refused", "accepted")


def test_the_same_account_with_the_factory_password_gets_the_sites(rack, site_file):
    site_file.write_text(site_file.read_text().replace("user: ADMIN", "user: admin"))
    rack.servers["gpu001"].passwords = {"admin": SECRETS["bmc_factory_password"]}
    rack.servers["gpu002"].passwords = {"admin": SECRETS["bmc_factory_password"]}
    assert rack.kind.apply(rack.inputs, None).failures == []
    assert rack.servers["gpu001"].passwords == SITE_ACCOUNT


def test_a_server_that_ran_already_is_not_ours_and_is_not_shut_down(rack):
    rack.servers["gpu001"].power_state = "On"
    state = rack.kind.apply(rack.inputs, None).state
    assert state["powered_on"] == ["gpu002"]
    assert rack.kind.delete(state) == []
    assert (rack.servers["gpu001"].power_state, rack.servers["gpu002"].power_state) == ("On", "Off")


def test_a_server_that_its_installation_switched_on_is_shut_down(rack):
    del rack.inputs["servers"]["gpu001"]["power"]
    state = rack.kind.apply(rack.inputs, None).state
    rack.servers["gpu001"].power_state = "On"
    rack.ledger.add("gpu001", rack.servers["gpu001"].serial)
    assert rack.kind.delete(state) == []
    assert rack.servers["gpu001"].power_state == "Off"


def test_what_a_killed_run_powered_on_is_still_ours(rack):
    rack.kind.apply(rack.inputs, None)  # its state is lost
    state = rack.kind.apply(rack.inputs, None).state
    assert state["powered_on"] == ["gpu001", "gpu002"]


def test_another_machine_under_the_same_name_is_not_ours(rack):
    rack.kind.apply(rack.inputs, None)
    rack.inputs["servers"]["gpu001"]["serial"] = rack.servers["gpu001"].serial = "S-replacement"
    assert rack.kind.apply(rack.inputs, None).state["powered_on"] == ["gpu002"]


def test_a_server_that_ignores_shutdown_is_forced_off(rack):
    state = rack.kind.apply(rack.inputs, None).state
    rack.servers["gpu001"].ignores_shutdown = True
    assert rack.kind.delete(state) == []
    assert rack.servers["gpu001"].writes[-1] == "ForceOff"


def test_delete_names_the_server_that_it_could_not_shut_down(rack):
    state = rack.kind.apply(rack.inputs, None).state
    rack.servers["gpu001"].silent = True
    assert [reason.split(":")[0] for reason in rack.kind.delete(state)] == ["gpu001"]
    assert rack.servers["gpu002"].power_state == "Off"


def test_one_silent_bmc_leaves_the_other_server_finished(rack):
    rack.servers["gpu001"].silent = True
    applied = rack.kind.apply(rack.inputs, None)
    assert [reason.split(":")[0] for reason in applied.failures] == ["gpu001"]
    assert rack.servers["gpu002"].power_state == "On"
    assert list(applied.state["servers"]) == ["gpu002"]


def test_a_login_that_nobody_accepts_is_named_on_create(rack):
    for server in rack.servers.values():
        server.passwords = {"admin": "somebody-elses"}
    with pytest.raises(RefusedError, match=r"gpu001: .*; gpu002: "):
        rack.kind.apply(rack.inputs, None)


def test_preview_shows_power_and_account_and_writes_nothing(rack):
    lines = rack.kind.preview(rack.inputs, None)
    assert 'gpu001 ~ login: "refused" => "site"' in lines
    assert 'gpu001 ~ power: "Off" => "On"' in lines
    assert rack.servers["gpu001"].writes == []


def test_all_of_a_server_is_read_in_one_session(rack):
    applied = rack.kind.apply(rack.inputs, None)
    rack.servers["gpu001"].sessions = 0
    assert rack.kind.read(applied.state).failures == []
    assert rack.servers["gpu001"].sessions == 1


def test_no_secret_reaches_state_or_messages(rack):
    applied = rack.kind.apply(rack.inputs, None)
    rack.servers["gpu001"].passwords = {}
    observed = rack.kind.read(applied.state)
    text = json.dumps([applied.state, applied.changed, observed.state, observed.failures])
    assert [value for value in SECRETS.values() if value in text] == []


@pytest.mark.parametrize(("key", "value"), [("power", "Off"), ("boot", "Pxe"), ("login", "factory")])
def test_check_refuses_states_that_cannot_be_brought_about(rack, key, value):
    rack.inputs["servers"]["gpu001"][key] = value
    assert [name for name, _ in rack.kind.check(rack.inputs)] == [f'servers["gpu001"].{key}']


def test_a_bmc_whose_serial_is_a_number_is_named_and_the_other_server_of_the_rack_is_finished(rack, monkeypatch):
    site = copy.deepcopy(RESOURCES)
    site["Systems/1"]["SerialNumber"] = 123456
    redfish_in_memory.serve(monkeypatch, {"192.0.2.61": site})
    in_memory = rack.kind._connect

    def connect(name, server, credentials, budget_s, acted=None):
        if name == "gpu002":
            return in_memory(name, server, credentials, budget_s, acted)
        return Bmc(server["address"], credentials, budget_s, name=name, serial=server["serial"])

    rack.kind._connect = connect
    applied = rack.kind.apply(rack.inputs, None)
    (reason,) = applied.failures
    assert reason.startswith("gpu001: read identity: expected text at serial, saw number 123456; ")
    assert applied.state["results"] == {"gpu001": reason, "gpu002": "done"}
    assert rack.servers["gpu002"].power_state == "On"
    assert any("expected text at serial" in line for line in rack.kind.preview(rack.inputs, None))
