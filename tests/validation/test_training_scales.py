"""The runs of a training at the scales of step S186, and the model of their throughput."""

import dataclasses
from collections.abc import Callable

import pytest

from capacity.model import Plan
from tests.plans import plan_of
from tests.validation.recordings import GPU, at_scale, job, made
from validation import training_scales, training_story
from validation.runners.engine import workload_of
from validation.runners.training import MODEL, SCALE_STEPS, Recording, scales_of, shapes_of


def scales(name: str) -> list[tuple[tuple[str, ...], int, int]]:
    return [(one.names, one.nodes, one.per_node) for one in scales_of(plan_of(name))]


def test_the_scales_of_the_step_are_run_once_where_they_are_as_large_as_each_other() -> None:
    assert scales("h100-1000-ib") == [
        (("1 GPU",), 1, 1),
        (("1 node",), 1, 8),
        (("one leaf group",), 32, 8),
        (("half",), 500, 8),
        (("full",), 1000, 8),
    ]
    assert scales("gb300-nvl72-liquid")[2:] == [(("one leaf group", "half"), 72, 4), (("full",), 144, 4)]
    assert scales("lab") == [(("1 GPU", "1 node"), 1, 1), (("half",), 2, 1), (("one leaf group", "full"), 4, 1)]


def test_a_leaf_group_is_asked_for_by_its_nodes_and_each_rank_has_as_many_samples_at_any_scale() -> None:
    plan = plan_of("h100-1000-ib")
    shapes = shapes_of(plan)
    units = plan.devices[plan.devices["name"].isin(shapes["leaf"].on)]["unit"]
    assert (len(shapes["leaf"].on), units.nunique()) == (32, 1)
    assert {shapes[run].batch / shapes[run].world for run in ("alone", "gpu", "leaf", "half", "full")} == {4}
    assert {shapes[run].steps for run in ("gpu", "leaf", "half", "full")} == {SCALE_STEPS}


# ---- the model -------------------------------------------------------------------------------------------------------
@pytest.mark.needs("torch")
def test_parameters_and_flops_are_those_of_the_program_that_trains() -> None:
    from validation.workloads import training as workload

    given = workload.arguments().parse_args(["--checkpoints", "c", "--metrics", "m"])
    assert {key: getattr(given, key) for key in MODEL} == MODEL
    for vocabulary, length, width, layers in ((64, 32, 128, 2), (11, 5, 8, 3)):
        model = workload.Model(vocabulary, length, width, layers, 4)
        count = sum(one.numel() for one in model.parameters())
        assert training_scales.parameters(vocabulary, length, width, layers) == count
        mine = training_scales.flops_per_token(count, layers, width, length)
        assert mine == workload.flops_per_token(count, layers, width, length)


def test_a_step_is_computing_and_the_all_reduce_of_the_gradients() -> None:
    alone = training_scales.step_s(1000, 2e6, 1e12, 8e6, 1, 0)
    assert alone == pytest.approx(0.002)
    # 2 x 7/8 of 8 MB over 7 GB/s: 2 ms
    assert training_scales.step_s(1000, 2e6, 1e12, 8e6, 8, 7) == pytest.approx(0.004)


def on_gpus(plan: Plan, tokens_per_s: Callable[[int], float]) -> Recording:
    """A recording of runs with nothing but what the model reads, as fast as `tokens_per_s` says of so many ranks."""
    recording = Recording([])
    for run, shape in shapes_of(plan).items():
        hosts = [f"n{n}" for n in range(shape.nodes) for _ in range(shape.per_node)]
        start = {"event": "start", "attempt": 0, "hosts": hosts, "world_size": shape.world}
        start |= {"device": "NVIDIA H100 80GB HBM3", "backend": "nccl"}
        step = {"event": "step", "attempt": 0, "step": 1, "tokens_per_s": tokens_per_s(shape.world)}
        recording.metrics[run] = {"0": [start, step, {"event": "end", "attempt": 0, "loss": 0.8}]}
    recording.settings = {"slow": {"steps": [31, 40]}}
    return recording


