"""The page for the mechanical engineer: cooling schematic, floor plan with aisles, zones and units, trip-time picture, tables.

In: a plan. Out: SVG text, and the parts that plan.html.j2 shows (`page`).
"""

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
from markupsafe import Markup

from capacity.cooling import air
from capacity.cooling.aisles import aisle_layout
from capacity.cooling.places import IN_ROW_M
from capacity.cooling.zones import loop_of, rack_heat
from capacity.model import Plan
from capacity.outputs.report import svg
from capacity.outputs.report.schematic import figure, schematic
from capacity.outputs.tables import Table
from capacity.space import hall as room
from capacity.space.hall import rack_depth_m

WALL_DEPTH_M = 1.2
"""Depth that room units are drawn with; the site gives only their width."""
DIMENSIONS_PX = 176
"""Width of the strip beside the floor plan that holds the dimensions across its rows."""
PICTURE_STYLE = """
.m-box { fill: var(--panel); stroke: var(--soft); stroke-width: 1.2 }
.m-name { font-weight: 600; font-size: 12px; text-anchor: middle }
.m-line, .m-mid { text-anchor: middle } .m-end { text-anchor: end } .m-soft { fill: var(--soft); font-size: 10px }
.m-cold { fill: none; stroke: var(--cold); stroke-width: 2.4 }
.m-hot { fill: none; stroke: var(--hot); stroke-width: 2.4; stroke-dasharray: 7 4 }
.m-cold-aisle { fill: var(--cold); fill-opacity: .12 } .m-hot-aisle { fill: var(--hot); fill-opacity: .12 }
.m-zone { fill: none; stroke: var(--soft); stroke-dasharray: 3 3 } .m-free { fill: none; stroke: var(--line) }
.m-panel { fill: #9a6700 } .m-busway { fill: none; stroke: #9a6700; stroke-width: 1.6 }
.m-wall { fill: none; stroke: var(--ink); stroke-width: 1.4 }
.m-unit { fill: var(--unit) } .m-rack { fill: var(--gpu); stroke: var(--gpu) }
.m-loop-0 { fill: var(--unit) } .m-loop-1 { fill: var(--soft) }
.m-pump { fill: var(--panel); stroke: var(--cold); stroke-width: 1.4 } .m-vane { fill: var(--cold) }
.m-axis { fill: none; stroke: var(--soft) } .m-light { fill: none; stroke: var(--hot); stroke-width: 2 }
.m-heavy { fill: none; stroke: var(--cold); stroke-width: 2 }
.m-limit { fill: none; stroke: var(--bad); stroke-dasharray: 5 4 } .m-gone { fill: var(--soft); fill-opacity: .14 }
svg text.m-on { fill: #fff; font-size: 8.5px; text-anchor: middle }
"""


