"""S068: matrix and filters of the plan, with faults of each kind."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from network import roce
from network.nos.cumulus import startup
from network.nos.frr import nftables
from network.render import render_filter, whole
from tests.plans import plan_of
from tests.validation.bench import probed
from validation.check import Outcome
from validation.checks import test_separation as checks
from validation.facts import Answer, Facts
from validation.facts import separation_acts as acts
from validation.from_raw import FROM_RAW, Again

pytestmark = pytest.mark.clock


@pytest.mark.parametrize(("site", "switches"), [("lab", (6, 0)), ("b200-256-roce", (4, 10))])
def test_filters_of_shipped_sites_say_what_the_matrix_says(site, switches):
    outcome = checks.test_filters_say_what_the_matrix_says(site, plan_of(site))
    assert outcome.passed, outcome.detail
    value: Any = outcome.value
    assert (value["inband_switches"], value["compute_switches"]) == switches
    assert outcome.raw is not None
    assert b"inband,management,any,,denied,in-band switches" in outcome.raw


def test_a_template_that_lets_more_through_fails(monkeypatch):
    def wrong(config):
        return right(config).replace(
            "ip saddr 172.18.0.0/16 ip daddr 172.16.0.0/20 accept",
            "ip saddr 10.77.0.0/24 ip daddr 172.16.0.0/20 accept",
        )

    right = nftables.render
    monkeypatch.setattr(nftables, "render", wrong)
    outcome = checks.test_filters_say_what_the_matrix_says("lab", plan_of("lab"))
    assert not outcome.passed
    assert "leaf01: lacks any from 172.18.0.0/16 to 172.16.0.0/20" in outcome.detail
    assert "spine02: lets through any from 10.77.0.0/24 to 172.16.0.0/20" in outcome.detail


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("forward priority filter; policy drop", "forward priority filter; policy accept", "dropped in input, not in"),
        ("policy drop", "policy accept", "dropped in no chain"),
        ("ip saddr 172.16.0.0/20 ip daddr 172.16.0.0/20 accept", "counter accept", "is no line of this filter"),
    ],
)
def test_a_table_that_does_not_drop_the_rest_fails(right, wrong, said):
    plan = plan_of("lab")
    text = render_filter(plan, "leaf01")
    assert right in text
    assert said in "; ".join(checks.inband_faults(plan, text.replace(right, wrong)))


def test_a_compute_leaf_with_an_open_port_fails(monkeypatch):
    system = roce.SYSTEMS["cumulus"]

    def wrong(config):
        return system.render(config).replace("SEPARATION-CPU: {inbound", "OTHER: {inbound").replace('"4791"', '"22"')

    monkeypatch.setitem(roce.SYSTEMS, "cumulus", dataclasses.replace(system, render=wrong))
    said = list(checks.compute_faults(plan_of("b200-256-roce")))
    assert any(one.startswith("rol001: lets through udp port 22 from ") for one in said)
    assert any(one.startswith("rol001: lacks udp port 4791 from ") for one in said)
    assert not any(one.startswith("ros001") for one in said)


def test_compute_switches_without_a_configuration_fail():
    plan = plan_of("b200-256-roce")
    fabric = plan.site.fabric.model_copy(update={"asn_base": None})
    bare = dataclasses.replace(plan, site=plan.site.model_copy(update={"fabric": fabric}))
    assert next(checks.compute_faults(bare)).startswith("10 compute switches have no configuration, so no filter")
    assert not checks.test_filters_say_what_the_matrix_says("b200-256-roce", bare).passed


# -- applied ------------------------------------------------------------------------------------------------------------
LAB, ROCE = plan_of("lab"), plan_of("b200-256-roce")


def leaf(change: Callable[[str], str], saved: bool = True) -> Outcome:
    """The judgement on leaf01 of the lab when the text that it runs is changed like this."""
    running = change(whole(LAB, "leaf01"))
    data = {"running": running, "diff": "", "saved": saved, "neighbours": {}}
    return checks.test_router_filters_as_planned(
        "leaf01", LAB, Facts(switches={"leaf01": Answer("leaf01", "ssh", data=data)})
    )


def test_a_router_that_filters_as_planned_passes() -> None:
    assert leaf(lambda text: text).passed
    assert "not saved for the next boot" in leaf(lambda text: text, saved=False).detail


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("forward priority filter; policy drop", "forward priority filter; policy accept", "dropped in input, not in"),
        ("daddr 172.16.0.0/20 accept", "daddr 0.0.0.0/0 accept", "lets through any from 172.16.0.0/20 to 0.0.0.0/0"),
        ("\t\tip saddr 172.18.0.0/16 ip daddr 172.18.0.0/16 accept\n", "", "lacks any from 172.18.0.0/16"),
        ('\t\toifname "eth0" drop\n', "", "forwards to or from eth0"),
        ('iifname "eth0" accept', 'iifname "swp3" accept', 'takes for itself: iifname "swp3" accept'),
        ('\t\tiifname "swp1" ip6 saddr fe80::/10 tcp dport 179 accept\n', "", "does not take for itself"),
        ("\t\tip saddr 172.18.0.0/16 ip daddr 172.18.0.0/16 accept\n", "\t\taccept\n", "'accept' is no line"),
    ],
)
def test_a_router_with_a_wrong_filter_fails(right: str, wrong: str, said: str) -> None:
    outcome = leaf(lambda text: text.replace(right, wrong, 1))
    assert not outcome.passed
    assert said in outcome.detail


def test_a_router_without_a_filter_and_a_silent_one_fail() -> None:
    assert "it has no filter" in leaf(lambda text: nftables.cut(text)[1]).detail
    silent = Facts(switches={"leaf01": Answer("leaf01", "ssh", error="no answer")})
    assert checks.test_router_filters_as_planned("leaf01", LAB, silent).detail == "no answer"


def compute(change: Callable[[str], str]) -> Outcome:
    running = change(startup.render(roce.structured_configs(ROCE)["rol001"]))
    data = {"running": running, "diff": "", "saved": True, "neighbours": {}}
    facts = Facts(roce_switches={"rol001": Answer("rol001", "https", data=data)})
    return checks.test_compute_switch_filters_as_planned("rol001", ROCE, facts, roce.models(ROCE))


def test_a_compute_switch_is_judged_by_its_access_lists() -> None:
    assert compute(lambda text: text).passed
    assert "filtered: lacks swp" in compute(lambda text: text.replace("deny: {}", "permit: {}")).detail
    assert "port=22" in compute(lambda text: text.replace('"4791"', '"22"')).detail
    assert compute(lambda text: text.replace("mtu: 9216", "mtu: 1500")).passed, "its MTU is another item's"
    unasked = checks.test_compute_switch_filters_as_planned("rol001", ROCE, Facts(), roce.models(ROCE))
    assert "no answer of it" in unasked.detail


def test_an_address_outside_all_networks_fails():
    plan = plan_of("lab")
    strange = plan.addresses.assign(address=["192.0.2.1/32", *plan.addresses["address"].iloc[1:]])
    outcome = checks.test_filters_say_what_the_matrix_says("lab", dataclasses.replace(plan, addresses=strange))
    assert not outcome.passed
    assert "1 addresses in no network of the matrix, first" in outcome.detail


# -- measured -----------------------------------------------------------------------------------------------------------
PLANNED = acts.probes(LAB)


def answer(name: str, change: Callable[[dict[str, Any]], object] = lambda told: None) -> bytes:
    """What a server of the lab prints where the planned filters hold, changed like this."""
    asked = {what: one._asdict() for what, one in PLANNED[name].items()}
    told: dict[str, Any] = {"nonce": "ab" * 16, "unsent": {}, **probed(asked)}
    change(told)
    return json.dumps(told).encode()


def measured(**changed: bytes) -> Outcome:
    parts = {name: answer(name) for name in PLANNED} | changed
    return checks.test_networks_are_separated("lab", LAB, Facts(), acts.Probed(parts))


def test_probes_go_both_ways_past_each_link_and_have_one_that_is_allowed() -> None:
    mine = PLANNED["gpu001"]
    assert {one.device for one in mine.values()} == {"eth1", "eth2"}
    assert {(one.source_network, one.destination_network) for one in mine.values()} == {
        ("inband", "inband"),
        ("inband", "management"),
    }
    assert mine["management of spine01 by leaf01"] == acts.Probe(
        "inband", "management", "eth1", "172.18.0.0", "172.16.0.7", "10.77.0.11"
    )
    back = {one for one in PLANNED["mgm01"].values() if one.source_network == "management"}
    assert {one.destination_network for one in back} == {"management", "inband"}
    assert {one.source for one in back if one.destination_network == "inband"} == {"172.16.0.13"}


def test_what_the_planned_filters_let_through_passes_and_is_computed_again_from_the_raw_output() -> None:
    outcome = measured()
    assert outcome.passed, outcome.detail
    assert outcome.raw is not None
    assert FROM_RAW["S068.measured"](outcome.raw, "lab", LAB) == Again(outcome.value, [])


def swap(told: dict[str, Any], what: str) -> None:
    """What was reached is silent, and the other way round."""
    one, other = ("reached", "silent") if what in told["reached"] else ("silent", "reached")
    told[one].remove(what)
    told[other].append(what)


def forgotten(told: dict[str, Any]) -> None:
    told["silent"].pop()


def dumb(told: dict[str, Any]) -> None:
    told["unsent"] = dict.fromkeys(told.pop("silent") + told.pop("reached"), "no answer to ARP from 172.18.0.0")
    told |= {"reached": [], "silent": []}


def deaf(told: dict[str, Any]) -> None:
    told["silent"] += told["reached"]
    told["reached"] = []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda told: swap(told, "management of leaf01 by leaf01"),
            "management of leaf01 by leaf01: denied and reached",
        ),
        (lambda told: swap(told, "gpu002 by leaf01"), "gpu002 by leaf01: allowed and not reached"),
        (forgotten, "not tried: it says nothing of it"),
        (dumb, "not tried: no answer to ARP"),
        (deaf, "so silence shows nothing there"),
        (
            lambda told: told["reached"].append("management of Mars"),
            "tells of management of Mars, which it was not asked",
        ),
    ],
)
def test_an_answer_against_the_matrix_fails(change: Callable[[dict[str, Any]], object], said: str) -> None:
    raw = answer("gpu001", change)
    assert said in "; ".join(acts.faults(LAB, "gpu001", raw, PLANNED["gpu001"]))
    outcome = measured(gpu001=raw)
    assert not outcome.passed
    assert outcome.raw is not None
    assert FROM_RAW["S068.measured"](outcome.raw, "lab", LAB).problems


def test_what_is_no_answer_and_a_server_that_is_not_asked_fail() -> None:
    assert not measured(gpu001=b"Traceback").passed
    silent = acts.Probed({}, {"gpu001": "no answer"})
    assert "gpu001: no answer" in checks.test_networks_are_separated("lab", LAB, Facts(), silent).detail


@pytest.mark.needs("root")
def test_the_probe_tells_what_answers_from_what_is_silent() -> None:
    """Two namespaces, a router of the kernel between them and a node behind it; then the router drops."""
    node, router, far = (f"bringup-probe{os.getpid()}-{name}" for name in "nrf")
    probe = {"device": "eth1", "gateway": "10.9.1.1", "source": "10.9.1.2", "port": 22}
    asked = {
        "nonce": "ab",
        "probes": {
            "far": {**probe, "target": "10.9.2.2"},
            "itself": {**probe, "target": "10.9.1.1"},
            "nobody": {**probe, "target": "10.9.2.9"},
            "unknown": {**probe, "target": "10.9.2.2", "gateway": "10.9.1.99"},
        },
    }

    def told() -> dict[str, Any]:
        argv = ["ip", "netns", "exec", node, sys.executable, "-c", acts.PROBE, json.dumps(asked)]
        said: dict[str, Any] = json.loads(
            subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
        )
        return said

    def sh(script: str) -> None:
        subprocess.run(["sh", "-ec", script], check=True, timeout=30, capture_output=True)

    try:
        sh(
            f"for n in {node} {router} {far}; do ip netns add $n; done\n"
            f"ip link add eth1 netns {node} type veth peer name eth1 netns {router}\n"
            f"ip link add eth2 netns {router} type veth peer name eth2 netns {far}\n"
            f"ip -n {node} address add 10.9.1.2/24 dev eth1; ip -n {router} address add 10.9.1.1/24 dev eth1\n"
            f"ip -n {router} address add 10.9.2.1/24 dev eth2; ip -n {far} address add 10.9.2.2/24 dev eth2\n"
            f"ip -n {node} link set eth1 up; ip -n {router} link set eth1 up; ip -n {router} link set eth2 up\n"
            f"ip -n {far} link set eth2 up; ip -n {far} route add default via 10.9.2.1\n"
            f"ip netns exec {router} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'"
        )
        open_ = told()
        assert (sorted(open_["reached"]), open_["silent"]) == (["far", "itself"], ["nobody"])
        assert "no answer to ARP from 10.9.1.99" in open_["unsent"]["unknown"]
        sh(f"ip -n {router} route add blackhole 10.9.2.2/32")
        assert told()["reached"] == ["itself"]
    finally:
        for name in (node, router, far):
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=30, capture_output=True)
