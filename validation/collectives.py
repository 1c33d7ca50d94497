"""Judging the collectives sweep: the report of workloads/collectives.py and the plan's links in, problems out. Pure.

Wrong results are named with node, slot and serial of the GPU that had them. On GPUs the bus bandwidth is compared with what NICs
and NVLink allow (network/expected.py): a figure above the NICs was not measured on the planned fabric. Where the site sets
`limits.collectives_busbw_pct`, all-reduce must reach that part of what a ring allows, and send/recv by rails that part of one
NIC: the two algorithms that no NVLink hides dead NICs from.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from capacity.model import Plan
from network.expected import Ceiling, Operation, ceiling
from validation.facts import Facts
from validation.gpu_health import placed
from validation.runners.engine import Rank
from validation.runners.nccl_tests import Run

MEASURED_ABOVE = 1.05
"""A measured figure may be this much above a ceiling: clocks and rounding. Not confirmed."""
SHOWN = 5


@dataclass(frozen=True)
class Links:
    """What a planned site's collectives run over; GB/s each way of one GPU."""

    domains: int
    gpus: int
    nic_gb_s: float
    nvlink_gb_s: float

    def ceiling(self, operation: str, ranks: int) -> Mapping[str, Ceiling]:
        """Of so many ranks, one a GPU, which fill one NVLink domain after the other. See network.expected.ceiling."""
        found = ceiling(
            cast(Operation, operation),
            domains=max(1, math.ceil(ranks / self.gpus)),
            gpus=self.gpus,
            nic_gb_s=self.nic_gb_s,
            nvlink_gb_s=self.nvlink_gb_s,
        )
        return cast(Mapping[str, Ceiling], found)


