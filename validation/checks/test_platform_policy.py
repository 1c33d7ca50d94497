"""The scheduler on a site with Kubernetes: nodes, tiers, quotas, GPUs, whole starts, preemption (S156 to S160), reservations
(S162), GPU time (S163), notices (S164), stages (S165).

The same items as those of test_scheduler.py and test_slurm_policy.py, which ask Slurm. What the API server says and what its trials
gave is shared with the platform's own items (test_platform.py).
"""

import json
import secrets
from collections.abc import Callable
from functools import partial

from capacity.model import Plan
from capacity.services.platform import design
from capacity.storage.load import shared
from validation import kube, kube_policy, notices
from validation.check import Outcome, check, site_limit
from validation.checks.conftest import PlatformSaid, Told
from validation.checks.test_platform import PLACES, PLATFORM, controllers, of_node, of_preemption, outcome, together
from validation.checks.test_scheduler import of_stages
from validation.facts import Facts
from validation.runners import jobset_stages
from validation.runners.kubernetes import Kubernetes

BOTH = (*PLATFORM, *PLACES)
TOLD = (*BOTH, "site.credentials")


def of_plan(judge: Callable[[Plan], kube.Judged], plan: Plan, good: str) -> Outcome:
    """What a judgement makes of the platform's objects as they are planned."""
    value, problems = judge(plan)
    raw = json.dumps([one.manifest for one in design(plan).objects], sort_keys=True).encode()
    return Outcome(not problems, value, kube.shown(problems) or good.format(**value), raw=raw)


