"""The Kubernetes platform as its API server shows it (P-04, P-05, P-13, P-16). Nothing is changed: pods are tried as dry runs."""

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


def outcome(judged: kube.Judged, good: str, raw: bytes, seen: tuple[Identity, ...]) -> Outcome:
    value, problems = judged
    return Outcome(not problems, value, kube.shown(problems) or good, identities=seen, raw=raw)


@check("P-04.measured", inputs=(*PLATFORM, *PLACES))
def test_pods_beyond_quota_and_tiers_are_refused(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    said, seen = platform_said, controllers(plan, facts)
    if said.error:
        return Outcome(False, None, said.error, identities=seen)
    value, problems = kube.admitted(said.answers, plan)
    good = f"{value['pods']} pods tried as dry runs, {value['refused']} refused by the rule that is meant for them"
    return outcome((value, problems), good, kube.raw_of(said.answers, "trials"), seen)


@check("P-05.measured", inputs=(*PLATFORM, *PLACES))
def test_users_may_what_their_role_says_and_nothing_else(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    said, seen = platform_said, controllers(plan, facts)
    if said.error:
        return Outcome(False, None, said.error, identities=seen)
    value, problems = kube.who_may(said.answers, plan)
    good = f"{value['asked']} rights asked, {value['allowed']} allowed, as planned"
    return outcome((value, problems), good, kube.raw_of(said.answers, "rights"), seen)


@check("P-13.applied", inputs=(*PLATFORM, *PLACES))
def test_objects_of_the_platform_are_as_planned(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    said, seen = platform_said, controllers(plan, facts)
    if said.error:
        return Outcome(False, None, said.error, identities=seen)
    value, problems = kube.objects(said.answers, plan)
    good = f"{value['objects']} objects are as planned"
    return outcome((value, problems), good, kube.raw_of(said.answers, "objects"), seen)


@check("P-16.applied", inputs=(*PLATFORM, *PLACES))
def test_node_stands_in_its_place_with_all_its_gpus(
    subject: str, plan: Plan, facts: Facts, platform_said: PlatformSaid
) -> Outcome:
    said, seen = platform_said, (*facts.nodes[subject].identities, *controllers(plan, facts))
    if said.error:
        return Outcome(False, None, said.error, identities=seen)
    own: dict[str, Any] = {"nodes": {subject: said.answers["nodes"].get(subject)}}
    value, problems = kube.node(said.answers, plan, subject)
    good = f"ready, {value['gpus']} GPUs on offer, labels as planned"
    return outcome((value, problems), good, kube.raw_of(own, "nodes"), seen)
