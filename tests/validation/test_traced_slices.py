"""Each check declares the slices of the plan that it reads: one that it reads without declaring could change and leave its
evidence fresh.

All checks are followed through their source, with their fixtures. Those of computed and generated items, which need a plan
alone, are traced as well while they judge shipped sites.
"""

import fnmatch
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from capacity.model import Plan
from capacity.outputs import summary
from tests.plans import plan_of
from tests.validation.slices import all_checks, followed, traced
from validation.check import Check, Outcome, check, check_of
from validation.register import load_register

SITES = ("lab", "gb300-nvl72-liquid", "b200-256-roce")
CHECKS = all_checks()
OF_THE_PLAN = {name for name, one in CHECKS.items() if set(inspect.signature(one).parameters) <= {"subject", "plan"}}


def made_of(function: Callable[..., Any]) -> Check:
    made = check_of(function)
    assert made is not None
    return made


def undeclared(function: Callable[..., Any], read: set[str]) -> list[str]:
    """Slices that a check read and that none of its inputs names."""
    inputs = made_of(function).inputs
    return sorted(name for name in read if not any(fnmatch.fnmatchcase(name, one) for one in inputs))


def while_judging(function: Callable[..., Any], plan: Plan) -> set[str]:
    """The slices that a check reads while it judges its first subject of a plan."""
    register = load_register()
    item = register.items[made_of(function).item]
    subjects = [] if register.not_applicable(item, plan.site) else register.subjects(item, plan)
    with traced() as seen:
        for subject in subjects[:1]:
            try:
                function(subject, plan)
            except pytest.skip.Exception:
                continue
    return seen


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_declares_every_slice_that_its_source_reads(name: str) -> None:
    assert undeclared(CHECKS[name], followed(CHECKS[name])) == []


@pytest.mark.parametrize("site", SITES)
def test_a_check_of_the_plan_declares_every_slice_that_it_reads_while_it_judges(site: str) -> None:
    plan = plan_of(site)
    found = {name: undeclared(CHECKS[name], while_judging(CHECKS[name], plan)) for name in sorted(OF_THE_PLAN)}
    assert {name: slices for name, slices in found.items() if slices} == {}


def racks_of(plan: Plan) -> int:
    return len(plan.racks)


@check("S036.computed", inputs=("frame.cables", "site.f*"))
def reads_more_than_it_declares(subject: str, plan: Plan) -> Outcome:
    site = plan.site
    return Outcome(bool(site.fabric and site.gpu.tdp_w and racks_of(plan)), len(plan.cables), "")


@check("S036.computed")
def reads_a_part_of_the_summary(subject: str, plan: Plan) -> Outcome:
    return Outcome(True, summary.part(plan, "devices"), "")


def test_a_read_that_is_not_declared_is_found() -> None:
    read = {"frame.cables", "frame.racks", "site.fabric", "site.gpu"}
    for seen in (followed(reads_more_than_it_declares), while_judging(reads_more_than_it_declares, plan_of("lab"))):
        assert seen == read
        assert undeclared(reads_more_than_it_declares, seen) == ["frame.racks", "site.gpu"]


def test_what_a_part_of_the_summary_reads_is_found() -> None:
    assert undeclared(reads_a_part_of_the_summary, followed(reads_a_part_of_the_summary)) == [
        "frame.bom",
        "frame.devices",
    ]


def test_what_the_fixtures_of_a_check_read_is_found() -> None:
    # the trials of S162.applied are jobs after the design of the scheduler, which reads the storage
    assert "site.storage" in followed(CHECKS["S162.applied-test_reservation_is_as_requested"])


def items_with(*slices: str) -> set[str]:
    """Items of which every check names these slices."""
    missing = {made_of(one).item for one in CHECKS.values() if undeclared(one, set(slices))}
    return {made_of(one).item for one in CHECKS.values()} - missing


FABRIC = {
    "S048.applied",
    "S049.applied",
    "S050.applied",
    "S062.measured",
    "S054.measured",
    "S066.measured",
    "S124.measured",
}
TRAINING = {"S186.measured", "S188.measured", "S177.observed", "S176.measured", "S179.measured", "S181.measured"}
GPUS = {
    "S007.applied",
    "S026.measured",
    "S029.measured",
    "S033.applied",
    "S034.measured",
    "S148.applied",
    "S151.measured",
}
SCHEDULER = {"S159.measured", "S160.measured", "S162.measured", "S165.measured"}


def test_another_firmware_or_driver_makes_what_was_measured_with_it_stale() -> None:
    measured = {"S062.measured", "S054.measured", "S066.measured", "S124.measured"}
    assert items_with("site.versions") >= GPUS | TRAINING | SCHEDULER | measured


def test_another_topology_makes_what_ran_over_it_stale() -> None:
    assert items_with("frame.cables") >= FABRIC | TRAINING | {"S151.measured"}
