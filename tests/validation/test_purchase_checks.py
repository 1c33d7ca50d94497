"""The checks of what is bought: they hold on the shipped sites, and find what is unknown or too little."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, cast

import pytest

from capacity.model import Plan
from capacity.outputs.documents import procurement
from inventory.catalog import Catalog, load_catalog
from tests.capacity.golden import SITES
from tests.plans import plan_of
from validation.check import Outcome
from validation.checks import test_purchase as checks

CHECKS = [cast(Callable[[str, Plan], Outcome], f) for f in vars(checks).values() if hasattr(f, "__check__")]
LARGE = "h100-1000-ib"  # its documents alone take minutes


def with_server(plan: Plan, **parts: Any) -> Plan:
    """The plan with a catalogue in which the site's server model has other parts."""
    catalog: Catalog = copy.copy(plan.catalog)
    model = catalog.device(plan.site.server.model)
    other = model.model_copy(update={"bringup": model.bringup.model_copy(update=parts)})
    catalog.devices = {**catalog.devices, model.slug: other}
    return dataclasses.replace(plan, catalog=catalog)


def with_row(plan: Plan, **values: Any) -> Plan:
    """The plan with other figures of the site's own storage."""
    storage = plan.storage.copy()
    for name, value in values.items():
        storage.loc[storage["chosen"] == 1, name] = value
    return dataclasses.replace(plan, storage=storage)


@pytest.mark.parametrize("site", [name for name in SITES if name != LARGE])
@pytest.mark.parametrize("function", CHECKS, ids=lambda f: f.__name__)
def test_item_holds_on_the_shipped_sites(site: str, function: Callable[[str, Plan], Outcome]) -> None:
    outcome = function(site, plan_of(site))
    assert outcome.passed, outcome.detail


@pytest.mark.parametrize(
    ("function", "parts", "key"),
    [
        (
            checks.test_board_has_the_lanes,
            {"board": None},
            "no lane map of lab-gpu-node: add its block diagram as bringup.board",
        ),
        (
            checks.test_memory_is_balanced,
            {"memory": None},
            "no memory map of lab-gpu-node: add its modules as bringup.memory",
        ),
        (
            checks.test_drive_endurance_covers_service_life,
            {"drives": ()},
            "no drives of lab-gpu-node: add them as bringup.drives",
        ),
    ],
)
def test_a_part_that_the_catalogue_does_not_describe_fails_with_the_key(
    function: Callable[[str, Plan], Outcome], parts: dict[str, Any], key: str
) -> None:
    outcome = function("lab", with_server(plan_of("lab"), **parts))
    assert not outcome.passed
    assert key in outcome.detail


def test_drives_of_unknown_endurance_do_not_pass() -> None:
    plan = plan_of("lab")
    drives = load_catalog().device(plan.site.server.model).bringup.drives
    unknown = tuple(d.model_copy(update={"dwpd": 0.0}) if d.use == "data" else d for d in drives)
    outcome = checks.test_drive_endurance_covers_service_life("lab", with_server(plan, drives=unknown))
    assert not outcome.passed
    assert "dwpd of the data drives" in outcome.detail
    assert "add it to bringup.drives" in outcome.detail


def test_a_choice_that_falls_short_is_not_one_of_the_technologies_that_will_do() -> None:
    plan = with_row(plan_of("lab"), write_gb_s=0.0)
    outcome = checks.test_technologies_are_compared("lab", plan)
    assert not outcome.passed
    assert "falls short in write_gb_s 0 of" in outcome.detail


def test_a_comparison_that_says_too_little_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procurement, "shortfall", lambda option, needs: "nothing")
    outcome = checks.test_technologies_are_compared("b200-256-roce", plan_of("b200-256-roce"))
    assert not outcome.passed
    assert "no file system that jobs mount" in outcome.detail


@pytest.mark.parametrize(
    ("need", "said"), [("read_gb_s_per_gpu", "GB/s read"), ("metadata_ops_s_per_gpu", "of metadata")]
)
def test_too_few_enclosures_for_reads_or_metadata_are_found(need: str, said: str) -> None:
    plan = plan_of("b200-256-roce")
    storage = plan.site.storage
    more = storage.model_copy(update={need: 1000 * (getattr(storage, need) or 1000)})
    outcome = checks.test_enclosures_suffice(
        "b200-256-roce", dataclasses.replace(plan, site=plan.site.model_copy(update={"storage": more}))
    )
    assert not outcome.passed
    assert said in outcome.detail
