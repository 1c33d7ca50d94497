"""What `bringup` shows in a terminal: short tables; the whole stands in the files that each screen names."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from capacity.accepted import Standing, changes
from capacity.model import Plan
from capacity.outputs.summary import interruption_figures
from capacity.procurement.bom import total_of
from capacity.remedies import Fixed
from capacity.whatif.compare import Comparison, number
from capacity.whatif.maximise import Most
from capacity.whatif.optimise import Result
from capacity.whatif.sensitivity import Sensitivity
from infra.values_shown import plain, table
from inventory.findings import Finding, without_untried
from inventory.site.references import at

STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
FINDINGS_SHOWN = 20
SENSITIVITY_SHOWN = 10


def device_rows(devices: pd.DataFrame) -> list[list[object]]:
    """[kind, tier or role, model, count], in the plan's order."""
    where = devices["fabric"].str.cat(devices["role"], sep=" ").str.strip()
    keys = ["kind", "where", "model"]
    return devices.assign(where=where).groupby(keys, sort=False).size().reset_index().to_numpy().tolist()


def cable_rows(cables: pd.DataFrame) -> list[list[object]]:
    """[fabric, stage, medium, count, total metres]."""
    grouped = cables.groupby(["fabric", "stage", "medium"], sort=False)["length_m"].agg(["size", "sum"]).round()
    return grouped.astype({"sum": int}).reset_index().to_numpy().tolist()


def power_rows(plan: Plan) -> list[tuple[str, str, str, str]]:
    """(level, seed, measured, nameplate) in kW: the racks together, the heaviest rack, one row per feed."""
    profiles = ["seed_kw", "measured_kw", "nameplate_kw"]
    rows = [("all racks", *plan.racks[profiles].sum()), ("heaviest rack", *plan.racks[profiles].max())]
    rows += [
        (f"feed {feed.feed}", feed.seed_kw, feed.measured_kw, feed.nameplate_kw) for feed in plan.feeds.itertuples()
    ]
    return [(name, *(f"{value:,.1f}" for value in values)) for name, *values in rows]


def finding_line(finding: Finding) -> Text:
    """One line: severity, id, subject, message."""
    label = Text(f"{finding.severity:<8}", style=STYLES[finding.severity])
    known = f" ({finding.err})" if finding.err else ""
    label.append(f"{finding.id}{known} {finding.subject}: ", style="bold")
    return label.append(finding.message, style="default")


def show_findings(console: Console, findings: Iterable[Finding], all_of_them: str = "in the report") -> None:
    """All error findings, and of the others as many as fit a screen; `all_of_them` says where the rest stands."""
    shown = list(findings)
    errors = sum(finding.severity == "error" for finding in shown)
    console.print(f"[bold]Findings[/bold]: {len(shown)}, of these {errors} error(s)", highlight=False)
    visible = shown[: max(FINDINGS_SHOWN, errors)]
    for finding in visible:
        console.print(finding_line(finding), soft_wrap=True)
    if len(visible) < len(shown):
        console.print(f"  and {len(shown) - len(visible)} more {all_of_them}", highlight=False)


def show_plan(console: Console, plan: Plan, report: Path) -> None:
    """The plan on one screen: devices per tier, cables per stage, power per level, findings, where the report is."""
    console.print(table("Devices", "kind", "tier", "model", "#count", rows=device_rows(plan.devices)))
    console.print()
    cables = cable_rows(plan.cables)
    console.print(table("Cables", "fabric", "stage", "medium", "#count", "#metres", rows=cables))
    console.print()
    power = power_rows(plan)
    console.print(table("Power, kW", "level", "#seed", "#measured", "#nameplate", rows=power))
    console.print()
    show_findings(console, plan.findings)
    console.print(f"Cost: {total_of(plan.bom, plan.site.purchase.currency)}", markup=False, highlight=False)
    console.print(_interruptions(plan), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Plan {plan.hash[:16]} of site {plan.site.name}, report: {report}", highlight=False, soft_wrap=True)


def _interruptions(plan: Plan) -> str:
    """How often a job on all GPUs is interrupted, and the checkpoint interval that loses least, each with its range."""
    known = interruption_figures(plan)
    hours = [_three_digits(value) for value in (known["mtti_h"], *known["mtti_h_range"])]
    minutes = known["checkpoint_interval_min"], *known["checkpoint_interval_min_range"]
    each = [_three_digits(value) for value in minutes]
    return (
        f"Interruptions of a job on all GPUs: one in {hours[0]} h ({hours[1]} to {hours[2]}); a checkpoint each {each[0]} min "
        f"({each[1]} to {each[2]}) loses least"
    )


def _three_digits(value: float) -> str:
    """Three digits that count, and never an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


LAB_COLUMNS = ("role", "address", "power", "ready", "supplies", "#watts", "#boots")


def show_lab(console: Console, devices: Mapping[str, Mapping[str, Any]]) -> None:
    """State of each device of a lab: power, whether it answers, which power supplies have input, watts, boots."""
    keys = [column.removeprefix("#") for column in LAB_COLUMNS]
    rows = [[device, *(shown(state.get(key, "")) for key in keys)] for device, state in devices.items()]
    console.print(table("Lab", "device", *LAB_COLUMNS, rows=rows))


def show_faults(console: Console, faults: Mapping[str, Any]) -> None:
    """What `bringup lab fault` can break, with the targets that it takes."""
    rows = [
        [name, fault.usage, "configured" if fault.needs_software else "any", fault.text]
        for name, fault in faults.items()
    ]
    console.print(table("Faults", "name", "targets", "lab", "what happens", rows=rows))


def shown(value: object) -> str:
    """A value for a table cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(shown, value)) if isinstance(value, list | tuple) else str(value)


