"""Whether devices fit in a number of racks, by mixed-integer programming (HiGHS): a second way beside capacity.space.placement."""

import numpy as np
import numpy.typing as npt
import pytest

Floats = npt.NDArray[np.float64]


def fit(needs: Floats, limits: Floats, racks: int) -> bool:
    """Whether devices with these needs (a row each, a column per resource) fit in `racks` racks of these limits."""
    optimize = pytest.importorskip("scipy.optimize")
    kinds, count = np.unique(needs, axis=0, return_counts=True)
    if racks < 1 or (needs.sum(axis=0) > racks * limits + 1e-6).any():
        return False
    # One variable for each kind in each rack, racks of a kind in a run.
    every = np.kron(np.eye(len(kinds)), np.ones(racks))
    room = np.vstack([np.kron(kinds[:, resource], np.eye(racks)) for resource in range(len(limits))])
    solved = optimize.milp(
        np.zeros(len(kinds) * racks),
        constraints=[
            optimize.LinearConstraint(every, count, count),
            optimize.LinearConstraint(room, -np.inf, np.repeat(limits, racks) + 1e-9),
        ],
        integrality=np.ones(len(kinds) * racks),
        bounds=optimize.Bounds(0, np.repeat(count, racks)),
        options={"time_limit": 5},
    )
    return solved.x is not None
