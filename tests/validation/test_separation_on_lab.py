"""S068 in the lab: the planned filters hold both ways, and wrong ones on one leaf are seen by applied and measured."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from inventory.delivered.assets import load_assets
from network.push import push, targets
from tests.standing import Standing, until_all_read_shared
from validation.check import Outcome
from validation.checks import test_separation as checks
from validation.facts import Facts, separation_acts

pytestmark = pytest.mark.lab


def measured(standing: Standing) -> Outcome:
    found = separation_acts.probe(standing.plan)
    assert found.errors == {}
    return checks.test_networks_are_separated(standing.name, standing.plan, Facts(), found)


@contextmanager
def filtering_otherwise(standing: Standing, change: Callable[[str], str]) -> Iterator[None]:
    """leaf01 with another filter, put back afterwards; both by the push that everybody uses."""
    (planned,) = targets(standing.plan, load_assets(standing.site), only=["leaf01"])
    try:
        (pushed,) = push([replace(planned, config=change(planned.config))], neighbours_s=0)
        assert pushed.result == "applied", pushed.note
        yield
    finally:
        (pushed,) = push([planned], neighbours_s=0)
        assert pushed.ok, pushed.note
        until_all_read_shared(standing)  # a filter that is too narrow cuts clients off


def opened(config: str) -> str:
    lines = [line for line in config.splitlines(keepends=True) if not line.endswith('ifname "eth0" drop\n')]
    return "".join(lines).replace("policy drop", "policy accept")


def narrowed(config: str) -> str:
    return config.replace("\t\tip saddr 172.16.0.0/20 ip daddr 172.16.0.0/20 accept\n", "")


def test_filters_as_planned_let_through_what_is_allowed_alone(standing: Standing) -> None:
    outcome = measured(standing)
    assert outcome.passed, outcome.detail


def test_an_open_filter_is_seen_from_both_sides(standing: Standing) -> None:
    with filtering_otherwise(standing, opened):
        outcome, found = measured(standing), separation_acts.probe(standing.plan)
        planned = separation_acts.probes(standing.plan)
        said = [
            one
            for name, raw in found.parts.items()
            for one in separation_acts.faults(standing.plan, name, raw, planned[name])
        ]
        applied = checks.test_router_filters_as_planned("leaf01", standing.plan, standing.facts("leaf01"))
    assert not outcome.passed
    assert "gpu001: inband to management, management of leaf01 by leaf01: denied and reached" in said
    assert any(
        one.startswith("mgm01: management to inband, ") and "management of leaf01: denied" in one for one in said
    )
    assert not applied.passed
    assert "forwards to or from eth0" in applied.detail


def test_a_filter_that_is_too_narrow_is_seen(standing: Standing) -> None:
    with filtering_otherwise(standing, narrowed):
        outcome = measured(standing)
    assert not outcome.passed
    assert "by leaf01: allowed and not reached" in outcome.detail