def floor_plan(plan: Plan) -> str:
    """The hall from above: cold and hot aisles, racks by their heat, units, zones and free places; to scale."""
    room, racks, units = plan.site.room, plan.racks, plan.cooling_units
    if racks.empty:
        return ""
    length = room.racks_per_row * room.rack_pitch_m
    walled = room.length_m is not None and room.width_m is not None
    rows = max([int(racks["row"].max()), *units["row"].tolist(), room.rows - 1 if walled else 0]) + 1
    depth = rack_depth_m(plan.site, plan.catalog)
    margin = max(4.0, ((room.length_m or 0) - length) / 2 + 0.5)
    beside = max(((room.width_m or 0) - rows * room.row_pitch_m) / 2, 0.0) if walled else 0.0
    scale = min(1120 / (length + 2 * margin), 60.0)
    top = 16 + beside * scale + max((room.row_pitch_m - depth) / 2 * scale, 10.0)
    left = margin * scale

    def at(x_m: float, y_m: float) -> tuple[float, float]:
        return left + x_m * scale, top + (y_m + room.row_pitch_m / 2) * scale

    walls = units.loc[units["at"] == "wall", "y_m"]
    drawn_rows = float(walls.max()) / room.row_pitch_m + 1 if len(walls) else 0.0
    width, height = (
        (length + 2 * margin) * scale,
        top + max(rows + 0.5, drawn_rows) * room.row_pitch_m * scale + beside * scale + 36,
    )
    body = []
    for row in aisle_layout(plan).to_dict("records"):
        x, y = at(0, row["y_m"])
        half = (room.row_pitch_m - depth) / 2 * scale
        words = f"{row['aisle']}: {row['role']}, {row['containment']}, {row['air_c']:.1f} °C"
        body.append(
            svg.element(
                "rect",
                svg.title(words),
                x=x,
                y=y - half,
                width=length * scale,
                height=2 * half,
                cls=f"m-{row['role']}-aisle",
            )
        )
        if half > 5:
            body.append(
                svg.text(
                    x + length * scale / 2, y + 3.5, f"{row['role']} aisle, {row['containment']}", cls="m-soft m-mid"
                )
            )
    free = {(r, p) for r in range(rows) for p in range(room.racks_per_row)}
    free -= set(zip(racks["row"].tolist(), racks["position"].tolist(), strict=True))
    free -= set(zip(units["row"].tolist(), units["position"].tolist(), strict=True))
    free -= {(r, p) for r in range(rows) for p in range(room.rpps_per_row)}
    w, h = max(room.rack_pitch_m * scale - 1.5, 1.5), depth * scale
    for r, p in sorted(free):
        x, y = at(p * room.rack_pitch_m, r * room.row_pitch_m)
        body.append(
            svg.element("rect", svg.title(f"free place, row {r}"), x=x, y=y - h / 2, width=w, height=h, cls="m-free")
        )
    heaviest = float(racks["nameplate_kw"].max()) or 1.0
    loops, named = loop_of(plan.site, rack_heat(plan.devices, racks, plan.placements)), set[str]()
    columns = racks[["name", "x_m", "y_m", "nameplate_kw", "mass_kg"]]
    for name, x_m, y_m, kw, mass in columns.itertuples(index=False, name=None):
        x, y = at(x_m, y_m)
        words = f"{name}: {kw:.1f} kW nameplate, {mass:,.0f} kg{f', {loops[name]}' if name in loops else ''}"
        body.append(
            svg.element(
                "rect",
                svg.title(words),
                x=x - w / 2,
                y=y - h / 2,
                width=w,
                height=h,
                rx=1.5,
                cls="m-rack",
                style=f"fill-opacity:{0.12 + 0.4 * kw / heaviest:.2f}",
            )
        )
        if w > 26:
            body.append(svg.text(x, y + 3.5, name, cls="m-mid"))
        if name in loops:
            parity = int(loops[name].removeprefix("loop-")) % 2
            body.append(svg.element("rect", x=x - w / 2, y=y + h / 2 + 1, width=w, height=3, cls=f"m-loop-{parity}"))
        if name in loops and loops[name] not in named:
            named.add(loops[name])
            body.append(svg.text(x - w / 2, y + h / 2 + 14, loops[name], cls="m-soft"))
    body += _panels(plan, at, scale, depth)
    given = plan.site.cooling.air
    for name, zone, model, where, x_m, y_m, kw in units[["name", "zone", "model", "at", "x_m", "y_m", "kw"]].itertuples(
        index=False, name=None
    ):
        x, y = at(x_m, y_m)
        uw, uh = w, h
        if where == "row" and name.startswith("IR"):
            uw = ((given.width_m if given else None) or IN_ROW_M) * scale - 1.5
        if where == "wall":
            uw, uh = WALL_DEPTH_M * scale, max(((given.width_m if given else None) or WALL_DEPTH_M) * scale - 1.5, 1.5)
        if where == "door":
            uw, uh, y = w, max(0.15 * scale, 2), y + h / 2
        words = f"{name}: {model}, {kw:.0f} kW, {zone}"
        body.append(
            svg.element(
                "rect", svg.title(words), x=x - uw / 2, y=y - uh / 2, width=max(uw, 2), height=uh, rx=1.5, cls="m-unit"
            )
        )
        label = name.split("-")[0]
        if uw > 7 * len(label) and uh > 9:
            body.append(svg.text(x, y + 3, label, cls="m-on"))
    for row in plan.zones[plan.zones["kind"] == "air"].to_dict("records"):
        x, y = at(-0.4, row["first_row"] * room.row_pitch_m - room.row_pitch_m / 2 + 0.15)
        tall = (row["last_row"] - row["first_row"] + 1) * room.row_pitch_m * scale - 0.3 * scale
        body.append(svg.element("rect", x=x, y=y, width=(length + 0.8) * scale, height=tall, cls="m-zone"))
        body.append(
            svg.text(x + 4, y - 3, f"{row['zone']}: {row['air_kw']:,.0f} kW, {row['installed']} units", cls="m-soft")
        )
    if room.length_m is not None and room.width_m is not None:
        x, y = at((length - room.length_m) / 2, ((room.rows - 1) * room.row_pitch_m - room.width_m) / 2)
        body.append(
            svg.element(
                "rect",
                svg.title(f"hall of {room.length_m:g} x {room.width_m:g} m"),
                x=x,
                y=y,
                width=room.length_m * scale,
                height=room.width_m * scale,
                cls="m-wall",
            )
        )
    five = 5 * scale
    body.append(svg.element("path", d=svg.segments([(left, height - 12, left + five, height - 12)]), cls="m-axis"))
    body.append(svg.text(left + five + 6, height - 8, "5 m", cls="m-soft"))
    body += _dimensions(plan, at, length, rows, depth, width)
    return svg.picture(
        width + DIMENSIONS_PX,
        height,
        f"Floor plan of {plan.site.name} with aisles, zones and cooling units",
        body,
        "mechanical",
    )


