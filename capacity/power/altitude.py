"""What ratings of electrical gear and permitted inlet temperatures are worth at the altitude of the site.

In: room.altitude_m, electrical.ratings_at, the tables of altitude.yaml with their sources. Out: factors on ratings, kelvin off the
highest permitted inlet. The density of the air is capacity.cooling.air's.

Findings: POWER-ALTITUDE.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.yaml_data import read_data

FILE = Path(__file__).with_name("altitude.yaml")
KINDS = ("ups", "generator", "transformer", "low_voltage", "medium_voltage")


@cache
def tables() -> Mapping[str, Any]:
    """The content of altitude.yaml."""
    data: Mapping[str, Any] = read_data(FILE)
    return data


def factor(site: Site, kind: str) -> float:
    """Factor on the rating of a kind of gear (`KINDS`) at the site; 1 where its ratings are stated as they hold there."""
    if site.electrical is None or site.electrical.ratings_at == "site":
        return 1.0
    return factor_at(kind, site.room.altitude_m)


def factor_at(kind: str, altitude_m: float) -> float:
    """Factor on the rating of a kind of gear at `altitude_m`."""
    table = tables()[kind]["factors"]
    metres, factors = np.array([*table], dtype=np.float64), np.array([*table.values()], dtype=np.float64)
    if altitude_m > metres[-1]:
        slope = (factors[-1] - factors[-2]) / (metres[-1] - metres[-2])
        return max(float(factors[-1] + slope * (altitude_m - metres[-1])), 0.0)
    return round(float(np.interp(altitude_m, metres, factors)), 6)


def inlet_less_k(site: Site) -> float:
    """Kelvin that the highest permitted inlet temperature falls at the site's altitude, by the class of its cooling."""
    given = tables()["inlet"]
    over_m = max(site.room.altitude_m - given["above_m"], 0.0)
    return float(round(over_m / 100 * given["k_per_100_m"][site.cooling.class_], 3))


def check(site: Site) -> list[Finding]:
    """POWER-ALTITUDE: the factors that ratings are counted with, for information."""
    known = {kind: factor(site, kind) for kind in KINDS}
    if all(value >= 1 for value in known.values()):
        return []
    return [
        finding(
            "POWER-ALTITUDE",
            "room.altitude_m",
            limit_source="; ".join(str(tables()[kind]["source"]) for kind, value in known.items() if value < 1),
            altitude_m=site.room.altitude_m,
            words={"factors": ", ".join(f"{kind.replace('_', ' ')} {v:.3f}" for kind, v in known.items() if v < 1)},
            remedies=[remedy({"electrical.ratings_at": "site"}, fix="stated-at-site")],
        )
    ]
