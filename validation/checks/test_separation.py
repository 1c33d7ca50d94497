"""Separation of the site's networks (network/separation.py): the matrix, and the filter of each switch against it."""

import itertools
from collections.abc import Iterator

from capacity.model import Plan
from network import render, roce, separation
from network.nos.frr import nftables
from validation.check import Outcome, check
from validation.checks.test_design import first_of, generated


@check(
    "S068.generated",
    inputs=(
        *("site.addressing", "site.inband", "site.fabric", "site.credentials", "site.server"),
        *("frame.addresses", "frame.cables", "frame.devices"),
    ),
)
def test_filters_say_what_the_matrix_says(subject: str, plan: Plan) -> Outcome:
    """Matrix and filters are the raw output; judged are the matrix's gaps and each filter, read back from its text."""
    matrix = separation.matrix(plan.site)
    pairs = set(zip(matrix["source"], matrix["destination"], strict=True))
    names = list(separation.networks(plan.site))
    missing = [f"{one} to {other}" for one, other in itertools.product(names, repeat=2) if (one, other) not in pairs]
    problems = first_of(missing, "pairs of networks without a row in the matrix")
    problems += first_of(separation.outside(plan.site, plan.addresses), "addresses in no network of the matrix")
    inband = {name: render.render_filter(plan, name) for name in render.switches(plan)}
    compute = roce.rendering(plan).files if roce.switches(plan) else {}
    problems += [f"{name}: {fault}" for name, text in inband.items() for fault in inband_faults(plan, text)]
    problems += compute_faults(plan)
    text = matrix.to_csv(index=False) + "".join(
        f"### {name}\n{one}" for name, one in [*inband.items(), *compute.items()]
    )
    value = {"networks": names, "inband_switches": len(inband), "compute_switches": len(roce.switches(plan))}
    good = f"{len(pairs)} pairs of networks, {len(inband)} in-band and {len(roce.switches(plan))} compute switches filter so"
    return generated(text, problems, value, good)


def inband_faults(plan: Plan, text: str) -> Iterator[str]:
    """What a table of nftables says otherwise than the matrix."""
    try:
        said = nftables.read(text)
    except ValueError as error:
        yield str(error)
        return
    yield from unlike(said.permits, separation.permits(plan.site, render.INBAND))
    if said.drops != {"input", "forward"}:
        yield f"all else is dropped in {', '.join(sorted(said.drops)) or 'no chain'}, not in input and forward"


def compute_faults(plan: Plan) -> Iterator[str]:
    """What the configurations of a RoCE site's compute switches say otherwise than the matrix."""
    names = roce.switches(plan)
    if names and not roce.is_rendered(plan):
        yield f"{len(names)} compute switches have no configuration, so no filter: `bringup render {plan.site.name}` says why"
        return
    system = roce.SYSTEMS[str(plan.site.fabric.nos)] if names else None
    for name, config in roce.structured_configs(plan).items() if system else ():
        assert system is not None
        said, wanted = system.read(system.render(config)), config.model()
        yield from (f"{name}: {fault}" for fault in said.unlike(wanted, ("filtered",)))
        if wanted.filtered:
            yield from (f"{name}: {fault}" for fault in unlike(said.permits, separation.permits(plan.site, "compute")))


def unlike(said: frozenset[separation.Rule], wanted: tuple[separation.Rule, ...]) -> Iterator[str]:
    """Rules that a filter lacks, and those that it has beyond the matrix."""
    for word, rules in (("lacks", set(wanted) - said), ("lets through", said - set(wanted))):
        for rule in sorted(rules, key=str):
            port = "" if rule.port is None else f" port {rule.port}"
            yield f"{word} {rule.protocol}{port} from {rule.source} to {rule.destination}"
