"""The lossless class under an incast: on counters that are made for a plan, with one thing changed; and the act itself against
drivers and servers in memory. Nothing here was read from a device.
"""

import copy
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from network.drivers.credentials import SshCredentials
from network.drivers.errors import Unreachable
from network.drivers.ssh import with_request
from network.push import Target
from tests.plans import plan_of
from tests.validation.bench import WRITTEN_BW
from tests.validation.test_roce import PLAN
from validation import incast as judging
from validation.checks import conftest
from validation.checks import test_incast as checks
from validation.facts import Facts, incast, incast_node
from validation.from_raw import FROM_RAW, Again

found = incast.planned(PLAN)
assert found is not None
WANTED = found
RECEIVER = "gpu001:rail0"
LEAF_PORT = next(other for one, other in WANTED.cables if one == RECEIVER)
SENDER = next(f"{flow.server}:{flow.rail}" for flow in WANTED.flows if flow.rail == "rail0")
SENDER_PORT = next(other for one, other in WANTED.cables if one == SENDER)


def test_half_of_the_senders_pass_the_spines() -> None:
    assert (WANTED.receiver, WANTED.rail, WANTED.target) == ("gpu001", "rail0", "10.76.0.1")
    assert len(WANTED.flows) == incast.SENDERS
    assert sorted({flow.rail for flow in WANTED.flows}) == ["rail0", "rail1"]
    assert len({flow.port for flow in WANTED.flows}) == incast.SENDERS
    assert set(WANTED.ports) == {"rol001", "rol002", "ros001", "ros002"}
    assert len(WANTED.cables) == 1 + incast.SENDERS + 2 * 32  # two leaves with 32 links to the spines
    assert incast.planned(plan_of("h100-1000-ib")) is None


def counted(end: str) -> dict[str, int]:
    switch = end.partition(":")[0] in WANTED.ports
    words = judging.SWITCH_WORDS if switch else judging.SERVER_WORDS
    made = {f"{word}/{number}": 1000 * (word == "sent") for word in words for number in range(8)}
    return made if switch else {**made, "notified": 7, "slowed": 7}


def healthy() -> dict[str, Any]:
    """An incast as it has to be: the leaf marks, then pauses a sender, and nothing is lost."""
    ends = list(incast.ends(WANTED))
    before = {end: counted(end) for end in ends}
    later = copy.deepcopy(before)
    for flow in WANTED.flows:
        later[f"{flow.server}:{flow.rail}"]["sent/3"] += 1_000_000
    later[RECEIVER]["received/3"] += 8_000_000
    later[RECEIVER]["notified"] += 500
    later[RECEIVER]["sent/6"] += 500
    later[LEAF_PORT]["sent/3"] += 8_000_000
    later[LEAF_PORT]["marked/3"] += 9_000
    later[SENDER_PORT]["pauses_sent/3"] += 40
    later[SENDER]["pauses_received/3"] += 40
    for a, b in WANTED.cables:
        for end in (a, b):
            if end.startswith("ros"):
                later[end]["sent/3"] += 60_000
    samples = [[0.1, {"marked/3": 0, "pauses_sent/3": 0}], [1.1, {"marked/3": 800, "pauses_sent/3": 0}]]
    samples.append([2.1, {"marked/3": 2000, "pauses_sent/3": 9}])
    flows = {f"{flow.server}:{flow.rail}": WRITTEN_BW for flow in WANTED.flows}
    return {
        "incast": dataclasses.asdict(WANTED),
        "before": before,
        "after": copy.deepcopy(later),
        "later": later,
        "samples": samples,
        "flows": flows,
        "errors": {},
    }


def rose(said: dict[str, Any], end: str, name: str, amount: int) -> dict[str, Any]:
    """The incast in which a counter rose by more."""
    for when in ("after", "later"):
        said[when][end][name] = said[when][end].get(name, 0) + amount
    return said


def test_an_incast_as_it_has_to_be_has_no_fault() -> None:
    value = {"senders": 8, "gb_s": 50.0, "faults": 0, "marked": 9000, "pauses": 40, "dropped": 0}
    for judge in (judging.lossless, judging.marked):
        said = judge(PLAN, healthy())
        assert (said.problems, said.value) == ([], value)


