"""Redundant attachment to the in-band network: two leaves for each server and several spines for each leaf, by routing (S052).

LAG and MLAG are not built: servers and switches are attached by routes (network/nos/frr/capabilities.yaml). So what is read back is
what takes their place: the paths that stay when a member is pulled.
"""

from collections.abc import Iterator

from capacity.model import Plan
from network import render
from network.nos.frr import paths
from validation.check import Outcome, check
from validation.checks.test_fabric import trunk_ports
from validation.facts import Facts
from validation.facts.gather import identities

LEAST_MEMBERS = 2


@check(
    "S052.applied",
    inputs=(
        "frame.cables",
        "frame.addresses",
        "frame.devices",
        "site.inband",
        "site.fabric",
        "site.addressing",
        "assets",
    ),
)
def test_each_server_and_leaf_has_a_second_path(subject: str, plan: Plan, facts: Facts) -> Outcome:
    switch = facts.switches[subject]
    if switch.error:
        return Outcome(False, None, switch.error)
    servers = servers_of(plan, subject)
    trunks = trunk_ports(plan, subject)
    try:
        said = paths.read(switch.data["running"])
    except ValueError as error:
        return Outcome(False, None, str(error), identities=switch.identities, raw=switch.raw)
    problems = [
        *said.unlike(paths.read(render.render(plan, subject))),
        *links_down(switch.data["ports"], switch.data["neighbours"], trunks),
        *bundles(plan, subject, switch.data["ports"]),
        *tracking(switch.data.get("held"), servers, trunks),
        *(fault for server in servers for fault in single_path(plan, facts, server)),
    ]
    if trunks and len(trunks) < LEAST_MEMBERS:
        problems.append(f"has {len(trunks)} link to other switches: the pull of it cuts all servers off")
    value = {"servers": len(servers), "trunks": len(trunks), "faults": len(problems)}
    good = f"{len(servers)} servers with a second leaf, {len(trunks)} links to other switches, no bundle"
    answers = [switch, *(facts.nodes.get(name) for name in servers)]
    return Outcome(not problems, value, "; ".join(problems) or good, identities=identities(answers), raw=switch.raw)


def servers_of(plan: Plan, leaf: str) -> list[str]:
    """Servers that hang on a switch."""
    cables = plan.cables[(plan.cables["fabric"] == "inband") & (plan.cables["stage"] == "node-leaf")]
    return sorted(set(cables.loc[cables["b_device"] == leaf, "a_device"]))


def links_down(ports: dict[str, dict[str, object]], neighbours: dict[str, str], trunks: list[str]) -> Iterator[str]:
    """Members of a switch's paths to other switches that carry nothing."""
    for port in trunks:
        if ports.get(port, {}).get("state") != "up":
            yield f"{port} is {ports.get(port, {}).get('state', 'missing')}"
        elif neighbours.get(port) != "Established":
            yield f"BGP on {port} is {neighbours.get(port, 'missing')}"


def tracking(held: list[str] | None, servers: list[str], trunks: list[str]) -> Iterator[str]:
    """What a leaf does for its servers when it has lost all uplinks. `held`: network.nos.driver.SwitchFacts."""
    if servers and trunks and held is None:
        yield "does not track its uplinks: without them servers keep sending to it; install uplinks.service by docs/network-boot.md"
    if held:
        yield f"holds ports to servers down, as no uplink has a route: {', '.join(held)}"


def bundles(plan: Plan, switch: str, ports: dict[str, dict[str, object]]) -> list[str]:
    """Interfaces that the model does not have: a bundle of ports that nobody planned takes its members out of the routes."""
    model = str(plan.devices.set_index("name").at[switch, "model"])
    known = {*plan.catalog.device(model).data_port_names(), "lo"}
    known |= set(plan.addresses.loc[plan.addresses["device"] == switch, "interface"])
    more = sorted(set(ports) - known)
    return [f"has interfaces beside its ports: {', '.join(more[:4])}"] if more else []


def single_path(plan: Plan, facts: Facts, server: str) -> Iterator[str]:
    """Why the pull of one cable, or the loss of one leaf, would cut a server off now."""
    cables = plan.cables[(plan.cables["fabric"] == "inband") & (plan.cables["a_device"] == server)]
    leaves = set(cables["b_device"])
    if len(leaves) < LEAST_MEMBERS:
        yield f"{server} hangs on {', '.join(leaves)} alone"
        return
    node = facts.nodes.get(server)
    if node is None or node.error:
        yield f"the other end at {server} is not known: {node.error if node else 'it was not asked'}"
        return
    states = {port: node.data.get("links", {}).get(port, {}).get("state", "missing") for port in cables["a_port"]}
    for port, state in states.items():
        if state != "UP":
            yield f"{server}:{port} is {state}"
