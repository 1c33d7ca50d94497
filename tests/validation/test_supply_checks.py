"""Checks of the supply and the cooling fail where the plan is wrong, and not only where it has a finding."""

import dataclasses
import functools
from collections.abc import Callable
from typing import cast

from capacity.plan import Plan, build
from inventory.site import load_site
from validation.check import Outcome
from validation.checks import test_electrical as electrical

Check = Callable[[str, Plan], Outcome]


@functools.cache
def plan_of(name: str) -> Plan:
    return build(load_site(name))


def test_a_bill_with_fewer_ups_modules_than_the_blocks_take_fails() -> None:
    check = cast(Check, electrical.test_ups_modules_and_battery)
    plan = plan_of("h100-1000-ib")
    assert check(plan.site.name, plan).passed
    bill = plan.bom.assign(quantity=plan.bom["quantity"].where(plan.bom["item"] != "ups module", 24))
    outcome = check(plan.site.name, dataclasses.replace(plan, bom=bill))
    assert not outcome.passed
    assert outcome.detail == "12 blocks take 60 modules and the bill has 24"


def test_battery_seconds_with_a_fraction_are_no_contradiction() -> None:
    """The summary rounds to tenths of a second."""
    site = load_site("h100-1000-ib")
    given = site.generator.model_copy(update={"start_s": 10.04})
    outcome = cast(Check, electrical.test_ups_modules_and_battery)(
        "", build(site.model_copy(update={"generator": given}))
    )
    assert outcome.passed, outcome.detail