def show_comparison(console: Console, made: Comparison, page: Path) -> None:
    """Figures and lines of the bill that differ, order dates that move, findings that only one of two plans has."""
    console.print(Text(f"A  {made.name_a}\nB  {made.name_b}\n", style="bold"))
    rows = [
        (row["section"], f"{row['what']} {row['unit']}".strip(), *(figure(row[end]) for end in "ab"), row["change"])
        for row in made.differing.to_dict("records")
    ]
    if rows:
        console.print(table("What differs", "", "", "#A", "#B", "#change", rows=rows))
    elif made.equal:
        console.print("The plans do not differ.")
    else:
        console.print("No figure differs.")
    counted = {"lines of the bill of materials": len(made.bom), "dates of activities": len(made.dates)}
    if moved := [f"{what} ({count})" for what, count in counted.items() if count]:
        console.print(f"On the page: {', '.join(moved)} that differ.")
    if len(made.orders):
        console.print(table("\nLatest safe orders", "item", "A", "B", "#change", rows=made.orders.to_numpy().tolist()))
    for end, found in (("A", made.only_a), ("B", made.only_b)):
        if found:
            console.print(Text(f"\nOnly in {end}", style="bold"))
            for finding in found[:FINDINGS_SHOWN]:
                console.print(finding_line(finding), soft_wrap=True)
    console.print(f"\nPage with the bill of materials line by line: {page}", markup=False, highlight=False)


def show_options(console: Console, result: Result) -> None:
    """Ranked options and what rules out the others."""
    short = _short(result.axes)
    heads = (*short, "#cost", "#unpriced", "#facility kW", "#PUE", "#racks", "#go-live P90", "#GPUs", "#warn", "#best")
    shown = result.ranked.head(FINDINGS_SHOWN)
    rows = [
        (
            *(row[axis] for axis in result.axes),
            figure(row["cost"]) if row["cost"] or not row["unpriced"] else "no prices",
            row["unpriced"],
            figure(row["facility_kw"]),
            figure(row["pue"]),
            row["racks"],
            row["go_live_p90"],
            row["gpus"],
            row["warnings"],
            "yes" if row["pareto"] else "",
        )
        for row in shown.to_dict("records")
    ]
    console.print(table(f"{len(result.ranked)} options can be built", *heads, rows=rows))
    if len(result.ranked):
        console.print("best: no other option beats it in cost, power, racks and date together.")
    if len(result.ranked) and int(result.ranked["unpriced"].max()):
        console.print("Costs are without the unpriced lines: see purchase.prices.", style="yellow")
    if len(result.ruled_out):
        console.print(f"\n{len(result.ruled_out)} ruled out", style="bold")
    for *values, by, why in result.ruled_out.head(FINDINGS_SHOWN).to_numpy().tolist():
        chosen = " ".join(f"{name}={value}" for name, value in zip(short, values, strict=True))
        console.print(Text(f"{chosen}  ", style="bold").append(f"{by}: {why}", style="default"), soft_wrap=True)
    if len(result.ruled_out) > FINDINGS_SHOWN:
        console.print(f"  and {len(result.ruled_out) - FINDINGS_SHOWN} more: --json lists all")


def show_most(console: Console, found: Sequence[Most]) -> None:
    """How many servers fit, per combination of settings, and what one step more lacks."""
    rows = [
        (
            " ".join(one.settings),
            one.servers,
            one.gpus,
            figure(one.answers.get("facility_kw", "")),
            one.answers.get("total", ""),
            " ".join(one.freed),
            one.limited_by,
        )
        for one in found
    ]
    heads = ("settings", "#servers", "#GPUs", "#facility kW", "cost", "follows", "one more lacks")
    console.print(table("Servers that fit", *heads, rows=rows))
    for one in found:
        if one.why:
            console.print(Text(f"{one.limited_by} ", style="bold").append(one.why, style="default"), soft_wrap=True)


