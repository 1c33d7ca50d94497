"""Burn-in: what fails a node, and the load itself on this machine's CPU."""

import json
import os
import signal
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from inventory.paths import repo_root
from network.drivers.answers import Source
from tests import ranks
from validation.burn_in import PATTERNS, PRECISIONS, Limits, drift_pct, not_judged, problems
from validation.runners.burn_in import joined

pytestmark = pytest.mark.clock

LIMITS = Limits(drift_pct=5, outlier_c=10, power_pct=95)
H100 = "NVIDIA H100 80GB HBM3"
GIB = 1 << 30
# Modelled: no GPU was there to record. Watts, memory and clocks of an H100 SXM after NVIDIA's data sheet (700 W, 80 GB).
PRODUCTS = {"rounds": 100, "wrong_products": 0, "digest": "ab" * 32, "first_gflops": 100.0, "last_gflops": 98.0}
MEMORY = {
    "total_b": 80 * GIB,
    "tested_b": 75 * GIB,
    "sets": 2,
    "patterns": dict.fromkeys(PATTERNS, 0),
    "first_wrong": None,
}
ALL = dict.fromkeys(PRECISIONS["gpu"], PRODUCTS)
RANK = {
    "rank": 0,
    "device": H100,
    "uuid": "GPU-1",
    "rounds": 200,
    "wrong_products": 0,
    "wrong_words": 0,
    "memory": MEMORY,
    "precisions": ALL,
    "not_supported": [],
    "error": "",
}
GPU = {
    "uuid": "GPU-1",
    "serial": "S1",
    "slot": 1,
    "samples": 3000,
    "max_c": 70,
    "max_memory_c": 80,
    "watts": {"memory": 300.0, "prepare": 120.0, "bf16": 690.0, "fp64": 610.0},
    "limit_w": 700.0,
    "default_limit_w": 700.0,
    "reasons": {"sw_power_cap": 60},
    "uncorrected": 0,
    "remapped": 0,
    "remap_pending": 0,
    "remap_failed": 0,
    "not_supported": [],
    "error": "",
}
HOUR_S = 3600
PROGRAM = Path(repo_root()) / "validation" / "workloads" / "burnin.py"


def report(device: str = H100, gpus: int = 2) -> dict[str, Any]:
    """A run of one node with some GPUs and nothing wrong."""
    uuids = [f"GPU-{n}" for n in range(1, gpus + 1)]
    told = [{**GPU, "uuid": uuid, "serial": f"S{n}", "slot": n} for n, uuid in enumerate(uuids, 1)]
    on_cpu = device == "cpu"
    products = dict.fromkeys(PRECISIONS["cpu" if on_cpu else "gpu"], PRODUCTS)
    ranks_ = [
        {**RANK, "rank": n, "device": device, "uuid": "" if on_cpu else uuid, "precisions": products}
        for n, uuid in enumerate(uuids)
    ]
    node = {"ranks": ranks_, "gpus": told, "xids": [], "telemetry_error": "", "device": device}
    whole = {"nodes": {"gpu001": {**node, "duration_s": 48 * HOUR_S}}}
    return json.loads(json.dumps(whole))


def judged(run: dict[str, Any]) -> list[str]:
    return problems(run, "gpu001", 2, LIMITS, ranks=2)


