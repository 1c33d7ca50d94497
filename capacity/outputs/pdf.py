"""Sheets to print, as PDF: drawings, rack elevations, a sheet for each panel and one for each isolation point.

    prints(plan) -> {"lockout-sheets.pdf": bytes, …}      pure but for fonts; equal plans give equal bytes on a machine

Typst sets them (one wheel, no browser). The texts are those of capacity.outputs.documents.installation;
only their layout is here. Slow next to
a plan, some milliseconds a page: `bringup render` makes them, `bringup plan` does not.
"""

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from capacity.model import Plan
from capacity.outputs.documents import power as electrical
from capacity.outputs.report import drawings, sheets
from capacity.outputs.tables import Table, cell

TEMPLATE = Path(drawings.__file__).with_name("sheets.typ")
TOTALLED = ("l1_a", "l2_a", "l3_a", "load_kw")
"""Columns of a panel schedule with a sum below them (S083: phase totals)."""
TO_FILL = "done by, time"
LONG = 40
"""Characters from which a column is the one that wraps."""


def prints(plan: Plan) -> dict[str, bytes]:
    """All PDF files by name; those that the site has nothing for are left out."""
    large, racks = (
        [_sheet(drawn.title, picture=drawn.svg, flipped=_is_wide(drawn.svg)) for drawn in draw(plan, block=False)]
        for draw in (functools.partial(drawings.drawings, printed=True), drawings.elevations)
    )
    found = {"drawings.pdf": _pdf(plan, "Drawings", large, "a3")}
    if racks:
        found["rack-elevations.pdf"] = _pdf(plan, "Rack elevations", racks)
    if len(plan.elements):
        panels = _each(electrical.panel_schedule(plan), "panel", "Panel", TOTALLED, flipped=True)
        found["panel-schedules.pdf"] = _pdf(plan, "Panel schedules", panels)
        locks = _each(
            electrical.lockout_sheets(plan).assign(**{TO_FILL: ""}), "isolation_point", "Lockout", signed=True
        )
        found["lockout-sheets.pdf"] = _pdf(plan, "Lockout sheets", locks)
    return found


def _sheet(name: str, **given: Any) -> dict[str, Any]:
    blank: dict[str, Any] = {name: [] for name in ("head", "columns", "widths", "numeric", "rows", "totals")}
    blank |= {"picture": None, "signed": False, "flipped": False}
    return {"name": name, **blank, **given}


def _is_wide(picture: str) -> bool:
    width, height = sheets.size_px(picture)
    return width > height


def _each(
    table: pd.DataFrame, key: str, what: str, totalled: Iterable[str] = (), **layout: bool
) -> list[dict[str, Any]]:
    """A sheet for each value of column `key`: columns that are the same in all of its rows stand above the table."""
    heads = {str(n): head for n, head in zip(table.columns, Table(table).heads, strict=True) if n != key}
    names = list(heads)
    values = {name: table[name].tolist() for name in names}
    texts = {name: [cell(value, None) for value in values[name]] for name in names}
    long = {name for name in names if max((len(text) for text in texts[name]), default=0) >= LONG}
    summed = set(totalled)
    made = []
    for value, rows in table.groupby(key, sort=False).indices.items():
        same = {name for name in names if name not in long | summed and len({texts[name][row] for row in rows}) == 1}
        same = {name for name in same if texts[name][rows[0]]}
        shown = [name for name in names if name not in same]
        sums = [cell(sum(values[name][row] for row in rows), None) if name in summed else "" for name in shown]
        made.append(
            _sheet(
                f"{what} {value}",
                head=[[heads[name].label, texts[name][rows[0]]] for name in names if name in same],
                columns=[heads[name].label for name in shown],
                widths=["rest" if name in long else "auto" for name in shown],
                numeric=[heads[name].numeric for name in shown],
                rows=[[texts[name][row] for name in shown] for row in rows],
                totals=[sums[0] or "Together", *sums[1:]] if summed else [],
                **layout,
            )
        )
    return made


def _pdf(plan: Plan, title: str, pages: list[dict[str, Any]], paper: str = "a4") -> bytes:
    import typst  # 80 MB of shared library: only where something is printed

    data = {
        "title": title,
        "stamp": sheets.stamp(plan),
        "plan": plan.hash,
        "paper": paper,
        "sheets": pages,
    }
    # Without tags for screen readers: they make a thousand sheets ten times as slow and five times as large.
    made = typst.compile(
        str(TEMPLATE), format="pdf", sys_inputs={"data": json.dumps(data)}, timestamp=0, pdf_tags=False
    )
    if not isinstance(made, bytes):
        raise TypeError(f"typst gave {type(made).__name__} for {title}")
    return made
