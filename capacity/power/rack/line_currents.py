"""Line currents of rack circuits from what hangs on each of their legs.

In: watts of each leg of a circuit. A leg is a phase to neutral (L1, L2, L3) or two lines (L1-L2, L2-L3, L3-L1), as the
outlet map says; what has no outlet of its own (a power shelf, the draw of a rack PDU itself) lies evenly on all three lines.
Out: amperes of L1, L2 and L3.

Phase to neutral I = P / (pf U / sqrt3). Between lines each leg draws P / (pf U), and a line carries two legs at 120 degrees:
I = sqrt(a^2 + b^2 + a b).

Voltage drop of a leg over a conductor: phase to neutral I_line Z + I_neutral Z, with the neutral current as the vector sum of
the line currents, in a neutral of the phases' size; between lines I_line1 Z - I_line2 Z. Its part along the leg's own voltage
counts, as in dU = I (R cos + X sin) of IEC 60364-5-52 annex G.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LINES = ("L1", "L2", "L3")
EVEN = 3
"""Leg of what lies evenly on all three lines."""
WIDTH = 4
_TURN = np.exp(2j * np.pi / 3)
_LEG = {"L1": 0, "L2": 1, "L3": 2, "L1-L2": 0, "L2-L3": 1, "L3-L1": 2}


@dataclass(frozen=True, eq=False)
class Legs:
    """Leg of each cord (`of_cord`), whether legs lie between two lines, and of each circuit the voltage and phases."""

    of_cord: Ints
    between_lines: bool
    volts: Floats
    phases: Ints
    power_factor: float

    def of(self, cords: Ints | npt.NDArray[np.bool_], circuits: Ints | slice = slice(None)) -> "Legs":
        """The legs of some cords and of the circuits that these hang on."""
        return Legs(
            self.of_cord[cords], self.between_lines, self.volts[circuits], self.phases[circuits], self.power_factor
        )

    def line_a(self, watts: Floats, circuit: Ints | slice = slice(None)) -> Floats:
        """Currents (rows, lines) for `watts` (rows, legs) of each `circuit`; a single-phase circuit has all on L1."""
        full = self.power_factor * self.volts[circuit][:, None]
        legs = watts[:, :EVEN] / full
        if self.between_lines:
            a, b, c = legs.T
            lines = np.sqrt(np.column_stack([a**2 + c**2 + a * c, a**2 + b**2 + a * b, b**2 + c**2 + b * c]))
        else:
            lines = legs * np.sqrt(3)
        lines = lines + watts[:, EVEN:] / full / np.sqrt(3)
        alone = np.column_stack([watts.sum(axis=1), np.zeros((len(watts), 2))]) / full
        return np.where((self.phases[circuit] == 1)[:, None], alone, lines)

    def drop_share(self, watts: Floats, circuit: Ints | slice, ohm: complex) -> Floats:
        """Largest voltage drop of any leg of three-phase circuits, as a share of the leg's voltage, for `watts` (rows, legs) of
        each `circuit` at their rated voltage behind conductors of `ohm`, the neutral alike.
        """
        full = (self.power_factor * self.volts[circuit])[:, None]
        even = watts[:, EVEN:] / full * (1.0 if self.between_lines else 1 / np.sqrt(3))
        legs = watts[:, :EVEN] / full * (1.0 if self.between_lines else np.sqrt(3))
        others = np.roll(legs, -1, axis=1) / _TURN + np.roll(legs, 1, axis=1) * _TURN
        lagging = ohm * np.exp(-1j * np.arccos(self.power_factor))
        amps = 2 * legs + (-others if self.between_lines else others) + even
        leg_v = self.volts[circuit] / (1.0 if self.between_lines else np.sqrt(3))
        return np.asarray((amps * lagging).real.max(axis=1) / leg_v, dtype=np.float64)


def of_outlets(phases: list[str]) -> tuple[Ints, bool]:
    """Leg of each outlet, and whether they lie between two lines (outlets of a PDU are all of one kind)."""
    return np.array([_LEG[phase] for phase in phases], dtype=np.int64), any("-" in phase for phase in phases)


def leg_watts(leg: Ints, circuit: Ints, watts: Floats, own_w: Floats) -> Floats:
    """Watts (circuits, legs): those of the cords, and `own_w` of each circuit's end on all lines."""
    size = len(own_w)
    table = np.bincount(circuit * WIDTH + leg, watts, minlength=size * WIDTH).reshape(size, WIDTH).astype(np.float64)
    table[:, EVEN] += own_w
    return table