def test_on_gpus_each_scale_is_judged_against_the_model_and_one_gpu() -> None:
    plan = plan_of("h100-1000-ib")
    assert workload_of(plan).computes_on == "gpu"
    found = training_scales.told(plan, on_gpus(plan, lambda ranks: 20_000.0 * ranks))
    assert training_scales.problems(plan, found) == []
    one, node, leaf, half, full, several = found["scales"]
    assert one["of_model_pct"] == pytest.approx(100)
    assert {row["efficiency_pct"] for row in (one, node, leaf, half, full)} == {100}
    assert found["not_judged"] == {}
    assert several["names"] == []
    # 4 samples of 32 tokens in 6.4 ms on one GPU, and 2 x 7999/8000 of the gradients over NVLink at 480 GB/s
    gradients_b = 4 * found["parameters"]
    expected = 4 * 32 * 8000 / (4 * 32 / 20_000 + 2 * 7999 / 8000 * gradients_b / 400e9)
    assert full["expected_tokens_per_s"] == pytest.approx(expected, rel=1e-3)
    assert 0 < found["of_peak_pct"] < 1


def test_a_scale_that_is_too_slow_is_named_with_both_limits() -> None:
    plan = plan_of("h100-1000-ib")
    slow = on_gpus(plan, lambda ranks: 20_000.0 * ranks * (0.5 if ranks == 4000 else 1))
    assert training_scales.problems(plan, training_scales.told(plan, slow)) == [
        "500 nodes (half): 40000000 tokens/s, scaling efficiency 50 %, 70 % at least",
        "500 nodes (half): 40000000 tokens/s, 50 % of the model's, 70 % at least",
    ]


def test_on_cpus_the_model_is_not_judged_and_says_so() -> None:
    plan = plan_of("lab")
    found = training_scales.told(plan, made())
    assert {row["of_model_pct"] for row in found["scales"] if row["names"]} == {None}
    assert found["of_peak_pct"] is None
    assert "throughput against the model is not judged: CPU ranks share" in training_scales.summary(found)
    assert "one leaf group = full: 36000 tokens/s, efficiency 90 %" in training_scales.summary(found)


# ---- as planned ------------------------------------------------------------------------------------------------------
def other_steps(recording: Recording) -> None:
    recording.metrics["half"]["1"][0]["settings"]["batch"] = 24


def without_half(recording: Recording) -> None:
    del recording.metrics["half"], recording.jobs["half"]


def fewer_nodes(recording: Recording) -> None:
    recording.metrics["full"] = at_scale(GPU[:3], 815.0)
    recording.jobs["full"] = job(11, GPU[:3], 815.0, 820.0)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (other_steps, "run half: attempt 0: rank 1 trained with {'batch': 24}, planned "),
        (without_half, "run half: its job ended and nobody saw how"),
        (fewer_nodes, "run full: 1 of 4 ranks wrote nothing: 3"),
    ],
)
def test_a_scale_that_did_not_run_as_planned_is_named(harm: Callable[[Recording], None], said: str) -> None:
    recording = made()
    harm(recording)
    found = training_story.unplanned(plan_of("lab"), recording, "S186.measured")
    assert any(text.startswith(said) for text in found), found
    assert training_story.unplanned(plan_of("lab"), recording, "S188.measured") == []


def test_a_scale_that_failed_is_no_failure_of_the_recovery() -> None:
    plan, recording = plan_of("lab"), made()
    told = training_story.tell(recording)
    recording.problems.append("run half: job 10 ended FAILED: no space left")
    assert training_story.unrecovered(plan, recording, told) == []
    recording.problems.append("gpu003: come back")
    assert training_story.unrecovered(plan, recording, told) == ["gpu003: come back"]


def test_a_leaf_group_that_ran_on_other_nodes_is_named() -> None:
    plan = plan_of("lab")
    split = plan.devices.copy()
    gpu = split["role"] == "gpu"
    split.loc[gpu, "unit"] = [0, 0, 0, 1]
    divided = dataclasses.replace(plan, devices=split)
    assert [one.names for one in scales_of(divided)][2] == ("one leaf group",)
    recording = made()
    recording.metrics["leaf"] = at_scale(GPU[1:], 825.0)
    recording.jobs["leaf"] = job(12, GPU[1:], 825.0, 830.0)
    found = training_story.unplanned(divided, recording, "S186.measured")
    assert found == ["run leaf: its ranks were on gpu002, gpu003, gpu004, the leaf group is gpu001, gpu002, gpu003"]
