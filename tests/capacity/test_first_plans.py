"""Plans of sites of a few lines: no error, the counts of published tables, and figures beside a calculation by hand."""

import json
from dataclasses import dataclass

import pytest

from capacity.model import Plan
from capacity.outputs.summary import summarise
from tests.capacity import golden
from tests.first_sites import FIRST, first_plan

NEAR = 0.04
"""How far a calculation by hand, with one figure for each kind of thing, may be from the plan."""


@pytest.mark.parametrize("name", FIRST)
def test_no_error_stands_against_the_plan(name: str) -> None:
    assert not [(one.id, one.subject, one.message) for one in first_plan(name).findings if one.severity == "error"]


@pytest.mark.parametrize("name", FIRST)
def test_summary_equals_its_golden_file(name: str) -> None:
    expected = json.loads(golden.path(f"first-{name}").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(golden.first(name))) == expected, "changed on purpose? python -m tests.capacity.golden"


@pytest.mark.parametrize(
    ("name", "leaves", "spines", "node_leaf", "leaf_spine"),
    [
        # DGX SuperPOD reference architecture of DGX H100 (RA-11333-001), table of larger SuperPODs, two scalable units: 16
        # leaves, 8 spines, 512 cables between them; its first leaf gives up places for UFM, so that it has 63 servers, not 64.
        ("h100", 16, 8, 512, 512),
        # Eight rails of one unit of 32 servers on SN5600 of 128 ports of 400 Gb/s: a leaf a rail, 32 ports down and 32 up;
        # 256 uplinks fill two spines.
        ("b200", 8, 2, 256, 256),
        # Four rails of two units of 72 trays on Q3400 of 144 ports of 800 Gb/s: 72 down, 72 up, 576 uplinks on four spines.
        ("gb300", 8, 4, 576, 576),
        # Eight rails of one unit of 16 servers on 64 ports of 800 Gb/s, 128 of 400: 16 down, 16 up, 128 uplinks on two spines,
        # though one has the ports.
        ("mi355x", 8, 2, 128, 128),
    ],
)
def test_the_fabric_has_the_counts_of_its_design(
    name: str, leaves: int, spines: int, node_leaf: int, leaf_spine: int
) -> None:
    figures = summarise(first_plan(name))
    assert figures["devices"]["switches"]["compute"] == {"leaf": leaves, "spine": spines}
    cables = {link: sum(counts.values()) for link, counts in figures["cables"]["compute"].items()}
    managers = cables.pop("manager-leaf", 0)
    assert cables == {"node-leaf": node_leaf, "leaf-spine": leaf_spine}
    assert managers == (2 if name == "gb300" else 0)  # a Q3400 has a port of its own for one


@dataclass(frozen=True)
class ByHand:
    """A hall as one adds it up on paper.

    ``it_kw``      nameplates of what draws power in the racks
    ``air_kw``     heat of it in the air, kW
    ``cop``        of the chillers; `chilled` is the part of the heat that they see
    ``aux``        fans, pumps and heat rejection for each kW of heat
    ``ups``        efficiency of the UPS; `on_ups_kw` is what it carries apart from IT
    ``racks``      racks of GPU servers, then of the rest
    ``millions``   the large lines of the bill, million USD
    """

    it_kw: float
    chilled: float
    cop: float
    aux: float
    ups: float
    racks: int
    millions: float

    @property
    def facility_kw(self) -> float:
        heat_kw = self.it_kw
        cooling_kw = heat_kw * self.chilled / self.cop + heat_kw * self.aux
        transformers = 1.011
        return (self.it_kw / self.ups + cooling_kw) * transformers


@dataclass(frozen=True)
class Figure:
    """One line of the calculation by hand: how many, each in `unit` (kW, USD), and where both come from."""

    what: str
    count: float
    each: float
    unit: str
    source: str


SERVER_KW = 8 * 1.4 * 1.43
"""Eight GPUs of 1,400 W (The Register, 2025-06-12) and 43 % on top for the rest of a server (RC-071b)."""
ONE_CIRCUIT_KW = 3**0.5 * 415 * 60 * 0.8 / 1000
"""60 A at 415 V and 80 % (NEC 210.20(A), RC-085a); with one of three feeds lost two carry a rack, and its supplies are unevenly on
them: no more than one circuit's worth is counted."""
MI355X = (
    Figure("servers", 16, SERVER_KW, "kW", "128 GPUs of eight a server; see SERVER_KW"),
    Figure(
        "fabric switches",
        10,
        1.1 + 64 * 0.018,
        "kW",
        "eight rails and two spines; 1,100 W (not confirmed) and 64 optics of 18 W",
    ),
    Figure(
        "in-band switches",
        4,
        0.69,
        "kW",
        "SN4000 hardware manual: 466 W (secondary); 64 optics of 3.5 W",
    ),
    Figure("management switches", 4, 0.11, "kW", "SN2201 hardware manual: 98 W (secondary); four optics of 3.5 W"),
    Figure("service nodes", 5, 1.2, "kW", "two processors of 350 W and as much again; planning figure"),
    Figure("storage", 7, 1.6, "kW", "24 drives of 25 W and two controllers of 500 W; planning figure"),
    Figure("metadata servers", 2, 0.9, "kW", "two processors of 250 W, 24 drives of 15 W; planning figure"),
    Figure("rack PDUs", 30, 0.025, "kW", "three in each of ten racks, metering and relays; planning figure"),
    Figure(
        "servers and a spare",
        17,
        330_000,
        "USD",
        "planning figure of 2026, not a quote",
    ),
    Figure("fabric switches", 10, 52_000, "USD", "planning figure of 2026, not a quote"),
    Figure("storage", 7, 290_000, "USD", "planning figure of 2026, not a quote"),
    Figure(
        "optics",
        460,
        900,
        "USD",
        "128 at servers, 64 and 128 twin plugs at switches, 138 in-band; planning figure, not a quote",
    ),
    Figure(
        "UPS modules of 250 kW",
        9,
        60_000,
        "USD",
        "301 kW on three feeds: two and a spare on each; planning figure, not a quote",
    ),
    Figure(
        "spare GPUs",
        4,
        30_000,
        "USD",
        "9.1 % a year over 12 weeks (arXiv 2407.21783) at 95 %; planning figure, not a quote",
    ),
    Figure("service nodes and metadata", 6, 25_000, "USD", "planning figure of 2026, not a quote"),
    Figure("in-band switches", 4, 28_000, "USD", "planning figure of 2026, not a quote"),
    Figure(
        "racks, PDUs, cords, cables, breakers",
        1,
        330_000,
        "USD",
        "ten racks of 2,600, 31 PDUs of 3,200, the rest counted as one; planning figure",
    ),
)
"""What 128 MI355X add up to, with the source of each figure: none is taken from the program."""


