"""S068: matrix and filters of the plan, with faults of each kind."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from network import roce
from network.nos.cumulus import startup
from network.nos.frr import nftables
from network.render import render_filter, whole
from tests.plans import plan_of
from validation.check import Outcome
from validation.checks import test_separation as checks
from validation.facts import Answer, Facts


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
