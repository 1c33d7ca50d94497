"""What the ranks of a sweep measured, joined: the slowest rank decides, and ranks that are missing or do not agree give nothing."""

import json
from typing import Any

import pytest

from network.drivers.answers import Source
from network.drivers.errors import UnreadableAnswer
from tests.validation.bench import swept
from validation.runners.collectives import joined, of_nodes, of_one_node, ranks_of

SOURCE = Source("job 7", "join what the ranks measured")
NODES = ["gpu001", "gpu002"]


def ranks(**changes: Any) -> list[dict[str, Any]]:
    """Two nodes with two ranks each; changes: of rank 3."""
    files = swept(NODES, per_node=2, only={"type": "float32", "operation": "all_reduce", "size_b": 1 << 20})
    found = [json.loads(text) for node in NODES for text in files[node]]
    found[3] |= changes
    return found


def test_the_slowest_rank_of_the_slowest_group_decides() -> None:
    late = ranks()
    late[3]["spans"][0]["time_us"] = [1000.0]
    report = joined(late, SOURCE)
    (whole,) = [row for row in report["rows"] if row["span"] == "whole"]
    assert (whole["slowest_rank"], whole["time_us"], whole["algbw_mb_s"], whole["ranks"]) == (3, 1000.0, 1048.576, 4)
    assert whole["busbw_mb_s"] == pytest.approx(1048.576 * 1.5)
    assert (report["world_size"], [one["host"] for one in report["ranks"]]) == (4, ["gpu001"] * 2 + ["gpu002"] * 2)


def test_wrong_results_are_those_of_the_rank_that_had_them() -> None:
    found = ranks()
    found[2]["spans"][0]["wrong"] = [0]
    rows = joined(found, SOURCE)["rows"]
    assert [(row["span"], row["wrong_ranks"], row["correct"]) for row in rows] == [
        ("whole", [2], False),
        ("node", [], True),
    ]


def test_a_nodes_own_part_gives_what_the_whole_gives_for_it() -> None:
    whole = ranks()
    report = joined(whole, SOURCE)
    for node in NODES:
        own = [rank for rank in whole if rank["host"] == node]
        assert of_one_node(own, node, SOURCE) == report["nodes"][node]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (ranks()[:3], "expected ranks 0 to 3, saw 0, 1, 2"),
        ([*ranks()[:3], ranks()[0]], "expected ranks 0 to 3, saw 0, 1, 2, 0"),
        ([], "expected what ranks measured, saw nothing"),
        (ranks(spans=[]), "expected 4 ranks of whole (whole) that agree, saw 3 ranks"),
        (ranks(spans=[{**ranks()[3]["spans"][0], "time_us": []}]), "that agree"),
        (ranks(spans=[{**ranks()[3]["spans"][0], "time_us": [0.0]}]), "a time of 0"),
        (ranks(spans=[{**ranks()[3]["spans"][0], "size": 9}]), "that agree"),
        (ranks(spans=[{**ranks()[3]["spans"][0], "rows": []}]), "that agree"),
    ],
    ids=["missing", "twice", "none", "silent", "no times", "no time", "another size", "two leaders"],
)
def test_ranks_that_are_missing_or_do_not_agree_give_no_report(changed: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(UnreadableAnswer) as refused:
        joined(changed, SOURCE)
    assert why in str(refused.value)


def test_a_rank_that_says_it_ran_elsewhere_is_none_of_the_node() -> None:
    files = swept(NODES, per_node=2)
    with pytest.raises(UnreadableAnswer, match="expected ranks that ran on gpu002, saw one that ran on gpu001"):
        ranks_of({"gpu002": files["gpu001"]})


def test_transports_are_joined_by_node() -> None:
    told: list[dict[str, Any]] = [
        {"host": "a", "transports": {"P2P": 2}},
        {"host": "a", "transports": {"P2P": 1}},
        {"host": "b"},
    ]
    rows = [
        {"span": "node", "group": "a", "operation": "all_reduce", "busbw_mb_s": 3.0},
        {"span": "node", "group": "a", "operation": "all_reduce", "busbw_mb_s": 9.0},
        {"span": "node", "group": "b", "operation": "all_gather", "busbw_mb_s": 7.0},
        {"span": "whole", "group": "whole", "operation": "all_reduce", "busbw_mb_s": 1.0},
    ]
    assert of_nodes(rows, told) == {
        "a": {"busbw_mb_s": 9.0, "transports": {"P2P": 3}},
        "b": {"busbw_mb_s": None, "transports": {}},
    }
    assert of_nodes(rows[3:], told[:2])["a"]["busbw_mb_s"] == 1.0
