from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.provider.kubernetes.rollout import (
    GENERATION,
    GENERATION_OF_POD,
    Rollout,
    left_out,
    may_be_away,
    obstacle,
    rollout,
)


def deployment(generation: int = 2, observed: int = 2, reason: str = "", **counts: int) -> dict[str, object]:
    conditions = [{"type": "Progressing", "status": "False", "reason": reason}] if reason else []
    status = {"observedGeneration": observed, "conditions": conditions, **counts}
    spec = {"replicas": 2}
    return {"kind": "Deployment", "metadata": {"generation": generation}, "spec": spec, "status": status}


def test_a_kind_without_pods_has_no_roll_out() -> None:
    assert rollout({"kind": "ConfigMap", "metadata": {}}) is None


@pytest.mark.parametrize(
    ("live", "done"),
    [
        (deployment(updatedReplicas=2, replicas=2, availableReplicas=2), True),
        (deployment(updatedReplicas=1, replicas=2, availableReplicas=2), False),
        (deployment(updatedReplicas=2, replicas=3, availableReplicas=2), False),
        (deployment(updatedReplicas=2, replicas=2, availableReplicas=1), False),
        (deployment(observed=1, updatedReplicas=2, replicas=2, availableReplicas=2), False),
    ],
    ids=["complete", "half updated", "old pod left", "one not available", "change not seen"],
)
def test_a_deployment_is_done_when_all_pods_are_new_and_available(live: dict[str, object], done: bool) -> None:
    found = rollout(live)
    assert found is not None
    assert (found.done, found.failed) == (done, False)


def test_a_deployment_past_its_deadline_has_failed() -> None:
    found = rollout(deployment(reason="ProgressDeadlineExceeded", updatedReplicas=1, replicas=3, availableReplicas=2))
    assert found == Rollout(False, "1 of 2 pods of the new revision, 2 available, 2 of the old one left", failed=True)


@pytest.mark.parametrize(("available", "done"), [(3, True), (2, False)])
def test_a_daemon_set_is_done_on_every_node(available: int, done: bool) -> None:
    status = {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": available}
    found = rollout({"kind": "DaemonSet", "metadata": {}, "status": status})
    assert found is not None
    assert found.done is done


@pytest.mark.parametrize(
    ("wanted", "updated", "available", "done"),
    [
        (1000, 1000, 900, True),
        (1000, 1000, 899, False),
        (1000, 970, 970, True),
        (1000, 100, 900, False),
        (4, 4, 3, True),
        (2, 1, 1, False),
        (1, 1, 0, False),
        (0, 0, 0, True),
    ],
    ids=["a tenth away", "more", "nodes down", "stuck", "one of four", "stuck on two", "none works", "no node"],
)
def test_a_daemon_set_is_done_when_no_more_are_old_or_away_than_its_update_takes_down(
    wanted: int, updated: int, available: int, done: bool
) -> None:
    status = {"desiredNumberScheduled": wanted, "updatedNumberScheduled": updated, "numberAvailable": available}
    spec = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}}
    seen = f"{updated} of {wanted} pods updated, {wanted - available} not available"
    assert rollout({"kind": "DaemonSet", "metadata": {}, "spec": spec, "status": status}) == Rollout(done, seen)


@given(st.integers(0, 100), st.integers(0, 20_000))
def test_a_part_of_the_pods_rounds_up(percent: int, wanted: int) -> None:
    found = may_be_away(f"{percent}%", wanted)
    assert found - 1 < wanted * percent / 100 <= found or found == wanted * percent == 0
    assert may_be_away(found, wanted) == found


def pod(name: str, ready: bool = False, waiting: str = "", unscheduled: str = "") -> dict[str, object]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    if unscheduled:
        conditions.append(
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": unscheduled}
        )
    containers = [{"state": {"waiting": {"reason": waiting}}}] if waiting else []
    return {"metadata": {"name": name}, "status": {"conditions": conditions, "containerStatuses": containers}}


def test_the_obstacle_is_the_word_of_the_first_pod_that_is_not_ready() -> None:
    assert obstacle([pod("a", ready=True, waiting="Old"), pod("b", waiting="ErrImagePull")]) == "pod b: ErrImagePull"
    assert obstacle([pod("c", unscheduled="0/3 nodes")]) == "pod c: Unschedulable: 0/3 nodes"
    assert obstacle([pod("d")]) == ""


def of_node(node: str, generation: str = "2", ready: bool = True, placed: bool = True) -> dict[str, Any]:
    """A pod of a DaemonSet, as its controller makes it."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    return {
        "metadata": {"name": f"p-{node}", "labels": {GENERATION_OF_POD: generation}},
        "spec": {"affinity": {"nodeAffinity": required}, **({"nodeName": node} if placed else {})},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def daemon_set(wanted: int) -> dict[str, Any]:
    return {
        "kind": "DaemonSet",
        "metadata": {"annotations": {GENERATION: "2"}},
        "status": {"desiredNumberScheduled": wanted},
    }


@pytest.mark.parametrize(
    ("wanted", "pods", "said"),
    [
        (2, [of_node("n1"), of_node("n2")], ""),
        (2, [of_node("n1"), of_node("n2", "1"), of_node("n2")], ""),
        (2, [of_node("n1"), of_node("n2", "1")], "1 of its nodes have no ready pod of this revision: n2 (old)"),
        (
            4,
            [of_node("n1"), of_node("n3", ready=False), of_node("n2", ready=False, placed=False)],
            "3 of its nodes have no ready pod of this revision: n2 (not ready), n3 (not ready)",
        ),
        (1, [], "1 of its nodes have no ready pod of this revision"),
    ],
    ids=["whole", "an old one goes", "old", "not ready, not placed, and none", "none"],
)
def test_nodes_without_a_daemon_sets_new_pod_are_counted_and_named(wanted: int, pods: list[Any], said: str) -> None:
    assert left_out(daemon_set(wanted), pods) == said


def test_of_many_nodes_the_first_are_named() -> None:
    said = left_out(daemon_set(100), [of_node(f"n{number:03}", "1") for number in range(100)])
    assert said.startswith("100 of its nodes have no ready pod of this revision: n000 (old), n001 (old), ")
    assert said.endswith("n007 (old) and others")
