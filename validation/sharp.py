"""All-reduce with and without reduction in the switches (S058): what the ranks of both sweeps told in, problems out. Pure.

    found = judge(plan, ranks)        # of both sweeps, as workloads/collectives.py --in-network on|off has them

NCCL's own log says by which algorithm an all-reduce ran. Over more than one node COLLNET_DIRECT, COLLNET_CHAIN and NVLS reduce
in the switches through a CollNet plugin (NCCL disables them without one, src/graph/tuning.cc); NVLS_TREE, TREE and RING do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from capacity.model import Plan
from network.drivers.answers import Source
from validation.collectives import wrong_results
from validation.facts import Facts
from validation.runners import collectives as sweeps
from validation.runners.burn_in import gpu_nodes
from validation.runners.engine import Ran, Rank, workload_of

ASKED = ("on", "off")
SIZES = 2
"""How many of the sweep's largest messages are measured: small ones are bound by latency, and NCCL may reduce them otherwise."""
IN_SWITCHES = frozenset({"COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS"})
"""NCCL's names of the algorithms that reduce in the switches of a network between nodes."""
SHOWN = 4


@dataclass(frozen=True)
class Found:
    """The verdict on both sweeps."""

    value: dict[str, Any]
    problems: list[str]
    ran: Ran | None = field(default=None, compare=False)


def wanted_of(plan: Plan) -> sweeps.Wanted:
    """What each rank measures in each of the two sweeps: all-reduce over all GPU nodes."""
    whole = sweeps.wanted_of(plan)
    spans = {node: tuple(one for one in told if one[0] == "whole") for node, told in whole.spans.items()}
    return replace(whole, sizes=whole.sizes[-SIZES:], spans=spans, operations=("all_reduce",))


def judge(plan: Plan, ranks: Sequence[Mapping[str, Any]]) -> Found:
    """{with_gb_s, without_gb_s, gain, plugin, algorithms} of the largest message, and what is wrong.

    GB/s are bus bandwidth, 10^9 bytes a second; of the types that were measured the one that gains least counts.
    UnreadableAnswer where ranks of a sweep are missing or do not agree.
    """
    nodes, wanted, workload = gpu_nodes(plan), wanted_of(plan), workload_of(plan)
    sweep: dict[str, list[Mapping[str, Any]]] = {asked: [] for asked in ASKED}
    for rank in ranks:
        sweep.setdefault(rank.get("in_network", {}).get("asked", "neither"), []).append(rank)
    problems = [
        f"{len(told)} ranks tell of another sweep ({asked})" for asked, told in sweep.items() if asked not in ASKED
    ]
    rates: dict[str, dict[str, float]] = {}
    ran = None
    for asked in ASKED:
        problems += [f"{asked}: {fault}" for fault in sweeps.unlike(wanted, sweep[asked], nodes)[:SHOWN]]
        report = sweeps.joined(sweep[asked], Source("the job", f"join what ranks measured with reduction {asked}"))
        each = tuple(map(Rank.of, report["ranks"]))
        ran = ran or Ran(report["device"], report["backend"], len(each), each)
        problems += workload.mismatches(len(nodes), Ran(report["device"], report["backend"], len(each), each), "nccl")
        problems += wrong_results({one.number: one for one in each}, report["rows"], Facts())
        rates[asked] = _largest(report["rows"])
    problems += _used(sweep["on"], nodes) + _left(sweep["off"])
    first = sweep["on"][0]["in_network"]
    named = {"plugin": first["plugin"], "algorithms": sorted(_algorithms(sweep["on"]))}
    measured = [rate for asked in ASKED for rate in rates[asked].values()]
    if not measured or min(measured) <= 0 or set(rates["on"]) != set(rates["off"]):
        return Found(named, [*problems, "no all-reduce over all nodes was measured with and without"], ran)
    least = min(rates["on"], key=lambda kind: rates["on"][kind] / rates["off"][kind])
    with_, without = (rates[asked][least] for asked in ASKED)
    if with_ <= without:
        problems.append(
            f"all-reduce of {least} gains nothing: {with_:.1f} GB/s with reduction in the switches, {without:.1f} GB/s without"
        )
    value = {"with_gb_s": with_, "without_gb_s": without, "gain": round(with_ / without, 4), **named}
    return Found(value, problems, ran)


def _largest(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Bus bandwidth of the largest all-reduce over all nodes, by type: GB/s."""
    found = {}
    for kind in sweeps.ELEMENT_B:
        alike = [row for row in rows if (row["span"], row["type"], row["operation"]) == ("whole", kind, "all_reduce")]
        if alike:
            found[kind] = float(max(alike, key=lambda row: int(row["size_b"]))["busbw_mb_s"]) / 1e3
    return found


def _by_size(ranks: Sequence[Mapping[str, Any]]) -> dict[int, set[str]]:
    """By which algorithms the measured all-reduces ran, by their size in bytes."""
    sizes = {int(row["size_b"]) for rank in ranks for span in rank["spans"] for row in span.get("rows", ())}
    told = [rank["in_network"]["algorithms"] for rank in ranks]
    return {size_b: {name for one in told for name in one.get(str(size_b), ())} for size_b in sorted(sizes)}


def _algorithms(ranks: Sequence[Mapping[str, Any]]) -> set[str]:
    return set().union(*_by_size(ranks).values())


def _used(ranks: Sequence[Mapping[str, Any]], nodes: Sequence[str]) -> list[str]:
    """Why NCCL's log does not show that every node reduced in the switches."""
    told = {node: [rank["in_network"] for rank in ranks if rank["host"] == node] for node in nodes}
    if without := [node for node, each in told.items() if not any(one["plugin"] for one in each)]:
        named = _named(without)
        return [f"NCCL loads no CollNet plugin on {named}: install nccl-rdma-sharp-plugins, see NCCL_NET_PLUGIN"]
    if without := [node for node, each in told.items() if not any(one["channels"] for one in each)]:
        return [
            f"NCCL connects no channel through its CollNet plugin on {_named(without)}: look at sharp_am and NCCL_DEBUG=INFO"
        ]
    by_size = _by_size(ranks)
    if silent := [size_b for size_b, names in by_size.items() if not names]:
        return [
            f"NCCL does not say by which algorithm it reduced {silent[0]} B (NCCL 2.24 and later do, subsystem TUNING)"
        ]
    if others := sorted(_algorithms(ranks) - IN_SWITCHES):
        return [f"NCCL ran the largest messages by {', '.join(others)}, not in the switches"]
    return []


def _left(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    """What shows that the sweep to compare with reduced in the switches as well."""
    used = [rank["host"] for rank in ranks if rank["in_network"]["channels"]]
    others = sorted(_algorithms(ranks) & {"COLLNET_DIRECT", "COLLNET_CHAIN"})
    if used or others:
        named = _named(list(dict.fromkeys(used))) or ", ".join(others)
        return [f"the sweep without reduction in the switches used it too ({named}): nothing was compared"]
    return []


def _named(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return ", ".join(nodes[:SHOWN]) + more
