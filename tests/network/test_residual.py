"""Bisection after losses: worked by hand, and against max-flow over all halves of small trees."""

import itertools

import networkx as nx
import pytest

from network.fabric import FatTree, design, fat_tree_links
from network.residual import Loss, losses

RATE = 1


def by_kind(tree: FatTree) -> dict[str, Loss]:
    return {loss.kind: loss for loss in losses(tree)}


def test_losses_of_four_units_of_a_superpod() -> None:
    """128 servers: 32 leaves with 32 ports down and up, 16 spines with 2 cables from each leaf (RA-11334, table of 4 SUs)."""
    found = by_kind(design(128, 8, 64, 32))
    assert (found["leaf"].count, found["leaf"].endpoints, found["leaf"].share) == (32, 32, 1.0)
    assert (found["spine"].count, found["spine"].share) == (16, 15 / 16)
    # half of 16 leaves sends 512 ports; two cables of one leaf are 2 of 512
    assert (found["leaf-spine bundle"].count, found["leaf-spine bundle"].share) == (512, 510 / 512)


def test_losses_of_a_thousand_servers_in_three_tiers() -> None:
    """32 units in one pod: 8 planes of 32 leaves and 32 spines; a core is 1 of 4 of its group, in one spine of each plane."""
    tree = design(1000, 8, 64, 32)
    assert (tree.tiers, tree.planes, tree.plane_leaves, tree.plane_spines, tree.cores) == (3, 8, 32, 32, 128)
    found = by_kind(tree)
    ports = 4 * 32 * 32  # half of the planes
    assert found["spine"].share == (ports - 32) / ports
    assert found["core"].share == (ports - 4 * tree.spine_core_links) / ports
    assert found["spine-core bundle"].share == (ports - tree.spine_core_links) / ports
    assert found["leaf-spine bundle"].share == (ports - tree.leaf_spine_links) / ports


def graph(tree: FatTree) -> nx.Graph:
    """Switches, with the cables between them as capacity."""
    names = {role: [f"{role}{n}" for n in range(getattr(tree, f"{role}s"))] for role in ("leave", "spine", "core")}
    nodes = [f"n{n}" for n in range(tree.units * tree.unit_nodes)]
    ports = [f"p{n}" for n in range(tree.radix)]
    cables = fat_tree_links(
        tree, nodes, names["leave"], names["spine"], names["core"], [f"r{n}" for n in range(tree.rails)], ports
    )
    made = nx.Graph()
    for stage, a, b in cables[["stage", "a_device", "b_device"]].itertuples(index=False, name=None):
        if stage != "node-leaf":
            made.add_edge(a, b, capacity=made.edges[a, b]["capacity"] + RATE if made.has_edge(a, b) else RATE)
    return made


def least(tree: FatTree, whole: nx.Graph) -> float:
    """The worst bisection over all halves that leave leaves or planes whole."""
    planes = [[n] for n in range(tree.leaves)]
    if tree.tiers == 3:
        planes = [
            [(pod * tree.pod_units + unit) * tree.rails + rail for unit in range(tree.pod_units)]
            for pod in range(tree.pods)
            for rail in range(tree.rails)
        ]
    found = []
    for half in itertools.combinations(range(len(planes)), len(planes) // 2):
        flows = whole.copy()
        for number, plane in enumerate(planes):
            for leaf in plane:
                flows.add_edge("from" if number in half else "to", f"leave{leaf}", capacity=tree.leaf_down)
        ports = sum(len(planes[number]) for number in half) * tree.leaf_down
        found.append(nx.maximum_flow_value(flows, "from", "to") / ports)
    return min(found)


TREES = [
    design(8, 2, 8, 4),
    design(16, 2, 8, 4, bisection=0.5),
    design(6, 2, 12, 3),
    design(8, 3, 12, 4, leaf_uplinks=2),
    design(16, 2, 8, 4, tiers=3),
    design(24, 2, 8, 4, tiers=3),
    design(32, 1, 8, 4, tiers=3),
    design(12, 2, 12, 6, tiers=3, bisection=0.5),
]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: f"{tree.tiers}-tiers-{tree.leaves}-{tree.spines}-{tree.cores}")
def test_shares_are_those_of_max_flow_over_the_worst_halves(tree: FatTree) -> None:
    whole = graph(tree)
    if (tree.planes if tree.tiers == 3 else tree.leaves) % 2:
        pytest.skip("no halves that leave planes whole")
    without = {
        "spine": ("spine0", None),
        "core": ("core0", None),
        "leaf-spine bundle": ("leave0", "spine"),
        "spine-core bundle": ("spine0", "core"),
    }
    for loss in losses(tree):
        if loss.kind == "leaf":
            assert loss.share == pytest.approx(least(tree, whole))
            continue
        one, other = without[loss.kind]
        left = whole.copy()
        if other is None:
            left.remove_node(one)
        else:
            left.remove_edge(one, next(n for n in whole[one] if n.startswith(other)))
        assert loss.share == pytest.approx(least(tree, left)), loss
