"""SHARP: reduction inside the switches of an InfiniBand fabric, as its aggregation manager has set it up (S058)."""

from collections.abc import Mapping

from capacity.model import Plan
from validation import infiniband
from validation.check import Outcome, check
from validation.checks.test_adaptive_routing import skip_containers
from validation.checks.test_infiniband import NOBODY
from validation.facts import Facts
from validation.infiniband import best_view


@check(
    "S058.applied",
    inputs=("frame.devices", "frame.cables", "site.fabric", "assets"),
    only=("infiniband_switches",),
)
def test_aggregation_trees_hold_the_switch(subject: str, plan: Plan, facts: Facts, guids: Mapping[str, str]) -> Outcome:
    """The manager runs, the switch has an aggregation node in a tree, and one tree spans all leaves of each rail at the switch."""
    skip_containers(facts)
    view = best_view(facts)
    if view is None:
        return Outcome(False, None, NOBODY)
    said = {
        host: answer.data.get("diagnosed", infiniband.NOT_DIAGNOSED)
        for host, answer in facts.subnets.items()
        if not answer.error
    }
    mine = said[view.device]
    if "error" in mine:
        return Outcome(False, None, f"not known: {mine['error']}", identities=view.identities)
    running = sorted(host for host, one in said.items() if one.get("sharp_am") == "active")
    nodes = infiniband.aggregation_nodes(plan, guids, view)
    trees = {tree: {nodes.get(guid, guid) for _, guid in each} for tree, each in mine["trees"].items()}
    holding = sorted((tree for tree, switches in trees.items() if subject in switches), key=int)
    problems = (
        []
        if running
        else ["no aggregation manager runs (sharp_am.service): see `systemctl status sharp_am` on the managers"]
    )
    if subject not in nodes.values():
        problems.append("it shows no aggregation node in the subnet")
    elif not holding:
        problems.append(f"it is in none of {len(trees)} aggregation trees")
    for rail, leaves in infiniband.leaves_of_rails(plan, subject).items():
        if not any(leaves <= switches for switches in trees.values()):
            missing = min((sorted(leaves - switches) for switches in trees.values()), key=len, default=sorted(leaves))
            problems.append(
                f"no tree spans the {len(leaves)} leaves of {rail}; the best one lacks {', '.join(missing[:4])}"
            )
    good = f"in {len(holding)} of {len(trees)} aggregation trees, manager on {', '.join(running)}"
    return Outcome(
        not problems,
        {"manager": running, "trees": holding},
        "; ".join(problems) or good,
        identities=view.identities,
        raw=infiniband.part_of(view, ("trees", "sharp_am"), ()),
    )
