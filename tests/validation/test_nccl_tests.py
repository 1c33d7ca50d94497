"""Reading the tables of nccl-tests; the texts are modelled after published ones (tests/data/modelled/nccl-tests)."""

import pytest

from inventory.paths import repo_root
from validation.runners.nccl_tests import Half, parsed

TEXTS = repo_root() / "tests" / "data" / "modelled" / "nccl-tests"
GB200 = (TEXTS / "all_reduce_gb200_72.txt").read_text()


def test_a_table_of_a_current_release_is_read_whole():
    run = parsed(GB200)
    assert run
    assert [row.size_b for row in run.rows] == [1 << power for power in range(29, 34)]
    assert run.rows[-1].out_of_place == Half(20299, 423.16, 834.57, 0)
    assert run.rows[-1].in_place == Half(20006, 429.37, 846.82, 0)
    assert (run.wrong, run.checked, run.average_gb_s, run.best_busbw_gb_s) == (0, True, 745.53, 846.82)
    assert run.devices[0] == "slurm-gb200-207-171: NVIDIA Graphics Device"


def test_a_table_of_an_earlier_release_is_read_too():
    run = parsed((TEXTS / "all_reduce_v100_old.txt").read_text())
    assert run
    (row,) = run.rows
    assert (row.size_b, row.in_place and row.in_place.busbw_gb_s, run.wrong) == (1310720000, 1.11, 0)


def test_wrong_values_are_counted():
    run = parsed(GB200.replace("834.57      0", "834.57     17"))
    assert run
    assert run.wrong == 17


def test_results_that_were_not_checked_are_no_zero():
    run = parsed(GB200.replace("      0", "    N/A"))
    assert run
    assert not run.checked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all_reduce_perf: command not found",
        "1 2 3",
        "8 2 float sum -1 nan inf 1 0 1 1 1 0",
        "9" * 5000,
        "# Avg bus bandwidth : 1",
    ],
)
def test_a_text_without_a_table_is_none(text):
    assert parsed(text) is None
