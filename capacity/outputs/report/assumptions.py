"""The section "Assumptions" of the report: every value that nobody has confirmed, and what the ones with a range do.

In: the Plan, and the keys of a sensitivity study as `capacity.whatif.sensitivity.Sensitivity.by_key` gives them, where one was
made. Out: HTML.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from capacity.model import Plan
from capacity.outputs.report import svg
from capacity.outputs.tables import Table
from inventory.site.explain import assumptions
from inventory.site.references import Span

MEASURES = (
    ("facility_kw", "Facility power, kW"),
    ("racks", "Racks"),
    ("cost", "Cost"),
    ("go_live_days", "Go-live at P90, days"),
)
SHOWN = 10
WIDTH, ROW, BAR, VALUE_PX = 360, 34, 12, 88
"""Pixels. As wide as the screen of a phone: drawings next to each other on a desk, below each other there."""

Row = Mapping[str, Any]


def section(plan: Plan, templates: Environment, effects: Sequence[Row] = ()) -> Markup:
    """The section as HTML; `effects` are the keys of a study, the one that matters most first."""
    site = plan.site
    spans = site.effective.spans
    rows = [
        (key, _shown(value), origin.design, origin.source, _span(spans.get(key)))
        for key, value, origin in assumptions(site)
    ]
    currency = site.purchase.currency
    drawings = [
        Markup(drawn)
        for name, title in MEASURES
        if (drawn := tornado(effects, name, f"{title}, {currency}" if name == "cost" else title))
    ]
    return Markup(
        templates.get_template("assumptions.html.j2").render(
            site=site.name,
            count=len(rows),
            with_range=sum(1 for row in rows if row[-1] != "–"),
            table=Table.of(rows, "Key", "Value", "Reference design", "Source", "Plausible"),
            drawings=drawings,
            studied=bool(effects),
            refused=[end for row in effects for end in (row["low"], row["high"]) if end["refused"]],
        )
    )


def tornado(effects: Sequence[Row], measure: str, title: str) -> str:
    """Bars from the plan as it is to what each end of a range makes of a measure, the longest first; '' where none moves it."""
    change = f"{measure}_change"
    reach = {row["key"]: max(abs(_number(row[end][change])) for end in ("low", "high")) for row in effects}
    shown = sorted((row for row in effects if reach[row["key"]] > 0), key=lambda row: -reach[row["key"]])[:SHOWN]
    if not shown:
        return ""
    middle, scale = WIDTH / 2, (WIDTH / 2 - VALUE_PX) / reach[shown[0]["key"]]
    height = 24 + ROW * len(shown)
    zero = svg.element("path", d=svg.segments([(middle, 24, middle, height)]), cls="gantt-grid")
    body = [zero, svg.text(0, 13, title, cls="tier")]
    for n, row in enumerate(shown):
        top = 24 + ROW * n
        given = ", given" if row["origin"] == "given" else ""
        body.append(svg.text(0, top + 11, f"{row['key']} = {row['value']:g}{given}"))
        at_left: dict[bool, float] = {}
        for end in ("low", "high"):
            moved = _number(row[end][change])
            if not moved:
                continue
            length = max(abs(moved) * scale, 1)
            x = middle if moved > 0 else middle - length
            bar = svg.element(
                "rect",
                svg.title(f"{row['key']} at {row[end]['at']:g}: {moved:+,.1f}"),
                x=x,
                y=top + 16,
                width=length,
                height=BAR,
                cls=f"tornado-{end}",
            )
            body.append(bar)
            side = moved > 0
            if length <= at_left.get(side, 0.0):
                continue
            at_left[side] = length
            where = {"x": x + length + 3} if side else {"x": x - 3}
            label = f"{row[end]['at']:g}: {_brief(moved)}"
            body.append(svg.text(where["x"], top + 26, label, cls=None if side else "tornado-left"))
    return svg.picture(WIDTH, height, f"{title}: what each assumption changes", body, "tornado")


def _number(value: Any) -> float:
    """A change; 0 where the site file refuses the end."""
    return 0.0 if value is None or value != value else float(value)


def _brief(value: float) -> str:
    """A change in a few characters: +1.2 M, -340 k, +12."""
    for size, letter in ((1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            return f"{value / (1e6 if letter == ' M' else 1e3):+.3g}{letter}"
    return f"{value:+.3g}" if abs(value) < 1000 else f"{value:+,.0f}"


def _span(span: Span | None) -> str:
    return f"{span.low:g} to {span.high:g}: {span.source}" if span else "–"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(inner)}" for key, inner in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.10g}" if isinstance(value, float) else str(value)
