"""Cables as they were installed: ``as_built.csv`` beside the site file, one line per cable, in the installer's words.

`cable_id` is that of the plan's cable schedule. `installed_on` is a day as YYYY-MM-DD. `serial` and `length_m` may be empty.
"""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pandas as pd

from inventory.delivered.assets import table, text_of
from inventory.site import Site

AS_BUILT_FILE = "as_built.csv"
ENDS = ("a_device", "a_port", "b_device", "b_port")
COLUMNS = ("cable_id", *ENDS, "part", "serial", "length_m", "installed_on", "installed_by")
MAY_BE_EMPTY = ("serial", "length_m")
MOST_LENGTH_M = 100_000.0


def load_as_built(site: Site) -> pd.DataFrame:
    """The cables of a site that were installed: index `cable_id`, columns as COLUMNS, all text but `length_m` (NaN where empty).

    Empty without the file. Raises AssetError for a missing column, an empty cell, a length or day that is none, and a cable, port
    or serial that is there twice.
    """
    path = site.dir / AS_BUILT_FILE
    text = text_of(path) if path.exists() else ",".join(COLUMNS) + "\n"
    return parse_as_built(text, path)


def parse_as_built(text: str, path: Path = Path(AS_BUILT_FILE)) -> pd.DataFrame:
    """The frame of ``load_as_built`` from CSV text; ``path`` is only named in messages."""
    frame = table(text, path, COLUMNS, _problems).set_index("cable_id")
    return frame.assign(length_m=pd.to_numeric(frame["length_m"], errors="coerce").astype(float))


def _problems(rows: list[list[str]]) -> Iterator[tuple[int, str]]:
    seen: dict[tuple[str, ...], int] = {}
    for n, row in enumerate(rows, start=2):
        if len(row) != len(COLUMNS):
            yield n, f"{len(row)} cells, expected {len(COLUMNS)} ({', '.join(COLUMNS)})"
            continue
        cells = dict(zip(COLUMNS, row, strict=True))
        name = cells["cable_id"] or "a cable"
        for column in COLUMNS:
            if not cells[column] and column not in MAY_BE_EMPTY:
                yield n, f"{name}: {column} is empty"
        if cells["length_m"] and not _is_length(cells["length_m"]):
            yield n, f"{name}: length_m {cells['length_m']!r} is no length in metres"
        if cells["installed_on"] and not _is_day(cells["installed_on"]):
            yield n, f"{name}: installed_on {cells['installed_on']!r} is no day as YYYY-MM-DD"
        once = [("cable", cells["cable_id"]), ("serial", cells["serial"])]
        once += [("port", f"{cells[f'{end}_device']}:{cells[f'{end}_port']}") for end in "ab"]
        for what, value in once:
            if value.strip(":") and (what, value) in seen:
                yield n, f"{name}: {what} {value} is already in line {seen[what, value]}"
            elif value.strip(":"):
                seen[what, value] = n


def _is_length(text: str) -> bool:
    try:
        return 0 < float(text) <= MOST_LENGTH_M
    except ValueError:
        return False


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
