"""The grid connection: its load, its firm capacity against it (POWER-UTILITY), and powers that were written in another unit
than their key's (POWER-UNIT-SLIP).
"""

import math

import pandas as pd

from capacity.power.operation import standby
from capacity.power.upstream import loading
from capacity.power.upstream.power_factor import power_factors
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical

MOST_LINE_A = 4000
LINE_SOURCE = "IEEE C37.20.2: preferred continuous currents of metal-clad switchgear end at 4,000 A with forced air"
"""Not confirmed against the standard's text."""
SLIP = 100
"""How far from the site's load a value must be, up or down, to be taken for one in another unit. Site choice of this program: units
lie a factor of 1,000 apart, and a thing of the site may be ten times smaller or larger than its load."""
LARGE = 5
"""A value is taken for one in another unit where it then is at most so many times the load, and at least the same part of it. Site
choice of this program: many small chillers, or a step that a grid permits to a small site, are no slip."""


def service_kw(elements: pd.DataFrame) -> float:
    """Load at the grid's lines together, kW."""
    return float(elements.loc[elements["kind"] == "utility", "load_kw"].sum())


def check_utility(site: Site, electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-UTILITY: the firm capacity carries the load (error), and leaves the margin for growth (warning)."""
    need = standby.mva(service_kw(elements), power_factors(site).of("utility"))
    wanted = need * (1 + electrical.utility.growth_pct / 100)
    firm = electrical.utility.firm_mva
    if firm >= wanted:
        return []
    enough_mva = max(wanted, firm * loading.most_used(elements, "utility"))
    return [
        finding(
            "POWER-UTILITY",
            "electrical.utility.firm_mva",
            severity="error" if firm < need else "warning",
            limit=firm,
            limit_source="site electrical.utility.firm_mva",
            mva=round(need, 3),
            with_growth_mva=round(wanted, 3),
            words={"growth_pct": electrical.utility.growth_pct},
            remedies=[
                remedy({"electrical.utility.firm_mva": loading.rounded_up(enough_mva, 2)}, fix="at-least"),
                remedy(fix="smaller-tranche"),
            ],
        )
    ]


def check_units(site: Site, electrical: Electrical, elements: pd.DataFrame) -> list[Finding]:
    """POWER-UNIT-SLIP: values that only fit the site's load when they are taken for another unit than their key's."""
    load_kw = service_kw(elements)
    need_mva = standby.mva(load_kw, power_factors(site).of("utility"))
    utility, found = electrical.utility, []
    kv, firm = utility.voltage_kv, utility.firm_mva
    amps = firm * 1000 / math.sqrt(3) / kv / utility.services
    if firm >= SLIP * need_mva and amps > MOST_LINE_A:
        words = {"times": firm / need_mva, "kv": kv, "meant": firm / 1000}
        found.append(
            finding(
                "POWER-UNIT-SLIP",
                "electrical.utility.firm_mva",
                case="line",
                limit=float(MOST_LINE_A),
                limit_source=LINE_SOURCE,
                amps=round(amps, 1),
                value=firm,
                needed=round(need_mva, 6),
                words=words,
                remedies=[_other_unit("electrical.utility.firm_mva", firm / 1000, "kVA")],
            )
        )
    step_mw = utility.max_step_mw
    if step_mw is not None and step_mw >= max(SLIP, 1000 / LARGE) * load_kw / 1000:
        found.append(_slip("electrical.utility.max_step_mw", step_mw, load_kw / 1000, "MW", "kW", 1e-3))
    waves, plant = electrical.waves, site.cooling.plant
    small = {
        "electrical.waves.energised_kw": waves.energised_kw if waves is not None else None,
        "electrical.waves.cooling_kw": waves.cooling_kw if waves is not None else None,
        "cooling.plant.chiller_kw": plant.chiller_kw if plant is not None else None,
        "cooling.plant.reject_kw": plant.reject_kw if plant is not None else None,
    }
    for key, kw in small.items():
        if kw is None:
            continue
        if kw * SLIP < load_kw and kw * 1000 <= LARGE * load_kw:
            found.append(_slip(key, kw, load_kw, "kW", "MW", 1e3))
        elif kw > max(SLIP, 1000 / LARGE) * load_kw and key.startswith("electrical"):
            found.append(_slip(key, kw, load_kw, "kW", "W", 1e-3))
    return found


def _slip(key: str, value: float, needed: float, unit: str, other_unit: str, factor: float) -> Finding:
    """The finding for one value; `factor` is from the other unit to that of the key."""
    words = {"times": value / needed, "meant": value * factor}
    return finding(
        "POWER-UNIT-SLIP",
        key,
        case="small" if factor > 1 else "large",
        limit=needed / SLIP if factor > 1 else needed * SLIP,
        limit_source="load of the planned supply at the grid's lines",
        value=value,
        needed=round(needed, 6),
        words={**words, "unit": unit, "other_unit": other_unit},
        remedies=[_other_unit(key, value * factor, other_unit)],
    )


def _other_unit(key: str, value: float, unit: str) -> RemedyOf:
    return remedy({key: round(value, 6)}, fix="other-unit", other_unit=unit)