def _dimensions(
    plan: Plan,
    at: Callable[[float, float], tuple[float, float]],
    length: float,
    rows: int,
    depth: float,
    beside: float,
) -> list[str]:
    """Dimension lines in metres: rack place and length of a row above the first row; depth of a rack, width of an aisle and pitch
    of the rows in the strip on the right, which begins at x `beside`; and the hall.
    """
    room = plan.site.room
    over = -depth / 2
    spans = [
        (*at(0.0, over), *at(length, over), (0.0, -18.0), f"row {length:.2f} m"),
        (*at(0.0, over), *at(room.rack_pitch_m, over), (0.0, -7.0), f"place {room.rack_pitch_m:.2f} m"),
    ]
    near, far = (beside + 12 - at(0.0, 0.0)[0], 0.0), (beside + 96 - at(0.0, 0.0)[0], 0.0)
    spans.append((*at(0.0, over), *at(0.0, -over), near, f"rack {depth:.2f} m"))
    if rows > 1:
        aisle = room.row_pitch_m - depth
        spans.append((*at(0.0, -over), *at(0.0, -over + aisle), near, f"aisle {aisle:.2f} m"))
        spans.append((*at(0.0, 0.0), *at(0.0, room.row_pitch_m), far, f"pitch {room.row_pitch_m:.2f} m"))
    lines, body = [], []
    for x1, y1, x2, y2, (right, down), words in spans:
        (x1, x2), (y1, y2) = (x1 + right, x2 + right), (y1 + down, y2 + down)
        tick = (0.0, 3.0) if y1 == y2 else (3.0, 0.0)
        lines.append((x1, y1, x2, y2))
        lines += [(x - tick[0], y - tick[1], x + tick[0], y + tick[1]) for x, y in ((x1, y1), (x2, y2))]
        if words.startswith("row "):
            body.append(svg.text(x2 - 4, y1 - 4, words, cls="m-soft m-end"))
        else:
            place = (x2 + 6, y1 + 3.5) if y1 == y2 else (x1 + 6, (y1 + y2) / 2 + 3.5)
            body.append(svg.text(*place, words, cls="m-soft"))
    if room.length_m is not None and room.width_m is not None:
        x, y = at((length - room.length_m) / 2, ((room.rows - 1) * room.row_pitch_m - room.width_m) / 2)
        body.append(svg.text(x + 4, y + 12, f"hall {room.length_m:.2f} x {room.width_m:.2f} m", cls="m-soft"))
    return [svg.element("path", d=svg.segments(lines), cls="m-axis"), *body]


