"""What stands in the building already: arrangement by hand, findings with the way out, bill of materials, what-if."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.build import build
from capacity.model import Plan
from capacity.outputs.report import one_line
from capacity.power.upstream import existing_plant
from capacity.power.upstream import tree as trees
from capacity.whatif import compare
from inventory.findings import Finding
from inventory.site import SiteError, load_site
from inventory.site.whatif import changed
from tests.findings import as_set, values

pytestmark = pytest.mark.usefixtures("stages_kept")

KINDS = ("POWER-UPS-REDUNDANCY", "POWER-ELEMENT")
SMALL = ("server.count=40", "ups.module_kw=50")
"""40 servers of h100-1000-ib: 10.2 kW each, two of six supplies on each of three feeds. A block carries 4 x 50 kW x 0.9."""


@functools.cache
def plan_of(name: str, *settings: str) -> Plan:
    return build(changed(name, settings))


def short(plan: Plan) -> list[Finding]:
    return [f for f in plan.findings if f.id in KINDS]


def count(plan: Plan, kind: str) -> dict[str, int]:
    sizes = plan.elements[plan.elements["kind"] == kind].groupby("feed").size()
    return {str(feed): int(size) for feed, size in sizes.items()}


def bought(plan: Plan, item: str) -> int:
    return int(plan.bom.loc[plan.bom["item"] == item, "quantity"].sum())


LIMITS = trees.Limits(block_kw=250, board_kw=400, share_kw=250, efficiency=1.0)
UNITS = np.full(4, 100.0)
COOLING = np.array([60.0])


@pytest.mark.parametrize(
    ("blocks", "transformers", "block", "board", "boards", "idle", "shared_board"),
    [
        (2, None, [0, 0, 1, 1], [0, 1], 2, 0, -1),  # a board to a block, as without `installed`
        (2, 3, [0, 0, 1, 1], [0, 1], 2, 0, -1),
        (2, 4, [0, 0, 1, 1], [0, 1], 2, 1, -1),  # one transformer more than there is use for
        (2, 2, [0, 0, 1, 1], [0, 0], 1, 0, -1),  # 400 kW on one board, and cooling keeps its own
        (2, 1, [0, 0, 1, 1], [0, 0], 1, 0, 0),  # 460 kW on the only board: cooling shares it
        (3, None, [0, 1, 2, 2], [0, 1, 2], 3, 0, -1),
        (6, None, [0, 1, 2, 3], [0, 1, 2, 3, 4, 5], 6, 0, -1),  # two blocks carry nothing
        (None, 2, [0, 0, 1, 1], [0, 0], 1, 0, -1),  # blocks as the load needs them, two of 200 kW
    ],
)
def test_blocks_and_boards_by_hand(
    blocks: int | None,
    transformers: int | None,
    block: list[int],
    board: list[int],
    boards: int,
    idle: int,
    shared_board: int,
) -> None:
    made = trees.arrange(UNITS, COOLING, False, LIMITS, blocks, transformers)
    assert (made.block.tolist(), made.board.tolist()) == (block, board)
    assert (made.boards, made.idle, made.cooling_board.tolist()) == (boards, idle, [shared_board])


def test_cooling_on_the_ups_has_a_block_of_its_own_where_the_others_carry_the_rest() -> None:
    """Three blocks: 200, 200 and 60 kW. Two: 400 of 250 kW beside its own, 260 shared."""
    own = trees.arrange(UNITS, COOLING, True, LIMITS, 3, None)
    assert (own.block.tolist(), own.board.tolist(), own.cooling_block.tolist()) == ([0, 0, 1, 1], [0, 1], [-1])
    shared = trees.arrange(UNITS, COOLING, True, LIMITS, 2, None)
    assert (shared.block.tolist(), shared.cooling_block.tolist()) == ([0, 0, 1, 1], [1])


def test_a_block_stands_idle_where_the_transformers_could_not_feed_it() -> None:
    """Ten panels of 50 kW over three blocks, 200, 150 and 150 kW, on two transformers of 250 kW: one would carry 300 kW or
    more. Over two blocks each carries 250 kW.
    """
    limits = trees.Limits(block_kw=250, board_kw=250, share_kw=250, efficiency=1.0)
    made = trees.arrange(np.full(10, 50.0), np.zeros(0), False, limits, 3, 2)
    assert np.bincount(made.block, np.full(10, 50.0)).tolist() == [250, 250]
    assert len(made.board) == 3


@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=40), st.integers(1, 12))
def test_spread_uses_every_bin_and_no_order_preserving_bins_are_fuller_by_need(sizes: list[float], bins: int) -> None:
    items = np.array(sizes)
    made = trees.spread(items, bins)
    assert (np.diff(made) >= 0).all()
    assert len(np.unique(made)) == min(bins, len(items)) == made[-1] + 1
    fullest = np.bincount(made, items).max()
    below = trees.fill(items, fullest * (1 - 1e-4))
    assert below[-1] + 1 > bins or fullest <= items.max() + 1e-9


@given(
    st.lists(st.floats(1, 240), min_size=1, max_size=30),
    st.floats(0, 240),
    st.booleans(),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_as_many_as_the_planner_counts_carry_the_load(
    sizes: list[float], cooling: float, on_ups: bool, blocks: int, transformers: int
) -> None:
    units, beside = np.array(sizes), np.array([cooling] if cooling else [])
    free = trees.arrange(units, beside, on_ups, LIMITS, None, None)
    need = len(free.board) + len(beside)
    made = trees.arrange(
        units, beside, on_ups, LIMITS, len(free.board) + len(beside) * on_ups + blocks, need + transformers
    )
    loads = np.bincount(made.block, units, minlength=len(made.board))
    if on_ups and len(beside) and made.cooling_block[0] >= 0:
        loads[made.cooling_block[0]] += cooling
    assert loads.max() <= LIMITS.block_kw + 1e-6
    boards = np.bincount(made.board, loads, minlength=made.boards)
    if not on_ups and len(beside) and made.cooling_board[0] >= 0:
        boards[made.cooling_board[0]] += cooling
    assert boards.max() <= LIMITS.board_kw + 1e-6


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 80))
def test_the_least_number_is_found_wherever_it_is_looked_for(wanted: int, most: int, guess: int) -> None:
    found = existing_plant.least(lambda n: 0.5 * (wanted - n) / wanted, most, guess, 0.5)
    assert found == (wanted if wanted <= most else 0)


def test_a_block_that_is_short_is_told_with_its_loads_and_every_way_out() -> None:
    """One block of 4 x 50 kW x 0.9 = 180 kW. A server takes 10.2 kW x 2/6 of a feed, 2/4 with one feed lost: 136 and 204 kW for
    40, and what the rest of the racks draws; the feeds frame adds it up without a tree.
    """
    plan = plan_of("h100-1000-ib", *SMALL, "electrical.ups_blocks.installed=1")
    assert count(plan, "ups") == {"A": 1, "B": 1, "C": 1}
    (found,) = [f for f in short(plan) if f.id == "POWER-UPS-REDUNDANCY"]
    feed = plan.feeds.set_index("feed").loc[found.subject.split("-")[1]]
    assert (found.limit, found.err, found.numbers["installed"]) == (180, "ERR-45", 3)
    assert found.numbers["load_kw"] == pytest.approx(feed["nameplate_kw"], abs=0.01)
    assert found.numbers["worst_kw"] == pytest.approx(feed["loss_kw"], abs=0.01)
    assert feed["nameplate_kw"] > 136
    assert feed["loss_kw"] > 204
    assert {"ups_blocks_more", "modules_per_block", "servers_fewer"} <= set(found.numbers)
    keys = {key for one in found.remedies for key in one.settings}
    blocks = "electrical.ups_blocks"
    assert {f"{blocks}.installed_by_feed", f"{blocks}.modules_per_block", "server.count"} <= keys


SMALLER: dict[str, Callable[[Any], Any]] = {
    "electrical.ups_blocks.installed_by_feed": lambda counts: {feed: count - 1 for feed, count in counts.items()},
    "electrical.ups_blocks.modules_per_block": lambda modules: modules - 1,
    "server.count": lambda count: count + 1,
}
"""A change that is one step smaller than that of a remedy."""


@pytest.mark.parametrize("key", SMALLER)
def test_each_way_out_mends_it_when_the_site_is_planned_so_and_a_smaller_one_does_not(key: str) -> None:
    base = ("ups.module_kw=100", "electrical.ups_blocks.installed=1")
    (found,) = short(plan_of("b200-256-roce", *base))
    (way,) = [one for one in found.remedies if key in one.settings]
    assert list(way.settings) == [key]
    smaller = replace(way, settings={key: SMALLER[key](way.settings[key])})
    for one, mends in ((way, True), (smaller, False)):
        plan = plan_of("b200-256-roce", *base, *as_set(one))
        assert (not short(plan)) == mends, one


def test_fewer_servers_mend_it_when_the_site_is_planned_anew_with_them() -> None:
    base = (SMALL[1], "electrical.ups_blocks.installed=1")
    (found,) = short(plan_of("h100-1000-ib", *base, "server.count=40"))
    (left,) = values(found, "server.count")
    assert left == 40 - found.numbers["servers_fewer"] > 0
    assert not short(plan_of("h100-1000-ib", *base, f"server.count={left}"))


def test_a_power_cap_is_a_way_out_where_only_the_loss_of_a_feed_is_too_much() -> None:
    base = (SMALL[0], "electrical.ups_blocks.installed=1", "ups.module_kw=72")
    (found,) = [f for f in short(plan_of("h100-1000-ib", *base)) if f.id == "POWER-UPS-REDUNDANCY"]
    cap = found.numbers["cap_w"]
    assert found.limit == pytest.approx(259.2)  # 4 x 72 kW x 0.9
    assert found.numbers["load_kw"] < 259.2 < found.numbers["worst_kw"]
    assert values(found, "server.power.cap_w") == [cap]
    for watts, mends in ((cap, True), (cap + existing_plant.CAP_STEP_W, False)):
        assert (not short(plan_of("h100-1000-ib", *base, f"server.power.cap_w={watts:g}"))) == mends


@pytest.mark.parametrize("name", ["h100-1000-ib", "b200-256-roce"])
@pytest.mark.parametrize("more", [0, 1, 2])
def test_no_finding_with_as_many_as_the_planner_counts_or_more(name: str, more: int) -> None:
    module_kw = {"h100-1000-ib": 60, "b200-256-roce": 110}[name]
    small = ("server.count=24", f"ups.module_kw={module_kw}", "ups.scope=it_and_cooling" if more else "ups.scope=it")
    free = plan_of(name, *small)
    settings = [
        f"electrical.{key}.installed={max(count(free, kind).values()) + more}"
        for key, kind in existing_plant.KINDS.items()
    ]
    assert not short(free)
    plan = plan_of(name, *small, *settings)
    assert not short(plan)
    for key, kind in existing_plant.KINDS.items():
        assert set(count(plan, kind).values()) == {max(count(free, kind).values()) + more}, key
    assert plan.failures["servers_lost"].max() == free.failures["servers_lost"].max()
    assert {"ups module", "ups battery", "transformer", "switchboard", "generator"}.isdisjoint(set(plan.bom["item"]))
    assert one_line.draw(plan).count("<svg") == 1


def test_a_plant_that_is_short_with_a_set_out_is_found() -> None:
    """Three sets of 2,500 kW carry a third of the site; with one out of two only 2,500 kW are left."""
    plan = plan_of("h100-1000-ib", "electrical.generators.installed=2")
    (found,) = short(plan)
    assert (found.subject.split("-")[0], found.limit) == ("genbus", 2500)
    assert found.numbers["worst_kw"] > 2500
    more = int(found.numbers["generators_more"])
    need = -(-found.numbers["worst_kw"] // 2500) + 1  # and the spare one
    assert more == 3 * (need - 2)
    assert bought(plan, "generator") == more
    (counts,) = values(found, "electrical.generators.installed_by_feed")
    assert counts == dict.fromkeys("ABC", need)
    assert not short(plan_of("h100-1000-ib", f"electrical.generators.installed={need:.0f}"))


def test_too_few_transformers_take_several_blocks_each() -> None:
    plan = plan_of("h100-1000-ib", "electrical.transformers.installed=4")
    assert set(count(plan, "transformer").values()) == {4}
    assert set(count(plan, "switchboard").values()) == {3}  # one is the spare one
    boards = plan.elements[plan.elements["kind"] == "ups"].groupby("upstream").size()
    assert boards.max() == 2
    assert {f.subject.split("-")[0] for f in short(plan)} == {"tx", "swb"}
    drawing = one_line.draw(plan)
    assert "2 blocks, fullest:" in drawing


def test_feeds_may_differ_and_those_that_are_not_named_follow_the_load() -> None:
    free = plan_of("h100-1000-ib", *SMALL)
    plan = plan_of("h100-1000-ib", *SMALL, "electrical.ups_blocks.installed_by_feed={A: 1, B: 4}")
    assert count(plan, "ups") == {"A": 1, "B": 4, "C": count(free, "ups")["C"]}
    assert {f.subject for f in short(plan) if f.id == "POWER-UPS-REDUNDANCY"} == {"ups-A-1"}
    assert bought(plan, "ups module") == 5 * (count(free, "ups")["C"] + count(free, "ups")["A"] - 1)


def test_what_stands_there_is_not_bought_and_what_has_to_be_added_is() -> None:
    """Three blocks a feed where four are needed: three of five modules each and three batteries are bought."""
    plan = plan_of("h100-1000-ib", "electrical.ups_blocks.installed=3", "electrical.transformers.installed=6")
    assert bought(plan, "ups module") == 3 * 5
    assert bought(plan, "ups battery") == 3
    assert bought(plan, "transformer") == bought(plan, "switchboard") == 0
    assert bought(plan, "generator") == bought(plan_of("h100-1000-ib"), "generator") > 0
    assert bought(plan, "transfer switch") == bought(plan_of("h100-1000-ib"), "transfer switch")  # the plants are new


def test_a_comparison_shows_what_stands_there_and_what_is_missing() -> None:
    a, b = plan_of("h100-1000-ib"), plan_of("h100-1000-ib", "electrical.ups_blocks.installed=3")
    rows = compare.compare(a, b).differing.set_index("what")
    assert (rows.loc["UPS blocks", "a"], rows.loc["UPS blocks", "b"]) == (12, 9)
    assert (rows.loc["UPS blocks that stand there", "b"], rows.loc["UPS blocks to add", "b"]) == (9, 3)
    assert "POWER-UPS-REDUNDANCY" in {f.id for f in compare.compare(a, b).only_b}


def test_a_site_without_the_keys_keeps_its_hash() -> None:
    site = load_site("h100-1000-ib")
    assert site.electrical is not None
    said = site.model_dump(mode="json")["electrical"]
    assert all("installed" not in said[key] and "installed_by_feed" not in said[key] for key in existing_plant.KINDS)
    one = changed("h100-1000-ib", ["electrical.ups_blocks.installed=4"])
    assert one.slices()["electrical"] != site.slices()["electrical"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("electrical.generators.installed=1", "at least 2 to a feed"),
        ("electrical.transformers.installed_by_feed={A: 1}", "at least 2 to a feed"),
        ("electrical.ups_blocks.installed_by_feed={Z: 2}", "a feed that the site does not have"),
        ("electrical.ups_blocks.installed=0", "at least 1"),
        ("electrical.ups_blocks.installed=2.5", "whole number"),
    ],
)
def test_impossible_counts_are_refused(setting: str, said: str) -> None:
    with pytest.raises(SiteError, match=said):
        changed("h100-1000-ib", [setting])
