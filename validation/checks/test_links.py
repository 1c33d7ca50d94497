"""Links as their ends say: rate, FEC, bit errors, optical power, counters. Those of the compute fabric for long enough (S047),
and both ends of every data link against each other (S170)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from capacity.model import Plan
from network import link_ends
from network.infiniband.wire import FABRIC, on_the_wire
from validation import link_pairs, readings
from validation.assembly import is_container, unread
from validation.check import Outcome, check, site_limit
from validation.facts import Answer, Facts
from validation.facts.gather import identities

MOST_SHOWN = 8
"""Faults of a switch's links that a sentence names."""


@pytest.fixture(scope="session")
def rdma_devices(plan: Plan) -> dict[str, dict[str, str]]:
    """Names of the RDMA devices of each server."""
    return names_of_devices(plan)


def names_of_devices(plan: Plan) -> dict[str, dict[str, str]]:
    """{server: {RDMA device: its end of a compute cable}}, by all names that Linux may give a device."""
    if plan.site.fabric.kind != "roce":
        return {host: dict(devices) for host, devices in on_the_wire(plan).devices.items()}
    ends = plan.cables[(plan.cables["fabric"] == FABRIC) & (plan.cables["stage"] == "node-leaf")]
    found: dict[str, dict[str, str]] = {}
    for host, port in ends[["a_device", "a_port"]].itertuples(index=False, name=None):
        found.setdefault(host, {})[port] = (
            f"{host}:{port}"  # the role that sets the adapters gives them the rail's name
        )
    return found


@check(
    "S047.measured",
    inputs=(
        "frame.cables",
        "frame.addresses",
        "frame.devices",
        "site.fabric",
        "site.limits",
        "site.addressing",
        "site.credentials",
        "assets",
    ),
    only=("compute_leaves",),
)
def test_links_are_up_and_without_errors_for_long_enough(
    subject: str,
    plan: Plan,
    facts: Facts,
    guids: Mapping[str, str],
    rdma_devices: dict[str, dict[str, str]],
    diagnosed_again: Mapping[str, Any],
    ends_again: Mapping[str, Mapping[str, Any]],
) -> Outcome:
    mine = readings.adapter_cables(plan, subject)
    if mine.empty:
        pytest.skip(f"no adapter hangs on {subject}: S170 compares links between switches")
    if all(is_container(facts.nodes[host].data.get("machine", {})) for host in mine["a_device"]):
        pytest.skip(f"what hangs on {subject} are containers: they have no links of their own")
    ber, _ = site_limit(plan.site, "link_ber_max"), site_limit(plan.site, "link_raw_ber_max")
    problems: list[str] = []
    said: dict[str, Any] = {}
    for host, port, far_port, rate in mine[["a_device", "a_port", "b_port", "rate_gbps"]].itertuples(
        index=False, name=None
    ):
        for fault in _faults(plan, facts.nodes[host], f"{host}:{port}", rdma_devices[host], said, rate):
            problems.append(f"{host}:{port} (at {subject}:{far_port}) {fault}")
    needed = max(link_ends.soak_s(float(ber.value), rate) for rate in mine["rate_gbps"])
    if plan.site.fabric.kind == "ib":
        seen = link_pairs.Seen(facts, guids, rdma_devices, diagnosed_again)
        of_switches = link_pairs.of_diagnoses(plan, subject, seen)
    else:
        of_switches = link_pairs.of_drivers(plan, subject, facts, ends_again)
    far = link_pairs.soaked(plan, subject, of_switches)
    problems += far.problems
    good = (
        f"{len(mine)} links at their rate with FEC, no light or error outside its limit, {needed:.0f} s counted or more"
    )
    good += f"; {far.timed} ends of switches too" if far.timed else ""
    good += f"; {far.untimed} ends of switches do not show since when they count" if far.untimed else ""
    good += f"; {far.without_raw} ends of switches show no bit error rate before FEC" if far.without_raw else ""
    nodes = [facts.nodes[host] for host in mine["a_device"].unique()]
    of_ends = of_switches.keys() - {link_pairs.NOT_TWICE}
    switches = [facts.roce_switches.get(name) for name in sorted({end.partition(":")[0] for end in of_ends})]
    asked = identities([*nodes, *switches])
    value = {"links": len(mine), "ends_of_switches": far.timed, "faults": len(problems)}
    raw = json.dumps({**said, **of_switches}, sort_keys=True, indent=1).encode()
    return Outcome(not problems, value, "; ".join(problems) or good, limit=ber, identities=asked, raw=raw)


@check(
    "S170.observed",
    inputs=("frame.cables", "frame.devices", "site.fabric", "assets"),
)
def test_both_ends_of_each_link_say_the_same(
    subject: str,
    plan: Plan,
    facts: Facts,
    guids: Mapping[str, str],
    rdma_devices: dict[str, dict[str, str]],
    diagnosed_again: Mapping[str, Any],
) -> Outcome:
    rows = link_pairs.cables_of(plan, subject)
    if rows.empty:
        return Outcome(False, None, "the plan cables none of its ports")
    if facts.nodes and all(is_container(node.data.get("machine", {})) for node in facts.nodes.values()):
        pytest.skip("the servers are containers: they have no links of their own")
    for key in ("link_ber_max", "link_raw_ber_max"):
        site_limit(plan.site, key)  # says what the site file lacks
    said = link_pairs.asked(plan, subject, link_pairs.Seen(facts, guids, rdma_devices, diagnosed_again))
    found = link_pairs.judge(plan, subject, said)
    lacking = "; ".join(f"{what} at {count} ends" for what, count in sorted(found.unshown.items()))
    good = f"both ends of {len(rows)} links alike, counters too" + (f"; not shown: {lacking}" if lacking else "")
    shown = found.problems[:MOST_SHOWN]
    more = [f"and {len(found.problems) - MOST_SHOWN} more"] if len(found.problems) > MOST_SHOWN else []
    devices = {end.partition(":")[0] for end in [*rows["a"], *rows["b"]]}
    asked = identities(
        [answers.get(name) for name in sorted(devices) for answers in (facts.switches, facts.nodes, facts.agents)]
    )
    raw = json.dumps(said, sort_keys=True, indent=1).encode()
    detail = "; ".join([*shown, *more]) or good
    return Outcome(not found.problems, found.value, detail, identities=asked, raw=raw)


def _faults(
    plan: Plan, node: Answer, end: str, devices: dict[str, str], said: dict[str, Any], rate: float
) -> Iterator[str]:
    """What is wrong with the adapter's end of a cable; what it said goes into `said`."""
    machine = node.data.get("machine", {"error": "it was not asked"})
    if why := [node.error] if node.error else unread(machine, "links"):
        yield f"is not known: {why[0]}"
        return
    name = next((name for name, at in devices.items() if at == end and name in machine["links"]), None)
    if name is None:
        yield f"is none of its RDMA devices ({', '.join(machine['links']) or 'it has none'})"
        return
    said[end] = machine["links"][name]
    yield from readings.link_faults(said[end], node.device, rate, plan.site)
