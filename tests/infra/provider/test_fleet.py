import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from infra.provider.fleet import NotAsked, Reach, each
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


def fail(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize("error", [silent("a"), DeviceTimeout("a", "read", "x", "y", "z"), SecretError("no file")])
def test_reach_closes_when_no_probe_answers(error):
    reach = Reach(probes=2)
    for _ in range(2):
        assert not reach.closed()
        with pytest.raises(type(error)):
            reach.ask("a", fail(error))
    assert reach.closed()
    with pytest.raises(NotAsked, match=r"c: preview: .* none from the first 2 devices"):
        reach.ask("c", lambda: "never called")


def test_reach_stays_open_once_a_device_has_answered():
    reach = Reach(probes=2)
    with pytest.raises(WriteRefused):
        reach.ask("a", fail(WriteRefused("a", "set", "x", "y", "z")))
    for _ in range(5):
        with pytest.raises(Unreachable):
            reach.ask("b", fail(silent("b")))
    assert reach.ask("c", lambda: "asked") == "asked"


def test_no_more_than_the_probes_are_asked_before_an_answer():
    reach, asked, release = Reach(probes=2), [], threading.Event()

    def work(name):
        def answer():
            asked.append(name)
            release.wait(10)
            raise silent(name)

        return reach.ask(name, answer)

    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(work, f"d{number}") for number in range(6)]
        while len(asked) < 2:
            time.sleep(0.01)
        release.set()
        errors = [future.exception() for future in futures]
    assert len(asked) == 2
    assert sum(isinstance(error, NotAsked) for error in errors) == 4
