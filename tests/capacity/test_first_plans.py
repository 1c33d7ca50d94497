"""Plans of sites of a few lines: no error, the counts of published tables, and figures beside a calculation by hand."""

import json

import pytest

from capacity.model import Plan
from capacity.outputs.summary import summarise
from tests.capacity import golden
from tests.capacity.by_hand import by_hand, total
from tests.first_sites import FIRST, first_plan

IT_NEAR = 0.005
"""Racks' kW: servers and fabric switches are counted one by one; of the in-band and management switches, which draw 1 % together,
a few more or less are possible by hand."""
FACILITY_NEAR = 0.01
"""The building's kW: by hand, losses in panels, busways and cords are left out, and loads are rounded to three figures."""
COST_NEAR = 0.01
"""The bill: by hand, cables, cords and small spares are a lump of up to 0.5 %, and one switch more is as much again."""


@pytest.mark.parametrize("name", FIRST)
def test_no_error_stands_against_the_plan(name: str) -> None:
    assert not [(one.id, one.subject, one.message) for one in first_plan(name).findings if one.severity == "error"]


@pytest.mark.parametrize("name", FIRST)
def test_summary_equals_its_golden_file(name: str) -> None:
    expected = json.loads(golden.path(f"first-{name}").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(golden.first(name))) == expected, "changed on purpose? python -m tests.capacity.golden"


@pytest.mark.parametrize("name", FIRST)
def test_the_fabric_has_the_counts_of_its_published_table(name: str) -> None:
    by_table = dict(by_hand()[name]["fabric"])
    source = by_table.pop("source")
    figures = summarise(first_plan(name))
    assert figures["devices"]["switches"]["compute"] == {tier: by_table.pop(tier) for tier in ("leaf", "spine")}, source
    cables = {link: sum(counts.values()) for link, counts in figures["cables"]["compute"].items()}
    managers = cables.pop("manager-leaf", 0)
    assert cables == by_table, source
    assert managers == (2 if name == "gb300" else 0)  # a Q3400 has a port of its own for one


@pytest.mark.parametrize("name", FIRST)
def test_power_racks_and_cost_are_near_a_calculation_by_hand(name: str) -> None:
    hand = by_hand()[name]
    figures = summarise(first_plan(name))
    power = figures["power_kw"]
    assert power["site_it"]["nameplate"] == pytest.approx(total(hand["it_kw"]), rel=IT_NEAR)
    facility_kw = total(hand["it_kw"]) + total(hand["building_kw"])
    assert power["site_facility"]["nameplate"]["pue"] == pytest.approx(facility_kw, rel=FACILITY_NEAR)
    assert figures["racks"]["count"] == total(hand["racks"])
    assert figures["purchase"]["cost"] == pytest.approx(total(hand["usd"]), rel=COST_NEAR)


@pytest.mark.parametrize("name", FIRST)
def test_the_calculation_by_hand_leaves_out_no_kind_of_device(name: str) -> None:
    """Each server, switch of the fabric, array and PDU is counted by hand as often as it is planned, and each line has a source."""
    parts = ("racks", "it_kw", "building_kw", "usd")
    assert all(one["source"] for part in parts for one in by_hand()[name][part])
    counted = {one["what"]: one["count"] for one in by_hand()[name]["it_kw"]}
    devices = first_plan(name).devices
    counted.pop("systems", None)
    models = devices[devices["busbar"] < 0]["model"].value_counts()  # without what is in a rack that is bought whole
    servers = {"nvidia-dgx-h100", "nvidia-dgx-b200", "generic-mi355x-8gpu-10u"}
    fabric = {"nvidia-qm9700", "nvidia-sn5600", "nvidia-q3400-ra", "arista-7060x6-64pe"}
    of = {
        "servers": servers,
        "fabric switches": fabric,
        "service nodes": {"generic-service-node-2u"},
        "storage": {"lustre-flash-2u24"},
        "metadata servers": {"metadata-server-2u"},
        "rack PDUs": {"rack-pdu-60a-415v", "rack-pdu-30a-415v"},
        "management switches": {"nvidia-sn2201"},
    }
    assert {what: count for what, count in counted.items() if what in of} == {
        what: sum(models.get(model, 0) for model in kinds) for what, kinds in of.items() if what in counted
    }
    assert set(models.index) <= set().union(*of.values(), {"nvidia-sn4600c"})


def test_the_hall_of_1200_kw_is_not_filled() -> None:
    plan: Plan = first_plan("h100")
    assert plan.site.electrical is not None
    assert plan.site.electrical.utility.firm_mva == 1.2
    assert summarise(plan)["electrical"]["service"]["mva"] < 1.2
