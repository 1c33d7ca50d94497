"""UPS, generators and what the load does to them: counts, autonomy, load swings, burn-in, cost of energy.

Pure formulae; each function names its source.
"""

import math
from dataclasses import dataclass

import pandas as pd

from capacity.power.facility import units_for
from inventory.findings import Finding, finding, remedy
from inventory.site import Site

MINUTE = 60.0

SHUTDOWN_S = 120.0
"""Time to shut servers down after the checkpoint is written, where the site gives no drain time: site choice."""

HOURS_PER_YEAR = 8760


def drain_s(site: Site) -> float:
    """Seconds until a checkpoint is written and the servers are down: the site's figure, or its stall and two minutes."""
    given = site.electrical.drain_s if site.electrical else None
    return given if given is not None else site.storage.checkpoint.stall_s + SHUTDOWN_S


def carried_after_s(site: Site) -> tuple[float, str, str]:
    """Seconds after a loss of the utility until somebody carries the load or none is left, what happens then, and where
    the figure comes from (ERR-18): generators start and take over; without them a checkpoint is written and servers stop.
    """
    if site.generator.present and site.generator.start_s is not None:
        seconds, source = site.generator.start_s, "site generator.start_s"
        if site.electrical is not None and site.electrical.generators is not None:
            seconds += site.electrical.generators.transfer_s
            source += " + electrical.generators.transfer_s"
        return seconds, "the generators take the load", source
    given = site.electrical is not None and site.electrical.drain_s is not None
    source = "site electrical.drain_s" if given else f"site storage.checkpoint.stall_s + {SHUTDOWN_S:g} s to shut down"
    return drain_s(site), "a checkpoint is written and the servers are down", source


@dataclass(frozen=True)
class Autonomy:
    """`have_s` of battery against `need_s`, what the need is made of, and where its figures come from."""

    have_s: float
    need_s: float
    reason: str
    source: str

    @property
    def enough(self) -> bool:
        """Whether the battery lasts."""
        return self.have_s >= self.need_s


def autonomy(site: Site) -> Autonomy:
    """Battery time at full load, where it is shortest, against the time until somebody carries the load, with the margin for
    generators that do not start at once (ERR-18).
    """
    needed_s, what, source = carried_after_s(site)
    if site.generator.present:
        margin_s = site.ups.margin_s
        needed_s, what, source = (
            needed_s + margin_s,
            f"{what} with {margin_s:g} s of margin",
            f"{source} + ups.margin_s",
        )
    return Autonomy(site.ups.autonomy_min * MINUTE, needed_s, what, source)


def ups_counts(load_kw: float, module_kw: float) -> dict[str, int]:
    """Modules for `load_kw` at each redundancy (RC-078, RC-079)."""
    return {redundancy: units_for(load_kw, module_kw, redundancy) for redundancy in ("n", "n+1", "2n")}


def planned_modules(site: Site, elements: pd.DataFrame, it_kw: float) -> int:
    """UPS modules that the site takes: those of all planned blocks (ERR-45); without a planned supply (no `elements`)
    one block for the IT load.
    """
    if site.electrical is None or elements.empty:
        return units_for(it_kw, site.ups.module_kw, site.ups.redundancy)
    return modules_of(site, elements[elements["kind"] == "ups"])


def modules_of(site: Site, blocks: pd.DataFrame) -> int:
    """UPS modules of these blocks, redundant ones included."""
    return int((blocks["rating"] / site.ups.module_kw).round().sum())


def mva(kw: float, power_factor: float) -> float:
    """Apparent power in MVA (S074)."""
    return kw / power_factor / 1000


def transformer_count(load_kva: float, kva: float, n_plus: int) -> int:
    """Transformers of `kva` for `load_kva`, with spares (S077)."""
    return math.ceil(load_kva / kva - 1e-9) + n_plus


def annual_mwh(peak_kw: float, load_factor: float) -> float:
    """Energy of a year (S075)."""
    return peak_kw * load_factor * HOURS_PER_YEAR / 1000


def annual_cost(mwh: float, peak_kw: float, energy_per_mwh: float, demand_per_kw_month: float) -> dict[str, float]:
    """Energy, demand charge and their sum for a year (S075), in the tariff's currency."""
    energy, demand = mwh * energy_per_mwh, peak_kw * demand_per_kw_month * 12
    return {"energy": energy, "demand": demand, "total": energy + demand}


def burn_in(servers: int, server_kw: float, hours: float, gpus_each: int) -> dict[str, float]:
    """Energy in MWh and GPU-hours of a burn-in (RC-034)."""
    return {"mwh": servers * server_kw * hours / 1000, "gpu_hours": servers * gpus_each * hours}


def swing_kw(servers: int, full_w: float, idle_w: float) -> float:
    """Sudden change of load when the GPUs of all servers start or stop together."""
    return servers * (full_w - idle_w) / 1000


def check_ride_through(site: Site) -> list[Finding]:
    """POWER-RIDE-THROUGH (ERR-18) when the batteries end before the generators carry, or before a checkpoint is written.

    POWER-NO-GENERATOR, for information, when there is none: somebody has to accept that risk.
    """
    battery = autonomy(site)
    autonomy_s, needed_s = battery.have_s, battery.need_s
    found = []
    if not battery.enough:
        found.append(
            finding(
                "POWER-RIDE-THROUGH",
                "ups.autonomy_min",
                case="generators" if site.generator.present and site.generator.start_s is not None else "checkpoint",
                limit=needed_s,
                limit_source=battery.source,
                err="ERR-18",
                autonomy_s=autonomy_s,
                needed_s=needed_s,
                words={"margin_s": site.ups.margin_s},
                remedies=[remedy({"ups.autonomy_min": math.ceil(needed_s / 60 * 100) / 100}, fix="at-least")],
            )
        )
    if not site.generator.present:
        found.append(
            finding(
                "POWER-NO-GENERATOR",
                "generator.present",
                err="ERR-18",
                autonomy_s=autonomy_s,
                remedies=[remedy(fix="accept")],
            )
        )
    return found


def check_scope(site: Site) -> list[Finding]:
    """POWER-UPS-SCOPE (ERR-06): what is not on the UPS stops at once."""
    if site.ups.scope != "it":
        return []
    return [
        finding(
            "POWER-UPS-SCOPE",
            "ups.scope",
            limit_source="site ups.scope",
            err="ERR-06",
            autonomy_min=site.ups.autonomy_min,
            remedies=[remedy({"ups.scope": "it_and_cooling"}), remedy(fix="accepted")],
        )
    ]
