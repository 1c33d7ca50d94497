"""Burn-in: what fails a node, and the load itself on this machine's CPU."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from inventory.paths import repo_root
from tests import ranks
from validation.burn_in import Limits, drift_pct, not_judged, problems

LIMITS = Limits(drift_pct=5, outlier_c=10, power_pct=95)
RANK = {"rank": 0, "rounds": 100, "wrong_products": 0, "wrong_bytes": 0, "first_gflops": 100.0, "last_gflops": 98.0}
GPU = {
    "uuid": "GPU-1",
    "serial": "S1",
    "samples": 60,
    "max_c": 70,
    "median_w": 690.0,
    "limit_w": 700.0,
    "reasons": {"sw_power_cap": 60},
    "uncorrected": 0,
    "remap_pending": 0,
    "remap_failed": 0,
    "error": "",
}
HOUR_S = 3600
PROGRAM = Path(repo_root()) / "validation" / "workloads" / "burnin.py"


def report(device: str = "NVIDIA H100 80GB HBM3") -> dict[str, Any]:
    """A run of one node with two GPUs and nothing wrong."""
    gpus = [{**GPU, "uuid": f"GPU-{n}", "serial": f"S{n}"} for n in (1, 2)]
    node = {"ranks": [RANK, {**RANK, "rank": 1}], "gpus": gpus, "xids": [], "telemetry_error": ""}
    return deepcopy({"device": device, "duration_s": 48 * HOUR_S, "nodes": {"gpu001": node}})


def judged(run: dict[str, Any]) -> list[str]:
    return problems(run, "gpu001", 2, LIMITS, ranks=2)


def test_a_run_at_the_power_cap_without_errors_has_no_problem():
    assert judged(report()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reasons": {"hw_thermal_slowdown": 1}}, "GPU S2: slowed down by hw_thermal_slowdown"),
        ({"reasons": {"sw_thermal_slowdown": 3}}, "GPU S2: slowed down by sw_thermal_slowdown"),
        ({"reasons": {"hw_power_brake": 1, "hw_slowdown": 1}}, "GPU S2: slowed down by hw_slowdown, hw_power_brake"),
        ({"uncorrected": 2}, "GPU S2: 2 new uncorrectable memory errors"),
        ({"remap_failed": 1}, "GPU S2: a memory row could not be remapped"),
        ({"remap_pending": 1}, "GPU S2: a memory row waits for its remapping"),
        ({"max_c": 91}, "GPU S2: 91 C, the node's median is 80.5 C"),
        ({"median_w": 400.0}, "GPU S2: draws 400 W of 700 W: that is no full load"),
        ({"error": "GpuIsLost: GPU is lost"}, "GPU S2: GpuIsLost: GPU is lost"),
        ({"samples": 0}, "GPU S2: no sample"),
    ],
)
def test_what_a_gpu_shows_under_load_fails_its_node(changes, said):
    run = report()
    run["nodes"]["gpu001"]["gpus"][1].update(changes)
    assert judged(run) == [said]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wrong_products": 1}, "rank 1: 1 of 100 products are wrong"),
        ({"wrong_bytes": 8}, "rank 1: 8 bytes of memory came back wrong"),
        ({"last_gflops": 90.0}, "rank 1: 10.0 % slower at the end than at the beginning"),
    ],
)
def test_what_a_rank_computed_fails_its_node(changes, said):
    run = report()
    run["nodes"]["gpu001"]["ranks"][1].update(changes)
    assert judged(run) == [said]


def test_a_rank_whose_gpu_was_lost_fails_its_node_with_the_error_alone():
    run = report()
    lost = {"rounds": 0, "first_gflops": None, "last_gflops": None, "error": "AcceleratorError: CUDA error: unknown"}
    run["nodes"]["gpu001"]["ranks"][1].update(lost)
    assert judged(run) == ["rank 1: AcceleratorError: CUDA error: unknown"]


def test_a_hardware_xid_fails_and_an_applications_does_not():
    run = report()
    run["nodes"]["gpu001"]["xids"] = [{"uuid": "GPU-2", "xid": 94}, {"uuid": "GPU-1", "xid": 31}]
    assert judged(run) == ["GPU S2: XID 94 (contained memory error)"]


def test_missing_telemetry_is_a_problem():
    run = report()
    run["nodes"]["gpu001"] |= {
        "gpus": run["nodes"]["gpu001"]["gpus"][:1],
        "telemetry_error": "NVML does not answer any more",
    }
    assert judged(run) == ["telemetry: NVML does not answer any more", "telemetry of 1 GPUs, the node has 2"]


def test_a_node_that_was_not_in_the_job_is_named():
    assert problems(report(), "gpu009", 2, LIMITS, ranks=2) == ["gpu009 was not in the job"]


def test_a_run_on_cpus_says_what_it_leaves_open_and_asks_for_no_power():
    run = report("cpu")
    run["nodes"]["gpu001"]["gpus"][0]["median_w"] = 70.0
    assert judged(run) == []
    assert "not judged" in not_judged(run)
    assert not_judged(report()) == ""


@pytest.mark.parametrize(
    ("power_pct", "found"), [(50, []), (60, ["GPU S1: draws 380 W of 700 W: that is no full load"])]
)
def test_full_load_is_what_the_site_says(power_pct, found):
    run = report()
    run["nodes"]["gpu001"]["gpus"][0]["median_w"] = 380.0
    assert problems(run, "gpu001", 2, Limits(drift_pct=5, outlier_c=10, power_pct=power_pct), ranks=2) == found


def test_getting_faster_is_a_negative_drift():
    assert drift_pct({**RANK, "last_gflops": 110.0}) == pytest.approx(-10.0)


def burnt(program: Path) -> dict[str, Any]:
    """The report of a program that two ranks of this machine run for a second."""
    done = ranks.run(program, ["--duration-s=1", "--sample-s=0.2"], world=2, budget_s=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


LOSES_THE_GPU_OF_RANK_1 = """
import os, sys
sys.path.insert(0, {folder!r})
import burnin, torch
calls, equal = [], torch.equal
def lost(*tensors):
    calls.append(1)
    if os.environ["RANK"] == "1" and len(calls) == 3:
        raise RuntimeError("CUDA error: unspecified launch failure " + 1000 * "x")
    return equal(*tensors)
