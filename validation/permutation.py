"""What a permutation over parallel paths showed of adaptive routing (facts/permutation.py): S057 on InfiniBand. Pure.

known = prepared(plan, wanted, facts, guids)    # what has to be known before, or why it is not
found = judge(plan, said)                       # with adaptive routing not slower, more evenly spread, and nothing sent again
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from capacity.model import Plan
from network.infiniband import compare
from network.infiniband.subnet import BULK_LEVEL, SERVICE_LEVELS
from network.infiniband.wire import on_the_wire
from validation import infiniband
from validation.facts import Facts
from validation.facts.permutation import RUNS, Known, Permutation, planned
from validation.incast import RATE

SLACK = 0.02
"""Share by which a run may be slower or less even than the other: two runs of one load differ. A choice of ours."""
NO_LEVELS = (
    f"service level {BULK_LEVEL} is not routed adaptively by every switch, or none is left without: on and off cannot be compared. "
    f"Fix: adaptive routing in the subnet manager for all levels but one, as {SERVICE_LEVELS - 1}"
)


@dataclass(frozen=True)
class Found:
    """The verdict on both runs."""

    value: dict[str, Any]
    problems: list[str]


# ---- before ----------------------------------------------------------------------------------------------------------
def prepared(plan: Plan, wanted: Permutation, facts: Facts, guids: Mapping[str, str]) -> Known | dict[str, str]:
    """What the runs need, or by device why it is not known."""
    view = infiniband.best_view(facts)
    if view is None:
        return {plan.site.name: "no host with a subnet manager answers: see S060"}
    said = view.data.get("diagnosed", infiniband.NOT_DIAGNOSED)
    if "error" in said:
        return {view.device: str(said["error"])}
    levels = levels_of(said["adaptive"])
    if levels is None:
        return {plan.site.name: NO_LEVELS}
    found, wire = infiniband.discovered(view), on_the_wire(plan)
    planes = compare.planes(found, compare.identify(found, guids, wire), wire)
    uplinks = [end for each in wanted.uplinks.values() for end in each]
    places = {
        end: [[f"{guid}/{port}" for guid in sorted(known)] for known, port in planes.get(end, ())] for end in uplinks
    }
    errors = {end: "it is not in the subnet" for end, each in places.items() if not each}
    devices: dict[str, str] = {}
    for end in wanted.ends:
        host = end.partition(":")[0]
        answer = facts.nodes.get(host)
        machine: Mapping[str, Any] = {} if answer is None or answer.error else answer.data.get("machine", {})
        names = [
            name for name, at in wire.devices.get(host, {}).items() if at == end and name in machine.get("links", {})
        ]
        if names:
            devices[end] = names[0]
        else:
            errors[host] = answer.error if answer is not None and answer.error else f"{end} is none of its RDMA devices"
    return errors or Known(view.device, levels, devices, places)


def levels_of(adaptive: Mapping[str, int]) -> dict[str, int] | None:
    """The service level of jobs, where every switch routes it adaptively, and the last one that none does."""
    masks = list(adaptive.values())
    static = [level for level in range(SERVICE_LEVELS) if not any(mask >> level & 1 for mask in masks)]
    if not masks or not static or not all(mask >> BULK_LEVEL & 1 for mask in masks):
        return None
    return {"adaptive": BULK_LEVEL, "static": static[-1]}


# ---- after -----------------------------------------------------------------------------------------------------------
def judge(plan: Plan, said: Mapping[str, Any]) -> Found:
    """{levels, adaptive and static: {gb_s, spread, resent}}, and what is wrong.

    gb_s is the sum over all senders, 10^9 bytes a second. spread: of the leaf that is least even, the words of its uplinks from
    the least to the most, over their mean; 0 where all sent the same.
    """
    wanted = planned(plan)
    if said["errors"] or wanted is None:
        return Found({}, [f"{name}: {why}" for name, why in said["errors"].items()] or [ONE_LEAF])
    if json.loads(json.dumps(said["permutation"])) != json.loads(json.dumps(asdict(wanted))):
        return Found({}, ["its senders or uplinks are not those of the plan"])
    levels = said["levels"]
    if levels["adaptive"] != BULK_LEVEL or levels["static"] not in set(range(SERVICE_LEVELS)) - {BULK_LEVEL}:
        return Found({}, [f"it ran on service levels {levels['adaptive']} and {levels['static']}"])
    problems, value = list[str](), dict[str, Any]({"levels": levels})
    for name in RUNS:
        of = said["runs"][name]
        problems += [f"{name}: {fault}" for fault in _unread(wanted, of)]
        if problems:
            return Found(value, problems)
        rates = [float(found[1]) for text in of["flows"].values() if (found := RATE.search(text))]
        spread = max(spread_of([of["sent"][end] for end in ends]) for ends in wanted.uplinks.values())
        value[name] = {
            "gb_s": round(sum(rates) / 8, 3),
            "spread": round(spread, 4),
            "resent": sum(of["resent"][end] for end in wanted.ends),
        }
    return Found(value, list(_faults(value)))


ONE_LEAF = "the plan has no two leaves with links to higher switches: there are no parallel paths"


def _unread(wanted: Permutation, of: Mapping[str, Any]) -> Iterator[str]:
    """Why a run cannot be judged."""
    for end in wanted.ends:
        if not RATE.search(of["flows"].get(end, "")):
            yield f"{end} sent nothing: {of['flows'].get(end, '').strip()[-200:] or 'ib_write_bw printed nothing'}"
        if of["resent"].get(end, -1) < 0:
            yield f"{end}: what was sent again is not known"
    for leaf, ends in wanted.uplinks.items():
        if any(of["sent"].get(end, -1) < 0 for end in ends):
            yield f"{leaf}: counters of its uplinks began anew or were not read"
        elif not sum(of["sent"][end] for end in ends):
            yield f"{leaf}: its uplinks carried nothing"


def spread_of(words: list[int]) -> float:
    """From the least to the most of what uplinks sent, over their mean."""
    return (max(words) - min(words)) * len(words) / sum(words)


def _faults(value: Mapping[str, Any]) -> Iterator[str]:
    on, off = (value[name] for name in RUNS)
    if on["gb_s"] < off["gb_s"] * (1 - SLACK):
        yield f"{on['gb_s']:.1f} GB/s with adaptive routing, {off['gb_s']:.1f} GB/s without: it is slower"
    if on["spread"] > off["spread"] + SLACK:
        yield f"uplinks of a leaf are {on['spread']:.0%} apart with adaptive routing, {off['spread']:.0%} without"
    if on["resent"]:
        yield f"adapters reported {on['resent']} sequence errors with adaptive routing: packets out of order were sent again"
