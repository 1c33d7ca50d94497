"""Rack PDUs by SNMP: settings, readings, load and balance."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from capacity.model import Plan
from capacity.power.rack.circuits import pdu_thresholds_a
from capacity.power.upstream.loading import line_limit_a
from network import compare
from validation import readings
from validation.check import Limit, Outcome, check, judged, site_limit
from validation.evidence import Identity
from validation.facts import Facts

MOST_NAMED = 5
"""Outlets that a message names; the rest is in the raw answer."""


def planned_outlets(plan: Plan, pdu: str) -> pd.DataFrame:
    """The plan's rows of one PDU, by outlet number."""
    return plan.outlets[plan.outlets["pdu"] == pdu].set_index("outlet")


def label(device: str, psu: int) -> str:
    """What an outlet feeds: a power supply, or nothing (spare)."""
    return f"{device} psu{psu}" if device else "spare"


@check(
    "S084.applied",
    inputs=("frame.outlets", "frame.circuits", "site.power", "site.versions", "assets", "site.credentials"),
)
def test_outlets_are_named_and_switched_as_planned(subject: str, plan: Plan, facts: Facts) -> Outcome:
    pdu = facts.pdus[subject]
    if pdu.error:
        return Outcome(False, None, pdu.error)
    planned = planned_outlets(plan, subject)
    seen = {outlet["number"]: outlet for outlet in pdu.data["outlets"]}
    misnamed = [
        f"outlet {n} is named {seen[n]['name']!r}, planned {label(row['device'], row['psu'])!r}"
        for n, row in planned.iterrows()
        if n in seen and row["device"] and seen[n]["name"] != label(row["device"], row["psu"])
    ]
    breaker_a = float(plan.circuits.loc[plan.circuits["pdu"] == subject, "breaker_a"].iloc[0])
    wanted = pdu_thresholds_a(breaker_a, plan.site.power.derating)
    thresholds = {p["phase"]: (p["near_overload_a"], p["overload_a"]) for p in pdu.data["phases"]}
    pin, firmware = plan.site.versions.get("pdu"), pdu.data["identity"]["firmware"]
    problems = [
        *misnamed[:MOST_NAMED],
        *(
            f"phase {n} warns and alarms at {have} A, planned {wanted} A"
            for n, have in thresholds.items()
            if have != wanted
        ),
        *([f"firmware {firmware}, pinned {pin}"] if pin and firmware != pin else []),
    ]
    value = {"outlets": len(seen), "thresholds_a": list(wanted), "firmware": firmware}
    if problems:
        return Outcome(False, value, "; ".join(problems), identities=pdu.identities, raw=pdu.raw)
    findings = compare.outlets(subject, planned, pdu.data["outlets"])
    good = f"{int((planned['device'] != '').sum())} outlets named and on as planned, thresholds {wanted} A, firmware {firmware}"
    return judged(findings, value, good, identities=pdu.identities, raw=pdu.raw)


@check("S084.observed", inputs=("frame.outlets", "assets", "frame.devices"))
def test_every_outlet_reports_its_power(subject: str, plan: Plan, facts: Facts) -> Outcome:
    pdu = facts.pdus[subject]
    if pdu.error:
        return Outcome(False, None, pdu.error)
    planned = planned_outlets(plan, subject)
    seen = {outlet["number"]: outlet for outlet in pdu.data["outlets"]}
    silent = [n for n in planned.index if n not in seen or seen[n]["watts"] is None or seen[n]["amps"] is None]
    servers = set(plan.devices[plan.devices["kind"] == "server"]["name"])
    idle = [
        f"outlet {n} ({row['device']})"
        for n, row in planned.iterrows()
        if row["device"] in servers and n in seen and seen[n]["watts"] == 0
    ]
    problems = [
        *([f"no reading from outlets {silent}"] if silent else []),
        *([f"0 W at a running server: {', '.join(idle)}"] if idle else []),
    ]
    value = {str(n): seen[n]["watts"] for n in planned.index if n in seen}
    detail = "; ".join(problems) or f"{len(value)} outlets report watts and amperes"
    return Outcome(not problems, value, detail, unit="W", identities=pdu.identities, raw=pdu.raw)


def rack_pdus(plan: Plan, rack: str) -> pd.DataFrame:
    return plan.circuits[plan.circuits["rack"] == rack]


