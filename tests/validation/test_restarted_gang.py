"""A gang that lost a node and was started anew (P-11), judged by what its ranks wrote."""

import dataclasses
from collections.abc import Callable

import pytest

from capacity.model import Plan
from tests.plans import plan_of
from tests.validation.recordings import made
from validation import from_raw
from validation.checks.test_platform import test_a_gang_that_loses_a_node_starts_anew_as_a_whole_elsewhere as check
from validation.facts import Facts
from validation.runners.training import Recording


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("lab-kubernetes")


def recorded() -> Recording:
    return dataclasses.replace(made(), scheduler="Kubernetes")


def test_all_ranks_that_start_anew_without_the_lost_node_pass(plan: Plan) -> None:
    outcome = check("site", plan, recorded(), Facts())
    assert outcome.passed, outcome.detail
    assert outcome.value == {"victim": "gpu003", "nodes": ["gpu001", "gpu002", "gpu004"], "ranks": 3, "restarts": 1}
    again = from_raw.computed("P-11.measured", "site", plan, outcome.raw or b"")
    assert isinstance(again, from_raw.Again)
    assert (again.value, list(again.problems)) == (outcome.value, [])


def back_on_the_lost_node(one: Recording) -> None:
    for rank in one.metrics["interrupted"].values():
        for event in rank:
            if event.get("host") == "gpu004":
                event["host"] = "gpu003"


def one_rank_that_is_replaced_alone(one: Recording) -> None:
    one.metrics["interrupted"]["0"] = [event for event in one.metrics["interrupted"]["0"] if event["attempt"] == 0]


def no_cut(one: Recording) -> None:
    one.outage = {}


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (back_on_the_lost_node, "gpu003"),
        (one_rank_that_is_replaced_alone, "attempt 1: 2 ranks say that they started, expected 3"),
        (no_cut, "no power was cut"),
    ],
)
def test_what_went_otherwise_is_said(harm: Callable[[Recording], None], said: str, plan: Plan) -> None:
    recording = recorded()
    harm(recording)
    outcome = check("site", plan, recording, Facts())
    assert not outcome.passed
    assert said in outcome.detail