def _panels(plan: Plan, at: Callable[[float, float], tuple[float, float]], scale: float, depth: float) -> list[str]:
    """Power panels at the heads of the rows, and busway as a line over its row."""
    electrical = plan.site.electrical
    if electrical is None or plan.elements.empty:
        return []
    given, body = electrical.panels, []
    placed = plan.elements[(plan.elements["kind"] == "panel") & (plan.elements["row"] >= 0)]
    columns = placed[["name", "feed", "row", "x_m", "y_m", "limit_kw", "worst_kw"]]
    last = plan.racks.groupby("row")["x_m"].max()
    behind = placed.groupby("row").cumcount().tolist()
    for turn, (name, feed, row, x_m, y_m, limit, worst) in zip(
        behind, columns.itertuples(index=False, name=None), strict=True
    ):
        x, y = at(x_m, y_m)
        words = svg.title(f"{name}: {limit:.0f} kW, {worst:.0f} kW in the worst failure")
        if given.kind == "busway":
            over = y - depth / 2 * scale + 3.5 + turn * 3.0
            end = at(float(last.get(row, x_m)), y_m)[0]
            body.append(svg.element("path", words, d=svg.segments([(x, over, end, over)]), cls="m-busway"))
            continue
        w = (given.width_m or plan.site.room.rack_pitch_m) * scale - 1.5
        h = min(given.depth_m or depth, 2 * depth) * scale
        body.append(
            svg.element("rect", words, x=x - w / 2, y=y - h / 2, width=max(w, 1.5), height=h, rx=1.5, cls="m-panel")
        )
        if w > 9:
            body.append(svg.text(x, y + 3, feed, cls="m-on"))
    return body


def trip_picture(plan: Plan) -> str:
    """How the worst zone warms without cooling: with its cold-side air alone and with all air and the racks' metal, against the
    outage; '' where the site gives no ride-through.
    """
    given = plan.site.cooling.ride_through
    table = plan.cooling_figures[plan.cooling_figures["item"] == "ride-through"]
    low = table[table["quantity"] == "no cooling, cold-side air alone"]
    high = table[table["quantity"] == "no cooling, air and metal"]
    out = figure(plan, "ride-through", "without cooling after a loss of utility")
    if given is None or low.empty or high.empty or out is None:
        return ""
    worst = int(high["value"].to_numpy().argmin())
    zone, fast, slow = (
        str(high["subject"].iloc[worst]),
        float(low["value"].iloc[worst]),
        float(high["value"].iloc[worst]),
    )
    start = float(plan.zones.loc[plan.zones["zone"] == zone, "supply_c"].iloc[0])
    trip_c = air.trip_c(plan.site, given)
    span = max(slow, out) * 1.15
    width, height, left, bottom = 720, 300, 54, 250
    top_c = trip_c + (trip_c - start) * 0.35

    def at(minute: float, celsius: float) -> tuple[float, float]:
        return left + minute / span * (width - left - 20), bottom - (celsius - start) / (top_c - start) * (bottom - 24)

    body = [
        svg.element(
            "rect",
            svg.title(f"no cooling for {out:.2f} min"),
            x=left,
            y=24,
            width=at(out, start)[0] - left,
            height=bottom - 24,
            cls="m-gone",
        )
    ]
    body.append(
        svg.element(
            "path", d=svg.segments([(left, 24, left, bottom), (left, bottom, width - 20, bottom)]), cls="m-axis"
        )
    )
    y = at(0, trip_c)[1]
    body.append(svg.element("path", d=svg.segments([(left, y, width - 20, y)]), cls="m-limit"))
    body.append(svg.text(width - 22, y + 14, f"trip at {trip_c:g} °C", cls="m-end"))
    for minutes, cls in ((fast, "m-light"), (slow, "m-heavy")):
        end = min(minutes * (top_c - start) / (trip_c - start), span)
        celsius = start + (trip_c - start) * end / minutes if minutes else top_c  # as good as no air: upright
        body.append(svg.element("path", d=svg.segments([(*at(0, start), *at(end, celsius))]), cls=cls))
    marks = _ticks(span)
    body += [svg.text(at(m, start)[0], bottom + 16, f"{m:g}", cls="m-soft m-mid") for m in marks]
    body += [svg.text(left - 6, at(0, c)[1] + 4, f"{c:.0f}", cls="m-soft m-end") for c in (start, trip_c)]
    body.append(svg.text((left + width) / 2, bottom + 34, "minutes without cooling", cls="m-soft m-mid"))
    body.append(
        svg.text(
            left + 6,
            16,
            f"{zone}: steep line cold-side air alone {fast:.2f} min, other line all air and metal "
            f"{slow:.2f} min; grey: no cooling, {out:.2f} min",
        )
    )
    return svg.picture(width, height, f"Air temperature of {zone} without cooling", body, "mechanical")


def _ticks(span: float) -> list[float]:
    step = 10 ** math.floor(math.log10(span)) if span > 0 else 1.0
    for part in (0.2, 0.5, 1.0):
        if span / (step * part) <= 8:
            step *= part
            break
    return [round(step * i, 6) for i in range(int(span / step) + 1)]


