"""How a verdict is shown: a table on the terminal, JSON for machines, and one self-contained HTML page."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

from network.drivers.errors import printable
from validation import training_picture
from validation.next_steps import todo, who_and_what
from validation.register import Register, of_platform
from validation.verdict import WORST_FIRST, ItemVerdict, Status, Verdict

SCHEMA_VERSION = 1
BROKEN = "EVIDENCE BROKEN"
NOT_JUDGED = "NOT JUDGED"
SHOWN_SUBJECTS = 200
SHOWN_DEVICES = 40
SHOWN_OPEN = 15

# Symbol, style on the terminal, words. The symbol differs for every status, so that colour is never needed.
LOOK: Mapping[Status, tuple[str, str, str]] = {
    "fail": ("✗", "bold red", "failed"),
    "missing": ("○", "yellow", "missing"),
    "stale": ("↻", "yellow", "stale"),
    "out_of_order": ("⇅", "yellow", "out of order"),
    "unproven": ("?", "magenta", "unproven"),
    "simulated": ("~", "magenta", "simulated"),
    "assumed": ("≈", "magenta", "assumed"),
    "partial": ("◐", "magenta", "passed in part"),
    "waived": ("!", "cyan", "waived"),
    "external": ("◇", "cyan", "by external report"),
    "pass": ("✓", "green", "passed"),
    "not_applicable": ("–", "dim", "not applicable"),
    "not_exercised": ("·", "dim", "not exercised"),
}
OPEN_FIRST: tuple[Status, ...] = tuple(
    status for status in WORST_FIRST if status not in ("pass", "not_applicable", "not_exercised")
)
SHOWN_REASONS = 12
SHOWN_TODO = 6
"""Items named after each line of work. An id has 13 characters, so six fill one line of a terminal; JSON and page have them all."""


def print_verdict(verdict: Verdict, register: Register, console: Console, *, page: Path | None = None) -> None:
    """The verdict as a concise table: one row per dependency group, then what is open, then the headline."""
    headline = _headline(verdict)
    console.rule(headline, style=_word_style(verdict))
    console.print(_groups_table(verdict, register))
    _print_open(verdict, console)
    if verdict.rehearsal:
        _print_not_exercised(verdict, console)
    for notice in verdict.notices:
        console.print(f"note: {printable(notice)}", style="yellow", markup=False, highlight=False)
    for reason in verdict.reasons[:SHOWN_REASONS]:
        console.print(f"  - {printable(reason)}", markup=False, highlight=False)
    for one in todo(verdict, register):
        line = f"{one.who}: {one.what} ({_few(one.items)})"
        console.print(f"  > {line}", markup=False, highlight=False)
    if (lacking := missing(verdict))["no_check"]:
        split = f"missing: {len(lacking['no_check'])} have no check yet, {len(lacking['evidence'])} lack only their evidence"
        console.print(f"{split} (the page lists both)", markup=False, highlight=False)
    if verdict.platform:
        lacking = missing(verdict, platform=True)
        apart = f" ({len(lacking['no_check'])} of the missing have no check yet)" if lacking["no_check"] else ""
        line = f"Kubernetes platform, {sum(verdict.platform.values())} items apart: {said(verdict.platform)}{apart}"
        console.print(line, style=_word_style(verdict), markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{headline}: {said(verdict.counts)}", style=_word_style(verdict), markup=False, highlight=False, soft_wrap=True
    )
    if page is not None:
        console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def said(counts: Mapping[Status, int]) -> str:
    """Counts in words, the worst first."""
    return ", ".join(f"{counts[s]} {LOOK[s][2]}" for s in WORST_FIRST if s in counts)


def _few(items: Sequence[str]) -> str:
    """The first of many items, and how many there are."""
    shown, more = ", ".join(items[:SHOWN_TODO]), len(items) - SHOWN_TODO
    return f"{shown} and {more} more" if more > 0 else shown


def _headline(verdict: Verdict) -> str:
    on = f" on {verdict.mode} evidence" if verdict.mode else ""
    return f"{verdict.word}{on if verdict.rehearsal else ''} ({verdict.site})"


def _word_style(verdict: Verdict) -> str:
    if verdict.exit_code:
        return "bold red"
    return "bold magenta" if verdict.word == "REHEARSAL UNPROVEN" else "bold green"


def _groups_table(verdict: Verdict, register: Register) -> Table:
    columns = [status for status in WORST_FIRST if status in verdict.counts or status in verdict.platform]
    legend = "   ".join(f"{LOOK[status][0]} {LOOK[status][2]}" for status in columns)
    table = Table(box=None, pad_edge=False, header_style="bold", caption=legend, caption_justify="left")
    table.add_column("group", no_wrap=True)
    for status in columns:
        table.add_column(LOOK[status][0], justify="right", style=LOOK[status][1])
    table.add_column("")
    rows = [
        (f"{group.id} {group.name}", [i for i in verdict.items if i.group == group.id and not of_platform(i.item)])
        for group in register.groups.values()
    ]
    if verdict.platform:
        rows.append(("Kubernetes platform (P-)", [item for item in verdict.items if of_platform(item.item)]))
    for name, items in rows:
        counts = [sum(item.status == status for item in items) for status in columns]
        premature = any(item.premature for item in items)
        table.add_row(name, *(str(n) if n else "" for n in counts), "premature" if premature else "")
    return table


def _print_open(verdict: Verdict, console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    rows = 0
    for status in OPEN_FIRST:
        found = [item for item in verdict.items if item.status == status]
        if status in ("missing", "simulated") and not verdict.rehearsal and len(found) > SHOWN_REASONS:
            continue  # a site that is not there yet has hundreds; the page lists them
        for item in found:
            symbol, style, words = LOOK[status]
            table.add_row(Text(f"{symbol} {words}", style=style), item.item, Text(printable(item.detail)))
            rows += 1
    if rows:
        console.print(table)


def _print_not_exercised(verdict: Verdict, console: Console) -> None:
    console.print(f"not exercised by the lab ({sum(map(len, not_exercised(verdict).values()))} items):", style="bold")
    for reason, items in not_exercised(verdict).items():
        console.print(f"  · {reason}: {' '.join(items)}", style="dim", markup=False, highlight=False)


def not_exercised(verdict: Verdict) -> dict[str, list[str]]:
    """Item ids by the reason why the lab cannot exercise them, most frequent reason first."""
    reasons: dict[str, list[str]] = {}
    for item in verdict.items:
        if item.status == "not_exercised":
            reasons.setdefault(item.detail, []).append(item.item)
    return dict(sorted(reasons.items(), key=lambda pair: -len(pair[1])))


def as_json(verdict: Verdict, register: Register) -> dict[str, Any]:
    """The verdict as plain data. A rehearsal says so in ``verdict`` and in ``rehearsal``."""
    return {
        "schema_version": SCHEMA_VERSION,
        "site": verdict.site,
        "rehearsal": verdict.rehearsal,
        "verdict": verdict.word,
        "go_live": verdict.word == "GO-LIVE",
        "exit_code": verdict.exit_code,
        "mode": verdict.mode,
        "plan_hash": verdict.plan_hash,
        "judged": verdict.judged.isoformat(),
        "counts": dict(verdict.counts),
        **({"platform": _platform_json(verdict)} if verdict.platform else {}),
        "reasons": list(verdict.reasons),
        "notices": list(verdict.notices),
        "errors": [finding.as_dict() for finding in verdict.errors],
        "items": [_item_json(item) for item in verdict.items],
        "not_exercised": not_exercised(verdict),
        "missing": missing(verdict),
        "todo": [{"who": one.who, "what": one.what, "items": list(one.items)} for one in todo(verdict, register)],
        "fewer_channels": [
            {"devices": list(names), "because": one.because, "proof": one.proof, "items": list(one.items)}
            for one, names in verdict.fewer_channels
        ],
    }


def _platform_json(verdict: Verdict) -> dict[str, Any]:
    """The platform's items, counted apart; each of them stands in ``items`` too."""
    names = [item.item for item in verdict.items if of_platform(item.item)]
    return {"counts": dict(verdict.platform), "items": names, "missing": missing(verdict, platform=True)}


