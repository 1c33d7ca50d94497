"""The one-line diagram of the supply: grid, intake, transformers, boards, UPS blocks, PDU transformers, panels, racks.

In: a plan with the frame `elements`. Out: an SVG, for the report or as a file of its own. A column a transformer; feeds
side by side; below each UPS block its panels as one box. Above COLUMNS trains a feed shows its first ones and says how
many are like them. Numbers beside a symbol: load and worst load in percent of its limit. Lines that carry nothing in the
normal state are dashed.
"""

from typing import TYPE_CHECKING

import pandas as pd

from capacity.report import svg

if TYPE_CHECKING:
    from capacity.plan import Plan

COLUMNS = 24
"""Columns of the whole picture at most."""
WIDTH, EDGE, GAP, PAGE = 116, 128, 30, 1320
Y = {"utility": 34, "intake": 96, "transformer": 160, "reserve": 214, "plant": 232, "switchboard": 264, "ups": 334,
     "pdu_transformer": 404, "panel": 470, "rack": 540}  # fmt: skip
STYLE = """
.ol-wire{fill:none;stroke:var(--ink,#1b1f24);stroke-width:1.3}
.ol-bus{stroke:var(--ink,#1b1f24);stroke-width:4;stroke-linecap:square}
.ol-idle{fill:none;stroke:var(--soft,#5d6670);stroke-width:1.2;stroke-dasharray:5 4}
.ol-sym{fill:var(--paper,#fff);stroke:var(--ink,#1b1f24);stroke-width:1.4}
.ol-box{fill:var(--panel,#f4f5f6);stroke:var(--soft,#5d6670);stroke-width:1.1}
.ol-room{fill:none;stroke:var(--line,#d9dde1);stroke-width:1.2}
svg.one-line text{fill:var(--ink,#1b1f24);font:10px system-ui,"DejaVu Sans",sans-serif}
svg.one-line text.ol-soft{fill:var(--soft,#5d6670)} svg.one-line text.ol-name{font-weight:600}
svg.one-line text.ol-head{font-weight:600;font-size:12px} svg.one-line text.ol-mid{text-anchor:middle}
svg.one-line text.ol-over{fill:var(--bad,#b3261e);font-weight:600}
"""


class _Pen:
    """Collects the parts of the picture."""

    def __init__(self, y: dict[str, int]) -> None:
        self.y = y
        self.wires: list[tuple[float, float, float, float]] = []
        self.idle: list[tuple[float, float, float, float]] = []
        self.buses: list[tuple[float, float, float, float]] = []
        self.shapes: list[str] = []

    def body(self) -> list[str]:
        return [
            svg.element("path", cls="ol-idle", d=svg.segments(self.idle)),
            svg.element("path", cls="ol-wire", d=svg.segments(self.wires)),
            svg.element("path", cls="ol-bus", d=svg.segments(self.buses)),
            *self.shapes,
        ]

    def words(self, x: float, y: float, text: str, cls: str = "ol-soft") -> None:
        self.shapes.append(svg.text(x, y, text, cls=cls))

    def transformer(self, x: float, y: float, tip: str) -> None:
        for offset in (-5.5, 5.5):
            self.shapes.append(
                svg.element("circle", svg.title(tip), cx=x, cy=y + offset, r=8.5, cls="ol-sym", fill_opacity=0.6)
            )

    def breaker(self, x: float, y: float) -> None:
        self.shapes.append(svg.element("rect", x=x - 3.5, y=y - 3.5, width=7, height=7, cls="ol-sym"))

    def box(self, x: float, y: float, width: float, height: float, tip: str, cls: str = "ol-sym") -> None:
        self.shapes.append(svg.element("rect", svg.title(tip), x=x, y=y, width=width, height=height, rx=2, cls=cls))


def _at(rows: pd.DataFrame, name: str) -> pd.Series:
    """The element of that name."""
    return rows[rows["name"] == name].iloc[0]


def _load(row: pd.Series) -> tuple[str, str]:
    """'51 / 86 %' of the limit, normal and worst, and the class of the words."""
    if row["limit_kw"] <= 0:
        return "", "ol-soft"
    now, worst = row["load_kw"] / row["limit_kw"] * 100, row["worst_kw"] / row["limit_kw"] * 100
    return f"{now:.0f} / {worst:.0f} %" + (" over" if worst > 100 else ""), "ol-over" if worst > 100 else "ol-soft"


