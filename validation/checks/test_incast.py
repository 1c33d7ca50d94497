"""The lossless class under an incast, by the counters of every end on its way (S055, S056)."""

import json
from collections.abc import Mapping
from typing import Any

from capacity.model import Plan
from validation import incast
from validation.check import Outcome, check
from validation.checks.test_roce import OF_SWITCHES
from validation.facts import Facts
from validation.facts.gather import identities
from validation.facts.incast import planned

READS = (*OF_SWITCHES, "site.server")
MOST_SHOWN = 8


@check("S055.measured", inputs=READS)
def test_an_incast_loses_nothing_and_marks_before_it_pauses(
    subject: str, plan: Plan, facts: Facts, incast_run: Mapping[str, Any]
) -> Outcome:
    found = incast.lossless(plan, incast_run)
    return outcome(
        plan, facts, incast_run, found, "nothing of the class dropped, pauses of both ends of each link alike"
    )


@check("S056.measured", inputs=READS)
def test_the_load_has_its_priority_on_the_whole_way(
    subject: str, plan: Plan, facts: Facts, incast_run: Mapping[str, Any]
) -> Outcome:
    found = incast.marked(plan, incast_run)
    return outcome(plan, facts, incast_run, found, "the planned priority and queue at adapters, leaf and spines")


def outcome(plan: Plan, facts: Facts, said: Mapping[str, Any], found: incast.Found, good: str) -> Outcome:
    """The outcome of an incast, with the identities of all that was read."""
    wanted = planned(plan)
    names = [] if wanted is None else [*wanted.rails, *wanted.ports]
    asked = identities([answers.get(name) for name in names for answers in (facts.nodes, facts.roce_switches)])
    shown = found.problems[:MOST_SHOWN]
    more = [f"and {len(found.problems) - MOST_SHOWN} more"] if len(found.problems) > MOST_SHOWN else []
    loads = f"{found.value['senders']} senders, {found.value['gb_s']:g} GB/s: "
    raw = json.dumps(said, sort_keys=True, indent=1).encode()
    return Outcome(
        not found.problems, found.value, "; ".join([*shown, *more]) or loads + good, identities=asked, raw=raw
    )
