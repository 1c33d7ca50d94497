"""What is left of the bisection of a fat tree after the loss of one switch or one bundle of cables. Plain numbers in and out.

    for loss in losses(tree):
        loss.kind, loss.endpoints, loss.share            # "spine", 0, 0.9375

The bisection is the bandwidth between two halves of the endpoints, each way, as a share of what their ports carry. The halves are
the worst ones that leave leaves (two tiers) or planes (three tiers) whole; a test takes max-flow over all of these on small trees.
Full units are counted, and half of an odd number is taken as it is.

A half of n leaves with h ports down and u up, in c cables to each of S spines, sends min(n h, n u); the same holds for the planes
of three tiers with their spines' ports up. Then

    spine        every leaf has u - c up (two tiers); one plane has a spine less (three tiers)
    core         in every plane one spine has as many cables less as it had to this core
    leaf         its endpoints are cut off; the others keep what they had
    bundle       one end has a bundle less, and at the other end as much is free that nobody can use
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from network.fabric import FatTree

Kind = Literal["leaf", "spine", "core", "leaf-spine bundle", "spine-core bundle"]


@dataclass(frozen=True)
class Loss:
    """One of `count` alike elements is lost: so many endpoints are cut off, and `share` of the bisection is left for the others,
    of what their ports carry."""

    kind: Kind
    count: int
    endpoints: int
    share: float


def losses(tree: FatTree) -> Iterator[Loss]:
    """The loss of one element of each kind that the tree has; a bundle is all cables between two switches."""
    if tree.tiers == 1:
        yield Loss("leaf", tree.leaves, tree.leaf_down, 1.0)
        return
    bundles = tree.leaf_spine_cables // tree.leaf_spine_links
    yield Loss("leaf", tree.leaves, tree.leaf_down, share(tree))
    yield Loss("spine", tree.spines, 0, share(tree, spines=1))
    yield Loss("leaf-spine bundle", bundles, 0, share(tree, down_cables=tree.leaf_spine_links))
    if tree.tiers == 3:
        yield Loss("core", tree.cores, 0, share(tree, cores=1))
        count = tree.spine_core_cables // tree.spine_core_links
        yield Loss("spine-core bundle", count, 0, share(tree, up_cables=tree.spine_core_links))


def share(tree: FatTree, spines: int = 0, cores: int = 0, down_cables: int = 0, up_cables: int = 0) -> float:
    """Share of the bisection that is left without so many spines, cores (0 or 1 each), or cables of one bundle."""
    if tree.tiers == 2:
        half = tree.leaves / 2
        ports = half * tree.leaf_down
        up = half * (tree.leaf_up - spines * tree.leaf_spine_links) - down_cables
        return min(1.0, up / ports)
    half = tree.planes / 2
    ports = half * tree.plane_leaves * tree.leaf_down
    whole = min(tree.spine_down, tree.spine_up)
    up = half * tree.plane_spines * whole - spines * whole
    up -= half * cores * (whole - min(tree.spine_down, tree.spine_up - tree.spine_core_links))
    up -= whole - min(tree.spine_down - down_cables, tree.spine_up)
    up -= whole - min(tree.spine_down, tree.spine_up - up_cables)
    return min(1.0, tree.bisection["leaf"], up / ports)
