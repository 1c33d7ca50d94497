"""Tables of earlier imports: CSV files under `imports/` in the site's folder, as Bringup wrote them."""

import csv
import io
from pathlib import Path

import pandas as pd

from inventory.imports.source import ImportFault, decode


def load(folder: Path, name: str) -> pd.DataFrame | None:
    """The table `name` (imports/manifest.csv) of a site's folder as text; None where there is none."""
    path = folder / name
    if not path.exists():
        return None
    return parse(decode(path.read_bytes(), path), path)


def parse(text: str, path: Path) -> pd.DataFrame:
    """A table that `tables.csv_text` wrote. ImportFault for lines of another length: someone has edited it."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    for n, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise ImportFault(
                path, f"row {n} has {len(row)} cells and the headings are {len(rows[0])}", "import the file again"
            )
    return pd.DataFrame(rows[1:], columns=rows[0], dtype=str)
