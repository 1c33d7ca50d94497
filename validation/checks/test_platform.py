"""The Kubernetes platform as its API server and etcd show it (P-01 to P-19).

P-01 and P-02 run Jobs without work for a moment, P-03 two that have one node in turn, P-18 three. P-04 tries pods as dry runs, and
Jobs beyond limits. P-06 and P-07 run three pods on each GPU node, P-19 one. Where the site allows faults, P-08 and P-09 kill API
server and etcd of one controller after the other, P-10 stops a kubelet, P-17 a time service, P-11 rests on a training that loses a
node, and in P-12 a GPU of each node reports an XID. P-13 changes a text of one object, P-14 and P-15 make one: all of it is undone.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from capacity.model import Plan
from network.drivers import answers
from network.drivers.answers import Source
from network.drivers.errors import DeviceError
from validation import kube
from validation import training_story as story
from validation.check import Outcome, check, site_limit
from validation.checks.conftest import PlatformSaid, Told
from validation.checks.test_training import INPUTS as TRAINING
from validation.checks.test_training import SETUP, as_planned, touched
from validation.evidence import Identity
from validation.facts import Facts
from validation.facts.kube import controller_of
from validation.runners.training import Recording

PLATFORM = (
    "site.scheduler",
    "site.tiers",
    "site.versions",
    "site.name",
    "site.gpu",
    "site.gpu_sharing",
    "site.storage",
    "site.limits",
    "frame.devices",
    "assets",
)
PLACES = ("frame.cables", "frame.placements", "site.fabric")


def controllers(plan: Plan, facts: Facts) -> tuple[Identity, ...]:
    """Which machines answered: those that the control plane runs on."""
    names = plan.devices.loc[plan.devices["role"] == "controller", "name"]
    return tuple(one for name in names if (answer := facts.nodes.get(name)) for one in answer.identities)


Judge = Callable[[Mapping[str, Any], Plan], kube.Judged]


def outcome(
    judge: Judge, plan: Plan, said: PlatformSaid, seen: tuple[Identity, ...], good: str, *parts: str
) -> Outcome:
    """What a judgement makes of the answers. good: the sentence of a pass, with places for the value's parts. parts: those of the
    answers that it is made of, which evidence keeps.
    """
    if said.error:
        return Outcome(False, None, said.error, identities=seen)
    try:
        with answers.reading(Source("the API server", "judge what it said"), "objects as Kubernetes' API has them"):
            value, problems = judge(said.answers, plan)
    except DeviceError as error:
        return Outcome(False, None, str(error), identities=seen)
    raw = kube.raw_of(said.answers, *parts)
    return Outcome(not problems, value, kube.shown(problems) or good.format(**value), identities=seen, raw=raw)


def of_node(said: PlatformSaid, name: str) -> PlatformSaid:
    """The same answers, with what is said of one node alone."""
    nodes = {name: said.answers["nodes"].get(name)} if "nodes" in said.answers else {}
    return PlatformSaid({**said.answers, "nodes": nodes}, said.error)


def together(*said: PlatformSaid) -> PlatformSaid:
    """Several answers as one; the first error is that of all."""
    answers = {part: answer for one in said for part, answer in one.answers.items()}
    return PlatformSaid(answers, next((one.error for one in said if one.error), ""))


@check("P-01.measured", inputs=(*PLATFORM, *PLACES))
def test_of_two_gangs_over_half_one_runs_whole_and_the_other_after_it(
    subject: str, plan: Plan, facts: Facts, gangs_said: PlatformSaid
) -> Outcome:
    good = "two gangs of {pods} pods: one ran whole, no pod of the other beside it, and that one whole after it"
    return outcome(kube.gangs, plan, gangs_said, controllers(plan, facts), good, "halves")


@check("P-02.measured", inputs=(*PLATFORM, *PLACES))
def test_a_gang_stands_in_one_block_of_the_plan(
    subject: str, plan: Plan, facts: Facts, gangs_said: PlatformSaid
) -> Outcome:
    good = "{pods} pods ran in one of {of_blocks} blocks"
    return outcome(kube.one_block, plan, gangs_said, controllers(plan, facts), good, "block")


@check("P-03.measured", inputs=(*PLATFORM, *PLACES))
def test_a_lower_tier_yields_with_a_checkpoint_and_goes_on(
    subject: str, plan: Plan, facts: Facts, yielded: Told
) -> Outcome:
    return of_preemption(plan, facts, yielded)


@check("P-18.measured", inputs=(*PLATFORM, *PLACES))
def test_an_account_takes_from_another_by_priority_and_never_against_it(
    subject: str, plan: Plan, facts: Facts, reclaimed: PlatformSaid
) -> Outcome:
    return outcome(kube.reclaimed, plan, reclaimed, controllers(plan, facts), "{found}", "reclaim")


@check("P-04.measured", inputs=(*PLATFORM, *PLACES))
def test_what_goes_beyond_quota_and_tiers_is_refused(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid, quotas_said: PlatformSaid
) -> Outcome:
    good = "{pods} pods tried as dry runs, {refused} refused by the rule that is meant for them; {held} Jobs beyond limits held"
    said = together(platform_said, quotas_said)
    return outcome(kube.held_to_quotas, plan, said, controllers(plan, facts), good, "trials", "quotas")


@check("P-05.measured", inputs=(*PLATFORM, *PLACES))
def test_users_may_what_their_role_says_and_nothing_else(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    good = "{asked} rights asked, {allowed} allowed, as planned"
    return outcome(kube.who_may, plan, platform_said, controllers(plan, facts), good, "rights")


@check("P-06.measured", inputs=(*PLATFORM, *PLACES))
def test_pods_have_the_gpus_they_were_granted_and_no_other(
    subject: str, plan: Plan, facts: Facts, grants: Told
) -> Outcome:
    good = "{pods} pods at the same time had all {gpus} GPUs between them, each its own"
    return of_grants(partial(kube.granted, plan=plan, name=subject), subject, plan, facts, grants, good)


@check("P-07.measured", inputs=(*PLATFORM, *PLACES))
def test_a_pod_that_was_granted_no_gpu_has_none(subject: str, plan: Plan, facts: Facts, grants: Told) -> Outcome:
    return of_grants(kube.none_granted, subject, plan, facts, grants, "no UUID, no device file, and none may be opened")


def of_grants(
    judge: Callable[[Mapping[str, Any]], kube.Judged], subject: str, plan: Plan, facts: Facts, grants: Told, good: str
) -> Outcome:
    """What a judgement makes of what the pods of one node said."""
    seen = (*facts.nodes[subject].identities, *controllers(plan, facts))
    return of_trial(judge, replace(grants, answer=grants.answer.get(subject, {})), seen, good)


@check("P-08.measured", inputs=(*PLATFORM, *PLACES, "site.validation"))
def test_the_others_serve_on_without_an_api_server(
    subject: str, plan: Plan, facts: Facts, without_api_server: Told
) -> Outcome:
    told = of_controller(without_api_server, subject)
    good = "{nodes} nodes stayed ready and reported to the others, which answered {calls} calls; a pod started after {start_s} s"
    return of_trial(partial(kube.served_on, plan=plan), told, controllers(plan, facts), good)


@check("P-09.measured", inputs=(*PLATFORM, "site.validation"))
def test_no_object_is_lost_with_a_member_of_etcd(subject: str, plan: Plan, facts: Facts, without_etcd: Told) -> Outcome:
    good = "{written} objects taken, {while_away} of them without it: all are there, at that member too {back_s} s after its start"
    return of_trial(kube.nothing_lost, of_controller(without_etcd, subject), controllers(plan, facts), good)


def of_controller(told: Told, name: str) -> Told:
    """What was told of one controller."""
    return replace(told, answer=told.answer.get(name, {}))


@check("P-10.measured", inputs=(*PLATFORM, "site.validation"))
def test_a_kubelet_that_stops_is_missed_and_its_pods_run_on(
    subject: str, plan: Plan, facts: Facts, kubelet_stopped: Told
) -> Outcome:
    of_node = facts.nodes[kubelet_stopped.answer["node"]].identities if kubelet_stopped.answer else ()
    good = "{node} was missed after {noticed_s} s, its pod ran on; the kubelet was back {back_s} s after its start"
    return of_trial(kube.kubelet_stopped, kubelet_stopped, (*of_node, *controllers(plan, facts)), good)


@check("P-17.measured", inputs=(*PLATFORM, "site.validation"))
def test_a_node_that_is_not_fit_is_out_of_service_and_no_other(
    subject: str, plan: Plan, facts: Facts, node_unfit: Told
) -> Outcome:
    of_node = facts.nodes[node_unfit.answer["node"]].identities if node_unfit.answer else ()
    good = (
        "{node} was out of service after {noticed_s} s, no other node was, and it was back after {back_s} s: {reason}"
    )
    return of_trial(kube.node_unfit, node_unfit, (*of_node, *controllers(plan, facts)), good)


@check("P-11.measured", inputs=TRAINING)
@as_planned("P-11.measured")
def test_a_gang_that_loses_a_node_starts_anew_as_a_whole_elsewhere(
    subject: str, plan: Plan, rehearsal: Recording, facts: Facts
) -> Outcome:
    found, raw = touched(plan, facts, rehearsal), rehearsal.as_json()
    try:
        value, problems = story.started_anew(rehearsal)
    except story.Incomplete as error:
        return Outcome(False, None, str(error), identities=found, raw=raw, command=SETUP)
    good = f"{value['victim']} lost its power: all {value['ranks']} ranks started anew on {', '.join(value['nodes'])}"
    return Outcome(not problems, value, "; ".join(problems) or good, identities=found, raw=raw, command=SETUP)


@check("P-12.measured", inputs=(*PLATFORM, *PLACES, "site.validation"))
def test_a_node_offers_one_gpu_less_after_an_xid(
    subject: str, plan: Plan, facts: Facts, gpus_at_fault: Told
) -> Outcome:
    if not gpus_at_fault.error and subject not in gpus_at_fault.answer:
        why = "none of its GPUs answers, or they are shared: the trial is one of whole GPUs"
        gpus_at_fault = replace(gpus_at_fault, error=why)
    good = "{offered} of {before} GPUs on offer {noticed_s} s after an XID, not the one at fault; all {back_s} s after its repair"
    return of_grants(partial(kube.one_gpu_less, plan=plan, name=subject), subject, plan, facts, gpus_at_fault, good)


@check("P-13.applied", inputs=(*PLATFORM, *PLACES))
def test_objects_of_the_platform_are_as_planned(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    good = "{objects} objects are as planned"
    return outcome(kube.objects, plan, platform_said, controllers(plan, facts), good, "objects")


@check("P-16.applied", inputs=(*PLATFORM, *PLACES))
def test_node_stands_in_its_place_with_all_its_gpus(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    seen = (*facts.nodes[subject].identities, *controllers(plan, facts))
    good = "ready, {gpus} GPUs on offer, labels as planned"
    return outcome(partial(kube.node, name=subject), plan, of_node(platform_said, subject), seen, good, "nodes")


@check("P-13.measured", inputs=(*PLATFORM, *PLACES))
def test_what_was_changed_by_hand_is_found(subject: str, plan: Plan, facts: Facts, changed_by_hand: Told) -> Outcome:
    good = "{object} was changed by hand: the comparison with the plan saw it, and nothing once it was put back"
    return of_trial(partial(kube.by_hand, plan=plan), changed_by_hand, controllers(plan, facts), good)


@check("P-14.applied", inputs=PLATFORM)
def test_etcd_has_no_secret_in_clear(
    subject: str, plan: Plan, facts: Facts, secrets_in_etcd: Mapping[str, Told]
) -> Outcome:
    seen = facts.nodes[subject].identities
    return of_trial(kube.encrypted, secrets_in_etcd[subject], seen, "{secrets} Secrets in etcd, all encrypted")


@check("P-15.measured", inputs=PLATFORM)
def test_etcd_comes_back_from_its_backup(subject: str, plan: Plan, facts: Facts, restored_etcd: Told) -> Outcome:
    good = "{keys} keys, {bytes} bytes: saved in {save_s} s, restored and served in {restore_s} s"
    return of_trial(kube.restored, restored_etcd, facts.nodes[controller_of(plan)].identities, good)


@check("P-19.measured", inputs=(*PLATFORM, *PLACES))
def test_pods_find_the_api_server_by_its_name(subject: str, plan: Plan, facts: Facts, names_asked: Told) -> Outcome:
    good = "the API server's name in {took_ms} ms, by the cluster's DNS"
    return of_grants(kube.api_server_found, subject, plan, facts, names_asked, good)


def of_preemption(plan: Plan, facts: Facts, yielded: Told) -> Outcome:
    """What is made of the job that yielded to another."""
    limit = site_limit(plan.site, "preempt_start_s")
    good = "started after {start_s:g} s; the other wrote step {checkpoint_step} in its grace of {grace_s} s and went on from there"
    made = of_trial(partial(kube.preempted, plan=plan), yielded, controllers(plan, facts), good)
    return replace(made, unit="s", limit=limit)


def of_trial(
    judge: Callable[[Mapping[str, Any]], kube.Judged], said: Told, seen: tuple[Identity, ...], good: str
) -> Outcome:
    """What a judgement makes of what a trial gave. good: the sentence of a pass, with places for the value's parts."""
    if said.error:
        return Outcome(False, None, said.error, identities=seen, measured_s=said.seconds)
    value, problems = judge(said.answer)
    detail, raw = kube.shown(problems) or good.format(**value), json.dumps(said.answer, sort_keys=True).encode()
    return Outcome(not problems, value, detail, identities=seen, raw=raw, measured_s=said.seconds)
