"""The worst of many values above a limit: one finding names it and counts the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from inventory.findings import Finding, Severity

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


def worst_above(
    key: str,
    severity: Severity,
    labels: pd.Series,
    values: pd.Series,
    limit: float,
    text: str,
    source: str,
    number: str,
    err: str | None = None,
    more: Callable[[int], Mapping[str, object]] | None = None,
) -> list[Finding]:
    """A finding for all `values` above `limit`, none if there are none.

    Its subject is the label of the largest; `text` may use {value} and {limit}, and what `more` gives for the largest's
    position (the state that it is in, what would mend it); `number` names the value in `numbers`,
    beside `count`, how many exceed the limit.
    """
    numbers = values.to_numpy(dtype=np.float64)
    over = np.flatnonzero(numbers > limit + ROUNDING)
    if not len(over):
        return []
    worst = int(over[np.argmax(numbers[over])])
    name, value = str(labels.iloc[worst]), float(numbers[worst])
    others = f" ({len(over) - 1} more exceed it)" if len(over) > 1 else ""
    words = more(worst) if more is not None else {}
    message = f"{name} {text.format(value=value, limit=limit, **words)}{others}"
    return [Finding(key, severity, name, message, {number: round(value, 3), "count": len(over)}, limit, source, err)]
