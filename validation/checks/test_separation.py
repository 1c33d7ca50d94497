"""Separation of the site's networks (network/separation.py): the matrix, and the filter of each switch against it."""

import itertools
from collections.abc import Iterator, Mapping

from capacity.model import Plan
from network import render, roce, separation
from network.drivers.errors import DeviceError
from network.nos.frr import nftables
from network.nos.model import Model
from network.wiring import ipv6
from validation import roce as readings
from validation.check import Outcome, check
from validation.checks.test_design import first_of, generated
from validation.checks.test_fabric import compute_switch
from validation.checks.test_roce import OF_SWITCHES
from validation.facts import Answer, Facts, separation_acts
from validation.facts.gather import identities
from validation.facts.node_results import left_unsigned, side_by_side
from validation.facts.separation_acts import Probed
from validation.rejudge import MOST_NAMED

FILTER = ("permits", "filtered")
"""Fields of network.nos.model.Model that separate."""


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
    addresses = ipv6.both(plan.site, plan.catalog, plan.addresses)
    problems += first_of(separation.outside(plan.site, addresses), "addresses in no network of the matrix")
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


@check(
    "S068.applied",
    inputs=(
        "site.addressing",
        "site.inband",
        "site.fabric",
        "frame.addresses",
        "frame.cables",
        "frame.devices",
        "assets",
    ),
    only=("inband_switches",),
)
def test_router_filters_as_planned(subject: str, plan: Plan, facts: Facts) -> Outcome:
    switch = facts.switches[subject]
    if switch.error:
        return Outcome(False, None, switch.error)
    table, _ = nftables.cut(switch.data["running"])
    wanted = nftables.read(render.render_filter(plan, subject)).own
    problems = list(inband_faults(plan, table)) if table else ["it has no filter: push its configuration"]
    if table and not problems:
        problems += [f"takes for itself: {line}" for line in nftables.read(table).own if line not in wanted]
        problems += [f"does not take for itself: {line}" for line in wanted if line not in nftables.read(table).own]
    return _applied(switch, problems, f"{len(separation.permits(plan.site, render.INBAND))} rules, all else is dropped")


@check("S068.applied", inputs=(*OF_SWITCHES, "site.server"), only=("roce_switches",))
def test_compute_switch_filters_as_planned(
    subject: str, plan: Plan, facts: Facts, models_wanted: Mapping[str, Model]
) -> Outcome:
    switch, system = compute_switch(facts, subject), plan.site.fabric.nos
    if switch.error or system is None:
        return Outcome(False, None, switch.error, identities=switch.identities)
    planned = models_wanted[subject]
    problems = list(readings.switch_faults(system, switch.data["running"], planned, FILTER))
    return _applied(switch, problems, f"{len(planned.filtered)} ports to servers filter as planned")


@check(
    "S068.measured",
    inputs=(
        *("site.addressing", "site.inband", "frame.addresses", "frame.devices", "frame.cables"),
        *("assets", "site.versions"),
    ),
)
def test_networks_are_separated(subject: str, plan: Plan, facts: Facts, separation_probed: Probed) -> Outcome:
    """What is allowed is reached, what is denied is not. Silence counts only where something allowed was reached the same way."""
    planned = separation_acts.probes(plan)
    problems = [f"{name}: {why}" for name, why in separation_probed.errors.items()]
    for name, raw in separation_probed.parts.items():
        try:
            problems += separation_acts.faults(plan, name, raw, planned[name])
        except DeviceError as error:
            problems.append(str(error))
    value = separation_acts.counted(plan, planned)
    good = (
        "{servers} servers reached {allowed} connections that are allowed and none of {denied} that are denied".format(
            **value
        )
    )
    more = [f"and {len(problems) - MOST_NAMED} more"] if len(problems) > MOST_NAMED else []
    left_open = left_unsigned(separation_probed.unsigned, separation_probed.unsigned)
    return Outcome(
        not problems,
        value,
        "; ".join([*problems[:MOST_NAMED], *more] or [good, *left_open]),
        identities=(*identities([facts.nodes.get(name) for name in planned]), *separation_probed.signed.values()),
        raw=side_by_side(separation_probed.parts),
        configuration=separation_probed.configuration,
    )


def _applied(switch: Answer, problems: list[str], good: str) -> Outcome:
    if not switch.data["saved"]:
        problems.append("the running configuration is not saved for the next boot")
    value = {"faults": len(problems), "saved": switch.data["saved"]}
    return Outcome(not problems, value, "; ".join(problems) or good, identities=switch.identities, raw=switch.raw)


def inband_faults(plan: Plan, text: str) -> Iterator[str]:
    """What a table of nftables says otherwise than the matrix."""
    try:
        said = nftables.read(text)
    except ValueError as error:
        yield str(error)
        return
    yield from unlike(said.permits, separation.permits(plan.site, render.INBAND))
    if render.MANAGEMENT_PORT not in said.closed:
        yield f"forwards to or from {render.MANAGEMENT_PORT}"
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
            yield from (f"{name}: {fault}" for fault in unlike(said.permits, separation.at_ports(plan.site, "compute")))


def unlike(said: frozenset[separation.Rule], wanted: tuple[separation.Rule, ...]) -> Iterator[str]:
    """Rules that a filter lacks, and those that it has beyond the matrix."""
    for word, rules in (("lacks", set(wanted) - said), ("lets through", said - set(wanted))):
        for rule in sorted(rules, key=str):
            port = "" if rule.port is None else f" port {rule.port}"
            yield f"{word} {rule.protocol}{port} from {rule.source} to {rule.destination}"
