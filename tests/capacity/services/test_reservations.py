"""Reservations, from the site file to quotas and queues of Kueue."""

import dataclasses
import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.model import Plan
from capacity.services.platform import design
from capacity.services.platform.queues import CLOSES, OPENS
from inventory.site.sections.reservations import Reservation, most_at_once
from tests.plans import plan_of
from validation import kube_policy

NOON = datetime.datetime(2027, 12, 4, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def reservation(name: str, account: str, gpus: int, start: datetime.datetime = NOON, hours: float = 4) -> Reservation:
    return Reservation(name=name, account=account, gpus=gpus, start=start, hours=hours)


def reserved(*given: Reservation, **own: int) -> Plan:
    """The lab's plan: four nodes of eight GPUs; services may hold 8, research 24, vision below it 16. own: min_gpus."""
    plan = plan_of("lab-kubernetes")
    accounts = tuple(one.model_copy(update={"min_gpus": own.get(one.name)}) for one in plan.site.scheduler.accounts)
    scheduler = plan.site.scheduler.model_copy(update={"accounts": accounts, "reservations": given})
    return dataclasses.replace(plan, site=plan.site.model_copy(update={"scheduler": scheduler}))


def gpus(plan: Plan, which: str) -> dict[str, str]:
    """{kind and name: nominalQuota or borrowingLimit of whole GPUs}, where there is one."""
    found = {}
    for one in design(plan).objects:
        if one.kind in ("Cohort", "ClusterQueue"):
            (resource,) = [
                each
                for each in one.body["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
                if each["name"] == "nvidia.com/gpu"
            ]
            if which in resource:
                found[one.key] = resource[which]
    return found


def test_a_reservation_has_its_gpus_in_a_queue_of_its_own_and_the_root_keeps_all() -> None:
    before, plan = gpus(plan_of("lab-kubernetes"), "nominalQuota"), reserved(reservation("big", "vision", 16))
    assert gpus(plan, "nominalQuota") == before | {"Cohort/vision": "0", "ClusterQueue/reservation-big": "16"}
    assert gpus(plan, "nominalQuota")["Cohort/root"] == "32"
    assert kube_policy.allocation(plan)[1] == []
    assert kube_policy.consistent(plan)[1] == []


def test_the_limit_of_an_account_holds_with_its_reservations_and_without() -> None:
    """All that vision has is its 16 at most: it borrows 4 from outside and has 12, or its own jobs borrow all 16."""
    limits = gpus(reserved(reservation("big", "vision", 12)), "borrowingLimit")
    assert limits["Cohort/vision"] == str(16 - 12)
    assert limits["ClusterQueue/vision"] == "16"
    assert limits["ClusterQueue/reservation-big"] == "0"
    assert limits["Cohort/research"] == str(24 - 12)
    assert limits["ClusterQueue/research"] == "24"


def test_own_gpus_and_reservations_of_an_account_are_counted_together() -> None:
    plan = reserved(reservation("a", "vision", 4), reservation("b", "vision", 6, NOON + 9 * HOUR), vision=2)
    limits = gpus(plan, "borrowingLimit")
    assert (limits["Cohort/vision"], limits["ClusterQueue/vision"]) == (str(16 - 12), str(16 - 2))
    assert gpus(plan, "nominalQuota")["Cohort/root"] == "30"


def test_its_queue_says_its_window_in_utc_and_takes_back_from_every_tier() -> None:
    there = datetime.datetime(2027, 12, 4, 6, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    objects = {one.key: one for one in design(reserved(reservation("big", "vision", 8, there, 1.5))).objects}
    queue = objects["LocalQueue/vision/big"]
    assert dict(queue.labels) == {OPENS: "20271204T050000Z", CLOSES: "20271204T063000Z"}
    assert queue.body == {"spec": {"clusterQueue": "reservation-big"}}, "who opens it has stopPolicy alone"
    spec = objects["ClusterQueue/reservation-big"].body["spec"]
    assert (spec["cohort"], spec["preemption"]["reclaimWithinCohort"]) == ("vision", "Any")
    assert spec["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "vision"}}


def test_cpus_and_memory_are_as_large_a_part_as_its_gpus() -> None:
    objects = {one.key: one for one in design(reserved(reservation("big", "vision", 8))).objects}

    def quota(key: str) -> dict[str, str]:
        resources = objects[key].body["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
        return {one["name"]: one["nominalQuota"] for one in resources}

    own, all_of_it = quota("ClusterQueue/reservation-big"), quota("Cohort/root")
    assert int(own["cpu"]) * 4 == int(all_of_it["cpu"])


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ([], 0),
        ([(0, 4, 8)], 8),
        ([(0, 4, 8), (4, 4, 16)], 16),
        ([(0, 4, 8), (3, 4, 16)], 24),
        ([(0, 9, 8), (1, 1, 4), (3, 1, 6)], 14),
    ],
)
def test_reservations_count_together_while_their_times_meet(given: list[tuple[int, int, int]], most: int) -> None:
    made = [reservation(f"r{n}", "a", gpus, NOON + begin * HOUR, hours) for n, (begin, hours, gpus) in enumerate(given)]
    assert most_at_once(made) == most


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), st.integers(1, 64)), max_size=8))
def test_most_at_once_is_that_of_the_fullest_hour(given: list[tuple[int, int, int]]) -> None:
    made = [reservation(f"r{n}", "a", gpus, NOON + begin * HOUR, hours) for n, (begin, hours, gpus) in enumerate(given)]
    hours: list[Any] = [
        sum(gpus for begin, length, gpus in given if begin <= hour < begin + length) for hour in range(30)
    ]
    assert most_at_once(made) == max(hours)