def missing(verdict: Verdict, *, platform: bool = False) -> dict[str, list[str]]:
    """Ids of the missing items: those that no check can prove yet, and those that lack only their evidence.

    ``platform``: of the platform's items, which are counted apart.
    """
    found = [i.item for i in verdict.items if i.status == "missing" and of_platform(i.item) == platform]
    without = set(verdict.no_check)
    return {"no_check": [i for i in found if i in without], "evidence": [i for i in found if i not in without]}


def _item_json(item: ItemVerdict) -> dict[str, Any]:
    return {
        "id": item.item,
        "status": item.status,
        "detail": item.detail,
        "mode": item.mode,
        "premature": item.premature,
        "subjects": [
            {
                "subject": s.subject,
                "status": s.status,
                "detail": s.detail,
                "mode": s.mode,
                "ended": s.ended.isoformat() if s.ended else None,
            }
            for s in item.subjects
        ],
    }


def broken_json(site: str, broken: Sequence[str], judged: datetime, word: str = BROKEN) -> dict[str, Any]:
    """What is printed and written instead of a verdict when the evidence cannot be trusted, or is not judged yet."""
    return {
        "schema_version": SCHEMA_VERSION,
        "site": site,
        "verdict": word,
        "go_live": False,
        "exit_code": 2,
        "judged": judged.isoformat(),
        "broken": list(broken),
    }


