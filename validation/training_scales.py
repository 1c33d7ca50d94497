"""What the runs of a training show at the scales of step S186: loss, throughput against a model, and scaling efficiency.

Pure functions of a plan and a Recording (validation/runners/training.py). At each scale a rank has the same number of samples of
a step, so that with perfect scaling a step takes as long as on one GPU.

The model of a step, without overlap of computing and communication:

    step_s = tokens of a rank x FLOPs a token / FLOP/s of one GPU  +  factor x bytes of the gradients / bus bandwidth

FLOPs a token: 6 N + 12 L d T, forward and backward (PaLM, arXiv 2204.02311, appendix B), with N, L, d and T of the model that the
program trains (runners.training.MODEL). FLOP/s of one GPU: as the run on one GPU reached them. Factor and bus bandwidth of the
all-reduce: network/expected.py, over the plan's NICs and NVLinks, of the better algorithm. Latency is not in the model, so it
says what is possible at most.

On CPUs nothing of it is judged: ranks share the cores of their machine, and the plan has no bandwidth for gloo. Neither is one
GPU against its data sheet: the model is small, and launches of its kernels bind it, not arithmetic (that is S034's part).
"""

from collections.abc import Mapping
from typing import Any

from capacity.model import Plan
from network.expected import factor
from validation.check import site_limit
from validation.collectives import Links, links_of
from validation.runners.engine import workload_of
from validation.runners.training import MODEL, Recording, Scale, scales_of, shapes_of
from validation.training_story import end_of, events, tokens_per_s

GRADIENT_B = 4
"""Bytes of a gradient: float32."""
ON_CPUS = "CPU ranks share the cores of their machine, and the plan has no bandwidth between them"
NO_LINKS = "the plan has no links between its GPUs"


def parameters(vocabulary: int, length: int, width: int, layers: int) -> int:
    """Parameters of the transformer of workloads/training.py: embeddings of tokens and positions; of each block two norms, four
    projections of the attention and an MLP of four times the width; a last norm and the head. All have biases."""
    block = (
        4 * width + (3 * width + 3) * width + (width + 1) * width + (width + 1) * 4 * width + (4 * width + 1) * width
    )
    return (vocabulary + length) * width + layers * block + 2 * width + (width + 1) * vocabulary


def flops_per_token(count: int, layers: int, width: int, length: int) -> float:
    """Floating-point operations of forward and backward pass for one token: 6 N + 12 L d T (PaLM, appendix B)."""
    return 6.0 * count + 12.0 * layers * width * length


def step_s(tokens: float, flops: float, flop_s: float, gradients_b: float, ranks: int, busbw_gb_s: float) -> float:
    """Seconds of a step: computing `tokens` of a rank at so many FLOPs each, then the all-reduce. busbw_gb_s: 0 for one rank."""
    computing = tokens * flops / flop_s
    return computing + (factor("all_reduce", ranks) * gradients_b / (busbw_gb_s * 1e9) if ranks > 1 else 0.0)


def told(plan: Plan, recording: Recording) -> dict[str, Any]:
    """The runs of all scales and that on several nodes, and the model. Incomplete (training_story) where one did not end.

    scales: run, names, nodes, processes, device, backend, loss (nats), tokens_per_s; of a scale also efficiency_pct, of the
    throughput of one GPU times its ranks, and expected_tokens_per_s and of_model_pct, None where the model is not judged.
    """
    wanted = scales_of(plan)
    count = parameters(MODEL["vocabulary"], MODEL["length"], MODEL["width"], MODEL["layers"])
    flops = flops_per_token(count, MODEL["layers"], MODEL["width"], MODEL["length"])
    for scale in wanted:
        end_of(recording, scale.run)
    one_s = tokens_per_s(recording, wanted[0].run) / wanted[0].ranks
    links, on_gpus = links_of(plan), workload_of(plan).computes_on == "gpu"
    rows = []
    for scale in wanted:
        row = _ended(recording, scale.run, scale.names)
        best = _expected(plan, scale, links, one_s, flops, count) if on_gpus and links else None
        row |= {
            "efficiency_pct": 100 * row["tokens_per_s"] / (one_s * scale.ranks),
            "expected_tokens_per_s": best,
            "of_model_pct": 100 * row["tokens_per_s"] / best if best else None,
        }
        rows.append(row)
    peak_flop_s = plan.catalog.gpu(plan.site.gpu.sku).peak_tflops * 1e12
    return {
        "scales": [*rows, _ended(recording, "undisturbed", ())],
        "flops_per_token": flops,
        "parameters": count,
        "gpu_tflop_s": one_s * flops / 1e12,
        "of_peak_pct": 100 * one_s * flops / peak_flop_s if on_gpus and peak_flop_s else None,
        "not_judged": {} if on_gpus and links else {"throughput against the model": NO_LINKS if on_gpus else ON_CPUS},
    }


