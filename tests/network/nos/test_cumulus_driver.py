"""The driver of Cumulus Linux against a scripted endpoint: a push that works, and each way in which one can fail."""

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from network import push as push_module
from network import roce
from network.drivers.credentials import HttpsCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceTimeout,
    IdentityMismatch,
    LoginRefused,
    PushIncomplete,
    PushRefused,
    PushRolledBack,
    Unreachable,
    UnreadableAnswer,
)
from network.nos.choose import driver
from network.nos.cumulus import driver as cumulus
from network.nos.cumulus import startup as cumulus_file
from network.nos.cumulus.driver import SECRET, Switch
from network.nos.trees import difference, missing
from network.push import Target, push
from tests.network.nos.nvue import PASSWORD, Nvue
from tests.network.tls import https, self_signed
from tests.plans import plan_of

pytestmark = pytest.mark.clock

RUNNING: dict[str, Any] = {
    "interface": {
        "eth0": {"ipv4": {"address": {"10.77.0.13/22": {}}, "gateway": {"10.77.0.1": {}}}, "type": "eth"},
        "swp1": {"description": "by hand", "type": "swp"},
    },
    "system": {
        "hostname": "cumulus",
        "aaa": {"user": {"netops": {"hashed-password": "$6$kept"}}},
        "snmp-server": {"username": {"monitor": {"auth-sha": {"a passphrase": {}}}}},
    },
}
CONFIG = yaml.safe_dump(
    [
        {"header": {"model": "all", "nvue-api-version": "nvue_v1"}},
        {
            "set": {
                "interface": {"eth0": {"vrf": "mgmt"}, "swp1": {"link": {"mtu": 9216}, "type": "swp"}},
                "system": {"hostname": "rol001"},
            }
        },
    ]
)
CHANGES = [
    "+ interface eth0 vrf mgmt",
    "- interface swp1 description by hand",
    "+ interface swp1 link mtu 9216",
    "- system hostname cumulus",
    "+ system hostname rol001",
]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def nvue(certificate, monkeypatch):
    """A running switch."""
    monkeypatch.setattr(cumulus, "POLL_S", 0.01)
    monkeypatch.setattr(cumulus, "APPLY_S", 0.5)
    handler = Nvue.fresh(RUNNING)
    with https(handler, certificate) as port:
        handler.at = SimpleNamespace(port=port, credentials=HttpsCredentials("netops", PASSWORD, certificate[0]))
        yield handler


def switch(nvue, **arguments):
    return Switch("rol001", "127.0.0.1", nvue.at.credentials, port=nvue.at.port, **arguments)


def pushed_without_confirmation(nvue):
    with switch(nvue) as one:
        one.load(CONFIG)
        one.commit(40)


def test_a_push_is_applied_under_a_timer_confirmed_and_saved(nvue):
    with switch(nvue, mgmt_mac="48-B0-2D-00-00-01") as one:
        assert one.load(CONFIG).splitlines() == CHANGES
        assert nvue.trees["applied"] == RUNNING
        one.commit(40)
        assert (nvue.confirm_s, nvue.revisions["1"]["state"]) == (40, "confirm")
        assert one.compare(CONFIG) == ""
        one.confirm()
        assert one.saved()
        assert one.load(CONFIG) == ""
    assert nvue.trees["startup"]["system"]["hostname"] == "rol001"


def test_what_is_not_the_plans_stays_and_its_secrets_are_not_shown(nvue):
    with switch(nvue) as one:
        difference_said = one.load(CONFIG)
        one.commit(40)
        one.confirm()
        shown = one.get()
    applied = nvue.trees["applied"]
    assert applied["system"]["aaa"] == RUNNING["system"]["aaa"]
    assert applied["system"]["snmp-server"] == RUNNING["system"]["snmp-server"]
    assert applied["interface"]["eth0"] == {**RUNNING["interface"]["eth0"], "vrf": "mgmt"}
    for secret in ("$6$kept", "a passphrase", PASSWORD):
        assert secret not in difference_said + shown + repr(one._device.credentials)


