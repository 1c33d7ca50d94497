"""The collectives sweep as a real job of two processes on this machine, and its arithmetic.

Needs torch (extra `lab` or `gpu`); a sweep of two processes over gloo takes some seconds, most of them torch's import.
"""

import json
import subprocess
from pathlib import Path

import pytest

from network.drivers.answers import Source
from tests import ranks
from validation.checks.conftest import COLLECTIVES
from validation.runners.collectives import joined

pytestmark = [pytest.mark.clock, pytest.mark.needs("torch")]
WORLD = 2
SIZES = (8, 4096)
BUDGET_S = 120
SOURCE = Source("job 7", "join what the ranks measured")


def measured(program: Path, *arguments: str, world: int = WORLD) -> subprocess.CompletedProcess[str]:
    few = ["--sizes", ",".join(map(str, SIZES)), "--iterations", "3", "--warm-up", "1", "--timeout-s", "60"]
    return ranks.run(program, [*few, *arguments], world, BUDGET_S)


@pytest.fixture(scope="module")
def report():
    done = measured(COLLECTIVES)
    assert done.returncode == 0, done.stderr[-2000:]
    return report_in(done.stdout)


def report_in(out: str):
    return joined(json.loads(out.splitlines()[0])["ranks"], SOURCE)


def test_every_operation_and_size_is_measured_and_right(report):
    from validation.workloads.collectives import OPERATIONS, TYPES

    seen = [(row["type"], row["operation"], row["size_b"]) for row in report["rows"]]
    assert seen == [(t, o, s) for t in TYPES for o in OPERATIONS for s in SIZES]
    assert all(row["correct"] for row in report["rows"])


def test_bandwidths_follow_from_size_time_and_the_factor_of_nccl_tests(report):
    for row in report["rows"]:
        assert row["time_us"] > 0
        algbw = row["size_b"] / row["time_us"]  # bytes per µs are MB/s
        assert row["algbw_mb_s"] == pytest.approx(algbw, rel=0.05, abs=0.01)
        half = row["operation"] in ("all_gather", "reduce_scatter", "all_to_all")
        expected = row["algbw_mb_s"] * (0.5 if half else 1.0)
        assert row["busbw_mb_s"] == pytest.approx(expected, rel=0.01, abs=0.002)


def test_the_report_says_on_what_it_ran(report):
    assert (report["backend"], report["device"], report["world_size"]) == ("gloo", "cpu", WORLD)
    assert [(one["rank"], one["device"], one["uuid"]) for one in report["ranks"]] == [(0, "cpu", ""), (1, "cpu", "")]


def test_each_rank_keeps_its_own_part_in_a_folder_of_its_own(tmp_path):
    from validation.runners.collectives import ranks_of

    folder = tmp_path / "results"
    done = measured(COLLECTIVES, "--results", str(folder), "--operations", "all_reduce")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]
    texts = [path.read_text() for path in sorted(folder.glob("rank-*.json"))]
    parts = [json.loads(text) for text in texts]
    assert [(part["rank"], len(part["spans"][0]["time_us"]), "rows" in part["spans"][0]) for part in parts] == [
        (0, 4, True),
        (1, 4, False),
    ]
    report = joined(ranks_of({parts[0]["host"]: texts}), SOURCE)
    slowest = [max(times) for times in zip(*(part["spans"][0]["time_us"] for part in parts), strict=True)]
    assert [row["time_us"] for row in report["rows"]] == slowest
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("operation", "right", "wrong"),
    [
        (
            "all_reduce",
            "dist.all_reduce(buffer, group=handle)",
            "dist.all_reduce(buffer, group=handle, op=dist.ReduceOp.MAX)",
        ),
        ("broadcast", "dist.broadcast(buffer, src=group.ranks[0], group=handle)", "None"),
    ],
    ids=["all_reduce", "broadcast"],
)
def test_a_wrong_result_is_reported_and_fails_the_job(tmp_path, operation, right, wrong):
    broken = tmp_path / "broken.py"
    source = COLLECTIVES.read_text()
    assert source.count(right) == 1
    broken.write_text(source.replace(right, wrong))
    done = measured(broken, "--operations", operation, "--types", "float32")
    assert done.returncode != 0
    rows = report_in(done.stdout)["rows"]
    assert [row["correct"] for row in rows] == [False, False]
    assert all(1 in row["wrong_ranks"] for row in rows)


