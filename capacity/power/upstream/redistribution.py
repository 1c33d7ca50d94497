"""What the loads do when rack circuits are dead: supplies that are left take over, or the load goes dark.

In: the network, pairs of failure and dead circuit. Out: loads of the circuits that change, loads affected and those lost.

A load whose supplies are partly dead draws the same from those that are left, at most its power cap. It goes dark when fewer
are left than it needs, or when they deliver too little: then all of it is lost, and nothing of it stays on the other feeds.
A model that goes on at reduced performance on fewer supplies (psu.reduced_on of the catalogue) draws what these deliver.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from capacity.power.rack import line_currents
from capacity.power.upstream.network import Network

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Failures (rows) after redistribution. `touched` are (failure, circuit, kW of its legs after) of circuits whose load
    changed; `affected` (failure, load, supplies left); `dark` marks those of `affected` that are lost, `reduced` those that go on
    at reduced performance; `dead_ends_kw` is the own draw of the rack PDUs or shelves of each failure's dead circuits.
    """

    dead_circuits: Ints
    dead_ends_kw: Floats
    touched_failure: Ints
    touched_circuit: Ints
    touched_leg_kw: Floats
    affected_failure: Ints
    affected_load: Ints
    affected_left: Ints
    dark: Bools
    reduced: Bools

    @property
    def touched_kw(self) -> Floats:
        """Load of the whole circuit after."""
        return np.asarray(self.touched_leg_kw.sum(axis=1))


def expand(keys: Ints, order: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """(position in `keys`, member) for all members of each key, in a grouping given by `order` and `starts`."""
    sizes = starts[keys + 1] - starts[keys]
    position = np.repeat(np.arange(len(keys)), sizes)
    offset = np.arange(len(position)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return position, order[starts[keys][position] + offset]


def grouping(values: Ints, size: int) -> tuple[Ints, Ints]:
    """`order`, `starts` of a grouping of positions by value, for `expand`."""
    order = np.argsort(values, kind="stable")
    return order, np.searchsorted(values[order], np.arange(size + 1)).astype(np.int64)


def redistribute(net: Network, dead_failure: Ints, dead_circuit: Ints, failures: int) -> Outcome:
    """What the loads do when these circuits (pairs of failure and circuit) are dead."""
    groups, loads, circuits = net.groups, len(net.groups.count), net.circuits
    by_circuit, by_load = grouping(net.cord_circuit, circuits), grouping(net.cord_load, loads)
    position, dead_cord = expand(dead_circuit, *by_circuit)
    cord_failure = dead_failure[position]
    keys, lost = np.unique(cord_failure * loads + net.cord_load[dead_cord], return_counts=True)
    failure, load = keys // loads, keys % loads
    left = groups.count[load] - lost
    short = (left < groups.needed[load]) | (left * groups.rating_w[load] < groups.drop_w[load] - 1e-6)
    on = groups.reduced_on[load] if groups.reduced_on is not None else np.zeros(len(load), dtype=np.int64)
    reduced = short & (on > 0) & (left >= on)
    dark = short & ~reduced
    drawn_w = np.where(reduced, np.minimum(groups.lost_w[load], left * groups.rating_w[load]), groups.lost_w[load])

    at, cord = expand(load, *by_load)
    spot, spots = pd.factorize(
        np.concatenate([failure[at] * circuits + net.cord_circuit[cord], dead_failure * circuits + dead_circuit])
    )
    is_dead = np.zeros(len(spots), dtype=bool)
    is_dead[spot[len(at) :]] = True
    spot = spot[: len(at)]
    after = np.where(is_dead[spot] | dark[at], 0.0, (drawn_w / np.maximum(left, 1))[at])
    delta = (after - (groups.normal_w / np.maximum(groups.count, 1))[load][at]) / 1000
    slots = spot * line_currents.WIDTH + net.cord_leg[cord]
    change = np.bincount(slots, delta, minlength=len(spots) * line_currents.WIDTH).reshape(-1, line_currents.WIDTH)
    kw = net.base_leg_kw()[spots % circuits] + change
    kw[is_dead] = 0.0
    return Outcome(
        np.bincount(dead_failure, minlength=failures),
        np.bincount(dead_failure, net.end_kw[dead_circuit], minlength=failures).astype(np.float64),
        spots // circuits,
        spots % circuits,
        np.maximum(kw, 0.0),
        failure,
        load,
        left,
        dark,
        reduced,
    )
