"""What the supply above the racks adds to the bill of materials: switchgear, transformers, generators and panels.

Its UPS modules are a line of capacity.bom, since a site without a section `electrical` has them too.
"""

import pandas as pd

from capacity.bom import Line

_ITEMS = {
    "intake": ("medium voltage switchgear", "S076", "one line-up a feed"),
    "transformer": ("transformer", "S077", "reserve ones included"),
    "switchboard": ("switchboard", "S077", "one behind each transformer in service"),
    "generator": ("generator", "S080", "spare ones included"),
    "pdu_transformer": ("pdu transformer", "S083", "at the voltage of the racks"),
    "panel": ("panel", "S083", "remote power panels or busway runs"),
}
"""Kind of element: item of the bill, its step, and what is counted."""
_BUS = "generators"


def lines(elements: pd.DataFrame) -> list[Line]:
    """Lines of the bill, from the plan's frame `elements`; none without a planned supply."""
    found = []
    for kind, (item, step, note) in _ITEMS.items():
        found += _counted(elements[elements["kind"] == kind], item, step, note)
    buses = set(elements.loc[elements["kind"] == _BUS, "name"])
    boards = elements[elements["kind"] == "switchboard"]
    behind = boards["alternates"].map(lambda names: not buses.isdisjoint(names.split("; "))).astype(bool)
    switched = boards[behind]
    return found + _counted(switched, "transfer switch", "S081", "one per switchboard with generators behind it")


def _counted(elements: pd.DataFrame, item: str, step: str, note: str) -> list[Line]:
    """A line per rating and voltage."""
    sizes = elements.groupby(["rating", "unit", "voltage_v"], sort=False).size().reset_index(name="quantity")
    return [
        Line(item, f"{row['rating']:g} {row['unit']}, {_voltage(row['voltage_v'])}", int(row["quantity"]), step, note)
        for row in sizes.to_dict("records")
    ]


def _voltage(volts: float) -> str:
    return f"{volts / 1000:g} kV" if volts >= 1000 else f"{volts:g} V"
