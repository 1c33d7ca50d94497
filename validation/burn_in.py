"""Judging a burn-in: the results of all nodes (runners/burn_in.py: joined) in, problems of one node out. Pure.

A GPU fails for wrong results, uncorrectable errors, rows that were remapped or could not be, hardware XIDs, slowing down by
heat or by the power brake (a software power cap is what full load looks like), for being hotter than its neighbours, for getting
slower, for drawing too little power in its best precision, for a power limit below the model's default, for a PCIe link that is
slower under load than the GPU's own, for NVLinks that went down or counted errors, and for samples that are missing. Wrong
results are also found in a GPU that is always wrong in the same way: its first products differ from those of the other GPUs.

A counter that a GPU does not have is neither a failure nor a pass: `not_judged` names it. Where the load ran on CPUs, what needs
a computing GPU is not judged either.
"""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from validation.gpu_health import POWER_BRAKE, THERMAL, is_hardware, meaning, placed
from validation.readings import sample_s

LEAST_TESTED = 0.9
"""Of a GPU's memory that the memory test must cover: 95 % of what is free, and a GPU without another user has more than 95 % free.
Not confirmed: site choice of this program."""
PRECISIONS = {"gpu": ("bf16", "fp16", "tf32", "fp64", "int8", "fp8"), "cpu": ("fp32", "fp64")}
"""In what the load computes products on GPUs and on CPUs, unless the device refuses it."""
PATTERNS = ("address", "walking ones", "walking zeros", "random")
"""What the memory test writes and reads (S034)."""
IDLE_PHASES = ("", "memory", "prepare", "end")
"""Phases of the load in which no products are computed: their power is not full load."""
SAMPLING_S = 1.0
"""Time that one question to all GPUs of a node may take. Not confirmed on a node with eight GPUs."""
NVLINK_CRC_PER_S = 100.0
"""CRC errors of a GPU's NVLinks a second from which DCGM's health watch fails it (NVIDIA/DCGM, DCGM_LIMIT_MAX_NVLINK_CRC_ERROR):
links correct fewer."""
NVLINK_NONE = {"replay": "replays", "recovery": "recoveries", "recovery_failed": "failed recoveries"}
"""Events of NVLinks of which a single one fails a GPU, as in DCGM's health watch (DCGM_FR_NVLINK_ERROR_CRITICAL)."""
TELLS = {
    "max_c": "temperature",
    "max_memory_c": "memory temperature",
    "watts": "power",
    "limit_w": "power limit",
    "default_limit_w": "default power limit",
    "uncorrected": "uncorrected memory errors",
    "remap_pending": "row remapping",
}
"""Values of a GPU's report and how they are called where a GPU does not tell them."""


@dataclass(frozen=True)
class Limits:
    """drift_pct: how much slower the last part may be than the first; outlier_c: how much hotter than the node's median;
    power_pct: how much of its default power limit a GPU must draw."""

    drift_pct: float
    outlier_c: float
    power_pct: float


def problems(report: Mapping[str, Any], host: str, gpus: int, limits: Limits, ranks: int) -> list[str]:
    """Everything that fails a node. gpus: how many it must have; telemetry of fewer is a problem. ranks: that load it."""
    node = report["nodes"].get(host)
    if node is None:
        return [f"{host} has no result"]
    computes = node["device"] != "cpu"
    names = {gpu["uuid"]: placed(host, gpu["slot"], gpu["serial"]) for gpu in node["gpus"]}
    usual = _usual(report)
    found = []
    for rank in node["ranks"]:
        name = names.get(rank["uuid"]) or f"rank {rank['rank']} on {host}"
        if computes and rank["uuid"] not in names:
            found.append(f"{name}: NVML of the node has no GPU {rank['uuid'] or 'without a UUID'}")
        found += [f"{name}: {text}" for text in (*_of_rank(rank, limits, computes), *_unlike(rank, usual))]
    if len(node["ranks"]) != ranks:
        found.append(f"{len(node['ranks'])} ranks loaded the node, expected {ranks}")
    loads = Counter(rank["uuid"] for rank in node["ranks"] if rank["uuid"] in names)
    found += [f"{names[uuid]}: {count} ranks loaded it, expected 1" for uuid, count in loads.items() if count > 1]
    if node["telemetry_error"]:
        found.append(f"telemetry: {node['telemetry_error']}")
    if len(node["gpus"]) != gpus:
        found.append(f"telemetry of {len(node['gpus'])} GPUs, the node has {gpus}")
    median_c = statistics.median([gpu["max_c"] for gpu in node["gpus"] if gpu["max_c"] is not None] or [0])
    for gpu in node["gpus"]:
        name = placed(host, gpu["slot"], gpu["serial"])
        found += [f"{name}: {text}" for text in _of_gpu(gpu, median_c, limits, computes)]
        if computes and 0 < gpu["samples"] < (least := least_samples(node["duration_s"])):
            found.append(f"{name}: {gpu['samples']} samples, at least {least} in {node['duration_s'] / 3600:.3g} h")
    found += [
        f"{names.get(one['uuid'], one['uuid'])}: XID {one['xid']} ({meaning(one['xid'])})"
        for one in node["xids"]
        if is_hardware(one["xid"])
    ]
    return found


