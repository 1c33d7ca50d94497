"""Computed and generated items of the supply above the rack circuits, counted a second time from the plan's frames.

They need no device. A site without the section `electrical` cannot show them: the check fails and says which section.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from capacity.model import Plan
from capacity.outputs.documents import installation
from capacity.outputs.report import drawings
from capacity.outputs.summary import part
from capacity.power.operation import standby
from inventory.site.sections.electrical import Electrical
from validation.check import Limit, Outcome, check, judged
from validation.checks.test_design import errors, first_of, generated, read_document, twice

SLICES = ("site.electrical", "site.power", "site.ups", "site.generator", "frame.elements", "frame.failures")
SOURCES = ("utility", "generator", "ups")
"""Kinds of elements that are alive by themselves; a UPS has its battery."""
ABSENT = Outcome(False, None, "the site file has no section electrical: nothing above the rack circuits is planned")
DROP_SHARE = 0.95
"""Of the drop over a panel's feeder by hand, what the load flow has to show at least at the panels. At the shipped sites it
shows 1.00 to 8.3 times as much: the flow has the lower voltage at the end, and PDU transformers."""
LINE_A = 0.1
"""Line currents of the schedule are rounded to hundredths of an ampere, and those of a panel's circuits add up."""
SHARE = 0.01
"""Two ways of computing a load may differ by 1 %: losses are quadratic in one and taken at the mean in the other."""


def electrical_of(plan: Plan) -> Electrical | None:
    """The section, None where the site has none."""
    return plan.site.electrical if len(plan.elements) else None


def of_kind(plan: Plan, kind: str) -> Any:
    """Elements of a kind."""
    return plan.elements[plan.elements["kind"] == kind]


@check("S074.computed", inputs=(*SLICES, "frame.cooling_figures", "frame.racks"))
def test_utility_service_carries_the_load(subject: str, plan: Plan) -> Outcome:
    electrical = electrical_of(plan)
    if electrical is None:
        return ABSENT
    it_kw = float(plan.racks[f"{plan.site.power.profile}_kw"].sum())
    figures = plan.cooling_figures
    own = figures.loc[(figures["item"] == "pue") & (figures["quantity"] == "PUE"), "value"]
    kva_per_kw = 1 / electrical.power_factor
    by_pue = it_kw * (float(own.iloc[0]) if len(own) else plan.site.power.pue) * kva_per_kw / 1000
    by_tree = float(of_kind(plan, "utility")["load_kw"].sum()) * kva_per_kw / 1000
    wanted = max(by_pue, by_tree) * (1 + electrical.utility.growth_pct / 100)
    value = {"mva_by_pue": round(by_pue, 3), "mva_by_tree": round(by_tree, 3), "with_growth_mva": round(wanted, 3)}
    limit = Limit(electrical.utility.firm_mva, "MVA", f"site electrical.utility: {electrical.utility.source}")
    if by_tree < by_pue * (1 - SHARE):
        return Outcome(False, value, "the tree carries less than IT load x PUE", limit=limit)
    fits = wanted <= electrical.utility.firm_mva
    return Outcome(fits, value, f"{wanted:.2f} MVA with growth of {limit}", unit="MVA", limit=limit)


@check(
    "S075.computed",
    inputs=(*SLICES, "frame.cooling_figures", "frame.racks", "site.room", "site.server", "site.storage"),
)
def test_energy_and_demand_of_a_year(subject: str, plan: Plan) -> Outcome:
    electrical = electrical_of(plan)
    if electrical is None:
        return ABSENT
    tariff = electrical.tariff
    if tariff is None:
        return Outcome(False, None, "the site file has no electrical.tariff: no cost can be stated")
    own, it = float(of_kind(plan, "utility")["load_kw"].sum()), plan.racks
    pue = own / float(it[f"{plan.site.power.profile}_kw"].sum())
    told = part(plan, "electrical")["year"]
    measured_kw = float(it["measured_kw"].sum())
    mwh = measured_kw * told["pue"] * 8.76 * tariff.load_factor
    cost = mwh * tariff.energy_per_mwh + measured_kw * pue * 12 * tariff.demand_per_kw_month
    agrees = math.isclose(told["mwh"], mwh, rel_tol=1e-4) and math.isclose(told["cost_total"], cost, rel_tol=1e-4)
    detail = f"{mwh:,.0f} MWh and {cost:,.0f} {tariff.currency} a year at load factor {tariff.load_factor:g}"
    return Outcome(
        agrees,
        told,
        detail if agrees else f"summary says {told}",
        limit=Limit(
            tariff.demand_per_kw_month, f"{tariff.currency}/kW/month", f"site electrical.tariff: {tariff.source}"
        ),
    )


