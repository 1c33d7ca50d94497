"""The cooling schematic: from racks to outdoors, with flows, temperatures, pumps, headers and the design day.

In: a plan. Out: SVG text. Boxes left to right, cold supply as a full line below, warm return dashed above; coolant in a lane of
its own under the air, which joins the plant where its heat goes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from capacity.model import Plan
from capacity.outputs.report import svg

UNIT_NAMES = {"crah": "CRAH units", "in_row": "In-row coolers", "rear_door": "Rear doors", "fan_wall": "Fan walls"}
BOX_W, BOX_H, GAP, LEFT, TOP = 164, 122, 104, 12, 34
WARM, COLD = 0.27, 0.66
"""Where return and supply leave a box, as a share of its height."""
LANES = 96
"""Height between the two lanes."""
PUMP = 8.5


@dataclass(frozen=True)
class Link:
    """Two pipes or air ways: words over the warm one and under the cold one, and whether pumps stand in it."""

    warm: Sequence[str] = ()
    cold: Sequence[str] = ()
    pumps: bool = False


@dataclass(frozen=True)
class Box:
    """A name, lines of text, and the link to the next box."""

    name: str
    lines: Sequence[str]
    link: Link = field(default_factory=Link)


def figure(plan: Plan, item: str, quantity: str, subject: str = "") -> float | None:
    """The first value of `cooling_figures` with this item, quantity and subject; None where the plan has none."""
    table = plan.cooling_figures
    rows = (table["item"] == item) & (table["quantity"] == quantity)
    found = table.loc[rows & (table["subject"] == subject) if subject else rows, "value"]
    return float(found.iloc[0]) if len(found) else None


def schematic(plan: Plan) -> str:
    """The picture; equal plans give equal bytes."""
    plant = _plant(plan)
    air, liquid = [*_air(plan), *plant], _liquid(plan)
    width = 2 * LEFT + max(len(air), len(liquid) + len(plant)) * (BOX_W + GAP) - GAP
    body = _lane(air, TOP)
    bottom = TOP + BOX_H + 34.0
    if plant:
        x = LEFT + (len(air) - 1) * (BOX_W + GAP) + BOX_W / 2
        body.append(svg.text(x, TOP - 18, _design_day(plan), cls="m-soft m-mid"))
    if liquid:
        y = TOP + BOX_H + LANES
        body += _lane(liquid, y)
        if plant:
            free = figure(plan, "plant", "liquid part without chillers on the design day")
            column = len(air) - (1 if free else len(plant))
            body += _joined(liquid[-1].link, len(liquid), column, y)
        bottom = y + BOX_H + 34.0
    for words in _notes(plan):
        body.append(svg.text(LEFT, bottom, words, cls="m-soft"))
        bottom += 15
    return svg.picture(width, bottom, f"Cooling schematic of {plan.site.name}", body, "mechanical")


def _lane(boxes: Sequence[Box], y: float) -> list[str]:
    out = []
    for i, box in enumerate(boxes):
        x = LEFT + i * (BOX_W + GAP)
        out.append(svg.element("rect", x=x, y=y, width=BOX_W, height=BOX_H, rx=5, cls="m-box"))
        out.append(svg.text(x + BOX_W / 2, y + 20, box.name, cls="m-name"))
        out += [svg.text(x + BOX_W / 2, y + 39 + 15 * n, words, cls="m-line") for n, words in enumerate(box.lines)]
        if i + 1 < len(boxes):
            for share, kind in ((WARM, "hot"), (COLD, "cold")):
                line = svg.segments([(x + BOX_W, y + BOX_H * share, x + BOX_W + GAP, y + BOX_H * share)])
                out.append(svg.element("path", d=line, cls=f"m-{kind}"))
            out += _words(box.link, x + BOX_W + GAP / 2, y + BOX_H * WARM, y + BOX_H * COLD)
            if box.link.pumps:
                out += _pump(x + BOX_W + GAP / 2, y + BOX_H * COLD)
    return out


def _words(link: Link, x: float, warm_y: float, cold_y: float) -> list[str]:
    """Words over the return and under the supply."""
    out = [svg.text(x, warm_y - 6 - 13 * n, words, cls="m-soft m-mid") for n, words in enumerate(reversed(link.warm))]
    under = cold_y + (PUMP + 12 if link.pumps else 14)
    return out + [svg.text(x, under + 13 * n, words, cls="m-soft m-mid") for n, words in enumerate(link.cold)]


def _pump(x: float, y: float) -> list[str]:
    """A pump in a supply that flows to the left."""
    vane = f"M{svg.number(x - PUMP)} {svg.number(y)}L{svg.number(x + 4)} {svg.number(y - 7)}V{svg.number(y + 7)}Z"
    return [svg.element("circle", cx=x, cy=y, r=PUMP, cls="m-pump"), svg.element("path", d=vane, cls="m-vane")]


def _joined(link: Link, count: int, column: int, y: float) -> list[str]:
    """Facility water from the last box of the lower lane up into the box of the upper one."""
    middle = LEFT + column * (BOX_W + GAP) + BOX_W / 2
    right = LEFT + (count - 1) * (BOX_W + GAP) + BOX_W
    out = []
    for share, kind, side in ((WARM, "hot", -14), (COLD, "cold", 14)):
        path = f"M{right} {y + BOX_H * share:.1f}H{middle + side:.1f}V{TOP + BOX_H}"
        out.append(svg.element("path", d=path, cls=f"m-{kind}"))
    x = right + GAP / 2
    return [*out, *_words(link, x, y + BOX_H * WARM, y + BOX_H * COLD), *_pump(x, y + BOX_H * COLD)]


def _of(plan: Plan, quantity: str) -> float:
    return figure(plan, "plant", quantity) or 0.0


def _header(plan: Plan, subject: str, item: str = "plant") -> str:
    """'DN 350' of a header; '' where nothing flows in it."""
    dn = figure(plan, item, "nominal diameter", subject)
    count = figure(plan, item, "pipes each way", subject) or 1
    return "" if dn is None else f"{f'{count:.0f} x ' if count > 1 else ''}DN {dn:.0f}"


def _design_day(plan: Plan) -> str:
    given = plan.site.cooling.plant
    return "" if given is None else f"design day: {given.design_dry_c:g} °C dry, {given.design_wet_c:g} °C wet bulb"


def _counted(needed: float, installed: float, each: str) -> str:
    """'3 + 1 x 120 L/s'."""
    return f"{needed:.0f} + {installed - needed:.0f} x {each}"


def _air(plan: Plan) -> list[Box]:
    zones = plan.zones[plan.zones["kind"] == "air"]
    if zones.empty:
        return []
    first, given, count = zones.iloc[0], plan.site.cooling.air, len(zones)
    hall = Link(
        [f"{first['return_c']:.1f} °C"],
        [f"{first['supply_c']:g} °C", f"{zones['flow_needed'].sum():,.0f} m³/s"],
    )
    racks = Box(
        "Racks, air",
        [
            f"{zones['air_kw'].sum():,.0f} kW",
            f"{int(zones['racks'].sum()):,} racks",
            f"{count} zone{'s' if count > 1 else ''}",
            f"densest rack {zones['largest_rack_kw'].max():,.0f} kW",
        ],
        hall,
    )
    if given is None:
        return [racks]
    works = plan.site.cooling.plant
    water = Link()
    if works is not None:
        cold = [f"{works.water_c:g} °C, {_of(plan, 'facility water of the air units'):,.1f} L/s"]
        water = Link(
            [f"{works.water_c + works.water_rise_k:g} °C"], [*cold, _header(plan, "header of the air units")], True
        )
    needed, installed = int(zones["needed"].sum()), int(zones["installed"].sum())
    spare = f"spare {plan.site.cooling.n_plus} in each zone" if given.kind != "rear_door" else "no spare by rack"
    units = Box(
        UNIT_NAMES[given.kind],
        [
            _counted(needed, installed, f"{first['unit_kw']:,.0f} kW"),
            spare,
            f"fans {_of(plan, 'fans of the air units'):,.0f} kW",
        ],
        water,
    )
    return [racks, units]


def _liquid(plan: Plan) -> list[Box]:
    loops = plan.zones[plan.zones["kind"] == "liquid"]
    given = plan.site.cooling.coolant
    if loops.empty or given is None:
        return []
    row, count, loop = loops.iloc[0], len(loops), given.loop
    dn = figure(plan, "coolant", "header, nominal diameter") or 0
    flow = f"{'≤ ' if count > 1 else ''}{loops['flow_needed'].max():,.0f} L/min"
    racks = Box(
        "Racks, cold plates",
        [
            f"{loops['liquid_kw'].sum():,.0f} kW",
            f"{int(loops['racks'].sum()):,} racks",
            f"{count} loop{'s' if count > 1 else ''}",
            f"densest rack {loops['largest_rack_kw'].max():,.0f} kW",
        ],
        Link([f"{row['return_c']:g} °C"], [f"{row['supply_c']:g} °C, PG25", flow, f"DN {dn:.0f}"], True),
    )
    needed, installed = int(loops["needed"].sum()), int(loops["installed"].sum())
    lines = [
        _counted(needed, installed, f"{row['unit_kw']:,.0f} kW"),
        f"spare {plan.site.cooling.n_plus} in each loop",
    ]
    if loop is None:
        return [racks, Box("Distribution units", lines)]
    lines += [
        f"approach {row['supply_c'] - loop.facility_c:g} K",
        f"pumps {_of(plan, 'pumps of the distribution units'):,.0f} kW, {loop.cdu_head_kpa:g} kPa",
    ]
    cold = [
        f"{loop.facility_c:g} °C, {_of(plan, 'facility water of the distribution units'):,.1f} L/s",
        _header(plan, "header of the distribution units"),
    ]
    return [
        racks,
        Box("Distribution units", lines, Link([f"{loop.facility_c + loop.facility_rise_k:g} °C"], cold, True)),
    ]


def _plant(plan: Plan) -> list[Box]:
    given = plan.site.cooling.plant
    if given is None:
        return []
    boxes = []
    if given.kind.startswith("chiller"):
        outdoor_c = _of(plan, "outdoor water on the design day")
        condensers = _of(plan, "water through the chillers' condensers")
        cold = [
            f"{outdoor_c:g} °C, {condensers:,.1f} L/s",
            _header(plan, "header of the condensers"),
        ]
        boxes.append(
            Box(
                "Chillers",
                [
                    _counted(
                        _of(plan, "chillers needed"), _of(plan, "chillers installed"), f"{given.chiller_kw:,.0f} kW"
                    ),
                    f"load {_of(plan, 'load of the chillers'):,.0f} kW",
                    f"{_of(plan, 'power of the chillers'):,.0f} kW at COP {given.chiller_cop:g}",
                ],
                Link([f"{outdoor_c + given.reject_rise_k:g} °C"], cold, True),
            )
        )
    wet = given.kind in ("chiller_tower", "tower")
    lines = [
        _counted(
            _of(plan, "towers or dry coolers needed"),
            _of(plan, "towers or dry coolers installed"),
            f"{given.reject_kw:,.0f} kW",
        ),
        f"{_of(plan, 'heat to reject'):,.0f} kW to outdoors",
        f"{_of(plan, 'water through towers or dry coolers'):,.0f} L/s, back at {_of(plan, 'its temperature back at them'):.1f} °C",
        f"leaves at {_of(plan, 'outdoor water on the design day'):g} °C",
        f"fans {_of(plan, 'power of their fans'):,.0f} kW",
    ]
    if wet:
        lines.append(f"make-up {_of(plan, 'make-up water'):,.1f} m³/h")
    return [*boxes, Box("Cooling towers" if wet else "Dry coolers", lines)]


def _notes(plan: Plan) -> list[str]:
    """Pumps, and how to read the picture."""
    given, notes = plan.site.cooling.plant, []
    if given is not None:
        count = (
            _counted(_of(plan, "pumps needed"), _of(plan, "pumps installed"), f"{given.pump_l_s:g} L/s")
            if given.pump_l_s
            else "their number is not given (cooling.plant.pump_l_s)"
        )
        notes.append(
            f"Pumps of the facility water: {_of(plan, 'facility water'):,.1f} L/s against {given.pump_kpa:g} kPa, "
            f"{_of(plan, 'power of its pumps'):,.1f} kW; {count}"
        )
    if given is not None and given.kind.startswith("chiller"):
        head = (
            f"against {given.reject_pump_kpa:g} kPa, {_of(plan, 'power of its own pumps'):,.1f} kW"
            if given.reject_pump_kpa
            else "head and power are not given (cooling.plant.reject_pump_kpa)"
        )
        condensers = _of(plan, "water through the chillers' condensers")
        notes.append(f"Pumps of the condenser water: {condensers:,.1f} L/s {head}")
    if int((plan.zones["kind"] == "liquid").sum()) > 1:
        notes.append("Coolant: flow and header of the loop with most heat.")
    return [
        *notes,
        "Full: cold supply; dashed: warm return; circles: pumps. Heat at nameplate, plant on the design day.",
        "Headers: one pair for the whole flow, the smallest pipe of schedule 40 within 400 Pa/m and 3 m/s (ASHRAE Fundamentals).",
    ]
