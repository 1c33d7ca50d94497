"""The grid connection: its load, and its firm capacity against it (POWER-UTILITY)."""

import pandas as pd

from capacity.power.operation import standby
from capacity.power.upstream import loading
from capacity.power.upstream.power_factor import power_factors
from inventory.findings import Finding, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical


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
