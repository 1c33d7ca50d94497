import threading

import pytest

from infra.provider.fleet import Reach, each
from inventory.secrets import SecretError
from network.drivers.errors import DeviceTimeout, Unreachable, WriteRefused


def silent(name):
    return Unreachable(name, "read", "an answer", "none", "check its cable")


def test_one_bad_device_stops_no_other_and_is_named():
    def work(name):
        if name == "b":
            raise silent(name)
        return name.upper()

    outcome = each(["a", "b", "c"], work, 5, "read")
    assert outcome.done == {"a": "A", "c": "C"}
    assert outcome.reasons() == ["b: read: expected an answer, saw none; check its cable"]


def test_a_device_that_hangs_is_a_timeout_with_its_name():
    release = threading.Event()
    outcome = each(["a"], lambda name: release.wait(10), 0.05, "set outlets")
    release.set()
    assert outcome.reasons()[0].startswith("a: set outlets: expected an end within 0.05 s")


def test_a_missing_secret_is_the_devices_failure():
    def work(name):
        raise SecretError("file:/x: cannot read")

    assert each(["a"], work, 5, "read").reasons() == ["a: file:/x: cannot read"]


def test_a_defect_is_raised():
    def work(name):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        each(["a"], work, 5, "read")


def test_no_device_is_no_work():
    outcome = each([], lambda name: name, 5, "read")
    assert (outcome.done, outcome.failed) == ({}, {})


@pytest.mark.parametrize("error", [silent("a"), DeviceTimeout("a", "read", "x", "y", "z"), SecretError("no file")])
def test_reach_closes_when_nobody_answers(error):
    reach = Reach(misses=2)
    reach.saw(error)
    assert reach.open()
    reach.saw(error)
    assert not reach.open()


def test_reach_stays_open_once_a_device_has_answered():
    reach = Reach(misses=2)
    reach.saw(WriteRefused("a", "set", "x", "y", "z"))
    for _ in range(5):
        reach.saw(silent("b"))
    assert reach.open()
