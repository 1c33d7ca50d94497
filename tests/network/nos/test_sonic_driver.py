"""The driver of SONiC against scripted commands behind a real SSH server: a push that works, and each way in which one can fail."""

import getpass
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from network import roce
from network.drivers.credentials import SshCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceTimeout,
    IdentityMismatch,
    PushIncomplete,
    PushRefused,
    PushRolledBack,
    UnreadableAnswer,
)
from network.nos.choose import driver
from network.nos.sonic import config_db
from network.nos.sonic.databases import READ_AT, UNCORRECTED
from network.nos.sonic.driver import Switch
from tests.network.nos import sonic_commands
from tests.network.sshd import serving
from tests.plans import plan_of

pytestmark = [pytest.mark.clock, pytest.mark.needs("sshd")]

PATIENCE_S = 60
"""For a process that has been told to end, on a machine with much else to do."""

RUNNING: dict[str, Any] = {
    "DEVICE_METADATA": {"localhost": {"hostname": "sonic", "mac": "48:b0:2d:00:00:01", "hwsku": "ACS-SN5600"}},
    "PORT": {"Ethernet8": {"alias": "swp1", "mtu": "9100"}, "Ethernet16": {"alias": "swp2", "mtu": "9100"}},
    "VLAN": {"Vlan100": {"vlanid": "100"}},
    "FEATURE": {"bgp": {"state": "enabled"}},
    "SNMP_USER": {"monitor": {"SNMP_USER_AUTH_PASSWORD": "a passphrase"}},
    "MGMT_INTERFACE": {"eth0|10.77.0.13/22": {"gwaddr": "10.77.0.1"}},
    "INTERFACE": {"Ethernet8": {"NULL": "NULL"}},
}
CONFIG = json.dumps(
    {
        "DEVICE_METADATA": {"localhost": {"hostname": "rol001", "hwsku": "ACS-SN5600"}},
        "PORT": {"Ethernet8": {"alias": "swp1", "mtu": "9216"}, "Ethernet16": {"alias": "swp2", "mtu": "9100"}},
        "INTERFACE": {"Ethernet8": {}},
    }
)
CHANGES = [
    "- DEVICE_METADATA localhost hostname sonic",
    "+ DEVICE_METADATA localhost hostname rol001",
    "- PORT Ethernet8 mtu 9100",
    "+ PORT Ethernet8 mtu 9216",
    "- VLAN Vlan100 vlanid 100",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """An sshd whose logins find SONiC's commands."""
    folder = tmp_path_factory.mktemp("sonic")
    state = sonic_commands.install(folder, RUNNING)
    with serving(folder, sonic_commands.environment(folder)) as port:
        credentials = SshCredentials(getpass.getuser(), folder / "user", folder / "known_hosts")
        yield SimpleNamespace(port=port, credentials=credentials, state=state, home=folder / "home")
        sonic_commands.expire(state)  # ends the timers that are left


@pytest.fixture
def sonic(server):
    """The same switch, fresh."""
    for name in ("running.json", "saved.json"):
        (server.state / name).write_text(json.dumps(RUNNING))
    (server.state / "fault").write_text("")
    (server.state / "expired").unlink(missing_ok=True)
    for left in server.home.glob(".bringup/*"):
        left.unlink()
    return server


def switch(sonic, **arguments):
    return Switch("rol001", "127.0.0.1", sonic.credentials, port=sonic.port, **arguments)


def running(sonic):
    return json.loads((sonic.state / "running.json").read_text())


def test_a_push_is_applied_under_a_timer_confirmed_and_saved(sonic):
    with switch(sonic) as one:
        assert one.load(CONFIG).splitlines() == CHANGES
        assert running(sonic) == RUNNING
        one.commit(sonic_commands.TIMER_S)
        assert one.compare(CONFIG) == ""
        assert not one.saved()
        one.confirm()
        assert one.saved()
        assert one.load(CONFIG) == ""
        shown = one.get()
    kept = running(sonic)
    assert kept["DEVICE_METADATA"]["localhost"]["mac"] == "48:b0:2d:00:00:01"
    assert (kept["SNMP_USER"], kept["MGMT_INTERFACE"]) == (RUNNING["SNMP_USER"], RUNNING["MGMT_INTERFACE"])
    assert "a passphrase" not in shown


def test_sessions_and_ports_have_the_plans_names(sonic):
    with switch(sonic) as one:
        assert one.neighbours() == {"swp1": "Established", "swp2": "Active"}


def test_what_sonics_models_refuse_changes_nothing(sonic):
    (sonic.state / "fault").write_text("refuses")
    with switch(sonic) as one, pytest.raises(PushRefused, match="Data Loading Failed: mtu 99999"):
        one.load(CONFIG)
    assert running(sonic) == RUNNING


def test_a_replacement_that_fails_is_rolled_back(sonic):
    (sonic.state / "fault").write_text("half")
    with switch(sonic) as one:
        one.load(CONFIG)
        with pytest.raises(PushRolledBack, match="change applier"):
            one.commit(sonic_commands.TIMER_S)
    assert running(sonic) == RUNNING


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(sonic):
    with switch(sonic) as one:
        one.load(CONFIG)
        changed = {**RUNNING, "VLAN": {"Vlan7": {"vlanid": "7"}}}
        (sonic.state / "running.json").write_text(json.dumps(changed))
        with pytest.raises(PushRefused, match=r"changed since by somebody else: .* VLAN Vlan7 vlanid 7"):
            one.commit(sonic_commands.TIMER_S)
    assert running(sonic) == changed


def test_a_session_lost_after_the_commit_ends_with_the_earlier_configuration(sonic):
    with switch(sonic) as one:
        one.load(CONFIG)
        one.commit(sonic_commands.TIMER_S)
    with switch(sonic) as other, pytest.raises(PushRefused, match="one waits for its confirmation"):
        other.load(CONFIG)
    assert not one.runs_previous()
    sonic_commands.expire(sonic.state)
    end = time.monotonic() + PATIENCE_S
    while not (running(sonic) == RUNNING and one.runs_previous()) and time.monotonic() < end:
        time.sleep(0.05)
    assert running(sonic) == RUNNING
    assert one.runs_previous()
    with pytest.raises(PushRolledBack, match="rollback timer ran out first"):
        one.confirm()
    one.close()


def test_a_rollback_that_is_asked_for_is_read_back(sonic):
    with switch(sonic) as one:
        one.load(CONFIG)
        one.commit(sonic_commands.TIMER_S)
        assert not one.runs_previous()
        one.rollback()
        assert one.runs_previous()
        (sonic.state / "running.json").write_text("{}")
        with pytest.raises(PushIncomplete, match="expected the earlier configuration"):
            one.rollback()


def test_a_slow_switch_is_a_timeout_and_a_garbled_one_a_bad_answer(sonic, monkeypatch):
    with switch(sonic) as one:
        (sonic.state / "fault").write_text("garbled")
        with pytest.raises(BadAnswer, match="^rol001: read running configuration: expected JSON"):
            one.get()
        (sonic.state / "running.json").write_text('{"PORT": [1]}')
        (sonic.state / "fault").write_text("")
        with pytest.raises(BadAnswer, match="^rol001: read running configuration: expected tables of rows"):
            one.get()
        (sonic.state / "fault").write_text("slow")
        monkeypatch.setattr(Switch, "command_budget_s", 0.3)
        with pytest.raises(DeviceTimeout, match="^rol001: running"):
            one.get()


def test_another_switch_is_never_written_to(sonic, monkeypatch):
    said = "hostname rol002\nmgmt_mac 48:b0:2d:00:00:99\nversion 202505\n"
    monkeypatch.setattr(Switch, "_verb", lambda self, verb, *rest, stdin=b"": said if verb == "facts" else "{}")
    with pytest.raises(IdentityMismatch, match="nothing was written"):
        switch(sonic, mgmt_mac="48:b0:2d:00:00:01").load(CONFIG)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"PORT": 1}'])
