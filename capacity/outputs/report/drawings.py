"""The drawings as files: one-line diagram, floor plan, cooling schematic, Gantt chart, an elevation of every kind of rack.

drawings(plan), elevations(plan) -> [Drawing(file, title, svg), …]      pure; equal plans give equal bytes
"""

import textwrap
from typing import NamedTuple

from capacity.model import Plan
from capacity.outputs.report import buying, mechanical, one_line, racks, sheets
from capacity.outputs.report.schematic import schematic

LISTED_LINES = 24
"""Lines of rack names beside an elevation; rack-contents.csv has all."""


class Drawing(NamedTuple):
    """One drawing: name of its file, what it shows, SVG."""

    file: str
    title: str
    svg: str


def drawings(plan: Plan, block: bool = True, printed: bool = False) -> list[Drawing]:
    """One-line diagram, floor plan, schematic and schedule, with title blocks or without; what a site has nothing for is
    left out. `printed` gives each strip of the one-line diagram a sheet of its own.
    """
    strips = one_line.pages(plan) if printed else [one_line.draw(plan)]
    parts = ["", *(f"-{number}" for number in range(2, len(strips) + 1))]
    pictures = [
        *(
            (f"one-line{part}.svg", f"One-line diagram{part.replace('-', ', part ')}", strip, one_line.STYLE)
            for part, strip in zip(parts, strips, strict=False)
        ),
        ("floor-plan.svg", "Floor plan", mechanical.floor_plan(plan), mechanical.PICTURE_STYLE),
        ("cooling-schematic.svg", "Cooling schematic", schematic(plan), mechanical.PICTURE_STYLE),
        (
            "gantt.svg",
            "Schedule from order to go-live",
            buying.gantt(plan.activities, plan.site.schedule.need_date),
            "",
        ),
    ]
    return [
        Drawing(file, title, sheets.sheet(plan, drawn, title, style, block=block))
        for file, title, drawn, style in pictures
        if drawn
    ]


def one_line_sheet(plan: Plan) -> str:
    """The one-line diagram with its title block, made without the other drawings."""
    return sheets.sheet(plan, one_line.draw(plan), "One-line diagram", one_line.STYLE)


def elevations(plan: Plan, block: bool = True) -> list[Drawing]:
    """A drawing of each kind of rack, the most frequent first."""
    if plan.racks.empty:
        return []
    held = racks.contents(plan.devices, plan.placements, plan.racks, plan.circuits)
    found = []
    for drawn in racks.elevations(held, racks.kinds(held), plan.racks):
        first, number = drawn.racks[0], len(drawn.racks)
        title = f"Elevation of rack {first}" + (f" and {number - 1} like it" if number > 1 else "")
        figures = (
            f"{drawn.used_u} of {drawn.height_u} U in use",
            f"{drawn.nameplate_kw:,.1f} kW nameplate, {drawn.measured_kw:,.1f} kW measured profile",
            f"{drawn.mass_kg:,.0f} kg with all that is in it",
            "",
            f"{number} rack{'' if number == 1 else 's'} of this kind:",
        )
        names = textwrap.wrap(", ".join(drawn.racks), 52)
        if len(names) > LISTED_LINES:
            names = [*names[:LISTED_LINES], "… all of them in rack-contents.csv"]
        sheet = sheets.sheet(plan, drawn.svg, title, beside=(*figures, *names), block=block)
        found.append(Drawing(f"elevation-{first}.svg", title, sheet))
    return found