def test_a_run_at_the_power_cap_without_errors_has_no_problem():
    assert judged(report()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reasons": {"hw_thermal_slowdown": 1}}, "gpu001 slot 2, serial S2: slowed down by hw_thermal_slowdown"),
        ({"reasons": {"sw_thermal_slowdown": 3}}, "gpu001 slot 2, serial S2: slowed down by sw_thermal_slowdown"),
        (
            {"reasons": {"hw_power_brake": 1, "hw_slowdown": 1}},
            "gpu001 slot 2, serial S2: slowed down by hw_slowdown, hw_power_brake",
        ),
        ({"uncorrected": 2}, "gpu001 slot 2, serial S2: 2 new uncorrectable memory errors"),
        ({"remap_failed": 1}, "gpu001 slot 2, serial S2: a memory row could not be remapped"),
        ({"remap_pending": 1}, "gpu001 slot 2, serial S2: a memory row waits for its remapping"),
        ({"max_c": 91}, "gpu001 slot 2, serial S2: 91 C, the node's median is 80.5 C"),
        ({"remapped": 1}, "gpu001 slot 2, serial S2: 1 memory rows were remapped during the run"),
        (
            {"watts": {"memory": 690.0, "bf16": 400.0, "fp64": 380.0}},
            "gpu001 slot 2, serial S2: draws 400 W of 700 W at most, in bf16: that is no full load",
        ),
        (
            {"watts": {"memory": 690.0}},
            "gpu001 slot 2, serial S2: no power sample while it computed: run it longer or sample more often",
        ),
        ({"error": "GpuIsLost: GPU is lost"}, "gpu001 slot 2, serial S2: GpuIsLost: GPU is lost"),
        ({"samples": 0}, "gpu001 slot 2, serial S2: no sample"),
        ({"samples": 2548}, "gpu001 slot 2, serial S2: 2548 samples, at least 2549 in 48 h"),
    ],
)
def test_what_a_gpu_shows_under_load_fails_its_node(changes, said):
    run = report()
    run["nodes"]["gpu001"]["gpus"][1].update(changes)
    assert judged(run) == [said]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"precisions": {**ALL, "bf16": {**PRODUCTS, "wrong_products": 1}}},
            "1 of 100 products in bf16 are wrong",
        ),
        (
            {"precisions": {**ALL, "bf16": {**PRODUCTS, "last_gflops": 90.0}}},
            "10.0 % slower in bf16 at the end than at the beginning",
        ),
        (
            {"precisions": {**ALL, "fp64": {**PRODUCTS, "rounds": 0, "first_gflops": None}}},
            "no products in fp64 within the run",
        ),
        (
            {"precisions": {name: one for name, one in ALL.items() if name != "fp64"}, "not_supported": ["fp64"]},
            "no products in fp64, which 3 other GPUs of its model computed",
        ),
        (
            {"precisions": {name: one for name, one in ALL.items() if name != "fp64"}},
            "tells of no products in fp64, and does not say that its device refuses them",
        ),
        (
            {"memory": {**MEMORY, "patterns": {"address": 0, "walking ones": 0, "walking zeros": 0}}},
            "its memory was not tested with random",
        ),
        (
            {"precisions": {**ALL, "bf16": {**PRODUCTS, "digest": "cd" * 32}}},
            "products in bf16 differ from those of 3 of 4 GPUs of its model, each time in the same way",
        ),
        (
            {
                "wrong_words": 8,
                "memory": {
                    **MEMORY,
                    "patterns": {**dict.fromkeys(PATTERNS, 0), "walking ones": 8},
                    "first_wrong": {"pattern": "walking ones", "offset_b": 3 * GIB},
                },
            },
            "8 words of memory came back wrong (8 of walking ones, first at 3.000 GiB)",
        ),
        ({"memory": {**MEMORY, "sets": 0}}, "its memory was not tested"),
        (
            {"memory": {**MEMORY, "tested_b": 40 * GIB}},
            "40.0 of 80.0 GiB of memory tested, at least 90%: something else holds memory, end it and run again",
        ),
    ],
)
def test_what_a_rank_computed_fails_its_node(changes, said):
    run = report(gpus=4)
    run["nodes"]["gpu001"]["ranks"][1].update(changes)
    assert problems(run, "gpu001", 4, LIMITS, ranks=4) == [f"gpu001 slot 2, serial S2: {said}"]


def test_gpus_of_other_nodes_name_the_one_that_is_always_wrong():
    run = report(gpus=1)
    for host in ("gpu002", "gpu003"):
        run["nodes"][host] = deepcopy(run["nodes"]["gpu001"])
    run["nodes"]["gpu002"]["ranks"][0]["precisions"]["fp64"]["digest"] = "cd" * 32
    found = {host: problems(run, host, 1, LIMITS, ranks=1) for host in run["nodes"]}
    assert found["gpu001"] == found["gpu003"] == []
    assert found["gpu002"] == [
        "gpu002 slot 1, serial S1: products in fp64 differ from those of 2 of 3 GPUs of its model, each time in the same way"
    ]


