"""What `bringup explain` shows in a terminal. It imports nothing of the planner, which takes longer than the answer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inventory.site.effective import Origin
from inventory.site.explain import Told
from inventory.site.typical_halls import DAYS, Typical


def table(title: str, *columns: str, rows: Iterable[Iterable[object]]) -> Table:
    """A table whose columns are text on the left and, from the first column named with a leading '#', numbers. Cells are shown
    as they are: a list in brackets is no markup.
    """
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(
            column.removeprefix("#"), justify="right" if column.startswith("#") else "left", overflow="fold"
        )
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))
    return made


def show_explained(console: Console, told: Told) -> None:
    """One key, or a section: values with their origin, then what the key means and decides."""
    rows = [
        (
            key,
            plain(value),
            told.origins[key].kind + (f" {told.origins[key].design}" if told.origins[key].design else ""),
            told.origins[key].source,
        )
        for key, value in told.values.items()
    ]
    console.print(table(told.key, "key", "value", "origin", "source", rows=rows))
    if told.meaning:
        console.print(f"\n{told.meaning}", markup=False)
    if told.span:
        console.print(f"Plausible: {told.span.low:g} to {told.span.high:g} ({told.span.source}).", markup=False)
    if not told.confirmed:
        console.print(
            f"Not confirmed for this site: write the value in the site file, or add {told.key} to confirmed.",
            style="yellow",
            markup=False,
        )
    if told.read_by:
        console.print(f"Read by: {', '.join(told.read_by)}", markup=False)
    if told.decides:
        console.print(f"Decides {told.decides}.", markup=False)
    for one in told.halls:
        console.print(_in_hall(one), markup=False, highlight=False)
    if told.findings:
        console.print(table("\nDecides", "finding", "about", rows=told.findings.items()))
    if told.steps:
        console.print(f"Steps and known errors: {', '.join(told.steps)}", markup=False)
    console.print(f"What another value does: bringup explain SITE {told.key} --to VALUE", markup=False)


MEASURED = {"facility_kw": "facility power", "racks": "the racks", "cost": "the cost", "go_live_days": "go-live"}


def _in_hall(one: Typical) -> str:
    """What a key changes in a typical hall, on one line."""
    low, value, high = (f"{number:.10g}" for number in (one.low, one.value, one.high))
    head = f"In a typical hall ({one.named}), {one.key} at {low} to {high} in place of {value}"
    moves = [f"{name} by {_ends(measure, one)}" for measure, name in MEASURED.items() if one.most(measure)]
    return f"{head} moves {', '.join(moves)}." if moves else f"{head} moves neither power, racks, cost nor go-live."


def _ends(measure: str, one: Typical) -> str:
    """'-3.1 % to +2.9 %': the change at the low and at the high end."""
    unit, size = (" days", 1) if measure == DAYS else (" %", 100)
    return " to ".join(
        "refused" if change is None else f"{change * size:+.3g}{unit}" for change in one.changes[measure]
    )


SHORT, SHORT_SOURCE = 60, 200
"""Characters of a value and of its source in the list of all assumptions; `explain SITE KEY` shows them whole."""


def show_assumptions(console: Console, assumed: Sequence[tuple[str, Any, Origin]], sizes: Sequence[str]) -> None:
    """Values that come from reference designs and that nobody has confirmed, and the keys of such sizes."""
    rows = [
        (key, _short(plain(value)), origin.design, _short(origin.source, SHORT_SOURCE))
        for key, value, origin in assumed
    ]
    title = f"{len(rows)} values rest on reference designs and are not confirmed for this site"
    console.print(table(title, "key", "value", "design", "source", rows=rows))
    if sizes:
        sections = dict.fromkeys(key.partition(".")[0] for key in sizes)
        lines = [", ".join(key for key in sizes if key.partition(".")[0] == section) for section in sections]
        head = f"\n{len(sizes)} sizes are worked out, and settled by bringup accept or by the site file:"
        console.print("\n  ".join([head, *lines]), markup=False, highlight=False)


def _short(text: str, most: int = SHORT) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def plain(value: Any) -> str:
    """A value as the site file writes it, on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {plain(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(plain(inner) for inner in value) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "not given"}[value]
    return f"{value:.10g}" if isinstance(value, float) else str(value)