def _ended(recording: Recording, run: str, names: tuple[str, ...]) -> dict[str, Any]:
    """How a run ended."""
    end, start = end_of(recording, run), events(recording, run, "start")[-1]
    return {
        "run": run,
        "names": list(names),
        "nodes": len(set(start["hosts"])),
        "processes": start["world_size"],
        "device": start["device"],
        "backend": start["backend"],
        "loss": end["loss"],
        "tokens_per_s": tokens_per_s(recording, run),
    }


def _expected(plan: Plan, scale: Scale, links: Links, one_s: float, flops: float, count: int) -> float | None:
    """Tokens/s of a scale by the model; None where the plan says nothing of the links that it uses."""
    tokens = shapes_of(plan)[scale.run].batch * MODEL["length"]
    ceilings = links.ceiling("all_reduce", scale.ranks).values() if scale.ranks > 1 else ()
    busbw_gb_s = max((one.busbw_gb_s for one in ceilings), default=0.0)
    if scale.ranks > 1 and not busbw_gb_s:
        return None
    return tokens / step_s(tokens / scale.ranks, flops, one_s * flops, GRADIENT_B * count, scale.ranks, busbw_gb_s)


def problems(plan: Plan, found: Mapping[str, Any]) -> list[str]:
    """Losses above their limit, and scales below those of throughput and efficiency."""
    loss = float(site_limit(plan.site, "training_loss_max_nats").value)
    least = {key: float(site_limit(plan.site, f"training_{key}").value) for key in ("scaling_pct", "model_pct")}
    texts = [f"{row['nodes']} nodes end at {row['loss']:.3f}" for row in found["scales"] if row["loss"] > loss]
    for row in found["scales"]:
        if not row["names"]:
            continue
        at = f"{row['nodes']} nodes ({named(row)}): {row['tokens_per_s']:.0f} tokens/s"
        if row["efficiency_pct"] < least["scaling_pct"]:
            texts.append(f"{at}, scaling efficiency {row['efficiency_pct']:.0f} %, {least['scaling_pct']:g} % at least")
        if row["of_model_pct"] is not None and row["of_model_pct"] < least["model_pct"]:
            texts.append(f"{at}, {row['of_model_pct']:.0f} % of the model's, {least['model_pct']:g} % at least")
    return texts


def named(row: Mapping[str, Any]) -> str:
    """What scales a run shows: '1 GPU' or '1 GPU = 1 node'."""
    return " = ".join(row["names"])


def summary(found: Mapping[str, Any]) -> str:
    """The scales in one line, and what is not judged."""
    rows = [row for row in found["scales"] if row["names"]]
    texts = [
        f"{named(row)}: {row['tokens_per_s']:.0f} tokens/s, efficiency {row['efficiency_pct']:.0f} %"
        + (f", {row['of_model_pct']:.0f} % of the model's" if row["of_model_pct"] is not None else "")
        for row in rows
    ]
    return "; ".join([*texts, *(f"{what} is not judged: {why}" for what, why in found["not_judged"].items())])
