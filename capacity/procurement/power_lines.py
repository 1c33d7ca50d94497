"""What the supply adds to the bill of materials: switchgear, transformers, generators, panels, conductors, busway, batteries
and labels.

Its UPS modules are a line of capacity.procurement.bom, since a site without a section `electrical` has them too.
"""

import math

import pandas as pd

from capacity.power.upstream.existing_plant import NONE, Standing
from capacity.procurement.bom import Line
from inventory.site import Site

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


def lines(elements: pd.DataFrame, standing: Standing = NONE) -> list[Line]:
    """Lines of the bill, from the plan's frame `elements` or from
    capacity.power.upstream.existing_plant.planned; none without a planned
    supply. Existing equipment is not bought.
    """
    found = []
    for kind, (item, step, note) in _ITEMS.items():
        kept = standing.kinds.get(kind, 0)
        mine = elements[(elements["kind"] == kind) & ~elements["name"].isin(standing.names)]
        found += _counted(mine, item, step, f"{note}; beside {kept} that stand there" if kept else note)
    buses = set(elements.loc[elements["kind"] == _BUS, "name"])
    boards = elements[elements["kind"] == "switchboard"]
    behind = boards["alternates"].map(lambda names: not buses.isdisjoint(names.split("; "))).astype(bool)
    switched = boards[behind & ~boards["name"].isin(standing.switched)]
    return found + _counted(switched, "transfer switch", "S081", "one per switchboard with generators behind it")


def wiring(site: Site, circuits: pd.DataFrame, elements: pd.DataFrame, racks: pd.DataFrame) -> list[Line]:
    """Feeders of the panels, conductors of the rack circuits and busway, in metres of run; nothing without a planned supply.

    The same lengths as in the voltage drop. One metre of run holds the phase conductors and, as the code asks, neutral and
    protective earth.
    """
    e = site.electrical
    if e is None or elements.empty:
        return []
    panels, busway = int((elements["kind"] == "panel").sum()), e.panels.kind == "busway"
    feeder_m = math.ceil(panels * (e.panels.feeder.length_m or 0.0))
    branch_m = branches_m(site, elements, circuits, racks)
    run = "metres of run"
    found = [
        Line(
            "busway" if busway else "conductor",
            e.panels.feeder.size,
            feeder_m,
            "S082",
            f"{run}: feeders of {panels} {'busway runs' if busway else 'panels'}",
            unit="m",
        ),
        Line(
            "conductor",
            e.rack_conductor.size,
            math.ceil(float(branch_m.sum())),
            "S082",
            f"{run}: {len(circuits)} rack circuits",
            unit="m",
        ),
    ]
    if busway:
        metres = math.ceil(_busway_m(site, circuits, elements, racks))
        found.append(
            Line(
                "busway",
                f"{e.panels.rating_a:g} A, plug-in",
                metres,
                "S082",
                "from the head of the row along each run",
                unit="m",
            )
        )
        sizes = circuits.groupby(["breaker_a", "phases"], sort=True).size().reset_index(name="quantity")
        for breaker_a, phases, quantity in sizes.itertuples(index=False, name=None):
            model = f"{breaker_a:g} A, {phases}-phase"
            found.append(Line("tap-off box", model, int(quantity), "S082", "one per rack circuit"))
    return found


def branches_m(site: Site, elements: pd.DataFrame, circuits: pd.DataFrame, racks: pd.DataFrame) -> pd.Series:
    """Conductor of each rack circuit, m: from its panel, or from its tap-off box where busway runs from the row's head."""
    assert site.electrical is not None
    whole = elements.set_index("name")["conductor_m"].reindex(circuits["circuit"])
    if site.electrical.panels.kind != "busway":
        return whole
    return whole - racks.set_index("name")["x_m"].reindex(circuits["rack"]).to_numpy()


def _busway_m(site: Site, circuits: pd.DataFrame, elements: pd.DataFrame, racks: pd.DataFrame) -> float:
    """Busway above the racks: of each run, in each row, from the head of the row, as in the voltage drop, past the last rack
    that hangs on it.
    """
    run = elements.set_index("name")["upstream"].reindex(circuits["circuit"]).to_numpy()
    place = racks.set_index("name")[["row", "x_m"]].reindex(circuits["rack"])
    ends_m = place.assign(run=run).groupby(["run", "row"])["x_m"].max() + site.room.rack_pitch_m / 2
    return float(ends_m.sum())


def batteries(site: Site, elements: pd.DataFrame, standing: Standing = NONE) -> list[Line]:
    """A battery for each UPS block that does not stand there; its strings are its maker's choice."""
    blocks = int((elements["kind"] == "ups").sum()) - standing.kinds.get("ups", 0) if len(elements) else 1
    if not site.ups.autonomy_min or not blocks:
        return []
    note = "one per UPS block; strings and cells per its data sheet"
    return [Line("ups battery", f"{site.ups.autonomy_min:g} min at full load", blocks, "S078", note, unit="set")]


def labels(outlets: pd.DataFrame, circuits: pd.DataFrame, elements: pd.DataFrame) -> list[Line]:
    """Power labels, as many as their document has rows."""
    quantity = labelled(outlets, circuits, elements)
    return [Line("label", "power", quantity, "S089", "cords, circuits and elements above them, as in power-labels.csv")]


def _counted(elements: pd.DataFrame, item: str, step: str, note: str) -> list[Line]:
    """A line per rating and voltage."""
    sizes = elements.groupby(["rating", "unit", "voltage_v"], sort=False).size().reset_index(name="quantity")
    return [
        Line(item, f"{row['rating']:g} {row['unit']}, {_voltage(row['voltage_v'])}", int(row["quantity"]), step, note)
        for row in sizes.to_dict("records")
    ]


def _voltage(volts: float) -> str:
    return f"{volts / 1000:g} kV" if volts >= 1000 else f"{volts:g} V"


def labelled(outlets: pd.DataFrame, circuits: pd.DataFrame, elements: pd.DataFrame) -> int:
    """Rows of `power_labels`, without their texts."""
    return int((outlets["device"] != "").sum()) + len(circuits) + int((elements["kind"] != "circuit").sum())
