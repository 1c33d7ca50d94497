"""The calculations by hand of the first sites: tests/data/by_hand.yaml, which explains itself, added up.

hand = by_hand("h100")
total(hand["it_kw"])        kW
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.arithmetic import value_of

FILE = Path(__file__).parents[1] / "data" / "by_hand.yaml"


@cache
def by_hand() -> Mapping[str, Mapping[str, Any]]:
    """The calculations by the names of tests.first_sites."""
    loaded: Mapping[str, Mapping[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return loaded


def total(lines: Sequence[Mapping[str, Any]]) -> float:
    """The lines added up."""
    return sum(value_of(str(one["count"])) * value_of(str(one["each"])) for one in lines)
