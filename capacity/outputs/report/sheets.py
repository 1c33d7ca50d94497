"""Pictures as drawings of their own: paper colours that every viewer knows, and a title block that prints.

In: a picture as the report shows it, and the plan. Out: SVG text. Colours of the report are CSS variables, which viewers of
drawings and PDF writers do not know: they are replaced by those of the light theme here.
"""

import re
from functools import cache
from html import escape
from pathlib import Path

from capacity.model import Plan
from capacity.outputs.report import svg

HERE = Path(__file__).parent
BLOCK_PX, LEAST_PX = 64, 620
_VARIABLE = re.compile(r"var\(--([a-z-]+)(?:,[^()]*)?\)")


@cache
def palette() -> dict[str, str]:
    """Colours of the light theme by name."""
    root = (HERE / "page.css").read_text().split("}", 1)[0]
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6})", root))


def resolved(text: str) -> str:
    """`text` with the colours themselves instead of their names."""
    return _VARIABLE.sub(lambda found: palette()[found[1]], text)


@cache
def picture_style() -> str:
    """Rules of the report's pictures."""
    return (HERE / "pictures.css").read_text()


def inputs_as_of(plan: Plan) -> str:
    """Date of the newest lead time of the site file, ISO; '' without any. The plan itself has no date."""
    return max((item.as_of.isoformat() for item in plan.site.leadtimes.values()), default="")


def stamp(plan: Plan) -> str:
    """The site, and what makes its plan unlike others."""
    as_of = inputs_as_of(plan)
    what_if = f", what-if {', '.join(plan.site.changes)}" if plan.site.changes else ""
    return f"site {plan.site.name}{what_if}" + (f", inputs as of {as_of}" if as_of else "")


def size_px(picture: str) -> tuple[float, float]:
    """Width and height of a picture."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)[0]
    return float(width), float(height)


def sheet(
    plan: Plan, picture: str, drawing: str, style: str = "", beside: tuple[str, ...] = (), block: bool = True
) -> str:
    """`picture` as a drawing: `beside` are lines of text to the right of it; below stands the title block, which a printed
    page has of its own (`block` False).
    """
    width, height = size_px(picture)
    whole = max(width + (360 if beside else 0), LEAST_PX)
    inner = picture.replace(
        f' width="{svg.number(width)}"', f' width="{svg.number(width)}" height="{svg.number(height)}"', 1
    )
    lines = [svg.text(width + 20, 24 + 15 * i, line) for i, line in enumerate(beside)]
    tall = max(height, 24 + 15 * len(beside))
    title = [
        svg.element("rect", x=0.5, y=tall + 8, width=whole - 1, height=BLOCK_PX - 9, cls="sheet-block"),
        svg.text(12, tall + 26, drawing, cls="sheet-name"),
        svg.text(12, tall + 42, stamp(plan)),
        svg.text(12, tall + 56, f"plan {plan.hash}", cls="sheet-hash"),
    ]
    total = tall + BLOCK_PX if block else tall
    size = f'viewBox="0 0 {svg.number(whole)} {svg.number(total)}" width="{svg.number(whole)}" height="{svg.number(total)}"'
    words = svg.title(f"{drawing}, {stamp(plan)}, plan {plan.hash}")
    rules = f"<style>{picture_style()}{_STYLE}{escape(style, quote=False)}</style>"
    paper = '<rect width="100%" height="100%" fill="var(--paper)"/>' if block else ""
    body = "".join([words, rules, paper, inner, *lines, *(title if block else [])])
    return resolved(f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{body}</svg>\n')


_STYLE = """
.sheet-block { fill: none; stroke: var(--ink); stroke-width: 1 } svg text.sheet-name { font-weight: 600; font-size: 14px }
svg text.sheet-hash { font-family: "DejaVu Sans Mono", monospace; font-size: 10px }
"""
