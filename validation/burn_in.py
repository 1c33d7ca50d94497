"""Judging a burn-in: the report of workloads/burnin.py for one node in, problems out. Pure.

A GPU fails for wrong results, uncorrectable errors, rows that were remapped or could not be, hardware XIDs, slowing down by
heat or by the power brake (a software power cap is what full load looks like), for being hotter than its neighbours, and for
getting slower. Where the load ran on CPUs, what needs a computing GPU is not judged; `not_judged` says so.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from validation.gpu_health import POWER_BRAKE, THERMAL, is_hardware, meaning


@dataclass(frozen=True)
class Limits:
    """drift_pct: how much slower the last part may be than the first; outlier_c: how much hotter than the node's median;
    power_pct: how much of its power limit a GPU must draw."""

    drift_pct: float
    outlier_c: float
    power_pct: float


def problems(report: Mapping[str, Any], host: str, gpus: int, limits: Limits, ranks: int) -> list[str]:
    """Everything that fails a node. gpus: how many it must have; telemetry of fewer is a problem. ranks: that load it."""
    node = report["nodes"].get(host)
    if node is None:
        return [f"{host} was not in the job"]
    found = [text for rank in node["ranks"] for text in _of_rank(rank, limits)]
    if len(node["ranks"]) != ranks:
        found.append(f"{len(node['ranks'])} ranks loaded the node, expected {ranks}")
    if node["telemetry_error"]:
        found.append(f"telemetry: {node['telemetry_error']}")
    if len(node["gpus"]) != gpus:
        found.append(f"telemetry of {len(node['gpus'])} GPUs, the node has {gpus}")
    median_c = statistics.median([gpu["max_c"] for gpu in node["gpus"] if gpu["max_c"] is not None] or [0])
    for gpu in node["gpus"]:
        found += [f"GPU {gpu['serial']}: {text}" for text in _of_gpu(gpu, median_c, limits, report["device"] != "cpu")]
    serials = {gpu["uuid"]: gpu["serial"] for gpu in node["gpus"]}
    found += [
        f"GPU {serials.get(one['uuid'], one['uuid'])}: XID {one['xid']} ({meaning(one['xid'])})"
        for one in node["xids"]
        if is_hardware(one["xid"])
    ]
    return found


def not_judged(report: Mapping[str, Any]) -> str:
    """What a run on CPUs leaves open, or ''."""
    return (
        ""
        if report["device"] != "cpu"
        else "the load ran on CPUs: the GPUs' speed, heat and power under load are not judged"
    )


def drift_pct(rank: Mapping[str, Any]) -> float:
    """By how much the last part was slower than the first, percent; negative where it was faster."""
    return float(100 * (1 - rank["last_gflops"] / rank["first_gflops"]))


def _of_rank(rank: Mapping[str, Any], limits: Limits) -> list[str]:
    name = f"rank {rank['rank']}"
    if rank.get("error"):
        return [f"{name}: {rank['error']}"]
    drift = drift_pct(rank)
    return [
        *(
            [f"{name}: {rank['wrong_products']} of {rank['rounds']} products are wrong"]
            if rank["wrong_products"]
            else []
        ),
        *([f"{name}: {rank['wrong_bytes']} bytes of memory came back wrong"] if rank["wrong_bytes"] else []),
        *([f"{name}: {drift:.1f} % slower at the end than at the beginning"] if drift > limits.drift_pct else []),
    ]


def _of_gpu(gpu: Mapping[str, Any], median_c: float, limits: Limits, computes: bool) -> list[str]:
    if gpu["error"] or not gpu["samples"]:
        return [gpu["error"] or "no sample"]
    slowed = [name for name in (*THERMAL, POWER_BRAKE) if gpu["reasons"].get(name)]
    return [
        *([f"slowed down by {', '.join(slowed)}"] if slowed else []),
        *([f"{gpu['uncorrected']} new uncorrectable memory errors"] if gpu["uncorrected"] else []),
        *(["a memory row waits for its remapping"] if gpu["remap_pending"] else []),
        *(["a memory row could not be remapped"] if gpu["remap_failed"] else []),
        *(
            [f"{gpu['max_c']} C, the node's median is {median_c:g} C"]
            if gpu["max_c"] > median_c + limits.outlier_c
            else []
        ),
        *(
            [f"draws {gpu['median_w']:g} W of {gpu['limit_w']:g} W: that is no full load"]
            if computes and gpu["median_w"] < limits.power_pct / 100 * gpu["limit_w"]
            else []
        ),
    ]
