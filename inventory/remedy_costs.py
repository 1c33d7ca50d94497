"""What remedies cost beside each other, as remedy_costs.yaml states it: kinds of site keys, cheapest first.

rank({"power.rack_circuit.breaker_a": 60})   # 2: parts
rank({"oob.switches": 4, "room.rows": 3})    # 4: building, the dearest of its keys
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from inventory.yaml_data import read_data

COSTS_FILE = Path(__file__).with_name("remedy_costs.yaml")


def rank(keys: Iterable[str]) -> int:
    """Place of a remedy of site keys in the order of cost, 0 for the cheapest kind: that of its dearest key. KeyError for a key
    of no kind.
    """
    return max((list(kinds()).index(kind_of(key)) for key in keys), default=0)


def gives_up(keys: Iterable[str]) -> bool:
    """Whether a remedy of site keys builds less, or accepts more, instead of mending with what is built."""
    return any(_costs()[kind_of(key)].get("gives_up", False) for key in keys)


def kind_of(key: str) -> str:
    """The kind that names the key or the longest section above it; KeyError where none does."""
    named = _kind_of_name()
    parts = key.split(".")
    for n in range(len(parts), 0, -1):
        if (kind := named.get(".".join(parts[:n]))) is not None:
            return kind
    raise KeyError(f"{COSTS_FILE.name}: no kind has {key}")


@cache
def _costs() -> Mapping[str, Any]:
    return MappingProxyType(read_data(COSTS_FILE))


@cache
def kinds() -> dict[str, tuple[str, ...]]:
    """Keys and sections of each kind, the cheapest kind first."""
    return {name: tuple(entry["keys"]) for name, entry in _costs().items()}


@cache
def _kind_of_name() -> dict[str, str]:
    return {name: kind for kind, names in kinds().items() for name in names}
