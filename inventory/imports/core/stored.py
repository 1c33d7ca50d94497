"""Tables of earlier imports: CSV files under `imports/` in the site's folder, as Bringup wrote them."""

import csv
import hashlib
import io
from pathlib import Path

import pandas as pd

from inventory.imports.core.source import ImportFault, decode
from inventory.paths import MAX_TABLE, read_file

ROOT = "imports"


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file under `imports/` in a site's folder, by its path from there: what was delivered and read.

    A folder there has one of its own (`energy/`), over the names and hashes of its files: it changes with one more file.
    """
    root = folder / ROOT
    if not root.is_dir():
        return {}
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
    found = {
        path.relative_to(root).as_posix(): hashlib.sha256(read_file(path, MAX_TABLE)).hexdigest() for path in files
    }
    folders: dict[str, list[str]] = {}
    for name, digest in found.items():
        if "/" in name:
            folders.setdefault(name.split("/")[0] + "/", []).append(f"{digest} {name}\n")
    return found | {name: hashlib.sha256("".join(lines).encode()).hexdigest() for name, lines in folders.items()}


def load(folder: Path, name: str) -> pd.DataFrame | None:
    """The table `name` (imports/manifest.csv) of a site's folder as text; None where there is none."""
    path = folder / name
    if not path.exists():
        return None
    return parse(decode(read_file(path, MAX_TABLE), path), path)


def parse(text: str, path: Path) -> pd.DataFrame:
    """A table that `tables.csv_text` wrote. ImportFault for lines of another length: someone has edited it."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    for n, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise ImportFault(
                path, f"row {n} has {len(row)} cells and the headings are {len(rows[0])}", "import the file again"
            )
    return pd.DataFrame(rows[1:], columns=rows[0], dtype=str)