def not_judged(report: Mapping[str, Any], host: str) -> list[str]:
    """What a run leaves open for a node, by name."""
    node = report["nodes"].get(host, {"gpus": [], "ranks": []})
    open_ = []
    if node.get("device", "cpu") == "cpu":
        open_.append(
            "the load ran on CPUs: the GPUs' speed, heat, power under load and equality of results are not judged"
        )
    elif sum(rank["device"] != "cpu" for one in report["nodes"].values() for rank in one["ranks"]) < 2:
        open_.append("results of one GPU are compared with no other's")
    for gpu in node["gpus"]:
        if gpu["error"] or not gpu["samples"]:
            continue
        lacks = sorted({TELLS[key] for key in TELLS if gpu[key] in (None, {})} | set(gpu["not_supported"]))
        open_ += [f"{placed(host, gpu['slot'], gpu['serial'])} does not tell {', '.join(lacks)}"] if lacks else []
    refused = sorted({name for rank in node["ranks"] for name in rank["not_supported"]})
    open_ += [f"no products in {', '.join(refused)}: the device refuses them"] if refused else []
    return open_


def least_samples(duration_s: float) -> int:
    """Samples of a GPU that a load of this length has to leave: 90 % of those that fit. A choice of ours.

    Asking all GPUs of a node takes up to SAMPLING_S beside the time between two samples.
    """
    return int(0.9 * duration_s / (sample_s(duration_s) + SAMPLING_S))


def drift_pct(precision: Mapping[str, Any]) -> float:
    """By how much the last part was slower than the first, percent; negative where it was faster."""
    return float(100 * (1 - precision["last_gflops"] / precision["first_gflops"]))


# ---- results across GPUs ---------------------------------------------------------------------------------------------
Usual = Mapping[tuple[str, str], tuple[str, int, int]]
"""(model, precision) -> digest that most GPUs of the model have, by how many, of how many."""


def _usual(report: Mapping[str, Any]) -> Usual:
    """The results of most GPUs of each model, over all nodes of the job.

    Same architecture, same number of SMs and same cuBLAS give the same bits (cuBLAS documentation, "Results
    Reproducibility"). CPUs of different kinds need not, so theirs are not compared.
    """
    seen: dict[tuple[str, str], Counter[str]] = {}
    for node in report["nodes"].values():
        for rank in node["ranks"]:
            if rank["device"] == "cpu":
                continue
            for name, one in rank["precisions"].items():
                seen.setdefault((rank["device"], name), Counter())[one["digest"]] += 1
    return {key: (*counts.most_common(1)[0], counts.total()) for key, counts in seen.items()}


def _unlike(rank: Mapping[str, Any], usual: Usual) -> Iterator[str]:
    """Where a rank's products differ from those of most GPUs of its model."""
    if rank["device"] == "cpu" or rank["error"]:
        return
    for (model, name), (digest, count, total) in usual.items():
        if model != rank["device"]:
            continue
        mine = rank["precisions"].get(name)
        if mine is None and name not in rank["not_supported"]:
            continue  # its own result lacks them
        if mine is None:
            yield f"no products in {name}, which {total} other GPUs of its model computed"
        elif 2 * count <= total and total > 1:
            yield f"products in {name} differ between GPUs of its model and no half of {total} agrees: run it with more GPUs"
        elif mine["digest"] != digest:
            yield f"products in {name} differ from those of {count} of {total} GPUs of its model, each time in the same way"


