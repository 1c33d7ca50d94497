"""From IT load to facility load, and what that means at the intake and for UPS modules.

Two methods stand side by side, because they disagree (ERR-03): a flat percentage on the IT load, and IT load times PUE.
"""

import math
from collections.abc import Iterable

from inventory.findings import Finding, finding, remedy
from inventory.site import Site


def flat_overhead_kw(it_kw: float, percent: tuple[float, float]) -> tuple[float, float]:
    """Facility power (low, high) in kW with `percent` (low, high) added to the IT load."""
    return it_kw * (1 + percent[0] / 100), it_kw * (1 + percent[1] / 100)


def itemised_kw(it_kw: float, pue: float) -> float:
    """Facility power in kW: IT load (servers, network, storage) times PUE."""
    return it_kw * pue


def optics_kw(plugs: Iterable[tuple[float, int]]) -> float:
    """Draw of what sits in the cages, transceivers and ends of active copper, in kW (RC-073d): (watts of one, how many).

    It is a part of what servers and switches draw, not a load beside them.
    """
    return sum(watts * count for watts, count in plugs) / 1000


def overhead_for_total_pct(it_kw: float, total_kw: float) -> float:
    """Overhead in percent that takes `it_kw` to `total_kw`."""
    return (total_kw / it_kw - 1) * 100


def units_for(load: float, each: float, redundancy: str) -> int:
    """Equal units of rating `each` for `load` (modules of one UPS block, supplies): redundancy n, n+1, n+2 or 2n."""
    n = math.ceil(load / each - 1e-9)
    return {"n": n, "n+1": n + 1, "n+2": n + 2, "2n": 2 * n}[redundancy]


def check_overhead(site: Site) -> list[Finding]:
    """POWER-OVERHEAD (ERR-03) when the PUE lies outside the flat overhead that the site plans with."""
    low, high = site.power.overhead_pct
    by_components = site.electrical is not None and site.cooling.plant is not None
    given = (site.power.pue - 1) * 100
    if low - 1e-9 <= given <= high + 1e-9:
        return []
    nearest_pct = high if given > high else low
    wider = [math.floor(min(low, given) * 100 + 1e-6) / 100, math.ceil(max(high, given) * 100 - 1e-6) / 100]
    return [
        finding(
            "POWER-OVERHEAD",
            "power.overhead_pct",
            case="plant" if by_components else "pue",
            limit=nearest_pct,
            limit_source="site power.pue",
            err="ERR-03",
            low_pct=low,
            high_pct=high,
            pue_pct=round(given, 4),
            words={"pue": site.power.pue, "low_pue": 1 + low / 100, "high_pue": 1 + high / 100},
            remedies=[
                remedy({"power.overhead_pct": wider}),
                remedy({"power.pue": round(1 + nearest_pct / 100, 6)}, fix="pue"),
            ],
        )
    ]