def pue_picture(plan: Plan) -> str:
    """PUE by component on the design day: a bar of what comes on top of the IT load; '' without a plant."""
    table = plan.cooling_figures[
        (plan.cooling_figures["item"] == "pue") & ~plan.cooling_figures["quantity"].isin(["it", "PUE"])
    ]
    whole = figure(plan, "pue", "PUE")
    if whole is None or table.empty:
        return ""
    shown = table[table["value"] > 0]
    largest = float(shown["value"].max())
    body, y = [], 10.0
    for name, value in shown[["quantity", "value"]].itertuples(index=False, name=None):
        body.append(svg.text(190, y + 12, name, cls="m-end"))
        body.append(svg.element("rect", x=198, y=y, width=max(value / largest * 420, 1), height=16, rx=2, cls="m-unit"))
        body.append(svg.text(204 + value / largest * 420, y + 12, f"{value:.4f}"))
        y += 22
    body.append(svg.text(198, y + 14, f"1 (IT) + these = PUE {whole:.3f} on the design day at nameplate", cls="m-soft"))
    return svg.picture(720, y + 24, f"PUE of {plan.site.name} by component", body, "mechanical")


def page(plan: Plan) -> dict[str, Any]:
    """What the report's page "Mechanical" shows: pictures, tables, and the answers that are asked for first."""
    zones = plan.zones
    zone_rows = [
        (
            z["zone"],
            " to ".join(dict.fromkeys((str(z["first_row"]), str(z["last_row"])))),
            f"{z['racks']:,}",
            f"{z['air_kw'] if z['kind'] == 'air' else z['liquid_kw']:,.1f}",
            f"{z['supply_c']:g} / {z['return_c']:.1f}",
            z["unit"] or "–",
            f"{z['unit_kw']:,.1f}",
            f"{z['needed']} / {z['installed']}",
            f"{z['capacity_kw']:,.0f}",
            f"{z['reserve_kw']:,.0f}",
            f"{z['flow_needed']:,.1f} {z['flow_unit']}",
            f"{z['flow_available']:,.1f}",
            f"{z['flow_needed_cfm']:,.0f}" if z["flow_needed_cfm"] else "–",
        )
        for z in zones.to_dict("records")
    ]
    figure_rows = [
        (
            f["item"],
            f["subject"],
            f["quantity"],
            "–" if f["value"] == -1 else f"{f['value']:,.2f}",
            f["unit"],
            f["source"],
        )
        for f in plan.cooling_figures.to_dict("records")
    ]
    return {
        "answers": answers(plan),
        "schematic": Markup(schematic(plan)),
        "floor": Markup(floor_plan(plan)),
        "trip": Markup(trip_picture(plan)),
        "pue": Markup(pue_picture(plan)),
        "style": Markup(f"<style>{PICTURE_STYLE}</style>"),
        "zones": Table.of(
            zone_rows,
            "Zone",
            "Rows",
            "#Racks",
            "#Heat kW",
            "#Supply / return °C",
            "Unit",
            "#Unit kW",
            "#N / installed",
            "#All units kW",
            "#Spare out kW",
            "#Flow needed",
            "#Spare out",
            "#CFM needed",
        ),
        "options": Table.of(
            option_rows(plan),
            "Option",
            "#Air kW",
            "#Liquid kW",
            "#Densest rack air kW",
            "#Possible kW",
            "#Servers a rack",
            "#GPU racks",
            "#Air m³/s",
            "#PUE",
            "Verdict",
        ),
        "space": Table.of(space_rows(plan), "Of the hall", ""),
        "figures": Table.of(figure_rows, "Item", "Of", "Figure", "#Value", "Unit", "From"),
    }


