"""The collectives sweep as a real job of two processes on this machine, and its arithmetic.

Needs torch (extra `lab` or `gpu`); a sweep of two processes over gloo takes some seconds, most of them torch's import.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests import ranks
from validation.checks.conftest import COLLECTIVES

pytestmark = pytest.mark.needs("torch")
WORLD = 2
SIZES = (8, 4096)
BUDGET_S = 120


def measured(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    few = ["--sizes", ",".join(map(str, SIZES)), "--iterations", "3", "--timeout-s", "60"]
    return ranks.run(program, [*few, *arguments], WORLD, BUDGET_S)


@pytest.fixture(scope="module")
def report():
    done = measured(COLLECTIVES)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_every_operation_and_size_is_measured_and_right(report):
    from validation.workloads.collectives import OPERATIONS

    assert [(row["operation"], row["size_b"]) for row in report["rows"]] == [(o, s) for o in OPERATIONS for s in SIZES]
    assert all(row["correct"] for row in report["rows"])


def test_bandwidths_follow_from_size_time_and_the_factor_of_nccl_tests(report):
    for row in report["rows"]:
        assert row["time_us"] > 0
        algbw = row["size_b"] / row["time_us"]  # bytes per µs are MB/s
        assert row["algbw_mb_s"] == pytest.approx(algbw, rel=0.05, abs=0.01)
        expected = row["algbw_mb_s"] * (1.0 if row["operation"] == "all_reduce" else 0.5)
        assert row["busbw_mb_s"] == pytest.approx(expected, rel=0.01, abs=0.002)


def test_the_report_says_on_what_it_ran(report):
    assert (report["backend"], report["device"], report["world_size"]) == ("gloo", "cpu", WORLD)
    assert [(one["rank"], one["device"], one["uuid"]) for one in report["ranks"]] == [(0, "cpu", ""), (1, "cpu", "")]


def test_a_wrong_result_is_reported_and_fails_the_job(tmp_path):
    broken = tmp_path / "broken.py"
    source = COLLECTIVES.read_text()
    assert source.count("dist.all_reduce(work)") == 1
    broken.write_text(source.replace("dist.all_reduce(work)", "dist.all_reduce(work, op=dist.ReduceOp.MAX)"))
    done = measured(broken, "--operations", "all_reduce")
    assert done.returncode != 0
    assert [row["correct"] for row in json.loads(done.stdout.splitlines()[0])["rows"]] == [False, False]


@pytest.mark.parametrize(
    ("operation", "world", "expected"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 2, 0.5),
        ("all_to_all", 4, 0.75),
    ],
)
def test_factors_are_those_of_nccl_tests(operation, world, expected):
    from validation.workloads.collectives import factor

    assert factor(operation, world) == expected


def test_an_unknown_operation_is_refused_before_any_connection():
    done = ranks.run(COLLECTIVES, ["--operations", "all_reduce,broadcats"], budget_s=BUDGET_S)
    assert done.returncode == 2
    assert "unknown operations: broadcats; choose from all_reduce, all_gather" in done.stderr
