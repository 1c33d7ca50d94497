"""The computed and generated items hold on every shipped site, and its subjects can be selected."""

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from capacity.build import build
from inventory.site import load_site, site_names
from tests.plans import plan_of
from validation.check import Outcome
from validation.checks import test_cooling as cooling
from validation.checks import test_design as design
from validation.checks import test_electrical as electrical
from validation.checks import test_power as power
from validation.facts import Facts
from validation.register import Register, load_register


def checks_of(*modules: ModuleType) -> list[Callable[..., Outcome]]:
    return [function for module in modules for function in vars(module).values() if hasattr(function, "__check__")]


CHECKS, SUPPLY = checks_of(design, cooling), checks_of(electrical)
LARGE = "h100-1000-ib"  # its documents alone take minutes; its shape is that of the smaller ones


def item_of(function: Callable[..., Outcome]) -> str:
    return str(cast(Any, function).__check__.item)


@pytest.fixture(scope="module")
def register() -> Register:
    return load_register()


@pytest.mark.parametrize("site", [name for name in site_names() if name != LARGE])
@pytest.mark.parametrize("function", CHECKS, ids=item_of)
def test_item_holds_for_the_first_and_the_last_subject(
    site: str, function: Callable[..., Outcome], register: Register
) -> None:
    plan = plan_of(site)
    item = register.items[item_of(function)]
    subjects = register.subjects(item, plan)
    if register.not_applicable(item, plan.site):
        pytest.skip("the item does not apply to the site")
    assert subjects
    for subject in dict.fromkeys((subjects[0], subjects[-1])):
        outcome = function(subject, plan)
        assert outcome.passed, (subject, outcome.detail)


@pytest.mark.parametrize("site", site_names())
@pytest.mark.parametrize("function", SUPPLY, ids=item_of)
def test_item_of_the_supply_holds(site: str, function: Callable[..., Outcome]) -> None:
    outcome = function(site, plan_of(site))
    assert outcome.passed, outcome.detail


def test_items_of_the_supply_say_what_is_missing_without_the_section() -> None:
    site = load_site("lab")
    bare = build(site.model_copy(update={"electrical": None}))
    for function in SUPPLY:
        outcome = function("lab", bare)
        assert not outcome.passed
        assert "electrical" in outcome.detail


@pytest.mark.parametrize("site", site_names())
def test_every_selector_names_each_subject_once(site: str, register: Register) -> None:
    selected = register.select_all(plan_of(site))
    assert all(len(names) == len(set(names)) for names in selected.values())
    assert all(selected[name] for name in ("gpu_servers", "compute_switches", "inband_switches", "racks", "circuits"))
    assert len(selected["racks"]) == len(plan_of(site).racks)


def test_a_rack_on_power_shelves_says_that_their_controllers_are_not_read() -> None:
    check = cast(Callable[..., Outcome], power.test_both_pdus_of_a_rack_answer_below_half_load)
    nothing_read = cast(Facts, SimpleNamespace(pdus={}))
    outcome = check("r01", plan_of("gb300-nvl72-liquid"), nothing_read)
    assert not outcome.passed
    assert "8 power shelves" in outcome.detail
    assert "shelf-r01-1" in outcome.detail
