"""S068: matrix and filters of the plan, with faults of each kind."""

import dataclasses
from typing import Any

import pytest

from network import roce
from network.nos.frr import nftables
from network.render import render_filter
from tests.plans import plan_of
from validation.checks import test_separation as checks


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


def test_an_address_outside_all_networks_fails():
    plan = plan_of("lab")
    strange = plan.addresses.assign(address=["192.0.2.1/32", *plan.addresses["address"].iloc[1:]])
    outcome = checks.test_filters_say_what_the_matrix_says("lab", dataclasses.replace(plan, addresses=strange))
    assert not outcome.passed
    assert "1 addresses in no network of the matrix, first" in outcome.detail
