"""Figures of the supply that the summary, the report and the checks share: plain data from the plan's frames."""

from typing import Any

import numpy as np

from capacity.model import Plan
from capacity.power.operation import load_step, standby
from capacity.power.rack import circuits
from capacity.power.upstream import existing_plant, tree
from capacity.power.upstream.power_factor import power_factors
from inventory.site.sections.electrical import Electrical, Tariff


def figures(plan: Plan) -> dict[str, Any] | None:
    """Service, medium voltage, transformers, UPS, generators, panels, failures, swing and cost; None where the site has
    no section `electrical`.
    """
    site, electrical, elements = plan.site, plan.site.electrical, plan.elements
    if electrical is None or elements.empty:
        return None
    of = {str(kind): part for kind, part in elements.groupby("kind", sort=False)}
    factors = power_factors(site)
    grid_kw = float(of["utility"]["load_kw"].sum())
    apparent = standby.mva(grid_kw, factors.of("utility"))
    it_kw = float(plan.racks[f"{site.power.profile}_kw"].sum())
    main = of["transformer"]
    loaded = main[main["load_kw"] > 0]
    facts = electrical.transformers
    used = loaded["load_kw"] / (facts.kva * factors.of("transformer"))
    ups = of["ups"]
    share = float((ups["load_kw"] / ups["limit_kw"]).max())
    battery = standby.autonomy(site)
    together = plan.failures["kind"].isin(["room", "grid"])
    result: dict[str, Any] = {
        "service": {
            "kw": round(grid_kw, 3),
            "mva": round(apparent, 3),
            "firm_mva": electrical.utility.firm_mva,
            "with_growth_mva": round(apparent * (1 + electrical.utility.growth_pct / 100), 3),
            "amps": round(circuits.line_current_a(apparent * 1000, electrical.utility.voltage_kv * 1000), 2),
            "voltage_kv": electrical.utility.voltage_kv,
        },
        "fault_ka": {
            str(kind): round(float(part["fault_ka"].max()), 3)
            for kind, part in of.items()
            if part["fault_ka"].max() > 0
        },
        "transformers": {
            "kva": facts.kva,
            "in_use": len(loaded),
            "spare": len(main) - len(loaded),
            "fewest": standby.transformer_count(apparent * 1000, facts.kva, facts.n_plus),
            "largest_load_pct": round(float(used.max()) * 100, 2),
            "losses_kw": round(
                float(tree.losses_kw(facts.no_load_kw, facts.load_loss_kw, used.to_numpy(dtype=np.float64)).sum()), 3
            ),
        },
        "ups": {
            "blocks": len(ups),
            "modules": standby.modules_of(site, ups),
            "module_kw": site.ups.module_kw,
            "redundancy": site.ups.redundancy,
            "usable_of_a_block": round(float((ups["limit_kw"] / tree.module_kw(site, electrical)).max())),
            "largest_load_pct": round(share * 100, 2),
            "counts_for_it": standby.ups_counts(it_kw, site.ups.module_kw),
            "battery_s": round(battery.have_s, 1),
            "needed_s": round(battery.need_s, 1),
            "needed_for": battery.reason,
        },
        "panels": {
            "count": len(of["panel"]),
            "largest_load_pct": round(float((of["panel"]["worst_kw"] / of["panel"]["limit_kw"]).max()) * 100, 2),
        },
        "failures": {
            "judged": len(plan.failures),
            "that_lose_servers": int((plan.failures["servers_lost"] > 0).sum()),
            "most_servers_lost": int(plan.failures["servers_lost"].max()),
            "rooms_and_grid": int(together.sum()),
        },
    }
    if not any(f.id == "POWER-FLOW" for f in plan.findings):  # without a load flow there is no drop to state
        result["panels"]["largest_drop_pct"] = round(float(of["circuit"]["drop_pct"].max()), 3)
    if electrical.generators is not None:
        sets, plants = of["generator"], of["generators"]
        peak = float(plants["worst_kw"].sum())
        hours = electrical.generators.fuel_h
        result["generators"] = {
            "sets": len(sets),
            "kw": electrical.generators.kw,
            "largest_plant_kw": round(float(plants["worst_kw"].max()), 3),
            "fuel_h": hours,
            "fuel_litres": round(peak * hours * electrical.generators.litres_per_kwh),
        }
    if there := _installed(plan, electrical):
        result["installed"] = there
    if steps := load_step.figures(site, electrical, elements):
        result["swing"] = steps
    if electrical.tariff is not None:
        result["year"] = _year(plan, electrical.tariff, grid_kw / it_kw)
    return result


def facility_pue(plan: Plan) -> float:
    """Facility power over IT power in the site's profile: that of the planned supply, with what its cooling and its losses draw, so
    that facility power and service are of one plant; power.pue where no supply is planned.
    """
    grid = plan.elements[plan.elements["kind"] == "utility"]
    it_kw = float(plan.racks[f"{plan.site.power.profile}_kw"].sum())
    return float(grid["load_kw"].sum()) / it_kw if len(grid) and it_kw > 0 else plan.site.power.pue


def _installed(plan: Plan, electrical: Electrical) -> dict[str, dict[str, int]]:
    """UPS blocks, transformers and generators that stand there, and how many more carry the load, as the findings say."""
    there = {}
    for key in existing_plant.KINDS:
        counts = existing_plant.counted(electrical, plan.site.power.feeds, key)
        if counts:
            more = max((int(f.numbers.get(f"{key}_more", 0)) for f in plan.findings), default=0)
            there[key] = {"standing": sum(counts.values()), "to_add": more}
    return there


def _year(plan: Plan, tariff: Tariff, peak_pue: float) -> dict[str, Any]:
    """Energy and demand of a year at the measured profile of the IT load (ERR-01): the peak with the supply's own PUE, the
    energy with that of the year where the site gives weather. Water is on the basis of the energy: measured profile, load factor.
    """
    it_kw = float(plan.racks["measured_kw"].sum())
    figures = plan.cooling_figures
    own = figures.loc[(figures["item"] == "year") & (figures["quantity"] == "PUE"), "value"]
    year_pue = float(own.iloc[0]) if len(own) else peak_pue
    energy = standby.annual_mwh(it_kw * year_pue, tariff.load_factor)
    cost = standby.annual_cost(energy, it_kw * peak_pue, tariff.energy_per_mwh, tariff.demand_per_kw_month)
    water = figures.loc[(figures["item"] == "year") & (figures["quantity"] == "water"), "value"]
    basis = (
        it_kw * tariff.load_factor / float(plan.racks["nameplate_kw"].sum())
    )  # the plant's year is at nameplate, always on
    return {
        "it_kw": round(it_kw, 3),
        **({"water_m3": round(float(water.iloc[0]) * basis, 1)} if len(water) else {}),
        "peak_kw": round(it_kw * peak_pue, 3),
        "pue": round(year_pue, 4),
        "mwh": round(energy, 3),
        "load_factor": tariff.load_factor,
        "currency": tariff.currency,
        **{f"cost_{name}": round(value) for name, value in cost.items()},
    }