def together(facts: Mapping[str, Any], names: list[str]) -> tuple[tuple[Identity, ...], bytes]:
    """Identities and raw answers of several PDUs."""
    identities = tuple(i for name in names for i in facts[name].identities)
    return identities, b"\n".join(facts[name].raw for name in names)


@check("S086.observed", inputs=("frame.circuits", "assets"))
def test_both_pdus_of_a_rack_answer_below_half_load(subject: str, plan: Plan, facts: Facts) -> Outcome:
    rows = rack_pdus(plan, subject)
    names = rows["pdu"].tolist()
    if shelves := [name for name in names if name not in facts.pdus]:
        detail = f"{len(shelves)} power shelves feed this rack, and their controllers are not read: first {shelves[0]}"
        return Outcome(False, None, detail)
    dead = [facts.pdus[name].error for name in names if facts.pdus[name].error]
    identities, raw = together(facts.pdus, names)
    if dead:
        return Outcome(False, None, "; ".join(dead), identities=identities, raw=raw)
    limit = site_limit(plan.site, "pdu_load_pct")
    silent = [name for name in names if not facts.pdus[name].data["power_w"]]  # 0 W is what a broken meter reads
    if silent:
        detail = (
            f"no reading of the whole load from {', '.join(silent)}: look at its feed, its meter and its SNMP agent"
        )
        return Outcome(False, None, detail, unit="%", limit=limit, identities=identities, raw=raw)
    usable_w = rows.set_index("pdu")["usable_kw"] * 1000
    share = {name: readings.share_pct(facts.pdus[name].data["power_w"], usable_w[name]) for name in names}
    over = [f"{name} {pct} %" for name, pct in share.items() if pct > float(limit.value)]
    detail = f"above the limit: {', '.join(over)}" if over else f"{len(names)} PDUs answer, each below {limit}"
    return Outcome(not over, share, detail, unit="%", limit=limit, identities=identities, raw=raw)


@check("S171.observed", inputs=("frame.outlets", "frame.circuits", "site.limits", "assets", "frame.racks"))
def test_rack_power_equals_the_sum_of_its_outlets(subject: str, plan: Plan, facts: Facts) -> Outcome:
    """What the PDUs say that they take, beside the sum of their outlets and the plan's nameplate of the rack."""
    names = rack_pdus(plan, subject)["pdu"].tolist()
    if unread := [name for name in names if name not in facts.pdus]:
        return Outcome(False, None, f"{len(unread)} power shelves feed this rack, and their controllers are not read")
    dead = [facts.pdus[name].error for name in names if facts.pdus[name].error]
    identities, raw = together(facts.pdus, names)
    if dead:
        return Outcome(False, None, "; ".join(dead), identities=identities, raw=raw)
    limit = site_limit(plan.site, "energy_closure_pct")
    whole_w = [facts.pdus[name].data["power_w"] for name in names]
    outlets_w = [outlet["watts"] for name in names for outlet in facts.pdus[name].data["outlets"]]
    if None in whole_w or None in outlets_w:
        detail = "a PDU or an outlet reports no watts: look at the PDU's meter and its SNMP agent"
        return Outcome(False, None, detail, unit="W", limit=limit, identities=identities, raw=raw)
    if idle := [name for name, watts in zip(names, whole_w, strict=True) if not watts]:
        detail = f"0 W at {', '.join(idle)} is no reading: look at its feed, its meter and its SNMP agent"
        return Outcome(False, None, detail, unit="W", limit=limit, identities=identities, raw=raw)
    total, below = sum(whole_w), sum(outlets_w)
    gap = readings.apart_pct(total, below)
    rows = plan.racks[plan.racks["name"] == subject]
    nameplate_w, measured_w = (1000 * float(rows[f"{profile}_kw"].sum()) for profile in ("nameplate", "measured"))
    value = {"pdus_w": round(total, 1), "outlets_w": round(below, 1), "measured_profile_w": round(measured_w, 1)}
    value["apart_pct"] = gap
    over = total > nameplate_w * (1 + float(limit.value) / 100)
    detail = f"{total:,.0f} W at the PDUs, {below:,.0f} W in {len(outlets_w)} outlets: {gap:.2f} % apart"
    if over:
        detail += f"; more than the {nameplate_w:,.0f} W of the nameplates in this rack: something hangs here that is not planned"
    return Outcome(
        gap <= float(limit.value) and not over, value, detail, unit="W", limit=limit, identities=identities, raw=raw
    )


