"""The worst of many values above a limit, and how many there are; and the row of a frame with the largest value."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

ROUNDING = 1e-6
"""What frames lose by rounding: a value is above a limit only by more."""


def exceeds(value: float, limit: float) -> bool:
    """Whether a value is above its limit: the same comparison for the planner's findings and for the checks."""
    return value > limit + ROUNDING


@dataclass(frozen=True)
class Worst:
    """The largest of the values above a limit: its position among them, and how many (`count`) are above the limit."""

    at: int
    value: float
    count: int


def worst_of(values: pd.Series, limit: float) -> Worst | None:
    """The largest of the values above `limit`; None where there is none."""
    numbers = values.to_numpy(dtype=np.float64)
    over = np.flatnonzero(numbers > limit + ROUNDING)
    if not len(over):
        return None
    at = int(over[np.argmax(numbers[over])])
    return Worst(at, float(numbers[at]), len(over))


def top_row(frame: pd.DataFrame, by: pd.Series) -> dict[str, Any]:
    """The row of `frame` with the largest value of `by`."""
    row = int(by.to_numpy(dtype=np.float64).argmax())
    return {str(column): frame[column].iloc[row] for column in frame.columns}
