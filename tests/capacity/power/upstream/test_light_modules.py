"""UPS modules far above what the blocks carry: a finding, with the rating that is enough."""

import functools

import pytest

from capacity.build import build
from capacity.model import Plan
from capacity.power.upstream.light_modules import RATINGS_KW
from capacity.sizes import complete
from inventory.site import parse_site
from inventory.site.new import Wanted, site_text
from tests.findings import only
from tests.first_sites import FIRST, first_plan


def said(plan: Plan) -> bool:
    return any(one.id == "POWER-UPS-LIGHT" for one in plan.findings)


@functools.cache
def one_server(*lines: str) -> Plan:
    text = site_text(Wanted("one", gpu="h100", fabric="ib", servers=1))
    return build(complete(parse_site("\n".join([text, *lines]))))


def test_a_hall_of_one_server_is_told_of_smaller_modules() -> None:
    plan = one_server()
    light = only(plan, "POWER-UPS-LIGHT")
    blocks = plan.elements[plan.elements["kind"] == "ups"]
    worst = blocks["worst_kw"].max()
    assert light.numbers["worst_kw"] == pytest.approx(worst, abs=0.001)
    assert 20 * 0.9 < worst < 50 * 0.9, "one module of 50 kW at 90 % carries it, one of 20 kW does not"
    (way,) = light.remedies
    assert way.settings == {"ups.module_kw": 50}
    assert "250 kW" in light.message
    assert "purchase.prices" in way.text, "the price of a module of 250 kW would stay"


def test_with_these_modules_the_finding_is_gone_and_each_block_has_as_many_as_before() -> None:
    before, after = one_server(), one_server("ups: {module_kw: 50}")
    assert not said(after)
    assert {one.id for one in after.findings if one.severity == "error"} == set()
    modules = [
        (plan.elements.loc[plan.elements["kind"] == "ups", "rating"] / plan.site.ups.module_kw).sum()
        for plan in (before, after)
        if plan.site.ups
    ]
    assert modules[0] == modules[1]


@pytest.mark.parametrize("name", FIRST)
def test_blocks_that_need_more_than_half_a_module_are_not_light(name: str) -> None:
    assert not said(first_plan(name))


def test_blocks_whose_modules_the_site_counts_are_its_choice() -> None:
    assert not said(one_server("electrical: {ups_blocks: {modules_per_block: 2}}"))


def test_ratings_rise() -> None:
    assert list(RATINGS_KW) == sorted(RATINGS_KW)
