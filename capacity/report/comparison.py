"""The page of two plans: what differs, when to order instead, and the bill of materials line by line."""

from pathlib import Path

from capacity.compare import Comparison, number, verdict


def write(made: Comparison, path: Path) -> Path:
    """Write the page to `path` and the workbook beside it, replacing earlier ones."""
    from capacity import workbook

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(made), encoding="utf-8")
    path.with_suffix(".xlsx").write_bytes(workbook.comparison(made))
    return path


def render(made: Comparison) -> str:
    """The page as text."""
    from capacity.report import environment

    return (
        environment()
        .get_template("compare.html.j2")
        .render(
            made=made,
            sentences=verdict(made),
            figures=made.figures.to_dict("records"),
            differing=len(made.differing),
            orders=made.orders.to_dict("records"),
            dates=made.dates.fillna("–").to_dict("records"),
            bom=made.bom.to_dict("records"),
            shown=lambda value: number(value) if isinstance(value, (int, float)) else str(value),
        )
    )
