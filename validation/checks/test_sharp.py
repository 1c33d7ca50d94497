"""SHARP: reduction inside the switches of an InfiniBand fabric, as its manager has set it up and as NCCL uses it (S058)."""

from collections.abc import Mapping

import pytest

from capacity.model import Plan
from network.drivers.errors import UnreadableAnswer
from validation import infiniband, sharp
from validation.check import Outcome, check
from validation.checks.conftest import InNetwork
from validation.checks.test_adaptive_routing import skip_containers
from validation.checks.test_infiniband import NOBODY
from validation.facts import Facts
from validation.facts.gather import identities
from validation.facts.node_results import left_unsigned, side_by_side
from validation.infiniband import best_view
from validation.runners import collectives as sweeps
from validation.runners.burn_in import gpu_nodes
from validation.runners.engine import named


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


@check(
    "S058.measured",
    inputs=(
        "site.scheduler",
        "site.tiers",
        "site.storage",
        "frame.devices",
        "frame.cables",
        "site.fabric",
        "site.gpu",
        "site.server",
        "site.limits",
        "site.validation",
        "site.versions",
    ),
)
def test_all_reduce_gains_by_reduction_in_the_switches(
    subject: str, plan: Plan, facts: Facts, request: pytest.FixtureRequest
) -> Outcome:
    """NCCL's log says that the largest messages were reduced in the switches, and they are faster than without."""
    skip_containers(facts)
    swept: InNetwork = request.getfixturevalue("in_network")
    nodes = gpu_nodes(plan)
    found = identities([facts.nodes.get(name) for name in nodes])
    if swept.error or swept.job is None:
        return Outcome(False, None, swept.error, identities=found)
    raw = side_by_side(swept.kept.raw, output=swept.job.output.decode(errors="replace"))
    try:
        judged = sharp.judge(plan, sweeps.ranks_of(swept.kept.ranks))
    except UnreadableAnswer as error:
        return Outcome(False, None, str(error), identities=found, raw=raw)
    value = judged.value
    good = f"all-reduce {value.get('with_gb_s', 0):.1f} GB/s with reduction in the switches by {', '.join(value['algorithms'])}"
    good += f", {value.get('without_gb_s', 0):.1f} GB/s without"
    return Outcome(
        not judged.problems,
        value,
        "; ".join(judged.problems or [good, *left_unsigned(swept.kept.unsigned, nodes)]),
        unit="GB/s",
        identities=(*found, *swept.kept.signed.values()),
        raw=raw,
        command=named(plan, swept.job.job_id),
        configuration={**(judged.ran.configuration() if judged.ran else {}), **swept.run.configuration()},
    )
