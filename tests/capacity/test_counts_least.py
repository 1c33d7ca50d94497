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

import pytest

from capacity.build import build
from capacity.least import with_values
from capacity.model import Plan
from capacity.sizes import complete
from inventory.site import parse_site
from inventory.site.new import Wanted, site_text
from tests.capacity import counts
from tests.first_sites import FIRST, first_plan, first_site

pytestmark = pytest.mark.usefixtures("stages_kept")

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
    counts.one_ups_block_less_on_a_feed_overloads_the_others_or_takes_that_of_the_cooling(first_plan(name))


@pytest.mark.parametrize("name", PLANS)
def test_one_module_less_in_a_ups_block_does_not_carry_its_load_without_the_redundant_one(name: str) -> None:
    counts.one_module_less_in_a_ups_block_does_not_carry_its_load_without_the_redundant_one(plan_of(name))


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
    counts.transformers_are_one_to_a_block_and_one_to_a_board_of_the_cooling(plan_of(name))


@pytest.mark.parametrize("name", PLANS)
def test_one_generator_less_does_not_carry_its_feed(name: str) -> None:
    counts.one_generator_less_does_not_carry_its_feed(plan_of(name))


@pytest.mark.parametrize("name", PLANS)
def test_one_cooling_unit_less_lacks_power_or_flow(name: str) -> None:
    counts.one_cooling_unit_less_lacks_power_or_flow(plan_of(name))


@pytest.mark.parametrize("name", PLANS)
def test_one_chiller_tower_or_pump_less_does_not_take_the_design_day(name: str) -> None:
    counts.one_chiller_tower_or_pump_less_does_not_take_the_design_day(plan_of(name))


@pytest.mark.parametrize("name", PLANS)
def test_no_fabric_of_fewer_spines_has_the_links_and_the_ports(name: str) -> None:
    counts.no_fabric_of_fewer_spines_has_the_links_and_the_ports(plan_of(name))


@pytest.mark.parametrize("name", PLANS)
def test_one_rack_less_does_not_hold_the_servers(name: str) -> None:
    counts.one_rack_less_does_not_hold_the_servers(plan_of(name))


@pytest.mark.parametrize("name", PLANS)
def test_one_rack_less_does_not_hold_the_switches_and_service_nodes_nor_the_storage(name: str) -> None:
    counts.one_rack_less_does_not_hold_the_switches_and_service_nodes_nor_the_storage(plan_of(name))
