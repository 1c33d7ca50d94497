"""Voltage between the UPS output and the racks: the states of the load flow, and what is lost on the way.

In: the network, the circuits, the places of panels. Out: flows, and findings POWER-FLOW and POWER-VOLTAGE-DROP. The load flow
itself: load_flow.py.
"""

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.least import Tried
from capacity.power import rooms
from capacity.power.rack import line_currents
from capacity.power.rack.budget import Power
from capacity.power.upstream import load_flow, panels, redistribution, single_failures
from capacity.power.upstream.network import Network
from capacity.worst import top_row
from inventory.findings import Finding, RemedyOf, finding, remedy
from inventory.site import Site
from inventory.site.sections.electrical import Electrical

Floats = npt.NDArray[np.float64]


def solved(
    net: Network, circuits: pd.DataFrame, at: panels.Layout, states: Floats, lost: list[tuple[str, ...]]
) -> tuple[load_flow.Flow, list[Finding]]:
    """The load flow, or POWER-FLOW where none exists: the voltage collapses before the load is carried."""
    from power_grid_model.errors import PowerGridError

    try:
        return load_flow.solve(net, circuits, at.length_m, states, lost, at.along_m), []
    except PowerGridError as error:
        size, rows = len(net.tree.elements), len(states)
        ends = np.full((rows, len(circuits)), np.nan)
        dead = load_flow.Flow(np.full((rows, size), np.nan), ends, ends, np.zeros((rows, size)))
        found = finding(
            "POWER-FLOW",
            "electrical",
            limit_source="site electrical.rack_conductor, electrical.panels.feeder",
            largest_circuit_kw=float(states.max(initial=0.0)),
            longest_m=float(at.length_m.max(initial=0.0)),
            words={"reason": str(error).strip().splitlines()[0].rstrip(".")},
            remedies=[remedy(fix="shorter"), remedy(fix="thicker"), remedy(fix="less-load")],
        )
        return dead, [found]


def flow_states(
    site: Site, net: Network, circuits: pd.DataFrame, power: Power, profile: str
) -> tuple[Floats, list[tuple[str, ...]]]:
    """Load of each leg of each circuit in kW (states, circuits, legs) with everything in order, with each feed lost and with
    each room lost that several feeds share, and the feeds lost.
    """
    feeds, of_feed = site.power.feeds, circuits["feed"].to_numpy(dtype=object)
    index = power.cord.frame["device_index"].to_numpy()
    after_w = power.cord.after_loss_w(power.fed["lost_w"].to_numpy(dtype=np.float64)[index])
    states, lost = [net.base_leg_kw()], [(), *((feed,) for feed in feeds)]
    for feed, watts in zip(feeds, after_w.T, strict=True):
        kw = line_currents.leg_watts(net.cord_leg, net.cord_circuit, watts / 1000, net.end_kw)
        states.append(np.where((of_feed == feed)[:, None], 0.0, kw))
    for room in rooms.shared_rooms(site):
        lost.append(tuple(feed for feed in feeds if rooms.room_of(site, feed) == room))
        dead = np.flatnonzero(np.isin(of_feed, lost[-1]))
        out = redistribution.redistribute(net, np.zeros(len(dead), dtype=np.int64), dead, 1)
        kw = net.base_leg_kw()
        kw[out.touched_circuit] = out.touched_leg_kw
        states.append(kw)
    return np.stack(states), lost


def branch_share(net: Network, study: single_failures.Study, states: Floats, at: panels.Layout) -> Floats:
    """Largest share of the voltage that the rack conductor of each circuit loses, in the states of the load flow and after any
    single failure.
    """
    every = np.arange(net.circuits)
    per_m = [study.circuit_drop_m, *(net.drop_per_m(kw, every) for kw in states)]
    return np.asarray(np.max(per_m, axis=0) * at.length_m, dtype=np.float64)


LESS_RESISTANCE = (0.8, 0.63, 0.5, 0.4, 0.31, 0.25)
"""Shares of the rack conductors' resistance that are tried in this order, to find the thinnest conductor that keeps the voltage.
From one cross-section of IEC 60228 to the next, the resistance falls to between 0.6 and 0.81 of what it was."""


def _thicker(electrical: Electrical, tried: Tried | None) -> list[RemedyOf]:
    """The largest resistance of the rack conductor, of those that are tried, with which the drop is within its limit."""
    if tried is None:
        return []
    for share in LESS_RESISTANCE:
        less = {"electrical.rack_conductor.r_ohm_km": float(f"{electrical.rack_conductor.r_ohm_km * share:.3g}")}
        made = tried.least(less, "POWER-VOLTAGE-DROP")
        if made is not None:
            return [remedy(made, fix="thicker")]
    return []


def check_drop(electrical: Electrical, elements: pd.DataFrame, tried: Tried | None = None) -> list[Finding]:
    """POWER-VOLTAGE-DROP: from the UPS output to the rack, on the worst line in the worst state. `tried` plans what-ifs; without it
    none are looked for.
    """
    ends = elements[elements["kind"] == "circuit"]
    over = ends[ends["drop_pct"] > electrical.max_drop_pct]
    if over.empty:
        return []
    worst = top_row(over, over["drop_pct"])
    return [
        finding(
            "POWER-VOLTAGE-DROP",
            str(worst["name"]),
            limit=electrical.max_drop_pct,
            limit_source="site electrical.max_drop_pct",
            drop_pct=round(float(worst["drop_pct"]), 3),
            count=len(over),
            remedies=[
                *_thicker(electrical, tried),
                remedy(fix="conductor", resistance_pct=math.floor(electrical.max_drop_pct / worst["drop_pct"] * 100)),
            ],
        )
    ]
