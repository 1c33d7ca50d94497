"""The act of stopping the master subnet manager, on hosts that live in memory."""

from pathlib import Path

import pytest

from network.drivers.errors import DeviceTimeout, Unreachable
from validation.facts import takeover

DISCOVERY = (Path(__file__).parents[1] / "network" / "data" / "infiniband" / "ibnetdiscover.txt").read_text()
SM = "sminfo: sm lid 1 sm guid 0x2420a0003008301, activity count 1 priority 15 state 3 SMINFO_{}\n"


class Subnet:
    """Two hosts that share a subnet; `follows` says whether the standby takes over."""

    def __init__(self, follows=True, lost=()):
        self.running, self.follows, self.lost, self.links = True, follows, list(lost), DISCOVERY


class Host:
    def __init__(self, subnet, first, broken_at=""):
        self.subnet, self.first, self.broken_at = subnet, first, broken_at

    def _may(self, act):
        if act == self.broken_at:
            raise Unreachable("mgm01", act, "an SSH server", "nothing", "check its power")

    def read(self):
        self._may("read")
        states = ("MASTER", "") if self.first else ("STANDBY", "MASTER")
        state = states[0] if self.subnet.running else states[1]
        return {"manager": {"own": SM.format(state) if state else ""}}

    def fabric(self, budget_s=0):
        return {"ibnetdiscover": self.subnet.links}

    def watch(self, lids, budget_s):
        assert len(lids) == 34
        return {"master": self.subnet.follows, "sent": 40, "lost": self.subnet.lost}

    def stop(self):
        self._may("stop")
        self.subnet.running = False

    def start(self):
        self._may("start")
        self.subnet.running = True


def observed(subnet, **broken):
    master = Host(subnet, True, broken.get("master", ""))
    return takeover.observe("mgm01", master, "ctl01", Host(subnet, False, broken.get("standby", "")))


def test_a_takeover_is_seen_and_the_master_put_back():
    subnet = Subnet()
    seen = observed(subnet)
    assert (seen.error, seen.restored, seen.sent, seen.lost) == ("", True, 40, ())
    assert seen.links_before == seen.links_after == 132
    assert subnet.running


def test_a_standby_that_does_not_follow_is_an_error_and_the_master_is_put_back():
    subnet = Subnet(follows=False)
    seen = observed(subnet)
    assert seen.error == f"ctl01 did not become master within {takeover.WATCH_BUDGET_S:g} s"
    assert seen.restored
    assert subnet.running


def test_lost_datagrams_are_kept():
    assert observed(Subnet(lost=["7"])).lost == ("7",)


def test_without_a_standby_nothing_is_stopped():
    subnet = Subnet()
    subnet.running = False
    assert "nothing was stopped" in observed(subnet).error


def test_a_standby_that_cannot_be_asked_stops_nothing():
    subnet = Subnet()
    assert observed(subnet, standby="read").error.startswith("nothing was stopped: mgm01: read")
    assert subnet.running


def test_a_master_that_cannot_be_started_again_is_an_error():
    seen = observed(Subnet(), master="start")
    assert not seen.restored
    assert "mgm01 was not put back" in seen.error


def test_a_watch_that_ends_in_an_error_still_puts_the_master_back(monkeypatch):
    def hang(self, lids, budget_s):
        raise DeviceTimeout("ctl01", "watch", "an end", "none", "look at its console")

    monkeypatch.setattr(Host, "watch", hang)
    subnet = Subnet()
    seen = observed(subnet)
    assert seen.error.startswith("ctl01: watch")
    assert seen.restored
    assert subnet.running


@pytest.mark.parametrize("field", ["seconds", "sent", "lost", "restored"])
def test_what_was_seen_is_plain_data_for_evidence(field):
    assert field in observed(Subnet()).data
