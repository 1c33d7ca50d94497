"""Tables as files that people open in a spreadsheet: the one place where a text is kept from being calculated.

A cell whose text begins with = + - @, a tab or a line break is a formula to a spreadsheet. Such texts come with imported
files (names, notes, sources), so they get an apostrophe before them, which spreadsheets take for "this is text". Numbers are
numbers and stay so. (OWASP, CSV Injection.)
"""

import pandas as pd

_FIRST = ("=", "+", "-", "@", "\t", "\r", "\n")


def inert(frame: pd.DataFrame) -> pd.DataFrame:
    """`frame` with no text that a spreadsheet would calculate; the same object where there is none."""
    risky = {
        str(name): values.map(_escaped)
        for name, values in frame.items()
        if values.dtype.kind not in "iufbM" and values.astype("str").str.slice(0, 1).isin(_FIRST).any()
    }
    return frame.assign(**risky) if risky else frame


def _escaped(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FIRST) else value


def csv_text(frame: pd.DataFrame, head: str) -> str:
    """CSV after a comment line `head`."""
    return f"# {head}\n" + inert(frame).to_csv(index=False, lineterminator="\n")