def links_of(plan: Plan) -> Links | None:
    """The links between the GPUs of a plan, from its cables and the catalogue; None where it has no compute fabric."""
    servers = plan.devices[plan.devices["role"] == "gpu"]
    cables = plan.cables[(plan.cables["fabric"] == "compute") & plan.cables["a_device"].isin(servers["name"])]
    per_server = plan.catalog.device(str(servers["model"].iloc[0])).bringup.gpus
    if cables.empty or not per_server:
        return None
    shared = servers[servers["nvlink_domain"] >= 0]
    domains = int((servers["nvlink_domain"] < 0).sum()) + int(shared["nvlink_domain"].nunique())
    gpus = len(servers) * per_server
    nic_gb_s = float(cables["rate_gbps"].sum()) / 8 / gpus
    nvlink_gb_s = plan.catalog.gpu(plan.site.gpu.sku).nvlink_gb_s / 2  # the catalogue has both directions together
    return Links(domains, gpus // domains, nic_gb_s, nvlink_gb_s)


def expected(links: Links, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Best measured bus bandwidth of the slowest group beside the ceilings, for each span and operation: GB/s."""
    found = []
    for span, operation in dict.fromkeys((row["span"], row["operation"]) for row in rows):
        best = _best(rows, operation, span)
        ceilings = {name: asdict(one) for name, one in links.ceiling(operation, best["ranks"]).items()}
        about = {"span": span, "group": best["group"], "operation": operation}
        found.append({**about, "busbw_gb_s": best["busbw_mb_s"] / 1e3, "ceilings": ceilings})
    return found


def problems(
    links: Links | None, ranks: Sequence[Rank], rows: Sequence[Mapping[str, Any]], facts: Facts, least_pct: float | None
) -> list[str]:
    """What is wrong with a sweep on GPUs. least_pct: limits.collectives_busbw_pct, None where the site does not set it."""
    by_number = {rank.number: rank for rank in ranks}
    found = wrong_results(by_number, rows, facts)
    if links is None:
        return found
    for span, operation in dict.fromkeys((row["span"], row["operation"]) for row in rows):
        best = _best(rows, operation, span)
        ceilings = links.ceiling(operation, best["ranks"])
        busbw, highest = best["busbw_mb_s"] / 1e3, max(ceilings.values(), key=lambda one: one.busbw_gb_s)
        where = "" if span == "whole" else f" in {best['group']}"
        if highest.bound_by == "NICs" and busbw > MEASURED_ABOVE * highest.busbw_gb_s:
            found.append(
                f"{operation}{where} reaches {busbw:.1f} GB/s and the planned NICs allow {highest.busbw_gb_s:.1f} GB/s: it did "
                "not run over the planned fabric, or the plan's rates are wrong"
            )
        if least_pct is not None and operation in ("all_reduce", "send_recv"):
            least = least_pct / 100 * ceilings["ring"].busbw_gb_s
            if busbw < least:
                slowest = by_number.get(best["slowest_rank"])
                at = f", slowest at {gpu_named(slowest, facts)}" if slowest else ""
                found.append(
                    f"{operation}{where} reaches {busbw:.1f} GB/s, {least_pct:g} % of a ring's "
                    f"{ceilings['ring'].busbw_gb_s:.1f} GB/s ({ceilings['ring'].bound_by}) are {least:.1f} GB/s{at}"
                )
    return found


def of_node(
    links: Links | None, told: Mapping[str, Any] | None, ranks: int, least_pct: float
) -> tuple[list[str], float | None]:
    """(problems, least bus bandwidth in GB/s) of the NCCL of one node by itself, whose GPUs NVLink joins.

    told: its part of the report, None where it has none. GPUs that talk over host memory (SHM) or the network although NVLink joins
    them, and a node that reaches less than least_pct of NVLink's ceiling, are problems; so is a network over sockets.
    """
    if told is None or told["busbw_mb_s"] is None:
        return ["no all-reduce of the node's own GPUs was measured: look at the output of the collectives job"], None
    problems, least = [], None
    transports = told["transports"]
    joined = links is not None and links.nvlink_gb_s > 0 and links.gpus >= ranks
    if not transports:
        problems.append("NCCL does not say over what it connected the GPUs: run the job by hand with NCCL_DEBUG=INFO")
    elif joined and not transports.get("P2P"):
        problems.append(
            f"NCCL connected the GPUs over {', '.join(sorted(transports))} and not over NVLink (P2P): look at nvidia-smi topo -m "
            "and the Fabric Manager"
        )
    if count := transports.get("SHM"):
        problems.append(f"{count} channels run over host memory (SHM): look at nvidia-smi topo -m, ACS and IOMMU")
    if count := transports.get("NET/Socket"):
        problems.append(
            f"{count} channels run over sockets: NCCL finds no RDMA device, look at /etc/nccl.conf (NCCL_IB_HCA)"
        )
    if links is not None and joined:
        most = links.ceiling("all_reduce", ranks)["ring"].busbw_gb_s
        least, busbw = least_pct / 100 * most, told["busbw_mb_s"] / 1e3
        if busbw < least:
            problems.append(
                f"all-reduce of the node's GPUs reaches {busbw:.1f} GB/s, {least_pct:g} % of NVLink's {most:.1f} GB/s are "
                f"{least:.1f} GB/s: look at nvidia-smi nvlink --status"
            )
    return problems, least


def wrong_results(ranks: Mapping[int, Rank], rows: Sequence[Mapping[str, Any]], facts: Facts) -> list[str]:
    """Who had wrong results, and in what."""
    wrong: dict[int, list[str]] = {}
    for row in rows:
        for number in row["wrong_ranks"]:
            wrong.setdefault(number, []).append(f"{row['operation']} {row['type']} {row['size_b']} B ({row['span']})")
    found = [
        f"{gpu_named(ranks[number], facts) if number in ranks else f'rank {number}'}: {len(what)} wrong results, first {what[0]}"
        for number, what in sorted(wrong.items())
    ]
    silent = sum(not row["correct"] and not row["wrong_ranks"] for row in rows)
    more = [f"{len(found) - SHOWN} more ranks with wrong results"] if len(found) > SHOWN else []
    return [*found[:SHOWN], *more, *([f"{silent} wrong results"] if silent else [])]


def gpu_named(rank: Rank, facts: Facts) -> str:
    """Node, slot and serial of the GPU that a rank computed on, as far as the facts have it."""
    node = facts.nodes.get(rank.host)
    devices = node.data.get("gpus", {}).get("devices", []) if node and not node.error else []
    gpu = next((one for one in devices if not one["error"] and rank.uuid and one["uuid"] == rank.uuid), None)
    return placed(rank.host, gpu["module_id"], gpu["serial"]) if gpu else rank.named


def compared(run: Run | None) -> tuple[list[str], str]:
    """(problems, one sentence) of nccl-tests on one node; nothing where they are not installed."""
    if run is None:
        return [], "nccl-tests not installed on the nodes: not compared"
    said = f"nccl-tests on one node: all-reduce busbw up to {run.best_busbw_gb_s:.1f} GB/s"
    if run.wrong:
        return [f"nccl-tests count {run.wrong} wrong values"], said
    return [], said if run.checked else f"{said}, results not checked"


def _best(rows: Sequence[Mapping[str, Any]], operation: str, span: str) -> Mapping[str, Any]:
    alike = [row for row in rows if (row["operation"], row["span"]) == (operation, span)]
    return max(alike, key=lambda row: float(row["busbw_mb_s"]))