def _short(keys: Sequence[str]) -> list[str]:
    """Each dotted key by as many of its last parts as tell it from the others."""
    made = []
    for key in keys:
        parts = key.split(".")
        ends = (".".join(parts[-n:]) for n in range(1, len(parts) + 1))
        made.append(next(end for end in ends if sum(k == end or k.endswith(f".{end}") for k in keys) == 1))
    return made


def figure(value: object) -> str:
    """A number with thousands separators, text as it is."""
    return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def show_sensitivity(console: Console, found: Sensitivity) -> None:
    """The ten assumptions that matter most: what both ends of their range change."""
    rows = [
        (
            row["key"] + (" (given)" if row["origin"] == "given" else ""),
            f"{row['value']:g}",
            f"{row['low']['at']:g}..{row['high']['at']:g}",
            *(_ends(row, measure) for measure in ("facility_kw", "racks", "cost", "go_live_days", "errors")),
        )
        for row in found.by_key()[:SENSITIVITY_SHOWN]
    ]
    heads = "key", "#value", "#low..high", "#facility kW", "#racks", "#cost", "#go-live P90, days", "#errors"
    console.print(table("\nWhat matters most: change at the low and at the high end", *heads, rows=rows))
    if refused := [row for row in found.frame.to_dict("records") if row["refused"]]:
        console.print(f"{len(refused)} ends are refused by the site file: see sensitivity.csv.", markup=False)


def _ends(row: Mapping[str, Any], measure: str) -> str:
    """'-30 / +29': the change at the low and at the high end."""
    changes = [row[end][f"{measure}_change"] for end in ("low", "high")]
    if not any(change == change and change for change in changes):
        return "–" if all(change == change for change in changes) else "refused"
    return " / ".join("refused" if change != change else number(round(change, 1), "+") for change in changes)


def show_what_matters(console: Console, plan: Plan, assumed: Mapping[str, Any], site: str) -> None:
    """The assumptions that matter most, a line each, and where the others stand; nothing where there are none."""
    if not assumed["count"]:
        return
    most, count = assumed["most_important"], assumed["count"]
    console.print(f"\n[bold]Assumed[/bold]: {count:,} values that nobody has confirmed for this site", highlight=False)
    for one in most:
        value, low, high = (f"{one[name]:.10g}" for name in ("value", "low", "high"))
        line = f"  {one['key']} = {value}, plausible {low} to {high}: "
        line += _moves(one["moves"], plan.site.purchase.currency) if one["seen_in"] else "no study has it"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if halls := dict.fromkeys(one["seen_in"] for one in most if one["seen_in"] and not assumed["studied"]):
        console.print(f"  as in a hall of {', or of '.join(halls)}", markup=False, highlight=False, soft_wrap=True)
    rest = f"  and {count - len(most):,} more: bringup explain {site}"
    more = "" if assumed["studied"] else f"; what they change here: bringup plan {site} --sensitivity"
    console.print(rest + more, markup=False, highlight=False, soft_wrap=True)


def _moves(moves: Mapping[str, float], currency: str) -> str:
    """What an assumption may change, in words: "moves facility power by up to 31.2 kW, cost by up to 1.2 M USD"."""
    words = {
        "facility_kw": lambda change: f"facility power by up to {change:,.1f} kW",
        "racks": lambda change: f"racks by up to {change:,.0f}",
        "cost": lambda change: f"cost by up to {_money(change)} {currency}",
        "go_live_days": lambda change: f"go-live by up to {change:,.0f} days",
    }
    said = [words[name](change) for name, change in moves.items()]
    return f"moves {', '.join(said)}" if said else "moves neither power, racks, cost nor go-live"


def _money(amount: float) -> str:
    return f"{amount / 1e6:,.2f} M" if amount >= 1e6 else f"{amount / 1e3:,.0f} k"


def show_fixes(console: Console, plan: Plan, found: Fixed) -> None:
    """The changes that mend a plan, and the errors that no change of the site file mends."""
    before = plan.site.effective.value
    rows = [
        (
            key,
            plain(at(before, tuple(key.split(".")))),
            plain(value),
            f"{found.because[key].id} {found.because[key].subject}",
        )
        for key, value in found.settings.items()
    ]
    console.print(table("Changes of the site file", "key", "now", "becomes", "mends", rows=rows))
    left = [one for one in found.plan.findings if one.severity == "error"]
    errors = sum(one.severity == "error" for one in plan.findings)
    console.print(f"\nErrors: {errors} as the file is, {len(left)} with these changes.", markup=False)
    for one in map(without_untried, left):
        console.print(f"error   {one.id} {one.subject}: {one.message}", markup=False)


def show_growth(console: Console, standing: Standing, plan: Plan) -> None:
    """What the plan changes of the accepted state, a line."""
    counts = [f"{len(names):,} {kind}" for kind, names in changes(standing, plan.frames()).items() if names]
    said = ", ".join(counts) or "nothing is added, and nothing changes"
    console.print(
        f"Against the accepted state {standing.digest[:16]}: {said}.", markup=False, highlight=False, soft_wrap=True
    )
