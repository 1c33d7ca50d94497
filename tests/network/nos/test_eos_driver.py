"""The driver of Arista EOS against a scripted endpoint: a push that works, and each way in which one can fail."""

from types import SimpleNamespace

import pytest

from capacity.build import build
from inventory.site.whatif import changed
from network import push as push_module
from network import roce
from network.drivers.credentials import HttpsCredentials
from network.drivers.errors import (
    BadAnswer,
    DeviceTimeout,
    IdentityMismatch,
    PushIncomplete,
    PushRefused,
    PushRolledBack,
    Unreachable,
    UnreadableAnswer,
)
from network.nos.choose import driver
from network.nos.eos import startup_config
from network.nos.eos.counters import link_ends
from network.nos.eos.driver import Switch, parse_diff, with_kept
from network.push import Target, push
from tests.network.nos.eapi import PASSWORD, Eapi
from tests.network.tls import https, self_signed

pytestmark = pytest.mark.clock

RUNNING = """\
username netops privilege 15 role network-admin secret sha512 $6$kept
snmp-server user monitor ops v3 localized f5717f auth sha 11aa priv aes 22bb
interface Ethernet1/1
   description by hand
interface Management1
   vrf MGMT
   ip address 10.77.0.13/22
management api http-commands
   no shutdown
"""
CONFIG = """\
hostname rol001
!
interface Ethernet1/1
   mtu 9214
"""
CHANGES = [
    "- interface Ethernet1/1",
    "- interface Ethernet1/1 / description by hand",
    "+ hostname rol001",
    "+ interface Ethernet1/1",
    "+ interface Ethernet1/1 / mtu 9214",
]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def eapi(certificate):
    """A running switch."""
    handler = Eapi.fresh(RUNNING)
    with https(handler, certificate) as port:
        handler.at = SimpleNamespace(port=port, credentials=HttpsCredentials("netops", PASSWORD, certificate[0]))
        yield handler


def switch(eapi, **arguments):
    return Switch("rol001", "127.0.0.1", eapi.at.credentials, port=eapi.at.port, **arguments)


def pushed_without_confirmation(eapi, config=CONFIG):
    with switch(eapi) as one:
        one.load(config)
        one.commit(40)


def test_a_push_is_applied_under_a_timer_confirmed_and_saved(eapi):
    with switch(eapi, mgmt_mac="44-4C-A8-00-00-02") as one:
        assert one.load(CONFIG).splitlines() == CHANGES
        assert eapi.running == RUNNING
        one.commit(100)
        assert "commit timer 00:01:40" in eapi.asked
        assert one.compare(CONFIG) == ""
        assert not one.saved()
        one.confirm()
        assert one.saved()
        assert one.load(CONFIG) == ""
    assert {session["state"] for session in eapi.sessions.values()} == {"completed"}


def test_what_is_not_the_plans_stays_and_its_secrets_are_not_shown(eapi):
    with switch(eapi) as one:
        one.load(CONFIG)
        one.commit(40)
        one.confirm()
        shown = one.get()
    for line in RUNNING.splitlines()[:2] + RUNNING.splitlines()[4:]:
        assert line in eapi.running
    for secret in ("$6$kept", "11aa", "22bb"):
        assert secret not in shown
    assert "username netops privilege 15 role network-admin secret (not shown)" in shown


def test_a_certificate_of_another_ca_is_another_device_and_gets_no_password(eapi, tmp_path):
    other = self_signed(tmp_path)[0]
    stranger = Switch("rol001", "127.0.0.1", HttpsCredentials("netops", PASSWORD, other), port=eapi.at.port)
    with pytest.raises(IdentityMismatch, match="^rol001: connect: expected a certificate signed by"):
        stranger.connect()
    assert not eapi.asked


def test_sections_that_stay_come_before_the_intended_ones():
    text = with_kept("interface Management1\n   mtu 1500\n", RUNNING)
    assert "by hand" not in text
    assert text.index("ip address 10.77.0.13/22") < text.index("mtu 1500")


def test_a_difference_names_the_section_and_no_secret():
    said = (
        "--- a\n+++ b\n@@ -1,3 +1,3 @@\n interface Ethernet1/1\n-   mtu 1500\n+   mtu 9214\n!\n+username a secret 0 b\n"
    )
    assert parse_diff(said).splitlines() == [
        "- interface Ethernet1/1 / mtu 1500",
        "+ interface Ethernet1/1 / mtu 9214",
        "+ username a secret (not shown)",
    ]


def test_facts_and_sessions_are_read(eapi):
    with switch(eapi) as one:
        facts = one.facts()
        assert (facts.hostname, facts.mgmt_mac, facts.version) == ("rol001", "44:4c:a8:00:00:02", "4.32.1F")
        assert facts.ports == {"Management1": ("up", 1500), "Ethernet1/1": ("down", 9214)}
        assert one.neighbours() == {"Ethernet1/1": "Established", "10.78.1.1": "Idle"}


def test_counters_of_queues_pauses_marks_and_the_watchdog_are_read_for_each_port(eapi):
    with switch(eapi) as one:
        assert one.queue_counters(["Ethernet1/1"])["Ethernet1/1"] == {
            **{f"{word}/{number}": 0 for word in ("sent", "dropped") for number in range(3)},
            "sent/3": 20 + 1,
            "dropped/3": 2,
            "marked/0": 0,
            "marked/3": 12,
            "storms/3": 1,
            "pauses_sent/3": 6,
            "pauses_received/3": 5,
            "pauses_sent/4": 0,
            "pauses_received/4": 0,
        }
        with pytest.raises(
            UnreadableAnswer, match="marked of Ethernet2/1; marks need `hardware counter feature ecn out`"
        ):
            one.queue_counters(["Ethernet2/1"])
        with pytest.raises(UnreadableAnswer, match="sent of each of the classes 0 to 2 at Ethernet3/1"):
            one.queue_counters(["Ethernet3/1"])