def test_what_is_no_config_db_is_refused_before_anything_is_sent(sonic, monkeypatch, text):
    asked = []

    def answer(self, verb, *_):
        asked.append(verb)
        return 0, "{}", ""

    monkeypatch.setattr(Switch, "_compare_identity", lambda self: None)
    monkeypatch.setattr(Switch, "_execute", answer)
    with pytest.raises(PushRefused, match="the text of a config_db.json"):
        switch(sonic).load(text)
    assert "stage" not in asked


def test_what_runs_is_read_back_to_the_planned_model(monkeypatch):
    config = roce.structured_configs(plan_of("b200-256-roce"))["rol001"]
    tables = {
        table: {key: row or {"NULL": "NULL"} for key, row in rows.items()}  # as SONiC shows a row without fields
        for table, rows in json.loads(config_db.render(config)).items()
    }
    monkeypatch.setattr(Switch, "_verb", lambda self, verb: json.dumps(tables) if verb == "running" else "")
    credentials = SshCredentials("netops", Path("key"), Path("hosts"))
    assert config_db.read(Switch("rol001", "127.0.0.1", credentials).get()) == config.model()


def test_all_tables_of_a_rendering_are_the_plans():
    plan = plan_of("b200-256-roce")
    tables = {
        table for config in roce.structured_configs(plan).values() for table in json.loads(config_db.render(config))
    }
    assert tables - config_db.OWNED == {"FLEX_COUNTER_TABLE"}  # the switch keeps its other rows
    assert driver("sonic") is Switch