@check(
    "S088.observed",
    inputs=("frame.outlets", "frame.circuits", "frame.elements", "site.power", "site.limits", "assets"),
)
def test_phase_load_is_balanced(subject: str, plan: Plan, facts: Facts) -> Outcome:
    """The phases of the PDU under a representative load, its neutral, and the lines of the panel that feeds it: the sum of all
    PDUs on that panel."""
    pdu = facts.pdus[subject]
    if pdu.error:
        return Outcome(False, None, pdu.error)
    amps = {str(phase["phase"]): phase["amps"] for phase in pdu.data["phases"]}
    if not amps or any(a is None for a in amps.values()):
        return Outcome(False, amps, "not every phase reports its current", identities=pdu.identities, raw=pdu.raw)
    if fewer := readings.phases_missing(plan, subject, len(amps)):
        return Outcome(False, amps, "; ".join(fewer), identities=pdu.identities, raw=pdu.raw)
    mean = sum(amps.values()) / len(amps)
    if not mean:
        detail = "0 A on all phases is no reading: look at the PDU's feed, its meter and its SNMP agent"
        return Outcome(False, {"amps": amps}, detail, unit="A", identities=pdu.identities, raw=pdu.raw)
    spread = readings.imbalance_pct(list(amps.values()), readings.half_line_a(plan.site))
    limit = site_limit(plan.site, "phase_imbalance_pct")
    more, problems = readings.balance(
        plan, subject, list(amps.values()), float(site_limit(plan.site, "phase_load_min_pct").value)
    )
    value: dict[str, Any] = {"amps": amps, "imbalance_pct": spread, **more}
    told, board_holds = f"phases differ by {spread:.1f} %", True
    if board := _board(plan, subject):
        name, pdus, half_a = board
        lines, silent = _lines(facts, pdus)
        if silent:
            told += f"; the lines of {name} are judged at {silent}, which does not tell the current of every phase"
        else:
            own = site_limit(plan.site, "board_imbalance_pct")
            apart = readings.imbalance_pct(lines, half_a)
            value["board"] = {"name": name, "amps": lines, "imbalance_pct": apart}
            board_holds = apart <= float(own.value)
            told += f", the lines of {name} by {apart:.1f} % (limit {own.value:g} %, {own.source})"
    if more["load_pct"] is not None:
        told += f", at {more['load_pct']:g} % of the planned load"
    if more["neutral_a"] is not None:
        told += f"; {more['neutral_a']:g} A in the neutral without harmonics"
    return Outcome(
        spread <= float(limit.value) and board_holds and not problems,
        value,
        "; ".join([*problems, told]),
        unit="A",
        limit=Limit(limit.value, "%", limit.source),
        identities=pdu.identities,
        raw=pdu.raw,
    )


def _board(plan: Plan, pdu: str) -> tuple[str, list[str], float] | None:
    """(panel, rack PDUs on it, half of what a line of it carries, A); None without one, or where power shelves hang on it, whose
    current nothing reads.
    """
    circuits, elements = plan.circuits, plan.elements
    own = elements[elements["kind"] == "circuit"].set_index("name")["upstream"]
    if own.empty:
        return None
    panel = str(own[circuits.loc[circuits["pdu"] == pdu, "circuit"].iloc[0]])
    of_panel = circuits[circuits["circuit"].map(own) == panel]
    if (of_panel["circuit_of"] == "shelf_circuit").any():
        return None
    half = line_limit_a(elements[elements["name"] == panel], plan.site.power.derating) / 2
    return panel, of_panel["pdu"].tolist(), float(half.iloc[0])


def _lines(facts: Facts, pdus: list[str]) -> tuple[list[float], str]:
    """(current of each line of these PDUs together, A; '') or ([], the first PDU that does not tell all of its own)."""
    lines = [0.0, 0.0, 0.0]
    for name in pdus:
        read = facts.pdus.get(name)
        phases = [] if read is None or read.error else read.data["phases"]
        if len(phases) != len(lines) or any(phase["amps"] is None for phase in phases):
            return [], name
        for phase in phases:
            lines[int(phase["phase"]) - 1] += phase["amps"]
    return [round(amps, 3) for amps in lines], ""
