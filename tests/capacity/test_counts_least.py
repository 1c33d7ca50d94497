"""Counts that the planner works out in any case are least: one less would not carry what it has to.

They are no keys of the site file, so that `test_sizes` cannot lower them. UPS blocks may stand there already, and the plan of one
less judges them; a block of one module less is judged by the rule of the planner; the others are held against a calculation of
their own. Not held here:

- Circuits and PDUs of a rack follow from choices (`power.feeds`, `power.rack_pdu.per_feed`), as servers of a rack do. How
  large those of racks of switches and storage are is a size (`test_sizes`).
- Transformers: each UPS block has a board and a transformer of its own, and so have the boards of the cooling. Their number
  follows, their rating is a size (`test_sizes`).
"""

import functools
import math

import numpy as np
import pytest

from capacity.build import build
from capacity.least import with_values
from capacity.model import Plan
from capacity.outputs.summary import summarise
from capacity.power.upstream.loading import check_elements
from capacity.sizes import complete
from capacity.space.devices import outlets_per_rack
from capacity.space.limits import rack_limits
from capacity.space.placement import NETWORK, STORAGE
from inventory.site import parse_site
from inventory.site.new import Wanted, site_text
from tests.capacity.packing import fit
from tests.first_sites import FIRST, first_plan, first_site

OTHERS = {
    "gb300-32": Wanted("hall", gpu="gb300", fabric="ib", racks=32),
    "b300-100": Wanted("hall", gpu="b300", fabric="roce", servers=100),
}
PLANS = (*FIRST, *OTHERS)


@functools.cache
def plan_of(name: str) -> Plan:
    if name in FIRST:
        return first_plan(name)
    return build(complete(parse_site(site_text(OTHERS[name]))), what_ifs=False)


@pytest.mark.parametrize("name", FIRST)
def test_one_ups_block_less_on_a_feed_overloads_the_others_or_takes_that_of_the_cooling(name: str) -> None:
    plan = first_plan(name)
    standing = plan.elements[plan.elements["kind"] == "ups"].groupby("feed").size()
    for feed, number in standing[standing > 1].items():
        fewer = with_values(plan.site, {"electrical.ups_blocks.installed_by_feed": {str(feed): int(number) - 1}})
        short = build(fewer, what_ifs=False)
        over = [one for one in short.findings if one.severity == "error" and one.id == "POWER-UPS-REDUNDANCY"]
        cooling = short.elements[(short.elements["kind"] == "mechanical") & (short.elements["feed"] == feed)]
        assert over or not cooling["upstream"].eq(f"ups-{feed}-m1").any(), (feed, number)


@pytest.mark.parametrize("name", PLANS)
def test_one_module_less_in_a_ups_block_does_not_carry_its_load_without_the_redundant_one(name: str) -> None:
    plan = plan_of(name)
    electrical, blocks = plan.site.electrical, plan.elements[plan.elements["kind"] == "ups"]
    assert electrical is not None
    module_kw = plan.site.ups.module_kw
    carried_kw = module_kw * electrical.ups_blocks.permitted_load
    assert not [one for one in plan.findings if one.id == "POWER-UPS-REDUNDANCY"]
    for row in blocks.index:
        usable = round(plan.elements.loc[row, "rating"] / module_kw) - 1
        assert plan.elements.loc[row, "limit_kw"] == pytest.approx(usable * carried_kw)
        short = plan.elements.copy()
        short.loc[row, ["rating", "limit_kw"]] = (usable * module_kw, (usable - 1) * carried_kw)
        found = [one for one in check_elements(short, {}, "nec") if one.id == "POWER-UPS-REDUNDANCY"]
        assert usable == 1 or (found and found[0].severity == "error"), plan.elements.loc[row, "name"]


@pytest.mark.parametrize("name", FIRST)
def test_a_ups_block_of_cooling_has_two_modules_and_not_those_of_a_block_of_racks(name: str) -> None:
    plan = first_plan(name)
    blocks = plan.elements[(plan.elements["kind"] == "ups") & plan.elements["name"].str.contains("-m")]
    assert len(blocks) == len(plan.site.power.feeds)
    assert (blocks["worst_kw"] < 100).all()
    assert (blocks["rating"] == 2 * plan.site.ups.module_kw).all()


def test_ups_modules_that_the_site_states_are_those_of_each_block() -> None:
    plan = build(with_values(first_site("mi355x"), {"electrical.ups_blocks.modules_per_block": 3}), what_ifs=False)
    assert (plan.elements.loc[plan.elements["kind"] == "ups", "rating"] == 750).all()


def test_ups_blocks_of_parts_maintained_under_load_have_modules_for_two_outages() -> None:
    """With two feeds of three out, the third one's cooling draws twice what it does after the loss of one."""
    site = with_values(first_site("h100"), {"electrical.concurrently_maintainable": True})
    plan = build(site, what_ifs=False)
    over = [one for one in plan.findings if one.id == "POWER-MAINTENANCE-LOAD"]
    assert not [one for one in over if one.subject.startswith("ups-")]


@pytest.mark.parametrize("name", PLANS)
def test_transformers_are_one_to_a_block_and_one_to_a_board_of_the_cooling(name: str) -> None:
    plan = plan_of(name)
    electrical = plan.site.electrical
    assert electrical is not None
    number = plan.elements["kind"].value_counts()
    on_blocks = plan.elements["upstream"][plan.elements["kind"] == "mechanical"].str.startswith("ups").sum()
    blocks = number["ups"] - on_blocks
    spare = electrical.transformers.n_plus * len(plan.site.power.feeds)
    assert number["transformer"] == blocks + number["mechanical"] + spare