# ---- databases -------------------------------------------------------------------------------------------------------
def test_counters_of_queues_pauses_and_the_watchdog_are_read_for_each_port(sonic):
    with switch(sonic) as one:
        counted = one.queue_counters(["swp1"])["swp1"]
        assert {name: number for name, number in counted.items() if "pauses" not in name} == {
            "sent/0": 10,
            "marked/0": 0,
            "dropped/0": 0,
            "sent/3": 20,
            "marked/3": 12,
            "dropped/3": 2 + 4,
            "storms/3": 1,
        }
        assert (counted["pauses_sent/3"], counted["pauses_received/3"], counted["pauses_sent/4"]) == (6, 5, 0)
        with pytest.raises(UnreadableAnswer, match="marked of swp2; marks need `counterpoll wredqueue enable`"):
            one.queue_counters(["swp2"])
        with pytest.raises(UnreadableAnswer, match="a number of SAI_QUEUE_STAT_PACKETS at swp3"):
            one.queue_counters(["swp3"])
        with pytest.raises(UnreadableAnswer, match="alias: swp9"):
            one.queue_counters(["swp9"])


def test_ends_of_links_are_read_with_fec_bit_errors_and_light(sonic):
    with switch(sonic) as one:
        ends = one.link_ends(["swp1", "swp2", "swp9"])
    assert set(ends) == {"swp1", "swp2"}
    assert ends["swp1"]["FEC_PRE_BER"] == "1.48e-20"
    assert ends["swp1"]["last_up_time"] == "Mon Nov 24 16:00:00 2025"
    assert (ends["swp1"][UNCORRECTED], ends["swp1"][READ_AT]) == ("4", "1764020000")
    assert ends["swp2"] == {
        "oper_status": "up",
        "speed": "400000",
        "lanes": "17,18,19,20",
        "fec": "N/A",
        "rx1power": "N/A",
        READ_AT: "1764020000",
    }


def test_a_database_that_answers_more_lines_than_asked_for_is_not_read(sonic):
    (sonic.state / "fault").write_text("short")
    with switch(sonic) as one, pytest.raises(UnreadableAnswer, match="lines"):
        one.link_ends(["swp1"])
