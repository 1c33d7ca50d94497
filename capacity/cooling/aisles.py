"""Aisles of the hall: which rows they lie between, cold or hot, their air and containment."""

import pandas as pd

from capacity.model import Plan


def aisle_layout(plan: Plan) -> pd.DataFrame:
    """One row an aisle (S098): what lies on either side and whether it is cold or hot, its air and its containment.

    Rows stand front to front and back to back: the aisle before the first row is cold, the next one hot, and so on. A row
    of its own has a cold aisle before it and a hot one behind.
    """
    given = plan.site.cooling.air
    heat = plan.zones[plan.zones["kind"] == "air"]
    used = sorted(int(row) for row in plan.racks["row"].unique())
    pitch = plan.site.room.row_pitch_m
    rows = []
    for aisle in range(used[-1] + 2 if used else 0):
        beside = [row for row in (aisle - 1, aisle) if row in used]
        role = "cold" if aisle % 2 == 0 else "hot"
        zone = heat[(heat["first_row"] <= beside[0]) & (heat["last_row"] >= beside[0])]
        closed = given is not None and given.containment == role
        rows.append(
            (
                f"aisle {aisle}",
                role,
                ", ".join(f"row {row}" for row in beside),
                (aisle - 0.5) * pitch,
                str(zone["zone"].iloc[0]) if len(zone) else "",
                "closed" if closed else "open",
                float(zone["supply_c" if role == "cold" else "return_c"].iloc[0]) if len(zone) else 0.0,
            )
        )
    return pd.DataFrame(rows, columns=["aisle", "role", "between", "y_m", "zone", "containment", "air_c"])
