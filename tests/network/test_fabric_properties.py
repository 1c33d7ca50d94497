"""Fat trees over generated sizes: ports, symmetry and bisection."""

from typing import Literal

import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inventory.findings import finding
from network.fabric import FabricError, FatTree, design, fat_tree_links, fat_tree_switches
from tests.findings import names


@st.composite
def trees(draw: st.DrawFn, tiers: Literal["auto", 3] = "auto") -> FatTree:
    radix = draw(st.sampled_from([8, 16, 32, 64]))
    bisection = draw(st.sampled_from([1.0, 0.5, 0.25]))
    unit_nodes = draw(st.integers(1, int(radix / (1 + bisection))))
    try:
        return design(draw(st.integers(1, 300)), draw(st.integers(1, 8)), radix, unit_nodes, bisection, tiers)
    except FabricError:
        assume(False)
        raise


def links_of(tree: FatTree, held: pd.DataFrame | None = None) -> pd.DataFrame:
    nodes, leaves, spines, cores = (
        [f"{kind}{i}" for i in range(count)]
        for kind, count in (("n", tree.nodes), ("l", tree.leaves), ("s", tree.spines), ("c", tree.cores))
    )
    rails, ports = [f"ib{i}" for i in range(tree.rails)], [f"p{i + 1}" for i in range(tree.radix)]
    return fat_tree_links(tree, nodes, leaves, spines, cores, rails, ports, held)


@settings(max_examples=150, deadline=None)
@given(trees())
def test_no_switch_uses_more_ports_than_it_has(tree: FatTree) -> None:
    links = links_of(tree)
    ends = list(zip(links["a_device"], links["a_port"], strict=True)) + list(
        zip(links["b_device"], links["b_port"], strict=True)
    )
    assert len(set(ends)) == len(ends)
    ports = [int(port.removeprefix("p")) for _, port in ends if port.startswith("p")]
    assert max(ports) <= tree.radix
    assert min(ports) >= 1


@settings(max_examples=150, deadline=None)
@given(trees())
def test_bisection_is_at_least_what_was_asked_for(tree: FatTree) -> None:
    assert min(tree.bisection.values()) >= tree.required_bisection - 1e-9


@settings(max_examples=150, deadline=None)
@given(trees())
def test_counts_agree_with_the_wiring(tree: FatTree) -> None:
    links = links_of(tree)
    stages = links["stage"].value_counts()
    assert stages["node-leaf"] == tree.nodes * tree.rails
    assert stages["leaf-spine"] == tree.leaf_spine_cables
    assert stages.get("spine-core", 0) == tree.spine_core_cables
    switches = fat_tree_switches(tree)["role"].value_counts()
    assert (switches["leaf"], switches["spine"], switches.get("core", 0)) == (tree.leaves, tree.spines, tree.cores)


@settings(max_examples=100, deadline=None)
@given(trees(tiers=3))
def test_each_core_serves_each_plane_with_the_same_number_of_cables(tree: FatTree) -> None:
    links = links_of(tree)
    up = links[links["stage"] == "spine-core"]
    assert set(up.groupby(["a_device", "b_device"]).size()) == {tree.spine_core_links}
    assert (up.groupby("b_device").size() == tree.planes * tree.spine_core_links).all()


@pytest.mark.parametrize(
    ("arguments", "key", "case"),
    [
        ({"nodes": 64, "rails": 8, "radix": 64, "unit_nodes": 40}, "FABRIC-RADIX", "leaf"),
        ({"nodes": 512, "rails": 8, "radix": 64, "unit_nodes": 32, "tiers": 2}, "FABRIC-TIERS", "two-tiers"),
        ({"nodes": 9000, "rails": 8, "radix": 64, "unit_nodes": 32}, "FABRIC-TIERS", "three-tiers"),
        ({"nodes": 9, "rails": 8, "radix": 64, "unit_nodes": 8, "tiers": 1}, "FABRIC-TIERS", "one-tier"),
        ({"nodes": 8, "rails": 8, "radix": 64, "unit_nodes": 8, "tiers": 4}, "FABRIC-TIERS", "unsupported"),
        ({"nodes": 8, "rails": 8, "radix": 64, "unit_nodes": 32, "least_spines": 33}, "FABRIC-SPINES", "uplinks"),
    ],
)
def test_a_fabric_that_cannot_be_built_says_why(arguments: dict[str, int], key: str, case: str) -> None:
    with pytest.raises(FabricError) as caught:
        design(**arguments)
    error = caught.value
    assert (error.key, error.case) == (key, case)
    found = finding(key, "fabric", case=case, limit_source="site fabric", more_numbers=error.numbers)
    assert found.numbers == error.numbers
    assert names(found, *(figure for name, figure in error.numbers.items() if name not in ("endpoints", "limit")))