@check(
    "S076.computed",
    inputs=(*SLICES, "frame.cooling_figures", "frame.racks", "site.room", "site.server", "site.storage"),
)
def test_medium_voltage_current_and_fault_level(subject: str, plan: Plan) -> Outcome:
    electrical = electrical_of(plan)
    if electrical is None:
        return ABSENT
    utility, gear = electrical.utility, electrical.medium_voltage
    intakes = of_kind(plan, "intake")
    amps = float((intakes["worst_kw"] / electrical.power_factor).max()) / (math.sqrt(3) * utility.voltage_kv)
    fault_ka = utility.fault_mva / (math.sqrt(3) * utility.voltage_kv)
    value = {
        "site_a": part(plan, "electrical")["service"]["amps"],
        "worst_intake_a": round(amps, 2),
        "fault_ka": round(fault_ka, 3),
    }
    limit = Limit(gear.rating_ka, "kA", "site electrical.medium_voltage.rating_ka")
    if not np.allclose(intakes["fault_ka"], fault_ka, rtol=SHARE):
        return Outcome(False, value, f"the tree says {intakes['fault_ka'].max():.2f} kA at the intake", limit=limit)
    fits = amps <= gear.rating_a * gear.continuous and fault_ka <= gear.rating_ka
    return Outcome(fits, value, f"{amps:.0f} A of {gear.rating_a:g} A and {fault_ka:.1f} kA at the intake", limit=limit)


@check("S077.computed", inputs=SLICES)
def test_transformers_carry_their_boards(subject: str, plan: Plan) -> Outcome:
    electrical = electrical_of(plan)
    if electrical is None:
        return ABSENT
    units, boards = of_kind(plan, "transformer"), of_kind(plan, "switchboard")
    per_feed = units.groupby("feed").size() - boards.groupby("feed").size()
    facts = electrical.transformers
    used = boards.set_index("upstream")["load_kw"] / (facts.kva * electrical.power_factor)
    losses = float((facts.no_load_kw + facts.load_loss_kw * used**2).sum())
    value = {
        "transformers": len(units),
        "boards": len(boards),
        "spare_per_feed": int(per_feed.min()),
        "losses_kw": round(losses, 3),
    }
    limit = Limit(facts.kva, "kVA", f"site electrical.transformers: {facts.source}")
    if int(per_feed.min()) < facts.n_plus:
        return Outcome(False, value, f"{facts.n_plus} spare transformers a feed asked for", limit=limit)
    good = f"{len(boards)} in use, {facts.n_plus} spare a feed, {losses:.1f} kW of losses"
    return judged(errors(plan, "POWER-ELEMENT"), value, good, limit=limit)


@check(
    "S078.computed",
    inputs=(*SLICES, "site.storage", "frame.bom", "frame.cooling_figures", "frame.racks", "site.room", "site.server"),
)
def test_ups_modules_and_battery(subject: str, plan: Plan) -> Outcome:
    electrical = electrical_of(plan)
    if electrical is None:
        return ABSENT
    told = part(plan, "electrical")["ups"]
    start = plan.site.generator.start_s or 0.0
    if plan.site.generator.present and electrical.generators is not None:
        needed = start + electrical.generators.transfer_s + plan.site.ups.margin_s
    else:
        needed = standby.drain_s(plan.site)
    have = plan.site.ups.autonomy_min * 60
    blocks = of_kind(plan, "ups")
    value = {
        "blocks": len(blocks),
        "modules": standby.modules_of(plan.site, blocks),
        "modules_bought": int(plan.bom.loc[plan.bom["item"] == "ups module", "quantity"].sum()),
        "battery_s": have,
        "needed_s": needed,
    }
    limit = Limit(needed, "s", f"until {told['needed_for']}, site generator, electrical and ups.margin_s")
    there = part(plan, "electrical").get("installed", {}).get("ups_blocks", {"standing": 0, "to_add": 0})
    missing = len(blocks) - there["standing"] + there["to_add"]
    free = blocks[[electrical.ups_blocks.standing(feed) is None for feed in blocks["feed"]]]
    wanted = standby.modules_of(plan.site, free) + there["to_add"] * electrical.ups_blocks.frame_modules
    if value["modules_bought"] != wanted:
        beside = f" beside the {there['standing']} that stand there" if there["standing"] else ""
        detail = f"{missing} blocks{beside} take {wanted} modules and the bill has {value['modules_bought']}"
        return Outcome(False, value, detail, limit=limit)
    agrees = value["modules"] == told["modules"] and math.isclose(told["needed_s"], needed, abs_tol=0.05)
    detail = (
        f"{value['modules']} modules of {plan.site.ups.module_kw:g} kW; {have:.0f} s of battery, {needed:.0f} s needed"
    )
    return Outcome(agrees and have >= needed, value, detail, limit=limit)