def test_two_gpus_that_differ_are_both_named_as_nobody_knows_which_is_wrong():
    run = report()
    run["nodes"]["gpu001"]["ranks"][0]["precisions"]["bf16"]["digest"] = "cd" * 32
    assert [text.partition(":")[0] for text in judged(run)] == ["gpu001 slot 1, serial S1", "gpu001 slot 2, serial S2"]


def test_another_model_may_have_other_bits():
    run = report()
    other = run["nodes"]["gpu001"]["ranks"][1]
    other["device"] = "NVIDIA H200"
    other["precisions"]["bf16"]["digest"] = "cd" * 32
    assert judged(run) == []


def test_a_rank_on_a_gpu_that_nvml_does_not_have_is_named():
    run = report()
    run["nodes"]["gpu001"]["ranks"][1]["uuid"] = "GPU-9"
    assert judged(run) == ["rank 1 on gpu001: NVML of the node has no GPU GPU-9"]


def test_a_lowered_power_limit_fails_though_the_gpu_draws_all_of_it():
    run = report()
    run["nodes"]["gpu001"]["gpus"][1] |= {"limit_w": 300.0, "watts": {"bf16": 299.0}}
    assert judged(run) == [
        "gpu001 slot 2, serial S2: power limit 300 W, default 700 W: set it back with nvidia-smi --power-limit",
        "gpu001 slot 2, serial S2: draws 299 W of 700 W at most, in bf16: that is no full load",
    ]


def test_an_h100_passes_whose_memory_phase_and_fp64_draw_less_than_its_tensor_cores():
    run = report()
    run["nodes"]["gpu001"]["gpus"][0]["watts"] = {"memory": 380.0, "prepare": 120.0, "bf16": 668.0, "fp64": 560.0}
    assert judged(run) == []


def test_what_a_gpu_does_not_tell_is_named_and_neither_fails_nor_passes():
    run = report()
    run["nodes"]["gpu001"]["gpus"][1] |= {
        "max_memory_c": None,
        "remap_pending": None,
        "remap_failed": None,
        "remapped": None,
        "not_supported": ["XID events", "memory temperature", "row remapping"],
    }
    assert judged(run) == []
    assert not_judged(run, "gpu001") == [
        "gpu001 slot 2, serial S2 does not tell XID events, memory temperature, row remapping"
    ]


def test_a_precision_that_the_device_refuses_is_named():
    run = report()
    for rank in run["nodes"]["gpu001"]["ranks"]:
        rank["not_supported"] = ["fp8"]
    assert judged(run) == []
    assert not_judged(run, "gpu001") == ["no products in fp8: the device refuses them"]


def test_a_rank_whose_gpu_was_lost_fails_its_node_with_the_error_alone():
    run = report()
    lost = {"rounds": 0, "precisions": {}, "error": "AcceleratorError: CUDA error: unknown"}
    run["nodes"]["gpu001"]["ranks"][1].update(lost)
    assert judged(run) == ["gpu001 slot 2, serial S2: AcceleratorError: CUDA error: unknown"]


def test_a_hardware_xid_fails_and_an_applications_does_not():
    run = report()
    run["nodes"]["gpu001"]["xids"] = [{"uuid": "GPU-2", "xid": 94}, {"uuid": "GPU-1", "xid": 31}]
    assert judged(run) == ["gpu001 slot 2, serial S2: XID 94 (contained memory error)"]


def test_missing_telemetry_is_a_problem():
    run = report()
    run["nodes"]["gpu001"] |= {
        "gpus": run["nodes"]["gpu001"]["gpus"][:1],
        "telemetry_error": "NVML does not answer any more",
    }
    assert judged(run) == [
        "rank 1 on gpu001: NVML of the node has no GPU GPU-2",
        "telemetry: NVML does not answer any more",
        "telemetry of 1 GPUs, the node has 2",
    ]


def test_a_node_without_a_result_is_named():
    assert problems(report(), "gpu009", 2, LIMITS, ranks=2) == ["gpu009 has no result"]