def test_the_largest_three_tier_fabric_of_64_ports_has_a_quarter_of_the_cube_of_its_ports() -> None:
    tree = design(8192, 8, 64, 32)
    assert tree.endpoints == 64**3 // 4


def test_three_units_get_a_spine_count_that_divides_their_uplinks() -> None:
    tree = design(96, 8, 64, 32)
    assert (tree.leaves, tree.spines, tree.leaf_spine_links) == (24, 16, 2)


@settings(max_examples=60)
@given(units=st.integers(1, 4), uplinks=st.sampled_from((4, 8, 12, 16)), least=st.integers(1, 6))
def test_each_leaf_has_at_least_as_many_spines_as_asked_for(units: int, uplinks: int, least: int) -> None:
    least = min(least, uplinks)
    few = design(units * 16, 8, 128, 16, leaf_uplinks=uplinks)
    more = design(units * 16, 8, 128, 16, leaf_uplinks=uplinks, least_spines=least)
    assert more.plane_spines >= least
    assert more.plane_spines == few.plane_spines or few.plane_spines < least
    assert more.leaf_up == more.plane_spines * more.leaf_spine_links


@settings(max_examples=60)
@given(st.sampled_from((32, 64, 128)), st.integers(1, 31), st.integers(1, 4), st.integers(1, 4), st.floats(0.3, 1))
def test_with_the_spines_of_the_final_size_growth_moves_no_trunk(
    radix: int, unit: int, before: int, more: int, share: float
) -> None:
    """Without them it does: four units of 32 have twice the spines of two."""
    unit, after = min(unit, radix // 2), min(before + more, radix // 8)
    before = min(before, after - 1)
    final = design(after * unit, 8, radix, unit, share)
    first = design(before * unit, 8, radix, unit, share, least_spines=final.plane_spines)
    assert (first.tiers, first.plane_spines, first.leaf_spine_links) == (2, final.plane_spines, final.leaf_spine_links)
    laid = links_of(first)
    ends = ["a_device", "a_port", "b_device", "b_port"]
    grown = set(links_of(final, laid)[ends].itertuples(index=False, name=None))
    assert set(laid[ends].itertuples(index=False, name=None)) <= grown


@settings(max_examples=60)
@given(radix=st.sampled_from((64, 128)), unit=st.integers(1, 32), units=st.integers(1, 20), least=st.integers(1, 140))
def test_least_spines_hold_or_are_refused(radix: int, unit: int, units: int, least: int) -> None:
    """Eighteen spines were planned for 32 that were asked for (128 ports, units of 16), and 32 for 40."""
    if least <= max(unit, radix - unit - 1):
        assert design(units * unit, 8, radix, unit, least_spines=least).plane_spines >= least
        return
    with pytest.raises(FabricError) as refused:
        design(units * unit, 8, radix, unit, least_spines=least)
    assert (refused.value.key, refused.value.case) == ("FABRIC-SPINES", "uplinks")


@pytest.mark.parametrize("unit_nodes", [31, 32])
def test_a_smaller_cluster_never_takes_more_switches_than_a_larger_one(unit_nodes: int) -> None:
    trees = [design(units * unit_nodes, 8, 64, unit_nodes) for units in range(1, 129)]
    switches = [tree.leaves + tree.spines + tree.cores for tree in trees]
    assert switches == sorted(switches)


def test_31_units_take_as_many_cores_as_32() -> None:
    trees = [design(units * 32, 8, 64, 32) for units in (31, 32)]
    assert [(tree.spines, tree.cores) for tree in trees] == [(256, 128), (256, 128)]


def test_a_unit_of_31_takes_32_uplinks_and_half_the_spines() -> None:
    tree = design(4 * 31, 8, 64, 31)
    assert (tree.leaf_up, tree.spines, tree.leaf_spine_links) == (32, 16, 2)


@settings(max_examples=60)
@given(trees(tiers=3))
def test_each_spine_has_at_least_as_many_uplinks_as_downlinks(tree: FatTree) -> None:
    assert tree.spine_down <= tree.spine_up == tree.group_cores * tree.spine_core_links
    assert tree.spine_down + tree.spine_up <= tree.radix


def test_a_spine_with_more_than_half_of_its_ports_up_has_a_cable_on_each() -> None:
    tree = design(33 * 8, 1, 16, 8, tiers=3)
    assert (tree.spine_down, tree.spine_up) == (7, 9)
    links = links_of(tree)
    up = links[links["stage"] == "spine-core"]
    assert (up.groupby("a_device").size() == tree.spine_up).all()


ENDS = ["a_device", "a_port", "b_device", "b_port"]


def grown(before: FatTree, after: FatTree) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Trunk cables of a tree, and of the one that it grows to."""
    old = links_of(before)
    new = links_of(after, old)
    return old[old["stage"] != "node-leaf"], new[new["stage"] != "node-leaf"]


def test_growth_from_63_to_95_servers_moves_256_cables() -> None:
    old, new = grown(design(63, 8, 64, 32), design(95, 8, 64, 32))
    assert len(old) - len(old.merge(new, on=ENDS)) == 256


@pytest.mark.parametrize("units", [(1, 2), (2, 3), (3, 5), (4, 7), (5, 8)])
@pytest.mark.parametrize(("rails", "radix"), [(1, 8), (2, 16), (3, 32), (4, 32)])
def test_growth_keeps_as_many_trunk_cables_as_each_pair_of_switches_has(
    rails: int, radix: int, units: tuple[int, int]
) -> None:
    unit_nodes = radix // 2 - 1
    trees = [design(count * unit_nodes, rails, radix, unit_nodes) for count in units]
    assert [tree.tiers for tree in trees] == [2, 2]
    old, new = grown(*trees)
    pairs = ["a_device", "b_device"]
    both = pd.concat([frame.groupby(pairs).size() for frame in (old, new)], axis="columns").fillna(0)
    both_ends = [tuple(end) for side in "ab" for end in new[[f"{side}_device", f"{side}_port"]].to_numpy()]
    assert len(set(both_ends)) == len(both_ends)
    assert set(new.groupby(pairs).size()) == {trees[1].leaf_spine_links}
    assert trees[0].leaf_up != trees[1].leaf_up or len(old.merge(new, on=ENDS)) == both.min(axis="columns").sum()


@settings(max_examples=30, deadline=None)
@given(trees())
def test_a_tree_that_does_not_grow_keeps_every_cable_in_its_place(tree: FatTree) -> None:
    links = links_of(tree)
    pd.testing.assert_frame_equal(links_of(tree, links), links)


# ---- one switch ------------------------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(nodes=st.integers(1, 16), rails=st.integers(1, 8), more=st.integers(0, 8))
def test_one_switch_gives_each_server_ports_that_stay_when_servers_are_added(nodes: int, rails: int, more: int) -> None:
    rails = min(rails, 64 // (nodes + more))
    before, after = (design(count, rails, 64, 4, tiers=1) for count in (nodes, nodes + more))
    assert (before.leaves, before.spines, before.cores, before.maximum_hops()) == (1, 0, 0, 1)
    old, new = links_of(before), links_of(after)
    assert set(new["stage"]) == {"node-leaf"}
    assert len(old.merge(new, on=ENDS)) == len(old) == nodes * rails
    assert not new.duplicated(["b_device", "b_port"]).any()