torch.equal = lost
sys.exit(burnin.main())
"""


@pytest.mark.needs("torch")
def test_a_gpu_that_falls_off_the_bus_leaves_the_report_of_all_other_ranks(tmp_path):
    program = tmp_path / "loses_one.py"
    program.write_text(LOSES_THE_GPU_OF_RANK_1.format(folder=str(PROGRAM.parent)))
    run = burnt(program)
    (node,) = run["nodes"].values()
    healthy, lost = sorted(node["ranks"], key=lambda rank: rank["rank"])
    assert run["duration_s"] >= 1
    assert (healthy["error"], healthy["rounds"] > 3) == ("", True)
    assert lost["error"].startswith("RuntimeError: CUDA error: unspecified launch failure")
    assert (lost["rounds"], len(lost["error"])) == (3, 300)


@pytest.mark.needs("torch")
def test_a_gpu_that_is_lost_before_the_first_product_has_no_speed(monkeypatch):
    import torch

    from validation.workloads import burnin

    def lost(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: no device")

    monkeypatch.setattr(torch, "empty", lost)
    done = burnin.load(torch.device("cpu"), 8, 0.0)
    assert (done["rounds"], done["error"]) == (0, "RuntimeError: CUDA error: no device")
    assert burnin.parts(done["speeds"], 1.0) == (None, None)


@pytest.mark.needs("torch")
def test_the_load_runs_on_two_ranks_and_reports_each():
    run = burnt(PROGRAM)
    (node,) = run["nodes"].values()
    assert run["duration_s"] >= 1
    assert sorted(rank["rank"] for rank in node["ranks"]) == [0, 1]
    for rank in node["ranks"]:
        assert (rank["wrong_products"], rank["wrong_bytes"]) == (0, 0)
        assert rank["rounds"] >= 1
        assert rank["first_gflops"] > 0