@check("S079.computed", inputs=SLICES)
def test_ups_blocks_carry_their_load_without_redundancy(subject: str, plan: Plan) -> Outcome:
    """N, N+1 and 2N per block, at the permitted load and not at the nameplate (ERR-45)."""
    electrical = electrical_of(plan)
    if electrical is None:
        return ABSENT
    blocks, ups = of_kind(plan, "ups"), plan.site.ups
    permitted = ups.module_kw * electrical.ups_blocks.permitted_load
    needed = np.ceil(blocks["worst_kw"].to_numpy(dtype=np.float64) / permitted - 1e-9)
    spare = {"n": np.zeros_like(needed), "n+1": needed * 0 + 1, "n+2": needed * 0 + 2, "2n": needed}[ups.redundancy]
    installed = np.round(blocks["rating"].to_numpy(dtype=np.float64) / ups.module_kw)
    short = blocks["name"].to_numpy()[installed < needed + spare]
    lost_one = float((blocks["worst_kw"] / np.maximum(installed - 1, 1)).max())
    value = {
        "blocks": len(blocks),
        "most_needed": int(needed.max()),
        "installed_each": int(installed.min()),
        "kw_per_module_with_one_lost": round(lost_one, 2),
    }
    limit = Limit(permitted, "kW a module", "site ups.module_kw x electrical.ups_blocks.permitted_load")
    if len(short):
        return Outcome(False, value, f"too few modules for {ups.redundancy}: {', '.join(short[:5])}", limit=limit)
    found = errors(plan, "POWER-UPS-REDUNDANCY", "POWER-FAILURE")
    return judged(found, value, f"{len(blocks)} blocks keep {ups.redundancy} in the worst single failure", limit=limit)


@check("S080.computed", inputs=(*SLICES, "site.storage"))
def test_generators_carry_the_site_or_their_absence_is_recorded(subject: str, plan: Plan) -> Outcome:
    electrical = electrical_of(plan)
    if electrical is None:
        return ABSENT
    if electrical.generators is None:
        named = [f for f in plan.findings if f.id == "POWER-NO-GENERATOR"]
        drain, have = standby.drain_s(plan.site), plan.site.ups.autonomy_min * 60
        limit = Limit(drain, "s", "checkpoint and shutdown, site electrical.drain_s or storage.checkpoint.stall_s")
        value = {"generators": 0, "battery_s": have, "drain_s": drain}
        return Outcome(bool(named) and have >= drain, value, f"none; {have:.0f} s of battery to drain", limit=limit)
    plants, sets = of_kind(plan, "generators"), of_kind(plan, "generator")
    facts = electrical.generators
    have_kw = sets.groupby("feed").size() * facts.kw - facts.n_plus * facts.kw
    worst = plants.set_index("feed")["worst_kw"]
    litres = float(worst.sum()) * facts.fuel_h * facts.litres_per_kwh
    value = {"sets": len(sets), "worst_kw": worst.round(1).to_dict(), "fuel_h": facts.fuel_h, "litres": round(litres)}
    limit = Limit(float(have_kw.min()), "kW a plant", f"site electrical.generators: {facts.source}")
    fits = bool((worst <= have_kw.reindex(worst.index) + 1e-6).all())
    return Outcome(fits, value, f"{len(sets)} sets, {facts.n_plus} spare a plant, {litres:,.0f} L", limit=limit)