def render_page(verdict: Verdict, register: Register, story: Mapping[str, Any] | None = None) -> str:
    """The HTML page of a verdict; with pictures of the training run that lost a node, where there is its `story`."""
    steps = [(step, [item for item in verdict.items if item.step == step.id]) for step in register.steps.values()]
    phases: dict[str, list[Any]] = {}
    for step, items in steps:
        phases.setdefault(step.phase, []).append((step, items))
    return _template().render(
        verdict=verdict,
        headline=_headline(verdict),
        tone="bad" if verdict.exit_code else "odd" if verdict.word == "REHEARSAL UNPROVEN" else "good",
        phases={register.phases[phase]: steps for phase, steps in phases.items()},
        open_items=[item for status in OPEN_FIRST for item in verdict.items if item.status == status],
        groups=register.groups,
        look=LOOK,
        order=[status for status in WORST_FIRST if status in verdict.counts or status in verdict.platform],
        platform_missing=missing(verdict, platform=True),
        not_exercised=not_exercised(verdict),
        missing=lacking if (lacking := missing(verdict))["no_check"] else None,
        todo=todo(verdict, register),
        who={item.item: acts[0] for item in verdict.items if (acts := who_and_what(item, register, verdict))},
        shown_todo=SHOWN_TODO,
        shown_subjects=SHOWN_SUBJECTS,
        shown_devices=SHOWN_DEVICES,
        shown_open=SHOWN_OPEN,
        broken=(),
        story=_story(story) if story else None,
    )


def _story(story: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the page shows of a training run: its pictures (markup that is already escaped), legend, timeline, numbers."""
    return {
        **story,
        "by_time": Markup(training_picture.by_time(story)),
        "by_step": Markup(training_picture.by_step(story)),
        "flags": training_picture.flags(story),
        "kinds": training_picture.LANES,
    }


def render_broken_page(site: str, broken: Sequence[str], judged: datetime, word: str = BROKEN) -> str:
    """The HTML page that replaces an earlier one when the evidence cannot be trusted, or is not judged yet."""
    return _template().render(verdict=None, site=site, judged=judged, broken=broken, tone="bad", word=word)


@cache
def _template() -> jinja2.Template:
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("gate.html.j2")