def space_rows(plan: Plan) -> list[tuple[str, str]]:
    """Places of the hall, panels, units kept together, and compute cable beside its bound."""
    found = room.figures(plan)
    at, cable = found["places"], found["compute_cable"]
    clear, deep = room.clear_aisle_m(plan.site, plan.catalog), room.rack_depth_m(plan.site, plan.catalog)
    least = f"no placement of the switches needs less than {cable['bound_m']:,.0f} m (a bound, not a plan)"
    taken = f"{at['racks']:,} racks, {at['cooling_units']:,} coolers and distribution units, "
    taken += f"{at['power_panels']:,} power panels on {at['kept_for_panels']:,} places"
    return [
        ("Places of racks", f"{at['all']:,}: {taken}, {at['free']:,} free"),
        (
            "Heaviest rack",
            f"{plan.racks['mass_kg'].max():,.0f} kg; the floor may carry {plan.site.room.floor_load_kg_m2:,.0f} kg/m²",
        ),
        (
            "Rows",
            f"every {plan.site.room.row_pitch_m:g} m, which leaves aisles of {clear:.2f} m between racks of {deep:g} m",
        ),
        *walkway_rows(plan),
        ("Blanking panels, 1U", f"{at['blanking_panels_u']:,}"),
        (
            "Scalable units",
            f"{found['units']['count']:,}, {found['units']['split']:,} of them with other racks in between",
        ),
        ("Compute cable", f"{cable['reached_m']:,.0f} m; {least}"),
    ]


def walkway_rows(plan: Plan) -> list[tuple[str, str]]:
    """Clear width around the rows, where the site gives the size of the hall."""
    clear = room.walkways_m(plan.site, plan.catalog)
    where = {"length_m": "at both ends of the rows", "width_m": "beside the outer rows"}
    if not clear:
        return []
    least = plan.site.room.walkway_min_m
    said = ", ".join(f"{metres:.2f} m {where[key]}" for key, metres in clear.items())
    return [("Walkways", said + (f"; {least:g} m are needed" if least is not None else ""))]


def option_rows(plan: Plan) -> list[tuple[str, ...]]:
    """The comparison of S097 as cells."""
    return [
        (
            o["option"] + (" (this site)" if o["chosen"] else ""),
            f"{o['air_kw']:,.0f}",
            f"{o['liquid_kw']:,.0f}",
            f"{o['largest_rack_air_kw']:.1f}",
            f"{o['rack_air_limit_kw']:g}",
            f"{o['servers_per_rack']} ({o['bound']})",
            f"{o['gpu_racks']:,}" if o["gpu_racks"] >= 0 else "–",
            f"{o['airflow_m3_s']:,.1f}",
            f"{o['pue']:.3f}" if o["pue"] else "–",
            o["reason"] or ("✓ fits" if o["fits"] else "✗"),
        )
        for o in plan.cooling_options.to_dict("records")
    ]


def answers(plan: Plan) -> list[tuple[str, str]]:
    """The figures that a mechanical engineer asks for first: (value, label)."""
    zones: pd.DataFrame = plan.zones
    air, wet = zones[zones["kind"] == "air"], zones[zones["kind"] == "liquid"]
    found = [(f"{air['air_kw'].sum():,.0f} kW", "heat to air")]
    if len(wet):
        found.append((f"{wet['liquid_kw'].sum():,.0f} kW", "heat to coolant"))
    found.append((f"{air['flow_needed'].sum():,.0f} m³/s", "air at supply"))
    if (air["installed"] > 0).any():
        found.append((f"{int(air['needed'].sum())} + {int((air['installed'] - air['needed']).sum())}", "air units"))
        found.append((f"{(air['reserve_kw'] / air['air_kw']).min() * 100:,.0f} %", "least, spare out"))
    if len(wet):
        count = len(wet)
        of = f"distribution units, {count} loop{'s' if count > 1 else ''}"
        found.append((f"{int(wet['needed'].sum())} + {int((wet['installed'] - wet['needed']).sum())}", of))
        found.append((f"{wet['flow_needed'].sum() / 60:,.1f} L/s", "coolant"))
    for item, quantity, label, form in (
        ("plant", "facility water", "facility water", "{:,.0f} L/s"),
        ("plant", "make-up water", "make-up water", "{:,.1f} m³/h"),
        ("pue", "PUE", "PUE, design day", "{:.3f}"),
        ("year", "PUE", "PUE, a year", "{:.3f}"),
        ("year", "hours without chillers", "without chillers", "{:,.0f} h"),
    ):
        value = figure(plan, item, quantity)
        if value:
            found.append((form.format(value), label))
    slow = plan.cooling_figures.loc[plan.cooling_figures["quantity"] == "no cooling, air and metal", "value"]
    fast = plan.cooling_figures.loc[plan.cooling_figures["quantity"] == "no cooling, cold-side air alone", "value"]
    if len(slow):
        found.append((f"{fast.min():.1f}–{slow.min():.1f}", "min to trip"))
    return found