def without_marks(said: dict[str, Any]) -> dict[str, Any]:
    said["samples"] = [[at, {**row, "marked/3": 0}] for at, row in said["samples"]]
    for when in ("after", "later"):
        said[when][LEAF_PORT]["marked/3"] = said["before"][LEAF_PORT]["marked/3"]
    return said


def without_congestion(said: dict[str, Any]) -> dict[str, Any]:
    said = without_marks(said)
    for when in ("after", "later"):
        said[when][SENDER_PORT]["pauses_sent/3"] = said[when][SENDER]["pauses_received/3"] = 0
    said["samples"] = [[0.1, {}]]
    return said


def later_pauses(said: dict[str, Any]) -> dict[str, Any]:
    for end in (SENDER_PORT, SENDER):
        word = "pauses_sent/3" if end == SENDER_PORT else "pauses_received/3"
        said["later"][end][word] += 5
    return said


def pauses_first(said: dict[str, Any]) -> dict[str, Any]:
    said["samples"][1][1] = {"marked/3": 0, "pauses_sent/3": 3}
    return said


def test_a_watchdog_that_fires_on_the_class_is_a_fault() -> None:
    said = rose(healthy(), LEAF_PORT, "storms/3", 2)
    assert f"the PFC watchdog of {LEAF_PORT} fired 2 times on the class" in judging.lossless(PLAN, said).problems


def cleared(said: dict[str, Any]) -> dict[str, Any]:
    said["later"][LEAF_PORT]["sent/3"] = 5
    return said


def unread(said: dict[str, Any]) -> dict[str, Any]:
    del said["later"][LEAF_PORT]
    return said


def uncounted(said: dict[str, Any]) -> dict[str, Any]:
    for when in ("before", "after", "later"):
        said[when][LEAF_PORT] = {name: number for name, number in said[when][LEAF_PORT].items() if "marked" not in name}
    return said


def no_load(said: dict[str, Any]) -> dict[str, Any]:
    said["flows"][SENDER] = "exit status 1: Couldn't connect"
    return said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: rose(said, LEAF_PORT, "dropped/3", 2), f"{LEAF_PORT} dropped 2 packets of the class"),
        (lambda said: rose(said, RECEIVER, "dropped/3", 2), f"{RECEIVER} dropped 2 packets of the class"),
        (without_congestion, "the load did not overload a port, so nothing was shown"),
        (without_marks, "switches sent 40 pauses and marked nothing"),
        (lambda said: rose(said, SENDER_PORT, "pauses_sent/4", 1), f"{SENDER_PORT} paused priority 4"),
        (later_pauses, f"{SENDER_PORT} sent 5 pauses after the load had ended"),
        (
            lambda said: rose(said, SENDER, "pauses_received/3", -3),
            f"{SENDER_PORT} sent 40 pauses, {SENDER} received 37",
        ),
        (pauses_first, "paused senders after 1.1 s and marked 2.1 s: marks have to come first"),
        (lambda said: said | {"samples": []}, "leaf was not read during the load"),
        (cleared, "sent/3 began anew during the load"),
        (unread, f"{LEAF_PORT} was not read"),
        (uncounted, f"{LEAF_PORT} does not count marked"),
        (no_load, f"{SENDER} sent nothing: exit status 1: Couldn't connect"),
        (lambda said: said | {"flows": {}}, "is not in the load"),
        (lambda said: said | {"errors": {"rol001": "rol001: no answer"}}, "rol001: rol001: no answer"),
        (lambda said: {"errors": {"rol001": "rol001: no answer"}}, "rol001: rol001: no answer"),
        (lambda said: {"errors": {}}, "it was not run"),
    ],
)
def test_what_a_class_without_loss_must_not_show_is_named(
    change: Callable[[dict[str, Any]], dict[str, Any]], words: str
) -> None:
    said = judging.lossless(PLAN, change(healthy()))
    assert words in "; ".join(said.problems)
    assert said.value["faults"] == len(said.problems) > 0