def test_a_changed_secret_is_a_difference_that_does_not_show_it():
    old, new = ({"system": {"aaa": {"user": {"a": {"hashed-password": value}}}}} for value in ("$6$old", "$6$new"))
    assert difference(old, new, SECRET).splitlines() == [
        "- system aaa user a hashed-password (not shown)",
        "+ system aaa user a hashed-password (not shown)",
    ]


def test_what_nvue_adds_by_itself_is_no_difference(nvue):
    nvue.faults.add("adds")
    with switch(nvue) as one:
        assert "+ bridge domain br_default type vlan-aware" in one.load(CONFIG)
        one.commit(40)
        assert one.compare(CONFIG) == ""
        one.confirm()
    assert missing({"a": {}, "b": {"c": 1}}, {"a": {"x": 1}, "b": {"c": 1}}) == ""
    assert missing({"a": {}, "b": {"c": 1}}, {"b": {"c": 2}}) == "a\nb c 1"


def test_counters_of_queues_and_pauses_are_read_for_each_port(nvue):
    with switch(nvue) as one:
        assert one.queue_counters(["swp1s0"]) == {
            "swp1s0": {
                "sent/0": 10,
                "marked/0": 0,
                "dropped/0": 0,
                "sent/3": 20,
                "marked/3": 12,
                "dropped/3": 1 + 2 + 4,
                "pauses_sent/3": 6,
                "pauses_received/3": 5,
                "pauses_sent/4": 0,
                "pauses_received/4": 0,
            }
        }
        with pytest.raises(UnreadableAnswer, match="dropped, marked, pauses_received, pauses_sent of swp2"):
            one.queue_counters(["swp2"])
        with pytest.raises(UnreadableAnswer, match="a number of swp3 pfc-stats tx-pause-frames"):
            one.queue_counters(["swp3"])


def test_ends_of_links_are_read_with_bit_errors_where_the_release_has_them(nvue):
    with switch(nvue) as one:
        ends = one.link_ends(["swp1", "eth0", "swp9"])
    assert ends == {
        "swp1": {
            "oper-status": "down",
            "raw-ber": "15E-255",
            "effective-ber": "15E-255",
            "effective-errors": "0",
            "time-since-last-clear-min": "395",
        },
        "eth0": {"oper-status": "up"},
    }


def test_facts_and_sessions_are_read(nvue):
    with switch(nvue) as one:
        facts = one.facts()
        assert (facts.hostname, facts.mgmt_mac, facts.version) == ("rol001", "48:b0:2d:00:00:01", "5.11.0")
        assert facts.ports == {"eth0": ("up", 1500), "swp1": ("down", 9216)}
        assert one.neighbours() == {"swp1": "Established", "swp2": "Active"}


def test_what_runs_is_read_back_to_the_planned_model(nvue):
    config = roce.structured_configs(plan_of("b200-256-roce"))["rol001"]
    nvue.trees["applied"] = yaml.safe_load(cumulus_file.render(config))[1]["set"]
    with switch(nvue) as one:
        assert cumulus_file.read(one.get()) == config.model()


def test_another_switch_is_never_written_to(nvue):
    with (
        switch(nvue, mgmt_mac="48:b0:2d:00:00:99") as one,
        pytest.raises(IdentityMismatch, match="nothing was written"),
    ):
        one.load(CONFIG)
    assert {method for method, _ in nvue.asked} == {"GET"}


@pytest.mark.parametrize(
    ("fault", "said"),
    [("refuses keys", "'qoss' is not a known key"), ("refuses commit", "profile roce-5m is not defined")],
)
def test_a_refused_configuration_changes_nothing(nvue, fault, said):
    nvue.faults.add(fault)
    with pytest.raises(PushRefused, match=said):
        pushed_without_confirmation(nvue)
    assert nvue.trees["applied"] == RUNNING


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(nvue):
    with switch(nvue) as one:
        one.load(CONFIG)
        nvue.trees["applied"]["system"]["hostname"] = "changed"
        with pytest.raises(PushRefused, match="changed since by somebody else: . system hostname"):
            one.commit(40)
    assert nvue.trees["applied"]["system"]["hostname"] == "changed"
    assert nvue.revisions["1"]["state"] == "pending"