def test_a_run_on_cpus_says_what_it_leaves_open_and_asks_for_no_power():
    run = report("cpu")
    run["nodes"]["gpu001"]["gpus"][0]["watts"] = {"fp32": 70.0}
    assert judged(run) == []
    assert "not judged" in " ".join(not_judged(run, "gpu001"))
    assert not_judged(report(), "gpu001") == []


def test_one_gpu_is_compared_with_none():
    assert not_judged(report(gpus=1), "gpu001") == ["results of one GPU are compared with no other's"]


@pytest.mark.parametrize(
    ("power_pct", "found"),
    [(50, []), (60, ["gpu001 slot 1, serial S1: draws 380 W of 700 W at most, in bf16: that is no full load"])],
)
def test_full_load_is_what_the_site_says(power_pct, found):
    run = report()
    run["nodes"]["gpu001"]["gpus"][0]["watts"] = {"bf16": 380.0}
    assert problems(run, "gpu001", 2, Limits(drift_pct=5, outlier_c=10, power_pct=power_pct), ranks=2) == found


def test_getting_faster_is_a_negative_drift():
    assert drift_pct({**PRODUCTS, "last_gflops": 110.0}) == pytest.approx(-10.0)


def burnt(program: Path, folder: Path, *options: str) -> dict[str, Any]:
    """The results of a program that two ranks of this machine run for a second."""
    arguments = ["--duration-s=1", "--sample-s=0.2", f"--results={folder}", *options]
    done = ranks.run(program, arguments, world=2, budget_s=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return kept(folder)


def kept(folder: Path) -> dict[str, Any]:
    """What the ranks kept, joined."""
    files = [path.read_text() for path in sorted(folder.glob("rank-*.json"))]
    return joined(files, 0, Source("gpu001", "read the results"))


LOSES_THE_GPU_OF_RANK_1 = """
import os, sys
sys.path.insert(0, {folder!r})
import burnin, torch
calls, matmul = [], torch.matmul
def lost(*tensors, **named):
    calls.append(1)
    if os.environ["RANK"] == "1" and len(calls) == 2:
        raise RuntimeError("CUDA error: unspecified launch failure " + 1000 * "x")
    return matmul(*tensors, **named)
torch.matmul = lost
sys.exit(burnin.main())
"""


@pytest.mark.needs("torch")
def test_a_gpu_that_falls_off_the_bus_leaves_the_report_of_all_other_ranks(tmp_path):
    program = tmp_path / "loses_one.py"
    program.write_text(LOSES_THE_GPU_OF_RANK_1.format(folder=str(PROGRAM.parent)))
    node = burnt(program, tmp_path / "results")
    healthy, lost = sorted(node["ranks"], key=lambda rank: rank["rank"])
    assert node["duration_s"] >= 1
    assert (healthy["error"], healthy["rounds"] > 1) == ("", True)
    assert lost["error"].startswith("RuntimeError: CUDA error: unspecified launch failure")
    assert (lost["memory"]["sets"] >= 1, len(lost["error"])) == (True, 250)


@pytest.mark.needs("torch")
def test_a_gpu_that_is_lost_before_the_first_product_has_no_speed(monkeypatch):
    import torch

    from validation.workloads import burnin

    def lost(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: no device")

    monkeypatch.setattr(torch, "empty", lost)
    load = burnin.Burn(torch.device("cpu"), 1.0)
    load.run(burnin.matrices(8), 0.0)
    done = load.report()
    assert (done["rounds"], done["precisions"], done["error"]) == (0, {}, "RuntimeError: CUDA error: no device")
    assert burnin.parts([], 1.0) == (None, None)


@pytest.mark.needs("torch")
def test_a_device_that_refuses_every_precision_fails_without_a_crash(monkeypatch):
    import torch

    from validation.workloads import burnin

    monkeypatch.setattr(burnin, "CPU_PRECISIONS", ("fp8",))

    def refuses(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasLtMatmul")

    monkeypatch.setattr(torch, "_scaled_mm", refuses)
    load = burnin.Burn(torch.device("cpu"), 1.0)
    load.run(burnin.matrices(8), 0.0)
    done = load.report()
    assert (done["error"], done["not_supported"], done["precisions"]) == ("", ["fp8"], {})
    run = report()
    run["nodes"]["gpu001"]["ranks"][0] |= {"precisions": {}, "not_supported": list(ALL)}
    assert "gpu001 slot 1, serial S1: computed no product" in judged(run)


HANGS = """
import sys, time
sys.path.insert(0, {folder!r})
import burnin, torch
calls, matmul = [], torch.matmul
def hangs(*tensors, **named):
    calls.append(1)
    if len(calls) == {at}:
        time.sleep(600)
    return matmul(*tensors, **named)
torch.matmul = hangs
sys.exit(burnin.main())
"""


@pytest.mark.needs("torch")
def test_a_gpu_that_hangs_ends_its_rank_with_what_was_kept_before(tmp_path):
    program, folder = tmp_path / "hangs.py", tmp_path / "results"
    program.write_text(HANGS.format(folder=str(PROGRAM.parent), at=40))
    arguments = ["--duration-s=15", f"--results={folder}", "--stall-s=1", "--keep-s=0"]
    assert ranks.run(program, arguments, budget_s=60).returncode == 1
    (rank,) = kept(folder)["ranks"]
    assert rank["error"] == "the device finished nothing for 1 s in phase fp32: it hangs"
    assert rank["precisions"]["fp32"]["rounds"] >= 1
    assert kept(folder)["duration_s"] < 60


@pytest.mark.needs("torch")
def test_a_rank_that_is_told_to_end_keeps_what_it_has(tmp_path):
    folder = tmp_path / "results"
    job = ranks.Job(PROGRAM, ["--duration-s=20", f"--results={folder}", "--keep-s=0"], 1)
    end = time.monotonic() + 60
    while not (folder / "rank-0.json").exists() or "fp32" not in (folder / "rank-0.json").read_text():
        assert time.monotonic() < end
        time.sleep(0.05)
    (pid,) = job._running
    os.kill(pid, signal.SIGTERM)
    assert job.wait(30) == 0
    (rank,) = kept(folder)["ranks"]
    assert (rank["error"], rank["ended"]) == ("Stopped: ended by SIGTERM", True)


def test_a_rank_that_was_killed_is_named_with_its_last_result():
    run = report()
    run["nodes"]["gpu001"]["ranks"][1] |= {"ended": False, "phase": "fp64", "took_s": 7200.0}
    (said,) = judged(run)
    assert said.startswith(
        "gpu001 slot 2, serial S2: its load did not come to its end: the last result is of phase fp64"
    )
    assert "after 7200 s; look at the node's kernel log" in said


def test_a_pcie_link_that_is_slow_under_load_is_named():
    run = report()
    run["nodes"]["gpu001"]["gpus"][1]["pcie"] = {
        "generation": 5,
        "width": 8,
        "max_generation": 5,
        "max_width": 16,
    }
    assert judged(run) == [
        "gpu001 slot 2, serial S2: its PCIe link ran with lanes 8 under load, it can 16: reseat the GPU or its riser"
    ]


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ({}, None),
        (
            {"least_up": 17},
            "1 of 18 NVLinks went down: look at nvidia-smi nvlink --status and the Fabric Manager's log",
        ),
        (
            {"new": {"replay": 2, "recovery": 1, "crc_flit": 0, "crc_data": 0}},
            "its NVLinks counted 2 replays, 1 recoveries: look at nvidia-smi nvlink --errorcounters",
        ),
        ({"new": {"recovery_failed": 1}}, "its NVLinks counted 1 failed recoveries: look at"),
        ({"new": {"crc_flit": 359_999, "crc_data": 0}}, None),
        (
            {"new": {"crc_flit": 300_000, "crc_data": 60_000}},
            "its NVLinks counted 360000 CRC errors in 3600 s, 100 a second",
        ),
        ({"new": {"replay": -3}}, None),
    ],
)
def test_nvlinks_that_went_down_or_counted_errors_are_named(links, said):
    run = report()
    run["nodes"]["gpu001"]["gpus"][1]["nvlink"] = {"links": 18, "least_up": 18, "seconds": 3600, "new": {}} | links
    found = judged(run)
    assert [text.startswith(f"gpu001 slot 2, serial S2: {said}") for text in found] == [True] * bool(said), found


@pytest.mark.needs("torch")
def test_the_load_runs_on_two_ranks_and_reports_each(tmp_path):
    node = burnt(PROGRAM, tmp_path / "results")
    assert node["duration_s"] >= 1
    assert (tmp_path / "results" / "samples.csv").read_text().startswith("time_s,uuid,phase,power_w,")
    first, second = sorted(node["ranks"], key=lambda rank: rank["rank"])
    assert [first["rank"], second["rank"]] == [0, 1]
    assert [one["digest"] for one in first["precisions"].values()] == [
        one["digest"] for one in second["precisions"].values()
    ]
    for rank in node["ranks"]:
        assert (rank["wrong_products"], rank["wrong_words"], rank["memory"]["first_wrong"]) == (0, 0, None)
        assert rank["memory"]["sets"] >= 1
        for one in rank["precisions"].values():
            assert one["rounds"] >= 1
            assert one["first_gflops"] > 0


@pytest.mark.needs("torch")
@pytest.mark.parametrize("precision", ["bf16", "fp16", "tf32", "fp32", "fp64", "int8"])
def test_every_precision_finds_the_product_that_changes_and_gives_the_same_bits_again(precision):
    from validation.workloads import burnin

    given = burnin.matrices(64)
    loads = [burnin.Load(precision, *given) for _ in range(2)]
    assert loads[0].digest == loads[1].digest
    multiply, calls = loads[1].multiply, []

    def flips_a_bit():
        product = multiply()
        calls.append(1)
        if len(calls) == 3:
            burnin.bits(product)[7, 9] ^= 1
        return product

    loads[1].multiply = flips_a_bit
    loads[1].batch = 5
    loads[1].run(0.0)
    report = loads[1].report(1.0)
    assert (report["rounds"], report["wrong_products"]) == (5, 1)


@pytest.mark.needs("torch")
def test_a_gpu_that_always_flips_the_same_bit_has_another_digest(monkeypatch):
    from validation.workloads import burnin

    given = burnin.matrices(64)
    right = burnin.Load("fp32", *given)
    multiplier = burnin.multiplier

    def always_wrong(*arguments):
        multiply = multiplier(*arguments)

        def wrong():
            product = multiply().clone()
            burnin.bits(product)[7, 9] ^= 1
            return product

        return wrong

    monkeypatch.setattr(burnin, "multiplier", always_wrong)
    wrong = burnin.Load("fp32", *given)
    wrong.run(0.0)
    assert wrong.report(1.0)["wrong_products"] == 0
    assert wrong.digest != right.digest


class Stuck:
    """A pattern that a faulty memory changes between writing and reading: the first write of a chunk is changed afterwards."""

    def __init__(self, pattern, harm):
        self.name, self.write = pattern
        self.harm, self.written = harm, set()

    def __call__(self, first, chunk):
        self.write(first, chunk)
        if first not in self.written:
            self.written.add(first)
            self.harm(first, chunk)


def stuck_at_one(first, chunk):
    if first <= 777 < first + len(chunk):
        chunk[777 - first] |= 4


def address_line_is_dead(first, chunk):
    import torch

    chunk.copy_(chunk[torch.arange(len(chunk)) | 32])  # a word and the one 32 further are the same cell


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("harm", "found", "place"),
    [
        (stuck_at_one, {"address", "walking ones", "walking zeros"}, 777),
        (address_line_is_dead, {"address", "random"}, 0),
    ],
)
def test_patterns_find_stuck_bits_and_dead_address_lines_with_their_place(harm, found, place):
    import torch

    from validation.workloads import burnin

    buffer = torch.empty(4096, dtype=torch.int64)
    assert all(burnin.written_and_read(buffer, pattern) == (0, None) for pattern in burnin.patterns(1))
    seen: dict[str, int | None] = {}
    for name, write in burnin.patterns(1):
        wrong, at = burnin.written_and_read(buffer, (name, Stuck((name, write), harm)))
        if wrong:
            seen.setdefault(name, at)
    assert set(seen) == found
    assert seen["address"] == place
