"""Reservations, from the site file to quotas and queues of Kueue."""

import dataclasses
import datetime

from capacity.model import Plan
from capacity.services.platform import design
from capacity.services.platform.queues import CLOSES, OPENS
from inventory.site.sections.reservations import Reservation
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


def test_a_reservation_has_its_gpus_in_a_queue_of_its_own_and_the_root_the_rest() -> None:
    before, plan = gpus(plan_of("lab-kubernetes"), "nominalQuota"), reserved(reservation("big", "vision", 16))
    more = {"Cohort/root": "16", "ClusterQueue/reservation-big": "16"}
    assert gpus(plan, "nominalQuota") == before | more
    assert kube_policy.allocation(plan)[1] == []
    assert kube_policy.consistent(plan)[1] == []


def test_it_comes_on_top_of_the_limit_of_its_account() -> None:
    """The account's other work has what it had: 16 for vision."""
    before = gpus(plan_of("lab-kubernetes"), "borrowingLimit")
    plan = reserved(reservation("a", "vision", 12), reservation("b", "vision", 8, NOON + 9 * HOUR))
    assert gpus(plan, "borrowingLimit") == before | {
        "ClusterQueue/reservation-a": "0",
        "ClusterQueue/reservation-b": "0",
    }
    quotas = {one.key: one.body["spec"]["hard"] for one in design(plan).objects if one.kind == "ResourceQuota"}
    assert quotas["ResourceQuota/vision/gpus"] == {"requests.nvidia.com/gpu": "32"}
    assert quotas["ResourceQuota/research/gpus"] == {"requests.nvidia.com/gpu": "24"}


def test_own_gpus_and_reservations_are_taken_from_the_root() -> None:
    plan = reserved(reservation("a", "vision", 4), reservation("b", "services", 6, NOON + 9 * HOUR), vision=2)
    assert gpus(plan, "nominalQuota")["Cohort/root"] == "20"


def test_its_queue_says_its_window_in_utc_and_takes_back_from_every_tier() -> None:
    there = datetime.datetime(2027, 12, 4, 6, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    objects = {one.key: one for one in design(reserved(reservation("big", "vision", 8, there, 1.5))).objects}
    queue, quota = objects["LocalQueue/vision/big"], objects["ClusterQueue/reservation-big"]
    assert dict(quota.labels) == {OPENS: "20271204T050000Z", CLOSES: "20271204T063000Z"}
    assert queue.body == {"spec": {"clusterQueue": "reservation-big"}}
    spec = quota.body["spec"]
    assert "stopPolicy" not in spec, "it is that of who opens and closes it"
    assert (spec["cohort"], spec["preemption"]["reclaimWithinCohort"]) == ("root", "Any")
    assert spec["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "vision"}}


def test_cpus_and_memory_are_as_large_a_part_as_its_gpus() -> None:
    objects = {one.key: one for one in design(reserved(reservation("big", "vision", 8))).objects}

    def quota(key: str) -> dict[str, str]:
        resources = objects[key].body["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
        return {one["name"]: one["nominalQuota"] for one in resources}

    own, rest = quota("ClusterQueue/reservation-big"), quota("Cohort/root")
    assert int(own["cpu"]) * 3 == int(rest["cpu"])
