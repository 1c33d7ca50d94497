"""Tables as people read them, in CSV, workbook, PDF and HTML: headings, how numbers are written, and which are numbers.

This is also the one place where a text is kept from being calculated.

A cell whose text begins with = + - @, a tab or a line break is a formula to a spreadsheet. Such texts come with imported
files (names, notes, sources), so they get an apostrophe before them, which spreadsheets take for "this is text". Numbers are
numbers and stay so. (OWASP, CSV Injection.)
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
from pyarrow import compute

_UNITS = {"a": "A", "kw": "kW", "ka": "kA", "v": "V", "m": "m"}
_FIRST = ("=", "+", "-", "@", "\t", "\r", "\n")
_FIRST_LETTERS = pa.array(_FIRST, type=pa.large_string())


class Head(NamedTuple):
    """What stands above a column; numbers stand on the right."""

    label: str
    numeric: bool


@dataclass(frozen=True)
class Table:
    """Rows for a reader.

    `headings` has one for each column, with '#' before that of a column of numbers; without them they follow from names
    and types of the columns. `digits` are those after the decimal point; None writes four significant ones.
    """

    frame: pd.DataFrame
    headings: tuple[str, ...] = ()
    digits: int | None = 1

    def __post_init__(self) -> None:
        if self.headings and len(self.headings) != len(self.frame.columns):
            raise ValueError(f"{len(self.headings)} headings for {len(self.frame.columns)} columns")

    @classmethod
    def of(cls, rows: Iterable[Sequence[str]], *headings: str) -> "Table":
        """A table of cells that are texts already."""
        return cls(pd.DataFrame(list(rows), columns=range(len(headings))), headings)

    @functools.cached_property
    def heads(self) -> list[Head]:
        """One a column."""
        if self.headings:
            return [Head(text.removeprefix("#"), text.startswith("#")) for text in self.headings]
        return [Head(words(str(name)), kind.kind in "if") for name, kind in self.frame.dtypes.items()]

    @property
    def labelled(self) -> pd.DataFrame:
        """The frame under its headings; under the names of its columns where it has none."""
        return self.frame.set_axis([head.label for head in self.heads], axis=1) if self.headings else self.frame

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Cells as text."""
        return [
            tuple(cell(value, self.digits) for value in row) for row in self.frame.itertuples(index=False, name=None)
        ]


def words(column: str) -> str:
    """'Load kW' for load_kw."""
    first, *parts = column.split("_")
    return " ".join([first.capitalize(), *(_UNITS.get(part, part) for part in parts)])


def cell(value: Any, digits: int | None) -> str:
    """A value as text: numbers with thousands separators, missing values as a dash."""
    if value is None or (not isinstance(value, (list, tuple)) and bool(pd.isna(value))):
        return "–"
    if isinstance(value, float):
        if digits is None:
            return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
        return f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def inert(frame: pd.DataFrame) -> pd.DataFrame:
    """`frame` with no text that a spreadsheet would calculate; the same object where there is none."""
    risky = {
        str(name): values.map(_escaped)
        for name, values in frame.items()
        if values.dtype.kind not in "iufbM" and _calculated(values)
    }
    return frame.assign(**risky) if risky else frame


def _calculated(values: pd.Series) -> bool:
    """Whether a spreadsheet would take one of the values for a formula; straight in Arrow, where pandas takes ten times as long."""
    texts = pa.array(
        values if isinstance(values.dtype, pd.StringDtype) else values.astype("str"), type=pa.large_string()
    )
    return bool(compute.any(compute.is_in(compute.utf8_slice_codeunits(texts, 0, 1), _FIRST_LETTERS)).as_py())


def _escaped(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FIRST) else value


def csv_text(frame: pd.DataFrame) -> str:
    """CSV with a row of headings and no comment, which a spreadsheet would take for the headings."""
    return inert(frame).to_csv(index=False, lineterminator="\n")