def silent_spines(said: dict[str, Any]) -> dict[str, Any]:
    for end in said["later"]:
        if end.startswith("ros"):
            said["after"][end]["sent/3"] = said["later"][end]["sent/3"] = said["before"][end]["sent/3"]
    return said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: rose(said, SENDER, "sent/0", 900_000), f"{SENDER} sent 900000 with 0, 1000000 with 3 as planned"),
        (lambda said: rose(said, RECEIVER, "received/1", 900_000), f"{RECEIVER} received 900000 with 1"),
        (lambda said: rose(said, LEAF_PORT, "sent/5", 900_000), f"{LEAF_PORT} sent 900000 with 5"),
        (lambda said: rose(said, SENDER, "sent/3", -1_000_000), f"{SENDER} sent nothing with priority 3"),
        (lambda said: rose(said, RECEIVER, "received/3", -8_000_000), f"{RECEIVER} received nothing with priority 3"),
        (lambda said: rose(said, LEAF_PORT, "sent/3", -8_000_000), f"{LEAF_PORT} sent nothing from queue 3"),
        (silent_spines, "no switch above rol001 sent it anything from queue 3"),
        (
            lambda said: rose(said, RECEIVER, "sent/6", -100),
            "notified senders 500 times and sent 400 packets with priority 6",
        ),
    ],
)
def test_packets_with_another_mark_are_named_with_their_end(
    change: Callable[[dict[str, Any]], dict[str, Any]], words: str
) -> None:
    assert words in "; ".join(judging.marked(PLAN, change(healthy())).problems)


def test_without_dcqcn_the_order_of_marks_and_pauses_is_not_judged() -> None:
    fabric = PLAN.site.fabric.model_copy(update={"congestion_control": "pfc_only"})
    plan = dataclasses.replace(PLAN, site=PLAN.site.model_copy(update={"fabric": fabric}))
    assert judging.lossless(plan, without_marks(healthy())).problems == []


@pytest.mark.parametrize("item", ["S055.measured", "S056.measured"])
def test_checks_pass_and_their_raw_output_gives_the_same_again(item: str) -> None:
    check = {
        "S055.measured": checks.test_an_incast_loses_nothing_and_marks_before_it_pauses,
        "S056.measured": checks.test_the_load_has_its_priority_on_the_whole_way,
    }[item]
    outcome = check("site", PLAN, Facts(), healthy())
    assert outcome.passed, outcome.detail
    assert outcome.detail.startswith("8 senders, 50 GB/s: ")
    assert FROM_RAW[item](outcome.raw or b"", "site", PLAN) == Again(outcome.value, [])
    outcome = check("site", PLAN, Facts(), {"errors": {"rol001": "none"}})
    assert (outcome.passed, outcome.detail) == (False, "rol001: none")


# -- the act -----------------------------------------------------------------------------------------------------------
class Spoken:
    """A switch whose counters rise with each reading."""

    readings = 0

    def __init__(self, name: str, *_: Any, **__: Any) -> None:
        self.name = name

    def __enter__(self) -> "Spoken":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def queue_counters(self, ports: Iterable[str]) -> dict[str, dict[str, int]]:
        Spoken.readings += 1
        return {port: {"sent/3": Spoken.readings, "marked/3": 0} for port in ports}


class Hosts:
    """Servers that count and send; gpu003 is off in `dark`."""

    dark = False

    def __init__(self, plan: Any) -> None:
        self.asked: list[str] = []

    def ask(self, name: str, request: dict[str, Any], budget_s: float) -> Any:
        if Hosts.dark and name == "gpu003":
            raise Unreachable(name, "try", "an SSH server", "nothing", "check its power")
        if request["do"] == "count":
            return {"counters": {rail: {"tx_prio3_packets": 5, "np_cnp_sent": 1} for rail in request["rails"]}}
        if request["do"] == "send":
            return {"status": 0, "printed": WRITTEN_BW} if name != "gpu004" else {"status": 1, "printed": "no route"}
        return {"ended": {}}


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incast, "Hosts", Hosts)
    monkeypatch.setattr(incast, "driver", lambda system: Spoken)
    monkeypatch.setattr(incast, "public_key", lambda site, of: "")
    nobody = SshCredentials("nobody", Path("no-key"), Path("no-hosts"))
    targets = [Target(name, "", nobody, "") for name in WANTED.ports]
    monkeypatch.setattr(incast, "compute_targets", lambda *_: targets)
    for name in ("READY_S", "SETTLE_S", "SAMPLE_S"):
        monkeypatch.setattr(incast, name, 0.01)
    monkeypatch.setattr(Hosts, "dark", False)


