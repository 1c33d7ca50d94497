"""Second paths of the in-band network, on what the lab's switches and servers answered, with one thing changed."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.plans import plan_of
from validation.check import Outcome
from validation.checks import test_redundancy as redundancy
from validation.facts import Answer, Facts

LAB = plan_of("lab")
HEALTHY = Facts.read(Path(__file__).parent / "data" / "healthy.json")


def judged(found: Facts = HEALTHY, switch: str = "leaf01") -> Outcome:
    return redundancy.test_each_server_and_leaf_has_a_second_path(switch, LAB, found)


def changed(kind: str, device: str, **parts: Any) -> Facts:
    answers = dict(getattr(HEALTHY, kind))
    data = copy.deepcopy(dict(answers[device].data))
    for name, value in parts.items():
        data[name] = {**data[name], **value} if isinstance(value, dict) else value
    more: dict[str, Any] = {kind: {**answers, device: dataclasses.replace(answers[device], data=data)}}
    return dataclasses.replace(HEALTHY, **more)


def test_every_switch_of_the_healthy_lab_has_second_paths() -> None:
    for switch in HEALTHY.switches:
        outcome = judged(switch=switch)
        assert outcome.passed, outcome.detail
    assert judged().value == {"servers": 4, "trunks": 2, "faults": 0}
    assert judged(switch="spine01").value == {"servers": 0, "trunks": 4, "faults": 0}


RUNNING = HEALTHY.switches["leaf01"].data["running"]


@pytest.mark.parametrize(
    ("kind", "device", "parts", "words"),
    [
        ("switches", "leaf01", {"ports": {"swp2": {"state": "down", "mtu": 9216}}}, "swp2 is down"),
        ("switches", "leaf01", {"neighbours": {"swp2": "Active"}}, "BGP on swp2 is Active"),
        (
            "switches",
            "leaf01",
            {"ports": {"bond0": {"state": "up", "mtu": 9216}}},
            "interfaces beside its ports: bond0",
        ),
        (
            "switches",
            "leaf01",
            {"running": RUNNING.replace(" bgp bestpath as-path multipath-relax\n", "")},
            "one path of several",
        ),
        ("switches", "leaf01", {"running": "frr version 8.4.4\n"}, "no `router bgp`"),
        ("switches", "leaf01", {"held": None}, "does not track its uplinks"),
        (
            "switches",
            "leaf01",
            {"held": ["swp3", "swp4"]},
            "holds ports to servers down, as no uplink has a route: swp3, swp4",
        ),
        (
            "nodes",
            "gpu001",
            {"links": {"eth2": {"state": "DOWN", "mtu": 9000, "mac": "", "addresses": []}}},
            "gpu001:eth2 is DOWN",
        ),
    ],
)
def test_a_path_that_is_closed_fails_the_switch(kind: str, device: str, parts: dict[str, Any], words: str) -> None:
    outcome = judged(changed(kind, device, **parts))
    assert (outcome.passed, words in outcome.detail) == (False, True), outcome.detail
    assert judged(changed(kind, device, **parts), "spine02").passed


def test_a_spine_has_no_servers_to_track_uplinks_for() -> None:
    assert judged(changed("switches", "spine01", held=None), "spine01").passed


def test_a_server_that_does_not_answer_and_a_switch_that_does_not_are_named() -> None:
    lost = {"gpu001": Answer("gpu001", "ssh", error="gpu001: no answer")}
    outcome = judged(dataclasses.replace(HEALTHY, nodes={**HEALTHY.nodes, **lost}))
    assert "the other end at gpu001 is not known: gpu001: no answer" in outcome.detail
    dark = {"leaf01": Answer("leaf01", "ssh", error="leaf01: no answer")}
    assert judged(dataclasses.replace(HEALTHY, switches=dark)).detail == "leaf01: no answer"


def test_a_server_on_one_leaf_and_a_leaf_with_one_link_are_named() -> None:
    cables = LAB.cables
    one = cables[~((cables["a_device"] == "gpu001") & (cables["a_port"] == "eth2"))]
    plan = dataclasses.replace(LAB, cables=one)
    assert (
        "gpu001 hangs on leaf01 alone"
        in redundancy.test_each_server_and_leaf_has_a_second_path("leaf01", plan, HEALTHY).detail
    )
    ends = (cables["a_device"] == "leaf01") | (cables["b_device"] == "leaf01")
    second = ends & (cables["stage"] == "leaf-spine") & ((cables["a_port"] == "swp2") | (cables["b_port"] == "swp2"))
    plan = dataclasses.replace(LAB, cables=cables[~second])
    outcome = redundancy.test_each_server_and_leaf_has_a_second_path("leaf01", plan, HEALTHY)
    assert "has 1 link to other switches" in outcome.detail
