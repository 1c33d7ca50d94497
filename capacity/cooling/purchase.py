"""What the cooling adds to the bill of materials: air units, containment, plant, blanking panels, leak sensors and valves."""

from collections.abc import Mapping

import pandas as pd

from capacity.frames import BOM
from inventory.site import Site


def lines(site: Site, racks: pd.DataFrame, built: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Rows of the `bom` frame; distribution units are a line of capacity.bom already."""
    zones, figures = built["zones"], built["cooling_figures"]
    rows: list[tuple[str, str, int, str, str, str]] = []
    empty = int((racks["height_u"] - racks["used_u"]).clip(lower=0).sum())
    if site.cooling.kind == "air" and empty:
        rows.append(("blanking panel", "19 inch, 1U", empty, "each", "S106", "empty rack units of all racks"))
    air, given = zones[zones["kind"] == "air"], site.cooling.air
    if given is not None:
        step = {"in_row": "S101"}.get(given.kind, "S100")
        spare = f"{len(air)} zones, {site.cooling.n_plus} to spare in each"
        rows.append(("cooling unit", given.model, int(air["installed"].sum()), "each", step, spare))
        if given.tile is not None:
            tiles = given.tile.per_rack * len(racks)
            rows.append(
                ("floor tile", f"{given.tile.airflow_m3_s:g} m3/s", tiles, "each", "S099", "perforated, per rack")
            )
        if given.containment != "none":
            aisles = (
                (racks["row"].nunique() + 2) // 2 if given.containment == "hot" else racks["row"].nunique() // 2 + 1
            )
            rows.append(
                ("containment", f"{given.containment} aisle", int(aisles), "each", "S105", "doors, roof and end panels")
            )
    plant = site.cooling.plant
    if plant is not None:
        counts = figures[figures["item"] == "plant"].set_index("quantity")["value"]
        chillers, rejectors = (int(counts[f"{name} installed"]) for name in ("chillers", "towers or dry coolers"))
        if chillers and plant.chiller_kw:
            rows.append(("chiller", f"{plant.chiller_kw:g} kW", chillers, "each", "S114", "spare ones included"))
        what = "cooling tower" if plant.kind in ("chiller_tower", "tower") else "dry cooler"
        rows.append((what, f"{plant.reject_kw:g} kW", rejectors, "each", "S115", "spare ones included"))
    wet = zones[zones["kind"] == "liquid"]
    if len(wet):
        count = int(wet["racks"].sum())
        rows.append(
            ("manifold", "rack manifold pair with quick disconnects", count, "each", "S109", "liquid-cooled racks")
        )
        rows.append(("leak sensor", "rope, manifold and floor", 2 * count, "each", "S113", "two a liquid-cooled rack"))
        rows.append(
            ("shut-off valve", "motorised, supply and return", 2 * count, "each", "S113", "two a liquid-cooled rack")
        )
    return pd.DataFrame(rows, columns=list(BOM)).astype({"quantity": "int64"})
