"""The dependency groups: read from one file, in an order in which each comes after those that it waits for."""

import pytest

from inventory.groups import GROUPS, Group, cycle, read_groups, waits


def test_a_group_is_read_with_what_it_waits_for():
    read = read_groups("A: {name: first, after: [], halves_later: true}\nB: {name: second, after: [A]}\n")
    assert read == {"A": Group("A", "first", (), True), "B": Group("B", "second", ("A",), False)}


@pytest.mark.parametrize("text", ["A: {name: a, after: [Z]}", "A: {name: a, after: [B]}\nB: {name: b, after: []}"])
def test_a_group_after_one_that_is_unknown_or_stands_later_is_refused(text: str):
    with pytest.raises(ValueError, match=r"group A: \w of `after` is no group that stands before it"):
        read_groups(text)


def test_the_shipped_groups_wait_for_each_other_in_no_circle():
    nodes = waits({}, {})
    assert cycle(nodes) == []
    assert nodes["D09 start"] == ("D03 done", "D06 done", "D08 done")
    assert len(GROUPS) == 15