def _tip(row: pd.Series) -> str:
    case = f" when {row['worst_case']} is lost" if row["worst_case"] else ""
    fault = (
        f", fault {row['fault_ka']:.1f} kA" + (f" of {row['rating_ka']:g}" if row["rating_ka"] else "")
        if row["fault_ka"]
        else ""
    )
    return (
        f"{row['name']}: {row['rating']:g} {row['unit']}, {row['load_kw']:,.0f} kW of {row['limit_kw']:,.0f}, worst "
        f"{row['worst_kw']:,.0f}{case}{fault}"
    )


def draw(plan: "Plan") -> str:
    """The SVG; '' where the site plans no supply. Feeds that do not fit side by side stand below each other."""
    elements = plan.elements
    if elements.empty:
        return ""
    rows = elements.set_index("name", drop=False)
    y = Y if "pdu_transformer" in set(elements["kind"]) else Y | {"panel": Y["panel"] - 66, "rack": Y["rack"] - 66}
    feeds = list(plan.site.power.feeds)
    each = max(COLUMNS // len(feeds), 4)
    strips: list[list[tuple[str, float]]] = [[]]
    for feed in feeds:
        width = _feed(_Pen(y), plan, rows, feed, 0.0, each)
        if strips[-1] and EDGE + sum(w + GAP for _, w in strips[-1]) + width > PAGE:
            strips.append([])
        strips[-1].append((feed, width))
    height = y["rack"] + 52
    total = max(EDGE + sum(w + GAP for _, w in strip) for strip in strips)
    drawn = [svg.element("style", STYLE)]
    for number, strip in enumerate(strips):
        pen, x, entries = _Pen(y), float(EDGE), []
        for feed, width in strip:
            _feed(pen, plan, rows, feed, x, each)
            entries.append((feed, x, width))
            x += width + GAP
        _grid(pen, rows, entries)
        for kind, label in (("utility", "Grid"), ("intake", "Intake"), ("transformer", "Transformers"),
                            ("switchboard", "Boards, transfer"), ("ups", "UPS blocks"),
                            ("pdu_transformer", "PDU transformers"), ("panel", "Panels"), ("rack", "Racks")):  # fmt: skip
            if kind == "rack" or kind in set(elements["kind"]):
                pen.words(4, y[kind] + 4, label, "ol-head")
        drawn.append(svg.element("g", "".join(pen.body()), transform=f"translate(0 {height * number})"))
    return svg.picture(total, height * len(strips), f"One-line diagram of {plan.site.name}", drawn, cls="one-line")


def _grid(pen: _Pen, rows: pd.DataFrame, entries: list[tuple[str, float, float]]) -> None:
    """The lines of the grid company above the intakes."""
    services = rows[rows["kind"] == "utility"]
    for number, (_, row) in enumerate(services.iterrows()):
        level = pen.y["utility"] + 9 * number
        mine = [(x, w) for feed, x, w in entries if str(_at(rows, f"mv-{feed}")["upstream"]) == row["name"]]
        others = [
            (x, w) for feed, x, w in entries if row["name"] in str(_at(rows, f"mv-{feed}")["alternates"]).split("; ")
        ]
        reach = [x + w / 2 for x, w in mine + others] or [EDGE]
        text, cls = _load(row)
        pen.buses.append((min(reach) - 40, level, max(reach) + 20, level))
        pen.words(min(reach) - 40, pen.y["utility"] - 12 - 12 * (len(services) - 1 - number),
                  f"{row['name']}  {row['voltage_v'] / 1000:g} kV, {row['rating']:g} MVA firm, "
                  f"{row['fault_ka']:.1f} kA   {text}", cls)  # fmt: skip
        for x, width in mine:
            pen.wires.append((x + width / 2, level, x + width / 2, pen.y["intake"]))
        for x, width in others:
            shifted = x + width / 2 + 10 + 6 * number
            pen.idle.append((shifted, level, shifted, pen.y["intake"]))


def _feed(pen: _Pen, plan: "Plan", rows: pd.DataFrame, feed: str, left: float, each: int) -> float:
    """One feed from its intake down; returns its width."""
    mine = rows[rows["feed"] == feed]
    boards = mine[mine["kind"] == "switchboard"]
    is_it = boards["name"].isin(mine.loc[(mine["kind"] == "ups") & mine["name"].isin(_fed_panels(mine)), "upstream"])
    cooled = boards["name"].isin(_feeding_cooling(mine))
    it, mechanical = boards[is_it], boards[~is_it & cooled]
    shown = it.head(max(each - len(mechanical.head(1)) - 1, 1))
    reserve = mine[(mine["kind"] == "transformer") & mine["name"].str.contains("-r")]
    plants = mine[mine["kind"] == "generators"]
    columns = [*shown["name"], *mechanical["name"].head(1)]
    extra = int(len(reserve) > 0) + int(len(plants) > 0)
    width = WIDTH * (len(columns) + extra) + 14
    intake = _at(rows, f"mv-{feed}")
    top, height = pen.y["intake"] - 30, pen.y["rack"] - pen.y["intake"] + 74
    pen.shapes.append(svg.element("rect", x=left - 10, y=top, width=width + 8, height=height, rx=6, cls="ol-room"))
    pen.words(left - 4, pen.y["rack"] + 38, f"Feed {feed}, room {intake['domain']}", "ol-head")
    pen.buses.append((left, pen.y["intake"], left + width - 24, pen.y["intake"]))
    text, cls = _load(intake)
    pen.words(
        left,
        pen.y["intake"] - 8,
        f"{intake['name']}  {intake['rating']:g} A, {intake['fault_ka']:.1f}/{intake['rating_ka']:g} kA  {text}",
        cls,
    )
    for number, name in enumerate(columns):
        _train(pen, plan, rows, mine, str(name), left + WIDTH * number + 34)
    idle = len(boards) - len(it) - int((~is_it & cooled).sum())
    bare = mine[(mine["kind"] == "transformer") & ~mine["name"].isin(boards["upstream"])]
    idle += len(bare) - len(reserve)
    said = [f"{len(shown)} of {len(it)} trains drawn; the others are like them"] if len(it) > len(shown) else []
    if idle:
        said.append(
            f"{idle} transformers stand idle, not drawn" if idle > 1 else "1 transformer stands idle, not drawn"
        )
    if said:
        pen.words(left, pen.y["rack"] + 22, "; ".join(said), "ol-soft")
    end = left + WIDTH * len(columns) + 34
    over = left + 34
    if len(reserve):
        row = reserve.iloc[0]
        pen.idle += [
            (end, pen.y["intake"], end, pen.y["reserve"]),
            (over + 14, pen.y["reserve"], end, pen.y["reserve"]),
        ]
        pen.transformer(end, pen.y["transformer"], _tip(row))
        pen.words(end + 14, pen.y["transformer"] - 2, f"{row['name']}", "ol-name")
        pen.words(end + 14, pen.y["transformer"] + 10, f"{len(reserve)} spare, {row['rating']:,.0f} kVA")
        for number in range(len(shown)):
            at = over + WIDTH * number + 14
            pen.idle.append((at, pen.y["reserve"], at, pen.y["switchboard"]))
        end += WIDTH
    if len(plants):
        row = plants.iloc[0]
        sets = mine[mine["kind"] == "generator"]
        pen.idle += [(end, pen.y["plant"] - 34, end, pen.y["plant"]), (over + 22, pen.y["plant"], end, pen.y["plant"])]
        pen.shapes.append(
            svg.element("circle", svg.title(_tip(row)), cx=end, cy=pen.y["plant"] - 46, r=12, cls="ol-sym")
        )
        pen.words(end, pen.y["plant"] - 42, "G", "ol-name ol-mid")
        text, cls = _load(row)
        pen.words(end + 16, pen.y["plant"] - 50, f"{len(sets)} x {sets['rating'].iloc[0]:,.0f} kW", "ol-name")
        pen.words(end + 16, pen.y["plant"] - 38, text, cls)
        for number in range(len(columns)):
            at = over + WIDTH * number + 22
            pen.idle.append((at, pen.y["plant"], at, pen.y["switchboard"]))
    return float(width)


def _feeding_cooling(mine: pd.DataFrame) -> set[str]:
    """Boards of a feed that have cooling behind them, with or without a UPS block between."""
    above = set(mine.loc[mine["kind"] == "mechanical", "upstream"])
    return above | set(mine.loc[(mine["kind"] == "ups") & mine["name"].isin(above), "upstream"])


def _fed_panels(mine: pd.DataFrame) -> set[str]:
    """UPS blocks of a feed that have panels behind them."""
    above = set(mine.loc[mine["kind"] == "panel", "upstream"])
    units = mine[(mine["kind"] == "pdu_transformer") & mine["name"].isin(above)]
    return above | set(units["upstream"])


def _train(pen: _Pen, plan: "Plan", rows: pd.DataFrame, mine: pd.DataFrame, board: str, x: float) -> None:
    """A transformer and what it feeds."""
    transformer, swb = _at(rows, str(_at(rows, board)["upstream"])), _at(rows, board)
    pen.wires.append((x, pen.y["intake"], x, pen.y["switchboard"]))
    pen.breaker(x, pen.y["intake"] + 18)
    pen.transformer(x, pen.y["transformer"], _tip(transformer))
    text, cls = _load(transformer)
    pen.words(x + 13, pen.y["transformer"] - 8, str(transformer["name"]), "ol-name")
    pen.words(x + 13, pen.y["transformer"] + 3, f"{transformer['rating']:,.0f} kVA")
    pen.words(x + 13, pen.y["transformer"] + 14, text, cls)
    pen.buses.append((x - 20, pen.y["switchboard"], x + 40, pen.y["switchboard"]))
    text, cls = _load(swb)
    pen.words(x + 5, pen.y["switchboard"] + 14, str(swb["name"]), "ol-name")
    pen.words(
        x + 5, pen.y["switchboard"] + 25, f"{swb['rating']:,.0f} A, {swb['fault_ka']:.0f}/{swb['rating_ka']:g} kA"
    )
    below = mine[mine["upstream"] == board]
    ups = below[below["kind"] == "ups"]
    if ups.empty:
        row = below.iloc[0]
        pen.wires.append((x, pen.y["switchboard"], x, pen.y["ups"] - 12))
        pen.box(x - 26, pen.y["ups"] - 12, 64, 26, _tip(row), "ol-box")
        pen.words(x - 20, pen.y["ups"] - 1, "Cooling", "ol-name")
        pen.words(x - 20, pen.y["ups"] + 10, f"{row['load_kw']:,.0f} kW")
        return
    beside = below.loc[below["kind"] == "mechanical", "load_kw"]
    if len(beside):
        pen.words(x + 5, pen.y["switchboard"] + 36, f"and cooling, {beside.sum():,.0f} kW")
    row = ups.iloc[int((ups["worst_kw"] / ups["limit_kw"]).to_numpy().argmax())]
    pen.wires.append((x, pen.y["switchboard"], x, pen.y["panel"] - 14))
    pen.box(x - 15, pen.y["ups"] - 13, 30, 26, _tip(row))
    pen.shapes.append(
        svg.element("path", cls="ol-wire", d=svg.segments([(x - 15, pen.y["ups"] + 13, x + 15, pen.y["ups"] - 13)]))
    )
    pen.words(x - 11, pen.y["ups"] - 2, "~")
    pen.words(x + 4, pen.y["ups"] + 10, "=")
    text, cls = _load(row)
    pen.words(x + 19, pen.y["ups"] - 4, str(row["name"]), "ol-name")
    pen.words(x + 19, pen.y["ups"] + 7, f"{row['rating']:,.0f} kW")
    pen.words(x + 19, pen.y["ups"] + 18, text, cls)
    if len(ups) > 1:
        pen.words(x + 19, pen.y["ups"] - 15, f"{len(ups)} blocks, fullest:")
    units = mine[(mine["kind"] == "pdu_transformer") & mine["upstream"].isin(ups["name"])]
    behind = set(ups["name"])
    if len(units):
        unit = units.iloc[0]
        pen.transformer(x, pen.y["pdu_transformer"], _tip(unit))
        pen.words(x + 13, pen.y["pdu_transformer"] - 4, f"{len(units)} x {unit['rating']:,.0f} kVA", "ol-name")
        text, cls = _load(unit)
        pen.words(x + 13, pen.y["pdu_transformer"] + 8, text, cls)
        behind = set(units["name"])
    panels = mine[(mine["kind"] == "panel") & mine["upstream"].isin(behind)]
    if panels.empty:
        pen.words(x - 20, pen.y["panel"], "cooling", "ol-soft")
        return
    circuits = rows[(rows["kind"] == "circuit") & rows["upstream"].isin(set(panels["name"]))]
    top = panels.iloc[int((panels["worst_kw"] / panels["limit_kw"]).to_numpy().argmax())]
    pen.box(x - 26, pen.y["panel"] - 14, 88, 40, _tip(top), "ol-box")
    noun = "busway" if plan.site.electrical and plan.site.electrical.panels.kind == "busway" else "panels"
    text, cls = _load(top)
    pen.words(x - 21, pen.y["panel"] - 2, f"{len(panels)} {noun}", "ol-name")
    pen.words(x - 21, pen.y["panel"] + 9, f"{top['rating']:g} A, {top['fault_ka']:.0f}/{top['rating_ka']:g} kA")
    pen.words(x - 21, pen.y["panel"] + 20, text, cls)
    pen.wires.append((x, pen.y["panel"] + 26, x, pen.y["rack"] - 12))
    pen.breaker(x, pen.y["rack"] - 18)
    racks = plan.circuits[plan.circuits["circuit"].isin(set(circuits["name"]))]["rack"].nunique()
    pen.words(x - 26, pen.y["rack"] + 2, f"{len(circuits)} circuits", "ol-name")
    pen.words(x - 26, pen.y["rack"] + 13, f"{racks} racks, {circuits['rating'].max():g} A")
