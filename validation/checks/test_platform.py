"""The Kubernetes platform as its API server and etcd show it (P-01, P-02, P-04, P-05, P-13 to P-16).

P-01 and P-02 run Jobs without work for a moment. For P-04 pods are tried as dry runs. P-14 and P-15 make one object in the
namespace of the checks and delete it again.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from capacity.model import Plan
from validation import kube
from validation.check import Outcome, check
from validation.checks.conftest import EtcdSaid, PlatformSaid
from validation.evidence import Identity
from validation.facts import Facts
from validation.facts.kube import first_controller

PLATFORM = (
    "site.scheduler",
    "site.tiers",
    "site.versions",
    "site.name",
    "site.gpu",
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
    judge: Judge, plan: Plan, said: PlatformSaid, seen: tuple[Identity, ...], part: str, good: str, of: str = ""
) -> Outcome:
    """What a judgement makes of the answers. part: of them it is evidence for, alone what is said of `of` where that is given.
    good: the sentence of a pass, with places for the value's parts.
    """
    if said.error:
        return Outcome(False, None, said.error, identities=seen)
    value, problems = judge(said.answers, plan)
    kept = {part: {of: said.answers[part].get(of)}} if of else said.answers
    raw = kube.raw_of(kept, part)
    return Outcome(not problems, value, kube.shown(problems) or good.format(**value), identities=seen, raw=raw)


@check("P-01.measured", inputs=(*PLATFORM, *PLACES))
def test_of_two_gangs_over_half_one_runs_whole_and_the_other_after_it(
    subject: str, plan: Plan, facts: Facts, gangs_said: PlatformSaid
) -> Outcome:
    good = "two gangs of {pods} pods: one ran whole, no pod of the other beside it, and that one whole after it"
    return outcome(kube.gangs, plan, gangs_said, controllers(plan, facts), "halves", good)


@check("P-02.measured", inputs=(*PLATFORM, *PLACES))
def test_a_gang_stands_in_one_block_of_the_plan(
    subject: str, plan: Plan, facts: Facts, gangs_said: PlatformSaid
) -> Outcome:
    good = "{pods} pods ran in one of {of_blocks} blocks"
    return outcome(kube.one_block, plan, gangs_said, controllers(plan, facts), "block", good)


@check("P-04.measured", inputs=(*PLATFORM, *PLACES))
def test_pods_beyond_quota_and_tiers_are_refused(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    good = "{pods} pods tried as dry runs, {refused} refused by the rule that is meant for them"
    return outcome(kube.admitted, plan, platform_said, controllers(plan, facts), "trials", good)


@check("P-05.measured", inputs=(*PLATFORM, *PLACES))
def test_users_may_what_their_role_says_and_nothing_else(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    good = "{asked} rights asked, {allowed} allowed, as planned"
    return outcome(kube.who_may, plan, platform_said, controllers(plan, facts), "rights", good)


@check("P-13.applied", inputs=(*PLATFORM, *PLACES))
def test_objects_of_the_platform_are_as_planned(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    good = "{objects} objects are as planned"
    return outcome(kube.objects, plan, platform_said, controllers(plan, facts), "objects", good)


@check("P-16.applied", inputs=(*PLATFORM, *PLACES))
def test_node_stands_in_its_place_with_all_its_gpus(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    seen = (*facts.nodes[subject].identities, *controllers(plan, facts))
    good = "ready, {gpus} GPUs on offer, labels as planned"
    return outcome(partial(kube.node, name=subject), plan, platform_said, seen, "nodes", good, of=subject)


@check("P-14.applied", inputs=PLATFORM)
def test_etcd_has_no_secret_in_clear(
    subject: str, plan: Plan, facts: Facts, secrets_in_etcd: Mapping[str, EtcdSaid]
) -> Outcome:
    seen = facts.nodes[subject].identities
    return of_etcd(kube.encrypted, secrets_in_etcd[subject], seen, "{secrets} Secrets in etcd, all encrypted")


@check("P-15.measured", inputs=PLATFORM)
def test_etcd_comes_back_from_its_backup(subject: str, plan: Plan, facts: Facts, restored_etcd: EtcdSaid) -> Outcome:
    good = "{keys} keys, {bytes} bytes: saved in {save_s} s, restored and served in {restore_s} s"
    return of_etcd(kube.restored, restored_etcd, facts.nodes[first_controller(plan).name].identities, good)


def of_etcd(
    judge: Callable[[Mapping[str, Any]], kube.Judged], said: EtcdSaid, seen: tuple[Identity, ...], good: str
) -> Outcome:
    """What a judgement makes of what a controller said of etcd. good: the sentence of a pass, with places for the value's parts."""
    if said.error:
        return Outcome(False, None, said.error, identities=seen, measured_s=said.seconds)
    value, problems = judge(said.answer)
    detail, raw = kube.shown(problems) or good.format(**value), json.dumps(said.answer, sort_keys=True).encode()
    return Outcome(not problems, value, detail, identities=seen, raw=raw, measured_s=said.seconds)