def test_ends_of_links_are_read_with_the_worst_phy_of_the_line_and_light(eapi):
    with switch(eapi) as one:
        ends = one.link_ends(["Ethernet1/1", "Ethernet9/1"])
    assert set(ends) == {"Ethernet1/1"}
    assert ends["Ethernet1/1"] == {
        "lineProtocolStatus": "down",
        "bandwidth": "400000000000",
        "lanes": "4",
        "preFecBer": "5.378509864228316e-10",
        "lastStatusChange": "1764000000.5",
        "counterRefresh": "1764020000.25",
        "fec": "reedSolomon",
        "lastUncorrected": "1763999999.75",
        "rxPower1": "-1.46",
        "rxPower2": "-0.09",
        "lowAlarm": "-13.3",
        "highAlarm": "4.5",
    }


@pytest.mark.parametrize("code", [{"name": "reedSolomon"}, ["reedSolomon"], 544, None])
def test_a_code_of_fec_that_is_no_text_counts_as_not_said(code):
    line = {"description": {"location": "line"}, "fec": {"encoding": code}, "preFecBer": {"value": 1e-9}}
    phys = {"interfacePhyStatuses": {"Ethernet1/1": {"phyStatuses": [line]}}}
    interfaces = {"interfaces": {"Ethernet1/1": {"lineProtocolStatus": "up"}}}
    ends = link_ends(["Ethernet1/1"], interfaces, phys, {})
    assert ends == {"Ethernet1/1": {"lineProtocolStatus": "up", "preFecBer": "1e-09"}}


def test_what_runs_is_read_back_to_the_planned_model(eapi):
    """The lines of a rendering stand for what EOS shows of it: no device has confirmed their order."""
    arista = changed("b200-256-roce", ["fabric.switch_model=arista-7060x6-64pe", "fabric.nos=eos", "fabric.mtu=9214"])
    config = roce.structured_configs(build(arista))["rol001"]
    eapi.running = startup_config.render(config)
    with switch(eapi) as one:
        assert startup_config.read(one.get()) == config.model().without_lengths()


def test_another_switch_is_never_written_to(eapi):
    with (
        switch(eapi, mgmt_mac="44:4c:a8:00:00:99") as one,
        pytest.raises(IdentityMismatch, match="nothing was written"),
    ):
        one.load(CONFIG)
    assert not [command for command in eapi.asked if command.startswith("configure")]


def test_a_refused_line_or_commit_changes_nothing(eapi):
    with pytest.raises(PushRefused, match="failed: invalid command: Invalid input"):
        pushed_without_confirmation(eapi, CONFIG.replace("mtu ", "mtuu "))
    eapi.faults.add("refuses commit")
    with pytest.raises(PushRefused, match="a session that EOS commits"):
        pushed_without_confirmation(eapi)
    assert (eapi.running, eapi.sessions) == (RUNNING, {})


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(eapi):
    with switch(eapi) as one:
        one.load(CONFIG)
        eapi.running = RUNNING + "hostname changed\n"
        with pytest.raises(PushRefused, match="changed since by somebody else"):
            one.commit(40)
    assert eapi.running == RUNNING + "hostname changed\n"


def test_a_push_that_waits_for_its_confirmation_is_not_overtaken(eapi):
    pushed_without_confirmation(eapi)
    with switch(eapi) as other, pytest.raises(PushRefused, match="session bringup-.* waits for its confirmation"):
        other.load(CONFIG)


def test_a_timer_that_was_faster_is_a_rollback(eapi):
    with switch(eapi) as one:
        one.load(CONFIG)
        one.commit(40)
        eapi.expire()
        with pytest.raises(PushRolledBack, match="rollback timer ran out first"):
            one.confirm()


def test_a_rollback_is_read_back(eapi):
    with switch(eapi) as one:
        one.load(CONFIG)
        one.commit(40)
        assert not one.runs_previous()
        one.rollback()
        assert one.runs_previous()
        eapi.running = "hostname other\n"
        with pytest.raises(PushIncomplete, match="expected the earlier configuration"):
            one.rollback()


def test_a_release_without_a_timer_is_an_error(eapi):
    eapi.faults.add("no timer")
    with pytest.raises(PushIncomplete, match="state completed"):
        pushed_without_confirmation(eapi)


def test_a_session_lost_after_the_commit_ends_with_the_earlier_configuration(eapi, monkeypatch):
    eapi.faults.add("loses its session")

    def later(_seconds):
        eapi.expire()
        eapi.faults.clear()

    monkeypatch.setattr(push_module, "_switch", lambda target, os_name: switch(eapi))
    monkeypatch.setattr(push_module, "CONFIRM_MARGIN_S", 0)
    monkeypatch.setattr("network.push.time.sleep", lambda s: later(s) if s > 1 else None)
    (pushed,) = push([Target("rol001", "127.0.0.1", eapi.at.credentials, CONFIG)], os_name="eos", neighbours_s=0)
    assert (pushed.result, isinstance(pushed.error, Unreachable)) == ("rolled-back", True)
    assert eapi.running == RUNNING


def test_a_slow_switch_is_a_timeout_and_a_garbled_one_a_bad_answer(eapi):
    one = switch(eapi)
    eapi.faults.add("garbled")
    with pytest.raises(BadAnswer, match="^rol001: connect: expected JSON"):
        one.connect()
    eapi.faults.add("slow")
    one._device.budget_s = 0.2
    with pytest.raises(DeviceTimeout, match="^rol001: connect: expected an answer within 0.2 s"):
        one.connect()


def test_the_driver_is_found_by_name():
    assert driver("eos") is Switch