# ---- one rank, one GPU -----------------------------------------------------------------------------------------------
def _of_rank(rank: Mapping[str, Any], limits: Limits, computes: bool) -> Iterator[str]:
    if rank["error"]:
        yield rank["error"]
        return
    if not rank.get("ended", True):
        yield (
            f"its load did not come to its end: the last result is of phase {rank['phase'] or 'start'} after "
            f"{rank['took_s']:g} s; look at the node's kernel log and at its job's output"
        )
    memory = rank["memory"]
    for name, one in rank["precisions"].items():
        if one["wrong_products"]:
            yield f"{one['wrong_products']} of {one['rounds']} products in {name} are wrong"
        if not one["rounds"] or not one["first_gflops"] or one["last_gflops"] is None:
            yield f"no products in {name} within the run"
        elif min(one["rounds"], one["first_gflops"], one["last_gflops"]) < 0:
            yield f"a speed or a number of products below 0 in {name}: the report of this rank is wrong"
        elif (drift := drift_pct(one)) > limits.drift_pct:
            yield f"{drift:.1f} % slower in {name} at the end than at the beginning"
    if not rank["precisions"]:
        yield "computed no product"
    elif silent := [
        n for n in PRECISIONS["gpu" if computes else "cpu"] if n not in {*rank["precisions"], *rank["not_supported"]}
    ]:
        yield f"tells of no products in {', '.join(silent)}, and does not say that its device refuses them"
    if rank["wrong_words"]:
        by = ", ".join(f"{count} of {name}" for name, count in memory["patterns"].items() if count)
        first = memory["first_wrong"] or {}
        at = f", first at {first['offset_b'] / 2**30:.3f} GiB" if first.get("offset_b") is not None else ""
        yield f"{rank['wrong_words']} words of memory came back wrong ({by}{at})"
    if not memory["sets"]:
        yield "its memory was not tested"
    elif untested := [name for name in PATTERNS if name not in memory["patterns"]]:
        yield f"its memory was not tested with {', '.join(untested)}"
    elif computes and memory["tested_b"] < LEAST_TESTED * memory["total_b"]:
        yield (
            f"{memory['tested_b'] / 2**30:.1f} of {memory['total_b'] / 2**30:.1f} GiB of memory tested, at least "
            f"{LEAST_TESTED:.0%}: something else holds memory, end it and run again"
        )


def _of_gpu(gpu: Mapping[str, Any], median_c: float, limits: Limits, computes: bool) -> Iterator[str]:
    if gpu["error"] or not gpu["samples"]:
        yield gpu["error"] or "no sample"
        return
    if slowed := [name for name in (*THERMAL, POWER_BRAKE) if gpu["reasons"].get(name)]:
        yield f"slowed down by {', '.join(slowed)}"
    if gpu["uncorrected"]:
        yield f"{gpu['uncorrected']} new uncorrectable memory errors"
    if gpu["remapped"]:
        yield f"{gpu['remapped']} memory rows were remapped during the run"
    if gpu["remap_pending"]:
        yield "a memory row waits for its remapping"
    if gpu["remap_failed"]:
        yield "a memory row could not be remapped"
    if gpu["max_c"] is not None and gpu["max_c"] > median_c + limits.outlier_c:
        yield f"{gpu['max_c']} C, the node's median is {median_c:g} C"
    link = gpu.get("pcie") or {}
    for key, unit in (("generation", "generation"), ("width", "lanes")):
        least, most = link.get(key), link.get(f"max_{key}")
        if computes and least is not None and most is not None and least < most:
            yield f"its PCIe link ran with {unit} {least} under load, it can {most}: reseat the GPU or its riser"
    yield from _of_nvlink(gpu.get("nvlink"))
    limit_w, default_w = gpu["limit_w"], gpu["default_limit_w"]
    if None not in (limit_w, default_w) and limit_w < default_w:
        yield f"power limit {limit_w:g} W, default {default_w:g} W: set it back with nvidia-smi --power-limit"
    loaded = {phase: watts for phase, watts in gpu["watts"].items() if phase not in IDLE_PHASES}
    if computes and default_w is not None and gpu["watts"]:
        if not loaded:
            yield "no power sample while it computed: run it longer or sample more often"
        elif (best := max(loaded.values())) < limits.power_pct / 100 * default_w:
            phase = max(loaded, key=lambda one: loaded[one])
            yield f"draws {best:g} W of {default_w:g} W at most, in {phase}: that is no full load"


def _of_nvlink(links: Mapping[str, Any] | None) -> Iterator[str]:
    """What NVLinks did during the run; nothing for a GPU that has none."""
    if links is None:
        return
    if (down := links["links"] - links["least_up"]) > 0:
        yield f"{down} of {links['links']} NVLinks went down: look at nvidia-smi nvlink --status and the Fabric Manager's log"
    new = links["new"]
    if events := ", ".join(f"{new[key]} {name}" for key, name in NVLINK_NONE.items() if new.get(key, 0) > 0):
        yield f"its NVLinks counted {events}: look at nvidia-smi nvlink --errorcounters"
    crc = new.get("crc_flit", 0) + new.get("crc_data", 0)
    if crc > 0 and crc >= NVLINK_CRC_PER_S * links["seconds"]:
        yield (
            f"its NVLinks counted {crc} CRC errors in {links['seconds']:g} s, {NVLINK_CRC_PER_S:g} a second are one too many: "
            "look at nvidia-smi nvlink --errorcounters"
        )