TWO_NODES = """
import os, sys
sys.path.insert(0, {folder!r})
import collectives, socket
socket.gethostname = lambda: "ab"[int(os.environ["RANK"]) // 2]
sys.exit(collectives.main())
"""


def test_spans_are_measured_in_their_groups_and_exact_at_any_size(tmp_path):
    program = tmp_path / "two_nodes.py"
    program.write_text(TWO_NODES.format(folder=str(COLLECTIVES.parent)))
    done = measured(program, "--spans", "node,leaf,whole", "--leaf", "a b", world=3)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = report_in(done.stdout)["rows"]
    assert {(row["span"], row["groups"], row["ranks"]) for row in rows} == {("whole", 1, 3), ("node", 1, 2)}
    assert all(row["correct"] for row in rows)


def test_groups_follow_hosts_and_leaf_groups():
    from validation.workloads.collectives import groups_of

    hosts, leaf = ["a", "a", "b", "b", "c", "c"], {"a": "unit 1", "b": "unit 1"}
    assert groups_of("node", hosts, leaf, 3) == ([("a", (0, 1)), ("b", (2, 3)), ("c", (4, 5))], 1)
    assert groups_of("leaf", hosts, leaf, 5) == ([("unit 1", (0, 1, 2, 3)), ("c in no leaf group", (4, 5))], 1)
    assert groups_of("whole", hosts, leaf, 5) == ([("whole", (0, 1, 2, 3, 4, 5))], 0)


def test_of_many_groups_the_slowest_is_kept_with_the_median_and_all_wrong_ranks():
    from validation.runners.collectives import worst

    same = {"span": "node", "type": "float32", "operation": "all_reduce", "number": 0}
    speeds = [("a", 470.0, [3]), ("b", 200.0, []), ("c", 480.0, [17])]
    rows = [{**same, "group": name, "busbw_mb_s": busbw, "wrong_ranks": wrong} for name, busbw, wrong in speeds]
    (row,) = worst(rows)
    assert (row["group"], row["groups"], row["median_busbw_mb_s"]) == ("b", 3, 470.0)
    assert (row["wrong_ranks"], row["correct"]) == ([3, 17], False)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 257, 8000, 100_000])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_sums_are_exact_at_any_number_of_ranks(size, kind):
    import torch

    from validation.workloads.collectives import TYPES, summand, total

    element = torch.arange(3 * size if size < 1000 else size)[-2000:]
    givers = {int(one) for one in element % size} | {int(one) for one in (element + 1) % size}
    added = torch.zeros(len(element), dtype=TYPES[kind])
    for rank in sorted(givers):
        added += summand(element, rank, size).to(TYPES[kind])
    assert torch.equal(added, total(element).to(TYPES[kind]))
    assert torch.equal(added.long(), total(element))


@pytest.mark.parametrize(
    ("operation", "world", "expected"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 2, 0.5),
        ("all_to_all", 4, 0.75),
        ("broadcast", 4, 1.0),
        ("send_recv", 4, 1.0),
    ],
)
def test_factors_are_those_of_nccl_tests(operation, world, expected):
    from validation.runners.collectives import factor

    assert factor(operation, world) == expected


def test_an_unknown_operation_is_refused_before_any_connection():
    done = ranks.run(COLLECTIVES, ["--operations", "all_reduce,broadcats"], budget_s=BUDGET_S)
    assert done.returncode == 2
    assert "unknown operations: broadcats; choose from all_reduce, all_gather" in done.stderr