def test_a_push_that_waits_for_its_confirmation_is_not_overtaken(nvue):
    pushed_without_confirmation(nvue)
    with switch(nvue) as other, pytest.raises(PushRefused, match="revision 1 waits for its confirmation"):
        other.load(CONFIG)


def test_a_timer_that_was_faster_is_a_rollback(nvue):
    with switch(nvue) as one:
        one.load(CONFIG)
        one.commit(40)
        nvue.expire()
        with pytest.raises(PushRolledBack, match="rollback timer ran out first"):
            one.confirm()
        assert one.runs_previous()


def test_a_rollback_is_read_back(nvue):
    with switch(nvue) as one:
        one.load(CONFIG)
        one.commit(40)
        assert not one.runs_previous()
        one.rollback()
        assert one.runs_previous()
    assert nvue.trees["applied"] == RUNNING


def test_a_release_without_a_timer_is_an_error(nvue):
    nvue.faults.add("no timer")
    with pytest.raises(PushIncomplete, match="applied at once, without a timer"):
        pushed_without_confirmation(nvue)


def test_a_session_lost_after_the_commit_ends_with_the_earlier_configuration(nvue, monkeypatch):
    nvue.faults.add("loses its session")

    def later(_seconds):
        nvue.expire()
        nvue.faults.clear()

    monkeypatch.setattr(push_module, "_switch", lambda target, os_name: switch(nvue))
    monkeypatch.setattr(push_module, "CONFIRM_MARGIN_S", 0)
    monkeypatch.setattr("network.push.time.sleep", lambda s: later(s) if s > 1 else None)
    (pushed,) = push([Target("rol001", "127.0.0.1", nvue.at.credentials, CONFIG)], os_name="cumulus", neighbours_s=0)
    assert (pushed.result, isinstance(pushed.error, Unreachable)) == ("rolled-back", True)
    assert nvue.trees["applied"] == RUNNING


def test_a_slow_switch_is_a_timeout_and_a_garbled_one_a_bad_answer(nvue):
    one = switch(nvue)
    nvue.faults.add("garbled")
    with pytest.raises(BadAnswer, match="^rol001: connect: expected JSON"):
        one.connect()
    nvue.faults.add("slow")
    one._device.budget_s = 0.2
    with pytest.raises(DeviceTimeout, match="^rol001: connect: expected an answer within 0.2 s"):
        one.connect()


def test_a_certificate_of_another_ca_is_another_device_and_a_closed_port_no_device(nvue, tmp_path):
    stranger = self_signed(tmp_path)[0]
    with pytest.raises(IdentityMismatch, match="^rol001: connect: expected a certificate signed by"):
        Switch("rol001", "127.0.0.1", HttpsCredentials("netops", PASSWORD, stranger), port=nvue.at.port).connect()
    with pytest.raises(Unreachable, match="^rol001: connect: expected an HTTPS server at 127.0.0.1:1"):
        Switch("rol001", "127.0.0.1", nvue.at.credentials, port=1).connect()
    assert nvue.asked == []


def test_a_refused_login_names_the_user_and_never_the_password(nvue, monkeypatch, caplog):
    monkeypatch.setattr(nvue, "do_GET", lambda handler: handler.answer(403, {}))
    with caplog.at_level(logging.DEBUG), pytest.raises(LoginRefused, match="user netops accepted") as refused:
        switch(nvue).connect()
    assert PASSWORD not in str(refused.value) + caplog.text
    assert "Basic" not in caplog.text


@pytest.mark.parametrize("text", ["", "- 1\n", "a: [", "- header: {}\n", json.dumps([{"set": None}])])
def test_what_is_no_startup_file_is_refused_before_anything_is_sent(nvue, text):
    with switch(nvue) as one, pytest.raises(PushRefused):
        one.load(text)
    assert "POST" not in {method for method, _ in nvue.asked}


def test_the_driver_is_found_by_name():
    assert driver("cumulus") is Switch
