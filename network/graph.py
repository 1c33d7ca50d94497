"""Pieces of a graph, vectorised.

In: both ends of each edge as numbers of vertices. Out: a number for each vertex, the same for all that a path joins.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

Ints = npt.NDArray[np.int64]


def pieces(near: Ints, far: Ints, vertices: int) -> Ints:
    """The lowest vertex that each of the `vertices` has a path to; itself where it has no edge."""
    label = np.arange(vertices)
    while True:
        least = np.minimum(label[near], label[far])
        after = label.copy()
        np.minimum.at(after, near, least)
        np.minimum.at(after, far, least)
        after = after[after]
        if (after == label).all():
            return label
        label = after


def joined(edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """{vertex: number of its piece}, of vertices by name."""
    ends = np.array(list(edges), dtype=object).reshape(-1, 2)
    codes, names = pd.factorize(ends.ravel())
    near, far = codes.reshape(-1, 2).T
    return dict(zip(names.tolist(), pieces(near, far, len(names)).tolist(), strict=True))
