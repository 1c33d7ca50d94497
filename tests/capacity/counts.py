"""Counts that the planner works out in any case are least: one less would not carry what it has to. Each function judges a plan.

`test_counts_least` asks them of some plans, the soak of `test_sizes` of each drawn site.
"""

import math

import numpy as np
import pytest

from capacity.build import build
from capacity.least import with_values
from capacity.model import Plan
from capacity.outputs.summary import summarise
from capacity.power.upstream.loading import check_elements
from capacity.space.devices import outlets_per_rack
from capacity.space.limits import rack_limits
from capacity.space.placement import NETWORK, STORAGE
from tests.capacity.packing import fit


def one_ups_block_less_on_a_feed_overloads_the_others_or_takes_that_of_the_cooling(plan: Plan) -> None:
    standing = plan.elements[plan.elements["kind"] == "ups"].groupby("feed").size()
    for feed, number in standing[standing > 1].items():
        fewer = with_values(plan.site, {"electrical.ups_blocks.installed_by_feed": {str(feed): int(number) - 1}})
        short = build(fewer, what_ifs=False)
        over = [one for one in short.findings if one.severity == "error" and one.id == "POWER-UPS-REDUNDANCY"]
        cooling = short.elements[(short.elements["kind"] == "mechanical") & (short.elements["feed"] == feed)]
        assert over or not cooling["upstream"].eq(f"ups-{feed}-m1").any(), (feed, number)


def one_module_less_in_a_ups_block_does_not_carry_its_load_without_the_redundant_one(plan: Plan) -> None:
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
        found = [one for one in check_elements(short, {}, plan.site.power.code) if one.id == "POWER-UPS-REDUNDANCY"]
        assert usable == 1 or (found and found[0].severity == "error"), plan.elements.loc[row, "name"]


def transformers_are_one_to_a_block_and_one_to_a_board_of_the_cooling(plan: Plan) -> None:
    electrical = plan.site.electrical
    assert electrical is not None
    number = plan.elements["kind"].value_counts()
    on_blocks = plan.elements["upstream"][plan.elements["kind"] == "mechanical"].str.startswith("ups").sum()
    blocks = number["ups"] - on_blocks
    spare = electrical.transformers.n_plus * len(plan.site.power.feeds)
    assert number["transformer"] == blocks + number["mechanical"] + spare


def one_generator_less_does_not_carry_its_feed(plan: Plan) -> None:
    elements = plan.elements
    for feed, bus in elements[elements["kind"] == "generators"].groupby("feed"):
        sets = elements[(elements["kind"] == "generator") & (elements["feed"] == feed)]
        each = float(sets["limit_kw"].iloc[0])
        needed = round(float(bus["limit_kw"].iloc[0]) / each)
        tops = elements[(elements["kind"] == "transformer") & (elements["feed"] == feed)]
        assert (needed - 1) * each < tops["worst_kw"].sum() + 1e-6 or needed == 1, feed


def one_cooling_unit_less_lacks_power_or_flow(plan: Plan) -> None:
    for zone in plan.zones.to_dict("records"):
        heat = zone["air_kw"] if zone["kind"] == "air" else zone["liquid_kw"]
        needed, share = int(zone["needed"]), (zone["needed"] - 1) / zone["needed"]
        short_of_heat = (needed - 1) * zone["unit_kw"] < heat
        short_of_flow = zone["flow_available"] * share < zone["flow_needed"]
        assert needed == 1 or short_of_heat or short_of_flow, zone["zone"]


def one_chiller_tower_or_pump_less_does_not_take_the_design_day(plan: Plan) -> None:
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


def no_fabric_of_fewer_spines_has_the_links_and_the_ports(plan: Plan) -> None:
    """By trying every number of spines: a leaf has as many links to each, its uplinks as many as its servers ask for."""
    counts = summarise(plan)["devices"]["switches"]["compute"]
    assert set(counts) == {"leaf", "spine"}
    fabric = plan.site.fabric
    cables = plan.cables[plan.cables["stage"] == "node-leaf"]
    assert plan.tree is not None
    below = max(int(cables[cables["fabric"] == "compute"]["b_device"].value_counts().max()), plan.tree.unit_nodes)
    up_least = math.ceil(below * fabric.bisection)
    for spines in range(1, counts["spine"]):
        links = math.ceil(up_least / spines)
        leaf_fits = below + links * spines <= fabric.radix
        spine_fits = counts["leaf"] * links <= fabric.radix
        assert not (leaf_fits and spine_fits) or spines < (fabric.least_spines or 1), spines


def one_rack_less_does_not_hold_the_servers(plan: Plan) -> None:
    racks = plan.placements.set_index("device")["rack"]
    gpu = plan.devices.loc[plan.devices["role"] == "gpu", "name"]
    assert racks.loc[gpu].nunique() == math.ceil(len(gpu) / plan.site.rack.servers)


def one_rack_less_does_not_hold_the_switches_and_service_nodes_nor_the_storage(plan: Plan) -> None:
    """A rack that held them would be above its rack units, mass, power or outlets, each an error (SPACE-RACK-*, POWER-OUTLETS)."""
    site, catalog = plan.site, plan.site.catalog
    racks = plan.placements.set_index("device")["rack"]
    boxes = plan.devices[plan.devices["kind"].isin(["server", "switch"])].assign(
        rack=lambda all_: racks.loc[all_["name"]].to_numpy()
    )
    own = boxes[~boxes["rack"].isin(set(boxes.loc[boxes["role"] == "gpu", "rack"]))]
    inlet = own["model"].map(lambda model: catalog.device(model).inlet_type)
    stores = own.groupby("rack")["role"].transform(lambda roles: roles.isin(["storage", "metadata"]).all())
    stores = stores.astype(bool)
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


ALL = (
    one_ups_block_less_on_a_feed_overloads_the_others_or_takes_that_of_the_cooling,
    one_module_less_in_a_ups_block_does_not_carry_its_load_without_the_redundant_one,
    transformers_are_one_to_a_block_and_one_to_a_board_of_the_cooling,
    one_generator_less_does_not_carry_its_feed,
    one_cooling_unit_less_lacks_power_or_flow,
    one_chiller_tower_or_pump_less_does_not_take_the_design_day,
    no_fabric_of_fewer_spines_has_the_links_and_the_ports,
    one_rack_less_does_not_hold_the_servers,
    one_rack_less_does_not_hold_the_switches_and_service_nodes_nor_the_storage,
)
"""Every one of them."""