def total(unit: str) -> float:
    """The figures of one unit added up."""
    return sum(one.count * one.each for one in MI355X if one.unit == unit)


STORAGE_KW = 13.0
BY_HAND = {
    # 64 servers of 10.2 kW; 24 switches of 1.7 kW; six of 0.47 and seven of 0.1 kW; five service nodes of 0.8 kW; storage. Fans
    # 2 %, pumps 3 %, dry coolers 2 % of the heat. 66 servers, 25 switches, storage, 1,400 optics of 900 USD, nine UPS modules.
    "h100": ByHand(
        it_kw=64 * 10.2 + 24 * 1.7 + 6 * 0.47 + 7 * 0.1 + 5 * 0.8 + STORAGE_KW,
        chilled=1.02,
        cop=5.5,
        aux=0.07,
        ups=0.965,
        racks=64 // 4 + 2,
        millions=66 * 0.29 + 25 * 0.052 + 7 * 0.29 + 1400 * 0.0009 + 9 * 0.06 + 16 * 0.028 + 0.6,
    ),
    # 32 servers of 14.3 kW; ten switches of 2.1 kW; two servers a rack, because four supplies of six carry 13.2 kW.
    "b200": ByHand(
        it_kw=32 * 14.3 + 10 * 2.1 + 4 * 0.47 + 5 * 0.1 + 5 * 0.8 + STORAGE_KW,
        chilled=1.02,
        cop=5.5,
        aux=0.07,
        ups=0.965,
        racks=32 // 2 + 2,
        millions=33 * 0.4 + 10 * 0.052 + 7 * 0.29 + 730 * 0.0009 + 9 * 0.06 + 9 * 0.04 + 0.6,
    ),
    # Eight racks of 142 kW, twelve switches of 5.3 kW and what stands in the five other racks. Chillers see the air only: 18 %.
    "gb300": ByHand(
        it_kw=8 * 142 + 12 * 5.3 + 10 * 0.47 + 3 * 0.1 + 5 * 0.8 + 30.6,
        chilled=0.18,
        cop=6,
        aux=0.05,
        ups=0.965,
        racks=8 + 5,
        millions=8 * 3.7 + 13 * 0.12 + 18 * 0.29 + 2200 * 0.0009 + 24 * 0.06 + 18 * 0.06 + 1.2,
    ),
    "mi355x": ByHand(
        it_kw=total("kW"),
        chilled=1.02,
        cop=5.5,
        aux=0.07,
        ups=0.965,
        racks=16 // int(ONE_CIRCUIT_KW // SERVER_KW) + 2,
        millions=total("USD") / 1e6,
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_it_and_facility_power_are_near_a_calculation_by_hand(name: str) -> None:
    hand = BY_HAND[name]
    power = summarise(first_plan(name))["power_kw"]
    assert power["site_it"]["nameplate"] == pytest.approx(hand.it_kw, rel=NEAR)
    assert power["site_facility"]["nameplate"]["pue"] == pytest.approx(hand.facility_kw, rel=NEAR)


@pytest.mark.parametrize("name", BY_HAND)
def test_racks_and_cost_are_near_a_calculation_by_hand(name: str) -> None:
    hand = BY_HAND[name]
    figures = summarise(first_plan(name))
    assert figures["racks"]["count"] == hand.racks
    assert figures["purchase"]["cost"] / 1e6 == pytest.approx(hand.millions, rel=NEAR)


def test_the_hall_of_1200_kw_is_not_filled() -> None:
    plan: Plan = first_plan("h100")
    assert plan.site.electrical is not None
    assert plan.site.electrical.utility.firm_mva == 1.2
    assert summarise(plan)["electrical"]["service"]["mva"] < 1.2


def test_each_figure_of_the_mi355x_by_hand_has_a_source_and_none_is_left_out() -> None:
    assert all(one.source for one in MI355X)
    plan = first_plan("mi355x")
    servers = plan.devices[plan.devices["model"] == "generic-mi355x-8gpu-10u"]
    assert servers["nameplate_w"].tolist() == pytest.approx([SERVER_KW * 1000] * 16, rel=0.002)
    counted = {one.what: one.count for one in MI355X if one.unit == "kW"}
    models = plan.devices["model"].value_counts()
    assert counted["fabric switches"] == models["arista-7060x6-64pe"]
    assert counted["in-band switches"] == models["nvidia-sn4600c"]
    assert counted["management switches"] == models["nvidia-sn2201"]
    assert counted["storage"] == models["lustre-flash-2u24"]
    assert sum(counted.values()) == len(plan.devices)
