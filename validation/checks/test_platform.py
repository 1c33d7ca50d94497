"""The Kubernetes platform as its API server shows it (P-04, P-05, P-13, P-16). Nothing is changed: pods are tried as dry runs."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from capacity.model import Plan
from validation import kube
from validation.check import Outcome, check
from validation.checks.conftest import PlatformSaid
from validation.evidence import Identity
from validation.facts import Facts

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
