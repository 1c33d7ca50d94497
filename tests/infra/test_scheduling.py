"""How Kueue schedules on 100 simulated nodes in the places of a plan: gangs, blocks, and GPUs that one account takes from another.

The control plane, Kueue and JobSet are real, and so are the platform's objects. Nodes and pods are kwok's: no container runs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from capacity.services.platform.topology import node_labels
from infra.kube.trial import Trial, gang, lasting, trial
from infra.toolchain.control_plane import programs
from infra.toolchain.controllers import controllers
from tests.plans import plan_of
from validation import kube
from validation.facts import reclaim
from validation.facts.gangs import BLOCK

pytestmark = [pytest.mark.platform, pytest.mark.needs("kueue")]

SITE = "h100-1000-ib"
NODES, PER_BLOCK, OVER_HALF = 100, 32, 60
"""NODES: three whole blocks of the plan and a part of a fourth."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    kubernetes, made = programs(), controllers()
    assert kubernetes is not None
    assert made is not None
    with trial(plan_of(SITE), kubernetes, made, tmp_path_factory.mktemp("trial"), NODES) as one:
        yield one


@pytest.fixture
def submit(cluster: Trial) -> Iterator[Any]:
    """Creates a gang; all go at the end."""
    made = []

    def create(*given: Any, **more: Any) -> dict[str, Any]:
        made.append(gang(*given, **more))
        cluster.create(made[-1])
        return made[-1]

    yield create
    for one in reversed(made):
        cluster.delete(one)


def runs(cluster: Trial, namespace: str, job: str, pods: int) -> None:
    cluster.wait(lambda: len(cluster.running(namespace, job)) == pods, f"{pods} pods of {job} run")


def refused(cluster: Trial, namespace: str, job: str) -> str:
    """Why Kueue does not admit a Job yet."""

    def said() -> dict[str, Any]:
        return cluster.condition(namespace, job, "QuotaReserved")

    cluster.wait(lambda: said().get("status") == "False", f"Kueue has looked at {job}")
    return str(said()["message"])


def blocks(pods: list[dict[str, Any]]) -> Counter[str]:
    """How many pods are in each block of the plan."""
    places = node_labels(plan_of(SITE))
    return Counter(places[one["spec"]["nodeName"]][BLOCK] for one in pods)


def test_of_two_gangs_over_half_one_starts_whole_and_the_other_not_at_all(cluster: Trial, submit: Any) -> None:
    submit("first", "research", "training", OVER_HALF)
    runs(cluster, "research", "first", OVER_HALF)
    submit("second", "language", "training", OVER_HALF)
    assert refused(cluster, "language", "second")
    assert cluster.job("language", "second")["spec"]["suspend"] is True
    assert cluster.pods("language", "second") == []


def test_a_gang_stands_in_one_block_of_the_plan(cluster: Trial, submit: Any) -> None:
    submit("block", "research", "training", PER_BLOCK, level=BLOCK)
    runs(cluster, "research", "block", PER_BLOCK)
    pods = cluster.running("research", "block")
    assert len(blocks(pods)) == 1
    assert len({one["spec"]["nodeName"] for one in pods}) == PER_BLOCK


def test_a_gang_that_no_block_holds_does_not_start_and_is_told_why(cluster: Trial, submit: Any) -> None:
    submit("wide", "research", "training", PER_BLOCK + 1, level=BLOCK)
    said = refused(cluster, "research", "wide")
    assert f"allows to fit only {PER_BLOCK} out of {PER_BLOCK + 1} pod(s)" in said
    assert cluster.pods("research", "wide") == []


def test_an_account_takes_a_node_of_another_by_priority_and_never_against_it(cluster: Trial) -> None:
    plan = plan_of(SITE)

    def call(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        made = [one for one in calls if one["verb"] == "POST" and one["path"].endswith("/jobs")]
        return cluster.answers([{**one, "body": lasting(one["body"])} if one in made else one for one in calls])

    said = {"reclaim": reclaim.ask(plan, call)}
    assert kube.reclaimed(said, plan)[1] == []
    assert cluster.pods("vision") == []
