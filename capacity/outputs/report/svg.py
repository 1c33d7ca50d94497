"""Small SVG helpers: elements as escaped strings, many lines as one path. Pure text, no I/O."""

from collections.abc import Iterable
from html import escape

Number = float | int


def number(value: Number) -> str:
    """A coordinate with at most one decimal: pictures stay small and diffs stay stable."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """One element. Attribute names use `_` for `-` and `cls` for `class`; numbers are rounded, text is escaped.

    `content` is markup that is already safe; pass plain text through `text()`.
    """
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None:
            continue
        key = "class" if name == "cls" else name.replace("_", "-")
        shown = number(value) if isinstance(value, (int, float)) else escape(str(value), quote=True)
        parts.append(f' {key}="{shown}"')
    return "".join(parts) + (f">{content}</{tag}>" if content else "/>")


def text(x: Number, y: Number, words: object, **attributes: object) -> str:
    """A text element at (x, y); `words` is escaped."""
    return element("text", escape(str(words)), x=x, y=y, **attributes)


def title(words: object) -> str:
    """The tooltip of the element that it is put into."""
    return f"<title>{escape(str(words))}</title>"


def segments(ends: Iterable[tuple[Number, Number, Number, Number]]) -> str:
    """The `d` attribute of one path that holds a straight line for each (x1, y1, x2, y2)."""
    return "".join(f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}" for x1, y1, x2, y2 in ends)


def picture(width: Number, height: Number, label: str, body: Iterable[str], cls: str = "") -> str:
    """An <svg> that scales with the page, with `label` as its accessible name."""
    return element(
        "svg",
        "".join(body),
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        role="img",
        aria_label=label,
        cls=cls or None,
    )
