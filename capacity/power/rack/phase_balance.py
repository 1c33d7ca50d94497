"""Phase balance of one rack PDU: swaps that better a first assignment, and a bound that no assignment beats.

In: outlets (phase, connector, bank) and cords with their watts in each state: normal, and after the loss of each other
feed. The measure is the largest phase load less the smallest over their mean, in percent, in the worst state. A cord
moves only to an outlet that mates with it, and never so that a bank goes above its breaker. What is already as good
stays as it is, so that built racks keep their cords.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ROUNDS = 40
"""Swaps at most per PDU: each makes the worst state better, most PDUs need none."""
STARTS, FAR_PCT = 8, 5.0
"""Shuffled starts, and how far above the bound swaps must have ended for them."""
WORTH_PCT = 1.0
"""Percent points that a swap has to gain; less is not worth a changed outlet map."""


def spread_pct(phase_w: Floats) -> Floats:
    """Imbalance in percent for phase loads (…, states, phases), worst state; 0 where nothing is loaded."""
    mean = phase_w.mean(axis=-1)
    spread = phase_w.max(axis=-1) - phase_w.min(axis=-1)
    return np.asarray(
        np.where(mean > 0, spread / np.where(mean > 0, mean, 1.0) * 100, 0.0).max(axis=-1), dtype=np.float64
    )


def representative_pct(spread: Floats, mean: Floats, half: Floats) -> Floats:
    """Difference between lines or phases in percent of their mean, but of at least half of what each carries continuously.

    `spread`, `mean` and `half` in the same unit, A or W. S088 asks for the balance under a representative load, which is half of
    the rating where two feeds share it (RC-086): a few hundred watts on one line of an almost empty PDU use up no line.
    """
    base = np.maximum(mean, half)
    return np.asarray(np.where(base > 0, spread / np.where(base > 0, base, 1.0) * 100, 0.0), dtype=np.float64)


def bound_pct(watts: Floats, phases: int) -> float:
    """Imbalance in percent that no assignment of `watts` (cords, states) to `phases` can beat; the worst state's.

    The fullest phase carries at least the mean, the largest cord, and by the pigeonhole principle the k+1 smallest of
    the k phases + 1 largest cords; the emptiest at most what is left over for the others, and at most the floor(n /
    phases) largest cords. And either two of the phases - 1 largest cords share a phase, or the last phase gets none of
    these.
    """
    return max((_bound(np.sort(state)[::-1], phases) for state in watts.T), default=0.0)


def _bound(ordered: Floats, phases: int) -> float:
    """`bound_pct` of one state; `ordered` from the largest cord to the smallest."""
    total, count = float(ordered.sum()), len(ordered)
    if total <= 0 or phases < 2:
        return 0.0
    fullest = max(total / phases, float(ordered[0]))
    for each in range(1, (count - 1) // phases + 1):
        fullest = max(fullest, float(ordered[each * (phases - 1) : each * phases + 1].sum()))
    emptiest = min((total - fullest) / (phases - 1), float(ordered[: count // phases].sum()))
    spread = fullest - emptiest
    top = float(ordered[: phases - 1].sum())
    apart = fullest - min(emptiest, total - top)
    together = spread
    if phases > 2 and count >= phases - 1:
        shared = max(fullest, float(ordered[phases - 3 : phases - 1].sum()))
        together = shared - min(emptiest, (total - shared) / (phases - 1))
    return max(spread, min(apart, together)) / (total / phases) * 100


def improve(
    chosen: Sequence[int], watts: Floats, fits: npt.NDArray[np.bool_], phase: Ints, bank: Ints, bank_limit_w: float
) -> Ints:
    """Better outlets for the cords of a PDU: the best that swaps make of `chosen` (outlet of each cord, -1 none).

    `watts` (cords, states); `fits` (cords, outlets); `phase` and `bank` of each outlet. Where swaps end FAR_PCT or more
    above the bound, they are tried again from assignments with the largest cord first and from STARTS shuffled ones
    (seeded: equal racks get equal outlets), and the best is kept if it gains WORTH_PCT.
    """
    best = np.array(chosen, dtype=np.int64)
    placed = np.flatnonzero(best >= 0)
    phases = int(phase.max()) + 1
    if len(placed) < 2 or phases < 2:
        return best
    pdu = _Pdu(placed, watts, fits, phase, bank, bank_limit_w, bound_pct(watts[placed], phases))
    best = _descend(best[None], pdu)[0]
    reached = float(spread_pct(pdu.sums(best[None], phase))[0])
    if reached < pdu.least_pct + FAR_PCT:
        return best
    shuffle = np.random.default_rng(0)
    orders = [placed[np.argsort(-watts[placed].max(axis=1), kind="stable")]]
    orders += [shuffle.permutation(placed) for _ in range(STARTS)]
    tried = _descend(_greedy(np.array(orders), pdu), pdu)
    for outlet, now in zip(tried, spread_pct(pdu.sums(tried, phase)).tolist(), strict=True):
        if now < reached - WORTH_PCT:
            best, reached = outlet, now
    return best


@dataclass(frozen=True, eq=False)
class _Pdu:
    """What is the same for all assignments of one PDU: arguments of `improve`, the cords that have an outlet, and the bound."""

    placed: Ints
    watts: Floats
    fits: npt.NDArray[np.bool_]
    phase: Ints
    bank: Ints
    bank_limit_w: float
    least_pct: float

    def sums(self, outlets: Ints, label: Ints) -> Floats:
        """Load of each phase, or bank, by the `label` of the outlets: (assignments, states, labels)."""
        table = np.zeros((len(outlets), int(label.max()) + 1, self.watts.shape[1]))
        at = np.arange(len(outlets))[:, None], label[outlets[:, self.placed]]
        np.add.at(table, at, self.watts[self.placed])
        return np.ascontiguousarray(table.transpose(0, 2, 1))


def _greedy(orders: Ints, pdu: _Pdu) -> Ints:
    """Outlets (assignments, cords) of the cords in each of these orders, each to the fitting free outlet of the phase that
    carries least. Orders in which a cord finds no outlet are left out.
    """
    count, states = len(orders), pdu.watts.shape[1]
    each, alive = np.arange(count), np.ones(count, dtype=bool)
    outlets = np.full((count, len(pdu.watts)), -1, dtype=np.int64)
    free = np.ones((count, len(pdu.phase)), dtype=bool)
    load = np.zeros((count, int(pdu.phase.max()) + 1, states))
    banked = np.zeros((count, int(pdu.bank.max()) + 1, states))
    for cord in orders.T:
        watts = pdu.watts[cord]
        room = (banked[:, pdu.bank] + watts[:, None]).max(axis=2) <= pdu.bank_limit_w
        open_ = free & pdu.fits[cord] & room
        alive &= open_.any(axis=1)
        place = np.where(open_, load.max(axis=2)[:, pdu.phase], np.inf).argmin(axis=1)
        outlets[each, cord], free[each, place] = place, False
        load[each, pdu.phase[place]] += watts
        banked[each, pdu.bank[place]] += watts
    return outlets[alive]


def _descend(outlets: Ints, pdu: _Pdu) -> Ints:
    """Each of the assignments (assignments, cords) with its best swap, again and again, until the bound or until no swap gains
    WORTH_PCT. All are taken one step at once.

    Moves to a free outlet count as swaps.
    """
    outlets = outlets.copy()
    going = np.arange(len(outlets))
    first, target = np.nonzero(pdu.fits[pdu.placed])
    first = pdu.placed[first]
    for _ in range(ROUNDS):
        load = pdu.sums(outlets[going], pdu.phase)
        now = spread_pct(load)
        more = now > pdu.least_pct + WORTH_PCT
        going, load, now = going[more], load[more], now[more]
        if not len(going):
            break
        better = _best_swaps(outlets[going], load, now, first, target, pdu)
        outlets[going], going = better, going[(better != outlets[going]).any(axis=1)]
    return outlets


def _best_swaps(outlets: Ints, load: Floats, now: Floats, first: Ints, target: Ints, pdu: _Pdu) -> Ints:
    """Each assignment with the swap that gains most, as it is where none gains WORTH_PCT. `load` of the phases and `now`, percent,
    are those of the assignments; cord `first` may be moved to outlet `target`.
    """
    count = len(outlets)
    each = np.arange(count)
    holder = np.full((count, len(pdu.phase)), -1, dtype=np.int64)
    holder[each[:, None], outlets[:, pdu.placed]] = pdu.placed
    other, own = holder[:, target], outlets[:, first]
    back = (other < 0) | pdu.fits[np.maximum(other, 0), own]
    at, pair = np.nonzero(back & (pdu.phase[target] != pdu.phase[own]) & ((other < 0) | (first < other)))
    other, own, first, target = other[at, pair], own[at, pair], first[pair], target[pair]
    shift = pdu.watts[first] - np.where((other >= 0)[:, None], pdu.watts[np.maximum(other, 0)], 0.0)
    row = np.arange(len(at))
    after = load[at]
    after[row, :, pdu.phase[own]] -= shift
    after[row, :, pdu.phase[target]] += shift
    banked = pdu.sums(outlets, pdu.bank)
    limit = np.maximum(banked.max(axis=(1, 2)), pdu.bank_limit_w)[at, None] + 1e-6
    given, taken = pdu.bank[own], pdu.bank[target]
    within = (banked[at, :, given] - shift <= limit) & (banked[at, :, taken] + shift <= limit)
    allowed = (given == taken) | within.all(axis=1)
    gain = np.where(allowed, now[at] - spread_pct(after), -np.inf)
    better = outlets.copy()
    ends = np.searchsorted(at, np.arange(count + 1))
    for number, (start, stop) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        if start == stop:
            continue
        best = start + int(gain[start:stop].argmax())
        if gain[best] >= WORTH_PCT:
            if other[best] >= 0:
                better[number, other[best]] = own[best]
            better[number, first[best]] = target[best]
    return better
