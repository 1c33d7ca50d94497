"""The supply as arrays: tree, loads with their supplies, cords, legs and losses. What failures and load steps are worked out on."""

import functools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from capacity.power.rack import line_currents
from capacity.power.rack.distribution import Cords
from capacity.power.upstream.power_factor import PowerFactors
from capacity.power.upstream.tree import Tree
from inventory.site.sections.electrical import Electrical

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Groups:
    """Loads and their supplies, one row a load: `normal_w` and `lost_w` as the circuits are judged, `drop_w` what its
    supplies must still deliver, `needed` of `count` supplies, `rating_w` of one, `servers` GPU servers that it feeds. On
    `reduced_on` supplies or more, but too few for full load, it goes on at reduced performance (None, 0: no load, it does not).
    """

    names: npt.NDArray[np.object_]
    normal_w: Floats
    lost_w: Floats
    drop_w: Floats
    needed: Ints
    count: Ints
    rating_w: Floats
    servers: Ints
    reduced_on: Ints | None = None


UNITY = PowerFactors()


@dataclass(frozen=True, eq=False)
class Network:
    """What a failure is worked out on: tree, cords (load and circuit of each), own kW and usable kW of circuits, and the
    legs of cords (None: all even).
    """

    tree: Tree
    electrical: Electrical
    groups: Groups
    cord_load: Ints
    cord_circuit: Ints
    end_kw: Floats
    usable_kw: Floats
    mechanical_kw: float
    factors: PowerFactors = UNITY
    legs: line_currents.Legs | None = None

    @functools.cached_property
    def losses(self) -> "Losses":
        """What elements take besides their output."""
        tree, e = self.tree, self.electrical
        rating = tree.elements["rating"].to_numpy(dtype=np.float64)
        size = len(rating)
        efficiency, rated = np.ones(size), np.ones(size)
        no_load, load_loss, passes = np.zeros(size), np.zeros(size), np.ones(size, dtype=bool)
        efficiency[tree.rows("ups")] = e.ups_blocks.efficiency
        passes[tree.rows("generators")] = False
        for kind, facts in (("transformer", e.transformers), ("pdu_transformer", e.pdu_transformers)):
            if facts is not None:
                rows = tree.rows(kind)
                rated[rows] = np.maximum(rating[rows], 1.0) * self.factors.of(kind)
                no_load[rows], load_loss[rows] = facts.no_load_kw, facts.load_loss_kw
        return Losses(efficiency, rated, no_load, load_loss, passes)

    @property
    def circuits(self) -> int:
        """Number of rack circuits."""
        return len(self.end_kw)

    @property
    def cord_leg(self) -> Ints:
        """Leg of its circuit that each cord hangs on."""
        return self.legs.of_cord if self.legs is not None else np.full(len(self.cord_load), line_currents.EVEN)

    def base_leg_kw(self) -> Floats:
        """Load of each leg of each circuit with everything in order."""
        share = (self.groups.normal_w / np.maximum(self.groups.count, 1))[self.cord_load] / 1000
        return line_currents.leg_watts(self.cord_leg, self.cord_circuit, share, self.end_kw)

    def base_kw(self) -> Floats:
        """Load of each circuit with everything in order."""
        return np.asarray(self.base_leg_kw().sum(axis=1))

    def phase_a(self, leg_kw: Floats, circuit: Ints) -> tuple[Floats, Ints]:
        """Largest line current in A of each row, and its line."""
        if self.legs is None:
            return np.zeros(len(leg_kw)), np.zeros(len(leg_kw), dtype=np.int64)
        lines = self.legs.line_a(leg_kw * 1000, circuit)
        return lines.max(axis=1), lines.argmax(axis=1)

    @functools.cached_property
    def mains(self) -> tuple[Ints, Ints]:
        """(circuit, element) for each panel and PDU transformer whose lines carry the circuit: its own neutral point feeds it."""
        tree, every = self.tree, np.arange(self.circuits)
        above = tree.sources[tree.panel_of, 0]
        own = np.isin(above, tree.rows("pdu_transformer"))
        return np.concatenate([every, every[own]]), np.concatenate([tree.panel_of, above[own]])

    def main_a(self, leg_kw: Floats, element: Ints) -> tuple[Floats, Ints]:
        """Largest line current in A of panels or PDU transformers that carry these legs, and its line."""
        if self.legs is None:
            return np.zeros(len(leg_kw)), np.zeros(len(leg_kw), dtype=np.int64)
        volts = self.tree.elements["voltage_v"].to_numpy(dtype=np.float64)
        legs = replace(self.legs, volts=volts, phases=np.full(len(volts), 3))
        lines = legs.line_a(leg_kw * 1000, element)
        return lines.max(axis=1), lines.argmax(axis=1)

    def drop_per_m(self, leg_kw: Floats, circuit: Ints) -> Floats:
        """Voltage drop of each row over a metre of the rack conductor, as a share of the rated voltage, on its worst leg."""
        if self.legs is None:
            return np.zeros(len(leg_kw))
        branch = self.electrical.rack_conductor
        return self.legs.drop_share(leg_kw * 1000, circuit, complex(branch.r_ohm_km, branch.x_ohm_km) / 1000)


def network(
    tree: Tree,
    electrical: Electrical,
    groups: Groups,
    cord: Cords,
    end_w: Floats,
    usable_kw: Floats,
    mechanical_kw: float,
    factors: PowerFactors,
    legs: line_currents.Legs,
) -> Network:
    """The arrays of one site; cords as the plan made them, `end_w` the own draw of each circuit's end."""
    return Network(
        tree,
        electrical,
        groups,
        cord.frame["device_index"].to_numpy(dtype=np.int64),
        cord.frame["pdu_index"].to_numpy(dtype=np.int64),
        end_w / 1000,
        usable_kw,
        mechanical_kw,
        factors,
        legs,
    )


@dataclass(frozen=True, eq=False)
class Losses:
    """What each element takes from its source besides its output: efficiency, rated kW and losses of transformers (0: none).
    `passes` is False for a generator plant: its sets are its members, and carry nothing by themselves.
    """

    efficiency: Floats
    rated_kw: Floats
    no_load_kw: Floats
    load_loss_kw: Floats
    passes: Bools
