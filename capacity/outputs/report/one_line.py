"""The one-line diagram of the supply: grid, intake, transformers, boards, UPS blocks, PDU transformers, panels, racks.

In: a plan with the frame `elements`. Out: an SVG, for the report or as a file of its own. A column a transformer; feeds
side by side; below each UPS block its panels as one box. Above COLUMNS trains a feed shows its first ones and says how
many are like them. Numbers beside a symbol: load and worst load in percent of its limit. Lines that carry nothing in the
normal state are dashed. Small squares are breakers; the feeder of the panels has its size and length beside it, and the
circuits of the racks the sizes of their breakers and conductors.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from capacity.model import Plan
from capacity.outputs.report import svg

COLUMNS = 24
"""Columns of the whole picture at most."""
LEGEND = (
    "Small squares: breakers. Dashed: carries nothing in the normal state.",
    "51 / 86 %: load and worst load in any single failure, of the limit.",
    "13/65 kA: fault level, and what the gear is rated for.",
)
LEGEND_PX = 12
"""Height of a line of the legend below the picture."""
WIDTH, EDGE, GAP, PAGE = 116, 128, 30, 1320
Y = {
    "utility": 34,
    "intake": 96,
    "transformer": 160,
    "reserve": 214,
    "plant": 232,
    "switchboard": 264,
    "ups": 334,
    "pdu_transformer": 404,
    "panel": 470,
    "rack": 540,
}
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


class _Supply:
    """The elements of a plan as rows, by name, by what feeds them, and by feed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        rows: list[Any] = list(plan.elements.itertuples(index=False))
        self.at: dict[str, Any] = {row.name: row for row in rows}
        self.kinds = {row.kind for row in rows}
        self._below: dict[str, list[Any]] = {}
        self._feeds: dict[str, list[Any]] = {}
        for row in rows:
            self._below.setdefault(row.upstream, []).append(row)
            self._feeds.setdefault(row.feed, []).append(row)
        self.racks = dict(zip(plan.circuits["circuit"], plan.circuits["rack"], strict=True))

    def below(self, kind: str, *above: str) -> list[Any]:
        """Elements of a kind that hang on these."""
        return [row for name in above for row in self._below.get(name, ()) if row.kind == kind]

    def of(self, feed: str, kind: str) -> list[Any]:
        """Elements of a kind on a feed."""
        return [row for row in self._feeds.get(feed, ()) if row.kind == kind]

    def racks_below(self, board: str) -> bool:
        """Whether a UPS block on this board has panels behind it, with or without PDU transformers between."""
        blocks = _names(self.below("ups", board))
        return bool(self.below("panel", *blocks, *_names(self.below("pdu_transformer", *blocks))))

    def cooling_below(self, board: str) -> bool:
        """Whether cooling hangs on this board, with or without a UPS block between."""
        return bool(self.below("mechanical", board, *_names(self.below("ups", board))))


def _names(rows: Iterable[Any]) -> list[str]:
    """Names of elements."""
    return [row.name for row in rows]


def _load(row: Any) -> tuple[str, str]:
    """'51 / 86 %' of the limit, normal and worst, and the class of the words."""
    if row.limit_kw <= 0:
        return "", "ol-soft"
    now, worst = row.load_kw / row.limit_kw * 100, row.worst_kw / row.limit_kw * 100
    return f"{now:.0f} / {worst:.0f} %" + (" over" if worst > 100 else ""), "ol-over" if worst > 100 else "ol-soft"


def _fullest(rows: list[Any]) -> Any:
    """The first of those whose worst load is the largest share of the limit."""
    return max(rows, key=lambda row: row.worst_kw / row.limit_kw if row.limit_kw else 0.0)


def _tip(row: Any) -> str:
    case = f" when {row.worst_case} is lost" if row.worst_case else ""
    fault = (
        f", fault {row.fault_ka:.1f} kA" + (f" of {row.rating_ka:g}" if row.rating_ka else "") if row.fault_ka else ""
    )
    return (
        f"{row.name}: {row.rating:g} {row.unit}, {row.load_kw:,.0f} kW of {row.limit_kw:,.0f}, worst "
        f"{row.worst_kw:,.0f}{case}{fault}"
    )


def draw(plan: Plan) -> str:
    """The SVG; '' where the site plans no supply. Feeds that do not fit side by side stand below each other."""
    strips, total, height = _strips(plan)
    if not strips:
        return ""
    drawn = [svg.element("style", STYLE)]
    for number, body in enumerate(strips):
        drawn.append(svg.element("g", body, transform=f"translate(0 {height * number})"))
    drawn += _legend(height * len(strips))
    tall = height * len(strips) + LEGEND_PX * len(LEGEND)
    return svg.picture(total, tall, f"One-line diagram of {plan.site.name}", drawn, cls="one-line")