@check("S082.computed", inputs=SLICES)
def test_feeders_carry_their_panels_within_the_voltage_drop(subject: str, plan: Plan) -> Outcome:
    electrical = electrical_of(plan)
    if electrical is None:
        return ABSENT
    panels, circuits = of_kind(plan, "panel"), of_kind(plan, "circuit")
    feeder = electrical.panels.feeder
    ohm = complex(feeder.r_ohm_km, feeder.x_ohm_km) * (feeder.length_m or 0.0) / 1000
    pf = plan.site.power.power_factor
    share = ohm.real + ohm.imag * math.tan(math.acos(pf))
    by_hand = float((panels["worst_kw"] * 1000 * share / panels["voltage_v"] ** 2).max()) * 100
    taps = circuits.groupby("upstream").size()
    value: dict[str, Any] = {
        "panels": len(panels),
        "most_circuits": int(taps.max()),
        "worst_load_pct": round(float((panels["worst_kw"] / panels["limit_kw"]).max()) * 100, 2),
        "feeder_drop_pct": round(by_hand, 3),
        "drop_at_the_panels_pct": round(float(panels["drop_pct"].max()), 3),
        "drop_at_the_rack_pct": round(float(circuits["drop_pct"].max()), 3),
        "feeder_ampacity_a": feeder.ampacity_a,
        "rack_conductor_ampacity_a": electrical.rack_conductor.ampacity_a,
    }
    limit = Limit(electrical.max_drop_pct, "%", "site electrical.max_drop_pct")
    conductors = {"electrical.panels.feeder": feeder, "electrical.rack_conductor": electrical.rack_conductor}
    if unstated := [key for key, conductor in conductors.items() if conductor.ampacity_a is None]:
        return Outcome(False, value, f"no ampacity of {', '.join(unstated)}: POWER-CONDUCTOR", unit="%", limit=limit)
    if found := [f for f in plan.findings if f.id in ("POWER-FLOW", "POWER-VOLTAGE-DROP", "POWER-CONDUCTOR")]:
        return judged(found, value, "", unit="%", limit=limit)
    if value["drop_at_the_panels_pct"] < DROP_SHARE * by_hand:
        detail = f"the load flow says {value['drop_at_the_panels_pct']} % at the panels, the feeder alone takes {by_hand:.3f} %"
        return Outcome(False, value, detail, unit="%", limit=limit)
    fits = (
        taps.max() <= electrical.panels.circuits
        and (panels["worst_kw"] <= panels["limit_kw"] + 1e-6).all()
        and circuits["drop_pct"].max() <= electrical.max_drop_pct
    )
    return Outcome(bool(fits), value, f"{value['drop_at_the_rack_pct']} % at the farthest rack", unit="%", limit=limit)


@check("S083.computed", inputs=(*SLICES, "frame.circuits", "frame.outlets"))
def test_panel_schedule_is_complete_and_breakers_interrupt_the_fault(subject: str, plan: Plan) -> Outcome:
    electrical = electrical_of(plan)
    if electrical is None:
        return ABSENT
    schedule = read_document(installation.document(plan, "panel-schedule.csv"))
    panels = of_kind(plan, "panel")
    phases = schedule[["l1_a", "l2_a", "l3_a"]].astype(float)
    totals = phases.groupby(schedule["panel"]).sum()
    spread = float(((totals.max(axis=1) - totals.min(axis=1)) / totals.mean(axis=1).where(lambda m: m > 0, 1)).max())
    value = {
        "circuits": len(schedule),
        "panels": int(schedule["panel"].nunique()),
        "largest_fault_ka": round(float(panels["fault_ka"].max()), 2),
        "phase_spread_pct": round(spread * 100, 2),
        "largest_line_a": round(float(panels["worst_phase_a"].max()), 2),
    }
    limit = Limit(electrical.panels.rating_ka, "kA", "site electrical.panels.rating_ka")
    twice = schedule.duplicated(["panel", "position"]).any() or schedule["circuit"].duplicated().any()
    if len(schedule) != len(plan.circuits) or twice:
        return Outcome(
            False, value, f"{len(plan.circuits)} circuits planned, {len(schedule)} in the schedule", limit=limit
        )
    larger = schedule["main_a"].astype(float) > schedule["breaker_a"].astype(float)
    if not larger.all():
        return Outcome(False, value, "a branch breaker is as large as its panel's main", limit=limit)
    carries = electrical.panels.rating_a * plan.site.power.derating
    between = plan.outlets["phase"].str.contains("-").any()  # whose line currents are no plain sum
    counted = totals.max(axis=1).reindex(panels["name"]).fillna(0.0).to_numpy() * (not between)
    line_a = np.maximum(panels["worst_phase_a"].to_numpy(dtype=np.float64), counted)
    if over := int((line_a > carries + LINE_A).sum()):
        detail = f"{line_a.max():.1f} A on one line of {panels['name'].iloc[int(line_a.argmax())]} ({over} such panels)"
        return Outcome(
            False, value, detail, limit=Limit(carries, "A", "site electrical.panels.rating_a x power.derating")
        )
    return judged(
        errors(plan, "POWER-FAULT-LEVEL"), value, f"{len(schedule)} circuits on {len(panels)} panels", limit=limit
    )


