"""A permutation on a RoCE fabric: on counters that are made for a plan, with one thing changed; and the act itself against switches
and servers in memory. Nothing here was read from a device.
"""

import copy
import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from network.drivers.credentials import SshCredentials
from network.drivers.errors import Unreachable
from network.push import Target
from tests.plans import plan_of
from tests.validation.bench import WRITTEN_BW
from tests.validation.test_incast import Spoken
from validation import spreading as judging
from validation.checks import conftest
from validation.checks.test_adaptive_routing import test_adaptive_routing_spreads_a_permutation as check
from validation.facts import Facts, incast, permutation, spreading
from validation.from_raw import FROM_RAW, Again

PLAN = plan_of("b200-256-roce")
found = permutation.planned(PLAN)
assert found is not None
WANTED = found
QUICK = WRITTEN_BW.replace("50.00", "390.00")
ADAPTIVE = dataclasses.replace(
    PLAN,
    site=PLAN.site.model_copy(update={"fabric": PLAN.site.fabric.model_copy(update={"load_balancing": "adaptive"})}),
)
HASHED = dataclasses.replace(
    PLAN, site=PLAN.site.model_copy(update={"fabric": PLAN.site.fabric.model_copy(update={"load_balancing": "ecmp"})})
)


def healthy() -> dict[str, Any]:
    uplinks = [end for each in WANTED.uplinks.values() for end in each]
    return {
        "permutation": json.loads(json.dumps(dataclasses.asdict(WANTED))),
        "sent": dict.fromkeys(uplinks, 1_000_000),
        "resent": dict.fromkeys(WANTED.ends, 0),
        "flows": dict.fromkeys(WANTED.ends, QUICK),
        "errors": {},
    }


def test_two_rails_of_one_unit_write_to_each_other_over_all_uplinks() -> None:
    assert list(WANTED.uplinks) == ["rol001", "rol002"]
    assert (len(WANTED.flows), {len(ends) for ends in WANTED.uplinks.values()}) == (64, {32})
    assert set(WANTED.ends) <= set(spreading.addresses_of(PLAN))


def test_a_hash_of_as_many_flows_as_uplinks_reaches_what_balls_into_bins_do() -> None:
    """4 queue pairs for each uplink, Poisson with mean 4: 1 - E[max(n - 4, 0)] / 4 = 1 - 4^4 e^-4 / 4! = 80.5 % are carried."""
    gb_s, apart = judging.hashed(PLAN, WANTED)
    every = 64 * 400 / 8
    assert 0.805 * every < gb_s < 0.86 * every
    assert 0.5 < apart < 2.0


def test_a_load_that_is_even_and_faster_than_a_hash_passes() -> None:
    made = judging.judge(ADAPTIVE, healthy())
    assert made.problems == []
    assert (made.value["gb_s"], made.value["spread"], made.value["resent"]) == (64 * 390 / 8, 0.0, 0)
    assert FROM_RAW["S057.measured"](json.dumps(healthy()).encode(), "site", ADAPTIVE) == Again(made.value, [])


def slow(said: dict[str, Any]) -> None:
    said["flows"] = dict.fromkeys(WANTED.ends, WRITTEN_BW.replace("50.00", "320.00"))


def uneven(said: dict[str, Any]) -> None:
    for end in WANTED.uplinks["rol002"][:8]:
        said["sent"][end] = 3_000_000


def resent(said: dict[str, Any]) -> None:
    said["resent"][WANTED.ends[2]] = 3


def silent(said: dict[str, Any]) -> None:
    said["flows"][WANTED.ends[0]] = "exit status 1: Couldn't connect"


def unread(said: dict[str, Any]) -> None:
    del said["sent"][WANTED.uplinks["rol001"][0]]


def idle(said: dict[str, Any]) -> None:
    said["sent"] |= dict.fromkeys(WANTED.uplinks["rol001"], 0)


