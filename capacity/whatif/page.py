"""The page of two plans: what differs, when to order instead, and the bill of materials line by line."""

from pathlib import Path

from capacity.outputs.report.template import environment
from capacity.outputs.tables import Table
from capacity.outputs.workbook import of_sheets
from capacity.whatif.compare import Comparison, number, verdict
from inventory.paths import write_file


def write(made: Comparison, path: Path) -> Path:
    """Write the page to `path` and the workbook beside it (compare.html.xlsx), replacing earlier ones."""
    write_file(path.with_name(f"{path.name}.xlsx"), workbook(made))
    return write_file(path, render(made))


def render(made: Comparison) -> str:
    """The page as text."""
    return (
        environment()
        .get_template("compare.html.j2")
        .render(
            made=made,
            sentences=verdict(made),
            figures=made.figures.to_dict("records"),
            differing=len(made.differing),
            orders=made.orders.to_dict("records"),
            dates=made.dates.astype(object).fillna("–").to_dict("records"),
            bom=made.bom.to_dict("records"),
            shown=lambda value: number(value) if isinstance(value, (int, float)) else str(value),
        )
    )


def workbook(made: Comparison) -> bytes:
    """The workbook of two plans."""
    about = Table.of([("A", made.name_a, made.hash_a), ("B", made.name_b, made.hash_b)], "", "Site", "Plan")
    return of_sheets(
        {
            "Plans": about,
            "Figures": Table(made.figures),
            "Order dates": Table(made.orders),
            "Schedule": Table(made.dates.astype(object).fillna("")),
            "Bill of materials": Table(made.bom),
        }
    )