@check("S156.applied", inputs=BOTH, manager="kubernetes")
def test_node_is_registered_with_its_hardware(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    node = facts.nodes[subject]
    seen = (*node.identities, *controllers(plan, facts))
    hardware = {} if node.error else {key: node.data["hardware"][key] for key in ("cpus", "memory_kib")}
    said = together(of_node(platform_said, subject), PlatformSaid({"hardware": hardware}, node.error))
    good = "ready, {gpus} GPUs, {cpus} CPUs, {memory_kib} KiB"
    return outcome(partial(kube_policy.registered, name=subject), plan, said, seen, good, "nodes", "hardware")


@check("S157.generated", inputs=BOTH, manager="kubernetes")
def test_tiers_quotas_and_queues_are_consistent(subject: str, plan: Plan) -> Outcome:
    return of_plan(kube_policy.consistent, plan, "{classes} classes; {accounts} accounts, {limited} with limits")


@check("S157.applied", inputs=BOTH, manager="kubernetes")
def test_tiers_quotas_and_queues_are_applied_and_enforced(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid, quotas_said: PlatformSaid
) -> Outcome:
    said = together(platform_said, quotas_said)
    good = "{objects} objects are as planned; {refused} pods refused by quota or tier, {held} Jobs held by Kueue"
    return outcome(kube_policy.enforced, plan, said, controllers(plan, facts), good, "objects", "trials", "quotas")


@check("S158.generated", inputs=BOTH, manager="kubernetes")
def test_gpus_and_places_match_the_plan(subject: str, plan: Plan) -> Outcome:
    good = "{gpus} GPUs on {nodes} nodes in {blocks} blocks, {levels} levels"
    return of_plan(kube_policy.allocation, plan, good)


@check("S158.applied", inputs=BOTH, manager="kubernetes")
def test_pods_get_the_gpus_they_asked_for_and_no_other(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid, gangs_said: PlatformSaid, grants: Told
) -> Outcome:
    given = PlatformSaid({"grants": grants.answer.get(subject, {})}, grants.error)
    said = together(of_node(platform_said, subject), gangs_said, given)
    seen = (*facts.nodes[subject].identities, *controllers(plan, facts))
    good = "{gpus} GPUs in {pods} pods, each with its own; one GPU more than a node has waits"
    judge = partial(kube_policy.allotted, name=subject)
    return outcome(judge, plan, said, seen, good, "nodes", "grants", "too_many")


@check("S159.applied", inputs=BOTH, manager="kubernetes")
def test_jobs_never_share_gpus_in_time(subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid) -> Outcome:
    good = "{objects} objects of placement as planned, {nodes} nodes offer whole GPUs: a job starts with all its pods or not at all"
    return outcome(kube_policy.placed_whole, plan, platform_said, controllers(plan, facts), good, "objects", "nodes")


@check("S159.measured", inputs=BOTH, manager="kubernetes")
def test_large_jobs_start_whole_or_not_at_all(
    subject: str, plan: Plan, facts: Facts, gangs_said: PlatformSaid
) -> Outcome:
    good = "two jobs of {pods} nodes: one ran whole, no pod of the other beside it, and that one whole after it"
    return outcome(kube.gangs, plan, gangs_said, controllers(plan, facts), good, "halves")


@check("S160.applied", inputs=BOTH, manager="kubernetes")
def test_tiers_and_queues_say_who_yields(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    good = "{objects} classes and queues are as planned: lower tiers yield, and what yields is queued again"
    return outcome(kube_policy.preemption, plan, platform_said, controllers(plan, facts), good, "objects")


@check("S160.measured", inputs=BOTH, manager="kubernetes")
def test_a_job_that_yields_writes_a_checkpoint_and_resumes(
    subject: str, plan: Plan, facts: Facts, yielded: Told
) -> Outcome:
    return of_preemption(plan, facts, yielded)


@check("S162.applied", inputs=BOTH, manager="kubernetes")
def test_reservations_are_open_in_their_time_alone(
    subject: str, plan: Plan, facts: Facts, reservation_tried: PlatformSaid
) -> Outcome:
    good = "{reservations} reservations of the site file and that of a trial are as they should be at {at}"
    return outcome(kube_policy.reservations, plan, reservation_tried, controllers(plan, facts), good, "reservation")


@check("S162.measured", inputs=BOTH, manager="kubernetes")
def test_reserved_gpus_are_its_owners_in_its_time_and_others_before_and_after(
    subject: str, plan: Plan, facts: Facts, reservation_tried: PlatformSaid
) -> Outcome:
    good = "{node}: its owner waited, had it {start_s:g} s after the begin in place of {account}, none {end_s:g} s after the end"
    return outcome(kube_policy.window, plan, reservation_tried, controllers(plan, facts), good, "reservation")


@check("S163.applied", inputs=BOTH, manager="kubernetes")
def test_gpu_time_is_charged_to_who_uses_it(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid, charged_said: PlatformSaid
) -> Outcome:
    said = together(platform_said, charged_said)
    good = (
        "{gpus} GPUs of a Job counted for who made it after {seen_s:g} s: {gpu_s:g} GPU-s; {objects} objects as planned"
    )
    return outcome(kube_policy.charged, plan, said, controllers(plan, facts), good, "objects", "charged")


@check("S164.applied", inputs=TOLD, manager="kubernetes")
def test_one_controller_tells_users_and_operators(
    subject: str, plan: Plan, facts: Facts, notices_set_up: PlatformSaid
) -> Outcome:
    good = (
        "{sender} tells events by {hooks} webhooks, which root alone reads; of {controllers} controllers no other sends"
    )
    return outcome(notices.set_up, plan, notices_set_up, controllers(plan, facts), good, "files")


@check("S164.measured", inputs=(*TOLD, "site.validation"), manager="kubernetes")
def test_each_end_failure_eviction_and_return_is_told_once(
    subject: str, plan: Plan, facts: Facts, notices_heard: PlatformSaid
) -> Outcome:
    good = "{events} notices of ends, failures, evictions and a node's return, each once, the slowest after {slowest_s:g} s"
    return outcome(notices.told, plan, notices_heard, controllers(plan, facts), good, "notices")


@check("S165.measured", inputs=(*BOTH, "site.storage"), manager="kubernetes")
def test_stages_hand_on_by_hash_and_a_failed_one_stops_its_chain(
    subject: str, plan: Plan, facts: Facts, platform: Kubernetes
) -> Outcome:
    mount, budget = shared(plan.site, plan.devices).mount_point, site_limit(plan.site, "job_start_s")
    folder = f"{mount}/jobs/bringup-stages-{secrets.token_hex(4)}"
    return of_stages(
        lambda: jobset_stages.run(platform, mount, folder, float(budget.value)), budget, controllers(plan, facts)
    )