@pytest.mark.parametrize("name", PLANS)
def test_one_generator_less_does_not_carry_its_feed(name: str) -> None:
    elements = plan_of(name).elements
    for feed, bus in elements[elements["kind"] == "generators"].groupby("feed"):
        sets = elements[(elements["kind"] == "generator") & (elements["feed"] == feed)]
        each = float(sets["limit_kw"].iloc[0])
        needed = round(float(bus["limit_kw"].iloc[0]) / each)
        tops = elements[(elements["kind"] == "transformer") & (elements["feed"] == feed)]
        assert (needed - 1) * each < tops["worst_kw"].sum() + 1e-6 or needed == 1, feed


@pytest.mark.parametrize("name", PLANS)
def test_one_cooling_unit_less_lacks_power_or_flow(name: str) -> None:
    for zone in plan_of(name).zones.to_dict("records"):
        heat = zone["air_kw"] if zone["kind"] == "air" else zone["liquid_kw"]
        needed, share = int(zone["needed"]), (zone["needed"] - 1) / zone["needed"]
        short_of_heat = (needed - 1) * zone["unit_kw"] < heat
        short_of_flow = zone["flow_available"] * share < zone["flow_needed"]
        assert needed == 1 or short_of_heat or short_of_flow, zone["zone"]


@pytest.mark.parametrize("name", PLANS)
def test_one_chiller_tower_or_pump_less_does_not_take_the_design_day(name: str) -> None:
    plan = plan_of(name)
    frame = plan.cooling_figures
    figures = frame[(frame["item"] == "plant") & (frame["subject"] == "design day")].set_index("quantity")["value"]
    assert plan.site.cooling.plant is not None
    facts = plan.site.cooling.plant
    counted = {
        "chillers": (figures["load of the chillers"], facts.chiller_kw),
        "towers or dry coolers": (figures["heat to reject"], facts.reject_kw),
        "pumps": (figures["facility water"], facts.pump_l_s),
    }
    for what, (load, each) in counted.items():
        assert each
        assert figures[f"{what} needed"] == math.ceil(load / each - 1e-9), what
        assert figures[f"{what} installed"] > figures[f"{what} needed"], what


@pytest.mark.parametrize("name", PLANS)
def test_no_fabric_of_fewer_spines_has_the_links_and_the_ports(name: str) -> None:
    """By trying every number of spines: a leaf has as many links to each, its uplinks as many as its servers ask for."""
    plan = plan_of(name)
    counts = summarise(plan)["devices"]["switches"]["compute"]
    assert set(counts) == {"leaf", "spine"}
    fabric = plan.site.fabric
    cables = plan.cables[plan.cables["stage"] == "node-leaf"]
    below = int(cables[cables["fabric"] == "compute"]["b_device"].value_counts().max())
    up_least = math.ceil(below * fabric.bisection)
    for spines in range(1, counts["spine"]):
        links = math.ceil(up_least / spines)
        leaf_fits = below + links * spines <= fabric.radix
        spine_fits = counts["leaf"] * links <= fabric.radix
        assert not (leaf_fits and spine_fits) or spines < (fabric.least_spines or 1), spines


@pytest.mark.parametrize("name", PLANS)
def test_one_rack_less_does_not_hold_the_servers(name: str) -> None:
    plan = plan_of(name)
    racks = plan.placements.set_index("device")["rack"]
    gpu = plan.devices.loc[plan.devices["role"] == "gpu", "name"]
    assert racks.loc[gpu].nunique() == math.ceil(len(gpu) / plan.site.rack.servers)


@pytest.mark.parametrize("name", PLANS)
def test_one_rack_less_does_not_hold_the_switches_and_service_nodes_nor_the_storage(name: str) -> None:
    """A rack that held them would be above its rack units, mass, power or outlets, each an error (SPACE-RACK-*, POWER-OUTLETS)."""
    plan = plan_of(name)
    site, catalog = plan.site, plan.site.catalog
    racks = plan.placements.set_index("device")["rack"]
    boxes = plan.devices[plan.devices["kind"].isin(["server", "switch"])].assign(
        rack=lambda all_: racks.loc[all_["name"]].to_numpy()
    )
    own = boxes[~boxes["rack"].isin(set(boxes.loc[boxes["role"] == "gpu", "rack"]))]
    inlet = own["model"].map(lambda model: catalog.device(model).inlet_type)
    stores = own.groupby("rack")["role"].transform(lambda roles: roles.isin(["storage", "metadata"]).all())
    for use, mine in ((NETWORK, own[~stores]), (STORAGE, own[stores])):
        rack, outlets = rack_limits(site, catalog)[use], outlets_per_rack(site, catalog, sorted(set(inlet)))[use]
        cords = [mine["psu_count"].where(inlet[mine.index] == connector, 0) for connector in outlets]
        needs = np.column_stack([mine["u_height"], mine["mass_kg"], mine["nameplate_w"] / 1000, *cords]).astype(
            np.float64
        )
        mass_kg, power_kw = rack.mass_limit_kg - rack.reserved_kg, rack.power_limit_kw - rack.reserved_kw
        limits = np.array([rack.height_u, mass_kg, power_kw, *outlets.values()], dtype=np.float64)
        number = mine["rack"].nunique()
        assert number == 0 or not fit(needs, limits, number - 1), (use, number)
