"""The purchase as a workbook: bill of materials, order dates, activities, storage options. Excel (openpyxl).

purchase(plan) -> bytes      equal plans give the same cells; the first sheet names the site and the plan's hash
comparison(made) -> bytes    two plans: figures, order dates and the bill of materials line by line
"""

import datetime
import io
import re
import zipfile
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from capacity.model import Plan
from capacity.outputs.tables import Table
from capacity.procurement import programme
from capacity.procurement.bom import cost, estimated, ordered, unpriced

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

_EPOCH = datetime.datetime(2000, 1, 1)
_WIDEST = 60
BOM_COLUMNS: Mapping[str, str] = {
    "item": "Item",
    "model": "Model",
    "quantity": "Quantity",
    "spares": "Spares",
    "order": "To order",
    "unit": "Unit",
    "supplied_with": "Supplied with",
    "step": "Step",
    "owner": "Owner",
    "tranche": "Tranche",
    "order_by": "Order by",
    "lead_item": "Lead time of",
    "unit_price": "Unit price",
    "currency": "Currency",
    "cost": "Cost",
    "price_source": "Price from",
    "note": "Counted from",
    "spares_rule": "Spares from",
}


def bill(plan: Plan) -> pd.DataFrame:
    """The bill of materials as it is printed: `order` is what is bought, which is only the spares of what comes inside."""
    return plan.bom.assign(order=ordered(plan.bom))[list(BOM_COLUMNS)].pipe(_open_prices)


def _open_prices(shown: pd.DataFrame) -> pd.DataFrame:
    """Prices and costs that nobody gave stay empty: 0 would read as free of charge."""
    priced = shown["price_source"] != ""
    return shown.assign(unit_price=shown["unit_price"].where(priced), cost=shown["cost"].where(priced))


def purchase(plan: Plan) -> bytes:
    """The workbook of one plan."""
    live = programme.go_live(plan.activities)
    about = [
        ("Site", plan.label),
        ("Plan", plan.hash),
        ("What-if", "yes: not the site's own plan" if plan.site.changes else "no"),
        ("Needed on", plan.site.schedule.need_date.isoformat()),
        ("Go-live at P50", str(live["p50_finish"])),
        ("Go-live at P90", str(live["p90_finish"])),
        ("Cost of priced lines", f"{cost(plan.bom):,.2f} {plan.site.purchase.currency}"),
        ("Of it with estimated prices", f"{estimated(plan.bom):,.2f} {plan.site.purchase.currency}"),
        ("Lines without a price, not in the cost", str(unpriced(plan.bom))),
    ]
    work = plan.activities[plan.activities["kind"].isin(["lead", "work"])]
    return of_sheets(
        {
            "Purchase": Table.of(about, "", "Value"),
            "Bill of materials": Table(bill(plan), tuple(BOM_COLUMNS.values())),
            "Order dates": Table(plan.schedule),
            "Activities": Table(work),
            "Storage options": Table(plan.storage),
        }
    )


def of_sheets(sheets: Mapping[str, Table]) -> bytes:
    """A workbook with a sheet for each table, by name; cells that begin like a formula stay text."""
    from openpyxl import Workbook
    from openpyxl.styles import Font

    book = Workbook()
    if book.active is not None:
        book.remove(book.active)
    for name, table in sheets.items():
        frame = table.labelled
        sheet = book.create_sheet(name)
        sheet.append([str(column) for column in frame.columns])
        for row in frame.itertuples(index=False, name=None):
            sheet.append(
                [None if value != value else value.item() if hasattr(value, "item") else value for value in row]
            )
        _keep_text(sheet)
        for cell in sheet[1]:
            cell.font = Font(bold=True)
        sheet.freeze_panes = "A2"
        for letter, width in zip((c.column_letter for c in sheet[1]), _widths(frame), strict=True):
            sheet.column_dimensions[letter].width = width
        if len(frame):
            sheet.auto_filter.ref = f"A1:{sheet[1][-1].column_letter}{len(frame) + 1}"
    raw = io.BytesIO()
    book.save(raw)
    return _without_times(raw.getvalue())


def _keep_text(sheet: "Worksheet") -> None:
    """Text that begins like a formula stays text, as it is written: nothing in a site file or a quote is calculated."""
    for row in sheet.iter_rows():
        for cell in row:
            if cell.data_type == "f":
                cell.data_type = "s"


def _widths(frame: pd.DataFrame) -> Iterable[float]:
    for column in frame.columns:
        longest = max([len(str(column)), *(len(str(v)) for v in frame[column].head(200))])
        yield min(longest + 2, _WIDEST)


def _without_times(raw: bytes) -> bytes:
    """The same archive with fixed times, so that equal plans give equal files."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            body = old.read(name)
            if name == "docProps/core.xml":  # openpyxl puts the time of saving there
                body = re.sub(
                    rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*", rb"\g<1>" + _EPOCH.isoformat().encode() + b"Z", body
                )
            new.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0)), body, zipfile.ZIP_DEFLATED)
    return made.getvalue()