def _legend(y: float) -> list[str]:
    """What the signs mean, from `y` down."""
    return [svg.text(4, y + LEGEND_PX * n + 8, line, cls="ol-soft") for n, line in enumerate(LEGEND)]


def pages(plan: Plan) -> list[str]:
    """The same, a picture for each strip of feeds: on A3 its letters are 3 mm high, however many feeds there are."""
    strips, total, height = _strips(plan)
    title, tall = f"One-line diagram of {plan.site.name}", height + LEGEND_PX * len(LEGEND)
    return [
        svg.picture(total, tall, title, [svg.element("style", STYLE), body, *_legend(height)], cls="one-line")
        for body in strips
    ]


def _strips(plan: Plan) -> tuple[list[str], float, float]:
    """Strips of feeds that fit side by side, as SVG, with the width and the height of each; none where no supply is planned."""
    if plan.elements.empty:
        return [], 0.0, 0.0
    supply = _Supply(plan)
    y = Y if "pdu_transformer" in supply.kinds else Y | {"panel": Y["panel"] - 66, "rack": Y["rack"] - 66}
    feeds = list(plan.site.power.feeds)
    each = max(COLUMNS // len(feeds), 4)
    strips: list[list[_Feed]] = [[]]
    for feed in (_Feed(supply, name, each) for name in feeds):
        if strips[-1] and EDGE + sum(other.width + GAP for other in strips[-1]) + feed.width > PAGE:
            strips.append([])
        strips[-1].append(feed)
    height = y["rack"] + 52
    total = max(EDGE + sum(feed.width + GAP for feed in strip) for strip in strips)
    drawn = []
    for strip in strips:
        pen, x, entries = _Pen(y), float(EDGE), []
        for feed in strip:
            _draw_feed(pen, supply, feed, x)
            entries.append((feed.name, x, feed.width))
            x += feed.width + GAP
        _grid(pen, supply, entries)
        for kind, label in (
            ("utility", "Grid"),
            ("intake", "Intake"),
            ("transformer", "Transformers"),
            ("switchboard", "Boards, transfer"),
            ("ups", "UPS blocks"),
            ("pdu_transformer", "PDU transformers"),
            ("panel", "Panels"),
            ("rack", "Racks"),
        ):
            if kind == "rack" or kind in supply.kinds:
                pen.words(4, y[kind] + 4, label, "ol-head")
        drawn.append("".join(pen.body()))
    return drawn, total, height


def _grid(pen: _Pen, supply: _Supply, entries: list[tuple[str, float, float]]) -> None:
    """The lines of the grid company above the intakes."""
    services = [row for row in supply.at.values() if row.kind == "utility"]
    for number, row in enumerate(services):
        level = pen.y["utility"] + 9 * number
        mine = [(x, w) for feed, x, w in entries if supply.at[f"mv-{feed}"].upstream == row.name]
        others = [(x, w) for feed, x, w in entries if row.name in supply.at[f"mv-{feed}"].alternates.split("; ")]
        reach = [x + w / 2 for x, w in mine + others] or [EDGE]
        text, cls = _load(row)
        pen.buses.append((min(reach) - 40, level, max(reach) + 20, level))
        pen.words(
            min(reach) - 40,
            pen.y["utility"] - 12 - 12 * (len(services) - 1 - number),
            f"{row.name}  {row.voltage_v / 1000:g} kV, {row.rating:g} MVA firm, {row.fault_ka:.1f} kA   {text}",
            cls,
        )
        for x, width in mine:
            pen.wires.append((x + width / 2, level, x + width / 2, pen.y["intake"]))
            pen.breaker(x + width / 2, pen.y["intake"] - 14)
        for x, width in others:
            shifted = x + width / 2 + 10 + 6 * number
            pen.idle.append((shifted, level, shifted, pen.y["intake"]))
            pen.breaker(shifted, pen.y["intake"] - 14)


class _Feed:
    """What of a feed is drawn: `shown` boards of IT, then one of cooling; spare transformers and plants in columns beside."""

    def __init__(self, supply: _Supply, feed: str, each: int) -> None:
        boards = supply.of(feed, "switchboard")
        transformers = supply.of(feed, "transformer")
        self.name = feed
        self.it = [row for row in boards if supply.racks_below(row.name)]
        fed = set(_names(self.it))
        cooling = [row for row in boards if row.name not in fed and supply.cooling_below(row.name)]
        self.shown = self.it[: max(each - len(cooling[:1]) - 1, 1)]
        self.columns = _names([*self.shown, *cooling[:1]])
        self.reserve = [row for row in transformers if "-r" in row.name]
        self.plants, self.sets = supply.of(feed, "generators"), supply.of(feed, "generator")
        above = {row.upstream for row in boards}
        bare = [row for row in transformers if row.name not in above]
        self.idle = len(boards) - len(self.it) - len(cooling) + len(bare) - len(self.reserve)
        self.width = float(WIDTH * (len(self.columns) + bool(self.reserve) + bool(self.plants)) + 14)


def _draw_feed(pen: _Pen, supply: _Supply, feed: _Feed, left: float) -> None:
    """One feed from its intake down."""
    intake = supply.at[f"mv-{feed.name}"]
    top, height = pen.y["intake"] - 30, pen.y["rack"] - pen.y["intake"] + 74
    pen.shapes.append(svg.element("rect", x=left - 10, y=top, width=feed.width + 8, height=height, rx=6, cls="ol-room"))
    pen.words(left - 4, pen.y["rack"] + 38, f"Feed {feed.name}, room {intake.domain}", "ol-head")
    pen.buses.append((left, pen.y["intake"], left + feed.width - 24, pen.y["intake"]))
    text, cls = _load(intake)
    pen.words(
        left,
        pen.y["intake"] - 8,
        f"{intake.name}  {intake.rating:g} A, {intake.fault_ka:.1f}/{intake.rating_ka:g} kA  {text}",
        cls,
    )
    for number, board in enumerate(feed.columns):
        _train(pen, supply, board, left + WIDTH * number + 34)
    said = []
    if len(feed.it) > len(feed.shown):
        said.append(f"{len(feed.shown)} of {len(feed.it)} trains drawn; the others are like them")
    if feed.idle:
        said.append(
            f"{feed.idle} transformers stand idle, not drawn"
            if feed.idle > 1
            else "1 transformer stands idle, not drawn"
        )
    if said:
        pen.words(left, pen.y["rack"] + 22, "; ".join(said), "ol-soft")
    end = left + WIDTH * len(feed.columns) + 34
    over = left + 34
    if feed.reserve:
        row = feed.reserve[0]
        pen.idle += [
            (end, pen.y["intake"], end, pen.y["reserve"]),
            (over + 14, pen.y["reserve"], end, pen.y["reserve"]),
        ]
        pen.transformer(end, pen.y["transformer"], _tip(row))
        pen.words(end + 14, pen.y["transformer"] - 2, row.name, "ol-name")
        pen.words(end + 14, pen.y["transformer"] + 10, f"{len(feed.reserve)} spare, {row.rating:,.0f} kVA")
        for number in range(len(feed.shown)):
            at = over + WIDTH * number + 14
            pen.idle.append((at, pen.y["reserve"], at, pen.y["switchboard"]))
            pen.breaker(at, pen.y["switchboard"] - 25)
        end += WIDTH
    if feed.plants:
        row = feed.plants[0]
        pen.idle += [(end, pen.y["plant"] - 34, end, pen.y["plant"]), (over + 22, pen.y["plant"], end, pen.y["plant"])]
        pen.shapes.append(
            svg.element("circle", svg.title(_tip(row)), cx=end, cy=pen.y["plant"] - 46, r=12, cls="ol-sym")
        )
        pen.words(end, pen.y["plant"] - 42, "G", "ol-name ol-mid")
        text, cls = _load(row)
        pen.words(end + 16, pen.y["plant"] - 50, f"{len(feed.sets)} x {feed.sets[0].rating:,.0f} kW", "ol-name")
        pen.words(end + 16, pen.y["plant"] - 38, text, cls)
        pen.breaker(end, pen.y["plant"] - 18)
        for number in range(len(feed.columns)):
            at = over + WIDTH * number + 22
            pen.idle.append((at, pen.y["plant"], at, pen.y["switchboard"]))
            pen.breaker(at, pen.y["switchboard"] - 14)


def _train(pen: _Pen, supply: _Supply, board: str, x: float) -> None:
    """A transformer and what it feeds."""
    swb = supply.at[board]
    transformer = supply.at[swb.upstream]
    pen.wires.append((x, pen.y["intake"], x, pen.y["switchboard"]))
    pen.breaker(x, pen.y["intake"] + 18)
    pen.transformer(x, pen.y["transformer"], _tip(transformer))
    text, cls = _load(transformer)
    pen.words(x + 13, pen.y["transformer"] - 8, transformer.name, "ol-name")
    pen.words(x + 13, pen.y["transformer"] + 3, f"{transformer.rating:,.0f} kVA")
    pen.words(x + 13, pen.y["transformer"] + 14, text, cls)
    pen.buses.append((x - 20, pen.y["switchboard"], x + 40, pen.y["switchboard"]))
    pen.breaker(x, pen.y["switchboard"] - 14)
    text, cls = _load(swb)
    pen.words(x + 5, pen.y["switchboard"] + 14, board, "ol-name")
    pen.words(x + 5, pen.y["switchboard"] + 25, f"{swb.rating:,.0f} A, {swb.fault_ka:.0f}/{swb.rating_ka:g} kA")
    cooling, ups = supply.below("mechanical", board), supply.below("ups", board)
    if not ups:
        row = cooling[0]
        pen.wires.append((x, pen.y["switchboard"], x, pen.y["ups"] - 12))
        pen.breaker(x, pen.y["ups"] - 22)
        pen.box(x - 26, pen.y["ups"] - 12, 64, 26, _tip(row), "ol-box")
        pen.words(x - 20, pen.y["ups"] - 1, "Cooling", "ol-name")
        pen.words(x - 20, pen.y["ups"] + 10, f"{row.load_kw:,.0f} kW")
        return
    if cooling:
        pen.words(x + 5, pen.y["switchboard"] + 36, f"and cooling, {sum(row.load_kw for row in cooling):,.0f} kW")
    row = _fullest(ups)
    pen.breaker(x, pen.y["ups"] - 22)
    pen.wires.append((x, pen.y["switchboard"], x, pen.y["panel"] - 14))
    pen.box(x - 15, pen.y["ups"] - 13, 30, 26, _tip(row))
    pen.shapes.append(
        svg.element("path", cls="ol-wire", d=svg.segments([(x - 15, pen.y["ups"] + 13, x + 15, pen.y["ups"] - 13)]))
    )
    pen.words(x - 11, pen.y["ups"] - 2, "~")
    pen.words(x + 4, pen.y["ups"] + 10, "=")
    text, cls = _load(row)
    pen.words(x + 19, pen.y["ups"] - 4, row.name, "ol-name")
    pen.words(x + 19, pen.y["ups"] + 7, f"{row.rating:,.0f} kW")
    pen.words(x + 19, pen.y["ups"] + 18, text, cls)
    if len(ups) > 1:
        pen.words(x + 19, pen.y["ups"] - 15, f"{len(ups)} blocks, fullest:")
    units = supply.below("pdu_transformer", *_names(ups))
    if units:
        pen.transformer(x, pen.y["pdu_transformer"], _tip(units[0]))
        pen.words(x + 13, pen.y["pdu_transformer"] - 4, f"{len(units)} x {units[0].rating:,.0f} kVA", "ol-name")
        text, cls = _load(units[0])
        pen.words(x + 13, pen.y["pdu_transformer"] + 8, text, cls)
    panels = supply.below("panel", *_names(units or ups))
    if not panels:
        pen.words(x - 20, pen.y["panel"], "cooling", "ol-soft")
        return
    circuits = supply.below("circuit", *_names(panels))
    top = _fullest(panels)
    pen.box(x - 26, pen.y["panel"] - 14, 88, 40, _tip(top), "ol-box")
    electrical = supply.plan.site.electrical
    noun = "busway" if electrical and electrical.panels.kind == "busway" else "panels"
    text, cls = _load(top)
    pen.breaker(x, pen.y["panel"] - 24)
    if electrical is not None:
        feeder = electrical.panels.feeder
        metres = f", {feeder.length_m:g} m" if feeder.length_m else ""
        pen.words(x + 7, pen.y["panel"] - 20, f"{feeder.size}{metres}")
    pen.words(x - 21, pen.y["panel"] - 2, f"{len(panels)} {noun}", "ol-name")
    pen.words(x - 21, pen.y["panel"] + 9, f"{top.rating:g} A, {top.fault_ka:.0f}/{top.rating_ka:g} kA")
    pen.words(x - 21, pen.y["panel"] + 20, text, cls)
    pen.wires.append((x, pen.y["panel"] + 26, x, pen.y["rack"] - 12))
    pen.breaker(x, pen.y["rack"] - 18)
    if electrical is not None:
        pen.words(x + 7, pen.y["rack"] - 14, electrical.rack_conductor.size)
    racks = len({supply.racks[row.name] for row in circuits if row.name in supply.racks})
    pen.words(x - 26, pen.y["rack"] + 2, f"{len(circuits)} circuits, {racks} racks", "ol-name")
    pen.words(x - 26, pen.y["rack"] + 13, breakers_by_size([row.rating for row in circuits]))


def breakers_by_size(ratings: list[float]) -> str:
    """'60 A', or '15x60, 3x20 A' where breakers differ: how many of each size, the largest first."""
    counts = sorted(Counter(ratings).items(), reverse=True)
    if len(counts) == 1:
        return f"{counts[0][0]:g} A"
    return ", ".join(f"{count}x{rating:g}" for rating, count in counts) + " A" if counts else ""
