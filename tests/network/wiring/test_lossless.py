"""Figures of the lossless class of a shipped RoCE site, and findings where they do not fit."""

import dataclasses

import pytest

from inventory.site import load_site
from network import lossless
from network.wiring.compute import compute_tree
from network.wiring.lossless import check, figures, intent
from tests.plans import plan_of

SITE = "b200-256-roce"


def made_of(plan):
    made = figures(plan.site, 3, plan.cables)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def plan():
    return plan_of(SITE)


@pytest.fixture
def smaller(monkeypatch):
    """Gives the chip of the site's switches another buffer."""

    def give(buffer_bytes: int) -> None:
        model = "nvidia-sn5600"
        chip = dataclasses.replace(lossless.chips()[model], buffer_bytes=buffer_bytes)
        monkeypatch.setattr(lossless, "chips", lambda: {model: chip})

    return give


def found(plan):
    tree, _ = compute_tree(plan.site, plan.catalog)
    return {f.id: f for f in check(plan.site, tree, plan.cables)}


def test_each_cabled_port_of_a_switch_has_the_headroom_of_its_own_cable(plan):
    made = made_of(plan)
    assert len(made.ports) == 256 + 2 * 256  # servers to leaves, both ends of the trunk
    chip = lossless.chips()[plan.site.fabric.switch_model]
    cable = plan.cables[plan.cables["cable_id"] == "gpu001:rail0"].iloc[0]
    port = made.ports[(made.ports["device"] == cable["b_device"]) & (made.ports["port"] == cable["b_port"])].iloc[0]
    assert port["headroom"] == lossless.headroom_bytes(400.0, cable["length_m"], 9216, chip)


def test_marking_lies_below_the_pause_threshold_of_every_switch(plan):
    made = made_of(plan)
    assert len(made.ecn) == 10
    for name, ecn in made.ecn.items():
        assert made.path <= ecn.minimum < ecn.maximum <= made.xoff[name] - 9216


def test_shipped_site_fits_and_names_its_class(plan):
    assert found(plan) == {}
    wanted = intent(plan.site)
    assert wanted is not None
    assert (wanted.dscp, wanted.priority, wanted.cnp_dscp, wanted.marks) == (26, 3, 48, True)
    assert intent(load_site("h100-1000-ib")) is None


def test_a_buffer_that_the_headrooms_take_is_a_finding(plan, smaller):
    smaller(16 << 20)
    buffer = found(plan)["FABRIC-LOSSLESS-BUFFER"]
    assert buffer.numbers["buffer_kib"] == 16 * 1024
    assert {"fabric.mtu": 4200} in [dict(one.settings) for one in buffer.remedies] or len(buffer.remedies) == 1


def test_marking_below_what_the_path_holds_is_said(plan, smaller):
    smaller(32 << 20)
    assert found(plan)["FABRIC-LOSSLESS-ECN"].numbers["minimum_kib"] * 4 <= 273


def test_a_switch_without_figures_is_said(plan, monkeypatch):
    monkeypatch.setattr(lossless, "chips", dict)
    assert found(plan)["FABRIC-LOSSLESS-UNKNOWN"].subject == plan.site.fabric.switch_model