def others(said: dict[str, Any]) -> None:
    said["permutation"]["flows"] = said["permutation"]["flows"][1:]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (slow, "adaptive routing shows no gain"),
        (uneven, "uplinks of a leaf are"),
        (resent, "3 sequence errors: packets out of order were sent again"),
        (silent, f"{WANTED.ends[0]} sent nothing: exit status 1: Couldn't connect"),
        (unread, "rol001: counters of its uplinks began anew or were not read"),
        (idle, "rol001: its uplinks carried nothing of the class"),
        (others, "its senders or uplinks are not those of the plan"),
        (lambda said: said.update(errors={"rol001": "no answer"}), "rol001: no answer"),
    ],
)
def test_what_is_wrong_is_named(change: Callable[[dict[str, Any]], None], words: str) -> None:
    said = copy.deepcopy(healthy())
    change(said)
    assert any(words in one for one in judging.judge(ADAPTIVE, said).problems)


class Request:
    """What the check asks for the run."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.said = said

    def getfixturevalue(self, name: str) -> dict[str, Any]:
        assert name == "permutation_run"
        return self.said


class NoRun:
    """What a check is given that has to end before it asks for the run: it has nothing to ask for."""


def test_the_check_says_what_was_measured_and_what_a_hash_gives() -> None:
    outcome = check("site", ADAPTIVE, Facts(), cast(pytest.FixtureRequest, Request(healthy())))
    assert outcome.passed
    assert outcome.detail.startswith("3120.0 GB/s, uplinks 0% apart; one of twenty hashes of the same flows: ")


def test_a_site_that_hashes_is_not_loaded() -> None:
    outcome = check("site", HASHED, Facts(), cast(pytest.FixtureRequest, NoRun()))
    assert (outcome.passed, outcome.value) == (False, None)
    assert "load_balancing is ecmp" in outcome.detail


# -- the act -----------------------------------------------------------------------------------------------------------
class Uplinks(Spoken):
    """A switch whose uplinks have sent a thousand packets for each time that it was read."""

    def queue_counters(self, ports: Iterable[str]) -> dict[str, dict[str, int]]:
        told = super().queue_counters(ports)
        return {port: {"sent/3": 1000 * one["sent/3"]} for port, one in told.items()}


class Hosts:
    """Servers that count and send; gpu003 is off in `dark`."""

    dark = False

    def __init__(self, plan: Any) -> None:
        """Nothing is opened."""

    def ask(self, name: str, request: dict[str, Any], budget_s: float) -> Any:
        if Hosts.dark and name == "gpu003":
            raise Unreachable(name, "try", "an SSH server", "nothing", "check its power")
        if request["do"] == "count":
            return {"counters": {rail: {"packet_seq_err": 4} for rail in request["rails"]}}
        if request["do"] == "send":
            assert request["target"] == spreading.addresses_of(PLAN)[RECEIVER_OF[name, request["rail"]]]
            return {"status": 0, "printed": QUICK}
        return {"ended": {}}


RECEIVER_OF = {tuple(sender.split(":")): receiver for sender, receiver in WANTED.flows}


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = SshCredentials("nobody", Path("no-key"), Path("no-hosts"))
    monkeypatch.setattr(Spoken, "readings", 0)
    monkeypatch.setattr(spreading, "Hosts", Hosts)
    monkeypatch.setattr(spreading, "driver", lambda system: Uplinks)
    monkeypatch.setattr(incast, "driver", lambda system: Uplinks)
    monkeypatch.setattr(spreading, "public_key", lambda site, of: "")
    monkeypatch.setattr(
        spreading, "compute_targets", lambda *_: [Target(name, "", nobody, "") for name in WANTED.uplinks]
    )
    monkeypatch.setattr(spreading, "READY_S", 0.0)


def test_the_act_counts_loads_and_counts_again(devices: None) -> None:
    said = conftest.try_adaptive(ADAPTIVE, Facts(), {})
    assert said["errors"] == {}
    assert set(said["sent"].values()) <= {1000, 2000, 3000}
    assert judging.judge(ADAPTIVE, said).problems == []


def test_a_server_that_does_not_answer_ends_it(devices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hosts, "dark", True)
    said = conftest.try_adaptive(ADAPTIVE, Facts(), {})
    assert set(said) == {"errors"}
    assert "gpu003" in said["errors"]


def test_a_system_that_counts_no_queues_is_named(devices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreading, "driver", lambda system: object)
    assert "reads no counters of queues" in str(conftest.try_adaptive(ADAPTIVE, Facts(), {}))
