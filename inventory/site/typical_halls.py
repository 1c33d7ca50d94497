"""What each assumption changes in a typical hall of its reference design: a study of `bringup plan --sensitivity`, kept as data.

    found = typical("leadtimes.transformer.max_weeks", like(site))
    found.most("go_live_days")     # days that it moves go-live by at most

In: typical_halls.csv beside this module, which `python -m capacity.whatif.typical` writes. Out: `Typical`. Changes of power, racks
and cost are shares of those of the hall; those of the date of go-live at P90 are days.
"""

import csv
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inventory.site.loading import Site
from inventory.site.references import Span

FILE = Path(__file__).with_name("typical_halls.csv")
SHARES = ("facility_kw", "racks", "cost")
DAYS = "go_live_days"
MEASURES = (*SHARES, DAYS)
COLUMNS = (
    *("designs", "fabric", "cooling", "servers", "key", "low", "value", "high", "effect"),
    *(f"{measure}_{end}" for measure in MEASURES for end in ("low", "high")),
)
"""Columns of the file; a change is empty where the site file refuses the end."""


@dataclass(frozen=True)
class Like:
    """What a site is like: the designs that it is based on, its fabric and its way of cooling."""

    designs: tuple[str, ...]
    fabric: str
    cooling: str


def like(site: Site) -> Like:
    """What a site is like, as far as typical halls are told apart."""
    return Like(site.based_on, site.fabric.kind, site.cooling.kind)


@dataclass(frozen=True)
class Typical:
    """An assumption in a typical hall.

    ``hall``, ``servers``  what the hall is like, and how many servers it has
    ``low``, ``high``      ends of the plausible range that were planned, ``value`` what the hall is planned with
    ``effect``             largest relative change of facility kW, racks, cost and days to go-live
    ``changes``            by measure, the change at the low and at the high end; None for an end that is refused
    """

    hall: Like
    servers: int
    key: str
    low: float
    value: float
    high: float
    effect: float
    changes: Mapping[str, tuple[float | None, float | None]]

    @property
    def named(self) -> str:
        """The hall in words."""
        return f"{self.servers} servers of {' and '.join(self.hall.designs)}"

    def most(self, measure: str) -> float:
        """The largest change of a measure, without its sign."""
        return max(abs(change or 0.0) for change in self.changes[measure])


@functools.cache
def halls() -> Mapping[str, Sequence[Typical]]:
    """Every hall's row of each key."""
    found: dict[str, list[Typical]] = {}
    with FILE.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            found.setdefault(row["key"], []).append(_typical(row))
    return found


def _typical(row: Mapping[str, str]) -> Typical:
    def change(measure: str, end: str) -> float | None:
        text = row[f"{measure}_{end}"]
        return float(text) if text else None

    return Typical(
        Like(tuple(row["designs"].split()), row["fabric"], row["cooling"]),
        int(row["servers"]),
        row["key"],
        float(row["low"]),
        float(row["value"]),
        float(row["high"]),
        float(row["effect"]),
        {measure: (change(measure, "low"), change(measure, "high")) for measure in MEASURES},
    )


def typical(key: str, to: Like, span: Span | None = None) -> Typical | None:
    """What a key changes in the hall that is most like a site: one with the same plausible range, then of the same designs, the
    same first design, fabric and cooling. None where no hall has the key.
    """

    def unlike(one: Typical) -> tuple[bool, ...]:
        hall = one.hall
        return (
            span is not None and (one.low, one.high) != (span.low, span.high),
            hall.designs != to.designs,
            hall.designs[:1] != to.designs[:1],
            hall.cooling != to.cooling,
            hall.fabric != to.fabric,
        )

    return min(halls().get(key, ()), key=unlike, default=None)