def test_counters_are_read_before_meanwhile_and_after_the_load(devices: None) -> None:
    said = incast.run(PLAN, WANTED)
    assert said["errors"] == {}
    assert set(said["before"]) == set(said["later"]) == set(incast.ends(WANTED))
    assert said["before"][LEAF_PORT]["sent/3"] < said["after"][LEAF_PORT]["sent/3"] < said["later"][LEAF_PORT]["sent/3"]
    assert said["samples"]
    assert said["before"][RECEIVER] == {"sent/3": 5, "notified": 1}
    assert said["flows"]["gpu002:rail0"] == WRITTEN_BW
    assert [text for text in said["flows"].values() if text != WRITTEN_BW] == ["exit status 1: no route"]
    json.dumps(said)


def test_without_all_counters_no_load_is_started(devices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hosts, "dark", True)
    said = incast.run(PLAN, WANTED)
    assert list(said["errors"]) == ["gpu003"]
    assert "flows" not in said


def test_a_system_whose_driver_reads_no_queues_is_named(devices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incast, "driver", lambda system: object)
    said = incast.run(PLAN, WANTED)
    assert "the driver of cumulus reads no counters of queues" in said["errors"]["rol001"]


def test_other_sites_and_those_without_rails_are_not_loaded() -> None:
    assert conftest.try_lossless(plan_of("lab")) == {"errors": {}}


# -- on a server -------------------------------------------------------------------------------------------------------
STATISTICS = """NIC statistics:
     rx_prio3_packets: 40
     tx_prio3_packets: 50
     rx_prio3_pause: 6
     tx_prio3_pause: 7
     rx_prio3_discards: 1
     rx_prio3_buf_discard: 2
     rx_packets: 99
"""


def called(tmp_path: Path, request: dict[str, Any], monkeypatch: pytest.MonkeyPatch, **tools: str) -> Any:
    for name, script in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = with_request(Path(incast_node.__file__).read_text(), request)
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_counters_of_a_server_have_one_word_with_those_of_switches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = called(tmp_path, {"do": "count", "rails": ["rail0"]}, monkeypatch, ethtool=f"cat <<'E'\n{STATISTICS}E")
    assert incast.in_one_word(said["counters"]["rail0"]) == {
        "received/3": 40,
        "sent/3": 50,
        "pauses_received/3": 6,
        "pauses_sent/3": 7,
        "dropped/3": 3,
    }
    assert incast.in_one_word({"np_cnp_sent": 4, "out_of_sequence": 5}) == {"notified": 4, "out_of_sequence": 5}


SEND = {"do": "send", "rail": "rail1", "source": "10.0.0.1", "target": "10.0.0.2", "port": 18515, "seconds": 1}


def test_a_sender_prints_and_one_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = called(tmp_path, {**SEND, "budget_s": 10}, monkeypatch, ib_write_bw='echo "$@"')
    assert said["status"] == 0
    assert "-R -d rail1 -p 18515" in said["printed"]
    assert said["printed"].strip().endswith("-D 1 --bind_source_ip 10.0.0.1 10.0.0.2")
    said = called(tmp_path, {**SEND, "budget_s": 0.2}, monkeypatch, ib_write_bw="sleep 30")
    assert said["status"] == -9
    on_level = {key: value for key, value in SEND.items() if key != "source"} | {"level": 15, "budget_s": 10}
    said = called(tmp_path, on_level, monkeypatch, ib_write_bw='echo "$@"')
    assert said["printed"].startswith("-S 15 -d rail1 -p 18515 ")
    assert said["printed"].strip().endswith("-D 1 10.0.0.2")
    receive = {"do": "receive", "rail": "rail0", "ports": [1, 2], "seconds": 1, "budget_s": 10}
    assert called(tmp_path, receive, monkeypatch, ib_write_bw="exit 3") == {"ended": {"1": 3, "2": 3}}


def test_a_missing_program_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = called(tmp_path, {**SEND, "budget_s": 10}, monkeypatch)
    assert said == {"error": "ib_write_bw is not installed (packages perftest, ethtool)"}
