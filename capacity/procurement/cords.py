"""Lengths of power cords, from the place of each supply and the outlet that it takes.

    lengths(cords, outlets, placements, racks, catalog) -> metres of each cord, as they are sold

Up or down the rack between device and outlet, and across its back. The catalogue does not say where an outlet is on its PDU
nor from which end outlets are numbered: they are taken as spread evenly over the rack, and the longer of both directions
counts, so that no cord is too short.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from inventory.catalog import U_M, Catalog

SOLD_M = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Lengths of jumper cords in which distributors sell C13/C14 and C19/C20: not confirmed for a maker."""
SLACK_M = 0.3
"""Bend at both ends and a service loop: a rule of this suite, not confirmed."""


def lengths(
    cords: pd.DataFrame, outlets: pd.DataFrame, placements: pd.DataFrame, racks: pd.DataFrame, catalog: Catalog
) -> npt.NDArray[np.float64]:
    """Length of each of `cords` (device, psu, rack, pdu), metres; the longest of the rack for one without an outlet."""
    if cords.empty:
        return np.zeros(0)
    place = placements.drop_duplicates("device").set_index("device")[["u_bottom", "u_height"]]
    rack = racks.set_index("name")[["height_u", "model"]].reindex(cords["rack"])
    across = {slug: catalog.rack(slug) for slug in rack["model"].unique()}
    tall = rack["height_u"].to_numpy(dtype=np.float64)
    at = place.reindex(cords["device"])
    level = (at["u_bottom"] - 1 + at["u_height"] / 2).to_numpy(dtype=np.float64)
    used = outlets[outlets["device"] != ""].set_index(["device", "psu"])["outlet"]
    number = used.reindex(pd.MultiIndex.from_frame(cords[["device", "psu"]])).to_numpy(dtype=np.float64)
    each = float(outlets["outlet"].max()) if len(outlets) else 1.0
    from_bottom = (number - 0.5) / each * tall
    rise = np.maximum(np.abs(level - from_bottom), np.abs(level - (tall - from_bottom)))
    rise = np.where(np.isnan(rise), tall, rise)
    width = np.array([across[slug].outer_width / 1000 for slug in rack["model"]])
    sold = np.array(SOLD_M)
    needed = rise * U_M + width + SLACK_M
    return sold[np.minimum(np.searchsorted(sold, needed - 1e-9), len(sold) - 1)]