@check("S094.generated", inputs=(*SLICES, "frame.circuits", "frame.outlets", "site.leadtimes"))
def test_one_line_and_panel_schedules_show_the_whole_supply(subject: str, plan: Plan) -> Outcome:
    """Diagram and schedules are the raw output; judged is the tree that they show: every circuit hangs on a source, and what
    hangs on a panel adds up to its load."""
    if electrical_of(plan) is None:
        return ABSENT
    elements, circuits = plan.elements.set_index("name"), plan.circuits
    above = {str(name): str(upstream) for name, upstream in elements["upstream"].items()}
    ends = {name: top_of(name, above) for name in circuits["circuit"]}
    sources = set(elements.index[elements["kind"].isin(["utility", "generators", "generator"])])
    loose = [f"{name} ends at {end or 'a circle'}" for name, end in ends.items() if end not in sources]
    problems = first_of(loose, "circuits that hang on no source")
    problems += first_of(twice(circuits, "circuit"), "circuits with the name of another")
    on = circuits["circuit"].map(above)
    sums = circuits["load_kw"].groupby(on.to_numpy()).sum()
    apart = (sums - elements["load_kw"].reindex(sums.index)).abs()
    if len(wrong := apart.index[~(apart <= 0.001 * circuits.groupby(on.to_numpy()).size())]):
        problems.append(f"the circuits of {wrong[0]} do not add up to its load in the tree")
    value = {"panels": len(sums), "circuits": len(circuits)}
    good = f"{len(circuits)} circuits on {len(sums)} panels, each with a way up to a source"
    return generated(
        f"{drawings.one_line_sheet(plan)}\n{installation.document(plan, 'panel-schedule.csv')}", problems, value, good
    )


def top_of(name: str, above: Mapping[str, str]) -> str:
    """The last element above a circuit, by normal sources; '' where they go in a circle."""
    seen = set[str]()
    while upstream := above.get(name, ""):
        if name in seen:
            return ""
        seen.add(name)
        name = upstream
    return name


@check("S095.generated", inputs=SLICES)
def test_lockout_sheets_cover_every_isolation_point(subject: str, plan: Plan) -> Outcome:
    if electrical_of(plan) is None:
        return ABSENT
    text = installation.document(plan, "lockout-sheets.csv")
    back = read_document(text)
    points = set(plan.elements["name"])
    problems = []
    if set(back["isolation_point"]) != points:
        problems.append(f"{len(points)} isolation points, {back['isolation_point'].nunique()} with a sheet")
    actions = back.groupby("isolation_point")["action"].agg(" ".join)
    for word, what in (
        ("lock", "a lock"),
        ("dead", "proof of absence of voltage"),
        ("Earth", "earthing"),
        ("tag", "a tag"),
    ):
        bare = actions.index[~actions.str.contains(word)]
        if len(bare):
            problems.append(f"{len(bare)} sheets without {what}, first {bare[0]}")
    closed = [
        f"{name} towards {other}"
        for name, others in alive_beside(plan.elements).items()
        for other in others
        if not re.search(rf"[Oo]pen [^,]*\b{re.escape(other)}\b", actions[name])
    ]
    if closed:
        problems.append(f"{len(closed)} breakers stay closed towards what can be alive, first {closed[0]}")
    late = actions.index[actions.str.find("Earth") < actions.str.find("Prove the tester again")]
    if len(late):
        problems.append(f"{len(late)} sheets earth before absence of voltage is proven, first {late[0]}")
    return generated(text, problems, {"sheets": len(points)}, f"{len(points)} sheets, each with all its sources")


def alive_beside(elements: pd.DataFrame) -> dict[str, list[str]]:
    """For each element the neighbours that can be alive while it is dead.

    Those are all that feed it, and each one behind it from which some way over the others, up or down, leads to a source.
    """
    rows = elements[["name", "upstream", "alternates", "kind"]].itertuples(index=False, name=None)
    feeds, kinds = dict[str, list[str]](), dict[str, str]()
    for name, upstream, alternates, kind in rows:
        feeds[name] = [one for one in (upstream, *alternates.split("; ")) if one]
        kinds[name] = kind
    beside: dict[str, set[str]] = {name: set() for name in feeds}
    behind: dict[str, list[str]] = {name: [] for name in feeds}
    for name, sources in feeds.items():
        for source in sources if kinds[name] != "circuit" else ():
            behind[source].append(name)
            beside[source].add(name)
            beside[name].add(source)

    def alive(start: str, dead: str) -> bool:
        seen, left = {start, dead}, {start}
        while left:
            if any(kinds[name] in SOURCES for name in left):
                return True
            left = set().union(*(beside[name] for name in left)) - seen
            seen |= left
        return False

    return {name: [*sources, *(one for one in behind[name] if alive(one, name))] for name, sources in feeds.items()}
